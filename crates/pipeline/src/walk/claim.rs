//! Claims a call that another walk, possibly on another server, has left: only one claim at a time succeeds.

use super::ground::{Walk, Walking};
use crate::error::Error;
use countersign_core::Invocation;

impl Walk {
    /// Claims a call. Only the holder of the claim reconciles or starts the call. If its server dies, the lease runs out.
    pub(crate) async fn claim(&self, left: &Invocation) -> Result<Option<Walking>, Error> {
        let Ok(walking) = self.inner.walking.claim(&left.id) else {
            return Ok(None);
        };
        Ok(self.ledger().claim(&left.org, &left.id, left.status).await?.then_some(walking))
    }

    /// Claims a running call of another server that is silent, and may not be gone.
    pub(crate) async fn claim_silent(&self, left: &Invocation) -> Result<Option<Walking>, Error> {
        let Ok(walking) = self.inner.walking.claim(&left.id) else {
            return Ok(None);
        };
        Ok(self.ledger().claim_silent(&left.org, &left.id).await?.then_some(walking))
    }

    /// Releases the claim of a call that stays in doubt, so that other servers may reconcile it and a person may settle it; or of one whose
    /// approval is kept, so that any server may start it.
    pub(crate) async fn let_go(&self, left: &Invocation) {
        if let Err(error) = self.ledger().release(&left.org, &left.id).await {
            tracing::warn!(invocation = %left.id, %error, "stays as it is, and no other server takes it up while this one lives");
        }
    }
}
