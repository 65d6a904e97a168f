//! Sessions: where agents work.

use super::body::OrEmpty;
use super::caller::Caller;
use super::page::{Asked, PageQuery};
use super::problem::Refusal;
use api::Page;
use api::identity::{NewSessionRequest, NewSessionResponse, SessionView};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use countersign_core::Session;
use operations::App;
use operations::sessions;

/// Creates a session and its agent's token. The token is shown here and never again.
#[utoipa::path(operation_id = "sessions_create", post, path = "/api/v1/sessions", tag = "sessions", request_body = NewSessionRequest,
    responses((status = 201, body = NewSessionResponse)))]
pub(super) async fn create(
    State(app): State<App>,
    caller: Caller,
    OrEmpty(body): OrEmpty<NewSessionRequest>,
) -> Result<(StatusCode, Json<NewSessionResponse>), Refusal> {
    let (session, token) = sessions::create(&app, &caller.principal, body).await?;
    let response = NewSessionResponse { id: session.id.to_string(), token: token.text.expose().clone(), session: view(&session) };
    Ok((StatusCode::CREATED, Json(response)))
}

/// Sessions of the org, newest first.
#[utoipa::path(operation_id = "sessions_list", get, path = "/api/v1/sessions", tag = "sessions", params(PageQuery),
    responses((status = 200, body = Page<SessionView>)))]
pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    Asked(query): Asked<PageQuery>,
) -> Result<Json<Page<SessionView>>, Refusal> {
    caller.must_read()?;
    let page = app.store().list_sessions(&caller.principal.org, &caller.hidden(&app).await?, &query.request()?).await?;
    Ok(Json(Page { items: page.items.iter().map(view).collect(), next: page.next }))
}

/// One session.
#[utoipa::path(operation_id = "sessions_show", get, path = "/api/v1/sessions/{session}", tag = "sessions", params(("session" = String, Path)),
    responses((status = 200, body = SessionView)))]
pub(super) async fn show(State(app): State<App>, caller: Caller, Path(session): Path<String>) -> Result<Json<SessionView>, Refusal> {
    Ok(Json(view(&caller.readable_session(&app, &session).await?)))
}

/// Ends a session: its token stops working at once.
#[utoipa::path(operation_id = "sessions_end", post, path = "/api/v1/sessions/{session}/end", tag = "sessions", params(("session" = String, Path)),
    responses((status = 200, body = SessionView)))]
pub(super) async fn end(State(app): State<App>, caller: Caller, Path(session): Path<String>) -> Result<Json<SessionView>, Refusal> {
    Ok(Json(view(&sessions::end(&app, &caller.principal, &session).await?)))
}

fn view(session: &Session) -> SessionView {
    SessionView {
        id: session.id.to_string(),
        space_id: session.space.to_string(),
        created_by: session.created_by.to_string(),
        owner_id: session.owner.as_ref().map(ToString::to_string),
        title: session.title.clone(),
        attendance: session.attendance,
        automation_id: session.automation.as_ref().map(ToString::to_string),
        sources: session.sources.as_ref().map(|sources| sources.iter().map(ToString::to_string).collect()),
        created_at: session.created_at,
        ended_at: session.ended_at,
    }
}
