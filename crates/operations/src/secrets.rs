//! Secrets. Whoever reads the org sees their names; nobody sees a value again, not even who set it.

use super::{Error, automations, channels, connections, must, must_read, sight, sources, words};
use crate::App;
use api::secret::SetSecretRequest;
use countersign_core::Principal;
use countersign_core::limits::{SECRET_NAME_CHARS_MAX, SECRET_VALUE_BYTES_MAX};
use countersign_core::ports::secrets::{SecretName, SecretValue};
use countersign_core::principal::Permission;
use store::{DeletedSecret, NamedSecret, NewSecret, Page, PageRequest, SecretUse, SetSecret};

/// A secret that now has the value it was given.
pub struct Kept {
    pub secret: NamedSecret,
    pub is_new: bool,
}

pub async fn list(app: &App, by: &Principal, request: &PageRequest) -> Result<Page<NamedSecret>, Error> {
    must_read(by)?;
    Ok(app.store().list_secrets(&by.org, request).await?)
}

pub async fn find(app: &App, by: &Principal, name: &str) -> Result<NamedSecret, Error> {
    must_read(by)?;
    let unknown = || Error::not_found("secret", name);
    let parsed = SecretName::parse(name).ok_or_else(unknown)?;
    app.store().find_secret(&by.org, &parsed).await?.ok_or_else(unknown)
}

/// Everything that uses the secret.
pub async fn used_by(app: &App, by: &Principal, name: &str) -> Result<Vec<SecretUse>, Error> {
    let secret = find(app, by, name).await?;
    let uses = app.store().list_secret_uses(&by.org, &secret.name).await?;
    if sight::hidden(app, by).await?.is_empty() {
        return Ok(uses);
    }
    let mut seen = Vec::with_capacity(uses.len());
    for one in uses {
        let found = match one.kind {
            "channel" => channels::find(app, by, &one.id).await.map(|_| ()),
            "webhook" => automations::find(app, by, &one.id).await.map(|_| ()),
            "connection" => connections::find(app, by, &one.id).await.map(|_| ()),
            _ => sources::find(app, by, &one.id).await.map(|_| ()),
        };
        if found.is_ok() {
            seen.push(one);
        }
    }
    Ok(seen)
}

pub async fn set(app: &App, by: &Principal, name: &str, request: SetSecretRequest) -> Result<Kept, Error> {
    must(by, Permission::ManageIdentity)?;
    let SetSecretRequest { value, description, version: replaces } = request;
    let parsed = SecretName::parse(name).ok_or_else(|| {
        Error::invalid(format!(
            "the name of a secret has 1 to {SECRET_NAME_CHARS_MAX} letters, digits, `_`, `-` or `.`, and begins with a letter or a digit"
        ))
    })?;
    let too_long = || Error::invalid(format!("the value of a secret has 1 to {SECRET_VALUE_BYTES_MAX} bytes"));
    let value = SecretValue::new(value).ok_or_else(too_long)?;
    let description = words("description", description.as_deref())?;
    let new = NewSecret { name: parsed, value, description, replaces };
    match app.store().set_secret(&by.org, new, &by.id).await? {
        SetSecret::Created(secret) => Ok(Kept { secret, is_new: true }),
        SetSecret::Rotated(secret) => Ok(Kept { secret, is_new: false }),
        SetSecret::Taken => Err(Error::NameTaken { what: "secret", name: name.to_owned() }),
        SetSecret::Missing => Err(Error::not_found("secret", name)),
        SetSecret::OtherVersion(version) => Err(Error::SecretChanged { name: name.to_owned(), version }),
    }
}

pub async fn delete(app: &App, by: &Principal, name: &str) -> Result<(), Error> {
    must(by, Permission::ManageIdentity)?;
    let unknown = || Error::not_found("secret", name);
    let parsed = SecretName::parse(name).ok_or_else(unknown)?;
    match app.store().delete_secret(&by.org, &parsed, &by.id).await?.ok_or_else(unknown)? {
        DeletedSecret::Done => Ok(()),
        DeletedSecret::InUse(uses) => {
            let users: Vec<_> = uses.iter().map(|used| format!("{} `{}`", used.kind, used.name)).collect();
            Err(Error::SecretInUse { name: name.to_owned(), users: users.join(", ") })
        }
    }
}
