//! An invocation's life, from request to receipt.
//! Read `invoke`, then the stage files in the order of the `mod` lines.
//! This file holds the order and nothing else: no SQL, no HTTP, no rules.

mod admit;
mod resolve;
mod validate;
mod gate;
mod decide;
mod replay;
mod hold;
mod breaker;
mod execute;
mod verify;
mod remedy;
mod unverified;
mod record;

mod batch;
mod answer;
mod conflict;
mod drift;
mod recover;
mod reconcile;
mod revert;
mod request;
mod claimed;
mod catalogue;
mod grant;
mod policies;
mod quarantine;
mod label;
mod explain;
mod foresee;
mod what_if;
mod survive;
mod walking;
mod waiters;
mod progress;
mod truncate;
mod stage;
mod span;
mod tally;
mod error;

pub use answer::{BeyondAsked, GrantFor, Yes};
pub use batch::{BatchRequest, Batched};
pub use catalogue::{Catalogue, SourceListing, check_condition};
pub use conflict::count_conflict;
pub use decide::Standing;
pub use drift::{DefinitionNow, Reviewed};
pub use error::{Conflict, Error, ParamError};
pub use explain::{Explanation, Question, Would};
pub use foresee::{Foresight, Held};
pub use progress::{Follower, Next, Told};
pub use quarantine::{Released, Word};
pub use reconcile::Settlement;
pub use record::RewardWeights;
pub use request::{Outcome, Ports, Request, Settings};
pub use revert::RevertForesight;
pub use truncate::is_truncated;
pub use what_if::{Fate, Proposal, ProposedModes, Replayed, WhatIf};

use admit::Admitted;
use countersign_core::limits::DECISIONS_MAX;
use countersign_core::{InvocationId, Status};
use decide::{Cleared, Decided};
use execute::Executed;
use gate::Gates;
use replay::Replay;
use std::sync::Arc;
use tracing::{Instrument as _, Span};

/// The one way to perform an action. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Pipeline {
    inner: Arc<request::Inner>,
}

impl Pipeline {
    /// Performs one action for one principal: ends in exactly one receipt, or waits for a person.
    ///
    /// The walk goes on when the caller goes away: an effect is never abandoned half-way because a connection closed.
    pub async fn invoke(&self, request: Request) -> Result<Outcome, Error> {
        self.invoke_as(self.draw_id(), request).await
    }

    async fn invoke_as(&self, id: InvocationId, request: Request) -> Result<Outcome, Error> {
        let pipeline = self.clone();
        self.survive(Box::pin(async move { pipeline.walk(id, request).await })).await
    }

    async fn walk(&self, id: InvocationId, request: Request) -> Result<Outcome, Error> {
        let admitted = self.admit(id, request).await?;
        self.walk_from(admitted).await
    }

    /// A rule may change between the decision and the intent: then the call is decided again, by the new rules.
    async fn walk_from(&self, mut admitted: Box<Admitted>) -> Result<Outcome, Error> {
        let _telling = self.inner.boards.telling(&admitted.id, (&admitted.session).into());
        for _ in 0..DECISIONS_MAX {
            match self.walk_once(admitted).await? {
                Walked::Outcome(outcome) => return Ok(outcome),
                Walked::RulesChanged(again) => admitted = self.admit_again(again).await?,
            }
        }
        Err(Error::rules_keep_changing())
    }

    async fn walk_once(&self, admitted: Box<Admitted>) -> Result<Walked, Error> {
        match self.reach(admitted).await? {
            Reached::Stopped(walked) => Ok(walked),
            // On the heap: what most walks never do would make each of them many times larger.
            Reached::Fresh(Decided::Denied(denied)) => Box::pin(self.record_refusal(denied, Status::Denied, None)).await,
            Reached::Fresh(Decided::Pending(pending)) => Box::pin(self.hold(pending)).await,
            Reached::Fresh(Decided::Preview(preview)) => Box::pin(self.dry_run(preview)).await,
            Reached::Fresh(Decided::Cleared(cleared)) => self.perform(cleared).await,
        }
    }

    /// As far as the decision: nothing is performed, and nobody is asked.
    async fn reach(&self, admitted: Box<Admitted>) -> Result<Reached, Error> {
        let resolved = self.resolve(admitted).await?;
        let validated = self.validate(resolved).await?;
        let gated = match self.gate(validated, None).await? {
            Gates::Passed(gated) => gated,
            Gates::Denied(gated, failure) => {
                let refused = self.refuse(*gated, failure).await?;
                return Box::pin(self.record_refusal(refused, Status::Denied, None)).await.map(Reached::Stopped);
            }
            Gates::Quarantined(gated, caught) => return Box::pin(self.quarantine(*gated, caught)).await.map(Reached::Stopped),
        };
        let decided = self.decide(gated).await?;
        // A denied call is always fresh: an earlier success never answers for it.
        Ok(match self.replay(decided).await? {
            Replay::Earlier(outcome) => Reached::Stopped(Walked::Outcome(outcome)),
            Replay::Fresh(decided) => Reached::Fresh(self.unless_impossible(decided).await),
        })
    }

    /// The rest of the walk; `hold::resume` enters here after a person's answer.
    async fn perform(&self, cleared: Cleared) -> Result<Walked, Error> {
        let span = span::of_execution(&cleared);
        self.perform_within(cleared, span.clone()).instrument(span).await
    }

    async fn perform_within(&self, cleared: Cleared, span: Span) -> Result<Walked, Error> {
        let outcome = match self.execute(cleared).await? {
            Executed::Done(done) => {
                span.record("attempts", done.invocation.attempts);
                return self.record(self.verify(done).await?).await;
            }
            Executed::InDoubt(invocation) => Ok(Outcome::InDoubt(invocation)),
            Executed::Void(void) => Box::pin(self.record_void(void)).await,
            Executed::Elsewhere(taken) => Box::pin(self.attach(*taken)).await,
            Executed::RulesChanged(again) => return Ok(Walked::RulesChanged(again)),
        };
        outcome.map(Walked::Outcome)
    }
}

/// What came of the stages before anything is done.
#[expect(clippy::large_enum_variant, reason = "the large one is the common one, and it is moved once")]
enum Reached {
    /// It goes no further: a gate said no, or it was answered before.
    Stopped(Walked),
    Fresh(Decided),
}

/// How far a walk got.
enum Walked {
    Outcome(Outcome),
    /// Nothing has happened yet; the rest of the walk begins anew.
    RulesChanged(Box<Admitted>),
}
