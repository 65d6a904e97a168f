//! Telling the other servers on the same database that this one lives, from before it begins anything until nothing of it runs.

use countersign_core::limits::LEASE_RENEW_SECONDS;
use std::time::Duration;
use store::Store;
use tokio::task::JoinHandle;

/// The lease of this server while it is kept.
pub(crate) struct KeptLease {
    store: Store,
    renewing: JoinHandle<()>,
}

impl KeptLease {
    /// Nothing to keep where nobody else can work on the database.
    pub(crate) fn keep(store: &Store) -> Option<Self> {
        store.may_be_shared().then(|| Self { store: store.clone(), renewing: tokio::spawn(renew(store.clone())) })
    }

    /// What may still have an effect in the last moments of a process is left to the lease to run out; else it ends at once, and what is
    /// left is taken up at once.
    pub(crate) async fn end(self, is_over: bool) {
        self.renewing.abort();
        if is_over && let Err(error) = self.store.end_lease().await {
            tracing::warn!(%error, "the lease could not be ended; it runs out by itself");
        }
    }
}

async fn renew(store: Store) {
    loop {
        tokio::time::sleep(Duration::from_secs(LEASE_RENEW_SECONDS)).await;
        if let Err(error) = store.renew_lease().await {
            tracing::warn!(%error, "the lease could not be renewed; without it this server begins nothing, and others take up what it runs");
        }
    }
}
