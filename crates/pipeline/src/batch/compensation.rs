//! Leave to take a part back.

use countersign_core::BatchId;

/// The leave a batch gives to take back what another part of it did: whoever let that part run let it run on these terms. Only
/// `batch` can make one.
#[derive(Clone, Debug)]
pub(crate) struct Compensation(BatchId);

impl Compensation {
    /// Only for a part of this batch that has succeeded.
    pub(super) const fn within(batch: BatchId) -> Self {
        Self(batch)
    }

    pub(crate) const fn batch(&self) -> &BatchId {
        &self.0
    }
}
