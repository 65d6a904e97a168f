//! Rules on the wire: modes, grants, kill switches, reviews.

use crate::finding::CaughtView;
use crate::invocation::GrantScopeName;
use countersign_core::breaker::{Breaker, BreakerState};
use countersign_core::changed_file::FileChange;
use countersign_core::decision::Drift;
use countersign_core::grant::GrantStateName;
use countersign_core::price::Price;
use countersign_core::switch::Stop;
use countersign_core::{Mode, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// Sets the org's mode for one action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetModeRequest {
    pub mode: Mode,
    /// If true, an automation can make the mode stricter, but not looser.
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
    pub mode: Mode,
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
    /// How many pending calls this ended, because no approval fits them any more. Null if not all could be looked at.
    pub voided: Option<u64>,
}

/// What a change of modes got as its version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ModeChangeResponse {
    pub action: String,
    /// Null if the row was removed; the inferred mode then applies again.
    pub mode: Option<Mode>,
    pub version: i64,
    /// How many pending calls this ended, because no approval fits them any more. Null if not all could be looked at.
    pub voided: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ModeView {
    /// `org`, or `automation:<id>`.
    pub scope: String,
    pub action: String,
    pub mode: Mode,
    pub locked: bool,
    pub version: i64,
    pub set_by: String,
    pub set_at: Timestamp,
}

/// One change of a mode, as it is signed into the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ModeVersionView {
    /// Grows over all rules of the org.
    pub version: i64,
    /// `org`, or `automation:<id>`.
    pub scope: String,
    pub action: String,
    /// Null when the row was removed.
    pub mode: Option<Mode>,
    pub locked: bool,
    pub changed_by: String,
    pub changed_at: Timestamp,
}

/// What a call of an action costs, in dollars: each call, or with `per` each unit that its result counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PriceTerms {
    /// Dollars as text, with six decimals at most.
    #[schema(example = "0.002")]
    pub usd: String,
    /// The field of the result whose units are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "result.usage.units")]
    pub per: Option<String>,
    /// With `per`: as many units are reserved before a call in a run, and counted for a call whose result does not say how many there were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "1000")]
    pub at_most: Option<String>,
}

impl From<&Price> for PriceTerms {
    fn from(price: &Price) -> Self {
        let (per, at_most) = price.unit.as_ref().map(|unit| (unit.field.to_string(), unit.at_most.to_string())).unzip();
        Self { usd: price.usd.to_string(), per, at_most }
    }
}

/// What a change of a price got as its version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PriceChangeResponse {
    pub action: String,
    /// Null if it was removed: calls of the action cost nothing.
    pub price: Option<PriceTerms>,
    pub version: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PriceView {
    pub action: String,
    pub price: PriceTerms,
    /// Receipts name the price by it. It grows over all rules of the org.
    pub version: i64,
    pub set_by: String,
    pub set_at: Timestamp,
}

/// A grant to be given by a person, or asked for by an agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
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
    /// Only calls made in this space, by its id or its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space_id: Option<String>,
    /// JSON Schema that the params must fit besides the action's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<BTreeMap<String, Value>>)]
    pub condition: Option<Value>,
    /// Calls it is good for; without it, any number until it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls_max: Option<u32>,
    /// An older name of `calls_max`; one of them, not both.
    #[serde(default, rename = "maxCalls", skip_serializing_if = "Option::is_none")]
    #[schema(deprecated)]
    pub max_calls: Option<u32>,
    /// How much of a param its calls may add up to in a window; without it, any amount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sum_max: Option<SumMaxRequest>,
    /// Such as `30m`, `2h` or `7d`; 24 hours when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<String>,
    /// Why; shown to whoever answers it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A bound on the sum of one param over the calls of a grant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SumMaxRequest {
    /// The JSON pointer to the param. A call without an amount there is not covered.
    #[schema(example = "/amount")]
    pub of: String,
    /// A decimal as text, with six decimals at most.
    #[schema(example = "500")]
    pub max: String,
    /// The window that ends with each call, such as `24h` or `7d`.
    #[schema(example = "24h")]
    pub per: String,
}

/// A bound on the sum of one param over the calls of a grant, and how much of it is taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SumMaxView {
    /// The JSON pointer to the param.
    pub of: String,
    /// A decimal as text.
    pub max: String,
    pub per_seconds: u64,
    /// What its calls took in the window that ends now.
    pub spent: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GrantView {
    pub id: String,
    pub state: GrantStateName,
    pub covers: String,
    /// `session:…`, `automation:…` or `org`.
    pub scope: String,
    pub space_id: Option<String>,
    #[schema(value_type = Option<BTreeMap<String, Value>>)]
    pub condition: Option<Value>,
    pub calls_max: Option<u32>,
    pub calls_used: u32,
    /// How much of a param its calls may add up to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sum_max: Option<SumMaxView>,
    pub reason: Option<String>,
    pub requested_by: Option<String>,
    /// What the session is called that requested it or that it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_title: Option<String>,
    pub given_by: Option<String>,
    pub given_at: Option<Timestamp>,
    /// Everybody it was given by: it replaces that many approvals.
    #[serde(default)]
    pub givers: Vec<String>,
    /// The approval it came with.
    pub invocation_id: Option<String>,
    pub ended_by: Option<String>,
    pub ended_at: Option<Timestamp>,
    /// How long it lasts from the moment it is given.
    pub lifetime_seconds: u64,
    /// When it ends; of a request, until when it can be answered.
    pub expires_at: Timestamp,
    pub created_at: Timestamp,
    /// The source that it covers, in the words of an older contract. This member and the next two are told where grants are of a session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub integration: Option<String>,
    /// The name of the action in its source, or `*`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// What `calls_max` is.
    #[serde(default, rename = "maxCalls", skip_serializing_if = "Option::is_none")]
    pub max_calls: Option<u32>,
}

/// A grant for the calls of one session or of the whole org, in the words of an older contract: an integration is a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionGrantRequest {
    /// The source, such as `files`, or `*` for all of them.
    #[schema(example = "files")]
    pub integration: String,
    /// The name of the action in its source, such as `write_text`, or `*` for all of them.
    #[schema(example = "write_text")]
    pub action: String,
    /// `session` or `org`; `session` when absent.
    #[serde(default)]
    pub scope: GrantScopeName,
    /// Calls it is good for; without it, any number until it expires.
    #[serde(default, rename = "maxCalls", skip_serializing_if = "Option::is_none")]
    pub max_calls: Option<u32>,
    /// How much of a param its calls may add up to in a window; without it, any amount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sum_max: Option<SumMaxRequest>,
    /// Such as `30m`, `2h` or `7d`; 24 hours when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<String>,
    /// Why; shown to whoever answers it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Turns a kill switch on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SwitchOnRequest {
    /// `org`, `space:<id>`, `session:<id>`, `source:<slug>` or `action:<id>`.
    #[schema(example = "source:http")]
    pub scope: String,
    #[serde(default)]
    pub stop: Stop,
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
    /// Pending invocations whose time to expire it paused, or resumed.
    pub clocks: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SwitchView {
    pub scope: String,
    pub stop: Stop,
    pub reason: String,
    pub set_by: String,
    pub set_at: Timestamp,
}

/// Marks an action's definition as reviewed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReviewRequest {
    /// The digest of the whole definition that was shown; when it is not the action's, nothing is reviewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub textual: Option<String>,
    /// Ignores later changes that are wording only.
    #[serde(default)]
    pub ignore_wording: bool,
}

/// What was reviewed of an action, and what it is now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReviewView {
    pub action: String,
    /// Null when nobody has reviewed it and nobody has to.
    pub drift: Option<Drift>,
    pub reviewed_by: Option<String>,
    pub reviewed_at: Option<Timestamp>,
    pub ignores_wording: bool,
    /// Digests of the definition as it is now; null when the action is gone.
    pub structural: Option<String>,
    pub textual: Option<String>,
    /// When another definition than the reviewed one was first called.
    pub drifted_at: Option<Timestamp>,
    /// Safety findings in the definition: hidden text, instructions, or an imitation of another action.
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
    pub change: FileChange,
    /// By line; null where the file is not text.
    pub diff: Option<String>,
    pub added_lines: u64,
    pub removed_lines: u64,
    /// The diff is longer than what is shown of it.
    pub diff_truncated: bool,
}

/// What a change of a definition is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WeightName {
    /// Words, defaults and examples.
    Textual,
    /// What the action takes or returns.
    Structural,
    /// What the action may do.
    Risk,
}

/// One difference between the reviewed definition and the one there is now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DefinitionChange {
    /// RFC 6901, into the definition.
    pub pointer: String,
    /// A sentence, such as "`merge` now takes `bypass_checks`, optional boolean".
    pub summary: String,
    pub weight: WeightName,
    /// One short line; invisible characters are shown.
    pub before: Option<String>,
    pub after: Option<String>,
}

/// A target that has failed since it last worked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BreakerView {
    /// The action, and what it acts on.
    pub key: String,
    pub state: BreakerState,
    /// In a row.
    pub failures: u32,
    /// The code of the last failure.
    pub reason: String,
    /// Since when it fails.
    pub since: Timestamp,
    /// When one call may try it again.
    pub until: Option<Timestamp>,
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
            state: breaker.state,
            failures: breaker.failures,
            reason: breaker.reason.clone(),
            since: breaker.since,
            until: (breaker.state != BreakerState::Closed).then_some(breaker.until),
        }
    }
}
