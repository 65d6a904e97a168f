//! The tests of a package: each JSON file under `tests/` describes one.

use super::fields::{self, Fields};
use super::folder::PackageFiles;
use super::mistake::{Mistake, one_of};
use crate::words::shown;
use crate::workspace::path::WorkspacePath;
use countersign_core::Status;
use serde_json::Value;
use std::collections::BTreeMap;

/// One test: the call, the workspace before it, and the expected outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    pub action: String,
    pub input: Value,
    /// The files of the workspace before the call.
    pub files: BTreeMap<String, String>,
    pub status: Status,
    pub output: Option<Value>,
    /// Text that the error (`code: message`) must contain, so that a different failure does not pass the test.
    pub error: Option<String>,
    /// Every file of the workspace after the call.
    pub files_after: Option<BTreeMap<String, String>>,
}

/// Every test with its file name. A test with mistakes is left out, and its mistakes are reported.
pub fn cases_of(files: &PackageFiles, mistakes: &mut Vec<Mistake>) -> Vec<(String, Case)> {
    let name_of = |path: &str| path.strip_prefix("actions/")?.strip_suffix("/action.json").map(str::to_owned);
    let actions: Vec<_> = files.keys().filter_map(|path| name_of(path)).collect();
    let tests = files.iter().filter(|(path, _)| path.starts_with("tests/") && path.ends_with(".json"));
    tests.filter_map(|(path, file)| Some((path.clone(), Case::read(&file.bytes, path, &actions, mistakes)?))).collect()
}

/// The statuses that a test's call can end with. A test answers every pending call and cancels none.
fn ends() -> Vec<(&'static str, Status)> {
    let can_be_seen = |status: &Status| match status {
        Status::Succeeded | Status::Failed | Status::Reverted | Status::Denied | Status::Quarantined | Status::InDoubt => true,
        Status::Pending | Status::Approved | Status::Running | Status::Expired | Status::Cancelled => false,
    };
    Status::ALL.into_iter().filter(can_be_seen).map(|status| (status.as_str(), status)).collect()
}

impl Case {
    fn read(bytes: &[u8], file: &str, actions: &[String], mistakes: &mut Vec<Mistake>) -> Option<Self> {
        let before = mistakes.len();
        let value = fields::parse(bytes, file, mistakes)?;
        let case = fields::read(&value, file, mistakes, |fields| {
            fields.required("action", "\"action\": \"append_to_notes\"");
            fields.required("input", "\"input\": {}");
            fields.required("expect", "\"expect\": { \"status\": \"succeeded\" }");
            let action = action_of(fields, actions);
            let input = fields.value("input").cloned().unwrap_or_default();
            let files = files_of(fields).unwrap_or_default();
            let (status, output, error, files_after) = fields.object("expect", |fields| {
                fields.required("status", "\"status\": \"succeeded\"");
                (fields.word("status", &ends()), fields.value("output").cloned(), fields.text("error"), files_of(fields))
            });
            Some(Self { action, input, files, status: status?, output, error, files_after })
        });
        case.filter(|_| mistakes.len() == before)
    }
}

fn action_of(fields: &mut Fields<'_, '_>, actions: &[String]) -> String {
    let action = fields.text("action").unwrap_or_default();
    if !action.is_empty() && !actions.contains(&action) {
        let known: Vec<_> = actions.iter().map(String::as_str).collect();
        fields.wrong("action", format!("this package has no action `{}`", shown(&action)), one_of(&action, &known));
    }
    action
}

/// Texts by their path in the workspace.
fn files_of(fields: &mut Fields<'_, '_>) -> Option<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    for (path, text) in fields.members("files")? {
        if let Err(error) = WorkspacePath::parse(path) {
            fields.wrong("files", error.to_string(), "write a path below the workspace, such as `notes/a.txt`");
        }
        match text.as_str() {
            Some(text) => drop(files.insert(path.clone(), text.to_owned())),
            None => fields.wrong("files", format!("what `{}` holds must be a text", shown(path)), "write its content as a text"),
        }
    }
    Some(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::folder::PackageFile;
    use crate::package::mistake::Place;
    use serde_json::json;

    fn read(case: &Value) -> (Vec<(String, Case)>, Vec<Mistake>) {
        let file = |text: String| PackageFile { bytes: text.as_bytes().into(), is_executable: false };
        let files = [("actions/append/action.json", "{}".to_owned()), ("tests/a.json", case.to_string())];
        let mut mistakes = Vec::new();
        let cases = cases_of(&files.map(|(path, text)| (path.to_owned(), file(text))).into(), &mut mistakes);
        (cases, mistakes)
    }

    fn case() -> Value {
        json!({ "action": "append", "input": { "n": 1 }, "files": { "a.txt": "x" },
            "expect": { "status": "succeeded", "output": { "n": 2 }, "error": "package_failed", "files": {} } })
    }

    #[test]
    fn a_case_is_read_as_it_is_written() {
        let (cases, mistakes) = read(&case());
        let files = BTreeMap::from([("a.txt".to_owned(), "x".to_owned())]);
        let expected = Case {
            action: "append".to_owned(),
            input: json!({ "n": 1 }),
            files,
            status: Status::Succeeded,
            output: Some(json!({ "n": 2 })),
            error: Some("package_failed".to_owned()),
            files_after: Some(BTreeMap::new()),
        };
        assert_eq!((cases, mistakes), (vec![("tests/a.json".to_owned(), expected)], vec![]));
    }

    #[test]
    fn a_word_that_is_none_is_said_with_the_one_that_was_meant() {
        for (pointer, field, wrong, message, hint) in [
            ("/expect", "status", json!("suceeded"), "`suceeded` is not a `status`", "did you mean `succeeded`?"),
            ("/expect", "status", json!("pending"), "`pending` is not a `status`", "`succeeded`, `failed`, `reverted`"),
            ("/expect", "staus", json!("failed"), "no field `staus`", "did you mean `status`?"),
            ("/expect", "error", json!(7), "it must be a text, and is a number", "write a text"),
            ("/expect", "files", json!({ "a": 1 }), "what `a` holds must be a text", "as a text"),
            ("", "action", json!("apend"), "no action `apend`", "did you mean `append`?"),
            ("", "action", json!(7), "it must be a text, and is a number", "write a text"),
            ("", "files", json!({ "../../x": "x" }), "x", "below the workspace"),
            ("", "expect", json!("succeeded"), "it must be an object, and is a text", "between `{` and `}`"),
        ] {
            let mut case = case();
            case.pointer_mut(pointer).unwrap()[field] = wrong;
            let (cases, mistakes) = read(&case);
            let place = Place::Field(format!("{pointer}/{field}"));
            let found =
                mistakes.iter().any(|mistake| mistake.place == place && mistake.message.contains(message) && mistake.hint.contains(hint));
            assert!(found && cases.is_empty(), "{field}: {mistakes:#?}");
        }
        let (_, mistakes) = read(&json!({}));
        assert_eq!(mistakes.iter().filter(|mistake| mistake.message == "it is missing").count(), 3, "{mistakes:#?}");
    }
}
