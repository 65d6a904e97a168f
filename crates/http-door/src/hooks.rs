//! Where webhooks fire automations. There is no login: a webhook has a token of its own, or signs what it sends.

use super::automations::{fired, key_of};
use super::body::{is_json, read};
use super::caller::bearer;
use super::problem::Refusal;
use crate::limits::HOOK_BODY_BYTES_MAX;
use api::automation::FiredResponse;
use api::{Code, Problem};
use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode};
use operations::App;
use operations::hooks::{self, Signed};

/// Fires a webhook of an automation. The answer says what it came to, also if it started nothing.
#[utoipa::path(operation_id = "automations_fire", post, path = "/api/v1/automations/{automation}/fire", tag = "automations", security(()),
    params(
        ("automation" = String, Path, description = "The id of the automation."),
        ("Authorization" = Option<String>, Header, description = "`Bearer cs_hook_…`: the token of the webhook, unless it signs."),
        ("Idempotency-Key" = Option<String>, Header, description = "The same key and body fire once, for 24 hours. It may be the member `idempotency_key` of the body instead."),
        ("Countersign-Chain" = Option<String>, Header, description = "The header of a call of a run, sent back as it came: it keeps automations from firing each other for ever."),
        ("webhook-id" = Option<String>, Header, description = "Standard Webhooks: names the message; of a signed webhook the idempotency key if there is no other."),
        ("webhook-timestamp" = Option<String>, Header, description = "Standard Webhooks: when it was signed, in seconds since 1970."),
        ("webhook-signature" = Option<String>, Header, description = "Standard Webhooks: `v1,` and the HMAC-SHA256 of `id.timestamp.body`; several are separated by spaces."),
    ),
    request_body = Value,
    responses(
        (status = 202, description = "What it came to; `Location` is the run, if one was started.", body = FiredResponse),
        (status = 401, description = "The token or the signature is wrong, or there is no such automation.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "The automation is paused, or the trigger is disabled.", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "The inputs do not fit, or the key was used for another body.", body = Problem, content_type = "application/problem+json"),
        (status = 429, description = "It fires too often: `Retry-After` says when to come back.", body = Problem, content_type = "application/problem+json"),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
    ))]
pub(super) async fn fire(
    State(app): State<App>,
    Path(automation): Path<String>,
    request: Request,
) -> Result<(StatusCode, HeaderMap, Json<FiredResponse>), Refusal> {
    let (parts, body) = request.into_parts();
    if !is_json(&parts.headers) {
        return Err(Refusal::new(
            Code::UnsupportedMediaType,
            "the body must be JSON, `{}` at least, with `content-type: application/json`",
        ));
    }
    let header = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let signed = header("webhook-signature").map(|signatures| Signed {
        id: header("webhook-id").unwrap_or_default(),
        timestamp: header("webhook-timestamp").unwrap_or_default(),
        signatures,
    });
    let key = key_of(&parts.headers)?;
    let body = read(body, HOOK_BODY_BYTES_MAX).await?;
    let chain = header("countersign-chain");
    let request = hooks::Request { bearer: bearer(&parts.headers), signed, key, chain, body: &body };
    Ok(fired(&app, &hooks::fire(&app, &automation, request).await?))
}
