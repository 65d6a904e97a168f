//! One request and its response, or a chain of redirects. This file decides what each failure means for the effect: without a connection
//! nothing was sent; after any later failure the effect may have happened.

use super::address::AddressRefused;
use super::allowed::Allowed;
use super::headers;
use super::host_rule::Scheme;
use super::resolver::{CheckedResolver, Lookup, ask_the_system};
use super::target::Target;
use crate::Error as SetupError;
use crate::limits::{HTTP_CONNECT_MS, HTTP_KEPT_CONNECTIONS_MAX, HTTP_KEPT_MS, HTTP_REDIRECTS_MAX};
use crate::words::{failed, refused};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use countersign_core::source::Error;
use reqwest::header::{DATE, HeaderMap, LOCATION, RETRY_AFTER};
use reqwest::{Client, Method, Response, StatusCode};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// The HTTP client. Every request and every redirect is checked against the hosts and addresses that are allowed.
#[derive(Debug)]
pub(crate) struct Exchange {
    client: Client,
    /// Keeps its connections, for requests that may be sent again.
    keeping: Client,
    /// The source id that errors carry.
    source_id: Arc<str>,
}

/// A request without its URL.
#[derive(Clone)]
pub(crate) struct Sent {
    pub(crate) method: Method,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<Vec<u8>>,
    /// Whether it only reads. Then it may use a connection that was used before.
    pub(crate) is_read: bool,
}

/// Before and after each request of a chain of redirects.
pub(crate) enum Step<'s> {
    Asking(&'s Target),
    Answered(&'s Result<Response, Error>),
}

impl Exchange {
    pub(crate) fn new(source_id: &str, allowed: &Allowed) -> Result<Self, SetupError> {
        Self::looking_up(source_id, allowed, ask_the_system())
    }

    pub(super) fn looking_up(source_id: &str, allowed: &Allowed, lookup: Lookup) -> Result<Self, SetupError> {
        let (client, keeping) = (client(allowed, Arc::clone(&lookup), 0)?, client(allowed, lookup, HTTP_KEPT_CONNECTIONS_MAX)?);
        Ok(Self { client, keeping, source_id: source_id.into() })
    }

    /// Sends one request and follows no redirect. A request with an effect goes only to the place it was sent to; a redirect is returned as
    /// its answer.
    pub(crate) async fn send(&self, sent: Sent, target: &Target, allowed: &Allowed, deadline: Deadline) -> Result<Response, Error> {
        let client = if sent.is_read { &self.keeping } else { &self.client };
        let mut request = client.request(sent.method, target.url().clone()).headers(sent.headers);
        if let Some(body) = sent.body {
            request = request.body(body);
        }
        match timeout_at(deadline.at, request.send()).await {
            Ok(answered) => answered.map_err(|error| self.meaning(&error, target, allowed, deadline)),
            Err(_) => Err(self.passed(deadline)),
        }
    }

    /// Sends a request and follows redirects, each checked like the first URL. `told` is called before and after every request.
    pub(crate) async fn follow(
        &self,
        method: Method,
        mut target: Target,
        mut headers: HeaderMap,
        allowed: &Allowed,
        deadline: Deadline,
        mut told: impl FnMut(Step<'_>) + Send,
    ) -> Result<Response, Error> {
        for _ in 0..=HTTP_REDIRECTS_MAX {
            let sent = Sent { method: method.clone(), headers: headers.clone(), body: None, is_read: false };
            told(Step::Asking(&target));
            let answered = self.send(sent, &target, allowed, deadline).await;
            told(Step::Answered(&answered));
            let response = answered?;
            let Some(location) = redirect(&response)? else {
                return Ok(response);
            };
            let next = target.redirected(location, allowed)?;
            if !next.is_same_origin(&target) {
                headers = headers::for_another_origin(&headers);
            }
            target = next;
        }
        Err(failed("too_many_redirects", format!("the answer lies behind more than {HTTP_REDIRECTS_MAX} redirects")))
    }

    /// What a client error says about the effect. Unless the connection is known to have failed, the request counts as sent.
    fn meaning(&self, error: &reqwest::Error, target: &Target, allowed: &Allowed, deadline: Deadline) -> Error {
        let source_id = || self.source_id.to_string();
        if causes(error).any(|cause| cause.is::<AddressRefused>()) {
            allowed.address_refused(target.url())
        } else if error.is_builder() {
            refused("url_not_allowed", "the URL cannot be requested")
        } else if error.is_connect() || error.is_dns() {
            Error::Unreachable { source_id: source_id(), message: root_cause(error) }
        } else if error.is_timeout() {
            self.passed(deadline)
        } else {
            Error::Broken { source_id: source_id(), message: root_cause(error) }
        }
    }

    fn passed(&self, deadline: Deadline) -> Error {
        Error::TimedOut { source_id: self.source_id.to_string(), timeout_ms: deadline.timeout_ms }
    }

    /// Reads the body until it ends, fails or reaches `bytes_max`.
    pub(crate) async fn read(&self, mut response: Response, bytes_max: usize, deadline: Deadline) -> Body {
        let mut bytes = Vec::new();
        let ended = loop {
            match timeout_at(deadline.at, response.chunk()).await {
                Ok(Ok(Some(chunk))) => {
                    let room = bytes_max - bytes.len();
                    bytes.extend_from_slice(&chunk[..chunk.len().min(room)]);
                    if chunk.len() > room {
                        break Ended::Cut;
                    }
                }
                Ok(Ok(None)) => break Ended::Whole,
                Ok(Err(error)) if error.is_timeout() => break Ended::Failed(self.passed(deadline)),
                Ok(Err(error)) => {
                    break Ended::Failed(Error::Broken { source_id: self.source_id.to_string(), message: root_cause(&error) });
                }
                Err(_) => break Ended::Failed(self.passed(deadline)),
            }
        };
        Body { bytes, ended }
    }
}

fn client(allowed: &Allowed, lookup: Lookup, kept_max: usize) -> Result<Client, SetupError> {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        return Err(SetupError::HttpClient { message: "no rustls provider is installed".to_owned() });
    }
    let builder = Client::builder()
        .user_agent(concat!("countersign/", env!("CARGO_PKG_VERSION")))
        // SECURITY: a proxy would resolve names itself, past the resolver's check.
        .no_proxy()
        .dns_resolver(CheckedResolver { rule: Arc::clone(&allowed.addresses), lookup })
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        // Only the pipeline may decide to send a request again, and it must know about every attempt.
        .retry(reqwest::retry::never())
        // Each call with an effect has its own connection, so a failed connection proves that nothing was sent.
        .pool_max_idle_per_host(kept_max)
        .pool_idle_timeout(Duration::from_millis(HTTP_KEPT_MS))
        .connect_timeout(Duration::from_millis(HTTP_CONNECT_MS));
    let needs_certificates = allowed.lists.iter().flat_map(|list| &list.rules).any(|rule| match rule.scheme() {
        Scheme::Https => true,
        Scheme::Http => false,
    });
    // Without an https host, a machine without certificates must work too.
    let builder = if needs_certificates { builder } else { builder.tls_certs_only([]) };
    builder.build().map_err(|error| SetupError::HttpClient { message: root_cause(&error) })
}

/// When the source stops waiting, and the timeout that its error reports.
#[derive(Clone, Copy)]
pub(crate) struct Deadline {
    at: Instant,
    timeout_ms: u64,
}

impl Deadline {
    pub(crate) fn after(patience: Duration, timeout_ms: u64) -> Self {
        Self { at: Instant::now() + patience, timeout_ms }
    }
}

/// An error and its causes, outermost first.
fn causes<'e>(error: &'e (dyn std::error::Error + 'static)) -> impl Iterator<Item = &'e (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |error| error.source())
}

/// The innermost cause. It says what happened, and it contains no URL.
fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    causes(error).last().map_or_else(String::new, ToString::to_string)
}

/// The URL that a response redirects to, if it does.
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

/// `Some` if the server asked us to come back later. A date is compared with the response's own: the server's clock has written both.
pub(crate) fn asks_to_come_back(response: &Response) -> Option<Option<u64>> {
    let overloaded = matches!(response.status(), StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
    let after = response.headers().get(RETRY_AFTER).filter(|_| overloaded)?.to_str().ok();
    let seconds = after.and_then(|text| text.parse::<u64>().ok());
    let until = || {
        let date = |text: Option<&str>| httpdate::parse_http_date(text?).ok();
        let (at, now) = (date(after)?, date(response.headers().get(DATE)?.to_str().ok())?);
        Some(at.duration_since(now).map_or(0, |wait| wait.as_secs()))
    };
    // What cannot be read counts as later than we would wait.
    Some(Some(seconds.or_else(until).map_or(u64::MAX, |seconds| seconds.saturating_mul(1_000))))
}

pub(crate) struct Body {
    pub(crate) bytes: Vec<u8>,
    pub(crate) ended: Ended,
}

/// Why the body ended.
pub(crate) enum Ended {
    Whole,
    /// The body was longer than our limit.
    Cut,
    Failed(Error),
}

impl Body {
    /// UTF-8 text as it is, anything else in base64, so that no byte is lost.
    pub(crate) fn text(&self) -> (&'static str, String) {
        match (std::str::from_utf8(&self.bytes), &self.ended) {
            (Ok(text), _) => ("utf8", text.to_owned()),
            // The body may have been cut inside a character; everything before that character is still text.
            (Err(error), Ended::Cut | Ended::Failed(_)) if error.error_len().is_none() => {
                ("utf8", String::from_utf8_lossy(&self.bytes[..error.valid_up_to()]).into_owned())
            }
            (Err(_), Ended::Whole | Ended::Cut | Ended::Failed(_)) => ("base64", BASE64.encode(&self.bytes)),
        }
    }
}

#[cfg(test)]
#[path = "exchange_tests.rs"]
mod tests;
