//! What a session sees: its actions, and the rules they are under. Whoever shows it to an agent learns here when it has changed.

use super::Error;
use crate::App;
use countersign_core::ports::{EventFeed, Rules};
use countersign_core::{Action, Session};
use std::sync::Arc;

/// What a session saw at one moment.
pub(crate) struct Seen {
    rules_version: i64,
    actions: Vec<Arc<Action>>,
}

pub(crate) async fn seen(app: &App, session: &Session) -> Result<Seen, Error> {
    let rules_version = app.store().rules_version(&session.org).await?;
    Ok(Seen { rules_version, actions: app.pipeline().catalogue().all_actions(session).await })
}

/// Returns when the session sees something else, which the event feed announces or a look every few seconds notices.
pub(crate) async fn changed(app: &App, session: &Session, before: &Seen) -> Result<Seen, Error> {
    loop {
        let newest = app.store().newest_event(&session.org).await?;
        app.store().wait_for_event(&session.org, newest).await;
        let now = seen(app, session).await?;
        if !now.is_same(before) {
            return Ok(now);
        }
    }
}

impl Seen {
    fn is_same(&self, other: &Self) -> bool {
        let is_same = |(one, other): (&Arc<Action>, &Arc<Action>)| Arc::ptr_eq(one, other) || one == other;
        self.rules_version == other.rules_version
            && self.actions.len() == other.actions.len()
            && self.actions.iter().zip(&other.actions).all(is_same)
    }
}
