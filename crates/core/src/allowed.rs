//! What an operator allows the sources of every org, while the server runs. The file of settings fixes more of it.

use serde::{Deserialize, Serialize};

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

crate::words!(AllowedList { Hosts = "hosts", Networks = "networks", Commands = "commands" });
