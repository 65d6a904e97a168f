//! The one place that turns errors into status codes and RFC 9457 bodies. Internals go to the log, never to the caller.

use super::hints::{end_kill_switch, of_denial};
use api::automation::MistakeView;
use api::codes::Voice;
use api::invocation::InvocationView;
use api::problem::FieldError;
use api::{Advice, Code, NextStep, Problem};
use automation::Mistake;
use axum::Json;
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use countersign_core::invocation::DeniedBy;
use countersign_core::source::AfterError;
use countersign_core::{Invocation, SourceId, Status};
use homes::packages::unread;
use operations::App;
use pipeline::limits::BATCH_PARTS_MAX;
use pipeline::{Conflict, Eyes, ParamError};
use policy::PolicyProblem;
use std::any::Any;
use store::Refused;

/// A problem on its way to the caller.
#[derive(Debug)]
pub struct Refusal(pub(super) Box<Problem>);

impl Refusal {
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self(Box::new(Problem::new(code, detail)))
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// The step to take, in place of that of its code.
    pub(super) fn next(mut self, next: NextStep) -> Self {
        self.0.next = Some(next);
        self
    }

    /// About this action.
    pub(super) fn of(mut self, action: impl ToString) -> Self {
        self.0.action = Some(action.to_string());
        self
    }

    /// Everything that is wrong, each with its place.
    fn at(mut self, errors: Vec<ParamError>) -> Self {
        self.0.errors = errors.into_iter().map(|error| FieldError::new(error.pointer, error.message)).collect();
        self
    }

    /// Everything that is wrong with a definition or with inputs, each with its place.
    fn with_mistakes(mut self, mistakes: Vec<Mistake>) -> Self {
        self.0.mistakes = mistakes.into_iter().map(mistake_view).collect();
        self
    }

    /// The same words for what does not exist and for what belongs to another org.
    pub(super) fn not_found(what: &str, id: &str) -> Self {
        let id: String = id.chars().filter(|character| !character.is_control()).take(80).collect();
        let next = match what {
            "secret" => NextStep::new(Advice::SetSecret).with("secret", &id),
            _ => NextStep::new(Advice::List).with("things", what),
        };
        Self::new(Code::NotFound, format!("there is no {what} `{id}`")).next(next)
    }

    pub(super) fn unknown_session() -> Self {
        Self::new(Code::UnknownSession, "there is no such session")
    }

    /// Why a token or an invitation was refused.
    pub(super) fn of_token(refused: Refused, what: &str) -> Self {
        match refused {
            Refused::Expired => Self::new(Code::TokenExpired, format!("the {what} has expired")),
            Refused::Revoked if what == "invitation" => Self::new(Code::TokenRevoked, "the invitation was redeemed already, or revoked"),
            Refused::Revoked => Self::new(Code::TokenRevoked, format!("the {what} was revoked")),
            Refused::Unknown => Self::new(Code::Unauthenticated, format!("the {what} is not valid")),
            Refused::OrgDisabled => Self::new(Code::OrgDisabled, format!("the org of this {what} is disabled")),
            Refused::Inactive => {
                Self::new(Code::Unauthenticated, format!("{what} invalid: its session has ended or its person is disabled"))
            }
        }
    }

    /// With the names that are like it.
    pub(super) async fn unknown_action<'a>(app: &App, eyes: impl Into<Eyes<'a>>, named: &str) -> Self {
        app.pipeline().unknown_action(eyes, named).await.into()
    }

    /// The problem as the caller gets it.
    pub(super) fn into_problem(self) -> Box<Problem> {
        let mut problem = self.0;
        problem.next = problem.next_step();
        problem.hint = problem.hint.take().or_else(|| problem.next.as_ref()?.said(Voice::Http));
        problem
    }

    /// An invocation that ended otherwise than asked for, with its receipt. Where the call itself is the cause, its error is the code; not of
    /// a call in doubt, which has not ended.
    pub(super) fn ended(code: Code, invocation: Invocation) -> Self {
        let next = of_denial(&invocation);
        let invocation = InvocationView::from(invocation);
        let error = invocation.error.as_ref().map(|error| error.code.clone());
        let code = error.as_deref().filter(|_| code != Code::InDoubt).and_then(Code::about_the_call).unwrap_or(code);
        let detail = match (&invocation.error, invocation.rollback) {
            (None, _) => code.title().to_owned(),
            (Some(error), None) => error.message.clone(),
            // Something was done: what is left of it belongs into the same sentence.
            (Some(error), Some(_)) => format!("`{}` {}: {}", invocation.action, invocation.how_it_failed(), error.message),
        };
        let mut refusal = Self::new(code, detail);
        refusal.0.invocation_id = Some(invocation.id.clone());
        refusal.0.error = error;
        refusal.0.next = next;
        refusal.0.invocation = Some(Box::new(invocation));
        refusal
    }

    /// The code of an invocation that policy or a person refused.
    pub(super) fn denied(invocation: Invocation) -> Self {
        let code = match invocation.denied_by {
            Some(DeniedBy::Person) => Code::DeniedByPerson,
            Some(DeniedBy::Binding) => Code::ApprovalVoid,
            Some(DeniedBy::Drift) => Code::DefinitionMismatch,
            None if invocation.status == Status::Quarantined => Code::Quarantined,
            Some(DeniedBy::Policy) | None => Code::DeniedByPolicy,
        };
        Self::ended(code, invocation)
    }
}

impl From<store::Error> for Refusal {
    fn from(error: store::Error) -> Self {
        match &error {
            store::Error::Unavailable { .. } => {
                tracing::error!(%error, "the store is not available");
                Self::new(Code::StoreUnavailable, "the store is not available; nothing was written, retrying is safe")
            }
            store::Error::Fenced => Self::new(Code::StoreUnavailable, error.to_string()),
            store::Error::CommitUnknown { .. } => {
                tracing::error!(%error, "the store went away during a commit");
                Self::new(Code::StoreUnavailable, "the store went away during a commit; it may have been written, read before retrying")
            }
            store::Error::Corrupt { .. } => internal(&error),
        }
    }
}

impl From<pipeline::Error> for Refusal {
    fn from(error: pipeline::Error) -> Self {
        use pipeline::Error as E;
        let detail = error.to_string();
        match error {
            E::UnknownAction { suggestions, .. } => {
                let mut refusal = Self::new(Code::UnknownAction, detail);
                refusal.0.suggestions = suggestions;
                refusal
            }
            E::UnknownSession { .. } => Self::new(Code::UnknownSession, detail),
            E::SessionEnded { .. } => Self::new(Code::SessionEnded, detail),
            E::NotYourSession { .. } => Self::new(Code::NotYourSession, detail),
            E::RateLimited { retry_after_ms, .. } => {
                let mut refusal = Self::new(Code::RateLimited, detail);
                refusal.0.retry_after_ms = Some(retry_after_ms);
                refusal
            }
            E::NotAMember { .. } => Self::new(Code::NotAMember, detail),
            E::TooManyPending { .. } => Self::new(Code::TooManyPending, detail),
            E::SchemaTooCostly { action } => Self::new(Code::SchemaTooCostly, detail).of(action),
            E::InvalidParams { action, errors } => Self::new(Code::InvalidParams, detail).of(action).at(errors),
            E::InvalidRequest { errors } => Self::new(Code::InvalidRequest, detail).at(errors),
            E::InvalidScope { errors, .. } => Self::new(Code::InvalidScope, detail).at(errors),
            E::CommandNotAllowed { errors, .. } => Self::new(Code::CommandNotAllowed, detail).at(errors),
            E::UnknownInvocation { invocation } => Self::not_found("invocation", &invocation),
            E::IdempotencyConflict { invocation } => about(Self::new(Code::IdempotencyConflict, detail), &invocation),
            E::IdempotencyInFlight { invocation } => about(Self::new(Code::IdempotencyInFlight, detail), &invocation),
            E::MayNotApprove => Self::new(Code::MayNotApprove, detail),
            E::Forbidden { .. } => Self::new(Code::Forbidden, detail),
            E::LinkInvalid => Self::new(Code::NotFound, detail).hint("open your inbox instead"),
            E::LinkExpired => Self::new(Code::Expired, detail).hint("open your inbox instead"),
            E::TicketInvalid => Self::new(Code::NotFound, detail),
            E::NeedsConfirmation { invocation, action } => about(Self::new(Code::NeedsConfirmation, detail), &invocation).of(action),
            E::SelfApproval { invocation } => about(Self::new(Code::SelfApproval, detail), &invocation),
            E::OwnQuarantine { invocation } => {
                about(Self::new(Code::SelfApproval, detail), &invocation).hint("another admin or owner has to release or discard it")
            }
            E::NotInDoubt { invocation, .. } => about(Self::new(Code::NotInDoubt, detail), &invocation),
            E::Reconciling { invocation } => about(Self::new(Code::Reconciling, detail), &invocation),
            E::NotRevertible { invocation, .. } => about(Self::new(Code::NotRevertible, detail), &invocation),
            E::AlreadyReverted { invocation, .. } => about(Self::new(Code::AlreadyReverted, detail), &invocation),
            E::CannotRun { invocation, failure } => {
                let mut refusal = about(Self::new(Code::CannotRun, detail), &invocation);
                refusal.0.error = Some(failure.code);
                refusal
            }
            E::NotGrantable { invocation, .. } => about(Self::new(Code::NotGrantable, detail), &invocation),
            E::QuarantineSettled { invocation, .. } => about(Self::new(Code::QuarantineSettled, detail), &invocation),
            E::Conflict { invocation, conflict } => about(Self::new(conflict_code(conflict), detail), &invocation),
            E::InvalidBatch { part: None, .. } => Self::new(Code::InvalidBatch, detail)
                .hint(format!("a batch is a `mode` and 1 to {BATCH_PARTS_MAX} `actions`, each an `action` with its `params`; it may have a `reason` and an `idempotency_key`")),
            E::InvalidBatch { part: Some(_), .. } => Self::new(Code::InvalidBatch, detail).next(NextStep::new(Advice::ListActions)),
            E::NotLast { .. } => Self::new(Code::InvalidBatch, detail),
            E::BatchKeyTaken { .. } => Self::new(Code::IdempotencyConflict, detail),
            E::BatchTaken { batch } => of_batch(Code::IdempotencyInFlight, detail, &batch),
            E::BatchUnrecorded { batch } => of_batch(Code::OutcomeUnrecorded, detail, &batch),
            E::NeedsPersonNow { .. } => Self::new(Code::PolicyMismatch, detail),
            E::DryRunUnsupported { action } => Self::new(Code::DryRunUnsupported, detail).of(action),
            E::SourceUnavailable { .. } => Self::new(Code::SourceUnavailable, detail),
            E::Unrecorded { invocation } => about(Self::new(Code::OutcomeUnrecorded, detail), &invocation),
            E::RulesKeepChanging => Self::new(Code::RulesChanging, detail),
            E::Store(error) => error.into(),
            E::Internal { .. } => internal(&detail),
        }
    }
}

impl From<operations::Error> for Refusal {
    fn from(error: operations::Error) -> Self {
        use operations::Error as E;
        let detail = error.to_string();
        match error {
            E::Pipeline(error) => error.into(),
            E::Invalid { errors, .. } => Self::new(Code::InvalidRequest, detail).at(errors),
            E::ChannelHost { .. } => Self::new(Code::InvalidRequest, detail).next(NextStep::new(Advice::AllowHost)),
            E::ConditionTooCostly { .. } => Self::new(Code::SchemaTooCostly, detail),
            E::BadName => Self::new(Code::InvalidRequest, detail).hint("such as `robin` or `build-server`"),
            E::UnknownPurpose { of_policies, .. } => {
                let named: Vec<_> = of_policies.iter().map(|purpose| format!("`{purpose}`")).collect();
                let named = if named.is_empty() { "none".to_owned() } else { named.join(", ") };
                let hint =
                    format!("use `action:ID` or `redaction:ID` of an action, `action:SOURCE.*`, or a purpose that a policy names: {named}");
                Self::new(Code::InvalidRequest, detail).hint(hint)
            }
            E::NothingToChange { fields } => Self::new(Code::InvalidRequest, detail).hint(format!("give {fields}")),
            E::NotAPerson { .. } => Self::new(Code::Forbidden, detail).hint("ask an admin"),
            E::AboveOwnRole { ask, .. } => Self::new(Code::Forbidden, detail).hint(format!("ask {ask}")),
            E::NotAnOperator | E::FirstOrg => Self::new(Code::Forbidden, detail),
            E::OwnRole => Self::new(Code::Forbidden, detail).hint("ask another admin or owner"),
            E::TokenRevoked => Self::new(Code::TokenRevoked, detail),
            E::OthersToken { user } => Self::new(Code::Forbidden, detail).next(NextStep::new(Advice::InvitePerson).with("user", user)),
            E::OrgDisabled { .. } => Self::new(Code::OrgDisabled, detail),
            E::TokenRefused(refused) => Self::of_token(refused, "token"),
            E::TooManyLogins { retry_after_ms } => {
                let mut refusal = Self::new(Code::RateLimited, detail);
                refusal.0.retry_after_ms = Some(retry_after_ms);
                refusal
            }
            E::LinkUnopened => Self::new(Code::Forbidden, detail).hint("open it first"),
            E::OpenedElsewhere { invocation } => {
                about(Self::new(Code::Unauthenticated, detail), &invocation).hint("log in to answer the call as yourself")
            }
            E::OtherSession => Self::new(Code::Forbidden, detail),
            E::UnknownSession => Self::new(Code::UnknownSession, detail),
            E::NotYourSession => Self::new(Code::NotYourSession, detail),
            E::NotFound { what, id } => Self::not_found(what, &id),
            E::Absent { listed_at, .. } => {
                Self::new(Code::NotFound, detail).next(NextStep::new(Advice::List).with("things", listed_at).with("at", listed_at))
            }
            E::NameTaken { .. } => Self::new(Code::NameTaken, detail),
            E::LastOwner { first, .. } => Self::new(Code::LastOwner, detail).hint(first).next(NextStep::new(Advice::AddOwner)),
            E::SecretChanged { .. } => Self::new(Code::SecretChanged, detail),
            E::SecretInUse { name, .. } => {
                Self::new(Code::SecretInUse, detail).next(NextStep::new(Advice::ReadUsesOfSecret).with("secret", name))
            }
            E::ConnectionInUse { .. } => Self::new(Code::ConnectionInUse, detail),
            E::MasterKeyChanging => Self::new(Code::MasterKeyChanging, detail),
            E::MasterKeyUnready(_) => Self::new(Code::MasterKeyUnready, detail),
            E::SlackForged => Self::new(Code::SlackSignatureInvalid, detail),
            E::SlackExpired => Self::new(Code::SlackRequestExpired, detail),
            E::SlackReplayed => Self::new(Code::SlackRequestReplayed, detail),
            E::SlackUserUnknown { .. } => Self::new(Code::SlackUserUnknown, detail),
            E::SignInRefused { .. } => Self::new(Code::SignInRefused, detail),
            E::SignInFailed { .. } => {
                Self::new(Code::LoginFailed, detail).hint("sign in again; if that fails too, give the trace id to whoever runs this server")
            }
            E::LoginUnknown => Self::new(Code::NotFound, detail).hint("start it again"),
            E::Connection { name, error } => of_connection(&name, &error, detail),
            E::UnknownSource { .. } => Self::new(Code::UnknownSource, detail).next(NextStep::new(Advice::ListSources)),
            E::SourceTaken { .. } => Self::new(Code::SourceTaken, detail),
            E::TooManySources { .. } => Self::new(Code::TooManySources, detail),
            E::SourceChanged { name } => {
                Self::new(Code::SourceChanged, detail).next(NextStep::new(Advice::ReadSource).with("source", name))
            }
            E::NoRollback { .. } => Self::new(Code::NoRollback, detail),
            E::Stopped { scope, .. } => Self::new(Code::Stopped, detail).next(end_kill_switch(&scope)),
            E::Source(error) => of_source(&error, detail),
            E::GrantEnded { .. } => Self::new(Code::GrantEnded, detail),
            E::NeverGranted { .. } => Self::new(Code::NotGrantable, detail),
            E::TooManyRequests { .. } => Self::new(Code::TooManyPending, detail),
            E::TooManyStreams { .. } => Self::new(Code::TooManyStreams, detail),
            E::DefinitionChanged { action } => {
                Self::new(Code::DefinitionMismatch, detail).of(action).next(NextStep::new(Advice::ReadReview))
            }
            E::Findings { name, findings } => Self(Box::new(unread(&name, &findings))),
            E::Package(refused) => Self(Box::new(homes::packages::problem_of(&refused))),
            E::PackageInUse { sources, .. } => {
                let first = sources.first().map(SourceId::as_str).unwrap_or_default();
                Self::new(Code::PackageInUse, detail).next(NextStep::new(Advice::RemoveUsers).with("source", first))
            }
            E::NoPackages => Self::new(Code::PackageInvalid, detail),
            E::Interrupted { read_at, .. } => {
                Self::new(Code::OutcomeUnrecorded, detail).next(NextStep::new(Advice::Read).with("at", read_at))
            }
            E::Definition { mistakes } => Self::new(Code::DefinitionInvalid, detail).with_mistakes(mistakes),
            E::DraftFlags { flags, .. } => Self::new(Code::DraftFlags, detail).with_mistakes(flags),
            E::SaveNeedsPerson => Self::new(Code::SaveNeedsPerson, detail),
            E::AutomationChanged { .. } => Self::new(Code::AutomationChanged, detail),
            E::PermittedBefore { .. } => Self::new(Code::Forbidden, detail)
                .hint("have an admin save it, or first remove those modes and revoke those grants; then its calls ask a person again"),
            E::TooManyAutomations { .. } => Self::new(Code::TooManyAutomations, detail),
            E::TooManyDrafts { .. } => Self::new(Code::TooManyDrafts, detail),
            E::RunEnded { run } => {
                Self::new(Code::AlreadyEnded, detail).next(NextStep::new(Advice::Read).with("at", format!("runs/{run}")))
            }
            E::ArtifactLinkExpired { artifact } => {
                Self::new(Code::Expired, detail).next(NextStep::new(Advice::MakeArtifactLink).with("artifact", artifact))
            }
            E::ArtifactQuarantined { .. } => Self::new(Code::ArtifactQuarantined, detail),
            E::HookRefused => {
                Self::new(Code::Unauthenticated, detail).hint("send `authorization: Bearer cs_hook_…` with the token of the webhook")
            }
            E::SignatureInvalid => Self::new(Code::SignatureInvalid, detail),
            E::Json(error) => malformed(&error),
            E::Run(error) => of_run(error, detail),
            E::Policies { problems } => {
                let mut refusal = Self::new(Code::InvalidPolicy, detail);
                refusal.0.errors = problems.into_iter().map(policy_problem).collect();
                refusal
            }
        }
    }
}

pub(super) fn mistake_view(mistake: Mistake) -> MistakeView {
    MistakeView { pointer: mistake.pointer, code: mistake.code.to_owned(), message: mistake.message, hint: mistake.hint }
}

/// A body that is not JSON, or not JSON with one meaning.
pub(super) fn malformed(error: &countersign_core::json::Error) -> Refusal {
    let mut refusal = Refusal::new(Code::MalformedJson, format!("the body is not JSON we accept: {error}"));
    refusal.0.errors = vec![FieldError::new(error.pointer.clone(), error.message.clone())];
    refusal
}

/// Why an automation was not fired, or a run not repeated.
fn of_run(error: runs::Error, detail: String) -> Refusal {
    use runs::Error as E;
    match error {
        E::UnknownAutomation { automation } => Refusal::not_found("automation", automation.as_str()),
        E::UnknownTrigger { trigger } => Refusal::not_found("trigger", &trigger),
        E::Archived { .. } => Refusal::new(Code::AutomationArchived, detail),
        E::Paused { .. } => Refusal::new(Code::AutomationPaused, detail),
        E::Disabled { .. } => Refusal::new(Code::TriggerDisabled, detail),
        E::InputsInvalid { mistakes } => Refusal::new(Code::InputsInvalid, detail).with_mistakes(mistakes),
        E::KeyReused { .. } => Refusal::new(Code::IdempotencyKeyReused, detail),
        E::RateLimited { retry_after_seconds } => {
            let mut refusal = Refusal::new(Code::RateLimited, detail);
            refusal.0.retry_after_ms = Some(u64::from(retry_after_seconds) * 1_000);
            refusal
        }
        E::RerunInDoubt { .. } | E::PayloadUnusable { .. } => Refusal::new(Code::RerunRefused, detail),
        E::RerunImpossible { why, .. } => Refusal::new(Code::RerunRefused, format!("{detail}: {why}")),
        E::Unreadable { .. } => internal(&detail),
        E::Store(error) => error.into(),
    }
}

fn policy_problem(problem: PolicyProblem) -> FieldError {
    let about = problem.id.map(|id| format!("`{id}`: ")).unwrap_or_default();
    FieldError {
        pointer: format!("/{}", problem.gate.as_str()),
        message: format!("{about}{}", problem.message),
        line: Some(problem.line),
        column: Some(problem.column),
        ..FieldError::default()
    }
}

fn about(mut refusal: Refusal, invocation: &countersign_core::InvocationId) -> Refusal {
    refusal.0.invocation_id = Some(invocation.to_string());
    refusal
}

fn of_batch(code: Code, detail: String, batch: &countersign_core::BatchId) -> Refusal {
    let mut refusal = Refusal::new(code, detail).next(NextStep::new(Advice::ReadBatch).with("batch", batch));
    refusal.0.batch_id = Some(batch.to_string());
    refusal
}

/// Why a connection could not be made, tried or logged in for. Whoever does that is no caller of an action, so nothing here has an
/// invocation.
fn of_connection(name: &str, error: &countersign_core::source::Error, detail: String) -> Refusal {
    if error.why_no_turn().is_some() {
        return Refusal::new(Code::StoreUnavailable, detail);
    }
    let mut refusal = of_setup(error, &detail).unwrap_or_else(|| Refusal::new(Code::LoginFailed, detail));
    refusal.0.next = refusal.0.next_step().map(|next| next.with("connection", name));
    refusal
}

/// Why a source could not be added, changed or read.
fn of_source(error: &countersign_core::source::Error, detail: String) -> Refusal {
    let is_away = error.was_not_taken_up() || error.after() == AfterError::Unknown;
    let code = if is_away { Code::SourceUnavailable } else { Code::SourceFailed };
    // It may quote what others said, such as the last words of a program.
    let detail = policy::redact_text(&detail);
    let hint = match error.code() {
        "source_unauthorized" => "give it a connection whose credential it accepts",
        _ if is_away => "check that its server runs, and that its address or its command is right",
        _ => "check that an MCP server answers there: its address with the path, or its command",
    };
    let mut refusal = of_setup(error, &detail).unwrap_or_else(|| Refusal::new(code, detail).hint(hint));
    refusal.0.error = Some(error.code().to_owned());
    refusal
}

/// What is set about a source or a connection, or what an operator allows, is the cause.
fn of_setup(error: &countersign_core::source::Error, detail: &str) -> Option<Refusal> {
    match Code::parse(error.code()) {
        Some(code @ (Code::HostNotAllowed | Code::AddressNotAllowed)) => {
            Some(Refusal::new(code, detail).next(NextStep::new(Advice::AllowHost)))
        }
        Some(code @ Code::CommandNotAllowed) => Some(Refusal::new(code, detail).hint(
            "an operator allows it with `countersign allow command add`, or with the source: `countersign source add NAME -- COMMAND`",
        )),
        Some(
            code @ (Code::UrlNotAllowed
            | Code::HeaderNotAllowed
            | Code::ConnectionNotReady
            | Code::ConnectionNotAllowed
            | Code::ConnectionUnreachable
            | Code::PackageCodeDisabled
            | Code::PackageNetworkNotAllowed),
        ) => Some(Refusal::new(code, detail)),
        Some(_) | None => None,
    }
}

fn internal(error: &dyn std::fmt::Display) -> Refusal {
    tracing::error!(%error, "internal error");
    Refusal::new(Code::Internal, "something is wrong on our side; the trace id finds it in the server's log")
}

const fn conflict_code(conflict: Conflict) -> Code {
    match conflict {
        Conflict::Rejected => Code::Rejected,
        Conflict::Consumed => Code::Consumed,
        Conflict::Expired => Code::Expired,
        Conflict::Ended => Code::AlreadyEnded,
        Conflict::ArgsMismatch => Code::ArgsMismatch,
        Conflict::DefinitionMismatch | Conflict::Gone => Code::DefinitionMismatch,
        Conflict::PolicyMismatch => Code::PolicyMismatch,
        Conflict::TupleMismatch => Code::TupleMismatch,
        Conflict::Stopped => Code::Stopped,
        Conflict::AlreadyApproved => Code::AlreadyApproved,
        Conflict::ApproverTooNew => Code::ApproverTooNew,
        Conflict::Unproven => Code::ApprovalUnproven,
        Conflict::CallerLeft => Code::Consumed,
    }
}

/// Kept beside the response until the trace id is known.
#[derive(Clone)]
struct Untraced(Box<Problem>);

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        response.extensions_mut().insert(Untraced(self.into_problem()));
        response
    }
}

/// Writes the problem's body, now that its trace id is known.
pub(super) fn with_trace(mut response: Response, trace_id: &str) -> Response {
    let Some(Untraced(mut problem)) = response.extensions_mut().remove::<Untraced>() else {
        return response;
    };
    problem.trace_id = Some(trace_id.to_owned());
    let (mut parts, _) = response.into_parts();
    // That was the length of the empty body this one takes the place of.
    parts.headers.remove(header::CONTENT_LENGTH);
    if let Some(wait_ms) = problem.retry_after_ms
        && let Ok(value) = HeaderValue::from_str(&wait_ms.div_ceil(1_000).to_string())
    {
        parts.headers.insert(header::RETRY_AFTER, value);
    }
    if problem.status == StatusCode::UNAUTHORIZED.as_u16() {
        parts.headers.entry(header::WWW_AUTHENTICATE).or_insert(HeaderValue::from_static("Bearer"));
    }
    let mut response = (parts.status, Json(problem)).into_response();
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    response.headers_mut().extend(parts.headers);
    response
}

pub(super) async fn unknown_route() -> Refusal {
    Refusal::new(Code::UnknownRoute, "there is nothing at this address")
}

pub(super) async fn method_not_allowed() -> Refusal {
    Refusal::new(Code::MethodNotAllowed, "this address does not take this method")
}

/// A bug in a handler: one request fails, the server goes on.
pub(super) fn panicked(panic: Box<dyn Any + Send>) -> Response {
    let message = panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    internal(&message.unwrap_or_else(|| "a handler panicked".to_owned())).into_response()
}
