//! What belongs to an effect: its scope and limits, the checks after it, and the repair or rollback if a check fails.

use crate::limits::CALL_TIMEOUT_MS;
use crate::{Action, PrincipalId, Tier, Timestamp};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// One check after an effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Such as `result_schema`, `read_back`, or the command that was run.
    pub name: String,
    pub ok: bool,
    /// Why it failed, without secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl Check {
    pub fn passed(name: impl Into<String>) -> Self {
        Self { name: name.into(), ok: true, detail: None }
    }

    pub fn failed(name: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { name: name.into(), ok: false, detail: Some(detail.into()) }
    }
}

/// What an attempt is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// The effect that was requested.
    #[default]
    Effect,
    /// The same effect once more, because a check failed.
    Repair,
    /// The rollback of the effect, because a check failed.
    Rollback,
}

/// A repair or a rollback, and whether it succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remedy {
    pub attempted: bool,
    pub ok: bool,
}

impl Remedy {
    pub const DONE: Self = Self { attempted: true, ok: true };
    pub const FAILED: Self = Self { attempted: true, ok: false };
    pub const NOT_TRIED: Self = Self { attempted: false, ok: false };
}

/// What happened after the effect.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Aftermath {
    /// The checks of the last attempt. `None`: there was nothing to check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checks: Option<Vec<Check>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair: Option<Remedy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback: Option<Remedy>,
    /// The person who settled the call, if it was in doubt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<SettledBy>,
    /// That person's reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled_reason: Option<String>,
    /// How long its source asked to be left alone, if the last attempt found it busy, or how long its breaker is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// Whether a call that failed may be made again: what `FailureCause::permits_another` said of its last attempt.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_be_made_again: bool,
}

impl Aftermath {
    /// Whether there was an effect that failed its checks and was not rolled back.
    pub const fn is_left_over(&self) -> bool {
        matches!(self.rollback, Some(Remedy { ok: false, .. }))
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Who settled a call that was in doubt, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SettledBy {
    pub at: Timestamp,
    pub by: PrincipalId,
}

/// Where a call may act, narrower than its source would permit. An empty scope permits everything that the source permits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scope {
    /// These files are allowed, besides everything in `allowed_dirs`. If both are empty, everything is allowed.
    #[serde(default)]
    pub allowed_files: Vec<String>,
    #[serde(default)]
    pub allowed_dirs: Vec<String>,
    /// These are forbidden even if they are allowed above; a folder includes everything in it.
    #[serde(default)]
    pub forbidden_files: Vec<String>,
}

impl Scope {
    pub fn is_unbounded(&self) -> bool {
        *self == Self::default()
    }

    /// Whether a path may be touched. The path is relative to the source's root and has no `.` or `..`.
    pub fn permits(&self, path: &str) -> bool {
        let names = names_of(path);
        if names.is_none() || self.forbidden_files.iter().any(|forbidden| lies_in(path, forbidden)) {
            return false;
        }
        let is_open = self.allowed_files.is_empty() && self.allowed_dirs.is_empty();
        is_open
            || self.allowed_files.iter().any(|allowed| names_of(allowed) == names)
            || self.allowed_dirs.iter().any(|allowed| lies_in(path, allowed))
    }

    /// The entries that cannot be enforced, a pattern or a path that leads out: field, index and reason. A call with such an entry is
    /// refused; otherwise what the entry forbids would not be forbidden at all.
    pub fn unclear(&self) -> impl Iterator<Item = (&'static str, usize, &'static str)> {
        let fields =
            [("allowed_files", &self.allowed_files), ("allowed_dirs", &self.allowed_dirs), ("forbidden_files", &self.forbidden_files)];
        fields
            .into_iter()
            .flat_map(|(field, paths)| paths.iter().enumerate().filter_map(move |(at, path)| why_unclear(path).map(|why| (field, at, why))))
    }

    /// The allowed folders and the allowed files, as plain paths from the source's root. Both are empty if everything is allowed. Entries
    /// that cannot be understood are left out.
    pub fn allowed_paths(&self) -> (Vec<String>, Vec<String>) {
        let plain =
            |paths: &[String], end: fn(&str) -> &str| paths.iter().filter_map(|path| Some(names_of(end(path))?.join("/"))).collect();
        (plain(&self.allowed_dirs, folder_of), plain(&self.allowed_files, |path| path))
    }

    /// The forbidden paths, as plain paths from the source's root. Entries that cannot be understood are left out.
    pub fn forbidden_paths(&self) -> impl Iterator<Item = String> {
        self.forbidden_files.iter().filter_map(|forbidden| Some(names_of(folder_of(forbidden))?.join("/")))
    }
}

fn why_unclear(path: &str) -> Option<&'static str> {
    let plain = folder_of(path);
    if plain.is_empty() {
        Some("it is empty; `.` stands for all there is")
    } else if plain.contains(['*', '?']) {
        Some("patterns are not understood; name a file or a folder, or all that a folder holds as `folder/**`")
    } else if plain.chars().any(char::is_control) {
        Some("it holds a control character")
    } else if plain.contains('\\') {
        Some("names are divided by `/`, not by `\\`")
    } else if names_of(plain).is_none() {
        Some("it must be a path from the workspace on, without `..`")
    } else {
        None
    }
}

/// The names in a path; `None` if it contains `..` or starts at the root: such a path is never permitted.
fn names_of(path: &str) -> Option<Vec<&str>> {
    if path.starts_with('/') {
        return None;
    }
    let names: Vec<_> = path.split('/').filter(|name| !name.is_empty() && *name != ".").collect();
    (!names.contains(&"..")).then_some(names)
}

/// Whether a path is this folder or inside it. `src`, `src/`, `src/*` and `src/**` all name the folder.
fn lies_in(path: &str, folder: &str) -> bool {
    match (names_of(path), names_of(folder_of(folder))) {
        (Some(path), Some(folder)) => path.starts_with(&folder),
        // An entry that cannot be understood matches nothing: it neither allows nor forbids.
        (None, _) | (_, None) => false,
    }
}

fn folder_of(text: &str) -> &str {
    text.strip_suffix("/**").or_else(|| text.strip_suffix("/*")).unwrap_or(text)
}

/// Limits of a caller that are stricter than ours. They can only make a call stricter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    /// The lowest tier that the call counts as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<Tier>,
    /// The longest the call may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The highest number of retries after the first attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries_max: Option<u32>,
    /// The caller's label for the target, which adds one more circuit breaker key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub breaker_label: Option<String>,
}

impl Bounds {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether a call has less time than its action may take.
    pub fn shortens(&self, action: &Action) -> bool {
        self.timeout_ms.is_some_and(|timeout_ms| timeout_ms < action.timeout_ms.min(CALL_TIMEOUT_MS))
    }
}

/// The handle through which a source reports progress, as lines of text. The receiver limits them.
#[derive(Clone)]
pub struct Progress(Arc<dyn Fn(&str) + Send + Sync>);

impl Progress {
    pub fn new(tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }

    pub fn tell(&self, line: &str) {
        (self.0)(line);
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Progress")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(files: &[&str], dirs: &[&str], forbidden: &[&str]) -> Scope {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Scope { allowed_files: texts(files), allowed_dirs: texts(dirs), forbidden_files: texts(forbidden) }
    }

    #[test]
    fn a_scope_narrows_and_what_it_forbids_wins() {
        let cases = [
            (scope(&[], &[], &[]), "any/thing.txt", true),
            (scope(&["a.txt"], &[], &[]), "a.txt", true),
            (scope(&["./a.txt"], &[], &[]), "a.txt", true),
            (scope(&["a.txt"], &[], &[]), "b.txt", false),
            (scope(&["a.txt"], &[], &[]), "a.txt/b", false),
            (scope(&[], &["src"], &[]), "src/a/b.rs", true),
            (scope(&[], &["src/"], &[]), "src/a", true),
            (scope(&[], &["src/**"], &[]), "src/a", true),
            (scope(&[], &["src"], &[]), "srcs/a", false),
            (scope(&[], &["src"], &["src/secret"]), "src/secret", false),
            (scope(&[], &["src"], &["src/secret"]), "src//./secret", false),
            (scope(&[], &["src"], &["src/secret"]), "src/secret/deep", false),
            (scope(&[], &["src"], &["src/secret"]), "src/secrets", true),
            (scope(&[], &[], &[".env"]), ".env", false),
            (scope(&[], &[], &[]), "../a", false),
            (scope(&[], &[], &[]), "/etc/passwd", false),
            (scope(&["../a"], &[], &[]), "../a", false),
            (scope(&[], &[".."], &[]), "../a", false),
            (scope(&[], &["/"], &[]), "a", false),
        ];
        for (scope, path, expected) in cases {
            assert_eq!(scope.permits(path), expected, "{path} in {scope:?}");
        }
    }

    #[test]
    fn what_cannot_be_held_to_is_named() {
        let plain = ["a", "./b//c/", "d/**", "e/*", ".", "./**", ".env", "pages/[id].tsx", "grüße"];
        assert_eq!(scope(&plain, &plain, &plain).unclear().count(), 0);
        for odd in ["", "/", "/**", "/g", "../f", "a/../b", "**/.env", "*.key", "a?", "**", "*", "src/*/x", "a\nb", "a\0", "a\\b", "~/../x"]
        {
            let found: Vec<_> = scope(&[odd], &["a", odd], &["b", "c", odd]).unclear().map(|(field, at, _)| (field, at)).collect();
            assert_eq!(found, [("allowed_files", 0), ("allowed_dirs", 1), ("forbidden_files", 2)], "{odd:?}");
        }
    }

    #[test]
    fn what_is_forbidden_has_one_plain_path_or_none() {
        let forbidden = scope(&[], &[], &["a", "./b//c/", "d/**", "e/*", "../f", "/g"]);
        assert_eq!(forbidden.forbidden_paths().collect::<Vec<_>>(), ["a", "b/c", "d", "e"]);
    }
}
