//! How long an org keeps what it has beside its audit log.

use super::{Error, must};
use crate::App;
use countersign_core::Principal;
use countersign_core::principal::Permission;
use countersign_core::retention::Retention;

pub async fn set(app: &App, by: &Principal, retention: Retention) -> Result<Retention, Error> {
    must(by, Permission::ManagePolicy)?;
    if let Some(problem) = retention.problem() {
        return Err(Error::invalid(problem));
    }
    Ok(app.store().set_retention(&by.org, retention, &by.id).await?)
}
