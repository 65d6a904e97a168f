//! The circuit breaker: a target that fails again and again, or too often, is not called for a while, then one call tries it.

use crate::Timestamp;
use crate::limits::{BREAKER_CALLS_MIN, BREAKER_WINDOW_PARTS, BREAKER_WINDOW_SECONDS};
use serde::{Deserialize, Serialize};
use std::fmt;
use utoipa::ToSchema;

/// The key that failures are counted under: an action, its target, and the caller's label.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BreakerKey {
    text: String,
    is_labelled: bool,
}

impl BreakerKey {
    const CHARS_MAX: usize = 300;

    /// The target and the caller's label make separate keys of what would otherwise be one key per action.
    pub fn new(action: &crate::ActionId, target: Option<&str>, label: Option<&str>) -> Self {
        let mut text = action.to_string();
        for part in [target, label].into_iter().flatten() {
            text.push('|');
            text.push_str(part);
        }
        Self { text: text.chars().take(Self::CHARS_MAX).collect(), is_labelled: label.is_some() }
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the key has a caller's label: the number of such keys is limited.
    pub const fn is_labelled(&self) -> bool {
        self.is_labelled
    }
}

impl fmt::Display for BreakerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// How a call that failed was let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LetThrough {
    AsAny,
    /// As the one call that decides for all.
    ToDecide,
}

/// A failure of a target, as it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedFailure<'a> {
    pub code: &'a str,
    pub let_through: LetThrough,
    /// How the target fared lately, this failure included.
    pub rate: FailureRate,
}

/// How many of the latest calls of a target failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureRate {
    Low,
    /// At least half of at least `BREAKER_CALLS_MIN` calls.
    TooHigh,
}

/// The calls of a target in the last minute, as one server made them.
#[derive(Clone, Debug, Default)]
pub struct LatestCalls {
    parts: [Part; BREAKER_WINDOW_PARTS],
}

/// The calls of one part of the window.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    /// Which part it is, counted from the first of all times.
    number: i64,
    calls: u32,
    failures: u32,
}

impl LatestCalls {
    /// How long one part is.
    const PART_MICROS: i64 = (BREAKER_WINDOW_SECONDS as i64) * 1_000_000 / (BREAKER_WINDOW_PARTS as i64);

    pub fn count(&mut self, now: Timestamp, failures: u32) {
        let number = Self::number_at(now);
        let part = &mut self.parts[number.rem_euclid(BREAKER_WINDOW_PARTS as i64) as usize];
        if part.number != number {
            *part = Part { number, calls: 0, failures: 0 };
        }
        part.calls = part.calls.saturating_add(1);
        part.failures = part.failures.saturating_add(failures);
    }

    pub fn failure_rate(&self, now: Timestamp) -> FailureRate {
        let (calls, failures) = self
            .latest(now)
            .fold((0_u32, 0_u32), |(calls, failures), part| (calls.saturating_add(part.calls), failures.saturating_add(part.failures)));
        if calls >= BREAKER_CALLS_MIN && failures >= calls.div_ceil(2) { FailureRate::TooHigh } else { FailureRate::Low }
    }

    /// Whether no call of it counts any more.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.latest(now).all(|part| part.calls == 0)
    }

    fn latest(&self, now: Timestamp) -> impl Iterator<Item = &Part> {
        let number = Self::number_at(now);
        self.parts.iter().filter(move |part| (0..BREAKER_WINDOW_PARTS as i64).contains(&(number - part.number)))
    }

    const fn number_at(now: Timestamp) -> i64 {
        now.as_micros().div_euclid(Self::PART_MICROS)
    }
}

/// Whether calls reach the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BreakerState {
    /// They do; failures are counted.
    Closed,
    /// None does, until its time has passed.
    Open,
    /// One does, and decides.
    HalfOpen,
}

crate::words!(BreakerState { Closed = "closed", Open = "open", HalfOpen = "half_open" });

/// The state of a target that has failed. A target that works has no entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breaker {
    pub key: String,
    pub state: BreakerState,
    /// Failures in a row.
    pub failures: u32,
    /// How often the breaker has opened since the target last worked: each time it stays open for longer.
    pub opened: u32,
    /// The code of the last failure.
    pub reason: String,
    pub since: Timestamp,
    /// If open: when one call is let through. If half-open: when that call is given up.
    pub until: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKS: u32 = 0;
    const FAILS: u32 = 1;

    fn second(second: u64) -> Timestamp {
        Timestamp::from_micros(1_800_000_000_000_000).plus_seconds(second)
    }

    #[test]
    fn half_of_at_least_ten_calls_of_the_last_minute_is_too_many() {
        let rate_of = |calls: &[(u64, u32)], now: u64| {
            let mut latest = LatestCalls::default();
            calls.iter().for_each(|(at, failures)| latest.count(second(*at), *failures));
            latest.failure_rate(second(now))
        };
        let alternating = |calls: u64| -> Vec<_> { (0..calls).map(|at| (at, if at % 2 == 0 { FAILS } else { WORKS })).collect() };
        assert_eq!(rate_of(&alternating(10), 10), FailureRate::TooHigh);
        assert_eq!(rate_of(&alternating(9), 10), FailureRate::Low, "too few calls to tell");
        let mut mostly = alternating(10);
        mostly.push((10, WORKS));
        assert_eq!(rate_of(&mostly, 11), FailureRate::Low, "five of eleven");
        assert_eq!(rate_of(&alternating(10), 70), FailureRate::Low, "a minute later they no longer count");
        // Ten calls spread over two minutes are never ten in one.
        let slow: Vec<_> = (0..10).map(|n| (n * 12, FAILS)).collect();
        assert_eq!(rate_of(&slow, 108), FailureRate::Low);
    }

    #[test]
    fn a_target_that_is_called_no_more_is_over_after_a_minute() {
        let mut latest = LatestCalls::default();
        latest.count(second(0), WORKS);
        assert!(!latest.is_over(second(49)) && latest.is_over(second(60)));
    }
}
