//! The outcome of a run: how it ended, what it printed, what it cost, and under which isolation it ran.

use crate::spec::Profile;
use crate::stage::Stage;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The outcome of a run that took place, however it ended. Every process of the run is dead.
#[derive(Debug)]
pub struct Outcome {
    pub ended: Ended,
    pub result: Captured<Vec<u8>>,
    /// stderr as valid UTF-8, without characters that could control a terminal.
    pub log: Captured<String>,
    pub cost: Cost,
    pub facts: Facts,
    pub stage: Stage,
}

/// Why the program is no longer running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "how", content = "value")]
pub enum Ended {
    Exited(i32),
    /// Killed by a signal that it raised itself or got from the kernel. Signal 31 (SIGSYS) means a system call that the profile does not
    /// allow.
    Signalled(i32),
    TimedOut,
    OutOfMemory,
    /// The program printed far more than is kept.
    Flooded,
    /// The caller cancelled the run.
    Cancelled,
}

/// The part of a stream that was kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured<T> {
    pub kept: T,
    /// The stream was longer than `kept`.
    pub truncated: bool,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Cost {
    /// The processor time of all its processes, and of building the jail.
    pub cpu_ms: u64,
    /// The peak memory of its largest process.
    pub max_rss_bytes: u64,
    pub wall_ms: u64,
}

impl Cost {
    pub(crate) fn new(cpu: Duration, max_rss_bytes: u64, wall: Duration) -> Self {
        let ms = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        Self { cpu_ms: ms(cpu), max_rss_bytes, wall_ms: ms(wall) }
    }
}

/// The isolation a run had, as its receipt states it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    pub profile: Profile,
    /// The Landlock ABI that was enforced; 0 where `landlock` is in `degraded`.
    pub landlock_abi: i32,
    /// The digest of the seccomp filters as they were installed.
    pub seccomp_sha256: String,
    pub namespaces: Vec<String>,
    pub cgroup_backend: CgroupBackend,
    /// Whether the program had a `/proc` of its own.
    pub proc: bool,
    /// The protections that were missing, with the operator's permission.
    pub degraded: Vec<String>,
}

/// The mechanism that limits memory and processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CgroupBackend {
    V2,
    V1,
    /// Resource limits, and memory checked every 50 ms.
    None,
}
