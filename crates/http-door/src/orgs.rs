//! Orgs, for operators.

use super::body::Strict;
use super::caller::Caller;
use super::problem::Refusal;
use super::users::invitation_view;
use api::Page;
use api::identity::{NewOrgRequest, NewOrgResponse, OrgView};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use operations::App;
use operations::orgs;
use store::Org;

/// Every org of this server, for operators: the owners of the first org.
#[utoipa::path(operation_id = "orgs_list", get, path = "/api/v1/orgs", tag = "orgs",
    responses((status = 200, body = Page<OrgView>)))]
pub(super) async fn list(State(app): State<App>, caller: Caller) -> Result<Json<Page<OrgView>>, Refusal> {
    let listed = orgs::list(&app, &caller.principal).await?;
    Ok(Json(Page { items: listed.into_iter().map(view).collect(), next: None }))
}

/// Creates an org with its space `main`, and its owner, whom it invites. For operators.
#[utoipa::path(operation_id = "orgs_create", post, path = "/api/v1/orgs", tag = "orgs", request_body = NewOrgRequest,
    responses((status = 201, body = NewOrgResponse)))]
pub(super) async fn create(
    State(app): State<App>,
    caller: Caller,
    Strict(body): Strict<NewOrgRequest>,
) -> Result<(StatusCode, Json<NewOrgResponse>), Refusal> {
    let (org, added, invitation) = orgs::create(&app, &caller.principal, &body.name).await?;
    let (id, owner_id, invitation) = (org.id.to_string(), added.owner.to_string(), invitation_view(&invitation));
    Ok((StatusCode::CREATED, Json(NewOrgResponse { id, owner_id, invitation, org: view(org) })))
}

/// Disables an org for good: its tokens are refused, and its data stays. The first org cannot be disabled. For operators.
#[utoipa::path(operation_id = "orgs_disable", post, path = "/api/v1/orgs/{org}/disable", tag = "orgs", params(("org" = String, Path)),
    responses((status = 200, body = OrgView)))]
pub(super) async fn disable(State(app): State<App>, caller: Caller, Path(org): Path<String>) -> Result<Json<OrgView>, Refusal> {
    Ok(Json(view(orgs::disable(&app, &caller.principal, &org).await?)))
}

fn view(org: Org) -> OrgView {
    OrgView { id: org.id.to_string(), name: org.name, first: org.is_first, created_at: org.created_at, disabled_at: org.disabled_at }
}
