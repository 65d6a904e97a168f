//! The port to the jail, in which untrusted programs run. A program there has limits, can reach only what it was given, and can write only
//! to a stage, which is read after the program is dead, and to a scratch folder, which is never read.

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
    /// Runs one program to its end. Dropping the future ends it, with every process it started.
    fn confine(&self, what: Confinement) -> Future<'_, Result<Confined, Error>>;
}

/// The queue in which a run waits when the maximum number of runs is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// To make an effect. `whose` names the package or source; a single one never gets all the turns.
    ToMake { whose: String },
    /// To check an effect or to revert it. These runs have turns of their own, so that they do not wait for effects. Here too a single one
    /// never gets all the turns.
    Afterwards { whose: String },
}

/// One run of one program.
#[derive(Clone, Debug)]
pub struct Confinement {
    pub turn: Turn,
    /// `InProcess` is no confinement, so it is refused.
    pub profile: Profile,
    /// The program; it is run only if its bytes have `program_digest`.
    pub program: PathBuf,
    /// BLAKE3 of its bytes.
    pub program_digest: [u8; 32],
    pub args: Vec<String>,
    /// The whole environment.
    pub env: Vec<(String, String)>,
    /// The working directory, one of the folders that it is shown. `None`: its stage.
    pub starts_in: Option<PathBuf>,
    /// Host paths, and the paths at which the program sees them, read-only.
    pub read_only: Vec<(PathBuf, PathBuf)>,
    /// Host folders of which it sees a part, read-only.
    pub views: Vec<View>,
    /// Files given to the program, read-only, by their absolute path in the jail.
    pub inputs: Vec<Input>,
    pub stdin: Vec<u8>,
    /// From the request to the end of the run, including the wait for a turn; then everything is killed.
    pub wall_ms: u64,
    /// The limit for the program, its stage and its scratch together; beyond it the program is killed.
    pub memory_bytes: u64,
    /// The limits for the files on the stage: bytes together, and number.
    pub stage_bytes_max: u64,
    pub stage_files_max: u64,
    /// Gets each line of the log as it arrives.
    pub progress: Option<Progress>,
    /// The way to the network. `None`: the program has none.
    pub egress: Option<Arc<dyn Egress>>,
}

/// A part of a host folder: these entries, by their paths in it, and nothing else, not even what is added while the program runs. No entry
/// lies inside another. An entry that does not exist, or that is or lies behind another mount, is not shown.
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

/// The result of a run, however it ended. All its processes are dead.
#[derive(Clone, Debug)]
pub struct Confined {
    pub ended: Ended,
    pub stdout: Vec<u8>,
    /// Whether stdout was longer than what is kept.
    pub is_cut: bool,
    /// Its stderr, with terminal control characters made harmless.
    pub log: String,
    pub cpu_ms: u64,
    /// The isolation that it ran under, in the form a receipt has.
    pub facts: Value,
    /// The files that it left on its stage: all of them, or why none is taken.
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
    /// It was killed because its caller no longer wants the result.
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

/// What running code has cost so far, and under which isolation. The runner adds to it, the recorder reads it. Clones share one meter.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "Metered", into = "Metered")]
pub struct Meter(Arc<Mutex<Metered>>);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Metered {
    cpu_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    energy_uj: Option<u64>,
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
    /// Whether nothing was measured: no code ran outside the server, and the host does not tell what energy it uses.
    pub fn is_unused(&self) -> bool {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) == Metered::default()
    }

    pub fn add(&self, confined: &Confined) {
        let mut metered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        metered.cpu_ms = Some(metered.cpu_ms.unwrap_or(0).saturating_add(confined.cpu_ms));
        metered.facts = Some(confined.facts.clone());
    }

    /// Counts one request that was let out. `host` is one that the definition declares, or `egress::OTHER`.
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

    /// The requests of all runs, by host.
    pub fn traffic(&self) -> Vec<Traffic> {
        let metered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let traffic = metered.traffic.iter();
        traffic.map(|(host, &(made, refused))| Traffic { host: host.clone(), made, refused }).collect()
    }

    /// Adds what the host's processors used while the source was asked, in microjoules.
    pub fn add_energy(&self, energy_uj: u64) {
        let mut metered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        metered.energy_uj = Some(metered.energy_uj.unwrap_or(0).saturating_add(energy_uj));
    }

    /// `None` if the host does not tell it.
    pub fn energy_uj(&self) -> Option<u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).energy_uj
    }

    /// `None` if no code ran outside the server.
    pub fn cpu_ms(&self) -> Option<u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).cpu_ms
    }

    /// The isolation of the latest run.
    pub fn facts(&self) -> Option<Value> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).facts.clone()
    }
}

impl PartialEq for Meter {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || Metered::from(self.clone()) == Metered::from(other.clone())
    }
}

/// Why a run has no result. The variants differ in whether anything ran.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The host cannot confine programs as the profile demands. A weaker confinement is never used instead.
    #[error("{message}")]
    Unavailable { message: String },
    /// The program does not exist, or is not the expected one.
    #[error("{message}")]
    Refused { message: String },
    #[error("{message}; nothing ran, retrying is safe")]
    Busy { message: String },
    /// The program may have started, and its outcome is unknown. It was killed, its stage was thrown away and its way to the network is
    /// closed. The `Egress` knows what it sent before.
    #[error("{message}; it may have run")]
    Lost { message: String },
}
