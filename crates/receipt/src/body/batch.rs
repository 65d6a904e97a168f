//! The receipt of a batch: how each of its parts ended, and the batch as a whole. Everything it says of an invocation is also in
//! the receipt of that invocation.

use countersign_core::batch::{BatchStatus, Part, PartEffect, PartRevert};
use countersign_core::part_of::BatchMode;
use countersign_core::{ActionId, Batch, BatchId, InvocationId, PrincipalId, ReceiptId, SessionId, SpaceId, Status, Timestamp};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchBody {
    pub batch_id: BatchId,
    pub dry_run: bool,
    pub ended_at: Timestamp,
    pub mode: BatchMode,
    /// In the order they were requested.
    pub parts: Vec<PartBody>,
    pub principal: PrincipalId,
    pub receipt_id: ReceiptId,
    pub session: SessionId,
    pub space: SpaceId,
    pub started_at: Timestamp,
    pub status: BatchStatus,
    pub trace_id: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartBody {
    pub action: ActionId,
    pub effect: PartEffect,
    /// A stable code; absent if the part succeeded.
    pub error: Option<String>,
    pub invocation_id: InvocationId,
    pub receipt_id: Option<ReceiptId>,
    pub revert: Option<PartRevertBody>,
    /// Absent if the part never became an invocation.
    pub status: Option<Status>,
}

/// Says that the part's effect was reverted, or that this was tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartRevertBody {
    pub invocation_id: Option<InvocationId>,
    pub ok: bool,
    pub receipt_id: Option<ReceiptId>,
}

impl BatchBody {
    /// The body for a batch that ends now.
    pub fn of(batch: &Batch, receipt_id: ReceiptId, ended_at: Timestamp) -> Self {
        Self {
            batch_id: batch.id.clone(),
            dry_run: batch.intention == countersign_core::invocation::Intention::DryRun,
            ended_at,
            mode: batch.mode,
            parts: batch.parts.iter().map(PartBody::of).collect(),
            principal: batch.principal.clone(),
            receipt_id,
            session: batch.session.clone(),
            space: batch.space.clone(),
            started_at: batch.created_at,
            status: batch.status,
            trace_id: batch.trace_id.clone(),
        }
    }
}

impl PartBody {
    fn of(part: &Part) -> Self {
        let revert = part.revert.as_ref().map(|PartRevert { ok, invocation, receipt, .. }| PartRevertBody {
            invocation_id: invocation.clone(),
            ok: *ok,
            receipt_id: receipt.clone(),
        });
        Self {
            action: part.action.clone(),
            effect: part.effect,
            error: part.failure.as_ref().map(|failure| failure.code.clone()),
            invocation_id: part.invocation.clone(),
            receipt_id: part.receipt.clone(),
            status: part.status,
            revert,
        }
    }
}
