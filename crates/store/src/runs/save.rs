//! What a worker brings of its run: the steps it took, and whether it goes on, waits or has ended.

use super::announce::{announce, discard};
use super::end::{end_in, update_of, update_run};
use super::leases::park_in;
use crate::db::{Columns, Tx, count, only, to_json, vals};
use crate::{Error, Store};
use countersign_core::ports::runs::{Lease, SavedRun, Then};
use countersign_core::run::{Run, RunStatus, StepRecord, WaitingFor};
use countersign_core::{InvocationId, OrgId, RunId, Status};

/// Whether the lease is still held. It is given up if `then` says so; its worker renews it with all its others.
pub(super) async fn save_in(store: &Store, tx: &mut Tx, saved: SavedRun) -> Result<bool, Error> {
    let SavedRun { lease, mut run, steps, then } = saved;
    let now = tx.now();
    let is_held = match then {
        Then::GoOn => {
            let sql = "SELECT run_id FROM run_leases WHERE org_id = $1 AND run_id = $2 AND lease_token = $3 AND lease_owner = $4
                       AND lease_until > $5";
            let owner = tx.lease().id().to_string();
            !tx.query_locked(sql, &vals![lease.org.as_str(), lease.run.as_str(), lease.token, owner, now]).await?.is_empty()
        }
        Then::Park { due_at } => {
            let due_at = match &run.invocation {
                // Its end was asked for while it was on its way here. Nobody asks again.
                _ if is_cancelled(tx, &lease).await? => Some(now),
                // What it waits for may have ended while it was on its way here. Then nobody wakes it any more.
                Some(invocation) if due_at.is_none() && has_moved_on(tx, &run, invocation).await? => Some(now),
                Some(_) | None => due_at,
            };
            park_in(tx, &lease, due_at).await?
        }
        Then::End => {
            let sql = "DELETE FROM run_leases WHERE org_id = $1 AND run_id = $2 AND lease_token = $3 AND lease_owner = $4";
            let owner = tx.lease().id().to_string();
            tx.exec(sql, &vals![lease.org.as_str(), lease.run.as_str(), lease.token, owner]).await? == 1
        }
    };
    if !is_held {
        if !steps.is_empty() {
            discard(store, tx, &lease, &run, &steps).await?;
        }
        return Ok(false);
    }
    for step in &steps {
        insert_step(tx, &lease.org, &lease.run, step)?;
    }
    match then {
        Then::End => {
            run.ended_at = Some(now);
            end_in(store, tx, &run).await?;
        }
        // Nobody but its worker writes it before the commit.
        Then::GoOn => {
            let (sql, params) = update_of(&run)?;
            tx.later(sql, params);
        }
        Then::Park { .. } => {
            update_run(tx, &run).await?;
            if run.status == RunStatus::Waiting {
                announce(store, tx, &run).await?;
            }
        }
    }
    Ok(true)
}

pub(super) fn insert_step(tx: &mut Tx, org: &OrgId, run: &RunId, step: &StepRecord) -> Result<(), Error> {
    // A step that is written again, after its commit was uncertain, is the same step.
    let sql = "INSERT INTO run_steps (org_id, run_id, phase, step, body) VALUES ($1, $2, $3, $4, $5)
               ON CONFLICT (org_id, run_id, phase, step) DO NOTHING";
    let params = vals![org.as_str(), run.as_str(), step.phase.as_str(), i64::from(step.index), to_json(step)?];
    tx.later(sql, params.into());
    Ok(())
}

async fn is_cancelled(tx: &mut Tx, lease: &Lease) -> Result<bool, Error> {
    let sql = "SELECT count(*) FROM run_leases WHERE org_id = $1 AND run_id = $2 AND cancelled = 1";
    Ok(count(tx.query(sql, &vals![lease.org.as_str(), lease.run.as_str()]).await?)? > 0)
}

/// Whether the call that the run is about to wait for has ended, or is in doubt where the run knows only that a person has to answer.
async fn has_moved_on(tx: &mut Tx, run: &Run, invocation: &InvocationId) -> Result<bool, Error> {
    let sql = "SELECT status FROM invocations WHERE org_id = $1 AND id = $2";
    let params = vals![run.org.as_str(), invocation.as_str()];
    let status = only(tx.query(sql, &params).await?, |row| Columns::of(row).parsed(Status::parse))?;
    let is_news = |status: Status| status.is_final() || status == Status::InDoubt && run.waiting_for == Some(WaitingFor::Approval);
    Ok(status.is_none_or(is_news))
}
