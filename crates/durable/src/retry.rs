//! When to try again: a ladder of growing waits between attempts, and trying while something is away.

use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long to wait between attempts, within bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ladder {
    /// The bound of the first wait; it doubles with every attempt.
    pub base_ms: u64,
    pub cap_ms: u64,
}

impl Ladder {
    /// Full jitter: a random time up to the bound of this rung, and at least what was asked for.
    pub fn wait(&self, attempts: u32, random: u64, asked_ms: u64) -> Duration {
        let bound_ms = self.base_ms.saturating_mul(1 << attempts.saturating_sub(1).min(16)).min(self.cap_ms);
        Duration::from_millis((random % bound_ms.max(1)).max(asked_ms))
    }
}

/// When to try again what is only too early: `while is_away(&answer) && pace.again().await { answer = … }`.
pub struct Pace {
    /// The waits before the next tries, where they are few.
    soon_ms: &'static [u64],
    /// Where they are not: every second until then. By the clock, not by the number of tries: what is slow to fail must not make it last longer.
    until: Option<Instant>,
}

impl Pace {
    /// A few tries within two seconds, while somebody waits for the answer.
    pub const fn soon() -> Self {
        Self { soon_ms: &[20, 80, 320, 1_280], until: None }
    }

    /// Every second, behind everybody's back.
    pub fn for_at_most(limit: Duration) -> Self {
        Self { soon_ms: &[], until: Some(Instant::now() + limit) }
    }

    /// Waits until it is time for another try; `false` at once where there is none.
    pub async fn again(&mut self) -> bool {
        if let [next_ms, rest @ ..] = self.soon_ms {
            self.soon_ms = rest;
            sleep(Duration::from_millis(*next_ms)).await;
            return true;
        }
        let is_left = self.until.is_some_and(|until| Instant::now() < until);
        if is_left {
            sleep(Duration::from_secs(1)).await;
        }
        is_left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_a_bound_and_respect_what_was_asked_for() {
        let ladder = Ladder { base_ms: 100, cap_ms: 1_000 };
        for (attempts, random, asked_ms, expected_ms) in
            [(1, 250, 0, 50), (2, 250, 0, 50), (3, 250, 0, 250), (9, 1_999, 0, 999), (1, 3, 700, 700), (40, 0, 0, 0)]
        {
            assert_eq!(ladder.wait(attempts, random, asked_ms), Duration::from_millis(expected_ms), "{attempts}");
        }
    }
}
