//! Ending an invocation: its row, its receipt, its idempotency key and its event change together, or not at all.

use super::begin::end_attempt;
use super::hold::{answering_role, record_answer};
use super::keys::settle_key;
use super::row::{append, has_passed, legal, status_of};
use super::table::{Inserted, InvocationRow, SealedParams, Updated, insert, insert_later, lock, update, update_later};
use crate::db::{Tx, vals};
use crate::events::insert_event;
use crate::runs::leases::wake_in;
use crate::{Error, grants, quarantines, seal};
use countersign_core::invocation::ReceiptRef;
use countersign_core::ports::events::EventDraft;
use countersign_core::ports::invocations::{EntryId, Finish, Finished, GrantUse, Row};
use countersign_core::{Invocation, PrincipalId, Status};

pub(crate) async fn finish_in(tx: &mut Tx, finish: &Finish, body: String) -> Result<Finished, Error> {
    let invocation = &finish.invocation;
    let EntryId::Receipt(receipt_id) = &finish.receipt.id else {
        return Err(Error::Corrupt { message: "an invocation ends with a receipt, nothing else".into() });
    };
    ended(invocation)?;
    let answered = match &finish.approval {
        Some(approval) => match answering_role(tx, &invocation.org, approval).await? {
            Some(role) => Some((approval, role)),
            None => return Ok(Finished::MayNotAnswer),
        },
        None => None,
    };
    if let Some(decided_by) = finish.rules_version
        && seal::rules_version(tx, &invocation.org).await? != decided_by
    {
        return outdated(tx, finish).await;
    }
    if let Row::ExpiredFrom(_) = finish.row
        && !has_expired(tx, invocation).await?
    {
        return not_finishable(tx, invocation).await;
    }
    let row = match finish.row {
        // On SQLite there is no round trip to save, so the row is updated at once.
        Row::Begun if !tx.is_postgres() => Row::From(Status::Running),
        // Another server that goes on with the batch may have made this part too.
        Row::Insert if invocation.batch.is_some() => Row::InsertAgain,
        Row::Begun | Row::Insert | Row::InsertAgain | Row::From(_) | Row::ExpiredFrom(_) => finish.row,
    };
    let before = tx.sealing.mark();
    if let Some((approval, role)) = answered {
        record_answer(tx, invocation, approval, role).await?;
    }
    let seq = append(tx, invocation, &finish.receipt).await?;
    let receipt = ReceiptRef { id: receipt_id.clone(), seq };
    let ended = InvocationRow::ended(invocation, body, &receipt, finish.reward);
    let is_found = match row {
        Row::Insert => {
            insert_later(tx, ended, None);
            true
        }
        // A write repeated after an uncertain commit: the first one may have been kept.
        Row::InsertAgain => insert(tx, ended, None).await? == Inserted::New,
        Row::Begun => {
            legal(invocation, Status::Running)?;
            end_attempt(tx, invocation, invocation.status.as_str());
            settle_key(tx, invocation, finish.key).await?;
            update_later(tx, ended);
            true
        }
        Row::From(from) | Row::ExpiredFrom(from) => {
            legal(invocation, from)?;
            end_attempt(tx, invocation, invocation.status.as_str());
            let updated = update(tx, ended, from, SealedParams::Shred).await?;
            if updated == Updated::Done {
                settle_key(tx, invocation, finish.key).await?;
            }
            updated == Updated::Done
        }
    };
    if !is_found {
        tx.sealing.undo_to(before);
        return not_finishable(tx, invocation).await;
    }
    if let Some(quarantine) = &finish.quarantine {
        quarantines::insert_in(tx, invocation, quarantine).await?;
    }
    if let Some(whole) = &finish.whole_result {
        // A run that was cancelled while it made the call has ended: nothing reads the result, and nothing would remove it.
        let sql = "INSERT INTO whole_results (org_id, invocation_id, session_id, result) SELECT $1, $2, $3, $4
                   WHERE NOT EXISTS (SELECT 1 FROM runs WHERE runs.org_id = $1 AND runs.session_id = $3 AND runs.ended_at IS NOT NULL)
                   ON CONFLICT (org_id, invocation_id) DO NOTHING";
        let (org, id, session) = (&invocation.org, &invocation.id, &invocation.session);
        tx.later(sql, vals![org.as_str(), id.as_str(), session.as_str(), whole.as_str()].into());
    }
    if let (GrantUse::Returned, Some(grant)) = (finish.grant, &invocation.grant) {
        grants::return_in(tx, grant, invocation).await?;
    }
    if may_be_waited_for(invocation, finish.row) {
        wake_in(tx, &invocation.org, &invocation.id).await?;
    }
    insert_event(tx, &invocation.org, &finish.event, Some(receipt_id)).await?;
    if let Some(executed) = &finish.executed {
        // The receipt has one event, which announces it: the one above.
        insert_event(tx, &invocation.org, executed, None).await?;
    }
    Ok(Finished::Recorded { seq })
}

/// Whether a run may wait for the end of this call, without a worker. It does not where one walk made the call without asking anybody.
fn may_be_waited_for(invocation: &Invocation, row: Row) -> bool {
    let was_left = match row {
        Row::Insert | Row::InsertAgain | Row::Begun => invocation.binding.is_some(),
        Row::From(_) | Row::ExpiredFrom(_) => true,
    };
    was_left && matches!(invocation.principal, PrincipalId::Automation(_))
}

/// A receipt decided by rules that are no longer in force is not written, unless an earlier try of this write was kept.
async fn outdated(tx: &mut Tx, finish: &Finish) -> Result<Finished, Error> {
    let kept = match finish.row {
        Row::Insert => None,
        Row::InsertAgain | Row::Begun | Row::From(_) | Row::ExpiredFrom(_) => status_of(tx, &finish.invocation).await?,
    };
    Ok(kept.map_or(Finished::RulesChanged, Finished::Not))
}

async fn has_expired(tx: &mut Tx, invocation: &Invocation) -> Result<bool, Error> {
    let held = lock(tx, &invocation.org, &invocation.id).await?;
    Ok(held.is_some_and(|held| has_passed(&held, tx.now())))
}

/// Marks a running call as in doubt. It gets no receipt, because its outcome is not known.
pub(super) async fn doubt_in(tx: &mut Tx, invocation: &Invocation, event: &EventDraft) -> Result<Finished, Error> {
    if update(tx, InvocationRow::open(invocation)?, Status::Running, SealedParams::Keep).await? == Updated::NotFound {
        return not_finishable(tx, invocation).await;
    }
    // A run that waits for an answer to its call has to know of it.
    wake_in(tx, &invocation.org, &invocation.id).await?;
    insert_event(tx, &invocation.org, event, None).await?;
    let seq = seal::size(tx, &invocation.org).await?;
    Ok(Finished::Recorded { seq })
}

/// Says why there was no row to finish.
async fn not_finishable(tx: &mut Tx, invocation: &Invocation) -> Result<Finished, Error> {
    Ok(status_of(tx, invocation).await?.map_or(Finished::Missing, Finished::Not))
}

/// Refuses a receipt for a call that has not ended.
fn ended(invocation: &Invocation) -> Result<(), Error> {
    if invocation.status.is_final() {
        return Ok(());
    }
    Err(Error::Corrupt { message: format!("invocation `{}` is `{}`, which is not an end", invocation.id, invocation.status) })
}
