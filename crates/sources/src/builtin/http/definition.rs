//! The definitions of the `http` actions.

use crate::builtin::{VERSION, action_id, object_schema};
use crate::limits::{
    HTTP_HEADER_VALUE_BYTES_MAX, HTTP_HEADERS_MAX, HTTP_REDIRECTS_MAX, HTTP_REQUEST_BYTES_MAX, HTTP_RESPONSE_BYTES_MAX, HTTP_URL_BYTES_MAX,
};
use countersign_core::action::{Effect, Repeatability, Reversibility};
use countersign_core::limits::CALL_TIMEOUT_MS;
use countersign_core::{Action, Tier};
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) fn actions() -> Result<Vec<Arc<Action>>, crate::Error> {
    Ok(vec![Arc::new(get()?), Arc::new(request()?)])
}

fn get() -> Result<Action, crate::Error> {
    Ok(Action {
        version: VERSION.to_owned(),
        title: "Get a URL".to_owned(),
        description: format!("Gets a URL on an allowed host, following up to {HTTP_REDIRECTS_MAX} redirects between allowed hosts."),
        params_schema: object_schema(json!({ "url": url_schema(), "headers": headers_schema() }), &["url"]),
        result_schema: result_schema(),
        requires: vec!["http.get".to_owned()],
        effects: vec![Effect::NetworkCall],
        timeout_ms: CALL_TIMEOUT_MS,
        reversibility: Reversibility::NoEffect,
        repeatability: Repeatability::Repeatable,
        ..Action::new(action_id("http.get")?, Tier::R1)
    })
}

fn request() -> Result<Action, crate::Error> {
    Ok(Action {
        version: VERSION.to_owned(),
        title: "Send a request".to_owned(),
        description: "Sends a request that may change something to an allowed host. A redirect is returned, not followed.".to_owned(),
        params_schema: object_schema(
            json!({
                "method": { "enum": ["POST", "PUT", "PATCH", "DELETE"] },
                "url": url_schema(),
                "headers": headers_schema(),
                "body": { "type": "string", "maxLength": HTTP_REQUEST_BYTES_MAX,
                    "description": "Sent as it is; name its kind in the header `content-type`." },
            }),
            &["method", "url"],
        ),
        result_schema: result_schema(),
        requires: vec!["http.request".to_owned()],
        effects: vec![Effect::NetworkCall],
        timeout_ms: CALL_TIMEOUT_MS,
        ..Action::new(action_id("http.request")?, Tier::R3)
    })
}

fn url_schema() -> Value {
    json!({ "type": "string", "minLength": 8, "maxLength": HTTP_URL_BYTES_MAX,
        "description": "Absolute, on a host of `http.allowed_hosts`, without a user or a password." })
}

fn headers_schema() -> Value {
    json!({
        "type": "object",
        "maxProperties": HTTP_HEADERS_MAX,
        "propertyNames": { "type": "string", "minLength": 1, "maxLength": 128 },
        "additionalProperties": { "type": "string", "maxLength": HTTP_HEADER_VALUE_BYTES_MAX },
        "description": "Headers to send. Those of the connection itself, such as `host` and `content-length`, cannot be set.",
    })
}

fn result_schema() -> Value {
    object_schema(
        json!({
            "status": { "type": "integer", "minimum": 100, "maximum": 999 },
            "headers": { "type": "object", "additionalProperties": { "type": "string" } },
            "body": { "type": "string", "description": format!("At most {HTTP_RESPONSE_BYTES_MAX} bytes of it.") },
            "encoding": { "enum": ["utf8", "base64"], "description": "How `body` is written; `base64` if it is not text." },
            "truncated": { "type": "boolean", "description": "Whether there was more of the body." },
            "url": { "type": "string", "description": "Where the answer came from, after redirects." },
        }),
        &["status", "headers", "body", "encoding", "truncated", "url"],
    )
}
