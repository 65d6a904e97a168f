//! What the gates may know of a call: facts of ours about the caller, the action, the space and the moment.
//! Nothing in it is the caller's word, except the params.

use countersign_core::decision::Drift;
use countersign_core::principal::{Permission, Standing};
use countersign_core::{Action, Principal, Space, Timestamp, UserId};
use serde_json::Value;

/// A call, as the gates see it.
#[derive(Clone, Copy, Debug)]
pub struct CallFacts<'a> {
    pub principal: &'a Principal,
    pub action: &'a Action,
    /// Where the call is made.
    pub space: &'a Space,
    pub params: &'a Value,
    /// How far the person reaches who acts, or for whom the principal does.
    pub standing: Standing,
    pub now: Timestamp,
    /// The purposes of the consents that are live now.
    pub consents: &'a [String],
    pub drift: Drift,
    /// Where the params and the session's content came from.
    pub labels: &'a [String],
    /// Whether this action may reach from this space into the one its params name.
    pub cross_space_listed: bool,
    /// The yes that was given. Then the call is judged with it alone.
    pub approval: Option<&'a Approval>,
    /// The yes a person could still give; absent where nobody could. It turns a denial that it would lift into a question.
    pub obtainable: Option<&'a Approval>,
}

/// A person's yes to a call, given or possible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approval {
    /// Who gave it, or all who could.
    pub by: Vec<UserId>,
    pub expires: Timestamp,
}

/// The space a call's params name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// None, or the one the call is made in.
    Here,
    Elsewhere,
    /// Something that is no space, and so cannot be shown to be this one, nor be listed.
    Unknown,
}

impl CallFacts<'_> {
    pub(crate) fn reach(&self) -> Reach {
        match self.params.get("space_id") {
            None | Some(Value::Null) => Reach::Here,
            Some(Value::String(named)) if named == self.space.id.as_str() => Reach::Here,
            Some(Value::String(_)) => Reach::Elsewhere,
            Some(Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => Reach::Unknown,
        }
    }

    /// Nobody invokes through an agent or a service what they may not invoke themselves.
    pub(crate) fn may_invoke(&self) -> bool {
        self.principal.may(Permission::Invoke) && self.standing.role.is_none_or(|role| role.may(Permission::Invoke))
    }

    /// What the action requires, as the principal holds it by our own rules and as it does not.
    pub(crate) fn requirements(&self) -> (Vec<&String>, Vec<&String>) {
        let may_invoke = self.may_invoke();
        self.action.requires.iter().partition(|permission| may_invoke && is_builtin(permission))
    }

    /// What the action requires, as far as the person behind the principal holds it by our own rules.
    pub(crate) fn held_by_owner(&self) -> Vec<&String> {
        let may_invoke = self.standing.role.is_some_and(|role| role.may(Permission::Invoke));
        self.action.requires.iter().filter(|permission| may_invoke && is_builtin(permission)).collect()
    }
}

/// What the permissions of the actions we ship begin with.
const BUILTIN_PERMISSIONS: [&str; 3] = ["files.", "http.", "notify."];

/// Whoever may invoke holds every permission of the actions we ship, and no other.
fn is_builtin(permission: &str) -> bool {
    BUILTIN_PERMISSIONS.into_iter().any(|prefix| permission.strip_prefix(prefix).is_some_and(|name| !name.is_empty()))
}
