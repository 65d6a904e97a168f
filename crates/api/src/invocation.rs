//! Invocations on the wire.

mod answer;
mod foresight;
mod progress;
mod request;

pub use answer::*;
pub use foresight::*;
pub use progress::*;
pub use request::*;

use crate::Page;
use crate::batch::PartOfView;
use countersign_core::decision::{GateVerdict, Verdict};
use countersign_core::effect::{Check, Remedy};
use countersign_core::invocation::{Answer, Beyond, Deadline, DeniedBy, Intention};
use countersign_core::{Decision, Invocation, Status, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use utoipa::ToSchema;

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
    /// What that session is called, where the invocation is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_title: Option<String>,
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
    /// `policy`, `person`, `binding` or `drift`.
    pub denied_by: Option<Cow<'static, str>>,
    pub reason: Option<String>,
    pub idempotency_key: Option<String>,
    pub dry_run: bool,
    pub decision: DecisionView,
    pub gates: Vec<GateView>,
    pub digests: DigestsView,
    /// What an approval of it is bound to.
    pub binding: Option<BindingView>,
    /// When nobody can answer any more; null while a kill switch has stopped the clock.
    pub expires_at: Option<String>,
    /// Why an approval would run nothing: what it was to cover has changed since the call was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub void: Option<FailureView>,
    /// A kill switch is on: it stays where it is, and its clock stands still.
    #[serde(default)]
    pub clock_stopped: bool,
    /// Everyone who said yes so far.
    #[serde(default)]
    pub approvals: Vec<AnswerView>,
    pub answer: Option<AnswerView>,
    /// How an approver changed the params.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edit: Option<EditView>,
    /// What the caller said of itself and the call; never evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed: Option<ClaimedView>,
    /// How much of each kind was taken out of the params before the source saw them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub redacted: BTreeMap<String, u32>,
    /// The quarantined call that a person released as this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub released_from: Option<String>,
    /// The grant that stood in for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant_id: Option<String>,
    /// What was looked at after the effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckView>,
    /// The one repair, where a check failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair: Option<RemedyView>,
    /// Taking it back, where a check failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback: Option<RemedyView>,
    /// The invocation whose effect this one takes back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverses: Option<String>,
    /// The invocation that took its effect back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_back_by: Option<String>,
    /// The files it changed, where it is read by itself; of one that takes back, those it put back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed_files: Vec<ChangedFileView>,
    /// The batch it is a part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<PartOfView>,
    /// Who said how it ended, where nobody else could know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<SettledView>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<ScopeView>,
    /// What the caller wants to see succeed after the effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification: Option<VerificationView>,
    /// How often its source was asked to act: the effect with what was tried again, its repair, and taking it back.
    pub attempts: u32,
    /// When it was admitted.
    pub created_at: String,
    /// When it was taken up again: approved, and not started by who was to, such as a server that stopped before it could.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_up_at: Option<String>,
    /// When its source was first asked.
    pub started_at: Option<String>,
    pub completed_at: Option<String>,
    /// From when it was admitted to its end, without `waited_ms`.
    pub duration_ms: Option<u64>,
    /// How long it waited for people, where it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_ms: Option<u64>,
    pub receipt: Option<ReceiptRefView>,
    pub trace_id: String,
}

/// A file that was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChangedFileView {
    pub path: String,
    /// `created`, `changed` or `removed`.
    pub change: Cow<'static, str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FailureView {
    pub code: String,
    pub message: String,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CheckView {
    pub name: String,
    pub ok: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// A repair or a rollback, and whether it did what it was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RemedyView {
    pub attempted: bool,
    pub ok: bool,
}

/// A person's word on an effect that was in doubt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SettledView {
    pub by: String,
    pub at: String,
    pub reason: Option<String>,
}

impl From<Check> for CheckView {
    fn from(check: Check) -> Self {
        Self { name: check.name, ok: check.ok, detail: check.detail }
    }
}

impl From<Remedy> for RemedyView {
    fn from(remedy: Remedy) -> Self {
        Self { attempted: remedy.attempted, ok: remedy.ok }
    }
}

/// The mode and everything that decided it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DecisionView {
    pub mode: Cow<'static, str>,
    /// What the cascade found, before anything tightened it.
    pub base: Cow<'static, str>,
    pub source: Cow<'static, str>,
    pub modes_version: Option<i64>,
    /// The version of all the org's rules it was made under.
    #[serde(default)]
    pub rules_version: Option<i64>,
    /// Why the mode is stricter than its base.
    pub tightened: Vec<Cow<'static, str>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GateView {
    pub gate: Cow<'static, str>,
    /// `ok`, `needs_approval`, `deny`, `quarantine`, `redacted` or `not_applicable`.
    pub verdict: Cow<'static, str>,
    pub determining: Vec<String>,
    /// What went wrong while its rules were evaluated; any of it is a denial.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
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
    /// `once`, `always` or `grant`: what a yes does beyond this call.
    #[serde(default)]
    pub mode: Cow<'static, str>,
}

/// What an approver made of the params that were asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EditView {
    pub by: String,
    pub at: String,
    /// Where they differ: RFC 6901 pointers.
    pub changed: Vec<String>,
    /// As they were asked for, redacted.
    #[schema(value_type = Object)]
    pub proposed_params: Value,
}

fn answer_view(answer: Answer) -> AnswerView {
    let mode = match answer.beyond {
        Beyond::Once => "once",
        Beyond::Always => "always",
        Beyond::Grant(_) => "grant",
    };
    AnswerView { by: answer.by.to_string(), at: answer.at.to_string(), reason: answer.reason, mode: mode.into() }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReceiptRefView {
    pub id: String,
    /// Its position in the org's log.
    pub seq: u64,
}

/// A page of invocations, newest first.
pub type InvocationPage = Page<InvocationView>;

impl From<&Decision> for DecisionView {
    fn from(decision: &Decision) -> Self {
        Self {
            mode: decision.mode.as_str().into(),
            base: decision.base.as_str().into(),
            source: decision.source.as_str().into(),
            modes_version: decision.modes_version,
            rules_version: decision.rules_version,
            tightened: decision.tightened.iter().map(|reason| reason.to_string().into()).collect(),
        }
    }
}

impl From<GateVerdict> for GateView {
    fn from(said: GateVerdict) -> Self {
        Self { gate: said.gate.as_str().into(), verdict: verdict(said.verdict).into(), determining: said.determining, errors: said.errors }
    }
}

impl From<Invocation> for InvocationView {
    fn from(invocation: Invocation) -> Self {
        let waited_ms = waited_ms(&invocation);
        let lasted = |ended: Timestamp| ended.millis_since(invocation.created_at).saturating_sub(waited_ms.unwrap_or_default());
        let duration_ms = invocation.ended_at.map(lasted);
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
            session_title: None,
            space_id: invocation.space.to_string(),
            principal: invocation.principal.to_string(),
            owner_id: invocation.owner.as_ref().map(ToString::to_string),
            params: invocation.call.params,
            result: invocation.result,
            error: invocation.failure.map(|failure| FailureView { code: failure.code, message: failure.message }),
            denied_by: invocation.denied_by.map(|by| denied_by(by).into()),
            reason: invocation.call.reason,
            idempotency_key: invocation.idempotency_key,
            dry_run: invocation.intention == Intention::DryRun,
            decision: DecisionView::from(&invocation.decision),
            gates: invocation.gates.into_iter().map(GateView::from).collect(),
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
            expires_at: match invocation.deadline {
                Some(Deadline::At(at)) if invocation.status == Status::Pending => Some(at.to_string()),
                Some(Deadline::At(_) | Deadline::Stopped { .. }) | None => None,
            },
            void: None,
            clock_stopped: matches!(invocation.deadline, Some(Deadline::Stopped { .. })) && !invocation.status.is_final(),
            approvals: invocation.approvals.into_iter().map(answer_view).collect(),
            answer: invocation.answer.map(answer_view),
            edit: invocation.edit.map(|edit| EditView {
                by: edit.by.to_string(),
                at: edit.at.to_string(),
                changed: edit.changed,
                proposed_params: edit.proposed_params,
            }),
            claimed: invocation.call.claimed.map(ClaimedView::from),
            redacted: invocation.redacted.map(|taken| taken.counts).unwrap_or_default(),
            released_from: invocation.released_from.as_ref().map(ToString::to_string),
            grant_id: invocation.grant.as_ref().map(ToString::to_string),
            checks: invocation.aftermath.checks.into_iter().flatten().map(CheckView::from).collect(),
            repair: invocation.aftermath.repair.map(RemedyView::from),
            rollback: invocation.aftermath.rollback.map(RemedyView::from),
            reverses: invocation.reverses.as_ref().map(ToString::to_string),
            taken_back_by: None,
            changed_files: Vec::new(),
            batch: invocation.batch.map(PartOfView::from),
            settled: invocation.aftermath.settled.map(|settled| SettledView {
                by: settled.by.to_string(),
                at: settled.at.to_string(),
                reason: invocation.aftermath.settled_reason,
            }),
            scope: Some(invocation.call.scope).filter(|scope| !scope.is_unbounded()).map(ScopeView::from),
            verification: Some(invocation.call.commands)
                .filter(|commands| !commands.is_empty())
                .map(|commands| VerificationView { commands }),
            attempts: invocation.attempts,
            created_at: invocation.created_at.to_string(),
            taken_up_at: invocation.taken_up_at.map(|at| at.to_string()),
            started_at: invocation.started_at.map(|at| at.to_string()),
            completed_at: invocation.ended_at.map(|at| at.to_string()),
            duration_ms,
            waited_ms,
            receipt: invocation.receipt.map(|receipt| ReceiptRefView { id: receipt.id.to_string(), seq: receipt.seq }),
            trace_id: invocation.trace_id,
        }
    }
}

/// From the question to the answer that settled it; without one, to its end. `None` where nobody was asked, or nobody has answered.
fn waited_ms(invocation: &Invocation) -> Option<u64> {
    invocation.binding.as_ref()?;
    let until = invocation.answer.as_ref().map(|answer| answer.at).or(invocation.ended_at)?;
    Some(until.millis_since(invocation.created_at))
}

impl InvocationView {
    /// What is left of one that did not succeed, for a sentence that goes on with the reason.
    pub fn how_it_failed(&self) -> &'static str {
        match (self.status.as_ref(), self.rollback) {
            ("reverted", _) => "failed, and its effects were taken back",
            ("failed", Some(RemedyView { ok: true, .. })) => "failed, and its effects were taken back",
            ("failed", Some(RemedyView { attempted: true, ok: false })) => "failed, and what it did could not be taken back",
            ("failed", Some(RemedyView { attempted: false, ok: false })) => "failed, and what it did was not taken back",
            _ => "did not happen",
        }
    }
}

const fn denied_by(by: DeniedBy) -> &'static str {
    match by {
        DeniedBy::Policy => "policy",
        DeniedBy::Person => "person",
        DeniedBy::Binding => "binding",
        DeniedBy::Drift => "drift",
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
