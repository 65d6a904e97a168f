//! Drafts of automations: definitions that wait for a person to save them.

use super::automations::{told, views};
use super::body::OrEmpty;
use super::caller::Caller;
use super::page::{Asked, PageQuery};
use super::problem::Refusal;
use api::Page;
use api::automation::{DraftView, SaveDraftRequest, SavedAutomationResponse};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use operations::App;
use operations::drafts;

/// Drafts that have not expired, newest first.
#[utoipa::path(operation_id = "automation_drafts_list", get, path = "/api/v1/automation-drafts", tag = "automations", params(PageQuery),
    responses((status = 200, body = Page<DraftView>)))]
pub(super) async fn list(State(app): State<App>, caller: Caller, Asked(query): Asked<PageQuery>) -> Result<Json<Page<DraftView>>, Refusal> {
    let page = drafts::list(&app, &caller.principal, &query.request()?).await?;
    Ok(Json(Page { items: page.items.into_iter().map(DraftView::listed).collect(), next: page.next }))
}

/// One draft, with its definition and what is worth checking about it now.
#[utoipa::path(operation_id = "automation_drafts_show", get, path = "/api/v1/automation-drafts/{draft}", tag = "automations", params(("draft" = String, Path)),
    responses((status = 200, body = DraftView)))]
pub(super) async fn show(State(app): State<App>, caller: Caller, Path(draft): Path<String>) -> Result<Json<DraftView>, Refusal> {
    let (found, flags) = drafts::find(&app, &caller.principal, &draft).await?;
    Ok(Json(DraftView::new(found, views(flags))))
}

/// Saves a draft. Only a person does that, who has read each of its flags, and names the places of those.
#[utoipa::path(operation_id = "automation_drafts_save", post, path = "/api/v1/automation-drafts/{draft}/save", tag = "automations", params(("draft" = String, Path)),
    request_body = SaveDraftRequest,
    responses((status = 200, body = SavedAutomationResponse)))]
pub(super) async fn save(
    State(app): State<App>,
    caller: Caller,
    Path(draft): Path<String>,
    OrEmpty(body): OrEmpty<SaveDraftRequest>,
) -> Result<(StatusCode, Json<SavedAutomationResponse>), Refusal> {
    let (applied, warnings) = drafts::save(&app, &caller.principal, &draft, body).await?;
    told(&app, applied, warnings, StatusCode::OK).await
}

/// Drops a draft that nobody wants.
#[utoipa::path(operation_id = "automation_drafts_drop", delete, path = "/api/v1/automation-drafts/{draft}", tag = "automations", params(("draft" = String, Path)),
    responses((status = 204)))]
pub(super) async fn discard(State(app): State<App>, caller: Caller, Path(draft): Path<String>) -> Result<StatusCode, Refusal> {
    drafts::discard(&app, &caller.principal, &draft).await?;
    Ok(StatusCode::NO_CONTENT)
}
