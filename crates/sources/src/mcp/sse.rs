//! The events that an MCP server sends. What is held of them counts in the budget of the server.

use super::budget::{Exhausted, Taken};
use crate::limits::MCP_MESSAGE_BYTES_MAX;
use countersign_core::sse::{Decoder, SentEvent, Unreadable};

/// Why a stream is not read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    TooLong,
    TooMuchAtOnce,
    NotUtf8,
}

/// Ids of events go back to the server in a header. A longer one is ignored.
const ID_BYTES_MAX: usize = 1_024;

pub(super) struct Events {
    decoder: Decoder,
    taken: Taken,
}

impl Events {
    pub(super) fn new(taken: Taken) -> Self {
        Self { decoder: Decoder::new(MCP_MESSAGE_BYTES_MAX), taken }
    }

    /// Takes further bytes, and returns the events that they complete.
    pub(super) fn push(&mut self, chunk: &[u8]) -> Result<Vec<SentEvent>, Wrong> {
        let before = self.decoder.held();
        let events = self.decoder.feed(chunk).map_err(|unreadable| match unreadable {
            Unreadable::TooLong => Wrong::TooLong,
            Unreadable::NotUtf8 => Wrong::NotUtf8,
        })?;
        let held = self.decoder.held();
        self.taken.shrink(before.saturating_sub(held));
        self.taken.grow(held.saturating_sub(before)).map_err(|Exhausted| Wrong::TooMuchAtOnce)?;
        Ok(events.into_iter().filter_map(message).collect())
    }
}

/// Messages have no name. Of an event with another one only what is about the stream counts.
fn message(event: SentEvent) -> Option<SentEvent> {
    let is_message = event.name.as_deref().is_none_or(|name| name == "message");
    let data = event.data.filter(|_| is_message);
    let id = event.id.filter(|id| id.len() <= ID_BYTES_MAX && !id.contains(char::is_control));
    Some(SentEvent { name: None, data, id, retry_ms: event.retry_ms }).filter(|event| *event != SentEvent::default())
}

#[cfg(test)]
mod tests {
    use super::super::budget::Budget;
    use super::*;
    use crate::limits::MCP_HELD_BYTES_MAX;

    #[test]
    fn only_messages_count_and_what_is_held_of_them_is_taken_and_given_back() {
        let budget = Budget::default();
        let mut events = Events::new(budget.nothing());
        let found = events.push(b"event: ping\ndata: no\n\nevent: message\ndata: yes\n\nid: 7\n\nid: \x01\n\ndata: half").unwrap();
        let data = SentEvent { data: Some("yes".to_owned()), ..SentEvent::default() };
        assert_eq!(found, [data, SentEvent { id: Some("7".to_owned()), ..SentEvent::default() }]);
        assert!(budget.take(MCP_HELD_BYTES_MAX).is_err());
        events.push(b"\n\n").unwrap();
        let _all = budget.take(MCP_HELD_BYTES_MAX).unwrap();
        assert_eq!(events.push(b"data: more"), Err(Wrong::TooMuchAtOnce));
    }
}
