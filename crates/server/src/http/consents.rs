//! Consents: people give and withdraw their own.

use super::body::Strict;
use super::caller::Caller;
use super::page::{Asked, PageQuery, seconds_of};
use super::problem::Refusal;
use crate::App;
use api::gates::{ConsentState, ConsentView, NewConsentRequest};
use api::{Code, Page, Problem};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use countersign_core::consent::{Consent, is_purpose};
use countersign_core::limits::{CONSENT_SECONDS_MAX, REASON_CHARS_MAX};
use countersign_core::ports::Invocations;
use countersign_core::principal::Permission;
use countersign_core::{ConsentId, PrincipalId, Timestamp, UserId};
use store::NewConsent;

/// Consents, newest first: everyone's for an admin, one's own for everybody else.
#[utoipa::path(operation_id = "consents_list", get, path = "/api/v1/consents", tag = "consents", params(PageQuery),
    responses((status = 200, body = Page<ConsentView>), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    Asked(query): Asked<PageQuery>,
) -> Result<Json<Page<ConsentView>>, Refusal> {
    caller.must(Permission::Read)?;
    let own = person(&caller).ok().filter(|_| !caller.principal.may(Permission::ManageIdentity));
    let page = app.store().list_consents(&caller.principal.org, own, &query.request()?).await?;
    let now = app.store().now().await?;
    Ok(Json(Page { items: page.items.iter().map(|consent| view(consent, now)).collect(), next: page.next }))
}

/// Gives your own consent to a purpose. Only people can.
#[utoipa::path(operation_id = "consents_give", post, path = "/api/v1/consents", tag = "consents", request_body = NewConsentRequest,
    responses((status = 201, body = ConsentView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn give(
    State(app): State<App>,
    caller: Caller,
    Strict(body): Strict<NewConsentRequest>,
) -> Result<(StatusCode, Json<ConsentView>), Refusal> {
    let user = person(&caller)?.clone();
    let wrong = |message: String| Refusal::new(Code::InvalidRequest, message);
    if !is_purpose(&body.purpose) {
        return Err(wrong("`purpose` must be a kind and a name, such as `action:files.write_text`".to_owned()));
    }
    if body.evidence.as_ref().is_some_and(|words| words.chars().count() > REASON_CHARS_MAX || words.contains('\0')) {
        return Err(wrong(format!("`evidence` is longer than {REASON_CHARS_MAX} characters, or holds U+0000")));
    }
    let org = &caller.principal.org;
    let space = match &body.space_id {
        Some(text) => Some(caller.space(&app, text).await?),
        None => None,
    };
    let lifetime_seconds = body.expires_in.as_deref().map(|text| seconds_of("expires_in", text, CONSENT_SECONDS_MAX)).transpose()?;
    let evidence = body.evidence.as_deref().map(policy::redact_text);
    let given = app.store().give_consent(org, NewConsent { user, space, purpose: body.purpose, evidence, lifetime_seconds }).await?;
    Ok((StatusCode::CREATED, Json(view(&given, given.given_at))))
}

/// Withdraws your consent at once: no call that needs it starts any more.
#[utoipa::path(operation_id = "consents_withdraw", delete, path = "/api/v1/consents/{consent}", tag = "consents", params(("consent" = String, Path)),
    responses((status = 200, body = ConsentView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn withdraw(State(app): State<App>, caller: Caller, Path(consent): Path<String>) -> Result<Json<ConsentView>, Refusal> {
    let user = person(&caller)?;
    let unknown = || Refusal::new(Code::NotFound, "you have no such live consent").hint("list them with `GET /api/v1/consents`");
    let id = ConsentId::parse(&consent).map_err(|_| unknown())?;
    let withdrawn = app.store().withdraw_consent(&caller.principal.org, &id, user).await?.ok_or_else(unknown)?;
    Ok(Json(view(&withdrawn, app.store().now().await?)))
}

fn person(caller: &Caller) -> Result<&UserId, Refusal> {
    match &caller.principal.id {
        PrincipalId::User(user) => Ok(user),
        PrincipalId::Agent(_) | PrincipalId::Service(_) | PrincipalId::Automation(_) => {
            Err(Refusal::new(Code::Forbidden, "only people give consent, and only their own"))
        }
    }
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
