//! What every stage stands on: the ports, the settings, and what this process remembers while it works.

use super::policies::Compiled;
use super::reward::RewardWeights;
use super::stage::{Stage, Stages, Timed};
use super::tally::Tally;
use super::unverified::Unverified;
use crate::catalogue::Catalogue;
use crate::walk::progress_log::ProgressLog;
use countersign_core::checks::Commands;
use countersign_core::fault::Faults;
use countersign_core::keyring::Keyring;
use countersign_core::ledger::Ledger;
use countersign_core::limiter::RateLimiter;
use countersign_core::source::{Listings, Source, SourceRegistry};
use countersign_core::{Clock, InvocationId, Random, Timestamp, limits, random_bytes};
use durable::{Claim, Claims, Ladder, Wakeups};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

/// Marks an invocation as being walked in this process, for as long as it is held.
pub(crate) type Walking = Claim<InvocationId>;

/// Takes calls through the stages. Cheap to clone; clones share everything.
#[derive(Clone)]
pub(crate) struct Walk {
    pub(crate) inner: Arc<Inner>,
}

/// The ports the pipeline stands on.
pub struct Ports {
    pub ledger: Arc<dyn Ledger>,
    pub keyring: Arc<dyn Keyring>,
    pub limiter: Arc<dyn RateLimiter>,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    /// The builtin sources, which every org has. Given away: from here on only the pipeline can reach them.
    pub sources: Vec<Arc<dyn Source>>,
    /// Where the other sources of an org come from. Where two have a source of the same name, the first one's counts.
    pub registries: Vec<Arc<dyn SourceRegistry>>,
    pub listings: Arc<dyn Listings>,
    /// Runs what a call wants checked; absent: nothing is.
    pub commands: Option<Arc<dyn Commands>>,
    pub faults: Faults,
}

/// What an operator may tune.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    pub pending_per_session_max: u32,
    pub attempts_max: u32,
    /// How long to wait between attempts.
    pub ladder: Ladder,
    /// Questions one source is asked at a time.
    pub calls_per_source_max: usize,
    /// How long a call waits for the one that holds its key before it is told that it runs.
    pub key_wait_ms: u64,
    /// How long a follower hears nothing before it looks, and is told that the line is still open.
    pub progress_silence_ms: u64,
    /// What each part counts in the reward of a receipt.
    pub reward: RewardWeights,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            pending_per_session_max: limits::PENDING_PER_SESSION_MAX,
            attempts_max: limits::ATTEMPTS_MAX,
            ladder: Ladder { base_ms: limits::RETRY_BASE_MS, cap_ms: limits::RETRY_CAP_MS },
            calls_per_source_max: limits::SOURCE_CALLS_MAX,
            key_wait_ms: limits::IDEMPOTENCY_WAIT_SECONDS * 1_000,
            progress_silence_ms: limits::PROGRESS_SILENCE_SECONDS * 1_000,
            reward: RewardWeights::default(),
        }
    }
}

pub(crate) struct Inner {
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) keyring: Arc<dyn Keyring>,
    pub(crate) limiter: Arc<dyn RateLimiter>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Arc<dyn Random>,
    pub(crate) catalogue: Catalogue,
    pub(crate) compiled: Compiled,
    pub(crate) settings: Settings,
    pub(crate) commands: Option<Arc<dyn Commands>>,
    pub(crate) faults: Faults,
    pub(crate) stages: Stages,
    pub(crate) tally: Tally,
    pub(crate) wakeups: Wakeups<InvocationId>,
    pub(crate) progress: ProgressLog,
    pub(crate) tasks: TaskTracker,
    /// Set when the server stops: nobody is kept waiting then.
    pub(crate) closing: CancellationToken,
    /// Invocations this process is walking right now: recovery leaves them alone.
    pub(crate) walking: Claims<InvocationId>,
    /// Effects that nobody could look at.
    pub(crate) unverified: Unverified,
    /// How many more questions each source may be asked now.
    pub(crate) slots: Mutex<HashMap<String, Arc<Semaphore>>>,
}

impl Walk {
    pub(crate) fn new(ports: Ports, settings: Settings) -> Self {
        let Ports { ledger, keyring, limiter, clock, random, sources, registries, listings, commands, faults } = ports;
        let inner = Inner {
            catalogue: Catalogue::new(sources, registries, listings, Arc::clone(&clock)),
            ledger,
            keyring,
            limiter,
            clock,
            random,
            compiled: Compiled::default(),
            settings,
            commands,
            faults,
            stages: Stages::new(),
            tally: Tally::default(),
            wakeups: Wakeups::default(),
            progress: ProgressLog::default(),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
            walking: Claims::default(),
            unverified: Unverified::default(),
            slots: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Keep the value until the stage ends.
    pub(crate) fn timed(&self, stage: Stage) -> Timed<'_> {
        self.inner.stages.timed(stage)
    }

    pub(crate) fn ledger(&self) -> &dyn Ledger {
        &*self.inner.ledger
    }

    pub(crate) fn fault(&self, point: &'static str) {
        self.inner.faults.point(point);
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    pub(crate) fn draw_id(&self) -> InvocationId {
        InvocationId::new(self.now(), self.random_bytes())
    }

    pub(crate) fn random_bytes<const N: usize>(&self) -> [u8; N] {
        random_bytes(&*self.inner.random)
    }

    /// Goes on behind the caller's back, and is waited for when the server stops.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.inner.tasks.spawn(work.in_current_span());
    }
}
