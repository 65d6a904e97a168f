//! What surrounds an effect: what was kept before it, what was checked after it, and what was done when a check failed.

use crate::source::Output;
use crate::{PrincipalId, Tier, Timestamp};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// One thing that was looked at after an effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Such as `result_schema`, `read_back`, or the command that was run.
    pub name: String,
    pub ok: bool,
    /// Why not, in words that quote nothing secret.
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
    /// The effect that was asked for.
    #[default]
    Effect,
    /// The same once more, because a check failed.
    Repair,
    /// Taking it back, because a check failed.
    Rollback,
}

/// A repair or a rollback, and whether it did what it was for.
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

/// What came after the effect.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Aftermath {
    /// Of the last try. `None`: nothing was there to be checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checks: Option<Vec<Check>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair: Option<Remedy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback: Option<Remedy>,
    /// Who said how it ended, where nobody else could know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<SettledBy>,
    /// In whose words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled_reason: Option<String>,
}

impl Aftermath {
    /// Whether there was an effect that failed its checks and was not taken back.
    pub const fn is_left_over(&self) -> bool {
        matches!(self.rollback, Some(Remedy { ok: false, .. }))
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A person's word on an effect that was in doubt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SettledBy {
    pub at: Timestamp,
    pub by: PrincipalId,
}

/// Where a call may act, narrower than its source would let it. Nothing said means: wherever the source acts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scope {
    /// These files, besides what lies in `allowed_dirs`. With both empty, everything.
    #[serde(default)]
    pub allowed_files: Vec<String>,
    #[serde(default)]
    pub allowed_dirs: Vec<String>,
    /// Whatever else is said, not these; a folder stands for all it holds.
    #[serde(default)]
    pub forbidden_files: Vec<String>,
}

impl Scope {
    pub fn is_unbounded(&self) -> bool {
        *self == Self::default()
    }

    /// Whether a path, relative to where the source acts and without `.` or `..`, may be touched.
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

    /// What is said and cannot be held to: a pattern, or a path that leads out. Where, and why not. A call that says such a thing is
    /// refused: what it forbids would be forbidden nowhere.
    pub fn unclear(&self) -> impl Iterator<Item = (&'static str, usize, &'static str)> {
        let fields =
            [("allowed_files", &self.allowed_files), ("allowed_dirs", &self.allowed_dirs), ("forbidden_files", &self.forbidden_files)];
        fields
            .into_iter()
            .flat_map(|(field, paths)| paths.iter().enumerate().filter_map(move |(at, path)| why_unclear(path).map(|why| (field, at, why))))
    }

    /// What is allowed, each as a plain path from where the source acts: folders with all they hold, then files. Empty where everything
    /// is. What cannot be understood names nothing there.
    pub fn allowed_paths(&self) -> (Vec<String>, Vec<String>) {
        let plain =
            |paths: &[String], end: fn(&str) -> &str| paths.iter().filter_map(|path| Some(names_of(end(path))?.join("/"))).collect();
        (plain(&self.allowed_dirs, folder_of), plain(&self.allowed_files, |path| path))
    }

    /// What is forbidden, each as a plain path from where the source acts. What cannot be understood names nothing there.
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

/// The names a path is made of; `None` when it climbs or starts at the root: such a path is permitted nowhere.
fn names_of(path: &str) -> Option<Vec<&str>> {
    if path.starts_with('/') {
        return None;
    }
    let names: Vec<_> = path.split('/').filter(|name| !name.is_empty() && *name != ".").collect();
    (!names.contains(&"..")).then_some(names)
}

/// Whether a path is this one or beneath it. `src`, `src/`, `src/*` and `src/**` all name the folder.
fn lies_in(path: &str, folder: &str) -> bool {
    match (names_of(path), names_of(folder_of(folder))) {
        (Some(path), Some(folder)) => path.starts_with(&folder),
        // What cannot be understood forbids nothing it does not name, and allows nothing.
        (None, _) | (_, None) => false,
    }
}

fn folder_of(text: &str) -> &str {
    text.strip_suffix("/**").or_else(|| text.strip_suffix("/*")).unwrap_or(text)
}

/// What a caller wants stricter than we would have it. It can only tighten.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    /// At least as risky as this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<Tier>,
    /// At most this long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// At most this many tries after the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries_max: Option<u32>,
    /// What the caller calls the target; a label within our own key for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub breaker_label: Option<String>,
}

impl Bounds {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What became of an effect nobody saw the end of.
#[derive(Clone, Debug, PartialEq)]
pub enum Reconciled {
    Happened(Output),
    /// Nothing of it is there.
    DidNot,
    /// Only who was asked for it can tell, and only when asked for the same once more under a key it knows: who has no such effect yet
    /// makes it then. So this is announced first.
    ByAskingAgain,
    /// A person has to say.
    Unknown,
}

/// Where a source tells how far it has come. Lines of text, bounded by whoever listens.
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
