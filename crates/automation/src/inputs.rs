//! The inputs of a run: from what its trigger was given, by the mapping and the defaults of the definition, checked by its schema.
//! Nothing here reads a clock or a store: what defaults stand for is handed in.

use crate::Mistake;
use crate::definition::{self, Definition, Trigger, Words};
use crate::limits::INPUTS_BYTES_MAX;
use crate::select::{Path, TooMuch};
use countersign_core::Timestamp;
use countersign_core::json::escape;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Mistakes that are told of one set of inputs.
const TOLD_MAX: usize = 50;
const OF_AUTOMATION: Words = Words { code: "inputs_invalid", taker: "the automation", taken: "the inputs" };
/// A name that stands for all defaults while they are checked.
const DEFAULTS: &str = "x-countersign-defaults";
/// How often one reference may lead to the next.
const REFERENCES_MAX: usize = 16;

/// What the tokens among defaults stand for, now.
#[derive(Clone, Copy, Debug)]
pub struct Defaults<'a> {
    /// `$last_fired_at`: when the trigger last started a run; when it was enabled, if it never did. Without a trigger: when the automation
    /// last started a run; when it was created, if it never did.
    pub last_fired_at: Timestamp,
    /// `$creator`: the id of whoever saved the automation.
    pub creator: &'a str,
    /// `$space_default`: what the space sets, by name.
    pub space_default: &'a BTreeMap<String, Value>,
}

/// The inputs of a run that `trigger` starts with `payload`; without a trigger a person starts it, and the payload is the inputs.
/// All mistakes come at once, with pointers from the root of the inputs.
pub fn resolve(definition: &Definition, trigger: Option<&Trigger>, payload: &Value, defaults: Defaults<'_>) -> Result<Value, Vec<Mistake>> {
    let schema = &definition.inputs.schema;
    let mut inputs = match trigger {
        Some(trigger) => map(schema, trigger, payload).map_err(|mistake| vec![mistake])?,
        None => payload.clone(),
    };
    let mut mistakes = Vec::new();
    bounded(schema, &inputs)?;
    fill(schema, schema, &mut inputs, "", Some(defaults), &mut mistakes);
    bounded(schema, &inputs)?;
    let validator = definition::compile(schema).map_err(|mistake| vec![mistake])?;
    let errors = validator.iter_errors(&inputs).flat_map(|error| definition::told(&error, schema, &inputs, &OF_AUTOMATION));
    mistakes.extend(errors.take(TOLD_MAX));
    if mistakes.is_empty() { Ok(inputs) } else { Err(mistakes) }
}

/// What is wrong with the defaults that are known before a run, each given by the pointer of its schema: one that does not fit would refuse
/// every firing that leaves its input out.
pub(crate) fn check_defaults(schema: &Value, places: &[String]) -> Vec<Mistake> {
    let nothing = BTreeMap::new();
    let stand_ins = Defaults { last_fired_at: Timestamp::from_micros(0), creator: "user:x", space_default: &nothing };
    let (mut parts, mut values) = (Map::new(), Map::new());
    for (at, part) in places.iter().map(|place| schema.pointer(place)).enumerate() {
        let default = part.and_then(|part| part.get("default")).filter(|default| !default.as_str().is_some_and(definition::is_token));
        let (Some(part), Some(mut value)) = (part, default.cloned()) else { continue };
        let mut unknown = Vec::new();
        fill(schema, part, &mut value, "", Some(stand_ins), &mut unknown);
        // What the space gives below it is known only when a run starts.
        if unknown.is_empty() {
            parts.insert(at.to_string(), part.clone());
            values.insert(at.to_string(), value);
        }
    }
    // They are checked as one further input, by copies of their schemas, so that references lead where they did.
    let mut whole = schema.clone();
    whole["properties"][DEFAULTS] = json!({ "properties": parts });
    let values = json!({ DEFAULTS: values });
    let validator = definition::is_bounded(&whole, &values).then(|| definition::compile(&whole).ok()).flatten();
    let Some(validator) = validator else { return Vec::new() };
    let below = format!("/properties/{DEFAULTS}/properties/");
    let misfits = validator.iter_errors(&values).filter_map(|error| {
        let at: usize = error.evaluation_path().to_string().strip_prefix(&below)?.split('/').next()?.parse().ok()?;
        let mistake = Mistake::new("input_schema_invalid", format!("the default does not fit its schema: {}", error.masked()));
        Some(mistake.hint("write one that fits, or take it away").under(&format!("{}/default", places.get(at)?)))
    });
    misfits.take(TOLD_MAX).collect()
}

/// Refuses inputs that are too large to be kept, or to be checked by their schema.
fn bounded(schema: &Value, inputs: &Value) -> Result<(), Vec<Mistake>> {
    let refused = |message: String| Err(vec![Mistake::new("inputs_invalid", message).hint("send less at once")]);
    if definition::bytes(inputs) > INPUTS_BYTES_MAX {
        return refused(format!("the inputs have more than {} MB", INPUTS_BYTES_MAX / (1024 * 1024)));
    }
    if !definition::is_bounded(schema, inputs) {
        return refused("the inputs are too large to be checked by their schema".to_owned());
    }
    Ok(())
}

/// What the mapping names, or the members of the same names. What is not there is left out, so that a default may apply.
fn map(schema: &Value, trigger: &Trigger, payload: &Value) -> Result<Value, Mistake> {
    let Some(mapping) = trigger.input_mapping() else {
        let declared = schema.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys);
        return Ok(declared.filter_map(|name| Some((name.clone(), payload.get(name)?.clone()))).collect());
    };
    let mut left = INPUTS_BYTES_MAX;
    let mut inputs = Map::new();
    for (name, path) in mapping {
        let found = Path::parse(path).map_or(Ok(None), |path| path.select(payload, &mut left)).map_err(|TooMuch| {
            let mistake = Mistake::new("inputs_invalid", format!("the mapping takes more than {} MB", INPUTS_BYTES_MAX / (1024 * 1024)));
            mistake.hint(format!("map less: `{path}` may find the same value more than once")).under(&format!("/{}", escape(name)))
        })?;
        inputs.extend(found.map(|value| (name.clone(), value)));
    }
    Ok(Value::Object(inputs))
}

/// Writes defaults in, and makes leap seconds the second before, wherever the schema speaks of a member or an item by itself.
/// SECURITY: an item gets no defaults, so that a long list of empty ones cannot become far larger than what was sent.
fn fill(root: &Value, schema: &Value, value: &mut Value, place: &str, defaults: Option<Defaults<'_>>, mistakes: &mut Vec<Mistake>) {
    let Some(schema) = followed(root, schema) else { return };
    match value {
        Value::Object(members) => {
            for (name, schema) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
                let below = format!("{place}/{}", escape(name));
                if !members.contains_key(name)
                    && let Some(defaults) = defaults
                    && let Some(default) = followed(root, schema).and_then(|schema| schema.get("default"))
                {
                    match meant(default, name, defaults) {
                        Ok(value) => drop(members.insert(name.clone(), value)),
                        Err(mistake) => mistakes.push(mistake.under(&below)),
                    }
                }
                if let Some(value) = members.get_mut(name) {
                    fill(root, schema, value, &below, defaults, mistakes);
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = schema.get("items") else { return };
            items.iter_mut().enumerate().for_each(|(index, item)| fill(root, schema, item, &format!("{place}/{index}"), None, mistakes));
        }
        Value::String(text) => {
            if schema.get("format").and_then(Value::as_str).is_some_and(|format| matches!(format, "date-time" | "time")) {
                clamp_leap_second(text);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn followed<'a>(root: &'a Value, schema: &'a Value) -> Option<&'a Value> {
    let mut at = schema;
    for _ in 0..REFERENCES_MAX {
        // A default beside a reference is meant for this place.
        match at.get("$ref").and_then(Value::as_str).filter(|_| at.get("default").is_none()) {
            Some(reference) => at = root.pointer(reference.strip_prefix('#')?)?,
            None => return Some(at),
        }
    }
    None
}

/// The value that a default stands for.
fn meant(default: &Value, name: &str, defaults: Defaults<'_>) -> Result<Value, Mistake> {
    match default.as_str().filter(|text| definition::is_token(text)) {
        Some("$last_fired_at") => Ok(Value::String(defaults.last_fired_at.to_string())),
        Some("$creator") => Ok(Value::String(defaults.creator.to_owned())),
        Some(_) => defaults.space_default.get(name).cloned().ok_or_else(|| {
            let mistake = Mistake::new("inputs_invalid", format!("the space has no default for `{name}`"));
            mistake.hint(format!("set `{name}` among the `defaults` of the space, or send it"))
        }),
        None => Ok(default.clone()),
    }
}

/// `23:59:60` is a time that RFC 3339 has and that most programs do not: it becomes the second before.
fn clamp_leap_second(text: &mut String) {
    let clock = text.find(['T', 't']).map_or(0, |at| at + 1);
    let is_leap = text.get(clock..clock + 8).is_some_and(|clock| {
        let bytes = clock.as_bytes();
        bytes[2] == b':' && bytes[5] == b':' && clock.ends_with("60")
    });
    if is_leap {
        text.replace_range(clock + 6..clock + 8, "59");
    }
}

#[cfg(test)]
#[path = "inputs_tests.rs"]
mod tests;
