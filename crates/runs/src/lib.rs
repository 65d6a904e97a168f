//! Runs automations: what a definition says is done here, and nowhere else.
//!
//! Read in this order: `dispatch` makes a firing of an occurrence, `clock` and `listener` notice occurrences of schedules and events, `gather`
//! has several events start one run, `again` handles events that a person has replayed, `worker` takes runs that are due and keeps its
//! leases on them, `walk` takes one run through its steps, `calling` waits for the call of a step, and `mend` moves what is stuck. A step is
//! an invocation like any other: the pipeline gates it, asks a person, performs it and leaves its receipt. Everything that lasts is in the
//! store, behind the ports `Automations` and `Runs`; a worker that is killed at any moment has lost nothing. `builtin` has the actions that
//! are steps' own, and `dry_run` says what steps would be called with.

pub mod limits;
mod again;
mod backoff;
mod builtin;
mod calling;
mod clock;
mod dispatch;
mod dry_run;
mod due;
mod engine;
mod error;
mod events;
mod gather;
mod listener;
mod mend;
mod params;
mod program;
mod queues;
mod spend;
mod step;
mod walk;
mod worker;

pub use builtin::Builtin;
pub use dispatch::{Again, Asked, Hook};
pub use dry_run::{Known, Rendered};
pub use engine::{Engine, Ports, Queue, Settings};
pub use error::Error;
pub use events::{heard, told};
pub use program::Program;
