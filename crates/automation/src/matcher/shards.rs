//! Filters apart by the space and the type of the events they are for: most events concern few of them.

use super::Event;
use super::segment::Segment;
use std::collections::HashMap;

/// What events a filter is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Subject {
    space: Option<Box<str>>,
    types: Types,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Types {
    Exact(Box<str>),
    /// All types that begin with this, which ends in a dot or is empty.
    Below(Box<str>),
}

pub(super) struct Shards<K> {
    everywhere: Shelf<K>,
    spaces: HashMap<Box<str>, Shelf<K>, foldhash::fast::RandomState>,
}

/// The segments of one space.
struct Shelf<K> {
    exact: Labelled<K>,
    below: Labelled<K>,
}

type Labelled<K> = HashMap<Box<str>, Segment<K>, foldhash::fast::RandomState>;

impl Subject {
    pub(super) fn new(space: Option<&str>, event_type: &str) -> Self {
        let types = match event_type.strip_suffix('*') {
            Some(start) if start.is_empty() || start.ends_with('.') => Types::Below(start.into()),
            Some(_) | None => Types::Exact(event_type.into()),
        };
        Self { space: space.map(Into::into), types }
    }
}

impl<K> Shards<K> {
    /// Visits every segment that may have a filter for the event, by its space and type.
    pub(super) fn each_for(&self, event: &Event<'_>, mut visit: impl FnMut(&Segment<K>)) {
        self.everywhere.each_for(event.event_type, &mut visit);
        match event.space {
            Some(space) => self.spaces.get(space).into_iter().for_each(|shelf| shelf.each_for(event.event_type, &mut visit)),
            None => self.spaces.values().for_each(|shelf| shelf.each_for(event.event_type, &mut visit)),
        }
    }

    /// Adds the segment of a subject that has none yet.
    pub(super) fn put(&mut self, subject: Subject, segment: Segment<K>) {
        let shelf = match subject.space {
            None => &mut self.everywhere,
            Some(space) => self.spaces.entry(space).or_default(),
        };
        match subject.types {
            Types::Exact(label) => shelf.exact.insert(label, segment),
            Types::Below(label) => shelf.below.insert(label, segment),
        };
    }
}

impl<K> Shelf<K> {
    fn each_for(&self, event_type: &str, visit: &mut impl FnMut(&Segment<K>)) {
        self.exact.get(event_type).into_iter().for_each(&mut *visit);
        if self.below.is_empty() {
            return;
        }
        let starts = std::iter::once(0).chain(event_type.match_indices('.').map(|(dot, _)| dot + 1));
        for start in starts.filter(|start| *start < event_type.len()) {
            self.below.get(event_type.get(..start).unwrap_or_default()).into_iter().for_each(&mut *visit);
        }
    }
}

// Not derived: a derived one would ask the same of `K`.
impl<K> Default for Shards<K> {
    fn default() -> Self {
        Self { everywhere: Shelf::default(), spaces: HashMap::default() }
    }
}

impl<K> Default for Shelf<K> {
    fn default() -> Self {
        Self { exact: HashMap::default(), below: HashMap::default() }
    }
}
