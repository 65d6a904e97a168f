//! Server-sent events: an answer that the server streams while the call runs.

use super::{Answer, Pieces, problem_of, read_as};
use crate::exit::Failure;
use countersign_core::sse::{Decoder, SentEvent};
use reqwest::{Response, StatusCode, header};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::VecDeque;

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
    decoder: Decoder,
    ready: VecDeque<SentEvent>,
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
        Self { pieces: Pieces { response }, decoder: Decoder::new(usize::MAX), ready: VecDeque::new() }
    }

    /// The next event; `None` at the end. Comments, which the server sends to keep the connection alive, are skipped. Cancelling this
    /// future loses no data.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, Failure> {
        loop {
            while let Some(event) = self.ready.pop_front() {
                if let Some(event) = named(event) {
                    return Ok(Some(event));
                }
            }
            let Some(piece) = self.pieces.next().await? else { return Ok(None) };
            let events = self.decoder.feed(piece.as_ref()).map_err(|_not_utf8| Failure::failed("the server's events are not UTF-8"))?;
            self.ready.extend(events);
        }
    }
}

fn named(event: SentEvent) -> Option<Event> {
    Some(Event { name: event.name?, data: serde_json::from_str(&event.data?).ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_event_has_a_name_and_data_and_everything_else_is_none() {
        let event = |name: &str, data| Event { name: name.to_owned(), data };
        let text = ": \n\nevent: progress\ndata: {\"seq\":1}\n\nevent: end\n\ndata: {}\n\nevent: end\ndata: {\n\ndata:7\nevent:end\n\n";
        let events = Decoder::new(usize::MAX).feed(text.as_bytes()).unwrap();
        let named: Vec<_> = events.into_iter().filter_map(named).collect();
        assert_eq!(named, [event("progress", json!({ "seq": 1 })), event("end", json!(7))]);
    }
}
