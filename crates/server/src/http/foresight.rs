//! What can be known of a call that waits: whether it could run, what it would change, and what made us ask.

use super::caller::Caller;
use super::invocations::readable;
use super::problem::Refusal;
use crate::App;
use api::Problem;
use api::invocation::{ConcernView, FailureView, ForesightView, LabelView};
use axum::Json;
use axum::extract::{Path, State};
use countersign_core::principal::Permission;
use pipeline::{Foresight, Held};
use policy::Finding;

/// What can be known of a pending invocation, for whoever may answer it. Asked of its source now, which may run code without effect; nothing is performed or recorded.
#[utoipa::path(operation_id = "invocations_foresight", get, path = "/api/v1/invocations/{invocation}/foresight", tag = "invocations", params(("invocation" = String, Path)),
    responses((status = 200, body = ForesightView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn foresight(
    State(app): State<App>,
    caller: Caller,
    Path(invocation): Path<String>,
) -> Result<Json<ForesightView>, Refusal> {
    caller.must(Permission::Approve)?;
    let found = readable(&app, &caller, &invocation).await?;
    Ok(Json(view(app.pipeline().foresee(&found).await?)))
}

fn view(foresight: Foresight) -> ForesightView {
    ForesightView {
        blocked: foresight.blocked.map(|failure| FailureView { code: failure.code, message: failure.message }),
        changes: foresight.changes,
        unknown: foresight.unknown,
        ran_code: foresight.ran_code,
        concerns: foresight.concerns.into_iter().map(concern).collect(),
        labels: foresight.labels.into_iter().map(label).collect(),
    }
}

fn concern(finding: Finding) -> ConcernView {
    ConcernView { rule: finding.rule.to_owned(), pointer: finding.pointer, message: finding.message }
}

fn label(held: Held) -> LabelView {
    LabelView {
        label: held.label.label,
        at: held.label.at.to_string(),
        invocation_id: held.label.invocation.map(|invocation| invocation.to_string()),
        action: held.action.map(|action| action.to_string()),
    }
}
