//! Invocations on the wire.

mod answer;
mod foresight;
mod progress;
mod request;

pub use answer::*;
pub use foresight::*;
pub use progress::*;
pub use request::*;

use countersign_core::action::Class;
use countersign_core::changed_file::FileChange;
use countersign_core::decision::{Gate, GateVerdict, ModeSource, Reason, Verdict};
use countersign_core::effect::{Check, Remedy};
use countersign_core::invocation::{Answer, Beyond, Deadline, DeniedBy, Intention};
use countersign_core::observe::Observed;
use countersign_core::part_of::{BatchMode, PartOf};
use countersign_core::{Decision, Invocation, Mode, Status, Tier, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// One invocation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct InvocationView {
    #[schema(example = "inv_01k9z6m4x0abcdefghjkmnpqrs")]
    pub id: String,
    pub status: Status,
    pub mode: Mode,
    pub mode_source: ModeSource,
    pub action: String,
    pub source: String,
    /// The connection whose credential the source's requests carry. The id stays after the connection is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_id: Option<String>,
    pub tier: Tier,
    pub class: Class,
    pub session_id: String,
    /// The title of its session, in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_title: Option<String>,
    pub space_id: String,
    /// `user:…`, `agent:…`, `service:…` or `automation:…`.
    pub principal: String,
    pub owner_id: Option<String>,
    /// Redacted, and pruned when large.
    #[schema(value_type = BTreeMap<String, Value>)]
    pub params: Value,
    /// Redacted, and pruned to 10 KB with `_truncated: true`.
    pub result: Option<Value>,
    pub error: Option<FailureView>,
    /// Who or what refused it.
    pub denied_by: Option<DeniedBy>,
    pub reason: Option<String>,
    pub idempotency_key: Option<String>,
    pub dry_run: bool,
    pub decision: DecisionView,
    pub gates: Vec<GateView>,
    pub digests: DigestsView,
    /// What an approval of it is bound to.
    pub binding: Option<BindingView>,
    /// When it expires; null while a kill switch has paused it.
    pub expires_at: Option<Timestamp>,
    /// Why an approval would run nothing: what it was to cover has changed since the call was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub void: Option<FailureView>,
    /// Its caller has left: it runs when the caller asks for it again, and an approval is kept until then.
    #[serde(default)]
    pub caller_left: bool,
    /// A kill switch is on: it stays pending, and its time to expire is paused.
    #[serde(default)]
    pub clock_stopped: bool,
    /// Everyone who approved so far.
    #[serde(default)]
    pub approvals: Vec<AnswerView>,
    pub answer: Option<AnswerView>,
    /// How an approver changed the params.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edit: Option<EditView>,
    /// What the caller claimed about itself and the call; nothing but `space` is evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed: Option<ClaimedView>,
    /// How many values of each kind were redacted from the params before the source saw them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub redacted: BTreeMap<String, u32>,
    /// The quarantined call that a person released as this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub released_from: Option<String>,
    /// The grant that replaced an approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant_id: Option<String>,
    /// Its space only observes, and a person would have been asked: what could have answered instead. With `held`, a person was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<Observed>,
    /// The checks that ran after the effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckView>,
    /// The one repair, where a check failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair: Option<RemedyView>,
    /// The rollback, where a check failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback: Option<RemedyView>,
    /// The invocation whose effect this one reverts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverses: Option<String>,
    /// The invocation that reverted its effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverted_by: Option<String>,
    /// The files it changed, or restored if it is a revert. Only where one invocation is read by itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed_files: Vec<ChangedFileView>,
    /// What there is to know of it, in the order in which it is read. Only where one invocation is read by itself, by somebody who may read all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<FactView>,
    /// The batch it is a part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<PartOfView>,
    /// Who settled it, where it was in doubt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<SettledView>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<ScopeView>,
    /// The commands that must succeed after the effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification: Option<VerificationView>,
    /// What it did cost, in dollars; absent if its action had no price when it began, and until it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "0.002")]
    pub cost_usd: Option<String>,
    /// How often its source was called: the effect with its retries, the repair and the rollback.
    pub attempts: u32,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was resumed: it was approved, and the server that was to start it stopped first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed_at: Option<Timestamp>,
    /// When its source was first called.
    pub started_at: Option<Timestamp>,
    pub completed_at: Option<Timestamp>,
    /// From its creation to its end, without `waited_ms`.
    pub duration_ms: Option<u64>,
    /// How long it waited for people, where it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_ms: Option<u64>,
    pub receipt: Option<ReceiptRefView>,
    pub trace_id: String,
}

/// One thing to know of a call, as a label and a text. Several in a row may have the same label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FactView {
    #[schema(example = "Answered by")]
    pub label: String,
    #[schema(example = "robin, ")]
    pub text: String,
    /// A time that follows the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// What follows the time.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(example = ": “fine”")]
    pub more: String,
    /// Absent if it is neither a warning nor a danger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tone: Option<FactTone>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FactTone {
    Warn,
    Danger,
}

impl FactView {
    pub fn new(label: &str, text: impl Into<String>) -> Self {
        Self { label: label.to_owned(), text: text.into(), at: None, more: String::new(), tone: None }
    }

    /// With a time after the text, and what follows it.
    #[must_use]
    pub fn at(self, at: Timestamp, more: impl Into<String>) -> Self {
        Self { at: Some(at), more: more.into(), ..self }
    }

    #[must_use]
    pub fn toned(self, tone: FactTone) -> Self {
        Self { tone: Some(tone), ..self }
    }
}

/// A file that was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChangedFileView {
    pub path: String,
    pub change: FileChange,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FailureView {
    pub code: String,
    pub message: String,
}

/// One check and its outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CheckView {
    pub name: String,
    pub ok: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// A repair or a rollback, and whether it succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RemedyView {
    pub attempted: bool,
    pub ok: bool,
}

/// How a person settled an invocation in doubt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SettledView {
    pub by: String,
    pub at: Timestamp,
    pub reason: Option<String>,
}

/// Which part of which batch an invocation is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PartOfView {
    pub id: String,
    /// From 1.
    pub part: u32,
    pub parts: u32,
    pub mode: BatchMode,
}

impl From<PartOf> for PartOfView {
    fn from(part: PartOf) -> Self {
        Self { id: part.batch.to_string(), part: part.index.saturating_add(1), parts: part.of, mode: part.mode }
    }
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
    pub mode: Mode,
    /// The mode that was set or inferred, before anything made it stricter.
    pub base: Mode,
    pub source: ModeSource,
    pub modes_version: Option<i64>,
    /// The version of all the org's rules it was made under.
    #[serde(default)]
    pub rules_version: Option<i64>,
    /// Why the mode is stricter than its base.
    pub tightened: Vec<String>,
    /// The same as an enum, in the same order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tightened_by: Vec<TightenedBy>,
}

/// What made a mode stricter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TightenedBy {
    DangerIsNeverAllowed,
    PackageNeverUnattended,
    /// The band of the space.
    Band,
    /// The definition changed since its review.
    Drift,
    /// A gate asks for an approval.
    Gate,
    /// A kill switch.
    Stopped,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GateView {
    pub gate: Gate,
    pub verdict: Verdict,
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
    pub expires_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AnswerView {
    pub by: String,
    pub at: Timestamp,
    pub reason: Option<String>,
    /// What the approval does beyond this call.
    #[serde(default)]
    pub mode: ApproveMode,
}

/// How an approver changed the params.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EditView {
    pub by: String,
    pub at: Timestamp,
    /// Where they differ: RFC 6901 pointers.
    pub changed: Vec<String>,
    /// The params as requested, redacted.
    #[schema(value_type = BTreeMap<String, Value>)]
    pub proposed_params: Value,
}

fn answer_view(answer: Answer) -> AnswerView {
    let mode = match answer.beyond {
        Beyond::Once => ApproveMode::Once,
        Beyond::Always => ApproveMode::Always,
        Beyond::Grant(_) => ApproveMode::Grant,
    };
    AnswerView { by: answer.by.to_string(), at: answer.at, reason: answer.reason, mode }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReceiptRefView {
    pub id: String,
    /// Its position in the org's log.
    pub seq: u64,
}

/// A page of invocations, newest first. Give `next` back as `after` to read on; it is null on the last page.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct InvocationPage {
    pub items: Vec<InvocationView>,
    pub next: Option<String>,
    /// How many invocations fit `status`, `action`, `session` and `tier`, on all pages together; `awake` does not change it, and `revertible`
    /// only leaves out what has not succeeded. With `count=true` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
}

impl From<&Decision> for DecisionView {
    fn from(decision: &Decision) -> Self {
        Self {
            mode: decision.mode,
            base: decision.base,
            source: decision.source,
            modes_version: decision.modes_version,
            rules_version: decision.rules_version,
            tightened: decision.tightened.iter().map(ToString::to_string).collect(),
            tightened_by: decision.tightened.iter().map(TightenedBy::from).collect(),
        }
    }
}

impl From<&Reason> for TightenedBy {
    fn from(reason: &Reason) -> Self {
        match reason {
            Reason::DangerIsNeverAllowed => Self::DangerIsNeverAllowed,
            Reason::PackageNeverUnattended => Self::PackageNeverUnattended,
            Reason::Band { .. } => Self::Band,
            Reason::Drift { .. } => Self::Drift,
            Reason::Gate { .. } => Self::Gate,
            Reason::Stopped { .. } => Self::Stopped,
        }
    }
}

impl From<GateVerdict> for GateView {
    fn from(said: GateVerdict) -> Self {
        Self { gate: said.gate, verdict: said.verdict, determining: said.determining, errors: said.errors }
    }
}

impl From<Invocation> for InvocationView {
    fn from(invocation: Invocation) -> Self {
        let (duration_ms, waited_ms) = (invocation.duration_ms(), invocation.waited_ms());
        Self {
            id: invocation.id.to_string(),
            status: invocation.status,
            mode: invocation.decision.mode,
            mode_source: invocation.decision.source,
            action: invocation.action.to_string(),
            source: invocation.action.source().into(),
            connection_id: invocation.connection.as_ref().map(ToString::to_string),
            tier: invocation.tier,
            class: invocation.tier.class(),
            session_id: invocation.session.to_string(),
            session_title: None,
            space_id: invocation.space.to_string(),
            principal: invocation.principal.to_string(),
            owner_id: invocation.owner.as_ref().map(ToString::to_string),
            params: invocation.call.params,
            result: invocation.result,
            error: invocation.failure.map(|failure| FailureView { code: failure.code, message: failure.message }),
            denied_by: invocation.denied_by,
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
                .map(|binding| BindingView { digest: binding.digest.to_string(), expires_at: binding.expires_at }),
            expires_at: match invocation.deadline {
                Some(Deadline::At(at)) if invocation.status == Status::Pending => Some(at),
                Some(Deadline::At(_) | Deadline::Stopped { .. }) | None => None,
            },
            void: None,
            caller_left: false,
            clock_stopped: matches!(invocation.deadline, Some(Deadline::Stopped { .. })) && !invocation.status.is_final(),
            approvals: invocation.approvals.into_iter().map(answer_view).collect(),
            answer: invocation.answer.map(answer_view),
            edit: invocation.edit.map(|edit| EditView {
                by: edit.by.to_string(),
                at: edit.at,
                changed: edit.changed,
                proposed_params: edit.proposed_params,
            }),
            claimed: invocation.call.claimed.map(ClaimedView::from),
            redacted: invocation.redacted.map(|taken| taken.counts).unwrap_or_default(),
            released_from: invocation.released_from.as_ref().map(ToString::to_string),
            grant_id: invocation.grant.as_ref().map(ToString::to_string),
            observed: invocation.observed,
            checks: invocation.aftermath.checks.into_iter().flatten().map(CheckView::from).collect(),
            repair: invocation.aftermath.repair.map(RemedyView::from),
            rollback: invocation.aftermath.rollback.map(RemedyView::from),
            reverses: invocation.reverses.as_ref().map(ToString::to_string),
            reverted_by: None,
            changed_files: Vec::new(),
            facts: Vec::new(),
            batch: invocation.batch.map(PartOfView::from),
            settled: invocation.aftermath.settled.map(|settled| SettledView {
                by: settled.by.to_string(),
                at: settled.at,
                reason: invocation.aftermath.settled_reason,
            }),
            scope: Some(invocation.call.scope).filter(|scope| !scope.is_unbounded()).map(ScopeView::from),
            verification: Some(invocation.call.commands)
                .filter(|commands| !commands.is_empty())
                .map(|commands| VerificationView { commands }),
            cost_usd: invocation.charge.and_then(|charge| charge.usd).map(|usd| usd.to_string()),
            attempts: invocation.attempts,
            created_at: invocation.created_at,
            resumed_at: invocation.taken_up_at,
            started_at: invocation.started_at,
            completed_at: invocation.ended_at,
            duration_ms,
            waited_ms,
            receipt: invocation.receipt.map(|receipt| ReceiptRefView { id: receipt.id.to_string(), seq: receipt.seq }),
            trace_id: invocation.trace_id,
        }
    }
}

impl InvocationView {
    /// What is left of one that did not succeed, for a sentence that goes on with the reason.
    pub fn how_it_failed(&self) -> &'static str {
        match (self.status, self.rollback) {
            (Status::Reverted, _) => "failed, and its effects were rolled back",
            (Status::Failed, Some(RemedyView { ok: true, .. })) => "failed, and its effects were rolled back",
            (Status::Failed, Some(RemedyView { attempted: true, ok: false })) => "failed, and its effects could not be rolled back",
            (Status::Failed, Some(RemedyView { attempted: false, ok: false })) => "failed, and its effects were not rolled back",
            _ => "did not happen",
        }
    }
}
