//! Effects nobody saw the end of. The source is asked what became of each; what it cannot tell, a person says.

use crate::execute::{Done, Origin, Walking, failure_of};
use crate::record::{Ending, approval_of};
use crate::verify::{Looked, Verified};
use crate::{Error, Outcome, Pipeline, Walked};
use countersign_core::action::Reversibility;
use countersign_core::effect::{Purpose, Reconciled, Remedy, SettledBy};
use countersign_core::invocation::{Failure, Intention};
use countersign_core::ledger::Row;
use countersign_core::principal::Permission;
use countersign_core::source;
use countersign_core::{Invocation, InvocationId, Principal, PrincipalId, Status, ledger};

/// What a person says of an effect in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// It happened.
    Succeeded,
    /// It did not.
    Failed,
    /// Nobody knows, and it may be made again, as a new invocation: twice does no harm.
    Retry,
}

impl Pipeline {
    /// Asks the source what became of it, and records that. `None`: it cannot tell, and nothing has changed.
    pub(crate) async fn reconcile(&self, left: Invocation) -> Result<Option<Outcome>, Error> {
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
        match self.record(looked).await? {
            Walked::Outcome(outcome) => Ok(Some(outcome)),
            Walked::RulesChanged(_) => Err(Error::rules_keep_changing()),
        }
    }

    /// What a crash left, with everything needed to go on; `None` where something of it is gone.
    async fn left_behind(&self, mut left: Invocation) -> Result<Option<Done>, Error> {
        let found = self.inner.catalogue.find(&left.org, &left.action).await;
        // Another definition may mean something else by the same evidence.
        let then = (left.digests.structural, left.digests.textual);
        let found = found.ok().flatten().filter(|(_, definition)| (definition.structural, definition.textual) == then);
        let found = match found {
            Some(found) => Some(found),
            None => self.inner.catalogue.find_past(&left).await,
        };
        let Some((source, definition)) = found else {
            return Ok(None);
        };
        let Ok(params) = self.open_params(&left).await else {
            return Ok(None);
        };
        let key = self.inner.keyring.space_key(&left.org, &left.space).await?;
        let row = Row::From(left.status);
        left.ended_at = Some(self.now());
        left.failure = None;
        let Some(policy_slice) = left.announced.as_ref().map(|announced| announced.policy_slice) else {
            return Ok(None);
        };
        Ok(Some(Done {
            source,
            definition,
            row,
            answer: Err(interrupted()),
            policy_slice,
            approval: approval_of(&left),
            idempotency: left.idempotency_key.as_ref().map(|text| key.digest("idempotency_key", text.as_bytes())),
            key,
            origin: Origin::LeftBehind { params },
            walking: Some(Walking::begin(self, &left.id)),
            invocation: left,
        }))
    }

    async fn look_for(&self, mut done: Done) -> Result<Option<Looked>, Error> {
        match self.ask_to_reconcile(done.subject()).await {
            Ok(Reconciled::Happened(output)) => {
                done.answer = Ok(output);
                self.verify(done).await.map(Some)
            }
            Ok(Reconciled::DidNot) => {
                // A repair begins with taking the first try back: then all is as it was.
                let is_restored = done.definition.action.reversibility == Reversibility::Reversible;
                if done.invocation.purpose == Purpose::Repair && is_restored {
                    done.invocation.aftermath.rollback = Some(Remedy { attempted: true, ok: true });
                }
                Ok(Some(Verified::looked(done, Some(not_happened()))))
            }
            Ok(Reconciled::Unknown) => Ok(None),
            Err(error) => {
                tracing::warn!(invocation = %done.invocation.id, %error, "what became of an effect could not be found out");
                Ok(None)
            }
        }
    }

    /// It was being taken back: that is done once more, which changes nothing where it was done already.
    async fn roll_back_again(&self, mut done: Done) -> Option<Looked> {
        let evidence = done.invocation.evidence.clone()?;
        let restored = self.ask_to_revert(done.subject(), &evidence).await;
        let failure = Failure { code: "interrupted".into(), message: "the server stopped while it was taken back".into() };
        match restored {
            Ok(_) => {
                done.invocation.aftermath.rollback = Some(Remedy { attempted: true, ok: true });
                Some(Verified::looked(done, Some(failure)))
            }
            Err(error) if may_tell_later(&error) => None,
            Err(error) => {
                tracing::error!(invocation = %done.invocation.id, %error, "an effect that failed its checks could not be taken back");
                done.invocation.aftermath.rollback = Some(Remedy { attempted: true, ok: false });
                Some(Verified::looked(done, Some(failure)))
            }
        }
    }

    async fn revert_again(&self, mut done: Done) -> Option<Looked> {
        let evidence = done.invocation.evidence.clone()?;
        match self.ask_to_revert(done.subject(), &evidence).await {
            Err(error) if may_tell_later(&error) => None,
            answer => {
                done.answer = answer;
                Some(Verified::looked(done, None))
            }
        }
    }

    /// A person's word on an effect in doubt.
    pub async fn settle_doubt(&self, principal: &Principal, id: &InvocationId, said: Settlement, reason: String) -> Result<Outcome, Error> {
        if !principal.may(Permission::Approve) || !matches!(principal.id, PrincipalId::User(_)) {
            return Err(Error::MayNotApprove);
        }
        let unknown = || Error::UnknownInvocation { invocation: id.to_string() };
        let doubted = self.ledger().find_invocation(&principal.org, id).await?.ok_or_else(unknown)?;
        if doubted.status != Status::InDoubt {
            return Err(Error::NotInDoubt { invocation: id.clone(), status: doubted.status });
        }
        let settled = SettledBy { at: self.now(), by: principal.id.clone() };
        let reason = policy::redact_text(&reason);
        match said {
            Settlement::Succeeded => self.end_doubt(doubted, Status::Succeeded, settled, reason).await,
            Settlement::Failed => self.end_doubt(doubted, Status::Failed, settled, reason).await,
            Settlement::Retry => {
                let pipeline = self.clone();
                self.survive(Box::pin(async move { pipeline.try_doubted_again(doubted, settled, reason).await })).await
            }
        }
    }

    /// The same call as a new invocation, decided by the rules as they are now; the key passes on to it. The doubted one ends last: should
    /// the server die meanwhile, it is still in doubt, and the person's word can be given again.
    async fn try_doubted_again(&self, doubted: Invocation, settled: SettledBy, reason: String) -> Result<Outcome, Error> {
        let busy = || {
            let message = format!("`{}` is being asked about, or made again, right now", doubted.id);
            Error::Store(ledger::Error::Unavailable { message })
        };
        let _walking = Walking::begin_alone(self, &doubted.id).ok_or_else(busy)?;
        if !self.ledger().claim(&doubted.org, &doubted.id, Status::InDoubt).await? {
            return Err(busy());
        }
        let (org, id) = (doubted.org.clone(), doubted.id.clone());
        let again = self.make_doubted_again(&doubted).await;
        if again.is_ok() {
            self.end_doubt(doubted, Status::Failed, settled, reason).await?;
        } else {
            self.ledger().release(&org, &id).await?;
        }
        again
    }

    async fn make_doubted_again(&self, doubted: &Invocation) -> Result<Outcome, Error> {
        let params = self.open_params(doubted).await?;
        let asked_by = self.ledger().find_principal(&doubted.org, &doubted.principal).await?;
        let asked_by = asked_by.ok_or_else(|| Error::SessionEnded { session: doubted.session.clone() })?;
        let mut admitted = self.admit(self.draw_id(), crate::quarantine::request_of(doubted, asked_by, params)).await?;
        admitted.instead_of = Some(doubted.id.clone());
        self.walk_from(admitted).await
    }

    async fn end_doubt(&self, mut doubted: Invocation, status: Status, settled: SettledBy, reason: String) -> Result<Outcome, Error> {
        doubted.aftermath.settled = Some(settled);
        doubted.aftermath.settled_reason = Some(reason);
        let key = self.inner.keyring.space_key(&doubted.org, &doubted.space).await?;
        let invocation = self.record_ending(Ending::settled(doubted, status, &*key)).await?;
        Ok(Outcome::Ended { invocation: Box::new(invocation), result: None })
    }
}

/// Whether the same question may be answered another time, or by another server: then this answer is not the last word.
fn may_tell_later(error: &source::Error) -> bool {
    error.is_transient() || *error == source::Error::WorkspaceElsewhere
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
