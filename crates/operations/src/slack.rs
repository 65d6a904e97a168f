//! What people press in Slack. A request counts if Slack signed it, a short while ago, and it was never used. Whoever pressed answers as the
//! person whom the channel names for them, with a token that this person made for it; the rest is for the pipeline to judge, as with every
//! other answer.

pub use notify::slack::signature::Signed;

use super::Error;
use crate::App;
use crate::limits::SLACK_ANSWER_MS;
use countersign_core::channel::{Channel, slack_consent};
use countersign_core::ports::secrets::SecretName;
use countersign_core::ports::{Invocations, Principals, Secrets};
use countersign_core::{ChannelId, Principal};
use notify::limits::SLACK_WINDOW_SECONDS;
use notify::slack::interaction::{self, Interaction, Pressed};
use notify::slack::signature::{self, Wrong};
use notify::slack::{KIND, Settings, SlackWire};
use pipeline::Yes;
use std::sync::Arc;
use std::time::Duration;

/// Characters of a user's id that are looked at. With the id of a channel they have room in the name of a token.
const USER_CHARS_MAX: usize = 24;

/// Takes a request that came in for this channel. Whoever pressed is told in Slack why nothing came of it; for Slack, which can do nothing about
/// that, the request is done.
pub async fn take(app: &App, channel: &str, signed: Signed<'_>) -> Result<(), Error> {
    // SECURITY: a channel that is not there sounds like a request that nobody signed.
    let id = ChannelId::parse(channel).map_err(|_| Error::SlackForged)?;
    let channel = app.store().find_called_channel(&id).await?.filter(|channel| channel.kind == KIND.name).ok_or(Error::SlackForged)?;
    let settings = Settings::read(&channel.settings).map_err(|_| Error::SlackForged)?;
    let secret = SecretName::parse(&settings.signing_secret).ok_or(Error::SlackForged)?;
    let secret = app.store().resolve_secret(&channel.org, &secret).await?.ok_or(Error::SlackForged)?;
    let now = app.store().now().await?;
    let signature = signature::check(secret.expose(), signed, now).map_err(|wrong| match wrong {
        Wrong::Forged => Error::SlackForged,
        Wrong::Expired => Error::SlackExpired,
    })?;
    super::must_be_enabled(app, &channel.org, "channel").await?;
    let interaction = interaction::read(signed.body).map_err(Error::invalid)?;
    // It may be as far ahead of our clock as it may be behind.
    let until = now.plus_seconds(2 * SLACK_WINDOW_SECONDS + 1);
    if !app.store().use_slack_request(&channel.org, &signature, until).await? {
        return Err(Error::SlackReplayed);
    }
    let Err(refused) = answer(app, &channel, &settings, &interaction).await else { return Ok(()) };
    let is_ours = matches!(refused, Error::Pipeline(pipeline::Error::Store(_) | pipeline::Error::Internal { .. }));
    // The door says no more of it either.
    let why = if is_ours { "something is wrong on our side; nothing is known to have happened".to_owned() } else { refused.to_string() };
    whisper(app, channel, settings, interaction, why);
    if is_ours { Err(refused) } else { Ok(()) }
}

async fn answer(app: &App, channel: &Channel, settings: &Settings, interaction: &Interaction) -> Result<(), Error> {
    let person = || person(app, channel, settings, &interaction.user);
    match &interaction.pressed {
        Pressed::Open => Ok(()),
        Pressed::Deny(shown) => {
            app.pipeline().deny(&person().await?, &shown.invocation, None).await?;
            Ok(())
        }
        Pressed::Approve(shown) => {
            let (by, yes) = (person().await?, Yes { shown: Some(shown.binding), ..Yes::default() });
            // Slack does not wait for as long as a call may take. The call goes on without it, and the message tells how it ended.
            let approved =
                tokio::time::timeout(Duration::from_millis(SLACK_ANSWER_MS), app.pipeline().approve(&by, &shown.invocation, yes));
            match approved.await {
                Ok(answered) => Ok(answered.map(|_| ())?),
                Err(_elapsed) => Ok(()),
            }
        }
    }
}

/// The person who pressed. SECURITY: the channel alone does not say it, because whoever manages channels could then answer as anybody. So the
/// person must have made a token for this channel and this user of Slack, which only they can.
async fn person(app: &App, channel: &Channel, settings: &Settings, user: &str) -> Result<Principal, Error> {
    // It stands in messages, so it is shown as what it should be.
    let shown: String = user.chars().filter(char::is_ascii_alphanumeric).take(USER_CHARS_MAX).collect();
    let token = slack_consent(&channel.id, &shown);
    let unknown = || Error::SlackUserUnknown { user: shown.clone(), token: token.clone() };
    let named = settings.users.get(user).filter(|_| shown == user).ok_or_else(unknown)?;
    let token = app.store().find_token_named(&channel.org, named, &token).await?.ok_or_else(unknown)?;
    app.store().find_bearer(&channel.org, &token).await?.ok_or_else(unknown)
}

/// Tells whoever pressed why nothing came of it. Nobody waits for that, and nothing depends on it.
fn whisper(app: &App, channel: Channel, settings: Settings, to: Interaction, why: String) {
    let slack: Arc<SlackWire> = app.parts.courier.slack();
    tokio::spawn(async move {
        if let Err(error) = slack.whisper(&channel.org, &settings, &to, &why).await {
            tracing::debug!(?error, channel = %channel.id, "somebody in Slack could not be told why their answer was refused");
        }
    });
}
