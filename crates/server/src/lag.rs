//! How far consumer groups are behind, as metrics: a consumer that is gone is noticed by its group, before retention overtakes it.

use countersign_core::Timestamp;
use countersign_core::ports::bus::Group;
use std::collections::BTreeMap;

/// By the name of the group. Groups of one name in several orgs are shown as one. It is kept between measurements: metrics never forget a label,
/// so a group that was removed has to be shown with zero.
#[derive(Debug, Default)]
pub struct Lags(BTreeMap<String, Lag>);

#[derive(Debug, Default)]
struct Lag {
    /// Events that were not acknowledged, of all orgs.
    events: u64,
    /// How long the oldest of them has been in the log, in the org where that is longest.
    seconds: u64,
}

impl Lags {
    pub(crate) fn begin(&mut self) {
        self.0.values_mut().for_each(|lag| *lag = Lag::default());
    }

    pub(crate) fn add(&mut self, group: &Group, now: Timestamp) {
        let lag = self.0.entry(group.name.to_string()).or_default();
        lag.events += group.in_flight + group.behind;
        lag.seconds = lag.seconds.max(group.waiting_since.map_or(0, |since| now.millis_since(since) / 1_000));
    }

    pub(crate) fn show(&self) {
        for (group, Lag { events, seconds }) in &self.0 {
            metrics::gauge!("countersign_event_group_behind", "group" => group.clone()).set(*events as f64);
            metrics::gauge!("countersign_event_group_behind_seconds", "group" => group.clone()).set(*seconds as f64);
        }
    }
}
