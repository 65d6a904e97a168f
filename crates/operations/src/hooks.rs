//! Webhooks that fire automations. There is no login: whoever has the token of a webhook, or signs with its secret, fires it, and nobody else.

pub use notify::webhook::Signed;

use super::Error;
use super::runs::{self, Answered};
use crate::App;
use crate::limits::HOOK_WINDOW_SECONDS;
use ::runs::Hook;
use countersign_core::automation::Trigger;
use countersign_core::ports::secrets::SecretName;
use countersign_core::ports::{Invocations, Secrets};
use countersign_core::{AutomationId, json};
use notify::webhook;
use serde_json::Value;

/// The member of a body that is no part of what is asked for.
const KEY_MEMBER: &str = "idempotency_key";

/// A request to fire a webhook, as it came in.
pub struct Request<'a> {
    pub bearer: Option<&'a str>,
    /// Its headers, if it has a signature. They count only where the webhook is signed.
    pub signed: Option<Signed<'a>>,
    /// The header `Idempotency-Key`.
    pub key: Option<&'a str>,
    /// The header `Countersign-Chain`.
    pub chain: Option<&'a str>,
    pub body: &'a [u8],
}

pub async fn fire(app: &App, automation: &str, request: Request<'_>) -> Result<Answered, Error> {
    let (trigger, message) = authenticated(app, automation, &request).await?;
    super::must_be_enabled(app, &trigger.org, "webhook").await?;
    if request.body.is_empty() {
        return Err(Error::Json(json::Error { pointer: String::new(), message: "it is empty; send `{}` at least".to_owned() }));
    }
    let mut payload = json::parse_exact(request.body).map_err(Error::Json)?;
    let own = payload.as_object_mut().and_then(|members| members.shift_remove(KEY_MEMBER));
    let own = match own {
        None => None,
        Some(Value::String(key)) => Some(key),
        Some(_) => return Err(Error::invalid(format!("`{KEY_MEMBER}` is not a text"))),
    };
    // A sender that signs names every message, and sends it again under the same name. SECURITY: the header is not signed, so whoever has seen
    // a message could send it again under another key.
    let named = own.as_deref().or(message);
    if request.key.zip(named).is_some_and(|(header, named)| header != named) {
        let message =
            format!("the header `Idempotency-Key` differs from `{KEY_MEMBER}` in the body, or from the `webhook-id` that is signed");
        return Err(Error::invalid(message));
    }
    let key = request.key.or(named);
    let key = key.map(|key| runs::keyed(key, &payload)).transpose()?;
    // One that this org did not sign says nothing.
    let chain = request.chain.and_then(|chain| app.store().read_chain(&trigger.org, chain)).unwrap_or_default();
    let fired = app.engine().fire_hook(Hook { trigger, payload, key, chain }).await?;
    runs::answered(fired, automation)
}

/// The webhook that this request may fire, and the name of the message if it is signed. SECURITY: an automation that is not there sounds like a
/// token, or a signature, that is wrong.
async fn authenticated<'a>(app: &App, automation: &str, request: &Request<'a>) -> Result<(Trigger, Option<&'a str>), Error> {
    let id = AutomationId::parse(automation).ok();
    let by_token = match (&id, request.bearer) {
        (Some(id), Some(token)) => Some(app.store().find_hook(id, token).await?.ok_or(Error::HookRefused)?),
        (None, _) | (_, None) => None,
    };
    let signed_hooks = match &id {
        Some(id) => app.store().list_signed_hooks(id).await?,
        None => Vec::new(),
    };
    let by_token = match by_token {
        Some(trigger) if !signed_hooks.iter().any(|(hook, _)| hook.id == trigger.id) => return Ok((trigger, None)),
        other => other,
    };
    let Some(signed) = request.signed else {
        // A token does not replace the signature of a webhook that has to have one.
        return Err(if by_token.is_some() { Error::SignatureInvalid } else { Error::HookRefused });
    };
    // Each is tried, so that one automation may have several senders.
    for (hook, secret) in signed_hooks {
        if by_token.as_ref().is_none_or(|token| token.id == hook.id) && is_signed(app, &hook, &secret, signed, request.body).await? {
            return Ok((hook, Some(signed.id)));
        }
    }
    Err(Error::SignatureInvalid)
}

async fn is_signed(app: &App, hook: &Trigger, secret: &str, signed: Signed<'_>, body: &[u8]) -> Result<bool, Error> {
    let Some(name) = SecretName::parse(secret) else { return Ok(false) };
    let Some(value) = app.store().resolve_secret(&hook.org, &name).await? else { return Ok(false) };
    let now = app.store().now().await?;
    Ok(webhook::is_signed(value.expose(), signed, body, now, HOOK_WINDOW_SECONDS))
}
