//! Which of many filters an event satisfies. It answers as `filter::naive` does, without asking every filter: each filter waits in an index for
//! a value without which it cannot hold, and is judged only when an event has that value.
//!
//! A matcher never changes: whoever has other filters builds another one, so no filter of before is left in it. Read `segment` for what is
//! indexed, `build` for how, and `judge` for how an event is answered.

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

use crate::filter::Filter;
use build::Builder;
use judge::{Judged, Memory, Work};
use serde_json::Value;
use shards::{Shards, Subject};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is matched: an event, as far as filters can see it.
#[derive(Clone, Copy, Debug)]
pub struct Event<'e> {
    /// Nothing, of an event that belongs to the org alone: it is for the filters of every space.
    pub space: Option<&'e str>,
    pub event_type: &'e str,
    /// The whole event, from whose root paths start.
    pub value: &'e Value,
}

/// What an event comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matched<K> {
    pub keys: Vec<K>,
    /// Filters that ask for more work on this event than one filter, or all of them together, may be.
    pub exceeding: Vec<K>,
}

/// How often an event is judged at most: without the filters that took most of its work the last time, so that the others are judged.
const PASSES_MAX: usize = 4;

/// Filters by key.
pub struct Matcher<K> {
    shards: Shards<K>,
    /// Whether a text of an event may have to be searched, which takes longer than looking up a value.
    searches: bool,
    /// What readers remember of one event, kept for the next one.
    memories: Mutex<Vec<Memory>>,
}

impl<K> std::fmt::Debug for Matcher<K> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Matcher").field("searches", &self.searches).finish_non_exhaustive()
    }
}

impl<K: Clone> Matcher<K> {
    /// Builds the index of these filters, each with a key of its own. Without a space a filter is for events of all spaces and of none. The type
    /// of its events is a type, or ends in `.*` for all types below, or is `*`.
    pub fn of<'f>(filters: impl IntoIterator<Item = (K, Option<&'f str>, &'f str, &'f Filter)>) -> Self {
        let mut builders: HashMap<Subject, Builder<K>> = HashMap::new();
        let mut searches = false;
        for (key, space, event_type, filter) in filters {
            searches |= filter.searches();
            builders.entry(Subject::new(space, event_type)).or_default().add(key, filter);
        }
        let mut shards = Shards::default();
        builders.into_iter().for_each(|(subject, builder)| shards.put(subject, builder.finish()));
        Self { shards, searches, memories: Mutex::default() }
    }

    /// Whether a text of an event may have to be searched, which takes longer than looking up a value.
    pub const fn searches(&self) -> bool {
        self.searches
    }

    /// The keys of all filters that the event satisfies, in no order, and of those that could not be judged: the work for one event is bounded.
    pub fn matching(&self, event: &Event<'_>) -> Matched<K> {
        let mut memory = self.memories().pop().unwrap_or_default();
        let work = Work::default();
        let mut matched = self.judged(event, &mut memory, &work);
        for _ in 1..PASSES_MAX {
            if !work.blame_the_dearest() {
                break;
            }
            matched = self.judged(event, &mut memory, &work);
        }
        self.memories().push(memory);
        matched
    }

    fn judged(&self, event: &Event<'_>, memory: &mut Memory, work: &Work) -> Matched<K> {
        let mut matched = Matched { keys: Vec::new(), exceeding: Vec::new() };
        let mut visit = |key: &K, judged| match judged {
            Judged::Holds => matched.keys.push(key.clone()),
            Judged::Exceeds => matched.exceeding.push(key.clone()),
        };
        self.shards.each_for(event, |segment| segment.matching(event.value, memory, work, &mut visit));
        matched
    }

    fn memories(&self) -> MutexGuard<'_, Vec<Memory>> {
        self.memories.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
