//! Stage 7: holds the call for a person, bound to exactly what the person will see.
//! After the answer every stage runs again; a call that no longer matches its binding does not run.

use super::admit::{Admitted, Step, Walked};
use super::binding::{Redeemed, Terms, bound_to, conflict_of, seal_params, to_binding};
use super::decide::{Cleared, Denied, Moded, Pending};
use super::ending::Ending;
use super::gate::{Gated, Gates};
use super::ground::Walk;
use super::join::{is_caller_gone, until_known};
use super::replay::{Taken, key_seconds};
use super::stage::Stage;
use crate::error::{Conflict, Error};
use crate::line::Kept;
use crate::request::Outcome;
use countersign_core::invocation::{Deadline, DeniedBy, Failure};
use countersign_core::ledger::{Held, Hold, NewReservation, Row};
use countersign_core::session::Space;
use countersign_core::{Decision, Digest, Invocation, Mode, PrincipalId, Status, Tier};
use policy::digest::mismatch;

impl Walk {
    pub(crate) async fn hold(&self, pending: Box<Pending>) -> Result<Walked, Error> {
        let _timed = self.timed(Stage::Hold);
        let Pending { gated, decision, policy_slice, observed } = *pending;
        if is_caller_gone(&gated) {
            // Nobody was asked yet. Whoever asks again makes a new call, and people are asked once.
            return self.record_left(|failure| Denied { gated, decision, policy_slice, failure }).await;
        }
        let session = &gated.validated.resolved.admitted.session;
        let asked_at = self.ledger().now().await?;
        let expires_at = asked_at.plus_seconds(session.attendance.approval_seconds());
        let terms = Terms { policy_slice, nonce: Digest::new(self.random_bytes()), expires_at };
        let bound = self.bound(&gated, &decision, terms).await?;
        let mut invocation = gated.to_invocation(Status::Pending, &decision);
        invocation.binding = Some(to_binding(&bound)?);
        invocation.deadline = Some(Deadline::At(expires_at));
        invocation.observed = observed;
        let instead_of = gated.validated.resolved.admitted.entrance.replaces().cloned();
        let hold = Hold {
            rules_version: gated.validated.resolved.admitted.rules_version,
            sealed_params: seal_params(&gated)?,
            reservation: invocation.idempotency_key.clone().map(|key| NewReservation {
                key,
                expires_at: asked_at.plus_seconds(key_seconds(invocation.intention)),
                instead_of,
            }),
            event: self.event(&invocation, Status::Pending),
            pending_max: self.inner.settings.pending_per_session_max,
            line: self.line_of(&gated),
            invocation: Invocation::clone(&invocation),
        };
        let line = gated.validated.resolved.admitted.request.line.as_ref();
        let held = match line {
            None => self.ledger().hold(hold).await?,
            Some(_) => until_known(|| self.ledger().hold(hold.clone())).await?,
        };
        match held {
            Held::Pending => {
                if let Some(line) = line {
                    line.carries(&invocation.id, Kept::Held);
                }
                self.count(&invocation);
                Ok(Step::Done(Outcome::Pending(invocation)))
            }
            Held::RulesChanged => Ok(Step::RulesChanged(gated.undecided())),
            Held::TooManyPending { pending } => Err(Error::TooManyPending { session: invocation.session, pending }),
            Held::KeyTaken(reservation) => self.attach(Taken::by(&invocation, reservation)).await.map(Step::Done),
        }
    }

    /// Clears the approved call to run now, or returns the part of its binding that no longer holds.
    pub(crate) async fn redeem(&self, approved: &Invocation, admitted: Box<Admitted>) -> Result<Result<Box<Cleared>, Conflict>, Error> {
        let held = bound_to(approved)?;
        let validated = match self.resolve(admitted).await {
            Ok(resolved) => self.validate(resolved).await,
            Err(error) => Err(error),
        };
        let validated = match validated {
            Ok(validated) => validated,
            Err(error) => return redefined(&error).map(Err).ok_or(error),
        };
        let by = approved.approvals.iter().filter_map(|approval| match &approval.by {
            PrincipalId::User(user) => Some(user.clone()),
            PrincipalId::Agent(_) | PrincipalId::Service(_) | PrincipalId::Automation(_) => None,
        });
        let by: Vec<_> = by.collect();
        let space = self.ledger().find_space(&approved.org, &approved.space).await?;
        let session = &validated.resolved.admitted.session;
        let is_enough = |space: Space| {
            by.len() >= approvals_needed(&space, approved.tier, approved.edit.is_some()) as usize
                && by.iter().all(|user| space.lets_approve(user, approved.owner.as_ref(), session))
        };
        if !space.is_some_and(is_enough) {
            return Ok(Err(Conflict::PolicyMismatch));
        }
        // An approval counts only while the person who gave it may approve.
        let approvers = self.ledger().list_approvers(&approved.org).await?;
        if by.iter().any(|user| !approvers.contains(user)) {
            return Ok(Err(Conflict::TupleMismatch));
        }
        let yes = policy::Approval { by, expires: held.expires_at };
        let Gates::Passed(gated) = self.gate(validated, Some(yes)).await? else {
            return Ok(Err(Conflict::PolicyMismatch));
        };
        let moded = self.mode_of(&gated).await?;
        if moded.stopped().is_some() {
            return Ok(Err(Conflict::Stopped));
        }
        let Moded { decision, policy_slice, .. } = moded;
        let decision = as_held(approved, decision);
        if decision.mode == Mode::Deny {
            return Ok(Err(Conflict::PolicyMismatch));
        }
        let live = self.bound(&gated, &decision, Terms { policy_slice, nonce: held.nonce, expires_at: held.expires_at }).await?;
        let answers = self.ledger().list_signed_answers(&approved.org, &approved.id).await?;
        let redeemed = Redeemed::of(approved, &live, &answers)?;
        Ok(redeemed.map(|redeemed| Box::new(Cleared::by_person(gated, decision, policy_slice, redeemed))))
    }

    /// The part of a held call's binding that no longer holds, if any. An approval would then run nothing.
    pub(crate) async fn void_by(&self, held: &Invocation, gated: &Gated, moded: &Moded) -> Result<Option<Conflict>, Error> {
        let then = bound_to(held)?;
        let terms = Terms { policy_slice: moded.policy_slice, nonce: then.nonce, expires_at: then.expires_at };
        let now = self.bound(gated, &as_held(held, moded.decision.clone()), terms).await?;
        Ok(mismatch(&then, &now).map(conflict_of))
    }

    /// Ends a call whose approval no longer fits: it did not run, and the receipt says why.
    pub(crate) async fn void(&self, approved: Invocation, conflict: Conflict) -> Result<Outcome, Error> {
        let id = approved.id.clone();
        let failure = Failure { code: conflict.code().into(), message: conflict.message().into() };
        let (status, by, row) = match conflict {
            Conflict::Expired => (Status::Expired, None, Row::ExpiredFrom(Status::Approved)),
            Conflict::Rejected
            | Conflict::Consumed
            | Conflict::Ended
            | Conflict::ArgsMismatch
            | Conflict::DefinitionMismatch
            | Conflict::Gone
            | Conflict::PolicyMismatch
            | Conflict::TupleMismatch
            | Conflict::Stopped
            | Conflict::AlreadyApproved
            | Conflict::ApproverTooNew
            | Conflict::CallerLeft
            | Conflict::Unproven => (Status::Denied, Some(DeniedBy::Binding), Row::From(Status::Approved)),
        };
        self.record_ending(Ending::unexecuted(approved, status, by, failure, row)).await?;
        Err(Error::Conflict { invocation: id, conflict })
    }

    /// Ends a call whose approval turned out to be unusable when the intent was written.
    pub(crate) async fn record_void(&self, void: Box<Void>) -> Result<Outcome, Error> {
        let Void { invocation, conflict } = *void;
        match self.ledger().find_invocation(&invocation.org, &invocation.id).await? {
            // Another walk has started or ended it: that is the answer here too.
            Some(row) if row.status != Status::Approved => Ok(Outcome::of(Box::new(row))),
            // It keeps its approval until it is asked for again.
            Some(row) if conflict == Conflict::CallerLeft => Err(Error::Conflict { invocation: row.id, conflict }),
            Some(row) => self.void(row, conflict).await,
            None => Err(Error::UnknownInvocation { invocation: invocation.id.to_string() }),
        }
    }
}

/// How many people must approve. An approver who edits an R4 call cannot be its only approver.
pub(crate) fn approvals_needed(space: &Space, tier: Tier, is_edited: bool) -> u32 {
    let quorum = space.quorum.of(tier);
    if is_edited && tier == Tier::R4 { quorum.max(2) } else { quorum }
}

/// The conflict, if the error means that the call was valid when it was requested and no longer is, because its action has changed or is gone.
pub(crate) const fn redefined(error: &Error) -> Option<Conflict> {
    if matches!(error, Error::UnknownAction { .. }) {
        return Some(Conflict::Gone);
    }
    let is_redefined = matches!(
        error,
        Error::InvalidParams { .. }
            | Error::SchemaTooCostly { .. }
            | Error::InvalidRequest { .. }
            | Error::InvalidScope { .. }
            | Error::CommandNotAllowed { .. }
    );
    if is_redefined { Some(Conflict::DefinitionMismatch) } else { None }
}

/// An approved invocation that could not start.
pub(crate) struct Void {
    pub(crate) invocation: Invocation,
    pub(crate) conflict: Conflict,
}

/// With the approval, the gates may no longer require one, so the new decision can be weaker than the held one. The held decision stays.
fn as_held(held: &Invocation, decision: Decision) -> Decision {
    if decision.mode < held.decision.mode {
        return Decision { rules_version: decision.rules_version, ..held.decision.clone() };
    }
    decision
}
