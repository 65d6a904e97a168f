//! Whether a decision follows from what the log itself says: the mode rows in force while the call lived, the tier, nothing else.
//! The decision and the digest of the rules behind it must both be those of one and the same moment.

use super::asked::{asked_at, born_at};
use super::{Class, Finding};
use crate::body::{IntentBody, ModeBody, ReceiptBody};
use countersign_core::action::Class as TierClass;
use countersign_core::decision::{ModeSource, Reason};
use countersign_core::{ActionId, Decision, Digest, Mode, PrincipalId, Tier, Timestamp, json};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use std::collections::{HashMap, VecDeque};

const ORG: &str = "org";

/// How far the clock of the log and that of the calls may be apart.
const CLOCKS_APART_SECONDS: i64 = 5;

/// How many changes of one action's rows are remembered. A call that outlives more has no decision that can be reproduced.
const CHANGES_KEPT: usize = 256;

/// The rules this file decides by; under another name they would decide otherwise.
const BUILTIN_RULES: &str = "builtin/v1";

/// The mode rows in force, and how they came to be.
#[derive(Default)]
pub(super) struct Modes {
    actions: HashMap<ActionId, Rows>,
    /// Of the last change of any row.
    version: Option<i64>,
}

/// The rows of one action.
#[derive(Default)]
struct Rows {
    in_force: HashMap<String, Row>,
    /// In the order of the log, the oldest forgotten.
    changes: VecDeque<Change>,
}

#[derive(Clone, Copy)]
struct Row {
    mode: Mode,
    version: i64,
}

/// A change, and what it put an end to.
struct Change {
    at: Timestamp,
    scope: String,
    before: Option<Row>,
}

/// A decision that an entry claims.
pub(super) struct Claim<'a> {
    decision: &'a Decision,
    tier: Tier,
    action: &'a ActionId,
    principal: &'a PrincipalId,
    /// An intent does not carry it.
    policy_slice: Option<Digest>,
    asked_at: Timestamp,
}

impl<'a> Claim<'a> {
    pub(super) fn of_intent(intent: &'a IntentBody) -> Self {
        let IntentBody { decision, tier, action, principal, invocation_id, .. } = intent;
        Self { decision, tier: *tier, action, principal, policy_slice: None, asked_at: born_at(invocation_id) }
    }

    pub(super) fn of_receipt(receipt: &'a ReceiptBody) -> Self {
        let ReceiptBody { decision, tier, action, principal, invocation_id, policy_slice, .. } = receipt;
        // The later of the two: a long life claimed by one of them alone does not bring back an old mode.
        let asked_at = asked_at(receipt).max(born_at(invocation_id));
        Self { decision, tier: *tier, action, principal, policy_slice: Some(*policy_slice), asked_at }
    }
}

impl Modes {
    /// Notes a change; `at` is when its entry was written.
    pub(super) fn set(&mut self, at: Timestamp, body: ModeBody) -> Result<(), Finding> {
        let ModeBody { scope, action, mode, version, by: _ } = body;
        if self.version.is_some_and(|last| version <= last) {
            return Err(differs(format!("a mode gets version {version}, which does not come after the last change")));
        }
        self.version = Some(version);
        let Rows { in_force, changes } = self.actions.entry(action).or_default();
        let before = match mode {
            Some(mode) => in_force.insert(scope.clone(), Row { mode, version }),
            None => in_force.remove(&scope),
        };
        let at = changes.back().map_or(at, |last| last.at.max(at));
        changes.push_back(Change { at, scope, before });
        if changes.len() > CHANGES_KEPT {
            changes.pop_front();
        }
        Ok(())
    }

    /// Decides again, from the rows of now and of each moment back to when the call came in, and compares.
    pub(super) fn rederive(&self, claim: &Claim<'_>) -> Result<(), Finding> {
        let nothing = Rows::default();
        let rows = self.actions.get(claim.action).unwrap_or(&nothing);
        let from = claim.asked_at.as_micros().saturating_sub(CLOCKS_APART_SECONDS * 1_000_000);
        let mut moment = Moment { in_force: &rows.in_force, undone: HashMap::new() };
        let mut found = moment.bears(claim);
        for change in rows.changes.iter().rev().take_while(|change| change.at.as_micros() >= from) {
            if found == Found::Same {
                break;
            }
            moment.undone.insert(&change.scope, change.before);
            found = found.max(moment.bears(claim));
        }
        let Claim { decision, tier, action, .. } = claim;
        match found {
            Found::Same => Ok(()),
            Found::OtherSlice => Err(differs(format!("the modes of `{action}` make this decision, but not this `policy_slice`"))),
            Found::OtherDecision => Err(differs(format!(
                "no mode in force while the call lived makes `{action}` at {tier} `{}` by {} as recorded",
                decision.mode,
                decision.source.as_str()
            ))),
        }
    }
}

/// The rows of one action at some time: those of now, but for the changes that came later.
struct Moment<'a> {
    in_force: &'a HashMap<String, Row>,
    undone: HashMap<&'a str, Option<Row>>,
}

/// How near a moment comes to a claim.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Found {
    OtherDecision,
    OtherSlice,
    Same,
}

impl Moment<'_> {
    fn bears(&self, claim: &Claim<'_>) -> Found {
        let with = |automation| found(claim, automation, self.row(ORG));
        match (claim.principal, claim.decision.source) {
            (PrincipalId::Automation(_), _) => with(self.row(&claim.principal.to_string())),
            // Whoever acts for an automation does not name it: it may be any that has a row.
            (PrincipalId::User(_) | PrincipalId::Agent(_) | PrincipalId::Service(_), ModeSource::AutomationOverride) => {
                self.automations().map(|row| with(Some(row))).max().unwrap_or(Found::OtherDecision)
            }
            (
                PrincipalId::User(_) | PrincipalId::Agent(_) | PrincipalId::Service(_),
                ModeSource::OrgDefault | ModeSource::InferredDefault,
            ) => with(None),
        }
    }

    fn row(&self, scope: &str) -> Option<Row> {
        self.undone.get(scope).copied().unwrap_or_else(|| self.in_force.get(scope).copied())
    }

    fn automations(&self) -> impl Iterator<Item = Row> {
        let kept = self.in_force.iter().filter(|(scope, _)| !self.undone.contains_key(scope.as_str())).map(|(scope, row)| (&**scope, *row));
        let back = self.undone.iter().filter_map(|(scope, row)| row.map(|row| (*scope, row)));
        kept.chain(back).filter(|(scope, _)| *scope != ORG).map(|(_, row)| row)
    }
}

fn found(claim: &Claim<'_>, automation: Option<Row>, org: Option<Row>) -> Found {
    if decide(claim.tier, automation, org) != *claim.decision {
        return Found::OtherDecision;
    }
    match claim.policy_slice {
        Some(slice) if policy_slice(automation, org) != Some(slice) => Found::OtherSlice,
        Some(_) | None => Found::Same,
    }
}

/// The cascade: the automation's row, else the org's, else what the tier infers; and danger is never allowed.
fn decide(tier: Tier, automation: Option<Row>, org: Option<Row>) -> Decision {
    let decided = |row: Row, source| Decision::new(row.mode, source, Some(row.version));
    let decision = match (automation, org) {
        (Some(row), _) => decided(row, ModeSource::AutomationOverride),
        (None, Some(row)) => decided(row, ModeSource::OrgDefault),
        (None, None) => Decision::new(inferred(tier), ModeSource::InferredDefault, None),
    };
    match tier.class() {
        TierClass::Read | TierClass::Write => decision,
        TierClass::Danger => decision.at_least(Mode::RequireApproval, Reason::DangerIsNeverAllowed),
    }
}

/// The mode of an action nobody has set one for.
const fn inferred(tier: Tier) -> Mode {
    match tier.class() {
        TierClass::Read => Mode::Allow,
        TierClass::Write => Mode::RequireApproval,
        TierClass::Danger => Mode::Deny,
    }
}

/// SHA-256 over the rules a call saw. Whoever decides makes the same text on their own; the two tests that pin it must agree.
fn policy_slice(automation: Option<Row>, org: Option<Row>) -> Option<Digest> {
    policy_slice_text(automation, org).map(|text| Digest::new(Sha256::digest(text).into()))
}

fn policy_slice_text(automation: Option<Row>, org: Option<Row>) -> Option<String> {
    #[derive(Serialize)]
    struct Slice {
        automation: Option<SliceRow>,
        org: Option<SliceRow>,
        rules: &'static str,
    }
    #[derive(Serialize)]
    struct SliceRow {
        mode: Mode,
        version: String,
    }
    let row = |row: Row| SliceRow { mode: row.mode, version: row.version.to_string() };
    json::canonical(&Slice { automation: automation.map(row), org: org.map(row), rules: BUILTIN_RULES }).ok()
}

fn differs(reason: String) -> Finding {
    Finding::new(Class::DecisionNotReproduced, reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::story::second;
    use countersign_core::{AutomationId, UserId};
    use proptest::prelude::*;

    #[test]
    fn the_text_of_a_policy_slice_is_the_one_policy_pins_too() {
        let row = |mode, version| Some(Row { mode, version });
        for (automation, org, expected) in [
            (None, None, r#"{"automation":null,"org":null,"rules":"builtin/v1"}"#),
            // This one stands in the tests of `policy::digest` as well.
            (None, row(Mode::Allow, 3), r#"{"automation":null,"org":{"mode":"allow","version":"3"},"rules":"builtin/v1"}"#),
            (
                row(Mode::Deny, 9_007_199_254_740_993),
                row(Mode::RequireApproval, 1),
                r#"{"automation":{"mode":"deny","version":"9007199254740993"},"org":{"mode":"require_approval","version":"1"},"rules":"builtin/v1"}"#,
            ),
        ] {
            assert_eq!(policy_slice_text(automation, org).as_deref(), Some(expected));
        }
    }

    fn action() -> ActionId {
        ActionId::parse("files.write_text").unwrap()
    }

    fn automation() -> PrincipalId {
        PrincipalId::Automation(AutomationId::new(second(0), [3; 10]))
    }

    fn change(scope: String, mode: Option<Mode>, version: i64) -> ModeBody {
        ModeBody { scope, action: action(), mode, version, by: PrincipalId::User(UserId::new(second(0), [2; 10])) }
    }

    #[test]
    fn the_changes_of_an_action_that_are_remembered_are_bounded() {
        let mut modes = Modes::default();
        for version in 1..=1_000 {
            let mode = if version % 2 == 0 { Mode::Allow } else { Mode::Deny };
            assert!(modes.set(second(0), change(ORG.to_owned(), Some(mode), version)).is_ok());
        }
        assert_eq!(modes.actions[&action()].changes.len(), CHANGES_KEPT);
        let (action, principal) = (action(), automation());
        let follows = |version: i64| {
            let decision = Decision::new(Mode::Allow, ModeSource::OrgDefault, Some(version));
            let claim = Claim {
                decision: &decision,
                tier: Tier::R2,
                action: &action,
                principal: &principal,
                policy_slice: None,
                asked_at: second(0),
            };
            modes.rederive(&claim).is_ok()
        };
        assert!(follows(1_000) && follows(1_000 - CHANGES_KEPT as i64));
        assert!(!follows(1_000 - CHANGES_KEPT as i64 - 2));
    }

    proptest! {
        #[test]
        fn a_decision_stands_exactly_if_a_moment_while_the_call_lived_gives_it(
            changes in prop::collection::vec((0u64..8, any::<bool>(), prop::option::of(prop::sample::select(&Mode::ALL))), 0..8),
            seen in any::<prop::sample::Index>(),
            asked_at in 0u64..40,
            tier in prop::sample::select(&Tier::ALL),
        ) {
            let (action, principal) = (action(), automation());
            let mut modes = Modes::default();
            // The rows after each number of changes, and when they ceased to be in force.
            let mut moments: Vec<(Option<Row>, Option<Row>, Option<u64>)> = vec![(None, None, None)];
            let mut now = 0;
            for (version, (wait, of_org, mode)) in (1..).zip(&changes) {
                now += wait;
                let scope = if *of_org { ORG.to_owned() } else { principal.to_string() };
                prop_assert!(modes.set(second(now), change(scope, *mode, version)).is_ok());
                let row = mode.map(|mode| Row { mode, version });
                let last = moments.last_mut().unwrap();
                last.2 = Some(now);
                let next = if *of_org { (last.0, row, None) } else { (row, last.1, None) };
                moments.push(next);
            }
            let (seen_automation, seen_org, _) = moments[seen.index(moments.len())];
            let decision = decide(tier, seen_automation, seen_org);
            let slice = policy_slice(seen_automation, seen_org);
            let expected = moments.iter().any(|(automation, org, until)| {
                until.is_none_or(|until| until + 5 >= asked_at)
                    && decide(tier, *automation, *org) == decision
                    && policy_slice(*automation, *org) == slice
            });
            let claim = Claim {
                decision: &decision,
                tier,
                action: &action,
                principal: &principal,
                policy_slice: slice,
                asked_at: second(asked_at),
            };
            prop_assert_eq!(modes.rederive(&claim).is_ok(), expected);
        }
    }
}
