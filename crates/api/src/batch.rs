//! Batches on the wire: several actions in one request.

use crate::invocation::{CallerContext, FailureView, ProvenanceName, ReceiptRefView, ScopeView, VerificationView};
use countersign_core::batch::{BatchStatus, Part, PartEffect, PartRevert};
use countersign_core::invocation::Intention;
use countersign_core::part_of::BatchMode;
use countersign_core::{Batch, Status, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Asks for several actions to be performed, in this order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchRequest {
    pub mode: BatchMode,
    /// At most 50.
    pub actions: Vec<PartRequest>,
    /// A request with the same key and the same parts in the same session runs nothing: it returns the first batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// Says what each part would change, and changes nothing.
    #[serde(default)]
    pub dry_run: bool,
    /// Why, in the caller's words. The approver sees it on each part that has no reason of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// One action of a batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PartRequest {
    /// `<source>.<name>`.
    #[schema(example = "files.write_text")]
    pub action: String,
    #[serde(default = "empty_object")]
    #[schema(value_type = BTreeMap<String, Value>)]
    pub params: Value,
    /// Why; shown to whoever approves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What the caller claims. It is recorded and never evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<CallerContext>,
    /// Where params came from, by JSON pointer. It can only make a call stricter.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub provenance: BTreeMap<String, ProvenanceName>,
    /// Where it may act, narrower than its source allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<ScopeView>,
    /// Commands that must succeed after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification: Option<VerificationView>,
}

fn empty_object() -> Value {
    Value::Object(serde_json::Map::new())
}

/// One batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BatchView {
    #[schema(example = "bat_01k9z6m4x0abcdefghjkmnpqrs")]
    pub id: String,
    pub mode: BatchMode,
    pub status: BatchStatus,
    pub session_id: String,
    pub space_id: String,
    pub principal: String,
    pub dry_run: bool,
    /// In the order they were asked for.
    pub parts: Vec<PartView>,
    pub reason: Option<String>,
    pub idempotency_key: Option<String>,
    pub created_at: Timestamp,
    pub completed_at: Option<Timestamp>,
    /// Of the batch; each part has its own.
    pub receipt: Option<ReceiptRefView>,
    pub trace_id: String,
}

/// What became of one part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PartView {
    pub action: String,
    /// Absent where it did not become an invocation.
    pub invocation_id: Option<String>,
    /// Of its invocation; null where there is none.
    pub status: Option<Status>,
    pub effect: PartEffect,
    pub error: Option<FailureView>,
    /// What it answered, redacted; pruned to 10 KB unless the batch ended while its caller waited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    pub receipt_id: Option<String>,
    /// The receipt's position in the org's log, where the batch is read by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt_seq: Option<u64>,
    /// How it was reverted, because another part failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revert: Option<PartRevertView>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PartRevertView {
    pub ok: bool,
    pub invocation_id: Option<String>,
    pub receipt_id: Option<String>,
    /// The receipt's position in the org's log, where the batch is read by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt_seq: Option<u64>,
    pub error: Option<FailureView>,
}

impl From<Batch> for BatchView {
    fn from(batch: Batch) -> Self {
        Self {
            id: batch.id.to_string(),
            mode: batch.mode,
            status: batch.status,
            session_id: batch.session.to_string(),
            space_id: batch.space.to_string(),
            principal: batch.principal.to_string(),
            dry_run: batch.intention == Intention::DryRun,
            parts: batch.parts.into_iter().map(PartView::from).collect(),
            reason: batch.reason,
            idempotency_key: batch.idempotency_key,
            created_at: batch.created_at,
            completed_at: batch.ended_at,
            receipt: batch.receipt.map(|receipt| ReceiptRefView { id: receipt.id.to_string(), seq: receipt.seq }),
            trace_id: batch.trace_id,
        }
    }
}

impl From<Part> for PartView {
    fn from(part: Part) -> Self {
        Self {
            action: part.action.to_string(),
            invocation_id: part.status.map(|_| part.invocation.to_string()),
            status: part.status,
            effect: part.effect,
            error: part.failure.map(|failure| FailureView { code: failure.code, message: failure.message }),
            result: None,
            receipt_id: part.receipt.map(|receipt| receipt.to_string()),
            receipt_seq: None,
            revert: part.revert.map(PartRevertView::from),
        }
    }
}

impl From<PartRevert> for PartRevertView {
    fn from(revert: PartRevert) -> Self {
        Self {
            ok: revert.ok,
            invocation_id: revert.invocation.map(|invocation| invocation.to_string()),
            receipt_id: revert.receipt.map(|receipt| receipt.to_string()),
            receipt_seq: None,
            error: revert.failure.map(|failure| FailureView { code: failure.code, message: failure.message }),
        }
    }
}
