//! Invocations: asked for, read, waited for, taken back.

use super::body::{OrEmpty, Strict};
use super::caller::Caller;
use super::page::{Asked, WaitQuery, page_request, wanted};
use super::problem::Refusal;
use super::progress;
use super::receipts::entry_view;
use crate::App;
use api::invocation::{ChangedFileView, FailureView, InvocationView, InvokeRequest, InvokeResponse, ProvenanceName, RevertRequest};
use api::receipt::EntryView;
use api::{Code, Page, Problem};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use countersign_core::changed_file::ChangedFile;
use countersign_core::effect::{Bounds, Scope};
use countersign_core::invocation::{Claimed, Intention};
use countersign_core::ports::{Invocations, Sessions};
use countersign_core::principal::Permission;
use countersign_core::{ActionId, Invocation, InvocationId, OrgId, PrincipalId, SessionId, Status, Tier};
use pipeline::{Outcome, Request, may_read_entries, told_to};
use policy::scan::Label;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;
use store::InvocationFilter;
use tracing::Instrument;
use utoipa::IntoParams;

/// Performs an action, or holds it for a person.
///
/// With `accept: text/event-stream` the answer is a stream of what the call prints, as at `…/invocations/{invocation}/progress`, and its
/// last event is `invocation` or `problem`, with what would have been the answer.
#[utoipa::path(operation_id = "invocations_invoke", post, path = "/api/v1/sessions/{session}/actions/invoke", tag = "invocations", params(("session" = String, Path), WaitQuery),
    request_body = InvokeRequest,
    responses(
        (status = 200, description = "It succeeded; or events.", content((InvokeResponse = "application/json"), (String = "text/event-stream"))),
        (status = 202, description = "It waits for a person.", body = InvokeResponse),
        (status = 403, description = "It was denied; the problem carries the invocation.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "It conflicts with an earlier call, or its effect is in doubt.", body = Problem, content_type = "application/problem+json"),
        (status = 429, description = "Too often, or too much is pending.", body = Problem, content_type = "application/problem+json"),
        (status = 502, description = "The source did not do it; the problem carries the invocation.", body = Problem, content_type = "application/problem+json"),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    ))]
pub(super) async fn invoke(
    State(app): State<App>,
    caller: Caller,
    Path(session): Path<String>,
    Asked(wait): Asked<WaitQuery>,
    headers: HeaderMap,
    Strict(body): Strict<InvokeRequest>,
) -> Result<Response, Refusal> {
    let unknown = || Refusal::new(Code::UnknownSession, "there is no such session").hint("create one with `countersign session create`");
    let session = SessionId::parse(&session).map_err(|_| unknown())?;
    let approval_ref = body.approval_ref.as_deref().map(parse_id).transpose()?;
    let limit = wait.duration()?;
    let org = caller.principal.org.clone();
    let trace_id = caller.trace_id.clone();
    let request = Request {
        principal: caller.principal,
        session,
        action: body.action,
        params: body.params,
        idempotency_key: body.idempotency_key,
        approval_ref,
        intention: if body.dry_run { Intention::DryRun } else { Intention::Effect },
        reason: body.reason,
        claimed: body.context.map(Claimed::from),
        provenance: labels(body.provenance),
        reverses: None,
        scope: body.scope.map(Scope::from).unwrap_or_default(),
        bounds: Bounds::default(),
        commands: body.verification.unwrap_or_default().commands,
        trace_id: caller.trace_id,
    };
    if !progress::is_wanted(&headers) {
        let outcome = app.pipeline().invoke(request).await?;
        return answer(waited(&app, &org, outcome, limit).await?);
    }
    let (follower, walk) = app.pipeline().invoke_followed(request);
    let walk = async move { answered(waited(&app, &org, walk.await?, limit).await?) };
    Ok(progress::told(follower, walk.in_current_span(), trace_id))
}

/// The caller holds the line: the answer is what became of it, or that it still waits.
async fn waited(app: &App, org: &OrgId, outcome: Outcome, limit: Duration) -> Result<Outcome, Refusal> {
    if let Outcome::Pending(invocation) = &outcome
        && !limit.is_zero()
    {
        return Ok(as_outcome(app.pipeline().watch(org, &invocation.id, limit).await?));
    }
    Ok(outcome)
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct SessionListQuery {
    status: Option<String>,
    action: Option<String>,
    /// `R0` to `R4`.
    tier: Option<String>,
    /// Rows of one page, 1 to 100; 50 when absent.
    limit: Option<u32>,
    /// The `next` of the page before.
    after: Option<String>,
}

fn status_of(text: Option<&str>) -> Result<Option<Status>, Refusal> {
    text.map(|text| wanted(text, "status", Status::parse)).transpose()
}

fn action_of(text: Option<&str>) -> Result<Option<ActionId>, Refusal> {
    text.map(|text| wanted(text, "action", |text| ActionId::parse(text).ok())).transpose()
}

fn tier_of(text: Option<&str>) -> Result<Option<Tier>, Refusal> {
    text.map(|text| wanted(text, "tier", Tier::parse)).transpose()
}

/// Invocations of one session, newest first.
#[utoipa::path(operation_id = "invocations_list_of_session", get, path = "/api/v1/sessions/{session}/actions/invocations", tag = "invocations",
    params(("session" = String, Path), SessionListQuery),
    responses((status = 200, body = Page<InvocationView>), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn list_of_session(
    State(app): State<App>,
    caller: Caller,
    Path(session): Path<String>,
    Asked(query): Asked<SessionListQuery>,
) -> Result<Json<Page<InvocationView>>, Refusal> {
    let session = caller.readable_session(&app, &session).await?;
    let filter = InvocationFilter {
        session: Some(session.id),
        status: status_of(query.status.as_deref())?,
        action: action_of(query.action.as_deref())?,
        tier: tier_of(query.tier.as_deref())?,
    };
    let page = app.store().list_invocations(&session.org, &filter, &page_request(query.limit, query.after)?).await?;
    let items = page.items.into_iter().map(|invocation| told_to(&caller.principal, invocation)).collect();
    Ok(Json(Page { items: listed(&app, items).await?, next: page.next }))
}

/// One invocation of a session; `?wait=30s` holds the answer back until it is final.
#[utoipa::path(operation_id = "invocations_show_in_session", get, path = "/api/v1/sessions/{session}/actions/invocations/{invocation}", tag = "invocations",
    params(("session" = String, Path), ("invocation" = String, Path), WaitQuery),
    responses((status = 200, body = InvokeResponse), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn show_in_session(
    State(app): State<App>,
    caller: Caller,
    Path((session, invocation)): Path<(String, String)>,
    Asked(wait): Asked<WaitQuery>,
) -> Result<Json<InvokeResponse>, Refusal> {
    let session = caller.readable_session(&app, &session).await?;
    let id = of_session(&app, &session, &invocation).await?;
    let invocation = app.pipeline().watch(&session.org, &id, wait.duration()?).await?;
    Ok(Json(shown(&app, told_to(&caller.principal, invocation)).await?))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    status: Option<String>,
    action: Option<String>,
    session: Option<String>,
    /// `R0` to `R4`.
    tier: Option<String>,
    /// Leaves out what the caller has snoozed.
    awake: Option<bool>,
    /// Only those whose effect stands and could be taken back, by what was kept of it. A page may then have fewer rows than its limit.
    revertible: Option<bool>,
    /// Rows of one page, 1 to 100; 50 when absent.
    limit: Option<u32>,
    /// The `next` of the page before.
    after: Option<String>,
}

/// Invocations of the org, newest first.
#[utoipa::path(operation_id = "invocations_list", get, path = "/api/v1/invocations", tag = "invocations", params(ListQuery),
    responses((status = 200, body = Page<InvocationView>), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    Asked(query): Asked<ListQuery>,
) -> Result<Json<Page<InvocationView>>, Refusal> {
    caller.must(Permission::Read)?;
    let is_for_reverting = query.revertible == Some(true);
    let status = status_of(query.status.as_deref())?;
    let filter = InvocationFilter {
        session: query.session.as_deref().map(|text| wanted(text, "session", |text| SessionId::parse(text).ok())).transpose()?,
        // What has not succeeded has no effect to take back.
        status: status.or(is_for_reverting.then_some(Status::Succeeded)),
        action: action_of(query.action.as_deref())?,
        tier: tier_of(query.tier.as_deref())?,
    };
    let request = page_request(query.limit, query.after)?;
    let mut page = app.store().list_invocations(&caller.principal.org, &filter, &request).await?;
    if let (Some(true), PrincipalId::User(user)) = (query.awake, &caller.principal.id) {
        let snoozed = app.store().list_snoozes(&caller.principal.org, user).await?;
        page.items.retain(|invocation| !snoozed.contains_key(&invocation.id));
    }
    if is_for_reverting {
        return revertible(&app, &caller, &filter, request.limit, page).await;
    }
    Ok(Json(Page { items: listed(&app, page.items).await?, next: page.next }))
}

/// Pages that are looked through for one effect that can be taken back, before the caller is asked to go on.
const REVERTIBLE_PAGES_MAX: usize = 20;

/// Those of a page that can be taken back, or of the next page that has any: most calls only read, and a page of them says nothing.
async fn revertible(
    app: &App,
    caller: &Caller,
    filter: &InvocationFilter,
    limit: u32,
    mut page: store::Page<Invocation>,
) -> Result<Json<Page<InvocationView>>, Refusal> {
    let mut pages = 1;
    loop {
        let mut items = listed(app, app.pipeline().with_a_way_back(page.items).await?).await?;
        items.retain(|invocation| invocation.taken_back_by.is_none());
        if !items.is_empty() || page.next.is_none() || pages == REVERTIBLE_PAGES_MAX {
            return Ok(Json(Page { items, next: page.next }));
        }
        pages += 1;
        page = app.store().list_invocations(&caller.principal.org, filter, &page_request(Some(limit), page.next)?).await?;
    }
}

/// One invocation; `?wait=30s` holds the answer back until it is final.
#[utoipa::path(operation_id = "invocations_show", get, path = "/api/v1/invocations/{invocation}", tag = "invocations", params(("invocation" = String, Path), WaitQuery),
    responses((status = 200, body = InvokeResponse), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn show(
    State(app): State<App>,
    caller: Caller,
    Path(invocation): Path<String>,
    Asked(wait): Asked<WaitQuery>,
) -> Result<Json<InvokeResponse>, Refusal> {
    let found = readable(&app, &caller, &invocation).await?;
    let limit = wait.duration()?;
    let found = if limit == Duration::ZERO { found } else { app.pipeline().watch(&found.org, &found.id, limit).await? };
    Ok(Json(shown(&app, told_to(&caller.principal, found)).await?))
}

/// Takes back the effect of an invocation that succeeded, as a call of its own.
#[utoipa::path(operation_id = "invocations_revert", post, path = "/api/v1/invocations/{invocation}/revert", tag = "invocations", params(("invocation" = String, Path), WaitQuery),
    request_body = RevertRequest,
    responses(
        (status = 200, description = "It is taken back.", body = InvokeResponse),
        (status = 202, description = "Taking it back waits for a person.", body = InvokeResponse),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
        (status = 502, body = Problem, content_type = "application/problem+json"),
    ))]
pub(super) async fn revert(
    State(app): State<App>,
    caller: Caller,
    Path(invocation): Path<String>,
    Asked(wait): Asked<WaitQuery>,
    OrEmpty(body): OrEmpty<RevertRequest>,
) -> Result<Response, Refusal> {
    let found = readable(&app, &caller, &invocation).await?;
    let limit = wait.duration()?;
    let outcome = app.pipeline().revert(&caller.principal, &found.id, body.reason, caller.trace_id.clone()).await?;
    answer(waited(&app, &found.org, outcome, limit).await?)
}

/// Everything the log says of one invocation, in order: its intents and its receipt. An agent gets none of a call that a gate denied.
#[utoipa::path(operation_id = "invocations_entries", get, path = "/api/v1/invocations/{invocation}/entries", tag = "receipts", params(("invocation" = String, Path)),
    responses((status = 200, body = Page<EntryView>), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn entries(
    State(app): State<App>,
    caller: Caller,
    Path(invocation): Path<String>,
) -> Result<Json<Page<EntryView>>, Refusal> {
    let found = readable(&app, &caller, &invocation).await?;
    if !may_read_entries(&caller.principal, &found) {
        return Ok(Json(Page { items: Vec::new(), next: None }));
    }
    let entries = app.store().list_entries_of(&found.org, &found.id).await?;
    Ok(Json(Page { items: entries.iter().map(entry_view).collect::<Result<_, _>>()?, next: None }))
}

pub(super) async fn of_session(app: &App, session: &countersign_core::Session, text: &str) -> Result<InvocationId, Refusal> {
    let id = parse_id(text)?;
    let found = app.store().find_invocation(&session.org, &id).await?.filter(|found| found.session == session.id);
    found.map(|found| found.id).ok_or_else(|| Refusal::not_found("invocation", text))
}

/// The invocation, if the caller may read it.
pub(super) async fn readable(app: &App, caller: &Caller, text: &str) -> Result<Invocation, Refusal> {
    let id = parse_id(text)?;
    let found = app.store().find_invocation(&caller.principal.org, &id).await?;
    let readable = |found: &Invocation| {
        caller.principal.may(Permission::Read)
            || (caller.principal.may(Permission::ReadSession) && caller.principal.session.as_ref() == Some(&found.session))
    };
    found.filter(readable).map(|found| told_to(&caller.principal, found)).ok_or_else(|| Refusal::not_found("invocation", text))
}

pub(super) fn parse_id(text: &str) -> Result<InvocationId, Refusal> {
    InvocationId::parse(text).map_err(|_| Refusal::not_found("invocation", text))
}

pub(super) fn labels(provenance: BTreeMap<String, ProvenanceName>) -> BTreeMap<String, Label> {
    let label = |name| match name {
        ProvenanceName::User => Label::User,
        ProvenanceName::ActionOutput => Label::ActionOutput,
        ProvenanceName::Web => Label::Web,
    };
    provenance.into_iter().map(|(pointer, name)| (pointer, label(name))).collect()
}

/// The word a label is kept by.
pub(super) const fn label_word(name: ProvenanceName) -> &'static str {
    match name {
        ProvenanceName::User => "user",
        ProvenanceName::ActionOutput => "action_output",
        ProvenanceName::Web => "web",
    }
}

/// What a finished wait amounts to.
fn as_outcome(invocation: Invocation) -> Outcome {
    let invocation = Box::new(invocation);
    match invocation.status {
        Status::Pending | Status::Approved | Status::Running => Outcome::Pending(invocation),
        Status::InDoubt => Outcome::InDoubt(invocation),
        Status::Succeeded
        | Status::Failed
        | Status::Reverted
        | Status::Denied
        | Status::Quarantined
        | Status::Expired
        | Status::Cancelled => Outcome::Ended { result: invocation.result.clone(), invocation },
    }
}

/// The status codes of seed's contract: 200 with the result, 202 while it waits, 403 and 502 with the invocation in the problem.
pub(super) fn answer(outcome: Outcome) -> Result<Response, Refusal> {
    let (status, body) = answered(outcome)?;
    written(status, &body)
}

fn answered(outcome: Outcome) -> progress::Answered {
    let (invocation, result, replayed) = match outcome {
        Outcome::Pending(invocation) => {
            let id = &invocation.id;
            let message = match (invocation.status, invocation.approvals.len()) {
                (Status::Pending, 0) => format!("`{id}` waits for a person"),
                (Status::Pending, people) => format!("`{id}` waits for more people; {people} said yes"),
                (Status::Approved, _) if invocation.batch.is_some() => format!("`{id}` is approved; it runs once its whole batch may"),
                _ => format!("`{id}` is approved, and on its way"),
            };
            let body = InvokeResponse { invocation: (*invocation).into(), result: None, message: Some(message), replayed: false };
            return Ok((StatusCode::ACCEPTED, body));
        }
        Outcome::InDoubt(invocation) => {
            let why = invocation.failure.as_ref().map_or("", |failure| failure.message.as_str());
            let detail = format!("the effect of `{}` may have happened: {why}; do not retry, reconcile it", invocation.id);
            let mut refusal = Refusal::ended(Code::InDoubt, *invocation);
            refusal.0.detail = detail;
            return Err(refusal);
        }
        Outcome::Ended { invocation, result } => (invocation, result, false),
        Outcome::Replayed(invocation) => {
            let result = invocation.result.clone();
            (invocation, result, true)
        }
    };
    match invocation.status {
        Status::Succeeded => Ok((StatusCode::OK, InvokeResponse { invocation: (*invocation).into(), result, message: None, replayed })),
        Status::Denied | Status::Quarantined => Err(Refusal::denied(*invocation)),
        Status::Expired => Err(Refusal::ended(Code::Expired, *invocation)),
        Status::Cancelled => Err(Refusal::ended(Code::AlreadyEnded, *invocation)),
        Status::Failed | Status::Reverted | Status::Pending | Status::Approved | Status::Running | Status::InDoubt => {
            Err(Refusal::ended(Code::SourceFailed, *invocation))
        }
    }
}

/// Like `Json`, and in one piece: room for a whole answer instead of many small ones.
pub(super) fn written(status: StatusCode, body: &InvokeResponse) -> Result<Response, Refusal> {
    let mut text = Vec::with_capacity(4_096);
    serde_json::to_writer(&mut text, body).map_err(|error| Refusal::new(Code::Internal, error.to_string()))?;
    Ok((status, [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], text).into_response())
}

/// One by itself, with the files it changed.
pub(super) async fn shown(app: &App, invocation: Invocation) -> Result<InvokeResponse, Refusal> {
    let result = invocation.result.clone();
    let changed_files = changed_files(&invocation);
    let mut views = listed(app, vec![invocation]).await?;
    let invocation = views.pop().ok_or_else(|| Refusal::new(Code::Internal, "an invocation has no view"))?;
    Ok(InvokeResponse { invocation: InvocationView { changed_files, ..invocation }, result, message: None, replayed: false })
}

/// Each with the title of its session, what reverted it and, while it is pending, why an approval would run nothing.
async fn listed(app: &App, invocations: Vec<Invocation>) -> Result<Vec<InvocationView>, Refusal> {
    let reverts = app.store().find_reverts(&invocations).await?;
    let mut views = Vec::with_capacity(invocations.len());
    for invocation in invocations {
        let taken_back_by = reverts.get(&invocation.id).map(ToString::to_string);
        let session_title = app.store().find_session(&invocation.org, &invocation.session).await?.map(|session| session.title);
        let void = void_of(app, &invocation).await?;
        views.push(InvocationView { taken_back_by, session_title, void, ..InvocationView::from(invocation) });
    }
    Ok(views)
}

async fn void_of(app: &App, invocation: &Invocation) -> Result<Option<FailureView>, Refusal> {
    if invocation.status != Status::Pending {
        return Ok(None);
    }
    match app.pipeline().void_reason(invocation).await {
        Ok(why) => Ok(why.map(|why| FailureView { code: why.code, message: why.message })),
        // Answered since the list was read.
        Err(pipeline::Error::Conflict { .. }) => Ok(None),
        Err(other) => Err(other.into()),
    }
}

/// What was kept before the effect is there whether or not it was made: only where something was made does it tell what changed.
fn changed_files(invocation: &Invocation) -> Vec<ChangedFileView> {
    let was_made = match invocation.status {
        Status::Succeeded | Status::Reverted | Status::InDoubt => true,
        Status::Failed => invocation.aftermath.is_left_over(),
        Status::Pending
        | Status::Approved
        | Status::Running
        | Status::Denied
        | Status::Quarantined
        | Status::Expired
        | Status::Cancelled => false,
    };
    let Some(evidence) = invocation.evidence.as_ref().filter(|_| was_made) else { return Vec::new() };
    let view = |file: ChangedFile| {
        let change = if invocation.intention == Intention::Revert { file.change.undone() } else { file.change };
        // A name is the caller's choice, like any param.
        ChangedFileView { path: policy::redact_text(&file.path), change: change.as_str().into() }
    };
    countersign_core::changed_file::changed_files(evidence).into_iter().map(view).collect()
}
