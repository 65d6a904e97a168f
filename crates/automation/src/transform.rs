//! What `builtin.transform_data` does: takes parts of a value by JSONPath, and checks them by a JSON Schema. Templates are rendered before, as in
//! the config of any step.

use crate::Mistake;
use crate::definition::{bytes, check_any, compile, is_bounded};
use crate::limits::{TRANSFORM_BYTES_MAX, TRANSFORM_SELECTED_MAX};
use crate::select::{Path, TooMuch};
use countersign_core::json::escape;
use serde::Deserialize;
use serde_json::{Map, Value, json};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    value: Value,
    select: Option<Select>,
    output_schema: Option<Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Select {
    One(String),
    Named(Map<String, Value>),
}

/// What the value becomes: an object as it is, anything else as the member `value` of one. A mistake has a pointer from the root of the params.
pub fn transform(params: &Value) -> Result<Value, Mistake> {
    let shape = || Mistake::new("invalid_params", "the params are `value`, `select` (a path, or paths by name) and `output_schema`");
    let Params { value, select, output_schema } = Params::deserialize(params).map_err(|_| shape())?;
    bounded(&value, "/value")?;
    let selected = match select {
        None => value,
        Some(Select::One(path)) => one(&path, &value)?,
        Some(Select::Named(paths)) => named(&paths, &value)?,
    };
    bounded(&selected, "/select")?;
    if let Some(schema) = output_schema {
        check(&schema, &selected)?;
    }
    Ok(if selected.is_object() { selected } else { json!({ "value": selected }) })
}

fn one(path: &str, value: &Value) -> Result<Value, Mistake> {
    let mut left = TRANSFORM_BYTES_MAX;
    let found = parsed(path, "/select")?.select(value, &mut left).map_err(|TooMuch| too_large("/select"))?;
    found.ok_or_else(|| {
        let mistake = Mistake::new("transform_empty", "the path finds nothing in the value");
        mistake.hint("give the path a name, `{ \"name\": path }`: what is not found is then left out").under("/select")
    })
}

/// What is not found is left out, so that the schema can say what must be there.
fn named(paths: &Map<String, Value>, value: &Value) -> Result<Value, Mistake> {
    if paths.len() > TRANSFORM_SELECTED_MAX {
        let mistake = Mistake::new("transform_too_large", format!("more than {TRANSFORM_SELECTED_MAX} parts are selected"));
        return Err(mistake.under("/select"));
    }
    let mut selected = Map::new();
    let mut left = TRANSFORM_BYTES_MAX;
    for (name, path) in paths {
        let place = format!("/select/{}", escape(name));
        let text = path.as_str().ok_or_else(|| Mistake::new("invalid_params", "a path is a text").under(&place))?;
        if let Some(part) = parsed(text, &place)?.select(value, &mut left).map_err(|TooMuch| too_large(&place))? {
            selected.insert(name.clone(), part);
        }
    }
    Ok(Value::Object(selected))
}

fn parsed(path: &str, place: &str) -> Result<Path, Mistake> {
    Path::parse(path).map_err(|mistake| Mistake { code: "transform_invalid", ..mistake }.under(place))
}

fn check(schema: &Value, selected: &Value) -> Result<(), Mistake> {
    let unusable = |mistake: Mistake| Mistake { code: "transform_invalid", ..mistake }.under("/output_schema");
    if let Some(mistake) = check_any(schema).into_iter().next() {
        return Err(unusable(mistake));
    }
    if !is_bounded(schema, selected) {
        let mistake = Mistake::new("transform_too_large", "the result is too large to be checked by its schema");
        return Err(mistake.hint("select less, or check less").under("/output_schema"));
    }
    let validator = compile(schema).map_err(unusable)?;
    match validator.iter_errors(selected).next() {
        None => Ok(()),
        Some(error) => {
            let mistake = Mistake::new("transform_mismatch", format!("the result does not fit its schema: {}", error.masked()));
            Err(mistake.hint(format!("the schema asks for it at `{}`", error.schema_path())).under(&error.instance_path().to_string()))
        }
    }
}

fn bounded(value: &Value, place: &str) -> Result<(), Mistake> {
    if bytes(value) > TRANSFORM_BYTES_MAX { Err(too_large(place)) } else { Ok(()) }
}

fn too_large(place: &str) -> Mistake {
    let mistake = Mistake::new("transform_too_large", format!("there are more than {} KB", TRANSFORM_BYTES_MAX / 1024));
    mistake.hint("select less").under(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_passed_on_or_taken_apart() {
        let document = || json!({ "hits": [{ "id": 1, "title": "a" }, { "id": 2, "title": "b" }], "count": 2, "none": null });
        for (params, expected) in [
            (json!({ "value": { "count": 2, "text": "• a" } }), json!({ "count": 2, "text": "• a" })),
            (json!({ "value": [1, 2] }), json!({ "value": [1, 2] })),
            (json!({ "value": null }), json!({ "value": null })),
            (json!({ "value": document(), "select": "$" }), document()),
            (json!({ "value": document(), "select": "$.hits[0]" }), json!({ "id": 1, "title": "a" })),
            (json!({ "value": document(), "select": "$.count" }), json!({ "value": 2 })),
            (json!({ "value": document(), "select": "$.none" }), json!({ "value": null })),
            (json!({ "value": document(), "select": "$.hits[*].title" }), json!({ "value": ["a", "b"] })),
            (json!({ "value": document(), "select": "$.hits[?@.id > 1].title" }), json!({ "value": ["b"] })),
            (
                json!({ "value": document(), "select": { "first": "$.hits[0].title", "all": "$..id", "gone": "$.gone" } }),
                json!({ "first": "a", "all": [1, 2] }),
            ),
            (json!({ "value": document(), "select": {} }), json!({})),
            (json!({ "value": { "a": 1 }, "select": null, "output_schema": null }), json!({ "a": 1 })),
            (
                json!({ "value": document(), "select": { "n": "$.count" },
                    "output_schema": { "type": "object", "required": ["n"], "properties": { "n": { "type": "integer", "maximum": 2 } } } }),
                json!({ "n": 2 }),
            ),
            // The schema is of what was selected, whatever it is.
            (json!({ "value": document(), "select": "$.count", "output_schema": { "type": "integer" } }), json!({ "value": 2 })),
        ] {
            assert_eq!(transform(&params), Ok(expected), "{params}");
        }
    }

    #[test]
    fn what_cannot_be_done_has_a_code_and_a_place() {
        let large = "a".repeat(TRANSFORM_BYTES_MAX);
        let many: Map<_, _> = (0..=TRANSFORM_SELECTED_MAX).map(|number| (number.to_string(), json!("$"))).collect();
        let half = json!({ "a": "a".repeat(TRANSFORM_BYTES_MAX / 2 + 1) });
        for (params, code, pointer) in [
            (json!(null), "invalid_params", ""),
            (json!({}), "invalid_params", ""),
            (json!({ "value": 1, "other": 1 }), "invalid_params", ""),
            (json!({ "value": 1, "select": 1 }), "invalid_params", ""),
            (json!({ "value": 1, "select": { "a": 1 } }), "invalid_params", "/select/a"),
            (json!({ "value": 1, "select": "a" }), "transform_invalid", "/select"),
            (json!({ "value": 1, "select": { "a/b": "$[" } }), "transform_invalid", "/select/a~1b"),
            (json!({ "value": 1, "select": "$..a..b" }), "transform_invalid", "/select"),
            (json!({ "value": { "a": [] }, "select": "$.b" }), "transform_empty", "/select"),
            (json!({ "value": { "a": [] }, "select": "$.a[*]" }), "transform_empty", "/select"),
            (json!({ "value": 1, "output_schema": { "type": "nonsense" } }), "transform_invalid", "/output_schema/type"),
            (json!({ "value": 1, "output_schema": { "$ref": "https://example.com" } }), "transform_invalid", "/output_schema/$ref"),
            (json!({ "value": 1, "output_schema": { "$ref": "#" } }), "transform_invalid", "/output_schema"),
            (json!({ "value": { "a": 1 }, "output_schema": { "properties": { "a": { "type": "string" } } } }), "transform_mismatch", "/a"),
            (json!({ "value": {}, "output_schema": { "required": ["a"] } }), "transform_mismatch", ""),
            (json!({ "value": large }), "transform_too_large", "/value"),
            (json!({ "value": 1, "select": many }), "transform_too_large", "/select"),
            (json!({ "value": half, "select": { "one": "$.a", "two": "$.a" } }), "transform_too_large", "/select/two"),
            (json!({ "value": half, "select": "$['a','a']" }), "transform_too_large", "/select"),
            (json!({ "value": half, "select": { "all": "$['a','a']" } }), "transform_too_large", "/select/all"),
        ] {
            let mistake = transform(&params).unwrap_err();
            let shown: String = params.to_string().chars().take(200).collect();
            assert_eq!((mistake.code, mistake.pointer.as_str()), (code, pointer), "{shown}: {}", mistake.message);
        }
    }

    #[test]
    fn a_mismatch_repeats_no_value() {
        let mistake = transform(&json!({ "value": { "a": "hunter2" }, "output_schema": { "properties": { "a": { "maxLength": 3 } } } }));
        assert!(!mistake.unwrap_err().message.contains("hunter2"));
    }
}
