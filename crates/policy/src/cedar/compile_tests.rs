//! Tests of which policies are accepted, where problems are reported, and which policies concern an action.

use super::*;
use crate::fixtures::{action, actions, named, only};
use crate::limits::{POLICIES_MAX, POLICY_ID_CHARS_MAX, POLICY_TEXT_BYTES_MAX};
use cedar_policy::Schema;
use countersign_core::Tier;
use countersign_core::action::Effect;

/// One line of a valid text, to put before the part that is wrong.
const FINE: &str = "@id(\"fine\") forbid (principal, action, resource) when { context.drifted };\n";

/// Checks that a text has problems at exactly these places, and that the first message contains these words.
fn check(text: &str, places: &[(u32, u32)], id: Option<&str>, words: &str) {
    for gate in GATES {
        let problems = compile(&only(gate, text), &actions()).unwrap_err();
        let found: Vec<_> = problems.iter().map(|problem| (problem.line, problem.column)).collect();
        assert_eq!(found, places, "{text}\n{problems:#?}");
        assert!(problems.iter().all(|problem| problem.gate == gate));
        assert_eq!(problems[0].id.as_deref(), id, "{text}");
        assert!(problems[0].message.contains(words), "{text}\n{problems:#?}");
    }
}

#[test]
fn the_schema_is_cedar_and_holds_every_action_and_every_group() {
    for actions in [vec![], actions()] {
        let text = schema(&actions);
        let (schema, warnings) = Schema::from_cedarschema_str(&text).unwrap();
        assert_eq!(warnings.count(), 0, "{text}");
        let known: Vec<&str> = schema.actions().map(|action| action.id().unescaped()).collect();
        for name in ["execute", "tier:R0", "tier:R4", "class:danger", "effect:network_call", "effect:device_notification"] {
            assert!(known.contains(&name), "{name} is not in {known:?}");
        }
        for action in &actions {
            assert!(known.contains(&action.id.as_str()));
            assert!(known.contains(&format!("source:{}", action.id.source()).as_str()));
        }
    }
}

#[test]
fn the_schema_is_the_same_whatever_the_order_of_the_actions() {
    let mut reversed = actions();
    reversed.reverse();
    reversed.extend(actions());
    assert_eq!(schema(&reversed), schema(&actions()));
}

#[test]
fn what_is_not_cedar_is_refused_where_it_stops_being_it() {
    check("forbid", &[(1, 7)], None, "unexpected end of input");
    check("@id(\"a\")\nforbid (principal, action,\n  resurce);", &[(3, 3)], None, "");
    check("@id(\"a\")\n  permitt (principal, action, resource);", &[(2, 3)], None, "permitt");
    check(&format!("{FINE}// çéß\n  ; "), &[(3, 3)], None, "unexpected token `;`");
    check("@id(\"ç\") forbid (principal, action, resource) when { context.§ };", &[(1, 62)], None, "invalid token");
}

#[test]
fn a_policy_without_a_name_of_its_own_is_refused_where_it_begins() {
    let bare = "forbid (principal, action, resource) when { context.drifted };";
    check(&format!("{FINE}\n  {bare}"), &[(3, 3)], None, "@id");
    check(&format!("@note(\"x\")\n{bare}"), &[(1, 1)], None, "@id");
    check(&format!("  @id(\"\") {bare}"), &[(1, 3)], None, "@id");
    check(&format!("  @id {bare}"), &[(1, 3)], None, "@id");
    check(&format!("{FINE}  @id(\"fine\")\n{bare}"), &[(2, 3)], Some("fine"), "another policy has the id `fine`");
    check(&format!("@id(\"builtin.invoke\") {bare}"), &[(1, 1)], Some("builtin.invoke"), "Countersign's own");
    check(&format!("@id(\"a b\") {bare}"), &[(1, 1)], Some("a b"), "without spaces");
    let long = "x".repeat(POLICY_ID_CHARS_MAX + 1);
    check(&format!("@id(\"{long}\") {bare}"), &[(1, 1)], Some(&long), "at most");
    check(&format!("{bare}{bare}\n{bare}"), &[(1, 1), (1, 1 + u32::try_from(bare.len()).unwrap()), (2, 1)], None, "@id");
}

#[test]
fn an_id_names_one_policy_over_all_gates() {
    let texts = PolicyTexts { abac: FINE.to_owned(), space: format!("\n{FINE}"), ..PolicyTexts::default() };
    let problems = load(&texts).unwrap_err();
    let [problem] = &problems[..] else { panic!("{problems:?}") };
    assert_eq!((problem.gate, problem.line, problem.column, problem.id.as_deref()), (Gate::Space, 2, 1, Some("fine")));
}

#[test]
fn a_template_is_refused() {
    check(&format!("{FINE}\n @id(\"t\") forbid (principal == ?principal, action, resource);"), &[(3, 2)], Some("t"), "slots");
}

#[test]
fn what_does_not_validate_is_refused_where_it_is_wrong() {
    let policy = |action: &str, condition: &str| {
        format!("{FINE}@id(\"a\")\nforbid (principal, action{action}, resource)\n  when {{ {condition} }};")
    };
    for (text, place, words) in [
        (policy(" == Countersign::Action::\"files.wite_text\"", "context.drifted"), (3, 30), "files.wite_text"),
        (policy(" in [Countersign::Action::\"source:github\"]", "context.drifted"), (3, 31), "source:github"),
        (policy("", "context.risk > 3"), (4, 10), "risk"),
        (policy("", "true &&\n    context.approval.expires > context.now"), (5, 5), "approval"),
        (policy("", "context.tier == \"R2\""), (4, 10), "compatible"),
        (policy("", "context.purpose > 3"), (4, 10), "expected"),
        (policy("", "principal.owner == principal"), (4, 10), "owner"),
        (policy("", "resource in Countersign::Spice::\"x\""), (4, 22), "Spice"),
        (policy("", "Countersign::User::\"çç\" == principal && context.rsk"), (4, 50), "rsk"),
        (policy("", "context.now > datetime(\"tomorrow\")"), (4, 24), "datetime"),
        (policy("", "false"), (2, 1), "impossible"),
        (policy("", "principal is Countersign::Space"), (2, 1), "impossible"),
        (policy("", "context.labels.contains(\"\u{202e}x\")"), (4, 34), "BIDI"),
    ] {
        check(&text, &[place], Some("a"), words);
    }
}

#[test]
fn every_problem_of_every_gate_is_told_at_once_in_order() {
    let texts = PolicyTexts {
        rbac: "\nforbid".to_owned(),
        abac: format!("{FINE}@id(\"b\") forbid (principal, action, resource) when {{ context.x || context.y }};"),
        consent: "forbid (principal, action, resource);".to_owned(),
        space: String::new(),
    };
    let problems = compile(&texts, &actions()).unwrap_err();
    let found: Vec<_> = problems.iter().map(|problem| (problem.gate, problem.line)).collect();
    assert_eq!(found, [(Gate::Rbac, 2), (Gate::Abac, 2), (Gate::Abac, 2), (Gate::Consent, 1)], "{problems:#?}");
}

#[test]
fn a_policy_about_a_group_nothing_is_in_yet_is_accepted() {
    let groups = ["tier:R4", "class:danger", "effect:device_notification", "execute"];
    for group in groups {
        let text = format!("@id(\"a\") forbid (principal is Countersign::Agent, action in Countersign::Action::\"{group}\", resource);");
        compile(&only(Gate::Abac, &text), &[]).unwrap();
    }
}

#[test]
fn a_policy_about_an_action_that_has_gone_is_still_loaded_and_says_nothing_of_others() {
    let text = "@id(\"a\") forbid (principal, action == Countersign::Action::\"gone.action\", resource) when { context.unknown };";
    assert!(compile(&only(Gate::Abac, text), &actions()).is_err());
    let policies = load(&only(Gate::Abac, text)).unwrap();
    assert_eq!(policies.len(), 1);
    assert!(actions().iter().all(|action| policies.slice_of(action).is_none()));
    assert_eq!(policies.slice_of(&action("gone.action", Tier::R0, &[], &[])), Some(format!("// abac\n{text}\n")));
}

#[test]
fn texts_of_more_than_the_bounds_are_refused() {
    let blank = " ".repeat(POLICY_TEXT_BYTES_MAX + 1);
    check(&blank, &[(1, 1)], None, "bytes");
    let many =
        |from: usize, to: usize| (from..to).map(|n| format!("@id(\"{n}\") forbid (principal, action, resource);\n")).collect::<String>();
    let half = POLICIES_MAX / 2;
    let texts = |last| PolicyTexts { abac: many(0, half), space: many(half, last), ..PolicyTexts::default() };
    assert_eq!(load(&texts(POLICIES_MAX)).unwrap().len(), POLICIES_MAX);
    assert!(load(&texts(POLICIES_MAX + 1)).unwrap_err()[0].message.contains("2001 policies"));
}

#[test]
fn what_is_nested_beyond_the_bound_is_refused_instead_of_ending_the_process() {
    for (open, close) in [("(", ")"), ("[", "]"), ("{a:", "}"), ("if true then true else ", "")] {
        let levels = POLICY_TEXT_BYTES_MAX / 40;
        let text =
            format!("@id(\"a\") forbid (principal, action, resource) when {{ {}true{} }};", open.repeat(levels), close.repeat(levels));
        assert!(load(&only(Gate::Abac, &text)).is_err(), "{open}");
    }
}

#[test]
fn the_most_nested_and_the_longest_policy_that_is_accepted_can_be_read_checked_and_dropped() {
    use crate::limits::{POLICY_BYTES_MAX, POLICY_DEPTH_MAX};
    let levels = POLICY_DEPTH_MAX - 1;
    let ifs = format!("{}true", "if context.drifted then true else (".repeat(levels)) + &")".repeat(levels);
    let chain = |link: &str, end: &str| format!("{}{end}", link.repeat((POLICY_BYTES_MAX - 100) / link.len()));
    for condition in [ifs, chain("true&&", "context.drifted"), chain("1+", "1 > context.tier"), format!("context{}", chain(".a", ""))] {
        let text = format!("@id(\"a\") forbid (principal, action, resource) when {{ {condition} }};");
        drop(load(&only(Gate::Abac, &text)).unwrap());
        // An error because the policy is too deep for the validator is acceptable; a crash of the process is not.
        drop(compile(&only(Gate::Abac, &text), &actions()));
    }
}

#[test]
fn a_slice_is_the_text_of_what_concerns_the_action_by_gate_and_id_and_nothing_else() {
    let about = |id: &str, action: &str| format!("@id(\"{id}\")\nforbid (principal, action{action}, resource) when {{ context.drifted }};");
    let (writes, all) = (about("b", " in Countersign::Action::\"class:write\""), about("a", ""));
    let (one, other) = (about("c", " == Countersign::Action::\"files.write_text\""), about("d", " == Countersign::Action::\"files.list\""));
    let texts = PolicyTexts { space: format!("{one} // why\n\n{other}"), abac: format!("{writes}\n// x\n{all}"), ..PolicyTexts::default() };
    let policies = compile(&texts, &actions()).unwrap();
    let write = named("files.write_text");
    assert_eq!(policies.slice_of(&write), Some(format!("// abac\n{all}\n// abac\n{writes}\n// space\n{one}\n")));
    assert_eq!(policies.slice_of(&named("files.list")), Some(format!("// abac\n{all}\n// space\n{other}\n")));
    assert_eq!(load(&texts).unwrap().slice_of(&write), policies.slice_of(&write));
    let only_write = compile(&only(Gate::Space, &one), &actions()).unwrap();
    assert_eq!(only_write.slice_of(&named("files.list")), None);
    assert_eq!(compile(&PolicyTexts::default(), &actions()).unwrap().slice_of(&write), None);
}

#[test]
fn a_definition_that_moves_to_another_tier_sees_other_policies() {
    let text = "@id(\"a\") forbid (principal, action in Countersign::Action::\"tier:R4\", resource);";
    let policies = compile(&only(Gate::Abac, text), &actions()).unwrap();
    let before = named("files.write_text");
    assert_eq!(policies.slice_of(&before), None);
    let after = action("files.write_text", Tier::R4, &before.effects, &["files.write"]);
    assert_eq!(policies.slice_of(&after), Some(format!("// abac\n{text}\n")));
    assert_eq!(policies.slice_of(&before), None);
}

#[test]
fn texts_read_back_and_absent_ones_are_empty() {
    let texts = PolicyTexts { abac: FINE.to_owned(), ..PolicyTexts::default() };
    let json = serde_json::to_string(&texts).unwrap();
    assert_eq!(serde_json::from_str::<PolicyTexts>(&json).unwrap(), texts);
    assert_eq!(serde_json::from_str::<PolicyTexts>("{}").unwrap(), PolicyTexts::default());
    assert!(serde_json::from_str::<PolicyTexts>(r#"{"safety":""}"#).is_err());
    assert_eq!(texts.text_of(Gate::Abac), Some(FINE));
    assert_eq!((texts.text_of(Gate::Safety), texts.text_of(Gate::Redaction)), (None, None));
}

#[test]
fn a_check_looks_at_every_action_a_policy_names_and_at_every_kind_of_the_others() {
    let mut many: Vec<_> = (0..300).map(|n| action(&format!("files.extra_{n}"), Tier::R2, &[Effect::FilesystemWrite], &[])).collect();
    many.extend(actions());
    let policy = |scope: &str, condition: &str| format!("@id(\"a\") forbid (principal, action{scope}, resource) {condition};");
    let writes = "when { action in Countersign::Action::\"source:files\" } unless { action == Countersign::Action::\"files.write_text\" }";
    for (text, is_accepted) in [
        // Another R2 action of the source makes the policy possible; without one it could never apply.
        (policy(" in Countersign::Action::\"tier:R2\"", writes), true),
        (policy(" == Countersign::Action::\"files.extra_299\"", "when { context.drifted }"), true),
        (policy(" == Countersign::Action::\"files.extra_300\"", "when { context.drifted }"), false),
        (policy("", "when { action == Countersign::Action::\"files.extra_300\" }"), false),
        (policy(" in Countersign::Action::\"tier:R2\"", "when { action in Countersign::Action::\"source:http\" }"), false),
    ] {
        assert_eq!(compile(&only(Gate::Abac, &text), &many).is_ok(), is_accepted, "{text}");
    }
    assert!(compile(&only(Gate::Abac, &policy(" in Countersign::Action::\"tier:R2\"", writes)), &actions()).is_err());
}
