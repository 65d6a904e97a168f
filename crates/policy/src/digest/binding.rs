//! The facts an approval is bound to. They are collected when a call becomes pending, and again from live facts when it is dispatched.

use countersign_core::effect::Scope;
use countersign_core::{ActionId, Digest, OrgId, PrincipalId, SessionId, SpaceId, Tier, Timestamp, UserId};
use serde::{Deserialize, Serialize};

/// Every fact an approval covers. Stored as JSON beside a pending invocation. The approval is void when any of them changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bound {
    pub org: OrgId,
    pub space: SpaceId,
    pub session: SessionId,
    pub principal: PrincipalId,
    pub owner: Option<UserId>,
    pub automation_run: Option<String>,
    pub source: String,
    pub connection: Option<String>,
    #[serde(with = "as_text")]
    pub connection_version: Option<i64>,
    pub action: ActionId,
    pub tier: Tier,
    /// HMAC of the canonical params after redaction and edits.
    pub params: Digest,
    /// HMAC of the canonical params as sent.
    pub raw: Digest,
    /// The outer limit the caller sets on where the call may act.
    #[serde(default, skip_serializing_if = "Scope::is_unbounded")]
    pub scope: Scope,
    /// The commands that must succeed after the call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
    pub structural: Digest,
    pub textual: Digest,
    pub policy_slice: Digest,
    #[serde(with = "as_text")]
    pub modes_version: Option<i64>,
    pub profile: String,
    pub nonce: Digest,
    pub expires_at: Timestamp,
}

/// The digest of every fact: this is what a person approves.
pub fn binding(bound: &Bound) -> Digest {
    super::sha256(&format!("countersign/binding/v1{}", super::canonical(bound)))
}

/// The group of facts that differs. The API names the conflict after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mismatch {
    /// The params, the scope or the commands that verify the call are not those that were approved.
    Args,
    /// The definition of the action has changed.
    Definition,
    /// The rules or the tier have changed.
    Policy,
    /// Who acts, in which space and session, through which source and connection, or until when.
    Tuple,
}

impl Mismatch {
    pub const ALL: [Self; 4] = [Self::Args, Self::Definition, Self::Policy, Self::Tuple];

    /// The stable code in the receipt and in the answer to the caller.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Args => "args_mismatch",
            Self::Definition => "definition_mismatch",
            Self::Policy => "policy_mismatch",
            Self::Tuple => "tuple_mismatch",
        }
    }
}

/// The first group, in the order of `Mismatch::ALL`, in which the two differ; `None` only if they are equal.
pub fn mismatch(held: &Bound, live: &Bound) -> Option<Mismatch> {
    let ((held_args, held_definition, held_policy, held_tuple), live) = (groups(held), groups(live));
    let (live_args, live_definition, live_policy, live_tuple) = live;
    if held_args != live_args {
        Some(Mismatch::Args)
    } else if held_definition != live_definition {
        Some(Mismatch::Definition)
    } else if held_policy != live_policy {
        Some(Mismatch::Policy)
    } else if held_tuple != live_tuple {
        Some(Mismatch::Tuple)
    } else {
        None
    }
}

type Groups<'a> = (Args<'a>, [&'a Digest; 2], (&'a Digest, Option<i64>, Tier), Tuple<'a>);
type Args<'a> = ([&'a Digest; 2], &'a Scope, &'a [String]);

#[derive(PartialEq)]
struct Tuple<'a> {
    org: &'a OrgId,
    space: &'a SpaceId,
    session: &'a SessionId,
    principal: &'a PrincipalId,
    owner: Option<&'a UserId>,
    automation_run: Option<&'a str>,
    source: &'a str,
    connection: Option<&'a str>,
    connection_version: Option<i64>,
    action: &'a ActionId,
    profile: &'a str,
    nonce: &'a Digest,
    expires_at: Timestamp,
}

/// Destructures every field, so that a new field does not compile until it is assigned to a group.
fn groups(bound: &Bound) -> Groups<'_> {
    let Bound {
        org,
        space,
        session,
        principal,
        owner,
        automation_run,
        source,
        connection,
        connection_version,
        action,
        tier,
        params,
        raw,
        scope,
        commands,
        structural,
        textual,
        policy_slice,
        modes_version,
        profile,
        nonce,
        expires_at,
    } = bound;
    let tuple = Tuple {
        org,
        space,
        session,
        principal,
        owner: owner.as_ref(),
        automation_run: automation_run.as_deref(),
        source,
        connection: connection.as_deref(),
        connection_version: *connection_version,
        action,
        profile,
        nonce,
        expires_at: *expires_at,
    };
    (([params, raw], scope, commands), [structural, textual], (policy_slice, *modes_version, *tier), tuple)
}

/// Stores a version as text: canonical numbers are exact only up to 2^53, and two versions must never look the same.
mod as_text {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(version: &Option<i64>, serializer: S) -> Result<S::Ok, S::Error> {
        version.map(|version| version.to_string()).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| text.parse().map_err(|_| D::Error::custom(format!("`{text}` is not a version")))).transpose()
    }
}
