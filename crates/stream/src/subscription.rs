//! One open stream: first what it has missed, read from the store, then what is handed to it.

use super::{EVENTS_READ, Place, Told};
use api::stream::{Cursor, Frame};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

/// The next thing of a stream.
#[derive(Debug)]
pub enum Next {
    Event(Arc<Told>),
    /// There was no news for a while.
    Silence,
    /// The reader is so far behind that events it has not read are no longer kept for it. They are in the store.
    TooSlow,
    /// The server stops.
    Closing,
}

/// An open stream. Dropping it leaves nothing behind.
pub struct Subscription {
    place: Place,
    told: broadcast::Receiver<Arc<Told>>,
    /// What its reader had before it was opened.
    after: Cursor,
    /// The last event that was read, from the store or as it came.
    seen: i64,
    /// Events from the store that were not returned yet.
    ready: VecDeque<Arc<Told>>,
    /// There may be more in the store that nobody will hand over.
    is_behind: bool,
}

impl Subscription {
    pub(super) fn new(place: Place, told: broadcast::Receiver<Arc<Told>>, after: Cursor) -> Self {
        // Of the event at the cursor a part may be left.
        Self { place, told, after, seen: after.seq - 1, ready: VecDeque::new(), is_behind: true }
    }

    /// Where the stream begins.
    pub const fn begins_after(&self) -> Cursor {
        self.after
    }

    /// The parts of an event that the reader had not before the stream was opened.
    pub async fn new_parts<'a>(&self, told: &'a Told) -> impl Iterator<Item = &'a Frame> + use<'a> {
        let after = self.after;
        told.frames().await.iter().filter(move |frame| frame.cursor > after)
    }

    /// Waits for the next thing. If this future is dropped early, nothing is lost.
    pub async fn next(&mut self) -> Result<Next, store::Error> {
        let inner = Arc::clone(&self.place.streams.0);
        loop {
            if inner.closing.is_cancelled() {
                return Ok(Next::Closing);
            }
            if let Some(told) = self.ready.pop_front() {
                return Ok(Next::Event(told));
            }
            if self.is_behind {
                self.catch_up().await?;
                continue;
            }
            let heard = tokio::select! {
                heard = self.told.recv() => heard,
                () = inner.closing.cancelled() => return Ok(Next::Closing),
                () = tokio::time::sleep(inner.bounds.silence) => return Ok(Next::Silence),
            };
            match heard {
                Ok(told) if told.event.seq > self.seen => {
                    self.seen = told.event.seq;
                    return Ok(Next::Event(told));
                }
                // It was in the store already.
                Ok(_) => {}
                Err(RecvError::Lagged(_)) => return Ok(Next::TooSlow),
                // The reader ends before its streams only if the server stops.
                Err(RecvError::Closed) => return Ok(Next::Closing),
            }
        }
    }

    async fn catch_up(&mut self) -> Result<(), store::Error> {
        // Listening begins before the read: what is committed after the read is handed over, and nothing that was read can be too old to
        // be kept.
        self.told = self.told.resubscribe();
        let (feed, org) = (&self.place.streams.0.feed, &self.place.org);
        let events = feed.list_events_after(org, self.seen, EVENTS_READ).await?;
        self.is_behind = events.len() == EVENTS_READ as usize;
        self.seen = events.last().map_or(self.seen, |last| last.seq);
        self.ready.extend(events.into_iter().map(|event| Told::new(&self.place.org, event)));
        // A reader for whom none of them is would keep this thread busy until the last page.
        tokio::task::yield_now().await;
        Ok(())
    }
}
