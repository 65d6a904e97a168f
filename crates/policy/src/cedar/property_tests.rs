//! Property tests: a `forbid` never loosens a gate, no policy outside rbac loosens one, and the index never changes an answer.

use super::*;
use crate::fixtures::{Scene, actions, agent, automation, named, service, user};
use cedar_policy::{Authorizer, Decision, Entities, PolicySet, Request};
use countersign_core::decision::{Drift, GateVerdict, Verdict};
use countersign_core::principal::{Permission, Role};
use countersign_core::{Band, Timestamp};
use proptest::prelude::*;
use serde_json::json;

const PRINCIPALS: [&str; 5] = [
    "principal",
    "principal is Countersign::Agent",
    "principal is Countersign::User",
    "principal in Countersign::Role::\"admin\"",
    "principal is Countersign::Service",
];

const ACTIONS: [&str; 9] = [
    "action",
    "action in Countersign::Action::\"execute\"",
    "action in Countersign::Action::\"tier:R2\"",
    "action in [Countersign::Action::\"class:read\", Countersign::Action::\"tier:R3\"]",
    "action in Countersign::Action::\"effect:network_call\"",
    "action in Countersign::Action::\"source:files\"",
    "action == Countersign::Action::\"files.write_text\"",
    "action == Countersign::Action::\"billing.refund.v2\"",
    "action in [Countersign::Action::\"files.list\", Countersign::Action::\"http.get\"]",
];

const CONDITIONS: [&str; 11] = [
    "",
    "when { context.drifted }",
    "when { resource.band > 1 }",
    "when { context.labels.contains(\"web\") }",
    "unless { context has approval }",
    "when { context.now.toTime() >= duration(\"22h\") } unless { context has approval }",
    "unless { context.consents.contains(context.purpose) }",
    "when { context has approval && context.approval.expires < context.now }",
    "when { context.tier + 9223372036854775806 > 0 }",
    "when { context.cross_space || principal.max_band < 2 }",
    "unless { principal.permissions.containsAll(context.requires) }",
];

/// A policy without its id.
#[derive(Clone, Debug)]
struct Draft {
    gate: Gate,
    effect: &'static str,
    rest: String,
}

fn draft(gates: &'static [Gate], effects: &'static [&'static str]) -> impl Strategy<Value = Draft> {
    let parts = (prop::sample::select(gates), prop::sample::select(effects));
    let scope = (prop::sample::select(&PRINCIPALS), prop::sample::select(&ACTIONS), prop::sample::select(&CONDITIONS));
    (parts, scope).prop_map(|((gate, effect), (principal, action, condition))| Draft {
        gate,
        effect,
        rest: format!("({principal}, {action}, resource) {condition};"),
    })
}

fn texts(drafts: &[Draft]) -> PolicyTexts {
    let mut texts = PolicyTexts::default();
    for (index, draft) in drafts.iter().enumerate() {
        let policy = format!("@id(\"p{index}\") {} {}\n", draft.effect, draft.rest);
        match draft.gate {
            Gate::Rbac => texts.rbac.push_str(&policy),
            Gate::Abac => texts.abac.push_str(&policy),
            Gate::Consent => texts.consent.push_str(&policy),
            Gate::Space => texts.space.push_str(&policy),
            Gate::Safety | Gate::Redaction => unreachable!(),
        }
    }
    texts
}

fn scene() -> impl Strategy<Value = Scene> {
    let who = prop::sample::select(vec![
        agent(),
        automation(),
        service(&[]),
        service(&[Permission::Invoke]),
        user(None),
        user(Some(Role::Viewer)),
        user(Some(Role::Member)),
        user(Some(Role::Admin)),
    ]);
    let action = prop::sample::select(actions());
    let band = || prop::sample::select(&Band::ALL);
    let facts = (0_i64..48, prop::bool::ANY, prop::bool::ANY, prop::bool::ANY, prop::sample::select(&Drift::ALL));
    let approvals = (prop::bool::ANY, prop::bool::ANY, prop::bool::ANY);
    (who, action, band(), band(), facts, approvals).prop_map(|(who, action, band, max_band, facts, approvals)| {
        let (hour, elsewhere, web, consented, drift) = facts;
        let (given, obtainable, listed) = approvals;
        let mut scene = Scene {
            now: Timestamp::from_micros(hour * 3_600_000_000),
            max_band,
            drift,
            cross_space_listed: listed,
            labels: web.then(|| "web".to_owned()).into_iter().collect(),
            consents: consented.then(|| format!("action:{}", action.id)).into_iter().collect(),
            params: if elsewhere { json!({ "space_id": "elsewhere" }) } else { json!({}) },
            approval: given.then(crate::fixtures::approval),
            obtainable: obtainable.then(crate::fixtures::approval),
            ..Scene::new()
        };
        scene.space.band = band;
        scene.by(who).of(action.id.as_str())
    })
}

fn strictness(verdict: &GateVerdict) -> usize {
    let order = [Verdict::NotApplicable, Verdict::Ok, Verdict::NeedsApproval, Verdict::Deny];
    // A gate without policies lets a call pass, as does a gate whose policies permit it.
    order.iter().position(|&known| known == verdict.verdict).unwrap().max(1)
}

/// Checks that no gate is looser with the second policies than with the first.
fn never_looser(scene: &Scene, before: &[Draft], after: &[Draft]) -> Result<(), TestCaseError> {
    let [before, after] = [before, after].map(|drafts| load(&texts(drafts)).unwrap());
    for (before, after) in scene.verdicts(Some(&before)).iter().zip(&scene.verdicts(Some(&after))) {
        prop_assert!(strictness(before) <= strictness(after), "{before:?} became {after:?}");
        prop_assert!(after.errors.is_empty() || after.verdict == Verdict::Deny, "{after:?}");
    }
    Ok(())
}

const EFFECTS: [&str; 2] = ["permit", "forbid"];
const TIGHTENING: [Gate; 3] = [Gate::Abac, Gate::Consent, Gate::Space];

#[test]
fn every_draft_is_a_valid_policy() {
    let scopes = PRINCIPALS.into_iter().flat_map(|principal| ACTIONS.map(|action| format!("{principal}, {action}, resource")));
    let policies = scopes.flat_map(|scope| CONDITIONS.map(|condition| format!("({scope}) {condition};")));
    let drafts: Vec<Draft> = policies.map(|rest| Draft { gate: Gate::Abac, effect: "forbid", rest }).collect();
    compile(&texts(&drafts), &actions()).unwrap();
}

proptest! {
    // Each case parses its policies anew, which is slow without optimisation.
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_forbid_never_loosens_any_gate(
        scene in scene(),
        before in prop::collection::vec(draft(&GATES, &EFFECTS), 0..6),
        added in draft(&GATES, &["forbid"]),
    ) {
        let after: Vec<Draft> = before.iter().cloned().chain([added]).collect();
        never_looser(&scene, &before, &after)?;
    }

    #[test]
    fn no_policy_of_abac_consent_or_space_ever_loosens_anything(
        scene in scene(),
        before in prop::collection::vec(draft(&GATES, &EFFECTS), 0..6),
        added in draft(&TIGHTENING, &EFFECTS),
    ) {
        let after: Vec<Draft> = before.iter().cloned().chain([added]).collect();
        never_looser(&scene, &before, &after)?;
        never_looser(&scene, &[], &after.into_iter().filter(|draft| draft.gate != Gate::Rbac).collect::<Vec<_>>())?;
    }

    /// The policies that the index leaves out change neither the answer, nor its reasons, nor its errors.
    #[test]
    fn the_policies_of_an_action_always_answer_as_all_would(
        scene in scene(),
        drafts in prop::collection::vec(draft(&[Gate::Abac], &EFFECTS), 1..12),
    ) {
        let policies = load(&texts(&drafts)).unwrap();
        let slice = policies.slice(&scene.action);
        let call = scene.as_call();
        let vocabulary = &policies.vocabulary;
        let context = vocabulary.context(&call, call.approval).unwrap();
        let request = Request::new(vocabulary.principal(&call), slice.action.uid(), vocabulary.space(&call), context, None).unwrap();
        let entities = vocabulary.entities(&call).unwrap().into_iter().chain([slice.action.clone()]);
        let entities = Entities::from_entities(entities, None).unwrap();
        let text = drafts.iter().map(|draft| format!("{} {}\n", draft.effect, draft.rest)).collect::<String>();
        let all: PolicySet = format!("{text}permit (principal, action, resource);").parse().unwrap();
        let response = Authorizer::new().is_authorized(&request, &all, &entities);
        let name = |id: String| if id == format!("policy{}", drafts.len()) { "builtin.baseline".to_owned() } else { id.replace("policy", "p") };
        let mut reasons: Vec<String> = response.diagnostics().reason().map(|id| name(id.to_string())).collect();
        reasons.sort();
        let indexed = slice.sets[1].as_ref().map(|set| Authorizer::new().is_authorized(&request, set.as_ref().as_ref().unwrap(), &entities));
        match indexed {
            None => prop_assert_eq!((response.decision(), reasons), (Decision::Allow, vec!["builtin.baseline".to_owned()])),
            Some(indexed) => {
                let mut found: Vec<String> = indexed.diagnostics().reason().map(ToString::to_string).collect();
                found.sort();
                prop_assert_eq!((indexed.decision(), found), (response.decision(), reasons));
                prop_assert_eq!(indexed.diagnostics().errors().count(), response.diagnostics().errors().count());
            }
        }
    }
}

#[test]
fn a_policy_about_other_actions_is_not_among_those_evaluated() {
    let drafts: Vec<Draft> = ACTIONS
        .iter()
        .map(|action| Draft { gate: Gate::Abac, effect: "forbid", rest: format!("(principal, {action}, resource);") })
        .collect();
    let policies = load(&texts(&drafts)).unwrap();
    for (action, concerning) in [("files.write_text", 5), ("files.list", 5), ("http.get", 5), ("notify.send", 3), ("billing.refund.v2", 5)]
    {
        let slice = policies.slice(&named(action));
        let set = slice.sets[1].as_ref().unwrap().as_ref().as_ref().unwrap();
        assert_eq!(set.num_of_policies(), concerning + 1, "{action}");
        assert!(slice.sets[0].is_none() && slice.sets[2].is_none());
    }
}
