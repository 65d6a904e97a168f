//! Mail connections: through which server the mail of an org goes, from which address, and with which login. An org that has none sends as
//! the operator's setting says, if there is one.

use super::{Connected, Tested, must_be_ready, not_ready, of_store};
use crate::limits::MAIL_SEND_MS;
use crate::mail::{MailLogin, MailServer, Route, Sender, Senders};
use crate::words::{failed, refused};
use countersign_core::ports::connections::{Connection, ConnectionName, OpenConnection};
use countersign_core::source::{Error, SentAs};
use countersign_core::{Future, OrgId, Secret, SpaceId};
use std::time::Duration;

/// The mail connections of every org.
pub struct OrgSenders {
    connected: Connected,
    /// The operator's, for orgs that have none of their own.
    default: Option<Sender>,
}

impl OrgSenders {
    pub const fn new(connected: Connected, default: Option<Sender>) -> Self {
        Self { connected, default }
    }

    async fn find(&self, org: &OrgId, space: Option<&SpaceId>) -> Result<Sender, Error> {
        match (chosen(self.connections(org).await?, space)?, &self.default) {
            (Some(connection), _) => sender(self.connected.open(org, &connection.id).await?),
            (None, Some(default)) => Ok(default.clone()),
            (None, None) => {
                let add = "connection add NAME smtps://HOST --smtp --from ADDRESS";
                Err(failed("mail_server_missing", format!("there is no mail server for this; an admin can add one with `{add}`")))
            }
        }
    }

    async fn find_as_whom(&self, org: &OrgId, space: Option<&SpaceId>) -> Result<Option<SentAs>, Error> {
        // Where several are for this, the call says so when it is made.
        let Ok(chosen) = chosen(self.connections(org).await?, space) else { return Ok(None) };
        let default = || self.default.as_ref().map(|default| SentAs::Setting(default.in_words()));
        Ok(chosen.map(|connection| SentAs::Connection(connection.id)).or_else(default))
    }

    async fn connections(&self, org: &OrgId) -> Result<Vec<Connection>, Error> {
        self.connected.kept.mail_connections(org).await.map_err(|error| of_store(&error))
    }
}

impl Senders for OrgSenders {
    fn sender_of<'a>(&'a self, org: &'a OrgId, space: Option<&'a SpaceId>) -> Future<'a, Result<Sender, Error>> {
        Box::pin(self.find(org, space))
    }

    fn sent_as<'a>(&'a self, org: &'a OrgId, space: Option<&'a SpaceId>) -> Future<'a, Result<Option<SentAs>, Error>> {
        Box::pin(self.find_as_whom(org, space))
    }
}

impl Connected {
    /// Whether a mail connection can be for this server: one that the operator has named.
    pub fn check_mail_server(&self, url: &str) -> Result<MailServer, Error> {
        let server: MailServer = url.parse().map_err(|error: crate::Error| refused("url_not_allowed", error.to_string()))?;
        self.mailer.check(&server).map(|()| server)
    }

    /// Logs in, and says which address mail would come from. Nothing is sent.
    pub(super) async fn test_mail(&self, opened: OpenConnection) -> Result<Tested, Error> {
        let name = opened.connection.name.clone();
        let sender = sender(opened)?;
        let greeted = self.mailer.greet(&sender, Duration::from_millis(MAIL_SEND_MS)).await;
        let Err(error) = greeted else { return Ok(Tested::of_mail(250)) };
        match error.code() {
            "mail_login_refused" => Ok(Tested::of_mail(535)),
            "mail_refused" => Ok(Tested::of_mail(550)),
            _ => Err(unusable(&name, error)),
        }
    }
}

/// No source is asked: the mail server is the cause, or what an operator allows.
fn unusable(name: &ConnectionName, error: Error) -> Error {
    let (Error::Unreachable { message, .. } | Error::Busy { message, .. } | Error::Failed { message, .. }) = &error else {
        return error;
    };
    failed("connection_unreachable", format!("the mail server of connection `{name}` cannot be used: {message}"))
}

/// The connection for this space. One that names the space goes before one that is for all. Of several none is chosen: nobody could tell
/// from which address a mail comes.
fn chosen(mut connections: Vec<Connection>, space: Option<&SpaceId>) -> Result<Option<Connection>, Error> {
    connections.retain(|connection| match space {
        Some(space) => connection.may_be_used_in(space),
        None => connection.spaces.is_none(),
    });
    if connections.iter().any(|connection| connection.spaces.is_some()) {
        connections.retain(|connection| connection.spaces.is_some());
    }
    if connections.len() > 1 {
        let names: Vec<_> = connections.iter().map(|connection| format!("`{}`", connection.name)).collect();
        let message = format!(
            "several mail connections are for this: {}; an admin can say with `--space` which spaces each is for, or remove some",
            names.join(", ")
        );
        return Err(refused("connection_not_allowed", message));
    }
    Ok(connections.pop())
}

fn sender(opened: OpenConnection) -> Result<Sender, Error> {
    let OpenConnection { connection, value } = opened;
    must_be_ready(&connection)?;
    let unfit = |error: crate::Error| not_ready(format!("connection `{}` cannot be used: {error}", connection.name));
    let server = connection.url.parse().map_err(unfit)?;
    let from = connection.from.as_deref().unwrap_or_default().parse().map_err(unfit)?;
    let login = match (&connection.account, value) {
        (None, _) => None,
        (Some(username), Some(value)) => Some(MailLogin { username: username.clone(), password: Secret::new(value.expose().to_owned()) }),
        (Some(_), None) => return Err(not_ready(format!("connection `{}` has no credential any more", connection.name))),
    };
    Ok(Sender { route: Route { server, login }, from })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oauth::tests::connection;
    use countersign_core::Timestamp;
    use countersign_core::ports::connections::{ConnectionKind, ConnectionState};
    use countersign_core::ports::secrets::SecretValue;

    fn space(byte: u8) -> SpaceId {
        SpaceId::new(Timestamp::default(), [byte; 10])
    }

    fn mail(name: &str, spaces: Option<Vec<SpaceId>>) -> Connection {
        Connection {
            name: ConnectionName::parse(name).unwrap(),
            kind: ConnectionKind::Smtp,
            from: Some(format!("{name}@example.com")),
            spaces,
            state: ConnectionState::Ready,
            ..connection("smtps://mail.example.com".to_owned())
        }
    }

    #[test]
    fn the_connection_of_a_space_goes_before_that_of_the_org_and_of_several_none_is_chosen() {
        let (all, one) = (mail("all", None), mail("one", Some(vec![space(1)])));
        let both = || vec![all.clone(), one.clone()];
        for (connections, space, expected) in [
            (vec![], Some(space(1)), Ok(None)),
            (vec![], None, Ok(None)),
            (both(), Some(space(1)), Ok(Some("one"))),
            (both(), Some(space(2)), Ok(Some("all"))),
            (both(), None, Ok(Some("all"))),
            (vec![one.clone()], Some(space(2)), Ok(None)),
            (vec![one.clone()], None, Ok(None)),
            (vec![all.clone(), mail("other", None)], None, Err("connection_not_allowed")),
            (vec![all.clone(), mail("other", None)], Some(space(1)), Err("connection_not_allowed")),
            (vec![all.clone(), mail("other", None), one.clone()], Some(space(1)), Ok(Some("one"))),
        ] {
            let found = chosen(connections, space.as_ref()).map_err(|error| error.code());
            let found = found.map(|found| found.map(|connection| connection.name.to_string()));
            assert_eq!(found, expected.map(|name| name.map(str::to_owned)), "{space:?}");
        }
        let told = chosen(vec![all.clone(), mail("other", None)], None).unwrap_err().to_string();
        assert!(told.contains("`all`, `other`"), "{told}");
    }

    #[test]
    fn a_login_is_used_only_as_a_whole() {
        let opened = |account: Option<&str>, value: Option<&str>| OpenConnection {
            connection: Connection { account: account.map(str::to_owned), ..mail("all", None) },
            value: value.and_then(|value| SecretValue::new(Secret::new(value.to_owned()))),
        };
        let open = sender(opened(None, None)).unwrap();
        assert_eq!((open.from.to_string().as_str(), open.route.login.is_none()), ("all@example.com", true));
        let login = sender(opened(Some("robin"), Some("s3cret"))).unwrap().route.login.unwrap();
        assert_eq!((login.username.as_str(), login.password.expose().as_str()), ("robin", "s3cret"));
        assert_eq!(sender(opened(Some("robin"), None)).unwrap_err().code(), "connection_not_ready");
        let removed = OpenConnection { connection: Connection { state: ConnectionState::Revoked, ..mail("all", None) }, value: None };
        assert_eq!(sender(removed).unwrap_err().code(), "connection_not_ready");
    }
}
