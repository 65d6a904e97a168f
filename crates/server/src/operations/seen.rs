//! What a session sees: its actions, and the rules they are under. Whoever shows it to an agent learns here when it has changed.

use super::Error;
use crate::App;
use countersign_core::limits::SEEN_PAUSE_MS;
use countersign_core::ports::{EventFeed, Rules};
use countersign_core::{Action, Session};
use std::sync::Arc;
use std::time::Duration;

/// What a session saw at one moment.
pub(crate) struct Seen {
    /// The newest event before the look.
    newest: i64,
    rules_version: i64,
    actions: Vec<Arc<Action>>,
}

pub(crate) async fn seen(app: &App, session: &Session) -> Result<Seen, Error> {
    let newest = app.store().newest_event(&session.org).await?;
    let rules_version = app.store().rules_version(&session.org).await?;
    Ok(Seen { newest, rules_version, actions: app.pipeline().catalogue().all_actions(session).await })
}

/// Returns when the session sees something else, which the event feed announces or a look every few seconds notices. Events that follow each
/// other closely cost one look.
pub(crate) async fn changed(app: &App, session: &Session, before: &Seen) -> Result<Seen, Error> {
    let mut newest = before.newest;
    loop {
        app.store().wait_for_event(&session.org, newest).await;
        tokio::time::sleep(Duration::from_millis(SEEN_PAUSE_MS)).await;
        let now = seen(app, session).await?;
        if !now.is_same(before) {
            return Ok(now);
        }
        newest = now.newest;
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
