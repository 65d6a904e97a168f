//! Runs an untrusted program with limits on its resources, under watch, and unable to reach anything it was not given.
//!
//! The server calls `Sandbox::run`, or `Sandbox::start` for a program that outlives one call (`resident.rs`). A `Spec` says what to run, an
//! `Outcome` says how the run ended, and a `Stage` holds the files the program wrote; it is read only after every process of the run is
//! dead. The jail is this same binary, started again under another name (`main_if_asked`). It restricts itself in fourteen steps
//! (`jail.rs`) and then executes the program. A step that fails ends the jail: there is no fallback to a weaker one.

pub mod limits;
mod error;
mod spec;
mod outcome;
mod probes;
mod run;
mod resident;
mod jailer;
mod pump;
mod streams;
mod check;
mod program;
mod filter;
mod cgroup;
mod memory;
mod uids;
mod orders;
mod word;
mod jail;
mod text;
pub mod stage;
pub mod folder;
pub mod egress;
pub mod worker;
mod sys;

pub use error::{Error, Step};
pub use jail::main_if_asked;
pub use outcome::{Captured, CgroupBackend, Cost, Ended, Facts, Outcome};
pub use probes::{Probe, Probes, UID_FIRST};
pub use program::digest_of;
pub use resident::{Child, Resident, Stay, StderrTail, Stdout};
pub use run::{Cancel, Options, Sandbox};
pub use spec::{Bind, FOLDER, Input, Limits, Network, Profile, Program, SCRATCH_BYTES_MAX, SCRATCH_FILES_MAX, Spec, StageSpec, View};
pub use streams::OnLog;
