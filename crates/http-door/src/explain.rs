//! What would happen to a call, asked without making it.

use super::body::Strict;
use super::caller::Caller;
use super::invocations::labels;
use super::problem::Refusal;
use api::Code;
use api::gates::{ExplainRequest, ExplainResponse, NearGrantView, WouldName};
use api::invocation::{DecisionView, GateView};
use api::problem::FieldError;
use axum::Json;
use axum::extract::State;
use countersign_core::Call;
use countersign_core::call::Claimed;
use operations::App;
use operations::grants;
use pipeline::{Explanation, NearGrant, Question, Would};
use serde_json::{Map, Value};

/// Says what would happen to a call now, and why. Nothing is performed, held or counted.
#[utoipa::path(operation_id = "explain", post, path = "/api/v1/explain", tag = "actions", request_body = ExplainRequest,
    responses((status = 200, body = ExplainResponse)))]
pub(super) async fn explain(
    State(app): State<App>,
    caller: Caller,
    Strict(body): Strict<ExplainRequest>,
) -> Result<Json<ExplainResponse>, Refusal> {
    let session = caller.readable_session(&app, &body.session_id).await?;
    if body.params.as_ref().is_some_and(|params| !params.is_object()) {
        return Err(Refusal::new(Code::InvalidRequest, "`params` must be an object"));
    }
    let known_grants = grants::covering(&app, &caller.principal, &body.action).await?;
    let question = Question {
        known_grants,
        org: session.org.clone(),
        session: session.id,
        action: body.action,
        has_params: body.params.is_some(),
        call: Call {
            claimed: body.context.map(Claimed::from),
            provenance: labels(body.provenance),
            ..Call::new(body.params.unwrap_or_else(|| Value::Object(Map::new())))
        },
    };
    let explanation = app.pipeline().explain(question).await?;
    Ok(Json(view(explanation.told_to(&caller.principal))))
}

fn view(explanation: Explanation) -> ExplainResponse {
    ExplainResponse {
        action: explanation.action.to_string(),
        tier: explanation.tier,
        session_id: explanation.session.id.to_string(),
        space_id: explanation.session.space.to_string(),
        principal: explanation.principal.id.to_string(),
        would: would_name(explanation.would),
        because: explanation.because,
        decision: DecisionView::from(&explanation.decision),
        gates: explanation.gates.into_iter().map(GateView::from).collect(),
        drift: explanation.drift,
        grant_id: explanation.grant.map(|grant| grant.to_string()),
        near_grants: explanation.near_grants.into_iter().map(near).collect(),
        approvals_needed: explanation.approvals_needed,
        errors: explanation.errors.into_iter().map(|error| FieldError::new(error.pointer, error.message)).collect(),
    }
}

fn near(near: NearGrant) -> NearGrantView {
    NearGrantView { grant_id: near.id.to_string(), covers: near.covers.to_string(), missed: near.missed, because: near.because }
}

pub(super) const fn would_name(would: Would) -> WouldName {
    match would {
        Would::Run => WouldName::Runs,
        Would::Ask => WouldName::Asks,
        Would::Deny => WouldName::Denied,
        Would::Quarantine => WouldName::Quarantined,
        Would::Refuse => WouldName::Refused,
    }
}
