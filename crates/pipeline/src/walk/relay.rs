//! Wakes the tasks of this process that wait for a change, also if another server makes the change.

use super::ground::Walk;
use countersign_core::OrgId;
use durable::Wakeup;
use std::time::Duration;

/// Events read at a time.
const EVENTS_READ: u32 = 500;
/// Under load one read covers the events of this long.
const PAUSE: Duration = Duration::from_millis(20);
const STORE_PAUSE: Duration = Duration::from_secs(1);

/// While one of these lives, the org's events of other servers wake the tasks of this one.
pub(crate) struct Relayed {
    walk: Walk,
    org: OrgId,
}

impl Walk {
    /// Registers a task that waits for the thing with this id. Call this before reading its row, so that a change in between is not missed.
    pub(crate) fn waiter(&self, id: &str) -> Wakeup<String> {
        self.inner.wakeups.join(&id.to_owned())
    }

    /// Wakes everyone in this process who waits for the thing with this id. Call it after the change is durable.
    pub(crate) fn wake(&self, id: &str) {
        self.inner.wakeups.wake(id);
    }

    /// From now on also changes by other servers wake the tasks that wait. If this was not so before, all of them look once more. `None` if
    /// there can be no other server.
    pub(crate) fn relayed(&self, org: &OrgId) -> Option<Relayed> {
        if !self.ledger().is_shared() {
            return None;
        }
        let mut relays = self.inner.relays.lock();
        match relays.get_mut(org) {
            Some(waiting) => *waiting += 1,
            None => {
                relays.insert(org.clone(), 1);
                tokio::spawn(self.clone().relay(org.clone()));
            }
        }
        Some(Relayed { walk: self.clone(), org: org.clone() })
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
