//! Params that the approver changes: edits them in an editor, and lists the differences.

use crate::commands::editor::{self, About};
use crate::commands::show::asked_for;
use crate::shared::*;
use countersign_core::json;
use serde_json::Value;

/// The placeholder that stands for a redacted secret.
const REDACTED: &str = "[redacted]";

/// Opens the params in the user's editor and returns what the user saved.
pub(super) async fn by_hand(asked: &Value, terminal: &Terminal) -> Result<Value, Failure> {
    let text = serde_json::to_string_pretty(asked).map_err(|error| Failure::failed(error.to_string()))?;
    // The params that are shown are not complete. An edited copy would run with the placeholder or the truncated text.
    if text.contains(REDACTED) || asked_for(asked).1.is_some() {
        return Err(Failure::usage("the params are not shown whole, so they cannot be edited").hint("give them whole with --params"));
    }
    let elsewhere = "give them whole with --params, such as --params @file";
    let edited = editor::edited(&text, &About { what: "params", otherwise: "not approved", elsewhere }, terminal).await?;
    let params = json::parse_strict(edited.as_bytes())
        .map_err(|error| Failure::new(Exit::Invalid, format!("not approved: what was edited is not JSON we accept: {}", error.message)))?;
    if params.is_object() { Ok(params) } else { Err(Failure::new(Exit::Invalid, "not approved: the params must be a JSON object")) }
}

/// The differences, one line each: `/text: "a" → "b"`.
pub(super) fn changes(before: &Value, after: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    walk("", Some(before), Some(after), &mut lines);
    lines
}

fn walk(pointer: &str, before: Option<&Value>, after: Option<&Value>, lines: &mut Vec<String>) {
    if before == after {
        return;
    }
    if let (Some(Value::Object(one)), Some(Value::Object(other))) = (before, after) {
        let names: std::collections::BTreeSet<_> = one.keys().chain(other.keys()).collect();
        for name in names {
            let step = name.replace('~', "~0").replace('/', "~1");
            walk(&format!("{pointer}/{step}"), one.get(name), other.get(name), lines);
        }
        return;
    }
    let told = |value: Option<&Value>| value.map_or_else(|| "nothing".to_owned(), |value| clean::json(&value.to_string()));
    lines.push(format!("{}: {} → {}", clean::line(pointer), told(before), told(after)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_differs_is_told() {
        let before = json!({ "path": "a", "text": "x", "deep": { "a/b": 1, "same": true }, "gone": null });
        let after = json!({ "path": "a", "text": "\u{1b}y", "deep": { "a/b": 2, "same": true }, "new": [1] });
        assert_eq!(
            changes(&before, &after),
            ["/deep/a~1b: 1 → 2", "/gone: null → nothing", "/new: nothing → [1]", "/text: \"x\" → \"\\u001by\""]
        );
        assert_eq!(changes(&before, &before), Vec::<String>::new());
    }
}
