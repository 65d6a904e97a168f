//! Events, as they are read back; and those that clients send: a decision on an action becomes an ordinary call.

use super::body::Strict;
use super::caller::Caller;
use super::compat;
use super::page::{Asked, page_request};
use super::problem::Refusal;
use crate::App;
use crate::operations::stream::{self, EventFilter};
use api::compat::is_decision;
use api::stream::{EventAccepted, EventRequest, StreamEvent};
use api::{Code, Page, Problem};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use pipeline::Outcome;
use serde::Deserialize;
use utoipa::IntoParams;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct EventsQuery {
    /// Only those with this name, such as `invocation.held`, or with this first word, such as `invocation`.
    #[serde(rename = "type")]
    name: Option<String>,
    /// Only those about this: the id of an invocation, a batch or a grant, or the name of a rule.
    subject: Option<String>,
    /// Rows of one page, 1 to 100; 50 when absent.
    limit: Option<u32>,
    /// The `next` of the page before.
    after: Option<String>,
}

/// Events of the org, newest first. The stream tells them as they are committed; this reads back.
///
/// A page has fewer rows than its limit, or none, where few of the events fit: `next` says whether there are older ones.
#[utoipa::path(operation_id = "events_list", get, path = "/api/v1/events", tag = "stream", params(EventsQuery),
    responses((status = 200, body = Page<StreamEvent>), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    Asked(query): Asked<EventsQuery>,
) -> Result<Json<Page<StreamEvent>>, Refusal> {
    let EventsQuery { name, subject, limit, after } = query;
    let request = page_request(limit, after)?;
    let foreign = || Refusal::new(Code::InvalidQuery, "`after` is not a cursor of ours");
    let before = request.after.map(|after| after.parse::<i64>().ok().filter(|before| *before > 0).ok_or_else(foreign)).transpose()?;
    let (events, next) = stream::list(&app, &caller.principal, &EventFilter { name, subject }, before, request.limit).await?;
    // The first part of an event is the one with our name.
    let items = events.iter().filter_map(|told| serde_json::from_str(&told.frames.first()?.json).ok()).collect();
    Ok(Json(Page { items, next: next.map(|next| next.to_string()) }))
}

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
