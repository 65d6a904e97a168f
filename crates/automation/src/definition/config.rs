//! The config of a step against the params of its action, before its templates have values.
//!
//! A string with a template in it is a hole: nobody knows its value yet. So a complaint is dropped where another value of a hole could
//! settle it, and stays where none could: a missing or unknown member, a list that is too long, a number out of range. Two things are known
//! of a hole: that its member is there, and that it is a text if it is more than one `{{ … }}`. Calls are checked exactly, when they are made;
//! so is a config whose schema refers to itself.

use super::input_schema;
use super::parts;
use crate::Mistake;
use crate::mistake::in_lower_case;
use countersign_core::json::{INTEGER_MAX, escape};
use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind;
use serde_json::{Map, Value};

/// Complaints about a config that are told.
const TOLD_MAX: usize = 50;
/// Keywords that count or name members and items, and never look into them.
const OUTSIDE: [&str; 7] = ["required", "additionalProperties", "propertyNames", "minItems", "maxItems", "minProperties", "maxProperties"];

/// In whose words it is told that a value does not fit its schema.
pub(crate) struct Words {
    pub(crate) code: &'static str,
    pub(crate) taker: &'static str,
    pub(crate) taken: &'static str,
}

const OF_ACTION: Words = Words { code: "config_invalid", taker: "the action", taken: "the params" };

pub(super) fn check(config: &Value, params: &Value) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    too_large(config, "", &mut mistakes);
    // SECURITY: the schema is a stranger's. One whose cost nobody can tell is left to the check of the call, which counts its steps.
    if !input_schema::is_bounded(params, config) {
        return mistakes;
    }
    match input_schema::compile(params) {
        Ok(validator) => {
            let errors = validator.iter_errors(config).filter(|error| is_certain(error, config));
            mistakes.extend(errors.flat_map(|error| told(&error, params, config, &OF_ACTION)).take(TOLD_MAX));
        }
        // The action itself is unusable, whatever is written here.
        Err(unusable) => mistakes.push(
            Mistake::new("config_invalid", format!("the params of the action cannot be checked: {}", unusable.message))
                .hint("choose another action, or review its source"),
        ),
    }
    mistakes
}

/// A call with such a number would be refused: it would change when it is signed.
fn too_large(value: &Value, place: &str, mistakes: &mut Vec<Mistake>) {
    match value {
        Value::Number(number) => {
            let is_exact = number.as_f64().is_none_or(|number| number.fract() != 0.0 || number.abs() <= INTEGER_MAX as f64)
                && number.as_u64().is_none_or(|number| number <= INTEGER_MAX as u64)
                && number.as_i64().is_none_or(|number| number >= -INTEGER_MAX);
            if !is_exact {
                let mistake =
                    Mistake::new("config_invalid", format!("{number} is beyond 2^53 - 1, and would change when the call is signed"));
                mistakes.push(mistake.hint("write it as a string").under(place));
            }
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| too_large(item, &format!("{place}/{index}"), mistakes));
        }
        Value::Object(members) => {
            members.iter().for_each(|(name, value)| too_large(value, &format!("{place}/{}", escape(name)), mistakes));
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// Whether the complaint stands whatever the holes will hold.
fn is_certain(error: &ValidationError<'_>, config: &Value) -> bool {
    let path = error.evaluation_path().to_string();
    if path.split('/').any(|step| matches!(step, "then" | "else")) && has_hole(config) {
        return false; // The condition may depend on a hole.
    }
    let keyword = error.kind().keyword();
    let value = error.instance().as_ref();
    match value.as_str().filter(|text| parts::is_template(text)) {
        Some(hole) => keyword == "falseSchema" || (keyword == "type" && !is_one_expression(hole)),
        None => !has_hole(value) || OUTSIDE.contains(&keyword) || keyword == "type",
    }
}

/// Such a template keeps the type of its value.
fn is_one_expression(text: &str) -> bool {
    let inner = text.trim().strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}"));
    inner.is_some_and(|inner| !inner.contains("}}") && !inner.contains("{{") && !inner.contains("{%"))
}

fn has_hole(value: &Value) -> bool {
    match value {
        Value::String(text) => parts::is_template(text),
        Value::Array(items) => items.iter().any(has_hole),
        Value::Object(members) => members.values().any(has_hole),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// What a complaint of `schema` about a part of `value` says to whoever wrote that.
pub(crate) fn told(error: &ValidationError<'_>, schema: &Value, value: &Value, words: &Words) -> Vec<Mistake> {
    let Words { code, taker, taken } = words;
    let place = error.instance_path().to_string();
    let below = |name: &str| format!("{place}/{}", escape(name));
    let asked_at = error.schema_path().to_string();
    let at = |message: String, hint: String, place: &str| Mistake::new(code, message).hint(hint).under(place);
    let owner = || schema.pointer(asked_at.rsplit_once('/').map_or("", |(owner, _)| owner));
    let properties = || owner().and_then(|owner| owner.get("properties")?.as_object());
    let unexpected = if let ValidationErrorKind::AdditionalProperties { unexpected } = error.kind() {
        Some(unexpected.clone())
    } else if matches!(error.kind(), ValidationErrorKind::FalseSchema) && asked_at.ends_with("/additionalProperties") {
        // So the library says it of a schema that has no properties at all.
        value.pointer(&place).and_then(Value::as_object).map(|members| members.keys().cloned().collect())
    } else {
        None
    };
    if let Some(unexpected) = unexpected {
        let names: Vec<&str> = properties().into_iter().flat_map(Map::keys).map(String::as_str).collect();
        let all = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let otherwise = if names.is_empty() { "it takes none".to_owned() } else { format!("it takes {all}") };
        let hint = |name: &str| super::facts::did_you_mean(name, names.iter().copied(), otherwise.as_str());
        return unexpected.iter().map(|name| at(format!("{taker} takes no `{name}`"), hint(name), &below(name))).collect();
    }
    if let ValidationErrorKind::Required { property } = error.kind() {
        let name = property.as_str().unwrap_or_default();
        let about = properties().and_then(|properties| properties.get(name)?.get("description")?.as_str());
        let hint = about.map_or_else(|| format!("add `{name}`"), |about| format!("add `{name}`: {about}"));
        return vec![at(format!("{taker} needs `{name}`"), hint, &below(name))];
    }
    let message = in_lower_case(&error.masked().to_string());
    vec![at(message, format!("the schema of {taken} asks for it at `{asked_at}`"), &place)]
}

/// All texts of a value, each with its pointer.
pub(super) fn texts<'a>(value: &'a Value, place: String, found: &mut Vec<(String, &'a str)>) {
    match value {
        Value::String(text) => found.push((place, text)),
        Value::Array(items) => items.iter().enumerate().for_each(|(index, item)| texts(item, format!("{place}/{index}"), found)),
        Value::Object(members) => {
            members.iter().for_each(|(name, value)| texts(value, format!("{place}/{}", escape(name)), found));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
