//! The org's own policies.

use super::{Error, modes, must, must_read, sight};
use crate::App;
use api::rules::ModeLine;
use countersign_core::limits::PAGE_ROWS_MAX;
use countersign_core::policies::PolicyTexts;
use countersign_core::ports::Invocations;
use countersign_core::principal::Permission;
use countersign_core::{ActionId, OrgId, Principal};
use pipeline::{Proposal, Replayed, WhatIf};
use policy::Policies;
use std::sync::Arc;
use store::{InvocationFilter, PageRequest};

/// How far back a what-if looks when nobody says, and at most.
const WHAT_IF_SECONDS: u64 = 7 * 24 * 60 * 60;
pub const WHAT_IF_SECONDS_MAX: u64 = 90 * 24 * 60 * 60;
/// How many recorded invocations a what-if decides again.
const REPLAYED_MAX: u64 = 10_000;

/// The policies now in force.
pub struct Set {
    pub version: i64,
    pub count: u64,
    pub voided: Option<u64>,
}

/// Replaces all policies of the org with these.
pub async fn set(app: &App, by: &Principal, texts: PolicyTexts) -> Result<Set, Error> {
    must(by, Permission::ManagePolicy)?;
    let compiled = compile(app, &by.org, texts.clone()).await?;
    let version = app.store().set_policies(&by.org, texts, &by.id).await?;
    Ok(Set { version, count: compiled.len() as u64, voided: app.pipeline().end_void(&by.org, None).await })
}

/// The compiled policies, or everything that is wrong with them.
pub async fn compile(app: &App, org: &OrgId, texts: PolicyTexts) -> Result<Arc<Policies>, Error> {
    app.pipeline().compile(org, texts).await?.map_err(|problems| Error::Policies { problems })
}

/// What other rules would have changed.
#[derive(Default)]
pub struct Tried {
    pub replayed: u64,
    pub skipped: u64,
    pub stopped: u64,
    pub quarantined: u64,
    /// There were more invocations than are decided again.
    pub is_truncated: bool,
    pub changes: Vec<WhatIf>,
}

/// Decides recorded invocations again under these policies and modes; where one is absent, the one in force stays.
pub async fn what_if(
    app: &App,
    by: &Principal,
    policies: Option<PolicyTexts>,
    modes: Option<Vec<ModeLine>>,
    seconds: Option<u64>,
    action: Option<ActionId>,
) -> Result<Tried, Error> {
    must_read(by)?;
    let org = &by.org;
    let keeps_policies = policies.is_none();
    let policies = match policies.filter(|texts| !texts.is_empty()) {
        Some(texts) => Some(compile(app, org, texts).await?),
        None => None,
    };
    let modes = match modes {
        Some(lines) => {
            let rows = modes::rows_of(app, org, lines).await?.into_iter();
            Some(rows.map(|row| ((row.automation, row.action), (row.mode, row.lock))).collect())
        }
        None => None,
    };
    let proposal = Proposal { policies, keeps_policies, modes };
    let from = app.store().now().await?.minus_seconds(seconds.unwrap_or(WHAT_IF_SECONDS));
    let actions = app.pipeline().actions_now(org).await;
    let (mut tried, mut seen) = (Tried::default(), 0);
    let filter = InvocationFilter { action, hidden: sight::hidden(app, by).await?, ..InvocationFilter::default() };
    let mut request = PageRequest { limit: PAGE_ROWS_MAX, after: None };
    loop {
        let page = app.store().list_invocations(org, &filter, &request).await?;
        for recorded in &page.items {
            if recorded.created_at < from {
                return Ok(tried);
            }
            if seen >= REPLAYED_MAX {
                tried.is_truncated = true;
                return Ok(tried);
            }
            seen += 1;
            match app.pipeline().what_if(org, recorded, &proposal, &actions).await? {
                Replayed::Skipped => tried.skipped += 1,
                Replayed::Stopped => tried.stopped += 1,
                Replayed::Quarantined => tried.quarantined += 1,
                Replayed::Same => tried.replayed += 1,
                Replayed::Changed(changed) => {
                    tried.replayed += 1;
                    tried.changes.push(*changed);
                }
            }
        }
        match page.next {
            Some(next) => request.after = Some(next),
            None => return Ok(tried),
        }
    }
}
