//! The event bus: `publish` puts events into the org's one log, and a consumer group takes them out of it, each at least once. Whoever publishes
//! or consumes sees this port alone, in this process or behind a door. The log itself, and reading it without a group, is `events`.

use super::Error;
use super::events::{Cause, Event, Origin};
use crate::limits::{EVENT_DELIVERIES_DEFAULT, EVENT_DELIVERIES_MAX, GROUP_NAME_CHARS_MAX};
use crate::{DeadLetterId, EventId, Future, OrgId, PrincipalId, SpaceId, Timestamp};
use serde::{Deserialize, Serialize};
use std::fmt;
use utoipa::ToSchema;

/// Publishing, and consuming in groups.
pub trait EventBus: Send + Sync {
    /// Publishes these in this order, all or none. One that is in the log already, by its source and id, is not published again.
    fn publish<'a>(&'a self, org: &'a OrgId, events: Vec<NewEvent>) -> Future<'a, Result<Vec<Published>, Error>>;
    /// Makes a group, unless there is one of this name: that stays as it is.
    fn subscribe<'a>(&'a self, org: &'a OrgId, new: NewGroup) -> Future<'a, Result<Subscribed, Error>>;
    /// Takes up to `limit` events that are due to the group, for `limits::EVENT_LEASE_SECONDS`: those that were given back or left first, then
    /// new ones. `None` if there is no such group.
    fn claim_events<'a>(&'a self, org: &'a OrgId, group: &'a GroupName, limit: u32) -> Future<'a, Result<Option<Vec<Claimed>>, Error>>;
    /// Lets one server at a time read the log for a group without claiming. Returns whether it is this one; it asks again before each look.
    /// After `limits::GROUP_HELD_SECONDS` without that another server may, and at once when this one is gone.
    fn hold_group<'a>(&'a self, org: &'a OrgId, group: &'a GroupName) -> Future<'a, Result<bool, Error>>;
    /// Says that a consumer which reads the log in order, without claiming, has worked on everything up to `to` but `lost` events, which were
    /// no longer kept when it came to them. Returns false, and changes nothing, if the group is not at `from`: another consumer was faster, or
    /// somebody moved the group.
    fn pass_events<'a>(&'a self, org: &'a OrgId, group: &'a GroupName, from: i64, to: i64, lost: i64) -> Future<'a, Result<bool, Error>>;
    /// Says that these were worked on. Those whose token is no longer the one that counts are left, and returned.
    fn ack_events<'a>(&'a self, org: &'a OrgId, group: &'a GroupName, claims: Vec<ClaimRef>) -> Future<'a, Result<Vec<ClaimRef>, Error>>;
    /// Gives these back, to be claimed again after `delay_seconds`; what was delivered as often as it may be becomes a dead letter. Those whose
    /// token is no longer the one that counts are left, and returned.
    fn nack_events<'a>(
        &'a self,
        org: &'a OrgId,
        group: &'a GroupName,
        claims: Vec<ClaimRef>,
        delay_seconds: u64,
        problem: String,
    ) -> Future<'a, Result<Vec<ClaimRef>, Error>>;
}

/// The name of a consumer group: lower-case letters, digits, `-`, `_` and `.`, and a letter first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupName(String);

/// The groups of our own consumers. Nobody else claims from them.
pub const OUR_GROUPS: [&str; 1] = ["automations"];

impl GroupName {
    pub fn parse(text: &str) -> Option<Self> {
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_' | b'.');
        let is_name = text.len() <= GROUP_NAME_CHARS_MAX && text.starts_with(|first: char| first.is_ascii_lowercase());
        (is_name && text.bytes().all(fits)).then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a consumer of ours works with it.
    pub fn is_ours(&self) -> bool {
        OUR_GROUPS.contains(&self.0.as_str())
    }
}

impl fmt::Display for GroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An event to publish by itself. One that announces a change is an `EventDraft`, written with the change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEvent {
    /// Dotted, past tense: `drive.file_added`.
    pub name: String,
    /// What it is about.
    pub key: String,
    /// JSON.
    pub body: String,
    /// Set for an event of somebody else.
    pub origin: Option<Origin>,
    pub space: Option<SpaceId>,
    pub cause: Cause,
}

/// What became of an event to publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// Where it is in the log.
    pub seq: i64,
    pub id: EventId,
    /// It was in the log already.
    pub is_known: bool,
}

/// A consumer group to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewGroup {
    pub name: GroupName,
    pub start: Start,
    /// How often one event is delivered before it becomes a dead letter, 1 to `limits::EVENT_DELIVERIES_MAX`.
    pub deliveries_max: u32,
    /// Absent for groups of ours.
    pub by: Option<PrincipalId>,
}

impl NewGroup {
    /// A group of a consumer of ours.
    pub const fn ours(name: GroupName, start: Start) -> Self {
        Self { name, start, deliveries_max: EVENT_DELIVERIES_DEFAULT, by: None }
    }

    /// Whether one event may be delivered so often.
    pub fn has_fitting_deliveries(&self) -> bool {
        (1..=EVENT_DELIVERIES_MAX).contains(&self.deliveries_max)
    }
}

/// From which event on a group consumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// From the next event that is committed.
    Now,
    /// From the oldest event that is kept.
    Earliest,
    /// From the event at this position.
    At(i64),
}

/// What became of a group to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subscribed {
    Made(Group),
    /// There was one of this name already.
    There(Group),
    /// The org has as many groups as it may have.
    TooMany,
}

/// A consumer group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    pub name: GroupName,
    /// The lowest event that the group has not acknowledged. All before it are done.
    pub cursor: i64,
    /// Events that were claimed or given back, and not acknowledged.
    pub in_flight: u64,
    /// Events that were never claimed.
    pub behind: u64,
    /// When the lowest event was published that the group has not acknowledged, if there is one.
    pub waiting_since: Option<Timestamp>,
    /// Events that were dropped by retention before the group had them.
    pub lost: u64,
    /// When that happened last.
    pub overtaken_at: Option<Timestamp>,
    pub deliveries_max: u32,
    pub created_by: Option<PrincipalId>,
    pub created_at: Timestamp,
}

/// An event that a consumer has for itself for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    pub event: Event,
    pub claim: ClaimRef,
    /// 1 at the first delivery.
    pub delivery: u32,
    pub leased_until: Timestamp,
}

/// Names one claim. The token fences it: whoever claims the event later has a higher one, and this one counts no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimRef {
    pub seq: i64,
    pub token: i64,
}

/// What a dead letter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LetterKind {
    /// An event that a consumer group has given up.
    Event,
    /// A notice that could not be delivered to a channel.
    Delivery,
    /// A call whose attempts are used up.
    Invocation,
}

crate::words!(LetterKind { Event = "event", Delivery = "delivery", Invocation = "invocation" });

/// An event that a group has given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadEvent {
    pub id: DeadLetterId,
    pub group: GroupName,
    pub event: Event,
    pub deliveries: u32,
    pub problem: String,
    pub died_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_has_a_plain_name() {
        for good in ["a", "automations", "team-a.alerts_2"] {
            assert_eq!(GroupName::parse(good).map(|name| name.to_string()).as_deref(), Some(good));
        }
        let long = "a".repeat(GROUP_NAME_CHARS_MAX + 1);
        for bad in ["", "A", "1a", "a b", "a/b", "ä", ".a", "a\0", long.as_str()] {
            assert_eq!(GroupName::parse(bad), None, "{bad:?}");
        }
    }
}
