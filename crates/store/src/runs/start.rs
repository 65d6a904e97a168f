//! Starting a run, in the write of its firing: its session with what that holds already, its row, its lease and its event.

use super::announce::announce_named;
use super::leases::insert_lease;
use super::save::insert_step;
use super::texts::{inputs_context, keep_payload};
use crate::db::{Columns, Tx, only, to_json, vals};
use crate::{Error, Store};
use countersign_core::automation::{Automation, Firing};
use countersign_core::keyring::SpaceKey as _;
use countersign_core::ports::events::Cause;
use countersign_core::ports::runs::{Asker, Start};
use countersign_core::run::{Phase, Run, RunStatus};
use countersign_core::session::Attendance;
use countersign_core::{OrgId, PrincipalId, UserId};

/// Whether a run may go on, where only one run of its automation may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// Any number may.
    None,
    Holds,
    WaitsBehind,
}

impl Slot {
    const fn stored(self) -> i64 {
        match self {
            Self::None => 0,
            Self::Holds => 1,
            Self::WaitsBehind => 2,
        }
    }
}

/// The run of a firing, with the session in which its steps are invoked.
pub(crate) async fn insert_run(
    store: &Store,
    tx: &mut Tx,
    automation: &Automation,
    firing: &Firing,
    cause: Cause,
    start: Start,
    slot: Slot,
) -> Result<(), Error> {
    let (org, now) = (&automation.org, tx.now());
    let owner = saver_of(tx, automation, start.version).await?;
    let (asked_by, person) = start.asked_by.clone().map_or((None, None), |Asker { by, person }| (Some(by), person));
    let sql = "INSERT INTO sessions (org_id, id, space_id, created_by, owner_id, title, attendance, automation_id, asked_by, created_at)
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
    let params = vals![
        org.as_str(),
        start.session.as_str(),
        automation.space.as_str(),
        PrincipalId::Automation(automation.id.clone()).to_string(),
        owner.as_str(),
        automation.name.as_str(),
        Attendance::Unattended.as_str(),
        automation.id.as_str(),
        person.as_ref().map(UserId::as_str),
        now
    ];
    tx.later(sql, params.into());
    let key = store.keychain.space_key_in(tx, org, &automation.space).await?;
    let sealed_inputs = key.seal(&inputs_context(&start.run), to_json(&start.inputs)?.as_bytes());
    label_in(tx, org, &start).await?;
    let mut chain = cause.chain;
    chain.push(automation.id.clone());
    let run = Run {
        root: cause.root_run_id.unwrap_or_else(|| start.run.clone()),
        id: start.run,
        org: org.clone(),
        automation: automation.id.clone(),
        space: automation.space.clone(),
        session: start.session,
        version: start.version,
        definition: start.definition,
        status: RunStatus::Pending,
        waiting_for: None,
        trigger: firing.trigger.clone(),
        trigger_type: start.trigger_type,
        firing: firing.id.clone(),
        inputs: Some(start.inputs),
        shown_inputs: start.shown_inputs,
        output: None,
        failure: None,
        handler_failed: false,
        queue: start.queue,
        phase: Phase::Plan,
        step: u32::try_from(start.copied.len()).unwrap_or(u32::MAX),
        invocation: None,
        attempts: 0,
        worked_ms: 0,
        failed_at_ms: None,
        recoveries: 0,
        step_recoveries: 0,
        rerun_of: start.rerun_of,
        chain,
        asked_by,
        cancelled_by: None,
        created_at: now,
        started_at: None,
        ended_at: None,
    };
    let sql = "INSERT INTO runs (org_id, id, automation_id, space_id, session_id, status, slot, body, sealed_inputs, fire_seq)
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9,
                 (SELECT coalesce(max(fire_seq), 0) + 1 FROM runs WHERE org_id = $1 AND automation_id = $3))";
    let params = vals![
        org.as_str(),
        run.id.as_str(),
        automation.id.as_str(),
        run.space.as_str(),
        run.session.as_str(),
        run.status.as_str(),
        slot.stored(),
        to_json(&run)?,
        sealed_inputs
    ];
    tx.exec(sql, &params).await?;
    if let Some(payload) = &start.payload {
        keep_payload(tx, &run, &*key, payload)?;
    }
    for step in &start.copied {
        insert_step(tx, org, &run.id, step)?;
    }
    if slot != Slot::WaitsBehind {
        insert_lease(tx, &run).await?;
    }
    announce_named(store, tx, &run, &automation.name).await
}

/// Who saved this version of an automation. Its runs act for them, whoever saves another version before they have ended.
async fn saver_of(tx: &mut Tx, automation: &Automation, version: u32) -> Result<UserId, Error> {
    if version == automation.version {
        return Ok(automation.creator.clone());
    }
    let sql = "SELECT saved_by FROM automation_versions WHERE org_id = $1 AND automation_id = $2 AND version = $3";
    let params = vals![automation.org.as_str(), automation.id.as_str(), i64::from(version)];
    let saver = only(tx.query(sql, &params).await?, |row| Columns::of(row).id())?;
    saver.ok_or_else(|| Error::Corrupt { message: format!("the automation `{}` has no version {version}", automation.id) })
}

/// Labels the session of a new run with what it holds before its first step: what came from outside, also to the run that it repeats, and what
/// the steps of that one have read that it does not repeat.
async fn label_in(tx: &mut Tx, org: &OrgId, start: &Start) -> Result<(), Error> {
    if let Some(rerun_of) = &start.rerun_of {
        let sql = "INSERT INTO session_labels (org_id, session_id, label, at, invocation_id)
                   SELECT org_id, $1, label, at, invocation_id FROM session_labels
                   WHERE org_id = $2 AND session_id IN (SELECT session_id FROM runs WHERE org_id = $2 AND id = $3)
                   AND ($4 = 1 OR invocation_id IS NULL)";
        let takes_over = i64::from(!start.copied.is_empty());
        tx.exec(sql, &vals![start.session.as_str(), org.as_str(), rerun_of.as_str(), takes_over]).await?;
    }
    if start.from_outside {
        let sql = "INSERT INTO session_labels (org_id, session_id, label, at) VALUES ($1, $2, 'untrusted_content', $3)
                   ON CONFLICT (org_id, session_id, label) DO NOTHING";
        tx.exec(sql, &vals![org.as_str(), start.session.as_str(), tx.now()]).await?;
    }
    Ok(())
}
