//! Stores for the tests inside this crate.

use crate::{Config, Engine, MasterKey, Store, TimeSource};
use countersign_core::Secret;
use std::ops::Deref;
use std::sync::Arc;
use testkit::{FixedClock, SeededRandom};

/// A store and the folder it lives in.
pub(crate) struct Opened {
    store: Store,
    engine: Engine,
    pub(crate) folder: tempfile::TempDir,
}

impl Opened {
    /// Another store on the same database, as another process would open it.
    pub(crate) async fn another(&self) -> Store {
        open(self.engine.clone()).await
    }
}

impl Deref for Opened {
    type Target = Store;
    fn deref(&self) -> &Store {
        &self.store
    }
}

pub(crate) async fn sqlite() -> Opened {
    let folder = tempfile::tempdir().unwrap();
    let engine = Engine::Sqlite { path: folder.path().join("test.db") };
    Opened { store: open(engine.clone()).await, engine, folder }
}

pub(crate) async fn postgres() -> Opened {
    let engine = Engine::Postgres { url: testkit::postgres::fresh_database().await };
    Opened { store: open(engine.clone()).await, engine, folder: tempfile::tempdir().unwrap() }
}

async fn open(engine: Engine) -> Store {
    // If a provider is installed already, that one serves as well.
    let _already = rustls::crypto::ring::default_provider().install_default();
    let time = TimeSource::Fixed(Arc::new(FixedClock::new()));
    let master = MasterKey::new(&Secret::new([7; 32]));
    let (patience, random) = (crate::Patience::default(), Arc::new(SeededRandom::new(1)));
    Store::open(Config { engine, master, next_master: None, time, patience, random }).await.unwrap()
}
