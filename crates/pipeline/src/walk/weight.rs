//! Where a value is looked at: checking, scanning, redacting and sealing a large one takes the processor long, and nobody else shall wait for
//! that.

use countersign_core::{json, limits};
use durable::heavy;
use serde_json::Value;
use tracing::Instrument;

/// What work is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    Light,
    Heavy,
}

impl Weight {
    pub(crate) fn of(value: &Value) -> Self {
        if json::outweighs(value, limits::LIGHT_BYTES_MAX) { Self::Heavy } else { Self::Light }
    }

    /// Does work on a value of this weight, where it belongs.
    pub(crate) async fn run<T: Send + 'static>(self, work: impl Future<Output = T> + Send + 'static) -> T {
        match self {
            Self::Light => work.await,
            Self::Heavy => heavy::run(work.in_current_span()).await,
        }
    }
}
