//! The pass by the published schema: its errors as mistakes, each with a code, a place and what to try.

use super::codes::known;
use super::facts::did_you_mean;
use crate::Mistake;
use crate::limits::DEFINITION_MISTAKES_MAX;
use crate::mistake::in_lower_case;
use countersign_core::json::escape;
use jsonschema::error::ValidationErrorKind;
use jsonschema::{ValidationError, Validator};
use serde_json::{Map, Value};
use std::sync::LazyLock;

static SCHEMA: LazyLock<Value> = LazyLock::new(super::schema);
static VALIDATOR: LazyLock<Option<Validator>> = LazyLock::new(|| super::input_schema::compile(&SCHEMA).ok());

pub(super) fn check(value: &Value) -> Vec<Mistake> {
    let errors = VALIDATOR.iter().flat_map(|validator| validator.iter_errors(value));
    errors.take(DEFINITION_MISTAKES_MAX).flat_map(|error| mistakes(&error)).collect()
}

/// Whether there is a validator; a test asks.
#[cfg(test)]
pub(super) fn is_compiled() -> bool {
    VALIDATOR.is_some()
}

fn mistakes(error: &ValidationError<'_>) -> Vec<Mistake> {
    let place = error.instance_path().to_string();
    let schema = subschema(error);
    let member = |name: &str| format!("{place}/{}", escape(name));
    if let ValidationErrorKind::AdditionalProperties { unexpected } = error.kind() {
        return unexpected.iter().map(|name| unknown_member(&place, name, schema).under(&member(name))).collect();
    }
    if let ValidationErrorKind::Required { property } = error.kind() {
        let name = property.as_str().unwrap_or_default();
        let about = schema.and_then(|schema| schema.get("properties")?.get(name)?.get("description")?.as_str());
        let hint = about.map_or_else(|| format!("add `{name}`"), |about| format!("add `{name}`: {about}"));
        return vec![Mistake::new("required", format!("`{name}` is missing")).hint(hint).under(&member(name))];
    }
    vec![wrong_value(error, schema).under(&place)]
}

/// The schema that has the keyword which failed.
fn subschema(error: &ValidationError<'_>) -> Option<&'static Map<String, Value>> {
    let path = error.schema_path().to_string();
    let (schema, _keyword) = path.rsplit_once('/')?;
    SCHEMA.pointer(schema)?.as_object()
}

fn unknown_member(place: &str, name: &str, schema: Option<&'static Map<String, Value>>) -> Mistake {
    if name == "on_failure" && (place.starts_with("/plan/") || place.starts_with("/execution/on_failure/")) {
        let mistake = Mistake::new("on_failure_nested", "a step has no `on_failure` of its own");
        return mistake.hint("`execution.on_failure` has the steps for the whole plan; in it, branch with `when` on `run.failed_step_id`");
    }
    let members = schema.and_then(|schema| schema.get("properties")?.as_object());
    let names: Vec<&str> = members.into_iter().flat_map(Map::keys).map(String::as_str).collect();
    let all = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let hint = did_you_mean(name, names.iter().copied(), format!("it may have {all}"));
    Mistake::new("unknown_member", format!("there is no member `{name}` here")).hint(hint)
}

fn wrong_value(error: &ValidationError<'_>, schema: Option<&'static Map<String, Value>>) -> Mistake {
    let keyword = error.kind().keyword();
    let of_schema = |name: &str| schema.and_then(|schema| schema.get(name));
    let own = of_schema("x-countersign-codes").and_then(|codes| known(codes.get(keyword)?.as_str()?));
    let code = own.unwrap_or(match keyword {
        "enum" | "const" => "enum",
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => {
            "range"
        }
        "minLength" | "maxLength" => "text_length",
        "pattern" => "name_form",
        _ => "type",
    });
    let mistake = Mistake::new(code, in_words(error));
    match hint(keyword, error.instance(), &of_schema) {
        Some(hint) => mistake.hint(hint),
        None => mistake,
    }
}

/// What was written is told back where it is short: it is the author's own.
fn in_words(error: &ValidationError<'_>) -> String {
    let written = error.instance().to_string();
    let text = if written.len() <= 80 { error.to_string() } else { error.masked().to_string() };
    in_lower_case(&text)
}

fn hint(keyword: &str, written: &Value, of_schema: &impl Fn(&str) -> Option<&'static Value>) -> Option<String> {
    let number = |name: &str| of_schema(name).map(Value::to_string);
    let between = |least: &str, most: &str, what: &str| match (number(least), number(most)) {
        (Some(least), Some(most)) => Some(format!("write {what} from {least} to {most}")),
        (None, Some(most)) => Some(format!("write {what} up to {most}")),
        (Some(least), None) => Some(format!("write {what} of {least} at least")),
        (None, None) => None,
    };
    match keyword {
        "enum" => {
            let options: Vec<&str> = of_schema("enum")?.as_array()?.iter().filter_map(Value::as_str).collect();
            let all = options.iter().map(|option| format!("`{option}`")).collect::<Vec<_>>().join(", ");
            Some(did_you_mean(written.as_str().unwrap_or_default(), options, format!("write one of {all}")))
        }
        "minimum" | "maximum" => between("minimum", "maximum", "a number"),
        "minLength" | "maxLength" => between("minLength", "maxLength", "as many characters as"),
        "minItems" | "maxItems" => between("minItems", "maxItems", "a list with a length"),
        "pattern" => {
            let pattern = of_schema("pattern")?.as_str()?;
            let hint = if pattern.contains("\\*") {
                "write lower-case words with dots between them, such as `document.added`, or `document.*`"
            } else if pattern.contains("_-]") {
                "write a lower-case letter, then lower-case letters, digits, `_` or `-`, 64 at most"
            } else {
                "write a lower-case letter, then lower-case letters, digits or `_`, 64 at most"
            };
            Some(hint.to_owned())
        }
        _ => of_schema("description").and_then(Value::as_str).map(str::to_owned),
    }
}
