//! A person settles a call in doubt: the effect happened, it did not, or the call may be made again.

use super::approve::{must_approve, needed_reason};
use crate::error::Error;
use crate::pipeline::Pipeline;
use crate::request::{Outcome, Request};
use crate::walk::admit::Entrance;
use crate::walk::ending::Ending;
use crate::walk::ground::Walking;
use countersign_core::action::{Class, Repeatability};
use countersign_core::effect::SettledBy;
use countersign_core::{Action, Invocation, InvocationId, OrgId, Principal, PrincipalId, Status};

/// What a person says about a call in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// The effect happened.
    Succeeded,
    /// The effect did not happen.
    Failed,
    /// It is unknown, and the call may be made again as a new invocation, because a second effect does no harm.
    Retry,
}

impl Pipeline {
    /// Settles a call in doubt.
    pub async fn settle_doubt(&self, principal: &Principal, id: &InvocationId, said: Settlement, reason: &str) -> Result<Outcome, Error> {
        must_approve(principal)?;
        self.must_be_let_in(principal, id).await?;
        let (pipeline, org, id) = (self.clone(), principal.org.clone(), id.clone());
        let settled = SettledBy { at: self.walk.now(), by: principal.id.clone() };
        let reason = needed_reason(reason)?;
        self.walk
            .survive(Box::pin(async move {
                let (doubted, _walking) = pipeline.take_doubt(&org, &id).await?;
                let left = doubted.clone();
                let answered = match said {
                    Settlement::Succeeded => pipeline.end_doubt(doubted, Status::Succeeded, settled, reason).await,
                    Settlement::Failed => pipeline.end_doubt(doubted, Status::Failed, settled, reason).await,
                    Settlement::Retry => pipeline.try_doubted_again(doubted, settled, reason).await,
                };
                if answered.is_err() {
                    pipeline.walk.let_go(&left).await;
                }
                answered
            }))
            .await
    }

    /// Makes a call in doubt again for the automation that made it, without a person. `None`, and nothing is done, unless a second effect does
    /// no harm, by what the action is now.
    pub async fn repeat_doubted(&self, principal: &Principal, id: &InvocationId) -> Result<Option<Outcome>, Error> {
        let (pipeline, org, id) = (self.clone(), principal.org.clone(), id.clone());
        let doubted = self.find_doubted(&org, &id).await?;
        if doubted.principal != principal.id || !matches!(principal.id, PrincipalId::Automation(_)) {
            return Err(Error::UnknownInvocation { invocation: id.to_string() });
        }
        let action = self.catalogue().find_listed(&org, doubted.action.as_str()).await;
        let is_harmless = |action: &Action| action.tier.class() == Class::Read || action.repeatability == Repeatability::Repeatable;
        let is_harmless_now = action.is_some_and(|action| is_harmless(&action));
        if !is_harmless_now {
            return Ok(None);
        }
        let settled = SettledBy { at: self.walk.now(), by: principal.id.clone() };
        let reason = "its step may be repeated: a second effect does no harm".to_owned();
        self.walk
            .survive(Box::pin(async move {
                let (doubted, _walking) = pipeline.take_doubt(&org, &id).await?;
                let left = doubted.clone();
                let answered = pipeline.try_doubted_again(doubted, settled, reason).await;
                if answered.is_err() {
                    pipeline.walk.let_go(&left).await;
                }
                answered.map(Some)
            }))
            .await
    }

    /// The call that was made in place of this one after it had been in doubt.
    pub async fn made_again(&self, settled: &Invocation) -> Result<Option<Invocation>, Error> {
        let (Some(_), Some(key)) = (&settled.aftermath.settled, &settled.idempotency_key) else {
            return Ok(None);
        };
        let reserved = self.ledger().find_reservation(&settled.org, &settled.space, &settled.action, key).await?;
        match reserved.filter(|reserved| reserved.invocation != settled.id) {
            Some(reserved) => Ok(self.ledger().find_invocation(&settled.org, &reserved.invocation).await?),
            None => Ok(None),
        }
    }

    /// Claims a call in doubt and reads it again. Refused while the call is being reconciled, since that result is more reliable.
    async fn take_doubt(&self, org: &OrgId, id: &InvocationId) -> Result<(Invocation, Walking), Error> {
        let doubted = self.find_doubted(org, id).await?;
        let Some(walking) = self.walk.claim(&doubted).await? else {
            self.find_doubted(org, id).await?;
            return Err(Error::Reconciling { invocation: id.clone() });
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

    /// Makes the same call as a new invocation, decided by the rules in force now; the idempotency key passes on to it. The call in doubt
    /// ends last: if the server dies in between, it is still in doubt, and the person can settle it again.
    async fn try_doubted_again(&self, doubted: Invocation, settled: SettledBy, reason: String) -> Result<Outcome, Error> {
        let again = self.make_doubted_again(&doubted).await?;
        // The new call is made: nobody is told that retrying is safe.
        let invocation = doubted.id.clone();
        self.end_doubt(doubted, Status::Failed, settled, reason).await.map_err(|_| Error::Unrecorded { invocation })?;
        Ok(again)
    }

    async fn make_doubted_again(&self, doubted: &Invocation) -> Result<Outcome, Error> {
        let params = self.walk.open_params(doubted).await?;
        let asked_by = self.ledger().find_principal_in(&doubted.org, &doubted.principal, &doubted.session).await?;
        let asked_by = asked_by.ok_or_else(|| Error::SessionEnded { session: doubted.session.clone() })?;
        let request = Request::again(doubted, asked_by, params);
        let admitted = self.walk.admit(self.walk.draw_id(), request, Entrance::Replacing(doubted.id.clone())).await?;
        self.walk.walk(admitted).await
    }

    async fn end_doubt(&self, mut doubted: Invocation, status: Status, settled: SettledBy, reason: String) -> Result<Outcome, Error> {
        doubted.aftermath.settled = Some(settled);
        doubted.aftermath.settled_reason = Some(reason);
        let key = self.walk.inner.keyring.space_key(&doubted.org, &doubted.space).await?;
        let invocation = self.walk.record_ending(Ending::settled(doubted, status, &*key)).await?;
        Ok(Outcome::Ended { invocation: Box::new(invocation), result: None })
    }
}
