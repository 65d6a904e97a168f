//! Server-sent events: an answer that the server streams while the call runs.

use super::{Answer, Pieces, problem_of, read_as};
use crate::exit::Failure;
use reqwest::{Response, StatusCode, header};
use serde::de::DeserializeOwned;
use serde_json::Value;

pub(crate) const MEDIA_TYPE: &str = "text/event-stream";

/// One server-sent event.
#[derive(Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) data: Value,
}

/// A stream of events.
pub(crate) struct Events {
    pieces: Pieces,
    read: Vec<u8>,
}

impl Event {
    /// The answer that the last event of a call carries.
    pub(crate) fn into_answer<T: DeserializeOwned>(self) -> Result<Answer<T>, Failure> {
        read_as(self.data)
    }

    /// The problem that the event carries.
    pub(crate) fn into_problem(self) -> Failure {
        let status = self.data["status"].as_u64().and_then(|status| StatusCode::from_u16(u16::try_from(status).ok()?).ok());
        problem_of(status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), Some(self.data))
    }
}

pub(super) fn is_stream(response: &Response) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with(MEDIA_TYPE))
}

impl Events {
    pub(super) fn new(response: Response) -> Self {
        Self { pieces: Pieces { response }, read: Vec::new() }
    }

    /// The next event; `None` at the end. Comments, which the server sends to keep the connection alive, are skipped. Cancelling this
    /// future loses no data.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, Failure> {
        loop {
            while let Some(text) = self.take() {
                if let Some(event) = parse(&text) {
                    return Ok(Some(event));
                }
            }
            match self.pieces.next().await? {
                Some(piece) => self.read.extend_from_slice(piece.as_ref()),
                None => return Ok(None),
            }
        }
    }

    /// Takes the text up to the next empty line, which is one event.
    fn take(&mut self) -> Option<String> {
        let end = self.read.windows(2).position(|two| two == b"\n\n")?;
        let text: Vec<_> = self.read.drain(..end + 2).collect();
        Some(String::from_utf8_lossy(&text).into_owned())
    }
}

fn parse(text: &str) -> Option<Event> {
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim_start);
    Some(Event { name: field("event")?.to_owned(), data: serde_json::from_str(field("data")?).ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_event_has_a_name_and_data_and_everything_else_is_none() {
        let event = |name: &str, data| Some(Event { name: name.to_owned(), data });
        for (text, expected) in [
            ("event: progress\ndata: {\"seq\":1}\n\n", event("progress", json!({ "seq": 1 }))),
            ("data:7\nevent:end\n\n", event("end", json!(7))),
            (": \n\n", None),
            ("event: end\n\n", None),
            ("data: {}\n\n", None),
            ("event: end\ndata: {\n\n", None),
        ] {
            assert_eq!(parse(text), expected, "{text}");
        }
    }
}
