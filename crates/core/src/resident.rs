//! The port for an untrusted program that stays in the jail for longer than one call: its owner writes to its stdin and reads its stdout,
//! and it ends with its owner. The port `jail` runs programs to their end instead.

use crate::action::Profile;
use crate::egress::Egress;
use crate::jail::{Ended, Error, Input};
use crate::network::Network;
use crate::{Future, Secret};
use futures_util::io::{AsyncRead, AsyncWrite};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;

/// Starts resident programs.
pub trait Residents: Send + Sync {
    /// Starts a program; it is running when this returns. Dropping the future before that ends the program.
    fn start(&self, spec: Spec) -> Future<'_, Result<Resident, Error>>;
}

/// One program and everything it is given.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Who it is started for. A single owner never gets all the places.
    pub owner: String,
    /// `InProcess` is no confinement, so it is refused.
    pub profile: Profile,
    /// The program; it is run only if its bytes have `program_digest`.
    pub program: PathBuf,
    /// BLAKE3 of its bytes.
    pub program_digest: [u8; 32],
    /// The name that it is started under, as its first argument; absent: that of its file.
    pub name: Option<String>,
    pub args: Vec<String>,
    /// The whole environment. Values may be secrets, so none is printed.
    pub env: Vec<(String, Secret<String>)>,
    /// Host paths, and the paths at which the program sees them, read-only. It starts in its stage, a folder in memory.
    pub read_only: Vec<(PathBuf, PathBuf)>,
    /// A folder that it may write to, as `/data`, and in which it starts. What it writes is kept.
    pub folder: Option<Folder>,
    /// Files given to the program, read-only, by their absolute path in the jail.
    pub inputs: Vec<Input>,
    /// The limit for the program and its files together; beyond it the program is killed.
    pub memory_bytes: u64,
    /// Processes and threads at once; the next fork fails.
    pub processes: u32,
    /// Files that each of its processes may have open; the next open fails.
    pub open_files: u32,
    /// Its share of one processor, if the host can limit it; beyond, the program is slowed down.
    pub cpu_percent: u32,
    /// The longest line on stdout; a longer one ends the program as `Flooded`.
    pub line_bytes_max: usize,
    /// How long it may take to end after SIGTERM; then everything in the jail is killed.
    pub grace_ms: u64,
    /// The way to the network for a program that knows of it. `None`: the program has none.
    pub egress: Option<Arc<dyn Egress>>,
    /// The network that every program sees. `None`: it can make no socket.
    pub network: Option<Arc<dyn Network>>,
}

/// A folder of the host that belongs to one program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    pub host: PathBuf,
    /// What its files may take together. A program that has more is ended, and is not started again until it has less.
    pub bytes_max: u64,
}

/// A running resident program.
pub struct Resident {
    /// A write waits while the program does not read. Dropping this closes the program's stdin.
    pub stdin: Box<dyn AsyncWrite + Send + Unpin>,
    /// It is not read ahead: a program that prints faster than its owner reads has to wait.
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    /// Dropping it ends the program and closes its way to the network.
    pub child: Box<dyn Child>,
}

/// The state of a resident program. Dropping it asks the program to end.
pub trait Child: Send + Sync {
    /// Asks the program to end: SIGTERM first, and after the grace period everything in the jail is killed.
    fn end(&self);
    /// Waits until all its processes are dead. `Cancelled` if it had to be killed after it was asked to end.
    fn ended(&self) -> Future<'_, Result<Ended, Error>>;
    /// The last lines of its stderr, with terminal control characters made harmless. They are not redacted; redact them before showing
    /// them.
    fn stderr(&self) -> StderrTail;
    /// The isolation that it runs under, in the form a receipt has.
    fn facts(&self) -> &Value;
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StderrTail {
    pub lines: Vec<String>,
    /// The number of earlier lines that are no longer kept.
    pub dropped: u64,
}
