//! A person's answer to a pending invocation. Approval is bound to the exact call, single use, and runs it at once.

use crate::record::{Ending, conflict_with};
use crate::{Conflict, Error, Outcome, ParamError, Pipeline};
use countersign_core::invocation::{Answer, DeniedBy, Failure};
use countersign_core::ledger::{Approval, Approve, Approved, Row};
use countersign_core::limits::REASON_CHARS_MAX;
use countersign_core::principal::Permission;
use countersign_core::session::SelfApproval;
use countersign_core::{ApprovalId, Digest, Invocation, InvocationId, Principal, PrincipalId, Status};

impl Pipeline {
    /// Approves this one invocation and runs it. `shown` is the binding the person saw, when the door sends it along.
    pub async fn approve(
        &self,
        principal: &Principal,
        id: &InvocationId,
        shown: Option<Digest>,
        reason: Option<String>,
    ) -> Result<Outcome, Error> {
        let (pipeline, principal, id) = (self.clone(), principal.clone(), id.clone());
        // An approver who goes away after the answer is durable does not stop what they approved.
        self.survive(async move { pipeline.approve_and_run(&principal, &id, shown, reason).await }).await
    }

    async fn approve_and_run(
        &self,
        principal: &Principal,
        id: &InvocationId,
        shown: Option<Digest>,
        reason: Option<String>,
    ) -> Result<Outcome, Error> {
        bounded(reason.as_deref())?;
        let pending = self.answerable(principal, id).await?;
        let approval = self.approval(principal, &pending, shown, reason, Verdict::Approve)?;
        let approve = Approve {
            org: pending.org.clone(),
            invocation: id.clone(),
            event: self.event(&pending, Status::Approved),
            approval: approval.clone(),
        };
        let conflict = |conflict| Err(Error::Conflict { invocation: id.clone(), conflict });
        match self.ledger().approve(approve).await? {
            Approved::Approved => {}
            Approved::Missing => return Err(Error::UnknownInvocation { invocation: id.to_string() }),
            Approved::Not(status) => return conflict(conflict_with(status)),
            Approved::OtherBinding => return conflict(Conflict::ArgsMismatch),
            Approved::Expired => {
                self.expire(pending, Status::Pending).await?;
                return conflict(Conflict::Expired);
            }
        }
        let waited = approval.answer.at.millis_since(pending.created_at);
        metrics::histogram!("countersign_approval_seconds").record(waited as f64 / 1_000.0);
        self.inner.waiters.wake(id);
        let approved = Invocation { status: Status::Approved, answer: Some(approval.answer), ..pending };
        match self.resume(approved.clone()).await {
            // The answer is kept; the sweep takes the call up once the store is back.
            Err(Error::Store(_)) => Ok(Outcome::Pending(Box::new(approved))),
            settled => settled,
        }
    }

    /// Says no. The reason reaches whoever asked.
    pub async fn deny(&self, principal: &Principal, id: &InvocationId, reason: Option<String>) -> Result<Invocation, Error> {
        bounded(reason.as_deref())?;
        let pending = self.answerable(principal, id).await?;
        let now = self.ledger().now().await?;
        if pending.binding.as_ref().is_some_and(|binding| binding.expires_at <= now) {
            self.expire(pending, Status::Pending).await?;
            return Err(Error::Conflict { invocation: id.clone(), conflict: Conflict::Expired });
        }
        let approval = self.approval(principal, &pending, None, reason.clone(), Verdict::Deny)?;
        let message = match reason {
            Some(reason) => format!("a person said no: {}", policy::redact_text(&reason)),
            None => "a person said no".to_owned(),
        };
        let failure = Failure { code: "denied_by_person".into(), message };
        let ending = Ending::unexecuted(pending, Status::Denied, Some(DeniedBy::Person), failure, Row::From(Status::Pending));
        self.record_ending(ending.answered(approval)).await
    }

    /// Ends what nobody answered in time. Does nothing if someone did after all.
    pub(crate) async fn expire(&self, invocation: Invocation, from: Status) -> Result<(), Error> {
        let failure = Failure { code: Conflict::Expired.code().into(), message: "nobody answered in time".into() };
        match self.record_ending(Ending::unexecuted(invocation, Status::Expired, None, failure, Row::ExpiredFrom(from))).await {
            Ok(_) | Err(Error::Conflict { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn answerable(&self, principal: &Principal, id: &InvocationId) -> Result<Invocation, Error> {
        if !principal.may(Permission::Approve) {
            return Err(Error::MayNotApprove);
        }
        let unknown = || Error::UnknownInvocation { invocation: id.to_string() };
        let invocation = self.ledger().find_invocation(&principal.org, id).await?.ok_or_else(unknown)?;
        if invocation.status != Status::Pending {
            return Err(Error::Conflict { invocation: id.clone(), conflict: conflict_with(invocation.status) });
        }
        let space = self.ledger().find_space(&invocation.org, &invocation.space).await?.ok_or_else(unknown)?;
        if space.self_approval == SelfApproval::Refused && is_own(principal, &invocation) {
            return Err(Error::SelfApproval { invocation: id.clone() });
        }
        Ok(invocation)
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
        let at = self.now();
        Ok(Approval {
            id: ApprovalId::new(at, self.random_bytes()),
            answer: Answer { by: principal.id.clone(), at, reason: reason.as_deref().map(policy::redact_text) },
            approves: matches!(verdict, Verdict::Approve),
            binding,
        })
    }
}

#[derive(Clone, Copy)]
enum Verdict {
    Approve,
    Deny,
}

/// A reason is a sentence, not a document: it is kept and shown.
fn bounded(reason: Option<&str>) -> Result<(), Error> {
    let message = match reason {
        Some(reason) if reason.chars().count() > REASON_CHARS_MAX => format!("longer than {REASON_CHARS_MAX} characters"),
        // A column of text cannot hold it everywhere.
        Some(reason) if reason.contains('\0') => "holds the character U+0000".to_owned(),
        Some(_) | None => return Ok(()),
    };
    Err(Error::InvalidParams { action: "answer".into(), errors: vec![ParamError { pointer: "/reason".into(), message }] })
}

/// Whoever asked, or the person the asking agent works for.
fn is_own(principal: &Principal, invocation: &Invocation) -> bool {
    if principal.id == invocation.principal {
        return true;
    }
    match &principal.id {
        PrincipalId::User(user) => invocation.owner.as_ref() == Some(user),
        PrincipalId::Agent(_) | PrincipalId::Service(_) | PrincipalId::Automation(_) => false,
    }
}
