//! The token endpoint: a code, or a refresh token, becomes an access token for one resource (RFC 8707).

use super::discovery::Server;
use super::fetch::{Answer, Fetch, login_failed};
use super::kept::{Client, ClientAuth, Tokens, hidden};
use crate::limits::OAUTH_LEEWAY_SECONDS;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use countersign_core::source::Error;
use countersign_core::{Secret, Timestamp};
use reqwest::header::HeaderValue;
use serde::Deserialize;
use url::form_urlencoded;

/// A token that says it lives longer than this is renewed after it all the same.
const SECONDS_MAX: u64 = 365 * 24 * 60 * 60;

#[derive(Deserialize)]
struct Answered {
    #[serde(with = "hidden")]
    access_token: Secret<String>,
    token_type: String,
    #[serde(default)]
    expires_in: Option<u64>,
    #[serde(default, with = "hidden::maybe")]
    refresh_token: Option<Secret<String>>,
    #[serde(default)]
    scope: Option<String>,
}

#[derive(Deserialize)]
struct Refused {
    error: String,
}

/// Exchanges the code of a login.
#[expect(clippy::too_many_arguments, reason = "each is one member of the request, and none belongs with another")]
pub(super) async fn exchange(
    fetch: &Fetch,
    server: &Server,
    client: &Client,
    code: &Secret<String>,
    verifier: &Secret<String>,
    redirect_uri: &str,
    resource: &str,
    now: Timestamp,
) -> Result<Tokens, Error> {
    let form = [
        ("grant_type", "authorization_code"),
        ("code", code.expose().as_str()),
        ("redirect_uri", redirect_uri),
        ("code_verifier", verifier.expose().as_str()),
        ("resource", resource),
    ];
    let endpoint = &server.token_endpoint;
    let answer = ask(fetch, endpoint, client, &form).await?;
    if !answer.is_ok() {
        return Err(login_failed(endpoint, &format!("did not take the code: {}", reason(&answer, endpoint))));
    }
    let place = Place {
        issuer: server.issuer.clone(),
        token_endpoint: endpoint.clone(),
        revocation_endpoint: server.revocation_endpoint.clone(),
        resource: resource.to_owned(),
    };
    taken(answer.json(endpoint)?, place, None, None, now)
}

/// Exchanges a refresh token. `None` if the login has ended: without a refresh token, or because the server no longer takes it.
pub(super) async fn refresh(fetch: &Fetch, client: &Client, tokens: Tokens, now: Timestamp) -> Result<Option<Tokens>, Error> {
    let Tokens { issuer, token_endpoint, revocation_endpoint, resource, refresh: Some(refresh), scope, .. } = tokens else {
        return Ok(None);
    };
    // SECURITY: what one issuer gave is never sent to another.
    if client.issuer != issuer {
        return Ok(None);
    }
    let form = [("grant_type", "refresh_token"), ("refresh_token", refresh.expose().as_str()), ("resource", resource.as_str())];
    let answer = ask(fetch, &token_endpoint, client, &form).await?;
    if !answer.is_ok() {
        // RFC 6749: these say that it will never work again.
        let is_over = answer
            .json::<Refused>(&token_endpoint)
            .is_ok_and(|refused| ["invalid_grant", "invalid_client", "unauthorized_client"].contains(&refused.error.as_str()));
        return match is_over {
            true => Ok(None),
            false => Err(login_failed(&token_endpoint, &format!("did not renew the token: {}", reason(&answer, &token_endpoint)))),
        };
    }
    let answered = answer.json(&token_endpoint)?;
    let place = Place { issuer, token_endpoint, revocation_endpoint, resource };
    taken(answered, place, Some(refresh), scope, now).map(Some)
}

/// Sends a form as this client.
pub(super) async fn ask(fetch: &Fetch, endpoint: &str, client: &Client, form: &[(&str, &str)]) -> Result<Answer, Error> {
    let mut form = form.to_vec();
    let secret = client.secret.as_ref().map(|secret| secret.expose().as_str()).unwrap_or_default();
    let authorization = match client.auth {
        ClientAuth::ClientSecretBasic => Some(basic(&encoded(&client.id), &encoded(secret))),
        ClientAuth::ClientSecretPost => {
            form.extend([("client_id", client.id.as_str()), ("client_secret", secret)]);
            None
        }
        ClientAuth::None => {
            form.push(("client_id", client.id.as_str()));
            None
        }
    };
    fetch.post_form(endpoint, authorization, &form).await
}

/// The value of a Basic `Authorization`. Base64 fits into a header, always.
fn basic(user: &str, password: &str) -> HeaderValue {
    let text = Secret::new(format!("Basic {}", STANDARD.encode(format!("{user}:{password}"))));
    let mut value = HeaderValue::from_str(text.expose()).unwrap_or_else(|_| HeaderValue::from_static("Basic"));
    value.set_sensitive(true);
    value
}

/// RFC 6749, 2.3.1: the id and the secret are encoded before they are joined.
fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// Why the server refused, in its own word if it is one of those that the RFCs name.
pub(super) fn reason(answer: &Answer, endpoint: &str) -> String {
    let is_word = |error: &String| error.len() <= 64 && error.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    match answer.json::<Refused>(endpoint).ok().map(|refused| refused.error).filter(is_word) {
        Some(error) => format!("`{error}`"),
        None => format!("it answered {}", answer.status),
    }
}

/// Where tokens came from, and what they are for.
struct Place {
    issuer: String,
    token_endpoint: String,
    revocation_endpoint: Option<String>,
    resource: String,
}

/// A server that sends no new refresh token, or no scope, means the one before.
fn taken(
    answered: Answered,
    place: Place,
    refresh: Option<Secret<String>>,
    scope: Option<String>,
    now: Timestamp,
) -> Result<Tokens, Error> {
    let Place { issuer, token_endpoint, revocation_endpoint, resource } = place;
    if !answered.token_type.eq_ignore_ascii_case("bearer") {
        return Err(login_failed(&token_endpoint, "gave a token that is not a bearer token"));
    }
    let token = answered.access_token.expose();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(login_failed(&token_endpoint, "gave a token that does not fit into a header"));
    }
    let expires_at = answered.expires_in.map(|seconds| {
        let seconds = seconds.min(SECONDS_MAX).saturating_sub(OAUTH_LEEWAY_SECONDS);
        now.plus_seconds(seconds).as_micros()
    });
    Ok(Tokens {
        issuer,
        token_endpoint,
        revocation_endpoint,
        resource,
        access: answered.access_token,
        refresh: answered.refresh_token.or(refresh),
        expires_at,
        scope: answered.scope.or(scope),
    })
}
