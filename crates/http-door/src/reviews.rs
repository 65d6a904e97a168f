//! Reviews: which definitions people stand for, and what has changed since.

use super::body::OrEmpty;
use super::caller::Caller;
use super::page::{Asked, PageQuery};
use super::problem::Refusal;
use api::finding::CaughtView;
use api::rules::{CodeChangeView, DefinitionChange, ReviewRequest, ReviewView, WeightName};
use api::{Code, Page};
use axum::Json;
use axum::extract::{Path, State};
use countersign_core::ports::definitions::Wording;
use countersign_core::ports::sources::McpServer;
use countersign_core::{ActionId, Digest, OrgId, Principal, SourceId};
use operations::App;
use operations::{self, Error, action_named, reviews};
use pipeline::{DefinitionNow, Eyes};
use policy::drift::Weight;
use serde_json::Value;
use sources::package::CodeChange;
use std::sync::Arc;
use store::Review;

/// Every reviewed action, with what has changed since its review.
#[utoipa::path(operation_id = "reviews_list", get, path = "/api/v1/reviews", tag = "reviews", params(PageQuery),
    responses((status = 200, body = Page<ReviewView>)))]
pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    Asked(query): Asked<PageQuery>,
) -> Result<Json<Page<ReviewView>>, Refusal> {
    caller.must_read()?;
    let hidden = operations::sources::hidden(&app, &caller.principal).await?;
    let page = app.store().list_reviews(&caller.principal.org, &hidden, &query.request()?).await?;
    let mut items = Vec::with_capacity(page.items.len());
    for review in page.items {
        let now = app.pipeline().definition_of(&caller.principal.org, &review.action).await.ok().flatten();
        items.push(view(&app, &caller.principal.org, &review.action.clone(), Some(review), now).await?);
    }
    Ok(Json(Page { items, next: page.next }))
}

/// What was reviewed of an action, and how it differs from what it is now.
#[utoipa::path(operation_id = "reviews_show", get, path = "/api/v1/reviews/{action}", tag = "reviews", params(("action" = String, Path)),
    responses((status = 200, body = ReviewView)))]
pub(super) async fn show(State(app): State<App>, caller: Caller, Path(action): Path<String>) -> Result<Json<ReviewView>, Refusal> {
    caller.must_read()?;
    let id = action_named(&app, &caller.principal, &action).await?;
    Ok(Json(readable(&app, &caller.principal, &id).await?))
}

/// Marks the definition of an action as reviewed. If the definition changes later, calls need approval again.
#[utoipa::path(operation_id = "reviews_create", post, path = "/api/v1/reviews/{action}", tag = "reviews", params(("action" = String, Path)), request_body = ReviewRequest,
    responses((status = 200, body = ReviewView)))]
pub(super) async fn review(
    State(app): State<App>,
    caller: Caller,
    Path(action): Path<String>,
    OrEmpty(body): OrEmpty<ReviewRequest>,
) -> Result<Json<ReviewView>, Refusal> {
    let bad = || Refusal::new(Code::InvalidRequest, "`textual` is not 64 hex characters").hint("send the digest that was shown");
    let seen = body.textual.as_deref().map(|text| Digest::parse(text).ok_or_else(bad)).transpose()?;
    let wording = if body.ignore_wording { Wording::Ignored } else { Wording::Reviewed };
    let id = reviews::review(&app, &caller.principal, &action, seen, wording).await?;
    let shown = shown(&app, &caller.principal, &id).await;
    let reviewed = |refusal: Refusal| Error::interrupted(&refusal.0.detail, format!("`{id}` was reviewed"), format!("reviews/{id}"));
    Ok(Json(shown.map_err(reviewed)?))
}

/// What was reviewed of an action, for whoever sees its source.
pub(super) async fn readable(app: &App, by: &Principal, action: &ActionId) -> Result<ReviewView, Refusal> {
    if operations::sources::hidden(app, by).await?.contains(action.source()) {
        return Err(unknown(app, by, action).await);
    }
    shown(app, by, action).await
}

async fn shown(app: &App, by: &Principal, action: &ActionId) -> Result<ReviewView, Refusal> {
    let org = &by.org;
    let review = app.store().find_review(org, action).await?;
    let now = app.pipeline().definition_of(org, action).await?;
    if review.is_none() && now.is_none() {
        return Err(unknown(app, by, action).await);
    }
    view(app, org, action, review, now).await
}

async fn unknown(app: &App, by: &Principal, action: &ActionId) -> Refusal {
    operations::sources::unknown_action(app, by, Eyes::of(&by.org, None), action.as_str()).await.into()
}

pub(super) async fn view(
    app: &App,
    org: &OrgId,
    action: &ActionId,
    review: Option<Review>,
    now: Option<DefinitionNow>,
) -> Result<ReviewView, Refusal> {
    let (mut changes, mut code) = (Vec::new(), Vec::new());
    let drift = now.as_ref().and_then(|now| now.drift_since(review.as_ref().map(|review| &review.pin)));
    let findings = if now.is_some() { found(app, org, action).await } else { Vec::new() };
    if let (Some(review), Some(now)) = (&review, &now)
        && review.pin.textual != now.textual
        && let Some(before) = app.store().find_definition(org, review.pin.textual).await?
    {
        changes = differences(&before, &now.text);
        code = code_changes(app, org, action, &before).await?;
    }
    Ok(ReviewView {
        action: action.to_string(),
        drift,
        reviewed_by: review.as_ref().map(|review| review.reviewed_by.to_string()),
        reviewed_at: review.as_ref().map(|review| review.reviewed_at),
        ignores_wording: review.as_ref().is_some_and(|review| review.pin.wording == Wording::Ignored),
        structural: now.as_ref().map(|now| now.structural.to_string()),
        textual: now.as_ref().map(|now| now.textual.to_string()),
        drifted_at: review.as_ref().and_then(|review| review.seen_at),
        findings,
        changes,
        code,
    })
}

/// What changed in the code of an action since it was defined like this.
async fn code_changes(app: &App, org: &OrgId, action: &ActionId, before: &str) -> Result<Vec<CodeChangeView>, Refusal> {
    let before: Value = serde_json::from_str(before).unwrap_or_default();
    let since = before.get("package_sha256").and_then(Value::as_str).and_then(Digest::parse);
    let (Some(packages), Some(since)) = (app.packages(org), since) else { return Ok(Vec::new()) };
    let (action, package) = (action.clone(), package_of(app, org, action).await?);
    let changes = move || match package {
        Some(package) => packages.server_changes(&package, since),
        None => packages.code_changes(&action, since),
    };
    let changes = operations::packages::blocking(changes).await?;
    Ok(changes.unwrap_or_default().into_iter().map(code_change).collect())
}

/// The package whose MCP server performs the action; `None` if the action is a package's own.
async fn package_of(app: &App, org: &OrgId, action: &ActionId) -> Result<Option<SourceId>, Refusal> {
    let Ok(source) = SourceId::parse(action.source()) else { return Ok(None) };
    let added = app.store().find_source(org, &source).await?.filter(|added| added.removed_at.is_none());
    Ok(added.and_then(|added| match added.settings.server {
        McpServer::Package { package, .. } => Some(package),
        McpServer::Http { .. } | McpServer::Program { .. } => None,
    }))
}

fn code_change(change: CodeChange) -> CodeChangeView {
    CodeChangeView {
        path: change.path,
        change: change.change,
        diff: change.diff,
        added_lines: change.added_lines as u64,
        removed_lines: change.removed_lines as u64,
        diff_truncated: change.is_truncated,
    }
}

/// What is odd about a definition, seen beside all others.
async fn found(app: &App, org: &OrgId, action: &ActionId) -> Vec<CaughtView> {
    let all = app.pipeline().actions_now(org).await;
    let (own, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|one| one.id == *action);
    let Some(own) = own.first() else { return Vec::new() };
    let mut findings = policy::scan_definition(own, &others);
    // What a server says about its use is part of each of its definitions.
    if own.guide_sha256.is_some()
        && let Some(guide) = app.pipeline().catalogue().given_guide(org, action.source()).await
    {
        let others = others.iter().map(Arc::as_ref).filter(|other| other.id.source() != action.source());
        findings.extend(policy::scan::scan_guide(&guide, &policy::scan::Others::new(others)));
    }
    findings
        .into_iter()
        .map(|finding| CaughtView { rule: finding.rule.to_owned(), pointer: finding.pointer, message: finding.message })
        .collect()
}

fn differences(before: &str, after: &str) -> Vec<DefinitionChange> {
    let (Ok(before), Ok(after)) = (serde_json::from_str(before), serde_json::from_str(after)) else {
        return Vec::new();
    };
    policy::drift::told(&before, &after)
        .into_iter()
        .map(|(change, summary)| {
            let (before, after) = change.texts();
            DefinitionChange {
                summary,
                weight: match change.weight {
                    Weight::Textual => WeightName::Textual,
                    Weight::Structural => WeightName::Structural,
                    Weight::Risk => WeightName::Risk,
                },
                before,
                after,
                pointer: change.pointer,
            }
        })
        .collect()
}
