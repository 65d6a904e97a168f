//! Runs of automations, and the leases on them. A lease has a token that grows with every lease of its run. Every write of a run begins with
//! its lease, so that a worker which lost it changes nothing; and no write changes a run that has ended, but for the one that takes out its texts.

use crate::budgets::{reserve_in, settle};
use crate::bus::publish_in;
use crate::claims::SWEEP_ROWS;
use crate::db::{Columns, Row, Tx, Val, all, count, only, to_json, vals};
use crate::events::tell;
use crate::firings::fire_in;
use crate::gatherings::{fire_gathered_in, gather_in};
use crate::notifications::notify_in;
use crate::orgs::{not_among, places};
use crate::{Error, Page, PageRequest, Store, page};
use countersign_core::automation::{Automation, Firing, FiringReason};
use countersign_core::keyring::SpaceKey as _;
use countersign_core::limits::{RUN_LEASE_SECONDS, RUN_RECOVERIES_MAX};
use countersign_core::ports::Runs;
use countersign_core::ports::bus::NewEvent;
use countersign_core::ports::events::Cause;
use countersign_core::ports::runs::{
    Asker, Fired, FiredGathering, Gathered, GatheredEvent, Gathering, KeptLease, Lease, NewFiring, ReserveBudget, Reserved, SavedRun,
    Start, Then,
};
use countersign_core::run::{Phase, Run, RunFailure, RunStatus, StepRecord, WaitingFor};
use countersign_core::session::Attendance;
use countersign_core::{
    Amount, AutomationId, Future, InvocationId, OrgId, PrincipalId, RunId, SessionId, SpaceId, Status, Timestamp, UserId,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

macro_rules! select_run {
    () => {
        "SELECT body, status, started_at, cancelled_by FROM runs WHERE org_id = $1"
    };
}

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

/// Which runs to list; by default all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunFilter {
    pub automation: Option<AutomationId>,
    pub status: Option<RunStatus>,
    pub hidden: BTreeSet<SpaceId>,
}

impl Runs for Store {
    fn fire(&self, firing: NewFiring) -> Future<'_, Result<Fired, Error>> {
        let store = self.clone();
        Box::pin(self.db.write(firing.org.clone(), move |tx| Box::pin(async move { fire_in(&store, tx, firing).await })))
    }

    fn claim_runs<'a>(&'a self, queues: &'a [String], limit: u32) -> Future<'a, Result<Vec<Lease>, Error>> {
        let queues = queues.to_vec();
        Box::pin(self.db.write_unscoped(move |tx| {
            Box::pin(async move {
                let mut claimed = Vec::new();
                for queue in &queues {
                    let left = limit.saturating_sub(u32::try_from(claimed.len()).unwrap_or(u32::MAX));
                    claimed.extend(claim_in(tx, queue, left).await?);
                }
                begin_in(tx, &claimed).await?;
                Ok(claimed)
            })
        }))
    }

    fn count_due_runs(&self, most: u32) -> Future<'_, Result<u32, Error>> {
        Box::pin(async move {
            let sql = "/* every org: a worker works for all of them */ SELECT count(*) FROM (
                         SELECT run_id FROM run_leases WHERE lease_until IS NULL AND due_at IS NOT NULL LIMIT $1) AS due";
            Ok(u32::try_from(count(self.db.read(sql, &vals![i64::from(most)]).await?)?).unwrap_or(most))
        })
    }

    fn gather(&self, event: GatheredEvent) -> Future<'_, Result<Gathered, Error>> {
        let store = self.clone();
        Box::pin(self.db.write(event.org.clone(), move |tx| Box::pin(async move { gather_in(&store, tx, event).await })))
    }

    fn list_due_gatherings(&self, limit: u32) -> Future<'_, Result<Vec<Gathering>, Error>> {
        Box::pin(self.read_due_gatherings(limit))
    }

    fn next_gathering_at(&self) -> Future<'_, Result<Option<Timestamp>, Error>> {
        Box::pin(self.read_next_gathering())
    }

    fn fire_gathered(&self, fired: FiredGathering) -> Future<'_, Result<Option<Fired>, Error>> {
        let store = self.clone();
        let org = fired.gathering.org.clone();
        Box::pin(self.db.write(org, move |tx| Box::pin(async move { fire_gathered_in(&store, tx, fired).await })))
    }

    fn keep_leases(&self, leases: Vec<Lease>) -> Future<'_, Result<Vec<KeptLease>, Error>> {
        Box::pin(self.db.write_unscoped(move |tx| {
            Box::pin(async move {
                let mut params = vals![tx.now().plus_seconds(RUN_LEASE_SECONDS), tx.lease().id().as_str()].to_vec();
                let Some(runs) = places(leases.iter().map(|lease| lease.run.as_str()), &mut params) else {
                    return Ok(Vec::new());
                };
                let sql = format!(
                    "/* every org: a worker works for all of them */ UPDATE run_leases SET lease_until = $1
                     WHERE lease_owner = $2 AND lease_until IS NOT NULL AND run_id IN ({runs})
                     RETURNING org_id, run_id, lease_token, lease_until, cancelled"
                );
                let kept = all(tx.query(&sql, &params).await?, |row| {
                    let mut columns = Columns::of(row);
                    Ok(KeptLease { lease: read_lease_columns(&mut columns)?, is_cancelled: columns.int()? == 1 })
                })?;
                let is_same = |kept: &KeptLease| leases.iter().any(|lease| lease.run == kept.lease.run && lease.token == kept.lease.token);
                Ok(kept.into_iter().filter(is_same).collect())
            })
        }))
    }

    fn give_back(&self, lease: Lease) -> Future<'_, Result<(), Error>> {
        Box::pin(self.db.write(lease.org.clone(), move |tx| {
            Box::pin(async move {
                let now = tx.now();
                park_in(tx, &lease, Some(now)).await.map(|_| ())
            })
        }))
    }

    fn find_run<'a>(&'a self, org: &'a OrgId, run: &'a RunId) -> Future<'a, Result<Option<Run>, Error>> {
        Box::pin(async move {
            let sql = "SELECT body, status, started_at, cancelled_by, sealed_inputs FROM runs WHERE org_id = $1 AND id = $2";
            let read = |row: Row| {
                let mut columns = Columns::of(row);
                Ok((read_run_columns(&mut columns)?, columns.bytes_or_null()?))
            };
            match only(self.db.read(sql, &vals![org.as_str(), run.as_str()]).await?, read)? {
                Some((run, Some(sealed))) => Ok(Some(Run { inputs: Some(self.open_inputs(org, &run, &sealed).await?), ..run })),
                Some((run, None)) => Ok(Some(run)),
                None => Ok(None),
            }
        })
    }

    fn list_steps<'a>(&'a self, org: &'a OrgId, run: &'a RunId) -> Future<'a, Result<Vec<StepRecord>, Error>> {
        Box::pin(async move {
            // The plan comes before what follows its failure.
            let sql = "SELECT body FROM run_steps WHERE org_id = $1 AND run_id = $2 ORDER BY phase DESC, step";
            all(self.db.read(sql, &vals![org.as_str(), run.as_str()]).await?, |row| Columns::of(row).json())
        })
    }

    fn save_run(&self, saved: SavedRun) -> Future<'_, Result<bool, Error>> {
        let store = self.clone();
        Box::pin(self.db.write(saved.lease.org.clone(), move |tx| Box::pin(async move { save_in(&store, tx, saved).await })))
    }

    fn reserve_budget(&self, reserve: ReserveBudget) -> Future<'_, Result<Reserved, Error>> {
        Box::pin(self.db.write(reserve.lease.org.clone(), move |tx| Box::pin(async move { reserve_in(tx, reserve).await })))
    }

    fn settle_budget<'a>(&'a self, org: &'a OrgId, run: &'a RunId, key: &'a str, spent: Amount) -> Future<'a, Result<(), Error>> {
        Box::pin(settle(self, org, run, key, spent))
    }

    fn measured_p95_ms<'a>(&'a self, org: &'a OrgId, action: &'a str) -> Future<'a, Result<Option<u64>, Error>> {
        Box::pin(self.read_p95_ms(org, action))
    }

    fn wake_run<'a>(&'a self, org: &'a OrgId, invocation: &'a InvocationId) -> Future<'a, Result<bool, Error>> {
        Box::pin(async move {
            // Most calls are no steps: that is seen without a write.
            let sql = "SELECT id FROM runs WHERE org_id = $1 AND invocation_id = $2";
            if self.db.read(sql, &vals![org.as_str(), invocation.as_str()]).await?.is_empty() {
                return Ok(false);
            }
            let (org, invocation) = (org.clone(), invocation.clone());
            self.db.write(org.clone(), move |tx| Box::pin(async move { wake_in(tx, &org, &invocation).await })).await
        })
    }

    fn cancel_run<'a>(&'a self, org: &'a OrgId, run: &'a RunId, by: &'a PrincipalId) -> Future<'a, Result<Option<Run>, Error>> {
        let (store, org, run, by) = (self.clone(), org.clone(), run.clone(), by.clone());
        Box::pin(self.db.write(org.clone(), move |tx| Box::pin(async move { cancel_in(&store, tx, &org, &run, &by).await })))
    }

    fn free_lost_runs(&self) -> Future<'_, Result<u64, Error>> {
        Box::pin(async move {
            let now = self.db.now().await?;
            let sql = "/* every org: a worker works for all of them */ SELECT org_id, run_id, lease_token, lease_until FROM run_leases
                       WHERE lease_until IS NOT NULL AND lease_until <= $1 ORDER BY lease_until LIMIT $2";
            let lost = all(self.db.read(sql, &vals![now, SWEEP_ROWS]).await?, read_lease)?;
            self.free(lost).await
        })
    }

    fn free_all_runs(&self) -> Future<'_, Result<u64, Error>> {
        Box::pin(async move {
            let sql = "/* every org: a worker works for all of them */ SELECT org_id, run_id, lease_token, lease_until FROM run_leases
                       WHERE lease_until IS NOT NULL";
            let left = all(self.db.read(sql, &[]).await?, read_lease)?;
            self.free(left).await
        })
    }

    fn wake_forgotten_runs(&self) -> Future<'_, Result<u64, Error>> {
        Box::pin(async move {
            let sql = "/* every org: a worker works for all of them */ SELECT runs.org_id, runs.automation_id, runs.id, runs.invocation_id FROM runs
                       JOIN run_leases ON run_leases.run_id = runs.id AND run_leases.due_at IS NULL AND run_leases.lease_until IS NULL
                       JOIN invocations ON invocations.org_id = runs.org_id AND invocations.id = runs.invocation_id
                       AND invocations.status NOT IN ('pending', 'approved', 'running', 'in_doubt')
                       WHERE runs.status = 'waiting' LIMIT $1";
            let forgotten = all(self.db.read(sql, &vals![SWEEP_ROWS]).await?, |row| {
                let mut columns = Columns::of(row);
                Ok((columns.id()?, columns.id()?, columns.id()?, columns.id()?))
            })?;
            let mut woken = 0;
            for (org, automation, run, invocation) in forgotten {
                woken += u64::from(self.wake_forgotten(org, automation, run, invocation).await?);
            }
            Ok(woken)
        })
    }

    fn promote_stuck_runs(&self) -> Future<'_, Result<u64, Error>> {
        Box::pin(async move {
            let sql = "/* every org: a worker works for all of them */ SELECT DISTINCT runs.org_id, runs.automation_id FROM runs
                       WHERE runs.slot = 2 AND NOT EXISTS (SELECT 1 FROM runs AS heads
                         WHERE heads.org_id = runs.org_id AND heads.automation_id = runs.automation_id AND heads.slot = 1) LIMIT $1";
            let stuck = all(self.db.read(sql, &vals![SWEEP_ROWS]).await?, |row| {
                let mut columns = Columns::of(row);
                Ok((columns.id()?, columns.id()?))
            })?;
            let mut promoted = 0;
            for (org, automation) in stuck {
                promoted += u64::from(self.promote_stuck(org, automation).await?);
            }
            Ok(promoted)
        })
    }

    fn find_whole_result<'a>(&'a self, org: &'a OrgId, invocation: &'a InvocationId) -> Future<'a, Result<Option<Value>, Error>> {
        Box::pin(async move {
            let sql = "SELECT result FROM whole_results WHERE org_id = $1 AND invocation_id = $2";
            only(self.db.read(sql, &vals![org.as_str(), invocation.as_str()]).await?, |row| Columns::of(row).json())
        })
    }
}

impl Store {
    /// Lists runs, newest first.
    pub async fn list_runs(&self, org: &OrgId, filter: &RunFilter, request: &PageRequest) -> Result<Page<Run>, Error> {
        let mut params = vals![
            org.as_str(),
            filter.automation.as_ref().map_or("", AutomationId::as_str),
            filter.status.map_or("", RunStatus::as_str),
            request.after.as_deref().unwrap_or("~")
        ]
        .to_vec();
        let visible = not_among("space_id", &filter.hidden, &mut params);
        params.push(Val::from(i64::from(request.limit) + 1));
        let which = concat!(select_run!(), " AND (automation_id = $2 OR $2 = '') AND (status = $3 OR $3 = '') AND id < $4");
        let sql = format!("{which}{visible} ORDER BY id DESC LIMIT ${}", params.len());
        page(self.db.read(&sql, &params).await?, request.limit, read_run, |run| run.id.to_string())
    }

    /// The run whose session this is.
    pub async fn find_run_of_session(&self, org: &OrgId, session: &SessionId) -> Result<Option<Run>, Error> {
        let sql = concat!(select_run!(), " AND session_id = $2");
        only(self.db.read(sql, &vals![org.as_str(), session.as_str()]).await?, read_run)
    }

    /// Takes the texts out of a run that has ended, and out of its steps.
    pub(crate) async fn forget_texts(&self, org: &OrgId, run: &RunId) -> Result<(), Error> {
        let sql = concat!(select_run!(), " AND id = $2 AND ended_at IS NOT NULL");
        let Some(ended) = only(self.db.read(sql, &vals![org.as_str(), run.as_str()]).await?, read_run)? else {
            return Ok(());
        };
        let steps: Vec<_> = self.list_steps(org, run).await?.into_iter().map(StepRecord::without_texts).collect();
        let (org, run, body) = (org.clone(), run.clone(), to_json(&ended.without_texts())?);
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    for step in &steps {
                        let sql = "UPDATE run_steps SET body = $1 WHERE org_id = $2 AND run_id = $3 AND phase = $4 AND step = $5";
                        let params = vals![to_json(step)?, org.as_str(), run.as_str(), step.phase.as_str(), i64::from(step.index)];
                        tx.exec(sql, &params).await?;
                    }
                    let sql = "UPDATE runs SET body = $1, sealed_inputs = NULL WHERE org_id = $2 AND id = $3";
                    tx.exec(sql, &vals![body, org.as_str(), run.as_str()]).await.map(|_| ())
                })
            })
            .await
    }

    /// Whether the run was still to be woken; then it is told.
    async fn wake_forgotten(&self, org: OrgId, automation: AutomationId, run: RunId, invocation: InvocationId) -> Result<bool, Error> {
        let store = self.clone();
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let is_woken = wake_in(tx, &org, &invocation).await?;
                    if is_woken {
                        tell_mended(&store, tx, &org, &automation, &run, "run_woken").await?;
                    }
                    Ok(is_woken)
                })
            })
            .await
    }

    /// The inputs of a run, as it was given them.
    async fn open_inputs(&self, org: &OrgId, run: &Run, sealed: &[u8]) -> Result<Value, Error> {
        let broken = || Error::Corrupt { message: format!("the inputs of the run `{}` do not open", run.id) };
        let key = self.keychain.space_key(&self.db, org, &run.space).await?;
        let plain = key.open(&inputs_context(&run.id), sealed).map_err(|_| broken())?;
        serde_json::from_slice(&plain).map_err(|_| broken())
    }

    /// Whether a run of the automation could go on; then it is told.
    async fn promote_stuck(&self, org: OrgId, automation: AutomationId) -> Result<bool, Error> {
        let store = self.clone();
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let promoted = promote(tx, &org, &automation).await?;
                    if let Some(run) = &promoted {
                        tell_mended(&store, tx, &org, &automation, run, "queue_moved").await?;
                    }
                    Ok(promoted.is_some())
                })
            })
            .await
    }

    async fn free(&self, lost: Vec<Lease>) -> Result<u64, Error> {
        let mut freed = 0;
        for lease in lost {
            let store = self.clone();
            freed += self.db.write(lease.org.clone(), move |tx| Box::pin(async move { free_in(&store, tx, lease).await })).await?;
        }
        Ok(freed)
    }
}

/// Leases runs of one queue. Spaces take turns, so that the backlog of one does not keep the runs of another waiting.
async fn claim_in(tx: &mut Tx, queue: &str, limit: u32) -> Result<Vec<Lease>, Error> {
    if limit == 0 {
        return Ok(Vec::new());
    }
    let spaces = spaces_due(tx, queue, limit).await?;
    let mut claimed = Vec::new();
    if let Some(share) = u32::try_from(spaces.len()).ok().filter(|spaces| *spaces > 1).map(|spaces| (limit / spaces).max(1)) {
        for space in &spaces {
            let left = limit.saturating_sub(u32::try_from(claimed.len()).unwrap_or(u32::MAX));
            claimed.extend(lease_oldest(tx, queue, Some(space), share.min(left)).await?);
        }
    }
    // What is left goes to whatever is due longest.
    let left = limit.saturating_sub(u32::try_from(claimed.len()).unwrap_or(u32::MAX));
    if !spaces.is_empty() {
        claimed.extend(lease_oldest(tx, queue, None, left).await?);
    }
    Ok(claimed)
}

/// The spaces that have runs of this queue which are due, the longest due first. The index is read once for each space, not for each run.
async fn spaces_due(tx: &mut Tx, queue: &str, limit: u32) -> Result<Vec<SpaceId>, Error> {
    let sql = "/* every org: a worker works for all of them */
               WITH RECURSIVE ready (space_id) AS (
                 SELECT min(space_id) FROM run_leases
                 WHERE queue = $1 AND lease_until IS NULL AND due_at IS NOT NULL AND due_at <= $2
                 UNION ALL
                 SELECT (SELECT min(run_leases.space_id) FROM run_leases
                   WHERE queue = $1 AND lease_until IS NULL AND due_at IS NOT NULL AND due_at <= $2
                   AND run_leases.space_id > ready.space_id)
                 FROM ready WHERE ready.space_id IS NOT NULL)
               SELECT space_id, (SELECT min(due_at) FROM run_leases
                 WHERE queue = $1 AND run_leases.space_id = ready.space_id AND lease_until IS NULL AND due_at IS NOT NULL) AS oldest
               FROM ready WHERE space_id IS NOT NULL ORDER BY oldest LIMIT $3";
    all(tx.query(sql, &vals![queue, tx.now(), i64::from(limit)]).await?, |row| Columns::of(row).id())
}

async fn lease_oldest(tx: &mut Tx, queue: &str, space: Option<&SpaceId>, limit: u32) -> Result<Vec<Lease>, Error> {
    if limit == 0 {
        return Ok(Vec::new());
    }
    let until = tx.now().plus_seconds(RUN_LEASE_SECONDS);
    let mut params = vals![tx.lease().id().as_str(), until, tx.now(), queue].to_vec();
    let of_space = space.map_or("", |space| {
        params.push(Val::from(space.as_str()));
        " AND space_id = $5"
    });
    params.push(Val::from(i64::from(limit)));
    // On PostgreSQL several servers claim at once.
    let skip = if tx.is_postgres() { " FOR UPDATE SKIP LOCKED" } else { "" };
    let sql = format!(
        "/* every org: a worker works for all of them */ UPDATE run_leases
         SET lease_owner = $1, lease_token = lease_token + 1, lease_until = $2
         WHERE run_id IN (SELECT run_id FROM run_leases
           WHERE lease_until IS NULL AND due_at IS NOT NULL AND due_at <= $3 AND queue = $4{of_space}
           ORDER BY due_at, run_id LIMIT ${}{skip})
         RETURNING org_id, run_id, lease_token, lease_until",
        params.len()
    );
    all(tx.query(&sql, &params).await?, read_lease)
}

/// Says that these run. Every write of a run locks its lease first, so this order keeps servers from waiting for each other.
async fn begin_in(tx: &mut Tx, claimed: &[Lease]) -> Result<(), Error> {
    let mut params = vals![tx.now()].to_vec();
    let Some(runs) = places(claimed.iter().map(|lease| lease.run.as_str()), &mut params) else {
        return Ok(());
    };
    let sql = format!(
        "/* every org: a worker works for all of them */ UPDATE runs SET status = 'running', started_at = coalesce(started_at, $1)
         WHERE status IN ('pending', 'running', 'waiting') AND id IN ({runs})"
    );
    tx.exec(&sql, &params).await.map(|_| ())
}

/// The run of a firing, with the session in which its steps are invoked.
pub(crate) async fn insert_run(
    store: &Store,
    tx: &mut Tx,
    automation: &Automation,
    firing: &Firing,
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
    tx.exec(sql, &params).await?;
    let key = store.keychain.space_key_in(tx, org, &automation.space).await?;
    let sealed_inputs = key.seal(&inputs_context(&start.run), to_json(&start.inputs)?.as_bytes());
    label_in(tx, org, &start).await?;
    let mut chain = start.chain;
    chain.push(automation.id.clone());
    let run = Run {
        root: start.root.unwrap_or_else(|| start.run.clone()),
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
        rerun_of: start.rerun_of,
        chain,
        asked_by,
        cancelled_by: None,
        created_at: now,
        started_at: None,
        ended_at: None,
    };
    let sql = "SELECT coalesce(max(fire_seq), 0) FROM runs WHERE org_id = $1 AND automation_id = $2";
    let fire_seq = count(tx.query(sql, &vals![org.as_str(), automation.id.as_str()]).await?)? + 1;
    let sql = "INSERT INTO runs (org_id, id, automation_id, space_id, session_id, status, slot, fire_seq, body, sealed_inputs)
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
    let params = vals![
        org.as_str(),
        run.id.as_str(),
        automation.id.as_str(),
        run.space.as_str(),
        run.session.as_str(),
        run.status.as_str(),
        slot.stored(),
        fire_seq,
        to_json(&run)?,
        sealed_inputs
    ];
    tx.exec(sql, &params).await?;
    insert_steps(tx, org, &run.id, &start.copied).await?;
    if slot != Slot::WaitsBehind {
        insert_lease(tx, &run).await?;
    }
    announce(store, tx, &run).await
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

async fn insert_lease(tx: &mut Tx, run: &Run) -> Result<(), Error> {
    let sql = "INSERT INTO run_leases (run_id, org_id, space_id, queue, due_at, lease_token, cancelled) VALUES ($1, $2, $3, $4, $5, 0, 0)";
    let params = vals![run.id.as_str(), run.org.as_str(), run.space.as_str(), run.queue.as_str(), tx.now()];
    tx.exec(sql, &params).await.map(|_| ())
}

async fn insert_steps(tx: &mut Tx, org: &OrgId, run: &RunId, steps: &[StepRecord]) -> Result<(), Error> {
    for step in steps {
        // A step that is written again, after its commit was uncertain, is the same step.
        let sql = "INSERT INTO run_steps (org_id, run_id, phase, step, body) VALUES ($1, $2, $3, $4, $5)
                   ON CONFLICT (org_id, run_id, phase, step) DO NOTHING";
        tx.exec(sql, &vals![org.as_str(), run.as_str(), step.phase.as_str(), i64::from(step.index), to_json(step)?]).await?;
    }
    Ok(())
}

/// Whether the lease is still held; it is kept for longer, or given up as `then` says.
async fn save_in(store: &Store, tx: &mut Tx, saved: SavedRun) -> Result<bool, Error> {
    let SavedRun { lease, mut run, steps, then } = saved;
    let now = tx.now();
    let is_held = match then {
        Then::GoOn => {
            let sql = "UPDATE run_leases SET lease_until = $1 WHERE org_id = $2 AND run_id = $3 AND lease_token = $4 AND lease_owner = $5";
            let until = now.plus_seconds(RUN_LEASE_SECONDS);
            let owner = tx.lease().id().to_string();
            tx.exec(sql, &vals![until, lease.org.as_str(), lease.run.as_str(), lease.token, owner]).await? == 1
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
    insert_steps(tx, &lease.org, &lease.run, &steps).await?;
    match then {
        Then::End => {
            run.ended_at = Some(now);
            end_in(store, tx, &run).await?;
        }
        Then::GoOn | Then::Park { .. } => {
            update_run(tx, &run).await?;
            if run.status == RunStatus::Waiting {
                announce(store, tx, &run).await?;
            }
        }
    }
    Ok(true)
}

/// Keeps what a worker that had lost its run brought: the run goes on without it. The calls themselves have their receipts.
async fn discard(store: &Store, tx: &mut Tx, lease: &Lease, run: &Run, steps: &[StepRecord]) -> Result<(), Error> {
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

async fn park_in(tx: &mut Tx, lease: &Lease, due_at: Option<Timestamp>) -> Result<bool, Error> {
    let sql = "UPDATE run_leases SET due_at = $1, lease_until = NULL, lease_owner = NULL, lease_token = lease_token + 1
               WHERE org_id = $2 AND run_id = $3 AND lease_token = $4 AND lease_owner = $5";
    let owner = tx.lease().id().to_string();
    Ok(tx.exec(sql, &vals![due_at, lease.org.as_str(), lease.run.as_str(), lease.token, owner]).await? == 1)
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

/// Writes a run that has not ended. A run that has ended is never changed.
async fn update_run(tx: &mut Tx, run: &Run) -> Result<bool, Error> {
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
    Ok(tx.exec(sql, &params).await? == 1)
}

/// Ends a run: its place is free, the next one goes on, and its session ends.
async fn end_in(store: &Store, tx: &mut Tx, run: &Run) -> Result<(), Error> {
    if !update_run(tx, run).await? {
        return Ok(());
    }
    let (org, now) = (run.org.as_str(), tx.now());
    let sql = "DELETE FROM whole_results WHERE org_id = $1 AND session_id = $2";
    tx.exec(sql, &vals![org, run.session.as_str()]).await?;
    let sql = "UPDATE sessions SET ended_at = $1 WHERE org_id = $2 AND id = $3 AND ended_at IS NULL";
    tx.exec(sql, &vals![now, org, run.session.as_str()]).await?;
    promote(tx, &run.org, &run.automation).await?;
    announce(store, tx, run).await
}

/// Lets the first run that waits behind another go on, if none does. Returns which.
async fn promote(tx: &mut Tx, org: &OrgId, automation: &AutomationId) -> Result<Option<RunId>, Error> {
    let params = vals![org.as_str(), automation.as_str()];
    let sql = "SELECT count(*) FROM runs WHERE org_id = $1 AND automation_id = $2 AND slot = 1";
    if count(tx.query(sql, &params).await?)? > 0 {
        return Ok(None);
    }
    let sql = concat!(select_run!(), " AND automation_id = $2 AND slot = 2 ORDER BY fire_seq LIMIT 1");
    let Some(next) = only(tx.query(sql, &params).await?, read_run)? else {
        return Ok(None);
    };
    let sql = "UPDATE runs SET slot = 1 WHERE org_id = $1 AND id = $2";
    tx.exec(sql, &vals![org.as_str(), next.id.as_str()]).await?;
    insert_lease(tx, &next).await?;
    Ok(Some(next.id))
}

/// Has the run that waits for this call go on. Returns whether it did not yet.
async fn wake_in(tx: &mut Tx, org: &OrgId, invocation: &InvocationId) -> Result<bool, Error> {
    let sql = "UPDATE run_leases SET due_at = $1 WHERE org_id = $2 AND due_at IS NULL AND lease_until IS NULL
               AND run_id IN (SELECT id FROM runs WHERE org_id = $2 AND invocation_id = $3)";
    Ok(tx.exec(sql, &vals![tx.now(), org.as_str(), invocation.as_str()]).await? > 0)
}

/// Tells of a run that nothing would have moved any more.
async fn tell_mended(store: &Store, tx: &mut Tx, org: &OrgId, automation: &AutomationId, run: &RunId, what: &str) -> Result<(), Error> {
    let body = json!({ "automation_id": automation, "run_id": run, "what": what }).to_string();
    tell(store, tx, org, "automation.mended", automation.to_string(), body).await
}

async fn cancel_in(store: &Store, tx: &mut Tx, org: &OrgId, id: &RunId, by: &PrincipalId) -> Result<Option<Run>, Error> {
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

/// Ends a run that no worker has.
async fn end_unworked(store: &Store, tx: &mut Tx, mut run: Run, status: RunStatus, code: &str, why: &str) -> Result<(), Error> {
    run.status = status;
    run.waiting_for = None;
    run.failure = Some(RunFailure { code: code.to_owned(), message: why.to_owned(), step_id: None });
    run.ended_at = Some(tx.now());
    end_in(store, tx, &run).await
}

/// Frees a run whose worker has gone. It is taken up again at once, but not for ever: it may be what takes its workers down.
async fn free_in(store: &Store, tx: &mut Tx, lease: Lease) -> Result<u64, Error> {
    // It is due since it was last, so it does not wait behind what came after it.
    let sql = "UPDATE run_leases SET lease_owner = NULL, lease_until = NULL, lease_token = lease_token + 1
               WHERE org_id = $1 AND run_id = $2 AND lease_token = $3 AND lease_until = $4";
    let params = vals![lease.org.as_str(), lease.run.as_str(), lease.token, lease.until];
    if tx.exec(sql, &params).await? == 0 {
        // Its worker was only late, or another server was first.
        return Ok(0);
    }
    let sql = concat!(select_run!(), " AND id = $2");
    let Some(mut run) = only(tx.query(sql, &vals![lease.org.as_str(), lease.run.as_str()]).await?, read_run)? else {
        return Ok(0);
    };
    run.recoveries += 1;
    if run.recoveries >= RUN_RECOVERIES_MAX {
        let sql = "DELETE FROM run_leases WHERE org_id = $1 AND run_id = $2";
        tx.exec(sql, &vals![lease.org.as_str(), lease.run.as_str()]).await?;
        let why = format!("its worker went {} times while it ran", run.recoveries);
        let told = format!("`{}` of the automation `{}`: {why}. It is not taken up again by itself.", run.id, run.automation);
        notify_in(store, tx, &run.org, &run.space, "A run was quarantined", &told).await?;
        end_unworked(store, tx, run, RunStatus::Quarantined, "poison", &why).await?;
    } else {
        update_run(tx, &run).await?;
    }
    Ok(1)
}

async fn announce(store: &Store, tx: &mut Tx, run: &Run) -> Result<(), Error> {
    // An automation that follows another one knows it by its name: its id is another one on each server.
    let sql = "SELECT name FROM automations WHERE org_id = $1 AND id = $2";
    let name = only(tx.query(sql, &vals![run.org.as_str(), run.automation.as_str()]).await?, |row| Columns::of(row).text())?;
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

/// Whether events may have texts of the run. They outlive those of a space that keeps digests only.
async fn keeps_texts(tx: &mut Tx, run: &Run) -> Result<bool, Error> {
    let sql = "SELECT count(*) FROM spaces WHERE org_id = $1 AND id = $2 AND keeps = 'digests'";
    Ok(count(tx.query(sql, &vals![run.org.as_str(), run.space.as_str()]).await?)? == 0)
}

/// What the inputs of a run are sealed for: they open in no other row.
fn inputs_context(run: &RunId) -> String {
    format!("inputs:{run}")
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

fn read_run(row: Row) -> Result<Run, Error> {
    read_run_columns(&mut Columns::of(row))
}

fn read_run_columns(columns: &mut Columns) -> Result<Run, Error> {
    let run: Run = columns.json()?;
    // A worker that takes a run writes the columns alone.
    let (status, started_at) = (columns.parsed(RunStatus::parse)?, columns.time_or_null()?);
    let waiting_for = run.waiting_for.filter(|_| status == RunStatus::Waiting);
    Ok(Run { status, waiting_for, started_at, cancelled_by: columns.parsed_or_null(PrincipalId::parse)?, ..run })
}

fn read_lease(row: Row) -> Result<Lease, Error> {
    read_lease_columns(&mut Columns::of(row))
}

fn read_lease_columns(columns: &mut Columns) -> Result<Lease, Error> {
    Ok(Lease { org: columns.id()?, run: columns.id()?, token: columns.int()?, until: columns.time()? })
}
