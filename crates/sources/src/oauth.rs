//! An OAuth 2.1 client for connections. A person logs in once, in a browser; afterwards tokens are renewed without one.
//!
//! In the order of a login: `discovery` (which authorization server the resource trusts, RFC 9728 and 8414), `client` (who we are to it),
//! `authorize` (PKCE, `state`, `iss`, `resource`), `token` (codes and refresh tokens become access tokens), `revoke`. Every request goes
//! through `fetch`, and so through the rules of `web`. What is kept between the steps is `kept`, which only the store sees sealed.
//!
//! `openid` uses the same steps for the sign-in of people at this server: OpenID Connect, whose ID token `id_token` checks.

mod authorize;
mod client;
mod discovery;
mod fetch;
mod id_token;
mod kept;
mod openid;
mod revoke;
mod token;

pub use client::{Own, client_document};
pub(crate) use discovery::Challenge;
pub(crate) use fetch::{Answer, Fetch, is_private_to_read, origin};
pub(crate) use kept::{Credential, Given};
pub use openid::{Known, OpenId, OpenIdConfig, SigningIn};

use authorize::Pending;
use countersign_core::ports::connections::Connection;
use countersign_core::ports::secrets::SecretValue;
use countersign_core::source::Error;
use countersign_core::{Random, Secret, Timestamp};
use kept::Tokens;

/// A login that was begun: a person opens `url`.
pub struct Begun {
    pub url: String,
    /// Comes back with the browser.
    pub state: Secret<String>,
    /// What is needed to end the login. It is kept sealed.
    pub details: SecretValue,
}

/// What an authorization server's answer in the browser carries.
#[derive(Default)]
pub struct Returned {
    pub code: Option<Secret<String>>,
    pub iss: Option<String>,
    pub error: Option<String>,
}

/// What a login gave: what is kept of it, and who issued it.
pub struct Granted {
    pub value: SecretValue,
    pub issuer: String,
}

/// Finds the authorization server of a connection's address, and prepares a login there.
pub(crate) async fn begin(
    fetch: &Fetch,
    connection: &Connection,
    known: Option<&SecretValue>,
    own: &Own,
    random: &dyn Random,
) -> Result<Begun, Error> {
    let known = known.map(Credential::read).transpose()?.unwrap_or_default();
    let resource = discovery::resource(fetch, &connection.url).await?;
    let server = discovery::server(fetch, &resource.issuer).await?;
    let client = client::find(fetch, &server, own, &known).await?;
    let scope = connection.scopes.clone().or_else(|| resource.scope.clone());
    authorize::begin(server, client, known.given, resource.id, scope, random)
}

/// Checks what came back, and exchanges its code for tokens.
pub(crate) async fn end(fetch: &Fetch, details: &SecretValue, returned: Returned, now: Timestamp) -> Result<Granted, Error> {
    let Pending { server, client, given, resource, redirect_uri, scope, verifier } = Pending::read(details)?;
    let code = authorize::code_of(&server, returned)?;
    let mut tokens = token::exchange(fetch, &server, &client, &code, &verifier, &redirect_uri, &resource, now).await?;
    // RFC 6749: a server that names no scope has given all that were asked for.
    tokens.scope = tokens.scope.take().or(scope);
    let issuer = server.issuer.clone();
    let credential = Credential { given, client: Some(client), tokens: Some(tokens) };
    Ok(Granted { value: credential.write()?, issuer })
}

/// Exchanges the refresh token for new tokens. `None` if the authorization server says that the login has ended.
pub(crate) async fn renew(fetch: &Fetch, credential: Credential, now: Timestamp) -> Result<Option<Credential>, Error> {
    let Credential { given, client: Some(client), tokens: Some(tokens) } = credential else {
        return Ok(None);
    };
    let renewed: Option<Tokens> = token::refresh(fetch, &client, tokens, now).await?;
    Ok(renewed.map(|tokens| Credential { given, client: Some(client), tokens: Some(tokens) }))
}

/// Tells the authorization server that the tokens are no longer needed, if it takes such requests.
pub(crate) async fn revoke(fetch: &Fetch, value: &SecretValue) -> Result<(), Error> {
    match Credential::read(value)? {
        Credential { client: Some(client), tokens: Some(tokens), .. } => revoke::revoke(fetch, &client, &tokens).await,
        Credential { .. } => Ok(()),
    }
}

#[cfg(test)]
pub(crate) mod fake;
#[cfg(test)]
#[path = "oauth_tests.rs"]
pub(crate) mod tests;
