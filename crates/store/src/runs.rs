//! Runs of automations, and the leases on them. A lease has a token that grows with every lease of its run. Every write of a run begins with
//! its lease, so that a worker which lost it changes nothing; and no write changes a run that has ended, but for the one that takes out its texts.
//! Each kind of write (start, lease, save, end, free, mend) has a file of its own; `announce` has what events say of a run, and `texts` what of it
//! is sealed or forgotten.

pub(crate) mod start;
pub(crate) mod leases;
mod save;
pub(crate) mod end;
mod free;
mod mend;
pub(crate) mod announce;
mod texts;
mod table;

use crate::budgets::{reserve_in, settle};
use crate::db::{Columns, Row, Val, all, count, only, vals};
use crate::firings::fire_in;
use crate::gatherings::{fire_gathered_in, gather_in};
use crate::invocations::table::{read_invocation, select_invocation};
use crate::limits::RUN_FORGOTTEN_SECONDS;
use crate::orgs::{not_among, places};
use crate::sweep::SWEEP_ROWS;
use crate::{Error, Page, PageRequest, Store, page};
use countersign_core::limits::RUN_LEASE_SECONDS;
use countersign_core::ports::Runs;
use countersign_core::ports::runs::{
    Fired, FiredGathering, Gathered, GatheredEvent, Gathering, KeptLease, Lease, NewFiring, ReserveBudget, Reserved, SavedRun,
};
use countersign_core::run::{Run, RunStatus, StepRecord, TriggerPayload};
use countersign_core::{Amount, AutomationId, Future, Invocation, InvocationId, OrgId, PrincipalId, RunId, SessionId, SpaceId, Timestamp};
use end::cancel_in;
use leases::{begin_in, claim_in, park_in, read_lease, read_lease_columns};
use save::save_in;
use serde_json::Value;
use std::collections::BTreeSet;
use table::{read_run, read_run_columns, select_run};

/// Calls of which is asked at once whether a run waits for them.
const ASKED_AT_ONCE: usize = 32;

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

    fn find_trigger_payload<'a>(&'a self, org: &'a OrgId, run: &'a RunId) -> Future<'a, Result<Option<TriggerPayload>, Error>> {
        Box::pin(self.read_trigger_payload(org, run))
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

    fn save_run_along(&self, saved: SavedRun) -> Future<'static, Result<bool, Error>> {
        let store = self.clone();
        self.db.write_along(saved.lease.org.clone(), move |tx| Box::pin(async move { save_in(&store, tx, saved).await }))
    }

    fn reserve_budget(&self, reserve: ReserveBudget) -> Future<'_, Result<Reserved, Error>> {
        Box::pin(self.db.write(reserve.lease.org.clone(), move |tx| Box::pin(async move { reserve_in(tx, reserve).await })))
    }

    fn settle_budget<'a>(&'a self, org: &'a OrgId, run: &'a RunId, key: &'a str, spent: Amount) -> Future<'a, Result<(), Error>> {
        Box::pin(settle(self, org, run, key, spent))
    }

    fn mean_cost<'a>(&'a self, org: &'a OrgId, action: &'a str) -> Future<'a, Result<Option<Amount>, Error>> {
        Box::pin(self.read_mean_cost(org, action))
    }

    fn measured_p95_ms<'a>(&'a self, org: &'a OrgId, action: &'a str) -> Future<'a, Result<Option<u64>, Error>> {
        Box::pin(self.read_p95_ms(org, action))
    }

    fn is_waited_for<'a>(&'a self, org: &'a OrgId, invocations: &'a [InvocationId]) -> Future<'a, Result<bool, Error>> {
        Box::pin(async move {
            for some in invocations.chunks(ASKED_AT_ONCE) {
                // Always as many, so that it is always the same statement.
                let padded = some.iter().cycle().take(ASKED_AT_ONCE);
                let mut params = vals![org.as_str()].to_vec();
                let Some(among) = places(padded.map(InvocationId::as_str), &mut params) else { continue };
                let sql = format!("SELECT 1 FROM runs WHERE org_id = $1 AND invocation_id IN ({among}) LIMIT 1");
                if !self.db.read(&sql, &params).await?.is_empty() {
                    return Ok(true);
                }
            }
            Ok(false)
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

    fn free_earlier_runs(&self) -> Future<'_, Result<u64, Error>> {
        Box::pin(async move {
            let sql = "/* every org: a worker works for all of them */ SELECT org_id, run_id, lease_token, lease_until FROM run_leases
                       WHERE lease_until IS NOT NULL AND $1 LIKE '%' || lease_owner || '%'";
            let left = all(self.db.read(sql, &vals![self.db.lease().earlier()]).await?, read_lease)?;
            self.free(left).await
        })
    }

    fn wake_forgotten_runs(&self) -> Future<'_, Result<u64, Error>> {
        Box::pin(async move {
            let sql = "/* every org: a worker works for all of them */ SELECT runs.org_id, runs.automation_id, runs.id, runs.invocation_id FROM runs
                       JOIN run_leases ON run_leases.org_id = runs.org_id AND run_leases.run_id = runs.id AND run_leases.due_at IS NULL AND run_leases.lease_until IS NULL
                       JOIN invocations ON invocations.org_id = runs.org_id AND invocations.id = runs.invocation_id
                       AND invocations.status NOT IN ('pending', 'approved', 'running', 'in_doubt') AND invocations.ended_at <= $1
                       WHERE runs.status = 'waiting' LIMIT $2";
            let long_ago = self.db.now().await?.minus_seconds(RUN_FORGOTTEN_SECONDS);
            let forgotten = all(self.db.read(sql, &vals![long_ago, SWEEP_ROWS]).await?, |row| {
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

    fn find_made<'a>(&'a self, org: &'a OrgId, session: &'a SessionId, key: &'a str) -> Future<'a, Result<Option<Invocation>, Error>> {
        Box::pin(async move {
            let sql = concat!(select_invocation!(), " AND session_id = $2 AND key = $3 AND status = 'succeeded' LIMIT 1");
            only(self.db.read(sql, &vals![org.as_str(), session.as_str(), key]).await?, read_invocation)
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
}
