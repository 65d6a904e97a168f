//! Whether a target is worth asking. One that fails again and again is left alone for a while; then one call is let through, and
//! decides for all. What a person has approved is tried all the same: they know more than a counter.

use crate::decide::Cleared;
use crate::{Error, Pipeline};
use countersign_core::OrgId;
use countersign_core::breaker::{BreakerKey, BreakerState};
use countersign_core::limits::{BREAKER_PROBE_SECONDS, CALL_TIMEOUT_MS};
use countersign_core::source::{self, Output};

/// What a call is counted under, and whether anything is known of it.
pub(crate) struct Counted {
    org: OrgId,
    key: BreakerKey,
    is_known: bool,
}

impl Pipeline {
    /// How the call is counted, or why it is not made.
    pub(crate) async fn breaker(&self, cleared: &Cleared) -> Result<Result<Counted, source::Error>, Error> {
        let resolved = &cleared.gated().validated.resolved;
        let request = &resolved.admitted.request;
        let target = resolved.source.target(&resolved.action().id, &request.params);
        let key = BreakerKey::new(&resolved.action().id, target.as_deref(), request.bounds.breaker_label.as_deref());
        let org = resolved.admitted.session.org.clone();
        let known = self.ledger().list_breakers(&org).await?;
        let Some(known) = known.iter().find(|known| known.key == key.as_str()) else {
            return Ok(Ok(Counted { org, key, is_known: false }));
        };
        let counted = Counted { org, key, is_known: true };
        if known.state == BreakerState::Closed || cleared.approval().is_some() {
            return Ok(Ok(counted));
        }
        let now = self.ledger().now().await?;
        if known.until <= now && self.ledger().claim_probe(&counted.org, &counted.key, BREAKER_PROBE_SECONDS).await? {
            return Ok(Ok(counted));
        }
        let message = format!(
            "`{}` has failed {} times in a row, last with `{}`; nothing was sent, one call is let through at {}",
            known.key, known.failures, known.reason, known.until
        );
        Ok(Err(source::Error::Refused { code: "breaker_open", message }))
    }

    /// Counts how it went. A store that is away counts nothing, and keeps nobody from their answer.
    pub(crate) async fn count_outcome(&self, counted: Counted, answer: &Result<Output, source::Error>) {
        let Counted { org, key, is_known } = counted;
        let noted = match answer {
            Err(error) if is_the_targets_fault(error) => self.ledger().break_once(&org, &key, error.code()).await,
            Ok(_) | Err(_) if is_known => self.ledger().close_breaker(&org, &key).await,
            Ok(_) | Err(_) => Ok(()),
        };
        if let Err(error) = noted {
            tracing::warn!(%key, %error, "how a target fares could not be noted");
        }
    }
}

/// A target that looks at the call and says no works.
fn is_the_targets_fault(error: &source::Error) -> bool {
    match error {
        source::Error::Unreachable { .. } | source::Error::Busy { .. } | source::Error::Broken { .. } => true,
        // What was given up early by the caller says nothing about the target.
        source::Error::TimedOut { timeout_ms, .. } => *timeout_ms >= 1_000.min(CALL_TIMEOUT_MS),
        source::Error::Refused { .. } | source::Error::Failed { .. } | source::Error::PreviewUnsupported { .. } => false,
    }
}
