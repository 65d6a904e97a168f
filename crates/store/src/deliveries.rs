//! The outbox: notices on their way to the recipients of channels. `fill_outbox` reads the org's events in order and makes deliveries of them,
//! in the write that remembers how far it came; so of several servers each makes what no other has made. A server claims what is due, tries
//! it, and says how that ended; what a server that is gone had claimed is claimed again.

use crate::channels::{Since, not_for};
use crate::db::{Columns, Row, Tx, Val, all, count, only, vals};
use crate::limits::{DELIVERY_CLAIM_SECONDS, DELIVERY_KEPT_SECONDS, OUTBOX_EVENTS};
use crate::orgs::not_among;
use crate::sweep::SWEEP_ROWS;
use crate::{Error, Page, PageRequest, Store, page};
use countersign_core::channel::{Delivery, DeliveryState, Moment, Told};
use countersign_core::ports::EventFeed;
use countersign_core::session::Attendance;
use countersign_core::{Band, ChannelId, DeliveryId, InvocationId, OrgId, PrincipalId, SpaceId, Status, Tier, Timestamp, random_bytes};
use serde_json::Value;
use std::collections::BTreeSet;

macro_rules! select_delivery {
    () => {
        "SELECT id, channel_id, invocation_id, recipient, moment, state, attempts, due_at, tried_at, problem, retried_by, dropped_by, \
         created_at, ended_at, seq FROM deliveries WHERE org_id = $1"
    };
}

/// Which deliveries to list; by default all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeliveryFilter {
    pub channel: Option<ChannelId>,
    pub state: Option<DeliveryState>,
    /// None by channels for these spaces, or of calls in them.
    pub hidden: BTreeSet<SpaceId>,
}

/// A delivery that this server has for itself, for `DELIVERY_CLAIM_SECONDS`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimedDelivery {
    pub delivery: Delivery,
    /// What the channel remembered when it told of the same call before.
    pub earlier: Option<Value>,
}

/// How an attempt of a delivery ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryEnd {
    /// With what the channel wants to know when it tells of the same call again.
    Sent(Option<Value>),
    /// There was nothing left to tell.
    Skipped,
    /// It is tried again then.
    Again {
        due_at: Timestamp,
        problem: String,
    },
    Dead {
        problem: String,
    },
}

/// Something that happened to a call, as the events say.
struct News {
    seq: i64,
    at: Timestamp,
    invocation: InvocationId,
    moment: Moment,
    /// The channels and recipients that are told that it needs somebody.
    tell: Vec<(ChannelId, Option<String>, u32)>,
}

impl Store {
    /// Makes deliveries of the org's next events. Returns whether there may be more of them.
    pub async fn fill_outbox(&self, org: &OrgId) -> Result<bool, Error> {
        let channels = self.live_channels(org).await?;
        let Some(first) = channels.iter().map(|since| since.seq).min() else {
            return Ok(false);
        };
        let reached = only(self.db.read(SELECT_REACHED, &vals![org.as_str()]).await?, |row| Columns::of(row).int())?;
        let events = self.list_events_after(org, reached.unwrap_or_default().max(first), OUTBOX_EVENTS).await?;
        let is_full = events.len() >= OUTBOX_EVENTS as usize;
        let Some(last) = events.last().map(|event| event.seq) else {
            return Ok(false);
        };
        let mut news = Vec::new();
        for event in events {
            let moment = Status::ALL.into_iter().find(|status| status.event_name() == event.name).and_then(Moment::of);
            let (Some(moment), Ok(invocation)) = (moment, InvocationId::parse(&event.key)) else { continue };
            let tell = if moment.needs_somebody() { self.told_that(org, &channels, event.seq, &invocation).await? } else { Vec::new() };
            if moment != Moment::Pending || !tell.is_empty() {
                news.push(News { seq: event.seq, at: event.at, invocation, moment, tell });
            }
        }
        // Events that concern no channel are read once more with the next ones, rather than written about.
        if news.is_empty() && !is_full {
            return Ok(false);
        }
        let (store, org) = (self.clone(), org.clone());
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let now_reached = only(tx.query(SELECT_REACHED, &vals![org.as_str()]).await?, |row| Columns::of(row).int())?;
                    // Otherwise another server has just made them.
                    if now_reached == reached {
                        let sql =
                            "INSERT INTO outboxes (org_id, seq) VALUES ($1, $2) ON CONFLICT (org_id) DO UPDATE SET seq = excluded.seq";
                        tx.exec(sql, &vals![org.as_str(), last]).await?;
                        for one in news {
                            put(&store, tx, &org, one).await?;
                        }
                    }
                    Ok(is_full)
                })
            })
            .await
    }

    /// Who is told that this call needs somebody.
    async fn told_that(
        &self,
        org: &OrgId,
        channels: &[Since],
        seq: i64,
        invocation: &InvocationId,
    ) -> Result<Vec<(ChannelId, Option<String>, u32)>, Error> {
        let sql = "SELECT invocations.space_id, invocations.tier, spaces.band, sessions.attendance FROM invocations
                   JOIN spaces ON spaces.org_id = invocations.org_id AND spaces.id = invocations.space_id
                   JOIN sessions ON sessions.org_id = invocations.org_id AND sessions.id = invocations.session_id
                   WHERE invocations.org_id = $1 AND invocations.id = $2";
        let call = only(self.db.read(sql, &vals![org.as_str(), invocation.as_str()]).await?, |row| {
            let mut columns = Columns::of(row);
            let (space, tier) = (columns.id()?, columns.parsed(Tier::parse)?);
            Ok(Told { space, tier, band: columns.parsed(Band::parse)?, attendance: columns.parsed(Attendance::parse)? })
        })?;
        // The org may keep the call no longer.
        let Some(call) = call else { return Ok(Vec::new()) };
        let told = channels.iter().filter(|since| since.seq < seq && since.channel.tells_of(&call));
        Ok(told
            .flat_map(|Since { channel, .. }| {
                channel.recipients().into_iter().map(move |recipient| (channel.id.clone(), recipient, channel.after_seconds))
            })
            .collect())
    }

    /// The channels with something due.
    pub async fn list_due_channels(&self, org: &OrgId) -> Result<Vec<ChannelId>, Error> {
        let sql = "SELECT DISTINCT channel_id FROM deliveries
                   WHERE org_id = $1 AND state = 'waiting' AND due_at <= $2 AND (claimed_until IS NULL OR claimed_until <= $2)";
        all(self.db.read(sql, &vals![org.as_str(), self.db.now().await?]).await?, |row| Columns::of(row).id())
    }

    /// Claims deliveries of a channel that are due, up to `limit`. What happened to a call first is told first.
    pub async fn claim_deliveries(&self, org: &OrgId, channel: &ChannelId, limit: u32) -> Result<Vec<ClaimedDelivery>, Error> {
        let (org, channel) = (org.clone(), channel.clone());
        self.db.write(org.clone(), move |tx| Box::pin(async move { claim_in(tx, &org, &channel, limit).await })).await
    }

    /// Says how an attempt ended. Returns false, and changes nothing, if the delivery is no longer this server's.
    pub async fn end_delivery(&self, org: &OrgId, delivery: &DeliveryId, end: DeliveryEnd) -> Result<bool, Error> {
        let (org, delivery) = (org.clone(), delivery.clone());
        self.db.write(org.clone(), move |tx| Box::pin(async move { end_in(tx, &org, &delivery, end).await })).await
    }

    /// Has dead letters of a channel delivered once more: this one, or all. Returns how many.
    pub async fn retry_deliveries(
        &self,
        org: &OrgId,
        channel: &ChannelId,
        delivery: Option<&DeliveryId>,
        by: &PrincipalId,
    ) -> Result<u64, Error> {
        let (org, channel, by) = (org.clone(), channel.clone(), by.to_string());
        let delivery = delivery.map_or_else(String::new, ToString::to_string);
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let sql = "UPDATE deliveries SET state = 'waiting', attempts = 0, due_at = $1, tried_at = NULL, retried_by = $2,
                               claimed_by = NULL, claimed_until = NULL, ended_at = NULL
                               WHERE org_id = $3 AND channel_id = $4 AND state = 'dead' AND (id = $5 OR $5 = '')";
                    tx.exec(sql, &vals![tx.now(), by, org.as_str(), channel.as_str(), delivery]).await
                })
            })
            .await
    }

    /// Drops dead letters of a channel: this one, or all. They count as skipped from then on. Returns how many.
    pub async fn drop_deliveries(
        &self,
        org: &OrgId,
        channel: &ChannelId,
        delivery: Option<&DeliveryId>,
        by: &PrincipalId,
    ) -> Result<u64, Error> {
        let (org, channel, by) = (org.clone(), channel.clone(), by.to_string());
        let delivery = delivery.map_or_else(String::new, ToString::to_string);
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let sql = "UPDATE deliveries SET state = 'skipped', ended_at = $1, dropped_by = $2
                               WHERE org_id = $3 AND channel_id = $4 AND state = 'dead' AND (id = $5 OR $5 = '')";
                    tx.exec(sql, &vals![tx.now(), by, org.as_str(), channel.as_str(), delivery]).await
                })
            })
            .await
    }

    pub async fn find_delivery(&self, org: &OrgId, delivery: &DeliveryId) -> Result<Option<Delivery>, Error> {
        let sql = concat!(select_delivery!(), " AND id = $2");
        only(self.db.read(sql, &vals![org.as_str(), delivery.as_str()]).await?, read_delivery)
    }

    /// Lists deliveries, newest first.
    pub async fn list_deliveries(&self, org: &OrgId, filter: &DeliveryFilter, request: &PageRequest) -> Result<Page<Delivery>, Error> {
        let mut sql =
            String::from(concat!(select_delivery!(), " AND (channel_id = $2 OR $2 = '') AND (state = $3 OR $3 = '') AND id < $4"));
        let mut params = vals![
            org.as_str(),
            filter.channel.as_ref().map_or("", ChannelId::as_str),
            filter.state.map_or("", DeliveryState::as_str),
            request.after.as_deref().unwrap_or("~")
        ]
        .to_vec();
        if !filter.hidden.is_empty() {
            let channels = not_for(&filter.hidden, &mut params);
            let calls = not_among("calls.space_id", &filter.hidden, &mut params);
            // A call that is no longer kept may have been in one of them.
            sql.push_str(&format!(
                " AND channel_id IN (SELECT id FROM channels WHERE org_id = $1{channels})
                  AND EXISTS (SELECT 1 FROM invocations AS calls
                              WHERE calls.org_id = $1 AND calls.id = deliveries.invocation_id{calls})"
            ));
        }
        params.push(Val::from(i64::from(request.limit) + 1));
        sql.push_str(&format!(" ORDER BY id DESC LIMIT ${}", params.len()));
        page(self.db.read(&sql, &params).await?, request.limit, read_delivery, |delivery| delivery.id.to_string())
    }

    /// How many deliveries of a channel are in this state.
    pub async fn count_deliveries(&self, org: &OrgId, channel: &ChannelId, state: DeliveryState) -> Result<u64, Error> {
        let sql = "SELECT count(*) FROM deliveries WHERE org_id = $1 AND channel_id = $2 AND state = $3";
        let counted = count(self.db.read(sql, &vals![org.as_str(), channel.as_str(), state.as_str()]).await?)?;
        Ok(u64::try_from(counted).unwrap_or_default())
    }

    /// Removes deliveries that ended long ago. Returns how many.
    pub async fn forget_deliveries(&self, org: &OrgId) -> Result<u64, Error> {
        let org = org.clone();
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let sql = "DELETE FROM deliveries WHERE org_id = $1 AND id IN (SELECT id FROM deliveries
                               WHERE org_id = $1 AND state <> 'waiting' AND ended_at < $2 ORDER BY id LIMIT $3)";
                    tx.exec(sql, &vals![org.as_str(), tx.now().minus_seconds(DELIVERY_KEPT_SECONDS), SWEEP_ROWS]).await
                })
            })
            .await
    }
}

const SELECT_REACHED: &str = "SELECT seq FROM outboxes WHERE org_id = $1";

/// Puts what happened to a call into the outbox.
async fn put(store: &Store, tx: &mut Tx, org: &OrgId, news: News) -> Result<(), Error> {
    let News { seq, at, invocation, moment, tell } = news;
    // Whoever was to be told later that it needs somebody is not told of that at all.
    let sql = "UPDATE deliveries SET state = 'skipped', ended_at = $1 WHERE org_id = $2 AND invocation_id = $3
               AND moment IN ('pending', 'in_doubt') AND moment <> $4 AND state = 'waiting' AND attempts = 0 AND retried_by IS NULL";
    tx.exec(sql, &vals![tx.now(), org.as_str(), invocation.as_str(), moment.as_str()]).await?;
    // Who heard of it, or may yet, hears at once how it went on.
    let sql = "SELECT channel_id, recipient FROM deliveries WHERE org_id = $1 AND invocation_id = $2 AND moment IN ('pending', 'in_doubt')
               AND state <> 'skipped' ORDER BY id";
    let heard = all(tx.query(sql, &vals![org.as_str(), invocation.as_str()]).await?, |row| {
        let mut columns = Columns::of(row);
        Ok((columns.id::<ChannelId>()?, columns.text()?))
    })?;
    for (channel, recipient) in heard {
        insert(store, tx, org, &channel, &recipient, &invocation, (moment, seq, at)).await?;
    }
    for (channel, recipient, after_seconds) in tell {
        let due_at = at.plus_seconds(u64::from(after_seconds));
        insert(store, tx, org, &channel, recipient.as_deref().unwrap_or_default(), &invocation, (moment, seq, due_at)).await?;
    }
    Ok(())
}

async fn insert(
    store: &Store,
    tx: &mut Tx,
    org: &OrgId,
    channel: &ChannelId,
    recipient: &str,
    invocation: &InvocationId,
    (moment, seq, due_at): (Moment, i64, Timestamp),
) -> Result<(), Error> {
    // It may have been removed since the channels were read.
    let live = "SELECT id FROM channels WHERE org_id = $1 AND id = $2 AND removed_at IS NULL";
    if tx.query(live, &vals![org.as_str(), channel.as_str()]).await?.is_empty() {
        return Ok(());
    }
    let id = DeliveryId::new(tx.now(), random_bytes(&*store.random));
    tx.exec(
        "INSERT INTO deliveries (org_id, id, channel_id, invocation_id, recipient, moment, seq, state, attempts, due_at, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, 'waiting', 0, $8, $9)
         ON CONFLICT (org_id, channel_id, invocation_id, recipient, moment) DO NOTHING",
        &vals![org.as_str(), id.as_str(), channel.as_str(), invocation.as_str(), recipient, moment.as_str(), seq, due_at, tx.now()],
    )
    .await
    .map(|_| ())
}

async fn claim_in(tx: &mut Tx, org: &OrgId, channel: &ChannelId, limit: u32) -> Result<Vec<ClaimedDelivery>, Error> {
    // A server that others may soon consider gone must not claim anything.
    if tx.is_fenced() {
        return Ok(Vec::new());
    }
    let sql = concat!(
        select_delivery!(),
        " AND channel_id = $2 AND state = 'waiting' AND due_at <= $3 AND (claimed_until IS NULL OR claimed_until <= $3)
          AND NOT EXISTS (SELECT 1 FROM deliveries AS earlier WHERE earlier.org_id = $1 AND earlier.channel_id = $2
            AND earlier.invocation_id = deliveries.invocation_id AND earlier.recipient = deliveries.recipient
            AND earlier.seq < deliveries.seq AND earlier.state = 'waiting')
          ORDER BY due_at, id LIMIT $4"
    );
    let now = tx.now();
    let due = all(tx.query(sql, &vals![org.as_str(), channel.as_str(), now, i64::from(limit)]).await?, read_with_seq)?;
    let mut claimed = Vec::with_capacity(due.len());
    for (mut delivery, seq) in due {
        delivery.attempts += 1;
        delivery.tried_at = delivery.tried_at.or(Some(now));
        let sql = "UPDATE deliveries SET attempts = $1, tried_at = $2, claimed_by = $3, claimed_until = $4 WHERE org_id = $5 AND id = $6";
        let params = vals![
            i64::from(delivery.attempts),
            delivery.tried_at,
            tx.lease().id().as_str(),
            now.plus_seconds(DELIVERY_CLAIM_SECONDS),
            org.as_str(),
            delivery.id.as_str()
        ];
        tx.exec(sql, &params).await?;
        let sql = "SELECT remembered FROM deliveries WHERE org_id = $1 AND channel_id = $2 AND invocation_id = $3 AND recipient = $4
                   AND seq < $5 AND remembered IS NOT NULL ORDER BY seq DESC LIMIT 1";
        let recipient = delivery.recipient.as_deref().unwrap_or_default();
        let params = vals![org.as_str(), channel.as_str(), delivery.invocation.as_str(), recipient, seq];
        let earlier = only(tx.query(sql, &params).await?, |row| Columns::of(row).json())?;
        claimed.push(ClaimedDelivery { delivery, earlier });
    }
    Ok(claimed)
}

async fn end_in(tx: &mut Tx, org: &OrgId, delivery: &DeliveryId, end: DeliveryEnd) -> Result<bool, Error> {
    let now = tx.now();
    let (state, due_at, problem, remembered, ended_at) = match end {
        DeliveryEnd::Sent(remembered) => (DeliveryState::Sent, None, None, remembered.map(|value| value.to_string()), Some(now)),
        DeliveryEnd::Skipped => (DeliveryState::Skipped, None, None, None, Some(now)),
        DeliveryEnd::Again { due_at, problem } => (DeliveryState::Waiting, Some(due_at), Some(problem), None, None),
        DeliveryEnd::Dead { problem } => (DeliveryState::Dead, None, Some(problem), None, Some(now)),
    };
    let sql = "UPDATE deliveries SET state = $1, due_at = coalesce($2, due_at), problem = $3, remembered = coalesce($4, remembered),
               ended_at = $5, claimed_by = NULL, claimed_until = NULL
               WHERE org_id = $6 AND id = $7 AND state = 'waiting' AND claimed_by = $8";
    let params = vals![state.as_str(), due_at, problem, remembered, ended_at, org.as_str(), delivery.as_str(), tx.lease().id().as_str()];
    let is_ours = tx.exec(sql, &params).await? == 1;
    if is_ours && state == DeliveryState::Skipped {
        // Who was not told that the call waits is not told how it was answered and ended either.
        let sql = "UPDATE deliveries SET state = 'skipped', ended_at = $1 WHERE org_id = $2 AND state = 'waiting'
                   AND moment IN ('decided', 'ended') AND (channel_id, invocation_id, recipient) IN (SELECT channel_id, invocation_id, recipient
                   FROM deliveries WHERE org_id = $2 AND id = $3 AND moment = 'pending')";
        tx.exec(sql, &vals![now, org.as_str(), delivery.as_str()]).await?;
    }
    Ok(is_ours)
}

fn read_delivery(row: Row) -> Result<Delivery, Error> {
    read_with_seq(row).map(|(delivery, _)| delivery)
}

fn read_with_seq(row: Row) -> Result<(Delivery, i64), Error> {
    let mut columns = Columns::of(row);
    let delivery = Delivery {
        id: columns.id()?,
        channel: columns.id()?,
        invocation: columns.id()?,
        recipient: Some(columns.text()?).filter(|recipient| !recipient.is_empty()),
        moment: columns.parsed(Moment::parse)?,
        state: columns.parsed(DeliveryState::parse)?,
        attempts: u32::try_from(columns.int()?).unwrap_or(u32::MAX),
        due_at: columns.time()?,
        tried_at: columns.time_or_null()?,
        problem: columns.text_or_null()?,
        retried_by: columns.parsed_or_null(PrincipalId::parse)?,
        dropped_by: columns.parsed_or_null(PrincipalId::parse)?,
        created_at: columns.time()?,
        ended_at: columns.time_or_null()?,
    };
    Ok((delivery, columns.int()?))
}
