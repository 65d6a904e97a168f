//! Builds a segment: numbers the leaves of all filters, so that equal ones are one, and chooses by which leaves each filter is found.

use super::code::write;
use super::cover::{Access, Chooser};
use super::intervals::Intervals;
use super::leaf::{Leaf, Test};
use super::segment::{Index, Inner, PathIndex, Probe, Segment};
use super::texts::Texts;
use super::trie::Trie;
use crate::filter::Filter;
use foldhash::fast::RandomState;
use std::collections::HashMap;

pub(super) struct Builder<K> {
    keys: Vec<K>,
    words: Vec<u32>,
    begins: Vec<u32>,
    leaves: HashMap<Leaf, u32, RandomState>,
    paths: HashMap<Box<[Box<str>]>, u32, RandomState>,
}

/// How a filter is found, in the order in which they stand in a segment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    /// When one of its leaves is true.
    Indexed,
    /// It holds unless one of its leaves is true.
    Open,
    /// It is judged for every event.
    Always,
}

impl<K> Default for Builder<K> {
    fn default() -> Self {
        Self { keys: Vec::new(), words: Vec::new(), begins: Vec::new(), leaves: HashMap::default(), paths: HashMap::default() }
    }
}

impl<K> Builder<K> {
    pub(super) fn add(&mut self, key: K, filter: &Filter) {
        let Self { keys, words, begins, leaves, paths } = self;
        keys.push(key);
        begins.push(words.len() as u32);
        write(filter, words, &mut |path, test| number(leaves, paths, path.names(), test));
    }

    pub(super) fn finish(self) -> Segment<K> {
        let Self { keys, words, begins, leaves, paths } = self;
        let paths = in_order(paths);
        let leaves = in_order(leaves);
        let chooser = Chooser::of(&leaves);
        let ends = begins.iter().skip(1).copied().chain([words.len() as u32]);
        let written = begins.iter().zip(ends).map(|(begin, end)| words.get(*begin as usize..end as usize).unwrap_or_default());
        let mut filters: Vec<_> = keys.into_iter().zip(written).map(|(key, words)| classified(&chooser, key, words)).collect();
        filters.sort_by_key(|(class, ..)| *class);
        let mut finds: Vec<(u32, u32)> = Vec::new();
        for (filter, (_, found_by, ..)) in (0..).zip(&filters) {
            finds.extend(found_by.iter().map(|leaf| (*leaf, filter)));
        }
        finds.sort_unstable();
        finds.dedup();
        let count = |class| filters.iter().filter(|(other, ..)| *other == class).count() as u32;
        let open = count(Class::Indexed)..count(Class::Indexed) + count(Class::Open);
        let index = index(&leaves, &chooser, &finds, paths.len());
        let inner = Inner {
            trie: Trie::of(paths.iter().map(|names| &**names)),
            begins: offsets(filters.iter().map(|(_, _, words, _)| words.len())),
            words: filters.iter().flat_map(|(_, _, words, _)| words.iter().copied()).collect(),
            open,
            finds_begin: begins_of(&finds, leaves.len()),
            finds: finds.iter().map(|(_, filter)| *filter).collect(),
            index,
            leaves: leaves.into(),
            paths: paths.into(),
        };
        Segment { keys: filters.into_iter().map(|(.., key)| key).collect(), inner }
    }
}

#[expect(clippy::mutable_key_type, reason = "a regex is known by its text, whether it is compiled yet or not")]
fn number(
    leaves: &mut HashMap<Leaf, u32, RandomState>,
    paths: &mut HashMap<Box<[Box<str>]>, u32, RandomState>,
    names: &[Box<str>],
    test: Test,
) -> u32 {
    let path = match paths.get(names) {
        Some(path) => *path,
        None => {
            let path = paths.len() as u32;
            paths.insert(names.into(), path);
            path
        }
    };
    let next = leaves.len() as u32;
    *leaves.entry(Leaf { path, test }).or_insert(next)
}

fn in_order<T>(numbered: HashMap<T, u32, RandomState>) -> Vec<T> {
    let mut numbered: Vec<_> = numbered.into_iter().collect();
    numbered.sort_unstable_by_key(|(_, number)| *number);
    numbered.into_iter().map(|(thing, _)| thing).collect()
}

fn classified<'w, K>(chooser: &Chooser<'_>, key: K, words: &'w [u32]) -> (Class, Vec<u32>, &'w [u32], K) {
    let (class, cover) = match (chooser.cover(words, true), chooser.cover(words, false)) {
        (Some(cover), _) => (Class::Indexed, Some(cover)),
        (None, Some(cover)) => (Class::Open, Some(cover)),
        (None, None) => (Class::Always, None),
    };
    (class, cover.map(|cover| cover.leaves).unwrap_or_default(), words, key)
}

/// Where each begins that has this length, and where the last ends.
fn offsets(lengths: impl Iterator<Item = usize>) -> Box<[u32]> {
    let mut end = 0;
    let ends = lengths.map(|length| {
        end += length as u32;
        end
    });
    std::iter::once(0).chain(ends).collect()
}

fn begins_of(sorted: &[(u32, u32)], count: usize) -> Box<[u32]> {
    let mut lengths = vec![0; count];
    for (place, _) in sorted {
        if let Some(length) = lengths.get_mut(*place as usize) {
            *length += 1;
        }
    }
    offsets(lengths.into_iter())
}

/// What one path's indexes are built from.
#[derive(Default)]
struct Gathered<'l> {
    index: PathIndex,
    starts: Vec<u16>,
    ends: Vec<u16>,
    texts: Vec<(&'l str, u32)>,
    ranges: Vec<(super::cover::Bound, super::cover::Bound, u32)>,
}

/// The index of the leaves by which filters are found.
fn index(leaves: &[Leaf], chooser: &Chooser<'_>, finds: &[(u32, u32)], paths: usize) -> Index {
    let mut index = Index::default();
    let mut hashed: Vec<(u64, u32)> = Vec::new();
    let mut gathered: Vec<Gathered<'_>> = (0..paths).map(|_| Gathered::default()).collect();
    let mut finding: Vec<u32> = finds.iter().map(|(leaf, _)| *leaf).collect();
    finding.dedup();
    for number in finding {
        let Some((path, (_, access))) = leaves.get(number as usize).map(|leaf| leaf.path).zip(chooser.access(number)) else { continue };
        let Some(of_path) = gathered.get_mut(path as usize) else { continue };
        match access {
            Access::Exists => {
                of_path.index.exists = true;
                hashed.push((index.hash(path, &Probe::Exists), number));
            }
            Access::Equals(listed) => {
                of_path.index.equals = true;
                hashed.extend(listed.iter().map(|scalar| (index.hash(path, &Probe::whole(scalar.as_ref())), number)));
            }
            Access::StartsWith(text) => {
                of_path.starts.push(text.len() as u16);
                hashed.push((index.hash(path, &Probe::Start(text.as_bytes())), number));
            }
            Access::EndsWith(text) => {
                of_path.ends.push(text.len() as u16);
                hashed.push((index.hash(path, &Probe::End(text.as_bytes())), number));
            }
            Access::Contains(texts) => of_path.texts.extend(texts.iter().map(|text| (&**text, number))),
            Access::Range(low, high) => of_path.ranges.push((low, high, number)),
        }
    }
    hashed.sort_unstable();
    hashed.dedup();
    for (place, (hash, _)) in (0..).zip(&hashed) {
        index.hashed.entry(*hash).or_insert((place, place)).1 = place + 1;
    }
    index.hashed.shrink_to_fit();
    index.hits = hashed.iter().map(|(_, leaf)| *leaf).collect();
    index.paths = gathered.into_iter().map(Gathered::finish).collect();
    index
}

impl Gathered<'_> {
    fn finish(mut self) -> PathIndex {
        for lengths in [&mut self.starts, &mut self.ends] {
            lengths.sort_unstable();
            lengths.dedup();
        }
        PathIndex {
            starts: self.starts.into(),
            ends: self.ends.into(),
            texts: (!self.texts.is_empty()).then(|| Box::new(Texts::of(self.texts))),
            ranges: (!self.ranges.is_empty()).then(|| Box::new(Intervals::of(&self.ranges))),
            ..self.index
        }
    }
}
