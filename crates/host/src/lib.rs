//! What a server stands on at its host: its settings, its data folder and the keys in it, its certificate, its logs, the clock, randomness and
//! signals; and why it could not start. The command line uses it too, without a server.

pub mod limits;
pub mod config;
pub mod data_dir;
pub mod master_key;

mod look;
mod open;
mod ports;
mod telemetry;
mod tls;

pub use config::{Config, ConfigError, DescribedSetting, Flags, LogFormat};
pub use data_dir::{HeldData, hold_data};
pub use look::{Interpreter, Spelling, interpreters, spelling_below};
pub use master_key::MasterKeyFiles;
pub use open::{open_store, open_store_unchanged, open_to_serve, replace_master_key};
pub use ports::{OsRandom, SystemClock, allow_open_files, asked_to_stop};
pub use telemetry::{init_logs, init_metrics};
pub use tls::{Look, Tls, TlsError, TlsFiles};

use std::path::PathBuf;

/// Why the server could not start or continue.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot listen on `{address}`: {message}")]
    Listen { address: String, message: String },
    #[error("the data folder `{path}` cannot be used: {message}", path = path.display())]
    DataDir { path: PathBuf, message: String },
    #[error("another countersign is serving the data folder `{path}`; stop it first", path = path.display())]
    InUse { path: PathBuf },
    #[error("{0}")]
    MasterKey(String),
    #[error("the database cannot be used: {0}")]
    Store(#[from] store::Error),
    /// It is there, and would be no better later: it refuses this server, or has a schema of another version.
    #[error("the database cannot be used: {0}")]
    Database(String),
    #[error("the store cannot be brought to rest after a crash: {0}")]
    Recover(#[from] pipeline::Error),
    #[error("a source cannot start: {0}")]
    Source(String),
    #[error("the shared rate limit cannot start: {0}")]
    Limiter(store::Error),
    #[error("nobody could sign in: {0}")]
    SignIn(String),
    #[error("TLS cannot be used: {0}")]
    Tls(#[from] TlsError),
}

/// The facts that are printed once the server accepts requests.
#[derive(Debug, Clone)]
pub struct Started {
    pub url: String,
    pub data: PathBuf,
    /// Only set if this start created the org.
    pub owner_token: Option<String>,
    pub owner_token_file: PathBuf,
    /// Logs the owner in, in one browser, once; absent if the token in the data folder is no longer valid.
    pub sign_in_url: Option<String>,
    pub public_key_file: PathBuf,
    pub store: &'static str,
    pub workspace: PathBuf,
}
