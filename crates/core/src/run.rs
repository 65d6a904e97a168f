//! Runs: one execution of an automation's plan, step by step.

use crate::automation::TriggerType;
use crate::invocation::{Failure, NOT_KEPT};
use crate::{ArtifactId, AutomationId, Digest, FiringId, InvocationId, OrgId, PrincipalId, RunId, SessionId, SpaceId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// Where a run is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// It has not begun: no worker has it yet, or another run of its automation is before it.
    Pending,
    Running,
    /// It waits, and no worker holds it: `WaitingFor` says for what.
    Waiting,
    Succeeded,
    Failed,
    TimedOut,
    Cancelled,
    /// It took its worker down again and again. A person has to look at it.
    Quarantined,
}

crate::words!(RunStatus {
    Pending = "pending", Running = "running", Waiting = "waiting", Succeeded = "succeeded", Failed = "failed", TimedOut = "timed_out",
    Cancelled = "cancelled", Quarantined = "quarantined",
});

impl RunStatus {
    /// A final status never changes.
    pub const fn is_final(self) -> bool {
        match self {
            Self::Pending | Self::Running | Self::Waiting => false,
            Self::Succeeded | Self::Failed | Self::TimedOut | Self::Cancelled | Self::Quarantined => true,
        }
    }

    /// The event that announces this status; a run that is only recorded is announced when it starts.
    pub const fn event_name(self) -> &'static str {
        match self {
            Self::Pending | Self::Running => "automation.run.started",
            Self::Waiting => "automation.run.waiting",
            Self::Succeeded => "automation.run.succeeded",
            Self::Failed => "automation.run.failed",
            Self::TimedOut => "automation.run.timed_out",
            Self::Cancelled => "automation.run.cancelled",
            Self::Quarantined => "automation.run.quarantined",
        }
    }
}

/// What a run waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WaitingFor {
    /// A person's answer to the call of its step.
    Approval,
    /// The time of the next attempt.
    Retry,
    /// What became of the call of its step.
    Reconcile,
    /// A person who says how to go on.
    Person,
}

/// Which list of steps a run is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    #[default]
    Plan,
    OnFailure,
}

crate::words!(Phase { Plan = "plan", OnFailure = "on_failure" });

/// Why a run failed, and at which step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFailure {
    pub code: String,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_id: Option<String>,
}

impl RunFailure {
    /// Takes out the sentence, which may repeat what the run was given. The code stays.
    pub fn forget_message(&mut self) {
        NOT_KEPT.clone_into(&mut self.message);
    }
}

/// One execution of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    pub id: RunId,
    pub org: OrgId,
    pub automation: AutomationId,
    pub space: SpaceId,
    /// The session in which its steps are invoked. It has no other.
    pub session: SessionId,
    pub version: u32,
    /// The definition that it runs, whatever is saved meanwhile.
    pub definition: Digest,
    pub status: RunStatus,
    pub waiting_for: Option<WaitingFor>,
    pub trigger: Option<String>,
    pub trigger_type: TriggerType,
    pub firing: FiringId,
    /// What its templates read: checked and complete. They are stored sealed, in a column of their own, and absent where the run was not read
    /// to be worked on, or where its space no longer keeps them.
    #[serde(skip)]
    pub inputs: Option<Value>,
    /// The inputs as people see them: redacted. Null where its space no longer keeps them.
    pub shown_inputs: Value,
    pub output: Option<Value>,
    pub failure: Option<RunFailure>,
    /// Whether `on_failure` failed too.
    #[serde(default)]
    pub handler_failed: bool,
    pub queue: String,
    #[serde(default)]
    pub phase: Phase,
    /// The step of the phase that is next, or in progress.
    pub step: u32,
    /// The call of that step, while it is waited for.
    pub invocation: Option<InvocationId>,
    /// Attempts of that step which have failed, and may be followed by another.
    #[serde(default)]
    pub attempts: u32,
    /// How long it has worked, and waited for a further attempt; waiting for a person does not count.
    pub worked_ms: u64,
    /// How long it had worked when its plan failed.
    #[serde(default)]
    pub failed_at_ms: Option<u64>,
    /// How often it was taken up after its worker had gone.
    pub recoveries: u32,
    /// How many of these were at the step in progress.
    #[serde(default)]
    pub step_recoveries: u32,
    pub rerun_of: Option<RunId>,
    /// The automations whose runs led to this one, the first cause first, and this one's own.
    pub chain: Vec<AutomationId>,
    /// The first run of the chain.
    pub root: RunId,
    /// Who asked for it by name, or for it once more.
    #[serde(default)]
    pub asked_by: Option<PrincipalId>,
    /// Who asked for its end.
    pub cancelled_by: Option<PrincipalId>,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
}

/// What a trigger was given when it fired, and which trigger that was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriggerPayload {
    pub trigger: String,
    pub value: Value,
}

impl Run {
    /// The same without its texts: inputs, output, and why it failed.
    #[must_use]
    pub fn without_texts(mut self) -> Self {
        (self.inputs, self.shown_inputs, self.output) = (None, Value::Null, None);
        if let Some(failure) = &mut self.failure {
            failure.forget_message();
        }
        self
    }
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    Succeeded,
    Failed,
    /// It took longer than it may, or than was left to its run.
    TimedOut,
    /// Its `when` was false.
    Skipped,
}

/// One step of a run that has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    pub phase: Phase,
    /// Its place in its phase, from 0 on.
    pub index: u32,
    pub step_id: String,
    pub action: String,
    pub status: StepStatus,
    pub invocation: Option<InvocationId>,
    /// Absent where it is an artifact.
    pub output: Option<Value>,
    /// The artifact that is its output, because it is too long to stand here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<ArtifactId>,
    pub failure: Option<Failure>,
    /// The run that it was taken from, if it was not made in this one.
    pub copied_from: Option<RunId>,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
}

impl StepRecord {
    /// As it is saved: without an output that is an artifact.
    #[must_use]
    pub fn without_artifact_output(self) -> Self {
        let output = if self.artifact.is_some() { None } else { self.output };
        Self { output, ..self }
    }

    /// The same without its texts: its output, and why it failed. The digest of what its call answered is in the call's receipt.
    #[must_use]
    pub fn without_texts(mut self) -> Self {
        self.output = None;
        if let Some(failure) = &mut self.failure {
            failure.forget_message();
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_is_read_back_as_itself_and_only_ends_are_final() {
        for status in RunStatus::ALL {
            assert_eq!(RunStatus::parse(status.as_str()), Some(status));
            assert_eq!(serde_json::json!(status), status.as_str());
            assert!(status.event_name().starts_with("automation.run."));
        }
        assert_eq!(RunStatus::ALL.iter().filter(|status| status.is_final()).count(), 5);
    }
}
