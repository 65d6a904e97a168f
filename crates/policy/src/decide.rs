//! The mode of a call: the first row of the cascade, then only stricter.

use countersign_core::action::Class;
use countersign_core::decision::{ModeSource, Reason};
use countersign_core::ledger::ModeRows;
use countersign_core::{Decision, Mode, Tier};

/// What is known of the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    pub tier: Tier,
}

/// What the org has set for the action: everything a request for it sees, and nothing about other actions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    pub modes: ModeRows,
}

/// Decides the mode and keeps why. Nothing after the base can loosen it.
pub fn decide(facts: &Facts, rules: &Rules) -> Decision {
    let decision = base(facts, rules);
    match facts.tier.class() {
        Class::Read | Class::Write => decision,
        Class::Danger => decision.at_least(Mode::RequireApproval, Reason::DangerIsNeverAllowed),
    }
}

/// The mode of an action nobody has set one for.
pub const fn inferred(tier: Tier) -> Mode {
    match tier.class() {
        Class::Read => Mode::Allow,
        Class::Write => Mode::RequireApproval,
        Class::Danger => Mode::Deny,
    }
}

fn base(facts: &Facts, rules: &Rules) -> Decision {
    let configured = [(rules.modes.automation, ModeSource::AutomationOverride), (rules.modes.org, ModeSource::OrgDefault)];
    configured
        .into_iter()
        .find_map(|(row, source)| row.map(|row| Decision::new(row.mode, source, Some(row.version))))
        .unwrap_or_else(|| Decision::new(inferred(facts.tier), ModeSource::InferredDefault, None))
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_core::ledger::ModeRow;

    fn rules(automation: Option<Mode>, org: Option<Mode>) -> Rules {
        Rules {
            modes: ModeRows {
                automation: automation.map(|mode| ModeRow { mode, version: 7 }),
                org: org.map(|mode| ModeRow { mode, version: 3 }),
            },
        }
    }

    fn check(tier: Tier, rules: &Rules, expected: &Decision) {
        assert_eq!(&decide(&Facts { tier }, rules), expected, "{tier} {rules:?}");
    }

    /// No row, and a row of every mode.
    fn rows() -> impl Iterator<Item = Option<Mode>> {
        std::iter::once(None).chain(Mode::ALL.map(Some))
    }

    #[test]
    fn without_a_row_reads_run_writes_ask_and_danger_is_refused() {
        for (tier, expected) in [
            (Tier::R0, Mode::Allow),
            (Tier::R1, Mode::Allow),
            (Tier::R2, Mode::RequireApproval),
            (Tier::R3, Mode::RequireApproval),
            (Tier::R4, Mode::Deny),
        ] {
            assert_eq!(inferred(tier), expected);
            check(tier, &rules(None, None), &Decision::new(expected, ModeSource::InferredDefault, None));
        }
    }

    #[test]
    fn the_automation_comes_before_the_org_and_the_row_that_decided_is_named() {
        for tier in [Tier::R0, Tier::R1, Tier::R2, Tier::R3] {
            for mode in Mode::ALL {
                check(tier, &rules(None, Some(mode)), &Decision::new(mode, ModeSource::OrgDefault, Some(3)));
                for org in rows() {
                    check(tier, &rules(Some(mode), org), &Decision::new(mode, ModeSource::AutomationOverride, Some(7)));
                }
            }
        }
    }

    #[test]
    fn an_explicit_row_makes_danger_approvable_and_says_that_it_was_tightened() {
        let allowed = rules(None, Some(Mode::Allow));
        let expected = Decision {
            mode: Mode::RequireApproval,
            tightened: vec![Reason::DangerIsNeverAllowed],
            ..Decision::new(Mode::Allow, ModeSource::OrgDefault, Some(3))
        };
        check(Tier::R4, &allowed, &expected);
        check(Tier::R4, &rules(None, Some(Mode::RequireApproval)), &Decision::new(Mode::RequireApproval, ModeSource::OrgDefault, Some(3)));
        check(Tier::R4, &rules(None, Some(Mode::Deny)), &Decision::new(Mode::Deny, ModeSource::OrgDefault, Some(3)));
    }

    #[test]
    fn danger_is_never_allowed_and_nothing_is_ever_looser_than_its_base() {
        for tier in Tier::ALL {
            for automation in rows() {
                for org in rows() {
                    let decision = decide(&Facts { tier }, &rules(automation, org));
                    assert!(decision.mode >= decision.base, "{decision:?}");
                    assert!(tier != Tier::R4 || decision.mode > Mode::Allow, "{decision:?}");
                    assert_eq!(decision.mode > decision.base, !decision.tightened.is_empty(), "{decision:?}");
                }
            }
        }
    }
}
