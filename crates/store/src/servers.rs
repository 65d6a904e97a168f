//! Servers at work on the same database. Each renews its lease; what one without a lease was running is left behind, and whoever
//! claims it first finds out what became of it.

use crate::db::{Columns, Row, Tx, vals};
use crate::invocations::{InvocationRow, SealedParams, among_open, lock, read_invocation, select_invocation, update};
use crate::{Error, Store};
use countersign_core::limits::{LEASE_SECONDS, SERVER_REMEMBERED_SECONDS};
use countersign_core::{Invocation, InvocationId, OrgId, ServerId, Status, Timestamp};

/// Calls and batches a background loop takes at a time; it comes back for more.
pub(crate) const SWEEP_ROWS: i64 = 100;

/// A server that works on the database, or did lately.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    pub id: ServerId,
    pub started_at: Timestamp,
    pub seen_at: Timestamp,
    /// Its lease has run out: what it was running is taken up by others.
    pub is_gone: bool,
}

impl Store {
    /// Who this process is to the other servers; drawn when the store was opened.
    pub fn server_id(&self) -> &ServerId {
        self.db.lease().id()
    }

    /// This process goes on where another one was: that one is gone, whatever its lease says.
    pub fn succeed(&self, earlier: ServerId) {
        self.db.lease().succeed(earlier);
    }

    /// Begins this server's lease; whether no other server works on the database, whose leases then end.
    pub(crate) async fn join_servers(&self) -> Result<bool, Error> {
        let is_alone = self.db.is_alone().await?;
        self.renew_lease().await?;
        Ok(is_alone)
    }

    /// Tells the others that this server lives. One that they took for gone comes back with it; what they took up stays theirs.
    pub async fn renew_lease(&self) -> Result<(), Error> {
        let id = self.server_id().clone();
        let renewed = self.db.write(move |tx| {
            Box::pin(async move {
                let now = tx.now();
                let sql =
                    "/* every org: a server works for all of them */ INSERT INTO servers (id, started_at, seen_at) VALUES ($1, $2, $2)
                           ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at";
                tx.exec(sql, &vals![id.as_str(), now]).await.map(|_| now)
            })
        });
        self.db.lease().renewed(renewed.await?);
        Ok(())
    }

    /// Ends the lease of a server that has stopped and runs nothing any more.
    pub async fn end_lease(&self) -> Result<(), Error> {
        let id = self.server_id().clone();
        self.db.lease().ended();
        let sql = "/* every org: a server works for all of them */ DELETE FROM servers WHERE id = $1";
        self.db.write(move |tx| Box::pin(async move { tx.exec(sql, &vals![id.as_str()]).await.map(|_| ()) })).await
    }

    /// Those that live and those that were there lately, the oldest first.
    pub async fn list_servers(&self) -> Result<Vec<Server>, Error> {
        let now = self.db.now().await?;
        let sql = "/* every org: a server works for all of them */ SELECT id, started_at, seen_at FROM servers ORDER BY started_at, id";
        self.db.read(sql, &[]).await?.into_iter().map(|row| read_server(row, now)).collect()
    }

    /// Removes the traces of servers that were seen last long ago.
    pub async fn forget_servers(&self) -> Result<u64, Error> {
        let sql = "/* every org: a server works for all of them */ DELETE FROM servers WHERE seen_at <= $1";
        self.db
            .write(move |tx| Box::pin(async move { tx.exec(sql, &vals![tx.now().minus_seconds(SERVER_REMEMBERED_SECONDS)]).await }))
            .await
    }

    /// Running calls of servers that are gone, and this one's own, oldest first.
    pub(crate) async fn left_behind(&self, org: &OrgId, after: Option<&InvocationId>) -> Result<Vec<Invocation>, Error> {
        let now = self.db.now().await?;
        let sql = format!(
            "{} AND status = 'running'{} AND run_by IS NOT NULL AND (run_by = $2 OR NOT EXISTS (
               SELECT 1 FROM servers WHERE servers.id = invocations.run_by AND servers.seen_at > $3 AND servers.id <> $4
             )) AND id || '' > $5 ORDER BY id || '' LIMIT $6",
            select_invocation!(),
            among_open(Status::Running)
        );
        let lease = self.db.lease();
        let params =
            vals![org.as_str(), lease.id().as_str(), gone_before(now), lease.earlier(), after.map_or("", InvocationId::as_str), SWEEP_ROWS];
        self.db.read(&sql, &params).await?.into_iter().map(read_invocation).collect()
    }

    /// Takes a call up that no live server is busy with, if it is still in this status. Whether it is this server's now.
    pub(crate) async fn claim_invocation(&self, org: &OrgId, invocation: &InvocationId, status: Status) -> Result<bool, Error> {
        let (org, invocation) = (org.clone(), invocation.clone());
        self.db.write(move |tx| Box::pin(async move { claim_in(tx, &org, &invocation, status).await })).await
    }

    /// Lets go of a call in doubt that nobody could tell anything about.
    pub(crate) async fn release_invocation(&self, org: &OrgId, invocation: &InvocationId) -> Result<(), Error> {
        let (org, invocation) = (org.clone(), invocation.clone());
        self.db
            .write(move |tx| {
                Box::pin(async move {
                    let sql = "UPDATE invocations SET run_by = NULL
                               WHERE org_id = $1 AND id = $2 AND status || '' = 'in_doubt' AND run_by = $3";
                    let params = vals![org.as_str(), invocation.as_str(), tx.lease().id().as_str()];
                    tx.exec(sql, &params).await.map(|_| ())
                })
            })
            .await
    }
}

async fn claim_in(tx: &mut Tx, org: &OrgId, invocation: &InvocationId, status: Status) -> Result<bool, Error> {
    // One that others may take for gone any moment takes nothing from them.
    if tx.is_fenced() {
        return Ok(false);
    }
    // Whoever waited for the row's lock looks again at who has it: of two servers, one finds the other's id there.
    let sql = "UPDATE invocations SET run_by = $1
               WHERE org_id = $2 AND id = $3 AND status || '' = $4 AND (run_by IS NULL OR run_by = $5 OR NOT EXISTS (
                 SELECT 1 FROM servers WHERE servers.id = invocations.run_by AND servers.seen_at > $6 AND servers.id <> $7
               ))";
    let lease = tx.lease();
    let params = vals![
        lease.run_by(),
        org.as_str(),
        invocation.as_str(),
        status.as_str(),
        lease.id().as_str(),
        gone_before(tx.now()),
        lease.earlier()
    ];
    let is_ours = tx.exec(sql, &params).await? == 1;
    if is_ours && status == Status::Approved {
        note_taken_up(tx, org, invocation).await?;
    }
    Ok(is_ours)
}

/// Keeps the first time: whoever could not start it either tries again and again.
async fn note_taken_up(tx: &mut Tx, org: &OrgId, invocation: &InvocationId) -> Result<(), Error> {
    let Some(mut approved) = lock(tx, org, invocation).await?.filter(|approved| approved.taken_up_at.is_none()) else {
        return Ok(());
    };
    approved.taken_up_at = Some(tx.now());
    update(tx, InvocationRow::open(&approved)?, Status::Approved, SealedParams::Keep).await.map(|_| ())
}

/// A server that was seen last at this time, or before it, is gone.
pub(crate) const fn gone_before(now: Timestamp) -> Timestamp {
    now.minus_seconds(LEASE_SECONDS)
}

fn read_server(row: Row, now: Timestamp) -> Result<Server, Error> {
    let mut columns = Columns::of(row);
    let id = columns.parsed(|text| ServerId::parse(text).ok())?;
    let (started_at, seen_at) = (columns.time()?, columns.time()?);
    Ok(Server { id, started_at, seen_at, is_gone: seen_at <= gone_before(now) })
}
