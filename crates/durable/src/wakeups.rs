//! Tasks that wait for a change are woken by it at once, without polling.

use parking_lot::Mutex;
use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// The tasks of this process that wait, by key. Cheap to clone; clones share everything.
pub struct Wakeups<K>(Arc<Mutex<HashMap<K, Waiting>>>);

struct Waiting {
    notify: Arc<Notify>,
    count: usize,
}

/// One waiting task's registration. Dropping it ends the wait.
pub struct Wakeup<K: Eq + Hash> {
    wakeups: Wakeups<K>,
    key: K,
    notify: Arc<Notify>,
}

impl<K> Clone for Wakeups<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K> Default for Wakeups<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K: Clone + Eq + Hash> Wakeups<K> {
    /// Registers a task that waits. Call this before reading the row, so that a change in between is not missed.
    pub fn join(&self, key: &K) -> Wakeup<K> {
        let mut all = self.0.lock();
        let waiting = all.entry(key.clone()).or_insert_with(|| Waiting { notify: Arc::default(), count: 0 });
        waiting.count += 1;
        Wakeup { wakeups: self.clone(), key: key.clone(), notify: Arc::clone(&waiting.notify) }
    }

    /// Wakes every task that waits for this key. Call it after the change is durable.
    pub fn wake<Q: Eq + Hash + ?Sized>(&self, key: &Q)
    where
        K: Borrow<Q>,
    {
        if let Some(waiting) = self.0.lock().get(key) {
            waiting.notify.notify_waiters();
        }
    }

    /// Wakes every task that waits for any key.
    pub fn wake_all(&self) {
        self.0.lock().values().for_each(|waiting| waiting.notify.notify_waiters());
    }
}

impl<K: Eq + Hash> Wakeup<K> {
    /// Resolves at the next change after this future was created.
    pub fn changed(&self) -> Notified<'_> {
        self.notify.notified()
    }
}

impl<K: Eq + Hash> Drop for Wakeup<K> {
    fn drop(&mut self) {
        let mut all = self.wakeups.0.lock();
        if let Some(waiting) = all.get_mut(&self.key) {
            waiting.count -= 1;
            if waiting.count == 0 {
                all.remove(&self.key);
            }
        }
    }
}
