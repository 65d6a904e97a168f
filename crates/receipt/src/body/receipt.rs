//! The two entries of an invocation: the intent before its effect, and the receipt at its end.

use super::is_default;
use countersign_core::decision::{Gate, Verdict};
pub use countersign_core::effect::Remedy;
use countersign_core::effect::{Purpose, SettledBy};
use countersign_core::invocation::DeniedBy;
use countersign_core::{
    ActionId, Amount, BatchId, ConnectionId, Decision, Digest, GrantId, IntentId, InvocationId, PrincipalId, ReceiptId, SessionId, SpaceId,
    Status, Tier, Timestamp, UserId,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// An effect about to start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IntentBody {
    pub action: ActionId,
    pub approval: Option<ApprovalBody>,
    /// The person behind whoever asked by name for the run that the call is of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_by: Option<UserId>,
    /// 1 for the first attempt.
    pub attempt: u32,
    /// The batch that the invocation is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<BatchId>,
    /// The connection whose credential the source's requests carry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_id: Option<ConnectionId>,
    pub decision: Decision,
    pub definition: DefinitionDigests,
    /// HMAC of the data needed to revert the effect, which was saved before the effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Digest>,
    /// The grant that replaced an approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<GrantId>,
    pub idempotency_key: Option<Digest>,
    pub intent_id: IntentId,
    pub invocation_id: InvocationId,
    /// It needed approval and had none, because its space only observes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub observed: bool,
    /// The person for whom an automation acts: who saved the version that the run is of. Absent for any other principal, whose owner the log
    /// tells, and in entries from when an automation acted for whoever had saved its last version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<UserId>,
    pub params: Digest,
    pub principal: PrincipalId,
    pub profile: String,
    /// The purpose of the attempt, if it is not the effect itself.
    #[serde(default, skip_serializing_if = "is_default")]
    pub purpose: Purpose,
    pub raw: Digest,
    /// The invocation whose effect is about to be reverted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverses: Option<InvocationId>,
    pub space: SpaceId,
    /// What it takes of the sum that its grant bounds: the one param that is in the log, because whoever verifies it must be able to add up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spends: Option<Amount>,
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
    /// Attempts at the effect; 0 if there was none.
    pub attempts: u32,
    /// The batch that the invocation is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<BatchId>,
    /// HMAC of what the caller claimed about itself and the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed: Option<Digest>,
    /// The connection whose credential the source's requests carry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_id: Option<ConnectionId>,
    pub cost: Cost,
    pub decision: Decision,
    pub definition: DefinitionDigests,
    pub denied_by: Option<DeniedBy>,
    pub dry_run: bool,
    /// The change an approver made to the params.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edit: Option<EditBody>,
    /// A stable code, never a message: a message may quote data that must not be kept.
    pub error: Option<String>,
    pub evidence: Option<Digest>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<GrantId>,
    /// Whether the use of the grant was given back, because the call was not sent to its source.
    #[serde(default, skip_serializing_if = "is_default")]
    pub grant_returned: bool,
    pub idempotency_key: Option<Digest>,
    pub invocation_id: InvocationId,
    /// It needed approval and had none, because its space only observes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub observed: bool,
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
    /// How many values of each kind were redacted in the params before the source saw them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub redacted: BTreeMap<String, u32>,
    pub repair: Option<Remedy>,
    pub replayed: bool,
    /// The invocation whose effect this one reverted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverses: Option<InvocationId>,
    pub reward: Reward,
    pub rollback: Option<Remedy>,
    pub sandbox: Sandbox,
    pub session: SessionId,
    /// The person who settled a call in doubt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<SettledBy>,
    pub space: SpaceId,
    pub status: Status,
    /// An earlier receipt that this one corrects.
    pub supersedes: Option<ReceiptId>,
    pub tier: Tier,
    pub timing: Timing,
    pub trace_id: String,
    pub verification: Option<Verification>,
}

/// SHA-256 of the definition's structure, and of its whole text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DefinitionDigests {
    pub structural: Digest,
    pub textual: Digest,
}

/// Who approved the call, and the digest of exactly what they approved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalBody {
    pub approvers: Vec<PrincipalId>,
    pub binding: Digest,
}

/// An approver's change of the params: what was requested, and where it differs from what ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EditBody {
    pub by: PrincipalId,
    /// RFC 6901 pointers.
    pub changed: Vec<String>,
    /// HMAC of the params as they were requested.
    pub proposed: Digest,
}

/// The verdict of one gate, and the rules that led to it.
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
    /// The protections that were missing and that the operator allowed to be missing; absent if nothing ran in a sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub degraded: Option<Vec<String>>,
    /// The hosts that the sandboxed code sent requests to; absent if there were none.
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
    /// For a call that ran inside the server, or that did not run.
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

/// The number of requests to one host. It says nothing about their content or the answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EgressBody {
    /// The host as the definition names it. `other` stands for all hosts that the definition does not name.
    pub host: String,
    /// Requests that were let out, whether or not they were answered.
    pub made: u64,
    pub refused: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outputs {
    pub bytes: u64,
    pub digest: Digest,
    /// Whether the output was dangerous, and was therefore kept for review and not returned to the caller.
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
    /// Absent if the effect ran inside the server, where no honest figure exists.
    pub cpu_ms: Option<u64>,
    /// What the host's processors used while the effect was made, in microjoules; absent where the host does not tell it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy_uj: Option<u64>,
    /// The version of the price that it was charged by; absent if its action had none when it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<i64>,
    /// What it did cost by that price, in dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd: Option<Amount>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timing {
    pub ended_at: Timestamp,
    pub exec_ms: u64,
    pub queued_ms: u64,
    /// Absent if nothing was started.
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
