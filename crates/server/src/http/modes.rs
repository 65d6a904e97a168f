//! The org's modes.

use super::body::Strict;
use super::caller::Caller;
use super::page::{Asked, page_request};
use super::problem::Refusal;
use crate::App;
use api::problem::FieldError;
use api::rules::{ModeChangeResponse, ModeLine, ModeVersionView, ModeView, ModesFile, ModesReplacedResponse, SetModeRequest};
use api::{Code, Page, Problem};
use axum::Json;
use axum::extract::{Path, State};
use countersign_core::decision::Lock;
use countersign_core::principal::Permission;
use countersign_core::{ActionId, AutomationId, Mode, OrgId};
use pipeline::SourceListing;
use serde::Deserialize;
use store::{FiledMode, ModeChange, ModeSetting, ModeVersion};
use utoipa::IntoParams;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    /// Only what was set for this automation.
    automation: Option<String>,
    /// Rows of one page, 1 to 100; 50 when absent.
    limit: Option<u32>,
    /// The `next` of the page before.
    after: Option<String>,
}

/// Every mode that was set explicitly.
#[utoipa::path(operation_id = "modes_list", get, path = "/api/v1/modes", tag = "modes", params(ListQuery),
    responses((status = 200, body = Page<ModeView>), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn list(State(app): State<App>, caller: Caller, Asked(query): Asked<ListQuery>) -> Result<Json<Page<ModeView>>, Refusal> {
    caller.must(Permission::Read)?;
    let automation = query.automation.as_deref().map(automation_of).transpose()?;
    let request = page_request(query.limit, query.after)?;
    let page = app.store().list_modes(&caller.principal.org, automation.as_ref(), &request).await?;
    Ok(Json(Page { items: page.items.into_iter().map(view).collect(), next: page.next }))
}

pub(super) fn view(mode: ModeSetting) -> ModeView {
    ModeView {
        scope: mode.scope,
        action: mode.action.to_string(),
        mode: mode.mode,
        locked: mode.lock == Lock::Locked,
        version: mode.version,
        set_by: mode.set_by.to_string(),
        set_at: mode.set_at,
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct VersionsQuery {
    /// Only changes of this action's modes.
    action: Option<String>,
    /// Rows of one page, 1 to 100; 50 when absent.
    limit: Option<u32>,
    /// The `next` of the page before.
    after: Option<String>,
}

/// Lists every change of a mode in the audit log, newest first.
#[utoipa::path(operation_id = "modes_versions", get, path = "/api/v1/modes/versions", tag = "modes", params(VersionsQuery),
    responses((status = 200, body = Page<ModeVersionView>), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn versions(
    State(app): State<App>,
    caller: Caller,
    Asked(query): Asked<VersionsQuery>,
) -> Result<Json<Page<ModeVersionView>>, Refusal> {
    caller.must(Permission::Read)?;
    // An action that is gone still has a history.
    let action = query.action.as_deref().map(ActionId::parse).transpose();
    let action = action.map_err(|error| Refusal::new(Code::UnknownAction, error.to_string()))?;
    let request = page_request(query.limit, query.after)?;
    let page = app.store().list_mode_versions(&caller.principal.org, action.as_ref(), &request).await?;
    Ok(Json(Page { items: page.items.into_iter().map(version_view).collect(), next: page.next }))
}

fn version_view(version: ModeVersion) -> ModeVersionView {
    let ModeVersion { change, changed_at } = version;
    ModeVersionView {
        version: change.version,
        scope: change.scope,
        action: change.action.to_string(),
        mode: change.mode,
        locked: change.lock == Lock::Locked,
        changed_by: change.by.to_string(),
        changed_at,
    }
}

/// Replaces every mode, the org's and those of automations, by those of a file, at once. A line that cannot be used leaves everything as it is.
#[utoipa::path(operation_id = "modes_replace", put, path = "/api/v1/modes", tag = "modes", request_body = ModesFile,
    responses((status = 200, body = ModesReplacedResponse), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn replace(
    State(app): State<App>,
    caller: Caller,
    Strict(body): Strict<ModesFile>,
) -> Result<Json<ModesReplacedResponse>, Refusal> {
    caller.must(Permission::ManagePolicy)?;
    let rows = rows_of(&app, &caller.principal.org, body.modes).await?;
    for row in rows.iter().filter(|row| row.mode == Mode::Allow) {
        app.pipeline().keep_as_it_is(&caller.principal, &row.action).await?;
    }
    let changed = app.store().replace_modes(&caller.principal.org, rows, &caller.principal.id).await?;
    Ok(Json(ModesReplacedResponse { changed }))
}

/// The lines of a file of modes; all that is wrong with them is told at once.
pub(super) async fn rows_of(app: &App, org: &OrgId, lines: Vec<ModeLine>) -> Result<Vec<FiledMode>, Refusal> {
    let sources = app.pipeline().catalogue().list(org).await;
    let mut rows: Vec<FiledMode> = Vec::with_capacity(lines.len());
    let mut errors = Vec::new();
    for (at, line) in lines.into_iter().enumerate() {
        match row_of(&sources, &rows, line) {
            Ok(row) => rows.push(row),
            Err((field, message)) => errors.push(FieldError::new(format!("/modes/{at}/{field}"), message)),
        }
    }
    if !errors.is_empty() {
        let mut refusal = Refusal::new(Code::InvalidRequest, "nothing was changed: some lines cannot be used");
        refusal.0.errors = errors;
        return Err(refusal);
    }
    Ok(rows)
}

/// One line, or which field of it is wrong and why.
fn row_of(sources: &[SourceListing], rows: &[FiledMode], line: ModeLine) -> Result<FiledMode, (&'static str, String)> {
    let action = ActionId::parse(&line.action).map_err(|error| ("action", error.to_string()))?;
    let automation = line.automation.as_deref().map(AutomationId::parse).transpose();
    let automation = automation.map_err(|error| ("automation", error.to_string()))?;
    if rows.iter().any(|row| row.action == action && row.automation == automation) {
        let whose = automation.map(|automation| format!(" for `{automation}`")).unwrap_or_default();
        return Err(("action", format!("`{action}` stands in the file twice{whose}")));
    }
    if is_missing(sources, &action) {
        return Err(("action", format!("there is no action `{action}`")));
    }
    if automation.is_some() && line.locked {
        return Err(("locked", "`locked` is for the org's own modes".to_owned()));
    }
    Ok(FiledMode { automation, action, mode: line.mode, lock: to_lock(line.locked) })
}

const fn to_lock(locked: bool) -> Lock {
    if locked { Lock::Locked } else { Lock::Open }
}

/// Sets the org's mode for an action. Approvals that were asked under the old rules no longer fit.
#[utoipa::path(operation_id = "modes_set", put, path = "/api/v1/modes/{action}", tag = "modes", params(("action" = String, Path)), request_body = SetModeRequest,
    responses((status = 200, body = ModeChangeResponse), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn set(
    State(app): State<App>,
    caller: Caller,
    Path(action): Path<String>,
    Strict(body): Strict<SetModeRequest>,
) -> Result<Json<ModeChangeResponse>, Refusal> {
    change(&app, &caller, None, &action, Some(body.mode), to_lock(body.locked)).await
}

/// Sets the mode an action has for one automation; it comes before the org's, unless that is locked.
#[utoipa::path(operation_id = "modes_set_for_automation", put, path = "/api/v1/automations/{automation}/modes/{action}", tag = "modes",
    params(("automation" = String, Path), ("action" = String, Path)), request_body = SetModeRequest,
    responses((status = 200, body = ModeChangeResponse), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn set_for_automation(
    State(app): State<App>,
    caller: Caller,
    Path((automation, action)): Path<(String, String)>,
    Strict(body): Strict<SetModeRequest>,
) -> Result<Json<ModeChangeResponse>, Refusal> {
    if body.locked {
        return Err(Refusal::new(Code::InvalidRequest, "`locked` is for the org's own modes"));
    }
    change(&app, &caller, Some(automation_of(&automation)?), &action, Some(body.mode), Lock::Open).await
}

/// Removes the mode an action has for one automation: the org's holds again.
#[utoipa::path(operation_id = "modes_unset_for_automation", delete, path = "/api/v1/automations/{automation}/modes/{action}", tag = "modes",
    params(("automation" = String, Path), ("action" = String, Path)),
    responses((status = 200, body = ModeChangeResponse), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn unset_for_automation(
    State(app): State<App>,
    caller: Caller,
    Path((automation, action)): Path<(String, String)>,
) -> Result<Json<ModeChangeResponse>, Refusal> {
    change(&app, &caller, Some(automation_of(&automation)?), &action, None, Lock::Open).await
}

fn automation_of(text: &str) -> Result<AutomationId, Refusal> {
    AutomationId::parse(text).map_err(|_| Refusal::not_found("automation", text))
}

/// Removes the org's mode for an action: the inferred one holds again.
#[utoipa::path(operation_id = "modes_unset", delete, path = "/api/v1/modes/{action}", tag = "modes", params(("action" = String, Path)),
    responses((status = 200, body = ModeChangeResponse), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn unset(State(app): State<App>, caller: Caller, Path(action): Path<String>) -> Result<Json<ModeChangeResponse>, Refusal> {
    change(&app, &caller, None, &action, None, Lock::Open).await
}

async fn change(
    app: &App,
    caller: &Caller,
    automation: Option<AutomationId>,
    action: &str,
    mode: Option<Mode>,
    lock: Lock,
) -> Result<Json<ModeChangeResponse>, Refusal> {
    caller.must(Permission::ManagePolicy)?;
    let action = ActionId::parse(action).map_err(|error| Refusal::new(Code::UnknownAction, error.to_string()))?;
    if mode.is_some() && is_missing(&app.pipeline().catalogue().list(&caller.principal.org).await, &action) {
        return Err(Refusal::unknown_action(app, &caller.principal.org, action.as_str()).await);
    }
    if mode == Some(Mode::Allow) {
        app.pipeline().keep_as_it_is(&caller.principal, &action).await?;
    }
    let change = ModeChange { automation, action: action.clone(), mode, lock, by: caller.principal.id.clone() };
    let version = app.store().change_mode(&caller.principal.org, change).await?;
    Ok(Json(ModeChangeResponse { action: action.to_string(), mode, version }))
}

/// Whether the action is known not to exist: a rule for a misspelt one would protect nothing and look as if it did. A source that
/// cannot be asked now may still have it.
fn is_missing(sources: &[SourceListing], action: &ActionId) -> bool {
    let source = sources.iter().find(|source| source.id == action.source());
    source.is_none_or(|source| source.error.is_none() && source.actions.iter().all(|one| one.id != *action))
}
