//! Batches: several calls requested as one, with their progress.

use super::Error;
use super::events::EventDraft;
use crate::batch::BatchStatus;
use crate::{Batch, BatchId, Future, OrgId, ReceiptId};

/// Batches and their progress.
pub trait Batches: Send + Sync {
    /// Keeps a new batch, unless there is one of the same session under its key.
    fn open_batch(&self, batch: NewBatch) -> Future<'_, Result<OpenedBatch, Error>>;
    fn find_batch<'a>(&'a self, org: &'a OrgId, batch: &'a BatchId) -> Future<'a, Result<Option<Batch>, Error>>;
    /// What its parts ask for; `None` once it has ended.
    fn find_sealed_parts<'a>(&'a self, org: &'a OrgId, batch: &'a BatchId) -> Future<'a, Result<Option<Vec<u8>>, Error>>;
    /// At most 100 batches in this status, oldest first.
    fn list_batches_in_status<'a>(&'a self, org: &'a OrgId, status: BatchStatus) -> Future<'a, Result<Vec<Batch>, Error>>;
    /// At most 100 running batches that no live server is busy with, oldest first; this one's own count among them.
    fn list_left_batches<'a>(&'a self, org: &'a OrgId) -> Future<'a, Result<Vec<Batch>, Error>>;
    /// Saves how far it has come. `None`: somebody else has saved it since it was read, and nothing was written.
    fn save_batch(&self, batch: Batch) -> Future<'_, Result<Option<Batch>, Error>>;
    /// Saves how it ended, with its receipt and its event. `None` as above.
    fn end_batch(&self, end: EndBatch) -> Future<'_, Result<Option<Batch>, Error>>;
}

/// A batch that was just asked for.
#[derive(Clone, Debug)]
pub struct NewBatch {
    pub batch: Batch,
    /// What its parts ask for, until it ends.
    pub sealed_parts: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenedBatch {
    New(Batch),
    /// The one that has the key.
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
