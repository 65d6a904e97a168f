//! Why a run has no outcome. A program that fails inside the jail is an outcome, not an error.

use serde::{Deserialize, Serialize};
use std::fmt;

#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The jail could not be built as the profile demands. The program did not run; there is no fallback to a weaker jail.
    #[error("the sandbox is unavailable at step `{step}`: {why}; nothing ran, and retrying will not help until the host changes")]
    Unavailable { step: Step, why: String },
    /// The spec makes no sense. Nothing ran.
    #[error("the sandbox was asked for `{what}`, which it refuses: {why}; nothing ran")]
    Refused { what: String, why: String },
    /// The program file has another digest than expected. Nothing ran.
    #[error("program `{path}` has digest `{found}` where `{expected}` was expected; nothing ran")]
    OtherProgram { path: String, expected: String, found: String },
    /// The server failed at its own part, such as descriptors, memory or threads. Nothing ran unless `started`.
    #[error("the sandbox could not {what}: {why}; {}", if *.started { "the program was ended" } else { "nothing ran, retrying is safe" })]
    Host { what: &'static str, why: String, started: bool },
    /// Some processes were still alive after they had been killed and waited for.
    #[error("a jailed process did not die within {waited_ms} ms of being killed; its stage was not read")]
    Immortal { waited_ms: u64 },
}

impl Error {
    /// The only thing that decides retries.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Host { started, .. } => !started,
            Self::Unavailable { .. } | Self::Refused { .. } | Self::OtherProgram { .. } | Self::Immortal { .. } => false,
        }
    }

    pub(crate) fn host(what: &'static str, why: impl fmt::Display) -> Self {
        Self::Host { what, why: why.to_string(), started: false }
    }
}

/// The steps of building a jail, in order. A failed step ends the jail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Step {
    /// Before the jail: the host lacks what the profile needs, or the orders could not be read.
    Orders = 0,
    ParentDeath = 1,
    Cgroup = 2,
    Identity = 3,
    Namespaces = 4,
    Init = 5,
    Mounts = 6,
    Limits = 7,
    Capabilities = 8,
    Directory = 9,
    Descriptors = 10,
    NoNewPrivileges = 11,
    Landlock = 12,
    Seccomp = 13,
    Exec = 14,
}

impl Step {
    const ALL: [Self; 15] = [
        Self::Orders,
        Self::ParentDeath,
        Self::Cgroup,
        Self::Identity,
        Self::Namespaces,
        Self::Init,
        Self::Mounts,
        Self::Limits,
        Self::Capabilities,
        Self::Directory,
        Self::Descriptors,
        Self::NoNewPrivileges,
        Self::Landlock,
        Self::Seccomp,
        Self::Exec,
    ];

    pub(crate) fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Orders => "orders",
            Self::ParentDeath => "parent_death",
            Self::Cgroup => "cgroup",
            Self::Identity => "identity",
            Self::Namespaces => "namespaces",
            Self::Init => "init",
            Self::Mounts => "mounts",
            Self::Limits => "limits",
            Self::Capabilities => "capabilities",
            Self::Directory => "directory",
            Self::Descriptors => "descriptors",
            Self::NoNewPrivileges => "no_new_privileges",
            Self::Landlock => "landlock",
            Self::Seccomp => "seccomp",
            Self::Exec => "exec",
        })
    }
}
