//! A resource and its authorization server on this machine, as the RFCs describe them. It lets everybody in, and remembers what it was
//! asked.

use axum::extract::{Form, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;

type Fields = HashMap<String, String>;

#[derive(Clone)]
pub(crate) struct Issuer {
    pub(crate) url: String,
    state: Arc<Mutex<Memory>>,
}

#[derive(Default)]
struct Memory {
    /// The challenge and the callback of each code that was not used yet.
    codes: HashMap<String, Fields>,
    /// The tokens that are valid now.
    access: Option<String>,
    refresh: Option<String>,
    drawn: usize,
    renewals: usize,
    revoked: Vec<String>,
    /// What `iss` of the next answer says instead of the truth.
    poses_as: Option<String>,
    /// Where the metadata of the authorization server leads to instead.
    moved_to: Option<String>,
}

impl Memory {
    /// Texts that must not be found anywhere.
    fn draw(&mut self, what: &str) -> String {
        self.drawn += 1;
        format!("canary-{what}-7731-{}", self.drawn)
    }
}

impl Issuer {
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let issuer = Self { url: format!("http://{}", listener.local_addr().unwrap()), state: Arc::default() };
        let router = Router::new()
            .route("/mcp", get(resource))
            .route("/.well-known/oauth-protected-resource/mcp", get(described))
            .route("/.well-known/oauth-authorization-server", get(metadata))
            .route("/register", post(register))
            .route("/authorize", get(authorize))
            .route("/token", post(token))
            .route("/revoke", post(revoke))
            .with_state(issuer.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        issuer
    }

    pub(crate) fn resource(&self) -> String {
        format!("{}/mcp", self.url)
    }

    pub(crate) fn renewals(&self) -> usize {
        self.state.lock().renewals
    }

    pub(crate) fn revoked(&self) -> Vec<String> {
        self.state.lock().revoked.clone()
    }

    /// The person ended the login over there.
    pub(crate) fn end_login(&self) {
        let mut memory = self.state.lock();
        (memory.access, memory.refresh) = (None, None);
    }

    pub(crate) fn pose_as(&self, issuer: &str) {
        self.state.lock().poses_as = Some(issuer.to_owned());
    }

    pub(crate) fn move_metadata_to(&self, place: &str) {
        self.state.lock().moved_to = Some(place.to_owned());
    }
}

async fn resource(State(issuer): State<Issuer>, headers: HeaderMap) -> Response {
    let sent = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let is_let_in = sent.is_some() && (sent == issuer.state.lock().access.as_deref() || sent == Some("canary-static-7731"));
    if is_let_in {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer error=\"invalid_token\"")]).into_response()
}

async fn described(State(issuer): State<Issuer>) -> Json<Value> {
    Json(json!({ "resource": issuer.resource(), "authorization_servers": [issuer.url], "scopes_supported": ["read"] }))
}

async fn metadata(State(issuer): State<Issuer>) -> Response {
    if let Some(place) = issuer.state.lock().moved_to.clone() {
        return Redirect::temporary(&place).into_response();
    }
    let at = |path: &str| format!("{}{path}", issuer.url);
    let metadata = json!({
        "issuer": issuer.url,
        "authorization_endpoint": at("/authorize"),
        "token_endpoint": at("/token"),
        "registration_endpoint": at("/register"),
        "revocation_endpoint": at("/revoke"),
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": true,
    });
    Json(metadata).into_response()
}

async fn register(Json(client): Json<Value>) -> Response {
    assert_eq!(client["redirect_uris"][0].as_str().map(|uri| uri.ends_with("/oauth/callback")), Some(true), "{client}");
    (StatusCode::CREATED, Json(json!({ "client_id": "registered" }))).into_response()
}

async fn authorize(State(issuer): State<Issuer>, Query(asked): Query<Fields>) -> Redirect {
    assert_eq!((asked["code_challenge_method"].as_str(), asked["resource"].as_str()), ("S256", issuer.resource().as_str()));
    let mut memory = issuer.state.lock();
    let code = memory.draw("code");
    let iss = memory.poses_as.take().unwrap_or_else(|| issuer.url.clone());
    let back = format!("{}?code={code}&state={}&iss={iss}&session_state=ignored", asked["redirect_uri"], asked["state"]);
    memory.codes.insert(code, asked);
    Redirect::to(&back)
}

async fn token(State(issuer): State<Issuer>, Form(form): Form<Fields>) -> Response {
    let mut memory = issuer.state.lock();
    let refused = || (StatusCode::BAD_REQUEST, Json(json!({ "error": "invalid_grant" }))).into_response();
    assert_eq!((form["client_id"].as_str(), form["resource"].as_str()), ("registered", issuer.resource().as_str()));
    let is_granted = match form["grant_type"].as_str() {
        "authorization_code" => {
            let asked = memory.codes.remove(&form["code"]);
            asked.is_some_and(|asked| asked["redirect_uri"] == form["redirect_uri"] && form["code_verifier"].len() == 43)
        }
        "refresh_token" => {
            memory.renewals += 1;
            // A refresh token that is used twice ends the login, as servers that rotate them do.
            memory.refresh.take().is_some_and(|valid| valid == form["refresh_token"])
        }
        other => panic!("{other}"),
    };
    if !is_granted {
        return refused();
    }
    let (access, refresh) = (memory.draw("access"), memory.draw("refresh"));
    (memory.access, memory.refresh) = (Some(access.clone()), Some(refresh.clone()));
    Json(json!({ "access_token": access, "refresh_token": refresh, "token_type": "Bearer", "expires_in": 600 })).into_response()
}

async fn revoke(State(issuer): State<Issuer>, Form(form): Form<Fields>) -> StatusCode {
    issuer.state.lock().revoked.push(form["token"].clone());
    StatusCode::OK
}
