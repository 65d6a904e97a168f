//! Tests of the cascade and of every rule that tightens it: by example, by property, and cell by cell against the table in the docs.

use super::*;
use countersign_core::action::Profile;
use proptest::prelude::*;

const DOCS: &str = include_str!("../../../docs/concepts/decision-table.md");

fn row(mode: Mode, version: i64, lock: Lock) -> ModeRow {
    ModeRow { mode, version, lock }
}

fn rules(automation: Option<Mode>, org: Option<Mode>) -> Rules {
    let modes = ModeRows { automation: automation.map(|mode| row(mode, 7, Lock::Open)), org: org.map(|mode| row(mode, 3, Lock::Open)) };
    Rules { version: 9, modes, band: Band::Green, policies: None }
}

fn facts(tier: Tier) -> Facts {
    Facts { tier, profile: Profile::InProcess, drift: Drift::None, asks: None, stopped: None }
}

fn check(tier: Tier, rules: &Rules, expected: &Decision) {
    assert_eq!(decide(&facts(tier), rules), expected.clone().under(9), "{tier} {rules:?}");
}

/// No row, and one row of each mode.
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
fn what_is_observed_says_what_could_have_answered_instead_of_a_person() {
    let check = |facts: &Facts, rules: &Rules, one_person: bool, expected: Observed| {
        let decision = decide(facts, rules);
        assert_eq!(decision.mode, Mode::RequireApproval, "{facts:?} {rules:?}");
        assert_eq!(observed(&decision, facts, rules, facts.tier, one_person), expected, "{facts:?} {rules:?}");
    };
    let (asks, banded) = (Some(Mode::RequireApproval), |band| Rules { band, ..rules(None, None) });
    check(&facts(Tier::R2), &rules(None, None), true, Observed::Mode);
    check(&facts(Tier::R2), &rules(None, None), false, Observed::Person);
    check(&facts(Tier::R3), &rules(None, None), true, Observed::Grant);
    // What somebody has chosen is not suggested away.
    check(&facts(Tier::R2), &rules(None, asks), true, Observed::Grant);
    check(&facts(Tier::R2), &rules(asks, None), true, Observed::Grant);
    check(&facts(Tier::R2), &banded(Band::Amber), true, Observed::Grant);
    check(&facts(Tier::R0), &banded(Band::Black), true, Observed::Person);
    check(&facts(Tier::R4), &rules(None, asks), true, Observed::Held);
    check(&Facts { drift: Drift::Structural, ..facts(Tier::R2) }, &rules(None, None), true, Observed::Person);
    for gate in [Gate::Safety, Gate::Abac] {
        check(&Facts { asks: Some(gate), ..facts(Tier::R2) }, &rules(None, None), true, Observed::Person);
    }
}

#[test]
fn under_a_locked_row_an_automation_can_only_tighten() {
    for (automation, org) in Mode::ALL.into_iter().flat_map(|automation| Mode::ALL.map(|org| (automation, org))) {
        let modes = ModeRows { automation: Some(row(automation, 7, Lock::Open)), org: Some(row(org, 3, Lock::Locked)) };
        let decision = decide(&facts(Tier::R2), &Rules { version: 9, modes, band: Band::Green, policies: None });
        assert_eq!(decision.mode, automation.max(org));
        let expected = if automation < org { ModeSource::OrgDefault } else { ModeSource::AutomationOverride };
        assert_eq!(decision.source, expected, "{automation} under a locked {org}");
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
fn what_raised_the_mode_is_named_in_order_and_what_did_not_is_not() {
    let facts = Facts { tier: Tier::R1, profile: Profile::InProcess, drift: Drift::Structural, asks: Some(Gate::Consent), stopped: None };
    let allowed = rules(None, None);
    let decision = decide(&facts, &allowed);
    assert_eq!(decision.tightened, [Reason::Drift { drift: Drift::Structural }], "the gate asks for no more than the drift");
    let red = decide(&facts, &Rules { band: Band::Red, ..allowed });
    assert_eq!(red.tightened, [Reason::Band { band: Band::Red }]);
    let black = decide(&facts, &Rules { band: Band::Black, ..allowed });
    assert_eq!((black.mode, black.tightened), (Mode::Deny, vec![Reason::Band { band: Band::Black }]));
    let asked = decide(&Facts { drift: Drift::None, ..facts.clone() }, &allowed);
    assert_eq!(asked.tightened, [Reason::Gate { gate: Gate::Consent }]);
}

fn any_rules() -> impl Strategy<Value = Rules> {
    let mode = prop::option::of(prop::sample::select(&Mode::ALL[..]));
    let lock = prop::sample::select(&[Lock::Open, Lock::Locked][..]);
    (mode.clone(), mode, lock, prop::sample::select(&Band::ALL[..])).prop_map(|(automation, org, lock, band)| Rules {
        version: 9,
        modes: ModeRows { automation: automation.map(|mode| row(mode, 7, Lock::Open)), org: org.map(|mode| row(mode, 3, lock)) },
        band,
        policies: None,
    })
}

fn any_facts() -> impl Strategy<Value = Facts> {
    let asks = prop::option::of(prop::sample::select(&Gate::ALL[..]));
    (prop::sample::select(&Tier::ALL[..]), prop::sample::select(&Drift::ALL[..]), asks, any::<bool>()).prop_map(
        |(tier, drift, asks, stopped)| Facts {
            tier,
            profile: Profile::InProcess,
            drift,
            asks,
            stopped: stopped.then_some(SwitchScope::Org),
        },
    )
}

proptest! {
    #[test]
    fn nothing_is_looser_than_its_base_and_danger_is_never_allowed(facts in any_facts(), rules in any_rules()) {
        let decision = decide(&facts, &rules);
        prop_assert!(decision.mode >= decision.base);
        prop_assert!(facts.tier != Tier::R4 || decision.mode > Mode::Allow);
        prop_assert_eq!(decision.mode > decision.base, !decision.tightened.is_empty());
    }

    #[test]
    fn drift_never_loosens(facts in any_facts(), rules in any_rules()) {
        let reviewed = Facts { drift: Drift::None, ..facts.clone() };
        prop_assert!(decide(&facts, &rules).mode >= decide(&reviewed, &rules).mode);
        prop_assert!(!is_grantable(&decide(&facts, &rules), &facts, &rules) || is_grantable(&decide(&reviewed, &rules), &reviewed, &rules));
    }

    #[test]
    fn a_kill_switch_stops_whatever_it_covers(facts in any_facts(), rules in any_rules()) {
        let stopped = Facts { stopped: Some(SwitchScope::Org), ..facts };
        prop_assert_eq!(decide(&stopped, &rules).mode, Mode::Deny);
    }

    #[test]
    fn a_gate_that_asks_never_loosens(facts in any_facts(), rules in any_rules()) {
        let silent = Facts { asks: None, ..facts.clone() };
        prop_assert!(decide(&facts, &rules).mode >= decide(&silent, &rules).mode);
    }

    #[test]
    fn a_stricter_band_or_row_or_a_lock_never_loosens(facts in any_facts(), rules in any_rules(), other in any_rules()) {
        let decided = decide(&facts, &rules).mode;
        let banded = Rules { band: rules.band.max(other.band), ..rules };
        prop_assert!(decide(&facts, &banded).mode >= decided);
        let mut locked = rules;
        if let Some(org) = &mut locked.modes.org {
            org.lock = Lock::Locked;
        }
        prop_assert!(decide(&facts, &locked).mode >= decided);
        let mut stricter = rules;
        for (ours, theirs) in [(&mut stricter.modes.automation, other.modes.automation), (&mut stricter.modes.org, other.modes.org)] {
            if let (Some(ours), Some(theirs)) = (ours, theirs) {
                ours.mode = ours.mode.max(theirs.mode);
            }
        }
        prop_assert!(decide(&facts, &stricter).mode >= decided);
    }

    #[test]
    fn a_grant_stands_in_only_where_a_person_is_asked(facts in any_facts(), rules in any_rules()) {
        let decision = decide(&facts, &rules);
        if is_grantable(&decision, &facts, &rules) {
            prop_assert_eq!(decision.mode, Mode::RequireApproval);
            prop_assert!(facts.tier < Tier::R4 && facts.drift == Drift::None && rules.band < Band::Black);
            prop_assert!(facts.asks != Some(Gate::Safety));
        }
    }
}

#[test]
fn a_package_at_r3_or_r4_runs_for_nobody_but_a_person() {
    for tier in Tier::ALL {
        for profile in [Profile::InProcess, Profile::Default, Profile::HighIsolation] {
            let facts = Facts { profile, ..facts(tier) };
            let rules = rules(None, Some(Mode::Allow));
            let decision = decide(&facts, &rules);
            let asks = tier == Tier::R4 || (tier == Tier::R3 && profile != Profile::InProcess);
            assert_eq!(decision.mode, if asks { Mode::RequireApproval } else { Mode::Allow }, "{tier} {profile:?}");
            assert!(!asks || !is_grantable(&decision, &facts, &rules), "{tier} {profile:?}");
        }
    }
    let facts = Facts { profile: Profile::Default, ..facts(Tier::R3) };
    let decision = decide(&facts, &rules(None, Some(Mode::Allow)));
    assert_eq!(decision.tightened, [Reason::PackageNeverUnattended]);
    assert!(!is_grantable(&decide(&facts, &rules(None, None)), &facts, &rules(None, None)));
}

/// Checks every cell of the table in the docs: a row for each band and tier, a column for each combination of mode, drift and grant.
#[test]
fn every_cell_is_what_the_docs_say() {
    let mut cells = 0;
    let mut table = table(DOCS.split_once("\n## ").unwrap().0);
    let columns: Vec<Column> = table.next().unwrap().skip(2).map(Column::parse).collect();
    assert_eq!(columns.len(), 4 * 2 * 2, "no row and three modes, with and without drift, with and without a grant");
    for line in table.skip(1) {
        let words: Vec<_> = line.collect();
        let (band, tier) = (Band::parse(words[0]).unwrap(), Tier::ALL.into_iter().find(|tier| tier.as_str() == words[1]).unwrap());
        for (column, expected) in columns.iter().zip(&words[2..]) {
            for drift in column.drifts {
                let facts = Facts { tier, profile: Profile::InProcess, drift: *drift, asks: None, stopped: None };
                let rules = Rules { band, ..rules(None, column.mode) };
                let decision = decide(&facts, &rules);
                let found = cell(&decision, column.has_grant && is_grantable(&decision, &facts, &rules));
                assert_eq!(found, *expected, "{band:?} {tier} {column:?}");
                cells += 1;
            }
        }
    }
    assert_eq!(cells, Band::ALL.len() * Tier::ALL.len() * 4 * Drift::ALL.len() * 2);
}

/// Checks every cell of the second table: a row for each gate that can ask, for the tiers and bands that a grant can cover.
#[test]
fn every_cell_of_a_gate_that_asks_is_what_the_docs_say() {
    let mut cells = 0;
    let mut table = table(DOCS.split_once("\n## ").unwrap().1);
    let columns: Vec<Column> = table.next().unwrap().skip(1).map(Column::parse).collect();
    assert_eq!(columns.len(), 4 * 2, "no row and three modes, with and without a grant");
    for line in table.skip(1) {
        let words: Vec<_> = line.collect();
        let asks = Gate::ALL.into_iter().find(|gate| gate.as_str() == words[0]);
        assert!(asks.is_some() || words[0] == "none", "{}", words[0]);
        let tiers = Tier::ALL.into_iter().filter(|tier| tier.class() == Class::Write);
        for (tier, (column, expected)) in tiers.flat_map(|tier| columns.iter().zip(&words[1..]).map(move |cell| (tier, cell))) {
            for band in [Band::Green, Band::Amber, Band::Red] {
                // In amber and red an `allow` becomes an approval because of the band; the first table covers that.
                if band != Band::Green && column.mode == Some(Mode::Allow) {
                    continue;
                }
                let facts = Facts { tier, profile: Profile::InProcess, drift: Drift::None, asks, stopped: None };
                let rules = Rules { band, ..rules(None, column.mode) };
                let decision = decide(&facts, &rules);
                let found = cell(&decision, column.has_grant && is_grantable(&decision, &facts, &rules));
                assert_eq!(found, *expected, "{asks:?} {band:?} {tier} {column:?}");
                cells += 1;
            }
        }
    }
    let tiers = Tier::ALL.into_iter().filter(|tier| tier.class() == Class::Write).count();
    assert_eq!(cells, 5 * tiers * 2 * (1 + 3 * 3), "nobody and four gates");
}

#[test]
fn of_several_gates_that_ask_the_one_that_no_grant_answers_is_named() {
    let asks = |gates: &[Gate]| {
        let verdicts: Vec<_> = gates.iter().map(|gate| GateVerdict::new(*gate, Verdict::NeedsApproval, Vec::new())).collect();
        asking(&verdicts)
    };
    assert_eq!(asks(&[]), None);
    assert_eq!(asks(&[Gate::Consent, Gate::Space]), Some(Gate::Consent));
    assert_eq!(asks(&[Gate::Abac, Gate::Safety]), Some(Gate::Safety));
    assert_eq!(asking(&[GateVerdict::new(Gate::Safety, Verdict::Ok, Vec::new())]), None);
}

fn table(docs: &'static str) -> impl Iterator<Item = impl Iterator<Item = &'static str>> {
    docs.lines().filter(|line| line.starts_with('|')).map(|line| line.trim_matches('|').split('|').map(str::trim))
}

fn cell(decision: &Decision, is_granted: bool) -> &'static str {
    match decision.mode {
        Mode::Allow => "runs",
        Mode::RequireApproval if is_granted => "granted",
        Mode::RequireApproval => "asks",
        Mode::Deny => "no",
    }
}

#[derive(Debug)]
struct Column {
    mode: Option<Mode>,
    drifts: &'static [Drift],
    has_grant: bool,
}

impl Column {
    /// Reads `allow`, `allow +drift`, `allow +grant` or `allow +drift +grant`; `unset` means no row.
    fn parse(text: &str) -> Self {
        let mut words = text.split(' ');
        let mode = words.next().unwrap();
        let rest: Vec<_> = words.collect();
        Self {
            mode: (mode != "unset").then(|| Mode::parse(mode).unwrap()),
            drifts: if rest.contains(&"+drift") { &[Drift::Textual, Drift::Structural, Drift::Appeared] } else { &[Drift::None] },
            has_grant: rest.contains(&"+grant"),
        }
    }
}
