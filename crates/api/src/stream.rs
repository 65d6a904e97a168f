//! The live stream: what a server sends over it, and what a client may send over its WebSocket. A server-sent event and a message of a
//! WebSocket have the same JSON.

use crate::compat::{self, ActionRequest};
use countersign_core::ports::events::{ACTION_EXECUTED, Event};
use countersign_core::{OrgId, SessionId, Status, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use utoipa::ToSchema;

/// A place in an org's events. An event has up to two parts: itself, and the same under its older name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    /// The position of an event; 0 is before the first.
    pub seq: i64,
    part: u8,
}

impl Cursor {
    /// After the event itself, and before the same under its older name.
    pub const fn at(seq: i64) -> Self {
        Self { seq, part: 0 }
    }

    /// After all that an event has.
    pub const fn after(seq: i64) -> Self {
        Self { seq, part: 1 }
    }

    /// Reads what `Display` prints.
    pub fn parse(text: &str) -> Option<Self> {
        let (seq, part) = text.split_once('.').map_or((text, 0), |(seq, part)| (seq, if part == "1" { 1 } else { 2 }));
        let is_number = !seq.is_empty() && seq.bytes().all(|byte| byte.is_ascii_digit());
        (is_number && part < 2).then(|| seq.parse().ok().map(|seq| Self { seq, part })).flatten()
    }
}

/// `42`, or `42.1` after the part with the older name.
impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.part {
            0 => write!(f, "{}", self.seq),
            part => write!(f, "{}.{part}", self.seq),
        }
    }
}

/// An event of the stream, in the form of CloudEvents 1.0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StreamEvent {
    /// Of CloudEvents: `1.0`.
    pub specversion: String,
    /// The event's id, which its source gave it. Under its older name an event has the same id, with `.1` after it.
    pub id: String,
    /// The org, as `/orgs/<id>`; of an event that somebody else published, what they called themselves.
    pub source: String,
    /// Such as `invocation.held`, or its older name `action_approval_request`.
    #[serde(rename = "type")]
    pub name: String,
    /// What it is about: the id of an invocation, a batch or a grant, or the name of a rule.
    pub subject: String,
    /// When it happened: when we committed it, or when its source says so.
    pub time: Timestamp,
    /// Give it back as `after` to go on after this event.
    pub cursor: String,
    /// The receipt that it announces, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<String>,
    /// The id of the space that it belongs to, if whoever published it named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spaceid: Option<String>,
    /// The ids of the automations that led to it, the first one first, with commas between them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<String>,
    /// How many runs of automations led to it, one by another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// The id of the run that began it all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rootrunid: Option<String>,
    /// Extension attributes that its source gave it.
    #[serde(flatten)]
    pub more: BTreeMap<String, Value>,
    /// Of a call: ids, action, tier, mode, status, trace id and a `summary`; at its end also `receipt_id` and `reward`. Of a rule: who
    /// changed it and what.
    #[schema(value_type = BTreeMap<String, Value>)]
    pub data: Value,
}

/// One part of an event, as it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub name: String,
    pub cursor: Cursor,
    /// A `StreamEvent`.
    pub json: String,
}

/// The parts of an event: itself, and the same under its older name if it has one. `instead` is the status that a reader is told who may
/// not know the true one.
pub fn frames(org: &OrgId, event: &Event, instead: Option<Status>) -> Vec<Frame> {
    let mut data = data_of(event);
    let status = instead.or_else(|| Status::deserialize(&data["status"]).ok());
    let is_executed = event.name == ACTION_EXECUTED;
    let name: &str = instead.filter(|_| !is_executed).map_or_else(|| event.name.as_str(), |status| status.event_name());
    if let (Some(status), Some(members)) = (instead, data.as_object_mut()) {
        members.insert("status".to_owned(), Value::from(status.as_str()));
        if members.contains_key("summary") {
            let action = if is_executed { "tool_id" } else { "action" };
            let summary = format!("{} {}", members.get(action).and_then(Value::as_str).unwrap_or_default(), status.as_str());
            members.insert("summary".to_owned(), Value::from(summary.trim_start()));
        }
    }
    // `invocation.approval_counted` has a status too, but does not announce it.
    let announced = match status {
        Some(status) if is_executed => Some(compat::executed(status)),
        status => status.filter(|status| status.event_name() == name).and_then(compat::announced),
    };
    let first = StreamEvent { name: name.to_owned(), ..envelope_of(org, event, data) };
    let second = announced.map(|announced| {
        let mut data = first.data.clone();
        if let Some(members) = data.as_object_mut() {
            members.insert("status".to_owned(), Value::from(announced.status));
        }
        let (id, cursor) = (format!("{}.1", event.id), Cursor::after(event.seq).to_string());
        StreamEvent { id, name: announced.name.to_owned(), cursor, data, ..first.clone() }
    });
    let frame = |part: u8, event: StreamEvent, seq: i64| {
        // Serialising cannot fail: the value was read from JSON.
        Frame { json: serde_json::to_string(&event).unwrap_or_default(), name: event.name, cursor: Cursor { seq, part } }
    };
    [Some(first), second].into_iter().flatten().zip(0..).map(|(part, number)| frame(number, part, event.seq)).collect()
}

/// The event with everything that is told of it. What its source says of it counts before what we know of its coming.
pub fn envelope(org: &OrgId, event: &Event) -> StreamEvent {
    envelope_of(org, event, data_of(event))
}

fn envelope_of(org: &OrgId, event: &Event, data: Value) -> StreamEvent {
    let origin = event.origin.as_ref();
    let is_caused = !event.cause.is_nobody();
    let chain: Vec<_> = event.cause.chain.iter().map(|automation| automation.as_str()).collect();
    StreamEvent {
        specversion: "1.0".to_owned(),
        id: origin.map_or_else(|| event.id.to_string(), |origin| origin.id.clone()),
        source: origin.map_or_else(|| source_of(org), |origin| origin.source.clone()),
        name: event.name.clone(),
        subject: event.key.clone(),
        time: origin.and_then(|origin| origin.time).unwrap_or(event.at),
        cursor: Cursor::at(event.seq).to_string(),
        receipt: event.receipt.as_ref().map(ToString::to_string),
        spaceid: event.space.as_ref().map(ToString::to_string),
        chain: (!chain.is_empty()).then(|| chain.join(",")),
        depth: is_caused.then_some(event.cause.depth),
        rootrunid: event.cause.root_run_id.as_ref().map(ToString::to_string),
        more: origin.map(|origin| origin.more.clone()).unwrap_or_default(),
        data,
    }
}

/// What the source of an event is that the server tells of this org. Nobody else publishes as this source.
pub fn source_of(org: &OrgId) -> String {
    format!("/orgs/{org}")
}

/// The session of the call or batch that an event is about.
pub fn session_of(event: &Event) -> Option<SessionId> {
    let is_of_calls = event.name == ACTION_EXECUTED || event.name.starts_with("invocation.") || event.name.starts_with("batch.");
    // What somebody else has published is about no call of ours.
    (is_of_calls && event.origin.is_none()).then(|| SessionId::parse(data_of(event)["session_id"].as_str()?).ok()).flatten()
}

fn data_of(event: &Event) -> Value {
    serde_json::from_str(&event.body).unwrap_or_default()
}

/// What the stream says of itself. Such a message is no event: it is not stored, and nobody gets it again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StreamNotice {
    #[serde(rename = "type")]
    pub name: NoticeName,
    /// The stream goes on from here, or from where it would.
    pub cursor: String,
    /// Why it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<DropReason>,
    /// What to do next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum NoticeName {
    /// The first message.
    #[serde(rename = "stream.opened")]
    Opened,
    /// There were events, but none for this reader. Over a WebSocket only: a server-sent comment has the `id`.
    #[serde(rename = "stream.position")]
    Position,
    /// The last message.
    #[serde(rename = "stream.dropped")]
    Dropped,
}

impl NoticeName {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Opened => "stream.opened",
            Self::Position => "stream.position",
            Self::Dropped => "stream.dropped",
        }
    }
}

/// Why the server ends a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DropReason {
    /// The reader took too long, and events it has not read are no longer kept for it.
    TooSlow,
    /// The server stops.
    Stopping,
}

/// The first message of a WebSocket that was opened without a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AuthenticateMessage {
    /// `authenticate`.
    #[serde(rename = "type")]
    pub name: String,
    pub token: String,
    /// The `cursor` of the last message that was read.
    #[serde(default)]
    pub after: Option<String>,
}

/// Answers a pending call over a WebSocket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerMessage {
    /// `approve` or `deny`.
    #[serde(rename = "type")]
    pub name: String,
    /// Given back in the answer.
    #[serde(default)]
    pub request: Option<String>,
    pub invocation: String,
    /// As over HTTP: an `ApproveRequest` or a `DenyRequest`.
    #[serde(default)]
    #[schema(value_type = Option<BTreeMap<String, Value>>)]
    pub body: Option<Value>,
}

/// The answer to a message of a client, over a WebSocket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MessageAnswer {
    /// `answer`.
    #[serde(rename = "type")]
    pub name: String,
    /// The `request` of the message, or the `id` of the event.
    pub request: Option<String>,
    /// The HTTP status that it would have.
    pub status: u16,
    /// The body that it would have over HTTP; with a status of 400 or more, a `Problem`.
    #[schema(value_type = BTreeMap<String, Value>)]
    pub body: Value,
}

/// An event that a client sends, in the form of CloudEvents 1.0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EventRequest {
    #[serde(default)]
    pub specversion: Option<String>,
    /// The sender's id of the event. The same event sent again causes no second effect.
    #[serde(default)]
    pub id: Option<String>,
    #[serde(default)]
    pub source: Option<String>,
    /// `action.decision`: somebody has decided on an action, and asks for it.
    #[serde(rename = "type")]
    #[schema(example = "action.decision")]
    pub name: String,
    #[serde(default)]
    pub subject: Option<String>,
    #[serde(default)]
    pub time: Option<String>,
    #[serde(default)]
    pub datacontenttype: Option<String>,
    pub data: ActionRequest,
}

/// An event was taken: the call that it asked for is recorded. Its `invocation.*` events tell what becomes of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventAccepted {
    pub event_id: Option<String>,
    pub invocation_id: String,
    /// What it is by now.
    pub status: Status,
    /// The event was sent before: this is the earlier call, and nothing more is told of it.
    pub replayed: bool,
    /// The `trace_id` of the call's events.
    pub trace_id: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_core::ports::events::{Cause, Origin};
    use countersign_core::{EventId, RunId};
    use serde_json::json;

    fn event(name: &str, body: Value) -> Event {
        let at = Timestamp::from_micros(0);
        let (id, key, body) = (EventId::new(at, [1; 10]), "inv_1".to_owned(), body.to_string());
        let (receipt, origin, space, cause) = (None, None, None, Cause::default());
        Event { seq: 42, id, name: name.to_owned(), key, receipt, body, at, origin, space, cause }
    }

    fn names(name: &str, status: &str, instead: Option<Status>) -> Vec<(String, String, String)> {
        let org = OrgId::new(Timestamp::from_micros(0), [2; 10]);
        let told = |frame: Frame| {
            let sent: Value = serde_json::from_str(&frame.json).unwrap();
            assert_eq!((&sent["type"], &sent["cursor"]), (&json!(frame.name), &json!(frame.cursor.to_string())));
            (frame.name, sent["data"]["status"].as_str().unwrap().to_owned(), frame.cursor.to_string())
        };
        frames(&org, &event(name, json!({ "status": status })), instead).into_iter().map(told).collect()
    }

    #[test]
    fn an_event_is_told_under_our_name_and_beside_it_under_the_older_one() {
        let told = |name: &str, status: &str, cursor: &str| (name.to_owned(), status.to_owned(), cursor.to_owned());
        for (name, status, older) in [
            ("invocation.held", "pending", Some(("action_approval_request", "pending"))),
            ("invocation.succeeded", "succeeded", Some(("action_completed", "completed"))),
            ("invocation.failed", "failed", Some(("action_completed", "failed"))),
            ("invocation.reverted", "reverted", Some(("action_completed", "failed"))),
            ("invocation.denied", "denied", Some(("action_approval_result", "denied"))),
            ("action.executed", "succeeded", Some(("ACTION_EXECUTED", "ok"))),
            ("action.executed", "in_doubt", Some(("ACTION_EXECUTED", "error"))),
            ("invocation.approval_counted", "pending", None),
            ("invocation.expired", "expired", None),
            ("batch.succeeded", "succeeded", None),
        ] {
            let older = older.map(|(older, word)| told(older, word, "42.1"));
            let expected: Vec<_> = [Some(told(name, status, "42")), older].into_iter().flatten().collect();
            assert_eq!(names(name, status, None), expected);
        }
    }

    #[test]
    fn who_may_not_know_that_a_call_was_quarantined_is_told_that_it_was_denied() {
        let told = names("invocation.quarantined", "quarantined", Some(Status::Denied));
        assert_eq!(told[0], ("invocation.denied".to_owned(), "denied".to_owned(), "42".to_owned()));
        assert_eq!(told[1].0, "action_approval_result");
        let executed = names("action.executed", "quarantined", Some(Status::Denied));
        let told_of = executed.iter().map(|(name, status, _)| (name.as_str(), status.as_str())).collect::<Vec<_>>();
        assert_eq!(told_of, [("action.executed", "denied"), ("ACTION_EXECUTED", "error")]);
        assert!(!format!("{told:?} {executed:?}").contains("quarantined"));
    }

    #[test]
    fn an_event_of_somebody_else_keeps_what_they_said_of_it() {
        let org = OrgId::new(Timestamp::from_micros(0), [2; 10]);
        let more = BTreeMap::from([("partitionkey".to_owned(), json!("7"))]);
        let time = Timestamp::parse("2026-01-31T12:00:00Z");
        let origin = Some(Origin { source: "/drive".to_owned(), id: "a-1".to_owned(), time, more });
        let root = RunId::new(Timestamp::from_micros(0), [4; 10]);
        let cause = Cause { chain: Vec::new(), depth: 2, root_run_id: Some(root.clone()) };
        let told = envelope(&org, &Event { origin, cause, ..event("drive.file_added", json!({ "size": 3 })) });
        let sent = serde_json::to_value(&told).unwrap();
        let expected = json!({
            "specversion": "1.0", "id": "a-1", "source": "/drive", "type": "drive.file_added", "subject": "inv_1",
            "time": "2026-01-31T12:00:00.000000Z", "cursor": "42", "depth": 2, "rootrunid": root, "partitionkey": "7",
            "data": { "size": 3 },
        });
        assert_eq!(sent, expected);
        assert_eq!(serde_json::from_value::<StreamEvent>(sent).unwrap(), told);
    }

    #[test]
    fn only_calls_and_batches_belong_to_a_session() {
        let session = SessionId::new(Timestamp::from_micros(0), [3; 10]);
        let body = || json!({ "session_id": session });
        assert_eq!(session_of(&event("invocation.held", body())), Some(session.clone()));
        assert_eq!(session_of(&event("batch.held", body())), Some(session.clone()));
        assert_eq!(session_of(&event("token.created", body())), None);
        assert_eq!(session_of(&event("invocation.held", json!({}))), None);
        assert_eq!(session_of(&Event { body: "nonsense".to_owned(), ..event("invocation.held", json!({})) }), None);
    }

    #[test]
    fn cursors_are_ordered_and_read_as_they_are_printed() {
        for text in ["0", "42", "42.1"] {
            assert_eq!(Cursor::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "-1", "+1", "1.", "1.0", "1.2", "1.1.1", " 1", "x", "99999999999999999999", "1e3"] {
            assert_eq!(Cursor::parse(text), None, "{text}");
        }
        let cursors: Vec<_> = ["0", "41.1", "42", "42.1", "43"].into_iter().filter_map(Cursor::parse).collect();
        assert!(cursors.is_sorted() && cursors.len() == 5);
        assert_eq!(Cursor::after(42).to_string(), "42.1");
    }
}
