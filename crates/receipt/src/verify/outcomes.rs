//! Whether intents and receipts belong together: an effect was announced before it, ended once, and was never one that policy had refused.

use super::{Class, Finding};
use crate::body::{ApprovalBody, IntentBody, ReceiptBody};
use countersign_core::decision::Verdict;
use countersign_core::{ActionId, Decision, Digest, IntentId, InvocationId, Mode, ReceiptId, SpaceId, Status, Tier, Timestamp, limits};
use std::collections::{HashMap, HashSet};

/// What the log has said about invocations so far.
#[derive(Default)]
pub(super) struct Outcomes {
    invocations: HashMap<InvocationId, Life>,
    intents: HashSet<IntentId>,
    receipts: HashSet<ReceiptId>,
    answers: HashMap<(SpaceId, ActionId, Digest), Answer>,
}

#[derive(Default)]
struct Life {
    intent: Option<Intended>,
    receipt: Option<ReceiptId>,
}

/// The latest intent of an invocation.
struct Intended {
    seq: u64,
    attempt: u32,
    call: Call,
}

/// What must be the same before and after an effect.
#[derive(PartialEq, Eq)]
struct Call {
    space: SpaceId,
    action: ActionId,
    params: Digest,
    raw: Digest,
}

/// The call an idempotency key answers for.
struct Answer {
    raw: Digest,
    from: Timestamp,
}

impl Outcomes {
    pub(super) fn intend(&mut self, seq: u64, intent: &IntentBody) -> Result<(), Finding> {
        if !self.intents.insert(intent.intent_id.clone()) {
            return Err(Finding::new(Class::Duplicate, format!("intent `{}` stands in the log already", intent.intent_id)));
        }
        permitted(&intent.decision, intent.approval.as_ref())?;
        let life = self.invocations.entry(intent.invocation_id.clone()).or_default();
        if let Some(receipt) = &life.receipt {
            return Err(unpaired(format!("an effect is announced after receipt `{receipt}` ended its invocation")));
        }
        if life.intent.as_ref().is_some_and(|earlier| earlier.attempt >= intent.attempt) {
            return Err(unpaired(format!("attempt {} is announced again", intent.attempt)));
        }
        let call = Call { space: intent.space.clone(), action: intent.action.clone(), params: intent.params, raw: intent.raw };
        life.intent = Some(Intended { seq, attempt: intent.attempt, call });
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
        not_refused(receipt)?;
        self.was_intended(receipt)?;
        self.answers_one_call(receipt)
    }

    /// Intents whose invocation has no receipt.
    pub(super) fn open(&self) -> u64 {
        self.invocations.values().filter(|life| life.is_open()).count() as u64
    }

    /// The seq of an intent whose invocation has no receipt.
    pub(super) fn open_intent(&self, invocation: &InvocationId) -> Option<u64> {
        self.invocations.get(invocation).filter(|life| life.is_open()).and_then(|life| life.intent.as_ref()).map(|intent| intent.seq)
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
        let intent = self.invocations.get(&receipt.invocation_id).and_then(|life| life.intent.as_ref());
        let Some(intent) = intent else {
            if receipt.tier < Tier::R2 || receipt.dry_run || !claims_effect(receipt) {
                return Ok(());
            }
            if receipt.replayed && answer_key(receipt).is_some_and(|key| self.answers.contains_key(&key)) {
                return Ok(());
            }
            return Err(unpaired("an effect has ended that was never announced"));
        };
        let call = Call { space: receipt.space.clone(), action: receipt.action.clone(), params: receipt.params, raw: receipt.raw };
        if call != intent.call {
            return Err(unpaired(format!("the intent at seq {} announced another call", intent.seq)));
        }
        if intent.attempt > receipt.attempts {
            return Err(unpaired(format!("attempt {} was announced, and {} counted", intent.attempt, receipt.attempts)));
        }
        Ok(())
    }

    fn answers_one_call(&mut self, receipt: &ReceiptBody) -> Result<(), Finding> {
        let Some(key) = answer_key(receipt).filter(|_| receipt.status == Status::Succeeded && !receipt.dry_run) else { return Ok(()) };
        let from = asked_at(receipt);
        match self.answers.get(&key) {
            // After its time the key may be taken for another call.
            Some(answer) if from < answer.from.plus_seconds(limits::IDEMPOTENCY_SECONDS) => {
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
        self.intent.is_some() && self.receipt.is_none()
    }
}

/// No gate and no mode had refused what happened.
fn not_refused(receipt: &ReceiptBody) -> Result<(), Finding> {
    if !claims_effect(receipt) {
        return Ok(());
    }
    if let Some((gate, _)) = receipt.policy.iter().find(|(_, said)| said.verdict == Verdict::Deny) {
        return Err(refused(format!("it is `{}` although gate `{}` said no", receipt.status, gate.as_str())));
    }
    // What a dry run or an earlier receipt answers needs nobody's approval: nothing happens.
    if receipt.decision.mode == Mode::RequireApproval && (receipt.dry_run || receipt.replayed) {
        return Ok(());
    }
    permitted(&receipt.decision, receipt.approval.as_ref())
}

fn permitted(decision: &Decision, approval: Option<&ApprovalBody>) -> Result<(), Finding> {
    match decision.mode {
        Mode::Allow => Ok(()),
        Mode::RequireApproval if approval.is_some_and(|approval| !approval.approvers.is_empty()) => Ok(()),
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

fn answer_key(receipt: &ReceiptBody) -> Option<(SpaceId, ActionId, Digest)> {
    receipt.idempotency_key.map(|key| (receipt.space.clone(), receipt.action.clone(), key))
}

/// When the call came in, which is when it took its idempotency key.
fn asked_at(receipt: &ReceiptBody) -> Timestamp {
    let micros = i64::try_from(receipt.timing.total_ms).unwrap_or(i64::MAX).saturating_mul(1_000);
    Timestamp::from_micros(receipt.timing.ended_at.as_micros().saturating_sub(micros))
}

fn unpaired(reason: impl Into<String>) -> Finding {
    Finding::new(Class::UnpairedOutcome, reason)
}

fn refused(reason: impl Into<String>) -> Finding {
    Finding::new(Class::EffectDespiteDenial, reason)
}
