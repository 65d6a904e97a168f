//! Connections: made, listed, tried, removed, and logged in for. Their credentials come in and never go out.

use super::body::Strict;
use super::caller::Caller;
use super::html::{escaped, page, told};
use super::page::{Asked, PageQuery};
use super::problem::Refusal;
use super::reached::OwnAddress;
use api::connection::{ConnectionTestResponse, ConnectionView, LoginStatus, LoginView, NewConnectionRequest, StartedLoginResponse};
use api::{Code, Page};
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use countersign_core::Secret;
use countersign_core::ports::connections::{Connection, ConnectionState};
use operations::App;
use operations::connections;
use serde::Deserialize;
use serde_json::Value;
use sources::oauth::{Returned, client_document};
use store::Login;
use utoipa::IntoParams;

/// Connections of the org by name, never their credentials.
#[utoipa::path(operation_id = "connections_list", get, path = "/api/v1/connections", tag = "connections", params(PageQuery),
    responses((status = 200, body = Page<ConnectionView>)))]
pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    Asked(query): Asked<PageQuery>,
) -> Result<Json<Page<ConnectionView>>, Refusal> {
    let page = connections::list(&app, &caller.principal, &query.request()?).await?;
    Ok(Json(Page { items: page.items.into_iter().map(view).collect(), next: page.next }))
}

/// Makes a connection. One of the kind `oauth` needs a login afterwards.
#[utoipa::path(operation_id = "connections_create", post, path = "/api/v1/connections", tag = "connections", request_body = NewConnectionRequest,
    responses((status = 201, body = ConnectionView)))]
pub(super) async fn create(
    State(app): State<App>,
    caller: Caller,
    Strict(body): Strict<NewConnectionRequest>,
) -> Result<(StatusCode, Json<ConnectionView>), Refusal> {
    let made = connections::create(&app, &caller.principal, body).await?;
    Ok((StatusCode::CREATED, Json(view(made))))
}

/// One connection by its name, or by its id, also after it was removed. Never its credential.
#[utoipa::path(operation_id = "connections_show", get, path = "/api/v1/connections/{connection}", tag = "connections", params(("connection" = String, Path)),
    responses((status = 200, body = ConnectionView)))]
pub(super) async fn show(State(app): State<App>, caller: Caller, Path(connection): Path<String>) -> Result<Json<ConnectionView>, Refusal> {
    Ok(Json(view(connections::find(&app, &caller.principal, &connection).await?)))
}

/// Removes a connection that no source uses, and its credential. Its tokens are revoked where they came from, if that is possible.
#[utoipa::path(operation_id = "connections_remove", delete, path = "/api/v1/connections/{connection}", tag = "connections", params(("connection" = String, Path)),
    responses((status = 204)))]
pub(super) async fn remove(State(app): State<App>, caller: Caller, Path(connection): Path<String>) -> Result<StatusCode, Refusal> {
    connections::remove(&app, &caller.principal, &connection).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Asks the address of the connection once with its credential and once without, and tells the status of the answers. A mail server is asked
/// whether it takes mail from us, and gets none.
#[utoipa::path(operation_id = "connections_test", post, path = "/api/v1/connections/{connection}/test", tag = "connections", params(("connection" = String, Path)),
    responses((status = 200, body = ConnectionTestResponse)))]
pub(super) async fn test(
    State(app): State<App>,
    caller: Caller,
    Path(connection): Path<String>,
) -> Result<Json<ConnectionTestResponse>, Refusal> {
    let tested = connections::test(&app, &caller.principal, &connection).await?;
    let (status, status_without, is_let_in) = (tested.status, tested.status_without, tested.is_let_in());
    Ok(Json(ConnectionTestResponse { status, status_without, is_let_in }))
}

/// Starts a login: open the URL in a browser, within ten minutes. An earlier login that is still open ends.
#[utoipa::path(operation_id = "connections_start_login", post, path = "/api/v1/connections/{connection}/login", tag = "connections", params(("connection" = String, Path)),
    responses((status = 200, body = StartedLoginResponse)))]
pub(super) async fn start_login(
    State(app): State<App>,
    caller: Caller,
    OwnAddress(own): OwnAddress,
    Path(connection): Path<String>,
) -> Result<Json<StartedLoginResponse>, Refusal> {
    let started = connections::start_login(&app, &caller.principal, &connection, &own).await?;
    Ok(Json(StartedLoginResponse { url: started.url, expires_at: started.expires_at }))
}

/// How the last login of the connection stands.
#[utoipa::path(operation_id = "connections_login", get, path = "/api/v1/connections/{connection}/login", tag = "connections", params(("connection" = String, Path)),
    responses((status = 200, body = LoginView)))]
pub(super) async fn login(State(app): State<App>, caller: Caller, Path(connection): Path<String>) -> Result<Json<LoginView>, Refusal> {
    let login = connections::login(&app, &caller.principal, &connection).await?;
    Ok(Json(login_view(login, app.parts.clock.now())))
}

/// Where an authorization server sends a person back to. The `state` is the secret, and counts once: there is no token.
#[utoipa::path(operation_id = "oauth_callback", get, path = "/oauth/callback", tag = "connections", security(()), params(CallbackQuery),
    responses((status = 200, description = "A page for a person: the connection is ready.", content_type = "text/html", body = String),
        (status = "4XX", description = "Why the login failed; a page.", content_type = "text/html", body = String)))]
pub(super) async fn callback(State(app): State<App>, query: Result<Query<CallbackQuery>, QueryRejection>) -> Response {
    // SECURITY: the rejection would quote the query.
    let Ok(Query(query)) = query else {
        return told(&Refusal::new(Code::InvalidQuery, "the answer of the authorization server does not make sense"));
    };
    let (state, returned) = query.returned();
    match connections::end_login(&app, state.expose(), returned).await {
        Ok(connection) => {
            let name = escaped(connection.name.as_str());
            page(StatusCode::OK, &format!("<h1>Logged in</h1><p>Connection <b>{name}</b> is ready. You can close this page.</p>"))
        }
        Err(error) => told(&error.into()),
    }
}

/// Describes this server as an OAuth client, for authorization servers that take such a document instead of a registration.
#[utoipa::path(operation_id = "oauth_client", get, path = "/oauth/client.json", tag = "connections", security(()),
    responses((status = 200, description = "A client ID metadata document.", body = Object)))]
pub(super) async fn client(OwnAddress(own): OwnAddress) -> Json<Value> {
    Json(client_document(&own))
}

/// What an authorization server sends back. It may send more, which is ignored.
#[derive(Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct CallbackQuery {
    /// The `state` of the login.
    state: Option<String>,
    /// The code, which is exchanged for tokens.
    code: Option<String>,
    /// Who answers (RFC 9207).
    iss: Option<String>,
    /// Why there is no code.
    error: Option<String>,
}

impl CallbackQuery {
    /// The `state`, and what came with it.
    pub(super) fn returned(self) -> (Secret<String>, Returned) {
        let Self { state, code, iss, error } = self;
        (Secret::new(state.unwrap_or_default()), Returned { code: code.map(Secret::new), iss, error })
    }
}

fn view(connection: Connection) -> ConnectionView {
    let mended_by = match (connection.state, &connection.why) {
        (ConnectionState::NeedsLogin, _) | (ConnectionState::Ready, Some(_)) => Some("an admin or owner, who logs in".to_owned()),
        (ConnectionState::Ready, None) | (ConnectionState::Revoked, _) => None,
    };
    ConnectionView {
        id: connection.id.to_string(),
        name: connection.name.to_string(),
        kind: connection.kind,
        url: connection.url,
        account: connection.account,
        from: connection.from,
        secret: connection.secret.map(|secret| secret.to_string()),
        issuer: connection.issuer,
        scopes: connection.scopes.map(|scopes| scopes.split(' ').map(str::to_owned).collect()),
        spaces: connection.spaces.map(|spaces| spaces.iter().map(ToString::to_string).collect()),
        version: connection.version,
        state: connection.state,
        why: connection.why,
        mended_by,
        made_by: connection.made_by.to_string(),
        made_at: connection.made_at,
        login_by: connection.login_by.map(|by| by.to_string()),
        login_at: connection.login_at,
        last_used_at: connection.last_used_at,
        removed_at: connection.removed_at,
    }
}

fn login_view(login: Login, now: countersign_core::Timestamp) -> LoginView {
    let status = match (login.ended_at, &login.problem) {
        (Some(_), Some(_)) => LoginStatus::Failed,
        (Some(_), None) => LoginStatus::Done,
        (None, _) if login.expires_at <= now => LoginStatus::Expired,
        (None, _) => LoginStatus::Open,
    };
    LoginView {
        status,
        problem: login.problem,
        started_by: login.started_by.to_string(),
        started_at: login.started_at,
        expires_at: login.expires_at,
    }
}
