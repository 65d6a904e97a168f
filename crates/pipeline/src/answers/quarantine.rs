//! What people do with a quarantined call. The call has ended, and its content is kept, sealed. Whoever may approve may release it, as a new call
//! that passes every other gate again, or discard it. If the space refuses self-approval, the requester and the agent's owner may do neither.

use super::approve::{must_approve, needed_reason};
use crate::error::{Conflict, Error};
use crate::pipeline::Pipeline;
use crate::request::{Outcome, Request};
use crate::walk::admit::{Entrance, must_be_let_in};
use crate::walk::quarantine::context_of;
use countersign_core::ledger::{Settled, Settling};
use countersign_core::quarantine::{Holds, Quarantine, QuarantineState};
use countersign_core::{Digest, InvocationId, OrgId, Principal, PrincipalId, json};
use serde_json::Value;

/// How long a released call may take to appear in the store before it counts as lost.
const RELEASED_SECONDS: u64 = 15;

/// A person's decision on a quarantined call.
#[derive(Clone, Debug)]
pub struct Word {
    pub reason: String,
    /// The digest of the content they looked at. If given, the decision applies to that content only.
    pub digest: Option<Digest>,
}

/// The result of a release.
#[derive(Debug)]
pub enum Released {
    /// The call was made again, as a new invocation.
    Call(Box<Outcome>),
    /// The source's answer that had been withheld.
    Output(Value),
}

impl Pipeline {
    /// Shows the content of a quarantined call to a person who may settle it. That they looked at it is recorded.
    pub async fn look_at(&self, principal: &Principal, id: &InvocationId) -> Result<(Quarantine, Value), Error> {
        let held = self.settleable(principal, id).await?;
        let plain = self.open_quarantined(&held, &principal.org).await?;
        self.ledger().look_at_quarantined(&principal.org, id, &principal.id).await?;
        Ok((held, plain))
    }

    /// Releases a quarantined call, as a new invocation in the name of the original requester.
    pub async fn release_quarantined(&self, principal: &Principal, id: &InvocationId, word: Word) -> Result<Released, Error> {
        let (pipeline, principal, id) = (self.clone(), principal.clone(), id.clone());
        self.walk.survive(Box::pin(async move { pipeline.release_and_run(&principal, &id, word).await })).await
    }

    async fn release_and_run(&self, principal: &Principal, id: &InvocationId, word: Word) -> Result<Released, Error> {
        let held = self.settleable(principal, id).await?;
        if word.digest.is_some_and(|digest| digest != held.digest) {
            return Err(other_payload(id));
        }
        let plain = self.open_quarantined(&held, &principal.org).await?;
        let again = match (&held.state, &held.released_as) {
            // It was released before, and a crash lost the new call, so the call is made now.
            (QuarantineState::Released, Some(again)) if self.is_lost(&held, &principal.org, again).await? => again.clone(),
            (QuarantineState::Released, None) if held.holds == Holds::Output => return Ok(Released::Output(plain)),
            _ => {
                let again = InvocationId::new(self.walk.now(), self.walk.random_bytes());
                let released_as = (held.holds == Holds::Params).then(|| again.clone());
                self.end_quarantine(principal, id, QuarantineState::Released, word, released_as).await?;
                again
            }
        };
        if held.holds == Holds::Output {
            return Ok(Released::Output(plain));
        }
        let made = self.make_again(&held, principal, again.clone(), plain).await;
        // The release is stored: nobody is told that nothing was written.
        let made = made.map_err(|error| if let Error::Store(_) = error { Error::Unrecorded { invocation: again } } else { error });
        made.map(|outcome| Released::Call(Box::new(outcome)))
    }

    /// Whether the new call of an earlier release is lost: enough time has passed, and it does not exist.
    async fn is_lost(&self, held: &Quarantine, org: &OrgId, again: &InvocationId) -> Result<bool, Error> {
        let now = self.ledger().now().await?;
        let is_stale = held.settled_at.is_none_or(|at| at.plus_seconds(RELEASED_SECONDS) <= now);
        Ok(is_stale && self.ledger().find_invocation(org, again).await?.is_none())
    }

    /// Discards the content of a quarantined call.
    pub async fn discard(&self, principal: &Principal, id: &InvocationId, word: Word) -> Result<Quarantine, Error> {
        self.settleable(principal, id).await?;
        self.end_quarantine(principal, id, QuarantineState::Discarded, word, None).await
    }

    async fn make_again(&self, held: &Quarantine, by: &Principal, again: InvocationId, params: Value) -> Result<Outcome, Error> {
        let unknown = || Error::UnknownInvocation { invocation: held.invocation.to_string() };
        let first = self.ledger().find_invocation(&by.org, &held.invocation).await?.ok_or_else(unknown)?;
        let asked_by = self.ledger().find_principal_in(&by.org, &held.principal, &held.session).await?;
        let asked_by = asked_by.ok_or_else(|| Error::SessionEnded { session: held.session.clone() })?;
        let request = Request::again(&first, asked_by, params);
        let admitted = self.walk.admit(again, request, Entrance::Released(first.id.clone())).await?;
        self.walk.walk(admitted).await
    }

    /// Finds a quarantined call that this person may settle. It may be their own, if the space permits self-approval.
    async fn settleable(&self, principal: &Principal, id: &InvocationId) -> Result<Quarantine, Error> {
        must_approve(principal)?;
        let unknown = || Error::UnknownInvocation { invocation: id.to_string() };
        let held = self.ledger().find_quarantine(&principal.org, id).await?.ok_or_else(unknown)?;
        // The rules version is read from the database first, so that the space's rules are those in force now, even if another server has
        // just changed them.
        self.ledger().rules_version_anew(&principal.org).await?;
        let space = self.ledger().find_space(&principal.org, &held.space).await?.ok_or_else(unknown)?;
        must_be_let_in(principal, &space, unknown)?;
        let session = self.ledger().find_session(&principal.org, &held.session).await?.ok_or_else(unknown)?;
        if matches!(&principal.id, PrincipalId::User(user) if !space.lets_approve(user, held.owner.as_ref(), &session)) {
            return Err(Error::OwnQuarantine { invocation: id.clone() });
        }
        Ok(held)
    }

    async fn end_quarantine(
        &self,
        principal: &Principal,
        id: &InvocationId,
        state: QuarantineState,
        word: Word,
        released_as: Option<InvocationId>,
    ) -> Result<Quarantine, Error> {
        let Word { reason, digest } = word;
        let reason = needed_reason(&reason)?;
        let settling = Settling { invocation: id.clone(), state, reason, by: principal.id.clone(), digest, released_as };
        match self.ledger().settle_quarantine(&principal.org, settling).await? {
            Some(Settled::Done(settled)) => Ok(*settled),
            Some(Settled::OtherPayload) => Err(other_payload(id)),
            Some(Settled::Not(state)) => Err(Error::QuarantineSettled { invocation: id.clone(), state }),
            None => Err(Error::UnknownInvocation { invocation: id.to_string() }),
        }
    }

    async fn open_quarantined(&self, held: &Quarantine, org: &OrgId) -> Result<Value, Error> {
        let gone = || Error::QuarantineSettled { invocation: held.invocation.clone(), state: held.state };
        let sealed = self.ledger().find_quarantined(org, &held.invocation).await?.ok_or_else(gone)?;
        let key = self.walk.inner.keyring.space_key(org, &held.space).await?;
        let broken = || Error::Internal { message: format!("what quarantined `{}` held does not open", held.invocation) };
        let plain = key.open(&context_of(&held.invocation), &sealed).map_err(|_| broken())?;
        json::parse_strict(&plain).map_err(|_| broken())
    }
}

fn other_payload(id: &InvocationId) -> Error {
    Error::Conflict { invocation: id.clone(), conflict: Conflict::ArgsMismatch }
}
