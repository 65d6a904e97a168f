//! Tests of how policies judge calls: conditions, approvals, consents and errors.

use super::*;
use crate::facts::Approval;
use crate::fixtures::{Scene, actions, agent, approval, invokers, only, user, user_id};
use cedar_policy::{Entities, Request, Schema};
use countersign_core::decision::{Drift, GateVerdict, Verdict};
use countersign_core::principal::{Device, Role};
use countersign_core::{Band, Principal, Timestamp, UserId};
use serde_json::json;

const NIGHT: &str = r#"@id("abac.night") forbid (principal is Countersign::Agent, action in Countersign::Action::"tier:R2", resource)
    when { context.now.toTime() >= duration("22h") } unless { context has approval };"#;

fn compiled(gate: Gate, text: &str) -> Policies {
    compile(&only(gate, text), &actions()).unwrap_or_else(|problems| panic!("{text}\n{problems:#?}"))
}

fn verdict(scene: &Scene, policies: &Policies, gate: Gate) -> GateVerdict {
    scene.verdicts(Some(policies)).into_iter().find(|verdict| verdict.gate == gate).unwrap()
}

/// Checks the gate's verdict and the rules it names.
fn check(scene: &Scene, policies: &Policies, gate: Gate, expected: Verdict, determining: &[&str]) {
    let found = verdict(scene, policies, gate);
    assert_eq!((found.verdict, found.determining), (expected, determining.iter().map(|&id| id.to_owned()).collect()));
    assert_eq!(found.errors, Vec::<String>::new());
}

/// Checks that a policy that forbids under this condition does forbid, or does not.
fn check_condition(scene: &Scene, condition: &str, holds: bool) {
    let text = format!("@id(\"x\") forbid (principal, action, resource) when {{ {condition} }};");
    let scene = Scene { obtainable: None, ..scene.clone() };
    let (expected, rule) = if holds { (Verdict::Deny, "x") } else { (Verdict::Ok, "builtin.baseline") };
    check(&scene, &compiled(Gate::Abac, &text), Gate::Abac, expected, &[rule]);
}

fn at(time: &str) -> Timestamp {
    Timestamp::parse(time).unwrap()
}

#[test]
fn what_is_asked_of_cedar_is_what_its_schema_says() {
    let (schema, _) = Schema::from_cedarschema_str(&schema(&actions())).unwrap();
    let policies = compiled(Gate::Abac, "");
    for principal in invokers().into_iter().chain([user(None)]) {
        for action in actions() {
            let scene = Scene {
                consents: vec!["a".to_owned(), "a".to_owned()],
                labels: vec!["web".to_owned()],
                params: json!({ "space_id": "elsewhere" }),
                ..Scene::new()
            };
            let device = Some(Device { name: "kiosk".to_owned(), class: "shared".to_owned() });
            let mut scene = scene.by(Principal { device, ..principal.clone() }).of(action.id.as_str());
            scene.space.members = Some([user_id()].into());
            let call = scene.as_call();
            let slice = policies.slice(&action);
            let entities = policies.vocabulary.entities(&call).unwrap().into_iter().chain([slice.action.clone()]);
            Entities::from_entities(entities, Some(&schema)).unwrap();
            for approval in [None, Some(&approval())] {
                let context = policies.vocabulary.context(&call, approval).unwrap();
                let (who, space) = (policies.vocabulary.principal(&call), policies.vocabulary.space(&call));
                Request::new(who, slice.action.uid(), space, context, Some(&schema)).unwrap();
            }
        }
    }
}

#[test]
fn a_policy_knows_the_members_of_the_space_and_the_device_of_the_principal() {
    let is_member = "principal is Countersign::Agent && principal has owner && resource.members.contains(principal.owner)";
    let is_managed = "principal has device && principal.device.class == \"managed\"";
    let mut closed = Scene::new();
    closed.space.members = Some([user_id()].into());
    check_condition(&closed, is_member, true);
    closed.space.members = Some(Default::default());
    check_condition(&closed, is_member, false);
    check_condition(&Scene::new(), is_member, false);
    let on = |class: &str| {
        let device = Some(Device { name: "a \"quoted\" one".to_owned(), class: class.to_owned() });
        Scene::new().by(Principal { device, ..agent() })
    };
    check_condition(&on("managed"), is_managed, true);
    check_condition(&on("shared"), is_managed, false);
    check_condition(&Scene::new(), is_managed, false);
}

#[test]
fn a_forbid_that_errs_denies_and_says_so() {
    for (text, verdict_without_error) in [
        ("@id(\"x\") forbid (principal, action, resource) when { context.tier + 9223372036854775807 > 0 };", Verdict::Ok),
        ("@id(\"x\") permit (principal, action, resource) when { context.tier * 9223372036854775807 > 0 };", Verdict::Ok),
        ("@id(\"x\") forbid (principal, action, resource) when { Countersign::User::\"usr_somebody\".max_band > 1 };", Verdict::Ok),
    ] {
        for gate in GATES {
            let found = verdict(&Scene::new(), &compiled(gate, text), gate);
            assert_eq!((found.verdict, found.determining), (Verdict::Deny, vec!["x".to_owned()]), "{text}");
            assert_eq!(found.errors.len(), 1, "{text}");
            assert!(found.errors[0].contains("`x`"), "{:?}", found.errors);
            // It is the error that denies: a call that the policy does not concern is not denied.
            let unconcerned = compiled(gate, &text.replace("action,", "action == Countersign::Action::\"files.list\","));
            assert_ne!(verdict(&Scene::new(), &unconcerned, gate).verdict, Verdict::Deny);
            assert_eq!(verdict_without_error, Verdict::Ok);
        }
    }
}

#[test]
fn an_error_denies_beside_a_forbid_and_beside_an_approval() {
    let text = format!("{NIGHT}\n@id(\"x\") forbid (principal, action, resource) when {{ context.tier + 9223372036854775807 > 0 }};");
    let scene = Scene { now: at("2026-01-01T23:00:00Z"), ..Scene::new() };
    for scene in [scene.clone(), Scene { approval: Some(approval()), ..scene }] {
        let found = verdict(&scene, &compiled(Gate::Abac, &text), Gate::Abac);
        assert_eq!(found.verdict, Verdict::Deny);
        assert!(found.determining.contains(&"x".to_owned()) && found.errors.len() == 1, "{found:?}");
    }
    let only_with_approval =
        "@id(\"y\") forbid (principal, action, resource) when { !(context has approval) || context.tier + 9223372036854775807 > 0 };";
    let found = verdict(&Scene::new(), &compiled(Gate::Abac, only_with_approval), Gate::Abac);
    assert_eq!((found.verdict, found.errors.len()), (Verdict::Deny, 1));
}

#[test]
fn what_cannot_be_told_to_cedar_is_denied() {
    let scene = Scene { now: Timestamp::from_micros(i64::MAX), ..Scene::new() };
    let found = verdict(&scene, &compiled(Gate::Abac, NIGHT), Gate::Abac);
    assert_eq!((found.verdict, found.determining), (Verdict::Deny, vec!["builtin.evaluable".to_owned()]));
    assert_eq!(found.errors.len(), 1);
}

#[test]
fn at_night_an_agents_write_asks_for_a_person() {
    let policies = compiled(Gate::Abac, NIGHT);
    let night = Scene { now: at("2026-01-01T22:00:00Z"), ..Scene::new() };
    let day = Scene { now: at("2026-01-01T21:59:59.999999Z"), ..Scene::new() };
    let silent = |scene: Scene| check(&scene, &policies, Gate::Abac, Verdict::NotApplicable, &[]);
    check(&night, &policies, Gate::Abac, Verdict::NeedsApproval, &["abac.night"]);
    check(&day, &policies, Gate::Abac, Verdict::Ok, &["builtin.baseline"]);
    check(&night.clone().by(user(Some(Role::Member))), &policies, Gate::Abac, Verdict::Ok, &["builtin.baseline"]);
    check(&Scene { approval: Some(approval()), ..night.clone() }, &policies, Gate::Abac, Verdict::Ok, &["builtin.baseline"]);
    check(&Scene { obtainable: None, ..night.clone() }, &policies, Gate::Abac, Verdict::Deny, &["abac.night"]);
    silent(night.clone().of("files.list"));
    silent(night.of("files.delete"));
}

#[test]
fn a_denial_no_approval_lifts_stays_one_and_names_every_policy() {
    let never = "@id(\"abac.never\") forbid (principal, action, resource) when { resource.band >= 2 };";
    let policies = compiled(Gate::Abac, &format!("{NIGHT}\n{never}"));
    let mut scene = Scene { now: at("2026-01-01T23:00:00Z"), ..Scene::new() };
    check(&scene, &policies, Gate::Abac, Verdict::NeedsApproval, &["abac.night"]);
    scene.space.band = Band::Red;
    check(&scene, &policies, Gate::Abac, Verdict::Deny, &["abac.never", "abac.night"]);
}

#[test]
fn an_approval_that_was_given_is_judged_and_not_the_one_that_could_be() {
    let other = UserId::new(Timestamp::from_micros(1), [7; 10]);
    let text = format!(
        "@id(\"x\") forbid (principal, action, resource) unless {{ context has approval && context.approval.by.contains(Countersign::User::\"{other}\") && context.now < context.approval.expires }};"
    );
    for gate in [Gate::Abac, Gate::Consent, Gate::Space] {
        let policies = compiled(gate, &text);
        let answer = |approval: Option<Approval>, obtainable: Option<Approval>| {
            verdict(&Scene { approval, obtainable, ..Scene::new() }, &policies, gate).verdict
        };
        let by_other = Approval { by: vec![other.clone()], ..approval() };
        let both = Approval { by: vec![crate::fixtures::user_id(), other.clone()], ..approval() };
        let expired = Approval { expires: Timestamp::from_micros(-1_000), ..by_other.clone() };
        assert_eq!(answer(None, Some(approval())), Verdict::Deny);
        assert_eq!(answer(None, Some(both.clone())), Verdict::NeedsApproval);
        assert_eq!(answer(Some(approval()), Some(both)), Verdict::Deny);
        assert_eq!(answer(Some(by_other.clone()), None), Verdict::Ok);
        assert_eq!(answer(Some(expired), Some(by_other)), Verdict::Deny);
    }
    // No approval replaces a permission.
    assert_eq!(verdict(&Scene::new(), &compiled(Gate::Rbac, NIGHT), Gate::Rbac).verdict, Verdict::Ok);
    let night = Scene { now: at("2026-01-01T23:00:00Z"), ..Scene::new() };
    assert_eq!(verdict(&night, &compiled(Gate::Rbac, NIGHT), Gate::Rbac).verdict, Verdict::Deny);
}

#[test]
fn without_a_consent_for_the_purpose_nothing_leaves() {
    let text = r#"@id("consent.network") forbid (principal, action in Countersign::Action::"effect:network_call", resource)
        unless { context.consents.contains(context.purpose) };"#;
    let policies = compiled(Gate::Consent, text);
    let scene =
        |consents: &[&str]| Scene { consents: consents.iter().map(|&purpose| purpose.to_owned()).collect(), ..Scene::new() }.of("http.get");
    check(&scene(&[]), &policies, Gate::Consent, Verdict::Deny, &["consent.network"]);
    check(&scene(&["action:http.request"]), &policies, Gate::Consent, Verdict::Deny, &["consent.network"]);
    check(&scene(&["x", "action:http.get"]), &policies, Gate::Consent, Verdict::Ok, &["builtin.baseline"]);
    check(&scene(&[]).of("files.list"), &policies, Gate::Consent, Verdict::NotApplicable, &[]);
    // The older word for the same purpose.
    let policies = compiled(Gate::Consent, &text.replace("context.purpose", "\"tool:http.get\""));
    check(&scene(&["action:http.request"]), &policies, Gate::Consent, Verdict::Deny, &["consent.network"]);
    check(&scene(&["action:http.get"]), &policies, Gate::Consent, Verdict::Ok, &["builtin.baseline"]);
}

#[test]
fn every_fact_of_a_call_reaches_the_policies() {
    let scene = Scene {
        now: at("2026-01-01T12:00:00.123456Z"),
        max_band: Band::Red,
        consents: vec!["p".to_owned()],
        labels: vec!["web".to_owned()],
        drift: Drift::Textual,
        params: json!({ "space_id": "elsewhere" }),
        cross_space_listed: true,
        ..Scene::new()
    };
    let mut amber = Scene::new();
    amber.space.band = Band::Amber;
    let owner = crate::fixtures::user_id();
    let space = &scene.space.id;
    for (condition, of_scene, of_plain) in [
        ("context.requires == [\"files.write\"]", true, true),
        ("principal.permissions.containsAll(context.requires)", true, true),
        ("principal.max_band == 2", true, false),
        ("context.consents.contains(\"p\")", true, false),
        ("context.purpose == \"action:files.write_text\"", true, true),
        ("context.now == datetime(\"2026-01-01T12:00:00.123Z\")", true, false),
        ("context.tier == 2", true, true),
        ("context.cross_space", true, false),
        ("context.drifted", true, false),
        ("context.labels.contains(\"web\")", true, false),
        ("resource.band == 1", false, true),
        ("context has approval", false, false),
        (&format!("principal is Countersign::Agent && principal.owner == Countersign::User::\"{owner}\"")[..], true, true),
        (&format!("resource == Countersign::Space::\"{space}\"")[..], true, true),
        ("action in Countersign::Action::\"class:write\" && action in Countersign::Action::\"execute\"", true, true),
        ("action in Countersign::Action::\"source:files\" && action in Countersign::Action::\"effect:filesystem_write\"", true, true),
    ] {
        // An attribute that only an agent has must be guarded by `is` and `has`.
        let condition = condition.replace("Agent && principal.owner", "Agent && principal has owner && principal.owner");
        check_condition(&scene, &condition, of_scene);
        check_condition(&amber, &condition, of_plain);
    }
}

#[test]
fn a_person_is_in_one_role_and_nobody_else_is_in_any() {
    for role in Role::ALL {
        let condition = format!("principal in Countersign::Role::\"{}\"", role.as_str());
        for own in Role::ALL {
            check_condition(&Scene::new().by(user(Some(own))), &condition, own == role);
        }
        check_condition(&Scene::new().by(agent()), &condition, false);
    }
    // A policy that asks this of agents only could never apply. Its author gets an error instead of a policy that protects nothing.
    let text = "@id(\"x\") forbid (principal is Countersign::Agent, action, resource) when { principal in Countersign::Role::\"admin\" };";
    assert!(compile(&only(Gate::Abac, text), &actions()).is_err());
}

#[test]
fn the_person_behind_an_agent_is_known_with_their_role_and_their_limits() {
    for owner_role in Role::ALL {
        let scene = Scene { max_band: Band::Red, owner_role: Some(owner_role), ..Scene::new() };
        let of_owner = |rest: &str| format!("principal is Countersign::Agent && principal has owner && principal.owner{rest}");
        for role in Role::ALL {
            check_condition(&scene, &of_owner(&format!(" in Countersign::Role::\"{}\"", role.as_str())), role == owner_role);
        }
        check_condition(&scene, &of_owner(".max_band == 2"), true);
        // A viewer may not invoke, and so holds none of what invoking takes.
        let may_invoke = owner_role != Role::Viewer;
        check_condition(&scene, &of_owner(".permissions.contains(\"files.write\")"), may_invoke);
        let unshipped = scene.requiring(&["files.write", "billing.refund"]);
        check_condition(&unshipped, &of_owner(".permissions == [\"files.write\"]"), may_invoke);
    }
}

#[test]
fn what_a_caller_wrote_is_a_value_and_never_source() {
    let evil = "\" } ; permit (principal, action, resource); //";
    let policies = compiled(Gate::Abac, "@id(\"x\") forbid (principal, action, resource) unless { context.labels.contains(\"fine\") };");
    let scene = Scene {
        labels: vec![evil.to_owned()],
        consents: vec![evil.to_owned()],
        params: json!({ "space_id": evil }),
        obtainable: None,
        ..Scene::new()
    };
    check(&scene, &policies, Gate::Abac, Verdict::Deny, &["x"]);
}

#[test]
fn a_permit_loosens_nothing_outside_rbac() {
    let text =
        "@id(\"a\") permit (principal, action, resource);\n@id(\"b\") forbid (principal, action, resource) when { context.tier == 2 };";
    for gate in [Gate::Abac, Gate::Consent] {
        check(&Scene { obtainable: None, ..Scene::new() }, &compiled(gate, text), gate, Verdict::Deny, &["b"]);
        check(&Scene::new().of("http.get"), &compiled(gate, text), gate, Verdict::Ok, &["a", "builtin.baseline"]);
    }
}
