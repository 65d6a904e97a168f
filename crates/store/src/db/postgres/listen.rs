//! Notices between servers: which remembered rows a server changed, and which events it committed. This file sends and receives them.
//! While it cannot receive notices, this server remembers nothing.

use super::super::news::News;
use super::super::remembered::{Change, Remembered, Trust};
use countersign_core::OrgId;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Weak;
use std::time::Duration;
use tokio::sync::Notify;
use tokio_postgres::{AsyncMessage, Client, Config, Notification};

const CHANGED: &str = "countersign_changed";
const EVENTS: &str = "countersign_events";
/// This connection writes nothing that must survive a crash, and a notice that waits for the disk would delay those of other servers.
const LISTEN: &str = "SET synchronous_commit = off; LISTEN countersign_changed; LISTEN countersign_events";

/// How often the connection is checked: a connection that died silently goes unnoticed for at most about this long.
const ASKED_EVERY: Duration = Duration::from_secs(5);
const TRIED_EVERY: Duration = Duration::from_secs(1);
/// How often other servers are told of new events at most. Under load one notice stands for many events.
const EVENTS_TOLD_EVERY: Duration = Duration::from_millis(50);

/// The notice of a change, sent in the transaction that makes the change: the other servers receive it if the transaction commits.
pub(super) fn notice_of(change: &Change) -> String {
    format!("NOTIFY {CHANGED}, '{}'", change.to_notice())
}

/// Everything this server knows of its own changes and of other servers' changes.
pub(super) struct Heard {
    pub(super) remembered: Remembered,
    pub(super) news: News,
    /// The newest event of each org that the other servers have not been told of yet.
    untold: Mutex<HashMap<OrgId, i64>>,
    has_untold: Notify,
}

impl Heard {
    pub(super) fn new() -> Self {
        Self { remembered: Remembered::new(Trust::Uninformed), news: News::default(), untold: Mutex::default(), has_untold: Notify::new() }
    }

    /// Wakes the callers who wait for these events, here at once and on other servers a little later. The notice is not part of the commit:
    /// PostgreSQL makes commits that contain a `NOTIFY` wait for each other, whatever their org.
    pub(super) fn publish(&self, events: impl Iterator<Item = (OrgId, i64)>) {
        for (org, seq) in events {
            self.news.committed(&org, seq);
            self.untold.lock().insert(org, seq);
        }
        if !self.untold.lock().is_empty() {
            self.has_untold.notify_one();
        }
    }

    fn hear(&self, notification: &Notification) {
        if notification.channel() == CHANGED {
            self.remembered.forget(&[Change::from_notice(notification.payload())]);
        } else if let Some((org, seq)) = notification.payload().split_once(' ')
            && let (Ok(org), Ok(seq)) = (OrgId::parse(org), seq.parse())
        {
            self.news.committed(&org, seq);
        }
    }

    fn take_untold(&self) -> String {
        let untold = std::mem::take(&mut *self.untold.lock());
        let notices: Vec<_> = untold.into_iter().map(|(org, seq)| format!("NOTIFY {EVENTS}, '{org} {seq}'")).collect();
        notices.join("; ")
    }
}

/// Runs until the store is dropped.
pub(super) async fn listen(config: Config, heard: Weak<Heard>) {
    while heard.strong_count() > 0 {
        if let Ok((client, connection)) = config.connect(super::tls()).await {
            hear(&client, connection, &heard).await;
        }
        if let Some(heard) = heard.upgrade() {
            heard.remembered.trust(Trust::Uninformed);
        }
        tokio::time::sleep(TRIED_EVERY).await;
    }
}

/// Runs until the connection ends or no longer answers.
async fn hear<S, T>(client: &Client, mut connection: tokio_postgres::Connection<S, T>, heard: &Weak<Heard>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let messages = async {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if let (AsyncMessage::Notification(notification), Some(heard)) = (message, heard.upgrade()) {
                heard.hear(&notification);
            }
        }
    };
    tokio::select! {
        () = messages => {}
        () = answer(client, heard) => {}
    }
}

/// Tells the other servers of new events, and regularly checks whether the connection still answers.
async fn answer(client: &Client, heard: &Weak<Heard>) {
    let mut words = LISTEN.to_owned();
    while let Ok(Ok(())) = tokio::time::timeout(ASKED_EVERY, client.batch_execute(&words)).await {
        let Some(heard) = heard.upgrade() else {
            return;
        };
        if words == LISTEN {
            // We missed the notices sent before we listened. That does no harm, because nothing was remembered until now.
            heard.remembered.trust(Trust::Informed);
        }
        tokio::time::sleep(EVENTS_TOLD_EVERY).await;
        // If there is nothing to send for this long, the statement is empty and only checks that the connection answers.
        let _elapsed = tokio::time::timeout(ASKED_EVERY, heard.has_untold.notified()).await;
        words = heard.take_untold();
    }
}
