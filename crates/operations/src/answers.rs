//! People's answers to pending calls: the checks before the pipeline handles them (`pipeline/src/answers/`).

use super::{Error, invocations, must, must_be_person, sessions};
use crate::App;
use countersign_core::limits::APPROVAL_UNATTENDED_SECONDS;
use countersign_core::ports::Invocations;
use countersign_core::principal::Permission;
use countersign_core::{InvocationId, Principal, PrincipalId, Status, Timestamp};
use std::collections::BTreeMap;

/// The id of the invocation that somebody wants to answer. The permission is checked first, so that a person without it learns nothing
/// about which invocations exist.
pub fn id_of(by: &Principal, invocation: &str) -> Result<InvocationId, Error> {
    must_answer(by)?;
    invocations::parse(invocation)
}

/// Like `id_of`, for an invocation of this session.
pub async fn of_session(app: &App, by: &Principal, session: &str, invocation: &str) -> Result<InvocationId, Error> {
    must_answer(by)?;
    let session = sessions::readable(app, by, session).await?;
    let found = invocations::of_session(app, &session, invocation).await;
    if let (Err(Error::NotFound { .. }), Ok(id)) = (&found, invocations::parse(invocation)) {
        app.pipeline().count_unknown(&session.org, &id).await;
    }
    found.map(|found| found.id)
}

/// Hides a pending invocation from the person's own inbox for a while; returns until when. It decides nothing, and the expiry is not
/// postponed.
pub async fn snooze(app: &App, by: &Principal, invocation: &str, seconds: u64) -> Result<(InvocationId, Timestamp), Error> {
    let user = must_be_person(by, "has an inbox")?;
    let found = invocations::readable(app, by, invocation).await?;
    if found.status != Status::Pending {
        return Err(pipeline::Error::Conflict { invocation: found.id, conflict: pipeline::Conflict::Ended }.into());
    }
    let until = app.store().now().await?.plus_seconds(seconds.min(APPROVAL_UNATTENDED_SECONDS));
    app.store().snooze(&found.org, &found.id, user, until).await?;
    Ok((found.id, until))
}

/// What can be known of a pending call is for who may answer it.
pub fn may_look_ahead(by: &Principal) -> Result<(), Error> {
    must(by, Permission::Approve)
}

/// What this person has snoozed; nobody else has an inbox.
pub async fn snoozed(app: &App, by: &Principal) -> Result<BTreeMap<InvocationId, Timestamp>, Error> {
    match &by.id {
        PrincipalId::User(user) => Ok(app.store().list_snoozes(&by.org, user).await?),
        PrincipalId::Agent(_) | PrincipalId::Service(_) | PrincipalId::Automation(_) => Ok(BTreeMap::new()),
    }
}

pub fn must_answer(by: &Principal) -> Result<(), Error> {
    Ok(pipeline::must_approve(by).inspect_err(|_| pipeline::count_conflict("may_not_approve"))?)
}
