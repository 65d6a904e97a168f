//! Every error code and every next step, each declared once. Whoever adds a code adds a row here and its page in `docs/errors`; the list of
//! the docs, the enum of `openapi.json`, exit codes and hints of every door follow.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Whether the same request is worth sending again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Safe, and it gets the same answer until somebody changes something.
    Same,
    /// Safe, and it may succeed a moment later.
    Later,
    /// It may have done something: look first.
    Check,
}

impl Retry {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Later => "later",
            Self::Check => "check",
        }
    }
}

macro_rules! codes {
    ($($name:ident = $text:literal, $status:literal, $exit:literal, $retry:ident, $title:literal $(=> $step:ident)? $(, $of_the_call:ident)?;)*) => {
        /// A stable name for what went wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum Code {
            $($name,)*
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

            /// The exit code of a command that ends with it.
            pub const fn exit(self) -> u8 {
                match self { $(Self::$name => $exit),* }
            }

            pub const fn retry(self) -> Retry {
                match self { $(Self::$name => Retry::$retry),* }
            }

            pub const fn title(self) -> &'static str {
                match self { $(Self::$name => $title),* }
            }

            /// What can be done about it, where nothing more is known.
            pub const fn step(self) -> Option<Advice> {
                match self { $(Self::$name => first(&[$(Advice::$step)?])),* }
            }

            /// Whether an invocation that fails or is denied with it is itself the cause, not its source.
            const fn is_of_the_call(self) -> bool {
                match self { $(Self::$name => is_marked(&[$(stringify!($of_the_call))?])),* }
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

const fn first(steps: &[Advice]) -> Option<Advice> {
    steps.first().copied()
}

const fn is_marked(marks: &[&str]) -> bool {
    !marks.is_empty()
}

macro_rules! steps {
    ($($name:ident: $($voice:ident $words:literal),+;)*) => {
        /// What to do next, by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum Advice {
            $($name,)*
        }

        impl Advice {
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The words of each door. `{action}` stands for what the step is about.
            pub const fn words(self) -> &'static [(Voice, &'static str)] {
                match self { $(Self::$name => &[$((Voice::$voice, $words)),+]),* }
            }
        }
    };
}

/// Who reads how a step is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Voice {
    Http,
    Cli,
    /// An agent at a command line, who can neither approve nor change rules. Where it has no words, it gets those of `Cli`.
    Agent,
    /// The same words for everybody who has none of their own.
    Any,
}

// The wire name, the HTTP status, the exit code, whether to send it again, the sentence of the docs, the next step, and whether an invocation
// that fails with it is itself the cause.
codes! {
    MalformedJson = "malformed_json", 400, 8, Same, "The body is not JSON we accept" => ReadDescription;
    InvalidRequest = "invalid_request", 400, 8, Same, "The request does not have the expected shape" => ReadDescription;
    InvalidQuery = "invalid_query", 400, 8, Same, "A query parameter does not make sense" => ReadDescription;
    InvalidParams = "invalid_params", 422, 8, Same, "The params do not fit the action's schema" => ReadSchema, of_the_call;
    SchemaTooCostly = "schema_too_costly", 422, 8, Same, "The schema is too costly to check by" => SendSmaller;
    InvalidScope = "invalid_scope", 422, 8, Same, "The scope cannot be enforced" => NameRelativePaths;
    CommandNotAllowed = "command_not_allowed", 422, 8, Same, "A command is not allowed" => UseAllowedCommand;
    InvalidBatch = "invalid_batch", 422, 8, Same, "These calls cannot be made together" => SplitBatch;
    DryRunUnsupported = "dry_run_unsupported", 422, 8, Same, "This action has no dry run" => Explain, of_the_call;
    DefinitionInvalid = "definition_invalid", 422, 8, Same, "The definition has mistakes" => CorrectDefinition;
    DraftFlags = "draft_flags", 422, 8, Same, "The draft has flags to read" => AcceptFlags;
    InputsInvalid = "inputs_invalid", 422, 8, Same, "The inputs do not fit the automation" => ReadInputs;
    IdempotencyKeyReused = "idempotency_key_reused", 422, 8, Same, "The key was used for another request" => RenewRequestKey;
    Unauthenticated = "unauthenticated", 401, 4, Same, "A valid token is needed" => SendToken;
    TokenExpired = "token_expired", 401, 4, Same, "The token has expired" => SendToken;
    TokenRevoked = "token_revoked", 401, 4, Same, "The token was revoked" => SendToken;
    SignatureInvalid = "signature_invalid", 401, 4, Same, "The signature is not valid" => SignWebhook;
    OrgDisabled = "org_disabled", 403, 5, Same, "The org is disabled" => AskOperator;
    Forbidden = "forbidden", 403, 5, Same, "The token does not allow this" => ReadPermissions;
    LoginChanged = "login_changed", 403, 5, Same, "The login of the browser has changed" => ReadLogin;
    MayNotApprove = "may_not_approve", 403, 5, Same, "The role does not allow approving" => AskAnotherApprover;
    SelfApproval = "self_approval", 403, 5, Same, "The requester may not approve" => AskAnotherApprover;
    NotYourSession = "not_your_session", 403, 5, Same, "The session belongs to someone else" => UseSessionToken;
    NotAMember = "not_a_member", 403, 5, Same, "Only members of the space act in it" => ListMembers;
    SaveNeedsPerson = "save_needs_person", 403, 5, Same, "Only a person saves an automation" => SaveAsPerson;
    DeniedByPolicy = "denied_by_policy", 403, 5, Same, "The call was denied" => ReadOutcome;
    Quarantined = "quarantined", 403, 5, Same, "The call was quarantined" => ReadQuarantine;
    DeniedByPerson = "denied_by_person", 403, 5, Same, "A person denied the call" => ReadOutcome;
    InvalidPolicy = "invalid_policy", 422, 8, Same, "A policy is not valid" => ReadPolicySchema;
    PackageInvalid = "package_invalid", 422, 8, Same, "The package is not valid";
    PackageFindings = "package_findings", 422, 8, Same, "The package has findings to review" => AcceptFindings;
    NeedsConfirmation = "needs_confirmation", 422, 8, Same, "The approval must name the action" => ConfirmByName;
    NotGrantable = "not_grantable", 422, 8, Same, "The call cannot be granted" => ApproveOnce;
    ApprovalVoid = "approval_void", 403, 5, Same, "The approval no longer fits the call" => ReadOutcome;
    UnknownRoute = "unknown_route", 404, 3, Same, "There is nothing at this address" => ReadDescription;
    MethodNotAllowed = "method_not_allowed", 405, 1, Same, "The address exists, the method does not" => ReadDescription;
    UnknownAction = "unknown_action", 404, 3, Same, "There is no such action" => ListActions, of_the_call;
    UnknownSource = "unknown_source", 404, 3, Same, "There is no such source" => ListSourceActions;
    UnknownSession = "unknown_session", 404, 3, Same, "There is no such session" => CreateSession;
    NotFound = "not_found", 404, 3, Same, "The resource does not exist";
    RequestTimeout = "request_timeout", 408, 1, Later, "The body did not arrive in time";
    SessionEnded = "session_ended", 409, 7, Same, "The session has ended" => CreateSession;
    Rejected = "rejected", 409, 7, Same, "A person has already denied the call" => ReadCall;
    Consumed = "consumed", 409, 7, Same, "The call was already approved" => ReadCall;
    AlreadyEnded = "already_ended", 409, 7, Same, "It has already ended" => ReadCall;
    NotInDoubt = "not_in_doubt", 409, 7, Same, "It is not in doubt" => ReadCall;
    Reconciling = "reconciling", 409, 7, Later, "The outcome is being reconciled" => ReadProgress;
    NotRevertible = "not_revertible", 409, 7, Same, "The effect cannot be reverted" => ReadEffect;
    AlreadyReverted = "already_reverted", 409, 7, Same, "The effect was already reverted" => ReadRevert;
    CannotRun = "cannot_run", 409, 7, Same, "The call cannot run now" => CorrectCause;
    ArgsMismatch = "args_mismatch", 409, 7, Same, "The params are not the ones that were shown" => ReadCall;
    DefinitionMismatch = "definition_mismatch", 409, 7, Same, "The action's definition has changed" => ReadChange;
    PolicyMismatch = "policy_mismatch", 409, 7, Same, "The rules for the action have changed" => ReadCall;
    TupleMismatch = "tuple_mismatch", 409, 7, Same, "The context has changed" => ReadCall;
    Stopped = "stopped", 409, 7, Same, "A kill switch is on" => ListKillSwitches;
    AlreadyApproved = "already_approved", 409, 7, Same, "You have already approved it" => ReadApprovals;
    ApproverTooNew = "approver_too_new", 409, 7, Same, "You could not approve yet when the call was made" => ReadApprovals;
    ApprovalUnproven = "approval_unproven", 409, 7, Same, "The audit log does not prove the approval" => ReadApprovals;
    QuarantineSettled = "quarantine_settled", 409, 7, Same, "The quarantine is already settled" => ListQuarantines;
    GrantEnded = "grant_ended", 409, 7, Same, "The grant is no longer in that state" => ListGrants;
    IdempotencyConflict = "idempotency_conflict", 409, 7, Same, "The key was used with other params" => RenewCallKey;
    IdempotencyInFlight = "idempotency_in_flight", 409, 7, Later, "A call under the same key is running" => ReadOutcome;
    InDoubt = "in_doubt", 409, 10, Check, "The effect may have happened" => ReadOutcome;
    NameTaken = "name_taken", 409, 7, Same, "The name is taken" => ChooseName;
    LastOwner = "last_owner", 409, 7, Same, "An org needs an owner" => AddOwner;
    SecretChanged = "secret_changed", 409, 7, Same, "The secret has another version" => ListSecrets;
    SecretInUse = "secret_in_use", 409, 7, Same, "Something uses the secret" => ReadUsesOfSecret;
    ConnectionInUse = "connection_in_use", 409, 7, Same, "A source uses the connection" => ReleaseConnection;
    PackageInUse = "package_in_use", 409, 7, Same, "A source uses the package" => RemoveUsers;
    SourceTaken = "source_taken", 409, 7, Same, "A source has the name" => ChooseSourceName;
    TooManySources = "too_many_sources", 409, 7, Same, "The org has as many sources as it may have" => RemoveSource;
    SourceChanged = "source_changed", 409, 7, Same, "The source has another version" => ReadSource;
    NoRollback = "no_rollback", 422, 8, Same, "The action has no rollback" => AcceptIrreversible;
    TooManyAutomations = "too_many_automations", 409, 7, Same, "The org has as many automations as it may have" => ArchiveAutomation;
    TooManyDrafts = "too_many_drafts", 409, 7, Same, "You have as many drafts in the space as you may have" => DropDraft;
    AutomationPaused = "automation_paused", 409, 7, Same, "The automation is paused" => ResumeAutomation;
    TriggerDisabled = "trigger_disabled", 409, 7, Same, "The trigger is disabled" => EnableTrigger;
    AutomationArchived = "automation_archived", 409, 7, Same, "The automation is archived" => ExportAutomation;
    RerunRefused = "rerun_refused", 409, 7, Same, "The run cannot be run again from there" => ReadSteps;
    ArtifactQuarantined = "artifact_quarantined", 409, 7, Same, "The artifact is in quarantine" => ReadArtifact;
    MasterKeyChanging = "master_key_changing", 409, 7, Later, "The master key is being replaced" => AwaitMasterKey;
    MasterKeyUnready = "master_key_unready", 409, 7, Same, "The next master key is not ready" => CorrectServers;
    ConnectionNotReady = "connection_not_ready", 409, 7, Same, "The connection needs a login" => LogInConnection, of_the_call;
    ConnectionNotAllowed = "connection_not_allowed", 403, 5, Same, "The connection is not for this call" => ListConnections, of_the_call;
    SlackSignatureInvalid = "slack_signature_invalid", 403, 5, Same, "Slack did not sign the request" => CorrectSlackSecret;
    SlackRequestExpired = "slack_request_expired", 403, 5, Same, "The request of Slack is too old" => CheckClocks;
    SlackRequestReplayed = "slack_request_replayed", 409, 7, Same, "The request of Slack was used already" => PressAgain;
    SlackUserUnknown = "slack_user_unknown", 403, 5, Same, "The user of Slack may not answer here" => NameSlackUser;
    SignInRefused = "sign_in_refused", 403, 5, Same, "You cannot sign in here" => AskForRole;
    LoginFailed = "login_failed", 502, 1, Later, "The login failed" => RestartLogin;
    ConnectionUnreachable = "connection_unreachable", 502, 1, Later, "The address of the connection gave no answer" => CheckAddress;
    Expired = "expired", 410, 6, Same, "It has expired" => ReadCall;
    AutomationChanged = "automation_changed", 412, 7, Same, "The automation has another definition" => ReadAutomation;
    BodyTooLarge = "body_too_large", 413, 8, Same, "The body is too large" => SendLess, of_the_call;
    UnsupportedMediaType = "unsupported_media_type", 415, 8, Same, "The body must be JSON" => SendJson;
    RateLimited = "rate_limited", 429, 1, Later, "Too many invocations in a minute" => Wait;
    TooManyPending = "too_many_pending", 429, 1, Later, "Too many invocations are pending" => AnswerPending;
    TooManyStreams = "too_many_streams", 429, 1, Later, "Too many streams are open" => CloseStreams;
    FileNotFound = "file_not_found", 404, 3, Same, "There is no such file or folder" => ListFiles, of_the_call;
    DocumentNotFound = "document_not_found", 404, 3, Same, "There is no such document" => ListDocuments, of_the_call;
    NotARegularFile = "not_a_regular_file", 422, 8, Same, "The path is not a regular file" => ListFiles, of_the_call;
    NotUtf8 = "not_utf8", 422, 8, Same, "The file is not UTF-8 text", of_the_call;
    FileTooLarge = "file_too_large", 422, 8, Same, "The file is too large", of_the_call;
    PathOutsideWorkspace = "path_outside_workspace", 403, 5, Same, "The path is outside the workspace" => NameWorkspacePath, of_the_call;
    PathNotAllowed = "path_not_allowed", 422, 8, Same, "The path is not in its accepted spelling" => SpellPath, of_the_call;
    HardLinkRefused = "hard_link_refused", 403, 5, Same, "The file has a second name" => CopyFile, of_the_call;
    ContentChanged = "content_changed", 409, 7, Same, "The file is not the expected one" => ReadFile, of_the_call;
    OutsideScope = "outside_scope", 403, 5, Same, "The path is outside the scope of the call" => WidenScope, of_the_call;
    ScopeTooFine = "scope_too_fine", 422, 8, Same, "The scope has too many parts" => CoarsenScope, of_the_call;
    HostNotAllowed = "host_not_allowed", 403, 5, Same, "The host is not allowed" => AddHttpHost, of_the_call;
    AddressNotAllowed = "address_not_allowed", 403, 5, Same, "The address is not public" => AddHttpNetwork, of_the_call;
    UrlNotAllowed = "url_not_allowed", 422, 8, Same, "The URL is not accepted" => SpellUrl, of_the_call;
    HeaderNotAllowed = "header_not_allowed", 422, 8, Same, "A header is not accepted" => DropHeader, of_the_call;
    PackageCodeDisabled = "package_code_disabled", 403, 5, Same, "This server runs no code of packages" => AllowPackageCode, of_the_call;
    PackageNetworkNotAllowed = "package_network_not_allowed", 403, 5, Same, "A host of the package is not allowed" => AddPackageHost, of_the_call;
    PackageCommandNotAllowed = "package_command_not_allowed", 403, 5, Same, "A command of the package is not allowed" => AddPackageCommand, of_the_call;
    PackageChanged = "package_changed", 409, 7, Later, "The package has changed" => CallAgain, of_the_call;
    WorkspaceElsewhere = "workspace_elsewhere", 409, 7, Same, "The effect is in another workspace" => AskOtherServer, of_the_call;
    ActionFailed = "action_failed", 422, 8, Same, "The action answered that it failed" => ReadOutcome;
    Internal = "internal", 500, 1, Check, "Something is wrong on our side";
    SourceFailed = "source_failed", 502, 1, Check, "The source failed" => ReadOutcome;
    SourceUnavailable = "source_unavailable", 502, 1, Later, "The source is not available";
    RulesChanging = "rules_changing", 503, 1, Later, "The rules kept changing" => SendAgain;
    OutcomeUnrecorded = "outcome_unrecorded", 503, 10, Check, "The outcome is not recorded yet" => ReadLater;
    StoreUnavailable = "store_unavailable", 503, 1, Check, "The store is not available" => ReadLog;
}

steps! {
    ReadDescription: Http "the API is described at `GET /api/v1/openapi.json`";
    ReadSchema:
        Http "see `params_schema` of the action: `GET /api/v1/actions/{action}`",
        Cli "see the schema with `countersign action show {action}`",
        Agent "see its schema with `countersign actions list --integration {source} --json`";
    SendSmaller: Any "send smaller params, or a simpler condition";
    NameRelativePaths: Any "name files and folders relative to the workspace, such as `src` or `src/**`";
    UseAllowedCommand: Any "use a command that is allowed, or ask an operator to allow this one";
    SplitBatch: Any "put it last, make it a call of its own, or ask for `best_effort`";
    Explain:
        Http "ask whether the call would be allowed with `POST /api/v1/explain`",
        Cli "see whether it would be allowed with `countersign explain {action} --as SESSION`";
    CorrectDefinition:
        Http "each of `mistakes` says what to try; the form of a definition is at `GET /api/v1/schemas/automation`",
        Cli "each mistake says what to try; check the file with `countersign automation validate -f FILE`";
    AcceptFlags:
        Http "read each of `mistakes`; then save it with their places in `accept`, such as `[\"/plan/0/action\"]`",
        Cli "read each flag with `countersign automation draft show DRAFT`, then save it with `--accept PLACE` for each";
    ReadInputs:
        Http "see what the definition asks for in `inputs`: `GET /api/v1/automations/{automation}`",
        Cli "see what it asks for in `inputs` with `countersign automation export AUTOMATION`";
    RenewRequestKey: Any "use a new key for a new request";
    SendToken: Any "send `authorization: Bearer <token>` with a valid token";
    SignWebhook: Any "sign `id.timestamp.body` with the secret that the webhook names, as Standard Webhooks specifies it";
    AskOperator: Any "ask an operator of the server";
    ReadPermissions:
        Http "see what the token may do with `GET /api/v1/whoami`",
        Cli "see what this token may do with `countersign whoami`, or ask an admin";
    ReadLogin: Any "see who is logged in, then send it again, with the word of `GET /login/word`";
    AskAnotherApprover: Any "another approver has to answer it";
    UseSessionToken: Any "use the token of the session";
    ListMembers:
        Http "see who is one with `GET /api/v1/spaces`, and ask them; an admin can also become one",
        Cli "see who is one with `countersign space member list`, or become one with `countersign space member add`";
    SaveAsPerson:
        Http "a person has to do this; a draft is saved with `POST /api/v1/automation-drafts/{draft}/save`",
        Cli "a person has to do this; a draft is saved with `countersign automation draft save DRAFT`";
    ReadOutcome: Http "read it with `GET /api/v1/invocations/{invocation}`", Cli "countersign explain {invocation}";
    ReadQuarantine:
        Http "an approver looks at it with `GET /api/v1/quarantines/{invocation}`",
        Agent "do not send it again: tell the person you work for";
    ReadPolicySchema:
        Http "see what policies can refer to with `GET /api/v1/policies/schema`",
        Cli "see what policies can refer to with `countersign policy schema`";
    AcceptFindings:
        Http "read each place in its file; then install it with `\"accept_findings\": true`, which says that you did",
        Cli "read each place in its file; then install it with `--accept-findings`, which says that you did";
    ConfirmByName: Http "approve it by itself, with `\"confirm\": \"{action}\"`", Cli "countersign approve {invocation} --confirm {action}";
    ApproveOnce:
        Http "approve this one call with `POST /api/v1/invocations/{invocation}/approve`",
        Cli "approve this one call with `countersign approve {invocation}`",
        Agent "call the action: a person decides about each call of it";
    ListActions:
        Http "list the actions with `GET /api/v1/actions`; an agent lists its own at `actions/available` of its session",
        Cli "list what you may call with `countersign action list`",
        Agent "list what there is for you with `countersign actions list`";
    ListSourceActions:
        Http "list the actions with `GET /api/v1/actions`; an agent lists its own at `actions/available` of its session",
        Cli "list those that were added with `countersign source list`, and all with `countersign action list`",
        Agent "list what there is for you with `countersign actions list`";
    CreateSession:
        Http "create one with `POST /api/v1/sessions`; an agent asks a person to",
        Cli "create one with `countersign session create`";
    ReadCall: Http "read it with `GET /api/v1/invocations/{invocation}`", Cli "see its state with `countersign show {invocation}`";
    ReadProgress:
        Http "read it with `GET /api/v1/invocations/{invocation}`",
        Cli "see whether it is known by now with `countersign show {invocation}`";
    ReadEffect: Http "read it with `GET /api/v1/invocations/{invocation}`", Cli "see what it did with `countersign show {invocation}`";
    ReadRevert: Http "read it with `GET /api/v1/invocations/{invocation}`", Cli "see what reverted it with `countersign show {invocation}`";
    CorrectCause:
        Http "correct the cause and approve it again, or deny it with `POST /api/v1/invocations/{invocation}/deny`",
        Cli "correct that and approve it again, or deny it with `countersign deny {invocation}`";
    ReadChange:
        Http "read it with `GET /api/v1/invocations/{invocation}`",
        Cli "look at it again with `countersign action review {action}`",
        Agent "the action has changed, and a person has to review it first: tell the person you work for";
    ListKillSwitches:
        Http "a person sees which kill switches are on with `GET /api/v1/kill-switches`",
        Cli "see which switches are on with `countersign kill-switch list`";
    ReadApprovals:
        Http "read it with `GET /api/v1/invocations/{invocation}`",
        Cli "see who approved it with `countersign show {invocation}`";
    ListQuarantines: Http "see what is held with `GET /api/v1/quarantines`", Cli "see what is held with `countersign quarantine list`";
    ListGrants: Http "see the grants with `GET /api/v1/grants`", Cli "see them with `countersign grant list`";
    RenewCallKey: Any "use a new key for a new call";
    ChooseName: Any "choose another name";
    AddOwner:
        Http "make someone else an owner first",
        Cli "make someone else an owner first, or another token with `countersign token create`";
    ListSecrets:
        Http "see its version with `GET /api/v1/secrets`, then decide whether to replace it",
        Cli "see who changed it with `countersign secret list`, then decide whether to replace it";
    ReadUsesOfSecret:
        Http "see what uses it with `GET /api/v1/secrets/{secret}/used-by`",
        Cli "see what uses it with `countersign secret used-by {secret}`";
    ReleaseConnection:
        Http "give the sources that `detail` names another connection, or remove them first",
        Cli "see what uses it with `countersign source list`, then change that with `countersign source edit`";
    RemoveUsers:
        Http "remove the sources that `detail` names first",
        Cli "remove the sources that use it first, with `countersign source remove {source}`";
    ChooseSourceName:
        Http "choose another name; see which are taken with `GET /api/v1/actions`",
        Cli "choose another name; `countersign source list` and `countersign package list` show those there are";
    RemoveSource:
        Http "remove one that nobody needs, or an operator raises `max_sources`",
        Cli "remove one with `countersign source remove NAME`, or ask an operator to raise `max_sources`";
    ReadSource:
        Http "read it with `GET /api/v1/sources/{source}`, then decide whether to change it",
        Cli "see who changed it with `countersign source show {source}`, then do it again";
    AcceptIrreversible:
        Http "set R3, which asks a person; or say `\"accept_irreversible\": true`",
        Cli "set R3, which asks a person; or add --accept-irreversible";
    ArchiveAutomation:
        Http "archive those that nobody needs with `POST /api/v1/automations/{automation}/archive`",
        Cli "archive those that nobody needs with `countersign automation archive AUTOMATION`";
    DropDraft:
        Http "drop those that nobody saves with `DELETE /api/v1/automation-drafts/{draft}`, or have a person save them",
        Cli "drop those that nobody saves with `countersign automation draft drop DRAFT`, or have a person save them";
    ResumeAutomation:
        Http "a person resumes it with `POST /api/v1/automations/{automation}/resume`",
        Cli "resume it with `countersign automation resume AUTOMATION`";
    EnableTrigger:
        Http "a person enables it with `POST /api/v1/automations/{automation}/triggers/{trigger}/enable`",
        Cli "enable it with `countersign trigger enable AUTOMATION TRIGGER`";
    ExportAutomation:
        Http "save its definition as a new automation: `GET /api/v1/automations/{automation}/export` has it",
        Cli "save its definition anew: `countersign automation export AUTOMATION > FILE`, then `automation apply -f FILE`";
    ReadSteps:
        Http "see its steps with `GET /api/v1/runs/{run}`, or run all of it again",
        Cli "see its steps with `countersign run show RUN`, or run all of it again";
    ReadArtifact:
        Http "see who put it there with `GET /api/v1/artifacts/{artifact}`",
        Cli "see who put it there with `countersign artifact show ARTIFACT`";
    AwaitMasterKey: Http "see how far it is with `GET /api/v1/keys/master`", Cli "wait until it has ended";
    CorrectServers:
        Http "correct that, for every server on this database, then send it again",
        Cli "correct that, for every server on this database, then try again";
    LogInConnection:
        Http "an admin logs in with `POST /api/v1/connections/{connection}/login`",
        Cli "an admin logs in with `countersign connection login {connection}`";
    ListConnections:
        Http "see what each connection is for with `GET /api/v1/connections`",
        Cli "see what each connection is for with `countersign connection list`";
    CorrectSlackSecret:
        Http "see that the channel's `signing_secret` is that of the app, and that its Request URL names this channel",
        Cli "see that the channel has the signing secret of the app: `countersign channel show NAME`";
    CheckClocks:
        Http "see that the clocks are right, and press the button again",
        Cli "press the button again, if there is still something to answer";
    PressAgain: Any "press the button again, if there is still something to answer";
    NameSlackUser:
        Http "an admin names the person in `users` of the channel, and the person makes the token with `POST /api/v1/tokens`",
        Cli "an admin names the person in the channel, and the person makes the token with `countersign token create`";
    AskForRole:
        Http "ask whoever runs this server which group of the issuer gives a role here, then sign in again",
        Cli "ask whoever runs the server which group of the issuer gives a role, then sign in again";
    RestartLogin:
        Http "correct what `detail` says, then start the login again",
        Cli "correct that, then log in again with `countersign connection login {connection}`";
    CheckAddress:
        Http "see whether the address is right and its server runs: `GET /api/v1/connections` has the address",
        Cli "see whether its server runs; `countersign connection show {connection}` has the address: one with a wrong address is removed and added \
             again";
    ReadAutomation:
        Http "read it with `GET /api/v1/automations/{automation}`, then decide whether to save yours",
        Cli "see how yours differs with `countersign automation diff -f FILE`, then decide whether to apply it";
    SendLess: Any "send less, or send it in parts";
    SendJson: Any "send `content-type: application/json`";
    Wait: Any "wait for `retry_after_ms`, then send it again: nothing was done";
    AnswerPending:
        Http "ask an approver to answer what is pending",
        Cli "see what is pending with `countersign inbox`",
        Agent "wait until people have answered the calls that are pending";
    CloseStreams: Http "close streams that nobody reads, then open it again", Cli "close streams that nobody reads, then do it again";
    ListFiles:
        Http "see what is there: invoke `files.list`",
        Cli "see what is there with `countersign action invoke files.list`",
        Agent "see what is there with `countersign actions run --integration files --action list`";
    ListDocuments:
        Http "see what there is: invoke `documents.search`",
        Cli "see what there is with `countersign action invoke documents.search`",
        Agent "see what there is with `countersign actions run --integration documents --action search`";
    NameWorkspacePath:
        Http "name files relative to the workspace, such as `notes/today.md`; see what is there: invoke `files.list`",
        Cli "name files relative to the workspace, such as `notes/today.md`; see what is there with `countersign action invoke files.list`",
        Agent "name files relative to the workspace, such as `notes/today.md`";
    SpellPath:
        Http "use the spelling that `detail` gives",
        Cli "name files relative to the workspace, such as `notes/today.md`; see what is there with `countersign action invoke files.list`",
        Agent "name files relative to the workspace, such as `notes/today.md`";
    CopyFile: Any "copy the file, then use the copy";
    ReadFile: Any "read the file again, then decide";
    WidenScope: Any "widen `scope`, or use another path";
    CoarsenScope: Any "allow or forbid a whole folder instead of many files";
    AddHttpHost:
        Any "an operator adds the host, with its scheme and port unless they are https and 443, to `allowed_hosts` under `[http]` in \
             `countersign.toml`, or to COUNTERSIGN_HTTP_ALLOWED_HOSTS";
    AddHttpNetwork: Any "an operator may list its network in `http.allowed_networks`";
    SpellUrl: Http "use the spelling that `detail` gives", Cli "correct the URL as the error says";
    DropHeader: Any "leave the header out";
    AllowPackageCode: Any "an operator sets `allow_plugin_code_execution = true`";
    AddPackageHost: Any "an operator adds the host to `package_allowed_hosts`";
    AddPackageCommand: Any "an operator adds a rule to `command_allowlist`";
    CallAgain: Any "make the call again";
    AskOtherServer: Any "send the request to the server that has the workspace";
    SendAgain: Http "send it again: nothing was done", Cli "do it again: nothing was done";
    ReadLater:
        Http "read it with `GET /api/v1/invocations/{invocation}`",
        Cli "read it with `countersign show {invocation}` once the store is back";
    ReadLog: Http "the operator looks at the server's log", Cli "look at `countersign doctor` and the server's log";

    // Those of what a problem is about, in place of the step of its code.
    List: Http "list them with `GET /api/v1/{at}`";
    ListSources:
        Http "list them with `GET /api/v1/sources`",
        Cli "list those that were added with `countersign source list`, and all with `countersign action list`",
        Agent "list what there is for you with `countersign actions list`";
    SetSecret: Cli "list them with `countersign secret list`, or keep it with `countersign secret set {secret} --stdin`";
    Read: Http "read it with `GET /api/v1/{at}`";
    ReadBatch: Http "read it with `GET /api/v1/batches/{batch}`", Cli "read it with `countersign batch show {batch}`";
    ReadReview:
        Http "read it again with `GET /api/v1/reviews/{action}`",
        Cli "look at it again with `countersign action review {action}`",
        Agent "the action has changed, and a person has to review it first: tell the person you work for";
    MakeArtifactLink: Http "make another one with `POST /api/v1/artifacts/{artifact}/link`";
    InvitePerson:
        Http "invite them with `POST /api/v1/users/{user}/invite`",
        Cli "see what this token may do with `countersign whoami`, or ask an admin";
    AllowHost:
        Http "an operator allows it at once: the host, with its scheme and port unless they are https and 443, with `countersign allow host add`, and \
              a network that is not public with `countersign allow network add`; a mail server in `email.allowed_servers` of `countersign.toml`",
        Cli "an operator allows it with `countersign allow host add`, and its network with `countersign allow network add` if that is not public";
    ResumeSource:
        Http "an admin sees which kill switch is on with `GET /api/v1/kill-switches`, and ends it",
        Cli "an admin ends it with `countersign source resume {source}`";
    EndKillSwitch:
        Http "an admin sees which kill switch is on with `GET /api/v1/kill-switches`, and ends it",
        Cli "an admin ends it with `countersign kill-switch off {scope}`";
    ListBreakers:
        Http "a person sees the state of its target with `GET /api/v1/breakers`",
        Cli "see the state of its target with `countersign breaker list`";
    ChangeModeOfRead:
        Http "an admin can change the mode of the action that it would read with",
        Cli "an admin can change the mode of the action it names; see `countersign mode list`";
    RelaxBand:
        Http "an admin can set a less strict band for the space with `PATCH /api/v1/spaces/{space}`",
        Cli "an admin can set a less strict band for the space with `countersign space band`";
    ReviewAction:
        Http "an admin reviews what changed with `POST /api/v1/reviews/{action}`",
        Cli "an admin looks at what changed with `countersign action review {action}`";
    RemoveAutomationMode:
        Http "an admin can remove the mode that the automation has for `{action}`; `GET /api/v1/modes` lists it",
        Cli "an admin can remove the mode: `countersign mode unset {action} --automation ID`; `countersign mode list` names it";
    RemoveMode:
        Http "an admin can remove the mode with `DELETE /api/v1/modes/{action}`",
        Cli "an admin can remove the mode: `countersign mode unset {action}`; see `countersign mode list`";
    SetMode:
        Http "an admin can set the mode `require_approval` with `PUT /api/v1/modes/{action}`",
        Cli "an admin can let a person decide: `countersign mode set {action} require_approval`";
}

/// What an invocation fails with where the call itself is the cause, and the code has no page of its own: the action answered, and would
/// answer the same call so again. The problem then has the code `action_failed`, and this one beside it.
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
        let own = Self::parse(error).filter(|code| code.is_of_the_call());
        own.or_else(|| ANSWERED.contains(&error).then_some(Self::ActionFailed))
    }
}

/// What to do next, for programs: each door has words of its own for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NextStep {
    pub step: Advice,
    /// What it is about, by what that is: `invocation`, `action`, `source`, and so on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(example = json!({ "scope": "source:github" }))]
    pub with: BTreeMap<String, String>,
}

/// What a step is of no use without. Any other mark is left to the door.
const NEEDED: [&str; 8] = ["action", "at", "batch", "invocation", "scope", "space", "things", "user"];

impl NextStep {
    pub fn new(step: Advice) -> Self {
        Self { step, with: BTreeMap::new() }
    }

    #[must_use]
    pub fn with(mut self, what: &str, named: impl ToString) -> Self {
        self.with.insert(what.to_owned(), named.to_string());
        self
    }

    /// What it is about, if that is a plain word: hints are pasted into shells.
    pub fn about(&self, what: &str) -> Option<&str> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:/*@".contains(&byte);
        self.with.get(what).map(String::as_str).filter(|named| !named.is_empty() && named.bytes().all(is_plain))
    }

    /// The step in the words of a door, with what it is about; `None` where the door has none, or something is not known that it needs.
    pub fn said(&self, voice: Voice) -> Option<String> {
        let words = |wanted: Voice| self.step.words().iter().find(|(voice, _)| *voice == wanted).map(|(_, words)| *words);
        let of_cli = || words(Voice::Cli).filter(|_| voice == Voice::Agent);
        let words = words(voice).or_else(of_cli).or_else(|| words(Voice::Any))?;
        let mut said = words.to_owned();
        for mark in marks(words) {
            match self.about(mark) {
                Some(named) => said = said.replace(&format!("{{{mark}}}"), named),
                None if NEEDED.contains(&mark) => return None,
                None => {}
            }
        }
        Some(said)
    }

    /// Whether some words for it need this to be known.
    pub(crate) fn is_about(&self, what: &str) -> bool {
        self.step.words().iter().any(|(_, words)| marks(words).any(|mark| mark == what))
    }
}

/// The names between braces.
fn marks(words: &str) -> impl Iterator<Item = &str> {
    words.split('{').skip(1).filter_map(|rest| rest.split_once('}').map(|(mark, _)| mark))
}
