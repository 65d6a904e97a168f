//! What goes into the pipeline, and what comes out.

use countersign_core::invocation::{Intention, revert_key};
use countersign_core::{Call, Invocation, InvocationId, Principal, SessionId};
use serde_json::{Value, json};

/// A request to perform one action.
#[derive(Clone, Debug)]
pub struct Request {
    pub principal: Principal,
    pub session: SessionId,
    /// `<source>.<name>`, as the caller wrote it.
    pub action: String,
    pub call: Call,
    pub idempotency_key: Option<String>,
    /// An earlier invocation of the same call that a person was asked about: the answer to that one is wanted.
    pub approval_ref: Option<InvocationId>,
    pub intention: Intention,
    /// The invocation whose effect is to be taken back.
    pub reverses: Option<InvocationId>,
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
            call: Call { reason, bounds: reverted.call.bounds.clone(), ..Call::new(json!({ "reverses": reverted.id })) },
            session: reverted.session.clone(),
            principal: principal.clone(),
            idempotency_key: Some(revert_key(&reverted.id)),
            approval_ref: None,
            intention: Intention::Revert,
            reverses: Some(reverted.id.clone()),
            trace_id,
        }
    }

    /// The call as it was asked for first.
    pub(crate) fn again(first: &Invocation, principal: Principal, params: Value) -> Self {
        Self {
            action: first.action.to_string(),
            call: Call { params, ..first.call.clone() },
            session: first.session.clone(),
            principal,
            idempotency_key: first.idempotency_key.clone(),
            approval_ref: None,
            intention: first.intention,
            reverses: first.reverses.clone(),
            trace_id: first.trace_id.clone(),
        }
    }
}
