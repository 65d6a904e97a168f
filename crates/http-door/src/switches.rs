//! Kill switches.

use super::body::Strict;
use super::caller::Caller;
use super::problem::Refusal;
use api::Page;
use api::rules::{SwitchChangedResponse, SwitchOffRequest, SwitchOnRequest, SwitchView};
use axum::Json;
use axum::extract::State;
use countersign_core::ports::Rules;
use countersign_core::switch::Switch;
use operations::App;
use operations::switches;

/// Every kill switch that is on.
#[utoipa::path(operation_id = "switches_list", get, path = "/api/v1/kill-switches", tag = "kill switches",
    responses((status = 200, body = Page<SwitchView>)))]
pub(super) async fn list(State(app): State<App>, caller: Caller) -> Result<Json<Page<SwitchView>>, Refusal> {
    caller.must_read()?;
    let switches = app.store().list_switches(&caller.principal.org).await?;
    let switches = caller.seen_of(&app, switches.to_vec(), |switch| switch.scope.to_string()).await?;
    Ok(Json(Page { items: switches.iter().map(view).collect(), next: None }))
}

/// Stops the execution of everything the switch covers, at once. Pending calls are kept, and their time to expire is paused.
#[utoipa::path(operation_id = "switches_on", post, path = "/api/v1/kill-switches/on", tag = "kill switches", request_body = SwitchOnRequest,
    responses((status = 200, body = SwitchChangedResponse)))]
pub(super) async fn on(
    State(app): State<App>,
    caller: Caller,
    Strict(body): Strict<SwitchOnRequest>,
) -> Result<Json<SwitchChangedResponse>, Refusal> {
    let clocks = switches::on(&app, &caller.principal, &body.scope, body.stop, &body.reason).await?;
    Ok(Json(SwitchChangedResponse { scope: body.scope, on: true, clocks }))
}

/// Lets everything it covered run again, and the clocks go on.
#[utoipa::path(operation_id = "switches_off", post, path = "/api/v1/kill-switches/off", tag = "kill switches", request_body = SwitchOffRequest,
    responses((status = 200, body = SwitchChangedResponse)))]
pub(super) async fn off(
    State(app): State<App>,
    caller: Caller,
    Strict(body): Strict<SwitchOffRequest>,
) -> Result<Json<SwitchChangedResponse>, Refusal> {
    let clocks = switches::off(&app, &caller.principal, &body.scope, body.reason.as_deref()).await?;
    Ok(Json(SwitchChangedResponse { scope: body.scope, on: false, clocks }))
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
