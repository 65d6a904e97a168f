//! Chooses the session of a call: the one that was named, the agent's own, or the person's own session `cli`.

use crate::shared::*;
use api::identity::{NewSessionRequest, NewSessionResponse, SessionView, WhoamiResponse};

const TITLE: &str = "cli";
/// Pages of sessions that are searched before a new session is created.
const PAGES_MAX: usize = 5;

pub(in crate::commands) async fn choose(named: Option<&str>, client: &Client) -> Result<String, Failure> {
    if let Some(named) = named.filter(|named| !named.is_empty()) {
        return id_of::<SessionView>(named, client).await;
    }
    let whoami = client.get::<WhoamiResponse>(&["whoami"], &[]).await?.read;
    if let Some(own) = whoami.session_id {
        return Ok(own);
    }
    if !whoami.principal.starts_with("user:") {
        let message = format!("`{}` has no session of its own", whoami.principal);
        return Err(Failure::usage(message).hint("name one with --session, made by countersign session create"));
    }
    match find(&whoami.principal, client).await? {
        Some(session) => Ok(session),
        None => {
            let request = NewSessionRequest { title: Some(TITLE.to_owned()), ..NewSessionRequest::default() };
            Ok(client.post_always::<NewSessionResponse>(&["sessions"], &request).await?.read.id)
        }
    }
}

/// The newest open session with the title `cli` that this person created.
async fn find(principal: &str, client: &Client) -> Result<Option<String>, Failure> {
    let own = |session: &SessionView| session.title == TITLE && session.created_by == principal && session.ended_at.is_none();
    let mut pages = client.pages::<SessionView>(&["sessions"], &[]);
    for _ in 0..PAGES_MAX {
        let Some(page) = pages.next().await? else { break };
        if let Some((found, _)) = page.into_iter().find(|(session, _)| own(session)) {
            return Ok(Some(found.id));
        }
    }
    Ok(None)
}
