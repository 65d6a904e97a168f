//! Grants: given by people, asked for by agents.

use super::body::Strict;
use super::caller::Caller;
use super::page::{self, page_request, seconds_of};
use super::problem::Refusal;
use api::invocation::GrantScopeName;
use api::rules::{GrantView, NewGrantRequest, SessionGrantRequest, SumMaxRequest, SumMaxView};
use api::{Code, Page};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use countersign_core::grant::{Covers, Grant, GrantState, GrantStateName, SumMax};
use countersign_core::limits::GRANT_SECONDS_DEFAULT;
use countersign_core::ports::Sessions;
use countersign_core::{Amount, OrgId, SessionId};
use operations::App;
use operations::grants::{self, Asked, AskedScope};
use pipeline::limits::{GRANT_SECONDS_MAX, GRANT_SUM_SECONDS_MAX};
use serde::Deserialize;
use store::GrantFilter;
use utoipa::IntoParams;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    /// Only those in this state.
    state: Option<GrantStateName>,
    /// Only what this session can use or has asked for.
    session: Option<String>,
    /// Rows of one page, 1 to 100; 50 when absent.
    limit: Option<u32>,
    /// The `next` of the page before.
    after: Option<String>,
}

/// Grants and requests for them, newest first. An agent sees what it can use and what it has asked for.
#[utoipa::path(operation_id = "grants_list", get, path = "/api/v1/grants", tag = "grants", params(ListQuery),
    responses((status = 200, body = Page<GrantView>)))]
pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    page::Asked(query): page::Asked<ListQuery>,
) -> Result<Json<Page<GrantView>>, Refusal> {
    let wrong = |name: &str| Refusal::new(Code::InvalidQuery, format!("`{name}` does not make sense"));
    let session = query.session.as_deref().map(|text| SessionId::parse(text).map_err(|_| wrong("session"))).transpose()?;
    let request = page_request(query.limit, query.after)?;
    let page =
        grants::list(&app, &caller.principal, GrantFilter { state: query.state, session, ..GrantFilter::default() }, &request).await?;
    Ok(Json(shown(&app, &caller.principal.org, page).await))
}

/// Gives a grant; for an agent, requests one. A request allows nothing until a person approves it.
#[utoipa::path(operation_id = "grants_create", post, path = "/api/v1/grants", tag = "grants", request_body = NewGrantRequest,
    responses(
        (status = 201, description = "It is given.", body = GrantView),
        (status = 202, description = "It is requested, and pending.", body = GrantView)))]
pub(super) async fn create(
    State(app): State<App>,
    caller: Caller,
    Strict(body): Strict<NewGrantRequest>,
) -> Result<(StatusCode, Json<GrantView>), Refusal> {
    let grant = grants::create(&app, &caller.principal, asked(body)?).await?;
    let status = if grant.state == GrantState::Requested { StatusCode::ACCEPTED } else { StatusCode::CREATED };
    Ok((status, Json(titled(&app, &caller.principal.org, &grant).await)))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct SessionListQuery {
    /// Those in this state; `active` when absent.
    state: Option<GrantStateName>,
    /// Rows of one page, 1 to 100; 50 when absent.
    limit: Option<u32>,
    /// The `next` of the page before.
    after: Option<String>,
}

/// Grants that this session can use, newest first; with another `state`, also what its agent requested.
#[utoipa::path(operation_id = "grants_list_of_session", get, path = "/api/v1/sessions/{session}/actions/grants", tag = "grants",
    params(("session" = String, Path), SessionListQuery),
    responses((status = 200, body = Page<GrantView>)))]
pub(super) async fn list_of_session(
    State(app): State<App>,
    caller: Caller,
    Path(session): Path<String>,
    page::Asked(query): page::Asked<SessionListQuery>,
) -> Result<Json<Page<GrantView>>, Refusal> {
    let session = caller.readable_session(&app, &session).await?;
    let state = Some(query.state.unwrap_or(GrantStateName::Active));
    let filter = GrantFilter { state, session: Some(session.id), ..GrantFilter::default() };
    let request = page_request(query.limit, query.after)?;
    let page = grants::list(&app, &caller.principal, filter, &request).await?;
    let Page { items, next } = shown(&app, &caller.principal.org, page).await;
    Ok(Json(Page { items: items.into_iter().map(in_both_words).collect(), next }))
}

/// Gives a grant to this session or to the org; for an agent, requests one. A request allows nothing until a person approves it.
#[utoipa::path(operation_id = "grants_create_in_session", post, path = "/api/v1/sessions/{session}/actions/grants", tag = "grants",
    params(("session" = String, Path)), request_body = SessionGrantRequest,
    responses(
        (status = 201, description = "It is given.", body = GrantView),
        (status = 202, description = "It is requested, and pending.", body = GrantView)))]
pub(super) async fn create_in_session(
    State(app): State<App>,
    caller: Caller,
    Path(session): Path<String>,
    Strict(body): Strict<SessionGrantRequest>,
) -> Result<(StatusCode, Json<GrantView>), Refusal> {
    let session = caller.readable_session(&app, &session).await?;
    let body = in_our_words(body, &session.id)?;
    let (status, Json(grant)) = create(State(app), caller, Strict(body)).await.map_err(in_their_words)?;
    Ok((status, Json(in_both_words(grant))))
}

/// One grant.
#[utoipa::path(operation_id = "grants_show", get, path = "/api/v1/grants/{grant}", tag = "grants", params(("grant" = String, Path)),
    responses((status = 200, body = GrantView)))]
pub(super) async fn show(State(app): State<App>, caller: Caller, Path(grant): Path<String>) -> Result<Json<GrantView>, Refusal> {
    let found = grants::find(&app, &caller.principal, &grant).await?;
    Ok(Json(titled(&app, &caller.principal.org, &found).await))
}

/// Approves an agent's request for a grant.
#[utoipa::path(operation_id = "grants_approve", post, path = "/api/v1/grants/{grant}/approve", tag = "grants", params(("grant" = String, Path)),
    responses((status = 200, body = GrantView)))]
pub(super) async fn approve(State(app): State<App>, caller: Caller, Path(grant): Path<String>) -> Result<Json<GrantView>, Refusal> {
    let changed = grants::approve(&app, &caller.principal, &grant).await?;
    Ok(Json(titled(&app, &caller.principal.org, &changed).await))
}

/// Denies an agent's request for a grant.
#[utoipa::path(operation_id = "grants_refuse", post, path = "/api/v1/grants/{grant}/refuse", tag = "grants", params(("grant" = String, Path)),
    responses((status = 200, body = GrantView)))]
pub(super) async fn refuse(State(app): State<App>, caller: Caller, Path(grant): Path<String>) -> Result<Json<GrantView>, Refusal> {
    let changed = grants::refuse(&app, &caller.principal, &grant).await?;
    Ok(Json(titled(&app, &caller.principal.org, &changed).await))
}

/// Revokes a grant at once: the next call needs approval again.
#[utoipa::path(operation_id = "grants_revoke", delete, path = "/api/v1/grants/{grant}", tag = "grants", params(("grant" = String, Path)),
    responses((status = 200, body = GrantView)))]
pub(super) async fn revoke(State(app): State<App>, caller: Caller, Path(grant): Path<String>) -> Result<Json<GrantView>, Refusal> {
    let changed = grants::revoke(&app, &caller.principal, &grant).await?;
    Ok(Json(titled(&app, &caller.principal.org, &changed).await))
}

fn asked(body: NewGrantRequest) -> Result<Asked, Refusal> {
    let contradicts = |message| Err(Refusal::new(Code::InvalidRequest, message));
    let scope = match (body.scope, body.session_id, body.automation_id) {
        (GrantScopeName::Org, None, None) => AskedScope::Org,
        (GrantScopeName::Session, session, None) => AskedScope::Session(session),
        (GrantScopeName::Automation, None, automation) => AskedScope::Automation(automation),
        (GrantScopeName::Org | GrantScopeName::Automation, Some(_), _) => {
            return contradicts("`session_id` is for scope `session` only");
        }
        (GrantScopeName::Org | GrantScopeName::Session, _, Some(_)) => {
            return contradicts("`automation_id` is for scope `automation` only");
        }
    };
    let lifetime_seconds = match &body.expires_in {
        Some(text) => seconds_of("expires_in", text, GRANT_SECONDS_MAX)?,
        None => GRANT_SECONDS_DEFAULT,
    };
    let calls_max = calls_of(body.calls_max, body.max_calls)?;
    let sum_max = body.sum_max.map(sum_of).transpose()?;
    let (covers, space, condition, reason) = (body.covers, body.space_id, body.condition, body.reason);
    Ok(Asked { covers, scope, space, condition, calls_max, sum_max, reason, lifetime_seconds })
}

/// How many calls a grant is good for, by whichever name.
pub(super) fn calls_of(calls_max: Option<u32>, max_calls: Option<u32>) -> Result<Option<u32>, Refusal> {
    let wrong = |message| Err(Refusal::new(Code::InvalidRequest, message));
    match (calls_max, max_calls) {
        (Some(_), Some(_)) => wrong("`maxCalls` is an older name of `calls_max`: send one of them"),
        (calls_max, max_calls) => Ok(calls_max.or(max_calls)),
    }
}

/// The sum that a grant bounds. Whether its parts make sense is checked with the other bounds.
pub(super) fn sum_of(sum: SumMaxRequest) -> Result<SumMax, Refusal> {
    let unclear = || Refusal::new(Code::InvalidRequest, "`sum_max.max` must be a decimal as text, such as \"500\" or \"12.50\"");
    let max = Amount::parse(&sum.max).ok_or_else(unclear)?;
    Ok(SumMax { max, of: sum.of, per_seconds: seconds_of("sum_max.per", &sum.per, GRANT_SUM_SECONDS_MAX)? })
}

/// What is asked for in the words of the older contract.
fn in_our_words(body: SessionGrantRequest, session: &SessionId) -> Result<NewGrantRequest, Refusal> {
    let wrong = |message| Err(Refusal::new(Code::InvalidRequest, message));
    let session_id = match body.scope {
        GrantScopeName::Session => Some(session.to_string()),
        GrantScopeName::Org => None,
        GrantScopeName::Automation => return wrong("`scope` must be `session` or `org`"),
    };
    let covers = format!("{}.{}", body.integration, body.action);
    // A dot in the name of the source would make it another one.
    let is_both = |covers: Covers| covers.source() == body.integration && covers.name() == body.action;
    if !Covers::parse(&covers).is_some_and(is_both) {
        return wrong("`integration` must be a source such as `files` and `action` a name such as `write_text`; either may be `*`");
    }
    let (scope, calls_max, sum_max, expires_in, reason) = (body.scope, body.max_calls, body.sum_max, body.expires_in, body.reason);
    Ok(NewGrantRequest { covers, scope, session_id, calls_max, sum_max, expires_in, reason, ..NewGrantRequest::default() })
}

/// A refusal that names the members of the older contract.
fn in_their_words(mut refusal: Refusal) -> Refusal {
    for error in refusal.0.errors.iter_mut().filter(|error| error.pointer == "/calls_max") {
        error.pointer = "/maxCalls".to_owned();
    }
    refusal
}

/// A grant with the members of the older contract beside our own.
fn in_both_words(grant: GrantView) -> GrantView {
    let covers = Covers::parse(&grant.covers);
    GrantView {
        integration: covers.as_ref().map(|covers| covers.source().to_owned()),
        action: covers.as_ref().map(|covers| covers.name().to_owned()),
        max_calls: grant.calls_max,
        ..grant
    }
}

async fn shown(app: &App, org: &OrgId, page: store::Page<Grant>) -> Page<GrantView> {
    let mut items = Vec::with_capacity(page.items.len());
    for grant in &page.items {
        items.push(titled(app, org, grant).await);
    }
    Page { items, next: page.next }
}

/// With the title of the session that requested it, or that it is for. One that cannot be read is left out: the grant is written already.
pub(super) async fn titled(app: &App, org: &OrgId, grant: &Grant) -> GrantView {
    let Some(session) = grant.session() else {
        return view(grant);
    };
    let found = app.store().find_session(org, session).await.ok().flatten();
    GrantView { session_title: found.map(|session| session.title), ..view(grant) }
}

fn view(grant: &Grant) -> GrantView {
    GrantView {
        id: grant.id.to_string(),
        state: grant.state_name(),
        covers: grant.terms.covers.to_string(),
        scope: grant.terms.scope.to_string(),
        space_id: grant.terms.space.as_ref().map(ToString::to_string),
        condition: grant.terms.condition.clone(),
        calls_max: grant.terms.calls_max,
        calls_used: grant.used,
        sum_max: grant.terms.sum_max.as_ref().map(|sum| SumMaxView {
            of: sum.of.clone(),
            max: sum.max.to_string(),
            per_seconds: sum.per_seconds,
            spent: grant.spent.to_string(),
        }),
        reason: grant.reason.clone(),
        requested_by: grant.requested_by.as_ref().map(ToString::to_string),
        session_title: None,
        given_by: grant.given_by.as_ref().map(ToString::to_string),
        given_at: grant.given_at,
        givers: grant.givers.iter().map(ToString::to_string).collect(),
        invocation_id: grant.invocation.as_ref().map(ToString::to_string),
        ended_by: grant.ended_by.as_ref().map(ToString::to_string),
        ended_at: grant.ended_at,
        lifetime_seconds: grant.lifetime_seconds,
        expires_at: grant.expires_at,
        created_at: grant.created_at,
        integration: None,
        action: None,
        max_calls: None,
    }
}
