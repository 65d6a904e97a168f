//! Repeatable randomness: the same seed gives the same bytes in every run.

use countersign_core::Random;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The odd constant of splitmix64: adding it visits all 64-bit states before one repeats.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// splitmix64. Clones draw from the same stream, so no two draws from one seed are the same, from any thread.
#[derive(Clone, Debug)]
pub struct SeededRandom {
    state: Arc<AtomicU64>,
}

impl SeededRandom {
    pub fn new(seed: u64) -> Self {
        // The seed is mixed first: seeds a few steps apart would otherwise share most of their stream.
        Self { state: Arc::new(AtomicU64::new(mix(seed))) }
    }

    pub fn next_u64(&self) -> u64 {
        mix(self.state.fetch_add(STEP, Ordering::Relaxed))
    }
}

impl Default for SeededRandom {
    fn default() -> Self {
        Self::new(0)
    }
}

impl Random for SeededRandom {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next_u64().to_le_bytes()[..chunk.len()]);
        }
    }
}

const fn mix(state: u64) -> u64 {
    let state = state.wrapping_add(STEP);
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_core::random_bytes;
    use std::collections::HashSet;

    #[test]
    fn the_mixer_is_splitmix64() {
        // The published first outputs for the seed 0.
        let outputs = [mix(0), mix(STEP), mix(STEP.wrapping_mul(2))];
        assert_eq!(outputs, [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f]);
    }

    #[test]
    fn the_same_seed_repeats_and_another_does_not() {
        let draw = |seed| random_bytes::<29>(&SeededRandom::new(seed));
        assert_eq!(draw(7), draw(7));
        let different: HashSet<_> = (0..1_000).map(draw).collect();
        assert_eq!(different.len(), 1_000);
    }

    #[test]
    fn neighbouring_seeds_do_not_share_a_stream() {
        let stream =
            |seed| (0..100).map(|_| 0).scan(SeededRandom::new(seed), |random, _: u8| Some(random.next_u64())).collect::<HashSet<_>>();
        assert!(stream(1).is_disjoint(&stream(STEP.wrapping_add(1))));
    }

    #[test]
    fn no_draw_repeats_across_threads() {
        let random = SeededRandom::new(3);
        let draw = || (0..1_000).map(|_| random.next_u64()).collect::<Vec<_>>();
        let drawn = std::thread::scope(|scope| {
            let threads = [scope.spawn(draw), scope.spawn(draw)];
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<HashSet<_>>()
        });
        assert_eq!(drawn.len(), 2_000);
    }
}
