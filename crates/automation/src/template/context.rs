//! What a template reads: facts about the run, its inputs, and the outputs of earlier steps.

use super::error::{Reason, RenderError};
use crate::limits::TEMPLATE_OUTPUT_BYTES_MAX;
use countersign_core::Timestamp;
use countersign_core::run::RunFailure;
use minijinja::value::Serde;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// The facts that every template sees as `run`.
#[derive(Clone, Debug)]
pub struct Run {
    pub id: String,
    pub started_at: Timestamp,
    pub automation_id: String,
    pub automation_name: String,
    pub automation_version: u64,
    pub trigger_type: String,
    /// Absent for a run that a person started.
    pub trigger_id: Option<String>,
    pub space_id: Option<String>,
    pub creator_id: String,
    /// Which attempt of the step this is, counted from 1.
    pub attempt: u32,
    /// Present in the steps of `on_failure`.
    pub failure: Option<Failure>,
}

/// Why a run failed.
#[derive(Clone, Debug)]
pub struct Failure {
    pub step_id: String,
    pub code: String,
    pub message: String,
}

impl From<&RunFailure> for Failure {
    fn from(failure: &RunFailure) -> Self {
        let RunFailure { code, message, step_id } = failure.clone();
        Self { step_id: step_id.unwrap_or_default(), code, message }
    }
}

/// The data of one render. It is converted for the engine once, and only what is read.
#[derive(Debug, Default)]
pub struct Context(BTreeMap<String, Member>);

#[derive(Debug)]
struct Member {
    json: Value,
    converted: OnceLock<minijinja::Value>,
}

impl Context {
    /// Refuses a string that is too large to be worked on.
    pub fn new(members: impl IntoIterator<Item = (String, Value)>) -> Result<Self, RenderError> {
        let members: BTreeMap<_, _> = members.into_iter().map(|(name, json)| (name, Member { json, converted: OnceLock::new() })).collect();
        match members.iter().find(|(_, member)| has_large_string(&member.json)) {
            None => Ok(Self(members)),
            Some((name, _)) => {
                let message = format!("`{name}` holds a string of more than {TEMPLATE_OUTPUT_BYTES_MAX} bytes, which no template may read");
                Err(RenderError::new(Reason::TooLarge, message))
            }
        }
    }

    pub(super) fn json(&self, name: &str) -> Option<&Value> {
        self.0.get(name).map(|member| &member.json)
    }

    pub(super) fn converted(&self, name: &str) -> Option<minijinja::Value> {
        let member = self.0.get(name)?;
        Some(member.converted.get_or_init(|| Serde(&member.json).into()).clone())
    }
}

fn has_large_string(value: &Value) -> bool {
    match value {
        Value::String(text) => text.len() > TEMPLATE_OUTPUT_BYTES_MAX,
        Value::Array(items) => items.iter().any(has_large_string),
        Value::Object(members) => members.iter().any(|(key, value)| key.len() > TEMPLATE_OUTPUT_BYTES_MAX || has_large_string(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// The context of a step: `run`, `inputs`, and the outputs of earlier steps by their names.
pub fn build_run_context(run: &Run, inputs: Value, outputs: Map<String, Value>) -> Result<Context, RenderError> {
    let mut facts = json!({
        "id": run.id,
        "started_at": run.started_at,
        "automation_id": run.automation_id,
        "automation_name": run.automation_name,
        "automation_version": run.automation_version,
        "trigger_type": run.trigger_type,
        "trigger_id": run.trigger_id,
        "space_id": run.space_id,
        "search_space_id": run.space_id,
        "creator_id": run.creator_id,
        "attempt": run.attempt,
    });
    if let (Some(failure), Some(facts)) = (&run.failure, facts.as_object_mut()) {
        facts.insert("failed_step_id".to_owned(), json!(failure.step_id));
        facts.insert("error".to_owned(), json!({ "code": failure.code, "message": failure.message, "step_id": failure.step_id }));
    }
    // `run` and `inputs` come last: no output may stand in their place.
    let ours = [("run".to_owned(), facts), ("inputs".to_owned(), inputs)];
    Context::new(outputs.into_iter().chain(ours))
}
