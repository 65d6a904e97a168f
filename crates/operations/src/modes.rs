//! The org's modes. A mode for an unknown action or automation is refused: a misspelt name would protect nothing and look as if it did.

use super::{Error, action_named, automations, must};
use crate::App;
use api::rules::ModeLine;
use countersign_core::decision::Lock;
use countersign_core::ports::Automations;
use countersign_core::principal::Permission;
use countersign_core::{ActionId, AutomationId, Mode, OrgId, Principal};
use pipeline::{ParamError, SourceListing};
use store::{FiledMode, ModeChange};

/// One mode to be set, or removed where `mode` is absent.
pub struct Change<'a> {
    /// Absent for the org's own mode.
    pub automation: Option<&'a str>,
    pub action: &'a str,
    pub mode: Option<Mode>,
    pub lock: Lock,
}

/// A mode that was set or removed.
pub struct Changed {
    pub action: ActionId,
    pub version: i64,
    pub voided: Option<u64>,
}

pub async fn change(app: &App, by: &Principal, asked: Change<'_>) -> Result<Changed, Error> {
    must(by, Permission::ManagePolicy)?;
    let automation = match asked.automation {
        Some(text) => Some(automations::visible(app, by, text).await?.0.id),
        None => None,
    };
    let action = action_named(app, by, asked.action).await?;
    if asked.mode.is_some() && is_missing(&app.pipeline().catalogue().list(&by.org).await, &action) {
        return Err(Error::unknown_action(app, &by.org, asked.action).await);
    }
    lockable(automation.as_ref(), asked.lock).map_err(Error::invalid)?;
    if asked.mode == Some(Mode::Allow) {
        app.pipeline().keep_as_it_is(by, &action).await?;
    }
    let change = ModeChange { automation, action: action.clone(), mode: asked.mode, lock: asked.lock, by: by.id.clone(), invocation: None };
    let version = app.store().change_mode(&by.org, change).await?;
    let voided = app.pipeline().end_void(&by.org, Some(&action)).await;
    Ok(Changed { action, version, voided })
}

/// Replaces every mode at once, the org's and those of automations; returns how many changed, and how many pending calls are void now.
pub async fn replace(app: &App, by: &Principal, lines: Vec<ModeLine>) -> Result<(u64, Option<u64>), Error> {
    must(by, Permission::ManagePolicy)?;
    let rows = rows_of(app, &by.org, lines).await?;
    for row in rows.iter().filter(|row| row.mode == Mode::Allow) {
        app.pipeline().keep_as_it_is(by, &row.action).await?;
    }
    let changed = app.store().replace_modes(&by.org, rows, &by.id).await?;
    Ok((changed, app.pipeline().end_void(&by.org, None).await))
}

/// Checks the lines of a modes file and reports all mistakes at once.
pub(crate) async fn rows_of(app: &App, org: &OrgId, lines: Vec<ModeLine>) -> Result<Vec<FiledMode>, Error> {
    let sources = app.pipeline().catalogue().list(org).await;
    let mut rows: Vec<FiledMode> = Vec::with_capacity(lines.len());
    let mut errors = Vec::new();
    for (at, line) in lines.into_iter().enumerate() {
        let row = match row_of(&sources, &rows, line) {
            Ok(row) => of_known(app, org, row).await?,
            Err(wrong) => Err(wrong),
        };
        match row {
            Ok(row) => rows.push(row),
            Err((field, message)) => errors.push(ParamError { pointer: format!("/modes/{at}/{field}"), message }),
        }
    }
    if errors.is_empty() {
        return Ok(rows);
    }
    Err(Error::Invalid { message: "nothing was changed: some lines cannot be used".to_owned(), errors })
}

/// The field of a line that is wrong, and why.
type Wrong = (&'static str, String);

/// The row, if it is the org's, or if there is its automation.
async fn of_known(app: &App, org: &OrgId, row: FiledMode) -> Result<Result<FiledMode, Wrong>, Error> {
    if let Some(automation) = &row.automation
        && app.store().find_automation(org, automation).await?.is_none()
    {
        return Ok(Err(("automation", format!("there is no automation `{automation}`"))));
    }
    Ok(Ok(row))
}

/// One checked line, or what is wrong with it.
fn row_of(sources: &[SourceListing], rows: &[FiledMode], line: ModeLine) -> Result<FiledMode, Wrong> {
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
    let lock = if line.locked { Lock::Locked } else { Lock::Open };
    lockable(automation.as_ref(), lock).map_err(|message| ("locked", message.to_owned()))?;
    Ok(FiledMode { automation, action, mode: line.mode, lock })
}

/// Only the org's own modes can be locked. A lock keeps automations from loosening the org's mode.
fn lockable(automation: Option<&AutomationId>, lock: Lock) -> Result<(), &'static str> {
    if automation.is_some() && lock == Lock::Locked { Err("`locked` is for the org's own modes") } else { Ok(()) }
}

pub fn automation_of(text: &str) -> Result<AutomationId, Error> {
    AutomationId::parse(text).map_err(|_| Error::not_found("automation", text))
}

/// Whether the action is known not to exist. A source that cannot be asked now may still have it.
pub(super) fn is_missing(sources: &[SourceListing], action: &ActionId) -> bool {
    let source = sources.iter().find(|source| source.id == action.source());
    source.is_none_or(|source| source.error.is_none() && source.actions.iter().all(|one| one.id != *action))
}
