//! Batches on the wire: several actions in one request.

use crate::invocation::{CallerContext, FailureView, ProvenanceName, ReceiptRefView, ScopeView, VerificationView};
use countersign_core::batch::{BatchMode, Part, PartEffect, Undone};
use countersign_core::invocation::Intention;
use countersign_core::{Batch, Status};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Asks for several actions to be performed, in this order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchRequest {
    pub mode: BatchModeName,
    /// At most 50.
    pub actions: Vec<PartRequest>,
    /// The same key in the same session with the same parts has one effect: the batch that has it is the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// Says what each part would change, and changes nothing.
    #[serde(default)]
    pub dry_run: bool,
    /// Why, in the caller's words; shown to whoever approves a part that says nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What a part that fails means for the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BatchModeName {
    /// Nothing starts before every part may; when one fails, what the others did is taken back, the last first. Every part but the
    /// last must be one that can be taken back.
    AllOrNothing,
    /// Each part stands for itself.
    BestEffort,
}

impl From<BatchModeName> for BatchMode {
    fn from(name: BatchModeName) -> Self {
        match name {
            BatchModeName::AllOrNothing => Self::AllOrNothing,
            BatchModeName::BestEffort => Self::BestEffort,
        }
    }
}

/// One action of a batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PartRequest {
    /// `<source>.<name>`.
    #[schema(example = "files.write_text")]
    pub action: String,
    #[serde(default = "empty_object")]
    #[schema(value_type = Object)]
    pub params: Value,
    /// Why; shown to whoever approves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What the caller knows of the moment. It is recorded and never evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<CallerContext>,
    /// Where params came from, by JSON pointer. It can only make a call stricter.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub provenance: BTreeMap<String, ProvenanceName>,
    /// Where it may act, narrower than its source would let it.
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
    /// `all_or_nothing` or `best_effort`.
    pub mode: Cow<'static, str>,
    /// `pending`, `running`, `succeeded`, `partial`, `reverted`, `failed` or `denied`.
    pub status: Cow<'static, str>,
    pub session_id: String,
    pub space_id: String,
    pub principal: String,
    pub dry_run: bool,
    /// In the order they were asked for.
    pub parts: Vec<PartView>,
    pub reason: Option<String>,
    pub idempotency_key: Option<String>,
    pub created_at: String,
    pub completed_at: Option<String>,
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
    /// That of its invocation; `not_started` where there is none.
    pub status: Cow<'static, str>,
    /// `none`, `stands`, `taken_back` or `unknown`.
    pub effect: Cow<'static, str>,
    pub error: Option<FailureView>,
    /// What it answered, redacted; pruned to 10 KB unless the batch ended while its caller waited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub result: Option<Value>,
    pub receipt_id: Option<String>,
    /// The receipt's position in the org's log, where the batch is read by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt_seq: Option<u64>,
    /// That it was taken back, or was to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undone: Option<UndoneView>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UndoneView {
    pub ok: bool,
    pub invocation_id: Option<String>,
    pub receipt_id: Option<String>,
    /// The receipt's position in the org's log, where the batch is read by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt_seq: Option<u64>,
    pub error: Option<FailureView>,
}

/// Which part of which batch an invocation is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PartOfView {
    pub id: String,
    /// From 1.
    pub part: u32,
    pub parts: u32,
    /// `all_or_nothing` or `best_effort`.
    pub mode: Cow<'static, str>,
}

impl From<countersign_core::batch::PartOf> for PartOfView {
    fn from(part: countersign_core::batch::PartOf) -> Self {
        Self { id: part.batch.to_string(), part: part.index.saturating_add(1), parts: part.of, mode: part.mode.as_str().into() }
    }
}

impl From<Batch> for BatchView {
    fn from(batch: Batch) -> Self {
        Self {
            id: batch.id.to_string(),
            mode: batch.mode.as_str().into(),
            status: batch.status.as_str().into(),
            session_id: batch.session.to_string(),
            space_id: batch.space.to_string(),
            principal: batch.principal.to_string(),
            dry_run: batch.intention == Intention::DryRun,
            parts: batch.parts.into_iter().map(PartView::from).collect(),
            reason: batch.reason,
            idempotency_key: batch.idempotency_key,
            created_at: batch.created_at.to_string(),
            completed_at: batch.ended_at.map(|at| at.to_string()),
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
            status: part.status.map_or("not_started", Status::as_str).into(),
            effect: effect_word(part.effect).into(),
            error: part.failure.map(|failure| FailureView { code: failure.code, message: failure.message }),
            result: None,
            receipt_id: part.receipt.map(|receipt| receipt.to_string()),
            receipt_seq: None,
            undone: part.undone.map(UndoneView::from),
        }
    }
}

impl From<Undone> for UndoneView {
    fn from(undone: Undone) -> Self {
        Self {
            ok: undone.ok,
            invocation_id: undone.invocation.map(|invocation| invocation.to_string()),
            receipt_id: undone.receipt.map(|receipt| receipt.to_string()),
            receipt_seq: None,
            error: undone.failure.map(|failure| FailureView { code: failure.code, message: failure.message }),
        }
    }
}

const fn effect_word(effect: PartEffect) -> &'static str {
    match effect {
        PartEffect::None => "none",
        PartEffect::Stands => "stands",
        PartEffect::TakenBack => "taken_back",
        PartEffect::Unknown => "unknown",
    }
}
