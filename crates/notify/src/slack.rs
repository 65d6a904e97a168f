//! Slack: a message with buttons for a call that waits; when there is an outcome, the same message tells it. What people press comes back in
//! requests of Slack: `signature` tells whether they are, `interaction` what was pressed, and `operations/slack.rs` answers the call.
//!
//! Requests are written as Slack's published description has them: as forms, with the blocks as JSON in one field.

#[cfg(test)]
#[path = "slack/fake_tests.rs"]
#[allow(dead_code, reason = "the journeys use the rest of it")]
mod fake;
pub mod interaction;
mod message;
mod settings;
pub mod signature;

pub use settings::Settings;

use super::kind::{Kind, Parts};
use super::{DeliveryError, Notice, Wire, secret, unfit};
use countersign_core::channel::{Channel, ChannelSetting, Moment, SettingShape};
use countersign_core::ports::Secrets;
use countersign_core::{Future, OrgId, Secret, source};
use interaction::Interaction;
use message::Message;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sources::oauth::Own;
use sources::outbound::{Answered, Outbound};
use std::sync::Arc;
use url::form_urlencoded;

/// Errors of Slack's that are about the moment, not about the request. Each other one stays until somebody changes something.
const PASSING: [&str; 8] = [
    "rate_limited",
    "ratelimited",
    "message_limit_exceeded",
    "request_timeout",
    "service_unavailable",
    "team_added_to_org",
    "fatal_error",
    "internal_error",
];

/// Where Slack is, if the operator names no other place.
const API: &str = "https://slack.com/api";
/// How the token of a bot begins.
const TOKEN_PREFIX: &str = "xoxb-";

pub const KIND: Kind = Kind {
    name: "slack",
    title: "a message in Slack",
    settings: &[
        ChannelSetting {
            name: "channel",
            label: "Channel",
            help: "A message with buttons in this channel of Slack, by its id",
            example: "C024BE91L",
            is_required: true,
            value: "CHANNEL",
            ..ChannelSetting::TEXT
        },
        ChannelSetting {
            name: "token",
            label: "Secret with the bot’s token",
            help: "The secret that has the bot's token",
            secret_prefix: Some("xox"),
            ..ChannelSetting::SECRET
        },
        ChannelSetting {
            name: "signing_secret",
            label: "Secret with Slack’s signing secret",
            help: "The secret that has Slack's signing secret",
            flag: Some("signing-secret"),
            ..ChannelSetting::SECRET
        },
        ChannelSetting {
            name: "users",
            label: "Who is who",
            help: "A user of Slack and the person of ours who they are; only they can answer there",
            example: "U123=robin",
            shape: SettingShape::People,
            flag: Some("user"),
            value: "SLACK=OURS",
            ..ChannelSetting::TEXT
        },
    ],
    wire: |parts| Arc::new(SlackWire::of(parts)),
};

pub struct SlackWire {
    secrets: Arc<dyn Secrets>,
    outbound: Arc<Outbound>,
    /// Where people reach this server.
    address: Own,
    /// Where Slack is. SECURITY: the operator alone says it, because tokens are sent there.
    api: String,
}

/// Where the message about a call is, so that it can be updated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Posted {
    /// Slack's id of the channel, which may have been named otherwise.
    channel: String,
    ts: String,
}

/// What Slack answers. It may say more.
#[derive(Deserialize)]
struct Said {
    ok: bool,
    error: Option<String>,
    channel: Option<String>,
    ts: Option<String>,
}

impl Wire for SlackWire {
    fn deliver<'a>(
        &'a self,
        channel: &'a Channel,
        notice: &'a Notice,
        earlier: Option<&'a Value>,
    ) -> Future<'a, Result<Option<Value>, DeliveryError>> {
        Box::pin(self.tell(channel, notice, earlier))
    }

    fn refusal(&self, settings: &Value) -> Option<source::Error> {
        match Settings::read(settings) {
            Ok(_) => self.outbound.check(&self.method("chat.postMessage")).err(),
            Err(wrong) => Some(unfit(wrong)),
        }
    }

    fn secret_refusal<'a>(&'a self, org: &'a OrgId, settings: &'a Value) -> Future<'a, Option<String>> {
        Box::pin(async move {
            let name = settings.get("token").and_then(Value::as_str).unwrap_or_default();
            match secret::find(&*self.secrets, org, name).await {
                Ok(Some(token)) => must_be_of_a_bot(name, &token).err().map(DeliveryError::problem),
                Ok(None) => None,
                Err(error) => Some(error.problem()),
            }
        })
    }
}

impl SlackWire {
    pub(crate) fn of(parts: &Parts) -> Self {
        let Parts { secrets, outbound, address, slack_api_url, .. } = parts;
        Self::new(Arc::clone(secrets), Arc::clone(outbound), address.clone(), slack_api_url.as_deref())
    }

    /// `api` is where Slack is, if it is elsewhere than usual.
    fn new(secrets: Arc<dyn Secrets>, outbound: Arc<Outbound>, address: Own, api: Option<&str>) -> Self {
        Self { secrets, outbound, address, api: api.unwrap_or(API).trim_end_matches('/').to_owned() }
    }

    /// The address of one of Slack's methods.
    fn method(&self, name: &str) -> String {
        format!("{}/{name}", self.api)
    }

    async fn tell(&self, channel: &Channel, notice: &Notice, earlier: Option<&Value>) -> Result<Option<Value>, DeliveryError> {
        let settings = Settings::read(&channel.settings).map_err(DeliveryError::Never)?;
        let posted = earlier.and_then(|earlier| Posted::deserialize(earlier).ok());
        match (notice.moment, posted) {
            (Moment::Pending | Moment::InDoubt, None) => {
                // SECURITY: everybody in the channel sees the message, so it has the page that asks for a login and never a link that answers.
                let page = format!("{}/inbox/{}", self.address.address(), notice.invocation.id);
                let message = match (notice.is_test, notice.moment) {
                    (true, _) => message::test(notice),
                    (false, Moment::Pending) => message::pending(notice, &page),
                    (false, Moment::Decided | Moment::InDoubt | Moment::Ended) => message::outcome(notice),
                };
                let form = post(&settings, &message);
                let said = self.ask(&channel.org, &settings, "chat.postMessage", &form).await?;
                let posted = Posted { channel: said.channel.unwrap_or(settings.channel), ts: said.ts.unwrap_or_default() };
                Ok(Some(json!(posted)))
            }
            (Moment::Decided | Moment::InDoubt | Moment::Ended, Some(posted)) => {
                let form = update(&posted, &message::outcome(notice));
                self.ask(&channel.org, &settings, "chat.update", &form).await?;
                Ok(Some(json!(posted)))
            }
            // It was told already, or it was never asked about here.
            (Moment::Pending, Some(posted)) => Ok(Some(json!(posted))),
            (Moment::Decided | Moment::Ended, None) => Ok(None),
        }
    }

    /// Tells whoever pressed a button, where they pressed it. Nobody else hears it.
    pub async fn whisper(&self, org: &OrgId, settings: &Settings, to: &Interaction, text: &str) -> Result<(), DeliveryError> {
        let (place, text) = (to.place.as_ref().unwrap_or(&settings.channel).clone(), message::escaped(text));
        let form = [("channel", place), ("user", to.user.clone()), ("text", text), ("link_names", "false".to_owned())];
        self.ask(org, settings, "chat.postEphemeral", &form).await.map(|_| ())
    }

    async fn ask(&self, org: &OrgId, settings: &Settings, method: &str, form: &[(&str, String)]) -> Result<Said, DeliveryError> {
        let token = secret::open(&*self.secrets, org, &settings.token).await?;
        must_be_of_a_bot(&settings.token, &token)?;
        let headers = [
            ("authorization", Secret::new(format!("Bearer {}", token.expose()))),
            ("content-type", Secret::new("application/x-www-form-urlencoded".to_owned())),
        ];
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        match self.outbound.post(&self.method(method), &headers, body.into_bytes()).await {
            Ok(answered) => said(&answered),
            Err(error) => Err(DeliveryError::outside(&error)),
        }
    }
}

/// SECURITY: whoever sets a channel names the secret, and must not have another one sent away.
fn must_be_of_a_bot(name: &str, token: &Secret<String>) -> Result<(), DeliveryError> {
    if token.expose().starts_with(TOKEN_PREFIX) {
        return Ok(());
    }
    Err(DeliveryError::Never(format!("the secret `{name}` is no token of a bot: these begin with `{TOKEN_PREFIX}`")))
}

fn post(settings: &Settings, message: &Message) -> Vec<(&'static str, String)> {
    vec![
        ("channel", settings.channel.clone()),
        ("text", message.text.clone()),
        ("blocks", Value::from(message.blocks.clone()).to_string()),
        // Nothing that a call names is fetched by Slack.
        ("unfurl_links", "false".to_owned()),
        ("unfurl_media", "false".to_owned()),
    ]
}

fn update(posted: &Posted, message: &Message) -> Vec<(&'static str, String)> {
    vec![
        ("channel", posted.channel.clone()),
        ("ts", posted.ts.clone()),
        ("text", message.text.clone()),
        ("blocks", Value::from(message.blocks.clone()).to_string()),
    ]
}

/// Slack answers 200 to what it understood, with `ok` and, if it refused, an `error` in one word.
fn said(answered: &Answered) -> Result<Said, DeliveryError> {
    if answered.status != 200 {
        return Err(DeliveryError::again(format!("Slack answered {}", answered.status), answered.retry_after_ms));
    }
    let said: Said =
        serde_json::from_slice(&answered.body).map_err(|_| DeliveryError::Again("Slack answered something else than JSON".to_owned()))?;
    if said.ok {
        return Ok(said);
    }
    // SECURITY: the word is shown and stored, and whoever answers here may not be Slack.
    let is_word = |word: &&str| word.len() <= 64 && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let word = said.error.as_deref().filter(is_word).unwrap_or("unknown_error");
    let message = format!("Slack refused it: {word}");
    Err(if PASSING.contains(&word) { DeliveryError::Again(message) } else { DeliveryError::Never(message) })
}

#[cfg(test)]
#[path = "slack_tests.rs"]
mod tests;
