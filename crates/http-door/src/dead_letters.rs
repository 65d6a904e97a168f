//! Dead letters: events, notices and calls that were given up.

use super::body::OrEmpty;
use super::caller::Caller;
use super::page::{Asked, page_request};
use super::problem::Refusal;
use api::Page;
use api::event::{DeadLetterView, RetriedLetterResponse, RetryLetterRequest};
use api::stream::envelope;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use countersign_core::ports::bus::LetterKind;
use operations::App;
use operations::dead_letters;
use serde::Deserialize;
use store::DeadLetter;
use utoipa::IntoParams;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct LettersQuery {
    /// Only those of this kind.
    kind: Option<LetterKind>,
    /// Rows of one page, 1 to 100; 50 when absent.
    limit: Option<u32>,
    /// The `next` of the page before.
    after: Option<String>,
}

/// What was given up, the newest first. A page may have fewer rows than its limit: `next` says whether there are older ones.
#[utoipa::path(operation_id = "dead_letters_list", get, path = "/api/v1/dead-letters", tag = "stream", params(LettersQuery),
    responses((status = 200, body = Page<DeadLetterView>)))]
pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    Asked(query): Asked<LettersQuery>,
) -> Result<Json<Page<DeadLetterView>>, Refusal> {
    let request = page_request(query.limit, query.after)?;
    let page = dead_letters::list(&app, &caller.principal, query.kind, &request).await?;
    let mut items = Vec::with_capacity(page.items.len());
    for letter in page.items {
        items.push(view(&app, &caller, letter).await?);
    }
    Ok(Json(Page { items, next: page.next }))
}

/// One dead letter, of whichever kind, by its id.
#[utoipa::path(operation_id = "dead_letters_show", get, path = "/api/v1/dead-letters/{letter}", tag = "stream", params(("letter" = String, Path)),
    responses((status = 200, body = DeadLetterView)))]
pub(super) async fn show(State(app): State<App>, caller: Caller, Path(letter): Path<String>) -> Result<Json<DeadLetterView>, Refusal> {
    let found = dead_letters::find(&app, &caller.principal, &letter).await?;
    Ok(Json(view(&app, &caller, found).await?))
}

/// Asks for a dead letter once more: an event is delivered to its group again, a notice to its channel; a call is made anew, by whoever asks.
#[utoipa::path(operation_id = "dead_letters_retry", post, path = "/api/v1/dead-letters/{letter}/retry", tag = "stream", params(("letter" = String, Path)),
    request_body = RetryLetterRequest,
    responses((status = 200, body = RetriedLetterResponse)))]
pub(super) async fn retry(
    State(app): State<App>,
    caller: Caller,
    Path(letter): Path<String>,
    OrEmpty(body): OrEmpty<RetryLetterRequest>,
) -> Result<Json<RetriedLetterResponse>, Refusal> {
    let (kind, made) = dead_letters::retry(&app, &caller.principal, &letter, body, caller.trace_id.clone()).await?;
    let (invocation_id, status) = made.map(|made| (made.id.to_string(), made.status)).unzip();
    Ok(Json(RetriedLetterResponse { kind, invocation_id, status }))
}

/// Drops a dead letter: nobody is asked for it again.
#[utoipa::path(operation_id = "dead_letters_drop", post, path = "/api/v1/dead-letters/{letter}/drop", tag = "stream", params(("letter" = String, Path)),
    responses((status = 204)))]
pub(super) async fn drop_letter(State(app): State<App>, caller: Caller, Path(letter): Path<String>) -> Result<StatusCode, Refusal> {
    dead_letters::discard(&app, &caller.principal, &letter).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn view(app: &App, caller: &Caller, letter: DeadLetter) -> Result<DeadLetterView, Refusal> {
    let place = dead_letters::place_of(app, &caller.principal, &letter).await?;
    let event = letter.event().map(|dead| envelope(&caller.principal.org, &dead.event));
    let invocation_id = match letter.kind {
        LetterKind::Event => None,
        LetterKind::Delivery => Some(letter.content),
        LetterKind::Invocation => Some(letter.id.clone()),
    };
    Ok(DeadLetterView {
        id: letter.id,
        kind: letter.kind,
        place,
        what: letter.what,
        problem: letter.problem,
        attempts: letter.attempts,
        died_at: letter.at,
        event,
        invocation_id,
    })
}
