//! Where a line of a gate's text stands in the TOML file a person edits. What the file says there must be that very line: escapes and
//! folded lines make others of it, and then no place is better than a wrong one.

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
    /// From 1.
    pub(super) line: usize,
    /// How many characters of the line stand before the text of the gate.
    pub(super) before: usize,
}

impl Places {
    /// Of a TOML file; of anything else none.
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

    /// Where the line of this number of a gate's text stands; `said` is what it says.
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
        // The last line may be followed by the quotes.
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
        // Folded, escaped, beyond the end, absent, and not TOML at all.
        assert_eq!(found("abac = \"\"\"one \\\n  two\nthree\"\"\"", "abac", 2, "three"), None);
        assert_eq!(found("abac = \"one\\ntwo\"", "abac", 2, "two"), None);
        assert_eq!(found("abac = 'one'", "abac", 2, "two"), None);
        assert_eq!(found("abac = 'one'", "space", 1, "one"), None);
        assert_eq!(found("abac: one", "abac", 1, "one"), None);
    }
}
