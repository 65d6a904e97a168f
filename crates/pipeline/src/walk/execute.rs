//! Stage 8: the effect. It stores the rollback evidence, then writes the intent, then asks the source, then reports what is known.

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
use countersign_core::action::{Repeatability, Reversibility};
use countersign_core::effect::Check;
use countersign_core::invocation::{Announced, Intention};
use countersign_core::keyring::SpaceKey;
use countersign_core::ledger::Row;
use countersign_core::price::Charge;
use countersign_core::source::{self, AfterError, Output, Reconciled, Source};
use countersign_core::{Action, Digest, Invocation, PrincipalId, Status};
use receipt::body::ApprovalBody;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

pub(crate) enum Executed {
    /// The source answered, or is known to have done nothing.
    Done(Box<Done>),
    /// The effect may have happened, and the row says so; or another server has settled the call, and the row says how.
    InDoubt(Box<Invocation>),
    /// Another call under the same idempotency key started first.
    Elsewhere(Box<Taken>),
    /// The approval could no longer be used.
    Void(Box<Void>),
    /// The caller has gone before anything began.
    CallerLeft(Box<Cleared>),
    /// A rule changed, or the grant was used up. The call has not been performed, and it is decided again.
    RulesChanged(Box<Admitted>),
}

/// A call that the source answered, with a result or an error.
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
    /// Keeps recovery away from the invocation until its outcome is recorded.
    pub(crate) walking: Option<Walking>,
}

/// Where an answered call comes from.
pub(crate) enum Origin {
    Cleared(Box<Cleared>),
    Previewed(Box<Gated>),
    /// A crash interrupted the call. It was cleared then; now it can be verified, rolled back and recorded, but not performed again.
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
        invocation.spends = cleared.spends();
        invocation.observed = cleared.observed();
        let profile = cleared.gated().validated.resolved.action().profile.as_str().to_owned();
        invocation.announced = Some(Announced { policy_slice: cleared.policy_slice(), profile });
        let target = match self.breaker(&cleared).await? {
            Ok(target) => target,
            Err(open) => {
                invocation.attempts = 0;
                invocation.aftermath.retry_after_ms = Some(open.for_ms);
                let walking = self.inner.walking.join(&invocation.id);
                return Ok(Executed::Done(Box::new(Done::cleared(cleared, invocation, Row::Insert, Err(open.error), walking))));
            }
        };
        if invocation.intention == Intention::Effect {
            invocation.charge = self.ledger().find_price(&invocation.org, &invocation.action).await?.map(Charge::from);
        }
        self.label_before(cleared.gated()).await?;
        self.inner.progress.decided(&invocation.id, cleared.rules_version());
        // Joined before the row exists: recovery treats a running row that no process is walking as left behind.
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
                Started::CallerLeft => return Ok(Executed::CallerLeft(Box::new(cleared))),
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
            invocation.result = self.reported(&invocation, error).await;
            return self.doubt(invocation, Some(walking)).await.map(Executed::InDoubt);
        }
        Ok(Executed::Done(Box::new(Done::cleared(cleared, invocation, row, answer, walking))))
    }

    /// Asks the source to prepare the effect and stores the rollback evidence. An inner error is the answer of the attempt: there is no
    /// effect yet.
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
                let message = format!(
                    "`{}` says that its effect can be reverted, but its source stored nothing to revert it with",
                    invocation.action
                );
                Err(source::Error::Refused { code: "rollback_evidence_missing", message })
            }
            Ok(evidence) => {
                invocation.evidence = evidence;
                Ok(())
            }
        })
    }

    /// Tries until the source answers, or the table of retries permits no other attempt, or none is left.
    async fn attempt(
        &self,
        cleared: &Cleared,
        invocation: &mut Invocation,
        row: &Row,
        mut ready: Result<(), source::Error>,
    ) -> Result<Result<Output, source::Error>, Error> {
        // An earlier attempt may have had the effect: then no later error says that there was none.
        let mut doubted = None;
        loop {
            let answer = match ready {
                Ok(()) => self.once(cleared, invocation, &[]).await,
                Err(error) => Err(error),
            };
            let answer = match answer {
                // What the source can still find out is not tried again.
                Err(error) if leaves_doubt(&error, invocation) && self.may_try_again(cleared, invocation, &error) => {
                    Box::pin(self.look_again(cleared, invocation, error)).await?
                }
                known => known,
            };
            let error = match answer {
                Err(error) => error,
                answered => return Ok(answered),
            };
            if !self.may_try_again(cleared, invocation, &error) {
                return Ok(Err(doubted.unwrap_or(error)));
            }
            tokio::time::sleep(self.backoff(invocation.attempts, &error)).await;
            if *row == Row::Insert {
                invocation.attempts += 1;
                ready = Ok(());
                continue;
            }
            let mut next = Box::new(invocation.clone());
            next.attempts += 1;
            ready = if leaves_doubt(&error, invocation) || doubted.is_some() {
                // Preparing again would keep what the effect may have left in place of what was there before it.
                Ok(())
            } else {
                Box::pin(self.make_ready(cleared, &mut next, &[])).await?
            };
            // Without an intent of its own there is no further attempt: the last answer is the outcome.
            if !Box::pin(self.begin_again(cleared, &next, Some(cleared.rules_version()))).await? {
                return Ok(Err(doubted.unwrap_or(error)));
            }
            *invocation = *next;
            if leaves_doubt(&error, invocation) {
                doubted = Some(error);
            }
        }
    }

    /// Whether another attempt is made here after this error. A run makes those of its calls itself.
    fn may_try_again(&self, cleared: &Cleared, invocation: &Invocation, error: &source::Error) -> bool {
        let is_left_to_its_run = is_tried_again_by_its_run(cleared) || is_of_run(cleared) && leaves_doubt(error, invocation);
        invocation.attempts < self.attempts_max(invocation)
            && !is_left_to_its_run
            && !self.asks_for_too_long(error)
            && may_be_made_again(invocation, cleared.gated().validated.resolved.action(), error)
    }

    /// Makes one attempt: performs the requested effect, or reverts it.
    pub(crate) async fn once(&self, cleared: &Cleared, invocation: &Invocation, failed: &[Check]) -> Result<Output, source::Error> {
        match (invocation.intention, &invocation.evidence) {
            (Intention::Effect | Intention::DryRun, _) => self.ask_to_call(cleared, invocation, failed).await,
            (Intention::Revert, Some(evidence)) => self.ask_to_revert(Subject::of(cleared.gated(), invocation), evidence).await,
            (Intention::Revert, None) => {
                let message = "nothing was stored to revert it with".to_owned();
                Err(source::Error::Refused { code: "not_reversible", message })
            }
        }
    }

    /// Asks the source what became of an effect whose outcome is unknown.
    pub(crate) async fn look_again(
        &self,
        cleared: &Cleared,
        invocation: &mut Invocation,
        error: source::Error,
    ) -> Result<Result<Output, source::Error>, Error> {
        // A revert can safely be repeated: it changes nothing if the effect is already reverted. So it is simply made again.
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

    /// Whether the source asks for a longer wait than the retry cap. Then it is not retried.
    pub(crate) fn asks_for_too_long(&self, error: &source::Error) -> bool {
        error.retry_after_ms().is_some_and(|asked_ms| asked_ms > self.inner.settings.ladder.cap_ms)
    }

    /// How long to wait before the next attempt.
    pub(crate) fn backoff(&self, attempts: u32, error: &source::Error) -> Duration {
        let asked_ms = error.retry_after_ms().unwrap_or(0);
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
    /// The request to decide again, for a call that has no intent yet.
    pub(crate) fn undecided(self) -> Option<Box<Admitted>> {
        match self {
            Self::Cleared(cleared) => Some(cleared.undecided()),
            Self::Previewed(gated) => Some(gated.undecided()),
            Self::LeftBehind { .. } => None,
        }
    }
}

/// Whether another attempt is a call of its own: a run makes it, after the backoff of its step, and no worker waits until then. What a person
/// approved, and what is made in place of a call in doubt, is tried again here: a call of its own would have to be approved again, and the run
/// would not know it.
fn is_tried_again_by_its_run(cleared: &Cleared) -> bool {
    let admitted = &cleared.gated().validated.resolved.admitted;
    is_of_run(cleared) && cleared.approval().is_none() && admitted.entrance.replaces().is_none()
}

fn is_of_run(cleared: &Cleared) -> bool {
    matches!(cleared.gated().validated.resolved.admitted.request.principal.id, PrincipalId::Automation(_))
}

/// What the table of retries says of a call that failed. A revert whose outcome is unknown is looked at again instead.
pub(crate) fn may_be_made_again(invocation: &Invocation, action: &Action, error: &source::Error) -> bool {
    let repeatability = match invocation.intention {
        Intention::Effect | Intention::DryRun => action.repeatability,
        Intention::Revert => Repeatability::NotRepeatable,
    };
    error.cause().permits_another(invocation.tier.class(), repeatability)
}

/// Preparing changes nothing, so an error while preparing leaves no doubt.
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
