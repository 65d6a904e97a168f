//! What the gates go by, on the wire: policies, consents, crossings, quarantine; and what they would say.

use crate::finding::CaughtView;
use crate::invocation::{CallerContext, DecisionView, GateView, InvokeResponse, ProvenanceName};
use crate::long_text::long_text;
use crate::rules::ModeLine;
use countersign_core::decision::Drift;
use countersign_core::grant::NearMiss;
use countersign_core::quarantine::{Holds, QuarantineState};
use countersign_core::{Tier, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// The org's own policies, in Cedar: one text for each gate they rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PoliciesFile {
    #[serde(deserialize_with = "long_text")]
    pub rbac: String,
    #[serde(deserialize_with = "long_text")]
    pub abac: String,
    #[serde(deserialize_with = "long_text")]
    pub consent: String,
    #[serde(deserialize_with = "long_text")]
    pub space: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PoliciesView {
    /// The version of the org's rules that set them; 0 when none were ever set.
    pub version: i64,
    pub policies: PoliciesFile,
    pub set_by: Option<String>,
    pub set_at: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PoliciesSetResponse {
    pub version: i64,
    /// How many policies there are now.
    pub policies: u64,
    /// How many pending calls this ended, because no approval fits them any more. Null if not all could be looked at.
    pub voided: Option<u64>,
}

/// The vocabulary policies are written in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PolicySchemaResponse {
    /// A Cedar schema.
    pub schema: String,
}

/// Policies and modes to be tried on what was recorded. What is absent stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WhatIfRequest {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policies: Option<PoliciesFile>,
    /// Modes that would be set, for the org and for automations; others stay in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modes: Option<Vec<ModeLine>>,
    /// How far back, such as `24h` or `7d`; 7 days when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<String>,
    /// Only calls of this action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WhatIfResponse {
    /// Recorded invocations that were decided again.
    pub replayed: u64,
    /// Invocations that could not be decided again: their action, session or principal is gone, or they were dry runs.
    pub skipped: u64,
    /// Invocations that a kill switch stopped; they are not decided again.
    #[serde(default)]
    pub stopped: u64,
    /// Invocations that a content check quarantined; they are not decided again.
    #[serde(default)]
    pub quarantined: u64,
    /// There were more than are looked at in one go.
    pub truncated: bool,
    /// Every invocation that the proposal decides otherwise than the rules in force, newest first.
    pub changes: Vec<WhatIfChange>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WhatIfChange {
    pub invocation_id: String,
    pub action: String,
    pub principal: String,
    pub created_at: Timestamp,
    /// Under the rules in force now.
    pub before: WouldName,
    /// Under the proposed ones.
    pub after: WouldName,
    /// What decides it under the proposed rules.
    pub because: String,
}

/// What a call would come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WouldName {
    Runs,
    /// It waits for an approval.
    Asks,
    Denied,
    Quarantined,
    /// The params, or other fields of the request, are not valid.
    Refused,
}

/// What would happen to a call, asked without making it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExplainRequest {
    pub action: String,
    /// The call is decided as if the agent of this session had requested it.
    pub session_id: String,
    /// If absent, the answer assumes params that no gate objects to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<BTreeMap<String, Value>>)]
    pub params: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<CallerContext>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub provenance: BTreeMap<String, ProvenanceName>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ExplainResponse {
    pub action: String,
    pub tier: Tier,
    pub session_id: String,
    pub space_id: String,
    pub principal: String,
    pub would: WouldName,
    /// In one sentence, what decides it.
    pub because: String,
    pub decision: DecisionView,
    pub gates: Vec<GateView>,
    pub drift: Drift,
    /// The grant that would replace an approval.
    pub grant_id: Option<String>,
    /// Grants that cover the action and do not replace the approval, the nearest first; at most 5.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub near_grants: Vec<NearGrantView>,
    /// How many people would have to approve.
    pub approvals_needed: Option<u32>,
    /// What is wrong with the params and the other fields.
    pub errors: Vec<crate::problem::FieldError>,
}

/// A grant that covers an action and does not replace the approval of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NearGrantView {
    pub grant_id: String,
    pub covers: String,
    pub missed: NearMiss,
    /// The same in words.
    pub because: String,
}

/// A person's consent to one purpose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewConsentRequest {
    /// Such as `action:files.write_text`.
    pub purpose: String,
    /// Only in this space, by its id or its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space_id: Option<String>,
    /// Such as `30d`; without it, until it is withdrawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<String>,
    /// What you were shown, or said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<String>,
}

/// Whether a consent still holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConsentState {
    Live,
    Expired,
    Withdrawn,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConsentView {
    pub id: String,
    pub user_id: String,
    pub purpose: String,
    pub space_id: Option<String>,
    pub evidence: Option<String>,
    pub state: ConsentState,
    pub given_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub withdrawn_at: Option<Timestamp>,
}

/// An action that may reach from one space into another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CrossingRequest {
    pub action: String,
    /// By its id or its name.
    pub from_space_id: String,
    /// By its id or its name.
    pub to_space_id: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CrossingView {
    pub action: String,
    pub from_space_id: String,
    pub to_space_id: String,
    pub listed_by: String,
    pub listed_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QuarantineView {
    /// The invocation that ended so.
    pub invocation_id: String,
    pub action: String,
    pub session_id: String,
    pub space_id: String,
    pub principal: String,
    pub holds: Holds,
    pub state: QuarantineState,
    /// HMAC of what it holds. Send it with a release, so that nothing else is released.
    pub digest: Option<String>,
    pub caught: Vec<CaughtView>,
    pub settled_by: Option<String>,
    pub settled_at: Option<Timestamp>,
    pub reason: Option<String>,
    /// The new invocation a release started.
    pub released_as: Option<String>,
    pub expires_at: Timestamp,
    pub created_at: Timestamp,
}

/// Releases or discards what was quarantined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SettleRequest {
    pub reason: String,
    /// The `digest` of what you looked at; with it nothing else is settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// The quarantined params or output, unchanged. It is dangerous.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct QuarantinePayloadResponse {
    pub invocation_id: String,
    pub holds: Holds,
    pub digest: Option<String>,
    pub payload: Value,
}

/// What was withheld of a source's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReleasedOutputResponse {
    pub invocation_id: String,
    pub output: Value,
}

/// The answer to a release: the new call, or the output that was withheld.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum ReleaseResponse {
    Call(Box<InvokeResponse>),
    Output(ReleasedOutputResponse),
}

/// Adds a canary token: a call that contains it is quarantined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewCanaryRequest {
    /// 6 to 200 characters that appear nowhere else.
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CanaryView {
    pub id: String,
    pub text: String,
    pub added_by: String,
    pub added_at: Timestamp,
}
