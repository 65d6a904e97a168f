//! When to retry: growing waits between attempts, and retries while something is unavailable.

use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long to wait between attempts: waits grow from a base to a maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ladder {
    /// The bound of the first wait. It doubles with every attempt.
    pub base_ms: u64,
    pub cap_ms: u64,
}

impl Ladder {
    /// Full jitter: a random time up to the bound of this attempt, and at least `asked_ms`, the time the other side asked for.
    pub fn wait(&self, attempts: u32, random: u64, asked_ms: u64) -> Duration {
        let bound_ms = self.base_ms.saturating_mul(1 << attempts.saturating_sub(1).min(16)).min(self.cap_ms);
        Duration::from_millis((random % bound_ms.max(1)).max(asked_ms))
    }
}

/// When to retry something that is only unavailable for now.
pub struct Pace {
    /// The waits before the next few attempts; empty if there is a time limit instead.
    soon_ms: &'static [u64],
    /// The time limit, with an attempt every second until then. It is a time and not a number of attempts, so that slow failures do not
    /// make it last longer.
    until: Option<Instant>,
}

impl Pace {
    /// A few attempts within two seconds, while a caller waits for the answer.
    pub const fn soon() -> Self {
        Self { soon_ms: &[20, 80, 320, 1_280], until: None }
    }

    /// An attempt every second, in the background.
    pub fn for_at_most(limit: Duration) -> Self {
        Self { soon_ms: &[], until: Some(Instant::now() + limit) }
    }

    /// Tries until the answer says that nothing is away any more, or no attempt is left. Returns the last answer.
    pub async fn retry<T, F: Future<Output = T>>(mut self, is_away: impl Fn(&T) -> bool, attempt: impl Fn() -> F) -> T {
        let mut answer = attempt().await;
        while is_away(&answer) && self.again().await {
            answer = attempt().await;
        }
        answer
    }

    /// Waits until it is time for another attempt. Returns `false` at once if there is none left.
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
