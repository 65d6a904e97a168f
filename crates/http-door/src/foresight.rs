//! What can be known of a call that waits: whether it could run, what it would change, and what made us ask. And of taking an effect
//! back, before anybody asks for it.

use super::caller::Caller;
use super::explain::would_name;
use super::facts::{definition, facts};
use super::problem::Refusal;
use api::invocation::{ConcernView, FailureView, ForesightView, InvocationView, LabelView, RevertForesightView};
use axum::Json;
use axum::extract::{Path, State};
use operations::App;
use operations::answers;
use operations::invocations::readable;
use pipeline::{Foresight, Held, RevertForesight};
use policy::Finding;
use serde_json::Value;

/// Shows what a pending invocation would do, to whoever may answer it. Its source is asked now, which may run code without effect; nothing is performed or recorded.
#[utoipa::path(operation_id = "invocations_foresight", get, path = "/api/v1/invocations/{invocation}/foresight", tag = "invocations", params(("invocation" = String, Path)),
    responses((status = 200, body = ForesightView)))]
pub(super) async fn foresight(
    State(app): State<App>,
    caller: Caller,
    Path(invocation): Path<String>,
) -> Result<Json<ForesightView>, Refusal> {
    answers::may_look_ahead(&caller.principal)?;
    let found = readable(&app, &caller.principal, &invocation).await?;
    let ahead = view(app.pipeline().foresee(&found).await?);
    let shown = InvocationView::from(found.clone());
    let action = definition(&app, &shown, &found.org, Some(&ahead)).await;
    let facts = facts(&app, &found, &shown, action.as_deref(), Some(&ahead)).await;
    Ok(Json(ForesightView { facts, ..ahead }))
}

/// Shows what a revert would do, to whoever may ask for it. Nothing is performed or recorded.
#[utoipa::path(operation_id = "invocations_foresee_revert", get, path = "/api/v1/invocations/{invocation}/revert", tag = "invocations", params(("invocation" = String, Path)),
    responses((status = 200, body = RevertForesightView)))]
pub(super) async fn foresee_revert(
    State(app): State<App>,
    caller: Caller,
    Path(invocation): Path<String>,
) -> Result<Json<RevertForesightView>, Refusal> {
    let found = readable(&app, &caller.principal, &invocation).await?;
    let RevertForesight { explanation, foresight } = app.pipeline().foresee_revert(&caller.principal, &found.id).await?;
    let ForesightView { blocked, changes, unknown, .. } = view(foresight);
    Ok(Json(RevertForesightView {
        invocation_id: found.id.to_string(),
        action: found.action.to_string(),
        would: would_name(explanation.would),
        because: explanation.because,
        approvals_needed: explanation.approvals_needed,
        blocked,
        changes,
        unknown,
    }))
}

pub(super) fn view(foresight: Foresight) -> ForesightView {
    ForesightView {
        blocked: foresight.blocked.map(|failure| FailureView { code: failure.code, message: failure.message }),
        params: foresight.params,
        changes: foresight.changes,
        unknown: foresight.unknown,
        ran_code: foresight.ran_code,
        concerns: foresight.concerns.into_iter().map(concern).collect(),
        labels: foresight.labels.into_iter().filter_map(label).collect(),
        approvals_needed: foresight.approvals_needed,
        facts: Vec::new(),
    }
}

fn concern(finding: Finding) -> ConcernView {
    ConcernView { rule: finding.rule.to_owned(), pointer: finding.pointer, message: finding.message }
}

fn label(held: Held) -> Option<LabelView> {
    Some(LabelView {
        label: serde_json::from_value(Value::String(held.label.label)).ok()?,
        at: held.label.at,
        invocation_id: held.label.invocation.map(|by| by.to_string()),
        action: held.action.map(|action| action.to_string()),
    })
}
