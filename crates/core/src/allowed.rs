//! What an operator allows the sources of every org, while the server runs. The file of settings fixes more of it.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The lists that an operator can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AllowedList {
    /// The hosts of MCP servers, connections and channels.
    Hosts,
    /// Networks that are not public, and may be reached all the same.
    Networks,
    /// The programs that may be MCP servers.
    Commands,
}

impl AllowedList {
    pub const ALL: [Self; 3] = [Self::Hosts, Self::Networks, Self::Commands];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hosts => "hosts",
            Self::Networks => "networks",
            Self::Commands => "commands",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|list| list.as_str() == text)
    }
}

impl fmt::Display for AllowedList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
