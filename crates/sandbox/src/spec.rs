//! The description of a run: the program, what it may see, and its limits.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

/// How strictly a program is confined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// Namespaces of its own, Landlock, and a denylist of system calls.
    Default,
    /// As `Default`, and also a server that gives each run a uid of its own, a mandatory cgroup, and an allowlist of system calls.
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
    /// The program's own name, its first argument. `None` means that of its file.
    pub name: Option<String>,
    /// The arguments after the program's own name.
    pub args: Vec<String>,
    /// The whole environment: nothing is inherited.
    pub env: Vec<(String, String)>,
    /// The working directory: a folder of the host that the program can see, or a folder inside one. `None` means its own folder if it has
    /// one, else the stage.
    pub starts_in: Option<PathBuf>,
    /// Paths of the host that the program can see, read and execute, and where they appear in the jail.
    pub read_only: Vec<Bind>,
    /// Folders of the host of which the program sees only some entries.
    pub views: Vec<View>,
    /// A folder of the host that the program may write to, as `FOLDER`. What it writes there stays. Where the server is root, everything in
    /// it becomes the program's when it starts.
    pub folder: Option<PathBuf>,
    /// Files the program finds in its root, read-only: exactly these bytes, whatever happens on the host's disk meanwhile.
    pub inputs: Vec<Input>,
    pub stage: StageSpec,
    pub stdin: Vec<u8>,
    pub limits: Limits,
    /// The program's end of the egress, its only way to the network. The program finds it as descriptor 3.
    pub egress: Option<OwnedFd>,
    /// The network that the program sees. Only for a resident, in the profile `Default`.
    pub network: Option<Network>,
}

/// A network in which only the owner of a resident answers, through `Resident::network`.
#[derive(Clone, Debug)]
pub struct Network {
    /// The TCP ports on which connections arrive.
    pub ports: Vec<u16>,
}

impl Spec {
    /// A spec with only the program: no arguments, no environment, and no path of the host visible.
    pub fn new(profile: Profile, program: Program) -> Self {
        Self {
            profile,
            program,
            name: None,
            args: vec![],
            env: vec![],
            starts_in: None,
            read_only: vec![],
            views: vec![],
            folder: None,
            inputs: vec![],
            stage: StageSpec::default(),
            stdin: vec![],
            limits: Limits::default(),
            egress: None,
            network: None,
        }
    }
}

/// The program to execute: exactly the file whose bytes have this digest.
#[derive(Clone, Debug)]
pub struct Program {
    pub path: PathBuf,
    /// BLAKE3 of the file's bytes. BLAKE3 because it hashes 100 MB in the time of a call, which our other digests do not.
    pub digest: [u8; 32],
}

/// A path of the host, and where the program sees it.
#[derive(Clone, Debug)]
pub struct Bind {
    pub host: PathBuf,
    pub jail: PathBuf,
}

/// Some entries of a folder of the host, named by their paths relative to the folder; no entry may lie inside another.
///
/// An entry is not shown if it does not exist, lies behind a symbolic link, is a mount point or lies behind one. An entry that is itself a
/// symbolic link is shown as a link. Mounts inside an entry are shown with it. Entries that appear in the folder later are not seen.
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

/// The only place where the program can leave files: `/stage`, in memory, gone with the run.
#[derive(Clone, Debug)]
pub struct StageSpec {
    /// The size of all files together, in bytes; beyond it, a write fails with ENOSPC.
    pub bytes_max: u64,
    /// The number of files and directories; beyond it, creating one fails with ENOSPC.
    pub files_max: u64,
    /// The files on the stage when the program starts.
    pub initial: Vec<Input>,
}

impl Default for StageSpec {
    fn default() -> Self {
        Self { bytes_max: 64 << 20, files_max: 4096, initial: vec![] }
    }
}

/// The size of the scratch in bytes: `/tmp`, in memory, for temporary files. The server never reads it, and it is gone with the run. The
/// size is the same for every run, so that the scratch can be mounted before a run comes. Its contents count as memory of the program.
pub const SCRATCH_BYTES_MAX: u64 = 32 << 20;
/// The number of files and directories on the scratch; beyond it, creating one fails with ENOSPC.
pub const SCRATCH_FILES_MAX: u64 = 1024;

/// The limits of one run. Each says what happens when it is reached.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The memory of the program, its stage and its scratch together; beyond it, the program is killed as `OutOfMemory`.
    pub memory_bytes: u64,
    /// The address space of each process; beyond it, `mmap` fails. `None` by default: some interpreters reserve far more than they use. Where
    /// no cgroup counts memory, `None` is a wide limit that follows from `memory_bytes`.
    pub address_space_bytes: Option<u64>,
    /// The processor time of each process; beyond it, SIGXCPU kills the process.
    pub cpu: Duration,
    /// The wall-clock time of the run, its setup included; beyond it, every process is killed as `TimedOut`.
    pub wall: Duration,
    /// Processes and threads at once; the next fork fails with EAGAIN.
    pub processes: u32,
    /// The size of one file; beyond it, a write fails with EFBIG.
    pub file_bytes: u64,
    /// Descriptors each process may hold, at most 65,536 and never more than the server may; the next open fails with EMFILE.
    pub open_files: u32,
    /// How much of stdout is kept; the rest is dropped and `truncated` set.
    pub result_bytes: usize,
    /// How much of stderr is kept; the rest is dropped and `truncated` set.
    pub log_bytes: usize,
    /// How many bytes may be printed beyond those that are kept; beyond that, the program is killed as `Flooded`.
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

/// The most descriptors a program may hold.
pub(crate) const OPEN_FILES_MAX: u32 = 65_536;

/// Where a program sees the folder that it may write to.
pub const FOLDER: &str = "/data";

/// How long a program lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// Until the program exits, within the time limit of one run.
    OneRun,
    /// Until its owner ends it. It has a share of the processor instead of a time limit.
    Resident { cpu_percent: u32 },
}
