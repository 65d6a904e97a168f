//! Stage 8: the effect. What undoes it first, then the intent, durably; then the source; then what is known of the outcome.

use super::admit::Admitted;
use super::ask::{Subject, failure_of};
use super::decide::Cleared;
use super::doubt::leaves_doubt;
use super::gate::Gated;
use super::ground::{Walk, Walking};
use super::hold::Void;
use super::intent::{Announcement, Started, approval_body, needs_intent};
use super::replay::Taken;
use crate::catalogue::Definition;
use crate::error::Error;
use countersign_core::action::Reversibility;
use countersign_core::effect::{Check, Reconciled};
use countersign_core::invocation::{Announced, Intention};
use countersign_core::keyring::SpaceKey;
use countersign_core::ledger::Row;
use countersign_core::source::{self, AfterError, Output, Source};
use countersign_core::{Digest, Invocation, Status};
use receipt::body::ApprovalBody;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

pub(crate) enum Executed {
    /// The source answered, or is known not to have done anything.
    Done(Box<Done>),
    /// It may have happened.
    InDoubt(Box<Invocation>),
    /// Another call under the same idempotency key was first.
    Elsewhere(Box<Taken>),
    /// The approval could not be used any more.
    Void(Box<Void>),
    /// A rule changed, or the grant was used up: nothing has happened, and it is decided again.
    RulesChanged(Box<Admitted>),
}

/// A call that the source answered, one way or the other.
pub(crate) struct Done {
    pub(crate) origin: Origin,
    pub(crate) source: Arc<dyn Source>,
    pub(crate) definition: Arc<Definition>,
    pub(crate) invocation: Box<Invocation>,
    pub(crate) row: Row,
    pub(crate) answer: Result<Output, source::Error>,
    pub(crate) policy_slice: Digest,
    pub(crate) approval: Option<ApprovalBody>,
    pub(crate) key: Arc<dyn SpaceKey>,
    pub(crate) idempotency: Option<Digest>,
    /// Recovery leaves it alone until its outcome is recorded.
    pub(crate) walking: Option<Walking>,
}

/// What a call that was answered is made of.
pub(crate) enum Origin {
    Cleared(Box<Cleared>),
    Previewed(Box<Gated>),
    /// A crash left it behind: it was cleared then, and can be looked at, taken back and recorded now, but not made again.
    LeftBehind {
        params: Value,
    },
}

impl Walk {
    pub(crate) async fn execute(&self, cleared: Cleared) -> Result<Executed, Error> {
        let mut invocation = cleared.gated().to_invocation(Status::Running, cleared.decision());
        invocation.attempts = 1;
        invocation.started_at = Some(self.now());
        invocation.grant = cleared.grant().cloned();
        let profile = cleared.gated().validated.resolved.action().profile.as_str().to_owned();
        invocation.announced = Some(Announced { policy_slice: cleared.policy_slice(), profile });
        let target = match self.breaker(&cleared).await? {
            Ok(target) => target,
            Err(open) => {
                invocation.attempts = 0;
                let walking = self.inner.walking.join(&invocation.id);
                return Ok(Executed::Done(Box::new(Done::cleared(cleared, invocation, Row::Insert, Err(open), walking))));
            }
        };
        self.label_before(cleared.gated()).await?;
        self.inner.progress.decided(&invocation.id, cleared.rules_version());
        // Before its row is there: whatever runs and is not being walked was left behind.
        let walking = self.inner.walking.join(&invocation.id);
        let (row, ready) = if needs_intent(&cleared) {
            let ready = self.make_ready(&cleared, &mut invocation, &[]).await?;
            self.fault("execute.prepared");
            match self.begin(&cleared, &mut invocation).await? {
                Started::Row(row) => {
                    self.inner.progress.intended(&invocation.id);
                    (row, ready)
                }
                Started::Void(void) => return Ok(Executed::Void(void)),
                Started::Elsewhere(taken) => return Ok(Executed::Elsewhere(taken)),
                Started::RulesChanged => return Ok(Executed::RulesChanged(cleared.undecided())),
            }
        } else {
            (Row::Insert, Ok(()))
        };
        self.fault("execute.intended");
        let answer = self.attempt(&cleared, &mut invocation, &row, ready).await?;
        self.count_outcome(&cleared, target, &answer).await;
        self.fault("execute.effected");
        let answer = match answer {
            Err(error) if leaves_doubt(&error, &invocation) => Box::pin(self.look_again(&cleared, &mut invocation, error)).await?,
            known => known,
        };
        invocation.ended_at = Some(self.now());
        if let Err(error) = &answer
            && leaves_doubt(error, &invocation)
        {
            invocation.failure = Some(failure_of(error));
            return self.doubt(invocation, Some(walking)).await.map(Executed::InDoubt);
        }
        Ok(Executed::Done(Box::new(Done::cleared(cleared, invocation, row, answer, walking))))
    }

    /// What undoes the effect is kept before it. An error here is the answer of the attempt: nothing has happened.
    pub(crate) async fn make_ready(
        &self,
        cleared: &Cleared,
        invocation: &mut Invocation,
        failed: &[Check],
    ) -> Result<Result<(), source::Error>, Error> {
        if invocation.reverses.is_some() {
            invocation.evidence = self.kept_by_reversed(invocation).await?;
            return Ok(Ok(()));
        }
        Ok(match self.ask_to_prepare(cleared, invocation, failed).await {
            Err(error) => Err(certain(error)),
            Ok(None) if cleared.gated().validated.resolved.action().reversibility == Reversibility::Reversible => {
                let message = format!("`{}` says it can be taken back, and its source keeps nothing to do so with", invocation.action);
                Err(source::Error::Refused { code: "rollback_evidence_missing", message })
            }
            Ok(evidence) => {
                invocation.evidence = evidence;
                Ok(())
            }
        })
    }

    /// Tries until the source answers, or an error is not transient, or the attempts are used up.
    async fn attempt(
        &self,
        cleared: &Cleared,
        invocation: &mut Invocation,
        row: &Row,
        mut ready: Result<(), source::Error>,
    ) -> Result<Result<Output, source::Error>, Error> {
        loop {
            let answer = match ready {
                Ok(()) => self.once(cleared, invocation, &[]).await,
                Err(error) => Err(error),
            };
            let Err(error) = &answer else {
                return Ok(answer);
            };
            // A transient error says that nothing was done: only then is another try safe.
            if !error.is_transient() || self.asks_for_too_long(error) || invocation.attempts >= self.attempts_max(invocation) {
                return Ok(answer);
            }
            tokio::time::sleep(self.backoff(invocation.attempts, error)).await;
            if *row == Row::Insert {
                invocation.attempts += 1;
                ready = Ok(());
                continue;
            }
            let mut next = Box::new(invocation.clone());
            next.attempts += 1;
            ready = Box::pin(self.make_ready(cleared, &mut next, &[])).await?;
            // Without its own intent there is no other try: what the last one answered is the outcome.
            if !Box::pin(self.begin_again(cleared, &next, Some(cleared.rules_version()))).await? {
                return Ok(answer);
            }
            *invocation = *next;
        }
    }

    /// How often an effect is tried at most: as often as we would, and no more often than its caller wants.
    pub(crate) fn attempts_max(&self, invocation: &Invocation) -> u32 {
        let wanted = invocation.call.bounds.retries_max.map_or(u32::MAX, |retries| retries.saturating_add(1));
        self.inner.settings.attempts_max.min(wanted)
    }

    /// The effect, once: what was asked for, or its undoing.
    pub(crate) async fn once(&self, cleared: &Cleared, invocation: &Invocation, failed: &[Check]) -> Result<Output, source::Error> {
        match (invocation.intention, &invocation.evidence) {
            (Intention::Effect | Intention::DryRun, _) => self.ask_to_call(cleared, invocation, failed).await,
            (Intention::Revert, Some(evidence)) => self.ask_to_revert(Subject::of(cleared.gated(), invocation), evidence).await,
            (Intention::Revert, None) => {
                let message = "nothing was kept to take it back with".to_owned();
                Err(source::Error::Refused { code: "not_reversible", message })
            }
        }
    }

    /// Nobody knows whether it happened; the source may be able to tell.
    pub(crate) async fn look_again(
        &self,
        cleared: &Cleared,
        invocation: &mut Invocation,
        error: source::Error,
    ) -> Result<Result<Output, source::Error>, Error> {
        // Taking back what is taken back already changes nothing: what cannot be seen to be done is asked for once more.
        if invocation.intention == Intention::Revert {
            return Ok(self.once(cleared, invocation, &[]).await.map_err(|_| error));
        }
        let found = self.find_out(Subject::of(cleared.gated(), invocation), &self.announcement(cleared)).await?;
        if let Some(tried) = found.tried {
            *invocation = *tried;
        }
        Ok(match found.reconciled {
            Ok(Reconciled::Happened(output)) => Ok(output),
            Ok(Reconciled::DidNot) => {
                Err(source::Error::Failed { code: error.code(), message: format!("{error}; it was looked for, and did not happen") })
            }
            Ok(Reconciled::Unknown | Reconciled::ByAskingAgain) | Err(_) => Err(error),
        })
    }

    /// Whether the source wants to be left alone for longer than anybody would wait: then it is.
    pub(crate) fn asks_for_too_long(&self, error: &source::Error) -> bool {
        matches!(error, source::Error::Busy { retry_after_ms: Some(asked_ms), .. } if *asked_ms > self.inner.settings.ladder.cap_ms)
    }

    /// How long to wait before another try.
    pub(crate) fn backoff(&self, attempts: u32, error: &source::Error) -> Duration {
        let asked_ms = match error {
            source::Error::Busy { retry_after_ms, .. } => retry_after_ms.unwrap_or(0),
            source::Error::Unreachable { .. }
            | source::Error::NoTurn { .. }
            | source::Error::TimedOut { .. }
            | source::Error::Broken { .. }
            | source::Error::Refused { .. }
            | source::Error::Failed { .. }
            | source::Error::WorkspaceElsewhere
            | source::Error::PreviewUnsupported { .. } => 0,
        };
        self.inner.settings.ladder.wait(attempts, u64::from_be_bytes(self.random_bytes()), asked_ms)
    }
}

impl Done {
    fn cleared(cleared: Cleared, invocation: Box<Invocation>, row: Row, answer: Result<Output, source::Error>, walking: Walking) -> Self {
        let validated = &cleared.gated().validated;
        Self {
            source: Arc::clone(&validated.resolved.source),
            definition: Arc::clone(&validated.resolved.definition),
            invocation,
            row,
            answer,
            policy_slice: cleared.policy_slice(),
            approval: approval_body(&cleared),
            key: Arc::clone(&validated.key),
            idempotency: validated.idempotency_digest(),
            origin: Origin::Cleared(Box::new(cleared)),
            walking: Some(walking),
        }
    }

    pub(crate) fn previewed(
        gated: Gated,
        policy_slice: Digest,
        invocation: Box<Invocation>,
        answer: Result<Output, source::Error>,
    ) -> Self {
        Self {
            source: Arc::clone(&gated.validated.resolved.source),
            definition: Arc::clone(&gated.validated.resolved.definition),
            invocation,
            row: Row::Insert,
            answer,
            policy_slice,
            approval: None,
            key: Arc::clone(&gated.validated.key),
            idempotency: None,
            origin: Origin::Previewed(Box::new(gated)),
            walking: None,
        }
    }

    pub(crate) fn subject(&self) -> Subject<'_> {
        let params = match &self.origin {
            Origin::Cleared(cleared) => &cleared.gated().validated.resolved.admitted.request.call.params,
            Origin::Previewed(gated) => &gated.validated.resolved.admitted.request.call.params,
            Origin::LeftBehind { params } => params,
        };
        Subject { source: &*self.source, definition: &self.definition, params, invocation: &self.invocation }
    }

    pub(crate) fn announcement(&self) -> Announcement {
        Announcement {
            approval: self.approval.clone(),
            grant: self.invocation.grant.clone(),
            idempotency: self.idempotency,
            profile: self.definition.action.profile.as_str().to_owned(),
            key: Arc::clone(&self.key),
        }
    }
}

impl Origin {
    /// What goes back to be decided again, where nothing was announced.
    pub(crate) fn undecided(self) -> Option<Box<Admitted>> {
        match self {
            Self::Cleared(cleared) => Some(cleared.undecided()),
            Self::Previewed(gated) => Some(gated.undecided()),
            Self::LeftBehind { .. } => None,
        }
    }
}

/// Preparing changes nothing, so whatever stops it leaves no doubt.
fn certain(error: source::Error) -> source::Error {
    match error.after() {
        AfterError::NoEffect => error,
        AfterError::Unknown => {
            source::Error::Failed { code: error.code(), message: format!("{}; nothing was changed", error.without_conclusion()) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_broke_off_while_it_was_prepared_is_said_to_have_changed_nothing_and_not_otherwise() {
        let source_id = || "kit".to_owned();
        let late = source::Error::TimedOut { source_id: source_id(), timeout_ms: 7 };
        let broken = source::Error::Broken { source_id: source_id(), message: "gone".to_owned() };
        for (error, code, message) in [
            (late, "source_timed_out", "source `kit` did not answer within 7 ms; nothing was changed"),
            (broken, "source_broke", "the connection to source `kit` broke after the call was sent: gone; nothing was changed"),
        ] {
            let certain = certain(error);
            assert_eq!((certain.code(), certain.to_string().as_str(), certain.after()), (code, message, AfterError::NoEffect));
        }
    }
}
