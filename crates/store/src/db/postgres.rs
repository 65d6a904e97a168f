//! PostgreSQL: one writer thread with group commit, as on SQLite, and a pool of connections for reads.
//! One connection does all writes of a process: the head of an org's audit log is then locked once per batch, not once per call.

mod count;
mod listen;
mod rows;
mod time;
mod writer;

pub(super) use writer::Writer;

use super::lease::Lease;
use super::news::News;
use super::pulse::Pulse;
use super::queue::{Entrance, Queue, queue};
use super::remembered::Remembered;
use super::{Connection, END_ALL_LEASES, QUEUE_MAX, Row, Savepoint, TimeSource, Tx, Val, Write};
use crate::Error;
use crate::db::lease::gone_before;
use crate::limits::LEASE_RENEW_SECONDS;
use crate::seal::sealing::Sealing;
use bell::Bell;
use count::Counting;
use countersign_core::limits::STORE_WRITE_SECONDS;
use countersign_core::{Clock, ServerId, Timestamp};
use deadpool_postgres::{ClientWrapper, Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime};
use futures_util::{FutureExt, TryStreamExt};
use listen::Heard;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use time::{DATABASE_TIME, Time};
use tokio_postgres::types::{ToSql, Type};

/// Writes taken into one commit; further ones wait for the next. It is higher than on SQLite, because round trips cost more than rows.
const BATCH_MAX: usize = 256;
/// Connections for reading. The writer, the listener, the presence lock and the lease have one more each, and so has what counts the rows of new tables.
const READERS_MAX: usize = 8;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the database may take to answer before it counts as unavailable. This also covers a database that accepts a statement and
/// never answers.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    pub read: Duration,
    /// For one statement of a write, and for the commit.
    pub write: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { read: Duration::from_secs(10), write: Duration::from_secs(STORE_WRITE_SECONDS) }
    }
}

pub(crate) struct Postgres {
    patience: Patience,
    pool: Pool,
    entrance: Entrance,
    time: Arc<Time>,
    presence: Presence,
    pulse: Arc<Pulse>,
    heard: Arc<Heard>,
    lease: Arc<Lease>,
    /// A connection for the lease alone. Its renewal must not wait behind the writes that an expired lease refuses.
    leasing: Pool,
}

/// The connection that holds the presence lock while this process works on the database; see `is_alone`.
type Presence = Arc<tokio::sync::Mutex<Option<ClientWrapper>>>;

/// Leases that are still valid and do not belong to an earlier server on this data folder.
const OTHER_LEASES: &str =
    "/* every org: a server works for all of them */ SELECT id FROM servers WHERE seen_at > $1 AND $2 NOT LIKE '%' || id || '%'";
/// The advisory lock that every server holds in shared mode. A server that can take it exclusively is the only one. On the same connection each
/// holds a lock of its own, by which the others see that it is there.
const PRESENCE_LOCK: i64 = 7_117_002;

/// A writer that goes silent inside its transaction loses the org locks, and a writer that waits too long for an org lock gives up.
const WRITER_SETTINGS: &str = "SET idle_in_transaction_session_timeout = '10s'; SET lock_timeout = '10s'";

impl Postgres {
    pub(crate) async fn open(url: &str, time: TimeSource, patience: Patience, sealing: Sealing, lease: Arc<Lease>) -> Result<Self, Error> {
        let mut config: tokio_postgres::Config =
            url.parse().map_err(|_| Error::Corrupt { message: "the database URL does not parse as a PostgreSQL URL".into() })?;
        config.application_name("countersign").connect_timeout(CONNECT_TIMEOUT).keepalives_idle(Duration::from_secs(30));
        config.tcp_user_timeout(patience.read);
        let pool = pool_of(&config, READERS_MAX)?;
        reach(&pool).await?;
        let leasing = pool_of(&config, 1)?;
        let time = Arc::new(Time::new(time));
        let (entrance, queue) = queue();
        let presence = Presence::default();
        let heard = Arc::new(Heard::new());
        let pulse = Arc::new(Pulse::default());
        let life = Life {
            patience,
            writing: pool_of(&config, 1)?,
            pool: pool.clone(),
            time: Arc::clone(&time),
            presence: Arc::clone(&presence),
            heard: Arc::clone(&heard),
            pulse: Arc::clone(&pulse),
            lease: Arc::clone(&lease),
            bell: Bell::hang(),
            counting: Counting::of(pool.clone()),
        };
        life.start(queue, sealing)?;
        tokio::spawn(listen::listen(config, Arc::downgrade(&heard)));
        let opened = Self { patience, pool, entrance, time, presence, pulse, heard, lease, leasing };
        // From here on `clock` tells the database's time.
        opened.now().await?;
        Ok(opened)
    }

    pub(super) fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.time) as Arc<dyn Clock>
    }

    pub(super) const fn entrance(&self) -> &Entrance {
        &self.entrance
    }

    /// Boxed, as all that asks the database is: what awaits it would otherwise hold the whole client in its own future, which takes long to
    /// compile in every crate above.
    pub(crate) fn read<'a>(&'a self, sql: &'a str, params: &'a [Val]) -> countersign_core::Future<'a, Result<Vec<Row>, Error>> {
        Box::pin(async move {
            let client = checked_out(&self.pool).await?;
            let answer = answer_within(self.patience.read, query(&client, sql, params)).await;
            if matches!(answer, Err(Error::Unavailable { .. })) {
                // The connection may still deliver the late answer, so it must not go back to the pool.
                drop(Object::take(client));
            }
            answer
        })
    }

    pub(crate) fn snapshot(&self) -> countersign_core::Future<'_, Result<ClientWrapper, Error>> {
        Box::pin(async move {
            // Taken out of the pool for good: a connection inside a transaction must not go back.
            let client = Object::take(checked_out(&self.pool).await?);
            client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await.map_err(classify)?;
            Ok(client)
        })
    }

    /// Whether this is the only server. It is asked once at start, before this server takes the lock in shared mode for the others to see.
    /// The lock alone proves nothing: when the database restarts, every live server loses the lock until its next write. So no other
    /// server may have a valid lease either, except the earlier servers on the same data folder.
    pub(crate) fn is_alone(&self) -> countersign_core::Future<'_, Result<bool, Error>> {
        Box::pin(async move {
            let client = Object::take(checked_out(&self.pool).await?);
            let rows =
                query(&client, "SELECT CASE WHEN pg_try_advisory_lock($1) THEN 1::bigint ELSE 0::bigint END", &[Val::Int(PRESENCE_LOCK)])
                    .await?;
            let is_free = rows == [vec![Val::Int(1)]];
            be_present(&client, self.lease.id()).await?;
            let others =
                query(&client, OTHER_LEASES, &[Val::Int(gone_before(self.now().await?).as_micros()), Val::Text(self.lease.earlier())])
                    .await?;
            let alone = is_free && others.is_empty();
            if alone {
                client.batch_execute(END_ALL_LEASES).await.map_err(classify)?;
            }
            if is_free {
                client.batch_execute(&format!("SELECT pg_advisory_unlock({PRESENCE_LOCK})")).await.map_err(classify)?;
            }
            *self.presence.lock().await = Some(client);
            Ok(alone)
        })
    }

    /// Whether the connection is there by which this server shows that it works on the database. It ends with its process.
    pub(crate) async fn is_present(&self, server: &str) -> Result<bool, Error> {
        // The lock is given back with the end of the statement.
        let sql = "/* every org */ SELECT CASE WHEN pg_try_advisory_xact_lock($1) THEN 0::bigint ELSE 1::bigint END";
        Ok(self.read(sql, &[Val::Int(lock_of_server(server))]).await? == [vec![Val::Int(1)]])
    }

    pub(crate) async fn now(&self) -> Result<Timestamp, Error> {
        match self.time.known() {
            Some(now) => Ok(now),
            None => {
                let rows = self.read(DATABASE_TIME, &[]).await?;
                self.time.learn(&rows)
            }
        }
    }

    /// Runs a statement on the connection of the lease; see `Db::renew_lease`.
    pub(crate) fn renew_lease<'a>(&'a self, sql: &'a str, said: String) -> countersign_core::Future<'a, Result<Timestamp, Error>> {
        Box::pin(async move {
            let limit = Duration::from_secs(LEASE_RENEW_SECONDS);
            let client = answer_within(limit, checked_out(&self.leasing)).await?;
            let renewed = answer_within(limit, async {
                let now = match self.time.known() {
                    Some(now) => now,
                    None => self.time.learn(&query(&client, DATABASE_TIME, &[]).await?)?,
                };
                query(&client, sql, &[Val::Text(self.lease.id().to_string()), now.into(), Val::Text(said)]).await?;
                Ok(now)
            });
            let renewed = renewed.await;
            if renewed.is_err() {
                drop(Object::take(client));
            }
            renewed
        })
    }

    pub(super) fn pulse(&self) -> &Pulse {
        &self.pulse
    }

    pub(super) fn lease(&self) -> &Lease {
        &self.lease
    }

    pub(super) fn remembered(&self) -> &Remembered {
        &self.heard.remembered
    }

    pub(super) fn news(&self) -> &News {
        &self.heard.news
    }
}

fn pool_of(config: &tokio_postgres::Config, connections: usize) -> Result<Pool, Error> {
    let manager = Manager::from_config(config.clone(), tls(), ManagerConfig { recycling_method: RecyclingMethod::Fast });
    let pool = Pool::builder(manager)
        .max_size(connections)
        .runtime(Runtime::Tokio1)
        .wait_timeout(Some(CONNECT_TIMEOUT))
        .create_timeout(Some(CONNECT_TIMEOUT));
    pool.build().map_err(|error| Error::Unavailable { message: error.to_string() })
}

async fn answer_within<T>(limit: Duration, answer: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let away = |_| Error::Unavailable { message: format!("the database did not answer within {} seconds", limit.as_secs()) };
    tokio::time::timeout(limit, answer).await.map_err(away)?
}

const fn is_away(error: &Error) -> bool {
    matches!(error, Error::Unavailable { .. })
}

pub(super) async fn query(client: &ClientWrapper, sql: &str, params: &[Val]) -> Result<Vec<Row>, Error> {
    let statement = client.prepare_cached(sql).await.map_err(classify)?;
    let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|value| value as _).collect();
    let rows = client.query(&statement, &params).await.map_err(classify)?;
    rows.iter().map(values).collect()
}

pub(super) async fn scan(client: &ClientWrapper, sql: &str, each: &mut (dyn FnMut(Row) -> Result<(), Error> + Send)) -> Result<(), Error> {
    let rows = client.query_raw(sql, std::iter::empty::<Val>()).await.map_err(classify)?;
    let mut rows = std::pin::pin!(rows);
    while let Some(row) = rows.try_next().await.map_err(classify)? {
        each(values(&row)?)?;
    }
    Ok(())
}

fn values(row: &tokio_postgres::Row) -> Result<Row, Error> {
    let value = |(index, column): (usize, &tokio_postgres::Column)| match *column.type_() {
        Type::INT8 => row.try_get::<_, Option<i64>>(index).map(Val::from),
        Type::INT4 => row.try_get::<_, Option<i32>>(index).map(|int| int.map(i64::from).into()),
        Type::BYTEA => row.try_get::<_, Option<Vec<u8>>>(index).map(Val::from),
        _ => row.try_get::<_, Option<String>>(index).map(Val::from),
    };
    row.columns().iter().enumerate().map(value).collect::<Result<Row, _>>().map_err(classify)
}

async fn checked_out(pool: &Pool) -> Result<Object, Error> {
    pool.get().await.map_err(|error| Error::Unavailable { message: error.to_string() })
}

/// Connects once, before anything stands on the connections. A database that refuses this server, however long it waits, is told apart from one
/// that is away: a wrong password, or a database that is not there. Later every refusal counts as an outage, because the server has worked here.
async fn reach(pool: &Pool) -> Result<(), Error> {
    let error = match pool.get().await {
        Ok(_) => return Ok(()),
        Err(PoolError::Backend(error)) => error,
        Err(error) => return Err(Error::Unavailable { message: error.to_string() }),
    };
    let is_unanswered = match std::error::Error::source(&error) {
        Some(source) => source.is::<std::io::Error>(),
        None => error.is_closed(),
    };
    match error.code() {
        // Such as a password that the URL lacks.
        None if !is_unanswered => Err(Error::Corrupt { message: told(&error) }),
        _ => Err(classify(error)),
    }
}

async fn be_present(client: &ClientWrapper, server: &ServerId) -> Result<(), Error> {
    // In shared mode, too: PostgreSQL may not have noticed yet that an earlier connection of this server is gone.
    let own = lock_of_server(server.as_str());
    let words = format!("SELECT pg_advisory_lock_shared({PRESENCE_LOCK}); SELECT pg_advisory_lock_shared({own})");
    client.batch_execute(&words).await.map_err(classify)
}

fn lock_of_server(server: &str) -> i64 {
    lock_named(&format!("countersign server {server}"))
}

/// The advisory lock with this name. Two names may happen to share one.
fn lock_named(name: &str) -> i64 {
    i64::from_le_bytes(*blake3::hash(name.as_bytes()).as_bytes().first_chunk().unwrap_or(&[0; 8]))
}

/// Takes the presence lock again if its connection was lost in an outage. The writer calls this before it writes anything new.
async fn stay_present(pool: &Pool, presence: &Presence, server: &ServerId) -> Result<(), Error> {
    let mut presence = presence.lock().await;
    if presence.as_ref().is_some_and(|client| client.is_closed()) {
        let client = Object::take(checked_out(pool).await?);
        be_present(&client, server).await?;
        *presence = Some(client);
    }
    Ok(())
}

/// Everything the writer thread uses while it runs.
struct Life {
    patience: Patience,
    /// Where the writer alone takes its connection from. One of the readers' pool may have been made on the runtime of a reader, and would
    /// stay there: each statement would wake two threads more.
    writing: Pool,
    /// The readers'. The presence lock has its connection from there.
    pool: Pool,
    time: Arc<Time>,
    presence: Presence,
    pulse: Arc<Pulse>,
    heard: Arc<Heard>,
    lease: Arc<Lease>,
    bell: Bell,
    counting: Counting,
}

impl Life {
    /// Starts the writer on a thread of its own, together with its connection: a round trip then wakes no other thread.
    fn start(self, queue: Queue, sealing: Sealing) -> Result<(), Error> {
        let unable = |error: std::io::Error| Error::Unavailable { message: format!("the writer thread could not start: {error}") };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(unable)?;
        let live = move || runtime.block_on(self.write_all(queue, sealing));
        std::thread::Builder::new().name("postgres-writer".into()).spawn(live).map(|_detached| ()).map_err(unable)
    }

    /// Waits for a write, runs it and all writes queued meanwhile, commits once, and answers all of them.
    async fn write_all(mut self, mut queue: Queue, mut sealing: Sealing) {
        let mut kept = None;
        while let Some(first) = queue.wait().await {
            let mut batch = vec![first];
            let committed = match self.take(kept.take()).await {
                // There is no connection. The writes queued meanwhile would wait just as long for the same error, so they get it now.
                Err(error) => {
                    fill(&mut batch, &mut queue, QUEUE_MAX);
                    Err(error)
                }
                Ok(client) => {
                    fill(&mut batch, &mut queue, BATCH_MAX);
                    let orgs = batch.iter().filter_map(|write| write.org()).cloned().collect();
                    let writer = Writer::new(client, self.patience, orgs);
                    let mut tx = Tx::new(Connection::Postgres(writer), sealing, Arc::clone(&self.lease));
                    let committed = AssertUnwindSafe(self.commit_batch(&mut tx, &mut queue, &mut batch)).catch_unwind().await;
                    // One write panicked: its connection is dropped, and every write of the batch may be retried.
                    let committed = committed.unwrap_or_else(|_panic| Err(super::by_a_bug()));
                    self.heard.remembered.forget(&tx.changes);
                    sealing = tx.sealing;
                    if committed.is_ok() {
                        self.counting.note(batch.len());
                        self.heard.publish(sealing.take_last_events());
                        kept = match tx.connection {
                            Connection::Postgres(writer) => Some(writer.client),
                            Connection::Sqlite(_) => None,
                        };
                    }
                    // Other servers move the head of the audit log too, so it is read again in every batch.
                    sealing.forget();
                    committed
                }
            };
            self.pulse.committed(&committed);
            metrics::histogram!("countersign_store_batch_writes").record(batch.len() as f64);
            let told = super::told(&committed, batch.len());
            self.bell.tell(move || super::answer_all(batch, &told));
        }
    }

    async fn take(&self, kept: Option<ClientWrapper>) -> Result<ClientWrapper, Error> {
        stay_present(&self.pool, &self.presence, self.lease.id()).await?;
        match kept {
            Some(client) if !client.is_closed() => Ok(client),
            _ => {
                // Taken out of the pool for good: one that is lost is not used again.
                let client = Object::take(checked_out(&self.writing).await?);
                answer_within(self.patience.read, async { client.batch_execute(WRITER_SETTINGS).await.map_err(classify) }).await?;
                Ok(client)
            }
        }
    }

    async fn commit_batch(&self, tx: &mut Tx, queue: &mut Queue, batch: &mut Vec<Box<dyn Write>>) -> Result<(), Error> {
        // On an error the connection is dropped, and PostgreSQL rolls back.
        self.run_batch(tx, queue, batch).await?;
        let statements = tx.sealing.closing();
        let notices: Vec<_> = tx.changes.iter().map(listen::notice_of).collect();
        let writer = writer(tx)?;
        notices.iter().for_each(|notice| writer.say_later(notice));
        writer.commit(&statements).await
    }

    async fn run_batch(&self, tx: &mut Tx, queue: &mut Queue, batch: &mut Vec<Box<dyn Write>>) -> Result<(), Error> {
        tx.now = match self.time.known() {
            Some(now) => now,
            None => self.time.learn(&writer(tx)?.query(DATABASE_TIME, &[]).await?)?,
        };
        let mut next = 0;
        while let Some(write) = batch.get_mut(next) {
            tx.savepoint = Savepoint::Wanted;
            // No entry is earlier than a time it holds, although a write may join the batch late.
            tx.now = self.time.now();
            let mark = tx.sealing.mark();
            let outcome = write.run(tx).await;
            if outcome.is_err() {
                tx.sealing.undo_to(mark);
            }
            // The whole batch has failed, or the database is unavailable: each further write would only wait for the same time-out.
            if let Some(error) = tx.broken.take().or_else(|| outcome.as_ref().err().filter(|error| is_away(error)).cloned()) {
                return Err(error);
            }
            match (outcome, std::mem::replace(&mut tx.savepoint, Savepoint::Outside)) {
                (_, Savepoint::Outside | Savepoint::Wanted) => {}
                (Ok(()), Savepoint::Set) => writer(tx)?.say_later("RELEASE one"),
                (Err(_), Savepoint::Set) => writer(tx)?.say("ROLLBACK TO one; RELEASE one").await?,
            }
            next += 1;
            // It may not take a write of another org, because locking that org now would break the lock order.
            let writer = writer(tx)?;
            if batch.len() < BATCH_MAX
                && let Some(write) = queue.take_if(|write| write.org().is_none_or(|org| writer.has_locked(org)))
            {
                batch.push(write);
            }
        }
        Ok(())
    }
}

/// Adds the writes that are queued now.
fn fill(batch: &mut Vec<Box<dyn Write>>, queue: &mut Queue, max: usize) {
    while batch.len() < max
        && let Some(write) = queue.take_if(|_| true)
    {
        batch.push(write);
    }
}

fn writer(tx: &mut Tx) -> Result<&mut Writer, Error> {
    match &mut tx.connection {
        Connection::Postgres(writer) => Ok(writer),
        Connection::Sqlite(_) => Err(Error::Corrupt { message: "the PostgreSQL writer holds another engine's connection".into() }),
    }
}

/// Trusts the authorities the system trusts, so also a company's own; if the system lists none, the public authorities.
fn tls() -> tokio_postgres_rustls::MakeRustlsConnect {
    let mut roots = rustls::RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    let (added, _unreadable) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    tokio_postgres_rustls::MakeRustlsConnect::new(rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth())
}

/// The driver's own message is terse; the source error says what happened.
fn told(error: &tokio_postgres::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

fn classify(error: tokio_postgres::Error) -> Error {
    let message = told(&error);
    match error.code() {
        Some(state) if !is_outage(state.code()) => Error::Corrupt { message },
        Some(_) | None => Error::Unavailable { message },
    }
}

/// Whether PostgreSQL says with this SQLSTATE that it did not do what was asked, but may do it later. The first two characters are the class.
fn is_outage(state: &str) -> bool {
    // Whole classes: the connection is lost, there is too little of something, or whoever operates the database ended it.
    matches!(state.get(..2), Some("08" | "53" | "57"))
        || matches!(
            state,
            // Its transaction was idle for longer than PostgreSQL lets it, or lasted longer, or had failed before.
            "25P02" | "25P03" | "25P04"
            // A standby takes no writes.
            | "25006"
            // Another transaction was in the way: a serialization failure, a deadlock, a lock.
            | "40001" | "40P01" | "55P03"
            // The disk failed.
            | "58030"
            // `update_later` divides by zero on purpose when its row is not there.
            | "22012"
        )
}

impl ToSql for Val {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut tokio_postgres::types::private::BytesMut,
    ) -> Result<tokio_postgres::types::IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Self::Null => Ok(tokio_postgres::types::IsNull::Yes),
            Self::Int(int) if *ty == Type::INT4 => i32::try_from(*int)?.to_sql(ty, out),
            Self::Int(int) => int.to_sql(ty, out),
            Self::Text(text) => text.to_sql(ty, out),
            Self::Bytes(bytes) => bytes.to_sql(ty, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    tokio_postgres::types::to_sql_checked!();
}

#[cfg(test)]
mod tests {
    use super::is_outage;

    #[test]
    fn what_may_work_later_is_an_outage_and_nothing_else() {
        let outages = [
            "08000", "08001", "08003", "08004", "08006", "08007", "08P01", "25006", "25P02", "25P03", "25P04", "40001", "40P01", "53000",
            "53100", "53200", "53300", "53400", "55P03", "57000", "57014", "57P01", "57P02", "57P03", "57P04", "57P05", "58030", "22012",
        ];
        // A constraint, a value, a password, a database or a table that is not there, pages that are damaged, a bug.
        let rest = ["23505", "23503", "22003", "28P01", "28000", "3D000", "42P01", "42601", "58P01", "XX000", "XX001", "", "5"];
        for state in outages {
            assert!(is_outage(state), "{state}");
        }
        for state in rest {
            assert!(!is_outage(state), "{state}");
        }
    }
}
