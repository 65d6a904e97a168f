//! The live stream. One reader for each org reads its events and hands them to every open stream of the org, so an idle stream costs a place
//! in a list and no query. A stream that begins in the past first reads on by itself (`subscription.rs`).
//! Who may open a stream, and what each principal is told, is decided in `operations/stream.rs`; how it is sent, in `http-door/src/stream.rs`.

pub mod limits;
pub mod tries;

mod strangers;
mod subscription;

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;

pub use subscription::{Next, Subscription};

use crate::limits::{STREAM_EVENTS_KEPT, STREAM_OPEN_SECONDS, STREAMS_MAX, STREAMS_PER_ORG_MAX};
use api::stream::{Cursor, Frame, frames, session_of};
use countersign_core::limits::LIGHT_BYTES_MAX;
use countersign_core::ports::EventFeed;
use countersign_core::ports::events::Event;
use countersign_core::{OrgId, SessionId, Status};
use durable::heavy;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use strangers::{Stranger, Strangers};
use tokio::sync::{OnceCell, broadcast, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// Events read at a time.
const EVENTS_READ: u32 = 256;
/// Under load one read covers the events of this long.
const PAUSE: Duration = Duration::from_millis(20);
const STORE_PAUSE: Duration = Duration::from_secs(1);

/// Every open stream of this server. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Streams(Arc<Inner>);

struct Inner {
    feed: Arc<dyn EventFeed>,
    bounds: Bounds,
    open: Mutex<Open>,
    /// Places for those who have not said yet who they are.
    strangers: Strangers,
    closing: CancellationToken,
    tasks: TaskTracker,
}

#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub streams_max: usize,
    pub(crate) streams_per_org_max: usize,
    pub(crate) events_kept: usize,
    /// How long a stream may be silent.
    pub silence: Duration,
}

impl Bounds {
    pub const fn new(silence: Duration) -> Self {
        Self { streams_max: STREAMS_MAX, streams_per_org_max: STREAMS_PER_ORG_MAX, events_kept: STREAM_EVENTS_KEPT, silence }
    }
}

#[derive(Default)]
struct Open {
    streams: usize,
    orgs: HashMap<OrgId, OrgStreams>,
}

struct OrgStreams {
    streams: usize,
    told: broadcast::Sender<Arc<Told>>,
    /// Whether the reader knows from which event on it reads.
    has_begun: watch::Receiver<bool>,
}

/// An event, as whoever may read everything in its org is told it.
#[derive(Debug)]
pub struct Told {
    pub event: Event,
    org: OrgId,
    /// The session of the call or batch that it is about.
    pub session: Option<SessionId>,
    /// The status that is told in place of the true one.
    instead: Option<Status>,
    /// Written once there is somebody to tell.
    frames: OnceCell<Vec<Frame>>,
}

impl Told {
    pub fn new(org: &OrgId, event: Event) -> Arc<Self> {
        Arc::new(Self { org: org.clone(), session: session_of(&event), instead: None, frames: OnceCell::new(), event })
    }

    /// The same event for a reader who is told another status.
    pub fn with_status(&self, status: Status) -> Arc<Self> {
        let (org, session) = (self.org.clone(), self.session.clone());
        Arc::new(Self { org, session, instead: Some(status), frames: OnceCell::new(), event: self.event.clone() })
    }

    /// Its parts, as they are sent. A large event is written where nobody else waits.
    pub(crate) async fn frames(&self) -> &[Frame] {
        let write = || async {
            if self.event.body.len() <= LIGHT_BYTES_MAX {
                return frames(&self.org, &self.event, self.instead);
            }
            let (org, event, instead) = (self.org.clone(), self.event.clone(), self.instead);
            heavy::compute(move || frames(&org, &event, instead)).await
        };
        self.frames.get_or_init(write).await
    }
}

/// Why a stream was not opened.
#[derive(Debug)]
pub enum NotOpened {
    /// So many are open already.
    TooMany {
        streams_max: usize,
    },
    /// The cursor is after the newest event.
    Ahead,
    /// The org no longer keeps the events after the cursor, up to this one.
    Forgotten {
        oldest: i64,
    },
    Store(store::Error),
}

impl From<store::Error> for NotOpened {
    fn from(error: store::Error) -> Self {
        Self::Store(error)
    }
}

/// The place of a stream. Dropping it gives the place free.
struct Place {
    streams: Streams,
    org: OrgId,
    _task: TaskTrackerToken,
}

/// What a stream joins its org with.
struct Joined {
    place: Place,
    told: broadcast::Receiver<Arc<Told>>,
    has_begun: watch::Receiver<bool>,
}

impl Streams {
    pub fn new(feed: Arc<dyn EventFeed>, bounds: Bounds) -> Self {
        Self(Arc::new(Inner {
            feed,
            bounds,
            open: Mutex::default(),
            strangers: Strangers::default(),
            closing: CancellationToken::new(),
            tasks: TaskTracker::new(),
        }))
    }

    /// Opens a stream of everything in the org after a cursor; without one, of what comes from now on.
    pub async fn subscribe(&self, org: &OrgId, after: Option<Cursor>) -> Result<Subscription, NotOpened> {
        let Joined { place, told, mut has_begun } = self.join(org)?;
        let opening = async {
            // The reader hands on what is committed after it has begun. What is committed before that, a stream reads by itself.
            // If the reader has ended instead, so has this stream, with its first event.
            drop(has_begun.wait_for(|has_begun| *has_begun).await);
            let newest = self.0.feed.newest_event(org).await?;
            let oldest = if after.is_some_and(|after| after.seq > 0) { self.0.feed.oldest_event(org).await? } else { 0 };
            Ok::<_, store::Error>((newest, oldest))
        };
        let limit = Duration::from_secs(STREAM_OPEN_SECONDS);
        let away = || store::Error::Unavailable { message: format!("no event was read within {STREAM_OPEN_SECONDS} seconds") };
        let (newest, oldest) = tokio::time::timeout(limit, opening).await.map_err(|_elapsed| away())??;
        match after {
            Some(after) if after.seq > newest => Err(NotOpened::Ahead),
            Some(after) if after.seq > 0 && after.seq + 1 < oldest => Err(NotOpened::Forgotten { oldest }),
            Some(after) => Ok(Subscription::new(place, told, after)),
            None => Ok(Subscription::new(place, told, Cursor::after(newest))),
        }
    }

    /// A place for somebody who has not said yet who they are.
    pub fn stranger(&self, address: IpAddr) -> Result<Stranger, NotOpened> {
        self.0.strangers.take(address)
    }

    /// Ends every stream, and returns when all have ended.
    pub async fn close(&self) {
        self.0.closing.cancel();
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }

    fn join(&self, org: &OrgId) -> Result<Joined, NotOpened> {
        let bounds = &self.0.bounds;
        let mut open = self.0.open.lock();
        let of_org = open.orgs.get(org).map_or(0, |of_org| of_org.streams);
        for (streams, streams_max) in [(open.streams, bounds.streams_max), (of_org, bounds.streams_per_org_max)] {
            if streams >= streams_max {
                return Err(NotOpened::TooMany { streams_max });
            }
        }
        open.streams += 1;
        let of_org = open.orgs.entry(org.clone()).or_insert_with(|| self.begin(org));
        of_org.streams += 1;
        metrics::gauge!("countersign_streams").increment(1.0);
        let place = Place { streams: self.clone(), org: org.clone(), _task: self.0.tasks.token() };
        Ok(Joined { place, told: of_org.told.subscribe(), has_begun: of_org.has_begun.clone() })
    }

    fn begin(&self, org: &OrgId) -> OrgStreams {
        let (told, _) = broadcast::channel(self.0.bounds.events_kept);
        let (begins, has_begun) = watch::channel(false);
        tokio::spawn(self.clone().read(org.clone(), told.clone(), begins));
        OrgStreams { streams: 0, told, has_begun }
    }

    /// Runs as long as the org has an open stream.
    async fn read(self, org: OrgId, told: broadcast::Sender<Arc<Told>>, begins: watch::Sender<bool>) {
        let mut seen = None;
        while !self.is_over(&org) {
            let read = match seen {
                None => self.0.feed.newest_event(&org).await.inspect(|_| {
                    begins.send_replace(true);
                }),
                Some(seen) => {
                    tokio::select! {
                        () = self.0.feed.wait_for_event(&org, seen) => {}
                        () = self.0.closing.cancelled() => continue,
                    }
                    self.0.feed.list_events_after(&org, seen, EVENTS_READ).await.map(|events| {
                        let last = events.last().map_or(seen, |last| last.seq);
                        for event in events {
                            // It fails if nobody listens right now, which is fine.
                            let _unheard = told.send(Told::new(&org, event));
                        }
                        last
                    })
                }
            };
            if let Err(error) = &read {
                tracing::warn!(%error, "events cannot be read; streams are silent until they can");
            }
            tokio::time::sleep(if read.is_ok() { PAUSE } else { STORE_PAUSE }).await;
            seen = read.ok().or(seen);
        }
    }

    fn is_over(&self, org: &OrgId) -> bool {
        let mut open = self.0.open.lock();
        let is_over = self.0.closing.is_cancelled() || open.orgs.get(org).is_none_or(|of_org| of_org.streams == 0);
        if is_over {
            open.orgs.remove(org);
        }
        is_over
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.streams.0.open.lock();
        open.streams -= 1;
        if let Some(of_org) = open.orgs.get_mut(&self.org) {
            // At the end of the server its reader is gone already, and one that joined later has another count.
            of_org.streams = of_org.streams.saturating_sub(1);
        }
        metrics::gauge!("countersign_streams").decrement(1.0);
    }
}
