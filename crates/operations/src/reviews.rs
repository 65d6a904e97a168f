//! Reviews: a person confirms the current definition of an action.

use super::{Error, action_named, must, must_be_person};
use crate::App;
use countersign_core::ports::definitions::Wording;
use countersign_core::principal::Permission;
use countersign_core::{ActionId, Digest, Principal};
use pipeline::Reviewed;

/// Marks an action's definition as reviewed, if it still is the one that was `shown`.
pub async fn review(app: &App, by: &Principal, action: &str, shown: Option<Digest>, wording: Wording) -> Result<ActionId, Error> {
    must(by, Permission::ManagePolicy)?;
    must_be_person(by, "reviews a definition")?;
    let id = action_named(app, by, action).await?;
    match app.pipeline().review(by, &id, shown, wording).await? {
        Reviewed::Done => Ok(id),
        Reviewed::OtherDefinition => Err(Error::DefinitionChanged { action: id }),
    }
}
