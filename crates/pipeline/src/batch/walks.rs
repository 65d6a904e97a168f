//! The batches this process runs right now. Each is run by one walk at a time; whoever comes second may wait for the first to let go.

use countersign_core::BatchId;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

#[derive(Clone, Default)]
pub(crate) struct BatchWalks(Arc<Mutex<HashMap<BatchId, CancellationToken>>>);

/// The one walk of a batch, for as long as it lives.
pub(super) struct WalkingBatch {
    walks: BatchWalks,
    id: BatchId,
}

/// Another walk of the same batch.
pub(super) struct OtherWalk(CancellationToken);

impl BatchWalks {
    /// Begins to walk a batch, unless somebody does already.
    pub(super) fn begin_alone(&self, id: &BatchId) -> Result<WalkingBatch, OtherWalk> {
        match self.0.lock().entry(id.clone()) {
            Entry::Occupied(other) => Err(OtherWalk(other.get().clone())),
            Entry::Vacant(nobody) => {
                nobody.insert(CancellationToken::new());
                Ok(WalkingBatch { walks: self.clone(), id: id.clone() })
            }
        }
    }

    pub(super) fn find(&self, id: &BatchId) -> Option<OtherWalk> {
        self.0.lock().get(id).cloned().map(OtherWalk)
    }
}

impl OtherWalk {
    /// Resolves when it has let go of the batch.
    pub(super) async fn ended(&self) {
        self.0.cancelled().await;
    }
}

impl Drop for WalkingBatch {
    fn drop(&mut self) {
        if let Some(walk) = self.walks.0.lock().remove(&self.id) {
            walk.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_core::Timestamp;
    use futures_util::FutureExt;

    fn id(last: u8) -> BatchId {
        BatchId::new(Timestamp::from_micros(0), [last; 10])
    }

    #[test]
    fn a_batch_is_walked_by_one_at_a_time() {
        let walks = BatchWalks::default();
        let first = walks.begin_alone(&id(1)).ok().unwrap();
        assert!(walks.begin_alone(&id(2)).is_ok(), "another batch is nobody's yet");
        for _ in 0..3 {
            // Whoever does not get it takes nothing away from whoever has it.
            assert!(walks.begin_alone(&id(1)).is_err());
        }
        drop(first);
        assert!(walks.find(&id(1)).is_none());
        assert!(walks.begin_alone(&id(1)).is_ok());
    }

    #[test]
    fn whoever_comes_second_hears_when_the_first_lets_go() {
        let walks = BatchWalks::default();
        let first = walks.begin_alone(&id(1)).ok().unwrap();
        let others = [walks.begin_alone(&id(1)).err().unwrap(), walks.find(&id(1)).unwrap()];
        assert!(others.iter().all(|other| other.ended().now_or_never().is_none()));
        drop(first);
        let _next = walks.begin_alone(&id(1)).ok().unwrap();
        assert!(others.iter().all(|other| other.ended().now_or_never().is_some()), "the next walk is not the one they wait for");
    }
}
