//! What a caller may know about a call that a canary token stopped. A principal with the `Read` permission sees the truth. An agent sees
//! the call as if one of the org's policies had denied it: an agent that learns where the canary tokens are can avoid them.

use crate::request::Outcome;
use crate::walk::gate::denied_by;
use countersign_core::decision::{Gate, GateVerdict, Verdict};
use countersign_core::invocation::{DeniedBy, Failure};
use countersign_core::principal::Permission;
use countersign_core::{Invocation, Principal, Status};
use policy::scan::CANARY_EGRESS_ID;
use serde_json::json;

/// The gate and the rule that an agent is told denied such a call.
const SAID: (Gate, &str) = (Gate::Abac, "abac.content");

/// An invocation as this principal may see it.
pub fn told_to(principal: &Principal, mut invocation: Invocation) -> Invocation {
    if principal.may(Permission::Read) {
        return invocation;
    }
    if invocation.status == Status::Quarantined
        && let Some(failure) = said_instead(principal, &mut invocation.gates)
    {
        (invocation.status, invocation.denied_by, invocation.failure) = (Status::Denied, Some(DeniedBy::Policy), Some(failure));
    }
    // The params of a quarantined call exist only sealed, so they cannot be shown to an agent. To make the two cases look alike, an agent
    // is not shown the params of any call that a gate denied. The agent knows them, since it sent them.
    if is_denied_by_gate(&invocation) {
        invocation.call.params = json!({});
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

/// Replaces the verdicts and returns the failure to show, if a canary token quarantined the call and this principal may not know it.
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

/// Makes the verdicts look as they do after a denial by a policy: the gates that look at the content have not run.
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
