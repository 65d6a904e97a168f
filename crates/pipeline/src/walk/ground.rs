//! The base of every stage: the ports, the settings, and the state that this process keeps in memory.

use super::appeared_actions::AppearedActions;
use super::condition::Conditions;
use super::open_lines::OpenLines;
use super::policies::Compiled;
use super::reward::RewardWeights;
use super::stage::{Stage, Stages, Timed};
use super::tally::Tally;
use super::targets::Targets;
use super::unverified::Unverified;
use super::voids::Voids;
use crate::catalogue::Catalogue;
use crate::walk::progress_log::ProgressLog;
use countersign_core::checks::Commands;
use countersign_core::energy::Energy;
use countersign_core::fault::Faults;
use countersign_core::keyring::Keyring;
use countersign_core::ledger::Ledger;
use countersign_core::limiter::RateLimiter;
use countersign_core::ports::Blobs;
use countersign_core::source::{Listings, Source, SourceRegistry};
use countersign_core::{Clock, InvocationId, OrgId, Random, Timestamp, limits, random_bytes};
use durable::{Claim, Claims, Ladder, Wakeups};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

/// Marks an invocation as being walked in this process, for as long as it is held.
pub(crate) type Walking = Claim<InvocationId>;

/// Takes calls through the stages. Cheap to clone; clones share all state.
#[derive(Clone)]
pub(crate) struct Walk {
    pub(crate) inner: Arc<Inner>,
}

/// The ports that the pipeline uses.
pub struct Ports {
    pub ledger: Arc<dyn Ledger>,
    pub keyring: Arc<dyn Keyring>,
    pub limiter: Arc<dyn RateLimiter>,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    /// The builtin sources, which every org has. They are moved in: after this, only the pipeline can reach them.
    pub sources: Vec<Arc<dyn Source>>,
    /// Where the other sources of an org come from. If two registries have a source of the same name, the first registry wins.
    pub registries: Vec<Arc<dyn SourceRegistry>>,
    pub listings: Arc<dyn Listings>,
    /// Runs the check commands that a call asks for. `None`: no command is run.
    pub commands: Option<Arc<dyn Commands>>,
    /// The energy counters of the host; absent where it has none.
    pub energy: Option<Arc<dyn Energy>>,
    /// Where the bytes of artifacts are. `None`: what an action makes stays in its result.
    pub blobs: Option<Arc<dyn Blobs>>,
    pub faults: Faults,
}

/// What an operator may tune.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    pub pending_per_session_max: u32,
    pub attempts_max: u32,
    /// How long to wait between attempts.
    pub ladder: Ladder,
    /// How many requests one source gets at a time.
    pub calls_per_source_max: usize,
    /// How long a call waits for the call that holds its idempotency key. After that the caller is told that the other call is still
    /// running.
    pub key_wait_ms: u64,
    /// After this long without news, a follower of a call checks the call's state and gets a sign that the connection is alive.
    pub progress_silence_ms: u64,
    /// The weight of each part in the reward of a receipt.
    pub reward: RewardWeights,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            pending_per_session_max: crate::limits::PENDING_PER_SESSION_MAX,
            attempts_max: limits::ATTEMPTS_MAX,
            ladder: Ladder { base_ms: crate::limits::RETRY_BASE_MS, cap_ms: limits::RETRY_CAP_MS },
            calls_per_source_max: limits::SOURCE_CALLS_MAX,
            key_wait_ms: crate::limits::IDEMPOTENCY_WAIT_SECONDS * 1_000,
            progress_silence_ms: crate::limits::PROGRESS_SILENCE_SECONDS * 1_000,
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
    pub(crate) conditions: Conditions,
    pub(crate) settings: Settings,
    pub(crate) commands: Option<Arc<dyn Commands>>,
    pub(crate) energy: Option<Arc<dyn Energy>>,
    pub(crate) blobs: Option<Arc<dyn Blobs>>,
    pub(crate) faults: Faults,
    pub(crate) stages: Stages,
    pub(crate) tally: Tally,
    pub(crate) appeared: AppearedActions,
    /// Tasks that wait for a change, by the id of what changes.
    pub(crate) wakeups: Wakeups<String>,
    /// For each org whose events are relayed, how many tasks wait for them.
    pub(crate) relays: Mutex<HashMap<OrgId, usize>>,
    pub(crate) progress: ProgressLog,
    /// Callers who wait for a result.
    pub(crate) lines: OpenLines,
    /// When this process began, for what is done at regular times.
    pub(crate) began: Instant,
    pub(crate) tasks: TaskTracker,
    /// Set when the server stops: from then on no caller is kept waiting.
    pub(crate) closing: CancellationToken,
    /// Invocations that this process is walking right now. Recovery leaves them alone.
    pub(crate) walking: Claims<InvocationId>,
    /// Effects that could not be verified.
    pub(crate) unverified: Unverified,
    /// What is known of pending calls that may be void.
    pub(crate) voids: Voids,
    /// The free request slots of each source of each org.
    pub(crate) slots: Mutex<HashMap<OrgId, HashMap<String, Arc<Semaphore>>>>,
    pub(crate) targets: Targets,
}

impl Walk {
    pub(crate) fn new(ports: Ports, settings: Settings) -> Self {
        let Ports { ledger, keyring, limiter, clock, random, sources, registries, listings, commands, energy, blobs, faults } = ports;
        let inner = Inner {
            catalogue: Catalogue::new(sources, registries, listings, Arc::clone(&clock)),
            ledger,
            keyring,
            limiter,
            clock,
            random,
            compiled: Compiled::default(),
            conditions: Conditions::default(),
            settings,
            commands,
            energy,
            blobs,
            faults,
            stages: Stages::new(),
            tally: Tally::default(),
            appeared: AppearedActions::default(),
            wakeups: Wakeups::default(),
            relays: Mutex::default(),
            progress: ProgressLog::default(),
            lines: OpenLines::default(),
            began: Instant::now(),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
            walking: Claims::default(),
            unverified: Unverified::default(),
            voids: Voids::default(),
            slots: Mutex::default(),
            targets: Targets::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Measures a stage: keep the returned value until the stage ends.
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

    /// Runs work in the background. A shutdown waits for it.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.inner.tasks.spawn(work.in_current_span());
    }
}
