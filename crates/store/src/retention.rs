//! What an org no longer wants to keep: old calls and events go, and the texts of ended calls become digests where a space wants that. The
//! audit log is never cut, so every receipt stays and verifies.

use crate::db::{Columns, Row, Tx, all, only, to_json, vals};
use crate::invocations::{read_invocation, select_invocation};
use crate::rules::{self, RuleEvent};
use crate::{Error, Store};
use countersign_core::limits::{DIGEST_AFTER_SECONDS, FORGET_ROWS};
use countersign_core::retention::Retention;
use countersign_core::{Digest, Invocation, OrgId, PrincipalId, SpaceId, Timestamp};
use receipt::body::RuleChange;
use receipt::entry::Entry;
use std::collections::BTreeMap;

/// What was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forgotten {
    pub invocations: u64,
    pub events: u64,
}

const SECONDS_PER_DAY: u64 = 24 * 60 * 60;

impl Store {
    pub async fn find_retention(&self, org: &OrgId) -> Result<Retention, Error> {
        let rows = self.db.read("SELECT retention FROM orgs WHERE org_id = $1", &vals![org.as_str()]).await?;
        only(rows, |row| Columns::of(row).json()).map(Option::unwrap_or_default)
    }

    /// Sets how long the org keeps what it has, and signs that into its audit log.
    pub async fn set_retention(&self, org: &OrgId, retention: Retention, by: &PrincipalId) -> Result<Retention, Error> {
        let (store, org, by) = (self.clone(), org.clone(), by.clone());
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let sql = "UPDATE orgs SET retention = $1 WHERE org_id = $2 AND retention <> $1";
                    if tx.exec(sql, &vals![to_json(&retention)?, org.as_str()]).await? == 1 {
                        let told = RuleEvent { name: "retention.set", key: org.to_string() };
                        rules::record(&store, tx, &org, Some(by), RuleChange::RetentionSet { retention }, told).await?;
                    }
                    Ok(retention)
                })
            })
            .await
    }

    /// Removes calls and events that the org keeps no longer, up to `FORGET_ROWS` of each. The newest event stays: streams go on from it.
    pub async fn forget_old(&self, org: &OrgId) -> Result<Forgotten, Error> {
        let retention = self.find_retention(org).await?;
        if retention.receipts_days.is_none() && retention.events_days.is_none() {
            return Ok(Forgotten::default());
        }
        let org = org.clone();
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let before = |days: Option<u32>, now: Timestamp| Some(now.minus_seconds(u64::from(days?) * SECONDS_PER_DAY));
                    let mut forgotten = Forgotten::default();
                    if let Some(then) = before(retention.receipts_days, tx.now()) {
                        forgotten.invocations = forget_invocations(tx, &org, then).await?;
                    }
                    if let Some(then) = before(retention.events_days, tx.now()) {
                        forgotten.events = forget_events(tx, &org, then).await?;
                    }
                    Ok(forgotten)
                })
            })
            .await
    }

    /// In spaces that keep digests only: replaces the texts of calls that ended more than an hour ago, so that whoever waits for a result
    /// has had it. Returns how many calls were changed.
    pub async fn digest_ended(&self, org: &OrgId) -> Result<u64, Error> {
        let sql = "SELECT id, digested_seq FROM spaces WHERE org_id = $1 AND keeps = 'digests'";
        let read = |row: Row| {
            let mut columns = Columns::of(row);
            Ok((columns.id::<SpaceId>()?, columns.int()?))
        };
        let then = self.db.now().await?.minus_seconds(DIGEST_AFTER_SECONDS);
        let mut changed = 0;
        for (space, mut after) in all(self.db.read(sql, &vals![org.as_str()]).await?, read)? {
            while let Some((seq, digested)) = self.digest_some(org, &space, after, then).await? {
                (after, changed) = (seq, changed + digested);
            }
        }
        Ok(changed)
    }

    /// Goes through the space's next calls after this receipt. `None` if there is none that ended before `then`.
    async fn digest_some(&self, org: &OrgId, space: &SpaceId, after: i64, then: Timestamp) -> Result<Option<(i64, u64)>, Error> {
        let next = "space_id = $2 AND receipt_seq > $3 ORDER BY receipt_seq LIMIT $4";
        let params = vals![org.as_str(), space.as_str(), after, i64::from(FORGET_ROWS)];
        let ended = all(self.db.read(&format!("{} AND {next}", select_invocation!()), &params).await?, read_invocation)?;
        let ended: Vec<_> = ended.into_iter().take_while(|call| call.ended_at.is_some_and(|at| at < then)).collect();
        let Some(last) = ended.last().and_then(|call| call.receipt.as_ref()).map(|receipt| receipt.seq as i64) else {
            return Ok(None);
        };
        let sql = format!(
            "SELECT seq, payload FROM entries WHERE org_id = $1
             AND seq IN (SELECT receipt_seq FROM (SELECT receipt_seq FROM invocations WHERE org_id = $1 AND {next}) AS next)"
        );
        let outputs: BTreeMap<_, _> = all(self.db.read(&sql, &params).await?, read_outputs)?.into_iter().collect();
        let mut bodies = Vec::new();
        for call in ended {
            let seq = call.receipt.as_ref().map_or(0, |receipt| receipt.seq as i64);
            let digests = call.clone().with_digests_only(outputs.get(&seq).copied().flatten());
            if digests != call {
                bodies.push((digests.id.clone(), to_json(&Invocation { receipt: None, ..digests })?));
            }
        }
        let (org, space, changed) = (org.clone(), space.clone(), bodies.len() as u64);
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    for (id, body) in bodies {
                        let sql = "UPDATE invocations SET body = $1 WHERE org_id = $2 AND id = $3 AND receipt_seq IS NOT NULL";
                        tx.exec(sql, &vals![body, org.as_str(), id.as_str()]).await?;
                    }
                    let sql = "UPDATE spaces SET digested_seq = $1 WHERE org_id = $2 AND id = $3 AND digested_seq < $1";
                    tx.exec(sql, &vals![last, org.as_str(), space.as_str()]).await.map(|_| ())
                })
            })
            .await?;
        Ok(Some((last, changed)))
    }
}

/// Only from the oldest on, in the order in which they were committed: a reader, or a verifier, can then tell what was forgotten from what
/// is missing.
async fn forget_events(tx: &mut Tx, org: &OrgId, then: Timestamp) -> Result<u64, Error> {
    let newest = "(SELECT last_event FROM logs WHERE org_id = $1)";
    let sql = format!(
        "DELETE FROM events WHERE org_id = $1 AND seq < {newest} AND seq < (SELECT min(seq) FROM events WHERE org_id = $1) + $2
         AND seq < coalesce((SELECT seq FROM events WHERE org_id = $1 AND at >= $3 ORDER BY seq LIMIT 1), {newest})"
    );
    tx.exec(&sql, &vals![org.as_str(), i64::from(FORGET_ROWS), then]).await
}

async fn forget_invocations(tx: &mut Tx, org: &OrgId, then: Timestamp) -> Result<u64, Error> {
    let old = "SELECT id FROM invocations WHERE org_id = $1 AND ended_at < $2 AND receipt_seq IS NOT NULL ORDER BY ended_at, id LIMIT $3";
    let params = vals![org.as_str(), then, i64::from(FORGET_ROWS)];
    for table in ["attempts", "approvals"] {
        tx.exec(&format!("DELETE FROM {table} WHERE org_id = $1 AND invocation_id IN ({old})"), &params).await?;
    }
    tx.exec(&format!("DELETE FROM invocations WHERE org_id = $1 AND id IN ({old})"), &params).await
}

/// The digest of a call's output, from its receipt.
fn read_outputs(row: Row) -> Result<(i64, Option<Digest>), Error> {
    let mut columns = Columns::of(row);
    let (seq, payload) = (columns.int()?, columns.text()?);
    let entry = Entry::parse(&payload).map_err(|error| Error::Corrupt { message: error.to_string() })?;
    let digest = entry.body.pointer("/outputs/digest").and_then(serde_json::Value::as_str).and_then(Digest::parse);
    Ok((seq, digest))
}
