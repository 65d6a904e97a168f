//! How far consumer groups are behind, as metrics: a consumer that is gone is noticed by its group, before retention overtakes it.

use countersign_core::Timestamp;
use countersign_core::ports::bus::Group;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};

/// The groups that the metrics show. They belong to the process and never forget a label, so a group that was removed is set to zero.
static SHOWN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// By the name of the group. Groups of one name in several orgs are shown as one.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Lags(BTreeMap<String, Lag>);

#[derive(Debug, Default, PartialEq, Eq)]
struct Lag {
    /// Events that were not acknowledged, of all orgs.
    events: u64,
    /// How long the oldest of them has been in the log, in the org where that is longest.
    seconds: u64,
}

impl Lags {
    pub(crate) fn add(&mut self, group: &Group, now: Timestamp) {
        let lag = self.0.entry(group.name.to_string()).or_default();
        lag.events += group.in_flight + group.behind;
        lag.seconds = lag.seconds.max(group.waiting_since.map_or(0, |since| now.millis_since(since) / 1_000));
    }

    pub(crate) fn show(mut self) {
        let mut shown = SHOWN.lock();
        for removed in shown.iter() {
            self.0.entry(removed.clone()).or_default();
        }
        for (group, Lag { events, seconds }) in self.0 {
            metrics::gauge!("countersign_event_group_behind", "group" => group.clone()).set(events as f64);
            metrics::gauge!("countersign_event_group_behind_seconds", "group" => group.clone()).set(seconds as f64);
            shown.insert(group);
        }
    }
}
