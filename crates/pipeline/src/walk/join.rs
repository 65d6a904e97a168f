//! A caller asks again for a call that it left: the call goes on with this caller, and no second one is made. The same words while the
//! first caller is still there are another call.

use super::gate::Gated;
use super::ground::Walk;
use crate::error::Error;
use crate::line::Line;
use crate::request::Outcome;
use countersign_core::invocation::Intention;
use countersign_core::ledger::NewLine;
use countersign_core::{Digest, Invocation, InvocationId, OrgId, Status};
use policy::digest::{Identity, identity};

/// The failure code of a call that ended because its caller left and did not ask again.
pub(crate) const CALLER_LEFT: &str = "caller_left";

impl Walk {
    /// The call that was left, if this is the same one asked for again. It is this caller's from now on.
    pub(super) async fn join(&self, gated: &Gated) -> Result<Option<Outcome>, Error> {
        let admitted = &gated.validated.resolved.admitted;
        let Some(line) = admitted.request.line.as_ref().filter(|_| admitted.request.intention == Intention::Effect) else {
            return Ok(None);
        };
        let (session, identity) = (&admitted.session, identity_of_gated(gated));
        while let Some(id) = self.ledger().join_left(&session.org, &session.id, identity, line.id()).await? {
            let Some(found) = self.ledger().find_invocation(&session.org, &id).await? else {
                self.ledger().hang_up(&session.org, &id, line.id()).await?;
                continue;
            };
            match found.status {
                // It ended because nobody asked again in time: this caller's call is a new one.
                Status::Expired | Status::Cancelled => self.ledger().hang_up(&session.org, &id, line.id()).await?,
                Status::Approved => {
                    line.carries(&id, true);
                    return Box::pin(self.run_kept(found)).await.map(Some);
                }
                Status::Pending
                | Status::Running
                | Status::InDoubt
                | Status::Succeeded
                | Status::Failed
                | Status::Reverted
                | Status::Denied
                | Status::Quarantined => {
                    line.carries(&id, true);
                    return Ok(Some(Outcome::of(Box::new(found))));
                }
            }
        }
        Ok(None)
    }

    /// Runs a call that was approved while its caller was gone. The approval was kept, and is used now, once.
    async fn run_kept(&self, approved: Invocation) -> Result<Outcome, Error> {
        let Some(_walking) = self.claim(&approved).await? else {
            // Another walk has it.
            return Ok(Outcome::Pending(Box::new(approved)));
        };
        let claimed = self.ledger().find_invocation(&approved.org, &approved.id).await?;
        self.resume(claimed.unwrap_or(approved)).await
    }

    /// The line of a call that is about to be held.
    pub(super) fn line_of(&self, gated: &Gated) -> Option<NewLine> {
        let admitted = &gated.validated.resolved.admitted;
        let line = admitted.request.line.as_ref()?;
        Some(NewLine {
            org: admitted.session.org.clone(),
            session: admitted.session.id.clone(),
            invocation: admitted.id.clone(),
            identity: identity_of_gated(gated),
            line: line.id().to_owned(),
            kept_seconds: admitted.session.attendance.approval_seconds(),
        })
    }

    /// Records that the caller on this line has gone. A call that has no row has nothing to ask again for.
    pub(crate) async fn leave(&self, org: &OrgId, invocation: &InvocationId, line: &str) -> Result<(), Error> {
        if let Some(left) = self.stored_line(org, invocation, line).await? {
            self.ledger().leave(left).await?;
            tracing::info!(%invocation, "its caller has left before anything was delivered");
        }
        Ok(())
    }

    /// The line of a call, from its row.
    pub(crate) async fn stored_line(&self, org: &OrgId, invocation: &InvocationId, line: &str) -> Result<Option<NewLine>, Error> {
        let Some(row) = self.ledger().find_invocation(org, invocation).await? else {
            return Ok(None);
        };
        let (Some(identity), Some(session)) = (identity_of(&row), self.ledger().find_session(org, &row.session).await?) else {
            return Ok(None);
        };
        Ok(Some(NewLine {
            org: org.clone(),
            session: session.id,
            invocation: row.id,
            identity,
            line: line.to_owned(),
            kept_seconds: session.attendance.approval_seconds(),
        }))
    }
}

/// Whether the call's caller waited on a line and is gone by now.
pub(super) fn is_caller_gone(gated: &Gated) -> bool {
    gated.validated.resolved.admitted.request.line.as_ref().is_some_and(Line::is_gone)
}

pub(super) fn identity_of_gated(gated: &Gated) -> Digest {
    let resolved = &gated.validated.resolved;
    let (session, request, digests) = (&resolved.admitted.session, &resolved.admitted.request, &gated.validated.digests);
    identity(&Identity {
        session: &session.id,
        principal: &request.principal.id,
        action: &resolved.action().id,
        tier: resolved.tier(),
        raw: digests.raw,
        scope: &request.call.scope,
        commands: &request.call.commands,
        structural: digests.structural,
        textual: digests.textual,
    })
}

/// The same digest, from the row of a call that was held or has begun.
pub(super) fn identity_of(row: &Invocation) -> Option<Digest> {
    let has_begun_or_waits = row.binding.is_some() || row.announced.is_some();
    has_begun_or_waits.then(|| {
        identity(&Identity {
            session: &row.session,
            principal: &row.principal,
            action: &row.action,
            tier: row.tier,
            raw: row.digests.raw,
            scope: &row.call.scope,
            commands: &row.call.commands,
            structural: row.digests.structural,
            textual: row.digests.textual,
        })
    })
}
