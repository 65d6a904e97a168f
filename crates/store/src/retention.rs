//! What an org no longer wants to keep: old calls, batches, runs and events go, and the texts of what has ended become digests where a space
//! wants that. The audit log is never cut, so every receipt stays and verifies.

use crate::batches::{SELECT_BATCH, read_batch};
use crate::db::{Columns, Row, Tx, Val, all, only, to_json, vals};
use crate::invocations::table::{read_invocation, select_invocation};
use crate::limits::{DIGEST_AFTER_SECONDS, FORGET_ROWS, FORGET_WRITES};
use crate::rule_log::{self, RuleEvent};
use crate::{Error, Store};
use countersign_core::invocation::{NOT_KEPT, ReceiptRef};
use countersign_core::retention::Retention;
use countersign_core::{Batch, Digest, Invocation, OrgId, PrincipalId, RunId, SpaceId, Timestamp};
use receipt::body::RuleChange;
use receipt::entry::Entry;
use std::collections::BTreeMap;

/// What was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forgotten {
    pub invocations: u64,
    pub batches: u64,
    pub runs: u64,
    pub events: u64,
}

/// The calls of a space whose receipts stand after one position of the log, up to another.
const ENDED: &str = "SELECT id FROM invocations WHERE org_id = $1 AND space_id = $2 AND receipt_seq > $3 AND receipt_seq <= $4";
const SELECT_RETENTION: &str = "SELECT retention FROM orgs WHERE org_id = $1";

/// The oldest event that may go: the newest one stays.
const OLDEST_EVENT: &str =
    "SELECT at FROM events WHERE org_id = $1 AND seq < (SELECT last_event FROM logs WHERE logs.org_id = $1) ORDER BY seq LIMIT 1";

/// If nothing was recorded for so long, a time is signed from which events are counted back.
const SILENT_SECONDS: u64 = 24 * 60 * 60;

impl Store {
    pub async fn find_retention(&self, org: &OrgId) -> Result<Retention, Error> {
        let rows = self.db.read(SELECT_RETENTION, &vals![org.as_str()]).await?;
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
                        rule_log::record(&store, tx, &org, Some(by), RuleChange::RetentionSet { retention }, told).await?;
                    }
                    Ok(retention)
                })
            })
            .await
    }

    /// Removes what the org keeps no longer, in writes of up to `FORGET_ROWS` of each kind, and up to `FORGET_WRITES` of them. The newest event
    /// stays: streams go on from it.
    pub async fn forget_old(&self, org: &OrgId) -> Result<Forgotten, Error> {
        let mut forgotten = Forgotten::default();
        let retention = self.find_retention(org).await?;
        if retention.receipts_days.is_none() && !self.has_old_events(org, &retention).await? {
            return Ok(forgotten);
        }
        for _ in 0..FORGET_WRITES {
            let some = self.forget_some(org).await?;
            forgotten.invocations += some.invocations;
            forgotten.batches += some.batches;
            forgotten.runs += some.runs;
            forgotten.events += some.events;
            if [some.invocations, some.batches, some.runs, some.events].into_iter().all(|rows| rows < u64::from(FORGET_ROWS)) {
                break;
            }
        }
        Ok(forgotten)
    }

    /// Whether a sweep may find an event to forget. It is asked before a write, because most sweeps find none.
    async fn has_old_events(&self, org: &OrgId, retention: &Retention) -> Result<bool, Error> {
        let from = retention.events_from(self.db.now().await?);
        is_before(self.db.read(OLDEST_EVENT, &vals![org.as_str()]).await?, from)
    }

    async fn forget_some(&self, org: &OrgId) -> Result<Forgotten, Error> {
        let org = org.clone();
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    // Read in this write: nothing goes by a retention that is no longer in force.
                    let rows = tx.query(SELECT_RETENTION, &vals![org.as_str()]).await?;
                    let retention: Retention = only(rows, |row| Columns::of(row).json())?.unwrap_or_default();
                    let mut forgotten = Forgotten::default();
                    if let Some(then) = retention.calls_from(tx.now()) {
                        forgotten.invocations = forget_invocations(tx, &org, then).await?;
                        forgotten.batches = forget_batches(tx, &org, then).await?;
                        forgotten.runs = forget_runs(tx, &org, then).await?;
                    }
                    let newest = newest_entry_at(tx, &org).await?.map(|at| at.min(tx.now()));
                    if let Some(then) = newest.map(|newest| retention.events_from(newest)) {
                        forgotten.events = forget_events(tx, &org, then).await?;
                    }
                    let is_silent = newest.is_none_or(|newest| newest < tx.now().minus_seconds(SILENT_SECONDS));
                    if is_silent && is_before(tx.query(OLDEST_EVENT, &vals![org.as_str()]).await?, retention.events_from(tx.now()))? {
                        rule_log::repeat(tx, &org, RuleChange::RetentionSet { retention }).await?;
                    }
                    Ok(forgotten)
                })
            })
            .await
    }

    /// In spaces that keep digests only: replaces the texts of calls and batches that ended more than an hour ago, and takes out those of runs, so
    /// that whoever waits for a result has had it. Returns how many were changed.
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
            changed += self.forget_texts_of_runs(org, &space, then).await?;
        }
        Ok(changed)
    }

    /// Takes the texts out of the space's runs that ended before `then`, run by run: each may have many long outputs. Their digests are in the
    /// receipts of the calls. Returns how many there were.
    async fn forget_texts_of_runs(&self, org: &OrgId, space: &SpaceId, then: Timestamp) -> Result<u64, Error> {
        let sql = "SELECT id FROM runs WHERE org_id = $1 AND space_id = $2 AND ended_at < $3 AND sealed_inputs IS NOT NULL
                   ORDER BY ended_at LIMIT $4";
        let params = vals![org.as_str(), space.as_str(), then, i64::from(FORGET_ROWS)];
        let mut changed = 0;
        loop {
            let ended: Vec<RunId> = all(self.db.read(sql, &params).await?, |row| Columns::of(row).id())?;
            if ended.is_empty() {
                return Ok(changed);
            }
            for run in &ended {
                self.forget_texts(org, run).await?;
                changed += 1;
            }
        }
    }

    /// Goes through the space's next calls and batches after this receipt. `None` if there is none that ended before `then`.
    async fn digest_some(&self, org: &OrgId, space: &SpaceId, after: i64, then: Timestamp) -> Result<Option<(i64, u64)>, Error> {
        let next = "receipt_seq > $3 ORDER BY receipt_seq LIMIT $4";
        let params = vals![org.as_str(), space.as_str(), after, i64::from(FORGET_ROWS)];
        let sql = format!("{} AND space_id = $2 AND {next}", select_invocation!());
        let calls = all(self.db.read(&sql, &params).await?, read_invocation)?;
        let in_space = "session_id IN (SELECT id FROM sessions WHERE org_id = $1 AND space_id = $2)";
        let batches = all(self.db.read(&format!("{SELECT_BATCH} AND {in_space} AND {next}"), &params).await?, read_batch)?;
        let ends_of_calls: Vec<_> = calls.iter().map(|call| (seq_of(call.receipt.as_ref()), call.ended_at)).collect();
        let ends_of_batches: Vec<_> = batches.iter().map(|batch| (seq_of(batch.receipt.as_ref()), batch.ended_at)).collect();
        let Some(last) = last_ended([&ends_of_calls, &ends_of_batches], then) else {
            return Ok(None);
        };
        let range = vals![org.as_str(), space.as_str(), after, last];
        let receipts = format!("SELECT receipt_seq FROM invocations WHERE org_id = $1 AND id IN ({ENDED})");
        let sql = format!("SELECT seq, payload FROM entries WHERE org_id = $1 AND seq IN ({receipts})");
        let outputs: BTreeMap<_, _> = all(self.db.read(&sql, &range).await?, read_outputs)?.into_iter().collect();
        let mut bodies = Vec::new();
        for call in calls {
            let seq = seq_of(call.receipt.as_ref());
            let digests = call.clone().with_digests_only(outputs.get(&seq).copied().flatten());
            if seq <= last && digests != call {
                bodies.push(("invocations", digests.id.to_string(), to_json(&Invocation { receipt: None, ..digests })?));
            }
        }
        for batch in batches {
            let seq = seq_of(batch.receipt.as_ref());
            let digests = batch.clone().with_digests_only();
            if seq <= last && digests != batch {
                bodies.push(("batches", digests.id.to_string(), to_json(&Batch { receipt: None, ..digests })?));
            }
        }
        let (org, space, changed) = (org.clone(), space.clone(), bodies.len() as u64);
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    for (table, id, body) in bodies {
                        let sql = format!("UPDATE {table} SET body = $1 WHERE org_id = $2 AND id = $3 AND receipt_seq IS NOT NULL");
                        tx.exec(&sql, &vals![body, org.as_str(), id]).await?;
                    }
                    clear_beside(tx, &range).await?;
                    let sql = "UPDATE spaces SET digested_seq = $1 WHERE org_id = $2 AND id = $3 AND digested_seq < $1";
                    tx.exec(sql, &vals![last, org.as_str(), space.as_str()]).await.map(|_| ())
                })
            })
            .await?;
        Ok(Some((last, changed)))
    }
}

/// Whether the row has an earlier time.
fn is_before(rows: Vec<Row>, time: Timestamp) -> Result<bool, Error> {
    Ok(only(rows, |row| Columns::of(row).time())?.is_some_and(|at| at < time))
}

fn seq_of(receipt: Option<&ReceiptRef>) -> i64 {
    receipt.map_or(0, |receipt| receipt.seq as i64)
}

/// The receipt up to which everything ended before `then`: calls and batches, each with its position and end, in the order of the log.
fn last_ended(read: [&[(i64, Option<Timestamp>)]; 2], then: Timestamp) -> Option<i64> {
    // Where as many were read as may be, more of them may follow.
    let full = read.into_iter().filter(|ends| ends.len() >= FORGET_ROWS as usize);
    let reached = full.filter_map(|ends| ends.last()).map(|(seq, _)| *seq).min();
    let ends = || read.into_iter().flatten().copied();
    let young = ends().filter(|(_, at)| at.is_none_or(|at| at >= then)).map(|(seq, _)| seq).min();
    let is_old = |seq: &i64| reached.is_none_or(|reached| *seq <= reached) && young.is_none_or(|young| *seq < young);
    ends().map(|(seq, _)| seq).filter(is_old).max()
}

/// Takes out the texts of ended calls that stand in rows of their own: reasons of answers, notifications, and why a notice could not be sent.
async fn clear_beside(tx: &mut Tx, range: &[Val]) -> Result<(), Error> {
    // A notice that is still on its way is given up with its last problem.
    for clear in ["approvals SET reason = NULL WHERE", "deliveries SET problem = NULL WHERE state <> 'waiting' AND"] {
        tx.exec(&format!("UPDATE {clear} org_id = $1 AND invocation_id IN ({ENDED})"), range).await?;
    }
    let sql = format!("UPDATE notifications SET title = '{NOT_KEPT}', body = '' WHERE org_id = $1 AND invocation_id IN ({ENDED})");
    tx.exec(&sql, range).await.map(|_| ())
}

/// The time of the newest entry of the log that is committed.
async fn newest_entry_at(tx: &mut Tx, org: &OrgId) -> Result<Option<Timestamp>, Error> {
    let rows = tx.query("SELECT payload FROM entries WHERE org_id = $1 ORDER BY seq DESC LIMIT 1", &vals![org.as_str()]).await?;
    only(rows, |row| Ok(entry_of(&Columns::of(row).text()?)?.header.at))
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
    // What is kept sealed in quarantine may yet be released, and needs its call.
    let old = "SELECT id FROM invocations WHERE org_id = $1 AND ended_at < $2 AND receipt_seq IS NOT NULL AND NOT EXISTS (
                 SELECT 1 FROM quarantines WHERE org_id = $1 AND invocation_id = invocations.id AND sealed IS NOT NULL
               ) ORDER BY ended_at, id LIMIT $3";
    let params = vals![org.as_str(), then, i64::from(FORGET_ROWS)];
    for table in ["attempts", "approvals", "notifications", "deliveries", "quarantines", "answered_failures"] {
        tx.exec(&format!("DELETE FROM {table} WHERE org_id = $1 AND invocation_id IN ({old})"), &params).await?;
    }
    // What the server said itself is as old as what it was about.
    let said = "DELETE FROM notifications WHERE org_id = $1 AND invocation_id IS NULL AND created_at < $2";
    tx.exec(said, &vals![org.as_str(), then]).await?;
    tx.exec(&format!("DELETE FROM invocations WHERE org_id = $1 AND id IN ({old})"), &params).await
}

/// A batch ends after its parts, so it goes after them.
async fn forget_batches(tx: &mut Tx, org: &OrgId, then: Timestamp) -> Result<u64, Error> {
    let old = "SELECT id FROM batches WHERE org_id = $1 AND touched_at < $2 AND receipt_seq IS NOT NULL ORDER BY touched_at, id LIMIT $3";
    let params = vals![org.as_str(), then, i64::from(FORGET_ROWS)];
    tx.exec(&format!("DELETE FROM batches WHERE org_id = $1 AND id IN ({old})"), &params).await
}

/// A run ends after its calls, so it goes after them; with it go its steps, what it has spent, and its session, in which nothing else was called.
async fn forget_runs(tx: &mut Tx, org: &OrgId, then: Timestamp) -> Result<u64, Error> {
    let old = |column: &str| {
        format!(
            "SELECT {column} FROM runs WHERE org_id = $1 AND ended_at < $2 AND NOT EXISTS (
               SELECT 1 FROM invocations WHERE org_id = $1 AND session_id = runs.session_id
             ) ORDER BY ended_at, id LIMIT $3"
        )
    };
    let params = vals![org.as_str(), then, i64::from(FORGET_ROWS)];
    // What servers remember of sessions is void after every write of theirs, also after one that finds none.
    if tx.query(&old("id"), &params).await?.is_empty() {
        return Ok(0);
    }
    for (table, column, of_run) in [
        ("run_steps", "run_id", "id"),
        ("trigger_payloads", "run_id", "id"),
        ("budget_entries", "run_id", "id"),
        ("session_labels", "session_id", "session_id"),
        ("sessions", "id", "session_id"),
    ] {
        tx.exec(&format!("DELETE FROM {table} WHERE org_id = $1 AND {column} IN ({})", old(of_run)), &params).await?;
    }
    tx.exec(&format!("DELETE FROM runs WHERE org_id = $1 AND id IN ({})", old("id")), &params).await
}

/// The digest of a call's output, from its receipt.
fn read_outputs(row: Row) -> Result<(i64, Option<Digest>), Error> {
    let mut columns = Columns::of(row);
    let (seq, payload) = (columns.int()?, columns.text()?);
    let digest = entry_of(&payload)?.body.pointer("/outputs/digest").and_then(serde_json::Value::as_str).and_then(Digest::parse);
    Ok((seq, digest))
}

fn entry_of(payload: &str) -> Result<Entry, Error> {
    Entry::parse(payload).map_err(|error| Error::Corrupt { message: error.to_string() })
}
