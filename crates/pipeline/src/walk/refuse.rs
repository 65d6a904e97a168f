//! Ends a call that was denied or quarantined: with a receipt, and without an effect.

use super::admit::{Step, Walked};
use super::decide::Denied;
use super::ending::{CALLER_LEFT, Ending, Recorded};
use super::gate::Gated;
use super::ground::Walk;
use super::quarantine::sealed;
use crate::error::Error;
use crate::limits::QUARANTINE_SECONDS;
use crate::request::Outcome;
use countersign_core::Status;
use countersign_core::invocation::{DeniedBy, Failure};
use countersign_core::ledger::{NewQuarantine, Row};
use countersign_core::quarantine::{Caught, Holds};

impl Walk {
    /// Ends a denied or quarantined call. If the rules have changed since it was decided, it is decided again instead.
    pub(crate) async fn record_refusal(
        &self,
        refused: Box<Denied>,
        status: Status,
        quarantine: Option<NewQuarantine>,
    ) -> Result<Walked, Error> {
        let Denied { gated, decision, policy_slice, failure } = *refused;
        let by = (status == Status::Denied).then_some(DeniedBy::Policy);
        let ending = Ending::unexecuted(gated.to_invocation(status, &decision), status, by, failure, Row::Insert);
        let ending = Ending {
            policy_slice,
            profile: gated.validated.resolved.action().profile.as_str().to_owned(),
            requires: gated.validated.resolved.action().requires.clone(),
            idempotency: gated.validated.idempotency_digest(),
            rules_version: Some(gated.validated.resolved.admitted.rules_version),
            quarantine,
            ..ending
        };
        Ok(match self.record_by_rules(ending).await? {
            Recorded::Ended(invocation) => Step::Done(Outcome::Ended { invocation, result: None }),
            Recorded::RulesChanged => Step::RulesChanged(gated.undecided()),
        })
    }

    /// Ends a call whose caller left before it began or was held: nothing was asked of its source, and nobody was asked for an approval.
    pub(crate) async fn record_left(&self, refused: impl FnOnce(Failure) -> Denied + Send) -> Result<Walked, Error> {
        let message = "its caller left before it began; nothing was done".to_owned();
        let refused = refused(Failure { code: CALLER_LEFT.into(), message });
        self.record_refusal(Box::new(refused), Status::Cancelled, None).await
    }

    pub(crate) async fn quarantine(&self, gated: Gated, caught: Vec<Caught>) -> Result<Walked, Error> {
        let message = match caught.first() {
            Some(first) => format!("{} at `{}`: {}; it was not run, and is kept for review", first.rule, first.pointer, first.message),
            None => "it was not run, and is kept for review".to_owned(),
        };
        let failure = Failure { code: "quarantined".into(), message };
        let admitted = &gated.validated.resolved.admitted;
        let sealed = sealed(&*gated.validated.key, &admitted.id, &admitted.request.call.params)?;
        let denied = self.refuse(gated, failure).await?;
        let kept = NewQuarantine { holds: Holds::Params, sealed, caught, lifetime_seconds: QUARANTINE_SECONDS };
        self.record_refusal(denied, Status::Quarantined, Some(kept)).await
    }
}
