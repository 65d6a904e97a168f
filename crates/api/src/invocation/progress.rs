//! The events of a running call.

use countersign_core::Status;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A line a running call printed: redacted, cut when long, and harmless to a terminal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProgressEvent {
    /// Counted from 1.
    pub seq: u64,
    pub text: String,
}

/// Lines that were dropped before they could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MissedEvent {
    pub count: u64,
}

/// The invocation that is followed has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EndEvent {
    pub status: Status,
}
