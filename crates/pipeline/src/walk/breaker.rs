//! The circuit breaker. A target that fails again and again, or too often, is not called for a while; then one call is let through, and its
//! outcome decides for all. A call that a person approved is tried anyway: a person knows more than a counter.

use crate::error::Error;
use crate::limits::BREAKER_PROBE_SECONDS;
use crate::walk::decide::Cleared;
use crate::walk::ground::Walk;
use countersign_core::breaker::{BreakerKey, BreakerState, CountedFailure, FailureRate, LetThrough};
use countersign_core::limits::BREAKER_FAILURES_MAX;
use countersign_core::source::{self, Output};

/// Whether the target of a call has failed since it last worked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Works,
    HasFailed,
    /// It has failed, and this is the call that was let through to find out whether it still fails.
    IsTried,
}

/// A target that is not called now.
pub(crate) struct Open {
    pub(crate) error: source::Error,
    /// How long it is not called; then one call is let through.
    pub(crate) for_ms: u64,
}

impl Walk {
    /// The state of the call's target, or the error if the breaker is open.
    pub(crate) async fn breaker(&self, cleared: &Cleared) -> Result<Result<Target, Open>, Error> {
        let org = &cleared.gated().validated.resolved.admitted.session.org;
        let failing = self.ledger().list_breakers(org).await?;
        // Nearly always no target fails; then the keys of the call need not be computed.
        if failing.is_empty() {
            return Ok(Ok(Target::Works));
        }
        let mut target = Target::Works;
        for key in keys_of(cleared) {
            let Some(known) = failing.iter().find(|known| known.key == key.as_str()) else {
                continue;
            };
            if target == Target::Works {
                target = Target::HasFailed;
            }
            if known.state != BreakerState::Closed {
                // Once it is closed again, what opened it no longer counts, on no server.
                self.inner.targets.forget(org, &key);
            }
            if known.state == BreakerState::Closed || cleared.approval().is_some() {
                continue;
            }
            let now = self.ledger().now().await?;
            if known.until > now || !self.ledger().claim_probe(org, &key, BREAKER_PROBE_SECONDS).await? {
                let why = if known.failures >= BREAKER_FAILURES_MAX {
                    format!("has failed {} times in a row", known.failures)
                } else {
                    "failed in at least half of its latest calls".to_owned()
                };
                let message = format!(
                    "`{}` {why}, last with `{}`; nothing was sent, one call is let through at {}",
                    known.key, known.reason, known.until
                );
                let left_ms = u64::try_from(known.until.as_micros().saturating_sub(now.as_micros())).unwrap_or_default().div_ceil(1_000);
                // If its time is over, another call was let through just now, and has so long to decide.
                let for_ms = if left_ms == 0 { BREAKER_PROBE_SECONDS * 1_000 } else { left_ms };
                return Ok(Err(Open { error: source::Error::Refused { code: "breaker_open", message }, for_ms }));
            }
            target = Target::IsTried;
        }
        Ok(Ok(target))
    }

    /// Counts the outcome. If the store is unavailable, a failure is counted here alone, and the caller still gets the answer.
    pub(crate) async fn count_outcome(&self, cleared: &Cleared, target: Target, answer: &Result<Output, source::Error>) {
        let org = &cleared.gated().validated.resolved.admitted.session.org;
        let failed_with = match answer.as_ref().map_or_else(|error| said_by(error, patience_of(cleared)), |_| Said::Works) {
            Said::Nothing => return,
            Said::Works => None,
            Said::Fails(code) => Some(code),
        };
        let let_through = match target {
            Target::IsTried => LetThrough::ToDecide,
            Target::Works | Target::HasFailed => LetThrough::AsAny,
        };
        let now = self.now();
        for key in keys_of(cleared) {
            let rate = self.inner.targets.count(org, &key, now, u32::from(failed_with.is_some()));
            let noted = match (failed_with, target) {
                (Some(code), _) => {
                    if rate == FailureRate::TooHigh {
                        self.inner.targets.forget(org, &key);
                    }
                    self.ledger().break_once(org, &key, CountedFailure { code, let_through, rate }).await
                }
                // A call that works where nothing has failed writes nothing.
                (None, Target::Works) => continue,
                (None, Target::HasFailed | Target::IsTried) => self.ledger().close_breaker(org, &key).await,
            };
            if let Err(error) = noted {
                tracing::warn!(%key, %error, "how a target fares could not be noted");
            }
        }
    }
}

/// The keys that a call is counted under: its action with its target and, if the caller gave a breaker label, one more key with the label.
/// A label adds a breaker; it cannot bypass the other one.
fn keys_of(cleared: &Cleared) -> impl Iterator<Item = BreakerKey> {
    let resolved = &cleared.gated().validated.resolved;
    let request = &resolved.admitted.request;
    let (action, target) = (&resolved.action().id, resolved.source.target(&resolved.action().id, &request.call.params));
    let labelled = request.call.bounds.breaker_label.as_deref().map(|label| BreakerKey::new(action, target.as_deref(), Some(label)));
    std::iter::once(BreakerKey::new(action, target.as_deref(), None)).chain(labelled)
}

/// How long we waited for the call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Patience {
    /// As long as the action's timeout permits.
    Whole,
    /// The caller asked for a shorter timeout.
    Shorter,
}

fn patience_of(cleared: &Cleared) -> Patience {
    let resolved = &cleared.gated().validated.resolved;
    if resolved.admitted.request.call.bounds.shortens(resolved.action()) { Patience::Shorter } else { Patience::Whole }
}

/// What an answer tells about the health of the target.
enum Said {
    Works,
    /// The target fails, with this code.
    Fails(&'static str),
    Nothing,
}

/// The codes for package code that did not end by itself.
const ENDED: [&str; 5] = ["package_timed_out", "package_killed", "package_out_of_memory", "package_flooded", "package_lost"];

fn said_by(error: &source::Error, patience: Patience) -> Said {
    match error {
        // A timeout that the caller shortened says nothing about the target; otherwise any caller could open the breaker for everybody.
        source::Error::TimedOut { .. } | source::Error::Failed { .. }
            if patience == Patience::Shorter && source::is_time_out(error.code()) =>
        {
            Said::Nothing
        }
        source::Error::Unreachable { .. } | source::Error::Busy { .. } | source::Error::Broken { .. } => Said::Fails(error.code()),
        source::Error::TimedOut { .. } => Said::Fails(error.code()),
        // Package code that was killed or timed out counts as a failure. Code that ended with an error of its own does not.
        source::Error::Failed { code, .. } if ENDED.contains(code) || source::is_unavailable(code) => Said::Fails(code),
        source::Error::Failed { .. } | source::Error::Reported { .. } => Said::Works,
        // We refused the call; the target was not asked.
        source::Error::NoTurn { .. }
        | source::Error::Refused { .. }
        | source::Error::WorkspaceElsewhere
        | source::Error::PreviewUnsupported { .. } => Said::Nothing,
    }
}
