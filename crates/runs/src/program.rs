//! A definition that is ready to run: its templates and schedules are read once, not at every run.

use crate::params::Params;
use automation::definition::{Definition, Event as EventTrigger, Kind, Step};
use automation::filter::Filter;
use automation::matcher::{Event, Matcher};
use automation::schedule::Schedule;
use automation::template::{self, Names, Template};
use countersign_core::ports::runs::Gather;
use countersign_core::run::Phase;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Never changes: it is found by the digest of its definition.
#[derive(Debug)]
pub struct Program {
    pub definition: Definition,
    schedules: BTreeMap<String, Schedule>,
    /// Those of webhooks. Those of events are in an index.
    filters: BTreeMap<String, OwnFilter>,
    plan: Vec<StepProgram>,
    on_failure: Vec<StepProgram>,
}

/// The filter of one webhook. It is judged as those of events are, so the same bound of work holds for it.
#[derive(Clone, Debug)]
pub(crate) struct OwnFilter(Arc<Matcher<()>>);

impl OwnFilter {
    fn of(filter: &Filter) -> Self {
        Self(Arc::new(Matcher::of([((), None, "*", filter)])))
    }

    /// Whether it accepts the value; `None` if that would take too much work.
    pub(crate) fn accepts(&self, value: &Value) -> Option<bool> {
        let matched = self.0.matching(&Event { space: None, event_type: "webhook", value });
        matched.exceeding.is_empty().then_some(!matched.keys.is_empty())
    }
}

/// One step with its templates.
#[derive(Debug)]
pub(crate) struct StepProgram {
    pub(crate) definition: Step,
    pub(crate) when: Option<Template>,
    pub(crate) params: Params,
}

impl StepProgram {
    /// The longest that one call of it may take, if its definition says so.
    pub(crate) fn limit_ms(&self) -> Option<u64> {
        self.definition.timeout_seconds.map(|seconds| seconds.saturating_mul(1_000))
    }
}

impl Program {
    /// Reads a normalised definition. What was saved was checked, so an error means that we cannot read what we could read once.
    pub fn of(value: &Value) -> Result<Self, String> {
        let definition: Definition = serde_json::from_value(value.clone()).map_err(|error| error.to_string())?;
        let (mut schedules, mut filters) = (BTreeMap::new(), BTreeMap::new());
        for trigger in &definition.triggers {
            match &trigger.kind {
                Kind::Schedule(schedule) => {
                    let read = Schedule::parse(&schedule.config()).map_err(|mistakes| told(&mistakes))?;
                    schedules.insert(trigger.trigger_id.clone(), read);
                }
                Kind::Webhook(webhook) => {
                    let read = webhook.filters.as_ref().map(Filter::parse).transpose().map_err(|mistakes| told(&mistakes))?;
                    filters.extend(read.map(|filter| (trigger.trigger_id.clone(), OwnFilter::of(&filter))));
                }
                Kind::Event(_) => {}
            }
        }
        // What a template may read was checked when the definition was saved.
        let mut names = Names::default();
        let plan = steps(&definition.plan, &mut names)?;
        names.in_on_failure = true;
        let on_failure = steps(&definition.execution.on_failure, &mut names)?;
        Ok(Self { definition, schedules, filters, plan, on_failure })
    }

    pub fn schedule(&self, trigger: &str) -> Option<&Schedule> {
        self.schedules.get(trigger)
    }

    /// Whether it has something compiled to search texts with.
    pub(crate) fn searches(&self) -> bool {
        self.filters.values().any(|filter| filter.0.searches())
    }

    /// The filter of this webhook, if it has one.
    pub(crate) fn filter(&self, webhook: &str) -> Option<&OwnFilter> {
        self.filters.get(webhook)
    }

    /// How this trigger gathers; absent: each event starts a run.
    pub(crate) fn gather(&self, trigger: &str) -> Option<Gather> {
        let Kind::Event(EventTrigger { debounce_seconds, batch, .. }) = &self.definition.trigger(trigger)?.kind else {
            return None;
        };
        match (batch, debounce_seconds) {
            (Some(batch), _) => Some(Gather::Batch { max: batch.max, window_seconds: batch.window_seconds }),
            (None, 0) => None,
            (None, seconds) => Some(Gather::Debounce { seconds: *seconds }),
        }
    }

    pub(crate) fn steps(&self, phase: Phase) -> &[StepProgram] {
        match phase {
            Phase::Plan => &self.plan,
            Phase::OnFailure => &self.on_failure,
        }
    }
}

fn steps(written: &[Step], names: &mut Names) -> Result<Vec<StepProgram>, String> {
    let mut steps = Vec::with_capacity(written.len());
    for step in written {
        let when = step.when.as_deref().map(|when| template::check_predicate(when, names)).transpose();
        let when = when.map_err(|mistakes| told(&mistakes))?;
        let params = Params::of(&step.config, names).map_err(|mistakes| told(&mistakes))?;
        steps.push(StepProgram { definition: step.clone(), when, params });
        if let Some(name) = &step.output_as {
            names.outputs.insert(name.clone());
        }
    }
    Ok(steps)
}

fn told(mistakes: &[automation::Mistake]) -> String {
    mistakes.iter().map(|mistake| mistake.message.clone()).collect::<Vec<_>>().join("; ")
}
