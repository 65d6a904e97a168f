//! `tools/call`: a tool of ours, or an action through the pipeline.

use super::caller::{Caller, caller_of, line_of};
use super::waiting::{Abilities, Waited, tell_line, wait};
use super::{meta_tools, names, tasks, words};
use countersign_core::Call;
use countersign_core::invocation::Intention;
use operations::App;
use pipeline::{Asked, Error, Line, Outcome, Request};
use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult, CreateTaskResult, JsonObject};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::Value;
use std::pin::pin;

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
    let calling = Box::pin(async {
        match state {
            Some(state) => app.pipeline().redeem_ticket(line, asked, state).await,
            None => called(app, context, request(caller, action, asked.params.clone()), line).await,
        }
    });
    tokio::select! {
        waited = Box::pin(wait(app, context, line, asked, state.is_some(), abilities, calling)) => waited,
        () = context.ct.cancelled() => {
            line.cut();
            Ok(Waited::CutOff)
        }
        () = line.gone() => Ok(Waited::CutOff),
    }
}

/// Makes a call. A caller with a progress token is told what it prints.
async fn called(app: &App, context: &RequestContext<RoleServer>, request: Request, line: &Line) -> Result<Outcome, Error> {
    if context.meta.get_progress_token().is_none() {
        return app.pipeline().invoke_on(request, line).await;
    }
    let (mut follower, calling) = app.pipeline().invoke_on_followed(request, line);
    let mut calling = pin!(calling);
    let mut told = 0.0;
    let outcome = loop {
        tokio::select! {
            outcome = &mut calling => break outcome,
            event = follower.event() => tell_line(context, &mut told, event).await,
        }
    };
    // What it printed last may not have been read yet.
    while let Some(event) = follower.kept().await {
        tell_line(context, &mut told, event).await;
    }
    outcome
}

/// A call of an action in the caller's session.
pub(super) fn request(caller: &Caller, action: &str, params: Value) -> Request {
    Request {
        principal: caller.principal.clone(),
        session: caller.session.id.clone(),
        action: action.to_owned(),
        call: Call::new(params),
        idempotency_key: None,
        approval_ref: None,
        intention: Intention::Effect,
        reverses: None,
        trace_id: caller.trace_id.clone(),
        line: None,
    }
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
