//! Circuit breakers: kept in the database, so that servers agree and a restart forgets nothing.

use crate::db::{Columns, Row, Tx, vals};
use crate::events::insert_event;
use crate::{Error, Store};
use countersign_core::breaker::{Breaker, BreakerKey, BreakerState, LetThrough};
use countersign_core::ledger::EventDraft;
use countersign_core::limits::{
    BREAKER_FAILURES_MAX, BREAKER_FORGOTTEN_SECONDS, BREAKER_OPEN_SECONDS, BREAKER_OPEN_SECONDS_MAX, BREAKERS_WITH_LABELS_MAX,
};
use countersign_core::{EventId, OrgId, Timestamp, random_bytes};
use serde_json::json;
use std::sync::Arc;

const SELECT_BREAKERS: &str = "SELECT key, state, failures, opened, reason, since, until FROM breakers WHERE org_id = $1 ORDER BY key";

impl Store {
    /// Every target that has failed since it last worked.
    pub async fn list_breakers(&self, org: &OrgId) -> Result<Arc<Vec<Breaker>>, Error> {
        self.db.read_remembered(SELECT_BREAKERS, &vals![org.as_str()], |rows| rows.into_iter().map(read_breaker).collect()).await
    }

    /// Counts a failure; the one that is too many opens it, and one of the call that was let through opens it again, for longer. Every
    /// other that comes while it is open began before, or was approved by a person: it is counted, and the time stays as it is.
    pub(crate) async fn break_once(&self, org: &OrgId, key: BreakerKey, reason: String, let_through: LetThrough) -> Result<(), Error> {
        let (store, org) = (self.clone(), org.clone());
        self.db
            .write(move |tx| {
                Box::pin(async move {
                    let now = tx.now();
                    let known = find(tx, &org, key.as_str()).await?;
                    if known.is_none() && key.is_labelled() && count(tx, &org).await? >= BREAKERS_WITH_LABELS_MAX {
                        return Ok(());
                    }
                    let known = known.unwrap_or_else(|| unbroken(&key, now));
                    let failures = known.failures.saturating_add(1);
                    let opens = match known.state {
                        BreakerState::Closed => failures >= BREAKER_FAILURES_MAX,
                        BreakerState::HalfOpen => let_through == LetThrough::ToDecide,
                        BreakerState::Open => false,
                    };
                    let opened = known.opened + u32::from(opens);
                    let (state, until) = match known.state {
                        _ if opens => (BreakerState::Open, now.plus_seconds(open_seconds(opened))),
                        BreakerState::Closed => (BreakerState::Closed, now),
                        BreakerState::Open | BreakerState::HalfOpen => (known.state, known.until),
                    };
                    tx.exec(
                        "INSERT INTO breakers (org_id, key, state, failures, opened, reason, since, until) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
                         ON CONFLICT (org_id, key) DO UPDATE SET state = excluded.state, failures = excluded.failures, opened = excluded.opened,
                           reason = excluded.reason, until = excluded.until",
                        &vals![
                            org.as_str(),
                            key.as_str(),
                            state.as_str(),
                            i64::from(failures),
                            i64::from(opened),
                            reason.as_str(),
                            now,
                            until
                        ],
                    )
                    .await?;
                    if opens {
                        tell(&store, tx, &org, "breaker.opened", key.as_str(), &reason);
                    }
                    Ok(())
                })
            })
            .await
    }

    /// It works: whatever was counted is forgotten. Whether there was anything.
    pub async fn close_breaker(&self, org: &OrgId, key: &str) -> Result<bool, Error> {
        let (store, org, key) = (self.clone(), org.clone(), key.to_owned());
        self.db
            .write(move |tx| {
                Box::pin(async move {
                    let Some(known) = find(tx, &org, &key).await? else {
                        return Ok(false);
                    };
                    tx.exec("DELETE FROM breakers WHERE org_id = $1 AND key = $2", &vals![org.as_str(), key.as_str()]).await?;
                    if known.state != BreakerState::Closed {
                        tell(&store, tx, &org, "breaker.closed", &key, &known.reason);
                    }
                    Ok(true)
                })
            })
            .await
    }

    /// Forgets targets that failed now and then, and not for a long time. One that is open stays: the call that is let through decides.
    pub async fn forget_breakers(&self, org: &OrgId) -> Result<(), Error> {
        let org = org.clone();
        self.db
            .write(move |tx| {
                Box::pin(async move {
                    let long_ago = tx.now().minus_seconds(BREAKER_FORGOTTEN_SECONDS);
                    tx.exec("DELETE FROM breakers WHERE org_id = $1 AND state = 'closed' AND until <= $2", &vals![org.as_str(), long_ago])
                        .await?;
                    Ok(())
                })
            })
            .await
    }

    /// Lets one call through an open one whose time has passed. Whether it is this one.
    pub(crate) async fn claim_probe(&self, org: &OrgId, key: BreakerKey, lease_seconds: u64) -> Result<bool, Error> {
        let (store, org) = (self.clone(), org.clone());
        self.db
            .write(move |tx| {
                Box::pin(async move {
                    let now = tx.now();
                    let claimed = tx
                        .exec(
                            "UPDATE breakers SET state = 'half_open', until = $1
                             WHERE org_id = $2 AND key = $3 AND state IN ('open', 'half_open') AND until <= $4",
                            &vals![now.plus_seconds(lease_seconds), org.as_str(), key.as_str(), now],
                        )
                        .await?;
                    if claimed == 1 {
                        tell(&store, tx, &org, "breaker.half_opened", key.as_str(), "");
                    }
                    Ok(claimed == 1)
                })
            })
            .await
    }
}

async fn find(tx: &mut Tx, org: &OrgId, key: &str) -> Result<Option<Breaker>, Error> {
    let sql = "SELECT key, state, failures, opened, reason, since, until FROM breakers WHERE org_id = $1 AND key = $2";
    let rows = tx.query_locked(sql, &vals![org.as_str(), key]).await?;
    rows.into_iter().next().map(read_breaker).transpose()
}

async fn count(tx: &mut Tx, org: &OrgId) -> Result<usize, Error> {
    let rows = tx.query("SELECT count(*) FROM breakers WHERE org_id = $1", &vals![org.as_str()]).await?;
    let counted = rows.into_iter().next().map(|row| Columns::of(row).int()).transpose()?;
    Ok(counted.and_then(|counted| usize::try_from(counted).ok()).unwrap_or(0))
}

/// A target of which no failure is known.
fn unbroken(key: &BreakerKey, now: Timestamp) -> Breaker {
    let (key, reason) = (key.as_str().to_owned(), String::new());
    Breaker { key, state: BreakerState::Closed, failures: 0, opened: 0, reason, since: now, until: now }
}

/// The first time for a little, each further time for twice as long.
fn open_seconds(opened: u32) -> u64 {
    (BREAKER_OPEN_SECONDS << opened.saturating_sub(1).min(16)).min(BREAKER_OPEN_SECONDS_MAX)
}

fn tell(store: &Store, tx: &mut Tx, org: &OrgId, name: &'static str, key: &str, reason: &str) {
    let id = EventId::new(tx.now(), random_bytes(&*store.random));
    let body = json!({ "key": key, "reason": reason }).to_string();
    insert_event(tx, org, &EventDraft { id, name, key: key.to_owned(), body }, None);
}

fn read_breaker(row: Row) -> Result<Breaker, Error> {
    let mut columns = Columns::of(row);
    let count = |number: i64| u32::try_from(number).unwrap_or(u32::MAX);
    Ok(Breaker {
        key: columns.text()?,
        state: columns.parsed(BreakerState::parse)?,
        failures: count(columns.int()?),
        opened: count(columns.int()?),
        reason: columns.text()?,
        since: columns.time()?,
        until: columns.time()?,
    })
}
