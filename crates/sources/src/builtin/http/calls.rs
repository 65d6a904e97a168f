//! The calls of `http`: what was asked for, made a request, and its response made a result.

use super::HttpConfig;
use crate::Error as SetupError;
use crate::web::{Allowed, Body, Deadline, Ended, Exchange, HostList, Sent, Target, headers};
use crate::words::{patience, refused};
use countersign_core::limits::{HTTP_REQUEST_BYTES_MAX, HTTP_RESPONSE_BYTES_MAX};
use countersign_core::source::{CallContext, Error, Output};
use reqwest::header::RETRY_AFTER;
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

/// The client and what it may reach.
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

    /// Whether anything there may be asked at all. Where its name leads is seen when it is asked.
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
        let head = Head::of(&response);
        let body = self.exchange.read(response, HTTP_RESPONSE_BYTES_MAX, deadline).await;
        match body.ended {
            Ended::Whole | Ended::Cut => Ok(head.with(&body)),
            // The body is what was asked for; half of it is no answer.
            Ended::Failed(error) => Err(error),
        }
    }

    pub(super) async fn request(&self, context: &CallContext, params: Request) -> Result<Output, Error> {
        let deadline = deadline(context);
        let target = Target::check(&params.url, &self.allowed)?;
        let headers = headers::checked(params.headers.iter())?;
        if params.body.as_ref().is_some_and(|body| body.len() > HTTP_REQUEST_BYTES_MAX) {
            return Err(refused("body_too_large", format!("the body is longer than {HTTP_REQUEST_BYTES_MAX} bytes")));
        }
        let method = match params.method {
            Verb::Post => Method::POST,
            Verb::Put => Method::PUT,
            Verb::Patch => Method::PATCH,
            Verb::Delete => Method::DELETE,
        };
        let sent = Sent { method, headers, body: params.body.map(String::into_bytes) };
        let response = self.exchange.send(sent, &target, &self.allowed, deadline).await?;
        let head = Head::of(&response);
        // The status has arrived, so the effect is known; a body that breaks off does not put it in doubt again.
        Ok(head.with(&self.exchange.read(response, HTTP_RESPONSE_BYTES_MAX, deadline).await))
    }
}

/// How a provider recognises a request it has seen, as most of them have it.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

impl Request {
    /// Whether the provider was given a key: then the same request twice is one.
    pub(super) fn has_key(&self) -> bool {
        self.headers.iter().any(|(name, value)| name.eq_ignore_ascii_case(IDEMPOTENCY_KEY) && !value.trim().is_empty())
    }
}

/// Whether this answer, to a request made again, also tells what became of the first: not where the provider is busy with it, or
/// in no state to say.
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

/// `Some` if the server named a time to come back at. A date is later than we would wait: we have no clock to hold it against.
fn asks_to_come_back(response: &Response) -> Option<Option<u64>> {
    let overloaded = matches!(response.status(), StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
    let after = response.headers().get(RETRY_AFTER).filter(|_| overloaded)?;
    let seconds = after.to_str().ok().and_then(|text| text.parse::<u64>().ok());
    Some(Some(seconds.map_or(u64::MAX, |seconds| seconds.saturating_mul(1_000))))
}

/// What is known of a response before its body.
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
