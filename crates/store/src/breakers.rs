//! Circuit breakers. They are kept in the database, so that all servers agree and a restart forgets nothing.

use crate::db::{Columns, Row, Tx, all, count, only, vals};
use crate::events::tell;
use crate::limits::{BREAKER_FORGOTTEN_SECONDS, BREAKER_OPEN_SECONDS, BREAKER_OPEN_SECONDS_MAX, BREAKERS_WITH_LABELS_MAX};
use crate::{Error, Store};
use countersign_core::breaker::{Breaker, BreakerKey, BreakerState, CountedFailure, FailureRate, LetThrough};
use countersign_core::limits::{BREAKER_FAILURES_MAX, LISTING_RETRY_SECONDS};
use countersign_core::ports::Breakers;
use countersign_core::{Future, OrgId, SourceId, Timestamp, source};
use serde_json::json;
use std::sync::Arc;

macro_rules! select_breaker {
    () => {
        "SELECT key, state, failures, opened, reason, since, until FROM breakers WHERE org_id = $1"
    };
}

impl Breakers for Store {
    fn list_breakers<'a>(&'a self, org: &'a OrgId) -> Future<'a, Result<Arc<Vec<Breaker>>, Error>> {
        Box::pin(async move {
            let sql = concat!(select_breaker!(), " ORDER BY key");
            self.db.read_remembered(org, sql, &vals![org.as_str()], |rows| all(rows, read_breaker)).await
        })
    }

    /// Counts a failure. The breaker opens when there are too many in a row, or lately; if the probe call fails, it opens again, for longer. Any other failure
    /// while the breaker is open comes from a call that began before, or that a person approved: it is counted, but changes no time.
    fn break_once<'a>(&'a self, org: &'a OrgId, key: &'a BreakerKey, failure: CountedFailure<'a>) -> Future<'a, Result<(), Error>> {
        let CountedFailure { code, let_through, rate } = failure;
        let (store, org, key, reason) = (self.clone(), org.clone(), key.clone(), code.to_owned());
        Box::pin(self.db.write(org.clone(), move |tx| {
                Box::pin(async move {
                    let now = tx.now();
                    let known = find(tx, &org, key.as_str()).await?;
                    if known.is_none() && key.is_labelled() && !has_room(tx, &org).await? {
                        return Ok(());
                    }
                    let known = known.unwrap_or_else(|| unbroken(&key, now));
                    let failures = known.failures.saturating_add(1);
                    let opens = match known.state {
                        BreakerState::Closed => failures >= BREAKER_FAILURES_MAX || rate == FailureRate::TooHigh,
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
                        tell_of(&store, tx, &org, "breaker.opened", key.as_str(), &reason).await?;
                    }
                    Ok(())
                })
        }))
    }

    fn close_breaker<'a>(&'a self, org: &'a OrgId, key: &'a BreakerKey) -> Future<'a, Result<(), Error>> {
        Box::pin(async move { Self::close_breaker(self, org, key.as_str()).await.map(|_| ()) })
    }

    fn claim_probe<'a>(&'a self, org: &'a OrgId, key: &'a BreakerKey, lease_seconds: u64) -> Future<'a, Result<bool, Error>> {
        let (store, org, key) = (self.clone(), org.clone(), key.clone());
        Box::pin(self.db.write(org.clone(), move |tx| {
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
                    tell_of(&store, tx, &org, "breaker.half_opened", key.as_str(), "").await?;
                }
                Ok(claimed == 1)
            })
        }))
    }
}

impl Store {
    /// Closes the breaker after a success and forgets its failures. Returns whether there was one.
    pub async fn close_breaker(&self, org: &OrgId, key: &str) -> Result<bool, Error> {
        let (store, org, key) = (self.clone(), org.clone(), key.to_owned());
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let Some(known) = find(tx, &org, &key).await? else {
                        return Ok(false);
                    };
                    tx.exec("DELETE FROM breakers WHERE org_id = $1 AND key = $2", &vals![org.as_str(), key.as_str()]).await?;
                    if known.state != BreakerState::Closed {
                        tell_of(&store, tx, &org, "breaker.closed", &key, &known.reason).await?;
                    }
                    Ok(true)
                })
            })
            .await
    }

    /// Removes closed breakers that have not failed for a long time. An open one stays: its probe call decides.
    pub async fn forget_breakers(&self, org: &OrgId) -> Result<(), Error> {
        let org = org.clone();
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let long_ago = tx.now().minus_seconds(BREAKER_FORGOTTEN_SECONDS);
                    tx.exec("DELETE FROM breakers WHERE org_id = $1 AND state = 'closed' AND until <= $2", &vals![org.as_str(), long_ago])
                        .await?;
                    Ok(())
                })
            })
            .await
    }
}

/// Keeps a source that fails to list its actions among the failing targets, under its name, until it lists them again. No call is counted
/// under the name of a source alone, so this stops none.
pub(crate) async fn note_source(store: &Store, org: &OrgId, source: &SourceId, failed: Option<&source::Error>) -> Result<(), Error> {
    let is_noted = store.list_breakers(org).await?.iter().any(|known| known.key == source.as_str());
    if is_noted == failed.is_some() {
        return Ok(());
    }
    let (own, org, key) = (store.clone(), org.clone(), source.to_string());
    let failed = failed.map(|error| (error.code(), error.to_string()));
    store
        .db
        .write(org.clone(), move |tx| {
            Box::pin(async move {
                let (now, is_noted) = (tx.now(), find(tx, &org, &key).await?.is_some());
                match failed {
                    Some((code, error)) if !is_noted => {
                        tx.exec(
                            "INSERT INTO breakers (org_id, key, state, failures, opened, reason, since, until)
                             VALUES ($1, $2, 'open', 1, 1, $3, $4, $5)",
                            &vals![org.as_str(), key.as_str(), code, now, now.plus_seconds(LISTING_RETRY_SECONDS)],
                        )
                        .await?;
                        let body = json!({ "source": key, "error": error }).to_string();
                        tell(&own, tx, &org, "source.unavailable", key, body).await
                    }
                    None if is_noted => {
                        tx.exec("DELETE FROM breakers WHERE org_id = $1 AND key = $2", &vals![org.as_str(), key.as_str()]).await?;
                        let body = json!({ "source": key }).to_string();
                        tell(&own, tx, &org, "source.available", key, body).await
                    }
                    Some(_) | None => Ok(()),
                }
            })
        })
        .await
}

async fn find(tx: &mut Tx, org: &OrgId, key: &str) -> Result<Option<Breaker>, Error> {
    let rows = tx.query_locked(concat!(select_breaker!(), " AND key = $2"), &vals![org.as_str(), key]).await?;
    only(rows, read_breaker)
}

async fn has_room(tx: &mut Tx, org: &OrgId) -> Result<bool, Error> {
    let known = count(tx.query("SELECT count(*) FROM breakers WHERE org_id = $1", &vals![org.as_str()]).await?)?;
    Ok(usize::try_from(known).is_ok_and(|known| known < BREAKERS_WITH_LABELS_MAX))
}

/// The breaker of a target with no known failure.
fn unbroken(key: &BreakerKey, now: Timestamp) -> Breaker {
    let (key, reason) = (key.as_str().to_owned(), String::new());
    Breaker { key, state: BreakerState::Closed, failures: 0, opened: 0, reason, since: now, until: now }
}

/// How long the breaker stays open: short the first time, and twice as long each further time, up to a maximum.
fn open_seconds(opened: u32) -> u64 {
    (BREAKER_OPEN_SECONDS << opened.saturating_sub(1).min(16)).min(BREAKER_OPEN_SECONDS_MAX)
}

async fn tell_of(store: &Store, tx: &mut Tx, org: &OrgId, name: &'static str, key: &str, reason: &str) -> Result<(), Error> {
    let body = json!({ "key": key, "reason": reason }).to_string();
    tell(store, tx, org, name, key.to_owned(), body).await
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
