//! The requests of this client: bounded in bytes and in time, to allowed hosts and addresses only. A request with a credential is sent to the
//! place that was checked and follows no redirect.

use crate::Error as SetupError;
use crate::limits::{OAUTH_ANSWER_BYTES_MAX, OAUTH_ANSWER_MS};
use crate::web::{Allowed, Deadline, Ended, Exchange, HostList, HostRule, Sent, Target};
use crate::words::{failed, refused, shown};
use countersign_core::Secret;
use countersign_core::source::Error;
use ipnet::IpNet;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, Response};
use serde::de::DeserializeOwned;
use std::time::Duration;
use url::{Host, Url, form_urlencoded};

/// The HTTP client of connections, and what it may reach.
pub(crate) struct Fetch {
    exchange: Exchange,
    allowed: Allowed,
    answer_ms: u64,
}

/// An answer with its whole body. The body may hold tokens.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    body: Secret<Vec<u8>>,
}

impl Fetch {
    pub(crate) fn new(hosts: Vec<HostRule>, networks: Vec<IpNet>) -> Result<Self, SetupError> {
        let hosts = HostList { rules: hosts, setting: "source_allowed_hosts", who: "an operator" };
        Self::within("connection", Allowed::new(hosts, networks, "source_allowed_networks"))
    }

    /// For the sign-in of people, whose issuer an operator names apart from what connections may reach.
    pub(super) fn for_sign_in(hosts: Vec<HostRule>, networks: Vec<IpNet>) -> Result<Self, SetupError> {
        let hosts = HostList { rules: hosts, setting: "oidc.allowed_hosts", who: "an operator" };
        Self::within("sign-in", Allowed::new(hosts, networks, "oidc.allowed_networks"))
    }

    fn within(who: &str, allowed: Allowed) -> Result<Self, SetupError> {
        Ok(Self { exchange: Exchange::new(who, &allowed)?, allowed, answer_ms: OAUTH_ANSWER_MS })
    }

    /// With less patience, so that a test of a silent server does not take long.
    #[cfg(test)]
    pub(crate) fn impatient(self) -> Self {
        Self { answer_ms: 300, ..self }
    }

    fn deadline(&self) -> Deadline {
        Deadline::after(Duration::from_millis(self.answer_ms), self.answer_ms)
    }

    /// Whether the URL may be asked at all. The address behind its name is checked when it is.
    pub(crate) fn check(&self, url: &str) -> Result<(), Error> {
        Target::check(url, &self.allowed).map(|_| ())
    }

    /// A request without a credential. Redirects are followed, each checked like the URL.
    pub(crate) async fn get(&self, url: &str, accept: &'static str) -> Result<Answer, Error> {
        let (target, deadline) = (Target::check(url, &self.allowed)?, self.deadline());
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]);
        let answered = self.exchange.follow(Method::GET, target, headers, &self.allowed, deadline, |_| {}).await;
        self.read(url, answered, deadline).await
    }

    /// One request to exactly this place, with these headers. The body of a success is not read: it may be a stream without an end.
    pub(crate) async fn get_once(&self, url: &str, headers: HeaderMap) -> Result<Answer, Error> {
        let (target, deadline) = (Target::check(url, &self.allowed)?, self.deadline());
        let sent = Sent { method: Method::GET, headers, body: None, is_read: false };
        let response = self.exchange.send(sent, &target, &self.allowed, deadline).await.map_err(|error| told(url, error))?;
        let (status, headers) = (response.status(), response.headers().clone());
        let body =
            if status.is_success() { Vec::new() } else { self.exchange.read(response, OAUTH_ANSWER_BYTES_MAX, deadline).await.bytes };
        Ok(Answer { status: status.as_u16(), headers, body: Secret::new(body) })
    }

    /// A request with a credential, to exactly this place, which must be https, or on this machine.
    pub(super) async fn get_with(&self, url: &str, authorization: HeaderValue) -> Result<Answer, Error> {
        let (target, deadline) = (endpoint(url, &self.allowed)?, self.deadline());
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json")), (AUTHORIZATION, authorization)]);
        let answered =
            self.exchange.send(Sent { method: Method::GET, headers, body: None, is_read: false }, &target, &self.allowed, deadline).await;
        self.read(url, answered, deadline).await
    }

    /// A message as a client of an MCP server sends it, without a credential, to exactly this place.
    pub(crate) async fn ask(&self, url: &str, accept: &'static str, body: &serde_json::Value) -> Result<Answer, Error> {
        let (target, deadline) = (Target::check(url, &self.allowed)?, self.deadline());
        let kind = HeaderValue::from_static("application/json");
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept)), (CONTENT_TYPE, kind)]);
        let sent = Sent { method: Method::POST, headers, body: Some(body.to_string().into_bytes()), is_read: false };
        let answered = self.exchange.send(sent, &target, &self.allowed, deadline).await;
        self.read(url, answered, deadline).await
    }

    pub(crate) async fn post_json(&self, url: &str, body: &serde_json::Value) -> Result<Answer, Error> {
        self.post(url, HeaderValue::from_static("application/json"), None, body.to_string()).await
    }

    /// Sends a form, with the client's own `Authorization` if it has one.
    pub(crate) async fn post_form(&self, url: &str, authorization: Option<HeaderValue>, form: &[(&str, &str)]) -> Result<Answer, Error> {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        self.post(url, HeaderValue::from_static("application/x-www-form-urlencoded"), authorization, body).await
    }

    async fn post(&self, url: &str, kind: HeaderValue, authorization: Option<HeaderValue>, body: String) -> Result<Answer, Error> {
        let (target, deadline) = (endpoint(url, &self.allowed)?, self.deadline());
        let mut headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json")), (CONTENT_TYPE, kind)]);
        if let Some(value) = authorization {
            headers.insert(AUTHORIZATION, value);
        }
        let sent = Sent { method: Method::POST, headers, body: Some(body.into_bytes()), is_read: false };
        let answered = self.exchange.send(sent, &target, &self.allowed, deadline).await;
        self.read(url, answered, deadline).await
    }

    async fn read(&self, url: &str, answered: Result<Response, Error>, deadline: Deadline) -> Result<Answer, Error> {
        let response = answered.map_err(|error| told(url, error))?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = self.exchange.read(response, OAUTH_ANSWER_BYTES_MAX, deadline).await;
        let bytes = Secret::new(body.bytes);
        match body.ended {
            Ended::Whole => Ok(Answer { status, headers, body: bytes }),
            Ended::Cut => Err(login_failed(url, &format!("answered with more than {OAUTH_ANSWER_BYTES_MAX} bytes"))),
            Ended::Failed(error) => Err(told(url, error)),
        }
    }
}

impl Answer {
    pub(crate) fn is_ok(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// SECURITY: an error of serde quotes what it read, so it is not passed on.
    pub(crate) fn json<T: DeserializeOwned>(&self, url: &str) -> Result<T, Error> {
        let body = self.body.expose();
        // serde would also read the members from a list, by their order.
        let is_object = body.trim_ascii_start().starts_with(b"{");
        let read = is_object.then(|| serde_json::from_slice(body).ok()).flatten();
        read.ok_or_else(|| login_failed(url, "answered with something other than the JSON that was asked for"))
    }
}

/// A place that takes credentials: it must be https, or on this machine.
fn endpoint(url: &str, allowed: &Allowed) -> Result<Target, Error> {
    let target = Target::check(url, allowed)?;
    if is_private_to_read(target.url()) {
        Ok(target)
    } else {
        Err(refused("url_not_allowed", format!("`{}` is not https, so others could read what is sent there", origin(url))))
    }
}

/// Whether nobody on the way can read what is sent to this URL.
pub(crate) fn is_private_to_read(url: &Url) -> bool {
    let is_here = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    url.scheme() == "https" || is_here
}

/// An error of one of these requests says nothing about the effect of the call that needed it: that call was not sent yet.
fn told(url: &str, error: Error) -> Error {
    match error {
        Error::Unreachable { source_id, message } => Error::Unreachable { source_id, message: format!("`{}`: {message}", origin(url)) },
        Error::TimedOut { timeout_ms, .. } => login_failed(url, &format!("did not answer within {timeout_ms} ms")),
        Error::Broken { message, .. } => login_failed(url, &format!("broke off: {message}")),
        Error::Busy { .. }
        | Error::NoTurn { .. }
        | Error::Refused { .. }
        | Error::Failed { .. }
        | Error::Reported { .. }
        | Error::WorkspaceElsewhere
        | Error::PreviewUnsupported { .. } => error,
    }
}

/// What a server did wrong, in words that never quote its answer.
pub(super) fn login_failed(url: &str, did: &str) -> Error {
    failed("login_failed", format!("`{}` {did}", origin(url)))
}

/// Scheme, host and port: a path or a query could be secret.
pub(crate) fn origin(url: &str) -> String {
    Url::parse(url).map_or_else(|_| shown(url), |url| shown(&url.origin().ascii_serialization()))
}
