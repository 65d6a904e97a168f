//! The kill switch: no call that it covers is executed, pending calls are kept, and their deadlines are suspended.

use crate::{ActionId, PrincipalId, SessionId, SourceId, SpaceId, Timestamp};
use serde::{Deserialize, Serialize};
use std::fmt;
use utoipa::ToSchema;

/// What a switch stops.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SwitchScope {
    Org,
    Space(SpaceId),
    /// One session, of an agent or a person.
    Session(SessionId),
    Source(SourceId),
    Action(ActionId),
}

impl SwitchScope {
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Org => "org",
            Self::Space(_) => "space",
            Self::Session(_) => "session",
            Self::Source(_) => "source",
            Self::Action(_) => "action",
        }
    }

    /// Reads what `Display` prints.
    pub fn parse(text: &str) -> Option<Self> {
        match text.split_once(':') {
            None => (text == "org").then_some(Self::Org),
            Some(("space", id)) => SpaceId::parse(id).ok().map(Self::Space),
            Some(("session", id)) => SessionId::parse(id).ok().map(Self::Session),
            Some(("source", id)) => SourceId::parse(id).ok().map(Self::Source),
            Some(("action", id)) => ActionId::parse(id).ok().map(Self::Action),
            Some(_) => None,
        }
    }

    pub fn covers(&self, space: &SpaceId, session: &SessionId, action: &ActionId) -> bool {
        match self {
            Self::Org => true,
            Self::Space(stopped) => stopped == space,
            Self::Session(stopped) => stopped == session,
            Self::Source(stopped) => stopped.as_str() == action.source(),
            Self::Action(stopped) => stopped == action,
        }
    }
}

/// `org`, `space:spc_…`, `session:ses_…`, `source:files`, `action:files.write_text`.
impl fmt::Display for SwitchScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Org => f.write_str("org"),
            Self::Space(id) => write!(f, "space:{id}"),
            Self::Session(id) => write!(f, "session:{id}"),
            Self::Source(id) => write!(f, "source:{id}"),
            Self::Action(id) => write!(f, "action:{id}"),
        }
    }
}

impl Serialize for SwitchScope {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SwitchScope {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom(format!("`{text}` is not what a kill switch covers")))
    }
}

/// How much a switch stops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    #[default]
    Everything,
    /// Dry runs are still possible.
    ExceptDryRuns,
    /// Calls are answered with their dry run; what has none is stopped.
    AsDryRun,
}

crate::words!(Stop { Everything = "everything", ExceptDryRuns = "except_dry_runs", AsDryRun = "as_dry_run" });

impl Stop {
    /// Whether dry runs are possible while the switch is on.
    pub const fn spares_dry_runs(self) -> bool {
        match self {
            Self::Everything => false,
            Self::ExceptDryRuns | Self::AsDryRun => true,
        }
    }
}

/// A switch that is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    pub scope: SwitchScope,
    pub stop: Stop,
    pub reason: String,
    pub set_by: PrincipalId,
    pub set_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_reads_back_as_it_was_printed() {
        let at = Timestamp::from_micros(0);
        for scope in [
            SwitchScope::Org,
            SwitchScope::Space(SpaceId::new(at, [1; 10])),
            SwitchScope::Session(SessionId::new(at, [2; 10])),
            SwitchScope::Source(SourceId::parse("files").unwrap()),
            SwitchScope::Action(ActionId::parse("files.write_text").unwrap()),
        ] {
            assert_eq!(SwitchScope::parse(&scope.to_string()), Some(scope));
        }
        for bad in ["", "all", "space:", "space:x", "source:", "source:A", "action:files", "org:", "user:usr_1"] {
            assert_eq!(SwitchScope::parse(bad), None, "{bad}");
        }
    }
}
