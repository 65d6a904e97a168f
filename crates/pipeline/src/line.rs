//! The line to a caller who stays until the result of its call comes. The door says what happens on it: an answer was handed over, the
//! answer was delivered, or the caller has gone. What that means for the call is in `callers.rs`.

use countersign_core::InvocationId;
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// One caller's line for one call. Clones are the same line.
#[derive(Clone, Debug)]
pub struct Line(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    id: String,
    state: watch::Sender<State>,
    call: Mutex<Option<OnLine>>,
    /// Cancelled when the walk of the call has ended.
    walked: CancellationToken,
}

/// The call that is on the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OnLine {
    pub(crate) invocation: InvocationId,
    /// The store has a row for it, which goes when something was delivered.
    pub(crate) is_stored: bool,
    /// What was delivered is no end: whoever asks again must not start a second call.
    pub(crate) is_open_ended: bool,
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
    pub(crate) fn new(id: String) -> Self {
        Self(Arc::new(Inner { id, state: watch::Sender::new(State::Open), call: Mutex::default(), walked: CancellationToken::new() }))
    }

    /// An answer was handed to the connection. If the connection ends well after this, the answer was delivered.
    pub fn hand(&self) {
        self.change(|state| if state == State::Open { State::Handed } else { state });
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
        self.0.call.lock().as_ref().map(|call| call.invocation.clone())
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

    /// Says which call is on the line.
    pub(crate) fn carries(&self, invocation: &InvocationId, is_stored: bool) {
        *self.0.call.lock() = Some(OnLine { invocation: invocation.clone(), is_stored, is_open_ended: false });
    }

    pub(crate) fn leave_open_ended(&self) {
        if let Some(call) = self.0.call.lock().as_mut() {
            call.is_open_ended = true;
        }
    }

    pub(crate) fn call(&self) -> Option<OnLine> {
        self.0.call.lock().clone()
    }

    pub(crate) fn walked(&self) -> &CancellationToken {
        &self.0.walked
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
}
