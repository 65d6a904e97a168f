//! Counts calls in this process.

use super::WINDOW_MS;
use countersign_core::limiter::{Admission, RateLimiter};
use countersign_core::{Clock, Future, SessionId};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// When more sessions than this are in memory, windows that have passed are removed.
const SESSIONS_SWEEP_AT: usize = 10_000;

pub struct MemoryLimiter {
    per_minute_max: u32,
    clock: Arc<dyn Clock>,
    windows: Mutex<HashMap<SessionId, Window>>,
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
    pub fn new(per_minute_max: u32, clock: Arc<dyn Clock>) -> Self {
        Self { per_minute_max, clock, windows: Mutex::default() }
    }

    fn count(&self, session: &SessionId) -> Admission {
        let now_ms = u64::try_from(self.clock.now().as_micros() / 1_000).unwrap_or(0);
        let mut windows = self.windows.lock();
        if windows.len() >= SESSIONS_SWEEP_AT {
            windows.retain(|_, window| window.holds(now_ms));
        }
        let window = windows.entry(session.clone()).or_insert(Window { began_ms: now_ms, count: 0 });
        if !window.holds(now_ms) {
            *window = Window { began_ms: now_ms, count: 0 };
        }
        if window.count >= self.per_minute_max {
            return Admission::Refused { retry_after_ms: window.began_ms + WINDOW_MS - now_ms };
        }
        window.count += 1;
        Admission::Admitted
    }
}

impl RateLimiter for MemoryLimiter {
    fn admit<'a>(&'a self, session: &'a SessionId) -> Future<'a, Admission> {
        let admission = self.count(session);
        Box::pin(std::future::ready(admission))
    }
}
