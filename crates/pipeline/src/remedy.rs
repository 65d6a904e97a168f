//! What is done about an effect that failed its checks: one repair where that is safe, then taking it back where that is possible.
//! Each is an attempt of its own, announced before it.

use crate::execute::{Done, Origin, Subject, leaves_doubt, rules_version};
use crate::verify::{Looked, Verified, failure_of};
use crate::{Error, Pipeline};
use countersign_core::Tier;
use countersign_core::action::{Repeatability, Reversibility};
use countersign_core::effect::{Check, Purpose, Remedy};
use countersign_core::invocation::{Failure, Intention};
use countersign_core::ledger::Row;

const DONE: Remedy = Remedy { attempted: true, ok: true };
const FAILED: Remedy = Remedy { attempted: true, ok: false };
const NOT_TRIED: Remedy = Remedy { attempted: false, ok: false };

impl Pipeline {
    pub(crate) async fn remedy(&self, mut done: Done, failure: Failure) -> Result<Looked, Error> {
        if !has_effect(&done) {
            return Ok(Verified::looked(done, Some(failure)));
        }
        if !may_repair(&done) {
            return self.take_back(done, failure).await;
        }
        let failed: Vec<Check> = done.invocation.aftermath.checks.iter().flatten().filter(|check| !check.ok).cloned().collect();
        // What is tried again begins where the first try began.
        if is_reversible(&done) {
            let rollback = self.roll_back(&mut done).await?;
            if !rollback.ok {
                done.invocation.aftermath.rollback = Some(rollback);
                done.invocation.aftermath.repair = Some(NOT_TRIED);
                return Ok(Verified::looked(done, Some(failure)));
            }
        }
        self.fault("remedy.rolled_back");
        if !self.try_again(&mut done, &failed).await? {
            done.invocation.aftermath.repair = Some(NOT_TRIED);
            return Ok(if is_reversible(&done) { reverted(done, failure) } else { Verified::looked(done, Some(failure)) });
        }
        self.fault("remedy.repaired");
        if let Err(error) = &done.answer
            && leaves_doubt(error, &done.invocation)
        {
            done.invocation.aftermath.repair = Some(FAILED);
            done.invocation.failure = Some(crate::execute::failure_of(error));
            return self.doubt(done.invocation, done.walking).await.map(Looked::InDoubt);
        }
        let Some(checks) = self.check(&done).await else {
            // The repair itself failed, and the source vouches that it left nothing.
            done.invocation.aftermath.repair = Some(FAILED);
            return Ok(if is_reversible(&done) { reverted(done, failure) } else { Verified::looked(done, Some(failure)) });
        };
        self.fault("remedy.checked");
        let still = failure_of(&checks);
        done.invocation.aftermath.checks = Some(checks);
        match still {
            None => {
                done.invocation.aftermath.repair = Some(DONE);
                Ok(Verified::looked(done, None))
            }
            Some(failure) => {
                done.invocation.aftermath.repair = Some(FAILED);
                self.take_back(done, failure).await
            }
        }
    }

    /// The end of what could not be repaired.
    pub(crate) async fn take_back(&self, mut done: Done, failure: Failure) -> Result<Looked, Error> {
        if !is_reversible(&done) {
            done.invocation.aftermath.rollback = Some(NOT_TRIED);
            return Ok(Verified::looked(done, Some(failure)));
        }
        let rollback = self.roll_back(&mut done).await?;
        self.fault("remedy.taken_back");
        done.invocation.aftermath.rollback = Some(rollback);
        Ok(Verified::looked(done, Some(failure)))
    }

    /// Announces that the effect is taken back, and takes it back. It is well when everything is seen to be as it was; and what could not
    /// be announced was not tried.
    async fn roll_back(&self, done: &mut Done) -> Result<Remedy, Error> {
        let Some(evidence) = done.invocation.evidence.clone() else {
            return Ok(NOT_TRIED);
        };
        let mut next = done.invocation.clone();
        next.attempts += 1;
        next.purpose = Purpose::Rollback;
        let intent = self.intent(&done.announcement(), &next)?;
        // Undoing what should not be there needs nobody's leave, and no change of a rule forbids it.
        if !self.announce_again(&next, intent, None).await? {
            return Ok(NOT_TRIED);
        }
        done.invocation = next;
        self.fault("remedy.rollback_intended");
        let restored = self.ask_to_revert(done.subject(), &evidence).await;
        if let Err(error) = &restored {
            tracing::error!(invocation = %done.invocation.id, %error, "an effect that failed its checks could not be taken back");
        }
        Ok(if restored.is_ok() { DONE } else { FAILED })
    }

    /// The same call once more. Whether it was tried.
    async fn try_again(&self, done: &mut Done, failed: &[Check]) -> Result<bool, Error> {
        let Origin::Cleared(cleared) = &done.origin else {
            return Ok(false);
        };
        let mut next = done.invocation.clone();
        next.attempts += 1;
        next.purpose = Purpose::Repair;
        let ready = self.make_ready(cleared, &mut next, failed).await?;
        self.fault("remedy.repair_prepared");
        if !self.begin_again(cleared, &next, Some(rules_version(cleared))).await? {
            return Ok(false);
        }
        self.fault("remedy.repair_intended");
        let answer = match ready {
            Ok(()) => self.once(cleared, &next, failed).await,
            Err(error) => Err(error),
        };
        let answer = self.look_again(Subject::of(cleared.gated(), &next), answer).await;
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

fn reverted(mut done: Done, failure: Failure) -> Looked {
    done.invocation.aftermath.rollback = Some(DONE);
    Verified::looked(done, Some(failure))
}

/// A read that fails its checks has nothing to repair.
fn has_effect(done: &Done) -> bool {
    done.invocation.intention == Intention::Effect && done.row != Row::Insert && done.invocation.tier >= Tier::R2
}

fn is_reversible(done: &Done) -> bool {
    done.definition.action.reversibility == Reversibility::Reversible && done.invocation.evidence.is_some()
}

/// Once, and only where a second effect can do no harm: what was taken back first, or what may be repeated. Never what destroys.
fn may_repair(done: &Done) -> bool {
    let is_safe = is_reversible(done) || done.definition.action.repeatability == Repeatability::Repeatable;
    let may = match done.invocation.tier {
        Tier::R2 => is_safe,
        Tier::R3 => done.definition.action.repeatability == Repeatability::Repeatable,
        Tier::R0 | Tier::R1 | Tier::R4 => false,
    };
    may && done.invocation.purpose == Purpose::Effect && matches!(done.origin, Origin::Cleared(_))
}
