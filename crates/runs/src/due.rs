//! The sign that a run may be due. Each queue has its own, because whoever hears it asks the store.

use std::collections::HashMap;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

pub(crate) struct Due(HashMap<String, Notify>);

impl Due {
    pub(crate) fn of<'q>(queues: impl Iterator<Item = &'q str>) -> Self {
        Self(queues.map(|queue| (queue.to_owned(), Notify::new())).collect())
    }

    /// A run of this queue may be due, or there is room for one.
    pub(crate) fn tell(&self, queue: &str) {
        self.0.get(queue).into_iter().for_each(Notify::notify_waiters);
    }

    /// A run of some queue may be due.
    pub(crate) fn tell_all(&self) {
        self.0.values().for_each(Notify::notify_waiters);
    }

    /// Hears what is told from now on. `None` for a queue that this process does not work on.
    pub(crate) fn hear(&self, queue: &str) -> Option<Notified<'_>> {
        self.0.get(queue).map(Notify::notified)
    }
}
