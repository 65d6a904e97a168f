//! Writes the end of a call: status, receipt, idempotency key and event become durable in one transaction.

use super::ground::{Walk, Walking};
use super::reward::{self, Execution, Measured, RewardParts};
use super::stage::Stage;
use crate::error::{Conflict, Error};
use countersign_core::decision::{Gate, GateVerdict};
use countersign_core::effect::Check;
use countersign_core::egress::Traffic;
use countersign_core::invocation::{DeniedBy, Failure, Intention, ReceiptRef};
use countersign_core::keyring::SpaceKey;
use countersign_core::ledger::{Approval, EntryDraft, EntryId, EventDraft, Finish, Finished, GrantUse, KeyFate, NewQuarantine, Row};
use countersign_core::limits::{CALL_TIMEOUT_MS, RECORD_RETRY_SECONDS};
use countersign_core::observe::Observed;
use countersign_core::ports::events::ACTION_EXECUTED;
use countersign_core::price::Price;
use countersign_core::{
    ActionId, Amount, ConnectionId, Digest, EventId, Invocation, InvocationId, Mode, PrincipalId, ReceiptId, SessionId, SpaceId, Status,
    Tier, ledger,
};
use durable::Pace;
use policy::digest::Bound;
use receipt::body::{
    ApprovalBody, Body as _, Cost, DefinitionDigests, EditBody, EgressBody, Outputs, PolicyVerdict, ReceiptBody, Reward, Sandbox, Timing,
    Verification,
};
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// The failure code of a call that ended because its caller left and did not ask again.
pub(crate) const CALLER_LEFT: &str = "caller_left";

/// Everything that a receipt is made of.
pub(crate) struct Ending {
    pub(super) invocation: Box<Invocation>,
    pub(super) row: Row,
    pub(crate) policy_slice: Digest,
    pub(crate) approval: Option<ApprovalBody>,
    /// The answer that ends the call, if a person ends it.
    pub(super) answered: Option<Approval>,
    pub(crate) idempotency: Option<Digest>,
    pub(crate) profile: String,
    /// The permissions that the action requires, as far as they are known here.
    pub(crate) requires: Vec<String>,
    pub(super) outputs: Option<Outputs>,
    pub(super) evidence: Option<Digest>,
    pub(super) execution: Execution,
    pub(super) quality_thousandths: u32,
    pub(super) timeout_ms: u64,
    pub(super) key_fate: KeyFate,
    pub(super) grant_use: GrantUse,
    /// The dangerous content to keep for review.
    pub(crate) quarantine: Option<NewQuarantine>,
    /// The whole result as JSON, if more is needed than the invocation keeps.
    pub(super) whole_result: Option<String>,
    /// HMAC of the caller's claims.
    pub(super) claimed: Option<Digest>,
    /// The receipt of the quarantined call this one was released from.
    pub(super) supersedes: Option<ReceiptId>,
    /// The rules version that the call was decided under, if no intent has compared it.
    pub(super) rules_version: Option<i64>,
    /// Keeps recovery away from the invocation until its outcome is recorded.
    pub(super) walking: Option<Walking>,
}

impl Ending {
    /// The end of a call that never ran.
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
            requires: Vec::new(),
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
            whole_result: None,
            claimed: None,
            supersedes: None,
            rules_version: None,
            walking: None,
        }
    }

    /// The end that a person gave to a call in doubt.
    pub(crate) fn settled(doubted: Invocation, status: Status, key: &dyn SpaceKey) -> Self {
        let failure = doubted.failure.clone().filter(|_| status != Status::Succeeded);
        let mut ending = Self::begun(doubted, status, failure, key);
        if status != Status::Succeeded {
            charge(&mut ending.invocation, |_| Amount::default());
        }
        ending
    }

    /// The end of a call that has an intent, and whose source is not asked any more.
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

    /// Returns the grant use: the call never reached the source.
    pub(crate) fn return_grant(&mut self) {
        if self.invocation.grant.is_some() {
            self.grant_use = GrantUse::Returned;
        }
    }

    /// Adds the person's answer that ends the call.
    #[must_use]
    pub(crate) fn answered(mut self, approval: Approval) -> Self {
        self.invocation.answer = Some(approval.answer.clone());
        self.answered = Some(approval);
        self
    }
}

impl Walk {
    /// Ends a call whose end does not depend on the current rules.
    pub(crate) async fn record_ending(&self, ending: Ending) -> Result<Invocation, Error> {
        match self.record_by_rules(ending).await? {
            Recorded::Ended(invocation) => Ok(*invocation),
            Recorded::RulesChanged => Err(Error::RulesKeepChanging),
        }
    }

    /// Expires a call that was not answered in time, or cancels it if its caller has left. Does nothing if it was answered after all.
    pub(crate) async fn expire(&self, invocation: Invocation, from: Status) -> Result<(), Error> {
        let (status, failure) = if self.ledger().has_left(&invocation.org, &invocation.id).await? {
            let message = "its caller left and did not ask for it again in time; nothing was done".into();
            (Status::Cancelled, Failure { code: CALLER_LEFT.into(), message })
        } else {
            (Status::Expired, Failure { code: Conflict::Expired.code().into(), message: "nobody answered in time".into() })
        };
        match self.record_ending(Ending::unexecuted(invocation, status, None, failure, Row::ExpiredFrom(from))).await {
            Ok(_) | Err(Error::Conflict { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Writes the receipt and everything that changes with it. If the rules have changed since the decision, it writes nothing and says so.
    pub(crate) async fn record_by_rules(&self, mut ending: Ending) -> Result<Recorded, Error> {
        let _timed = self.timed(Stage::Record);
        let id = ReceiptId::new(self.now(), self.random_bytes());
        if let Some(from) = &ending.invocation.released_from {
            let quarantined = self.ledger().find_invocation(&ending.invocation.org, from).await?;
            ending.supersedes = quarantined.and_then(|quarantined| quarantined.receipt).map(|receipt| receipt.id);
        }
        let (walking, facts) = (ending.walking.take(), LoggedFacts::of(&ending));
        let finish = self.finish_as(&id, ending)?;
        let Some((mut invocation, seq)) = self.write_ending(finish, &id, walking, &facts).await? else {
            return Ok(Recorded::RulesChanged);
        };
        self.fault("record.ended");
        invocation.receipt = Some(ReceiptRef { id, seq });
        self.tell_ended(&invocation, &facts);
        Ok(Recorded::Ended(invocation))
    }

    /// The record that ends a call, with its receipt.
    pub(crate) fn finish_of(&self, ending: Ending) -> Result<Arc<Finish>, Error> {
        self.finish_as(&ReceiptId::new(self.now(), self.random_bytes()), ending)
    }

    fn finish_as(&self, id: &ReceiptId, mut ending: Ending) -> Result<Arc<Finish>, Error> {
        ending.invocation.ended_at.get_or_insert_with(|| self.now());
        let was_made = ending.execution != Execution::Never;
        charge(&mut ending.invocation, |price| if was_made { price.of(None) } else { Amount::default() });
        let parts = reward::reward(&measured(&ending), &self.inner.settings.reward);
        let body = receipt_body(id, &ending, parts)?;
        Ok(Arc::new(Finish {
            row: ending.row,
            receipt: EntryDraft { id: EntryId::Receipt(id.clone()), body },
            event: self.event_of(&ending.invocation, ending.invocation.status, Some((id, parts))),
            executed: self.executed(&ending.invocation, id, parts),
            key: ending.key_fate,
            reward: (ending.execution != Execution::Never).then_some(parts.scalar_millionths),
            approval: ending.answered,
            grant: ending.grant_use,
            quarantine: ending.quarantine,
            whole_result: ending.whole_result,
            rules_version: ending.rules_version,
            invocation: ending.invocation,
        }))
    }

    /// Tries a few times, since the effect has happened; then goes on trying in the background. `None`: the rules changed.
    async fn write_ending(
        &self,
        mut finish: Arc<Finish>,
        receipt: &ReceiptId,
        walking: Option<Walking>,
        facts: &LoggedFacts,
    ) -> Result<Option<(Box<Invocation>, u64)>, Error> {
        let mut written = self.try_ending(&finish, receipt).await;
        if is_away(&written) {
            Arc::make_mut(&mut finish).row = again(finish.row);
            written = Pace::soon().retry(is_away, || self.try_ending(&finish, receipt)).await;
        }
        if is_away(&written) && finish.row == Row::From(Status::Running) {
            let invocation = finish.invocation.id.clone();
            tracing::error!(%invocation, "an outcome could not be recorded; trying until the store is back");
            self.record_later(finish, receipt.clone(), walking, facts.clone());
            return Err(Error::Unrecorded { invocation });
        }
        written.map(|seq| seq.map(|seq| (Arc::unwrap_or_clone(finish).invocation, seq)))
    }

    /// Goes on trying to write the end in the background. If the call is a part of a batch, the next sweep continues the batch.
    fn record_later(&self, finish: Arc<Finish>, receipt: ReceiptId, walking: Option<Walking>, facts: LoggedFacts) {
        let walk = self.clone();
        self.spawn(async move {
            let _walking = walking;
            match Pace::for_at_most(STORE_AWAY_MAX).retry(is_away, || walk.try_ending(&finish, &receipt)).await {
                Ok(_) => walk.tell_ended(&finish.invocation, &facts),
                Err(error) => tracing::error!(%error, invocation = %finish.invocation.id, "an outcome could not be recorded"),
            }
        });
    }

    /// The position of the receipt in the audit log; `None` if the rules changed.
    async fn try_ending(&self, finish: &Arc<Finish>, receipt: &ReceiptId) -> Result<Option<u64>, Error> {
        let invocation = &finish.invocation;
        match self.ledger().finish(Arc::clone(finish)).await? {
            Finished::Recorded { seq } => Ok(Some(seq)),
            Finished::RulesChanged => Ok(None),
            Finished::MayNotAnswer => Err(Error::MayNotApprove),
            Finished::Missing => Err(Error::UnknownInvocation { invocation: invocation.id.to_string() }),
            Finished::Not(status) => {
                // After an uncertain commit, the row may already have this receipt.
                let row = self.ledger().find_invocation(&invocation.org, &invocation.id).await?;
                match row.and_then(|row| row.receipt) {
                    Some(written) if written.id == *receipt => Ok(Some(written.seq)),
                    // Recovery marked the call as in doubt meanwhile, and this walk knows how it ended.
                    None if status == Status::InDoubt && matches!(finish.row, Row::Begun | Row::From(Status::Running)) => {
                        let resolved = Arc::new(Finish { row: Row::From(Status::InDoubt), ..Finish::clone(finish) });
                        Box::pin(self.try_ending(&resolved, receipt)).await
                    }
                    // Another server has claimed the call to reconcile it. This end is written once that server is done.
                    None if busy_status(finish.row) == Some(status) => {
                        let message = format!("another server finds out what became of `{}`", invocation.id);
                        Err(Error::Store(ledger::Error::Unavailable { message }))
                    }
                    _ => Err(Error::Conflict { invocation: invocation.id.clone(), conflict: conflict_with(status) }),
                }
            }
        }
    }

    /// Counts and logs a new status, and wakes the callers who wait for it. Call this once the status is durable.
    pub(crate) fn tell(&self, invocation: &Invocation) {
        self.count(invocation);
        self.wake(invocation.id.as_str());
    }

    fn tell_ended(&self, invocation: &Invocation, facts: &LoggedFacts) {
        self.count_with(invocation, facts);
        self.wake(invocation.id.as_str());
    }

    pub(crate) fn count(&self, invocation: &Invocation) {
        self.count_with(invocation, &LoggedFacts::default());
    }

    fn count_with(&self, invocation: &Invocation, facts: &LoggedFacts) {
        let code = invocation.failure.as_ref().map(|failure| failure.code.as_str());
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
            space = invocation.space.as_str(),
            action = invocation.action.as_str(),
            source = invocation.action.source(),
            tier = invocation.tier.as_str(),
            requires = facts.requires,
            profile = facts.profile,
            mode = invocation.decision.mode.as_str(),
            mode_source = invocation.decision.source.as_str(),
            status = invocation.status.as_str(),
            dry_run = invocation.intention == Intention::DryRun,
            outcome = code.unwrap_or(invocation.status.as_str()),
            retries = invocation.attempts.saturating_sub(1),
            duration_ms = invocation.duration_ms(),
            cpu_ms = invocation.meter.cpu_ms(),
            energy_uj = invocation.meter.energy_uj(),
            trace_id = invocation.trace_id,
            "invocation"
        );
    }

    /// The event for a status that is not an end.
    pub(crate) fn event(&self, invocation: &Invocation, status: Status) -> EventDraft {
        self.event_of(invocation, status, None)
    }

    /// The event for a status. At the end of a call it also tells of the receipt and of the reward in it.
    fn event_of(&self, invocation: &Invocation, status: Status, ended: Option<(&ReceiptId, RewardParts)>) -> EventDraft {
        let body = EventBody {
            invocation_id: &invocation.id,
            session_id: &invocation.session,
            space_id: &invocation.space,
            principal: &invocation.principal,
            action: &invocation.action,
            connection_id: invocation.connection.as_ref(),
            tier: invocation.tier,
            status,
            mode: invocation.decision.mode,
            trace_id: &invocation.trace_id,
            summary: summary_of(invocation, status),
            receipt_id: ended.map(|(receipt, _)| receipt),
            reward: ended.map(|(_, parts)| EventReward::of(parts)),
        };
        EventDraft {
            id: EventId::new(self.now(), self.random_bytes()),
            name: status.event_name(),
            key: invocation.id.to_string(),
            // Serialising cannot fail: the body has only ids, fixed words and finite numbers.
            body: serde_json::to_string(&body).unwrap_or_default(),
        }
    }

    /// The event that answers a request of an older contract: what the request named, and how its call ended. `None` for every other call.
    fn executed(&self, invocation: &Invocation, receipt: &ReceiptId, parts: RewardParts) -> Option<EventDraft> {
        let (older, claimed) = (invocation.call.older.as_ref()?, invocation.call.claimed.as_ref());
        let body = ExecutedBody {
            receipt_id: receipt,
            status: invocation.status,
            summary: summary_of(invocation, invocation.status),
            action_id: claimed.and_then(|claimed| claimed.action_id.as_deref()),
            tool_id: &invocation.action,
            subject_id: claimed.and_then(|claimed| claimed.subject.as_deref()),
            space_id: &invocation.space,
            idempotency_key: older.idempotency_key.as_deref(),
            trace_id: &invocation.trace_id,
            invocation_id: &invocation.id,
            session_id: &invocation.session,
            reward: EventReward::of(parts),
        };
        let id = EventId::new(self.now(), self.random_bytes());
        let body = serde_json::to_string(&body).unwrap_or_default();
        Some(EventDraft { id, name: ACTION_EXECUTED, key: invocation.id.to_string(), body })
    }
}

/// Says what a call did cost, unless that was said before.
pub(super) fn charge(invocation: &mut Invocation, cost: impl FnOnce(&Price) -> Amount) {
    if let Some(charge) = &mut invocation.charge {
        charge.usd.get_or_insert_with(|| cost(&charge.price));
    }
}

/// How long an outcome is kept in memory while the store is unavailable.
pub(crate) const STORE_AWAY_MAX: Duration = Duration::from_secs(RECORD_RETRY_SECONDS);

/// What a call stood under that its row does not have, for the log line of its end.
#[derive(Clone, Default)]
struct LoggedFacts {
    requires: Option<String>,
    profile: Option<String>,
}

impl LoggedFacts {
    fn of(ending: &Ending) -> Self {
        let known = |text: String| Some(text).filter(|text| !text.is_empty());
        Self { requires: known(ending.requires.join(" ")), profile: known(ending.profile.clone()) }
    }
}

/// The result of writing the end of a call.
pub(crate) enum Recorded {
    Ended(Box<Invocation>),
    /// The call was decided under rules that are no longer in force; nothing was written.
    RulesChanged,
}

#[derive(Serialize)]
struct EventBody<'a> {
    invocation_id: &'a InvocationId,
    session_id: &'a SessionId,
    space_id: &'a SpaceId,
    principal: &'a PrincipalId,
    action: &'a ActionId,
    #[serde(skip_serializing_if = "Option::is_none")]
    connection_id: Option<&'a ConnectionId>,
    tier: Tier,
    status: Status,
    mode: Mode,
    trace_id: &'a str,
    /// One sentence of ids, fixed words and numbers: nothing that the caller or the source wrote.
    summary: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    receipt_id: Option<&'a ReceiptId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reward: Option<EventReward>,
}

/// The fields of the request come back as its caller sent them, without secrets.
#[derive(Serialize)]
struct ExecutedBody<'a> {
    receipt_id: &'a ReceiptId,
    status: Status,
    summary: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    action_id: Option<&'a str>,
    tool_id: &'a ActionId,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject_id: Option<&'a str>,
    space_id: &'a SpaceId,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<&'a str>,
    trace_id: &'a str,
    invocation_id: &'a InvocationId,
    session_id: &'a SessionId,
    reward: EventReward,
}

/// The reward as older contracts write it: fractions of one. The signed receipt has it in millionths.
#[derive(Serialize)]
struct EventReward {
    scalar: f64,
    components: RewardComponents,
}

#[derive(Serialize)]
struct RewardComponents {
    success: f64,
    quality: f64,
    cost: f64,
    latency: f64,
}

impl EventReward {
    fn of(RewardParts { scalar_millionths, success, quality, cost, latency }: RewardParts) -> Self {
        let share = |millionths: i64| millionths as f64 / 1_000_000.0;
        let components = RewardComponents { success: share(success), quality: share(quality), cost: share(cost), latency: share(latency) };
        Self { scalar: share(scalar_millionths), components }
    }
}

/// Says what became of a call: `files.write_text succeeded in 41 ms`, or `files.write_text failed: snapshot_lost`.
fn summary_of(invocation: &Invocation, status: Status) -> String {
    let dry_run = if invocation.intention == Intention::DryRun { " (dry run)" } else { "" };
    let more = match (&invocation.failure, invocation.started_at) {
        (Some(failure), _) => format!(": {}", failure.code),
        (None, Some(_)) if status.is_final() => format!(" in {} ms", exec_ms(invocation)),
        (None, _) => String::new(),
    };
    format!("{} {}{dry_run}{more}", invocation.action, status.as_str().replace('_', " "))
}

/// The isolation that the call ran under, as the sandbox reports it.
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

/// From the start of an effect to its end; 0 if there was none.
fn exec_ms(invocation: &Invocation) -> u64 {
    invocation.started_at.zip(invocation.ended_at).map_or(0, |(started, ended)| ended.millis_since(started))
}

fn measured(ending: &Ending) -> Measured {
    Measured {
        execution: ending.execution,
        quality_thousandths: ending.quality_thousandths,
        cpu_ms: ending.invocation.meter.cpu_ms().unwrap_or(0),
        cpu_budget_ms: ending.timeout_ms,
        exec_ms: exec_ms(&ending.invocation),
        timeout_ms: ending.timeout_ms,
    }
}

fn receipt_body(id: &ReceiptId, ending: &Ending, parts: RewardParts) -> Result<String, Error> {
    let invocation = &ending.invocation;
    let ended_at = invocation.ended_at.unwrap_or(invocation.created_at);
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
        connection_id: invocation.connection.clone(),
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
        // Code inside the server shares its processor time with every other call, so no honest figure exists for a single call.
        cost: Cost {
            cpu_ms: invocation.meter.cpu_ms(),
            energy_uj: invocation.meter.energy_uj(),
            price: invocation.charge.as_ref().map(|charge| charge.version),
            usd: invocation.charge.as_ref().and_then(|charge| charge.usd),
        },
        timing: Timing {
            queued_ms: invocation.started_at.map_or(0, |started| started.millis_since(invocation.created_at)),
            exec_ms: exec_ms(invocation),
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
        observed: invocation.observed.is_some_and(Observed::ran_unasked),
        edit: invocation.edit.as_ref().map(|edit| EditBody { by: edit.by.clone(), changed: edit.changed.clone(), proposed: edit.proposed }),
    };
    body.to_canonical().map_err(|error| Error::Internal { message: error.to_string() })
}

/// Who approved a call that has started.
pub(crate) fn approval_of(begun: &Invocation) -> Option<ApprovalBody> {
    let binding = begun.binding.as_ref().filter(|_| !begun.approvals.is_empty())?;
    let approvers = begun.approvals.iter().map(|approval| approval.by.clone()).collect();
    Some(ApprovalBody { approvers, binding: binding.digest })
}

fn verification_of(checks: &[Check]) -> Verification {
    Verification { ok: checks.iter().all(|check| check.ok), checks: checks.iter().map(|check| check.name.clone()).collect() }
}

pub(crate) fn evidence_digest(key: &dyn SpaceKey, evidence: &Value) -> Digest {
    key.digest("evidence", evidence.to_string().as_bytes())
}

fn to_policy(verdict: &GateVerdict) -> (Gate, PolicyVerdict) {
    let GateVerdict { gate, verdict, determining, errors } = verdict;
    (*gate, PolicyVerdict { verdict: *verdict, determining: determining.clone(), errors: errors.clone() })
}

/// The status that the row must have for this write, if another server may have claimed a row in that status.
const fn busy_status(row: Row) -> Option<Status> {
    match row {
        Row::Begun => Some(Status::Running),
        Row::From(status @ (Status::Running | Status::InDoubt)) => Some(status),
        Row::From(_) | Row::ExpiredFrom(_) | Row::Insert | Row::InsertAgain => None,
    }
}

/// How to find the row when a write is repeated after an uncertain commit: the first write may have been committed.
const fn again(row: Row) -> Row {
    match row {
        Row::Insert | Row::InsertAgain => Row::InsertAgain,
        Row::Begun => Row::From(Status::Running),
        Row::From(_) | Row::ExpiredFrom(_) => row,
    }
}

/// Whether the same request may succeed later, because the store was away or the rules kept changing.
pub(crate) fn is_away<T>(answer: &Result<T, Error>) -> bool {
    answer.as_ref().is_err_and(Error::is_passing)
}

/// The conflict for an answer to a row that already has this status.
/// What answering a call meets that is not pending any more. A denial by drift, a policy or a void approval is another one than a person's.
pub(crate) fn conflict_of_ended(ended: &Invocation) -> Conflict {
    match ended.denied_by {
        Some(DeniedBy::Drift) => Conflict::DefinitionMismatch,
        Some(DeniedBy::Binding) => Conflict::of_void(ended).unwrap_or(Conflict::Ended),
        Some(DeniedBy::Policy) => Conflict::Ended,
        Some(DeniedBy::Person) | None => conflict_with(ended.status),
    }
}

pub(crate) const fn conflict_with(status: Status) -> Conflict {
    match status {
        Status::Denied => Conflict::Rejected,
        Status::Expired => Conflict::Expired,
        Status::Approved | Status::Running | Status::Succeeded | Status::Failed | Status::Reverted | Status::InDoubt => Conflict::Consumed,
        Status::Pending | Status::Quarantined | Status::Cancelled => Conflict::Ended,
    }
}
