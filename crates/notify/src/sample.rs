//! A call that never was, for the test of a channel: it says so in its reason.

use countersign_core::decision::ModeSource;
use countersign_core::effect::{Aftermath, Purpose};
use countersign_core::invocation::{Digests, Intention};
use countersign_core::jail::Meter;
use countersign_core::{
    ActionId, Call, Decision, Digest, Invocation, InvocationId, Mode, Principal, SessionId, SpaceId, Status, Tier, Timestamp,
};
use serde_json::json;

/// The action that a test names. No source has it.
const ACTION: &str = "countersign.test_channel";

/// A pending call of whoever tests the channel. `None` never happens: the action's name is a good one.
pub(super) fn sample(by: &Principal, channel: &str, now: Timestamp, random: [u8; 10]) -> Option<Invocation> {
    let nothing = Digest::new([0; 32]);
    let reason = format!("This is a test of the channel `{channel}`. No call waits, and there is nothing to answer.");
    Some(Invocation {
        id: InvocationId::new(now, random),
        org: by.org.clone(),
        space: SpaceId::new(now, random),
        has_own_workspace: false,
        session: SessionId::new(now, random),
        principal: by.id.clone(),
        owner: None,
        asked_by: None,
        device: None,
        action: ActionId::parse(ACTION).ok()?,
        connection: None,
        tier: Tier::R0,
        status: Status::Pending,
        intention: Intention::DryRun,
        decision: Decision::new(Mode::RequireApproval, ModeSource::InferredDefault, None),
        gates: Vec::new(),
        digests: Digests { raw: nothing, params: nothing, structural: nothing, textual: nothing },
        call: Call { reason: Some(reason), ..Call::new(json!({})) },
        result: None,
        evidence: None,
        purpose: Purpose::Effect,
        aftermath: Aftermath::default(),
        reverses: None,
        batch: None,
        meter: Meter::default(),
        failure: None,
        denied_by: None,
        idempotency_key: None,
        binding: None,
        deadline: None,
        pending_from_seq: None,
        approvals: Vec::new(),
        answer: None,
        edit: None,
        grant: None,
        spends: None,
        charge: None,
        observed: None,
        redacted: None,
        released_from: None,
        announced: None,
        policies: None,
        attempts: 0,
        created_at: now,
        taken_up_at: None,
        started_at: None,
        ended_at: None,
        receipt: None,
        trace_id: String::new(),
    })
}
