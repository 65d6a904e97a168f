use super::*;
use crate::definition::{Kind, Signature, Webhook};
use serde_json::json;

fn definition(schema: Value) -> Definition {
    let value = json!({ "schema_version": "1.0", "name": "x", "plan": [], "inputs": { "schema": schema } });
    serde_json::from_value(value).unwrap()
}

fn webhook(mapping: Option<Value>) -> Trigger {
    let input_mapping = mapping.map(|mapping| serde_json::from_value(mapping).unwrap());
    let kind = Kind::Webhook(Webhook { filters: None, input_mapping, signature: Signature::None, rate_limit: Default::default() });
    Trigger { trigger_id: "hook".to_owned(), kind }
}

fn resolved(schema: Value, trigger: Option<&Trigger>, payload: Value) -> Result<Value, Vec<Mistake>> {
    let space_default = BTreeMap::from([("team".to_owned(), json!("ops"))]);
    let defaults =
        Defaults { last_fired_at: Timestamp::parse("2026-11-15T08:00:00Z").unwrap(), creator: "usr_1", space_default: &space_default };
    resolve(&definition(schema), trigger, &payload, defaults)
}

fn digest() -> Value {
    json!({ "type": "object", "required": ["since"], "additionalProperties": false, "properties": {
        "since": { "type": "string", "format": "date-time", "default": "$last_fired_at" },
        "tags": { "type": "array", "items": { "type": "string" }, "default": ["competitor"] },
        "by": { "type": "string", "default": "$creator" } } })
}

#[test]
fn a_mapping_names_what_is_taken_and_defaults_fill_the_rest() {
    let hook = webhook(Some(json!({ "since": "$.window.from", "tags": "$.items[*].tag", "by": "$.nobody" })));
    let payload = json!({ "window": { "from": "2026-01-01T00:00:00Z" }, "items": [{ "tag": "a" }, { "tag": "b" }], "tags": ["no"] });
    let expected = json!({ "since": "2026-01-01T00:00:00Z", "tags": ["a", "b"], "by": "usr_1" });
    assert_eq!(resolved(digest(), Some(&hook), payload).unwrap(), expected);
}

#[test]
fn without_a_mapping_members_of_the_same_names_are_taken() {
    let payload = json!({ "since": "2026-01-01T00:00:00Z", "other": 1 });
    let inputs = resolved(digest(), Some(&webhook(None)), payload).unwrap();
    assert_eq!(inputs, json!({ "since": "2026-01-01T00:00:00Z", "tags": ["competitor"], "by": "usr_1" }));
    let empty = resolved(digest(), Some(&webhook(None)), json!([])).unwrap();
    assert_eq!(empty["since"], "2026-11-15T08:00:00.000000Z");
}

#[test]
fn what_a_person_gives_is_the_inputs_with_nothing_left_out() {
    let mistakes = resolved(digest(), None, json!({ "since": "yesterday", "other": 1 })).unwrap_err();
    let places: Vec<_> = mistakes.iter().map(|mistake| (mistake.pointer.as_str(), mistake.code)).collect();
    assert!(places.contains(&("/since", "inputs_invalid")) && places.contains(&("/other", "inputs_invalid")), "{mistakes:#?}");
    assert!(resolved(digest(), None, json!("text")).is_err());
}

#[test]
fn an_input_that_is_not_known_or_missing_is_named() {
    let none = json!({ "type": "object", "additionalProperties": false });
    let some = json!({ "type": "object", "additionalProperties": false, "required": ["name"], "properties": { "name": { "description": "Whose." } } });
    for (schema, inputs, expected) in [
        (
            none.clone(),
            json!({ "foo": 1, "a/b": {} }),
            vec![("/foo", "takes no `foo`", "it takes none"), ("/a~1b", "takes no `a/b`", "it takes none")],
        ),
        (
            json!({ "type": "object", "properties": { "deep": none } }),
            json!({ "deep": { "foo": 1 } }),
            vec![("/deep/foo", "takes no `foo`", "")],
        ),
        (some.clone(), json!({ "name": 1, "nam": 2 }), vec![("/nam", "takes no `nam`", "`name`")]),
        (some, json!({}), vec![("/name", "needs `name`", "add `name`: Whose.")]),
    ] {
        let mistakes = resolved(schema, None, inputs).unwrap_err();
        assert_eq!(mistakes.len(), expected.len(), "{mistakes:#?}");
        for (mistake, (pointer, message, hint)) in mistakes.iter().zip(expected) {
            assert_eq!((mistake.code, mistake.pointer.as_str()), ("inputs_invalid", pointer));
            assert!(mistake.message.contains(message) && mistake.hint.as_ref().unwrap().contains(hint), "{mistake:?}");
        }
    }
}

#[test]
fn a_default_of_the_space_is_the_one_of_the_same_name() {
    let schema = |name: &str| json!({ "type": "object", "properties": { name: { "type": "string", "default": "$space_default" } } });
    assert_eq!(resolved(schema("team"), None, json!({})).unwrap(), json!({ "team": "ops" }));
    let [mistake] = <[Mistake; 1]>::try_from(resolved(schema("region"), None, json!({})).unwrap_err()).unwrap();
    assert_eq!((mistake.code, mistake.pointer.as_str()), ("inputs_invalid", "/region"));
    assert!(mistake.hint.unwrap().contains("`region`"));
}

#[test]
fn defaults_are_found_behind_references_and_inside_objects_and_not_in_lists() {
    let schema = json!({ "type": "object", "$defs": { "size": { "type": "integer", "default": 3 } }, "properties": {
        "size": { "$ref": "#/$defs/size" },
        "window": { "type": "object", "default": {}, "properties": { "days": { "type": "integer", "default": 7 } } },
        "list": { "type": "array", "items": { "type": "object", "properties": { "n": { "default": 1 } } } } } });
    let inputs = resolved(schema, None, json!({ "list": [{}, { "n": 2 }] })).unwrap();
    assert_eq!(inputs, json!({ "list": [{}, { "n": 2 }], "size": 3, "window": { "days": 7 } }));
}

#[test]
fn leap_second_input_clamped() {
    let schema = json!({ "type": "object", "properties": {
        "at": { "type": "string", "format": "date-time" },
        "times": { "type": "array", "items": { "type": "string", "format": "time" } },
        "text": { "type": "string" } } });
    let payload = json!({ "at": "2016-12-31T23:59:60Z", "times": ["23:59:60Z", "12:00:00Z"], "text": "at 23:59:60" });
    let inputs = resolved(schema.clone(), None, payload).unwrap();
    assert_eq!(inputs, json!({ "at": "2016-12-31T23:59:59Z", "times": ["23:59:59Z", "12:00:00Z"], "text": "at 23:59:60" }));
    // It may stand anywhere that a time zone puts it, and a part of a second stays.
    assert_eq!(
        resolved(schema.clone(), None, json!({ "at": "2017-01-01T05:29:60.5+05:30" })).unwrap()["at"],
        "2017-01-01T05:29:59.5+05:30"
    );
    for wrong in ["2016-12-31T23:59:61Z", "2016-12-31T23:60:60Z", "T:60", "é:59:60", ""] {
        assert!(resolved(schema.clone(), None, json!({ "at": wrong })).is_err(), "{wrong}");
    }
}

#[test]
fn what_would_take_too_long_to_check_is_refused() {
    let wide: Vec<Value> = (0..1_000).map(|n| json!({ "const": n })).collect();
    let schema = json!({ "type": "object", "properties": { "list": { "items": { "anyOf": wide } } } });
    let [mistake] = <[Mistake; 1]>::try_from(resolved(schema.clone(), None, json!({ "list": vec![5; 30_000] })).unwrap_err()).unwrap();
    assert!(mistake.message.contains("too large"));
    assert!(resolved(schema, None, json!({ "list": [5, 6] })).is_ok());
}

#[test]
fn inputs_have_so_many_bytes_whoever_gives_them() {
    let schema = |default: &str| json!({ "type": "object", "properties": { "text": { "default": default } } });
    let refused = |resolved: Result<Value, Vec<Mistake>>| {
        let [mistake] = <[Mistake; 1]>::try_from(resolved.unwrap_err()).unwrap();
        assert_eq!((mistake.code, mistake.message.as_str()), ("inputs_invalid", "the inputs have more than 4 MB"));
    };
    let (most, more, hook) = ("x".repeat(INPUTS_BYTES_MAX - 20), "x".repeat(INPUTS_BYTES_MAX), webhook(None));
    for trigger in [None, Some(&hook)] {
        assert!(resolved(schema(""), trigger, json!({ "text": most })).is_ok());
        refused(resolved(schema(""), trigger, json!({ "text": more })));
    }
    // What the defaults add counts too.
    refused(resolved(schema(&most), None, json!({ "other": "a few bytes more" })));
}

#[test]
fn all_paths_of_a_mapping_share_what_they_may_take() {
    // The names are counted with the inputs.
    let text = "x".repeat(INPUTS_BYTES_MAX / 2 - 20);
    let mapped = |mapping: Value| {
        let properties: Map<String, Value> = mapping.as_object().unwrap().keys().map(|name| (name.clone(), json!({}))).collect();
        resolved(json!({ "type": "object", "properties": properties }), Some(&webhook(Some(mapping))), json!({ "a": { "b": text } }))
    };
    assert_eq!(mapped(json!({ "one": "$.a.b", "two": "$.a.b" })).unwrap()["two"], text);
    for (mapping, place) in [
        (json!({ "one": "$.a.b", "three": "$.a.b", "two": "$.a.b" }), "/two"),
        (json!({ "none": "$.z", "some": "$..['b','b','b']" }), "/some"),
    ] {
        let [mistake] = <[Mistake; 1]>::try_from(mapped(mapping).unwrap_err()).unwrap();
        assert_eq!((mistake.code, mistake.pointer.as_str()), ("inputs_invalid", place), "{}", mistake.message);
    }
}
