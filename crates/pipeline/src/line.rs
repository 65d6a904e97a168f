//! The line to a caller who stays until the result of its call comes. The door says what happens on it: an answer was handed over, the
//! answer was delivered, or the caller has gone. What that means for the call is in `callers.rs`.

use crate::limits::LINE_YOUNG_MS;
use countersign_core::{Digest, InvocationId};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OnceCell, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// One caller's line for one call. Clones are the same line.
#[derive(Clone, Debug)]
pub struct Line(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    id: String,
    opened_at: Instant,
    state: watch::Sender<State>,
    call: watch::Sender<Option<OnLine>>,
    /// The digest of what makes two calls the same, once it is known what was asked for.
    identity: Mutex<Option<Digest>>,
    /// Cancelled when the walk of the call has ended.
    walked: CancellationToken,
    /// Set when the store knows how the line ended.
    noted: OnceCell<()>,
}

/// The call that is on the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OnLine {
    pub(crate) invocation: InvocationId,
    pub(crate) kept: Kept,
    /// What was delivered is no end: whoever asks again must not start a second call.
    pub(crate) is_open_ended: bool,
}

/// Whether the store has a row for the line, which goes when something was delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// Yes: the call was held for a person, or is one that an earlier caller left.
    Held,
    /// Yes: the call began at once, and writes.
    Begun,
    /// No: it is a read that began at once. If its caller leaves, it simply ends.
    Nowhere,
}

/// What has happened on a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// An answer is on its way to the caller.
    Handed,
    Delivered,
    Gone,
}

/// How a line ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineEnd {
    Delivered,
    Gone,
}

impl Line {
    /// A line of which no other has the id.
    pub fn new(id: String) -> Self {
        Self(Arc::new(Inner {
            id,
            opened_at: Instant::now(),
            state: watch::Sender::new(State::Open),
            call: watch::Sender::new(None),
            identity: Mutex::default(),
            walked: CancellationToken::new(),
            noted: OnceCell::new(),
        }))
    }

    /// An answer was handed to the connection. If the connection ends well after this, the answer was delivered.
    pub fn hand(&self) {
        self.change(|state| if state == State::Open { State::Handed } else { state });
    }

    /// Whether an answer is on its way to the caller. What the connection says from then on is, or follows, that answer.
    pub fn is_handed(&self) -> bool {
        *self.0.state.borrow() == State::Handed
    }

    /// The connection has ended by itself.
    pub fn end(&self) {
        self.change(|state| match state {
            State::Handed | State::Delivered => State::Delivered,
            State::Open | State::Gone => State::Gone,
        });
    }

    /// The caller has gone, or is not waited for any longer.
    pub fn cut(&self) {
        self.change(|state| if state == State::Delivered { state } else { State::Gone });
    }

    pub fn is_gone(&self) -> bool {
        *self.0.state.borrow() == State::Gone
    }

    /// Returns when the caller has gone.
    pub async fn gone(&self) {
        let mut states = self.0.state.subscribe();
        // The sender lives as long as this line, so waiting cannot fail.
        let _is_gone = states.wait_for(|state| *state == State::Gone).await.is_ok();
    }

    /// The call on the line, once it has begun or is pending.
    pub fn invocation(&self) -> Option<InvocationId> {
        self.0.call.borrow().as_ref().map(|call| call.invocation.clone())
    }

    pub(crate) fn id(&self) -> &str {
        &self.0.id
    }

    /// Returns when something was delivered, or when the caller has gone.
    pub(crate) async fn ended(&self) -> LineEnd {
        let mut states = self.0.state.subscribe();
        match states.wait_for(|state| matches!(state, State::Delivered | State::Gone)).await.map(|state| *state) {
            Ok(State::Delivered) => LineEnd::Delivered,
            Ok(State::Open | State::Handed | State::Gone) | Err(_) => LineEnd::Gone,
        }
    }

    /// Whether the caller may be about to go without having been noticed: it is there, and waits for a person or has waited for a while.
    pub(crate) fn may_be_leaving(&self) -> bool {
        let is_there = match *self.0.state.borrow() {
            State::Open | State::Handed => true,
            State::Delivered | State::Gone => false,
        };
        let is_held = || self.0.call.borrow().as_ref().is_some_and(|call| call.kept == Kept::Held);
        is_there && (self.0.opened_at.elapsed() >= Duration::from_millis(LINE_YOUNG_MS) || is_held())
    }

    /// Says which call is on the line.
    pub(crate) fn carries(&self, invocation: &InvocationId, kept: Kept) {
        self.0.call.send_replace(Some(OnLine { invocation: invocation.clone(), kept, is_open_ended: false }));
    }

    /// The call that was on the line has ended without its caller: there is none on it now.
    pub(crate) fn carries_nothing(&self) {
        self.0.call.send_replace(None);
    }

    pub(crate) fn leave_open_ended(&self) {
        self.0.call.send_modify(|call| {
            if let Some(call) = call {
                call.is_open_ended = true;
            }
        });
    }

    /// The call on the line, as soon as it has begun or is pending; `None` when its walk has ended without that.
    pub(crate) async fn called(&self) -> Option<OnLine> {
        let mut calls = self.0.call.subscribe();
        let begins = async { calls.wait_for(Option::is_some).await.is_ok() };
        tokio::select! {
            _begun = begins => {}
            () = self.0.walked.cancelled() => {}
        }
        self.0.call.borrow().clone()
    }

    pub(crate) fn identity(&self) -> Option<Digest> {
        *self.0.identity.lock()
    }

    /// Says what makes a call the same as the one on this line.
    pub(crate) fn asks_for(&self, identity: Digest) {
        *self.0.identity.lock() = Some(identity);
    }

    pub(crate) fn walked(&self) -> &CancellationToken {
        &self.0.walked
    }

    /// Runs `note`, which tells the store how the line ended, unless that was done. Several may try at once: one of them does it.
    pub(crate) async fn noted<E, F: Future<Output = Result<(), E>>>(&self, note: impl FnOnce() -> F) -> Result<(), E> {
        self.0.noted.get_or_try_init(note).await.map(|_| ())
    }

    fn change(&self, next: impl Fn(State) -> State) {
        self.0.state.send_if_modified(|state| {
            let now = next(*state);
            let is_changed = now != *state;
            *state = now;
            is_changed
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_what_was_handed_over_is_delivered_and_who_has_gone_stays_gone() {
        type Happens = fn(&Line);
        let cases: &[(&[Happens], LineEnd)] = &[
            (&[Line::hand, Line::end], LineEnd::Delivered),
            (&[Line::hand, Line::end, Line::cut], LineEnd::Delivered),
            (&[Line::end], LineEnd::Gone),
            (&[Line::cut, Line::hand, Line::end], LineEnd::Gone),
            (&[Line::hand, Line::cut, Line::end], LineEnd::Gone),
        ];
        for (happens, expected) in cases {
            let line = Line::new("line".into());
            happens.iter().for_each(|happens| happens(&line));
            assert_eq!(line.ended().await, *expected);
            assert_eq!(line.is_gone(), *expected == LineEnd::Gone);
        }
    }

    #[tokio::test]
    async fn who_has_just_come_and_waits_for_nobody_is_not_taken_for_leaving() {
        let invocation = InvocationId::parse("inv_00000000000000000000000000").unwrap();
        let line = Line::new("line".into());
        line.carries(&invocation, Kept::Begun);
        assert!(!line.may_be_leaving());
        let held = Line::new("held".into());
        held.carries(&invocation, Kept::Held);
        assert!(held.may_be_leaving());
        held.cut();
        assert!(!held.may_be_leaving(), "it has gone");
    }

    #[tokio::test]
    async fn a_call_that_begins_after_its_caller_has_gone_is_known_before_it_ends() {
        let line = Line::new("line".into());
        line.cut();
        let (call, ()) = tokio::join!(line.called(), async {
            line.carries(&InvocationId::parse("inv_00000000000000000000000000").unwrap(), Kept::Begun);
        });
        assert_eq!(call.unwrap().kept, Kept::Begun);
        let never = Line::new("never".into());
        never.walked().cancel();
        assert_eq!(never.called().await, None);
    }
}
