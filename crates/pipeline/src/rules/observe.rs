//! What the report of a space that observes suggests: modes and grants, and what would be asked with them.

use countersign_core::limits::OBSERVED_OFTEN;
use countersign_core::observe::{AskedFor, Observed};
use countersign_core::{ActionId, Tier};
use std::collections::BTreeMap;

/// Rules under which people would be asked less.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Suggestions {
    /// Actions whose mode could be `allow`.
    pub modes: Vec<Suggestion>,
    /// Actions for which a grant of so many calls could be given, to the whole org, in the space.
    pub grants: Vec<Suggestion>,
    /// How often a person would still have been asked with these rules.
    pub still_asked: u64,
}

/// A rule for one action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suggestion {
    pub action: ActionId,
    pub tier: Tier,
    /// How many of the calls it would have let run.
    pub calls: u64,
}

/// Suggests rules for what was asked often. What was asked rarely is better asked on.
pub fn suggest(asked: &[AskedFor]) -> Suggestions {
    let mut by_rule: BTreeMap<(Observed, &ActionId), (Tier, u64)> = BTreeMap::new();
    for one in asked {
        let (tier, calls) = by_rule.entry((one.observed, &one.action)).or_insert((one.tier, 0));
        (*tier, *calls) = ((*tier).max(one.tier), *calls + one.calls);
    }
    let mut suggestions = Suggestions::default();
    for ((observed, action), (tier, calls)) in by_rule {
        let suggestion = Suggestion { action: action.clone(), tier, calls };
        match observed {
            Observed::Mode if calls >= OBSERVED_OFTEN => suggestions.modes.push(suggestion),
            // A grant is for a number of calls.
            Observed::Grant if calls >= OBSERVED_OFTEN && calls <= u64::from(u32::MAX) => suggestions.grants.push(suggestion),
            Observed::Mode | Observed::Grant | Observed::Person | Observed::Held => suggestions.still_asked += calls,
        }
    }
    suggestions
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_core::{SessionId, Timestamp};

    #[test]
    fn rules_are_suggested_for_what_is_asked_often_and_can_have_one() {
        let asked = |action: &str, session: u8, observed, calls| AskedFor {
            action: ActionId::parse(action).unwrap(),
            tier: Tier::R2,
            session: SessionId::new(Timestamp::default(), [session; 10]),
            title: None,
            observed,
            calls,
        };
        let suggestions = suggest(&[
            asked("files.write", 1, Observed::Mode, 2),
            asked("files.write", 2, Observed::Mode, 1),
            asked("http.send", 1, Observed::Grant, 7),
            asked("http.send", 1, Observed::Person, 9),
            asked("files.move", 1, Observed::Mode, OBSERVED_OFTEN - 1),
            asked("files.delete", 1, Observed::Held, 5),
        ]);
        let rule = |action: &str, calls| Suggestion { action: ActionId::parse(action).unwrap(), tier: Tier::R2, calls };
        assert_eq!(suggestions.modes, [rule("files.write", 3)]);
        assert_eq!(suggestions.grants, [rule("http.send", 7)]);
        assert_eq!(suggestions.still_asked, 9 + OBSERVED_OFTEN - 1 + 5);
        assert_eq!(suggest(&[]), Suggestions::default());
    }
}
