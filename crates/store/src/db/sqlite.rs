//! SQLite: one writer thread, readers on their own connections, and WAL with full durability.

use super::lease::Lease;
use super::news::News;
use super::pulse::Pulse;
use super::queue::{Entrance, Queue, queue};
use super::remembered::{Remembered, Trust};
use super::{Connection, Row, Savepoint, Statement, TimeSource, Tx, Val, Write};
use crate::Error;
use crate::seal::sealing::Sealing;
use bell::Bell;
use countersign_core::{Clock, Timestamp};
use parking_lot::Mutex;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Writes taken into one commit. A larger batch would hardly make each write cheaper, and too many callers would wait for the same
/// commit: with this size, one half of the callers works on its calls while the other half is written.
const BATCH_MAX: usize = 32;

pub(crate) struct Sqlite {
    path: PathBuf,
    entrance: Entrance,
    /// Idle readers; a reader is opened when none is idle, and returned after use.
    readers: Mutex<Vec<rusqlite::Connection>>,
    clock: Arc<dyn Clock>,
    remembered: Arc<Remembered>,
    pulse: Arc<Pulse>,
    news: Arc<News>,
    lease: Arc<Lease>,
}

impl Sqlite {
    pub(crate) fn open(path: &Path, time: TimeSource, sealing: Sealing, lease: Arc<Lease>) -> Result<Self, Error> {
        let (TimeSource::Database(clock) | TimeSource::Fixed(clock)) = time;
        let connection = connect(path)?;
        let (entrance, queue) = queue();
        let tx = Tx::new(Connection::Sqlite(connection), sealing, Arc::clone(&lease));
        // One process owns the file, so every change goes through this process.
        let remembered = Arc::new(Remembered::new(Trust::Informed));
        let pulse = Arc::new(Pulse::default());
        let news = Arc::new(News::default());
        let life = Life {
            clock: Arc::clone(&clock),
            remembered: Arc::clone(&remembered),
            pulse: Arc::clone(&pulse),
            news: Arc::clone(&news),
            bell: Bell::hang(),
        };
        std::thread::Builder::new()
            .name("sqlite-writer".into())
            .spawn(move || life.write_all(tx, queue))
            .map_err(|error| Error::Unavailable { message: format!("the writer thread could not start: {error}") })?;
        Ok(Self { path: path.to_owned(), entrance, readers: Mutex::new(Vec::new()), clock, remembered, pulse, news, lease })
    }

    pub(super) const fn entrance(&self) -> &Entrance {
        &self.entrance
    }

    /// Reads on the calling thread: a point read takes microseconds, less than handing it to another thread.
    pub(crate) fn read(&self, sql: &str, params: &[Val]) -> Result<Vec<Row>, Error> {
        let idle = self.readers.lock().pop();
        let reader = match idle {
            Some(reader) => reader,
            None => connect_read_only(&self.path)?,
        };
        let rows = query(&reader, sql, params);
        // A reader that failed may be in any state, so it is dropped and the next read opens a new one.
        if rows.is_ok() {
            self.readers.lock().push(reader);
        }
        rows
    }

    pub(crate) fn snapshot(&self) -> Result<rusqlite::Connection, Error> {
        let connection = connect_read_only(&self.path)?;
        // The first read fixes the snapshot; WAL keeps it for as long as the transaction is open.
        connection.execute_batch("BEGIN; SELECT count(*) FROM schema_migrations;").map_err(classify)?;
        Ok(connection)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(super) fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock)
    }

    pub(super) fn pulse(&self) -> &Pulse {
        &self.pulse
    }

    pub(super) fn lease(&self) -> &Lease {
        &self.lease
    }

    pub(super) fn remembered(&self) -> &Remembered {
        &self.remembered
    }

    pub(super) fn news(&self) -> &News {
        &self.news
    }
}

pub(super) fn exec(connection: &rusqlite::Connection, sql: &str, params: &[Val]) -> Result<u64, Error> {
    let mut statement = connection.prepare_cached(sql).map_err(classify)?;
    debug_assert!(is_numbered_in_order(&statement), "parameters must first appear in the order of their numbers: {sql}");
    let changed = statement.execute(rusqlite::params_from_iter(params)).map_err(classify)?;
    Ok(changed as u64)
}

pub(super) fn query(connection: &rusqlite::Connection, sql: &str, params: &[Val]) -> Result<Vec<Row>, Error> {
    let mut statement = connection.prepare_cached(sql).map_err(classify)?;
    debug_assert!(is_numbered_in_order(&statement), "parameters must first appear in the order of their numbers: {sql}");
    let columns = statement.column_count();
    let mut rows = statement.query(rusqlite::params_from_iter(params)).map_err(classify)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(classify)? {
        found.push((0..columns).map(|index| value(row, index)).collect::<Result<Row, Error>>()?);
    }
    Ok(found)
}

/// To SQLite `$2` is a name and not a number: it binds parameters in the order in which they first appear.
fn is_numbered_in_order(statement: &rusqlite::Statement<'_>) -> bool {
    (1..=statement.parameter_count()).all(|at| statement.parameter_name(at) == Some(&format!("${at}")))
}

pub(super) fn scan(
    connection: &rusqlite::Connection,
    sql: &str,
    each: &mut (dyn FnMut(Row) -> Result<(), Error> + Send),
) -> Result<(), Error> {
    let mut statement = connection.prepare(sql).map_err(classify)?;
    let columns = statement.column_count();
    let mut rows = statement.query([]).map_err(classify)?;
    while let Some(row) = rows.next().map_err(classify)? {
        each((0..columns).map(|index| value(row, index)).collect::<Result<Row, Error>>()?)?;
    }
    Ok(())
}

fn value(row: &rusqlite::Row<'_>, index: usize) -> Result<Val, Error> {
    use rusqlite::types::ValueRef;
    match row.get_ref(index).map_err(classify)? {
        ValueRef::Null => Ok(Val::Null),
        ValueRef::Integer(int) => Ok(Val::Int(int)),
        ValueRef::Text(text) => String::from_utf8(text.to_vec())
            .map(Val::Text)
            .map_err(|_| Error::Corrupt { message: "a text column holds bytes that are not UTF-8".into() }),
        ValueRef::Blob(bytes) => Ok(Val::Bytes(bytes.to_vec())),
        ValueRef::Real(_) => Err(Error::Corrupt { message: "a column holds a float".into() }),
    }
}

/// Everything the writer thread uses while it runs.
struct Life {
    clock: Arc<dyn Clock>,
    remembered: Arc<Remembered>,
    pulse: Arc<Pulse>,
    news: Arc<News>,
    bell: Bell,
}

impl Life {
    /// Waits for a write, runs it and all writes queued meanwhile, commits once, and answers all of them.
    fn write_all(self, mut tx: Tx, mut queue: Queue) {
        while let Some(first) = queue.wait_blocking() {
            let mut batch = Vec::new();
            tx.now = self.clock.now();
            let committed = catch_unwind(AssertUnwindSafe(|| commit_batch(&mut tx, first, &mut queue, &mut batch)));
            // One write panicked: its batch is rolled back, every write in it may be retried, and the next batch starts clean.
            let committed = committed.unwrap_or_else(|_panic| {
                rollback(&mut tx);
                tx.savepoint = Savepoint::Outside;
                Err(super::by_a_bug())
            });
            self.remembered.forget(&std::mem::take(&mut tx.changes));
            match &committed {
                Ok(()) => tx.sealing.take_last_events().for_each(|(org, seq)| self.news.committed(&org, seq)),
                Err(_) => tx.sealing.forget(),
            }
            self.pulse.committed(&committed);
            metrics::histogram!("countersign_store_batch_writes").record(batch.len() as f64);
            let told = super::told(&committed, batch.len());
            self.bell.tell(move || super::answer_all(batch, &told));
        }
    }
}

fn commit_batch(tx: &mut Tx, first: Box<dyn Write>, queue: &mut Queue, batch: &mut Vec<Box<dyn Write>>) -> Result<(), Error> {
    // Once in the batch, this write is answered like all others, even if the batch fails.
    batch.push(first);
    batch_word(tx, "BEGIN IMMEDIATE")?;
    if let Err(error) = run_all(tx, queue, batch) {
        // SQLite may already have rolled back the whole batch by itself, for instance on a full disk.
        rollback(tx);
        return Err(error);
    }
    if let Err(error) = batch_word(tx, "COMMIT") {
        rollback(tx);
        return Err(after_commit(error));
    }
    Ok(())
}

/// Runs the queued writes and then their deferred statements, until no write is left. A write that arrives while entries are being signed
/// still joins the same commit.
fn run_all(tx: &mut Tx, queue: &mut Queue, batch: &mut Vec<Box<dyn Write>>) -> Result<(), Error> {
    let mut next = 0;
    while next < batch.len() {
        while let Some(write) = batch.get_mut(next) {
            run_in_savepoint(tx, &mut **write)?;
            next += 1;
            take_next(queue, batch);
        }
        let appended = tx.sealing.appended();
        exec_all(tx, &appended)?;
        take_next(queue, batch);
    }
    let heads = tx.sealing.heads();
    exec_all(tx, &heads)
}

fn take_next(queue: &mut Queue, batch: &mut Vec<Box<dyn Write>>) {
    if batch.len() < BATCH_MAX
        && let Some(write) = queue.take_if(|_| true)
    {
        batch.push(write);
    }
}

fn exec_all(tx: &Tx, statements: &[Statement]) -> Result<(), Error> {
    let Connection::Sqlite(connection) = &tx.connection else {
        return Err(other_engine());
    };
    statements.iter().try_for_each(|(sql, params)| exec(connection, sql, params).map(|_| ()))
}

fn other_engine() -> Error {
    Error::Corrupt { message: "the SQLite writer holds another engine's connection".into() }
}

/// A commit that failed because the disk is full was not written. One that failed with an I/O error may reappear after a crash.
fn after_commit(error: Error) -> Error {
    match error {
        Error::Unavailable { message } if message.contains("disk I/O error") => Error::CommitUnknown { message },
        Error::Unavailable { .. } | Error::Fenced | Error::CommitUnknown { .. } | Error::Corrupt { .. } => error,
    }
}

/// Runs one write so that its failure undoes only that write. An error returned here means that the whole batch is lost.
fn run_in_savepoint(tx: &mut Tx, write: &mut dyn Write) -> Result<(), Error> {
    tx.savepoint = Savepoint::Wanted;
    let mark = tx.sealing.mark();
    let outcome = ready(write.run(tx));
    let savepoint = std::mem::replace(&mut tx.savepoint, Savepoint::Outside);
    if let Some(error) = tx.broken.take() {
        return Err(error);
    }
    if outcome.is_err() {
        tx.sealing.undo_to(mark);
        if is_autocommit(tx) {
            return Err(Error::Unavailable { message: "the database rolled back".into() });
        }
    }
    match (outcome, savepoint) {
        (_, Savepoint::Outside | Savepoint::Wanted) => Ok(()),
        (Ok(()), Savepoint::Set) => batch_word(tx, "RELEASE one"),
        (Err(_), Savepoint::Set) => {
            batch_word(tx, "ROLLBACK TO one")?;
            batch_word(tx, "RELEASE one")
        }
    }
}

fn batch_word(tx: &mut Tx, word: &str) -> Result<(), Error> {
    let Connection::Sqlite(connection) = &tx.connection else {
        return Err(other_engine());
    };
    say(connection, word)
}

pub(super) fn say(connection: &rusqlite::Connection, word: &str) -> Result<(), Error> {
    let mut statement = connection.prepare_cached(word).map_err(classify)?;
    statement.execute([]).map(|_| ()).map_err(classify)
}

fn is_autocommit(tx: &Tx) -> bool {
    match &tx.connection {
        Connection::Sqlite(connection) => connection.is_autocommit(),
        Connection::Postgres(_) => false,
    }
}

fn rollback(tx: &mut Tx) {
    if !is_autocommit(tx)
        && let Err(error) = batch_word(tx, "ROLLBACK")
    {
        tracing::error!(%error, "a failed batch could not be rolled back");
    }
}

/// SQLite never waits, so the future of a write is ready at the first poll. If it is not, the write awaited something else.
fn ready<T>(mut future: countersign_core::Future<'_, Result<T, Error>>) -> Result<T, Error> {
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => Err(Error::Corrupt { message: "a write awaited something other than its transaction".into() }),
    }
}

fn connect(path: &Path) -> Result<rusqlite::Connection, Error> {
    let connection = rusqlite::Connection::open(path).map_err(classify)?;
    connection
        .execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA busy_timeout = 5000;
             PRAGMA cache_size = -16000; PRAGMA temp_store = MEMORY; PRAGMA wal_autocheckpoint = 4000;",
        )
        .map_err(classify)?;
    connection.set_prepared_statement_cache_capacity(256);
    keep_plans(&connection)?;
    Ok(connection)
}

fn connect_read_only(path: &Path) -> Result<rusqlite::Connection, Error> {
    use rusqlite::OpenFlags;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = rusqlite::Connection::open_with_flags(path, flags).map_err(classify)?;
    connection.execute_batch("PRAGMA busy_timeout = 5000; PRAGMA cache_size = -8000; PRAGMA temp_store = MEMORY;").map_err(classify)?;
    connection.set_prepared_statement_cache_capacity(128);
    keep_plans(&connection)?;
    Ok(connection)
}

/// Without this setting SQLite prepares a statement again whenever a value that affects its plan is bound. That cost a tenth of the time
/// of an invocation.
fn keep_plans(connection: &rusqlite::Connection) -> Result<(), Error> {
    connection.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(|_| ()).map_err(classify)
}

fn classify(error: rusqlite::Error) -> Error {
    use rusqlite::ErrorCode;
    let message = error.to_string();
    match error.sqlite_error_code() {
        Some(
            ErrorCode::DiskFull
            | ErrorCode::ReadOnly
            | ErrorCode::CannotOpen
            | ErrorCode::SystemIoFailure
            | ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::PermissionDenied
            | ErrorCode::OutOfMemory
            | ErrorCode::FileLockingProtocolFailed
            | ErrorCode::OperationAborted
            | ErrorCode::OperationInterrupted,
        ) => Error::Unavailable { message },
        _ => Error::Corrupt { message },
    }
}

impl rusqlite::ToSql for Val {
    fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
        use rusqlite::types::{ToSqlOutput, ValueRef};
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(int) => ValueRef::Integer(*int),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}
