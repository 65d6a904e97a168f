//! A program nobody trusts that stays in the jail for longer than one call: its owner writes to its stdin and reads its stdout, and it
//! ends with its owner. A port beside `jail`, which runs programs to their end.

use crate::Future;
use crate::action::Profile;
use crate::egress::Egress;
use crate::jail::{Ended, Error};
use futures_util::io::{AsyncRead, AsyncWrite};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;

/// Starts programs that stay.
pub trait Residents: Send + Sync {
    /// The program runs when this returns. Dropping the future before that ends it.
    fn start(&self, spec: Spec) -> Future<'_, Result<Resident, Error>>;
}

/// One program, and all it is given.
#[derive(Clone, Debug)]
pub struct Spec {
    /// For whom it is started. One owner never takes all the places there are.
    pub owner: String,
    /// `InProcess` is no confinement, and is refused.
    pub profile: Profile,
    /// The very file whose bytes have this digest.
    pub program: PathBuf,
    /// BLAKE3 of its bytes.
    pub program_digest: [u8; 32],
    pub args: Vec<String>,
    /// The whole environment.
    pub env: Vec<(String, String)>,
    /// Paths of the host, and where the program sees them, read-only. It starts in its stage, a folder in memory.
    pub read_only: Vec<(PathBuf, PathBuf)>,
    /// What the program and its files may hold together; then it is killed.
    pub memory_bytes: u64,
    /// Processes and threads at once; the next fork fails.
    pub processes: u32,
    /// Its share of one processor, where the host can bound it; beyond, it waits.
    pub cpu_percent: u32,
    /// The longest line on stdout; then it is ended as `Flooded`.
    pub line_bytes_max: usize,
    /// How long it may take to end after SIGTERM; then everything in the jail is killed.
    pub grace_ms: u64,
    /// Whom it may ask over the network. `None`: it has no way out at all.
    pub egress: Option<Arc<dyn Egress>>,
}

/// A program at work.
pub struct Resident {
    /// A write waits for as long as the program does not read. Dropping it tells the program that nothing more comes.
    pub stdin: Box<dyn AsyncWrite + Send + Unpin>,
    /// Nothing is read ahead: a program that prints faster than this is read has to wait.
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    /// Dropping it ends the program and shuts its way out.
    pub child: Box<dyn Child>,
}

/// What is known of a program that stays. Dropping it is asking for the end.
pub trait Child: Send + Sync {
    /// Asks for the end: SIGTERM to the program, and after its grace the death of everything in the jail.
    fn end(&self);
    /// Waits until every process of it is dead. `Cancelled` if it had to be killed because the end was asked for.
    fn ended(&self) -> Future<'_, Result<Ended, Error>>;
    /// The last of what it wrote to stderr, as text that steers no terminal. Whoever shows it redacts it.
    fn stderr(&self) -> StderrTail;
    /// Under what isolation it runs, as a receipt says it.
    fn facts(&self) -> &Value;
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StderrTail {
    pub lines: Vec<String>,
    /// Lines that came before these and are no longer kept.
    pub dropped: u64,
}
