//! Notices: what channels tell people about calls that wait for them. No call waits for a channel, and none fails with it: the store's outbox
//! is filled from the events that calls publish anyway, and `courier` delivers what is due, each channel by itself.
//!
//! A kind of channel is a file: its settings, and the `Wire` by which its notices travel. `KINDS` lists them all; nothing else names one, but
//! what people press in Slack comes in by a way of its own.

pub mod limits;
pub mod slack;
pub mod webhook;

mod courier;
mod facts;
mod kind;
mod sample;
mod secret;
mod smtp;
mod who;

pub use courier::{Courier, CourierConfig};
pub use kind::Kind;

use countersign_core::channel::{Channel, Moment};
use countersign_core::{Future, Invocation, OrgId, Timestamp, source};
use serde_json::Value;
use who::Who;

/// Every kind of channel.
pub static KINDS: [Kind; 3] = [webhook::KIND, slack::KIND, smtp::KIND];

/// The kind of channel with this name.
pub fn kind(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.name == name)
}

/// What a channel tells: a call that waits or is in doubt, and later how it ended.
pub(crate) struct Notice {
    pub org: OrgId,
    /// As it is now.
    pub invocation: Box<Invocation>,
    pub moment: Moment,
    /// When it was made, shortly after what it tells of.
    pub made_at: Timestamp,
    /// The address at which this channel's recipient, and nobody else, answers this one call.
    pub link: Option<String>,
    pub who: Who,
    /// Whether it only tries the channel: there is no such call.
    pub(crate) is_test: bool,
}

/// Why a notice was not delivered. The text is stored and shown, so it holds no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryError {
    /// It may succeed later.
    Again(String),
    /// It may succeed later, and the other side has said how long to stay away.
    Later { problem: String, asked_ms: u64 },
    /// It will fail until somebody changes something.
    Never(String),
}

impl DeliveryError {
    /// It may succeed later; `asked_ms` is how long the other side asked us to stay away, if it did.
    fn again(problem: String, asked_ms: Option<u64>) -> Self {
        match asked_ms {
            Some(asked_ms) => Self::Later { problem, asked_ms },
            None => Self::Again(problem),
        }
    }

    /// What became of a request to the other side. It is no source, so it is not called one.
    fn outside(error: &source::Error) -> Self {
        use source::Error;
        match error {
            // The operator does not allow the address, the address is none, or the other side has said no.
            Error::Refused { .. } | Error::Failed { .. } => Self::Never(error.without_conclusion()),
            Error::Unreachable { message, .. } => Self::Again(format!("it could not be reached: {message}")),
            Error::TimedOut { timeout_ms, .. } => Self::Again(format!("it did not answer within {timeout_ms} ms")),
            Error::Broken { message, .. } => Self::Again(format!("the connection broke: {message}")),
            Error::Busy { message, .. } | Error::NoTurn { message, .. } | Error::Reported { message, .. } => Self::Again(message.clone()),
            Error::WorkspaceElsewhere | Error::PreviewUnsupported { .. } => Self::Again(error.without_conclusion()),
        }
    }

    /// What went wrong.
    fn problem(self) -> String {
        match self {
            Self::Again(problem) | Self::Later { problem, .. } | Self::Never(problem) => problem,
        }
    }
}

/// Settings that no channel can have.
pub(crate) fn unfit(message: String) -> source::Error {
    source::Error::Refused { code: "invalid_settings", message }
}

/// Delivers the notices of one kind of channel.
///
/// An implementation keeps nothing of a notice, never retries, and may be dropped while it waits.
pub(crate) trait Wire: Send + Sync {
    /// `earlier` is what the wire returned when it told of the same call before, such as the message to be updated.
    fn deliver<'a>(
        &'a self,
        channel: &'a Channel,
        notice: &'a Notice,
        earlier: Option<&'a Value>,
    ) -> Future<'a, Result<Option<Value>, DeliveryError>>;

    /// What is wrong with the settings of a new channel, which fit its kind. What cannot be known before a notice is sent is not asked.
    fn refusal(&self, _settings: &Value) -> Option<source::Error> {
        None
    }

    /// What is wrong with the value of a secret that the settings name. That there is no such secret is not for the wire to say.
    fn secret_refusal<'a>(&'a self, _org: &'a OrgId, _settings: &'a Value) -> Future<'a, Option<String>> {
        Box::pin(std::future::ready(None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_outside_is_not_called_a_source() {
        let (source_id, message) = ("channel".to_owned(), "connection refused".to_owned());
        for (error, expected) in [
            (
                source::Error::Unreachable { source_id: source_id.clone(), message: message.clone() },
                "it could not be reached: connection refused",
            ),
            (source::Error::TimedOut { source_id: source_id.clone(), timeout_ms: 8 }, "it did not answer within 8 ms"),
            (source::Error::Broken { source_id, message: message.clone() }, "the connection broke: connection refused"),
        ] {
            assert_eq!(DeliveryError::outside(&error), DeliveryError::Again(expected.to_owned()));
        }
        let refused = source::Error::Refused { code: "host_not_allowed", message: message.clone() };
        assert_eq!(DeliveryError::outside(&refused), DeliveryError::Never(message));
    }
}
