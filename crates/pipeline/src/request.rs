//! What goes into the pipeline, and what comes out.

use countersign_core::effect::{Bounds, Scope};
use countersign_core::invocation::{Claimed, Intention, revert_key};
use countersign_core::{Invocation, InvocationId, Principal, SessionId};
use policy::scan::Label;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A request to perform one action.
#[derive(Clone, Debug)]
pub struct Request {
    pub principal: Principal,
    pub session: SessionId,
    /// `<source>.<name>`, as the caller wrote it.
    pub action: String,
    /// As read by `countersign_core::json::parse_strict`.
    pub params: Value,
    pub idempotency_key: Option<String>,
    /// An earlier invocation of the same call that a person was asked about: the answer to that one is wanted.
    pub approval_ref: Option<InvocationId>,
    pub intention: Intention,
    pub reason: Option<String>,
    /// The invocation whose effect is to be taken back.
    pub reverses: Option<InvocationId>,
    /// Where the caller wants it to act at most.
    pub scope: Scope,
    /// What the caller wants stricter than we would have it.
    pub bounds: Bounds,
    /// Commands the caller wants run after the effect, each of which must succeed.
    pub commands: Vec<String>,
    /// What the caller says about time, device and actor: recorded, never evaluated.
    pub claimed: Option<Claimed>,
    /// Where the caller says params came from, by pointer. It can only tighten.
    pub provenance: BTreeMap<String, Label>,
    pub trace_id: String,
}

/// How a walk ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// With its receipt. `result` is redacted but whole; the stored one may be truncated.
    Ended { invocation: Box<Invocation>, result: Option<Value> },
    /// The answer of an earlier call under the same idempotency key.
    Replayed(Box<Invocation>),
    /// Waits for a person.
    Pending(Box<Invocation>),
    /// The effect may have happened; it is reconciled, never repeated blindly.
    InDoubt(Box<Invocation>),
}

impl Outcome {
    pub fn invocation(&self) -> &Invocation {
        match self {
            Self::Ended { invocation, .. } | Self::Replayed(invocation) | Self::Pending(invocation) | Self::InDoubt(invocation) => {
                invocation
            }
        }
    }
}

impl Request {
    /// The call that takes an effect back.
    pub(crate) fn reverting(principal: &Principal, reverted: &Invocation, reason: Option<String>, trace_id: String) -> Self {
        Self {
            action: reverted.action.to_string(),
            params: json!({ "reverses": reverted.id }),
            session: reverted.session.clone(),
            principal: principal.clone(),
            idempotency_key: Some(revert_key(&reverted.id)),
            approval_ref: None,
            intention: Intention::Revert,
            reverses: Some(reverted.id.clone()),
            scope: Scope::default(),
            bounds: reverted.bounds.clone(),
            commands: Vec::new(),
            reason,
            claimed: None,
            provenance: BTreeMap::new(),
            trace_id,
        }
    }

    /// The call as it was asked for first.
    pub(crate) fn again(first: &Invocation, principal: Principal, params: Value) -> Self {
        Self {
            action: first.action.to_string(),
            params,
            session: first.session.clone(),
            principal,
            idempotency_key: first.idempotency_key.clone(),
            approval_ref: None,
            intention: first.intention,
            reverses: first.reverses.clone(),
            scope: first.scope.clone(),
            bounds: first.bounds.clone(),
            commands: first.commands.clone(),
            reason: first.reason.clone(),
            claimed: first.claimed.clone(),
            provenance: labels_from(&first.provenance),
            trace_id: first.trace_id.clone(),
        }
    }
}

pub(crate) fn labels_from(provenance: &BTreeMap<String, String>) -> BTreeMap<String, Label> {
    let read = |label: &String| serde_json::from_value(Value::String(label.clone())).ok();
    // A label that is not known is the least trusted there is.
    provenance.iter().map(|(pointer, label)| (pointer.clone(), read(label).unwrap_or(Label::Web))).collect()
}
