//! Connections in use: the credential that the store keeps becomes the headers of one request, to the place it is for and for no other, or
//! the login of a mail server (`mail`). The tokens of an OAuth connection are renewed here when they have ended (`renewal`).

mod mail;
mod renewal;
mod test;

pub use mail::OrgSenders;
pub use test::Tested;

use crate::limits::CONNECTION_TEXT_BYTES_MAX;
use crate::mail::Mailer;
use crate::oauth::{self, Begun, Challenge, Credential, Fetch, Given, Granted, Own, Returned, origin};
use crate::web::{HostRule, headers};
use crate::words::{failed, refused, shown};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use countersign_core::ports::connections::{
    Connection, ConnectionHeaders, ConnectionKind, ConnectionState, Connections, KeptConnections, Need, OpenConnection, Refusal, Wanted,
};
use countersign_core::ports::secrets::SecretValue;
use countersign_core::source::Error;
use countersign_core::{Clock, ConnectionId, Future, OrgId, Random, Secret, ports};
use ipnet::IpNet;
use parking_lot::RwLock;
use std::sync::Arc;
use url::Url;

/// What the operator allows connections to reach. The default allows nothing.
#[derive(Clone, Debug, Default)]
pub struct ConnectedConfig {
    pub allowed_hosts: Vec<HostRule>,
    pub allowed_networks: Vec<IpNet>,
    /// Knows the mail servers.
    pub mailer: Arc<Mailer>,
}

/// Resolves connections for calls, and logs in for them.
#[derive(Clone)]
pub struct Connected {
    kept: Arc<dyn KeptConnections>,
    /// Replaced when an operator allows other hosts or networks.
    fetch: Arc<RwLock<Arc<Fetch>>>,
    mailer: Arc<Mailer>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
}

impl Connected {
    /// Requires an installed rustls provider and, if an https host is allowed, the system's certificates.
    pub fn new(
        config: ConnectedConfig,
        kept: Arc<dyn KeptConnections>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
    ) -> Result<Self, crate::Error> {
        let fetch = Arc::new(RwLock::new(Arc::new(Fetch::new(config.allowed_hosts, config.allowed_networks)?)));
        Ok(Self { kept, fetch, mailer: config.mailer, clock, random })
    }

    /// From here on, these hosts and networks may be reached, and no others. A request under way keeps those that it began with.
    pub fn allow(&self, hosts: Vec<HostRule>, networks: Vec<IpNet>) -> Result<(), crate::Error> {
        *self.fetch.write() = Arc::new(Fetch::new(hosts, networks)?);
        Ok(())
    }

    fn fetch(&self) -> Arc<Fetch> {
        Arc::clone(&self.fetch.read())
    }

    /// Whether a connection can be for this address: an allowed one, without anything in it that could be a credential.
    pub fn check_url(&self, url: &str) -> Result<(), Error> {
        self.fetch().check(url)?;
        let is_plain = Url::parse(url).is_ok_and(|url| url.query().is_none() && url.fragment().is_none());
        if is_plain { Ok(()) } else { Err(refused("url_not_allowed", "the address has no query: it could be a credential")) }
    }

    /// Whether a credential can be sent in a header. Messages never name it.
    pub fn check_credential(&self, kind: ConnectionKind, account: Option<&str>, value: Option<&SecretValue>) -> Result<(), Error> {
        if let (ConnectionKind::Header, Some(name)) = (kind, account) {
            headers::checked([(&name.to_owned(), &String::new())].into_iter())?;
        }
        value.map_or(Ok(()), |value| pairs(kind, account, value).map(|_| ()))
    }

    /// What is kept of an OAuth connection before its first login: a client that a person has registered by hand.
    pub fn registered(client_id: String, client_secret: Option<Secret<String>>) -> Result<SecretValue, Error> {
        Credential { given: Some(Given { id: client_id, secret: client_secret }), client: None, tokens: None }.write()
    }

    /// Finds out where to log in, and prepares the login.
    pub async fn begin_login(&self, org: &OrgId, connection: &ConnectionId, own: &Own) -> Result<Begun, Error> {
        let OpenConnection { connection, value } = self.open(org, connection).await?;
        let begun = oauth::begin(&self.fetch(), &connection, value.as_ref(), own, &*self.random).await;
        begun.map_err(|error| {
            // No source was asked.
            let Error::Unreachable { message, .. } = &error else { return error };
            failed("login_failed", format!("there was no answer: {message}"))
        })
    }

    /// Checks what an authorization server sent back, and fetches the tokens.
    pub async fn end_login(&self, details: &SecretValue, returned: Returned) -> Result<Granted, Error> {
        oauth::end(&self.fetch(), details, returned, self.clock.now()).await
    }

    /// Revokes the tokens of a connection that was removed, where they came from.
    pub async fn revoke(&self, removed: &OpenConnection) -> Result<(), Error> {
        match (removed.connection.kind, &removed.value) {
            (ConnectionKind::Oauth, Some(value)) => oauth::revoke(&self.fetch(), value).await,
            (ConnectionKind::Oauth, None) => Ok(()),
            (ConnectionKind::Bearer | ConnectionKind::Header | ConnectionKind::Basic | ConnectionKind::Smtp, _) => Ok(()),
        }
    }

    async fn open(&self, org: &OrgId, connection: &ConnectionId) -> Result<OpenConnection, Error> {
        let opened = self.kept.open_connection(org, connection).await.map_err(|error| of_store(&error))?;
        opened.ok_or_else(|| not_ready(format!("there is no connection `{connection}`")))
    }

    /// Opens the connection if this call may use it.
    async fn open_for(&self, wanted: Wanted<'_>) -> Result<OpenConnection, Error> {
        let opened = self.open(wanted.org, wanted.connection).await?;
        let connection = &opened.connection;
        if connection.kind == ConnectionKind::Smtp {
            return Err(refused("connection_not_allowed", format!("connection `{}` is for mail alone", connection.name)));
        }
        if wanted.space.is_some_and(|space| !connection.may_be_used_in(space)) {
            let message = format!("connection `{}` is not for calls of this space; an admin can make one that is", connection.name);
            return Err(refused("connection_not_allowed", message));
        }
        if !is_for(&connection.url, wanted.url) {
            let message = format!(
                "connection `{}` is for `{}`; its credential is not sent to `{}`",
                connection.name,
                origin(&connection.url),
                origin(wanted.url)
            );
            return Err(refused("connection_not_allowed", message));
        }
        Ok(opened)
    }

    /// The headers of a connection as it is now.
    async fn headers_of(&self, org: &OrgId, opened: OpenConnection) -> Result<ConnectionHeaders, Error> {
        let OpenConnection { connection, value } = opened;
        must_be_ready(&connection)?;
        let value = value.ok_or_else(|| not_ready(format!("connection `{}` has no credential any more", connection.name)))?;
        match connection.kind {
            ConnectionKind::Bearer | ConnectionKind::Header | ConnectionKind::Basic | ConnectionKind::Smtp => {
                pairs(connection.kind, connection.account.as_deref(), &value)
            }
            ConnectionKind::Oauth => {
                let credential = Credential::read(&value)?;
                let is_fresh = credential.tokens.as_ref().is_some_and(|tokens| tokens.is_fresh(self.clock.now()));
                let credential = if is_fresh { credential } else { self.renewed(org, &connection, None).await? };
                bearer(&connection, &credential)
            }
        }
    }

    async fn reconsider(&self, wanted: Wanted<'_>, refusal: Refusal<'_>) -> Result<bool, Error> {
        let OpenConnection { connection, value } = self.open_for(wanted).await?;
        if connection.kind != ConnectionKind::Oauth || connection.state != ConnectionState::Ready {
            return Ok(false);
        }
        let challenge = refusal.www_authenticate.and_then(Challenge::parse).unwrap_or_default();
        match (refusal.status, challenge.error.as_deref(), challenge.scope) {
            (401, _, _) => self.renewed(wanted.org, &connection, sent_token(refusal.sent)).await.map(|_| true),
            (403, Some("insufficient_scope"), Some(further)) => {
                let granted = value.and_then(|value| Credential::read(&value).ok()?.tokens?.scope);
                let scopes = union(connection.scopes.as_deref().or(granted.as_deref()).unwrap_or_default(), &further);
                self.need_scopes(wanted.org, connection, &further, scopes).await.map(|()| false)
            }
            (_, _, _) => Ok(false),
        }
    }

    /// Notes that some calls need further scopes, and says so to this one. The connection stays as it is for all others.
    async fn need_scopes(&self, org: &OrgId, connection: Connection, further: &str, scopes: String) -> Result<(), Error> {
        let why = format!("some calls need the scopes `{}` too", shown(further));
        let told = needs_login(&Connection { why: Some(why.clone()), ..connection.clone() });
        // What is known is not noted again: an agent may ask for the same as often as it likes.
        if (connection.why.as_ref(), connection.scopes.as_ref()) != (Some(&why), Some(&scopes)) {
            let noted = self.kept.need_login(org, &connection.id, connection.version, Need::Scopes { why, scopes });
            noted.await.map_err(|error| of_store(&error))?;
        }
        Err(told)
    }
}

impl Connections for Connected {
    fn resolve_connection<'a>(&'a self, wanted: Wanted<'a>) -> Future<'a, Result<ConnectionHeaders, Error>> {
        Box::pin(async move {
            let opened = self.open_for(wanted).await?;
            self.headers_of(wanted.org, opened).await
        })
    }

    fn refused_connection<'a>(&'a self, wanted: Wanted<'a>, refusal: Refusal<'a>) -> Future<'a, Result<bool, Error>> {
        Box::pin(self.reconsider(wanted, refusal))
    }
}

/// Whether a credential for one address may be sent to the other: the same scheme, host and port.
fn is_for(url: &str, wanted: &str) -> bool {
    match (Url::parse(url), Url::parse(wanted)) {
        (Ok(url), Ok(wanted)) => url.origin() == wanted.origin(),
        (Ok(_) | Err(_), Err(_)) | (Err(_), Ok(_)) => false,
    }
}

/// The headers of a credential that stays as it is.
fn pairs(kind: ConnectionKind, account: Option<&str>, value: &SecretValue) -> Result<ConnectionHeaders, Error> {
    let (text, account) = (value.expose(), account.unwrap_or_default());
    let (name, value) = match kind {
        ConnectionKind::Bearer | ConnectionKind::Oauth => ("authorization", format!("Bearer {text}")),
        ConnectionKind::Header => (account, text.to_owned()),
        ConnectionKind::Smtp => return Err(refused("connection_not_allowed", "a mail connection is for mail alone")),
        ConnectionKind::Basic => ("authorization", format!("Basic {}", STANDARD.encode(Secret::new(format!("{account}:{text}")).expose()))),
    };
    let value = Secret::new(value);
    // Servers disagree about how to read bytes that are not ASCII.
    if !value.expose().bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) {
        return Err(refused("header_not_allowed", "the credential holds characters that a header cannot carry"));
    }
    Ok(ConnectionHeaders::new(vec![(name.to_ascii_lowercase(), value)]))
}

fn bearer(connection: &Connection, credential: &Credential) -> Result<ConnectionHeaders, Error> {
    let tokens = credential.tokens.as_ref().ok_or_else(|| needs_login(connection))?;
    Ok(ConnectionHeaders::new(vec![("authorization".to_owned(), Secret::new(format!("Bearer {}", tokens.access.expose())))]))
}

/// The access token in headers that were sent.
fn sent_token(sent: &ConnectionHeaders) -> Option<Secret<String>> {
    sent.expose().find_map(|(_, value)| value.strip_prefix("Bearer ").map(|token| Secret::new(token.to_owned())))
}

/// The scopes of both, each once. A server may ask for as much as it likes: what is no scope (RFC 6749, 3.3) or has no room is left out.
fn union(known: &str, further: &str) -> String {
    let mut scopes: Vec<&str> = Vec::new();
    let mut bytes = 0;
    for scope in known.split(' ').chain(further.split(' ')).filter(|scope| is_scope(scope)) {
        if !scopes.contains(&scope) && bytes + scope.len() < CONNECTION_TEXT_BYTES_MAX {
            bytes += scope.len() + 1;
            scopes.push(scope);
        }
    }
    scopes.join(" ")
}

fn is_scope(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\')
}

fn must_be_ready(connection: &Connection) -> Result<(), Error> {
    match connection.state {
        ConnectionState::Ready => Ok(()),
        ConnectionState::NeedsLogin => Err(needs_login(connection)),
        ConnectionState::Revoked => Err(not_ready(format!("connection `{}` was removed", connection.name))),
    }
}

fn not_ready(message: String) -> Error {
    refused("connection_not_ready", message)
}

/// Says why, and who can mend it.
fn needs_login(connection: &Connection) -> Error {
    let why = connection.why.as_deref().unwrap_or("its login has ended");
    not_ready(format!(
        "connection `{name}` needs a login: {why}; an admin can log in with `connection login {name}`",
        name = connection.name
    ))
}

/// The store's own words are for the log: they may name what the caller must not know.
fn of_store(error: &ports::Error) -> Error {
    tracing::error!(%error, "a connection could not be read or kept");
    if error.is_transient() {
        let message = "the store is not available".to_owned();
        return Error::NoTurn { source_id: "connection".to_owned(), message };
    }
    failed("connection_failed", "the connection could not be read or kept; the server's log says why")
}

#[cfg(test)]
#[path = "connection_tests.rs"]
mod tests;
