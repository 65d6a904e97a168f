//! The targets of calls, and how their latest calls went.

use crate::limits::BREAKER_TARGETS_MAX;
use countersign_core::breaker::{BreakerKey, FailureRate, LatestCalls};
use countersign_core::{OrgId, Timestamp};
use parking_lot::Mutex;
use std::collections::HashMap;

/// The latest calls of each target, as this server made them. They are in memory, so that a success costs no write.
#[derive(Default)]
pub(crate) struct Targets(Mutex<HashMap<OrgId, HashMap<BreakerKey, LatestCalls>>>);

impl Targets {
    /// Counts a call, and says how many of the latest failed. What is not counted has a low rate: a target beyond those that are counted at a
    /// time, and a caller's label, of which there can be any number.
    pub(crate) fn count(&self, org: &OrgId, key: &BreakerKey, now: Timestamp, failures: u32) -> FailureRate {
        if key.is_labelled() {
            return FailureRate::Low;
        }
        let mut all = self.0.lock();
        if let Some(known) = all.get_mut(org).and_then(|targets| targets.get_mut(key)) {
            known.count(now, failures);
            return known.failure_rate(now);
        }
        if all.values().map(HashMap::len).sum::<usize>() >= BREAKER_TARGETS_MAX {
            all.values_mut().for_each(|targets| targets.retain(|_, latest| !latest.is_over(now)));
            all.retain(|_, targets| !targets.is_empty());
            if all.values().map(HashMap::len).sum::<usize>() >= BREAKER_TARGETS_MAX {
                return FailureRate::Low;
            }
        }
        all.entry(org.clone()).or_default().entry(key.clone()).or_default().count(now, failures);
        FailureRate::Low
    }

    pub(crate) fn forget(&self, org: &OrgId, key: &BreakerKey) {
        if let Some(targets) = self.0.lock().get_mut(org) {
            targets.remove(key);
        }
    }
}
