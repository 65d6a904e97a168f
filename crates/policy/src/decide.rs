//! Decides the mode of a call: the first matching row of the cascade sets it, later rules only make it stricter. Also says whether a grant
//! may replace the approval.

use countersign_core::action::{Class, Profile};
use countersign_core::decision::{Drift, Gate, GateVerdict, Lock, ModeSource, Reason, Verdict};
use countersign_core::ledger::{ModeRow, ModeRows};
use countersign_core::observe::Observed;
use countersign_core::switch::SwitchScope;
use countersign_core::{Band, Decision, Digest, Mode, Tier};

/// The facts of a call that the decision depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    pub tier: Tier,
    /// Where the action executes.
    pub profile: Profile,
    pub drift: Drift,
    /// The gate that lets the call pass only with a person's approval, as `asking` finds it.
    pub asks: Option<Gate>,
    /// The scope of a kill switch that covers the call, if there is one.
    pub stopped: Option<SwitchScope>,
}

/// The org's settings for the action: everything a request for it depends on, and nothing about other actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The version of all the org's rules.
    pub version: i64,
    pub modes: ModeRows,
    /// The band of the space in which the call is made.
    pub band: Band,
    /// The digest of the org's own policies that concern the action.
    pub policies: Option<Digest>,
}

/// Decides the mode, with the reasons. After the base mode, every rule can only make it stricter.
pub fn decide(facts: &Facts, rules: &Rules) -> Decision {
    let mut decision = base(facts, rules).under(rules.version);
    if let Some(reason) = Reason::never_unattended(facts.tier, facts.profile) {
        decision = decision.at_least(Mode::RequireApproval, reason);
    }
    decision = decision.at_least(rules.band.tolerated(facts.tier), Reason::Band { band: rules.band });
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

/// Whether a grant may replace the approval that this decision requires. A grant never overrides a denial, a drift or a black band, and it
/// never covers an action that destroys data. It also never covers content that the safety gate asks about, because the person who gave the
/// grant has not seen that content. Where an org policy asks, the policy itself decides whether it accepts the person who gave the grant.
pub fn is_grantable(decision: &Decision, facts: &Facts, rules: &Rules) -> bool {
    decision.mode == Mode::RequireApproval
        && !is_never_granted(facts.tier, facts.profile)
        && facts.drift == Drift::None
        && facts.asks != Some(Gate::Safety)
        && rules.band != Band::Black
}

/// What could have answered instead of the person whom this decision asks for, where the space only observes. `one_person` says whether one
/// person's yes would have been enough, whoever it was: only then can a rule that one person makes stand in for it.
pub fn observed(decision: &Decision, facts: &Facts, rules: &Rules, own_tier: Tier, one_person: bool) -> Observed {
    if facts.tier.class() == Class::Danger {
        return Observed::Held;
    }
    let allowed = ModeRow { mode: Mode::Allow, lock: Lock::Open, version: rules.version };
    let modes = ModeRows { org: Some(allowed), ..rules.modes };
    // A mode that somebody has chosen is not suggested away, and what reaches out of the org is let run a number of times only.
    let by_mode = own_tier <= Tier::R2
        && decision.source == ModeSource::InferredDefault
        && decide(facts, &Rules { modes, ..*rules }).mode == Mode::Allow;
    // A policy that asks may accept nobody who would give a grant.
    let by_grant = is_grantable(decision, facts, rules) && facts.asks.is_none();
    match (one_person, by_mode, by_grant) {
        (true, true, _) => Observed::Mode,
        (true, false, true) => Observed::Grant,
        (false, _, _) | (true, false, false) => Observed::Person,
    }
}

/// Whether no grant can cover such an action: its calls are approved one at a time.
pub fn is_never_granted(tier: Tier, profile: Profile) -> bool {
    Reason::never_unattended(tier, profile).is_some()
}

/// The gate that asks for a person. If several ask, `safety` is returned first, because no grant covers it; else the first that asks.
pub fn asking(verdicts: &[GateVerdict]) -> Option<Gate> {
    let asking = || verdicts.iter().filter(|verdict| verdict.verdict == Verdict::NeedsApproval).map(|verdict| verdict.gate);
    asking().find(|gate| *gate == Gate::Safety).or_else(|| asking().next())
}

/// The mode of an action for which no mode is set.
pub const fn inferred(tier: Tier) -> Mode {
    match tier.class() {
        Class::Read => Mode::Allow,
        Class::Write => Mode::RequireApproval,
        Class::Danger => Mode::Deny,
    }
}

fn base(facts: &Facts, rules: &Rules) -> Decision {
    let decided = |row: ModeRow, source| Decision::new(row.mode, source, Some(row.version));
    match (rules.modes.automation, rules.modes.org) {
        // A locked row is a minimum for automations: they may be stricter, not looser.
        (Some(automation), Some(org)) if org.lock == Lock::Locked && automation.mode < org.mode => decided(org, ModeSource::OrgDefault),
        (Some(automation), _) => decided(automation, ModeSource::AutomationOverride),
        (None, Some(org)) => decided(org, ModeSource::OrgDefault),
        (None, None) => Decision::new(inferred(facts.tier), ModeSource::InferredDefault, None),
    }
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
