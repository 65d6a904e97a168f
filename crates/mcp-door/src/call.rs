//! `tools/call`: a tool of ours, or an action through the pipeline.

use super::caller::{Caller, caller_of, line_of};
use super::waiting::{Abilities, Waited, wait};
use super::{meta_tools, names, tasks, words};
use operations::App;
use pipeline::{Asked, Error, Line, Request};
use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult, CreateTaskResult, JsonObject};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::Value;

pub(super) async fn call(
    app: &App,
    request: CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let (caller, line) = (caller_of(&context.extensions)?, line_of(&context.extensions)?);
    let arguments = request.arguments.unwrap_or_default();
    if let Some(told) = own(app, caller, &request.name, &arguments).await? {
        line.hand();
        return Ok(told.into());
    }
    let (action, params) = match request.name.as_ref() {
        meta_tools::INVOKE_ACTION => meta_tools::invoked(&arguments)?,
        name => (names::meant(app, caller, name).await, Value::Object(arguments)),
    };
    let method = format!("tools/call {action}");
    let asked = Asked { principal: &caller.principal, session: &caller.session.id, method: &method, params: &params };
    let abilities = Abilities::of(context, caller, true);
    let waited = made(app, context, line, asked, &action, request.request_state.as_deref(), caller, &abilities).await;
    let answer = match waited {
        Ok(Waited::Ended(outcome)) => words::result(app, outcome).await.into(),
        Ok(Waited::Task(pending)) => CallToolResponse::Task(CreateTaskResult::new(tasks::task(app, &pending))),
        Ok(Waited::Input(input)) => CallToolResponse::InputRequired(*input),
        Ok(Waited::Reference(pending)) => words::reference(app, &pending).into(),
        // Nothing is handed over: the caller has left, and joins when it asks again.
        Ok(Waited::CutOff) => return Ok(words::cut_off().into()),
        // There is no such tool.
        Err(error @ Error::UnknownAction { .. }) => return Err(words::protocol_error(&error)),
        Err(error) => words::failed(&error).into(),
    };
    line.hand();
    Ok(answer)
}

/// Makes the call, or goes on with the one that the request state is for, and waits for it. A caller that goes meanwhile has left.
#[expect(clippy::too_many_arguments, reason = "each is a fact of one request")]
pub(super) async fn made(
    app: &App,
    context: &RequestContext<RoleServer>,
    line: &Line,
    asked: Asked<'_>,
    action: &str,
    state: Option<&str>,
    caller: &Caller,
    abilities: &Abilities,
) -> Result<Waited, Error> {
    let waiting = Box::pin(async {
        let waiting = match state {
            Some(state) => app.pipeline().call_again(asked.principal, line, app.pipeline().redeem_ticket(line, asked, state).await?),
            None => {
                let request = Request { line: Some(line.clone()), ..request(caller, action, asked.params.clone()) };
                app.pipeline().call(request).for_at_most(abilities.budget)
            }
        };
        // A caller with a progress token is told what it prints.
        let waiting = if context.meta.get_progress_token().is_some() { waiting.followed() } else { waiting };
        wait(app, context, line, asked, state.is_some(), abilities, waiting).await
    });
    tokio::select! {
        waited = waiting => waited,
        () = context.ct.cancelled() => {
            line.cut();
            Ok(Waited::CutOff)
        }
        () = line.gone() => Ok(Waited::CutOff),
    }
}

/// A call of an action in the caller's session.
pub(super) fn request(caller: &Caller, action: &str, params: Value) -> Request {
    let call = Request::new(caller.principal.clone(), caller.session.id.clone(), action, params);
    Request { trace_id: caller.trace_id.clone(), ..call }
}

/// The answer of a tool of our own that calls no action.
async fn own(app: &App, caller: &Caller, name: &str, arguments: &JsonObject) -> Result<Option<CallToolResult>, ErrorData> {
    Ok(match name {
        meta_tools::SEARCH_ACTIONS => Some(meta_tools::search(app, caller, arguments).await?),
        meta_tools::DESCRIBE_ACTION => Some(meta_tools::describe(app, caller, arguments).await?),
        meta_tools::GET_INVOCATION => Some(meta_tools::invocation(app, caller, arguments).await?),
        _ => None,
    })
}
