//! Batches: several calls requested as one, with their progress.

use super::Error;
use super::events::EventDraft;
use crate::batch::BatchStatus;
use crate::{Batch, BatchId, Future, OrgId, ReceiptId};

/// Batches and their progress.
pub trait Batches: Send + Sync {
    /// Stores a new batch, unless the same session already has one under its idempotency key.
    fn open_batch(&self, batch: NewBatch) -> Future<'_, Result<OpenedBatch, Error>>;
    fn find_batch<'a>(&'a self, org: &'a OrgId, batch: &'a BatchId) -> Future<'a, Result<Option<Batch>, Error>>;
    /// The sealed requests of its parts; `None` once the batch has ended.
    fn find_sealed_parts<'a>(&'a self, org: &'a OrgId, batch: &'a BatchId) -> Future<'a, Result<Option<Vec<u8>>, Error>>;
    /// At most 100 batches in this status, oldest first.
    fn list_batches_in_status<'a>(&'a self, org: &'a OrgId, status: BatchStatus) -> Future<'a, Result<Vec<Batch>, Error>>;
    /// At most 100 running batches that no other live server is running, oldest first. This server's own batches are included.
    fn list_left_batches<'a>(&'a self, org: &'a OrgId) -> Future<'a, Result<Vec<Batch>, Error>>;
    /// Saves the progress. `None`: the batch was saved by another since it was read, and nothing was written.
    fn save_batch(&self, batch: Batch) -> Future<'_, Result<Option<Batch>, Error>>;
    /// Saves the end of the batch, with its receipt and its event. `None` as above.
    fn end_batch(&self, end: EndBatch) -> Future<'_, Result<Option<Batch>, Error>>;
}

/// A batch that was just requested.
#[derive(Clone, Debug)]
pub struct NewBatch {
    pub batch: Batch,
    /// The requests of its parts, kept until the batch ends.
    pub sealed_parts: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenedBatch {
    New(Batch),
    /// The batch that already has the key.
    Earlier(Batch),
}

/// How a batch ended.
#[derive(Clone, Debug)]
pub struct EndBatch {
    pub batch: Batch,
    pub id: ReceiptId,
    /// Canonical JSON.
    pub body: String,
    pub event: EventDraft,
}
