//! Everything that a server sends passes here before the MCP library sees it: bounded, without the secrets that the server was given, and with
//! its raw text kept.
//!
//! SECURITY: the library has no bounds of its own, drops the members of a definition that it does not know, and starts a task for every
//! notification. It gets what it needs to run the protocol and nothing else: stubs in place of answers, requests that it refuses.

use super::budget::{Budget, Exhausted};
use super::given::Given;
use super::last_words::{LastWords, Observed};
use super::object::object;
use super::slot::{Answer, InSlot, Raw, Slot};
use super::told::Told;
use crate::limits::{MCP_ASKED_AT_ONCE, MCP_CONTROL_BYTES_MAX, MCP_MESSAGE_BYTES_MAX, MCP_MESSAGE_VALUES_MAX};
use crate::words::said;
use countersign_core::source::Error;
use parking_lot::Mutex;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, GetExtensions, GetMeta, ProgressToken, RequestId, ServerJsonRpcMessage};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// The traffic of one connection.
pub(super) struct Wire {
    source_id: String,
    pub(super) budget: Budget,
    /// What the server may not repeat.
    pub(super) given: Given,
    under_way: Mutex<Vec<UnderWay>>,
    /// Requests of the server that are not answered yet.
    asked: AtomicUsize,
    /// Why a request failed with which the library opens a connection.
    trouble: Mutex<Option<Error>>,
    /// Why the connection ended.
    ended: Mutex<Option<Error>>,
    hear: Box<dyn Fn(Told) + Send + Sync>,
    /// Whether the server listed tools whose params it wants in headers.
    has_header_params: AtomicBool,
    /// The program at the other end, if it is one.
    program: Mutex<Option<Arc<Observed>>>,
}

struct UnderWay {
    id: RequestId,
    token: Option<ProgressToken>,
    /// `None` for requests of the library itself, with which it opens a connection.
    slot: Option<Weak<Slot>>,
    is_listing: bool,
}

/// What the library gets to see of a message.
#[derive(Debug, PartialEq)]
pub(super) enum Inbound {
    /// This text instead.
    Pass(String),
    Nothing,
}

/// Why a message cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unusable {
    /// What the server did, as the rest of a sentence that begins with "it".
    pub(super) did: String,
    /// Whether it cannot have been the answer to any request under way.
    pub(super) is_stray: bool,
}

impl Unusable {
    pub(super) fn answer(did: impl Into<String>) -> Self {
        Self { did: did.into(), is_stray: false }
    }

    fn stray(did: &str) -> Self {
        Self { did: did.to_owned(), is_stray: true }
    }
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// The params of a progress notification.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reported {
    progress_token: ProgressToken,
    progress: f64,
    total: Option<f64>,
    message: Option<String>,
}

impl Wire {
    pub(super) fn new(source_id: &str, hear: impl Fn(Told) + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            source_id: source_id.to_owned(),
            budget: Budget::default(),
            given: Given::default(),
            under_way: Mutex::default(),
            asked: AtomicUsize::new(0),
            trouble: Mutex::default(),
            ended: Mutex::default(),
            hear: Box::new(hear),
            has_header_params: AtomicBool::new(false),
            program: Mutex::default(),
        })
    }

    /// Observes the program at the other end.
    pub(super) fn observe(&self, program: Arc<Observed>) {
        *self.program.lock() = Some(program);
    }

    /// What to do about an error that the program at the other end answers with.
    pub(super) fn hint(&self, message: &str) -> Option<String> {
        let program = self.program.lock().clone();
        program?.hint(message, &self.given)
    }

    /// What the program at the other end said beside its messages, and how it ended, without the secrets that it was given.
    pub(super) fn last_words(&self) -> Option<LastWords> {
        let program = self.program.lock().clone();
        program.map(|program| program.last_words(&self.given))
    }

    pub(super) fn source_id(&self) -> &str {
        &self.source_id
    }

    pub(super) fn has_header_params(&self) -> bool {
        self.has_header_params.load(Ordering::Relaxed)
    }

    /// Notes a message that is about to be sent, and returns the id if it is a request.
    pub(super) fn outbound(&self, message: &ClientJsonRpcMessage) -> Option<RequestId> {
        let request = match message {
            ClientJsonRpcMessage::Request(request) => request,
            ClientJsonRpcMessage::Response(_) | ClientJsonRpcMessage::Error(_) => {
                let _ = self.asked.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |asked| Some(asked.saturating_sub(1)));
                return None;
            }
            ClientJsonRpcMessage::Notification(_) => return None,
        };
        let slot = request.request.extensions().get::<InSlot>().map(|InSlot(slot)| Arc::downgrade(slot));
        let is_listing = matches!(request.request, ClientRequest::ListToolsRequest(_));
        let begins_anew = matches!(request.request, ClientRequest::InitializeRequest(_));
        let token = request.request.get_meta().get_progress_token();
        let mut under_way = self.under_way.lock();
        // A request is sent again, under its id, when its session had ended. The rest are requests that nobody waits for any more.
        under_way.retain(|other| other.id != request.id && other.slot.as_ref().is_none_or(|slot| slot.strong_count() > 0));
        // A slow server answers the question whether it speaks the later revision when nobody waits for that any more.
        under_way.retain(|other| !begins_anew || other.slot.is_some());
        under_way.push(UnderWay { id: request.id.clone(), token, slot, is_listing });
        Some(request.id.clone())
    }

    /// Takes a message of the server. `answers` is the request that it came in answer to, where the transport knows that.
    pub(super) fn inbound(&self, text: &str, answers: Option<&RequestId>) -> Result<Inbound, Unusable> {
        if text.len() > MCP_MESSAGE_BYTES_MAX {
            return Err(too_long());
        }
        let clean = self.given.without(text);
        let text = &*clean;
        if values_in(text) > MCP_MESSAGE_VALUES_MAX {
            return Err(Unusable::answer(format!("sent a message with more than {MCP_MESSAGE_VALUES_MAX} values")));
        }
        let envelope: Envelope<'_> = object(text).ok_or_else(|| Unusable::answer("sent a message that is not JSON-RPC"))?;
        match envelope {
            Envelope { method: Some(method), id: None, params, .. } => Ok(self.notified(&method, params, text)),
            Envelope { method: Some(_), id: Some(_), .. } => Ok(self.asked(text)),
            Envelope { method: None, id, result: Some(result), error: None, .. } => self.answered(id, result, true, answers),
            Envelope { method: None, id, result: None, error: Some(error), .. } => self.answered(id, error, false, answers),
            Envelope { method: None, .. } => Err(Unusable::answer("sent a message that is neither a request nor an answer")),
        }
    }

    /// Gives up a request. Returns what the library is to see, if it waits for an answer that way.
    pub(super) fn fail(&self, id: &RequestId, error: Error) -> Option<String> {
        let entry = self.remove(id)?;
        match entry.slot {
            Some(slot) => {
                if let Some(slot) = slot.upgrade() {
                    slot.put(Answer::Failed(error));
                }
                Some(stub(id, &json!({})))
            }
            None => {
                self.trouble.lock().get_or_insert(error);
                None
            }
        }
    }

    /// Gives up every request, because the connection has ended.
    pub(super) fn fail_all(&self, error: &Error) {
        for entry in std::mem::take(&mut *self.under_way.lock()) {
            if let Some(slot) = entry.slot.and_then(|slot| slot.upgrade()) {
                slot.put(Answer::Failed(error.clone()));
            }
        }
        self.ended.lock().get_or_insert_with(|| error.clone());
    }

    /// Why the connection could not be opened.
    pub(super) fn trouble(&self) -> Option<Error> {
        self.ended().or_else(|| self.trouble.lock().clone())
    }

    /// Why the connection has ended, if the transport knows that.
    pub(super) fn ended(&self) -> Option<Error> {
        self.ended.lock().clone()
    }

    /// The error of a request that was sent and got no usable answer.
    pub(super) fn broken(&self, unusable: &Unusable) -> Error {
        Error::Broken { source_id: self.source_id.clone(), message: format!("it {}", unusable.did) }
    }

    fn remove(&self, id: &RequestId) -> Option<UnderWay> {
        let mut under_way = self.under_way.lock();
        let at = under_way.iter().position(|entry| is_same(&entry.id, id))?;
        Some(under_way.swap_remove(at))
    }

    fn answered(&self, id: Option<&RawValue>, of: &RawValue, is_result: bool, answers: Option<&RequestId>) -> Result<Inbound, Unusable> {
        let id = id.and_then(|id| serde_json::from_str::<RequestId>(id.get()).ok());
        let id = match (id, answers) {
            (Some(id), Some(expected)) if is_same(expected, &id) => expected.clone(),
            // An error may come without an id, or with one of its own, if the server could not read the request.
            (_, Some(expected)) if !is_result => expected.clone(),
            (Some(_), Some(_)) => return Err(Unusable::stray("answered another request than the one it was asked")),
            (Some(id), None) => id,
            (None, Some(_) | None) => return Err(Unusable::stray("sent an answer without an id")),
        };
        let never_asked = || Unusable::stray("answered a request that it was not asked");
        let UnderWay { id, slot, is_listing, .. } = self.remove(&id).ok_or_else(never_asked)?;
        let Some(slot) = slot else {
            if of.get().len() > MCP_CONTROL_BYTES_MAX {
                return Err(too_long());
            }
            let member = if is_result { "result" } else { "error" };
            return Ok(Inbound::Pass(format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"{member}\":{}}}", json!(id), of.get())));
        };
        let promoted = if is_listing && is_result { with_header_params(of.get()) } else { Vec::new() };
        if let Some(slot) = slot.upgrade() {
            slot.put(match self.budget.take(of.get().len()) {
                Ok(taken) => {
                    let raw = Raw { text: of.get().to_owned(), taken };
                    if is_result { Answer::Result(raw) } else { Answer::Error(raw) }
                }
                Err(Exhausted) => Answer::Failed(self.broken(&too_much())),
            });
        }
        let result = if promoted.is_empty() {
            json!({})
        } else {
            self.has_header_params.store(true, Ordering::Relaxed);
            json!({ "tools": promoted })
        };
        Ok(Inbound::Pass(stub(&id, &result)))
    }

    fn notified(&self, method: &str, params: Option<&RawValue>, text: &str) -> Inbound {
        match method {
            "notifications/progress" => self.tell(params),
            // The library needs these two to end a request of the server and to begin a subscription.
            "notifications/cancelled" | "notifications/subscriptions/acknowledged" => {
                if text.len() <= MCP_CONTROL_BYTES_MAX {
                    return Inbound::Pass(text.to_owned());
                }
            }
            _ => {
                if let Some(told) = Told::of(method, params) {
                    (self.hear)(told);
                }
            }
        }
        Inbound::Nothing
    }

    fn tell(&self, params: Option<&RawValue>) {
        let Some(reported) = params.and_then(|params| object::<Reported>(params.get())) else { return };
        let under_way = self.under_way.lock();
        let entry = under_way.iter().find(|entry| entry.token.as_ref() == Some(&reported.progress_token));
        let slot = entry.and_then(|entry| entry.slot.as_ref()?.upgrade());
        drop(under_way);
        if let Some(slot) = slot {
            slot.tell(&reported.in_words());
        }
    }

    /// A request of the server. The library answers it: pings with nothing, everything else with a refusal.
    fn asked(&self, text: &str) -> Inbound {
        if text.len() > MCP_CONTROL_BYTES_MAX || self.asked.fetch_add(1, Ordering::Relaxed) >= MCP_ASKED_AT_ONCE {
            return Inbound::Nothing;
        }
        Inbound::Pass(text.to_owned())
    }
}

impl Reported {
    fn in_words(&self) -> String {
        let amount = match self.total {
            Some(total) => format!("{} of {total}", self.progress),
            None => self.progress.to_string(),
        };
        match &self.message {
            Some(message) => format!("{amount}: {}", said(message)),
            None => amount,
        }
    }
}

pub(super) fn too_long() -> Unusable {
    Unusable::answer(format!("sent a message longer than {MCP_MESSAGE_BYTES_MAX} bytes"))
}

pub(super) fn too_much() -> Unusable {
    Unusable::answer("sent more at once than is held of one source")
}

/// The message as the library reads it.
pub(super) fn parsed(text: &str) -> Option<ServerJsonRpcMessage> {
    serde_json::from_str(text).ok()
}

fn stub(id: &RequestId, result: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string()
}

/// Whether an answer's id is that of a request. Some servers write numbers as texts.
fn is_same(asked: &RequestId, answered: &RequestId) -> bool {
    asked == answered || matches!((asked, answered), (RequestId::Number(asked), RequestId::String(text)) if text.parse() == Ok(*asked))
}

/// The tools of a page whose params a server wants in headers as well. The library writes those headers, from these schemas.
fn with_header_params(page: &str) -> Vec<Value> {
    const ANNOTATION: &str = "\"x-mcp-header\"";
    #[derive(Deserialize)]
    struct Page<'a> {
        #[serde(borrow)]
        tools: Vec<&'a RawValue>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Tool {
        name: String,
        input_schema: serde_json::Map<String, Value>,
    }
    if !page.contains(ANNOTATION) {
        return Vec::new();
    }
    let tools = object::<Page<'_>>(page).map(|page| page.tools).unwrap_or_default();
    let annotated = tools.into_iter().filter(|tool| tool.get().contains(ANNOTATION));
    let read = annotated.filter_map(|tool| object::<Tool>(tool.get()));
    read.map(|tool| json!({ "name": tool.name, "inputSchema": tool.input_schema })).collect()
}

/// How many JSON values a text holds, at least. Counted without building them: an array of a million empty arrays is short, and large in
/// memory.
fn values_in(text: &str) -> usize {
    let (mut values, mut is_text, mut is_escaped) = (1, false, false);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b',' | b'[' | b'{' if !is_text => values += 1,
            _ => {}
        }
    }
    values
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
