//! Channels on the wire, and what is on its way to them.

use countersign_core::channel::{Channel, ChannelSetting, Delivery, DeliveryState, Moment};
use countersign_core::session::Attendance;
use countersign_core::{Band, Tier, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// A channel to be added.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewChannelRequest {
    /// Letters, digits, spaces, `_`, `-`, `.` and `@`, 1 to 64 of them.
    pub name: String,
    /// How it tells, such as `webhook`: one of `GET /api/v1/channel-kinds`.
    pub kind: String,
    /// What the kind needs, as it is listed there; secrets by their names.
    pub settings: Value,
    /// The name or id of the space whose calls it is told of; every space when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<String>,
    /// The tiers of the calls it is told of; every tier when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tiers: Vec<Tier>,
    /// The bands of the spaces whose calls it is told of; every band when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bands: Vec<Band>,
    /// Only calls of sessions where somebody sits, or where nobody does; both when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attendance: Option<Attendance>,
    /// It is told of a call only if that still waits after this time, such as `5m`; at once when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// A kind of channel.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ChannelKindView {
    pub kind: &'static str,
    /// How it tells, in a few words.
    pub title: &'static str,
    /// What a channel of this kind needs; the first says where it tells.
    pub settings: &'static [ChannelSetting],
}

/// A channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChannelView {
    pub id: String,
    pub name: String,
    pub kind: String,
    /// What the kind needs; secrets by their names.
    pub settings: Value,
    /// The id of the space whose calls it is told of; null: of every space.
    pub space: Option<String>,
    /// Empty: every tier.
    pub tiers: Vec<Tier>,
    /// Empty: every band.
    pub bands: Vec<Band>,
    pub attendance: Option<Attendance>,
    pub after_seconds: u32,
    pub created_by: String,
    pub created_at: Timestamp,
    pub removed_at: Option<Timestamp>,
    /// Notices that were given up and can be asked for once more.
    pub dead: u64,
    /// What would be noticed late, such as a recipient of mail who gets no link. Empty in lists.
    #[serde(default)]
    pub warnings: Vec<String>,
}

impl ChannelView {
    pub fn new(channel: Channel, dead: u64) -> Self {
        let Channel {
            id,
            org: _,
            name,
            kind,
            settings,
            space,
            tiers,
            bands,
            attendance,
            after_seconds,
            created_by,
            created_at,
            removed_at,
        } = channel;
        Self {
            id: id.to_string(),
            name,
            kind,
            settings,
            space: space.map(|space| space.to_string()),
            tiers,
            bands,
            attendance,
            after_seconds,
            created_by: created_by.to_string(),
            created_at,
            removed_at,
            dead,
            warnings: Vec::new(),
        }
    }
}

/// What became of a test message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChannelTestResponse {
    pub delivered: bool,
    /// What went wrong.
    pub problem: Option<String>,
    /// What would be noticed late, as where the channel is shown.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// One notice on its way to one recipient of a channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeliveryView {
    pub id: String,
    /// The id of the channel.
    pub channel: String,
    /// Its name, also after it was removed.
    #[serde(default)]
    pub channel_name: Option<String>,
    pub invocation_id: String,
    /// One of the people whom the channel names; null: the channel as a whole.
    pub recipient: Option<String>,
    pub moment: Moment,
    pub state: DeliveryState,
    pub attempts: u32,
    /// When it is tried next, while it waits.
    pub due_at: Option<Timestamp>,
    /// What went wrong last.
    pub problem: Option<String>,
    /// Who asked for it once more.
    pub retried_by: Option<String>,
    /// Who took it away after it had been given up.
    #[serde(default)]
    pub dropped_by: Option<String>,
    pub created_at: Timestamp,
    pub ended_at: Option<Timestamp>,
}

impl DeliveryView {
    pub fn new(delivery: Delivery, channel_name: Option<String>) -> Self {
        let waits = delivery.state == DeliveryState::Waiting;
        Self {
            id: delivery.id.to_string(),
            channel: delivery.channel.to_string(),
            channel_name,
            invocation_id: delivery.invocation.to_string(),
            recipient: delivery.recipient,
            moment: delivery.moment,
            state: delivery.state,
            attempts: delivery.attempts,
            due_at: waits.then_some(delivery.due_at),
            problem: delivery.problem,
            retried_by: delivery.retried_by.map(|by| by.to_string()),
            dropped_by: delivery.dropped_by.map(|by| by.to_string()),
            created_at: delivery.created_at,
            ended_at: delivery.ended_at,
        }
    }
}

/// Which dead letters of a channel to deliver once more.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryDeliveriesRequest {
    /// The id of one of them; all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RetriedDeliveriesResponse {
    /// How many are delivered once more.
    pub retried: u64,
}

/// Which dead letters of a channel to drop.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DropDeliveriesRequest {
    /// The id of one of them; all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DroppedDeliveriesResponse {
    /// How many were dropped.
    pub dropped: u64,
}
