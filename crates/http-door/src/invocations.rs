//! Invocations: made, read, waited for, reverted.

use super::body::{OrEmpty, Strict};
use super::caller::Caller;
use super::facts::{definition, facts};
use super::page::{Asked, WaitQuery, page_request, wanted};
use super::problem::Refusal;
use super::progress;
use super::receipts::{entry_view, plain};
use api::invocation::{
    ChangedFileView, FailureView, InvocationPage, InvocationView, InvokeRequest, InvokeResponse, ProvenanceName, RevertRequest,
};
use api::receipt::EntryView;
use api::{Code, Page, Problem};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use countersign_core::call::{Claimed, Label};
use countersign_core::changed_file::ChangedFile;
use countersign_core::effect::Scope;
use countersign_core::invocation::Intention;
use countersign_core::ports::Sessions;
use countersign_core::{ActionId, AutomationId, Call, Invocation, SessionId, Status, Tier};
use operations::App;
use operations::{answers, invocations};
use pipeline::{Outcome, Request, may_read_entries, told_to};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use store::InvocationFilter;
use utoipa::IntoParams;

/// Performs an action, or makes it pending.
///
/// With `accept: text/event-stream` the answer is a stream of what the call prints, as at `…/invocations/{invocation}/progress`, and its
/// last event is `invocation` or `problem`, with what would have been the answer.
#[utoipa::path(operation_id = "invocations_invoke", post, path = "/api/v1/sessions/{session}/actions/invoke", tag = "invocations", params(("session" = String, Path), WaitQuery),
    request_body = InvokeRequest,
    responses(
        (status = 200, description = "It succeeded; or a stream of events.", content((InvokeResponse = "application/json"), (String = "text/event-stream"))),
        (status = 202, description = "It is pending.", body = InvokeResponse),
        (status = 403, description = "It was denied; the problem has the invocation.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "It conflicts with an earlier call, or its effect is in doubt.", body = Problem, content_type = "application/problem+json"),
        (status = 429, description = "Too many calls, or too many pending ones.", body = Problem, content_type = "application/problem+json"),
        (status = 502, description = "The source failed; the problem has the invocation.", body = Problem, content_type = "application/problem+json"),
    ))]
pub(super) async fn invoke(
    State(app): State<App>,
    caller: Caller,
    Path(session): Path<String>,
    Asked(wait): Asked<WaitQuery>,
    headers: HeaderMap,
    Strict(body): Strict<InvokeRequest>,
) -> Result<Response, Refusal> {
    let session = SessionId::parse(&session).map_err(|_| Refusal::unknown_session())?;
    let approval_ref = body.approval_ref.as_deref().map(invocations::parse).transpose()?;
    let limit = wait.duration()?;
    let call = Call {
        reason: body.reason,
        scope: body.scope.map(Scope::from).unwrap_or_default(),
        commands: body.verification.unwrap_or_default().commands,
        claimed: body.context.map(Claimed::from),
        provenance: labels(body.provenance),
        ..Call::new(body.params)
    };
    let request = Request {
        idempotency_key: body.idempotency_key,
        approval_ref,
        intention: if body.dry_run { Intention::DryRun } else { Intention::Effect },
        trace_id: caller.trace_id.clone(),
        ..Request::new(caller.principal.clone(), session, body.action, call)
    };
    if progress::is_wanted(&headers) {
        let waiting = app.pipeline().call(request).held(limit).followed();
        return Ok(progress::told(waiting, answered, caller.trace_id, app.pipeline().silence()));
    }
    let outcome = app.pipeline().invoke(request).await?;
    answer(app.pipeline().wait_for_outcome(&caller.principal, outcome, limit).await)
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct SessionListQuery {
    /// Only those with this status.
    status: Option<Status>,
    /// Only calls of this action.
    action: Option<String>,
    /// Only calls of this tier.
    tier: Option<Tier>,
    /// Rows of one page, 1 to 100; 50 when absent.
    limit: Option<u32>,
    /// The `next` of the page before.
    after: Option<String>,
}

fn action_of(text: Option<&str>) -> Result<Option<ActionId>, Refusal> {
    text.map(|text| wanted(text, "action", |text| ActionId::parse(text).ok())).transpose()
}

/// Invocations of one session, newest first. If an agent asks for a status, a page may have fewer rows than its limit.
#[utoipa::path(operation_id = "invocations_list_of_session", get, path = "/api/v1/sessions/{session}/actions/invocations", tag = "invocations",
    params(("session" = String, Path), SessionListQuery),
    responses((status = 200, body = InvocationPage)))]
pub(super) async fn list_of_session(
    State(app): State<App>,
    caller: Caller,
    Path(session): Path<String>,
    Asked(query): Asked<SessionListQuery>,
) -> Result<Json<InvocationPage>, Refusal> {
    let session = caller.readable_session(&app, &session).await?;
    // An agent is told `denied` of some calls that were quarantined, so these two are told apart afterwards.
    let is_told = |status: &Status| caller.must_read().is_ok() || !matches!(status, Status::Denied | Status::Quarantined);
    let filter = InvocationFilter {
        session: Some(session.id),
        status: query.status.filter(is_told),
        action: action_of(query.action.as_deref())?,
        tier: query.tier,
        ..InvocationFilter::default()
    };
    let page = app.store().list_invocations(&session.org, &filter, &page_request(query.limit, query.after)?).await?;
    let told = page.items.into_iter().map(|invocation| told_to(&caller.principal, invocation));
    let items = told.filter(|invocation| query.status.is_none_or(|wanted| invocation.status == wanted)).collect();
    Ok(Json(InvocationPage { items: listed(&app, items).await?, next: page.next, total: None }))
}

/// One invocation of a session; `?wait=30s` holds the answer back until it is final.
#[utoipa::path(operation_id = "invocations_show_in_session", get, path = "/api/v1/sessions/{session}/actions/invocations/{invocation}", tag = "invocations",
    params(("session" = String, Path), ("invocation" = String, Path), WaitQuery),
    responses((status = 200, body = InvokeResponse)))]
pub(super) async fn show_in_session(
    State(app): State<App>,
    caller: Caller,
    Path((session, invocation)): Path<(String, String)>,
    Asked(wait): Asked<WaitQuery>,
) -> Result<Json<InvokeResponse>, Refusal> {
    let session = caller.readable_session(&app, &session).await?;
    let found = told_to(&caller.principal, invocations::of_session(&app, &session, &invocation).await?);
    let found = app.pipeline().wait_for_end(&caller.principal, found, wait.duration()?).await;
    Ok(Json(shown(&app, found).await?))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    /// Only those with this status.
    status: Option<Status>,
    /// Only calls of this action.
    action: Option<String>,
    /// Only calls of this session.
    session: Option<String>,
    /// Only calls of this tier.
    tier: Option<Tier>,
    /// Only calls that their callers gave this `action_id`. Two callers may have chosen the same.
    action_id: Option<String>,
    /// Only calls of runs of this automation.
    automation: Option<String>,
    /// Only calls that a person answered.
    answered: Option<bool>,
    /// Leaves out what the caller has snoozed.
    awake: Option<bool>,
    /// Only those whose effect can still be reverted. A page may then have fewer rows than its limit.
    revertible: Option<bool>,
    /// Adds `total`, on every page.
    count: Option<bool>,
    /// Rows of one page, 1 to 100; 50 when absent.
    limit: Option<u32>,
    /// The `next` of the page before.
    after: Option<String>,
}

/// Invocations of the org, newest first.
#[utoipa::path(operation_id = "invocations_list", get, path = "/api/v1/invocations", tag = "invocations", params(ListQuery),
    responses((status = 200, body = InvocationPage)))]
pub(super) async fn list(State(app): State<App>, caller: Caller, Asked(query): Asked<ListQuery>) -> Result<Json<InvocationPage>, Refusal> {
    caller.must_read()?;
    let is_for_reverting = query.revertible == Some(true);
    let filter = InvocationFilter {
        session: query.session.as_deref().map(|text| wanted(text, "session", |text| SessionId::parse(text).ok())).transpose()?,
        // What has not succeeded has no effect to revert.
        status: query.status.or(is_for_reverting.then_some(Status::Succeeded)),
        action: action_of(query.action.as_deref())?,
        tier: query.tier,
        action_id: query.action_id.map(|text| plain(text, "action_id")).transpose()?,
        automation: query
            .automation
            .as_deref()
            .map(|text| wanted(text, "automation", |text| AutomationId::parse(text).ok()))
            .transpose()?,
        answered: query.answered == Some(true),
        hidden: caller.hidden(&app).await?,
    };
    let request = page_request(query.limit, query.after)?;
    let mut page = app.store().list_invocations(&caller.principal.org, &filter, &request).await?;
    if query.awake == Some(true) {
        let snoozed = answers::snoozed(&app, &caller.principal).await?;
        page.items.retain(|invocation| !snoozed.contains_key(&invocation.id));
    }
    let total = match query.count {
        Some(true) => Some(app.store().count_invocations(&caller.principal.org, &filter).await?),
        Some(false) | None => None,
    };
    let (items, next) = if is_for_reverting {
        revertible(&app, &caller, &filter, request.limit, page).await?
    } else {
        (listed(&app, page.items).await?, page.next)
    };
    Ok(Json(InvocationPage { items, next, total }))
}

/// Pages that are searched for one effect that can be reverted, before the caller is asked to go on.
const REVERTIBLE_PAGES_MAX: usize = 20;

/// Those of a page that can be reverted, or of the next page that has any: most calls only read, and a page of them says nothing.
async fn revertible(
    app: &App,
    caller: &Caller,
    filter: &InvocationFilter,
    limit: u32,
    mut page: store::Page<Invocation>,
) -> Result<(Vec<InvocationView>, Option<String>), Refusal> {
    let mut pages = 1;
    loop {
        let mut items = listed(app, app.pipeline().with_a_way_back(page.items).await?).await?;
        items.retain(|invocation| invocation.reverted_by.is_none());
        if !items.is_empty() || page.next.is_none() || pages == REVERTIBLE_PAGES_MAX {
            return Ok((items, page.next));
        }
        pages += 1;
        page = app.store().list_invocations(&caller.principal.org, filter, &page_request(Some(limit), page.next)?).await?;
    }
}

/// One invocation; `?wait=30s` holds the answer back until it is final.
#[utoipa::path(operation_id = "invocations_show", get, path = "/api/v1/invocations/{invocation}", tag = "invocations", params(("invocation" = String, Path), WaitQuery),
    responses((status = 200, body = InvokeResponse)))]
pub(super) async fn show(
    State(app): State<App>,
    caller: Caller,
    Path(invocation): Path<String>,
    Asked(wait): Asked<WaitQuery>,
) -> Result<Json<InvokeResponse>, Refusal> {
    let found = invocations::readable(&app, &caller.principal, &invocation).await?;
    let found = app.pipeline().wait_for_end(&caller.principal, found, wait.duration()?).await;
    let mut shown = shown(&app, found.clone()).await?;
    // They are for people: an agent that waits for its call is told how it ended.
    if caller.must_read().is_ok() {
        let action = definition(&app, &shown.invocation, &found.org, None).await;
        shown.invocation.facts = facts(&app, &found, &shown.invocation, action.as_deref(), None).await;
    }
    Ok(Json(shown))
}

/// Reverts the effect of an invocation that succeeded, as a call of its own.
#[utoipa::path(operation_id = "invocations_revert", post, path = "/api/v1/invocations/{invocation}/revert", tag = "invocations", params(("invocation" = String, Path), WaitQuery),
    request_body = RevertRequest,
    responses(
        (status = 200, description = "It was reverted.", body = InvokeResponse),
        (status = 202, description = "The revert is pending.", body = InvokeResponse),
        (status = 502, body = Problem, content_type = "application/problem+json"),
    ))]
pub(super) async fn revert(
    State(app): State<App>,
    caller: Caller,
    Path(invocation): Path<String>,
    Asked(wait): Asked<WaitQuery>,
    OrEmpty(body): OrEmpty<RevertRequest>,
) -> Result<Response, Refusal> {
    let found = invocations::readable(&app, &caller.principal, &invocation).await?;
    let limit = wait.duration()?;
    let outcome = app.pipeline().revert(&caller.principal, &found.id, body.reason, caller.trace_id.clone()).await?;
    answer(app.pipeline().wait_for_outcome(&caller.principal, outcome, limit).await)
}

/// Lists what the audit log has on one invocation, in order: the answers of people, its intents and its receipt. An agent gets none of a call that a gate denied.
#[utoipa::path(operation_id = "invocations_entries", get, path = "/api/v1/invocations/{invocation}/entries", tag = "receipts", params(("invocation" = String, Path)),
    responses((status = 200, body = Page<EntryView>)))]
pub(super) async fn entries(
    State(app): State<App>,
    caller: Caller,
    Path(invocation): Path<String>,
) -> Result<Json<Page<EntryView>>, Refusal> {
    let found = invocations::readable(&app, &caller.principal, &invocation).await?;
    if !may_read_entries(&caller.principal, &found) {
        return Ok(Json(Page { items: Vec::new(), next: None }));
    }
    let entries = app.store().list_entries_of(&found.org, &found.id).await?;
    Ok(Json(Page { items: entries.iter().map(entry_view).collect::<Result<_, _>>()?, next: None }))
}

pub(super) fn labels(provenance: BTreeMap<String, ProvenanceName>) -> BTreeMap<String, Label> {
    let label = |name| match name {
        ProvenanceName::User => Label::User,
        ProvenanceName::ActionOutput => Label::ActionOutput,
        ProvenanceName::Web => Label::Web,
    };
    provenance.into_iter().map(|(pointer, name)| (pointer, label(name))).collect()
}

/// The status codes: 200 with the result, 202 while it waits, 403 and 502 with the invocation in the problem.
pub(super) fn answer(outcome: Outcome) -> Result<Response, Refusal> {
    let (status, body) = answered(outcome)?;
    written(status, &body)
}

pub(super) fn answered(outcome: Outcome) -> progress::Answered {
    let (invocation, result, replayed) = match outcome {
        Outcome::Pending(invocation) => {
            let message = match invocation.status {
                Status::Approved if invocation.batch.is_some() => "Action is approved; it starts when every part of its batch may",
                Status::Approved | Status::Running => "Action is approved; it starts soon, or when its caller asks for it again",
                Status::Pending
                | Status::Succeeded
                | Status::Failed
                | Status::Reverted
                | Status::Denied
                | Status::Quarantined
                | Status::Expired
                | Status::Cancelled
                | Status::InDoubt => "Action requires approval",
            };
            let body =
                InvokeResponse { invocation: (*invocation).into(), result: None, message: Some(message.to_owned()), replayed: false };
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
pub(super) fn written(status: StatusCode, body: &impl Serialize) -> Result<Response, Refusal> {
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

/// Each with the title of its session, what reverted it and, while it is pending, why an approval would run nothing and whether its caller
/// has left.
async fn listed(app: &App, invocations: Vec<Invocation>) -> Result<Vec<InvocationView>, Refusal> {
    let reverts = app.store().find_reverts(&invocations).await?;
    let mut views = Vec::with_capacity(invocations.len());
    for invocation in invocations {
        let reverted_by = reverts.get(&invocation.id).map(ToString::to_string);
        let session_title = app.store().find_session(&invocation.org, &invocation.session).await?.map(|session| session.title);
        let void = void_of(app, &invocation).await?;
        let may_be_left = matches!(invocation.status, Status::Pending | Status::Approved);
        let caller_left = may_be_left && app.pipeline().is_left_by_caller(&invocation).await?;
        views.push(InvocationView { reverted_by, session_title, void, caller_left, ..InvocationView::from(invocation) });
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
        let change = if invocation.intention == Intention::Revert { file.change.reverted() } else { file.change };
        // A name is the caller's choice, like any param.
        ChangedFileView { path: policy::redact_text(&file.path), change }
    };
    countersign_core::changed_file::changed_files(evidence).into_iter().map(view).collect()
}
