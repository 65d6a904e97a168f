//! What can be invoked, and how.

use super::caller::Caller;
use super::page::{Asked, moment};
use super::problem::Refusal;
use api::Code;
use api::action::{ActionStatsView, ActionView, AvailableResponse, GuideResponse, LatencyView, SourceView};
use axum::Json;
use axum::extract::{Path, State};
use countersign_core::action::{Action, Preview};
use countersign_core::ports::Rules;
use countersign_core::{ActionId, OrgId, Session, Space};
use operations::App;
use operations::{sessions, sources};
use pipeline::{Eyes, Standing};
use serde::Deserialize;
use std::sync::Arc;
use store::ActionStats;
use utoipa::IntoParams;

/// What this session may invoke, source by source, with the mode each action has for it now.
#[utoipa::path(operation_id = "actions_available", get, path = "/api/v1/sessions/{session}/actions/available", tag = "actions", params(("session" = String, Path)),
    responses((status = 200, body = AvailableResponse)))]
pub(super) async fn available(
    State(app): State<App>,
    caller: Caller,
    Path(session): Path<String>,
) -> Result<Json<AvailableResponse>, Refusal> {
    let session = caller.readable_session(&app, &session).await?;
    let space = app.store().find_space(&session.org, &session.space).await?;
    let space = space.ok_or_else(|| Refusal::new(Code::Internal, "the session is in no space"))?;
    Ok(Json(listing(&app, &session.org, Some((&session, &space))).await?))
}

/// How to use a source.
#[utoipa::path(operation_id = "actions_session_guide", get, path = "/api/v1/sessions/{session}/actions/guide/{source}", tag = "actions",
    params(("session" = String, Path), ("source" = String, Path)),
    responses((status = 200, body = GuideResponse)))]
pub(super) async fn session_guide(
    State(app): State<App>,
    caller: Caller,
    Path((session, source)): Path<(String, String)>,
) -> Result<Json<GuideResponse>, Refusal> {
    let session = caller.readable_session(&app, &session).await?;
    guide_of(&app, (&session).into(), source).await
}

/// Every action of the org's sources, with the mode it has in a green space.
#[utoipa::path(operation_id = "actions_list", get, path = "/api/v1/actions", tag = "actions", responses((status = 200, body = AvailableResponse)))]
pub(super) async fn list(State(app): State<App>, caller: Caller) -> Result<Json<AvailableResponse>, Refusal> {
    caller.must_read()?;
    let hidden = sources::hidden(&app, &caller.principal).await?;
    let mut listing = listing(&app, &caller.principal.org, None).await?;
    listing.sources.retain(|source| !hidden.contains(&source.id));
    Ok(Json(listing))
}

/// One action. An agent finds those of the sources that its session is connected to.
#[utoipa::path(operation_id = "actions_show", get, path = "/api/v1/actions/{action}", tag = "actions", params(("action" = String, Path)),
    responses((status = 200, body = ActionView)))]
pub(super) async fn show(State(app): State<App>, caller: Caller, Path(action): Path<String>) -> Result<Json<ActionView>, Refusal> {
    caller.must_read_session()?;
    let org = &caller.principal.org;
    let own = sessions::own(&app, &caller.principal).await?;
    let eyes = Eyes::of(org, own.as_ref());
    let hidden = sources::hidden(&app, &caller.principal).await?;
    match app.pipeline().catalogue().find_listed(eyes, &action).await {
        Some(found) if !hidden.contains(found.id.source()) => Ok(Json(view(&app, org, None, &found).await?)),
        Some(_) | None => Err(sources::unknown_action(&app, &caller.principal, eyes, &action).await.into()),
    }
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct StatsQuery {
    /// Of calls that ended then or later: a time, or how long ago, such as `7d`.
    since: Option<String>,
}

/// How well an action does: how often its calls succeed, their mean reward, and how long they take. Of its last 10 000 calls at most.
#[utoipa::path(operation_id = "actions_stats", get, path = "/api/v1/actions/{action}/stats", tag = "actions", params(("action" = String, Path), StatsQuery),
    responses((status = 200, body = ActionStatsView)))]
pub(super) async fn stats(
    State(app): State<App>,
    caller: Caller,
    Path(action): Path<String>,
    Asked(query): Asked<StatsQuery>,
) -> Result<Json<ActionStatsView>, Refusal> {
    caller.must_read()?;
    let (org, since) = (&caller.principal.org, query.since.as_deref().map(|text| moment(&app, "since", text)).transpose()?);
    let hidden = sources::hidden(&app, &caller.principal).await?;
    let Some(id) = ActionId::parse(&action).ok().filter(|id| !hidden.contains(id.source())) else {
        return Err(sources::unknown_action(&app, &caller.principal, Eyes::of(org, None), &action).await.into());
    };
    let stats = app.store().find_action_stats(org, &id, &caller.hidden(&app).await?, since).await?;
    // An action that is gone still has its past.
    if stats.by_status.is_empty() && app.pipeline().catalogue().find_listed(Eyes::of(org, None), &action).await.is_none() {
        return Err(sources::unknown_action(&app, &caller.principal, Eyes::of(org, None), &action).await.into());
    }
    Ok(Json(stats_view(action, &stats)))
}

fn stats_view(action: String, stats: &ActionStats) -> ActionStatsView {
    let executed = stats.rewards.len();
    let mean = |sum: f64| (executed > 0).then(|| sum / executed as f64);
    ActionStatsView {
        action,
        calls: stats.by_status.iter().map(|(status, calls)| ((*status).to_owned(), *calls)).collect(),
        executed: executed as u64,
        success_rate: mean(stats.succeeded as f64),
        mean_reward: mean(stats.rewards.iter().map(|&reward| reward as f64 / 1_000_000.0).sum()),
        latency_ms: LatencyView::of(&stats.exec_ms),
    }
}

/// How to use a source.
#[utoipa::path(operation_id = "actions_guide", get, path = "/api/v1/sources/{source}/guide", tag = "actions", params(("source" = String, Path)),
    responses((status = 200, body = GuideResponse)))]
pub(super) async fn guide(State(app): State<App>, caller: Caller, Path(source): Path<String>) -> Result<Json<GuideResponse>, Refusal> {
    caller.must_read_session()?;
    let own = sessions::own(&app, &caller.principal).await?;
    if sources::hidden(&app, &caller.principal).await?.contains(&source) {
        return Err(unknown_source());
    }
    guide_of(&app, Eyes::of(&caller.principal.org, own.as_ref()), source).await
}

async fn guide_of(app: &App, eyes: Eyes<'_>, source: String) -> Result<Json<GuideResponse>, Refusal> {
    match app.pipeline().catalogue().guide(eyes, &source).await {
        Some(guide) => Ok(Json(GuideResponse { source, guide })),
        None => Err(unknown_source()),
    }
}

fn unknown_source() -> Refusal {
    Refusal::new(Code::UnknownSource, "there is no such source")
}

async fn listing(app: &App, org: &OrgId, session: Option<(&Session, &Space)>) -> Result<AvailableResponse, Refusal> {
    let mut sources = Vec::new();
    for source in app.pipeline().catalogue().list(Eyes::of(org, session.map(|(session, _)| session))).await {
        let mut views = Vec::with_capacity(source.actions.len());
        for action in source.actions {
            views.push(view(app, org, session, &action).await?);
        }
        let (id, title, stale, error) = (source.id, source.title, source.is_stale, source.error);
        sources.push(SourceView { id, title, actions: views, stale, error });
    }
    Ok(AvailableResponse { sources })
}

async fn view(app: &App, org: &OrgId, session: Option<(&Session, &Space)>, action: &Arc<Action>) -> Result<ActionView, Refusal> {
    let Standing { decision, drift } = app.pipeline().standing(org, session, action).await?;
    Ok(ActionView {
        drift,
        id: action.id.to_string(),
        title: action.title.clone(),
        description: action.description.clone(),
        version: action.version.clone(),
        tier: action.tier,
        class: action.tier.class(),
        safety_class: action.safety_class(),
        requires: action.requires.clone(),
        idempotency_key_fields: action.idempotency_key_fields.clone(),
        mode: decision.mode,
        mode_source: decision.source,
        params_schema: action.params_schema.clone(),
        result_schema: action.result_schema.clone(),
        reversibility: action.reversibility,
        reversible_seconds: action.reversible_seconds,
        checks: action.checks.clone(),
        hosts: action.hosts.clone(),
        effects: action.effects.clone(),
        produces_artifacts: action.produces_artifacts.clone(),
        profile: action.profile,
        package_sha256: action.package_sha256.map(|digest| digest.to_string()),
        tightened: decision.tightened.iter().map(ToString::to_string).collect(),
        dry_run_supported: action.preview == Preview::Supported,
        timeout_ms: action.timeout_ms,
        price: app.store().find_price(org, &action.id).await?.map(|found| (&found.price).into()),
    })
}
