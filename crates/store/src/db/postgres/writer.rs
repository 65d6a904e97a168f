//! The one connection that writes: which statements it sends, in which order, and how a batch is committed.

use super::super::{Row, Statement, Val};
use super::{Patience, answer_within, classify, lock_named, rows, values};
use crate::Error;
use countersign_core::OrgId;
use deadpool_postgres::ClientWrapper;
use std::collections::BTreeSet;
use tokio_postgres::types::ToSql;

/// The writer's connection. Commands such as `BEGIN` and `SAVEPOINT` are held back and sent together with the next statement: a write
/// then costs only as many round trips as it has statements that depend on each other.
pub(in super::super) struct Writer {
    pub(super) client: ClientWrapper,
    words: String,
    /// The orgs whose rows the batch may write.
    orgs: BTreeSet<OrgId>,
    patience: Patience,
}

impl Writer {
    /// Batches of several servers take turns by org: two batches that lock the same rows in a different order would deadlock. So a batch
    /// first locks all its orgs, always in the same order, and before any savepoint: a rollback to a savepoint releases later locks.
    pub(super) fn new(client: ClientWrapper, patience: Patience, orgs: BTreeSet<OrgId>) -> Self {
        let locks: BTreeSet<_> = orgs.iter().map(lock_of).collect();
        let words = locks.into_iter().fold("BEGIN".to_owned(), |words, lock| format!("{words}; SELECT pg_advisory_xact_lock({lock})"));
        Self { client, words, orgs, patience }
    }

    pub(super) fn has_locked(&self, org: &OrgId) -> bool {
        self.orgs.contains(org)
    }

    /// Holds the command back until the next statement, and sends it before that one.
    pub(in super::super) fn say_later(&mut self, words: &str) {
        if !self.words.is_empty() {
            self.words.push_str("; ");
        }
        self.words.push_str(words);
    }

    /// Sends all commands held back, and then this one.
    pub(super) async fn say(&mut self, words: &str) -> Result<(), Error> {
        self.say_later(words);
        let opening = self.opening();
        answer_within(self.patience.write, async { send(&self.client, &opening).await.map_err(classify) }).await
    }

    pub(in super::super) async fn exec(&mut self, sql: &str, params: &[Val]) -> Result<u64, Error> {
        let statement = self.prepare(sql).await?;
        let opening = self.opening();
        self.after(&opening, self.client.execute_raw(&statement, params)).await
    }

    pub(in super::super) async fn query(&mut self, sql: &str, params: &[Val]) -> Result<Vec<Row>, Error> {
        let statement = self.prepare(sql).await?;
        let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|value| value as _).collect();
        let opening = self.opening();
        self.after(&opening, self.client.query(&statement, &params)).await?.iter().map(values).collect()
    }

    /// Sends the last statements and the commit together. PostgreSQL runs them in this order, and turns the commit into a
    /// rollback when one of them failed.
    pub(super) async fn commit(&mut self, statements: &[Statement]) -> Result<(), Error> {
        let statements = rows::gather(statements);
        let mut prepared = Vec::with_capacity(statements.len());
        for (sql, _) in &statements {
            prepared.push(self.prepare(sql).await?);
        }
        let opening = self.opening();
        let client = &self.client;
        let mut sent: Vec<Sent<'_>> = Vec::with_capacity(statements.len() + 2);
        sent.push(Box::pin(async { send(client, &opening).await.map(|()| 0) }));
        for (statement, (_, params)) in prepared.iter().zip(&statements) {
            sent.push(Box::pin(client.execute_raw(statement, params.iter())));
        }
        sent.push(Box::pin(async { client.batch_execute("COMMIT").await.map(|()| 0) }));
        let Ok(answers) = tokio::time::timeout(self.patience.write, in_order(sent)).await else {
            return Err(Error::CommitUnknown { message: "the database did not answer the commit".into() });
        };
        // The first failure decides. If the database refused a statement, it turned the commit into a rollback. With any other failure, or
        // if the commit itself failed, we do not know what was kept.
        let statements = answers.len() - 1;
        match answers.into_iter().enumerate().find_map(|(at, answer)| answer.err().map(|error| (at, error))) {
            None => Ok(()),
            Some((at, error)) if at < statements && error.code().is_some() => Err(classify(error)),
            Some((_, error)) => Err(Error::CommitUnknown { message: format!("the commit was not answered: {error}") }),
        }
    }

    async fn prepare(&self, sql: &str) -> Result<tokio_postgres::Statement, Error> {
        answer_within(self.patience.write, async { self.client.prepare_cached(sql).await.map_err(classify) }).await
    }

    /// Takes the commands to send before the next statement.
    fn opening(&mut self) -> String {
        std::mem::take(&mut self.words)
    }

    /// Sends the held-back commands and the statement together, in this order. The first one that fails gives the error.
    async fn after<T>(&self, opening: &str, statement: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Result<T, Error> {
        let both = async {
            let (opened, done) = futures_util::future::join(send(&self.client, opening), statement).await;
            opened.map_err(classify)?;
            done.map_err(classify)
        };
        answer_within(self.patience.write, both).await
    }
}

async fn send(client: &ClientWrapper, words: &str) -> Result<(), tokio_postgres::Error> {
    if words.is_empty() { Ok(()) } else { client.batch_execute(words).await }
}

/// The advisory lock of an org. If two orgs happen to share a lock, their batches take turns with each other.
fn lock_of(org: &OrgId) -> i64 {
    lock_named(&format!("countersign writes {org}"))
}

type Sent<'a> = std::pin::Pin<Box<dyn Future<Output = Result<u64, tokio_postgres::Error>> + Send + 'a>>;

/// Starts the futures one after the other, in this order and without waiting in between; then waits for each.
async fn in_order(sent: Vec<Sent<'_>>) -> Vec<Result<u64, tokio_postgres::Error>> {
    let mut sent: Vec<_> = sent.into_iter().map(futures_util::future::maybe_done).collect();
    std::future::poll_fn(|context| {
        for one in &mut sent {
            let _answered_already = std::pin::Pin::new(one).poll(context);
        }
        std::task::Poll::Ready(())
    })
    .await;
    let mut answers = Vec::with_capacity(sent.len());
    for mut one in sent {
        std::pin::Pin::new(&mut one).await;
        answers.extend(std::pin::Pin::new(&mut one).take_output());
    }
    answers
}
