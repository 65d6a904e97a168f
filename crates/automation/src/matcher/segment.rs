//! The filters of one shard, and the indexes by which they are found.

use super::intervals::Intervals;
use super::leaf::Leaf;
use super::texts::Texts;
use super::trie::Trie;
use crate::filter::ScalarRef;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::ops::Range;

pub(super) struct Segment<K> {
    pub(super) keys: Box<[K]>,
    pub(super) inner: Inner,
}

/// Everything but the keys.
pub(super) struct Inner {
    pub(super) paths: Box<[Box<[Box<str>]>]>,
    pub(super) trie: Trie,
    pub(super) leaves: Box<[Leaf]>,
    /// The words of all filters, and where those of each begin.
    pub(super) words: Box<[u32]>,
    pub(super) begins: Box<[u32]>,
    /// Filters that hold unless a leaf in the index is true. Those before are found by the index, those after are judged for every event.
    pub(super) open: Range<u32>,
    /// The filters that each leaf finds, and where those of each begin.
    pub(super) finds: Box<[u32]>,
    pub(super) finds_begin: Box<[u32]>,
    pub(super) index: Index,
}

/// What finds leaves.
#[derive(Default)]
pub(super) struct Index {
    pub(super) hasher: foldhash::fast::RandomState,
    /// By the hash of a path and a whole value, a start or an end: the range of its leaves in `hits`. Two that differ may share a hash: a leaf that
    /// is found is judged.
    pub(super) hashed: HashMap<u64, (u32, u32), foldhash::fast::RandomState>,
    pub(super) hits: Box<[u32]>,
    pub(super) paths: Box<[PathIndex]>,
}

/// What is looked up for a path.
#[derive(Default)]
pub(super) struct PathIndex {
    pub(super) exists: bool,
    pub(super) equals: bool,
    /// The lengths that operands of `starts_with` have.
    pub(super) starts: Box<[u16]>,
    pub(super) ends: Box<[u16]>,
    pub(super) texts: Option<Box<Texts>>,
    pub(super) ranges: Option<Box<Intervals>>,
}

/// What is looked up by its hash.
#[derive(Hash)]
pub(super) enum Probe<'v> {
    Exists,
    Null,
    Bool(bool),
    Number((u8, u64)),
    Text(&'v [u8]),
    Start(&'v [u8]),
    End(&'v [u8]),
}

impl Inner {
    pub(super) fn words_of(&self, filter: u32) -> &[u32] {
        slice(&self.words, &self.begins, filter)
    }

    pub(super) fn found_by(&self, leaf: u32) -> &[u32] {
        slice(&self.finds, &self.finds_begin, leaf)
    }
}

impl Index {
    pub(super) fn hash(&self, path: u32, probe: &Probe<'_>) -> u64 {
        self.hasher.hash_one((path, probe))
    }

    pub(super) fn look_up(&self, path: u32, probe: &Probe<'_>) -> &[u32] {
        match self.hashed.get(&self.hash(path, probe)) {
            Some((begin, end)) => self.hits.get(*begin as usize..*end as usize).unwrap_or_default(),
            None => &[],
        }
    }
}

impl<'v> Probe<'v> {
    pub(super) const fn whole(scalar: ScalarRef<'v>) -> Self {
        match scalar {
            ScalarRef::Null => Self::Null,
            ScalarRef::Bool(bool) => Self::Bool(bool),
            ScalarRef::Number(number) => Self::Number(number.bits()),
            ScalarRef::Text(text) => Self::Text(text.as_bytes()),
        }
    }
}

fn slice<'a>(all: &'a [u32], begins: &[u32], place: u32) -> &'a [u32] {
    match begins.get(place as usize..place as usize + 2) {
        Some(&[begin, end]) => all.get(begin as usize..end as usize).unwrap_or_default(),
        Some(_) | None => &[],
    }
}
