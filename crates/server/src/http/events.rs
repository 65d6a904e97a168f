//! Events that clients send: a decision on an action becomes an ordinary call.

use super::body::Strict;
use super::caller::Caller;
use super::compat;
use super::problem::Refusal;
use crate::App;
use api::compat::is_decision;
use api::stream::{EventAccepted, EventRequest};
use api::{Code, Problem};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use pipeline::Outcome;

/// Takes an event. `action.decision` carries an action request, which becomes a call like any other.
///
/// The answer comes when the call is recorded: it has ended, or it is pending. Its `invocation.*` events on the stream tell what becomes of
/// it. Send the event again if no answer came: with the same `id` it causes no second effect.
#[utoipa::path(operation_id = "events_send", post, path = "/api/v1/events", tag = "stream", request_body = EventRequest,
    responses(
        (status = 202, description = "It was taken, and its call is recorded.", body = EventAccepted),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    ))]
pub(super) async fn send(
    State(app): State<App>,
    caller: Caller,
    Strict(event): Strict<EventRequest>,
) -> Result<(StatusCode, Json<EventAccepted>), Refusal> {
    Ok((StatusCode::ACCEPTED, Json(take(&app, caller, event).await?)))
}

/// Takes an event, whichever way it came.
pub(super) async fn take(app: &App, caller: Caller, event: EventRequest) -> Result<EventAccepted, Refusal> {
    if !is_decision(&event.name) {
        return Err(Refusal::new(Code::InvalidRequest, "`type` must be `action.decision`: no other event is taken"));
    }
    let mut request = event.data;
    if let (None, Some(id)) = (&request.idempotency_key, &event.id) {
        // With its length, so that no other source and id give the same key.
        let source = event.source.as_deref().unwrap_or_default();
        request.idempotency_key = Some(format!("event:{}:{source}:{id}", source.len()));
    }
    let (outcome, _) = compat::perform(app, caller, request).await?;
    let replayed = matches!(outcome, Outcome::Replayed(_));
    let invocation = outcome.invocation();
    Ok(EventAccepted {
        event_id: event.id,
        invocation_id: invocation.id.to_string(),
        status: invocation.status,
        replayed,
        trace_id: invocation.trace_id.clone(),
    })
}
