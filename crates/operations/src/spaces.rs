//! Spaces.

use super::{Error, must, named, users};
use crate::App;
use crate::limits::{SPACE_DEFAULTS_BYTES_MAX, SPACE_DEFAULTS_MAX, SPACE_MEMBERS_MAX};
use countersign_core::ports::Rules;
use countersign_core::principal::Permission;
use countersign_core::{Principal, Space, SpaceId, UserId, json};
use serde_json::Value;
use std::collections::BTreeMap;
use store::{MembersChange, SpaceChange};

/// A space of the caller's org, by its id or its name.
pub async fn find(app: &App, by: &Principal, space: &str) -> Result<Space, Error> {
    let found = match SpaceId::parse(space) {
        Ok(id) => app.store().find_space(&by.org, &id).await?,
        // No space is called that, and not every database can be asked for it.
        Err(_) if space.chars().any(char::is_control) => None,
        Err(_) => app.store().find_space_by_name(&by.org, space).await?,
    };
    found.filter(|space| by.sees(space)).ok_or_else(|| Error::not_found("space", space))
}

/// The id of a space, for a filter: an id of none finds nothing, and a name has to be one that exists for the caller.
pub async fn id_of(app: &App, by: &Principal, space: &str) -> Result<SpaceId, Error> {
    match SpaceId::parse(space) {
        Ok(id) => Ok(id),
        Err(_) => Ok(find(app, by, space).await?.id),
    }
}

pub async fn create(app: &App, by: &Principal, name: &str) -> Result<Space, Error> {
    must(by, Permission::ManagePolicy)?;
    let created = app.store().create_space(&by.org, space_named(name)?, &by.id).await?;
    created.ok_or_else(|| Error::NameTaken { what: "space", name: name.to_owned() })
}

/// Changes a space's band, its rules about approvals and redaction, what it keeps, or what its automations are given.
pub async fn change(app: &App, by: &Principal, space: &str, change: SpaceChange) -> Result<Space, Error> {
    must(by, Permission::ManagePolicy)?;
    let unknown = || Error::not_found("space", space);
    let id = id_of(app, by, space).await?;
    if change == SpaceChange::default() {
        return Err(Error::NothingToChange {
            fields: "`band`, `self_approval`, `quorum`, `redaction`, `keeps`, `observes`, `asks_consent` or `defaults`",
        });
    }
    if let Some(redaction) = &change.redaction {
        let no_numbers = |region: String| Error::invalid(format!("`{region}` is no region with telephone numbers"));
        policy::Redaction::try_from(redaction).map_err(|unknown| no_numbers(unknown.0.to_string()))?;
    }
    if change.defaults.as_ref().is_some_and(|defaults| !may_be_defaults(defaults)) {
        let message =
            format!("a space has {SPACE_DEFAULTS_MAX} defaults at most, which are {SPACE_DEFAULTS_BYTES_MAX} bytes of JSON together");
        return Err(Error::invalid(message));
    }
    let changed = app.store().change_space(&by.org, &id, change, &by.id).await?.ok_or_else(unknown)?;
    app.pipeline().end_void(&by.org, None).await;
    Ok(changed)
}

/// Makes a person a member. The first one closes the space to everybody else, also to whoever adds them.
pub async fn add_member(app: &App, by: &Principal, space: &str, user: &str) -> Result<Space, Error> {
    must(by, Permission::ManagePolicy)?;
    let found = find(app, by, space).await?;
    let user = users::find(app, by, user).await?;
    users::must_be_active(&user)?;
    if found.members.is_some_and(|members| members.len() >= SPACE_MEMBERS_MAX) {
        return Err(Error::invalid(format!("a space has {SPACE_MEMBERS_MAX} members at most")));
    }
    change_members(app, by, space, MembersChange::Add(user.id)).await
}

/// Ends a membership at once: what the person, and whoever acts for them, has pending there does not run.
pub async fn remove_member(app: &App, by: &Principal, space: &str, user: &str) -> Result<Space, Error> {
    must(by, Permission::ManagePolicy)?;
    let members = find(app, by, space).await?.members;
    let id = UserId::parse(user).ok().filter(|id| members.is_some_and(|members| members.contains(id)));
    let id = id.ok_or_else(|| Error::not_found("member", user))?;
    change_members(app, by, space, MembersChange::Remove(id)).await
}

/// Opens a space to everybody in the org again.
pub async fn open(app: &App, by: &Principal, space: &str) -> Result<Space, Error> {
    change_members(app, by, space, MembersChange::Open).await
}

async fn change_members(app: &App, by: &Principal, space: &str, members: MembersChange) -> Result<Space, Error> {
    change(app, by, space, SpaceChange { members: Some(members), ..SpaceChange::default() }).await
}

fn may_be_defaults(defaults: &BTreeMap<String, Value>) -> bool {
    defaults.len() <= SPACE_DEFAULTS_MAX && json::canonical_exact(defaults).is_ok_and(|text| text.len() <= SPACE_DEFAULTS_BYTES_MAX)
}

/// Checks a space's name. It may have parts divided by `:`, which older contracts use: `shared:household`.
fn space_named(name: &str) -> Result<&str, Error> {
    for part in name.split(':') {
        named(part)?;
    }
    let fits = name.chars().count() <= 64;
    if fits { Ok(name) } else { Err(Error::invalid("a space's name has 64 characters at most, also where `:` divides it")) }
}
