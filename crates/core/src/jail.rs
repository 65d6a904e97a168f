//! Where a program nobody trusts runs: bounded, unable to reach anything it was not given, and unable to change anything but a stage
//! that is read once it is dead, and a scratch that nobody reads. A port: whoever runs code of others sees this and not how it is done.

use crate::Future;
use crate::action::Profile;
use crate::effect::Progress;
use crate::egress::{Egress, Traffic};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Confines programs.
pub trait Jail: Send + Sync {
    /// Runs one program to its end. Dropping the future ends it, with everything it started.
    fn confine(&self, what: Confinement) -> Future<'_, Result<Confined, Error>>;
}

/// What a run waits its turn for, where as many run as may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// To make something: with whatever else these make. One of them never takes all the turns.
    ToMake { whose: String },
    /// To look at what was made, or to take it back: that must not wait for others to make something. One of them never takes all of
    /// these turns either.
    Afterwards { whose: String },
}

/// One run of one program.
#[derive(Clone, Debug)]
pub struct Confinement {
    pub turn: Turn,
    /// `InProcess` is no confinement, and is refused.
    pub profile: Profile,
    /// The very file whose bytes have this digest.
    pub program: PathBuf,
    /// BLAKE3 of its bytes.
    pub program_digest: [u8; 32],
    pub args: Vec<String>,
    /// The whole environment.
    pub env: Vec<(String, String)>,
    /// Where it starts, and what it finds by a relative path: a folder it is shown. `None`: its stage.
    pub starts_in: Option<PathBuf>,
    /// Paths of the host, and where the program sees them, read-only.
    pub read_only: Vec<(PathBuf, PathBuf)>,
    /// Folders of the host of which it sees a part, read-only.
    pub views: Vec<View>,
    /// Files the program finds, read-only, by their absolute path in the jail.
    pub inputs: Vec<Input>,
    pub stdin: Vec<u8>,
    /// From when it is asked for, waiting for its turn included, to its end; then everything is killed.
    pub wall_ms: u64,
    /// What the program, its stage and what it puts aside may hold together; then it is killed.
    pub memory_bytes: u64,
    /// What the files on the stage may hold together, and how many there may be.
    pub stage_bytes_max: u64,
    pub stage_files_max: u64,
    /// Told each line of the log as it arrives.
    pub progress: Option<Progress>,
    /// Whom it may ask over the network. `None`: it has no way out at all.
    pub egress: Option<Arc<dyn Egress>>,
}

/// A part of a folder of the host: these entries, by their paths in it, and nothing beside them or added to them while it runs. None of
/// them lies in another. What is not there is not shown, and neither is one that is, or lies behind, another mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    pub host: PathBuf,
    pub jail: PathBuf,
    pub only: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct Input {
    pub path: PathBuf,
    pub bytes: Arc<[u8]>,
}

/// A run that took place, however it ended. Every process of it is dead.
#[derive(Clone, Debug)]
pub struct Confined {
    pub ended: Ended,
    pub stdout: Vec<u8>,
    /// There was more on stdout than is kept.
    pub is_cut: bool,
    /// What it wrote to stderr, as text that steers no terminal.
    pub log: String,
    pub cpu_ms: u64,
    /// Under what isolation it ran, as a receipt says it.
    pub facts: Value,
    /// What it left on its stage: whole, or why none of it is taken.
    pub staged: Result<Vec<StagedFile>, String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Exited(i32),
    Signalled(i32),
    TimedOut,
    OutOfMemory,
    /// It printed far more than is kept.
    Flooded,
    /// It was killed because whoever asked for it no longer wants it.
    Cancelled,
}

/// A file on the stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagedFile {
    /// Relative to the stage.
    pub path: String,
    pub bytes: Vec<u8>,
    /// Its permission bits.
    pub mode: u32,
}

/// What running code has cost so far, and under what isolation: told by who runs it, read by who records it. Clones are one meter.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "Metered", into = "Metered")]
pub struct Meter(Arc<Mutex<Metered>>);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Metered {
    cpu_ms: Option<u64>,
    facts: Option<Value>,
    /// Requests made and refused, by host.
    traffic: BTreeMap<String, (u64, u64)>,
}

impl From<Metered> for Meter {
    fn from(metered: Metered) -> Self {
        Self(Arc::new(Mutex::new(metered)))
    }
}

impl From<Meter> for Metered {
    fn from(Meter(metered): Meter) -> Self {
        metered.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Meter {
    /// Whether nothing ran outside the server.
    pub fn is_unused(&self) -> bool {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) == Metered::default()
    }

    pub fn add(&self, confined: &Confined) {
        let mut metered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        metered.cpu_ms = Some(metered.cpu_ms.unwrap_or(0).saturating_add(confined.cpu_ms));
        metered.facts = Some(confined.facts.clone());
    }

    /// One more request that was let out. `host` is one of the few a definition names.
    pub fn made(&self, host: &str) {
        self.traffic_to(host, |(made, _)| *made += 1);
    }

    pub fn refused(&self, host: &str) {
        self.traffic_to(host, |(_, refused)| *refused += 1);
    }

    fn traffic_to(&self, host: &str, count: impl FnOnce(&mut (u64, u64))) {
        let mut metered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        count(metered.traffic.entry(host.to_owned()).or_default());
    }

    /// Of all runs, by host.
    pub fn traffic(&self) -> Vec<Traffic> {
        let metered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let traffic = metered.traffic.iter();
        traffic.map(|(host, &(made, refused))| Traffic { host: host.clone(), made, refused }).collect()
    }

    /// `None` where nothing ran outside the server.
    pub fn cpu_ms(&self) -> Option<u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).cpu_ms
    }

    /// Of the latest run.
    pub fn facts(&self) -> Option<Value> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).facts.clone()
    }
}

impl PartialEq for Meter {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || Metered::from(self.clone()) == Metered::from(other.clone())
    }
}

/// Why there is nothing to say about a run. Whether anything ran is what tells them apart.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The host cannot confine as the profile demands. Nothing weaker is taken instead.
    #[error("{message}")]
    Unavailable { message: String },
    /// The program is not there, or not the one that was expected.
    #[error("{message}")]
    Refused { message: String },
    #[error("{message}; nothing ran, retrying is safe")]
    Busy { message: String },
    /// It may have begun, and how it went is not known. It was ended, its stage was thrown away, and its way out is shut; what it sent
    /// before is known to whoever let it out.
    #[error("{message}; it may have run")]
    Lost { message: String },
}
