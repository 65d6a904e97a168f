//! Circuit breakers.

use super::{Error, must};
use crate::App;
use countersign_core::Principal;
use countersign_core::principal::Permission;

/// Lets calls through again at once.
pub async fn close(app: &App, by: &Principal, key: &str) -> Result<(), Error> {
    must(by, Permission::ManagePolicy)?;
    if app.store().close_breaker(&by.org, key).await? { Ok(()) } else { Err(Error::not_found("breaker", key)) }
}
