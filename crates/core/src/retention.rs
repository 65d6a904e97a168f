//! How long an org keeps what it has beside its audit log. The log itself is never cut: every receipt stays, and can be verified.

use crate::Timestamp;
use crate::limits::{EVENT_DAYS, RETENTION_DAYS_MAX, RETENTION_DAYS_MIN, SNAPSHOT_BYTES_MIN, SNAPSHOT_DAYS};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What is kept for how long. Without a number, calls and runs are kept for ever, events for 7 days, and snapshots for 180.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Retention {
    /// Days for which ended calls and runs are kept, and with them the index by which their receipts are found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipts_days: Option<u32>,
    /// Days for which events are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events_days: Option<u32>,
    /// Days for which snapshots are kept: what a revert restores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshots_days: Option<u32>,
    /// Bytes that the snapshots of the org may have on each server; of more, the oldest go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_bytes_max: Option<u64>,
}

impl Retention {
    /// Calls, batches and runs that ended before this time are not kept any longer.
    pub fn calls_from(&self, now: Timestamp) -> Option<Timestamp> {
        self.receipts_days.map(|days| days_before(now, days))
    }

    /// Events from before this time are not kept any longer, where the newest entry of the audit log has this time. They are counted back
    /// from a signed time, not from a clock, so that a verifier knows which of them may be gone.
    pub fn events_from(&self, newest_entry: Timestamp) -> Timestamp {
        days_before(newest_entry, self.event_days())
    }

    /// Days for which events are kept.
    pub fn event_days(&self) -> u32 {
        self.events_days.unwrap_or(EVENT_DAYS)
    }

    /// Days for which a revert finds its snapshots, unless they are too many.
    pub fn snapshot_days(&self) -> u64 {
        self.snapshots_days.map_or(SNAPSHOT_DAYS, u64::from)
    }

    /// Why this cannot be set, as a sentence.
    pub fn problem(&self) -> Option<String> {
        let days = [("receipts_days", self.receipts_days), ("events_days", self.events_days), ("snapshots_days", self.snapshots_days)];
        let wrong = days.into_iter().find(|(_, days)| days.is_some_and(|days| !(RETENTION_DAYS_MIN..=RETENTION_DAYS_MAX).contains(&days)));
        if let Some((name, _)) = wrong {
            return Some(format!("`{name}` must be {RETENTION_DAYS_MIN} to {RETENTION_DAYS_MAX}"));
        }
        if self.snapshot_days() > SNAPSHOT_DAYS {
            return Some(format!("`snapshots_days` must be {SNAPSHOT_DAYS} at most: no effect can be reverted later"));
        }
        if self.receipts_days.is_some_and(|days| u64::from(days) < self.snapshot_days()) {
            let days = self.snapshot_days();
            return Some(format!(
                "`receipts_days` must be {days} at least: for as long, snapshots are kept, and a revert needs the call too"
            ));
        }
        // Beyond 2⁵³ − 1 a number has no exact text in the audit log.
        if self.snapshot_bytes_max.is_some_and(|bytes| !(SNAPSHOT_BYTES_MIN..1 << 53).contains(&bytes)) {
            return Some(format!("`snapshot_bytes_max` must be {SNAPSHOT_BYTES_MIN} at least"));
        }
        None
    }
}

fn days_before(time: Timestamp, days: u32) -> Timestamp {
    time.minus_seconds(u64::from(days) * 24 * 60 * 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_kept_so_is_refused_with_its_field() {
        let good = Retention { receipts_days: Some(90), events_days: Some(7), snapshots_days: Some(30), snapshot_bytes_max: Some(1 << 30) };
        assert_eq!((good.problem(), Retention::default().problem()), (None, None));
        for (bad, field) in [
            (Retention { events_days: Some(0), ..good }, "`events_days`"),
            (Retention { events_days: Some(u32::MAX), ..good }, "`events_days`"),
            (Retention { snapshots_days: Some(181), receipts_days: None, ..good }, "`snapshots_days`"),
            (Retention { receipts_days: Some(29), ..good }, "`receipts_days`"),
            (Retention { receipts_days: Some(90), snapshots_days: None, ..good }, "`receipts_days`"),
            (Retention { snapshot_bytes_max: Some(1), ..good }, "`snapshot_bytes_max`"),
            (Retention { snapshot_bytes_max: Some(u64::MAX), ..good }, "`snapshot_bytes_max`"),
        ] {
            assert!(bad.problem().is_some_and(|problem| problem.contains(field)), "{bad:?}");
        }
    }
}
