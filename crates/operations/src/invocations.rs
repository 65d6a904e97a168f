//! Which invocations and batches a principal may read.

use super::{Error, sessions, sight};
use crate::App;
use countersign_core::batch::Batch;
use countersign_core::ports::{Batches, Invocations};
use countersign_core::principal::Permission;
use countersign_core::{BatchId, Invocation, InvocationId, Principal, PrincipalId, Session};
use pipeline::told_to;
use store::{InvocationFilter, PageRequest};

/// The invocation, for principals who may read everything and for the agent of its session.
pub async fn readable(app: &App, by: &Principal, invocation: &str) -> Result<Invocation, Error> {
    let found = app.store().find_invocation(&by.org, &parse(invocation)?).await?;
    let hidden = sight::hidden(app, by).await?;
    let may_read = |found: &Invocation| {
        let is_own = by.may(Permission::ReadSession) && by.session.as_ref() == Some(&found.session);
        !hidden.contains(&found.space) && (is_own || by.may(Permission::Read))
    };
    found.filter(may_read).map(|found| told_to(by, found)).ok_or_else(|| Error::not_found("invocation", invocation))
}

/// An invocation, if it belongs to this session.
pub async fn of_session(app: &App, session: &Session, invocation: &str) -> Result<Invocation, Error> {
    let found = app.store().find_invocation(&session.org, &parse(invocation)?).await?;
    let found = found.filter(|found| found.session == session.id);
    found.ok_or_else(|| Error::not_found("invocation", invocation))
}

/// The batch, for principals who may read its session.
pub async fn readable_batch(app: &App, by: &Principal, batch: &str) -> Result<Batch, Error> {
    let unknown = || Error::not_found("batch", batch);
    let id = BatchId::parse(batch).map_err(|_| unknown())?;
    let found = app.store().find_batch(&by.org, &id).await?.ok_or_else(unknown)?;
    if !sight::sees(app, by, &found.space).await? {
        return Err(unknown());
    }
    sessions::readable(app, by, found.session.as_str()).await?;
    Ok(found)
}

pub fn parse(invocation: &str) -> Result<InvocationId, Error> {
    InvocationId::parse(invocation).map_err(|_| Error::not_found("invocation", invocation))
}

/// The calls of the same action before this one, the newest first: of its session, or of its automation, whose runs have a session each.
pub async fn earlier(app: &App, invocation: &Invocation, limit: u32) -> Result<Vec<Invocation>, Error> {
    let (session, automation) = match &invocation.principal {
        PrincipalId::Automation(automation) => (None, Some(automation.clone())),
        PrincipalId::User(_) | PrincipalId::Agent(_) | PrincipalId::Service(_) => (Some(invocation.session.clone()), None),
    };
    let filter = InvocationFilter { session, automation, action: Some(invocation.action.clone()), ..InvocationFilter::default() };
    // Ids sort by creation time and the list is newest first, so after this call's id come the earlier calls.
    let request = PageRequest { limit, after: Some(invocation.id.to_string()) };
    Ok(app.store().list_invocations(&invocation.org, &filter, &request).await?.items)
}
