//! What a session sees: its actions, and the rules they are under. Whoever shows it to an agent learns here when it has changed.

use super::Error;
use crate::App;
use countersign_core::ports::{EventFeed, Rules};
use countersign_core::{Action, OrgId, Session};
use pipeline::Eyes;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Under load one look covers the events of this long.
const PAUSE: Duration = Duration::from_millis(100);
const STORE_PAUSE: Duration = Duration::from_secs(1);

/// What a session saw at one moment, or the whole org.
pub struct Seen {
    rules_version: i64,
    actions: Vec<Arc<Action>>,
}

pub async fn seen(app: &App, session: &Session) -> Result<Seen, Error> {
    seen_with(app, &session.org, Eyes::Session(session)).await
}

/// Returns when the session sees something else, which the event feed announces or a look every few seconds notices.
pub async fn changed(app: &App, session: &Session, before: &Seen) -> Result<Seen, Error> {
    // Listening begins before the look, so a change between the two still wakes us.
    let mut changes = app.followed().join(&session.org, |told| {
        tokio::spawn(look(app.clone(), session.org.clone(), told));
    });
    loop {
        let now = seen(app, session).await?;
        // The one who tells is kept as long as somebody listens. If it were gone, this would return instead of waiting for ever.
        if !now.is_same(before) || changes.changed().await.is_err() {
            return Ok(now);
        }
    }
}

/// Tells those who follow the org whenever it looks different, as long as there are any. A session sees a part of its org under the same
/// rules, so it sees nothing else while its org looks the same.
async fn look(app: App, org: OrgId, told: watch::Sender<()>) {
    let mut before: Option<Seen> = None;
    while !app.pipeline().is_stopping() && !app.followed().is_over(&org) {
        match look_once(&app, &org).await {
            Ok((newest, now)) => {
                // The first look is told too: what changed before it was noticed by nobody.
                if before.as_ref().is_none_or(|before| !now.is_same(before)) {
                    told.send_replace(());
                }
                before = Some(now);
                tokio::time::sleep(PAUSE).await;
                tokio::select! {
                    () = app.store().wait_for_event(&org, newest) => {}
                    () = told.closed() => {}
                    () = app.pipeline().stopping() => {}
                }
            }
            Err(error) => {
                tracing::debug!(%error, "whether an org has changed cannot be told now");
                tokio::time::sleep(STORE_PAUSE).await;
            }
        }
    }
}

/// What the org looks like, and an event up to which this is certain.
async fn look_once(app: &App, org: &OrgId) -> Result<(i64, Seen), Error> {
    let newest = app.store().newest_event(org).await?;
    Ok((newest, seen_with(app, org, Eyes::Org(org)).await?))
}

async fn seen_with(app: &App, org: &OrgId, eyes: Eyes<'_>) -> Result<Seen, Error> {
    let rules_version = app.store().rules_version(org).await?;
    Ok(Seen { rules_version, actions: app.pipeline().catalogue().all_actions(eyes).await })
}

impl Seen {
    fn is_same(&self, other: &Self) -> bool {
        let is_same = |(one, other): (&Arc<Action>, &Arc<Action>)| Arc::ptr_eq(one, other) || one == other;
        self.rules_version == other.rules_version
            && self.actions.len() == other.actions.len()
            && self.actions.iter().zip(&other.actions).all(is_same)
    }
}
