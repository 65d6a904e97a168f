//! People.

use super::body::Strict;
use super::caller::Caller;
use super::page::{Asked, PageQuery};
use super::problem::Refusal;
use crate::App;
use crate::operations::users;
use api::identity::{ChangeUserRequest, NewUserRequest, UserView};
use api::{Page, Problem};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use store::{User, UserChange};

/// People of the org.
#[utoipa::path(operation_id = "users_list", get, path = "/api/v1/users", tag = "identity", params(PageQuery),
    responses((status = 200, body = Page<UserView>), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn list(State(app): State<App>, caller: Caller, Asked(query): Asked<PageQuery>) -> Result<Json<Page<UserView>>, Refusal> {
    caller.must_read()?;
    let page = app.store().list_users(&caller.principal.org, &query.request()?).await?;
    Ok(Json(Page { items: page.items.into_iter().map(view).collect(), next: page.next }))
}

/// Adds a person. Nobody gives a role above their own.
#[utoipa::path(operation_id = "users_create", post, path = "/api/v1/users", tag = "identity", request_body = NewUserRequest,
    responses((status = 201, body = UserView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn create(
    State(app): State<App>,
    caller: Caller,
    Strict(body): Strict<NewUserRequest>,
) -> Result<(StatusCode, Json<UserView>), Refusal> {
    let user = users::create(&app, &caller.principal, &body.name, body.role).await?;
    Ok((StatusCode::CREATED, Json(view(user))))
}

/// Disables a person: none of their tokens works any more.
#[utoipa::path(operation_id = "users_disable", post, path = "/api/v1/users/{user}/disable", tag = "identity", params(("user" = String, Path)),
    responses((status = 200, body = UserView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn disable(State(app): State<App>, caller: Caller, Path(user): Path<String>) -> Result<Json<UserView>, Refusal> {
    Ok(Json(view(users::disable(&app, &caller.principal, &user).await?)))
}

/// Changes a person's role, and the strictest band in which they and their agents may act. Nobody changes their own role, or gives one
/// above it.
#[utoipa::path(operation_id = "users_change", patch, path = "/api/v1/users/{user}", tag = "identity", params(("user" = String, Path)), request_body = ChangeUserRequest,
    responses((status = 200, body = UserView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
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
