//! Packages on the wire.

use countersign_core::action::Profile;
use countersign_core::decision::Drift;
use countersign_core::{Tier, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Every file of a package, by its path in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InstallPackageRequest {
    pub files: BTreeMap<String, PackageFileBody>,
    /// A person has read the findings. Without it, a package with findings is refused.
    #[serde(default)]
    pub accept_findings: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PackageFileBody {
    /// Its bytes, in base64.
    #[serde(deserialize_with = "long_text")]
    pub base64: String,
    #[serde(default)]
    pub executable: bool,
}

/// An installed package.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PackageView {
    pub name: String,
    pub actions: Vec<PackageActionView>,
    /// Its MCP server, which can be added as a source; null if it has none.
    #[serde(default)]
    pub mcp_server: Option<PackageServerView>,
    /// Why the package cannot be used; null if it can.
    pub error: Option<String>,
    /// Whether this server runs the code of packages.
    pub code_allowed: bool,
    /// How many calls of the package run code at the same time; further calls wait for their turn.
    pub runs_at_once: u32,
    /// Safety findings in the definitions of its actions.
    pub findings: Vec<PackageFindingView>,
    /// Digest of all its files. A list leaves out this field and those below it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Its folder on the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// Who installed it; absent if its folder was put there by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub installed_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub installed_at: Option<Timestamp>,
    /// Its files are no longer those that were installed.
    #[serde(default)]
    pub edited: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<PackageFileView>,
}

/// The MCP server of a package, as its `mcp.json` describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PackageServerView {
    pub command: Vec<String>,
    /// The variables that a source may set.
    pub env: Vec<String>,
    /// The hosts that it may reach.
    pub hosts: Vec<String>,
    /// Whether it sees the workspace, read-only.
    pub sees_workspace: bool,
    pub memory_mb: u64,
    /// Why it cannot run on this server now; null if it can.
    #[serde(default)]
    pub cannot_run: Option<String>,
}

/// One file of an installed package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PackageFileView {
    pub path: String,
    pub bytes: u64,
    pub sha256: String,
    pub executable: bool,
}

/// What the scan of definitions found in one action of a package. It never quotes what was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PackageFindingView {
    pub action: String,
    /// The file that says it, and where in it (RFC 6901).
    pub file: String,
    pub pointer: String,
    pub rule: String,
    pub message: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PackageActionView {
    pub id: String,
    pub tier: Tier,
    pub title: String,
    /// Digest of the action's folder: other code is another definition.
    pub package_sha256: Option<String>,
    /// The isolation its code runs in.
    pub profile: Profile,
    /// How it differs from what was reviewed; null if nobody reviewed it.
    #[serde(default)]
    pub drift: Option<Drift>,
    /// Why the action cannot run on this server now; null if it can.
    #[serde(default)]
    pub cannot_run: Option<String>,
    /// Its `action.json`. A list leaves it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<BTreeMap<String, Value>>)]
    pub manifest: Option<Value>,
}
