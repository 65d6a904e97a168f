//! Why the pipeline could not do its work. A denial is not an error: it is an outcome, with a receipt.

use countersign_core::invocation::Failure;
use countersign_core::limiter::Limited;
use countersign_core::principal::Permission;
use countersign_core::quarantine::QuarantineState;
use countersign_core::{ActionId, BatchId, Invocation, InvocationId, SessionId, SpaceId, Status, ledger};

/// What is wrong with one param, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamError {
    /// RFC 6901, from the root of `params`. For a field outside the params, from the root of the request.
    pub pointer: String,
    pub message: String,
}

/// Why an answer to a pending call does not fit, or why a call that refers to an earlier one does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// A person denied the call.
    Rejected,
    /// The approval was already used.
    Consumed,
    /// The deadline had passed.
    Expired,
    /// The call was cancelled, or ended in another way.
    Ended,
    ArgsMismatch,
    DefinitionMismatch,
    /// The action is not there any more; the same code as a changed definition.
    Gone,
    PolicyMismatch,
    TupleMismatch,
    /// A kill switch is on: the queue is kept, and no call runs.
    Stopped,
    /// This person has already approved the call; the quorum needs other people.
    AlreadyApproved,
    /// This person could not approve yet when the call was made, and it needs people who could.
    ApproverTooNew,
    /// The audit log holds no signed answer for the stored approval.
    Unproven,
    /// The caller has left: the call keeps its approval, and runs when it is asked for again.
    CallerLeft,
}

impl Conflict {
    /// The part of its binding because of which a call was ended, if it was for such a reason.
    pub(crate) fn of_void(ended: &Invocation) -> Option<Self> {
        let code = ended.failure.as_ref()?.code.as_str();
        [Self::ArgsMismatch, Self::DefinitionMismatch, Self::PolicyMismatch, Self::TupleMismatch].into_iter().find(|one| one.code() == code)
    }

    pub const fn code(self) -> &'static str {
        match self {
            Self::Rejected => "rejected",
            Self::Consumed => "consumed",
            Self::Expired => "expired",
            Self::Ended => "already_ended",
            Self::ArgsMismatch => "args_mismatch",
            Self::DefinitionMismatch | Self::Gone => "definition_mismatch",
            Self::PolicyMismatch => "policy_mismatch",
            Self::TupleMismatch => "tuple_mismatch",
            Self::Stopped => "stopped",
            Self::AlreadyApproved => "already_approved",
            Self::ApproverTooNew => "approver_too_new",
            Self::Unproven => "approval_unproven",
            Self::CallerLeft => "caller_left",
        }
    }

    pub const fn message(self) -> &'static str {
        match self {
            Self::Rejected => "a person denied the call; make a new call with other params",
            Self::Consumed => "the call was already approved; see its status",
            Self::Expired => "the call has expired; make a new call",
            Self::Ended => "the call has already ended; read its receipt",
            Self::ArgsMismatch => "the params are not the ones that were shown; look at the call again",
            Self::DefinitionMismatch => {
                "the definition or the code of the action has changed since the call was requested; review the action and make a new call"
            }
            Self::Gone => {
                "the action is no longer there: its source was removed, or does not offer it to this session any more; the call cannot run"
            }
            Self::PolicyMismatch => "the rules for this action have changed since the call was requested; make a new call",
            Self::TupleMismatch => {
                "the caller, the approver, the session, the space, the source or its login is no longer the same; repeat the call from its own session, or make a new call"
            }
            Self::Stopped => {
                "a kill switch is on; the call stays pending and its time to expire is paused; answer again once the switch is off"
            }
            Self::AlreadyApproved => "you have already approved the call, and more people have to; ask someone else",
            Self::ApproverTooNew => {
                "you could not approve yet when the call was made, and this space asks for people who could; ask someone else, or make a new call"
            }
            Self::Unproven => {
                "the audit log holds no signed answer for this approval, so the call did not run; tell an operator, then make a new call"
            }
            Self::CallerLeft => "the caller has left; the approval is kept, and the call runs when its caller asks for it again",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("there is no action `{action}`")]
    UnknownAction {
        action: String,
        /// Names that are like it.
        suggestions: Vec<String>,
    },
    #[error("there is no session `{session}`")]
    UnknownSession { session: SessionId },
    #[error("session `{session}` has ended; nothing can be invoked in it")]
    SessionEnded { session: SessionId },
    #[error("session `{session}` is not yours to invoke in")]
    NotYourSession { session: SessionId },
    #[error("{} has invoked too often; retrying is safe after {} s", .limited.of(.session), .retry_after_ms.div_ceil(1_000))]
    RateLimited { session: SessionId, limited: Limited, retry_after_ms: u64 },
    /// They see the space, because they administer it, and are none of its members.
    #[error("only members of the space call, approve and revert there, and you are none; nothing was done")]
    NotAMember { space: SpaceId },
    #[error("session `{session}` already has {pending} pending invocations; retrying is safe once one is answered")]
    TooManyPending { session: SessionId, pending: u32 },
    #[error("the params do not fit the schema of `{action}`")]
    InvalidParams { action: String, errors: Vec<ParamError> },
    #[error("checking these params by the schema of `{action}` would take too many steps; nothing was done")]
    SchemaTooCostly { action: String },
    #[error("the request is not valid at `{}`; nothing was done", errors.first().map(|error| error.pointer.as_str()).unwrap_or_default())]
    InvalidRequest { errors: Vec<ParamError> },
    #[error("the scope of this call of `{action}` cannot be enforced; nothing ran")]
    InvalidScope { action: String, errors: Vec<ParamError> },
    #[error("this call of `{action}` has a verification command that is not allowed; nothing ran")]
    CommandNotAllowed { action: String, errors: Vec<ParamError> },
    #[error("there is no invocation `{invocation}`")]
    UnknownInvocation { invocation: String },
    #[error("the idempotency key was used for `{invocation}` with other params, another scope or other commands")]
    IdempotencyConflict { invocation: InvocationId },
    #[error("`{invocation}` is running under the same idempotency key; retrying is safe")]
    IdempotencyInFlight { invocation: InvocationId },
    #[error("you may not answer invocations: that takes an approver, an admin or an owner")]
    MayNotApprove,
    #[error("you may not do this: it takes the permission `{}`", permission.as_str())]
    Forbidden { permission: Permission },
    /// SECURITY: until the signature of a link has been checked, every fault of the link gives this one error.
    #[error("this link is not valid, or what it is about has changed")]
    LinkInvalid,
    #[error("this link has expired")]
    LinkExpired,
    /// SECURITY: whatever is wrong with a ticket gives this one error.
    #[error("this request state is not valid for this call, has expired or was used before; make the call again without it")]
    TicketInvalid,
    #[error("`{invocation}` was not approved: `{action}` is R4, which is approved by name, one call at a time")]
    NeedsConfirmation { invocation: InvocationId, action: ActionId },
    #[error("you may not answer `{invocation}`: it is yours, or of a run you asked for, and this space refuses self-approval")]
    SelfApproval { invocation: InvocationId },
    #[error("you may not release or discard `{invocation}`: it is yours, or of a run you asked for, and this space refuses self-approval")]
    OwnQuarantine { invocation: InvocationId },
    #[error("invocation `{invocation}` is `{status}`; only a call in doubt can be settled")]
    NotInDoubt { invocation: InvocationId, status: Status },
    /// Somebody's word now could be overtaken by what is found out.
    #[error("invocation `{invocation}` is being reconciled right now; nothing was changed, try again in a moment")]
    Reconciling { invocation: InvocationId },
    #[error("the effect of invocation `{invocation}` cannot be reverted: {why}")]
    NotRevertible { invocation: InvocationId, why: &'static str },
    #[error("the effect of invocation `{invocation}` was already reverted, by `{by}`; nothing was changed")]
    AlreadyReverted { invocation: InvocationId, by: InvocationId },
    /// Nobody's yes would help.
    #[error("`{invocation}` could not run now, so it was not approved: {}; it is still pending", failure.message)]
    CannotRun { invocation: InvocationId, failure: Failure },
    #[error("`{invocation}` cannot be granted beyond this one call: {reason}")]
    NotGrantable { invocation: InvocationId, reason: &'static str },
    #[error("quarantined `{invocation}` is `{}`; nothing was changed", state.as_str())]
    QuarantineSettled { invocation: InvocationId, state: QuarantineState },
    #[error("`{invocation}`: {}", conflict.message())]
    Conflict { invocation: InvocationId, conflict: Conflict },
    #[error("action `{action}` cannot say what it would change, so it has no dry run")]
    DryRunUnsupported { action: String },
    #[error("the batch is not valid: {}{why}", part.map(|part| format!("part {}: ", part + 1)).unwrap_or_default())]
    InvalidBatch { part: Option<usize>, why: String },
    #[error(
        "the batch is not valid: part {}: `{action}` cannot be reverted, and with `all_or_nothing` only the last part may be irreversible",
        part + 1
    )]
    NotLast { part: usize, action: ActionId },
    #[error("the idempotency key was used for `{batch}` with other parts")]
    BatchKeyTaken { batch: BatchId },
    /// Another server has claimed the batch.
    #[error("batch `{batch}` is being run by another server; read it again later")]
    BatchTaken { batch: BatchId },
    /// The batch is stored, or may be. A second batch could repeat its effects.
    #[error("batch `{batch}` may have begun, and goes on once the store is back; do not send it again, read it later")]
    BatchUnrecorded { batch: BatchId },
    /// A part of a batch needs approval now, and did not when the batch was requested.
    #[error("this part needs approval now, and did not when `{batch}` was requested")]
    NeedsPersonNow { batch: BatchId },
    #[error("{message}")]
    SourceUnavailable { message: String },
    #[error(transparent)]
    Store(#[from] ledger::Error),
    #[error("the rules kept changing while the call was being decided; it was not performed, retrying is safe")]
    RulesKeepChanging,
    /// The effect may have happened, and its receipt could not be written yet. A retry could repeat the effect.
    #[error("`{invocation}` was started, and what became of it could not be recorded yet; do not retry, read it again later")]
    Unrecorded { invocation: InvocationId },
    /// A bug: logged in full, and the caller is told as little as possible.
    #[error("{message}")]
    Internal { message: String },
}

impl Error {
    /// This error as the failure of the call that was requested; `None` if the error says nothing about that call.
    pub fn to_failure(&self) -> Option<Failure> {
        let code = match self {
            Self::UnknownAction { .. } => "unknown_action",
            Self::UnknownSession { .. } => "unknown_session",
            Self::SessionEnded { .. } => "session_ended",
            Self::NotYourSession { .. } => "not_your_session",
            Self::RateLimited { .. } => "rate_limited",
            Self::NotAMember { .. } => "not_a_member",
            Self::TooManyPending { .. } => "too_many_pending",
            Self::InvalidParams { .. } => "invalid_params",
            Self::SchemaTooCostly { .. } => "schema_too_costly",
            Self::InvalidRequest { .. } => "invalid_request",
            Self::InvalidScope { .. } => "invalid_scope",
            Self::CommandNotAllowed { .. } => "command_not_allowed",
            Self::UnknownInvocation { .. } => "not_found",
            Self::IdempotencyConflict { .. } => "idempotency_conflict",
            Self::IdempotencyInFlight { .. } => "idempotency_in_flight",
            Self::NotRevertible { .. } => "not_revertible",
            Self::AlreadyReverted { .. } => "already_reverted",
            Self::Conflict { conflict, .. } => conflict.code(),
            Self::DryRunUnsupported { .. } => "dry_run_unsupported",
            Self::SourceUnavailable { .. } => "source_unavailable",
            Self::NeedsPersonNow { .. } => "needs_person_now",
            Self::MayNotApprove
            | Self::Forbidden { .. }
            | Self::LinkInvalid
            | Self::LinkExpired
            | Self::TicketInvalid
            | Self::NeedsConfirmation { .. }
            | Self::SelfApproval { .. }
            | Self::OwnQuarantine { .. }
            | Self::NotInDoubt { .. }
            | Self::Reconciling { .. }
            | Self::NotGrantable { .. }
            | Self::CannotRun { .. }
            | Self::QuarantineSettled { .. }
            | Self::InvalidBatch { .. }
            | Self::NotLast { .. }
            | Self::BatchKeyTaken { .. }
            | Self::BatchTaken { .. }
            | Self::BatchUnrecorded { .. }
            | Self::Store(_)
            | Self::RulesKeepChanging
            | Self::Unrecorded { .. }
            | Self::Internal { .. } => return None,
        };
        let mut message = self.to_string();
        if let Self::InvalidParams { errors, .. }
        | Self::InvalidRequest { errors }
        | Self::InvalidScope { errors, .. }
        | Self::CommandNotAllowed { errors, .. } = self
        {
            let each: Vec<_> = errors.iter().take(5).map(|error| format!("{} {}", error.pointer, error.message)).collect();
            message = format!("{message}: {}", each.join("; "));
        }
        Some(Failure { code: code.into(), message: policy::redact_text(&message) })
    }

    /// Whether the same request may succeed later.
    pub const fn is_passing(&self) -> bool {
        matches!(
            self,
            Self::RulesKeepChanging
                | Self::Store(ledger::Error::Unavailable { .. } | ledger::Error::Fenced | ledger::Error::CommitUnknown { .. })
        )
    }
}
