//! Actions that may reach from one space into another.

use super::body::Strict;
use super::caller::Caller;
use super::problem::Refusal;
use api::Page;
use api::gates::{CrossingRequest, CrossingView};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use operations::App;
use operations::crossings;

/// Every listed crossing.
#[utoipa::path(operation_id = "crossings_list", get, path = "/api/v1/crossings", tag = "spaces",
    responses((status = 200, body = Page<CrossingView>)))]
pub(super) async fn list(State(app): State<App>, caller: Caller) -> Result<Json<Page<CrossingView>>, Refusal> {
    caller.must_read()?;
    let listed = app.store().list_crossings(&caller.principal.org).await?;
    let listed = caller.seen_of(&app, listed, |listed| format!("{} {}", listed.crossing.from, listed.crossing.to)).await?;
    let items = listed.into_iter().map(|listed| CrossingView {
        action: listed.crossing.action.to_string(),
        from_space_id: listed.crossing.from.to_string(),
        to_space_id: listed.crossing.to.to_string(),
        listed_by: listed.listed_by.to_string(),
        listed_at: listed.listed_at,
    });
    Ok(Json(Page { items: items.collect(), next: None }))
}

/// Lets an action reach from one space into another.
#[utoipa::path(operation_id = "crossings_allow", post, path = "/api/v1/crossings", tag = "spaces", request_body = CrossingRequest,
    responses((status = 204)))]
pub(super) async fn allow(State(app): State<App>, caller: Caller, Strict(body): Strict<CrossingRequest>) -> Result<StatusCode, Refusal> {
    crossings::allow(&app, &caller.principal, &body.action, &body.from_space_id, &body.to_space_id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Removes a crossing.
#[utoipa::path(operation_id = "crossings_forbid", delete, path = "/api/v1/crossings", tag = "spaces", request_body = CrossingRequest,
    responses((status = 204)))]
pub(super) async fn forbid(State(app): State<App>, caller: Caller, Strict(body): Strict<CrossingRequest>) -> Result<StatusCode, Refusal> {
    crossings::forbid(&app, &caller.principal, &body.action, &body.from_space_id, &body.to_space_id).await?;
    Ok(StatusCode::NO_CONTENT)
}
