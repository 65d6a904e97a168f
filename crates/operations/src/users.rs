//! People. A principal can neither act on nor give a role above its own.

use super::{Error, must, named};
use crate::App;
use crate::limits::DEVICE_CLASS_CHARS_MAX;
use countersign_core::principal::{Device, Permission, Role};
use countersign_core::{OrgId, Principal, PrincipalId, UserId};
use store::{ChangedUser, NewToken, User, UserChange};

/// Adds a person and invites them. Nobody is handed a token that acts as somebody else.
pub async fn create(app: &App, by: &Principal, name: &str, role: Role) -> Result<(User, NewToken), Error> {
    must(by, Permission::ManageIdentity)?;
    must_give(by, role)?;
    let created = app.store().create_user(by, named(name)?, role).await?;
    created.ok_or_else(|| Error::NameTaken { what: "user", name: name.to_owned() })
}

/// Invites a person again, for example because they lost their token. The person's earlier invitations stop working; their tokens
/// stop when the new one is redeemed.
pub async fn invite(app: &App, by: &Principal, user: &str, device: Option<Device>) -> Result<NewToken, Error> {
    let found = reached(app, by, user).await?;
    must_be_active(&found)?;
    let device = device.map(|device| may_bind(by, device)).transpose()?;
    app.store().invite(by, &found.id, device).await?.ok_or_else(|| Error::not_found("user", user))
}

/// Policies trust what a device is said to be, so people do not say it of their own. A token that they make has the device of theirs.
pub(super) fn may_bind(by: &Principal, device: Device) -> Result<Device, Error> {
    must(by, Permission::ManageIdentity)?;
    named(&device.name)?;
    let fits = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || matches!(letter, '_' | '-');
    if (1..=DEVICE_CLASS_CHARS_MAX).contains(&device.class.len()) && device.class.chars().all(fits) {
        return Ok(device);
    }
    Err(Error::invalid(format!("the class of a device has 1 to {DEVICE_CLASS_CHARS_MAX} lower-case letters, digits, `_` or `-`")))
}

/// Changes a person's role, and the strictest band in which they, and whoever acts for them, may act.
pub async fn change(app: &App, by: &Principal, user: &str, change: UserChange) -> Result<User, Error> {
    let found = reached(app, by, user).await?;
    must_be_active(&found)?;
    if change == UserChange::default() {
        return Err(Error::NothingToChange { fields: "`role` or `max_band`" });
    }
    if let Some(role) = change.role {
        must_give(by, role)?;
    }
    // Only others can give a person a higher role or a stricter band; and a person who lowered their own role could not revert that. Nobody
    // is above an owner, so owners set their own band.
    let is_own = by.id == PrincipalId::User(found.id.clone());
    if is_own && (change.role.is_some() || found.role != Role::Owner) {
        return Err(Error::OwnRole);
    }
    match app.store().change_user(&by.org, &found.id, change, &by.id).await? {
        Some(ChangedUser::Done(user)) => Ok(user),
        Some(ChangedUser::LastOwner) => Err(last_owner("the last owner keeps their role")),
        None => Err(Error::not_found("user", user)),
    }
}

/// Disables a person for good: none of their tokens works any more.
pub async fn disable(app: &App, by: &Principal, user: &str) -> Result<User, Error> {
    let found = reached(app, by, user).await?;
    match app.store().disable_user(&by.org, &found.id, &by.id).await? {
        Some(ChangedUser::Done(user)) => Ok(user),
        Some(ChangedUser::LastOwner) => Err(last_owner("the last owner cannot be disabled")),
        // Disabled before: nothing was written.
        None => find(app, by, user).await,
    }
}

const fn last_owner(why: &'static str) -> Error {
    Error::LastOwner { why, first: "make someone else an owner first" }
}

/// What people call a principal: a person by their name, anybody else by id. If the name cannot be found out now, the id is all there is.
pub async fn name_of(app: &App, org: &OrgId, principal: &PrincipalId) -> String {
    match principal {
        PrincipalId::User(user) => name_of_user(app, org, user).await,
        PrincipalId::Agent(_) | PrincipalId::Service(_) | PrincipalId::Automation(_) => principal.to_string(),
    }
}

pub async fn name_of_user(app: &App, org: &OrgId, user: &UserId) -> String {
    let found = app.store().find_user(org, user).await.unwrap_or_default();
    found.map_or_else(|| user.to_string(), |found| found.name)
}

/// The person, if the caller may act on them.
async fn reached(app: &App, by: &Principal, user: &str) -> Result<User, Error> {
    must(by, Permission::ManageIdentity)?;
    let found = find(app, by, user).await?;
    must_reach(by, found.role)?;
    Ok(found)
}

pub(super) async fn find(app: &App, by: &Principal, user: &str) -> Result<User, Error> {
    let unknown = || Error::not_found("user", user);
    let id = UserId::parse(user).map_err(|_| unknown())?;
    app.store().find_user(&by.org, &id).await?.ok_or_else(unknown)
}

/// Refuses a disabled person, who stays disabled for good.
pub(super) fn must_be_active(user: &User) -> Result<(), Error> {
    if user.disabled_at.is_none() {
        return Ok(());
    }
    let message = format!("user `{}` is disabled, for good", user.name);
    Err(Error::Absent { message, listed_at: "users" })
}

/// Checks that the principal may act on a person with this role. A person cannot act above their own role, and a service cannot act on a
/// role that may approve.
pub(super) fn must_reach(by: &Principal, role: Role) -> Result<(), Error> {
    reaches(by, role, |own| format!("{} cannot act on {}", own.with_article(), role.with_article()))
}

/// Like `must_reach`, for a role that is to be given.
fn must_give(by: &Principal, role: Role) -> Result<(), Error> {
    reaches(by, role, |own| format!("{} cannot make anybody {}", own.with_article(), role.with_article()))
}

fn reaches(by: &Principal, role: Role, refused: impl Fn(Role) -> String) -> Result<(), Error> {
    match by.role {
        Some(own) if own < role => Err(Error::AboveOwnRole { why: refused(own), ask: role.with_article() }),
        Some(_) => Ok(()),
        None if !role.may(Permission::Approve) => Ok(()),
        None => {
            let why = format!("a service cannot make or act for {}: they could approve", role.with_article());
            Err(Error::AboveOwnRole { why, ask: role.with_article() })
        }
    }
}
