//! Finds the server to talk to and its token: from the environment, then from a context made by `login`, then from the data folder of a
//! server that `countersign serve` started here. A token is only ever sent to the address it was given for.

use crate::exit::{Exit, Failure};
use countersign_core::Secret;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use url::Url;

/// The default address of `countersign serve`.
pub(crate) const DEFAULT_URL: &str = "http://127.0.0.1:7117";
const DEFAULT_DATA: &str = "./countersign-data";
/// The name of a context that was given none.
const DEFAULT_NAME: &str = "default";
const OWNER_ONLY: u32 = 0o600;

/// The variables that the command line reads. An empty variable counts as absent, except the token: a user who meant to give one must not
/// act with another by accident.
#[derive(Clone, Default)]
pub(crate) struct Environment {
    pub(crate) url: Option<String>,
    pub(crate) token: Option<Secret<String>>,
    /// Whether COUNTERSIGN_TOKEN was set to an empty text.
    pub(crate) token_is_empty: bool,
    pub(crate) context: Option<String>,
    /// The file with the certificates of the CAs to trust, if not the system's.
    pub(crate) ca_cert: Option<PathBuf>,
    /// A server's data folder, which holds its first owner's token.
    pub(crate) data: Option<PathBuf>,
    /// The folder that holds the contexts.
    pub(crate) config: Option<PathBuf>,
    /// All variables, for the settings of a server.
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
            ca_cert: filled("COUNTERSIGN_CA_CERT").map(PathBuf::from),
            data: filled("COUNTERSIGN_DATA").map(PathBuf::from),
            config: filled("COUNTERSIGN_CONFIG_HOME").map(PathBuf::from).or_else(xdg).or_else(home),
            variables,
        }
    }

    /// The file that holds the contexts.
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

    /// The token of the first owner, if the server at this address is that of the data folder.
    fn owner_token(&self, url: &Url) -> Result<(Option<Secret<String>>, Origin), Failure> {
        let file = self.owner_token_file();
        match std::fs::read_to_string(&file) {
            Ok(text) if is_same_server(&self.local_url()?.0, url) => {
                Ok((Some(Secret::new(text.trim().to_owned())), Origin::OwnerFile(file)))
            }
            Ok(_) | Err(_) => Ok((None, Origin::Nowhere(self.data_folder()))),
        }
    }

    /// The address that the server wrote to its data folder; otherwise the default address.
    fn local_url(&self) -> Result<(Url, Place), Failure> {
        let folder = self.data_folder();
        let said = std::fs::read_to_string(folder.join("server.url")).ok();
        // SECURITY: a file in the current folder may be anybody's, so it can only lead to an address on this machine.
        match said.and_then(|text| parse_url(text.trim()).ok()).filter(is_local) {
            Some(url) => Ok((url, Place::DataFolder)),
            None => Ok((parse_url(DEFAULT_URL)?, Place::Guessed(folder))),
        }
    }

    /// A server's data folder: COUNTERSIGN_DATA, or else the default below the current folder.
    pub(crate) fn data_folder(&self) -> PathBuf {
        self.data.clone().unwrap_or_else(|| DEFAULT_DATA.into())
    }
}

/// One server that the user has logged in to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Context {
    pub(crate) url: String,
    token: String,
    /// The certificates of the CAs to trust for this server, if not the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ca_cert: Option<PathBuf>,
    /// The session of the program that `countersign connect` made this context for. Such a context is used only where it is named: a person
    /// must not act as an agent by accident.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<String>,
}

impl Context {
    pub(crate) fn new(url: &Url, token: &Secret<String>) -> Self {
        Self { url: url.to_string(), token: token.expose().clone(), ca_cert: None, session: None }
    }

    /// Whether it has this token.
    pub(crate) fn has_token(&self, token: &str) -> bool {
        self.token == token
    }
}

/// All contexts, as they are stored in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Contexts {
    pub(crate) current: Option<String>,
    #[serde(default)]
    pub(crate) contexts: BTreeMap<String, Context>,
}

impl Contexts {
    /// Reads the file. If there is none, there are no contexts.
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

    /// Writes the file atomically. It is never readable by others, not even for a moment.
    pub(crate) fn save(&self, path: &Path) -> Result<(), Failure> {
        let text = toml::to_string(self).map_err(|error| Failure::failed(format!("the contexts cannot be written: {error}")))?;
        write_private(path, text.as_bytes()).map_err(|error| Failure::file(path, &error))
    }

    /// The context to use if none is named. Without an address it is the current one; with an address it is one that has the same address,
    /// preferably the current one.
    fn fitting(&self, url: Option<&Url>) -> Option<(&String, &Context)> {
        let fits = |context: &Context| url.is_none_or(|url| parse_url(&context.url).is_ok_and(|own| own == *url));
        let current = self.current.as_ref().and_then(|name| self.contexts.get_key_value(name));
        let any = || self.contexts.iter().find(|(_, context)| url.is_some() && context.session.is_none() && fits(context));
        current.filter(|(_, context)| fits(context)).or_else(any)
    }

    /// A name for a context that the user did not name. If `default` belongs to another server, the new one is named after its address, so
    /// that no token is overwritten.
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
    /// The data folder's server wrote it to `server.url`.
    DataFolder,
    /// The default address: none was given, and no server was started on this data folder.
    Guessed(PathBuf),
}

/// Where the token came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Environment,
    Context(String),
    OwnerFile(PathBuf),
    /// The user just typed it, or it was read from stdin.
    Login,
    /// Likewise, and it is an invitation.
    Invitation,
    /// No token was found. This is the data folder that was searched.
    Nowhere(PathBuf),
}

/// The server to talk to.
pub(crate) struct Server {
    pub(crate) url: Url,
    pub(crate) place: Place,
    pub(crate) token: Option<Secret<String>>,
    pub(crate) origin: Origin,
    /// The file with the certificates of the CAs to trust; the system's if absent.
    pub(crate) ca_cert: Option<PathBuf>,
}

impl Server {
    /// Finds the server and its token. The flags `url` and `context` override the environment.
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
        // SECURITY: a token goes to the address it was given for and to no other.
        let named = named.filter(|_| context_url.as_ref() == Some(&url));
        let ca_cert = environment.ca_cert.clone().or_else(|| named.as_ref().and_then(|(_, context)| context.ca_cert.clone()));
        let (token, origin) = match (&environment.token, named) {
            (Some(token), _) => (Some(token.clone()), Origin::Environment),
            (None, Some((name, context))) => (Some(Secret::new(context.token)), Origin::Context(name)),
            (None, None) => environment.owner_token(&url)?,
        };
        Ok(Self { url, place, token, origin, ca_cert })
    }

    /// Finds the server to log in to, which is the one that every other command would use, and the name of its context.
    pub(crate) fn to_log_in(
        url: Option<&str>,
        context: Option<&str>,
        environment: &Environment,
        contexts: &Contexts,
    ) -> Result<(Url, Place, String), Failure> {
        let given = url.or(environment.url.as_deref()).map(parse_url).transpose()?;
        let asked = context.or(environment.context.as_deref());
        let known = match asked {
            // The context may not exist yet: logging in creates it.
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

/// The given address first, then that of the context, then the one in the data folder.
fn address(given: Option<Url>, of_context: Option<Url>, environment: &Environment) -> Result<(Url, Place), Failure> {
    given.or(of_context).map_or_else(|| environment.local_url(), |url| Ok((url, Place::Said)))
}

/// Parses the address of a server. It must not have a user, a query or a fragment.
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

/// Whether two addresses mean the same server. `localhost` and `127.0.0.1` are the same machine, on which a port belongs to one server.
fn is_same_server(one: &Url, other: &Url) -> bool {
    let both_here = is_local(one) && is_local(other);
    one == other
        || (both_here
            && (one.scheme(), one.port_or_known_default(), one.path()) == (other.scheme(), other.port_or_known_default(), other.path()))
}

/// Whether the address is on this machine.
pub(crate) fn is_local(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// The context that the user named, or else the one that fits the address (see `Contexts::fitting`).
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
