//! An automation's definition: the whole program, as data. The engine only interprets it.
//!
//! `read` checks a definition against the facts of a space and tells all its mistakes at once. What it gives back is normalised: every
//! default is written in, every alias and shorthand is replaced, so that a later version of the engine does the same with it. The passes are
//! one file each; `schema` is the published form. Nothing here resolves inputs (`inputs`) or performs steps.

mod facts;
mod schema;
mod read;
mod bounds;
mod aliases;
mod shape;
mod codes;
mod input_schema;
mod triggers;
mod self_loop;
mod steps;
mod config;
mod dollars;
mod queue;
mod diff;
mod review;
pub(crate) mod parts;

pub use codes::CODES;
pub use diff::{Change, diff};
pub use facts::{ActionFacts, Facts};
pub use read::{Read, read};
pub use review::{review, templates};
pub use schema::{SCHEMA_ID, VERSIONS, schema};

pub(crate) use bounds::bytes;
pub(crate) use config::{Words, told};
pub(crate) use input_schema::{check_any, compile, is_bounded, is_token};

use crate::limits::{QUEUED_RUNS_DEFAULT, RUN_SECONDS_DEFAULT, STEP_RETRIES_DEFAULT, TRIGGER_RATE_DEFAULT, TRIGGER_RATE_SECONDS_DEFAULT};
use countersign_core::Amount;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// A definition in its normalised form. `read` makes one; a stored one deserialises.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    pub schema_version: String,
    pub name: String,
    #[serde(default)]
    pub goal: String,
    #[serde(default)]
    pub inputs: Inputs,
    /// Without one, only people start it.
    #[serde(default)]
    pub triggers: Vec<Trigger>,
    pub plan: Vec<Step>,
    #[serde(default)]
    pub execution: Execution,
    #[serde(default)]
    pub metadata: Map<String, Value>,
}

impl Definition {
    pub fn trigger(&self, id: &str) -> Option<&Trigger> {
        self.triggers.iter().find(|trigger| trigger.trigger_id == id)
    }
}

/// What a run is given, before its first step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inputs {
    /// JSON Schema 2020-12 of an object; a default may be one of `TOKENS`.
    pub schema: Value,
}

impl Default for Inputs {
    fn default() -> Self {
        Self { schema: json!({ "type": "object", "additionalProperties": false }) }
    }
}

/// What starts a run. Its id keeps its token and its history when the definition is edited.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trigger {
    pub trigger_id: String,
    #[serde(flatten)]
    pub kind: Kind,
}

impl Trigger {
    pub const fn input_mapping(&self) -> Option<&BTreeMap<String, String>> {
        match &self.kind {
            Kind::Schedule(schedule) => schedule.input_mapping.as_ref(),
            Kind::Webhook(webhook) => webhook.input_mapping.as_ref(),
            Kind::Event(event) => event.input_mapping.as_ref(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "config", rename_all = "snake_case")]
pub enum Kind {
    Schedule(Schedule),
    Webhook(Webhook),
    Event(Event),
}

impl Kind {
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Schedule(_) => "schedule",
            Self::Webhook(_) => "webhook",
            Self::Event(_) => "event",
        }
    }
}

/// The config of a schedule as `schedule::Schedule` writes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    pub cron: String,
    pub timezone: String,
    pub catch_up: Value,
    pub dst_gap: String,
    pub dst_overlap: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_mapping: Option<BTreeMap<String, String>>,
}

impl Schedule {
    /// The part that `schedule::Schedule::parse` reads.
    pub fn config(&self) -> Value {
        json!({ "cron": self.cron, "timezone": self.timezone, "catch_up": self.catch_up, "dst_gap": self.dst_gap,
            "dst_overlap": self.dst_overlap })
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Webhook {
    /// Over `event`, the body, and `inputs`, what it is mapped to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filters: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_mapping: Option<BTreeMap<String, String>>,
    #[serde(default)]
    pub signature: Signature,
    #[serde(default)]
    pub rate_limit: Rate,
}

/// How a webhook proves who sent it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signature {
    /// By the trigger's bearer token.
    #[default]
    None,
    /// By a signature of the body, instead of the token.
    StandardWebhooks,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    pub event_type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filters: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_mapping: Option<BTreeMap<String, String>>,
    #[serde(default)]
    pub rate_limit: Rate,
    /// How long no further event may come before the last one starts a run; 0: every event starts one.
    #[serde(default)]
    pub debounce_seconds: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<Batch>,
}

/// Firings beyond it are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    pub max: u32,
    pub per_seconds: u32,
}

impl Default for Rate {
    fn default() -> Self {
        Self { max: TRIGGER_RATE_DEFAULT, per_seconds: TRIGGER_RATE_SECONDS_DEFAULT }
    }
}

/// Events that start one run together, as its input `events`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Batch {
    pub max: u32,
    pub window_seconds: u32,
}

/// One call of one action.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    pub step_id: String,
    /// `<source>.<name>`, never an alias.
    pub action: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// The params of the action. A string in it may be a template.
    #[serde(default)]
    pub config: Map<String, Value>,
    /// The name under which later steps read its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_as: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_retries: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_backoff: Option<Backoff>,
    /// Absent: the action's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u64>,
    pub on_interrupted: OnInterrupted,
}

impl Step {
    /// Its own number, else the one of all steps.
    pub fn max_retries(&self, execution: &Execution) -> u32 {
        self.max_retries.unwrap_or(execution.max_retries)
    }

    pub fn retry_backoff(&self, execution: &Execution) -> Backoff {
        self.retry_backoff.unwrap_or(execution.retry_backoff)
    }
}

/// How long a step waits before it is tried again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backoff {
    None,
    Linear,
    #[default]
    Exponential,
}

/// What becomes of a step whose outcome nobody saw, where its source cannot tell either.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnInterrupted {
    Retry,
    Fail,
    AskHuman,
}

/// How runs are made of the plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Execution {
    /// Working time of a whole run; waiting for a person does not count.
    pub timeout_seconds: u64,
    pub max_retries: u32,
    pub retry_backoff: Backoff,
    pub concurrency: Concurrency,
    pub max_queued: MaxQueued,
    /// What one run may spend, exactly.
    #[serde(with = "dollars")]
    pub budget_cap_usd: Amount,
    pub chain_policy: ChainPolicy,
    /// A worker pool, or `auto`: see `Definition::queue`.
    pub queue: String,
    /// For the steps that do not say. It was written into each of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_interrupted: Option<OnInterrupted>,
    /// The step whose result is the run's; absent: the last that succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_from: Option<String>,
    pub on_failure: Vec<Step>,
}

impl Default for Execution {
    fn default() -> Self {
        Self {
            timeout_seconds: RUN_SECONDS_DEFAULT,
            max_retries: STEP_RETRIES_DEFAULT,
            retry_backoff: Backoff::default(),
            concurrency: Concurrency::default(),
            max_queued: MaxQueued::default(),
            budget_cap_usd: dollars::one(),
            chain_policy: ChainPolicy::default(),
            queue: queue::AUTO.to_owned(),
            on_interrupted: None,
            output_from: None,
            on_failure: Vec::new(),
        }
    }
}

/// What a firing does while a run of the same automation has not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Concurrency {
    #[default]
    DropIfRunning,
    Queue,
    AllowParallel,
}

/// How many runs wait with `queue`, and which firing is dropped when they are that many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "WrittenMaxQueued")]
pub struct MaxQueued {
    pub limit: u32,
    pub drop: Drop,
}

impl Default for MaxQueued {
    fn default() -> Self {
        Self { limit: QUEUED_RUNS_DEFAULT, drop: Drop::Newest }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Drop {
    #[default]
    Newest,
    Oldest,
}

/// A number is short for `{"limit": number, "drop": "newest"}`.
#[derive(Deserialize)]
#[serde(untagged)]
enum WrittenMaxQueued {
    Limit(u32),
    #[serde(rename_all = "snake_case")]
    Whole {
        #[serde(default = "queued_runs")]
        limit: u32,
        #[serde(default)]
        drop: Drop,
    },
}

const fn queued_runs() -> u32 {
    QUEUED_RUNS_DEFAULT
}

impl From<WrittenMaxQueued> for MaxQueued {
    fn from(written: WrittenMaxQueued) -> Self {
        match written {
            WrittenMaxQueued::Limit(limit) => Self { limit, drop: Drop::default() },
            WrittenMaxQueued::Whole { limit, drop } => Self { limit, drop },
        }
    }
}

/// Whether an event that a run caused may start it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChainPolicy {
    /// Unless this automation is among its causes.
    #[default]
    AvoidLoop,
    /// Never.
    IgnoreRuns,
    /// Always, up to the depth that holds for all.
    Allow,
}

#[cfg(test)]
#[path = "definition_tests.rs"]
mod tests;
