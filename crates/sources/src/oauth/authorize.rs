//! The step in the browser: the URL that a person opens, and the checks of what comes back. The `state` is checked by the store, which gives
//! out what belongs to it once.

use super::discovery::Server;
use super::fetch::login_failed;
use super::kept::{Client, Given, hidden, read, write};
use super::{Begun, Returned};
use crate::words::{refused, shown};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use countersign_core::ports::secrets::SecretValue;
use countersign_core::source::Error;
use countersign_core::{Random, Secret, random_bytes};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use url::Url;

/// With it, an OpenID provider gives a token for the time when nobody is there.
const OFFLINE: &str = "offline_access";

/// What is needed to end a login.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pending {
    pub(super) server: Server,
    pub(super) client: Client,
    pub(super) given: Option<Given>,
    pub(super) resource: String,
    pub(super) redirect_uri: String,
    /// The scopes that were asked for.
    pub(super) scope: Option<String>,
    #[serde(with = "hidden")]
    pub(super) verifier: Secret<String>,
}

impl Pending {
    pub(super) fn read(details: &SecretValue) -> Result<Self, Error> {
        read(details)
    }
}

pub(super) fn begin(
    server: Server,
    client: Client,
    given: Option<Given>,
    resource: String,
    scope: Option<String>,
    random: &dyn Random,
) -> Result<Begun, Error> {
    let (state, verifier) = (drawn(random), drawn(random));
    let not_a_url = |_| refused("url_not_allowed", format!("`{}` is not a URL to log in at", shown(&server.authorization_endpoint)));
    let mut url = Url::parse(&server.authorization_endpoint).map_err(not_a_url)?;
    let (scope, prompt) = asked(&server, scope);
    {
        let mut query = url.query_pairs_mut();
        query
            .append_pair("response_type", "code")
            .append_pair("client_id", &client.id)
            .append_pair("redirect_uri", &client.redirect_uri)
            .append_pair("state", state.expose())
            .append_pair("code_challenge", &challenge(&verifier))
            .append_pair("code_challenge_method", "S256")
            .append_pair("resource", &resource);
        for (name, value) in [("scope", scope.as_deref()), ("prompt", prompt)] {
            if let Some(value) = value {
                query.append_pair(name, value);
            }
        }
    }
    let redirect_uri = client.redirect_uri.clone();
    let details = write(&Pending { server, client, given, resource, redirect_uri, scope, verifier })?;
    Ok(Begun { url: url.into(), state, details })
}

/// The code that came back, if it came from the server that the person was sent to (RFC 9207).
pub(super) fn code_of(server: &Server, returned: Returned) -> Result<Secret<String>, Error> {
    let Returned { code, iss, error } = returned;
    match iss {
        Some(iss) if iss != server.issuer => {
            return Err(login_failed(&server.issuer, &format!("was asked, and `{}` answered: nothing was sent to either", shown(&iss))));
        }
        None if server.authorization_response_iss_parameter_supported => {
            return Err(login_failed(&server.issuer, "says that it names itself in its answer (`iss`), and this answer does not"));
        }
        Some(_) | None => {}
    }
    if let Some(error) = error {
        return Err(login_failed(&server.issuer, &format!("did not let you in: `{}`", shown(&error))));
    }
    code.ok_or_else(|| login_failed(&server.issuer, "sent no code back"))
}

/// The scopes to ask for, and whether the person must be asked: an OpenID provider gives `offline_access` only with their consent.
fn asked(server: &Server, scope: Option<String>) -> (Option<String>, Option<&'static str>) {
    let is_offered = server.scopes_supported.iter().any(|known| known == OFFLINE);
    match scope {
        Some(scope) if is_offered => {
            let has_it = scope.split(' ').any(|one| one == OFFLINE);
            (Some(if has_it { scope } else { format!("{scope} {OFFLINE}") }), Some("consent"))
        }
        scope => (scope, None),
    }
}

/// 256 random bits, in the characters that both a `state` and a verifier may have.
fn drawn(random: &dyn Random) -> Secret<String> {
    Secret::new(URL_SAFE_NO_PAD.encode(random_bytes::<32>(random)))
}

/// RFC 7636, S256.
pub(super) fn challenge(verifier: &Secret<String>) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.expose().as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_challenge_is_that_of_the_rfc() {
        let verifier = Secret::new("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".to_owned());
        assert_eq!(challenge(&verifier), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }
}
