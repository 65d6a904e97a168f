//! The live stream: who may open one, and what each principal is told on it.

use super::{Error, must_read, must_read_session, sight};
use crate::App;
use crate::limits::{EVENTS_LOOKED_AT, EVENTS_PAGE_BYTES_MAX};
use api::stream::Cursor;
use countersign_core::ports::events::{ACTION_EXECUTED, Event};
use countersign_core::ports::{EventFeed, Invocations};
use countersign_core::principal::Permission;
use countersign_core::{InvocationId, Principal, SessionId, Status};
use pipeline::told_to;
use std::sync::Arc;
pub use stream::{NotOpened, Subscription, Told};

/// Events read at a time.
const EVENTS_READ: u32 = 256;

/// Which events to list; by default all.
#[derive(Clone, Debug, Default)]
pub struct EventFilter {
    /// A whole name, or its first word.
    pub name: Option<String>,
    pub subject: Option<String>,
}

impl EventFilter {
    fn fits(&self, event: &Event) -> bool {
        let is_named = |name: &String| event.name.strip_prefix(name.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        self.name.as_ref().is_none_or(is_named) && self.subject.as_ref().is_none_or(|subject| *subject == event.key)
    }
}

/// Events before a position, newest first, as whoever may read the org is told them; and the position before which to read on.
pub async fn list(
    app: &App,
    by: &Principal,
    filter: &EventFilter,
    before: Option<i64>,
    limit: u32,
) -> Result<(Vec<Arc<Told>>, Option<i64>), Error> {
    must_read(by)?;
    let newest = app.store().newest_event(&by.org).await?;
    let mut before = before.map_or(newest + 1, |before| before.min(newest + 1));
    let last = (before - i64::from(EVENTS_LOOKED_AT)).max(1);
    let (mut found, mut bytes) = (Vec::new(), 0);
    while before > last {
        // Positions have no gaps, but the first events may be kept no longer.
        let after = (before - 1 - i64::from(EVENTS_READ)).max(0);
        let mut events = app.store().list_events_after(&by.org, after, EVENTS_READ).await?;
        events.retain(|event| event.seq < before);
        if events.is_empty() {
            return Ok((found, None));
        }
        for event in events.into_iter().rev() {
            before = event.seq;
            if filter.fits(&event)
                && let Some(told) = told(app, by, &Told::new(&by.org, event)).await?
            {
                bytes += told.event.body.len();
                found.push(told);
                if found.len() >= limit as usize || bytes >= EVENTS_PAGE_BYTES_MAX {
                    return Ok((found, (before > 1).then_some(before)));
                }
            }
        }
    }
    Ok((found, (before > 1).then_some(before)))
}

/// Events after a position, the oldest first, as whoever may read the org is told them; and the position after which to read on.
pub async fn list_oldest(
    app: &App,
    by: &Principal,
    filter: &EventFilter,
    after: i64,
    limit: u32,
) -> Result<(Vec<Arc<Told>>, Option<i64>), Error> {
    must_read(by)?;
    let (mut found, mut bytes, mut after, mut looked_at) = (Vec::new(), 0, after, 0);
    while looked_at < EVENTS_LOOKED_AT {
        let events = app.store().list_events_after(&by.org, after, EVENTS_READ).await?;
        let is_last = events.len() < EVENTS_READ as usize;
        looked_at += EVENTS_READ;
        for event in events {
            after = event.seq;
            if filter.fits(&event)
                && let Some(told) = told(app, by, &Told::new(&by.org, event)).await?
            {
                bytes += told.event.body.len();
                found.push(told);
                if found.len() >= limit as usize || bytes >= EVENTS_PAGE_BYTES_MAX {
                    return Ok((found, Some(after)));
                }
            }
        }
        if is_last {
            return Ok((found, None));
        }
    }
    Ok((found, Some(after)))
}

/// What of the org's events a principal sees, in the spaces that exist for them.
enum Sight<'a> {
    Everything,
    /// The calls and batches of this session.
    Session(&'a SessionId),
}

/// Opens a stream for whoever may read the org, or a session of their own.
pub async fn open(app: &App, by: &Principal, after: Option<Cursor>) -> Result<Subscription, Error> {
    sight_of(by)?;
    Ok(app.streams().subscribe(&by.org, after).await?)
}

/// The event as this principal is told it; `None` if it is not for them.
pub async fn told(app: &App, by: &Principal, told: &Arc<Told>) -> Result<Option<Arc<Told>>, Error> {
    let (hidden, event) = (sight::hidden(app, by).await?, &told.event);
    let is_hidden = match &event.space {
        // The ids in it are not looked up: a stranger may have written thousands of them.
        Some(space) => hidden.contains(space),
        None if event.origin.is_some() => false,
        None => app.store().is_event_about(&by.org, &hidden, event, Some(&by.id)).await?,
    };
    if is_hidden {
        return Ok(None);
    }
    let session = match sight_of(by)? {
        Sight::Everything => return Ok(Some(Arc::clone(told))),
        Sight::Session(session) => session,
    };
    if told.session.as_ref() != Some(session) {
        return Ok(None);
    }
    if ![Status::Quarantined.event_name(), ACTION_EXECUTED].contains(&&*told.event.name) {
        return Ok(Some(Arc::clone(told)));
    }
    // What an agent is not told of the call, its event must not tell either.
    let Ok(id) = InvocationId::parse(&told.event.key) else { return Ok(None) };
    let Some(found) = app.store().find_invocation(&by.org, &id).await? else { return Ok(None) };
    let is_denied = found.status == Status::Quarantined && told_to(by, found).status == Status::Denied;
    Ok(Some(if is_denied { told.with_status(Status::Denied) } else { Arc::clone(told) }))
}

fn sight_of(by: &Principal) -> Result<Sight<'_>, Error> {
    if by.may(Permission::Read) {
        return Ok(Sight::Everything);
    }
    must_read_session(by)?;
    let none = pipeline::Error::Forbidden { permission: Permission::Read };
    by.session.as_ref().map(Sight::Session).ok_or(none.into())
}

impl From<NotOpened> for Error {
    fn from(why: NotOpened) -> Self {
        match why {
            NotOpened::TooMany { streams_max } => Self::TooManyStreams { streams_max },
            NotOpened::Ahead => Self::invalid("the cursor is after the newest event: it is of another org, or of another database"),
            NotOpened::Forgotten { oldest } => {
                let message =
                    format!("the events after the cursor are no longer kept; the oldest is event {oldest}: `after=0` begins there");
                Self::invalid(message)
            }
            NotOpened::Store(error) => error.into(),
        }
    }
}
