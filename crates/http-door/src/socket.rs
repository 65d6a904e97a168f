//! The live stream over a WebSocket. Its client may answer pending calls and send decisions, each message as a request of its own: the token
//! is looked at anew, and the same functions answer.

use super::answers::{approve_one, deny_one};
use super::body::{parse, shape};
use super::caller::{Caller, Shown, bearer, needs_token};
use super::events;
use super::page::Asked;
use super::problem::Refusal;
use super::reached::Reached;
use super::stream::StreamQuery;
use super::teller::{End, Say, Teller, position, written};
use super::trace::{TraceId, fresh};
use crate::limits::{STREAM_CLOSE_SECONDS, STREAM_MESSAGE_BYTES_MAX, STREAM_MESSAGES_AT_ONCE, WRITE_STALL_SECONDS};
use api::compat::is_decision;
use api::stream::{AnswerMessage, AuthenticateMessage, DropReason, MessageAnswer};
use api::{Code, Problem};
use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade, close_code};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use countersign_core::Secret;
use countersign_core::limits::LIGHT_BYTES_MAX;
use durable::heavy;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use operations::App;
use operations::{self, answers};
use pipeline::limits::CLAIMED_CHARS_MAX;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::time::Duration;
use stream::limits::STREAM_TOKEN_SECONDS;
use tokio::time::Instant;
use tracing::Instrument;

/// What a client offers as a subprotocol, and what it puts its token after: a browser can set no other header.
const PROTOCOL: &str = "countersign.v1";
const TOKEN_PROTOCOL: &str = "countersign.token.";

/// Bytes that are read at a time. An idle connection keeps this buffer.
const READ_BYTES: usize = 4 * 1024;

/// Follows the same events over a WebSocket, over which pending calls can be answered and decisions be sent.
///
/// The token is in the `authorization` header; or, in a browser, in the subprotocols `countersign.v1` and `countersign.token.<token>`; or in
/// the first message, an `AuthenticateMessage`. The server sends a `StreamEvent`, a `StreamNotice`, a `MessageAnswer` or, as the last one, a
/// `Problem`, whose `type` begins with `/docs/errors/`. Of these, only an event has a `specversion`. A client sends an `AnswerMessage` or an
/// `EventRequest`.
#[utoipa::path(operation_id = "stream_connect", get, path = "/api/v1/stream/ws", tag = "stream", params(StreamQuery),
    responses(
        (status = 101, description = "The connection is a WebSocket from now on."),
        (status = 429, description = "Too many streams are open.", body = Problem, content_type = "application/problem+json"),
    ))]
pub(super) async fn connect(
    State(app): State<App>,
    Extension(trace): Extension<TraceId>,
    Extension(reached): Extension<Reached>,
    headers: HeaderMap,
    Asked(query): Asked<StreamQuery>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Refusal> {
    let token = bearer(&headers).or_else(|| offered(&headers)).map(|token| Shown::Token(Secret::new(token.to_owned())));
    let upgrade = match upgrade {
        Ok(upgrade) => upgrade,
        Err(rejection) => {
            token.ok_or_else(needs_token)?.principal(&app).await?;
            return Err(Refusal::new(Code::InvalidRequest, format!("this address takes WebSockets only: {rejection}"))
                .hint("follow the stream as server-sent events with `GET /api/v1/stream`"));
        }
    };
    let upgrade = upgrade
        .protocols([PROTOCOL])
        .read_buffer_size(READ_BYTES)
        .write_buffer_size(0)
        .max_message_size(2 * STREAM_MESSAGE_BYTES_MAX)
        .max_frame_size(2 * STREAM_MESSAGE_BYTES_MAX);
    match token {
        Some(token) => {
            let teller = Teller::open(app.clone(), token, query.after.as_deref(), trace.0).await?;
            Ok(upgrade.on_upgrade(move |socket| serve(app, socket, teller)))
        }
        None => {
            let place = app.streams().stranger(reached.client).map_err(operations::Error::from)?;
            Ok(upgrade.on_upgrade(move |mut socket| async move {
                let introduced = introduced(&app, &mut socket, query.after, trace.0.clone()).await;
                drop(place);
                match introduced {
                    Ok(Some(teller)) => serve(app, socket, teller).await,
                    Ok(None) => {}
                    Err(refusal) => {
                        let _gone = socket.send(Message::text(written(refusal, trace.0))).await;
                        close(&mut socket, close_code::POLICY, "no valid token").await;
                    }
                }
            }))
        }
    }
}

/// The token among the subprotocols that the client offers.
fn offered(headers: &HeaderMap) -> Option<&str> {
    let lists = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    lists.flat_map(|list| list.split(',')).find_map(|offer| offer.trim().strip_prefix(TOKEN_PROTOCOL)).filter(|token| !token.is_empty())
}

/// The stream of whoever says in their first message who they are; `None` if they have gone.
async fn introduced(app: &App, socket: &mut WebSocket, after: Option<String>, trace_id: String) -> Result<Option<Teller>, Refusal> {
    let late = |_elapsed| Refusal::new(Code::Unauthenticated, format!("no token came within {STREAM_TOKEN_SECONDS} seconds"));
    let first = tokio::time::timeout(Duration::from_secs(STREAM_TOKEN_SECONDS), first_text(socket)).await.map_err(late)?;
    let Some(text) = first else { return Ok(None) };
    if text.len() > LIGHT_BYTES_MAX {
        return Err(Refusal::new(Code::BodyTooLarge, format!("the first message is larger than {LIGHT_BYTES_MAX} bytes")));
    }
    let message = parse(text.as_bytes())?;
    if message["type"] != "authenticate" {
        return Err(Refusal::new(Code::Unauthenticated, "the first message must be of type `authenticate`, with a `token`"));
    }
    let AuthenticateMessage { token, after: told, .. } = shape(message)?;
    Teller::open(app.clone(), Shown::Token(Secret::new(token)), told.or(after).as_deref(), trace_id).await.map(Some)
}

async fn first_text(socket: &mut WebSocket) -> Option<Utf8Bytes> {
    loop {
        match socket.recv().await?.ok()? {
            Message::Text(text) => return Some(text),
            Message::Ping(_) | Message::Pong(_) => {}
            Message::Binary(_) | Message::Close(_) => return None,
        }
    }
}

/// Sends what is told, and answers what is asked, until one side ends it.
async fn serve(app: App, mut socket: WebSocket, mut teller: Teller) {
    let mut asked = FuturesUnordered::new();
    let mut heard_at = Instant::now();
    loop {
        let sent = tokio::select! {
            say = teller.next() => match say {
                None => break,
                Some(Say::Message { json, .. }) => socket.send(Message::text(json)).await,
                Some(Say::Alive { .. }) if is_silent(heard_at.elapsed(), asked.len()) => return,
                Some(Say::Alive { cursor }) => alive(&mut socket, cursor.map(position)).await,
            },
            Some(answer) = asked.next(), if !asked.is_empty() => {
                if !is_listened_to(asked.len() + 1) {
                    // From now on it is listened to again.
                    heard_at = Instant::now();
                }
                socket.send(Message::text(answer)).await
            }
            message = socket.recv(), if is_listened_to(asked.len()) => {
                heard_at = Instant::now();
                match message {
                    Some(Ok(Message::Text(text))) => asked.push(answer_to(app.clone(), teller.shown().clone(), text)),
                    // The same answer as to a text that is no JSON.
                    Some(Ok(Message::Binary(_))) => asked.push(answer_to(app.clone(), teller.shown().clone(), Utf8Bytes::default())),
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                    Some(Ok(Message::Close(_))) | None => return,
                    Some(Err(error)) => {
                        tracing::debug!(%error, "a WebSocket sent what cannot be read");
                        return close(&mut socket, close_code::SIZE, "the message is too large, or is none").await;
                    }
                }
                Ok(())
            }
        };
        if sent.is_err() {
            return;
        }
    }
    // What was asked is being done, so whoever asked is told.
    while let Some(answer) = asked.next().await {
        if socket.send(Message::text(answer)).await.is_err() {
            return;
        }
    }
    let (code, reason) = match teller.end() {
        Some(End::Dropped(DropReason::TooSlow)) => (close_code::AGAIN, "too slow"),
        Some(End::Dropped(DropReason::Stopping)) => (close_code::RESTART, "the server stops"),
        Some(End::Refused) | None => (close_code::POLICY, "refused"),
    };
    close(&mut socket, code, reason).await;
}

/// Whether a client is listened to of whom so many messages are worked on.
const fn is_listened_to(in_work: usize) -> bool {
    in_work < STREAM_MESSAGES_AT_ONCE
}

/// Whether the client has said nothing for too long. While it is not listened to, it may have said anything.
fn is_silent(unheard: Duration, in_work: usize) -> bool {
    is_listened_to(in_work) && unheard > Duration::from_secs(WRITE_STALL_SECONDS)
}

/// Asks whether the client is there, and says how far it is if that has changed.
async fn alive(socket: &mut WebSocket, moved: Option<Say>) -> Result<(), axum::Error> {
    if let Some(Say::Message { json, .. }) = moved {
        socket.send(Message::text(json)).await?;
    }
    socket.send(Message::Ping(Bytes::new())).await
}

/// Says why the connection ends, and waits until the client has said that it ends too. If it were closed before that, whatever the client
/// still sends, such as its answer to a ping, would reset it, and what the client has not read yet would be lost.
async fn close(socket: &mut WebSocket, code: u16, reason: &'static str) {
    if socket.send(Message::Close(Some(CloseFrame { code, reason: Utf8Bytes::from_static(reason) }))).await.is_err() {
        return;
    }
    let agreed = async { while let Some(Ok(_)) = socket.recv().await {} };
    let _silent = tokio::time::timeout(Duration::from_secs(STREAM_CLOSE_SECONDS), agreed).await;
}

/// The answer to a message, as JSON. A large one is read and answered where nobody else waits.
async fn answer_to(app: App, shown: Shown, text: Utf8Bytes) -> String {
    let is_light = text.len() <= LIGHT_BYTES_MAX;
    let answered = answer_now(app, shown, text);
    if is_light { answered.await } else { heavy::run(answered).await }
}

async fn answer_now(app: App, shown: Shown, text: Utf8Bytes) -> String {
    let trace_id = fresh(&app);
    let span = tracing::info_span!("message", trace_id);
    let (request, answered) = match read(&text) {
        Ok(message) => (request_of(&message), act(&app, &shown, trace_id.clone(), message).instrument(span).await),
        Err(refusal) => (None, Err(refusal)),
    };
    let (status, body) = answered.unwrap_or_else(|refusal| {
        let mut problem = refusal.into_problem();
        problem.trace_id = Some(trace_id);
        (problem.status, serde_json::to_value(problem).unwrap_or_default())
    });
    serde_json::to_string(&MessageAnswer { name: "answer".to_owned(), request, status, body }).unwrap_or_default()
}

fn read(text: &str) -> Result<Value, Refusal> {
    if text.len() > STREAM_MESSAGE_BYTES_MAX {
        return Err(Refusal::new(Code::BodyTooLarge, format!("the message is larger than {STREAM_MESSAGE_BYTES_MAX} bytes")));
    }
    parse(text.as_bytes())
}

/// What the client calls its message, to tell the answers apart.
fn request_of(message: &Value) -> Option<String> {
    let named = message["request"].as_str().or_else(|| message["id"].as_str())?;
    Some(named.chars().take(CLAIMED_CHARS_MAX).collect())
}

/// Does what a message asks for.
async fn act(app: &App, shown: &Shown, trace_id: String, message: Value) -> Result<(u16, Value), Refusal> {
    let caller = Caller { principal: shown.principal(app).await?, trace_id };
    let name = message["type"].as_str().unwrap_or_default().to_owned();
    match name.as_str() {
        "approve" => {
            let AnswerMessage { invocation, body, .. } = shape(message)?;
            // The body is read first, as it is over HTTP.
            let (body, id) = (or_empty(body)?, answers::id_of(&caller.principal, &invocation)?);
            let (status, approved) = approve_one(app, &caller.principal, &id, body).await?;
            answered(status, &approved)
        }
        "deny" => {
            let AnswerMessage { invocation, body, .. } = shape(message)?;
            let (body, id) = (or_empty(body)?, answers::id_of(&caller.principal, &invocation)?);
            answered(StatusCode::OK, &deny_one(app, &caller.principal, &id, body).await?)
        }
        name if is_decision(name) => answered(StatusCode::ACCEPTED, &events::take(app, caller, shape(message)?).await?),
        _ => Err(Refusal::new(Code::InvalidRequest, "`type` must be `approve`, `deny` or `action.decision`")),
    }
}

fn or_empty<T: DeserializeOwned + Default>(body: Option<Value>) -> Result<T, Refusal> {
    body.map_or_else(|| Ok(T::default()), shape)
}

fn answered(status: StatusCode, body: &impl Serialize) -> Result<(u16, Value), Refusal> {
    let body = serde_json::to_value(body).map_err(|error| Refusal::new(Code::Internal, error.to_string()))?;
    Ok((status.as_u16(), body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_is_not_listened_to_is_not_silent() {
        let long = Duration::from_secs(WRITE_STALL_SECONDS + 1);
        for (unheard, in_work, expected) in
            [(long, 0, true), (long, STREAM_MESSAGES_AT_ONCE - 1, true), (long, STREAM_MESSAGES_AT_ONCE, false), (Duration::ZERO, 0, false)]
        {
            assert_eq!(is_silent(unheard, in_work), expected, "{in_work} in work");
        }
    }
}
