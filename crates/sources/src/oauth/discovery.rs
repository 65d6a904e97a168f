//! Finds out which authorization server a resource trusts, and what that server can do: protected resource metadata (RFC 9728), then the
//! server's own metadata (RFC 8414, or OpenID Connect Discovery). A document counts only if it names what it was asked about.

use super::fetch::{Answer, Fetch, is_private_to_read, login_failed};
use crate::words::{refused, shown};
use countersign_core::source::Error;
use reqwest::header::{HeaderMap, WWW_AUTHENTICATE};
use serde::{Deserialize, Serialize};
use serde_json::json;
use url::Url;

/// Characters of a `WWW-Authenticate` header that are read.
const CHALLENGE_CHARS_MAX: usize = 4_096;
/// What an MCP server may answer with.
const ANY: &str = "application/json, text/event-stream";
const JSON: &str = "application/json";

/// What a `Bearer` challenge asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Challenge {
    pub(crate) resource_metadata: Option<String>,
    pub(crate) scope: Option<String>,
    pub(crate) error: Option<String>,
}

/// The resource, and whom it trusts.
pub(super) struct Resource {
    /// Its identifier, which tokens are asked for (RFC 8707).
    pub(super) id: String,
    pub(super) issuer: String,
    /// The scopes that it asks for.
    pub(super) scope: Option<String>,
}

/// What an authorization server says of itself, as far as we use it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Server {
    pub(super) issuer: String,
    pub(super) authorization_endpoint: String,
    pub(super) token_endpoint: String,
    #[serde(default)]
    pub(super) registration_endpoint: Option<String>,
    #[serde(default)]
    pub(super) revocation_endpoint: Option<String>,
    #[serde(default)]
    pub(super) code_challenge_methods_supported: Vec<String>,
    #[serde(default)]
    pub(super) token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    pub(super) scopes_supported: Vec<String>,
    #[serde(default)]
    pub(super) authorization_response_iss_parameter_supported: bool,
    #[serde(default)]
    pub(super) client_id_metadata_document_supported: bool,
    /// Where an OpenID provider has the keys that it signs with.
    #[serde(default)]
    pub(super) jwks_uri: Option<String>,
    /// Where an OpenID provider tells more of a person than its ID token does.
    #[serde(default)]
    pub(super) userinfo_endpoint: Option<String>,
}

#[derive(Deserialize)]
struct ResourceMetadata {
    resource: String,
    #[serde(default)]
    authorization_servers: Vec<String>,
    #[serde(default)]
    scopes_supported: Vec<String>,
}

/// Asks the resource without a credential: its challenge names its metadata. Where it does not, the metadata is looked for at the well-known
/// addresses, and without any the resource is taken to be its own authorization server.
pub(super) async fn resource(fetch: &Fetch, url: &str) -> Result<Resource, Error> {
    let parsed = Url::parse(url).map_err(|_| refused("url_not_allowed", "the URL cannot be read"))?;
    let challenge = challenge(fetch, url).await?;
    let named = challenge.resource_metadata.clone();
    let is_named = named.is_some();
    let places = named.map_or_else(|| well_known(&parsed, "oauth-protected-resource"), |place| vec![place]);
    for place in places {
        let answer = fetch.get(&place, JSON).await?;
        if !answer.is_ok() {
            if is_named {
                return Err(login_failed(&place, &format!("answered {} instead of its metadata", answer.status)));
            }
            continue;
        }
        let metadata: ResourceMetadata = answer.json(&place)?;
        if !is_about(&metadata.resource, &parsed) {
            return Err(login_failed(&place, &format!("describes `{}`, which is another resource", shown(&metadata.resource))));
        }
        let issuer = metadata.authorization_servers.into_iter().next();
        let issuer = issuer.ok_or_else(|| login_failed(&place, "names no authorization server"))?;
        let scope = challenge.scope.or_else(|| Some(metadata.scopes_supported.join(" ")).filter(|scopes| !scopes.is_empty()));
        return Ok(Resource { id: metadata.resource, issuer, scope });
    }
    Ok(Resource { id: url.to_owned(), issuer: parsed.origin().ascii_serialization(), scope: challenge.scope })
}

/// What the resource asks for from somebody without a credential. Many MCP servers have nothing to GET and ask only whoever sends a message, so
/// one is sent that does nothing.
async fn challenge(fetch: &Fetch, url: &str) -> Result<Challenge, Error> {
    let of = |answer: &Answer| Challenge::of(&answer.headers).filter(|_| answer.status == 401);
    if let Some(challenge) = of(&fetch.get(url, ANY).await?) {
        return Ok(challenge);
    }
    // If the answer to the message cannot be read, the metadata may still be at its well-known address.
    let answer = fetch.ask(url, ANY, &json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" })).await;
    Ok(answer.ok().as_ref().and_then(of).unwrap_or_default())
}

/// Reads the metadata of an authorization server, and refuses one that we cannot log in at safely.
pub(super) async fn server(fetch: &Fetch, issuer: &str) -> Result<Server, Error> {
    let parsed = plain(issuer)?;
    let mut places = well_known(&parsed, "oauth-authorization-server");
    places.truncate(1);
    places.extend(well_known(&parsed, "openid-configuration").into_iter().take(1));
    places.push(format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/')));
    places.dedup();
    for place in places {
        let answer = fetch.get(&place, JSON).await?;
        if !answer.is_ok() {
            continue;
        }
        let server = checked(answer.json(&place)?, issuer, &place)?;
        if !server.code_challenge_methods_supported.iter().any(|method| method == "S256") {
            return Err(login_failed(&place, "does not say that it supports PKCE with S256, without which a login is not safe"));
        }
        return Ok(server);
    }
    Err(login_failed(issuer, "has no metadata of an authorization server"))
}

/// Reads the metadata of an OpenID provider, which is at one place. Not every provider says that it supports PKCE; its ID tokens carry a nonce,
/// which keeps codes of others out too.
pub(super) async fn provider(fetch: &Fetch, issuer: &str) -> Result<Server, Error> {
    plain(issuer)?;
    let place = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
    let answer = fetch.get(&place, JSON).await?;
    if !answer.is_ok() {
        return Err(login_failed(&place, &format!("answered {} instead of its metadata", answer.status)));
    }
    checked(answer.json(&place)?, issuer, &place)
}

pub(super) fn plain(issuer: &str) -> Result<Url, Error> {
    let parsed = Url::parse(issuer).map_err(|_| refused("url_not_allowed", "the issuer is not a URL"))?;
    if !is_private_to_read(&parsed) || parsed.query().is_some() || parsed.fragment().is_some() {
        return Err(refused("url_not_allowed", format!("the issuer `{}` is not a plain https address", shown(issuer))));
    }
    Ok(parsed)
}

/// The metadata, if it is of this issuer and its endpoints can be used.
fn checked(server: Server, issuer: &str, place: &str) -> Result<Server, Error> {
    // SECURITY: without this a server could pose as another one, whose codes and tokens would then be sent to it.
    if server.issuer != issuer {
        return Err(login_failed(place, &format!("says that it is `{}`, and was asked about another issuer", shown(&server.issuer))));
    }
    let endpoints = [Some(&server.authorization_endpoint), Some(&server.token_endpoint), server.jwks_uri.as_ref()];
    for endpoint in endpoints.into_iter().flatten() {
        if !Url::parse(endpoint).is_ok_and(|endpoint| is_private_to_read(&endpoint)) {
            return Err(login_failed(place, "names an endpoint that is not https"));
        }
    }
    Ok(server)
}

/// The well-known addresses of a URL: with its path behind the well-known part, and without it.
fn well_known(url: &Url, suffix: &str) -> Vec<String> {
    let (origin, path) = (url.origin().ascii_serialization(), url.path().trim_end_matches('/'));
    let mut places = vec![format!("{origin}/.well-known/{suffix}{path}"), format!("{origin}/.well-known/{suffix}")];
    places.dedup();
    places
}

/// Whether a resource identifier covers the URL: the same origin, and the same path or one above it.
fn is_about(resource: &str, url: &Url) -> bool {
    let Ok(resource) = Url::parse(resource) else {
        return false;
    };
    let above = resource.path().trim_end_matches('/');
    let rest = url.path().strip_prefix(above);
    resource.origin() == url.origin()
        && resource.query().is_none()
        && resource.fragment().is_none()
        && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl Challenge {
    /// The `Bearer` challenge among the headers of an answer.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok()).find_map(Self::parse)
    }

    /// The `Bearer` challenge in one header, which may hold several challenges.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text: String = text.chars().take(CHALLENGE_CHARS_MAX).collect();
        let (mut found, mut is_bearer, mut rest) = (None::<Self>, false, text.as_str());
        loop {
            rest = rest.trim_start_matches([' ', '\t', ',']);
            let (word, after) = token(rest);
            if word.is_empty() {
                return found;
            }
            let Some(value) = after.trim_start().strip_prefix('=') else {
                // A word without `=` is the name of the next challenge. The first `Bearer` counts.
                is_bearer = found.is_none() && word.eq_ignore_ascii_case("bearer");
                if is_bearer {
                    found = Some(Self::default());
                }
                rest = after;
                continue;
            };
            let (value, after) = quoted(value.trim_start());
            if let Some(challenge) = found.as_mut().filter(|_| is_bearer) {
                match word.to_ascii_lowercase().as_str() {
                    "resource_metadata" => challenge.resource_metadata = Some(value),
                    "scope" => challenge.scope = Some(value),
                    "error" => challenge.error = Some(value),
                    _ => {}
                }
            }
            rest = after;
        }
    }
}

/// The characters of a header's word, and what follows them.
fn token(text: &str) -> (&str, &str) {
    let is_in = |character: char| character.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(character);
    text.split_at(text.find(|character| !is_in(character)).unwrap_or(text.len()))
}

/// A value in quotes or without, and what follows it.
fn quoted(text: &str) -> (String, &str) {
    let Some(inside) = text.strip_prefix('"') else {
        let (word, after) = text.split_at(text.find([' ', '\t', ',']).unwrap_or(text.len()));
        return (word.to_owned(), after);
    };
    let (mut value, mut is_escaped) = (String::new(), false);
    for (at, character) in inside.char_indices() {
        match character {
            _ if is_escaped => {
                value.push(character);
                is_escaped = false;
            }
            '\\' => is_escaped = true,
            '"' => return (value, &inside[at + 1..]),
            _ => value.push(character),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn challenge(metadata: &str, scope: Option<&str>, error: Option<&str>) -> Option<Challenge> {
        let owned = |text: &str| text.to_owned();
        Some(Challenge { resource_metadata: Some(owned(metadata)), scope: scope.map(owned), error: error.map(owned) })
    }

    #[test]
    fn the_bearer_challenge_is_found_among_others() {
        for (text, expected) in [
            (r#"Bearer resource_metadata="https://a.test/m""#, challenge("https://a.test/m", None, None)),
            (
                r#"bearer realm="a, b=c", error="insufficient_scope" , scope="x y",resource_metadata="m""#,
                challenge("m", Some("x y"), Some("insufficient_scope")),
            ),
            (r#"Basic realm="x", Bearer resource_metadata=m"#, challenge("m", None, None)),
            (r#"Bearer resource_metadata="m", DPoP scope="z""#, challenge("m", None, None)),
            (r#"Bearer resource_metadata="a\"b""#, challenge("a\"b", None, None)),
            ("Bearer", Some(Challenge::default())),
            (r#"Basic realm="Bearer resource_metadata=m""#, None),
            ("", None),
            ("=,=,", None),
        ] {
            assert_eq!(Challenge::parse(text), expected, "{text}");
        }
        assert_eq!(Challenge::parse(&"Bearer a=b, ".repeat(100_000)), Some(Challenge::default()));
    }

    #[test]
    fn metadata_is_looked_for_with_and_without_the_path() {
        let places = |url: &str| well_known(&Url::parse(url).unwrap(), "x");
        assert_eq!(places("https://a.test/mcp/v1/"), ["https://a.test/.well-known/x/mcp/v1", "https://a.test/.well-known/x"]);
        assert_eq!(places("https://a.test:8443"), ["https://a.test:8443/.well-known/x"]);
    }

    #[test]
    fn metadata_counts_for_the_resource_it_names() {
        let url = Url::parse("https://a.test/mcp/v1").unwrap();
        for good in ["https://a.test/mcp/v1", "https://a.test/mcp", "https://a.test/mcp/", "https://a.test", "https://a.test/"] {
            assert!(is_about(good, &url), "{good}");
        }
        for bad in [
            "https://b.test/mcp/v1",
            "http://a.test/mcp/v1",
            "https://a.test:444/mcp/v1",
            "https://a.test/mc",
            "https://a.test/mcp/v1/more",
            "https://a.test/mcp?x",
            "https://a.test/mcp#x",
            "a.test",
            "",
        ] {
            assert!(!is_about(bad, &url), "{bad}");
        }
    }
}
