//! The port to sources: they define actions and perform them.

use crate::effect::{Check, Progress, Scope};
use crate::jail::Meter;
use crate::limits::LIST_TIMEOUT_MS;
use crate::retry::FailureCause;
use crate::{Action, ActionId, ConnectionId, Digest, Future, InvocationId, OrgId, SessionId, SourceId, SpaceId, Timestamp, ledger};
use serde_json::Value;
use std::borrow::Cow;
use std::sync::Arc;

/// The names of the sources that come with the server. Nothing else is called so, and whoever may invoke holds every permission that begins with
/// one of them.
pub const BUILTIN_SOURCES: [&str; 6] = ["files", "documents", "http", "notify", "email", "builtin"];

/// Everything that a source may know about a call. Secrets, profile and deadline reach it only here.
#[derive(Clone, Debug)]
pub struct CallContext {
    pub org: OrgId,
    pub space: SpaceId,
    /// Whether the call works in a workspace of its space, and not in the one that spaces share. See `Invocation`.
    pub has_own_workspace: bool,
    pub session: SessionId,
    pub invocation: InvocationId,
    /// Whether the call only reads, so that a request of it may be sent again.
    pub is_read: bool,
    /// 1 for the first attempt.
    pub attempt: u32,
    pub timeout_ms: u64,
    /// What `prepare` returned; stored before the effect.
    pub prepared: Option<Value>,
    /// The checks that the attempt before failed, if this attempt is a repair.
    pub failed_checks: Vec<Check>,
    /// The caller's scope. The source refuses everything outside it, in addition to what it refuses anyway.
    pub scope: Scope,
    /// Where to report progress, if it is wanted.
    pub progress: Option<Progress>,
    /// Digest of the package code that the decision was about, if the action has code of its own. Other code is not run.
    pub code: Option<Digest>,
    /// Whether the source may send a request with an unknown outcome again, under the provider's own key. Set when a source is asked to
    /// reconcile for the second time, after it answered `ByAskingAgain` and after the intent of that attempt was written.
    pub may_ask_again: bool,
    /// Where a source that runs code reports the cost.
    pub meter: Meter,
    pub trace_id: String,
    /// The automations that led to the call, signed. It goes with requests to others, so that a loop through them is noticed.
    pub chain: Option<String>,
}

impl CallContext {
    /// The facts of this call that `check` needs.
    pub const fn asked<'a>(&'a self, action: &'a ActionId, params: Option<&'a Value>) -> Asked<'a> {
        Asked { action, params, scope: &self.scope, code: self.code }
    }
}

/// A call that has not been made yet, with the facts needed to tell whether it could be made.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    pub action: &'a ActionId,
    /// `None` for a pending call, whose params are sealed.
    pub params: Option<&'a Value>,
    pub scope: &'a Scope,
    /// As in `CallContext`.
    pub code: Option<Digest>,
}

/// What a source answered.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    pub value: Value,
    /// How good the answer is, in thousandths; 0 if the source cannot tell. It is part of the reward.
    pub quality_thousandths: u32,
    /// What is needed to revert or check the effect, such as the digest of a kept snapshot. Never the content itself.
    pub evidence: Option<Value>,
}

impl Output {
    pub const fn new(value: Value) -> Self {
        Self { value, quality_thousandths: 0, evidence: None }
    }
}

/// As whom the requests of a call are sent. An approval is bound to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SentAs {
    /// With the login of this connection.
    Connection(ConnectionId),
    /// As an operator has set it, in words and without a secret.
    Setting(String),
}

impl SentAs {
    pub const fn connection(&self) -> Option<&ConnectionId> {
        match self {
            Self::Connection(connection) => Some(connection),
            Self::Setting(_) => None,
        }
    }
}

/// A source: it defines actions and performs them.
///
/// An implementation may hold connections and caches, but keeps nothing of a caller between calls. It never retries, never logs params,
/// and gives up by itself before `context.timeout_ms` if it can. Only `pipeline/src/walk/ask.rs` may call anything but its definitions;
/// a lint enforces that.
pub trait Source: Send + Sync {
    fn id(&self) -> &SourceId;
    fn title(&self) -> &str;
    /// How to use the source, in markdown, for agents and people; generated from the definitions if there is none. It belongs to the answer
    /// that `list` gave last.
    fn guide(&self) -> Option<Cow<'_, str>>;
    /// Its current actions. Callers keep the answer until `revision` changes or, for a remote source, until it is too old.
    fn list<'a>(&'a self, org: &'a OrgId) -> Future<'a, Result<Vec<Arc<Action>>, Error>>;
    /// A number that changes whenever the answer of `list` has changed, as far as the source knows without asking anyone else. It is read
    /// for every call, so it must be cheap.
    fn revision(&self) -> u64 {
        0
    }
    /// Whether the source runs outside this server: it can be unreachable, and it can change without notice. Its listing is refreshed every
    /// `LISTING_SECONDS` and kept in the store.
    fn is_remote(&self) -> bool {
        false
    }
    /// How long `list` may take, the start of the source included.
    fn list_limit_ms(&self) -> u64 {
        LIST_TIMEOUT_MS
    }
    /// Whether it comes with the server. A source that takes the name of a builtin action is the suspicious one of the two.
    fn is_builtin(&self) -> bool {
        false
    }
    /// The connection whose credential its requests carry, if it is the same for every call. Invocations and receipts name it.
    fn connection(&self) -> Option<&ConnectionId> {
        None
    }
    /// As whom the requests of a call in this space are sent now, if as anybody. It is asked for every call; a source that chooses by the space
    /// answers itself.
    fn sent_as<'a>(&'a self, org: &'a OrgId, space: &'a SpaceId) -> Future<'a, Result<Option<SentAs>, Error>> {
        let _ = (org, space);
        Box::pin(std::future::ready(Ok(self.connection().cloned().map(SentAs::Connection))))
    }
    /// Whether calls of this space may use it. In any other space it does not exist.
    fn is_for(&self, space: &SpaceId) -> bool {
        let _ = space;
        true
    }
    /// Whether an action that nobody has reviewed needs an approval for every call, whatever its tier. So it is for a source whose actions
    /// come and go without anybody here: its first actions are reviewed when it is added.
    fn needs_review(&self) -> bool {
        false
    }
    /// The target of a call, such as a host, if calls of one action can have different targets that fail independently.
    fn target(&self, action: &ActionId, params: &Value) -> Option<String> {
        let _ = (action, params);
        None
    }
    /// Whether such a call could be made here with the current setup. It is asked before a person is asked, before the intent and before a
    /// grant is used. It runs nothing, changes nothing, and reads nothing that the call is about; the params, if there are any, are judged
    /// only by their form.
    fn check<'a>(&'a self, asked: Asked<'a>) -> Future<'a, Result<(), Error>> {
        let _ = asked;
        Box::pin(std::future::ready(Ok(())))
    }
    /// Prepares the effect and its rollback, and makes no visible change. The returned value is stored with the intent, before the effect,
    /// and passed to `call`, `verify`, `revert` and `reconcile`.
    fn prepare<'a>(
        &'a self,
        context: &'a CallContext,
        action: &'a ActionId,
        params: &'a Value,
    ) -> Future<'a, Result<Option<Value>, Error>> {
        let _ = (context, action, params);
        Box::pin(std::future::ready(Ok(None)))
    }
    /// Performs the action: the effect happens here.
    fn call<'a>(&'a self, context: &'a CallContext, action: &'a ActionId, params: &'a Value) -> Future<'a, Result<Output, Error>>;
    /// Reports what `call` would change, and changes nothing. Called only for actions that declare `Preview::Supported`.
    fn preview<'a>(&'a self, context: &'a CallContext, action: &'a ActionId, params: &'a Value) -> Future<'a, Result<Output, Error>> {
        let _ = (context, params);
        Box::pin(std::future::ready(Err(Error::PreviewUnsupported { action: action.clone() })))
    }
    /// Checks that the effect is there as it should be, and changes nothing. Called for actions that declare checks.
    fn verify<'a>(
        &'a self,
        context: &'a CallContext,
        action: &'a ActionId,
        params: &'a Value,
        output: &'a Output,
    ) -> Future<'a, Result<Vec<Check>, Error>> {
        let _ = (context, action, params, output);
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
    /// Reverts an effect from the evidence stored before it. It succeeds only once it has confirmed that everything is as before; a second
    /// call changes nothing. Called for reversible actions.
    fn revert<'a>(&'a self, context: &'a CallContext, action: &'a ActionId, evidence: &'a Value) -> Future<'a, Result<Output, Error>> {
        let _ = (context, evidence);
        let message = format!("the effect of `{action}` cannot be reverted");
        Box::pin(std::future::ready(Err(Error::Refused { code: "not_reversible", message })))
    }
    /// Whether an effect could be reverted now. It is asked before a person is asked, and changes nothing.
    fn check_revert<'a>(&'a self, context: &'a CallContext, action: &'a ActionId, evidence: &'a Value) -> Future<'a, Result<(), Error>> {
        let _ = (context, action, evidence);
        Box::pin(std::future::ready(Ok(())))
    }
    /// Finds out what became of an effect whose outcome is unknown, and leaves it complete: done or not done, never half. A step that could
    /// make the effect happen only now must wait for `context.may_ask_again`.
    fn reconcile<'a>(&'a self, context: &'a CallContext, action: &'a ActionId, params: &'a Value) -> Future<'a, Result<Reconciled, Error>> {
        let _ = (context, action, params);
        Box::pin(std::future::ready(Ok(Reconciled::Unknown)))
    }
}

/// The answer to what became of an effect whose outcome is unknown.
#[derive(Clone, Debug, PartialEq)]
pub enum Reconciled {
    Happened(Output),
    /// The effect did not happen, and nothing of it is left. It cannot happen later either: whoever ran the call may only have lost touch. A
    /// source that cannot prevent this, because its request may still be on its way to others, says `Unknown`.
    DidNot,
    /// Only the provider can tell, by getting the same request again under a key it knows. If it has no such effect yet, it makes the
    /// effect then. So this needs an intent first.
    ByAskingAgain,
    /// The source cannot tell; a person has to settle it.
    Unknown,
}

/// The sources of one org. A registry returns the same `Arc` until a source is added, removed or replaced, so a change is seen by comparing
/// pointers.
pub type OrgSources = Arc<Vec<Arc<dyn Source>>>;

/// The sources that each org has in addition to the builtin ones. They may change while the server runs, and two orgs may each have a
/// source of the same name.
pub trait SourceRegistry: Send + Sync {
    /// The current sources of the org. Called for every call; if the look-up fails, it returns the last known sources.
    fn sources<'a>(&'a self, org: &'a OrgId) -> Future<'a, OrgSources>;
    /// The action as it was when an effect was made, found by the evidence stored before that effect. For an action that has changed or
    /// gone since; `None` if its old definition was not kept.
    fn past<'a>(&'a self, org: &'a OrgId, action: &'a ActionId, evidence: &'a Value) -> Future<'a, Option<Past>> {
        let _ = (org, action, evidence);
        Box::pin(std::future::ready(None))
    }
}

/// The last listing of a remote source.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptListing {
    pub actions: Vec<Arc<Action>>,
    /// When the source listed exactly these actions; it may have listed them again up to `LISTING_KEPT_SECONDS` later.
    pub listed_at: Timestamp,
}

/// Stores the listings of remote sources, for the time when a source cannot be asked.
pub trait Listings: Send + Sync {
    fn find_listing<'a>(&'a self, org: &'a OrgId, source: &'a SourceId) -> Future<'a, Result<Option<KeptListing>, ledger::Error>>;
    /// Replaces the stored listing of the source.
    fn keep_listing<'a>(&'a self, org: &'a OrgId, source: &'a SourceId, listing: KeptListing) -> Future<'a, Result<(), ledger::Error>>;
    /// Notes, and tells once, that the source began to fail to list its actions with this error, or that it lists them again (`None`).
    fn note_listing<'a>(&'a self, org: &'a OrgId, source: &'a SourceId, failed: Option<&'a Error>)
    -> Future<'a, Result<(), ledger::Error>>;
}

/// An action as it was, with a source that can only revert and reconcile effects from that time.
pub struct Past {
    pub source: Arc<dyn Source>,
    pub action: Arc<Action>,
}

/// What an error says about the effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterError {
    /// There was no effect.
    NoEffect,
    /// The effect may have happened: the invocation becomes `in_doubt`, unless it is a read.
    Unknown,
}

impl AfterError {
    const fn in_words(self) -> &'static str {
        match self {
            Self::NoEffect => "nothing outside it was changed",
            Self::Unknown => "the effect may have happened",
        }
    }
}

/// Why a source could not do its work. A message names the thing, never the value of a param, which could be secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("source `{source_id}` could not be reached: {message}; nothing was sent, retrying is safe")]
    Unreachable { source_id: String, message: String },
    #[error("source `{source_id}` is busy: {message}; nothing was done, retrying is safe")]
    Busy { source_id: String, message: String, retry_after_ms: Option<u64> },
    /// We are too busy to ask the source now. This says nothing about the source.
    #[error("source `{source_id}` was not asked: {message}; nothing was done, retrying is safe")]
    NoTurn { source_id: String, message: String },
    #[error("{}; {}", not_answered(source_id, *timeout_ms), AfterError::Unknown.in_words())]
    TimedOut { source_id: String, timeout_ms: u64 },
    #[error("{}; {}", broken(source_id, message), AfterError::Unknown.in_words())]
    Broken { source_id: String, message: String },
    /// The source answered that the call failed. What it did until then is not known.
    #[error("{}; {}", reported(source_id, message), after.in_words())]
    Reported {
        source_id: String,
        message: String,
        /// Whether the same call might be answered otherwise a moment later: `Passing` or `Final`.
        cause: FailureCause,
        /// Its whole answer. It is to be scanned and redacted like a result.
        content: Box<Value>,
        /// `NoEffect` of a source that can change nothing outside itself.
        after: AfterError,
    },
    /// The source refuses the call, for example because of a path outside the workspace or a host that is not allowed.
    #[error("{message}")]
    Refused { code: &'static str, message: String },
    /// The source tried and failed, and knows that nothing was changed.
    #[error("{message}")]
    Failed { code: &'static str, message: String },
    /// Servers that share a database each have a workspace of their own, and a restored backup gets a new one.
    #[error(
        "it was done in another workspace than the one this server has: run this at the server that has it, or settle it by hand; \
         nothing was changed"
    )]
    WorkspaceElsewhere,
    #[error("action `{action}` cannot say what it would change")]
    PreviewUnsupported { action: ActionId },
}

impl Error {
    /// What is known of the call, as far as making it again goes: see `FailureCause::permits_another`.
    pub fn cause(&self) -> FailureCause {
        match self {
            Self::Unreachable { .. } | Self::Busy { .. } | Self::NoTurn { .. } => FailureCause::NotDone,
            Self::TimedOut { .. } | Self::Broken { .. } => FailureCause::Unknown,
            Self::Reported { cause, .. } => *cause,
            Self::Refused { code, .. } | Self::Failed { code, .. } => cause_of(code),
            Self::WorkspaceElsewhere | Self::PreviewUnsupported { .. } => FailureCause::Final,
        }
    }

    /// Whether the source never took the call up: it was not reached, not asked, or had no time.
    pub const fn was_not_taken_up(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Busy { .. } | Self::NoTurn { .. } => true,
            Self::TimedOut { .. }
            | Self::Broken { .. }
            | Self::Reported { .. }
            | Self::Refused { .. }
            | Self::Failed { .. }
            | Self::WorkspaceElsewhere
            | Self::PreviewUnsupported { .. } => false,
        }
    }

    /// How long the source asked to be left alone.
    pub const fn retry_after_ms(&self) -> Option<u64> {
        match self {
            Self::Busy { retry_after_ms, .. } => *retry_after_ms,
            Self::Unreachable { .. }
            | Self::NoTurn { .. }
            | Self::TimedOut { .. }
            | Self::Broken { .. }
            | Self::Reported { .. }
            | Self::Refused { .. }
            | Self::Failed { .. }
            | Self::WorkspaceElsewhere
            | Self::PreviewUnsupported { .. } => None,
        }
    }

    /// The message without its remark about the effect, for when it is known that there was none.
    pub fn without_conclusion(&self) -> String {
        match self {
            Self::TimedOut { source_id, timeout_ms } => not_answered(source_id, *timeout_ms),
            Self::Broken { source_id, message } => broken(source_id, message),
            Self::Reported { source_id, message, after: AfterError::Unknown, .. } => reported(source_id, message),
            Self::Reported { after: AfterError::NoEffect, .. }
            | Self::Unreachable { .. }
            | Self::Busy { .. }
            | Self::NoTurn { .. }
            | Self::Refused { .. }
            | Self::Failed { .. }
            | Self::WorkspaceElsewhere
            | Self::PreviewUnsupported { .. } => self.to_string(),
        }
    }

    /// Why there was no turn to ask the source, if that is the error. It says nothing about earlier attempts.
    pub fn why_no_turn(&self) -> Option<&str> {
        match self {
            Self::NoTurn { message, .. } => Some(message),
            Self::Unreachable { .. }
            | Self::Busy { .. }
            | Self::TimedOut { .. }
            | Self::Broken { .. }
            | Self::Reported { .. }
            | Self::Refused { .. }
            | Self::Failed { .. }
            | Self::WorkspaceElsewhere
            | Self::PreviewUnsupported { .. } => None,
        }
    }

    /// What the source answered, if it answered that the call failed.
    pub fn reported(&self) -> Option<&Value> {
        match self {
            Self::Reported { content, .. } => Some(content),
            Self::Unreachable { .. }
            | Self::Busy { .. }
            | Self::NoTurn { .. }
            | Self::TimedOut { .. }
            | Self::Broken { .. }
            | Self::Refused { .. }
            | Self::Failed { .. }
            | Self::WorkspaceElsewhere
            | Self::PreviewUnsupported { .. } => None,
        }
    }

    pub const fn after(&self) -> AfterError {
        match self {
            Self::TimedOut { .. } | Self::Broken { .. } => AfterError::Unknown,
            Self::Reported { after, .. } => *after,
            Self::Unreachable { .. }
            | Self::Busy { .. }
            | Self::NoTurn { .. }
            | Self::Refused { .. }
            | Self::Failed { .. }
            | Self::WorkspaceElsewhere
            | Self::PreviewUnsupported { .. } => AfterError::NoEffect,
        }
    }

    /// The stable code that reaches the receipt and the caller.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } => "source_unreachable",
            Self::Busy { .. } | Self::NoTurn { .. } => "source_busy",
            Self::TimedOut { .. } => "source_timed_out",
            Self::Broken { .. } => "source_broke",
            Self::Reported { .. } => "source_reported_error",
            Self::Refused { code, .. } | Self::Failed { code, .. } => code,
            Self::WorkspaceElsewhere => "workspace_elsewhere",
            Self::PreviewUnsupported { .. } => "dry_run_unsupported",
        }
    }
}

fn not_answered(source: &str, timeout_ms: u64) -> String {
    format!("source `{source}` did not answer within {timeout_ms} ms")
}

fn broken(source: &str, message: &str) -> String {
    format!("the connection to source `{source}` broke after the call was sent: {message}")
}

fn reported(source: &str, message: &str) -> String {
    format!("source `{source}` reported an error: {message}")
}

/// Whether a failure with this code was a time-out, of a source or of a package's code.
pub fn is_time_out(code: &str) -> bool {
    matches!(code, "source_timed_out" | "package_timed_out")
}

/// The codes for a host that answered a `GET` with a status that may pass: too many requests, or it or what is behind it cannot answer now.
const UNAVAILABLE: [(u16, &str); 4] = [(429, "http_429"), (502, "http_502"), (503, "http_503"), (504, "http_504")];

/// The code for an HTTP status that may pass; `None` for one that is an answer.
pub fn unavailable(status: u16) -> Option<&'static str> {
    UNAVAILABLE.iter().find(|(known, _)| *known == status).map(|(_, code)| *code)
}

/// Whether this is the code of a host that could not answer.
pub fn is_unavailable(code: &str) -> bool {
    UNAVAILABLE.iter().any(|(_, known)| *known == code)
}

/// The cause of an error that left no effect, by its code.
fn cause_of(code: &str) -> FailureCause {
    match code {
        // An open breaker let nothing through. What took too long or broke off, and is known to have left nothing, was being prepared or
        // was looked for afterwards.
        "breaker_open" | "source_timed_out" | "source_broke" => FailureCause::NotDone,
        // Code of a package that did not end well. One that reaches a limit of memory or output reaches it again.
        "package_failed" | "package_killed" | "package_timed_out" | "package_lost" => FailureCause::Passing,
        code if is_unavailable(code) => FailureCause::Passing,
        _ => FailureCause::Final,
    }
}
