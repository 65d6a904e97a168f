//! Channels. Whoever reads the org sees them and what became of their notices, but nothing of a space that does not exist for them; whoever
//! manages policy changes them.

use super::{Error, must, must_read, named, sight, spaces};
use crate::App;
use api::channel::{ChannelKindView, NewChannelRequest};
use countersign_core::channel::{Channel, Delivery, DeliveryState};
use countersign_core::principal::Permission;
use countersign_core::{ChannelId, DeliveryId, Principal, SpaceId};
use notify::KINDS;
use std::collections::{BTreeMap, BTreeSet};
use store::limits::CHANNELS_MAX;
use store::{AddedChannel, DeliveryFilter, NewChannel, Page, PageRequest};

/// Every kind of channel, with what it needs.
pub fn kinds(by: &Principal) -> Result<Vec<ChannelKindView>, Error> {
    must_read(by)?;
    Ok(KINDS.iter().map(|kind| ChannelKindView { kind: kind.name, title: kind.title, settings: kind.settings }).collect())
}

pub async fn list(app: &App, by: &Principal, request: &PageRequest) -> Result<Page<Channel>, Error> {
    must_read(by)?;
    Ok(app.store().list_channels(&by.org, &sight::hidden(app, by).await?, request).await?)
}

/// A channel by its name, or by its id, also after it was removed.
pub async fn find(app: &App, by: &Principal, text: &str) -> Result<Channel, Error> {
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
pub async fn add(app: &App, by: &Principal, request: NewChannelRequest, after_seconds: u32) -> Result<Channel, Error> {
    must(by, Permission::ManagePolicy)?;
    let NewChannelRequest { name, kind, settings, space, mut tiers, mut bands, attendance, after: _ } = request;
    named(&name)?;
    if ChannelId::parse(&name).is_ok() {
        return Err(Error::BadName);
    }
    let known = notify::kind(&kind).ok_or_else(|| {
        let names: Vec<_> = KINDS.iter().map(|kind| format!("`{}`", kind.name)).collect();
        Error::invalid(format!("`kind` is one of {}", names.join(", ")))
    })?;
    let secrets = known.check(&settings).map_err(Error::invalid)?;
    // Channels hear of what operators have just allowed.
    app.parts.added.allowed().now().await?;
    if let Some(refusal) = app.parts.courier.refusal(&by.org, &kind, &settings).await {
        let message = refusal.without_conclusion();
        let is_of_host = refusal.code() == "host_not_allowed";
        return Err(if is_of_host { Error::ChannelHost { message } } else { Error::invalid(message) });
    }
    for (field, person) in known.people(&settings) {
        if app.store().find_active_user(&by.org, person).await?.is_none() {
            return Err(Error::invalid(format!("`{field}` names `{person}`, and there is no person of this name or id")));
        }
    }
    let space = match space {
        Some(space) => Some(spaces::find(app, by, &space).await?.id),
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

/// Removes a channel. What waits to be delivered by it is not, and its dead letters are gone.
pub async fn remove(app: &App, by: &Principal, text: &str) -> Result<(), Error> {
    let channel = find_present(app, by, text).await?;
    let removed = app.store().remove_channel(&by.org, &channel.id, &by.id).await?;
    removed.map(|_| ()).ok_or_else(|| Error::not_found("channel", text))
}

/// Sends a test message now. `Err` within says what went wrong with it.
pub async fn test(app: &App, by: &Principal, text: &str) -> Result<(Channel, Result<(), String>), Error> {
    let channel = find_present(app, by, text).await?;
    let sent = app.parts.courier.test(&channel, by).await;
    Ok((channel, sent))
}

/// What works otherwise than whoever set the channel may think, and is noticed when a call is missed.
pub async fn warnings(app: &App, channel: &Channel) -> Result<Vec<String>, Error> {
    let mut warnings = Vec::new();
    if channel.removed_at.is_some() {
        return Ok(warnings);
    }
    if !app.parts.has_public_url {
        let address = app.parts.address.address();
        warnings.push(format!("links in its messages begin with {address}: an operator sets `public_url` if people reach it elsewhere"));
    }
    let unlinked = app.parts.courier.unlinked(channel).await?;
    if !unlinked.is_empty() {
        let why = "a link takes an approver of that name who has a working token, of no device and not made for Slack";
        warnings.push(format!("these recipients get no link that answers, but the page with a login: {}; {why}", unlinked.join(", ")));
    }
    Ok(warnings)
}

/// How many notices of a channel were given up.
pub async fn count_dead(app: &App, channel: &Channel) -> Result<u64, Error> {
    Ok(app.store().count_deliveries(&channel.org, &channel.id, DeliveryState::Dead).await?)
}

/// What is or was on its way, newest first: of one channel, or of all.
pub async fn deliveries(
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

/// The names of the channels that these are or were on their way to, also of those that were removed.
pub async fn names_of(app: &App, by: &Principal, deliveries: &[Delivery]) -> Result<BTreeMap<ChannelId, String>, Error> {
    let mut names = BTreeMap::new();
    for id in deliveries.iter().map(|delivery| &delivery.channel).collect::<BTreeSet<_>>() {
        if let Some(channel) = app.store().find_channel(&by.org, id).await? {
            names.insert(channel.id, channel.name);
        }
    }
    Ok(names)
}

/// Has dead letters of a channel delivered once more: the named one, or all. Returns how many.
pub async fn retry(app: &App, by: &Principal, text: &str, delivery: Option<&str>) -> Result<u64, Error> {
    let channel = find_present(app, by, text).await?;
    let id = delivery.map(letter_of).transpose()?;
    let retried = app.store().retry_deliveries(&by.org, &channel.id, id.as_ref(), &by.id).await?;
    some_of(delivery, retried)
}

/// Drops dead letters of a channel: the named one, or all. Returns how many.
pub async fn drop_letters(app: &App, by: &Principal, text: &str, delivery: Option<&str>) -> Result<u64, Error> {
    let channel = find_present(app, by, text).await?;
    let id = delivery.map(letter_of).transpose()?;
    let dropped = app.store().drop_deliveries(&by.org, &channel.id, id.as_ref(), &by.id).await?;
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
