//! The digests that identify a definition, the rules that a call met, and an approval. Each is SHA-256 over canonical JSON, so anyone who
//! has the archived text can compute it again.

mod binding;
mod identity;
pub(crate) mod structure;

pub use binding::{Bound, Mismatch, binding, mismatch};
pub use identity::{Identity, identity};

use crate::Rules;
use countersign_core::action::{Effect, Profile, Reversibility};
use countersign_core::artifact::ArtifactSpec;
use countersign_core::decision::Lock;
use countersign_core::ledger::ModeRow;
use countersign_core::ports::sources::McpServer;
use countersign_core::{Action, ActionId, Band, ConnectionId, Digest, Mode, Tier, json};
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::fmt;

/// Covers what a call does and needs, without descriptive texts: the id, both schemas, the code, the server, the hosts it contacts, its risk
/// and its confinement.
pub fn structural(action: &Action) -> Digest {
    sha256(&structural_body(action))
}

/// Covers the whole definition with its texts, because agents obey descriptions.
pub fn textual(action: &Action) -> Digest {
    sha256(&textual_body(action))
}

/// Covers which server performs an action, and for which account.
pub fn server(server: &McpServer, connection: Option<&ConnectionId>) -> Digest {
    #[derive(Debug, Serialize)]
    struct Used<'a> {
        connection: Option<&'a ConnectionId>,
        server: &'a McpServer,
    }
    sha256(&canonical(&Used { connection, server }))
}

/// Covers the rules that a request for this action depends on, and no others.
pub fn policy_slice(rules: &Rules) -> Digest {
    sha256(&policy_slice_body(rules))
}

/// Covers the org's own policies that concern an action.
pub fn policies(slice: &str) -> Digest {
    sha256(slice)
}

/// The text that `structural` covers. It is archived for later verification of a receipt.
pub fn structural_body(action: &Action) -> String {
    #[derive(Debug, Serialize)]
    struct Structure<'a> {
        id: &'a ActionId,
        params_schema: Value,
        result_schema: Value,
        tier: Tier,
        effects: &'a [Effect],
        requires: &'a [String],
        hosts: &'a [String],
        checks: &'a [String],
        exempt_from_redaction: &'a [String],
        reversibility: Reversibility,
        profile: Profile,
        package_sha256: Option<Digest>,
        #[serde(skip_serializing_if = "Option::is_none")]
        server_sha256: Option<Digest>,
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        produces_artifacts: &'a [ArtifactSpec],
    }
    canonical(&Structure {
        id: &action.id,
        params_schema: structure::of(&action.params_schema),
        result_schema: structure::of(&action.result_schema),
        tier: action.tier,
        effects: &action.effects,
        requires: &action.requires,
        hosts: &action.hosts,
        checks: &action.checks,
        exempt_from_redaction: &action.exempt_from_redaction,
        reversibility: action.reversibility,
        profile: action.profile,
        package_sha256: action.package_sha256,
        server_sha256: action.server_sha256,
        produces_artifacts: &action.produces_artifacts,
    })
}

/// The text that `textual` covers.
pub fn textual_body(action: &Action) -> String {
    canonical(action)
}

/// The text that `policy_slice` covers.
pub fn policy_slice_body(rules: &Rules) -> String {
    canonical(&Slice::of(rules))
}

/// The version of the built-in rules. Changed whenever the gates or the cascade decide differently than before.
const BUILTIN_RULES: &str = "builtin/v3";

#[derive(Debug, Serialize)]
struct Slice {
    automation: Option<Row>,
    band: Band,
    org: Option<Row>,
    #[serde(skip_serializing_if = "Option::is_none")]
    policies: Option<Digest>,
    rules: &'static str,
}

#[derive(Debug, Serialize)]
struct Row {
    lock: Lock,
    mode: Mode,
    version: String,
}

impl Slice {
    fn of(rules: &Rules) -> Self {
        // The version is stored as text: canonical numbers are exact only up to 2^53.
        let row = |row: ModeRow| Row { lock: row.lock, mode: row.mode, version: row.version.to_string() };
        Self {
            automation: rules.modes.automation.map(row),
            band: rules.band,
            org: rules.modes.org.map(row),
            policies: rules.policies,
            rules: BUILTIN_RULES,
        }
    }
}

/// Covers a canonical text.
pub fn of_text(text: &str) -> Digest {
    sha256(text)
}

fn sha256(text: &str) -> Digest {
    Digest::new(Sha256::digest(text).into())
}

fn canonical<T: Serialize + fmt::Debug>(value: &T) -> String {
    // A value without a canonical form gets a fallback text of its own. A fallback shared by all such values would give two of them the
    // same digest.
    json::canonical(value).unwrap_or_else(|_| format!("uncanonical {value:?}"))
}
