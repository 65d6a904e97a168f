//! Tokens: made, listed, revoked. Their text is shown once.

use super::body::Strict;
use super::caller::Caller;
use super::page::{Asked, PageQuery};
use super::problem::Refusal;
use super::spaces::named;
use super::users::{must_be_active, must_reach};
use crate::App;
use api::identity::{LostName, NewTokenRequest, NewTokenResponse, TokenKindName, TokenView};
use api::{Code, Page, Problem};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use countersign_core::limits::TOKEN_LIFETIME_DAYS_MAX;
use countersign_core::principal::Permission;
use countersign_core::{PrincipalId, TokenId, UserId};
use store::{Lost, Revoked, Token, TokenKind};

/// Tokens of the org, never their texts.
#[utoipa::path(operation_id = "tokens_list", get, path = "/api/v1/tokens", tag = "identity", params(PageQuery),
    responses((status = 200, body = Page<TokenView>), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn list(State(app): State<App>, caller: Caller, Asked(query): Asked<PageQuery>) -> Result<Json<Page<TokenView>>, Refusal> {
    caller.must(Permission::ManageIdentity)?;
    let page = app.store().list_tokens(&caller.principal.org, &query.request()?).await?;
    Ok(Json(Page { items: page.items.into_iter().map(view).collect(), next: page.next }))
}

/// Makes a token for a person or a service. It is shown here and never again.
#[utoipa::path(operation_id = "tokens_create", post, path = "/api/v1/tokens", tag = "identity", request_body = NewTokenRequest,
    responses((status = 201, body = NewTokenResponse), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn create(
    State(app): State<App>,
    caller: Caller,
    Strict(body): Strict<NewTokenRequest>,
) -> Result<(StatusCode, Json<NewTokenResponse>), Refusal> {
    let name = named(&body.name)?;
    let invalid = |message: String| Refusal::new(Code::InvalidRequest, message);
    if body.expires_in_days.is_some_and(|days| !(1..=TOKEN_LIFETIME_DAYS_MAX).contains(&days)) {
        return Err(invalid(format!("`expires_in_days` must be 1 to {TOKEN_LIFETIME_DAYS_MAX}")));
    }
    let (kind, scopes) = match &body.user_id {
        Some(user) => (for_user(&app, &caller, user).await?, Vec::new()),
        None => (TokenKind::Service { made_by: caller.principal.owner.clone() }, service_scopes(&caller, &body.scopes)?),
    };
    if body.user_id.is_some() && !body.scopes.is_empty() {
        return Err(invalid("`scopes` narrow a service token; a person's token holds what their role holds".into()));
    }
    let seconds = body.expires_in_days.map(|days| days * 24 * 60 * 60);
    let token = app.store().create_token(&caller.principal.org, kind, name, &scopes, seconds).await?;
    Ok((StatusCode::CREATED, Json(NewTokenResponse { id: token.id.to_string(), token: token.text.expose().clone() })))
}

/// Revokes a token at once. Revoking twice changes nothing. The last token that an owner can act with stays.
#[utoipa::path(operation_id = "tokens_revoke", post, path = "/api/v1/tokens/{token}/revoke", tag = "identity", params(("token" = String, Path)),
    responses((status = 200, body = TokenView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn revoke(State(app): State<App>, caller: Caller, Path(token): Path<String>) -> Result<Json<TokenView>, Refusal> {
    let unknown = || Refusal::not_found("token", &token);
    let id = TokenId::parse(&token).map_err(|_| unknown())?;
    may_revoke(&app, &caller, &app.store().find_token(&caller.principal.org, &id).await?.ok_or_else(unknown)?).await?;
    match app.store().revoke_token(&caller.principal.org, &id).await?.ok_or_else(unknown)? {
        Revoked::Done(token) => Ok(Json(view(token))),
        Revoked::LastOwner => Err(Refusal::new(Code::LastOwner, "no owner could act without this token")
            .hint("create another first with `POST /api/v1/tokens`, and revoke this one with it")),
    }
}

/// People revoke their own tokens; everyone else's takes the right to manage identity, and a role not below the bearer's.
async fn may_revoke(app: &App, caller: &Caller, token: &Token) -> Result<(), Refusal> {
    let TokenKind::User(user) = &token.kind else {
        return caller.must(Permission::ManageIdentity);
    };
    if caller.principal.id == PrincipalId::User(user.clone()) {
        return Ok(());
    }
    caller.must(Permission::ManageIdentity)?;
    let bearer = app.store().find_user(&caller.principal.org, user).await?;
    bearer.map_or(Ok(()), |bearer| must_reach(caller, bearer.role))
}

/// People make tokens for themselves; for others it takes the right to manage identity, and a role not below theirs.
async fn for_user(app: &App, caller: &Caller, user: &str) -> Result<TokenKind, Refusal> {
    let unknown = || Refusal::not_found("user", user);
    let id = UserId::parse(user).map_err(|_| unknown())?;
    let found = app.store().find_user(&caller.principal.org, &id).await?.ok_or_else(unknown)?;
    if caller.principal.id != PrincipalId::User(id.clone()) {
        caller.must(Permission::ManageIdentity)?;
        must_reach(caller, found.role)?;
    }
    must_be_active(&found)?;
    Ok(TokenKind::User(id))
}

/// Nobody gives away what they do not hold, and a service never approves.
fn service_scopes(caller: &Caller, scopes: &[Permission]) -> Result<Vec<Permission>, Refusal> {
    caller.must(Permission::ManageIdentity)?;
    if scopes.is_empty() {
        return Err(Refusal::new(Code::InvalidRequest, "a service token needs at least one scope"));
    }
    if scopes.contains(&Permission::Approve) {
        return Err(Refusal::new(Code::InvalidRequest, "a service never approves: that takes a person"));
    }
    scopes.iter().map(|scope| caller.must(*scope).map(|()| *scope)).collect()
}

fn view(token: Token) -> TokenView {
    let (kind, user_id, session_id, made_by_id) = match &token.kind {
        TokenKind::User(user) => (TokenKindName::User, Some(user.to_string()), None, None),
        TokenKind::Agent(session) => (TokenKindName::Agent, None, Some(session.to_string()), None),
        TokenKind::Service { made_by } => (TokenKindName::Service, None, None, made_by.as_ref().map(ToString::to_string)),
    };
    TokenView {
        id: token.id.to_string(),
        kind,
        name: token.name,
        user_id,
        session_id,
        made_by_id,
        scopes: token.scopes,
        created_at: token.created_at,
        expires_at: token.expires_at,
        revoked_at: token.revoked_at,
        lost: token.lost.map(|lost| match lost {
            Lost::Person => LostName::PersonDisabled,
            Lost::Session => LostName::SessionEnded,
        }),
    }
}
