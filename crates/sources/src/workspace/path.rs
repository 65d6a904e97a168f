//! Which spellings of a path are accepted: exactly one per file, so that rules, approvals and receipts name the file that is touched. Pure:
//! `root` deals with the file behind the path.

use crate::limits::{FILE_DEPTH_MAX, FILE_NAME_BYTES_MAX};
use crate::words::{refused, shown};
use countersign_core::clean::is_deceptive;
use countersign_core::limits::FILE_PATH_BYTES_MAX;
use countersign_core::source::Error;
use unicode_normalization::{UnicodeNormalization as _, is_nfc};

/// Names with this prefix are reserved for us: files that are being written, and the probe for case sensitivity.
pub(crate) const RESERVED_PREFIX: &str = ".countersign";

/// A path relative to the workspace, in its only accepted spelling: legal names with one `/` between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WorkspacePath(String);

impl WorkspacePath {
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let outside = |why: &str| Err(refused("path_outside_workspace", format!("`{}` leaves the workspace: {why}", shown(text))));
        let not_allowed = |why: &str| Err(refused("path_not_allowed", format!("`{}` is not an allowed path: {why}", shown(text))));
        if text.is_empty() {
            return not_allowed("it is empty");
        }
        if text.len() > FILE_PATH_BYTES_MAX {
            return not_allowed(&format!("it is longer than {FILE_PATH_BYTES_MAX} bytes"));
        }
        if let Some(odd) = text.chars().find(|&character| is_deceptive(character) && !is_variation(character)) {
            return not_allowed(&format!("it holds U+{:04X}, which is invisible or passes for something else", u32::from(odd)));
        }
        if !is_nfc(text) {
            let composed: String = text.nfc().collect();
            return not_allowed(&format!("a file has one spelling; write it as `{}`, in Unicode's form NFC", shown(&composed)));
        }
        if text.contains('\\') {
            return not_allowed("divide names with `/`, not with a backslash");
        }
        if text.starts_with('/') {
            return outside("it begins with `/`; paths are relative to the workspace");
        }
        if text.starts_with('~') {
            return outside("it begins with `~`; paths are relative to the workspace");
        }
        if text.split('/').any(|name| name == "..") {
            return outside("it holds `..`");
        }
        if text.split('/').any(|name| name.is_empty() || name == ".") {
            let clean: Vec<&str> = text.split('/').filter(|name| !name.is_empty() && *name != ".").collect();
            return not_allowed(&format!("a file has one spelling; write it as `{}`", shown(&clean.join("/"))));
        }
        if text.split('/').count() > FILE_DEPTH_MAX {
            return not_allowed(&format!("it is deeper than {FILE_DEPTH_MAX} names"));
        }
        match text.split('/').find_map(why_not_a_name) {
            Some(why) => not_allowed(&why),
            None => Ok(Self(text.to_owned())),
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The names of the folders on the way, the outermost first.
    pub(crate) fn folders(&self) -> Vec<&str> {
        let mut names = self.names();
        names.pop();
        names
    }

    /// The paths of the innermost `count` folders on the way, the outermost first.
    pub(crate) fn last_folders(&self, count: usize) -> Vec<String> {
        let folders = self.folders();
        (folders.len().saturating_sub(count)..folders.len()).map(|last| folders[..=last].join("/")).collect()
    }

    pub(crate) fn names(&self) -> Vec<&str> {
        self.0.split('/').collect()
    }

    /// The last name.
    pub(crate) fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }
}

pub(crate) fn is_reserved(name: &str) -> bool {
    // Compared without case, because the file system may ignore case.
    name.get(..RESERVED_PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(RESERVED_PREFIX))
}

fn why_not_a_name(name: &str) -> Option<String> {
    if name.len() > FILE_NAME_BYTES_MAX {
        return Some(format!("one of its names is longer than {FILE_NAME_BYTES_MAX} bytes"));
    }
    // Some file systems drop these characters, and then two spellings would name one file.
    if name.ends_with('.') {
        return Some("one of its names ends with a dot".to_owned());
    }
    if name.starts_with(char::is_whitespace) || name.ends_with(char::is_whitespace) {
        return Some("one of its names begins or ends with a space".to_owned());
    }
    is_reserved(name).then(|| format!("names that begin with `{RESERVED_PREFIX}` are reserved"))
}

/// Emoji in names need these. Whatever shows a path shows them as escapes.
const fn is_variation(character: char) -> bool {
    matches!(character, '\u{fe00}'..='\u{fe0f}')
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Spellings that leave the workspace, or try to.
    pub(crate) const OUTSIDE: &[&str] = &[
        "..",
        "../",
        "../x",
        "../../etc/passwd",
        "a/..",
        "a/../b",
        "a/../../x",
        "a/b/../../../x",
        "./../x",
        ".//../x",
        "a/./../../x",
        "/",
        "/etc/passwd",
        "//etc/passwd",
        "///x",
        "/./x",
        "/../x",
        "/proc/self/root/etc/passwd",
        "/dev/full",
        "~",
        "~/x",
        "~root/.ssh/authorized_keys",
        "~+/x",
    ];

    /// Spellings that stay inside the workspace but are not the accepted one.
    pub(crate) const NOT_ALLOWED: &[&str] = &[
        "",
        ".",
        "./",
        "./x",
        "x/",
        "x//y",
        "x/./y",
        "x/.",
        "a//",
        "a///b",
        "\0",
        "x\0",
        "x\0.txt",
        "../x\0",
        "a/\0/b",
        "a\nb",
        "a\r\nb",
        "a\tb",
        "\u{1b}[31mred",
        "a\u{7f}",
        "a\u{85}b",
        "..\\..\\x",
        "a\\b",
        "\\",
        "\\\\server\\share",
        "C:\\x",
        "x.",
        "x. ",
        "x ",
        " x",
        "a /b",
        "a./b",
        "...",
        "a\u{a0}",
        "\u{3000}a",
        "photo\u{202e}gpj.exe",
        "a\u{2066}b",
        "a\u{200b}b",
        "a\u{200d}b",
        "\u{feff}x",
        "a\u{2028}b",
        "a\u{ad}b",
        "a\u{e0041}b",
        "a\u{e0100}",
        "a\u{3164}b",
        "\u{2024}\u{2024}/x",
        "\u{2025}/x",
        "a\u{2024}txt",
        "a\u{fdd0}b",
        "a\u{ffff}",
        "e\u{301}",
        "a/cafe\u{301}.txt",
        "\u{212b}",
        "q\u{301}\u{323}",
        ".countersign",
        ".countersign-x",
        ".Countersign-x",
        ".COUNTERSIGN",
        "a/.countersign-1/b",
        "a/.countersign",
    ];

    fn code(text: &str) -> &'static str {
        WorkspacePath::parse(text).map_or_else(|error| error.code(), |_| "accepted")
    }

    #[test]
    fn what_leaves_the_workspace_is_refused() {
        for text in OUTSIDE {
            assert_eq!(code(text), "path_outside_workspace", "{text:?}");
        }
    }

    #[test]
    fn what_is_not_the_one_spelling_is_refused() {
        for text in NOT_ALLOWED {
            assert_eq!(code(text), "path_not_allowed", "{text:?}");
        }
        assert_eq!(code(&"x".repeat(256)), "path_not_allowed");
        assert_eq!(code(&format!("{}/y", "é".repeat(128))), "path_not_allowed");
        assert_eq!(code(&["ab"; 400].join("/")), "path_not_allowed");
        assert_eq!(code(&["a"; FILE_DEPTH_MAX + 1].join("/")), "path_not_allowed");
    }

    #[test]
    fn odd_but_harmless_names_are_taken_byte_for_byte() {
        for text in [
            "x",
            "notes/today.md",
            ".gitignore",
            "..x",
            "x..y",
            "a~",
            "a/~b",
            "%2e%2e/x",
            "..%2fx",
            "．．/x",
            "C:",
            "con",
            "a:b",
            "$HOME",
            "`id`",
            "a;b",
            "-rf",
            "*",
            "A.txt",
            "q\u{323}\u{301}",
            "é",
            "日本語",
            "a b",
            ".counter",
            "❤\u{fe0f}.txt",
        ] {
            assert_eq!(WorkspacePath::parse(text).unwrap().as_str(), text);
        }
        assert_eq!(code(&"x".repeat(255)), "accepted");
        assert_eq!(code(&["a"; FILE_DEPTH_MAX].join("/")), "accepted");
    }

    #[test]
    fn a_refusal_says_the_spelling_to_use_and_hides_nothing() {
        let message = WorkspacePath::parse("./a//b/").unwrap_err().to_string();
        assert!(message.contains("write it as `a/b`"), "{message}");
        let message = WorkspacePath::parse("cafe\u{301}.txt").unwrap_err().to_string();
        assert!(message.starts_with("`cafe\\u{301}.txt` is not") && message.contains("write it as `café.txt`"), "{message}");
        let message = WorkspacePath::parse("a\u{202e}b\n").unwrap_err().to_string();
        assert!(message.contains("\\u{202e}") && !message.contains('\u{202e}') && !message.contains('\n'), "{message}");
    }

    proptest! {
        #[test]
        fn an_accepted_path_never_climbs_and_never_changes(text in "[a./~\\\\ \u{0}\u{202e}é]{0,12}|\\PC{0,40}") {
            if let Ok(path) = WorkspacePath::parse(&text) {
                prop_assert_eq!(path.as_str(), &text);
                prop_assert_eq!(path.names().join("/"), text.clone());
                prop_assert!(path.names().iter().all(|name| why_not_a_name(name).is_none() && !["", ".", ".."].contains(name)));
                prop_assert!(!text.starts_with(['/', '~']) && !text.contains(['\\', '\0', '\n']));
                let mut folders = path.folders();
                folders.push(path.name());
                prop_assert_eq!(folders, path.names());
            }
        }
    }
}
