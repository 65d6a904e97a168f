//! A person's answer to a pending invocation. An approval covers exactly one call, is used once, and runs the call at once.

use crate::error::{Conflict, Error, ParamError};
use crate::limits::REASON_CHARS_MAX;
use crate::pipeline::Pipeline;
use crate::request::Outcome;
use crate::rules::grants::{check_bounds, check_sum_of};
use crate::walk::admit::must_be_let_in;
use crate::walk::drift::drift_from;
use crate::walk::ending::{Ending, conflict_of_ended, conflict_with};
use crate::walk::hold::approvals_needed;
use countersign_core::action::Class;
use countersign_core::decision::Drift;
use countersign_core::grant::{GrantScope, SumMax};
use countersign_core::invocation::{Answer, Beyond, Deadline, DeniedBy, Failure, GrantOffer};
use countersign_core::ledger::{Approval, Approve, Approved, EventDraft, Row};
use countersign_core::part_of::BatchMode;
use countersign_core::principal::Permission;
use countersign_core::session::{SelfApproval, Space};
use countersign_core::{ApprovalId, Band, Digest, Invocation, InvocationId, Principal, PrincipalId, Status};
use serde_json::Value;

/// A person's approval.
#[derive(Clone, Debug, Default)]
pub struct Yes {
    /// The binding that the person saw, if the door sends it along.
    pub shown: Option<Digest>,
    pub reason: Option<String>,
    pub beyond: BeyondAsked,
    /// Edited params, if the approver changed them.
    pub params: Option<Value>,
    /// The action's id as the person typed it. An R4 call must be approved by name, and so one at a time.
    pub confirm: Option<String>,
}

/// What the approver asks to permit beyond this one call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum BeyondAsked {
    #[default]
    Once,
    Always,
    Grant {
        to: GrantFor,
        calls_max: Option<u32>,
        sum_max: Option<SumMax>,
        lifetime_seconds: u64,
    },
}

/// Whose later calls the grant covers, relative to the approved call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantFor {
    Session,
    Automation,
    Org,
}

impl Pipeline {
    /// Approves this one invocation; the last approval of the quorum runs it.
    pub async fn approve(&self, principal: &Principal, id: &InvocationId, yes: Yes) -> Result<Outcome, Error> {
        let (pipeline, principal, id) = (self.clone(), principal.clone(), id.clone());
        // An approver who disconnects after the answer is durable does not stop the approved call.
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
            // Edited params are checked when they are applied.
            known => known,
        };
        if let Some(failure) = cannot_run {
            return Err(Error::CannotRun { invocation: id.clone(), failure });
        }
        let beyond = self.beyond_of(principal, &pending, &space, yes.beyond).await?;
        let sets_mode = matches!(beyond, Beyond::Always);
        let edited = match yes.params {
            Some(params) => self.edit(principal, &pending, yes.shown, params).await?,
            None => None,
        };
        let shown = edited.as_ref().map_or(yes.shown, super::edit::bound_to);
        let approval = self.approval(principal, &pending, shown, yes.reason, Verdict::Approve(beyond))?;
        let needed = approvals_needed(&space, pending.tier, edited.is_some() || pending.edit.is_some());
        let approve = Approve {
            org: pending.org.clone(),
            invocation: id.clone(),
            needed,
            is_separate: needed > 1 || space.self_approval == SelfApproval::Refused,
            event: self.walk.event(&pending, Status::Approved),
            event_counted: EventDraft { name: "invocation.approval_counted", ..self.walk.event(&pending, Status::Pending) },
            approval: approval.clone(),
            edited,
        };
        // Joined before the answer is stored: recovery treats an approved call that no process is walking as left behind.
        let walking = self.walk.inner.walking.join(id);
        let approved = match self.ledger().approve(approve).await? {
            Approved::Approved(approved) => approved,
            Approved::Counted(pending) => {
                self.walk.wake(id.as_str());
                return Ok(Outcome::Pending(pending));
            }
            Approved::Missing => return Err(Error::UnknownInvocation { invocation: id.to_string() }),
            Approved::Not(status) => return conflict(conflict_with(status)),
            Approved::Already => return conflict(Conflict::AlreadyApproved),
            Approved::TooNew => return conflict(Conflict::ApproverTooNew),
            Approved::MayNot => return Err(Error::MayNotApprove),
            Approved::OtherBinding => return conflict(Conflict::ArgsMismatch),
            Approved::Expired => {
                self.walk.expire(pending, Status::Pending).await?;
                return conflict(Conflict::Expired);
            }
        };
        let waited = approval.answer.at.millis_since(approved.created_at);
        metrics::histogram!("countersign_approval_seconds").record(waited as f64 / 1_000.0);
        self.walk.wake(id.as_str());
        if approved.batch.as_ref().is_some_and(|part| part.mode == BatchMode::AllOrNothing) {
            drop(walking);
            return self.approve_part(*approved).await;
        }
        let resumed = self.walk.resume(Invocation::clone(&approved)).await;
        drop(walking);
        self.advance_of(&approved).await;
        if sets_mode && resumed.is_ok() {
            self.end_void(&approved.org, Some(&approved.action)).await;
        }
        match resumed {
            // The answer is stored; the sweep resumes the call later.
            Err(Error::Store(_) | Error::RulesKeepChanging) => Ok(Outcome::Pending(approved)),
            // The answer is kept until the caller asks for the call again.
            Err(Error::Conflict { conflict: Conflict::CallerLeft, .. }) => {
                self.walk.let_go(&approved).await;
                Ok(Outcome::Pending(approved))
            }
            settled => settled,
        }
    }

    /// An approved part runs with the rest of its batch, once every part may run.
    async fn approve_part(&self, approved: Invocation) -> Result<Outcome, Error> {
        self.advance_and_see(&approved).await;
        // The approval is stored: if it cannot be read now how the call stands, the answer is what is known.
        let now = self.ledger().find_invocation(&approved.org, &approved.id).await.ok().flatten();
        Ok(Outcome::of(Box::new(now.unwrap_or(approved))))
    }

    /// Denies the call. The requester sees the reason.
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
            Some(reason) => format!("a person denied the call: {}", policy::redact_text(&reason)),
            None => "a person denied the call".to_owned(),
        };
        let failure = Failure { code: "denied_by_person".into(), message };
        let ending = Ending::unexecuted(pending, Status::Denied, Some(DeniedBy::Person), failure, Row::From(Status::Pending));
        let denied = self.walk.record_ending(ending.answered(approval)).await?;
        self.advance_of(&denied).await;
        Ok(denied)
    }

    /// Checks that this person may answer the call: its space lets them in, it is pending, and if the space refuses self-approval, they are
    /// not its requester or owner, and did not ask for its run.
    async fn answerable(&self, principal: &Principal, id: &InvocationId) -> Result<Answerable, Error> {
        must_approve(principal)?;
        let unknown = || Error::UnknownInvocation { invocation: id.to_string() };
        let invocation = self.ledger().find_invocation(&principal.org, id).await?.ok_or_else(unknown)?;
        // The rules version is read from the database first, so that the space's rules are those in force now, even if another server has
        // just changed them.
        self.ledger().rules_version_anew(&invocation.org).await?;
        let space = self.ledger().find_space(&invocation.org, &invocation.space).await?.ok_or_else(unknown)?;
        must_be_let_in(principal, &space, unknown)?;
        if invocation.status != Status::Pending {
            return Err(Error::Conflict { invocation: id.clone(), conflict: conflict_of_ended(&invocation) });
        }
        let session = self.ledger().find_session(&invocation.org, &invocation.session).await?.ok_or_else(unknown)?;
        if matches!(&principal.id, PrincipalId::User(user) if !space.lets_approve(user, invocation.owner.as_ref(), &session)) {
            return Err(Error::SelfApproval { invocation: id.clone() });
        }
        Ok(Answerable { invocation, space })
    }

    /// Refuses those whom the space of the call does not let in.
    pub(super) async fn must_be_let_in(&self, principal: &Principal, id: &InvocationId) -> Result<(), Error> {
        let unknown = || Error::UnknownInvocation { invocation: id.to_string() };
        let found = self.ledger().find_invocation(&principal.org, id).await?.ok_or_else(unknown)?;
        let space = self.ledger().find_space(&found.org, &found.space).await?.ok_or_else(unknown)?;
        must_be_let_in(principal, &space, unknown)
    }

    /// What the approver grants beyond this call, or why that cannot be granted.
    async fn beyond_of(&self, principal: &Principal, pending: &Invocation, space: &Space, asked: BeyondAsked) -> Result<Beyond, Error> {
        let refused = |reason| Err(Error::NotGrantable { invocation: pending.id.clone(), reason });
        if asked == BeyondAsked::Once {
            return Ok(Beyond::Once);
        }
        // The drift is computed from the review: a decision that requires an approval anyway does not name it.
        let pin = self.ledger().find_pin(&pending.org, &pending.action).await?;
        let now = self.definition_of(&pending.org, &pending.action).await?;
        if pending.tier.class() == Class::Danger || now.as_ref().is_some_and(|now| now.is_never_granted) {
            return refused("such an action is approved one call at a time");
        }
        if pin.is_none() && now.as_ref().is_some_and(|now| now.needs_review) {
            return refused("nobody has reviewed it since it appeared; review it first");
        }
        let is_drifted = pin.is_some_and(|pin| drift_from(&pin, pending.digests.structural, pending.digests.textual) != Drift::None);
        if is_drifted {
            return refused("its definition has changed since it was reviewed; review it first");
        }
        if space.band == Band::Black {
            return refused("in a black space every call is approved by itself");
        }
        match asked {
            BeyondAsked::Once => Ok(Beyond::Once),
            // This sets a mode, so it needs the permission for that.
            BeyondAsked::Always if !principal.may(Permission::ManagePolicy) => {
                Err(Error::Forbidden { permission: Permission::ManagePolicy })
            }
            BeyondAsked::Always => Ok(Beyond::Always),
            BeyondAsked::Grant { to, calls_max, sum_max, lifetime_seconds } => {
                check_bounds("/grant", calls_max, sum_max.as_ref(), lifetime_seconds)?;
                if let Some(now) = &now {
                    check_sum_of("/grant", sum_max.as_ref(), &now.action)?;
                }
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
                Ok(Beyond::Grant(GrantOffer { scope, calls_max, sum_max, lifetime_seconds }))
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
        let token = principal.token.clone().ok_or(Error::MayNotApprove)?;
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
            token,
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

/// Limits the length of a reason, which is stored and shown.
fn bounded(reason: Option<&str>) -> Result<(), Error> {
    let message = match reason {
        Some(reason) if reason.chars().count() > REASON_CHARS_MAX => format!("longer than {REASON_CHARS_MAX} characters"),
        // Not every database can store U+0000 in a text column.
        Some(reason) if reason.contains('\0') => "holds the character U+0000".to_owned(),
        Some(_) | None => return Ok(()),
    };
    Err(Error::InvalidRequest { errors: vec![ParamError { pointer: "/reason".into(), message }] })
}

/// Checks a mandatory reason, and redacts it.
pub fn needed_reason(reason: &str) -> Result<String, Error> {
    bounded(Some(reason))?;
    let reason = reason.trim();
    if reason.is_empty() {
        let message = format!("must have 1 to {REASON_CHARS_MAX} characters");
        return Err(Error::InvalidRequest { errors: vec![ParamError { pointer: "/reason".into(), message }] });
    }
    Ok(policy::redact_text(reason))
}

/// Only people whose role permits it may answer calls.
pub fn must_approve(principal: &Principal) -> Result<(), Error> {
    if principal.may(Permission::Approve) { Ok(()) } else { Err(Error::MayNotApprove) }
}
