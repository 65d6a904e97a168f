//! The outside world's clock, randomness and signals: the only place that reads them.

use countersign_core::{Clock, Random, Timestamp};
use std::time::{SystemTime, UNIX_EPOCH};

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the Clock port's one real implementation")]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }
}

/// The operating system's randomness.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsRandom;

impl Random for OsRandom {
    fn fill(&self, bytes: &mut [u8]) {
        if getrandom::fill(bytes).is_err() {
            // Without randomness every id, nonce and token would be guessable: better no process than that one.
            tracing::error!("the operating system gives no randomness");
            std::process::abort();
        }
    }
}

/// Resolves at SIGINT or SIGTERM.
pub(crate) async fn asked_to_stop() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) else {
        tracing::error!("signals cannot be heard; stop the process by force");
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}
