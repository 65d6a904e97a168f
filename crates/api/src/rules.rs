//! Rules on the wire: modes, grants, kill switches, reviews.

use crate::gates::CaughtView;
use crate::invocation::GrantScopeName;
use countersign_core::Mode;
use countersign_core::breaker::{Breaker, BreakerState};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use utoipa::ToSchema;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModeName {
    Allow,
    RequireApproval,
    Deny,
}

impl From<ModeName> for Mode {
    fn from(name: ModeName) -> Self {
        match name {
            ModeName::Allow => Self::Allow,
            ModeName::RequireApproval => Self::RequireApproval,
            ModeName::Deny => Self::Deny,
        }
    }
}

impl From<Mode> for ModeName {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Allow => Self::Allow,
            Mode::RequireApproval => Self::RequireApproval,
            Mode::Deny => Self::Deny,
        }
    }
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

/// Every mode that is set, for the org and for automations, as one file: all of them, and no others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ModesFile {
    pub modes: Vec<ModeLine>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ModeLine {
    pub action: String,
    /// For this automation alone; the org's own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub automation: Option<String>,
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
    /// Pending calls whose approval would run nothing any more.
    #[serde(default)]
    pub voided: u64,
}

/// What a change of modes got as its version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ModeChangeResponse {
    pub action: String,
    /// Null when the row was removed and the inferred mode holds again.
    pub mode: Option<ModeName>,
    pub version: i64,
    /// Pending calls whose approval would run nothing any more.
    #[serde(default)]
    pub voided: u64,
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

/// One change of a mode, as it is signed into the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ModeVersionView {
    /// Grows over all rules of the org.
    pub version: i64,
    /// `org`, or `automation:<id>`.
    pub scope: String,
    pub action: String,
    /// Null when the row was removed, and what stands below it held again.
    pub mode: Option<ModeName>,
    pub locked: bool,
    pub changed_by: String,
    pub changed_at: String,
}

/// A grant to be given by a person, or asked for by an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewGrantRequest {
    /// `files.write_text`, `files.*` or `*`.
    #[schema(example = "files.write_text")]
    pub covers: String,
    #[serde(default)]
    pub scope: GrantScopeName,
    /// Whose calls, with scope `session`. An agent asks for its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Whose calls, with scope `automation`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub automation_id: Option<String>,
    /// Only calls made in this space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space_id: Option<String>,
    /// JSON Schema that the params must fit besides the action's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub condition: Option<Value>,
    /// Calls it is good for; without it, any number until it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls_max: Option<u32>,
    /// An older name of `calls_max`; one of them, not both.
    #[serde(default, rename = "maxCalls", skip_serializing_if = "Option::is_none")]
    #[schema(deprecated)]
    pub max_calls: Option<u32>,
    /// Such as `30m`, `2h` or `7d`; 24 hours when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<String>,
    /// Why, in the words of who asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GrantView {
    pub id: String,
    /// `requested`, `active`, `refused`, `revoked`, `expired` or `used_up`.
    pub state: String,
    pub covers: String,
    /// `session:…`, `automation:…` or `org`.
    pub scope: String,
    pub space_id: Option<String>,
    #[schema(value_type = Option<Object>)]
    pub condition: Option<Value>,
    pub calls_max: Option<u32>,
    pub calls_used: u32,
    pub reason: Option<String>,
    pub requested_by: Option<String>,
    /// What the session is called that requested it or that it is for, where the grant is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_title: Option<String>,
    pub given_by: Option<String>,
    pub given_at: Option<String>,
    /// Everybody it was given by: it stands in for as many people.
    #[serde(default)]
    pub givers: Vec<String>,
    /// The approval it came with.
    pub invocation_id: Option<String>,
    pub ended_by: Option<String>,
    pub ended_at: Option<String>,
    pub expires_at: String,
    pub created_at: String,
}

/// How much a kill switch stops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StopName {
    #[default]
    Everything,
    /// What a call would change may still be asked.
    ExceptDryRuns,
}

/// Turns a kill switch on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SwitchOnRequest {
    /// `org`, `space:<id>`, `session:<id>`, `source:<slug>` or `action:<id>`.
    #[schema(example = "source:http")]
    pub scope: String,
    #[serde(default)]
    pub stop: StopName,
    pub reason: String,
}

/// Turns a kill switch off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SwitchOffRequest {
    pub scope: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SwitchChangedResponse {
    pub scope: String,
    pub on: bool,
    /// Pending invocations whose clock it stopped, or started again.
    pub clocks: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SwitchView {
    pub scope: String,
    pub stop: StopName,
    pub reason: String,
    pub set_by: String,
    pub set_at: String,
}

/// Says that one stands for an action's definition as it is now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReviewRequest {
    /// The digest of the whole definition that was shown; when it is not the action's, nothing is reviewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub textual: Option<String>,
    /// Lets later changes of words alone pass.
    #[serde(default)]
    pub ignore_wording: bool,
}

/// What was reviewed of an action, and what it is now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReviewView {
    pub action: String,
    /// `none`, `textual` or `structural`; null when nobody has reviewed it.
    pub drift: Option<String>,
    pub reviewed_by: Option<String>,
    pub reviewed_at: Option<String>,
    pub ignores_wording: bool,
    /// Digests of the definition as it is now; null when the action is gone.
    pub structural: Option<String>,
    pub textual: Option<String>,
    /// When another definition than the reviewed one was first called.
    pub drifted_at: Option<String>,
    /// What a safety check finds odd in the definition as it is now: words that hide, command, or imitate another action.
    #[serde(default)]
    pub findings: Vec<CaughtView>,
    /// How the definition differs from the reviewed one.
    pub changes: Vec<DefinitionChange>,
    /// How the code of a package's action differs from the reviewed code; empty also where that code was not kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub code: Vec<CodeChangeView>,
}

/// What became of one file of an action's code since the review.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CodeChangeView {
    /// Below the action's folder.
    pub path: String,
    /// `created`, `changed` or `removed`.
    pub change: Cow<'static, str>,
    /// By line; null where the file is not text.
    pub diff: Option<String>,
    pub added_lines: u64,
    pub removed_lines: u64,
    /// The diff is longer than what is shown of it.
    pub diff_truncated: bool,
}

/// One difference between the reviewed definition and the one there is now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DefinitionChange {
    /// RFC 6901, into the definition.
    pub pointer: String,
    /// What a person reads, such as `description changed`.
    pub summary: String,
    /// `structural`, `textual` or `risk`.
    pub weight: String,
    /// One short line in which everything is visible.
    pub before: Option<String>,
    pub after: Option<String>,
}

/// A target that has failed since it last worked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BreakerView {
    /// The action, and what it acts on.
    pub key: String,
    /// `closed` (failures are counted), `open` (nothing is let through) or `half_open` (one call decides).
    pub state: String,
    /// In a row.
    pub failures: u32,
    /// The code of the last failure.
    pub reason: String,
    /// Since when it fails.
    pub since: String,
    /// When one call is let through.
    pub until: Option<String>,
}

/// Lets calls through to a target again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CloseBreakerRequest {
    pub key: String,
}

impl From<&Breaker> for BreakerView {
    fn from(breaker: &Breaker) -> Self {
        Self {
            key: breaker.key.clone(),
            state: breaker.state.as_str().to_owned(),
            failures: breaker.failures,
            reason: breaker.reason.clone(),
            since: breaker.since.to_string(),
            until: (breaker.state != BreakerState::Closed).then(|| breaker.until.to_string()),
        }
    }
}
