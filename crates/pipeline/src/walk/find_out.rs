//! Finds out what became of an effect whose outcome is unknown. Looking for it changes nothing. If only sending the same request again can
//! tell, that is an attempt of its own, with an intent, and it is counted like any other.

use super::ask::{Again, Subject};
use super::intent::{AnnouncedAgain, Announcement};
use crate::error::Error;
use crate::walk::ground::Walk;
use crate::walk::unverified::is_unverified;
use countersign_core::Invocation;
use countersign_core::source;
use countersign_core::source::Reconciled;
use receipt::limits::IDEMPOTENCY_SECONDS;

/// The result of asking.
pub(crate) struct Found {
    pub(crate) reconciled: Result<Reconciled, source::Error>,
    /// The invocation with one more attempt, if the request was sent again.
    pub(crate) tried: Option<Box<Invocation>>,
}

impl Walk {
    pub(crate) async fn find_out(&self, subject: Subject<'_>, announcement: &Announcement) -> Result<Found, Error> {
        let reconciled = self.ask_to_reconcile(subject, Again::No).await;
        if reconciled != Ok(Reconciled::ByAskingAgain) {
            return Ok(Found { reconciled, tried: None });
        }
        let Some(rules_version) = self.rules_to_ask_again_by(subject.invocation).await else {
            return Ok(Found { reconciled: Ok(Reconciled::Unknown), tried: None });
        };
        let mut next = subject.invocation.clone();
        next.attempts += 1;
        if self.announce_again(announcement, &next, Some(rules_version)).await? != AnnouncedAgain::Written {
            return Ok(Found { reconciled: Ok(Reconciled::Unknown), tried: None });
        }
        self.fault("find_out.announced");
        let reconciled = self.ask_to_reconcile(Subject { invocation: &next, ..subject }, Again::Announced).await;
        self.fault("find_out.asked");
        Ok(Found { reconciled, tried: Some(Box::new(next)) })
    }

    /// The rules version under which the same request may be sent again. It may be if the call started recently, if the rules it was
    /// decided under are still in force, if attempts are left, and if it is not already known that the effect happened. `None` if any of
    /// this cannot be read.
    async fn rules_to_ask_again_by(&self, invocation: &Invocation) -> Option<i64> {
        let (now, version) = (self.ledger().now().await.ok()?, self.ledger().rules_version(&invocation.org).await.ok()?);
        if is_unverified(invocation) {
            return None;
        }
        let until = invocation.started_at?.plus_seconds(IDEMPOTENCY_SECONDS);
        let may = invocation.decision.rules_version == Some(version) && now < until && invocation.attempts < self.attempts_max(invocation);
        may.then_some(version)
    }
}
