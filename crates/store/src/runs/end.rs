//! Ending a run, whoever ends it: its worker, a person, or a newer run that takes its place. The next one in the queue then goes on.

use super::announce::announce;
use super::leases::insert_lease;
use super::table::{read_run, select_run};
use crate::db::{Statement, Tx, only, to_json, vals};
use crate::{Error, Store};
use countersign_core::automation::FiringReason;
use countersign_core::run::{Run, RunFailure, RunStatus};
use countersign_core::{AutomationId, InvocationId, OrgId, PrincipalId, RunId};

/// Ends a run: its place is free, the next one goes on, and its session ends.
pub(super) async fn end_in(store: &Store, tx: &mut Tx, run: &Run) -> Result<(), Error> {
    if !update_run(tx, run).await? {
        return Ok(());
    }
    let (org, now) = (run.org.as_str(), tx.now());
    let sql = "DELETE FROM whole_results WHERE org_id = $1 AND session_id = $2";
    tx.later(sql, vals![org, run.session.as_str()].into());
    let sql = "UPDATE sessions SET ended_at = $1 WHERE org_id = $2 AND id = $3 AND ended_at IS NULL";
    tx.later(sql, vals![now, org, run.session.as_str()].into());
    promote(tx, &run.org, &run.automation).await?;
    announce(store, tx, run).await
}

/// Writes a run that has not ended. A run that has ended is never changed.
pub(super) async fn update_run(tx: &mut Tx, run: &Run) -> Result<bool, Error> {
    let (sql, params) = update_of(run)?;
    Ok(tx.exec(sql, &params).await? == 1)
}

pub(super) fn update_of(run: &Run) -> Result<Statement, Error> {
    let sql = "UPDATE runs SET status = $1, invocation_id = $2, body = $3, slot = CASE WHEN $4 = 1 THEN 0 ELSE slot END, ended_at = $5
               WHERE org_id = $6 AND id = $7 AND status IN ('pending', 'running', 'waiting')";
    let params = vals![
        run.status.as_str(),
        run.invocation.as_ref().map(InvocationId::as_str),
        to_json(run)?,
        i64::from(run.status.is_final()),
        run.ended_at,
        run.org.as_str(),
        run.id.as_str()
    ];
    Ok((sql, params.into()))
}

/// Lets the first run that waits behind another go on, if none does. Returns which.
pub(super) async fn promote(tx: &mut Tx, org: &OrgId, automation: &AutomationId) -> Result<Option<RunId>, Error> {
    let params = vals![org.as_str(), automation.as_str()];
    let sql = concat!(
        select_run!(),
        " AND automation_id = $2 AND slot = 2
         AND NOT EXISTS (SELECT 1 FROM runs AS first WHERE first.org_id = $1 AND first.automation_id = $2 AND first.slot = 1)
         ORDER BY fire_seq LIMIT 1"
    );
    let Some(next) = only(tx.query(sql, &params).await?, read_run)? else {
        return Ok(None);
    };
    let sql = "UPDATE runs SET slot = 1 WHERE org_id = $1 AND id = $2";
    tx.exec(sql, &vals![org.as_str(), next.id.as_str()]).await?;
    insert_lease(tx, &next).await?;
    Ok(Some(next.id))
}

/// Ends a run that no worker has.
pub(super) async fn end_unworked(store: &Store, tx: &mut Tx, mut run: Run, status: RunStatus, code: &str, why: &str) -> Result<(), Error> {
    run.status = status;
    run.waiting_for = None;
    run.failure = Some(RunFailure { code: code.to_owned(), message: why.to_owned(), step_id: None });
    run.ended_at = Some(tx.now());
    end_in(store, tx, &run).await
}

pub(super) async fn cancel_in(store: &Store, tx: &mut Tx, org: &OrgId, id: &RunId, by: &PrincipalId) -> Result<Option<Run>, Error> {
    let sql = concat!(select_run!(), " AND id = $2");
    let Some(mut run) = only(tx.query(sql, &vals![org.as_str(), id.as_str()]).await?, read_run)? else {
        return Ok(None);
    };
    if run.status.is_final() || run.cancelled_by.is_some() {
        return Ok(Some(run));
    }
    run.cancelled_by = Some(by.clone());
    let sql = "UPDATE run_leases SET cancelled = 1, due_at = CASE WHEN lease_until IS NULL THEN $1 ELSE due_at END
               WHERE org_id = $2 AND run_id = $3";
    let has_lease = tx.exec(sql, &vals![tx.now(), org.as_str(), id.as_str()]).await? > 0;
    let sql = "UPDATE runs SET cancelled_by = $1 WHERE org_id = $2 AND id = $3";
    tx.exec(sql, &vals![by.to_string(), org.as_str(), id.as_str()]).await?;
    if !has_lease {
        // It waits behind another run, and no worker will ever have it.
        end_unworked(store, tx, run.clone(), RunStatus::Cancelled, "cancelled", "it was cancelled before it began").await?;
        run.status = RunStatus::Cancelled;
    }
    Ok(Some(run))
}

/// The oldest run that waits behind another makes room for a newer one.
pub(crate) async fn drop_oldest(store: &Store, tx: &mut Tx, org: &OrgId, automation: &AutomationId) -> Result<(), Error> {
    let sql = concat!(select_run!(), " AND automation_id = $2 AND slot = 2 ORDER BY fire_seq LIMIT 1");
    let Some(run) = only(tx.query(sql, &vals![org.as_str(), automation.as_str()]).await?, read_run)? else {
        return Ok(());
    };
    let why = "a newer run took its place in the queue, which was full";
    let sql = "UPDATE firings SET outcome = $1, reason = $2 WHERE org_id = $3 AND id = $4";
    let reason = FiringReason::QueueFull;
    tx.exec(sql, &vals![reason.outcome().as_str(), reason.as_str(), org.as_str(), run.firing.as_str()]).await?;
    end_unworked(store, tx, run, RunStatus::Cancelled, "queue_full", why).await
}
