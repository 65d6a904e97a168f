//! The ports to an org's connections: the credentials of its sources, each with the place it may be sent to. `KeptConnections` is the store,
//! which seals them; `Connections` is what a source asks in a call, and renews tokens where it must.

use super::Error;
use super::secrets::{SecretName, SecretValue, needs_no_quoting};
use crate::{ConnectionId, Future, OrgId, PrincipalId, Secret, SpaceId, Timestamp, source};
use std::fmt;

/// Gives a call the headers with which it acts elsewhere.
pub trait Connections: Send + Sync {
    /// The headers of one request. They are for that request alone: whoever asks sends them and drops them.
    fn resolve_connection<'a>(&'a self, wanted: Wanted<'a>) -> Future<'a, Result<ConnectionHeaders, source::Error>>;
    /// The place that the headers were sent to refused them with this status and this `WWW-Authenticate`. Returns whether other headers can
    /// be had now, so that the request may be sent once more. If only a person can mend it, the connection says so from here on.
    fn refused_connection<'a>(&'a self, wanted: Wanted<'a>, refusal: Refusal<'a>) -> Future<'a, Result<bool, source::Error>>;
}

/// Which connection a call wants, and what for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    pub org: &'a OrgId,
    pub connection: &'a ConnectionId,
    /// The space of the call; absent for what no call asks for, such as the listing of a source.
    pub space: Option<&'a SpaceId>,
    /// The URL that the headers will be sent to. A credential goes to the origin of its connection only.
    pub url: &'a str,
}

/// How the other side refused a request.
#[derive(Clone, Copy)]
pub struct Refusal<'a> {
    /// The headers that were refused.
    pub sent: &'a ConnectionHeaders,
    pub status: u16,
    pub www_authenticate: Option<&'a str>,
}

/// Header names and values. They can be neither printed nor copied nor serialised, and are overwritten in memory when they are dropped.
pub struct ConnectionHeaders(Vec<(String, Secret<String>)>);

impl ConnectionHeaders {
    pub const fn new(pairs: Vec<(String, Secret<String>)>) -> Self {
        Self(pairs)
    }

    /// The only way out, and easy to search for.
    pub fn expose(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.expose().as_str()))
    }
}

/// The store's part: connections with their credentials, and the lock under which a token is renewed.
pub trait KeptConnections: Send + Sync {
    /// Opens a connection and notes its use; `None` if the org has none with this id. One that was removed has no value.
    fn open_connection<'a>(&'a self, org: &'a OrgId, connection: &'a ConnectionId) -> Future<'a, Result<Option<OpenConnection>, Error>>;
    /// Takes the lock under which the tokens of this connection are renewed, for `OAUTH_REFRESH_SECONDS`, and reads it once more: another
    /// server may just have renewed them. `holder` must be unpredictable and new.
    fn lock_tokens<'a>(&'a self, org: &'a OrgId, connection: &'a ConnectionId, holder: &'a str) -> Future<'a, Result<Locked, Error>>;
    /// Keeps renewed tokens and gives the lock back. Returns false, and keeps nothing, if the lock is no longer this holder's.
    fn keep_tokens<'a>(
        &'a self,
        org: &'a OrgId,
        connection: &'a ConnectionId,
        holder: &'a str,
        tokens: SecretValue,
    ) -> Future<'a, Result<bool, Error>>;
    /// Gives the lock back without a change.
    fn unlock_tokens<'a>(&'a self, org: &'a OrgId, connection: &'a ConnectionId, holder: &'a str) -> Future<'a, Result<(), Error>>;
    /// The connections of the kind `smtp` that were not removed, by name, without their credentials.
    fn mail_connections<'a>(&'a self, org: &'a OrgId) -> Future<'a, Result<Vec<Connection>, Error>>;
    /// Notes that only a person can mend this version of the connection, and why. A lock on it ends. Another version, which a login has
    /// made meanwhile, stays as it is.
    fn need_login<'a>(&'a self, org: &'a OrgId, connection: &'a ConnectionId, version: i64, need: Need) -> Future<'a, Result<(), Error>>;
}

/// What became of the attempt to take the lock of a connection.
pub enum Locked {
    Ours(Box<OpenConnection>),
    /// Another call or server is renewing the tokens.
    Taken,
    /// There is no such connection any more.
    Gone,
}

/// What a person has to do for a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// It no longer works: its login was ended elsewhere, or has run out.
    Login { why: String },
    /// It works, but some calls need these scopes too. The next login asks for them.
    Scopes { why: String, scopes: String },
}

/// A connection with its credential.
pub struct OpenConnection {
    pub connection: Connection,
    /// The token, the header's value, or the password; for OAuth what `sources/oauth` keeps. Absent before the first login, for a mail server
    /// that asks for none, and after the connection was removed.
    pub value: Option<SecretValue>,
}

/// A connection without its credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    pub id: ConnectionId,
    pub name: ConnectionName,
    pub kind: ConnectionKind,
    /// The address it is for. Its credential is sent to the origin of this address, and to no other.
    pub url: String,
    /// The name of the header, or of the user for `basic` and `smtp`.
    pub account: Option<String>,
    /// The address that mail comes from, for `smtp`.
    pub from: Option<String>,
    /// The secret that has the value, if the connection has none of its own.
    pub secret: Option<SecretName>,
    /// Who issued the tokens, for OAuth.
    pub issuer: Option<String>,
    /// The scopes that a login asks for, divided by spaces; absent: those that the other side names.
    pub scopes: Option<String>,
    /// The spaces whose calls may use it; absent: all.
    pub spaces: Option<Vec<SpaceId>>,
    /// 1 at first, and 1 more for each login.
    pub version: i64,
    pub state: ConnectionState,
    /// Why a person should look at it, as a sentence.
    pub why: Option<String>,
    pub made_by: PrincipalId,
    pub made_at: Timestamp,
    /// Who started the last login that succeeded.
    pub login_by: Option<PrincipalId>,
    pub login_at: Option<Timestamp>,
    /// When a call last used it, to the minute.
    pub last_used_at: Option<Timestamp>,
    pub removed_at: Option<Timestamp>,
}

impl Connection {
    pub fn may_be_used_in(&self, space: &SpaceId) -> bool {
        self.spaces.as_ref().is_none_or(|spaces| spaces.contains(space))
    }
}

/// The name of a connection, unique among those of its org that were not removed. It needs no quoting anywhere, like that of a secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionName(String);

impl ConnectionName {
    /// Takes what the name of a secret takes, but nothing that could be an id.
    pub fn parse(text: &str) -> Option<Self> {
        (needs_no_quoting(text) && !text.starts_with("con_")).then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ConnectionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How a connection shows who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConnectionKind {
    /// `Authorization: Bearer …` with a token that stays as it is.
    Bearer,
    /// A header of its own, such as `X-Api-Key`.
    Header,
    /// A user's name and a password.
    Basic,
    /// OAuth 2.1: a person logs in once, and tokens are renewed.
    Oauth,
    /// A mail server, with a user's name and a password if it asks for them.
    Smtp,
}

crate::words!(ConnectionKind { Bearer = "bearer", Header = "header", Basic = "basic", Oauth = "oauth", Smtp = "smtp" });

/// Whether a connection works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConnectionState {
    Ready,
    /// Nobody has logged in yet, or the login has ended: an admin logs in.
    NeedsLogin,
    /// It was removed, and its credential with it. Nobody can mend it.
    Revoked,
}

crate::words!(ConnectionState { Ready = "ready", NeedsLogin = "needs_login", Revoked = "revoked" });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_never_taken_for_an_id() {
        for good in ["github", "api.example.com", "con-1", "CON_1"] {
            assert_eq!(ConnectionName::parse(good).unwrap().as_str(), good);
        }
        for bad in ["", "con_1", "con_01k9z6m4x0abcdefghjkmnpqrs", "a b", "a/b", ".."] {
            assert_eq!(ConnectionName::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn words_are_read_as_they_are_written() {
        for kind in ConnectionKind::ALL {
            assert_eq!(ConnectionKind::parse(kind.as_str()), Some(kind));
        }
        for state in [ConnectionState::Ready, ConnectionState::NeedsLogin, ConnectionState::Revoked] {
            assert_eq!(ConnectionState::parse(state.as_str()), Some(state));
        }
        assert_eq!((ConnectionKind::parse("token"), ConnectionState::parse("")), (None, None));
    }
}
