//! Hears from other servers what they changed of what this one remembers, and which events they committed; tells them the same.
//! While nobody would tell us of changes, nothing is remembered.

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
/// Nothing on this connection must be durable, and a notice that waits for the disk holds up the notices of others.
const LISTEN: &str = "SET synchronous_commit = off; LISTEN countersign_changed; LISTEN countersign_events";

/// How long a connection that died without a word may go unnoticed.
const ASKED_EVERY: Duration = Duration::from_secs(5);
const TRIED_EVERY: Duration = Duration::from_secs(1);
/// Other servers are told of new events at most so often: under load one notice stands for many.
const EVENTS_TOLD_EVERY: Duration = Duration::from_millis(50);

/// Said in the transaction that changes something remembered: heard by all when it commits, and by nobody when it does not.
pub(super) fn notice_of(change: &Change) -> String {
    format!("NOTIFY {CHANGED}, '{}'", change.to_notice())
}

/// What this server knows of its own changes and those of others.
pub(super) struct Heard {
    pub(super) remembered: Remembered,
    pub(super) news: News,
    /// Events that the other servers have not been told of.
    untold: Mutex<HashMap<OrgId, i64>>,
    has_untold: Notify,
}

impl Heard {
    pub(super) fn new() -> Self {
        Self { remembered: Remembered::new(Trust::Uninformed), news: News::default(), untold: Mutex::default(), has_untold: Notify::new() }
    }

    /// Wakes who waits for these events, here and, a little later, on other servers. It is no part of the commit: commits that say
    /// something to others wait for each other, whatever org they are of.
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

/// Ends when the store is gone.
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

/// Until the connection ends, or no longer answers.
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

/// Tells the others of events, and asks now and then whether the connection still answers.
async fn answer(client: &Client, heard: &Weak<Heard>) {
    let mut words = LISTEN.to_owned();
    while let Ok(Ok(())) = tokio::time::timeout(ASKED_EVERY, client.batch_execute(&words)).await {
        let Some(heard) = heard.upgrade() else {
            return;
        };
        if words == LISTEN {
            // Whatever was told before we listened is not in memory: nothing is.
            heard.remembered.trust(Trust::Informed);
        }
        tokio::time::sleep(EVENTS_TOLD_EVERY).await;
        // Nothing to tell for so long: an empty statement asks whether anybody is there.
        let _elapsed = tokio::time::timeout(ASKED_EVERY, heard.has_untold.notified()).await;
        words = heard.take_untold();
    }
}
