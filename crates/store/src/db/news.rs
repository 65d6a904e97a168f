//! The newest committed event of each org: by this server, or by another one as far as this server has heard.

use countersign_core::OrgId;
use parking_lot::Mutex;
use std::collections::HashMap;
use tokio::sync::watch;

/// For each org, the position of the newest event known to be committed.
#[derive(Default)]
pub(crate) struct News(Mutex<HashMap<OrgId, watch::Sender<i64>>>);

impl News {
    pub(super) fn committed(&self, org: &OrgId, seq: i64) {
        self.with(org, |newest| {
            newest.send_if_modified(|newest| {
                let is_news = *newest < seq;
                *newest = seq.max(*newest);
                is_news
            });
        });
    }

    /// Returns when an event after this position is known to be committed.
    pub(crate) async fn wait(&self, org: &OrgId, after: i64) {
        let mut newest = self.with(org, watch::Sender::subscribe);
        // The sender lives in the map and is never removed. If it were dropped, this would return instead of waiting for ever.
        let _gone = newest.wait_for(|newest| *newest > after).await;
    }

    fn with<T>(&self, org: &OrgId, tell: impl FnOnce(&watch::Sender<i64>) -> T) -> T {
        let mut orgs = self.0.lock();
        match orgs.get(org) {
            Some(newest) => tell(newest),
            None => tell(orgs.entry(org.clone()).or_insert_with(|| watch::Sender::new(0))),
        }
    }
}
