//! The engine: what its parts share.

use crate::due::Due;
use crate::error::Error;
use crate::program::Program;
use automation::template::Renderer;
use countersign_core::ports::{Artifacts, Automations, Claims, EventBus, EventFeed, Principals, Rules, Runs};
use countersign_core::{AutomationId, Clock, Digest, OrgId, Random, Timestamp, random_bytes};
use durable::heavy;
use parking_lot::Mutex;
use pipeline::Pipeline;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Definitions that are kept ready. They never change, so the oldest may go at any time.
const PROGRAMS_MAX: usize = 10_000;
/// Those of them whose webhooks have regexes: what is compiled of one definition may be some megabytes.
const SEARCHING_PROGRAMS_MAX: usize = 200;

/// Everything that the engine asks of the store.
pub trait Ledger: Artifacts + Automations + Runs + EventFeed + EventBus + Claims + Principals + Rules {}

impl<T: Artifacts + Automations + Runs + EventFeed + EventBus + Claims + Principals + Rules> Ledger for T {}

/// What the engine stands on.
pub struct Ports {
    pub ledger: Arc<dyn Ledger>,
    pub pipeline: Pipeline,
    pub renderer: Renderer,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
}

/// A pool of workers for runs that take about the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    pub name: String,
    /// How many runs of it this process works on at once.
    pub workers: usize,
}

#[derive(Clone, Debug)]
pub struct Settings {
    pub queues: Vec<Queue>,
}

/// Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Engine(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) ports: Ports,
    pub(crate) settings: Settings,
    programs: Mutex<HashMap<Digest, Arc<Program>>>,
    /// The queue of each automation whose queue is measured, and when that was done.
    pub(crate) queues: Mutex<HashMap<AutomationId, (Instant, String)>>,
    pub(crate) due: Due,
    /// A schedule may be due earlier than it was.
    pub(crate) schedule_changed: Notify,
}

impl Engine {
    pub fn new(ports: Ports, settings: Settings) -> Self {
        Self(Arc::new(Inner {
            due: Due::of(settings.queues.iter().map(|queue| queue.name.as_str())),
            ports,
            settings,
            programs: Mutex::default(),
            queues: Mutex::default(),
            schedule_changed: Notify::new(),
        }))
    }

    /// The names of the queues that this process knows.
    pub fn queues(&self) -> impl Iterator<Item = &str> {
        self.0.settings.queues.iter().map(|queue| queue.name.as_str())
    }

    /// Says that an automation was saved or changed: its schedules may be due earlier than was known.
    pub fn automations_changed(&self) {
        self.0.schedule_changed.notify_one();
    }

    /// The definition with this digest, ready to run.
    pub async fn program(&self, org: &OrgId, digest: Digest) -> Result<Arc<Program>, Error> {
        if let Some(program) = self.0.programs.lock().get(&digest) {
            return Ok(Arc::clone(program));
        }
        let unreadable = |message: String| Error::Unreadable { digest, message };
        let value = self.ledger().find_automation_definition(org, digest).await?;
        let value = value.ok_or_else(|| unreadable("it is not in the store".to_owned()))?;
        // It may have many regexes to compile.
        let program = Arc::new(heavy::compute(move || Program::of(&value)).await.map_err(unreadable)?);
        let mut programs = self.0.programs.lock();
        let searching = || programs.values().filter(|program| program.searches()).count();
        if programs.len() >= PROGRAMS_MAX || (program.searches() && searching() >= SEARCHING_PROGRAMS_MAX) {
            programs.clear();
        }
        programs.insert(digest, Arc::clone(&program));
        Ok(program)
    }

    pub(crate) fn ledger(&self) -> &dyn Ledger {
        &*self.0.ports.ledger
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.0.ports.clock.now()
    }

    pub(crate) fn draw<const N: usize>(&self) -> [u8; N] {
        random_bytes(&*self.0.ports.random)
    }
}
