//! Tests that the examples, words and limits in `docs/concepts/policies.md` are true.

use super::*;
use crate::fixtures::{Scene, actions, agent, only, user};
use crate::limits::{POLICIES_MAX, POLICY_BYTES_MAX, POLICY_DEPTH_MAX, POLICY_TEXT_BYTES_MAX};
use countersign_core::Band;
use countersign_core::decision::Verdict;
use countersign_core::principal::Role;

const DOCS: &str = include_str!("../../../../docs/concepts/policies.md");

/// The code blocks of the page in one language.
fn blocks(language: &str) -> Vec<&'static str> {
    let fences = DOCS.split("\n```").collect::<Vec<_>>();
    fences.iter().filter_map(|block| block.strip_prefix(language)?.strip_prefix('\n')).collect()
}

/// The gate an example belongs to: its id begins with the gate's name.
fn gate_of(policy: &str) -> Gate {
    GATES.into_iter().find(|gate| policy.starts_with(&format!("@id(\"{}.", gate.as_str()))).unwrap()
}

#[test]
fn every_example_of_the_page_is_accepted_and_does_what_is_said_of_it() {
    let mut texts = PolicyTexts::default();
    for policy in blocks("cedar") {
        compile(&only(gate_of(policy), policy), &actions()).unwrap_or_else(|problems| panic!("{policy}\n{problems:#?}"));
        let text = match gate_of(policy) {
            Gate::Rbac => &mut texts.rbac,
            Gate::Abac => &mut texts.abac,
            Gate::Consent => &mut texts.consent,
            Gate::Space => &mut texts.space,
            Gate::Safety | Gate::Redaction => unreachable!(),
        };
        text.push_str(policy);
    }
    let policies = compile(&texts, &actions()).unwrap();
    assert_eq!(policies.len(), 6);

    let mut red = Scene::new();
    red.space.band = Band::Red;
    let night = Scene { now: countersign_core::Timestamp::from_micros(23 * 3_600_000_000), ..Scene::new() };
    let web = Scene { labels: vec!["web".to_owned()], ..Scene::new() }.of("http.request");
    let drifted = Scene { drift: countersign_core::decision::Drift::Textual, ..web.clone() };
    let destroy = Scene::new().of("files.delete");
    let for_member = Scene { owner_role: Some(Role::Member), ..destroy.clone() };
    let refund = Scene::new().of("billing.refund.v2");
    for (scene, gate, expected) in [
        (red.clone(), Gate::Space, Verdict::Deny),
        (red.by(user(Some(Role::Member))), Gate::Space, Verdict::Ok),
        (night.clone(), Gate::Abac, Verdict::NeedsApproval),
        (night.of("files.read_text"), Gate::Abac, Verdict::NotApplicable),
        (web.clone(), Gate::Abac, Verdict::NeedsApproval),
        (drifted, Gate::Abac, Verdict::Deny),
        (web.clone(), Gate::Consent, Verdict::Deny),
        (Scene { consents: vec!["action:http.request".to_owned()], ..web }, Gate::Consent, Verdict::Ok),
        (destroy.clone().by(agent()), Gate::Abac, Verdict::Ok),
        (for_member, Gate::Abac, Verdict::Deny),
        (destroy.by(user(Some(Role::Member))), Gate::Abac, Verdict::Ok),
        (refund.clone().by(agent()), Gate::Rbac, Verdict::Deny),
        (refund.clone().by(user(Some(Role::Member))), Gate::Rbac, Verdict::Deny),
        (refund.clone().by(user(Some(Role::Owner))), Gate::Rbac, Verdict::Ok),
        (refund.by(user(Some(Role::Admin))).requiring(&["billing.refund", "billing.close"]), Gate::Rbac, Verdict::Deny),
    ] {
        let verdicts = scene.verdicts(Some(&policies));
        let found = verdicts.iter().find(|verdict| verdict.gate == gate).unwrap();
        assert_eq!(found.verdict, expected, "{scene:#?}\n{found:#?}");
    }
}

#[test]
fn the_words_of_the_page_are_those_of_the_schema() {
    let words = blocks("cedarschema");
    assert_eq!(words.len(), 1);
    let schema = schema(&actions());
    assert!(schema.contains(words[0]), "{schema}");
    for group in ["execute", "class:read", "class:danger", "effect:filesystem_read", "effect:device_notification", "source:files"] {
        assert!(schema.contains(&format!("\"{group}\"")) && DOCS.contains(&format!("`{group}`")), "{group}");
    }
}

#[test]
fn the_limits_of_the_page_are_those_that_hold() {
    let (text, policy) = (POLICY_TEXT_BYTES_MAX / 1024, POLICY_BYTES_MAX / 1024);
    let sentence = format!("Limits: {text} KiB a set, {policy} KiB a policy, {POLICIES_MAX} policies an org, {POLICY_DEPTH_MAX} brackets");
    assert!(DOCS.contains(&sentence), "{sentence}");
}
