//! What nobody knows the end of: the row says so, durably, before its caller hears it.

use crate::record::is_passing;
use crate::walking::Walking;
use crate::{Error, Pipeline};
use countersign_core::action::Class;
use countersign_core::ledger::Finished;
use countersign_core::limits::RECORD_RETRY_SECONDS;
use countersign_core::source::{self, AfterError};
use countersign_core::{Invocation, Status};
use std::time::Duration;

impl Pipeline {
    pub(crate) async fn doubt(&self, mut invocation: Box<Invocation>, walking: Option<Walking>) -> Result<Box<Invocation>, Error> {
        invocation.status = Status::InDoubt;
        invocation.ended_at = None;
        for _ in 0..3 {
            match self.try_doubt(&invocation).await {
                Err(Error::Store(error)) if is_passing(&error) => tokio::time::sleep(Duration::from_millis(100)).await,
                Ok(()) => return Ok(invocation),
                Err(error) => return Err(error),
            }
        }
        // The effect may have happened and nobody can be told so durably yet: the caller must not try again.
        let id = invocation.id.clone();
        self.doubt_later(invocation, walking);
        Err(Error::Unrecorded { invocation: id })
    }

    fn doubt_later(&self, invocation: Box<Invocation>, walking: Option<Walking>) {
        let pipeline = self.clone();
        self.spawn(async move {
            let _walking = walking;
            for _ in 0..RECORD_RETRY_SECONDS {
                tokio::time::sleep(Duration::from_secs(1)).await;
                match pipeline.try_doubt(&invocation).await {
                    Err(Error::Store(error)) if is_passing(&error) => {}
                    // Its batch waits for it.
                    _ => return pipeline.advance_of(&invocation).await,
                }
            }
        });
    }

    async fn try_doubt(&self, invocation: &Invocation) -> Result<(), Error> {
        let event = self.event(invocation, Status::InDoubt);
        match self.ledger().doubt(invocation.clone(), event).await? {
            // A repeat after an uncertain commit finds the work done.
            Finished::Recorded { .. } | Finished::Not(Status::InDoubt) => {}
            // Another server took this one for gone: it doubts it, too, or finds out more.
            Finished::Not(Status::Running) => return Ok(()),
            Finished::Not(status) => {
                return Err(Error::Internal { message: format!("`{}` became `{status}` while it ran", invocation.id) });
            }
            Finished::RulesChanged | Finished::Missing => {
                return Err(Error::Internal { message: format!("`{}` vanished while it ran", invocation.id) });
            }
        }
        self.count(invocation);
        self.inner.waiters.wake(&invocation.id);
        Ok(())
    }
}

/// Whether the effect may have happened, and matters.
pub(crate) fn leaves_doubt(error: &source::Error, invocation: &Invocation) -> bool {
    error.after() == AfterError::Unknown && invocation.tier.class() != Class::Read
}
