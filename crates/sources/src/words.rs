//! Errors and message texts that all sources share.

use countersign_core::limits::SOURCE_EARLY_MS;
use countersign_core::source::{CallContext, Error};
use std::time::Duration;

pub(crate) fn refused(code: &'static str, message: impl Into<String>) -> Error {
    Error::Refused { code, message: message.into() }
}

pub(crate) fn failed(code: &'static str, message: impl Into<String>) -> Error {
    Error::Failed { code, message: message.into() }
}

/// How long a source lets a call take: a little less than its caller does, so that the caller gets the source's own error.
pub(crate) fn patience(context: &CallContext) -> Duration {
    Duration::from_millis(context.timeout_ms - (context.timeout_ms / 10).min(SOURCE_EARLY_MS))
}

/// A caller's text, made safe to show in a message: characters that could hide or rewrite the rest are escaped, and it is cut to a short
/// length.
pub(crate) fn shown(text: &str) -> String {
    const CHARS_MAX: usize = 120;
    let mut shown: String = text.chars().take(CHARS_MAX).flat_map(char::escape_debug).collect();
    if text.chars().nth(CHARS_MAX).is_some() {
        shown.push('…');
    }
    shown
}

/// The output of another program, on one line and cut to a short length. Quotes are not escaped, because they usually quote somebody's
/// text.
pub(crate) fn said(text: &str) -> String {
    const CHARS_MAX: usize = 300;
    let mut said = String::new();
    for character in text.chars().take(CHARS_MAX) {
        match character {
            '"' | '\'' => said.push(character),
            other => said.extend(other.escape_debug()),
        }
    }
    said
}

/// The line of a log that most often names the error: the last one. Node is an exception: it ends with the place and its own version, and
/// names the error above them.
pub(crate) fn last_line(log: &str) -> Option<&str> {
    let mut lines = log.lines().rev().map(str::trim).filter(|line| !line.is_empty()).peekable();
    if !lines.peek()?.starts_with("Node.js v") {
        return lines.next();
    }
    let is_error = |line: &&str| line.split_once(':').is_some_and(|(name, _)| name.ends_with("Error") && !name.contains(' '));
    lines.clone().find(is_error).or_else(|| lines.nth(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_keeps_its_quotes_and_stays_on_one_line() {
        assert_eq!(said("it's \"x\"\n\u{1b}[2J\u{202e}"), "it's \"x\"\\n\\u{1b}[2J\\u{202e}");
        assert_eq!(said(&"x".repeat(1_000)).len(), 300);
    }

    #[test]
    fn the_line_that_says_what_went_wrong_is_found() {
        let node = "/package/execute.js:3\n    boom();\n    ^\n\nTypeError: boom is not a function\n    at Object.<anonymous> (/package/execute.js:3:1)\n    at node:internal/main/run_main_module:28:49\n\nNode.js v20.20.2\n";
        let object = "Error: getaddrinfo EAI_AGAIN example.com\n    at x {\n  errno: -3001,\n  code: 'EAI_AGAIN'\n}\n\nNode.js v20.20.2";
        for (log, expected) in [
            ("", None),
            ("\n \n", None),
            ("one\ntwo\n", Some("two")),
            ("Traceback (most recent call last):\n  File \"x\"\nValueError: no\n", Some("ValueError: no")),
            ("Error: handled\nall is lost", Some("all is lost")),
            (node, Some("TypeError: boom is not a function")),
            (object, Some("Error: getaddrinfo EAI_AGAIN example.com")),
            ("thrown\nNode.js v20.20.2", Some("thrown")),
        ] {
            assert_eq!(last_line(log), expected, "{log}");
        }
    }
}
