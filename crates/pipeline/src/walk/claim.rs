//! Taking up a call that another walk, perhaps of another server, has left: one at a time.

use super::ground::{Walk, Walking};
use crate::error::Error;
use countersign_core::Invocation;

impl Walk {
    /// Whoever has claimed a call reconciles it, or starts it, and nobody else does. Should that server die, its lease runs out.
    pub(crate) async fn claim(&self, left: &Invocation) -> Result<Option<Walking>, Error> {
        let Ok(walking) = self.inner.walking.claim(&left.id) else {
            return Ok(None);
        };
        Ok(self.ledger().claim(&left.org, &left.id, left.status).await?.then_some(walking))
    }

    /// Lets other servers ask about what stays in doubt, and a person settle it.
    pub(crate) async fn let_go(&self, left: &Invocation) {
        if let Err(error) = self.ledger().release(&left.org, &left.id).await {
            tracing::warn!(invocation = %left.id, %error, "stays in doubt, and no other server asks about it while this one lives");
        }
    }
}
