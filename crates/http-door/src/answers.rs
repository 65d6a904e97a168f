//! How a person answers a pending call: approve, deny, snooze; and how a person settles one in doubt.

use super::body::{OrEmpty, Strict};
use super::caller::Caller;
use super::grants::{calls_of, sum_of, titled};
use super::invocations::{answer, answered, shown, written};
use super::page::seconds_of;
use super::problem::Refusal;
use api::invocation::{
    ApproveManyRequest, ApproveManyResponse, ApproveMode, ApproveRequest, ApproveResponse, ApprovedOne, DenyRequest, DenyResponse,
    GrantOfferRequest, GrantScopeName, InvocationView, InvokeResponse, OneOfMany, SettleDoubtRequest, SettlementName, SnoozeRequest,
    SnoozeResponse,
};
use api::{Code, Problem};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use countersign_core::limits::{APPROVAL_UNATTENDED_SECONDS, BULK_ANSWERS_MAX, GRANT_SECONDS_DEFAULT};
use countersign_core::{Digest, InvocationId, Principal};
use operations::App;
use operations::{answers, invocations};
use pipeline::limits::GRANT_SECONDS_MAX;
use pipeline::{BeyondAsked, GrantFor, Outcome, Settlement, Yes};

/// Approves a pending invocation of a session and runs it.
#[utoipa::path(operation_id = "invocations_approve_in_session", post, path = "/api/v1/sessions/{session}/actions/invocations/{invocation}/approve", tag = "invocations",
    params(("session" = String, Path), ("invocation" = String, Path)), request_body = ApproveRequest,
    responses((status = 200, body = ApproveResponse), (status = 202, body = ApproveResponse), (status = 502, body = Problem, content_type = "application/problem+json")))]
pub(super) async fn approve_in_session(
    State(app): State<App>,
    caller: Caller,
    Path((session, invocation)): Path<(String, String)>,
    OrEmpty(body): OrEmpty<ApproveRequest>,
) -> Result<Response, Refusal> {
    let id = answers::of_session(&app, &caller.principal, &session, &invocation).await?;
    let (status, approved) = approve_one(&app, &caller.principal, &id, body).await?;
    written(status, &approved)
}

/// Denies a pending invocation of a session.
#[utoipa::path(operation_id = "invocations_deny_in_session", post, path = "/api/v1/sessions/{session}/actions/invocations/{invocation}/deny", tag = "invocations",
    params(("session" = String, Path), ("invocation" = String, Path)), request_body = DenyRequest,
    responses((status = 200, body = DenyResponse)))]
pub(super) async fn deny_in_session(
    State(app): State<App>,
    caller: Caller,
    Path((session, invocation)): Path<(String, String)>,
    OrEmpty(body): OrEmpty<DenyRequest>,
) -> Result<Json<DenyResponse>, Refusal> {
    let id = answers::of_session(&app, &caller.principal, &session, &invocation).await?;
    Ok(Json(deny_one(&app, &caller.principal, &id, body).await?))
}

/// Approves a pending invocation and runs it.
#[utoipa::path(operation_id = "invocations_approve", post, path = "/api/v1/invocations/{invocation}/approve", tag = "invocations", params(("invocation" = String, Path)),
    request_body = ApproveRequest,
    responses((status = 200, body = ApproveResponse), (status = 202, body = ApproveResponse), (status = 502, body = Problem, content_type = "application/problem+json")))]
pub(super) async fn approve(
    State(app): State<App>,
    caller: Caller,
    Path(invocation): Path<String>,
    OrEmpty(body): OrEmpty<ApproveRequest>,
) -> Result<Response, Refusal> {
    let (status, approved) = approve_one(&app, &caller.principal, &answers::id_of(&caller.principal, &invocation)?, body).await?;
    written(status, &approved)
}

/// Denies a pending invocation.
#[utoipa::path(operation_id = "invocations_deny", post, path = "/api/v1/invocations/{invocation}/deny", tag = "invocations", params(("invocation" = String, Path)),
    request_body = DenyRequest,
    responses((status = 200, body = DenyResponse)))]
pub(super) async fn deny(
    State(app): State<App>,
    caller: Caller,
    Path(invocation): Path<String>,
    OrEmpty(body): OrEmpty<DenyRequest>,
) -> Result<Json<DenyResponse>, Refusal> {
    Ok(Json(deny_one(&app, &caller.principal, &answers::id_of(&caller.principal, &invocation)?, body).await?))
}

/// Settles an invocation in doubt: it succeeded, it failed, or the call is made again.
#[utoipa::path(operation_id = "invocations_settle", post, path = "/api/v1/invocations/{invocation}/settle", tag = "invocations", params(("invocation" = String, Path)),
    request_body = SettleDoubtRequest,
    responses((status = 200, body = InvokeResponse), (status = 202, body = InvokeResponse), (status = 502, body = Problem, content_type = "application/problem+json")))]
pub(super) async fn settle(
    State(app): State<App>,
    caller: Caller,
    Path(invocation): Path<String>,
    Strict(body): Strict<SettleDoubtRequest>,
) -> Result<Response, Refusal> {
    let id = answers::id_of(&caller.principal, &invocation)?;
    let settlement = match body.settlement {
        SettlementName::Succeeded => Settlement::Succeeded,
        SettlementName::Failed => Settlement::Failed,
        SettlementName::Retry => Settlement::Retry,
    };
    let outcome = app.pipeline().settle_doubt(&caller.principal, &id, settlement, &body.reason).await?;
    match (settlement, outcome) {
        // That it failed is what was said, not what went wrong.
        (Settlement::Failed, Outcome::Ended { invocation, .. }) => {
            let plain = InvocationView::from((*invocation).clone());
            let plain = InvokeResponse { invocation: plain, result: None, message: None, replayed: false };
            // It is settled: what else there is to tell of it must not look as if it were not.
            written(StatusCode::OK, &shown(&app, *invocation).await.unwrap_or(plain))
        }
        (_, outcome) => answer(outcome),
    }
}

/// Approves several pending invocations one after the other, each with the answer `once`. If one cannot be approved, the others still are.
#[utoipa::path(operation_id = "invocations_approve_many", post, path = "/api/v1/invocations/approve", tag = "invocations", request_body = ApproveManyRequest,
    responses((status = 200, body = ApproveManyResponse)))]
pub(super) async fn approve_many(
    State(app): State<App>,
    caller: Caller,
    Strict(body): Strict<ApproveManyRequest>,
) -> Result<Json<ApproveManyResponse>, Refusal> {
    answers::must_answer(&caller.principal)?;
    if !(1..=BULK_ANSWERS_MAX).contains(&body.invocations.len()) {
        return Err(Refusal::new(Code::InvalidRequest, format!("`invocations` must name 1 to {BULK_ANSWERS_MAX}")));
    }
    let mut results = Vec::with_capacity(body.invocations.len());
    for one in body.invocations {
        let id = one.id().to_owned();
        results.push(match approve_with_others(&app, &caller, &one, body.reason.clone()).await {
            Ok(outcome) => ApprovedOne { id, invocation: Some(Box::new(outcome.invocation().clone().into())), problem: None },
            Err(refusal) => ApprovedOne { id, invocation: None, problem: Some(refusal.into_problem()) },
        });
    }
    Ok(Json(ApproveManyResponse { results }))
}

async fn approve_with_others(app: &App, caller: &Caller, one: &OneOfMany, reason: Option<String>) -> Result<Outcome, Refusal> {
    let yes = Yes { shown: one.binding().map(digest_of).transpose()?, reason, ..Yes::default() };
    Ok(app.pipeline().approve(&caller.principal, &invocations::parse(one.id())?, yes).await?)
}

/// Hides a pending invocation from your inbox for a while. It decides nothing, and the invocation still expires.
#[utoipa::path(operation_id = "invocations_snooze", post, path = "/api/v1/invocations/{invocation}/snooze", tag = "invocations", params(("invocation" = String, Path)),
    request_body = SnoozeRequest,
    responses((status = 200, body = SnoozeResponse)))]
pub(super) async fn snooze(
    State(app): State<App>,
    caller: Caller,
    Path(invocation): Path<String>,
    Strict(body): Strict<SnoozeRequest>,
) -> Result<Json<SnoozeResponse>, Refusal> {
    let seconds = seconds_of("for", &body.time, APPROVAL_UNATTENDED_SECONDS)?;
    let (id, until) = answers::snooze(&app, &caller.principal, &invocation, seconds).await?;
    Ok(Json(SnoozeResponse { id: id.to_string(), until }))
}

/// Approves a call, whichever way the request came.
pub(super) async fn approve_one(
    app: &App,
    by: &Principal,
    id: &InvocationId,
    body: ApproveRequest,
) -> Result<(StatusCode, ApproveResponse), Refusal> {
    let shown = body.binding.as_deref().map(digest_of).transpose()?;
    let beyond = match (body.mode, body.grant) {
        (ApproveMode::Once, None) => BeyondAsked::Once,
        (ApproveMode::Always, None) => BeyondAsked::Always,
        (ApproveMode::Grant, grant) => grant_asked(grant.unwrap_or_default())?,
        (ApproveMode::Once | ApproveMode::Always, Some(_)) => {
            return Err(Refusal::new(Code::InvalidRequest, "`grant` is for mode `grant` only"));
        }
    };
    let yes = Yes { shown, reason: body.reason, beyond, params: body.params, confirm: body.confirm };
    let outcome = app.pipeline().approve(by, id, yes).await?;
    let approved = outcome.invocation().clone();
    let (grant, mode) = match body.mode {
        ApproveMode::Once => (None, None),
        ApproveMode::Always => (None, app.store().find_mode_of(&approved.org, &approved.id).await.unwrap_or_default()),
        ApproveMode::Grant => (app.store().find_grant_of(&approved.org, &approved.id).await.unwrap_or_default(), None),
    };
    let (status, InvokeResponse { invocation, result, message, replayed }) = answered(outcome).map_err(|mut refusal| {
        // The grant or the mode holds although the call failed.
        if let Some(grant) = &grant {
            refusal.0.detail.push_str(&format!("; the approval made grant `{}`, which is active", grant.id));
        }
        if mode.is_some() {
            refusal.0.detail.push_str(&format!("; the approval set the mode of `{}` to `allow`", approved.action));
        }
        refusal
    })?;
    let grant = match &grant {
        Some(grant) => Some(titled(app, &approved.org, grant).await),
        None => None,
    };
    Ok((status, ApproveResponse { invocation, result, message, replayed, grant, mode: mode.map(super::modes::view) }))
}

fn grant_asked(grant: GrantOfferRequest) -> Result<BeyondAsked, Refusal> {
    let lifetime_seconds = match &grant.expires_in {
        Some(text) => seconds_of("expires_in", text, GRANT_SECONDS_MAX)?,
        None => GRANT_SECONDS_DEFAULT,
    };
    let calls_max = calls_of(grant.calls_max, grant.max_calls)?;
    let to = match grant.scope {
        GrantScopeName::Session => GrantFor::Session,
        GrantScopeName::Automation => GrantFor::Automation,
        GrantScopeName::Org => GrantFor::Org,
    };
    let sum_max = grant.sum_max.map(sum_of).transpose()?;
    Ok(BeyondAsked::Grant { to, calls_max, sum_max, lifetime_seconds })
}

/// Denies a call, whichever way the request came.
pub(super) async fn deny_one(app: &App, by: &Principal, id: &InvocationId, body: DenyRequest) -> Result<DenyResponse, Refusal> {
    let denied = app.pipeline().deny(by, id, body.reason).await?;
    Ok(DenyResponse { invocation: InvocationView::from(denied) })
}

/// The binding that was shown.
fn digest_of(text: &str) -> Result<Digest, Refusal> {
    let bad = || Refusal::new(Code::InvalidRequest, "`binding` is not 64 hex characters").hint("send the `binding.digest` that was shown");
    Digest::parse(text).ok_or_else(bad)
}
