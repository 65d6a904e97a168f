//! The life of one call, from request to receipt. To *walk* a call is to take it through these stages. This file only holds their order: no
//! SQL, no HTTP, no rules.
//! Read `walk_once`, then the stage files in the order of the `mod` lines.
//!
//! **Dependencies:** a stage uses the stages before it, `ending` (which writes the end of a call) and `ground` (the ports). No file in this
//! folder knows the modules above it: answers, batches, recovery, preview.

pub(crate) mod ground;
mod open_lines;
pub(crate) mod progress_log;
mod relay;
mod stage;
mod survive;

pub(crate) mod admit;
pub(crate) mod resolve;
pub(crate) mod drift;
mod appeared_actions;
mod rehearse;
pub(crate) mod reversal;
pub(crate) mod validate;
mod claimed;
mod inputs;
pub(crate) mod gate;
mod policies;
mod label;
mod media;
pub(crate) mod decide;
mod grant;
mod near;
mod condition;
mod planned;
pub(crate) mod possible;
mod replay;
pub(crate) mod join;
mod refuse;
pub(crate) mod quarantine;
pub(crate) mod hold;
pub(crate) mod binding;
pub(crate) mod execute;
mod breaker;
mod targets;
mod intent;
pub(crate) mod ask;
mod doubt;
mod find_out;
mod verify;
pub(crate) mod checks;
pub(crate) mod remedy;
pub(crate) mod unverified;
mod record;
mod artifacts;
mod reported;
pub(crate) mod ending;
mod claim;
mod reward;
pub(crate) mod truncate;

mod tally;
pub(crate) mod conflict;
pub(crate) mod span;
mod watch;
pub(crate) mod voids;
pub(crate) mod weight;

pub use artifacts::Made;
pub use conflict::count_conflict;
pub use ground::{Ports, Settings};
pub use near::NearGrant;
pub use reward::RewardWeights;
pub use truncate::is_truncated;

use crate::error::{Conflict, Error};
use crate::request::{Outcome, Request};
use admit::{Admitted, Entrance, Step, Walked};
use checks::Looked;
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
use weight::Weight;

impl Walk {
    /// Performs one action for one principal. The call ends in exactly one receipt, or waits for a person.
    ///
    /// The call goes on if the caller disconnects: an effect is never abandoned half-way because a connection closed.
    pub(crate) async fn invoke(&self, id: InvocationId, request: Request) -> Result<Outcome, Error> {
        let (walk, weight) = (self.clone(), Weight::of(&request.call.params));
        self.survive(weight.run(Box::pin(async move {
            let admitted = walk.admit(id, request, Entrance::Fresh).await?;
            walk.walk(admitted).await
        })))
        .await
    }

    pub(crate) async fn walk(&self, admitted: Box<Admitted>) -> Result<Outcome, Error> {
        let _telling = self.inner.progress.telling(&admitted.id, (&admitted.session).into());
        self.until_decided(admitted, |admitted| self.walk_once(admitted)).await
    }

    async fn walk_once(&self, admitted: Box<Admitted>) -> Result<Walked, Error> {
        match self.reach(admitted).await? {
            Reached::Stopped(walked) => Ok(walked),
            // The rare paths are boxed: inline, they would make the future of every call many times larger.
            Reached::Fresh(Decided::Denied(denied)) => Box::pin(self.record_refusal(denied, Status::Denied, None)).await,
            Reached::Fresh(Decided::Pending(pending)) => Box::pin(self.hold(pending)).await,
            Reached::Fresh(Decided::Preview(preview)) => Box::pin(self.dry_run(preview)).await,
            Reached::Fresh(Decided::Cleared(cleared)) => self.perform(cleared).await,
        }
    }

    /// Takes a call through the stages up to the decision. No action is performed and no person is asked.
    pub(crate) async fn reach(&self, admitted: Box<Admitted>) -> Result<Reached, Error> {
        let resolved = self.rehearse(self.resolve(admitted).await?).await?;
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
            Replay::Fresh(decided) => Reached::Fresh(self.unless_impossible(self.unless_unfit(decided)).await),
        })
    }

    /// The remaining stages, for a call that is cleared to run.
    pub(crate) async fn perform(&self, cleared: Cleared) -> Result<Walked, Error> {
        let span = span::of_execution(&cleared);
        self.perform_within(cleared, span.clone()).instrument(span).await
    }

    async fn perform_within(&self, cleared: Cleared, span: Span) -> Result<Walked, Error> {
        let outcome = match self.execute(cleared).await? {
            Executed::Done(done) => {
                span.record("attempts", done.invocation.attempts);
                return self.record_by_weight(self.verify(done).await?).await;
            }
            Executed::InDoubt(invocation) => Ok(Outcome::of(invocation)),
            Executed::Void(void) => Box::pin(self.record_void(void)).await,
            Executed::Elsewhere(taken) => Box::pin(self.attach(*taken)).await,
            Executed::CallerLeft(cleared) => return Box::pin(self.record_left(|failure| cleared.refused(failure))).await,
            Executed::RulesChanged(again) => return Ok(Step::RulesChanged(again)),
        };
        outcome.map(Step::Done)
    }

    /// Runs an approved call, if everything that its approval is bound to still holds.
    pub(crate) async fn resume(&self, approved: Invocation) -> Result<Outcome, Error> {
        if self.ledger().has_left(&approved.org, &approved.id).await? {
            // The approval is kept, and the call runs when it is asked for again.
            return Err(Error::Conflict { invocation: approved.id, conflict: Conflict::CallerLeft });
        }
        let _telling = self.inner.progress.telling(&approved.id, (&approved).into());
        let params = self.open_params(&approved).await?;
        let Some(admitted) = self.admit_held(&approved, params).await? else {
            return self.void(approved, Conflict::TupleMismatch).await;
        };
        let (walk, weight) = (self.clone(), Weight::of(&admitted.request.call.params));
        weight.run(Box::pin(async move { walk.until_decided(admitted, |admitted| walk.resume_once(&approved, admitted)).await })).await
    }

    async fn resume_once(&self, approved: &Invocation, admitted: Box<Admitted>) -> Result<Walked, Error> {
        match self.redeem(approved, admitted).await? {
            Ok(cleared) => self.perform(*cleared).await,
            // The call keeps its approval, and is resumed once the kill switch is off.
            Err(Conflict::Stopped) => Err(Error::Conflict { invocation: approved.id.clone(), conflict: Conflict::Stopped }),
            Err(conflict) => self.void(approved.clone(), conflict).await.map(Step::Done),
        }
    }

    /// Performs a dry run: asks the source what would change. No intent is written, because there is no effect.
    pub(crate) async fn dry_run(&self, preview: Box<PreviewOnly>) -> Result<Walked, Error> {
        let PreviewOnly { gated, decision, policy_slice } = *preview;
        let mut invocation = gated.to_invocation(Status::Running, &decision);
        invocation.started_at = Some(self.now());
        self.inner.progress.decided(&invocation.id, gated.validated.resolved.admitted.rules_version);
        let answer = match gated.validated.resolved.action().preview {
            Preview::Supported => self.ask_for_preview(&gated, &invocation).await,
            // `validate` lets only reads get here. The read is not made; it would change nothing.
            Preview::Unsupported => Ok(Output::new(json!({ "changes": [], "untried": UNTRIED }))),
        };
        let answer = answer.map(|output| instead_of_the_effect(output, gated.validated.resolved.admitted.rehearsed.as_deref()));
        invocation.ended_at = Some(self.now());
        let done = Done::previewed(gated, policy_slice, invocation, answer);
        self.record_by_weight(self.verify(Box::new(done)).await?).await
    }

    /// A large answer is scanned and redacted where nobody else waits.
    async fn record_by_weight(&self, looked: Looked) -> Result<Walked, Error> {
        let weight = match &looked {
            Looked::Verified(verified) => verified.done.answer.as_ref().map_or(Weight::Light, |output| Weight::of(&output.value)),
            Looked::InDoubt(_) => Weight::Light,
        };
        let walk = self.clone();
        weight.run(Box::pin(async move { walk.record(looked).await })).await
    }
}

/// The note in the result of a dry run of a read: the read is not made.
const UNTRIED: &str = "a dry run does not read, so whether this call would succeed is not known";

/// Says in the result that the caller asked for the effect and got a dry run.
fn instead_of_the_effect(mut output: Output, why: Option<&str>) -> Output {
    if let (Some(why), Some(members)) = (why, output.value.as_object_mut()) {
        members.insert("instead".to_owned(), json!(why));
    }
    output
}

/// How far a call got in the stages before anything is performed.
#[expect(clippy::large_enum_variant, reason = "the large one is the common one, and it is moved once")]
pub(crate) enum Reached {
    /// The call goes no further: a gate denied or quarantined it, or an earlier call already answered it.
    Stopped(Walked),
    Fresh(Decided),
}
