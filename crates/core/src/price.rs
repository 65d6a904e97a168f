//! The port to prices: what a call may cost, before it is made, and what it did cost. Calls without a price are free.

use crate::{Amount, Invocation};
use serde_json::Value;

/// Prices calls, in dollars.
pub trait Prices: Send + Sync {
    /// The most that this call can cost; `None` if it is free.
    fn worst_case(&self, action: &str, params: &Value) -> Option<Amount>;
    /// What the call did cost; `None` if nobody knows. Then it counts as what it could have cost.
    fn cost(&self, ended: &Invocation) -> Option<Amount>;
}
