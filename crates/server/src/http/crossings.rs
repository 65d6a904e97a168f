//! Actions that may reach from one space into another.

use super::body::Strict;
use super::caller::Caller;
use super::problem::Refusal;
use crate::App;
use api::gates::{CrossingRequest, CrossingView};
use api::{Code, Page, Problem};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use countersign_core::ActionId;
use countersign_core::principal::Permission;
use store::Crossing;

/// Every listed crossing.
#[utoipa::path(operation_id = "crossings_list", get, path = "/api/v1/crossings", tag = "spaces",
    responses((status = 200, body = Page<CrossingView>), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn list(State(app): State<App>, caller: Caller) -> Result<Json<Page<CrossingView>>, Refusal> {
    caller.must(Permission::Read)?;
    let listed = app.store().list_crossings(&caller.principal.org).await?;
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
    responses((status = 204), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn allow(State(app): State<App>, caller: Caller, Strict(body): Strict<CrossingRequest>) -> Result<StatusCode, Refusal> {
    caller.must(Permission::ManagePolicy)?;
    let crossing = read(&app, &caller, &body).await?;
    if app.pipeline().definition_of(&caller.principal.org, &crossing.action).await?.is_none() {
        return Err(Refusal::unknown_action(&app, &caller.principal.org, &body.action).await);
    }
    app.store().allow_crossing(&caller.principal.org, crossing, &caller.principal.id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Takes it back.
#[utoipa::path(operation_id = "crossings_forbid", delete, path = "/api/v1/crossings", tag = "spaces", request_body = CrossingRequest,
    responses((status = 204), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn forbid(State(app): State<App>, caller: Caller, Strict(body): Strict<CrossingRequest>) -> Result<StatusCode, Refusal> {
    caller.must(Permission::ManagePolicy)?;
    let crossing = read(&app, &caller, &body).await?;
    if app.store().forbid_crossing(&caller.principal.org, crossing, &caller.principal.id).await? {
        return Ok(StatusCode::NO_CONTENT);
    }
    Err(Refusal::new(Code::NotFound, "there is no such crossing").hint("list them with `GET /api/v1/crossings`"))
}

async fn read(app: &App, caller: &Caller, body: &CrossingRequest) -> Result<Crossing, Refusal> {
    let Ok(action) = ActionId::parse(&body.action) else {
        return Err(Refusal::unknown_action(app, &caller.principal.org, &body.action).await);
    };
    let (from, to) = (caller.space(app, &body.from_space_id).await?, caller.space(app, &body.to_space_id).await?);
    if from == to {
        return Err(Refusal::new(Code::InvalidRequest, "a space needs no crossing into itself"));
    }
    Ok(Crossing { from, to, action })
}
