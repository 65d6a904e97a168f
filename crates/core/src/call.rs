//! What a caller says about one call, besides the action.

use crate::effect::{Bounds, Scope};
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};
use std::collections::BTreeMap;

/// One call as its caller requests it. In a stored invocation the params are redacted and truncated, and the texts contain no secrets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// As read by `json::parse_strict`.
    pub params: Value,
    /// The caller's reason. It is shown and recorded, and decides nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The files and folders that the caller restricts the call to.
    #[serde(default, skip_serializing_if = "Scope::is_unbounded")]
    pub scope: Scope,
    /// Limits of the caller that are stricter than ours.
    #[serde(default, skip_serializing_if = "Bounds::is_empty")]
    pub bounds: Bounds,
    /// Check commands to run after the effect; each must succeed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
    /// What the caller claims about time, device and actor. It is recorded, and decides nothing, but that a claim to be in another space
    /// denies the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed: Option<Claimed>,
    /// Where params came from, as the caller says, by JSON pointer. It can only make a decision stricter.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub provenance: BTreeMap<String, Label>,
    /// Set if an older contract asked for the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub older: Option<Older>,
}

/// What the caller claims about the call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claimed {
    pub time: Option<String>,
    pub device: Option<String>,
    pub actor: Option<String>,
    /// Whom the caller claims to act for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The caller's own id of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_id: Option<String>,
    /// Another space than the session's in which the caller claims to act: the one claim that is evaluated, and the call is denied for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<String>,
    /// How sure the caller claims to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Number>,
    /// How the caller would revert the call. Countersign does not follow this plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback_plan: Option<Value>,
    /// The fields of an older contract's envelope that nobody here knows, by their names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub more: Option<Value>,
}

/// What an older contract asked with, where other calls have no place for it. Its answer repeats it at any time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Older {
    /// The action as the caller named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// The space as the caller named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<String>,
    /// The idempotency key as it was sent; a dry run reserves none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// The params as the receipt of that contract tells them: digests. Set when the call is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Value>,
    /// Whether a kill switch had its dry run made instead of the effect. Set while it is performed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_rehearsed: bool,
    /// Set for a plan, which is refused if it lacks what its risk asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Planned>,
}

/// What a plan says about its own safety.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    /// Whether the plan asks to be verified, if it says so or the opposite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_verified: Option<bool>,
    /// Members of its scope that nobody here knows. They may be limits, and these could not be kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown_limits: Vec<String>,
}

/// Where a param came from, from the most to the least trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Label {
    User,
    ActionOutput,
    Web,
}

crate::words!(Label { User = "user", ActionOutput = "action_output", Web = "web" });

impl From<Value> for Call {
    fn from(params: Value) -> Self {
        Self::new(params)
    }
}

impl Call {
    /// A call with nothing but its params.
    pub fn new(params: Value) -> Self {
        Self {
            params,
            reason: None,
            scope: Scope::default(),
            bounds: Bounds::default(),
            commands: Vec::new(),
            claimed: None,
            provenance: BTreeMap::new(),
            older: None,
        }
    }

    /// The space in which the caller claims to act, if it is not its session's.
    pub fn claimed_space(&self) -> Option<&str> {
        self.claimed.as_ref()?.space.as_deref()
    }

    /// The labels of the params. `user` is left out: a caller's word can only make a decision stricter.
    pub fn labels(&self) -> impl Iterator<Item = String> {
        self.provenance.values().filter(|label| **label > Label::User).map(|label| label.as_str().to_owned())
    }
}
