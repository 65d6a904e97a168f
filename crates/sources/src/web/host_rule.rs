//! One line of an allowlist: a host, or everything below a domain, with its scheme and port.

use crate::Error;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use url::{Host, Url};

/// Plain http is allowed only if a rule says `http://`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    Https,
    Http,
}

impl Scheme {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Http => "http",
        }
    }

    const fn default_port(self) -> u16 {
        match self {
            Self::Https => 443,
            Self::Http => 80,
        }
    }
}

/// One rule, such as `api.example.com`, `api.example.com:8443`, `*.example.com` or `http://10.1.2.3:8080`. A rule without a port means the
/// scheme's default port. `*.` stands for one or more labels, never for none.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostRule {
    scheme: Scheme,
    pattern: Pattern,
    port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Pattern {
    Exactly(Host<String>),
    /// The domain with its leading dot.
    Below(String),
}

impl HostRule {
    pub const fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Whether this rule allows a URL. A URL with another scheme than http or https is never allowed.
    pub fn allows(&self, url: &Url) -> bool {
        let host = match (&self.pattern, url.host()) {
            (Pattern::Exactly(host), Some(found)) => found.to_owned() == *host,
            (Pattern::Below(dotted), Some(Host::Domain(found))) => is_below(found, dotted),
            (Pattern::Below(_), Some(Host::Ipv4(_) | Host::Ipv6(_))) | (_, None) => false,
        };
        host && url.scheme() == self.scheme.as_str() && url.port_or_known_default() == Some(self.port)
    }
}

impl HostRule {
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The name that this rule is for; `None` for an address, and for everything below a domain.
    pub(super) fn name(&self) -> Option<&str> {
        match &self.pattern {
            Pattern::Exactly(Host::Domain(name)) => Some(name),
            Pattern::Exactly(Host::Ipv4(_) | Host::Ipv6(_)) | Pattern::Below(_) => None,
        }
    }

    /// Whether this rule is for a name in small letters, on whichever port.
    pub(super) fn allows_name(&self, name: &str) -> bool {
        match &self.pattern {
            Pattern::Exactly(Host::Domain(own)) => own == name,
            Pattern::Exactly(Host::Ipv4(_) | Host::Ipv6(_)) => false,
            Pattern::Below(dotted) => is_below(name, dotted),
        }
    }

    /// Whether this rule allows everything that the other rule allows.
    pub fn covers(&self, other: &Self) -> bool {
        let hosts = match (&self.pattern, &other.pattern) {
            (Pattern::Exactly(host), Pattern::Exactly(other)) => host == other,
            (Pattern::Below(dotted), Pattern::Exactly(Host::Domain(other))) => is_below(other, dotted),
            (Pattern::Below(dotted), Pattern::Below(other)) => other == dotted || is_below(other, dotted),
            (Pattern::Exactly(_), Pattern::Below(_)) | (Pattern::Below(_), Pattern::Exactly(Host::Ipv4(_) | Host::Ipv6(_))) => false,
        };
        hosts && self.scheme == other.scheme && self.port == other.port
    }
}

/// `*.` stands for one or more labels, never for none.
fn is_below(name: &str, dotted: &str) -> bool {
    name.strip_suffix(dotted).is_some_and(|rest| !rest.is_empty())
}

impl FromStr for HostRule {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let invalid = |message| Error::HostRule { text: text.to_owned(), message };
        let (scheme, rest) = match text.split_once("://") {
            None => (Scheme::Https, text),
            Some(("https", rest)) => (Scheme::Https, rest),
            Some(("http", rest)) => (Scheme::Http, rest),
            Some(_) => return Err(invalid("the scheme must be `https` or `http`")),
        };
        if rest.contains(['/', '?', '#', '@', '\\', '%']) || rest.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(invalid("only a host and a port may stand in it, no path and no user"));
        }
        let (host, port) = match rest.rsplit_once(':') {
            // The colons of an IPv6 address without a port are inside its brackets.
            Some((host, port)) if !port.ends_with(']') => {
                let port = port.parse::<u16>().ok().filter(|&port| port > 0);
                (host, port.ok_or_else(|| invalid("the port must be a number from 1 to 65535"))?)
            }
            Some(_) | None => (rest, scheme.default_port()),
        };
        let (wildcard, host) = match host.strip_prefix("*.") {
            Some(domain) => (Some("."), domain),
            None => (None, host),
        };
        if host.contains('*') {
            return Err(invalid("`*` may only stand for the names before a domain, as in `*.example.com`"));
        }
        if host.ends_with('.') {
            return Err(invalid("leave the last dot out"));
        }
        let parsed = Host::parse(host).map_err(|_| invalid("the host is neither a name nor an address"))?;
        let pattern = match (wildcard, parsed) {
            (None, Host::Domain(domain)) => Pattern::Exactly(Host::Domain(domain)),
            (None, address) if address.to_string() == host => Pattern::Exactly(address),
            (None, _) => return Err(invalid("write an address in its usual form, such as `10.1.2.3` or `[2001:db8::1]`")),
            (Some(dot), Host::Domain(domain)) if domain.contains('.') => Pattern::Below(format!("{dot}{domain}")),
            (Some(_), _) => return Err(invalid("below `*.` there must be a domain of two names or more")),
        };
        Ok(Self { scheme, pattern, port })
    }
}

impl fmt::Display for HostRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.scheme {
            Scheme::Https => {}
            Scheme::Http => f.write_str("http://")?,
        }
        match &self.pattern {
            Pattern::Exactly(host) => write!(f, "{host}")?,
            Pattern::Below(dotted) => write!(f, "*{dotted}")?,
        }
        if self.port == self.scheme.default_port() { Ok(()) } else { write!(f, ":{}", self.port) }
    }
}

impl TryFrom<String> for HostRule {
    type Error = Error;
    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<HostRule> for String {
    fn from(rule: HostRule) -> Self {
        rule.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_read_and_print_the_same() {
        for text in [
            "api.example.com",
            "api.example.com:8443",
            "*.example.com",
            "*.example.com:8443",
            "http://api.example.com",
            "http://api.example.com:8080",
            "http://*.example.com",
            "93.184.216.34",
            "http://127.0.0.1:9",
            "[2606:2800::1]",
            "[2606:2800::1]:8443",
            "localhost",
        ] {
            assert_eq!(text.parse::<HostRule>().unwrap().to_string(), text);
        }
        assert_eq!("https://API.example.com:443".parse::<HostRule>().unwrap().to_string(), "api.example.com");
    }

    #[test]
    fn what_would_allow_more_than_it_seems_is_not_a_rule() {
        for text in [
            "",
            "*",
            "*.",
            "*.com",
            "*.*.com",
            "*example.com",
            "a.*.com",
            "example.*",
            "ftp://example.com",
            "HTTP://example.com",
            "file:///etc",
            "example.com/path",
            "example.com?x",
            "example.com#x",
            "user@example.com",
            "user:pass@example.com",
            "example.com:0",
            "example.com:65536",
            "example.com:x",
            "example.com:",
            "example.com.",
            "*.example.com.",
            "exa mple.com",
            "exam\nple.com",
            "example.com\\",
            "ex%61mple.com",
            "127.1",
            "0x7f000001",
            "2130706433",
            "*.0.0.1",
            "*.10.0.0.1",
            "*.[::1]",
            "[::1",
            "::1",
            "[0:0:0:0:0:0:0:1]",
        ] {
            assert!(text.parse::<HostRule>().is_err(), "{text:?} was accepted");
        }
    }

    #[test]
    fn a_rule_allows_its_host_scheme_and_port_only() {
        let check = |rule: &str, url: &str, expected: bool| {
            let allows = rule.parse::<HostRule>().unwrap().allows(&Url::parse(url).unwrap());
            assert_eq!(allows, expected, "{rule} and {url}");
        };
        check("example.com", "https://example.com/a?b", true);
        check("example.com", "https://EXAMPLE.com:443/", true);
        for url in [
            "http://example.com/",
            "https://example.com:8443/",
            "https://www.example.com/",
            "https://example.com.evil.test/",
            "https://evilexample.com/",
            "https://example.com./",
            "ftp://example.com/",
        ] {
            check("example.com", url, false);
        }
        check("*.example.com", "https://a.example.com/", true);
        check("*.example.com", "https://a.b.example.com/", true);
        for url in ["https://example.com/", "https://aexample.com/", "https://a.example.com.evil.test/", "http://a.example.com/"] {
            check("*.example.com", url, false);
        }
        check("http://10.0.0.1:8080", "http://10.0.0.1:8080/", true);
        check("http://10.0.0.1:8080", "http://10.0.0.1/", false);
        check("http://10.0.0.1:8080", "https://10.0.0.1:8080/", false);
        check("bücher.example", "https://xn--bcher-kva.example/", true);
    }

    #[test]
    fn rules_are_read_from_configuration() {
        let rules: Vec<HostRule> = serde_json::from_str(r#"["*.example.com", "http://localhost:80"]"#).unwrap();
        assert_eq!(serde_json::to_string(&rules).unwrap(), r#"["*.example.com","http://localhost"]"#);
        assert!(serde_json::from_str::<Vec<HostRule>>(r#"["*"]"#).unwrap_err().to_string().contains("`*` is not a host rule"));
    }

    #[test]
    fn a_rule_covers_what_it_allows_all_of() {
        for (wide, narrow, covers) in [
            ("example.com", "example.com", true),
            ("example.com", "EXAMPLE.com:443", true),
            ("*.example.com", "api.example.com", true),
            ("*.example.com", "a.b.example.com", true),
            ("*.example.com", "*.example.com", true),
            ("*.example.com", "*.b.example.com", true),
            ("http://10.1.2.3:8080", "http://10.1.2.3:8080", true),
            ("*.example.com", "example.com", false),
            ("*.example.com", "evil-example.com", false),
            ("*.b.example.com", "*.example.com", false),
            ("api.example.com", "*.example.com", false),
            ("example.com", "api.example.com", false),
            ("example.com", "http://example.com", false),
            ("http://example.com", "example.com", false),
            ("example.com", "example.com:8443", false),
            ("*.example.com", "10.1.2.3", false),
        ] {
            let (wide, narrow): (HostRule, HostRule) = (wide.parse().unwrap(), narrow.parse().unwrap());
            assert_eq!(wide.covers(&narrow), covers, "{wide} and {narrow}");
        }
    }
}
