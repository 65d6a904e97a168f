//! Canary tokens.

use super::body::Strict;
use super::caller::Caller;
use super::problem::Refusal;
use api::Page;
use api::gates::{CanaryView, NewCanaryRequest};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use operations::App;
use operations::canaries;
use store::Canary;

/// Lists the canary tokens of the org, for whoever may change policy.
#[utoipa::path(operation_id = "canaries_list", get, path = "/api/v1/canaries", tag = "quarantine",
    responses((status = 200, body = Page<CanaryView>)))]
pub(super) async fn list(State(app): State<App>, caller: Caller) -> Result<Json<Page<CanaryView>>, Refusal> {
    let listed = canaries::list(&app, &caller.principal).await?;
    Ok(Json(Page { items: listed.into_iter().map(view).collect(), next: None }))
}

/// Adds a canary token. From now on a call that has it in its params is quarantined, if its action could send them away.
#[utoipa::path(operation_id = "canaries_add", post, path = "/api/v1/canaries", tag = "quarantine", request_body = NewCanaryRequest,
    responses((status = 201, body = CanaryView)))]
pub(super) async fn add(
    State(app): State<App>,
    caller: Caller,
    Strict(body): Strict<NewCanaryRequest>,
) -> Result<(StatusCode, Json<CanaryView>), Refusal> {
    let added = canaries::add(&app, &caller.principal, &body.text).await?;
    Ok((StatusCode::CREATED, Json(view(added))))
}

/// Removes a canary token.
#[utoipa::path(operation_id = "canaries_remove", delete, path = "/api/v1/canaries/{canary}", tag = "quarantine", params(("canary" = String, Path)),
    responses((status = 204)))]
pub(super) async fn remove(State(app): State<App>, caller: Caller, Path(canary): Path<String>) -> Result<StatusCode, Refusal> {
    canaries::remove(&app, &caller.principal, &canary).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn view(canary: Canary) -> CanaryView {
    CanaryView { id: canary.id.to_string(), text: canary.text, added_by: canary.added_by.to_string(), added_at: canary.added_at }
}
