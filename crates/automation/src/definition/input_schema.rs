//! The schema of inputs: one that can be compiled, that stays inside itself, and whose cost is bounded.
//!
//! SECURITY: it comes from strangers. References must not lead back to themselves, so it could be written out without any; how large it
//! would be then bounds every check by it (`inputs`). Patterns run on a linear-time engine, and nothing is fetched.

use super::bounds;
use super::facts::did_you_mean;
use crate::Mistake;
use crate::limits::{INPUT_CHECKS_MAX, INPUT_SCHEMA_BYTES_MAX, INPUT_SCHEMA_DEPTH_MAX, INPUT_SCHEMA_PARTS_MAX};
use crate::mistake::in_lower_case;
use countersign_core::json::escape;
use jsonschema::{PatternOptions, Validator};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Defaults that are known only when a run starts.
pub(crate) const TOKENS: [&str; 3] = ["$last_fired_at", "$creator", "$space_default"];

/// Bytes that one pattern may take when it is compiled.
const PATTERN_BYTES_MAX: usize = 256 * 1024;
/// Levels of a schema when its references are written out, far below what the stack holds.
const WRITTEN_OUT_DEPTH_MAX: usize = 128;
/// Keywords that make what a schema applies depend on where it was reached from, or that let it be reached under another name.
const REFUSED: [&str; 6] = ["$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$id", "$anchor"];
/// Members that hold values, not schemas.
const VALUES: [&str; 4] = ["default", "const", "enum", "examples"];

pub(crate) fn is_token(text: &str) -> bool {
    TOKENS.contains(&text)
}

/// Compiles a schema so that checking by it fetches nothing, and is linear in every text.
pub(crate) fn compile(schema: &Value) -> Result<Validator, Mistake> {
    jsonschema::options()
        .with_draft(jsonschema::Draft::Draft202012)
        .should_validate_formats(true)
        .with_pattern_options(PatternOptions::regex().size_limit(PATTERN_BYTES_MAX))
        .build(schema)
        .map_err(|error| {
            let mistake = invalid(in_lower_case(&error.to_string()));
            mistake.hint("write JSON Schema, draft 2020-12").under(&error.instance_path().to_string())
        })
}

/// The pointers of what has a default; or all mistakes of the schema of inputs, with pointers from its root.
pub(super) fn check(schema: &Value) -> Result<Vec<String>, Vec<Mistake>> {
    let is_object = schema.get("type").and_then(Value::as_str) == Some("object");
    let mistake = || invalid("inputs are an object, and the schema does not say so");
    let mut defaults = Vec::new();
    let first = (!is_object).then(|| mistake().hint("add `\"type\": \"object\"`, with one property for each input"));
    let mistakes = check_with(schema, first, &mut defaults);
    if mistakes.is_empty() { Ok(defaults) } else { Err(mistakes) }
}

/// All mistakes of a schema of anything.
pub(crate) fn check_any(schema: &Value) -> Vec<Mistake> {
    check_with(schema, None, &mut Vec::new())
}

/// `defaults` becomes the pointers of what has one.
fn check_with(schema: &Value, first: Option<Mistake>, defaults: &mut Vec<String>) -> Vec<Mistake> {
    if bounds::bytes(schema) > INPUT_SCHEMA_BYTES_MAX {
        return vec![
            invalid(format!("the schema is larger than {} KB", INPUT_SCHEMA_BYTES_MAX / 1024)).hint("take what only describes out of it"),
        ];
    }
    if bounds::depth(schema, INPUT_SCHEMA_DEPTH_MAX) > INPUT_SCHEMA_DEPTH_MAX {
        let mistake = invalid(format!("the schema is nested deeper than {INPUT_SCHEMA_DEPTH_MAX} levels"));
        return vec![mistake.hint("put what is nested under `$defs` and refer to it")];
    }
    let mut mistakes: Vec<_> = first.into_iter().collect();
    look_at(schema, "", &mut mistakes, defaults);
    if mistakes.is_empty() {
        let usable = expanded(schema).and_then(|_| compile(schema).map(drop));
        mistakes.extend(usable.err());
    }
    mistakes
}

fn look_at(schema: &Value, pointer: &str, mistakes: &mut Vec<Mistake>, defaults: &mut Vec<String>) {
    match schema {
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| look_at(item, &format!("{pointer}/{index}"), mistakes, defaults));
        }
        Value::Object(members) => {
            for (name, value) in members {
                let place = format!("{pointer}/{}", escape(name));
                match name.as_str() {
                    "$ref" => mistakes.extend(reference_mistake(value).map(|mistake| mistake.under(&place))),
                    "default" => {
                        defaults.push(pointer.to_owned());
                        mistakes.extend(token_mistake(value).map(|mistake| mistake.under(&place)));
                    }
                    // `properties` may have a member of any name, and its value is a schema.
                    "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => {
                        for (name, schema) in value.as_object().into_iter().flatten() {
                            look_at(schema, &format!("{place}/{}", escape(name)), mistakes, defaults);
                        }
                    }
                    _ if REFUSED.contains(&name.as_str()) => {
                        let mistake = invalid(format!("`{name}` is not supported"));
                        mistakes.push(mistake.hint("put the part under `$defs` and refer to it with `#/$defs/…`").under(&place));
                    }
                    _ if VALUES.contains(&name.as_str()) => {}
                    _ => look_at(value, &place, mistakes, defaults),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn reference_mistake(reference: &Value) -> Option<Mistake> {
    let text = reference.as_str().unwrap_or_default();
    if text == "#" || text.starts_with("#/") {
        return None;
    }
    let mistake = Mistake::new("remote_ref_refused", format!("`{reference}` leads out of the schema"));
    Some(mistake.hint("copy what it names under `$defs`, and refer to it with `#/$defs/…`"))
}

fn token_mistake(default: &Value) -> Option<Mistake> {
    let text = default.as_str().filter(|text| text.starts_with('$') && !is_token(text))?;
    let all = TOKENS.map(|token| format!("`{token}`")).join(", ");
    Some(Mistake::new("default_token_unknown", format!("there is no token `{text}`")).hint(did_you_mean(
        text,
        TOKENS,
        format!("write one of {all}"),
    )))
}

/// How many subschemas the schema has when its references are written out.
fn expanded(schema: &Value) -> Result<u64, Mistake> {
    let mut path = Vec::new();
    let mut left = INPUT_SCHEMA_PARTS_MAX;
    write_out(schema, schema, &mut path, &mut left, 0)?;
    Ok(INPUT_SCHEMA_PARTS_MAX - left)
}

/// Whether a check of the value is bounded: the schema could be written out, and is small enough for a value of this size. For a schema that
/// refers to itself nobody can say.
pub(crate) fn is_bounded(schema: &Value, value: &Value) -> bool {
    expanded(schema).is_ok_and(|parts| parts.saturating_mul(values(value)) <= INPUT_CHECKS_MAX)
}

/// How many values a value holds, long texts counted as several.
fn values(value: &Value) -> u64 {
    match value {
        Value::Array(items) => items.iter().map(values).sum::<u64>() + 1,
        Value::Object(members) => members.values().map(values).sum::<u64>() + 1,
        Value::String(text) => text.len() as u64 / 64 + 1,
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
    }
}

/// `path` has the references that led here.
fn write_out<'a>(root: &'a Value, schema: &'a Value, path: &mut Vec<&'a str>, left: &mut u64, depth: usize) -> Result<(), Mistake> {
    let Some(members) = schema.as_object() else { return Ok(()) };
    *left = left.checked_sub(1).ok_or_else(|| {
        invalid(format!("the schema has more than {INPUT_SCHEMA_PARTS_MAX} parts when its references are written out"))
            .hint("refer less often to what itself refers")
    })?;
    if depth > WRITTEN_OUT_DEPTH_MAX {
        let mistake =
            invalid(format!("the schema is nested deeper than {WRITTEN_OUT_DEPTH_MAX} levels when its references are written out"));
        return Err(mistake.hint("refer less often to what itself refers"));
    }
    if let Some(reference) = members.get("$ref").and_then(Value::as_str) {
        if path.contains(&reference) {
            return Err(invalid(format!("`{reference}` refers to itself")).hint("write out as many levels as the inputs have"));
        }
        // What stands in a value was not looked at.
        let target = reference.strip_prefix('#').filter(|pointer| !pointer.split('/').any(|step| VALUES.contains(&step)));
        let target = target.and_then(|pointer| root.pointer(pointer));
        let target = target.ok_or_else(|| invalid(format!("`{reference}` names no part of the schema")).hint("add it under `$defs`"))?;
        path.push(reference);
        write_out(root, target, path, left, depth + 1)?;
        path.pop();
    }
    below(members).try_for_each(|schema| write_out(root, schema, path, left, depth + 1))
}

/// The subschemas that apply by themselves, to the same place or below it.
fn below(members: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    members.iter().filter(|(name, _)| !VALUES.contains(&name.as_str()) && *name != "$defs" && *name != "definitions").flat_map(
        |(name, value)| match value {
            Value::Array(items) => items.iter().collect::<Vec<_>>(),
            Value::Object(named) if matches!(name.as_str(), "properties" | "patternProperties" | "dependentSchemas") => {
                named.values().collect()
            }
            Value::Object(_) => vec![value],
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
        },
    )
}

fn invalid(message: impl Into<String>) -> Mistake {
    Mistake::new("input_schema_invalid", message)
}

/// The names of the inputs that the schema declares.
pub(super) fn names(schema: &Value) -> impl Iterator<Item = &str> {
    schema.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys).map(String::as_str)
}

/// Keywords by which a schema may accept inputs that are not among its `properties`.
const OPEN: [&str; 6] = ["patternProperties", "$ref", "allOf", "anyOf", "oneOf", "unevaluatedProperties"];

/// The names of all inputs there can be; `None` where the schema asks for further ones. One that only does not refuse them declares none.
pub(super) fn closed_names(schema: Option<&Value>) -> Option<BTreeSet<String>> {
    let Some(schema) = schema else { return Some(BTreeSet::new()) };
    let is_open = OPEN.iter().any(|keyword| schema.get(keyword).is_some())
        || schema.get("additionalProperties").is_some_and(|further| further != &Value::Bool(false));
    (!is_open).then(|| names(schema).map(str::to_owned).collect())
}
