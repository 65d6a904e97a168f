//! A problem with a policy, and its place in the text.

use countersign_core::decision::Gate;
use miette::Diagnostic;
use serde::{Deserialize, Serialize};

/// Why an org's policies are refused: one error to fix, at its place in the text of its gate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyProblem {
    pub gate: Gate,
    /// The policy's `@id`, where it is known.
    pub id: Option<String>,
    /// Counted from 1.
    pub line: u32,
    /// In characters, counted from 1.
    pub column: u32,
    pub message: String,
}

impl PolicyProblem {
    /// A problem at a byte of the gate's text.
    pub(super) fn at(gate: Gate, id: Option<&str>, text: &str, offset: usize, message: impl Into<String>) -> Self {
        let (line, column) = position(text, offset);
        Self { gate, id: id.map(str::to_owned), line, column, message: message.into() }
    }

    /// A problem that Cedar found, at the place Cedar gives, or at `fallback` if it gives none.
    pub(super) fn found(gate: Gate, id: Option<&str>, text: &str, fallback: usize, found: &dyn Diagnostic) -> Self {
        let offset = found.labels().and_then(|mut labels| labels.next()).map_or(fallback, |label| label.offset());
        let message = found.to_string();
        // The prefix is removed because the id is a field of its own.
        let message = id.and_then(|id| message.strip_prefix(&format!("for policy `{id}`, "))).unwrap_or(&message);
        Self::at(gate, id, text, offset, without_action(message))
    }

    /// Adds Cedar's advice to the message.
    pub(super) fn advised(mut self, found: &dyn Diagnostic) -> Self {
        if let Some(help) = found.help() {
            self.message = format!("{}: {help}", self.message);
        }
        self
    }
}

/// Removes the action from a message. Cedar checks a policy once for every action it is about and names that action, although the context
/// is the same for all of them.
fn without_action(message: &str) -> String {
    let named = message.split_once(" in context for ").and_then(|(what, rest)| rest.split_once(" not found").map(|(_, end)| (what, end)));
    named.map_or_else(|| message.to_owned(), |(what, end)| format!("{what} of the context not found{end}"))
}

/// The line and column of a byte; a byte inside a character counts as that character.
fn position(text: &str, offset: usize) -> (u32, u32) {
    let (mut line, mut column) = (1, 1);
    for (start, character) in text.char_indices() {
        if start + character.len_utf8() > offset {
            break;
        }
        (line, column) = if character == '\n' { (line + 1, 1) } else { (line, column + 1) };
    }
    (line, column)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_are_counted_from_one_in_characters() {
        let text = "ab\nçd\r\n\nx";
        for (offset, expected) in [(0, (1, 1)), (2, (1, 3)), (3, (2, 1)), (4, (2, 1)), (5, (2, 2)), (8, (3, 1)), (9, (4, 1)), (99, (4, 2))]
        {
            assert_eq!(position(text, offset), expected, "{offset}");
        }
    }
}
