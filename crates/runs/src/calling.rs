//! The call of a step, while its run waits for it. A run that is cancelled does not wait: the call goes its way without it. What has begun
//! ends with a receipt, or in doubt; what only waits for a person by then is cancelled too, because nobody is to be asked for a run that has
//! ended.

use crate::engine::Engine;
use crate::walk::{Signals, Walk};
use countersign_core::{OrgId, Principal, RunId};
use pipeline::{Outcome, Request};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::runtime::Handle;

type Answer = Result<Outcome, pipeline::Error>;

/// Boxed, because it may have to move to another task while it runs.
type Running = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// A call that its run waits for.
pub(crate) struct Calling {
    /// `None` once it was answered.
    call: Option<Running>,
    signals: Signals,
    after: After,
    runtime: Handle,
}

/// What is left to do after a call whose run has ended without it.
#[derive(Clone)]
struct After {
    engine: Engine,
    org: OrgId,
    run: RunId,
    principal: Principal,
    /// Names what was reserved for it.
    entry: String,
}

impl Walk {
    /// Makes the call. `entry` names what was reserved for it.
    pub(crate) fn make(&self, request: Request, entry: String) -> Calling {
        let pipeline = self.engine.0.ports.pipeline.clone();
        let after = After {
            engine: self.engine.clone(),
            org: self.run.org.clone(),
            run: self.run.id.clone(),
            principal: self.principal.clone(),
            entry,
        };
        let call: Running = Box::pin(async move { pipeline.invoke(request).await });
        Calling { call: Some(call), signals: self.signals.clone(), after, runtime: Handle::current() }
    }
}

impl Future for Calling {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer> {
        let Some(call) = self.call.as_mut() else {
            return Poll::Pending;
        };
        let polled = call.as_mut().poll(context);
        if polled.is_ready() {
            self.call = None;
        }
        polled
    }
}

impl Drop for Calling {
    fn drop(&mut self) {
        // A call whose run goes on with another worker is that worker's. The pipeline does not abandon it either.
        if let Some(call) = self.call.take().filter(|_| self.signals.is_cancelled()) {
            self.runtime.spawn(self.after.clone().see_off(call));
        }
    }
}

impl After {
    async fn see_off(self, call: Running) {
        let done = match call.await {
            Ok(Outcome::Pending(waiting)) => {
                let pipeline = &self.engine.0.ports.pipeline;
                pipeline.cancel_call(&self.org, &self.principal.id, &waiting.id).await.map(|_| ()).map_err(|error| error.to_string())
            }
            Ok(Outcome::Ended { invocation, .. } | Outcome::Replayed(invocation)) => {
                let settled = self.engine.settle_call(&self.org, &self.run, &self.entry, &invocation).await;
                settled.map_err(|error| error.to_string())
            }
            // It is in the inbox: a person says what became of it.
            Ok(Outcome::InDoubt(_)) => Ok(()),
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = done {
            tracing::warn!(run = %self.run, error, "the call that a cancelled run was at could not be followed to its end");
        }
    }
}
