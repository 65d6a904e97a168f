//! Tools of our own: three that find and call actions, so that a large catalogue costs an agent no more context than a small one, and one
//! that tells what became of a call.

use super::caller::Caller;
use super::{actions, words};
use crate::limits::{MCP_ARGUMENT_CHARS_MAX, MCP_FOUND_MAX};
use countersign_core::Action;
use countersign_core::limits::WAIT_SECONDS_MAX;
use operations::App;
use operations::invocations;
use pipeline::Outcome;
use rmcp::ErrorData;
use rmcp::model::{CallToolResult, JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

pub(super) const SEARCH_ACTIONS: &str = "search_actions";
pub(super) const DESCRIBE_ACTION: &str = "describe_action";
pub(super) const INVOKE_ACTION: &str = "invoke_action";
pub(super) const GET_INVOCATION: &str = "get_invocation";
/// No action has one of these names.
pub(super) const NAMES: [&str; 4] = [SEARCH_ACTIONS, DESCRIBE_ACTION, INVOKE_ACTION, GET_INVOCATION];

pub(super) fn all() -> Vec<Tool> {
    let text = |about: &str| json!({ "type": "string", "description": about });
    let search = tool(
        SEARCH_ACTIONS,
        "Finds actions by words of their name, title and description. Returns their ids; read one with `describe_action`.",
        json!({ "query": text("Words to look for; empty: the first actions of each source."), "source": text("Only actions of this source.") }),
        &[],
    );
    let describe = tool(
        DESCRIBE_ACTION,
        "Returns the description, the risk and the JSON Schema of the params of one action.",
        json!({ "action": text("The id of the action, such as `files.write_text`.") }),
        &["action"],
    );
    let invoke = tool(
        INVOKE_ACTION,
        "Performs an action. It may have to wait for a person's approval.",
        json!({ "action": text("The id of the action."), "params": { "type": "object", "description": "What its schema asks for." } }),
        &["action"],
    );
    let writing = ToolAnnotations::with_title("Invoke an action").read_only(false).open_world(true);
    vec![search, describe, invoke.with_annotations(writing), get_invocation()]
}

pub(super) fn get_invocation() -> Tool {
    let properties = json!({
        "id": { "type": "string", "description": "The id of the call, `inv_…`." },
        "wait_seconds": { "type": "integer", "minimum": 0, "maximum": WAIT_SECONDS_MAX, "description": "How long to wait for its end; 30 when absent." },
    });
    tool(GET_INVOCATION, "Tells what became of a call that had to wait, and returns its result once it has ended.", properties, &["id"])
}

fn tool(name: &'static str, description: &'static str, properties: Value, required: &[&str]) -> Tool {
    let schema = json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false });
    let schema = schema.as_object().cloned().unwrap_or_default();
    Tool::new(name, description, Arc::new(schema)).with_annotations(ToolAnnotations::new().read_only(true).open_world(false))
}

/// Finds actions. Every word of the query must be in the id, the title or the description.
pub(super) async fn search(app: &App, caller: &Caller, arguments: &JsonObject) -> Result<CallToolResult, ErrorData> {
    let (query, source) = (text(arguments, "query")?.unwrap_or_default().to_lowercase(), text(arguments, "source")?);
    let words: Vec<_> = query.split_whitespace().collect();
    let fits = |action: &Arc<Action>| {
        let about = format!("{} {} {}", action.id, action.title, action.description).to_lowercase();
        source.is_none_or(|source| action.id.source() == source) && words.iter().all(|word| about.contains(word))
    };
    let mut found: Vec<_> = actions::tools(app, caller).await.into_iter().filter(fits).collect();
    // Those that have the words in their name come first.
    found.sort_by_key(|action| !words.iter().all(|word| action.id.as_str().contains(word)));
    let more = found.len().saturating_sub(MCP_FOUND_MAX);
    let shown = found.iter().take(MCP_FOUND_MAX);
    let shown: Vec<_> = shown.map(|action| json!({ "action": action.id, "title": action.title, "tier": action.tier })).collect();
    Ok(words::told(&json!({ "actions": shown, "more": more })))
}

pub(super) async fn describe(app: &App, caller: &Caller, arguments: &JsonObject) -> Result<CallToolResult, ErrorData> {
    let named = text(arguments, "action")?.ok_or_else(|| missing("action"))?;
    let Some(action) = app.pipeline().catalogue().find_listed(&caller.session, named).await else {
        return Ok(words::failed(&app.pipeline().unknown_action(&caller.session, named).await));
    };
    Ok(words::told(&json!({
        "action": action.id,
        "title": action.title,
        "description": action.description,
        "tier": action.tier,
        "class": action.tier.class(),
        "effects": action.effects,
        "params_schema": action.params_schema,
    })))
}

/// The action and the params that `invoke_action` names.
pub(super) fn invoked(arguments: &JsonObject) -> Result<(String, Value), ErrorData> {
    let action = text(arguments, "action")?.ok_or_else(|| missing("action"))?;
    let params = match arguments.get("params") {
        None => json!({}),
        Some(params @ Value::Object(_)) => params.clone(),
        Some(_) => return Err(ErrorData::invalid_params("`params` must be an object", None)),
    };
    Ok((action.to_owned(), params))
}

/// What became of a call, or a reference again.
pub(super) async fn invocation(app: &App, caller: &Caller, arguments: &JsonObject) -> Result<CallToolResult, ErrorData> {
    let id = text(arguments, "id")?.ok_or_else(|| missing("id"))?;
    let wait = match arguments.get("wait_seconds") {
        None => DEFAULT_WAIT_SECONDS,
        Some(wait) => wait
            .as_u64()
            .filter(|wait| *wait <= WAIT_SECONDS_MAX)
            .ok_or_else(|| ErrorData::invalid_params(format!("`wait_seconds` must be a whole number up to {WAIT_SECONDS_MAX}"), None))?,
    };
    let found = match invocations::readable(app, &caller.principal, id).await {
        Ok(found) => found,
        Err(error) => return Ok(words::refused(&error)),
    };
    let outcome = app.pipeline().wait_for_outcome(&caller.principal, Outcome::of(Box::new(found)), Duration::from_secs(wait)).await;
    let Outcome::Pending(pending) = &outcome else { return Ok(words::result(app, outcome).await) };
    Ok(match app.pipeline().is_left_by_caller(pending).await {
        Ok(true) => words::left_behind(app, pending),
        Ok(false) => words::reference(app, pending),
        Err(error) => words::failed(&error),
    })
}

const DEFAULT_WAIT_SECONDS: u64 = 30;

fn text<'a>(arguments: &'a JsonObject, name: &str) -> Result<Option<&'a str>, ErrorData> {
    match arguments.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.chars().count() > MCP_ARGUMENT_CHARS_MAX => {
            Err(ErrorData::invalid_params(format!("`{name}` is longer than {MCP_ARGUMENT_CHARS_MAX} characters"), None))
        }
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(ErrorData::invalid_params(format!("`{name}` must be a text"), None)),
    }
}

fn missing(name: &str) -> ErrorData {
    ErrorData::invalid_params(format!("`{name}` is missing"), None)
}
