//! What events say of runs, and what led to them.

use super::table::{read_run, select_run};
use super::texts::keeps_texts;
use crate::db::{Columns, Tx, only, vals};
use crate::events::publish_in;
use crate::{Error, Store};
use countersign_core::ports::bus::NewEvent;
use countersign_core::ports::events::Cause;
use countersign_core::ports::runs::Lease;
use countersign_core::run::{Run, RunFailure, StepRecord};
use countersign_core::{OrgId, SessionId};
use serde_json::json;

/// Tells what became of a run.
pub(super) async fn announce(store: &Store, tx: &mut Tx, run: &Run) -> Result<(), Error> {
    let sql = "SELECT name FROM automations WHERE org_id = $1 AND id = $2";
    let name = only(tx.query(sql, &vals![run.org.as_str(), run.automation.as_str()]).await?, |row| Columns::of(row).text())?;
    announce_named(store, tx, run, &name.unwrap_or_default()).await
}

/// The same, where the name of its automation is known. An automation that follows another one knows it by its name: its id is another one on
/// each server.
pub(super) async fn announce_named(store: &Store, tx: &mut Tx, run: &Run, name: &str) -> Result<(), Error> {
    let (mut output, mut failure) = (run.output.clone(), run.failure.clone());
    if (output.is_some() || failure.is_some()) && !keeps_texts(tx, run).await? {
        output = None;
        failure.iter_mut().for_each(RunFailure::forget_message);
    }
    let body = json!({
        "run_id": run.id,
        "automation_id": run.automation,
        "automation_name": name,
        "version": run.version,
        "space_id": run.space,
        "status": run.status,
        "waiting_for": run.waiting_for,
        "trigger_id": run.trigger,
        "trigger_type": run.trigger_type,
        "asked_by": run.asked_by,
        "output": output,
        "error": failure,
        "handler_failed": run.handler_failed,
        "chain": run.chain,
        "root_run_id": run.root,
    });
    let event = NewEvent {
        name: run.status.event_name().to_owned(),
        key: run.id.to_string(),
        body: body.to_string(),
        origin: None,
        space: Some(run.space.clone()),
        cause: cause_of(run),
    };
    publish_in(store, tx, &run.org, event).await.map(|_| ())
}

/// Keeps what a worker that had lost its run brought: the run goes on without it. The calls themselves have their receipts.
pub(super) async fn discard(store: &Store, tx: &mut Tx, lease: &Lease, run: &Run, steps: &[StepRecord]) -> Result<(), Error> {
    let is_kept = keeps_texts(tx, run).await?;
    let brought = |step: &StepRecord| {
        let StepRecord { phase, step_id, status, invocation, mut failure, .. } = step.clone();
        if let Some(failure) = failure.as_mut().filter(|_| !is_kept) {
            failure.forget_message();
        }
        json!({ "phase": phase, "step_id": step_id, "status": status, "invocation_id": invocation, "error": failure })
    };
    let body = json!({
        "run_id": run.id,
        "automation_id": run.automation,
        "space_id": run.space,
        "lease_token": lease.token,
        "steps": steps.iter().map(brought).collect::<Vec<_>>(),
    });
    let event = NewEvent {
        name: "automation.run.discarded_attempt".to_owned(),
        key: run.id.to_string(),
        body: body.to_string(),
        origin: None,
        space: Some(run.space.clone()),
        cause: cause_of(run),
    };
    publish_in(store, tx, &lease.org, event).await.map(|_| ())
}

fn cause_of(run: &Run) -> Cause {
    let depth = u32::try_from(run.chain.len()).unwrap_or(u32::MAX);
    Cause { chain: run.chain.clone(), depth, root_run_id: Some(run.root.clone()) }
}

/// What led to what a call of this session does: its run, if it has one.
pub(crate) async fn cause_in(tx: &mut Tx, org: &OrgId, session: &SessionId) -> Result<Cause, Error> {
    let sql = concat!(select_run!(), " AND session_id = $2");
    let run = only(tx.query(sql, &vals![org.as_str(), session.as_str()]).await?, read_run)?;
    Ok(run.as_ref().map(cause_of).unwrap_or_default())
}
