//! The public handle of the pipeline. `walk` has the stages of a call; the modules above `walk` (answers, batches, recovery and the others)
//! each add their methods to `Pipeline`.

use crate::catalogue::{Catalogue, Eyes};
use crate::error::Error;
use crate::request::{Outcome, Request};
use crate::told::outcome_told_to;
use crate::walk::ground::{Ports, Settings, Walk};
use crate::walk::weight::Weight;
use countersign_core::ledger::Ledger;
use countersign_core::{BatchId, Invocation, InvocationId, OrgId, SpaceId, Status};
use durable::Claims;
use serde_json::{Value, json};
use std::time::Duration;

/// The pipeline. Cheap to clone; clones share all state.
#[derive(Clone)]
pub struct Pipeline {
    pub(crate) walk: Walk,
    /// Batches this process is running right now.
    pub(crate) batches: Claims<BatchId>,
}

impl Pipeline {
    /// That there is no such action, with the names that are like it.
    pub async fn unknown_action<'a>(&self, eyes: impl Into<Eyes<'a>>, named: &str) -> Error {
        self.walk.unknown_action(eyes, named).await
    }

    pub fn new(ports: Ports, settings: Settings) -> Self {
        Self { walk: Walk::new(ports, settings), batches: Claims::default() }
    }

    /// Performs one action for one principal. The call ends in exactly one receipt, or waits for a person. It goes on if the caller
    /// disconnects. A caller who waits on a line uses `call`.
    pub async fn invoke(&self, request: Request) -> Result<Outcome, Error> {
        self.invoke_as(self.walk.draw_id(), request).await
    }

    pub(crate) async fn invoke_as(&self, id: InvocationId, request: Request) -> Result<Outcome, Error> {
        let principal = request.principal.clone();
        Ok(outcome_told_to(&principal, self.walk.invoke(id, request).await?))
    }

    /// Reads an invocation. While it has not ended, the answer is held back for up to `limit`.
    pub async fn watch(&self, org: &OrgId, invocation: &InvocationId, limit: Duration) -> Result<Invocation, Error> {
        self.walk.wait_until(org, invocation, limit, |status| status.is_final() || status == Status::InDoubt).await
    }

    /// The inputs of a run as people may see them: without secrets, and without what the space takes out of calls.
    pub async fn redact_inputs(&self, org: &OrgId, space: &SpaceId, inputs: &Value) -> Value {
        let weight = Weight::of(inputs);
        let (walk, org, space, inputs) = (self.walk.clone(), org.clone(), space.clone(), inputs.clone());
        let work = async move {
            let (inputs, unreadable) = walk.take_out_of_answer(&org, &space, &inputs).await;
            if unreadable.is_empty() { policy::redact(&inputs).value } else { json!({ "_unreadable": true }) }
        };
        weight.run(work).await
    }

    /// Counts that somebody referred to an invocation that does not exist in their org.
    pub async fn count_unknown(&self, org: &OrgId, invocation: &InvocationId) {
        self.walk.count_unknown(org, invocation).await;
    }

    /// The actions that can be invoked.
    pub fn catalogue(&self) -> &Catalogue {
        &self.walk.inner.catalogue
    }

    /// After this long without news, whoever is kept waiting gets a sign that the connection is alive.
    pub fn silence(&self) -> Duration {
        Duration::from_millis(self.walk.inner.settings.progress_silence_ms)
    }

    /// Answers every caller who waits for a change with the current state, so that they do not delay a shutdown.
    pub fn stop_waiting(&self) {
        self.walk.inner.closing.cancel();
    }

    /// Returns when the server stops.
    pub async fn stopping(&self) {
        self.walk.inner.closing.cancelled().await;
    }

    pub fn is_stopping(&self) -> bool {
        self.walk.inner.closing.is_cancelled()
    }

    /// Waits until every running call has ended. It does not stop new calls: close the doors first.
    pub async fn finish(&self) {
        self.walk.inner.tasks.close();
        self.walk.inner.tasks.wait().await;
    }

    pub(crate) fn ledger(&self) -> &dyn Ledger {
        self.walk.ledger()
    }
}
