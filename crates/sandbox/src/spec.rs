//! What is to run, and within which bounds.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

/// How strictly a program is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// Own namespaces, Landlock, and a list of system calls that are refused.
    Default,
    /// The same, with a uid of its own, a cgroup that must be there, and a list of the only system calls there are.
    HighIsolation,
}

impl Profile {
    pub const ALL: [Self; 2] = [Self::Default, Self::HighIsolation];

    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::HighIsolation => "high_isolation",
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One run of one program.
#[derive(Debug)]
pub struct Spec {
    pub profile: Profile,
    pub program: Program,
    /// What follows the program's own name.
    pub args: Vec<String>,
    /// The whole environment: nothing is inherited.
    pub env: Vec<(String, String)>,
    /// Where it starts: a folder that is shown to it, or one in it. `None`: the stage.
    pub starts_in: Option<PathBuf>,
    /// What of the host can be seen, read and executed, and where.
    pub read_only: Vec<Bind>,
    /// Folders of the host of which a part can be seen.
    pub views: Vec<View>,
    /// Files the program finds in its root, read-only: exactly these bytes, whatever happens on the host's disk meanwhile.
    pub inputs: Vec<Input>,
    pub stage: StageSpec,
    pub stdin: Vec<u8>,
    pub limits: Limits,
    /// The program's end of its only way out, which it finds as descriptor 3.
    pub egress: Option<OwnedFd>,
}

impl Spec {
    /// A spec with nothing but the program: no arguments, no environment, nothing of the host in sight.
    pub fn new(profile: Profile, program: Program) -> Self {
        Self {
            profile,
            program,
            args: vec![],
            env: vec![],
            starts_in: None,
            read_only: vec![],
            views: vec![],
            inputs: vec![],
            stage: StageSpec::default(),
            stdin: vec![],
            limits: Limits::default(),
            egress: None,
        }
    }
}

/// What is executed: the very file whose bytes have this digest.
#[derive(Clone, Debug)]
pub struct Program {
    pub path: PathBuf,
    /// BLAKE3 of its bytes: of the digests we have, the one that reads 100 MB in the time of a call.
    pub digest: [u8; 32],
}

/// A path of the host, and where the program sees it.
#[derive(Clone, Debug)]
pub struct Bind {
    pub host: PathBuf,
    pub jail: PathBuf,
}

/// A part of a folder of the host: these entries, by their paths in it, none of which lies in another. What is not there, or lies behind
/// a link, or is or lies behind another mount, is not shown; a link among them is shown as one, and a mount in one of them with it. Nothing that comes to be beside them is seen.
#[derive(Clone, Debug)]
pub struct View {
    pub host: PathBuf,
    pub jail: PathBuf,
    pub only: Vec<String>,
}

/// A file made for the program.
#[derive(Clone, Debug)]
pub struct Input {
    /// Absolute in the jail for `Spec::inputs`; relative to the stage for `StageSpec::initial`.
    pub path: PathBuf,
    pub bytes: Vec<u8>,
}

/// The only place the program can leave something in: `/stage`, in memory, gone with the run.
#[derive(Clone, Debug)]
pub struct StageSpec {
    /// What all its files may hold together; the next write fails with ENOSPC.
    pub bytes_max: u64,
    /// How many files and directories it may have; the next one fails with ENOSPC.
    pub files_max: u64,
    /// What is in it when the program starts.
    pub initial: Vec<Input>,
}

impl Default for StageSpec {
    fn default() -> Self {
        Self { bytes_max: 64 << 20, files_max: 4096, initial: vec![] }
    }
}

/// What the scratch may hold: `/tmp`, in memory, for what is put aside while a program runs. Nobody reads it, and it is gone with the run.
/// The same for every run, so that it is there before one comes. What it holds counts as memory of the program.
pub const SCRATCH_BYTES_MAX: u64 = 32 << 20;
/// How many files and directories it may have; the next one fails with ENOSPC.
pub const SCRATCH_FILES_MAX: u64 = 1024;

/// The bounds of one run. Each says what happens when it is reached.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// What the program, its stage and its scratch may hold together; then it is killed as `OutOfMemory`.
    pub memory_bytes: u64,
    /// The address space of each process; then `mmap` fails. Off by default: some interpreters reserve far more than they use.
    pub address_space_bytes: Option<u64>,
    /// Processor time of each process; then it is killed by SIGXCPU.
    pub cpu: Duration,
    /// From spawn to end; then everything is killed as `TimedOut`.
    pub wall: Duration,
    /// Processes and threads at once; the next fork fails with EAGAIN.
    pub processes: u32,
    /// The size of one file; then writing it fails with EFBIG.
    pub file_bytes: u64,
    /// Descriptors each process may hold, at most 512; the next open fails with EMFILE.
    pub open_files: u32,
    /// How much of stdout is kept; the rest is dropped and `truncated` set.
    pub result_bytes: usize,
    /// How much of stderr is kept; the rest is dropped and `truncated` set.
    pub log_bytes: usize,
    /// What may be printed beyond what is kept; then it is killed as `Flooded`.
    pub flood_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: 512 << 20,
            address_space_bytes: None,
            cpu: Duration::from_secs(30),
            wall: Duration::from_secs(30),
            processes: 64,
            file_bytes: 64 << 20,
            open_files: 256,
            result_bytes: 1 << 20,
            log_bytes: 64 << 10,
            flood_bytes: 64 << 20,
        }
    }
}

/// The most descriptors a program may hold: what the jail itself needs until the exec lies above.
pub(crate) const OPEN_FILES_MAX: u32 = 512;
