//! Kill switches.

use super::body::{Strict, reason_of};
use super::caller::Caller;
use super::problem::Refusal;
use crate::App;
use api::rules::{SwitchChangedResponse, SwitchOffRequest, SwitchOnRequest, SwitchView};
use api::{Code, Page, Problem};
use axum::Json;
use axum::extract::State;
use countersign_core::ports::{Rules, Sessions};
use countersign_core::principal::Permission;
use countersign_core::switch::{Switch, SwitchScope};

/// Every kill switch that is on.
#[utoipa::path(operation_id = "switches_list", get, path = "/api/v1/kill-switches", tag = "kill switches",
    responses((status = 200, body = Page<SwitchView>), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn list(State(app): State<App>, caller: Caller) -> Result<Json<Page<SwitchView>>, Refusal> {
    caller.must(Permission::Read)?;
    let switches = app.store().list_switches(&caller.principal.org).await?;
    Ok(Json(Page { items: switches.iter().map(view).collect(), next: None }))
}

/// Stops the execution of everything the switch covers, at once. Pending calls are kept, and their time to expire is paused.
#[utoipa::path(operation_id = "switches_on", post, path = "/api/v1/kill-switches/on", tag = "kill switches", request_body = SwitchOnRequest,
    responses((status = 200, body = SwitchChangedResponse), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn on(
    State(app): State<App>,
    caller: Caller,
    Strict(body): Strict<SwitchOnRequest>,
) -> Result<Json<SwitchChangedResponse>, Refusal> {
    caller.must(Permission::ManagePolicy)?;
    let scope = scope_of(&app, &caller, &body.scope).await?;
    let reason = reason_of(&body.reason)?;
    let clocks = app.store().switch_on(&caller.principal.org, scope, body.stop, &reason, &caller.principal.id).await?;
    Ok(Json(SwitchChangedResponse { scope: body.scope, on: true, clocks }))
}

/// Lets everything it covered run again, and the clocks go on.
#[utoipa::path(operation_id = "switches_off", post, path = "/api/v1/kill-switches/off", tag = "kill switches", request_body = SwitchOffRequest,
    responses((status = 200, body = SwitchChangedResponse), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn off(
    State(app): State<App>,
    caller: Caller,
    Strict(body): Strict<SwitchOffRequest>,
) -> Result<Json<SwitchChangedResponse>, Refusal> {
    caller.must(Permission::ManagePolicy)?;
    // Turning it off lets effects happen again: that is a person's to say.
    if !caller.principal.may(Permission::Approve) {
        return Err(Refusal::new(Code::Forbidden, "only a person turns a kill switch off"));
    }
    let wrong = || Refusal::new(Code::InvalidRequest, format!("`scope` is not what a kill switch covers: {FORMS}"));
    let scope = SwitchScope::parse(&body.scope).ok_or_else(wrong)?;
    let reason = body.reason.as_deref().map(reason_of).transpose()?.unwrap_or_default();
    match app.store().switch_off(&caller.principal.org, scope, &reason, &caller.principal.id).await? {
        Some(clocks) => Ok(Json(SwitchChangedResponse { scope: body.scope, on: false, clocks })),
        None => Err(Refusal::new(Code::NotFound, format!("no kill switch on `{}` is on", body.scope))
            .hint("see which are on with `GET /api/v1/kill-switches`")),
    }
}

const FORMS: &str = "use `org`, `space:<id>`, `session:<id>`, `source:<slug>` or `action:<id>`";

/// What is to be stopped must exist: a misspelt switch would stop nothing and look as if it did.
async fn scope_of(app: &App, caller: &Caller, text: &str) -> Result<SwitchScope, Refusal> {
    let org = &caller.principal.org;
    let scope = SwitchScope::parse(text)
        .ok_or_else(|| Refusal::new(Code::InvalidRequest, format!("`scope` is not what a kill switch covers: {FORMS}")))?;
    let exists = match &scope {
        SwitchScope::Org => true,
        SwitchScope::Space(space) => app.store().find_space(org, space).await?.is_some(),
        SwitchScope::Session(session) => app.store().find_session(org, session).await?.is_some(),
        SwitchScope::Source(source) => app.pipeline().catalogue().list(org).await.iter().any(|listed| listed.id == source.as_str()),
        SwitchScope::Action(action) => app.pipeline().definition_of(org, action).await?.is_some(),
    };
    if exists { Ok(scope) } else { Err(Refusal::new(Code::NotFound, format!("there is no {}", text.replacen(':', " `", 1) + "`"))) }
}

fn view(switch: &Switch) -> SwitchView {
    SwitchView {
        scope: switch.scope.to_string(),
        stop: switch.stop,
        reason: switch.reason.clone(),
        set_by: switch.set_by.to_string(),
        set_at: switch.set_at,
    }
}
