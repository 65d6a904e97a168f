//! Problems: RFC 9457 bodies with a stable code. Every code has a page in `docs/errors/`.

use crate::invocation::InvocationView;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $status:literal, $title:literal;)*) => {
        /// A stable name for what went wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum Code {
            $($(#[$doc])* $name,)*
        }

        impl Code {
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }

            /// The HTTP status it travels with.
            pub const fn status(self) -> u16 {
                match self { $(Self::$name => $status),* }
            }

            pub const fn title(self) -> &'static str {
                match self { $(Self::$name => $title),* }
            }

            /// Its page, as Markdown: what `type` of a problem points to. A code without one does not compile.
            pub const fn page(self) -> &'static str {
                match self { $(Self::$name => include_str!(concat!("../../../docs/errors/", $text, ".md"))),* }
            }

            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|code| code.as_str() == text)
            }
        }
    };
}

codes! {
    MalformedJson = "malformed_json", 400, "The body is not JSON we accept";
    InvalidRequest = "invalid_request", 400, "The request does not have the expected shape";
    InvalidQuery = "invalid_query", 400, "A query parameter does not make sense";
    InvalidParams = "invalid_params", 422, "The params do not fit the action's schema";
    InvalidScope = "invalid_scope", 422, "The scope could not be held to";
    CommandNotAllowed = "command_not_allowed", 422, "A command that is to verify is refused";
    InvalidBatch = "invalid_batch", 422, "These calls cannot be made together";
    DryRunUnsupported = "dry_run_unsupported", 422, "This action has no dry run";
    Unauthenticated = "unauthenticated", 401, "A valid token is needed";
    TokenExpired = "token_expired", 401, "The token has expired";
    TokenRevoked = "token_revoked", 401, "The token was revoked";
    OrgDisabled = "org_disabled", 403, "The org is disabled";
    Forbidden = "forbidden", 403, "The token does not allow this";
    MayNotApprove = "may_not_approve", 403, "Only an approver, an admin or an owner answers invocations";
    SelfApproval = "self_approval", 403, "Whoever asked does not approve";
    NotYourSession = "not_your_session", 403, "The session belongs to someone else";
    DeniedByPolicy = "denied_by_policy", 403, "The call was denied";
    Quarantined = "quarantined", 403, "It is too dangerous to run";
    DeniedByPerson = "denied_by_person", 403, "A person said no";
    InvalidPolicy = "invalid_policy", 422, "A policy does not hold up";
    PackageInvalid = "package_invalid", 422, "The package breaks a rule";
    PackageFindings = "package_findings", 422, "Somebody has to read what the package says";
    NeedsConfirmation = "needs_confirmation", 422, "This is approved by name";
    NotGrantable = "not_grantable", 422, "This cannot be granted beyond one call";
    ApprovalVoid = "approval_void", 403, "The approval no longer fits the call";
    UnknownRoute = "unknown_route", 404, "There is nothing at this address";
    MethodNotAllowed = "method_not_allowed", 405, "The address exists, the method does not";
    UnknownAction = "unknown_action", 404, "There is no such action";
    UnknownSource = "unknown_source", 404, "There is no such source";
    UnknownSession = "unknown_session", 404, "There is no such session";
    NotFound = "not_found", 404, "There is no such thing";
    RequestTimeout = "request_timeout", 408, "The body did not arrive in time";
    SessionEnded = "session_ended", 409, "The session has ended";
    Rejected = "rejected", 409, "A person has already said no";
    Consumed = "consumed", 409, "It was already approved and used";
    AlreadyEnded = "already_ended", 409, "It has already ended";
    NotInDoubt = "not_in_doubt", 409, "It is not in doubt";
    Reconciling = "reconciling", 409, "The outcome is being reconciled";
    NotRevertible = "not_revertible", 409, "Its effect cannot be taken back";
    AlreadyReverted = "already_reverted", 409, "Its effect was taken back already";
    CannotRun = "cannot_run", 409, "It could not run, whatever the answer";
    ArgsMismatch = "args_mismatch", 409, "The params are not the ones that were shown";
    DefinitionMismatch = "definition_mismatch", 409, "The action's definition has changed";
    PolicyMismatch = "policy_mismatch", 409, "The rules for the action have changed";
    TupleMismatch = "tuple_mismatch", 409, "The context is not the one it was asked in";
    Stopped = "stopped", 409, "A kill switch is on";
    AlreadyApproved = "already_approved", 409, "You have said yes already";
    QuarantineSettled = "quarantine_settled", 409, "The quarantine is over";
    GrantEnded = "grant_ended", 409, "The grant is no longer in that state";
    IdempotencyConflict = "idempotency_conflict", 409, "The key was used with other params";
    IdempotencyInFlight = "idempotency_in_flight", 409, "A call under the same key is running";
    InDoubt = "in_doubt", 409, "The effect may have happened";
    NameTaken = "name_taken", 409, "The name is taken";
    LastOwner = "last_owner", 409, "An org needs an owner";
    Expired = "expired", 410, "Its time has run out";
    BodyTooLarge = "body_too_large", 413, "The body is too large";
    UnsupportedMediaType = "unsupported_media_type", 415, "The body must be JSON";
    RateLimited = "rate_limited", 429, "Too many invocations in a minute";
    TooManyPending = "too_many_pending", 429, "Too many invocations wait for a person";
    Internal = "internal", 500, "Something is wrong on our side";
    SourceFailed = "source_failed", 502, "The source did not do it";
    SourceUnavailable = "source_unavailable", 502, "The source could not be asked";
    OutcomeUnrecorded = "outcome_unrecorded", 503, "It was started; its outcome waits for the store";
    StoreUnavailable = "store_unavailable", 503, "The store is not available";
}

/// An error as RFC 9457 describes it, with a stable code and what to do next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// A reference to the code's page.
    #[serde(rename = "type")]
    pub kind: String,
    pub title: String,
    pub status: u16,
    pub code: Code,
    /// What happened this time, and whether retrying is safe.
    pub detail: String,
    /// What to do next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invocation_id: Option<String>,
    /// Finds the log lines of this request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    /// Everything that is wrong with the params, each with its place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
    /// Milliseconds to wait before trying again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// The invocation that ended this way; it has a receipt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invocation: Option<Box<InvocationView>>,
    /// The code of what refused or failed it, such as `denied_by_mode` or `file_not_found`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FieldError {
    /// RFC 6901. In a file: from the root of what it holds.
    pub pointer: String,
    pub message: String,
    /// The file it is about, where it is about one of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Where in a text, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
}

impl FieldError {
    pub fn new(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), message: message.into(), ..Self::default() }
    }
}

impl Problem {
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            kind: format!("/docs/errors/{}", code.as_str()),
            title: code.title().into(),
            status: code.status(),
            code,
            detail: detail.into(),
            hint: None,
            invocation_id: None,
            trace_id: None,
            errors: Vec::new(),
            retry_after_ms: None,
            invocation: None,
            error: None,
        }
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    #[must_use]
    pub fn about(mut self, invocation_id: impl ToString) -> Self {
        self.invocation_id = Some(invocation_id.to_string());
        self
    }
}
