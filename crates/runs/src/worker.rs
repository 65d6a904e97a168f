//! The worker: takes runs that are due, as many as it has room for, and keeps its leases on them. A run whose lease is lost is dropped here: it
//! belongs to somebody else by then, and all its writes are refused.

use crate::engine::{Engine, Queue};
use crate::limits::RUN_LEASE_MARGIN_SECONDS;
use crate::walk::Signals;
use countersign_core::RunId;
use countersign_core::limits::{RUN_BEAT_SECONDS, RUN_LEASE_SECONDS};
use countersign_core::ports::runs::Lease;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, interval, sleep, timeout};
use tokio_util::sync::CancellationToken;

/// The most runs that are leased in one write.
const CLAIM_MAX: usize = 64;

/// How often runs are looked for without a sign that there is one: signs of other servers can be lost.
const POLL: Duration = Duration::from_secs(1);

/// How often runs of workers that are gone are looked for.
const FREE_EVERY: Duration = Duration::from_millis(500);

/// How often is looked for what has to be mended.
const MEND_EVERY: Duration = Duration::from_secs(30);

/// How long a worker that stops waits for its steps.
const DRAIN: Duration = Duration::from_secs(30);

/// The runs that this process works on.
#[derive(Clone, Default)]
struct Held(Arc<Mutex<HashMap<RunId, Holding>>>);

struct Holding {
    lease: Lease,
    signals: Signals,
    task: Option<AbortHandle>,
    /// The lease holds for sure until then.
    until: Instant,
}

impl Engine {
    /// Works on runs, keeps schedules and listens to events until it is stopped.
    pub async fn run(self, is_alone: bool, stop: CancellationToken) {
        let freed = if is_alone { self.ledger().free_all_runs().await } else { self.ledger().free_earlier_runs().await };
        if let Err(error) = freed {
            tracing::warn!(%error, "runs that were left behind are taken up when their leases end");
        }
        let schedules = tokio::spawn(self.clone().keep_schedules(stop.clone()));
        let events = tokio::spawn(self.clone().listen(stop.clone()));
        let held = Held::default();
        let beating = CancellationToken::new();
        let beats = tokio::spawn(self.clone().beat(held.clone(), beating.clone()));
        let freeing = tokio::spawn(self.clone().free_lost(stop.clone()));
        let mut pools = JoinSet::new();
        for queue in &self.0.settings.queues {
            pools.spawn(self.clone().work_on(queue.clone(), held.clone(), stop.clone()));
        }
        while pools.join_next().await.is_some() {}
        beating.cancel();
        let _ended = tokio::join!(schedules, events, beats, freeing);
    }

    async fn work_on(self, queue: Queue, held: Held, stop: CancellationToken) {
        let room = Arc::new(Semaphore::new(queue.workers));
        let mut tasks = JoinSet::new();
        let names = [queue.name.clone()];
        while !stop.is_cancelled() {
            while tasks.try_join_next().is_some() {}
            // Asked for before the look, so that a sign in between is not missed.
            let Some(due) = self.0.due.hear(&queue.name) else { return };
            let free = room.available_permits().min(CLAIM_MAX);
            // The leases end so long after they were asked for, not after they were heard of.
            let asked_at = Instant::now();
            let claimed = match free {
                0 => Ok(Vec::new()),
                _ => self.ledger().claim_runs(&names, u32::try_from(free).unwrap_or(u32::MAX)).await,
            };
            let claimed = claimed.unwrap_or_else(|error| {
                tracing::warn!(%error, "runs could not be claimed; they are tried again");
                Vec::new()
            });
            let is_full = free > 0 && claimed.len() == free;
            for lease in claimed {
                let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
                let signals = Signals::new(stop.clone());
                held.add(lease.clone(), signals.clone(), asked_at);
                let (engine, run) = (self.clone(), lease.run.clone());
                let (lease_of, queue) = (lease.clone(), queue.name.clone());
                let working = Working { held: held.clone(), lease: lease_of, engine: self.clone(), queue, permit: Some(permit) };
                let task = tasks.spawn(async move {
                    let _working = working;
                    engine.walk_run(lease, signals).await;
                });
                held.set_task(&run, task);
            }
            if is_full {
                continue;
            }
            tokio::select! {
                () = due => {}
                () = sleep(POLL) => {}
                () = stop.cancelled() => {}
            }
        }
        // What runs may end its step; between two steps a run is given back.
        let drained = timeout(DRAIN, async { while tasks.join_next().await.is_some() {} }).await;
        if drained.is_err() {
            tracing::warn!("steps still run after {} s; they are found out about later", DRAIN.as_secs());
        }
    }

    async fn beat(self, held: Held, stop: CancellationToken) {
        let mut beat = interval(Duration::from_secs(RUN_BEAT_SECONDS));
        loop {
            tokio::select! {
                _at = beat.tick() => {}
                () = stop.cancelled() => return,
            }
            let leases = held.leases();
            if leases.is_empty() {
                continue;
            }
            let asked_at = Instant::now();
            // A store that does not answer must not keep us from dropping what we no longer hold.
            match timeout(held.for_sure(), self.ledger().keep_leases(leases.clone())).await {
                Ok(Ok(kept)) => held.keep(&leases, &kept, asked_at),
                Ok(Err(error)) => tracing::warn!(%error, "leases on runs could not be renewed; they are tried again"),
                Err(_) => tracing::warn!("leases on runs could not be renewed in time; they are tried again"),
            }
            held.drop_expired();
        }
    }

    async fn free_lost(self, stop: CancellationToken) {
        let mut mended_at = Instant::now();
        while !stop.is_cancelled() {
            tokio::select! {
                () = sleep(FREE_EVERY) => {}
                () = stop.cancelled() => return,
            }
            match self.ledger().free_lost_runs().await {
                Ok(0) => {}
                Ok(freed) => {
                    metrics::counter!("countersign_runs_freed_total").increment(freed);
                    tracing::info!(freed, "runs of workers that are gone are taken up again");
                    self.0.due.tell_all();
                }
                Err(error) => tracing::debug!(%error, "runs of workers that are gone are looked for again"),
            }
            if mended_at.elapsed() >= MEND_EVERY {
                mended_at = Instant::now();
                if let Err(error) = self.mend().await {
                    tracing::debug!(%error, "what has to be mended is looked for again");
                }
            }
        }
    }
}

/// The work on one run. However it ends, also by a bug, its lease is renewed no longer and there is room for another run.
struct Working {
    held: Held,
    lease: Lease,
    engine: Engine,
    queue: String,
    permit: Option<OwnedSemaphorePermit>,
}

impl Drop for Working {
    fn drop(&mut self) {
        self.held.remove(&self.lease);
        drop(self.permit.take());
        self.engine.0.due.tell(&self.queue);
    }
}

impl Held {
    fn add(&self, lease: Lease, signals: Signals, asked_at: Instant) {
        let until = asked_at + Duration::from_secs(RUN_LEASE_SECONDS - RUN_LEASE_MARGIN_SECONDS);
        self.0.lock().insert(lease.run.clone(), Holding { lease, signals, task: None, until });
    }

    fn set_task(&self, run: &RunId, task: AbortHandle) {
        if let Some(holding) = self.0.lock().get_mut(run) {
            holding.task = Some(task);
        }
    }

    fn remove(&self, lease: &Lease) {
        let mut held = self.0.lock();
        // The same run may have been leased here once more.
        if held.get(&lease.run).is_some_and(|holding| holding.lease.token == lease.token) {
            held.remove(&lease.run);
        }
    }

    fn leases(&self) -> Vec<Lease> {
        self.0.lock().values().map(|holding| holding.lease.clone()).collect()
    }

    /// How long every lease holds for sure, and no longer than to the next beat.
    fn for_sure(&self) -> Duration {
        let first = self.0.lock().values().map(|holding| holding.until).min();
        let beat = Duration::from_secs(RUN_BEAT_SECONDS);
        first.map_or(beat, |first| first.saturating_duration_since(Instant::now()).min(beat))
    }

    /// Those that were not kept are lost, and those that are to be cancelled hear of it.
    fn keep(&self, asked: &[Lease], kept: &[countersign_core::ports::runs::KeptLease], asked_at: Instant) {
        let mut held = self.0.lock();
        for lease in asked {
            let Some(holding) = held.get_mut(&lease.run).filter(|holding| holding.lease.token == lease.token) else { continue };
            match kept.iter().find(|kept| kept.lease.run == lease.run) {
                Some(kept) => {
                    holding.until = asked_at + Duration::from_secs(RUN_LEASE_SECONDS - RUN_LEASE_MARGIN_SECONDS);
                    if kept.is_cancelled {
                        holding.signals.cancel();
                    }
                }
                // Perhaps it was just given up by its own walk, which then removes it.
                None => holding.signals.lose(),
            }
        }
    }

    /// Drops the work on runs whose lease may have ended.
    fn drop_expired(&self) {
        let now = Instant::now();
        self.0.lock().retain(|run, holding| {
            let is_held = holding.until > now;
            if !is_held {
                tracing::warn!(%run, "its lease could not be renewed in time: the work on it is dropped");
                holding.task.iter().for_each(AbortHandle::abort);
            }
            is_held
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_core::{OrgId, Timestamp};

    fn lease(token: i64) -> Lease {
        let start = Timestamp::from_micros(0);
        Lease { org: OrgId::new(start, [1; 10]), run: RunId::new(start, [2; 10]), token, until: start }
    }

    #[test]
    fn a_lease_that_is_not_renewed_in_time_ends_before_others_may_begin() {
        let held = Held::default();
        let long_ago = Instant::now().checked_sub(Duration::from_secs(RUN_LEASE_SECONDS - RUN_LEASE_MARGIN_SECONDS)).unwrap();
        held.add(lease(1), Signals::new(CancellationToken::new()), long_ago);
        assert_eq!(held.leases().len(), 1);
        held.drop_expired();
        assert_eq!(held.leases(), [], "it ends this long before the store frees it");
        held.add(lease(2), Signals::new(CancellationToken::new()), Instant::now());
        held.drop_expired();
        assert_eq!(held.leases(), [lease(2)]);
        assert_eq!(held.for_sure(), Duration::from_secs(RUN_BEAT_SECONDS), "a store that hangs is asked again at the next beat");
        held.add(lease(3), Signals::new(CancellationToken::new()), long_ago);
        assert_eq!(held.for_sure(), Duration::ZERO, "it is not waited for beyond the end of a lease");
    }

    #[test]
    fn work_that_has_ended_lets_go_of_its_own_lease_alone() {
        let held = Held::default();
        held.add(lease(1), Signals::new(CancellationToken::new()), Instant::now());
        held.add(lease(2), Signals::new(CancellationToken::new()), Instant::now());
        held.remove(&lease(1));
        assert_eq!(held.leases(), [lease(2)], "the same run was leased once more");
        held.remove(&lease(2));
        assert_eq!(held.leases(), []);
    }
}
