//! Checks effects again that could not be checked when they were made.

use crate::limits::{RECOVERED_AT_ONCE, UNVERIFIED_SECONDS};
use crate::pipeline::Pipeline;
use countersign_core::{InvocationId, OrgId, Status};
use futures_util::{StreamExt as _, stream};

impl Pipeline {
    /// Run every few seconds: checks again the effects that are due.
    pub async fn look_at_unverified(&self) {
        let due = self.walk.inner.unverified.take_due(self.walk.now());
        stream::iter(due).for_each_concurrent(RECOVERED_AT_ONCE, |(id, org)| self.look_once_more(org, id)).await;
    }

    async fn look_once_more(&self, org: OrgId, id: InvocationId) {
        if let Ok(Some(doubted)) = self.ledger().find_invocation(&org, &id).await
            && doubted.status == Status::InDoubt
        {
            self.ask_about(doubted).await;
        }
        // The store or the source may be back the next time.
        match self.ledger().find_invocation(&org, &id).await {
            Ok(Some(row)) if row.status != Status::InDoubt => {}
            Ok(None) => {}
            Ok(Some(_)) | Err(_) => {
                let at = self.walk.now().plus_seconds(UNVERIFIED_SECONDS);
                self.walk.inner.unverified.check_at(&org, &id, at);
            }
        }
    }
}
