//! A process that works on runs beside the servers of one database. It is a server without doors: it keeps the same lease and does the same
//! work in the background, and answers nobody but whoever asks whether it is well.

use crate::{compose, follow_earlier, lease, loops, open_store_when_there, recover};
use host::config::Config;
use host::{Error, asked_to_stop, data_dir};
use operations::App;
use tokio_util::sync::CancellationToken;

/// Works until the process is asked to stop, then waits for running steps to end. `started` is told where its health is.
pub async fn work(config: Config, started: impl FnOnce(&str) + Send) -> Result<(), Error> {
    let metrics = host::init_metrics();
    host::allow_open_files();
    let data = data_dir::DataDir::open(&config)?;
    let listener = http_door::listen(&config.listen).await?;
    let url = format!("http://{}", http_door::address_of(&listener, &config.listen));
    let address = config.public_url.clone().unwrap_or_else(|| url.clone());
    let store = open_store_when_there(&config, &listener, None).await?;
    let (parts, _) = compose::compose(&config, &data, store, sources::oauth::Own::new(&address), metrics).await?;
    follow_earlier(&parts.store, &data).await?;
    let lease = lease::KeptLease::keep(&parts.store);
    recover(&parts).await?;
    let stop = CancellationToken::new();
    let background = loops::start(&parts, &stop);
    let app = App::new(parts);
    let asked_to_stop = asked_to_stop();
    tracing::info!(url, "working");
    started(&url);
    http_door::serve_health(listener, app.clone(), asked_to_stop).await;
    stop.cancel();
    background.await;
    let is_over = app.finish().await;
    if let Some(lease) = lease {
        lease.end(is_over).await;
    }
    Ok(())
}
