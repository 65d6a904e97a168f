//! The Merkle tree over an audit log (RFC 6962, RFC 9162): short proofs that it contains an entry and that it only grew.
//! A writer keeps a `Frontier` and the tiles it completes; a proof then needs at most two runs of 256 hashes per level.
//! This code does not know where hashes are stored: `…_needs` lists the required ones, and the caller fetches them into `Have`.

mod proof;

use countersign_core::Digest;
use sha2::{Digest as _, Sha256};

pub use proof::{
    Have, Needs, consistency_needs, consistency_proof, inclusion_needs, inclusion_proof, verify_consistency, verify_inclusion,
};

/// The number of levels from one stored level to the next: the root of each perfect subtree of 256 stored hashes is stored too.
const TILE_LEVELS: u32 = 8;

/// SHA-256(0x00 ‖ payload).
pub fn leaf(payload: &str) -> Digest {
    Digest::new(Sha256::new().chain_update([0]).chain_update(payload).finalize().into())
}

/// SHA-256(0x01 ‖ left ‖ right).
pub fn node(left: &Digest, right: &Digest) -> Digest {
    Digest::new(Sha256::new().chain_update([1]).chain_update(left.as_bytes()).chain_update(right.as_bytes()).finalize().into())
}

/// The root of an empty log: SHA-256 of nothing.
pub fn empty_root() -> Digest {
    Digest::new(Sha256::digest([]).into())
}

/// A perfect subtree that was just completed, to be stored for proofs. It covers `2^level` leaves from `position * 2^level`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompleteTile {
    /// 8, 16, 24, …
    pub level: u32,
    pub position: u64,
    pub hash: Digest,
}

/// The right edge of the tree: one hash for each bit set in the size. This is enough to append leaves and to compute the root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frontier {
    size: u64,
    /// Roots of perfect subtrees, largest first.
    edge: Vec<Digest>,
}

impl Frontier {
    pub const fn new() -> Self {
        Self { size: 0, edge: Vec::new() }
    }

    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Adds a leaf and returns the tiles it completed, lowest level first. Only every 256th leaf completes any.
    pub fn append(&mut self, leaf: Digest) -> Vec<CompleteTile> {
        let mut complete = Vec::new();
        let mut hash = leaf;
        for level in 1..=self.size.trailing_ones() {
            let Some(left) = self.edge.pop() else { break };
            hash = node(&left, &hash);
            if level % TILE_LEVELS == 0 {
                complete.push(CompleteTile { level, position: self.size >> level, hash });
            }
        }
        self.edge.push(hash);
        self.size += 1;
        complete
    }

    pub fn root(&self) -> Digest {
        self.edge.iter().rev().copied().reduce(|right, left| node(&left, &right)).unwrap_or_else(empty_root)
    }

    /// The hashes as bytes: 32 bytes for each bit set in the size.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.edge.iter().flat_map(|hash| *hash.as_bytes()).collect()
    }

    /// Reads what `to_bytes` wrote; `None` if the number of hashes does not match the size.
    pub fn from_bytes(size: u64, bytes: &[u8]) -> Option<Self> {
        let (hashes, rest) = bytes.as_chunks::<32>();
        let fits = rest.is_empty() && hashes.len() == size.count_ones() as usize;
        fits.then(|| Self { size, edge: hashes.iter().copied().map(Digest::new).collect() })
    }
}

#[cfg(test)]
mod tree_tests;
