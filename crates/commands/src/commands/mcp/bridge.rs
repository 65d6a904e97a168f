//! Carries messages between a client on stdin and stdout and the server's `/mcp`, in both lifecycles: with a session that `initialize`
//! opens, and without one, where every request names its revision. A request that fails on the way is answered with an error that says what
//! to do; a client never waits for nothing.

use super::message::{self, Kind, Message, NO_MESSAGE, NOT_ANSWERED, Refused, one_line};
use crate::limits::{MCP_LINE_BYTES_MAX, MCP_OPEN_REQUESTS_MAX};
use crate::output::Line;
use crate::shared::*;
use countersign_core::sse::{Decoder, SentEvent, Unreadable};
use reqwest::{Method, RequestBuilder, Response, StatusCode, header};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

const SESSION: &str = "mcp-session-id";
const REVISION: &str = "mcp-protocol-version";
const EVENTS: &str = "text/event-stream";
/// How long the head of an answer may take. A call that waits for a person has its head long before.
const HEAD: Duration = Duration::from_secs(180);
/// How long an open stream may be silent. The server writes a comment every few seconds.
const SILENCE: Duration = Duration::from_secs(120);
/// How long answers that are on their way may still come after stdin was closed.
const GRACE: Duration = Duration::from_secs(1);
/// The pause before the stream of notifications is opened again; it doubles up to the second one.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// What is written.
pub(in crate::commands) enum Out {
    /// A message to the client.
    Line(String),
    /// Something for the log of the client.
    Note(String),
}

pub(in crate::commands) struct Bridge {
    client: Client,
    /// What the address asks for: the session, for a token that has none of its own, and how long the client waits.
    wishes: Vec<(&'static str, String)>,
    out: mpsc::Sender<Out>,
    /// The session that `initialize` opened, if the client has that lifecycle.
    opened: Mutex<Opened>,
    /// Only one request at a time opens a new session in place of one that is gone.
    opening: tokio::sync::Mutex<()>,
    /// The requests that have no answer yet, by id.
    open: Mutex<HashMap<String, Open>>,
}

#[derive(Clone, Default)]
struct Opened {
    id: Option<String>,
    revision: Option<String>,
    /// The message that opened it, to be sent again if the server has forgotten the session.
    initialize: Option<Message>,
}

struct Open {
    asking: AbortHandle,
    /// Whether it belongs to no session: then closing its stream cancels it.
    is_stateless: bool,
}

/// How a stream of messages ended.
enum Ended {
    /// The answer to the request was in it.
    Answered,
    Closed,
}

impl Bridge {
    pub(in crate::commands) fn new(client: Client, wishes: Vec<(&'static str, String)>, out: mpsc::Sender<Out>) -> Arc<Self> {
        let (opened, opening, open) = (Mutex::default(), tokio::sync::Mutex::default(), Mutex::default());
        Arc::new(Self { client, wishes, out, opened, opening, open })
    }

    /// Takes what the client writes until it closes stdin. Then the session ends, and with it everything that is still open.
    pub(in crate::commands) async fn listen(self: Arc<Self>, mut lines: mpsc::Receiver<Line>) {
        while let Some(line) = lines.recv().await {
            match line {
                Line::Text(text) => {
                    for message in Message::read(&text) {
                        match message {
                            Ok(message) => self.take(message).await,
                            Err(Refused(answer)) => self.write(answer).await,
                        }
                    }
                }
                Line::Unreadable(why) => self.write(message::answer(&Value::Null, NO_MESSAGE, &why)).await,
            }
        }
        let _late = tokio::time::timeout(GRACE, self.answered()).await;
        let left: Vec<_> = self.open().drain().map(|(_, open)| open.asking).collect();
        left.iter().for_each(AbortHandle::abort);
        self.end_session().await;
    }

    /// Requests are asked side by side. Everything else goes out in the order in which it came.
    async fn take(self: &Arc<Self>, message: Message) {
        match &message.kind {
            Kind::Request { id, .. } => {
                let id = id.clone();
                if !self.start(&id, message) {
                    self.write(message::answer(&id, NOT_ANSWERED, "too many requests are open at once; wait for answers")).await;
                }
            }
            Kind::Notification { .. } => {
                if let Some(id) = message.cancels() {
                    return self.cancel(&id, &message).await;
                }
                self.tell(&message).await;
                if message.method() == "notifications/initialized" {
                    tokio::spawn(Arc::clone(self).hear());
                }
            }
            Kind::Response => self.tell(&message).await,
        }
    }

    /// Whether there was room for the request.
    fn start(self: &Arc<Self>, id: &Value, message: Message) -> bool {
        let (key, is_stateless) = (id.to_string(), message.version.is_some());
        // The request ends with the lock of `open`, so it cannot end before it is in there.
        let mut open = self.open();
        if open.len() >= MCP_OPEN_REQUESTS_MAX {
            return false;
        }
        let (this, id, ended) = (Arc::clone(self), id.clone(), key.clone());
        let asking = tokio::spawn(async move {
            if let Err(failure) = this.ask(&id, &message).await {
                this.write(message::answer(&id, NOT_ANSWERED, &words(&failure))).await;
            }
            this.open().remove(&ended);
        });
        open.insert(key, Open { asking: asking.abort_handle(), is_stateless });
        true
    }

    /// Without a session, closing the stream is what cancels. With one, the server is told, and no answer is waited for.
    async fn cancel(self: &Arc<Self>, id: &Value, message: &Message) {
        let open = self.open().remove(&id.to_string());
        if open.as_ref().is_none_or(|open| !open.is_stateless) {
            self.tell(message).await;
        }
        if let Some(open) = open {
            open.asking.abort();
        }
    }

    async fn ask(self: &Arc<Self>, id: &Value, message: &Message) -> Result<(), Failure> {
        let response = self.post(message).await?;
        let opens = message.method() == "initialize";
        let session = header_of(&response, SESSION);
        if opens && response.status().is_success() {
            *self.opened() = Opened { id: session, revision: None, initialize: Some(message.clone()) };
        }
        match self.pass_on(response, Some(id), true).await? {
            Ended::Answered => Ok(()),
            Ended::Closed => Err(cut_off("the stream ended before the answer")),
        }
    }

    /// Sends what has no answer. The client cannot be told of a failure in the protocol, so it is noted.
    async fn tell(self: &Arc<Self>, message: &Message) {
        let told = match self.post(message).await {
            Ok(response) if response.status().is_success() => Ok(()),
            Ok(response) => Err(self.client.mcp_refused(response).await),
            Err(failure) => Err(failure),
        };
        if let Err(failure) = told {
            let _closed = self.out.send(Out::Note(format!("`{}` was not taken: {}", message.method(), words(&failure)))).await;
        }
    }

    /// Sends a message. A session that the server no longer knows is opened again, once, with the message that opened it.
    async fn post(self: &Arc<Self>, message: &Message) -> Result<Response, Failure> {
        let used = self.opened().id.clone();
        let response = self.send(message).await?;
        let is_gone = response.status() == StatusCode::NOT_FOUND && message.version.is_none() && message.method() != "initialize";
        match used.filter(|_| is_gone) {
            None => Ok(response),
            Some(used) => {
                self.open_again(&used).await?;
                self.send(message).await
            }
        }
    }

    async fn send(&self, message: &Message) -> Result<Response, Failure> {
        let mut request = self.client.mcp(Method::POST, &self.wishes)?;
        request = request.header(header::CONTENT_TYPE, "application/json").header(header::ACCEPT, format!("application/json, {EVENTS}"));
        request = match &message.version {
            Some(version) => {
                let request = request.header(REVISION, version).header("mcp-method", message.method());
                message.name.iter().fold(request, |request, name| request.header("mcp-name", name))
            }
            None if message.method() == "initialize" => request,
            None => self.of_session(request),
        };
        self.head(request.body(message.text.clone())).await
    }

    fn of_session(&self, request: RequestBuilder) -> RequestBuilder {
        let Opened { id, revision, .. } = self.opened().clone();
        let request = id.iter().fold(request, |request, id| request.header(SESSION, id));
        revision.iter().fold(request, |request, revision| request.header(REVISION, revision))
    }

    async fn head(&self, request: RequestBuilder) -> Result<Response, Failure> {
        match tokio::time::timeout(HEAD, request.send()).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(self.client.mcp_unreachable(&error)),
            Err(_elapsed) => Err(cut_off(&format!("nothing came for {} s", HEAD.as_secs()))),
        }
    }

    /// Opens a session with the client's own words, without telling the client.
    async fn open_again(self: &Arc<Self>, gone: &str) -> Result<(), Failure> {
        let _alone = self.opening.lock().await;
        let opened = self.opened().clone();
        let (Some(initialize), true) = (opened.initialize, opened.id.as_deref() == Some(gone)) else {
            return Ok(());
        };
        let response = self.send(&initialize).await?;
        if !response.status().is_success() {
            return Err(self.client.mcp_refused(response).await);
        }
        *self.opened() = Opened { id: header_of(&response, SESSION), revision: opened.revision, initialize: Some(initialize) };
        self.pass_on(response, Some(&Value::Null), false).await?;
        for initialized in Message::read(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).into_iter().flatten() {
            self.send(&initialized).await?;
        }
        tokio::spawn(Arc::clone(self).hear());
        Ok(())
    }

    /// Writes what the server answers: one message, or several as they come. `is_shown` is false for an answer that the client has already.
    async fn pass_on(&self, response: Response, id: Option<&Value>, is_shown: bool) -> Result<Ended, Failure> {
        let status = response.status();
        if !status.is_success() {
            return self.pass_refusal_on(response, id).await;
        }
        if status == StatusCode::ACCEPTED || status == StatusCode::NO_CONTENT {
            return Ok(Ended::Closed);
        }
        let is_stream = header_of(&response, header::CONTENT_TYPE.as_str()).is_some_and(|kind| kind.starts_with(EVENTS));
        if !is_stream {
            let text = whole(response).await?;
            return Ok(self.pass_message_on(&text, id, is_shown).await);
        }
        let mut stream = Stream::new(response);
        let mut ended = Ended::Closed;
        while let Some(event) = stream.next().await? {
            if let Ended::Answered = self.pass_message_on(event.data.as_deref().unwrap_or_default(), id, is_shown).await {
                ended = Ended::Answered;
            }
        }
        Ok(ended)
    }

    async fn pass_message_on(&self, text: &str, id: Option<&Value>, is_shown: bool) -> Ended {
        let read: Value = serde_json::from_str(text).unwrap_or_default();
        let is_answer = read.get("method").is_none() && id.is_some_and(|id| id.is_null() || read.get("id") == Some(id));
        if is_answer {
            self.learn(&read["result"]["protocolVersion"]);
        }
        if is_shown && !read.is_null() {
            self.write(one_line(text)).await;
        }
        if is_answer { Ended::Answered } else { Ended::Closed }
    }

    /// The answer to `initialize` says which revision the session has.
    fn learn(&self, revision: &Value) {
        let mut opened = self.opened();
        if opened.initialize.is_some() && opened.revision.is_none() {
            opened.revision = revision.as_str().map(str::to_owned);
        }
    }

    /// An error that is JSON-RPC is the answer. Every other is told in words, with what to do.
    async fn pass_refusal_on(&self, response: Response, id: Option<&Value>) -> Result<Ended, Failure> {
        let kind = header_of(&response, header::CONTENT_TYPE.as_str()).unwrap_or_default();
        if !kind.starts_with("application/json") {
            return Err(self.client.mcp_refused(response).await);
        }
        let status = response.status();
        let text = whole(response).await?;
        let mut read: Value = serde_json::from_str(&text).unwrap_or_default();
        if read["error"]["code"].is_i64() && read["jsonrpc"].is_string() {
            // The server may not have read the id.
            read["id"] = id.cloned().unwrap_or_default();
            self.write(read.to_string()).await;
            return Ok(Ended::Answered);
        }
        Err(Failure::failed(format!("the server answered {status}")).hint("is there a countersign at this address that speaks MCP?"))
    }

    /// Notifications of the server that belong to no request, for clients with a session: a stream that is opened again when it ends.
    async fn hear(self: Arc<Self>) {
        let (mut last, mut pause) = (None::<String>, PAUSES.0);
        let Some(session) = self.opened().id.clone() else { return };
        loop {
            let Ok(request) = self.client.mcp(Method::GET, &self.wishes) else { return };
            let request = self.of_session(request).header(header::ACCEPT, EVENTS);
            let request = last.iter().fold(request, |request, last| request.header("last-event-id", last));
            if let Ok(response) = self.head(request).await {
                // The server has no such stream; or no such session any more, and the next request opens another, with a stream of its own.
                if response.status().is_client_error() {
                    return;
                }
                let mut stream = Stream::new(response);
                while let Ok(Some(event)) = stream.next().await {
                    self.pass_message_on(event.data.as_deref().unwrap_or_default(), None, true).await;
                    (last, pause) = (event.id.or(last), PAUSES.0);
                }
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
            if self.opened().id.as_deref() != Some(session.as_str()) || self.out.is_closed() {
                return;
            }
        }
    }

    /// Resolves when no request is open.
    async fn answered(&self) {
        while !self.open().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn end_session(&self) {
        let opened = std::mem::take(&mut *self.opened());
        let (Some(id), Ok(request)) = (opened.id, self.client.mcp(Method::DELETE, &self.wishes)) else { return };
        let request = opened.revision.iter().fold(request.header(SESSION, id), |request, revision| request.header(REVISION, revision));
        // The server ends it by itself after a while.
        let _gone = tokio::time::timeout(GRACE, request.send()).await;
    }

    async fn write(&self, line: String) {
        // If nobody reads any more, the command ends by itself.
        let _closed = self.out.send(Out::Line(line)).await;
    }

    fn opened(&self) -> MutexGuard<'_, Opened> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) -> MutexGuard<'_, HashMap<String, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The events of an answer.
struct Stream {
    response: Response,
    decoder: Decoder,
    ready: std::vec::IntoIter<SentEvent>,
}

impl Stream {
    fn new(response: Response) -> Self {
        Self { response, decoder: Decoder::new(MCP_LINE_BYTES_MAX), ready: Vec::new().into_iter() }
    }

    async fn next(&mut self) -> Result<Option<SentEvent>, Failure> {
        loop {
            if let Some(event) = self.ready.next() {
                return Ok(Some(event));
            }
            let Some(piece) = chunk(&mut self.response).await? else { return Ok(None) };
            self.ready = self.decoder.feed(&piece).map_err(unreadable)?.into_iter();
        }
    }
}

/// An answer that is one message.
async fn whole(mut response: Response) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    while let Some(piece) = chunk(&mut response).await? {
        bytes.extend_from_slice(&piece);
        if bytes.len() > MCP_LINE_BYTES_MAX {
            return Err(too_long());
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

async fn chunk(response: &mut Response) -> Result<Option<Vec<u8>>, Failure> {
    match tokio::time::timeout(SILENCE, response.chunk()).await {
        Ok(Ok(piece)) => Ok(piece.map(|piece| piece.to_vec())),
        Ok(Err(error)) => Err(cut_off(&error.to_string())),
        Err(_elapsed) => Err(cut_off(&format!("nothing came for {} s", SILENCE.as_secs()))),
    }
}

fn cut_off(why: &str) -> Failure {
    Failure::failed("the connection to the server was lost before the answer")
        .cause(why)
        .hint("make the same call again: if it was made already, you get its result, and it is not made twice")
}

fn unreadable(why: Unreadable) -> Failure {
    match why {
        Unreadable::TooLong => too_long(),
        Unreadable::NotUtf8 => cut_off("the answer is not UTF-8"),
    }
}

fn too_long() -> Failure {
    Failure::failed(format!("the answer is longer than {MCP_LINE_BYTES_MAX} bytes")).hint("ask for less")
}

fn header_of(response: &Response, name: &str) -> Option<String> {
    response.headers().get(name)?.to_str().ok().map(str::to_owned)
}

/// A failure in one sentence: clients show nothing but the message.
fn words(failure: &Failure) -> String {
    let parts = [Some(failure.message.as_str()), failure.cause.as_deref(), failure.hint.as_deref()];
    clean::line(&parts.into_iter().flatten().collect::<Vec<_>>().join("; "))
}
