//! Targets that fail again and again.

use super::body::Strict;
use super::caller::Caller;
use super::problem::Refusal;
use api::Page;
use api::rules::{BreakerView, CloseBreakerRequest};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use countersign_core::ports::Breakers;
use operations::App;
use operations::{breakers, sources};

/// Lists every target that has failed since it last worked, with the state of its circuit breaker.
#[utoipa::path(operation_id = "breakers_list", get, path = "/api/v1/breakers", tag = "breakers",
    responses((status = 200, body = Page<BreakerView>)))]
pub(super) async fn list(State(app): State<App>, caller: Caller) -> Result<Json<Page<BreakerView>>, Refusal> {
    caller.must_read()?;
    let breakers = app.store().list_breakers(&caller.principal.org).await?;
    let hidden = sources::hidden(&app, &caller.principal).await?;
    let seen = breakers.iter().filter(|breaker| breaker.key.split('.').next().is_none_or(|source| !hidden.contains(source)));
    Ok(Json(Page { items: seen.map(BreakerView::from).collect(), next: None }))
}

/// Lets calls through again at once.
#[utoipa::path(operation_id = "breakers_close", post, path = "/api/v1/breakers/close", tag = "breakers", request_body = CloseBreakerRequest,
    responses((status = 204)))]
pub(super) async fn close(
    State(app): State<App>,
    caller: Caller,
    Strict(body): Strict<CloseBreakerRequest>,
) -> Result<StatusCode, Refusal> {
    breakers::close(&app, &caller.principal, &body.key).await?;
    Ok(StatusCode::NO_CONTENT)
}
