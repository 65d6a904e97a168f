//! Filters apart by the space and the type of the events they are for: most events concern few of them.

use super::Event;
use super::segment::Segment;
use std::collections::HashMap;
use std::sync::Arc;

/// What events a filter is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Subject {
    space: Option<Arc<str>>,
    types: Types,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Types {
    Exact(Arc<str>),
    /// All types that begin with this, which ends in a dot or is empty.
    Below(Arc<str>),
}

pub(super) struct Shards<K> {
    everywhere: Arc<Shelf<K>>,
    spaces: HashMap<Arc<str>, Arc<Shelf<K>>, foldhash::fast::RandomState>,
}

/// The segments of one space, the largest of each shard first.
struct Shelf<K> {
    exact: Labelled<K>,
    below: Labelled<K>,
}

type Labelled<K> = HashMap<Arc<str>, Vec<Arc<Segment<K>>>, foldhash::fast::RandomState>;

impl Subject {
    pub(super) fn new(space: Option<&str>, event_type: &str) -> Self {
        let types = match event_type.strip_suffix('*') {
            Some(start) if start.is_empty() || start.ends_with('.') => Types::Below(start.into()),
            Some(_) | None => Types::Exact(event_type.into()),
        };
        Self { space: space.map(Into::into), types }
    }

    pub(super) fn covers(&self, event: &Event<'_>) -> bool {
        let in_space = self.space.is_none() || self.space.as_deref() == event.space;
        in_space
            && match &self.types {
                Types::Exact(exact) => **exact == *event.event_type,
                Types::Below(start) => event.event_type.len() > start.len() && event.event_type.starts_with(&**start),
            }
    }
}

impl<K> Shards<K> {
    /// Visits every segment that may have a filter for the event, by its space and type.
    pub(super) fn each_for(&self, event: &Event<'_>, mut visit: impl FnMut(&Segment<K>)) {
        self.everywhere.each_for(event.event_type, &mut visit);
        if let Some(shelf) = event.space.and_then(|space| self.spaces.get(space)) {
            shelf.each_for(event.event_type, &mut visit);
        }
    }

    /// Of whom a segment is so.
    pub(super) fn subjects(&self, is_so: impl Fn(&Segment<K>) -> bool) -> Vec<Subject> {
        let spaces = self.spaces.iter().map(|(space, shelf)| (Some(Arc::clone(space)), shelf));
        let shelves = spaces.chain([(None, &self.everywhere)]);
        shelves
            .flat_map(|(space, shelf)| {
                let exact = shelf.exact.iter().map(|(label, segments)| (Types::Exact(Arc::clone(label)), segments));
                let below = shelf.below.iter().map(|(label, segments)| (Types::Below(Arc::clone(label)), segments));
                exact.chain(below).map(move |(types, segments)| (Subject { space: space.clone(), types }, segments))
            })
            .filter(|(_, segments)| segments.iter().any(|segment| is_so(segment)))
            .map(|(subject, _)| subject)
            .collect()
    }

    /// Takes the segments of a subject away.
    pub(super) fn take(&mut self, subject: &Subject) -> Vec<Arc<Segment<K>>> {
        let shelf = self.shelf(subject);
        match &subject.types {
            Types::Exact(label) => shelf.exact.remove(label),
            Types::Below(label) => shelf.below.remove(label),
        }
        .unwrap_or_default()
    }

    pub(super) fn put(&mut self, subject: &Subject, segments: Vec<Arc<Segment<K>>>) {
        if segments.is_empty() {
            return;
        }
        let shelf = self.shelf(subject);
        match &subject.types {
            Types::Exact(label) => shelf.exact.insert(Arc::clone(label), segments),
            Types::Below(label) => shelf.below.insert(Arc::clone(label), segments),
        };
    }

    fn shelf(&mut self, subject: &Subject) -> &mut Shelf<K> {
        Arc::make_mut(match &subject.space {
            None => &mut self.everywhere,
            Some(space) => self.spaces.entry(Arc::clone(space)).or_default(),
        })
    }
}

impl<K> Shelf<K> {
    fn each_for(&self, event_type: &str, visit: &mut impl FnMut(&Segment<K>)) {
        self.exact.get(event_type).into_iter().flatten().for_each(|segment| visit(segment));
        if self.below.is_empty() {
            return;
        }
        let starts = std::iter::once(0).chain(event_type.match_indices('.').map(|(dot, _)| dot + 1));
        for start in starts.filter(|start| *start < event_type.len()) {
            self.below.get(event_type.get(..start).unwrap_or_default()).into_iter().flatten().for_each(|segment| visit(segment));
        }
    }
}

// Not derived: a derived one would ask the same of `K`.
impl<K> Default for Shards<K> {
    fn default() -> Self {
        Self { everywhere: Arc::default(), spaces: HashMap::default() }
    }
}

impl<K> Clone for Shards<K> {
    fn clone(&self) -> Self {
        Self { everywhere: Arc::clone(&self.everywhere), spaces: self.spaces.clone() }
    }
}

impl<K> Default for Shelf<K> {
    fn default() -> Self {
        Self { exact: HashMap::default(), below: HashMap::default() }
    }
}

impl<K> Clone for Shelf<K> {
    fn clone(&self) -> Self {
        Self { exact: self.exact.clone(), below: self.below.clone() }
    }
}
