//! Runs a whole server in the test's process: a real store, real HTTP, a clock that the test controls, and a source that answers as the
//! test says.

use automation::template::{RenderError, Renderer, Workers};
use countersign_core::action::{Preview, Repeatability, Reversibility};
use countersign_core::energy::Energy;
use countersign_core::fault::Faults;
use countersign_core::limiter::RateLimits;
use countersign_core::source::{Source, SourceRegistry};
use countersign_core::{Action, Clock, Future, OrgId, Random, Secret, Tier};
use pipeline::{Ladder, Pipeline, Ports, Settings};
use reqwest::Method;
use serde_json::{Value, json};
use server::config::OidcConfig;
use server::{AddedConfig, AddedRegistry, AllowLists, App, Courier, CourierConfig, Fixed, MasterKeyFiles, Parts, SignIn};
use sources::builtin::documents::Documents;
use sources::builtin::email::Email;
use sources::builtin::files::Files;
use sources::builtin::http::{Http, HttpConfig};
use sources::builtin::notify::Notify;
use sources::connection::{Connected, ConnectedConfig, OrgSenders};
use sources::mail::{Mailer, Route, Sender, Senders};
use sources::oauth::Own;
use sources::web::HostRule;
use sources::workspace::{Folders, Places};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use store::{Engine, MasterKey, MemoryLimiter, Store, TimeSource};
use testkit::{FakeCommands, FakeRegistry, FakeSource, FixedClock, MemoryBlobs, SeededRandom};
use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Runs each test on SQLite. `make test ARGS=--all` also runs it on PostgreSQL; nothing in it depends on the engine.
macro_rules! on_sqlite {
    ($($name:ident),* $(,)?) => {
        mod journeys {
            mod sqlite {
                $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() { super::super::$name($crate::harness::Kind::Sqlite).await; })*
            }
            mod postgres {
                $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() { super::super::$name($crate::harness::Kind::Postgres).await; })*
            }
        }
    };
}
pub(crate) use on_sqlite;

/// Runs each test on both engines, as two tests. For tests about concurrency, crashes, ownership of rows and the clock.
macro_rules! on_both_engines {
    ($($name:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() { super::$name($crate::harness::Kind::Sqlite).await; })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() { super::$name($crate::harness::Kind::Postgres).await; })*
        }
    };
}
pub(crate) use on_both_engines;

/// Runs a test that needs two servers on one database, which only PostgreSQL allows.
macro_rules! on_postgres {
    ($($name:ident),* $(,)?) => {
        mod two_servers {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() { super::$name($crate::harness::Kind::Postgres).await; })*
        }
    };
}
pub(crate) use on_postgres;

#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Sqlite,
    Postgres,
}

/// The database of a test. It outlives a server, so that a second one can be started on it.
#[derive(Clone)]
pub(crate) struct Home {
    engine: Engine,
    folder: Arc<tempfile::TempDir>,
    /// How many servers have been started on it.
    starts: Arc<AtomicU64>,
    /// The real source `files`, if a test needs it beside the fake source.
    files: Option<Arc<Files>>,
    /// The workspaces of the real source `documents`, if a test needs it, and `builtin` with it.
    documents: Option<Arc<Places>>,
    /// Whether the real `http` and `notify` are there too.
    tells_and_asks: bool,
    /// How long a call waits for another call that holds its idempotency key.
    key_wait_ms: u64,
    /// How long a channel may take to answer. Only a test of one that never does has it short, since nothing may depend on the load.
    patience: std::time::Duration,
    /// How long a call waits between its attempts: hardly at all.
    ladder: Ladder,
    /// What runs draw, if not what everything else draws.
    drawn_by_runs: Option<Arc<dyn Random>>,
    /// The hosts that sources and connections may reach.
    hosts: Vec<HostRule>,
    /// The host's energy counters.
    energy: Option<Arc<dyn Energy>>,
    /// The mail servers that there are.
    mailer: Arc<Mailer>,
    /// The operator's sender, if a test needs the real source `email`.
    sender: Option<Sender>,
    /// Where Slack is.
    slack_api_url: Option<String>,
    /// Where people sign in.
    oidc: Option<OidcConfig>,
    /// The bytes of artifacts.
    pub(crate) blobs: MemoryBlobs,
}

pub(crate) struct TestServer {
    pub(crate) home: Home,
    pub(crate) clock: FixedClock,
    /// Offers `fake.read` (R0), `fake.write` (R2), `fake.send` (R3, no dry run) and `fake.destroy` (R4).
    pub(crate) source: FakeSource,
    /// Allows `npm test` and `npm run lint`.
    pub(crate) commands: FakeCommands,
    /// Lets a test add sources to an org.
    pub(crate) registry: FakeRegistry,
    pub(crate) store: Store,
    pub(crate) pipeline: Pipeline,
    /// Delivers notices when a test says so.
    pub(crate) courier: Courier,
    /// Runs automations while a test lets it: see `work`.
    pub(crate) engine: runs::Engine,
    pub(crate) org: OrgId,
    pub(crate) owner: Client,
    pub(crate) url: String,
    pub(crate) fault: FaultAt,
    stop: Option<oneshot::Sender<()>>,
}

/// The point at which the walk breaks off as if the process had been killed there: its row stays as it is and nothing ends it.
#[derive(Clone, Default)]
pub(crate) struct FaultAt(Arc<parking_lot::Mutex<Option<&'static str>>>);

impl FaultAt {
    pub(crate) fn arm(&self, point: &'static str) {
        *self.0.lock() = Some(point);
    }

    fn faults(&self) -> countersign_core::fault::Faults {
        let at = self.clone();
        countersign_core::fault::Faults::new(move |point| {
            let is_here = at.0.lock().take_if(|armed| *armed == point).is_some();
            if is_here {
                // Not `panic!`: its hook would make a backtrace, which takes a second in a binary of this size.
                std::panic::resume_unwind(Box::new(format!("stopped at `{point}`, as the test wanted")));
            }
        })
    }
}

/// How many sources an org may add.
pub(crate) const SOURCES_MAX: u32 = 20;

/// How many calls the source is given at a time.
pub(crate) const CALLS_PER_SOURCE: usize = 16;

/// A client with a token.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) http: reqwest::Client,
    pub(crate) url: String,
    pub(crate) token: String,
}

/// An agent with its session.
#[derive(Clone)]
pub(crate) struct Agent {
    pub(crate) client: Client,
    pub(crate) session: String,
}

/// An answer of the server.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) body: Value,
}

impl Home {
    pub(crate) async fn new(kind: Kind) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let engine = match kind {
            Kind::Sqlite => {
                let path = folder.path().join("test.db");
                testkit::sqlite::migrated_file(&path, async |path| migrated(Engine::Sqlite { path }).await).await;
                Engine::Sqlite { path }
            }
            Kind::Postgres => Engine::Postgres { url: postgres().await },
        };
        let key_wait_ms = Settings::default().key_wait_ms;
        let (folder, hosts, mailer) = (Arc::new(folder), Vec::new(), Arc::default());
        Self {
            engine,
            folder,
            starts: Arc::default(),
            files: None,
            documents: None,
            tells_and_asks: false,
            key_wait_ms,
            patience: std::time::Duration::from_secs(120),
            ladder: Ladder { base_ms: 1, cap_ms: 2 },
            drawn_by_runs: None,
            hosts,
            energy: None,
            mailer,
            sender: None,
            slack_api_url: None,
            oidc: None,
            blobs: MemoryBlobs::default(),
        }
    }

    /// The folder that the real `files` works in.
    pub(crate) fn workspace(&self) -> PathBuf {
        self.folder.path().join("workspace")
    }

    /// Where the server looks for its master key, when it replaces it. Until then the store has it from `open`.
    pub(crate) fn master_key(&self) -> PathBuf {
        self.folder.path().join("master.key")
    }

    /// Changes the database without the server. On SQLite only.
    pub(crate) fn tamper(&self, sql: &str) {
        let Engine::Sqlite { path } = &self.engine else { panic!("only a file is changed in this way") };
        rusqlite::Connection::open(path).unwrap().execute_batch(sql).unwrap();
    }

    fn with_files(mut self) -> Self {
        let folders = Folders::below(self.folder.path());
        self.files = Some(Arc::new(Files::open(folders, Arc::new(SeededRandom::new(5))).unwrap()));
        self
    }

    fn with_documents(mut self) -> Self {
        let folders = Folders::below(self.folder.path());
        self.documents = Some(Arc::new(Places::open(folders, Arc::new(SeededRandom::new(5)), &Faults::default()).unwrap()));
        self
    }

    fn with_mail(mut self) -> Self {
        let route = Route { server: testkit::mail::plain().parse().unwrap(), login: None };
        let servers = vec![route.server.clone(), testkit::mail::secured().parse().unwrap()];
        self.mailer = Arc::new(Mailer::new(servers, Some(testkit::certificates::ROOT)).unwrap());
        self.sender = Some(Sender { route, from: "countersign@example.com".parse().unwrap() });
        self
    }
}

const HARDLY_LIMITED: RateLimits = RateLimits { session: 10_000, person: None, space: None };

impl TestServer {
    pub(crate) async fn start(kind: Kind) -> Self {
        Self::start_rated(kind, HARDLY_LIMITED).await
    }

    pub(crate) async fn start_limited(kind: Kind, per_minute: u32) -> Self {
        Self::start_rated(kind, per_minute.into()).await
    }

    pub(crate) async fn start_rated(kind: Kind, per_minute: RateLimits) -> Self {
        let home = Home::new(kind).await;
        Self::start_on(home, FixedClock::new(), fake_source(), per_minute, None).await
    }

    /// A server with the real `files` beside the fake source.
    pub(crate) async fn start_with_files(kind: Kind) -> Self {
        let home = Home::new(kind).await.with_files();
        Self::start_on(home, FixedClock::new(), fake_source(), HARDLY_LIMITED, None).await
    }

    /// A server with the real `documents` and `builtin` beside the fake source.
    pub(crate) async fn start_with_documents(kind: Kind) -> Self {
        let home = Home::new(kind).await.with_documents();
        Self::start_on(home, FixedClock::new(), fake_source(), HARDLY_LIMITED, None).await
    }

    /// A server with every builtin source beside the fake one. It may send mail, and reach these addresses.
    pub(crate) async fn start_whole(kind: Kind, addresses: &[&str]) -> Self {
        let home = Home::new(kind).await.with_documents().with_mail();
        let files = home.documents.clone().map(|places| Arc::new(Files::on(places).unwrap()));
        let hosts = addresses.iter().map(|address| address.parse().unwrap()).collect();
        let home = Home { files, hosts, tells_and_asks: true, ..home };
        Self::start_on(home, FixedClock::new(), fake_source(), HARDLY_LIMITED, None).await
    }

    /// A server whose calls do not wait for another call that holds their idempotency key.
    pub(crate) async fn start_impatient(kind: Kind) -> Self {
        let home = Home { key_wait_ms: 1, ..Home::new(kind).await };
        Self::start_on(home, FixedClock::new(), fake_source(), HARDLY_LIMITED, None).await
    }

    /// A server that waits between attempts as one in production does, and whose runs draw what the test says.
    pub(crate) async fn start_patient(kind: Kind, drawn_by_runs: Arc<dyn Random>) -> Self {
        let home = Home { ladder: Settings::default().ladder, drawn_by_runs: Some(drawn_by_runs), ..Home::new(kind).await };
        Self::start_on(home, FixedClock::new(), fake_source(), HARDLY_LIMITED, None).await
    }

    /// A server whose sources and connections may reach these addresses.
    pub(crate) async fn start_reaching(kind: Kind, addresses: &[&str]) -> Self {
        let hosts = addresses.iter().map(|address| address.parse().unwrap()).collect();
        let home = Home { hosts, ..Home::new(kind).await };
        Self::start_on(home, FixedClock::new(), fake_source(), HARDLY_LIMITED, None).await
    }

    /// The same, where a channel that does not answer soon is given up for this time.
    pub(crate) async fn start_giving_up_soon(kind: Kind, addresses: &[&str]) -> Self {
        let hosts = addresses.iter().map(|address| address.parse().unwrap()).collect();
        let home = Home { hosts, patience: std::time::Duration::from_millis(500), ..Home::new(kind).await };
        Self::start_on(home, FixedClock::new(), fake_source(), HARDLY_LIMITED, None).await
    }

    /// A server whose Slack is at this address.
    pub(crate) async fn start_with_slack(kind: Kind, api_url: &str) -> Self {
        let hosts = vec![api_url.trim_end_matches("/api").parse().unwrap()];
        let home = Home { hosts, slack_api_url: Some(api_url.to_owned()), ..Home::new(kind).await };
        Self::start_on(home, FixedClock::new(), fake_source(), HARDLY_LIMITED, None).await
    }

    /// A server that may send mail through the mail servers of `make test`, with the real `email` beside the fake source.
    pub(crate) async fn start_mailing(kind: Kind) -> Self {
        let home = Home::new(kind).await.with_mail();
        Self::start_on(home, FixedClock::new(), fake_source(), HARDLY_LIMITED, None).await
    }

    /// A server where people sign in at this issuer.
    pub(crate) async fn start_with_issuer(kind: Kind, oidc: OidcConfig) -> Self {
        let home = Home { oidc: Some(oidc), ..Home::new(kind).await };
        Self::start_on(home, FixedClock::new(), fake_source(), HARDLY_LIMITED, None).await
    }

    /// A server on a host that tells what energy its processors use.
    pub(crate) async fn start_metered(kind: Kind, energy: Arc<dyn Energy>) -> Self {
        let home = Home { energy: Some(energy), ..Home::new(kind).await };
        Self::start_on(home, FixedClock::new(), fake_source(), HARDLY_LIMITED, None).await
    }

    /// Starts a new process on the same database, with the same owner, after this one is gone or beside it.
    pub(crate) async fn restart(&self) -> Self {
        Self::start_on(self.home.clone(), self.clock.clone(), self.source.clone(), HARDLY_LIMITED, Some(self.owner.token.clone())).await
    }

    /// Like `restart`, with a connection to the database that the test can cut. On PostgreSQL only.
    pub(crate) async fn restart_behind_a_proxy(&self) -> (Self, testkit::proxy::Proxy) {
        let Engine::Postgres { url } = &self.home.engine else { panic!("a file has no line to cut") };
        let (proxy, url) = testkit::proxy::Proxy::before(url).await;
        let home = Home { engine: Engine::Postgres { url }, ..self.home.clone() };
        let owner = Some(self.owner.token.clone());
        (Self::start_on(home, self.clock.clone(), self.source.clone(), HARDLY_LIMITED, owner).await, proxy)
    }

    /// A store without an org.
    pub(crate) async fn empty(kind: Kind) -> Store {
        let home = Home::new(kind).await;
        let store = open(home.engine.clone(), Arc::new(FixedClock::new()), Arc::new(SeededRandom::new(3))).await;
        // The folder is leaked: it is small and stays until the test's process ends.
        std::mem::forget(home);
        store
    }

    /// A server on a store that was restored from another server's backup.
    pub(crate) async fn on_store(store: Store, origin: &Self) -> Self {
        let home = origin.home.clone();
        Self::compose(
            home,
            store,
            FixedClock::new(),
            fake_source(),
            HARDLY_LIMITED,
            Some(origin.owner.token.clone()),
            Arc::new(SeededRandom::new(4)),
        )
        .await
    }

    async fn start_on(home: Home, clock: FixedClock, source: FakeSource, per_minute: RateLimits, owner: Option<String>) -> Self {
        // Each process has another seed, because two servers must not draw the same ids.
        let random: Arc<dyn Random> = Arc::new(SeededRandom::new(home.starts.fetch_add(1, Ordering::SeqCst) + 1));
        let store = open(home.engine.clone(), Arc::new(clock.clone()), Arc::clone(&random)).await;
        Self::compose(home, store, clock, source, per_minute, owner, random).await
    }

    async fn compose(
        home: Home,
        store: Store,
        clock: FixedClock,
        source: FakeSource,
        per_minute: RateLimits,
        owner: Option<String>,
        random: Arc<dyn Random>,
    ) -> Self {
        server::init_process();
        let shared: Arc<dyn Clock> = Arc::new(clock.clone());
        let token = match owner {
            Some(token) => token,
            None => {
                let token = store.draw_owner_token();
                store.create_org("test", "owner", token.clone()).await.unwrap();
                token.expose().clone()
            }
        };
        let org = store.list_orgs().await.unwrap().remove(0).id;
        let at = FaultAt::default();
        let commands = FakeCommands::allowing(&["npm test", "npm run lint"]);
        let registry = FakeRegistry::default();
        let mut sources: Vec<Arc<dyn Source>> = vec![Arc::new(source.clone())];
        sources.extend(home.files.clone().map(|files| files as Arc<dyn Source>));
        if let Some(places) = home.documents.clone() {
            sources.push(Arc::new(Documents::on(places, Arc::new(store.clone()), Arc::clone(&shared), Arc::clone(&random)).unwrap()));
            sources.push(Arc::new(runs::Builtin::new().unwrap()));
        }
        let networks = vec!["127.0.0.1/32".parse().unwrap()];
        let allowed =
            ConnectedConfig { allowed_hosts: home.hosts.clone(), allowed_networks: networks.clone(), mailer: Arc::clone(&home.mailer) };
        let connections = Connected::new(allowed, Arc::new(store.clone()), Arc::clone(&shared), Arc::clone(&random)).unwrap();
        let senders: Arc<dyn Senders> = Arc::new(OrgSenders::new(connections.clone(), home.sender.clone()));
        if home.sender.is_some() {
            let email = Email::new(Arc::clone(&home.mailer), Arc::clone(&senders), Arc::clone(&shared)).unwrap();
            sources.push(Arc::new(email));
        }
        if home.tells_and_asks {
            let reach = HttpConfig { allowed_hosts: home.hosts.clone(), allowed_networks: networks.clone() };
            sources.push(Arc::new(Http::new(reach).unwrap()));
            sources.push(Arc::new(Notify::new(Arc::new(store.clone()), Arc::clone(&shared), Arc::clone(&random)).unwrap()));
        }
        let fixed = Fixed {
            hosts: home.hosts.clone(),
            networks: networks.clone(),
            commands: vec![serde_json::from_value(json!({ "command": ["node", "fixed.js"] })).unwrap()],
            folders: None,
        };
        let allowed = Arc::new(AllowLists::new(store.clone(), org.clone(), fixed).unwrap());
        let added = Arc::new(AddedRegistry::new(AddedConfig {
            store: store.clone(),
            connections: connections.clone(),
            allowed: Arc::clone(&allowed),
            residents: None,
            homes: None,
            sources_max: SOURCES_MAX,
        }));
        let pipeline = Pipeline::new(
            Ports {
                ledger: Arc::new(store.clone()),
                keyring: Arc::new(store.clone()),
                limiter: Arc::new(MemoryLimiter::new(per_minute, Arc::clone(&shared))),
                clock: Arc::clone(&shared),
                random: Arc::clone(&random),
                sources,
                registries: vec![Arc::new(registry.clone()), Arc::clone(&added) as Arc<dyn SourceRegistry>],
                listings: Arc::new(store.clone()),
                commands: Some(Arc::new(commands.clone())),
                energy: home.energy.clone(),
                blobs: Some(Arc::new(home.blobs.clone())),
                faults: at.faults(),
            },
            Settings {
                ladder: home.ladder,
                calls_per_source_max: CALLS_PER_SOURCE,
                progress_silence_ms: 20,
                key_wait_ms: home.key_wait_ms,
                ..Settings::default()
            },
        );
        let listener = http_door::listen("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", http_door::address_of(&listener, ""));
        let courier = Courier::new(CourierConfig {
            store: store.clone(),
            pipeline: pipeline.clone(),
            clock: Arc::clone(&shared),
            random: Arc::clone(&random),
            address: Own::new(&url),
            allowed_hosts: home.hosts.clone(),
            allowed_networks: networks,
            mailer: Arc::clone(&home.mailer),
            senders,
            slack_api_url: home.slack_api_url.clone(),
            patience: home.patience,
        })
        .unwrap();
        let ports = runs::Ports {
            ledger: Arc::new(store.clone()),
            pipeline: pipeline.clone(),
            renderer: Renderer::new(Arc::new(RendersHere)),
            clock: Arc::clone(&shared),
            random: home.drawn_by_runs.clone().unwrap_or_else(|| Arc::clone(&random)),
        };
        let queues = ["fast", "medium", "long"].map(|name| runs::Queue { name: name.to_owned(), workers: 4 }).to_vec();
        let engine = runs::Engine::new(ports, runs::Settings { queues });
        let app = App::new(Parts {
            store: store.clone(),
            pipeline: pipeline.clone(),
            random,
            clock: shared,
            metrics: metrics(),
            homes: None,
            added,
            connections,
            courier: courier.clone(),
            master_key: MasterKeyFiles::at(home.master_key()),
            address: Own::new(&url),
            has_public_url: false,
            profiles: None,
            sign_in: home.oidc.clone().map(|oidc| SignIn::of(oidc, org.clone()).unwrap()),
            engine: engine.clone(),
        });
        let (stop, stopped) = oneshot::channel();
        let beside = server::mcp_routes(&app);
        tokio::spawn(http_door::serve(listener, app, beside, async move {
            let _dropped = stopped.await;
        }));
        let owner = Client { http: client(), url: url.clone(), token };
        Self { home, clock, source, commands, registry, store, pipeline, courier, engine, org, owner, url, fault: at, stop: Some(stop) }
    }

    /// Lets the engine work on runs until what is returned is dropped.
    pub(crate) fn work(&self) -> DropGuard {
        let stop = CancellationToken::new();
        tokio::spawn(self.engine.clone().run(false, stop.clone()));
        stop.drop_guard()
    }

    /// A new interactive session with its agent.
    pub(crate) async fn agent(&self) -> Agent {
        self.owner.new_session(json!({})).await
    }

    /// The body of an invocation's receipt.
    pub(crate) async fn receipt_of(&self, invocation: &str) -> Value {
        let entries = self.owner.get(&format!("/api/v1/invocations/{invocation}/entries")).await.ok();
        let receipts: Vec<_> = entries["items"].as_array().unwrap().iter().filter(|entry| entry["kind"] == "receipt").cloned().collect();
        assert_eq!(receipts.len(), 1, "exactly one receipt for {invocation}: {entries:#}");
        receipts[0]["payload"]["body"].clone()
    }

    /// How often this process has counted a conflict.
    pub(crate) async fn conflicts(&self, conflict: &str) -> u64 {
        let text = self.owner.get("/metrics").await.body.as_str().unwrap_or_default().to_owned();
        let name = format!("countersign_conflicts_total{{conflict=\"{conflict}\"}} ");
        text.lines().find_map(|line| line.strip_prefix(&name)).map_or(0, |count| count.parse().unwrap())
    }

    /// The number of invocations and of audit log entries, so that a test can show that nothing was left behind.
    pub(crate) async fn counts(&self) -> (usize, u64) {
        let invocations = self.owner.get("/api/v1/invocations?limit=100").await.ok()["items"].as_array().unwrap().len();
        (invocations, self.store.log_size(&self.org).await.unwrap())
    }

    /// The id of the space that sessions are in by default.
    pub(crate) async fn main_space(&self) -> String {
        let spaces = self.owner.get("/api/v1/spaces").await.ok();
        let main = spaces["items"].as_array().unwrap().iter().find(|space| space["name"] == "main").unwrap();
        main["id"].as_str().unwrap().to_owned()
    }

    /// Changes the settings of the main space.
    pub(crate) async fn change_space(&self, change: Value) {
        let path = format!("/api/v1/spaces/{}", self.main_space().await);
        self.owner.send(Method::PATCH, &path, Some(change)).await.ok();
    }

    /// One invocation as the API shows it.
    pub(crate) async fn shown(&self, invocation: &str) -> Value {
        self.owner.get(&format!("/api/v1/invocations/{invocation}")).await.ok()["invocation"].clone()
    }

    /// Every entry of the audit log in order: its kind and its body.
    pub(crate) async fn log(&self) -> Vec<(String, Value)> {
        let mut entries = Vec::new();
        for line in self.export().await {
            let line: Value = serde_json::from_str(&line).unwrap();
            if let Ok(envelope) = serde_json::from_value::<receipt::envelope::Envelope>(line["envelope"].clone()) {
                let payload: Value = serde_json::from_str(&envelope.peek().unwrap()).unwrap();
                entries.push((payload["entry"]["kind"].as_str().unwrap().to_owned(), payload["body"].clone()));
            }
        }
        entries
    }

    /// The changes of rules in the audit log, in order.
    pub(crate) async fn rules(&self) -> Vec<Value> {
        self.log().await.into_iter().filter(|(kind, _)| kind == "rule").map(|(_, body)| body["change"].clone()).collect()
    }

    async fn export(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut export = self.store.export(&self.org).await.unwrap();
        while let Some(line) = export.recv().await {
            lines.push(line.unwrap().trim_end_matches('\n').to_owned());
        }
        lines
    }

    /// Verifies the whole audit log, which must always succeed.
    pub(crate) async fn verify(&self) -> receipt::verify::Report {
        let report = self.report().await;
        assert!(report.ok, "{report:#?}");
        report
    }

    /// What a verifier finds in the whole audit log.
    pub(crate) async fn report(&self) -> receipt::verify::Report {
        let keys = self.store.list_log_keys(&self.org).await.unwrap();
        let pinned = receipt::key::PublicKey::from_base64(&keys[0].public).unwrap();
        let lines = self.export().await.into_iter().map(Ok::<_, std::io::Error>);
        receipt::verify::verify(lines, &pinned, None)
    }
}

/// Renders in this process. A worker is the server's own executable, started again, and here that would be the tests.
struct RendersHere;

impl Workers for RendersHere {
    fn ask(&self, request: String) -> Future<'_, Result<String, RenderError>> {
        let mut answer = Vec::new();
        automation::template::worker::serve(request.as_bytes(), &mut answer).unwrap();
        Box::pin(std::future::ready(Ok(String::from_utf8(answer).unwrap().trim_end_matches('\n').to_owned())))
    }
}

/// The server speaks plain HTTP, so no certificates are loaded: reading them would take longer than the rest of the start.
fn client() -> reqwest::Client {
    reqwest::Client::builder().tls_certs_only([]).build().unwrap()
}

/// One recorder for the process, shared by all its servers.
fn metrics() -> Option<metrics_exporter_prometheus::PrometheusHandle> {
    static HANDLE: std::sync::OnceLock<Option<metrics_exporter_prometheus::PrometheusHandle>> = std::sync::OnceLock::new();
    HANDLE.get_or_init(server::init_metrics).clone()
}

/// The URL of a new, migrated database.
pub(crate) async fn postgres() -> String {
    testkit::postgres::migrated_database(async |url| drop(migrated(Engine::Postgres { url }).await)).await
}

async fn migrated(engine: Engine) -> Store {
    open(engine, Arc::new(FixedClock::new()), Arc::new(SeededRandom::new(1))).await
}

async fn open(engine: Engine, clock: Arc<dyn Clock>, random: Arc<dyn Random>) -> Store {
    server::init_process();
    let master = MasterKey::new(&Secret::new([7; 32]));
    let (time, patience) = (TimeSource::Fixed(clock), store::Patience::default());
    Store::open(store::Config { engine, master, next_master: None, time, patience, random }).await.unwrap()
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _gone = stop.send(());
        }
    }
}

impl Client {
    pub(crate) fn with_token(&self, token: &str) -> Self {
        Self { token: token.to_owned(), ..self.clone() }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.send(Method::POST, path, Some(body)).await
    }

    pub(crate) async fn send(&self, method: Method, path: &str, body: Option<Value>) -> Answer {
        let mut request = self.http.request(method, format!("{}{path}", self.url)).bearer_auth(&self.token);
        if let Some(body) = body {
            request = request.json(&body);
        }
        Answer::of(request.send().await.unwrap()).await
    }

    /// Sends a body as it is, even one that no client library would send.
    pub(crate) async fn raw(&self, path: &str, content_type: &str, body: impl Into<reqwest::Body>) -> Answer {
        let request = self.http.post(format!("{}{path}", self.url)).bearer_auth(&self.token).header("content-type", content_type);
        Answer::of(request.body(body).send().await.unwrap()).await
    }

    pub(crate) async fn new_session(&self, body: Value) -> Agent {
        let answer = self.post("/api/v1/sessions", body).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        let session = answer.body["id"].as_str().unwrap().to_owned();
        Agent { client: self.with_token(answer.body["token"].as_str().unwrap()), session }
    }

    pub(crate) async fn approve(&self, invocation: &str) -> Answer {
        self.post(&format!("/api/v1/invocations/{invocation}/approve"), json!({ "mode": "once" })).await
    }

    pub(crate) async fn deny(&self, invocation: &str, reason: &str) -> Answer {
        self.post(&format!("/api/v1/invocations/{invocation}/deny"), json!({ "reason": reason })).await
    }

    pub(crate) async fn set_mode(&self, action: &str, mode: &str) {
        let answer = self.send(Method::PUT, &format!("/api/v1/modes/{action}"), Some(json!({ "mode": mode }))).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }

    /// Consents to the action, for everybody who acts for this person.
    pub(crate) async fn consent(&self, action: &str) {
        let answer = self.post("/api/v1/consents", json!({ "purpose": format!("action:{action}") })).await;
        assert_eq!(answer.status, 201, "{answer:?}");
    }

    /// Approves with a body, such as changed params or a grant.
    pub(crate) async fn approve_with(&self, invocation: &str, body: Value) -> Answer {
        self.post(&format!("/api/v1/invocations/{invocation}/approve"), body).await
    }

    /// Gives a grant.
    pub(crate) async fn grant(&self, body: Value) -> String {
        let answer = self.post("/api/v1/grants", body).await;
        assert_eq!((answer.status, &answer.body["state"]), (201, &json!("active")), "{answer:?}");
        answer.body["id"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn revoke(&self, grant: &str) -> Answer {
        self.send(Method::DELETE, &format!("/api/v1/grants/{grant}"), None).await
    }

    pub(crate) async fn switch(&self, way: &str, scope: &str) -> Answer {
        self.post(&format!("/api/v1/kill-switches/{way}"), json!({ "scope": scope, "reason": "test" })).await
    }

    pub(crate) async fn set_policies(&self, policies: Value) -> Answer {
        self.send(Method::PUT, "/api/v1/policies", Some(policies)).await
    }

    pub(crate) async fn review(&self, action: &str) -> Value {
        self.post(&format!("/api/v1/reviews/{action}"), json!({})).await.ok()
    }

    /// Creates a person with this role, and a token for them.
    pub(crate) async fn person(&self, name: &str, role: &str) -> Self {
        let user = self.post("/api/v1/users", json!({ "name": name, "role": role })).await.ok();
        let token = self.post("/api/v1/invitations/redeem", json!({ "invitation": user["invitation"]["invitation"], "name": name })).await;
        assert_eq!(token.status, 201, "{token:?}");
        self.with_token(token.body["token"].as_str().unwrap())
    }
}

impl Agent {
    pub(crate) async fn invoke(&self, action: &str, params: Value) -> Answer {
        self.invoke_with(json!({ "action": action, "params": params })).await
    }

    pub(crate) async fn invoke_with(&self, body: Value) -> Answer {
        self.client.post(&format!("/api/v1/sessions/{}/actions/invoke", self.session), body).await
    }

    /// Makes a call that must become pending, and returns its id.
    pub(crate) async fn pending(&self, action: &str, params: Value) -> String {
        let answer = self.invoke(action, params).await;
        assert_eq!(answer.status, 202, "{answer:?}");
        answer.id()
    }
}

impl Answer {
    pub(crate) async fn of(response: reqwest::Response) -> Self {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let bytes = response.bytes().await.unwrap_or_default();
        let body = serde_json::from_slice(&bytes).unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
        Self { status, headers, body }
    }

    /// The body of an answer, which must be a success.
    #[track_caller]
    pub(crate) fn ok(self) -> Value {
        assert!((200..300).contains(&self.status), "{self:?}");
        self.body
    }

    pub(crate) fn id(&self) -> String {
        let id = self.body["invocation"]["id"].as_str().or_else(|| self.body["invocation_id"].as_str());
        id.unwrap_or_else(|| panic!("no invocation in {self:?}")).to_owned()
    }

    /// Checks that the answer is this problem, in the documented shape.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16, code: &str) {
        assert_eq!((self.status, self.body["code"].as_str()), (status, Some(code)), "{self:#?}");
        assert_eq!(self.headers["content-type"], "application/problem+json", "{self:?}");
        assert_eq!(self.body["status"], status);
        assert_eq!(self.body["type"], format!("/docs/errors/{code}"));
        for field in ["title", "detail", "trace_id"] {
            assert!(self.body[field].as_str().is_some_and(|text| !text.is_empty()), "`{field}` is missing: {self:?}");
        }
    }
}

/// A text that hides another text only a model reads. A call that contains it is always quarantined.
pub(crate) fn smuggled(shown: &str, hidden: &str) -> String {
    let tags = hidden.bytes().filter_map(|byte| char::from_u32(0xe0000 + u32::from(byte)));
    shown.chars().chain(tags).collect()
}

pub(crate) fn fake_source() -> FakeSource {
    let write = |tier: Tier| {
        move |action: &mut Action| {
            action.tier = tier;
            action.repeatability = Repeatability::NotRepeatable;
            action.reversibility = Reversibility::NotReversible;
            action.preview = Preview::Supported;
            action.params_schema = json!({
                "type": "object",
                "properties": { "text": { "type": "string", "maxLength": 1000 }, "count": { "type": "integer" }, "password": { "type": "string" }, "space_id": { "type": "string" } },
                "additionalProperties": false
            });
            action.idempotency_key_fields = vec!["text".into()];
        }
    };
    FakeSource::new("fake")
        .offering("read", |_| {})
        .offering("write", write(Tier::R2))
        .offering("send", move |action| {
            write(Tier::R3)(action);
            action.preview = Preview::Unsupported;
        })
        .offering("destroy", write(Tier::R4))
}
