//! Counts, by reason, the answers that did not fit and the calls that referred to an earlier call and did not fit.

use crate::error::Error;
use crate::walk::ground::Walk;
use countersign_core::{InvocationId, OrgId, ledger};

const NOT_FOUND: &str = "not_found";
/// The caller gets exactly the answer of `not_found`; only the metric shows that somebody tried to reach another org.
const CROSS_TENANT: &str = "cross_tenant";

/// Counts a conflict. Public for the doors, which refuse some requests before they reach the pipeline.
pub fn count_conflict(conflict: &'static str) {
    metrics::counter!("countersign_conflicts_total", "conflict" => conflict).increment(1);
}

impl Walk {
    /// Counts that somebody referred to an invocation that does not exist in their org.
    pub(crate) async fn count_unknown(&self, org: &OrgId, invocation: &InvocationId) {
        // If this look-up fails, the reference counts as `not_found`: a metric must not fail the request.
        let is_foreign = self.ledger().is_of_another_org(org, invocation).await.unwrap_or(false);
        count_conflict(if is_foreign { CROSS_TENANT } else { NOT_FOUND });
    }

    /// Counts the error if the answer did not fit, and returns the result unchanged.
    pub(crate) async fn counted<T>(&self, org: &OrgId, answered: Result<T, Error>) -> Result<T, Error> {
        let Err(error) = &answered else { return answered };
        match error {
            Error::Conflict { conflict, .. } => count_conflict(conflict.code()),
            Error::SelfApproval { .. } => count_conflict("self_approval"),
            Error::NeedsConfirmation { .. } => count_conflict("needs_confirmation"),
            Error::MayNotApprove => count_conflict("may_not_approve"),
            Error::Store(ledger::Error::Unavailable { .. } | ledger::Error::Fenced | ledger::Error::CommitUnknown { .. }) => {
                count_conflict("store_unavailable")
            }
            Error::RulesKeepChanging => count_conflict("rules_changing"),
            Error::UnknownInvocation { invocation } => match InvocationId::parse(invocation) {
                Ok(invocation) => self.count_unknown(org, &invocation).await,
                Err(_) => count_conflict(NOT_FOUND),
            },
            Error::UnknownAction { .. }
            | Error::UnknownSession { .. }
            | Error::SessionEnded { .. }
            | Error::NotYourSession { .. }
            | Error::RateLimited { .. }
            | Error::NotAMember { .. }
            | Error::TooManyPending { .. }
            | Error::InvalidParams { .. }
            | Error::SchemaTooCostly { .. }
            | Error::InvalidRequest { .. }
            | Error::InvalidScope { .. }
            | Error::CommandNotAllowed { .. }
            | Error::IdempotencyConflict { .. }
            | Error::IdempotencyInFlight { .. }
            | Error::Forbidden { .. }
            | Error::LinkInvalid
            | Error::LinkExpired
            | Error::TicketInvalid
            | Error::OwnQuarantine { .. }
            | Error::NotInDoubt { .. }
            | Error::Reconciling { .. }
            | Error::NotRevertible { .. }
            | Error::NotGrantable { .. }
            | Error::QuarantineSettled { .. }
            | Error::AlreadyReverted { .. }
            | Error::CannotRun { .. }
            | Error::DryRunUnsupported { .. }
            | Error::SourceUnavailable { .. }
            | Error::InvalidBatch { .. }
            | Error::NotLast { .. }
            | Error::BatchKeyTaken { .. }
            | Error::BatchTaken { .. }
            | Error::BatchUnrecorded { .. }
            | Error::NeedsPersonNow { .. }
            | Error::Store(ledger::Error::Corrupt { .. })
            | Error::Unrecorded { .. }
            | Error::Internal { .. } => {}
        }
        answered
    }
}
