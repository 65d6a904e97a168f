//! Which mail servers there are: the one that mail goes through where an org has none, and those that connections and channels may name.

use super::{ConfigError, EmailSection};
use sources::mail::{MailAddress, MailServer, Security};
use std::path::PathBuf;

/// The operator's mail settings. The default knows no server.
#[derive(Clone, Debug, Default)]
pub struct EmailConfig {
    /// What mail goes through where an org has no mail connection.
    pub sender: Option<EmailSender>,
    /// Further servers that connections and channels may name. Without any server `email.send` is not offered.
    pub allowed_servers: Vec<MailServer>,
    /// The file with the only authorities whose certificates count; absent: the usual public ones.
    pub ca_cert: Option<PathBuf>,
}

#[derive(Clone, Debug)]
pub struct EmailSender {
    pub server: MailServer,
    pub from: MailAddress,
    pub login: Option<EmailLogin>,
}

#[derive(Clone, Debug)]
pub struct EmailLogin {
    pub username: String,
    pub password_file: PathBuf,
}

impl EmailSection {
    pub(super) fn read(self) -> Result<EmailConfig, ConfigError> {
        let invalid = |name: &str, message: String| ConfigError::InvalidValue { name: name.into(), message };
        let alone = |name: &str, other: &str| Err(invalid(name, format!("it needs `{other}` beside it")));
        let login = match (self.username, self.password_file) {
            (Some(username), Some(password_file)) => Some(EmailLogin { username, password_file }),
            (None, None) => None,
            (Some(_), None) => return alone("email.username", "email.password_file"),
            (None, Some(_)) => return alone("email.password_file", "email.username"),
        };
        let sender = match (self.server, self.from) {
            (Some(server), Some(from)) => {
                let server: MailServer = server.parse().map_err(|error: sources::Error| invalid("email.server", error.to_string()))?;
                let from = from.parse().map_err(|error: sources::Error| invalid("email.from", error.to_string()))?;
                if login.is_some() && server.security() == Security::None {
                    return Err(invalid("email.server", "a password is sent over TLS only: leave `?tls=none` out".to_owned()));
                }
                Some(EmailSender { server, from, login })
            }
            (None, None) if login.is_some() => return alone("email.username", "email.server"),
            (None, None) => None,
            (Some(_), None) => return alone("email.server", "email.from"),
            (None, Some(_)) => return alone("email.from", "email.server"),
        };
        let allowed_servers = super::parse_all("email.allowed_servers", &self.allowed_servers.unwrap_or_default())?;
        Ok(EmailConfig { sender, allowed_servers, ca_cert: self.ca_cert })
    }
}
