//! Canary tokens. Only principals who may change policy see them.

use super::{Error, must};
use crate::App;
use crate::limits::CANARIES_MAX;
use countersign_core::limits::CANARY_CHARS_MAX;
use countersign_core::principal::Permission;
use countersign_core::{CanaryId, Principal};
use policy::scan::CANARY_BYTES_MIN;
use store::Canary;

pub async fn list(app: &App, by: &Principal) -> Result<Vec<Canary>, Error> {
    must(by, Permission::ManagePolicy)?;
    Ok(app.store().list_canaries(&by.org).await?)
}

pub async fn add(app: &App, by: &Principal, text: &str) -> Result<Canary, Error> {
    let known = list(app, by).await?;
    if text.len() < CANARY_BYTES_MIN || text.chars().count() > CANARY_CHARS_MAX || text.contains('\0') {
        return Err(Error::invalid(format!("a canary has {CANARY_BYTES_MIN} to {CANARY_CHARS_MAX} characters")));
    }
    if known.len() >= CANARIES_MAX {
        return Err(Error::invalid(format!("an org has at most {CANARIES_MAX} canaries")));
    }
    Ok(app.store().add_canary(&by.org, text, &by.id).await?)
}

pub async fn remove(app: &App, by: &Principal, canary: &str) -> Result<(), Error> {
    must(by, Permission::ManagePolicy)?;
    let unknown = || Error::not_found("canary", canary);
    let id = CanaryId::parse(canary).map_err(|_| unknown())?;
    if app.store().remove_canary(&by.org, &id, &by.id).await? { Ok(()) } else { Err(unknown()) }
}
