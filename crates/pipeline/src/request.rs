//! The input and the output of the pipeline.

use crate::line::Line;
use countersign_core::invocation::{Intention, revert_key};
use countersign_core::{Call, Invocation, InvocationId, Principal, SessionId, Status};
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
    /// An earlier invocation of the same call, which a person was asked about. The caller asks for the outcome of that one.
    pub approval_ref: Option<InvocationId>,
    pub intention: Intention,
    /// The invocation whose effect this call reverts.
    pub reverses: Option<InvocationId>,
    pub trace_id: String,
    /// The line on which the caller waits for the result; absent if a reference is enough for it.
    pub line: Option<Line>,
}

/// How a walk ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The call ended, with a receipt. `result` is redacted but complete; the stored result may be truncated.
    Ended { invocation: Box<Invocation>, result: Option<Value> },
    /// An earlier call under the same idempotency key already answered this one.
    Replayed(Box<Invocation>),
    /// The call waits for a person.
    Pending(Box<Invocation>),
    /// The effect may have happened. The call is reconciled, never repeated blindly.
    InDoubt(Box<Invocation>),
}

impl Outcome {
    /// The outcome that the row of a call says, for a caller who has waited for it.
    pub fn of(invocation: Box<Invocation>) -> Self {
        match invocation.status {
            Status::Pending | Status::Approved | Status::Running => Self::Pending(invocation),
            Status::InDoubt => Self::InDoubt(invocation),
            Status::Succeeded
            | Status::Failed
            | Status::Reverted
            | Status::Denied
            | Status::Quarantined
            | Status::Expired
            | Status::Cancelled => Self::Ended { result: invocation.result.clone(), invocation },
        }
    }

    pub fn invocation(&self) -> &Invocation {
        match self {
            Self::Ended { invocation, .. } | Self::Replayed(invocation) | Self::Pending(invocation) | Self::InDoubt(invocation) => {
                invocation
            }
        }
    }
}

impl Request {
    /// A call that is to have its effect, of a caller who does not wait on a line.
    pub fn new(principal: Principal, session: SessionId, action: impl Into<String>, call: impl Into<Call>) -> Self {
        Self {
            principal,
            session,
            action: action.into(),
            call: call.into(),
            idempotency_key: None,
            approval_ref: None,
            intention: Intention::Effect,
            reverses: None,
            trace_id: String::new(),
            line: None,
        }
    }

    /// The call that reverts the effect of `reverted`.
    pub(crate) fn reverting(principal: &Principal, reverted: &Invocation, reason: Option<String>, trace_id: String) -> Self {
        let call = Call { reason, bounds: reverted.call.bounds.clone(), ..Call::new(json!({ "reverses": reverted.id })) };
        Self {
            idempotency_key: Some(revert_key(&reverted.id)),
            intention: Intention::Revert,
            reverses: Some(reverted.id.clone()),
            trace_id,
            ..Self::new(principal.clone(), reverted.session.clone(), reverted.action.to_string(), call)
        }
    }

    /// The same request that `first` was made from, with these params.
    pub(crate) fn again(first: &Invocation, principal: Principal, params: Value) -> Self {
        // A person who was looked up has no token, and policies ask from which device the call came.
        let principal = Principal { device: first.device.clone(), ..principal };
        Self {
            idempotency_key: first.idempotency_key.clone(),
            intention: first.intention,
            reverses: first.reverses.clone(),
            trace_id: first.trace_id.clone(),
            ..Self::new(principal, first.session.clone(), first.action.to_string(), Call { params, ..first.call.clone() })
        }
    }
}
