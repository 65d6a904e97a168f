//! An MCP server as a source. It has one connection, which is opened when it is first needed and again after it failed.

use super::call;
use super::connection::{Connection, Lifecycle, Startable, Until, Upstream};
use super::http::Credentials;
use super::last_words::LastWords;
use super::listing::{self, Listed};
use super::program::Reach;
use super::readable::Readable;
use super::tier::Tiers;
use super::told::{Hearer, Told};
use super::tool::Common;
use super::wire::Wire;
use crate::limits::MCP_PROGRAM_STARTS_PER_CORE;
use crate::web::{Allowed, Exchange, HostList, HostRule};
use crate::words::{failed, patience, refused};
use countersign_core::action::{Effect, Profile};
use countersign_core::limits::{CALL_TIMEOUT_MS, LIST_TIMEOUT_MS_MAX};
use countersign_core::ports::events::SOURCE_TOOLS_CHANGED;
use countersign_core::resident::Residents;
use countersign_core::source::{AfterError, Asked, CallContext, Error, Output, Reconciled, Source};
use countersign_core::{Action, ActionId, ConnectionId, Digest, Future, OrgId, SourceId, SpaceId};
use ipnet::IpNet;
use parking_lot::{Mutex, RwLock};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;
use tokio::time::timeout_at;
use url::Url;

/// Everything that a source of this kind is made of.
pub struct McpConfig {
    pub id: SourceId,
    pub title: String,
    pub server: Server,
    /// The connection that `credentials` are of, for receipts.
    pub connection: Option<ConnectionId>,
    /// Digest of where the server is and which connection it has, for definitions.
    pub server_sha256: Option<Digest>,
    /// The spaces whose calls may use it; absent: all.
    pub spaces: Option<BTreeSet<SpaceId>>,
    pub tiers: Tiers,
    /// How long it may take to list its tools, up to `LIST_TIMEOUT_MS_MAX`.
    pub list_timeout_ms: u64,
    /// How long a call may take, up to `CALL_TIMEOUT_MS`.
    pub call_timeout_ms: u64,
    /// Hears what the server tells; absent if nobody listens.
    pub hearer: Option<Hearer>,
}

/// Where the server is.
pub enum Server {
    /// Elsewhere, over streamable HTTP.
    Http {
        url: String,
        /// The hosts that MCP servers may be on, and networks that are not public and may be reached all the same.
        allowed_hosts: Vec<HostRule>,
        allowed_networks: Vec<IpNet>,
        credentials: Option<Arc<dyn Credentials>>,
    },
    /// A program in the jail.
    Program {
        residents: Arc<dyn Residents>,
        program: Arc<dyn Startable>,
        /// Digest of the package that it comes from. Absent for a command of the operator.
        package: Option<Digest>,
        reach: Reach,
    },
    /// It cannot be set up. Every request gets this error.
    Nowhere { why: Error },
}

/// What is known of a server.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    /// The revision of MCP that it speaks.
    pub version: String,
    pub listed: Listed,
}

pub struct McpSource {
    id: SourceId,
    title: String,
    /// The connection to the org's account over there. The one below is to the server.
    account: Option<ConnectionId>,
    spaces: Option<BTreeSet<SpaceId>>,
    common: Common,
    upstream: Arc<Upstream>,
    /// Whether it can change nothing outside itself: a program without hosts and without a folder that is kept.
    is_closed: bool,
    list_timeout_ms: u64,
    connection: Arc<tokio::sync::Mutex<Option<Arc<Connection>>>>,
    /// A program that is being started. That goes on when the caller who wanted it waits no longer.
    opening: Mutex<Option<AbortHandle>>,
    /// The traffic of the latest connection.
    wire: Mutex<Option<Arc<Wire>>>,
    /// Whether the server wanted `initialize` when it was last connected to.
    wants_initialize: Arc<AtomicBool>,
    known: RwLock<Option<Known>>,
    /// Whether the server wants params of some tools in headers. A new connection learns which by listing the tools.
    wants_header_params: AtomicBool,
    changes: Arc<Changes>,
    hearer: Option<Hearer>,
}

/// Programs that start at once. After a restart of the server every program starts, and each is the slower the more of them do.
static STARTS: LazyLock<Semaphore> = LazyLock::new(|| {
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    Semaphore::new(processors.saturating_mul(MCP_PROGRAM_STARTS_PER_CORE))
});

/// Counts how often the server said that its tools changed.
#[derive(Default)]
struct Changes {
    revision: AtomicU64,
    /// The revision that was listed last. Until then, a further change is the same change.
    listed: AtomicU64,
}

impl Changes {
    fn heard(&self) {
        let listed = self.listed.load(Ordering::Acquire);
        let _ = self.revision.compare_exchange(listed, listed + 1, Ordering::AcqRel, Ordering::Relaxed);
    }
}

impl McpSource {
    /// A source that cannot be set up is one all the same: every request to it says why.
    pub fn new(config: McpConfig) -> Self {
        let McpConfig { id, title, server, connection: account, server_sha256, spaces, tiers, list_timeout_ms, call_timeout_ms, hearer } =
            config;
        let is_closed = matches!(&server, Server::Program { reach, .. } if reach.hosts.is_empty() && !reach.folder);
        let (upstream, profile, hosts, code, effects) = match server {
            Server::Http { url, allowed_hosts, allowed_networks, credentials } => {
                let hosts = HostList { rules: allowed_hosts, setting: "source_allowed_hosts", who: "an operator" };
                let allowed = Arc::new(Allowed::new(hosts, allowed_networks, "source_allowed_networks"));
                let set_up = host_of(&url).and_then(|host| Ok((host, Arc::new(Exchange::new(id.as_str(), &allowed)?))));
                let (upstream, hosts) = match set_up {
                    Ok((host, exchange)) => (Upstream::Http { exchange, allowed, url, credentials }, vec![host]),
                    Err(error) => (Upstream::Nowhere { why: not_set_up(&id, &error) }, Vec::new()),
                };
                (upstream, Profile::InProcess, hosts, None, vec![Effect::NetworkCall])
            }
            Server::Program { residents, program, package, reach } => {
                let network = (!reach.hosts.is_empty()).then_some(Effect::NetworkCall);
                let effects = network.into_iter().chain(reach.workspace.then_some(Effect::FilesystemRead)).collect();
                let hosts: Vec<_> = reach.hosts.iter().map(ToString::to_string).collect();
                (Upstream::Program { residents, program, hosts: hosts.clone() }, Profile::Resident, hosts, package, effects)
            }
            Server::Nowhere { why } => (Upstream::Nowhere { why }, Profile::InProcess, Vec::new(), None, Vec::new()),
        };
        let timeout_ms = call_timeout_ms.clamp(1, CALL_TIMEOUT_MS);
        Self {
            common: Common { source: id.clone(), tiers, timeout_ms, profile, hosts, effects, server_sha256, code },
            id,
            title,
            account,
            spaces,
            upstream: Arc::new(upstream),
            is_closed,
            list_timeout_ms: list_timeout_ms.clamp(1, LIST_TIMEOUT_MS_MAX),
            connection: Arc::default(),
            opening: Mutex::default(),
            wire: Mutex::default(),
            wants_initialize: Arc::default(),
            known: RwLock::default(),
            wants_header_params: AtomicBool::new(false),
            changes: Arc::default(),
            hearer,
        }
    }

    /// What the server offered when it was last listed, with the tools that were left out.
    pub fn known(&self) -> Option<Known> {
        self.known.read().clone()
    }

    /// Digest of the package whose code it runs. Other code makes another source.
    pub const fn code(&self) -> Option<Digest> {
        self.common.code
    }

    /// Gives the connection up: it ends, with its program, when the last request under way has its answer. The next request opens a new one.
    pub async fn disconnect(&self) {
        if let Some(opening) = self.opening.lock().take() {
            opening.abort();
        }
        self.connection.lock().await.take();
    }

    /// What its program said last, and how it ended; `None` before it was first started, and for a server that is no program.
    pub fn last_words(&self) -> Option<LastWords> {
        self.wire.lock().as_ref()?.last_words()
    }

    /// The open connection, or a new one. One caller at a time opens it; the others wait for that one. A program whose secrets were replaced
    /// is given up, too: it has read its environment.
    async fn connected(&self, until: Until) -> Result<Arc<Connection>, Error> {
        let patience = self.upstream.patience();
        let unopened = || {
            let message = match patience {
                None => "another call is still opening its connection".to_owned(),
                Some(patience) => format!("its program is still starting, which may take {} s from its turn on", patience.as_secs()),
            };
            Error::NoTurn { source_id: self.id.to_string(), message }
        };
        let versions = timeout_at(until.at, self.upstream.versions()).await.map_err(|_| unopened())??;
        let locked = timeout_at(until.at, Arc::clone(&self.connection).lock_owned()).await;
        let mut connection = locked.map_err(|_| unopened())?;
        if let Some(open) = connection.as_ref().filter(|open| !open.is_closed() && open.has(&versions)) {
            return Ok(Arc::clone(open));
        }
        *connection = None;
        let (changes, hearer) = (Arc::clone(&self.changes), self.hearer.clone());
        let wire = Wire::new(self.id.as_str(), move |told: Told| {
            if told.event == SOURCE_TOOLS_CHANGED {
                changes.heard();
            }
            if let Some(hearer) = &hearer {
                hearer(told);
            }
        });
        *self.wire.lock() = Some(Arc::clone(&wire));
        let (upstream, wants_initialize) = (Arc::clone(&self.upstream), Arc::clone(&self.wants_initialize));
        let open = async move {
            upstream.prepare().await?;
            let _turn = match patience {
                Some(_) => STARTS.acquire().await.ok(),
                None => None,
            };
            let until = patience.map_or(until, |patience| Until::after(patience, u64::try_from(patience.as_millis()).unwrap_or(u64::MAX)));
            let lifecycle = if wants_initialize.swap(false, Ordering::Relaxed) { Lifecycle::Initialize } else { Lifecycle::Auto };
            let open = Arc::new(Connection::open(&upstream, wire, lifecycle, until).await?);
            wants_initialize.store(!open.is_modern(), Ordering::Relaxed);
            *connection = Some(Arc::clone(&open));
            Ok::<_, Error>(open)
        };
        if patience.is_none() {
            return open.await;
        }
        let opening = tokio::spawn(open);
        *self.opening.lock() = Some(opening.abort_handle());
        match timeout_at(until.at, opening).await {
            Ok(Ok(opened)) => opened,
            Ok(Err(_)) => {
                let message = "its program was stopped before it had started".to_owned();
                Err(Error::Unreachable { source_id: self.id.to_string(), message })
            }
            Err(_) => Err(unopened()),
        }
    }

    /// The error that a program answers with names what it wants to have or to reach, and its operator can give it that.
    fn hinted<T>(&self, mut answer: Result<T, Error>) -> Result<T, Error> {
        if let Err(Error::Reported { message, .. }) = &mut answer
            && let Some(hint) = self.wire.lock().as_ref().and_then(|wire| wire.hint(message))
        {
            message.push_str("; ");
            message.push_str(&hint);
        }
        answer
    }

    /// What a closed program did not do to the end has changed nothing: it reaches nothing that stays.
    fn closed<T>(&self, answer: Result<T, Error>) -> Result<T, Error> {
        if !self.is_closed {
            return answer;
        }
        answer.map_err(|error| match error {
            Error::Reported { source_id, message, cause, content, after: _ } => {
                Error::Reported { source_id, message, cause, content, after: AfterError::NoEffect }
            }
            Error::TimedOut { .. } | Error::Broken { .. } => {
                let message = format!("{}; it reaches nothing outside its jail, so nothing was changed", error.without_conclusion());
                failed(error.code(), message)
            }
            Error::Unreachable { .. }
            | Error::Busy { .. }
            | Error::NoTurn { .. }
            | Error::Refused { .. }
            | Error::Failed { .. }
            | Error::WorkspaceElsewhere
            | Error::PreviewUnsupported { .. } => error,
        })
    }

    /// Gives a connection up after an error that may be its fault, so that the next request opens a new one. A server that forgot a session
    /// does not always say so.
    async fn reconsider<T>(&self, connection: &Arc<Connection>, answer: Result<T, Error>) -> Result<T, Error> {
        if answer.as_ref().is_err_and(is_doubtful) {
            let mut current = self.connection.lock().await;
            if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, connection)) {
                *current = None;
            }
        }
        answer
    }

    /// Lists the tools now.
    pub async fn refresh(&self) -> Result<Listed, Error> {
        // Kept a little below the limit of the caller, so that the caller gets this error.
        let limit = Duration::from_millis(self.list_timeout_ms - (self.list_timeout_ms / 10).min(250));
        // Read first, so that a change during the listing is not missed.
        let revision = self.changes.revision.load(Ordering::Acquire);
        // A program is waited for until it has started; the time to list begins then.
        let started = Until::after(limit + self.upstream.patience().unwrap_or_default(), self.list_timeout_ms);
        let connection = self.connected(started).await?;
        let until = Until::after(limit, self.list_timeout_ms);
        let listed = self.reconsider(&connection, listing::list(&connection, &self.common, until).await).await;
        let listed = listed.map_err(|error| without_doubt(&self.id, error))?;
        self.changes.listed.store(revision, Ordering::Release);
        self.wants_header_params.store(connection.has_header_params(), Ordering::Relaxed);
        if !listed.skipped.is_empty() {
            let (first, more) = (&listed.skipped[0], listed.skipped.len() - 1 + listed.skipped_more);
            tracing::warn!(source = %self.id, tool = first.tool, why = first.why, more, "tools of an MCP server were left out");
        }
        if self.hearer.is_some() {
            let connection = Arc::clone(&connection);
            tokio::spawn(async move { connection.subscribe(until).await });
        }
        *self.known.write() = Some(Known { version: connection.version().to_owned(), listed: listed.clone() });
        Ok(listed)
    }
}

impl Drop for McpSource {
    fn drop(&mut self) {
        if let Some(opening) = self.opening.lock().take() {
            opening.abort();
        }
    }
}

impl Source for McpSource {
    fn id(&self) -> &SourceId {
        &self.id
    }

    fn title(&self) -> &str {
        &self.title
    }

    fn guide(&self) -> Option<Cow<'_, str>> {
        self.known.read().as_ref()?.listed.guide.clone().map(Cow::Owned)
    }

    fn list<'a>(&'a self, _org: &'a OrgId) -> Future<'a, Result<Vec<Arc<Action>>, Error>> {
        Box::pin(async { self.refresh().await.map(|listed| listed.actions) })
    }

    fn revision(&self) -> u64 {
        self.changes.revision.load(Ordering::Acquire)
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn list_limit_ms(&self) -> u64 {
        let start = self.upstream.patience().unwrap_or_default();
        self.list_timeout_ms + u64::try_from(start.as_millis()).unwrap_or(u64::MAX)
    }

    fn connection(&self) -> Option<&ConnectionId> {
        self.account.as_ref()
    }

    fn is_for(&self, space: &SpaceId) -> bool {
        self.spaces.as_ref().is_none_or(|spaces| spaces.contains(space))
    }

    fn needs_review(&self) -> bool {
        true
    }

    /// A program sees the whole workspace for as long as it runs, so it cannot be kept to a part of it for one call.
    fn check<'a>(&'a self, asked: Asked<'a>) -> Future<'a, Result<(), Error>> {
        let sees_too_much = self.common.effects.contains(&Effect::FilesystemRead) && !asked.scope.is_unbounded();
        let checked = if sees_too_much {
            let why =
                format!("the program of source `{}` sees the whole workspace, so `{}` cannot be kept to a scope", self.id, asked.action);
            Err(refused("outside_scope", format!("{why}; nothing was asked")))
        } else {
            Ok(())
        };
        Box::pin(std::future::ready(checked))
    }

    fn call<'a>(&'a self, context: &'a CallContext, action: &'a ActionId, params: &'a Value) -> Future<'a, Result<Output, Error>> {
        Box::pin(async move {
            if self.common.code.is_some() && self.common.code != context.code {
                let message = format!("the code of `{action}` is not the one that was decided about; nothing ran");
                return Err(refused("package_changed", message));
            }
            let until = Until::after(patience(context), context.timeout_ms);
            let connection = self.connected(until).await?;
            let asked = async {
                if let Some(readable) = Readable::named(action.name()) {
                    return readable.ask(&connection, action, params, until).await;
                }
                if self.wants_header_params.load(Ordering::Relaxed) && !connection.has_header_params() {
                    listing::list(&connection, &self.common, until).await?;
                }
                call::call(&connection, action, params, context, until).await
            };
            self.closed(self.hinted(self.reconsider(&connection, asked.await).await))
        })
    }

    /// What a program had in memory is gone with the server that it answered. If it reaches nothing else, nothing is left of a call.
    fn reconcile<'a>(&'a self, _: &'a CallContext, _: &'a ActionId, _: &'a Value) -> Future<'a, Result<Reconciled, Error>> {
        let left = if self.is_closed { Reconciled::DidNot } else { Reconciled::Unknown };
        Box::pin(std::future::ready(Ok(left)))
    }
}

/// The error of JSON-RPC for a request that is none.
const INVALID_REQUEST: i64 = -32600;

/// Whether another connection might give another answer.
fn is_doubtful(error: &Error) -> bool {
    match error {
        Error::Unreachable { .. } | Error::Broken { .. } => true,
        Error::Refused { code, .. } | Error::Failed { code, .. } => matches!(*code, "source_refused" | "source_unauthorized"),
        // The request itself is invalid, for example because the server forgot who asks.
        Error::Reported { content, .. } => content["error"]["code"] == INVALID_REQUEST,
        Error::Busy { .. }
        | Error::NoTurn { .. }
        | Error::TimedOut { .. }
        | Error::WorkspaceElsewhere
        | Error::PreviewUnsupported { .. } => false,
    }
}

/// The error of a listing: it has no effect that could be in doubt, so it says only what the server did.
fn without_doubt(id: &SourceId, error: Error) -> Error {
    match error {
        Error::Broken { message, .. } => failed("source_broke", format!("source `{id}` did not list its tools: {message}")),
        other @ (Error::Unreachable { .. }
        | Error::Busy { .. }
        | Error::NoTurn { .. }
        | Error::TimedOut { .. }
        | Error::Reported { .. }
        | Error::Refused { .. }
        | Error::Failed { .. }
        | Error::WorkspaceElsewhere
        | Error::PreviewUnsupported { .. }) => other,
    }
}

fn not_set_up(id: &SourceId, error: &crate::Error) -> Error {
    Error::Unreachable { source_id: id.to_string(), message: error.to_string() }
}

/// The host of a URL, written like an operator's allow rule.
fn host_of(url: &str) -> Result<String, crate::Error> {
    let invalid = || crate::Error::HostRule { text: crate::words::shown(url), message: "the URL of a server has a scheme and a host" };
    let url = Url::parse(url).map_err(|_| invalid())?;
    let rule: HostRule = url.origin().ascii_serialization().parse().map_err(|_| invalid())?;
    Ok(rule.to_string())
}

#[cfg(test)]
#[path = "source_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "hostile_tests.rs"]
mod hostile_tests;

#[cfg(test)]
#[path = "real_tests.rs"]
mod real_tests;
