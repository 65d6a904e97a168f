//! Problems: RFC 9457 bodies with a stable code. Every code has a page in `docs/errors/`.

use crate::automation::MistakeView;
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
    SchemaTooCostly = "schema_too_costly", 422, "The schema is too costly to check by";
    InvalidScope = "invalid_scope", 422, "The scope cannot be enforced";
    CommandNotAllowed = "command_not_allowed", 422, "A command is not allowed";
    InvalidBatch = "invalid_batch", 422, "These calls cannot be made together";
    DryRunUnsupported = "dry_run_unsupported", 422, "This action has no dry run";
    DefinitionInvalid = "definition_invalid", 422, "The definition has mistakes";
    DraftFlags = "draft_flags", 422, "The draft has flags to read";
    InputsInvalid = "inputs_invalid", 422, "The inputs do not fit the automation";
    IdempotencyKeyReused = "idempotency_key_reused", 422, "The key was used for another request";
    Unauthenticated = "unauthenticated", 401, "A valid token is needed";
    TokenExpired = "token_expired", 401, "The token has expired";
    TokenRevoked = "token_revoked", 401, "The token was revoked";
    SignatureInvalid = "signature_invalid", 401, "The signature is not valid";
    OrgDisabled = "org_disabled", 403, "The org is disabled";
    Forbidden = "forbidden", 403, "The token does not allow this";
    LoginChanged = "login_changed", 403, "The login of the browser has changed";
    MayNotApprove = "may_not_approve", 403, "The role does not allow approving";
    SelfApproval = "self_approval", 403, "The requester may not approve";
    NotYourSession = "not_your_session", 403, "The session belongs to someone else";
    NotAMember = "not_a_member", 403, "Only members of the space act in it";
    SaveNeedsPerson = "save_needs_person", 403, "Only a person saves an automation";
    DeniedByPolicy = "denied_by_policy", 403, "The call was denied";
    Quarantined = "quarantined", 403, "The call was quarantined";
    DeniedByPerson = "denied_by_person", 403, "A person denied the call";
    InvalidPolicy = "invalid_policy", 422, "A policy is not valid";
    PackageInvalid = "package_invalid", 422, "The package is not valid";
    PackageFindings = "package_findings", 422, "The package has findings to review";
    NeedsConfirmation = "needs_confirmation", 422, "The approval must name the action";
    NotGrantable = "not_grantable", 422, "The call cannot be granted";
    ApprovalVoid = "approval_void", 403, "The approval no longer fits the call";
    UnknownRoute = "unknown_route", 404, "There is nothing at this address";
    MethodNotAllowed = "method_not_allowed", 405, "The address exists, the method does not";
    UnknownAction = "unknown_action", 404, "There is no such action";
    UnknownSource = "unknown_source", 404, "There is no such source";
    UnknownSession = "unknown_session", 404, "There is no such session";
    NotFound = "not_found", 404, "The resource does not exist";
    RequestTimeout = "request_timeout", 408, "The body did not arrive in time";
    SessionEnded = "session_ended", 409, "The session has ended";
    Rejected = "rejected", 409, "A person has already denied the call";
    Consumed = "consumed", 409, "The call was already approved";
    AlreadyEnded = "already_ended", 409, "It has already ended";
    NotInDoubt = "not_in_doubt", 409, "It is not in doubt";
    Reconciling = "reconciling", 409, "The outcome is being reconciled";
    NotRevertible = "not_revertible", 409, "The effect cannot be reverted";
    AlreadyReverted = "already_reverted", 409, "The effect was already reverted";
    CannotRun = "cannot_run", 409, "The call cannot run now";
    ArgsMismatch = "args_mismatch", 409, "The params are not the ones that were shown";
    DefinitionMismatch = "definition_mismatch", 409, "The action's definition has changed";
    PolicyMismatch = "policy_mismatch", 409, "The rules for the action have changed";
    TupleMismatch = "tuple_mismatch", 409, "The context has changed";
    Stopped = "stopped", 409, "A kill switch is on";
    AlreadyApproved = "already_approved", 409, "You have already approved it";
    ApproverTooNew = "approver_too_new", 409, "You could not approve yet when the call was made";
    ApprovalUnproven = "approval_unproven", 409, "The audit log does not prove the approval";
    QuarantineSettled = "quarantine_settled", 409, "The quarantine is already settled";
    GrantEnded = "grant_ended", 409, "The grant is no longer in that state";
    IdempotencyConflict = "idempotency_conflict", 409, "The key was used with other params";
    IdempotencyInFlight = "idempotency_in_flight", 409, "A call under the same key is running";
    InDoubt = "in_doubt", 409, "The effect may have happened";
    NameTaken = "name_taken", 409, "The name is taken";
    LastOwner = "last_owner", 409, "An org needs an owner";
    SecretChanged = "secret_changed", 409, "The secret has another version";
    SecretInUse = "secret_in_use", 409, "Something uses the secret";
    ConnectionInUse = "connection_in_use", 409, "A source uses the connection";
    PackageInUse = "package_in_use", 409, "A source uses the package";
    SourceTaken = "source_taken", 409, "A source has the name";
    TooManySources = "too_many_sources", 409, "The org has as many sources as it may have";
    SourceChanged = "source_changed", 409, "The source has another version";
    NoRollback = "no_rollback", 422, "The action has no rollback";
    TooManyAutomations = "too_many_automations", 409, "The org has as many automations as it may have";
    TooManyDrafts = "too_many_drafts", 409, "You have as many drafts in the space as you may have";
    AutomationPaused = "automation_paused", 409, "The automation is paused";
    TriggerDisabled = "trigger_disabled", 409, "The trigger is disabled";
    AutomationArchived = "automation_archived", 409, "The automation is archived";
    RerunRefused = "rerun_refused", 409, "The run cannot be run again from there";
    ArtifactQuarantined = "artifact_quarantined", 409, "The artifact is in quarantine";
    MasterKeyChanging = "master_key_changing", 409, "The master key is being replaced";
    MasterKeyUnready = "master_key_unready", 409, "The next master key is not ready";
    ConnectionNotReady = "connection_not_ready", 409, "The connection needs a login";
    ConnectionNotAllowed = "connection_not_allowed", 403, "The connection is not for this call";
    SlackSignatureInvalid = "slack_signature_invalid", 403, "Slack did not sign the request";
    SlackRequestExpired = "slack_request_expired", 403, "The request of Slack is too old";
    SlackRequestReplayed = "slack_request_replayed", 409, "The request of Slack was used already";
    SlackUserUnknown = "slack_user_unknown", 403, "The user of Slack may not answer here";
    SignInRefused = "sign_in_refused", 403, "You cannot sign in here";
    LoginFailed = "login_failed", 502, "The login failed";
    ConnectionUnreachable = "connection_unreachable", 502, "The address of the connection gave no answer";
    Expired = "expired", 410, "It has expired";
    AutomationChanged = "automation_changed", 412, "The automation has another definition";
    BodyTooLarge = "body_too_large", 413, "The body is too large";
    UnsupportedMediaType = "unsupported_media_type", 415, "The body must be JSON";
    RateLimited = "rate_limited", 429, "Too many invocations in a minute";
    TooManyPending = "too_many_pending", 429, "Too many invocations are pending";
    TooManyStreams = "too_many_streams", 429, "Too many streams are open";
    FileNotFound = "file_not_found", 404, "There is no such file or folder";
    DocumentNotFound = "document_not_found", 404, "There is no such document";
    NotARegularFile = "not_a_regular_file", 422, "The path is not a regular file";
    NotUtf8 = "not_utf8", 422, "The file is not UTF-8 text";
    FileTooLarge = "file_too_large", 422, "The file is too large";
    PathOutsideWorkspace = "path_outside_workspace", 403, "The path is outside the workspace";
    PathNotAllowed = "path_not_allowed", 422, "The path is not in its accepted spelling";
    HardLinkRefused = "hard_link_refused", 403, "The file has a second name";
    ContentChanged = "content_changed", 409, "The file is not the expected one";
    OutsideScope = "outside_scope", 403, "The path is outside the scope of the call";
    ScopeTooFine = "scope_too_fine", 422, "The scope has too many parts";
    HostNotAllowed = "host_not_allowed", 403, "The host is not allowed";
    AddressNotAllowed = "address_not_allowed", 403, "The address is not public";
    UrlNotAllowed = "url_not_allowed", 422, "The URL is not accepted";
    HeaderNotAllowed = "header_not_allowed", 422, "A header is not accepted";
    PackageCodeDisabled = "package_code_disabled", 403, "This server runs no code of packages";
    PackageNetworkNotAllowed = "package_network_not_allowed", 403, "A host of the package is not allowed";
    PackageCommandNotAllowed = "package_command_not_allowed", 403, "A command of the package is not allowed";
    PackageChanged = "package_changed", 409, "The package has changed";
    WorkspaceElsewhere = "workspace_elsewhere", 409, "The effect is in another workspace";
    ActionFailed = "action_failed", 422, "The action answered that it failed";
    Internal = "internal", 500, "Something is wrong on our side";
    SourceFailed = "source_failed", 502, "The source failed";
    SourceUnavailable = "source_unavailable", 502, "The source is not available";
    RulesChanging = "rules_changing", 503, "The rules kept changing";
    OutcomeUnrecorded = "outcome_unrecorded", 503, "The outcome is not recorded yet";
    StoreUnavailable = "store_unavailable", 503, "The store is not available";
}

/// What an invocation fails or is denied with when the call itself is the cause, not the source. The problem then has the same code.
const ABOUT_THE_CALL: &[Code] = &[
    Code::FileNotFound,
    Code::DocumentNotFound,
    Code::NotARegularFile,
    Code::NotUtf8,
    Code::FileTooLarge,
    Code::PathOutsideWorkspace,
    Code::PathNotAllowed,
    Code::HardLinkRefused,
    Code::ContentChanged,
    Code::OutsideScope,
    Code::ScopeTooFine,
    Code::HostNotAllowed,
    Code::AddressNotAllowed,
    Code::UrlNotAllowed,
    Code::HeaderNotAllowed,
    Code::ConnectionNotReady,
    Code::ConnectionNotAllowed,
    Code::PackageCodeDisabled,
    Code::PackageNetworkNotAllowed,
    Code::PackageCommandNotAllowed,
    Code::PackageChanged,
    Code::WorkspaceElsewhere,
    Code::InvalidParams,
    Code::DryRunUnsupported,
    Code::UnknownAction,
    Code::BodyTooLarge,
];

/// The same, for what has no page of its own: the action answered, and would answer the same call so again. The problem then has the code
/// `action_failed`, and this one beside it.
const ANSWERED: [&str; 10] = [
    "mail_refused",
    "not_reversible",
    "source_reported_error",
    "too_many_documents",
    "too_many_files",
    "too_many_redirects",
    "transform_empty",
    "transform_invalid",
    "transform_mismatch",
    "transform_too_large",
];

impl Code {
    /// The code of an invocation that ended with this error, where the call itself is the cause and its source did what it should.
    pub fn about_the_call(error: &str) -> Option<Self> {
        let own = ABOUT_THE_CALL.iter().copied().find(|code| code.as_str() == error);
        own.or_else(|| ANSWERED.contains(&error).then_some(Self::ActionFailed))
    }
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
    /// The batch that the problem is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_id: Option<String>,
    /// The action it is about, where there is no invocation yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// Finds the log lines of this request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    /// Everything that is wrong with the params, each with its place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
    /// Everything that is wrong with a definition or with the inputs of a run, each with its place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mistakes: Vec<MistakeView>,
    /// Names that are like the one that does not exist, the best first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suggestions: Vec<String>,
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
            batch_id: None,
            action: None,
            trace_id: None,
            errors: Vec::new(),
            mistakes: Vec::new(),
            suggestions: Vec::new(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// What a call fails with where it is not the call itself that is the cause: its source, its package, its connection or the host.
    const FAILURES_OF_OTHERS: [&str; 44] = [
        "breaker_open",
        "command_not_allowed",
        "disk_full",
        "document_refused",
        "evidence_of_another_call",
        "evidence_unreadable",
        "file_io_failed",
        "http_429",
        "http_502",
        "http_503",
        "http_504",
        "interrupted",
        "listing_invalid",
        "mail_login_refused",
        "mail_not_encrypted",
        "mail_server_missing",
        "not_verified",
        "notification_refused",
        "package_bad_output",
        "package_failed",
        "package_flooded",
        "package_interpreter_missing",
        "package_invalid",
        "package_killed",
        "package_lost",
        "package_may_not_write",
        "package_missing",
        "package_out_of_memory",
        "package_refused",
        "package_stage_refused",
        "package_timed_out",
        "program_missing",
        "result_schema_mismatch",
        "rollback_evidence_missing",
        "sandbox_unavailable",
        "secret_missing",
        "snapshot_lost",
        "source_broke",
        "source_busy",
        "source_refused",
        "source_timed_out",
        "source_unauthorized",
        "source_unreachable",
        "verification_failed",
    ];

    #[test]
    fn only_what_others_caused_is_a_failure_of_the_gateway() {
        let page = include_str!("../../../docs/errors/invocation-errors.md");
        let (_denied, failed) = page.split_once("## From any source").unwrap();
        let cells = failed.lines().filter_map(|line| line.strip_prefix("| `")?.split(" |").next());
        let documented: BTreeSet<_> = cells.flat_map(|cell| cell.split(", ").map(|code| code.trim_matches('`'))).collect();
        for code in documented {
            let answered = Code::about_the_call(code);
            assert_eq!(answered.is_none(), FAILURES_OF_OTHERS.contains(&code), "{code}: a new code has to be judged");
            assert!(answered.is_none_or(|code| (400..500).contains(&code.status())), "{code}");
        }
    }
}
