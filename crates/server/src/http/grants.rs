//! Grants: given by people, asked for by agents.

use super::answers::calls_of;
use super::body::Strict;
use super::caller::Caller;
use super::page::{Asked, page_request, seconds_of};
use super::problem::Refusal;
use crate::App;
use api::invocation::GrantScopeName;
use api::rules::{GrantStateName, GrantView, NewGrantRequest};
use api::{Code, Page, Problem};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use countersign_core::grant::{Covers, Grant, GrantScope, GrantState, GrantTerms, GrantedDefinition};
use countersign_core::limits::{
    GRANT_CONDITION_BYTES_MAX, GRANT_REQUESTS_PER_SESSION_MAX, GRANT_SECONDS_DEFAULT, GRANT_SECONDS_MAX, REASON_CHARS_MAX,
};
use countersign_core::ports::Sessions;
use countersign_core::principal::Permission;
use countersign_core::{AutomationId, GrantId, PrincipalId, SessionId};
use serde::Deserialize;
use store::{GrantChanged, GrantFilter, NewGrant, PageRequest};
use utoipa::IntoParams;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    state: Option<GrantState>,
    /// Only what this session can use or has asked for.
    session: Option<String>,
    /// Rows of one page, 1 to 100; 50 when absent.
    limit: Option<u32>,
    /// The `next` of the page before.
    after: Option<String>,
}

/// Grants and requests for them, newest first. An agent sees what it can use and what it has asked for.
#[utoipa::path(operation_id = "grants_list", get, path = "/api/v1/grants", tag = "grants", params(ListQuery),
    responses((status = 200, body = Page<GrantView>), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn list(State(app): State<App>, caller: Caller, Asked(query): Asked<ListQuery>) -> Result<Json<Page<GrantView>>, Refusal> {
    let wrong = |name: &str| Refusal::new(Code::InvalidQuery, format!("`{name}` does not make sense"));
    let asked = query.session.as_deref().map(|text| SessionId::parse(text).map_err(|_| wrong("session"))).transpose()?;
    let session = match &caller.principal.session {
        Some(own) => {
            caller.must(Permission::ReadSession)?;
            Some(own.clone())
        }
        None => {
            caller.must(Permission::Read)?;
            asked
        }
    };
    let page = app
        .store()
        .list_grants(&caller.principal.org, &GrantFilter { state: query.state, session }, &page_request(query.limit, query.after)?)
        .await?;
    Ok(Json(Page { items: page.items.iter().map(view).collect(), next: page.next }))
}

/// Gives a grant; for an agent, asks for one. A request allows nothing until a person gives it.
#[utoipa::path(operation_id = "grants_create", post, path = "/api/v1/grants", tag = "grants", request_body = NewGrantRequest,
    responses(
        (status = 201, description = "It is given.", body = GrantView),
        (status = 202, description = "It is requested, and pending.", body = GrantView),
        (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn create(
    State(app): State<App>,
    caller: Caller,
    Strict(body): Strict<NewGrantRequest>,
) -> Result<(StatusCode, Json<GrantView>), Refusal> {
    match &caller.principal.id {
        PrincipalId::User(_) => caller.must(Permission::Approve).map_err(|_| pipeline::Error::MayNotApprove)?,
        PrincipalId::Agent(_) | PrincipalId::Service(_) | PrincipalId::Automation(_) => caller.must(Permission::Invoke)?,
    }
    let grant = read(&app, &caller, body).await?;
    let (org, by) = (&caller.principal.org, &caller.principal.id);
    if caller.principal.may(Permission::Approve) {
        let given = app.store().give_grant(org, grant, by).await?;
        return Ok((StatusCode::CREATED, Json(view(&given))));
    }
    may_ask(&app, &caller, &grant.terms).await?;
    let asked = app.store().request_grant(org, grant, by).await?;
    Ok((StatusCode::ACCEPTED, Json(view(&asked))))
}

/// One grant.
#[utoipa::path(operation_id = "grants_show", get, path = "/api/v1/grants/{grant}", tag = "grants", params(("grant" = String, Path)),
    responses((status = 200, body = GrantView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn show(State(app): State<App>, caller: Caller, Path(grant): Path<String>) -> Result<Json<GrantView>, Refusal> {
    let unknown = || Refusal::not_found("grant", &grant);
    let id = GrantId::parse(&grant).map_err(|_| unknown())?;
    let found = app.store().find_grant(&caller.principal.org, &id).await?;
    let is_own = |found: &Grant| found.requested_by.as_ref() == Some(&caller.principal.id);
    let found = found.filter(|found| caller.principal.may(Permission::Read) || is_own(found));
    Ok(Json(view(&found.ok_or_else(unknown)?)))
}

/// Gives what an agent asked for.
#[utoipa::path(operation_id = "grants_approve", post, path = "/api/v1/grants/{grant}/approve", tag = "grants", params(("grant" = String, Path)),
    responses((status = 200, body = GrantView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn approve(State(app): State<App>, caller: Caller, Path(grant): Path<String>) -> Result<Json<GrantView>, Refusal> {
    let id = answerable(&caller, &grant)?;
    changed(&grant, app.store().approve_grant(&caller.principal.org, &id, &caller.principal.id).await?)
}

/// Refuses what an agent asked for.
#[utoipa::path(operation_id = "grants_refuse", post, path = "/api/v1/grants/{grant}/refuse", tag = "grants", params(("grant" = String, Path)),
    responses((status = 200, body = GrantView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn refuse(State(app): State<App>, caller: Caller, Path(grant): Path<String>) -> Result<Json<GrantView>, Refusal> {
    let id = answerable(&caller, &grant)?;
    changed(&grant, app.store().refuse_grant(&caller.principal.org, &id, &caller.principal.id).await?)
}

/// Ends a grant at once: the next call asks a person again.
#[utoipa::path(operation_id = "grants_revoke", delete, path = "/api/v1/grants/{grant}", tag = "grants", params(("grant" = String, Path)),
    responses((status = 200, body = GrantView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn revoke(State(app): State<App>, caller: Caller, Path(grant): Path<String>) -> Result<Json<GrantView>, Refusal> {
    let id = answerable(&caller, &grant)?;
    changed(&grant, app.store().revoke_grant(&caller.principal.org, &id, &caller.principal.id).await?)
}

/// Whoever may not approve may not grant.
fn answerable(caller: &Caller, grant: &str) -> Result<GrantId, Refusal> {
    if !caller.principal.may(Permission::Approve) {
        return Err(pipeline::Error::MayNotApprove.into());
    }
    GrantId::parse(grant).map_err(|_| Refusal::not_found("grant", grant))
}

fn changed(id: &str, changed: Option<GrantChanged>) -> Result<Json<GrantView>, Refusal> {
    match changed {
        Some(GrantChanged::Done(grant)) => Ok(Json(view(&grant))),
        Some(GrantChanged::Not(state)) => {
            Err(Refusal::new(Code::GrantEnded, format!("grant `{id}` is `{}`; nothing was changed", state.as_str())))
        }
        None => Err(Refusal::not_found("grant", id)),
    }
}

/// An agent asks for its own session only, and not without end.
async fn may_ask(app: &App, caller: &Caller, terms: &GrantTerms) -> Result<(), Refusal> {
    let own = caller.principal.session.clone().map(GrantScope::Session);
    if own.as_ref() != Some(&terms.scope) {
        return Err(Refusal::new(Code::Forbidden, "an agent asks for grants of its own session only"));
    }
    let filter = GrantFilter { state: Some(GrantState::Requested), session: caller.principal.session.clone() };
    let limit = PageRequest { limit: countersign_core::limits::PAGE_ROWS_MAX, after: None };
    let open = app.store().list_grants(&caller.principal.org, &filter, &limit).await?;
    let own = open.items.iter().filter(|grant| grant.requested_by.as_ref() == Some(&caller.principal.id)).count();
    if own >= GRANT_REQUESTS_PER_SESSION_MAX {
        let message = format!("{own} requests for grants of this session wait already; retrying is safe once one is answered");
        return Err(Refusal::new(Code::TooManyPending, message));
    }
    Ok(())
}

async fn read(app: &App, caller: &Caller, body: NewGrantRequest) -> Result<NewGrant, Refusal> {
    let wrong = |message: String| Refusal::new(Code::InvalidRequest, message);
    let covers = Covers::parse(&body.covers)
        .ok_or_else(|| wrong("`covers` must be an action such as `files.write_text`, a source such as `files.*`, or `*`".to_owned()))?;
    let org = &caller.principal.org;
    let scope = match body.scope {
        GrantScopeName::Org => GrantScope::Org,
        GrantScopeName::Session => {
            let own = caller.principal.session.as_ref().map(ToString::to_string);
            let text = body.session_id.or(own).ok_or_else(|| wrong("`session_id` is missing".to_owned()))?;
            let id = SessionId::parse(&text).map_err(|_| Refusal::unknown_session())?;
            GrantScope::Session(app.store().find_session(org, &id).await?.ok_or_else(Refusal::unknown_session)?.id)
        }
        GrantScopeName::Automation => {
            let text = body.automation_id.ok_or_else(|| wrong("`automation_id` is missing".to_owned()))?;
            GrantScope::Automation(AutomationId::parse(&text).map_err(|error| wrong(error.to_string()))?)
        }
    };
    let space = match body.space_id {
        Some(text) => Some(caller.space(app, &text).await?),
        None => None,
    };
    let calls_max = calls_of(body.calls_max, body.max_calls)?;
    if let Some(condition) = &body.condition {
        if condition.to_string().len() > GRANT_CONDITION_BYTES_MAX {
            return Err(wrong(format!("`condition` is larger than {GRANT_CONDITION_BYTES_MAX} bytes")));
        }
        pipeline::check_condition(condition).map_err(|error| wrong(format!("`condition` is not a JSON Schema: {error}")))?;
    }
    if body.reason.as_ref().is_some_and(|reason| reason.chars().count() > REASON_CHARS_MAX || reason.contains('\0')) {
        return Err(wrong(format!("`reason` is longer than {REASON_CHARS_MAX} characters, or holds U+0000")));
    }
    let lifetime_seconds = match &body.expires_in {
        Some(text) => seconds_of("expires_in", text, GRANT_SECONDS_MAX)?,
        None => GRANT_SECONDS_DEFAULT,
    };
    pipeline::check_bounds(calls_max, lifetime_seconds)?;
    let definition = match covers.action() {
        Some(action) => {
            let Some(now) = app.pipeline().definition_of(org, &action).await? else {
                return Err(Refusal::unknown_action(app, org, action.as_str()).await);
            };
            if now.is_never_granted {
                let message = format!("`{action}` destroys: it is approved one call at a time and cannot be granted");
                return Err(Refusal::new(Code::NotGrantable, message));
            }
            Some(GrantedDefinition { structural: now.structural, textual: now.textual })
        }
        None => None,
    };
    let terms = GrantTerms { scope, space, covers, condition: body.condition, calls_max, definition };
    Ok(NewGrant { terms, lifetime_seconds, reason: body.reason.as_deref().map(policy::redact_text) })
}

pub(super) fn view(grant: &Grant) -> GrantView {
    let is_used_up = grant.state == GrantState::Active && grant.terms.calls_max.is_some_and(|most| grant.used >= most);
    GrantView {
        id: grant.id.to_string(),
        state: match grant.state {
            GrantState::Active if is_used_up => GrantStateName::UsedUp,
            GrantState::Requested => GrantStateName::Requested,
            GrantState::Active => GrantStateName::Active,
            GrantState::Refused => GrantStateName::Refused,
            GrantState::Revoked => GrantStateName::Revoked,
            GrantState::Expired => GrantStateName::Expired,
        },
        covers: grant.terms.covers.to_string(),
        scope: grant.terms.scope.to_string(),
        space_id: grant.terms.space.as_ref().map(ToString::to_string),
        condition: grant.terms.condition.clone(),
        calls_max: grant.terms.calls_max,
        calls_used: grant.used,
        reason: grant.reason.clone(),
        requested_by: grant.requested_by.as_ref().map(ToString::to_string),
        given_by: grant.given_by.as_ref().map(ToString::to_string),
        given_at: grant.given_at,
        givers: grant.givers.iter().map(ToString::to_string).collect(),
        invocation_id: grant.invocation.as_ref().map(ToString::to_string),
        ended_by: grant.ended_by.as_ref().map(ToString::to_string),
        ended_at: grant.ended_at,
        expires_at: grant.expires_at,
        created_at: grant.created_at,
    }
}
