//! Drift depends on digests alone; a diff lists every change, and nothing else.

use super::{Change, Edit, Pin, Weight, drift_of, semantic_diff, told};
use crate::digest::{structural, textual, textual_body};
use countersign_core::action::{Effect, Profile, Reversibility};
use countersign_core::decision::Drift;
use countersign_core::{Action, ActionId, Digest, Tier};
use proptest::prelude::*;
use serde_json::{Value, json};

fn action() -> Action {
    Action {
        version: "1.0.0".to_owned(),
        title: "Send a mail".to_owned(),
        description: "Sends a mail.".to_owned(),
        params_schema: json!({ "type": "object", "properties": { "body": { "type": "string", "description": "Plain text." } }, "required": ["body"] }),
        result_schema: json!({ "type": "object" }),
        requires: vec!["mail.send".to_owned()],
        effects: vec![Effect::NetworkCall],
        timeout_ms: 4_000,
        profile: Profile::Default,
        ..Action::new(ActionId::parse("mail.send").unwrap(), Tier::R3)
    }
}

fn body(action: &Action) -> Value {
    serde_json::from_str(&textual_body(action)).unwrap()
}

fn with_params(params_schema: Value) -> Action {
    Action { params_schema, ..action() }
}

#[test]
fn a_change_says_where_it_is_and_how_much_it_weighs() {
    let told = |changed: Action| -> Vec<(String, Weight)> {
        semantic_diff(&body(&action()), &body(&changed)).iter().map(|change| (change.to_string(), change.weight)).collect()
    };
    let one = |text: &str, weight| vec![(text.to_owned(), weight)];
    let body_schema = json!({ "type": "string", "description": "Plain text." });
    for (changed, expected) in [
        (action(), vec![]),
        (Action { description: "Sends.".to_owned(), ..action() }, one("description changed", Weight::Textual)),
        (Action { title: "Mail".to_owned(), ..action() }, one("title changed", Weight::Textual)),
        (Action { version: "2".to_owned(), ..action() }, one("version changed", Weight::Textual)),
        (Action { tier: Tier::R1, ..action() }, one("tier changed", Weight::Risk)),
        (Action { effects: vec![], ..action() }, one("effects changed", Weight::Risk)),
        (Action { requires: vec![], ..action() }, one("requires changed", Weight::Risk)),
        (Action { timeout_ms: 9, ..action() }, one("timeout_ms changed", Weight::Risk)),
        (Action { reversibility: Reversibility::Reversible, ..action() }, one("reversibility changed", Weight::Risk)),
        (Action { preview_reads: Some(action().id), ..action() }, one("preview_reads changed", Weight::Risk)),
        (Action { id: ActionId::parse("mail.post").unwrap(), ..action() }, one("id changed", Weight::Structural)),
        (Action { result_schema: json!({}), ..action() }, one("result_schema/type removed", Weight::Structural)),
        (
            with_params(json!({ "type": "object", "properties": { "body": body_schema, "to": {} }, "required": ["body"] })),
            one("params_schema/properties/to added", Weight::Structural),
        ),
        (
            with_params(json!({ "type": "object", "properties": { "body": body_schema, "description": {} }, "required": ["body"] })),
            one("params_schema/properties/description added", Weight::Structural),
        ),
        (
            with_params(json!({ "type": "object", "properties": { "body": { "type": "string" } }, "required": ["body"] })),
            one("params_schema/properties/body/description removed", Weight::Textual),
        ),
        (
            with_params(json!({ "type": "object", "properties": { "body": body_schema }, "required": ["body", "to"] })),
            one("params_schema/required changed", Weight::Structural),
        ),
        (
            with_params(json!({ "type": "object", "properties": {}, "required": [] })),
            vec![
                ("params_schema/properties/body removed".to_owned(), Weight::Structural),
                ("params_schema/required changed".to_owned(), Weight::Structural),
            ],
        ),
    ] {
        assert_eq!(told(changed.clone()), expected, "{changed:#?}");
    }
}

/// The sentences that a person reads about a changed definition.
fn sentences(before: &Action, after: &Action) -> Vec<String> {
    told(&body(before), &body(after)).into_iter().map(|(_, sentence)| sentence).collect()
}

#[test]
fn a_change_is_told_in_a_sentence() {
    let text = json!({ "type": "string", "description": "Plain text." });
    let params = |properties: Value, required: Value| json!({ "type": "object", "properties": properties, "required": required });
    let before = with_params(params(json!({ "body": text, "state": { "enum": ["open", "closed"] } }), json!(["body"])));
    let with = |properties: Value, required: Value| with_params(params(properties, required));
    let state = json!({ "enum": ["open", "closed"] });
    for (after, expected) in [
        (before.clone(), vec![]),
        (
            with(json!({ "body": text, "state": state, "bypass_checks": { "type": "boolean" } }), json!(["body"])),
            vec!["`send` now takes `bypass_checks`, optional boolean"],
        ),
        (
            with(json!({ "body": text, "state": state, "to": { "type": ["string", "null"] } }), json!(["body", "to"])),
            vec!["`send` now takes `to`, required string or null", "`send` now needs `to`"],
        ),
        (with(json!({ "body": text }), json!(["body"])), vec!["`send` no longer takes `state`"]),
        (with(json!({ "body": text, "state": state }), json!(["body", "state"])), vec!["`send` now needs `state`"]),
        (with(json!({ "body": text, "state": state }), json!([])), vec!["`send` no longer needs `body`"]),
        (
            with(json!({ "body": { "type": "number", "description": "Plain text." }, "state": state }), json!(["body"])),
            vec!["`body` of `send` must be number now, and was string"],
        ),
        (
            with(json!({ "body": { "type": "string", "description": "Any." }, "state": state }), json!(["body"])),
            vec!["the description of `body` of `send` changed"],
        ),
        (
            with(json!({ "body": text, "state": { "enum": ["open", "closed", "all"] } }), json!(["body"])),
            vec!["`state` of `send` can now also be `all`"],
        ),
        (with(json!({ "body": text, "state": {} }), json!(["body"])), vec!["`state` of `send` is no longer limited to certain values"]),
        (Action { description: "Sends it.".to_owned(), ..before.clone() }, vec!["the description of `send` changed"]),
        (Action { tier: Tier::R1, ..before.clone() }, vec!["`tier` of `send` is now `R1`, and was `R3`"]),
        (Action { hosts: vec!["a.example".to_owned()], ..before.clone() }, vec!["`hosts` of `send` now has `a.example`"]),
        (Action { package_sha256: Some(Digest::new([1; 32])), ..before.clone() }, vec!["`send` runs other code"]),
        (
            Action { server_sha256: Some(Digest::new([1; 32])), ..before.clone() },
            vec!["it is another server, or another connection, than the reviewed one"],
        ),
        (
            Action { result_schema: json!({ "type": "object", "properties": { "id": { "type": "string" } } }), ..before.clone() },
            vec!["`send` now returns `id`"],
        ),
    ] {
        assert_eq!(sentences(&before, &after), expected, "{after:#?}");
    }
}

#[test]
fn a_nested_param_is_named_by_its_path_and_names_cannot_hide_anything() {
    let nested = |inner: Value| {
        with_params(json!({ "properties": { "labels": { "type": "array", "items": { "type": "object", "properties": inner } } } }))
    };
    let (before, after) = (nested(json!({ "a": {} })), nested(json!({ "a": {}, "b\u{202e}`": { "type": "string" } })));
    assert_eq!(sentences(&before, &after), [r"`send` now takes `labels[].b\u{202e}``, optional string"]);
    let long = nested(json!({ "a": {}, "x".repeat(500): {} }));
    assert!(sentences(&before, &long)[0].chars().count() < 120);
}

#[test]
fn what_another_server_changed_unseen_is_told_only_where_nothing_else_explains_it() {
    let sent = |byte: u8| Action { upstream_sha256: Some(Digest::new([byte; 32])), ..action() };
    assert_eq!(sentences(&sent(1), &sent(2)), ["its server changed something that Countersign does not read"]);
    assert_eq!(told(&body(&sent(1)), &body(&sent(2)))[0].0.weight, Weight::Textual);
    let described = Action { description: "Other.".to_owned(), ..sent(2) };
    assert_eq!(sentences(&sent(1), &described), ["the description of `send` changed"]);
    let elsewhere = Action { server_sha256: Some(Digest::new([3; 32])), ..sent(2) };
    assert_eq!(sentences(&sent(1), &elsewhere).len(), 2, "another server explains nothing of what it sends");
}

#[test]
fn other_instructions_of_a_server_are_a_textual_change_of_their_own() {
    const INSTRUCTIONS: &str = "its server changed the instructions that agents read";
    let guided = |byte: u8| Action { guide_sha256: Some(Digest::new([byte; 32])), upstream_sha256: Some(Digest::new([9; 32])), ..action() };
    assert_eq!(structural(&guided(1)), structural(&guided(2)));
    assert_ne!(textual(&guided(1)), textual(&guided(2)));
    assert_eq!(sentences(&guided(1), &guided(2)), [INSTRUCTIONS]);
    assert_eq!(told(&body(&guided(1)), &body(&guided(2)))[0].0.weight, Weight::Textual);
    // They do not explain what else the server changed.
    let unseen = Action { upstream_sha256: Some(Digest::new([8; 32])), ..guided(2) };
    assert_eq!(sentences(&guided(1), &unseen), [INSTRUCTIONS, "its server changed something that Countersign does not read"]);
}

#[test]
fn a_short_text_begins_near_the_difference_and_hides_nothing() {
    let long = "word ".repeat(200);
    let texts = |before: &str, after: &str| {
        let changes = semantic_diff(&json!({ "description": before }), &json!({ "description": after }));
        let (before, after) = changes[0].texts();
        (before.unwrap(), after.unwrap())
    };
    assert_eq!(texts("old", "new"), ("old".to_owned(), "new".to_owned()));
    assert_eq!(texts("a\n", "a\u{e0041}\u{202e}").1, r"a\u{e0041}\u{202e}");
    assert_eq!(texts("a\n", "a").0, r"a\n");
    let (before, after) = texts(&format!("{long}old{long}"), &format!("{long}new{long}"));
    assert!(before.contains("old") && after.contains("new"), "{before} {after}");
    assert!(before.starts_with('…') && before.ends_with('…') && before.chars().count() <= 122, "{before}");
    let odd = Change { pointer: "/a\u{200b}b".to_owned(), edit: Edit::Added { after: json!(1) }, weight: Weight::Risk };
    assert_eq!(odd.to_string(), r"a\u{200b}b added");
    assert_eq!(semantic_diff(&json!(1), &json!(2))[0].to_string(), "the definition changed");
}

#[test]
fn what_nobody_reviewed_has_not_drifted() {
    let (structural, textual) = (structural(&action()), textual(&action()));
    assert_eq!(drift_of(None, structural, textual), Drift::None);
}

/// Applies one change, as a reader of the diff would.
fn apply(value: &mut Value, change: &Change) {
    let Some((parent, step)) = change.pointer.rsplit_once('/') else {
        match &change.edit {
            Edit::Changed { before, after } => {
                assert_eq!(value, before);
                *value = after.clone();
            }
            Edit::Added { .. } | Edit::Removed { .. } => panic!("{change:?}"),
        }
        return;
    };
    let step = step.replace("~1", "/").replace("~0", "~");
    match (value.pointer_mut(parent).unwrap(), &change.edit) {
        (Value::Object(members), Edit::Added { after }) => assert_eq!(members.insert(step, after.clone()), None),
        (Value::Object(members), Edit::Removed { before }) => assert_eq!(members.remove(&step).as_ref(), Some(before)),
        (Value::Object(members), Edit::Changed { before, after }) => assert_eq!(members.insert(step, after.clone()).as_ref(), Some(before)),
        (Value::Array(items), Edit::Added { after }) => {
            assert_eq!(step, items.len().to_string());
            items.push(after.clone());
        }
        (Value::Array(items), Edit::Removed { before }) => {
            assert_eq!(items.pop().as_ref(), Some(before));
            assert_eq!(step, items.len().to_string());
        }
        (Value::Array(items), Edit::Changed { before, after }) => {
            let item = &mut items[step.parse::<usize>().unwrap()];
            assert_eq!(item, before);
            *item = after.clone();
        }
        (other, _) => panic!("{other:?} has no members"),
    }
}

/// Small schemas, so that two of them have much in common. Their keys include keywords that have a meaning in a schema.
fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        (0..3i64).prop_map(Value::from),
        "[ab]{0,2}".prop_map(Value::from),
        Just(json!(["a"])),
        Just(json!(["a", "b"])),
    ];
    let key = prop_oneof![
        Just("properties"),
        Just("description"),
        Just("items"),
        Just("anyOf"),
        Just("enum"),
        Just("const"),
        Just("type"),
        Just("default"),
        Just("if"),
        Just("$defs"),
        Just("a/b~c"),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key.clone().prop_map(str::to_owned), inner, 0..4).prop_map(|members| json!(members)),
        ]
    })
}

fn digest() -> impl Strategy<Value = Digest> {
    (0..3u8).prop_map(|byte| Digest::new([byte; 32]))
}

proptest! {
    #[test]
    fn a_definition_has_drifted_iff_a_digest_differs_and_structure_wins(a in digest(), b in digest(), c in digest(), d in digest()) {
        let drift = drift_of(Some(&Pin { structural: a, textual: b }), c, d);
        prop_assert_eq!(drift == Drift::None, (a, b) == (c, d));
        prop_assert_eq!(drift == Drift::Structural, a != c);
    }

    #[test]
    fn the_listed_changes_and_no_others_turn_one_into_the_other(before in schema(), after in schema()) {
        let changes = semantic_diff(&before, &after);
        prop_assert_eq!(changes.is_empty(), before == after);
        let mut value = before;
        for change in &changes {
            apply(&mut value, change);
        }
        prop_assert_eq!(value, after);
    }

    #[test]
    fn a_change_is_structural_iff_the_structural_digest_says_so(before in schema(), after in schema()) {
        let (before, after) = (with_params(before), with_params(after));
        let changes = semantic_diff(&body(&before), &body(&after));
        let structural_change = changes.iter().any(|change| change.weight == Weight::Structural);
        prop_assert_eq!(structural_change, structural(&before) != structural(&after), "{:#?}", changes);
        prop_assert_eq!(changes.is_empty(), textual(&before) == textual(&after));
    }
}
