//! After a part has failed: cancels the parts that are still waiting, and reverts the finished ones, the last first.

use super::Ran;
use crate::error::Error;
use crate::pipeline::Pipeline;
use crate::request::Request;
use crate::walk::admit::{Compensation, Entrance};
use crate::walk::ending::Ending;
use countersign_core::batch::{Part, PartEffect, PartRevert};
use countersign_core::invocation::Failure;
use countersign_core::ledger::Row;
use countersign_core::{Batch, Invocation, Principal, Status};

/// The failure code of a part that was cancelled because another part failed.
const CALLED_OFF: &str = "batch_called_off";

impl Pipeline {
    /// Cancels and reverts the other parts. A part that is still running is waited for: only its end shows whether there is an effect to
    /// revert.
    pub(super) async fn call_off(&self, mut batch: Batch) -> Result<Ran, Error> {
        let why = why_called_off(&batch);
        for index in 0..batch.parts.len() {
            let part = &mut batch.parts[index];
            if let Some(Status::Pending | Status::Approved) = part.status
                && let Some(waiting) = self.ledger().find_invocation(&batch.org, &part.invocation).await?
            {
                part.note(&self.cancel_part(waiting, &why).await?);
            }
        }
        if batch.parts.iter().any(Part::is_running) {
            return Ok(Ran::Waits(batch));
        }
        for index in (0..batch.parts.len()).rev() {
            if batch.parts[index].effect != PartEffect::Stands {
                continue;
            }
            let (revert, left) = self.revert_part(&batch, index).await?;
            batch.parts[index].effect = left;
            batch.parts[index].revert = Some(revert);
            batch = self.save_batch(batch).await?;
            self.walk.fault("batch.part_reverted");
        }
        Ok(Ran::Ended(batch))
    }

    /// Cancels a waiting part. It did not run, and its receipt names the part that failed.
    async fn cancel_part(&self, waiting: Invocation, why: &str) -> Result<Invocation, Error> {
        let (org, id, from) = (waiting.org.clone(), waiting.id.clone(), waiting.status);
        let failure = Failure { code: CALLED_OFF.into(), message: format!("{why}; nothing was done by this part") };
        match self.walk.record_ending(Ending::unexecuted(waiting, Status::Cancelled, None, failure, Row::From(from))).await {
            Ok(cancelled) => Ok(cancelled),
            // The part has just ended in another way.
            Err(Error::Conflict { .. }) => {
                let row = self.ledger().find_invocation(&org, &id).await?;
                row.ok_or_else(|| Error::UnknownInvocation { invocation: id.to_string() })
            }
            Err(error) => Err(error),
        }
    }

    /// Reverts the effect of a part, as a call of its own with its own receipt, and says what is left of the effect. It needs no approval:
    /// letting a part of such a batch run includes letting the batch revert it. The idempotency key makes sure that it happens once.
    async fn revert_part(&self, batch: &Batch, index: usize) -> Result<(PartRevert, PartEffect), Error> {
        let part = &batch.parts[index];
        let not_asked_for =
            |failure| (PartRevert { ok: false, invocation: None, receipt: None, failure: Some(failure) }, PartEffect::Stands);
        let lost = |code: &str, message: &str| Ok(not_asked_for(Failure { code: code.to_owned(), message: message.to_owned() }));
        let Some(session) = self.ledger().find_session(&batch.org, &batch.session).await? else {
            return lost("unknown_session", "its session is gone");
        };
        // Whoever asked for the batch may no longer be able to act. They still asked for its effects to be reverted if it fails.
        let principal = self.ledger().find_principal(&batch.org, &batch.principal).await?.unwrap_or_else(|| Principal {
            org: batch.org.clone(),
            id: batch.principal.clone(),
            name: session.title.clone(),
            role: None,
            owner: session.owner.clone(),
            session: Some(session.id.clone()),
            scopes: Vec::new(),
            token: None,
            device: None,
        });
        let reversed = self.ledger().find_invocation(&batch.org, &part.invocation).await?;
        let Some(reversed) = reversed.filter(|reversed| reversed.status == Status::Succeeded) else {
            return lost("not_revertible", "it has no effect that stands");
        };
        let Some(compensation) = Compensation::of(batch, index) else {
            return lost("not_revertible", "it has no effect that stands");
        };
        let why = Some("another part of its batch failed".to_owned());
        let request = Request::reverting(&principal, &reversed, why, batch.trace_id.clone());
        let admitted = self.walk.admit_in(session, self.walk.draw_id(), request, Entrance::Compensation(compensation)).await?;
        match Box::pin(self.walk.walk(admitted)).await {
            Ok(outcome) => {
                let invocation = outcome.invocation();
                let revert = PartRevert {
                    ok: invocation.status == Status::Succeeded,
                    invocation: Some(invocation.id.clone()),
                    receipt: invocation.receipt.as_ref().map(|receipt| receipt.id.clone()),
                    failure: invocation.failure.clone(),
                };
                Ok((revert, left_by(invocation.status)))
            }
            // An earlier walk of this batch requested the revert, and it is still being reconciled. The batch is continued later.
            Err(error @ Error::IdempotencyInFlight { .. }) => Err(error),
            Err(error) => error.to_failure().map(not_asked_for).ok_or(error),
        }
    }
}

/// Names the part that the others are cancelled for. If no part failed, the batch itself cannot be continued.
fn why_called_off(batch: &Batch) -> String {
    let failed = |part: &Part| part.failure.as_ref().is_some_and(|failure| failure.code != CALLED_OFF);
    match batch.parts.iter().position(failed) {
        Some(at) => format!("part {} of `{}`, `{}`, did not succeed", at + 1, batch.id, batch.parts[at].action),
        None => format!("`{}` was called off", batch.id),
    }
}

/// What is left of a part's effect, by the status of its revert.
const fn left_by(revert: Status) -> PartEffect {
    match revert {
        Status::Succeeded => PartEffect::Reverted,
        Status::Running | Status::InDoubt => PartEffect::Unknown,
        Status::Pending
        | Status::Approved
        | Status::Denied
        | Status::Expired
        | Status::Cancelled
        | Status::Quarantined
        | Status::Failed
        | Status::Reverted => PartEffect::Stands,
    }
}
