//! Which workers perform a run: those of the queue that the definition names, or of the one that its longest step needs.

use super::facts::{ActionFacts, Facts, did_you_mean};
use super::{Definition, Step};
use crate::Mistake;
use crate::limits::{QUEUE_FAST_SECONDS, QUEUE_MEDIUM_SECONDS};
use countersign_core::limits::CALL_TIMEOUT_MS;

pub(super) const AUTO: &str = "auto";
const QUEUES: [&str; 4] = [AUTO, "fast", "medium", "long"];

pub(super) fn mistake(named: &str, facts: &Facts) -> Option<Mistake> {
    let declared = facts.queues.iter().map(String::as_str).filter(|name| !QUEUES.contains(name));
    let queues: Vec<_> = QUEUES.into_iter().chain(declared).collect();
    if queues.contains(&named) {
        return None;
    }
    let all = queues.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let hint = did_you_mean(named, queues, format!("write one of {all}"));
    Some(Mistake::new("queue_unknown", format!("there is no queue `{named}`")).hint(hint))
}

impl Definition {
    /// Whether the queue depends on what its steps took lately.
    pub fn is_queue_measured(&self) -> bool {
        self.execution.queue == AUTO
    }

    /// The queue of a run that starts now. `auto` is decided by the step that takes longest.
    pub fn queue(&self, facts: &Facts) -> &str {
        if self.execution.queue != AUTO {
            return &self.execution.queue;
        }
        let longest = self.plan.iter().map(|step| expected_ms(step, facts.actions.get(&step.action))).max().unwrap_or_default();
        if longest < QUEUE_FAST_SECONDS * 1_000 {
            "fast"
        } else if longest <= QUEUE_MEDIUM_SECONDS * 1_000 {
            "medium"
        } else {
            "long"
        }
    }
}

/// What was measured, else what it may take.
fn expected_ms(step: &Step, action: Option<&ActionFacts>) -> u64 {
    let allowed =
        || step.timeout_seconds.or_else(|| action.map(|action| action.timeout_seconds)).map(|seconds| seconds.saturating_mul(1_000));
    action.and_then(|action| action.p95_ms).or_else(allowed).unwrap_or(CALL_TIMEOUT_MS)
}
