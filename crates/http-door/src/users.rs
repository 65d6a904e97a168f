//! People.

use super::body::{OrEmpty, Strict};
use super::caller::Caller;
use super::page::{Asked, PageQuery};
use super::problem::Refusal;
use api::Page;
use api::identity::{ChangeUserRequest, InvitationResponse, InviteRequest, NewUserRequest, NewUserResponse, UserView};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use operations::App;
use operations::users;
use store::{NewToken, User, UserChange};

/// People of the org.
#[utoipa::path(operation_id = "users_list", get, path = "/api/v1/users", tag = "identity", params(PageQuery),
    responses((status = 200, body = Page<UserView>)))]
pub(super) async fn list(State(app): State<App>, caller: Caller, Asked(query): Asked<PageQuery>) -> Result<Json<Page<UserView>>, Refusal> {
    caller.must_read()?;
    let page = app.store().list_users(&caller.principal.org, &query.request()?).await?;
    Ok(Json(Page { items: page.items.into_iter().map(view).collect(), next: page.next }))
}

/// Adds a person and invites them. Nobody gives a role above their own.
#[utoipa::path(operation_id = "users_create", post, path = "/api/v1/users", tag = "identity", request_body = NewUserRequest,
    responses((status = 201, body = NewUserResponse)))]
pub(super) async fn create(
    State(app): State<App>,
    caller: Caller,
    Strict(body): Strict<NewUserRequest>,
) -> Result<(StatusCode, Json<NewUserResponse>), Refusal> {
    let (user, invitation) = users::create(&app, &caller.principal, &body.name, body.role).await?;
    let (id, user, invitation) = (user.id.to_string(), view(user), invitation_view(&invitation));
    Ok((StatusCode::CREATED, Json(NewUserResponse { id, user, invitation })))
}

/// Invites a person again. Their earlier invitations stop working; their tokens stop when the new one is redeemed.
#[utoipa::path(operation_id = "users_invite", post, path = "/api/v1/users/{user}/invite", tag = "identity", params(("user" = String, Path)),
    request_body = InviteRequest,
    responses((status = 201, body = InvitationResponse)))]
pub(super) async fn invite(
    State(app): State<App>,
    caller: Caller,
    Path(user): Path<String>,
    OrEmpty(body): OrEmpty<InviteRequest>,
) -> Result<(StatusCode, Json<InvitationResponse>), Refusal> {
    let invitation = users::invite(&app, &caller.principal, &user, body.device).await?;
    Ok((StatusCode::CREATED, Json(invitation_view(&invitation))))
}

pub(super) fn invitation_view(invitation: &NewToken) -> InvitationResponse {
    InvitationResponse {
        id: invitation.id.to_string(),
        invitation: invitation.text.expose().clone(),
        expires_at: invitation.expires_at.unwrap_or_default(),
    }
}

/// Disables a person: none of their tokens works any more.
#[utoipa::path(operation_id = "users_disable", post, path = "/api/v1/users/{user}/disable", tag = "identity", params(("user" = String, Path)),
    responses((status = 200, body = UserView)))]
pub(super) async fn disable(State(app): State<App>, caller: Caller, Path(user): Path<String>) -> Result<Json<UserView>, Refusal> {
    Ok(Json(view(users::disable(&app, &caller.principal, &user).await?)))
}

/// Changes a person's role, and the strictest band in which they and their agents may act. Nobody changes their own role, or gives one
/// above it.
#[utoipa::path(operation_id = "users_change", patch, path = "/api/v1/users/{user}", tag = "identity", params(("user" = String, Path)), request_body = ChangeUserRequest,
    responses((status = 200, body = UserView)))]
pub(super) async fn change(
    State(app): State<App>,
    caller: Caller,
    Path(user): Path<String>,
    Strict(body): Strict<ChangeUserRequest>,
) -> Result<Json<UserView>, Refusal> {
    let change = UserChange { role: body.role, max_band: body.max_band };
    Ok(Json(view(users::change(&app, &caller.principal, &user, change).await?)))
}

fn view(user: User) -> UserView {
    UserView {
        id: user.id.to_string(),
        name: user.name,
        role: user.role,
        max_band: user.max_band,
        created_at: user.created_at,
        disabled_at: user.disabled_at,
    }
}
