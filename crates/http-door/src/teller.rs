//! What is sent next on a stream, however it is sent: the events that its reader may see, and what the stream says of itself.

use super::caller::Shown;
use super::problem::Refusal;
use ::stream::{Next, Subscription};
use api::Code;
use api::stream::{Cursor, DropReason, NoticeName, StreamNotice};
use operations::App;
use operations::stream;
use std::collections::VecDeque;
use std::sync::Arc;

/// Something to send.
pub(super) enum Say {
    Message {
        name: String,
        /// Absent if the reader is where it was.
        cursor: Option<Cursor>,
        json: String,
    },
    /// There is nothing to say but that the connection is alive, and how far its reader is, if that has changed.
    Alive { cursor: Option<Cursor> },
}

/// Why a stream has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Dropped(DropReason),
    /// The reader may no longer read, or the store is away.
    Refused,
}

/// Tells one reader.
pub(super) struct Teller {
    app: App,
    shown: Shown,
    trace_id: String,
    subscription: Subscription,
    /// What was heard and is not told yet.
    heard: Option<Next>,
    ready: VecDeque<Say>,
    /// After everything that was heard.
    position: Cursor,
    /// What the reader knows of it.
    known: Cursor,
    end: Option<End>,
}

impl Teller {
    /// Opens a stream for whoever shows this.
    pub(super) async fn open(app: App, shown: Shown, after: Option<&str>, trace_id: String) -> Result<Self, Refusal> {
        let after = after.map(cursor_of).transpose()?;
        let principal = shown.principal(&app).await?;
        let subscription = stream::open(&app, &principal, after).await?;
        let position = subscription.begins_after();
        let ready = VecDeque::from([notice(NoticeName::Opened, position, None)]);
        Ok(Self { app, shown, trace_id, subscription, heard: None, ready, position, known: position, end: None })
    }

    /// What its reader showed.
    pub(super) const fn shown(&self) -> &Shown {
        &self.shown
    }

    /// Set after the last message.
    pub(super) const fn end(&self) -> Option<End> {
        self.end
    }

    /// The next thing to send; `None` at the end. If this future is dropped early, nothing is lost.
    pub(super) async fn next(&mut self) -> Option<Say> {
        loop {
            if let Some(say) = self.ready.pop_front() {
                return Some(say);
            }
            if self.end.is_some() {
                return None;
            }
            if let Err(refusal) = self.listen().await {
                let json = written(refusal, self.trace_id.clone());
                self.ready.push_back(Say::Message { name: "problem".to_owned(), cursor: None, json });
                self.end = Some(End::Refused);
            }
        }
    }

    async fn listen(&mut self) -> Result<(), Refusal> {
        if self.heard.is_none() {
            self.heard = Some(self.subscription.next().await?);
        }
        match &self.heard {
            None => {}
            Some(Next::Event(told)) => {
                let told = Arc::clone(told);
                // The token may have been revoked, the login may have ended, or its bearer may do less than when the stream was opened.
                let principal = self.shown.principal(&self.app).await?;
                let shown = stream::told(&self.app, &principal, &told).await?;
                self.position = Cursor::after(told.event.seq);
                if let Some(shown) = shown {
                    let parts = self.subscription.new_parts(&shown).await.cloned();
                    self.ready.extend(parts.map(|part| Say::Message { name: part.name, cursor: Some(part.cursor), json: part.json }));
                    self.known = self.position;
                }
            }
            Some(Next::Silence) => {
                self.shown.principal(&self.app).await?;
                let cursor = (self.position > self.known).then_some(self.position);
                self.known = self.position;
                self.ready.push_back(Say::Alive { cursor });
            }
            Some(Next::TooSlow) => self.drop_for(DropReason::TooSlow),
            Some(Next::Closing) => self.drop_for(DropReason::Stopping),
        }
        self.heard = None;
        Ok(())
    }

    fn drop_for(&mut self, reason: DropReason) {
        let word = match reason {
            DropReason::TooSlow => "too_slow",
            DropReason::Stopping => "stopping",
        };
        metrics::counter!("countersign_streams_dropped_total", "reason" => word).increment(1);
        self.ready.push_back(notice(NoticeName::Dropped, self.position, Some(reason)));
        self.end = Some(End::Dropped(reason));
    }
}

fn notice(name: NoticeName, cursor: Cursor, reason: Option<DropReason>) -> Say {
    let hint = reason.map(|_| format!("open the stream again with `after={cursor}`: nothing is missed"));
    let json = serde_json::to_string(&StreamNotice { name, cursor: cursor.to_string(), reason, hint }).unwrap_or_default();
    Say::Message { name: name.as_str().to_owned(), cursor: Some(cursor), json }
}

/// A message that says how far the reader is, where the connection itself has no way to.
pub(super) fn position(cursor: Cursor) -> Say {
    notice(NoticeName::Position, cursor, None)
}

/// A problem, as JSON.
pub(super) fn written(refusal: Refusal, trace_id: String) -> String {
    let mut problem = refusal.into_problem();
    problem.trace_id = Some(trace_id);
    serde_json::to_string(&problem).unwrap_or_default()
}

fn cursor_of(text: &str) -> Result<Cursor, Refusal> {
    let bad = || Refusal::new(Code::InvalidQuery, "`after` is not a cursor of ours").hint("give the `cursor` of a message, or `0`");
    Cursor::parse(text).ok_or_else(bad)
}
