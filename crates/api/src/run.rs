//! Runs on the wire: one execution of an automation's plan, step by step.

use crate::invocation::ReceiptRefView;
use countersign_core::automation::TriggerType;
use countersign_core::run::{Phase, Run, RunFailure, RunStatus, StepRecord, StepStatus, WaitingFor};
use countersign_core::{Timestamp, invocation::Failure};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// A run to be started by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RunAutomationRequest {
    /// What the definition's `inputs` ask for.
    #[serde(default = "no_inputs")]
    #[schema(value_type = BTreeMap<String, Value>)]
    pub inputs: Value,
}

impl Default for RunAutomationRequest {
    fn default() -> Self {
        Self { inputs: no_inputs() }
    }
}

fn no_inputs() -> Value {
    Value::Object(Map::new())
}

/// How a run is run once more.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RerunRequest {
    /// The step to begin with. What came before it is taken from the run, so the definition must still be that of the run; absent: all of it,
    /// with the version that is saved now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_step: Option<String>,
    /// Other inputs than those of the run. With `from_step` they must be the same: what came before the step came from them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Value>,
    /// Makes the inputs anew of what the trigger of the run was given, by the mapping that is saved now. Not together with `inputs`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub with_payload: bool,
}

/// One execution of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunView {
    pub id: String,
    pub automation_id: String,
    pub automation_name: Option<String>,
    pub space_id: String,
    /// The session in which its steps are called.
    pub session_id: String,
    pub version: u32,
    /// SHA-256 of the definition that it runs.
    pub digest: String,
    pub status: RunStatus,
    /// What it waits for, while it waits.
    pub waiting_for: Option<WaitingFor>,
    /// Null if it was asked for by name.
    pub trigger_id: Option<String>,
    pub trigger_type: TriggerType,
    pub firing_id: String,
    /// Redacted, as the params of calls are; null once the space of the run keeps no texts of it, and in lists.
    pub inputs: Value,
    /// What its trigger was given: the body of a webhook, an event, or the times of a schedule, redacted. Null in lists, if nothing is kept of it, or
    /// if no trigger started the run. At most 256 KB are kept, for 30 days.
    #[serde(default)]
    pub trigger_payload: Option<Value>,
    /// What the run came to: the result of its last step that succeeded, or of the one that `output_from` names. Of one that is longer than
    /// 64 KB only `{"artifact_id": …}`. Null in lists.
    pub output: Option<Value>,
    pub error: Option<RunErrorView>,
    /// Whether `on_failure` failed too.
    pub handler_failed: bool,
    /// The worker pool that performs it.
    pub queue: String,
    /// The list of steps that it is in, and the place of the step that is next or in progress, from 0 on.
    pub phase: Phase,
    pub step: u32,
    /// The call that it waits for.
    pub invocation_id: Option<String>,
    /// How long it has worked; waiting for a person does not count.
    pub worked_ms: u64,
    /// What its calls did cost so far, in dollars, such as `0.4`; what nobody has settled counts as what it may have cost. Null in lists.
    #[serde(default)]
    pub cost_usd: Option<String>,
    /// The actions of its calls that had no price: they count nothing in `cost_usd`. Empty in lists.
    #[serde(default)]
    pub unpriced: Vec<String>,
    /// How often it was taken up after its worker had gone.
    pub recoveries: u32,
    pub rerun_of: Option<String>,
    /// The automations whose runs led to it, the first cause first, and its own.
    pub chain: Vec<String>,
    pub root_run_id: String,
    /// Who asked for it by name, or for it once more.
    pub asked_by: Option<String>,
    pub cancelled_by: Option<String>,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    /// The steps that have ended; empty in lists.
    #[serde(default)]
    pub steps: Vec<StepView>,
}

impl RunView {
    pub fn new(run: Run, automation_name: Option<String>, steps: Vec<StepView>) -> Self {
        Self {
            id: run.id.to_string(),
            automation_id: run.automation.to_string(),
            automation_name,
            space_id: run.space.to_string(),
            session_id: run.session.to_string(),
            version: run.version,
            digest: run.definition.to_string(),
            status: run.status,
            waiting_for: run.waiting_for,
            trigger_id: run.trigger,
            trigger_type: run.trigger_type,
            firing_id: run.firing.to_string(),
            inputs: run.shown_inputs,
            trigger_payload: None,
            output: run.output,
            error: run.failure.map(RunErrorView::from),
            handler_failed: run.handler_failed,
            queue: run.queue,
            phase: run.phase,
            step: run.step,
            invocation_id: run.invocation.map(|invocation| invocation.to_string()),
            worked_ms: run.worked_ms,
            cost_usd: None,
            unpriced: Vec::new(),
            recoveries: run.recoveries,
            rerun_of: run.rerun_of.map(|run| run.to_string()),
            chain: run.chain.iter().map(ToString::to_string).collect(),
            root_run_id: run.root.to_string(),
            asked_by: run.asked_by.map(|by| by.to_string()),
            cancelled_by: run.cancelled_by.map(|by| by.to_string()),
            created_at: run.created_at,
            started_at: run.started_at,
            ended_at: run.ended_at,
            steps,
        }
    }

    /// A run in a list: without what may be long.
    pub fn listed(run: Run, automation_name: Option<String>) -> Self {
        Self { inputs: Value::Null, output: None, ..Self::new(run, automation_name, Vec::new()) }
    }
}

/// Why a run, or a step of it, failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunErrorView {
    pub code: String,
    pub message: String,
    /// The step that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_id: Option<String>,
}

impl From<RunFailure> for RunErrorView {
    fn from(failure: RunFailure) -> Self {
        Self { code: failure.code, message: failure.message, step_id: failure.step_id }
    }
}

impl From<Failure> for RunErrorView {
    fn from(failure: Failure) -> Self {
        Self { code: failure.code, message: failure.message, step_id: None }
    }
}

/// A step that has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StepView {
    pub phase: Phase,
    /// Its place in its list, from 0 on.
    pub index: u32,
    pub step_id: String,
    pub action: String,
    pub status: StepStatus,
    pub invocation_id: Option<String>,
    /// Where the receipt of its call stands.
    pub receipt: Option<ReceiptRefView>,
    /// Null where it is an artifact.
    pub output: Option<Value>,
    /// The artifact that is its output, because it is longer than 64 KB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_id: Option<String>,
    pub error: Option<RunErrorView>,
    /// The run that it was taken from, if it was not made in this one.
    pub copied_from: Option<String>,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
}

impl StepView {
    pub fn new(step: StepRecord, receipt: Option<ReceiptRefView>) -> Self {
        Self {
            phase: step.phase,
            index: step.index,
            step_id: step.step_id,
            action: step.action,
            status: step.status,
            invocation_id: step.invocation.map(|invocation| invocation.to_string()),
            receipt,
            output: step.output,
            artifact_id: step.artifact.map(|artifact| artifact.to_string()),
            error: step.failure.map(RunErrorView::from),
            copied_from: step.copied_from.map(|run| run.to_string()),
            started_at: step.started_at,
            ended_at: step.ended_at,
        }
    }
}
