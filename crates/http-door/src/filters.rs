//! Filters of event triggers: tried before they are saved.

use super::body::Exact;
use super::caller::Caller;
use super::problem::Refusal;
use api::event::{TestFilterRequest, TestFilterResponse, TestedEvent};
use api::stream::envelope;
use axum::Json;
use axum::extract::State;
use countersign_core::limits::PAGE_ROWS_DEFAULT;
use operations::App;
use operations::filters::{self, Judged, Tried};

/// Which of the latest events a filter accepts. Nothing is saved, and nothing starts.
///
/// Of the latest events of the type, those are judged that an automation of the space would hear of, newest first: those of the space, and
/// those of ours that are about the whole org. What somebody published without a space fires nothing.
#[utoipa::path(operation_id = "filters_test", post, path = "/api/v1/filters/test", tag = "automations", request_body = TestFilterRequest,
    responses((status = 200, body = TestFilterResponse)))]
pub(super) async fn test(
    State(app): State<App>,
    caller: Caller,
    Exact(body): Exact<TestFilterRequest>,
) -> Result<Json<TestFilterResponse>, Refusal> {
    let TestFilterRequest { event_type, filters, space, limit } = &body;
    let limit = limit.unwrap_or(PAGE_ROWS_DEFAULT);
    let tried = Tried { event_type, filters: filters.as_ref(), space: space.as_deref(), limit };
    let judged = filters::test(&app, &caller.principal, tried).await?;
    let view = |Judged { told, matches, unmet }: Judged| {
        let event = envelope(&caller.principal.org, &told.event);
        TestedEvent { cursor: event.cursor, id: event.id, name: event.name, subject: event.subject, time: event.time, matches, unmet }
    };
    let events: Vec<_> = judged.into_iter().map(view).collect();
    Ok(Json(TestFilterResponse { matching: events.iter().filter(|event| event.matches).count() as u64, events }))
}
