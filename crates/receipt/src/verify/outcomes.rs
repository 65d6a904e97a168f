//! Checks that intents and receipts belong together: each effect was announced first, ended once, and was never one that policy had denied.
//! An intent and its receipt must agree in everything that both say. If the call differs (who, where, what, which params, which key),
//! the intent is not this receipt's: an unpaired outcome, class 13. If the call is the same but its permission differs (decision, approval,
//! grant), the effect was started under one permission and recorded under another: an effect despite a denial, class 14.

use super::asked::asked_at;
use super::batches::Batches;
use super::{Class, Finding};
use crate::body::{ApprovalBody, BatchBody, DefinitionDigests, IntentBody, ReceiptBody};
use countersign_core::decision::Verdict;
use countersign_core::{
    ActionId, ConnectionId, Decision, Digest, GrantId, IntentId, InvocationId, Mode, PrincipalId, ReceiptId, SpaceId, Status, Tier,
    Timestamp, json,
};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use std::collections::{HashMap, HashSet};

/// What the log has said about invocations so far.
#[derive(Default)]
pub(super) struct Outcomes {
    invocations: HashMap<InvocationId, Life>,
    intents: HashSet<IntentId>,
    receipts: HashSet<ReceiptId>,
    answers: HashMap<(SpaceId, ActionId, Digest), Answer>,
    batches: Batches,
}

#[derive(Default)]
struct Life {
    announced: Option<Announced>,
    receipt: Option<ReceiptId>,
}

/// What the intents of an invocation say. It holds digests to save memory, because a log has many intents.
struct Announced {
    /// The seq of the latest intent.
    seq: u64,
    /// The attempt of the latest intent. The intents of all attempts before it are in the log too.
    attempt: u32,
    call: Digest,
    right: Digest,
}

/// The call itself, which must be the same in the intent and in the receipt.
#[derive(Serialize)]
struct Call<'a> {
    principal: &'a PrincipalId,
    space: &'a SpaceId,
    action: &'a ActionId,
    connection_id: Option<&'a ConnectionId>,
    tier: Tier,
    definition: DefinitionDigests,
    params: Digest,
    raw: Digest,
    idempotency_key: Option<Digest>,
    profile: &'a str,
    trace_id: &'a str,
}

/// The permission for the call, which must be the same too.
#[derive(Serialize)]
struct Right<'a> {
    decision: &'a Decision,
    approval: Option<&'a ApprovalBody>,
    grant: Option<&'a GrantId>,
    observed: bool,
}

/// The call that an idempotency key answers for.
struct Answer {
    raw: Digest,
    from: Timestamp,
}

impl Outcomes {
    pub(super) fn intend(&mut self, seq: u64, intent: &IntentBody) -> Result<(), Finding> {
        if !self.intents.insert(intent.intent_id.clone()) {
            return Err(Finding::new(Class::Duplicate, format!("intent `{}` stands in the log already", intent.intent_id)));
        }
        let is_revert = self.batches.may_revert(intent.batch.as_ref(), intent.reverses.as_ref(), &intent.action);
        permitted(&Right::of_intent(intent), is_revert)?;
        let life = self.invocations.entry(intent.invocation_id.clone()).or_default();
        if let Some(receipt) = &life.receipt {
            return Err(unpaired(format!("an effect is announced after receipt `{receipt}` ended its invocation")));
        }
        let attempts = life.announced.as_ref().map_or(0, |announced| announced.attempt);
        if attempts.checked_add(1) != Some(intent.attempt) {
            return Err(unpaired(format!("attempt {} is announced after {attempts} before it", intent.attempt)));
        }
        let (call, right) = (Call::of_intent(intent).digest()?, Right::of_intent(intent).digest()?);
        if let Some(earlier) = &life.announced {
            earlier.same_call(call)?;
            earlier.same_right(right)?;
        }
        life.announced = Some(Announced { seq, attempt: intent.attempt, call, right });
        Ok(())
    }

    pub(super) fn conclude(&mut self, receipt: &ReceiptBody) -> Result<(), Finding> {
        if !self.receipts.insert(receipt.receipt_id.clone()) {
            return Err(Finding::new(Class::Duplicate, format!("receipt `{}` stands in the log already", receipt.receipt_id)));
        }
        if let Some(started_at) = receipt.timing.started_at
            && receipt.timing.ended_at < started_at
        {
            return Err(Finding::new(Class::TimeBackwards, format!("it ended at {}, before it started", receipt.timing.ended_at)));
        }
        if !receipt.status.is_final() {
            return Err(unpaired(format!("`{}` is not an outcome", receipt.status)));
        }
        self.ends_once(receipt)?;
        let is_revert = self.batches.may_revert(receipt.batch.as_ref(), receipt.reverses.as_ref(), &receipt.action);
        not_refused(receipt, is_revert)?;
        self.was_intended(receipt)?;
        self.answers_one_call(receipt)?;
        self.batches.note(receipt)
    }

    pub(super) fn conclude_batch(&mut self, body: &BatchBody) -> Result<(), Finding> {
        if !self.receipts.insert(body.receipt_id.clone()) {
            return Err(Finding::new(Class::Duplicate, format!("receipt `{}` stands in the log already", body.receipt_id)));
        }
        self.batches.conclude(body)
    }

    /// Checks that a receipt names the same permission as its intent. It must run after the decision itself was verified.
    pub(super) fn same_right(&self, receipt: &ReceiptBody) -> Result<(), Finding> {
        match self.announced(&receipt.invocation_id) {
            Some(announced) => announced.same_right(Right::of_receipt(receipt).digest()?),
            None => Ok(()),
        }
    }

    /// The number of invocations with an intent and no receipt.
    pub(super) fn open(&self) -> u64 {
        self.invocations.values().filter(|life| life.is_open()).count() as u64
    }

    fn ends_once(&mut self, receipt: &ReceiptBody) -> Result<(), Finding> {
        if let Some(superseded) = &receipt.supersedes
            && (superseded == &receipt.receipt_id || !self.receipts.contains(superseded))
        {
            return Err(unpaired(format!("it supersedes receipt `{superseded}`, which does not stand before it")));
        }
        let life = self.invocations.entry(receipt.invocation_id.clone()).or_default();
        match life.receipt.replace(receipt.receipt_id.clone()) {
            Some(earlier) if receipt.supersedes.as_ref() != Some(&earlier) => {
                Err(unpaired(format!("receipt `{earlier}` has ended the invocation already")))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn was_intended(&self, receipt: &ReceiptBody) -> Result<(), Finding> {
        let announced = self.announced(&receipt.invocation_id);
        let intents = announced.map_or(0, |announced| announced.attempt);
        let attempts = receipt.attempts;
        if !may_have_run(receipt) {
            if (attempts, intents) != (0, 0) {
                return Err(unpaired(format!("nothing was to run, but {attempts} attempts are counted and {intents} were announced")));
            }
            let repeats = receipt.replayed && !receipt.dry_run && claims_effect(receipt);
            if repeats && !answer_key(receipt).is_some_and(|key| self.answers.contains_key(&key)) {
                return Err(unpaired("it repeats an answer that was never given"));
            }
            return Ok(());
        }
        if intents == 0 && needs_intent(receipt) && claims_effect(receipt) {
            return Err(unpaired("an effect has ended that was never announced"));
        }
        if intents != attempts && (intents > 0 || needs_intent(receipt)) {
            return Err(unpaired(format!("{attempts} attempts are counted, and {intents} were announced")));
        }
        announced.map_or(Ok(()), |announced| announced.same_call(Call::of_receipt(receipt).digest()?))
    }

    fn announced(&self, invocation: &InvocationId) -> Option<&Announced> {
        self.invocations.get(invocation).and_then(|life| life.announced.as_ref())
    }

    fn answers_one_call(&mut self, receipt: &ReceiptBody) -> Result<(), Finding> {
        let Some(key) = answer_key(receipt).filter(|_| receipt.status == Status::Succeeded && !receipt.dry_run) else { return Ok(()) };
        let from = asked_at(receipt);
        match self.answers.get(&key) {
            // After its time the key may be used for another call.
            Some(answer) if from < answer.from.plus_seconds(crate::limits::IDEMPOTENCY_SECONDS) => {
                if answer.raw != receipt.raw {
                    return Err(Finding::new(Class::KeyReused, "its idempotency key has answered for other params"));
                }
            }
            Some(_) | None => {
                self.answers.insert(key, Answer { raw: receipt.raw, from });
            }
        }
        Ok(())
    }
}

impl Life {
    const fn is_open(&self) -> bool {
        self.announced.is_some() && self.receipt.is_none()
    }
}

impl Announced {
    fn same_call(&self, call: Digest) -> Result<(), Finding> {
        if call == self.call {
            return Ok(());
        }
        Err(unpaired(format!("the intent at seq {} announced another call", self.seq)))
    }

    fn same_right(&self, right: Digest) -> Result<(), Finding> {
        if right == self.right {
            return Ok(());
        }
        Err(refused(format!("the intent at seq {} announced it with another decision, approval or grant", self.seq)))
    }
}

impl<'a> Call<'a> {
    fn of_intent(intent: &'a IntentBody) -> Self {
        Self {
            principal: &intent.principal,
            space: &intent.space,
            action: &intent.action,
            connection_id: intent.connection_id.as_ref(),
            tier: intent.tier,
            definition: intent.definition,
            params: intent.params,
            raw: intent.raw,
            idempotency_key: intent.idempotency_key,
            profile: &intent.profile,
            trace_id: &intent.trace_id,
        }
    }

    fn of_receipt(receipt: &'a ReceiptBody) -> Self {
        Self {
            principal: &receipt.principal,
            space: &receipt.space,
            action: &receipt.action,
            connection_id: receipt.connection_id.as_ref(),
            tier: receipt.tier,
            definition: receipt.definition,
            params: receipt.params,
            raw: receipt.raw,
            idempotency_key: receipt.idempotency_key,
            profile: &receipt.sandbox.profile,
            trace_id: &receipt.trace_id,
        }
    }

    fn digest(&self) -> Result<Digest, Finding> {
        digest(self)
    }
}

impl<'a> Right<'a> {
    const fn of_intent(intent: &'a IntentBody) -> Self {
        let IntentBody { decision, approval, grant, observed, .. } = intent;
        Self { decision, approval: approval.as_ref(), grant: grant.as_ref(), observed: *observed }
    }

    const fn of_receipt(receipt: &'a ReceiptBody) -> Self {
        let ReceiptBody { decision, approval, grant, observed, .. } = receipt;
        Self { decision, approval: approval.as_ref(), grant: grant.as_ref(), observed: *observed }
    }

    fn digest(&self) -> Result<Digest, Finding> {
        digest(self)
    }
}

fn digest(said: &impl Serialize) -> Result<Digest, Finding> {
    let text = json::canonical(said).map_err(|error| Finding::new(Class::NotCanonical, error.to_string()))?;
    Ok(Digest::new(Sha256::digest(text).into()))
}

/// Checks that no gate and no mode had denied the effect.
fn not_refused(receipt: &ReceiptBody, is_revert: bool) -> Result<(), Finding> {
    if !claims_effect(receipt) {
        return Ok(());
    }
    if let Some((gate, _)) = receipt.policy.iter().find(|(_, said)| said.verdict == Verdict::Deny) {
        return Err(refused(format!("it is `{}` although gate `{}` said no", receipt.status, gate.as_str())));
    }
    // A dry run, and a replay of an earlier receipt, need no approval, because nothing happens.
    if receipt.decision.mode == Mode::RequireApproval && (receipt.dry_run || receipt.replayed) {
        return Ok(());
    }
    permitted(&Right::of_receipt(receipt), is_revert)
}

/// Whether the mode permits the effect. Whether the grant really covers the call, and whether the space really observed, is checked in
/// `standing`.
fn permitted(right: &Right<'_>, is_revert: bool) -> Result<(), Finding> {
    match right.decision.mode {
        Mode::Allow => Ok(()),
        Mode::RequireApproval if right.grant.is_some() || right.observed || is_revert => Ok(()),
        Mode::RequireApproval if right.approval.is_some_and(|approval| !approval.approvers.is_empty()) => Ok(()),
        Mode::RequireApproval => Err(refused("nobody approved it")),
        Mode::Deny => Err(refused("the mode was `deny`")),
    }
}

fn claims_effect(receipt: &ReceiptBody) -> bool {
    match receipt.status {
        Status::Succeeded | Status::Reverted => true,
        Status::Failed => receipt.attempts > 0,
        Status::Denied | Status::Quarantined | Status::Expired | Status::Cancelled => false,
        Status::Pending | Status::Approved | Status::Running | Status::InDoubt => false,
    }
}

/// Whether the source may have been asked for an effect. It was not for a dry run, a replay, or a refused call.
const fn may_have_run(receipt: &ReceiptBody) -> bool {
    match receipt.status {
        Status::Succeeded | Status::Failed | Status::Reverted => !receipt.dry_run && !receipt.replayed,
        Status::Denied | Status::Quarantined | Status::Expired | Status::Cancelled => false,
        Status::Pending | Status::Approved | Status::Running | Status::InDoubt => false,
    }
}

/// Whether the call needs an intent. Only a read that needed no approval and has no idempotency key does not: it can simply be repeated.
fn needs_intent(receipt: &ReceiptBody) -> bool {
    let is_permitted = receipt.approval.is_some() || receipt.grant.is_some() || receipt.observed;
    receipt.tier >= Tier::R2 || is_permitted || receipt.idempotency_key.is_some()
}

fn answer_key(receipt: &ReceiptBody) -> Option<(SpaceId, ActionId, Digest)> {
    receipt.idempotency_key.map(|key| (receipt.space.clone(), receipt.action.clone(), key))
}

fn unpaired(reason: impl Into<String>) -> Finding {
    Finding::new(Class::UnpairedOutcome, reason)
}

fn refused(reason: impl Into<String>) -> Finding {
    Finding::new(Class::EffectDespiteDenial, reason)
}
