//! What is wrong with a definition. All of it is told at once, each with its place and the next thing to try.

use serde::Serialize;

/// One thing that is wrong, at one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mistake {
    /// Where, as a JSON pointer (RFC 6901) from the root of what was read; empty for all of it.
    pub pointer: String,
    /// A stable word for programs: `cron_invalid`.
    pub code: &'static str,
    /// What is wrong, in one sentence of lower case.
    pub message: String,
    /// What to try next, often the nearest valid names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Mistake {
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { pointer: String::new(), code, message: message.into(), hint: None }
    }

    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// The same mistake, seen from the value that has the read one at `prefix`, itself a pointer.
    #[must_use]
    pub fn under(self, prefix: &str) -> Self {
        Self { pointer: format!("{prefix}{}", self.pointer), ..self }
    }
}

/// A sentence of a library, as ours begin.
pub(crate) fn in_lower_case(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}
