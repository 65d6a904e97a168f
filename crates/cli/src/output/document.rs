//! One document on stdout, JSON or YAML, with all its fields or those that were asked for.

use crate::exit::Failure;
use crate::style::clean;
use serde_json::{Map, Value};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syntax {
    Json,
    Yaml,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    Indented,
    OneLine,
}

/// Which fields `--json` shows; dots lead inwards: `decision.mode`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fields {
    All,
    Some(Vec<String>),
}

impl Fields {
    /// Reads `id,status`; nothing means all.
    pub(crate) fn parse(text: Option<&str>) -> Self {
        let names: Vec<_> = text.unwrap_or_default().split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
        if names.is_empty() { Self::All } else { Self::Some(names) }
    }

    /// Keeps these fields of a thing, or of every item of a page.
    pub(super) fn select(&self, value: &Value) -> Result<Value, Failure> {
        let Self::Some(names) = self else { return Ok(value.clone()) };
        match (value.get("items"), value.as_object()) {
            (Some(Value::Array(items)), Some(page)) => {
                let items = items.iter().map(|item| pick(item, names)).collect::<Result<Vec<_>, _>>()?;
                let mut page = page.clone();
                page.insert("items".to_owned(), Value::Array(items));
                Ok(Value::Object(page))
            }
            _ => pick(value, names),
        }
    }
}

/// Anything deceptive is written as an escape. In JSON that is the same JSON; YAML shows it and is no longer the same text.
pub(super) fn text(value: &Value, syntax: Syntax, layout: Layout) -> Result<String, Failure> {
    let unwritable = |error: String| Failure::failed(format!("the answer cannot be written: {error}"));
    match (syntax, layout) {
        (Syntax::Json, Layout::Indented) => serde_json::to_string_pretty(value).map(|text| clean::json(&text)),
        (Syntax::Json, Layout::OneLine) => serde_json::to_string(value).map(|text| clean::json(&text)),
        (Syntax::Yaml, _) => {
            let text = serde_saphyr::to_string(value).map_err(|error| unwritable(error.to_string()))?;
            return Ok(clean::block(text.trim_end()));
        }
    }
    .map_err(|error| unwritable(error.to_string()))
}

fn pick(item: &Value, names: &[String]) -> Result<Value, Failure> {
    let mut picked = Map::new();
    for name in names {
        let found = name.split('.').try_fold(item, |at, part| at.get(part));
        let found = found.ok_or_else(|| {
            let known: Vec<_> = item.as_object().into_iter().flat_map(Map::keys).map(String::as_str).collect();
            Failure::usage(format!("there is no field `{name}`")).cause(format!("the fields are {}", known.join(", ")))
        })?;
        picked.insert(name.clone(), found.clone());
    }
    Ok(Value::Object(picked))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;
    use serde_json::json;

    fn check(fields: &str, value: Value, expected: Value) {
        assert_eq!(Fields::parse(Some(fields)).select(&value), Ok(expected), "{fields}");
    }

    #[test]
    fn fields_are_picked_from_a_thing_and_from_every_item_of_a_page() {
        let thing = json!({ "id": "a", "status": "pending", "decision": { "mode": "allow" } });
        check("", thing.clone(), thing.clone());
        check("id", thing.clone(), json!({ "id": "a" }));
        check("status, decision.mode", thing.clone(), json!({ "status": "pending", "decision.mode": "allow" }));
        check("id", json!({ "items": [thing], "next": "x" }), json!({ "items": [{ "id": "a" }], "next": "x" }));
    }

    #[test]
    fn yaml_reads_back_as_what_was_written() {
        let value =
            json!({ "id": "inv_1", "text": "two\nlines: #1", "yes": "yes", "number": 1.5, "none": null, "list": [{ "a": true }, []] });
        let text = text(&value, Syntax::Yaml, Layout::OneLine).unwrap();
        assert_eq!(serde_saphyr::from_str::<Value>(&text).unwrap(), value, "{text}");
    }

    #[test]
    fn a_terminal_obeys_nothing_that_is_written() {
        for syntax in [Syntax::Json, Syntax::Yaml] {
            let text = text(&json!({ "title": "a\u{1b}[2Jb\u{202e}c" }), syntax, Layout::OneLine).unwrap();
            assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text:?}");
        }
    }

    #[test]
    fn a_field_that_does_not_exist_is_named_with_those_that_do() {
        let failure = Fields::parse(Some("nope")).select(&json!({ "id": 1, "title": 2 })).unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
        assert_eq!(failure.message, "there is no field `nope`");
        assert_eq!(failure.cause.as_deref(), Some("the fields are id, title"));
    }
}
