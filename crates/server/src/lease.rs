//! Keeps this server's lease, which tells the other servers on the same database that it lives. It lasts from before the first work until
//! no call runs any more.

use std::time::Duration;
use store::Store;
use store::limits::LEASE_RENEW_SECONDS;
use tokio::task::JoinHandle;

/// The lease of this server while it is renewed.
pub(crate) struct KeptLease {
    store: Store,
    renewing: JoinHandle<()>,
}

impl KeptLease {
    /// Starts the renewal; `None` if no other server can use the database.
    pub(crate) fn keep(store: &Store) -> Option<Self> {
        store.may_be_shared().then(|| Self { store: store.clone(), renewing: tokio::spawn(renew(store.clone())) })
    }

    /// Stops the renewal. If every call has ended (`is_over`), the lease ends at once and other servers claim what is left at once.
    /// Otherwise it is left to run out, because a call may still have an effect until the process ends.
    pub(crate) async fn end(self, is_over: bool) {
        self.renewing.abort();
        if is_over && let Err(error) = self.store.end_lease().await {
            tracing::warn!(%error, "the lease could not be ended; it runs out by itself");
        }
    }
}

async fn renew(store: Store) {
    let mut pause = LEASE_RENEW_SECONDS;
    loop {
        tokio::time::sleep(Duration::from_secs(pause)).await;
        pause = LEASE_RENEW_SECONDS;
        if let Err(error) = store.renew_lease().await {
            tracing::warn!(%error, "the lease could not be renewed; without it this server begins nothing, and others take up what it runs");
            // Tried again soon: while the lease is not renewed, this server is of no use to anybody.
            pause = 1;
        }
    }
}
