//! The event bus on the wire: what is published, consumer groups, and dead letters. Events themselves are `stream::StreamEvent`.

use crate::stream::StreamEvent;
use countersign_core::ports::bus::{Group, LetterKind};
use countersign_core::{Status, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// An event that somebody publishes: CloudEvents 1.0, with data in JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PublishRequest {
    /// `1.0`.
    pub specversion: String,
    /// With its source it names the event: sent again, it is not published again.
    pub id: String,
    /// Who says so, as a URI or a part of one. The org itself, `/orgs/org_…`, is the server's alone.
    #[schema(example = "/drive")]
    pub source: String,
    /// Such as `drive.file_added`. Words of ours, such as `invocation`, cannot be its first, and names of ours, such as `action_completed`,
    /// cannot be it.
    #[serde(rename = "type")]
    #[schema(example = "drive.file_added")]
    pub name: String,
    /// What it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// When it happened, as RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// `application/json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datacontenttype: Option<String>,
    /// The name or id of the space that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spaceid: Option<String>,
    #[serde(default)]
    #[schema(value_type = Option<BTreeMap<String, Value>>)]
    pub data: Option<Value>,
    /// Extension attributes: texts, whole numbers and booleans.
    #[serde(flatten)]
    pub more: BTreeMap<String, Value>,
}

/// What became of events that were published, in their order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PublishedEvents {
    pub events: Vec<PublishedEvent>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PublishedEvent {
    pub source: String,
    pub id: String,
    /// Its place among the org's events.
    pub cursor: String,
    /// It had been published before, and was not again.
    pub known: bool,
}

/// What an event trigger says of the events that fire it, to be tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TestFilterRequest {
    /// A type, or one that ends in `.*` for all types below it.
    #[schema(example = "drive.file_added")]
    pub event_type: String,
    /// As `GET /api/v1/schemas/filter` describes it; absent: every event of the type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<BTreeMap<String, Value>>)]
    pub filters: Option<Value>,
    /// The name or id of the space that the automation would act in; absent: any, so that events of all spaces are judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<String>,
    /// How many of the latest events to look at, 1 to 100; 50 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// What a filter says of the latest events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TestFilterResponse {
    /// How many of the events it accepts.
    pub matching: u64,
    /// Newest first.
    pub events: Vec<TestedEvent>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TestedEvent {
    /// Its place among the org's events.
    pub cursor: String,
    pub id: String,
    #[serde(rename = "type")]
    pub name: String,
    pub subject: String,
    pub time: Timestamp,
    pub matches: bool,
    /// The members of the filter that the event does not satisfy, each judged for itself. None is named if only all together do not hold,
    /// because no element of an array satisfies all of them.
    pub unmet: Vec<String>,
}

/// A consumer group to make.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewGroupRequest {
    /// `now`, `earliest`, or the position of an event; `now` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// How often one event is delivered before it becomes a dead letter, 1 to 50; 5 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deliveries_max: Option<u32>,
}

/// A consumer group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GroupView {
    pub name: String,
    /// The position of the lowest event that it has not acknowledged.
    pub cursor: i64,
    /// Events that were claimed or given back, and not acknowledged.
    pub in_flight: u64,
    /// Events that were never claimed.
    pub behind: u64,
    /// When the lowest event was published that it has not acknowledged; null: it has them all.
    pub waiting_since: Option<Timestamp>,
    /// Retention has dropped events before the group had them.
    pub overtaken: bool,
    /// How many.
    pub lost: u64,
    pub overtaken_at: Option<Timestamp>,
    pub deliveries_max: u32,
    /// Absent for groups of ours.
    pub created_by: Option<String>,
    pub created_at: Timestamp,
}

impl From<Group> for GroupView {
    fn from(group: Group) -> Self {
        Self {
            name: group.name.to_string(),
            cursor: group.cursor,
            in_flight: group.in_flight,
            behind: group.behind,
            waiting_since: group.waiting_since,
            overtaken: group.overtaken_at.is_some(),
            lost: group.lost,
            overtaken_at: group.overtaken_at,
            deliveries_max: group.deliveries_max,
            created_by: group.created_by.map(|by| by.to_string()),
            created_at: group.created_at,
        }
    }
}

/// How many events to claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ClaimRequest {
    /// 1 to 100; 10 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// Events for one consumer, each until its lease ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ClaimResponse {
    pub events: Vec<ClaimedEvent>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ClaimedEvent {
    pub event: StreamEvent,
    /// Give it back with `ack` or `nack`. It counts until the event is claimed again.
    pub claim: String,
    /// 1 at the first delivery.
    pub delivery: u32,
    pub leased_until: Timestamp,
}

/// Events that were worked on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AckRequest {
    pub claims: Vec<String>,
}

/// Events that are given back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NackRequest {
    pub claims: Vec<String>,
    /// How long to wait before they are delivered again, such as `30s`; at once when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<String>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Which of the claims counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AckResponse {
    pub done: u64,
    /// Claims that count no more: another consumer has the event, or it is done.
    pub stale: Vec<String>,
}

/// Where a group goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ResetGroupRequest {
    /// `now`, `earliest`, or the position of an event.
    pub to: String,
}

/// What a group gets once more: one of these.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplayGroupRequest {
    /// Everything from the event at this position on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<i64>,
    /// Everything from this time on: a time such as `2026-01-31T12:00:00Z`, or how long ago it was, such as `24h`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Its dead letters.
    #[serde(default)]
    pub dead_letters: bool,
    /// Only for group `automations`: it takes them for new events, each with an id of its own and with `replay_of`, so that they start runs
    /// once more. Without it, what an event has started is not started again.
    #[serde(default)]
    pub new_ids: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReplayGroupResponse {
    /// Events that it gets once more.
    pub replayed: u64,
}

/// Something that was given up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DeadLetterView {
    pub id: String,
    pub kind: LetterKind,
    /// Who gave it up: the name of a group or of a channel, or the action of a call.
    pub place: String,
    /// What it is: the type of an event, the moment of a notice, the status of a call.
    pub what: String,
    pub problem: Option<String>,
    pub attempts: u32,
    pub died_at: Timestamp,
    /// The event, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<StreamEvent>,
    /// The call that it is, or that its notice is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invocation_id: Option<String>,
}

/// How to ask for a dead letter once more. Only a call needs more than its id.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryLetterRequest {
    /// The session in which to make the call again; that of the call when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The params of the call, where they were not kept whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<BTreeMap<String, Value>>)]
    pub params: Option<Value>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RetriedLetterResponse {
    pub kind: LetterKind,
    /// The new call, if it was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invocation_id: Option<String>,
    /// What became of the new call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
}
