//! Opens the store that the settings name, under the master key that is beside it.

use crate::config::Config;
use crate::data_dir::{self, HeldData};
use crate::master_key::{self, Absent, MasterKeyFiles, Refused};
use crate::{Error, OsRandom, SystemClock};
use countersign_core::Random;
use std::sync::Arc;
use store::{Engine, Store, TimeSource};

/// Opens the store of a configuration, without a server around it. The master key must exist: without its key the data cannot be read.
pub async fn open_store(config: &Config) -> Result<Store, Error> {
    Ok(Store::open(store_config(config, Absent::Refuse)?).await?)
}

/// Opens the store of a server that starts. A database that is away is an `Error::Store`, so that the server can wait for it.
pub async fn open_to_serve(config: &Config) -> Result<Store, Error> {
    let absent = if data_dir::holds_data(config) { Absent::Refuse } else { Absent::Create };
    Store::open(store_config(config, absent)?).await.map_err(|error| match error {
        store::Error::Corrupt { message } => Error::Database(message),
        store::Error::Unavailable { .. } | store::Error::Fenced | store::Error::CommitUnknown { .. } => Error::Store(error),
    })
}

/// Opens the same store without migrating its schema, because a server may be running on it.
pub async fn open_store_unchanged(config: &Config) -> Result<Store, Error> {
    Ok(Store::open_unchanged(store_config(config, Absent::Refuse)?).await?)
}

/// Replaces the master key on a data folder that no server uses, as a server does while it works; `resealed` is told how many values each
/// write has sealed anew. It also ends a replacement that was interrupted.
pub async fn replace_master_key(config: &Config, held: &HeldData, resealed: impl FnMut(u64) + Send) -> Result<(), Error> {
    let files = MasterKeyFiles::of(config);
    let opened = store_config(config, Absent::Refuse)?;
    let random = Arc::clone(&opened.random);
    let store = Store::open(opened).await?;
    held.earlier_servers().into_iter().for_each(|earlier| store.succeed(earlier));
    match master_key::begin(&files, &store, &*random, None).await {
        Ok(()) | Err(Refused::Changing) => master_key::carry_on(&files, &store, resealed).await,
        Err(Refused::Unready(message)) => Err(Error::MasterKey(message)),
        Err(Refused::Store(error)) => Err(error.into()),
    }
}

fn store_config(config: &Config, absent: Absent) -> Result<store::Config, Error> {
    data_dir::prepare(&config.data)?;
    let random: Arc<dyn Random> = Arc::new(OsRandom::default());
    let files = MasterKeyFiles::of(config);
    let master = files.present(absent, &*random)?;
    // If the database needs it, the store says so.
    let next_master = files.next().unwrap_or_else(|error| {
        tracing::warn!(%error, "the next master key cannot be read");
        None
    });
    let engine = match &config.database {
        None => Engine::Sqlite { path: data_dir::private_database_file(&config.data)? },
        Some(url) => Engine::Postgres { url: url.clone() },
    };
    let time = TimeSource::Database(Arc::new(SystemClock));
    Ok(store::Config { engine, master, next_master, time, patience: store::Patience::default(), random })
}
