//! The sources of one org and their listings. A look-up never asks a source whose listing is known and current. Background tasks ask the
//! sources, one task per source at a time, and scan the definitions.

use super::eyes::Eyes;
use super::listing::{Actions, Listed, Listing, are_same};
use crate::limits::LISTING_WAIT_MS;
use countersign_core::limits::{LISTING_KEPT_SECONDS, LISTING_RETRY_SECONDS, LISTING_SECONDS};
use countersign_core::source::{Error, KeptListing, Listings, OrgSources, Source};
use countersign_core::{Action, Clock, OrgId, Timestamp};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, join_all};
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The result of a task that asks a source, shared by everyone who waits for it.
type Refresh = Shared<BoxFuture<'static, Result<Arc<Listing>, Error>>>;

/// One source and its listing.
pub(super) struct Slot {
    pub(super) source: Arc<dyn Source>,
    pub(super) is_builtin: bool,
    listing: RwLock<Option<Arc<Listing>>>,
    refresh: Mutex<Option<Refresh>>,
    /// The store's time before the source was last asked because of a doubt. A review from before then is older than the listing.
    confirmed: Mutex<Option<Timestamp>>,
    /// When its listing was last kept in the store.
    kept_at: Mutex<Option<Timestamp>>,
    /// A call could not reach it since it was last asked.
    is_suspect: AtomicBool,
}

impl Slot {
    pub(super) fn new(source: Arc<dyn Source>, is_builtin: bool) -> Arc<Self> {
        Arc::new(Self {
            source,
            is_builtin,
            listing: RwLock::default(),
            refresh: Mutex::default(),
            confirmed: Mutex::default(),
            kept_at: Mutex::default(),
            is_suspect: AtomicBool::default(),
        })
    }

    fn known(&self) -> Option<Arc<Listing>> {
        self.listing.read().clone()
    }
}

/// The sources of an org, until a registry returns other ones.
pub(super) struct Sources {
    registered: Vec<OrgSources>,
    pub(super) slots: Vec<Arc<Slot>>,
    by_name: HashMap<String, Arc<Slot>>,
    /// Completes once new sources have been listed and scanned together, or `LISTING_WAIT_MS` after they appeared.
    settled: Shared<BoxFuture<'static, ()>>,
}

impl Sources {
    pub(super) fn find(&self, eyes: Eyes<'_>, name: &str) -> Option<&Arc<Slot>> {
        self.by_name.get(name).filter(|slot| eyes.see(&*slot.source))
    }

    pub(super) fn seen_by<'a>(&'a self, eyes: Eyes<'a>) -> impl Iterator<Item = &'a Arc<Slot>> {
        self.slots.iter().filter(move |slot| eyes.see(&*slot.source))
    }

    fn are(&self, registered: &[OrgSources]) -> bool {
        self.registered.len() == registered.len() && self.registered.iter().zip(registered).all(|(then, now)| Arc::ptr_eq(then, now))
    }
}

pub(super) struct OrgCatalogue {
    pub(super) org: OrgId,
    pub(super) listings: Arc<dyn Listings>,
    pub(super) clock: Arc<dyn Clock>,
    sources: RwLock<Option<Arc<Sources>>>,
    /// Held while listings are scanned and published, so that each scan sees every listing published before it.
    scanning: tokio::sync::Mutex<()>,
}

impl OrgCatalogue {
    pub(super) fn new(org: OrgId, listings: Arc<dyn Listings>, clock: Arc<dyn Clock>) -> Self {
        Self { org, listings, clock, sources: RwLock::default(), scanning: tokio::sync::Mutex::default() }
    }

    /// The builtin sources and the registered ones. A registered source cannot take the name of a source before it.
    pub(super) fn sources(self: &Arc<Self>, builtin: &[Arc<Slot>], registered: Vec<OrgSources>) -> Arc<Sources> {
        if let Some(sources) = self.sources.read().as_ref().filter(|sources| sources.are(&registered)) {
            return Arc::clone(sources);
        }
        let mut current = self.sources.write();
        if let Some(sources) = current.as_ref().filter(|sources| sources.are(&registered)) {
            return Arc::clone(sources);
        }
        let mut slots = builtin.to_vec();
        let mut by_name: HashMap<_, _> = slots.iter().map(|slot| (slot.source.id().to_string(), Arc::clone(slot))).collect();
        for source in registered.iter().flat_map(|sources| sources.iter()) {
            let name = source.id().to_string();
            if by_name.contains_key(&name) {
                continue;
            }
            let known = current.as_ref().and_then(|sources| sources.by_name.get(&name)).filter(|slot| Arc::ptr_eq(&slot.source, source));
            let slot = known.map_or_else(|| Slot::new(Arc::clone(source), source.is_builtin()), Arc::clone);
            by_name.insert(name, Arc::clone(&slot));
            slots.push(slot);
        }
        let settled = self.settle(&slots).boxed().shared();
        let sources = Arc::new(Sources { registered, slots, by_name, settled });
        *current = Some(Arc::clone(&sources));
        sources
    }

    /// Asks every new source, and scans all definitions together once the answers are there. An org with only builtin sources needs
    /// neither.
    fn settle(self: &Arc<Self>, slots: &[Arc<Slot>]) -> impl Future<Output = ()> + Send + 'static {
        let new = if slots.iter().all(|slot| slot.is_builtin) { &[] } else { slots };
        let asked: Vec<_> = new.iter().filter(|slot| slot.known().is_none()).map(|slot| self.refresh(slot)).collect();
        let own = Arc::clone(self);
        let settling = tokio::spawn(async move {
            let _late = tokio::time::timeout(Duration::from_millis(LISTING_WAIT_MS), join_all(asked)).await;
            own.rescan().await;
        });
        settling.map(|_| ())
    }

    /// The current listing of a source, from memory if it is up to date.
    pub(super) async fn listing(self: &Arc<Self>, sources: &Sources, slot: &Arc<Slot>) -> Result<Arc<Listing>, Error> {
        if !slot.is_builtin {
            sources.settled.clone().await;
        }
        let revision = slot.source.revision();
        let Some(known) = slot.known().filter(|known| known.listed.revision == revision) else {
            let listing = self.refresh(slot).await?;
            // A task that started before the source changed returns the old listing, so the source is asked again.
            return if listing.listed.revision == revision { Ok(listing) } else { self.refresh(slot).await };
        };
        if !self.is_due(slot, &known) || slot.refresh.lock().is_some() {
            return Ok(known);
        }
        match tokio::time::timeout(Duration::from_millis(LISTING_WAIT_MS), self.refresh(slot)).await {
            Ok(Ok(listing)) => Ok(listing),
            Ok(Err(_)) | Err(_) => Ok(known),
        }
    }

    fn is_due(&self, slot: &Slot, known: &Listing) -> bool {
        slot.is_suspect.load(Ordering::Relaxed) || known.listed.due.is_some_and(|due| due <= self.clock.now())
    }

    /// A call could not reach the source, so its listing is due now. One that is known to be away is asked again in its time.
    pub(super) fn suspect(&self, source: &str) {
        let slot = self.sources.read().as_ref().and_then(|sources| sources.by_name.get(source).map(Arc::clone));
        if let Some(slot) = slot
            && slot.known().is_some_and(|known| known.listed.error.is_none())
        {
            slot.is_suspect.store(true, Ordering::Relaxed);
        }
    }

    /// Asks a source once more, because a review that changed at `changed_at` is about another definition than the known one: another
    /// server may have seen what this one has not. It is asked once for each such change, not with every call. `now` is the store's time.
    pub(super) async fn confirm(self: &Arc<Self>, slot: &Arc<Slot>, changed_at: Option<Timestamp>, now: Timestamp) {
        let is_confirmed = || slot.confirmed.lock().is_some_and(|at| changed_at.is_none_or(|changed_at| changed_at <= at));
        let has_just_failed = || slot.known().is_some_and(|known| known.listed.error.is_some() && !self.is_due(slot, &known));
        if is_confirmed() {
            return;
        }
        // A task that is running may have asked before the review changed, so its answer does not count.
        let running = slot.refresh.lock().clone();
        if let Some(running) = running {
            let _earlier = running.await;
        }
        if is_confirmed() || has_just_failed() {
            return;
        }
        if self.refresh(slot).await.is_ok_and(|listing| listing.listed.error.is_none()) {
            *slot.confirmed.lock() = Some(now);
        }
    }

    /// Starts a task that asks a source, or joins the one that is running. The task goes on even if nobody waits for it.
    pub(super) fn refresh(self: &Arc<Self>, slot: &Arc<Slot>) -> Refresh {
        let mut refresh = slot.refresh.lock();
        if let Some(refresh) = &*refresh {
            return refresh.clone();
        }
        let (own, asked) = (Arc::clone(self), Asked(Arc::clone(slot)));
        let task = tokio::spawn(async move { own.ask(&asked.0).await });
        let source_id = slot.source.id().to_string();
        let stopped = |_| Err(Error::Unreachable { source_id, message: "listing its actions was broken off".to_owned() });
        let task = async move { task.await.unwrap_or_else(stopped) };
        refresh.insert(task.boxed().shared()).clone()
    }

    async fn ask(self: &Arc<Self>, slot: &Arc<Slot>) -> Result<Arc<Listing>, Error> {
        // Read first, so that a change during the listing is not missed.
        let revision = slot.source.revision();
        slot.is_suspect.store(false, Ordering::Relaxed);
        let known = slot.known();
        let answer = list_of(&*slot.source, &self.org).await;
        let (actions, guide, listed_at, wait, error) = match answer {
            Ok((actions, guide)) => (self.taken(slot, known.as_deref(), actions).await, guide, self.clock.now(), LISTING_SECONDS, None),
            Err(error) => match self.last_known(slot, known.as_deref()).await {
                Some((actions, guide, listed_at)) => (actions, guide, listed_at, LISTING_RETRY_SECONDS, Some(error)),
                None => return Err(error),
            },
        };
        let due = slot.source.is_remote().then(|| self.clock.now().plus_seconds(wait));
        let has_changed = known.as_ref().is_none_or(|known| !Arc::ptr_eq(&known.listed.actions, &actions));
        let had_failed = known.map(|known| known.listed.error.is_some());
        let listing = {
            let _alone = self.scanning.lock().await;
            self.publish(slot, Listed { actions, guide, revision, listed_at, due, error }).await?
        };
        if had_failed != Some(listing.listed.error.is_some()) {
            self.tell(slot, listing.listed.error.as_ref()).await;
        }
        if has_changed {
            let own = Arc::clone(self);
            tokio::spawn(async move { own.rescan().await });
        }
        Ok(listing)
    }

    /// The listed actions; the known `Arc` if they have not changed. A new listing of a remote source is kept in the store, and one that has
    /// not changed is from time to time.
    async fn taken(&self, slot: &Slot, known: Option<&Listing>, actions: Vec<Arc<Action>>) -> Actions {
        let known = known.filter(|known| are_same(&known.listed.actions, &actions)).map(|known| Arc::clone(&known.listed.actions));
        let now = self.clock.now();
        let is_kept = known.is_some() && slot.kept_at.lock().is_some_and(|kept_at| now < kept_at.plus_seconds(LISTING_KEPT_SECONDS));
        if slot.source.is_remote() && !is_kept {
            let listing = KeptListing { actions: actions.clone(), listed_at: now };
            match self.listings.keep_listing(&self.org, slot.source.id(), listing).await {
                Ok(()) => *slot.kept_at.lock() = Some(now),
                Err(error) => tracing::warn!(%error, source = %slot.source.id(), "the listing of a source could not be kept"),
            }
        }
        known.unwrap_or_else(|| Arc::new(actions))
    }

    /// Tells that a remote source began to fail, or works again.
    async fn tell(&self, slot: &Slot, failed: Option<&Error>) {
        if !slot.source.is_remote() {
            return;
        }
        if let Some(error) = failed {
            tracing::warn!(%error, org = %self.org, source = %slot.source.id(), "a source cannot be asked; its last listing is used");
        }
        if let Err(error) = self.listings.note_listing(&self.org, slot.source.id(), failed).await {
            tracing::warn!(%error, source = %slot.source.id(), "how a source fares could not be noted");
        }
    }

    /// The last listing of a remote source that cannot be asked, with its guide if that is known, and when it was made. It is used even if the
    /// source has said since that it changed: nothing better is known, and without it the source would be gone.
    async fn last_known(&self, slot: &Slot, known: Option<&Listing>) -> Option<(Actions, Option<Arc<str>>, Timestamp)> {
        if !slot.source.is_remote() {
            return None;
        }
        if let Some(known) = known {
            let Listed { actions, guide, listed_at, .. } = &known.listed;
            return Some((Arc::clone(actions), guide.clone(), *listed_at));
        }
        match self.listings.find_listing(&self.org, slot.source.id()).await {
            Ok(kept) => kept.map(|kept| (Arc::new(kept.actions), None, kept.listed_at)),
            Err(error) => {
                tracing::warn!(%error, source = %slot.source.id(), "the kept listing of a source could not be read");
                None
            }
        }
    }

    /// Scans every definition again whose set of actions to compare with has changed.
    async fn rescan(&self) {
        let _alone = self.scanning.lock().await;
        let Some(sources) = self.sources.read().clone() else { return };
        for slot in sources.slots.iter().filter(|slot| !slot.is_builtin) {
            if let Some(known) = slot.known().filter(|known| !known.is_beside(&self.beside(slot)))
                && let Err(error) = self.publish(slot, known.listed.clone()).await
            {
                tracing::warn!(%error, "definitions could not be scanned again");
            }
        }
    }

    async fn publish(&self, slot: &Slot, listed: Listed) -> Result<Arc<Listing>, Error> {
        let (beside, known) = (self.beside(slot), slot.known());
        let made = tokio::task::spawn_blocking(move || Arc::new(Listing::new(listed, beside, known.as_deref()))).await;
        let listing = made.map_err(|error| Error::Failed { code: "definition_invalid", message: error.to_string() })?;
        *slot.listing.write() = Some(Arc::clone(&listing));
        Ok(listing)
    }

    /// The actions of the other sources, which an action could be mistaken for or could mention. A builtin action is scanned alone: it was
    /// there first, so a source that takes its name is the suspicious one.
    fn beside(&self, slot: &Slot) -> Vec<Actions> {
        let sources = self.sources.read().clone();
        let slots = sources.iter().filter(|_| !slot.is_builtin).flat_map(|sources| sources.slots.iter());
        let others = slots.filter(|other| other.source.id() != slot.source.id());
        others.filter_map(|other| other.known()).map(|known| Arc::clone(&known.listed.actions)).collect()
    }
}

/// Marks a source as being asked. When it is dropped, even by a panic, the source may be asked again.
struct Asked(Arc<Slot>);

impl Drop for Asked {
    fn drop(&mut self) {
        *self.0.refresh.lock() = None;
    }
}

/// The actions that a source lists, and its guide to them. Actions under the name of another source are dropped.
async fn list_of(source: &dyn Source, org: &OrgId) -> Result<(Vec<Arc<Action>>, Option<Arc<str>>), Error> {
    let limit_ms = source.list_limit_ms();
    let limit = Duration::from_millis(limit_ms);
    let unreachable = |message| Error::Unreachable { source_id: source.id().to_string(), message };
    let began = Instant::now();
    let listed = tokio::time::timeout(limit, source.list(org)).await;
    if source.is_remote() {
        let took = metrics::histogram!("countersign_source_list_seconds", "source" => source.id().to_string());
        took.record(began.elapsed().as_secs_f64());
    }
    let mut actions = listed.map_err(|_| unreachable(format!("it did not list its actions within {limit_ms} ms")))??;
    actions.retain(|action| action.id.source() == source.id().as_str());
    Ok((actions, source.guide().map(Arc::from)))
}
