//! Runs a program that nobody trusts: bounded, watched, and unable to reach anything it was not given.
//!
//! The server calls `Sandbox::run`, or `Sandbox::start` for a program that stays (`resident.rs`). What is run is a `Spec`, what came of it an `Outcome`, and what it wrote a `Stage`, read after every
//! process of it is dead. The jail is this same binary, started again under another name (`main_if_asked`), which locks itself up in
//! fourteen steps (`jail.rs`) before it becomes the program. A step that fails ends it: there is no weaker jail.

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
pub mod egress;
mod sys;

pub use error::{Error, Step};
pub use jail::main_if_asked;
pub use outcome::{Captured, CgroupBackend, Cost, Ended, Facts, Outcome};
pub use probes::{Probe, Probes, UID_FIRST};
pub use program::digest_of;
pub use resident::{Child, Resident, Stay, StderrTail, Stdout};
pub use run::{Cancel, OnLog, Options, Sandbox};
pub use spec::{Bind, Input, Limits, Profile, Program, SCRATCH_BYTES_MAX, SCRATCH_FILES_MAX, Spec, StageSpec, View};
