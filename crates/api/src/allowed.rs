//! What operators allow the sources of every org, on the wire.

use countersign_core::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A program that may be an MCP server, and what it may use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AllowedCommand {
    /// The program and its arguments. A source names exactly these words.
    pub command: Vec<String>,
    /// Folders of the server's machine that it sees, read-only, at the same path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub readable: Vec<String>,
    /// The variables that a source may set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// The hosts that it may reach. None: it has no network.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Whether it sees the workspace that spaces without members share, read-only.
    #[serde(default, skip_serializing_if = "is_false")]
    pub workspace: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u64>,
    /// How many files it may have open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u64>,
    /// The size of a folder that it may write and that is kept; without it there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder_mb: Option<u64>,
    /// How long it may take to start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_seconds: Option<u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// Something to be allowed: an `entry` of the lists of hosts and networks, or a `command`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewAllowedRequest {
    /// A host such as `api.example.com`, `*.example.com` or `http://127.0.0.1:3001`, or a network such as `127.0.0.1/32`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<AllowedCommand>,
}

/// Something that is allowed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AllowedView {
    /// `hosts`, `networks` or `commands`.
    pub list: String,
    /// The host or the network; of a command, its id.
    pub entry: String,
    /// Whether the server's file of settings says so. Then it is changed there alone.
    pub fixed: bool,
    pub command: Option<AllowedCommand>,
    /// Of a command: the sources of this org that run it.
    pub used_by: Vec<String>,
    /// Grows over all rules of the org; null if the file of settings says so, as `set_by` and `set_at` are.
    pub version: Option<i64>,
    pub set_by: Option<String>,
    pub set_at: Option<Timestamp>,
}

/// A command as somebody would type it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandPlanRequest {
    #[schema(example = json!(["npx", "-y", "@modelcontextprotocol/server-memory"]))]
    pub command: Vec<String>,
}

/// What a command would run. The packages that it names are installed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CommandPlanView {
    /// The words that run, with the versions that were installed.
    pub command: Vec<String>,
    /// The files and folders of the server's machine that the program sees, read-only.
    pub readable: Vec<String>,
    /// SHA-256 of what runs.
    pub digest: String,
    /// What to know before it is allowed.
    pub notes: Vec<String>,
}
