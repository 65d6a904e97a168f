//! What goes into the pipeline, what comes out, and what it stands on.

use crate::Pipeline;
use crate::batch::BatchWalks;
use crate::catalogue::Catalogue;
use crate::policies::Compiled;
use crate::progress::Boards;
use crate::record::RewardWeights;
use crate::stage::Stages;
use crate::tally::Tally;
use crate::unverified::Unverified;
use crate::waiters::Waiters;
use countersign_core::checks::Commands;
use countersign_core::effect::{Bounds, Scope};
use countersign_core::fault::Faults;
use countersign_core::invocation::{Claimed, Intention};
use countersign_core::keyring::Keyring;
use countersign_core::ledger::Ledger;
use countersign_core::limiter::RateLimiter;
use countersign_core::source::{Listings, Source, SourceRegistry};
use countersign_core::{BatchId, Clock, Invocation, InvocationId, Principal, Random, SessionId, Timestamp, limits, random_bytes};
use parking_lot::Mutex;
use policy::scan::Label;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A request to perform one action.
#[derive(Clone, Debug)]
pub struct Request {
    pub principal: Principal,
    pub session: SessionId,
    /// `<source>.<name>`, as the caller wrote it.
    pub action: String,
    /// As read by `countersign_core::json::parse_strict`.
    pub params: Value,
    pub idempotency_key: Option<String>,
    /// An earlier invocation of the same call that a person was asked about: the answer to that one is wanted.
    pub approval_ref: Option<InvocationId>,
    pub intention: Intention,
    pub reason: Option<String>,
    /// The invocation whose effect is to be taken back.
    pub reverses: Option<InvocationId>,
    /// Where the caller wants it to act at most.
    pub scope: Scope,
    /// What the caller wants stricter than we would have it.
    pub bounds: Bounds,
    /// Commands the caller wants run after the effect, each of which must succeed.
    pub commands: Vec<String>,
    /// What the caller says about time, device and actor: recorded, never evaluated.
    pub claimed: Option<Claimed>,
    /// Where the caller says params came from, by pointer. It can only tighten.
    pub provenance: BTreeMap<String, Label>,
    pub trace_id: String,
}

/// How a walk ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// With its receipt. `result` is redacted but whole; the stored one may be truncated.
    Ended { invocation: Box<Invocation>, result: Option<Value> },
    /// The answer of an earlier call under the same idempotency key.
    Replayed(Box<Invocation>),
    /// Waits for a person.
    Pending(Box<Invocation>),
    /// The effect may have happened; it is reconciled, never repeated blindly.
    InDoubt(Box<Invocation>),
}

impl Outcome {
    pub fn invocation(&self) -> &Invocation {
        match self {
            Self::Ended { invocation, .. } | Self::Replayed(invocation) | Self::Pending(invocation) | Self::InDoubt(invocation) => {
                invocation
            }
        }
    }
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
    pub retry_base_ms: u64,
    pub retry_cap_ms: u64,
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
            retry_base_ms: limits::RETRY_BASE_MS,
            retry_cap_ms: limits::RETRY_CAP_MS,
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
    pub(crate) waiters: Waiters<InvocationId>,
    pub(crate) batch_waiters: Waiters<BatchId>,
    pub(crate) boards: Boards,
    pub(crate) tasks: TaskTracker,
    /// Set when the server stops: nobody is kept waiting then.
    pub(crate) closing: CancellationToken,
    /// Invocations this process is walking right now, and how many of its tasks are: recovery leaves them alone.
    pub(crate) walking: Mutex<HashMap<InvocationId, usize>>,
    /// Batches this process is running right now.
    pub(crate) batches: BatchWalks,
    /// Effects that nobody could look at.
    pub(crate) unverified: Unverified,
    /// How many more questions each source may be asked now.
    pub(crate) slots: Mutex<HashMap<String, Arc<Semaphore>>>,
}

impl Pipeline {
    pub fn new(ports: Ports, settings: Settings) -> Self {
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
            waiters: Waiters::default(),
            batch_waiters: Waiters::default(),
            boards: Boards::default(),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
            walking: Mutex::default(),
            batches: BatchWalks::default(),
            unverified: Unverified::default(),
            slots: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// What can be invoked.
    pub fn catalogue(&self) -> &Catalogue {
        &self.inner.catalogue
    }

    /// Answers everyone who waits for a change with what there is, so that a stop is not held up by them.
    pub fn stop_waiting(&self) {
        self.inner.closing.cancel();
    }

    /// Waits until everything that runs has ended. New walks may still be started; stop the doors first.
    pub async fn finish(&self) {
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
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
}
