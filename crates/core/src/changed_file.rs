//! Which files a call changed, read from its rollback evidence, and which changes deserve a second look. For each file, the evidence of a
//! source that changes files has the path and the digests of the content before and after.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileChange {
    Created,
    Changed,
    Removed,
}

crate::words!(FileChange { Created = "created", Changed = "changed", Removed = "removed" });

impl FileChange {
    /// What a revert does to the file.
    #[must_use]
    pub const fn reverted(self) -> Self {
        match self {
            Self::Created => Self::Removed,
            Self::Changed => Self::Changed,
            Self::Removed => Self::Created,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedFile {
    pub path: String,
    pub change: FileChange,
    /// The permissions of the file, where they are known.
    pub mode: Option<u32>,
}

/// The changed files, in the order they were changed. Empty if the evidence is about something else, or nothing changed.
pub fn changed_files(evidence: &Value) -> Vec<ChangedFile> {
    match evidence.get("files") {
        Some(Value::Array(files)) => files.iter().filter_map(changed_file).collect(),
        Some(_) | None => changed_file(evidence).into_iter().collect(),
    }
}

fn changed_file(evidence: &Value) -> Option<ChangedFile> {
    let path = evidence.get("path")?.as_str()?.to_owned();
    let (before, after) = (evidence.get("previous_sha256")?, evidence.get("new_sha256")?);
    let change = match (before.is_null(), after.is_null()) {
        (true, false) => FileChange::Created,
        (false, true) => FileChange::Removed,
        (false, false) if before != after => FileChange::Changed,
        (false, false) | (true, true) => return None,
    };
    let mode = ["mode", "new_mode"].iter().find_map(|name| evidence.get(name)?.as_u64()).and_then(|mode| u32::try_from(mode).ok());
    Some(ChangedFile { path, change, mode })
}

/// Adds to the preview of a file that is written why a person should look twice: it can be executed, or some program runs what is found
/// under its name without being asked to.
pub fn warn(preview: &mut Value, path: &str, mode: Option<u32>) {
    let is_executable = mode.is_some_and(|mode| mode & 0o111 != 0);
    let executable = is_executable.then(|| "it is an executable file".to_owned());
    // A file system may ignore case.
    let names = format!("/{}/", path.to_ascii_lowercase());
    let run = RUN_UNASKED.iter().find(|(name, _)| names.contains(&format!("/{name}/")));
    let run = run.map(|(name, who)| format!("{who} may run it without being asked (`{name}`)"));
    let warnings: Vec<_> = executable.into_iter().chain(run).collect();
    if !warnings.is_empty() {
        preview["warnings"] = json!(warnings);
    }
}

/// Files and folders, in lower case, from which programs run things by themselves, and who runs them.
const RUN_UNASKED: [(&str, &str); 27] = [
    (".git", "git"),
    (".githooks", "git"),
    (".husky", "git"),
    (".pre-commit-config.yaml", "git"),
    (".github/workflows", "GitHub"),
    (".github/actions", "GitHub"),
    (".gitlab-ci.yml", "GitLab"),
    (".circleci", "CircleCI"),
    (".vscode", "an editor"),
    (".idea", "an editor"),
    (".devcontainer", "an editor"),
    (".claude", "a coding agent"),
    (".codex", "a coding agent"),
    (".cursor", "a coding agent"),
    (".mcp.json", "a coding agent"),
    (".envrc", "a shell"),
    (".profile", "a shell"),
    (".bashrc", "a shell"),
    (".bash_login", "a shell"),
    (".bash_profile", "a shell"),
    (".zprofile", "a shell"),
    (".zshenv", "a shell"),
    (".zshrc", "a shell"),
    (".ssh", "ssh"),
    (".config/autostart", "the desktop"),
    (".config/systemd", "systemd"),
    ("cron.d", "cron"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_was_kept_tells_what_changed() {
        let file = |path: &str, before: Value, after: Value| json!({ "path": path, "previous_sha256": before, "new_sha256": after });
        let told = |evidence: &Value| {
            changed_files(evidence).into_iter().map(|file| format!("{} {}", file.change.as_str(), file.path)).collect::<Vec<_>>()
        };
        assert_eq!(told(&file("a", json!(null), json!("1"))), ["created a"]);
        assert_eq!(told(&file("a", json!("1"), json!("2"))), ["changed a"]);
        assert_eq!(told(&file("a", json!("1"), json!(null))), ["removed a"]);
        assert!(told(&file("a", json!("1"), json!("1"))).is_empty());
        let journal = json!({ "files": [file("b", json!("1"), json!("2")), file("c", json!(null), json!("3"))], "result_sha256": "4" });
        assert_eq!(told(&journal), ["changed b", "created c"]);
        for other in [json!(null), json!({ "idempotency_key": "k" }), json!({ "path": 3 }), json!({ "files": 3 }), json!([1])] {
            assert!(told(&other).is_empty(), "{other}");
        }
    }

    #[test]
    fn what_can_be_executed_or_is_run_unasked_deserves_a_second_look() {
        let git = "git may run it without being asked (`.git`)";
        for (path, mode, expected) in [
            ("notes.md", None, vec![]),
            ("notes.md", Some(0o644), vec![]),
            ("run.sh", Some(0o755), vec!["it is an executable file"]),
            ("run.sh", Some(0o610), vec!["it is an executable file"]),
            (".git/hooks/pre-commit", Some(0o755), vec!["it is an executable file", git]),
            ("deep/down/.GIT/config", None, vec![git]),
            (".github/workflows/ci.yml", None, vec!["GitHub may run it without being asked (`.github/workflows`)"]),
            (".envrc", None, vec!["a shell may run it without being asked (`.envrc`)"]),
            (".github/CODEOWNERS", None, vec![]),
            (".gitignore", None, vec![]),
            ("a.git/x", None, vec![]),
            ("docs/git/hooks/x", None, vec![]),
        ] {
            let mut preview = json!({});
            warn(&mut preview, path, mode);
            let expected = if expected.is_empty() { json!({}) } else { json!({ "warnings": expected }) };
            assert_eq!(preview, expected, "{path} {mode:?}");
        }
        assert!(RUN_UNASKED.iter().all(|(name, _)| *name == name.to_ascii_lowercase()));
    }

    #[test]
    fn reverting_twice_changes_nothing() {
        for change in [FileChange::Created, FileChange::Changed, FileChange::Removed] {
            assert_eq!(change.reverted().reverted(), change);
        }
    }
}
