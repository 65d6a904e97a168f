//! Is it alive, is it ready, who am I, how is it doing.

use super::caller::Caller;
use super::page::{Asked, PageQuery};
use super::problem::Refusal;
use api::identity::{NotificationView, ServerView, StatusResponse, StoreName, WhoamiResponse};
use api::{Page, Problem};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use countersign_core::ports::Invocations;
use countersign_core::{OrgId, SpaceId, Status};
use operations::App;
use std::collections::BTreeSet;
use std::sync::LazyLock;
use store::{InvocationFilter, Server};

/// All that a process serves which has no door; described below.
pub(super) fn router(app: App) -> Router {
    Router::new().route("/healthz", get(healthz)).route("/readyz", get(readyz)).route("/metrics", get(metrics)).with_state(app)
}

/// The process answers.
#[utoipa::path(get, path = "/healthz", tag = "server", security(()), responses((status = 200, description = "It does.", content_type = "text/plain", body = String)))]
pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

/// A write goes through. Red while the store is away, green again by itself when it is back.
#[utoipa::path(get, path = "/readyz", tag = "server", security(()),
    responses((status = 200, description = "It does.", content_type = "text/plain", body = String),
        (status = 503, description = "The store does not take writes.", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn readyz(State(app): State<App>) -> Response {
    match app.store().check_readiness().await {
        Ok(()) => (StatusCode::OK, "ready\n").into_response(),
        Err(error) => Refusal::from(error).into_response(),
    }
}

/// For Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "server", security(()),
    responses((status = 200, description = "What was counted, in its text format.", content_type = "text/plain", body = String)))]
pub(super) async fn metrics(State(app): State<App>) -> Response {
    let text = app.parts.metrics.as_ref().map(|handle| handle.render()).unwrap_or_default();
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}

/// The API's own description.
#[utoipa::path(get, path = "/api/v1/openapi.json", tag = "server", security(()), responses((status = 200, description = "OpenAPI 3.1.", body = Object)))]
pub(super) async fn openapi() -> Response {
    // Anybody may ask for it, and making it takes long; it is the same as long as the server runs.
    static DESCRIPTION: LazyLock<String> = LazyLock::new(super::openapi_json);
    ([(header::CONTENT_TYPE, "application/json")], DESCRIPTION.as_str()).into_response()
}

/// Who the token belongs to.
#[utoipa::path(get, path = "/api/v1/whoami", tag = "identity", responses((status = 200, body = WhoamiResponse)))]
pub(super) async fn whoami(caller: Caller) -> Json<WhoamiResponse> {
    let principal = &caller.principal;
    Json(WhoamiResponse {
        org_id: principal.org.to_string(),
        principal: principal.id.to_string(),
        name: principal.name.clone(),
        role: principal.role,
        session_id: principal.session.as_ref().map(ToString::to_string),
        permissions: principal.permissions().collect(),
        device: principal.device.clone(),
    })
}

/// How the server and the org are doing.
#[utoipa::path(get, path = "/api/v1/status", tag = "identity", responses((status = 200, body = StatusResponse)))]
pub(super) async fn status(State(app): State<App>, caller: Caller) -> Result<Json<StatusResponse>, Refusal> {
    caller.must_read()?;
    let org = &caller.principal.org;
    let problem = app.store().check().await.err();
    let hidden = caller.hidden(&app).await?;
    Ok(Json(StatusResponse {
        version: env!("CARGO_PKG_VERSION").into(),
        tzdata: automation::schedule::tzdata_version().into(),
        store: if app.store().may_be_shared() { StoreName::Postgresql } else { StoreName::Sqlite },
        ready: problem.is_none(),
        problem: problem.map(|_| "the store does not take writes; see the server's log".into()),
        pending: count(&app, org, &hidden, Status::Pending).await?,
        in_doubt: count(&app, org, &hidden, Status::InDoubt).await?,
        log_size: app.store().log_size(org).await?,
        code_profiles: app.parts.profiles.clone(),
        servers: at_work(&app).await?.into_iter().map(server_view).collect(),
    }))
}

async fn count(app: &App, org: &OrgId, hidden: &BTreeSet<SpaceId>, status: Status) -> Result<u64, Refusal> {
    if hidden.is_empty() {
        return Ok(app.store().count_in_status(org, status).await?);
    }
    let filter = InvocationFilter { status: Some(status), hidden: hidden.clone(), ..InvocationFilter::default() };
    Ok(app.store().count_invocations(org, &filter).await?)
}

/// Where nobody else can work on the database, who answers lives without a lease, and nobody else does.
async fn at_work(app: &App) -> Result<Vec<Server>, Refusal> {
    let mut servers = app.store().list_servers().await?;
    if !app.store().may_be_shared() {
        let now = app.store().now().await?;
        servers.retain(|server| server.id == *app.store().server_id());
        servers.iter_mut().for_each(|server| (server.seen_at, server.is_gone) = (now, false));
    }
    Ok(servers)
}

fn server_view(server: Server) -> ServerView {
    ServerView { id: server.id.to_string(), started_at: server.started_at, seen_at: server.seen_at, gone: server.is_gone }
}

/// Messages to people, from actions and from the server itself, newest first.
#[utoipa::path(get, path = "/api/v1/notifications", tag = "identity", params(PageQuery),
    responses((status = 200, body = Page<NotificationView>)))]
pub(super) async fn notifications(
    State(app): State<App>,
    caller: Caller,
    Asked(query): Asked<PageQuery>,
) -> Result<Json<Page<NotificationView>>, Refusal> {
    caller.must_read()?;
    let page = app.store().list_notifications(&caller.principal.org, &caller.hidden(&app).await?, &query.request()?).await?;
    let items = page.items.into_iter().map(|notification| NotificationView {
        id: notification.id.to_string(),
        space_id: notification.space.to_string(),
        invocation_id: notification.invocation.map(|invocation| invocation.to_string()),
        title: notification.title,
        body: notification.body,
        created_at: notification.created_at,
    });
    Ok(Json(Page { items: items.collect(), next: page.next }))
}
