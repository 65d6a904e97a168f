//! One run, from where it is to its end, or to where it waits. What it did is saved before its next effect, or
//! along with its next read. What a crash loses of that is read again, or found again: a step is invoked under a key that names the run and the
//! step, and the pipeline answers the same key with the same outcome.

use crate::engine::Engine;
use crate::error::Error;
use crate::program::Program;
use automation::definition::Concurrency;
use automation::limits::ON_FAILURE_SECONDS_MAX;
use countersign_core::automation::AutomationStatus;
use countersign_core::invocation::Failure;
use countersign_core::ports::runs::{Lease, SavedRun, Then};
use countersign_core::run::{Phase, Run, RunFailure, RunStatus, StepRecord, StepStatus, WaitingFor};
use countersign_core::{ArtifactId, InvocationId, Principal, PrincipalId, Status, Timestamp, ports};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The code of a run that took longer than it may.
pub(crate) const TIMED_OUT: &str = "timed_out";

/// Why nobody acts for a run any more: a code, and what it says.
type Nobody = (&'static str, &'static str);
const ARCHIVED: Nobody = ("automation_archived", "the automation is archived");
const INACTIVE: Nobody = ("creator_inactive", "whoever saved the automation may no longer act");

/// How soon a run is looked at again that could not go on because something is away.
const AGAIN: Duration = Duration::from_secs(1);

/// A wait that is not worth giving the run back for.
const SHORT: Duration = Duration::from_secs(1);

/// What others say to the walk of a run.
#[derive(Clone)]
pub(crate) struct Signals(Arc<Said>);

struct Said {
    cancelled: CancellationToken,
    is_lost: AtomicBool,
    stop: CancellationToken,
}

impl Signals {
    pub(crate) fn new(stop: CancellationToken) -> Self {
        Self(Arc::new(Said { cancelled: CancellationToken::new(), is_lost: AtomicBool::new(false), stop }))
    }

    /// Somebody asked for the end of the run.
    pub(crate) fn cancel(&self) {
        self.0.cancelled.cancel();
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.0.cancelled.is_cancelled()
    }

    /// The lease is somebody else's.
    pub(crate) fn lose(&self) {
        self.0.is_lost.store(true, Ordering::Relaxed);
    }
}

/// A run that is worked on.
pub(crate) struct Walk {
    pub(crate) engine: Engine,
    pub(crate) run: Run,
    pub(crate) program: Arc<Program>,
    pub(crate) principal: Principal,
    /// What later steps read of earlier ones.
    pub(crate) outputs: Map<String, Value>,
    pub(crate) lease: Lease,
    pub(crate) signals: Signals,
    steps: Vec<StepRecord>,
    /// Steps that have ended since the run was saved last.
    unsaved: Vec<StepRecord>,
    saving: Mutex<Option<Saving>>,
    began: Instant,
    /// What it had worked before, and what it is to wait before it is tried again.
    worked_before_ms: u64,
}

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
    /// Attempts of the step that have failed.
    pub(crate) attempts: u32,
}

/// Answers whether the lease was held when the run was saved.
type Saving = countersign_core::Future<'static, Result<bool, ports::Error>>;

impl Engine {
    /// Works on a run until it has ended, waits, or is somebody else's.
    pub(crate) async fn walk_run(self, lease: Lease, signals: Signals) {
        let run = lease.run.clone();
        match self.open(lease.clone(), signals).await {
            Ok(Some(walk)) => {
                if let Err(error) = walk.go().await {
                    tracing::warn!(%run, %error, "a run was left where it was saved last; it is taken up again");
                    self.give_back_later(lease).await;
                }
            }
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(%run, %error, "a run could not be taken up; it is tried again");
                self.give_back_later(lease).await;
            }
        }
    }

    /// Its worker lives, so it is not to be counted as one that takes its workers down. If this fails too, its lease ends by itself.
    async fn give_back_later(&self, lease: Lease) {
        tokio::time::sleep(AGAIN).await;
        let _given_back = self.ledger().give_back(lease).await;
    }

    async fn open(&self, lease: Lease, signals: Signals) -> Result<Option<Walk>, Error> {
        let Some(mut run) = self.ledger().find_run(&lease.org, &lease.run).await? else {
            return Ok(None);
        };
        let principal = self.acting(&run).await?;
        let program = self.program(&lease.org, run.definition).await;
        let has_steps = run.phase != Phase::Plan || run.step > 0;
        let steps = if has_steps { self.ledger().list_steps(&lease.org, &lease.run).await? } else { Vec::new() };
        run.started_at.get_or_insert_with(|| self.now());
        let (principal, program) = match (principal, program) {
            (Some(principal), Ok(program)) => (principal, program),
            (None, _) => {
                let (code, why) = self.nobody(&run).await?;
                self.end_at_once(lease, run, code, why).await?;
                return Ok(None);
            }
            (_, Err(Error::Unreadable { message, .. })) => {
                self.end_at_once(lease, run, "definition_unreadable", &message).await?;
                return Ok(None);
            }
            (_, Err(error)) => return Err(error),
        };
        let mut walk = Walk {
            engine: self.clone(),
            worked_before_ms: run.worked_ms,
            run,
            program,
            principal,
            outputs: Map::new(),
            lease,
            signals,
            unsaved: Vec::new(),
            saving: Mutex::default(),
            began: Instant::now(),
            steps: Vec::new(),
        };
        let goes_on = walk.run.cancelled_by.is_none() && !walk.signals.is_cancelled();
        for mut step in steps {
            // Only what later steps read is fetched, and nothing for a run that was cancelled.
            let is_needed = goes_on && step.output.is_none() && walk.output_name(&step).is_some();
            if let Some(artifact) = step.artifact.clone().filter(|_| is_needed) {
                let Some(output) = self.read_output(&walk.run, &artifact).await? else {
                    let why = format!("the output of step `{}` was an artifact, which is gone", step.step_id);
                    self.end_at_once(walk.lease, walk.run, "step_output_gone", &why).await?;
                    return Ok(None);
                };
                step.output = Some(output);
            }
            walk.note(step);
        }
        Ok(Some(walk))
    }

    /// The automation as it acts in this run: for whoever saved its version, as long as they may act.
    async fn acting(&self, run: &Run) -> Result<Option<Principal>, Error> {
        let acts_as = PrincipalId::Automation(run.automation.clone());
        Ok(self.ledger().find_principal_in(&run.org, &acts_as, &run.session).await?)
    }

    /// Why there is nobody to act for a run.
    async fn nobody(&self, run: &Run) -> Result<Nobody, Error> {
        let saved = self.ledger().find_automation(&run.org, &run.automation).await?;
        let is_archived = saved.is_some_and(|saved| saved.status == AutomationStatus::Archived);
        Ok(if is_archived { ARCHIVED } else { INACTIVE })
    }

    /// Takes back the question that the run waits for: the run ends without its answer.
    async fn leave_call(&self, run: &Run) {
        let Some(waited_for) = &run.invocation else { return };
        let caller = PrincipalId::Automation(run.automation.clone());
        if let Err(error) = self.0.ports.pipeline.cancel_call(&run.org, &caller, waited_for).await {
            tracing::warn!(run = %run.id, %error, "the call of a run that ends could not be cancelled");
        }
    }

    /// The output of a step that is an artifact; `None` if it is gone.
    pub(crate) async fn read_output(&self, run: &Run, artifact: &ArtifactId) -> Result<Option<Value>, Error> {
        let Some(found) = self.ledger().find_artifact(&run.org, artifact).await? else { return Ok(None) };
        // A person took it away from everybody.
        if found.quarantined_at.is_some() {
            return Ok(None);
        }
        let bytes = self.0.ports.pipeline.read_artifact(&found).await.map_err(unread)?;
        Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }

    async fn end_at_once(&self, lease: Lease, mut run: Run, code: &str, why: &str) -> Result<(), Error> {
        self.leave_call(&run).await;
        run.status = RunStatus::Failed;
        run.waiting_for = None;
        run.failure = Some(RunFailure { code: code.to_owned(), message: why.to_owned(), step_id: None });
        self.ledger().save_run(SavedRun { lease, run: Box::new(run), steps: Vec::new(), then: Then::End }).await?;
        Ok(())
    }
}

impl Walk {
    async fn go(mut self) -> Result<(), Error> {
        let signals = self.signals.clone();
        loop {
            if signals.0.is_lost.load(Ordering::Relaxed) {
                return Ok(());
            }
            if signals.is_cancelled() || self.run.cancelled_by.is_some() {
                return self.cancel().await;
            }
            let program = Arc::clone(&self.program);
            let Some(step) = program.steps(self.run.phase).get(self.run.step as usize) else {
                return self.end().await;
            };
            if self.time_left_ms() == 0 {
                let failure = Failure { code: TIMED_OUT.to_owned(), message: "the run took longer than it may".to_owned() };
                if !self.fail(&step.definition.step_id, failure) {
                    return self.end().await;
                }
                continue;
            }
            if signals.0.stop.is_cancelled() {
                return self.park(Some(self.engine.now())).await;
            }
            match self.engine.acting(&self.run).await? {
                Some(principal) => self.principal = principal,
                None => {
                    let (code, why) = self.engine.nobody(&self.run).await?;
                    // What follows a failure would act for them too: it is not begun.
                    self.fail(&step.definition.step_id, Failure { code: code.to_owned(), message: why.to_owned() });
                    return self.end().await;
                }
            }
            let stepped = tokio::select! {
                biased;
                stepped = self.take_step(step) => stepped?,
                // A step may take minutes. Whoever cancels its run does not wait for it; the call goes its way (`calling`).
                () = signals.0.cancelled.cancelled() => return self.cancel().await,
            };
            match stepped {
                Stepped::Ended(record) => {
                    let failure = record.failure.clone();
                    let is_skipped = record.status == StepStatus::Skipped;
                    self.run.invocation = None;
                    self.run.waiting_for = None;
                    self.run.attempts = 0;
                    self.run.step_recoveries = 0;
                    self.run.step += 1;
                    self.unsaved.push(record.clone().without_artifact_output());
                    self.note(record);
                    if let Some(failure) = failure
                        && !self.fail(&step.definition.step_id, failure)
                    {
                        return self.end().await;
                    }
                    // The last step is saved together with the end.
                    let Some(next) = program.steps(self.run.phase).get(self.run.step as usize) else { continue };
                    // Before a read it is enough that nothing of it is kept before what led to it. Before an effect, the lease has to be held.
                    let is_held = match self.engine.is_read(&self.run.org, next).await {
                        true if is_skipped => true,
                        true => self.save_along().await?,
                        false => self.save(Then::GoOn).await?,
                    };
                    if !is_held {
                        return Ok(());
                    }
                }
                Stepped::Waits(Waits { waiting_for, invocation, until, attempts }) => {
                    self.run.attempts = attempts;
                    self.run.invocation = invocation;
                    let wait = until.map(|until| Duration::from_millis(until.millis_since(self.engine.now())));
                    if let Some(wait) = wait.filter(|wait| waiting_for == WaitingFor::Retry && *wait <= SHORT) {
                        // Whoever takes the run up after a crash has to know of the attempt: it was paid, and counts.
                        if !self.save(Then::GoOn).await? {
                            return Ok(());
                        }
                        tokio::time::sleep(wait).await;
                        continue;
                    }
                    // What is not a person's time is the run's.
                    let waits_ms = wait.map_or(0, |wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
                    self.worked_before_ms = self.worked_before_ms.saturating_add(waits_ms);
                    self.run.status = RunStatus::Waiting;
                    self.run.waiting_for = Some(waiting_for);
                    return self.park(until).await;
                }
            }
        }
    }

    /// Goes on with `on_failure`. Returns false if that is not possible: the run has ended.
    fn fail(&mut self, step_id: &str, failure: Failure) -> bool {
        match self.run.phase {
            Phase::Plan => {
                self.run.failure = Some(RunFailure { code: failure.code, message: failure.message, step_id: Some(step_id.to_owned()) });
                self.run.phase = Phase::OnFailure;
                self.run.failed_at_ms = Some(self.worked_ms());
                self.run.attempts = 0;
                self.run.step_recoveries = 0;
                self.run.step = 0;
                self.run.invocation = None;
                self.run.waiting_for = None;
                true
            }
            Phase::OnFailure => {
                self.run.handler_failed = true;
                false
            }
        }
    }

    /// What is left of the working time of the plan, or of what follows its failure.
    pub(crate) fn time_left_ms(&self) -> u64 {
        let (seconds, since_ms) = match self.run.phase {
            Phase::Plan => (self.program.definition.execution.timeout_seconds, 0),
            Phase::OnFailure => (ON_FAILURE_SECONDS_MAX, self.run.failed_at_ms.unwrap_or_default()),
        };
        seconds.saturating_mul(1_000).saturating_sub(self.worked_ms().saturating_sub(since_ms))
    }

    fn worked_ms(&self) -> u64 {
        self.worked_before_ms.saturating_add(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    /// Keeps what later steps read.
    fn note(&mut self, step: StepRecord) {
        if let (Some(name), Some(output)) = (self.output_name(&step), &step.output) {
            self.outputs.insert(name, output.clone());
        }
        self.steps.push(step);
    }

    /// The name by which later steps read what this one put out.
    fn output_name(&self, step: &StepRecord) -> Option<String> {
        self.program.steps(step.phase).get(step.index as usize)?.definition.output_as.clone()
    }

    async fn cancel(mut self) -> Result<(), Error> {
        let at = match self.run.invocation.take() {
            Some(waited_for) => Some(waited_for),
            None => self.begun().await,
        };
        if let Some(at) = at {
            // If a person has answered it meanwhile, or if it has begun, it goes its way and has its receipt.
            match self.engine.0.ports.pipeline.cancel_call(&self.run.org, &self.principal.id, &at).await {
                Ok(call) if call.status == Status::Cancelled => {}
                // Whoever runs the step again has to know what became of it.
                Ok(call) => self.unsaved.extend(self.left(call.id)),
                Err(error) => tracing::warn!(run = %self.run.id, %error, "the call of a cancelled run could not be cancelled"),
            }
        }
        self.run.status = RunStatus::Cancelled;
        self.run.waiting_for = None;
        self.save(Then::End).await?;
        Ok(())
    }

    /// The call of the step that the run is at, if it has begun or waits for a person. An earlier worker may have begun it.
    async fn begun(&self) -> Option<InvocationId> {
        let step = self.program.steps(self.run.phase).get(self.run.step as usize)?;
        let (pipeline, action) = (&self.engine.0.ports.pipeline, step.definition.action.as_str());
        let begun = pipeline.begun_under(&self.run.org, &self.run.space, action, &self.key(step)).await;
        begun.unwrap_or_else(|error| {
            tracing::warn!(run = %self.run.id, %error, "the call that a cancelled run was at could not be looked for");
            None
        })
    }

    async fn end(mut self) -> Result<(), Error> {
        self.run.status = match &self.run.failure {
            None => RunStatus::Succeeded,
            Some(failure) if failure.code == TIMED_OUT => RunStatus::TimedOut,
            Some(_) => RunStatus::Failed,
        };
        self.run.waiting_for = None;
        self.run.invocation = None;
        if self.run.status == RunStatus::Succeeded {
            self.run.output = self.output();
        }
        let (status, trigger) = (self.run.status, self.run.trigger_type);
        if self.save(Then::End).await? {
            metrics::counter!("countersign_runs_total", "status" => status.as_str(), "trigger" => trigger.as_str()).increment(1);
            // The next run of the same automation may go on.
            if self.program.definition.execution.concurrency == Concurrency::Queue {
                self.engine.0.due.tell_all();
            }
        }
        Ok(())
    }

    /// The output of the step that the definition names, or of the last one that succeeded; or where it is, if it is long.
    fn output(&self) -> Option<Value> {
        let from = self.program.definition.execution.output_from.as_deref();
        let is_it = |step: &&StepRecord| {
            step.phase == Phase::Plan && step.status == StepStatus::Succeeded && from.is_none_or(|from| from == step.step_id)
        };
        let step = self.steps.iter().rev().find(is_it)?;
        match &step.artifact {
            Some(artifact) => Some(json!({ "artifact_id": artifact })),
            None => step.output.clone(),
        }
    }

    async fn park(&mut self, due_at: Option<Timestamp>) -> Result<(), Error> {
        self.save(Then::Park { due_at }).await?;
        Ok(())
    }

    /// Returns false if the lease is lost: then somebody else works on the run, and knows what this walk knows.
    async fn save(&mut self, then: Then) -> Result<bool, Error> {
        if !self.is_saved().await? {
            return Ok(false);
        }
        let saved = self.take_unsaved(then);
        let is_held = self.engine.ledger().save_run(saved).await?;
        Ok(self.note_lease(is_held))
    }

    /// Saves the run while its next step is on its way, which is a read: nothing that it writes is kept before. Returns false if the lease was
    /// lost when the run was saved before.
    async fn save_along(&mut self) -> Result<bool, Error> {
        if !self.is_saved().await? {
            return Ok(false);
        }
        let saved = self.take_unsaved(Then::GoOn);
        *self.saving.get_mut() = Some(self.engine.ledger().save_run_along(saved));
        Ok(true)
    }

    /// Waits until the run is saved that was on its way. Returns false if the lease is lost.
    async fn is_saved(&mut self) -> Result<bool, Error> {
        let is_held = match self.saving.get_mut().take() {
            Some(saving) => saving.await?,
            None => true,
        };
        Ok(self.note_lease(is_held))
    }

    fn take_unsaved(&mut self, then: Then) -> SavedRun {
        self.run.worked_ms = self.worked_ms();
        if then == Then::GoOn {
            self.run.status = RunStatus::Running;
        }
        let steps = std::mem::take(&mut self.unsaved);
        SavedRun { lease: self.lease.clone(), run: Box::new(self.run.clone()), steps, then }
    }

    fn note_lease(&self, is_held: bool) -> bool {
        if !is_held {
            metrics::counter!("countersign_runs_discarded_total").increment(1);
            tracing::warn!(run = %self.run.id, "its lease is lost: what was done since it was saved is found again by its keys");
        }
        is_held
    }

    /// Something is away, or has to be waited for.
    pub(crate) fn again(&self, waiting_for: WaitingFor, after: Duration) -> Waits {
        let after_micros = i64::try_from(after.as_micros()).unwrap_or(i64::MAX);
        let until = Timestamp::from_micros(self.engine.now().as_micros().saturating_add(after_micros));
        Waits { waiting_for, invocation: None, until: Some(until), attempts: self.run.attempts }
    }
}

/// Reading an artifact fails by the store or by where its bytes are.
fn unread(error: pipeline::Error) -> Error {
    if let pipeline::Error::Store(error) = &error {
        return Error::Store(error.clone());
    }
    Error::Store(ports::Error::Unavailable { message: error.to_string() })
}
