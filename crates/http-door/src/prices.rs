//! What calls of actions cost.

use super::body::Strict;
use super::caller::Caller;
use super::page::{Asked, PageQuery};
use super::problem::Refusal;
use api::Page;
use api::rules::{PriceChangeResponse, PriceTerms, PriceView};
use axum::Json;
use axum::extract::{Path, State};
use operations::App;
use operations::prices;
use store::PriceSetting;

/// Every price. An action without one costs nothing.
#[utoipa::path(operation_id = "prices_list", get, path = "/api/v1/prices", tag = "prices", params(PageQuery),
    responses((status = 200, body = Page<PriceView>)))]
pub(super) async fn list(State(app): State<App>, caller: Caller, Asked(query): Asked<PageQuery>) -> Result<Json<Page<PriceView>>, Refusal> {
    caller.must_read()?;
    let page = app.store().list_prices(&caller.principal.org, &query.request()?).await?;
    Ok(Json(Page { items: page.items.into_iter().map(view).collect(), next: page.next }))
}

fn view(price: PriceSetting) -> PriceView {
    PriceView {
        action: price.action.to_string(),
        price: (&price.row.price).into(),
        version: price.row.version,
        set_by: price.set_by.to_string(),
        set_at: price.set_at,
    }
}

/// Says what a call of an action costs: one call, or one unit that a field of its result counts. It holds for calls that begin from then on.
#[utoipa::path(operation_id = "prices_set", put, path = "/api/v1/prices/{action}", tag = "prices", params(("action" = String, Path)), request_body = PriceTerms,
    responses((status = 200, body = PriceChangeResponse)))]
pub(super) async fn set(
    State(app): State<App>,
    caller: Caller,
    Path(action): Path<String>,
    Strict(body): Strict<PriceTerms>,
) -> Result<Json<PriceChangeResponse>, Refusal> {
    let (action, version) = prices::set(&app, &caller.principal, &action, &body).await?;
    Ok(Json(PriceChangeResponse { action: action.to_string(), price: Some(body), version }))
}

/// Removes the price of an action: its calls cost nothing from then on.
#[utoipa::path(operation_id = "prices_remove", delete, path = "/api/v1/prices/{action}", tag = "prices", params(("action" = String, Path)),
    responses((status = 200, body = PriceChangeResponse)))]
pub(super) async fn remove(
    State(app): State<App>,
    caller: Caller,
    Path(action): Path<String>,
) -> Result<Json<PriceChangeResponse>, Refusal> {
    let (action, version) = prices::remove(&app, &caller.principal, &action).await?;
    Ok(Json(PriceChangeResponse { action: action.to_string(), price: None, version }))
}
