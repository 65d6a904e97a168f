//! How long the org keeps what it has beside its audit log.

use super::body::Strict;
use super::caller::Caller;
use super::problem::Refusal;
use axum::Json;
use axum::extract::State;
use countersign_core::retention::Retention;
use operations::App;
use operations::retention;

/// How long the org keeps calls, events and snapshots. Its audit log is never cut.
#[utoipa::path(operation_id = "retention_show", get, path = "/api/v1/retention", tag = "orgs",
    responses((status = 200, body = Retention)))]
pub(super) async fn show(State(app): State<App>, caller: Caller) -> Result<Json<Retention>, Refusal> {
    caller.must_read()?;
    Ok(Json(app.store().find_retention(&caller.principal.org).await?))
}

/// Sets how long the org keeps calls, events and snapshots; it replaces what was set before. What is absent is kept as it is by default:
/// calls for ever, events for 7 days, snapshots for 180.
#[utoipa::path(operation_id = "retention_set", put, path = "/api/v1/retention", tag = "orgs", request_body = Retention,
    responses((status = 200, body = Retention)))]
pub(super) async fn set(State(app): State<App>, caller: Caller, Strict(body): Strict<Retention>) -> Result<Json<Retention>, Refusal> {
    Ok(Json(retention::set(&app, &caller.principal, body).await?))
}
