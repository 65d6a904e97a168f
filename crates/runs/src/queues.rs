//! Which worker pool a run goes to. What its actions took lately decides, where the definition leaves it open; that is measured once in a
//! while, not at every firing.

use crate::engine::Engine;
use crate::error::Error;
use crate::program::Program;
use automation::definition::{ActionFacts, Facts};
use countersign_core::Mode;
use countersign_core::automation::Automation;
use countersign_core::run::Phase;
use std::time::Duration;
use tokio::time::Instant;

/// How long a measured queue is used.
const MEASURED_FOR: Duration = Duration::from_secs(60);

/// Automations whose queue is remembered.
const QUEUES_MAX: usize = 10_000;

impl Engine {
    /// The worker pool of a run. One that no worker of this process serves may be served by another process.
    pub(crate) async fn queue_of(&self, saved: &Automation, program: &Program) -> Result<String, Error> {
        if !program.definition.is_queue_measured() {
            return Ok(program.definition.queue(&Facts::default()).to_owned());
        }
        let known = self.0.queues.lock().get(&saved.id).filter(|(at, _)| at.elapsed() < MEASURED_FOR).map(|(_, queue)| queue.clone());
        if let Some(queue) = known {
            return Ok(queue);
        }
        let mut facts = Facts::default();
        for step in program.steps(Phase::Plan) {
            let named = &step.definition.action;
            let Some(action) = self.0.ports.pipeline.catalogue().find_listed(&saved.org, named).await else { continue };
            let p95_ms = self.ledger().measured_p95_ms(&saved.org, named).await?;
            facts.actions.insert(named.clone(), ActionFacts { p95_ms, ..ActionFacts::new(&action, Mode::Allow) });
        }
        let queue = program.definition.queue(&facts).to_owned();
        let mut queues = self.0.queues.lock();
        if queues.len() >= QUEUES_MAX {
            queues.clear();
        }
        queues.insert(saved.id.clone(), (Instant::now(), queue.clone()));
        Ok(queue)
    }
}
