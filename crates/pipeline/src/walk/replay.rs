//! Stage 6: was this very call made before? Then its outcome answers this call, and the effect is not repeated.

use crate::error::{Conflict, Error};
use crate::limits::REVERTED_SECONDS;
use crate::request::Outcome;
use crate::walk::decide::Decided;
use crate::walk::gate::Gated;
use crate::walk::ground::Walk;
use crate::walk::stage::Stage;
use countersign_core::action::Class;
use countersign_core::effect::Scope;
use countersign_core::invocation::{DeniedBy, Intention};
use countersign_core::ledger::Reservation;
use countersign_core::{Digest, Invocation, InvocationId, OrgId, SessionId, Status, UserId};
use receipt::limits::IDEMPOTENCY_SECONDS;
use std::time::Duration;

#[expect(clippy::large_enum_variant, reason = "the large one is the common one, and it is moved once")]
pub(crate) enum Replay {
    Earlier(Outcome),
    Fresh(Decided),
}

/// An idempotency key that another call holds.
pub(crate) struct Taken {
    pub(crate) org: OrgId,
    pub(crate) session: SessionId,
    pub(crate) owner: Option<UserId>,
    pub(crate) reservation: Reservation,
    /// HMAC of the params that this caller sent. It must equal the holder's.
    pub(crate) raw: Digest,
    pub(crate) scope: Scope,
    pub(crate) commands: Vec<String>,
}

/// How long a key is remembered. A revert's key lasts longer: an effect is reverted once, not once a day.
pub(crate) const fn key_seconds(intention: Intention) -> u64 {
    match intention {
        Intention::Effect | Intention::DryRun => IDEMPOTENCY_SECONDS,
        Intention::Revert => REVERTED_SECONDS,
    }
}

impl Taken {
    /// For an invocation whose key another call holds.
    pub(crate) fn by(invocation: &Invocation, reservation: Reservation) -> Self {
        Self {
            org: invocation.org.clone(),
            session: invocation.session.clone(),
            owner: invocation.owner.clone(),
            reservation,
            raw: invocation.digests.raw,
            scope: invocation.call.scope.clone(),
            commands: invocation.call.commands.clone(),
        }
    }
}

impl Walk {
    pub(crate) async fn replay(&self, decided: Decided) -> Result<Replay, Error> {
        let _timed = self.timed(Stage::Replay);
        let gated = match &decided {
            Decided::Cleared(cleared) => cleared.gated(),
            Decided::Pending(pending) => &pending.gated,
            Decided::Preview(_) | Decided::Denied(_) => return Ok(Replay::Fresh(decided)),
        };
        if let Some(reference) = &gated.validated.resolved.admitted.request.approval_ref {
            let org = &gated.validated.resolved.admitted.session.org;
            let earlier = Box::pin(self.refer(gated, reference)).await;
            return self.counted(org, earlier).await.map(Replay::Earlier);
        }
        // A read that runs at once and was left has simply ended: it is read again.
        let is_read_at_once = matches!(decided, Decided::Cleared(_)) && gated.validated.resolved.tier().class() == Class::Read;
        if !is_read_at_once && let Some(joined) = Box::pin(self.join(gated)).await? {
            return Ok(Replay::Earlier(joined));
        }
        let Some(key) = &gated.validated.idempotency_key else {
            if matches!(decided, Decided::Pending(_))
                && let Some(waiting) = Box::pin(self.find_waiting_plan(gated)).await?
            {
                return Ok(Replay::Earlier(Outcome::Pending(Box::new(waiting))));
            }
            return Ok(Replay::Fresh(decided));
        };
        let session = &gated.validated.resolved.admitted.session;
        let action = &gated.validated.resolved.action().id;
        match self.ledger().find_reservation(&session.org, &session.space, action, key).await? {
            None => Ok(Replay::Fresh(decided)),
            // This call replaces the holder of the key. The key passes on to it, so the holder's outcome is not its answer.
            Some(held) if gated.validated.resolved.admitted.entrance.replaces() == Some(&held.invocation) => Ok(Replay::Fresh(decided)),
            Some(reservation) => {
                let request = &gated.validated.resolved.admitted.request;
                let taken = Taken {
                    org: session.org.clone(),
                    session: session.id.clone(),
                    owner: request.principal.owner.clone(),
                    reservation,
                    raw: gated.validated.digests.raw,
                    scope: request.call.scope.clone(),
                    commands: request.call.commands.clone(),
                };
                Box::pin(self.attach(taken)).await.map(Replay::Earlier)
            }
        }
    }

    /// Waits for the call that holds the key, and answers with that call's outcome.
    pub(crate) async fn attach(&self, taken: Taken) -> Result<Outcome, Error> {
        let holder = &taken.reservation.invocation;
        if taken.reservation.raw != taken.raw {
            return Err(Error::IdempotencyConflict { invocation: holder.clone() });
        }
        // One person's agents may share a key across their sessions. Others must not read an invocation by guessing its key.
        let held = self.ledger().find_invocation(&taken.org, holder).await?;
        let is_anothers = |held: &Invocation| held.session != taken.session && (held.owner.is_none() || held.owner != taken.owner);
        // A call with another scope or other check commands is another call, so its outcome is no answer here.
        let is_other = |held: &Invocation| held.call.scope != taken.scope || held.call.commands != taken.commands;
        if held.is_some_and(|held| is_anothers(&held) || is_other(&held)) {
            return Err(Error::IdempotencyConflict { invocation: holder.clone() });
        }
        let limit = Duration::from_millis(self.inner.settings.key_wait_ms);
        let invocation = self.wait_until(&taken.org, holder, limit, |status| match status {
            Status::Approved | Status::Running => false,
            Status::Pending
            | Status::InDoubt
            | Status::Succeeded
            | Status::Failed
            | Status::Reverted
            | Status::Denied
            | Status::Quarantined
            | Status::Expired
            | Status::Cancelled => true,
        });
        outcome_of(invocation.await?)
    }

    /// The caller repeats a call that a person was asked about, and refers to it: both must be exactly the same call.
    async fn refer(&self, gated: &Gated, reference: &InvocationId) -> Result<Outcome, Error> {
        let session = &gated.validated.resolved.admitted.session;
        let unknown = || Error::UnknownInvocation { invocation: reference.to_string() };
        let held = self.ledger().find_invocation(&session.org, reference).await?.ok_or_else(unknown)?;
        let conflict = |conflict| Err(Error::Conflict { invocation: reference.clone(), conflict });
        let request = &gated.validated.resolved.admitted.request;
        let live = gated.validated.digests;
        if held.session != session.id || held.principal != request.principal.id || held.action != gated.validated.resolved.action().id {
            return conflict(Conflict::TupleMismatch);
        }
        // The comparison uses the params as they were first sent: an approver may have edited them since.
        if held.digests.raw != live.raw || held.call.scope != request.call.scope || held.call.commands != request.call.commands {
            return conflict(Conflict::ArgsMismatch);
        }
        if held.digests.structural != live.structural || held.digests.textual != live.textual {
            return conflict(Conflict::DefinitionMismatch);
        }
        match held.status {
            Status::Denied if held.denied_by == Some(DeniedBy::Person) => conflict(Conflict::Rejected),
            Status::Denied => conflict(Conflict::Ended),
            Status::Expired => conflict(Conflict::Expired),
            Status::Cancelled | Status::Quarantined => conflict(Conflict::Ended),
            Status::Pending | Status::InDoubt | Status::Succeeded | Status::Failed | Status::Reverted => outcome_of(held),
            Status::Approved | Status::Running => {
                let limit = Duration::from_millis(self.inner.settings.key_wait_ms);
                outcome_of(self.wait_until(&session.org, reference, limit, |status| status.is_final() || status == Status::InDoubt).await?)
            }
        }
    }
}

fn outcome_of(invocation: Invocation) -> Result<Outcome, Error> {
    let invocation = Box::new(invocation);
    match invocation.status {
        Status::Pending => Ok(Outcome::Pending(invocation)),
        Status::InDoubt => Ok(Outcome::InDoubt(invocation)),
        Status::Approved | Status::Running => Err(Error::IdempotencyInFlight { invocation: invocation.id.clone() }),
        Status::Succeeded
        | Status::Failed
        | Status::Reverted
        | Status::Denied
        | Status::Quarantined
        | Status::Expired
        | Status::Cancelled => Ok(Outcome::Replayed(invocation)),
    }
}
