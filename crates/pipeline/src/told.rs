//! What a caller is told of a call that a canary token stopped. Whoever may read everything is told the truth. An agent is told what it
//! would be told of a call that a policy of the org denied: one that learns where the canary tokens are walks around them.

use crate::request::Outcome;
use crate::walk::gate::denied_by;
use countersign_core::decision::{Gate, GateVerdict, Verdict};
use countersign_core::invocation::{DeniedBy, Failure};
use countersign_core::principal::Permission;
use countersign_core::{Invocation, Principal, Status};
use policy::scan::CANARY_EGRESS_ID;
use serde_json::json;

/// The gate that is said to have denied such a call, and by what.
const SAID: (Gate, &str) = (Gate::Abac, "abac.content");

/// An invocation as this principal may know it.
pub fn told_to(principal: &Principal, mut invocation: Invocation) -> Invocation {
    if principal.may(Permission::Read) {
        return invocation;
    }
    if invocation.status == Status::Quarantined
        && let Some(failure) = said_instead(principal, &mut invocation.gates)
    {
        (invocation.status, invocation.denied_by, invocation.failure) = (Status::Denied, Some(DeniedBy::Policy), Some(failure));
    }
    // The params of such a call are kept nowhere but sealed, so an agent is not told those of any call a gate denied. It sent them.
    if is_denied_by_gate(&invocation) {
        invocation.call.params = json!({});
    }
    invocation
}

/// Whether the log's entries of an invocation are for this principal: they are signed as they are, and say which rule a gate went by.
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

/// What is said instead, where gates that quarantined a call did so for a canary token and this principal is not told.
pub(crate) fn said_instead(principal: &Principal, gates: &mut [GateVerdict]) -> Option<Failure> {
    (!principal.may(Permission::Read) && is_canary(gates)).then(|| denied_by(&said_of(gates)))
}

fn is_denied_by_gate(invocation: &Invocation) -> bool {
    invocation.failure.as_ref().is_some_and(|failure| failure.code == "denied_by_gate")
}

fn is_canary(gates: &[GateVerdict]) -> bool {
    let is_it = |gate: &GateVerdict| gate.verdict == Verdict::Quarantine && gate.determining.iter().any(|rule| rule == CANARY_EGRESS_ID);
    gates.iter().any(is_it)
}

/// Leaves the verdicts as they are where a policy denied: the gates that look at content were not asked.
fn said_of(gates: &mut [GateVerdict]) -> GateVerdict {
    let (gate, rule) = SAID;
    let said = GateVerdict::new(gate, Verdict::Deny, vec![rule.to_owned()]);
    for verdict in gates {
        if verdict.gate == gate {
            verdict.clone_from(&said);
        } else if verdict.gate == Gate::Safety {
            *verdict = GateVerdict::new(Gate::Safety, Verdict::NotApplicable, Vec::new());
        }
    }
    said
}
