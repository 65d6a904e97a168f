//! What a token asks for at the MCP door, where the URL says nothing.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Which tools a client gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum McpTools {
    /// One for each action.
    Catalogue,
    /// Three that find and call actions.
    Meta,
}

crate::words!(McpTools { Catalogue = "catalogue", Meta = "meta" });

/// What the clients of a token get over MCP. It gives no right, so it is not part of what the token is signed for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct McpWishes {
    /// Absent: by how many actions there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<McpTools>,
    /// How long a client waits for an answer; absent: by its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold_seconds: Option<u64>,
}
