//! What goes on in the background: sweeping what ran out, signing checkpoints, measuring the queue.

use crate::Parts;
use countersign_core::Status;
use countersign_core::limits::{CHECKPOINT_SECONDS, SWEEP_SECONDS};
use metrics_exporter_prometheus::PrometheusHandle;
use pipeline::Pipeline;
use std::time::{Duration, Instant};
use store::Store;
use tokio_util::sync::CancellationToken;

/// Keys live for a day: nobody notices if one lives a minute longer.
const FORGET_EVERY: Duration = Duration::from_secs(60);

/// Starts the loops; the returned future ends when they have stopped.
pub(crate) fn start(parts: &Parts, stop: &CancellationToken) -> impl Future<Output = ()> + use<> {
    let sweeping = tokio::spawn(sweep(parts.pipeline.clone(), parts.store.clone(), parts.metrics.clone(), stop.clone()));
    let signing = tokio::spawn(checkpoint(parts.store.clone(), stop.clone()));
    async move {
        let _ended = tokio::join!(sweeping, signing);
    }
}

async fn sweep(pipeline: Pipeline, store: Store, metrics: Option<PrometheusHandle>, stop: CancellationToken) {
    let mut forgotten_at = Instant::now();
    while waited(Duration::from_secs(SWEEP_SECONDS), &stop).await {
        let is_time_to_forget = forgotten_at.elapsed() >= FORGET_EVERY;
        if is_time_to_forget {
            forgotten_at = Instant::now();
        }
        if is_time_to_forget && let Err(error) = store.forget_servers().await {
            tracing::warn!(%error, "servers that are long gone could not be forgotten; they are tried again");
        }
        if let Err(error) = pipeline.sweep().await {
            tracing::warn!(%error, "the sweep could not finish; it comes again");
        }
        // Folds recorded samples into their buckets: without it they pile up until somebody scrapes.
        if let Some(metrics) = &metrics {
            metrics.run_upkeep();
        }
        let mut pending = 0;
        for org in store.list_orgs().await.unwrap_or_default() {
            if is_time_to_forget && let Err(error) = store.forget_expired_keys(&org.id).await {
                tracing::warn!(%error, "expired idempotency keys could not be removed; they are tried again");
            }
            if let Err(error) = store.expire_grants(&org.id).await {
                tracing::warn!(%error, "grants past their time could not be marked; they allow nothing, and are tried again");
            }
            if let Err(error) = store.expire_quarantines(&org.id).await {
                tracing::warn!(%error, "what nobody looked at in quarantine could not be removed; it is tried again");
            }
            pending += store.count_in_status(&org.id, Status::Pending).await.unwrap_or_default();
        }
        metrics::gauge!("countersign_pending").set(pending as f64);
        if store.may_be_shared() {
            let servers = store.list_servers().await.unwrap_or_default();
            metrics::gauge!("countersign_servers").set(servers.iter().filter(|server| !server.is_gone).count() as f64);
        }
    }
}

async fn checkpoint(store: Store, stop: CancellationToken) {
    while waited(Duration::from_secs(CHECKPOINT_SECONDS), &stop).await {
        let orgs = match store.list_orgs().await {
            Ok(orgs) => orgs,
            Err(error) => {
                tracing::warn!(%error, "checkpoints wait for the store");
                continue;
            }
        };
        for org in orgs {
            if let Err(error) = store.checkpoint(&org.id).await {
                tracing::warn!(%error, org = %org.id, "a checkpoint could not be signed; it comes again");
            }
        }
    }
}

/// False when it is time to stop.
async fn waited(time: Duration, stop: &CancellationToken) -> bool {
    tokio::select! {
        () = tokio::time::sleep(time) => true,
        () = stop.cancelled() => false,
    }
}
