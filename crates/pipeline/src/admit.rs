//! Stage 1: may this principal invoke in this session now? Asked before anything about the call itself is looked at.

use crate::batch::Compensation;
use crate::stage::Stage;
use crate::{Error, Pipeline, Request};
use countersign_core::batch::PartOf;
use countersign_core::invocation::Intention;
use countersign_core::limiter::Admission;
use countersign_core::principal::Permission;
use countersign_core::{Digest, Invocation, InvocationId, Principal, PrincipalId, Session, SessionId, Space, Timestamp};
use policy::scan::Label;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a call waits before it is decided again.
const RULES_HEARD: Duration = Duration::from_millis(2);

/// A request that may be looked at. It has its id from here on.
pub(crate) struct Admitted {
    pub(crate) id: InvocationId,
    pub(crate) created_at: Timestamp,
    pub(crate) session: Session,
    pub(crate) space: Space,
    /// Read before any rule was: what changes after it is noticed when the intent is written.
    pub(crate) rules_version: i64,
    pub(crate) request: Request,
    /// HMAC of the params as they were first sent, where they have changed since.
    pub(crate) raw: Option<Digest>,
    /// The quarantined call that a person released as this one.
    pub(crate) released_from: Option<InvocationId>,
    /// The call in doubt that a person lets be made again as this one; its key passes on.
    pub(crate) instead_of: Option<InvocationId>,
    /// An approver has changed the params: nobody has released these.
    pub(crate) is_edited: bool,
    /// The batch it is a part of.
    pub(crate) part: Option<PartOf>,
    /// Leave of that batch to take back what another part did.
    pub(crate) undoing: Option<Compensation>,
}

impl Pipeline {
    pub(crate) async fn admit(&self, id: InvocationId, request: Request) -> Result<Box<Admitted>, Error> {
        let _timed = self.timed(Stage::Admit);
        let session = self.session_for(&request.principal, &request.session, request.intention).await?;
        match self.inner.limiter.admit(&session.id).await {
            Admission::Admitted => {}
            Admission::Refused { retry_after_ms } => return Err(Error::RateLimited { session: session.id, retry_after_ms }),
        }
        let place = self.place_of(session).await?;
        Ok(Admitted::first(id, self.now(), place, request))
    }

    /// A call that is only imagined, in a session it could be made in: it is not counted.
    pub(crate) async fn admit_unseen(&self, session: Session, request: Request) -> Result<Box<Admitted>, Error> {
        let place = self.place_of(session).await?;
        Ok(Admitted::first(self.draw_id(), self.now(), place, request))
    }

    async fn place_of(&self, session: Session) -> Result<Place, Error> {
        // First: what changes while the rest is read is noticed by it.
        let rules_version = self.ledger().rules_version(&session.org).await?;
        let space = self.space_of(&session).await?;
        Ok(Place { session, space, rules_version })
    }

    /// The same call, to be decided by the rules as they are now. It was counted when it came in.
    pub(crate) async fn admit_again(&self, mut admitted: Box<Admitted>) -> Result<Box<Admitted>, Error> {
        // A change that another server made is heard of some milliseconds after it can be read.
        tokio::time::sleep(RULES_HEARD).await;
        let rules_version = self.ledger().rules_version(&admitted.session.org).await?;
        let request = &admitted.request;
        // What a batch did in a session can be taken back after it.
        let session = match &admitted.undoing {
            Some(_) => admitted.session.clone(),
            None => self.session_for(&request.principal, &request.session, request.intention).await?,
        };
        admitted.space = self.space_of(&session).await?;
        (admitted.rules_version, admitted.session) = (rules_version, session);
        Ok(admitted)
    }

    /// The space of a session, as it is now: what it tolerates decides.
    pub(crate) async fn space_of(&self, session: &Session) -> Result<Space, Error> {
        let missing = || Error::Internal { message: format!("session `{}` is in no space", session.id) };
        self.ledger().find_space(&session.org, &session.space).await?.ok_or_else(missing)
    }

    pub(crate) async fn session_for(&self, principal: &Principal, id: &SessionId, intention: Intention) -> Result<Session, Error> {
        if principal.session.as_ref().is_some_and(|own| own != id) {
            return Err(Error::NotYourSession { session: id.clone() });
        }
        let Some(session) = self.ledger().find_session(&principal.org, id).await? else {
            return Err(Error::UnknownSession { session: id.clone() });
        };
        // What was done in it can be taken back after it.
        let is_undoing = intention == Intention::Revert && may_undo(principal);
        if session.ended_at.is_some() && !is_undoing {
            return Err(Error::SessionEnded { session: session.id });
        }
        if !is_undoing && !invokes_in(principal, &session) {
            return Err(Error::NotYourSession { session: session.id });
        }
        Ok(session)
    }
}

impl Admitted {
    /// A call that comes in for the first time.
    pub(crate) fn first(id: InvocationId, created_at: Timestamp, place: Place, request: Request) -> Box<Self> {
        let Place { session, space, rules_version } = place;
        Box::new(Self {
            id,
            created_at,
            session,
            space,
            rules_version,
            request,
            raw: None,
            released_from: None,
            instead_of: None,
            is_edited: false,
            part: None,
            undoing: None,
        })
    }

    /// A held invocation that enters the walk again after its answer. It was admitted and counted when it was first asked for.
    pub(crate) fn again(held: &Invocation, live: Live, params: Value) -> Box<Self> {
        let Live { principal, session, space, rules_version } = live;
        Box::new(Self {
            id: held.id.clone(),
            created_at: held.created_at,
            session,
            space,
            rules_version,
            raw: Some(held.digests.raw),
            released_from: held.released_from.clone(),
            // It has the key already.
            instead_of: None,
            is_edited: held.edit.is_some(),
            part: held.batch.clone(),
            undoing: None,
            request: Request {
                principal,
                session: held.session.clone(),
                action: held.action.to_string(),
                params,
                idempotency_key: held.idempotency_key.clone(),
                approval_ref: None,
                intention: held.intention,
                reverses: held.reverses.clone(),
                scope: held.scope.clone(),
                bounds: held.bounds.clone(),
                commands: held.commands.clone(),
                reason: held.reason.clone(),
                claimed: held.claimed.clone(),
                provenance: labels_of(held),
                trace_id: held.trace_id.clone(),
            },
        })
    }
}

pub(crate) fn labels_of(held: &Invocation) -> BTreeMap<String, Label> {
    labels_from(&held.provenance)
}

pub(crate) fn labels_from(provenance: &BTreeMap<String, String>) -> BTreeMap<String, Label> {
    let read = |label: &String| serde_json::from_value(Value::String(label.clone())).ok();
    // A label that is not known is the least trusted there is.
    provenance.iter().map(|(pointer, label)| (pointer.clone(), read(label).unwrap_or(Label::Web))).collect()
}

/// Where a call is made, and by which rules.
pub(crate) struct Place {
    pub(crate) session: Session,
    pub(crate) space: Space,
    pub(crate) rules_version: i64,
}

/// Who and where a held call comes from, as that is now.
pub(crate) struct Live {
    pub(crate) principal: Principal,
    pub(crate) session: Session,
    pub(crate) space: Space,
    pub(crate) rules_version: i64,
}

/// Whoever answers for what agents do may undo it, wherever it was done.
fn may_undo(principal: &Principal) -> bool {
    principal.may(Permission::Approve) && matches!(principal.id, PrincipalId::User(_))
}

/// An agent invokes in its one session, everyone else in sessions they created.
fn invokes_in(principal: &Principal, session: &Session) -> bool {
    principal.may(Permission::Invoke)
        && match &principal.id {
            PrincipalId::Agent(own) => *own == session.id,
            PrincipalId::User(_) | PrincipalId::Service(_) | PrincipalId::Automation(_) => session.created_by == principal.id,
        }
}
