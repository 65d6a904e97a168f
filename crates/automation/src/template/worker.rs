//! The worker's side of rendering: it reads a request per line and answers with a line. It keeps nothing between requests, and whoever started
//! it kills it when a request takes too long (`Workers`).

use super::engine;
use super::error::{Reason, RenderError};
use minijinja::value::Serde;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Form {
    /// The source of a template.
    Text,
    /// An expression that keeps its JSON type.
    Value,
    /// An expression that holds or does not.
    Predicate,
}

/// A request as it is written.
#[derive(Serialize)]
pub(super) struct Request<'a> {
    pub(super) form: Form,
    pub(super) source: &'a str,
    pub(super) context: BTreeMap<&'a str, &'a Value>,
}

/// The same, as it is read.
#[derive(Deserialize)]
struct Requested {
    form: Form,
    source: String,
    context: Map<String, Value>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    Done(Value),
    Failed(RenderError),
}

/// Answers requests until there are no more.
pub fn serve(requests: impl BufRead, mut answers: impl Write) -> io::Result<()> {
    for line in requests.lines() {
        let answer = match serde_json::from_str(&line?) {
            Ok(request) => answer(request),
            Err(error) => Answer::Failed(RenderError::new(Reason::Failed, format!("the request cannot be read: {error}"))),
        };
        serde_json::to_writer(&mut answers, &answer)?;
        answers.write_all(b"\n")?;
        answers.flush()?;
    }
    Ok(())
}

fn answer(request: Requested) -> Answer {
    let context = Serde(&request.context).into();
    let result = match request.form {
        Form::Text => engine::text(&request.source, context).map(Value::String),
        Form::Value => engine::value(&request.source, context),
        Form::Predicate => engine::holds(&request.source, context).map(Value::Bool),
    };
    result.map_or_else(Answer::Failed, Answer::Done)
}
