//! The real clock, randomness and signals. Only this file reads them.

use countersign_core::{Clock, Random, Timestamp};
use parking_lot::Mutex;
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
#[derive(Debug, Default)]
pub struct OsRandom {
    /// Random bytes that were drawn in advance and are not used yet.
    drawn: Mutex<Vec<u8>>,
}

/// How many bytes are drawn in advance.
const DRAWN_BYTES: usize = 1_024;
/// Ids have 10 random bytes and trace ids 16; the shortest secret, a nonce, has 24.
const ID_BYTES_MAX: usize = 16;

impl Random for OsRandom {
    /// Keys, nonces and tokens are drawn when they are needed, so that no copy stays in memory. Ids are not secret, and one call needs four
    /// of them: asking the system for each would cost more than making them.
    fn fill(&self, bytes: &mut [u8]) {
        if bytes.len() > ID_BYTES_MAX {
            return draw(bytes);
        }
        let mut drawn = self.drawn.lock();
        if drawn.len() < bytes.len() {
            drawn.resize(DRAWN_BYTES, 0);
            draw(&mut drawn);
        }
        let rest = drawn.len() - bytes.len();
        bytes.copy_from_slice(&drawn[rest..]);
        drawn.truncate(rest);
    }
}

fn draw(bytes: &mut [u8]) {
    if getrandom::fill(bytes).is_err() {
        // Without randomness every id, nonce and token would be guessable, so the process ends.
        tracing::error!("the operating system gives no randomness");
        std::process::abort();
    }
}

/// Every connection is an open file. A system allows few of them unless a process asks for more.
pub fn allow_open_files() {
    use crate::limits::CONNECTIONS_MAX;
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // As many again for WebSockets, files and the database.
    let wanted = limit.maximum.unwrap_or(u64::MAX).min(4 * CONNECTIONS_MAX as u64);
    if limit.current.is_some_and(|current| current < wanted)
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: limit.maximum })
    {
        tracing::warn!(%error, "no more files can be open than the system allows at first; that limits connections");
    }
}

/// What a process ends with that was asked to stop twice.
const STOPPED_TWICE: i32 = 130;

/// Listens for SIGINT and SIGTERM from now on; the future resolves at the first of them. The second ends the process at once, as a crash would:
/// what was running is found out about at the next start.
pub fn asked_to_stop() -> impl Future<Output = ()> {
    use tokio::signal::unix::{SignalKind, signal};
    let signals = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
    async move {
        let (Ok(mut interrupt), Ok(mut terminate)) = signals else {
            tracing::error!("signals cannot be heard; stop the process by force");
            return std::future::pending().await;
        };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        tokio::spawn(async move {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            tracing::warn!("it was asked to stop a second time, and ends at once");
            std::process::exit(STOPPED_TWICE);
        });
    }
}
