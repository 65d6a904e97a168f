//! One step: whether it runs, with which params, and what its call came to.

use crate::error::Error;
use crate::program::StepProgram;
use crate::walk::Walk;
use automation::definition::OnInterrupted;
use automation::template::{self, Context, RenderError};
use countersign_core::artifact::{ArtifactRetention, Visibility};
use countersign_core::invocation::{Failure, Intention};
use countersign_core::limits::{STEP_OUTPUT_BYTES_MAX, STEP_OUTPUT_KEPT_BYTES_MAX};
use countersign_core::run::{Phase, StepRecord, StepStatus, WaitingFor};
use countersign_core::{ArtifactId, Call, Digest, Invocation, InvocationId, Status, Timestamp};
use pipeline::{Made, Outcome, Request};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::time::Duration;

/// How far a step came.
pub(crate) enum Stepped {
    Ended(StepRecord),
    Waits(Waits),
}

/// What a run waits for. Without `until` it is woken by the end of its call.
pub(crate) struct Waits {
    pub(crate) waiting_for: WaitingFor,
    pub(crate) invocation: Option<InvocationId>,
    pub(crate) until: Option<Timestamp>,
}

/// How a step ended, before it is recorded.
struct End {
    status: StepStatus,
    invocation: Option<InvocationId>,
    output: Option<Value>,
    failure: Option<Failure>,
}

impl Walk {
    pub(crate) async fn take_step(&mut self, step: &StepProgram) -> Result<Stepped, Error> {
        let started_at = self.engine.now();
        let taken = match self.run.invocation.clone() {
            // It was held, or its outcome was not known, when the run was saved.
            Some(invocation) => self.look_at(step, &invocation).await?,
            None => match self.prepare(step).await {
                Ok(Some(params)) => self.call(step, params).await?,
                Ok(None) => Ok(End { status: StepStatus::Skipped, invocation: None, output: None, failure: None }),
                Err(error) if error.is_transient() => return Ok(self.again(WaitingFor::Retry, Duration::from_secs(1))),
                Err(error) => Ok(End::failed(None, error.code(), error.to_string())),
            },
        };
        let end = match taken {
            Ok(end) => end,
            Err(waits) => return Ok(waits),
        };
        match self.keep_long_output(step, &end).await {
            Ok(artifact) => Ok(Stepped::Ended(self.record(step, started_at, end, artifact))),
            // The call has ended, and is not made again: the same key finds its outcome.
            Err(error) if error.is_passing() => Ok(self.again(WaitingFor::Retry, Duration::from_secs(1))),
            Err(error) => {
                let end = End::failed(end.invocation, "step_output_lost", format!("its output could not be kept: {error}"));
                Ok(Stepped::Ended(self.record(step, started_at, end, None)))
            }
        }
    }

    /// Keeps an output that is too long for the record of its step as an artifact.
    async fn keep_long_output(&self, step: &StepProgram, end: &End) -> Result<Option<ArtifactId>, pipeline::Error> {
        let pipeline = &self.engine.0.ports.pipeline;
        let Some(output) = end.output.as_ref().filter(|_| pipeline.keeps_artifacts()) else { return Ok(None) };
        let text = output.to_string();
        if text.len() <= STEP_OUTPUT_KEPT_BYTES_MAX {
            return Ok(None);
        }
        let made = Made {
            name: format!("{}.json", step.definition.step_id),
            media_type: "application/json".to_owned(),
            retention: ArtifactRetention::Default,
            visibility: Visibility::Space,
            bytes: text.into_bytes(),
        };
        let whose = (&self.run.org, &self.run.space, &self.run.session);
        Ok(Some(pipeline.keep_artifact(whose, end.invocation.as_ref(), made).await?.id))
    }

    /// The params of the call, or `None` if the step is not to run.
    async fn prepare(&self, step: &StepProgram) -> Result<Option<Value>, RenderError> {
        let context = self.context()?;
        let renderer = &self.engine.0.ports.renderer;
        if let Some(when) = &step.when
            && !renderer.evaluate_predicate(when, &context).await?
        {
            return Ok(None);
        }
        let schema = self.params_schema(step).await;
        step.params.render(renderer, &context, schema.as_ref()).await.map(Some)
    }

    fn context(&self) -> Result<Context, RenderError> {
        let failure = self.run.failure.as_ref().filter(|_| self.run.phase == Phase::OnFailure).map(|failure| template::Failure {
            step_id: failure.step_id.clone().unwrap_or_default(),
            code: failure.code.clone(),
            message: failure.message.clone(),
        });
        let run = template::Run {
            id: self.run.id.to_string(),
            started_at: self.run.started_at.unwrap_or(self.run.created_at),
            automation_id: self.run.automation.to_string(),
            automation_name: self.automation.name.clone(),
            automation_version: u64::from(self.run.version),
            trigger_type: self.run.trigger_type.to_string(),
            trigger_id: self.run.trigger.clone(),
            space_id: Some(self.run.space.to_string()),
            creator_id: format!("user:{}", self.automation.creator),
            attempt: 1,
            failure,
        };
        template::build_run_context(&run, self.run.inputs.clone(), self.outputs.clone())
    }

    /// The schema of the action's params as it is now; which leaves are texts depends on it.
    async fn params_schema(&self, step: &StepProgram) -> Option<Value> {
        let action = self.engine.0.ports.pipeline.catalogue().find_listed(&self.run.org, &step.definition.action).await?;
        Some(action.params_schema.clone())
    }

    async fn call(&self, step: &StepProgram, params: Value) -> Result<Result<End, Stepped>, Error> {
        let execution = &self.program.definition.execution;
        let left_ms = match self.run.phase {
            Phase::Plan => self.time_left_ms(),
            Phase::OnFailure => u64::MAX,
        };
        let mut call = Call::new(params);
        call.reason = Some(format!("step `{}` of the automation `{}`", step.definition.step_id, self.automation.name));
        call.bounds.retries_max = Some(step.definition.max_retries(execution));
        let asked_ms = step.definition.timeout_seconds.map(|seconds| seconds.saturating_mul(1_000));
        call.bounds.timeout_ms = Some(asked_ms.unwrap_or(u64::MAX).min(left_ms)).filter(|limit| *limit < u64::MAX);
        let request = Request {
            principal: self.principal.clone(),
            session: self.run.session.clone(),
            action: step.definition.action.clone(),
            call,
            idempotency_key: Some(self.key(step)),
            approval_ref: None,
            intention: Intention::Effect,
            reverses: None,
            trace_id: self.run.id.to_string(),
            line: None,
        };
        match self.engine.0.ports.pipeline.invoke(request).await {
            Ok(outcome) => self.judge(step, outcome).await,
            Err(error) => self.wait_or_fail(error),
        }
    }

    /// The same for the same step of the same run, whoever works on it.
    fn key(&self, step: &StepProgram) -> String {
        let text = format!("{} {} {} {}", self.run.org, self.run.id, self.run.phase.as_str(), step.definition.step_id);
        Digest::new(Sha256::digest(text).into()).to_string()
    }

    async fn look_at(&self, step: &StepProgram, invocation: &InvocationId) -> Result<Result<End, Stepped>, Error> {
        match self.engine.0.ports.pipeline.watch(&self.run.org, invocation, Duration::ZERO).await {
            Ok(row) => self.judge(step, Outcome::of(Box::new(row))).await,
            Err(error) => self.wait_or_fail(error),
        }
    }

    async fn judge(&self, step: &StepProgram, outcome: Outcome) -> Result<Result<End, Stepped>, Error> {
        match outcome {
            Outcome::Ended { invocation, result } => {
                let whole = self.engine.ledger().find_whole_result(&self.run.org, &invocation.id);
                // A result that was handed over is whole; one that was read may not be.
                let result = if result.as_ref().is_some_and(pipeline::is_truncated) { whole.await?.or(result) } else { result };
                Ok(Ok(ended(&invocation, result)))
            }
            Outcome::Replayed(invocation) => {
                let whole = self.engine.ledger().find_whole_result(&self.run.org, &invocation.id).await?;
                let result = whole.or_else(|| invocation.result.clone());
                Ok(Ok(ended(&invocation, result)))
            }
            Outcome::Pending(invocation) => Ok(Err(waits(WaitingFor::Approval, &invocation))),
            Outcome::InDoubt(invocation) => Ok(match step.definition.on_interrupted {
                OnInterrupted::Fail => {
                    Ok(End::failed(Some(invocation.id.clone()), "in_doubt", "nobody knows what became of its call".to_owned()))
                }
                OnInterrupted::AskHuman => Err(waits(WaitingFor::Person, &invocation)),
                OnInterrupted::Retry => Err(waits(WaitingFor::Reconcile, &invocation)),
            }),
        }
    }

    /// The call could not be made, or not now.
    fn wait_or_fail(&self, error: pipeline::Error) -> Result<Result<End, Stepped>, Error> {
        if let pipeline::Error::RateLimited { retry_after_ms, .. } = error {
            return Ok(Err(self.again(WaitingFor::Retry, Duration::from_millis(retry_after_ms.max(1)))));
        }
        // An earlier worker of this run began it, and it has not ended.
        if let pipeline::Error::IdempotencyInFlight { .. } = error {
            return Ok(Err(self.again(WaitingFor::Reconcile, Duration::from_secs(1))));
        }
        if let pipeline::Error::TooManyPending { .. } = error {
            return Ok(Err(self.again(WaitingFor::Retry, Duration::from_secs(60))));
        }
        if error.is_passing() {
            return Ok(Err(self.again(WaitingFor::Retry, Duration::from_secs(1))));
        }
        let failure = error.to_failure().unwrap_or_else(|| Failure { code: "internal".to_owned(), message: error.to_string() });
        Ok(Ok(End::failed(None, &failure.code, failure.message)))
    }

    fn record(&self, step: &StepProgram, started_at: Timestamp, end: End, artifact: Option<ArtifactId>) -> StepRecord {
        let End { status, invocation, output, failure } = end;
        StepRecord {
            phase: self.run.phase,
            index: self.run.step,
            step_id: step.definition.step_id.clone(),
            action: step.definition.action.clone(),
            status,
            invocation,
            output,
            artifact,
            failure,
            copied_from: None,
            started_at,
            ended_at: self.engine.now(),
        }
    }
}

impl End {
    fn failed(invocation: Option<InvocationId>, code: &str, message: String) -> Self {
        Self { status: StepStatus::Failed, invocation, output: None, failure: Some(Failure { code: code.to_owned(), message }) }
    }
}

fn waits(waiting_for: WaitingFor, invocation: &Invocation) -> Stepped {
    Stepped::Waits(Waits { waiting_for, invocation: Some(invocation.id.clone()), until: None })
}

fn ended(invocation: &Invocation, result: Option<Value>) -> End {
    let id = Some(invocation.id.clone());
    if invocation.status == Status::Succeeded {
        let size = result.as_ref().map_or(0, |result| result.to_string().len());
        if size > STEP_OUTPUT_BYTES_MAX {
            let message = format!("its output has {size} bytes, and at most {STEP_OUTPUT_BYTES_MAX} can be kept");
            return End::failed(id, "step_output_too_large", message);
        }
        return End { status: StepStatus::Succeeded, invocation: id, output: result, failure: None };
    }
    let (code, message) = match &invocation.failure {
        Some(failure) => (failure.code.clone(), failure.message.clone()),
        None => (invocation.status.to_string(), format!("its call ended as `{}`", invocation.status)),
    };
    End::failed(id, &code, message)
}
