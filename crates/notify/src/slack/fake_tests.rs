//! A Slack for tests: it takes requests as Slack's published description has them and nothing else, answers in its form, and signs what
//! somebody presses as Slack does.

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use hmac::{Hmac, KeyInit, Mac};
use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::Sha256;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use url::form_urlencoded;

pub(crate) const TOKEN: &str = "xoxb-of-the-tests";
pub(crate) const SIGNING_SECRET: &str = "8f742231b10e8888abcd99yyyzzz85a5";
pub(crate) const CHANNEL: &str = "C0123456789";
/// Where people press buttons: an app has one address for all of its channels, so it need not be the channel of that address.
pub(crate) const PRESSED_IN: &str = "C9876543210";

/// Clones share everything.
#[derive(Clone)]
pub(crate) struct FakeSlack {
    pub(crate) api_url: String,
    state: Arc<Mutex<Told>>,
}

#[derive(Default)]
struct Told {
    /// How many requests came in.
    asked: usize,
    /// The method and the form of each request that was taken.
    taken: Vec<(String, BTreeMap<String, String>)>,
    /// What is answered instead of taking the next requests: a status and an error.
    refuse: Option<(u16, &'static str)>,
}

impl FakeSlack {
    pub(crate) async fn start() -> Self {
        let state = Arc::new(Mutex::new(Told::default()));
        let router = Router::new().route("/api/{method}", post(answer)).with_state(Arc::clone(&state));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let api_url = format!("http://{}/api", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { api_url, state }
    }

    /// The host, as an operator allows it.
    pub(crate) fn host(&self) -> &str {
        self.api_url.trim_end_matches("/api")
    }

    pub(crate) fn refuse(&self, refuse: Option<(u16, &'static str)>) {
        self.state.lock().refuse = refuse;
    }

    /// How many requests came in so far, taken or not.
    pub(crate) fn asked(&self) -> usize {
        self.state.lock().asked
    }

    /// The requests of this method so far.
    pub(crate) fn taken(&self, method: &str) -> Vec<BTreeMap<String, String>> {
        self.state.lock().taken.iter().filter(|(taken, _)| taken == method).map(|(_, form)| form.clone()).collect()
    }
}

/// The blocks of a request.
pub(crate) fn blocks(form: &BTreeMap<String, String>) -> Vec<Value> {
    serde_json::from_str(&form["blocks"]).unwrap()
}

/// The button of this name: its `action_id` and its `value`.
pub(crate) fn button(form: &BTreeMap<String, String>, label: &str) -> Option<Value> {
    let actions = blocks(form).into_iter().find(|block| block["type"] == "actions")?;
    actions["elements"].as_array().unwrap().iter().find(|button| button["text"]["text"] == label).cloned()
}

/// The body of the request that Slack sends when this user presses the button.
pub(crate) fn pressed(user: &str, button: &Value) -> String {
    // No two presses are the same request.
    static PRESSES: AtomicU64 = AtomicU64::new(0);
    let at = format!("1548426417.{:06}", PRESSES.fetch_add(1, Ordering::SeqCst));
    let action = json!({ "action_id": button["action_id"], "block_id": "x", "type": "button", "value": button["value"], "action_ts": at });
    let payload = json!({
        "type": "block_actions",
        "team": { "id": "T0123456789", "domain": "example" },
        "user": { "id": user, "username": "somebody", "team_id": "T0123456789" },
        "api_app_id": "A0123456789",
        "container": { "type": "message", "channel_id": PRESSED_IN, "message_ts": "1548261231.000200" },
        "channel": { "id": PRESSED_IN, "name": "approvals" },
        "response_url": "https://hooks.slack.com/actions/T0123456789/1/x",
        "actions": [action],
    });
    form_urlencoded::Serializer::new(String::new()).append_pair("payload", &payload.to_string()).finish()
}

/// `X-Slack-Signature` of a body.
pub(crate) fn signature(secret: &str, timestamp: &str, body: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(format!("v0:{timestamp}:{body}").as_bytes());
    format!("v0={}", hex::encode(mac.finalize().into_bytes()))
}

async fn answer(State(state): State<Arc<Mutex<Told>>>, Path(method): Path<String>, headers: HeaderMap, body: String) -> Response {
    let refused = {
        let mut told = state.lock();
        told.asked += 1;
        told.refuse
    };
    if let Some((status, error)) = refused {
        let status = StatusCode::from_u16(status).unwrap();
        return (status, axum::Json(json!({ "ok": false, "error": error }))).into_response();
    }
    let sent = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    if sent(header::AUTHORIZATION) != format!("Bearer {TOKEN}") {
        return axum::Json(json!({ "ok": false, "error": "invalid_auth" })).into_response();
    }
    let form: Vec<(String, String)> = form_urlencoded::parse(body.as_bytes()).into_owned().collect();
    if let Err(wrong) = fits(&method, &sent(header::CONTENT_TYPE), &form) {
        return axum::Json(json!({ "ok": false, "error": "invalid_arg_name", "detail": wrong })).into_response();
    }
    let form: BTreeMap<String, String> = form.into_iter().collect();
    let mut told = state.lock();
    let ts = form.get("ts").cloned().unwrap_or_else(|| format!("1548261231.{:06}", told.taken.len()));
    let text = form.get("text").cloned().unwrap_or_default();
    let said = match method.as_str() {
        "chat.postEphemeral" => json!({ "ok": true, "message_ts": ts }),
        "chat.update" => json!({ "ok": true, "channel": form["channel"], "ts": ts, "text": text, "message": { "text": text } }),
        _ => json!({ "ok": true, "channel": form["channel"], "ts": ts, "message": { "text": text } }),
    };
    told.taken.push((method, form));
    axum::Json(said).into_response()
}

/// What is wrong with a request by Slack's published description, if anything is.
pub(crate) fn fits(method: &str, content_type: &str, form: &[(String, String)]) -> Result<(), String> {
    let published: Value = serde_json::from_str(include_str!("published.json")).unwrap();
    let described = &published["methods"][method];
    if described.is_null() {
        return Err(format!("there is no method {method}"));
    }
    if !published["consumes"].as_array().unwrap().iter().any(|known| known == content_type) {
        return Err(format!("{content_type} is not taken"));
    }
    for (name, value) in form {
        let kind = &described["parameters"][name];
        if kind.is_null() || form.iter().filter(|(other, _)| other == name).count() > 1 {
            return Err(format!("{method} does not have {name}, or not twice"));
        }
        if kind == "boolean" && value != "true" && value != "false" {
            return Err(format!("{name} is neither true nor false"));
        }
    }
    for required in described["required"].as_array().unwrap() {
        if !form.iter().any(|(name, value)| *required == json!(name) && !value.is_empty()) {
            return Err(format!("{required} is missing"));
        }
    }
    let blocks = form.iter().find(|(name, _)| name == "blocks").map_or("[]", |(_, blocks)| blocks);
    let blocks: Vec<Value> = serde_json::from_str(blocks).map_err(|error| error.to_string())?;
    if blocks.len() as u64 > published["block_kit"]["blocks_max"].as_u64().unwrap() {
        return Err("there are too many blocks".to_owned());
    }
    blocks.iter().try_for_each(|block| fits_kit(&published["block_kit"], block))
}

/// What is wrong with a block by Block Kit's reference.
fn fits_kit(kit: &Value, block: &Value) -> Result<(), String> {
    let most = |name: &str| usize::try_from(kit[name].as_u64().unwrap()).unwrap();
    let text = |object: &Value, max: usize| {
        let length = object["text"].as_str().map_or(0, |text| text.chars().count());
        let fits = object["type"] == "plain_text" && object["emoji"].is_boolean() && (1..=max).contains(&length);
        if fits { Ok(()) } else { Err(format!("a text has {length} of {max} characters, or is no plain text: {object}")) }
    };
    let only = |object: &Value, known: &[&str]| {
        let unknown = object.as_object().unwrap().keys().find(|key| !known.contains(&key.as_str())).cloned();
        unknown.map_or(Ok(()), |key| Err(format!("{key} is unknown in {object}")))
    };
    let elements = |max: usize| {
        let elements = block["elements"].as_array().filter(|elements| (1..=max).contains(&elements.len()));
        elements.ok_or_else(|| format!("the elements of {block}"))
    };
    match block["type"].as_str() {
        Some("header") => only(block, &["type", "text", "block_id"]).and(text(&block["text"], most("header_text_max"))),
        Some("section") => {
            only(block, &["type", "text", "fields", "accessory", "block_id", "expand"]).and(text(&block["text"], most("section_text_max")))
        }
        Some("context") => {
            only(block, &["type", "elements", "block_id"])?;
            elements(most("context_elements_max"))?.iter().try_for_each(|element| text(element, most("section_text_max")))
        }
        Some("actions") => {
            only(block, &["type", "elements", "block_id"])?;
            let buttons = elements(most("actions_elements_max"))?;
            let ids: std::collections::BTreeSet<_> = buttons.iter().map(|button| button["action_id"].to_string()).collect();
            if ids.len() < buttons.len() {
                return Err("two buttons have one id".to_owned());
            }
            buttons.iter().try_for_each(|button| {
                only(button, &["type", "text", "action_id", "url", "value", "style", "confirm", "accessibility_label"])?;
                text(&button["text"], most("button_text_max"))?;
                let short = |name: &str, max: usize| button[name].as_str().is_none_or(|text| text.chars().count() <= max);
                let is_styled = button["style"].is_null() || kit["styles"].as_array().unwrap().contains(&button["style"]);
                let fits = button["type"] == "button" && short("action_id", most("action_id_max")) && short("value", most("value_max"));
                if fits && short("url", most("url_max")) && is_styled { Ok(()) } else { Err(format!("a button: {button}")) }
            })
        }
        other => Err(format!("a block of the type {other:?}")),
    }
}
