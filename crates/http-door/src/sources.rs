//! Sources that admins add: MCP servers elsewhere, and programs in the jail.

use super::body::Strict;
use super::caller::Caller;
use super::page::{Asked, PageQuery};
use super::problem::Refusal;
use super::reviews;
use ::sources::mcp::{Known, LastWords, because};
use api::Page;
use api::rules::ReviewView;
use api::source::{
    AddedSourceView, EditSourceRequest, HarvestView, LeftOutView, NewSourceRequest, SourceActionView, SourceConnectionView,
    SourceErrorView, SourceProgramView, SourceReviewRequest, SourceReviewView, SourceTestView, VariableView,
};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use countersign_core::OrgId;
use countersign_core::ports::Rules;
use countersign_core::ports::sources::{AddedSource, Hints, McpServer, Variable, VariableValue};
use countersign_core::switch::SwitchScope;
use homes::added_sources::tiers_of;
use operations::App;
use operations::{Error, sources};
use pipeline::SourceListing;

/// Sources that were added, by name, each with what it listed last.
#[utoipa::path(operation_id = "sources_list", get, path = "/api/v1/sources", tag = "sources", params(PageQuery),
    responses((status = 200, body = Page<AddedSourceView>)))]
pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    Asked(query): Asked<PageQuery>,
) -> Result<Json<Page<AddedSourceView>>, Refusal> {
    let org = &caller.principal.org;
    let page = sources::list(&app, &caller.principal, &query.request()?).await?;
    let listed = app.pipeline().catalogue().list(org).await;
    let mut items = Vec::with_capacity(page.items.len());
    for added in page.items {
        let listing = listed.iter().find(|listing| listing.id == added.id.as_str());
        items.push(view(&app, org, added, listing).await?);
    }
    Ok(Json(Page { items, next: page.next }))
}

/// Adds an MCP server as a source. It is asked for its actions first; if that fails, nothing is added.
///
/// Its actions count as reviewed by whoever adds it, except those in whose definition a safety check found something. What appears or
/// changes later needs a review of its own: until then its calls need approval.
#[utoipa::path(operation_id = "sources_add", post, path = "/api/v1/sources", tag = "sources", request_body = NewSourceRequest,
    responses((status = 201, body = AddedSourceView)))]
pub(super) async fn add(
    State(app): State<App>,
    caller: Caller,
    Strict(body): Strict<NewSourceRequest>,
) -> Result<(StatusCode, Json<AddedSourceView>), Refusal> {
    let added = sources::add(&app, &caller.principal, body).await?;
    Ok((StatusCode::CREATED, done(&app, &caller, added, "added").await?))
}

/// One source by its name, also after it was removed.
#[utoipa::path(operation_id = "sources_show", get, path = "/api/v1/sources/{source}", tag = "sources", params(("source" = String, Path)),
    responses((status = 200, body = AddedSourceView)))]
pub(super) async fn show(State(app): State<App>, caller: Caller, Path(source): Path<String>) -> Result<Json<AddedSourceView>, Refusal> {
    let added = sources::find(&app, &caller.principal, &source).await?;
    shown(&app, &caller.principal.org, added).await
}

/// Changes what is set about a source. If that changes its actions, it is asked for them first, and those that were reviewed stay so.
#[utoipa::path(operation_id = "sources_edit", patch, path = "/api/v1/sources/{source}", tag = "sources", params(("source" = String, Path)), request_body = EditSourceRequest,
    responses((status = 200, body = AddedSourceView)))]
pub(super) async fn edit(
    State(app): State<App>,
    caller: Caller,
    Path(source): Path<String>,
    Strict(body): Strict<EditSourceRequest>,
) -> Result<Json<AddedSourceView>, Refusal> {
    let changed = sources::edit(&app, &caller.principal, &source, body).await?;
    done(&app, &caller, changed, "changed").await
}

/// Removes a source. Its receipts, and the definitions that its actions had, stay readable.
#[utoipa::path(operation_id = "sources_remove", delete, path = "/api/v1/sources/{source}", tag = "sources", params(("source" = String, Path)),
    responses((status = 200, body = AddedSourceView)))]
pub(super) async fn remove(State(app): State<App>, caller: Caller, Path(source): Path<String>) -> Result<Json<AddedSourceView>, Refusal> {
    let removed = sources::remove(&app, &caller.principal, &source).await?;
    done(&app, &caller, removed, "removed").await
}

/// Connects to a source anew and asks it for its actions. Nothing of the answer is kept.
#[utoipa::path(operation_id = "sources_test", post, path = "/api/v1/sources/{source}/test", tag = "sources", params(("source" = String, Path)),
    responses((status = 200, body = SourceTestView)))]
pub(super) async fn test(State(app): State<App>, caller: Caller, Path(source): Path<String>) -> Result<Json<SourceTestView>, Refusal> {
    let tested = sources::test(&app, &caller.principal, &source).await?;
    let took_ms = tested.took_ms;
    Ok(Json(match tested.known {
        Ok(Known { version, listed }) => SourceTestView {
            protocol: Some(version).filter(|version| !version.is_empty()),
            actions: listed.actions.len() as u64,
            left_out: (listed.skipped.len() + listed.skipped_more) as u64,
            took_ms,
            error: None,
        },
        Err(error) => {
            let message = policy::redact_text(&error.without_conclusion());
            let error = SourceErrorView { code: error.code().to_owned(), message };
            SourceTestView { protocol: None, actions: 0, left_out: 0, took_ms, error: Some(error) }
        }
    }))
}

/// Asks a source for its actions now, instead of within five minutes. If it does not answer, `harvest.error` says why. A source whose kill
/// switch is on is not asked.
#[utoipa::path(operation_id = "sources_refresh", post, path = "/api/v1/sources/{source}/refresh", tag = "sources", params(("source" = String, Path)),
    responses((status = 200, body = AddedSourceView)))]
pub(super) async fn refresh(State(app): State<App>, caller: Caller, Path(source): Path<String>) -> Result<Json<AddedSourceView>, Refusal> {
    let added = sources::refresh(&app, &caller.principal, &source).await?;
    shown(&app, &caller.principal.org, added).await
}

/// Marks definitions of a source as reviewed: those that are named, each with the digest of what was shown.
#[utoipa::path(operation_id = "sources_review", post, path = "/api/v1/sources/{source}/review", tag = "sources", params(("source" = String, Path)), request_body = SourceReviewRequest,
    responses((status = 200, body = SourceReviewView)))]
pub(super) async fn review(
    State(app): State<App>,
    caller: Caller,
    Path(source): Path<String>,
    Strict(body): Strict<SourceReviewRequest>,
) -> Result<Json<SourceReviewView>, Refusal> {
    let reviewed = sources::review(&app, &caller.principal, &source, body).await?;
    Ok(Json(SourceReviewView { reviewed: reviewed.iter().map(ToString::to_string).collect() }))
}

/// Actions of a source that are not as they were reviewed: changed, new, or gone.
#[utoipa::path(operation_id = "sources_drift", get, path = "/api/v1/sources/{source}/drift", tag = "sources", params(("source" = String, Path)),
    responses((status = 200, body = Page<ReviewView>)))]
pub(super) async fn drift(State(app): State<App>, caller: Caller, Path(source): Path<String>) -> Result<Json<Page<ReviewView>>, Refusal> {
    let mut items = Vec::new();
    for differing in sources::drift(&app, &caller.principal, &source).await? {
        let shown = reviews::view(&app, &caller.principal.org, &differing.action, differing.review, differing.now).await?;
        items.push(ReviewView { drift: differing.drift, ..shown });
    }
    Ok(Json(Page { items, next: None }))
}

/// A source that was just written. What fails from here on does not undo it.
async fn done(app: &App, caller: &Caller, added: AddedSource, what: &str) -> Result<Json<AddedSourceView>, Refusal> {
    let id = added.id.clone();
    let shown = shown(app, &caller.principal.org, added).await;
    let is_done = |refusal: Refusal| Error::interrupted(&refusal.0.detail, format!("source `{id}` was {what}"), format!("sources/{id}"));
    Ok(shown.map_err(is_done)?)
}

async fn shown(app: &App, org: &OrgId, added: AddedSource) -> Result<Json<AddedSourceView>, Refusal> {
    let listed = if added.removed_at.is_none() { app.pipeline().catalogue().list(org).await } else { Vec::new() };
    let listing = listed.iter().find(|listing| listing.id == added.id.as_str());
    Ok(Json(view(app, org, added, listing).await?))
}

async fn view(app: &App, org: &OrgId, added: AddedSource, listing: Option<&SourceListing>) -> Result<AddedSourceView, Refusal> {
    let harvest = harvest(app, org, &added, listing).await?;
    let program = if added.removed_at.is_none() { app.parts.added.find(org, &added.id).await? } else { None };
    let program = program.and_then(|source| source.last_words());
    let AddedSource { id, version, settings, added_by, added_at, changed_by, changed_at, removed_at } = added;
    let connection = match &settings.connection {
        Some(connection) => app.store().find_connection_by_id(org, connection).await?,
        None => None,
    };
    let switches = app.store().list_switches(org).await?;
    let (kind, url, command, package, env) = match settings.server {
        McpServer::Http { url } => ("http", Some(url), None, None, Vec::new()),
        McpServer::Program { command, env } => ("program", None, Some(command), None, env),
        McpServer::Package { package, env } => ("package", None, None, Some(package.to_string()), env),
    };
    Ok(AddedSourceView {
        paused: switches.iter().any(|switch| matches!(&switch.scope, SwitchScope::Source(source) if *source == id)),
        id: id.to_string(),
        title: settings.title,
        kind: kind.to_owned(),
        url,
        command,
        package,
        env: env.into_iter().map(variable).collect(),
        connection: connection.map(|found| SourceConnectionView { id: found.id.to_string(), name: found.name.to_string() }),
        default_tier: settings.default_tier,
        trust_hints: settings.hints == Hints::Trusted,
        tiers: settings.tiers,
        spaces: settings.spaces.map(|spaces| spaces.iter().map(ToString::to_string).collect()),
        list_timeout_ms: settings.list_timeout_ms,
        call_timeout_ms: settings.call_timeout_ms,
        version,
        added_by: added_by.to_string(),
        added_at,
        changed_by: changed_by.to_string(),
        changed_at,
        removed_at,
        harvest,
        program: program.map(|LastWords { ended, hint, lines }| SourceProgramView { ended, hint, stderr: lines }),
    })
}

fn variable(Variable { name, value }: Variable) -> VariableView {
    match value {
        VariableValue::Value(value) => VariableView { name, value: Some(value), secret: None },
        VariableValue::Secret(secret) => VariableView { name, value: None, secret: Some(secret) },
    }
}

/// What the source listed last. A source that was removed has no listing any more.
async fn harvest(app: &App, org: &OrgId, added: &AddedSource, listing: Option<&SourceListing>) -> Result<HarvestView, Refusal> {
    let Some(listing) = listing else {
        return Ok(HarvestView {
            listed_at: None,
            is_stale: false,
            error: None,
            protocol: None,
            actions: Vec::new(),
            left_out: Vec::new(),
        });
    };
    let known = app.parts.added.find(org, &added.id).await?.and_then(|source| source.known());
    let mut actions = Vec::with_capacity(listing.actions.len());
    for action in &listing.actions {
        let standing = app.pipeline().standing(org, None, action).await?;
        let told = known.as_ref().and_then(|known| known.listed.because.get(action.id.name()));
        let because = told.copied().unwrap_or_else(|| because(action.id.name(), action.tier, &tiers_of(&added.settings)));
        actions.push(SourceActionView {
            id: action.id.to_string(),
            title: action.title.clone(),
            tier: action.tier,
            because: because.as_str().to_owned(),
            mode: standing.decision.mode,
            drift: standing.drift,
        });
    }
    Ok(HarvestView {
        listed_at: listing.listed_at,
        is_stale: listing.is_stale,
        error: listing.error.clone(),
        protocol: known.as_ref().map(|known| known.version.clone()),
        actions,
        left_out: known.map(left_out).unwrap_or_default(),
    })
}

fn left_out(known: Known) -> Vec<LeftOutView> {
    let more = known.listed.skipped_more;
    let more = (more > 0).then(|| LeftOutView { tool: None, why: format!("{more} more are left out") });
    known.listed.skipped.into_iter().map(|skipped| LeftOutView { tool: skipped.tool, why: skipped.why }).chain(more).collect()
}
