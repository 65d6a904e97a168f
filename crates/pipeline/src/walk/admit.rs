//! Stage 1: may this principal invoke in this session now? This is checked before the call itself is looked at.

use crate::error::Error;
use crate::limits::DECISIONS_MAX;
use crate::request::{Outcome, Request};
use crate::walk::ground::Walk;
use crate::walk::stage::Stage;
use countersign_core::batch::{Batch, PartEffect};
use countersign_core::invocation::{Intention, TakenOut};
use countersign_core::limiter::{Admission, CountedFor};
use countersign_core::part_of::PartOf;
use countersign_core::principal::Permission;
use countersign_core::{Digest, Invocation, InvocationId, Principal, PrincipalId, Session, SessionId, Space, Timestamp};
use serde_json::Value;
use std::time::Duration;

/// How long a call waits before it is decided again, so that a rule change made by another server has arrived.
const RULES_HEARD: Duration = Duration::from_millis(2);

/// A request that passed the first stage. From here on it has an invocation id.
pub(crate) struct Admitted {
    pub(crate) id: InvocationId,
    pub(crate) created_at: Timestamp,
    pub(crate) session: Session,
    pub(crate) space: Space,
    /// Read before any rule was read, so a later rule change is noticed when the intent is written.
    pub(crate) rules_version: i64,
    pub(crate) request: Request,
    pub(crate) entrance: Entrance,
    /// Why the call is a dry run although its caller asked for the effect (`rehearse.rs`).
    pub(crate) rehearsed: Option<String>,
}

/// How a call came to be walked.
pub(crate) enum Entrance {
    /// The call was just requested, by itself.
    Fresh,
    /// The call is a part of a batch.
    Part(PartOf),
    /// The call reverts the effect of another part of its batch.
    Compensation(Compensation),
    /// A person released the call from quarantine. The id is the quarantined call.
    Released(InvocationId),
    /// A person had a call in doubt made again. The id is that call; its idempotency key passes on to this one.
    Replacing(InvocationId),
    /// The call was held for a person and enters again.
    Resumed(Resumed),
}

/// What a held call keeps from its first entry.
pub(crate) struct Resumed {
    /// HMAC of the params as they were first sent.
    raw: Digest,
    released_from: Option<InvocationId>,
    part: Option<PartOf>,
    /// What was redacted before the call was held. Its params hold the tokens since, in which nothing more is found.
    taken_out: Option<TakenOut>,
    /// An approver has edited the params. A release from quarantine does not cover the edited params.
    pub(crate) is_edited: bool,
}

/// A batch's permission to revert one of its parts. It needs no approval: letting a part of such a batch run includes letting the batch
/// revert it.
#[derive(Clone)]
pub(crate) struct Compensation(PartOf);

impl Compensation {
    /// Returns one only for a part whose effect stands.
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

    pub(crate) const fn taken_out(&self) -> Option<&TakenOut> {
        match self {
            Self::Resumed(Resumed { taken_out, .. }) => taken_out.as_ref(),
            Self::Fresh | Self::Part(_) | Self::Compensation(_) | Self::Released(_) | Self::Replacing(_) => None,
        }
    }

    /// The call in doubt that this one replaces. `None` for a resumed call, which already holds the key.
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
    /// A rule changed since the call was decided. The call has not been performed, and it is decided again.
    RulesChanged(Box<Admitted>),
}

/// How far a whole call got.
pub(crate) type Walked = Step<Outcome>;

/// Whether a call counts against the rate limits of its session, its person and its space.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counted {
    Now,
    /// The call was counted when it was requested, or it is only a preview.
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
        let call = CountedFor { session: &session.id, person: request.principal.owner.as_ref(), space: Some(&session.space) };
        if counted == Counted::Now
            && let Admission::Refused { retry_after_ms, limited } = self.inner.limiter.admit(call).await
        {
            return Err(Error::RateLimited { session: session.id, limited, retry_after_ms });
        }
        self.admit_in(session, id, request, entrance).await
    }

    /// Admits a call in a session that was already checked.
    pub(crate) async fn admit_in(
        &self,
        session: Session,
        id: InvocationId,
        request: Request,
        entrance: Entrance,
    ) -> Result<Box<Admitted>, Error> {
        // The version is read first, so a change made while the rest is read is noticed.
        let rules_version = self.ledger().rules_version(&session.org).await?;
        let space = self.space_of(&session).await?;
        Ok(Box::new(Admitted { id, created_at: self.now(), session, space, rules_version, request, entrance, rehearsed: None }))
    }

    /// Admits a held call again. It was checked and counted when it was first requested. `None`: its requester or session can no longer
    /// act, or its space no longer lets the person behind it in.
    pub(crate) async fn admit_held(&self, held: &Invocation, params: Value) -> Result<Option<Box<Admitted>>, Error> {
        let rules_version = self.ledger().rules_version(&held.org).await?;
        let principal = self.ledger().find_principal_in(&held.org, &held.principal, &held.session).await?;
        let session = self.ledger().find_session(&held.org, &held.session).await?;
        let session = session.filter(|session| session.ended_at.is_none() || held.intention == Intention::Revert);
        let (Some(principal), Some(session)) = (principal, session) else {
            return Ok(None);
        };
        let space = self.space_of(&session).await?;
        if !space.lets_in(principal.owner.as_ref()) {
            return Ok(None);
        }
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
                taken_out: held.redacted.clone(),
                is_edited: held.edit.is_some(),
            }),
            rehearsed: None,
        })))
    }

    /// Repeats `decide` while a rule changes between the decision and the write that depends on it.
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
        Err(Error::RulesKeepChanging)
    }

    /// Admits the same call again, to be decided by the rules in force now. It was counted when it was first admitted.
    async fn admit_again(&self, mut admitted: Box<Admitted>) -> Result<Box<Admitted>, Error> {
        // This server hears of a rule change made by another server some milliseconds after the change can be read.
        tokio::time::sleep(RULES_HEARD).await;
        admitted.rules_version = self.ledger().rules_version(&admitted.session.org).await?;
        let request = &mut admitted.request;
        admitted.session = match &admitted.entrance {
            // The effects of a batch can be reverted after their session has ended.
            Entrance::Compensation(_) => admitted.session,
            Entrance::Resumed(_) => {
                let ended = || Error::SessionEnded { session: request.session.clone() };
                let Principal { org, id, .. } = &request.principal;
                let found = self.ledger().find_principal_in(org, id, &request.session).await?.ok_or_else(ended)?;
                request.principal = Principal { device: request.principal.device.take(), ..found };
                self.session_for(&request.principal, &request.session, request.intention).await?
            }
            Entrance::Fresh | Entrance::Part(_) | Entrance::Released(_) | Entrance::Replacing(_) => {
                self.session_for(&request.principal, &request.session, request.intention).await?
            }
        };
        admitted.space = self.space_of(&admitted.session).await?;
        Ok(admitted)
    }

    /// The space of a session as it is now, because its current band and rules decide.
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
        must_be_let_in(principal, &self.space_of(&session).await?, || Error::UnknownSession { session: id.clone() })?;
        // Effects made in a session can be reverted after the session has ended.
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

/// Refuses those whom the space does not let in. For those who do not see it either, what is in it does not exist: `unknown` says so.
pub(crate) fn must_be_let_in(principal: &Principal, space: &Space, unknown: impl FnOnce() -> Error) -> Result<(), Error> {
    if space.lets_in(principal.owner.as_ref()) {
        return Ok(());
    }
    Err(if principal.sees(space) { Error::NotAMember { space: space.id.clone() } } else { unknown() })
}

/// A person who may approve calls may also revert them, in any session.
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
