//! What a caller asks for, and what it says of its call.

use super::InvocationView;
use countersign_core::call::Claimed;
use countersign_core::effect::Scope;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Asks for one action to be performed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InvokeRequest {
    /// `<source>.<name>`.
    #[schema(example = "files.write_text")]
    pub action: String,
    #[serde(default = "empty_object")]
    #[schema(value_type = BTreeMap<String, Value>)]
    pub params: Value,
    /// The same key with the same params has one effect; `auto` derives it from the fields the action names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// The id of an earlier pending invocation of the same call, to get its outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_ref: Option<String>,
    /// Reports what would change, and changes nothing.
    #[serde(default)]
    pub dry_run: bool,
    /// Why, in the caller's words; shown to whoever approves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What the caller claims. It is recorded and never evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<CallerContext>,
    /// Where params came from, by JSON pointer. It can only make a call stricter.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub provenance: BTreeMap<String, ProvenanceName>,
    /// Where the call may act, narrower than its source allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<ScopeView>,
    /// What has to succeed after the effect, besides what the action checks itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification: Option<VerificationView>,
}

/// What a call is verified with, besides what its action checks itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VerificationView {
    /// Run after the effect, at most 16; each must be on the server's list of commands, word by word.
    #[serde(default)]
    #[schema(example = json!(["node --check src/a.js"]))]
    pub commands: Vec<String>,
}

/// The files that a call may use. If empty, the call may use every file that its source may.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScopeView {
    /// The call may use these files, besides those in `allowed_dirs`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_files: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_dirs: Vec<String>,
    /// The call may never use these; a folder covers everything in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forbidden_files: Vec<String>,
}

impl From<ScopeView> for Scope {
    fn from(view: ScopeView) -> Self {
        Self { allowed_files: view.allowed_files, allowed_dirs: view.allowed_dirs, forbidden_files: view.forbidden_files }
    }
}

impl From<Scope> for ScopeView {
    fn from(scope: Scope) -> Self {
        Self { allowed_files: scope.allowed_files, allowed_dirs: scope.allowed_dirs, forbidden_files: scope.forbidden_files }
    }
}

/// Reverts the effect of an invocation that succeeded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RevertRequest {
    /// Why; shown to whoever approves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// How a person settles an invocation in doubt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SettleDoubtRequest {
    #[serde(rename = "as")]
    pub settlement: SettlementName,
    /// How you know.
    pub reason: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SettlementName {
    /// It happened.
    Succeeded,
    /// It did not happen.
    Failed,
    /// Nobody knows, and a second effect would do no harm: it ends `failed`, and the same call is made as a new invocation.
    Retry,
}

/// What a caller claims about a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CallerContext {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
}

impl From<CallerContext> for Claimed {
    fn from(context: CallerContext) -> Self {
        Self { time: context.time, device: context.device, actor: context.actor, ..Self::default() }
    }
}

/// Everything a caller claims about itself and a call: shown and recorded. Nothing but `space` is evaluated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ClaimedView {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// Whom the caller says it acts as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The caller's own name for the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_id: Option<String>,
    /// Another space than the session's in which the caller says it acts. The call was denied for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<String>,
    /// How sure the caller says it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// How the caller would revert it, redacted. Nothing evaluates it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback_plan: Option<Value>,
    /// The fields of an older envelope that nobody here knows, redacted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub more: Option<Value>,
}

impl From<Claimed> for ClaimedView {
    fn from(claimed: Claimed) -> Self {
        Self {
            time: claimed.time,
            device: claimed.device,
            actor: claimed.actor,
            subject: claimed.subject,
            action_id: claimed.action_id,
            space: claimed.space,
            confidence: claimed.confidence.and_then(|confidence| confidence.as_f64()),
            rollback_plan: claimed.rollback_plan,
            more: claimed.more,
        }
    }
}

/// Where a param came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProvenanceName {
    User,
    ActionOutput,
    Web,
}

fn empty_object() -> Value {
    Value::Object(serde_json::Map::new())
}

/// The answer to an invocation that succeeded or is pending.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct InvokeResponse {
    pub invocation: InvocationView,
    /// Redacted, and whole; `invocation.result` may be truncated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// `Action requires approval` while it is pending, and what it waits for after that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// True if this is the outcome of an earlier call with the same idempotency key.
    #[serde(default)]
    pub replayed: bool,
}
