//! Revocation (RFC 7009): when a connection is removed, its tokens should end where they came from, too.

use super::fetch::{Fetch, login_failed};
use super::kept::{Client, Tokens};
use super::token::ask;
use countersign_core::source::Error;

/// Revokes the refresh token, and with it what was issued from it; else the access token.
pub(super) async fn revoke(fetch: &Fetch, client: &Client, tokens: &Tokens) -> Result<(), Error> {
    let Some(endpoint) = tokens.revocation_endpoint.as_deref().filter(|_| client.issuer == tokens.issuer) else {
        return Ok(());
    };
    let form = match &tokens.refresh {
        Some(refresh) => [("token", refresh.expose().as_str()), ("token_type_hint", "refresh_token")],
        None => [("token", tokens.access.expose().as_str()), ("token_type_hint", "access_token")],
    };
    let answer = ask(fetch, endpoint, client, &form).await?;
    if answer.is_ok() { Ok(()) } else { Err(login_failed(endpoint, &format!("did not revoke the tokens: it answered {}", answer.status))) }
}
