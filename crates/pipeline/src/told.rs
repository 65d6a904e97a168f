//! What a caller may know about a call that a gate denied or a canary token stopped. A principal with the `Read` permission sees the truth.
//! An agent sees the same in both cases: that a gate denied the call, but neither the gate nor the rule. An agent that learns where the
//! canary tokens are can avoid them.

use crate::request::Outcome;
use crate::walk::gate::DENIED_BY_GATE;
use countersign_core::decision::{Gate, GateVerdict, Verdict};
use countersign_core::invocation::{DeniedBy, Failure};
use countersign_core::principal::Permission;
use countersign_core::{Invocation, Principal, Status};
use policy::scan::CANARY_EGRESS_ID;
use serde_json::json;

/// An invocation as this principal may see it.
pub fn told_to(principal: &Principal, mut invocation: Invocation) -> Invocation {
    if let Some(failure) = told_instead(principal, &mut invocation.gates) {
        (invocation.status, invocation.denied_by, invocation.failure) = (Status::Denied, Some(DeniedBy::Policy), Some(failure));
        // The params of a quarantined call exist only sealed. The agent knows them, since it sent them.
        invocation.call.params = json!({});
        if let Some(older) = &mut invocation.call.older {
            older.inputs = None;
        }
    }
    invocation
}

/// Whether this principal may read the audit log entries of an invocation. Entries are signed and cannot be changed for a reader, and they
/// name the rule that a gate applied.
pub fn may_read_entries(principal: &Principal, invocation: &Invocation) -> bool {
    principal.may(Permission::Read) || !is_denied_by_gate(&told_to(principal, invocation.clone()))
}

pub(crate) fn outcome_told_to(principal: &Principal, outcome: Outcome) -> Outcome {
    let told = |invocation: Box<Invocation>| Box::new(told_to(principal, *invocation));
    match outcome {
        Outcome::Ended { invocation, result } => Outcome::Ended { invocation: told(invocation), result },
        Outcome::Replayed(invocation) => Outcome::Replayed(told(invocation)),
        Outcome::Pending(invocation) => Outcome::Pending(invocation),
        Outcome::InDoubt(invocation) => Outcome::InDoubt(invocation),
    }
}

/// Removes the verdicts and returns the failure to show, if a gate denied the call or a canary token stopped it, and this principal may not
/// know which.
pub(crate) fn told_instead(principal: &Principal, gates: &mut Vec<GateVerdict>) -> Option<Failure> {
    if principal.may(Permission::Read) || !gates.iter().any(is_hidden) {
        return None;
    }
    gates.clear();
    Some(Failure { code: DENIED_BY_GATE.into(), message: "a gate denied it; an agent is not told which rule".into() })
}

fn is_hidden(gate: &GateVerdict) -> bool {
    match gate.verdict {
        // A denial by the redaction gate has a code of its own, and names the param that no longer fits.
        Verdict::Deny => gate.gate != Gate::Redaction,
        Verdict::Quarantine => gate.determining.iter().any(|rule| rule == CANARY_EGRESS_ID),
        Verdict::Ok | Verdict::NeedsApproval | Verdict::Redacted | Verdict::NotApplicable => false,
    }
}

fn is_denied_by_gate(invocation: &Invocation) -> bool {
    invocation.failure.as_ref().is_some_and(|failure| failure.code == DENIED_BY_GATE)
}
