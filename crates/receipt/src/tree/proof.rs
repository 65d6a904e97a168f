//! Proofs: which hashes a proof needs, how to make one, and how to check one.

use super::{TILE_LEVELS, empty_root, node};
use crate::Error;
use countersign_core::Digest;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// The stored hashes that a proof needs: at most two runs of at most 256 for each stored level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Positions of leaves.
    pub leaf_ranges: Vec<Range<u64>>,
    /// Level (8, 16, …) and positions of complete tiles.
    pub tile_ranges: Vec<(u32, Range<u64>)>,
}

/// Stored hashes that the caller has fetched.
#[derive(Clone, Debug, Default)]
pub struct Have {
    hashes: HashMap<(u32, u64), Digest>,
}

impl Have {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds consecutive leaf hashes from position `start`.
    pub fn add_leaves(&mut self, start: u64, hashes: impl IntoIterator<Item = Digest>) {
        self.add_tiles(0, start, hashes);
    }

    /// Adds consecutive tile hashes of one level from position `start`.
    pub fn add_tiles(&mut self, level: u32, start: u64, hashes: impl IntoIterator<Item = Digest>) {
        self.hashes.extend((start..).zip(hashes).map(|(position, hash)| ((level, position), hash)));
    }

    /// The hash of the leaves in `range`, which must be a node of some tree.
    fn hash(&self, range: Range<u64>) -> Result<Digest, Error> {
        let hashes: Vec<_> = pieces(range).into_iter().map(|piece| self.piece(piece)).collect::<Result<_, _>>()?;
        Ok(hashes.into_iter().rev().reduce(|right, left| node(&left, &right)).unwrap_or_else(empty_root))
    }

    fn piece(&self, Piece { level, position }: Piece) -> Result<Digest, Error> {
        if level.is_multiple_of(TILE_LEVELS) {
            return self.hashes.get(&(level, position)).copied().ok_or(Error::MissingNode { level, position });
        }
        let left = self.piece(Piece { level: level - 1, position: position * 2 })?;
        let right = self.piece(Piece { level: level - 1, position: position * 2 + 1 })?;
        Ok(node(&left, &right))
    }
}

/// The hashes to fetch to prove that entry `index` is in the log of `size` entries.
pub fn inclusion_needs(index: u64, size: u64) -> Needs {
    needs(&inclusion_path(index, size))
}

/// The audit path of entry `index` in the log of `size` entries, with the leaf's sibling first.
pub fn inclusion_proof(index: u64, size: u64, have: &Have) -> Result<Vec<Digest>, Error> {
    if index >= size {
        return Err(Error::OutsideTree { index, size });
    }
    inclusion_path(index, size).into_iter().map(|range| have.hash(range)).collect()
}

/// The hashes to fetch to prove that the log of `new_size` entries continues the one of `old_size`.
pub fn consistency_needs(old_size: u64, new_size: u64) -> Needs {
    needs(&consistency_path(old_size, new_size))
}

/// The proof that the log of `new_size` entries continues the one of `old_size`; empty if there is nothing to prove.
pub fn consistency_proof(old_size: u64, new_size: u64, have: &Have) -> Result<Vec<Digest>, Error> {
    if old_size > new_size {
        return Err(Error::OutsideTree { index: old_size, size: new_size });
    }
    consistency_path(old_size, new_size).into_iter().map(|range| have.hash(range)).collect()
}

/// Checks that `leaf` is entry `index` of the log of `size` entries with this `root`.
pub fn verify_inclusion(leaf: &Digest, index: u64, size: u64, proof: &[Digest], root: &Digest) -> Result<(), Error> {
    if index >= size {
        return Err(Error::OutsideTree { index, size });
    }
    let (mut position, mut last) = (index, size - 1);
    let mut hash = *leaf;
    for sibling in proof {
        if last == 0 {
            return Err(Error::WrongProof);
        }
        if position % 2 == 1 || position == last {
            hash = node(sibling, &hash);
            // On some levels the right edge has no sibling, so climb to the level where it has one.
            while position % 2 == 0 && position != 0 {
                position >>= 1;
                last >>= 1;
            }
        } else {
            hash = node(&hash, sibling);
        }
        position >>= 1;
        last >>= 1;
    }
    if last == 0 && hash == *root { Ok(()) } else { Err(Error::WrongProof) }
}

/// Checks that the log of `new_size` entries with `new_root` begins with the log of `old_size` entries with `old_root`.
pub fn verify_consistency(old_size: u64, new_size: u64, old_root: &Digest, new_root: &Digest, proof: &[Digest]) -> Result<(), Error> {
    if old_size > new_size {
        return Err(Error::OutsideTree { index: old_size, size: new_size });
    }
    if old_size == new_size || old_size == 0 {
        let same = if old_size == new_size { old_root == new_root } else { *old_root == empty_root() };
        return if same && proof.is_empty() { Ok(()) } else { Err(Error::WrongProof) };
    }
    let (mut position, mut last) = (old_size - 1, new_size - 1);
    while position % 2 == 1 {
        position >>= 1;
        last >>= 1;
    }
    // If the old log is a perfect tree, its root is a node of the new tree, and the proof leaves it out.
    let (first, rest) = if old_size.is_power_of_two() { (old_root, proof) } else { proof.split_first().ok_or(Error::WrongProof)? };
    let (mut old_hash, mut new_hash) = (*first, *first);
    for sibling in rest {
        if last == 0 {
            return Err(Error::WrongProof);
        }
        if position % 2 == 1 || position == last {
            old_hash = node(sibling, &old_hash);
            new_hash = node(sibling, &new_hash);
            while position % 2 == 0 && position != 0 {
                position >>= 1;
                last >>= 1;
            }
        } else {
            new_hash = node(&new_hash, sibling);
        }
        position >>= 1;
        last >>= 1;
    }
    if last == 0 && old_hash == *old_root && new_hash == *new_root { Ok(()) } else { Err(Error::WrongProof) }
}

/// The sibling subtrees on the path from the leaf to the root, lowest first.
fn inclusion_path(index: u64, size: u64) -> Vec<Range<u64>> {
    let mut path = Vec::new();
    let mut within = 0..size;
    while index < size && within.end - within.start > 1 {
        let middle = split(&within);
        if index < middle {
            path.push(middle..within.end);
            within.end = middle;
        } else {
            path.push(within.start..middle);
            within.start = middle;
        }
    }
    path.reverse();
    path
}

/// The subtrees from which both roots can be computed, lowest first. This is RFC 9162's SUBPROOF without recursion.
fn consistency_path(old_size: u64, new_size: u64) -> Vec<Range<u64>> {
    let mut path = Vec::new();
    if old_size == 0 || old_size >= new_size {
        return path;
    }
    let mut within = 0..new_size;
    while within.end != old_size {
        let middle = split(&within);
        if old_size <= middle {
            path.push(middle..within.end);
            within.end = middle;
        } else {
            path.push(within.start..middle);
            within.start = middle;
        }
    }
    // The whole old tree needs no hash in the proof, because the verifier has its root.
    if within.start != 0 {
        path.push(within);
    }
    path.reverse();
    path
}

/// The position where the tree over `range` splits: after the largest power of two below its length.
const fn split(range: &Range<u64>) -> u64 {
    range.start + (1 << (range.end - range.start - 1).ilog2())
}

/// A perfect subtree: `2^level` leaves from `position * 2^level`.
#[derive(Clone, Copy)]
struct Piece {
    level: u32,
    position: u64,
}

/// The perfect subtrees that make up the node over `range`, left to right.
fn pieces(range: Range<u64>) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut start = range.start;
    while start < range.end {
        let level = (range.end - start).ilog2();
        pieces.push(Piece { level, position: start >> level });
        start += 1 << level;
    }
    pieces
}

/// Makes one run for each block of 256 that the path touches: around the entry in question, and at the right edge.
fn needs(path: &[Range<u64>]) -> Needs {
    let mut runs = BTreeMap::<(u32, u64), Range<u64>>::new();
    for Piece { level, position } in path.iter().cloned().flat_map(pieces) {
        let above = level % TILE_LEVELS;
        let run = position << above..(position + 1) << above;
        // Hashes that fill a gap in a run lie left of a complete node, so they are complete too; one read fetches them as well.
        let joined = runs.entry((level - above, run.start >> TILE_LEVELS)).or_insert_with(|| run.clone());
        *joined = joined.start.min(run.start)..joined.end.max(run.end);
    }
    let mut needs = Needs::default();
    for ((level, _), run) in runs {
        if level == 0 {
            needs.leaf_ranges.push(run);
        } else {
            needs.tile_ranges.push((level, run));
        }
    }
    needs
}
