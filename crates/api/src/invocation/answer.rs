//! How people answer pending invocations.

use super::InvocationView;
use crate::rules::{GrantView, ModeView, SumMaxRequest};
use countersign_core::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// How a pending invocation is approved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApproveMode {
    /// This invocation only.
    #[default]
    Once,
    /// This invocation, and the action is `allow` from now on.
    Always,
    /// This invocation, and more like it within the bounds of `grant`.
    Grant,
}

/// The grant that is given along with an approval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GrantOfferRequest {
    #[serde(default)]
    pub scope: GrantScopeName,
    /// Calls it is good for; without it, any number until it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls_max: Option<u32>,
    /// An older name of `calls_max`; one of them, not both.
    #[serde(default, rename = "maxCalls", skip_serializing_if = "Option::is_none")]
    #[schema(deprecated)]
    pub max_calls: Option<u32>,
    /// How much of a param its calls may add up to in a window; without it, any amount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sum_max: Option<SumMaxRequest>,
    /// Such as `30m`, `2h` or `7d`; 24 hours when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<String>,
}

/// Whose calls a grant is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum GrantScopeName {
    #[default]
    Session,
    Automation,
    Org,
}

/// Approves a pending invocation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ApproveRequest {
    #[serde(default)]
    pub mode: ApproveMode,
    /// With mode `grant` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<GrantOfferRequest>,
    /// Changed params: these are validated, approved and used instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<BTreeMap<String, Value>>)]
    pub params: Option<Value>,
    /// The `binding.digest` that was shown to the approver. If it differs from the invocation's, nothing is approved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding: Option<String>,
    /// The action's id, typed by the person. An R4 action is approved with it only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The answer to an approval: the call as it is now, and what else the approval created.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ApproveResponse {
    pub invocation: InvocationView,
    /// Redacted, and whole; `invocation.result` may be truncated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// What the call waits for, while it has not started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(default)]
    pub replayed: bool,
    /// The grant that mode `grant` made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<GrantView>,
    /// The mode that mode `always` set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<ModeView>,
}

/// Approves several pending invocations, each once and by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ApproveManyRequest {
    /// At most 100.
    pub invocations: Vec<OneOfMany>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// One of several: its id, or its id with what was shown of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum OneOfMany {
    Id(String),
    Shown(ShownOne),
}

impl OneOfMany {
    pub fn id(&self) -> &str {
        match self {
            Self::Id(id) | Self::Shown(ShownOne { id, .. }) => id,
        }
    }

    pub fn binding(&self) -> Option<&str> {
        match self {
            Self::Id(_) => None,
            Self::Shown(shown) => Some(&shown.binding),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ShownOne {
    pub id: String,
    /// The `binding.digest` that was shown; when it is not the invocation's, this one is not approved.
    pub binding: String,
}

/// What became of each, in the order they were given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ApproveManyResponse {
    pub results: Vec<ApprovedOne>,
}

/// What became of one of several: its invocation, or why not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ApprovedOne {
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invocation: Option<Box<InvocationView>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Box<crate::Problem>>,
}

/// Hides a pending invocation from your inbox for a while. It decides nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SnoozeRequest {
    /// Such as `30m` or `2h`; `0s` shows it again.
    #[serde(rename = "for")]
    pub time: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SnoozeResponse {
    pub id: String,
    pub until: Timestamp,
}

/// Asks for a link with which whoever opens it first can answer one invocation in your name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewLinkRequest {
    /// Such as `10m`; 15 minutes when absent. It also ends with the invocation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LinkResponse {
    /// A path on this server. Whoever holds it can answer this one invocation as you.
    pub path: String,
    pub expires_at: Timestamp,
}

/// Denies a pending invocation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DenyRequest {
    /// Shown to the requester.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The answer to a denial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DenyResponse {
    pub invocation: InvocationView,
}
