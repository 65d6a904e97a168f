//! Spans around the work for one call. Every log line within a span carries the trace id of the original request, even long after that
//! request and on another server.

use crate::walk::decide::Cleared;
use countersign_core::{Batch, Invocation};
use tracing::Span;
use tracing::field::Empty;

/// The span around an execution. `attempts` is filled in at its end.
pub(crate) fn of_execution(cleared: &Cleared) -> Span {
    let resolved = &cleared.gated().validated.resolved;
    let (action, admitted) = (resolved.action(), &resolved.admitted);
    tracing::info_span!(
        "action.exec",
        trace_id = admitted.request.trace_id,
        invocation = admitted.id.as_str(),
        action = action.id.as_str(),
        space = admitted.session.space.as_str(),
        requires = action.requires.join(" "),
        sandbox_profile = action.profile.as_str(),
        attempts = Empty,
    )
}

/// The span around the recovery of a call that was left behind.
pub(crate) fn of_left(left: &Invocation) -> Span {
    tracing::info_span!(
        "action.recover",
        trace_id = left.trace_id,
        invocation = left.id.as_str(),
        action = left.action.as_str(),
        space = left.space.as_str(),
    )
}

/// The span around the recovery of a batch.
pub(crate) fn of_batch(batch: &Batch) -> Span {
    tracing::info_span!("batch.recover", trace_id = batch.trace_id, batch = batch.id.as_str())
}
