//! Whoever waits for an invocation, or a batch, to change is woken at once, not by polling.

use crate::{Error, Pipeline};
use countersign_core::{Invocation, InvocationId, OrgId, Status};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// Who waits for what, in this process.
pub(crate) struct Waiters<K> {
    waiting: Arc<Mutex<HashMap<K, Waiting>>>,
}

impl<K> Clone for Waiters<K> {
    fn clone(&self) -> Self {
        Self { waiting: Arc::clone(&self.waiting) }
    }
}

impl<K> Default for Waiters<K> {
    fn default() -> Self {
        Self { waiting: Arc::default() }
    }
}

struct Waiting {
    notify: Arc<Notify>,
    count: usize,
}

/// A place in the queue; leaving it is dropping it.
pub(crate) struct Waiter<K: Eq + Hash> {
    waiters: Waiters<K>,
    awaited: K,
    notify: Arc<Notify>,
}

impl<K: Clone + Eq + Hash> Waiters<K> {
    /// Call before reading the row, so that a change in between is not missed.
    pub(crate) fn join(&self, awaited: &K) -> Waiter<K> {
        let mut waiting = self.waiting.lock();
        let entry = waiting.entry(awaited.clone()).or_insert_with(|| Waiting { notify: Arc::default(), count: 0 });
        entry.count += 1;
        Waiter { waiters: self.clone(), awaited: awaited.clone(), notify: Arc::clone(&entry.notify) }
    }

    /// Wakes everyone who waits for this. Call after the change is durable.
    pub(crate) fn wake(&self, awaited: &K) {
        if let Some(waiting) = self.waiting.lock().get(awaited) {
            waiting.notify.notify_waiters();
        }
    }
}

impl<K: Eq + Hash> Waiter<K> {
    /// Resolves at the next change after this future was first created.
    pub(crate) fn changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.notify.notified()
    }
}

impl<K: Eq + Hash> Drop for Waiter<K> {
    fn drop(&mut self) {
        let mut waiting = self.waiters.waiting.lock();
        if let Some(entry) = waiting.get_mut(&self.awaited) {
            entry.count -= 1;
            if entry.count == 0 {
                waiting.remove(&self.awaited);
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
