//! The raw store on PostgreSQL: one connection and prepared statements; all queued writes go into one transaction, sent at once.

use super::{
    AT, BATCH_MAX, Entry, Head, INSERT_ATTEMPT, INSERT_ENTRY, INSERT_EVENT, INSERT_INVOCATION, QUEUE_MAX, Queued, Raw, Rows,
    SELECT_ENTRIES, SELECT_EVENT, SELECT_HEAD, SELECT_INVOCATION, Sample, Samples, Step, UPDATE_ATTEMPT, UPDATE_HEAD, UPDATE_INVOCATION,
    event_seq, id,
};
use crate::child::Call;
use crate::cpu::{self, Watched};
use anyhow::{Context, Result};
use futures_util::future::try_join_all;
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Statement};

pub(crate) struct Postgres {
    client: Client,
    statements: Statements,
    samples: Samples,
    seq: i64,
}

struct Statements {
    insert_invocation: Statement,
    update_invocation: Statement,
    insert_attempt: Statement,
    update_attempt: Statement,
    insert_entry: Statement,
    insert_event: Statement,
    update_head: Statement,
}

/// A value of a row.
type Value = Box<dyn ToSql + Sync + Send>;
/// A statement with its values.
type Row<'a> = (&'a Statement, Vec<Value>);

macro_rules! values {
    ($($value:expr),* $(,)?) => { vec![$(Box::new($value) as Value),*] };
}

impl Postgres {
    /// Starts the raw writer on a database that a server created and no longer uses. `parent` is PostgreSQL's first process, if known.
    pub(crate) async fn start(url: &str, parent: Option<u32>) -> Result<Raw> {
        let (queue, waiting) = mpsc::channel(QUEUE_MAX);
        let (told, started) = oneshot::channel();
        let url = url.to_owned();
        // The connection and the writer share one thread, so that all of their CPU time is read from one thread.
        std::thread::Builder::new().name("raw-writer".into()).spawn(move || {
            let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
            runtime.block_on(async move {
                match Self::connect(&url).await {
                    Ok((writer, payload)) => {
                        let _gone = told.send(cpu::this_thread().map(|thread| (thread, payload, writer.seq)));
                        writer.write_all(waiting).await;
                    }
                    Err(error) => {
                        let _gone = told.send(Err(error));
                    }
                }
            });
        })?;
        let (thread, payload, seq) = started.await??;
        Ok(Raw { rows: Rows::new(queue, seq), watched: Watched::thread(thread).and_children_of(parent), payload })
    }

    async fn connect(url: &str) -> Result<(Self, String)> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(connection);
        let row = client.query_one(SELECT_HEAD, &[]).await?;
        let (seq, head) = (row.get(0), Head { prev: row.get(1), frontier: row.get(2), key: row.get(3), checkpoint_key: row.get(4) });
        let samples = Samples { read: sample(&client, Call::Read).await?, write: sample(&client, Call::Write).await?, head };
        let statements = Statements {
            insert_invocation: client.prepare(INSERT_INVOCATION).await?,
            update_invocation: client.prepare(UPDATE_INVOCATION).await?,
            insert_attempt: client.prepare(INSERT_ATTEMPT).await?,
            update_attempt: client.prepare(UPDATE_ATTEMPT).await?,
            insert_entry: client.prepare(INSERT_ENTRY).await?,
            insert_event: client.prepare(INSERT_EVENT).await?,
            update_head: client.prepare(UPDATE_HEAD).await?,
        };
        let payload = samples.read.receipt()?.payload.clone();
        Ok((Self { client, statements, samples, seq }, payload))
    }

    async fn write_all(mut self, mut waiting: mpsc::Receiver<Queued>) {
        let mut batch = Vec::with_capacity(BATCH_MAX);
        while let Some(first) = waiting.recv().await {
            batch.push(first);
            while batch.len() < BATCH_MAX
                && let Ok(next) = waiting.try_recv()
            {
                batch.push(next);
            }
            let committed = self.commit(&batch).await.map_err(|error| error.to_string());
            for queued in batch.drain(..) {
                let _gone = queued.done.send(committed.clone());
            }
        }
    }

    async fn commit(&mut self, batch: &[Queued]) -> Result<()> {
        let mut seq = self.seq;
        let mut rows = Vec::new();
        for queued in batch {
            self.rows_of(queued.step, queued.call, &mut seq, &mut rows)?;
        }
        let Head { prev, frontier, key, checkpoint_key } = self.samples.head.clone();
        let org = self.samples.read.org.clone();
        rows.push((&self.statements.update_head, values![seq, prev, frontier, key, checkpoint_key, AT, org]));
        self.client.batch_execute("BEGIN").await?;
        // The statements are polled together, so they are sent together.
        let sent = rows
            .iter()
            .map(|(statement, values)| self.client.execute_raw(*statement, values.iter().map(|value| &**value as &(dyn ToSql + Sync))));
        try_join_all(sent).await?;
        self.client.batch_execute("COMMIT").await?;
        self.seq = seq;
        Ok(())
    }

    fn rows_of<'a>(&'a self, step: Step, call: u64, seq: &mut i64, rows: &mut Vec<Row<'a>>) -> Result<()> {
        let Sample { org, session, space, action, status, body, event, event_body, .. } = self.samples.of(step).clone();
        let statements = &self.statements;
        let (invocation, receipt) = (id("inv", call), id("rcp", call));
        let (entry, entry_id) = match step {
            Step::Ended | Step::Finished => (self.samples.of(step).receipt()?, receipt.clone()),
            Step::Begun => (self.samples.of(step).intent()?, id("int", call)),
        };
        let Entry { kind, payload, leaf, key, signature } = entry.clone();
        let values = values![org.clone(), *seq, kind, entry_id, invocation.clone(), payload, leaf, key, signature];
        rows.push((&statements.insert_entry, values));
        let position = *seq;
        *seq += 1;
        let (running, unknown): (String, (Option<String>, Option<i64>)) = ("running".to_owned(), (None, None));
        match step {
            Step::Ended => {
                let values = values![org.clone(), invocation.clone(), session, space, action, status, body, receipt.clone(), position];
                rows.push((&statements.insert_invocation, values));
            }
            Step::Begun => {
                let values = values![org.clone(), invocation.clone(), session, space, action, running, body, unknown.0, unknown.1];
                rows.push((&statements.insert_invocation, values));
                rows.push((&statements.insert_attempt, values![org, invocation, AT]));
                return Ok(());
            }
            Step::Finished => {
                rows.push((&statements.update_attempt, values![status.clone(), AT, org.clone(), invocation.clone()]));
                rows.push((
                    &statements.update_invocation,
                    values![status, body, receipt.clone(), position, org.clone(), invocation.clone()],
                ));
            }
        }
        rows.push((&statements.insert_event, values![org, id("evt", call), event, invocation, receipt, event_body, AT, event_seq(call)]));
        Ok(())
    }
}

async fn sample(client: &Client, call: Call) -> Result<Sample> {
    let row = client.query_opt(SELECT_INVOCATION, &[&call.action()]).await?;
    let row = row.with_context(|| format!("no ended call of {}", call.action()))?;
    let invocation: String = row.get(1);
    let entries = client.query(SELECT_ENTRIES, &[&invocation]).await?;
    let entry = |row: &tokio_postgres::Row| Entry {
        kind: row.get(0),
        payload: row.get(1),
        leaf: row.get(2),
        key: row.get(3),
        signature: row.get(4),
    };
    let event = client.query_opt(SELECT_EVENT, &[&invocation]).await?.context("the ended call has no event")?;
    Ok(Sample {
        org: row.get(0),
        session: row.get(2),
        space: row.get(3),
        action: row.get(4),
        status: row.get(5),
        body: row.get(6),
        entries: entries.iter().map(entry).collect(),
        event: event.get(0),
        event_body: event.get(1),
    })
}
