//! The doors of two older contracts. Each becomes an ordinary call at once; `api::compat` knows their words.

use super::body::Strict;
use super::caller::Caller;
use super::page::{Asked, WaitQuery};
use super::problem::Refusal;
use super::receipts::entry_view;
use api::Code;
use api::compat::{ActionPlan, ActionReceipt, ActionRequest, Echo, PlanResult};
use api::invocation::{InvocationView, ScopeView};
use api::receipt::EntryView;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use countersign_core::call::{Claimed, Older, Planned};
use countersign_core::effect::{Bounds, Scope};
use countersign_core::invocation::Intention;
use countersign_core::ports::Sessions;
use countersign_core::source::BUILTIN_SOURCES;
use countersign_core::{Action, ActionId, Call, Invocation, Principal, Session, SessionId, SpaceId, Tier};
use operations::App;
use operations::invocations;
use pipeline::limits::CLAIMED_CHARS_MAX;
use pipeline::{Outcome, Request, may_read_entries};
use serde_json::{Number, Value};
use std::sync::Arc;

/// Performs an action, in the form of the action request contract.
#[utoipa::path(operation_id = "compat_execute", post, path = "/api/v1/actions/execute", tag = "compatibility", request_body = ActionRequest,
    responses(
        (status = 200, description = "What became of it, whatever that is.", body = ActionReceipt),
        (status = 202, description = "It is pending.", body = ActionReceipt),
    ))]
pub(super) async fn execute(
    State(app): State<App>,
    caller: Caller,
    Strict(body): Strict<ActionRequest>,
) -> Result<(StatusCode, Json<ActionReceipt>), Refusal> {
    let principal = caller.principal.clone();
    let (outcome, echo) = perform(&app, caller, body).await?;
    let Answered { status, view, entry, result, replayed, kept } = answered(&app, &principal, outcome).await;
    let echo = Echo { inputs: kept.inputs, is_rehearsed: kept.is_rehearsed, ..echo };
    Ok((status, Json(ActionReceipt::new(view, entry.as_ref(), result, replayed, echo))))
}

/// What became of an action request, at any time, in the form of its contract; `?wait=30s` holds the answer back until it is final.
#[utoipa::path(operation_id = "compat_execute_show", get, path = "/api/v1/actions/execute/{invocation}", tag = "compatibility",
    params(("invocation" = String, Path), WaitQuery),
    responses((status = 200, body = ActionReceipt)))]
pub(super) async fn show_request(
    State(app): State<App>,
    caller: Caller,
    Path(invocation): Path<String>,
    Asked(wait): Asked<WaitQuery>,
) -> Result<Json<ActionReceipt>, Refusal> {
    let Answered { view, entry, result, kept, .. } = found(&app, &caller, &invocation, wait).await?;
    Ok(Json(ActionReceipt::new(view, entry.as_ref(), result, false, kept)))
}

/// Makes the call that an action request asks for, whichever way the request came.
pub(super) async fn perform(app: &App, caller: Caller, body: ActionRequest) -> Result<(Outcome, Echo), Refusal> {
    let session = session_of(app, &caller, "session_id", body.session_id.as_deref()).await?;
    let more = body.unknown_fields();
    let named = body.params.get("space_id").and_then(Value::as_str).map(str::to_owned);
    let (params, space) = with_its_space(app, &caller, &session, &body.tool_id, body.params).await?;
    let elsewhere = space_elsewhere(app, &caller, &session, body.space_id.as_deref()).await?.or(space);
    let qos = body.qos.unwrap_or_default();
    let context = body.policy_ctx.unwrap_or_default();
    let action_id = short("action_id", body.action_id)?;
    let subject = short("subject_id", body.subject_id)?;
    let echo = Echo {
        action_id: action_id.clone(),
        subject_id: subject.clone(),
        space_id: body.space_id.or(named),
        trace_id: body.trace_id.clone(),
        idempotency_key: body.idempotency_key.clone(),
        ..Echo::default()
    };
    let older = Older {
        action: Some(body.tool_id.clone()),
        space: echo.space_id.clone().filter(|named| named.chars().count() <= CLAIMED_CHARS_MAX),
        idempotency_key: body.idempotency_key.clone(),
        ..Older::default()
    };
    let call = Call {
        bounds: Bounds {
            tier: None,
            timeout_ms: qos.timeout_ms,
            retries_max: qos.max_retries,
            breaker_label: short("circuit_breaker_key", qos.circuit_breaker_key)?,
        },
        claimed: Some(Claimed {
            time: short("policy_ctx.time", context.time)?,
            device: short("policy_ctx.device", context.device)?,
            actor: short("policy_ctx.actor", context.actor)?,
            subject,
            action_id,
            space: short("space_id", elsewhere)?,
            more,
            ..Claimed::default()
        }),
        older: Some(older),
        ..Call::new(params)
    };
    let request = Request {
        idempotency_key: body.idempotency_key,
        intention: if body.dry_run { Intention::DryRun } else { Intention::Effect },
        trace_id: short("trace_id", body.trace_id)?.unwrap_or(caller.trace_id),
        ..Request::new(caller.principal, session.id, body.tool_id, call)
    };
    let outcome = app.pipeline().invoke(request).await?;
    Ok((outcome, echo))
}

/// Performs a planned action, in the form of the plan contract.
#[utoipa::path(operation_id = "compat_plan", post, path = "/api/v1/actions/plans", tag = "compatibility", request_body = ActionPlan,
    responses(
        (status = 200, description = "What became of it, whatever that is.", body = PlanResult),
        (status = 202, description = "It is pending.", body = PlanResult),
    ))]
pub(super) async fn plan(
    State(app): State<App>,
    caller: Caller,
    Strict(body): Strict<ActionPlan>,
) -> Result<(StatusCode, Json<PlanResult>), Refusal> {
    let session = session_of(&app, &caller, "sessionId", body.session_id.as_deref()).await?;
    // A plan without a tier counts as the riskiest.
    let tier = body.risk_tier.unwrap_or(Tier::R4);
    let action = action_meant(&app, &session, &body.action_type).await?;
    let more = body.unknown_fields();
    let action_id = short("actionId", body.action_id)?;
    let echo = Echo {
        action_id: action_id.clone(),
        action: Some(body.action_type.clone()),
        idempotency_key: body.idempotency_key.clone(),
        confidence: body.confidence,
        ..Echo::default()
    };
    let (verification, scope) = (body.verification.unwrap_or_default(), body.scope.unwrap_or_default());
    let older = Older {
        action: Some(body.action_type),
        idempotency_key: body.idempotency_key.clone(),
        plan: Some(Planned { is_verified: verification.required, unknown_limits: scope.more.keys().cloned().collect() }),
        ..Older::default()
    };
    let principal = caller.principal.clone();
    let call = Call {
        reason: body.reason,
        scope: Scope::from(ScopeView::from(scope)),
        bounds: Bounds { tier: Some(tier), ..Bounds::default() },
        commands: verification.commands,
        claimed: Some(Claimed {
            action_id,
            confidence: body.confidence.and_then(Number::from_f64),
            rollback_plan: body.rollback_plan,
            more,
            ..Claimed::default()
        }),
        older: Some(older),
        ..Call::new(body.input)
    };
    let request = Request {
        idempotency_key: body.idempotency_key,
        intention: if body.dry_run { Intention::DryRun } else { Intention::Effect },
        trace_id: caller.trace_id,
        ..Request::new(caller.principal, session.id, action.id.to_string(), call)
    };
    let outcome = app.pipeline().invoke(request).await?;
    let Answered { status, view, entry, result, kept, .. } = answered(&app, &principal, outcome).await;
    let echo = Echo { is_rehearsed: kept.is_rehearsed, ..echo };
    Ok((status, Json(PlanResult::new(view, entry.as_ref(), result, echo))))
}

/// What became of a plan, at any time, in the form of its contract; `?wait=30s` holds the answer back until it is final.
#[utoipa::path(operation_id = "compat_plan_show", get, path = "/api/v1/actions/plans/{invocation}", tag = "compatibility",
    params(("invocation" = String, Path), WaitQuery),
    responses((status = 200, body = PlanResult)))]
pub(super) async fn show_plan(
    State(app): State<App>,
    caller: Caller,
    Path(invocation): Path<String>,
    Asked(wait): Asked<WaitQuery>,
) -> Result<Json<PlanResult>, Refusal> {
    let Answered { view, entry, result, kept, .. } = found(&app, &caller, &invocation, wait).await?;
    Ok(Json(PlanResult::new(view, entry.as_ref(), result, kept)))
}

/// The call as it is now, or as it is once it has ended.
async fn found(app: &App, caller: &Caller, invocation: &str, wait: WaitQuery) -> Result<Answered, Refusal> {
    let limit = wait.duration()?;
    let found = invocations::readable(app, &caller.principal, invocation).await?;
    let found = app.pipeline().wait_for_end(&caller.principal, found, limit).await;
    Ok(answered(app, &caller.principal, Outcome::of(Box::new(found))).await)
}

/// The session that is named in `field`, else the agent's own.
async fn session_of(app: &App, caller: &Caller, field: &str, named: Option<&str>) -> Result<Session, Refusal> {
    let id = match (named, &caller.principal.session) {
        (Some(named), _) => named.to_owned(),
        (None, Some(own)) => own.to_string(),
        (None, None) => {
            return Err(Refusal::new(Code::InvalidRequest, format!("`{field}` is needed: only an agent has a session of its own"))
                .hint("create one with `POST /api/v1/sessions`"));
        }
    };
    let id = SessionId::parse(&id).map_err(|_| Refusal::unknown_session())?;
    let found = app.store().find_session(&caller.principal.org, &id).await?.ok_or_else(Refusal::unknown_session)?;
    if caller.hidden(app).await?.contains(&found.space) { Err(Refusal::unknown_session()) } else { Ok(found) }
}

/// The space that a request names, if it is not its session's. The gates deny the call for it, with a receipt.
async fn space_elsewhere(app: &App, caller: &Caller, session: &Session, named: Option<&str>) -> Result<Option<String>, Refusal> {
    let Some(named) = named else {
        return Ok(None);
    };
    let is_here = space_meant(app, caller, named).await?.as_ref() == Some(&session.space);
    Ok((!is_here).then(|| named.to_owned()))
}

/// The older contract names the space twice. `space_id` is taken out of the params, and returned if it names another space than the
/// session's. If the action's schema has `space_id`, the action gets the id, and the gates check it there.
async fn with_its_space(
    app: &App,
    caller: &Caller,
    session: &Session,
    tool: &str,
    mut params: Value,
) -> Result<(Value, Option<String>), Refusal> {
    let Some(named) = params.get("space_id").and_then(Value::as_str).map(str::to_owned) else {
        return Ok((params, None));
    };
    // An action that is not there is refused as such.
    let Some(action) = app.pipeline().catalogue().find_listed(session, tool).await else {
        return Ok((params, None));
    };
    if asks_for_a_space(&action) {
        if let Some(id) = space_meant(app, caller, &named).await? {
            params["space_id"] = Value::String(id.to_string());
        }
        return Ok((params, None));
    }
    if let Some(members) = params.as_object_mut() {
        members.remove("space_id");
    }
    Ok((params, space_elsewhere(app, caller, session, Some(&named)).await?))
}

fn asks_for_a_space(action: &Action) -> bool {
    let is_required = |required: &Value| required.as_array().is_some_and(|names| names.iter().any(|name| name == "space_id"));
    action.params_schema.pointer("/properties/space_id").is_some() || action.params_schema.get("required").is_some_and(is_required)
}

/// The space that is meant by an id or a name. A name that does not exist for the caller means none.
async fn space_meant(app: &App, caller: &Caller, named: &str) -> Result<Option<SpaceId>, Refusal> {
    match SpaceId::parse(named) {
        Ok(id) => Ok(Some(id)),
        // No space is called that, and not every database can be asked for it.
        Err(_) if named.chars().any(char::is_control) => Ok(None),
        Err(_) => {
            let found = app.store().find_space_by_name(&caller.principal.org, named).await?;
            Ok(found.filter(|space| caller.principal.sees(space)).map(|space| space.id))
        }
    }
}

/// The action a plan names in full, or by a name that only one source has. What a core action is called, it is called whatever packages
/// there are.
async fn action_meant(app: &App, session: &Session, name: &str) -> Result<Arc<Action>, Refusal> {
    if ActionId::parse(name).is_ok() {
        return match app.pipeline().catalogue().find_listed(session, name).await {
            Some(action) => Ok(action),
            None => Err(Refusal::unknown_action(app, session, name).await),
        };
    }
    let actions = app.pipeline().catalogue().all_actions(session).await;
    let named = actions.into_iter().filter(|action| action.id.name() == name);
    let (core, packaged): (Vec<_>, Vec<_>) = named.partition(|action| BUILTIN_SOURCES.contains(&action.id.source()));
    let mut meant = if core.is_empty() { packaged } else { core }.into_iter();
    match (meant.next(), meant.next()) {
        (Some(only), None) => Ok(only),
        (None, _) => Err(Refusal::unknown_action(app, session, name).await),
        (Some(_), Some(_)) => {
            Err(Refusal::new(Code::UnknownAction, "more than one source has an action of this name; name the source too"))
        }
    }
}

fn short(name: &str, text: Option<String>) -> Result<Option<String>, Refusal> {
    match text {
        Some(text) if text.is_empty() || text.chars().count() > CLAIMED_CHARS_MAX || text.chars().any(char::is_control) => {
            Err(Refusal::new(Code::InvalidRequest, format!("`{name}` must have 1 to {CLAIMED_CHARS_MAX} printable characters")))
        }
        text => Ok(text),
    }
}

struct Answered {
    status: StatusCode,
    view: InvocationView,
    entry: Option<EntryView>,
    result: Option<Value>,
    replayed: bool,
    kept: Echo,
}

/// Everything there is to tell of an outcome. These contracts answer with what became of it, also where that is a failure.
async fn answered(app: &App, principal: &Principal, outcome: Outcome) -> Answered {
    let (status, invocation, result, replayed): (_, Box<Invocation>, _, _) = match outcome {
        Outcome::Ended { invocation, result } => (StatusCode::OK, invocation, result, false),
        Outcome::Replayed(invocation) => (StatusCode::OK, invocation, None, true),
        Outcome::Pending(invocation) => (StatusCode::ACCEPTED, invocation, None, false),
        Outcome::InDoubt(invocation) => (StatusCode::OK, invocation, None, false),
    };
    let entry = match &invocation.receipt {
        Some(receipt) if may_read_entries(principal, &invocation) => {
            // The call was made: a receipt that cannot be read now must not look as if it had not been.
            app.store().find_receipt(&principal.org, &receipt.id).await.ok().flatten().as_ref().and_then(|entry| entry_view(entry).ok())
        }
        Some(_) | None => None,
    };
    let kept = Echo::kept(&invocation);
    Answered { status, view: InvocationView::from(*invocation), entry, result, replayed, kept }
}
