//! Recovery after a crash or a restart, and the regular sweep: ends or resumes invocations that are expired, stale or interrupted.

use crate::error::Error;
use crate::limits::RECOVERED_AT_ONCE;
use crate::pipeline::Pipeline;
use crate::request::Outcome;
use crate::walk::ground::Walking;
use crate::walk::span;
use countersign_core::effect::Purpose;
use countersign_core::invocation::{Deadline, Failure};
use countersign_core::ledger::Finished;
use countersign_core::limits::RUNNING_SECONDS_MAX;
use countersign_core::part_of::BatchMode;
use countersign_core::{Invocation, InvocationId, OrgId, Status, Timestamp};
use futures_util::{StreamExt as _, stream};
use std::collections::HashSet;
use std::future::Future;
use tracing::Instrument as _;

/// How long an approved call may wait for the walk that approved it before another walk resumes it.
const APPROVED_SECONDS: u64 = 15;

/// Which invocations count as left behind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    /// This process has just started and no other server uses the database: everything that began before the start.
    AllUntil(Timestamp),
    /// Other servers use the database: only calls of servers that are gone, calls that are too old for any walk to be still running, and
    /// this server's own calls whose walk broke off. At a start the calls in doubt are reconciled too, because this server may see what the
    /// others cannot, and what was approved before is taken up at once.
    Stale { started: Option<Timestamp> },
}

impl Pipeline {
    /// Run once at the start. Call it before any door opens; the future may be awaited later. It does not touch calls that begin later.
    pub fn recover(&self) -> impl Future<Output = Result<(), Error>> + Send + 'static {
        let (pipeline, before) = (self.clone(), self.walk.now());
        async move {
            let is_alone = pipeline.ledger().join().await?;
            pipeline.walk.fault("recover.joined");
            let which = if is_alone { Which::AllUntil(before) } else { Which::Stale { started: Some(before) } };
            pipeline.settle(which).await
        }
    }

    /// Run every few seconds: expires calls that were not answered, and resumes calls that another process dropped.
    pub async fn sweep(&self) -> Result<(), Error> {
        for org in self.ledger().list_orgs().await? {
            for status in [Status::Pending, Status::Approved] {
                for invocation in self.ledger().list_expired(&org, status).await? {
                    let (id, span) = (invocation.id.clone(), span::of_left(&invocation));
                    // A call that cannot be expired does not keep the others from expiring.
                    if let Err(error) = self.walk.expire(invocation, status).instrument(span.clone()).await {
                        let _within = span.enter();
                        tracing::warn!(invocation = %id, %error, "could not be expired; it is tried again");
                    }
                }
            }
        }
        self.settle(Which::Stale { started: None }).await
    }

    /// Finds out what became of a running call whose server is silent, for a run that goes on here. That server may only have lost touch, so
    /// a repair or a rollback is left to it until it is gone. Returns whether the call still runs.
    pub async fn take_over(&self, org: &OrgId, id: &InvocationId) -> Result<bool, Error> {
        let Some(left) = self.ledger().find_invocation(org, id).await?.filter(|left| left.status == Status::Running) else {
            return Ok(false);
        };
        if left.purpose != Purpose::Effect {
            return Ok(true);
        }
        let Some(walking) = self.walk.claim_silent(&left).await? else {
            return Ok(true);
        };
        let (pipeline, span) = (self.clone(), span::of_left(&left));
        let end = async move {
            let _walking = walking;
            pipeline.end_claimed(left).await;
            Ok(())
        };
        self.walk.survive(end.instrument(span)).await?;
        Ok(self.ledger().find_invocation(org, id).await?.is_some_and(|left| left.status == Status::Running))
    }

    /// A server that lost the database for long may be considered gone although it lives, and its call may be marked as in doubt too early.
    /// The walk that still runs the call corrects that when it records the outcome.
    async fn settle(&self, which: Which) -> Result<(), Error> {
        let now = self.ledger().now().await?;
        for org in self.ledger().list_orgs().await? {
            // Each call is reconciled once per run, even if its source could not tell.
            let mut asked = HashSet::new();
            self.settle_running(&org, which, now, &mut asked).await?;
            if which != (Which::Stale { started: None }) {
                self.settle_doubts(&org, &asked).await?;
            }
            self.take_up_approved(&org, which, now).await?;
            self.settle_batches(&org, matches!(which, Which::AllUntil(_))).await?;
        }
        Ok(())
    }

    async fn settle_running(&self, org: &OrgId, which: Which, now: Timestamp, asked: &mut HashSet<InvocationId>) -> Result<(), Error> {
        let is_old = |invocation: &Invocation| {
            let since = invocation.started_at.unwrap_or(invocation.created_at);
            match which {
                Which::AllUntil(start) => since <= start,
                Which::Stale { .. } => since.plus_seconds(RUNNING_SECONDS_MAX) <= now,
            }
        };
        let mut after = None;
        loop {
            let running = self.ledger().list_in_status(org, Status::Running, after.as_ref()).await?;
            let Some(last) = running.last() else { break };
            after = Some(last.id.clone());
            self.end_all_left(running.into_iter().filter(is_old), asked).await;
        }
        if let Which::AllUntil(_) = which {
            return Ok(());
        }
        let mut after = None;
        loop {
            let left = self.ledger().list_left_behind(org, after.as_ref()).await?;
            let Some(last) = left.last() else { return Ok(()) };
            after = Some(last.id.clone());
            self.end_all_left(left.into_iter(), asked).await;
        }
    }

    async fn end_all_left(&self, left: impl Iterator<Item = Invocation>, asked: &mut HashSet<InvocationId>) {
        let left: Vec<_> = left.filter(|left| !self.is_walking(left) && asked.insert(left.id.clone())).collect();
        let end = |left: Invocation| {
            let span = span::of_left(&left);
            self.end_left_behind(left).instrument(span)
        };
        stream::iter(left).for_each_concurrent(RECOVERED_AT_ONCE, end).await;
    }

    async fn settle_doubts(&self, org: &OrgId, asked: &HashSet<InvocationId>) -> Result<(), Error> {
        let mut after = None;
        loop {
            let doubted = self.ledger().list_in_status(org, Status::InDoubt, after.as_ref()).await?;
            let Some(last) = doubted.last() else { return Ok(()) };
            after = Some(last.id.clone());
            let before = doubted.into_iter().filter(|doubted| !asked.contains(&doubted.id));
            let ask = |doubted: Invocation| {
                let span = span::of_left(&doubted);
                self.ask_about(doubted).instrument(span)
            };
            stream::iter(before).for_each_concurrent(RECOVERED_AT_ONCE, ask).await;
        }
    }

    async fn take_up_approved(&self, org: &OrgId, which: Which, now: Timestamp) -> Result<(), Error> {
        let mut after = None;
        loop {
            let approved = self.ledger().list_in_status(org, Status::Approved, after.as_ref()).await?;
            let Some(last) = approved.last() else { return Ok(()) };
            after = Some(last.id.clone());
            for approved in approved {
                let since = approved.answer.as_ref().map_or(approved.created_at, |answer| answer.at);
                // While a kill switch is on, the call waits and its deadline is suspended.
                let is_stopped = matches!(approved.deadline, Some(Deadline::Stopped { .. }));
                // A part of an all-or-nothing batch is started by its batch.
                let is_part = approved.batch.as_ref().is_some_and(|part| part.mode == BatchMode::AllOrNothing);
                let is_due = match which {
                    Which::AllUntil(start) => since <= start,
                    // The claim leaves it to a server that lives.
                    Which::Stale { started } => started.is_some_and(|start| since <= start) || since.plus_seconds(APPROVED_SECONDS) <= now,
                };
                // What was left runs when it is asked for again.
                if !is_stopped && !is_part && is_due && !self.ledger().has_left(org, &approved.id).await? {
                    let span = span::of_left(&approved);
                    self.take_up(approved).instrument(span).await;
                }
            }
        }
    }

    /// Reconciles a call that was left running. If its source cannot tell, the call becomes in doubt, and a person has to settle it.
    async fn end_left_behind(&self, left: Invocation) {
        if let Some(_walking) = self.claim_or_leave(&left).await {
            self.end_claimed(left).await;
        }
    }

    async fn end_claimed(&self, left: Invocation) {
        let id = left.id.clone();
        let doubted = match self.reconcile(left.clone()).await {
            Ok(Some(outcome)) => {
                let status = outcome.invocation().status;
                tracing::warn!(invocation = %id, %status, "left running by a crash; what became of it was found out");
                Ok(())
            }
            Ok(None) => self.doubt_left_behind(left).await,
            // The call goes on in the background, or the store has to come back first. Its outcome will be known then, so it is not in
            // doubt yet.
            Err(Error::Unrecorded { .. }) => Ok(()),
            Err(error) if error.is_passing() => Err(error),
            Err(error) => {
                tracing::warn!(invocation = %id, %error, "what became of it could not be recorded");
                self.doubt_left_behind(left).await
            }
        };
        if let Err(error) = doubted {
            tracing::warn!(invocation = %id, %error, "stays `running`; it is looked at again");
        }
    }

    /// Reconciles a call in doubt once more: its source may be able to tell now.
    pub(crate) async fn ask_about(&self, doubted: Invocation) {
        let left = doubted.clone();
        let Some(_walking) = self.claim_or_leave(&doubted).await else {
            return;
        };
        match self.reconcile(doubted).await {
            // The effect happened and could still not be checked, or the source could not tell.
            Ok(Some(Outcome::InDoubt(_)) | None) => {}
            // The call has ended, or it goes on in the background and its claim is released at its end.
            Ok(Some(_)) | Err(Error::Unrecorded { .. }) => return,
            Err(error) => tracing::warn!(invocation = %left.id, %error, "stays in doubt"),
        }
        self.walk.let_go(&left).await;
    }

    async fn claim_or_leave(&self, left: &Invocation) -> Option<Walking> {
        self.walk.claim(left).await.unwrap_or_else(|error| {
            tracing::warn!(invocation = %left.id, %error, "could not be taken up; it is looked at again");
            None
        })
    }

    async fn doubt_left_behind(&self, left: Invocation) -> Result<(), Error> {
        // Read again, because reconciling may have added an attempt to the row.
        let Some(mut invocation) = self.ledger().find_invocation(&left.org, &left.id).await? else {
            return Ok(());
        };
        invocation.status = Status::InDoubt;
        invocation.failure = Some(Failure { code: "interrupted".into(), message: "the server stopped while it ran".into() });
        let event = self.walk.event(&invocation, Status::InDoubt);
        match self.ledger().doubt(invocation.clone(), event).await? {
            Finished::Recorded { .. } => {
                tracing::warn!(invocation = %invocation.id, action = %invocation.action, "left running by a crash; its effect is in doubt");
                self.walk.tell(&invocation);
            }
            Finished::Not(_) | Finished::RulesChanged | Finished::MayNotAnswer | Finished::Missing => {}
        }
        Ok(())
    }

    /// Runs an approved call whose walk was lost. A call that is still being prepared, here or on a live server, is left to its walk.
    async fn take_up(&self, approved: Invocation) {
        let Some(walking) = self.claim_or_leave(&approved).await else {
            return;
        };
        tracing::info!(invocation = %approved.id, action = %approved.action, "an approved call that had not started is taken up again");
        let pipeline = self.clone();
        self.walk.spawn(async move {
            let _walking = walking;
            match pipeline.resume_claimed(&approved).await {
                Ok(_) | Err(Error::Conflict { .. }) => {}
                Err(error) => {
                    tracing::warn!(invocation = %approved.id, %error, "an approved call could not be taken up; trying again later")
                }
            }
        });
    }

    /// Resumes the call from its row as it is after the claim.
    async fn resume_claimed(&self, approved: &Invocation) -> Result<Outcome, Error> {
        let claimed = self.ledger().find_invocation(&approved.org, &approved.id).await?;
        self.walk.resume(claimed.ok_or_else(|| Error::UnknownInvocation { invocation: approved.id.to_string() })?).await
    }

    fn is_walking(&self, invocation: &Invocation) -> bool {
        self.walk.inner.walking.find(&invocation.id).is_some()
    }
}
