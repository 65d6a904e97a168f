//! Sessions: where agents work.

use super::body::OrEmpty;
use super::caller::Caller;
use super::page::{Asked, PageQuery};
use super::problem::Refusal;
use crate::App;
use api::identity::{NewSessionRequest, NewSessionResponse, SessionView};
use api::{Code, Page, Problem};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use countersign_core::limits::AGENT_TOKEN_DAYS;
use countersign_core::ports::Rules;
use countersign_core::principal::Permission;
use countersign_core::session::Attendance;
use countersign_core::{AutomationId, Session, Space, SpaceId};
use store::NewSession;

const TITLE_CHARS_MAX: usize = 200;

/// Creates a session and its agent's token. The token is shown here and never again.
#[utoipa::path(operation_id = "sessions_create", post, path = "/api/v1/sessions", tag = "sessions", request_body = NewSessionRequest,
    responses((status = 201, body = NewSessionResponse), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn create(
    State(app): State<App>,
    caller: Caller,
    OrEmpty(body): OrEmpty<NewSessionRequest>,
) -> Result<(StatusCode, Json<NewSessionResponse>), Refusal> {
    caller.must(Permission::CreateSession)?;
    let title = body.title.unwrap_or_else(|| "session".into());
    if title.chars().count() > TITLE_CHARS_MAX {
        return Err(Refusal::new(Code::InvalidRequest, format!("`title` is longer than {TITLE_CHARS_MAX} characters")));
    }
    if title.contains('\0') {
        return Err(Refusal::new(Code::InvalidRequest, "`title` holds the character U+0000"));
    }
    let space = find_space(&app, &caller, body.space.as_deref().unwrap_or("main")).await?;
    let automation = match &body.automation_id {
        Some(text) => {
            // Its modes may be looser than the org's.
            caller.must(Permission::ManagePolicy)?;
            Some(AutomationId::parse(text).map_err(|error| Refusal::new(Code::InvalidRequest, error.to_string()))?)
        }
        None => None,
    };
    let new = NewSession {
        space: space.id,
        created_by: caller.principal.id.clone(),
        owner: caller.principal.owner.clone(),
        title,
        attendance: if body.unattended { Attendance::Unattended } else { Attendance::Interactive },
        automation,
        token_lifetime_seconds: Some(AGENT_TOKEN_DAYS * 24 * 60 * 60),
    };
    let (session, token) = app.store().create_session(&caller.principal.org, new).await?;
    let response = NewSessionResponse { id: session.id.to_string(), token: token.text.expose().clone(), session: view(&session) };
    Ok((StatusCode::CREATED, Json(response)))
}

/// Sessions of the org, newest first.
#[utoipa::path(operation_id = "sessions_list", get, path = "/api/v1/sessions", tag = "sessions", params(PageQuery),
    responses((status = 200, body = Page<SessionView>), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    Asked(query): Asked<PageQuery>,
) -> Result<Json<Page<SessionView>>, Refusal> {
    caller.must(Permission::Read)?;
    let page = app.store().list_sessions(&caller.principal.org, &query.request()?).await?;
    Ok(Json(Page { items: page.items.iter().map(view).collect(), next: page.next }))
}

/// One session.
#[utoipa::path(operation_id = "sessions_show", get, path = "/api/v1/sessions/{session}", tag = "sessions", params(("session" = String, Path)),
    responses((status = 200, body = SessionView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn show(State(app): State<App>, caller: Caller, Path(session): Path<String>) -> Result<Json<SessionView>, Refusal> {
    Ok(Json(view(&caller.readable_session(&app, &session).await?)))
}

/// Ends a session: its token stops working at once.
#[utoipa::path(operation_id = "sessions_end", post, path = "/api/v1/sessions/{session}/end", tag = "sessions", params(("session" = String, Path)),
    responses((status = 200, body = SessionView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn end(State(app): State<App>, caller: Caller, Path(session): Path<String>) -> Result<Json<SessionView>, Refusal> {
    let session = caller.readable_session(&app, &session).await?;
    if session.created_by != caller.principal.id {
        caller.must(Permission::ManageIdentity)?;
    }
    let ended = app.store().end_session(&caller.principal.org, &session.id).await?;
    Ok(Json(view(&ended.unwrap_or(session))))
}

async fn find_space(app: &App, caller: &Caller, text: &str) -> Result<Space, Refusal> {
    let org = &caller.principal.org;
    let found = match SpaceId::parse(text) {
        Ok(id) => app.store().find_space(org, &id).await?,
        Err(_) => app.store().find_space_by_name(org, text).await?,
    };
    found.ok_or_else(|| Refusal::not_found("space", text))
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
        created_at: session.created_at,
        ended_at: session.ended_at,
    }
}
