//! Schemas that are small and would take for ever: each is refused when it is saved, or its check gives up.

use super::*;
use serde_json::json;

/// What became of a schema with a value that suits it.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Refused,
    TooCostly,
    Fits,
    DoesNot,
}

fn fate(schema: &Value, value: &Value) -> Fate {
    let Ok(schema) = Schema::compile(schema) else { return Fate::Refused };
    match schema.count(value, STEPS_MAX).map(|()| schema.list(value)) {
        Err(TooCostly) => Fate::TooCostly,
        Ok(found) if found.is_empty() => Fate::Fits,
        Ok(_) => Fate::DoesNot,
    }
}

/// `levels` definitions, each of which applies the next one twice, with this keyword.
fn doubling(levels: usize, keyword: &str) -> Value {
    let next = |level: usize| json!({ "$ref": format!("#/$defs/d{}", level + 1) });
    let mut defs: Map<String, Value> =
        (0..levels).map(|level| (format!("d{level}"), json!({ keyword: [next(level), next(level)] }))).collect();
    defs.insert(format!("d{levels}"), json!({ "type": "object" }));
    json!({ "$defs": defs, "$ref": "#/$defs/d0" })
}

fn nested(depth: usize, with: impl Fn(Value) -> Value) -> Value {
    (0..depth).fold(json!({}), |inner, _| with(inner))
}

#[test]
fn no_bomb_goes_off() {
    let recursive = |keyword: &str| json!({ "$defs": { "a": { keyword: { "allOf": [{ "$ref": "#/$defs/a" }, { "$ref": "#/$defs/a" }] } } }, "$ref": "#/$defs/a" });
    let deep_items = nested(100, |inner| json!([inner]));
    let deep_properties = nested(100, |inner| json!({ "x": inner }));
    let wide: Value = (0..3_000).map(|n| json!({ "n": n })).collect();
    let names: Map<String, Value> = (0..2_000).map(|n| (format!("name_{n}"), json!(n))).collect();
    let large_patterns: Map<String, Value> =
        (0..60).map(|n| (format!("p{n}"), json!({ "pattern": format!(r"\p{{L}}{{180}}{n}") }))).collect();
    let patterns: Map<String, Value> = (0..500).map(|n| (format!("^n{n}"), json!({ "type": "integer" }))).collect();
    let long = "a".repeat(900_000);
    let alternations = (0..2_000).map(|n| format!("a{n}b")).collect::<Vec<_>>().join("|");
    let unevaluated = nested(40, |inner| json!({ "allOf": [inner], "unevaluatedProperties": false }));
    let deep_schema = nested(200, |inner| json!({ "not": inner }));
    let many: Vec<_> = (0..30_000).map(|n| json!({ "const": n })).collect();
    let links: Map<String, Value> =
        (0..5_000).map(|n| (format!("d{n}"), json!({ "$ref": format!("#/$defs/d{}", (n + 1).min(5_000)) }))).collect();
    let mut chain = json!({ "$defs": links, "$ref": "#/$defs/d0" });
    chain["$defs"]["d5000"] = json!({});
    let cross: Vec<_> = (0..9_000).map(|n| json!({ "const": n })).collect();
    // The validator reads `#/$defs/%641` as `#/$defs/d1`.
    let decoy = |level: usize| json!({ "$ref": format!("#/$defs/%64{}", level + 1) });
    let mut decoys: Map<String, Value> =
        (0..30).map(|level| (format!("d{level}"), json!({ "allOf": [decoy(level), decoy(level)] }))).collect();
    decoys.extend((0..=30).map(|level| (format!("%64{level}"), json!({}))));
    let example = |level: usize| json!({ "$dynamicRef": format!("#/examples/{}", level + 1) });
    let mut examples: Vec<_> = (0..30).map(|level| json!({ "allOf": [example(level), example(level)] })).collect();
    examples.push(json!({}));
    let dependency = |level: usize| json!({ "dependencies": { "a": { "$ref": format!("#/$defs/d{}", level + 1) }, "b": { "$ref": format!("#/$defs/d{}", level + 1) } } });
    let mut dependencies: Map<String, Value> = (0..30).map(|level| (format!("d{level}"), dependency(level))).collect();
    dependencies.insert("d30".to_owned(), json!({}));
    let draft = "http://json-schema.org/draft-07/schema#";
    let bombs: [(&str, Value, Value, Fate); 33] = [
        ("references that are decoded", json!({ "$defs": decoys, "$ref": "#/$defs/d0" }), json!({}), Fate::Refused),
        ("references into examples", json!({ "$ref": "#/examples/0", "examples": examples }), json!({}), Fate::Refused),
        ("dependencies", json!({ "$defs": dependencies, "$ref": "#/$defs/d0" }), json!({ "a": 1, "b": 1 }), Fate::Refused),
        ("a list in items", json!({ "items": [{ "$ref": "#" }, { "$ref": "#" }] }), json!([[], []]), Fate::Refused),
        ("additional items", json!({ "prefixItems": [{}], "additionalItems": { "$ref": "#" } }), json!([[], []]), Fate::Refused),
        (
            "another draft inside",
            json!({ "properties": { "a": { "$schema": draft, "items": { "$ref": "#" } } } }),
            json!({}),
            Fate::Refused,
        ),
        (
            "a pattern of many states and a long text",
            json!({ "properties": { "t": { "pattern": "1[01]{5000}" } } }),
            json!({ "t": "10".repeat(150_000) }),
            Fate::TooCostly,
        ),
        ("allOf doubling", doubling(30, "allOf"), json!({}), Fate::Refused),
        ("anyOf doubling", doubling(30, "anyOf"), json!({}), Fate::Refused),
        ("oneOf doubling", doubling(30, "oneOf"), json!({}), Fate::Refused),
        ("a little doubling", doubling(10, "allOf"), json!({}), Fate::Fits),
        ("a long chain", chain, json!({}), Fate::Refused),
        ("itself", json!({ "$ref": "#" }), json!({}), Fate::Refused),
        ("itself in allOf", json!({ "allOf": [{ "$ref": "#" }] }), json!({}), Fate::Refused),
        (
            "two that name each other",
            json!({ "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "not": { "$ref": "#/$defs/a" } } }, "$ref": "#/$defs/a" }),
            json!({}),
            Fate::Refused,
        ),
        ("itself by an anchor", json!({ "$anchor": "me", "anyOf": [{ "$ref": "#me" }] }), json!({}), Fate::Refused),
        ("dynamicRef", json!({ "$dynamicAnchor": "node", "properties": { "x": { "$dynamicRef": "#node" } } }), json!({}), Fate::Refused),
        ("a reference to elsewhere", json!({ "$ref": "https://example.com/schema" }), json!({}), Fate::Refused),
        ("a reference to nothing", json!({ "$ref": "#/$defs/none" }), json!({}), Fate::Refused),
        ("twice for each item", recursive("items"), deep_items, Fate::TooCostly),
        ("twice for each property", recursive("additionalProperties"), deep_properties.clone(), Fate::TooCostly),
        ("once for each property", json!({ "additionalProperties": { "$ref": "#" } }), deep_properties, Fate::Fits),
        ("a huge enum for each item", json!({ "items": { "enum": (0..9_000).collect::<Vec<_>>() } }), wide.clone(), Fate::TooCostly),
        ("many alternatives for each item", json!({ "items": { "anyOf": cross } }), wide.clone(), Fate::TooCostly),
        ("unique items", json!({ "uniqueItems": true }), wide, Fate::Fits),
        ("many patterns for many names", json!({ "patternProperties": patterns }), Value::Object(names), Fate::Refused),
        ("many large patterns", json!({ "properties": large_patterns }), json!({ "p1": "x" }), Fate::Refused),
        (
            "a long text and long alternations",
            json!({ "properties": { "t": { "pattern": alternations } } }),
            json!({ "t": long }),
            Fate::TooCostly,
        ),
        ("unevaluated in unevaluated", unevaluated, json!({ "a": 1 }), Fate::TooCostly),
        ("a deep schema", deep_schema, json!({}), Fate::Refused),
        ("a wide schema", json!({ "anyOf": many }), json!({}), Fate::Refused),
        ("an embedded id", json!({ "properties": { "a": { "$id": "other", "$ref": "#" } } }), json!({}), Fate::Refused),
        (
            "a large repetition",
            json!({ "properties": { "t": { "pattern": "((a{1,999}){1,999}){1,999}" } } }),
            json!({ "t": "a" }),
            Fate::Refused,
        ),
    ];
    for (name, schema, value, expected) in bombs {
        assert_eq!(fate(&schema, &value), expected, "{name}");
    }
}

#[test]
fn an_ordinary_schema_checks_as_before() {
    let schema = json!({
        "type": "object", "required": ["path"], "additionalProperties": false,
        "properties": { "path": { "$ref": "#/$defs/path" }, "tree": { "$ref": "#/$defs/tree" } },
        "$defs": { "path": { "type": "string", "maxLength": 5 }, "tree": { "properties": { "left": { "$ref": "#/$defs/tree" }, "right": { "$ref": "#/$defs/tree" } } } }
    });
    let compiled = Schema::compile(&schema).unwrap();
    assert_eq!(compiled.list(&json!({ "path": "a", "tree": { "left": { "left": {} } } })), []);
    let found = compiled.list(&json!({ "path": "abcdef" }));
    assert_eq!(found.iter().map(|found| found.pointer.as_str()).collect::<Vec<_>>(), ["/path"]);
}

#[tokio::test]
async fn a_costly_check_is_made_elsewhere_with_the_same_answer() {
    let schema = Arc::new(Schema::compile(&json!({ "items": { "enum": (0..500).collect::<Vec<_>>() } })).unwrap());
    let fitting: Value = (0..400).collect();
    assert!(schema.count(&fitting, STEPS_SERVING).is_err());
    assert_eq!(schema.mismatches(&fitting).await, Ok(Vec::new()));
    assert_eq!(schema.mismatches(&json!(["x"])).await.unwrap().len(), 1);
}
