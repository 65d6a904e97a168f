//! Implements the port `core::resident` with the sandbox.

use super::{SandboxJail, binds, confining, ended, inputs, open_way_out, without_outcome};
use crate::limits::{MCP_PROGRAM_FOLDER_FILES_MAX, MCP_PROGRAM_FOLDER_LOOK_MS, RESIDENT_STDERR_BYTES_MAX};
use countersign_core::jail::{Ended, Error};
use countersign_core::resident::{Child, Folder, Resident, Residents, Spec, StderrTail};
use sandbox::{Limits, Program, Stay};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
        if let Some(folder) = &asked.folder
            && is_over_now(folder).await
        {
            return Err(Error::Refused { message: too_much(folder) });
        }
        let mut limits =
            Limits { memory_bytes: asked.memory_bytes, processes: asked.processes, open_files: asked.open_files, ..Limits::default() };
        if let Some(folder) = &asked.folder {
            limits.file_bytes = folder.bytes_max;
        }
        let mut spec = sandbox::Spec {
            name: asked.name,
            args: asked.args,
            env: asked.env.iter().map(|(name, value)| (name.clone(), value.expose().clone())).collect(),
            read_only: binds(asked.read_only),
            inputs: inputs(asked.inputs),
            folder: asked.folder.as_ref().map(|folder| folder.host.clone()),
            limits,
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
        let child = Arc::new(started.child);
        let watched = asked.folder.map(|folder| Watched::new(folder, &child));
        let network = asked.network.zip(started.network).map(|(network, sockets)| {
            // The sockets would keep the network of a program that has ended, and whatever it left open there.
            let watched_child = Arc::clone(&child);
            let serving = async move {
                tokio::select! {
                    () = network.serve(sockets) => {},
                    _ = watched_child.ended() => {},
                }
            };
            tokio::spawn(serving).abort_handle()
        });
        let facts = serde_json::to_value(&started.facts).unwrap_or_default();
        Ok(Resident {
            stdin: Box::new(started.stdin.compat_write()),
            stdout: Box::new(started.stdout.compat()),
            child: Box::new(Handle { child, facts, ways: way_out.into_iter().chain(network).collect(), watched }),
        })
    }
}

struct Handle {
    child: Arc<sandbox::Child>,
    facts: Value,
    /// The tasks that serve its ways to the network.
    ways: Vec<AbortHandle>,
    watched: Option<Watched>,
}

/// The folder of a program, which is measured while the program runs.
struct Watched {
    folder: Folder,
    /// Whether the program was ended because of it.
    is_over: Arc<AtomicBool>,
    watch: AbortHandle,
}

impl Watched {
    /// A walk takes a while, and nothing tells what was written. So between two looks a program can write more than it may.
    fn new(folder: Folder, child: &Arc<sandbox::Child>) -> Self {
        let (is_over, child) = (Arc::<AtomicBool>::default(), Arc::downgrade(child));
        let (said, looked_at) = (Arc::clone(&is_over), folder.clone());
        let watch = tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_millis(MCP_PROGRAM_FOLDER_LOOK_MS)).await;
                let Some(child) = child.upgrade() else { return };
                if is_over_now(&looked_at).await {
                    said.store(true, Ordering::Release);
                    child.end();
                    return;
                }
            }
        });
        Self { folder, is_over, watch: watch.abort_handle() }
    }
}

/// What cannot be measured is not known to be too much while a program runs in it.
async fn is_over_now(folder: &Folder) -> bool {
    let (host, most) = (folder.host.clone(), sandbox::folder::Held { bytes: folder.bytes_max, entries: MCP_PROGRAM_FOLDER_FILES_MAX });
    let held = tokio::task::spawn_blocking(move || sandbox::folder::measure(&host, most)).await;
    match held {
        Ok(Ok(held)) => held.bytes > most.bytes || held.entries > most.entries,
        Ok(Err(error)) => {
            tracing::warn!(%error, "the folder of a program could not be measured");
            false
        }
        Err(_) => false,
    }
}

fn too_much(folder: &Folder) -> String {
    let megabytes = folder.bytes_max >> 20;
    format!(
        "its folder has more than the {megabytes} MiB or {MCP_PROGRAM_FOLDER_FILES_MAX} files that it may have: an operator \
         gives it a larger one (`--folder`, or `folder_mb` in `mcp_commands`), or makes room in it, below `kept` in the data folder"
    )
}

impl Child for Handle {
    fn end(&self) {
        self.child.end();
    }

    fn ended(&self) -> countersign_core::Future<'_, Result<Ended, Error>> {
        Box::pin(async {
            let how = self.child.ended().await.map(ended).map_err(|error| without_outcome(&error));
            match &self.watched {
                Some(watched) if watched.is_over.load(Ordering::Acquire) => Err(Error::Lost { message: too_much(&watched.folder) }),
                Some(_) | None => how,
            }
        })
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
        let watch = self.watched.as_ref().map(|watched| &watched.watch);
        for task in self.ways.iter().chain(watch) {
            task.abort();
        }
    }
}
