//! The background loops: expire and remove what ran out, also artifacts, look at sources, sign checkpoints, measure the queue, look after the master key.
//! What channels tell is delivered beside them (`notify`), and automations run beside them (`runs`).

use crate::lag::Lags;
use crate::limits::{CHECKPOINT_SECONDS, SNAPSHOT_SECONDS_MIN, SWEEP_SECONDS};
use countersign_core::breaker::BreakerState;
use countersign_core::ports::{Breakers, Invocations};
use countersign_core::{Clock, OrgId, Status, Timestamp};
use homes::{AddedRegistry, Homes};
use host::master_key::{self, MasterKeyFiles};
use metrics_exporter_prometheus::PrometheusHandle;
use operations::Parts;
use pipeline::Pipeline;
use sources::workspace::Kept;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{Forgotten, Store};
use tokio_util::sync::CancellationToken;

/// Idempotency keys live for a day, so it does no harm if one lives a minute longer.
const FORGET_EVERY: Duration = Duration::from_secs(60);

const DAY_SECONDS: u64 = 24 * 60 * 60;
const SNAPSHOTS_EVERY: Duration = Duration::from_secs(60 * 60);

/// How often sources are looked for that were removed, changed or stopped on another server. This server's own changes are followed at once.
const LET_GO_EVERY: Duration = Duration::from_secs(30);

/// How often artifacts are removed whose time is over, beginning with the start of the server.
const ARTIFACTS_EVERY: Duration = Duration::from_secs(DAY_SECONDS);

/// How often remote sources are asked for their actions while nobody calls them.
const SOURCES_EVERY: Duration = Duration::from_secs(60 * 60);

/// Starts the loops; the returned future ends when they have stopped.
pub(crate) fn start(parts: &Parts, stop: &CancellationToken) -> impl Future<Output = ()> + use<> {
    let sweeping = tokio::spawn(sweep(parts.pipeline.clone(), parts.store.clone(), parts.metrics.clone(), stop.clone()));
    let looking = tokio::spawn(look_at_unverified(parts.pipeline.clone(), stop.clone()));
    let listing = tokio::spawn(look_at_sources(parts.pipeline.clone(), parts.store.clone(), stop.clone()));
    let letting_go = tokio::spawn(let_go_of_sources(parts.added.clone(), parts.pipeline.clone(), parts.store.clone(), stop.clone()));
    let following = tokio::spawn(parts.added.allowed().clone().follow(stop.clone()));
    let discarding = tokio::spawn(sweep_artifacts(parts.pipeline.clone(), parts.store.clone(), stop.clone()));
    let signing = tokio::spawn(checkpoint(parts.store.clone(), stop.clone()));
    let tending = tokio::spawn(tend_master_key(parts.master_key.clone(), parts.store.clone(), stop.clone()));
    let delivering = tokio::spawn(parts.courier.clone().run(stop.clone()));
    // The lock of the data folder proves that whoever worked on its runs before is gone.
    let running = tokio::spawn(parts.engine.clone().run(!parts.store.may_be_shared(), stop.clone()));
    let forgetting = parts.homes.clone().map(|homes| tokio::spawn(forget(homes, parts.store.clone(), parts.clock.clone(), stop.clone())));
    async move {
        let _ended = tokio::join!(sweeping, looking, listing, letting_go, following, discarding, signing, tending, delivering, running);
        if let Some(forgetting) = forgetting {
            let _ended = forgetting.await;
        }
    }
}

async fn sweep(pipeline: Pipeline, store: Store, metrics: Option<PrometheusHandle>, stop: CancellationToken) {
    let (mut forgotten_at, mut lags) = (Instant::now(), Lags::default());
    while waited(Duration::from_secs(SWEEP_SECONDS), &stop).await {
        let is_time_to_forget = forgotten_at.elapsed() >= FORGET_EVERY;
        if is_time_to_forget {
            forgotten_at = Instant::now();
        }
        if is_time_to_forget {
            tell("servers that are long gone", store.forget_servers().await);
        }
        if let Err(error) = pipeline.sweep().await {
            tracing::warn!(%error, "the sweep could not finish; it comes again");
        }
        // Moves recorded samples into their buckets. Otherwise they pile up until the next scrape.
        if let Some(metrics) = &metrics {
            metrics.run_upkeep();
        }
        for org in store.list_orgs().await.unwrap_or_default().into_iter().filter(|org| org.disabled_at.is_none()) {
            if is_time_to_forget {
                forget_what_is_over(&store, &org.id).await;
                forget_what_is_old(&store, &org.id).await;
            }
            if let Err(error) = store.expire_grants(&org.id).await {
                tracing::warn!(%error, "grants past their time could not be marked; they allow nothing, and are tried again");
            }
            match store.expire_quarantines(&org.id).await {
                Ok(expired) => expired.iter().for_each(|invocation| tracing::info!(org = %org.id, %invocation, "quarantine expired")),
                Err(error) => tracing::warn!(%error, "what nobody looked at in quarantine could not be removed; it is tried again"),
            }
        }
        if let Err(error) = measure(&store, &mut lags).await {
            tracing::warn!(%error, "the queue could not be counted; its metrics keep their last values");
        }
    }
}

async fn forget_what_is_over(store: &Store, org: &OrgId) {
    tell("expired idempotency keys", store.forget_expired_keys(org).await);
    tell("calls that nobody asked for again", store.forget_lines(org).await);
    tell("drafts that nobody saved", store.forget_drafts(org).await);
    tell("firings of long ago", store.forget_firings(org).await);
    tell("documents that were removed long ago", store.forget_documents(org).await);
    tell("notices that were delivered long ago", store.forget_deliveries(org).await);
    tell("events that were given up long ago", store.forget_dead_letters(org).await);
    tell("targets that failed long ago", store.forget_breakers(org).await);
}

fn tell<T>(what: &str, forgotten: Result<T, store::Error>) {
    if let Err(error) = forgotten {
        tracing::warn!(%error, "{what} could not be forgotten; they are tried again");
    }
}

/// Removes what the org does not want to keep any longer, and the texts that its spaces do not keep.
async fn forget_what_is_old(store: &Store, org: &OrgId) {
    match store.forget_old(org).await {
        Ok(forgotten) if forgotten == Forgotten::default() => {}
        Ok(Forgotten { invocations, batches, runs, events }) => {
            tracing::info!(%org, invocations, batches, runs, events, "what is kept no longer was removed");
        }
        Err(error) => tracing::warn!(%error, "what is kept no longer could not be removed; it is tried again"),
    }
    match store.digest_ended(org).await {
        Ok(0) => {}
        Ok(changed) => tracing::info!(%org, changed, "texts of ended calls, batches and runs were replaced by digests"),
        Err(error) => tracing::warn!(%error, "texts of ended calls could not be replaced by digests; it is tried again"),
    }
}

/// Counts what the gauges show. If the store is away, every gauge keeps its last value.
pub async fn measure(store: &Store, lags: &mut Lags) -> Result<(), store::Error> {
    let (mut pending, mut in_doubt, mut open) = (0, 0, 0);
    let now = store.now().await?;
    lags.begin();
    for org in store.list_orgs().await?.into_iter().filter(|org| org.disabled_at.is_none()) {
        pending += store.count_in_status(&org.id, Status::Pending).await?;
        in_doubt += store.count_in_status(&org.id, Status::InDoubt).await?;
        let breakers = store.list_breakers(&org.id).await?;
        open += breakers.iter().filter(|breaker| breaker.state != BreakerState::Closed).count();
        store.list_event_groups(&org.id).await?.iter().for_each(|group| lags.add(group, now));
    }
    let servers = if store.may_be_shared() { Some(store.list_servers().await?) } else { None };
    metrics::gauge!("countersign_pending").set(pending as f64);
    metrics::gauge!("countersign_in_doubt").set(in_doubt as f64);
    metrics::gauge!("countersign_breakers_open").set(open as f64);
    lags.show();
    if let Some(servers) = servers {
        metrics::gauge!("countersign_servers").set(servers.iter().filter(|server| !server.is_gone).count() as f64);
    }
    Ok(())
}

/// Verifies effects that are not verified yet. Separate from the sweep, so that waiting for a turn in the jail delays nothing else.
async fn look_at_unverified(pipeline: Pipeline, stop: CancellationToken) {
    while waited(Duration::from_secs(SWEEP_SECONDS), &stop).await {
        pipeline.look_at_unverified().await;
    }
}

/// Notices what changed in sources that nobody calls. A call asks its source by itself.
async fn look_at_sources(pipeline: Pipeline, store: Store, stop: CancellationToken) {
    while waited(SOURCES_EVERY, &stop).await {
        for org in store.list_orgs().await.unwrap_or_default().into_iter().filter(|org| org.disabled_at.is_none()) {
            tokio::select! {
                looked = pipeline.look_at_sources(&org.id) => {
                    if let Err(error) = looked {
                        tracing::warn!(%error, org = %org.id, "the sources could not be looked at; they are later");
                    }
                }
                () = stop.cancelled() => return,
            }
        }
    }
}

/// Ends connections and programs that no call may use any more.
async fn let_go_of_sources(added: Arc<AddedRegistry>, pipeline: Pipeline, store: Store, stop: CancellationToken) {
    while waited(LET_GO_EVERY, &stop).await {
        for org in store.list_orgs().await.unwrap_or_default() {
            if org.disabled_at.is_some() {
                added.let_go_of_all(&org.id);
            } else {
                added.let_go(&org.id, pipeline.catalogue()).await;
            }
        }
    }
}

/// Removes artifacts whose time is over, at the start and then every day. Nobody gets them from the moment on when it is over.
async fn sweep_artifacts(pipeline: Pipeline, store: Store, stop: CancellationToken) {
    loop {
        for org in store.list_orgs().await.unwrap_or_default().into_iter().filter(|org| org.disabled_at.is_none()) {
            tokio::select! {
                swept = pipeline.sweep_artifacts(&org.id) => match swept {
                    Ok(0) => {}
                    Ok(artifacts) => tracing::info!(org = %org.id, artifacts, "artifacts whose time is over were removed"),
                    Err(error) => tracing::warn!(%error, org = %org.id, "artifacts whose time is over could not be removed; they are later"),
                },
                () = stop.cancelled() => return,
            }
        }
        if !waited(ARTIFACTS_EVERY, &stop).await {
            return;
        }
    }
}

/// Runs at the start and then every hour.
async fn forget(homes: Arc<Homes>, store: Store, clock: Arc<dyn Clock>, stop: CancellationToken) {
    loop {
        if let Err(error) = forget_snapshots(clock.now(), &homes, &store).await {
            tracing::warn!(%error, "old snapshots stay until the store is back, and their metrics keep the last values");
        }
        if !waited(SNAPSHOTS_EVERY, &stop).await {
            return;
        }
    }
}

/// Removes snapshots that no revert can need any more, or that are more than their org wants to keep, and counts the others.
async fn forget_snapshots(now: Timestamp, homes: &Homes, store: &Store) -> Result<(), store::Error> {
    let mut all = Kept::default();
    for org in store.list_orgs().await? {
        let retention = store.find_retention(&org.id).await?;
        // One day more than promised, so that a revert at the last moment still finds its snapshots.
        let then = now.minus_seconds((retention.snapshot_days() + 1) * DAY_SECONDS);
        let (bytes_max, spared) = (retention.snapshot_bytes_max.unwrap_or(u64::MAX), now.minus_seconds(SNAPSHOT_SECONDS_MIN));
        for places in homes.places(std::slice::from_ref(&org.id)) {
            match tokio::task::spawn_blocking(move || places.forget(then, bytes_max, spared)).await {
                Err(_) => {}
                Ok(Ok(kept)) => all.add(kept),
                Ok(Err(error)) => tracing::warn!(%error, "old snapshots could not be removed; they are tried again"),
            }
        }
    }
    metrics::gauge!("countersign_snapshots").set(all.files as f64);
    metrics::gauge!("countersign_snapshot_bytes").set(all.bytes as f64);
    if all.forgotten > 0 {
        tracing::info!(all.forgotten, "snapshots of effects that can no longer be reverted were removed");
    }
    Ok(())
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

/// Learns the next master key, and goes on with a replacement that this server or another has begun. What prevents it is told once.
async fn tend_master_key(files: MasterKeyFiles, store: Store, stop: CancellationToken) {
    let mut told = None;
    while waited(Duration::from_secs(SWEEP_SECONDS), &stop).await {
        let tended = tokio::select! {
            tended = master_key::tend(&files, &store) => tended,
            () = stop.cancelled() => return,
        };
        let problem = tended.err().map(|error| error.to_string());
        if let Some(problem) = problem.as_ref().filter(|problem| told.as_ref() != Some(*problem)) {
            tracing::warn!(problem, "the master key could not be looked after; it is tried again");
        }
        told = problem;
    }
}

/// Returns false when the server stops.
async fn waited(time: Duration, stop: &CancellationToken) -> bool {
    tokio::select! {
        () = tokio::time::sleep(time) => true,
        () = stop.cancelled() => false,
    }
}
