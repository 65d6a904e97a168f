//! How long a step waits before it is tried again.

use automation::definition::Backoff;
use durable::Ladder;
use std::time::Duration;

/// The bound of the first wait, and of any.
const LADDER: Ladder = Ladder { base_ms: 1_000, cap_ms: 300_000 };

/// Full jitter: a random time up to the bound of this attempt, so that runs that failed together do not come back together. It is never
/// shorter than what the source asked for, or than its breaker is open.
pub(crate) fn wait(backoff: Backoff, attempts: u32, random: u64, asked_ms: u64) -> Duration {
    match backoff {
        Backoff::None => Duration::from_millis(asked_ms),
        Backoff::Linear => {
            let bound_ms = LADDER.base_ms.saturating_mul(u64::from(attempts)).clamp(1, LADDER.cap_ms);
            Duration::from_millis((random % bound_ms).max(asked_ms))
        }
        // Up to 2 s after the first attempt, 4 s after the second, and so on.
        Backoff::Exponential => LADDER.wait(attempts.saturating_add(1), random, asked_ms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_storm_jitter_retry_after() {
        let bounds =
            |backoff| [1, 2, 3, 10].map(|attempts| (0..2_000).map(|n| wait(backoff, attempts, n * 7_919, 0)).max().unwrap().as_secs());
        assert_eq!(bounds(Backoff::None), [0, 0, 0, 0]);
        assert_eq!(bounds(Backoff::Linear), [0, 1, 2, 9]);
        assert_eq!(bounds(Backoff::Exponential), [1, 3, 7, 299]);
        for backoff in [Backoff::None, Backoff::Linear, Backoff::Exponential] {
            assert_eq!(wait(backoff, 1, 0, 90_000), Duration::from_secs(90), "what the source asks for is the least");
        }
        // Runs that failed at once come back spread over the whole time.
        let waits: Vec<_> =
            (0..1_000_u64).map(|n| wait(Backoff::Exponential, 3, n.wrapping_mul(0x9e37_79b9_7f4a_7c15), 0).as_millis()).collect();
        for second in 0..8 {
            let here = waits.iter().filter(|wait| **wait / 1_000 == second).count();
            assert!((60..200).contains(&here), "{here} of 1,000 come back in second {second}");
        }
    }
}
