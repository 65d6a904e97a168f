//! Wakes the tasks of this process that wait for a change, also if another server makes the change.

use super::ground::Walk;
use countersign_core::OrgId;
use durable::Wakeup;
use std::time::Duration;
use tokio::sync::futures::Notified;

/// Events read at a time.
const EVENTS_READ: u32 = 500;
/// Under load one read covers the events of this long.
const PAUSE: Duration = Duration::from_millis(20);
const STORE_PAUSE: Duration = Duration::from_secs(1);

/// A task that waits for a change of an invocation or a batch.
pub(crate) struct Waiter {
    wakeup: Wakeup<String>,
    _relayed: Option<Relayed>,
}

impl Waiter {
    /// Resolves at the next change after this future was created.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.wakeup.changed()
    }
}

/// While one of these lives, the org's events of other servers wake the tasks of this one.
struct Relayed {
    walk: Walk,
    org: OrgId,
}

impl Walk {
    /// Registers a task that waits for the thing with this id. Call this before reading its row, so that a change in between is not missed.
    pub(crate) fn waiter(&self, org: &OrgId, id: &str) -> Waiter {
        let wakeup = self.inner.wakeups.join(&id.to_owned());
        Waiter { wakeup, _relayed: self.ledger().is_shared().then(|| self.relayed(org)) }
    }

    /// Wakes everyone in this process who waits for the thing with this id. Call it after the change is durable.
    pub(crate) fn wake(&self, id: &str) {
        self.inner.wakeups.wake(id);
    }

    fn relayed(&self, org: &OrgId) -> Relayed {
        let mut relays = self.inner.relays.lock();
        match relays.get_mut(org) {
            Some(waiting) => *waiting += 1,
            None => {
                relays.insert(org.clone(), 1);
                tokio::spawn(self.clone().relay(org.clone()));
            }
        }
        Relayed { walk: self.clone(), org: org.clone() }
    }

    /// Runs as long as somebody waits for something of this org.
    async fn relay(self, org: OrgId) {
        let mut after = None;
        while !self.is_relay_over(&org) {
            let read = match after {
                None => self.ledger().newest_event(&org).await.inspect(|_| {
                    // What changed before this position was not relayed, so everybody looks once more.
                    self.inner.wakeups.wake_all();
                }),
                Some(seen) => {
                    self.ledger().wait_for_event(&org, seen).await;
                    let events = self.ledger().list_events_after(&org, seen, EVENTS_READ).await;
                    events.map(|events| {
                        events.iter().for_each(|event| self.wake(&event.key));
                        events.last().map_or(seen, |last| last.seq)
                    })
                }
            };
            tokio::time::sleep(if read.is_ok() { PAUSE } else { STORE_PAUSE }).await;
            after = read.ok().or(after);
        }
    }

    fn is_relay_over(&self, org: &OrgId) -> bool {
        let mut relays = self.inner.relays.lock();
        let is_over = relays.get(org).is_none_or(|waiting| *waiting == 0);
        if is_over {
            relays.remove(org);
        }
        is_over
    }
}

impl Drop for Relayed {
    fn drop(&mut self) {
        if let Some(waiting) = self.walk.inner.relays.lock().get_mut(&self.org) {
            *waiting -= 1;
        }
    }
}
