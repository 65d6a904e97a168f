//! A JSON Schema without its descriptive texts: what remains is what a validator enforces, except `enum` and `default`.

use serde_json::{Map, Value};

/// Strips descriptive keywords. A property that merely has such a name stays.
pub(super) fn of(schema: &Value) -> Value {
    match schema {
        Value::Object(keywords) => Value::Object(
            keywords.iter().filter(|(keyword, _)| !STRIPPED.contains(&keyword.as_str())).map(|(k, v)| (k.clone(), below(k, v))).collect(),
        ),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => schema.clone(),
    }
}

/// The keywords that the structural digest leaves out.
pub(crate) const STRIPPED: [&str; 6] = ["description", "default", "enum", "title", "examples", "$comment"];

/// The keywords whose members are names, each with a schema as its value.
pub(crate) const NAMED_SCHEMAS: [&str; 6] = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"];

/// The keywords that hold a schema or a list of schemas.
pub(crate) const SCHEMAS: [&str; 16] = [
    "items",
    "prefixItems",
    "additionalItems",
    "unevaluatedItems",
    "contains",
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "contentSchema",
];

fn below(keyword: &str, value: &Value) -> Value {
    match value {
        Value::Object(members) if NAMED_SCHEMAS.contains(&keyword) => Value::Object(named(members)),
        Value::Array(schemas) if SCHEMAS.contains(&keyword) => schemas.iter().map(of).collect(),
        Value::Object(_) if SCHEMAS.contains(&keyword) => of(value),
        // A value to compare with, such as `const`, or an unknown keyword: it is kept exactly as it is.
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => value.clone(),
    }
}

fn named(members: &Map<String, Value>) -> Map<String, Value> {
    members.iter().map(|(name, schema)| (name.clone(), of(schema))).collect()
}
