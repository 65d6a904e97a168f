//! The leases of runs: a worker claims what is due, a run that waits is parked without one, and the end of its call wakes it.

use crate::Error;
use crate::db::{Columns, Row, Tx, Val, all, vals};
use crate::orgs::places;
use countersign_core::limits::RUN_LEASE_SECONDS;
use countersign_core::ports::runs::Lease;
use countersign_core::run::Run;
use countersign_core::{InvocationId, OrgId, SpaceId, Timestamp};
use std::collections::BTreeMap;

/// Leases runs of one queue. Spaces take turns, so that the backlog of one does not keep the runs of another waiting.
pub(super) async fn claim_in(tx: &mut Tx, queue: &str, limit: u32) -> Result<Vec<Lease>, Error> {
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
pub(super) async fn begin_in(tx: &mut Tx, claimed: &[Lease]) -> Result<(), Error> {
    let mut by_org: BTreeMap<&OrgId, Vec<&str>> = BTreeMap::new();
    for lease in claimed {
        by_org.entry(&lease.org).or_default().push(lease.run.as_str());
    }
    for (org, runs) in by_org {
        let mut params = vals![tx.now(), org.as_str()].to_vec();
        let Some(runs) = places(runs.into_iter(), &mut params) else { continue };
        let sql = format!(
            "UPDATE runs SET status = 'running', started_at = coalesce(started_at, $1)
             WHERE org_id = $2 AND id IN ({runs}) AND status IN ('pending', 'running', 'waiting')"
        );
        tx.exec(&sql, &params).await?;
    }
    Ok(())
}

pub(super) async fn insert_lease(tx: &mut Tx, run: &Run) -> Result<(), Error> {
    let sql = "INSERT INTO run_leases (run_id, org_id, space_id, queue, due_at, lease_token, cancelled) VALUES ($1, $2, $3, $4, $5, 0, 0)";
    let params = vals![run.id.as_str(), run.org.as_str(), run.space.as_str(), run.queue.as_str(), tx.now()];
    tx.exec(sql, &params).await.map(|_| ())
}

pub(super) async fn park_in(tx: &mut Tx, lease: &Lease, due_at: Option<Timestamp>) -> Result<bool, Error> {
    let sql = "UPDATE run_leases SET due_at = $1, lease_until = NULL, lease_owner = NULL, lease_token = lease_token + 1
               WHERE org_id = $2 AND run_id = $3 AND lease_token = $4 AND lease_owner = $5";
    let owner = tx.lease().id().to_string();
    Ok(tx.exec(sql, &vals![due_at, lease.org.as_str(), lease.run.as_str(), lease.token, owner]).await? == 1)
}

/// Has the run that waits for this call go on. Returns whether it did not yet.
pub(crate) async fn wake_in(tx: &mut Tx, org: &OrgId, invocation: &InvocationId) -> Result<bool, Error> {
    let sql = "UPDATE run_leases SET due_at = $1 WHERE org_id = $2 AND due_at IS NULL AND lease_until IS NULL
               AND run_id IN (SELECT id FROM runs WHERE org_id = $2 AND invocation_id = $3)";
    Ok(tx.exec(sql, &vals![tx.now(), org.as_str(), invocation.as_str()]).await? > 0)
}

pub(super) fn read_lease(row: Row) -> Result<Lease, Error> {
    read_lease_columns(&mut Columns::of(row))
}

pub(super) fn read_lease_columns(columns: &mut Columns) -> Result<Lease, Error> {
    Ok(Lease { org: columns.id()?, run: columns.id()?, token: columns.int()?, until: columns.time()? })
}
