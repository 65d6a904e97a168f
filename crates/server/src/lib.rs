//! The composition root: the server's parts are put together here and nowhere else.
//!
//! `config` has the settings, `compose` builds the parts, `http` is the HTTP API, `operations` has the rules behind every door (the ways
//! in: HTTP and others), and `loops` has the background work.

pub mod config;
pub mod demo;
pub mod http;
pub mod packages;

mod added_sources;
mod allowed;
mod compose;
mod data_dir;
mod energy;
mod followed;
mod homes;
mod jail;
mod lag;
mod lease;
mod look;
mod loops;
mod master_key;
mod mcp;
mod notify;
mod one_time_login;
mod operations;
mod ports;
mod render;
mod sign_in;
mod source_events;
mod stream;
mod telemetry;
mod tls;
mod tries;
mod worker;

pub use added_sources::{AddedConfig, AddedRegistry};
pub use allowed::{AllowLists, Fixed};
pub use compose::{App, Parts, open_store, open_store_unchanged, replace_master_key};
pub use config::{Config, ConfigError, Flags, LogFormat};
pub use data_dir::{HeldData, hold_data};
pub use homes::Homes;
pub use http::openapi_json;
pub use jail::{HostProbe, look_at_host};
pub use lag::Lags;
pub use look::{Interpreter, Spelling, interpreters, spelling_below};
pub use loops::measure;
pub use master_key::MasterKeyFiles;
pub use notify::{Courier, CourierConfig};
pub use policy::scan::sentence_of;
pub use ports::{OsRandom, SystemClock, asked_to_stop};
pub use sign_in::SignIn;
pub use telemetry::{init_logs, init_metrics};
pub use tls::{Look, Tls, TlsError, TlsFiles};
pub use worker::work;

use countersign_core::limits::DATABASE_WAIT_SECONDS;
use countersign_core::{Clock as _, Secret};
use durable::Pace;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use store::Store;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

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

/// Must be called first in `main`. If the process was started to confine a program, or to render templates, this call does that and never
/// returns.
pub fn become_helper_if_asked() {
    sandbox::main_if_asked();
    sandbox::worker::serve_if_asked(automation::template::worker::serve);
}

/// Installs the TLS provider, which everything else needs.
pub fn init_process() {
    // A second call finds a provider installed, which is fine.
    let _already = rustls::crypto::ring::default_provider().install_default();
}

/// Opens the store. If its PostgreSQL database is away, the server waits for it, and meanwhile tells whoever asks that it is not ready.
async fn open_store_when_there(config: &Config, listener: &TcpListener, tls: Option<&Tls>) -> Result<Store, Error> {
    let is_away = |opened: &Result<Store, Error>| matches!(opened, Err(Error::Store(error)) if error.is_transient());
    let opened = compose::open_to_serve(config).await;
    let (Err(error), true) = (&opened, is_away(&opened) && config.database.is_some()) else { return opened };
    let address = http::address_of(listener, &config.listen);
    tracing::warn!(%error, address, seconds = DATABASE_WAIT_SECONDS, "waiting for the database: nothing is served until it is there");
    let opening = Pace::for_at_most(Duration::from_secs(DATABASE_WAIT_SECONDS)).retry(is_away, || compose::open_to_serve(config));
    let opened = tokio::select! {
        opened = opening => opened?,
        never = http::answer_meanwhile(listener, tls) => match never {},
    };
    tracing::info!("the database is there");
    Ok(opened)
}

/// Reconciles the calls that a crash left behind. That is usually only a look at the disk. If a provider has to be asked and does not
/// answer in time, the server starts all the same and the reconciling continues in the background.
async fn recover(parts: &compose::Parts) -> Result<(), Error> {
    let (recovering, store) = (parts.pipeline.recover(), parts.store.clone());
    let mut recovering = tokio::spawn(async move {
        recovering.await?;
        if let Err(error) = store.end_earlier_leases().await {
            tracing::warn!(%error, "the leases of earlier servers on this data folder could not be ended; they run out by themselves");
        }
        Ok::<(), pipeline::Error>(())
    });
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

/// We hold the lock of the data folder, so the earlier servers on it are gone. This server takes over the calls they left. The folder
/// remembers each of them as long as it has a lease, which `recover` ends: this server may die before that too.
async fn follow_earlier(store: &Store, data: &data_dir::DataDir) -> Result<(), Error> {
    let with_lease = store.list_servers().await?;
    let mut servers = vec![store.server_id().clone()];
    for earlier in data.earlier_servers() {
        store.succeed(earlier.clone());
        if with_lease.iter().any(|server| server.id == earlier) {
            servers.push(earlier);
        }
    }
    data.write_servers(&servers)
}

/// The address that logs the owner in once. Without it, they log in with their token.
async fn sign_in_url(app: &App, data: &data_dir::DataDir) -> Option<String> {
    let token = Secret::new(std::fs::read_to_string(data.owner_token_file()).ok()?);
    let text = operations::logins::offer(app, &token).await.ok()??;
    Some(format!("{}/login/once/{}", app.parts.address.address(), text.expose()))
}

/// Serves until the process is asked to stop, then waits for running calls to end.
pub async fn serve(config: Config, started: impl FnOnce(&Started) + Send) -> Result<(), Error> {
    serve_until(config, started, asked_to_stop).await
}

/// Like `serve`, until what `asked_to_stop` returns resolves. It is called right before `started`.
pub async fn serve_until<Stop: Future<Output = ()> + Send>(
    config: Config,
    started: impl FnOnce(&Started) + Send,
    asked_to_stop: impl FnOnce() -> Stop + Send,
) -> Result<(), Error> {
    let metrics = telemetry::init_metrics();
    ports::allow_open_files();
    let data = data_dir::DataDir::open(&config)?;
    let tls = config.tls.clone().map(|files| Tls::open(files, SystemClock.now())).transpose()?.map(Arc::new);
    let scheme = if tls.is_some() { "https" } else { "http" };
    let listener = http::listen(&config.listen).await?;
    let url = format!("{scheme}://{}", http::address_of(&listener, &config.listen));
    let address = config.public_url.clone().unwrap_or_else(|| http::reachable(&listener, &config.listen, scheme));
    let store = open_store_when_there(&config, &listener, tls.as_deref()).await?;
    let (parts, first) = compose::compose(&config, &data, store, sources::oauth::Own::new(&address), metrics).await?;
    follow_earlier(&parts.store, &data).await?;
    // The lease starts before any other work, because reconciling what a crash left may take long.
    let lease = lease::KeptLease::keep(&parts.store);
    recover(&parts).await?;
    let mut told = Started {
        url,
        data: config.data.clone(),
        owner_token: first,
        owner_token_file: data.owner_token_file(),
        sign_in_url: None,
        public_key_file: data.public_key_file(),
        store: parts.store.engine_name(),
        workspace: data_dir::workspace_below(&config.data),
    };
    data.write_url(&told.url)?;
    let stop = CancellationToken::new();
    let background = loops::start(&parts, &stop);
    if let Some(tls) = &tls {
        // Its end needs no waiting for: it only reads.
        tokio::spawn(Arc::clone(tls).keep_fresh(SystemClock, stop.clone()));
    }
    let app = App::new(parts);
    told.sign_in_url = sign_in_url(&app, &data).await;
    let folder = std::path::absolute(&told.data).unwrap_or_else(|_| told.data.clone());
    tracing::info!(url = told.url, store = told.store, data = %folder.display(), "serving");
    if tls.is_none() && http::is_open_to_others(&listener) {
        tracing::warn!(
            "other machines can reach this address, and nothing sent to it is encrypted: name a certificate with `tls_cert` and `tls_key`, or put a TLS proxy in front and listen on 127.0.0.1"
        );
    }
    // The signal handlers are installed before `started` reports the server: a signal before that would kill the process without a clean
    // shutdown.
    let asked_to_stop = asked_to_stop();
    started(&told);
    let way = http::Way { tls, trusted_proxies: config.trusted_proxies.clone(), proxy_headers: config.proxy_headers.clone() };
    http::serve_over(listener, way, app.clone(), asked_to_stop).await;
    stop.cancel();
    background.await;
    let is_over = app.finish().await;
    if let Some(lease) = lease {
        lease.end(is_over).await;
    }
    Ok(())
}
