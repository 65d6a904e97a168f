//! The keys of the audit log.

use super::{Error, must};
use crate::App;
use countersign_core::Principal;
use countersign_core::principal::Permission;
use store::OldKeys;

/// Replaces both signing keys.
pub(crate) async fn rotate(app: &App, by: &Principal, old: OldKeys) -> Result<(), Error> {
    must(by, Permission::ManageIdentity)?;
    app.store().rotate_keys(&by.org, old).await?;
    Ok(())
}
