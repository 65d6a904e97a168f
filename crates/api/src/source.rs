//! Sources that admins add, on the wire: MCP servers elsewhere, and programs in the jail that speak MCP.

use crate::allowed::AllowedCommand;
use countersign_core::decision::Drift;
use countersign_core::{Mode, Tier, Timestamp};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// A source to be added. It has one of `url`, `command` and `package`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSourceRequest {
    /// The first part of the ids of its actions. It stays what it is.
    pub name: String,
    /// The address of an MCP server, over streamable HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// A program that speaks MCP over its stdin and stdout. It is one of those that the operator allows, word by word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// What the program may use, if an operator adds it and allows it with the source: both or neither. Its `command` is that of the source, which
    /// need not be given twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow: Option<AllowedCommand>,
    /// The name of an installed package that has an MCP server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
    /// The environment of the program.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<VariableRequest>,
    /// The name or the id of the connection whose credential its requests carry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<String>,
    /// What people read; its name when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The tier of an action about which nothing else is known; R3 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_tier: Option<Tier>,
    /// Whether the server is believed when it says of a tool that it only reads. Its warnings are always believed.
    #[serde(default)]
    pub trust_hints: bool,
    /// Names or ids of the spaces whose calls may use it; all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spaces: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list_timeout_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_timeout_ms: Option<u64>,
    /// A tier R2 is meant although no action of an MCP server can be rolled back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub accept_irreversible: bool,
}

/// A variable in the environment of a program. It has a `value` or a `secret`, never both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VariableRequest {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The name of a secret, whose value is read each time the program is started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// A change to a source; what is absent stays as it is. Null removes what a source need not have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EditSourceRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "said")]
    #[schema(value_type = Option<Tier>)]
    pub default_tier: Option<Option<Tier>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust_hints: Option<bool>,
    /// Replaces the spaces that were set before; null: all.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "said")]
    #[schema(value_type = Option<Vec<String>>)]
    pub spaces: Option<Option<Vec<String>>>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "said")]
    #[schema(value_type = Option<String>)]
    pub connection: Option<Option<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list_timeout_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_timeout_ms: Option<u64>,
    /// Tiers by the name of the tool. A tool that is not named keeps its tier; null removes what was set.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, Option<String>>)]
    pub tiers: BTreeMap<String, Option<Tier>>,
    /// A tier R2 is meant although no action of an MCP server can be rolled back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub accept_irreversible: bool,
    /// The version that the change is meant for. If it is no longer the present one, nothing is changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<i64>,
}

/// A source that an admin added, with what it listed last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AddedSourceView {
    pub id: String,
    pub title: String,
    /// `http`, `program` or `package`.
    pub kind: String,
    pub url: Option<String>,
    pub command: Option<Vec<String>>,
    /// The name of the package whose MCP server it is.
    pub package: Option<String>,
    pub env: Vec<VariableView>,
    pub connection: Option<SourceConnectionView>,
    pub default_tier: Option<Tier>,
    pub trust_hints: bool,
    /// Tiers that an admin set, by the name of the tool.
    pub tiers: BTreeMap<String, Tier>,
    /// The ids of the spaces whose calls may use it; null: all.
    pub spaces: Option<Vec<String>>,
    pub list_timeout_ms: u64,
    pub call_timeout_ms: u64,
    /// 1 at first, and 1 more with every change.
    pub version: i64,
    /// Whether its kill switch is on.
    pub paused: bool,
    pub added_by: String,
    pub added_at: Timestamp,
    pub changed_by: String,
    pub changed_at: Timestamp,
    /// A source that was removed stays readable, for the receipts of its calls.
    pub removed_at: Option<Timestamp>,
    pub harvest: HarvestView,
    /// The program, since it was first started by this server; null for a source that is none.
    pub program: Option<SourceProgramView>,
}

/// What a program said beside its messages, and how it ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SourceProgramView {
    /// How it ended, such as `ended with code 1`; null while it runs.
    pub ended: Option<String>,
    /// What to do about it, if its last lines say that; of a program with a network, also what it did not reach last.
    pub hint: Option<String>,
    /// The last lines of its stderr, without the secrets that it was given.
    pub stderr: Vec<String>,
}

/// A variable of a program. The value of a secret is never shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VariableView {
    pub name: String,
    pub value: Option<String>,
    /// The name of the secret that has the value.
    pub secret: Option<String>,
}

/// The connection of a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SourceConnectionView {
    pub id: String,
    pub name: String,
}

/// What a source offered when it was last asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HarvestView {
    /// When it last answered; null if it never did.
    pub listed_at: Option<Timestamp>,
    /// Whether it did not answer since, so that its actions are those of an earlier listing.
    pub is_stale: bool,
    /// Why it did not answer.
    pub error: Option<String>,
    /// The revision of MCP that it speaks.
    pub protocol: Option<String>,
    pub actions: Vec<SourceActionView>,
    /// The tools that are no actions.
    pub left_out: Vec<LeftOutView>,
}

/// An action of a source, and what happens to a call of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SourceActionView {
    pub id: String,
    pub title: String,
    pub tier: Tier,
    /// Why it has this tier: `override`, `protocol` (it is no tool, but a request of MCP that reads), `destructive_hint`, `read_only_hint`,
    /// `untrusted_hint` (the server says that it only reads, and is not believed), `default`, `unknown` or `name`.
    pub because: String,
    /// The mode it has in a green space.
    pub mode: Mode,
    pub drift: Drift,
}

/// A tool that is no action, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LeftOutView {
    /// Null if it has no name that could be read.
    pub tool: Option<String>,
    pub why: String,
}

/// What a source answered when it was tried. Nothing is kept of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SourceTestView {
    /// The revision of MCP that it speaks.
    pub protocol: Option<String>,
    pub actions: u64,
    pub left_out: u64,
    pub took_ms: u64,
    /// What went wrong; null if it answered.
    pub error: Option<SourceErrorView>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SourceErrorView {
    pub code: String,
    pub message: String,
}

/// Marks definitions of a source as reviewed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SourceReviewRequest {
    /// The actions to review, at least one.
    pub actions: Vec<ReviewedActionRequest>,
    /// Ignores later changes that are wording only.
    #[serde(default)]
    pub ignore_wording: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReviewedActionRequest {
    pub action: String,
    /// The digest of the whole definition that was shown; when it is not the action's, nothing is reviewed.
    pub textual: String,
}

/// The actions that were reviewed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SourceReviewView {
    pub reviewed: Vec<String>,
}

/// Tells what is null from what is absent.
fn said<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_null_is_removed_and_what_is_absent_stays() {
        let written = json!({ "default_tier": null, "connection": "github", "tiers": { "merge": "R4", "look": null } });
        let request: EditSourceRequest = serde_json::from_value(written.clone()).unwrap();
        assert_eq!((request.default_tier, &request.spaces), (Some(None), &None));
        assert_eq!(serde_json::to_value(&request).unwrap(), written);
    }
}
