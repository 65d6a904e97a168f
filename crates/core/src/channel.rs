//! Channels: where an org is told of calls that wait for a person, and of how they ended. A channel never decides anything, and no call
//! waits for one.

use crate::session::Attendance;
use crate::{Band, ChannelId, DeliveryId, InvocationId, OrgId, PrincipalId, SpaceId, Status, Tier, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// A channel as an admin set it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    pub id: ChannelId,
    pub org: OrgId,
    /// Unique among the org's channels.
    pub name: String,
    /// How it tells: the name of one of the kinds in `notify`.
    pub kind: String,
    /// What its kind needs: addresses, and names of secrets, never their values.
    pub settings: Value,
    /// Only calls of this space; absent: of every space.
    pub space: Option<SpaceId>,
    /// Only calls of these tiers; empty: of every tier.
    pub tiers: Vec<Tier>,
    /// Only calls in spaces of these bands; empty: of every band.
    pub bands: Vec<Band>,
    /// Only calls of such sessions; absent: of both.
    pub attendance: Option<Attendance>,
    /// The channel is told of a call only if it still waits after this time.
    pub after_seconds: u32,
    pub created_by: PrincipalId,
    pub created_at: Timestamp,
    pub removed_at: Option<Timestamp>,
}

impl Channel {
    /// Whether the channel is told of such calls.
    pub fn tells_of(&self, call: &Told) -> bool {
        self.space.as_ref().is_none_or(|space| *space == call.space)
            && (self.tiers.is_empty() || self.tiers.contains(&call.tier))
            && (self.bands.is_empty() || self.bands.contains(&call.band))
            && self.attendance.is_none_or(|attendance| attendance == call.attendance)
    }

    /// To whom one notice is delivered, each by itself: one who cannot be reached must not cost the others their message. `None` stands
    /// for the channel as a whole.
    pub fn recipients(&self) -> Vec<Option<String>> {
        match self.settings.get("to").and_then(Value::as_array) {
            Some(to) => to.iter().filter_map(Value::as_str).map(|to| Some(to.to_owned())).collect(),
            None => vec![None],
        }
    }

    /// The same channel with this one recipient.
    #[must_use]
    pub fn only_to(&self, recipient: Option<&str>) -> Self {
        let mut narrowed = self.clone();
        if let (Some(recipient), Some(settings)) = (recipient, narrowed.settings.as_object_mut()) {
            settings.insert("to".to_owned(), Value::from(vec![recipient]));
        }
        narrowed
    }
}

/// The facts of a call that decide which channels are told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    pub space: SpaceId,
    pub tier: Tier,
    pub band: Band,
    pub attendance: Attendance,
}

/// How the names of the tokens begin with which people agree to answer in a channel of Slack's. Such a token is for that alone.
pub const SLACK_CONSENT_PREFIX: &str = "slack chn_";

/// The name of the token with which a person agrees to answer in this channel as this user of Slack.
pub fn slack_consent(channel: &ChannelId, user: &str) -> String {
    format!("slack {channel} {user}")
}

/// A setting of a kind of channel. The command line and the web UI make their forms from it.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub struct ChannelSetting {
    pub name: &'static str,
    /// What a form calls it.
    pub label: &'static str,
    pub help: &'static str,
    /// What could be typed; empty if that needs no showing.
    pub example: &'static str,
    pub shape: SettingShape,
    pub is_required: bool,
    /// The setting without which this one is of no use.
    pub needs: Option<&'static str>,
    /// Its flag on the command line, if that is not its name. The first setting of a kind has the kind's name.
    #[serde(skip)]
    pub flag: Option<&'static str>,
    /// What stands for the value in the help of the command line.
    #[serde(skip)]
    pub value: &'static str,
    /// How the value of the secret begins, which a setting names; who gives the value itself is not told it back.
    #[serde(skip)]
    pub secret_prefix: Option<&'static str>,
}

impl ChannelSetting {
    /// A text that may be left out, for the rest of a setting.
    pub const TEXT: Self = Self {
        name: "",
        label: "",
        help: "",
        example: "",
        shape: SettingShape::Text,
        is_required: false,
        needs: None,
        flag: None,
        value: "TEXT",
        secret_prefix: None,
    };
    /// The name of a secret that must be given, for the rest of a setting.
    pub const SECRET: Self = Self { shape: SettingShape::Secret, is_required: true, value: "SECRET", ..Self::TEXT };
}

/// What the value of a setting is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SettingShape {
    Text,
    /// The name of a secret.
    Secret,
    /// A list of those who are told, each by a notice of their own. It is called `to` (`Channel::recipients`).
    Recipients,
    /// Who is who: somebody of theirs, and the name or id of the person of ours.
    People,
}

/// What a notice is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// The call waits for a person.
    Pending,
    /// A person has approved it, and it has not ended yet.
    Decided,
    /// It may have happened, and nobody knows: a person has to find out.
    InDoubt,
    Ended,
}

crate::words!(Moment { Pending = "pending", Decided = "decided", InDoubt = "in_doubt", Ended = "ended" });

impl Moment {
    /// What there is to tell of a call that has just come to this status: that it needs somebody, and to whom that was told, how it went on.
    pub const fn of(status: Status) -> Option<Self> {
        match status {
            Status::Pending => Some(Self::Pending),
            Status::Approved => Some(Self::Decided),
            Status::InDoubt => Some(Self::InDoubt),
            // Nobody is told that a call runs.
            Status::Running => None,
            Status::Succeeded
            | Status::Failed
            | Status::Reverted
            | Status::Denied
            | Status::Quarantined
            | Status::Expired
            | Status::Cancelled => Some(Self::Ended),
        }
    }

    /// Whether a person has to do something, so that everybody is told whom it concerns. The others are told to those who heard of such a one.
    pub const fn needs_somebody(self) -> bool {
        match self {
            Self::Pending | Self::InDoubt => true,
            Self::Decided | Self::Ended => false,
        }
    }

    /// Whether there is nothing left to do, now that the call has this status.
    pub const fn is_over(self, now: Status) -> bool {
        match self {
            Self::Pending => !matches!(now, Status::Pending),
            Self::InDoubt => !matches!(now, Status::InDoubt),
            Self::Decided | Self::Ended => false,
        }
    }
}

/// One notice on its way to one recipient of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The same for every attempt, so that a recipient can tell a repetition.
    pub id: DeliveryId,
    pub channel: ChannelId,
    pub invocation: InvocationId,
    /// One of the people whom the channel names; absent: the channel as a whole.
    pub recipient: Option<String>,
    pub moment: Moment,
    pub state: DeliveryState,
    /// Attempts so far, since it was last asked for.
    pub attempts: u32,
    /// When it is tried next, while it waits.
    pub due_at: Timestamp,
    /// When it was first tried, since it was last asked for.
    pub tried_at: Option<Timestamp>,
    /// What went wrong last.
    pub problem: Option<String>,
    /// Who asked for it once more after it had been given up.
    pub retried_by: Option<PrincipalId>,
    /// Who took it away after it had been given up.
    pub dropped_by: Option<PrincipalId>,
    pub created_at: Timestamp,
    pub ended_at: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryState {
    /// It is delivered when it is due.
    Waiting,
    Sent,
    /// There was nothing left to tell, or nobody to be told: the call no longer needed anybody, the channel was removed, or the space is closed
    /// to it.
    Skipped,
    /// It was given up: a dead letter, until somebody asks for it once more.
    Dead,
}

crate::words!(DeliveryState { Waiting = "waiting", Sent = "sent", Skipped = "skipped", Dead = "dead" });

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn channel() -> Channel {
        Channel {
            id: ChannelId::new(Timestamp::default(), [1; 10]),
            org: OrgId::new(Timestamp::default(), [2; 10]),
            name: "night".to_owned(),
            kind: "webhook".to_owned(),
            settings: json!({ "url": "https://example.com/hook", "secret": "hook" }),
            space: None,
            tiers: Vec::new(),
            bands: Vec::new(),
            attendance: None,
            after_seconds: 0,
            created_by: PrincipalId::User(crate::UserId::new(Timestamp::default(), [3; 10])),
            created_at: Timestamp::default(),
            removed_at: None,
        }
    }

    fn space(byte: u8) -> SpaceId {
        SpaceId::new(Timestamp::default(), [byte; 10])
    }

    #[test]
    fn a_channel_is_told_of_the_calls_that_it_is_for() {
        let call = Told { space: space(1), tier: Tier::R3, band: Band::Amber, attendance: Attendance::Unattended };
        for (told, channel) in [
            (true, channel()),
            (true, Channel { space: Some(space(1)), ..channel() }),
            (false, Channel { space: Some(space(2)), ..channel() }),
            (true, Channel { tiers: vec![Tier::R2, Tier::R3], ..channel() }),
            (false, Channel { tiers: vec![Tier::R4], ..channel() }),
            (true, Channel { bands: vec![Band::Amber], ..channel() }),
            (false, Channel { bands: vec![Band::Green, Band::Black], ..channel() }),
            (true, Channel { attendance: Some(Attendance::Unattended), ..channel() }),
            (false, Channel { attendance: Some(Attendance::Interactive), ..channel() }),
            (false, Channel { tiers: vec![Tier::R3], attendance: Some(Attendance::Interactive), ..channel() }),
        ] {
            assert_eq!(channel.tells_of(&call), told, "{channel:?}");
        }
    }

    #[test]
    fn the_token_of_an_agreement_is_known_by_its_name() {
        let name = slack_consent(&channel().id, "U1");
        assert!(name.starts_with(SLACK_CONSENT_PREFIX) && name.ends_with(" U1"), "{name}");
    }

    #[test]
    fn each_recipient_of_a_mail_has_a_delivery_of_their_own() {
        assert_eq!(channel().recipients(), [None]);
        let settings = json!({ "to": ["robin@example.com", "sam"], "from": "c@example.com", "server": "smtp://127.0.0.1:25" });
        let mail = Channel { kind: "email".to_owned(), settings, ..channel() };
        assert_eq!(mail.recipients(), [Some("robin@example.com".to_owned()), Some("sam".to_owned())]);
        let narrowed = mail.only_to(Some("sam"));
        assert_eq!((&narrowed.settings["to"], &narrowed.settings["from"]), (&json!(["sam"]), &json!("c@example.com")));
        assert_eq!(channel().only_to(None), channel());
    }
}
