//! A grant: a standing permission that replaces approvals, with a scope, a number of calls and an expiry.

use crate::{ActionId, Amount, AutomationId, Digest, GrantId, InvocationId, PrincipalId, SessionId, SourceId, SpaceId, Timestamp, UserId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;
use utoipa::ToSchema;

/// Whose calls a grant covers. Ordered: the narrowest comes first and is used first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GrantScope {
    Session(SessionId),
    Automation(AutomationId),
    Org,
}

impl GrantScope {
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Session(_) => "session",
            Self::Automation(_) => "automation",
            Self::Org => "org",
        }
    }

    /// Reads what `Display` prints.
    pub fn parse(text: &str) -> Option<Self> {
        match text.split_once(':') {
            None => (text == "org").then_some(Self::Org),
            Some(("session", id)) => SessionId::parse(id).ok().map(Self::Session),
            Some(("automation", id)) => AutomationId::parse(id).ok().map(Self::Automation),
            Some(_) => None,
        }
    }
}

/// `session:ses_…`, `automation:aut_…`, `org`.
impl fmt::Display for GrantScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session(id) => write!(f, "session:{id}"),
            Self::Automation(id) => write!(f, "automation:{id}"),
            Self::Org => f.write_str("org"),
        }
    }
}

impl Serialize for GrantScope {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GrantScope {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom(format!("`{text}` is not the scope of a grant")))
    }
}

/// Which actions a grant covers: one source or all, and one name or all.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Covers {
    source: Option<SourceId>,
    name: Option<String>,
}

/// Stands for all sources, or all names.
const ANY: &str = "*";

impl Covers {
    /// Reads `files.write_text`, `files.*`, `*.send` and `*` (the same as `*.*`).
    pub fn parse(text: &str) -> Option<Self> {
        if text == ANY {
            return Some(Self { source: None, name: None });
        }
        let (source, name) = text.split_once('.')?;
        let source = if source == ANY { None } else { Some(SourceId::parse(source).ok()?) };
        // `x` stands for any source: only the name is checked here.
        let name = if name == ANY { None } else { Some(ActionId::parse(&format!("x.{name}")).ok()?.name().to_owned()) };
        Some(Self { source, name })
    }

    /// Only this action.
    pub fn only(action: &ActionId) -> Self {
        Self { source: SourceId::parse(action.source()).ok(), name: Some(action.name().to_owned()) }
    }

    pub fn source(&self) -> &str {
        self.source.as_ref().map_or(ANY, SourceId::as_str)
    }

    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(ANY)
    }

    /// The action, if it names exactly one.
    pub fn action(&self) -> Option<ActionId> {
        let (source, name) = (self.source.as_ref()?, self.name.as_ref()?);
        ActionId::parse(&format!("{source}.{name}")).ok()
    }

    pub fn includes(&self, action: &ActionId) -> bool {
        self.source.as_ref().is_none_or(|source| source.as_str() == action.source())
            && self.name.as_ref().is_none_or(|name| name == action.name())
    }
}

impl fmt::Display for Covers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.source(), self.name())
    }
}

impl Serialize for Covers {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Covers {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom(format!("`{text}` names no actions")))
    }
}

/// What a grant allows. An absent field sets no limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrantTerms {
    pub scope: GrantScope,
    /// Only calls made in this space.
    pub space: Option<SpaceId>,
    pub covers: Covers,
    /// JSON Schema 2020-12 that the params must fit, in addition to the action's own schema.
    pub condition: Option<Value>,
    pub calls_max: Option<u32>,
    /// How much of a param its calls may add up to in a window.
    pub sum_max: Option<SumMax>,
    /// The definition it was given for, if it covers one action. It does not cover another definition.
    pub definition: Option<GrantedDefinition>,
}

/// A bound on the sum of one param over the calls of a grant in any window of this length.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SumMax {
    pub max: Amount,
    /// RFC 6901 pointer to the param.
    pub of: String,
    pub per_seconds: u64,
}

impl SumMax {
    /// What a call with these params takes of the sum. `None` if the param is absent or names no amount: the grant does not cover such a call.
    pub fn taken_by(&self, params: &Value) -> Option<Amount> {
        Amount::of_param(params.pointer(&self.of)?)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrantedDefinition {
    pub structural: Digest,
    pub textual: Digest,
}

/// What keeps a grant from replacing an approval. Ordered: what is nearest to fitting comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NearMiss {
    /// The params do not meet its condition.
    Params,
    /// The call names no amount, or more than is left of its sum.
    Sum,
    /// The people who gave it could not approve this call.
    Givers,
    /// A policy does not accept who gave it.
    Policy,
    /// It was given for another definition.
    Definition,
    /// No grant replaces the approval of such a call.
    Call,
    UsedUp,
    Expired,
    /// It is for another space.
    Space,
    /// It is for another session or automation.
    Scope,
    /// Nobody has given it yet.
    Requested,
    Refused,
    Revoked,
}

/// Where a grant is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum GrantState {
    /// An agent has requested it; it allows nothing yet.
    Requested,
    Active,
    /// A person denied the request.
    Refused,
    Revoked,
    /// The request or the grant has passed its expiry.
    Expired,
}

crate::words!(GrantState { Requested = "requested", Active = "active", Refused = "refused", Revoked = "revoked", Expired = "expired" });

/// What is told of where a grant is in its life: a grant with no calls left is used up, though nothing ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum GrantStateName {
    /// An agent asked for it; it allows nothing yet.
    Requested,
    Active,
    Refused,
    Revoked,
    Expired,
    /// With no calls left, also if it was revoked since.
    UsedUp,
}

crate::words!(GrantStateName {
    Requested = "requested", Active = "active", Refused = "refused", Revoked = "revoked", Expired = "expired", UsedUp = "used_up",
});

/// A grant, or the request for one.
#[derive(Clone, Debug, PartialEq)]
pub struct Grant {
    pub id: GrantId,
    pub terms: GrantTerms,
    pub state: GrantState,
    pub used: u32,
    /// What its calls have taken of the sum in the window that ends now; nothing if it bounds no sum.
    pub spent: Amount,
    /// Who requested it, if an agent did.
    pub requested_by: Option<PrincipalId>,
    pub reason: Option<String>,
    /// How long the grant lasts from the moment it is given. A request stores it until then.
    pub lifetime_seconds: u64,
    pub given_by: Option<PrincipalId>,
    /// Everybody who gave it: one person, or all approvers of the call that it was given with.
    pub givers: Vec<UserId>,
    pub given_at: Option<Timestamp>,
    /// The approved call that it was given with.
    pub invocation: Option<InvocationId>,
    pub ended_by: Option<PrincipalId>,
    pub ended_at: Option<Timestamp>,
    pub expires_at: Timestamp,
    pub created_at: Timestamp,
}

impl Grant {
    /// The session that requested it, or else the one that it is for.
    pub const fn session(&self) -> Option<&SessionId> {
        match (&self.requested_by, &self.terms.scope) {
            (Some(PrincipalId::Agent(session)), _) | (_, GrantScope::Session(session)) => Some(session),
            (_, GrantScope::Automation(_) | GrantScope::Org) => None,
        }
    }

    /// Where it is in its life, as it is told. One that was used up before it was revoked allowed nothing any more: its own end is told.
    pub fn state_name(&self) -> GrantStateName {
        let is_used_up = self.terms.calls_max.is_some_and(|most| self.used >= most);
        match self.state {
            GrantState::Active | GrantState::Revoked if is_used_up => GrantStateName::UsedUp,
            GrantState::Requested => GrantStateName::Requested,
            GrantState::Active => GrantStateName::Active,
            GrantState::Refused => GrantStateName::Refused,
            GrantState::Revoked => GrantStateName::Revoked,
            GrantState::Expired => GrantStateName::Expired,
        }
    }

    /// Whether this principal gave or requested it, and so knows what it covers.
    pub fn is_by(&self, principal: &PrincipalId) -> bool {
        [&self.given_by, &self.requested_by].into_iter().flatten().any(|by| by == principal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_covered_reads_back_and_includes_what_it_says() {
        let write = ActionId::parse("files.write_text").unwrap();
        for (text, printed, includes) in [
            ("files.write_text", "files.write_text", true),
            ("files.*", "files.*", true),
            ("*.write_text", "*.write_text", true),
            ("*", "*.*", true),
            ("*.*", "*.*", true),
            ("files.delete", "files.delete", false),
            ("http.*", "http.*", false),
            ("files.write", "files.write", false),
        ] {
            let covers = Covers::parse(text).unwrap();
            assert_eq!((covers.to_string().as_str(), covers.includes(&write)), (printed, includes), "{text}");
        }
        for bad in ["", ".", "files", "files.", "**", "fi*.x", "files.wri*", "FILES.x", "*.", ".x", "files.**"] {
            assert_eq!(Covers::parse(bad), None, "{bad}");
        }
        assert_eq!(Covers::only(&write).action(), Some(write));
        assert_eq!(Covers::parse("files.*").unwrap().action(), None);
    }
}
