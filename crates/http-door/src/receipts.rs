//! Receipts: read, proved, exported.

use super::caller::Caller;
use super::page::{Asked, moment, page_request, wanted};
use super::problem::Refusal;
use api::receipt::{EntryView, IntegrityView, ProofView};
use api::{Code, Page};
use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use countersign_core::{ActionId, ReceiptId, SessionId, Status, UserId};
use futures_util::stream;
use operations::App;
use operations::{sight, spaces};
use serde::Deserialize;
use store::{ReceiptFilter, StoredEntry};
use utoipa::IntoParams;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    /// Of calls of this action, by its whole id. A batch is of no one action.
    action: Option<String>,
    /// Of calls and batches of this session.
    session: Option<String>,
    /// Of what this person asked for, and of what was asked for them.
    user: Option<String>,
    /// Of what ended in this status.
    status: Option<Status>,
    /// Of calls and batches in this space, by its id or its name.
    space: Option<String>,
    /// Of what ended then or later: a time, or how long ago, such as `7d`.
    since: Option<String>,
    /// Of what ended before then: a time, or how long ago.
    until: Option<String>,
    /// Of calls and batches with this idempotency key.
    idempotency_key: Option<String>,
    /// Of calls with this trace id. A batch has none.
    trace_id: Option<String>,
    /// Of calls whose callers claimed to act for this subject. A batch has none.
    subject: Option<String>,
    /// Of calls that their callers gave this `action_id`. Two callers may have chosen the same. A batch has none.
    action_id: Option<String>,
    /// Rows of one page, 1 to 100; 50 when absent.
    limit: Option<u32>,
    /// The `next` of the page before.
    after: Option<String>,
}

/// Receipts of the org, those of calls and those of batches, newest first. All conditions that are given must hold.
#[utoipa::path(operation_id = "receipts_list", get, path = "/api/v1/receipts", tag = "receipts", params(ListQuery),
    responses((status = 200, body = Page<EntryView>)))]
pub(super) async fn list(State(app): State<App>, caller: Caller, Asked(query): Asked<ListQuery>) -> Result<Json<Page<EntryView>>, Refusal> {
    caller.must_read()?;
    let space = match &query.space {
        Some(named) => Some(spaces::id_of(&app, &caller.principal, named).await?),
        None => None,
    };
    let filter = ReceiptFilter {
        action: query.action.as_deref().map(|text| wanted(text, "action", |text| ActionId::parse(text).ok())).transpose()?,
        session: query.session.as_deref().map(|text| wanted(text, "session", |text| SessionId::parse(text).ok())).transpose()?,
        user: query.user.as_deref().map(|text| wanted(text, "user", |text| UserId::parse(text).ok())).transpose()?,
        status: query.status,
        space,
        since: query.since.as_deref().map(|text| moment(&app, "since", text)).transpose()?,
        until: query.until.as_deref().map(|text| moment(&app, "until", text)).transpose()?,
        idempotency_key: query.idempotency_key.map(|text| plain(text, "idempotency_key")).transpose()?,
        trace_id: query.trace_id.map(|text| plain(text, "trace_id")).transpose()?,
        subject: query.subject.map(|text| plain(text, "subject")).transpose()?,
        action_id: query.action_id.map(|text| plain(text, "action_id")).transpose()?,
        hidden: caller.hidden(&app).await?,
    };
    let request = page_request(query.limit, query.after)?;
    if request.after.as_ref().is_some_and(|after| after.parse::<i64>().is_err()) {
        return Err(Refusal::new(Code::InvalidQuery, "`after` is not a cursor of ours"));
    }
    let page = app.store().list_receipts(&caller.principal.org, &filter, &request).await?;
    Ok(Json(Page { items: page.items.iter().map(entry_view).collect::<Result<_, _>>()?, next: page.next }))
}

/// One receipt.
#[utoipa::path(operation_id = "receipts_show", get, path = "/api/v1/receipts/{receipt}", tag = "receipts", params(("receipt" = String, Path)),
    responses((status = 200, body = EntryView)))]
pub(super) async fn show(State(app): State<App>, caller: Caller, Path(receipt): Path<String>) -> Result<Json<EntryView>, Refusal> {
    caller.must_read()?;
    let id = parse_id(&receipt)?;
    Ok(Json(entry_view(&readable(&app, &caller, &receipt, &id).await?)?))
}

/// Proves that the receipt is in the audit log, against a checkpoint signed now.
#[utoipa::path(operation_id = "receipts_prove", get, path = "/api/v1/receipts/{receipt}/proof", tag = "receipts", params(("receipt" = String, Path)),
    responses((status = 200, body = ProofView)))]
pub(super) async fn prove(State(app): State<App>, caller: Caller, Path(receipt): Path<String>) -> Result<Json<ProofView>, Refusal> {
    caller.must_read()?;
    let id = parse_id(&receipt)?;
    readable(&app, &caller, &receipt, &id).await?;
    let proof = app.store().prove_receipt(&caller.principal.org, &id).await?;
    let proof = proof.ok_or_else(|| Refusal::not_found("receipt", &receipt))?;
    Ok(Json(ProofView {
        leaf: receipt::tree::leaf(&proof.entry.payload).to_string(),
        index: proof.entry.seq,
        hashes: proof.hashes.iter().map(ToString::to_string).collect(),
        checkpoint: proof.checkpoint,
        entry: entry_view(&proof.entry)?,
    }))
}

/// The whole log as JSON lines, everything an offline verifier needs but the pinned key.
#[utoipa::path(operation_id = "receipts_export", get, path = "/api/v1/receipts/export", tag = "receipts",
    responses((status = 200, description = "A bundle, one JSON document a line.", content_type = "application/x-ndjson", body = String)))]
pub(super) async fn export(State(app): State<App>, caller: Caller) -> Result<Response, Refusal> {
    caller.must_read()?;
    sight::must_see_all(&app, &caller.principal).await?;
    let lines = app.store().export(&caller.principal.org).await?;
    // An error half-way cuts the body off; the missing last line tells the reader.
    let body = Body::from_stream(stream::unfold(lines, |mut lines| async move {
        let line = lines.recv().await?;
        Some((line.map(Bytes::from).map_err(|error| std::io::Error::other(error.to_string())), lines))
    }));
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response())
}

/// Compares the database with its audit log: how entries are filed, the stored tree, and the rules, people and tokens in force.
#[utoipa::path(operation_id = "receipts_integrity", get, path = "/api/v1/receipts/integrity", tag = "receipts",
    responses((status = 200, body = IntegrityView)))]
pub(super) async fn integrity(State(app): State<App>, caller: Caller) -> Result<Json<IntegrityView>, Refusal> {
    caller.must_read()?;
    sight::must_see_all(&app, &caller.principal).await?;
    let found = app.store().check_integrity(&caller.principal.org).await?;
    Ok(Json(IntegrityView { ok: found.differences.is_empty(), entries: found.entries, differences: found.differences }))
}

pub(super) fn entry_view(entry: &StoredEntry) -> Result<EntryView, Refusal> {
    let unreadable = |error: serde_json::Error| {
        tracing::error!(%error, seq = entry.seq, "a stored entry does not read");
        Refusal::new(Code::Internal, "a stored entry does not read; the trace id finds it in the server's log")
    };
    Ok(EntryView {
        seq: entry.seq,
        kind: entry.kind,
        id: entry.id.clone(),
        invocation_id: entry.invocation.as_ref().map(ToString::to_string),
        payload: serde_json::from_str(&entry.payload).map_err(unreadable)?,
        envelope: serde_json::to_value(entry.envelope()).map_err(unreadable)?,
    })
}

/// A text to compare with. One that holds NUL is in no row, and no database takes it.
pub(super) fn plain(text: String, name: &str) -> Result<String, Refusal> {
    if text.contains('\0') { Err(Refusal::new(Code::InvalidQuery, format!("`{name}` does not make sense"))) } else { Ok(text) }
}

/// The receipt, if its space exists for the caller.
async fn readable(app: &App, caller: &Caller, named: &str, id: &ReceiptId) -> Result<StoredEntry, Refusal> {
    let found = app.store().find_receipt(&caller.principal.org, id).await?;
    let seen = caller.seen_of(app, found.into_iter().collect::<Vec<_>>(), |entry| entry.payload.clone()).await?.pop();
    seen.ok_or_else(|| Refusal::not_found("receipt", named))
}

fn parse_id(text: &str) -> Result<ReceiptId, Refusal> {
    ReceiptId::parse(text).map_err(|_| Refusal::not_found("receipt", text))
}
