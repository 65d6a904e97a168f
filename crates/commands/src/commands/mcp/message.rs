//! One JSON-RPC message as a client wrote it. It is passed on as it is; only what decides how is read.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// JSON-RPC: what was sent is not JSON.
pub(super) const NOT_JSON: i64 = -32_700;
/// JSON-RPC: it is JSON, and no message.
pub(super) const NO_MESSAGE: i64 = -32_600;
/// Ours, of the codes that are free: the server could not be asked, or refused.
pub(super) const NOT_ANSWERED: i64 = -32_000;

/// The revision of its request, in the lifecycle without a session.
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";

#[derive(Clone, Debug)]
pub(super) struct Message {
    /// As it was written, in one line.
    pub(super) text: String,
    pub(super) kind: Kind,
    /// The revision that a request names for itself. Without one, it belongs to a session.
    pub(super) version: Option<String>,
    /// What it is about: the tool, the prompt, the resource or the task.
    pub(super) name: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    Request {
        id: Value,
        method: String,
    },
    Notification {
        method: String,
    },
    /// The client's answer to a request of the server.
    Response,
}

/// A line that is no message, with the answer to it.
#[derive(Debug, PartialEq)]
pub(super) struct Refused(pub(super) String);

impl Message {
    /// The messages of a line: one, or several of a batch. An empty line has none.
    pub(super) fn read(line: &str) -> Vec<Result<Self, Refused>> {
        let line = line.trim();
        if line.is_empty() {
            return Vec::new();
        }
        let refused = |error: serde_json::Error| vec![Err(Refused(answer(&Value::Null, NOT_JSON, &format!("this is not JSON: {error}"))))];
        if !line.starts_with('[') {
            return vec![Self::of(line)];
        }
        match serde_json::from_str::<Vec<&RawValue>>(line) {
            Ok(parts) => parts.into_iter().map(|part| Self::of(part.get())).collect(),
            Err(error) => refused(error),
        }
    }

    fn of(text: &str) -> Result<Self, Refused> {
        let read: Value =
            serde_json::from_str(text).map_err(|error| Refused(answer(&Value::Null, NOT_JSON, &format!("this is not JSON: {error}"))))?;
        let id = read.get("id").filter(|id| id.is_string() || id.is_number()).cloned();
        let method = read.get("method").and_then(Value::as_str).map(str::to_owned);
        let is_answer = read.get("result").is_some() || read.get("error").is_some();
        let kind = match (id, method) {
            (Some(id), Some(method)) => Kind::Request { id, method },
            (None, Some(method)) => Kind::Notification { method },
            (_, None) if is_answer => Kind::Response,
            (_, None) => return Err(Refused(answer(&Value::Null, NO_MESSAGE, "this is no JSON-RPC message: it has no `method`"))),
        };
        let params = &read["params"];
        let version = params["_meta"][VERSION].as_str().map(str::to_owned);
        let name = ["name", "uri", "taskId"].into_iter().filter(|key| is_named_by(kind.method(), key)).find_map(|key| params[key].as_str());
        Ok(Self { name: name.map(header_text), text: one_line(text), version, kind })
    }

    pub(super) fn method(&self) -> &str {
        self.kind.method()
    }

    /// Of a cancellation: the id of the request that is no longer wanted.
    pub(super) fn cancels(&self) -> Option<Value> {
        if self.kind != (Kind::Notification { method: "notifications/cancelled".to_owned() }) {
            return None;
        }
        let read: Value = serde_json::from_str(&self.text).ok()?;
        Some(read["params"]["requestId"].clone()).filter(|id| !id.is_null())
    }
}

impl Kind {
    fn method(&self) -> &str {
        match self {
            Self::Request { method, .. } | Self::Notification { method } => method,
            Self::Response => "",
        }
    }
}

/// An error as the answer to a request.
pub(super) fn answer(id: &Value, code: i64, message: &str) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } }).to_string()
}

/// Line breaks of JSON stand between its parts only: inside a text they are escaped.
pub(super) fn one_line(text: &str) -> String {
    text.trim().replace(['\n', '\r'], " ")
}

/// Which member names what a method is about.
fn is_named_by(method: &str, key: &str) -> bool {
    let methods: &[&str] = match key {
        "name" => &["tools/call", "prompts/get"],
        "uri" => &["resources/read", "resources/subscribe", "resources/unsubscribe"],
        _ => &["tasks/get", "tasks/update", "tasks/cancel"],
    };
    methods.contains(&method)
}

/// A text that a header cannot carry is wrapped, as the specification says.
fn header_text(text: &str) -> String {
    let is_wrapped = text.starts_with("=?base64?") && text.ends_with("?=");
    let is_plain = text.chars().all(|character| (' '..='~').contains(&character)) && text.trim() == text && !is_wrapped;
    if is_plain { text.to_owned() } else { format!("=?base64?{}?=", BASE64_STANDARD.encode(text)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(line: &str) -> Message {
        Message::read(line).remove(0).unwrap()
    }

    #[test]
    fn a_message_is_passed_on_as_it_is_and_its_kind_is_known() {
        let call = one(r#" {"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"files.read","arguments":{"n":1.10}}} "#);
        assert_eq!(call.kind, Kind::Request { id: json!(7), method: "tools/call".into() });
        assert_eq!((call.name.as_deref(), call.version.as_deref()), (Some("files.read"), None));
        assert!(call.text.contains("1.10"), "{}", call.text);
        let stateless = one(
            r#"{"jsonrpc":"2.0","id":"a","method":"resources/read","params":{"uri":"x://é","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#,
        );
        assert_eq!(stateless.version.as_deref(), Some("2026-07-28"));
        assert_eq!(stateless.name.as_deref(), Some("=?base64?eDovL8Op?="));
        assert_eq!(one(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#).kind, Kind::Response);
        assert_eq!(
            one(r#"{"method":"notifications/initialized"}"#).kind,
            Kind::Notification { method: "notifications/initialized".into() }
        );
        let cancelled = one(r#"{"method":"notifications/cancelled","params":{"requestId":7}}"#);
        assert_eq!((cancelled.cancels(), call.cancels()), (Some(json!(7)), None));
    }

    #[test]
    fn a_batch_is_taken_apart_and_what_is_no_message_is_answered() {
        let batch = Message::read(r#"[{"id":1,"method":"ping"}, {"method":"x"}, 3]"#);
        assert_eq!(batch.iter().filter(|part| part.is_ok()).count(), 2);
        for (line, code) in [("{", NOT_JSON), ("[1", NOT_JSON), ("{}", NO_MESSAGE), (r#"{"id":1}"#, NO_MESSAGE), ("7", NO_MESSAGE)] {
            let Some(Err(Refused(answer))) = Message::read(line).pop() else { panic!("{line} was taken") };
            let answer: Value = serde_json::from_str(&answer).unwrap();
            assert_eq!((&answer["id"], &answer["error"]["code"]), (&Value::Null, &json!(code)), "{line}");
        }
        assert!(Message::read("  ").is_empty());
    }
}
