//! Texts that were laid out to be stolen.

use super::body::Strict;
use super::caller::Caller;
use super::problem::Refusal;
use crate::App;
use api::gates::{CanaryView, NewCanaryRequest};
use api::{Code, Page, Problem};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use countersign_core::CanaryId;
use countersign_core::limits::{CANARIES_MAX, CANARY_CHARS_MAX};
use countersign_core::principal::Permission;
use policy::scan::CANARY_BYTES_MIN;
use store::Canary;

/// Lists the canary tokens of the org, for whoever may change policy.
#[utoipa::path(operation_id = "canaries_list", get, path = "/api/v1/canaries", tag = "quarantine",
    responses((status = 200, body = Page<CanaryView>), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn list(State(app): State<App>, caller: Caller) -> Result<Json<Page<CanaryView>>, Refusal> {
    caller.must(Permission::ManagePolicy)?;
    let canaries = app.store().list_canaries(&caller.principal.org).await?;
    Ok(Json(Page { items: canaries.into_iter().map(view).collect(), next: None }))
}

/// Lays out a canary. From now on a call that would carry it away is quarantined.
#[utoipa::path(operation_id = "canaries_add", post, path = "/api/v1/canaries", tag = "quarantine", request_body = NewCanaryRequest,
    responses((status = 201, body = CanaryView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn add(
    State(app): State<App>,
    caller: Caller,
    Strict(body): Strict<NewCanaryRequest>,
) -> Result<(StatusCode, Json<CanaryView>), Refusal> {
    caller.must(Permission::ManagePolicy)?;
    let fits = body.text.len() >= CANARY_BYTES_MIN && body.text.chars().count() <= CANARY_CHARS_MAX && !body.text.contains('\0');
    if !fits {
        return Err(Refusal::new(Code::InvalidRequest, format!("a canary has {CANARY_BYTES_MIN} to {CANARY_CHARS_MAX} characters")));
    }
    if app.store().list_canaries(&caller.principal.org).await?.len() >= CANARIES_MAX {
        return Err(Refusal::new(Code::InvalidRequest, format!("an org has at most {CANARIES_MAX} canaries")));
    }
    let added = app.store().add_canary(&caller.principal.org, &body.text, &caller.principal.id).await?;
    Ok((StatusCode::CREATED, Json(view(added))))
}

/// Takes a canary away.
#[utoipa::path(operation_id = "canaries_remove", delete, path = "/api/v1/canaries/{canary}", tag = "quarantine", params(("canary" = String, Path)),
    responses((status = 204), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn remove(State(app): State<App>, caller: Caller, Path(canary): Path<String>) -> Result<StatusCode, Refusal> {
    caller.must(Permission::ManagePolicy)?;
    let unknown = || Refusal::not_found("canary", &canary);
    let id = CanaryId::parse(&canary).map_err(|_| unknown())?;
    let removed = app.store().remove_canary(&caller.principal.org, &id, &caller.principal.id).await?;
    if removed { Ok(StatusCode::NO_CONTENT) } else { Err(unknown()) }
}

fn view(canary: Canary) -> CanaryView {
    CanaryView { id: canary.id.to_string(), text: canary.text, added_by: canary.added_by.to_string(), added_at: canary.added_at }
}
