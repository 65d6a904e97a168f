//! Channels: where an org is told of calls that wait. What is set is kept as canonical JSON and archived under the digest that the audit log
//! names. Their deliveries are in `deliveries`.

use crate::archive::{archive_in, digest_of};
use crate::db::{Columns, Row, Tx, Val, all, count, only, to_json, vals};
use crate::limits::CHANNELS_MAX;
use crate::rule_log::{self, RuleEvent};
use crate::{Error, Page, PageRequest, Store, page};
use countersign_core::channel::Channel;
use countersign_core::ports::definitions::ArchivedDefinition;
use countersign_core::ports::secrets::SecretName;
use countersign_core::session::Attendance;
use countersign_core::{Band, ChannelId, OrgId, PrincipalId, SpaceId, Tier, json, random_bytes};
use receipt::body::RuleChange;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

macro_rules! select_channel {
    () => {
        "SELECT org_id, id, terms, since_seq, created_by, created_at, removed_at FROM channels WHERE org_id = $1"
    };
}

/// Everything that an admin sets about a channel. Its canonical JSON is archived, and its digest is in the audit log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewChannel {
    pub name: String,
    pub kind: String,
    pub settings: Value,
    pub space: Option<SpaceId>,
    pub tiers: Vec<Tier>,
    pub bands: Vec<Band>,
    pub attendance: Option<Attendance>,
    pub after_seconds: u32,
}

/// What became of a channel to be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddedChannel {
    Done(Box<Channel>),
    /// Another channel has the name.
    Taken,
    /// There is no such secret.
    NoSecret(SecretName),
    /// The org has as many channels as it may have.
    TooMany,
}

/// A channel that was not removed, and the event after which it is told of calls.
#[derive(Clone, Debug)]
pub(crate) struct Since {
    pub(crate) channel: Channel,
    pub(crate) seq: i64,
}

impl Store {
    /// Adds a channel whose settings name these secrets.
    pub async fn add_channel(
        &self,
        org: &OrgId,
        new: NewChannel,
        secrets: Vec<SecretName>,
        by: &PrincipalId,
    ) -> Result<AddedChannel, Error> {
        let (store, org, by) = (self.clone(), org.clone(), by.clone());
        self.db.write(org.clone(), move |tx| Box::pin(async move { add(&store, tx, &org, new, secrets, by).await })).await
    }

    /// Removes a channel. What waits to be delivered by it, and what was given up, is skipped. `None` if there is none with this id, or it was removed already.
    pub async fn remove_channel(&self, org: &OrgId, channel: &ChannelId, by: &PrincipalId) -> Result<Option<Channel>, Error> {
        let (store, org, channel, by) = (self.clone(), org.clone(), channel.clone(), by.clone());
        self.db.write(org.clone(), move |tx| Box::pin(async move { remove(&store, tx, &org, &channel, by).await })).await
    }

    /// A channel by its id, also after it was removed.
    pub async fn find_channel(&self, org: &OrgId, channel: &ChannelId) -> Result<Option<Channel>, Error> {
        let sql = concat!(select_channel!(), " AND id = $2");
        only(self.db.read(sql, &vals![org.as_str(), channel.as_str()]).await?, read_channel)
    }

    /// The channel with this name that was not removed.
    pub async fn find_channel_by_name(&self, org: &OrgId, name: &str) -> Result<Option<Channel>, Error> {
        let sql = concat!(select_channel!(), " AND name = $2 AND removed_at IS NULL");
        only(self.db.read(sql, &vals![org.as_str(), name]).await?, read_channel)
    }

    /// Lists channels by name, without those that were removed, and without those for these spaces.
    pub async fn list_channels(&self, org: &OrgId, hidden: &BTreeSet<SpaceId>, request: &PageRequest) -> Result<Page<Channel>, Error> {
        let mut params = vals![org.as_str(), request.after.as_deref().unwrap_or_default()].to_vec();
        let visible = not_for(hidden, &mut params);
        params.push(Val::from(i64::from(request.limit) + 1));
        let which = concat!(select_channel!(), " AND removed_at IS NULL AND name > $2");
        let sql = format!("{which}{visible} ORDER BY name LIMIT ${}", params.len());
        let rows = self.db.read(&sql, &params).await?;
        page(rows, request.limit, read_channel, |channel| channel.name.clone())
    }

    /// The channels that were not removed, from memory as long as none changes.
    pub(crate) async fn live_channels(&self, org: &OrgId) -> Result<Arc<Vec<Since>>, Error> {
        let sql = concat!(select_channel!(), " AND removed_at IS NULL ORDER BY id");
        self.db.read_remembered(org, sql, &vals![org.as_str()], |rows| all(rows, read_since)).await
    }
}

async fn add(
    store: &Store,
    tx: &mut Tx,
    org: &OrgId,
    new: NewChannel,
    secrets: Vec<SecretName>,
    by: PrincipalId,
) -> Result<AddedChannel, Error> {
    let named = "SELECT id FROM channels WHERE org_id = $1 AND name = $2 AND removed_at IS NULL";
    if !tx.query(named, &vals![org.as_str(), new.name.as_str()]).await?.is_empty() {
        return Ok(AddedChannel::Taken);
    }
    let live = "SELECT count(*) FROM channels WHERE org_id = $1 AND removed_at IS NULL";
    if count(tx.query(live, &vals![org.as_str()]).await?)? >= CHANNELS_MAX as i64 {
        return Ok(AddedChannel::TooMany);
    }
    for secret in &secrets {
        // Locked, so that nobody deletes it meanwhile.
        let sql = "SELECT id FROM secrets WHERE org_id = $1 AND name = $2";
        if tx.query_locked(sql, &vals![org.as_str(), secret.as_str()]).await?.is_empty() {
            return Ok(AddedChannel::NoSecret(secret.clone()));
        }
    }
    let terms = json::canonical_exact(&new).map_err(|error| Error::Corrupt { message: error.to_string() })?;
    let since = count(tx.query("SELECT last_event FROM logs WHERE org_id = $1", &vals![org.as_str()]).await?)?;
    let channel = of_terms(new, org.clone(), ChannelId::new(tx.now(), random_bytes(&*store.random)), by.clone(), tx.now());
    tx.exec(
        "INSERT INTO channels (org_id, id, name, terms, secrets, since_seq, created_by, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        &vals![
            org.as_str(),
            channel.id.as_str(),
            channel.name.as_str(),
            terms.as_str(),
            to_json(&secrets.iter().map(SecretName::as_str).collect::<Vec<_>>())?,
            since,
            by.to_string(),
            channel.created_at
        ],
    )
    .await?;
    let settings = digest_of(&terms);
    archive_in(tx, org, ArchivedDefinition { digest: settings, body: terms }).await?;
    let change = RuleChange::ChannelSet { channel: channel.id.clone(), name: channel.name.clone(), kind: channel.kind.clone(), settings };
    let told = RuleEvent { name: "channel.added", key: channel.id.to_string() };
    rule_log::record(store, tx, org, Some(by), change, told).await?;
    Ok(AddedChannel::Done(Box::new(channel)))
}

async fn remove(store: &Store, tx: &mut Tx, org: &OrgId, channel: &ChannelId, by: PrincipalId) -> Result<Option<Channel>, Error> {
    let sql = concat!(select_channel!(), " AND id = $2 AND removed_at IS NULL");
    let Some(before) = only(tx.query_locked(sql, &vals![org.as_str(), channel.as_str()]).await?, read_channel)? else {
        return Ok(None);
    };
    let now = tx.now();
    let sql = "UPDATE channels SET removed_at = $1 WHERE org_id = $2 AND id = $3";
    tx.exec(sql, &vals![now, org.as_str(), channel.as_str()]).await?;
    // Dead letters go too: nobody can ask for them once more.
    let sql =
        "UPDATE deliveries SET state = 'skipped', ended_at = $1 WHERE org_id = $2 AND channel_id = $3 AND state IN ('waiting', 'dead')";
    tx.exec(sql, &vals![now, org.as_str(), channel.as_str()]).await?;
    let told = RuleEvent { name: "channel.removed", key: channel.to_string() };
    rule_log::record(store, tx, org, Some(by), RuleChange::ChannelRemoved { channel: channel.clone() }, told).await?;
    Ok(Some(Channel { removed_at: Some(now), ..before }))
}

/// The part of a WHERE clause that leaves out channels for these spaces. Their space is in their terms, whose JSON is canonical.
pub(crate) fn not_for(spaces: &BTreeSet<SpaceId>, params: &mut Vec<Val>) -> String {
    let mut visible = String::new();
    for space in spaces {
        params.push(Val::from(format!("\"space\":\"{space}\"")));
        visible.push_str(&format!(" AND replace(terms, ${}, '') = terms", params.len()));
    }
    visible
}

fn of_terms(terms: NewChannel, org: OrgId, id: ChannelId, created_by: PrincipalId, created_at: countersign_core::Timestamp) -> Channel {
    let NewChannel { name, kind, settings, space, tiers, bands, attendance, after_seconds } = terms;
    Channel { id, org, name, kind, settings, space, tiers, bands, attendance, after_seconds, created_by, created_at, removed_at: None }
}

fn read_channel(row: Row) -> Result<Channel, Error> {
    read_since(row).map(|since| since.channel)
}

fn read_since(row: Row) -> Result<Since, Error> {
    let mut columns = Columns::of(row);
    let (org, id, terms, seq) = (columns.id()?, columns.id()?, columns.json()?, columns.int()?);
    let channel = of_terms(terms, org, id, columns.parsed(PrincipalId::parse)?, columns.time()?);
    Ok(Since { channel: Channel { removed_at: columns.time_or_null()?, ..channel }, seq })
}
