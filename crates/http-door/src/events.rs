//! Events, as they are read back; and those that clients send: a decision on an action becomes an ordinary call, anything else is published.

use super::body;
use super::caller::Caller;
use super::cloud_events::{self, Sent};
use super::compat;
use super::page::{Asked, page_request};
use super::problem::Refusal;
use api::compat::is_decision;
use api::event::{PublishRequest, PublishedEvents};
use api::event_types::{EventTypeView, event_types};
use api::stream::{EventAccepted, EventRequest, StreamEvent, envelope};
use api::{Code, Page};
use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use countersign_core::limits::{BODY_BYTES_MAX, LIGHT_BYTES_MAX};
use durable::heavy;
use operations::App;
use operations::events;
use operations::stream::{self, EventFilter};
use pipeline::Outcome;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Order {
    #[default]
    Newest,
    Oldest,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct EventsQuery {
    /// Only those with this name, such as `invocation.held`, or with this first word, such as `invocation`.
    #[serde(rename = "type")]
    name: Option<String>,
    /// Only those about this: the id of an invocation, a batch or a grant, or the name of a rule.
    subject: Option<String>,
    /// Whether the newest or the oldest come first; the newest when absent.
    #[param(inline)]
    order: Option<Order>,
    /// Rows of one page, 1 to 100; 50 when absent.
    limit: Option<u32>,
    /// The `next` of the page before.
    after: Option<String>,
}

/// Events of the org, newest first unless `order` says otherwise. The stream tells them as they are committed; this reads back.
///
/// A page has fewer rows than its limit, or none, where few of the events fit: `next` says whether there are older ones.
#[utoipa::path(operation_id = "events_list", get, path = "/api/v1/events", tag = "stream", params(EventsQuery),
    responses((status = 200, body = Page<StreamEvent>)))]
pub(super) async fn list(State(app): State<App>, caller: Caller, Asked(query): Asked<EventsQuery>) -> Result<Response, Refusal> {
    let EventsQuery { name, subject, order, limit, after } = query;
    let request = page_request(limit, after)?;
    let foreign = || Refusal::new(Code::InvalidQuery, "`after` is not a cursor of ours");
    let from = request.after.map(|after| after.parse::<i64>().ok().filter(|from| *from > 0).ok_or_else(foreign)).transpose()?;
    let (filter, by) = (EventFilter { name, subject }, &caller.principal);
    let (events, next) = match order.unwrap_or_default() {
        Order::Newest => stream::list(&app, by, &filter, from, request.limit).await?,
        Order::Oldest => stream::list_oldest(&app, by, &filter, from.unwrap_or_default(), request.limit).await?,
    };
    let (org, bytes) = (by.org.clone(), events.iter().map(|told| told.event.body.len()).sum::<usize>());
    let write = move || {
        let items = events.iter().map(|told| envelope(&org, &told.event)).collect();
        Json(Page { items, next: next.map(|next| next.to_string()) }).into_response()
    };
    Ok(if bytes <= LIGHT_BYTES_MAX { write() } else { heavy::compute(write).await })
}

/// Publishes events, in one of the three modes of CloudEvents 1.0 over HTTP; or takes a decision on an action.
///
/// An event with a source and an id that are known already is not published again. `action.decision` carries an action request, which becomes
/// a call like any other: the answer comes when the call is recorded, as ended or pending, and its `invocation.*` events tell what becomes of
/// it. Send either again if no answer came: with the same `id` it causes no second effect.
#[utoipa::path(operation_id = "events_send", post, path = "/api/v1/events", tag = "stream",
    request_body(content(
        (EventRequest = "application/json"),
        (PublishRequest = "application/cloudevents+json"),
        (Vec<PublishRequest> = "application/cloudevents-batch+json")
    )),
    responses(
        (status = 200, description = "They are in the log of events.", body = PublishedEvents),
        (status = 202, description = "The decision was taken, and its call is recorded.", body = EventAccepted),
    ))]
pub(super) async fn send(State(app): State<App>, caller: Caller, headers: HeaderMap, body: Body) -> Result<Response, Refusal> {
    let bytes = body::read(body, BODY_BYTES_MAX).await?;
    match cloud_events::read(&headers, &bytes)? {
        Sent::Decision(decision) => Ok((StatusCode::ACCEPTED, Json(take(&app, caller, *decision).await?)).into_response()),
        Sent::Events(sent) => {
            let events = events::publish(&app, &caller.principal, sent).await?;
            Ok(Json(PublishedEvents { events }).into_response())
        }
    }
}

/// One event: by its position, by its id, or by the id that whoever sent it gave it.
#[utoipa::path(operation_id = "events_show", get, path = "/api/v1/events/{event}", tag = "stream", params(("event" = String, Path)),
    responses((status = 200, body = StreamEvent)))]
pub(super) async fn show(State(app): State<App>, caller: Caller, Path(event): Path<String>) -> Result<Response, Refusal> {
    let found = events::find(&app, &caller.principal, &event).await?;
    let (org, bytes) = (caller.principal.org, found.body.len());
    let write = move || Json(envelope(&org, &found)).into_response();
    Ok(if bytes <= LIGHT_BYTES_MAX { write() } else { heavy::compute(write).await })
}

/// Every type of event that the server publishes, with the schema of its data and a sample.
#[utoipa::path(operation_id = "events_types", get, path = "/api/v1/event-types", tag = "stream",
    responses((status = 200, body = Page<EventTypeView>)))]
pub(super) async fn types(_caller: Caller) -> Json<Page<EventTypeView>> {
    Json(Page { items: event_types(), next: None })
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
