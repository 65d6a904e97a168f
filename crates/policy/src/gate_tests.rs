//! Tests of the built-in rules of each gate, and of their combination with policies.

use super::*;
use crate::cedar::compile;
use crate::fixtures::{Scene, actions, agent, invokers, only, service, user};
use countersign_core::action::Effect;
use countersign_core::principal::{Permission, Role};
use countersign_core::{Action, Band, Principal, SpaceId};
use serde_json::json;
use std::sync::Arc;

fn check(verdicts: &[GateVerdict], gate: Gate, verdict: Verdict, determining: &[&str]) {
    let expected = GateVerdict::new(gate, verdict, determining.iter().map(|&rule| rule.to_owned()).collect());
    assert_eq!(verdicts.iter().find(|verdict| verdict.gate == gate), Some(&expected));
    if verdict == Verdict::Deny {
        assert_eq!(denied(verdicts), Some(&expected));
    }
}

#[test]
fn whoever_may_invoke_holds_the_permissions_of_the_actions_we_ship() {
    for principal in invokers() {
        let verdicts = Scene::new().by(principal).requiring(&["files.write", "notify.send"]).verdicts(None);
        check(&verdicts, Gate::Rbac, Verdict::Ok, &["builtin.invoke", "builtin.holds:files.write", "builtin.holds:notify.send"]);
        check(&verdicts, Gate::Space, Verdict::Ok, &["builtin.same_space"]);
        for gate in [Gate::Abac, Gate::Consent, Gate::Safety, Gate::Redaction] {
            check(&verdicts, gate, Verdict::NotApplicable, &[]);
        }
        assert_eq!(denied(&verdicts), None);
    }
}

#[test]
fn what_is_of_class_high_and_does_more_than_read_needs_a_consent_or_an_approval() {
    let asks = ["builtin.consent"];
    let scene = |id: &str| {
        let mut scene = Scene { action: crate::fixtures::named(id), ..Scene::new() };
        scene.space.asks_consent = true;
        scene
    };
    let check_consent = |scene: &Scene, verdict, determining: &[&str]| check(&scene.verdicts(None), Gate::Consent, verdict, determining);
    let high = scene("http.request");
    check_consent(&high, Verdict::NeedsApproval, &asks);
    for given in ["action:http.request", "action:http.*"] {
        let given = Scene { consents: vec![given.to_owned()], ..high.clone() };
        check_consent(&given, Verdict::Ok, &["builtin.consent", &given.consents[0]]);
    }
    for other in ["action:http.get", "action:files.*", "action:*", "redaction:http.request"] {
        check_consent(&Scene { consents: vec![other.to_owned()], ..high.clone() }, Verdict::NeedsApproval, &asks);
    }
    let approved = Scene { approval: Some(crate::fixtures::approval()), ..high.clone() };
    check_consent(&approved, Verdict::Ok, &["builtin.consent_by_approval"]);
    // An operator listed the hosts that are read, and what stays on this machine is of another class.
    for id in ["http.get", "files.read_text", "files.write_text", "files.delete"] {
        check_consent(&scene(id), Verdict::NotApplicable, &[]);
    }
    // A camera is no listed host.
    let mut camera = scene("files.read_text");
    let looks = Action { effects: vec![Effect::Camera], ..Action::clone(&camera.action) };
    camera.action = Arc::new(looks);
    check_consent(&camera, Verdict::NeedsApproval, &asks);
    // What reaches into another space is of class HIGH, and a read of one is not asked about.
    let elsewhere = json!({ "space_id": SpaceId::new(crate::fixtures::AT, [7; 10]).to_string() });
    let crossing = |id: &str| Scene { params: elsewhere.clone(), cross_space_listed: true, ..scene(id) };
    check_consent(&crossing("files.write_text"), Verdict::NeedsApproval, &asks);
    check_consent(&crossing("files.read_text"), Verdict::NotApplicable, &[]);
    let mut waived = high;
    waived.space.asks_consent = false;
    check_consent(&waived, Verdict::NotApplicable, &[]);
}

#[test]
fn whoever_may_not_invoke_is_denied_even_what_requires_nothing_and_whatever_a_policy_permits() {
    let policies = compile(&only(Gate::Rbac, "@id(\"rbac.all\") permit (principal, action, resource);"), &actions()).unwrap();
    for principal in [user(None), user(Some(Role::Viewer)), service(&[]), service(&[Permission::Read, Permission::ManagePolicy])] {
        for requires in [&[][..], &["files.write"]] {
            for policies in [None, Some(&policies)] {
                let verdicts = Scene::new().by(principal.clone()).requiring(requires).verdicts(policies);
                check(&verdicts, Gate::Rbac, Verdict::Deny, &["builtin.invoke"]);
            }
        }
    }
}

#[test]
fn an_agent_of_a_viewer_invokes_nothing() {
    for (owner_role, verdict) in Role::ALL.into_iter().map(|role| (role, if role == Role::Viewer { Verdict::Deny } else { Verdict::Ok })) {
        for principal in [agent(), Principal { owner: agent().owner, ..service(&[Permission::Invoke]) }] {
            let scene = Scene { owner_role: Some(owner_role), ..Scene::new().by(principal).requiring(&[]) };
            check(&scene.verdicts(None), Gate::Rbac, verdict, &["builtin.invoke"]);
        }
    }
}

#[test]
fn a_permission_nobody_gave_is_denied_and_named() {
    for (permission, rule) in [
        ("billing.refund", "builtin.holds:billing.refund"),
        ("files", "builtin.holds:files"),
        ("files.", "builtin.holds:files."),
        ("filesystem.write", "builtin.holds:filesystem.write"),
        ("Files.write", "builtin.holds:Files.write"),
        ("", "builtin.holds:"),
        ("*", "builtin.holds:*"),
    ] {
        let scene = Scene::new().by(user(Some(Role::Owner))).requiring(&["files.read", permission]);
        check(&scene.verdicts(None), Gate::Rbac, Verdict::Deny, &[rule]);
    }
}

#[test]
fn a_permit_of_the_org_gives_a_permission_and_its_forbid_takes_one() {
    let refunds = r#"
        @id("rbac.refunds") permit (principal in Countersign::Role::"admin", action == Countersign::Action::"billing.refund.v2", resource);
        @id("rbac.agents") forbid (principal is Countersign::Agent, action in Countersign::Action::"class:write", resource);
    "#;
    let policies = compile(&only(Gate::Rbac, refunds), &actions()).unwrap();
    let missing = "builtin.holds:billing.refund";
    for (principal, action, verdict, determining) in [
        (user(Some(Role::Admin)), "billing.refund.v2", Verdict::Ok, &["builtin.invoke", "rbac.refunds"][..]),
        (user(Some(Role::Owner)), "billing.refund.v2", Verdict::Deny, &[missing]),
        (agent(), "billing.refund.v2", Verdict::Deny, &[missing, "rbac.agents"]),
        (agent(), "files.write_text", Verdict::Deny, &["rbac.agents"]),
        (agent(), "files.list", Verdict::Ok, &["builtin.invoke", "builtin.holds:files.read"]),
        (user(Some(Role::Admin)), "files.write_text", Verdict::Ok, &["builtin.invoke", "builtin.holds:files.write"]),
    ] {
        check(&Scene::new().by(principal).of(action).verdicts(Some(&policies)), Gate::Rbac, verdict, determining);
    }
}

#[test]
fn a_call_that_names_another_space_or_something_that_is_no_space_is_denied() {
    let here = Scene::new().space.id;
    for (params, expected) in [
        (json!({}), Verdict::Ok),
        (json!(null), Verdict::Ok),
        (json!({ "space_id": here.as_str() }), Verdict::Ok),
        (json!({ "space_id": null }), Verdict::Ok),
        (json!({ "inner": { "space_id": "elsewhere" } }), Verdict::Ok),
        (json!({ "space_id": SpaceId::new(crate::fixtures::AT, [9; 10]).as_str() }), Verdict::Deny),
        (json!({ "space_id": "" }), Verdict::Deny),
        (json!({ "space_id": here.as_str().to_uppercase() }), Verdict::Deny),
        (json!({ "space_id": [here.as_str()] }), Verdict::Deny),
        (json!({ "space_id": 6 }), Verdict::Deny),
    ] {
        for action in ["files.list", "files.write_text"] {
            let scene = Scene { params: params.clone(), ..Scene::new() }.of(action);
            check(&scene.verdicts(None), Gate::Space, expected, &["builtin.same_space"]);
        }
    }
}

#[test]
fn a_call_that_claims_to_be_in_another_space_is_denied_even_where_a_crossing_is_listed() {
    let here = Scene::new().space;
    let other = SpaceId::new(crate::fixtures::AT, [9; 10]).to_string();
    for (claimed, expected) in [
        (here.id.as_str(), Verdict::Ok),
        (here.name.as_str(), Verdict::Ok),
        (other.as_str(), Verdict::Deny),
        ("elsewhere", Verdict::Deny),
        ("", Verdict::Deny),
    ] {
        for cross_space_listed in [false, true] {
            let scene = Scene { claimed_space: Some(claimed.to_owned()), cross_space_listed, ..Scene::new() };
            check(&scene.verdicts(None), Gate::Space, expected, &["builtin.same_space"]);
        }
    }
}

#[test]
fn an_action_listed_for_another_space_may_reach_it_and_nothing_that_is_no_space() {
    for (space_id, verdict, rule) in [
        (json!("elsewhere"), Verdict::Ok, "builtin.cross_space_listed"),
        (json!(Scene::new().space.id.as_str()), Verdict::Ok, "builtin.same_space"),
        (json!(["elsewhere"]), Verdict::Deny, "builtin.same_space"),
    ] {
        let scene = Scene { params: json!({ "space_id": space_id }), cross_space_listed: true, ..Scene::new() };
        check(&scene.verdicts(None), Gate::Space, verdict, &[rule]);
    }
}

#[test]
fn nobody_acts_in_a_space_above_their_band() {
    for band in Band::ALL {
        for max_band in Band::ALL {
            let mut scene = Scene { max_band, ..Scene::new() };
            scene.space.band = band;
            let (verdict, rule) = if band > max_band { (Verdict::Deny, "builtin.max_band") } else { (Verdict::Ok, "builtin.same_space") };
            check(&scene.verdicts(None), Gate::Space, verdict, &[rule]);
            scene.params = json!({ "space_id": "elsewhere" });
            let both: &[&str] = if band > max_band { &["builtin.same_space", "builtin.max_band"] } else { &["builtin.same_space"] };
            check(&scene.verdicts(None), Gate::Space, Verdict::Deny, both);
        }
    }
}

#[test]
fn of_our_rule_and_a_policy_the_stricter_counts_and_both_are_told_where_they_agree() {
    let text =
        r#"@id("space.quiet") forbid (principal, action in Countersign::Action::"class:write", resource) unless { context has approval };"#;
    let policies = compile(&only(Gate::Space, text), &actions()).unwrap();
    let elsewhere = json!({ "space_id": "elsewhere" });
    let asking = Scene::new();
    let alone = Scene { obtainable: None, ..Scene::new() };
    for (scene, verdict, determining) in [
        (asking.clone().of("files.list"), Verdict::Ok, &["builtin.same_space"][..]),
        (asking.clone(), Verdict::NeedsApproval, &["space.quiet"]),
        (Scene { params: elsewhere.clone(), ..asking.clone() }, Verdict::Deny, &["builtin.same_space"]),
        (Scene { params: elsewhere, ..alone }, Verdict::Deny, &["builtin.same_space", "space.quiet"]),
        (Scene { approval: asking.obtainable.clone(), ..asking }, Verdict::Ok, &["builtin.same_space", "builtin.baseline"]),
    ] {
        check(&scene.verdicts(Some(&policies)), Gate::Space, verdict, determining);
    }
}

#[test]
fn the_first_denial_decides_and_the_others_are_still_told() {
    let verdicts = Scene { params: json!({ "space_id": "elsewhere" }), ..Scene::new() }.by(user(None)).requiring(&[]).verdicts(None);
    assert_eq!(denied(&verdicts).map(|verdict| verdict.gate), Some(Gate::Rbac));
    assert_eq!(verdicts.iter().filter(|verdict| verdict.verdict == Verdict::Deny).count(), 2);
}
