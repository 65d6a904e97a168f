//! Invocations on the wire.

use crate::Page;
use countersign_core::decision::{Gate, Reason, Verdict};
use countersign_core::invocation::{DeniedBy, Intention};
use countersign_core::{Invocation, Status};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use utoipa::ToSchema;

/// Asks for one action to be performed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InvokeRequest {
    /// `<source>.<name>`.
    #[schema(example = "files.write_text")]
    pub action: String,
    #[serde(default = "empty_object")]
    #[schema(value_type = Object)]
    pub params: Value,
    /// The same key with the same params has one effect; `auto` derives it from the fields the action names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// The id of an earlier, held invocation of this very call, whose answer is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_ref: Option<String>,
    /// Says what would change and changes nothing.
    #[serde(default)]
    pub dry_run: bool,
    /// Why, in the caller's words; shown to whoever approves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

fn empty_object() -> Value {
    Value::Object(serde_json::Map::new())
}

/// The answer to an invocation that ended well or waits for a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct InvokeResponse {
    pub invocation: InvocationView,
    /// Redacted, and whole; `invocation.result` may be truncated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub result: Option<Value>,
    /// What happens next, when nothing has happened yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// True when an earlier call under the same idempotency key answers.
    #[serde(default)]
    pub replayed: bool,
}

/// How a pending invocation is approved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApproveMode {
    /// This invocation only.
    #[default]
    Once,
}

/// Approves a pending invocation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ApproveRequest {
    #[serde(default)]
    pub mode: ApproveMode,
    /// The `binding.digest` that was shown; when it is not the invocation's, nothing is approved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Denies a pending invocation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DenyRequest {
    /// Reaches whoever asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The answer to a denial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DenyResponse {
    pub invocation: InvocationView,
}

/// One invocation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct InvocationView {
    #[schema(example = "inv_01k9z6m4x0abcdefghjkmnpqrs")]
    pub id: String,
    /// `pending`, `approved`, `running`, `succeeded`, `failed`, `reverted`, `denied`, `quarantined`, `expired`, `cancelled` or `in_doubt`.
    pub status: Cow<'static, str>,
    /// `allow`, `require_approval` or `deny`.
    pub mode: Cow<'static, str>,
    /// `automation_override`, `org_default` or `inferred_default`.
    pub mode_source: Cow<'static, str>,
    pub action: String,
    pub source: String,
    /// `R0` to `R4`.
    pub tier: Cow<'static, str>,
    /// `read`, `write` or `danger`.
    pub class: Cow<'static, str>,
    pub session_id: String,
    pub space_id: String,
    /// `user:…`, `agent:…`, `service:…` or `automation:…`.
    pub principal: String,
    pub owner_id: Option<String>,
    /// Redacted, and pruned when large.
    #[schema(value_type = Object)]
    pub params: Value,
    /// Redacted, and pruned to 10 KB with `_truncated: true`.
    #[schema(value_type = Option<Object>)]
    pub result: Option<Value>,
    pub error: Option<FailureView>,
    /// `policy`, `person` or `binding`.
    pub denied_by: Option<Cow<'static, str>>,
    pub reason: Option<String>,
    pub idempotency_key: Option<String>,
    pub dry_run: bool,
    pub decision: DecisionView,
    pub gates: Vec<GateView>,
    pub digests: DigestsView,
    /// What an approval of it is bound to.
    pub binding: Option<BindingView>,
    pub expires_at: Option<String>,
    pub answer: Option<AnswerView>,
    pub attempts: u32,
    pub created_at: String,
    pub started_at: Option<String>,
    pub completed_at: Option<String>,
    pub duration_ms: Option<u64>,
    pub receipt: Option<ReceiptRefView>,
    pub trace_id: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FailureView {
    pub code: String,
    pub message: String,
}

/// The mode and everything that decided it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DecisionView {
    pub mode: Cow<'static, str>,
    /// What the cascade found, before anything tightened it.
    pub base: Cow<'static, str>,
    pub source: Cow<'static, str>,
    pub modes_version: Option<i64>,
    /// Why the mode is stricter than its base.
    pub tightened: Vec<Cow<'static, str>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GateView {
    pub gate: Cow<'static, str>,
    /// `ok`, `needs_approval`, `deny` or `not_applicable`.
    pub verdict: Cow<'static, str>,
    pub determining: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DigestsView {
    pub raw: String,
    pub params: String,
    pub structural: String,
    pub textual: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BindingView {
    pub digest: String,
    pub expires_at: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AnswerView {
    pub by: String,
    pub at: String,
    pub reason: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReceiptRefView {
    pub id: String,
    /// Its position in the org's log.
    pub seq: u64,
}

/// A page of invocations, newest first.
pub type InvocationPage = Page<InvocationView>;

impl From<Invocation> for InvocationView {
    fn from(invocation: Invocation) -> Self {
        Self {
            id: invocation.id.to_string(),
            status: invocation.status.as_str().into(),
            mode: invocation.decision.mode.as_str().into(),
            mode_source: invocation.decision.source.as_str().into(),
            action: invocation.action.to_string(),
            source: invocation.action.source().into(),
            tier: invocation.tier.as_str().into(),
            class: invocation.tier.class().as_str().into(),
            session_id: invocation.session.to_string(),
            space_id: invocation.space.to_string(),
            principal: invocation.principal.to_string(),
            owner_id: invocation.owner.as_ref().map(ToString::to_string),
            params: invocation.params,
            result: invocation.result,
            error: invocation.failure.map(|failure| FailureView { code: failure.code, message: failure.message }),
            denied_by: invocation.denied_by.map(|by| denied_by(by).into()),
            reason: invocation.reason,
            idempotency_key: invocation.idempotency_key,
            dry_run: invocation.intention == Intention::DryRun,
            decision: DecisionView {
                mode: invocation.decision.mode.as_str().into(),
                base: invocation.decision.base.as_str().into(),
                source: invocation.decision.source.as_str().into(),
                modes_version: invocation.decision.modes_version,
                tightened: invocation.decision.tightened.iter().map(tightened).collect(),
            },
            gates: invocation
                .gates
                .into_iter()
                .map(|gate| GateView {
                    gate: Gate::as_str(gate.gate).into(),
                    verdict: verdict(gate.verdict).into(),
                    determining: gate.determining,
                })
                .collect(),
            digests: DigestsView {
                raw: invocation.digests.raw.to_string(),
                params: invocation.digests.params.to_string(),
                structural: invocation.digests.structural.to_string(),
                textual: invocation.digests.textual.to_string(),
            },
            binding: invocation
                .binding
                .as_ref()
                .map(|binding| BindingView { digest: binding.digest.to_string(), expires_at: binding.expires_at.to_string() }),
            expires_at: invocation
                .binding
                .as_ref()
                .filter(|_| invocation.status == Status::Pending)
                .map(|binding| binding.expires_at.to_string()),
            answer: invocation.answer.map(|answer| AnswerView {
                by: answer.by.to_string(),
                at: answer.at.to_string(),
                reason: answer.reason,
            }),
            attempts: invocation.attempts,
            created_at: invocation.created_at.to_string(),
            started_at: invocation.started_at.map(|at| at.to_string()),
            completed_at: invocation.ended_at.map(|at| at.to_string()),
            duration_ms: invocation.ended_at.zip(invocation.started_at).map(|(ended, started)| ended.millis_since(started)),
            receipt: invocation.receipt.map(|receipt| ReceiptRefView { id: receipt.id.to_string(), seq: receipt.seq }),
            trace_id: invocation.trace_id,
        }
    }
}

const fn denied_by(by: DeniedBy) -> &'static str {
    match by {
        DeniedBy::Policy => "policy",
        DeniedBy::Person => "person",
        DeniedBy::Binding => "binding",
    }
}

const fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Ok => "ok",
        Verdict::NeedsApproval => "needs_approval",
        Verdict::Deny => "deny",
        Verdict::Quarantine => "quarantine",
        Verdict::Redacted => "redacted",
        Verdict::NotApplicable => "not_applicable",
    }
}

fn tightened(reason: &Reason) -> Cow<'static, str> {
    match reason {
        Reason::DangerIsNeverAllowed => "an R4 action is never allowed without a person".into(),
        Reason::Band { band } => format!("the space is {}", band.as_str()).into(),
        Reason::Drift { drift } => format!("the definition changed since it was reviewed ({})", drift.as_str()).into(),
        Reason::Gate { gate } => format!("gate `{}` asks for a person", gate.as_str()).into(),
    }
}
