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

/// The org's modes as one file: all of them, and no others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ModesFile {
    pub modes: Vec<ModeLine>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ModeLine {
    pub action: String,
    pub mode: ModeName,
    #[serde(default, skip_serializing_if = "is_false")]
    pub locked: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// How many rows a file of modes changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ModesReplacedResponse {
    pub changed: u64,
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
