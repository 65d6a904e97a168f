//! What came of a run.

use crate::spec::Profile;
use crate::stage::Stage;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A run that took place, however it ended. Every process of it is dead.
#[derive(Debug)]
pub struct Outcome {
    pub ended: Ended,
    pub result: Captured<Vec<u8>>,
    /// Valid UTF-8 with nothing in it that could steer a terminal.
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
    /// By a signal of its own or of the kernel; 31 is a system call the profile does not have.
    Signalled(i32),
    TimedOut,
    OutOfMemory,
    /// It printed far more than is kept.
    Flooded,
    /// Whoever asked for it no longer wants it.
    Cancelled,
}

/// What was kept of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured<T> {
    pub kept: T,
    /// There was more.
    pub truncated: bool,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Cost {
    /// Of all its processes, and of building the jail.
    pub cpu_ms: u64,
    /// Of its largest process.
    pub max_rss_bytes: u64,
    pub wall_ms: u64,
}

impl Cost {
    pub(crate) fn new(cpu: Duration, max_rss_bytes: u64, wall: Duration) -> Self {
        let ms = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        Self { cpu_ms: ms(cpu), max_rss_bytes, wall_ms: ms(wall) }
    }
}

/// Under what isolation it ran: what a receipt says about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    pub profile: Profile,
    /// 0 where `landlock` is in `degraded`.
    pub landlock_abi: i32,
    /// Of the filters as they were installed.
    pub seccomp_sha256: String,
    pub namespaces: Vec<String>,
    pub cgroup_backend: CgroupBackend,
    /// Whether the program had a `/proc` of its own.
    pub proc: bool,
    /// What the operator allowed to be missing, and was.
    pub degraded: Vec<String>,
}

/// What bounds memory and processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CgroupBackend {
    V2,
    V1,
    /// Resource limits, and memory looked at every 50 ms.
    None,
}
