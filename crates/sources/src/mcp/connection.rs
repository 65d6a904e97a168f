//! An open connection to a server, in whichever revision of MCP it speaks, and the requests made over it.

use super::http::{Client, Credentials};
use super::last_words::Allowances;
use super::object::object;
use super::slot::{Answer, InSlot, Slot};
use super::stdio::Stdio;
use super::us::Us;
use super::wire::{Unusable, Wire};
use crate::limits::{MCP_RECONNECT_MS_MIN, MCP_RECONNECTS_MAX, MCP_SUBSCRIPTIONS_MAX};
use crate::web::{Allowed, Exchange, Target};
use crate::words::{refused, said, shown};
use countersign_core::effect::Progress;
use countersign_core::limits::SOURCE_CALLS_MAX;
use countersign_core::resident::{Child, Residents, Spec};
use countersign_core::source::{AfterError, Error};
use countersign_core::{Future, Secret, jail};
use parking_lot::Mutex;
use rmcp::RoleClient;
use rmcp::model::{
    ClientRequest, GetExtensions, ListResourcesRequest, PaginatedRequestParams, ProtocolVersion, Request, ServerCapabilities,
    ServerPeerInfo, SubscribeRequestParams, SubscriptionFilter,
};
use rmcp::service::{
    ClientCacheConfig, ClientInitializeError, ClientLifecycleMode, ClientServiceExt, Peer, PeerRequestOptions, RequestHandle,
    RunningService, ServiceError,
};
use rmcp::transport::common::client_side_sse::SseRetryPolicy;
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransport, StreamableHttpClientTransportConfig, StreamableHttpError};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

/// Where a server is.
pub(super) enum Upstream {
    Http { exchange: Arc<Exchange>, allowed: Arc<Allowed>, url: String, credentials: Option<Arc<dyn Credentials>> },
    Program { residents: Arc<dyn Residents>, program: Arc<dyn Startable>, hosts: Vec<String> },
    Nowhere { why: Error },
}

/// A program, and what it is given each time it is started.
pub trait Startable: Send + Sync {
    fn start(&self) -> Future<'_, Result<Start, Error>>;
    /// Installs what it runs, if that is not there. It takes as long as it takes, before the time that the program has to start.
    fn prepare(&self) -> Future<'_, Result<(), Error>> {
        Box::pin(std::future::ready(Ok(())))
    }
    /// How long it may take until it speaks MCP, from its turn to start on.
    fn patience(&self) -> Duration;
    /// The version that each secret in its environment has now. A program that has earlier ones is started anew before the next request.
    fn versions(&self) -> Future<'_, Result<Vec<Option<i64>>, Error>>;
}

/// A program that is about to be started.
pub struct Start {
    pub spec: Spec,
    /// The secrets in its environment, which nothing that it says may repeat.
    pub secrets: Vec<Secret<String>>,
    /// Their versions.
    pub versions: Vec<Option<i64>>,
}

impl Upstream {
    /// Does what must be done once before a program can start.
    pub(super) async fn prepare(&self) -> Result<(), Error> {
        match self {
            Self::Program { program, .. } => program.prepare().await,
            Self::Http { .. } | Self::Nowhere { .. } => Ok(()),
        }
    }

    /// How long a program may take until it speaks MCP; `None` for a server elsewhere, which is there or not.
    pub(super) fn patience(&self) -> Option<Duration> {
        match self {
            Self::Program { program, .. } => Some(program.patience()),
            Self::Http { .. } | Self::Nowhere { .. } => None,
        }
    }

    /// The versions of the secrets that a program would be started with now.
    pub(super) async fn versions(&self) -> Result<Vec<Option<i64>>, Error> {
        match self {
            Self::Program { program, .. } => program.versions().await,
            Self::Http { .. } | Self::Nowhere { .. } => Ok(Vec::new()),
        }
    }
}

/// How a connection begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lifecycle {
    /// By whichever of the two the server knows.
    Auto,
    /// With `initialize`, as the server wanted it last time. It saves a question.
    Initialize,
}

/// When a request has to be answered, and the limit that its error names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Until {
    pub(super) at: Instant,
    pub(super) timeout_ms: u64,
}

impl Until {
    pub(super) fn after(patience: Duration, timeout_ms: u64) -> Self {
        Self { at: Instant::now() + patience, timeout_ms }
    }
}

pub(super) struct Connection {
    service: RunningService<RoleClient, Us>,
    wire: Arc<Wire>,
    info: Arc<ServerPeerInfo>,
    /// Held, because the program ends when it is dropped.
    _child: Option<Ending>,
    /// The versions of the secrets that the program was started with.
    versions: Vec<Option<i64>>,
    listening: Mutex<Vec<JoinHandle<()>>>,
    /// The resources whose changes the server was asked to tell.
    subscribed: Mutex<BTreeSet<String>>,
}

/// The part of a list of resources that is read.
#[derive(Deserialize)]
struct Resources {
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
struct Resource {
    uri: String,
}

/// How long a cancellation may take to be sent.
const CANCELLATION: Duration = Duration::from_secs(5);

impl Connection {
    pub(super) async fn open(upstream: &Upstream, wire: Arc<Wire>, lifecycle: Lifecycle, until: Until) -> Result<Self, Error> {
        let opened = timeout_at(until.at, Self::begin(upstream, Arc::clone(&wire), lifecycle)).await;
        let opened = opened.unwrap_or_else(|_| {
            let mut message = format!("it did not begin to speak MCP within {} ms", until.timeout_ms);
            if let Some(words) = wire.last_words() {
                message = format!(
                    "{message}: {}; an operator gives it longer: `--start-timeout` when it is added, or `start_seconds` in `mcp_commands`",
                    words.in_a_sentence()
                );
            }
            Err(Error::Unreachable { source_id: wire.source_id().to_owned(), message })
        });
        // Nothing was asked for yet, so nothing can have happened.
        opened.map_err(|error| match error.after() {
            AfterError::NoEffect => error,
            AfterError::Unknown => Error::Unreachable { source_id: wire.source_id().to_owned(), message: in_short(&error) },
        })
    }

    async fn begin(upstream: &Upstream, wire: Arc<Wire>, lifecycle: Lifecycle) -> Result<Self, Error> {
        let mode = match lifecycle {
            Lifecycle::Auto => ClientLifecycleMode::Auto {
                preferred_versions: vec![ProtocolVersion::V_2026_07_28],
                legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
            },
            Lifecycle::Initialize => ClientLifecycleMode::Initialize,
        };
        let mut versions = Vec::new();
        let (served, child) = match upstream {
            Upstream::Http { exchange, allowed, url, credentials } => {
                let target = Target::check(url, allowed)?;
                let (exchange, allowed, credentials) = (Arc::clone(exchange), Arc::clone(allowed), credentials.clone());
                let client = Client { wire: Arc::clone(&wire), exchange, allowed, target, credentials };
                let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str()).max_concurrent_requests(SOURCE_CALLS_MAX);
                config.retry_config = Arc::new(Again);
                (Us.serve_with_lifecycle(StreamableHttpClientTransport::with_client(client, config), mode).await, None)
            }
            Upstream::Program { residents, program, hosts } => {
                let start = program.start().await?;
                wire.given.add(&start.secrets);
                versions = start.versions;
                let (open_files, has_folder) = (start.spec.open_files, start.spec.folder.is_some());
                let network = start.spec.network.clone();
                let allowed = Allowances { hosts: hosts.clone(), open_files, has_folder, network };
                let resident = residents.start(start.spec).await.map_err(|error| not_started(wire.source_id(), error))?;
                let (stdio, child) = Stdio::new(Arc::clone(&wire), resident, allowed);
                // Made before the wait, so that the program ends with this future.
                let child = Ending(child);
                (Us.serve_with_lifecycle(stdio, mode).await, Some(child))
            }
            Upstream::Nowhere { why } => return Err(why.clone()),
        };
        let service = match served {
            Ok(service) => service,
            // It knows the question by which the later revision begins, and speaks only earlier ones; or it answers what it does not know with
            // something else than an error.
            Err(ClientInitializeError::NoCompatibleProtocolVersion { .. } | ClientInitializeError::ExpectedInitResult(_))
                if lifecycle == Lifecycle::Auto =>
            {
                drop(child);
                return Box::pin(Self::begin(upstream, wire, Lifecycle::Initialize)).await;
            }
            Err(error) => return Err(wire.trouble().unwrap_or_else(|| not_opened(wire.source_id(), &error))),
        };
        let info = service.peer().peer_info();
        let info = info.unwrap_or_else(|| Arc::new(unknown()));
        let (listening, subscribed) = (Mutex::default(), Mutex::default());
        let connection = Self { service, wire, info, _child: child, versions, listening, subscribed };
        connection.check_version()?;
        connection.service.set_response_cache_config(ClientCacheConfig::disabled()).await;
        connection.listen();
        Ok(connection)
    }

    fn check_version(&self) -> Result<(), Error> {
        let version = &self.info.protocol_version;
        if ProtocolVersion::KNOWN_VERSIONS.contains(version) {
            return Ok(());
        }
        let message = format!("it speaks MCP `{}`, which is not known here", shown(version.as_str()));
        Err(Error::Unreachable { source_id: self.wire.source_id().to_owned(), message })
    }

    /// Asks a server without sessions to tell when its lists change. One with sessions tells by itself.
    fn listen(&self) {
        let ServerCapabilities { tools, resources, prompts, .. } = &self.info.capabilities;
        let mut filter = SubscriptionFilter::new();
        filter.tools_list_changed = tools.as_ref().and_then(|tools| tools.list_changed).filter(|tells| *tells);
        filter.resources_list_changed = resources.as_ref().and_then(|resources| resources.list_changed).filter(|tells| *tells);
        filter.prompts_list_changed = prompts.as_ref().and_then(|prompts| prompts.list_changed).filter(|tells| *tells);
        if self.is_modern() && filter != SubscriptionFilter::new() {
            self.listen_for(filter);
        }
    }

    fn listen_for(&self, filter: SubscriptionFilter) {
        self.listening.lock().push(tokio::spawn(listen(self.service.peer().clone(), filter)));
    }

    /// Asks the server to tell when its resources change, each once: those that its list begins with. If it refuses, its tools work all the
    /// same.
    pub(super) async fn subscribe(&self, until: Until) {
        if self.info.capabilities.resources.as_ref().is_none_or(|resources| resources.subscribe != Some(true)) {
            return;
        }
        let listing = ListResourcesRequest::with_param(PaginatedRequestParams::default());
        let Ok(Answer::Result(raw)) = self.ask(ClientRequest::ListResourcesRequest(listing), None, until).await else { return };
        let Some(Resources { resources }) = object(&raw.text) else { return };
        drop(raw);
        let mut new: Vec<_> = resources.into_iter().take(MCP_SUBSCRIPTIONS_MAX).map(|resource| resource.uri).collect();
        {
            let mut subscribed = self.subscribed.lock();
            new.retain(|uri| subscribed.len() < MCP_SUBSCRIPTIONS_MAX && subscribed.insert(uri.clone()));
        }
        if self.is_modern() {
            if !new.is_empty() {
                let mut filter = SubscriptionFilter::new();
                filter.resource_subscriptions = Some(new);
                self.listen_for(filter);
            }
            return;
        }
        for uri in new {
            let request = ClientRequest::SubscribeRequest(Request::new(SubscribeRequestParams::new(uri)));
            if let Err(error) = self.ask(request, None, until).await {
                tracing::debug!(%error, source = self.wire.source_id(), "changes of resources are not all heard");
                return;
            }
        }
    }

    /// Whether the server speaks a revision without sessions.
    pub(super) fn is_modern(&self) -> bool {
        !self.info.protocol_version.has_initialize()
    }

    /// What the server says that it can be asked for.
    pub(super) fn capabilities(&self) -> &ServerCapabilities {
        &self.info.capabilities
    }

    pub(super) fn instructions(&self) -> Option<&str> {
        self.info.instructions.as_deref()
    }

    /// The revision that the server speaks.
    pub(super) fn version(&self) -> &str {
        self.info.protocol_version.as_str()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.service.peer().is_transport_closed()
    }

    /// Whether the program was started with these secrets, or with later ones.
    pub(super) fn has(&self, versions: &[Option<i64>]) -> bool {
        self.versions.iter().zip(versions).all(|(own, now)| own >= now)
    }

    /// Whether calls on this connection get the headers that the server wants params in.
    pub(super) fn has_header_params(&self) -> bool {
        self.wire.has_header_params()
    }

    /// Makes one request. If the answer is not there in time, or nobody waits for it any more, the server is told to stop.
    pub(super) async fn ask(&self, mut request: ClientRequest, progress: Option<Progress>, until: Until) -> Result<Answer, Error> {
        let slot = Slot::new(progress);
        request.extensions_mut().insert(InSlot(Arc::clone(&slot)));
        let queued = timeout_at(until.at, self.service.send_request_with_option(request, PeerRequestOptions::no_options())).await;
        let Ok(queued) = queued else {
            let message = "too many requests to it wait to be sent".to_owned();
            return Err(Error::NoTurn { source_id: self.wire.source_id().to_owned(), message });
        };
        let mut pending = Pending(Some(queued.map_err(|_| self.gone_before())?));
        let Some(handle) = &mut pending.0 else { return Err(self.gone_before()) };
        let Ok(received) = timeout_at(until.at, &mut handle.rx).await else {
            return Err(Error::TimedOut { source_id: self.wire.source_id().to_owned(), timeout_ms: until.timeout_ms });
        };
        pending.0 = None;
        match (slot.take(), received) {
            (Some(Answer::Failed(error)), _) => Err(error),
            (Some(answer), _) => Ok(answer),
            (None, Ok(Err(ServiceError::TransportSend(error)))) => Err(self.not_sent(&*error.error)),
            (None, _) => Err(self.wire.ended().unwrap_or_else(|| self.wire.broken(&Unusable::answer("broke its answer off")))),
        }
    }

    /// The connection had ended before the request was sent.
    fn gone_before(&self) -> Error {
        let message = self.wire.ended().map_or_else(|| "its connection has ended".to_owned(), |error| in_short(&error));
        Error::Unreachable { source_id: self.wire.source_id().to_owned(), message }
    }

    fn not_sent(&self, error: &(dyn std::error::Error + Send + Sync + 'static)) -> Error {
        let source_id = || self.wire.source_id().to_owned();
        match error.downcast_ref::<StreamableHttpError<Error>>() {
            Some(StreamableHttpError::Client(error)) => error.clone(),
            Some(StreamableHttpError::SessionExpired) => {
                Error::Unreachable { source_id: source_id(), message: "it does not know the session that it has just begun".to_owned() }
            }
            Some(StreamableHttpError::ReinitializationFailed(error)) => {
                Error::Unreachable { source_id: source_id(), message: format!("it began no new session: {}", said(&error.message)) }
            }
            Some(_) | None => self.wire.broken(&Unusable::answer("broke the connection off")),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.listening.lock().iter().for_each(JoinHandle::abort);
    }
}

/// A request whose answer is awaited. Dropped before that, it is cancelled.
struct Pending(Option<RequestHandle<RoleClient>>);

impl Drop for Pending {
    fn drop(&mut self) {
        if let (Some(handle), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(timeout(CANCELLATION, handle.cancel(Some("nobody waits for the answer any more".to_owned()))));
        }
    }
}

/// A program that ends with its connection, also with one that was not opened.
struct Ending(Arc<dyn Child>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.end();
    }
}

async fn listen(peer: Peer<RoleClient>, filter: SubscriptionFilter) {
    if let Ok(mut subscription) = peer.listen(filter).await {
        // The notifications themselves are heard in `wire.rs`.
        while let Ok(Some(_)) = subscription.next().await {}
    }
}

/// How often a stream that broke off is resumed.
#[derive(Debug)]
struct Again;

impl SseRetryPolicy for Again {
    fn retry(&self, times: usize) -> Option<Duration> {
        (times < MCP_RECONNECTS_MAX).then(|| Duration::from_millis(MCP_RECONNECT_MS_MIN << times))
    }
}

fn unknown() -> ServerPeerInfo {
    ServerPeerInfo::new(ProtocolVersion::LATEST_WITH_INITIALIZE, Default::default())
}

fn not_started(source_id: &str, error: jail::Error) -> Error {
    match error {
        jail::Error::Unavailable { message } => refused("sandbox_unavailable", message),
        jail::Error::Refused { message } => refused("package_refused", message),
        jail::Error::Busy { message } => Error::NoTurn { source_id: source_id.to_owned(), message },
        jail::Error::Lost { message } => Error::Unreachable { source_id: source_id.to_owned(), message },
    }
}

/// Why the library opened no connection, in our words: its own quote messages without an end.
fn not_opened(source_id: &str, error: &ClientInitializeError) -> Error {
    if let ClientInitializeError::LegacyFallbackFailed { fallback, .. } = error {
        return not_opened(source_id, fallback);
    }
    let message = if let ClientInitializeError::JsonRpcError(error) = error {
        format!("it refused to begin: {}", said(&error.message))
    } else if let ClientInitializeError::ConnectionClosed(_) = error {
        "it closed the connection".to_owned()
    } else {
        "it does not answer as an MCP server does".to_owned()
    };
    Error::Unreachable { source_id: source_id.to_owned(), message }
}

/// The part of an error that says what happened.
fn in_short(error: &Error) -> String {
    match error {
        Error::Broken { message, .. }
        | Error::Unreachable { message, .. }
        | Error::Busy { message, .. }
        | Error::NoTurn { message, .. } => message.clone(),
        Error::Reported { .. }
        | Error::TimedOut { .. }
        | Error::Refused { .. }
        | Error::Failed { .. }
        | Error::WorkspaceElsewhere
        | Error::PreviewUnsupported { .. } => error.without_conclusion(),
    }
}
