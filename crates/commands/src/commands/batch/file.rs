//! Reads the file of a batch: a list of actions, or a whole request in which the mode may be left out.

use super::Mode;
use crate::commands::action::params;
use crate::shared::*;
use api::batch::{BatchRequest, PartRequest};
use countersign_core::json::in_plain_words;
use serde::Deserialize;
use serde_json::Value;

const SUCH_AS: &str = "such as [{\"action\": \"files.read_text\", \"params\": {\"path\": \"a.txt\"}}]";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Whole {
    #[serde(default)]
    mode: Mode,
    actions: Vec<PartRequest>,
    idempotency_key: Option<String>,
    #[serde(default)]
    dry_run: bool,
    reason: Option<String>,
}

impl From<Whole> for BatchRequest {
    fn from(whole: Whole) -> Self {
        let Whole { mode, actions, idempotency_key, dry_run, reason } = whole;
        Self { mode: mode.into(), actions, idempotency_key, dry_run, reason }
    }
}

impl Whole {
    fn of(actions: Vec<PartRequest>) -> Self {
        Self { mode: Mode::default(), actions, idempotency_key: None, dry_run: false, reason: None }
    }
}

/// Reads the batch from a file, or from stdin for `-`.
pub(super) async fn read(file: &str, terminal: &Terminal) -> Result<BatchRequest, Failure> {
    let (given, name) = if file == "-" { ("-".to_owned(), "stdin".to_owned()) } else { (format!("@{file}"), format!("`{file}`")) };
    parse(&params::text(given, terminal).await?, &name)
}

/// Parses a batch. `name` names the text in error messages, which give the line and column of the mistake.
fn parse(text: &str, name: &str) -> Result<BatchRequest, Failure> {
    // The text is parsed a second time, because a JSON value does not know its line and column any more.
    let whole = match params::strict(text, &format!("{name} is")).map_err(|failure| failure.hint(SUCH_AS))? {
        Value::Array(_) => serde_json::from_str(text).map(Whole::of),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => serde_json::from_str(text),
    };
    whole
        .map(BatchRequest::from)
        .map_err(|error| Failure::usage(format!("{name} is not a batch")).cause(in_plain_words(&error)).hint(SUCH_AS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_core::part_of::BatchMode;

    #[test]
    fn a_list_is_a_batch_and_a_mode_is_taken_in_both_spellings() {
        let listed = parse(r#"[{"action": "files.list"}]"#, "stdin").unwrap();
        assert_eq!((listed.mode, listed.actions.len()), (BatchMode::AllOrNothing, 1));
        for (text, mode) in [
            (r#"{"actions": []}"#, BatchMode::AllOrNothing),
            (r#"{"mode": "best_effort", "actions": []}"#, BatchMode::BestEffort),
            (r#"{"mode": "best-effort", "actions": []}"#, BatchMode::BestEffort),
            (r#"{"mode": "all-or-nothing", "actions": []}"#, BatchMode::AllOrNothing),
        ] {
            assert_eq!(parse(text, "stdin").unwrap().mode, mode, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_its_file_its_line_and_its_column() {
        for (text, message, cause) in [
            (
                "[\n  {\"action\": \"a.b\"},\n  {\"action\" \"a.c\"}\n]",
                "`b.json` is not JSON we accept",
                "expected `:` at line 3 column 13",
            ),
            ("{\"actions\": [], \"actions\": []}", "`b.json` is not JSON we accept at `/actions`", "key `actions` appears twice"),
            ("[\n  {\"params\": {}}\n]", "`b.json` is not a batch", "missing field `action` at line 2 column 16"),
            ("{\n  \"actoins\": []\n}", "`b.json` is not a batch", "unknown field `actoins`"),
            ("{\"mode\": \"some\", \"actions\": []}", "`b.json` is not a batch", "unknown variant `some`"),
            ("3", "`b.json` is not a batch", "expected an object at line 1 column 1"),
        ] {
            let failure = parse(text, "`b.json`").unwrap_err();
            let told = failure.cause.unwrap();
            assert!(failure.message.starts_with(message) && told.contains(cause), "{text}: {}: {told}", failure.message);
            assert!(told.contains("line ") && told.contains("column "), "{told}");
        }
    }
}
