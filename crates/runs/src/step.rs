//! One step: whether it runs, with which params, and what its call came to.

use crate::backoff;
use crate::engine::Engine;
use crate::error::Error;
use crate::limits::{STEP_OUTPUT_BYTES_MAX, STEP_OUTPUT_KEPT_BYTES_MAX};
use crate::program::StepProgram;
use crate::walk::{Stepped, TIMED_OUT, Waits, Walk};
use automation::definition::OnInterrupted;
use automation::template::{self, Context, RenderError};
use countersign_core::action::Class;
use countersign_core::artifact::{ArtifactRetention, Visibility};
use countersign_core::automation::TriggerType;
use countersign_core::call::Label;
use countersign_core::invocation::Failure;
use countersign_core::limits::{LEASE_SILENT_SECONDS, SOURCE_EARLY_MS};
use countersign_core::ports::runs::Reserved;
use countersign_core::run::{Phase, StepRecord, StepStatus, WaitingFor};
use countersign_core::{Action, ArtifactId, Call, Digest, Invocation, InvocationId, OrgId, Status, Timestamp, source};
use pipeline::{Made, Outcome, Request};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::sync::Arc;
use std::time::Duration;

/// The code of a step whose next attempt would come after its run has to have ended.
const TOO_LATE: &str = "retry_after_exceeds_deadline";

/// How soon a step is looked at again that cannot go on because something is away.
const SOON: Duration = Duration::from_secs(1);

/// The limit that a call ran into which had less time than its action may take.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Limit {
    OfStep,
    /// What was left to the run.
    OfRun,
}

/// How a step ended, before it is recorded.
struct End {
    status: StepStatus,
    invocation: Option<InvocationId>,
    output: Option<Value>,
    failure: Option<Failure>,
}

impl Engine {
    /// The action as it is now; which leaves of the params are texts depends on its schema.
    pub(crate) async fn action_of(&self, org: &OrgId, step: &StepProgram) -> Option<Arc<Action>> {
        self.0.ports.pipeline.catalogue().find_listed(org, &step.definition.action).await
    }

    pub(crate) async fn is_read(&self, org: &OrgId, step: &StepProgram) -> bool {
        self.action_of(org, step).await.is_some_and(|action| action.tier.class() == Class::Read)
    }
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
                Err(error) if error.is_transient() => return Ok(Stepped::Waits(self.again(WaitingFor::Reconcile, SOON))),
                // It may quote what the template was given.
                Err(error) => Ok(End::failed(None, error.code(), pipeline::redact_text(&error.to_string()))),
            },
        };
        let end = match taken {
            Ok(end) => end,
            Err(waits) => return Ok(waits),
        };
        match self.keep_long_output(step, &end).await {
            Ok(artifact) => Ok(Stepped::Ended(self.record(step, started_at, end, artifact))),
            // The call has ended, and is not made again.
            Err(error) if error.is_passing() => {
                Ok(Stepped::Waits(Waits { invocation: end.invocation, ..self.again(WaitingFor::Retry, SOON) }))
            }
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
        let action = self.engine.action_of(&self.run.org, step).await;
        let schema = action.as_ref().map(|action| &action.params_schema);
        step.params.render(renderer, &context, schema).await.map(Some)
    }

    fn context(&self) -> Result<Context, RenderError> {
        let failure = self.run.failure.as_ref().filter(|_| self.run.phase == Phase::OnFailure).map(template::Failure::from);
        let run = template::Run {
            id: self.run.id.to_string(),
            started_at: self.run.started_at.unwrap_or(self.run.created_at),
            automation_id: self.run.automation.to_string(),
            automation_name: self.program.definition.name.clone(),
            automation_version: u64::from(self.run.version),
            trigger_type: self.run.trigger_type.to_string(),
            trigger_id: self.run.trigger.clone(),
            space_id: Some(self.run.space.to_string()),
            creator_id: self.principal.owner.as_ref().map(|owner| format!("user:{owner}")).unwrap_or_default(),
            attempt: self.run.attempts.saturating_add(1),
            failure,
        };
        template::build_run_context(&run, self.run.inputs.clone().unwrap_or_default(), self.outputs.clone())
    }

    async fn call(&self, step: &StepProgram, params: Value) -> Result<Result<End, Stepped>, Error> {
        if self.run.recoveries > 0
            && let Err(error) = self.take_over(step).await
        {
            return self.wait_or_fail(step, error);
        }
        // Who worked on the run before may have made the call: with what an earlier step gave then, if that was not saved. Its key may have
        // expired, too, while nobody worked on the run.
        if self.lease.token > 1
            && let Some(made) = self.engine.ledger().find_made(&self.run.org, &self.run.session, &self.key(step)).await?
        {
            return self.judge(step, Outcome::Replayed(Box::new(made))).await;
        }
        let execution = &self.program.definition.execution;
        let left_ms = self.time_left_ms();
        match self.reserve(step, self.run.attempts).await? {
            Reserved::Done => {}
            Reserved::TooMuch => {
                let message = format!("with this call the run could cost more than ${}", execution.budget_cap_usd);
                return Ok(Ok(End::failed(None, "budget_exceeded", message)));
            }
            Reserved::Lost => return Ok(Err(Stepped::Waits(self.again(WaitingFor::Reconcile, SOON)))),
        }
        let mut call = Call::new(params);
        call.provenance = step.params.provenance(&|member| self.label_of(member));
        call.reason = Some(format!("step `{}` of the automation `{}`", step.definition.step_id, self.program.definition.name));
        // What the pipeline tries again itself, such as a call that a person approved, are attempts of the step.
        call.bounds.retries_max = Some(step.definition.max_retries(execution).saturating_sub(self.run.attempts));
        call.bounds.timeout_ms = Some(step.limit_ms().unwrap_or(u64::MAX).min(left_ms)).filter(|limit| *limit < u64::MAX);
        let request = Request::new(self.principal.clone(), self.run.session.clone(), step.definition.action.as_str(), call);
        let request = Request { idempotency_key: Some(self.key(step)), trace_id: self.run.id.to_string(), ..request };
        let entry = self.entry_of(step, self.run.attempts).await;
        match self.make(request, entry).await {
            Ok(outcome) => self.judge(step, outcome).await,
            Err(error) => self.wait_or_fail(step, error),
        }
    }

    /// Settles the call that an earlier worker of this run may have begun, once that worker's server is silent. Otherwise the run would have
    /// to wait until it is gone.
    async fn take_over(&self, step: &StepProgram) -> Result<(), pipeline::Error> {
        let pipeline = &self.engine.0.ports.pipeline;
        let action = step.definition.action.as_str();
        let Some(begun) = pipeline.begun_under(&self.run.org, &self.run.space, action, &self.key(step)).await? else {
            return Ok(());
        };
        for _ in 0..=LEASE_SILENT_SECONDS {
            if !pipeline.take_over(&self.run.org, &begun).await? {
                return Ok(());
            }
            pipeline.watch(&self.run.org, &begun, SOON).await?;
        }
        Ok(())
    }

    /// Where a member of the context comes from: inputs from whoever started the run, everything but `run` from earlier steps, and in what
    /// follows a failure `run` too, because it tells what a step said of it.
    fn label_of(&self, member: &str) -> Label {
        match (member, self.run.trigger_type, self.run.phase) {
            ("inputs", TriggerType::Webhook | TriggerType::Event, _) => Label::Web,
            ("inputs", TriggerType::Schedule | TriggerType::Manual, _) | ("run", _, Phase::Plan) => Label::User,
            (_, _, Phase::Plan | Phase::OnFailure) => Label::ActionOutput,
        }
    }

    /// The same for the same step of the same run, whoever works on it.
    pub(crate) fn key(&self, step: &StepProgram) -> String {
        let text = format!("{} {} {} {}", self.run.org, self.run.id, self.run.phase.as_str(), step.definition.step_id);
        Digest::new(Sha256::digest(text).into()).to_string()
    }

    async fn look_at(&self, step: &StepProgram, invocation: &InvocationId) -> Result<Result<End, Stepped>, Error> {
        let pipeline = &self.engine.0.ports.pipeline;
        let row = match pipeline.watch(&self.run.org, invocation, Duration::ZERO).await {
            // A person may have had it made again after it was in doubt. Then that call is the step's.
            Ok(row) => pipeline.made_again(&row).await.map(|again| again.unwrap_or(row)),
            Err(error) => Err(error),
        };
        match row {
            Ok(row) => self.judge(step, Outcome::of(Box::new(row))).await,
            Err(error) => self.wait_or_fail(step, error),
        }
    }

    async fn judge(&self, step: &StepProgram, mut outcome: Outcome) -> Result<Result<End, Stepped>, Error> {
        let retries_max = step.definition.max_retries(&self.program.definition.execution);
        // Whoever took the run up before may have repeated it already.
        let mut attempts = self.run.attempts;
        loop {
            match outcome {
                Outcome::Ended { invocation, result } => {
                    self.settle(step, attempts, &invocation).await?;
                    if pipeline::is_void_by_rules(&invocation) {
                        // The rules changed while a person was asked. Those in force now decide.
                        return Ok(Err(Stepped::Waits(self.again(WaitingFor::Retry, Duration::ZERO))));
                    }
                    let limit = self.limit_reached(step, &invocation).await;
                    if let Some(again) = self.after_failure(step, attempts, &invocation).filter(|_| limit != Some(Limit::OfRun)) {
                        return Ok(again);
                    }
                    let whole = self.engine.ledger().find_whole_result(&self.run.org, &invocation.id);
                    // A result that was handed over is whole; one that was read may not be.
                    let result = if result.as_ref().is_some_and(pipeline::is_truncated) { whole.await?.or(result) } else { result };
                    return Ok(Ok(ended(&invocation, result, limit)));
                }
                Outcome::Replayed(invocation) => {
                    self.settle(step, attempts, &invocation).await?;
                    let whole = self.engine.ledger().find_whole_result(&self.run.org, &invocation.id).await?;
                    let result = whole.or_else(|| invocation.result.clone());
                    let limit = self.limit_reached(step, &invocation).await;
                    return Ok(Ok(ended(&invocation, result, limit)));
                }
                Outcome::Pending(invocation) => return Ok(Err(waits(WaitingFor::Approval, &invocation, attempts))),
                Outcome::InDoubt(invocation) => match step.definition.on_interrupted {
                    OnInterrupted::Fail => {
                        let why = "nobody knows what became of its call".to_owned();
                        return Ok(Ok(End::failed(Some(invocation.id.clone()), "in_doubt", why)));
                    }
                    OnInterrupted::AskHuman => return Ok(Err(waits(WaitingFor::Person, &invocation, attempts))),
                    OnInterrupted::Retry if attempts >= retries_max => return Ok(Err(waits(WaitingFor::Person, &invocation, attempts))),
                    OnInterrupted::Retry => {
                        let again = self.again(WaitingFor::Reconcile, SOON);
                        let soon = Waits { invocation: Some(invocation.id.clone()), attempts, ..again };
                        match self.reserve(step, attempts + 1).await? {
                            Reserved::Done => {}
                            // A person can say what became of it, which costs nothing.
                            Reserved::TooMuch => return Ok(Err(waits(WaitingFor::Person, &invocation, attempts))),
                            Reserved::Lost => return Ok(Err(Stepped::Waits(soon))),
                        }
                        match self.engine.0.ports.pipeline.repeat_doubted(&self.principal, &invocation.id).await {
                            Ok(Some(again)) => {
                                attempts += 1;
                                outcome = again;
                            }
                            // The action is another one by now: a second effect could do harm.
                            Ok(None) => return Ok(Err(waits(WaitingFor::Person, &invocation, attempts))),
                            // What became of it is being found out, or was found out just now.
                            Err(pipeline::Error::Reconciling { .. } | pipeline::Error::NotInDoubt { .. }) => {
                                return Ok(Err(Stepped::Waits(soon)));
                            }
                            Err(error) => return self.wait_or_fail(step, error),
                        }
                    }
                },
            }
        }
    }

    /// The limit that a call ran into, if it was cut off before its action's own time was over.
    async fn limit_reached(&self, step: &StepProgram, invocation: &Invocation) -> Option<Limit> {
        invocation.failure.as_ref().filter(|failure| source::is_time_out(&failure.code))?;
        // A source gives up a little before its time is over.
        if self.time_left_ms() <= SOURCE_EARLY_MS {
            return Some(Limit::OfRun);
        }
        let bounds = &invocation.call.bounds;
        self.engine.action_of(&self.run.org, step).await.filter(|action| bounds.shortens(action))?;
        Some(if bounds.timeout_ms == step.limit_ms() { Limit::OfStep } else { Limit::OfRun })
    }

    /// What follows a call that failed and may be made again, as long as attempts are left: another one, after a while. `before` it so many
    /// attempts had failed.
    fn after_failure(&self, step: &StepProgram, before: u32, invocation: &Invocation) -> Option<Result<End, Stepped>> {
        let failure = invocation.failure.as_ref().filter(|_| invocation.aftermath.may_be_made_again)?;
        if invocation.status != Status::Failed {
            return None;
        }
        let execution = &self.program.definition.execution;
        let attempts = before.saturating_add(invocation.attempts.max(1));
        if attempts > step.definition.max_retries(execution) {
            return None;
        }
        let asked_ms = invocation.aftermath.retry_after_ms.unwrap_or_default();
        let random = u64::from_be_bytes(self.engine.draw());
        let wait = backoff::wait(step.definition.retry_backoff(execution), attempts, random, asked_ms);
        if wait >= Duration::from_millis(self.time_left_ms()) {
            let message = format!("{}; the next attempt would come too late for the run", failure.message);
            return Some(Ok(End::failed(Some(invocation.id.clone()), TOO_LATE, message)));
        }
        Some(Err(Stepped::Waits(Waits { attempts, ..self.again(WaitingFor::Retry, wait) })))
    }

    /// The call could not be made, or not now.
    fn wait_or_fail(&self, step: &StepProgram, error: pipeline::Error) -> Result<Result<End, Stepped>, Error> {
        let later = |waiting_for, after| Ok(Err(Stepped::Waits(self.again(waiting_for, after))));
        if let pipeline::Error::RateLimited { retry_after_ms, .. } = error {
            let wait = Duration::from_millis(retry_after_ms.max(1));
            if wait >= Duration::from_millis(self.time_left_ms()) {
                return Ok(Ok(End::failed(None, TOO_LATE, error.to_string())));
            }
            return later(WaitingFor::Retry, wait);
        }
        // An earlier worker of this run began it, and it has not ended.
        if let pipeline::Error::IdempotencyInFlight { .. } = error {
            return later(WaitingFor::Reconcile, SOON);
        }
        if let pipeline::Error::TooManyPending { .. } = error {
            return later(WaitingFor::Retry, Duration::from_secs(60));
        }
        // It began, and what became of it is not written yet. The same key finds it.
        if let pipeline::Error::Unrecorded { .. } = error {
            return later(WaitingFor::Reconcile, SOON);
        }
        // It broke off by a bug, perhaps after it had begun. The same key finds it, or makes it; but not for ever.
        let attempts = self.run.attempts.saturating_add(1);
        if matches!(error, pipeline::Error::Internal { .. }) && attempts <= step.definition.max_retries(&self.program.definition.execution)
        {
            return Ok(Err(Stepped::Waits(Waits { attempts, ..self.again(WaitingFor::Reconcile, SOON) })));
        }
        if error.is_passing() {
            return later(WaitingFor::Reconcile, SOON);
        }
        let failure = error.to_failure().unwrap_or_else(|| Failure { code: "internal".to_owned(), message: error.to_string() });
        Ok(Ok(End::failed(None, &failure.code, failure.message)))
    }

    /// The step that the run is at, whose call had begun when the run was cancelled.
    pub(crate) fn left(&self, begun: InvocationId) -> Option<StepRecord> {
        let step = self.program.steps(self.run.phase).get(self.run.step as usize)?;
        let message = "the run was cancelled while its call was under way; the call ends by itself";
        let end = End::failed(Some(begun), "cancelled", message.to_owned());
        Some(self.record(step, self.engine.now(), end, None))
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

    fn timed_out(invocation: InvocationId, limit: Limit) -> Self {
        let message = match limit {
            Limit::OfStep => "the step took longer than it may",
            Limit::OfRun => "the run took longer than it may",
        };
        Self { status: StepStatus::TimedOut, ..Self::failed(Some(invocation), TIMED_OUT, message.to_owned()) }
    }
}

/// Waits for the end of the call.
fn waits(waiting_for: WaitingFor, invocation: &Invocation, attempts: u32) -> Stepped {
    Stepped::Waits(Waits { waiting_for, invocation: Some(invocation.id.clone()), until: None, attempts })
}

fn ended(invocation: &Invocation, result: Option<Value>, limit: Option<Limit>) -> End {
    if let Some(limit) = limit {
        return End::timed_out(invocation.id.clone(), limit);
    }
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
