//! The org's modes.

use super::body::Strict;
use super::caller::Caller;
use super::page::{Asked, page_request};
use super::problem::Refusal;
use api::rules::{ModeChangeResponse, ModeVersionView, ModeView, ModesFile, ModesReplacedResponse, SetModeRequest};
use api::{Code, Page};
use axum::Json;
use axum::extract::{Path, State};
use countersign_core::decision::Lock;
use countersign_core::{ActionId, Mode};
use operations::App;
use operations::modes::{self, Change, Changed};
use serde::Deserialize;
use store::{ModeSetting, ModeVersion};
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
    responses((status = 200, body = Page<ModeView>)))]
pub(super) async fn list(State(app): State<App>, caller: Caller, Asked(query): Asked<ListQuery>) -> Result<Json<Page<ModeView>>, Refusal> {
    caller.must_read()?;
    let automation = query.automation.as_deref().map(modes::automation_of).transpose()?;
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
    responses((status = 200, body = Page<ModeVersionView>)))]
pub(super) async fn versions(
    State(app): State<App>,
    caller: Caller,
    Asked(query): Asked<VersionsQuery>,
) -> Result<Json<Page<ModeVersionView>>, Refusal> {
    caller.must_read()?;
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
    responses((status = 200, body = ModesReplacedResponse)))]
pub(super) async fn replace(
    State(app): State<App>,
    caller: Caller,
    Strict(body): Strict<ModesFile>,
) -> Result<Json<ModesReplacedResponse>, Refusal> {
    let (changed, voided) = modes::replace(&app, &caller.principal, body.modes).await?;
    Ok(Json(ModesReplacedResponse { changed, voided }))
}

const fn to_lock(locked: bool) -> Lock {
    if locked { Lock::Locked } else { Lock::Open }
}

/// Sets the org's mode for an action. Approvals that were asked under the old rules no longer fit.
#[utoipa::path(operation_id = "modes_set", put, path = "/api/v1/modes/{action}", tag = "modes", params(("action" = String, Path)), request_body = SetModeRequest,
    responses((status = 200, body = ModeChangeResponse)))]
pub(super) async fn set(
    State(app): State<App>,
    caller: Caller,
    Path(action): Path<String>,
    Strict(body): Strict<SetModeRequest>,
) -> Result<Json<ModeChangeResponse>, Refusal> {
    let change = Change { automation: None, action: &action, mode: Some(body.mode), lock: to_lock(body.locked) };
    changed(modes::change(&app, &caller.principal, change).await?, Some(body.mode))
}

/// Sets the mode an action has for one automation; it comes before the org's, unless that is locked.
#[utoipa::path(operation_id = "modes_set_for_automation", put, path = "/api/v1/automations/{automation}/modes/{action}", tag = "modes",
    params(("automation" = String, Path), ("action" = String, Path)), request_body = SetModeRequest,
    responses((status = 200, body = ModeChangeResponse)))]
pub(super) async fn set_for_automation(
    State(app): State<App>,
    caller: Caller,
    Path((automation, action)): Path<(String, String)>,
    Strict(body): Strict<SetModeRequest>,
) -> Result<Json<ModeChangeResponse>, Refusal> {
    let change = Change { automation: Some(&automation), action: &action, mode: Some(body.mode), lock: to_lock(body.locked) };
    changed(modes::change(&app, &caller.principal, change).await?, Some(body.mode))
}

/// Removes the mode an action has for one automation: the org's holds again.
#[utoipa::path(operation_id = "modes_unset_for_automation", delete, path = "/api/v1/automations/{automation}/modes/{action}", tag = "modes",
    params(("automation" = String, Path), ("action" = String, Path)),
    responses((status = 200, body = ModeChangeResponse)))]
pub(super) async fn unset_for_automation(
    State(app): State<App>,
    caller: Caller,
    Path((automation, action)): Path<(String, String)>,
) -> Result<Json<ModeChangeResponse>, Refusal> {
    let change = Change { automation: Some(&automation), action: &action, mode: None, lock: Lock::Open };
    changed(modes::change(&app, &caller.principal, change).await?, None)
}

/// Removes the org's mode for an action: the inferred one holds again.
#[utoipa::path(operation_id = "modes_unset", delete, path = "/api/v1/modes/{action}", tag = "modes", params(("action" = String, Path)),
    responses((status = 200, body = ModeChangeResponse)))]
pub(super) async fn unset(State(app): State<App>, caller: Caller, Path(action): Path<String>) -> Result<Json<ModeChangeResponse>, Refusal> {
    let change = Change { automation: None, action: &action, mode: None, lock: Lock::Open };
    changed(modes::change(&app, &caller.principal, change).await?, None)
}

fn changed(changed: Changed, mode: Option<Mode>) -> Result<Json<ModeChangeResponse>, Refusal> {
    let Changed { action, version, voided } = changed;
    Ok(Json(ModeChangeResponse { action: action.to_string(), mode, version, voided }))
}
