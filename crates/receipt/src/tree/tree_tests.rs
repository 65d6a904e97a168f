//! The tree and its proofs against the Certificate Transparency vectors, a naive RFC 9162 implementation, and spoiled proofs.

use super::*;
use crate::Error;
use proptest::prelude::*;
use std::collections::HashMap;

/// The inputs of the Certificate Transparency test vectors.
const INPUTS: [&str; 8] = ["", "\0", "\x10", " !", "01", "@ABC", "PQRSTUVW", "`abcdefghijklmno"];
/// Their roots, by size.
const ROOTS: [&str; 9] = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
];

/// The stored hashes of a log, as a store would keep them.
#[derive(Default)]
struct Kept {
    leaves: Vec<Digest>,
    tiles: HashMap<(u32, u64), Digest>,
    roots: Vec<Digest>,
}

impl Kept {
    fn new(leaves: impl IntoIterator<Item = Digest>) -> Self {
        let mut kept = Self { roots: vec![empty_root()], ..Self::default() };
        let mut frontier = Frontier::new();
        for leaf in leaves {
            kept.leaves.push(leaf);
            let tiles = frontier.append(leaf);
            kept.tiles.extend(tiles.into_iter().map(|tile| ((tile.level, tile.position), tile.hash)));
            kept.roots.push(frontier.root());
        }
        kept
    }

    fn of_size(size: u64) -> Self {
        Self::new((0..size).map(|index| leaf(&index.to_string())))
    }

    /// Fetches only the required hashes, and checks that they are never more than two runs of 256 per level.
    fn fetch(&self, needs: &Needs) -> Have {
        let mut have = Have::new();
        let mut runs_per_level = HashMap::<u32, u32>::new();
        let leaf_runs = needs.leaf_ranges.iter().map(|run| (0, run));
        for (level, run) in leaf_runs.chain(needs.tile_ranges.iter().map(|(level, run)| (*level, run))) {
            assert!(run.start < run.end && run.end - run.start <= 256, "{needs:?}");
            let runs = runs_per_level.entry(level).or_default();
            *runs += 1;
            assert!(*runs <= 2, "{needs:?}");
            let hashes: Vec<_> = run
                .clone()
                .map(|position| if level == 0 { self.leaves[position as usize] } else { self.tiles[&(level, position)] })
                .collect();
            have.add_tiles(level, run.start, hashes);
        }
        have
    }

    fn inclusion(&self, index: u64, size: u64) -> Vec<Digest> {
        inclusion_proof(index, size, &self.fetch(&inclusion_needs(index, size))).unwrap()
    }

    fn consistency(&self, old: u64, new: u64) -> Vec<Digest> {
        consistency_proof(old, new, &self.fetch(&consistency_needs(old, new))).unwrap()
    }

    fn verifies_inclusion(&self, index: u64, size: u64, proof: &[Digest]) -> Result<(), Error> {
        verify_inclusion(&self.leaves[index as usize], index, size, proof, &self.roots[size as usize])
    }

    fn verifies_consistency(&self, old: u64, new: u64, proof: &[Digest]) -> Result<(), Error> {
        verify_consistency(old, new, &self.roots[old as usize], &self.roots[new as usize], proof)
    }
}

/// RFC 9162 word for word: the hash, the audit path and the consistency proof by their recursive definitions.
mod naive {
    use super::super::{empty_root, node};
    use countersign_core::Digest;

    fn split(size: usize) -> usize {
        let mut left = 1;
        while left * 2 < size {
            left *= 2;
        }
        left
    }

    pub(super) fn root(leaves: &[Digest]) -> Digest {
        match leaves {
            [] => empty_root(),
            [leaf] => *leaf,
            _ => {
                let (left, right) = leaves.split_at(split(leaves.len()));
                node(&root(left), &root(right))
            }
        }
    }

    pub(super) fn path(index: usize, leaves: &[Digest]) -> Vec<Digest> {
        if leaves.len() == 1 {
            return Vec::new();
        }
        let (left, right) = leaves.split_at(split(leaves.len()));
        let (mut path, sibling) =
            if index < left.len() { (path(index, left), root(right)) } else { (path(index - left.len(), right), root(left)) };
        path.push(sibling);
        path
    }

    pub(super) fn subproof(old: usize, leaves: &[Digest], whole: bool) -> Vec<Digest> {
        if old == leaves.len() {
            return if whole { Vec::new() } else { vec![root(leaves)] };
        }
        let (left, right) = leaves.split_at(split(leaves.len()));
        let (mut proof, sibling) = if old <= left.len() {
            (subproof(old, left, whole), root(right))
        } else {
            (subproof(old - left.len(), right, false), root(left))
        };
        proof.push(sibling);
        proof
    }
}

fn hexes(proof: &[Digest]) -> Vec<String> {
    proof.iter().map(Digest::to_string).collect()
}

fn vectors() -> Kept {
    Kept::new(INPUTS.map(leaf))
}

#[test]
fn roots_are_those_of_certificate_transparency() {
    let inputs = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"];
    assert_eq!(INPUTS.map(hex::encode), inputs);
    assert_eq!(leaf("").to_string(), ROOTS[1]);
    assert_eq!(hexes(&vectors().roots), ROOTS);
}

#[test]
fn proofs_are_those_of_certificate_transparency() {
    let kept = vectors();
    let (a, b, c) = (
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    );
    assert_eq!(hexes(&kept.inclusion(0, 8)), [a, b, c]);
    assert_eq!(hexes(&kept.inclusion(2, 3)), [ROOTS[2]]);
    let (d, e) = (
        "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
    );
    assert_eq!(hexes(&kept.consistency(6, 8)), [d, e, ROOTS[4]]);
    assert_eq!(hexes(&kept.consistency(1, 8)), [a, b, c]);
    assert!(kept.consistency(8, 8).is_empty() && kept.consistency(0, 8).is_empty());
}

#[test]
fn the_frontier_has_the_root_of_the_whole_tree_and_reads_back() {
    let kept = Kept::of_size(300);
    let mut frontier = Frontier::new();
    for (size, leaf) in kept.leaves.iter().enumerate() {
        assert_eq!(frontier.root(), naive::root(&kept.leaves[..size]), "size {size}");
        let bytes = frontier.to_bytes();
        assert_eq!(Frontier::from_bytes(size as u64, &bytes), Some(frontier.clone()));
        assert_eq!(Frontier::from_bytes(2 * size as u64 + 1, &bytes), None);
        assert_eq!(Frontier::from_bytes(size as u64, &[&bytes[..], &[0]].concat()), None);
        frontier.append(*leaf);
    }
}

#[test]
fn every_256th_leaf_completes_a_tile_and_every_65536th_two() {
    let leaf = leaf("x");
    let mut frontier = Frontier::new();
    let mut completed = Vec::new();
    for _ in 0..65_537 {
        completed.extend(frontier.append(leaf));
    }
    let (eights, sixteens): (Vec<CompleteTile>, Vec<CompleteTile>) = completed.into_iter().partition(|tile| tile.level == 8);
    let perfect = |levels: u32| (0..levels).fold(leaf, |hash, _| node(&hash, &hash));
    assert!(eights.iter().all(|tile| tile.hash == perfect(8)));
    assert!(eights.iter().map(|tile| tile.position).eq(0..256));
    assert_eq!(sixteens, [CompleteTile { level: 16, position: 0, hash: perfect(16) }]);
}

#[test]
fn every_proof_of_every_small_log_verifies_and_is_that_of_the_rfc() {
    let kept = Kept::of_size(70);
    for size in 1..=70 {
        let leaves = &kept.leaves[..size as usize];
        for index in 0..size {
            let proof = kept.inclusion(index, size);
            assert_eq!(proof, naive::path(index as usize, leaves), "{index} of {size}");
            assert_eq!(kept.verifies_inclusion(index, size, &proof), Ok(()), "{index} of {size}");
            let proof = kept.consistency(index, size);
            assert_eq!(kept.verifies_consistency(index, size, &proof), Ok(()), "{index} to {size}");
            if index > 0 {
                assert_eq!(proof, naive::subproof(index as usize, leaves, true), "{index} to {size}");
            }
        }
    }
}

#[test]
fn a_proof_in_a_large_log_needs_few_hashes_and_only_complete_tiles() {
    let kept = Kept::of_size(66_000);
    for (index, size) in
        [(0, 66_000), (65_535, 66_000), (65_536, 66_000), (65_999, 66_000), (300, 65_537), (65_535, 65_536), (12_345, 60_001)]
    {
        let proof = kept.inclusion(index, size);
        assert_eq!(kept.verifies_inclusion(index, size, &proof), Ok(()), "{index} of {size}");
        let proof = kept.consistency(index + 1, size);
        assert_eq!(kept.verifies_consistency(index + 1, size, &proof), Ok(()), "{index} to {size}");
    }
}

#[test]
fn what_is_outside_the_tree_or_not_fetched_is_an_error() {
    assert_eq!(inclusion_proof(3, 3, &Have::new()), Err(Error::OutsideTree { index: 3, size: 3 }));
    assert_eq!(consistency_proof(4, 3, &Have::new()), Err(Error::OutsideTree { index: 4, size: 3 }));
    assert_eq!(inclusion_proof(0, 3, &Have::new()), Err(Error::MissingNode { level: 0, position: 1 }));
    assert_eq!((inclusion_needs(3, 3), consistency_needs(4, 3)), (Needs::default(), Needs::default()));
    let kept = vectors();
    assert_eq!(kept.verifies_inclusion(3, 3, &[]), Err(Error::OutsideTree { index: 3, size: 3 }));
    assert_eq!(kept.verifies_consistency(4, 3, &[]), Err(Error::OutsideTree { index: 4, size: 3 }));
    let zero = Digest::new([0; 32]);
    assert_eq!(verify_consistency(0, 3, &zero, &kept.roots[3], &[]), Err(Error::WrongProof), "nothing has one root");
}

/// Every way to spoil a proof by one step: a changed, missing, extra or moved hash.
fn spoiled(proof: &[Digest], extra: Digest) -> Vec<Vec<Digest>> {
    let mut all = Vec::new();
    for at in 0..proof.len() {
        let mut changed = proof.to_vec();
        let mut bytes = *changed[at].as_bytes();
        bytes[at % 32] ^= 1;
        changed[at] = Digest::new(bytes);
        all.push(changed);
        let mut missing = proof.to_vec();
        missing.remove(at);
        all.push(missing);
        if at > 0 && proof[at] != proof[at - 1] {
            let mut moved = proof.to_vec();
            moved.swap(at, at - 1);
            all.push(moved);
        }
    }
    for at in 0..=proof.len() {
        let mut longer = proof.to_vec();
        longer.insert(at, extra);
        all.push(longer);
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn inclusion_proofs_always_verify_and_never_when_spoiled(size in 1u64..=600, pick in any::<prop::sample::Index>()) {
        let kept = Kept::of_size(size);
        let index = pick.index(size as usize) as u64;
        let proof = kept.inclusion(index, size);
        prop_assert_eq!(&proof, &naive::path(index as usize, &kept.leaves));
        prop_assert_eq!(kept.verifies_inclusion(index, size, &proof), Ok(()));
        for bad in spoiled(&proof, kept.roots[size as usize]) {
            prop_assert!(kept.verifies_inclusion(index, size, &bad).is_err());
        }
        let (leaf, root) = (&kept.leaves[index as usize], &kept.roots[size as usize]);
        for other in (0..size).filter(|other| *other != index) {
            prop_assert!(verify_inclusion(leaf, other, size, &proof, root).is_err(), "index {}", other);
        }
        prop_assert!(verify_inclusion(root, index, size, &proof, root).is_err() || size == 1);
        prop_assert!(verify_inclusion(leaf, index, size, &proof, &kept.roots[size as usize - 1]).is_err());
    }

    #[test]
    fn consistency_proofs_always_verify_and_never_when_spoiled(new in 1u64..=600, pick in any::<prop::sample::Index>()) {
        let kept = Kept::of_size(new);
        let old = pick.index(new as usize) as u64;
        let proof = kept.consistency(old, new);
        prop_assert_eq!(kept.verifies_consistency(old, new, &proof), Ok(()));
        for bad in spoiled(&proof, kept.roots[new as usize]) {
            prop_assert!(kept.verifies_consistency(old, new, &bad).is_err());
        }
        let (old_root, new_root) = (&kept.roots[old as usize], &kept.roots[new as usize]);
        let forged = leaf("forged");
        prop_assert!(verify_consistency(old, new, &forged, new_root, &proof).is_err());
        if old > 0 {
            prop_assert_eq!(&proof, &naive::subproof(old as usize, &kept.leaves, true));
            prop_assert!(verify_consistency(old, new, old_root, &forged, &proof).is_err());
            let deeper = 2 * new.next_power_of_two();
            prop_assert!(verify_consistency(old, deeper, old_root, new_root, &proof).is_err(), "a proof that stops below the root");
        }
    }

    #[test]
    fn the_frontier_always_has_the_root_of_the_whole_tree(size in 0u64..=600) {
        let kept = Kept::of_size(size);
        prop_assert_eq!(kept.roots[size as usize], naive::root(&kept.leaves));
    }
}
