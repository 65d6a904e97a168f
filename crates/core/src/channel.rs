//! Channels: where an org is told of calls that wait for a person, and of how they ended. A channel never decides anything, and no call
//! waits for one.

use crate::limits::{CHANNEL_RECIPIENTS_MAX, CHANNEL_TEXT_BYTES_MAX};
use crate::ports::secrets::SecretName;
use crate::session::Attendance;
use crate::{Band, ChannelId, DeliveryId, InvocationId, OrgId, PrincipalId, SpaceId, Status, Tier, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use utoipa::ToSchema;

/// A channel as an admin set it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    pub id: ChannelId,
    pub org: OrgId,
    /// Unique among the org's channels.
    pub name: String,
    pub kind: ChannelKind,
    /// What its kind needs (`ChannelKind::check`): addresses, and names of secrets, never their values.
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
        let to = match self.kind {
            ChannelKind::Email => self.settings.get("to").and_then(Value::as_array),
            ChannelKind::Webhook | ChannelKind::Slack => None,
        };
        match to {
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

/// How a channel tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChannelKind {
    /// A signed request to an address, by the Standard Webhooks specification.
    Webhook,
    Slack,
    Email,
}

/// How the names of the tokens begin with which people agree to answer in a channel of Slack's. Such a token is for that alone.
pub const SLACK_CONSENT_PREFIX: &str = "slack chn_";

/// The name of the token with which a person agrees to answer in this channel as this user of Slack.
pub fn slack_consent(channel: &ChannelId, user: &str) -> String {
    format!("slack {channel} {user}")
}

/// How the values of secrets begin that a channel needs: those of webhooks, and the tokens of Slack.
const VALUES: [&str; 2] = ["whsec_", "xox"];

crate::words!(ChannelKind { Webhook = "webhook", Slack = "slack", Email = "email" });

impl ChannelKind {
    /// Checks the settings of a channel of this kind. Returns the names of the secrets in it, or what is wrong.
    pub fn check(self, settings: &Value) -> Result<BTreeSet<SecretName>, String> {
        let (texts, secrets) = match self {
            Self::Webhook => {
                let WebhookSettings { url, secret } = read(settings)?;
                (vec![url], vec![Some(("secret", secret))])
            }
            Self::Slack => {
                let SlackSettings { channel, token, signing_secret, users } = read(settings)?;
                if users.len() > CHANNEL_RECIPIENTS_MAX {
                    return Err(format!("`users` has at most {CHANNEL_RECIPIENTS_MAX} members"));
                }
                let texts: Vec<_> = users.into_iter().flat_map(|(theirs, ours)| [theirs, ours]).chain([channel]).collect();
                (texts, vec![Some(("token", token)), Some(("signing_secret", signing_secret))])
            }
            Self::Email => {
                let EmailSettings { to, from, server, username, password } = read(settings)?;
                if to.is_empty() || to.len() > CHANNEL_RECIPIENTS_MAX {
                    return Err(format!("`to` names 1 to {CHANNEL_RECIPIENTS_MAX} people"));
                }
                if to.iter().collect::<BTreeSet<_>>().len() < to.len() {
                    return Err("`to` names somebody twice".to_owned());
                }
                if from.is_some() != server.is_some() {
                    return Err("`server` and `from` are given together; without both the org's mail connection is used".to_owned());
                }
                if username.is_some() && server.is_none() {
                    return Err("`username` needs a `server`".to_owned());
                }
                if password.is_some() && username.is_none() {
                    return Err("`password` needs a `username`".to_owned());
                }
                let texts: Vec<_> = to.into_iter().chain(from).chain(server).chain(username).collect();
                (texts, vec![password.map(|password| ("password", password))])
            }
        };
        // A line break would begin another header of a message.
        if texts.iter().any(|text| text.is_empty() || text.len() > CHANNEL_TEXT_BYTES_MAX || text.chars().any(char::is_control)) {
            return Err(format!("a text of the settings has 1 to {CHANNEL_TEXT_BYTES_MAX} bytes, and no control characters"));
        }
        let named = |(field, name): (&str, String)| {
            // Whoever gives the value itself is not told it back.
            let is_value = VALUES.iter().any(|begins| name.starts_with(begins));
            SecretName::parse(&name).filter(|_| !is_value).ok_or_else(|| format!("`{field}` must be the name of a secret, not its value"))
        };
        secrets.into_iter().flatten().map(named).collect()
    }
}

fn read<'a, T: Deserialize<'a>>(settings: &'a Value) -> Result<T, String> {
    T::deserialize(settings).map_err(|error| format!("the settings do not fit the kind: {error}"))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WebhookSettings {
    url: String,
    secret: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SlackSettings {
    channel: String,
    token: String,
    signing_secret: String,
    #[serde(default)]
    users: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EmailSettings {
    to: Vec<String>,
    #[serde(default)]
    from: Option<String>,
    #[serde(default)]
    server: Option<String>,
    #[serde(default)]
    username: Option<String>,
    #[serde(default)]
    password: Option<String>,
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
            kind: ChannelKind::Webhook,
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
        let mail = Channel { kind: ChannelKind::Email, settings, ..channel() };
        assert_eq!(mail.recipients(), [Some("robin@example.com".to_owned()), Some("sam".to_owned())]);
        let narrowed = mail.only_to(Some("sam"));
        assert_eq!((&narrowed.settings["to"], &narrowed.settings["from"]), (&json!(["sam"]), &json!("c@example.com")));
        assert_eq!(channel().only_to(None), channel());
    }

    #[test]
    fn settings_fit_their_kind_and_name_secrets() {
        let names = |texts: &[&str]| texts.iter().map(|text| SecretName::parse(text).unwrap()).collect::<BTreeSet<_>>();
        let slack = json!({ "channel": "C1", "token": "bot", "signing_secret": "sign", "users": { "U1": "robin" } });
        let mail =
            json!({ "to": ["a@example.com"], "from": "c@example.com", "server": "smtps://mail:465", "username": "u", "password": "pw" });
        for (kind, settings, secrets) in [
            (ChannelKind::Webhook, channel().settings, names(&["hook"])),
            (ChannelKind::Slack, slack.clone(), names(&["bot", "sign"])),
            (ChannelKind::Email, mail.clone(), names(&["pw"])),
            (ChannelKind::Email, json!({ "to": ["a"], "from": "c", "server": "smtp://mail" }), names(&[])),
            (ChannelKind::Email, json!({ "to": ["a"] }), names(&[])),
        ] {
            assert_eq!(kind.check(&settings), Ok(secrets), "{settings}");
        }
        let but = |settings: &Value, field: &str, value: Value| {
            let mut changed = settings.clone();
            changed[field] = value;
            changed
        };
        for (kind, settings, expected) in [
            (ChannelKind::Webhook, json!({}), "missing field"),
            (ChannelKind::Webhook, json!(null), "do not fit"),
            (ChannelKind::Webhook, slack.clone(), "do not fit"),
            (ChannelKind::Webhook, but(&channel().settings, "more", json!(1)), "unknown field"),
            (ChannelKind::Webhook, but(&channel().settings, "secret", json!("a/b")), "`secret` must be the name"),
            (ChannelKind::Webhook, but(&channel().settings, "secret", json!("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")), "not its value"),
            (ChannelKind::Slack, but(&slack, "token", json!("xoxb-1-2-abc")), "not its value"),
            (ChannelKind::Slack, but(&slack, "api_url", json!("https://elsewhere.example.com/api")), "unknown field"),
            (ChannelKind::Webhook, but(&channel().settings, "url", json!("")), "1 to"),
            (ChannelKind::Slack, but(&slack, "channel", json!("C1\nX")), "no control characters"),
            (ChannelKind::Email, but(&mail, "to", json!([])), "`to` names"),
            (ChannelKind::Email, but(&mail, "to", json!(["a", "a"])), "twice"),
            (ChannelKind::Email, but(&mail, "from", json!("a\r\nBcc: b")), "no control characters"),
            (ChannelKind::Email, but(&mail, "username", json!(null)), "needs a `username`"),
            (ChannelKind::Email, but(&mail, "server", json!(null)), "given together"),
            (ChannelKind::Email, but(&mail, "from", json!(null)), "given together"),
            (ChannelKind::Email, json!({ "to": ["a"], "username": "u", "password": "pw" }), "needs a `server`"),
        ] {
            let refused = kind.check(&settings).unwrap_err();
            assert!(refused.contains(expected), "{settings}: {refused}");
        }
    }
}
