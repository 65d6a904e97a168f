//! A mail server, as an operator names it.

use crate::Error;
use std::fmt;
use std::str::FromStr;
use url::Url;

/// Such as `smtps://mail.example.com`, `smtp://mail.example.com:587` or `smtp://127.0.0.1:25?tls=none`. Two are the same if host, port and
/// encryption are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailServer {
    /// A name, or an address without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) security: Security,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    /// TLS from the first byte on.
    Tls,
    /// The connection becomes TLS before anything is sent. A server that does not offer it gets nothing.
    StartTls,
    /// For a relay on this machine or in a network of one's own, if it is asked for. A password is never sent so.
    None,
}

impl MailServer {
    pub const fn security(&self) -> Security {
        self.security
    }
}

impl FromStr for MailServer {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let invalid = |message| Error::MailServer { text: text.chars().take(200).collect(), message };
        let url = Url::parse(text).map_err(|_| invalid("expected an address such as smtps://mail.example.com"))?;
        let (security, default_port) = match (url.scheme(), url.query()) {
            ("smtps", None) => (Security::Tls, 465),
            ("smtp", None) => (Security::StartTls, 587),
            ("smtp", Some("tls=none")) => (Security::None, 25),
            ("smtps" | "smtp", Some(_)) => return Err(invalid("after the address only `?tls=none` may stand, with smtp")),
            _ => return Err(invalid("it must begin with `smtps://` or `smtp://`")),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(invalid("the user and the password have settings of their own"));
        }
        if !matches!(url.path(), "" | "/") || url.fragment().is_some() {
            return Err(invalid("a mail server has no path"));
        }
        let host = url.host_str().unwrap_or_default();
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host).to_ascii_lowercase();
        if host.is_empty() || !host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:".contains(&byte)) {
            return Err(invalid("the host is neither a name nor an address"));
        }
        let port = url.port().unwrap_or(default_port);
        if port == 0 {
            return Err(invalid("port 0 cannot be connected to"));
        }
        Ok(Self { host, port, security })
    }
}

impl fmt::Display for MailServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, query) = match self.security {
            Security::Tls => ("smtps", ""),
            Security::StartTls => ("smtp", ""),
            Security::None => ("smtp", "?tls=none"),
        };
        let (open, close) = if self.host.contains(':') { ("[", "]") } else { ("", "") };
        write!(f, "{scheme}://{open}{}{close}:{}{query}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_by_host_port_and_encryption() {
        for (text, shown, security) in [
            ("smtps://mail.example.com", "smtps://mail.example.com:465", Security::Tls),
            ("smtps://Mail.Example.com:465/", "smtps://mail.example.com:465", Security::Tls),
            ("smtp://mail.example.com", "smtp://mail.example.com:587", Security::StartTls),
            ("smtp://127.0.0.1:2525?tls=none", "smtp://127.0.0.1:2525?tls=none", Security::None),
            ("smtp://[::1]:25?tls=none", "smtp://[::1]:25?tls=none", Security::None),
        ] {
            let server: MailServer = text.parse().unwrap();
            assert_eq!((server.to_string().as_str(), server.security()), (shown, security), "{text}");
            assert_eq!(shown.parse::<MailServer>().unwrap(), server);
        }
        for bad in [
            "",
            "mail.example.com",
            "http://mail.example.com",
            "smtp://",
            "smtp://user@mail.example.com",
            "smtp://user:secret@mail.example.com",
            "smtps://mail.example.com?tls=none",
            "smtp://mail.example.com?tls=maybe",
            "smtp://mail.example.com/path",
            "smtp://mail.example.com#x",
            "smtp://mail.example.com:0",
            "smtp://mail.example.com:99999",
            "smtp://mail%0d%0aQUIT",
            "smtp://mail example.com",
        ] {
            assert!(bad.parse::<MailServer>().is_err(), "{bad}");
        }
    }
}
