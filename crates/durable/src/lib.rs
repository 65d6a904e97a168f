//! The basics of long-lived work, whatever its subject: batches, notices and automation runs use them.
//!
//! - `claims`: only one task at a time works on a thing inside this process; between servers the store's leases decide.
//! - `wakeups`: a task that waits for a change is woken by it, and never polls.
//! - `retry`: how long to wait before another attempt, and how to retry while something is unavailable.

mod claims;
mod retry;
mod wakeups;

pub use claims::{Claim, Claims, OtherClaim};
pub use retry::{Ladder, Pace};
pub use wakeups::{Wakeup, Wakeups};
