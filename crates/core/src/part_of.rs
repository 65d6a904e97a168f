//! Which part of which batch an invocation is.

use crate::BatchId;
use serde::{Deserialize, Serialize};
use std::fmt;
use utoipa::ToSchema;

/// Which part of which batch an invocation is. If the invocation also has `reverses`, it reverts that part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartOf {
    pub batch: BatchId,
    /// From 0.
    pub index: u32,
    pub of: u32,
    pub mode: BatchMode,
}

/// What a part that fails means for the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BatchMode {
    /// No part starts before every part may run. If one fails, the finished ones are reverted, the last first.
    AllOrNothing,
    /// A failed part means nothing for the others.
    BestEffort,
}

impl BatchMode {
    pub const ALL: [Self; 2] = [Self::AllOrNothing, Self::BestEffort];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AllOrNothing => "all_or_nothing",
            Self::BestEffort => "best_effort",
        }
    }
}

impl fmt::Display for BatchMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
