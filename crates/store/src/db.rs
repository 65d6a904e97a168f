//! One interface over two engines: both use the same SQL text, the same value types, and one writer with group commit.
//! Every write is queued to the one writer. The writer runs all queued writes, each in its own savepoint, and commits once.
//! There is no timer for a write that somebody waits for: a lone one commits at once, and under load the batches grow by themselves.

pub(crate) mod lease;
mod news;
mod postgres;
mod pulse;
mod queue;
mod remembered;
mod sqlite;
pub(crate) mod values;

pub use postgres::Patience;

use crate::Error;
use crate::seal::sealing::Sealing;
use countersign_core::{Clock, Future, OrgId, ServerId, Timestamp};
pub(crate) use lease::Lease;
use news::News;
pub(crate) use remembered::{About, ReadSessions};
use remembered::{Change, Remembered};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::oneshot;
pub(crate) use values::{Columns, Row, Statement, Val, all, count, only, to_json, vals};

/// Writes that may be queued. When the queue is full, callers wait; no write is dropped.
const QUEUE_MAX: usize = 4_096;

/// Which database, and how to reach it.
#[derive(Clone, Debug)]
pub enum Engine {
    /// The embedded default: one file.
    Sqlite { path: PathBuf },
    /// A PostgreSQL URL; may hold a password, so it is never printed.
    Postgres { url: String },
}

/// The clock that decides expiry.
#[derive(Clone)]
pub enum TimeSource {
    /// PostgreSQL's own clock. On SQLite the given clock, because the database runs on the same machine.
    Database(Arc<dyn Clock>),
    /// A clock that the tests control, on both engines.
    Fixed(Arc<dyn Clock>),
}

#[derive(Clone)]
pub(crate) enum Db {
    Sqlite(Arc<sqlite::Sqlite>),
    Postgres(Arc<postgres::Postgres>),
}

/// A write in progress. All writes of a batch are committed together.
pub(crate) struct Tx {
    connection: Connection,
    now: Timestamp,
    pub(crate) sealing: Sealing,
    lease: Arc<Lease>,
    savepoint: Savepoint,
    /// The rows of remembered tables that the statements of this batch change; see `remembered`.
    changes: Vec<Change>,
    /// Set when the whole batch has failed: the error that prevents every further write in it.
    broken: Option<Error>,
}

/// The savepoint that a failed write is rolled back to. A write's first statement sets it; a write that only calls `later` needs none.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Savepoint {
    /// No write is running.
    Outside,
    Wanted,
    Set,
}

enum Connection {
    Sqlite(rusqlite::Connection),
    Postgres(postgres::Writer),
}

/// A write waiting for its turn.
trait Write: Send {
    /// The org whose rows this write changes; `None` if it changes rows of no org.
    fn org(&self) -> Option<&OrgId>;
    fn run<'t>(&'t mut self, tx: &'t mut Tx) -> Future<'t, Result<(), Error>>;
    /// Sends the result to the caller, once it is known whether the batch was committed.
    fn answer(self: Box<Self>, committed: Result<(), Error>);
}

struct Queued<T, F> {
    org: Option<OrgId>,
    body: Option<F>,
    outcome: Option<Result<T, Error>>,
    caller: oneshot::Sender<Result<T, Error>>,
}

impl Db {
    pub(crate) async fn open(
        engine: &Engine,
        time: TimeSource,
        patience: Patience,
        sealing: Sealing,
        server: ServerId,
    ) -> Result<Self, Error> {
        let lease = Arc::new(Lease::new(server));
        match engine {
            Engine::Sqlite { path } => Ok(Self::Sqlite(Arc::new(sqlite::Sqlite::open(path, time, sealing, lease)?))),
            Engine::Postgres { url } => Ok(Self::Postgres(Arc::new(postgres::Postgres::open(url, time, patience, sealing, lease).await?))),
        }
    }

    pub(crate) const fn is_postgres(&self) -> bool {
        matches!(self, Self::Postgres(_))
    }

    /// Runs `body`, which writes rows of this org, in the next batch. After `Ok` the write is durable; after an error none of it was kept,
    /// except after `CommitUnknown`, which leaves that open.
    ///
    /// `body` may await nothing but the transaction it is given. On SQLite, awaiting anything else is an error.
    pub(crate) async fn write<T, F>(&self, org: OrgId, body: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: for<'t> FnOnce(&'t mut Tx) -> Future<'t, Result<T, Error>> + Send + 'static,
    {
        self.queue(Some(org), body).await
    }

    /// Like `write`, for rows that belong to no org, or to an org that this write creates.
    pub(crate) async fn write_unscoped<T, F>(&self, body: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: for<'t> FnOnce(&'t mut Tx) -> Future<'t, Result<T, Error>> + Send + 'static,
    {
        self.queue(None, body).await
    }

    /// Like `write`, for a write that may wait until another one is committed, which takes a few milliseconds at most. It is queued when this
    /// returns: no write that is queued later is committed before it.
    pub(crate) fn write_along<T, F>(&self, org: OrgId, body: F) -> Future<'static, Result<T, Error>>
    where
        T: Send + 'static,
        F: for<'t> FnOnce(&'t mut Tx) -> Future<'t, Result<T, Error>> + Send + 'static,
    {
        let (caller, answer) = oneshot::channel();
        let write = Box::new(Queued { org: Some(org), body: Some(body), outcome: None, caller });
        match self {
            Self::Sqlite(sqlite) => sqlite.entrance().leave(write),
            Self::Postgres(postgres) => postgres.entrance().leave(write),
        }
        Box::pin(async move { answer.await.map_err(|_| writer_stopped())? })
    }

    async fn queue<T, F>(&self, org: Option<OrgId>, body: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: for<'t> FnOnce(&'t mut Tx) -> Future<'t, Result<T, Error>> + Send + 'static,
    {
        let (caller, answer) = oneshot::channel();
        let write = Box::new(Queued { org, body: Some(body), outcome: None, caller });
        match self {
            Self::Sqlite(sqlite) => sqlite.entrance().submit(write).await?,
            Self::Postgres(postgres) => postgres.entrance().submit(write).await?,
        }
        answer.await.map_err(|_| writer_stopped())?
    }

    /// Runs one query on a connection of its own. It sees the last committed state.
    pub(crate) async fn read(&self, sql: &str, params: &[Val]) -> Result<Vec<Row>, Error> {
        debug_assert!(is_scoped(sql), "this query is not limited to an org: {sql}");
        let (rows, pulse) = match self {
            Self::Sqlite(sqlite) => (sqlite.read(sql, params), sqlite.pulse()),
            Self::Postgres(postgres) => (postgres.read(sql, params).await, postgres.pulse()),
        };
        if matches!(rows, Err(Error::Unavailable { .. })) {
            pulse.stop();
        }
        rows
    }

    fn remembered(&self) -> &Remembered {
        match self {
            Self::Sqlite(sqlite) => sqlite.remembered(),
            Self::Postgres(postgres) => postgres.remembered(),
        }
    }

    /// Like `read`, for answers that every call needs and that hardly ever change. The answer comes from memory until a row of the tables
    /// it was read from changes in this org. The same statement must always be read with the same `parse`.
    pub(crate) async fn read_remembered<T: Send + Sync + 'static>(
        &self,
        org: &OrgId,
        sql: &'static str,
        params: &[Val],
        parse: impl FnOnce(Vec<Row>) -> Result<T, Error> + Send,
    ) -> Result<Arc<T>, Error> {
        self.read_remembered_of(sql, params, parse, |_| About::of(org)).await
    }

    /// Like `read_remembered`, where the answer says what it is about.
    pub(crate) async fn read_remembered_of<T: Send + Sync + 'static>(
        &self,
        sql: &'static str,
        params: &[Val],
        parse: impl FnOnce(Vec<Row>) -> Result<T, Error> + Send,
        about: impl FnOnce(&T) -> About + Send,
    ) -> Result<Arc<T>, Error> {
        let remembered = self.remembered();
        if let Some(answer) = remembered.recall(sql, params) {
            return Ok(answer);
        }
        let asked_at = remembered.asked_at();
        let answer = Arc::new(parse(self.read(sql, params).await?)?);
        remembered.keep(asked_at, sql, params, &about(&answer), &answer);
        Ok(answer)
    }

    /// The version of an org's rules. Every remembered answer returned after this call was read at that version or a later one. So a
    /// decision never names a rules version newer than the rules it was made by.
    pub(crate) async fn read_version(&self, org: &OrgId, sql: &'static str) -> Result<i64, Error> {
        match self.remembered().recall::<i64>(sql, &vals![org.as_str()]) {
            Some(version) => Ok(*version),
            None => self.read_version_anew(org, sql).await,
        }
    }

    /// Like `read_version`, but always asks the database. So it also sees a change by another server whose notice has not arrived yet.
    pub(crate) async fn read_version_anew(&self, org: &OrgId, sql: &'static str) -> Result<i64, Error> {
        let (remembered, params) = (self.remembered(), vals![org.as_str()]);
        let asked_at = remembered.asked_at();
        let rows = self.read(sql, &params).await?;
        let version = count(rows)?;
        remembered.note_version(org, version);
        remembered.keep(asked_at, sql, &params, &About::of(org), &Arc::new(version));
        Ok(version)
    }

    /// The newest committed event of each org, as far as this server knows.
    pub(crate) fn news(&self) -> &News {
        match self {
            Self::Sqlite(sqlite) => sqlite.news(),
            Self::Postgres(postgres) => postgres.news(),
        }
    }

    /// Whether a write was committed within the last second and nothing has failed since.
    pub(crate) fn took_a_write_just_now(&self) -> bool {
        match self {
            Self::Sqlite(sqlite) => sqlite.pulse().is_fresh(),
            Self::Postgres(postgres) => postgres.pulse().is_fresh(),
        }
    }

    /// Opens a read-only view of one moment, from which backup and export read all tables.
    pub(crate) async fn snapshot(&self) -> Result<Snapshot, Error> {
        match self {
            Self::Sqlite(sqlite) => Ok(Snapshot::Sqlite(sqlite.snapshot()?)),
            Self::Postgres(postgres) => Ok(Snapshot::Postgres(postgres.snapshot().await?)),
        }
    }

    /// This process's lease, by which other servers know it.
    pub(crate) fn lease(&self) -> &Lease {
        match self {
            Self::Sqlite(sqlite) => sqlite.lease(),
            Self::Postgres(postgres) => postgres.lease(),
        }
    }

    /// Runs a statement with `$1` as this server's id, `$2` as the current time, which it returns, and `$3` as what else it says of itself.
    /// It does not wait for other writes.
    pub(crate) async fn renew_lease(&self, sql: &'static str, said: String) -> Result<Timestamp, Error> {
        match self {
            Self::Sqlite(sqlite) => {
                let id = sqlite.lease().id().to_string();
                self.write_unscoped(move |tx| {
                    Box::pin(async move {
                        let now = tx.now();
                        tx.exec(sql, &vals![id, now, said]).await.map(|_| now)
                    })
                })
                .await
            }
            Self::Postgres(postgres) => postgres.renew_lease(sql, said).await,
        }
    }

    /// Whether no other server works on this database; if so, this ends all leases. On SQLite the lock of the data folder guarantees it.
    pub(crate) async fn is_alone(&self) -> Result<bool, Error> {
        match self {
            Self::Sqlite(_) => {
                self.write_unscoped(|tx| Box::pin(async move { tx.exec(END_ALL_LEASES, &[]).await })).await?;
                Ok(true)
            }
            Self::Postgres(postgres) => postgres.is_alone().await,
        }
    }

    /// Whether this other server is seen to work on the database. On SQLite no other one is to be told from a store of this process.
    pub(crate) async fn is_present(&self, server: &str) -> Result<bool, Error> {
        match self {
            Self::Sqlite(_) => Ok(true),
            Self::Postgres(postgres) => postgres.is_present(server).await,
        }
    }

    pub(crate) fn clock(&self) -> Arc<dyn Clock> {
        match self {
            Self::Sqlite(sqlite) => sqlite.clock(),
            Self::Postgres(postgres) => postgres.clock(),
        }
    }

    /// The current time by the clock that decides expiry.
    pub(crate) async fn now(&self) -> Result<Timestamp, Error> {
        match self {
            Self::Sqlite(sqlite) => Ok(sqlite.now()),
            Self::Postgres(postgres) => postgres.now().await,
        }
    }
}

/// A read-only view of one moment.
pub(crate) enum Snapshot {
    Sqlite(rusqlite::Connection),
    Postgres(deadpool_postgres::ClientWrapper),
}

impl Snapshot {
    pub(crate) async fn read(&mut self, sql: &str, params: &[Val]) -> Result<Vec<Row>, Error> {
        match self {
            Self::Sqlite(connection) => sqlite::query(connection, sql, params),
            Self::Postgres(client) => postgres::query(client, sql, params).await,
        }
    }

    /// Calls `each` with one row after the other, without holding all of them in memory.
    pub(crate) async fn scan(&mut self, sql: &str, each: &mut (dyn FnMut(Row) -> Result<(), Error> + Send)) -> Result<(), Error> {
        match self {
            Self::Sqlite(connection) => sqlite::scan(connection, sql, each),
            Self::Postgres(client) => postgres::scan(client, sql, each).await,
        }
    }
}

impl Tx {
    fn new(connection: Connection, sealing: Sealing, lease: Arc<Lease>) -> Self {
        Self { connection, now: Timestamp::default(), sealing, lease, savepoint: Savepoint::Outside, changes: Vec::new(), broken: None }
    }

    /// This process's lease, by which other servers know it.
    pub(crate) fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Whether other servers may soon consider this one gone, so that it must start nothing new. Never so on SQLite: it has one server.
    pub(crate) fn is_fenced(&self) -> bool {
        self.is_postgres() && self.lease.is_fenced(self.now)
    }

    /// The database's clock at the start of this write; on SQLite, of its batch.
    pub(crate) const fn now(&self) -> Timestamp {
        self.now
    }

    pub(crate) const fn is_postgres(&self) -> bool {
        matches!(self.connection, Connection::Postgres(_))
    }

    /// Returns how many rows changed.
    pub(crate) async fn exec(&mut self, sql: &str, params: &[Val]) -> Result<u64, Error> {
        debug_assert!(is_scoped(sql), "this statement is not limited to an org: {sql}");
        self.before(sql, params)?;
        match &mut self.connection {
            Connection::Sqlite(connection) => sqlite::exec(connection, sql, params),
            Connection::Postgres(writer) => writer.exec(sql, params).await,
        }
    }

    /// Runs a statement at the end of the batch, together with the other deferred ones. Use it only for rows that no write of the batch
    /// reads and that the database cannot refuse: if one of these statements fails, the whole batch fails. Statements of one table keep their
    /// order, those of several tables need not.
    pub(crate) fn later(&mut self, sql: &'static str, params: Vec<Val>) {
        debug_assert!(is_scoped(sql), "this statement is not limited to an org: {sql}");
        remembered::note_changes(&mut self.changes, sql, &params);
        self.sealing.push_later(sql, params);
    }

    pub(crate) async fn query(&mut self, sql: &str, params: &[Val]) -> Result<Vec<Row>, Error> {
        debug_assert!(is_scoped(sql), "this query is not limited to an org: {sql}");
        // A query may also change rows: `UPDATE … RETURNING`.
        self.before(sql, params)?;
        match &mut self.connection {
            Connection::Sqlite(connection) => sqlite::query(connection, sql, params),
            Connection::Postgres(writer) => writer.query(sql, params).await,
        }
    }

    /// Like `query`, and locks the rows until the commit. SQLite has one writer and needs no lock.
    pub(crate) async fn query_locked(&mut self, sql: &str, params: &[Val]) -> Result<Vec<Row>, Error> {
        match &self.connection {
            Connection::Sqlite(_) => self.query(sql, params).await,
            Connection::Postgres(_) => self.query(&format!("{sql} FOR UPDATE"), params).await,
        }
    }

    /// Reads rows that the whole batch depends on, and locks them until the commit. The rows belong to no single write, so no savepoint is
    /// set first; if the query fails, the whole batch fails.
    pub(crate) async fn query_for_batch(&mut self, sql: &'static str, params: &[Val]) -> Result<Vec<Row>, Error> {
        debug_assert!(is_scoped(sql), "this query is not limited to an org: {sql}");
        let rows = match &mut self.connection {
            Connection::Sqlite(connection) => sqlite::query(connection, sql, params),
            Connection::Postgres(writer) => writer.query(&format!("{sql} FOR UPDATE"), params).await,
        };
        self.broken = rows.as_ref().err().cloned();
        rows
    }

    /// Runs before every statement of a write: notes the changes it makes and sets the savepoint if none is set yet.
    fn before(&mut self, sql: &str, params: &[Val]) -> Result<(), Error> {
        remembered::note_changes(&mut self.changes, sql, params);
        self.set_savepoint()
    }

    fn set_savepoint(&mut self) -> Result<(), Error> {
        if self.savepoint == Savepoint::Wanted {
            self.savepoint = Savepoint::Set;
            match &mut self.connection {
                Connection::Sqlite(connection) => sqlite::say(connection, SET_SAVEPOINT)?,
                Connection::Postgres(writer) => writer.say_later(SET_SAVEPOINT),
            }
        }
        Ok(())
    }
}

const SET_SAVEPOINT: &str = "SAVEPOINT one";

const END_ALL_LEASES: &str = "/* every org: a server works for all of them */ DELETE FROM servers";

/// Whether the text names the org, or says in its first words why it need not.
/// SECURITY: this check keeps one tenant's rows from another. Every debug build and every test runs it on each statement.
fn is_scoped(sql: &str) -> bool {
    sql.contains("org_id") || sql.starts_with("/* every org")
}

impl<T, F> Write for Queued<T, F>
where
    T: Send,
    F: for<'t> FnOnce(&'t mut Tx) -> Future<'t, Result<T, Error>> + Send,
{
    fn org(&self) -> Option<&OrgId> {
        self.org.as_ref()
    }

    fn run<'t>(&'t mut self, tx: &'t mut Tx) -> Future<'t, Result<(), Error>> {
        Box::pin(async move {
            let Some(body) = self.body.take() else {
                return Err(Error::Corrupt { message: "a write ran twice".into() });
            };
            let outcome = body(tx).await;
            let status = outcome.as_ref().map(|_| ()).map_err(Clone::clone);
            self.outcome = Some(outcome);
            status
        })
    }

    fn answer(self: Box<Self>, committed: Result<(), Error>) {
        let outcome = match (self.outcome, committed) {
            // The write itself failed. Its own error says more than the batch's, and none of it was kept.
            (Some(Err(error)), _) => Err(error),
            (_, Err(error)) => Err(error),
            (Some(outcome), Ok(())) => outcome,
            (None, Ok(())) => Err(Error::Corrupt { message: "a write was committed without running".into() }),
        };
        // The caller may have gone away; the write is durable all the same.
        let _gone = self.caller.send(outcome);
    }
}

fn answer_all(batch: Vec<Box<dyn Write>>, told: &Result<(), Error>) {
    for write in batch {
        write.answer(told.clone());
    }
}

/// The result to send to each write of a batch of `writes`. If the database refused a row, nobody knows which write it came from. So
/// every write of the batch is told to retry; a write that fails alone in its batch is told `Corrupt`.
fn told(committed: &Result<(), Error>, writes: usize) -> Result<(), Error> {
    match committed {
        Err(Error::Corrupt { message }) if writes > 1 => Err(Error::Unavailable { message: message.clone() }),
        committed => committed.clone(),
    }
}

fn writer_stopped() -> Error {
    Error::CommitUnknown { message: "the writer stopped".into() }
}

fn by_a_bug() -> Error {
    Error::Unavailable { message: "a write stopped working, by a bug".into() }
}

#[cfg(test)]
#[path = "db_tests.rs"]
mod tests;
