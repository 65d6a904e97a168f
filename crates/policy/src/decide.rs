//! The mode of a call: the first row of the cascade, then only stricter. And whether a grant may stand in for a person.

use countersign_core::action::{Class, Profile};
use countersign_core::decision::{Drift, Gate, GateVerdict, Lock, ModeSource, Reason, Verdict};
use countersign_core::ledger::{ModeRow, ModeRows};
use countersign_core::switch::SwitchScope;
use countersign_core::{Band, Decision, Digest, Mode, Tier};

/// What is known of the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    pub tier: Tier,
    /// What it executes in: anything but the server itself runs code of others.
    pub profile: Profile,
    pub drift: Drift,
    /// A gate that lets the call pass only with a person, as `asking` finds it.
    pub asks: Option<Gate>,
    /// What a kill switch that covers the call covers.
    pub stopped: Option<SwitchScope>,
}

/// What the org has set for the action: everything a request for it sees, and nothing about other actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Of all the org's rules.
    pub version: i64,
    pub modes: ModeRows,
    /// Of the space the call is made in.
    pub band: Band,
    /// The org's own policies that concern the action, by digest.
    pub policies: Option<Digest>,
}

/// Decides the mode and keeps why. Nothing after the base can loosen it.
pub fn decide(facts: &Facts, rules: &Rules) -> Decision {
    let mut decision = base(facts, rules).under(rules.version);
    if facts.tier.class() == Class::Danger {
        decision = decision.at_least(Mode::RequireApproval, Reason::DangerIsNeverAllowed);
    }
    if is_package_risk(facts) {
        decision = decision.at_least(Mode::RequireApproval, Reason::PackageNeverUnattended);
    }
    decision = decision.at_least(tolerated(rules.band, facts.tier), Reason::Band { band: rules.band });
    if facts.drift != Drift::None {
        decision = decision.at_least(Mode::RequireApproval, Reason::Drift { drift: facts.drift });
    }
    if let Some(gate) = facts.asks {
        decision = decision.at_least(Mode::RequireApproval, Reason::Gate { gate });
    }
    match &facts.stopped {
        Some(scope) => decision.at_least(Mode::Deny, Reason::Stopped { scope: scope.clone() }),
        None => decision,
    }
}

/// Whether a grant may stand in for the person this decision asks for. It never beats a denial, a drift or a black band, and
/// what destroys is never granted. Nor does it answer for content: whoever gave it has not seen this one. Whether it answers a
/// policy that asks is for that policy to say, of who gave it.
pub fn is_grantable(decision: &Decision, facts: &Facts, rules: &Rules) -> bool {
    decision.mode == Mode::RequireApproval
        && facts.tier.class() != Class::Danger
        && !is_package_risk(facts)
        && facts.drift == Drift::None
        && facts.asks != Some(Gate::Safety)
        && rules.band != Band::Black
}

/// Code of others that writes beyond what can be undone.
fn is_package_risk(facts: &Facts) -> bool {
    facts.profile != Profile::InProcess && facts.tier >= Tier::R3
}

/// The gate that asks for a person. Of several it is the one that no grant answers, else the first.
pub fn asking(verdicts: &[GateVerdict]) -> Option<Gate> {
    let asking = || verdicts.iter().filter(|verdict| verdict.verdict == Verdict::NeedsApproval).map(|verdict| verdict.gate);
    asking().find(|gate| *gate == Gate::Safety).or_else(|| asking().next())
}

/// The mode of an action nobody has set one for.
pub const fn inferred(tier: Tier) -> Mode {
    match tier.class() {
        Class::Read => Mode::Allow,
        Class::Write => Mode::RequireApproval,
        Class::Danger => Mode::Deny,
    }
}

/// The loosest mode a band leaves a tier.
pub const fn tolerated(band: Band, tier: Tier) -> Mode {
    match (band, tier) {
        (Band::Green, _) | (Band::Amber, Tier::R0 | Tier::R1) | (Band::Red, Tier::R0) => Mode::Allow,
        (Band::Amber, Tier::R2 | Tier::R3 | Tier::R4) | (Band::Red, Tier::R1 | Tier::R2 | Tier::R3) | (Band::Black, Tier::R0) => {
            Mode::RequireApproval
        }
        (Band::Red, Tier::R4) | (Band::Black, Tier::R1 | Tier::R2 | Tier::R3 | Tier::R4) => Mode::Deny,
    }
}

fn base(facts: &Facts, rules: &Rules) -> Decision {
    let decided = |row: ModeRow, source| Decision::new(row.mode, source, Some(row.version));
    match (rules.modes.automation, rules.modes.org) {
        // A locked row is a floor for automations.
        (Some(automation), Some(org)) if org.lock == Lock::Locked && automation.mode < org.mode => decided(org, ModeSource::OrgDefault),
        (Some(automation), _) => decided(automation, ModeSource::AutomationOverride),
        (None, Some(org)) => decided(org, ModeSource::OrgDefault),
        (None, None) => Decision::new(inferred(facts.tier), ModeSource::InferredDefault, None),
    }
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
