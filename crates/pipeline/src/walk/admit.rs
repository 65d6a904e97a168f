//! Stage 1: may this principal invoke in this session now? Asked before anything about the call itself is looked at.

use crate::error::Error;
use crate::request::{Outcome, Request};
use crate::walk::ground::Walk;
use crate::walk::stage::Stage;
use countersign_core::batch::{Batch, PartEffect, PartOf};
use countersign_core::invocation::Intention;
use countersign_core::limiter::Admission;
use countersign_core::limits::DECISIONS_MAX;
use countersign_core::principal::Permission;
use countersign_core::{Digest, Invocation, InvocationId, Principal, PrincipalId, Session, SessionId, Space, Timestamp};
use serde_json::Value;
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
    pub(crate) entrance: Entrance,
}

/// How a call comes to be walked.
pub(crate) enum Entrance {
    /// It was just asked for, by itself.
    Fresh,
    /// It is a part of a batch.
    Part(PartOf),
    /// It reverts what another part of its batch did.
    Compensation(Compensation),
    /// A person released it from quarantine; this is the call that was quarantined.
    Released(InvocationId),
    /// A person had it made again; this is the call in doubt that it replaces, and whose idempotency key passes on to it.
    Replacing(InvocationId),
    /// It was held for a person and comes back.
    Resumed(Resumed),
}

/// What a held call keeps from how it first entered.
pub(crate) struct Resumed {
    /// HMAC of the params as they were first sent.
    raw: Digest,
    released_from: Option<InvocationId>,
    part: Option<PartOf>,
    /// An approver has changed the params: nobody has released these.
    pub(crate) is_edited: bool,
}

/// A batch's permission to revert one of its parts: whoever let that part run let it run on these terms.
#[derive(Clone)]
pub(crate) struct Compensation(PartOf);

impl Compensation {
    /// Only for a part whose effect stands.
    pub(crate) fn of(batch: &Batch, index: usize) -> Option<Self> {
        let part = batch.parts.get(index)?;
        (part.effect == PartEffect::Stands).then(|| Self(batch.part_of(index)))
    }
}

impl Entrance {
    pub(crate) const fn raw(&self) -> Option<Digest> {
        match self {
            Self::Resumed(Resumed { raw, .. }) => Some(*raw),
            Self::Fresh | Self::Part(_) | Self::Compensation(_) | Self::Released(_) | Self::Replacing(_) => None,
        }
    }

    pub(crate) const fn part(&self) -> Option<&PartOf> {
        match self {
            Self::Part(part) | Self::Compensation(Compensation(part)) => Some(part),
            Self::Resumed(Resumed { part, .. }) => part.as_ref(),
            Self::Fresh | Self::Released(_) | Self::Replacing(_) => None,
        }
    }

    pub(crate) const fn compensation(&self) -> Option<&Compensation> {
        match self {
            Self::Compensation(compensation) => Some(compensation),
            Self::Fresh | Self::Part(_) | Self::Released(_) | Self::Replacing(_) | Self::Resumed(_) => None,
        }
    }

    pub(crate) const fn released_from(&self) -> Option<&InvocationId> {
        match self {
            Self::Released(from) => Some(from),
            Self::Resumed(Resumed { released_from, .. }) => released_from.as_ref(),
            Self::Fresh | Self::Part(_) | Self::Compensation(_) | Self::Replacing(_) => None,
        }
    }

    /// A held call has the key already.
    pub(crate) const fn replaces(&self) -> Option<&InvocationId> {
        match self {
            Self::Replacing(replaced) => Some(replaced),
            Self::Fresh | Self::Part(_) | Self::Compensation(_) | Self::Released(_) | Self::Resumed(_) => None,
        }
    }

    pub(crate) const fn is_edited(&self) -> bool {
        matches!(self, Self::Resumed(Resumed { is_edited: true, .. }))
    }
}

/// How far a step of a call got.
pub(crate) enum Step<T> {
    Done(T),
    /// A rule changed since the call was decided. Nothing has happened yet, and it is decided again.
    RulesChanged(Box<Admitted>),
}

/// How far a call got.
pub(crate) type Walked = Step<Outcome>;

/// Whether a call counts against how often its session may invoke.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counted {
    Now,
    /// It was counted when it was asked for, or is only imagined.
    Not,
}

impl Walk {
    pub(crate) async fn admit(&self, id: InvocationId, request: Request, entrance: Entrance) -> Result<Box<Admitted>, Error> {
        let _timed = self.timed(Stage::Admit);
        self.admit_counted(id, request, entrance, Counted::Now).await
    }

    pub(crate) async fn admit_counted(
        &self,
        id: InvocationId,
        request: Request,
        entrance: Entrance,
        counted: Counted,
    ) -> Result<Box<Admitted>, Error> {
        let session = self.session_for(&request.principal, &request.session, request.intention).await?;
        if counted == Counted::Now
            && let Admission::Refused { retry_after_ms } = self.inner.limiter.admit(&session.id).await
        {
            return Err(Error::RateLimited { session: session.id, retry_after_ms });
        }
        self.admit_in(session, id, request, entrance).await
    }

    /// A call in a session that is known to be the right one.
    pub(crate) async fn admit_in(
        &self,
        session: Session,
        id: InvocationId,
        request: Request,
        entrance: Entrance,
    ) -> Result<Box<Admitted>, Error> {
        // First: what changes while the rest is read is noticed by it.
        let rules_version = self.ledger().rules_version(&session.org).await?;
        let space = self.space_of(&session).await?;
        Ok(Box::new(Admitted { id, created_at: self.now(), session, space, rules_version, request, entrance }))
    }

    /// A held call that enters again. It was admitted and counted when it was first asked for. `None`: who asked can no longer act.
    pub(crate) async fn admit_held(&self, held: &Invocation, params: Value) -> Result<Option<Box<Admitted>>, Error> {
        let rules_version = self.ledger().rules_version(&held.org).await?;
        let principal = self.ledger().find_principal(&held.org, &held.principal).await?;
        let session = self.ledger().find_session(&held.org, &held.session).await?;
        let session = session.filter(|session| session.ended_at.is_none() || held.intention == Intention::Revert);
        let (Some(principal), Some(session)) = (principal, session) else {
            return Ok(None);
        };
        let space = self.space_of(&session).await?;
        Ok(Some(Box::new(Admitted {
            id: held.id.clone(),
            created_at: held.created_at,
            session,
            space,
            rules_version,
            request: Request::again(held, principal, params),
            entrance: Entrance::Resumed(Resumed {
                raw: held.digests.raw,
                released_from: held.released_from.clone(),
                part: held.batch.clone(),
                is_edited: held.edit.is_some(),
            }),
        })))
    }

    /// Repeats `decide` for as long as a rule changes between a decision and the write that rests on it.
    pub(crate) async fn until_decided<T, F>(
        &self,
        mut admitted: Box<Admitted>,
        decide: impl Fn(Box<Admitted>) -> F + Send,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<Step<T>, Error>> + Send,
    {
        for _ in 0..DECISIONS_MAX {
            match decide(admitted).await? {
                Step::Done(done) => return Ok(done),
                Step::RulesChanged(again) => admitted = self.admit_again(again).await?,
            }
        }
        Err(Error::rules_keep_changing())
    }

    /// The same call, to be decided by the rules as they are now. It was counted when it came in.
    async fn admit_again(&self, mut admitted: Box<Admitted>) -> Result<Box<Admitted>, Error> {
        // A change that another server made is heard of some milliseconds after it can be read.
        tokio::time::sleep(RULES_HEARD).await;
        admitted.rules_version = self.ledger().rules_version(&admitted.session.org).await?;
        let request = &mut admitted.request;
        admitted.session = match &admitted.entrance {
            // What a batch did in a session can be reverted after the session has ended.
            Entrance::Compensation(_) => admitted.session,
            Entrance::Resumed(_) => {
                let ended = || Error::SessionEnded { session: request.session.clone() };
                request.principal = self.ledger().find_principal(&request.principal.org, &request.principal.id).await?.ok_or_else(ended)?;
                self.session_for(&request.principal, &request.session, request.intention).await?
            }
            Entrance::Fresh | Entrance::Part(_) | Entrance::Released(_) | Entrance::Replacing(_) => {
                self.session_for(&request.principal, &request.session, request.intention).await?
            }
        };
        admitted.space = self.space_of(&admitted.session).await?;
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
        // What was done in it can be reverted after it.
        let is_reverting = intention == Intention::Revert && may_revert(principal);
        if session.ended_at.is_some() && !is_reverting {
            return Err(Error::SessionEnded { session: session.id });
        }
        if !is_reverting && !invokes_in(principal, &session) {
            return Err(Error::NotYourSession { session: session.id });
        }
        Ok(session)
    }
}

/// Whoever answers for what agents do may revert it, wherever it was done.
fn may_revert(principal: &Principal) -> bool {
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
