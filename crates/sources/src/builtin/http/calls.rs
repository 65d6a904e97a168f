//! The calls of `http`: turns params into a request, and the response into a result.

use super::HttpConfig;
use crate::Error as SetupError;
use crate::limits::{HTTP_REQUEST_BYTES_MAX, HTTP_RESPONSE_BYTES_MAX};
use crate::web::{Allowed, Body, Deadline, Ended, Exchange, HostList, Sent, Target, asks_to_come_back, headers};
use crate::words::{failed, patience, refused};
use countersign_core::source::{CallContext, Error, Output, unavailable};
use reqwest::header::HeaderValue;
use reqwest::{Method, Response, StatusCode};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Get {
    url: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    method: Verb,
    url: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    body: Option<String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum Verb {
    Post,
    Put,
    Patch,
    Delete,
}

/// The client, and what it may reach.
pub(super) struct Calls {
    exchange: Exchange,
    allowed: Allowed,
}

impl Calls {
    pub(super) fn new(config: HttpConfig) -> Result<Self, SetupError> {
        let hosts = HostList { rules: config.allowed_hosts, setting: "http.allowed_hosts", who: "an operator" };
        let allowed = Allowed::new(hosts, config.allowed_networks, "http.allowed_networks");
        Ok(Self { exchange: Exchange::new("http", &allowed)?, allowed })
    }

    /// Whether the URL may be requested at all. The address behind its name is checked when the request is made.
    pub(super) fn check(&self, url: &str) -> Result<(), Error> {
        Target::check(url, &self.allowed).map(|_| ())
    }

    pub(super) async fn get(&self, context: &CallContext, params: &Get) -> Result<Output, Error> {
        let deadline = deadline(context);
        let target = Target::check(&params.url, &self.allowed)?;
        let headers = headers::checked(params.headers.iter())?;
        let response = self.exchange.follow(Method::GET, target, headers, &self.allowed, deadline, |_| {}).await?;
        if let Some(retry_after_ms) = asks_to_come_back(&response) {
            let message = format!("it answered {}", response.status());
            return Err(Error::Busy { source_id: "http".to_owned(), message, retry_after_ms });
        }
        if let Some(code) = unavailable(response.status().as_u16()) {
            return Err(failed(code, format!("the host answered {}; nothing was changed", response.status())));
        }
        let head = Head::of(&response);
        let body = self.exchange.read(response, HTTP_RESPONSE_BYTES_MAX, deadline).await;
        match body.ended {
            Ended::Whole | Ended::Cut => Ok(head.with(&body)),
            // The caller asked for the body, so half of it is no answer.
            Ended::Failed(error) => Err(error),
        }
    }

    pub(super) async fn request(&self, context: &CallContext, params: Request) -> Result<Output, Error> {
        let deadline = deadline(context);
        let target = Target::check(&params.url, &self.allowed)?;
        let mut headers = headers::checked(params.headers.iter())?;
        // A caller cannot say it for itself.
        headers.remove(CHAIN);
        if let Some(chain) = context.chain.as_deref().and_then(|chain| HeaderValue::from_str(chain).ok()) {
            headers.insert(CHAIN, chain);
        }
        if params.body.as_ref().is_some_and(|body| body.len() > HTTP_REQUEST_BYTES_MAX) {
            return Err(refused("body_too_large", format!("the body is longer than {HTTP_REQUEST_BYTES_MAX} bytes")));
        }
        let method = match params.method {
            Verb::Post => Method::POST,
            Verb::Put => Method::PUT,
            Verb::Patch => Method::PATCH,
            Verb::Delete => Method::DELETE,
        };
        let sent = Sent { method, headers, body: params.body.map(String::into_bytes), is_read: false };
        let response = self.exchange.send(sent, &target, &self.allowed, deadline).await?;
        let head = Head::of(&response);
        // The status has arrived, so the effect is known. A body that breaks off does not put the call in doubt again.
        Ok(head.with(&self.exchange.read(response, HTTP_RESPONSE_BYTES_MAX, deadline).await))
    }
}

/// The automations that led to the request; see `CallContext::chain`.
const CHAIN: &str = "countersign-chain";

/// The header by which most providers recognise a request they have seen.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

impl Request {
    /// Whether the request has an idempotency key, so that sending it twice has one effect.
    pub(super) fn has_key(&self) -> bool {
        self.headers.iter().any(|(name, value)| name.eq_ignore_ascii_case(IDEMPOTENCY_KEY) && !value.trim().is_empty())
    }
}

/// Whether the answer to a repeated request also tells what became of the first one. It does not if the provider is still busy with it or
/// fails.
pub(super) fn tells(output: &Output) -> bool {
    let status = output.value["status"].as_u64().and_then(|status| u16::try_from(status).ok());
    let status = status.and_then(|status| StatusCode::from_u16(status).ok());
    status.is_some_and(|status| {
        let is_busy = matches!(status, StatusCode::CONFLICT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS);
        !is_busy && !status.is_server_error()
    })
}

fn deadline(context: &CallContext) -> Deadline {
    Deadline::after(patience(context), context.timeout_ms)
}

/// A response without its body.
struct Head {
    status: StatusCode,
    headers: BTreeMap<String, String>,
    url: String,
}

impl Head {
    fn of(response: &Response) -> Self {
        Self { status: response.status(), headers: headers::received(response.headers()), url: response.url().to_string() }
    }

    fn with(self, body: &Body) -> Output {
        let (encoding, text) = body.text();
        let value = json!({
            "status": self.status.as_u16(),
            "headers": self.headers,
            "body": text,
            "encoding": encoding,
            "truncated": !matches!(body.ended, Ended::Whole),
            "url": self.url,
        });
        Output { value, quality_thousandths: if self.status.is_success() { 1_000 } else { 0 }, evidence: None }
    }
}
