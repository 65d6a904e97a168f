//! The live stream as server-sent events.

use super::caller::Shown;
use super::page::Asked;
use super::problem::Refusal;
use super::teller::{Say, Teller};
use super::trace::TraceId;
use api::Problem;
use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use operations::App;
use serde::Deserialize;
use std::convert::Infallible;
use utoipa::IntoParams;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct StreamQuery {
    /// The `cursor` of the last message that was read, or `0` for everything; without it, from now on.
    pub(super) after: Option<String>,
}

/// Follows the events of the org, as they are committed: calls, batches, answers, rules, sources, drift and people. An agent gets those of
/// its session.
///
/// Each event is a `StreamEvent`, and its `id` is its cursor. A call that is held, succeeds, fails or is denied is told a second time, under
/// an older name. `stream.opened` comes first, `stream.dropped` or `problem` last, and comments keep the connection alive. Of the messages, only
/// an event has a `specversion`. A stream that was cut off goes on with `Last-Event-ID` or `after`: nothing is missed, and nothing comes twice.
#[utoipa::path(operation_id = "stream_follow", get, path = "/api/v1/stream", tag = "stream",
    params(StreamQuery, ("last-event-id" = Option<String>, Header, description = "As `after`, and counts before it: browsers send it by themselves.")),
    responses(
        (status = 200, description = "Events, until the client or the server ends the stream.", content_type = "text/event-stream", body = String),
        (status = 429, description = "Too many streams are open.", body = Problem, content_type = "application/problem+json"),
    ))]
pub(super) async fn follow(
    State(app): State<App>,
    Extension(trace): Extension<TraceId>,
    headers: HeaderMap,
    Asked(query): Asked<StreamQuery>,
    shown: Shown,
) -> Result<Response, Refusal> {
    let last = headers.get("last-event-id").and_then(|value| value.to_str().ok()).filter(|last| !last.is_empty());
    let teller = Teller::open(app, shown, last.or(query.after.as_deref()), trace.0).await?;
    let events = stream::unfold(teller, |mut teller| async move {
        let say = teller.next().await?;
        Some((Ok::<_, Infallible>(event_of(say)), teller))
    });
    let mut response = Sse::new(events).into_response();
    // A proxy that collects an answer before it passes it on would pass on nothing.
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

fn event_of(say: Say) -> Event {
    let (event, cursor) = match say {
        Say::Message { name, cursor, json } => (Event::default().event(name).data(json), cursor),
        // An `id` without data moves the reader on, and is shown to nobody.
        Say::Alive { cursor } => (Event::default().comment(""), cursor),
    };
    match cursor {
        Some(cursor) => event.id(cursor.to_string()),
        None => event,
    }
}
