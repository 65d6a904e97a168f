//! Mail over SMTP: one message, through a server that an operator has named. Shared by the action `email.send` and by channels. Whose login
//! it is, the org's or the operator's, is the business of `Senders`.
//!
//! What a failure means for the effect is decided here. Until the server has taken the envelope and asked for the message, nothing was
//! sent; while the message is on its way, nobody knows.

mod address;
mod message;
mod sender;
mod server;

pub use address::MailAddress;
pub use message::{Mail, Subject};
pub use sender::{Sender, Senders};
pub use server::{MailServer, Security};

use crate::Error as SetupError;
use crate::words::{failed, refused, said};
use countersign_core::Secret;
use countersign_core::source::Error;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{AsyncSmtpConnection, Certificate, CertificateStore, TlsParameters};
use lettre::transport::smtp::commands::{Data, Mail as MailFrom, Rcpt};
use lettre::transport::smtp::{self, extension::ClientId};
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};

/// How long the server may take to say goodbye. The mail is sent by then.
const GOODBYE_MS: u64 = 500;

/// Sends mail through the servers that the operator has named, and through no others. The default knows none.
#[derive(Clone, Debug, Default)]
pub struct Mailer {
    servers: Vec<MailServer>,
    /// The only authorities whose certificates count, if the operator named them.
    authorities: Option<Certificate>,
}

/// The server of a mail, and who we are there.
#[derive(Clone, Debug)]
pub struct Route {
    pub server: MailServer,
    pub login: Option<MailLogin>,
}

#[derive(Clone, Debug)]
pub struct MailLogin {
    pub username: String,
    pub password: Secret<String>,
}

impl Mailer {
    /// `authorities` are certificates in PEM. Absent: the usual public ones.
    pub fn new(servers: Vec<MailServer>, authorities: Option<&str>) -> Result<Self, SetupError> {
        let authorities = authorities.map(certificates).transpose()?;
        Ok(Self { servers, authorities })
    }

    /// Whether the operator has named the server.
    pub fn check(&self, server: &MailServer) -> Result<(), Error> {
        if self.servers.contains(server) {
            return Ok(());
        }
        let message = format!("mail server `{server}` is not allowed; an operator can list it in `email.allowed_servers`");
        Err(refused("host_not_allowed", message))
    }

    /// Sends one mail to all its recipients, or to none of them.
    pub async fn send(&self, route: &Route, mail: &Mail, patience: Duration) -> Result<(), Error> {
        self.check(&route.server)?;
        let message = mail.written()?;
        let deadline = Instant::now() + patience;
        let greeted = timeout_at(deadline, self.announce(route, mail)).await;
        let mut connection = greeted.unwrap_or_else(|_| Err(away("it did not answer in time")))?;
        match timeout_at(deadline, connection.message(&message)).await {
            Ok(Ok(_)) => {
                let _said_goodbye = timeout(Duration::from_millis(GOODBYE_MS), connection.quit()).await;
                Ok(())
            }
            Ok(Err(error)) => Err(answered(&error).unwrap_or_else(|| Error::Broken { source_id: source_id(), message: told(&error) })),
            Err(_) => Err(Error::TimedOut { source_id: source_id(), timeout_ms: u64::try_from(patience.as_millis()).unwrap_or(u64::MAX) }),
        }
    }

    /// Whether the server would take mail from this sender. Nothing is sent.
    pub async fn greet(&self, sender: &Sender, patience: Duration) -> Result<(), Error> {
        self.check(&sender.route.server)?;
        let greeting = async {
            let mut connection = self.connect(&sender.route).await?;
            connection.command(MailFrom::new(Some(sender.from.inner().clone()), Vec::new())).await.map_err(before)?;
            let _said_goodbye = timeout(Duration::from_millis(GOODBYE_MS), connection.quit()).await;
            Ok::<(), Error>(())
        };
        timeout(patience, greeting).await.unwrap_or_else(|_| Err(away("it did not answer in time")))
    }

    /// Everything before the message itself. Whatever fails here, nothing was sent.
    async fn announce(&self, route: &Route, mail: &Mail) -> Result<AsyncSmtpConnection, Error> {
        let mut connection = self.connect(route).await?;
        connection.command(MailFrom::new(Some(mail.from.inner().clone()), Vec::new())).await.map_err(before)?;
        for to in &mail.to {
            connection.command(Rcpt::new(to.inner().clone(), Vec::new())).await.map_err(before)?;
        }
        connection.command(Data).await.map_err(before)?;
        Ok(connection)
    }

    async fn connect(&self, route: &Route) -> Result<AsyncSmtpConnection, Error> {
        let MailServer { host, port, security } = &route.server;
        let hello = ClientId::default();
        let tls = match security {
            Security::Tls => Some(self.tls(host)?),
            Security::StartTls | Security::None => None,
        };
        let mut connection = AsyncSmtpConnection::connect_tokio1((host.as_str(), *port), None, &hello, tls, None).await.map_err(before)?;
        if *security == Security::StartTls {
            // SECURITY: whoever sits in between may hide the offer, so a server without it gets nothing.
            if !connection.can_starttls() {
                return Err(failed("mail_not_encrypted", "the mail server offers no encryption (STARTTLS); nothing was sent"));
            }
            connection.starttls(self.tls(host)?, &hello).await.map_err(before)?;
        }
        if let Some(login) = &route.login {
            // SECURITY: a password is never sent in the clear.
            if !connection.is_encrypted() {
                return Err(failed("mail_not_encrypted", "a password is sent over TLS only; nothing was sent"));
            }
            let credentials = Credentials::new(login.username.clone(), login.password.expose().clone());
            let is_in = connection.auth(&[Mechanism::Plain, Mechanism::Login], &credentials).await;
            is_in.map_err(|error| match answered(&error) {
                Some(busy @ Error::Busy { .. }) => busy,
                // What the server says about a login may quote it.
                Some(_) => failed("mail_login_refused", "the mail server does not accept the user and the password; nothing was sent"),
                None => away("the login broke off"),
            })?;
        }
        Ok(connection)
    }

    fn tls(&self, host: &str) -> Result<TlsParameters, Error> {
        let builder = TlsParameters::builder(host.to_owned());
        let builder = match &self.authorities {
            Some(authorities) => builder.certificate_store(CertificateStore::None).add_root_certificate(authorities.clone()),
            None => builder,
        };
        builder.build().map_err(|error| failed("mail_not_encrypted", format!("TLS cannot be used: {}", told(&error))))
    }
}

fn certificates(pem: &str) -> Result<Certificate, SetupError> {
    // A text without any would be read as no authority at all.
    let has_any = pem.contains("-----BEGIN CERTIFICATE-----");
    let read = has_any.then(|| Certificate::from_pem(pem.as_bytes()).ok()).flatten();
    read.ok_or_else(|| SetupError::MailCertificates { message: "they are not certificates in PEM".to_owned() })
}

fn source_id() -> String {
    "email".to_owned()
}

/// Nothing was sent, and trying again is safe.
fn away(message: &str) -> Error {
    Error::Unreachable { source_id: source_id(), message: message.to_owned() }
}

/// What failed before the message was on its way.
fn before(error: smtp::Error) -> Error {
    answered(&error).unwrap_or_else(|| away(&told(&error)))
}

/// What the server answered, if it did: it did not take the mail.
fn answered(error: &smtp::Error) -> Option<Error> {
    if error.is_transient() {
        return Some(Error::Busy { source_id: source_id(), message: told(error), retry_after_ms: None });
    }
    let message = || format!("the mail server does not take the mail: {}; nothing was sent", told(error));
    error.is_permanent().then(|| failed("mail_refused", message()))
}

/// The words of the server, on one line.
fn told(error: &smtp::Error) -> String {
    said(&error.to_string())
}

#[cfg(test)]
#[path = "mail_tests.rs"]
mod tests;
