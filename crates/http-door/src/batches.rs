//! Several actions in one request.

use super::body::Strict;
use super::caller::Caller;
use super::invocations::labels;
use super::page::{Asked, WaitQuery, page_request};
use super::problem::Refusal;
use api::batch::{BatchRequest, BatchView, PartRequest};
use api::{Page, Problem};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use countersign_core::batch::{BatchStatus, Part};
use countersign_core::call::Claimed;
use countersign_core::effect::Scope;
use countersign_core::invocation::Intention;
use countersign_core::ports::Invocations;
use countersign_core::{Batch, Call, Invocation, Principal, SessionId, Status};
use operations::App;
use operations::invocations::readable_batch;
use pipeline::{Batched, told_to};
use serde::Deserialize;
use utoipa::IntoParams;

/// Performs several actions in order, together or each for itself. The answer is what became of them, whatever that is.
#[utoipa::path(operation_id = "batches_create", post, path = "/api/v1/sessions/{session}/actions/batch", tag = "batches", params(("session" = String, Path), WaitQuery),
    request_body = BatchRequest,
    responses(
        (status = 200, description = "It has ended; `status` says how.", body = BatchView),
        (status = 202, description = "Some part is pending.", body = BatchView),
        (status = 422, description = "These calls cannot be made together.", body = Problem, content_type = "application/problem+json"),
    ))]
pub(super) async fn create(
    State(app): State<App>,
    caller: Caller,
    Path(session): Path<String>,
    Asked(wait): Asked<WaitQuery>,
    Strict(body): Strict<BatchRequest>,
) -> Result<(StatusCode, Json<BatchView>), Refusal> {
    let unknown = || Refusal::unknown_session();
    let session = SessionId::parse(&session).map_err(|_| unknown())?;
    let limit = wait.duration()?;
    let (principal, org) = (caller.principal.clone(), caller.principal.org.clone());
    let request = pipeline::BatchRequest {
        principal: caller.principal,
        session,
        mode: body.mode,
        intention: if body.dry_run { Intention::DryRun } else { Intention::Effect },
        parts: body.actions.into_iter().map(part).collect(),
        idempotency_key: body.idempotency_key,
        reason: body.reason,
        trace_id: caller.trace_id,
    };
    let Batched { mut batch, results } = app.pipeline().batch(request).await?;
    if !batch.status.is_final() && !limit.is_zero() {
        // The batch is stored: a wait that fails must not look as if the batch had failed.
        batch = app.pipeline().watch_batch(&org, &batch.id, limit).await.ok().flatten().unwrap_or(batch);
    }
    let status = if batch.status.is_final() { StatusCode::OK } else { StatusCode::ACCEPTED };
    let id = batch.id.clone();
    let mut view = shown(&app, &principal, batch).await.map_err(|_| pipeline::Error::BatchUnrecorded { batch: id })?;
    for (part, whole) in view.parts.iter_mut().zip(results) {
        part.result = whole.or_else(|| part.result.take());
    }
    Ok((status, Json(view)))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    /// Only those of this session.
    session: Option<String>,
    /// Rows of one page, 1 to 100; 50 when absent.
    limit: Option<u32>,
    /// The `next` of the page before.
    after: Option<String>,
}

/// Batches, newest first. An agent names its own session.
#[utoipa::path(operation_id = "batches_list", get, path = "/api/v1/batches", tag = "batches", params(ListQuery),
    responses((status = 200, body = Page<BatchView>)))]
pub(super) async fn list(State(app): State<App>, caller: Caller, Asked(query): Asked<ListQuery>) -> Result<Json<Page<BatchView>>, Refusal> {
    let session = match query.session.as_deref() {
        Some(session) => Some(caller.readable_session(&app, session).await?.id),
        None => {
            caller.must_read()?;
            None
        }
    };
    let request = page_request(query.limit, query.after)?;
    let page = app.store().list_batches(&caller.principal.org, session.as_ref(), &caller.hidden(&app).await?, &request).await?;
    let mut items = Vec::with_capacity(page.items.len());
    for batch in page.items {
        items.push(if batch.parts.iter().any(was_refused) { shown(&app, &caller.principal, batch).await? } else { BatchView::from(batch) });
    }
    Ok(Json(Page { items, next: page.next }))
}

/// One batch with what became of its parts; `?wait=30s` holds the answer back until it is final.
#[utoipa::path(operation_id = "batches_show", get, path = "/api/v1/batches/{batch}", tag = "batches", params(("batch" = String, Path), WaitQuery),
    responses((status = 200, body = BatchView)))]
pub(super) async fn show(
    State(app): State<App>,
    caller: Caller,
    Path(batch): Path<String>,
    Asked(wait): Asked<WaitQuery>,
) -> Result<Json<BatchView>, Refusal> {
    let found = readable_batch(&app, &caller.principal, &batch).await?;
    let found = app.pipeline().watch_batch(&found.org, &found.id, wait.duration()?).await?.unwrap_or(found);
    Ok(Json(shown(&app, &caller.principal, found).await?))
}

/// Whether the part was denied or quarantined: an agent is told less of that than is stored.
fn was_refused(part: &Part) -> bool {
    matches!(part.status, Some(Status::Denied | Status::Quarantined))
}

/// With what the parts answered, as it is kept, and where their receipts stand. While it goes on, also with how each part stands this
/// moment.
async fn shown(app: &App, principal: &Principal, mut batch: Batch) -> Result<BatchView, Refusal> {
    let (mut invocations, mut undoings) = (Vec::with_capacity(batch.parts.len()), Vec::with_capacity(batch.parts.len()));
    for part in &mut batch.parts {
        let invocation = app.store().find_invocation(&batch.org, &part.invocation).await?;
        let invocation = invocation.map(|invocation| told_to(principal, invocation));
        let goes_on = matches!(batch.status, BatchStatus::Pending | BatchStatus::Running);
        if let Some(invocation) = invocation.as_ref().filter(|_| goes_on || was_refused(part)) {
            part.note(invocation);
        }
        invocations.push(invocation);
        undoings.push(match part.revert.as_ref().and_then(|revert| revert.invocation.as_ref()) {
            Some(undoing) => app.store().find_invocation(&batch.org, undoing).await?,
            None => None,
        });
    }
    let seq = |invocation: &Invocation| invocation.receipt.as_ref().map(|receipt| receipt.seq);
    let mut view = BatchView::from(batch);
    for ((part, invocation), undoing) in view.parts.iter_mut().zip(invocations).zip(undoings) {
        part.receipt_seq = invocation.as_ref().and_then(seq);
        part.result = invocation.and_then(|invocation| invocation.result);
        if let Some(revert) = &mut part.revert {
            revert.receipt_seq = undoing.as_ref().and_then(seq);
        }
    }
    Ok(view)
}

fn part(body: PartRequest) -> countersign_core::batch::PartRequest {
    countersign_core::batch::PartRequest {
        action: body.action,
        call: Call {
            reason: body.reason,
            scope: body.scope.map(Scope::from).unwrap_or_default(),
            commands: body.verification.unwrap_or_default().commands,
            claimed: body.context.map(Claimed::from),
            provenance: labels(body.provenance),
            ..Call::new(body.params)
        },
    }
}
