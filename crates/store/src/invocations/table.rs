//! The table of invocations: how a row is written, locked and read.

use crate::Error;
use crate::db::{Columns, Lease, Row, Tx, Val, only, to_json, vals};
use countersign_core::invocation::{Deadline, ReceiptRef};
use countersign_core::observe::Observed;
use countersign_core::{Invocation, InvocationId, OrgId, Status};

macro_rules! insert_invocation {
    () => {
        "INSERT INTO invocations (org_id, id, session_id, space_id, action, tier, status, expires_at, sealed_params, body, receipt_id, receipt_seq, run_by, ended_at,
           reward, exec_ms, trace_id, key, subject, observed, action_id)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21)"
    };
}

/// The start of every query whose rows `read_invocation` reads.
macro_rules! select_invocation {
    () => {
        "SELECT body, receipt_id, receipt_seq, expires_at, time_left FROM invocations WHERE org_id = $1"
    };
}
pub(crate) use select_invocation;

/// Repeats the condition of the partial index on open rows: SQLite uses a partial index only if the query spells out its condition.
/// Without it the sweep would read every invocation ever made.
pub(crate) const fn among_open(status: Status) -> &'static str {
    if status.is_final() { "" } else { " AND status IN ('pending', 'approved', 'running', 'in_doubt')" }
}

/// An invocation, prepared to be written to its row.
pub(crate) struct InvocationRow<'a> {
    invocation: &'a Invocation,
    body: String,
    receipt: Option<&'a ReceiptRef>,
    /// The reward of an effect that was tried, in millionths.
    reward: Option<i64>,
    busy: Busy,
}

/// How long the server that writes a row counts as working on it (`run_by`).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Busy {
    WhileItRuns,
    /// Until the server releases it: the call may be in doubt, and the server has claimed it to find out more.
    UntilReleased,
}

impl<'a> InvocationRow<'a> {
    /// For an invocation that has not ended.
    pub(crate) fn open(invocation: &'a Invocation) -> Result<Self, Error> {
        Ok(Self { invocation, body: to_json(invocation)?, receipt: None, reward: None, busy: Busy::WhileItRuns })
    }

    /// For an invocation that begins. `body` was serialised before the write was queued.
    pub(crate) const fn begun(invocation: &'a Invocation, body: String) -> Self {
        Self { invocation, body, receipt: None, reward: None, busy: Busy::WhileItRuns }
    }

    /// For one more attempt by the server that has claimed the invocation.
    pub(crate) fn begun_again(invocation: &'a Invocation) -> Result<Self, Error> {
        Ok(Self { busy: Busy::UntilReleased, ..Self::open(invocation)? })
    }

    /// For an invocation that has ended. `body` was serialised before the write was queued.
    pub(crate) const fn ended(invocation: &'a Invocation, body: String, receipt: &'a ReceiptRef, reward: Option<i64>) -> Self {
        Self { invocation, body, receipt: Some(receipt), reward, busy: Busy::WhileItRuns }
    }

    /// How long an effect that was tried took.
    fn exec_ms(&self) -> Option<i64> {
        let (_, started_at) = self.reward.zip(self.invocation.started_at)?;
        i64::try_from(self.invocation.ended_at?.millis_since(started_at)).ok()
    }

    /// The server that works on the invocation: this one, while the call is approved or running, because the server that takes the last
    /// approval also starts the call; or until this server releases it.
    fn run_by(&self, lease: &Lease) -> Val {
        let is_at_work = matches!(self.invocation.status, Status::Approved | Status::Running) || self.busy == Busy::UntilReleased;
        Val::from(lease.run_by().filter(|_| is_at_work))
    }

    fn into_values(self, sealed_params: Option<Vec<u8>>, lease: &Lease) -> [Val; 21] {
        let (run_by, exec_ms) = (self.run_by(lease), self.exec_ms());
        let Self { invocation, body, receipt, reward, busy: _ } = self;
        vals![
            invocation.org.as_str(),
            invocation.id.as_str(),
            invocation.session.as_str(),
            invocation.space.as_str(),
            invocation.action.as_str(),
            invocation.tier.as_str(),
            invocation.status.as_str(),
            invocation.binding.as_ref().map(|binding| binding.expires_at),
            sealed_params,
            body,
            receipt.map(|receipt| receipt.id.as_str()),
            receipt.map(|receipt| receipt.seq as i64),
            run_by,
            invocation.ended_at,
            reward,
            exec_ms,
            invocation.trace_id.as_str(),
            invocation.idempotency_key.as_deref(),
            invocation.call.claimed.as_ref().and_then(|claimed| claimed.subject.as_deref()),
            invocation.observed.map(Observed::as_str),
            invocation.call.claimed.as_ref().and_then(|claimed| claimed.action_id.as_deref())
        ]
    }

    /// The new values, then the org and the id of the row.
    fn into_changes(self, lease: &Lease) -> Vec<Val> {
        let (run_by, exec_ms) = (self.run_by(lease), self.exec_ms());
        let Self { invocation, body, receipt, reward, busy: _ } = self;
        vals![
            invocation.status.as_str(),
            body,
            receipt.map(|receipt| receipt.id.as_str()),
            receipt.map(|receipt| receipt.seq as i64),
            run_by,
            invocation.ended_at,
            reward,
            exec_ms,
            invocation.org.as_str(),
            invocation.id.as_str()
        ]
        .into()
    }
}

/// Inserts the row, unless there is one already.
pub(crate) async fn insert(tx: &mut Tx, row: InvocationRow<'_>, sealed_params: Option<Vec<u8>>) -> Result<Inserted, Error> {
    let sql = concat!(insert_invocation!(), " ON CONFLICT (org_id, id) DO NOTHING");
    let values = row.into_values(sealed_params, tx.lease());
    let changed = tx.exec(sql, &values).await?;
    Ok(if changed == 1 { Inserted::New } else { Inserted::Already })
}

/// Inserts a row at the end of the batch. The row cannot exist yet, and no other write of the batch can know its id.
pub(crate) fn insert_later(tx: &mut Tx, row: InvocationRow<'_>, sealed_params: Option<Vec<u8>>) {
    let values = row.into_values(sealed_params, tx.lease());
    tx.later(insert_invocation!(), values.into());
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inserted {
    New,
    Already,
}

/// Whether the sealed params are still needed after a change.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SealedParams {
    Keep,
    Shred,
}

/// Writes the row's new state if the row is in status `from`; otherwise changes nothing. Only the server that runs a running call may
/// change it, and not if another server has claimed the call meanwhile. While a server has claimed a call in doubt, only that server may.
///
/// The status is compared as an expression, so that PostgreSQL finds the row by its id. Through the index of open rows it would read
/// every row that was open once and has not been vacuumed yet.
pub(crate) async fn update(tx: &mut Tx, row: InvocationRow<'_>, from: Status, sealed: SealedParams) -> Result<Updated, Error> {
    let sql = match sealed {
        SealedParams::Keep => {
            "UPDATE invocations SET status = $1, body = $2, receipt_id = $3, receipt_seq = $4, run_by = $5, ended_at = $6, reward = $7, exec_ms = $8
             WHERE org_id = $9 AND id = $10 AND status || '' = $11
               AND (status || '' NOT IN ('running', 'in_doubt') OR coalesce(run_by, $12) = $12)"
        }
        SealedParams::Shred => {
            "UPDATE invocations SET status = $1, body = $2, receipt_id = $3, receipt_seq = $4, run_by = $5, ended_at = $6, reward = $7, exec_ms = $8,
               sealed_params = NULL
             WHERE org_id = $9 AND id = $10 AND status || '' = $11
               AND (status || '' NOT IN ('running', 'in_doubt') OR coalesce(run_by, $12) = $12)"
        }
    };
    let lease = tx.lease();
    let mut params = row.into_changes(lease);
    params.extend(vals![from.as_str(), lease.id().as_str()]);
    Ok(if tx.exec(sql, &params).await? == 1 { Updated::Done } else { Updated::NotFound })
}

/// Binds a pending row to other params.
pub(crate) async fn rebind(tx: &mut Tx, row: InvocationRow<'_>, sealed_params: Vec<u8>) -> Result<Updated, Error> {
    let sql = "UPDATE invocations SET sealed_params = $1, status = $2, body = $3, receipt_id = $4, receipt_seq = $5, run_by = $6,
                 ended_at = $7, reward = $8, exec_ms = $9
               WHERE org_id = $10 AND id = $11 AND status || '' = 'pending'";
    let mut params = vec![Val::from(sealed_params)];
    params.extend(row.into_changes(tx.lease()));
    Ok(if tx.exec(sql, &params).await? == 1 { Updated::Done } else { Updated::NotFound })
}

/// Ends a running row at the end of the batch. On PostgreSQL this saves a round trip for every write. If the row is not running any more,
/// or another server has claimed it, the division by zero fails the whole batch; the caller then retries with `update`.
pub(crate) fn update_later(tx: &mut Tx, row: InvocationRow<'_>) {
    let lease = tx.lease();
    let mut params = row.into_changes(lease);
    params.push(lease.id().as_str().into());
    tx.later(
        "WITH ended AS (
           UPDATE invocations SET status = $1, body = $2, receipt_id = $3, receipt_seq = $4, run_by = $5, ended_at = $6, reward = $7,
             exec_ms = $8, sealed_params = NULL
           WHERE org_id = $9 AND id = $10 AND status || '' = 'running' AND coalesce(run_by, $11) = $11 RETURNING id
         ) SELECT 1 / count(*) FROM ended",
        params,
    );
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Updated {
    Done,
    /// There is no such row in that status.
    NotFound,
}

/// Reads the row and locks it until the commit.
pub(crate) async fn lock(tx: &mut Tx, org: &OrgId, invocation: &InvocationId) -> Result<Option<Invocation>, Error> {
    let sql = concat!(select_invocation!(), " AND id = $2");
    let rows = tx.query_locked(sql, &vals![org.as_str(), invocation.as_str()]).await?;
    only(rows, read_invocation)
}

pub(crate) fn read_invocation(row: Row) -> Result<Invocation, Error> {
    let mut columns = Columns::of(row);
    let mut invocation: Invocation = columns.json()?;
    invocation.receipt = columns.receipt()?;
    let expires_at = columns.time_or_null()?.map(Deadline::At);
    let stopped = columns.int_or_null()?.map(|left| Deadline::Stopped { left_ms: u64::try_from(left / 1_000).unwrap_or(0) });
    invocation.deadline = expires_at.or(stopped);
    Ok(invocation)
}
