//! Metrics for each action: how its calls ended, how long they took, and what they cost. A call is counted once, when it ends.

use countersign_core::{ActionId, Invocation, Status};
use metrics::{Counter, Histogram};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// The metric handles of every action that was called since the start. A handle is looked up once: looking it up by its labels costs more
/// than counting with it.
#[derive(Default)]
pub(crate) struct Tally(Mutex<HashMap<ActionId, Arc<Handles>>>);

struct Handles {
    seconds: Histogram,
    retries: Counter,
    cpu_milliseconds: Counter,
    /// Made once the host has told it: where it does not, no number is an honest one.
    energy_microjoules: OnceLock<Counter>,
    /// By status and by the failure code, if there is one.
    ended: Mutex<HashMap<(Status, Option<String>), Counter>>,
}

impl Handles {
    fn new(action: &ActionId) -> Self {
        let action = action.to_string();
        Self {
            seconds: metrics::histogram!("countersign_action_seconds", "action" => action.clone()),
            retries: metrics::counter!("countersign_action_retries_total", "action" => action.clone()),
            cpu_milliseconds: metrics::counter!("countersign_action_cpu_milliseconds_total", "action" => action),
            energy_microjoules: OnceLock::new(),
            ended: Mutex::default(),
        }
    }
}

impl Tally {
    pub(crate) fn count(&self, invocation: &Invocation) {
        if !invocation.status.is_final() {
            return;
        }
        let handles = self.of(&invocation.action);
        if let (Some(started), Some(ended)) = (invocation.started_at, invocation.ended_at) {
            handles.seconds.record(ended.millis_since(started) as f64 / 1_000.0);
        }
        handles.retries.increment(invocation.attempts.saturating_sub(1).into());
        handles.cpu_milliseconds.increment(invocation.meter.cpu_ms().unwrap_or(0));
        if let Some(energy_uj) = invocation.meter.energy_uj() {
            let counter = || metrics::counter!("countersign_action_energy_microjoules_total", "action" => invocation.action.to_string());
            handles.energy_microjoules.get_or_init(counter).increment(energy_uj);
        }
        let code = invocation.failure.as_ref().map(|failure| failure.code.to_string());
        let mut ended = handles.ended.lock();
        let counter = ended.entry((invocation.status, code)).or_insert_with_key(|(status, code)| {
            let code = code.clone().unwrap_or_default();
            let action = invocation.action.to_string();
            metrics::counter!("countersign_action_ended_total", "action" => action, "status" => status.as_str(), "code" => code)
        });
        counter.increment(1);
    }

    fn of(&self, action: &ActionId) -> Arc<Handles> {
        let mut all = self.0.lock();
        if let Some(known) = all.get(action) {
            return known.clone();
        }
        let new = Arc::new(Handles::new(action));
        all.insert(action.clone(), new.clone());
        new
    }
}
