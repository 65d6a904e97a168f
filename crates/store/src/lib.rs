//! The store keeps all persistent state, on SQLite or PostgreSQL behind the same functions. The rate limiters stand beside it.
//! Read `db` for how writes are batched, `seal` for how entries are signed inside them, `invocations` for the life of a call.
//! SQL lives here and nowhere else; every statement names the org it is for.

pub mod limits;
mod db;
mod keys;
mod migrate;
mod seal;

mod about;
mod allowed;
mod archive;
mod artifacts;
mod automations;
mod backup;
mod batches;
mod breakers;
mod budgets;
mod bus;
mod canaries;
mod chains;
mod channels;
mod checkpoints;
mod claims;
mod connections;
mod consents;
mod crossings;
mod dead_letters;
mod definitions;
mod deliveries;
mod documents;
mod drafts;
mod events;
mod firings;
mod gatherings;
mod grants;
mod integrity;
mod invocations;
mod limiter;
mod lines;
mod listings;
mod logins;
mod modes;
mod notifications;
mod observed;
mod orgs;
mod policies;
mod prices;
mod principals;
mod quarantines;
mod receipts;
mod retention;
mod reviews;
mod rule_log;
mod rules;
mod runs;
mod secrets;
mod servers;
mod sessions;
mod sign_ins;
mod slack;
mod snoozes;
mod sources;
mod stats;
mod sweep;
mod switches;
mod tokens;
mod users;

#[cfg(test)]
mod fixture;

pub use allowed::{AllowedRow, NewAllowed, SetAllowed};
pub use artifacts::{ArtifactFilter, Private};
pub use automations::{AutomationFilter, FromNow, SaveAutomation, Saved, SavedTrigger, TriggerChange};
pub use backup::{Moved, RestoreError};
pub use bus::Move;
pub use canaries::Canary;
pub use channels::{AddedChannel, NewChannel};
pub use connections::{CreatedConnection, Login, LoginEnd, NewConnection, RemovedConnection, TakenLogin};
pub use consents::NewConsent;
pub use countersign_core::ports::Error;
pub use crossings::{Crossing, ListedCrossing};
pub use db::{Engine, Patience, TimeSource};
pub use dead_letters::DeadLetter;
pub use definitions::Review;
pub use deliveries::{ClaimedDelivery, DeliveryEnd, DeliveryFilter};
pub use documents::DocumentFilter;
pub use firings::FiringFilter;
pub use grants::{GrantChanged, GrantFilter, NewGrant};
pub use integrity::Integrity;
pub use invocations::InvocationFilter;
pub use keys::{BegunReplacement, LogKey, MasterKey, MasterKeyId, MasterKeyState, Purpose};
pub use limiter::{MemoryLimiter, RedisLimiter};
pub use logins::LinkOpened;
pub use modes::{FiledMode, ModeChange, ModeSetting, ModeVersion};
pub use orgs::{MembersChange, NewOrg, Org, SpaceChange};
pub use policies::PolicyVersion;
pub use prices::PriceSetting;
pub use receipts::{InclusionProof, OldKeys, ReceiptFilter, StoredEntry};
pub use retention::Forgotten;
pub use runs::RunFilter;
pub use secrets::{DeletedSecret, NamedSecret, NewSecret, SecretUse, SetSecret};
pub use servers::Server;
pub use sessions::NewSession;
pub use sign_ins::{LetIn, OpenSignIn, SignedIn, TakenSignIn};
pub use sources::{Added, Changed};
pub use stats::ActionStats;
pub use tokens::{Lost, NewToken, Refused, Revoked, Token, TokenKind};
pub use users::{ChangedUser, User, UserChange};

use crate::limits::READINESS_SECONDS;
use countersign_core::{Clock, Future, OrgId, Random, ServerId, SpaceId, random_bytes};
use std::sync::Arc;
use std::time::Duration;

/// A page of rows, and where the next one begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// The cursor of the next page, to be passed as `PageRequest::after`; absent on the last page.
    pub next: Option<String>,
}

/// The page a caller asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRequest {
    pub limit: u32,
    pub after: Option<String>,
}

/// The settings a store is opened with.
pub struct Config {
    pub engine: Engine,
    pub master: MasterKey,
    /// The key that replaces `master`, or soon will. While it does, what either of them seals is read.
    pub next_master: Option<MasterKey>,
    pub time: TimeSource,
    /// Time limits for PostgreSQL's answers. SQLite needs none: it runs in this process.
    pub patience: Patience,
    pub random: Arc<dyn Random>,
}

/// The store. Cheap to clone; every clone writes through the same writer.
#[derive(Clone)]
pub struct Store {
    db: db::Db,
    keychain: Arc<keys::Keychain>,
    random: Arc<dyn Random>,
}

impl Store {
    /// Opens the database, brings its schema up to date, and starts the writer.
    pub async fn open(config: Config) -> Result<Self, Error> {
        let store = Self::connect(config).await?;
        migrate::migrate(&store.db).await?;
        store.keychain.load(&store.db).await?;
        Ok(store)
    }

    /// Like `open`, for a process that reads while a server may be running: another schema version is refused, not migrated.
    pub async fn open_unchanged(config: Config) -> Result<Self, Error> {
        let store = Self::connect(config).await?;
        migrate::check(&store.db).await?;
        store.keychain.load(&store.db).await?;
        Ok(store)
    }

    async fn connect(config: Config) -> Result<Self, Error> {
        let keychain = Arc::new(keys::Keychain::new(config.master, config.next_master, Arc::clone(&config.random)));
        let sealing = seal::sealing::Sealing::new(Arc::clone(&keychain));
        let (TimeSource::Database(clock) | TimeSource::Fixed(clock)) = &config.time;
        let server = ServerId::new(clock.now(), random_bytes(&*config.random));
        let db = db::Db::open(&config.engine, config.time, config.patience, sealing, server).await?;
        Ok(Self { db, keychain, random: config.random })
    }

    /// Whether the store takes writes, for `readyz`. It tries a write, unless one was committed within the last second and nothing has
    /// failed since; so frequent checks cost little. A store that does not answer within `READINESS_SECONDS` is not ready.
    pub async fn check_readiness(&self) -> Result<(), Error> {
        if self.db.took_a_write_just_now() {
            return Ok(());
        }
        let patience = Duration::from_secs(READINESS_SECONDS);
        let message = || format!("the store did not take a write within {READINESS_SECONDS} seconds");
        tokio::time::timeout(patience, self.check()).await.unwrap_or_else(|_| Err(Error::Unavailable { message: message() }))
    }

    /// Whether a write succeeds now. It is a real write, down to the disk: on a full disk, reads still work.
    pub async fn check(&self) -> Result<(), Error> {
        self.db
            .write_unscoped(|tx| {
                Box::pin(async move {
                    // An update to the same value writes nothing on SQLite. An insert does; the delete removes the row before the commit.
                    tx.exec("/* every org */ INSERT INTO schema_migrations (version, checksum, at) VALUES (-1, '', 0)", &[]).await?;
                    tx.exec("/* every org */ DELETE FROM schema_migrations WHERE version = -1", &[]).await.map(|_| ())
                })
            })
            .await
    }

    /// Opens the org's keys, so that a wrong master key is noticed at start and not at the first call.
    pub async fn check_keys(&self, org: &OrgId) -> Result<(), Error> {
        let org = org.clone();
        self.db.write(org.clone(), move |tx| Box::pin(async move { seal::key_ids(tx, &org).await.map(|_| ()) })).await
    }

    /// The name of the database engine in use.
    pub const fn engine_name(&self) -> &'static str {
        if self.db.is_postgres() { "postgresql" } else { "sqlite" }
    }

    /// Whether other servers may work on the same database. If so, each server must renew its lease.
    pub const fn may_be_shared(&self) -> bool {
        self.db.is_postgres()
    }

    /// The clock of the database, for every time that is stored: servers whose own clocks differ then agree. Unlike `now` it asks nobody, and
    /// between two readings it trusts this machine's monotonic clock.
    pub fn clock(&self) -> Arc<dyn Clock> {
        self.db.clock()
    }

    /// The newest schema version this binary knows.
    pub fn schema_version() -> i64 {
        migrate::version()
    }

    /// The public keys of the org's log, in the order they came into use.
    pub async fn list_log_keys(&self, org: &OrgId) -> Result<Vec<LogKey>, Error> {
        keys::list(&self.db, org).await
    }
}

impl countersign_core::keyring::Keyring for Store {
    fn space_key<'a>(
        &'a self,
        org: &'a OrgId,
        space: &'a SpaceId,
    ) -> Future<'a, Result<Arc<dyn countersign_core::keyring::SpaceKey>, Error>> {
        Box::pin(async move {
            let key: Arc<dyn countersign_core::keyring::SpaceKey> = self.keychain.space_key(&self.db, org, space).await?;
            Ok(key)
        })
    }
}

/// Makes a page of `rows`. The query fetched one row more than `limit`, if there is one: that row shows that another page follows.
fn page<T>(
    mut rows: Vec<db::Row>,
    limit: u32,
    read: impl FnMut(db::Row) -> Result<T, Error>,
    cursor: impl Fn(&T) -> String,
) -> Result<Page<T>, Error> {
    let limit = limit as usize;
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    let items = db::all(rows, read)?;
    let next = items.last().filter(|_| has_more).map(cursor);
    Ok(Page { items, next })
}
