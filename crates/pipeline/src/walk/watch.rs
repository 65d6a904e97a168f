//! Waits for an invocation to change.

use super::ground::Walk;
use crate::error::Error;
use countersign_core::{Invocation, InvocationId, OrgId, Status};
use std::time::Duration;

impl Walk {
    /// Returns the invocation as soon as its status satisfies `done`, or as it is when the time is up.
    pub(crate) async fn wait_until(
        &self,
        org: &OrgId,
        invocation: &InvocationId,
        limit: Duration,
        done: impl Fn(Status) -> bool,
    ) -> Result<Invocation, Error> {
        let (waiter, mut relayed) = (self.waiter(invocation.as_str()), None);
        let deadline = tokio::time::Instant::now() + limit;
        let mut is_last = limit.is_zero();
        loop {
            // Listening begins before the read, so a change between the two still wakes us.
            let mut changed = std::pin::pin!(waiter.changed());
            changed.as_mut().enable();
            let row = self.ledger().find_invocation(org, invocation).await?;
            let row = row.ok_or_else(|| Error::UnknownInvocation { invocation: invocation.to_string() })?;
            if is_last || done(row.status) {
                return Ok(row);
            }
            relayed = relayed.or_else(|| self.relayed(org));
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep_until(deadline) => is_last = true,
                () = self.inner.closing.cancelled() => return Ok(row),
            }
        }
    }
}
