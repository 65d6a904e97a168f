//! Reads server-sent events from pieces of bytes, as they come. Only data and ids count; comments keep the connection alive.

/// One event that carries data.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) data: String,
    /// Where to go on after the stream was cut.
    pub(super) id: Option<String>,
}

/// An event is longer than it may be.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

/// What was read of the stream and is not yet a whole event.
pub(super) struct Decoder {
    bytes_max: usize,
    line: Vec<u8>,
    data: Option<String>,
    id: Option<String>,
    /// Whether the last byte was a carriage return: a line feed after it ends no further line.
    after_return: bool,
}

impl Decoder {
    pub(super) const fn new(bytes_max: usize) -> Self {
        Self { bytes_max, line: Vec::new(), data: None, id: None, after_return: false }
    }

    /// The events that end in this piece.
    pub(super) fn feed(&mut self, piece: &[u8]) -> Result<Vec<Event>, TooLong> {
        let mut events = Vec::new();
        for byte in piece {
            let follows = std::mem::replace(&mut self.after_return, *byte == b'\r');
            match byte {
                b'\n' if follows => {}
                b'\n' | b'\r' => events.extend(self.end_line()),
                _ => self.line.push(*byte),
            }
            if self.line.len() + self.data.as_ref().map_or(0, String::len) > self.bytes_max {
                return Err(TooLong);
            }
        }
        Ok(events)
    }

    /// An empty line ends an event.
    fn end_line(&mut self) -> Option<Event> {
        let line = String::from_utf8_lossy(&std::mem::take(&mut self.line)).into_owned();
        if line.is_empty() {
            return self.data.take().filter(|data| !data.is_empty()).map(|data| Event { data, id: self.id.clone() });
        }
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match (field, &mut self.data) {
            ("data", Some(data)) => {
                data.push('\n');
                data.push_str(value);
            }
            ("data", none) => *none = Some(value.to_owned()),
            ("id", _) => self.id = Some(value.to_owned()),
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_the_same_however_they_are_cut() {
        let stream = ": alive\n\ndata: {\"a\":1}\n\nid: 7\r\ndata: x\r\ndata:y\r\n\r\nevent: nothing\n\ndata: \n\ndata: half";
        for size in [1, 2, 3, 7, 1_000] {
            let mut decoder = Decoder::new(100);
            let events: Vec<_> = stream.as_bytes().chunks(size).flat_map(|piece| decoder.feed(piece).unwrap()).collect();
            let expected = [("{\"a\":1}", None), ("x\ny", Some("7"))];
            let expected = expected.map(|(data, id)| Event { data: data.to_owned(), id: id.map(str::to_owned) });
            assert_eq!(events, expected, "{size}");
        }
    }

    #[test]
    fn an_event_without_end_is_refused() {
        let mut decoder = Decoder::new(10);
        assert_eq!(decoder.feed(b"data: 1\ndata: 23\n"), Ok(Vec::new()));
        assert_eq!(decoder.feed(b"data: 45678901"), Err(TooLong));
    }
}
