//! Reading invocations. Their rows hold real columns for what is filtered and one JSON body for the rest.

use crate::db::{Columns, Row, Tx, Val, vals};
use crate::{Error, Page, PageRequest, Store, page};
use countersign_core::{ActionId, Invocation, InvocationId, OrgId, SessionId, Status};

macro_rules! insert_invocation {
    () => {
        "INSERT INTO invocations (org_id, id, session_id, space_id, action, status, expires_at, sealed_params, body)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
    };
}

/// Which invocations are wanted; all that is given must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InvocationFilter {
    pub session: Option<SessionId>,
    pub status: Option<Status>,
    pub action: Option<ActionId>,
}

impl Store {
    pub async fn find_invocation(&self, org: &OrgId, invocation: &InvocationId) -> Result<Option<Invocation>, Error> {
        let rows =
            self.db.read("SELECT body FROM invocations WHERE org_id = $1 AND id = $2", &vals![org.as_str(), invocation.as_str()]).await?;
        rows.into_iter().next().map(read_invocation).transpose()
    }

    /// Newest first.
    pub async fn list_invocations(&self, org: &OrgId, filter: &InvocationFilter, request: &PageRequest) -> Result<Page<Invocation>, Error> {
        let mut sql = String::from("SELECT body FROM invocations WHERE org_id = $1 AND id < $2");
        let mut params = vals![org.as_str(), request.after.as_deref().unwrap_or("~")].to_vec();
        let mut also = |column: &str, value: Option<&str>| {
            if let Some(value) = value {
                params.push(Val::from(value));
                sql.push_str(&format!(" AND {column} = ${}", params.len()));
            }
        };
        also("session_id", filter.session.as_ref().map(SessionId::as_str));
        also("action", filter.action.as_ref().map(ActionId::as_str));
        also("status", filter.status.map(Status::as_str));
        params.push(Val::from(i64::from(request.limit) + 1));
        sql.push_str(&format!(" ORDER BY id DESC LIMIT ${}", params.len()));
        let rows = self.db.read(&sql, &params).await?;
        let invocations = rows.into_iter().map(read_invocation).collect::<Result<Vec<_>, _>>()?;
        Ok(page(invocations, request.limit, |invocation| invocation.id.to_string()))
    }

    /// How many invocations of the org wait for a person.
    pub async fn count_pending(&self, org: &OrgId) -> Result<u64, Error> {
        let sql = format!("SELECT count(*) FROM invocations WHERE org_id = $1 AND status = 'pending'{}", among_open(Status::Pending));
        let rows = self.db.read(&sql, &vals![org.as_str()]).await?;
        rows.into_iter().next().map_or(Ok(0), |row| Columns::of(row).int()).map(|count| count as u64)
    }
}

/// Says in the index's own words that an open status is open: SQLite uses a partial index only when its condition is spelled out.
/// Without it the sweep reads every invocation there ever was.
pub(crate) const fn among_open(status: Status) -> &'static str {
    if status.is_final() { "" } else { " AND status IN ('pending', 'approved', 'running', 'in_doubt')" }
}

/// Inserts the row, unless there is one already.
pub(crate) async fn insert(tx: &mut Tx, invocation: &Invocation, sealed_params: Option<Vec<u8>>) -> Result<Inserted, Error> {
    let sql = concat!(insert_invocation!(), " ON CONFLICT (org_id, id) DO NOTHING");
    let changed = tx.exec(sql, &to_row(invocation, sealed_params)?).await?;
    Ok(if changed == 1 { Inserted::New } else { Inserted::Already })
}

/// Inserts a row that cannot be there yet, at the end of the batch: nobody in it could know the id.
pub(crate) fn insert_later(tx: &mut Tx, invocation: &Invocation) -> Result<(), Error> {
    tx.later(insert_invocation!(), to_row(invocation, None)?.into());
    Ok(())
}

fn to_row(invocation: &Invocation, sealed_params: Option<Vec<u8>>) -> Result<[Val; 9], Error> {
    Ok(vals![
        invocation.org.as_str(),
        invocation.id.as_str(),
        invocation.session.as_str(),
        invocation.space.as_str(),
        invocation.action.as_str(),
        invocation.status.as_str(),
        invocation.binding.as_ref().map(|binding| binding.expires_at),
        sealed_params,
        to_body(invocation)?
    ])
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

/// Writes the row's new state, if it is in this status; else nothing happens.
///
/// The status is compared as an expression, so that PostgreSQL finds the row by its id: through the index of open rows it would
/// walk past every row that was open once and is not yet vacuumed away.
pub(crate) async fn update(tx: &mut Tx, invocation: &Invocation, from: Status, sealed: SealedParams) -> Result<Updated, Error> {
    let sql = match sealed {
        SealedParams::Keep => "UPDATE invocations SET status = $1, body = $2 WHERE org_id = $3 AND id = $4 AND status || '' = $5",
        SealedParams::Shred => {
            "UPDATE invocations SET status = $1, body = $2, sealed_params = NULL WHERE org_id = $3 AND id = $4 AND status || '' = $5"
        }
    };
    let params = vals![invocation.status.as_str(), to_body(invocation)?, invocation.org.as_str(), invocation.id.as_str(), from.as_str()];
    Ok(if tx.exec(sql, &params).await? == 1 { Updated::Done } else { Updated::NotFound })
}

/// Ends a running row at the end of the batch, on PostgreSQL: a round trip saved for every write. If the row is not running after
/// all, the division fails and the batch with it; whoever is told so tries again with `update`.
pub(crate) fn update_later(tx: &mut Tx, invocation: &Invocation) -> Result<(), Error> {
    tx.later(
        "WITH ended AS (
           UPDATE invocations SET status = $1, body = $2, sealed_params = NULL
           WHERE org_id = $3 AND id = $4 AND status || '' = 'running' RETURNING id
         ) SELECT 1 / count(*) FROM ended",
        vals![invocation.status.as_str(), to_body(invocation)?, invocation.org.as_str(), invocation.id.as_str()].into(),
    );
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Updated {
    Done,
    /// There is no such row in that status.
    NotFound,
}

/// The row, locked until the commit.
pub(crate) async fn lock(tx: &mut Tx, org: &OrgId, invocation: &InvocationId) -> Result<Option<Invocation>, Error> {
    let rows =
        tx.query_locked("SELECT body FROM invocations WHERE org_id = $1 AND id = $2", &vals![org.as_str(), invocation.as_str()]).await?;
    rows.into_iter().next().map(read_invocation).transpose()
}

pub(crate) fn read_invocation(row: Row) -> Result<Invocation, Error> {
    let body = Columns::of(row).text()?;
    serde_json::from_str(&body).map_err(|error| Error::Corrupt { message: format!("a stored invocation does not read: {error}") })
}

fn to_body(invocation: &Invocation) -> Result<String, Error> {
    serde_json::to_string(invocation).map_err(|error| Error::Corrupt { message: error.to_string() })
}
