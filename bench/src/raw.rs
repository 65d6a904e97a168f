//! The raw store: writes the same rows with plain SQL, one writer, the same durability and the same group commit, but without the product.
//! The rows are real ones, sampled from a server that made them; only their ids and positions change from call to call.

mod postgres;
mod sqlite;

use postgres::Postgres;
use sqlite::Sqlite;

use crate::child::Call;
use crate::cpu::Watched;
use crate::load::{Caller, Time, drive};
use crate::place::Database;
use crate::stats::Window;
use anyhow::{Context, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{mpsc, oneshot};

/// Writes taken into one commit, as many as the product takes on PostgreSQL.
const BATCH_MAX: usize = 256;
const QUEUE_MAX: usize = 4_096;

/// One transaction of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A read's one transaction: the invocation, its receipt and its event.
    Ended,
    /// A write's first: the invocation, its attempt and its intent.
    Begun,
    /// A write's second: both updated, the receipt and the event.
    Finished,
}

/// A transaction that waits for its commit. Its ids are made from `call`.
struct Queued {
    step: Step,
    call: u64,
    done: oneshot::Sender<Result<(), String>>,
}

/// Rows of one call of each kind, sampled from a server.
#[derive(Clone, Debug)]
struct Samples {
    read: Sample,
    write: Sample,
    head: Head,
}

/// The content of the rows of one call.
#[derive(Clone, Debug)]
struct Sample {
    org: String,
    session: String,
    space: String,
    action: String,
    status: String,
    body: String,
    /// The signed entries in order; the last one is the receipt.
    entries: Vec<Entry>,
    event: String,
    event_body: String,
}

#[derive(Clone, Debug)]
struct Entry {
    kind: String,
    payload: String,
    leaf: Vec<u8>,
    key: String,
    signature: Vec<u8>,
}

/// The row of the audit log's head, updated once per commit.
#[derive(Clone, Debug)]
struct Head {
    prev: String,
    frontier: Vec<u8>,
    key: String,
    checkpoint_key: String,
}

impl Samples {
    const fn of(&self, step: Step) -> &Sample {
        match step {
            Step::Ended => &self.read,
            Step::Begun | Step::Finished => &self.write,
        }
    }
}

impl Sample {
    fn receipt(&self) -> Result<&Entry> {
        self.entries.last().context("the sampled call has no receipt")
    }

    fn intent(&self) -> Result<&Entry> {
        self.entries.first().context("the sampled call has no intent")
    }
}

/// The raw store of either engine.
pub(crate) struct Raw {
    pub(crate) rows: Rows,
    watched: Watched,
    /// A payload of an entry, as it is signed.
    pub(crate) payload: String,
}

/// The queue of the raw writer.
#[derive(Clone)]
pub(crate) struct Rows {
    queue: mpsc::Sender<Queued>,
    calls: Arc<AtomicU64>,
}

struct RawCaller {
    rows: Rows,
    call: Call,
}

impl Raw {
    /// Starts the raw writer on a database that a server created and no longer uses. `parent` is PostgreSQL's first process, if known.
    pub(crate) async fn start(sampled: &Database, parent: Option<u32>) -> Result<Self> {
        match &sampled.url {
            None => Sqlite::start(&sampled.data.join("countersign.db")).await,
            Some(url) => Postgres::start(url, parent).await,
        }
    }

    pub(crate) async fn measure(&self, call: Call, callers: usize, time: Time) -> Result<Window> {
        let callers = (0..callers).map(|_| RawCaller { rows: self.rows.clone(), call }).collect();
        drive(callers, time, &self.watched).await
    }
}

impl Rows {
    /// `size` is the size of the log, which includes rows written here before; so no number is used twice.
    fn new(queue: mpsc::Sender<Queued>, size: i64) -> Self {
        Self { queue, calls: Arc::new(AtomicU64::new(size.unsigned_abs())) }
    }

    /// A number that no two calls share.
    pub(crate) fn next_call(&self) -> u64 {
        self.calls.fetch_add(1, Ordering::Relaxed)
    }

    /// Queues a transaction and waits for its commit.
    pub(crate) async fn submit(&self, step: Step, call: u64) -> Result<()> {
        let (done, answer) = oneshot::channel();
        self.queue.send(Queued { step, call, done }).await.ok().context("the raw writer ended")?;
        answer.await?.map_err(anyhow::Error::msg)
    }
}

impl Caller for RawCaller {
    async fn call(&mut self) -> Result<()> {
        let number = self.rows.next_call();
        match self.call {
            Call::Read => self.rows.submit(Step::Ended, number).await,
            Call::Write => {
                self.rows.submit(Step::Begun, number).await?;
                self.rows.submit(Step::Finished, number).await
            }
        }
    }
}

/// An id of the right length. It sorts by call number, as real ids sort by creation time.
fn id(prefix: &str, call: u64) -> String {
    format!("{prefix}_0raw{call:022}")
}

/// The number of a call's event. The server's own events have lower ones.
const fn event_seq(call: u64) -> i64 {
    1_000_000_000 + call as i64
}

const INSERT_INVOCATION: &str =
    "INSERT INTO invocations (org_id, id, session_id, space_id, action, tier, status, expires_at, sealed_params, body, receipt_id, receipt_seq,
       trace_id, ended_at)
     VALUES ($1, $2, $3, $4, $5, 'R2', $6, NULL, NULL, $7, $8, $9, $2, 1800000000000000)";
const UPDATE_INVOCATION: &str =
    "UPDATE invocations SET status = $1, body = $2, receipt_id = $3, receipt_seq = $4, sealed_params = NULL WHERE org_id = $5 AND id = $6";
const INSERT_ATTEMPT: &str = "INSERT INTO attempts (org_id, invocation_id, n, state, intent_at) VALUES ($1, $2, 1, 'dispatched', $3)";
const UPDATE_ATTEMPT: &str =
    "UPDATE attempts SET state = 'outcome', outcome = $1, outcome_at = $2 WHERE org_id = $3 AND invocation_id = $4";
const INSERT_ENTRY: &str = "INSERT INTO entries (org_id, seq, kind, id, invocation_id, payload, leaf, key_id, signature)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
const INSERT_EVENT: &str = "INSERT INTO events (org_id, id, name, key, receipt_id, body, at, seq) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
const UPDATE_HEAD: &str =
    "UPDATE logs SET size = $1, prev = $2, frontier = $3, key_id = $4, checkpoint_key_id = $5, at = $6 WHERE org_id = $7";
/// Any time will do: the content of the rows is never used.
const AT: i64 = 1_800_000_000_000_000;

/// The queries that read the samples. The parameter of this one is the action.
const SELECT_INVOCATION: &str = "SELECT org_id, id, session_id, space_id, action, status, body FROM invocations
     WHERE action = $1 AND status = 'succeeded' ORDER BY id DESC LIMIT 1";
const SELECT_ENTRIES: &str = "SELECT kind, payload, leaf, key_id, signature FROM entries WHERE invocation_id = $1 ORDER BY seq";
const SELECT_EVENT: &str = "SELECT name, body FROM events WHERE key = $1 ORDER BY seq DESC LIMIT 1";
const SELECT_HEAD: &str = "SELECT size, prev, frontier, key_id, checkpoint_key_id FROM logs LIMIT 1";
