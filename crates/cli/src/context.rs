//! Which server is spoken to, and with which token: environment, then a context made by `login`, then the server that
//! `countersign serve` starts in this folder. A token is only ever sent to the address it was given for.

use crate::exit::{Exit, Failure};
use countersign_core::Secret;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use url::Url;

/// Where `countersign serve` listens unless it is told otherwise.
pub(crate) const DEFAULT_URL: &str = "http://127.0.0.1:7117";
const DEFAULT_DATA: &str = "./countersign-data";
/// What a context is called that was given no name.
const DEFAULT_NAME: &str = "default";
const OWNER_ONLY: u32 = 0o600;

/// The variables that speak to the command line. Empty ones count as absent, but for the token: who meant to give one must not act with
/// another by accident.
#[derive(Clone, Default)]
pub(crate) struct Environment {
    pub(crate) url: Option<String>,
    pub(crate) token: Option<Secret<String>>,
    /// It was set, to nothing.
    pub(crate) token_is_empty: bool,
    pub(crate) context: Option<String>,
    /// The folder of a server's data, where its first owner's token lies.
    pub(crate) data: Option<PathBuf>,
    /// The folder that holds the contexts.
    pub(crate) config: Option<PathBuf>,
    /// All of them, for the settings of a server.
    pub(crate) variables: BTreeMap<String, String>,
}

impl Environment {
    pub(crate) fn new(variables: BTreeMap<String, String>) -> Self {
        let filled = |name: &str| variables.get(name).filter(|value| !value.is_empty()).cloned();
        let xdg = || filled("XDG_CONFIG_HOME").map(|home| PathBuf::from(home).join("countersign"));
        let home = || filled("HOME").map(|home| PathBuf::from(home).join(".config/countersign"));
        Self {
            url: filled("COUNTERSIGN_URL"),
            token: filled("COUNTERSIGN_TOKEN").map(Secret::new),
            token_is_empty: variables.get("COUNTERSIGN_TOKEN").is_some_and(String::is_empty),
            context: filled("COUNTERSIGN_CONTEXT"),
            data: filled("COUNTERSIGN_DATA").map(PathBuf::from),
            config: filled("COUNTERSIGN_CONFIG_HOME").map(PathBuf::from).or_else(xdg).or_else(home),
            variables,
        }
    }

    /// Where contexts are kept.
    pub(crate) fn contexts_file(&self) -> Result<PathBuf, Failure> {
        let folder = self.config.as_ref().ok_or_else(|| {
            Failure::usage("there is no folder for contexts")
                .cause("neither HOME nor XDG_CONFIG_HOME is set")
                .hint("set COUNTERSIGN_CONFIG_HOME")
        })?;
        Ok(folder.join("contexts.toml"))
    }

    pub(crate) fn owner_token_file(&self) -> PathBuf {
        self.data_folder().join("owner.token")
    }

    /// Where the server on the data folder listens, as it says itself; else where one does by default.
    fn local_url(&self) -> Result<(Url, Place), Failure> {
        let folder = self.data_folder();
        let said = std::fs::read_to_string(folder.join("server.url")).ok();
        // SECURITY: what lies in a folder somebody happens to stand in does not send them elsewhere.
        match said.and_then(|text| parse_url(text.trim()).ok()).filter(is_local) {
            Some(url) => Ok((url, Place::DataFolder)),
            None => Ok((parse_url(DEFAULT_URL)?, Place::Guessed(folder))),
        }
    }

    /// Where a server's data is looked for: what COUNTERSIGN_DATA says, else below the folder somebody stands in.
    pub(crate) fn data_folder(&self) -> PathBuf {
        self.data.clone().unwrap_or_else(|| DEFAULT_DATA.into())
    }
}

/// One server somebody logged in to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Context {
    pub(crate) url: String,
    token: String,
}

impl Context {
    pub(crate) fn new(url: &Url, token: &Secret<String>) -> Self {
        Self { url: url.to_string(), token: token.expose().clone() }
    }
}

/// All of them, as they lie in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Contexts {
    pub(crate) current: Option<String>,
    #[serde(default)]
    pub(crate) contexts: BTreeMap<String, Context>,
}

impl Contexts {
    /// No file is no context.
    pub(crate) fn load(path: &Path) -> Result<Self, Failure> {
        match std::fs::read_to_string(path) {
            Ok(text) => toml::from_str(&text).map_err(|error| {
                Failure::failed(format!("the contexts in `{}` cannot be read", path.display()))
                    .cause(error.message().to_owned())
                    .hint("move that file away, and log in again with `countersign login`")
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(Failure::file(path, &error)),
        }
    }

    /// Whole or not at all, and never readable by others, not even for a moment.
    pub(crate) fn save(&self, path: &Path) -> Result<(), Failure> {
        let text = toml::to_string(self).map_err(|error| Failure::failed(format!("the contexts cannot be written: {error}")))?;
        write_private(path, text.as_bytes()).map_err(|error| Failure::file(path, &error))
    }

    /// The one that is meant where none is named: the current one, or another that is of this address.
    fn fitting(&self, url: Option<&Url>) -> Option<(&String, &Context)> {
        let fits = |context: &Context| url.is_none_or(|url| parse_url(&context.url).is_ok_and(|own| own == *url));
        let current = self.current.as_ref().and_then(|name| self.contexts.get_key_value(name));
        let any = || self.contexts.iter().find(|(_, context)| url.is_some() && fits(context));
        current.filter(|(_, context)| fits(context)).or_else(any)
    }

    /// What a context is called that nobody named: after its server, where `default` is another's. A token is never lost to another.
    fn new_name(&self, url: &Url) -> String {
        let is_another = self.contexts.get(DEFAULT_NAME).is_some_and(|context| parse_url(&context.url).is_ok_and(|own| own != *url));
        if !is_another {
            return DEFAULT_NAME.to_owned();
        }
        let host = url.host_str().unwrap_or_default();
        url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    pub(crate) fn get(&self, name: &str) -> Result<&Context, Failure> {
        self.contexts.get(name).ok_or_else(|| {
            let known: Vec<_> = self.contexts.keys().map(String::as_str).collect();
            let known = if known.is_empty() { "there are none yet".to_owned() } else { format!("known are {}", known.join(", ")) };
            Failure::new(Exit::NotFound, format!("there is no context `{name}`"))
                .cause(known)
                .hint(format!("countersign login --context {name}"))
        })
    }
}

/// Where the address came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A flag, a variable or a context.
    Said,
    /// The server on the data folder says so itself.
    DataFolder,
    /// Nobody said one, and no server was started on this data folder.
    Guessed(PathBuf),
}

/// Where the token came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Environment,
    Context(String),
    OwnerFile(PathBuf),
    /// Just typed, or read from stdin.
    Login,
    /// There is none; this is the data folder that was looked into.
    Nowhere(PathBuf),
}

/// A server to speak to.
pub(crate) struct Server {
    pub(crate) url: Url,
    pub(crate) place: Place,
    pub(crate) token: Option<Secret<String>>,
    pub(crate) origin: Origin,
}

impl Server {
    /// `url` and `context` are flags and win over the environment.
    pub(crate) fn find(url: Option<&str>, context: Option<&str>, environment: &Environment) -> Result<Self, Failure> {
        if environment.token_is_empty {
            return Err(Failure::new(Exit::NotAuthenticated, "COUNTERSIGN_TOKEN is set, and empty")
                .cause("whatever was to put a token there has failed; no other is used in its place")
                .hint("put a token there, or unset it"));
        }
        let given = url.or(environment.url.as_deref()).map(parse_url).transpose()?;
        let named = named_context(context, environment, given.as_ref())?;
        let context_url = named.as_ref().map(|(_, context)| parse_url(&context.url)).transpose()?;
        let (url, place) = address(given, context_url.clone(), environment)?;
        if let Some(token) = &environment.token {
            return Ok(Self { url, place, token: Some(token.clone()), origin: Origin::Environment });
        }
        // SECURITY: a token goes to the address it was given for and to no other.
        if let Some((name, context)) = named.filter(|_| context_url.as_ref() == Some(&url)) {
            return Ok(Self { url, place, token: Some(Secret::new(context.token)), origin: Origin::Context(name) });
        }
        let file = environment.owner_token_file();
        match std::fs::read_to_string(&file) {
            Ok(text) if is_same_server(&environment.local_url()?.0, &url) => {
                Ok(Self { url, place, token: Some(Secret::new(text.trim().to_owned())), origin: Origin::OwnerFile(file) })
            }
            Ok(_) | Err(_) => Ok(Self { url, place, token: None, origin: Origin::Nowhere(environment.data_folder()) }),
        }
    }

    /// Where to log in: at the server every other command would speak to, under the name that it has or is to have.
    pub(crate) fn to_log_in(
        url: Option<&str>,
        context: Option<&str>,
        environment: &Environment,
        contexts: &Contexts,
    ) -> Result<(Url, Place, String), Failure> {
        let given = url.or(environment.url.as_deref()).map(parse_url).transpose()?;
        let asked = context.or(environment.context.as_deref());
        let known = match asked {
            // A new name is not an error here: that is how it comes to be.
            Some(name) => contexts.contexts.get_key_value(name),
            None => contexts.fitting(given.as_ref()),
        };
        let context_url = known.map(|(_, context)| parse_url(&context.url)).transpose()?;
        let name = asked.or(known.map(|(name, _)| name.as_str())).map(ToOwned::to_owned);
        let (url, place) = address(given, context_url, environment)?;
        let name = name.unwrap_or_else(|| contexts.new_name(&url));
        Ok((url, place, name))
    }
}

/// What was given before what a context says before what lies in the data folder.
fn address(given: Option<Url>, of_context: Option<Url>, environment: &Environment) -> Result<(Url, Place), Failure> {
    given.or(of_context).map_or_else(|| environment.local_url(), |url| Ok((url, Place::Said)))
}

/// The address of a server, without anything after its path.
pub(crate) fn parse_url(text: &str) -> Result<Url, Failure> {
    let invalid = |cause: &str| {
        Failure::usage(format!("`{text}` is not the address of a server")).cause(cause).hint(format!("such as {DEFAULT_URL}"))
    };
    let url = Url::parse(text).map_err(|error| invalid(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(invalid("expected http or https"));
    }
    if !url.username().is_empty() || url.password().is_some() || url.query().is_some() || url.fragment().is_some() {
        return Err(invalid("expected no user, query or fragment"));
    }
    Ok(url)
}

/// `localhost` and `127.0.0.1` are one machine, and on it a port is one server's.
fn is_same_server(one: &Url, other: &Url) -> bool {
    let both_here = is_local(one) && is_local(other);
    one == other
        || (both_here
            && (one.scheme(), one.port_or_known_default(), one.path()) == (other.scheme(), other.port_or_known_default(), other.path()))
}

/// Whether what is sent there stays on this machine.
pub(crate) fn is_local(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// The context asked for; else, where no address was given or it is the same, the current one.
fn named_context(flag: Option<&str>, environment: &Environment, url: Option<&Url>) -> Result<Option<(String, Context)>, Failure> {
    let asked = flag.or(environment.context.as_deref());
    let Some(path) = environment.config.as_ref().map(|folder| folder.join("contexts.toml")) else {
        return asked.map_or(Ok(None), |_| environment.contexts_file().map(|_| None));
    };
    let contexts = Contexts::load(&path)?;
    if let Some(name) = asked {
        return contexts.get(name).map(|context| Some((name.to_owned(), context.clone())));
    }
    Ok(contexts.fitting(url).map(|(name, context)| (name.clone(), context.clone())))
}

fn write_private(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let part = path.with_extension("part");
    let _leftover = std::fs::remove_file(&part);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(OWNER_ONLY).open(&part)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&part, path)
}

#[cfg(test)]
#[path = "context_tests.rs"]
mod tests;
