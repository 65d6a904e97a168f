//! What long-lived work stands on, whatever it is about: batches use it now, automation runs next.
//!
//! - `claims`: one walk at a time inside this process; between servers the store's leases decide.
//! - `wakeups`: whoever waits for a change is woken by it, and never polls.
//! - `retry`: how long to wait before another try, and trying while something is away.

mod claims;
mod retry;
mod wakeups;

pub use claims::{Claim, Claims, OtherClaim};
pub use retry::{Ladder, Pace};
pub use wakeups::{Wakeup, Wakeups};
