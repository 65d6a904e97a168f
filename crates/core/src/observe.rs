//! What a space that only observes notes of its calls: which of them a person would have been asked about, and what could spare them that.

use crate::{ActionId, SessionId, Tier};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A call that needed approval in a space that observes, by what could have answered instead of a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Observed {
    /// It ran. The mode `allow` of its action would have let it run, too.
    Mode,
    /// It ran. A grant would have let it run, too.
    Grant,
    /// It ran. Only a person could have approved it.
    Person,
    /// It was held: also a space that observes asks about calls of R4.
    Held,
}

crate::words!(Observed { Mode = "mode", Grant = "grant", Person = "person", Held = "held" });

impl Observed {
    /// Whether the call ran although nobody was asked.
    pub const fn ran_unasked(self) -> bool {
        match self {
            Self::Mode | Self::Grant | Self::Person => true,
            Self::Held => false,
        }
    }
}

/// How often a person would have been asked about one action of one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedFor {
    pub action: ActionId,
    /// The highest tier of these calls.
    pub tier: Tier,
    pub session: SessionId,
    /// The title of the session.
    pub title: Option<String>,
    pub observed: Observed,
    pub calls: u64,
}
