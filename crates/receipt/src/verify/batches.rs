//! Checks that the receipt of a batch agrees with the receipts of its parts. It also checks the one permission a batch gives: to revert
//! the effect of one of its own parts without another approval.

use super::{Class, Finding};
use crate::body::{BatchBody, PartBody, ReceiptBody};
use countersign_core::batch::{BatchStatus, PartEffect};
use countersign_core::part_of::BatchMode;
use countersign_core::{ActionId, BatchId, InvocationId, ReceiptId, Status, Tier};
use std::collections::{HashMap, HashSet};

/// The batches of a log, and the receipts of their parts.
#[derive(Default)]
pub(super) struct Batches {
    /// The ended batches, each with the invocations that were still in doubt when it ended.
    ended: HashMap<BatchId, HashSet<InvocationId>>,
    parts: HashMap<InvocationId, Told>,
}

/// The facts from the receipt of a part.
struct Told {
    batch: BatchId,
    receipt: ReceiptId,
    action: ActionId,
    status: Status,
    effect: PartEffect,
    reverses: Option<InvocationId>,
}

impl Batches {
    /// Keeps the facts from the receipt of a part, to compare the receipt of the batch with them.
    pub(super) fn note(&mut self, receipt: &ReceiptBody) -> Result<(), Finding> {
        // A call that reverts a part belongs to the part's batch, even if its receipt does not name the batch.
        let reversed = receipt.reverses.as_ref().and_then(|reversed| self.parts.get(reversed)).map(|told| &told.batch);
        let Some(batch) = receipt.batch.as_ref().or(reversed) else { return Ok(()) };
        // After a batch has ended, only the calls that were in doubt then can still end.
        if self.ended.get(batch).is_some_and(|open| !open.contains(&receipt.invocation_id)) {
            return Err(unpaired(format!("it is part of batch `{batch}`, which has ended without it")));
        }
        let told = Told {
            batch: batch.clone(),
            receipt: receipt.receipt_id.clone(),
            action: receipt.action.clone(),
            status: receipt.status,
            effect: effect_of(receipt),
            reverses: receipt.reverses.clone(),
        };
        self.parts.insert(receipt.invocation_id.clone(), told);
        Ok(())
    }

    /// Whether a batch lets this call run without an approval, because the call reverts another part of it.
    pub(super) fn may_revert(&self, batch: Option<&BatchId>, reverses: Option<&InvocationId>, action: &ActionId) -> bool {
        let (Some(batch), Some(reversed)) = (batch, reverses) else { return false };
        let stands = |told: &Told| told.batch == *batch && told.action == *action && told.effect == PartEffect::Stands;
        !self.ended.contains_key(batch) && self.parts.get(reversed).is_some_and(stands)
    }

    pub(super) fn conclude(&mut self, body: &BatchBody) -> Result<(), Finding> {
        if self.ended.contains_key(&body.batch_id) {
            return Err(Finding::new(Class::Duplicate, format!("batch `{}` has ended already", body.batch_id)));
        }
        if body.ended_at < body.started_at {
            return Err(Finding::new(Class::TimeBackwards, format!("it ended at {}, before it started", body.ended_at)));
        }
        let mut named = HashSet::new();
        for part in &body.parts {
            if !named.insert(&part.invocation_id) {
                return Err(Finding::new(Class::Duplicate, format!("`{}` is named twice", part.invocation_id)));
            }
            self.holds(body, part)?;
        }
        let is_left_out =
            |(id, told): &(&InvocationId, &Told)| told.batch == body.batch_id && told.reverses.is_none() && !named.contains(id);
        if let Some((id, _)) = self.parts.iter().find(is_left_out) {
            return Err(unpaired(format!("`{id}` is part of the batch, and left out")));
        }
        let expected = status_of(body);
        if body.status != expected {
            return Err(unpaired(format!("it is `{}`, and its parts make it `{expected}`", body.status)));
        }
        let doubted = body.parts.iter().filter(|part| part.status == Some(Status::InDoubt)).map(|part| &part.invocation_id);
        let undoing = body.parts.iter().filter_map(|part| part.revert.as_ref()).filter(|revert| revert.receipt_id.is_none());
        let open = doubted.chain(undoing.filter_map(|revert| revert.invocation_id.as_ref())).cloned().collect();
        self.ended.insert(body.batch_id.clone(), open);
        self.parts.retain(|_, told| told.batch != body.batch_id);
        Ok(())
    }

    /// Checks that the batch says of a part what the part's own receipt says.
    fn holds(&self, body: &BatchBody, part: &PartBody) -> Result<(), Finding> {
        let id = &part.invocation_id;
        let told = self.parts.get(id).filter(|told| told.batch == body.batch_id && told.reverses.is_none());
        let effect = match (told, part.status) {
            (Some(told), status) => {
                if part.receipt_id.as_ref() != Some(&told.receipt) || status != Some(told.status) || part.action != told.action {
                    return Err(unpaired(format!("what it says of `{id}` is not what the receipt of `{id}` says")));
                }
                told.effect
            }
            (None, None) if part.receipt_id.is_none() => PartEffect::None,
            (None, Some(Status::InDoubt)) if part.receipt_id.is_none() => PartEffect::Unknown,
            (None, _) => return Err(unpaired(format!("it says how `{id}` ended, but no receipt of this batch says so"))),
        };
        let effect = match &part.revert {
            None => effect,
            Some(revert) => {
                let reverses = |told: &&Told| told.batch == body.batch_id && told.reverses.as_ref() == Some(id);
                let told = revert.invocation_id.as_ref().and_then(|undoing| self.parts.get(undoing)).filter(reverses);
                let is_reverted = told.is_some_and(|told| told.status == Status::Succeeded);
                if revert.receipt_id.as_ref() != told.map(|told| &told.receipt) || revert.ok != is_reverted {
                    return Err(unpaired(format!("it says how `{id}` was reverted, but no receipt of this batch says so")));
                }
                if is_reverted { PartEffect::Reverted } else { effect }
            }
        };
        if part.effect != effect {
            return Err(unpaired(format!("what it says is left of `{id}` is not what its receipts leave")));
        }
        Ok(())
    }
}

fn effect_of(receipt: &ReceiptBody) -> PartEffect {
    match receipt.status {
        Status::Succeeded if receipt.tier >= Tier::R2 && !receipt.dry_run && receipt.reverses.is_none() => PartEffect::Stands,
        Status::Failed if receipt.rollback.is_some_and(|rollback| !rollback.ok) => PartEffect::Unknown,
        Status::Succeeded
        | Status::Failed
        | Status::Reverted
        | Status::Denied
        | Status::Quarantined
        | Status::Expired
        | Status::Cancelled
        | Status::Pending
        | Status::Approved
        | Status::Running
        | Status::InDoubt => PartEffect::None,
    }
}

/// Written again here, so that a batch is not checked by the code that made it.
fn status_of(body: &BatchBody) -> BatchStatus {
    let of = |wanted: fn(&PartBody) -> bool| body.parts.iter().filter(|part| wanted(part)).count();
    let succeeded = of(|part| part.status == Some(Status::Succeeded));
    if succeeded == body.parts.len() && of(|part| part.revert.is_some()) == 0 {
        return BatchStatus::Succeeded;
    }
    if body.mode == BatchMode::BestEffort || body.dry_run {
        return if succeeded > 0 { BatchStatus::Partial } else { BatchStatus::Failed };
    }
    if of(|part| matches!(part.effect, PartEffect::Stands | PartEffect::Unknown)) > 0 {
        BatchStatus::Failed
    } else if of(|part| matches!(part.status, Some(Status::Succeeded | Status::Failed | Status::Reverted | Status::InDoubt))) > 0 {
        BatchStatus::Reverted
    } else {
        BatchStatus::Denied
    }
}

fn unpaired(reason: impl Into<String>) -> Finding {
    Finding::new(Class::UnpairedOutcome, reason)
}
