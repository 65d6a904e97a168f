//! Handles an effect that failed its checks: one repair if that is safe, then a rollback if that is possible.
//! Each is an attempt of its own, with its own intent.

use super::ask::failure_of;
use super::checks::{Looked, Verdict, Verified};
use super::doubt::leaves_doubt;
use super::ending::STORE_AWAY_MAX;
use super::execute::{Done, Origin};
use super::ground::Walk;
use super::intent::AnnouncedAgain;
use crate::error::Error;
use crate::limits::UNVERIFIED_SECONDS;
use countersign_core::action::{Repeatability, Reversibility};
use countersign_core::effect::{Check, Purpose, Remedy};
use countersign_core::invocation::{Failure, Intention};
use countersign_core::ledger::Row;
use countersign_core::{Status, Tier, source};
use durable::Pace;

/// The result of a rollback.
enum RolledBack {
    Ended(Remedy),
    /// The intent cannot be written: the store is unavailable.
    NotYet,
    /// The rollback was tried, and its outcome is unknown.
    Unknown(source::Error),
}

impl Walk {
    pub(crate) async fn remedy(&self, mut done: Box<Done>, failure: Failure) -> Result<Looked, Error> {
        if !has_effect(&done) {
            return Ok(Verified::looked(done, Some(failure)));
        }
        if !may_repair(&done) {
            return self.end_rolled_back(done, failure).await;
        }
        let failed: Vec<Check> = done.invocation.aftermath.checks.iter().flatten().filter(|check| !check.ok).cloned().collect();
        // The repair must start from the same state as the first attempt, so the effect is rolled back first.
        if is_reversible(&done) {
            match self.roll_back_at(Pace::soon(), &mut done).await? {
                RolledBack::NotYet => return Err(self.roll_back_later(done, failure)),
                RolledBack::Unknown(error) => return self.doubt_rollback(done, &error).await,
                RolledBack::Ended(rollback) if !rollback.ok => {
                    done.invocation.aftermath.rollback = Some(rollback);
                    done.invocation.aftermath.repair = Some(Remedy::NOT_TRIED);
                    return Ok(Verified::looked(done, Some(failure)));
                }
                RolledBack::Ended(_) => {}
            }
        }
        self.fault("remedy.rolled_back");
        if !self.try_again(&mut done, &failed).await? {
            done.invocation.aftermath.repair = Some(Remedy::NOT_TRIED);
            return Ok(unrepaired(done, failure));
        }
        self.fault("remedy.repaired");
        if let Err(error) = &done.answer
            && leaves_doubt(error, &done.invocation)
        {
            done.invocation.aftermath.repair = Some(Remedy::FAILED);
            done.invocation.failure = Some(failure_of(error));
            return self.doubt(done.invocation, done.walking).await.map(Looked::InDoubt);
        }
        let Some(checks) = self.check(&done).await else {
            // The repair itself failed, and the source guarantees that it left no effect.
            done.invocation.aftermath.repair = Some(Remedy::FAILED);
            return Ok(unrepaired(done, failure));
        };
        self.fault("remedy.checked");
        let verdict = checks.verdict();
        done.invocation.aftermath.checks = Some(checks.into_kept());
        match verdict {
            Verdict::Passed => {
                done.invocation.aftermath.repair = Some(Remedy::DONE);
                Ok(Verified::looked(done, None))
            }
            Verdict::Failed(failure) => {
                done.invocation.aftermath.repair = Some(Remedy::FAILED);
                self.end_rolled_back(done, failure).await
            }
            Verdict::Unknown(failure) => {
                // Recovery corrects this if a later check shows that the repair worked.
                done.invocation.aftermath.repair = Some(Remedy::FAILED);
                self.leave_unverified(done, failure).await
            }
        }
    }

    /// Ends a call that could not be repaired: rolls its effect back, if that is possible.
    pub(crate) async fn end_rolled_back(&self, mut done: Box<Done>, failure: Failure) -> Result<Looked, Error> {
        if !is_reversible(&done) {
            done.invocation.aftermath.rollback = Some(Remedy::NOT_TRIED);
            return Ok(Verified::looked(done, Some(failure)));
        }
        let rollback = match self.roll_back_at(Pace::soon(), &mut done).await? {
            RolledBack::NotYet => return Err(self.roll_back_later(done, failure)),
            RolledBack::Unknown(error) => return self.doubt_rollback(done, &error).await,
            RolledBack::Ended(rollback) => rollback,
        };
        self.fault("remedy.rolled_back_for_good");
        done.invocation.aftermath.rollback = Some(rollback);
        Ok(Verified::looked(done, Some(failure)))
    }

    /// Marks the call as in doubt after a rollback with an unknown outcome: neither `failed` nor `reverted` would be true.
    async fn doubt_rollback(&self, mut done: Box<Done>, error: &source::Error) -> Result<Looked, Error> {
        done.invocation.failure = Some(failure_of(error));
        self.doubt(done.invocation, done.walking).await.map(Looked::InDoubt)
    }

    /// Rolls the effect back in the background. The effect should not stand, but the rollback needs an intent, so the store has to be back
    /// first.
    fn roll_back_later(&self, mut done: Box<Done>, failure: Failure) -> Error {
        let invocation = done.invocation.id.clone();
        tracing::error!(%invocation, "an effect that failed its checks could not be rolled back yet; trying until the store is back");
        let (walk, left) = (self.clone(), done.invocation.clone());
        self.spawn(async move {
            let rolled_back = walk.roll_back_at(Pace::for_at_most(STORE_AWAY_MAX), &mut done).await;
            let recorded = match rolled_back {
                Ok(RolledBack::Unknown(error)) => walk.doubt_rollback(done, &error).await.map(|_| ()),
                Ok(RolledBack::Ended(rollback)) => {
                    done.invocation.aftermath.rollback = Some(rollback);
                    walk.record(Verified::looked(done, Some(failure))).await.map(|_| ())
                }
                Err(error) => Err(error),
                Ok(RolledBack::NotYet) => {
                    let invocation = &left.id;
                    tracing::error!(%invocation, "the store did not come back; whoever finds this left behind asks what became of it");
                    return walk.let_go(&left).await;
                }
            };
            if let Err(error) = recorded {
                tracing::error!(invocation = %left.id, %error, "what became of an effect that failed its checks could not be recorded");
                walk.let_go(&left).await;
            }
        });
        Error::Unrecorded { invocation }
    }

    /// Rolls the effect back, and retries while the store is away.
    async fn roll_back_at(&self, mut pace: Pace, done: &mut Done) -> Result<RolledBack, Error> {
        let mut rolled_back = self.roll_back(done).await;
        while is_too_early(&rolled_back) && pace.again().await {
            rolled_back = self.roll_back(done).await;
        }
        rolled_back
    }

    /// Writes the intent of a rollback and rolls the effect back. It succeeds if the source confirms that everything is as before. A source
    /// that could not be reached, and so did nothing, is asked again a few times, each time with an intent.
    async fn roll_back(&self, done: &mut Done) -> Result<RolledBack, Error> {
        let Some(evidence) = done.invocation.evidence.clone() else {
            return Ok(RolledBack::Ended(Remedy::NOT_TRIED));
        };
        let mut rollback = Remedy::NOT_TRIED;
        for tries in 1..=self.inner.settings.attempts_max {
            let mut next = done.invocation.clone();
            next.attempts += 1;
            next.purpose = Purpose::Rollback;
            // A rollback needs no approval, and no rule change forbids it, so no rules version is compared.
            match self.announce_again(&done.announcement(), &next, None).await? {
                AnnouncedAgain::Written => done.invocation = next,
                AnnouncedAgain::NotYet => return Ok(RolledBack::NotYet),
                AnnouncedAgain::Never => return Ok(RolledBack::Ended(rollback)),
            }
            self.fault("remedy.rollback_intended");
            let error = match self.ask_to_revert(done.subject(), &evidence).await {
                Ok(_) => return Ok(RolledBack::Ended(Remedy::DONE)),
                Err(error) if leaves_doubt(&error, &done.invocation) => {
                    // A second revert changes nothing if the first one worked, and its answer shows whether it did.
                    let again = self.ask_to_revert(done.subject(), &evidence).await;
                    return Ok(again.map_or(RolledBack::Unknown(error), |_| RolledBack::Ended(Remedy::DONE)));
                }
                Err(error) => error,
            };
            tracing::error!(invocation = %done.invocation.id, %error, "an effect that failed its checks could not be rolled back");
            rollback = Remedy::FAILED;
            if !error.was_not_taken_up() || self.asks_for_too_long(&error) {
                break;
            }
            tokio::time::sleep(self.backoff(tries, &error)).await;
        }
        Ok(RolledBack::Ended(rollback))
    }

    /// Ends the verification of an effect that could not be checked. A read has no effect to be in doubt about: it failed, and may be
    /// repeated.
    pub(crate) async fn leave_unverified(&self, mut done: Box<Done>, failure: Failure) -> Result<Looked, Error> {
        if !has_effect(&done) {
            return Ok(Verified::looked(done, Some(failure)));
        }
        if let Ok(output) = &done.answer
            && let Some(evidence) = &output.evidence
        {
            done.invocation.evidence = Some(evidence.clone());
        }
        done.invocation.failure = Some(failure);
        self.inner.unverified.check_at(&done.invocation.org, &done.invocation.id, self.now().plus_seconds(UNVERIFIED_SECONDS));
        if done.row == Row::From(Status::InDoubt) {
            // The row already says that the call is in doubt.
            return Ok(Looked::InDoubt(done.invocation));
        }
        self.doubt(done.invocation, done.walking).await.map(Looked::InDoubt)
    }

    /// Makes the same call once more as a repair. Returns whether it was tried.
    async fn try_again(&self, done: &mut Done, failed: &[Check]) -> Result<bool, Error> {
        let Origin::Cleared(cleared) = &done.origin else {
            return Ok(false);
        };
        let mut next = done.invocation.clone();
        next.attempts += 1;
        next.purpose = Purpose::Repair;
        let ready = self.make_ready(cleared, &mut next, failed).await?;
        self.fault("remedy.repair_prepared");
        if !self.begin_again(cleared, &next, Some(cleared.rules_version())).await? {
            return Ok(false);
        }
        self.fault("remedy.repair_intended");
        let answer = match ready {
            Ok(()) => self.once(cleared, &next, failed).await,
            Err(error) => Err(error),
        };
        let answer = match answer {
            Err(error) if leaves_doubt(&error, &next) => self.look_again(cleared, &mut next, error).await?,
            known => known,
        };
        done.invocation = next;
        done.invocation.ended_at = Some(self.now());
        done.answer = answer;
        if let Ok(output) = &done.answer
            && let Some(evidence) = &output.evidence
        {
            done.invocation.evidence = Some(evidence.clone());
        }
        Ok(true)
    }
}

fn is_too_early(rolled_back: &Result<RolledBack, Error>) -> bool {
    matches!(rolled_back, Ok(RolledBack::NotYet))
}

/// The end of a call that was not repaired: its first effect was rolled back before the repair, or could not be and stands.
pub(crate) fn unrepaired(mut done: Box<Done>, failure: Failure) -> Looked {
    let rollback = if is_reversible(&done) { Remedy::DONE } else { Remedy::NOT_TRIED };
    done.invocation.aftermath.rollback = Some(rollback);
    Verified::looked(done, Some(failure))
}

/// Whether there is an effect to repair or roll back. A read that fails its checks has none.
pub(crate) fn has_effect(done: &Done) -> bool {
    done.invocation.intention == Intention::Effect && done.row != Row::Insert && done.invocation.tier >= Tier::R2
}

fn is_reversible(done: &Done) -> bool {
    done.definition.action.reversibility == Reversibility::Reversible && done.invocation.evidence.is_some()
}

/// A repair is made once, and only if a second effect can do no harm: the first was rolled back, or the action is repeatable. Never for R4.
fn may_repair(done: &Done) -> bool {
    let is_safe = is_reversible(done) || done.definition.action.repeatability == Repeatability::Repeatable;
    let may = match done.invocation.tier {
        Tier::R2 => is_safe,
        Tier::R3 => done.definition.action.repeatability == Repeatability::Repeatable,
        Tier::R0 | Tier::R1 | Tier::R4 => false,
    };
    may && done.invocation.purpose == Purpose::Effect && matches!(done.origin, Origin::Cleared(_))
}
