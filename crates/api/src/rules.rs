//! Modes on the wire.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModeName {
    Allow,
    RequireApproval,
    Deny,
}

/// Sets the org's mode for one action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetModeRequest {
    pub mode: ModeName,
    /// A locked mode can only be tightened by automations.
    #[serde(default)]
    pub locked: bool,
}

/// What a change of modes got as its version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ModeChangeResponse {
    pub action: String,
    /// Null when the row was removed and the inferred mode holds again.
    pub mode: Option<ModeName>,
    pub version: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ModeView {
    /// `org`, or `automation:<id>`.
    pub scope: String,
    pub action: String,
    pub mode: ModeName,
    pub locked: bool,
    pub version: i64,
    pub set_by: String,
    pub set_at: String,
}
