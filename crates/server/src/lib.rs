//! The composition root: the server's parts are put together here and nowhere else.
//!
//! `compose` builds the parts, `loops` has the background work, `mcp` mounts the MCP door beside the HTTP door, and `worker` is a server without
//! doors. What it puts together stands in crates beside it: `host`, `homes`, `notify`, `stream`, `operations`, `http-door` and `mcp-door`.

pub mod limits;
mod compose;
mod energy;
mod lag;
mod lease;
mod loops;
mod mcp;
mod render;
mod worker;

pub use homes::{AddedConfig, AddedRegistry, AllowLists, Fixed, Homes};
pub use host::config;
pub use host::{
    Config, ConfigError, DescribedSetting, Error, Flags, LogFormat, MasterKeyFiles, OsRandom, Started, SystemClock, init_metrics,
    open_store,
};
pub use http_door::openapi_json;
pub use lag::Lags;
pub use loops::measure;
pub use mcp::routes as mcp_routes;
pub use notify::{Courier, CourierConfig};
pub use operations::{App, Parts, SignIn};
pub use worker::work;

use crate::limits::DATABASE_WAIT_SECONDS;
use countersign_core::{Clock as _, Secret};
use durable::Pace;
use host::{Tls, asked_to_stop, data_dir};
use std::sync::Arc;
use std::time::Duration;
use store::Store;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

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
    let opened = host::open_to_serve(config).await;
    let (Err(error), true) = (&opened, is_away(&opened) && config.database.is_some()) else { return opened };
    let address = http_door::address_of(listener, &config.listen);
    tracing::warn!(%error, address, seconds = DATABASE_WAIT_SECONDS, "waiting for the database: nothing is served until it is there");
    let opening = Pace::for_at_most(Duration::from_secs(DATABASE_WAIT_SECONDS)).retry(is_away, || host::open_to_serve(config));
    let opened = tokio::select! {
        opened = opening => opened?,
        never = http_door::answer_meanwhile(listener, tls) => match never {},
    };
    tracing::info!("the database is there");
    Ok(opened)
}

/// Reconciles the calls that a crash left behind. That is usually only a look at the disk. If a provider has to be asked and does not
/// answer in time, the server starts all the same and the reconciling continues in the background.
async fn recover(parts: &Parts) -> Result<(), Error> {
    let (recovering, store) = (parts.pipeline.recover(), parts.store.clone());
    let mut recovering = tokio::spawn(async move {
        recovering.await?;
        if let Err(error) = store.end_earlier_leases().await {
            tracing::warn!(%error, "the leases of earlier servers on this data folder could not be ended; they run out by themselves");
        }
        Ok::<(), pipeline::Error>(())
    });
    let grace = Duration::from_secs(crate::limits::RECOVERY_GRACE_SECONDS);
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
    let metrics = host::init_metrics();
    host::allow_open_files();
    let data = data_dir::DataDir::open(&config)?;
    let tls = config.tls.clone().map(|files| Tls::open(files, SystemClock.now())).transpose()?.map(Arc::new);
    let scheme = if tls.is_some() { "https" } else { "http" };
    let listener = http_door::listen(&config.listen).await?;
    let url = format!("{scheme}://{}", http_door::address_of(&listener, &config.listen));
    let address = config.public_url.clone().unwrap_or_else(|| http_door::reachable(&listener, &config.listen, scheme));
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
    if tls.is_none() && http_door::is_open_to_others(&listener) {
        tracing::warn!(
            "other machines can reach this address, and nothing sent to it is encrypted: name a certificate with `tls_cert` and `tls_key`, or put a TLS proxy in front and listen on 127.0.0.1"
        );
    }
    // The signal handlers are installed before `started` reports the server: a signal before that would kill the process without a clean
    // shutdown.
    let asked_to_stop = asked_to_stop();
    started(&told);
    let way = http_door::Way { tls, trusted_proxies: config.trusted_proxies.clone(), proxy_headers: config.proxy_headers.clone() };
    http_door::serve_over(listener, way, (app.clone(), mcp::routes(&app)), asked_to_stop).await;
    stop.cancel();
    background.await;
    let is_over = app.finish().await;
    if let Some(lease) = lease {
        lease.end(is_over).await;
    }
    Ok(())
}
