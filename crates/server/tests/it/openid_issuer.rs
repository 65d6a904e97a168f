//! An OpenID Connect issuer on this machine. It lets in whom a test says, and signs what a test says, also what is wrong.

use axum::extract::{Form, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use countersign_core::principal::Role;
use countersign_core::{Clock as _, Secret};
use parking_lot::Mutex;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};
use server::config::{ClientSecret, OidcConfig};
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::sync::Arc;
use testkit::FixedClock;
use url::Url;

type Fields = HashMap<String, String>;

pub(crate) const NAME: &str = "Example SSO";
const CLIENT_ID: &str = "countersign";
const CLIENT_SECRET: &str = "canary-client-7731";

#[derive(Clone)]
pub(crate) struct OpenIdIssuer {
    pub(crate) url: String,
    state: Arc<Mutex<Memory>>,
}

struct Memory {
    key: EcdsaKeyPair,
    /// Signs instead of the key that is shown.
    forger: Option<EcdsaKeyPair>,
    /// What each code that was not used yet was asked for with.
    codes: HashMap<String, Fields>,
    /// Members of the next ID tokens; `null` leaves one out.
    claims: Value,
    /// What is told apart from the ID token; `null`: nothing.
    told: Value,
    drawn: usize,
    /// Whether it says nothing of itself, and how often it was asked to.
    is_away: bool,
    asked: usize,
    clock: FixedClock,
}

impl OpenIdIssuer {
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let memory = Memory {
            key: drawn_key(),
            forger: None,
            codes: HashMap::new(),
            claims: json!({}),
            told: Value::Null,
            drawn: 0,
            is_away: false,
            asked: 0,
            clock: FixedClock::new(),
        };
        let issuer = Self { url: format!("http://{}", listener.local_addr().unwrap()), state: Arc::new(Mutex::new(memory)) };
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(metadata))
            .route("/jwks", get(keys))
            .route("/token", post(token))
            .route("/userinfo", get(userinfo))
            .with_state(issuer.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        issuer
    }

    /// How a server names it, with a role for each of the groups `viewers`, `approvers`, `admins` and `owners`.
    pub(crate) fn config(&self) -> OidcConfig {
        let roles = [Role::Viewer, Role::Approver, Role::Admin, Role::Owner];
        OidcConfig {
            name: NAME.to_owned(),
            issuer: self.url.clone(),
            client_id: CLIENT_ID.to_owned(),
            client_secret: Some(ClientSecret::Text(Secret::new(CLIENT_SECRET.to_owned()))),
            scopes: vec!["openid".to_owned(), "groups".to_owned()],
            groups_claim: "realm.groups".to_owned(),
            roles: roles.into_iter().map(|role| (format!("{}s", role.as_str()), role)).collect(),
            org: None,
            allowed_hosts: Vec::new(),
            allowed_networks: vec!["127.0.0.1/32".parse().unwrap()],
        }
    }

    /// From now on its time is that of the server.
    pub(crate) fn follow(&self, clock: &FixedClock) {
        self.state.lock().clock = clock.clone();
    }

    /// The next ID tokens say this instead of what is right.
    pub(crate) fn say(&self, claims: Value) {
        self.state.lock().claims = claims;
    }

    /// The next ID tokens are of this person, who is in these groups.
    pub(crate) fn let_in(&self, subject: &str, groups: &[&str]) {
        self.say(json!({ "sub": subject, "preferred_username": subject, "realm": { "groups": groups } }));
    }

    /// What it tells of people apart from the ID token.
    pub(crate) fn tell(&self, told: Value) {
        self.state.lock().told = told;
    }

    pub(crate) fn be_away(&self, is_away: bool) {
        self.state.lock().is_away = is_away;
    }

    /// How often it was asked what it says of itself.
    pub(crate) fn asked(&self) -> usize {
        self.state.lock().asked
    }

    /// From now on a key signs that it does not show.
    pub(crate) fn be_forged(&self) {
        self.state.lock().forger = Some(drawn_key());
    }

    /// Lets the person in whom a browser brings to this address. Returns where it is sent back to, without the host.
    pub(crate) fn authorize(&self, address: &str) -> String {
        let url = Url::parse(address).unwrap();
        assert!(address.starts_with(&format!("{}/authorize?", self.url)), "{address}");
        let asked: Fields = url.query_pairs().into_owned().collect();
        assert_eq!((asked["response_type"].as_str(), asked["code_challenge_method"].as_str()), ("code", "S256"));
        assert_eq!((asked["client_id"].as_str(), asked["scope"].as_str()), (CLIENT_ID, "openid groups"));
        let mut memory = self.state.lock();
        memory.drawn += 1;
        let code = format!("canary-code-7731-{}", memory.drawn);
        let path = Url::parse(&asked["redirect_uri"]).unwrap().path().to_owned();
        let back = format!("{path}?code={code}&state={}&iss={}", asked["state"], self.url);
        memory.codes.insert(code, asked);
        back
    }
}

fn drawn_key() -> EcdsaKeyPair {
    let random = SystemRandom::new();
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref(), &random).unwrap()
}

async fn metadata(State(issuer): State<OpenIdIssuer>) -> Response {
    let is_away = {
        let mut memory = issuer.state.lock();
        memory.asked += 1;
        memory.is_away
    };
    if is_away {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let at = |path: &str| format!("{}{path}", issuer.url);
    Json(json!({
        "issuer": issuer.url,
        "authorization_endpoint": at("/authorize"),
        "token_endpoint": at("/token"),
        "jwks_uri": at("/jwks"),
        "userinfo_endpoint": at("/userinfo"),
        "authorization_response_iss_parameter_supported": true,
    }))
    .into_response()
}

async fn keys(State(issuer): State<OpenIdIssuer>) -> Json<Value> {
    let memory = issuer.state.lock();
    let (x, y) = memory.key.public_key().as_ref()[1..].split_at(32);
    let [x, y] = [x, y].map(|part| URL_SAFE_NO_PAD.encode(part));
    Json(json!({ "keys": [{ "kty": "EC", "crv": "P-256", "kid": "one", "use": "sig", "x": x, "y": y }] }))
}

async fn token(State(issuer): State<OpenIdIssuer>, headers: HeaderMap, Form(form): Form<Fields>) -> Response {
    let mut memory = issuer.state.lock();
    let basic = format!("Basic {}", STANDARD.encode(format!("{CLIENT_ID}:{CLIENT_SECRET}")));
    assert_eq!(headers[header::AUTHORIZATION], basic.as_str());
    assert_eq!(form["grant_type"], "authorization_code");
    let Some(asked) = memory.codes.remove(&form["code"]) else {
        return (StatusCode::BAD_REQUEST, Json(json!({ "error": "invalid_grant" }))).into_response();
    };
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(form["code_verifier"].as_bytes()));
    assert_eq!((challenge, form["redirect_uri"].clone()), (asked["code_challenge"].clone(), asked["redirect_uri"].clone()));
    let now = memory.clock.now().as_micros() / 1_000_000;
    let mut claims = json!({ "iss": issuer.url, "aud": CLIENT_ID, "sub": "robin", "nonce": asked["nonce"], "iat": now, "exp": now + 60 });
    for (name, value) in memory.claims.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", part(&json!({ "alg": "ES256", "kid": "one" })), part(&claims));
    let key = memory.forger.as_ref().unwrap_or(&memory.key);
    let signature = key.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
    let id_token = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()));
    Json(json!({ "access_token": "canary-access-7731", "token_type": "Bearer", "expires_in": 60, "id_token": id_token })).into_response()
}

async fn userinfo(State(issuer): State<OpenIdIssuer>, headers: HeaderMap) -> Response {
    assert_eq!(headers[header::AUTHORIZATION], "Bearer canary-access-7731");
    let told = issuer.state.lock().told.clone();
    if told.is_null() { StatusCode::NOT_FOUND.into_response() } else { Json(told).into_response() }
}
