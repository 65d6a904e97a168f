//! Where a request goes: a URL in its plain spelling, to an allowed host and an allowed address. The spelling is strict because people and
//! rules read the URL: the place they read must be the place it goes to.

use super::allowed::Allowed;
use crate::limits::HTTP_URL_BYTES_MAX;
use crate::words::{refused, shown};
use countersign_core::source::Error;
use std::net::IpAddr;
use url::{Host, Url};

/// A URL that passed every check that needs only the URL. The addresses of a name are checked later, when it is resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target(Url);

impl Target {
    pub(crate) fn check(text: &str, allowed: &Allowed) -> Result<Self, Error> {
        let url = spelled(text)?;
        allowed.check_host(&url)?;
        let address = match url.host() {
            Some(Host::Ipv4(address)) => Some(IpAddr::V4(address)),
            Some(Host::Ipv6(address)) => Some(IpAddr::V6(address)),
            // The client connects directly to anything that parses as an address, without asking the resolver.
            Some(Host::Domain(name)) => name.parse().ok(),
            None => None,
        };
        if address.is_some_and(|address| allowed.addresses.check(address).is_err()) {
            return Err(allowed.address_refused(&url));
        }
        Ok(Self(url))
    }

    /// The target of a redirect, after the same checks.
    pub(super) fn redirected(&self, location: &str, allowed: &Allowed) -> Result<Self, Error> {
        let is_absolute = Url::parse(location).is_ok();
        if is_absolute {
            return Self::check(location, allowed);
        }
        if location.starts_with("//") {
            return Self::check(&format!("{}:{location}", self.0.scheme()), allowed);
        }
        check_characters(location)?;
        let joined = self.0.join(location).map_err(|_| url_not_allowed("the redirect does not lead to a URL"))?;
        Self::check(joined.as_str(), allowed)
    }

    pub(crate) const fn url(&self) -> &Url {
        &self.0
    }

    /// Whether both go to the same scheme, host and port.
    pub(super) fn is_same_origin(&self, other: &Self) -> bool {
        self.0.origin() == other.0.origin()
    }
}

fn url_not_allowed(message: &str) -> Error {
    refused("url_not_allowed", message)
}

/// Parses a URL and refuses every spelling that the parser would silently change.
fn spelled(text: &str) -> Result<Url, Error> {
    if text.len() > HTTP_URL_BYTES_MAX {
        return Err(url_not_allowed(&format!("the URL is longer than {HTTP_URL_BYTES_MAX} bytes")));
    }
    check_characters(text)?;
    let (scheme, rest) = text.split_once("://").ok_or_else(|| url_not_allowed("the URL must begin with `https://` or `http://`"))?;
    if !["https", "http"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
        return Err(url_not_allowed("the URL must begin with `https://` or `http://`"));
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err(url_not_allowed("the URL may not carry a user or a password"));
    }
    let mut url = Url::parse(text).map_err(|_| url_not_allowed("the URL cannot be read"))?;
    let host = url.host_str().unwrap_or_default();
    if host.is_empty() || authority.is_empty() {
        return Err(url_not_allowed("the URL has no host"));
    }
    if host.ends_with('.') {
        return Err(url_not_allowed("leave the dot after the host out"));
    }
    let rest = authority.get(..host.len()).filter(|start| start.eq_ignore_ascii_case(host)).map(|_| &authority[host.len()..]);
    if !rest.is_some_and(|port| port.is_empty() || port.starts_with(':')) {
        return Err(url_not_allowed(&format!("the host has another spelling; write it as `{}`", shown(host))));
    }
    if url.port() == Some(0) {
        return Err(url_not_allowed("port 0 cannot be connected to"));
    }
    url.set_fragment(None);
    Ok(url)
}

/// Refuses characters that a URL parser drops or converts.
fn check_characters(text: &str) -> Result<(), Error> {
    if text.contains(|character: char| character.is_control() || character.is_whitespace() || character == '\\') {
        return Err(url_not_allowed("the URL may not hold spaces, line breaks, control characters or backslashes"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::allowed::HostList;
    use super::*;

    fn allowed(hosts: &[&str], networks: &[&str]) -> Allowed {
        let rules = hosts.iter().map(|rule| rule.parse().unwrap()).collect();
        let hosts = HostList { rules, setting: "http.allowed_hosts", who: "an operator" };
        Allowed::new(hosts, networks.iter().map(|network| network.parse().unwrap()).collect(), "http.allowed_networks")
    }

    const HOSTS: &[&str] = &[
        "example.com",
        "*.example.org",
        "http://127.0.0.1:8080",
        "93.184.216.34",
        "[2606:2800::1]",
        "http://[::1]",
        "169.254.169.254",
        "xn--bcher-kva.example",
    ];

    fn code(text: &str) -> &'static str {
        Target::check(text, &allowed(HOSTS, &[])).map_or_else(|error| error.code(), |_| "accepted")
    }

    #[test]
    fn plain_urls_on_allowed_hosts_are_accepted() {
        for (text, url) in [
            ("https://example.com", "https://example.com/"),
            ("https://example.com/a?b=c#d", "https://example.com/a?b=c"),
            ("HTTPS://Example.COM:443/", "https://example.com/"),
            ("https://a.b.example.org/", "https://a.b.example.org/"),
            ("https://93.184.216.34/", "https://93.184.216.34/"),
            ("https://[2606:2800::1]/", "https://[2606:2800::1]/"),
            ("https://xn--bcher-kva.example/", "https://xn--bcher-kva.example/"),
            ("https://example.com/a@b", "https://example.com/a@b"),
            ("https://example.com/?u=a@b", "https://example.com/?u=a@b"),
            ("https://example.com/..%2f..", "https://example.com/..%2f.."),
        ] {
            assert_eq!(Target::check(text, &allowed(HOSTS, &[])).unwrap().url().as_str(), url);
        }
    }

    #[test]
    fn urls_that_are_not_what_they_seem_are_refused() {
        for text in [
            "",
            "example.com",
            "//example.com/",
            "https:example.com",
            "https:/example.com",
            "https:///example.com",
            "https://",
            "https:///",
            "https://?x",
            "https://#x",
            "ftp://example.com/",
            "file:///etc/passwd",
            "gopher://example.com/",
            "data:text/plain,x",
            "javascript:alert(1)",
            "unix:///var/run/x.sock",
            "https://user@example.com/",
            "https://user:pass@example.com/",
            "https://@example.com/",
            "https://:@example.com/",
            "https://example.com@evil.test/",
            "https://evil.test@example.com/",
            "https://example.com:443@evil.test/",
            "https://example.com\\@evil.test/",
            "https://evil.test\\.example.com/",
            "https:\\\\example.com\\",
            "https://example.com\\..\\x",
            " https://example.com/",
            "https://example.com/ ",
            "https://exam ple.com/",
            "https://example.com/a b",
            "https://example.com/\r\nHost: evil.test",
            "https://example.com/\nx",
            "https://exam\tple.com/",
            "https://exam\nple.com/",
            "ht\ntps://example.com/",
            "https://example.com/\0",
            "https://example.com\0.evil.test/",
            "https://example.com\u{a0}/",
            "https://example.com./",
            "https://a.example.org./",
            "https://ex%61mple.com/",
            "https://example.com%2f@evil.test/",
            "https://example.com%00.evil.test/",
            "https://ｅxample.com/",
            "https://example。com/",
            "https://bücher.example/",
            "https://exаmple.com/",
            "https://exam\u{ad}ple.com/",
            "https://example.com:0/",
            "https://example.com:99999/",
            "https://example.com:x/",
            "https://2130706433/",
            "http://2130706433:8080/",
            "http://0x7f000001:8080/",
            "http://0x7f.0.0.1:8080/",
            "http://0177.0.0.1:8080/",
            "http://017700000001:8080/",
            "http://127.1:8080/",
            "http://127.0.1:8080/",
            "http://127.000.000.001:8080/",
            "http://127.0.0.1.:8080/",
            "http://①②⑦.0.0.1:8080/",
            "https://1572395042/",
            "http://[::ffff:127.0.0.1]:8080/",
            "http://[0:0:0:0:0:0:0:1]/",
            "http://[::1%25lo]/",
            "http://[::1]x/",
            "http://[::1/",
            "https://[2606:2800:0::1]/",
        ] {
            assert_eq!(code(text), "url_not_allowed", "{text:?}");
        }
        assert_eq!(code(&format!("https://example.com/{}", "x".repeat(HTTP_URL_BYTES_MAX))), "url_not_allowed");
    }

    #[test]
    fn hosts_that_are_not_listed_are_refused() {
        for text in [
            "https://evil.test/",
            "https://example.com.evil.test/",
            "https://evil-example.com/",
            "https://www.example.com/",
            "https://example.org/",
            "https://example.com:8443/",
            "http://example.com/",
            "http://127.0.0.1/",
            "http://127.0.0.1:8081/",
            "https://127.0.0.1:8080/",
            "http://localhost:8080/",
            "https://[::1]/",
            "http://[::ffff:7f00:1]:8080/",
            "https://xn--exmple-4nf.com/",
            "https://0/",
        ] {
            let code = code(text);
            assert!(code == "host_not_allowed" || (text == "https://0/" && code == "url_not_allowed"), "{text:?}: {code}");
        }
    }

    #[test]
    fn an_allowed_host_that_is_an_inside_address_is_refused_all_the_same() {
        for text in ["http://127.0.0.1:8080/", "http://[::1]/", "https://169.254.169.254/latest/meta-data/"] {
            assert_eq!(code(text), "address_not_allowed", "{text:?}");
        }
        assert!(Target::check("http://127.0.0.1:8080/", &allowed(HOSTS, &["127.0.0.0/8"])).is_ok());
    }

    #[test]
    fn a_refusal_names_the_setting_and_leaves_the_query_out() {
        let message = Target::check("https://evil.test/?key=hunter2", &allowed(&[], &[])).unwrap_err().to_string();
        assert!(
            message.contains("`http.allowed_hosts`") && message.contains("`https://evil.test`") && !message.contains("hunter2"),
            "{message}"
        );
    }

    #[test]
    fn a_redirect_is_checked_like_a_url() {
        let from = Target::check("https://example.com/a/b?c", &allowed(HOSTS, &[])).unwrap();
        let to = |location: &str| from.redirected(location, &allowed(HOSTS, &[])).map(|target| target.url().to_string());
        for (location, url) in [
            ("/x", "https://example.com/x"),
            ("x?y", "https://example.com/a/x?y"),
            ("?y", "https://example.com/a/b?y"),
            ("../../..", "https://example.com/"),
            ("https://a.example.org/", "https://a.example.org/"),
            ("//a.example.org/x", "https://a.example.org/x"),
        ] {
            assert_eq!(to(location).unwrap(), url);
        }
        for (location, code) in [
            ("https://evil.test/", "host_not_allowed"),
            ("//evil.test/", "host_not_allowed"),
            ("http://example.com/", "host_not_allowed"),
            ("https://169.254.169.254/", "address_not_allowed"),
            ("http://[::1]/", "address_not_allowed"),
            ("https://2852039166/", "url_not_allowed"),
            ("https:evil.test", "url_not_allowed"),
            ("https:/evil.test", "url_not_allowed"),
            ("https:///evil.test", "url_not_allowed"),
            ("///evil.test", "url_not_allowed"),
            ("/\\evil.test", "url_not_allowed"),
            ("\\\\evil.test", "url_not_allowed"),
            ("/\t/evil.test", "url_not_allowed"),
            ("https://user@example.com/", "url_not_allowed"),
            ("//user@example.com/", "url_not_allowed"),
            ("file:///etc/passwd", "url_not_allowed"),
            ("javascript:x", "url_not_allowed"),
            ("mailto:a@b", "url_not_allowed"),
        ] {
            assert_eq!(to(location).unwrap_err().code(), code, "{location:?}");
        }
    }
}
