//! Whoever waits for an invocation to change is woken at once, not by polling.

use crate::{Error, Pipeline};
use countersign_core::{Invocation, InvocationId, OrgId, Status};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// Who waits for what, in this process.
#[derive(Clone, Default)]
pub(crate) struct Waiters {
    waiting: Arc<Mutex<HashMap<InvocationId, Waiting>>>,
}

struct Waiting {
    notify: Arc<Notify>,
    count: usize,
}

/// A place in the queue; leaving it is dropping it.
pub(crate) struct Waiter {
    waiters: Waiters,
    invocation: InvocationId,
    notify: Arc<Notify>,
}

impl Waiters {
    /// Call before reading the row, so that a change in between is not missed.
    pub(crate) fn join(&self, invocation: &InvocationId) -> Waiter {
        let mut waiting = self.waiting.lock();
        let entry = waiting.entry(invocation.clone()).or_insert_with(|| Waiting { notify: Arc::default(), count: 0 });
        entry.count += 1;
        Waiter { waiters: self.clone(), invocation: invocation.clone(), notify: Arc::clone(&entry.notify) }
    }

    /// Wakes everyone who waits for this invocation. Call after the change is durable.
    pub(crate) fn wake(&self, invocation: &InvocationId) {
        if let Some(waiting) = self.waiting.lock().get(invocation) {
            waiting.notify.notify_waiters();
        }
    }
}

impl Waiter {
    /// Resolves at the next change after this future was first created.
    pub(crate) fn changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.notify.notified()
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut waiting = self.waiters.waiting.lock();
        if let Some(entry) = waiting.get_mut(&self.invocation) {
            entry.count -= 1;
            if entry.count == 0 {
                waiting.remove(&self.invocation);
            }
        }
    }
}

impl Pipeline {
    /// The invocation as soon as its status satisfies `done`, or as it is when the time is up.
    pub(crate) async fn wait_until(
        &self,
        org: &OrgId,
        invocation: &InvocationId,
        limit: Duration,
        done: impl Fn(Status) -> bool,
    ) -> Result<Invocation, Error> {
        let waiter = self.inner.waiters.join(invocation);
        let deadline = tokio::time::Instant::now() + limit;
        loop {
            // Listening begins before the read, so a change between the two still wakes us.
            let mut changed = std::pin::pin!(waiter.changed());
            changed.as_mut().enable();
            let row = self.ledger().find_invocation(org, invocation).await?;
            let row = row.ok_or_else(|| Error::UnknownInvocation { invocation: invocation.to_string() })?;
            if done(row.status) {
                return Ok(row);
            }
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep_until(deadline) => return Ok(row),
                () = self.inner.closing.cancelled() => return Ok(row),
            }
        }
    }

    /// The invocation, held back up to `limit` while it is still on its way.
    pub async fn watch(&self, org: &OrgId, invocation: &InvocationId, limit: Duration) -> Result<Invocation, Error> {
        self.wait_until(org, invocation, limit, |status| status.is_final() || status == Status::InDoubt).await
    }
}
