//! The event bus, on the log of events: publishing, and consumer groups. A group has one row with how far it has read, and a row for each event
//! that it has claimed and not acknowledged. Every write runs under the lock of its org, so no two consumers claim the same event at once.

use crate::db::{Columns, Row, Tx, all, count, only, vals};
use crate::dead_letters::bury;
use crate::events::{publish_in, read_event, select_event, tell};
use crate::limits::{DELIVERY_PROBLEM_CHARS_MAX, EVENTS_IN_FLIGHT_MAX};
use crate::{Error, Store};
use countersign_core::limits::{EVENT_LEASE_SECONDS, GROUP_HELD_SECONDS, GROUPS_MAX};
use countersign_core::ports::EventBus;
use countersign_core::ports::bus::{ClaimRef, Claimed, Group, GroupName, NewEvent, NewGroup, Published, Start, Subscribed};
use countersign_core::ports::events::Event;
use countersign_core::{Future, OrgId, PrincipalId};
use serde_json::json;

macro_rules! select_group {
    () => {
        "SELECT name, read_seq, deliveries_max, lost, overtaken_at, created_by, created_at,
           (SELECT count(*) FROM event_claims WHERE event_claims.org_id = $1 AND event_claims.group_name = event_groups.name),
           coalesce((SELECT min(seq) FROM event_claims WHERE event_claims.org_id = $1 AND event_claims.group_name = event_groups.name),
             read_seq + 1),
           (SELECT last_event FROM logs WHERE logs.org_id = $1),
           (SELECT events.at FROM events WHERE events.org_id = $1 AND events.seq >= coalesce((SELECT min(event_claims.seq) FROM event_claims
              WHERE event_claims.org_id = $1 AND event_claims.group_name = event_groups.name), event_groups.read_seq + 1)
            ORDER BY events.seq LIMIT 1)
         FROM event_groups WHERE org_id = $1"
    };
}

/// What happens to what a group has not acknowledged when it is moved to another place of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// It counts as done: the group goes on from the new place, and nowhere else.
    Reset,
    /// It stays with the group, which gets everything from the new place on once more.
    Replay,
    /// The group stays where it is, and is told to take everything from the place up to now for new events. Only a consumer of ours heeds it.
    ReplayAnew,
}

impl EventBus for Store {
    fn publish<'a>(&'a self, org: &'a OrgId, events: Vec<NewEvent>) -> Future<'a, Result<Vec<Published>, Error>> {
        let (store, org) = (self.clone(), org.clone());
        Box::pin(self.db.write(org.clone(), move |tx| {
            Box::pin(async move {
                let mut published = Vec::with_capacity(events.len());
                for event in events {
                    published.push(publish_in(&store, tx, &org, event).await?);
                }
                Ok(published)
            })
        }))
    }

    fn subscribe<'a>(&'a self, org: &'a OrgId, new: NewGroup) -> Future<'a, Result<Subscribed, Error>> {
        let org = org.clone();
        Box::pin(self.db.write(org.clone(), move |tx| Box::pin(async move { subscribe_in(tx, &org, new).await })))
    }

    fn claim_events<'a>(&'a self, org: &'a OrgId, group: &'a GroupName, limit: u32) -> Future<'a, Result<Option<Vec<Claimed>>, Error>> {
        Box::pin(async move {
            // Consumers ask again and again: what has nothing for them writes nothing.
            match self.has_due(org, group).await? {
                None => return Ok(None),
                Some(false) => return Ok(Some(Vec::new())),
                Some(true) => {}
            }
            let (store, org, group) = (self.clone(), org.clone(), group.clone());
            self.db.write(org.clone(), move |tx| Box::pin(async move { claim_in(&store, tx, &org, &group, limit).await })).await
        })
    }

    fn hold_group<'a>(&'a self, org: &'a OrgId, group: &'a GroupName) -> Future<'a, Result<bool, Error>> {
        Box::pin(async move {
            // Most of the time it is clear without a write.
            let sql = "SELECT held_by, held_until FROM event_groups WHERE org_id = $1 AND name = $2";
            let held = only(self.db.read(sql, &vals![org.as_str(), group.as_str()]).await?, |row| {
                let mut columns = Columns::of(row);
                Ok((columns.text_or_null()?, columns.time_or_null()?))
            })?;
            let (now, us) = (self.db.now().await?, self.db.lease().id().to_string());
            // Whose hold ends with this write: our own, or that of a server that is gone.
            let mut before = us.clone();
            if let Some((Some(by), Some(until))) = held
                && until > now
            {
                if by != us && self.db.is_present(&by).await? {
                    return Ok(false);
                }
                if by == us && until > now.plus_seconds(GROUP_HELD_SECONDS / 2) {
                    return Ok(true);
                }
                before = by;
            }
            let (org, group) = (org.clone(), group.clone());
            self.db
                .write(org.clone(), move |tx| {
                    Box::pin(async move {
                        let sql = "UPDATE event_groups SET held_by = $1, held_until = $2 WHERE org_id = $3 AND name = $4
                                   AND (held_by IS NULL OR held_by = $5 OR held_until <= $6)";
                        let until = tx.now().plus_seconds(GROUP_HELD_SECONDS);
                        let params = vals![us.as_str(), until, org.as_str(), group.as_str(), before, tx.now()];
                        Ok(tx.exec(sql, &params).await? == 1)
                    })
                })
                .await
        })
    }

    fn pass_events<'a>(&'a self, org: &'a OrgId, group: &'a GroupName, from: i64, to: i64, lost: i64) -> Future<'a, Result<bool, Error>> {
        let (store, org, group) = (self.clone(), org.clone(), group.clone());
        Box::pin(self.db.write(org.clone(), move |tx| {
            Box::pin(async move {
                let sql = "UPDATE event_groups SET read_seq = $1 WHERE org_id = $2 AND name = $3 AND read_seq = $4";
                let is_passed = tx.exec(sql, &vals![to, org.as_str(), group.as_str(), from]).await? == 1;
                if is_passed {
                    count_lost(&store, tx, &org, &group, lost).await?;
                }
                Ok(is_passed)
            })
        }))
    }

    fn ack_events<'a>(&'a self, org: &'a OrgId, group: &'a GroupName, claims: Vec<ClaimRef>) -> Future<'a, Result<Vec<ClaimRef>, Error>> {
        let (org, group) = (org.clone(), group.clone());
        Box::pin(self.db.write(org.clone(), move |tx| {
            Box::pin(async move {
                let mut stale = Vec::new();
                for claim in claims {
                    let sql = "DELETE FROM event_claims WHERE org_id = $1 AND group_name = $2 AND seq = $3 AND token = $4 AND token > 0";
                    if tx.exec(sql, &vals![org.as_str(), group.as_str(), claim.seq, claim.token]).await? == 0 {
                        stale.push(claim);
                    }
                }
                Ok(stale)
            })
        }))
    }

    fn nack_events<'a>(
        &'a self,
        org: &'a OrgId,
        group: &'a GroupName,
        claims: Vec<ClaimRef>,
        delay_seconds: u64,
        problem: String,
    ) -> Future<'a, Result<Vec<ClaimRef>, Error>> {
        let (store, org, group) = (self.clone(), org.clone(), group.clone());
        let problem: String = problem.chars().take(DELIVERY_PROBLEM_CHARS_MAX).collect();
        Box::pin(self.db.write(org.clone(), move |tx| {
            Box::pin(async move {
                let mut stale = Vec::new();
                for claim in claims {
                    if !nack_in(&store, tx, &org, &group, claim, delay_seconds, &problem).await? {
                        stale.push(claim);
                    }
                }
                Ok(stale)
            })
        }))
    }
}

impl Store {
    /// The consumer groups of the org, by name.
    pub async fn list_event_groups(&self, org: &OrgId) -> Result<Vec<Group>, Error> {
        let sql = concat!(select_group!(), " ORDER BY name");
        all(self.db.read(sql, &vals![org.as_str()]).await?, read_group)
    }

    pub async fn find_event_group(&self, org: &OrgId, group: &GroupName) -> Result<Option<Group>, Error> {
        let sql = concat!(select_group!(), " AND name = $2");
        only(self.db.read(sql, &vals![org.as_str(), group.as_str()]).await?, read_group)
    }

    /// Moves a group to another place of the log. `None` if there is no such group.
    pub async fn move_event_group(
        &self,
        org: &OrgId,
        group: &GroupName,
        to: Start,
        how: Move,
        by: &PrincipalId,
    ) -> Result<Option<Group>, Error> {
        let (store, org, group, by) = (self.clone(), org.clone(), group.clone(), by.clone());
        self.db.write(org.clone(), move |tx| Box::pin(async move { move_in(&store, tx, &org, &group, to, how, &by).await })).await
    }

    /// Removes a group, with all that it has not acknowledged. Its dead letters stay. Returns whether there was one.
    pub async fn remove_event_group(&self, org: &OrgId, group: &GroupName, by: &PrincipalId) -> Result<bool, Error> {
        let (store, org, group, by) = (self.clone(), org.clone(), group.clone(), by.clone());
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let params = vals![org.as_str(), group.as_str()];
                    tx.exec("DELETE FROM event_claims WHERE org_id = $1 AND group_name = $2", &params).await?;
                    let is_gone = tx.exec("DELETE FROM event_groups WHERE org_id = $1 AND name = $2", &params).await? == 1;
                    if is_gone {
                        let body = json!({ "group": group.as_str(), "by": by }).to_string();
                        tell(&store, tx, &org, "event_group.removed", group.to_string(), body).await?;
                    }
                    Ok(is_gone)
                })
            })
            .await
    }

    /// Whether a claim would find something now; `None` if there is no such group.
    async fn has_due(&self, org: &OrgId, group: &GroupName) -> Result<Option<bool>, Error> {
        let sql = "SELECT read_seq, (SELECT last_event FROM logs WHERE logs.org_id = $1),
                     (SELECT count(*) FROM event_claims WHERE event_claims.org_id = $1 AND event_claims.group_name = $2
                      AND event_claims.due_at <= $3)
                   FROM event_groups WHERE org_id = $1 AND name = $2";
        let rows = self.db.read(sql, &vals![org.as_str(), group.as_str(), self.db.now().await?]).await?;
        only(rows, |row| {
            let mut columns = Columns::of(row);
            Ok(columns.int()? < columns.int()? || columns.int()? > 0)
        })
    }
}

async fn subscribe_in(tx: &mut Tx, org: &OrgId, new: NewGroup) -> Result<Subscribed, Error> {
    if let Some(there) = find_in(tx, org, &new.name).await? {
        return Ok(Subscribed::There(there));
    }
    if count(tx.query("SELECT count(*) FROM event_groups WHERE org_id = $1", &vals![org.as_str()]).await?)? >= GROUPS_MAX {
        return Ok(Subscribed::TooMany);
    }
    let read_seq = before(tx, org, new.start).await?;
    tx.exec(
        "INSERT INTO event_groups (org_id, name, read_seq, token, deliveries_max, lost, created_by, created_at)
         VALUES ($1, $2, $3, 0, $4, 0, $5, $6)",
        &vals![
            org.as_str(),
            new.name.as_str(),
            read_seq,
            i64::from(new.deliveries_max),
            new.by.as_ref().map(ToString::to_string),
            tx.now()
        ],
    )
    .await?;
    let made = find_in(tx, org, &new.name).await?;
    made.map(Subscribed::Made).ok_or_else(|| Error::Corrupt { message: format!("group `{}` is gone in its own write", new.name) })
}

/// The position before the first event that a group gets.
async fn before(tx: &mut Tx, org: &OrgId, start: Start) -> Result<i64, Error> {
    let last = committed(tx, org).await?;
    Ok(match start {
        Start::Now => last,
        Start::Earliest => {
            let sql = "SELECT seq FROM events WHERE org_id = $1 AND seq <= $2 ORDER BY seq LIMIT 1";
            let oldest = only(tx.query(sql, &vals![org.as_str(), last]).await?, |row| Columns::of(row).int())?;
            oldest.map_or(last, |oldest| oldest - 1)
        }
        Start::At(position) => position.saturating_sub(1).clamp(0, last),
    })
}

/// The newest committed event. Those of this batch are not among them: some of their rows are written before others with lower positions.
async fn committed(tx: &mut Tx, org: &OrgId) -> Result<i64, Error> {
    count(tx.query("SELECT last_event FROM logs WHERE org_id = $1", &vals![org.as_str()]).await?)
}

/// What a group has come to, for the write that changes it.
struct Progress {
    read_seq: i64,
    token: i64,
    deliveries_max: i64,
    /// Events that this write found to be gone.
    lost: i64,
}

async fn claim_in(store: &Store, tx: &mut Tx, org: &OrgId, group: &GroupName, limit: u32) -> Result<Option<Vec<Claimed>>, Error> {
    let sql = "SELECT read_seq, token, deliveries_max FROM event_groups WHERE org_id = $1 AND name = $2";
    let found = only(tx.query_locked(sql, &vals![org.as_str(), group.as_str()]).await?, |row| {
        let mut columns = Columns::of(row);
        Ok(Progress { read_seq: columns.int()?, token: columns.int()? + 1, deliveries_max: columns.int()?, lost: 0 })
    })?;
    let Some(mut progress) = found else { return Ok(None) };
    let mut claimed = claim_again(store, tx, org, group, &mut progress, i64::from(limit)).await?;
    let room = i64::from(limit) - claimed.len() as i64;
    claimed.extend(claim_new(tx, org, group, &mut progress, room).await?);
    save(store, tx, org, group, &progress).await?;
    Ok(Some(claimed))
}

/// Claims what was given back, or left by a consumer that did not answer in time.
async fn claim_again(
    store: &Store,
    tx: &mut Tx,
    org: &OrgId,
    group: &GroupName,
    progress: &mut Progress,
    limit: i64,
) -> Result<Vec<Claimed>, Error> {
    let sql = "SELECT seq, deliveries, problem, event FROM event_claims
               WHERE org_id = $1 AND group_name = $2 AND due_at <= $3 ORDER BY seq LIMIT $4";
    let due = all(tx.query(sql, &vals![org.as_str(), group.as_str(), tx.now(), limit]).await?, |row| {
        let mut columns = Columns::of(row);
        Ok((columns.int()?, columns.int()?, columns.text_or_null()?, columns.text_or_null()?))
    })?;
    let mut claimed = Vec::with_capacity(due.len());
    for (seq, deliveries, problem, kept) in due {
        let Some(event) = event_at(tx, org, seq, kept).await? else {
            // Retention has dropped it.
            progress.lost += 1;
            let sql = "DELETE FROM event_claims WHERE org_id = $1 AND group_name = $2 AND seq = $3";
            tx.exec(sql, &vals![org.as_str(), group.as_str(), seq]).await?;
            continue;
        };
        if deliveries >= progress.deliveries_max {
            let problem = problem.unwrap_or_else(|| format!("no consumer answered within {EVENT_LEASE_SECONDS} seconds"));
            bury(store, tx, org, group, event, deliveries, &problem).await?;
            continue;
        }
        let leased_until = tx.now().plus_seconds(EVENT_LEASE_SECONDS);
        let sql = "UPDATE event_claims SET token = $1, deliveries = $2, due_at = $3, problem = NULL
                   WHERE org_id = $4 AND group_name = $5 AND seq = $6";
        tx.exec(sql, &vals![progress.token, deliveries + 1, leased_until, org.as_str(), group.as_str(), seq]).await?;
        claimed.push(Claimed { event, claim: ClaimRef { seq, token: progress.token }, delivery: as_u32(deliveries + 1), leased_until });
    }
    Ok(claimed)
}

/// Claims events that the group has not had yet, as far as it has room for them.
async fn claim_new(tx: &mut Tx, org: &OrgId, group: &GroupName, progress: &mut Progress, limit: i64) -> Result<Vec<Claimed>, Error> {
    let sql = "SELECT count(*) FROM event_claims WHERE org_id = $1 AND group_name = $2";
    let in_flight = count(tx.query(sql, &vals![org.as_str(), group.as_str()]).await?)?;
    let limit = limit.min(EVENTS_IN_FLIGHT_MAX - in_flight);
    if limit <= 0 {
        return Ok(Vec::new());
    }
    let sql = concat!(select_event!(), " AND seq > $2 AND seq <= $3 ORDER BY seq LIMIT $4");
    let newest = committed(tx, org).await?;
    let events = all(tx.query(sql, &vals![org.as_str(), progress.read_seq, newest, limit]).await?, read_event)?;
    // Positions have no gaps: what is missing before the first of them is kept no longer.
    progress.lost += events.first().map_or(0, |first| first.seq - progress.read_seq - 1);
    let leased_until = tx.now().plus_seconds(EVENT_LEASE_SECONDS);
    let mut claimed = Vec::with_capacity(events.len());
    for event in events {
        progress.read_seq = event.seq;
        // After a replay the group may have it already, as a dead letter that was asked for once more.
        let sql = "INSERT INTO event_claims (org_id, group_name, seq, token, deliveries, due_at) VALUES ($1, $2, $3, $4, 1, $5)
                   ON CONFLICT (org_id, group_name, seq) DO NOTHING";
        if tx.exec(sql, &vals![org.as_str(), group.as_str(), event.seq, progress.token, leased_until]).await? == 1 {
            let claim = ClaimRef { seq: event.seq, token: progress.token };
            claimed.push(Claimed { event, claim, delivery: 1, leased_until });
        }
    }
    Ok(claimed)
}

async fn save(store: &Store, tx: &mut Tx, org: &OrgId, group: &GroupName, progress: &Progress) -> Result<(), Error> {
    let sql = "UPDATE event_groups SET read_seq = $1, token = $2 WHERE org_id = $3 AND name = $4";
    tx.exec(sql, &vals![progress.read_seq, progress.token, org.as_str(), group.as_str()]).await?;
    count_lost(store, tx, org, group, progress.lost).await
}

/// Counts events that retention dropped before the group had them, and tells of it.
async fn count_lost(store: &Store, tx: &mut Tx, org: &OrgId, group: &GroupName, lost: i64) -> Result<(), Error> {
    if lost == 0 {
        return Ok(());
    }
    let sql = "UPDATE event_groups SET lost = lost + $1, overtaken_at = $2 WHERE org_id = $3 AND name = $4";
    tx.exec(sql, &vals![lost, tx.now(), org.as_str(), group.as_str()]).await?;
    let body = json!({ "group": group.as_str(), "lost": lost }).to_string();
    tell(store, tx, org, "event_group.overtaken", group.to_string(), body).await
}

/// Gives an event back. Returns whether the claim counted.
async fn nack_in(
    store: &Store,
    tx: &mut Tx,
    org: &OrgId,
    group: &GroupName,
    claim: ClaimRef,
    delay_seconds: u64,
    problem: &str,
) -> Result<bool, Error> {
    let sql = "SELECT deliveries, event,
                 (SELECT deliveries_max FROM event_groups WHERE event_groups.org_id = $1 AND event_groups.name = $2)
               FROM event_claims WHERE org_id = $1 AND group_name = $2 AND seq = $3 AND token = $4 AND token > 0";
    let found = only(tx.query(sql, &vals![org.as_str(), group.as_str(), claim.seq, claim.token]).await?, |row| {
        let mut columns = Columns::of(row);
        Ok((columns.int()?, columns.text_or_null()?, columns.int()?))
    })?;
    let Some((deliveries, kept, deliveries_max)) = found else { return Ok(false) };
    if deliveries >= deliveries_max
        && let Some(event) = event_at(tx, org, claim.seq, kept).await?
    {
        bury(store, tx, org, group, event, deliveries, problem).await?;
        return Ok(true);
    }
    let sql = "UPDATE event_claims SET token = 0, due_at = $1, problem = $2 WHERE org_id = $3 AND group_name = $4 AND seq = $5";
    let due_at = tx.now().plus_seconds(delay_seconds);
    tx.exec(sql, &vals![due_at, problem, org.as_str(), group.as_str(), claim.seq]).await?;
    Ok(true)
}

/// The event at this position: as it was kept with the claim, or from the log.
async fn event_at(tx: &mut Tx, org: &OrgId, seq: i64, kept: Option<String>) -> Result<Option<Event>, Error> {
    match kept {
        Some(kept) => {
            let read =
                serde_json::from_str(&kept).map_err(|error| Error::Corrupt { message: format!("a kept event does not read: {error}") });
            read.map(Some)
        }
        None => only(tx.query(concat!(select_event!(), " AND seq = $2"), &vals![org.as_str(), seq]).await?, read_event),
    }
}

async fn move_in(
    store: &Store,
    tx: &mut Tx,
    org: &OrgId,
    group: &GroupName,
    to: Start,
    how: Move,
    by: &PrincipalId,
) -> Result<Option<Group>, Error> {
    if find_in(tx, org, group).await?.is_none() {
        return Ok(None);
    }
    let read_seq = before(tx, org, to).await?;
    let event = match how {
        Move::Reset => {
            tx.exec("DELETE FROM event_claims WHERE org_id = $1 AND group_name = $2", &vals![org.as_str(), group.as_str()]).await?;
            let sql = "UPDATE event_groups SET read_seq = $1, lost = 0, overtaken_at = NULL WHERE org_id = $2 AND name = $3";
            tx.exec(sql, &vals![read_seq, org.as_str(), group.as_str()]).await?;
            "event_group.reset"
        }
        Move::Replay => {
            // A dead letter that was asked for once more stays: the log may not have its event any longer.
            let sql = "DELETE FROM event_claims WHERE org_id = $1 AND group_name = $2 AND seq > $3 AND event IS NULL";
            tx.exec(sql, &vals![org.as_str(), group.as_str(), read_seq]).await?;
            let sql = "UPDATE event_groups SET read_seq = $1 WHERE org_id = $2 AND name = $3 AND read_seq > $1";
            tx.exec(sql, &vals![read_seq, org.as_str(), group.as_str()]).await?;
            "event_group.replayed"
        }
        Move::ReplayAnew => "event_group.replayed",
    };
    let mut body = json!({ "group": group.as_str(), "from": read_seq + 1, "by": by });
    match how {
        Move::Reset => {}
        Move::Replay => body["ids"] = json!("same"),
        Move::ReplayAnew => body["ids"] = json!("new"),
    }
    tell(store, tx, org, event, group.to_string(), body.to_string()).await?;
    find_in(tx, org, group).await
}

async fn find_in(tx: &mut Tx, org: &OrgId, group: &GroupName) -> Result<Option<Group>, Error> {
    let sql = concat!(select_group!(), " AND name = $2");
    only(tx.query(sql, &vals![org.as_str(), group.as_str()]).await?, read_group)
}

fn read_group(row: Row) -> Result<Group, Error> {
    let mut columns = Columns::of(row);
    let (name, read_seq) = (columns.parsed(GroupName::parse)?, columns.int()?);
    let (deliveries_max, lost) = (columns.int()?, columns.int()?);
    Ok(Group {
        name,
        deliveries_max: as_u32(deliveries_max),
        lost: as_u64(lost),
        overtaken_at: columns.time_or_null()?,
        created_by: columns.parsed_or_null(PrincipalId::parse)?,
        created_at: columns.time()?,
        in_flight: as_u64(columns.int()?),
        cursor: columns.int()?,
        behind: as_u64(columns.int()? - read_seq),
        waiting_since: columns.time_or_null()?,
    })
}

fn as_u32(number: i64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn as_u64(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}
