//! Marks a call as in doubt: the row says so, durably, before the caller hears it.

use super::ending::{STORE_AWAY_MAX, is_away};
use super::ground::{Walk, Walking};
use crate::error::Error;
use countersign_core::action::Class;
use countersign_core::ledger::Finished;
use countersign_core::source::{self, AfterError};
use countersign_core::{Invocation, InvocationId, OrgId, Status};
use durable::Pace;

impl Walk {
    /// Returns the call as its row is from then on. Another server may have settled it: it considered this one gone and claimed the call.
    pub(crate) async fn doubt(&self, mut invocation: Box<Invocation>, walking: Option<Walking>) -> Result<Box<Invocation>, Error> {
        invocation.status = Status::InDoubt;
        invocation.ended_at = None;
        let written = Pace::soon().retry(is_away, || self.try_doubt(&invocation)).await;
        if is_away(&written) {
            // The effect may have happened, and the doubt cannot be stored yet: the caller is told not to retry.
            let id = invocation.id.clone();
            self.doubt_later(invocation, walking);
            return Err(Error::Unrecorded { invocation: id });
        }
        written.map(|settled| settled.unwrap_or(invocation))
    }

    fn doubt_later(&self, invocation: Box<Invocation>, walking: Option<Walking>) {
        let walk = self.clone();
        self.spawn(async move {
            let _walking = walking;
            let written = Pace::for_at_most(STORE_AWAY_MAX).retry(is_away, || walk.try_doubt(&invocation)).await;
            if let Err(error) = written {
                tracing::error!(%error, invocation = %invocation.id, "a doubt could not be recorded");
            }
        });
    }

    /// `Some` if another server has settled the call.
    async fn try_doubt(&self, invocation: &Invocation) -> Result<Option<Box<Invocation>>, Error> {
        let event = self.event(invocation, Status::InDoubt);
        match self.ledger().doubt(invocation.clone(), event).await? {
            // After an uncertain commit, this retry finds that the row was already written.
            Finished::Recorded { .. } | Finished::Not(Status::InDoubt) => {}
            // Another server has claimed the call. That server marks it as in doubt, or reconciles it.
            Finished::Not(Status::Running) => return Ok(None),
            Finished::Not(_) => return self.as_it_became(&invocation.org, &invocation.id).await.map(Some),
            Finished::RulesChanged | Finished::MayNotAnswer | Finished::Missing => {
                return Err(Error::Internal { message: format!("`{}` vanished while it ran", invocation.id) });
            }
        }
        self.tell(invocation);
        Ok(None)
    }

    /// The row of a call that another server has settled.
    pub(super) async fn as_it_became(&self, org: &OrgId, invocation: &InvocationId) -> Result<Box<Invocation>, Error> {
        let row = self.ledger().find_invocation(org, invocation).await?;
        row.map(Box::new).ok_or_else(|| Error::Internal { message: format!("`{invocation}` vanished while it ran") })
    }
}

/// Whether the effect may have happened. A read has no effect.
pub(crate) fn leaves_doubt(error: &source::Error, invocation: &Invocation) -> bool {
    error.after() == AfterError::Unknown && invocation.tier.class() != Class::Read
}
