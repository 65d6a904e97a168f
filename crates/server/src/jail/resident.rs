//! Implements the port `core::resident` with the sandbox.

use super::{SandboxJail, binds, confining, ended, inputs, open_way_out, without_outcome};
use countersign_core::jail::{Ended, Error};
use countersign_core::limits::RESIDENT_STDERR_BYTES_MAX;
use countersign_core::resident::{Child, Resident, Residents, Spec, StderrTail};
use sandbox::{Limits, Program, Stay};
use serde_json::Value;
use std::time::Duration;
use tokio::task::AbortHandle;
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

impl Residents for SandboxJail {
    fn start(&self, spec: Spec) -> countersign_core::Future<'_, Result<Resident, Error>> {
        Box::pin(self.start_resident(spec))
    }
}

impl SandboxJail {
    async fn start_resident(&self, asked: Spec) -> Result<Resident, Error> {
        let sandbox = self.sandbox.as_ref().map_err(|why| Error::Unavailable { message: why.clone() })?;
        let place = self.turns.reside(&asked.owner)?;
        let mut spec = sandbox::Spec {
            args: asked.args,
            env: asked.env.iter().map(|(name, value)| (name.clone(), value.expose().clone())).collect(),
            read_only: binds(asked.read_only),
            inputs: inputs(asked.inputs),
            limits: Limits { memory_bytes: asked.memory_bytes, processes: asked.processes, ..Limits::default() },
            ..sandbox::Spec::new(confining(asked.profile)?, Program { path: asked.program, digest: asked.program_digest })
        };
        let stay = Stay {
            cpu_percent: asked.cpu_percent,
            line_bytes_max: asked.line_bytes_max,
            stderr_bytes_max: RESIDENT_STDERR_BYTES_MAX,
            grace: Duration::from_millis(asked.grace_ms),
        };
        spec.network = asked.network.as_ref().map(|network| sandbox::Network { ports: network.ports() });
        let way_out = asked.egress.map(|egress| Ok((open_way_out(&mut spec)?, egress))).transpose()?;
        let started = sandbox.start(spec, stay, place).await.map_err(|error| without_outcome(&error))?;
        // A resident program lives for days, so each request is limited, but not the number of requests.
        let way_out = way_out.map(|(proxy, egress)| tokio::spawn(async move { proxy.serve(&*egress, usize::MAX).await }).abort_handle());
        let network = asked.network.zip(started.network).map(|(network, sockets)| {
            // The sockets would keep the network of a program that has ended, and whatever it left open there.
            let ended = started.child.ended();
            let serving = async move {
                tokio::select! {
                    () = network.serve(sockets) => {},
                    _ = ended => {},
                }
            };
            tokio::spawn(serving).abort_handle()
        });
        let facts = serde_json::to_value(&started.facts).unwrap_or_default();
        Ok(Resident {
            stdin: Box::new(started.stdin.compat_write()),
            stdout: Box::new(started.stdout.compat()),
            child: Box::new(Handle { child: started.child, facts, ways: way_out.into_iter().chain(network).collect() }),
        })
    }
}

struct Handle {
    child: sandbox::Child,
    facts: Value,
    /// The tasks that serve its ways to the network.
    ways: Vec<AbortHandle>,
}

impl Child for Handle {
    fn end(&self) {
        self.child.end();
    }

    fn ended(&self) -> countersign_core::Future<'_, Result<Ended, Error>> {
        Box::pin(async { self.child.ended().await.map(ended).map_err(|error| without_outcome(&error)) })
    }

    fn stderr(&self) -> StderrTail {
        let tail = self.child.stderr();
        StderrTail { lines: tail.lines.into(), dropped: tail.dropped }
    }

    fn facts(&self) -> &Value {
        &self.facts
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        for way in &self.ways {
            way.abort();
        }
    }
}
