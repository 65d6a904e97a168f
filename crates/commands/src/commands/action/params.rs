//! The params of a call: a JSON object from the command line, a file or stdin, and `key=value` words on top.

use crate::shared::*;
use api::Code;
use countersign_core::{json, limits::BODY_BYTES_MAX};
use serde_json::{Map, Value};
use std::path::Path;

/// Reads `--params`: JSON, `@file`, or `-` for stdin.
pub(in crate::commands) async fn read(given: Option<&str>, words: &[String], terminal: &Terminal) -> Result<Value, Failure> {
    let text = match given {
        None => None,
        Some(given) => Some(self::text(given.to_owned(), terminal).await?),
    };
    join(text.as_deref(), words).map(Value::Object)
}

/// The same failure of what another flag takes: `what` is read as params are.
pub(in crate::commands) fn renamed(mut failure: Failure, flag: &str, what: &str) -> Failure {
    failure.message = failure.message.replace("--params", flag).replace("the params are", what);
    failure.hint = failure.hint.map(|hint| hint.replace("--params", flag));
    failure
}

/// The text of the argument: stdin for `-`, the file's content for `@file`, otherwise the argument itself.
pub(in crate::commands) async fn text(given: String, terminal: &Terminal) -> Result<String, Failure> {
    match given.strip_prefix('@') {
        _ if given == "-" => terminal.read_stdin(BODY_BYTES_MAX as u64).await,
        Some(path) => std::fs::read_to_string(path).map_err(|error| Failure::file(Path::new(path), &error)),
        None => Ok(given),
    }
}

fn join(text: Option<&str>, words: &[String]) -> Result<Map<String, Value>, Failure> {
    const SUCH_AS: &str = "have a program write it to a file, such as jq, and give that file: --params @FILE";
    let mut params = match text.map(|text| strict(text, "the params are")).transpose().map_err(|failure| failure.hint(SUCH_AS))? {
        None => Map::new(),
        Some(Value::Object(members)) => members,
        Some(_) => return Err(Failure::usage("--params is not a JSON object").hint(SUCH_AS)),
    };
    for word in words {
        let (name, value) = member(word)?;
        if params.contains_key(name) {
            return Err(Failure::usage(format!("the param `{name}` is given twice")).hint("say it once, as a word or in --params"));
        }
        params.insert(name.to_owned(), value);
    }
    Ok(params)
}

/// Reads one word: `key=value` gives a string, `key:=json` gives the JSON value.
fn member(word: &str) -> Result<(&str, Value), Failure> {
    let unclear = || Failure::usage(format!("`{word}` is not a param")).hint("write key=value for a string, key:=json for anything else");
    let (before, value) = word.split_once('=').ok_or_else(unclear)?;
    let (name, value) = match before.strip_suffix(':') {
        Some(name) => (name, strict(value, &format!("what follows `{name}:=` is")).map_err(|failure| failure.hint(as_text(name)))?),
        None => (before, Value::String(value.to_owned())),
    };
    if name.is_empty() { Err(unclear()) } else { Ok((name, value)) }
}

/// A hint for text after `:=` that is not JSON: most likely a string was meant.
fn as_text(name: &str) -> String {
    format!("a string is given with `{name}=…`; `:=` takes JSON such as 3, true or [\"a\"]")
}

/// If a param, or an input of a run, was given as a string but has another type, adds a hint that shows how to write it with `:=`; if it was
/// given with `:=` but is a string, how to write it with `=`.
pub(in crate::commands) fn retyped(failure: Failure, words: &[String]) -> Failure {
    let Some(problem) = failure.problem().filter(|problem| matches!(problem.code, Code::InvalidParams | Code::InputsInvalid)) else {
        return failure;
    };
    let errors = problem.errors.iter().map(|error| (&error.pointer, &error.message));
    let errors: Vec<_> = errors.chain(problem.mistakes.iter().map(|mistake| (&mistake.pointer, &mistake.message))).collect();
    // Only type errors count. A string that is too long or has the wrong format would not be fixed by `:=`.
    let is_no = |wanted: &str, name: &str| {
        let is_told = |message: &str| message.contains("is not of type") && message.contains(wanted);
        errors.iter().any(|(pointer, message)| pointer.strip_prefix('/') == Some(name) && is_told(message))
    };
    let meant = words.iter().find_map(|word| {
        let (before, value) = word.split_once('=')?;
        let value = json::parse_strict(value.as_bytes()).ok().filter(|value| !value.is_string())?;
        // Numbers are not repeated in the hint: they may be secret, and a hint may end up in a log.
        let shown = if value.is_boolean() { value.to_string() } else { "…".to_owned() };
        match before.strip_suffix(':') {
            Some(name) => is_no("\"string\"", name).then(|| format!("`{name}:=` gives JSON; write `{name}={shown}`")),
            // Which other type it has does not matter.
            None => is_no("", before).then(|| format!("`{before}=` gives a string; write `{before}:={shown}`")),
        }
    });
    match meant {
        Some(meant) => failure.hint(meant),
        None => failure,
    }
}

/// Parses JSON as strictly as the server does, so that the server reads exactly what the user wrote. `what` begins the error message.
pub(in crate::commands) fn strict(text: &str, what: &str) -> Result<Value, Failure> {
    json::parse_strict(text.as_bytes()).map_err(|error| unread(error, what))
}

/// The same for what keeps every digit of 64-bit integers: events, definitions, and inputs that a run has.
pub(in crate::commands) fn exact(text: &str, what: &str) -> Result<Value, Failure> {
    json::parse_exact(text.as_bytes()).map_err(|error| unread(error, what))
}

fn unread(error: json::Error, what: &str) -> Failure {
    let place = if error.pointer.is_empty() { String::new() } else { format!(" at `{}`", error.pointer) };
    Failure::usage(format!("{what} not JSON we accept{place}")).cause(error.message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;
    use serde_json::json;

    fn check(text: Option<&str>, words: &[&str], expected: Value) {
        let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        assert_eq!(join(text, &words).map(Value::Object), Ok(expected));
    }

    #[test]
    fn words_are_strings_and_typed_words_are_json() {
        check(None, &[], json!({}));
        check(None, &["path=a.txt", "text="], json!({ "path": "a.txt", "text": "" }));
        check(None, &["n:=3", "deep:={\"a\":[true,null]}", "s:=\"x\""], json!({ "n": 3, "deep": { "a": [true, null] }, "s": "x" }));
        check(None, &["equation=a=b:=c"], json!({ "equation": "a=b:=c" }));
        check(Some("{\"path\":\"a\"}"), &["text=b"], json!({ "path": "a", "text": "b" }));
    }

    #[test]
    fn a_param_of_the_wrong_type_is_told_how_to_be_written() {
        let refused = |pointer: &str, message: &str| {
            let mut problem = api::Problem::new(Code::InvalidParams, "the params do not fit").hint("see the schema");
            problem.errors = vec![api::problem::FieldError::new(pointer, message)];
            let raw = serde_json::to_value(&problem).unwrap();
            Failure::of_problem(&problem, raw)
        };
        let words = ["path=a", "recursive=true", "depth=deep", "pin=1234", "greeting:=3", "loud:=true"].map(str::to_owned);
        let (wrong_type, no_string) = ("value is not of type \"boolean\"", "value is not of type \"string\"");
        for (pointer, message, hint) in [
            ("/recursive", wrong_type, "`recursive=` gives a string; write `recursive:=true`"),
            ("/pin", wrong_type, "`pin=` gives a string; write `pin:=…`"),
            ("/pin", "value is shorter than 6 characters", "see the schema"),
            ("/depth", wrong_type, "see the schema"),
            ("/other", wrong_type, "see the schema"),
            ("/greeting", no_string, "`greeting:=` gives JSON; write `greeting=…`"),
            ("/greeting", "value is not of types \"null\", \"string\"", "`greeting:=` gives JSON; write `greeting=…`"),
            ("/greeting", wrong_type, "see the schema"),
            ("/loud", no_string, "`loud:=` gives JSON; write `loud=true`"),
        ] {
            assert_eq!(retyped(refused(pointer, message), &words).hint.as_deref(), Some(hint));
        }
        let mut problem = api::Problem::new(Code::InputsInvalid, "the inputs do not fit");
        let (pointer, code, message) = ("/pin".to_owned(), "inputs_invalid".to_owned(), wrong_type.to_owned());
        problem.mistakes = vec![api::automation::MistakeView { pointer, code, message, hint: None }];
        let failure = Failure::of_problem(&problem, serde_json::to_value(&problem).unwrap());
        assert_eq!(retyped(failure, &words).hint.as_deref(), Some("`pin=` gives a string; write `pin:=…`"));
    }

    #[test]
    fn what_is_read_as_params_are_is_refused_by_its_own_name() {
        for (text, message) in [("{bad", "the inputs are not JSON we accept"), ("[]", "--inputs is not a JSON object")] {
            let failure = renamed(join(Some(text), &[]).unwrap_err(), "--inputs", "the inputs are");
            assert_eq!(failure.message, message);
            assert!(failure.hint.is_some_and(|hint| hint.ends_with("--inputs @FILE")));
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for (text, words) in [
            (None, "path"),
            (None, "=x"),
            (None, ":=1"),
            (None, "n:=three"),
            (Some("[1]"), "a=b"),
            (Some("{"), "a=b"),
            (Some("{\"a\":1}"), "a=2"),
            (Some("{\"a\":1,\"a\":2}"), "b=2"),
        ] {
            let failure = join(text, &[words.to_owned()]).unwrap_err();
            assert_eq!(failure.exit, Exit::Usage, "{text:?} {words}");
        }
    }
}
