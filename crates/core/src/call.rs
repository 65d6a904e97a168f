//! What a caller says of one call, besides which action it is.

use crate::effect::{Bounds, Scope};
use crate::invocation::Claimed;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// A stored invocation holds it with its params redacted and bounded, and its texts without secrets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// As read by `json::parse_strict`.
    pub params: Value,
    /// Why, in the caller's words: shown and recorded, never evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Where the caller wants it to act at most.
    #[serde(default, skip_serializing_if = "Scope::is_unbounded")]
    pub scope: Scope,
    /// What the caller wants stricter than we would have it.
    #[serde(default, skip_serializing_if = "Bounds::is_empty")]
    pub bounds: Bounds,
    /// Commands the caller wants run after the effect, each of which must succeed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
    /// What the caller says about time, device and actor: recorded, never evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed: Option<Claimed>,
    /// Where the caller says params came from, by JSON pointer. It can only tighten.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub provenance: BTreeMap<String, Label>,
}

/// Where a param came from, ordered by how little it is to be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Label {
    User,
    ActionOutput,
    Web,
}

impl Label {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::ActionOutput => "action_output",
            Self::Web => "web",
        }
    }
}

impl Call {
    /// A call that says nothing but its params.
    pub fn new(params: Value) -> Self {
        Self {
            params,
            reason: None,
            scope: Scope::default(),
            bounds: Bounds::default(),
            commands: Vec::new(),
            claimed: None,
            provenance: BTreeMap::new(),
        }
    }

    /// What its params are labelled with. What the caller says can only tighten: that something came from a person is not counted.
    pub fn labels(&self) -> impl Iterator<Item = String> {
        self.provenance.values().filter(|label| **label > Label::User).map(|label| label.as_str().to_owned())
    }
}
