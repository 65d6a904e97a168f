//! Invocations. A row has real columns for everything that is filtered by, and one JSON body for the rest.
//! Each kind of write (begin, hold, finish) has a file of its own.

mod begin;
mod finish;
mod hold;
mod keys;
mod row;
mod signed;

pub(crate) use finish::finish_in;

use crate::claims::SWEEP_ROWS;
use crate::db::{Columns, Lease, Row, Tx, Val, all, count, only, to_json, vals};
use crate::orgs::not_among;
use crate::{Error, Page, PageRequest, Store, page};
use begin::{begin_again_in, begin_in};
use countersign_core::invocation::{Deadline, REVERT_KEY, ReceiptRef, revert_key};
use countersign_core::limits::DRIFT_ENDS_PER_WRITE;
use countersign_core::observe::Observed;
use countersign_core::ports::Invocations;
use countersign_core::ports::events::EventDraft;
use countersign_core::ports::invocations::{
    Approve, Approved, Begin, BeginAgain, Begun, Finish, Finished, Held, Hold, Reservation, SignedAnswer, SignedIntent,
};
use countersign_core::{ActionId, AutomationId, Future, Invocation, InvocationId, OrgId, SessionId, SpaceId, Status, Tier, Timestamp};
use finish::doubt_in;
use hold::{approve_in, hold_in};
use keys::{SELECT_RESERVATION, read_reservation};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

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

/// Selects invocations. All given conditions must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InvocationFilter {
    pub session: Option<SessionId>,
    pub status: Option<Status>,
    pub action: Option<ActionId>,
    pub tier: Option<Tier>,
    /// The caller's own name for the call.
    pub action_id: Option<String>,
    /// Only calls of runs of this automation.
    pub automation: Option<AutomationId>,
    /// Only calls that a person answered.
    pub answered: bool,
    /// Calls in these spaces are left out.
    pub hidden: BTreeSet<SpaceId>,
}

impl InvocationFilter {
    /// Its part of a WHERE clause; what it compares with is added to `params`.
    fn clauses(&self, params: &mut Vec<Val>) -> String {
        let wanted = [
            ("session_id", self.session.as_ref().map(SessionId::as_str)),
            ("action", self.action.as_ref().map(ActionId::as_str)),
            ("tier", self.tier.map(Tier::as_str)),
            ("status", self.status.map(Status::as_str)),
            ("action_id", self.action_id.as_deref()),
        ];
        let mut clauses = not_among("space_id", &self.hidden, params);
        for (column, value) in wanted {
            if let Some(value) = value {
                params.push(Val::from(value));
                clauses.push_str(&format!(" AND {column} = ${}", params.len()));
            }
        }
        if let Some(automation) = &self.automation {
            params.push(Val::from(automation.as_str()));
            clauses.push_str(&format!(
                " AND EXISTS (SELECT 1 FROM sessions WHERE sessions.org_id = $1 AND sessions.id = invocations.session_id
                  AND sessions.automation_id = ${})",
                params.len()
            ));
        }
        if self.answered {
            clauses.push_str(" AND id IN (SELECT invocation_id FROM approvals WHERE org_id = $1)");
        }
        clauses
    }
}

impl Invocations for Store {
    fn now(&self) -> Future<'_, Result<Timestamp, Error>> {
        Box::pin(self.db.now())
    }

    fn find_invocation<'a>(&'a self, org: &'a OrgId, invocation: &'a InvocationId) -> Future<'a, Result<Option<Invocation>, Error>> {
        Box::pin(async move {
            let rows = self.db.read(concat!(select_invocation!(), " AND id = $2"), &vals![org.as_str(), invocation.as_str()]).await?;
            only(rows, read_invocation)
        })
    }

    fn is_of_another_org<'a>(&'a self, org: &'a OrgId, invocation: &'a InvocationId) -> Future<'a, Result<bool, Error>> {
        Box::pin(async move {
            // Asks for each org, of which there are few: the index finds a row by org and id together, not by id alone.
            let sql = "SELECT 1 FROM orgs WHERE org_id <> $1
                       AND EXISTS (SELECT 1 FROM invocations WHERE invocations.org_id = orgs.org_id AND invocations.id = $2) LIMIT 1";
            Ok(!self.db.read(sql, &vals![org.as_str(), invocation.as_str()]).await?.is_empty())
        })
    }

    fn find_sealed_params<'a>(&'a self, org: &'a OrgId, invocation: &'a InvocationId) -> Future<'a, Result<Option<Vec<u8>>, Error>> {
        Box::pin(async move {
            let sql = "SELECT sealed_params FROM invocations WHERE org_id = $1 AND id = $2 AND sealed_params IS NOT NULL";
            only(self.db.read(sql, &vals![org.as_str(), invocation.as_str()]).await?, |row| Columns::of(row).bytes())
        })
    }

    fn find_reservation<'a>(
        &'a self,
        org: &'a OrgId,
        space: &'a SpaceId,
        action: &'a ActionId,
        key: &'a str,
    ) -> Future<'a, Result<Option<Reservation>, Error>> {
        Box::pin(async move {
            let params = vals![org.as_str(), space.as_str(), action.as_str(), key, self.db.now().await?];
            only(self.db.read(SELECT_RESERVATION, &params).await?, read_reservation)
        })
    }

    fn list_in_status<'a>(
        &'a self,
        org: &'a OrgId,
        status: Status,
        after: Option<&'a InvocationId>,
    ) -> Future<'a, Result<Vec<Invocation>, Error>> {
        Box::pin(async move {
            // Sorted by an expression, so that the database sorts the few open rows instead of walking all ids in order.
            let open = among_open(status);
            let sql = format!("{} AND status = $2{open} AND id || '' > $3 ORDER BY id || '' LIMIT $4", select_invocation!());
            let params = vals![org.as_str(), status.as_str(), after.map_or("", InvocationId::as_str), SWEEP_ROWS];
            all(self.db.read(&sql, &params).await?, read_invocation)
        })
    }

    fn list_expired<'a>(&'a self, org: &'a OrgId, status: Status) -> Future<'a, Result<Vec<Invocation>, Error>> {
        Box::pin(async move {
            let open = among_open(status);
            let sql = format!("{} AND status = $2{open} AND expires_at <= $3 ORDER BY expires_at LIMIT $4", select_invocation!());
            let params = vals![org.as_str(), status.as_str(), self.db.now().await?, SWEEP_ROWS];
            all(self.db.read(&sql, &params).await?, read_invocation)
        })
    }

    fn list_pending_of<'a>(
        &'a self,
        org: &'a OrgId,
        action: &'a ActionId,
        after: Option<&'a InvocationId>,
    ) -> Future<'a, Result<Vec<Invocation>, Error>> {
        Box::pin(async move {
            let open = among_open(Status::Pending);
            let sql = format!("{} AND status = 'pending'{open} AND action = $2 AND id > $3 ORDER BY id LIMIT $4", select_invocation!());
            let after = after.map_or("", InvocationId::as_str);
            all(self.db.read(&sql, &vals![org.as_str(), action.as_str(), after, DRIFT_ENDS_PER_WRITE as i64]).await?, read_invocation)
        })
    }

    fn list_signed_answers<'a>(&'a self, org: &'a OrgId, invocation: &'a InvocationId) -> Future<'a, Result<Vec<SignedAnswer>, Error>> {
        Box::pin(self.signed_answers(org, invocation))
    }

    fn find_signed_intent<'a>(&'a self, org: &'a OrgId, invocation: &'a InvocationId) -> Future<'a, Result<Option<SignedIntent>, Error>> {
        Box::pin(self.signed_intent(org, invocation))
    }

    fn hold(&self, hold: Hold) -> Future<'_, Result<Held, Error>> {
        Box::pin(self.db.write(hold.invocation.org.clone(), move |tx| Box::pin(hold_in(tx, hold))))
    }

    fn approve(&self, approve: Approve) -> Future<'_, Result<Approved, Error>> {
        Box::pin(self.db.write(approve.org.clone(), move |tx| Box::pin(approve_in(tx, approve))))
    }

    fn begin(&self, begin: Begin) -> Future<'_, Result<Begun, Error>> {
        Box::pin(async move {
            // Serialised here and not in the write: callers run in parallel, writes run one at a time.
            let body = to_json(&begin.invocation)?;
            let store = self.clone();
            let org = begin.invocation.org.clone();
            self.db.write(org, move |tx| Box::pin(async move { begin_in(&store, tx, begin, body).await })).await
        })
    }

    fn begin_again(&self, begin: BeginAgain) -> Future<'_, Result<Begun, Error>> {
        let store = self.clone();
        Box::pin(self.db.write(begin.invocation.org.clone(), move |tx| Box::pin(async move { begin_again_in(&store, tx, begin).await })))
    }

    fn doubt(&self, invocation: Invocation, event: EventDraft) -> Future<'_, Result<Finished, Error>> {
        let org = invocation.org.clone();
        Box::pin(self.db.write(org, move |tx| Box::pin(async move { doubt_in(tx, &invocation, &event).await })))
    }

    fn finish(&self, finish: Arc<Finish>) -> Future<'_, Result<Finished, Error>> {
        Box::pin(async move {
            let body = to_json(&finish.invocation)?;
            let org = finish.invocation.org.clone();
            self.db.write(org, move |tx| Box::pin(async move { finish_in(tx, &finish, body).await })).await
        })
    }
}

impl Store {
    /// Lists invocations, newest first.
    pub async fn list_invocations(&self, org: &OrgId, filter: &InvocationFilter, request: &PageRequest) -> Result<Page<Invocation>, Error> {
        let mut params = vals![org.as_str(), request.after.as_deref().unwrap_or("~")].to_vec();
        let mut sql = format!("{} AND id < $2{}", select_invocation!(), filter.clauses(&mut params));
        params.push(Val::from(i64::from(request.limit) + 1));
        sql.push_str(&format!(" ORDER BY id DESC LIMIT ${}", params.len()));
        let rows = self.db.read(&sql, &params).await?;
        page(rows, request.limit, read_invocation, |invocation| invocation.id.to_string())
    }

    /// How many invocations fit the filter.
    pub async fn count_invocations(&self, org: &OrgId, filter: &InvocationFilter) -> Result<u64, Error> {
        let mut params = vals![org.as_str()].to_vec();
        let sql = format!("SELECT count(*) FROM invocations WHERE org_id = $1{}", filter.clauses(&mut params));
        count(self.db.read(&sql, &params).await?).map(|count| count as u64)
    }

    /// Which of these invocations were reverted, and by which invocation. All of them must be of one org.
    pub async fn find_reverts(&self, invocations: &[Invocation]) -> Result<BTreeMap<InvocationId, InvocationId>, Error> {
        let Some(org) = invocations.first().map(|first| first.org.clone()) else {
            return Ok(BTreeMap::new());
        };
        let mut params = vals![org.as_str()].to_vec();
        let mut keys = Vec::new();
        for invocation in invocations.iter().filter(|invocation| invocation.status == Status::Succeeded && invocation.evidence.is_some()) {
            let at = params.len();
            params.extend(vals![invocation.space.as_str(), invocation.action.as_str(), revert_key(&invocation.id)]);
            keys.push(format!("(space_id = ${} AND action = ${} AND key = ${})", at + 1, at + 2, at + 3));
        }
        if keys.is_empty() {
            return Ok(BTreeMap::new());
        }
        let keys = keys.join(" OR ");
        let sql = format!("SELECT key, invocation_id FROM reservations WHERE org_id = $1 AND state = 'done' AND ({keys})");
        let rows = self.db.read(&sql, &params).await?;
        let read = |row| {
            let mut columns = Columns::of(row);
            let reversed = columns.parsed(|text| InvocationId::parse(text.strip_prefix(REVERT_KEY)?).ok())?;
            Ok((reversed, columns.id()?))
        };
        rows.into_iter().map(read).collect()
    }

    /// How many invocations of the org are in this status.
    pub async fn count_in_status(&self, org: &OrgId, status: Status) -> Result<u64, Error> {
        let sql = format!("SELECT count(*) FROM invocations WHERE org_id = $1 AND status = $2{}", among_open(status));
        let rows = self.db.read(&sql, &vals![org.as_str(), status.as_str()]).await?;
        count(rows).map(|count| count as u64)
    }
}

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
