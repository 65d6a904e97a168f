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
use countersign_core::Secret;
use countersign_core::limiter::RateLimits;
use ipnet::IpNet;
use pipeline::RewardWeights;
use serde::Deserialize;
use sources::command::AllowedCommand;
use sources::mcp::AllowedProgram;
use sources::web::HostRule;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use tracing_subscriber::filter::{LevelFilter, Targets};
use workers::WorkersSection;

const DEFAULT_DATA: &str = "./countersign-data";
const DEFAULT_LISTEN: &str = "127.0.0.1:7117";
const FILE_NAME: &str = "countersign.toml";
/// Variables with the same prefix that the command line reads, not the server.
const CLIENT_VARIABLES: &[&str] = &["URL", "TOKEN", "SESSION", "CONTEXT", "CONFIG_HOME", "CA_CERT"];

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

/// Everything that is said of a setting in `docs/guides/configuration.md`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedSetting {
    /// Without the prefix that all have; none if only the file has it.
    pub variable: Option<String>,
    /// With its table; none if only a variable has it.
    pub key: Option<String>,
    pub what: &'static str,
    pub default: &'static str,
}

/// A table of the file. Each of its keys is a variable too, unless it is `only` in one of them.
macro_rules! table {
    (
        $name:ident, $table:literal, $prefix:literal,
        { $($(#[$attr:meta])* $key:ident: $raw:ty $(, only $only:ident)?, $what:literal, $default:literal;)* },
        { $($inner:ident: $Inner:ty,)* }
    ) => {
        #[derive(Debug, Default, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct $name {
            $($(#[$attr])* $key: Option<$raw>,)*
            $(#[serde(default)] $inner: $Inner,)*
        }

        impl $name {
            /// Takes a variable, named in lower case without the prefix of all; `false` if it is of another table.
            fn take(&mut self, variable: &str, value: &str) -> Result<bool, ConfigError> {
                $(if variable == concat!($prefix, stringify!($key)) && has_variable(&[$(stringify!($only))?]) {
                    self.$key = Some(from_variable(variable, value)?);
                    return Ok(true);
                })*
                $(if self.$inner.take(variable, value)? {
                    return Ok(true);
                })*
                Ok(false)
            }

            /// These settings, and those of the other where there is none.
            fn or(self, other: Self) -> Self {
                Self { $($key: self.$key.or(other.$key),)* $($inner: self.$inner.or(other.$inner),)* }
            }

            fn described() -> Vec<DescribedSetting> {
                let own = vec![$(described(
                    concat!($prefix, stringify!($key)), concat!($table, stringify!($key)), &[$(stringify!($only))?], $what, $default
                )),*];
                let inner: Vec<Vec<DescribedSetting>> = vec![$(<$Inner>::described()),*];
                own.into_iter().chain(inner.into_iter().flatten()).collect()
            }
        }
    };
}

/// Declares every setting once: its key, the type that file and variable have, what the docs say of it, and, after `=>`, the field of `Config`
/// with what makes it of the setting. What is made of several is `made` apart.
macro_rules! settings {
    (
        root {
            $($(#[$attr:meta])* $key:ident: $raw:ty $(, only $only:ident)?, $what:literal, $default:literal
                $(=> $(#[$doc:meta])* $field:ident: $type:ty = $read:expr)?;)*
        }
        $(table $inner:ident: $Inner:ident, $table:literal, $prefix:literal {
            $($(#[$in_attr:meta])* $in_key:ident: $in_raw:ty $(, only $in_only:ident)?, $in_what:literal, $in_default:literal
                $(=> $(#[$in_doc:meta])* $in_field:ident: $in_type:ty = $in_read:expr)?;)*
        })*
        also { $($other:ident: $Other:ty,)* }
        made { $($(#[$made_doc:meta])* $made:ident: $Made:ty,)* }
    ) => {
        table!(File, "", "", { $($(#[$attr])* $key: $raw $(, only $only)?, $what, $default;)* }, { $($inner: $Inner,)* $($other: $Other,)* });
        $(table!($Inner, $table, $prefix, { $($(#[$in_attr])* $in_key: $in_raw $(, only $in_only)?, $in_what, $in_default;)* }, {});)*

        /// Everything the server is built from.
        #[derive(Clone, Debug)]
        pub struct Config {
            $($($(#[$doc])* pub $field: $type,)?)*
            $($($($(#[$in_doc])* pub $in_field: $in_type,)?)*)*
            $($(#[$made_doc])* pub $made: $Made,)*
        }

        /// What is made of several settings.
        struct ComposedSettings {
            $($made: $Made,)*
        }

        impl Config {
            fn of(file: File, made: ComposedSettings) -> Result<Self, ConfigError> {
                Ok(Self {
                    $($($field: read(stringify!($key), file.$key, $read)?,)?)*
                    $($($($in_field: read(concat!($table, stringify!($in_key)), file.$inner.$in_key, $in_read)?,)?)*)*
                    $($made: made.$made,)*
                })
            }
        }
    };
}

fn read<R, T>(name: &str, set: Option<R>, read: impl FnOnce(&str, Option<R>) -> Result<T, ConfigError>) -> Result<T, ConfigError> {
    read(name, set)
}

fn has_variable(only: &[&str]) -> bool {
    only != ["file"]
}

fn described(variable: &str, key: &str, only: &[&str], what: &'static str, default: &'static str) -> DescribedSetting {
    let variable = has_variable(only).then(|| variable.to_uppercase());
    DescribedSetting { variable, key: (only != ["variable"]).then(|| key.to_owned()), what, default }
}

settings! {
    root {
        listen: String, "address", "`127.0.0.1:7117`" => listen: String = listen_address;
        tls_cert: PathBuf, "certificate for https, with its chain, [below](#https)", "none: plain HTTP";
        tls_key: PathBuf, "key of the certificate", "none";
        trusted_proxies: Vec<String>, "networks of [proxies](#behind-a-proxy) whose headers are believed", "none" =>
            /// The proxies whose word counts for who a client is and what it asked for.
            trusted_proxies: Vec<IpNet> = all;
        proxy_headers: Vec<String>, "the [headers](#behind-a-proxy) that these proxies write",
            "`forwarded`, `x-forwarded-for`, `x-forwarded-proto`, `x-forwarded-host`" =>
            /// The headers that these proxies write. What they do not write, a client may have written.
            proxy_headers: Vec<ProxyHeader> = |name, set| if set.is_none() { Ok(ProxyHeader::ALL.to_vec()) } else { all(name, set) };
        database: String, "PostgreSQL", "SQLite in the data folder" =>
            /// A PostgreSQL URL; absent: SQLite inside `data`.
            database: Option<String> = as_it_is;
        redis: String, "Redis, for a shared rate limit", "counted in memory" => redis: Option<String> = as_it_is;
        allow_plugin_code_execution: bool, "run code of packages",
            "packages are listed, their code does not run; programs that an operator allows [as MCP servers](#programs-as-mcp-servers) do. With `false` neither runs" =>
            /// Whether code of packages may run, in the sandbox. If not, packages are listed and calls to them are refused.
            allow_plugin_code_execution: bool = or_default;
        allow_degraded: bool, "run code without full Landlock", "`false`: no code runs if the kernel has no Landlock or too old a version" =>
            /// Whether the profile `default` may run without Landlock if the kernel does not support enough of it. Every outcome then says so.
            allow_degraded: bool = or_default;
        package_allowed_hosts: Vec<String>, "hosts that code of packages may reach", "none" =>
            /// The hosts that package code may send requests to, if its manifest names them too.
            package_allowed_hosts: Vec<HostRule> = all;
        package_allowed_networks: Vec<String>, "non-public networks that code of packages may reach", "none" =>
            package_allowed_networks: Vec<IpNet> = networks;
        source_allowed_hosts: Vec<String>,
            "hosts that [MCP servers](../concepts/sources.md), [connections](../concepts/connections.md) and [channels](notifications.md) may reach, beside [those allowed since](#what-sources-may-use)",
            "none" =>
            /// The hosts that sources and connections may reach: MCP servers, and those where people log in.
            source_allowed_hosts: Vec<HostRule> = all;
        source_allowed_networks: Vec<String>, "non-public networks that they may reach, and programs of sources", "none" =>
            source_allowed_networks: Vec<IpNet> = networks;
        public_url: String, "address at which people reach this server, for logins and for links in [messages of channels](notifications.md)",
            "what a trusted proxy tells, else the address it listens on";
        slack_api_url: String, "where Slack is, for [channels](notifications-slack.md): their tokens are sent there, and its host must be allowed too",
            "`https://slack.com/api`" =>
            /// Where Slack is, if it is elsewhere than usual. The tokens of channels are sent there.
            slack_api_url: Option<String> = |name, set| set.map(|text| base_url(name, &text)).transpose();
        mcp_commands: Vec<AllowedProgram>, only file, "programs that may be MCP servers, [below](#programs-as-mcp-servers)", "none" =>
            /// The programs that may be MCP servers.
            mcp_commands: Vec<AllowedProgram> = mcp_commands;
        max_sources: u32, "sources that the admins of an org may add, up to 1 000", "20" =>
            /// How many sources the admins of one org may add.
            max_sources: u32 = max_sources;
        command_allowlist: Vec<String>, "commands that may verify a call", "none" =>
            /// The commands that may verify an effect.
            command_allowlist: Vec<AllowedCommand> = all;
        reward_weights: Vec<String>, "weights of [the reward](../concepts/receipts.md#the-reward)",
            "`success=0.6`, `quality=0.3`, `cost=0.05`, `latency=0.05`" =>
            /// The weight of each part of a receipt's reward.
            reward_weights: RewardWeights = reward_weights;
        master_key_file: PathBuf, "master key", "`master.key` in the data folder, made at first start" =>
            /// The file with the master key; absent: `master.key` inside `data`, created at the first start.
            master_key_file: Option<PathBuf> = as_it_is;
    }
    table http: HttpSection, "http.", "http_" {
        allowed_hosts: Vec<String>, "hosts the `http` actions may reach", "none" => http_allowed_hosts: Vec<HostRule> = all;
        allowed_networks: Vec<String>, "non-public networks the `http` actions may reach", "none" => http_allowed_networks: Vec<IpNet> = networks;
    }
    table limits: LimitsSection, "limits.", "" {
        invocations_per_minute: u32, "invocations per session and minute", "60";
        person_invocations_per_minute: u32, "invocations per person and minute, with all that acts for them", "no limit";
        space_invocations_per_minute: u32, "invocations per space and minute", "no limit";
    }
    table log: LogSection, "log.", "log_" {
        format: LogFormat, "log format, `json` or `text`", "`text` on a terminal, else `json`" =>
            /// Absent: text if the log goes to a terminal, otherwise JSON.
            log_format: Option<LogFormat> = as_it_is;
        level: String, "log level, such as `info` or `info,store=debug`", "`info`" => log_level: Targets = log_level;
    }
    table artifacts: ArtifactsSection, "artifacts.", "artifacts_" {
        url: String, "bucket for [artifacts](../concepts/artifacts.md#where-the-bytes-are), with a prefix if you like: `s3://bucket/prefix`",
            "none: `artifacts` in the data folder";
        endpoint: String, "where the server of the bucket is", "Amazon's";
        region: String, "region of the bucket", "`us-east-1`";
        access_key_id: String, "key for the bucket", "what the variables `AWS_…` or the machine say";
        // A file of settings is no place for a secret.
        #[serde(skip)]
        secret_access_key: Secret<String>, only variable, "secret of the key", "none";
        secret_access_key_file: PathBuf, "file with the secret of the key", "none";
    }
    table email: EmailSection, "email.", "email_" {
        server: String, "mail server for orgs without a [mail connection](../concepts/connections.md#mail-servers), [here](notifications-email.md)", "none";
        from: String, "address that mail comes from", "none";
        username: String, "user at the mail server", "none";
        password_file: PathBuf, "file with the password of that user", "none";
        allowed_servers: Vec<String>, "further mail servers that connections and channels may name",
            "none; without any server `email.send` is not offered";
        ca_cert: PathBuf, "authorities that certificates of mail servers are checked by", "the usual public ones";
    }
    table oidc: OidcSection, "oidc.", "oidc_" {
        name: String, "what people call the [issuer](#sign-in-with-openid-connect) where they sign in", "its host";
        issuer: String, "the issuer, exactly as it writes itself in its metadata", "none: people log in with tokens only";
        client_id: String, "client id there", "none";
        #[serde(skip)]
        client_secret: Secret<String>, only variable, "secret of the client", "none: a public client";
        client_secret_file: PathBuf, "file with the secret of the client", "none";
        scopes: Vec<String>, "scopes that are asked for", "`openid`, `profile`, `email`";
        groups_claim: String, "claim with the groups", "`groups`";
        roles: BTreeMap<String, String>, "role that each group gives, such as `ops=admin`", "none: nobody signs in";
        org: String, "name or id of the org that people sign in to", "the first one";
        allowed_hosts: Vec<String>, "hosts that the issuer names for its endpoints, beside its own", "none";
        allowed_networks: Vec<String>, "non-public networks that the issuer is in", "none";
    }
    also { workers: WorkersSection, }
    made {
        data: PathBuf,
        /// The certificate to show and its key; absent: plain HTTP.
        tls: Option<TlsFiles>,
        /// How often a session may invoke in a minute, and, if set, a person with all that acts for them, and a space.
        invocations_per_minute: RateLimits,
        /// Whether programs that an operator allows by name may be MCP servers. They may, unless `allow_plugin_code_execution` is `false`.
        allow_mcp_commands: bool,
        /// The address at which people and authorization servers reach this server, if it is not the one it listens on.
        public_url: Option<String>,
        /// The mail servers that there are.
        email: EmailConfig,
        /// Where people sign in; absent: with tokens only.
        oidc: Option<OidcConfig>,
        /// How many runs of automations this server works on at once.
        workers: Workers,
        /// Where artifacts are kept.
        artifacts: ArtifactsConfig,
    }
}

impl Config {
    /// Flags win over the environment, the environment over the file, the file over defaults.
    pub fn load(flags: Flags, env: impl Iterator<Item = (String, String)>) -> Result<Self, ConfigError> {
        let Environment { data, config, settings } = Environment::read(env)?;
        let data = flags.data.or(data).unwrap_or_else(|| DEFAULT_DATA.into());
        let Flags { listen, tls_cert, tls_key, database, redis, .. } = flags;
        let said = File { listen, tls_cert, tls_key, database, redis, ..File::default() };
        let mut file = said.or(settings).or(read_file(flags.config.or(config), &data)?);
        let tls = tls(file.tls_cert.take(), file.tls_key.take())?;
        let made = ComposedSettings {
            data,
            invocations_per_minute: RateLimits {
                session: file.limits.invocations_per_minute.unwrap_or(limits::INVOCATIONS_PER_MINUTE_MAX),
                person: file.limits.person_invocations_per_minute,
                space: file.limits.space_invocations_per_minute,
            },
            allow_mcp_commands: file.allow_plugin_code_execution.unwrap_or(true),
            public_url: file.public_url.take().map(|text| public_url(text, tls.as_ref())).transpose()?,
            tls,
            email: std::mem::take(&mut file.email).read()?,
            oidc: std::mem::take(&mut file.oidc).read()?,
            workers: std::mem::take(&mut file.workers).read()?,
            artifacts: std::mem::take(&mut file.artifacts).read()?,
        };
        Self::of(file, made)
    }

    /// What can be set in the file and in variables.
    pub fn described() -> Vec<DescribedSetting> {
        File::described()
    }

    pub fn data_dir(&self) -> &Path {
        &self.data
    }
}

/// What is said in variables.
#[derive(Default)]
struct Environment {
    data: Option<PathBuf>,
    config: Option<PathBuf>,
    settings: File,
}

impl Environment {
    fn read(env: impl Iterator<Item = (String, String)>) -> Result<Self, ConfigError> {
        let mut read = Self::default();
        for (name, value) in env {
            let Some(key) = name.strip_prefix("COUNTERSIGN_") else {
                continue;
            };
            let is_taken = match key {
                "DATA" => {
                    read.data = Some(value.into());
                    true
                }
                "CONFIG" => {
                    read.config = Some(value.into());
                    true
                }
                client if CLIENT_VARIABLES.contains(&client) => true,
                key => !key.bytes().any(|byte| byte.is_ascii_lowercase()) && read.settings.take(&key.to_lowercase(), &value)?,
            };
            if !is_taken {
                let all = File::described().into_iter().filter_map(|setting| setting.variable);
                let all = ["DATA", "CONFIG"].map(str::to_owned).into_iter().chain(all);
                let known = all.map(|known| format!("COUNTERSIGN_{known}")).collect::<Vec<_>>().join(", ");
                return Err(ConfigError::UnknownVariable { name, known });
            }
        }
        Ok(read)
    }
}

/// What the text of a variable can be read as.
trait FromVariable: Sized {
    fn read(text: &str) -> Result<Self, &'static str>;
}

fn from_variable<T: FromVariable>(variable: &str, text: &str) -> Result<T, ConfigError> {
    let name = || format!("COUNTERSIGN_{}", variable.to_uppercase());
    T::read(text).map_err(|message| ConfigError::InvalidValue { name: name(), message: message.into() })
}

impl FromVariable for String {
    fn read(text: &str) -> Result<Self, &'static str> {
        Ok(text.to_owned())
    }
}

impl FromVariable for PathBuf {
    fn read(text: &str) -> Result<Self, &'static str> {
        Ok(text.into())
    }
}

impl FromVariable for Secret<String> {
    fn read(text: &str) -> Result<Self, &'static str> {
        Ok(Self::new(text.to_owned()))
    }
}

impl FromVariable for u32 {
    fn read(text: &str) -> Result<Self, &'static str> {
        text.parse().map_err(|_| "expected a whole number")
    }
}

impl FromVariable for bool {
    fn read(text: &str) -> Result<Self, &'static str> {
        text.parse().map_err(|_| "expected `true` or `false`")
    }
}

impl FromVariable for LogFormat {
    fn read(text: &str) -> Result<Self, &'static str> {
        match text {
            "json" => Ok(Self::Json),
            "text" => Ok(Self::Text),
            _ => Err("expected `json` or `text`"),
        }
    }
}

impl FromVariable for Vec<String> {
    fn read(text: &str) -> Result<Self, &'static str> {
        Ok(text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect())
    }
}

/// `group=role`, each. The name of a group may have a `=` too.
impl FromVariable for BTreeMap<String, String> {
    fn read(text: &str) -> Result<Self, &'static str> {
        let pair = |text: &String| text.rsplit_once('=').map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()));
        Vec::<String>::read(text)?.iter().map(pair).collect::<Option<_>>().ok_or("expected groups and their roles, such as `ops=admin`")
    }
}

impl FromVariable for Vec<AllowedProgram> {
    fn read(_: &str) -> Result<Self, &'static str> {
        Err("programs are named in the file only")
    }
}

fn as_it_is<T>(_: &str, set: Option<T>) -> Result<Option<T>, ConfigError> {
    Ok(set)
}

fn or_default<T: Default>(_: &str, set: Option<T>) -> Result<T, ConfigError> {
    Ok(set.unwrap_or_default())
}

fn all<T: std::str::FromStr<Err: std::fmt::Display>>(name: &str, set: Option<Vec<String>>) -> Result<Vec<T>, ConfigError> {
    parse_all(name, &set.unwrap_or_default())
}

fn networks(name: &str, set: Option<Vec<String>>) -> Result<Vec<IpNet>, ConfigError> {
    parse_networks(name, &set.unwrap_or_default())
}

/// Checks that the setting is a host and a port. Whether the server can listen there is only known once it tries.
fn listen_address(name: &str, named: Option<String>) -> Result<String, ConfigError> {
    let address = named.unwrap_or_else(|| DEFAULT_LISTEN.into());
    let is_address = address.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    if is_address {
        return Ok(address);
    }
    Err(ConfigError::InvalidValue { name: name.into(), message: format!("`{address}` is not a host and a port, such as {DEFAULT_LISTEN}") })
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
fn mcp_commands(_: &str, allowed: Option<Vec<AllowedProgram>>) -> Result<Vec<AllowedProgram>, ConfigError> {
    let allowed = allowed.unwrap_or_default();
    for (at, program) in allowed.iter().enumerate() {
        let is_double = || allowed[..at].iter().any(|other| other.command == program.command);
        let mistake = program.mistake().or_else(|| is_double().then(|| "an earlier one has the same `command`".to_owned()));
        if let Some(message) = mistake {
            return Err(ConfigError::InvalidValue { name: format!("mcp_commands[{at}]"), message });
        }
    }
    Ok(allowed)
}

fn max_sources(name: &str, named: Option<u32>) -> Result<u32, ConfigError> {
    match named.unwrap_or(limits::SOURCES_MAX_DEFAULT) {
        number @ 0..=limits::SOURCES_MAX => Ok(number),
        number => {
            let message = format!("{number} is more than {}", limits::SOURCES_MAX);
            Err(ConfigError::InvalidValue { name: name.into(), message })
        }
    }
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
fn log_level(name: &str, set: Option<String>) -> Result<Targets, ConfigError> {
    let text = set.as_deref().unwrap_or("info");
    let invalid = |message: String| ConfigError::InvalidValue { name: name.into(), message };
    for part in text.split(',') {
        let level = part.split_once('=').map_or(part, |(_, level)| level);
        level.parse::<LevelFilter>().map_err(|_| invalid(format!("`{level}` is not one of off, error, warn, info, debug, trace")))?;
    }
    text.parse().map_err(|error| invalid(format!("`{text}`: {error}")))
}

/// Reads `part=weight` texts. A part that is not named keeps its default weight.
fn reward_weights(name: &str, set: Option<Vec<String>>) -> Result<RewardWeights, ConfigError> {
    let mut weights = RewardWeights::default();
    for text in set.unwrap_or_default() {
        let invalid = |message: &str| ConfigError::InvalidValue { name: name.into(), message: format!("`{text}`: {message}") };
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
