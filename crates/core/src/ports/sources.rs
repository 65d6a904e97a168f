//! The port to the sources that the admins of an org added: servers of others that speak MCP.

use super::Error;
use crate::{ConnectionId, Future, OrgId, PrincipalId, SourceId, SpaceId, Tier, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Reads the sources that were added.
pub trait AddedSources: Send + Sync {
    /// The sources of the org, by name, without those that were removed. The same `Arc` as before means that none of them has changed; a new
    /// one may say the same, so a caller compares versions.
    fn added_sources<'a>(&'a self, org: &'a OrgId) -> Future<'a, Result<Arc<Vec<AddedSource>>, Error>>;
}

/// A source as an admin set it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddedSource {
    pub id: SourceId,
    /// 1 at first, and 1 more with every change of the settings; also when a name is used again after its source was removed.
    pub version: i64,
    pub settings: SourceSettings,
    pub added_by: PrincipalId,
    pub added_at: Timestamp,
    /// Who set the present settings, or removed it.
    pub changed_by: PrincipalId,
    pub changed_at: Timestamp,
    pub removed_at: Option<Timestamp>,
}

/// Everything that an admin sets about a source. Its canonical JSON is archived with each change, and its digest is in the audit log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceSettings {
    pub title: String,
    pub server: McpServer,
    /// The connection whose credential its requests carry.
    pub connection: Option<ConnectionId>,
    /// The tier of an action about which nothing else is known.
    pub default_tier: Option<Tier>,
    pub hints: Hints,
    /// Tiers that an admin set, by the name of the tool. Nothing overrules them.
    pub tiers: BTreeMap<String, Tier>,
    /// The spaces whose calls may use it; absent: all.
    pub spaces: Option<BTreeSet<SpaceId>>,
    pub list_timeout_ms: u64,
    pub call_timeout_ms: u64,
}

/// Where an MCP server is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum McpServer {
    /// Elsewhere, over streamable HTTP.
    Http { url: String },
    /// A program in the jail, which the operator allows.
    Program { command: Vec<String>, env: Vec<Variable> },
    /// The MCP server of an installed package, in the jail.
    Package { package: SourceId, env: Vec<Variable> },
}

impl McpServer {
    pub const fn kind(&self) -> ServerKind {
        match self {
            Self::Http { .. } => ServerKind::Http,
            Self::Program { .. } => ServerKind::Program,
            Self::Package { .. } => ServerKind::Package,
        }
    }

    /// The names of the secrets that it needs.
    pub fn secrets(&self) -> BTreeSet<&str> {
        let env: &[Variable] = match self {
            Self::Http { .. } => &[],
            Self::Program { env, .. } | Self::Package { env, .. } => env,
        };
        env.iter()
            .filter_map(|variable| match &variable.value {
                VariableValue::Secret(name) => Some(name.as_str()),
                VariableValue::Value(_) => None,
            })
            .collect()
    }
}

/// Where an MCP server is, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerKind {
    Http,
    Program,
    Package,
}

/// A variable in the environment of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variable {
    pub name: String,
    #[serde(flatten)]
    pub value: VariableValue,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VariableValue {
    Value(String),
    /// The name of a secret. Its value is read each time the program is started.
    Secret(String),
}

/// Whether the promises of a server are believed, such as `readOnlyHint`. Its warnings always are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hints {
    #[default]
    Untrusted,
    Trusted,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn settings_are_read_as_they_are_written_and_nothing_else_is() {
        let written = json!({
            "title": "Files", "connection": null, "default_tier": "R3", "hints": "untrusted", "tiers": { "read_file": "R1" }, "spaces": null,
            "list_timeout_ms": 15_000, "call_timeout_ms": 30_000,
            "server": { "kind": "program", "command": ["node", "index.js"], "env": [
                { "name": "LOG_LEVEL", "value": "debug" }, { "name": "TOKEN", "secret": "files-token" }, { "name": "OTHER", "secret": "a" },
            ] },
        });
        let settings: SourceSettings = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(settings.server.kind(), ServerKind::Program);
        assert_eq!(settings.server.secrets(), BTreeSet::from(["a", "files-token"]));
        assert_eq!(serde_json::to_value(&settings).unwrap(), written);
        for (place, added) in [("", "more"), ("/server", "url"), ("/server/env/0", "secret"), ("/server/env/0", "more")] {
            let mut other = written.clone();
            other.pointer_mut(place).unwrap()[added] = json!("x");
            assert!(serde_json::from_value::<SourceSettings>(other).is_err(), "{place}: {added}");
        }
        let mut packaged = written;
        packaged["server"] = json!({ "kind": "package", "package": "crm", "env": [{ "name": "TOKEN", "secret": "crm-token" }] });
        let settings: SourceSettings = serde_json::from_value(packaged.clone()).unwrap();
        assert_eq!((settings.server.kind(), settings.server.secrets()), (ServerKind::Package, BTreeSet::from(["crm-token"])));
        assert_eq!(serde_json::to_value(&settings).unwrap(), packaged);
    }
}
