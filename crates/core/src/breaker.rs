//! The circuit breaker: a target that fails again and again is not called for a while, then one call tries it.

use crate::Timestamp;
use serde::{Deserialize, Serialize};
use std::fmt;
use utoipa::ToSchema;

/// The key that failures are counted under: an action, its target, and the caller's label.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BreakerKey {
    text: String,
    is_labelled: bool,
}

impl BreakerKey {
    const CHARS_MAX: usize = 300;

    /// The target and the caller's label make separate keys of what would otherwise be one key per action.
    pub fn new(action: &crate::ActionId, target: Option<&str>, label: Option<&str>) -> Self {
        let mut text = action.to_string();
        for part in [target, label].into_iter().flatten() {
            text.push('|');
            text.push_str(part);
        }
        Self { text: text.chars().take(Self::CHARS_MAX).collect(), is_labelled: label.is_some() }
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the key has a caller's label: the number of such keys is limited.
    pub const fn is_labelled(&self) -> bool {
        self.is_labelled
    }
}

impl fmt::Display for BreakerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// How a call that failed was let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LetThrough {
    AsAny,
    /// As the one call that decides for all.
    ToDecide,
}

/// Whether calls reach the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BreakerState {
    /// They do; failures are counted.
    Closed,
    /// None does, until its time has passed.
    Open,
    /// One does, and decides.
    HalfOpen,
}

impl BreakerState {
    pub const ALL: [Self; 3] = [Self::Closed, Self::Open, Self::HalfOpen];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half_open",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

/// The state of a target that has failed. A target that works has no entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breaker {
    pub key: String,
    pub state: BreakerState,
    /// Failures in a row.
    pub failures: u32,
    /// How often the breaker has opened since the target last worked: each time it stays open for longer.
    pub opened: u32,
    /// The code of the last failure.
    pub reason: String,
    pub since: Timestamp,
    /// If open: when one call is let through. If half-open: when that call is given up.
    pub until: Timestamp,
}
