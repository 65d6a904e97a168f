//! Consents: people give and withdraw their own.

use super::body::Strict;
use super::caller::Caller;
use super::page::{Asked, PageQuery, seconds_of};
use super::problem::Refusal;
use api::Page;
use api::gates::{ConsentState, ConsentView, NewConsentRequest};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use countersign_core::Timestamp;
use countersign_core::consent::Consent;
use countersign_core::ports::Invocations;
use operations::App;
use operations::consents;
use operations::limits::CONSENT_SECONDS_MAX;

/// Consents, newest first: everyone's for an admin, one's own for everybody else.
#[utoipa::path(operation_id = "consents_list", get, path = "/api/v1/consents", tag = "consents", params(PageQuery),
    responses((status = 200, body = Page<ConsentView>)))]
pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    Asked(query): Asked<PageQuery>,
) -> Result<Json<Page<ConsentView>>, Refusal> {
    let page = consents::list(&app, &caller.principal, &query.request()?).await?;
    let now = app.store().now().await?;
    Ok(Json(Page { items: page.items.iter().map(|consent| view(consent, now)).collect(), next: page.next }))
}

/// Gives your own consent to a purpose. Only people can.
#[utoipa::path(operation_id = "consents_give", post, path = "/api/v1/consents", tag = "consents", request_body = NewConsentRequest,
    responses((status = 201, body = ConsentView)))]
pub(super) async fn give(
    State(app): State<App>,
    caller: Caller,
    Strict(body): Strict<NewConsentRequest>,
) -> Result<(StatusCode, Json<ConsentView>), Refusal> {
    let lifetime_seconds = body.expires_in.as_deref().map(|text| seconds_of("expires_in", text, CONSENT_SECONDS_MAX)).transpose()?;
    let (space, evidence) = (body.space_id.as_deref(), body.evidence.as_deref());
    let given = consents::give(&app, &caller.principal, body.purpose, space, evidence, lifetime_seconds).await?;
    Ok((StatusCode::CREATED, Json(view(&given, given.given_at))))
}

/// Withdraws your consent at once: no call that needs it starts any more.
#[utoipa::path(operation_id = "consents_withdraw", delete, path = "/api/v1/consents/{consent}", tag = "consents", params(("consent" = String, Path)),
    responses((status = 200, body = ConsentView)))]
pub(super) async fn withdraw(State(app): State<App>, caller: Caller, Path(consent): Path<String>) -> Result<Json<ConsentView>, Refusal> {
    let withdrawn = consents::withdraw(&app, &caller.principal, &consent).await?;
    Ok(Json(view(&withdrawn, withdrawn.given_at)))
}

fn view(consent: &Consent, now: Timestamp) -> ConsentView {
    let state = match (consent.withdrawn_at, consent.expires_at) {
        (Some(_), _) => ConsentState::Withdrawn,
        (None, Some(at)) if at <= now => ConsentState::Expired,
        (None, _) => ConsentState::Live,
    };
    ConsentView {
        id: consent.id.to_string(),
        user_id: consent.user.to_string(),
        purpose: consent.purpose.clone(),
        space_id: consent.space.as_ref().map(ToString::to_string),
        evidence: consent.evidence.clone(),
        state,
        given_at: consent.given_at,
        expires_at: consent.expires_at,
        withdrawn_at: consent.withdrawn_at,
    }
}
