//! How a chapter of the story ends.

use api::invocation::InvocationView;

/// How a chapter ended: as it is told, or as the person decided instead.
pub(super) struct End {
    pub(super) is_as_told: bool,
    pub(super) words: String,
}

impl End {
    pub(super) fn new(is_as_told: bool, words: String) -> Self {
        Self { is_as_told, words }
    }

    /// The end that is told, or what became of the last call instead.
    pub(super) fn told(is_as_told: bool, words: String, last: &InvocationView) -> Self {
        Self::new(is_as_told, if is_as_told { words } else { became(last) })
    }
}

/// What became of a call, where the story wanted otherwise.
fn became(call: &InvocationView) -> String {
    let why = call.error.as_ref().map(|error| format!(": {}", error.message)).unwrap_or_default();
    format!("it went otherwise: `{}` is {}{why}", call.action, call.status)
}
