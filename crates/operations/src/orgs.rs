//! Orgs. Only operators create and disable them. The operators are the owners of the first org, which the first start created.

use super::{Error, named};
use crate::App;
use countersign_core::principal::Role;
use countersign_core::{OrgId, Principal};
use store::{NewOrg, NewToken, Org};

/// The initial name of every org's owner.
const OWNER: &str = "owner";

/// Every org, disabled or not.
pub async fn list(app: &App, by: &Principal) -> Result<Vec<Org>, Error> {
    let orgs = app.store().list_orgs().await?;
    let is_operator = by.role == Some(Role::Owner) && orgs.iter().any(|org| org.is_first && org.id == by.org);
    if is_operator { Ok(orgs) } else { Err(Error::NotAnOperator) }
}

/// Makes an org with its space `main` and its owner, whom it invites.
pub async fn create(app: &App, by: &Principal, name: &str) -> Result<(Org, NewOrg, NewToken), Error> {
    list(app, by).await?;
    let added = app.store().add_org(by, named(name)?, OWNER).await?;
    let (org, added, invitation) = added.ok_or_else(|| Error::NameTaken { what: "org", name: name.to_owned() })?;
    tracing::info!(org = %added.org, name, by = %by.id, "an org was created");
    Ok((org, added, invitation))
}

/// Disables an org for good: its tokens are refused and no new call starts, while its records stay. Running calls end and get their
/// receipts, and the programs of its sources end with them.
pub async fn disable(app: &App, by: &Principal, org: &str) -> Result<Org, Error> {
    let found = find(app, by, org).await?;
    if found.is_first {
        return Err(Error::FirstOrg);
    }
    let disabled = app.store().disable_org(by, &found.id).await?;
    app.parts.added.let_go_of_all(&found.id);
    tracing::warn!(org = %found.id, name = found.name, by = %by.id, "an org was disabled");
    disabled.ok_or_else(|| Error::not_found("org", org))
}

async fn find(app: &App, by: &Principal, org: &str) -> Result<Org, Error> {
    let orgs = list(app, by).await?;
    let id = OrgId::parse(org).ok();
    orgs.into_iter().find(|one| Some(&one.id) == id.as_ref()).ok_or_else(|| Error::not_found("org", org))
}
