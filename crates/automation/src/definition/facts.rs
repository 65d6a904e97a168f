//! What a definition is checked against: the actions and events of one space, as its creator sees them.

use countersign_core::Mode;
use countersign_core::action::{Action, Class, Effect, Repeatability};
use countersign_core::nearest::nearest;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// By id.
    pub actions: BTreeMap<String, ActionFacts>,
    pub event_types: BTreeSet<String>,
    /// The automation's own id; absent before it is first saved.
    pub automation_id: Option<String>,
    /// The actions that automations of this space have used.
    pub used_actions: BTreeSet<String>,
    /// The queues that the operator has declared.
    pub queues: BTreeSet<String>,
}

#[derive(Clone, Debug)]
pub struct ActionFacts {
    pub params_schema: Value,
    pub class: Class,
    pub repeatability: Repeatability,
    /// For the creator of the automation.
    pub mode: Mode,
    pub effects: Vec<Effect>,
    pub timeout_seconds: u64,
    /// How long 95 of 100 calls took; absent without history.
    pub p95_ms: Option<u64>,
}

impl ActionFacts {
    /// What the action's own definition says. History is set beside it.
    pub fn new(action: &Action, mode: Mode) -> Self {
        Self {
            params_schema: action.params_schema.clone(),
            class: action.tier.class(),
            repeatability: action.repeatability,
            mode,
            effects: action.effects.clone(),
            timeout_seconds: action.timeout_ms.div_ceil(1_000),
            p95_ms: None,
        }
    }

    /// Calling it twice is as good as calling it once, so a call whose outcome nobody saw may be made again.
    pub(super) fn is_repeatable(&self) -> bool {
        self.class == Class::Read || self.repeatability == Repeatability::Repeatable
    }
}

/// What to try instead of a name that does not exist.
pub(super) fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>, otherwise: impl Into<String>) -> String {
    let near: Vec<_> = nearest(name, known).into_iter().map(|near| format!("`{near}`")).collect();
    if near.is_empty() { otherwise.into() } else { format!("did you mean {}?", near.join(" or ")) }
}
