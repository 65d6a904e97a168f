//! What is done about an effect that failed its checks: one repair where that is safe, then taking it back where that is possible.
//! Each is an attempt of its own, announced before it.

use crate::execute::{AnnouncedAgain, Done, Origin, leaves_doubt, rules_version};
use crate::verify::{Looked, Verdict, Verified};
use crate::{Error, Pipeline};
use countersign_core::Tier;
use countersign_core::action::{Repeatability, Reversibility};
use countersign_core::effect::{Check, Purpose, Remedy};
use countersign_core::invocation::{Failure, Intention};
use countersign_core::ledger::Row;
use countersign_core::limits::RECORD_RETRY_SECONDS;
use countersign_core::source;
use std::time::Duration;

/// How far taking an effect back has come.
enum RolledBack {
    Ended(Remedy),
    /// It cannot be announced: the store is away.
    NotYet,
    /// It was tried, and nobody saw how that ended.
    Unknown(source::Error),
}

impl Pipeline {
    pub(crate) async fn remedy(&self, mut done: Box<Done>, failure: Failure) -> Result<Looked, Error> {
        if !has_effect(&done) {
            return Ok(Verified::looked(done, Some(failure)));
        }
        if !may_repair(&done) {
            return self.take_back(done, failure).await;
        }
        let failed: Vec<Check> = done.invocation.aftermath.checks.iter().flatten().filter(|check| !check.ok).cloned().collect();
        // What is tried again begins where the first try began.
        if is_reversible(&done) {
            match self.roll_back_soon(&mut done).await? {
                RolledBack::NotYet => return Err(self.take_back_later(done, failure)),
                RolledBack::Unknown(error) => return self.doubt_taking_back(done, &error).await,
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
            done.invocation.failure = Some(crate::execute::failure_of(error));
            return self.doubt(done.invocation, done.walking).await.map(Looked::InDoubt);
        }
        let Some(checks) = self.check(&done).await else {
            // The repair itself failed, and the source vouches that it left nothing.
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
                self.take_back(done, failure).await
            }
            Verdict::Unknown(failure) => {
                // Whoever looks later says whether it is repaired.
                done.invocation.aftermath.repair = Some(Remedy::FAILED);
                self.leave_unverified(done, failure).await
            }
        }
    }

    /// The end of what could not be repaired.
    pub(crate) async fn take_back(&self, mut done: Box<Done>, failure: Failure) -> Result<Looked, Error> {
        if !is_reversible(&done) {
            done.invocation.aftermath.rollback = Some(Remedy::NOT_TRIED);
            return Ok(Verified::looked(done, Some(failure)));
        }
        let rollback = match self.roll_back_soon(&mut done).await? {
            RolledBack::NotYet => return Err(self.take_back_later(done, failure)),
            RolledBack::Unknown(error) => return self.doubt_taking_back(done, &error).await,
            RolledBack::Ended(rollback) => rollback,
        };
        self.fault("remedy.taken_back");
        done.invocation.aftermath.rollback = Some(rollback);
        Ok(Verified::looked(done, Some(failure)))
    }

    /// Nobody saw whether it is still there: neither `failed` nor `reverted` would be true.
    async fn doubt_taking_back(&self, mut done: Box<Done>, error: &source::Error) -> Result<Looked, Error> {
        done.invocation.failure = Some(crate::execute::failure_of(error));
        self.doubt(done.invocation, done.walking).await.map(Looked::InDoubt)
    }

    /// Goes on behind the caller's back: the effect should not be there, and the store has to be back before it may be taken back.
    fn take_back_later(&self, mut done: Box<Done>, failure: Failure) -> Error {
        let invocation = done.invocation.id.clone();
        tracing::error!(%invocation, "an effect that failed its checks could not be taken back yet; trying until the store is back");
        let (pipeline, org, id) = (self.clone(), done.invocation.org.clone(), invocation.clone());
        self.spawn(async move {
            for _ in 0..RECORD_RETRY_SECONDS {
                tokio::time::sleep(Duration::from_secs(1)).await;
                let recorded = match pipeline.roll_back(&mut done).await {
                    Ok(RolledBack::NotYet) => continue,
                    Ok(RolledBack::Unknown(error)) => pipeline.doubt_taking_back(done, &error).await.map(|_| ()),
                    Ok(RolledBack::Ended(rollback)) => {
                        done.invocation.aftermath.rollback = Some(rollback);
                        pipeline.record(Verified::looked(done, Some(failure))).await.map(|_| ())
                    }
                    Err(error) => Err(error),
                };
                if let Err(error) = recorded {
                    tracing::error!(invocation = %id, %error, "what became of an effect that failed its checks could not be recorded");
                    pipeline.let_go(&org, &id).await;
                }
                return;
            }
            pipeline.let_go(&org, &id).await;
            tracing::error!(invocation = %id, "the store did not come back; whoever finds this left behind asks what became of it");
        });
        Error::Unrecorded { invocation }
    }

    /// Takes the effect back while the caller waits.
    async fn roll_back_soon(&self, done: &mut Done) -> Result<RolledBack, Error> {
        let mut wait = Duration::from_millis(20);
        for _ in 0..4 {
            match self.roll_back(done).await? {
                RolledBack::NotYet => {}
                known @ (RolledBack::Ended(_) | RolledBack::Unknown(_)) => return Ok(known),
            }
            tokio::time::sleep(wait).await;
            wait *= 4;
        }
        self.roll_back(done).await
    }

    /// Announces that the effect is taken back, and takes it back. It is well when everything is seen to be as it was. A source that could
    /// not be asked, and so has done nothing, is asked again a few times, each time announced.
    async fn roll_back(&self, done: &mut Done) -> Result<RolledBack, Error> {
        let Some(evidence) = done.invocation.evidence.clone() else {
            return Ok(RolledBack::Ended(Remedy::NOT_TRIED));
        };
        let mut rollback = Remedy::NOT_TRIED;
        for tries in 1..=self.inner.settings.attempts_max {
            let mut next = done.invocation.clone();
            next.attempts += 1;
            next.purpose = Purpose::Rollback;
            // Undoing what should not be there needs nobody's leave, and no change of a rule forbids it.
            match self.announce_again(&done.announcement(), &next, None).await? {
                AnnouncedAgain::Written => done.invocation = next,
                AnnouncedAgain::NotYet => return Ok(RolledBack::NotYet),
                AnnouncedAgain::Never => return Ok(RolledBack::Ended(rollback)),
            }
            self.fault("remedy.rollback_intended");
            let error = match self.ask_to_revert(done.subject(), &evidence).await {
                Ok(_) => return Ok(RolledBack::Ended(Remedy::DONE)),
                Err(error) if leaves_doubt(&error, &done.invocation) => {
                    // A second time changes nothing where it was done, and may see it.
                    let again = self.ask_to_revert(done.subject(), &evidence).await;
                    return Ok(again.map_or(RolledBack::Unknown(error), |_| RolledBack::Ended(Remedy::DONE)));
                }
                Err(error) => error,
            };
            tracing::error!(invocation = %done.invocation.id, %error, "an effect that failed its checks could not be taken back");
            rollback = Remedy::FAILED;
            if !error.is_transient() || self.asks_for_too_long(&error) {
                break;
            }
            tokio::time::sleep(self.backoff(tries, &error)).await;
        }
        Ok(RolledBack::Ended(rollback))
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

/// The end of what was not repaired: the first effect was taken back before, or stands.
pub(crate) fn unrepaired(mut done: Box<Done>, failure: Failure) -> Looked {
    let rollback = if is_reversible(&done) { Remedy::DONE } else { Remedy::NOT_TRIED };
    done.invocation.aftermath.rollback = Some(rollback);
    Verified::looked(done, Some(failure))
}

/// A read that fails its checks has nothing to repair.
pub(crate) fn has_effect(done: &Done) -> bool {
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
