//! The operator's settings: flags, then environment, then file, then defaults. An unknown key is an error, so that a typo is noticed at
//! once.

mod artifacts;
mod email;
mod oidc;
mod workers;

pub use artifacts::{ArtifactsConfig, BucketConfig, BucketKey, KeySecret};
pub use email::{EmailConfig, EmailLogin, EmailSender};
pub use oidc::{ClientSecret, OidcConfig};
pub use workers::Workers;

use crate::limits;
use crate::tls::TlsFiles;
use artifacts::ArtifactsSection;
use countersign_core::limiter::RateLimits;
use email::EmailSection;
use ipnet::IpNet;
use oidc::OidcSection;
use pipeline::RewardWeights;
use serde::Deserialize;
use sources::command::AllowedCommand;
use sources::mcp::AllowedProgram;
use sources::web::HostRule;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use tracing_subscriber::filter::{LevelFilter, Targets};
use workers::WorkersSection;

const DEFAULT_DATA: &str = "./countersign-data";
const DEFAULT_LISTEN: &str = "127.0.0.1:7117";
const FILE_NAME: &str = "countersign.toml";
/// Variables with the same prefix that the command line reads, not the server.
const CLIENT_VARIABLES: &[&str] = &["URL", "TOKEN", "SESSION", "CONTEXT", "CONFIG_HOME", "CA_CERT"];

/// Everything the server is built from.
#[derive(Clone, Debug)]
pub struct Config {
    pub data: PathBuf,
    pub listen: String,
    /// The certificate to show and its key; absent: plain HTTP.
    pub tls: Option<TlsFiles>,
    /// The proxies whose word counts for who a client is and what it asked for.
    pub trusted_proxies: Vec<IpNet>,
    /// The headers that these proxies write. What they do not write, a client may have written.
    pub proxy_headers: Vec<ProxyHeader>,
    /// A PostgreSQL URL; absent: SQLite inside `data`.
    pub database: Option<String>,
    pub redis: Option<String>,
    pub http_allowed_hosts: Vec<HostRule>,
    pub http_allowed_networks: Vec<IpNet>,
    /// How often a session may invoke in a minute, and, if set, a person with all that acts for them, and a space.
    pub invocations_per_minute: RateLimits,
    /// Absent: text if the log goes to a terminal, otherwise JSON.
    pub log_format: Option<LogFormat>,
    pub log_level: Targets,
    /// The file with the master key; absent: `master.key` inside `data`, created at the first start.
    pub master_key_file: Option<PathBuf>,
    /// Whether code of packages may run, in the sandbox. If not, packages are listed and calls to them are refused.
    pub allow_plugin_code_execution: bool,
    /// Whether programs that an operator allows by name may be MCP servers. They may, unless the setting above is `false`.
    pub allow_mcp_commands: bool,
    /// Whether the profile `default` may run without Landlock if the kernel does not support enough of it. Every outcome then says so.
    pub allow_degraded: bool,
    /// The hosts that package code may send requests to, if its manifest names them too.
    pub package_allowed_hosts: Vec<HostRule>,
    pub package_allowed_networks: Vec<IpNet>,
    /// The hosts that sources and connections may reach: MCP servers, and those where people log in.
    pub source_allowed_hosts: Vec<HostRule>,
    pub source_allowed_networks: Vec<IpNet>,
    /// The address at which people and authorization servers reach this server, if it is not the one it listens on.
    pub public_url: Option<String>,
    /// Where Slack is, if it is elsewhere than usual. The tokens of channels are sent there.
    pub slack_api_url: Option<String>,
    /// The programs that may be MCP servers.
    pub mcp_commands: Vec<AllowedProgram>,
    /// How many sources the admins of one org may add.
    pub max_sources: u32,
    /// The commands that may verify an effect.
    pub command_allowlist: Vec<AllowedCommand>,
    /// The weight of each part of a receipt's reward.
    pub reward_weights: RewardWeights,
    /// The mail servers that there are.
    pub email: EmailConfig,
    /// Where people sign in; absent: with tokens only.
    pub oidc: Option<OidcConfig>,
    /// How many runs of automations this server works on at once.
    pub workers: Workers,
    /// Where artifacts are kept.
    pub artifacts: ArtifactsConfig,
}

/// A header in which a proxy says who asked it, and for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyHeader {
    Forwarded,
    XForwardedFor,
    XForwardedProto,
    XForwardedHost,
}

impl ProxyHeader {
    pub const ALL: [Self; 4] = [Self::Forwarded, Self::XForwardedFor, Self::XForwardedProto, Self::XForwardedHost];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Forwarded => "forwarded",
            Self::XForwardedFor => "x-forwarded-for",
            Self::XForwardedProto => "x-forwarded-proto",
            Self::XForwardedHost => "x-forwarded-host",
        }
    }
}

impl std::str::FromStr for ProxyHeader {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = || format!("known are {}", Self::ALL.map(Self::as_str).join(", "));
        Self::ALL.into_iter().find(|header| header.as_str().eq_ignore_ascii_case(text)).ok_or_else(known)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    Json,
    Text,
}

/// The flags of the command line.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    pub data: Option<PathBuf>,
    pub listen: Option<String>,
    pub tls_cert: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
    pub database: Option<String>,
    pub redis: Option<String>,
    pub config: Option<PathBuf>,
}

/// What is wrong with the configuration, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error("the config file `{path}` cannot be read: {message}", path = path.display())]
    Unreadable { path: PathBuf, message: String },
    #[error("the config file `{path}` is not valid: {message}", path = path.display())]
    Invalid { path: PathBuf, message: String },
    #[error("there is no setting `{name}`; known are {known}")]
    UnknownVariable { name: String, known: String },
    #[error("`{name}` is not valid: {message}")]
    InvalidValue { name: String, message: String },
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    listen: Option<String>,
    tls_cert: Option<PathBuf>,
    tls_key: Option<PathBuf>,
    trusted_proxies: Option<Vec<String>>,
    proxy_headers: Option<Vec<String>>,
    database: Option<String>,
    redis: Option<String>,
    master_key_file: Option<PathBuf>,
    allow_plugin_code_execution: Option<bool>,
    allow_degraded: Option<bool>,
    package_allowed_hosts: Option<Vec<String>>,
    package_allowed_networks: Option<Vec<String>>,
    source_allowed_hosts: Option<Vec<String>>,
    source_allowed_networks: Option<Vec<String>>,
    public_url: Option<String>,
    slack_api_url: Option<String>,
    #[serde(default)]
    mcp_commands: Vec<AllowedProgram>,
    max_sources: Option<u32>,
    command_allowlist: Option<Vec<String>>,
    reward_weights: Option<Vec<String>>,
    #[serde(default)]
    http: HttpSection,
    #[serde(default)]
    limits: LimitsSection,
    #[serde(default)]
    log: LogSection,
    #[serde(default)]
    email: EmailSection,
    #[serde(default)]
    oidc: OidcSection,
    #[serde(default)]
    workers: WorkersSection,
    #[serde(default)]
    artifacts: ArtifactsSection,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct HttpSection {
    allowed_hosts: Option<Vec<String>>,
    allowed_networks: Option<Vec<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitsSection {
    invocations_per_minute: Option<u32>,
    person_invocations_per_minute: Option<u32>,
    space_invocations_per_minute: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct LogSection {
    format: Option<LogFormat>,
    level: Option<String>,
}

impl Config {
    /// Flags win over the environment, the environment over the file, the file over defaults.
    pub fn load(flags: Flags, env: impl Iterator<Item = (String, String)>) -> Result<Self, ConfigError> {
        let env = Environment::read(env)?;
        let data = flags.data.or(env.data).unwrap_or_else(|| DEFAULT_DATA.into());
        let file = read_file(flags.config.or(env.config), &data)?;
        let hosts = env.http_allowed_hosts.or(file.http.allowed_hosts).unwrap_or_default();
        let commands = env.command_allowlist.or(file.command_allowlist).unwrap_or_default();
        let networks = env.http_allowed_networks.or(file.http.allowed_networks).unwrap_or_default();
        let package_hosts = env.package_allowed_hosts.or(file.package_allowed_hosts).unwrap_or_default();
        let package_networks = env.package_allowed_networks.or(file.package_allowed_networks).unwrap_or_default();
        let source_hosts = env.source_allowed_hosts.or(file.source_allowed_hosts).unwrap_or_default();
        let source_networks = env.source_allowed_networks.or(file.source_allowed_networks).unwrap_or_default();
        let proxies = env.trusted_proxies.or(file.trusted_proxies).unwrap_or_default();
        let proxy_headers = env.proxy_headers.or(file.proxy_headers).map(|named| parse_all("proxy_headers", &named)).transpose()?;
        let code = env.allow_plugin_code_execution.or(file.allow_plugin_code_execution);
        let tls = tls(flags.tls_cert.or(env.tls_cert).or(file.tls_cert), flags.tls_key.or(env.tls_key).or(file.tls_key))?;
        Ok(Self {
            listen: listen_address(flags.listen.or(env.listen).or(file.listen))?,
            trusted_proxies: parse_all("trusted_proxies", &proxies)?,
            proxy_headers: proxy_headers.unwrap_or_else(|| ProxyHeader::ALL.to_vec()),
            database: flags.database.or(env.database).or(file.database),
            redis: flags.redis.or(env.redis).or(file.redis),
            http_allowed_hosts: parse_all("http.allowed_hosts", &hosts)?,
            http_allowed_networks: parse_networks("http.allowed_networks", &networks)?,
            invocations_per_minute: RateLimits {
                session: env.invocations_per_minute.or(file.limits.invocations_per_minute).unwrap_or(limits::INVOCATIONS_PER_MINUTE_MAX),
                person: env.person_invocations_per_minute.or(file.limits.person_invocations_per_minute),
                space: env.space_invocations_per_minute.or(file.limits.space_invocations_per_minute),
            },
            log_format: env.log_format.or(file.log.format),
            log_level: log_level(env.log_level.or(file.log.level).as_deref().unwrap_or("info"))?,
            master_key_file: env.master_key_file.or(file.master_key_file),
            allow_plugin_code_execution: code.unwrap_or(false),
            allow_mcp_commands: code.unwrap_or(true),
            allow_degraded: env.allow_degraded.or(file.allow_degraded).unwrap_or(false),
            package_allowed_hosts: parse_all("package_allowed_hosts", &package_hosts)?,
            package_allowed_networks: parse_networks("package_allowed_networks", &package_networks)?,
            source_allowed_hosts: parse_all("source_allowed_hosts", &source_hosts)?,
            source_allowed_networks: parse_networks("source_allowed_networks", &source_networks)?,
            public_url: env.public_url.or(file.public_url).map(|text| public_url(text, tls.as_ref())).transpose()?,
            slack_api_url: env.slack_api_url.or(file.slack_api_url).map(|text| base_url("slack_api_url", &text)).transpose()?,
            tls,
            mcp_commands: mcp_commands(file.mcp_commands)?,
            max_sources: max_sources(env.max_sources.or(file.max_sources))?,
            command_allowlist: parse_all("command_allowlist", &commands)?,
            reward_weights: reward_weights(&env.reward_weights.or(file.reward_weights).unwrap_or_default())?,
            email: env.email.or(file.email).read()?,
            oidc: env.oidc.or(file.oidc).read()?,
            workers: env.workers.or(file.workers).read()?,
            artifacts: env.artifacts.or(file.artifacts).read()?,
            data,
        })
    }

    pub fn data_dir(&self) -> &Path {
        &self.data
    }
}

#[derive(Default)]
struct Environment {
    data: Option<PathBuf>,
    config: Option<PathBuf>,
    listen: Option<String>,
    tls_cert: Option<PathBuf>,
    tls_key: Option<PathBuf>,
    trusted_proxies: Option<Vec<String>>,
    proxy_headers: Option<Vec<String>>,
    database: Option<String>,
    redis: Option<String>,
    http_allowed_hosts: Option<Vec<String>>,
    http_allowed_networks: Option<Vec<String>>,
    invocations_per_minute: Option<u32>,
    person_invocations_per_minute: Option<u32>,
    space_invocations_per_minute: Option<u32>,
    log_format: Option<LogFormat>,
    log_level: Option<String>,
    master_key_file: Option<PathBuf>,
    allow_plugin_code_execution: Option<bool>,
    allow_degraded: Option<bool>,
    package_allowed_hosts: Option<Vec<String>>,
    package_allowed_networks: Option<Vec<String>>,
    source_allowed_hosts: Option<Vec<String>>,
    source_allowed_networks: Option<Vec<String>>,
    public_url: Option<String>,
    slack_api_url: Option<String>,
    max_sources: Option<u32>,
    command_allowlist: Option<Vec<String>>,
    reward_weights: Option<Vec<String>>,
    email: EmailSection,
    oidc: OidcSection,
    workers: WorkersSection,
    artifacts: ArtifactsSection,
}

/// The variables the server reads, without their prefix `COUNTERSIGN_`.
const VARIABLES: &[&str] = &[
    "DATA",
    "CONFIG",
    "LISTEN",
    "TLS_CERT",
    "TLS_KEY",
    "TRUSTED_PROXIES",
    "PROXY_HEADERS",
    "DATABASE",
    "REDIS",
    "HTTP_ALLOWED_HOSTS",
    "HTTP_ALLOWED_NETWORKS",
    "INVOCATIONS_PER_MINUTE",
    "PERSON_INVOCATIONS_PER_MINUTE",
    "SPACE_INVOCATIONS_PER_MINUTE",
    "LOG_FORMAT",
    "LOG_LEVEL",
    "MASTER_KEY_FILE",
    "ALLOW_PLUGIN_CODE_EXECUTION",
    "ALLOW_DEGRADED",
    "PACKAGE_ALLOWED_HOSTS",
    "PACKAGE_ALLOWED_NETWORKS",
    "SOURCE_ALLOWED_HOSTS",
    "SOURCE_ALLOWED_NETWORKS",
    "PUBLIC_URL",
    "SLACK_API_URL",
    "MAX_SOURCES",
    "COMMAND_ALLOWLIST",
    "REWARD_WEIGHTS",
    "WORKERS_…",
    "EMAIL_SERVER",
    "EMAIL_FROM",
    "EMAIL_USERNAME",
    "EMAIL_PASSWORD_FILE",
    "EMAIL_ALLOWED_SERVERS",
    "EMAIL_CA_CERT",
];

impl Environment {
    fn read(env: impl Iterator<Item = (String, String)>) -> Result<Self, ConfigError> {
        let mut read = Self::default();
        for (name, value) in env {
            let Some(key) = name.strip_prefix("COUNTERSIGN_") else {
                continue;
            };
            let list = || value.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect();
            match key {
                "DATA" => read.data = Some(value.into()),
                "CONFIG" => read.config = Some(value.into()),
                "LISTEN" => read.listen = Some(value),
                "TLS_CERT" => read.tls_cert = Some(value.into()),
                "TLS_KEY" => read.tls_key = Some(value.into()),
                "TRUSTED_PROXIES" => read.trusted_proxies = Some(list()),
                "PROXY_HEADERS" => read.proxy_headers = Some(list()),
                "DATABASE" => read.database = Some(value),
                "REDIS" => read.redis = Some(value),
                "HTTP_ALLOWED_HOSTS" => read.http_allowed_hosts = Some(list()),
                "HTTP_ALLOWED_NETWORKS" => read.http_allowed_networks = Some(list()),
                "INVOCATIONS_PER_MINUTE" => read.invocations_per_minute = Some(whole_number(name, &value)?),
                "PERSON_INVOCATIONS_PER_MINUTE" => read.person_invocations_per_minute = Some(whole_number(name, &value)?),
                "SPACE_INVOCATIONS_PER_MINUTE" => read.space_invocations_per_minute = Some(whole_number(name, &value)?),
                "LOG_FORMAT" => {
                    read.log_format = Some(match value.as_str() {
                        "json" => LogFormat::Json,
                        "text" => LogFormat::Text,
                        _ => return Err(ConfigError::InvalidValue { name, message: "expected `json` or `text`".into() }),
                    });
                }
                "LOG_LEVEL" => read.log_level = Some(value),
                "MASTER_KEY_FILE" => read.master_key_file = Some(value.into()),
                "ALLOW_PLUGIN_CODE_EXECUTION" => read.allow_plugin_code_execution = Some(true_or_false(name, &value)?),
                "ALLOW_DEGRADED" => read.allow_degraded = Some(true_or_false(name, &value)?),
                "PACKAGE_ALLOWED_HOSTS" => read.package_allowed_hosts = Some(list()),
                "PACKAGE_ALLOWED_NETWORKS" => read.package_allowed_networks = Some(list()),
                "SOURCE_ALLOWED_HOSTS" => read.source_allowed_hosts = Some(list()),
                "SOURCE_ALLOWED_NETWORKS" => read.source_allowed_networks = Some(list()),
                "PUBLIC_URL" => read.public_url = Some(value),
                "SLACK_API_URL" => read.slack_api_url = Some(value),
                "MAX_SOURCES" => read.max_sources = Some(whole_number(name, &value)?),
                "COMMAND_ALLOWLIST" => read.command_allowlist = Some(list()),
                "REWARD_WEIGHTS" => read.reward_weights = Some(list()),
                "EMAIL_SERVER" => read.email.server = Some(value),
                "EMAIL_FROM" => read.email.from = Some(value),
                "EMAIL_USERNAME" => read.email.username = Some(value),
                "EMAIL_PASSWORD_FILE" => read.email.password_file = Some(value.into()),
                "EMAIL_ALLOWED_SERVERS" => read.email.allowed_servers = Some(list()),
                "EMAIL_CA_CERT" => read.email.ca_cert = Some(value.into()),
                of_oidc if oidc::VARIABLES.contains(&of_oidc) => {
                    let items = list();
                    read.oidc.take(of_oidc, value, items)?;
                }
                of_artifacts if artifacts::VARIABLES.contains(&of_artifacts) => read.artifacts.take(of_artifacts, value),
                workers if let Some(queue) = workers.strip_prefix("WORKERS_") => {
                    read.workers.0.insert(queue.to_lowercase(), whole_number(name, &value)?);
                }
                client if CLIENT_VARIABLES.contains(&client) => {}
                _ => {
                    let all = VARIABLES.iter().chain(oidc::VARIABLES).chain(artifacts::VARIABLES);
                    let known = all.map(|known| format!("COUNTERSIGN_{known}")).collect::<Vec<_>>().join(", ");
                    return Err(ConfigError::UnknownVariable { name, known });
                }
            }
        }
        Ok(read)
    }
}

/// Checks that the setting is a host and a port. Whether the server can listen there is only known once it tries.
fn listen_address(named: Option<String>) -> Result<String, ConfigError> {
    let address = named.unwrap_or_else(|| DEFAULT_LISTEN.into());
    let is_address = address.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    if is_address {
        return Ok(address);
    }
    Err(ConfigError::InvalidValue {
        name: "listen".into(),
        message: format!("`{address}` is not a host and a port, such as {DEFAULT_LISTEN}"),
    })
}

/// A certificate is of no use without its key, and the key without it.
fn tls(cert: Option<PathBuf>, key: Option<PathBuf>) -> Result<Option<TlsFiles>, ConfigError> {
    let alone = |name: &str, other: &str| ConfigError::InvalidValue { name: name.into(), message: format!("it needs `{other}` beside it") };
    match (cert, key) {
        (Some(cert), Some(key)) => Ok(Some(TlsFiles { cert, key })),
        (None, None) => Ok(None),
        (Some(_), None) => Err(alone("tls_cert", "tls_key")),
        (None, Some(_)) => Err(alone("tls_key", "tls_cert")),
    }
}

/// A server with a certificate answers no plain HTTP.
fn public_url(text: String, tls: Option<&TlsFiles>) -> Result<String, ConfigError> {
    if tls.is_some() && text.starts_with("http://") {
        let message = format!("`{text}` is not encrypted, and this server has a certificate: begin it with https://");
        return Err(ConfigError::InvalidValue { name: "public_url".into(), message });
    }
    base_url("public_url", &text)
}

/// Checks that the setting is the beginning of an address, to which paths can be added.
fn base_url(name: &str, text: &str) -> Result<String, ConfigError> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let is_plain = rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/') && !rest.contains(['?', '#', '@', ' ']));
    if is_plain {
        return Ok(text.trim_end_matches('/').to_owned());
    }
    let message = format!("`{text}` is not an address, such as https://countersign.example.com");
    Err(ConfigError::InvalidValue { name: name.into(), message })
}

/// Checks each program, so that a mistake is noticed at the start and not when somebody adds a source.
fn mcp_commands(allowed: Vec<AllowedProgram>) -> Result<Vec<AllowedProgram>, ConfigError> {
    for (at, program) in allowed.iter().enumerate() {
        let is_double = || allowed[..at].iter().any(|other| other.command == program.command);
        let mistake = program.mistake().or_else(|| is_double().then(|| "an earlier one has the same `command`".to_owned()));
        if let Some(message) = mistake {
            return Err(ConfigError::InvalidValue { name: format!("mcp_commands[{at}]"), message });
        }
    }
    Ok(allowed)
}

fn max_sources(named: Option<u32>) -> Result<u32, ConfigError> {
    match named.unwrap_or(limits::SOURCES_MAX_DEFAULT) {
        number @ 0..=limits::SOURCES_MAX => Ok(number),
        number => {
            let message = format!("{number} is more than {}", limits::SOURCES_MAX);
            Err(ConfigError::InvalidValue { name: "max_sources".into(), message })
        }
    }
}

fn whole_number(name: String, value: &str) -> Result<u32, ConfigError> {
    value.parse().map_err(|_| ConfigError::InvalidValue { name, message: "expected a whole number".into() })
}

fn true_or_false(name: String, value: &str) -> Result<bool, ConfigError> {
    value.parse().map_err(|_| ConfigError::InvalidValue { name, message: "expected `true` or `false`".into() })
}

/// A file that the operator names must exist; the default file inside the data folder may be absent.
fn read_file(named: Option<PathBuf>, data: &Path) -> Result<File, ConfigError> {
    let (path, must_exist) = match named {
        Some(path) => (path, true),
        None => (data.join(FILE_NAME), false),
    };
    match std::fs::read_to_string(&path) {
        Ok(text) => toml::from_str(&text).map_err(|error| ConfigError::Invalid { path, message: where_and_what(&text, &error) }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !must_exist => Ok(File::default()),
        Err(error) => Err(ConfigError::Unreadable { path, message: error.to_string() }),
    }
}

/// The error in one line; the parser's own message has several.
fn where_and_what(text: &str, error: &toml::de::Error) -> String {
    let line = error.span().and_then(|span| text.get(..span.start)).map(|before| before.matches('\n').count() + 1);
    let what = error.message().replace('\n', "; ");
    match line {
        Some(line) => format!("line {line}: {what}"),
        None => what,
    }
}

/// Such as `info` or `info,store=debug`. A word that is not a level is refused: it would count as a target and silence everything else.
fn log_level(text: &str) -> Result<Targets, ConfigError> {
    let invalid = |message: String| ConfigError::InvalidValue { name: "log.level".into(), message };
    for part in text.split(',') {
        let level = part.split_once('=').map_or(part, |(_, level)| level);
        level.parse::<LevelFilter>().map_err(|_| invalid(format!("`{level}` is not one of off, error, warn, info, debug, trace")))?;
    }
    text.parse().map_err(|error| invalid(format!("`{text}`: {error}")))
}

/// Reads `part=weight` texts. A part that is not named keeps its default weight.
fn reward_weights(texts: &[String]) -> Result<RewardWeights, ConfigError> {
    let mut weights = RewardWeights::default();
    for text in texts {
        let invalid = |message: &str| ConfigError::InvalidValue { name: "reward_weights".into(), message: format!("`{text}`: {message}") };
        let (part, weight) = text.split_once('=').ok_or_else(|| invalid("expected a part and its weight, such as `success=0.6`"))?;
        let of_part = match part.trim() {
            "success" => &mut weights.success,
            "quality" => &mut weights.quality,
            "cost" => &mut weights.cost,
            "latency" => &mut weights.latency,
            _ => return Err(invalid("the parts are success, quality, cost and latency")),
        };
        let weight = weight.trim().parse().ok().filter(|weight: &f64| (0.0..=1.0).contains(weight));
        *of_part = (weight.ok_or_else(|| invalid("a weight is a number from 0 to 1"))? * 1_000_000.0).round() as i64;
    }
    Ok(weights)
}

/// Networks; of an address alone, the message says how it is written as one.
fn parse_networks(name: &str, texts: &[String]) -> Result<Vec<IpNet>, ConfigError> {
    let alone = texts.iter().find_map(|text| Some((text, text.parse::<IpAddr>().ok()?)));
    match alone {
        Some((text, address)) => {
            let bits = if address.is_ipv4() { 32 } else { 128 };
            let message = format!("`{text}` is an address and no network: write `{text}/{bits}`");
            Err(ConfigError::InvalidValue { name: name.into(), message })
        }
        None => parse_all(name, texts),
    }
}

fn parse_all<T: std::str::FromStr>(name: &str, texts: &[String]) -> Result<Vec<T>, ConfigError>
where
    T::Err: std::fmt::Display,
{
    texts
        .iter()
        .map(|text| {
            text.parse().map_err(|error: T::Err| ConfigError::InvalidValue { name: name.into(), message: format!("`{text}`: {error}") })
        })
        .collect()
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
