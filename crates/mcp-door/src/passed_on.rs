//! Resources and prompts of MCP servers, passed on. Each is an action of its source (`NAME.resources.read`, `NAME.prompts.get`, …) and goes
//! through the pipeline like any other. Where a session has several sources, a resource's address says whose it is
//! (`countersign://NAME/…`), and a prompt's name does (`NAME.…`).

use super::actions::{PROMPT, PROMPTS, READ, RESOURCES, TEMPLATES, is_passed_on, mode_of, space_of};
use super::call::{made, request};
use super::caller::{Caller, caller_of, line_of};
use super::waiting::{Abilities, Waited};
use super::{media, words};
use crate::limits::{MCP_LIST_TTL_MS, MCP_PASSED_PAGES_MAX};
use countersign_core::{Invocation, Mode, Status};
use operations::App;
use pipeline::{Asked, Outcome};
use rmcp::model::{
    CacheScope, GetPromptRequestParams, GetPromptResponse, GetPromptResult, InputRequiredResult, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const SCHEME: &str = "countersign://";

pub(super) async fn resources(app: &App, caller: &Caller, cursor: Option<String>) -> ListResourcesResult {
    let (items, next) = listed(app, caller, RESOURCES, "resources", "uri", cursor).await;
    let mut listed = ListResourcesResult::with_all_items(items).with_ttl_ms(MCP_LIST_TTL_MS).with_cache_scope(CacheScope::Private);
    listed.next_cursor = next;
    listed
}

pub(super) async fn templates(app: &App, caller: &Caller, cursor: Option<String>) -> ListResourceTemplatesResult {
    let (items, next) = listed(app, caller, TEMPLATES, "resourceTemplates", "uriTemplate", cursor).await;
    let mut listed = ListResourceTemplatesResult::with_all_items(items).with_ttl_ms(MCP_LIST_TTL_MS).with_cache_scope(CacheScope::Private);
    listed.next_cursor = next;
    listed
}

pub(super) async fn prompts(app: &App, caller: &Caller, cursor: Option<String>) -> ListPromptsResult {
    let (items, next) = listed(app, caller, PROMPTS, "prompts", "name", cursor).await;
    let mut listed = ListPromptsResult::with_all_items(items).with_ttl_ms(MCP_LIST_TTL_MS).with_cache_scope(CacheScope::Private);
    listed.next_cursor = next;
    listed
}

pub(super) async fn read(
    app: &App,
    asked: ReadResourceRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<ReadResourceResponse, ErrorData> {
    let caller = caller_of(&context.extensions)?;
    let unknown = || ErrorData::resource_not_found(format!("there is no resource `{}`", asked.uri), None);
    let (source, uri) = match &caller.wishes.source {
        Some(source) => (source.as_str(), asked.uri.as_str()),
        None => asked.uri.strip_prefix(SCHEME).and_then(|rest| rest.split_once('/')).ok_or_else(unknown)?,
    };
    let action = format!("{source}.{READ}");
    let got = got(app, context, caller, &action, json!({ "uri": uri }), asked.request_state.as_deref()).await;
    match got.map_err(|error| ErrorData { data: Some(json!({ "uri": asked.uri })), ..error })? {
        Got::Value(mut value) => {
            for content in value.get_mut("contents").and_then(Value::as_array_mut).into_iter().flatten() {
                mark(caller, source, content, "uri");
            }
            parsed::<ReadResourceResult>(value).map(Into::into)
        }
        Got::Input(input) => Ok(ReadResourceResponse::InputRequired(input)),
    }
}

pub(super) async fn prompt(
    app: &App,
    asked: GetPromptRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<GetPromptResponse, ErrorData> {
    let caller = caller_of(&context.extensions)?;
    let unknown = || ErrorData::invalid_params(format!("there is no prompt `{}`", asked.name), None);
    let (source, name) = match &caller.wishes.source {
        Some(source) => (source.as_str(), asked.name.as_str()),
        None => asked.name.split_once('.').ok_or_else(unknown)?,
    };
    let action = format!("{source}.{PROMPT}");
    let mut params = json!({ "name": name });
    if let Some(arguments) = asked.arguments {
        params["arguments"] = Value::Object(arguments);
    }
    match got(app, context, caller, &action, params, asked.request_state.as_deref()).await? {
        Got::Value(value) => parsed::<GetPromptResult>(value).map(Into::into),
        Got::Input(input) => Ok(GetPromptResponse::InputRequired(input)),
    }
}

/// What a source gave.
enum Got {
    Value(Value),
    Input(InputRequiredResult),
}

/// Calls one action and returns its result. What does not succeed is an error of the request: there is no other way to say it.
async fn got(
    app: &App,
    context: &RequestContext<RoleServer>,
    caller: &Caller,
    action: &str,
    params: Value,
    state: Option<&str>,
) -> Result<Got, ErrorData> {
    let line = line_of(&context.extensions)?;
    let asked = Asked { principal: &caller.principal, session: &caller.session.id, method: action, params: &params };
    let abilities = Abilities::of(context, caller, false);
    let waited = made(app, context, line, asked, action, state, caller, &abilities).await;
    let told = match waited.map_err(|error| words::protocol_error(&error))? {
        // Nothing is handed over: the caller has left, and joins when it asks again.
        Waited::CutOff => return Err(ErrorData::internal_error("the server is stopping; ask again", None)),
        Waited::Input(input) => {
            line.hand();
            return Ok(Got::Input(*input));
        }
        Waited::Ended(outcome) => match succeeded(&outcome) {
            Some(mut value) => {
                media::restore_in(app, outcome.invocation(), &mut value).await;
                line.hand();
                return Ok(Got::Value(value));
            }
            None => words::result(app, outcome).await,
        },
        Waited::Task(pending) | Waited::Reference(pending) => words::reference(app, &pending),
    };
    line.hand();
    let text: Vec<_> = told.content.iter().filter_map(|block| block.as_text()).map(|block| block.text.as_str()).collect();
    Err(ErrorData::invalid_params(text.join(" "), None))
}

fn succeeded(outcome: &Outcome) -> Option<Value> {
    let Invocation { status, .. } = outcome.invocation();
    match outcome {
        Outcome::Ended { result, .. } => result.clone().filter(|_| *status == Status::Succeeded),
        Outcome::Replayed(invocation) => invocation.result.clone().filter(|_| *status == Status::Succeeded),
        Outcome::Pending(_) | Outcome::InDoubt(_) => None,
    }
}

/// The items of every source that has such a list, and where to go on. A source that cannot be asked now contributes none, nor one whose list
/// would wait for a person or be denied.
async fn listed<T: DeserializeOwned>(
    app: &App,
    caller: &Caller,
    list: &str,
    member: &str,
    address: &str,
    cursor: Option<String>,
) -> (Vec<T>, Option<String>) {
    let actions = app.pipeline().catalogue().all_actions(&caller.session).await;
    let wanted = caller.wishes.source.as_deref();
    let mut lists: Vec<_> = actions.iter().filter(|action| is_passed_on(action) && action.id.name() == list).collect();
    lists.retain(|action| wanted.is_none_or(|source| action.id.source() == source));
    lists.sort_by(|one, other| one.id.cmp(&other.id));
    // Nobody is asked for a list, and nobody is told of it: a source that would be is left out.
    let Ok(space) = space_of(app, caller).await else { return (Vec::new(), None) };
    // A single source is asked page by page. Of several, all pages are asked at once, up to a bound.
    let pages = if wanted.is_some() { 1 } else { MCP_PASSED_PAGES_MAX };
    let (mut items, mut next) = (Vec::new(), cursor.filter(|_| wanted.is_some()));
    for action in lists {
        if !matches!(mode_of(app, caller, &space, action).await, Ok(Mode::Allow)) {
            continue;
        }
        for _ in 0..pages {
            let params = next.take().map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }));
            let outcome = app.pipeline().invoke(request(caller, action.id.as_str(), params)).await;
            let Some(mut page) = outcome.ok().as_ref().and_then(succeeded) else { break };
            for mut item in page.get_mut(member).and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default() {
                mark(caller, action.id.source(), &mut item, address);
                // One that the protocol does not know is left out, and the others are told.
                items.extend(serde_json::from_value(item));
            }
            next = page["nextCursor"].as_str().map(str::to_owned);
            if next.is_none() {
                break;
            }
        }
        if wanted.is_none() {
            next = None;
        }
    }
    (items, next)
}

/// Says whose an item is, in its address or name, unless the caller asked for one source only.
fn mark(caller: &Caller, source: &str, item: &mut Value, address: &str) {
    if caller.wishes.source.is_some() {
        return;
    }
    if let Some(Value::String(text)) = item.get_mut(address) {
        *text = if address == "name" { format!("{source}.{text}") } else { format!("{SCHEME}{source}/{text}") };
    }
}

fn parsed<T: DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value).map_err(|_| ErrorData::internal_error("the source's answer does not have the expected shape", None))
}
