//! Which decisions a verifier accepts, by the rules in the log.

use super::*;
use crate::story::second;
use countersign_core::session::{Quorum, SelfApproval};
use countersign_core::{AutomationId, UserId};
use proptest::prelude::*;

#[test]
fn the_text_of_a_policy_slice_is_the_one_policy_pins_too() {
    let row = |mode, lock, version| Some(Row { mode, lock, version });
    for (automation, org, band, expected) in [
        (None, None, Band::Green, r#"{"automation":null,"band":"green","org":null,"rules":"builtin/v3"}"#),
        // The tests of `policy::digest` pin this text as well.
        (
            None,
            row(Mode::Allow, Lock::Locked, 3),
            Band::Red,
            r#"{"automation":null,"band":"red","org":{"lock":"locked","mode":"allow","version":"3"},"rules":"builtin/v3"}"#,
        ),
        (
            row(Mode::Deny, Lock::Open, 9_007_199_254_740_993),
            row(Mode::RequireApproval, Lock::Open, 1),
            Band::Black,
            r#"{"automation":{"lock":"open","mode":"deny","version":"9007199254740993"},"band":"black","org":{"lock":"open","mode":"require_approval","version":"1"},"rules":"builtin/v3"}"#,
        ),
    ] {
        assert_eq!(policy_slice_text(&Seen { automation, org, band }, BUILTIN_RULES, None).as_deref(), Some(expected));
    }
}

fn action() -> ActionId {
    ActionId::parse("files.write_text").unwrap()
}

fn automation() -> PrincipalId {
    PrincipalId::Automation(AutomationId::new(second(0), [3; 10]))
}

fn change(scope: String, mode: Option<Mode>, version: i64) -> ModeBody {
    ModeBody { scope, action: action(), mode, lock: Lock::Open, version, by: PrincipalId::User(UserId::new(second(0), [2; 10])) }
}

fn space() -> SpaceId {
    SpaceId::new(second(0), [4; 10])
}

fn banded(band: Band, version: i64) -> SpaceBody {
    let by = PrincipalId::User(UserId::new(second(0), [2; 10]));
    SpaceBody {
        band,
        by,
        name: "main".to_owned(),
        self_approval: SelfApproval::Allowed,
        space: space(),
        version,
        quorum: Quorum::default(),
        keeps: Default::default(),
        observes: false,
        waives_consent: false,
        redaction: Default::default(),
        members: None,
        defaults: None,
    }
}

#[test]
fn the_changes_of_an_action_that_are_remembered_are_bounded() {
    let mut rules = Rules::default();
    for version in 1..=1_000 {
        let mode = if version % 2 == 0 { Mode::Allow } else { Mode::Deny };
        assert!(rules.set_mode(second(0), change(ORG.to_owned(), Some(mode), version)).is_ok());
    }
    assert_eq!(rules.actions[&action()].changes.len(), CHANGES_KEPT);
    let (action, space, principal) = (action(), space(), automation());
    let mut follows = |version: i64| {
        let decision = Decision::new(Mode::Allow, ModeSource::OrgDefault, Some(version));
        let claim = Claim {
            decision: &decision,
            tier: Tier::R2,
            profile: "in_process",
            action: &action,
            space: &space,
            principal: &principal,
            policy_slice: None,
            policies: None,
            asked_at: second(0),
            moment: When::SinceAsked,
        };
        rules.rederive(&claim).is_ok()
    };
    assert!(follows(1_000) && follows(1_000 - CHANGES_KEPT as i64));
    assert!(!follows(1_000 - CHANGES_KEPT as i64 - 2));
}

proptest! {
    #[test]
    fn a_decision_stands_exactly_if_a_moment_while_the_call_lived_gives_it(
        changes in prop::collection::vec((0u64..8, change_of()), 0..8),
        seen in any::<prop::sample::Index>(),
        asked_at in 0u64..40,
        tier in prop::sample::select(&Tier::ALL),
    ) {
        let (action, space, principal) = (action(), space(), automation());
        let mut rules = Rules::default();
        // The rules after each number of changes, and when they stopped being in force.
        let mut moments = vec![(Seen { automation: None, org: None, band: Band::Green }, None)];
        let mut now = 0;
        for (version, (wait, of)) in (1..).zip(&changes) {
            now += wait;
            let (last, until) = moments.last_mut().unwrap();
            *until = Some(now);
            let Seen { automation, org, band } = *last;
            let row = |mode: &Option<Mode>| mode.map(|mode| Row { mode, lock: Lock::Open, version });
            let next = match of {
                Of::Org(mode) => {
                    prop_assert!(rules.set_mode(second(now), change(ORG.to_owned(), *mode, version)).is_ok());
                    Seen { automation, org: row(mode), band }
                }
                Of::Automation(mode) => {
                    prop_assert!(rules.set_mode(second(now), change(principal.to_string(), *mode, version)).is_ok());
                    Seen { automation: row(mode), org, band }
                }
                Of::Space(band) => {
                    prop_assert!(rules.set_space(second(now), banded(*band, version)).is_ok());
                    Seen { automation, org, band: *band }
                }
            };
            moments.push((next, None));
        }
        let (seen, _) = &moments[seen.index(moments.len())];
        let decision = decide(tier, false, Drift::None, None, seen);
        let slice = policy_slice(seen, BUILTIN_RULES_BEFORE, None);
        let expected = moments.iter().any(|(moment, until)| {
            until.is_none_or(|until: u64| until + 5 >= asked_at)
                && decide(tier, false, Drift::None, None, moment) == decision
                && policy_slice(moment, BUILTIN_RULES_BEFORE, None) == slice
        });
        let claim = Claim {
            decision: &decision,
            tier,
            profile: "in_process",
            action: &action,
            space: &space,
            principal: &principal,
            policy_slice: slice,
            policies: None,
            asked_at: second(asked_at),
            moment: When::SinceAsked,
        };
        prop_assert_eq!(rules.rederive(&claim).is_ok(), expected);
    }
}

#[derive(Clone, Debug)]
enum Of {
    Org(Option<Mode>),
    Automation(Option<Mode>),
    Space(Band),
}

fn change_of() -> impl Strategy<Value = Of> {
    let mode = || prop::option::of(prop::sample::select(&Mode::ALL[..]));
    prop_oneof![mode().prop_map(Of::Org), mode().prop_map(Of::Automation), prop::sample::select(&Band::ALL[..]).prop_map(Of::Space)]
}

#[test]
fn what_only_tightens_is_believed_and_changes_nothing_else() {
    let (action, space, principal) = (action(), space(), automation());
    let check = |tier, reason: Reason, mode, expected: bool| {
        let tightened = vec![reason];
        let decision = Decision { mode, tightened, ..Decision::new(Mode::Allow, ModeSource::InferredDefault, None) };
        let claim = Claim {
            decision: &decision,
            tier,
            profile: "in_process",
            action: &action,
            space: &space,
            principal: &principal,
            policy_slice: None,
            policies: None,
            asked_at: second(0),
            moment: When::SinceAsked,
        };
        assert_eq!(Rules::default().rederive(&claim).is_ok(), expected, "{decision:?}");
    };
    check(Tier::R0, Reason::Drift { drift: Drift::Textual }, Mode::RequireApproval, true);
    check(Tier::R0, Reason::Drift { drift: Drift::Appeared }, Mode::RequireApproval, true);
    check(Tier::R0, Reason::Gate { gate: Gate::Abac }, Mode::RequireApproval, true);
    check(Tier::R0, Reason::Gate { gate: Gate::Abac }, Mode::Deny, false);
    check(Tier::R2, Reason::Drift { drift: Drift::Textual }, Mode::RequireApproval, false);
    check(Tier::R0, Reason::Band { band: Band::Red }, Mode::RequireApproval, false);
    check(Tier::R3, Reason::PackageNeverUnattended, Mode::RequireApproval, false);
}
