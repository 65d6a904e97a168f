//! Events: immutable facts, published in the same transaction as the change they announce.

use super::Error;
use crate::{AutomationId, EventId, Future, OrgId, ReceiptId, RunId, SpaceId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// An org's events in the order in which they were committed.
pub trait EventFeed: Send + Sync {
    /// At most `limit` events after this position (0: from the first), oldest first. An event that is committed later has a higher
    /// position, so a reader who continues from the last position it saw misses none.
    fn list_events_after<'a>(&'a self, org: &'a OrgId, after: i64, limit: u32) -> Future<'a, Result<Vec<Event>, Error>>;
    /// The position of the newest event; 0 if there is none.
    fn newest_event<'a>(&'a self, org: &'a OrgId) -> Future<'a, Result<i64, Error>>;
    /// The position of the oldest event that is kept; 0 if there is none.
    fn oldest_event<'a>(&'a self, org: &'a OrgId) -> Future<'a, Result<i64, Error>>;
    /// Whether other servers may publish events too.
    fn is_shared(&self) -> bool;
    /// Returns when an event after this position is committed, by this server or another one, and in any case after
    /// `limits::EVENT_WAIT_SECONDS`: the notice of another server's event can be lost with a connection. Read again then.
    fn wait_for_event<'a>(&'a self, org: &'a OrgId, after: i64) -> Future<'a, ()>;
}

/// The event that tells how a call ended which an older contract asked for. It is told beside the event of the call's status.
pub const ACTION_EXECUTED: &str = "action.executed";

/// What a source tells without being asked. SECURITY: it wrote their data, so no id in it is looked up.
pub const SOURCE_LOGGED: &str = "source.logged";
pub const SOURCE_NOTIFIED: &str = "source.notified";
pub const SOURCE_PROMPTS_CHANGED: &str = "source.prompts_changed";
pub const SOURCE_RESOURCE_UPDATED: &str = "source.resource_updated";
pub const SOURCE_RESOURCES_CHANGED: &str = "source.resources_changed";
pub const SOURCE_TOOLS_CHANGED: &str = "source.tools_changed";
pub const TOLD_BY_SOURCES: [&str; 6] =
    [SOURCE_LOGGED, SOURCE_NOTIFIED, SOURCE_PROMPTS_CHANGED, SOURCE_RESOURCE_UPDATED, SOURCE_RESOURCES_CHANGED, SOURCE_TOOLS_CHANGED];

/// An event to publish in the same transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventDraft {
    pub id: EventId,
    /// Dotted, past tense: `invocation.succeeded`.
    pub name: &'static str,
    /// Events with the same key are delivered in order.
    pub key: String,
    /// JSON.
    pub body: String,
}

/// An immutable fact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Its position among the org's events, from 1 on without gaps. The org may keep no longer the first ones.
    pub seq: i64,
    pub id: EventId,
    pub name: String,
    pub key: String,
    /// The receipt that it announces, if any.
    pub receipt: Option<ReceiptId>,
    /// JSON.
    pub body: String,
    /// When it was committed.
    pub at: Timestamp,
    /// What its sender says of it; absent for events of ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// The space that it belongs to, if whoever published it named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<SpaceId>,
    #[serde(default, skip_serializing_if = "Cause::is_nobody")]
    pub cause: Cause,
}

/// What the sender of an outside event says of it, in the words of CloudEvents. Source and id together name the event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    pub source: String,
    pub id: String,
    /// When it happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Timestamp>,
    /// Extension attributes that nobody here knows. They are passed on as they came.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub more: BTreeMap<String, Value>,
}

/// Which automations led to an event. It travels in the row, so that it survives every hop, and a loop is noticed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// The automations that led to it, the first one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chain: Vec<AutomationId>,
    /// How many runs led to it, one by another; 0: none.
    #[serde(default)]
    pub depth: u32,
    /// The run that began it all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_run_id: Option<RunId>,
}

impl Cause {
    /// Whether no automation led to it.
    pub fn is_nobody(&self) -> bool {
        *self == Self::default()
    }
}
