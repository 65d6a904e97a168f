//! A clock that moves only when a test says so.

use countersign_core::{Clock, Timestamp};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// 2026-11-15T08:00:00Z, where every `FixedClock` starts.
pub const START: Timestamp = Timestamp::from_micros(1_794_729_600_000_000);

/// A clock that stands still. Clones share their time, so a test keeps one and passes on the others.
#[derive(Clone, Debug)]
pub struct FixedClock {
    micros: Arc<AtomicI64>,
}

impl FixedClock {
    pub fn new() -> Self {
        Self::at(START)
    }

    pub fn at(now: Timestamp) -> Self {
        Self { micros: Arc::new(AtomicI64::new(now.as_micros())) }
    }

    /// Sets the time, also backwards: a system's clock may be corrected at any moment.
    pub fn set(&self, now: Timestamp) {
        self.micros.store(now.as_micros(), Ordering::SeqCst);
    }

    pub fn advance_seconds(&self, seconds: u64) {
        self.advance_ms(seconds.saturating_mul(1_000));
    }

    pub fn advance_ms(&self, millis: u64) {
        let micros = i64::try_from(millis).unwrap_or(i64::MAX).saturating_mul(1_000);
        let advance = |now: i64| Some(now.saturating_add(micros));
        // The closure always returns a value, so there is no error to handle.
        let _ = self.micros.fetch_update(Ordering::SeqCst, Ordering::SeqCst, advance);
    }
}

impl Default for FixedClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.micros.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_starts_at_a_known_moment_and_stands_still() {
        let clock = FixedClock::new();
        assert_eq!(clock.now().to_string(), "2026-11-15T08:00:00.000000Z");
        assert_eq!(clock.now(), clock.now());
    }

    #[test]
    fn clones_share_their_time() {
        let clock = FixedClock::new();
        let handed_out = clock.clone();
        clock.advance_seconds(90);
        clock.advance_ms(5);
        assert_eq!(handed_out.now().to_string(), "2026-11-15T08:01:30.005000Z");
        handed_out.set(START);
        assert_eq!(clock.now(), START);
    }

    #[test]
    fn it_never_wraps_around() {
        let clock = FixedClock::new();
        clock.advance_seconds(u64::MAX);
        assert_eq!(clock.now().as_micros(), i64::MAX);
    }
}
