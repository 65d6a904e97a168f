//! What is too dangerous to run ends here, with its receipt; what it held is kept, sealed. A person who neither asked for it nor
//! owns who did may release it, as a new call that passes every other gate again, or discard it.

use crate::gate::Gated;
use crate::{Conflict, Error, Outcome, Pipeline, Request, Walked};
use countersign_core::invocation::Failure;
use countersign_core::ledger::{NewQuarantine, SealedPayload, Settled, Settling};
use countersign_core::limits::{DECISIONS_MAX, QUARANTINE_SECONDS};
use countersign_core::principal::Permission;
use countersign_core::quarantine::{Caught, Holds, Quarantine, QuarantineState};
use countersign_core::{Digest, Invocation, InvocationId, OrgId, Principal, PrincipalId, Status, json};
use serde_json::Value;

/// How long a released call may take to be on record before it counts as lost.
const RELEASED_SECONDS: u64 = 15;

/// What a person says about a quarantined call.
#[derive(Clone, Debug)]
pub struct Word {
    pub reason: String,
    /// What they looked at. With it, nothing else is settled.
    pub digest: Option<Digest>,
}

/// What a release led to.
#[derive(Debug)]
pub enum Released {
    /// The call was made again, as a new invocation.
    Call(Box<Outcome>),
    /// What a source had answered and was withheld.
    Output(Value),
}

impl Pipeline {
    pub(crate) async fn quarantine(&self, gated: Gated, caught: Vec<Caught>) -> Result<Walked, Error> {
        let message = match caught.first() {
            Some(first) => format!("{} at `{}`: {}; it was not run, and is kept for review", first.rule, first.pointer, first.message),
            None => "it was not run, and is kept for review".to_owned(),
        };
        let failure = Failure { code: "quarantined".into(), message };
        let admitted = &gated.validated.resolved.admitted;
        let sealed = sealed(&*gated.validated.key, &admitted.id, &admitted.request.params)?;
        let denied = self.refuse(gated, failure).await?;
        let kept = NewQuarantine { holds: Holds::Params, sealed, caught, lifetime_seconds: QUARANTINE_SECONDS };
        self.record_refusal(denied, Status::Quarantined, Some(kept)).await
    }

    /// What a quarantined call held, for who may settle it. That they look is told.
    pub async fn look_at(&self, principal: &Principal, id: &InvocationId) -> Result<(Quarantine, Value), Error> {
        let held = self.settleable(principal, id).await?;
        let plain = self.open_quarantined(&held, &principal.org).await?;
        self.ledger().look_at_quarantined(&principal.org, id, &principal.id).await?;
        Ok((held, plain))
    }

    /// Lets a quarantined call go, as a new invocation in the name of who first asked.
    pub async fn release(&self, principal: &Principal, id: &InvocationId, word: Word) -> Result<Released, Error> {
        let (pipeline, principal, id) = (self.clone(), principal.clone(), id.clone());
        self.survive(Box::pin(async move { pipeline.release_and_run(&principal, &id, word).await })).await
    }

    async fn release_and_run(&self, principal: &Principal, id: &InvocationId, word: Word) -> Result<Released, Error> {
        let held = self.settleable(principal, id).await?;
        if word.digest.is_some_and(|digest| digest != held.digest) {
            return Err(other_payload(id));
        }
        let plain = self.open_quarantined(&held, &principal.org).await?;
        let again = match (&held.state, &held.released_as) {
            // It was let go before, and the call was lost in a crash: it is made now.
            (QuarantineState::Released, Some(again)) if self.is_lost(&held, &principal.org, again).await? => again.clone(),
            (QuarantineState::Released, None) if held.holds == Holds::Output => return Ok(Released::Output(plain)),
            _ => {
                let again = InvocationId::new(self.now(), self.random_bytes());
                let released_as = (held.holds == Holds::Params).then(|| again.clone());
                self.end_quarantine(principal, id, QuarantineState::Released, word, released_as).await?;
                again
            }
        };
        if held.holds == Holds::Output {
            return Ok(Released::Output(plain));
        }
        self.make_again(&held, principal, again, plain).await.map(|outcome| Released::Call(Box::new(outcome)))
    }

    /// Whether whoever let it go cannot still be making the call.
    async fn is_lost(&self, held: &Quarantine, org: &OrgId, again: &InvocationId) -> Result<bool, Error> {
        let now = self.ledger().now().await?;
        let is_stale = held.settled_at.is_none_or(|at| at.plus_seconds(RELEASED_SECONDS) <= now);
        Ok(is_stale && self.ledger().find_invocation(org, again).await?.is_none())
    }

    /// Throws away what a quarantined call held.
    pub async fn discard(&self, principal: &Principal, id: &InvocationId, word: Word) -> Result<Quarantine, Error> {
        self.settleable(principal, id).await?;
        self.end_quarantine(principal, id, QuarantineState::Discarded, word, None).await
    }

    async fn make_again(&self, held: &Quarantine, by: &Principal, again: InvocationId, params: Value) -> Result<Outcome, Error> {
        let unknown = || Error::UnknownInvocation { invocation: held.invocation.to_string() };
        let first = self.ledger().find_invocation(&by.org, &held.invocation).await?.ok_or_else(unknown)?;
        let asked_by = self.ledger().find_principal(&by.org, &held.principal).await?;
        let asked_by = asked_by.ok_or_else(|| Error::SessionEnded { session: held.session.clone() })?;
        let mut admitted = self.admit(again, request_of(&first, asked_by, params)).await?;
        let _telling = self.inner.boards.telling(&admitted.id, (&admitted.session).into());
        admitted.released_from = Some(first.id.clone());
        for _ in 0..DECISIONS_MAX {
            match self.walk_once(admitted).await? {
                Walked::Outcome(outcome) => return Ok(outcome),
                Walked::RulesChanged(undecided) => admitted = self.admit_again(undecided).await?,
            }
        }
        Err(Error::rules_keep_changing())
    }

    /// What this person may settle: neither their own call nor that of an agent of theirs.
    async fn settleable(&self, principal: &Principal, id: &InvocationId) -> Result<Quarantine, Error> {
        if !principal.may(Permission::Approve) {
            return Err(Error::MayNotApprove);
        }
        let unknown = || Error::UnknownInvocation { invocation: id.to_string() };
        let held = self.ledger().find_quarantine(&principal.org, id).await?.ok_or_else(unknown)?;
        let is_owner = matches!(&principal.id, PrincipalId::User(user) if held.owner.as_ref() == Some(user));
        if principal.id == held.principal || is_owner {
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
        let reason = policy::redact_text(&reason);
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
        let key = self.inner.keyring.space_key(org, &held.space).await?;
        let broken = || Error::Internal { message: format!("what quarantined `{}` held does not open", held.invocation) };
        let plain = key.open(&context_of(&held.invocation), &sealed).map_err(|_| broken())?;
        json::parse_strict(&plain).map_err(|_| broken())
    }
}

/// What stands in the row of a quarantined call where its params stood: they are nowhere but sealed.
pub(crate) fn marker() -> Value {
    serde_json::json!({ "_quarantined": true })
}

pub(crate) fn sealed(key: &dyn countersign_core::keyring::SpaceKey, id: &InvocationId, value: &Value) -> Result<SealedPayload, Error> {
    // A source may answer with numbers that have no canonical form; its compact text still has exactly one.
    let text = json::canonical(value).unwrap_or_else(|_| value.to_string());
    Ok(SealedPayload { bytes: key.seal(&context_of(id), text.as_bytes()), digest: key.digest("quarantine", text.as_bytes()) })
}

fn other_payload(id: &InvocationId) -> Error {
    Error::Conflict { invocation: id.clone(), conflict: Conflict::ArgsMismatch }
}

fn context_of(id: &InvocationId) -> String {
    format!("quarantine:{id}")
}

pub(crate) fn request_of(first: &Invocation, principal: Principal, params: Value) -> Request {
    Request {
        principal,
        session: first.session.clone(),
        action: first.action.to_string(),
        params,
        idempotency_key: first.idempotency_key.clone(),
        approval_ref: None,
        intention: first.intention,
        reverses: first.reverses.clone(),
        scope: first.scope.clone(),
        bounds: first.bounds.clone(),
        commands: first.commands.clone(),
        reason: first.reason.clone(),
        claimed: first.claimed.clone(),
        provenance: crate::admit::labels_of(first),
        trace_id: first.trace_id.clone(),
    }
}
