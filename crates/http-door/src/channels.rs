//! Channels: where people are told of calls that wait, and what became of what they were told.

use super::body::{OrEmpty, Strict};
use super::caller::Caller;
use super::page::{Asked, PageQuery, page_request, seconds_of};
use super::problem::Refusal;
use crate::limits::CHANNEL_AFTER_SECONDS_MAX;
use api::Page;
use api::channel::{
    ChannelKindView, ChannelTestResponse, ChannelView, DeliveryView, DropDeliveriesRequest, DroppedDeliveriesResponse, NewChannelRequest,
    RetriedDeliveriesResponse, RetryDeliveriesRequest,
};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use countersign_core::channel::{Channel, Delivery, DeliveryState};
use operations::App;
use operations::channels;
use serde::Deserialize;
use utoipa::IntoParams;

/// Every kind of channel, with the settings that a channel of it needs.
#[utoipa::path(operation_id = "channel_kinds_list", get, path = "/api/v1/channel-kinds", tag = "channels",
    responses((status = 200, body = Page<ChannelKindView>)))]
pub(super) async fn kinds(caller: Caller) -> Result<Json<Page<ChannelKindView>>, Refusal> {
    Ok(Json(Page { items: channels::kinds(&caller.principal)?, next: None }))
}

/// Channels of the org by name.
#[utoipa::path(operation_id = "channels_list", get, path = "/api/v1/channels", tag = "channels", params(PageQuery),
    responses((status = 200, body = Page<ChannelView>)))]
pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    Asked(query): Asked<PageQuery>,
) -> Result<Json<Page<ChannelView>>, Refusal> {
    let page = channels::list(&app, &caller.principal, &query.request()?).await?;
    let mut items = Vec::with_capacity(page.items.len());
    for channel in page.items {
        items.push(view(&app, channel).await?);
    }
    Ok(Json(Page { items, next: page.next }))
}

/// Adds a channel. From now on it is told of the calls that wait for a person and that it is for.
#[utoipa::path(operation_id = "channels_add", post, path = "/api/v1/channels", tag = "channels", request_body = NewChannelRequest,
    responses((status = 201, body = ChannelView)))]
pub(super) async fn add(
    State(app): State<App>,
    caller: Caller,
    Strict(body): Strict<NewChannelRequest>,
) -> Result<(StatusCode, Json<ChannelView>), Refusal> {
    let after = body.after.as_deref().map_or(Ok(0), |text| seconds_of("after", text, u64::from(CHANNEL_AFTER_SECONDS_MAX)))?;
    let after_seconds = u32::try_from(after).unwrap_or(CHANNEL_AFTER_SECONDS_MAX);
    let added = channels::add(&app, &caller.principal, body, after_seconds).await?;
    // It is added, whatever becomes of these.
    let warnings = channels::warnings(&app, &added).await.unwrap_or_default();
    Ok((StatusCode::CREATED, Json(ChannelView { warnings, ..ChannelView::new(added, 0) })))
}

/// One channel by its name, or by its id, also after it was removed.
#[utoipa::path(operation_id = "channels_show", get, path = "/api/v1/channels/{channel}", tag = "channels", params(("channel" = String, Path)),
    responses((status = 200, body = ChannelView)))]
pub(super) async fn show(State(app): State<App>, caller: Caller, Path(channel): Path<String>) -> Result<Json<ChannelView>, Refusal> {
    let found = channels::find(&app, &caller.principal, &channel).await?;
    let warnings = channels::warnings(&app, &found).await?;
    Ok(Json(ChannelView { warnings, ..view(&app, found).await? }))
}

/// Removes a channel. What waits to be delivered by it is not.
#[utoipa::path(operation_id = "channels_remove", delete, path = "/api/v1/channels/{channel}", tag = "channels", params(("channel" = String, Path)),
    responses((status = 204)))]
pub(super) async fn remove(State(app): State<App>, caller: Caller, Path(channel): Path<String>) -> Result<StatusCode, Refusal> {
    channels::remove(&app, &caller.principal, &channel).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Sends a test message now, once, and says what became of it.
#[utoipa::path(operation_id = "channels_test", post, path = "/api/v1/channels/{channel}/test", tag = "channels", params(("channel" = String, Path)),
    responses((status = 200, body = ChannelTestResponse)))]
pub(super) async fn test(
    State(app): State<App>,
    caller: Caller,
    Path(channel): Path<String>,
) -> Result<Json<ChannelTestResponse>, Refusal> {
    let (tested, sent) = channels::test(&app, &caller.principal, &channel).await?;
    let (problem, warnings) = (sent.err(), channels::warnings(&app, &tested).await.unwrap_or_default());
    Ok(Json(ChannelTestResponse { delivered: problem.is_none(), problem, warnings }))
}

/// Delivers dead letters of a channel once more: one, or all.
#[utoipa::path(operation_id = "channels_retry", post, path = "/api/v1/channels/{channel}/retry", tag = "channels", params(("channel" = String, Path)),
    request_body = RetryDeliveriesRequest,
    responses((status = 200, body = RetriedDeliveriesResponse)))]
pub(super) async fn retry(
    State(app): State<App>,
    caller: Caller,
    Path(channel): Path<String>,
    OrEmpty(body): OrEmpty<RetryDeliveriesRequest>,
) -> Result<Json<RetriedDeliveriesResponse>, Refusal> {
    let retried = channels::retry(&app, &caller.principal, &channel, body.delivery.as_deref()).await?;
    Ok(Json(RetriedDeliveriesResponse { retried }))
}

/// Drops dead letters of a channel: one, or all. They are delivered no more.
#[utoipa::path(operation_id = "channels_drop", post, path = "/api/v1/channels/{channel}/drop", tag = "channels", params(("channel" = String, Path)),
    request_body = DropDeliveriesRequest,
    responses((status = 200, body = DroppedDeliveriesResponse)))]
pub(super) async fn drop_letters(
    State(app): State<App>,
    caller: Caller,
    Path(channel): Path<String>,
    OrEmpty(body): OrEmpty<DropDeliveriesRequest>,
) -> Result<Json<DroppedDeliveriesResponse>, Refusal> {
    let dropped = channels::drop_letters(&app, &caller.principal, &channel, body.delivery.as_deref()).await?;
    Ok(Json(DroppedDeliveriesResponse { dropped }))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct DeliveriesQuery {
    /// Only those of this channel, by its name or id.
    channel: Option<String>,
    /// Only those in this state; `dead` are those that were given up.
    state: Option<DeliveryState>,
    /// Rows of one page, 1 to 100; 50 when absent.
    limit: Option<u32>,
    /// The `next` of the page before.
    after: Option<String>,
}

/// What is or was on its way to channels, newest first.
#[utoipa::path(operation_id = "deliveries_list", get, path = "/api/v1/deliveries", tag = "channels", params(DeliveriesQuery),
    responses((status = 200, body = Page<DeliveryView>)))]
pub(super) async fn deliveries(
    State(app): State<App>,
    caller: Caller,
    Asked(query): Asked<DeliveriesQuery>,
) -> Result<Json<Page<DeliveryView>>, Refusal> {
    let DeliveriesQuery { channel, state, limit, after } = query;
    let request = page_request(limit, after)?;
    let page = channels::deliveries(&app, &caller.principal, channel.as_deref(), state, &request).await?;
    let names = channels::names_of(&app, &caller.principal, &page.items).await?;
    let view = |delivery: Delivery| {
        let name = names.get(&delivery.channel).cloned();
        DeliveryView::new(delivery, name)
    };
    Ok(Json(Page { items: page.items.into_iter().map(view).collect(), next: page.next }))
}

async fn view(app: &App, channel: Channel) -> Result<ChannelView, Refusal> {
    let dead = channels::count_dead(app, &channel).await?;
    Ok(ChannelView::new(channel, dead))
}
