//! Callers who stay until the result of their call comes. A caller that goes before anything was delivered has left: what it asked for
//! stays as it is, runs no further than it had begun, and is handed once to the same call when it is asked for again (`walk/join.rs`).
//! A call that is on a line is told by its row. An error that says something else, such as that the store is away, is never its end: the
//! caller is kept.

use crate::error::Error;
use crate::limits::LINES_CLEARED_MS;
use crate::line::{Kept, Line, LineEnd, OnLine};
use crate::pipeline::Pipeline;
use crate::request::{Outcome, Request};
use crate::told::outcome_told_to;
use crate::walk::admit::Entrance;
use crate::walk::ending::{Ending, STORE_AWAY_MAX, is_away};
use crate::walk::join::until_known;
use crate::walk::weight::Weight;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use countersign_core::invocation::Failure;
use countersign_core::ledger::Row;
use countersign_core::{
    ActionId, Digest, Invocation, InvocationId, OrgId, Principal, PrincipalId, SessionId, SpaceId, Status, Timestamp, json,
};
use durable::Pace;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;

/// The sealed context of a ticket.
const TICKET: &str = "ticket";

/// The request that a ticket was given for: it is good for nothing else.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    pub principal: &'a Principal,
    pub session: &'a SessionId,
    /// The door's name for what was asked, such as `tools/call files.write_text`.
    pub method: &'a str,
    pub params: &'a Value,
}

/// What a ticket says, sealed under the key of the call's space.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ticket {
    nonce: Digest,
    principal: String,
    session: String,
    method: String,
    params: String,
    expires_at: Timestamp,
}

impl Pipeline {
    /// A line for one call.
    pub fn open_line(&self) -> Line {
        Line::new(Digest::new(self.walk.random_bytes()).to_string())
    }

    /// Makes the call of a caller who waits on a line.
    pub(crate) async fn walk_on(&self, id: InvocationId, request: Request, line: Line) -> Result<Outcome, Error> {
        let principal = request.principal.clone();
        let walk = self.walk.clone();
        self.watch_line(principal.org.clone(), line.clone());
        let on_line = line.clone();
        let weight = Weight::of(&request.call.params);
        let walked = self.walk.survive(weight.run(Box::pin(async move {
            let _walked = on_line.walked().clone().drop_guard();
            let admitted = walk.admit(id, request, Entrance::Fresh).await?;
            let outcome = walk.walk(admitted).await?;
            note_doubt(&on_line, &outcome);
            Ok(outcome)
        })));
        match walked.await {
            Ok(outcome) => Ok(outcome_told_to(&principal, outcome)),
            Err(error) => self.told_by_row(&line, &principal, error).await,
        }
    }

    /// What is to be told of a call whose walk broke off: if the call is on the line, what its row says, once that can be read. It may go on
    /// in the background, or be taken up by a sweep.
    async fn told_by_row(&self, line: &Line, principal: &Principal, error: Error) -> Result<Outcome, Error> {
        let Some(invocation) = line.invocation() else { return Err(error) };
        tracing::warn!(%invocation, %error, "its walk broke off, and its caller is kept");
        Pace::for_at_most(STORE_AWAY_MAX).retry(is_away, || self.standing_on(line, principal, &invocation)).await
    }

    /// The call on the line as it is now.
    pub(crate) async fn standing_on(&self, line: &Line, principal: &Principal, invocation: &InvocationId) -> Result<Outcome, Error> {
        let outcome = Outcome::of(Box::new(self.watch(&principal.org, invocation, Duration::ZERO).await?));
        note_doubt(line, &outcome);
        Ok(outcome_told_to(principal, outcome))
    }

    /// Whether the caller of a call has left and has not asked for it again.
    pub async fn is_left_by_caller(&self, invocation: &Invocation) -> Result<bool, Error> {
        Ok(self.ledger().has_left(&invocation.org, &invocation.id).await?)
    }

    /// Gives the caller on the line a ticket with which it goes on with this call, once. Until then it has not left.
    pub async fn give_ticket(&self, line: &Line, asked: Asked<'_>, invocation: &Invocation) -> Result<String, Error> {
        let missing = || Error::UnknownInvocation { invocation: invocation.id.to_string() };
        let stored = self.walk.stored_line(&invocation.org, &invocation.id, line.id()).await?.ok_or_else(missing)?;
        let nonce = Digest::new(self.walk.random_bytes());
        let ticket = Ticket {
            nonce,
            principal: asked.principal.id.to_string(),
            session: asked.session.to_string(),
            method: asked.method.to_owned(),
            params: digest_of(asked.params)?,
            expires_at: self.walk.now().plus_seconds(stored.kept_seconds),
        };
        let plain = serde_json::to_vec(&ticket).map_err(|error| Error::Internal { message: error.to_string() })?;
        let key = self.walk.inner.keyring.space_key(&invocation.org, &invocation.space).await?;
        until_known(|| self.ledger().give_ticket(stored.clone(), nonce)).await?;
        Ok(URL_SAFE_NO_PAD.encode(key.seal(TICKET, &plain)))
    }

    /// The call that a ticket is for, which goes on with the caller on this line. A ticket is used once, by whom it was given to, for the
    /// request it was given for.
    pub async fn redeem_ticket(&self, line: &Line, asked: Asked<'_>, text: &str) -> Result<Outcome, Error> {
        let org = &asked.principal.org;
        let session = self.ledger().find_session(org, asked.session).await?.ok_or(Error::TicketInvalid)?;
        let key = self.walk.inner.keyring.space_key(org, &session.space).await?;
        let plain = URL_SAFE_NO_PAD.decode(text).ok().and_then(|sealed| key.open(TICKET, &sealed).ok()).ok_or(Error::TicketInvalid)?;
        let ticket: Ticket = serde_json::from_slice(&plain).map_err(|_| Error::TicketInvalid)?;
        let is_for_this = ticket.principal == asked.principal.id.to_string()
            && ticket.session == asked.session.as_str()
            && ticket.method == asked.method
            && ticket.params == digest_of(asked.params)?
            && ticket.expires_at > self.ledger().now().await?;
        if !is_for_this {
            return Err(Error::TicketInvalid);
        }
        self.watch_line(org.clone(), line.clone());
        let (walk, org, on_line) = (self.walk.clone(), org.clone(), line.clone());
        let taken = self.walk.survive(Box::pin(async move {
            let _walked = on_line.walked().clone().drop_guard();
            let taken = until_known(|| walk.ledger().take_ticket(&org, ticket.nonce, on_line.id())).await?;
            let id = taken.ok_or(Error::TicketInvalid)?;
            on_line.carries(&id, Kept::Held);
            if let Some(stored) = walk.stored_line(&org, &id, on_line.id()).await? {
                walk.inner.lines.add(&on_line, stored.identity);
            }
            Ok(id)
        }));
        match taken.await {
            Ok(id) => self.standing_on(line, asked.principal, &id).await,
            Err(error) => self.told_by_row(line, asked.principal, error).await,
        }
    }

    /// Cancels a pending call of this caller. A call that is no longer pending stays as it is.
    pub async fn cancel_call(&self, org: &OrgId, caller: &PrincipalId, invocation: &InvocationId) -> Result<Invocation, Error> {
        let unknown = || Error::UnknownInvocation { invocation: invocation.to_string() };
        let row = self.ledger().find_invocation(org, invocation).await?.ok_or_else(unknown)?;
        if row.principal != *caller {
            return Err(unknown());
        }
        if row.status != Status::Pending || row.batch.is_some() {
            return Ok(row);
        }
        let failure = Failure { code: "cancelled_by_caller".into(), message: "its caller cancelled it; nothing was done".into() };
        match self.walk.record_ending(Ending::unexecuted(row, Status::Cancelled, None, failure, Row::From(Status::Pending))).await {
            Ok(cancelled) => Ok(cancelled),
            // It was answered, or has ended, meanwhile.
            Err(Error::Conflict { .. }) => self.ledger().find_invocation(org, invocation).await?.ok_or_else(unknown),
            Err(error) => Err(error),
        }
    }

    /// The call that has begun, or waits for a person, under this key.
    pub async fn begun_under(&self, org: &OrgId, space: &SpaceId, action: &str, key: &str) -> Result<Option<InvocationId>, Error> {
        let Ok(action) = ActionId::parse(action) else { return Ok(None) };
        let reserved = self.ledger().find_reservation(org, space, &action, key).await?;
        Ok(reserved.map(|reserved| reserved.invocation))
    }

    /// Notes how the line ended, once that is known.
    fn watch_line(&self, org: OrgId, line: Line) {
        let pipeline = self.clone();
        self.walk.spawn(async move {
            let end = line.ended().await;
            // It may still begin, or become pending.
            if let Some(call) = line.called().await {
                let noted = Pace::for_at_most(STORE_AWAY_MAX).retry(Result::is_err, || pipeline.note_end(&org, &line, &call, end)).await;
                if let Err(error) = noted {
                    tracing::error!(%error, invocation = %call.invocation, "how the line of a caller ended could not be noted");
                }
            }
            pipeline.walk.inner.lines.remove(&line);
        });
    }

    async fn note_end(&self, org: &OrgId, line: &Line, call: &OnLine, end: LineEnd) -> Result<(), Error> {
        match end {
            LineEnd::Delivered if !call.is_open_ended => {
                self.walk.inner.lines.remove(line);
                match call.kept {
                    Kept::Nowhere => Ok(()),
                    Kept::Held | Kept::Begun => self.clear_line(org, line, call).await,
                }
            }
            LineEnd::Delivered | LineEnd::Gone => self.walk.note_left(org, line, call).await,
        }
    }

    /// Removes the row of a line whose answer was delivered. That is not urgent: until then the row says that its caller is there. So all
    /// that were delivered meanwhile are removed at the same moment, and the store commits them together.
    async fn clear_line(&self, org: &OrgId, line: &Line, call: &OnLine) -> Result<(), Error> {
        let past_ms = u64::from(self.walk.inner.began.elapsed().subsec_millis()) % LINES_CLEARED_MS;
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(LINES_CLEARED_MS - past_ms)) => {}
            () = self.stopping() => {}
        }
        Ok(self.ledger().hang_up(org, &call.invocation, line.id()).await?)
    }
}

/// A caller that was told of a doubt and asks again is told of the same call, and starts no second one.
pub(crate) fn note_doubt(line: &Line, outcome: &Outcome) {
    match outcome {
        Outcome::InDoubt(_) => line.leave_open_ended(),
        Outcome::Ended { .. } | Outcome::Replayed(_) | Outcome::Pending(_) => {}
    }
}

fn digest_of(params: &Value) -> Result<String, Error> {
    let canonical = json::canonical(params).map_err(|error| Error::Internal { message: error.to_string() })?;
    Ok(policy::digest::of_text(&canonical).to_string())
}
