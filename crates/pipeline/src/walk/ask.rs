//! All requests to a source. This is the only file that calls one. Every request has a time limit, and a panic in a source counts as a
//! broken source, not as a lost invocation.

#![expect(clippy::disallowed_methods, reason = "this is the one place where a source is asked")]

use super::ground::Walk;
use crate::catalogue::Definition;
use crate::walk::decide::Cleared;
use crate::walk::gate::Gated;
use crate::walk::stage::Stage;
use countersign_core::action::Class;
use countersign_core::effect::Check;
use countersign_core::invocation::Failure;
use countersign_core::limits::CALL_TIMEOUT_MS;
use countersign_core::source::{Asked, CallContext, Error, Output, Reconciled, SentAs, Source};
use countersign_core::{Invocation, OrgId, PrincipalId, Session};
use futures_util::FutureExt;
use serde_json::Value;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// The source to ask, and the call to ask about.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub(crate) source: &'a dyn Source,
    pub(crate) definition: &'a Definition,
    pub(crate) params: &'a Value,
    pub(crate) invocation: &'a Invocation,
}

/// Whether a source that is asked to reconcile may send the same request again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Again {
    No,
    /// Yes: that attempt has an intent of its own.
    Announced,
}

impl<'a> Subject<'a> {
    pub(crate) fn of(gated: &'a Gated, invocation: &'a Invocation) -> Self {
        let resolved = &gated.validated.resolved;
        Self { source: &*resolved.source, definition: &resolved.definition, params: &resolved.admitted.request.call.params, invocation }
    }

    pub(crate) fn asked(&self) -> Asked<'a> {
        let action = &self.definition.action;
        // The params of a pending call are sealed; `null` is passed in their place.
        let params = Some(self.params).filter(|params| params.is_object());
        Asked { action: &action.id, params, scope: &self.invocation.call.scope, code: action.package_sha256 }
    }

    /// The context for performing the effect. Its timeout is the caller's, up to the action's limit.
    fn context_of_effect(&self, walk: &Walk) -> CallContext {
        let mut context = self.context(walk);
        context.timeout_ms = self.invocation.call.bounds.timeout_ms.unwrap_or(u64::MAX).clamp(1, context.timeout_ms);
        context
    }

    /// The context for verifying, reconciling and reverting. The caller's shorter timeout does not apply, so it cannot leave an effect
    /// unchecked or in place.
    fn context(&self, walk: &Walk) -> CallContext {
        let Invocation { org, space, has_own_workspace, session, id, attempts, evidence, call, trace_id, .. } = self.invocation;
        CallContext {
            org: org.clone(),
            space: space.clone(),
            has_own_workspace: *has_own_workspace,
            session: session.clone(),
            invocation: id.clone(),
            // The tier of the call: a caller may say that a call of an action that reads does more.
            is_read: self.invocation.tier.class() == Class::Read,
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
            chain: None,
        }
    }
}

impl Walk {
    /// Asks whether such a call could be performed at all.
    ///
    /// This is asked for every call, so it takes no slot and passes only the facts of the call that it needs.
    pub(crate) async fn ask_whether_possible(&self, source: &dyn Source, asked: Asked<'_>) -> Result<(), Error> {
        // `check` is called inside the guarded future: a panic anywhere in it must not end the walk.
        answered(source.id().as_str(), CALL_TIMEOUT_MS, async { source.check(asked).await }).await
    }

    /// Asks as whom the requests of a call in this session would be sent. Like the question above, it is asked for every call.
    pub(super) async fn ask_as_whom(&self, source: &dyn Source, session: &Session) -> Result<Option<SentAs>, Error> {
        answered(source.id().as_str(), CALL_TIMEOUT_MS, async { source.sent_as(&session.org, &session.space).await }).await
    }

    /// Asks the source to prepare the effect and its rollback.
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

    /// Asks for the effect. It takes only a cleared call.
    pub(super) async fn ask_to_call(&self, cleared: &Cleared, invocation: &Invocation, failed: &[Check]) -> Result<Output, Error> {
        let subject = Subject::of(cleared.gated(), invocation);
        // What reaches nothing can lead back to nothing. Only our own sources are trusted to declare all their effects.
        let reaches_nothing = subject.source.is_builtin() && subject.definition.action.effects.is_empty();
        let chain = if reaches_nothing { None } else { self.chain_of(invocation).await };
        let context = CallContext { failed_checks: failed.to_vec(), chain, ..subject.context_of_effect(self) };
        self.bounded(&subject, &context, subject.source.call(&context, &subject.definition.action.id, subject.params)).await
    }

    /// What led to a call of an automation. It guards against loops; a call is not refused because it could not be read.
    async fn chain_of(&self, invocation: &Invocation) -> Option<String> {
        if !matches!(invocation.principal, PrincipalId::Automation(_)) {
            return None;
        }
        self.ledger().chain_of(&invocation.org, &invocation.session).await.ok().flatten()
    }

    pub(crate) async fn ask_for_preview(&self, gated: &Gated, invocation: &Invocation) -> Result<Output, Error> {
        let subject = Subject::of(gated, invocation);
        // The row of a pending call may be older than the members of its space.
        let context = CallContext { has_own_workspace: gated.has_own_workspace(), ..subject.context_of_effect(self) };
        self.bounded(&subject, &context, subject.source.preview(&context, &subject.definition.action.id, subject.params)).await
    }

    /// Asks the source to check the effect.
    pub(crate) async fn ask_to_verify(&self, subject: Subject<'_>, output: &Output) -> Result<Vec<Check>, Error> {
        let context = subject.context(self);
        let asked = subject.source.verify(&context, &subject.definition.action.id, subject.params, output);
        self.bounded_by(&subject, afterwards_ms(&context), asked).await
    }

    /// Asks the source to revert the effect. A rollback inside a call needs no clearance of its own; a revert on demand is a cleared call
    /// itself.
    pub(crate) async fn ask_to_revert(&self, subject: Subject<'_>, evidence: &Value) -> Result<Output, Error> {
        let context = subject.context(self);
        let asked = subject.source.revert(&context, &subject.definition.action.id, evidence);
        self.bounded_by(&subject, afterwards_ms(&context), asked).await
    }

    /// Asks whether an effect could be reverted at all.
    pub(crate) async fn ask_whether_revertible(&self, subject: Subject<'_>, evidence: &Value) -> Result<(), Error> {
        let context = subject.context(self);
        self.bounded(&subject, &context, subject.source.check_revert(&context, &subject.definition.action.id, evidence)).await
    }

    /// Asks what became of an effect whose outcome is unknown.
    pub(super) async fn ask_to_reconcile(&self, subject: Subject<'_>, again: Again) -> Result<Reconciled, Error> {
        let may_ask_again = again == Again::Announced;
        // The same request as before: it says the same of what led to it.
        let chain = if may_ask_again { self.chain_of(subject.invocation).await } else { None };
        let context = CallContext { may_ask_again, chain, ..subject.context(self) };
        self.bounded(&subject, &context, subject.source.reconcile(&context, &subject.definition.action.id, subject.params)).await
    }

    /// The slots of an org's source. They limit its concurrent requests, so a source that hangs delays only its own callers; one of another
    /// org may have the same name.
    fn slots_of(&self, org: &OrgId, source: &str) -> Arc<Semaphore> {
        let mut slots = self.inner.slots.lock();
        if let Some(known) = slots.get(org).and_then(|sources| sources.get(source)) {
            return Arc::clone(known);
        }
        let new = Arc::new(Semaphore::new(self.inner.settings.calls_per_source_max));
        slots.entry(org.clone()).or_default().insert(source.to_owned(), Arc::clone(&new));
        new
    }

    /// Runs one of the check commands that the caller wants to succeed after the effect.
    pub(crate) async fn ask_to_run_command(&self, subject: Subject<'_>, command: &str) -> Result<Check, Error> {
        let Some(commands) = &self.inner.commands else {
            return Ok(Check::failed(command, "this server runs no commands"));
        };
        let context = subject.context(self);
        let asked = commands.run(&context, subject.definition.action.id.source(), command);
        self.bounded_by(&subject, afterwards_ms(&context), asked).await
    }

    /// What the host's processors have used so far, if the host tells it.
    fn energy_uj(&self) -> Option<u64> {
        self.inner.energy.as_ref()?.total_uj()
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
        let slots = self.slots_of(&subject.invocation.org, subject.definition.action.id.source());
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
        let used_before = self.energy_uj();
        let answer = answered(subject.definition.action.id.source(), timeout_ms, asked).await;
        if let Some((before, after)) = used_before.zip(self.energy_uj()) {
            subject.invocation.meter.add_energy(after.saturating_sub(before));
        }
        if matches!(&answer, Err(Error::Unreachable { .. })) && subject.source.is_remote() {
            self.inner.catalogue.suspect(&subject.invocation.org, subject.definition.action.id.source());
        }
        answer
    }
}

async fn answered<T>(source_id: &str, timeout_ms: u64, asked: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    match tokio::time::timeout(Duration::from_millis(timeout_ms), AssertUnwindSafe(asked).catch_unwind()).await {
        Ok(Ok(answer)) => answer,
        // The panic message is in the server's log only; it may quote params.
        Ok(Err(_panic)) => Err(Error::Broken { source_id: source_id.to_owned(), message: "it stopped working, by a bug".to_owned() }),
        Err(_) => Err(Error::TimedOut { source_id: source_id.to_owned(), timeout_ms }),
    }
}

/// The limit for a check or a revert: its timeout and half of it again. The extra half is for waiting for a turn, so that the wait does not
/// shorten the work.
const fn afterwards_ms(context: &CallContext) -> u64 {
    context.timeout_ms + context.timeout_ms / 2
}

pub(crate) fn failure_of(error: &Error) -> Failure {
    Failure { code: error.code().into(), message: policy::redact_text(&error.to_string()) }
}

/// The failure of a call that leaves no doubt: a read or a dry run has no effect, however it broke off.
pub(crate) fn failure_without_effect(error: &Error) -> Failure {
    Failure { code: error.code().into(), message: policy::redact_text(&error.without_conclusion()) }
}
