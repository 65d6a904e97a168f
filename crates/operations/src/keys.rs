//! The keys of the audit log, and the master key, which seals them.

use super::{Error, must, orgs};
use crate::App;
use countersign_core::Principal;
use countersign_core::principal::Permission;
use host::master_key::{self, Refused};
use store::{MasterKeyState, OldKeys};

/// Replaces both signing keys.
pub async fn rotate(app: &App, by: &Principal, old: OldKeys) -> Result<(), Error> {
    must(by, Permission::ManageIdentity)?;
    app.store().rotate_keys(&by.org, old).await?;
    Ok(())
}

/// The master key, and how many values a key before it still seals.
pub struct Master {
    pub state: MasterKeyState,
    pub values_left: u64,
}

/// How the last replacement of the master key stands, for operators: the key is that of every org.
pub async fn master(app: &App, by: &Principal) -> Result<Option<Master>, Error> {
    orgs::list(app, by).await?;
    let Some(state) = app.store().find_master_key().await? else {
        return Ok(None);
    };
    let values_left = if state.is_replacing() { app.store().count_sealed_otherwise(state.seals).await? } else { 0 };
    Ok(Some(Master { state, values_left }))
}

/// Begins to replace the master key by the next one, and goes on with it in the background.
pub async fn replace_master(app: &App, by: &Principal) -> Result<(), Error> {
    orgs::list(app, by).await?;
    let (files, store) = (app.parts.master_key.clone(), app.store().clone());
    master_key::begin(&files, &store, &*app.parts.random, Some(&by.id)).await.map_err(|refused| match refused {
        Refused::Changing => Error::MasterKeyChanging,
        Refused::Unready(message) => Error::MasterKeyUnready(message),
        Refused::Store(error) => error.into(),
    })?;
    tracing::warn!(by = %by.id, "the master key is being replaced");
    tokio::spawn(async move {
        if let Err(error) = master_key::carry_on(&files, &store, |_| {}).await {
            tracing::warn!(%error, "the master key is not replaced yet; a server goes on with it");
        }
    });
    Ok(())
}
