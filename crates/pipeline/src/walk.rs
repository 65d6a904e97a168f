//! The life of one call, from request to receipt. This file holds the order and nothing else: no SQL, no HTTP, no rules.
//! Read `walk_once`, then the stage files in the order of the `mod` lines.
//!
//! **Arrows:** a stage uses the stages before it, `ending` (which writes the end of a call) and `ground` (the ports). Nothing in this folder
//! knows the parts above it: answers, batches, recovery, preview.

pub(crate) mod ground;
pub(crate) mod progress_log;
mod stage;
mod survive;

pub(crate) mod admit;
pub(crate) mod resolve;
pub(crate) mod drift;
pub(crate) mod reversal;
pub(crate) mod validate;
mod claimed;
pub(crate) mod gate;
mod policies;
mod label;
pub(crate) mod decide;
mod grant;
pub(crate) mod possible;
mod replay;
mod refuse;
pub(crate) mod quarantine;
pub(crate) mod hold;
pub(crate) mod binding;
pub(crate) mod execute;
mod breaker;
mod intent;
pub(crate) mod ask;
mod doubt;
mod find_out;
mod verify;
pub(crate) mod checks;
pub(crate) mod remedy;
pub(crate) mod unverified;
mod record;
pub(crate) mod ending;
mod claim;
mod reward;
pub(crate) mod truncate;

mod tally;
pub(crate) mod conflict;
pub(crate) mod span;
mod watch;

pub use conflict::count_conflict;
pub use ground::{Ports, Settings};
pub use reward::RewardWeights;
pub use truncate::is_truncated;

use crate::error::{Conflict, Error};
use crate::request::{Outcome, Request};
use admit::{Admitted, Entrance, Step, Walked};
use countersign_core::action::Preview;
use countersign_core::source::Output;
use countersign_core::{Invocation, InvocationId, Status};
use decide::{Cleared, Decided, PreviewOnly};
use execute::{Done, Executed};
use gate::Gates;
use ground::Walk;
use replay::Replay;
use serde_json::json;
use tracing::{Instrument as _, Span};

impl Walk {
    /// Performs one action for one principal: ends in exactly one receipt, or waits for a person.
    ///
    /// It goes on when the caller goes away: an effect is never abandoned half-way because a connection closed.
    pub(crate) async fn invoke(&self, id: InvocationId, request: Request) -> Result<Outcome, Error> {
        let walk = self.clone();
        self.survive(Box::pin(async move {
            let admitted = walk.admit(id, request, Entrance::Fresh).await?;
            walk.walk(admitted).await
        }))
        .await
    }

    pub(crate) async fn walk(&self, admitted: Box<Admitted>) -> Result<Outcome, Error> {
        let _telling = self.inner.progress.telling(&admitted.id, (&admitted.session).into());
        self.until_decided(admitted, |admitted| self.walk_once(admitted)).await
    }

    async fn walk_once(&self, admitted: Box<Admitted>) -> Result<Walked, Error> {
        match self.reach(admitted).await? {
            Reached::Stopped(walked) => Ok(walked),
            // On the heap: what most calls never do would make each of them many times larger.
            Reached::Fresh(Decided::Denied(denied)) => Box::pin(self.record_refusal(denied, Status::Denied, None)).await,
            Reached::Fresh(Decided::Pending(pending)) => Box::pin(self.hold(pending)).await,
            Reached::Fresh(Decided::Preview(preview)) => Box::pin(self.dry_run(preview)).await,
            Reached::Fresh(Decided::Cleared(cleared)) => self.perform(cleared).await,
        }
    }

    /// As far as the decision: nothing is performed, and nobody is asked.
    pub(crate) async fn reach(&self, admitted: Box<Admitted>) -> Result<Reached, Error> {
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
            Replay::Earlier(outcome) => Reached::Stopped(Step::Done(outcome)),
            Replay::Fresh(decided) => Reached::Fresh(self.unless_impossible(decided).await),
        })
    }

    /// The rest of the way, for a call that is cleared to run.
    pub(crate) async fn perform(&self, cleared: Cleared) -> Result<Walked, Error> {
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
            Executed::RulesChanged(again) => return Ok(Step::RulesChanged(again)),
        };
        outcome.map(Step::Done)
    }

    /// Runs an approved call, if everything its approval is bound to is still so.
    pub(crate) async fn resume(&self, approved: Invocation) -> Result<Outcome, Error> {
        let _telling = self.inner.progress.telling(&approved.id, (&approved).into());
        let params = self.open_params(&approved).await?;
        let Some(admitted) = self.admit_held(&approved, params).await? else {
            return self.void(approved, Conflict::TupleMismatch).await;
        };
        self.until_decided(admitted, |admitted| self.resume_once(&approved, admitted)).await
    }

    async fn resume_once(&self, approved: &Invocation, admitted: Box<Admitted>) -> Result<Walked, Error> {
        match self.redeem(approved, admitted).await? {
            Ok(cleared) => self.perform(*cleared).await,
            // It keeps its approval, and is taken up once the switch is off.
            Err(Conflict::Stopped) => Err(Error::Conflict { invocation: approved.id.clone(), conflict: Conflict::Stopped }),
            Err(conflict) => self.void(approved.clone(), conflict).await.map(Step::Done),
        }
    }

    /// A dry run: what would change, asked of the source, with no intent because there is no effect.
    pub(crate) async fn dry_run(&self, preview: Box<PreviewOnly>) -> Result<Walked, Error> {
        let PreviewOnly { gated, decision, policy_slice } = *preview;
        let mut invocation = gated.to_invocation(Status::Running, &decision);
        invocation.started_at = Some(self.now());
        self.inner.progress.decided(&invocation.id, gated.validated.resolved.admitted.rules_version);
        let answer = match gated.validated.resolved.action().preview {
            Preview::Supported => self.ask_for_preview(&gated, &invocation).await,
            // A read, by `validate`: it is not made, and changes nothing.
            Preview::Unsupported => Ok(Output::new(json!({ "changes": [], "untried": UNTRIED }))),
        };
        invocation.ended_at = Some(self.now());
        let done = Done::previewed(gated, policy_slice, invocation, answer);
        self.record(self.verify(Box::new(done)).await?).await
    }
}

/// What the dry run of a read says: nothing is read for it.
const UNTRIED: &str = "a dry run does not read, so whether this call would succeed is not known";

/// What came of the stages before anything is done.
#[expect(clippy::large_enum_variant, reason = "the large one is the common one, and it is moved once")]
pub(crate) enum Reached {
    /// It goes no further: a gate said no, or it was answered before.
    Stopped(Walked),
    Fresh(Decided),
}
