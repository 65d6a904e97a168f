//! The MCP door: agents that speak the Model Context Protocol call the actions of their session as tools, over streamable HTTP, in the
//! stateful revisions (2025-03-26 to 2025-11-25) and in the stateless one (2026-07-28). The token is the session, never the connection.
//!
//! A request goes through `origin` (who may ask at all), `connections` (whose `Mcp-Session-Id` it is) and `stream` (an answer that is
//! never silent) to `handler`, which reads like the protocol: `tools`, `call`, `passed_on`, `tasks`, `changes`. What waits for a person is
//! in `waiting`, every sentence an agent reads in `words`. The door holds no rule: it asks the pipeline and `operations`.

pub mod limits;
mod actions;
mod call;
mod caller;
mod changes;
mod connections;
mod handler;
mod media;
mod meta_tools;
mod names;
mod origin;
mod passed_on;
mod stream;
mod tasks;
mod tools;
mod waiting;
mod words;

pub use caller::{Caller, Wishes};
pub use origin::HostOf;

use crate::limits::{MCP_BATCH_MESSAGES_MAX, MCP_CONNECTION_IDLE_SECONDS, MCP_SILENCE_SECONDS};
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use changes::Changes;
use connections::{Connections, NotOpened};
use countersign_core::limits::{BODY_BYTES_MAX, BODY_READ_SECONDS};
use futures_util::StreamExt as _;
use handler::Handler;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use operations::App;
use operations::limits::SHUTDOWN_SECONDS;
use origin::Addresses;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use stream::{Right, Stop};

/// The code of a message that is no JSON-RPC request, of one that cannot be read, and of one that could not be answered.
const INVALID_REQUEST: i64 = -32600;
const PARSE_ERROR: i64 = -32700;
const INTERNAL_ERROR: i64 = -32603;

/// The door. Clones share their connections.
#[derive(Clone)]
pub struct Door {
    app: App,
    addresses: Arc<Addresses>,
    connections: Arc<Connections>,
    service: StreamableHttpService<Handler, LocalSessionManager>,
}

impl Door {
    pub fn new(app: App) -> Self {
        let mut manager = LocalSessionManager::default();
        // Comments on a stream do not count as traffic, and a caller may wait for a person for long.
        manager.session_config.keep_alive = Some(Duration::from_secs(MCP_CONNECTION_IDLE_SECONDS));
        // A caller that lost its stream has left, and joins when it asks again: nothing is kept for it here as well.
        manager.session_config.completed_cache_ttl = Duration::ZERO;
        let manager = Arc::new(manager);
        // Hosts and origins are checked in `origin`, before anything is read.
        let config = StreamableHttpServerConfig::default()
            .with_sse_keep_alive(Some(Duration::from_secs(MCP_SILENCE_SECONDS)))
            .with_max_request_body_bytes(BODY_BYTES_MAX)
            .with_json_response(false)
            .disable_allowed_hosts();
        let (own, changes) = (app.clone(), Changes::new(app.clone()));
        let service = StreamableHttpService::new(move || Ok(Handler::new(own.clone(), changes.clone())), Arc::clone(&manager), config);
        let addresses = Arc::new(Addresses::of(app.parts.address.address()));
        Self { app, addresses, connections: Arc::new(Connections::new(manager)), service }
    }

    /// Whether a request may come from where it says it comes from. Checked before its token.
    pub fn refuses(&self, request: &Request, host: HostOf) -> Option<Response> {
        let why = self.addresses.refusal(request.uri(), request.headers(), host)?;
        Some(refused(StatusCode::FORBIDDEN, INVALID_REQUEST, why))
    }

    /// Answers one request of a caller whose token was accepted.
    pub async fn answer(&self, caller: Caller, request: Request) -> Response {
        let (parts, body) = request.into_parts();
        let owner = connections::Owner::of(&caller);
        if let Some(id) = connections::named(&parts.headers)
            && !self.connections.is_of(id, &owner)
        {
            // The same words for a connection that is closed, unknown, or somebody else's.
            return refused(StatusCode::NOT_FOUND, INVALID_REQUEST, "there is no such connection; initialize again");
        }
        if connections::resumes_a_call(&parts) {
            // The stream ends at once, as it does where there is nothing to resume.
            return ([(header::CONTENT_TYPE, "text/event-stream")], Body::empty()).into_response();
        }
        let bytes = match bounded(body).await {
            Ok(bytes) => bytes,
            Err(response) => return response,
        };
        let is_asking = parts.method == Method::POST;
        let message = match is_asking.then(|| countersign_core::json::parse_strict(&bytes)).transpose() {
            Ok(message) => message.unwrap_or_default(),
            Err(error) => return refused(StatusCode::BAD_REQUEST, PARSE_ERROR, &format!("the body is not JSON we accept: {error}")),
        };
        if let Value::Array(messages) = message {
            return self.answer_batch(caller, parts, messages).await;
        }
        self.answer_one(caller, parts, &message, bytes).await
    }

    /// Answers the messages of a batch, which only the revision 2025-03-26 has, in turn on one stream.
    async fn answer_batch(&self, caller: Caller, mut parts: Parts, messages: Vec<Value>) -> Response {
        let opens = messages.iter().any(|message| message["method"] == "initialize");
        if messages.is_empty() || messages.len() > MCP_BATCH_MESSAGES_MAX || opens {
            let why = format!("a batch has 1 to {MCP_BATCH_MESSAGES_MAX} messages and does not initialize; send the messages one by one");
            return refused(StatusCode::BAD_REQUEST, INVALID_REQUEST, &why);
        }
        // It is that of the whole batch.
        parts.headers.remove(header::CONTENT_LENGTH);
        let is_request = |message: &Value| message.get("id").is_some() && message.get("method").is_some();
        let (requests, others): (Vec<_>, Vec<_>) = messages.into_iter().partition(is_request);
        for message in others {
            let bytes = Bytes::from(message.to_string());
            let taken = self.answer_one(caller.clone(), parts.clone(), &message, bytes).await;
            if requests.is_empty() && !taken.status().is_success() {
                return taken;
            }
        }
        if requests.is_empty() {
            return StatusCode::ACCEPTED.into_response();
        }
        let door = self.clone();
        stream::in_turn(futures_util::stream::iter(requests).then(move |message| {
            let (door, caller, parts) = (door.clone(), caller.clone(), parts.clone());
            async move { door.answer_one(caller, parts, &message, Bytes::from(message.to_string())).await }
        }))
    }

    async fn answer_one(&self, caller: Caller, mut parts: Parts, message: &Value, bytes: Bytes) -> Response {
        let (owner, is_asking) = (connections::Owner::of(&caller), parts.method == Method::POST);
        let line = self.app.pipeline().open_line();
        let right = Right::new(self.app.clone(), caller.clone());
        parts.extensions.insert(caller);
        parts.extensions.insert(line.clone());
        let (method, named) = (parts.method.clone(), connections::named(&parts.headers).map(str::to_owned));
        let opens = named.is_none() && message["method"] == "initialize";
        let request = Request::from_parts(parts, Body::from(bytes));
        let (service, connections) = (self.service.clone(), Arc::clone(&self.connections));
        let work = async move {
            let handling = async move { service.handle(request).await.map(Body::new) };
            if opens {
                return connections.open(handling, owner).await.unwrap_or_else(|why| match why {
                    NotOpened::TooMany => {
                        refused(StatusCode::TOO_MANY_REQUESTS, INTERNAL_ERROR, "too many connections are open; try later")
                    }
                    NotOpened::Broken => refused(StatusCode::INTERNAL_SERVER_ERROR, INTERNAL_ERROR, "the connection could not be opened"),
                });
            }
            let response = handling.await;
            if let Some(id) = named.filter(|_| method == Method::DELETE) {
                connections.forget(&id);
                // An older SDK for Python takes 202 for a failure.
                if response.status() == StatusCode::ACCEPTED {
                    return StatusCode::NO_CONTENT.into_response();
                }
            }
            response
        };
        let last_words = if is_asking { Duration::from_secs(SHUTDOWN_SECONDS) } else { Duration::ZERO };
        stream::answer(work, line, right, Stop::of(self.app.pipeline().clone(), last_words)).await
    }
}

/// The body, bounded in size and in the time it may take.
async fn bounded(body: Body) -> Result<Bytes, Response> {
    let limited = Limited::new(body, BODY_BYTES_MAX);
    match tokio::time::timeout(Duration::from_secs(BODY_READ_SECONDS), limited.collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.downcast_ref::<LengthLimitError>().is_some() => {
            let why = format!("the body is larger than {BODY_BYTES_MAX} bytes");
            Err(refused(StatusCode::PAYLOAD_TOO_LARGE, INVALID_REQUEST, &why))
        }
        Ok(Err(_)) => Err(refused(StatusCode::BAD_REQUEST, INVALID_REQUEST, "the body could not be read to its end")),
        Err(_) => {
            let why = format!("the body did not arrive within {BODY_READ_SECONDS} seconds");
            Err(refused(StatusCode::REQUEST_TIMEOUT, INVALID_REQUEST, &why))
        }
    }
}

/// A refusal before the message was looked at: it has no id to answer to.
fn refused(status: StatusCode, code: i64, message: &str) -> Response {
    let body = json!({ "jsonrpc": "2.0", "id": null, "error": { "code": code, "message": message } });
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}
