//! What the entries say. Every body is written in full, absent values as `null`, and holds no float:
//! its canonical text is what receipts promise for years. A field that came later is left out where it says nothing, so that
//! what was signed before it still reads.
//! Fields stand in canonical order, so that writing one in canonical form has nothing to sort.

mod batch;

pub use batch::{BatchBody, PartBody, UndoneBody};

use crate::{Error, key::PublicKey};
use countersign_core::decision::{Drift, Gate, Lock, Verdict};
pub use countersign_core::effect::Remedy;
use countersign_core::effect::{Purpose, SettledBy};
use countersign_core::grant::{Covers, GrantScope, GrantTerms, GrantedDefinition};
use countersign_core::invocation::DeniedBy;
use countersign_core::ledger::Wording;
use countersign_core::principal::Role;
use countersign_core::quarantine::QuarantineState;
use countersign_core::session::{Quorum, SelfApproval, SpaceRedaction};
use countersign_core::switch::{Stop, SwitchScope};
use countersign_core::{
    ActionId, Band, BatchId, CanaryId, ConsentId, Decision, Digest, GrantId, IntentId, InvocationId, Mode, PrincipalId, ReceiptId,
    SessionId, SpaceId, Status, Tier, Timestamp, UserId, json,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;

/// A public key as base64 of its 32 bytes; text, because a verifier must also be able to read a bad one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeyText(String);

impl KeyText {
    pub fn new(key: &PublicKey) -> Self {
        Self(key.to_base64())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn read(&self) -> Result<PublicKey, Error> {
        PublicKey::from_base64(&self.0)
    }
}

/// The keys of the log. At seq 0 it is signed by the receipt key it announces; later by the key it replaces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyBody {
    pub checkpoint_key: KeyText,
    pub receipt_key: KeyText,
    /// The id of the receipt key that signed until here; absent at seq 0.
    pub replaces: Option<String>,
    /// Ids of keys that must never sign again.
    pub revoked: Vec<String>,
    /// The seq from which `receipt_key` signs: `0` at seq 0, later the seq after this entry.
    pub starts_at_seq: String,
}

/// A change of one mode row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModeBody {
    pub action: ActionId,
    pub by: PrincipalId,
    pub lock: Lock,
    /// Absent when the row was removed.
    pub mode: Option<Mode>,
    /// `org` or `automation:aut_…`.
    pub scope: String,
    pub version: i64,
}

/// A space as it is from here on. The one that is made with its org has none until it changes: it is green.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpaceBody {
    pub band: Band,
    pub by: PrincipalId,
    pub name: String,
    #[serde(default, skip_serializing_if = "is_default")]
    pub quorum: Quorum,
    #[serde(default, skip_serializing_if = "is_default")]
    pub redaction: SpaceRedaction,
    pub self_approval: SelfApproval,
    pub space: SpaceId,
    pub version: i64,
}

/// A change of a rule that is neither a mode nor a space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleBody {
    /// Absent where Countersign itself noticed something.
    pub by: Option<PrincipalId>,
    pub change: RuleChange,
    pub version: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "rule", rename_all = "snake_case")]
pub enum RuleChange {
    /// A grant from here on.
    GrantGiven {
        grant: GrantId,
        terms: Terms,
        expires_at: Timestamp,
        /// Everybody it was given by.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        givers: Vec<UserId>,
        invocation_id: Option<InvocationId>,
        requested_by: Option<PrincipalId>,
    },
    GrantRevoked {
        grant: GrantId,
    },
    /// Nothing this covers is executed from here on.
    SwitchedOn {
        scope: SwitchScope,
        stop: Stop,
        reason: String,
    },
    SwitchedOff {
        scope: SwitchScope,
        reason: String,
    },
    /// A person looked at this definition and stands for it.
    Reviewed {
        action: ActionId,
        structural: Digest,
        textual: Digest,
        wording: Wording,
    },
    /// The definition is no longer the reviewed one.
    Drifted {
        action: ActionId,
        drift: Drift,
        structural: Digest,
        textual: Digest,
    },
    /// The org's policies from here on, each gate's by the SHA-256 of its text.
    PoliciesSet {
        digests: BTreeMap<Gate, Digest>,
    },
    ConsentGiven {
        consent: ConsentId,
        purpose: String,
        space: Option<SpaceId>,
        expires_at: Option<Timestamp>,
    },
    ConsentWithdrawn {
        consent: ConsentId,
    },
    /// An action may reach from one space into another.
    CrossingAllowed {
        action: ActionId,
        from: SpaceId,
        to: SpaceId,
    },
    CrossingForbidden {
        action: ActionId,
        from: SpaceId,
        to: SpaceId,
    },
    /// The most dangerous band a person, and whoever acts for them, may act in.
    BandLimited {
        user: UserId,
        max_band: Band,
    },
    /// A person's standing in the org from here on: what they, and whoever acts for them, may do.
    RoleChanged {
        user: UserId,
        role: Role,
    },
    /// A text was laid out to be stolen; what it is stands nowhere in the log.
    CanaryAdded {
        canary: CanaryId,
    },
    CanaryRemoved {
        canary: CanaryId,
    },
    /// What a person made of a quarantined call.
    QuarantineSettled {
        invocation_id: InvocationId,
        state: QuarantineState,
        /// HMAC of what it held.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        digest: Option<Digest>,
        reason: String,
        released_as: Option<InvocationId>,
    },
}

/// What a grant allows, without the words of its condition: those may be sensitive, and have a digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Terms {
    pub calls_max: Option<u32>,
    pub condition: Option<Digest>,
    pub covers: Covers,
    pub definition: Option<GrantedDefinition>,
    pub scope: GrantScope,
    pub space: Option<SpaceId>,
}

impl Terms {
    pub fn of(terms: &GrantTerms) -> Self {
        let condition = terms.condition.as_ref().map(|condition| {
            let text = json::canonical(condition).unwrap_or_else(|_| condition.to_string());
            Digest::new(Sha256::digest(text).into())
        });
        Self {
            calls_max: terms.calls_max,
            condition,
            covers: terms.covers.clone(),
            definition: terms.definition,
            scope: terms.scope.clone(),
            space: terms.space.clone(),
        }
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// An effect about to start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IntentBody {
    pub action: ActionId,
    pub approval: Option<ApprovalBody>,
    /// 1 for the first try.
    pub attempt: u32,
    /// The batch it is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<BatchId>,
    pub decision: Decision,
    pub definition: DefinitionDigests,
    /// HMAC of what undoes the effect, kept before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Digest>,
    /// What stood in for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<GrantId>,
    pub idempotency_key: Option<Digest>,
    pub intent_id: IntentId,
    pub invocation_id: InvocationId,
    pub params: Digest,
    pub principal: PrincipalId,
    pub profile: String,
    /// What the attempt is for, where it is not the effect itself.
    #[serde(default, skip_serializing_if = "is_default")]
    pub purpose: Purpose,
    pub raw: Digest,
    /// The invocation whose effect is about to be taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverses: Option<InvocationId>,
    pub space: SpaceId,
    pub tier: Tier,
    pub trace_id: String,
}

/// The end of an invocation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReceiptBody {
    pub action: ActionId,
    pub approval: Option<ApprovalBody>,
    /// Digests of stored outputs.
    pub artifacts: Vec<String>,
    /// Tries of the effect; 0 when nothing was tried.
    pub attempts: u32,
    /// The batch it is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<BatchId>,
    /// HMAC of what the caller said about itself and the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed: Option<Digest>,
    pub cost: Cost,
    pub decision: Decision,
    pub definition: DefinitionDigests,
    pub denied_by: Option<DeniedBy>,
    pub dry_run: bool,
    /// How an approver changed the params.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edit: Option<EditBody>,
    /// A stable code, never a message: messages may quote what must not be kept.
    pub error: Option<String>,
    pub evidence: Option<Digest>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<GrantId>,
    /// The call never left, so its use of the grant was given back.
    #[serde(default, skip_serializing_if = "is_default")]
    pub grant_returned: bool,
    pub idempotency_key: Option<Digest>,
    pub invocation_id: InvocationId,
    pub outputs: Option<Outputs>,
    pub owner: Option<UserId>,
    pub params: Digest,
    /// SHA-256 of the org's own policies that concern the action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policies: Option<Digest>,
    pub policy: BTreeMap<Gate, PolicyVerdict>,
    pub policy_slice: Digest,
    pub principal: PrincipalId,
    pub raw: Digest,
    pub receipt_id: ReceiptId,
    /// How much of each kind was taken out of the params before the source saw them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub redacted: BTreeMap<String, u32>,
    pub repair: Option<Remedy>,
    pub replayed: bool,
    /// The invocation whose effect this one took back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverses: Option<InvocationId>,
    pub reward: Reward,
    pub rollback: Option<Remedy>,
    pub sandbox: Sandbox,
    pub session: SessionId,
    /// Who said how it ended, where nobody else could know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<SettledBy>,
    pub space: SpaceId,
    pub status: Status,
    /// An earlier receipt this one corrects.
    pub supersedes: Option<ReceiptId>,
    pub tier: Tier,
    pub timing: Timing,
    pub trace_id: String,
    pub verification: Option<Verification>,
}

/// SHA-256 of the definition's structure and of its whole text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DefinitionDigests {
    pub structural: Digest,
    pub textual: Digest,
}

/// Who said yes, and to exactly what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalBody {
    pub approvers: Vec<PrincipalId>,
    pub binding: Digest,
}

/// An approver's change of the params: what was asked for, and where it differs from what ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EditBody {
    pub by: PrincipalId,
    /// RFC 6901 pointers.
    pub changed: Vec<String>,
    /// HMAC of the params as they were asked for.
    pub proposed: Digest,
}

/// What one gate said and the rules that made it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyVerdict {
    pub determining: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
    pub verdict: Verdict,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sandbox {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup_backend: Option<String>,
    /// What the operator allowed to be missing, and was; absent where nothing ran in a sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub degraded: Option<Vec<String>>,
    /// Whom its code asked over the network; absent where it asked nobody.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub egress: Vec<EgressBody>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub landlock_abi: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<Vec<String>>,
    pub profile: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seccomp_sha256: Option<String>,
}

impl Sandbox {
    /// Of what ran inside the server, or not at all.
    pub const fn none(profile: String) -> Self {
        Self {
            cgroup_backend: None,
            degraded: None,
            egress: Vec::new(),
            landlock_abi: None,
            namespaces: None,
            profile,
            seccomp_sha256: None,
        }
    }
}

/// Requests to one host: nothing of what was asked for, or answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EgressBody {
    /// As the definition names it; `other` stands for every host it does not name.
    pub host: String,
    /// Let out, answered or not.
    pub made: u64,
    pub refused: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outputs {
    pub bytes: u64,
    pub digest: Digest,
    /// Dangerous as it was, it is kept for review and was not handed on.
    #[serde(default, skip_serializing_if = "is_default")]
    pub withheld: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verification {
    pub checks: Vec<String>,
    pub ok: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// Absent where the effect ran inside the server and no honest figure exists.
    pub cpu_ms: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timing {
    pub ended_at: Timestamp,
    pub exec_ms: u64,
    pub queued_ms: u64,
    /// Absent when nothing was started.
    pub started_at: Option<Timestamp>,
    pub total_ms: u64,
}

/// The reward and its parts, in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reward {
    pub cost: i64,
    pub latency: i64,
    pub quality: i64,
    pub scalar_millionths: i64,
    pub success: i64,
}

impl KeyBody {
    pub fn to_canonical(&self) -> Result<String, Error> {
        to_canonical(self)
    }

    pub fn read(body: &Value) -> Result<Self, Error> {
        read(body)
    }
}

impl ModeBody {
    pub fn to_canonical(&self) -> Result<String, Error> {
        to_canonical(self)
    }

    pub fn read(body: &Value) -> Result<Self, Error> {
        read(body)
    }
}

impl SpaceBody {
    pub fn to_canonical(&self) -> Result<String, Error> {
        to_canonical(self)
    }

    pub fn read(body: &Value) -> Result<Self, Error> {
        read(body)
    }
}

impl RuleBody {
    pub fn to_canonical(&self) -> Result<String, Error> {
        to_canonical(self)
    }

    pub fn read(body: &Value) -> Result<Self, Error> {
        read(body)
    }
}

impl IntentBody {
    pub fn to_canonical(&self) -> Result<String, Error> {
        to_canonical(self)
    }

    pub fn read(body: &Value) -> Result<Self, Error> {
        read(body)
    }
}

impl ReceiptBody {
    pub fn to_canonical(&self) -> Result<String, Error> {
        to_canonical(self)
    }

    pub fn read(body: &Value) -> Result<Self, Error> {
        read(body)
    }
}

fn to_canonical(body: &impl Serialize) -> Result<String, Error> {
    json::canonical_exact(body).map_err(|error| Error::NotStrict { what: "body", message: error.to_string() })
}

/// Reads a body and checks that it is written exactly as this version would write it, so nothing in it goes unread.
fn read<T: Serialize + DeserializeOwned>(body: &Value) -> Result<T, Error> {
    let unknown = |message: String| Error::UnknownShape { what: "body", message };
    let typed = T::deserialize(body).map_err(|error| unknown(error.to_string()))?;
    let again = serde_json::to_value(&typed).map_err(|error| unknown(error.to_string()))?;
    if &again != body {
        return Err(unknown("a field is missing, unknown, or written in another way".to_owned()));
    }
    Ok(typed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Kind;
    use crate::story::{Story, at};
    use serde_json::json;

    #[test]
    fn every_body_reads_back_as_it_was_written() {
        for draft in Story::new().drafts {
            let text = json::canonical(&draft.body).unwrap();
            let again = match draft.kind {
                Kind::Key => KeyBody::read(&draft.body).and_then(|body| body.to_canonical()),
                Kind::Mode => ModeBody::read(&draft.body).and_then(|body| body.to_canonical()),
                Kind::Space => SpaceBody::read(&draft.body).and_then(|body| body.to_canonical()),
                Kind::Rule => RuleBody::read(&draft.body).and_then(|body| body.to_canonical()),
                Kind::Intent => IntentBody::read(&draft.body).and_then(|body| body.to_canonical()),
                Kind::Receipt => ReceiptBody::read(&draft.body).and_then(|body| body.to_canonical()),
                Kind::Batch => BatchBody::read(&draft.body).and_then(|body| body.to_canonical()),
            };
            assert_eq!(again, Ok(text));
        }
    }

    #[test]
    fn a_receipt_is_written_in_full_without_a_float() {
        let receipt = Story::new().receipt(at::READ);
        let value: Value = serde_json::from_str(&receipt.to_canonical().unwrap()).unwrap();
        let keys: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
        let expected = "action approval artifacts attempts cost decision definition denied_by dry_run error evidence idempotency_key \
                        invocation_id outputs owner params policy policy_slice principal raw receipt_id repair replayed reward rollback \
                        sandbox session space status supersedes tier timing trace_id verification";
        assert_eq!(keys, expected.split_whitespace().collect::<Vec<_>>());
        assert_eq!(value["policy"]["rbac"], json!({ "determining": ["builtin.invoke"], "verdict": "ok" }));
        let gates: Vec<_> = value["policy"].as_object().unwrap().keys().collect();
        assert_eq!(gates, ["abac", "consent", "rbac", "redaction", "safety", "space"]);
        fn has_float(value: &Value) -> bool {
            match value {
                Value::Number(number) => number.is_f64(),
                Value::Array(items) => items.iter().any(has_float),
                Value::Object(members) => members.values().any(has_float),
                Value::Null | Value::Bool(_) | Value::String(_) => false,
            }
        }
        assert!(!has_float(&value));
    }

    #[test]
    fn what_this_version_would_not_have_written_is_refused() {
        let good = Story::new().drafts.swap_remove(at::WRITE as usize).body;
        assert!(ReceiptBody::read(&good).is_ok());
        let spoil = |change: fn(&mut Value)| {
            let mut body = good.clone();
            change(&mut body);
            assert_ne!(body, good);
            let found = ReceiptBody::read(&body);
            assert!(matches!(found, Err(Error::UnknownShape { .. })), "{found:?}");
        };
        spoil(|body| body["extra"] = json!(1));
        spoil(|body| body["decision"]["extra"] = json!(1));
        spoil(|body| body["timing"]["extra"] = json!(1));
        spoil(|body| body["policy"]["rbac"]["extra"] = json!(1));
        spoil(|body| body["policy"]["luck"] = json!({ "verdict": "ok", "determining": [] }));
        spoil(|body| drop(body.as_object_mut().unwrap().shift_remove("error")));
        spoil(|body| body["cost"]["cpu_ms"] = json!(3.5));
        spoil(|body| body["cost"]["cpu_ms"] = json!(-3));
        spoil(|body| body["timing"]["ended_at"] = json!("2025-11-15T00:00:03Z"));
        spoil(|body| body["status"] = json!("done"));
    }

    #[test]
    fn an_integer_that_signing_would_change_is_refused() {
        let mut receipt = Story::new().receipt(at::READ);
        receipt.cost.cpu_ms = Some((1 << 53) - 1);
        assert!(receipt.to_canonical().is_ok());
        for cpu_ms in [1 << 53, (1 << 53) + 1, u64::MAX] {
            receipt.cost.cpu_ms = Some(cpu_ms);
            assert!(matches!(receipt.to_canonical(), Err(Error::NotStrict { .. })), "{cpu_ms}");
        }
    }
}
