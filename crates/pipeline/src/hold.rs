//! Stage 7: the call waits for a person, bound to exactly what the person will see.
//! After the answer `resume` derives everything again; what no longer matches does not run.

use crate::Walked;
use crate::admit::{Admitted, Live};
use crate::decide::{Cleared, Moded, Pending};
use crate::gate::{Gated, Gates};
use crate::record::Ending;
use crate::replay::{Taken, key_seconds};
mod redeemed;

pub(crate) use redeemed::Redeemed;

use crate::stage::Stage;
use crate::{Conflict, Error, Outcome, Pipeline};
use countersign_core::invocation::{Binding, Deadline, DeniedBy, Failure, Intention};
use countersign_core::ledger::{EventDraft, Held, Hold, NewReservation, Row};
use countersign_core::limits::DECISIONS_MAX;
use countersign_core::{
    ActionId, Decision, Digest, Invocation, InvocationId, Mode, PrincipalId, SessionId, SpaceId, Status, Tier, Timestamp, json,
};
use policy::digest::{Bound, Mismatch, binding, mismatch};
use serde::Serialize;
use serde_json::Value;

impl Pipeline {
    pub(crate) async fn hold(&self, pending: Box<Pending>) -> Result<Walked, Error> {
        let _timed = self.timed(Stage::Hold);
        let Pending { gated, decision, policy_slice } = *pending;
        let session = &gated.validated.resolved.admitted.session;
        let asked_at = self.ledger().now().await?;
        let expires_at = asked_at.plus_seconds(session.attendance.approval_seconds());
        let bound = bound(&gated, &decision, policy_slice, Digest::new(self.random_bytes()), expires_at);
        let mut invocation = gated.to_invocation(Status::Pending, &decision);
        invocation.binding = Some(to_binding(&bound)?);
        invocation.deadline = Some(Deadline::At(expires_at));
        let instead_of = gated.validated.resolved.admitted.instead_of.clone();
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
            invocation: Invocation::clone(&invocation),
        };
        match self.ledger().hold(hold).await? {
            Held::Pending => {
                self.count(&invocation);
                Ok(Walked::Outcome(Outcome::Pending(invocation)))
            }
            Held::RulesChanged => Ok(Walked::RulesChanged(gated.undecided())),
            Held::TooManyPending { pending } => Err(Error::TooManyPending { session: invocation.session, pending }),
            Held::KeyTaken(reservation) => self.attach(Taken::by(&invocation, reservation)).await.map(Walked::Outcome),
        }
    }

    /// Runs an approved invocation, if everything its approval is bound to is still so.
    pub(crate) async fn resume(&self, approved: Invocation) -> Result<Outcome, Error> {
        let _telling = self.inner.boards.telling(&approved.id, (&approved).into());
        for _ in 0..DECISIONS_MAX {
            let cleared = match self.derive_again(&approved).await? {
                Derived::Same(cleared) => cleared,
                // It keeps its approval, and is taken up once the switch is off.
                Derived::Different(Conflict::Stopped) => {
                    return Err(Error::Conflict { invocation: approved.id, conflict: Conflict::Stopped });
                }
                Derived::Different(conflict) => return self.void(approved, conflict).await,
            };
            match self.perform(*cleared).await? {
                Walked::Outcome(outcome) => return Ok(outcome),
                Walked::RulesChanged(_) => {}
            }
        }
        Err(Error::rules_keep_changing())
    }

    async fn derive_again(&self, approved: &Invocation) -> Result<Derived, Error> {
        let held = bound_to(approved)?;
        let Some(live) = self.live(approved).await? else {
            return Ok(Derived::Different(Conflict::TupleMismatch));
        };
        let params = self.open_params(approved).await?;
        let validated = match self.resolve(Admitted::again(approved, live, params)).await {
            Ok(resolved) => self.validate(resolved).await,
            Err(error) => Err(error),
        };
        let validated = match validated {
            Ok(validated) => validated,
            Err(error) if is_redefined(&error) => return Ok(Derived::Different(Conflict::DefinitionMismatch)),
            Err(other) => return Err(other),
        };
        let by = approved.approvals.iter().filter_map(|approval| match &approval.by {
            PrincipalId::User(user) => Some(user.clone()),
            PrincipalId::Agent(_) | PrincipalId::Service(_) | PrincipalId::Automation(_) => None,
        });
        let by: Vec<_> = by.collect();
        // A yes counts for as long as who gave it may give one.
        let approvers = self.ledger().list_approvers(&approved.org).await?;
        if by.iter().any(|user| !approvers.contains(user)) {
            return Ok(Derived::Different(Conflict::TupleMismatch));
        }
        let yes = policy::Approval { by, expires: held.expires_at };
        let Gates::Passed(gated) = self.gate(validated, Some(yes)).await? else {
            return Ok(Derived::Different(Conflict::PolicyMismatch));
        };
        let moded = self.mode_of(&gated).await?;
        if moded.stopped().is_some() {
            return Ok(Derived::Different(Conflict::Stopped));
        }
        let Moded { decision, policy_slice, .. } = moded;
        let decision = as_held(approved, decision);
        if decision.mode == Mode::Deny {
            return Ok(Derived::Different(Conflict::PolicyMismatch));
        }
        let live = bound(&gated, &decision, policy_slice, held.nonce, held.expires_at);
        if let Some(mismatch) = mismatch(&held, &live) {
            return Ok(Derived::Different(conflict_of(mismatch)));
        }
        // One that was approved before several could be has its one answer.
        let approvals = if approved.approvals.is_empty() { approved.answer.as_slice() } else { &approved.approvals };
        let approvers = approvals.iter().map(|approval| approval.by.clone()).collect();
        let redeemed = Redeemed::new(approvers, binding(&live));
        Ok(Derived::Same(Box::new(Cleared::by_person(gated, decision, policy_slice, redeemed))))
    }

    /// Who and where a held call comes from, as that is now; `None` when they can no longer act.
    pub(crate) async fn live(&self, held: &Invocation) -> Result<Option<Live>, Error> {
        let rules_version = self.ledger().rules_version(&held.org).await?;
        let principal = self.ledger().find_principal(&held.org, &held.principal).await?;
        let session = self
            .ledger()
            .find_session(&held.org, &held.session)
            .await?
            .filter(|session| session.ended_at.is_none() || held.intention == Intention::Revert);
        let (Some(principal), Some(session)) = (principal, session) else {
            return Ok(None);
        };
        let space = self.space_of(&session).await?;
        Ok(Some(Live { principal, session, space, rules_version }))
    }

    pub(crate) async fn open_params(&self, approved: &Invocation) -> Result<Value, Error> {
        let missing = || Error::Internal { message: format!("the params of `{}` are gone or do not open", approved.id) };
        let sealed = self.ledger().find_sealed_params(&approved.org, &approved.id).await?.ok_or_else(missing)?;
        let key = self.inner.keyring.space_key(&approved.org, &approved.space).await?;
        let plain = key.open(&params_context(approved.id.as_str()), &sealed).map_err(|_| missing())?;
        json::parse_strict(&plain).map_err(|_| missing())
    }

    /// An approval that no longer fits ends the invocation: nothing ran, and the receipt says why.
    async fn void(&self, approved: Invocation, conflict: Conflict) -> Result<Outcome, Error> {
        let id = approved.id.clone();
        let failure = Failure { code: conflict.code().into(), message: conflict.message().into() };
        let (status, by, row) = match conflict {
            Conflict::Expired => (Status::Expired, None, Row::ExpiredFrom(Status::Approved)),
            Conflict::Rejected
            | Conflict::Consumed
            | Conflict::Ended
            | Conflict::ArgsMismatch
            | Conflict::DefinitionMismatch
            | Conflict::PolicyMismatch
            | Conflict::TupleMismatch
            | Conflict::Stopped
            | Conflict::AlreadyApproved => (Status::Denied, Some(DeniedBy::Binding), Row::From(Status::Approved)),
        };
        self.record_ending(Ending::unexecuted(approved, status, by, failure, row)).await?;
        Err(Error::Conflict { invocation: id, conflict })
    }

    /// The approval could not be used at the last moment.
    pub(crate) async fn record_void(&self, void: Box<Void>) -> Result<Outcome, Error> {
        let Void { invocation, conflict } = *void;
        match self.ledger().find_invocation(&invocation.org, &invocation.id).await? {
            // Someone else's walk has it: this one has nothing to end.
            Some(row) if row.status != Status::Approved => Err(Error::Conflict { invocation: row.id, conflict: Conflict::Consumed }),
            Some(row) => self.void(row, conflict).await,
            None => Err(Error::UnknownInvocation { invocation: invocation.id.to_string() }),
        }
    }

    /// The event that tells of a status.
    pub(crate) fn event(&self, invocation: &Invocation, status: Status) -> EventDraft {
        let body = EventBody {
            invocation_id: &invocation.id,
            session_id: &invocation.session,
            space_id: &invocation.space,
            principal: &invocation.principal,
            action: &invocation.action,
            tier: invocation.tier,
            status,
            mode: invocation.decision.mode,
            trace_id: &invocation.trace_id,
        };
        EventDraft {
            id: countersign_core::EventId::new(self.now(), self.random_bytes()),
            name: status.event_name(),
            key: invocation.id.to_string(),
            // Ids and words only: they have a form.
            body: serde_json::to_string(&body).unwrap_or_default(),
        }
    }
}

#[derive(Serialize)]
struct EventBody<'a> {
    invocation_id: &'a InvocationId,
    session_id: &'a SessionId,
    space_id: &'a SpaceId,
    principal: &'a PrincipalId,
    action: &'a ActionId,
    tier: Tier,
    status: Status,
    mode: Mode,
    trace_id: &'a str,
}

/// Whether what was asked for could be asked for then, and cannot any more.
pub(crate) const fn is_redefined(error: &Error) -> bool {
    matches!(
        error,
        Error::UnknownAction { .. }
            | Error::InvalidParams { .. }
            | Error::InvalidRequest { .. }
            | Error::InvalidScope { .. }
            | Error::CommandNotAllowed { .. }
    )
}

/// An approved invocation that could not start.
pub(crate) struct Void {
    pub(crate) invocation: Invocation,
    pub(crate) conflict: Conflict,
}

enum Derived {
    Same(Box<Cleared>),
    Different(Conflict),
}

/// What a yes to a held call is bound to and is no longer so: such a yes runs nothing.
pub(crate) fn void_by(held: &Invocation, gated: &Gated, moded: &Moded) -> Result<Option<Conflict>, Error> {
    let then = bound_to(held)?;
    let now = bound(gated, &as_held(held, moded.decision.clone()), moded.policy_slice, then.nonce, then.expires_at);
    Ok(mismatch(&then, &now).map(conflict_of))
}

fn bound_to(held: &Invocation) -> Result<Bound, Error> {
    let facts = held.binding.as_ref().and_then(|binding| serde_json::from_value(binding.facts.clone()).ok());
    facts.ok_or_else(|| Error::Internal { message: format!("`{}` waited for a person and is bound to nothing", held.id) })
}

/// With the yes a gate no longer asks; what it was held by stays what it was held by.
fn as_held(held: &Invocation, decision: Decision) -> Decision {
    if decision.mode < held.decision.mode {
        return Decision { rules_version: decision.rules_version, ..held.decision.clone() };
    }
    decision
}

pub(crate) fn bound(gated: &Gated, decision: &Decision, policy_slice: Digest, nonce: Digest, expires_at: Timestamp) -> Bound {
    let resolved = &gated.validated.resolved;
    let (session, request, action) = (&resolved.admitted.session, &resolved.admitted.request, resolved.action());
    Bound {
        org: session.org.clone(),
        space: session.space.clone(),
        session: session.id.clone(),
        principal: request.principal.id.clone(),
        owner: request.principal.owner.clone(),
        automation_run: None,
        source: action.id.source().to_owned(),
        connection: None,
        connection_version: None,
        action: action.id.clone(),
        tier: resolved.tier(),
        params: gated.validated.digests.params,
        raw: gated.validated.digests.raw,
        scope: request.scope.clone(),
        commands: request.commands.clone(),
        structural: gated.validated.digests.structural,
        textual: gated.validated.digests.textual,
        policy_slice,
        modes_version: decision.modes_version,
        profile: action.profile.as_str().to_owned(),
        nonce,
        expires_at,
    }
}

pub(crate) fn to_binding(bound: &Bound) -> Result<Binding, Error> {
    let facts = serde_json::to_value(bound).map_err(|error| Error::Internal { message: error.to_string() })?;
    Ok(Binding { digest: binding(bound), nonce: bound.nonce, expires_at: bound.expires_at, facts })
}

pub(crate) fn seal_params(gated: &Gated) -> Result<Vec<u8>, Error> {
    let admitted = &gated.validated.resolved.admitted;
    let canonical = json::canonical(&admitted.request.params).map_err(|error| Error::Internal { message: error.to_string() })?;
    Ok(gated.validated.key.seal(&params_context(admitted.id.as_str()), canonical.as_bytes()))
}

fn params_context(invocation: &str) -> String {
    format!("params:{invocation}")
}

const fn conflict_of(mismatch: Mismatch) -> Conflict {
    match mismatch {
        Mismatch::Args => Conflict::ArgsMismatch,
        Mismatch::Definition => Conflict::DefinitionMismatch,
        Mismatch::Policy => Conflict::PolicyMismatch,
        Mismatch::Tuple => Conflict::TupleMismatch,
    }
}
