//! The one way to perform an action, as the doors see it. What a call goes through is in `walk`; what people and the clock do to calls is in
//! the parts above it, each of which adds its methods to `Pipeline`.

use crate::catalogue::Catalogue;
use crate::error::Error;
use crate::request::{Outcome, Request};
use crate::told::outcome_told_to;
use crate::walk::ground::{Ports, Settings, Walk};
use countersign_core::ledger::Ledger;
use countersign_core::{BatchId, Invocation, InvocationId, OrgId, Status};
use durable::{Claims, Wakeups};
use std::time::Duration;

/// Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Pipeline {
    pub(crate) walk: Walk,
    /// Batches this process is running right now.
    pub(crate) batches: Claims<BatchId>,
    pub(crate) batch_wakeups: Wakeups<BatchId>,
}

impl Pipeline {
    /// That there is no such action, with the names that are like it.
    pub async fn unknown_action(&self, org: &OrgId, named: &str) -> Error {
        self.walk.unknown_action(org, named).await
    }

    pub fn new(ports: Ports, settings: Settings) -> Self {
        Self { walk: Walk::new(ports, settings), batches: Claims::default(), batch_wakeups: Wakeups::default() }
    }

    /// Performs one action for one principal: ends in exactly one receipt, or waits for a person. It goes on when the caller goes away.
    pub async fn invoke(&self, request: Request) -> Result<Outcome, Error> {
        let principal = request.principal.clone();
        let outcome = self.walk.invoke(self.walk.draw_id(), request).await?;
        Ok(outcome_told_to(&principal, outcome))
    }

    /// The invocation, held back up to `limit` while it is still on its way.
    pub async fn watch(&self, org: &OrgId, invocation: &InvocationId, limit: Duration) -> Result<Invocation, Error> {
        self.walk.wait_until(org, invocation, limit, |status| status.is_final() || status == Status::InDoubt).await
    }

    /// An invocation somebody referred to that is not their org's.
    pub async fn count_unknown(&self, org: &OrgId, invocation: &InvocationId) {
        self.walk.count_unknown(org, invocation).await;
    }

    /// What can be invoked.
    pub fn catalogue(&self) -> &Catalogue {
        &self.walk.inner.catalogue
    }

    /// Answers everyone who waits for a change with what there is, so that a stop is not held up by them.
    pub fn stop_waiting(&self) {
        self.walk.inner.closing.cancel();
    }

    /// Waits until everything that runs has ended. New calls may still be made; stop the doors first.
    pub async fn finish(&self) {
        self.walk.inner.tasks.close();
        self.walk.inner.tasks.wait().await;
    }

    pub(crate) fn ledger(&self) -> &dyn Ledger {
        self.walk.ledger()
    }
}
