//! Stage 4: the checks before the mode. Every gate leaves its verdict; the first denial decides.

use crate::Pipeline;
use crate::admit::Admitted;
use crate::stage::Stage;
use crate::truncate::truncate;
use crate::validate::Validated;
use countersign_core::decision::GateVerdict;
use countersign_core::invocation::Failure;
use countersign_core::limits::PARAMS_STORED_BYTES_MAX;
use countersign_core::{Decision, Invocation, Status};

/// A call that passed every gate.
pub(crate) struct Gated {
    pub(crate) validated: Validated,
    pub(crate) gates: Vec<GateVerdict>,
}

impl Gated {
    /// The invocation as it is stored from here on; what comes later fills in the rest.
    pub(crate) fn to_invocation(&self, status: Status, decision: &Decision) -> Invocation {
        let resolved = &self.validated.resolved;
        let Admitted { id, created_at, session, request, .. } = &resolved.admitted;
        Invocation {
            id: id.clone(),
            org: session.org.clone(),
            space: session.space.clone(),
            session: session.id.clone(),
            principal: request.principal.id.clone(),
            owner: request.principal.owner.clone(),
            action: resolved.action().id.clone(),
            tier: resolved.action().tier,
            status,
            intention: request.intention,
            decision: decision.clone(),
            gates: self.gates.clone(),
            digests: self.validated.digests,
            params: truncate(policy::redact(&request.params).value, PARAMS_STORED_BYTES_MAX),
            result: None,
            evidence: None,
            failure: None,
            denied_by: None,
            reason: request.reason.as_deref().map(policy::redact_text),
            idempotency_key: self.validated.idempotency_key.clone(),
            binding: None,
            deadline: None,
            approvals: Vec::new(),
            answer: None,
            edit: None,
            grant: None,
            attempts: 0,
            created_at: *created_at,
            started_at: None,
            ended_at: None,
            receipt: None,
            trace_id: request.trace_id.clone(),
        }
    }
}

#[expect(clippy::large_enum_variant, reason = "the large one is the common one, and it is moved once")]
pub(crate) enum Gates {
    Passed(Gated),
    /// By which gate, and why.
    Denied(Box<Gated>, Failure),
}

impl Pipeline {
    pub(crate) fn gate(&self, validated: Validated) -> Gates {
        let _timed = self.timed(Stage::Gate);
        let resolved = &validated.resolved;
        let gates = policy::gate(&policy::Call {
            principal: &resolved.admitted.request.principal,
            requires: &resolved.action().requires,
            tier: resolved.action().tier,
            space: &resolved.admitted.session.space,
            params: &resolved.admitted.request.params,
        });
        let failure = policy::denied(&gates).map(|denial| Failure {
            code: "denied_by_gate".into(),
            message: format!("gate `{}` denied it; determined by {}", denial.gate.as_str(), denial.determining.join(", ")),
        });
        let gated = Gated { validated, gates };
        match failure {
            None => Gates::Passed(gated),
            Some(failure) => Gates::Denied(Box::new(gated), failure),
        }
    }
}
