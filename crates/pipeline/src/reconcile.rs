//! Effects nobody saw the end of. The source is asked what became of each; what it cannot tell, a person says.

use crate::execute::{Done, Origin, failure_of};
use crate::record::{Ending, approval_of};
use crate::remedy::unrepaired;
use crate::unverified::{gone, is_unverified};
use crate::verify::{self, Looked, VERIFICATION_FAILED, Verified};
use crate::walking::Walking;
use crate::{Error, Outcome, Pipeline, Walked};
use countersign_core::action::Class;
use countersign_core::effect::{Purpose, Reconciled, Remedy, SettledBy};
use countersign_core::invocation::{Failure, Intention};
use countersign_core::ledger::Row;
use countersign_core::principal::Permission;
use countersign_core::source::{self, Output};
use countersign_core::{Invocation, InvocationId, OrgId, Principal, PrincipalId, Status};

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
        match self.record(looked).await? {
            Walked::Outcome(outcome) => Ok(Some(outcome)),
            Walked::RulesChanged(_) => Err(Error::rules_keep_changing()),
        }
    }

    /// A read that broke off has changed nothing, whatever became of it: it is never in doubt, and may simply be made again.
    async fn end_read(&self, left: Invocation) -> Result<Outcome, Error> {
        let key = self.inner.keyring.space_key(&left.org, &left.space).await?;
        let ending = Ending::begun(left, Status::Failed, Some(failure_of(&interrupted())), &*key);
        let invocation = self.record_ending(ending).await?;
        Ok(Outcome::Ended { invocation: Box::new(invocation), result: None })
    }

    /// What a crash left, with everything needed to go on; `None` where something of it is gone.
    async fn left_behind(&self, mut left: Invocation) -> Result<Option<Box<Done>>, Error> {
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
        // It ends when that is recorded. Until then its row says what it said.
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
            walking: Some(Walking::begin(self, &left.id)),
            invocation: Box::new(left),
        })))
    }

    async fn look_for(&self, mut done: Box<Done>) -> Result<Option<Looked>, Error> {
        let found = self.find_out(done.subject(), &done.announcement()).await?;
        if let Some(tried) = found.tried {
            done.invocation = tried;
        }
        match found.reconciled {
            Ok(Reconciled::Happened(output)) => {
                let is_repair = done.invocation.purpose == Purpose::Repair;
                done.answer = Ok(output);
                let mut looked = self.verify(done).await?;
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

    /// It was being taken back: that is done once more, which changes nothing where it was done already.
    async fn roll_back_again(&self, mut done: Box<Done>) -> Option<Looked> {
        self.seen_taken_back(&done).await?;
        done.invocation.aftermath.rollback = Some(Remedy::DONE);
        let failure = failure_before(&done, not_seen_taken_back);
        Some(Verified::looked(done, Some(failure)))
    }

    async fn revert_again(&self, mut done: Box<Done>) -> Option<Looked> {
        done.answer = Ok(self.seen_taken_back(&done).await?);
        Some(Verified::looked(done, None))
    }

    /// `None` where it cannot be taken back now: that tells nothing about how far the try that broke off had come. Somebody may have changed
    /// since what it had put back.
    async fn seen_taken_back(&self, done: &Done) -> Option<Output> {
        let evidence = done.invocation.evidence.clone()?;
        let restored = self.ask_to_revert(done.subject(), &evidence).await;
        let why = |error: &source::Error| tracing::warn!(invocation = %done.invocation.id, %error, "nobody can tell how far taking back had come");
        restored.inspect_err(why).ok()
    }

    /// A person's word on an effect in doubt.
    pub async fn settle_doubt(&self, principal: &Principal, id: &InvocationId, said: Settlement, reason: String) -> Result<Outcome, Error> {
        if !principal.may(Permission::Approve) || !matches!(principal.id, PrincipalId::User(_)) {
            return Err(Error::MayNotApprove);
        }
        let (pipeline, org, id) = (self.clone(), principal.org.clone(), id.clone());
        let settled = SettledBy { at: self.now(), by: principal.id.clone() };
        let reason = policy::redact_text(&reason);
        self.survive(Box::pin(async move {
            let (doubted, _walking) = pipeline.take_doubt(&org, &id).await?;
            let answered = match said {
                Settlement::Succeeded => pipeline.end_doubt(doubted, Status::Succeeded, settled, reason).await,
                Settlement::Failed => pipeline.end_doubt(doubted, Status::Failed, settled, reason).await,
                Settlement::Retry => pipeline.try_doubted_again(doubted, settled, reason).await,
            };
            if answered.is_err() {
                pipeline.let_go(&org, &id).await;
            }
            answered
        }))
        .await
    }

    /// A call in doubt, as it is once nobody asks about it any more: what is found out meanwhile, or done to find it out, is better known.
    async fn take_doubt(&self, org: &OrgId, id: &InvocationId) -> Result<(Invocation, Walking), Error> {
        let doubted = self.find_doubted(org, id).await?;
        let Some(walking) = self.claim(&doubted).await? else {
            self.find_doubted(org, id).await?;
            return Err(Error::BeingFoundOut { invocation: id.clone() });
        };
        Ok((self.find_doubted(org, id).await?, walking))
    }

    async fn find_doubted(&self, org: &OrgId, id: &InvocationId) -> Result<Invocation, Error> {
        let unknown = || Error::UnknownInvocation { invocation: id.to_string() };
        let doubted = self.ledger().find_invocation(org, id).await?.ok_or_else(unknown)?;
        if doubted.status != Status::InDoubt {
            return Err(Error::NotInDoubt { invocation: id.clone(), status: doubted.status });
        }
        Ok(doubted)
    }

    /// The same call as a new invocation, decided by the rules as they are now; the key passes on to it. The doubted one ends last: should
    /// the server die meanwhile, it is still in doubt, and the person's word can be given again.
    async fn try_doubted_again(&self, doubted: Invocation, settled: SettledBy, reason: String) -> Result<Outcome, Error> {
        let again = self.make_doubted_again(&doubted).await;
        if again.is_ok() {
            self.end_doubt(doubted, Status::Failed, settled, reason).await?;
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

/// Why there was anything to repair or take back: what its checks said before the crash, where they are known.
fn failure_before(done: &Done, unknown: fn() -> Failure) -> Failure {
    done.invocation.aftermath.checks.as_deref().and_then(verify::failure_of).unwrap_or_else(unknown)
}

fn not_repaired() -> Failure {
    Failure { code: VERIFICATION_FAILED.into(), message: "a check failed, and the server stopped before it was repaired".into() }
}

fn not_seen_taken_back() -> Failure {
    Failure { code: VERIFICATION_FAILED.into(), message: "a check failed, and the server stopped while it was taken back".into() }
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
