//! Builds the parts of the server: store, sources, pipeline. The sources are handed to the pipeline; no other part keeps one.

use crate::energy::{POWERCAP, Rapl};
use crate::render;
use countersign_core::checks::Commands;
use countersign_core::energy::Energy;
use countersign_core::fault::Faults;
use countersign_core::limiter::RateLimiter;
use countersign_core::ports::Blobs;
use countersign_core::resident::Residents;
use countersign_core::source::SourceRegistry;
use countersign_core::{Clock, OrgId, Random, Secret};
use homes::jail::{LateJail, SandboxJail};
use homes::{AddedConfig, AddedRegistry, AllowLists, Fixed, Ground, Homes};
use host::config::{Config, EmailSender, KeySecret};
use host::data_dir::{self, DataDir};
use host::{Error, MasterKeyFiles, OsRandom};
use metrics_exporter_prometheus::PrometheusHandle;
use notify::{Courier, CourierConfig};
use operations::{Parts, SignIn};
use pipeline::{Pipeline, Ports, Settings};
use sources::blobs::{Bucket, BucketLogin, ObjectBlobs};
use sources::builtin;
use sources::builtin::http::HttpConfig;
use sources::connection::{Connected, ConnectedConfig, OrgSenders};
use sources::mail::{MailLogin, Mailer, Route, Sender, Senders};
use sources::mcp::ProgramFolders;
use sources::oauth::Own;
use std::path::Path;
use std::sync::Arc;
use store::{MemoryLimiter, Purpose, RedisLimiter, Store};

/// Builds all parts. Returns the owner's token if this start created the org.
pub(crate) async fn compose(
    config: &Config,
    data: &DataDir,
    store: Store,
    address: Own,
    metrics: Option<PrometheusHandle>,
) -> Result<(Parts, Option<String>), Error> {
    let (first_org, token) = first_org(&store, data).await?;
    let allowed = allowed(config, data, &store, &first_org)?;
    let clock = store.clock();
    let random: Arc<dyn Random> = Arc::new(OsRandom::default());
    let faults = faults();
    let mailer = Arc::new(mailer(config)?);
    let connections = connections(config, &store, &clock, &random, &mailer)?;
    let default = config.email.sender.as_ref().map(sender).transpose()?;
    let senders: Arc<dyn Senders> = Arc::new(OrgSenders::new(connections.clone(), default));
    let jail = jail(config).await?;
    let profiles = jail.profiles();
    let residents = residents(config, &jail);
    let ground = Ground {
        config: config.clone(),
        data: data.path().to_owned(),
        first: first_org,
        builtin: builtin_parts(config, &store, &random, &mailer, &senders),
        jail,
        faults: faults.clone(),
    };
    let homes = Arc::new(Homes::open(ground).map_err(|error| Error::Source(error.to_string()))?);
    let added = Arc::new(added(config, &store, &connections, residents, &homes, allowed));
    let pipeline = Pipeline::new(
        Ports {
            ledger: Arc::new(store.clone()),
            keyring: Arc::new(store.clone()),
            limiter: limiter(config, &clock).await?,
            clock: Arc::clone(&clock),
            random: Arc::clone(&random),
            sources: Vec::new(),
            // Of two sources with one name, the first counts.
            registries: vec![Arc::clone(&homes) as Arc<dyn SourceRegistry>, Arc::clone(&added) as Arc<dyn SourceRegistry>],
            listings: Arc::new(store.clone()),
            commands: Some(Arc::clone(&homes) as Arc<dyn Commands>),
            energy: Rapl::open(Path::new(POWERCAP)).map(|rapl| Arc::new(rapl) as Arc<dyn Energy>),
            blobs: Some(blobs(config, data)?),
            faults,
        },
        Settings { reward: config.reward_weights, ..Settings::default() },
    );
    let courier = courier(config, &store, &pipeline, &random, &address, (mailer, senders))?;
    // The redaction rules compile at first use. This call does that now, so that the first caller does not wait for it.
    let _warm = policy::redact_text("warming the redaction rules up");
    let sign_in = match config.oidc.clone() {
        Some(oidc) => Some(SignIn::open(oidc, &store).await?),
        None => None,
    };
    let engine = engine(config, &store, &pipeline, &clock, &random)?;
    let parts = Parts {
        store,
        pipeline,
        random,
        clock,
        metrics,
        homes: Some(homes),
        added,
        connections,
        courier,
        master_key: MasterKeyFiles::of(config),
        address,
        has_public_url: config.public_url.is_some(),
        profiles,
        sign_in,
        engine,
    };
    Ok((parts, token))
}

/// In a debug build, kills the process at the point that `FAULT_POINT` names, or the n-th time it gets there (`name:n`), so that a test can
/// check the recovery.
fn faults() -> Faults {
    if !cfg!(debug_assertions) {
        return Faults::default();
    }
    match std::env::var("FAULT_POINT") {
        Ok(at) => Faults::at(&at, || {
            // Like `kill -9`: nothing is flushed or reported.
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        }),
        Err(_) => Faults::default(),
    }
}

/// The first org, with its owner's token if this call created it.
async fn first_org(store: &Store, data: &DataDir) -> Result<(OrgId, Option<String>), Error> {
    let orgs = store.list_orgs().await?;
    let (org, token) = match orgs.into_iter().next() {
        Some(org) => (org.id, None),
        None => {
            let token = store.draw_owner_token();
            data.write_owner_token(&token)?;
            let first = store.create_org("default", "owner", token.clone()).await?;
            (first.org, Some(token.expose().clone()))
        }
    };
    store.check_keys(&org).await?;
    write_public_key(store, data, &org).await?;
    Ok((org, token))
}

async fn write_public_key(store: &Store, data: &DataDir, org: &OrgId) -> Result<(), Error> {
    let keys = store.list_log_keys(org).await?;
    let first = keys.iter().find(|key| key.purpose == Purpose::Receipt);
    match first.and_then(|key| receipt::key::PublicKey::from_base64(&key.public).ok()) {
        Some(key) => data.write_public_key(&key.to_pem()),
        None => Ok(()),
    }
}

async fn limiter(config: &Config, clock: &Arc<dyn Clock>) -> Result<Arc<dyn RateLimiter>, Error> {
    Ok(match &config.redis {
        None => Arc::new(MemoryLimiter::new(config.invocations_per_minute, Arc::clone(clock))),
        Some(url) => Arc::new(RedisLimiter::connect(url, config.invocations_per_minute).await.map_err(Error::Limiter)?),
    })
}

/// Where the bytes of artifacts are.
fn blobs(config: &Config, data: &DataDir) -> Result<Arc<dyn Blobs>, Error> {
    let opened = match &config.artifacts.bucket {
        None => ObjectBlobs::in_folder(&data_dir::artifacts_below(data.path())),
        Some(bucket) => {
            let login = bucket.login.as_ref().map(|key| {
                let secret_access_key = match &key.secret {
                    KeySecret::Text(text) => text.clone(),
                    KeySecret::File(path) => {
                        let read = std::fs::read_to_string(path);
                        let unread = |error: std::io::Error| {
                            Error::Source(format!("`artifacts`: the file `{}` cannot be read: {error}", path.display()))
                        };
                        Secret::new(read.map_err(unread)?.trim_end_matches(['\r', '\n']).to_owned())
                    }
                };
                Ok::<_, Error>(BucketLogin { access_key_id: key.id.clone(), secret_access_key })
            });
            ObjectBlobs::in_bucket(Bucket {
                name: bucket.name.clone(),
                prefix: bucket.prefix.clone(),
                endpoint: bucket.endpoint.clone(),
                region: bucket.region.clone(),
                login: login.transpose()?,
            })
        }
    };
    Ok(Arc::new(opened.map_err(|error| Error::Source(error.to_string()))?))
}

/// What the builtin sources are made of, as the operator set it.
fn builtin_parts(
    config: &Config,
    store: &Store,
    random: &Arc<dyn Random>,
    mailer: &Arc<Mailer>,
    senders: &Arc<dyn Senders>,
) -> builtin::Parts {
    // An org may have a connection to each server that the operator has named.
    let has_mail = config.email.sender.is_some() || !config.email.allowed_servers.is_empty();
    builtin::Parts {
        documents: Arc::new(store.clone()),
        notifier: Arc::new(store.clone()),
        http: HttpConfig { allowed_hosts: config.http_allowed_hosts.clone(), allowed_networks: config.http_allowed_networks.clone() },
        mail: has_mail.then(|| (Arc::clone(mailer), Arc::clone(senders))),
        clock: store.clock(),
        random: Arc::clone(random),
    }
}

/// Knows the operator's mail server and those that connections and channels may name.
fn mailer(config: &Config) -> Result<Mailer, Error> {
    let email = &config.email;
    let servers = email.sender.iter().map(|sender| &sender.server).chain(&email.allowed_servers).cloned().collect();
    let authorities = email.ca_cert.as_deref().map(read_mail_file).transpose()?;
    Mailer::new(servers, authorities.as_deref()).map_err(|error| Error::Source(error.to_string()))
}

fn sender(named: &EmailSender) -> Result<Sender, Error> {
    let login = named.login.as_ref().map(|login| {
        let password = Secret::new(read_mail_file(&login.password_file)?.trim_end_matches(['\r', '\n']).to_owned());
        Ok::<_, Error>(MailLogin { username: login.username.clone(), password })
    });
    Ok(Sender { route: Route { server: named.server.clone(), login: login.transpose()? }, from: named.from.clone() })
}

fn read_mail_file(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|error| Error::Source(format!("`email`: the file `{}` cannot be read: {error}", path.display())))
}

fn connections(
    config: &Config,
    store: &Store,
    clock: &Arc<dyn Clock>,
    random: &Arc<dyn Random>,
    mailer: &Arc<Mailer>,
) -> Result<Connected, Error> {
    let (allowed_hosts, allowed_networks) = (config.source_allowed_hosts.clone(), config.source_allowed_networks.clone());
    let allowed = ConnectedConfig { allowed_hosts, allowed_networks, mailer: Arc::clone(mailer) };
    let connected = Connected::new(allowed, Arc::new(store.clone()), Arc::clone(clock), Arc::clone(random));
    connected.map_err(|error| Error::Source(error.to_string()))
}

fn courier(
    config: &Config,
    store: &Store,
    pipeline: &Pipeline,
    random: &Arc<dyn Random>,
    address: &Own,
    (mailer, senders): (Arc<Mailer>, Arc<dyn Senders>),
) -> Result<Courier, Error> {
    let courier = Courier::new(CourierConfig {
        store: store.clone(),
        pipeline: pipeline.clone(),
        clock: store.clock(),
        random: Arc::clone(random),
        address: address.clone(),
        allowed_hosts: config.source_allowed_hosts.clone(),
        allowed_networks: config.source_allowed_networks.clone(),
        mailer,
        senders,
        slack_api_url: config.slack_api_url.clone(),
        patience: CourierConfig::PATIENCE,
    });
    courier.map_err(|error| Error::Source(error.to_string()))
}

/// Runs automations with the workers that the operator has named for each queue.
fn engine(
    config: &Config,
    store: &Store,
    pipeline: &Pipeline,
    clock: &Arc<dyn Clock>,
    random: &Arc<dyn Random>,
) -> Result<runs::Engine, Error> {
    let ports = runs::Ports {
        ledger: Arc::new(store.clone()),
        pipeline: pipeline.clone(),
        renderer: render::renderer().map_err(|error| Error::Source(error.to_string()))?,
        clock: Arc::clone(clock),
        random: Arc::clone(random),
    };
    let queues = config.workers.queues().map(|(name, workers)| runs::Queue { name: name.to_owned(), workers }).collect();
    Ok(runs::Engine::new(ports, runs::Settings { queues }))
}

/// The registry of the sources that admins add.
fn added(
    config: &Config,
    store: &Store,
    connections: &Connected,
    residents: Arc<dyn Residents>,
    homes: &Arc<Homes>,
    allowed: Arc<AllowLists>,
) -> AddedRegistry {
    AddedRegistry::new(AddedConfig {
        store: store.clone(),
        connections: connections.clone(),
        allowed,
        residents: Some(residents),
        homes: Some(Arc::clone(homes)),
        sources_max: config.max_sources,
    })
}

/// What the file of settings allows sources, and operators beside it.
fn allowed(config: &Config, data: &DataDir, store: &Store, first: &OrgId) -> Result<Arc<AllowLists>, Error> {
    let fixed = Fixed {
        hosts: config.source_allowed_hosts.clone(),
        networks: config.source_allowed_networks.clone(),
        commands: config.mcp_commands.clone(),
        folders: config.allow_mcp_commands.then(|| ProgramFolders::below(data.path())),
    };
    let lists = AllowLists::new(store.clone(), first.clone(), fixed);
    Ok(Arc::new(lists.map_err(|error| Error::Source(error.to_string()))?))
}

/// Where programs of sources run. An operator allows each of them by name, so that needs no leave for code of packages.
fn residents(config: &Config, jail: &Arc<SandboxJail>) -> Arc<dyn Residents> {
    match (config.allow_plugin_code_execution, config.allow_mcp_commands) {
        (false, true) => Arc::new(LateJail::new(config.allow_degraded)),
        (true, _) | (false, false) => Arc::clone(jail) as Arc<dyn Residents>,
    }
}

/// Probes the host's sandbox only if package code may run.
async fn jail(config: &Config) -> Result<Arc<SandboxJail>, Error> {
    let (may_run_code, allow_degraded) = (config.allow_plugin_code_execution, config.allow_degraded);
    let open = move || if may_run_code { SandboxJail::open(allow_degraded) } else { SandboxJail::closed() };
    let opened = tokio::task::spawn_blocking(open).await;
    Ok(Arc::new(opened.map_err(|error| Error::Source(error.to_string()))?))
}
