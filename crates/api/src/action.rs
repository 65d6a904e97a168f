//! Actions and sources on the wire.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// What a session may invoke, source by source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AvailableResponse {
    pub sources: Vec<SourceView>,
}

/// One source with its actions, or the reason it has none to show.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SourceView {
    pub id: String,
    pub title: String,
    pub actions: Vec<ActionView>,
    /// Why the source could not be listed; the others are listed all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// One action, with the mode it would have for this session now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ActionView {
    pub id: String,
    pub title: String,
    pub description: String,
    pub version: String,
    pub tier: String,
    pub class: String,
    pub mode: String,
    pub mode_source: String,
    /// `none`, `textual` or `structural`: how it differs from what was reviewed.
    pub drift: String,
    #[schema(value_type = Object)]
    pub params_schema: Value,
    #[schema(value_type = Object)]
    pub result_schema: Value,
    /// `no_effect`, `reversible` or `not_reversible`.
    pub reversibility: String,
    /// How long after it the effect can be taken back; without it, for as long as the installation lives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reversible_seconds: Option<u64>,
    /// What is looked at after the effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<String>,
    /// Whom its code may ask over the network.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// What it does to the world: `filesystem_read`, `filesystem_write`, `network_call` or `device_notification`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<String>,
    /// `in_process`, `default` or `high_isolation`: the isolation it runs in.
    #[serde(default)]
    pub profile: String,
    /// Digest of the code it runs, where that is a package's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package_sha256: Option<String>,
    /// Why the mode is stricter than what was set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tightened: Vec<String>,
    pub dry_run_supported: bool,
    pub timeout_ms: u64,
}

/// How to use a source, in markdown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GuideResponse {
    pub source: String,
    pub guide: String,
}
