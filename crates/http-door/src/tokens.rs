//! Tokens: made, listed, revoked. Their text is shown once.

use super::body::Strict;
use super::caller::Caller;
use super::page::{Asked, PageQuery};
use super::problem::Refusal;
use api::identity::{LostName, NewTokenRequest, NewTokenResponse, RedeemRequest, RedeemResponse, TokenKindName, TokenView};
use api::{Code, Page, Problem};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use countersign_core::mcp::McpWishes;
use operations::App;
use operations::tokens;
use store::{Lost, Refused, Token, TokenKind};

/// Tokens of the org, never their texts.
#[utoipa::path(operation_id = "tokens_list", get, path = "/api/v1/tokens", tag = "identity", params(PageQuery),
    responses((status = 200, body = Page<TokenView>)))]
pub(super) async fn list(State(app): State<App>, caller: Caller, Asked(query): Asked<PageQuery>) -> Result<Json<Page<TokenView>>, Refusal> {
    let page = tokens::list(&app, &caller.principal, &query.request()?).await?;
    Ok(Json(Page { items: page.items.into_iter().map(view).collect(), next: page.next }))
}

/// Makes a token for yourself or for a service. It is shown here and never again.
#[utoipa::path(operation_id = "tokens_create", post, path = "/api/v1/tokens", tag = "identity", request_body = NewTokenRequest,
    responses((status = 201, body = NewTokenResponse)))]
pub(super) async fn create(
    State(app): State<App>,
    caller: Caller,
    Strict(body): Strict<NewTokenRequest>,
) -> Result<(StatusCode, Json<NewTokenResponse>), Refusal> {
    let token = tokens::create(&app, &caller.principal, &body).await?;
    Ok((StatusCode::CREATED, Json(NewTokenResponse { id: token.id.to_string(), token: token.text.expose().clone() })))
}

/// Redeems an invitation for a token of the person it is for. It needs no token: the invitation is the secret, and works once.
#[utoipa::path(operation_id = "invitations_redeem", post, path = "/api/v1/invitations/redeem", tag = "identity", security(()), request_body = RedeemRequest,
    responses((status = 201, body = RedeemResponse), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn redeem(
    State(app): State<App>,
    Strict(body): Strict<RedeemRequest>,
) -> Result<(StatusCode, Json<RedeemResponse>), Refusal> {
    let (user, token) = tokens::redeem(&app, &body).await?.map_err(not_redeemed)?;
    let (id, user_id, token) = (token.id.to_string(), user.to_string(), token.text.expose().clone());
    Ok((StatusCode::CREATED, Json(RedeemResponse { id, token, user_id })))
}

/// Why an invitation was not redeemed.
pub(super) fn not_redeemed(refused: Refused) -> Refusal {
    match Refusal::of_token(refused, "invitation") {
        disabled if disabled.0.code == Code::OrgDisabled => disabled,
        other => other.hint("ask an admin for a new invitation"),
    }
}

/// Revokes a token at once. Revoking twice changes nothing. The last token that an owner can act with stays.
#[utoipa::path(operation_id = "tokens_revoke", post, path = "/api/v1/tokens/{token}/revoke", tag = "identity", params(("token" = String, Path)),
    responses((status = 200, body = TokenView)))]
pub(super) async fn revoke(State(app): State<App>, caller: Caller, Path(token): Path<String>) -> Result<Json<TokenView>, Refusal> {
    Ok(Json(view(tokens::revoke(&app, &caller.principal, &token).await?)))
}

fn view(token: Token) -> TokenView {
    let (kind, user_id, session_id, made_by_id) = match &token.kind {
        TokenKind::User(user) => (TokenKindName::User, Some(user.to_string()), None, None),
        TokenKind::Invitation(user) => (TokenKindName::Invitation, Some(user.to_string()), None, None),
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
        device: token.device,
        created_at: token.created_at,
        expires_at: token.expires_at,
        revoked_at: token.revoked_at,
        lost: token.lost.map(|lost| match lost {
            Lost::Person => LostName::PersonDisabled,
            Lost::Session => LostName::SessionEnded,
            Lost::Changed => LostName::ChangedInDatabase,
        }),
        mcp: Some(token.mcp).filter(|mcp| *mcp != McpWishes::default()),
    }
}
