//! Reads server-sent events out of bytes, and never holds more of them than one event may have.

use super::budget::{Exhausted, Taken};
use crate::limits::MCP_MESSAGE_BYTES_MAX;

/// One event. Its kind is not kept: messages have none, and nothing else is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) data: Option<String>,
    pub(super) id: Option<String>,
    pub(super) retry_ms: Option<u64>,
}

/// Why a stream is not read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    TooLong,
    TooMuchAtOnce,
    NotUtf8,
}

/// Ids of events go back to the server in a header. A longer one is ignored.
const ID_BYTES_MAX: usize = 1_024;

/// The lines of an event that has not ended yet.
pub(super) struct Events {
    /// Bytes that are no complete line yet.
    rest: Vec<u8>,
    event: Event,
    is_message: bool,
    /// Bytes of the lines that `event` was read from.
    bytes: usize,
    taken: Taken,
}

impl Events {
    pub(super) fn new(taken: Taken) -> Self {
        Self { rest: Vec::new(), event: Event::default(), is_message: true, bytes: 0, taken }
    }

    /// Takes further bytes, and returns the events that they complete.
    pub(super) fn push(&mut self, chunk: &[u8]) -> Result<Vec<Event>, Wrong> {
        let mut events = Vec::new();
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            if self.bytes + self.rest.len() + piece.len() > MCP_MESSAGE_BYTES_MAX {
                return Err(Wrong::TooLong);
            }
            self.taken.grow(piece.len()).map_err(|Exhausted| Wrong::TooMuchAtOnce)?;
            self.rest.extend_from_slice(piece);
            if self.rest.ends_with(b"\n") {
                let line = std::mem::take(&mut self.rest);
                events.extend(self.line(line)?);
            }
        }
        Ok(events)
    }

    fn line(&mut self, mut line: Vec<u8>) -> Result<Option<Event>, Wrong> {
        let length = line.len();
        while matches!(line.last(), Some(b'\n' | b'\r')) {
            line.pop();
        }
        let line = String::from_utf8(line).map_err(|_| Wrong::NotUtf8)?;
        if line.is_empty() {
            self.taken.shrink(self.bytes + length);
            self.bytes = 0;
            let event = std::mem::take(&mut self.event);
            let is_message = std::mem::replace(&mut self.is_message, true);
            let data = event.data.filter(|_| is_message);
            return Ok(Some(Event { data, ..event }).filter(|event| *event != Event::default()));
        }
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => match &mut self.event.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.event.data = Some(value.to_owned()),
            },
            "event" => self.is_message = matches!(value, "" | "message"),
            "id" if value.len() <= ID_BYTES_MAX && !value.contains(char::is_control) => self.event.id = Some(value.to_owned()),
            "retry" => self.event.retry_ms = value.parse().ok(),
            _ => {
                // A comment, or a field that nobody reads, is not held.
                self.taken.shrink(length);
                return Ok(None);
            }
        }
        self.bytes += length;
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::super::budget::Budget;
    use super::*;
    use proptest::prelude::*;

    fn events() -> Events {
        Events::new(Budget::default().nothing())
    }

    fn data(text: &str) -> Event {
        Event { data: Some(text.to_owned()), ..Event::default() }
    }

    #[test]
    fn events_are_read_in_every_usual_spelling() {
        let text = ": hello\r\n\r\ndata: {\"a\":\r\ndata:1}\r\n\r\nid: 7\nretry: 50\ndata:x\n\nevent: ping\ndata: no\n\nevent: message\ndata: yes\n\n\n";
        let found = events().push(text.as_bytes()).unwrap();
        let with_id = Event { id: Some("7".to_owned()), retry_ms: Some(50), ..data("x") };
        assert_eq!(found, [data("{\"a\":\n1}"), with_id, data("yes")]);
    }

    #[test]
    fn an_event_that_is_too_long_is_not_read_on_whether_it_has_line_ends_or_none() {
        for piece in [vec![b'x'; 1024], b"data: 123456789\n".repeat(64)] {
            let mut events = events();
            let pushed = (0..MCP_MESSAGE_BYTES_MAX / 1024 + 1).try_for_each(|_| events.push(&piece).map(|_| ()));
            assert_eq!(pushed, Err(Wrong::TooLong));
            assert!(events.rest.capacity() <= 2 * MCP_MESSAGE_BYTES_MAX);
        }
    }

    #[test]
    fn comments_without_end_are_not_held() {
        let (budget, mut events) = (Budget::default(), events());
        events.taken = budget.nothing();
        for _ in 0..10_000 {
            assert_eq!(events.push(&b": keep alive ........................................\n".repeat(100)), Ok(Vec::new()));
        }
        assert!(budget.take(crate::limits::MCP_HELD_BYTES_MAX).is_ok());
    }

    #[test]
    fn what_is_not_utf8_is_said_to_be_so() {
        assert_eq!(events().push(b"data: \xff\xfe\n"), Err(Wrong::NotUtf8));
    }

    proptest! {
        #[test]
        fn the_cuts_between_chunks_change_nothing(texts in proptest::collection::vec("[ -~]{1,20}", 1..5), cut in 0_usize..200) {
            let whole: String = texts.iter().map(|text| format!("data: {text}\r\n\r\n")).collect();
            let (first, second) = whole.as_bytes().split_at(cut.min(whole.len()));
            let mut events = events();
            let mut found = events.push(first).unwrap();
            found.extend(events.push(second).unwrap());
            let expected: Vec<_> = texts.iter().map(|text| data(text)).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
