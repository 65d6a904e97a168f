//! Which of many filters an event satisfies. It answers as `filter::naive` does, without asking every filter: each filter waits in an index for
//! a value without which it cannot hold, and is judged only when an event has that value.
//!
//! Readers hold an immutable snapshot. An edit goes to a short list beside it, or to its tombstones; when these are long, the segments
//! they concern are built anew. Read `segment` for what is indexed, `build` for how, and `judge` for how an event is answered.

mod build;
mod code;
mod cover;
mod intervals;
mod judge;
mod leaf;
mod segment;
mod shards;
mod texts;
mod trie;

#[cfg(test)]
mod generated;
#[cfg(test)]
mod tests;

use crate::filter::{Filter, naive};
use arc_swap::ArcSwap;
use build::Builder;
use countersign_core::limits;
use judge::Memory;
use segment::Segment;
use serde_json::Value;
use shards::{Shards, Subject};
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is matched: an event, as far as filters can see it.
#[derive(Clone, Copy, Debug)]
pub struct Event<'e> {
    /// Nothing, of an event that belongs to the org alone.
    pub space: Option<&'e str>,
    pub event_type: &'e str,
    /// The whole event, from whose root paths start.
    pub value: &'e Value,
}

/// Filters by key. Reading never waits for writing.
pub struct Matcher<K> {
    snapshot: ArcSwap<Snapshot<K>>,
    writer: Mutex<Writer<K>>,
    delta_max: usize,
    /// What readers remember of one event, kept for the next one.
    memories: Mutex<Vec<Memory>>,
}

struct Snapshot<K> {
    shards: Arc<Shards<K>>,
    /// Filters that are not in a segment yet.
    delta: Vec<Arc<Entry<K>>>,
    /// Filters that are still in a segment and count no more.
    dead: Arc<HashSet<Slot>>,
}

struct Entry<K> {
    key: K,
    subject: Subject,
    filter: Filter,
}

/// A filter's place in a segment.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Slot {
    segment: u32,
    filter: u32,
}

struct Writer<K> {
    places: HashMap<K, Place, foldhash::fast::RandomState>,
    segments: u32,
}

#[derive(Clone, Copy)]
enum Place {
    Delta,
    Segment(Slot),
}

/// How much is built anew.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// What changed, together with the segments that are small beside it.
    Changed,
    Everything,
}

/// A segment is built anew together with a later one unless it is this many times as large: there are few of them, and each filter is built
/// seldom.
const TIER: usize = 4;

/// Of so many filters one may wait beside the index, and always this many, up to the matcher's most.
const DELTA_SHARE: usize = 32;
const DELTA_MIN: usize = 8;

impl<K: Clone + Eq + Hash> Default for Matcher<K> {
    fn default() -> Self {
        Self::with_delta_max(limits::MATCHER_DELTA_MAX)
    }
}

impl<K: Clone + Eq + Hash> Matcher<K> {
    fn with_delta_max(delta_max: usize) -> Self {
        let snapshot = Snapshot { shards: Arc::default(), delta: Vec::new(), dead: Arc::default() };
        let writer = Writer { places: HashMap::default(), segments: 0 };
        Self { snapshot: ArcSwap::from_pointee(snapshot), writer: Mutex::new(writer), delta_max, memories: Mutex::default() }
    }

    /// Adds a filter, in place of the one that has this key. Without a space it is for events of all spaces and of none. `event_type` is a type,
    /// or ends in `.*` for all types below, or is `*`.
    pub fn insert(&self, key: K, space: Option<&str>, event_type: &str, filter: Filter) {
        let mut writer = self.writer();
        let snapshot = self.snapshot.load();
        let (mut delta, dead) = without(&snapshot, &writer, &key);
        writer.places.insert(key.clone(), Place::Delta);
        delta.push(Arc::new(Entry { key, subject: Subject::new(space, event_type), filter }));
        self.publish(&mut writer, Snapshot { shards: Arc::clone(&snapshot.shards), delta, dead });
    }

    /// Adds many filters at once, as `insert` would one by one, and puts them into the index at once.
    pub fn extend<'f>(&self, filters: impl IntoIterator<Item = (K, Option<&'f str>, &'f str, Filter)>) {
        let mut writer = self.writer();
        let snapshot = self.snapshot.load();
        let mut delta: HashMap<K, Arc<Entry<K>>> = snapshot.delta.iter().map(|entry| (entry.key.clone(), Arc::clone(entry))).collect();
        let mut dead = HashSet::clone(&snapshot.dead);
        for (key, space, event_type, filter) in filters {
            if let Some(Place::Segment(slot)) = writer.places.insert(key.clone(), Place::Delta) {
                dead.insert(slot);
            }
            delta.insert(key.clone(), Arc::new(Entry { key, subject: Subject::new(space, event_type), filter }));
        }
        let next = Snapshot { shards: Arc::clone(&snapshot.shards), delta: delta.into_values().collect(), dead: Arc::new(dead) };
        self.snapshot.store(Arc::new(writer.rebuilt(&next, Extent::Changed)));
    }

    /// Takes the filter of this key away. False, if there is none.
    pub fn remove(&self, key: &K) -> bool {
        let mut writer = self.writer();
        let snapshot = self.snapshot.load();
        let (delta, dead) = without(&snapshot, &writer, key);
        let found = writer.places.remove(key).is_some();
        if found {
            self.publish(&mut writer, Snapshot { shards: Arc::clone(&snapshot.shards), delta, dead });
        }
        found
    }

    /// Builds every shard anew as one segment. It only makes reading faster, after many edits.
    pub fn compact(&self) {
        let mut writer = self.writer();
        let snapshot = self.snapshot.load();
        self.snapshot.store(Arc::new(writer.rebuilt(&snapshot, Extent::Everything)));
    }

    /// The keys of all filters that the event satisfies, in no order.
    pub fn matching(&self, event: &Event<'_>) -> Vec<K> {
        let snapshot = self.snapshot.load();
        let mut keys = Vec::new();
        let mut memory = self.memories().pop().unwrap_or_default();
        snapshot.shards.each_for(event, |segment| {
            segment.matching(event.value, &mut memory, |filter, key| {
                let slot = Slot { segment: segment.id, filter };
                if snapshot.dead.is_empty() || !snapshot.dead.contains(&slot) {
                    keys.push(key.clone());
                }
            });
        });
        self.memories().push(memory);
        let waiting = snapshot.delta.iter().filter(|entry| entry.subject.covers(event) && naive::matches(&entry.filter, event.value));
        keys.extend(waiting.map(|entry| entry.key.clone()));
        keys
    }

    pub fn len(&self) -> usize {
        self.writer().places.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn publish(&self, writer: &mut Writer<K>, next: Snapshot<K>) {
        // Few filters are indexed again in no time, and then none of them has to be asked one by one.
        let waiting_max = (writer.places.len() / DELTA_SHARE).max(DELTA_MIN).min(self.delta_max);
        let full = next.delta.len() + next.dead.len() > waiting_max;
        let next = if full { writer.rebuilt(&next, Extent::Changed) } else { next };
        self.snapshot.store(Arc::new(next));
    }

    fn memories(&self) -> MutexGuard<'_, Vec<Memory>> {
        self.memories.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A writer that panicked has published nothing, so what it left is as good as before.
    fn writer(&self) -> MutexGuard<'_, Writer<K>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The delta and the tombstones of a snapshot in which the key counts no more.
fn without<K: Clone + Eq + Hash>(snapshot: &Snapshot<K>, writer: &Writer<K>, key: &K) -> (Vec<Arc<Entry<K>>>, Arc<HashSet<Slot>>) {
    match writer.places.get(key) {
        Some(Place::Delta) => (snapshot.delta.iter().filter(|entry| entry.key != *key).cloned().collect(), Arc::clone(&snapshot.dead)),
        Some(Place::Segment(slot)) => {
            let mut dead = HashSet::clone(&snapshot.dead);
            dead.insert(*slot);
            (snapshot.delta.clone(), Arc::new(dead))
        }
        None => (snapshot.delta.clone(), Arc::clone(&snapshot.dead)),
    }
}

impl<K: Clone + Eq + Hash> Writer<K> {
    /// The same filters, all of them in segments.
    fn rebuilt(&mut self, snapshot: &Snapshot<K>, extent: Extent) -> Snapshot<K> {
        let mut shards = Shards::clone(&snapshot.shards);
        let mut added: HashMap<&Subject, Vec<&Entry<K>>> = HashMap::new();
        snapshot.delta.iter().for_each(|entry| added.entry(&entry.subject).or_default().push(entry));
        let changed: HashSet<u32> = snapshot.dead.iter().map(|slot| slot.segment).collect();
        let mut subjects: HashSet<Subject> = added.keys().copied().cloned().collect();
        subjects.extend(shards.subjects(|segment| extent == Extent::Everything || changed.contains(&segment.id)));
        for subject in subjects {
            let segments = shards.take(&subject);
            let entries = added.remove(&subject).unwrap_or_default();
            shards.put(&subject, self.segments(segments, &entries, &snapshot.dead, extent));
        }
        Snapshot { shards: Arc::new(shards), delta: Vec::new(), dead: Arc::default() }
    }

    /// The segments of one shard, with the entries and without the dead.
    fn segments(
        &mut self,
        segments: Vec<Arc<Segment<K>>>,
        entries: &[&Entry<K>],
        dead: &HashSet<Slot>,
        extent: Extent,
    ) -> Vec<Arc<Segment<K>>> {
        let mut builder = Builder::default();
        entries.iter().for_each(|entry| builder.add(entry.key.clone(), &entry.filter));
        let mut kept = Vec::new();
        // The last is the smallest, so what is built grows until it meets one that is much larger.
        for segment in segments.into_iter().rev() {
            let is_dead = |filter: u32| dead.contains(&Slot { segment: segment.id, filter });
            let concerned = dead.iter().any(|slot| slot.segment == segment.id);
            let small = builder.len() > 0 && segment.len() < TIER * builder.len();
            if extent == Extent::Everything || concerned || small {
                builder.absorb(&segment, |filter| !is_dead(filter));
            } else {
                kept.push(segment);
            }
        }
        kept.reverse();
        if builder.len() > 0 {
            kept.push(Arc::new(self.finished(builder)));
            kept.sort_by_key(|segment| std::cmp::Reverse(segment.len()));
        }
        kept
    }

    fn finished(&mut self, builder: Builder<K>) -> Segment<K> {
        let id = self.segments;
        self.segments = self.segments.wrapping_add(1);
        let segment = builder.finish(id);
        for (filter, key) in (0..).zip(segment.keys()) {
            self.places.insert(key.clone(), Place::Segment(Slot { segment: id, filter }));
        }
        segment
    }
}
