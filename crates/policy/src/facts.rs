//! The facts about a call that the gates may use: facts of ours about the caller, the action, the space and the time. The params, and the
//! space that it claims to be in, are the only facts that the caller states.

use countersign_core::action::Class;
use countersign_core::consent::purposes_of;
use countersign_core::decision::Drift;
use countersign_core::principal::{Permission, Standing};
use countersign_core::source::BUILTIN_SOURCES;
use countersign_core::{Action, Principal, Space, Timestamp, UserId};
use serde_json::Value;

/// A call, as the gates see it.
#[derive(Clone, Copy, Debug)]
pub struct CallFacts<'a> {
    pub principal: &'a Principal,
    pub action: &'a Action,
    /// The space in which the call is made.
    pub space: &'a Space,
    pub params: &'a Value,
    /// The space in which the caller claims to act, by id or by name; `None` if it names none.
    pub claimed_space: Option<&'a str>,
    /// The role and the strictest band of the person who acts, or for whom the principal acts.
    pub standing: Standing,
    pub now: Timestamp,
    /// The purposes of the consents that are in force now.
    pub consents: &'a [String],
    pub drift: Drift,
    /// The labels that say where the params and the session's content came from.
    pub labels: &'a [String],
    /// Whether this action may reach from this space into the space that its params name.
    pub cross_space_listed: bool,
    /// The approval that was given. If there is one, the call is judged with it and with no other.
    pub approval: Option<&'a Approval>,
    /// The approval that people could still give; `None` where nobody could. If it would lift a denial, the gate asks for a person instead
    /// of denying.
    pub obtainable: Option<&'a Approval>,
}

/// A person's approval of a call, given or possible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approval {
    /// The person who gave it, or everyone who could.
    pub by: Vec<UserId>,
    pub expires: Timestamp,
}

/// Whether the params of a call name another space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The params name no space, or the one in which the call is made.
    Here,
    Elsewhere,
    /// The params name something that is no space id, or the caller claims to be in another space. It cannot be listed.
    Unknown,
}

impl CallFacts<'_> {
    pub(crate) fn reach(&self) -> Reach {
        if self.claimed_space.is_some_and(|named| named != self.space.id.as_str() && named != self.space.name) {
            return Reach::Unknown;
        }
        match self.params.get("space_id") {
            None | Some(Value::Null) => Reach::Here,
            Some(Value::String(named)) if named == self.space.id.as_str() => Reach::Here,
            Some(Value::String(_)) => Reach::Elsewhere,
            Some(Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => Reach::Unknown,
        }
    }

    /// Whether the space asks for a consent to it: it is of class HIGH, by its action or because it reaches into another space, and does more
    /// than read.
    pub(crate) fn needs_consent(&self) -> bool {
        let crosses = self.reach() != Reach::Here && self.action.tier.class() != Class::Read;
        self.space.asks_consent && (crosses || self.action.needs_consent())
    }

    /// The consent of the person behind it to this action, or to all of its source.
    pub(crate) fn consent(&self) -> Option<&String> {
        let purposes = purposes_of(&self.action.id);
        self.consents.iter().find(|given| purposes.contains(given))
    }

    /// Whether the principal may invoke, and also the person it acts for: an agent or a service cannot do what that person may not do.
    pub(crate) fn may_invoke(&self) -> bool {
        self.principal.may(Permission::Invoke) && self.standing.role.is_none_or(|role| role.may(Permission::Invoke))
    }

    /// The permissions the action requires: those that the principal holds by the built-in rules, and those it does not.
    pub(crate) fn requirements(&self) -> (Vec<&String>, Vec<&String>) {
        let may_invoke = self.may_invoke();
        self.action.requires.iter().partition(|permission| may_invoke && is_builtin(permission))
    }

    /// The permissions the action requires that the person behind the principal holds by the built-in rules.
    pub(crate) fn held_by_owner(&self) -> Vec<&String> {
        let may_invoke = self.standing.role.is_some_and(|role| role.may(Permission::Invoke));
        self.action.requires.iter().filter(|permission| may_invoke && is_builtin(permission)).collect()
    }
}

/// A principal that may invoke holds every permission of the built-in actions, and no other.
fn is_builtin(permission: &str) -> bool {
    permission.split_once('.').is_some_and(|(source, name)| BUILTIN_SOURCES.contains(&source) && !name.is_empty())
}
