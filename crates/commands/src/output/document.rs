//! Writes one JSON or YAML document to stdout, with all fields or only the selected ones.

use crate::exit::Failure;
use crate::style::clean;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

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

/// The fields that `--json` shows. Dots separate the names of nested fields: `decision.mode`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fields {
    All,
    Some(Vec<String>),
}

impl Fields {
    /// Parses `id,status`. An empty text means all fields.
    pub(crate) fn parse(text: Option<&str>) -> Self {
        let names: Vec<_> = text.unwrap_or_default().split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
        if names.is_empty() { Self::All } else { Self::Some(names) }
    }

    /// Keeps only these fields, of the document or of every item of a page.
    pub(super) fn select(&self, value: &Value) -> Result<Value, Failure> {
        let Self::Some(names) = self else { return Ok(value.clone()) };
        match (value.get("items"), value.as_object()) {
            (Some(Value::Array(items)), Some(page)) => {
                let mut page = page.clone();
                page.insert("items".to_owned(), Value::Array(pick(items, names)?));
                Ok(Value::Object(page))
            }
            _ => pick(std::slice::from_ref(value), names).map(|mut picked| picked.pop().unwrap_or_default()),
        }
    }
}

/// The document as text. Deceptive characters are written as escapes. In JSON the value stays the same; in YAML the escapes change the
/// text.
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

/// Picks the fields of every item. A field that only some items have is null in the others.
fn pick(items: &[Value], names: &[String]) -> Result<Vec<Value>, Failure> {
    if let Some(unknown) = names.iter().find(|name| !items.is_empty() && items.iter().all(|item| find(item, name).is_none())) {
        return Err(no_field(unknown, items));
    }
    let one = |item| names.iter().map(|name| (name.clone(), find(item, name).cloned().unwrap_or_default())).collect();
    Ok(items.iter().map(|item| Value::Object(one(item))).collect())
}

fn find<'a>(item: &'a Value, name: &str) -> Option<&'a Value> {
    name.split('.').try_fold(item, |at, part| at.get(part))
}

/// The failure for an unknown field. It lists the fields that exist at the level where the name goes wrong.
fn no_field(name: &str, items: &[Value]) -> Failure {
    let mut inwards = name.split('.');
    let (mut at, mut before): (Vec<_>, _) = (items.iter().collect(), String::new());
    for part in inwards.by_ref() {
        let below: Vec<_> = at.iter().filter_map(|value| value.get(part)).filter(|value| value.is_object()).collect();
        if below.is_empty() {
            break;
        }
        (at, before) = (below, format!("{before}{part}."));
    }
    let known: BTreeSet<_> = at.iter().filter_map(|value| value.as_object()).flat_map(Map::keys).map(String::as_str).collect();
    let known: Vec<_> = known.into_iter().collect();
    let place = before.strip_suffix('.').map(|place| format!(" of `{place}`")).unwrap_or_default();
    let failure = Failure::usage(format!("there is no field `{name}`")).cause(format!("the fields{place} are {}", known.join(", ")));
    let object = at.iter().filter_map(|value| value.as_object()).flatten().find(|(_, value)| value.is_object());
    match object {
        Some((inner, _)) => failure.hint(format!("dots lead inwards, such as {before}{inner}.…")),
        None => failure,
    }
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
        let nested = json!({ "items": [{ "id": 1, "body": { "a": 1 } }, { "id": 2, "body": { "b": 1 } }] });
        let told = |fields: &str| {
            let failure = Fields::parse(Some(fields)).select(&nested).unwrap_err();
            (failure.cause.unwrap_or_default(), failure.hint)
        };
        assert_eq!(told("status"), ("the fields are body, id".to_owned(), Some("dots lead inwards, such as body.…".to_owned())));
        assert_eq!(told("id,body.c"), ("the fields of `body` are a, b".to_owned(), None));
    }

    #[test]
    fn what_only_some_items_have_is_null_in_the_others() {
        let page = json!({ "items": [{ "id": 1, "ended": "now" }, { "id": 2 }], "next": null });
        check("id,ended", page, json!({ "items": [{ "id": 1, "ended": "now" }, { "id": 2, "ended": null }], "next": null }));
        check("id", json!({ "items": [], "next": null }), json!({ "items": [], "next": null }));
    }
}
