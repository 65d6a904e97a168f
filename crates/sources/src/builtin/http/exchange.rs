//! One request and its response, or a chain of redirects. What each failure means for the effect is decided here:
//! not connected means nothing was sent, anything later means it may have happened.

use super::HttpConfig;
use super::address::{AddressRefused, AddressRule};
use super::headers;
use super::host_rule::{HostRule, Scheme};
use super::resolver::CheckedResolver;
use super::target::{Target, address_not_allowed};
use crate::Error as SetupError;
use crate::words::{failed, patience, refused};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use countersign_core::limits::{HTTP_CONNECT_MS, HTTP_REDIRECTS_MAX, HTTP_REQUEST_BYTES_MAX, HTTP_RESPONSE_BYTES_MAX};
use countersign_core::source::{CallContext, Error, Output};
use reqwest::header::{HeaderMap, LOCATION, RETRY_AFTER};
use reqwest::{Client, Method, Response, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use url::Url;

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
pub(super) struct Exchange {
    client: Client,
    hosts: Vec<HostRule>,
    addresses: Arc<AddressRule>,
}

impl Exchange {
    pub(super) fn new(config: HttpConfig) -> Result<Self, SetupError> {
        let addresses = Arc::new(AddressRule::new(config.allowed_networks));
        let client = client(&config.allowed_hosts, addresses.clone())?;
        Ok(Self { client, hosts: config.allowed_hosts, addresses })
    }

    /// Follows redirects by hand: each is checked like the first URL.
    pub(super) async fn get(&self, context: &CallContext, params: &Get) -> Result<Output, Error> {
        let deadline = Deadline::of(context);
        let mut target = Target::check(&params.url, &self.hosts, &self.addresses)?;
        let mut headers = headers::checked(&params.headers)?;
        for _ in 0..=HTTP_REDIRECTS_MAX {
            let response = self.send(Method::GET, &target, headers.clone(), None, deadline).await?;
            if let Some(location) = redirect(&response)? {
                let next = target.redirected(location, &self.hosts, &self.addresses)?;
                if !next.is_same_origin(&target) {
                    headers = headers::for_another_origin(&headers);
                }
                target = next;
                continue;
            }
            if let Some(retry_after_ms) = asks_to_come_back(&response) {
                let message = format!("it answered {}", response.status());
                return Err(Error::Busy { source_id: "http".to_owned(), message, retry_after_ms });
            }
            let head = Head::of(&response);
            let body = Body::read(response, deadline).await;
            return match body.ended {
                Ended::Whole | Ended::Cut => Ok(head.with(&body)),
                // The body is what was asked for; half of it is no answer.
                Ended::Failed(error) => Err(error),
            };
        }
        Err(failed("too_many_redirects", format!("the answer lies behind more than {HTTP_REDIRECTS_MAX} redirects")))
    }

    /// Follows nothing: where a request with an effect goes is where it was sent, and a redirect is its answer.
    pub(super) async fn request(&self, context: &CallContext, params: Request) -> Result<Output, Error> {
        let deadline = Deadline::of(context);
        let target = Target::check(&params.url, &self.hosts, &self.addresses)?;
        let headers = headers::checked(&params.headers)?;
        if params.body.as_ref().is_some_and(|body| body.len() > HTTP_REQUEST_BYTES_MAX) {
            return Err(refused("body_too_large", format!("the body is longer than {HTTP_REQUEST_BYTES_MAX} bytes")));
        }
        let method = match params.method {
            Verb::Post => Method::POST,
            Verb::Put => Method::PUT,
            Verb::Patch => Method::PATCH,
            Verb::Delete => Method::DELETE,
        };
        let response = self.send(method, &target, headers, params.body, deadline).await?;
        let head = Head::of(&response);
        // The status has arrived, so the effect is known; a body that breaks off does not put it in doubt again.
        Ok(head.with(&Body::read(response, deadline).await))
    }

    async fn send(
        &self,
        method: Method,
        target: &Target,
        headers: HeaderMap,
        body: Option<String>,
        deadline: Deadline,
    ) -> Result<Response, Error> {
        let mut request = self.client.request(method, target.url().clone()).headers(headers);
        if let Some(body) = body {
            request = request.body(body);
        }
        match timeout_at(deadline.at, request.send()).await {
            Ok(sent) => sent.map_err(|error| deadline.meaning(&error, target.url())),
            Err(_) => Err(deadline.passed()),
        }
    }
}

fn client(hosts: &[HostRule], addresses: Arc<AddressRule>) -> Result<Client, SetupError> {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        return Err(SetupError::HttpClient { message: "no rustls provider is installed".to_owned() });
    }
    let builder = Client::builder()
        .user_agent(concat!("countersign/", env!("CARGO_PKG_VERSION")))
        // SECURITY: a proxy would resolve names itself, past the resolver's check.
        .no_proxy()
        .dns_resolver(CheckedResolver(addresses))
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        // Sending again is the pipeline's decision, and it must know that it happened.
        .retry(reqwest::retry::never())
        // A connection per call: whether one was made tells whether anything was sent.
        .pool_max_idle_per_host(0)
        .connect_timeout(Duration::from_millis(HTTP_CONNECT_MS));
    let needs_certificates = hosts.iter().any(|rule| match rule.scheme() {
        Scheme::Https => true,
        Scheme::Http => false,
    });
    // Without an https host a machine without certificates is fine.
    let builder = if needs_certificates { builder } else { builder.tls_certs_only([]) };
    builder.build().map_err(|error| SetupError::HttpClient { message: root_cause(&error) })
}

/// When the source stops waiting, and what that means.
#[derive(Clone, Copy)]
struct Deadline {
    at: Instant,
    timeout_ms: u64,
}

impl Deadline {
    fn of(context: &CallContext) -> Self {
        Self { at: Instant::now() + patience(context), timeout_ms: context.timeout_ms }
    }

    fn passed(self) -> Error {
        Error::TimedOut { source_id: "http".to_owned(), timeout_ms: self.timeout_ms }
    }

    /// What a client error says about the effect. Unless it is known that there was no connection, something was sent.
    fn meaning(self, error: &reqwest::Error, url: &Url) -> Error {
        let source_id = || "http".to_owned();
        if causes(error).any(|cause| cause.is::<AddressRefused>()) {
            address_not_allowed(url)
        } else if error.is_builder() {
            refused("url_not_allowed", "the URL cannot be requested")
        } else if error.is_connect() || error.is_dns() {
            Error::Unreachable { source_id: source_id(), message: root_cause(error) }
        } else if error.is_timeout() {
            self.passed()
        } else {
            Error::Broken { source_id: source_id(), message: root_cause(error) }
        }
    }
}

/// An error and what caused it, outermost first.
fn causes<'e>(error: &'e (dyn std::error::Error + 'static)) -> impl Iterator<Item = &'e (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |error| error.source())
}

/// The innermost cause: it says what happened, and it carries no URL.
fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    causes(error).last().map_or_else(String::new, ToString::to_string)
}

/// Where a response sends its reader, if it does.
fn redirect(response: &Response) -> Result<Option<&str>, Error> {
    let moves = matches!(
        response.status(),
        StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT
    );
    match response.headers().get(LOCATION) {
        Some(location) if moves => {
            location.to_str().map(Some).map_err(|_| refused("url_not_allowed", "the redirect does not lead to a URL"))
        }
        Some(_) | None => Ok(None),
    }
}

/// `Some` if the server named a time to come back at; the time itself if it gave it in seconds.
fn asks_to_come_back(response: &Response) -> Option<Option<u64>> {
    let overloaded = matches!(response.status(), StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
    let after = response.headers().get(RETRY_AFTER).filter(|_| overloaded)?;
    let seconds = after.to_str().ok().and_then(|text| text.parse::<u64>().ok());
    Some(seconds.map(|seconds| seconds.saturating_mul(1_000)))
}

/// What is known of a response before its body.
struct Head {
    status: StatusCode,
    headers: Value,
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

struct Body {
    bytes: Vec<u8>,
    ended: Ended,
}

/// Why there is no more of a body.
enum Ended {
    Whole,
    /// At our bound.
    Cut,
    Failed(Error),
}

impl Body {
    async fn read(mut response: Response, deadline: Deadline) -> Self {
        let mut bytes = Vec::new();
        let ended = loop {
            match timeout_at(deadline.at, response.chunk()).await {
                Ok(Ok(Some(chunk))) => {
                    let room = HTTP_RESPONSE_BYTES_MAX - bytes.len();
                    bytes.extend_from_slice(&chunk[..chunk.len().min(room)]);
                    if chunk.len() > room {
                        break Ended::Cut;
                    }
                }
                Ok(Ok(None)) => break Ended::Whole,
                Ok(Err(error)) => break Ended::Failed(deadline.meaning(&error, response.url())),
                Err(_) => break Ended::Failed(deadline.passed()),
            }
        };
        Self { bytes, ended }
    }

    /// Text as it is, anything else in base64: nothing is mangled.
    fn text(&self) -> (&'static str, String) {
        match (std::str::from_utf8(&self.bytes), &self.ended) {
            (Ok(text), _) => ("utf8", text.to_owned()),
            // The cut may have fallen inside a character; what comes before it is still text.
            (Err(error), Ended::Cut | Ended::Failed(_)) if error.error_len().is_none() => {
                ("utf8", String::from_utf8_lossy(&self.bytes[..error.valid_up_to()]).into_owned())
            }
            (Err(_), Ended::Whole | Ended::Cut | Ended::Failed(_)) => ("base64", BASE64.encode(&self.bytes)),
        }
    }
}
