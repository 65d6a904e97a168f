//! The composition root: everything is put together here and nowhere else.
//! `config` says what to build, `compose` builds it, `http` is the door, `operations` has the rules behind every door, `loops` is what
//! goes on in the background.

pub mod config;
pub mod http;
pub mod packages;

mod compose;
mod data_dir;
mod homes;
mod jail;
mod lease;
mod look;
mod loops;
mod operations;
mod ports;
mod telemetry;

pub use compose::{App, Parts, open_store, open_store_unchanged};
pub use config::{Config, ConfigError, Flags, LogFormat};
pub use data_dir::{HeldData, hold_data};
pub use homes::Homes;
pub use http::openapi_json;
pub use jail::{HostProbe, look_at_host};
pub use look::{Interpreter, Spelling, interpreters, spelling_below};
pub use ports::{OsRandom, SystemClock};
pub use telemetry::{init_logs, init_metrics};

use std::path::PathBuf;
use std::time::Duration;
use store::Store;
use tokio_util::sync::CancellationToken;

/// Why the server could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot listen on `{address}`: {message}")]
    Listen { address: String, message: String },
    #[error("the data folder `{path}` cannot be used: {message}", path = path.display())]
    DataDir { path: PathBuf, message: String },
    #[error("another countersign is serving the data folder `{path}`; stop it first", path = path.display())]
    InUse { path: PathBuf },
    #[error("the database cannot be used: {0}")]
    Store(#[from] store::Error),
    #[error("the store cannot be brought to rest after a crash: {0}")]
    Recover(#[from] pipeline::Error),
    #[error("a source cannot start: {0}")]
    Source(String),
    #[error("the shared rate limit cannot start: {0}")]
    Limiter(store::Error),
}

/// What is told once the server answers.
#[derive(Debug, Clone)]
pub struct Started {
    pub url: String,
    pub data: PathBuf,
    /// Only when this start created the org.
    pub owner_token: Option<String>,
    pub owner_token_file: PathBuf,
    pub public_key_file: PathBuf,
    pub store: &'static str,
    pub workspace: PathBuf,
}

/// The first thing a process does: where it was started to confine a program, it does that and never comes back.
pub fn become_jail_if_asked() {
    sandbox::main_if_asked();
}

/// What a process needs before anything else: the TLS provider.
pub fn init_process() {
    // A second call finds the provider there; that is as good.
    let _already = rustls::crypto::ring::default_provider().install_default();
}

/// Finds out what became of whatever a crash left behind. Most often that is a look at the disk; where a provider has to be asked and
/// does not answer, the door opens all the same.
async fn recover(parts: &compose::Parts) -> Result<(), Error> {
    let mut recovering = tokio::spawn(parts.pipeline.recover());
    let grace = Duration::from_secs(countersign_core::limits::RECOVERY_GRACE_SECONDS);
    match tokio::time::timeout(grace, &mut recovering).await {
        Ok(Ok(recovered)) => Ok(recovered?),
        Ok(Err(panicked)) => {
            tracing::error!(%panicked, "what a crash left behind could not be looked at; the next start tries again");
            Ok(())
        }
        Err(_elapsed) => {
            tracing::warn!("what a crash left behind is still being found out");
            tokio::spawn(async move {
                if let Ok(Err(error)) = recovering.await {
                    tracing::error!(%error, "what a crash left behind could not be found out; the next start tries again");
                }
            });
            Ok(())
        }
    }
}

/// The server before this one on the data folder is gone, since its lock is ours: what it left is this one's to find out about.
fn follow_earlier(store: &Store, data: &data_dir::DataDir) -> Result<(), Error> {
    if let Some(earlier) = data.earlier_server() {
        store.succeed(earlier);
    }
    data.write_server(store.server_id())
}

/// Serves until the process is asked to stop, then finishes what runs.
pub async fn serve(config: Config, started: impl FnOnce(&Started) + Send) -> Result<(), Error> {
    let metrics = telemetry::init_metrics();
    let data = data_dir::DataDir::open(&config)?;
    let listener = http::listen(&config.listen).await?;
    let (parts, first) = compose::compose(&config, &data, metrics).await?;
    follow_earlier(&parts.store, &data)?;
    // Begun before anything is: finding out what was left behind may take long.
    let lease = lease::KeptLease::keep(&parts.store);
    recover(&parts).await?;
    let told = Started {
        url: format!("http://{}", http::address_of(&listener, &config.listen)),
        data: config.data.clone(),
        owner_token: first,
        owner_token_file: data.owner_token_file(),
        public_key_file: data.public_key_file(),
        store: parts.store.engine_name(),
        workspace: data_dir::workspace_below(&config.data),
    };
    data.write_url(&told.url)?;
    let stop = CancellationToken::new();
    let background = loops::start(&parts, &stop);
    let app = App::new(parts);
    let folder = std::path::absolute(&told.data).unwrap_or_else(|_| told.data.clone());
    tracing::info!(url = told.url, store = told.store, data = %folder.display(), "serving");
    if http::is_open_to_others(&listener) {
        tracing::warn!(
            "other machines can reach this address, and nothing sent to it is encrypted: put TLS in front, and listen on 127.0.0.1"
        );
    }
    // Heard before anybody is told that there is a server to stop: what came earlier would end it without a goodbye.
    let asked_to_stop = ports::asked_to_stop();
    started(&told);
    http::serve(listener, app.clone(), asked_to_stop).await;
    stop.cancel();
    background.await;
    let is_over = app.finish().await;
    if let Some(lease) = lease {
        lease.end(is_over).await;
    }
    Ok(())
}
