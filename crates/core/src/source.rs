//! Where actions come from and where they are performed.

use crate::effect::{Check, Progress, Reconciled, Scope};
use crate::jail::Meter;
use crate::{Action, ActionId, Digest, Future, InvocationId, OrgId, SessionId, SourceId, SpaceId, Timestamp, ledger};
use serde_json::Value;
use std::sync::Arc;

/// Everything a source may know about a call. Secrets, profile and deadline arrive here and nowhere else.
#[derive(Clone, Debug)]
pub struct CallContext {
    pub org: OrgId,
    pub space: SpaceId,
    pub session: SessionId,
    pub invocation: InvocationId,
    /// 1 for the first try.
    pub attempt: u32,
    pub timeout_ms: u64,
    /// What `prepare` answered; written down before the effect.
    pub prepared: Option<Value>,
    /// What the try before did not pass, where this one is to repair it.
    pub failed_checks: Vec<Check>,
    /// Where the caller wants it to act at most. The source refuses what lies outside, besides what it refuses anyway.
    pub scope: Scope,
    /// Whoever wants to hear how far it has come.
    pub progress: Option<Progress>,
    /// Digest of the code that was decided about, where the action has any of its own. Other code is not run.
    pub code: Option<Digest>,
    /// Whether a request whose end nobody saw is to be made once more under the provider's own key. Said when a source is asked to reconcile
    /// for the second time, having answered `ByAskingAgain`, and once the attempt is announced.
    pub may_ask_again: bool,
    /// Where a source that runs code says what that cost.
    pub meter: Meter,
    pub trace_id: String,
}

impl CallContext {
    /// The call itself, as it was asked about before it was made.
    pub const fn asked<'a>(&'a self, action: &'a ActionId, params: Option<&'a Value>) -> Asked<'a> {
        Asked { action, params, scope: &self.scope, code: self.code }
    }
}

/// A call that is not made yet, as far as it must be known to tell whether it could be.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    pub action: &'a ActionId,
    /// What waits has its params sealed.
    pub params: Option<&'a Value>,
    pub scope: &'a Scope,
    /// As in `CallContext`.
    pub code: Option<Digest>,
}

/// What a source answered.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    pub value: Value,
    /// How good the answer is, in thousandths of one; 0 if the source cannot tell. Feeds the reward.
    pub quality_thousandths: u32,
    /// What is needed to undo or check the effect, such as the digest of a kept snapshot. Never the content itself.
    pub evidence: Option<Value>,
}

impl Output {
    pub const fn new(value: Value) -> Self {
        Self { value, quality_thousandths: 0, evidence: None }
    }
}

/// Where actions come from and where they are performed.
///
/// An implementation may hold connections and caches, but keeps nothing of a caller between calls. It never retries, never logs params,
/// and gives up by itself before `context.timeout_ms` where it can. Only `pipeline/execute.rs` asks it for anything but its definitions;
/// a lint holds everyone else to it.
pub trait Source: Send + Sync {
    fn id(&self) -> &SourceId;
    fn title(&self) -> &str;
    /// How to use the source, in markdown, for agents and people; generated from the definitions when there is none.
    fn guide(&self) -> Option<&str>;
    /// Its actions as they are now. Callers keep the answer until `revision` changes or, of a remote source, until it is too old.
    fn list<'a>(&'a self, org: &'a OrgId) -> Future<'a, Result<Vec<Arc<Action>>, Error>>;
    /// A number that changes whenever the answer of `list` has changed, as far as the source knows without asking anybody else. It is
    /// read with every call, so it must be cheap.
    fn revision(&self) -> u64 {
        0
    }
    /// Whether the source is somewhere else: it can be away, and it can change without saying so. Its listing is refreshed every
    /// `LISTING_SECONDS` and kept in the store.
    fn is_remote(&self) -> bool {
        false
    }
    /// What a call acts on, where calls of one action act on different things that fail by themselves: a host, a server.
    fn target(&self, action: &ActionId, params: &Value) -> Option<String> {
        let _ = (action, params);
        None
    }
    /// Whether such a call could be made here as things are set up, asked before anything is done: nobody decides about what cannot run,
    /// and nothing is announced, counted or used up for it. It runs nothing, changes nothing, and looks at nothing the call itself is about;
    /// its params, where they can be read, are judged by their spelling alone.
    fn check<'a>(&'a self, asked: Asked<'a>) -> Future<'a, Result<(), Error>> {
        let _ = asked;
        Box::pin(std::future::ready(Ok(())))
    }
    /// Makes ready what the effect needs and what undoes it, and changes nothing that anybody sees. What it answers is written
    /// down with the intent, before the effect, and handed to `call`, `verify`, `revert` and `reconcile`.
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
    /// Says what `call` would change, and changes nothing. Asked only of actions that declare `Preview::Supported`.
    fn preview<'a>(&'a self, context: &'a CallContext, action: &'a ActionId, params: &'a Value) -> Future<'a, Result<Output, Error>>;
    /// Looks whether the effect is there as it should be, and changes nothing. Asked of actions that declare checks.
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
    /// Takes an effect back, by what was kept before it. Answers only once everything is seen to be as it was; a second time
    /// changes nothing. Asked of reversible actions.
    fn revert<'a>(&'a self, context: &'a CallContext, action: &'a ActionId, evidence: &'a Value) -> Future<'a, Result<Output, Error>> {
        let _ = (context, evidence);
        let message = format!("action `{action}` cannot be taken back");
        Box::pin(std::future::ready(Err(Error::Refused { code: "not_reversible", message })))
    }
    /// Whether an effect could be taken back as things are, asked before a person is: it looks, and changes nothing.
    fn check_revert<'a>(&'a self, context: &'a CallContext, action: &'a ActionId, evidence: &'a Value) -> Future<'a, Result<(), Error>> {
        let _ = (context, action, evidence);
        Box::pin(std::future::ready(Ok(())))
    }
    /// Finds out what became of an effect nobody saw the end of, and leaves it whole: done or not done, never half. What could make it happen
    /// only now waits for `context.may_ask_again`.
    fn reconcile<'a>(&'a self, context: &'a CallContext, action: &'a ActionId, params: &'a Value) -> Future<'a, Result<Reconciled, Error>> {
        let _ = (context, action, params);
        Box::pin(std::future::ready(Ok(Reconciled::Unknown)))
    }
}

/// The sources of one org. A registry answers the same `Arc` until a source is added, removed or replaced, so a change is seen by
/// comparing pointers.
pub type OrgSources = Arc<Vec<Arc<dyn Source>>>;

/// Which sources each org has besides the builtin ones. They come and go while the server runs, and two orgs may each have a source of the
/// same name.
pub trait SourceRegistry: Send + Sync {
    /// The sources of the org now. Asked with every call; what cannot be looked up now is answered as it was last.
    fn sources<'a>(&'a self, org: &'a OrgId) -> Future<'a, OrgSources>;
    /// What an action was when an effect of it was made, by what was kept before that effect. For what has changed since, or is gone;
    /// `None` where nothing of it was kept.
    fn past<'a>(&'a self, org: &'a OrgId, action: &'a ActionId, evidence: &'a Value) -> Future<'a, Option<Past>> {
        let _ = (org, action, evidence);
        Box::pin(std::future::ready(None))
    }
}

/// What a remote source listed last.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptListing {
    pub actions: Vec<Arc<Action>>,
    /// When the source first listed exactly these.
    pub listed_at: Timestamp,
}

/// Keeps the listings of remote sources, for when one cannot be asked.
pub trait Listings: Send + Sync {
    fn find_listing<'a>(&'a self, org: &'a OrgId, source: &'a SourceId) -> Future<'a, Result<Option<KeptListing>, ledger::Error>>;
    /// Replaces what was kept of the source before.
    fn keep_listing<'a>(&'a self, org: &'a OrgId, source: &'a SourceId, listing: KeptListing) -> Future<'a, Result<(), ledger::Error>>;
}

/// An action as it was, with a source that takes effects of then back, finds out what became of them, and does nothing else.
pub struct Past {
    pub source: Arc<dyn Source>,
    pub action: Arc<Action>,
}

/// What may be concluded about the effect after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterError {
    /// Nothing happened.
    NoEffect,
    /// It may have happened: the invocation becomes `in_doubt`, unless it was only a read.
    Unknown,
}

/// Why a source could not do its work. Messages name the thing, never a param's value that could be secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("source `{source_id}` could not be reached: {message}; nothing was sent, retrying is safe")]
    Unreachable { source_id: String, message: String },
    #[error("source `{source_id}` is busy: {message}; nothing was done, retrying is safe")]
    Busy { source_id: String, message: String, retry_after_ms: Option<u64> },
    /// We have too much to do to ask it now. That says nothing about the source.
    #[error("source `{source_id}` was not asked: {message}; nothing was done, retrying is safe")]
    NoTurn { source_id: String, message: String },
    #[error("source `{source_id}` did not answer within {timeout_ms} ms; the effect may have happened")]
    TimedOut { source_id: String, timeout_ms: u64 },
    #[error("the connection to source `{source_id}` broke after the call was sent: {message}; the effect may have happened")]
    Broken { source_id: String, message: String },
    /// The source looked at the call and will not do it: a path outside the workspace, a host that is not allowed.
    #[error("{message}")]
    Refused { code: &'static str, message: String },
    /// The source tried and failed, and knows that nothing was changed.
    #[error("{message}")]
    Failed { code: &'static str, message: String },
    /// Servers that share a database have a workspace each, and see no other; a backup that is restored has a new one.
    #[error(
        "it was done in another workspace than the one this server has: run this at the server that has it, or settle it by hand; \
         nothing was changed"
    )]
    WorkspaceElsewhere,
    #[error("action `{action}` cannot say what it would change")]
    PreviewUnsupported { action: ActionId },
}

impl Error {
    /// The only thing that decides retries. A timeout is not transient: it makes the invocation `in_doubt`.
    pub const fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Busy { .. } | Self::NoTurn { .. } => true,
            Self::TimedOut { .. }
            | Self::Broken { .. }
            | Self::Refused { .. }
            | Self::Failed { .. }
            | Self::WorkspaceElsewhere
            | Self::PreviewUnsupported { .. } => false,
        }
    }

    /// What happened, without what may be concluded about the effect: for when it is known that there was none.
    pub fn without_conclusion(&self) -> String {
        let text = self.to_string();
        text.strip_suffix("; the effect may have happened").map_or_else(|| text.clone(), str::to_owned)
    }

    /// Why we had no turn to ask it, where that is all. What was done before is left to who knows it.
    pub fn why_no_turn(&self) -> Option<&str> {
        match self {
            Self::NoTurn { message, .. } => Some(message),
            Self::Unreachable { .. }
            | Self::Busy { .. }
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
            Self::Refused { code, .. } | Self::Failed { code, .. } => code,
            Self::WorkspaceElsewhere => "workspace_elsewhere",
            Self::PreviewUnsupported { .. } => "dry_run_unsupported",
        }
    }
}
