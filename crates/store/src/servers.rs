//! The servers that work on the same database. Each renews its lease; calls of a server without a lease are left behind (see `claims`).

use crate::db::lease::gone_before;
use crate::db::{Columns, Row, all, vals};
use crate::limits::SERVER_REMEMBERED_SECONDS;
use crate::{Error, Store};
use countersign_core::{ServerId, Timestamp};

/// A server that works on the database now, or did recently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    pub id: ServerId,
    pub started_at: Timestamp,
    pub seen_at: Timestamp,
    /// Its lease has run out, so other servers may claim the calls it was running.
    pub is_gone: bool,
}

impl Store {
    /// The id of this process among the servers; drawn when the store was opened.
    pub fn server_id(&self) -> &ServerId {
        self.db.lease().id()
    }

    /// Says that this process replaces an earlier one on the same data folder. The earlier one is gone, whatever its lease says.
    pub fn succeed(&self, earlier: ServerId) {
        self.db.lease().succeed(earlier);
    }

    /// Ends the leases of the servers that this process replaces. Until then it alone takes up what they left, because it alone can see
    /// their workspace; from then on any server may.
    pub async fn end_earlier_leases(&self) -> Result<(), Error> {
        let earlier = self.db.lease().earlier();
        if earlier.is_empty() {
            return Ok(());
        }
        let sql = "/* every org: a server works for all of them */ DELETE FROM servers WHERE $1 LIKE '%' || id || '%'";
        self.db.write_unscoped(move |tx| Box::pin(async move { tx.exec(sql, &vals![earlier]).await.map(|_| ()) })).await
    }

    /// Renews the lease, which tells the other servers that this one is alive, and which master keys it has. A server that was considered gone is back with it, but the
    /// calls that others have claimed meanwhile stay with them.
    pub async fn renew_lease(&self) -> Result<(), Error> {
        let sql = "/* every org: a server works for all of them */ INSERT INTO servers (id, started_at, seen_at, opens)
                   VALUES ($1, $2, $2, $3) ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at, opens = excluded.opens";
        let now = self.db.renew_lease(sql, self.keychain.master_ids()).await?;
        self.db.lease().renewed(now);
        Ok(())
    }

    /// Ends the lease of this server, which is about to stop and no longer runs anything.
    pub async fn end_lease(&self) -> Result<(), Error> {
        let id = self.server_id().clone();
        self.db.lease().ended();
        let sql = "/* every org: a server works for all of them */ DELETE FROM servers WHERE id = $1";
        self.db.write_unscoped(move |tx| Box::pin(async move { tx.exec(sql, &vals![id.as_str()]).await.map(|_| ()) })).await
    }

    /// Lists the live servers and the recently gone ones, in the order they started.
    pub async fn list_servers(&self) -> Result<Vec<Server>, Error> {
        let now = self.db.now().await?;
        let sql = "/* every org: a server works for all of them */ SELECT id, started_at, seen_at FROM servers ORDER BY started_at, id";
        all(self.db.read(sql, &[]).await?, |row| read_server(row, now))
    }

    /// Removes servers that were last seen long ago.
    pub async fn forget_servers(&self) -> Result<u64, Error> {
        let sql = "/* every org: a server works for all of them */ DELETE FROM servers WHERE seen_at <= $1";
        self.db
            .write_unscoped(move |tx| {
                Box::pin(async move { tx.exec(sql, &vals![tx.now().minus_seconds(SERVER_REMEMBERED_SECONDS)]).await })
            })
            .await
    }
}

fn read_server(row: Row, now: Timestamp) -> Result<Server, Error> {
    let mut columns = Columns::of(row);
    let id = columns.id()?;
    let (started_at, seen_at) = (columns.time()?, columns.time()?);
    Ok(Server { id, started_at, seen_at, is_gone: seen_at <= gone_before(now) })
}
