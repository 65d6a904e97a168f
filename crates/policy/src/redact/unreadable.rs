//! A place in params that could not be checked, and why.

use serde::{Deserialize, Serialize};

/// A place that could not be checked, as a pointer into the outgoing value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unreadable {
    pub pointer: String,
    pub because: Because,
}

/// Why a place could not be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Because {
    /// A picture that does not decode.
    Undecodable,
    /// A picture, or all pictures together, exceed what is checked in one call.
    OverBudget,
    /// There are more values to remove, or more candidates, than are checked in one call.
    TooMany,
}
