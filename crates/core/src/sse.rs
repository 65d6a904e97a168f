//! Reads server-sent events from bytes, as they come. Never holds more of them than one event may have.

/// One event, without what its server left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SentEvent {
    pub name: Option<String>,
    pub data: Option<String>,
    /// Where to go on after the stream was cut.
    pub id: Option<String>,
    pub retry_ms: Option<u64>,
}

/// Why a stream cannot be read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    TooLong,
    NotUtf8,
}

/// What was read of a stream and is not yet a whole event.
#[derive(Debug)]
pub struct Decoder {
    bytes_max: usize,
    line: Vec<u8>,
    event: SentEvent,
    /// Bytes of the lines that `event` was read from.
    bytes: usize,
    /// Whether the last byte was a carriage return: a line feed after it ends no further line.
    after_return: bool,
}

impl Decoder {
    pub const fn new(bytes_max: usize) -> Self {
        let event = SentEvent { name: None, data: None, id: None, retry_ms: None };
        Self { bytes_max, line: Vec::new(), event, bytes: 0, after_return: false }
    }

    /// How many bytes are held. Comments, and fields that nobody reads, are not.
    pub fn held(&self) -> usize {
        self.bytes + self.line.len()
    }

    /// The events that end in this piece.
    pub fn feed(&mut self, piece: &[u8]) -> Result<Vec<SentEvent>, Unreadable> {
        let mut events = Vec::new();
        for part in piece.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            let follows = std::mem::replace(&mut self.after_return, part.ends_with(b"\r"));
            if follows && part == b"\n" {
                continue;
            }
            let text = part.strip_suffix(b"\n").or_else(|| part.strip_suffix(b"\r"));
            self.line.extend_from_slice(text.unwrap_or(part));
            if self.held() > self.bytes_max {
                return Err(Unreadable::TooLong);
            }
            if text.is_some() {
                events.extend(self.end_line()?);
            }
        }
        Ok(events)
    }

    /// An empty line ends an event.
    fn end_line(&mut self) -> Result<Option<SentEvent>, Unreadable> {
        let line = String::from_utf8(std::mem::take(&mut self.line)).map_err(|_| Unreadable::NotUtf8)?;
        if line.is_empty() {
            self.bytes = 0;
            return Ok(Some(std::mem::take(&mut self.event)).filter(|event| *event != SentEvent::default()));
        }
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match (field, &mut self.event.data) {
            ("data", Some(data)) => {
                data.push('\n');
                data.push_str(value);
            }
            ("data", none) => *none = Some(value.to_owned()),
            ("event", _) => self.event.name = Some(value.to_owned()).filter(|name| !name.is_empty()),
            ("id", _) => self.event.id = Some(value.to_owned()),
            ("retry", _) => self.event.retry_ms = value.parse().ok(),
            _ => return Ok(None),
        }
        self.bytes += line.len();
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(text: &str) -> SentEvent {
        SentEvent { data: Some(text.to_owned()), ..SentEvent::default() }
    }

    #[test]
    fn events_are_the_same_however_they_are_spelled_and_cut() {
        let stream = ": alive\r\n\r\ndata: {\"a\":\r\ndata:1}\r\n\r\nid: 7\nretry: 50\ndata:x\n\nevent: end\rdata: no\r\r: \n\nid: 8\n\n\n\ndata: half";
        let named = SentEvent { name: Some("end".to_owned()), ..data("no") };
        let numbered = SentEvent { id: Some("7".to_owned()), retry_ms: Some(50), ..data("x") };
        let without_data = SentEvent { id: Some("8".to_owned()), ..SentEvent::default() };
        let expected = [data("{\"a\":\n1}"), numbered, named, without_data];
        for size in [1, 2, 3, 7, 1_000] {
            let mut decoder = Decoder::new(100);
            let events: Vec<_> = stream.as_bytes().chunks(size).flat_map(|piece| decoder.feed(piece).unwrap()).collect();
            assert_eq!(events, expected, "{size}");
        }
    }

    #[test]
    fn an_event_that_is_too_long_is_not_read_on_whether_it_has_line_ends_or_none() {
        for piece in [vec![b'x'; 16], b"data: 123456789\n".to_vec()] {
            let mut decoder = Decoder::new(1_600);
            let fed = (0..120).try_for_each(|_| decoder.feed(&piece).map(|_| ()));
            assert_eq!(fed, Err(Unreadable::TooLong));
            assert!(decoder.line.capacity() <= 3_200);
        }
    }

    #[test]
    fn comments_without_end_are_not_held() {
        let mut decoder = Decoder::new(100);
        for _ in 0..1_000 {
            assert_eq!(decoder.feed(&b": keep alive ........................................\n".repeat(10)), Ok(Vec::new()));
        }
        assert_eq!(decoder.held(), 0);
    }

    #[test]
    fn what_is_not_utf8_is_said_to_be_so() {
        assert_eq!(Decoder::new(100).feed(b"data: \xff\xfe\n"), Err(Unreadable::NotUtf8));
    }
}
