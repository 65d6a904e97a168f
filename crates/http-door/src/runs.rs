//! Runs of automations.

use super::automations::fired;
use super::body::OrEmpty;
use super::caller::Caller;
use super::page::{Asked, WaitQuery, page_request};
use super::problem::Refusal;
use ::runs::Again;
use api::Page;
use api::automation::FiredResponse;
use api::invocation::ReceiptRefView;
use api::run::{RerunRequest, RunView, StepView};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use countersign_core::Invocation;
use countersign_core::run::{Run, RunStatus, StepRecord};
use operations::App;
use operations::{Error, runs};
use serde::Deserialize;
use std::collections::BTreeSet;
use utoipa::IntoParams;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    /// Only those of this automation, by its id.
    automation: Option<String>,
    /// Only those with this status.
    status: Option<RunStatus>,
    /// Rows of one page, 1 to 100; 50 when absent.
    limit: Option<u32>,
    /// The `next` of the page before.
    after: Option<String>,
}

/// Runs, newest first.
#[utoipa::path(operation_id = "runs_list", get, path = "/api/v1/runs", tag = "runs", params(ListQuery),
    responses((status = 200, body = Page<RunView>)))]
pub(super) async fn list(State(app): State<App>, caller: Caller, Asked(query): Asked<ListQuery>) -> Result<Json<Page<RunView>>, Refusal> {
    let ListQuery { automation, status, limit, after } = query;
    let page = runs::list(&app, &caller.principal, automation.as_deref(), status, &page_request(limit, after)?).await?;
    let names = runs::names_of(&app, &caller.principal, &page.items).await?;
    let view = |run: Run| {
        let name = names.get(&run.automation).cloned();
        RunView::listed(run, name)
    };
    Ok(Json(Page { items: page.items.into_iter().map(view).collect(), next: page.next }))
}

/// One run with its steps; `?wait=30s` holds the answer back until it has ended.
#[utoipa::path(operation_id = "runs_show", get, path = "/api/v1/runs/{run}", tag = "runs", params(("run" = String, Path), WaitQuery),
    responses((status = 200, body = RunView)))]
pub(super) async fn show(
    State(app): State<App>,
    caller: Caller,
    Path(run): Path<String>,
    Asked(wait): Asked<WaitQuery>,
) -> Result<Json<RunView>, Refusal> {
    let (run, steps) = runs::find(&app, &caller.principal, &run, wait.duration()?).await?;
    Ok(Json(view(&app, &caller, run, steps).await?))
}

/// Asks for the end of a run. A step in progress still ends as it ends, and has its receipt.
#[utoipa::path(operation_id = "runs_cancel", post, path = "/api/v1/runs/{run}/cancel", tag = "runs", params(("run" = String, Path)),
    responses((status = 200, body = RunView)))]
pub(super) async fn cancel(State(app): State<App>, caller: Caller, Path(run): Path<String>) -> Result<Json<RunView>, Refusal> {
    let run = runs::cancel(&app, &caller.principal, &run).await?;
    Ok(Json(view(&app, &caller, run, Vec::new()).await?))
}

/// Runs a run once more: all of it, or from one of its steps on, with its inputs, with others, or with what its trigger was given.
#[utoipa::path(operation_id = "runs_rerun", post, path = "/api/v1/runs/{run}/rerun", tag = "runs", params(("run" = String, Path)),
    request_body = RerunRequest,
    responses(
        (status = 202, description = "What it came to; `run_id` is the new run.", body = FiredResponse),
    ))]
pub(super) async fn rerun(
    State(app): State<App>,
    caller: Caller,
    Path(run): Path<String>,
    OrEmpty(body): OrEmpty<RerunRequest>,
) -> Result<(StatusCode, HeaderMap, Json<FiredResponse>), Refusal> {
    let with = match (body.inputs, body.with_payload) {
        (Some(_), true) => return Err(Error::invalid("give `inputs` or `with_payload`, not both").into()),
        (Some(inputs), false) => Again::Inputs(inputs),
        (None, true) => Again::Payload,
        (None, false) => Again::Same,
    };
    let answered = runs::rerun(&app, &caller.principal, &run, body.from_step.as_deref(), with).await?;
    Ok(fired(&app, &answered))
}

async fn view(app: &App, caller: &Caller, run: Run, steps: Vec<StepRecord>) -> Result<RunView, Refusal> {
    let calls = runs::calls_of(app, &run.org, &steps).await?;
    let is_unpriced = |call: &&Invocation| call.started_at.is_some() && call.charge.is_none();
    let unpriced: BTreeSet<_> = calls.iter().flatten().filter(is_unpriced).map(|call| call.action.to_string()).collect();
    let shown = |(step, call): (StepRecord, Option<Invocation>)| {
        let receipt = call.and_then(|call| call.receipt).map(|receipt| ReceiptRefView { id: receipt.id.to_string(), seq: receipt.seq });
        StepView::new(step, receipt)
    };
    let steps = steps.into_iter().zip(calls).map(shown).collect();
    let name = runs::names_of(app, &caller.principal, std::slice::from_ref(&run)).await?.remove(&run.automation);
    let cost_usd = Some(app.store().find_run_cost(&run.org, &run.id).await?.to_string());
    let trigger_payload = runs::payload_of(app, &run).await?;
    let unpriced = unpriced.into_iter().collect();
    Ok(RunView { cost_usd, unpriced, trigger_payload, ..RunView::new(run, name, steps) })
}
