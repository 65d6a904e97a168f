//! Consumer groups: events are claimed, acknowledged and given back.

use super::body::{OrEmpty, Strict};
use super::caller::Caller;
use super::page::{Asked, WaitQuery, moment, seconds_of};
use super::problem::Refusal;
use crate::limits::EVENT_DELAY_SECONDS_MAX;
use api::event::{
    AckRequest, AckResponse, ClaimRequest, ClaimResponse, ClaimedEvent, GroupView, NackRequest, NewGroupRequest, ReplayGroupRequest,
    ReplayGroupResponse, ResetGroupRequest,
};
use api::stream::envelope;
use api::{Code, Page};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use countersign_core::ports::bus::{ClaimRef, Claimed};
use operations::App;
use operations::events::{self, Again};

/// Events that a claim takes which does not say how many.
const CLAIMED_DEFAULT: u32 = 10;

/// Consumer groups of the org by name.
#[utoipa::path(operation_id = "event_groups_list", get, path = "/api/v1/event-groups", tag = "stream",
    responses((status = 200, body = Page<GroupView>)))]
pub(super) async fn list(State(app): State<App>, caller: Caller) -> Result<Json<Page<GroupView>>, Refusal> {
    let groups = events::groups(&app, &caller.principal).await?;
    Ok(Json(Page { items: groups.into_iter().map(GroupView::from).collect(), next: None }))
}

/// One consumer group: how far it is, what it has in flight, and what it lost.
#[utoipa::path(operation_id = "event_groups_show", get, path = "/api/v1/event-groups/{group}", tag = "stream", params(("group" = String, Path)),
    responses((status = 200, body = GroupView)))]
pub(super) async fn show(State(app): State<App>, caller: Caller, Path(group): Path<String>) -> Result<Json<GroupView>, Refusal> {
    Ok(Json(events::group(&app, &caller.principal, &group).await?.into()))
}

/// Makes a group, unless there is one of this name: that stays as it is.
#[utoipa::path(operation_id = "event_groups_make", put, path = "/api/v1/event-groups/{group}", tag = "stream", params(("group" = String, Path)),
    request_body = NewGroupRequest,
    responses((status = 200, body = GroupView)))]
pub(super) async fn make(
    State(app): State<App>,
    caller: Caller,
    Path(group): Path<String>,
    OrEmpty(body): OrEmpty<NewGroupRequest>,
) -> Result<Json<GroupView>, Refusal> {
    Ok(Json(events::make_group(&app, &caller.principal, &group, body).await?.into()))
}

/// Removes a group, with all that it has not acknowledged. Its dead letters stay.
#[utoipa::path(operation_id = "event_groups_remove", delete, path = "/api/v1/event-groups/{group}", tag = "stream", params(("group" = String, Path)),
    responses((status = 204)))]
pub(super) async fn remove(State(app): State<App>, caller: Caller, Path(group): Path<String>) -> Result<StatusCode, Refusal> {
    events::remove_group(&app, &caller.principal, &group).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Claims events: each is for this consumer alone for 30 seconds, and then for the next. `?wait=30s` waits for one.
#[utoipa::path(operation_id = "event_groups_claim", post, path = "/api/v1/event-groups/{group}/claim", tag = "stream",
    params(("group" = String, Path), WaitQuery), request_body = ClaimRequest,
    responses((status = 200, body = ClaimResponse)))]
pub(super) async fn claim(
    State(app): State<App>,
    caller: Caller,
    Path(group): Path<String>,
    Asked(wait): Asked<WaitQuery>,
    OrEmpty(body): OrEmpty<ClaimRequest>,
) -> Result<Json<ClaimResponse>, Refusal> {
    let limit = body.limit.unwrap_or(CLAIMED_DEFAULT);
    let claimed = events::claim(&app, &caller.principal, &group, limit, wait.duration()?).await?;
    let view = |Claimed { event, claim, delivery, leased_until }: Claimed| ClaimedEvent {
        event: envelope(&caller.principal.org, &event),
        claim: text_of(claim),
        delivery,
        leased_until,
    };
    Ok(Json(ClaimResponse { events: claimed.into_iter().map(view).collect() }))
}

/// Says that events were worked on: they are not delivered again.
#[utoipa::path(operation_id = "event_groups_ack", post, path = "/api/v1/event-groups/{group}/ack", tag = "stream", params(("group" = String, Path)),
    request_body = AckRequest,
    responses((status = 200, body = AckResponse)))]
pub(super) async fn ack(
    State(app): State<App>,
    caller: Caller,
    Path(group): Path<String>,
    Strict(body): Strict<AckRequest>,
) -> Result<Json<AckResponse>, Refusal> {
    let claims = claims_of(&body.claims)?;
    let stale = events::ack(&app, &caller.principal, &group, claims).await?;
    Ok(Json(answer(body.claims.len(), stale)))
}

/// Gives events back, to be delivered again after a while. One that was delivered as often as it may be becomes a dead letter.
#[utoipa::path(operation_id = "event_groups_nack", post, path = "/api/v1/event-groups/{group}/nack", tag = "stream", params(("group" = String, Path)),
    request_body = NackRequest,
    responses((status = 200, body = AckResponse)))]
pub(super) async fn nack(
    State(app): State<App>,
    caller: Caller,
    Path(group): Path<String>,
    Strict(body): Strict<NackRequest>,
) -> Result<Json<AckResponse>, Refusal> {
    let claims = claims_of(&body.claims)?;
    let delay = body.delay.as_deref().map_or(Ok(0), |text| seconds_of("delay", text, EVENT_DELAY_SECONDS_MAX))?;
    let stale = events::nack(&app, &caller.principal, &group, claims, delay, body.problem.as_deref()).await?;
    Ok(Json(answer(body.claims.len(), stale)))
}

/// Lets a group go on from another place of the log. What it has not acknowledged counts as done.
#[utoipa::path(operation_id = "event_groups_reset", post, path = "/api/v1/event-groups/{group}/reset", tag = "stream", params(("group" = String, Path)),
    request_body = ResetGroupRequest,
    responses((status = 200, body = GroupView)))]
pub(super) async fn reset(
    State(app): State<App>,
    caller: Caller,
    Path(group): Path<String>,
    Strict(body): Strict<ResetGroupRequest>,
) -> Result<Json<GroupView>, Refusal> {
    let to = events::start_of("to", &body.to)?;
    Ok(Json(events::reset(&app, &caller.principal, &group, to).await?.into()))
}

/// Gives a group events once more: from a position on, from a time on, or its dead letters.
#[utoipa::path(operation_id = "event_groups_replay", post, path = "/api/v1/event-groups/{group}/replay", tag = "stream", params(("group" = String, Path)),
    request_body = ReplayGroupRequest,
    responses((status = 200, body = ReplayGroupResponse)))]
pub(super) async fn replay(
    State(app): State<App>,
    caller: Caller,
    Path(group): Path<String>,
    Strict(body): Strict<ReplayGroupRequest>,
) -> Result<Json<ReplayGroupResponse>, Refusal> {
    let has_new_ids = body.new_ids;
    let again = match body {
        ReplayGroupRequest { from: Some(position), since: None, dead_letters: false, .. } => Again::From(position),
        ReplayGroupRequest { from: None, since: Some(text), dead_letters: false, .. } => Again::Since(moment(&app, "since", &text)?),
        ReplayGroupRequest { from: None, since: None, dead_letters: true, .. } => Again::DeadLetters,
        ReplayGroupRequest { .. } => {
            return Err(Refusal::new(Code::InvalidRequest, "say one of `from`, `since` and `dead_letters`"));
        }
    };
    Ok(Json(ReplayGroupResponse { replayed: events::replay(&app, &caller.principal, &group, again, has_new_ids).await? }))
}

/// `42.7`: the position of the event and the token of the claim.
fn text_of(claim: ClaimRef) -> String {
    format!("{}.{}", claim.seq, claim.token)
}

fn claims_of(texts: &[String]) -> Result<Vec<ClaimRef>, Refusal> {
    let read = |text: &String| {
        let (seq, token) = text.split_once('.')?;
        Some(ClaimRef { seq: seq.parse().ok()?, token: token.parse().ok()? })
    };
    let foreign = || Refusal::new(Code::InvalidRequest, "`claims` holds something that is no claim");
    texts.iter().map(|text| read(text).ok_or_else(foreign)).collect()
}

fn answer(claims: usize, stale: Vec<ClaimRef>) -> AckResponse {
    AckResponse { done: claims.saturating_sub(stale.len()) as u64, stale: stale.into_iter().map(text_of).collect() }
}
