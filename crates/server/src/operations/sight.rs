//! Which spaces exist for a principal. A space with members is there for them and for those who administer the org. For everybody else it, and
//! what happens in it, does not exist: it is in no list, and by its id it is not found.

use super::{Error, connections, must};
use crate::App;
use countersign_core::ports::{Automations, Invocations, Runs, Sessions};
use countersign_core::principal::Permission;
use countersign_core::{AutomationId, ChannelId, ConnectionId, DocumentId, InvocationId, OrgId, Principal, RunId, SessionId, SpaceId};
use std::collections::BTreeSet;

/// The spaces that do not exist for this principal.
pub(crate) async fn hidden(app: &App, by: &Principal) -> Result<BTreeSet<SpaceId>, Error> {
    let closed = app.store().list_closed_spaces(&by.org).await?;
    Ok(closed.iter().filter(|space| !by.sees(space)).map(|space| space.id.clone()).collect())
}

pub(crate) async fn sees(app: &App, by: &Principal, space: &SpaceId) -> Result<bool, Error> {
    Ok(!hidden(app, by).await?.contains(space))
}

/// Refuses what cannot be cut into what they see and what they do not: the audit log as a whole.
pub(crate) async fn must_see_all(app: &App, by: &Principal) -> Result<(), Error> {
    if hidden(app, by).await?.is_empty() { Ok(()) } else { must(by, Permission::ManagePolicy) }
}

/// Those of these that exist for this principal. `about` gives a text with the ids that each is about.
pub(crate) async fn seen_of<T: Send>(
    app: &App,
    by: &Principal,
    items: Vec<T>,
    about: impl Fn(&T) -> String + Send,
) -> Result<Vec<T>, Error> {
    let hidden = hidden(app, by).await?;
    let mut seen = Vec::with_capacity(items.len());
    for item in items {
        let text = about(&item);
        if !is_about(app, &by.org, &hidden, &text).await? {
            seen.push(item);
        }
    }
    Ok(seen)
}

/// Whether a text names one of these spaces, a session, an invocation, an automation, a run or a document in one, or a channel or a connection
/// for one. An invocation that is no longer kept may have been in one of them, and counts as if it had.
pub(crate) async fn is_about(app: &App, org: &OrgId, spaces: &BTreeSet<SpaceId>, text: &str) -> Result<bool, Error> {
    if spaces.is_empty() {
        return Ok(false);
    }
    for word in text.split(|character: char| !character.is_ascii_alphanumeric() && character != '_') {
        let space = if let Ok(space) = SpaceId::parse(word) {
            Some(space)
        } else if let Ok(session) = SessionId::parse(word) {
            app.store().find_session(org, &session).await?.map(|session| session.space)
        } else if let Ok(invocation) = InvocationId::parse(word) {
            match app.store().find_invocation(org, &invocation).await? {
                Some(invocation) => Some(invocation.space),
                None => return Ok(true),
            }
        } else if let Ok(automation) = AutomationId::parse(word) {
            app.store().find_automation(org, &automation).await?.map(|automation| automation.space)
        } else if let Ok(run) = RunId::parse(word) {
            app.store().find_run(org, &run).await?.map(|run| run.space)
        } else if let Ok(document) = DocumentId::parse(word) {
            app.store().find_document_of_org(org, &document).await?.map(|(document, _)| document.space)
        } else if let Ok(channel) = ChannelId::parse(word) {
            app.store().find_channel(org, &channel).await?.and_then(|channel| channel.space)
        } else if let Ok(connection) = ConnectionId::parse(word) {
            let found = app.store().find_connection_by_id(org, &connection).await?;
            if found.is_some_and(|connection| connections::seen(connection, spaces).is_none()) {
                return Ok(true);
            }
            None
        } else {
            None
        };
        if space.is_some_and(|space| spaces.contains(&space)) {
            return Ok(true);
        }
    }
    Ok(false)
}
