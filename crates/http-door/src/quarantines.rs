//! What was too dangerous to run, and what an approver makes of it.

use super::body::Strict;
use super::caller::Caller;
use super::invocations::{answered, written};
use super::page::{Asked, page_request};
use super::problem::Refusal;
use api::finding::CaughtView;
use api::gates::{QuarantinePayloadResponse, QuarantineView, ReleaseResponse, ReleasedOutputResponse, SettleRequest};
use api::invocation::InvokeResponse;
use api::{Advice, Code, NextStep, Page};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use countersign_core::Digest;
use countersign_core::ports::{Invocations, Quarantines};
use countersign_core::quarantine::{Quarantine, QuarantineState};
use operations::App;
use operations::invocations::parse;
use pipeline::{Released, Word};
use serde::Deserialize;
use utoipa::IntoParams;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    /// Only those in this state.
    state: Option<QuarantineState>,
    /// Rows of one page, 1 to 100; 50 when absent.
    limit: Option<u32>,
    /// The `next` of the page before.
    after: Option<String>,
}

/// Quarantined calls and withheld answers, newest first.
#[utoipa::path(operation_id = "quarantines_list", get, path = "/api/v1/quarantines", tag = "quarantine", params(ListQuery),
    responses((status = 200, body = Page<QuarantineView>)))]
pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    Asked(query): Asked<ListQuery>,
) -> Result<Json<Page<QuarantineView>>, Refusal> {
    caller.must_read()?;
    let (hidden, request) = (caller.hidden(&app).await?, page_request(query.limit, query.after)?);
    let page = app.store().list_quarantines(&caller.principal.org, query.state, &hidden, &request).await?;
    Ok(Json(Page { items: page.items.into_iter().map(view).collect(), next: page.next }))
}

/// One of them. What it holds is not shown, only what was found in it.
#[utoipa::path(operation_id = "quarantines_show", get, path = "/api/v1/quarantines/{invocation}", tag = "quarantine", params(("invocation" = String, Path)),
    responses((status = 200, body = QuarantineView)))]
pub(super) async fn show(State(app): State<App>, caller: Caller, Path(invocation): Path<String>) -> Result<Json<QuarantineView>, Refusal> {
    caller.must_read()?;
    let unknown = || Refusal::not_found("quarantined invocation", &invocation);
    let id = parse(&invocation).map_err(|_| unknown())?;
    let hidden = caller.hidden(&app).await?;
    if let Some(found) = app.store().find_quarantine(&caller.principal.org, &id).await? {
        return if hidden.contains(&found.space) { Err(unknown()) } else { Ok(Json(view(found))) };
    }
    let another = app.store().find_invocation(&caller.principal.org, &id).await?;
    let is_another = another.is_some_and(|another| !hidden.contains(&another.space));
    if !is_another {
        return Err(unknown());
    }
    let list = NextStep::new(Advice::List).with("things", "quarantined invocation");
    Err(Refusal::new(Code::NotFound, format!("invocation `{id}` is not quarantined")).next(list))
}

/// Shows the quarantined content unchanged, to whoever may release it. Reading it is an event.
#[utoipa::path(operation_id = "quarantines_payload", get, path = "/api/v1/quarantines/{invocation}/payload", tag = "quarantine", params(("invocation" = String, Path)),
    responses((status = 200, body = QuarantinePayloadResponse)))]
pub(super) async fn payload(
    State(app): State<App>,
    caller: Caller,
    Path(invocation): Path<String>,
) -> Result<Json<QuarantinePayloadResponse>, Refusal> {
    let (held, payload) = app.pipeline().look_at(&caller.principal, &parse(&invocation)?).await?;
    let digest = Some(held.digest.to_string());
    Ok(Json(QuarantinePayloadResponse { invocation_id: invocation, holds: held.holds, digest, payload }))
}

/// Releases a quarantined call, as a new invocation that passes every other gate again, or the answer that was withheld.
#[utoipa::path(operation_id = "quarantines_release", post, path = "/api/v1/quarantines/{invocation}/release", tag = "quarantine", params(("invocation" = String, Path)),
    request_body = SettleRequest,
    responses(
        (status = 200, description = "The call succeeded, or here is what was withheld.", body = ReleaseResponse),
        (status = 202, description = "The call is pending.", body = InvokeResponse)))]
pub(super) async fn release(
    State(app): State<App>,
    caller: Caller,
    Path(invocation): Path<String>,
    Strict(body): Strict<SettleRequest>,
) -> Result<Response, Refusal> {
    let (status, body) = match app.pipeline().release_quarantined(&caller.principal, &parse(&invocation)?, word_of(&body)?).await? {
        Released::Call(outcome) => {
            let (status, call) = answered(*outcome)?;
            (status, ReleaseResponse::Call(Box::new(call)))
        }
        Released::Output(output) => (StatusCode::OK, ReleaseResponse::Output(ReleasedOutputResponse { invocation_id: invocation, output })),
    };
    written(status, &body)
}

/// Discards the content of a quarantined call.
#[utoipa::path(operation_id = "quarantines_discard", post, path = "/api/v1/quarantines/{invocation}/discard", tag = "quarantine", params(("invocation" = String, Path)),
    request_body = SettleRequest,
    responses((status = 200, body = QuarantineView)))]
pub(super) async fn discard(
    State(app): State<App>,
    caller: Caller,
    Path(invocation): Path<String>,
    Strict(body): Strict<SettleRequest>,
) -> Result<Json<QuarantineView>, Refusal> {
    Ok(Json(view(app.pipeline().discard(&caller.principal, &parse(&invocation)?, word_of(&body)?).await?)))
}

fn word_of(body: &SettleRequest) -> Result<Word, Refusal> {
    let wrong = || Refusal::new(Code::InvalidRequest, "`digest` is not the digest of anything");
    let digest = body.digest.as_deref().map(|text| Digest::parse(text).ok_or_else(wrong)).transpose()?;
    Ok(Word { reason: body.reason.clone(), digest })
}

fn view(quarantine: Quarantine) -> QuarantineView {
    QuarantineView {
        invocation_id: quarantine.invocation.to_string(),
        action: quarantine.action.to_string(),
        session_id: quarantine.session.to_string(),
        space_id: quarantine.space.to_string(),
        principal: quarantine.principal.to_string(),
        holds: quarantine.holds,
        state: quarantine.state,
        digest: Some(quarantine.digest.to_string()),
        caught: quarantine
            .caught
            .into_iter()
            .map(|caught| CaughtView { rule: caught.rule, pointer: caught.pointer, message: caught.message })
            .collect(),
        settled_by: quarantine.settled_by.map(|by| by.to_string()),
        settled_at: quarantine.settled_at,
        reason: quarantine.reason,
        released_as: quarantine.released_as.map(|id| id.to_string()),
        expires_at: quarantine.expires_at,
        created_at: quarantine.created_at,
    }
}
