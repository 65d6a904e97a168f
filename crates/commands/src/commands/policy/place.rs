//! Finds the line of the TOML file for a line of a gate's text. The line in the file must be identical: with escapes or folded lines the
//! numbers do not match, and no place is better than a wrong one.

use serde::Deserialize;
use std::path::Path;
use toml::Spanned;

/// A file of policies, and where in it the text of each gate begins.
#[derive(Default)]
pub(super) struct Places {
    name: String,
    text: String,
    starts: Starts,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Starts {
    rbac: Option<Spanned<String>>,
    abac: Option<Spanned<String>>,
    consent: Option<Spanned<String>>,
    space: Option<Spanned<String>>,
}

/// A line of the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) file: String,
    /// The first line is 1.
    pub(super) line: usize,
    /// The number of characters on the line before the gate's text.
    pub(super) before: usize,
}

impl Places {
    /// Reads a TOML file. For any other file no place will be found.
    pub(super) fn read(path: &Path) -> Self {
        if path.extension().is_none_or(|extension| extension != "toml") {
            return Self::default();
        }
        let text = std::fs::read_to_string(path).unwrap_or_default();
        Self::of(&path.display().to_string(), text)
    }

    fn of(name: &str, text: String) -> Self {
        let starts = toml::from_str(&text).unwrap_or_default();
        Self { name: name.to_owned(), text, starts }
    }

    /// The place of line `line` of a gate's text. `said` is the content that this line must have.
    pub(super) fn find(&self, gate: &str, line: usize, said: &str) -> Option<Place> {
        let start = match gate {
            "rbac" => &self.starts.rbac,
            "abac" => &self.starts.abac,
            "consent" => &self.starts.consent,
            "space" => &self.starts.space,
            _ => &None,
        };
        let span = start.as_ref()?.span();
        let written = self.text.get(span.clone())?;
        let quotes = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quotes| written.starts_with(quotes))?;
        // A line end right after the quotes is not part of the text.
        let rest = &written[quotes.len()..];
        let trimmed = if quotes.len() == 3 { rest.strip_prefix("\r\n").or_else(|| rest.strip_prefix('\n')).unwrap_or(rest) } else { rest };
        let begins = span.start + (written.len() - trimmed.len());
        let first = self.text.get(..begins)?.matches('\n').count();
        let found = self.text.lines().nth(first + line.checked_sub(1)?)?;
        let before = if line == 1 { begins - self.text.get(..begins)?.rfind('\n').map_or(0, |at| at + 1) } else { 0 };
        // The closing quotes may follow on the last line.
        let is_it = found.get(before..)?.strip_prefix(said).is_some_and(|after| after.is_empty() || after.starts_with(quotes));
        is_it.then(|| Place { file: self.name.clone(), line: first + line, before: found[..before].chars().count() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, gate: &str, line: usize, said: &str) -> Option<(usize, usize)> {
        Places::of("p.toml", text.to_owned()).find(gate, line, said).map(|place| (place.line, place.before))
    }

    #[test]
    fn a_line_is_found_where_it_stands_in_the_file() {
        let text = "# rules\n\nabac = '''\none\n  two\n'''\nspace = \"\"\"three\nfour\"\"\"\nrbac = 'five'\n";
        assert_eq!(found(text, "abac", 1, "one"), Some((4, 0)));
        assert_eq!(found(text, "abac", 2, "  two"), Some((5, 0)));
        assert_eq!(found(text, "space", 1, "three"), Some((7, 11)));
        assert_eq!(found(text, "space", 2, "four"), Some((8, 0)));
        assert_eq!(found(text, "rbac", 1, "five"), Some((9, 8)));
        assert_eq!(found("a = 1\r\nabac = '''\r\none\r\ntwo'''\r\n", "abac", 2, "two"), Some((4, 0)));
    }

    #[test]
    fn no_place_is_better_than_a_wrong_one() {
        // No place is found in a folded text, in an escaped text, beyond the end, for a gate that is absent, and in a file that is not
        // TOML.
        assert_eq!(found("abac = \"\"\"one \\\n  two\nthree\"\"\"", "abac", 2, "three"), None);
        assert_eq!(found("abac = \"one\\ntwo\"", "abac", 2, "two"), None);
        assert_eq!(found("abac = 'one'", "abac", 2, "two"), None);
        assert_eq!(found("abac = 'one'", "space", 1, "one"), None);
        assert_eq!(found("abac: one", "abac", 1, "one"), None);
    }
}
