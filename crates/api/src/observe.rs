//! What spaces that only observe report.

use crate::rules::NewGrantRequest;
use countersign_core::observe::Observed;
use countersign_core::{Mode, Tier, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What people would have been asked in a space that observes, and which rules would spare them how much of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ObserveReport {
    pub space_id: String,
    /// Whether the space observes now.
    pub observes: bool,
    pub since: Timestamp,
    pub until: Timestamp,
    /// How often a person would have been asked, or was, because also a space that observes asks about calls of R4.
    pub asked: u64,
    /// How often a person would have been asked with all that is suggested.
    pub still_asked: u64,
    /// The most frequent first.
    pub rows: Vec<AskedForView>,
    /// There are more rows, which are not counted.
    pub cut: bool,
    /// Modes to set for the org.
    pub modes: Vec<SuggestedMode>,
    /// Grants to give.
    pub grants: Vec<SuggestedGrant>,
}

/// How often a person would have been asked about one action of one session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AskedForView {
    pub action: String,
    pub tier: Tier,
    pub session_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_title: Option<String>,
    /// What could have answered instead of a person.
    pub observed: Observed,
    pub calls: u64,
}

/// A mode that would have let calls run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SuggestedMode {
    pub action: String,
    pub tier: Tier,
    pub mode: Mode,
    /// How many of the calls.
    pub calls: u64,
}

/// A grant that would have let calls run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SuggestedGrant {
    pub tier: Tier,
    /// How many of the calls.
    pub calls: u64,
    /// As it can be given.
    pub grant: NewGrantRequest,
}
