//! The org's modes.

use super::body::Strict;
use super::caller::Caller;
use super::page::{Asked, PageQuery};
use super::problem::Refusal;
use crate::App;
use api::rules::{ModeChangeResponse, ModeName, ModeView, SetModeRequest};
use api::{Code, Page, Problem};
use axum::Json;
use axum::extract::{Path, State};
use countersign_core::decision::Lock;
use countersign_core::principal::Permission;
use countersign_core::{ActionId, Mode};
use pipeline::Listed;
use store::ModeChange;

/// Every mode that was set explicitly.
#[utoipa::path(operation_id = "modes_list", get, path = "/api/v1/modes", tag = "modes", params(PageQuery),
    responses((status = 200, body = Page<ModeView>), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn list(State(app): State<App>, caller: Caller, Asked(query): Asked<PageQuery>) -> Result<Json<Page<ModeView>>, Refusal> {
    caller.must(Permission::Read)?;
    let page = app.store().list_modes(&caller.principal.org, &query.request()?).await?;
    let items = page.items.into_iter().map(|mode| ModeView {
        scope: mode.scope,
        action: mode.action.to_string(),
        mode: to_name(mode.mode),
        locked: mode.lock == Lock::Locked,
        version: mode.version,
        set_by: mode.set_by.to_string(),
        set_at: mode.set_at.to_string(),
    });
    Ok(Json(Page { items: items.collect(), next: page.next }))
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
    let lock = if body.locked { Lock::Locked } else { Lock::Open };
    change(&app, &caller, &action, Some(body.mode), lock).await
}

/// Removes the org's mode for an action: the inferred one holds again.
#[utoipa::path(operation_id = "modes_unset", delete, path = "/api/v1/modes/{action}", tag = "modes", params(("action" = String, Path)),
    responses((status = 200, body = ModeChangeResponse), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn unset(State(app): State<App>, caller: Caller, Path(action): Path<String>) -> Result<Json<ModeChangeResponse>, Refusal> {
    change(&app, &caller, &action, None, Lock::Open).await
}

async fn change(app: &App, caller: &Caller, action: &str, mode: Option<ModeName>, lock: Lock) -> Result<Json<ModeChangeResponse>, Refusal> {
    caller.must(Permission::ManagePolicy)?;
    let action = ActionId::parse(action).map_err(|error| Refusal::new(Code::UnknownAction, error.to_string()))?;
    if mode.is_some() && is_missing(app, caller, &action).await {
        return Err(Refusal::new(Code::UnknownAction, format!("there is no action `{action}`"))
            .hint("list what there is with `countersign action list`"));
    }
    let change = ModeChange { automation: None, action: action.clone(), mode: mode.map(from_name), lock, by: caller.principal.id.clone() };
    let version = app.store().change_mode(&caller.principal.org, change).await?;
    Ok(Json(ModeChangeResponse { action: action.to_string(), mode, version }))
}

/// Whether the action is known not to exist: a rule for a misspelt one would protect nothing and look as if it did. A source that
/// cannot be asked now may still have it.
async fn is_missing(app: &App, caller: &Caller, action: &ActionId) -> bool {
    let sources = app.pipeline().catalogue().list(&caller.principal.org).await;
    match sources.into_iter().find(|source| source.id == action.source()).map(|source| source.listed) {
        Some(Listed::Actions(actions)) => actions.iter().all(|one| one.id != *action),
        Some(Listed::Failed { .. }) => false,
        None => true,
    }
}

const fn to_name(mode: Mode) -> ModeName {
    match mode {
        Mode::Allow => ModeName::Allow,
        Mode::RequireApproval => ModeName::RequireApproval,
        Mode::Deny => ModeName::Deny,
    }
}

const fn from_name(name: ModeName) -> Mode {
    match name {
        ModeName::Allow => Mode::Allow,
        ModeName::RequireApproval => Mode::RequireApproval,
        ModeName::Deny => Mode::Deny,
    }
}
