//! The raw store on SQLite: one thread and prepared statements; all queued writes go into one transaction.

use super::{
    AT, BATCH_MAX, Entry, Head, INSERT_ATTEMPT, INSERT_ENTRY, INSERT_EVENT, INSERT_INVOCATION, QUEUE_MAX, Queued, Raw, Rows,
    SELECT_ENTRIES, SELECT_EVENT, SELECT_HEAD, SELECT_INVOCATION, Sample, Samples, Step, UPDATE_ATTEMPT, UPDATE_HEAD, UPDATE_INVOCATION,
    event_seq, id,
};
use crate::child::Call;
use crate::cpu::{self, Watched};
use anyhow::{Context, Result};
use rusqlite::types::Null;
use rusqlite::{Connection, params};
use std::path::Path;
use tokio::sync::{mpsc, oneshot};

pub(crate) struct Sqlite {
    connection: Connection,
    samples: Samples,
    seq: i64,
}

impl Sqlite {
    /// Starts the raw writer on a database that a server created and no longer uses.
    pub(crate) async fn start(path: &Path) -> Result<Raw> {
        let connection = Connection::open(path)?;
        // The settings of the store: the same durability, the same cache.
        connection.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA busy_timeout = 5000;
             PRAGMA cache_size = -16000; PRAGMA temp_store = MEMORY; PRAGMA wal_autocheckpoint = 4000;",
        )?;
        connection.set_prepared_statement_cache_capacity(64);
        let (seq, head) = connection.query_row(SELECT_HEAD, [], |row| {
            Ok((row.get(0)?, Head { prev: row.get(1)?, frontier: row.get(2)?, key: row.get(3)?, checkpoint_key: row.get(4)? }))
        })?;
        let samples = Samples { read: sample(&connection, Call::Read)?, write: sample(&connection, Call::Write)?, head };
        let payload = samples.read.receipt()?.payload.clone();
        let (queue, waiting) = mpsc::channel(QUEUE_MAX);
        let (told, thread) = oneshot::channel();
        let writer = Self { connection, samples, seq };
        std::thread::Builder::new().name("raw-writer".into()).spawn(move || {
            let _gone = told.send(cpu::this_thread());
            writer.write_all(waiting);
        })?;
        Ok(Raw { rows: Rows::new(queue, seq), watched: Watched::thread(thread.await??), payload })
    }

    fn write_all(mut self, mut waiting: mpsc::Receiver<Queued>) {
        let mut batch = Vec::with_capacity(BATCH_MAX);
        while let Some(first) = waiting.blocking_recv() {
            batch.push(first);
            while batch.len() < BATCH_MAX
                && let Ok(next) = waiting.try_recv()
            {
                batch.push(next);
            }
            let committed = self.commit(&batch).map_err(|error| error.to_string());
            for queued in batch.drain(..) {
                let _gone = queued.done.send(committed.clone());
            }
        }
    }

    fn commit(&mut self, batch: &[Queued]) -> Result<()> {
        self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        for queued in batch {
            self.write(queued.step, queued.call)?;
        }
        let Head { prev, frontier, key, checkpoint_key } = &self.samples.head;
        let org = &self.samples.read.org;
        self.connection.prepare_cached(UPDATE_HEAD)?.execute(params![self.seq, prev, frontier, key, checkpoint_key, AT, org])?;
        self.connection.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }

    fn write(&mut self, step: Step, call: u64) -> Result<()> {
        let Self { connection, samples, seq } = self;
        let Sample { org, session, space, action, status, body, event, event_body, .. } = samples.of(step);
        let invocation = id("inv", call);
        let mut append = |entry: &Entry, id: &str| -> Result<i64> {
            let Entry { kind, payload, leaf, key, signature } = entry;
            connection.prepare_cached(INSERT_ENTRY)?.execute(params![org, *seq, kind, id, invocation, payload, leaf, key, signature])?;
            *seq += 1;
            Ok(*seq - 1)
        };
        let receipt = id("rcp", call);
        match step {
            Step::Ended => {
                let seq = append(samples.of(step).receipt()?, &receipt)?;
                let values = params![org, invocation, session, space, action, status, body, receipt, seq];
                connection.prepare_cached(INSERT_INVOCATION)?.execute(values)?;
            }
            Step::Begun => {
                append(samples.of(step).intent()?, &id("int", call))?;
                let values = params![org, invocation, session, space, action, "running", body, Null, Null];
                connection.prepare_cached(INSERT_INVOCATION)?.execute(values)?;
                connection.prepare_cached(INSERT_ATTEMPT)?.execute(params![org, invocation, AT])?;
            }
            Step::Finished => {
                let seq = append(samples.of(step).receipt()?, &receipt)?;
                connection.prepare_cached(UPDATE_ATTEMPT)?.execute(params![status, AT, org, invocation])?;
                connection.prepare_cached(UPDATE_INVOCATION)?.execute(params![status, body, receipt, seq, org, invocation])?;
            }
        }
        if step != Step::Begun {
            let values = params![org, id("evt", call), event, invocation, receipt, event_body, AT, event_seq(call)];
            connection.prepare_cached(INSERT_EVENT)?.execute(values)?;
        }
        Ok(())
    }
}

fn sample(connection: &Connection, call: Call) -> Result<Sample> {
    let (invocation, mut sample) = connection
        .query_row(SELECT_INVOCATION, [call.action()], |row| {
            let sample = Sample {
                org: row.get(0)?,
                session: row.get(2)?,
                space: row.get(3)?,
                action: row.get(4)?,
                status: row.get(5)?,
                body: row.get(6)?,
                entries: Vec::new(),
                event: String::new(),
                event_body: String::new(),
            };
            Ok((row.get::<_, String>(1)?, sample))
        })
        .with_context(|| format!("no ended call of {}", call.action()))?;
    let mut entries = connection.prepare(SELECT_ENTRIES)?;
    let rows = entries.query_map([&invocation], |row| {
        Ok(Entry { kind: row.get(0)?, payload: row.get(1)?, leaf: row.get(2)?, key: row.get(3)?, signature: row.get(4)? })
    })?;
    sample.entries = rows.collect::<Result<_, _>>()?;
    let event = connection.query_row(SELECT_EVENT, [&invocation], |row| Ok((row.get(0)?, row.get(1)?)));
    (sample.event, sample.event_body) = event.context("the ended call has no event")?;
    Ok(sample)
}
