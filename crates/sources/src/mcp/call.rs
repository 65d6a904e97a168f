//! Calls a tool, and says what its answer means. An answer that is an error leaves the effect unknown: a tool may have done half of its work.

use super::connection::{Connection, Until};
use super::object::object;
use super::passing::cause_of;
use super::slot::{Answer, Raw, Reads};
use crate::words::{failed, refused, said};
use countersign_core::ActionId;
use countersign_core::retry::FailureCause;
use countersign_core::source::{AfterError, CallContext, Error, Output};
use rmcp::model::{CallToolRequest, CallToolRequestParams, ClientRequest, GetExtensions, GetMeta};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// A JSON-RPC error.
#[derive(Deserialize)]
pub(super) struct Rpc {
    pub(super) code: i64,
    #[serde(default)]
    pub(super) message: String,
    #[serde(default)]
    pub(super) data: Value,
}

pub(super) const METHOD_NOT_FOUND: i64 = -32601;

/// Errors of servers that ran no tool: the request could not be read as JSON, its headers say something else than it does, or it is of another
/// revision. A tool itself can answer any other error, also that params or the request are invalid, after it did a part of its work.
const BEFORE_ANY_TOOL: [i64; 3] = [-32700, -32020, -32022];

/// The member of `_meta` that names the automations which led to the call; see `CallContext::chain`.
const CHAIN: &str = "countersign/chain";

pub(super) async fn call(
    connection: &Connection,
    action: &ActionId,
    params: &Value,
    context: &CallContext,
    until: Until,
) -> Result<Output, Error> {
    let Value::Object(arguments) = params else {
        return Err(refused("invalid_params", "the params are not an object"));
    };
    let asked = CallToolRequestParams::new(action.name().to_owned()).with_arguments(arguments.clone());
    let mut request = ClientRequest::CallToolRequest(CallToolRequest::new(asked));
    if let Some(chain) = &context.chain {
        request.get_meta_mut().0.insert(CHAIN.to_owned(), json!(chain));
    }
    if context.is_read {
        request.extensions_mut().insert(Reads);
    }
    match connection.ask(request, context.progress.clone(), until).await? {
        Answer::Result(raw) => result(action, &raw),
        Answer::Error(raw) => Err(refusal(action, rpc(&raw))),
        Answer::Failed(error) => Err(error),
    }
}

fn result(action: &ActionId, raw: &Raw) -> Result<Output, Error> {
    let source_id = || action.source().to_owned();
    let broken = |message: &str| Error::Broken { source_id: source_id(), message: message.to_owned() };
    let Ok(Value::Object(mut answer)) = serde_json::from_str::<Value>(&raw.text) else {
        return Err(broken("its answer is not the result of a call"));
    };
    match answer.get("resultType").and_then(Value::as_str) {
        None | Some("complete") => {}
        Some("input_required") => {
            let message = "it asks for input in the middle of a call, and nobody can be asked".to_owned();
            let content = Box::new(json!({ "content": [] }));
            return Err(Error::Reported {
                source_id: source_id(),
                message,
                cause: FailureCause::Final,
                content,
                after: AfterError::Unknown,
            });
        }
        Some(_) => return Err(broken("its answer is not the result of a call")),
    }
    let is_error = match answer.get("isError") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(is_error)) => *is_error,
        Some(_) => return Err(broken("its answer does not say whether the call failed")),
    };
    let content = match answer.remove("content") {
        Some(content @ Value::Array(_)) => content,
        // Earlier revisions demand it; a server that has structured content sometimes leaves it out.
        None if answer.contains_key("structuredContent") => json!([]),
        Some(_) | None => return Err(broken("its answer has no content")),
    };
    let mut kept = Map::from_iter([("content".to_owned(), content)]);
    kept.extend(["structuredContent", "_meta"].into_iter().filter_map(|member| answer.remove_entry(member)));
    let value = Value::Object(kept);
    if is_error {
        let text = first_text(&value);
        let (message, cause) = (text.map_or_else(|| "it does not say which".to_owned(), said), cause_of(text.unwrap_or_default()));
        return Err(Error::Reported { source_id: source_id(), message, cause, content: Box::new(value), after: AfterError::Unknown });
    }
    Ok(Output::new(value))
}

fn first_text(value: &Value) -> Option<&str> {
    value["content"].as_array()?.iter().find_map(|block| block["text"].as_str()).filter(|text| !text.trim().is_empty())
}

pub(super) fn rpc(raw: &Raw) -> Rpc {
    object(&raw.text).unwrap_or(Rpc { code: 0, message: String::new(), data: Value::Null })
}

/// What an error of the protocol says about the effect.
pub(super) fn refusal(action: &ActionId, Rpc { code, message, data }: Rpc) -> Error {
    let source = action.source();
    let words = said(&message);
    match code {
        METHOD_NOT_FOUND => failed("unknown_action", format!("source `{source}` does not know `{action}`: {words}; nothing was done")),
        code if BEFORE_ANY_TOOL.contains(&code) => {
            failed("source_refused", format!("source `{source}` refused the request: {words}; nothing was done"))
        }
        code => Error::Reported {
            source_id: source.to_owned(),
            message: words,
            cause: cause_of(&message),
            content: Box::new(json!({ "error": { "code": code, "message": message, "data": data } })),
            after: AfterError::Unknown,
        },
    }
}
