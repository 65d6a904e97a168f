//! Which files a call changed, read from its rollback evidence. For each file, the evidence of a source that changes files has the path and
//! the digests of the content before and after.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileChange {
    Created,
    Changed,
    Removed,
}

impl FileChange {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Changed => "changed",
            Self::Removed => "removed",
        }
    }

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
    Some(ChangedFile { path, change })
}

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
    fn reverting_twice_changes_nothing() {
        for change in [FileChange::Created, FileChange::Changed, FileChange::Removed] {
            assert_eq!(change.reverted().reverted(), change);
        }
    }
}
