//! Lines: which callers wait for a result, and which have left. A line of a server that is gone counts as left.

use crate::db::lease::gone_before;
use crate::db::{Columns, Lease, Row, Tx, Val, only, vals};
use crate::{Error, Store};
use countersign_core::limits::APPROVAL_UNATTENDED_SECONDS;
use countersign_core::ports::Lines;
use countersign_core::ports::lines::{AskedAgain, Joined, NewLine};
use countersign_core::{Digest, Future, InvocationId, OrgId, Timestamp};

/// What makes a row of `lines` one that was left, after `$1` (the org). `$2` is this server, `$3` the time before which a silent server is
/// gone, `$4` the servers that this one replaces.
macro_rules! is_left {
    () => {
        "ticket IS NULL AND (left_at IS NOT NULL OR server_id <> $2 AND NOT EXISTS (
           SELECT 1 FROM servers WHERE servers.id = lines.server_id AND servers.seen_at > $3 AND $4 NOT LIKE '%' || servers.id || '%'
         ))"
    };
}

const SELECT_LEFT: &str = concat!("SELECT invocation_id FROM lines WHERE org_id = $1 AND ", is_left!(), " AND invocation_id = $5");

/// What a caller who asks again may join: what was left; what has a ticket that nobody has shown; and what its own line (`$5`) has already,
/// because an earlier try of the same write was kept after all.
macro_rules! may_be_joined {
    () => {
        concat!("(", is_left!(), " OR ticket IS NOT NULL OR line = $5)")
    };
}

/// The call that a caller who asks again joins, its own first; or null, if there is only one on the line of another server that has not been
/// heard of since `$6`. At the time `$9`, what nobody answered in time has expired even if that is not written yet, and a result that was kept
/// long enough is nobody's any more: since its caller left or, where nobody could write that down, since it ended (`$10`).
const SELECT_SAME: &str = concat!(
    // Named here too, so that it is the first parameter.
    "SELECT CASE WHEN org_id = $1 AND ",
    may_be_joined!(),
    " THEN invocation_id END FROM lines WHERE org_id = $1 AND (",
    may_be_joined!(),
    " OR server_id <> $2 AND NOT EXISTS (SELECT 1 FROM servers WHERE servers.id = lines.server_id AND servers.seen_at > $6)
     ) AND session_id = $7 AND identity = $8 AND EXISTS (
       SELECT 1 FROM invocations WHERE invocations.org_id = lines.org_id AND invocations.id = lines.invocation_id AND (
         invocations.status IN ('running', 'in_doubt')
         OR invocations.status IN ('pending', 'approved') AND (invocations.expires_at IS NULL OR invocations.expires_at > $9)
         OR invocations.status NOT IN ('pending', 'approved', 'running', 'in_doubt')
           AND (lines.expires_at > $9 OR lines.left_at IS NULL AND invocations.ended_at > $10)
       )
     ) ORDER BY CASE WHEN line = $5 THEN 0 WHEN ",
    may_be_joined!(),
    " THEN 1 ELSE 2 END, invocation_id LIMIT 1"
);

/// Opens the line of a call. An earlier try of the same write may have been kept after all.
const OPEN: &str = "INSERT INTO lines (org_id, invocation_id, session_id, identity, line, server_id, ticket, left_at, expires_at)
                    VALUES ($1, $2, $3, $4, $5, $6, NULL, NULL, $7) ON CONFLICT (org_id, invocation_id) DO NOTHING";

/// The most rows forgotten in one write.
const FORGOTTEN_AT_ONCE: i64 = 1_000;

impl Lines for Store {
    fn has_left<'a>(&'a self, org: &'a OrgId, invocation: &'a InvocationId) -> Future<'a, Result<bool, Error>> {
        Box::pin(async move {
            let now = self.db.now().await?;
            let lease = self.db.lease();
            let params = vals![org.as_str(), lease.id().as_str(), gone_before(now), lease.earlier(), invocation.as_str()];
            Ok(!self.db.read(SELECT_LEFT, &params).await?.is_empty())
        })
    }

    fn join_left(&self, again: AskedAgain) -> Future<'_, Result<Joined, Error>> {
        Box::pin(async move {
            let now = self.db.now().await?;
            let since = again.since.unwrap_or(now);
            // Nearly always nobody has left, and that takes no write to find out.
            match only(self.db.read(SELECT_SAME, &of_same(&again, self.db.lease(), now, since)).await?, read_joined)? {
                None => return Ok(Joined::Nothing),
                Some(None) => return Ok(Joined::NotKnown { since }),
                Some(Some(_)) => {}
            }
            self.db.write(again.org.clone(), move |tx| Box::pin(async move { join_in(tx, &again, since).await })).await
        })
    }

    fn leave(&self, left: NewLine) -> Future<'_, Result<(), Error>> {
        Box::pin(self.db.write(left.org.clone(), move |tx| {
            Box::pin(async move {
                let sql = "INSERT INTO lines (org_id, invocation_id, session_id, identity, line, server_id, ticket, left_at, expires_at)
                           VALUES ($1, $2, $3, $4, $5, NULL, NULL, $6, $7)
                           ON CONFLICT (org_id, invocation_id) DO UPDATE SET server_id = NULL, ticket = NULL, left_at = excluded.left_at,
                             expires_at = excluded.expires_at WHERE lines.line = excluded.line";
                let [org, invocation, session, identity, line] = named(&left);
                let now = tx.now();
                let params = [org, invocation, session, identity, line, now.into(), now.plus_seconds(left.kept_seconds).into()];
                tx.exec(sql, &params).await.map(|_| ())
            })
        }))
    }

    fn hang_up<'a>(&'a self, org: &'a OrgId, invocation: &'a InvocationId, line: &'a str) -> Future<'a, Result<(), Error>> {
        let (org, invocation, line) = (org.clone(), invocation.clone(), line.to_owned());
        Box::pin(self.db.write(org.clone(), move |tx| {
            Box::pin(async move {
                // Every write that was delivered ends with this, so it is put off to the end of the batch, where it needs no savepoint.
                let sql = "DELETE FROM lines WHERE org_id = $1 AND invocation_id = $2 AND line = $3 AND ticket IS NULL";
                tx.later(sql, vals![org.as_str(), invocation.as_str(), line.as_str()].into());
                Ok(())
            })
        }))
    }

    fn give_ticket(&self, ticketed: NewLine, ticket: Digest) -> Future<'_, Result<(), Error>> {
        Box::pin(self.db.write(ticketed.org.clone(), move |tx| {
            Box::pin(async move {
                let sql = "UPDATE lines SET ticket = $1, server_id = NULL, left_at = NULL, expires_at = $2
                           WHERE org_id = $3 AND invocation_id = $4 AND line = $5";
                let expires_at = tx.now().plus_seconds(ticketed.kept_seconds);
                let [org, invocation, _, _, line] = named(&ticketed);
                tx.exec(sql, &[ticket.to_string().into(), expires_at.into(), org, invocation, line]).await.map(|_| ())
            })
        }))
    }

    fn take_ticket<'a>(&'a self, org: &'a OrgId, ticket: Digest, line: &'a str) -> Future<'a, Result<Option<InvocationId>, Error>> {
        let (org, line) = (org.clone(), line.to_owned());
        Box::pin(self.db.write(org.clone(), move |tx| {
            Box::pin(async move {
                let sql = "UPDATE lines SET ticket = NULL, line = $1, server_id = $2
                           WHERE org_id = $3 AND ticket = $4 AND expires_at > $5 RETURNING invocation_id";
                let server = tx.lease().id().as_str().to_owned();
                let rows = tx.query(sql, &vals![line.as_str(), server, org.as_str(), ticket.to_string(), tx.now()]).await?;
                if let Some(taken) = only(rows, read_invocation_id)? {
                    return Ok(Some(taken));
                }
                // An earlier try of this very write may have been kept after all.
                let sql = "SELECT invocation_id FROM lines WHERE org_id = $1 AND line = $2";
                only(tx.query(sql, &vals![org.as_str(), line.as_str()]).await?, read_invocation_id)
            })
        }))
    }
}

impl Store {
    /// Removes lines that nobody came back to, of calls that have ended, a bounded number at a time.
    pub async fn forget_lines(&self, org: &OrgId) -> Result<u64, Error> {
        let org = org.clone();
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    tx.exec(
                        "DELETE FROM lines WHERE org_id = $1 AND invocation_id IN (
                           SELECT lines.invocation_id FROM lines
                           JOIN invocations ON invocations.org_id = lines.org_id AND invocations.id = lines.invocation_id
                           WHERE lines.org_id = $1 AND lines.expires_at <= $2
                             AND invocations.status NOT IN ('pending', 'approved', 'running', 'in_doubt')
                             AND (lines.left_at IS NOT NULL OR invocations.ended_at <= $3)
                           LIMIT $4
                         )",
                        // Where nobody could write down that the caller left, its result is kept from its end on.
                        &vals![org.as_str(), tx.now(), tx.now().minus_seconds(APPROVAL_UNATTENDED_SECONDS), FORGOTTEN_AT_ONCE],
                    )
                    .await
                })
            })
            .await
    }
}

/// Opens the line of a call that is held. Part of the write that holds it.
pub(crate) async fn open_in(tx: &mut Tx, line: &NewLine) -> Result<(), Error> {
    let params = opened(tx, line);
    tx.exec(OPEN, &params).await.map(|_| ())
}

/// Opens the line of a call that begins without having been held, at the end of the batch: nobody can have left it or ask for it before.
pub(crate) fn open_later(tx: &mut Tx, line: &NewLine) {
    let params = opened(tx, line);
    tx.later(OPEN, params.into());
}

/// Whether this line was opened: then an earlier try of the write that opens it was kept.
pub(crate) async fn is_open_in(tx: &mut Tx, line: &NewLine) -> Result<bool, Error> {
    let sql = "SELECT 1 FROM lines WHERE org_id = $1 AND invocation_id = $2 AND line = $3";
    Ok(!tx.query(sql, &vals![line.org.as_str(), line.invocation.as_str(), line.line.as_str()]).await?.is_empty())
}

/// Whether the caller has left. Part of the write that begins the call, so that what was left does not begin.
pub(crate) async fn has_left_in(tx: &mut Tx, org: &OrgId, invocation: &InvocationId) -> Result<bool, Error> {
    let lease = tx.lease();
    let params = vals![org.as_str(), lease.id().as_str(), gone_before(tx.now()), lease.earlier(), invocation.as_str()];
    Ok(!tx.query(SELECT_LEFT, &params).await?.is_empty())
}

async fn join_in(tx: &mut Tx, again: &AskedAgain, since: Timestamp) -> Result<Joined, Error> {
    let server = tx.lease().id().as_str().to_owned();
    let params = of_same(again, tx.lease(), tx.now(), since);
    let found = match only(tx.query_locked(SELECT_SAME, &params).await?, read_joined)? {
        None => return Ok(Joined::Nothing),
        Some(None) => return Ok(Joined::NotKnown { since }),
        Some(Some(found)) => found,
    };
    let sql = "UPDATE lines SET line = $1, server_id = $2, ticket = NULL, left_at = NULL WHERE org_id = $3 AND invocation_id = $4";
    tx.exec(sql, &vals![again.line.as_str(), server, again.org.as_str(), found.as_str()]).await?;
    Ok(Joined::Call(found))
}

fn of_same(again: &AskedAgain, lease: &Lease, now: Timestamp, since: Timestamp) -> [Val; 10] {
    let (org, session, identity, line) = (again.org.as_str(), again.session.as_str(), again.identity.to_string(), again.line.as_str());
    let ended_after = now.minus_seconds(again.kept_seconds);
    vals![org, lease.id().as_str(), gone_before(now), lease.earlier(), line, since, session, identity, now, ended_after]
}

fn read_joined(row: Row) -> Result<Option<InvocationId>, Error> {
    Columns::of(row).id_or_null()
}

fn opened(tx: &Tx, line: &NewLine) -> [Val; 7] {
    let [org, invocation, session, identity, name] = named(line);
    let server = tx.lease().id().as_str().to_owned();
    [org, invocation, session, identity, name, server.into(), tx.now().plus_seconds(line.kept_seconds).into()]
}

fn named(line: &NewLine) -> [Val; 5] {
    vals![line.org.as_str(), line.invocation.as_str(), line.session.as_str(), line.identity.to_string(), line.line.as_str()]
}

fn read_invocation_id(row: Row) -> Result<InvocationId, Error> {
    Columns::of(row).id()
}
