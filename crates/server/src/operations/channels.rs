//! Channels. Whoever reads the org sees them and what became of their notices, but nothing of a space that does not exist for them; whoever
//! manages policy changes them.

use super::sessions::space_of;
use super::{Error, must, must_read, named, sight};
use crate::App;
use api::channel::NewChannelRequest;
use countersign_core::channel::{Channel, Delivery, DeliveryState};
use countersign_core::limits::CHANNELS_MAX;
use countersign_core::principal::Permission;
use countersign_core::{ChannelId, DeliveryId, Principal, SpaceId};
use std::collections::BTreeSet;
use store::{AddedChannel, DeliveryFilter, NewChannel, Page, PageRequest};

pub(crate) async fn list(app: &App, by: &Principal, request: &PageRequest) -> Result<Page<Channel>, Error> {
    must_read(by)?;
    Ok(app.store().list_channels(&by.org, &sight::hidden(app, by).await?, request).await?)
}

/// A channel by its name, or by its id, also after it was removed.
pub(crate) async fn find(app: &App, by: &Principal, text: &str) -> Result<Channel, Error> {
    must_read(by)?;
    find_any(app, by, text).await
}

/// A channel that was not removed, for those who manage it.
async fn find_present(app: &App, by: &Principal, text: &str) -> Result<Channel, Error> {
    must(by, Permission::ManagePolicy)?;
    let found = find_any(app, by, text).await?;
    if found.removed_at.is_none() { Ok(found) } else { Err(Error::not_found("channel", text)) }
}

async fn find_any(app: &App, by: &Principal, text: &str) -> Result<Channel, Error> {
    let found = match (ChannelId::parse(text), named(text)) {
        (Ok(id), _) => app.store().find_channel(&by.org, &id).await?,
        (Err(_), Ok(name)) => app.store().find_channel_by_name(&by.org, name).await?,
        (Err(_), Err(_)) => None,
    };
    let hidden = sight::hidden(app, by).await?;
    found.filter(|channel| is_seen(channel, &hidden)).ok_or_else(|| Error::not_found("channel", text))
}

fn is_seen(channel: &Channel, hidden: &BTreeSet<SpaceId>) -> bool {
    channel.space.as_ref().is_none_or(|space| !hidden.contains(space))
}

/// Adds a channel that is told of a call `after_seconds` after it began to wait.
pub(crate) async fn add(app: &App, by: &Principal, request: NewChannelRequest, after_seconds: u32) -> Result<Channel, Error> {
    must(by, Permission::ManagePolicy)?;
    let NewChannelRequest { name, kind, settings, space, mut tiers, mut bands, attendance, after: _ } = request;
    named(&name)?;
    if ChannelId::parse(&name).is_ok() {
        return Err(Error::BadName);
    }
    let secrets = kind.check(&settings).map_err(Error::invalid)?;
    if let Some(refusal) = app.parts.courier.refusal(kind, &settings) {
        return Err(Error::invalid(refusal));
    }
    let space = match space {
        Some(space) => Some(space_of(app, by, &space).await?.id),
        None => None,
    };
    tiers.sort_unstable();
    tiers.dedup();
    bands.sort_unstable();
    bands.dedup();
    let new = NewChannel { name: name.clone(), kind, settings, space, tiers, bands, attendance, after_seconds };
    match app.store().add_channel(&by.org, new, secrets.into_iter().collect(), &by.id).await? {
        AddedChannel::Done(channel) => Ok(*channel),
        AddedChannel::Taken => Err(Error::NameTaken { what: "channel", name }),
        AddedChannel::NoSecret(secret) => Err(Error::not_found("secret", secret.as_str())),
        AddedChannel::TooMany => Err(Error::invalid(format!("an org has at most {CHANNELS_MAX} channels"))),
    }
}

/// Removes a channel. What waits to be delivered by it is not.
pub(crate) async fn remove(app: &App, by: &Principal, text: &str) -> Result<(), Error> {
    let channel = find_present(app, by, text).await?;
    let removed = app.store().remove_channel(&by.org, &channel.id, &by.id).await?;
    removed.map(|_| ()).ok_or_else(|| Error::not_found("channel", text))
}

/// Sends a test message now. `Err` within says what went wrong with it.
pub(crate) async fn test(app: &App, by: &Principal, text: &str) -> Result<Result<(), String>, Error> {
    let channel = find_present(app, by, text).await?;
    Ok(app.parts.courier.test(&channel, by).await)
}

/// How many notices of a channel were given up.
pub(crate) async fn count_dead(app: &App, channel: &Channel) -> Result<u64, Error> {
    Ok(app.store().count_deliveries(&channel.org, &channel.id, DeliveryState::Dead).await?)
}

/// What is or was on its way, newest first: of one channel, or of all.
pub(crate) async fn deliveries(
    app: &App,
    by: &Principal,
    channel: Option<&str>,
    state: Option<DeliveryState>,
    request: &PageRequest,
) -> Result<Page<Delivery>, Error> {
    must_read(by)?;
    let channel = match channel {
        Some(text) => Some(find_any(app, by, text).await?.id),
        None => None,
    };
    let filter = DeliveryFilter { channel, state, hidden: sight::hidden(app, by).await? };
    Ok(app.store().list_deliveries(&by.org, &filter, request).await?)
}

/// Has dead letters of a channel delivered once more: the named one, or all. Returns how many.
pub(crate) async fn retry(app: &App, by: &Principal, text: &str, delivery: Option<&str>) -> Result<u64, Error> {
    let channel = find_present(app, by, text).await?;
    let id = delivery.map(letter_of).transpose()?;
    let retried = app.store().retry_deliveries(&by.org, &channel.id, id.as_ref(), &by.id).await?;
    some_of(delivery, retried)
}

/// Drops dead letters of a channel: the named one, or all. Returns how many.
pub(crate) async fn drop_letters(app: &App, by: &Principal, text: &str, delivery: Option<&str>) -> Result<u64, Error> {
    let channel = find_present(app, by, text).await?;
    let id = delivery.map(letter_of).transpose()?;
    let dropped = app.store().drop_deliveries(&by.org, &channel.id, id.as_ref()).await?;
    some_of(delivery, dropped)
}

fn letter_of(text: &str) -> Result<DeliveryId, Error> {
    DeliveryId::parse(text).map_err(|_| Error::not_found("dead letter", text))
}

/// A letter that was named has to exist.
fn some_of(delivery: Option<&str>, count: u64) -> Result<u64, Error> {
    match delivery {
        Some(delivery) if count == 0 => Err(Error::not_found("dead letter", delivery)),
        Some(_) | None => Ok(count),
    }
}
