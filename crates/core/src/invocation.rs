//! An invocation: one request to perform one action, with everything that happens to it.

use crate::call::{Call, Claimed};
use crate::decision::{Decision, GateVerdict};
use crate::effect::{Aftermath, Purpose};
use crate::grant::{GrantScope, SumMax};
use crate::jail::Meter;
use crate::observe::Observed;
use crate::part_of::PartOf;
use crate::price::Charge;
use crate::principal::Device;
use crate::{
    ActionId, Amount, ConnectionId, Digest, GrantId, InvocationId, OrgId, PrincipalId, ReceiptId, SessionId, SpaceId, Tier, Timestamp,
    UserId,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// The status of an invocation.
///
/// `pending → approved → running → succeeded | failed | reverted`, or straight to an end: `denied`, `quarantined`,
/// `expired`, `cancelled`. `in_doubt` is neither: the effect may have happened, and nobody knows until it is reconciled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Pending,
    Approved,
    Running,
    Succeeded,
    Failed,
    Reverted,
    Denied,
    Quarantined,
    Expired,
    Cancelled,
    InDoubt,
}

crate::words!(Status {
    Pending = "pending", Approved = "approved", Running = "running", Succeeded = "succeeded", Failed = "failed", Reverted = "reverted",
    Denied = "denied", Quarantined = "quarantined", Expired = "expired", Cancelled = "cancelled", InDoubt = "in_doubt",
});

impl Status {
    /// Whether an invocation in this status has a receipt and never changes again.
    pub const fn is_final(self) -> bool {
        match self {
            Self::Succeeded | Self::Failed | Self::Reverted | Self::Denied | Self::Quarantined | Self::Expired | Self::Cancelled => true,
            Self::Pending | Self::Approved | Self::Running | Self::InDoubt => false,
        }
    }

    /// The legal changes of status. Any other change is a bug, and the store refuses it.
    pub const fn may_become(self, next: Self) -> bool {
        match self {
            Self::Pending => matches!(next, Self::Approved | Self::Denied | Self::Expired | Self::Cancelled),
            Self::Approved => matches!(next, Self::Running | Self::Denied | Self::Expired | Self::Cancelled),
            Self::Running => matches!(next, Self::Succeeded | Self::Failed | Self::Reverted | Self::InDoubt),
            Self::InDoubt => matches!(next, Self::Succeeded | Self::Failed | Self::Reverted),
            Self::Succeeded | Self::Failed | Self::Reverted | Self::Denied | Self::Quarantined | Self::Expired | Self::Cancelled => false,
        }
    }

    /// The event that announces this status.
    pub const fn event_name(self) -> &'static str {
        match self {
            Self::Pending => "invocation.held",
            Self::Approved => "invocation.approved",
            Self::Running => "invocation.started",
            Self::Succeeded => "invocation.succeeded",
            Self::Failed => "invocation.failed",
            Self::Reverted => "invocation.reverted",
            Self::Denied => "invocation.denied",
            Self::Quarantined => "invocation.quarantined",
            Self::Expired => "invocation.expired",
            Self::Cancelled => "invocation.cancelled",
            Self::InDoubt => "invocation.doubted",
        }
    }
}

/// The prefix of the idempotency keys of reverts. No caller may choose such a key.
pub const REVERT_KEY: &str = "revert:";

/// The only member of what stands for a text of which the digest is kept alone.
pub const DIGEST: &str = "_digest";
/// Stands for a text of which not even a digest is kept.
pub const NOT_KEPT: &str = "its text is not kept in this space";

/// The idempotency key for reverting this invocation, so that one effect is reverted once.
pub fn revert_key(reversed: &InvocationId) -> String {
    format!("{REVERT_KEY}{reversed}")
}

/// Who or what refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeniedBy {
    /// The mode was `deny`, or a gate denied it.
    Policy,
    /// A person denied it.
    Person,
    /// Something that the approval was bound to changed before it could be used.
    Binding,
    /// The definition changed while the call was pending.
    Drift,
}

/// What the call is to do: perform the effect, report what it would be, or revert an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Intention {
    Effect,
    DryRun,
    /// Revert the effect of an earlier invocation.
    Revert,
}

/// The digests that identify a call and the definition it was checked against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digests {
    /// HMAC of the canonical params as sent.
    pub raw: Digest,
    /// HMAC of the canonical params after redaction and edits, as the source receives them.
    pub params: Digest,
    /// SHA-256 of the definition's structure.
    pub structural: Digest,
    /// SHA-256 of the whole definition.
    pub textual: Digest,
}

/// What an approval is bound to: the digest of every fact of the call, and its expiry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    pub digest: Digest,
    pub nonce: Digest,
    pub expires_at: Timestamp,
    /// The facts behind the digest, so that a mismatch can say which of them changed. Ids and digests only.
    pub facts: Value,
}

/// A person's answer, as stored with the invocation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    pub by: PrincipalId,
    pub at: Timestamp,
    pub reason: Option<String>,
    /// What an approval permits beyond this one call.
    pub beyond: Beyond,
}

/// What an approval permits beyond the one call. It takes effect with the call's intent, in the same transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Beyond {
    /// Nothing.
    #[default]
    Once,
    /// The action is allowed from now on: a mode row.
    Always,
    /// More calls like this one, up to a limit: a grant.
    Grant(GrantOffer),
}

/// The grant that an approver gives with the approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantOffer {
    pub scope: GrantScope,
    pub calls_max: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sum_max: Option<SumMax>,
    pub lifetime_seconds: u64,
}

/// How an approver edited the params before approving. The requester's params stay known by their digest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Edit {
    pub by: PrincipalId,
    pub at: Timestamp,
    /// HMAC of the params that were requested.
    pub proposed: Digest,
    /// The requested params as they were shown, redacted and truncated.
    pub proposed_params: Value,
    /// Where the two differ: RFC 6901 pointers.
    pub changed: Vec<String>,
}

/// What redaction took out of the params, and how to restore it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakenOut {
    pub counts: BTreeMap<String, u32>,
    /// The map from tokens to the original values, sealed under the space's key, as base64.
    pub sealed_map: String,
}

/// When a pending call expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    At(Timestamp),
    /// A kill switch suspends the deadline; this much time is left.
    Stopped {
        left_ms: u64,
    },
}

/// Why an invocation did not succeed: a stable code and a sentence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub code: String,
    pub message: String,
}

impl Failure {
    /// Takes out the sentence, which may repeat what was sent. The code stays.
    pub fn forget_message(&mut self) {
        NOT_KEPT.clone_into(&mut self.message);
    }
}

/// Facts from the intents that the receipt must repeat and that no other field of the invocation has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Announced {
    /// The digest of the rules that decided the call.
    pub policy_slice: Digest,
    pub profile: String,
}

/// The position of the receipt in the org's audit log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiptRef {
    pub id: ReceiptId,
    pub seq: u64,
}

/// An invocation as it is stored. Its params and its result are redacted and truncated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Invocation {
    pub id: InvocationId,
    pub org: OrgId,
    pub space: SpaceId,
    /// Its space had members when it was decided. So it works on files of that space alone, which calls of other spaces cannot reach.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_own_workspace: bool,
    pub session: SessionId,
    pub principal: PrincipalId,
    /// The person on whose behalf an agent acts.
    pub owner: Option<UserId>,
    /// The person behind whoever asked for its run by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_by: Option<UserId>,
    /// The device that the requester's token is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<Device>,
    pub action: ActionId,
    /// The connection whose credential the source's requests carry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<ConnectionId>,
    pub tier: Tier,
    pub status: Status,
    pub intention: Intention,
    pub decision: Decision,
    pub gates: Vec<GateVerdict>,
    pub digests: Digests,
    pub call: Call,
    pub result: Option<Value>,
    /// What is needed to revert or check the effect; never the content itself. Written with the intent, before the effect.
    pub evidence: Option<Value>,
    /// What the latest attempt is for.
    pub purpose: Purpose,
    #[serde(default, skip_serializing_if = "Aftermath::is_empty")]
    pub aftermath: Aftermath,
    /// The invocation whose effect this one reverts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverses: Option<InvocationId>,
    /// The batch it is a part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<PartOf>,
    /// What running its code has cost, and under which isolation. Stored here because a call in doubt is recorded long after it ran.
    #[serde(default, skip_serializing_if = "Meter::is_unused")]
    pub meter: Meter,
    pub failure: Option<Failure>,
    pub denied_by: Option<DeniedBy>,
    pub idempotency_key: Option<String>,
    pub binding: Option<Binding>,
    /// Stored in a column of its own, since it moves while a kill switch suspends it.
    #[serde(skip)]
    pub deadline: Option<Deadline>,
    /// The size of the audit log when the call became pending. Where several people must approve, only those count who could then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_from_seq: Option<u64>,
    /// The approvals so far, all of the same binding.
    pub approvals: Vec<Answer>,
    /// The answer that ended the wait.
    pub answer: Option<Answer>,
    pub edit: Option<Edit>,
    /// The grant that replaced the approval.
    pub grant: Option<GrantId>,
    /// What it takes of the sum that the grant bounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spends: Option<Amount>,
    /// What it is charged; absent if its action had no price when it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charge: Option<Charge>,
    /// Its space only observes, and a person would have been asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<Observed>,
    /// What was redacted from the params before the source saw them.
    pub redacted: Option<TakenOut>,
    /// The quarantined call that a person released as this one.
    pub released_from: Option<InvocationId>,
    /// Further facts from its intents; set once it has started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub announced: Option<Announced>,
    /// The digest of the org's policies that concerned the action.
    pub policies: Option<Digest>,
    pub attempts: u32,
    pub created_at: Timestamp,
    /// When another walk first claimed the approved call, because it had not been started, for example by a server that stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_up_at: Option<Timestamp>,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    pub receipt: Option<ReceiptRef>,
    pub trace_id: String,
}

impl Invocation {
    /// How long it waited for people: to the answer that settled it, or to its end. `None` where nobody was asked, or nobody has answered.
    pub fn waited_ms(&self) -> Option<u64> {
        self.binding.as_ref()?;
        let until = self.answer.as_ref().map(|answer| answer.at).or(self.ended_at)?;
        Some(until.millis_since(self.created_at))
    }

    /// The same without its texts: params, result, and what people and programs wrote about them. Their digests stay, as the receipt has
    /// them. What a revert needs stays too, the names by which the call is found (its idempotency key, the caller's own name for it,
    /// and whom the caller claimed to act for), and what the answer of an older contract repeats.
    #[must_use]
    pub fn with_digests_only(mut self, outputs: Option<Digest>) -> Self {
        let bare = |digest: Digest| json!({ DIGEST: digest });
        let claimed = self.call.claimed.map(|claimed| Claimed { rollback_plan: None, more: None, ..claimed });
        let older = self.call.older.take();
        self.call = Call { claimed, older, ..Call::new(bare(self.digests.params)) };
        self.result = self.result.and(outputs).map(bare);
        if let Some(edit) = &mut self.edit {
            edit.proposed_params = bare(edit.proposed);
        }
        if let Some(redacted) = &mut self.redacted {
            redacted.sealed_map.clear();
        }
        if let Some(failure) = &mut self.failure {
            failure.forget_message();
        }
        for answer in self.approvals.iter_mut().chain(&mut self.answer) {
            answer.reason = None;
        }
        self.aftermath.settled_reason = None;
        for check in self.aftermath.checks.iter_mut().flatten() {
            check.detail = None;
        }
        self
    }

    /// From its creation to its end, without the time it waited for people.
    pub fn duration_ms(&self) -> Option<u64> {
        Some(self.ended_at?.millis_since(self.created_at).saturating_sub(self.waited_ms().unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_final_never_changes_and_everything_else_can_reach_an_end() {
        for from in Status::ALL {
            let next: Vec<_> = Status::ALL.into_iter().filter(|next| from.may_become(*next)).collect();
            assert_eq!(next.is_empty(), from.is_final(), "{from}");
        }
        let running_ends: Vec<_> = Status::ALL.into_iter().filter(|next| Status::Running.may_become(*next)).collect();
        assert_eq!(running_ends, [Status::Succeeded, Status::Failed, Status::Reverted, Status::InDoubt]);
    }
}
