//! The gates: the checks before the mode. Each returns its verdict with the rules that determined it, so that a denial says why. Every gate
//! is evaluated, whatever the others return; the first denial decides. The rules in this file apply to every org. An org's policies are
//! evaluated in addition, and the stricter of the two verdicts counts.

use crate::cedar::{BUILTIN, Policies};
use crate::facts::{CallFacts, Reach};
use countersign_core::decision::{Gate, GateVerdict, Verdict};

/// One verdict per gate, in the order of `Gate::ALL`. If no policy concerns the action, only the rules of this file apply.
pub fn gate(call: &CallFacts, policies: Option<&Policies>) -> Vec<GateVerdict> {
    let mut asked = policies.map(|policies| policies.ask(call)).unwrap_or_default();
    let mut asked_of = |gate| asked.iter().position(|verdict| verdict.gate == gate).map(|index| asked.swap_remove(index));
    Gate::ALL
        .into_iter()
        .map(|gate| match gate {
            Gate::Rbac => rbac(call, asked_of(gate)),
            Gate::Space => stricter(space(call), asked_of(gate)),
            Gate::Consent => stricter(consent(call), asked_of(gate)),
            Gate::Abac => asked_of(gate).unwrap_or_else(|| silent(gate)),
            Gate::Safety | Gate::Redaction => silent(gate),
        })
        .collect()
}

/// The first denial, which decides, if there is one.
pub fn denied(verdicts: &[GateVerdict]) -> Option<&GateVerdict> {
    verdicts.iter().find(|verdict| match verdict.verdict {
        Verdict::Deny => true,
        Verdict::Ok | Verdict::NeedsApproval | Verdict::Quarantine | Verdict::Redacted | Verdict::NotApplicable => false,
    })
}

/// Whether an approval of exactly this call was the consent that its space asks for.
pub fn is_consent_by_approval(verdicts: &[GateVerdict]) -> bool {
    verdicts.iter().any(|verdict| verdict.gate == Gate::Consent && verdict.determining.iter().any(|rule| rule == CONSENT_BY_APPROVAL))
}

/// The rule that a principal needs the permission to invoke.
const INVOKE: &str = "builtin.invoke";
/// The rule that a call stays in its space.
const SAME_SPACE: &str = "builtin.same_space";
/// The rule that an action may reach into the spaces for which it is listed.
const CROSS_SPACE_LISTED: &str = "builtin.cross_space_listed";
/// The rule that nobody acts in a space whose band is higher than they may use.
const MAX_BAND: &str = "builtin.max_band";

/// The rule that a call of class HIGH has the consent of the person behind it.
const CONSENT: &str = "builtin.consent";
/// The rule that an approval of exactly this call is consent to it.
const CONSENT_BY_APPROVAL: &str = "builtin.consent_by_approval";

/// The rule that the principal holds one permission that the action requires.
fn holds(permission: &str) -> String {
    format!("builtin.holds:{permission}")
}

fn rbac(call: &CallFacts, asked: Option<GateVerdict>) -> GateVerdict {
    let gate = Gate::Rbac;
    if !call.may_invoke() {
        // No policy can give the permission to invoke.
        return stricter(GateVerdict::new(gate, Verdict::Deny, vec![INVOKE.to_owned()]), asked);
    }
    let (held, missing) = call.requirements();
    let held = std::iter::once(INVOKE.to_owned()).chain(held.into_iter().map(|permission| holds(permission)));
    let (permits, asked) = match asked {
        Some(asked) if asked.verdict == Verdict::Ok => (asked.determining, None),
        Some(_) | None => (Vec::new(), asked),
    };
    let permits: Vec<String> = permits.into_iter().filter(|id| !id.starts_with(BUILTIN)).collect();
    let builtin = if missing.is_empty() || !permits.is_empty() {
        GateVerdict::new(gate, Verdict::Ok, held.chain(permits).collect())
    } else {
        GateVerdict::new(gate, Verdict::Deny, missing.into_iter().map(|permission| holds(permission)).collect())
    };
    stricter(builtin, asked)
}

fn space(call: &CallFacts) -> GateVerdict {
    let (crossing, rule) = match (call.reach(), call.cross_space_listed) {
        (Reach::Here, _) => (Verdict::Ok, SAME_SPACE),
        (Reach::Elsewhere, true) => (Verdict::Ok, CROSS_SPACE_LISTED),
        (Reach::Elsewhere, false) | (Reach::Unknown, _) => (Verdict::Deny, SAME_SPACE),
    };
    let crossing = GateVerdict::new(Gate::Space, crossing, vec![rule.to_owned()]);
    let too_dangerous = call.space.band > call.standing.max_band;
    stricter(crossing, too_dangerous.then(|| GateVerdict::new(Gate::Space, Verdict::Deny, vec![MAX_BAND.to_owned()])))
}

fn consent(call: &CallFacts) -> GateVerdict {
    let gate = Gate::Consent;
    if !call.needs_consent() {
        return silent(gate);
    }
    match (call.consent(), call.approval) {
        (Some(purpose), _) => GateVerdict::new(gate, Verdict::Ok, vec![CONSENT.to_owned(), purpose.clone()]),
        (None, Some(_)) => GateVerdict::new(gate, Verdict::Ok, vec![CONSENT_BY_APPROVAL.to_owned()]),
        (None, None) => GateVerdict::new(gate, Verdict::NeedsApproval, vec![CONSENT.to_owned()]),
    }
}

fn silent(gate: Gate) -> GateVerdict {
    GateVerdict::new(gate, Verdict::NotApplicable, Vec::new())
}

/// The stricter of two verdicts of one gate, with its rules; if both are equally strict, with the rules of both.
fn stricter(mut one: GateVerdict, other: Option<GateVerdict>) -> GateVerdict {
    let Some(other) = other else { return one };
    match strictness(one.verdict).cmp(&strictness(other.verdict)) {
        std::cmp::Ordering::Less => other,
        std::cmp::Ordering::Greater => one,
        std::cmp::Ordering::Equal => {
            one.determining.extend(other.determining);
            one.errors.extend(other.errors);
            one
        }
    }
}

const fn strictness(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::NotApplicable => 0,
        Verdict::Ok => 1,
        Verdict::Redacted => 2,
        Verdict::NeedsApproval => 3,
        Verdict::Quarantine => 4,
        Verdict::Deny => 5,
    }
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;
