//! Reconciles effects whose outcome is unknown: the source is asked what became of each.

use crate::error::Error;
use crate::pipeline::Pipeline;
use crate::request::Outcome;
use crate::walk::admit::Step;
use crate::walk::ask::failure_of;
use crate::walk::checks::{self, Looked, VERIFICATION_FAILED, Verified};
use crate::walk::ending::{Ending, approval_of, evidence_digest};
use crate::walk::execute::{Done, Origin};
use crate::walk::remedy::unrepaired;
use crate::walk::unverified::{gone, is_unverified};
use countersign_core::action::Class;
use countersign_core::effect::{Purpose, Remedy};
use countersign_core::invocation::{Failure, Intention};
use countersign_core::ledger::{Row, SignedIntent};
use countersign_core::source::{self, Output, Reconciled};
use countersign_core::{Invocation, Status};

impl Pipeline {
    /// Asks the source what became of a call, and records it. `None`: the source cannot tell, and nothing has changed.
    pub(crate) async fn reconcile(&self, left: Invocation) -> Result<Option<Outcome>, Error> {
        if left.tier.class() == Class::Read {
            return self.end_read(left).await.map(Some);
        }
        let Some(done) = self.left_behind(left).await? else {
            return Ok(None);
        };
        let looked = match (done.invocation.purpose, done.invocation.intention) {
            (Purpose::Rollback, _) => self.roll_back_again(done).await,
            (Purpose::Effect | Purpose::Repair, Intention::Revert) => self.revert_again(done).await,
            (Purpose::Effect | Purpose::Repair, Intention::Effect | Intention::DryRun) => self.look_for(done).await?,
        };
        let Some(looked) = looked else {
            return Ok(None);
        };
        match self.walk.record(looked).await? {
            Step::Done(outcome) => Ok(Some(outcome)),
            Step::RulesChanged(_) => Err(Error::RulesKeepChanging),
        }
    }

    /// Ends an interrupted read. A read changes nothing, so it is never in doubt and may simply be repeated.
    async fn end_read(&self, left: Invocation) -> Result<Outcome, Error> {
        let key = self.walk.inner.keyring.space_key(&left.org, &left.space).await?;
        let ending = Ending::begun(left, Status::Failed, Some(failure_of(&interrupted())), &*key);
        let invocation = self.walk.record_ending(ending).await?;
        Ok(Outcome::Ended { invocation: Box::new(invocation), result: None })
    }

    /// A call that a crash interrupted, with everything needed to go on; `None` if a part of that is gone.
    async fn left_behind(&self, mut left: Invocation) -> Result<Option<Box<Done>>, Error> {
        // The definition must be the one at the time: another definition may read the same evidence differently.
        let found = self.walk.source_then(&left).await;
        let Some((source, definition)) = found else {
            return Ok(None);
        };
        let Ok(params) = self.walk.open_params(&left).await else {
            return Ok(None);
        };
        let key = self.walk.inner.keyring.space_key(&left.org, &left.space).await?;
        // The row says what was attempted, and whoever has the database can change the row. The signed intent cannot be changed.
        let evidence = left.evidence.as_ref().map(|evidence| evidence_digest(&*key, evidence));
        let said = SignedIntent { attempt: left.attempts, purpose: left.purpose, evidence };
        if self.ledger().find_signed_intent(&left.org, &left.id).await? != Some(said) {
            tracing::error!(invocation = %left.id, "the audit log holds no intent that its row tells of: somebody may have changed the database");
            return Ok(None);
        }
        let row = Row::From(left.status);
        // The call ends when its outcome is recorded. Until then the row stays as it is.
        left.ended_at = None;
        let Some(policy_slice) = left.announced.as_ref().map(|announced| announced.policy_slice) else {
            return Ok(None);
        };
        Ok(Some(Box::new(Done {
            source,
            definition,
            row,
            answer: Err(interrupted()),
            policy_slice,
            approval: approval_of(&left),
            idempotency: left.idempotency_key.as_ref().map(|text| key.digest("idempotency_key", text.as_bytes())),
            key,
            origin: Origin::LeftBehind { params },
            walking: Some(self.walk.inner.walking.join(&left.id)),
            invocation: Box::new(left),
        })))
    }

    async fn look_for(&self, mut done: Box<Done>) -> Result<Option<Looked>, Error> {
        let found = self.walk.find_out(done.subject(), &done.announcement()).await?;
        if let Some(tried) = found.tried {
            done.invocation = tried;
        }
        match found.reconciled {
            Ok(Reconciled::Happened(output)) => {
                let is_repair = done.invocation.purpose == Purpose::Repair;
                done.answer = Ok(output);
                let mut looked = self.walk.verify(done).await?;
                if let (true, Looked::Verified(verified)) = (is_repair, &mut looked) {
                    let repair = if verified.failure.is_none() { Remedy::DONE } else { Remedy::FAILED };
                    verified.done.invocation.aftermath.repair = Some(repair);
                }
                Ok(Some(looked))
            }
            Ok(Reconciled::DidNot) if is_unverified(&done.invocation) => Ok(Some(Verified::looked(done, Some(gone())))),
            Ok(Reconciled::DidNot) if done.invocation.purpose == Purpose::Repair => {
                done.invocation.aftermath.repair = Some(Remedy::FAILED);
                let failure = failure_before(&done, not_repaired);
                Ok(Some(unrepaired(done, failure)))
            }
            Ok(Reconciled::DidNot) => Ok(Some(Verified::looked(done, Some(not_happened())))),
            Ok(Reconciled::Unknown | Reconciled::ByAskingAgain) => Ok(None),
            Err(error) => {
                tracing::warn!(invocation = %done.invocation.id, %error, "what became of an effect could not be found out");
                Ok(None)
            }
        }
    }

    /// Repeats a rollback that was interrupted. It changes nothing if the effect was already rolled back.
    async fn roll_back_again(&self, mut done: Box<Done>) -> Option<Looked> {
        self.revert_once_more(&done).await?;
        done.invocation.aftermath.rollback = Some(Remedy::DONE);
        let failure = failure_before(&done, stopped_while_rolling_back);
        Some(Verified::looked(done, Some(failure)))
    }

    async fn revert_again(&self, mut done: Box<Done>) -> Option<Looked> {
        done.answer = Ok(self.revert_once_more(&done).await?);
        Some(Verified::looked(done, None))
    }

    /// Reverts the effect again. `None` if that fails now, which does not tell how far the interrupted try had come: what it had restored
    /// may have been changed since.
    async fn revert_once_more(&self, done: &Done) -> Option<Output> {
        let evidence = done.invocation.evidence.clone()?;
        let restored = self.walk.ask_to_revert(done.subject(), &evidence).await;
        let invocation = &done.invocation.id;
        restored
            .inspect_err(|error| tracing::warn!(%invocation, %error, "an interrupted rollback or revert could not be repeated yet"))
            .ok()
    }
}

/// Why the effect was to be repaired or rolled back: the failed check from before the crash, if it is known.
fn failure_before(done: &Done, unknown: fn() -> Failure) -> Failure {
    done.invocation.aftermath.checks.as_deref().and_then(checks::failure_of).unwrap_or_else(unknown)
}

fn not_repaired() -> Failure {
    Failure { code: VERIFICATION_FAILED.into(), message: "a check failed, and the server stopped before it repaired the effect".into() }
}

fn stopped_while_rolling_back() -> Failure {
    Failure { code: VERIFICATION_FAILED.into(), message: "a check failed, and the server stopped while it rolled the effect back".into() }
}

fn interrupted() -> source::Error {
    source::Error::Failed { code: "interrupted", message: "the server stopped while it ran".to_owned() }
}

fn not_happened() -> Failure {
    failure_of(&source::Error::Failed {
        code: "interrupted",
        message: "the server stopped before it happened; nothing was done".to_owned(),
    })
}
