//! Servers at work on the same database. Each renews its lease; what one without a lease was running is left behind (see `claims`).

use crate::db::{Columns, Row, all, vals};
use crate::{Error, Store};
use countersign_core::limits::{LEASE_SECONDS, SERVER_REMEMBERED_SECONDS};
use countersign_core::{ServerId, Timestamp};

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

    /// Tells the others that this server lives. One that they took for gone comes back with it; what they took up stays theirs.
    pub async fn renew_lease(&self) -> Result<(), Error> {
        let id = self.server_id().clone();
        let renewed = self.db.write_unscoped(move |tx| {
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
        self.db.write_unscoped(move |tx| Box::pin(async move { tx.exec(sql, &vals![id.as_str()]).await.map(|_| ()) })).await
    }

    /// Those that live and those that were there lately, the oldest first.
    pub async fn list_servers(&self) -> Result<Vec<Server>, Error> {
        let now = self.db.now().await?;
        let sql = "/* every org: a server works for all of them */ SELECT id, started_at, seen_at FROM servers ORDER BY started_at, id";
        all(self.db.read(sql, &[]).await?, |row| read_server(row, now))
    }

    /// Removes the traces of servers that were seen last long ago.
    pub async fn forget_servers(&self) -> Result<u64, Error> {
        let sql = "/* every org: a server works for all of them */ DELETE FROM servers WHERE seen_at <= $1";
        self.db
            .write_unscoped(move |tx| {
                Box::pin(async move { tx.exec(sql, &vals![tx.now().minus_seconds(SERVER_REMEMBERED_SECONDS)]).await })
            })
            .await
    }
}

/// A server that was seen last at this time, or before it, is gone.
pub(crate) const fn gone_before(now: Timestamp) -> Timestamp {
    now.minus_seconds(LEASE_SECONDS)
}

fn read_server(row: Row, now: Timestamp) -> Result<Server, Error> {
    let mut columns = Columns::of(row);
    let id = columns.id()?;
    let (started_at, seen_at) = (columns.time()?, columns.time()?);
    Ok(Server { id, started_at, seen_at, is_gone: seen_at <= gone_before(now) })
}
