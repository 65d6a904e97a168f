//! Which spaces exist for a principal. A space with members is there for them and for those who administer the org. For everybody else it, and
//! what happens in it, does not exist: it is in no list, and by its id it is not found.

use super::{Error, must};
use crate::App;
use countersign_core::principal::Permission;
use countersign_core::{Principal, SpaceId};
use std::collections::BTreeSet;

/// The spaces that do not exist for this principal.
pub async fn hidden(app: &App, by: &Principal) -> Result<BTreeSet<SpaceId>, Error> {
    let closed = app.store().list_closed_spaces(&by.org).await?;
    Ok(closed.iter().filter(|space| !by.sees(space)).map(|space| space.id.clone()).collect())
}

pub async fn sees(app: &App, by: &Principal, space: &SpaceId) -> Result<bool, Error> {
    Ok(!hidden(app, by).await?.contains(space))
}

/// Refuses what cannot be cut into what they see and what they do not: the audit log as a whole.
pub async fn must_see_all(app: &App, by: &Principal) -> Result<(), Error> {
    if hidden(app, by).await?.is_empty() { Ok(()) } else { must(by, Permission::ManagePolicy) }
}

/// Those of these that exist for this principal. `about` gives a text with the ids that each is about.
pub async fn seen_of<T: Send>(app: &App, by: &Principal, items: Vec<T>, about: impl Fn(&T) -> String + Send) -> Result<Vec<T>, Error> {
    let hidden = hidden(app, by).await?;
    let mut seen = Vec::with_capacity(items.len());
    for item in items {
        let text = about(&item);
        if !app.store().is_about(&by.org, &hidden, &text).await? {
            seen.push(item);
        }
    }
    Ok(seen)
}
