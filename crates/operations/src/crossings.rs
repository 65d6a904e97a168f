//! Actions that may reach from one space into another.

use super::{Error, action_named, must, spaces};
use crate::App;
use countersign_core::Principal;
use countersign_core::principal::Permission;
use store::Crossing;

pub async fn allow(app: &App, by: &Principal, action: &str, from: &str, to: &str) -> Result<(), Error> {
    let crossing = checked(app, by, action, from, to).await?;
    if app.pipeline().definition_of(&by.org, &crossing.action).await?.is_none() {
        return Err(Error::unknown_action(app, &by.org, action).await);
    }
    Ok(app.store().allow_crossing(&by.org, crossing, &by.id).await?)
}

pub async fn forbid(app: &App, by: &Principal, action: &str, from: &str, to: &str) -> Result<(), Error> {
    let crossing = checked(app, by, action, from, to).await?;
    let forbidden = crossing.action.clone();
    if app.store().forbid_crossing(&by.org, crossing, &by.id).await? {
        app.pipeline().end_void(&by.org, Some(&forbidden)).await;
        return Ok(());
    }
    Err(Error::Absent { message: "there is no such crossing".to_owned(), listed_at: "crossings" })
}

async fn checked(app: &App, by: &Principal, action: &str, from: &str, to: &str) -> Result<Crossing, Error> {
    must(by, Permission::ManagePolicy)?;
    let action = action_named(app, by, action).await?;
    let (from, to) = (spaces::find(app, by, from).await?.id, spaces::find(app, by, to).await?.id);
    if from == to {
        return Err(Error::invalid("a space needs no crossing into itself"));
    }
    Ok(Crossing { from, to, action })
}
