//! Connections. Whoever reads the org sees them; nobody sees a credential again. A login is started by an admin and ended by whoever comes
//! back with its `state`: what an admin may no longer do then is not done.

use super::{Error, must, must_read, sight, spaces};
use crate::App;
use crate::limits::CONNECTION_SPACES_MAX;
use api::connection::NewConnectionRequest;
use countersign_core::limits::{SECRET_NAME_CHARS_MAX, SECRET_VALUE_BYTES_MAX};
use countersign_core::ports::Principals;
use countersign_core::ports::connections::{Connection, ConnectionKind, ConnectionName};
use countersign_core::ports::secrets::{SecretName, SecretValue};
use countersign_core::principal::Permission;
use countersign_core::{ConnectionId, Principal, Secret, SpaceId, Timestamp};
use sources::connection::{Connected, Tested};
use sources::limits::CONNECTION_TEXT_BYTES_MAX;
use sources::mail::{MailAddress, Security};
use sources::oauth::{Granted, Own, Returned};
use std::collections::BTreeSet;
use store::{CreatedConnection, Login, LoginEnd, NewConnection, Page, PageRequest, RemovedConnection};

/// A login that was started.
pub struct Started {
    pub url: String,
    pub expires_at: Timestamp,
}

pub async fn list(app: &App, by: &Principal, request: &PageRequest) -> Result<Page<Connection>, Error> {
    must_read(by)?;
    let hidden = sight::hidden(app, by).await?;
    let mut page = app.store().list_connections(&by.org, &hidden, request).await?;
    page.items = page.items.into_iter().filter_map(|connection| seen(connection, &hidden)).collect();
    Ok(page)
}

/// A connection by its name, or by its id, also after it was removed.
pub async fn find(app: &App, by: &Principal, named: &str) -> Result<Connection, Error> {
    must_read(by)?;
    find_any(app, by, named).await
}

/// A connection that was not removed, for those who manage it.
async fn find_present(app: &App, by: &Principal, named: &str) -> Result<Connection, Error> {
    must(by, Permission::ManageIdentity)?;
    let found = find_any(app, by, named).await?;
    if found.removed_at.is_none() { Ok(found) } else { Err(Error::not_found("connection", named)) }
}

pub(super) async fn find_any(app: &App, by: &Principal, named: &str) -> Result<Connection, Error> {
    let found = match (ConnectionId::parse(named), ConnectionName::parse(named)) {
        (Ok(id), _) => app.store().find_connection_by_id(&by.org, &id).await?,
        (Err(_), Some(name)) => app.store().find_connection(&by.org, &name).await?,
        (Err(_), None) => None,
    };
    let hidden = sight::hidden(app, by).await?;
    found.and_then(|connection| seen(connection, &hidden)).ok_or_else(|| Error::not_found("connection", named))
}

/// The connection without the spaces that are hidden; `None` if it is for those only.
fn seen(mut connection: Connection, hidden: &BTreeSet<SpaceId>) -> Option<Connection> {
    let is_for_some = connection.spaces.as_ref().is_none_or(|spaces| spaces.iter().any(|space| !hidden.contains(space)));
    if let Some(spaces) = &mut connection.spaces {
        spaces.retain(|space| !hidden.contains(space));
    }
    (is_for_some || hidden.is_empty()).then_some(connection)
}

pub async fn create(app: &App, by: &Principal, request: NewConnectionRequest) -> Result<Connection, Error> {
    must(by, Permission::ManageIdentity)?;
    check_fields(&request)?;
    let NewConnectionRequest { name, kind, url, account, from, value, secret, spaces, scopes, client_id } = request;
    let parsed = ConnectionName::parse(&name).ok_or_else(|| {
        Error::invalid(format!(
            "the name of a connection has 1 to {SECRET_NAME_CHARS_MAX} letters, digits, `_`, `-` or `.`, begins with a letter or a digit, and \
             not with `con_`"
        ))
    })?;
    let texts = [Some(&url), account.as_ref(), from.as_ref(), client_id.as_ref()];
    if texts.into_iter().flatten().any(|text| text.len() > CONNECTION_TEXT_BYTES_MAX || text.contains('\0')) {
        return Err(Error::invalid(format!("a text of a connection has at most {CONNECTION_TEXT_BYTES_MAX} bytes, and no U+0000")));
    }
    let connected = &app.parts.connections;
    match kind {
        ConnectionKind::Smtp => must_take_mail(app, &name, &url, from.as_deref(), account.is_some())?,
        ConnectionKind::Bearer | ConnectionKind::Header | ConnectionKind::Basic | ConnectionKind::Oauth => {
            // Connections hear of what operators have just allowed.
            app.parts.added.allowed().now().await?;
            connected.check_url(&url).map_err(about(&name))?;
        }
    }
    let secret = secret.map(|secret| SecretName::parse(&secret).ok_or_else(|| Error::not_found("secret", &secret))).transpose()?;
    let value = value.map(value_of).transpose()?;
    let value = match (kind, client_id) {
        (ConnectionKind::Oauth, Some(client_id)) => {
            let secret = value.map(|value| Secret::new(value.expose().to_owned()));
            Some(Connected::registered(client_id, secret).map_err(about(&name))?)
        }
        (ConnectionKind::Oauth, None) => None,
        (ConnectionKind::Smtp, _) => {
            if value.as_ref().is_some_and(|value| value.expose().chars().any(char::is_control)) {
                return Err(Error::invalid("a password has no control characters"));
            }
            value
        }
        (ConnectionKind::Bearer | ConnectionKind::Header | ConnectionKind::Basic, _) => {
            connected.check_credential(kind, account.as_deref(), value.as_ref()).map_err(about(&name))?;
            value
        }
    };
    let spaces = match spaces {
        Some(spaces) => Some(spaces_of(app, by, &spaces).await?),
        None => None,
    };
    let scopes = scopes.map(|scopes| scopes_of(&scopes)).transpose()?;
    let named = secret.clone();
    let new = NewConnection { name: parsed, kind, url, account, from, secret, scopes, spaces, value };
    match app.store().create_connection(&by.org, new, &by.id).await? {
        CreatedConnection::Created(connection) => Ok(*connection),
        CreatedConnection::Taken => Err(Error::NameTaken { what: "connection", name }),
        CreatedConnection::NoSecret => Err(Error::not_found("secret", named.as_ref().map_or("", SecretName::as_str))),
    }
}

/// Removes a connection that no source uses. Its tokens are revoked where they came from, if that is possible; what is removed here is removed in any case.
pub async fn remove(app: &App, by: &Principal, named: &str) -> Result<(), Error> {
    let unknown = || Error::not_found("connection", named);
    let name = find_present(app, by, named).await?.name;
    let removed = match app.store().remove_connection(&by.org, &name, &by.id).await?.ok_or_else(unknown)? {
        RemovedConnection::Done(removed) => removed,
        RemovedConnection::InUse(sources) => {
            let users: Vec<_> = sources.iter().map(|source| format!("source `{source}`")).collect();
            return Err(Error::ConnectionInUse { name: name.to_string(), users: users.join(", ") });
        }
    };
    if let Err(error) = app.parts.connections.revoke(&removed).await {
        tracing::warn!(%error, connection = %removed.connection.id, "the tokens of a removed connection were not revoked where they came from");
    }
    Ok(())
}

/// Asks the address of the connection once with its credential, and once without.
pub async fn test(app: &App, by: &Principal, named: &str) -> Result<Tested, Error> {
    let connection = find_present(app, by, named).await?;
    app.parts.connections.test(&by.org, &connection.id).await.map_err(about(connection.name.as_str()))
}

/// Starts a login: finds out where, and prepares what is needed when somebody comes back, to the address `own`.
pub async fn start_login(app: &App, by: &Principal, named: &str, own: &Own) -> Result<Started, Error> {
    let connection = find_present(app, by, named).await?;
    must_have_logins(&connection)?;
    let begun = app.parts.connections.begin_login(&by.org, &connection.id, own).await.map_err(about(connection.name.as_str()))?;
    let started = app.store().start_login(&by.org, &connection.id, &begun.state, &begun.details, &by.id).await?;
    let expires_at = started.ok_or_else(|| Error::not_found("connection", named))?;
    Ok(Started { url: begun.url, expires_at })
}

/// How the last login of a connection stands.
pub async fn login(app: &App, by: &Principal, named: &str) -> Result<Login, Error> {
    let connection = find(app, by, named).await?;
    let found = app.store().find_login(&by.org, &connection.id).await?;
    found.ok_or_else(|| Error::Absent {
        message: format!("no login was started for connection `{}`", connection.name),
        listed_at: "connections",
    })
}

/// Ends the login that the `state` belongs to, once. Returns the connection that somebody is logged in for now.
pub async fn end_login(app: &App, state: &str, returned: Returned) -> Result<Connection, Error> {
    let no_login = || Error::LoginUnknown;
    let org = app.store().find_org_of_login(state).await?.ok_or_else(no_login)?;
    super::must_be_enabled(app, &org, "login").await?;
    let login = app.store().take_login(&org, state).await?.ok_or_else(no_login)?;
    let id = login.connection.clone();
    let granted = match may_end(app, &login).await? {
        Ok(()) => app.parts.connections.end_login(&login.details, returned).await,
        Err(why) => Err(countersign_core::source::Error::Refused { code: "login_failed", message: why.to_owned() }),
    };
    let (end, failure) = match granted {
        Ok(Granted { value, issuer }) => (LoginEnd::Granted { value, issuer }, None),
        Err(error) => (LoginEnd::Failed { problem: error.to_string() }, Some(error)),
    };
    let is_there = app.store().end_login(login, end).await?;
    match failure {
        Some(error) => Err(about(id.as_str())(error)),
        None if !is_there => Err(no_login()),
        None => app.store().find_connection_by_id(&org, &id).await?.ok_or_else(no_login),
    }
}

/// Whether the login can still be ended: in time, and by somebody who may still log in for connections.
async fn may_end(app: &App, login: &store::TakenLogin) -> Result<Result<(), &'static str>, Error> {
    if login.expires_at <= app.parts.clock.now() {
        return Ok(Err("the login was started too long ago"));
    }
    let by = app.store().find_principal(&login.org, &login.started_by).await?;
    let may = by.is_some_and(|by| by.may(Permission::ManageIdentity));
    Ok(if may { Ok(()) } else { Err("whoever started the login may no longer do so") })
}

fn must_have_logins(connection: &Connection) -> Result<(), Error> {
    match connection.kind {
        ConnectionKind::Oauth => Ok(()),
        ConnectionKind::Bearer | ConnectionKind::Header | ConnectionKind::Basic | ConnectionKind::Smtp => {
            Err(Error::invalid("only a connection of the kind `oauth` has a login"))
        }
    }
}

/// Whether an org may have a connection to this mail server.
fn must_take_mail(app: &App, name: &str, url: &str, from: Option<&str>, has_login: bool) -> Result<(), Error> {
    let from = from.unwrap_or_default().parse::<MailAddress>();
    from.map_err(|error| Error::invalid(format!("`from`: {error}")))?;
    let server = app.parts.connections.check_mail_server(url).map_err(about(name))?;
    if has_login && server.security() == Security::None {
        return Err(Error::invalid("a password is sent over TLS only: leave `?tls=none` out"));
    }
    Ok(())
}

/// The error of the connection with this name.
fn about(name: &str) -> impl FnOnce(countersign_core::source::Error) -> Error {
    |error| Error::Connection { name: name.to_owned(), error }
}

/// Which fields each kind takes.
fn check_fields(request: &NewConnectionRequest) -> Result<(), Error> {
    let wrong = |message: &str| Err(Error::invalid(message));
    let NewConnectionRequest { kind, account, from, value, secret, scopes, client_id, .. } = request;
    if from.is_some() != (*kind == ConnectionKind::Smtp) {
        return wrong("`from` is the address that mail comes from: `smtp` has one, and no other kind");
    }
    match (kind, account.as_deref()) {
        (ConnectionKind::Header, None | Some("")) => return wrong("`account` must name the header"),
        (ConnectionKind::Basic, None | Some("")) => return wrong("`account` must name the user"),
        (ConnectionKind::Smtp, Some(user)) if user.is_empty() || user.chars().any(char::is_control) => {
            return wrong("`account` must name the user");
        }
        (ConnectionKind::Basic, Some(user)) if user.contains(':') => return wrong("the name of a user has no `:`"),
        (ConnectionKind::Bearer | ConnectionKind::Oauth, Some(_)) => return wrong("`account` is for `header`, `basic` and `smtp`"),
        (ConnectionKind::Header | ConnectionKind::Basic | ConnectionKind::Smtp, Some(_))
        | (ConnectionKind::Bearer | ConnectionKind::Oauth | ConnectionKind::Smtp, None) => {}
    }
    let is_oauth = *kind == ConnectionKind::Oauth;
    let is_open = *kind == ConnectionKind::Smtp && account.is_none();
    match (value.is_some(), secret.is_some()) {
        (_, true) if is_oauth => wrong("`secret` is not for `oauth`"),
        (true, _) if is_oauth && client_id.is_none() => wrong("for `oauth`, `value` is the secret of the client that `client_id` names"),
        (_, _) if is_oauth => Ok(()),
        (_, _) if scopes.is_some() || client_id.is_some() => wrong("`scopes` and `client_id` are for `oauth`"),
        (false, false) if is_open => Ok(()),
        (_, _) if is_open => wrong("a password needs `account`, the name of the user"),
        (true, true) | (false, false) => wrong("give either `value` or `secret`"),
        (true, false) | (false, true) => Ok(()),
    }
}

fn value_of(value: Secret<String>) -> Result<SecretValue, Error> {
    SecretValue::new(value).ok_or_else(|| Error::invalid(format!("the value of a connection has 1 to {SECRET_VALUE_BYTES_MAX} bytes")))
}

pub(super) async fn spaces_of(app: &App, by: &Principal, named: &[String]) -> Result<Vec<SpaceId>, Error> {
    if named.is_empty() || named.len() > CONNECTION_SPACES_MAX {
        return Err(Error::invalid(format!("`spaces` names 1 to {CONNECTION_SPACES_MAX} spaces")));
    }
    let mut spaces = BTreeSet::new();
    for space in named {
        spaces.insert(spaces::find(app, by, space).await?.id);
    }
    Ok(spaces.into_iter().collect())
}

/// RFC 6749, 3.3: what a scope may consist of.
fn scopes_of(scopes: &[String]) -> Result<String, Error> {
    let fits = |scope: &String| !scope.is_empty() && scope.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\');
    let joined = scopes.join(" ");
    if scopes.is_empty() || joined.len() > CONNECTION_TEXT_BYTES_MAX || !scopes.iter().all(fits) {
        return Err(Error::invalid(
            "`scopes` is a list of words, each of printable ASCII characters without spaces, quotation marks and backslashes",
        ));
    }
    Ok(joined)
}
