//! Counts calls in this process.

use super::WINDOW_MS;
use countersign_core::limiter::{Admission, CountedFor, RateLimiter, RateLimits};
use countersign_core::{Clock, Future};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// When more windows than this are in memory, windows that have passed are removed.
const WINDOWS_SWEEP_AT: usize = 10_000;

pub struct MemoryLimiter {
    limits: RateLimits,
    clock: Arc<dyn Clock>,
    /// By the id of what is counted.
    windows: Mutex<HashMap<String, Window>>,
}

#[derive(Clone, Copy)]
struct Window {
    began_ms: u64,
    count: u32,
}

impl Window {
    /// A window also ends when the clock was set back; otherwise a session would wait until the clock has caught up.
    const fn holds(&self, now_ms: u64) -> bool {
        self.began_ms <= now_ms && now_ms < self.began_ms + WINDOW_MS
    }
}

impl MemoryLimiter {
    pub fn new(limits: impl Into<RateLimits>, clock: Arc<dyn Clock>) -> Self {
        Self { limits: limits.into(), clock, windows: Mutex::default() }
    }

    fn count(&self, call: CountedFor<'_>) -> Admission {
        let limits = call.limits(&self.limits);
        let now_ms = u64::try_from(self.clock.now().as_micros() / 1_000).unwrap_or(0);
        let mut windows = self.windows.lock();
        if windows.len() >= WINDOWS_SWEEP_AT {
            windows.retain(|_, window| window.holds(now_ms));
        }
        for (limited, max, key) in &limits {
            let (limited, max) = (*limited, *max);
            let window = windows.get(key).copied().filter(|window| window.holds(now_ms));
            let window = window.unwrap_or(Window { began_ms: now_ms, count: 0 });
            if window.count >= max {
                return Admission::Refused { retry_after_ms: window.began_ms + WINDOW_MS - now_ms, limited };
            }
        }
        for (_, _, key) in limits {
            let window = windows.entry(key).or_insert(Window { began_ms: now_ms, count: 0 });
            if !window.holds(now_ms) {
                *window = Window { began_ms: now_ms, count: 0 };
            }
            window.count += 1;
        }
        Admission::Admitted
    }
}

impl RateLimiter for MemoryLimiter {
    fn admit<'a>(&'a self, call: CountedFor<'a>) -> Future<'a, Admission> {
        let admission = self.count(call);
        Box::pin(std::future::ready(admission))
    }
}
