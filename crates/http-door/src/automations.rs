//! Automations: saved definitions, their versions, their triggers and what those came to.

use super::body::{Exact, OrEmpty};
use super::caller::Caller;
use super::page::{Asked, PageQuery, page_request};
use super::problem::{Refusal, mistake_view};
use ::runs::Rendered;
use api::automation::{
    AutomationVersionView, AutomationView, DefinitionChangeView, DefinitionDiffView, DefinitionRequest, DraftView, DryRunRequest,
    EnableTriggerRequest, FiredResponse, FiringView, HookTokenView, MistakeView, PlanView, PlannedScheduleView, PlannedStepView,
    RotateTokenRequest, SaveAutomationRequest, SavedAutomationResponse, TriggerView, ValidDefinitionResponse,
};
use api::run::{RunAutomationRequest, RunErrorView};
use api::{Code, Page, Problem};
use automation::definition::{self, Kind};
use automation::schedule::Schedule;
use automation::{Mistake, filter};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use countersign_core::Digest;
use countersign_core::automation::{Automation, AutomationStatus, FiringOutcome, TriggerType};
use countersign_core::invocation::Failure;
use operations::App;
use operations::automations::{self, Applied, Checked, DryRun, Proposed, Switch};
use operations::runs::{self, Answered};
use operations::{Error, drafts};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use store::FiringFilter;
use utoipa::IntoParams;

/// The space in which automations are looked for by name, if none is named.
const DEFAULT_SPACE: &str = "main";

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    /// Only those with this status; all but the archived ones when absent.
    status: Option<AutomationStatus>,
    /// Only the one with this name, in `space`.
    name: Option<String>,
    /// The name or id of the space in which `name` is looked for; `main` when absent.
    space: Option<String>,
    /// Rows of one page, 1 to 100; 50 when absent.
    limit: Option<u32>,
    /// The `next` of the page before.
    after: Option<String>,
}

/// Automations of the org, newest first.
#[utoipa::path(operation_id = "automations_list", get, path = "/api/v1/automations", tag = "automations", params(ListQuery),
    responses((status = 200, body = Page<AutomationView>)))]
pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    Asked(query): Asked<ListQuery>,
) -> Result<Json<Page<AutomationView>>, Refusal> {
    let ListQuery { status, name, space, limit, after } = query;
    let named = name.as_deref().map(|name| (space.as_deref().unwrap_or(DEFAULT_SPACE), name));
    let page = automations::list(&app, &caller.principal, status, named, &page_request(limit, after)?).await?;
    let mut items = Vec::with_capacity(page.items.len());
    for automation in page.items {
        items.push(view(&app, automation, None).await?);
    }
    Ok(Json(Page { items, next: page.next }))
}

/// Saves a new automation. Of anybody but a person it makes a draft, which a person may save within a day.
#[utoipa::path(operation_id = "automations_create", post, path = "/api/v1/automations", tag = "automations", request_body = SaveAutomationRequest,
    responses(
        (status = 201, body = SavedAutomationResponse),
        (status = 202, description = "It is a draft: only a person saves an automation.", body = SavedAutomationResponse),
        (status = 422, description = "The definition has mistakes: `mistakes` has all of them.", body = Problem, content_type = "application/problem+json"),
    ))]
pub(super) async fn create(
    State(app): State<App>,
    caller: Caller,
    Exact(body): Exact<SaveAutomationRequest>,
) -> Result<(StatusCode, Json<SavedAutomationResponse>), Refusal> {
    let SaveAutomationRequest { space, definition, signing_secrets } = body;
    let space = automations::space_for(&app, &caller.principal, space.as_deref()).await?;
    let proposed = Proposed { automation: None, definition: &definition, signing_secrets: &signing_secrets, expected: None };
    let (applied, warnings) = automations::apply(&app, &caller.principal, &space, proposed).await?;
    told(&app, applied, warnings, StatusCode::CREATED).await
}

/// Saves a new version of an automation. With `If-Match`, only if its definition is still the one with that digest.
#[utoipa::path(operation_id = "automations_save", put, path = "/api/v1/automations/{automation}", tag = "automations",
    params(("automation" = String, Path), ("If-Match" = Option<String>, Header, description = "The digest of the definition that you have seen.")),
    request_body = SaveAutomationRequest,
    responses(
        (status = 200, body = SavedAutomationResponse),
        (status = 202, description = "It is a draft: only a person saves an automation.", body = SavedAutomationResponse),
        (status = 412, description = "Somebody has saved another version since.", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "The definition has mistakes: `mistakes` has all of them.", body = Problem, content_type = "application/problem+json"),
    ))]
pub(super) async fn save(
    State(app): State<App>,
    caller: Caller,
    Path(automation): Path<String>,
    headers: HeaderMap,
    Exact(body): Exact<SaveAutomationRequest>,
) -> Result<(StatusCode, Json<SavedAutomationResponse>), Refusal> {
    let expected = expected(&headers)?;
    let (saved, space) = automations::visible(&app, &caller.principal, &automation).await?;
    automations::must_stay(&space, body.space.as_deref())?;
    let SaveAutomationRequest { definition, signing_secrets, .. } = body;
    let proposed = Proposed { automation: Some(&saved), definition: &definition, signing_secrets: &signing_secrets, expected };
    let (applied, warnings) = automations::apply(&app, &caller.principal, &space, proposed).await?;
    told(&app, applied, warnings, StatusCode::OK).await
}

/// The digest of the header `If-Match`; `*` is as good as none, because what is saved exists.
fn expected(headers: &HeaderMap) -> Result<Option<Digest>, Refusal> {
    let Some(value) = headers.get(header::IF_MATCH) else { return Ok(None) };
    let text = value.to_str().unwrap_or_default().trim();
    if text == "*" {
        return Ok(None);
    }
    let digest = Digest::parse(text.trim_matches('"'));
    let refused = || Refusal::new(Code::InvalidRequest, "`If-Match` is not the digest of a definition, 64 hex characters in quotes");
    digest.map(Some).ok_or_else(refused)
}

/// One automation, with its triggers and its definition. Its `ETag` is the digest of the definition.
#[utoipa::path(operation_id = "automations_show", get, path = "/api/v1/automations/{automation}", tag = "automations", params(("automation" = String, Path)),
    responses((status = 200, body = AutomationView)))]
pub(super) async fn show(
    State(app): State<App>,
    caller: Caller,
    Path(automation): Path<String>,
) -> Result<(HeaderMap, Json<AutomationView>), Refusal> {
    let found = automations::find(&app, &caller.principal, &automation).await?;
    let definition = automations::definition(&app, &found, found.definition).await?;
    let tag = etag(found.definition);
    Ok((tag, Json(view(&app, found, Some(Value::clone(&definition))).await?)))
}

fn etag(digest: Digest) -> HeaderMap {
    HeaderValue::from_str(&format!("\"{digest}\"")).map(|tag| (header::ETAG, tag)).into_iter().collect()
}

/// Checks a definition, and says what would be stored. All mistakes come at once.
#[utoipa::path(operation_id = "automations_validate", post, path = "/api/v1/automations/validate", tag = "automations", request_body = DefinitionRequest,
    responses(
        (status = 200, body = ValidDefinitionResponse),
        (status = 422, description = "The definition has mistakes: `mistakes` has all of them.", body = Problem, content_type = "application/problem+json"),
    ))]
pub(super) async fn validate(
    State(app): State<App>,
    caller: Caller,
    Exact(body): Exact<DefinitionRequest>,
) -> Result<Json<ValidDefinitionResponse>, Refusal> {
    let space = automations::space_for(&app, &caller.principal, body.space.as_deref()).await?;
    let Checked { read, facts, .. } = automations::check(&app, &caller.principal, &space, None, &body.definition).await?;
    let flags = views(definition::review(&read.definition, &facts));
    Ok(Json(ValidDefinitionResponse { digest: read.hash.to_string(), definition: read.normalised, warnings: views(read.warnings), flags }))
}

/// Says what would happen to each step of a plan now, with which params, and when it would fire. Nothing is performed.
#[utoipa::path(operation_id = "automations_dry_run", post, path = "/api/v1/automations/dry-run", tag = "automations", request_body = DryRunRequest,
    responses((status = 200, body = PlanView)))]
pub(super) async fn dry_run(State(app): State<App>, caller: Caller, Exact(body): Exact<DryRunRequest>) -> Result<Json<PlanView>, Refusal> {
    let DryRunRequest { automation, space, definition, inputs, run } = &body;
    let asked = automations::Asked {
        automation: automation.as_deref(),
        space: space.as_deref(),
        definition: definition.as_ref(),
        inputs: inputs.clone(),
        run: run.as_deref(),
    };
    Ok(Json(plan(&app, automations::dry_run(&app, &caller.principal, asked).await?)))
}

/// The same for the saved definition of an automation, with what its last run that succeeded came to.
#[utoipa::path(operation_id = "automations_plan", get, path = "/api/v1/automations/{automation}/plan", tag = "automations", params(("automation" = String, Path)),
    responses((status = 200, body = PlanView)))]
pub(super) async fn plan_of(State(app): State<App>, caller: Caller, Path(automation): Path<String>) -> Result<Json<PlanView>, Refusal> {
    let asked = automations::Asked { automation: Some(&automation), space: None, definition: None, inputs: None, run: None };
    Ok(Json(plan(&app, automations::dry_run(&app, &caller.principal, asked).await?)))
}

fn plan(app: &App, tried: DryRun) -> PlanView {
    let DryRun { checked: Checked { read, facts, named }, steps, run } = tried;
    let step = |(planned, rendered): (automations::PlannedStep<'_>, Rendered)| {
        let (action, standing) = named.get(&planned.step.action)?;
        let error = rendered.error.map(|error| Failure { code: error.code().to_owned(), message: policy::redact_text(&error.message) });
        Some(PlannedStepView {
            phase: planned.phase,
            step_id: planned.step.step_id.clone(),
            action: planned.step.action.clone(),
            title: action.title.clone(),
            tier: action.tier,
            mode: standing.decision.mode,
            mode_source: standing.decision.source,
            tightened: standing.decision.tightened.iter().map(ToString::to_string).collect(),
            when: rendered.when,
            params: rendered.params,
            needs: rendered.needs.into_iter().collect(),
            error: error.map(RunErrorView::from),
        })
    };
    let now = app.parts.clock.now();
    let schedule = |trigger: &definition::Trigger| {
        let Kind::Schedule(schedule) = &trigger.kind else { return None };
        let parsed = Schedule::parse(&schedule.config()).ok()?;
        Some(PlannedScheduleView {
            trigger_id: trigger.trigger_id.clone(),
            schedule: parsed.describe(),
            timezone: parsed.timezone().to_owned(),
            next: parsed.next_three(now).into_iter().map(|tick| tick.scheduled_for).collect(),
        })
    };
    PlanView {
        digest: read.hash.to_string(),
        run_id: run.map(|run| run.to_string()),
        steps: automations::steps(&read).zip(steps).filter_map(step).collect(),
        schedules: read.definition.triggers.iter().filter_map(schedule).collect(),
        flags: views(definition::review(&read.definition, &facts)),
        warnings: views(read.warnings),
    }
}

/// How a definition differs from the saved one, place by place.
#[utoipa::path(operation_id = "automations_diff", post, path = "/api/v1/automations/{automation}/diff", tag = "automations", params(("automation" = String, Path)),
    request_body = DefinitionRequest,
    responses((status = 200, body = DefinitionDiffView)))]
pub(super) async fn diff(
    State(app): State<App>,
    caller: Caller,
    Path(automation): Path<String>,
    Exact(body): Exact<DefinitionRequest>,
) -> Result<Json<DefinitionDiffView>, Refusal> {
    let (saved, changes) = automations::diff(&app, &caller.principal, &automation, &body.definition).await?;
    let change = |change: definition::Change| DefinitionChangeView { pointer: change.pointer, before: change.before, after: change.after };
    Ok(Json(DefinitionDiffView { version: saved.version, changes: changes.into_iter().map(change).collect() }))
}

/// Pauses an automation: nothing fires it until it is resumed, but a person still may run it.
#[utoipa::path(operation_id = "automations_pause", post, path = "/api/v1/automations/{automation}/pause", tag = "automations", params(("automation" = String, Path)),
    responses((status = 200, body = AutomationView)))]
pub(super) async fn pause(State(app): State<App>, caller: Caller, Path(automation): Path<String>) -> Result<Json<AutomationView>, Refusal> {
    set_status(&app, &caller, &automation, AutomationStatus::Paused).await
}

/// Resumes an automation. Its schedules start from now: what they missed is not caught up.
#[utoipa::path(operation_id = "automations_resume", post, path = "/api/v1/automations/{automation}/resume", tag = "automations", params(("automation" = String, Path)),
    responses((status = 200, body = AutomationView)))]
pub(super) async fn resume(
    State(app): State<App>,
    caller: Caller,
    Path(automation): Path<String>,
) -> Result<Json<AutomationView>, Refusal> {
    set_status(&app, &caller, &automation, AutomationStatus::Active).await
}

/// Archives an automation for good. Its history stays, nothing runs it any more, and its name is free.
#[utoipa::path(operation_id = "automations_archive", post, path = "/api/v1/automations/{automation}/archive", tag = "automations", params(("automation" = String, Path)),
    responses((status = 200, body = AutomationView)))]
pub(super) async fn archive(
    State(app): State<App>,
    caller: Caller,
    Path(automation): Path<String>,
) -> Result<Json<AutomationView>, Refusal> {
    set_status(&app, &caller, &automation, AutomationStatus::Archived).await
}

async fn set_status(app: &App, caller: &Caller, automation: &str, status: AutomationStatus) -> Result<Json<AutomationView>, Refusal> {
    let changed = automations::set_status(app, &caller.principal, automation, status).await?;
    Ok(Json(view(app, changed, None).await?))
}

/// Every version of an automation, newest first.
#[utoipa::path(operation_id = "automations_versions", get, path = "/api/v1/automations/{automation}/versions", tag = "automations",
    params(("automation" = String, Path), PageQuery),
    responses((status = 200, body = Page<AutomationVersionView>)))]
pub(super) async fn versions(
    State(app): State<App>,
    caller: Caller,
    Path(automation): Path<String>,
    Asked(query): Asked<PageQuery>,
) -> Result<Json<Page<AutomationVersionView>>, Refusal> {
    let page = automations::versions(&app, &caller.principal, &automation, &query.request()?).await?;
    Ok(Json(Page { items: page.items.into_iter().map(AutomationVersionView::from).collect(), next: page.next }))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ExportQuery {
    /// Which version; the current one when absent.
    version: Option<u32>,
}

/// The normalised definition of an automation, as a file that can be imported elsewhere. It holds no secrets.
#[utoipa::path(operation_id = "automations_export", get, path = "/api/v1/automations/{automation}/export", tag = "automations",
    params(("automation" = String, Path), ExportQuery),
    responses((status = 200, body = Value)))]
pub(super) async fn export(
    State(app): State<App>,
    caller: Caller,
    Path(automation): Path<String>,
    Asked(query): Asked<ExportQuery>,
) -> Result<(HeaderMap, Json<Value>), Refusal> {
    let (definition, digest) = automations::export(&app, &caller.principal, &automation, query.version).await?;
    Ok((etag(digest), Json(Value::clone(&definition))))
}

/// Takes a definition from elsewhere. It becomes a draft with flags, which a person reads and saves.
#[utoipa::path(operation_id = "automations_import", post, path = "/api/v1/automations/import", tag = "automations", request_body = DefinitionRequest,
    responses((status = 201, body = DraftView)))]
pub(super) async fn import(
    State(app): State<App>,
    caller: Caller,
    Exact(body): Exact<DefinitionRequest>,
) -> Result<(StatusCode, Json<DraftView>), Refusal> {
    let space = automations::space_for(&app, &caller.principal, body.space.as_deref()).await?;
    let (draft, flags) = drafts::import(&app, &caller.principal, &space, &body.definition).await?;
    Ok((StatusCode::CREATED, Json(DraftView::new(draft, views(flags)))))
}

/// Runs an automation now. A paused one runs too.
#[utoipa::path(operation_id = "automations_run", post, path = "/api/v1/automations/{automation}/run", tag = "automations",
    params(("automation" = String, Path), ("Idempotency-Key" = Option<String>, Header, description = "The same key and inputs start one run, for 24 hours.")),
    request_body = RunAutomationRequest,
    responses(
        (status = 202, description = "What it came to; `run_id` is the run, if one was started.", body = FiredResponse),
        (status = 422, description = "The inputs do not fit, or the key was used with others.", body = Problem, content_type = "application/problem+json"),
    ))]
pub(super) async fn run(
    State(app): State<App>,
    caller: Caller,
    Path(automation): Path<String>,
    headers: HeaderMap,
    OrEmpty(body): OrEmpty<RunAutomationRequest>,
) -> Result<(StatusCode, HeaderMap, Json<FiredResponse>), Refusal> {
    let key = key_of(&headers)?;
    Ok(fired(&app, &runs::start(&app, &caller.principal, &automation, body.inputs, key).await?))
}

/// The header `Idempotency-Key`, if there is one.
pub(super) fn key_of(headers: &HeaderMap) -> Result<Option<&str>, Refusal> {
    let text = headers.get("idempotency-key").map(HeaderValue::to_str).transpose();
    text.map_err(|_| Refusal::new(Code::InvalidRequest, "the header `Idempotency-Key` has other characters than visible ASCII"))
}

/// What a firing came to, for whoever asked for it.
pub(super) fn fired(app: &App, answered: &Answered) -> (StatusCode, HeaderMap, Json<FiredResponse>) {
    let told = FiredResponse::new(&answered.firing, app.parts.address.address());
    let mut headers = HeaderMap::new();
    if let Some(run) = &told.run_id
        && let Ok(place) = HeaderValue::from_str(&format!("/api/v1/runs/{run}"))
    {
        headers.insert(header::LOCATION, place);
    }
    if answered.is_replayed {
        headers.insert("idempotent-replayed", HeaderValue::from_static("true"));
    }
    (StatusCode::ACCEPTED, headers, Json(told))
}

/// The triggers of an automation.
#[utoipa::path(operation_id = "triggers_list", get, path = "/api/v1/automations/{automation}/triggers", tag = "automations", params(("automation" = String, Path)),
    responses((status = 200, body = Page<TriggerView>)))]
pub(super) async fn triggers(
    State(app): State<App>,
    caller: Caller,
    Path(automation): Path<String>,
) -> Result<Json<Page<TriggerView>>, Refusal> {
    let found = automations::find(&app, &caller.principal, &automation).await?;
    Ok(Json(Page { items: trigger_views(&app, &found).await?, next: None }))
}

/// Enables a trigger. A schedule starts from now, or makes up for what it missed since it was disabled, as its `catch_up` says.
#[utoipa::path(operation_id = "triggers_enable", post, path = "/api/v1/automations/{automation}/triggers/{trigger}/enable", tag = "automations",
    params(("automation" = String, Path), ("trigger" = String, Path)), request_body = EnableTriggerRequest,
    responses((status = 200, body = TriggerView)))]
pub(super) async fn enable(
    State(app): State<App>,
    caller: Caller,
    Path((automation, trigger)): Path<(String, String)>,
    OrEmpty(body): OrEmpty<EnableTriggerRequest>,
) -> Result<Json<TriggerView>, Refusal> {
    let change = if body.catch_up { Switch::CatchUp } else { Switch::Enable };
    switch(&app, &caller, &automation, &trigger, change).await
}

/// Disables a trigger: it starts nothing until it is enabled.
#[utoipa::path(operation_id = "triggers_disable", post, path = "/api/v1/automations/{automation}/triggers/{trigger}/disable", tag = "automations",
    params(("automation" = String, Path), ("trigger" = String, Path)),
    responses((status = 200, body = TriggerView)))]
pub(super) async fn disable(
    State(app): State<App>,
    caller: Caller,
    Path((automation, trigger)): Path<(String, String)>,
) -> Result<Json<TriggerView>, Refusal> {
    switch(&app, &caller, &automation, &trigger, Switch::Disable).await
}

async fn switch(app: &App, caller: &Caller, automation: &str, trigger: &str, switch: Switch) -> Result<Json<TriggerView>, Refusal> {
    let found = automations::switch_trigger(app, &caller.principal, automation, trigger, switch).await?;
    let changed = trigger_views(app, &found).await?.into_iter().find(|view| view.id == trigger);
    changed.map(Json).ok_or_else(|| Error::not_found("trigger", trigger).into())
}

/// Gives a webhook a new token, which is shown here and never again.
#[utoipa::path(operation_id = "triggers_rotate_token", post, path = "/api/v1/automations/{automation}/triggers/{trigger}/rotate-token", tag = "automations",
    params(("automation" = String, Path), ("trigger" = String, Path)), request_body = RotateTokenRequest,
    responses((status = 200, body = HookTokenView)))]
pub(super) async fn rotate_token(
    State(app): State<App>,
    caller: Caller,
    Path((automation, trigger)): Path<(String, String)>,
    OrEmpty(body): OrEmpty<RotateTokenRequest>,
) -> Result<Json<HookTokenView>, Refusal> {
    let token = automations::rotate_token(&app, &caller.principal, &automation, &trigger, body.keep_old).await?;
    let (found, _) = automations::visible(&app, &caller.principal, &automation).await?;
    let fire_url = automations::fire_url(&app, &found.id);
    Ok(Json(HookTokenView { trigger_id: trigger, token: token.expose().clone(), fire_url }))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct FiringsQuery {
    /// Only those of this trigger.
    trigger: Option<String>,
    /// Only those that came to this.
    outcome: Option<FiringOutcome>,
    /// Only those that started no run.
    no_run: Option<bool>,
    /// Rows of one page, 1 to 100; 50 when absent.
    limit: Option<u32>,
    /// The `next` of the page before.
    after: Option<String>,
}

/// What the triggers of an automation came to, newest first: also what started nothing, and why.
#[utoipa::path(operation_id = "firings_list", get, path = "/api/v1/automations/{automation}/firings", tag = "automations",
    params(("automation" = String, Path), FiringsQuery),
    responses((status = 200, body = Page<FiringView>)))]
pub(super) async fn firings(
    State(app): State<App>,
    caller: Caller,
    Path(automation): Path<String>,
    Asked(query): Asked<FiringsQuery>,
) -> Result<Json<Page<FiringView>>, Refusal> {
    let FiringsQuery { trigger, outcome, no_run, limit, after } = query;
    let request = page_request(limit, after)?;
    let filter = FiringFilter { trigger, outcome, no_run: no_run == Some(true) };
    let page = automations::firings(&app, &caller.principal, &automation, &filter, &request).await?;
    Ok(Json(Page { items: page.items.into_iter().map(FiringView::from).collect(), next: page.next }))
}

/// The form of definitions, as JSON Schema 2020-12.
#[utoipa::path(operation_id = "schemas_automation", get, path = "/api/v1/schemas/automation", tag = "automations", security(()),
    responses((status = 200, body = Value)))]
pub(super) async fn automation_schema() -> Json<Value> {
    Json(definition::schema())
}

/// The form of the filters of event triggers, as JSON Schema 2020-12.
#[utoipa::path(operation_id = "schemas_filter", get, path = "/api/v1/schemas/filter", tag = "automations", security(()),
    responses((status = 200, body = Value)))]
pub(super) async fn filter_schema() -> Json<Value> {
    Json(filter::schema())
}

/// What became of a definition to be saved.
pub(super) async fn told(
    app: &App,
    applied: Applied,
    warnings: Vec<Mistake>,
    saved_with: StatusCode,
) -> Result<(StatusCode, Json<SavedAutomationResponse>), Refusal> {
    let mut response =
        SavedAutomationResponse { automation: None, draft: None, is_new_version: false, tokens: Vec::new(), warnings: views(warnings) };
    let status = match applied {
        Applied::Draft(draft, flags) => {
            response.draft = Some(DraftView::new(draft, views(flags)));
            StatusCode::ACCEPTED
        }
        Applied::Saved { automation, tokens, is_new_version } => {
            let fire_url = automations::fire_url(app, &automation.id);
            let token = |(trigger_id, token): (String, countersign_core::Secret<String>)| HookTokenView {
                trigger_id,
                token: token.expose().clone(),
                fire_url: fire_url.clone(),
            };
            response.tokens = tokens.into_iter().map(token).collect();
            response.is_new_version = is_new_version;
            response.automation = Some(saved_view(app, automation).await);
            saved_with
        }
    };
    Ok((status, Json(response)))
}

/// An automation that was just saved. The tokens of its webhooks are told once, so whatever cannot be read now is left out.
async fn saved_view(app: &App, automation: Automation) -> AutomationView {
    let definition = automations::definition(app, &automation, automation.definition).await.ok();
    let definition = definition.map(|definition| Value::clone(&definition));
    match view(app, automation.clone(), definition.clone()).await {
        Ok(view) => view,
        Err(_away) => AutomationView::new(automation, Vec::new(), None, definition),
    }
}

async fn view(app: &App, automation: Automation, definition: Option<Value>) -> Result<AutomationView, Refusal> {
    let triggers = trigger_views(app, &automation).await?;
    let last_run = automations::last_run(app, &automation, None).await?;
    Ok(AutomationView::new(automation, triggers, last_run.as_ref(), definition))
}

async fn trigger_views(app: &App, automation: &Automation) -> Result<Vec<TriggerView>, Refusal> {
    let triggers = automations::triggers(app, automation).await?;
    let has_schedule = triggers.iter().any(|(trigger, _)| trigger.kind == TriggerType::Schedule);
    let schedules = if has_schedule { automations::schedules(app, automation).await? } else { BTreeMap::new() };
    let view = |(trigger, signed_by): (countersign_core::automation::Trigger, Option<String>)| {
        let fire_url = (trigger.kind == TriggerType::Webhook).then(|| automations::fire_url(app, &automation.id));
        let schedule = schedules.get(&trigger.id).cloned();
        TriggerView { schedule, fire_url, signed_by, ..TriggerView::new(trigger) }
    };
    Ok(triggers.into_iter().map(view).collect())
}

pub(super) fn views(mistakes: Vec<Mistake>) -> Vec<MistakeView> {
    mistakes.into_iter().map(mistake_view).collect()
}
