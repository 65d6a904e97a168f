//! Dead letters: what was given up, in one list. Whoever reads the org sees them; whoever manages policy asks for an event or a notice once
//! more, or drops it. A call is made again by whoever may make it: it is a new call, and goes the way of every call.

use super::{Error, channels, invocations, must, must_read, sight};
use crate::App;
use api::event::RetryLetterRequest;
use countersign_core::keyring::Keyring;
use countersign_core::ports::bus::LetterKind;
use countersign_core::ports::{Invocations, Sessions};
use countersign_core::principal::Permission;
use countersign_core::{
    Call, ChannelId, DeadLetterId, DeliveryId, Invocation, InvocationId, Principal, PrincipalId, SessionId, Status, json,
};
use pipeline::Request;
use store::{DeadLetter, Page, PageRequest};

/// Dead letters, the newest first: of one kind, or of all. A page may have fewer rows than its limit.
pub async fn list(app: &App, by: &Principal, kind: Option<LetterKind>, request: &PageRequest) -> Result<Page<DeadLetter>, Error> {
    must_read(by)?;
    let page = app.store().list_dead_letters(&by.org, kind, request).await?;
    Ok(Page { items: sight::seen_of(app, by, page.items, about).await?, next: page.next })
}

pub async fn find(app: &App, by: &Principal, id: &str) -> Result<DeadLetter, Error> {
    must_read(by)?;
    let missing = || Error::not_found("dead letter", id);
    if id.contains('\0') {
        return Err(missing());
    }
    let found = app.store().find_dead_letter(&by.org, id).await?.ok_or_else(missing)?;
    sight::seen_of(app, by, vec![found], about).await?.pop().ok_or_else(missing)
}

/// The ids that a letter is about.
fn about(letter: &DeadLetter) -> String {
    match letter.kind {
        // An event says which space it belongs to, whatever is in it; of our own that do not, their ids do.
        LetterKind::Event => match letter.event().map(|dead| dead.event) {
            Some(event) if event.space.is_some() || event.origin.is_some() => {
                event.space.map(|space| space.to_string()).unwrap_or_default()
            }
            Some(_) | None => letter.content.clone(),
        },
        LetterKind::Delivery => format!("{} {}", letter.place, letter.content),
        LetterKind::Invocation => letter.id.clone(),
    }
}

/// The name of the channel that gave up a notice; of other letters, who gave them up.
pub async fn place_of(app: &App, by: &Principal, letter: &DeadLetter) -> Result<String, Error> {
    match (letter.kind, ChannelId::parse(&letter.place)) {
        (LetterKind::Delivery, Ok(channel)) => {
            let found = app.store().find_channel(&by.org, &channel).await?;
            Ok(found.map_or_else(|| letter.place.clone(), |channel| channel.name))
        }
        (LetterKind::Delivery | LetterKind::Event | LetterKind::Invocation, _) => Ok(letter.place.clone()),
    }
}

/// Asks for a letter once more. Returns its kind, and the new call, if it was one.
pub async fn retry(
    app: &App,
    by: &Principal,
    id: &str,
    request: RetryLetterRequest,
    trace_id: String,
) -> Result<(LetterKind, Option<Invocation>), Error> {
    let letter = find(app, by, id).await?;
    match letter.kind {
        LetterKind::Event => {
            must(by, Permission::ManagePolicy)?;
            let id = event_letter(&letter.id)?;
            if app.store().retry_dead_events(&by.org, None, Some(&id), &by.id).await? == 0 {
                return Err(Error::invalid(format!("there is no group `{}` any more: nobody would get the event", letter.place)));
            }
        }
        LetterKind::Delivery => {
            channels::retry(app, by, &letter.place, Some(&letter.id)).await?;
        }
        LetterKind::Invocation => return Ok((letter.kind, Some(call_again(app, by, &letter.id, request, trace_id).await?))),
    }
    Ok((letter.kind, None))
}

/// Drops a letter: nobody is asked for it again.
pub async fn discard(app: &App, by: &Principal, id: &str) -> Result<LetterKind, Error> {
    must(by, Permission::ManagePolicy)?;
    let letter = find(app, by, id).await?;
    let is_gone = match letter.kind {
        LetterKind::Event => app.store().drop_dead_event(&by.org, &event_letter(&letter.id)?).await?,
        LetterKind::Delivery => {
            DeliveryId::parse(&letter.id).map_err(|_| Error::not_found("dead letter", id))?;
            channels::drop_letters(app, by, &letter.place, Some(&letter.id)).await? == 1
        }
        LetterKind::Invocation => app.store().answer_failure(&by.org, &invocations::parse(&letter.id)?, None, &by.id).await?,
    };
    if is_gone { Ok(letter.kind) } else { Err(Error::not_found("dead letter", id)) }
}

fn event_letter(id: &str) -> Result<DeadLetterId, Error> {
    DeadLetterId::parse(id).map_err(|_| Error::not_found("dead letter", id))
}

/// Makes a failed call again, as a new call of whoever asks.
async fn call_again(app: &App, by: &Principal, id: &str, request: RetryLetterRequest, trace_id: String) -> Result<Invocation, Error> {
    let failed: InvocationId = invocations::parse(id)?;
    let found = app.store().find_invocation(&by.org, &failed).await?.ok_or_else(|| Error::not_found("dead letter", id))?;
    let params = match request.params {
        Some(params) => params,
        None if is_whole(app, &found).await? => found.call.params.clone(),
        None => return Err(Error::invalid("the params of this call were not kept whole: send them as `params`")),
    };
    let session = match &request.session {
        Some(session) => SessionId::parse(session).map_err(|_| Error::UnknownSession)?,
        None => found.session.clone(),
    };
    if request.session.is_none() && app.store().find_session(&by.org, &session).await?.is_none_or(|session| session.ended_at.is_some()) {
        return Err(Error::invalid("the session of this call has ended: name one of yours as `session`"));
    }
    let mut call = Call { params, claimed: None, older: None, ..found.call };
    if let PrincipalId::Automation(_) = found.principal {
        // They are what its run had left of attempts and of time.
        (call.bounds.retries_max, call.bounds.timeout_ms) = (None, None);
    }
    // Two who ask at once get one call.
    let idempotency_key = Some(format!("dead-letter:{failed}"));
    let request = Request { idempotency_key, trace_id, ..Request::new(by.clone(), session, found.action.to_string(), call) };
    let outcome = app.pipeline().invoke(request).await?;
    let made = outcome.invocation().clone();
    // A call that may not be made answers nothing: the letter stays for somebody who may.
    if made.status != Status::Denied {
        app.store().answer_failure(&by.org, &failed, Some(&made.id), &by.id).await?;
    }
    Ok(made)
}

/// Whether the params that are kept of a call are those that its source got: nothing was redacted, and nothing cut off.
async fn is_whole(app: &App, call: &Invocation) -> Result<bool, Error> {
    if call.redacted.is_some() {
        return Ok(false);
    }
    let key = app.store().space_key(&call.org, &call.space).await?;
    let canonical = json::canonical(&call.call.params).ok();
    Ok(canonical.is_some_and(|canonical| key.digest("params", canonical.as_bytes()) == call.digests.params))
}
