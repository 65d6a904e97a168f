//! People.

use super::body::Strict;
use super::caller::Caller;
use super::page::{Asked, PageQuery};
use super::problem::Refusal;
use super::spaces::named;
use crate::App;
use api::identity::{ChangeUserRequest, NewUserRequest, UserView};
use api::{Code, Page, Problem};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use countersign_core::principal::{Permission, Role};
use countersign_core::{PrincipalId, UserId};
use store::{ChangedUser, Disabled, User, UserChange};

/// People of the org.
#[utoipa::path(operation_id = "users_list", get, path = "/api/v1/users", tag = "identity", params(PageQuery),
    responses((status = 200, body = Page<UserView>), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn list(State(app): State<App>, caller: Caller, Asked(query): Asked<PageQuery>) -> Result<Json<Page<UserView>>, Refusal> {
    caller.must(Permission::Read)?;
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
    caller.must(Permission::ManageIdentity)?;
    let role = body.role;
    must_give(&caller, role)?;
    match app.store().create_user(&caller.principal.org, named(&body.name)?, role).await? {
        Some(user) => Ok((StatusCode::CREATED, Json(view(user)))),
        None => Err(Refusal::new(Code::NameTaken, format!("there is a user named `{}` already", body.name))),
    }
}

/// Disables a person: none of their tokens works any more.
#[utoipa::path(operation_id = "users_disable", post, path = "/api/v1/users/{user}/disable", tag = "identity", params(("user" = String, Path)),
    responses((status = 200, body = UserView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn disable(State(app): State<App>, caller: Caller, Path(user): Path<String>) -> Result<Json<UserView>, Refusal> {
    caller.must(Permission::ManageIdentity)?;
    let unknown = || Refusal::not_found("user", &user);
    let id = UserId::parse(&user).map_err(|_| unknown())?;
    let org = &caller.principal.org;
    let found = app.store().find_user(org, &id).await?.ok_or_else(unknown)?;
    must_reach(&caller, found.role)?;
    if app.store().disable_user(org, &id).await? == Some(Disabled::LastOwner) {
        return Err(Refusal::new(Code::LastOwner, "the last owner cannot be disabled").hint("make someone else an owner first"));
    }
    app.store().find_user(org, &id).await?.map(|user| Json(view(user))).ok_or_else(unknown)
}

/// Changes what a person may do, and how dangerous a space they, and whoever acts for them, may act in. Nobody changes their own role,
/// or gives one above it.
#[utoipa::path(operation_id = "users_change", patch, path = "/api/v1/users/{user}", tag = "identity", params(("user" = String, Path)), request_body = ChangeUserRequest,
    responses((status = 200, body = UserView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn change(
    State(app): State<App>,
    caller: Caller,
    Path(user): Path<String>,
    Strict(body): Strict<ChangeUserRequest>,
) -> Result<Json<UserView>, Refusal> {
    caller.must(Permission::ManageIdentity)?;
    let unknown = || Refusal::not_found("user", &user);
    let id = UserId::parse(&user).map_err(|_| unknown())?;
    let org = &caller.principal.org;
    let found = app.store().find_user(org, &id).await?.ok_or_else(unknown)?;
    must_reach(&caller, found.role)?;
    must_be_active(&found)?;
    let change = UserChange { role: body.role, max_band: body.max_band };
    if change == UserChange::default() {
        return Err(Refusal::new(Code::InvalidRequest, "nothing is to be changed").hint("give `role` or `max_band`"));
    }
    if let Some(role) = change.role {
        must_give(&caller, role)?;
        // To rise is for others to give, and a slip downwards could not be taken back.
        if caller.principal.id == PrincipalId::User(id.clone()) {
            return Err(Refusal::new(Code::Forbidden, "nobody changes their own role").hint("ask another admin or owner"));
        }
    }
    match app.store().change_user(org, &id, change, &caller.principal.id).await?.ok_or_else(unknown)? {
        ChangedUser::Done(user) => Ok(Json(view(user))),
        ChangedUser::LastOwner => {
            Err(Refusal::new(Code::LastOwner, "the last owner keeps their role").hint("make someone else an owner first"))
        }
    }
}

/// Disabling is for good: whatever such a person is made, they are not.
pub(super) fn must_be_active(user: &User) -> Result<(), Refusal> {
    if user.disabled_at.is_none() {
        return Ok(());
    }
    Err(Refusal::new(Code::NotFound, format!("user `{}` is disabled, for good", user.name)).hint("create another user"))
}

/// A service acts with what its scopes say; a person never above their own role.
pub(super) fn must_reach(caller: &Caller, role: Role) -> Result<(), Refusal> {
    reaches(caller, role, |own| format!("{} cannot act on {}", with_article(own), with_article(role)))
}

/// The same of a role that somebody is to have.
fn must_give(caller: &Caller, role: Role) -> Result<(), Refusal> {
    reaches(caller, role, |own| format!("{} cannot make anybody {}", with_article(own), with_article(role)))
}

fn reaches(caller: &Caller, role: Role, refused: impl Fn(Role) -> String) -> Result<(), Refusal> {
    match caller.principal.role {
        Some(own) if own < role => Err(Refusal::new(Code::Forbidden, refused(own)).hint(format!("ask {}", with_article(role)))),
        Some(_) => Ok(()),
        None if role == Role::Member => Ok(()),
        None => Err(Refusal::new(Code::Forbidden, "a service cannot make or act for admins and owners: they could approve")),
    }
}

const fn with_article(role: Role) -> &'static str {
    match role {
        Role::Member => "a member",
        Role::Admin => "an admin",
        Role::Owner => "an owner",
    }
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
