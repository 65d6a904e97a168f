//! The org's own policies.

use super::{Error, count_void, must};
use crate::App;
use countersign_core::policies::PolicyTexts;
use countersign_core::principal::Permission;
use countersign_core::{OrgId, Principal};
use policy::Policies;
use std::sync::Arc;

/// The policies now in force.
pub(crate) struct Set {
    pub(crate) version: i64,
    pub(crate) count: u64,
    pub(crate) voided: Option<u64>,
}

/// Replaces all policies of the org with these.
pub(crate) async fn set(app: &App, by: &Principal, texts: PolicyTexts) -> Result<Set, Error> {
    must(by, Permission::ManagePolicy)?;
    let compiled = compile(app, &by.org, texts.clone()).await?;
    let version = app.store().set_policies(&by.org, texts, &by.id).await?;
    Ok(Set { version, count: compiled.len() as u64, voided: count_void(app, &by.org, None).await })
}

/// The compiled policies, or everything that is wrong with them.
pub(crate) async fn compile(app: &App, org: &OrgId, texts: PolicyTexts) -> Result<Arc<Policies>, Error> {
    app.pipeline().compile(org, texts).await?.map_err(|problems| Error::Policies { problems })
}
