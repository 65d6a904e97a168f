//! What a running call prints, as server-sent events: `progress`, `missed`, and what it ended as.

use super::caller::Caller;
use super::page::Asked;
use super::problem::Refusal;
use crate::limits::PROGRESS_FOLLOW_SECONDS_MAX;
use api::invocation::{EndEvent, InvokeResponse, MissedEvent, ProgressEvent};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use operations::App;
use operations::invocations::readable;
use pipeline::{News, Next, Outcome, Waiting, told_to};
use serde::Deserialize;
use std::time::Duration;
use tokio::time::Instant;
use utoipa::IntoParams;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct FollowQuery {
    /// The `seq` of the last line that was read; without it, from the first that is kept.
    after: Option<u64>,
}

/// Follows what an invocation prints while it runs, and ends when it does.
///
/// Events: `progress` with `seq` and `text`, `missed` with the `count` of lines that were gone before they could be read, and at last
/// `end` with the `status`. A stream without `end` was cut off: ask again, with `after`.
#[utoipa::path(operation_id = "invocations_progress", get, path = "/api/v1/invocations/{invocation}/progress", tag = "invocations",
    params(("invocation" = String, Path), FollowQuery),
    responses(
        (status = 200, description = "Events, until it ends or five minutes are over.", content_type = "text/event-stream", body = String),
    ))]
pub(super) async fn follow(
    State(app): State<App>,
    caller: Caller,
    Path(invocation): Path<String>,
    Asked(query): Asked<FollowQuery>,
) -> Result<Response, Refusal> {
    let found = readable(&app, &caller.principal, &invocation).await?;
    let follower = app.pipeline().follow(&found, query.after.unwrap_or_default());
    let until = Instant::now() + Duration::from_secs(PROGRESS_FOLLOW_SECONDS_MAX);
    let events = stream::unfold(Some((follower, caller.principal)), move |following| async move {
        let (mut follower, principal) = following?;
        let next = tokio::time::timeout_at(until, follower.next()).await.ok()?;
        match next.inspect_err(|error| tracing::warn!(%error, "an invocation can no longer be followed")).ok()? {
            Next::Progress(event) => Some((event_of(event), Some((follower, principal)))),
            Next::Silence => Some((Ok(silence()), Some((follower, principal)))),
            Next::Ended(ended) => {
                let ended = told_to(&principal, *ended);
                Some((named("end", &EndEvent { status: ended.status }), None))
            }
            Next::Closing => None,
        }
    });
    Ok(Sse::new(events).into_response())
}

/// Whether the caller wants to be told while it happens.
pub(super) fn is_wanted(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok()).flat_map(|text| text.split(','));
    accepted.filter_map(|range| range.split(';').next()).any(|range| range.trim().eq_ignore_ascii_case("text/event-stream"))
}

/// How a call was answered, or why it was not.
pub(super) type Answered = Result<(StatusCode, InvokeResponse), Refusal>;

/// Tells what a call prints, and at last what would have been its answer: as `invocation`, or as `problem`.
pub(super) fn told(waiting: Waiting, answered: fn(Outcome) -> Answered, trace_id: String, silent: Duration) -> Response {
    let events = stream::unfold(Some((waiting, trace_id)), move |telling| async move {
        let (mut waiting, trace_id) = telling?;
        let Ok(news) = tokio::time::timeout(silent, waiting.next()).await else {
            return Some((Ok(silence()), Some((waiting, trace_id))));
        };
        let answered = match news {
            Ok(News::Printed(event)) => return Some((event_of(event), Some((waiting, trace_id)))),
            Ok(News::Outcome(outcome)) => answered(outcome),
            Err(error) => Err(error.into()),
        };
        let last = match answered {
            Ok((_, answer)) => named("invocation", &answer),
            Err(refusal) => {
                let mut problem = refusal.into_problem();
                problem.trace_id = Some(trace_id);
                named("problem", &problem)
            }
        };
        Some((last, None))
    });
    Sse::new(events).into_response()
}

fn event_of(event: pipeline::ProgressEvent) -> Result<Event, axum::Error> {
    match event {
        pipeline::ProgressEvent::Line { seq, text } => named("progress", &ProgressEvent { seq, text }),
        pipeline::ProgressEvent::Missed { count } => named("missed", &MissedEvent { count }),
    }
}

fn named(name: &str, data: &impl serde::Serialize) -> Result<Event, axum::Error> {
    Event::default().event(name).json_data(data)
}

/// A comment: it says nothing, and that somebody is still there.
fn silence() -> Event {
    Event::default().comment("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_what_is_asked_for_by_name() {
        for (accept, expected) in [
            ("text/event-stream", true),
            ("application/json, Text/Event-Stream;q=0.5", true),
            ("*/*", false),
            ("application/json", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(header::ACCEPT, accept.parse().unwrap())]);
            assert_eq!(is_wanted(&headers), expected, "{accept}");
        }
        assert!(!is_wanted(&HeaderMap::new()));
    }
}
