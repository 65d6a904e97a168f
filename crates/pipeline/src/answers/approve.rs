//! A person's answer to a pending invocation. Approval is bound to the exact call, single use, and runs it at once.

use crate::error::{Conflict, Error, ParamError};
use crate::pipeline::Pipeline;
use crate::request::Outcome;
use crate::rules::grants::check_bounds;
use crate::walk::drift::drift_from;
use crate::walk::ending::{Ending, conflict_with};
use countersign_core::action::Class;
use countersign_core::batch::BatchMode;
use countersign_core::decision::Drift;
use countersign_core::grant::GrantScope;
use countersign_core::invocation::{Answer, Beyond, Deadline, DeniedBy, Failure, GrantOffer};
use countersign_core::ledger::{Approval, Approve, Approved, EventDraft, Row};
use countersign_core::limits::REASON_CHARS_MAX;
use countersign_core::principal::Permission;
use countersign_core::session::{SelfApproval, Space};
use countersign_core::{ApprovalId, Band, Digest, Invocation, InvocationId, Principal, PrincipalId, Status, Tier, UserId};
use serde_json::Value;

/// A person's yes.
#[derive(Clone, Debug, Default)]
pub struct Yes {
    /// The binding the person saw, when the door sends it along.
    pub shown: Option<Digest>,
    pub reason: Option<String>,
    pub beyond: BeyondAsked,
    /// Other params than the ones that were asked for.
    pub params: Option<Value>,
    /// The action's id as the person typed it. R4 is approved by name, and so one call at a time.
    pub confirm: Option<String>,
}

/// What a yes is to do beyond this one call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum BeyondAsked {
    #[default]
    Once,
    Always,
    Grant {
        to: GrantFor,
        calls_max: Option<u32>,
        lifetime_seconds: u64,
    },
}

/// Whose later calls a grant is for, seen from the call that is approved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantFor {
    Session,
    Automation,
    Org,
}

impl Pipeline {
    /// Approves this one invocation; with the last yes that is needed it runs.
    pub async fn approve(&self, principal: &Principal, id: &InvocationId, yes: Yes) -> Result<Outcome, Error> {
        let (pipeline, principal, id) = (self.clone(), principal.clone(), id.clone());
        // An approver who goes away after the answer is durable does not stop what they approved.
        self.walk
            .survive(async move {
                let answered = pipeline.approve_and_run(&principal, &id, yes).await;
                pipeline.walk.counted(&principal.org, answered).await
            })
            .await
    }

    async fn approve_and_run(&self, principal: &Principal, id: &InvocationId, yes: Yes) -> Result<Outcome, Error> {
        bounded(yes.reason.as_deref())?;
        let Answerable { invocation: pending, space } = self.answerable(principal, id).await?;
        let conflict = |conflict| Err(Error::Conflict { invocation: id.clone(), conflict });
        if matches!(pending.deadline, Some(Deadline::Stopped { .. })) {
            return conflict(Conflict::Stopped);
        }
        if pending.tier.class() == Class::Danger && yes.confirm.as_deref() != Some(pending.action.as_str()) {
            return Err(Error::NeedsConfirmation { invocation: id.clone(), action: pending.action });
        }
        let cannot_run = match self.why_impossible(&pending).await? {
            None if yes.params.is_none() => self.refused_ahead(&pending).await,
            // Other params are judged when they are taken.
            known => known,
        };
        if let Some(failure) = cannot_run {
            return Err(Error::CannotRun { invocation: id.clone(), failure });
        }
        let beyond = self.beyond_of(principal, &pending, &space, yes.beyond).await?;
        let edited = match yes.params {
            Some(params) => self.edit(principal, &pending, yes.shown, params).await?,
            None => None,
        };
        let shown = edited.as_ref().map_or(yes.shown, super::edit::bound_to);
        let approval = self.approval(principal, &pending, shown, yes.reason, Verdict::Approve(beyond))?;
        let approve = Approve {
            org: pending.org.clone(),
            invocation: id.clone(),
            needed: needed(&space, &pending, edited.is_some()),
            event: self.walk.event(&pending, Status::Approved),
            event_counted: EventDraft { name: "invocation.approval_counted", ..self.walk.event(&pending, Status::Pending) },
            approval: approval.clone(),
            edited,
        };
        // Before the answer is kept: whatever is approved and not being walked was left behind.
        let walking = self.walk.inner.walking.join(id);
        let approved = match self.ledger().approve(approve).await? {
            Approved::Approved(approved) => approved,
            Approved::Counted(pending) => {
                self.walk.inner.wakeups.wake(id);
                return Ok(Outcome::Pending(pending));
            }
            Approved::Missing => return Err(Error::UnknownInvocation { invocation: id.to_string() }),
            Approved::Not(status) => return conflict(conflict_with(status)),
            Approved::Already => return conflict(Conflict::AlreadyApproved),
            Approved::OtherBinding => return conflict(Conflict::ArgsMismatch),
            Approved::Expired => {
                self.walk.expire(pending, Status::Pending).await?;
                return conflict(Conflict::Expired);
            }
        };
        let waited = approval.answer.at.millis_since(approved.created_at);
        metrics::histogram!("countersign_approval_seconds").record(waited as f64 / 1_000.0);
        self.walk.inner.wakeups.wake(id);
        if approved.batch.as_ref().is_some_and(|part| part.mode == BatchMode::AllOrNothing) {
            drop(walking);
            return self.approve_part(*approved).await;
        }
        let resumed = self.walk.resume(Invocation::clone(&approved)).await;
        drop(walking);
        self.advance_of(&approved).await;
        match resumed {
            // The answer is kept; the sweep takes the call up once the store is back.
            Err(Error::Store(_)) => Ok(Outcome::Pending(approved)),
            settled => settled,
        }
    }

    /// It runs with the others of its batch, once every one of them may.
    async fn approve_part(&self, approved: Invocation) -> Result<Outcome, Error> {
        self.advance_and_see(&approved).await;
        let now = self.ledger().find_invocation(&approved.org, &approved.id).await?;
        let now = Box::new(now.unwrap_or(approved));
        Ok(match now.status {
            Status::InDoubt => Outcome::InDoubt(now),
            Status::Pending | Status::Approved | Status::Running => Outcome::Pending(now),
            Status::Succeeded
            | Status::Failed
            | Status::Reverted
            | Status::Denied
            | Status::Quarantined
            | Status::Expired
            | Status::Cancelled => Outcome::Ended { result: now.result.clone(), invocation: now },
        })
    }

    /// Says no. The reason reaches whoever asked.
    pub async fn deny(&self, principal: &Principal, id: &InvocationId, reason: Option<String>) -> Result<Invocation, Error> {
        let answered = self.say_no(principal, id, reason).await;
        self.walk.counted(&principal.org, answered).await
    }

    async fn say_no(&self, principal: &Principal, id: &InvocationId, reason: Option<String>) -> Result<Invocation, Error> {
        bounded(reason.as_deref())?;
        let Answerable { invocation: pending, .. } = self.answerable(principal, id).await?;
        let now = self.ledger().now().await?;
        if matches!(pending.deadline, Some(Deadline::At(at)) if at <= now) {
            self.walk.expire(pending, Status::Pending).await?;
            return Err(Error::Conflict { invocation: id.clone(), conflict: Conflict::Expired });
        }
        let approval = self.approval(principal, &pending, None, reason.clone(), Verdict::Deny)?;
        let message = match reason {
            Some(reason) => format!("a person said no: {}", policy::redact_text(&reason)),
            None => "a person said no".to_owned(),
        };
        let failure = Failure { code: "denied_by_person".into(), message };
        let ending = Ending::unexecuted(pending, Status::Denied, Some(DeniedBy::Person), failure, Row::From(Status::Pending));
        let denied = self.walk.record_ending(ending.answered(approval)).await?;
        self.advance_of(&denied).await;
        Ok(denied)
    }

    /// What this person may answer: it waits, and they are not who asked where that matters.
    async fn answerable(&self, principal: &Principal, id: &InvocationId) -> Result<Answerable, Error> {
        must_approve(principal)?;
        let unknown = || Error::UnknownInvocation { invocation: id.to_string() };
        let invocation = self.ledger().find_invocation(&principal.org, id).await?.ok_or_else(unknown)?;
        if invocation.status != Status::Pending {
            // Not every denial is a person's.
            let conflict = match invocation.denied_by {
                Some(DeniedBy::Drift) => Conflict::DefinitionMismatch,
                Some(DeniedBy::Policy | DeniedBy::Binding) => Conflict::Ended,
                Some(DeniedBy::Person) | None => conflict_with(invocation.status),
            };
            return Err(Error::Conflict { invocation: id.clone(), conflict });
        }
        // First the number, of the database itself: who may answer is what holds now, also where another server has just changed it.
        self.ledger().rules_version_anew(&invocation.org).await?;
        let space = self.ledger().find_space(&invocation.org, &invocation.space).await?.ok_or_else(unknown)?;
        if space.self_approval == SelfApproval::Refused && is_own(principal, &invocation.principal, invocation.owner.as_ref()) {
            return Err(Error::SelfApproval { invocation: id.clone() });
        }
        Ok(Answerable { invocation, space })
    }

    /// What the approver gives beyond this call, if that can be given at all.
    async fn beyond_of(&self, principal: &Principal, pending: &Invocation, space: &Space, asked: BeyondAsked) -> Result<Beyond, Error> {
        let refused = |reason| Err(Error::NotGrantable { invocation: pending.id.clone(), reason });
        if asked == BeyondAsked::Once {
            return Ok(Beyond::Once);
        }
        // By the review itself: a decision that asks anyway does not name the drift.
        let pin = self.ledger().find_pin(&pending.org, &pending.action).await?;
        let is_drifted = pin.is_some_and(|pin| drift_from(&pin, pending.digests.structural, pending.digests.textual) != Drift::None);
        if pending.tier.class() == Class::Danger {
            return refused("what destroys is approved one call at a time");
        }
        if is_drifted {
            return refused("its definition has changed since it was reviewed; review it first");
        }
        if space.band == Band::Black {
            return refused("in a black space every call is approved by itself");
        }
        match asked {
            BeyondAsked::Once => Ok(Beyond::Once),
            // It writes a mode, so it takes the right to.
            BeyondAsked::Always if !principal.may(Permission::ManagePolicy) => {
                Err(Error::Forbidden { permission: Permission::ManagePolicy })
            }
            BeyondAsked::Always => Ok(Beyond::Always),
            BeyondAsked::Grant { to, calls_max, lifetime_seconds } => {
                check_bounds(calls_max, lifetime_seconds)?;
                let scope = match to {
                    GrantFor::Org => GrantScope::Org,
                    GrantFor::Session => GrantScope::Session(pending.session.clone()),
                    GrantFor::Automation => {
                        let session = self.ledger().find_session(&pending.org, &pending.session).await?;
                        match session.and_then(|session| session.automation) {
                            Some(automation) => GrantScope::Automation(automation),
                            None => return refused("it was not made for an automation"),
                        }
                    }
                };
                Ok(Beyond::Grant(GrantOffer { scope, calls_max, lifetime_seconds }))
            }
        }
    }

    fn approval(
        &self,
        principal: &Principal,
        pending: &Invocation,
        shown: Option<Digest>,
        reason: Option<String>,
        verdict: Verdict,
    ) -> Result<Approval, Error> {
        let bound = pending.binding.as_ref().map(|binding| binding.digest);
        let binding =
            shown.or(bound).ok_or_else(|| Error::Internal { message: format!("pending `{}` is bound to nothing", pending.id) })?;
        let at = self.walk.now();
        let (approves, beyond) = match verdict {
            Verdict::Approve(beyond) => (true, beyond),
            Verdict::Deny => (false, Beyond::Once),
        };
        Ok(Approval {
            id: ApprovalId::new(at, self.walk.random_bytes()),
            answer: Answer { by: principal.id.clone(), at, reason: reason.as_deref().map(policy::redact_text), beyond },
            approves,
            binding,
        })
    }
}

enum Verdict {
    Approve(Beyond),
    Deny,
}

/// A pending invocation that this person may answer.
struct Answerable {
    invocation: Invocation,
    space: Space,
}

/// How many people must say yes. Whoever changes what destroys is not the only one to approve it.
fn needed(space: &Space, pending: &Invocation, is_edited: bool) -> u32 {
    let quorum = space.quorum.of(pending.tier);
    if is_edited && pending.tier == Tier::R4 { quorum.max(2) } else { quorum }
}

/// A reason is a sentence, not a document: it is kept and shown.
fn bounded(reason: Option<&str>) -> Result<(), Error> {
    let message = match reason {
        Some(reason) if reason.chars().count() > REASON_CHARS_MAX => format!("longer than {REASON_CHARS_MAX} characters"),
        // A column of text cannot hold it everywhere.
        Some(reason) if reason.contains('\0') => "holds the character U+0000".to_owned(),
        Some(_) | None => return Ok(()),
    };
    Err(Error::InvalidRequest { errors: vec![ParamError { pointer: "/reason".into(), message }] })
}

/// A reason that must be given, without secrets.
pub fn needed_reason(reason: &str) -> Result<String, Error> {
    bounded(Some(reason))?;
    let reason = reason.trim();
    if reason.is_empty() {
        let message = format!("must have 1 to {REASON_CHARS_MAX} characters");
        return Err(Error::InvalidRequest { errors: vec![ParamError { pointer: "/reason".into(), message }] });
    }
    Ok(policy::redact_text(reason))
}

/// Only people answer calls, and of them only whose role says so.
pub fn must_approve(principal: &Principal) -> Result<(), Error> {
    if principal.may(Permission::Approve) { Ok(()) } else { Err(Error::MayNotApprove) }
}

/// Whether they asked for it themselves, or own the agent that did.
pub(super) fn is_own(principal: &Principal, asked_by: &PrincipalId, owner: Option<&UserId>) -> bool {
    principal.id == *asked_by || matches!(&principal.id, PrincipalId::User(user) if owner == Some(user))
}
