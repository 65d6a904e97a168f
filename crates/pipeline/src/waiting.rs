//! Waiting for a call: the one way to, for every door. A caller is told what the call prints, that it waits for a person, and how it ended.

use crate::callers::note_doubt;
use crate::error::Error;
use crate::line::Line;
use crate::pipeline::Pipeline;
use crate::progress::{Follower, ProgressEvent};
use crate::request::{Outcome, Request};
use crate::told::told_to;
use countersign_core::{Invocation, InvocationId, Principal};
use durable::Pace;
use futures_util::future::OptionFuture;
use std::pin::Pin;
use std::time::Duration;
use tokio::time::Instant;
use tracing::Instrument as _;

type Working = Pin<Box<dyn Future<Output = Result<Outcome, Error>> + Send>>;

/// A call whose caller waits. Dropping it leaves the call as it is.
pub struct Waiting {
    pipeline: Pipeline,
    principal: Principal,
    line: Option<Line>,
    id: InvocationId,
    follower: Option<Follower>,
    /// The call itself; once it is pending, the next look at it.
    working: Working,
    /// What there is to tell after the last line.
    known: Option<Result<Outcome, Error>>,
}

/// What a caller who waits is told next.
pub enum News {
    Printed(ProgressEvent),
    Outcome(Outcome),
}

impl Pipeline {
    /// Makes a call for a caller who waits.
    pub fn call(&self, request: Request) -> Waiting {
        let (pipeline, id) = (self.clone(), self.walk.draw_id());
        let (principal, line, walked) = (request.principal.clone(), request.line.clone(), id.clone());
        let working = Box::pin(async move {
            match request.line.clone() {
                Some(line) => pipeline.walk_on(walked, request, line).await,
                None => pipeline.invoke_as(walked, request).await,
            }
        });
        Waiting { pipeline: self.clone(), principal, line, id, follower: None, working, known: None }
    }

    /// Goes on with a call that was made before, for a caller who waits.
    pub fn call_again(&self, principal: &Principal, line: &Line, outcome: Outcome) -> Waiting {
        let (id, line) = (outcome.invocation().id.clone(), Some(line.clone()));
        let working = Box::pin(std::future::ready(Ok(outcome)));
        Waiting { pipeline: self.clone(), principal: principal.clone(), line, id, follower: None, working, known: None }
    }

    /// The outcome of a call; of a pending one as soon as it has ended, but not later than after `limit`.
    pub async fn wait_for_outcome(&self, principal: &Principal, outcome: Outcome, limit: Duration) -> Outcome {
        match outcome {
            Outcome::Pending(pending) => Outcome::of(Box::new(self.wait_for_end(principal, *pending, limit).await)),
            Outcome::Ended { .. } | Outcome::Replayed(_) | Outcome::InDoubt(_) => outcome,
        }
    }

    /// An invocation as soon as it has ended, but not later than after `limit`.
    pub async fn wait_for_end(&self, principal: &Principal, invocation: Invocation, limit: Duration) -> Invocation {
        if limit.is_zero() {
            return invocation;
        }
        let until = Instant::now() + limit;
        let watch = || self.watch(&invocation.org, &invocation.id, until.saturating_duration_since(Instant::now()));
        tokio::select! {
            biased;
            row = Pace::for_at_most(limit).retry(Result::is_err, watch) => match row {
                Ok(row) => told_to(principal, row),
                // The call is stored: a wait that fails must not look as if the call had failed.
                Err(_) => invocation,
            },
            () = self.stopping() => invocation,
        }
    }
}

impl Waiting {
    /// The caller is told what the call prints. It is made in a task of its own, so that whoever reads slowly does not slow it.
    pub fn followed(mut self) -> Self {
        self.follower = Some(self.pipeline.follow_from_first(&self.id));
        let walked = tokio::spawn(self.working.in_current_span());
        self.working = Box::pin(async move {
            let broken = |error: tokio::task::JoinError| Err(Error::Internal { message: error.to_string() });
            walked.await.unwrap_or_else(broken)
        });
        self
    }

    /// A call that is pending is waited for first, for at most `limit`.
    pub fn held(mut self, limit: Duration) -> Self {
        let (pipeline, principal, working) = (self.pipeline.clone(), self.principal.clone(), self.working);
        self.working = Box::pin(async move { Ok(pipeline.wait_for_outcome(&principal, working.await?, limit).await) });
        self
    }

    /// A call that has begun and goes on for longer is pending for its caller.
    pub fn for_at_most(mut self, limit: Duration) -> Self {
        let Some(line) = self.line.clone() else { return self };
        let (until, pipeline, principal) = (Instant::now() + limit, self.pipeline.clone(), self.principal.clone());
        let mut working = self.working;
        self.working = Box::pin(async move {
            loop {
                tokio::select! {
                    // An error is one of a request that became no call: what is on the line is told by its row.
                    outcome = &mut working => return outcome,
                    () = tokio::time::sleep_until(until), if line.invocation().is_some() => {
                        let Some(running) = line.invocation() else { continue };
                        match pipeline.standing_on(&line, &principal, &running).await {
                            // The store is away. The caller is kept: if its own timer fires meanwhile, it has left, and joins when it asks again.
                            Err(error) if error.is_passing() => tokio::time::sleep(Duration::from_secs(1)).await,
                            standing => return standing,
                        }
                    }
                    // Whether it has begun by now is looked at again.
                    () = tokio::time::sleep(Duration::from_secs(1)) => {}
                }
            }
        });
        self
    }

    /// Waits for what there is to tell next. If this future is dropped early, the same comes next time.
    pub async fn next(&mut self) -> Result<News, Error> {
        if self.known.is_none() {
            tokio::select! {
                biased;
                Some(event) = OptionFuture::from(self.follower.as_mut().map(Follower::event)) => return Ok(News::Printed(event)),
                outcome = &mut self.working => self.known = Some(outcome),
            }
        }
        // What it printed last may not have been read yet.
        if let Some(follower) = &mut self.follower
            && let Some(event) = follower.kept().await
        {
            return Ok(News::Printed(event));
        }
        let Some(known) = self.known.take() else { return std::future::pending().await };
        if let (Some(line), Ok(outcome)) = (&self.line, &known) {
            note_doubt(line, outcome);
        }
        known.map(News::Outcome)
    }

    /// Goes on waiting for a call that is pending, for at most `limit`.
    pub fn go_on(&mut self, pending: Box<Invocation>, limit: Duration) {
        if let Some(follower) = &mut self.follower {
            follower.turn_to(&pending);
        }
        let (pipeline, principal) = (self.pipeline.clone(), self.principal.clone());
        self.working = Box::pin(async move { Ok(pipeline.wait_for_outcome(&principal, Outcome::Pending(pending), limit).await) });
    }
}
