//! Sign-in with OpenID Connect: the authorization code flow with PKCE, `state` and `nonce`, at the one issuer that the operator trusts to say who
//! people are. Whether and as what somebody may act here is not decided here.

use super::client::auth_of;
use super::discovery::{self, Server};
use super::fetch::{Fetch, login_failed};
use super::id_token::{self, Claims, Expected, Keys};
use super::kept::{Client, Registered, hidden};
use super::{Returned, authorize, token};
use crate::Error as SetupError;
use crate::limits::{ISSUER_AWAY_SECONDS, ISSUER_KNOWN_SECONDS};
use crate::web::HostRule;
use crate::words::{refused, shown};
use countersign_core::source::Error;
use countersign_core::{Secret, Timestamp};
use ipnet::IpNet;
use parking_lot::Mutex;
use reqwest::header::HeaderValue;
use serde::Deserialize;
use serde_json::Value;
use url::Url;

/// What people call themselves at an issuer, the most readable first. None of them is unique, or proves anything.
const NAMES: [&str; 3] = ["preferred_username", "name", "email"];

/// The issuer, and who we are to it.
#[derive(Clone, Debug)]
pub struct OpenIdConfig {
    pub issuer: String,
    pub client_id: String,
    /// Absent for a public client, which PKCE alone protects.
    pub client_secret: Option<Secret<String>>,
    pub scopes: Vec<String>,
    /// The claim that lists the groups of a person: its name, or the names on the way to it with dots between them.
    pub groups_claim: String,
    /// The hosts that the issuer's metadata may name, beside its own.
    pub allowed_hosts: Vec<HostRule>,
    pub allowed_networks: Vec<IpNet>,
}

/// A client of one issuer.
pub struct OpenId {
    config: OpenIdConfig,
    fetch: Fetch,
    /// What came of it when the issuer was asked last.
    found: Mutex<Option<Found>>,
}

/// What the issuer says of itself, or why that cannot be used, and when it was asked.
#[derive(Clone)]
struct Found {
    at: Timestamp,
    said: Result<Server, Error>,
}

/// The texts of one sign-in.
pub struct SigningIn<'a> {
    pub nonce: &'a Secret<String>,
    pub verifier: &'a Secret<String>,
    pub redirect_uri: &'a str,
}

/// Whom the issuer has let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Never changes, and belongs to nobody else at this issuer.
    pub subject: String,
    /// What to call the person, as the issuer writes it.
    pub name: Option<String>,
    pub groups: Vec<String>,
}

#[derive(Deserialize)]
struct Given {
    #[serde(with = "hidden")]
    id_token: Secret<String>,
    #[serde(default, with = "hidden::maybe")]
    access_token: Option<Secret<String>>,
}

impl OpenId {
    /// Requires an installed rustls provider and, if an https host is allowed, the system's certificates.
    pub fn new(config: OpenIdConfig) -> Result<Self, SetupError> {
        let wrong = |error: Error| SetupError::Issuer { issuer: config.issuer.clone(), message: error.to_string() };
        let own = discovery::plain(&config.issuer).map_err(wrong)?.origin().ascii_serialization();
        let hosts = own.parse::<HostRule>().into_iter().chain(config.allowed_hosts.iter().cloned()).collect();
        let fetch = Fetch::for_sign_in(hosts, config.allowed_networks.clone())?;
        Ok(Self { config, fetch, found: Mutex::default() })
    }

    pub fn issuer(&self) -> &str {
        &self.config.issuer
    }

    /// Finds out whether people can be sent to the issuer.
    pub async fn find(&self, now: Timestamp) -> Result<(), Error> {
        self.provider(now).await.map(|_| ())
    }

    /// The address that a person is sent to.
    pub async fn begin(&self, state: &Secret<String>, asked: &SigningIn<'_>, now: Timestamp) -> Result<String, Error> {
        let server = self.provider(now).await?;
        let not_a_url = |_| refused("url_not_allowed", format!("`{}` is not a URL to sign in at", shown(&server.authorization_endpoint)));
        let mut url = Url::parse(&server.authorization_endpoint).map_err(not_a_url)?;
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.config.client_id)
            .append_pair("redirect_uri", asked.redirect_uri)
            .append_pair("scope", &self.config.scopes.join(" "))
            .append_pair("state", state.expose())
            .append_pair("nonce", asked.nonce.expose())
            .append_pair("code_challenge", &authorize::challenge(asked.verifier))
            .append_pair("code_challenge_method", "S256");
        Ok(url.into())
    }

    /// Checks what came back, and whom it names. The `state` was checked by the store, which gave out what belongs to it once.
    pub async fn end(&self, asked: &SigningIn<'_>, returned: Returned, now: Timestamp) -> Result<Known, Error> {
        let server = self.provider(now).await?;
        let code = authorize::code_of(&server, returned)?;
        let given = self.exchange(&server, asked, &code).await?;
        let keys = self.keys(&server).await?;
        let OpenIdConfig { issuer, client_id, .. } = &self.config;
        let expected = Expected { issuer, client_id, nonce: asked.nonce.expose(), now };
        let mut claims = id_token::check(given.id_token.expose(), keys, &expected).map_err(|did| login_failed(issuer, did))?;
        if self.groups(&claims).is_none() {
            self.add_told(&server, given.access_token, &mut claims).await?;
        }
        let text = |name: &str| claims.get(name).and_then(Value::as_str).map(str::to_owned);
        let name = NAMES.into_iter().find_map(text);
        Ok(Known { subject: text("sub").unwrap_or_default(), name, groups: self.groups(&claims).unwrap_or_default() })
    }

    /// What the issuer says of itself. Whoever is not signed in can ask for it, so it is asked again only after a while, also when it failed.
    async fn provider(&self, now: Timestamp) -> Result<Server, Error> {
        let known = self.found.lock().clone();
        if let Some(found) = known.filter(|found| found.is_fresh(now)) {
            return found.said;
        }
        let said = discovery::provider(&self.fetch, &self.config.issuer).await;
        *self.found.lock() = Some(Found { at: now, said: said.clone() });
        said
    }

    async fn exchange(&self, server: &Server, asked: &SigningIn<'_>, code: &Secret<String>) -> Result<Given, Error> {
        let OpenIdConfig { client_id, client_secret, .. } = &self.config;
        let client = Client {
            issuer: server.issuer.clone(),
            id: client_id.clone(),
            secret: client_secret.clone(),
            auth: auth_of(server, client_secret.is_some()),
            redirect_uri: asked.redirect_uri.to_owned(),
            how: Registered::ByHand,
        };
        let form = [
            ("grant_type", "authorization_code"),
            ("code", code.expose().as_str()),
            ("redirect_uri", asked.redirect_uri),
            ("code_verifier", asked.verifier.expose().as_str()),
        ];
        let endpoint = &server.token_endpoint;
        let answer = token::ask(&self.fetch, endpoint, &client, &form).await?;
        if !answer.is_ok() {
            return Err(login_failed(endpoint, &format!("did not take the code: {}", token::reason(&answer, endpoint))));
        }
        answer.json(endpoint)
    }

    /// The keys are asked for at each sign-in, which is seldom, so that a new one counts at once, and one that was taken back no longer.
    async fn keys(&self, server: &Server) -> Result<Keys, Error> {
        let place = server.jwks_uri.as_deref().ok_or_else(|| login_failed(&server.issuer, "does not say where its keys are"))?;
        let answer = self.fetch.get(place, "application/json").await?;
        if !answer.is_ok() {
            return Err(login_failed(place, &format!("answered {} instead of its keys", answer.status)));
        }
        answer.json(place)
    }

    /// Adds what the issuer tells apart from the ID token, where it does. It counts only if it is about the same person.
    async fn add_told(&self, server: &Server, access: Option<Secret<String>>, claims: &mut Claims) -> Result<(), Error> {
        let (Some(place), Some(access)) = (&server.userinfo_endpoint, access) else { return Ok(()) };
        let text = Secret::new(format!("Bearer {}", access.expose()));
        let unfit = |_| login_failed(&server.token_endpoint, "gave a token that does not fit into a header");
        let mut authorization = HeaderValue::from_str(text.expose()).map_err(unfit)?;
        authorization.set_sensitive(true);
        let answer = self.fetch.get_with(place, authorization).await?;
        if !answer.is_ok() {
            return Err(login_failed(place, &format!("answered {} instead of what it knows of the person", answer.status)));
        }
        let told: Claims = answer.json(place)?;
        if told.get("sub") != claims.get("sub") {
            return Err(login_failed(place, "told of somebody else"));
        }
        for (name, value) in told {
            claims.entry(name).or_insert(value);
        }
        Ok(())
    }

    /// The groups of a person; `None` if nothing is said of them.
    fn groups(&self, claims: &Claims) -> Option<Vec<String>> {
        let name = self.config.groups_claim.as_str();
        let found = claims.get(name).or_else(|| {
            let mut way = name.split('.');
            way.next().and_then(|first| claims.get(first)).and_then(|first| way.try_fold(first, |inside, name| inside.get(name)))
        })?;
        match found {
            Value::String(one) => Some(vec![one.clone()]),
            Value::Array(all) => Some(all.iter().filter_map(Value::as_str).map(str::to_owned).collect()),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
        }
    }
}

impl Found {
    fn is_fresh(&self, now: Timestamp) -> bool {
        let seconds = if self.said.is_ok() { ISSUER_KNOWN_SECONDS } else { ISSUER_AWAY_SECONDS };
        self.at <= now && now < self.at.plus_seconds(seconds)
    }
}
