//! Kill switches. A principal who may manage policy turns one on; only a person turns one off.

use super::{Error, must, must_be_person};
use crate::App;
use countersign_core::Principal;
use countersign_core::ports::{Rules, Sessions};
use countersign_core::principal::Permission;
use countersign_core::switch::{Stop, SwitchScope};

/// Stops every call that the switch covers; returns for how many pending calls the expiry stops counting down.
pub async fn on(app: &App, by: &Principal, scope: &str, stop: Stop, reason: &str) -> Result<u64, Error> {
    must(by, Permission::ManagePolicy)?;
    let covered = covered(app, by, scope).await?;
    let reason = pipeline::needed_reason(reason)?;
    let stopped = app.store().switch_on(&by.org, covered, stop, &reason, &by.id).await?;
    app.parts.added.let_go(&by.org, app.pipeline().catalogue()).await;
    Ok(stopped)
}

/// Lets the covered calls run again; returns for how many pending calls the expiry counts down again.
pub async fn off(app: &App, by: &Principal, scope: &str, reason: Option<&str>) -> Result<u64, Error> {
    must(by, Permission::ManagePolicy)?;
    // Turning it off lets effects happen again.
    must_be_person(by, "turns a kill switch off")?;
    let reason = reason.map(pipeline::needed_reason).transpose()?.unwrap_or_default();
    let clocks = app.store().switch_off(&by.org, parsed(scope)?, &reason, &by.id).await?;
    clocks.ok_or_else(|| Error::Absent { message: format!("no kill switch on `{scope}` is on"), listed_at: "kill-switches" })
}

fn parsed(scope: &str) -> Result<SwitchScope, Error> {
    let forms = "use `org`, `space:<id>`, `session:<id>`, `source:<slug>` or `action:<id>`";
    SwitchScope::parse(scope).ok_or_else(|| Error::invalid(format!("`scope` is not what a kill switch covers: {forms}")))
}

/// The scope must exist: a switch with a misspelt scope would stop nothing and look as if it did.
async fn covered(app: &App, by: &Principal, text: &str) -> Result<SwitchScope, Error> {
    let org = &by.org;
    let scope = parsed(text)?;
    let (exists, what) = match &scope {
        SwitchScope::Org => (true, "org"),
        SwitchScope::Space(space) => (app.store().find_space(org, space).await?.is_some(), "space"),
        SwitchScope::Session(session) => (app.store().find_session(org, session).await?.is_some(), "session"),
        SwitchScope::Source(source) => (app.pipeline().catalogue().has_source(org, source.as_str()).await, "source"),
        SwitchScope::Action(action) => (app.pipeline().definition_of(org, action).await?.is_some(), "action"),
    };
    let named = text.split_once(':').map_or(text, |(_, named)| named);
    if exists { Ok(scope) } else { Err(Error::not_found(what, named)) }
}
