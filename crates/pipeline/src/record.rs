//! Stage 10: the end. What is kept is redacted and bounded; status, receipt, key and event become true in one transaction.

mod reward;

use crate::decide::Denied;
use crate::execute::{Done, evidence_digest, failure_of};
use crate::stage::Stage;
use crate::truncate::truncate;
use crate::verify::{Looked, Verified};
use crate::walking::Walking;
use crate::{Conflict, Error, Outcome, Pipeline, Walked};
use countersign_core::decision::GateVerdict;
use countersign_core::effect::{Aftermath, Check, Purpose, Remedy};
use countersign_core::egress::Traffic;
use countersign_core::invocation::{DeniedBy, Failure, Intention, ReceiptRef};
use countersign_core::keyring::SpaceKey;
use countersign_core::ledger::{Approval, EntryDraft, EntryId, Finish, Finished, GrantUse, KeyFate, NewQuarantine, Row};
use countersign_core::limits::{CALL_TIMEOUT_MS, QUARANTINE_SECONDS, RECORD_RETRY_SECONDS, RESULT_STORED_BYTES_MAX};
use countersign_core::quarantine::{Caught, Holds};
use countersign_core::{Digest, Invocation, ReceiptId, Status, json, ledger};
use policy::digest::Bound;
use receipt::body::{
    ApprovalBody, Body as _, Cost, DefinitionDigests, EditBody, EgressBody, Outputs, PolicyVerdict, ReceiptBody, Reward, Sandbox, Timing,
    Verification,
};
pub use reward::RewardWeights;
use reward::{Execution, Measured};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// Everything a receipt is made of.
pub(crate) struct Ending {
    invocation: Box<Invocation>,
    row: Row,
    pub(crate) policy_slice: Digest,
    pub(crate) approval: Option<ApprovalBody>,
    /// The answer that ends it, when a person does.
    answered: Option<Approval>,
    pub(crate) idempotency: Option<Digest>,
    pub(crate) profile: String,
    outputs: Option<Outputs>,
    evidence: Option<Digest>,
    execution: Execution,
    quality_thousandths: u32,
    timeout_ms: u64,
    key_fate: KeyFate,
    grant_use: GrantUse,
    /// What was dangerous, to be kept for review.
    pub(crate) quarantine: Option<NewQuarantine>,
    /// HMAC of the caller's own words.
    claimed: Option<Digest>,
    /// The receipt of the quarantined call this one was released from.
    supersedes: Option<ReceiptId>,
    /// The rules it was decided by, where no intent has compared them.
    rules_version: Option<i64>,
    /// Recovery leaves the invocation alone until its outcome is recorded.
    walking: Option<Walking>,
}

impl Ending {
    /// The end of something that never ran.
    pub(crate) fn unexecuted(
        invocation: impl Into<Box<Invocation>>,
        status: Status,
        by: Option<DeniedBy>,
        failure: Failure,
        row: Row,
    ) -> Self {
        let mut invocation = invocation.into();
        invocation.status = status;
        invocation.denied_by = by;
        invocation.failure = Some(failure);
        let bound = invocation.binding.as_ref().and_then(|binding| serde_json::from_value::<Bound>(binding.facts.clone()).ok());
        Self {
            policy_slice: bound.as_ref().map_or(Digest::new([0; 32]), |bound| bound.policy_slice),
            profile: bound.map_or_else(String::new, |bound| bound.profile),
            invocation,
            row,
            approval: None,
            answered: None,
            idempotency: None,
            outputs: None,
            evidence: None,
            execution: Execution::Never,
            quality_thousandths: 0,
            timeout_ms: CALL_TIMEOUT_MS,
            key_fate: KeyFate::Freed,
            grant_use: GrantUse::Kept,
            quarantine: None,
            claimed: None,
            supersedes: None,
            rules_version: None,
            walking: None,
        }
    }

    /// The end a person gave to what was in doubt.
    pub(crate) fn settled(doubted: Invocation, status: Status, key: &dyn SpaceKey) -> Self {
        let failure = doubted.failure.clone().filter(|_| status != Status::Succeeded);
        Self::begun(doubted, status, failure, key)
    }

    /// The end of something that was announced, and whose source nobody asks any more.
    pub(crate) fn begun(begun: Invocation, status: Status, failure: Option<Failure>, key: &dyn SpaceKey) -> Self {
        let (announced, row) = (begun.announced.clone(), Row::From(begun.status));
        let approval = approval_of(&begun);
        let idempotency = begun.idempotency_key.as_ref().map(|text| key.digest("idempotency_key", text.as_bytes()));
        let evidence = begun.evidence.as_ref().map(|evidence| evidence_digest(key, evidence));
        let unknown = Failure { code: "in_doubt".into(), message: "nobody saw how it ended".into() };
        let mut ending = Self::unexecuted(begun, status, None, unknown, row);
        ending.invocation.failure = failure;
        if let Some(announced) = announced {
            (ending.policy_slice, ending.profile) = (announced.policy_slice, announced.profile);
        }
        (ending.approval, ending.idempotency, ending.evidence) = (approval, idempotency, evidence);
        ending.execution = if status == Status::Succeeded { Execution::Succeeded } else { Execution::Failed };
        ending.key_fate = if status == Status::Succeeded { KeyFate::Answers } else { KeyFate::Freed };
        ending
    }

    /// It never left, so it has used nothing.
    pub(crate) fn return_grant(&mut self) {
        if self.invocation.grant.is_some() {
            self.grant_use = GrantUse::Returned;
        }
    }

    /// The person's answer that ends it.
    #[must_use]
    pub(crate) fn answered(mut self, approval: Approval) -> Self {
        self.invocation.answer = Some(approval.answer.clone());
        self.answered = Some(approval);
        self
    }
}

impl Pipeline {
    /// Ends a call that was refused or quarantined, by the rules as they are now: else it is decided again.
    pub(crate) async fn record_refusal(
        &self,
        refused: Box<Denied>,
        status: Status,
        quarantine: Option<NewQuarantine>,
    ) -> Result<Walked, Error> {
        let Denied { gated, decision, policy_slice, failure } = *refused;
        let by = (status == Status::Denied).then_some(DeniedBy::Policy);
        let ending = Ending::unexecuted(gated.to_invocation(status, &decision), status, by, failure, Row::Insert);
        let ending = Ending {
            policy_slice,
            profile: gated.validated.resolved.action().profile.as_str().to_owned(),
            idempotency: gated.validated.idempotency_digest(),
            rules_version: Some(gated.validated.resolved.admitted.rules_version),
            quarantine,
            ..ending
        };
        Ok(match self.record_by_rules(ending).await? {
            Recorded::Ended(invocation) => Walked::Outcome(Outcome::Ended { invocation, result: None }),
            Recorded::RulesChanged => Walked::RulesChanged(gated.undecided()),
        })
    }

    pub(crate) async fn record(&self, looked: Looked) -> Result<Walked, Error> {
        let Verified { done, failure } = match looked {
            Looked::Verified(verified) => verified,
            Looked::InDoubt(invocation) => return Ok(Walked::Outcome(Outcome::InDoubt(invocation))),
        };
        let Done { origin, definition, mut invocation, row, answer, policy_slice, approval, key, idempotency, walking, .. } = *done;
        let unbegun = if row == Row::Insert { origin.undecided() } else { None };
        let mut result = None;
        let (mut outputs, mut evidence, mut quality_thousandths) = (None, None, 0);
        let mut grant_use = GrantUse::Kept;
        let mut quarantine = None;
        let claimed = claimed_digest(&*key, &invocation)?;
        match answer {
            Ok(output) => {
                let findings = policy::scan_output(&output.value);
                let mut caught = crate::gate::caught(&findings);
                let (handed_on, unreadable) = self.take_out_of_answer(&invocation.org, &invocation.space, &output.value).await;
                caught.extend(unreadable);
                outputs = Some(outputs_of(&*key, &output.value, !caught.is_empty()));
                if output.evidence.is_some() {
                    invocation.evidence = output.evidence;
                }
                evidence = invocation.evidence.as_ref().map(|value| evidence_digest(&*key, value));
                quality_thousandths = output.quality_thousandths;
                let mut safe = policy::redact(&handed_on).value;
                if !findings.is_empty() {
                    self.label_untrusted(&invocation.org, &invocation.session, &invocation.id).await;
                }
                if !caught.is_empty() {
                    // The effect has happened: only the answer is kept back.
                    let sealed = crate::quarantine::sealed(&*key, &invocation.id, &output.value)?;
                    safe = withheld(&caught);
                    quarantine = Some(NewQuarantine { holds: Holds::Output, sealed, caught, lifetime_seconds: QUARANTINE_SECONDS });
                }
                invocation.result = Some(truncate(safe.clone(), RESULT_STORED_BYTES_MAX));
                invocation.status = status_after(failure.is_none(), &invocation.aftermath);
                invocation.failure = failure;
                result = Some(safe);
            }
            Err(error) => {
                // What never left has used nothing. A repair or a rollback comes after something that did.
                if error.is_transient() && invocation.purpose == Purpose::Effect && invocation.grant.is_some() {
                    grant_use = GrantUse::Returned;
                }
                invocation.status = status_after(false, &invocation.aftermath);
                invocation.failure = Some(failure.unwrap_or_else(|| failure_of(&error)));
            }
        }
        let executed = invocation.intention != Intention::DryRun;
        let succeeded = invocation.status == Status::Succeeded;
        let ending = Ending {
            row,
            walking,
            policy_slice,
            approval,
            answered: None,
            idempotency,
            profile: definition.action.profile.as_str().to_owned(),
            outputs,
            evidence,
            execution: match (executed, succeeded) {
                (false, _) => Execution::Never,
                (true, true) => Execution::Succeeded,
                (true, false) => Execution::Failed,
            },
            quality_thousandths,
            timeout_ms: definition.action.timeout_ms,
            key_fate: key_fate(&invocation),
            grant_use,
            quarantine,
            claimed,
            supersedes: None,
            rules_version: unbegun.as_ref().map(|unbegun| unbegun.rules_version),
            invocation,
        };
        Ok(match (self.record_by_rules(ending).await?, unbegun) {
            (Recorded::Ended(invocation), _) => Walked::Outcome(Outcome::Ended { invocation, result }),
            // What was read is not given out: it is asked for again, if it still may be.
            (Recorded::RulesChanged, Some(unbegun)) => Walked::RulesChanged(unbegun),
            (Recorded::RulesChanged, None) => return Err(Error::rules_keep_changing()),
        })
    }

    /// Ends something that no rule decides any more.
    pub(crate) async fn record_ending(&self, ending: Ending) -> Result<Invocation, Error> {
        match self.record_by_rules(ending).await? {
            Recorded::Ended(invocation) => Ok(*invocation),
            Recorded::RulesChanged => Err(Error::rules_keep_changing()),
        }
    }

    /// Writes the receipt and everything that becomes true with it.
    async fn record_by_rules(&self, mut ending: Ending) -> Result<Recorded, Error> {
        let _timed = self.timed(Stage::Record);
        let id = ReceiptId::new(self.now(), self.random_bytes());
        if let Some(from) = &ending.invocation.released_from {
            let quarantined = self.ledger().find_invocation(&ending.invocation.org, from).await?;
            ending.supersedes = quarantined.and_then(|quarantined| quarantined.receipt).map(|receipt| receipt.id);
        }
        let walking = ending.walking.take();
        let finish = self.finish_as(&id, ending)?;
        let Some((mut invocation, seq)) = self.write_ending(finish, &id, walking).await? else {
            return Ok(Recorded::RulesChanged);
        };
        self.fault("record.ended");
        invocation.receipt = Some(ReceiptRef { id, seq });
        self.count(&invocation);
        self.inner.waiters.wake(&invocation.id);
        Ok(Recorded::Ended(invocation))
    }

    /// What ends it, with its receipt.
    pub(crate) fn finish_of(&self, ending: Ending) -> Result<Arc<Finish>, Error> {
        self.finish_as(&ReceiptId::new(self.now(), self.random_bytes()), ending)
    }

    fn finish_as(&self, id: &ReceiptId, mut ending: Ending) -> Result<Arc<Finish>, Error> {
        ending.invocation.ended_at.get_or_insert_with(|| self.now());
        let body = receipt_body(id, &ending, &self.inner.settings.reward)?;
        Ok(Arc::new(Finish {
            row: ending.row,
            receipt: EntryDraft { id: EntryId::Receipt(id.clone()), body },
            event: self.event(&ending.invocation, ending.invocation.status),
            key: ending.key_fate,
            approval: ending.answered,
            grant: ending.grant_use,
            quarantine: ending.quarantine,
            rules_version: ending.rules_version,
            invocation: ending.invocation,
        }))
    }

    /// Tries a few times, since the effect has happened; then goes on trying behind the caller's back. `None`: the rules changed.
    async fn write_ending(
        &self,
        mut finish: Arc<Finish>,
        receipt: &ReceiptId,
        walking: Option<Walking>,
    ) -> Result<Option<(Box<Invocation>, u64)>, Error> {
        let mut wait = Duration::from_millis(20);
        for _ in 0..4 {
            match self.try_ending(&finish, receipt).await {
                Err(Error::Store(error)) if is_passing(&error) => {
                    Arc::make_mut(&mut finish).row = again(finish.row);
                    tokio::time::sleep(wait).await;
                    wait *= 4;
                }
                settled => return settled.map(|seq| seq.map(|seq| (Arc::unwrap_or_clone(finish).invocation, seq))),
            }
        }
        match self.try_ending(&finish, receipt).await {
            Err(Error::Store(error)) if is_passing(&error) && finish.row == Row::From(Status::Running) => {
                let invocation = finish.invocation.id.clone();
                tracing::error!(%invocation, "an outcome could not be recorded; trying until the store is back");
                self.record_later(finish, receipt.clone(), walking);
                Err(Error::Unrecorded { invocation })
            }
            settled => settled.map(|seq| seq.map(|seq| (Arc::unwrap_or_clone(finish).invocation, seq))),
        }
    }

    fn record_later(&self, finish: Arc<Finish>, receipt: ReceiptId, walking: Option<Walking>) {
        let pipeline = self.clone();
        self.spawn(async move {
            let _walking = walking;
            for _ in 0..RECORD_RETRY_SECONDS {
                tokio::time::sleep(Duration::from_secs(1)).await;
                match pipeline.try_ending(&finish, &receipt).await {
                    Err(Error::Store(error)) if is_passing(&error) => {}
                    settled => {
                        if let Err(error) = settled {
                            tracing::error!(%error, invocation = %finish.invocation.id, "an outcome could not be recorded");
                        }
                        pipeline.count(&finish.invocation);
                        pipeline.inner.waiters.wake(&finish.invocation.id);
                        // Its batch waits for it.
                        pipeline.advance_of(&finish.invocation).await;
                        return;
                    }
                }
            }
            tracing::error!(invocation = %finish.invocation.id, "the store did not come back; the next start finds this in doubt");
        });
    }

    /// The receipt's position; `None` when the rules changed.
    async fn try_ending(&self, finish: &Arc<Finish>, receipt: &ReceiptId) -> Result<Option<u64>, Error> {
        let invocation = &finish.invocation;
        match self.ledger().finish(Arc::clone(finish)).await? {
            Finished::Recorded { seq } => Ok(Some(seq)),
            Finished::RulesChanged => Ok(None),
            Finished::Missing => Err(Error::UnknownInvocation { invocation: invocation.id.to_string() }),
            Finished::Not(status) => {
                // After an uncertain commit the row may already say what we wanted to write.
                let row = self.ledger().find_invocation(&invocation.org, &invocation.id).await?;
                match row.and_then(|row| row.receipt) {
                    Some(written) if written.id == *receipt => Ok(Some(written.seq)),
                    // Somebody who could not know better called it in doubt; we know how it ended.
                    None if status == Status::InDoubt && matches!(finish.row, Row::Begun | Row::From(Status::Running)) => {
                        let resolved = Arc::new(Finish { row: Row::From(Status::InDoubt), ..Finish::clone(finish) });
                        Box::pin(self.try_ending(&resolved, receipt)).await
                    }
                    // Another server took this one for gone, or asks about what is in doubt: how it ended is said when that one is done.
                    None if busy_status(finish.row) == Some(status) => {
                        let message = format!("another server finds out what became of `{}`", invocation.id);
                        Err(Error::Store(ledger::Error::Unavailable { message }))
                    }
                    _ => Err(Error::Conflict { invocation: invocation.id.clone(), conflict: conflict_with(status) }),
                }
            }
        }
    }

    pub(crate) fn count(&self, invocation: &Invocation) {
        self.inner.tally.count(invocation);
        metrics::counter!(
            "countersign_invocations_total",
            "mode" => invocation.decision.mode.as_str(),
            "status" => invocation.status.as_str()
        )
        .increment(1);
        tracing::info!(
            invocation = invocation.id.as_str(),
            session = invocation.session.as_str(),
            org = invocation.org.as_str(),
            action = invocation.action.as_str(),
            mode = invocation.decision.mode.as_str(),
            mode_source = invocation.decision.source.as_str(),
            status = invocation.status.as_str(),
            dry_run = invocation.intention == Intention::DryRun,
            trace_id = invocation.trace_id,
            "invocation"
        );
    }
}

/// What became of an end that was to be written.
enum Recorded {
    Ended(Box<Invocation>),
    /// It was decided by rules that are no longer in force; nothing was written.
    RulesChanged,
}

/// Under what isolation it ran, as the sandbox itself tells.
fn sandbox_of(ending: &Ending) -> Sandbox {
    let mut sandbox = Sandbox::none(ending.profile.clone());
    let traffic = ending.invocation.meter.traffic().into_iter();
    sandbox.egress = traffic.map(|Traffic { host, made, refused }| EgressBody { host, made, refused }).collect();
    let Some(facts) = ending.invocation.meter.facts() else {
        return sandbox;
    };
    let text = |name: &str| facts[name].as_str().map(str::to_owned);
    let texts = |name: &str| Some(facts[name].as_array()?.iter().filter_map(|text| text.as_str().map(str::to_owned)).collect());
    sandbox.cgroup_backend = text("cgroup_backend");
    sandbox.seccomp_sha256 = text("seccomp_sha256");
    sandbox.landlock_abi = facts["landlock_abi"].as_u64().and_then(|abi| u32::try_from(abi).ok());
    (sandbox.namespaces, sandbox.degraded) = (texts("namespaces"), texts("degraded"));
    sandbox
}

fn receipt_body(id: &ReceiptId, ending: &Ending, weights: &RewardWeights) -> Result<String, Error> {
    let invocation = &ending.invocation;
    let ended_at = invocation.ended_at.unwrap_or(invocation.created_at);
    let exec_ms = invocation.started_at.map_or(0, |started| ended_at.millis_since(started));
    let measured = Measured {
        execution: ending.execution,
        quality_thousandths: ending.quality_thousandths,
        cpu_ms: invocation.meter.cpu_ms().unwrap_or(0),
        cpu_budget_ms: ending.timeout_ms,
        exec_ms,
        timeout_ms: ending.timeout_ms,
    };
    let parts = reward::reward(&measured, weights);
    let body = ReceiptBody {
        receipt_id: id.clone(),
        invocation_id: invocation.id.clone(),
        attempts: invocation.attempts,
        batch: invocation.batch.as_ref().map(|part| part.batch.clone()),
        status: invocation.status,
        error: invocation.failure.as_ref().map(|failure| failure.code.clone()),
        denied_by: invocation.denied_by,
        principal: invocation.principal.clone(),
        owner: invocation.owner.clone(),
        session: invocation.session.clone(),
        space: invocation.space.clone(),
        action: invocation.action.clone(),
        tier: invocation.tier,
        definition: DefinitionDigests { structural: invocation.digests.structural, textual: invocation.digests.textual },
        params: invocation.digests.params,
        raw: invocation.digests.raw,
        policy: invocation.gates.iter().map(to_policy).collect(),
        policy_slice: ending.policy_slice,
        decision: invocation.decision.clone(),
        approval: ending.approval.clone(),
        sandbox: sandbox_of(ending),
        outputs: ending.outputs,
        artifacts: Vec::new(),
        evidence: ending.evidence,
        verification: invocation.aftermath.checks.as_deref().map(verification_of),
        repair: invocation.aftermath.repair,
        rollback: invocation.aftermath.rollback,
        reverses: invocation.reverses.clone(),
        settled: invocation.aftermath.settled.clone(),
        // Code inside the server shares its processor time with every other call: there is no honest figure for one.
        cost: Cost { cpu_ms: invocation.meter.cpu_ms() },
        timing: Timing {
            queued_ms: invocation.started_at.map_or(0, |started| started.millis_since(invocation.created_at)),
            exec_ms,
            total_ms: ended_at.millis_since(invocation.created_at),
            started_at: invocation.started_at,
            ended_at,
        },
        idempotency_key: ending.idempotency,
        replayed: false,
        dry_run: invocation.intention == Intention::DryRun,
        trace_id: invocation.trace_id.clone(),
        reward: Reward {
            scalar_millionths: parts.scalar_millionths,
            success: parts.success,
            quality: parts.quality,
            cost: parts.cost,
            latency: parts.latency,
        },
        supersedes: ending.supersedes.clone(),
        policies: invocation.policies,
        claimed: ending.claimed,
        redacted: invocation.redacted.as_ref().map(|taken| taken.counts.clone()).unwrap_or_default(),
        grant: invocation.grant.clone(),
        grant_returned: ending.grant_use == GrantUse::Returned,
        edit: invocation.edit.as_ref().map(|edit| EditBody { by: edit.by.clone(), changed: edit.changed.clone(), proposed: edit.proposed }),
    };
    body.to_canonical().map_err(|error| Error::Internal { message: error.to_string() })
}

/// Who said yes to what has begun.
pub(crate) fn approval_of(begun: &Invocation) -> Option<ApprovalBody> {
    let binding = begun.binding.as_ref().filter(|_| !begun.approvals.is_empty())?;
    let approvers = begun.approvals.iter().map(|approval| approval.by.clone()).collect();
    Some(ApprovalBody { approvers, binding: binding.digest })
}

fn verification_of(checks: &[Check]) -> Verification {
    Verification { ok: checks.iter().all(|check| check.ok), checks: checks.iter().map(|check| check.name.clone()).collect() }
}

/// Only what was seen to be as it was before is `reverted`.
fn status_after(is_well: bool, aftermath: &Aftermath) -> Status {
    match aftermath.rollback {
        _ if is_well => Status::Succeeded,
        Some(Remedy { ok: true, .. }) => Status::Reverted,
        Some(Remedy { ok: false, .. }) | None => Status::Failed,
    }
}

/// A failure the source vouches for had no effect, and one that was taken back has none left; a result that does not fit means one
/// may have happened, and one that was not taken back stands: under the same key it is not made a second time.
const fn key_fate(invocation: &Invocation) -> KeyFate {
    let is_answered = match invocation.status {
        Status::Succeeded => true,
        Status::Reverted => false,
        Status::Failed
        | Status::Pending
        | Status::Approved
        | Status::Running
        | Status::Denied
        | Status::Quarantined
        | Status::Expired
        | Status::Cancelled
        | Status::InDoubt => invocation.result.is_some() || invocation.aftermath.is_left_over(),
    };
    if is_answered { KeyFate::Answers } else { KeyFate::Freed }
}

/// What stands where a dangerous answer stood.
fn withheld(caught: &[Caught]) -> Value {
    let rules: Vec<_> = caught.iter().map(|caught| caught.rule.as_str()).collect();
    serde_json::json!({ "_withheld": true, "rules": rules })
}

fn claimed_digest(key: &dyn SpaceKey, invocation: &Invocation) -> Result<Option<Digest>, Error> {
    let Some(claimed) = &invocation.claimed else {
        return Ok(None);
    };
    let text = json::canonical(claimed).map_err(|error| Error::Internal { message: error.to_string() })?;
    Ok(Some(key.digest("claimed", text.as_bytes())))
}

fn outputs_of(key: &dyn SpaceKey, value: &Value, withheld: bool) -> Outputs {
    // A source may answer with numbers that have no canonical form; its compact text still has exactly one.
    let text = json::canonical(value).unwrap_or_else(|_| value.to_string());
    Outputs { digest: key.digest("outputs", text.as_bytes()), bytes: text.len() as u64, withheld }
}

fn to_policy(verdict: &GateVerdict) -> (countersign_core::decision::Gate, PolicyVerdict) {
    let GateVerdict { gate, verdict, determining, errors } = verdict;
    (*gate, PolicyVerdict { verdict: *verdict, determining: determining.clone(), errors: errors.clone() })
}

/// The status a row must have to be written, where others may be busy with one in that status.
const fn busy_status(row: Row) -> Option<Status> {
    match row {
        Row::Begun => Some(Status::Running),
        Row::From(status @ (Status::Running | Status::InDoubt)) => Some(status),
        Row::From(_) | Row::ExpiredFrom(_) | Row::Insert | Row::InsertAgain => None,
    }
}

/// How a write that may have been kept finds its row: nothing is certain any more.
const fn again(row: Row) -> Row {
    match row {
        Row::Insert | Row::InsertAgain => Row::InsertAgain,
        Row::Begun => Row::From(Status::Running),
        Row::From(_) | Row::ExpiredFrom(_) => row,
    }
}

/// Whether the same write may succeed later.
pub(crate) const fn is_passing(error: &ledger::Error) -> bool {
    match error {
        ledger::Error::Unavailable { .. } | ledger::Error::CommitUnknown { .. } => true,
        ledger::Error::Corrupt { .. } => false,
    }
}

/// What an answer runs into when the row is already in this status.
pub(crate) const fn conflict_with(status: Status) -> Conflict {
    match status {
        Status::Denied => Conflict::Rejected,
        Status::Expired => Conflict::Expired,
        Status::Approved | Status::Running | Status::Succeeded | Status::Failed | Status::Reverted | Status::InDoubt => Conflict::Consumed,
        Status::Pending | Status::Quarantined | Status::Cancelled => Conflict::Ended,
    }
}
