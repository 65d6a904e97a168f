//! The marks that redaction leaves in the inputs of a run (`docs/concepts/redaction.md`). A picture whose faces were covered has none.

use countersign_core::session::Kind;
use serde_json::Value;

/// What stands for a secret.
const REDACTED: &str = "[redacted]";
/// The member that stands for inputs of which nothing is shown.
const UNREADABLE: &str = "_unreadable";

/// Every mark, with its place: `` `<EMAIL_1>` at `/to` ``.
pub(super) fn left_in(value: &Value) -> Vec<String> {
    let mut left = Vec::new();
    walk("", value, &mut left);
    left
}

fn walk(place: &str, value: &Value, left: &mut Vec<String>) {
    match value {
        Value::String(text) => left.extend(mark_in(text).map(|mark| told(&mark, place))),
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                walk(&format!("{place}/{at}"), item, left);
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                let place = format!("{place}/{}", name.replace('~', "~0").replace('/', "~1"));
                let is_unreadable = name == UNREADABLE && *member == Value::Bool(true);
                let mark = mark_in(name).or_else(|| is_unreadable.then(|| UNREADABLE.to_owned()));
                left.extend(mark.map(|mark| told(&mark, &place)));
                walk(&place, member, left);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn told(mark: &str, place: &str) -> String {
    let place = if place.is_empty() { "/" } else { place };
    format!("`{mark}` at `{place}`")
}

/// The first mark in a text: `[redacted]`, or a token such as `<EMAIL_1>`.
fn mark_in(text: &str) -> Option<String> {
    if text.contains(REDACTED) {
        return Some(REDACTED.to_owned());
    }
    let mut words = text.split('<').skip(1).filter_map(|rest| rest.split_once('>')).map(|(word, _)| word);
    words.find(|word| is_token(word)).map(|word| format!("<{word}>"))
}

fn is_token(word: &str) -> bool {
    let Some((kind, number)) = word.rsplit_once('_') else { return false };
    let is_kind = Kind::ALL.iter().any(|known| known.as_str().to_ascii_uppercase() == kind);
    is_kind && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_mark_is_told_with_its_place_and_nothing_else_is_one() {
        for (value, expected) in [
            (
                json!({ "password": "[redacted]", "to": ["x", "write to <EMAIL_12>, <b>"] }),
                vec!["`[redacted]` at `/password`", "`<EMAIL_12>` at `/to/1`"],
            ),
            (
                json!({ "a/b": { "<PHONE_1>": "<SECRET_2>" } }),
                vec!["`<PHONE_1>` at `/a~1b/<PHONE_1>`", "`<SECRET_2>` at `/a~1b/<PHONE_1>`"],
            ),
            (json!({ "_unreadable": true }), vec!["`_unreadable` at `/_unreadable`"]),
            (json!("a << <EMAIL_1>"), vec!["`<EMAIL_1>` at `/`"]),
            (json!({ "text": "redacted <EMAIL_> <EMAIL_x> <NAME_1> EMAIL_1 <EMAIL_1", "_unreadable": false, "n": 1 }), vec![]),
        ] {
            assert_eq!(left_in(&value), expected, "{value}");
        }
    }
}
