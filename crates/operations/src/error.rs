//! Why an operation was refused. Each variant has one documented code for every door; the hints are added by the door.

use crate::App;
use api::package::PackageFindingView;
use automation::Mistake;
use countersign_core::grant::GrantState;
use countersign_core::switch::SwitchScope;
use countersign_core::{ActionId, ArtifactId, AutomationId, Digest, DraftId, InvocationId, RunId, SourceId, UserId, json};
use pipeline::{Eyes, ParamError};
use policy::PolicyProblem;
use std::collections::BTreeSet;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Pipeline(#[from] pipeline::Error),
    #[error("{message}")]
    Invalid { message: String, errors: Vec<ParamError> },
    #[error("{message}")]
    ConditionTooCostly { message: String },
    #[error("a name has 1 to 64 letters, digits, spaces, `_`, `-`, `.` or `@`, and no space at its ends")]
    BadName,
    #[error("no action and no policy names the purpose `{purpose}`, so a consent to it would allow nothing")]
    UnknownPurpose { purpose: String, of_policies: BTreeSet<String> },
    #[error("the request changes nothing")]
    NothingToChange { fields: &'static str },
    #[error("only a person {does_what}")]
    NotAPerson { does_what: &'static str },
    #[error("{why}")]
    AboveOwnRole { why: String, ask: &'static str },
    #[error("only an operator does this: an owner of the first org")]
    NotAnOperator,
    /// Who asks shows no token, but something else that an org gave them.
    #[error("the org of this {what} is disabled; nothing was done")]
    OrgDisabled { what: &'static str },
    #[error("the first org cannot be disabled: its owners are the operators")]
    FirstOrg,
    #[error("you cannot change your own role or band")]
    OwnRole,
    #[error("nobody is handed a token that acts as somebody else")]
    OthersToken { user: UserId },
    #[error("the token was revoked")]
    TokenRevoked,
    /// The token that somebody wants to log in with.
    #[error("the token was not accepted")]
    TokenRefused(store::Refused),
    #[error("too many tries to log in came from this address; retrying is safe after {} s", retry_after_ms.div_ceil(1_000))]
    TooManyLogins { retry_after_ms: u64 },
    #[error("the link was not opened in this browser; nothing was answered")]
    LinkUnopened,
    #[error("the link was opened in another browser; nothing was answered")]
    OpenedElsewhere { invocation: InvocationId },
    #[error("an agent asks for grants of its own session or of the org only")]
    OtherSession,
    #[error("there is no such session")]
    UnknownSession,
    #[error("the session belongs to someone else")]
    NotYourSession,
    #[error("there is no {what} `{id}`")]
    NotFound { what: &'static str, id: String },
    /// Something of which there is none now, in a sentence of its own; `listed_at` names the resource that lists those there are.
    #[error("{message}")]
    Absent { message: String, listed_at: &'static str },
    #[error("there is {} {what} named `{name}` already", if what.starts_with(['a', 'e', 'i', 'o']) { "an" } else { "a" })]
    NameTaken { what: &'static str, name: String },
    #[error("{why}")]
    LastOwner { why: &'static str, first: &'static str },
    #[error("secret `{name}` has version {version} now; nothing was changed")]
    SecretChanged { name: String, version: i64 },
    #[error("secret `{name}` is used by {users}; nothing was deleted")]
    SecretInUse { name: String, users: String },
    #[error("connection `{name}` is used by {users}; nothing was removed")]
    ConnectionInUse { name: String, users: String },
    #[error("the master key is being replaced already")]
    MasterKeyChanging,
    #[error("{0}")]
    MasterKeyUnready(String),
    #[error("Slack did not sign this request for this channel; nothing was done")]
    SlackForged,
    #[error("the request was signed too long ago, or ahead of our time; nothing was done")]
    SlackExpired,
    #[error("the request was used already; nothing was done again")]
    SlackReplayed,
    #[error("Slack's user `{user}` may not answer here: the channel must name the person, who must have a token named `{token}`")]
    SlackUserUnknown { user: String, token: String },
    /// Nobody waits for whoever came back: it was never started, was used already, or another one was started since.
    #[error("this login is not open: it was used already, or another one was started; nothing was changed")]
    LoginUnknown,
    /// The issuer let somebody in, and they have no place here.
    #[error("{why}")]
    SignInRefused { why: String },
    /// Whoever reads it is nobody yet, so it says neither what the issuer did nor what the operator has set.
    #[error("{issuer} did not let you in, or what it says cannot be used; the server's log says why")]
    SignInFailed { issuer: String },
    #[error("{error}")]
    Connection { name: String, error: countersign_core::source::Error },
    /// A channel to a host that no operator allows.
    #[error("{message}")]
    ChannelHost { message: String },
    #[error("there is no source `{name}` that somebody added")]
    UnknownSource { name: String },
    #[error("the name `{name}` is taken by another source; nothing was added")]
    SourceTaken { name: String },
    #[error("this org has {sources_max} sources already, which is as many as it may have; nothing was added")]
    TooManySources { sources_max: u32 },
    #[error("{what} is not set to R2: that tier is for what can be rolled back, and no action of an MCP server can; nothing was changed")]
    NoRollback { what: String },
    #[error("source `{name}` has been changed meanwhile; nothing was changed")]
    SourceChanged { name: String },
    #[error("a kill switch on `{scope}` is on (“{reason}”); nothing was asked")]
    Stopped { scope: SwitchScope, reason: String },
    /// A source that could not be asked, or whose settings it cannot have.
    #[error("{}", .0.without_conclusion())]
    Source(countersign_core::source::Error),
    #[error("grant `{grant}` is `{}`; nothing was changed", state.as_str())]
    GrantEnded { grant: String, state: GrantState },
    #[error("`{action}` cannot be granted: an action of tier R4, or R3 of a package, is approved one call at a time")]
    NeverGranted { action: ActionId },
    #[error("{open} requests for grants of this session are pending already; retrying is safe once one is answered")]
    TooManyRequests { open: usize },
    #[error("{streams_max} streams are open already, which is as many as there may be; retrying is safe once one is closed")]
    TooManyStreams { streams_max: usize },
    #[error("`{action}` has changed since it was shown; nothing was reviewed")]
    DefinitionChanged { action: ActionId },
    #[error("package `{name}` was not installed: its findings must be read and accepted first")]
    Findings { name: String, findings: Vec<PackageFindingView> },
    #[error(transparent)]
    Package(#[from] sources::package::Refused),
    #[error("package `{name}` is used by {}; nothing was removed", named("source", sources))]
    PackageInUse { name: String, sources: Vec<SourceId> },
    #[error("this server takes no packages")]
    NoPackages,
    /// A part of the change is made, and the rest failed. Whoever is told that nothing was written would take it for undone.
    #[error("{done}, but what came after it failed; read it before you repeat it")]
    Interrupted { done: String, read_at: String },
    #[error("{} problem{} in the policies; nothing was saved", problems.len(), if problems.len() == 1 { "" } else { "s" })]
    Policies { problems: Vec<PolicyProblem> },
    #[error("{} in the definition; nothing was saved", counted(mistakes.len(), "mistake", "mistakes"))]
    Definition { mistakes: Vec<Mistake> },
    #[error("draft `{draft}` has {}; nothing was saved", counted(flags.len(), "flag to read", "flags to read"))]
    DraftFlags { draft: DraftId, flags: Vec<Mistake> },
    #[error("only a person saves an automation, or changes whether it fires; anybody else makes a draft")]
    SaveNeedsPerson,
    #[error("automation `{automation}` has another definition by now, `{digest}`; nothing was saved")]
    AutomationChanged { automation: AutomationId, digest: Digest },
    #[error("automation `{automation}` has modes or grants of its own for {actions}, given for what it does now; nothing was saved")]
    PermittedBefore { automation: AutomationId, actions: String },
    #[error("this org has {automations_max} automations already, which is as many as it may have; nothing was saved")]
    TooManyAutomations { automations_max: i64 },
    #[error("{drafts_max} drafts in this space are yours already, which is as many as there may be; nothing was kept")]
    TooManyDrafts { drafts_max: i64 },
    #[error("run `{run}` has ended already; nothing was cancelled")]
    RunEnded { run: RunId },
    #[error("the link to artifact `{artifact}` has expired")]
    ArtifactLinkExpired { artifact: ArtifactId },
    #[error("artifact `{artifact}` is in quarantine: nobody gets its bytes")]
    ArtifactQuarantined { artifact: ArtifactId },
    /// The same for an automation that does not exist.
    #[error("no webhook of this automation takes this token; nothing was fired")]
    HookRefused,
    #[error("no webhook of this automation takes this signature, or it was made too long ago; nothing was fired")]
    SignatureInvalid,
    #[error("the body is not JSON we accept: {0}")]
    Json(json::Error),
    #[error(transparent)]
    Run(#[from] runs::Error),
}

fn named(what: &str, ids: &[SourceId]) -> String {
    ids.iter().map(|id| format!("{what} `{id}`")).collect::<Vec<_>>().join(", ")
}

fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

impl Error {
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid { message: message.into(), errors: Vec::new() }
    }

    /// Logs why, and says what is done already and where it can be read.
    pub fn interrupted(why: &dyn std::fmt::Display, done: impl Into<String>, read_at: impl Into<String>) -> Self {
        let (done, read_at) = (done.into(), read_at.into());
        tracing::error!(%why, done, "a change was interrupted");
        Self::Interrupted { done, read_at }
    }

    pub fn not_found(what: &'static str, id: &str) -> Self {
        Self::NotFound { what, id: id.to_owned() }
    }

    pub async fn unknown_action<'a>(app: &App, eyes: impl Into<Eyes<'a>>, action: &str) -> Self {
        Self::Pipeline(app.pipeline().unknown_action(eyes, action).await)
    }
}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        Self::Pipeline(error.into())
    }
}
