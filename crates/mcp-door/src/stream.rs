//! An answer that is never silent. If it takes longer than a few seconds, its head is sent and comments follow until there is more to say:
//! the library would send nothing at all before its first message, and a client or a proxy would take the connection for dead.
//! The end of the answer is told to the caller's line: delivered to its end, or cut off.

use super::caller::Caller;
use crate::limits::{MCP_OPEN_AFTER_SECONDS, MCP_RIGHT_SECONDS, MCP_SILENCE_SECONDS};
use axum::body::{Body, BodyDataStream, Bytes};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt as _, stream};
use http_body_util::BodyExt;
use operations::App;
use pipeline::{Line, Pipeline};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

const EVENTS: &str = "text/event-stream";
/// A comment: it says nothing, and that somebody is still there.
const COMMENT: Bytes = Bytes::from_static(b":\n\n");

type Work = Pin<Box<dyn Future<Output = Response> + Send>>;
type Looking = Pin<Box<dyn Future<Output = bool> + Send>>;

/// Dropped before the end of the answer: the caller has gone.
struct Ends {
    line: Line,
    /// The answer that was handed over went out. The stream of a request that was cancelled ends without it.
    is_out: bool,
}

impl Ends {
    /// Notes what goes out. What was told before the answer, such as progress, may go out after the answer was handed over, and is not it.
    fn pass(&mut self, bytes: &Bytes) {
        if self.line.is_handed() && !self.is_out {
            self.is_out = has_response(bytes);
        }
    }
}

/// What tells a response from a request or a notification.
#[derive(Deserialize)]
struct Message {
    id: Option<IgnoredAny>,
    result: Option<IgnoredAny>,
    error: Option<IgnoredAny>,
}

/// Whether a response is in these bytes: one event, or the whole of an answer that is one message. The library sends no event in parts.
fn has_response(bytes: &Bytes) -> bool {
    let lines = bytes.split(|byte| *byte == b'\n');
    let mut messages = lines.filter_map(|line| serde_json::from_slice::<Message>(line.strip_prefix(b"data:").unwrap_or(line)).ok());
    messages.any(|message| message.id.is_some() && (message.result.is_some() || message.error.is_some()))
}

impl Drop for Ends {
    fn drop(&mut self) {
        self.line.cut();
    }
}

/// The right to the stream. A stream may last longer than the token or the session of its caller.
pub(super) struct Right {
    is_held: Box<dyn Fn() -> Looking + Send>,
    looked_at: Instant,
}

impl Right {
    /// The right of a caller that was accepted just now.
    pub(super) fn new(app: App, caller: Caller) -> Self {
        let told = Arc::new((app, caller));
        let is_held = move || -> Looking {
            let told = Arc::clone(&told);
            Box::pin(async move { told.1.is_accepted(&told.0).await })
        };
        Self { is_held: Box::new(is_held), looked_at: Instant::now() }
    }

    /// Whether something may be said on the stream now. It is looked at anew, but not for everything that is said within a moment.
    async fn lasts(&mut self) -> bool {
        if self.looked_at.elapsed() < Duration::from_secs(MCP_RIGHT_SECONDS) {
            return true;
        }
        self.looked_at = Instant::now();
        let looking = (self.is_held)();
        looking.await
    }
}

/// When a stream ends because the server stops.
pub(super) struct Stop(Pin<Box<dyn Future<Output = ()> + Send>>);

impl Stop {
    /// `last_words`: how long the stopping server goes on with it. A stream on which the server only speaks by itself ends at once.
    pub(super) fn of(pipeline: Pipeline, last_words: Duration) -> Self {
        Self(Box::pin(async move {
            pipeline.stopping().await;
            tokio::time::sleep(last_words).await;
        }))
    }
}

/// How far an answer has come.
enum Stage {
    /// Its head was sent; there is nothing to say yet.
    Waiting(Work),
    Telling(BodyDataStream),
    Last(Bytes),
    Over,
}

/// The answer of `work`, with what becomes of it told to the line.
pub(super) async fn answer(work: impl Future<Output = Response> + Send + 'static, line: Line, right: Right, stop: Stop) -> Response {
    let (mut work, ends): (Work, _) = (Box::pin(work), Ends { line, is_out: false });
    tokio::select! {
        response = &mut work => {
            let (parts, body) = response.into_parts();
            Response::from_parts(parts, told(Stage::Telling(body.into_data_stream()), ends, right, stop))
        }
        () = tokio::time::sleep(Duration::from_secs(MCP_OPEN_AFTER_SECONDS)) => headed(told(Stage::Waiting(work), ends, right, stop)),
    }
}

fn told(stage: Stage, ends: Ends, right: Right, stop: Stop) -> Body {
    let stream = stream::unfold((stage, ends, right, stop), |(stage, mut ends, mut right, mut stop)| async move {
        let (bytes, stage) = next(stage, &ends, &mut stop).await?;
        // Whoever has lost the right to wait has left. An answer that was handed over is the one to a call that was accepted.
        if !ends.line.is_handed() && !right.lasts().await {
            return None;
        }
        ends.pass(&bytes);
        Some((Ok::<_, axum::Error>(bytes), (stage, ends, right, stop)))
    });
    Body::from_stream(stream)
}

/// The next bytes of the answer; `None` at its end.
async fn next(mut stage: Stage, ends: &Ends, stop: &mut Stop) -> Option<(Bytes, Stage)> {
    loop {
        stage = match stage {
            Stage::Waiting(mut work) => {
                tokio::select! {
                    response = &mut work => opened(response).await,
                    () = tokio::time::sleep(Duration::from_secs(MCP_SILENCE_SECONDS)) => return Some((COMMENT, Stage::Waiting(work))),
                }
            }
            Stage::Telling(mut body) => {
                let chunk = tokio::select! {
                    chunk = body.next() => chunk,
                    // The server stops before the answer was out. Its caller is cut off, and joins the call when it asks again.
                    () = &mut stop.0 => return None,
                };
                match chunk {
                    Some(Ok(bytes)) => return Some((bytes, Stage::Telling(body))),
                    Some(Err(_)) => return None,
                    None => Stage::Over,
                }
            }
            Stage::Last(bytes) => return Some((bytes, Stage::Over)),
            Stage::Over => {
                if ends.is_out {
                    ends.line.end();
                }
                return None;
            }
        }
    }
}

/// The rest of an answer whose head was sent already: its events, or its one message as an event.
async fn opened(response: Response) -> Stage {
    let is_events =
        response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).is_some_and(|kind| kind.starts_with(EVENTS));
    let body = response.into_body();
    if is_events {
        return Stage::Telling(body.into_data_stream());
    }
    match body.collect().await {
        Ok(collected) => {
            let text = String::from_utf8_lossy(&collected.to_bytes()).replace(['\r', '\n'], " ");
            Stage::Last(Bytes::from(format!("data: {text}\n\n")))
        }
        Err(_) => Stage::Over,
    }
}

/// The answers to the messages of a batch on one stream, each begun when the one before has ended.
pub(super) fn in_turn(answers: impl Stream<Item = Response> + Send + 'static) -> Response {
    let events = answers.then(opened).flat_map(|stage| -> BoxStream<'static, Result<Bytes, axum::Error>> {
        match stage {
            Stage::Telling(body) => Box::pin(body),
            Stage::Last(bytes) => Box::pin(stream::once(std::future::ready(Ok(bytes)))),
            Stage::Waiting(_) | Stage::Over => Box::pin(stream::empty()),
        }
    });
    headed(Body::from_stream(events))
}

/// An answer of events, whatever becomes of them.
fn headed(events: Body) -> Response {
    let head = [(header::CONTENT_TYPE, EVENTS), (header::CACHE_CONTROL, "no-cache")];
    let mut response = (StatusCode::OK, head, events).into_response();
    // Some proxies hold back what they are not told to pass on.
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    type Chunk = Result<Bytes, std::io::Error>;

    fn never() -> Stop {
        Stop(Box::pin(std::future::pending()))
    }

    /// The line after an answer with this body was handed over and read to its end.
    async fn answered(body: Body, stop: Stop) -> Line {
        let line = Line::new("line".into());
        line.hand();
        let response = answer(std::future::ready(Response::new(body)), line.clone(), right(true), stop).await;
        response.into_body().collect().await.unwrap();
        line
    }

    fn right(is_held: bool) -> Right {
        Right { is_held: Box::new(move || Box::pin(std::future::ready(is_held))), looked_at: Instant::now() }
    }

    #[tokio::test]
    async fn whoever_has_no_right_to_wait_any_more_is_cut_off() {
        for (is_held, told) in [(true, ":\n\n:\n\n"), (false, "")] {
            let line = Line::new("line".into());
            let long_ago = Instant::now().checked_sub(Duration::from_secs(2 * MCP_RIGHT_SECONDS)).unwrap();
            let right = Right { looked_at: long_ago, ..right(is_held) };
            let body = Body::from_stream(stream::iter([COMMENT, COMMENT].map(Chunk::Ok)));
            let response = answer(std::future::ready(Response::new(body)), line.clone(), right, never()).await;
            assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), told);
            assert!(line.is_gone());
        }
    }

    #[tokio::test]
    async fn what_was_handed_over_is_delivered_if_it_went_out() {
        let answer = "id: 1/2\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[]}}\n\n";
        let error = "data: {\"jsonrpc\":\"2.0\",\"id\":\"a\",\"error\":{\"code\":-32602,\"message\":\"no\"}}\n\n";
        // They were told before the answer was handed over, and go out after it.
        let progress = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progress\":1}}\n\n";
        let asking = "data: {\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"elicitation/create\",\"params\":{\"result\":1}}\n\n";
        for (chunks, is_delivered) in [
            (vec![answer, ":\n\n"], true),
            (vec![progress, error], true),
            (vec![progress, asking, ":\n\n"], false),
            (vec![":\n\n"], false),
            (vec![], false),
        ] {
            let body = Body::from_stream(stream::iter(chunks.into_iter().map(|chunk| Chunk::Ok(Bytes::from_static(chunk.as_bytes())))));
            assert_eq!(!answered(body, never()).await.is_gone(), is_delivered);
        }
    }

    #[tokio::test]
    async fn whoever_is_answered_too_late_for_a_stopping_server_is_cut_off() {
        let stop = Stop(Box::pin(std::future::ready(())));
        assert!(answered(Body::from_stream(stream::pending::<Chunk>()), stop).await.is_gone());
    }
}
