//! Whether a target is worth asking. One that fails again and again is left alone for a while; then one call is let through, and
//! decides for all. What a person has approved is tried all the same: they know more than a counter.

use crate::decide::Cleared;
use crate::{Error, Pipeline};
use countersign_core::breaker::{BreakerKey, BreakerState};
use countersign_core::limits::{BREAKER_PROBE_SECONDS, CALL_TIMEOUT_MS};
use countersign_core::source::{self, Output};

/// Whether the target of a call has failed since it last worked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Works,
    HasFailed,
}

impl Pipeline {
    /// What is known of the call's target, or why it is not asked.
    pub(crate) async fn breaker(&self, cleared: &Cleared) -> Result<Result<Target, source::Error>, Error> {
        let org = &cleared.gated().validated.resolved.admitted.session.org;
        let failing = self.ledger().list_breakers(org).await?;
        // Nearly always nothing fails: then nobody asks what the call is counted under.
        if failing.is_empty() {
            return Ok(Ok(Target::Works));
        }
        let key = key_of(cleared);
        let Some(known) = failing.iter().find(|known| known.key == key.as_str()) else {
            return Ok(Ok(Target::Works));
        };
        if known.state == BreakerState::Closed || cleared.approval().is_some() {
            return Ok(Ok(Target::HasFailed));
        }
        let now = self.ledger().now().await?;
        if known.until <= now && self.ledger().claim_probe(org, &key, BREAKER_PROBE_SECONDS).await? {
            return Ok(Ok(Target::HasFailed));
        }
        let message = format!(
            "`{}` has failed {} times in a row, last with `{}`; nothing was sent, one call is let through at {}",
            known.key, known.failures, known.reason, known.until
        );
        Ok(Err(source::Error::Refused { code: "breaker_open", message }))
    }

    /// Counts how it went. A store that is away counts nothing, and keeps nobody from their answer.
    pub(crate) async fn count_outcome(&self, cleared: &Cleared, target: Target, answer: &Result<Output, source::Error>) {
        let org = &cleared.gated().validated.resolved.admitted.session.org;
        let noted = match (answer, target) {
            (Err(error), _) if is_the_targets_fault(error) => self.ledger().break_once(org, &key_of(cleared), error.code()).await,
            (_, Target::HasFailed) => self.ledger().close_breaker(org, &key_of(cleared)).await,
            (_, Target::Works) => Ok(()),
        };
        if let Err(error) = noted {
            tracing::warn!(key = %key_of(cleared), %error, "how a target fares could not be noted");
        }
    }
}

/// What a call is counted under.
fn key_of(cleared: &Cleared) -> BreakerKey {
    let resolved = &cleared.gated().validated.resolved;
    let request = &resolved.admitted.request;
    let target = resolved.source.target(&resolved.action().id, &request.params);
    BreakerKey::new(&resolved.action().id, target.as_deref(), request.bounds.breaker_label.as_deref())
}

/// How a package's code ends that did not come to an end of its own.
const ENDED: [&str; 5] = ["package_timed_out", "package_killed", "package_out_of_memory", "package_flooded", "package_lost"];

/// A target that looks at the call and says no works.
fn is_the_targets_fault(error: &source::Error) -> bool {
    match error {
        source::Error::Unreachable { .. } | source::Error::Busy { .. } | source::Error::Broken { .. } => true,
        // What was given up early by the caller says nothing about the target.
        source::Error::TimedOut { timeout_ms, .. } => *timeout_ms >= 1_000.min(CALL_TIMEOUT_MS),
        // Code that was ended is not code that said no.
        source::Error::Failed { code, .. } => ENDED.contains(code),
        source::Error::Refused { .. } | source::Error::WorkspaceElsewhere | source::Error::PreviewUnsupported { .. } => false,
    }
}
