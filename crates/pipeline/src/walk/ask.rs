//! The questions a source is asked. The only file that calls one; each answer is bounded in time, and a panic in a source is a
//! broken source, not a lost invocation.

#![expect(clippy::disallowed_methods, reason = "this is the one place where a source is asked")]

use super::ground::Walk;
use crate::catalogue::Definition;
use crate::walk::decide::Cleared;
use crate::walk::gate::Gated;
use crate::walk::stage::Stage;
use countersign_core::Invocation;
use countersign_core::effect::{Check, Reconciled};
use countersign_core::invocation::Failure;
use countersign_core::limits::CALL_TIMEOUT_MS;
use countersign_core::source::{Asked, CallContext, Error, Output, Source};
use futures_util::FutureExt;
use serde_json::Value;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// Whom to ask, and about what.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub(crate) source: &'a dyn Source,
    pub(crate) definition: &'a Definition,
    pub(crate) params: &'a Value,
    pub(crate) invocation: &'a Invocation,
}

/// Whether a source that is asked to reconcile may make the same request once more.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Again {
    No,
    /// The attempt has an intent of its own.
    Announced,
}

impl<'a> Subject<'a> {
    pub(crate) fn of(gated: &'a Gated, invocation: &'a Invocation) -> Self {
        let resolved = &gated.validated.resolved;
        Self { source: &*resolved.source, definition: &resolved.definition, params: &resolved.admitted.request.call.params, invocation }
    }

    pub(crate) fn asked(&self) -> Asked<'a> {
        let action = &self.definition.action;
        // What waits has its params sealed.
        let params = Some(self.params).filter(|params| params.is_object());
        Asked { action: &action.id, params, scope: &self.invocation.call.scope, code: action.package_sha256 }
    }

    /// What an effect is asked for with: for as long as its caller wants to wait, and no longer than the action may take.
    fn context_of_effect(&self, walk: &Walk) -> CallContext {
        let mut context = self.context(walk);
        context.timeout_ms = self.invocation.call.bounds.timeout_ms.unwrap_or(u64::MAX).clamp(1, context.timeout_ms);
        context
    }

    /// What it is looked at, looked for and taken back with: no caller's impatience leaves an effect unchecked, or there.
    fn context(&self, walk: &Walk) -> CallContext {
        let Invocation { org, space, session, id, attempts, evidence, call, trace_id, .. } = self.invocation;
        CallContext {
            org: org.clone(),
            space: space.clone(),
            session: session.clone(),
            invocation: id.clone(),
            attempt: (*attempts).max(1),
            timeout_ms: self.definition.action.timeout_ms.clamp(1, CALL_TIMEOUT_MS),
            prepared: evidence.clone(),
            failed_checks: Vec::new(),
            scope: call.scope.clone(),
            progress: walk.inner.progress.teller(id),
            meter: self.invocation.meter.clone(),
            code: self.definition.action.package_sha256,
            may_ask_again: false,
            trace_id: trace_id.clone(),
        }
    }
}

impl Walk {
    /// Whether such a call could be made at all.
    ///
    /// Every call is asked about, so this waits for no turn and knows no more of the call than it needs.
    pub(crate) async fn ask_whether_possible(&self, source: &dyn Source, asked: Asked<'_>) -> Result<(), Error> {
        // Asked within what is watched: a bug in a source must not end the walk, wherever in the answer it lies.
        answered(source.id().as_str(), CALL_TIMEOUT_MS, async { source.check(asked).await }).await
    }

    /// Makes ready what the effect needs and what undoes it.
    pub(super) async fn ask_to_prepare(
        &self,
        cleared: &Cleared,
        invocation: &Invocation,
        failed: &[Check],
    ) -> Result<Option<Value>, Error> {
        let subject = Subject::of(cleared.gated(), invocation);
        let context = CallContext { prepared: None, failed_checks: failed.to_vec(), ..subject.context_of_effect(self) };
        self.bounded(&subject, &context, subject.source.prepare(&context, &subject.definition.action.id, subject.params)).await
    }

    /// The effect. Takes what was cleared, and nothing else.
    pub(super) async fn ask_to_call(&self, cleared: &Cleared, invocation: &Invocation, failed: &[Check]) -> Result<Output, Error> {
        let subject = Subject::of(cleared.gated(), invocation);
        let context = CallContext { failed_checks: failed.to_vec(), ..subject.context_of_effect(self) };
        self.bounded(&subject, &context, subject.source.call(&context, &subject.definition.action.id, subject.params)).await
    }

    pub(crate) async fn ask_for_preview(&self, gated: &Gated, invocation: &Invocation) -> Result<Output, Error> {
        let subject = Subject::of(gated, invocation);
        let context = subject.context_of_effect(self);
        self.bounded(&subject, &context, subject.source.preview(&context, &subject.definition.action.id, subject.params)).await
    }

    /// Looks whether the effect is as it should be.
    pub(crate) async fn ask_to_verify(&self, subject: Subject<'_>, output: &Output) -> Result<Vec<Check>, Error> {
        let context = subject.context(self);
        let asked = subject.source.verify(&context, &subject.definition.action.id, subject.params, output);
        self.bounded_by(&subject, afterwards_ms(&context), asked).await
    }

    /// Takes the effect back. What was cleared to happen may always be undone; undoing it on demand is cleared as a call of its own.
    pub(crate) async fn ask_to_revert(&self, subject: Subject<'_>, evidence: &Value) -> Result<Output, Error> {
        let context = subject.context(self);
        let asked = subject.source.revert(&context, &subject.definition.action.id, evidence);
        self.bounded_by(&subject, afterwards_ms(&context), asked).await
    }

    /// Whether an effect could be taken back at all.
    pub(crate) async fn ask_whether_revertible(&self, subject: Subject<'_>, evidence: &Value) -> Result<(), Error> {
        let context = subject.context(self);
        self.bounded(&subject, &context, subject.source.check_revert(&context, &subject.definition.action.id, evidence)).await
    }

    /// Finds out what became of an effect nobody saw the end of.
    pub(super) async fn ask_to_reconcile(&self, subject: Subject<'_>, again: Again) -> Result<Reconciled, Error> {
        let context = CallContext { may_ask_again: again == Again::Announced, ..subject.context(self) };
        self.bounded(&subject, &context, subject.source.reconcile(&context, &subject.definition.action.id, subject.params)).await
    }

    /// So many questions at a time: a source that hangs holds up its own callers and nobody else.
    fn slots_of(&self, source: &str) -> Arc<Semaphore> {
        let mut slots = self.inner.slots.lock();
        if let Some(known) = slots.get(source) {
            return Arc::clone(known);
        }
        let new = Arc::new(Semaphore::new(self.inner.settings.calls_per_source_max));
        slots.insert(source.to_owned(), Arc::clone(&new));
        new
    }

    /// One of the commands that the caller wants to see succeed after the effect.
    pub(crate) async fn ask_to_run_command(&self, subject: Subject<'_>, command: &str) -> Result<Check, Error> {
        let Some(commands) = &self.inner.commands else {
            return Ok(Check::failed(command, "this server runs no commands"));
        };
        let context = subject.context(self);
        let asked = commands.run(&context, subject.definition.action.id.source(), command);
        self.bounded_by(&subject, afterwards_ms(&context), asked).await
    }

    async fn bounded<T>(
        &self,
        subject: &Subject<'_>,
        context: &CallContext,
        asked: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        self.bounded_by(subject, context.timeout_ms, asked).await
    }

    async fn bounded_by<T>(
        &self,
        subject: &Subject<'_>,
        timeout_ms: u64,
        asked: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let _timed = self.timed(Stage::Source);
        let source_id = || subject.definition.action.id.source().to_owned();
        let slots = self.slots_of(subject.definition.action.id.source());
        let _slot = match Arc::clone(&slots).try_acquire_owned() {
            Ok(slot) => slot,
            Err(_) => {
                if let Some(progress) = self.inner.progress.teller(&subject.invocation.id) {
                    let why = "as many calls of it are under way as may at once";
                    progress.tell(&format!("waiting for a turn of source `{}`: {why}", source_id()));
                }
                let Ok(Ok(slot)) = tokio::time::timeout(Duration::from_millis(timeout_ms), slots.acquire_owned()).await else {
                    let message = "too many calls of it are under way".to_owned();
                    return Err(Error::NoTurn { source_id: source_id(), message });
                };
                slot
            }
        };
        answered(subject.definition.action.id.source(), timeout_ms, asked).await
    }
}

async fn answered<T>(source_id: &str, timeout_ms: u64, asked: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    match tokio::time::timeout(Duration::from_millis(timeout_ms), AssertUnwindSafe(asked).catch_unwind()).await {
        Ok(Ok(answer)) => answer,
        // What it said is in the server's log; it may quote params.
        Ok(Err(_panic)) => Err(Error::Broken { source_id: source_id.to_owned(), message: "it stopped working, by a bug".to_owned() }),
        Err(_) => Err(Error::TimedOut { source_id: source_id.to_owned(), timeout_ms }),
    }
}

/// What looks at an effect, or takes it back, may wait for its turn half as long as it may then take: waiting takes nothing from its time.
const fn afterwards_ms(context: &CallContext) -> u64 {
    context.timeout_ms + context.timeout_ms / 2
}

pub(crate) fn failure_of(error: &Error) -> Failure {
    Failure { code: error.code().into(), message: policy::redact_text(&error.to_string()) }
}
