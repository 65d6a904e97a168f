//! What all sources say in the same words.

use countersign_core::source::{CallContext, Error};
use std::time::Duration;

pub(crate) fn refused(code: &'static str, message: impl Into<String>) -> Error {
    Error::Refused { code, message: message.into() }
}

pub(crate) fn failed(code: &'static str, message: impl Into<String>) -> Error {
    Error::Failed { code, message: message.into() }
}

/// How long a source lets a call take: a little less than its caller does, so that the source's own words are heard.
pub(crate) fn patience(context: &CallContext) -> Duration {
    Duration::from_millis(context.timeout_ms - (context.timeout_ms / 10).min(250))
}

/// A caller's text as it may stand in a message: without what could hide or rewrite the rest, and not for pages.
pub(crate) fn shown(text: &str) -> String {
    const CHARS_MAX: usize = 120;
    let mut shown: String = text.chars().take(CHARS_MAX).flat_map(char::escape_debug).collect();
    if text.chars().nth(CHARS_MAX).is_some() {
        shown.push('…');
    }
    shown
}
