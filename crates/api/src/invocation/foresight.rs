//! What a pending call, or a revert, would do.

use super::{FactView, FailureView};
use crate::gates::WouldName;
use countersign_core::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// What a pending call would do, for whoever approves it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ForesightView {
    /// Why it could not run now, even if approved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<FailureView>,
    /// All of the params, redacted, where the invocation itself was too large to keep them whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<BTreeMap<String, Value>>)]
    pub params: Option<Value>,
    /// What would change, as a dry run reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<BTreeMap<String, Value>>)]
    pub changes: Option<Value>,
    /// Why that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
    /// Code of a package was run, without effect, to know all this.
    #[serde(default)]
    pub ran_code: bool,
    /// What in its content made it need an approval.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub concerns: Vec<ConcernView>,
    /// The labels of its session.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<LabelView>,
    /// How many people must approve; `approvals` of the invocation has those who did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approvals_needed: Option<u32>,
    /// What there is to know of the call, in the order in which it is read, with what is known before it runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<FactView>,
}

/// What a revert would do. Nothing was done, and nothing is recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RevertForesightView {
    /// The invocation to revert.
    pub invocation_id: String,
    pub action: String,
    pub would: WouldName,
    /// In one sentence, what decides that.
    pub because: String,
    /// How many people would have to approve, where any would.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approvals_needed: Option<u32>,
    /// Why it could not be reverted now, even if approved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<FailureView>,
    /// What would be restored, as a dry run reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<BTreeMap<String, Value>>)]
    pub changes: Option<Value>,
    /// Why that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConcernView {
    /// Such as `safety.trifecta`.
    pub rule: String,
    /// Where in the params; empty where it is about the call as a whole.
    pub pointer: String,
    pub message: String,
}

/// What the session has read so far. Some calls then need approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LabelName {
    PrivateData,
    UntrustedContent,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LabelView {
    pub label: LabelName,
    pub at: Timestamp,
    /// The call that gave the session this label; absent if it was not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invocation_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
}
