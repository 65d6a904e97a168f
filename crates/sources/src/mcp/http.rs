//! Streamable HTTP: the requests of the MCP library, sent under the rules of `web`, and the answers, read within bounds.
//!
//! This file decides what a status says about the effect: a call that was refused with one of a few statuses had none, after anything else it
//! may have happened.

use super::given::in_headers;
use super::object::object;
use super::slot::Reads;
use super::sse::{Events, Wrong};
use super::wire::{Inbound, Unusable, Wire, parsed, too_long, too_much};
use crate::limits::{MCP_CONTROL_BYTES_MAX, MCP_MESSAGE_BYTES_MAX, MCP_RECONNECT_MS_MIN, MCP_STREAM_BYTES_MAX, MCP_STREAM_EVENTS_MAX};
use crate::web::{Allowed, Deadline, Exchange, Sent, Target, asks_to_come_back, headers};
use crate::words::{failed, refused, shown};
use countersign_core::Future;
use countersign_core::limits::CALL_TIMEOUT_MS;
use countersign_core::ports::connections::{ConnectionHeaders, Refusal};
use countersign_core::source::Error;
use countersign_core::sse::SentEvent;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use reqwest::{Method, Response, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, GetExtensions, RequestId};
use rmcp::transport::streamable_http_client::{SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use sse_stream::Sse;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// The credentials of a source. They are asked for at every request, and kept for as long as an answer could repeat them.
pub trait Credentials: Send + Sync {
    /// The headers that identify us to the server, for one request.
    fn headers(&self) -> Future<'_, Result<ConnectionHeaders, Error>>;
    /// The server did not accept them. Returns whether others can be had now, so that the request may be sent once more.
    fn refused<'a>(&'a self, refusal: Refusal<'a>) -> Future<'a, Result<bool, Error>>;
}

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

/// Statuses of servers that ran no tool, besides those for refused credentials. Behind any other status a tool may stand that did a part of its
/// work.
const BEFORE_ANY_TOOL: [StatusCode; 5] = [
    StatusCode::NOT_FOUND,
    StatusCode::METHOD_NOT_ALLOWED,
    StatusCode::PAYLOAD_TOO_LARGE,
    StatusCode::UNSUPPORTED_MEDIA_TYPE,
    StatusCode::TOO_MANY_REQUESTS,
];

type Answered = Result<StreamableHttpPostResponse, Trouble>;
type LibraryError = StreamableHttpError<Error>;

/// The HTTP client of one connection.
#[derive(Clone)]
pub(super) struct Client {
    pub(super) wire: Arc<Wire>,
    pub(super) exchange: Arc<Exchange>,
    pub(super) allowed: Arc<Allowed>,
    pub(super) target: Target,
    pub(super) credentials: Option<Arc<dyn Credentials>>,
}

enum Trouble {
    /// The server does not know the session any more.
    SessionGone,
    Error(Error),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl StreamableHttpClient for Client {
    type Error = Error;

    async fn post_message(
        &self,
        _uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, LibraryError> {
        let id = self.wire.outbound(&message);
        match self.post(&message, id.as_ref(), session_id.as_deref(), custom_headers).await {
            Ok(response) => Ok(response),
            Err(Trouble::SessionGone) => Err(StreamableHttpError::SessionExpired),
            Err(Trouble::Error(error)) => {
                let seen = id.and_then(|id| self.wire.fail(&id, error.clone())).and_then(|text| parsed(&text));
                seen.map(|message| StreamableHttpPostResponse::Json(message, None)).ok_or(StreamableHttpError::Client(error))
            }
        }
    }

    async fn delete_session(
        &self,
        _uri: Arc<str>,
        session_id: Arc<str>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), LibraryError> {
        let headers = headers_of(Some(&session_id), custom_headers);
        self.ask(Sent { method: Method::DELETE, headers, body: None, is_read: false })
            .await
            .map(|_| ())
            .map_err(StreamableHttpError::Client)
    }

    async fn get_stream(
        &self,
        _uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, LibraryError> {
        let mut headers = headers_of(session_id.as_deref(), custom_headers);
        headers.insert(ACCEPT, HeaderValue::from_static(EVENTS));
        if let Some(id) = last_event_id.and_then(|id| HeaderValue::from_str(&id).ok()) {
            headers.insert(LAST_EVENT_ID, id);
        }
        // The library asks again after any other error. What was refused once is refused again.
        let response = match self.ask(Sent { method: Method::GET, headers, body: None, is_read: false }).await {
            Ok(response) => response,
            Err(Error::Refused { .. }) => return Err(StreamableHttpError::ServerDoesNotSupportSse),
            Err(error) => return Err(StreamableHttpError::Client(error)),
        };
        if response.status().is_client_error() || !has_type(&response, EVENTS) {
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        }
        Ok(self.events(response, None))
    }
}

impl Client {
    async fn post(
        &self,
        message: &ClientJsonRpcMessage,
        id: Option<&RequestId>,
        session: Option<&str>,
        custom: HashMap<HeaderName, HeaderValue>,
    ) -> Answered {
        let mut headers = headers_of(session, custom);
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
        let body = serde_json::to_vec(message).map_err(|_| refused("invalid_params", "the call cannot be written as JSON"))?;
        let is_read = matches!(message, ClientJsonRpcMessage::Request(asked) if asked.request.extensions().get::<Reads>().is_some());
        let response = self.ask(Sent { method: Method::POST, headers, body: Some(body), is_read }).await?;
        let status = response.status();
        if status == StatusCode::NOT_FOUND && session.is_some() {
            return Err(Trouble::SessionGone);
        }
        if !status.is_success() {
            return self.not_well(response, message, is_read, id).await;
        }
        let Some(id) = id.filter(|_| !matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT)) else {
            return Ok(StreamableHttpPostResponse::Accepted);
        };
        let session = response.headers().get(SESSION_ID).and_then(|id| id.to_str().ok()).map(str::to_owned);
        if has_type(&response, EVENTS) {
            return Ok(StreamableHttpPostResponse::Sse(self.events(response, Some(id.clone())), session));
        }
        if !has_type(&response, JSON) {
            let found =
                response.headers().get(CONTENT_TYPE).map_or_else(Default::default, |found| String::from_utf8_lossy(found.as_bytes()));
            let found = shown(&self.wire.given.without(&found));
            return Err(self.broken(&Unusable::answer(format!("answered with `{found}` instead of JSON"))).into());
        }
        let text = self.text(response, MCP_MESSAGE_BYTES_MAX).await?;
        let inbound = self.wire.inbound(&text, Some(id)).map_err(|unusable| self.broken(&unusable))?;
        self.passed(inbound, session)
    }

    /// What a status that is no success says.
    async fn not_well(&self, response: Response, message: &ClientJsonRpcMessage, is_read: bool, id: Option<&RequestId>) -> Answered {
        let status = response.status();
        if is_refused(status) {
            let source = self.wire.source_id();
            let message = match &self.credentials {
                Some(_) => format!("source `{source}` does not accept our credentials (it answered {status}); nothing was done"),
                None => format!("source `{source}` asks for credentials (it answered {status}), and has none; nothing was done"),
            };
            return Err(refused("source_unauthorized", message).into());
        }
        let is = |fits: fn(&ClientRequest) -> bool| matches!(message, ClientJsonRpcMessage::Request(request) if fits(&request.request));
        let is_discover = is(|request| matches!(request, ClientRequest::DiscoverRequest(_)));
        let is_certain =
            BEFORE_ANY_TOOL.contains(&status) || is_read || !is(|request| matches!(request, ClientRequest::CallToolRequest(_)));
        let has_no_time = (status == StatusCode::TOO_MANY_REQUESTS).then_some(None);
        if let Some(retry_after_ms) = asks_to_come_back(&response).or(has_no_time).filter(|_| is_certain) {
            let source_id = self.wire.source_id().to_owned();
            return Err(Error::Busy { source_id, message: format!("it answered {status}"), retry_after_ms }.into());
        }
        if let Some(id) = id.filter(|_| is_discover || has_type(&response, JSON)) {
            let text = self.text(response, MCP_CONTROL_BYTES_MAX).await.unwrap_or_default();
            if is_error(&text) {
                let inbound = self.wire.inbound(&text, Some(id)).map_err(|unusable| self.broken(&unusable))?;
                return self.passed(inbound, None);
            }
            if is_discover && status.is_client_error() {
                // A server that does not know `server/discover` speaks an earlier revision. The library asks in that one if it gets an error.
                let error = json!({ "id": id, "error": { "code": -32600, "message": format!("it answered {status}") } });
                let inbound = self.wire.inbound(&error.to_string(), Some(id)).map_err(|unusable| self.broken(&unusable))?;
                return self.passed(inbound, None);
            }
        }
        let source = self.wire.source_id();
        Err(Trouble::Error(if !is_certain {
            self.broken(&Unusable::answer(format!("answered {status}")))
        } else if status.is_redirection() {
            failed(
                "source_refused",
                format!("source `{source}` sends us elsewhere (it answered {status}), which is not followed; nothing was done"),
            )
        } else if status.is_client_error() {
            failed("source_refused", format!("source `{source}` refused the request (it answered {status}); nothing was done"))
        } else {
            self.broken(&Unusable::answer(format!("answered {status}")))
        }))
    }

    fn passed(&self, inbound: Inbound, session: Option<String>) -> Answered {
        let message = match inbound {
            Inbound::Pass(text) => parsed(&text),
            Inbound::Nothing => None,
        };
        let message = message.ok_or_else(|| self.broken(&Unusable::answer("answered with a message that is no answer")))?;
        Ok(StreamableHttpPostResponse::Json(message, session))
    }

    /// Sends a request with the credentials of the source. If the server refuses them, nothing was done: the request is sent once more if
    /// other credentials can be had.
    async fn ask(&self, asked: Sent) -> Result<Response, Error> {
        let Some(credentials) = &self.credentials else { return self.send(asked).await };
        let sent = credentials.headers().await?;
        let response = self.send(Sent { headers: self.with(&sent, &asked.headers), ..asked.clone() }).await?;
        let status = response.status();
        if !is_refused(status) || !self.refused(status, &sent, self.challenge(&response)).await? {
            return Ok(response);
        }
        let sent = credentials.headers().await?;
        let response = self.send(Sent { headers: self.with(&sent, &asked.headers), ..asked }).await?;
        // The same refusal again says nothing new. Another one does, such as that a scope is missing.
        if is_refused(response.status()) && response.status() != status {
            self.refused(response.status(), &sent, self.challenge(&response)).await?;
        }
        Ok(response)
    }

    /// The headers of a request with its credentials, which no answer may repeat. A header of the protocol is never replaced by one of a
    /// credential.
    fn with(&self, credential: &ConnectionHeaders, headers: &HeaderMap) -> HeaderMap {
        self.wire.given.add(&in_headers(credential));
        let mut all = headers::of_connection(credential);
        all.extend(headers.clone());
        all
    }

    fn challenge(&self, response: &Response) -> Option<String> {
        let challenge = response.headers().get(WWW_AUTHENTICATE).and_then(|challenge| challenge.to_str().ok());
        challenge.map(|challenge| self.wire.given.without(challenge).into_owned())
    }

    /// Whether the request may be sent once more, with other credentials.
    async fn refused(&self, status: StatusCode, sent: &ConnectionHeaders, challenge: Option<String>) -> Result<bool, Error> {
        let refusal = Refusal { sent, status: status.as_u16(), www_authenticate: challenge.as_deref() };
        match &self.credentials {
            Some(credentials) => credentials.refused(refusal).await,
            None => Ok(false),
        }
    }

    /// Sends a request and waits for the head of its answer. Whoever waits for the whole answer has a deadline of their own.
    async fn send(&self, sent: Sent) -> Result<Response, Error> {
        let deadline = Deadline::after(Duration::from_millis(CALL_TIMEOUT_MS), CALL_TIMEOUT_MS);
        self.exchange.send(sent, &self.target, &self.allowed, deadline).await
    }

    async fn text(&self, mut response: Response, bytes_max: usize) -> Result<String, Error> {
        let mut taken = self.wire.budget.nothing();
        let mut bytes = Vec::new();
        loop {
            match response.chunk().await {
                Ok(Some(chunk)) if bytes.len() + chunk.len() > bytes_max => return Err(self.broken(&too_long())),
                Ok(Some(chunk)) => {
                    taken.grow(chunk.len()).map_err(|_| self.broken(&too_much()))?;
                    bytes.extend_from_slice(&chunk);
                }
                Ok(None) => break,
                Err(_) => return Err(self.broken(&Unusable::answer("broke its answer off"))),
            }
        }
        String::from_utf8(bytes).map_err(|_| self.broken(&not_utf8()))
    }

    fn events(&self, response: Response, answers: Option<RequestId>) -> BoxStream<'static, Result<Sse, SseError>> {
        let events = Events::new(self.wire.budget.nothing());
        let reading =
            Reading { client: self.clone(), response, answers, events, queue: VecDeque::new(), bytes: 0, count: 0, is_over: false };
        stream::unfold(reading, |mut reading| async move { reading.next().await.map(|event| (Ok(event), reading)) }).boxed()
    }

    fn broken(&self, unusable: &Unusable) -> Error {
        self.wire.broken(unusable)
    }
}

/// An event stream that is being read.
struct Reading {
    client: Client,
    response: Response,
    /// The request that the stream answers; `None` if it is a stream of notifications, or the rest of a stream that broke off.
    answers: Option<RequestId>,
    events: Events,
    queue: VecDeque<SentEvent>,
    bytes: usize,
    count: usize,
    is_over: bool,
}

impl Reading {
    async fn next(&mut self) -> Option<Sse> {
        loop {
            if let Some(event) = self.queue.pop_front() {
                match self.seen(event) {
                    Some(seen) => return Some(seen),
                    None if self.is_over => return None,
                    None => continue,
                }
            }
            if self.is_over {
                return None;
            }
            // A stream that breaks off is resumed by the library if the server numbers its events; otherwise the request has failed.
            let chunk = self.response.chunk().await.ok()??;
            self.bytes += chunk.len();
            match self.events.push(&chunk) {
                Ok(events) => {
                    self.count += events.len();
                    self.queue.extend(events);
                }
                Err(Wrong::TooLong) => return self.give_up(&too_long()),
                Err(Wrong::TooMuchAtOnce) => return self.give_up(&too_much()),
                Err(Wrong::NotUtf8) => return self.give_up(&not_utf8()),
            }
            if self.bytes > MCP_STREAM_BYTES_MAX || self.count > MCP_STREAM_EVENTS_MAX {
                return self.give_up(&Unusable::answer("sent a stream of events without an end"));
            }
        }
    }

    /// The event as the library sees it.
    fn seen(&mut self, event: SentEvent) -> Option<Sse> {
        let data =
            match event.data.filter(|data| !data.trim().is_empty()).map(|data| self.client.wire.inbound(&data, self.answers.as_ref())) {
                None | Some(Ok(Inbound::Nothing)) => None,
                Some(Ok(Inbound::Pass(text))) => Some(text),
                Some(Err(unusable)) if self.answers.is_some() => return self.give_up(&unusable),
                Some(Err(_)) => None,
            };
        let retry = event.retry_ms.map(|retry| retry.max(MCP_RECONNECT_MS_MIN));
        (data.is_some() || event.id.is_some() || retry.is_some()).then_some(Sse { event: None, data, id: event.id, retry })
    }

    fn give_up(&mut self, unusable: &Unusable) -> Option<Sse> {
        self.is_over = true;
        self.queue.clear();
        let error = self.client.broken(unusable);
        let data = self.client.wire.fail(self.answers.as_ref()?, error)?;
        Some(Sse { data: Some(data), ..Sse::default() })
    }
}

pub(super) fn not_utf8() -> Unusable {
    Unusable::answer("sent a message that is not UTF-8")
}

/// Whether the status says that the credentials are not accepted.
fn is_refused(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}

/// The headers of a request without credentials.
fn headers_of(session: Option<&str>, custom: HashMap<HeaderName, HeaderValue>) -> HeaderMap {
    let mut all: HeaderMap = custom.into_iter().collect();
    if let Some(session) = session.and_then(|session| HeaderValue::from_str(session).ok()) {
        all.insert(SESSION_ID, session);
    }
    all
}

fn has_type(response: &Response, expected: &str) -> bool {
    let found = response.headers().get(CONTENT_TYPE).and_then(|found| found.to_str().ok()).unwrap_or_default();
    found.split(';').next().is_some_and(|found| found.trim().eq_ignore_ascii_case(expected))
}

/// Whether the text is a JSON-RPC error. What stands before the server may answer with an `error` of its own: then the status decides.
fn is_error(text: &str) -> bool {
    #[derive(Deserialize)]
    #[expect(dead_code, reason = "only that they are there matters")]
    struct Reply {
        jsonrpc: IgnoredAny,
        error: IgnoredAny,
    }
    object::<Reply>(text).is_some()
}
