//! Whether writes succeed, judged by the last one.

use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// How long a commit counts as proof that writes succeed, so that no test write is needed.
const KNOWN_FOR: Duration = Duration::from_secs(1);

/// When the last batch was committed; `None` if anything has failed since.
#[derive(Default)]
pub(crate) struct Pulse(Mutex<Option<Instant>>);

impl Pulse {
    pub(super) fn committed<E>(&self, batch: &Result<(), E>) {
        *self.0.lock() = batch.is_ok().then(Instant::now);
    }

    pub(super) fn stop(&self) {
        *self.0.lock() = None;
    }

    pub(crate) fn is_fresh(&self) -> bool {
        self.0.lock().is_some_and(|at| at.elapsed() < KNOWN_FOR)
    }
}
