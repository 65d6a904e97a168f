//! The live stream: who may open one, and what each principal is told on it.

use super::{Error, must_read_session, sight, sources};
use crate::App;
use crate::stream::{NotOpened, Subscription, Told};
use api::stream::Cursor;
use countersign_core::ports::Invocations;
use countersign_core::principal::Permission;
use countersign_core::{InvocationId, Principal, SessionId, Status};
use pipeline::told_to;
use std::sync::Arc;

/// What of the org's events a principal sees, in the spaces that exist for them.
enum Sight<'a> {
    Everything,
    /// The calls and batches of this session.
    Session(&'a SessionId),
}

/// Opens a stream for whoever may read the org, or a session of their own.
pub(crate) async fn open(app: &App, by: &Principal, after: Option<Cursor>) -> Result<Subscription, Error> {
    sight_of(by)?;
    Ok(app.streams().subscribe(&by.org, after).await?)
}

/// The event as this principal is told it; `None` if it is not for them.
pub(crate) async fn told(app: &App, by: &Principal, told: &Arc<Told>) -> Result<Option<Arc<Told>>, Error> {
    let hidden = sight::hidden(app, by).await?;
    if !hidden.is_empty() {
        let event = &told.event;
        let about = format!("{} {}", event.key, event.body);
        if sight::is_about(app, &by.org, &hidden, &about).await? || sources::is_event_of_hidden(app, &by.org, &hidden, event).await? {
            return Ok(None);
        }
    }
    let session = match sight_of(by)? {
        Sight::Everything => return Ok(Some(Arc::clone(told))),
        Sight::Session(session) => session,
    };
    if told.session.as_ref() != Some(session) {
        return Ok(None);
    }
    if told.event.name != Status::Quarantined.event_name() {
        return Ok(Some(Arc::clone(told)));
    }
    // What an agent is not told of the call, its event must not tell either.
    let Ok(id) = InvocationId::parse(&told.event.key) else { return Ok(None) };
    let Some(found) = app.store().find_invocation(&by.org, &id).await? else { return Ok(None) };
    let is_denied = told_to(by, found).status == Status::Denied;
    Ok(Some(if is_denied { told.with_status(&by.org, Status::Denied) } else { Arc::clone(told) }))
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
