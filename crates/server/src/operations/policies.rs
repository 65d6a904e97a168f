//! The org's own policies.

use super::{Error, must};
use crate::App;
use countersign_core::policies::PolicyTexts;
use countersign_core::principal::Permission;
use countersign_core::{OrgId, Principal};
use policy::Policies;
use std::sync::Arc;

/// Makes these the org's policies, all of them and no others; returns their version and how many there are.
pub(crate) async fn set(app: &App, by: &Principal, texts: PolicyTexts) -> Result<(i64, u64), Error> {
    must(by, Permission::ManagePolicy)?;
    let compiled = compile(app, &by.org, texts.clone()).await?;
    let version = app.store().set_policies(&by.org, texts, &by.id).await?;
    Ok((version, compiled.len() as u64))
}

/// Policies as they would be in force, or everything that is wrong with them.
pub(crate) async fn compile(app: &App, org: &OrgId, texts: PolicyTexts) -> Result<Arc<Policies>, Error> {
    app.pipeline().compile(org, texts).await?.map_err(|problems| Error::Policies { problems })
}
