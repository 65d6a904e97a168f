//! The tools of a session: its actions, or three tools that find and call them where the catalogue is large or the URL asks for it.

use super::actions::{self, mode_of, space_of};
use super::caller::Caller;
use super::{meta_tools, names};
use crate::limits::{MCP_LIST_TTL_MS, MCP_PAGE_ROWS, MCP_TOOLS_SHOWN_MAX};
use countersign_core::action::{Class, Effect, Repeatability};
use countersign_core::{Action, Mode};
use operations::App;
use rmcp::ErrorData;
use rmcp::model::{CacheScope, JsonObject, ListToolsResult, MetaObject, Tool, ToolAnnotations};
use serde_json::{Value, json};
use std::sync::Arc;

/// The keys of what a tool says about its action besides what the protocol knows.
const TIER: &str = "countersign/tier";
const MODE: &str = "countersign/mode";

/// Whether the caller gets the tools that find and call actions.
pub(super) fn are_meta(caller: &Caller, actions: &[Arc<Action>]) -> bool {
    caller.wishes.meta_tools.unwrap_or(actions.len() > MCP_TOOLS_SHOWN_MAX)
}

pub(super) async fn list(app: &App, caller: &Caller, cursor: Option<String>) -> Result<ListToolsResult, ErrorData> {
    let actions = actions::tools(app, caller).await;
    if are_meta(caller, &actions) {
        return Ok(listed(meta_tools::all(), None));
    }
    let after = cursor.unwrap_or_default();
    let space = space_of(app, caller).await?;
    let mut rest = actions.iter().filter(|action| action.id.as_str() > after.as_str());
    let mut tools = Vec::new();
    let mut last = None;
    for action in rest.by_ref().take(MCP_PAGE_ROWS) {
        let mode = mode_of(app, caller, &space, action).await?;
        tools.push(tool(names::of(caller, action), action, mode));
        last = Some(action.id.to_string());
    }
    let next = rest.next().and(last);
    if next.is_none() {
        tools.push(meta_tools::get_invocation());
    }
    Ok(listed(tools, next))
}

fn listed(tools: Vec<Tool>, next: Option<String>) -> ListToolsResult {
    let mut listed = ListToolsResult::with_all_items(tools).with_ttl_ms(MCP_LIST_TTL_MS).with_cache_scope(CacheScope::Private);
    listed.next_cursor = next;
    listed
}

/// An action as a tool. A call that may wait for a person may be answered by a reference, which no schema of results describes.
fn tool(name: String, action: &Action, mode: Mode) -> Tool {
    let mut tool = Tool::new(name, action.description.clone(), Arc::new(object(unmarked(action.params_schema.clone()))))
        .with_title(action.title.clone())
        .with_annotations(annotations(action))
        .with_meta(meta(action, mode));
    if mode == Mode::Allow {
        tool.output_schema = output_schema(&action.result_schema).map(Arc::new);
    }
    tool
}

fn meta(action: &Action, mode: Mode) -> MetaObject {
    MetaObject(JsonObject::from_iter([(TIER.to_owned(), json!(action.tier)), (MODE.to_owned(), json!(mode))]))
}

fn annotations(action: &Action) -> ToolAnnotations {
    let class = action.tier.class();
    ToolAnnotations::with_title(action.title.clone())
        .read_only(class == Class::Read)
        .destructive(class == Class::Danger)
        .idempotent(class == Class::Read || action.repeatability == Repeatability::Repeatable)
        .open_world(action.effects.contains(&Effect::NetworkCall))
}

fn object(schema: Value) -> JsonObject {
    match schema {
        Value::Object(schema) => schema,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            JsonObject::from_iter([("type".to_owned(), json!("object"))])
        }
    }
}

/// Marks a param that its server wants in a header as well.
const HEADER_MARK: &str = "x-mcp-header";

/// The same schema without these marks. Whoever lists them has to compare the header with the body, and this door looks at the body alone. Its
/// server gets the header from the source.
fn unmarked(schema: Value) -> Value {
    match schema {
        Value::Object(mut members) => {
            // A param of this name has a schema.
            if members.get(HEADER_MARK).is_some_and(Value::is_string) {
                members.remove(HEADER_MARK);
            }
            Value::Object(members.into_iter().map(|(keyword, value)| (keyword, unmarked(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(unmarked).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => schema,
    }
}

/// Where the structured content of a result of another server stands in our schema of it.
const STRUCTURED: &str = "/properties/structuredContent";

/// The schema of the structured content: for a tool of another server the one it gave, else the schema of the result, if that is an object.
fn output_schema(result: &Value) -> Option<JsonObject> {
    let is_passed_on = result.pointer("/properties/content/type") == Some(&json!("array"));
    let schema = if is_passed_on { result.pointer(STRUCTURED).cloned().map(led_outside)? } else { result.clone() };
    (schema["type"] == "object").then(|| object(schema))
}

/// The same schema as a document of its own: its references lead to its own root again.
fn led_outside(schema: Value) -> Value {
    match schema {
        Value::Object(members) => {
            let led = |(keyword, value): (String, Value)| match (keyword.as_str(), value) {
                ("$ref", Value::String(reference)) => {
                    let inside = reference.strip_prefix(&format!("#{STRUCTURED}")).map(|rest| format!("#{rest}"));
                    (keyword, Value::String(inside.unwrap_or(reference)))
                }
                (_, value) => (keyword, led_outside(value)),
            };
            Value::Object(members.into_iter().map(led).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(led_outside).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => schema,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_asked_for_params_in_headers() {
        let theirs = json!({ "type": "object", "properties": {
            "region": { "type": "string", "x-mcp-header": "Region" }, "x-mcp-header": { "type": "string" } } });
        let ours = json!({ "type": "object", "properties": { "region": { "type": "string" }, "x-mcp-header": { "type": "string" } } });
        assert_eq!(unmarked(theirs), ours);
    }

    #[test]
    fn a_schema_of_another_server_is_told_as_it_was_given() {
        let ours = json!({ "type": "object", "properties": { "content": { "type": "array" },
            "structuredContent": { "type": "object", "properties": { "a": { "$ref": "#/properties/structuredContent/$defs/a" } }, "$defs": { "a": {} } } } });
        let theirs = json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/a" } }, "$defs": { "a": {} } });
        assert_eq!(output_schema(&ours).map(Value::Object), Some(theirs));
        assert_eq!(output_schema(&json!({ "type": "object", "properties": { "content": { "type": "array" } } })), None);
        assert_eq!(output_schema(&json!({ "type": "string" })), None);
        assert!(output_schema(&json!({ "type": "object", "properties": { "text": {} } })).is_some());
    }
}
