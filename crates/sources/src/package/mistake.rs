//! A mistake in a package, for its author: the file, the place in it, what is wrong, and what to do. All mistakes are collected, not only
//! the first.

use countersign_core::json::path_of;
use countersign_core::nearest::ranked;
use std::fmt;

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// A path in the package; empty if the mistake concerns the package as a whole.
    pub file: String,
    pub place: Place,
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

/// The place in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Place {
    #[default]
    Whole,
    /// A JSON pointer to a field (RFC 6901).
    Field(String),
    /// Counted from 1.
    Text { line: u32, column: u32 },
}

impl Mistake {
    pub(super) fn new(file: impl Into<String>, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { file: file.into(), place: Place::Whole, message: message.into(), hint: hint.into() }
    }

    /// The same mistake, with its file below `folder`.
    #[must_use]
    pub(super) fn below(&self, folder: &str) -> Self {
        Self { file: format!("{folder}{}", self.file).trim_end_matches('/').to_owned(), ..self.clone() }
    }

    #[must_use]
    pub(super) fn at_field(self, pointer: impl Into<String>) -> Self {
        Self { place: Place::Field(pointer.into()), ..self }
    }

    #[must_use]
    pub(super) fn at_text(self, line: u32, column: u32) -> Self {
        Self { place: Place::Text { line, column }, ..self }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.place, self.file.as_str()) {
            (_, "") => {}
            (Place::Whole, file) => write!(f, "{file}: ")?,
            (Place::Field(pointer), file) => write!(f, "{file}: `{}`: ", path_of(pointer))?,
            (Place::Text { line, column }, file) => write!(f, "{file}:{line}:{column}: ")?,
        }
        f.write_str(&self.message)
    }
}

/// All mistakes in one sentence: the first, and how many more there are.
pub(super) fn in_short(mistakes: &[Mistake]) -> String {
    match mistakes {
        [] => "nothing is wrong with it".to_owned(),
        [only] => only.to_string(),
        [first, rest @ ..] => format!("{first} (and {} more)", rest.len()),
    }
}

/// Similarity below which a suggestion would only confuse.
const LIKENESS_MIN: f64 = 0.75;

/// The word that the author probably meant.
pub(super) fn nearest<'w>(said: &str, words: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    ranked(said, words, LIKENESS_MIN, str::to_lowercase).first().map(|(_, word)| *word)
}

/// Suggests the nearest word if there is one, and lists all of them.
pub(super) fn one_of(said: &str, words: &[&str]) -> String {
    let all = words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    match nearest(said, words.iter().copied()) {
        Some(meant) if words.len() == 1 => format!("did you mean `{meant}`?"),
        Some(meant) => format!("did you mean `{meant}`? there are {all}"),
        None => format!("there are {all}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_miss_is_guessed_and_anything_else_is_not() {
        let words = ["succeeded", "failed", "reverted", "in_doubt"];
        for (said, expected) in [
            ("sucess", Some("succeeded")),
            ("success", Some("succeeded")),
            ("Failed", Some("failed")),
            ("fail", Some("failed")),
            ("in-doubt", Some("in_doubt")),
            ("great", None),
            ("", None),
        ] {
            assert_eq!(nearest(said, words), expected, "{said}");
        }
        assert_eq!(nearest("failed", []), None);
    }

    #[test]
    fn a_mistake_says_where_it_is_in_the_words_of_who_wrote_it() {
        let mistake = Mistake::new("a.json", "it is wrong", "mend it");
        assert_eq!(mistake.clone().to_string(), "a.json: it is wrong");
        assert_eq!(mistake.clone().at_field("/a/0").to_string(), "a.json: `a[0]`: it is wrong");
        assert_eq!(mistake.clone().at_text(3, 7).to_string(), "a.json:3:7: it is wrong");
        assert_eq!(in_short(&[mistake.clone(), mistake.clone(), mistake]), "a.json: it is wrong (and 2 more)");
        assert_eq!(Mistake::new("", "it is empty", "").to_string(), "it is empty");
    }
}
