//! A caller asks again for a call that it left: the call goes on with this caller, and no second one is made. The same words while the
//! first caller is still there are another call. That a caller has gone is seen on its connection, and may be seen a moment after the same
//! call has come again on another: see `note_leavers`. On another server it is seen in the store, or that server is gone itself and it is seen
//! when its lease has run out. A server that has the same call on a line is given the time to be heard of: see `join_any`.

use super::ending::STORE_AWAY_MAX;
use super::gate::Gated;
use super::ground::Walk;
use crate::error::Error;
use crate::limits::{LINE_GOING_MS, LINE_LOOK_MS, LINE_SETTLES_SECONDS};
use crate::line::{Kept, Line, OnLine};
use crate::request::Outcome;
use countersign_core::invocation::Intention;
use countersign_core::ledger::{self, AskedAgain, Joined, NewLine};
use countersign_core::{Digest, Invocation, InvocationId, OrgId, Session, Status};
use durable::Pace;
use futures_util::future::try_join_all;
use policy::digest::{Identity, identity};
use std::time::Duration;
use tokio::time::timeout;
use tracing::Instrument as _;

impl Walk {
    /// The call that was left, if this is the same one asked for again. It is this caller's from now on.
    pub(super) async fn join(&self, gated: &Gated) -> Result<Option<Outcome>, Error> {
        let admitted = &gated.validated.resolved.admitted;
        let Some(line) = admitted.request.line.as_ref().filter(|_| admitted.request.intention == Intention::Effect) else {
            return Ok(None);
        };
        let (session, identity) = (&admitted.session, identity_of_gated(gated));
        self.note_leavers(&session.org, line, identity).await?;
        while let Some(id) = self.join_any(session, line, identity).await? {
            // Said before the row is read: from here on the call is this caller's, whatever fails.
            line.carries(&id, Kept::Held);
            let Some(found) = self.ledger().find_invocation(&session.org, &id).await? else {
                self.drop_joined(line, &session.org, &id).await?;
                continue;
            };
            match found.status {
                // It ended because nobody asked again in time: this caller's call is a new one.
                Status::Expired | Status::Cancelled => self.drop_joined(line, &session.org, &id).await?,
                Status::Approved => return Box::pin(self.run_kept(found)).await.map(Some),
                Status::Pending
                | Status::Running
                | Status::InDoubt
                | Status::Succeeded
                | Status::Failed
                | Status::Reverted
                | Status::Denied
                | Status::Quarantined => return Ok(Some(Outcome::of(Box::new(found)))),
            }
        }
        Ok(None)
    }

    /// The call that was left. If another server has the same call on a line, it is waited for until that line is left, or that server is heard
    /// of while the line is still open: then its caller is there, and this is another call. If it is not heard of, its lease runs out, and its
    /// caller has left.
    async fn join_any(&self, session: &Session, line: &Line, identity: Digest) -> Result<Option<InvocationId>, Error> {
        let mut again = AskedAgain {
            org: session.org.clone(),
            session: session.id.clone(),
            identity,
            line: line.id().to_owned(),
            kept_seconds: session.attendance.approval_seconds(),
            since: None,
        };
        loop {
            match until_known(|| self.ledger().join_left(again.clone())).await? {
                Joined::Call(id) => return Ok(Some(id)),
                Joined::Nothing => return Ok(None),
                Joined::NotKnown { since } => again.since = Some(since),
            }
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(LINE_LOOK_MS)) => {}
                // Nothing is begun or asked for a caller that has gone.
                () = line.gone() => return Ok(None),
                () = self.inner.closing.cancelled() => {
                    line.cut();
                    return Ok(None);
                }
            }
        }
    }

    /// A call that was joined turned out to have ended for good: it is off the line, and nobody joins it again.
    async fn drop_joined(&self, line: &Line, org: &OrgId, invocation: &InvocationId) -> Result<(), Error> {
        self.ledger().hang_up(org, invocation, line.id()).await?;
        line.carries_nothing();
        Ok(())
    }

    /// Makes sure that the store knows of every caller on this server that asked for the same and has gone. A caller whose timer fires asks
    /// again at once, so whoever waits for a person or has waited for a while is given a moment to be seen going.
    async fn note_leavers(&self, org: &OrgId, line: &Line, identity: Digest) -> Result<(), Error> {
        let others = self.inner.lines.add(line, identity);
        try_join_all(others.iter().map(|other| self.note_if_it_leaves(org, other))).await.map(|_| ())
    }

    async fn note_if_it_leaves(&self, org: &OrgId, other: &Line) -> Result<(), Error> {
        if other.may_be_leaving() {
            let _still_there = timeout(Duration::from_millis(LINE_GOING_MS), other.ended()).await.is_err();
        }
        if !other.is_gone() {
            return Ok(());
        }
        // What it asked for may be about to begin or to be held. If it is not by then, it will not be: its caller has gone.
        match timeout(Duration::from_secs(LINE_SETTLES_SECONDS), other.called()).await {
            Ok(Some(call)) => self.note_left(org, other, &call).await,
            Ok(None) | Err(_) => Ok(()),
        }
    }

    /// Tells the store that the caller on this line has gone, if it does not know.
    pub(crate) async fn note_left(&self, org: &OrgId, line: &Line, call: &OnLine) -> Result<(), Error> {
        match call.kept {
            Kept::Held | Kept::Begun => line.noted(|| self.leave(org, &call.invocation, line.id())).await,
            Kept::Nowhere => Ok(()),
        }
    }

    /// Runs a call that was approved while its caller was gone. The approval was kept, and is used now, once.
    async fn run_kept(&self, approved: Invocation) -> Result<Outcome, Error> {
        let mut pace = Pace::soon();
        loop {
            if let Some(_walking) = self.claim(&approved).await? {
                let claimed = self.ledger().find_invocation(&approved.org, &approved.id).await?;
                let resumed = self.resume_apart(claimed.unwrap_or_else(|| approved.clone())).await;
                if resumed.is_err() {
                    // If it is still approved, the next sweep starts it, on whichever server.
                    self.let_go(&approved).await;
                }
                return resumed;
            }
            // Another walk has it. That of an approver who found nobody waiting lets it go in a moment.
            let now = self.ledger().find_invocation(&approved.org, &approved.id).await?;
            if let Some(now) = now.filter(|now| now.status != Status::Approved) {
                return Ok(Outcome::of(Box::new(now)));
            }
            if !pace.again().await {
                return Ok(Outcome::Pending(Box::new(approved)));
            }
        }
    }

    /// Resumes a call in a task of its own: one walk inside another would need more than the stack of a thread.
    fn resume_apart(&self, claimed: Invocation) -> countersign_core::Future<'static, Result<Outcome, Error>> {
        let walk = self.clone();
        let resumed = self.inner.tasks.spawn(async move { walk.resume(claimed).await }.in_current_span());
        Box::pin(async move { resumed.await.unwrap_or_else(|error| Err(Error::Internal { message: error.to_string() })) })
    }

    /// The line of a call that is about to be held, or to begin.
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

/// Repeats a write, which may be repeated, until it is known what became of it. Whoever was told "try again" while it was kept after all
/// would ask a second time.
pub(crate) async fn until_known<T, F: Future<Output = Result<T, ledger::Error>>>(write: impl Fn() -> F) -> Result<T, ledger::Error> {
    match write().await {
        Err(ledger::Error::CommitUnknown { .. }) => Pace::for_at_most(STORE_AWAY_MAX).retry(is_passing, write).await,
        known => known,
    }
}

fn is_passing<T>(written: &Result<T, ledger::Error>) -> bool {
    match written {
        Err(ledger::Error::Unavailable { .. } | ledger::Error::Fenced | ledger::Error::CommitUnknown { .. }) => true,
        Ok(_) | Err(ledger::Error::Corrupt { .. }) => false,
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
