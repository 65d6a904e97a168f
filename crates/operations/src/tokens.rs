//! Tokens: who may create one for whom, with which scopes, and who may revoke it.

use super::users::{find, may_bind, must_reach};
use super::{Error, must, named};
use crate::App;
use api::identity::{NewTokenRequest, RedeemRequest};
use countersign_core::limits::{MCP_HOLD_SECONDS_MAX, TOKEN_LIFETIME_DAYS_MAX};
use countersign_core::mcp::McpWishes;
use countersign_core::principal::Permission;
use countersign_core::{Principal, PrincipalId, TokenId, UserId};
use store::{NewToken, Page, PageRequest, Refused, Revoked, Token, TokenKind};

pub async fn list(app: &App, by: &Principal, request: &PageRequest) -> Result<Page<Token>, Error> {
    must(by, Permission::ManageIdentity)?;
    Ok(app.store().list_tokens(&by.org, request).await?)
}

/// Creates a token for the person themselves, or for a service.
pub async fn create(app: &App, by: &Principal, asked: &NewTokenRequest) -> Result<NewToken, Error> {
    let name = named(&asked.name)?;
    if asked.expires_in_days.is_some_and(|days| !(1..=TOKEN_LIFETIME_DAYS_MAX).contains(&days)) {
        return Err(Error::invalid(format!("`expires_in_days` must be 1 to {TOKEN_LIFETIME_DAYS_MAX}")));
    }
    let (kind, scopes) = match &asked.user_id {
        Some(user) => (for_user(app, by, user).await?, Vec::new()),
        None => (TokenKind::Service { made_by: by.owner.clone() }, service_scopes(by, &asked.scopes)?),
    };
    if asked.user_id.is_some() && !asked.scopes.is_empty() {
        return Err(Error::invalid("`scopes` narrow a service token; a person's token holds what their role holds"));
    }
    let seconds = asked.expires_in_days.map(|days| days * 24 * 60 * 60);
    let device = asked.device.clone().map(|device| may_bind(by, device)).transpose()?;
    app.store().create_token(by, kind, name, &scopes, seconds, wishes(asked.mcp)?, device).await?.ok_or(Error::TokenRevoked)
}

/// What a token asks for at the MCP door, if it makes sense.
pub(super) fn wishes(asked: Option<McpWishes>) -> Result<McpWishes, Error> {
    let asked = asked.unwrap_or_default();
    if asked.hold_seconds.is_some_and(|hold| !(1..=MCP_HOLD_SECONDS_MAX).contains(&hold)) {
        return Err(Error::invalid(format!("`hold_seconds` must be 1 to {MCP_HOLD_SECONDS_MAX}")));
    }
    Ok(asked)
}

/// Exchanges an invitation for a token of the person it is for.
pub async fn redeem(app: &App, asked: &RedeemRequest) -> Result<Result<(UserId, NewToken), Refused>, Error> {
    let name = named(asked.name.as_deref().unwrap_or("first"))?;
    Ok(app.store().redeem(&asked.invitation, name).await?)
}

/// Revokes a token at once. Revoking it again changes nothing. The last token that an owner can act with cannot be revoked.
pub async fn revoke(app: &App, by: &Principal, token: &str) -> Result<Token, Error> {
    let unknown = || Error::not_found("token", token);
    let id = TokenId::parse(token).map_err(|_| unknown())?;
    may_revoke(app, by, &app.store().find_token(&by.org, &id).await?.ok_or_else(unknown)?).await?;
    match app.store().revoke_token(&by.org, &id, &by.id).await?.ok_or_else(unknown)? {
        Revoked::Done(token) => Ok(*token),
        Revoked::LastOwner => Err(Error::LastOwner {
            why: "no owner could act without this token",
            first: "create another token first, and revoke this one with it",
        }),
    }
}

/// People may revoke their own tokens. To revoke another token, a person needs the permission to manage identity, and a role
/// that is not below the role of its bearer.
async fn may_revoke(app: &App, by: &Principal, token: &Token) -> Result<(), Error> {
    let (TokenKind::User(user) | TokenKind::Invitation(user)) = &token.kind else {
        return must(by, Permission::ManageIdentity);
    };
    if by.id == PrincipalId::User(user.clone()) {
        return Ok(());
    }
    must(by, Permission::ManageIdentity)?;
    let bearer = app.store().find_user(&by.org, user).await?;
    bearer.map_or(Ok(()), |bearer| must_reach(by, bearer.role))
}

/// People create tokens for themselves only. Whoever could create one for somebody else could approve in their name.
async fn for_user(app: &App, by: &Principal, user: &str) -> Result<TokenKind, Error> {
    let found = find(app, by, user).await?;
    if by.id != PrincipalId::User(found.id.clone()) {
        return Err(Error::OthersToken { user: found.id });
    }
    Ok(TokenKind::User(found.id))
}

/// Nobody gives away what they do not hold, and a service never approves.
fn service_scopes(by: &Principal, scopes: &[Permission]) -> Result<Vec<Permission>, Error> {
    must(by, Permission::ManageIdentity)?;
    if scopes.is_empty() {
        return Err(Error::invalid("a service token needs at least one scope"));
    }
    if scopes.contains(&Permission::Approve) {
        return Err(Error::invalid("a service never approves: that takes a person"));
    }
    scopes.iter().map(|scope| must(by, *scope).map(|()| *scope)).collect()
}
