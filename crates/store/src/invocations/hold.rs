//! Holding a call for a person, and counting the approvals it gets.

use super::keys::reserve;
use super::row::{has_passed, must};
use crate::db::{Tx, count, vals};
use crate::events::insert_event;
use crate::invocations::{Inserted, InvocationRow, SealedParams, among_open, insert, lock, rebind, update};
use crate::{Error, seal};
use countersign_core::ports::invocations::{Approval, Approve, Approved, Held, Hold};
use countersign_core::{Invocation, Status};

pub(super) async fn hold_in(tx: &mut Tx, hold: Hold) -> Result<Held, Error> {
    let invocation = &hold.invocation;
    if seal::rules_version(tx, &invocation.org).await? != hold.rules_version {
        return Ok(Held::RulesChanged);
    }
    // Locking the session keeps the count exact when several servers hold calls of it at once.
    tx.query_locked("SELECT id FROM sessions WHERE org_id = $1 AND id = $2", &vals![invocation.org.as_str(), invocation.session.as_str()])
        .await?;
    let rows = tx
        .query(
            &format!(
                "SELECT count(*) FROM invocations WHERE org_id = $1 AND session_id = $2 AND status = 'pending'{}",
                among_open(Status::Pending)
            ),
            &vals![invocation.org.as_str(), invocation.session.as_str()],
        )
        .await?;
    let pending = count(rows)?;
    let pending = u32::try_from(pending).unwrap_or(u32::MAX);
    if pending >= hold.pending_max {
        return Ok(Held::TooManyPending { pending });
    }
    if let Some(taken) = reserve(tx, invocation, hold.reservation.as_ref()).await? {
        return Ok(Held::KeyTaken(taken));
    }
    if insert(tx, InvocationRow::open(invocation)?, Some(hold.sealed_params)).await? == Inserted::Already {
        return Err(Error::Corrupt { message: format!("invocation `{}` exists already", invocation.id) });
    }
    insert_event(tx, &invocation.org, &hold.event, None).await?;
    Ok(Held::Pending)
}

pub(super) async fn approve_in(tx: &mut Tx, approve: Approve) -> Result<Approved, Error> {
    let Some(mut row) = lock(tx, &approve.org, &approve.invocation).await? else {
        return Ok(Approved::Missing);
    };
    if row.status != Status::Pending {
        return Ok(Approved::Not(row.status));
    }
    let Some(binding) = row.binding.clone() else {
        return Err(Error::Corrupt { message: format!("pending invocation `{}` is bound to nothing", row.id) });
    };
    if has_passed(&row, tx.now()) {
        return Ok(Approved::Expired);
    }
    let sealed_params = match approve.edited {
        None if binding.digest != approve.approval.binding => return Ok(Approved::OtherBinding),
        None => None,
        Some(edited) if binding.digest != edited.shown => return Ok(Approved::OtherBinding),
        // The edit makes it another call, so the approvals given so far do not count for it.
        Some(edited) => {
            row = Invocation { approvals: Vec::new(), deadline: row.deadline, ..*edited.invocation };
            Some(edited.sealed_params)
        }
    };
    let answer = &approve.approval.answer;
    if row.approvals.iter().any(|earlier| earlier.by == answer.by) {
        return Ok(Approved::Already);
    }
    row.approvals.push(answer.clone());
    let is_enough = row.approvals.len() >= approve.needed as usize;
    if is_enough {
        row.status = Status::Approved;
        row.answer = Some(answer.clone());
    }
    let changed = InvocationRow::open(&row)?;
    let updated = match sealed_params {
        Some(sealed_params) => rebind(tx, changed, sealed_params).await?,
        None => update(tx, changed, Status::Pending, SealedParams::Keep).await?,
    };
    must(updated, &row)?;
    insert_approval(tx, &row, &approve.approval);
    insert_event(tx, &approve.org, if is_enough { &approve.event } else { &approve.event_counted }, None).await?;
    let row = Box::new(row);
    Ok(if is_enough { Approved::Approved(row) } else { Approved::Counted(row) })
}

/// Approvals are written at the end of the batch: no write of the batch reads them, and their ids are new.
pub(super) fn insert_approval(tx: &mut Tx, invocation: &Invocation, approval: &Approval) {
    let params = vals![
        invocation.org.as_str(),
        approval.id.as_str(),
        invocation.id.as_str(),
        approval.answer.by.to_string(),
        i64::from(approval.approves),
        approval.answer.reason.as_deref(),
        approval.binding.to_string(),
        approval.answer.at
    ];
    tx.later(
        "INSERT INTO approvals (org_id, id, invocation_id, approver, approves, reason, binding, at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        params.into(),
    );
}
