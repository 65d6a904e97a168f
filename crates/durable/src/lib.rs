//! The basics of long-lived work, whatever its subject.
//!
//! - `claims`: only one task at a time works on a thing inside this process; between servers the store's leases decide. For calls, batches
//!   and notices; a run is leased by a row instead (`docs/decisions/0016-leases-of-runs.md`).
//! - `wakeups`: a task that waits for a change is woken by it, and never polls. For whoever waits for a call, also for the step of a run.
//! - `heavy`: what takes the processor long runs on threads of its own.
//! - `retry`: how long to wait before another attempt, and how to retry while something is unavailable. For all of them.

mod claims;
pub mod heavy;
mod retry;
mod wakeups;

pub use claims::{Claim, Claims, OtherClaim};
pub use retry::{Ladder, Pace};
pub use wakeups::{Wakeup, Wakeups};
