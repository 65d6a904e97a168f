//! How a request reached the server: from which client, and under which address. `Forwarded` and `X-Forwarded-…` are read only if the
//! connection comes from a proxy that the operator trusts; from anybody else they are words that a client made up.

use crate::limits::FORWARDED_HOPS_MAX;
use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use axum::http::uri::Authority;
use host::config::ProxyHeader;
use ipnet::IpNet;
use operations::App;
use sources::oauth::Own;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};

/// The proxies that are believed, and what they write.
#[derive(Clone, Debug)]
pub(super) struct TrustedProxies {
    networks: Vec<IpNet>,
    headers: Vec<ProxyHeader>,
}

impl TrustedProxies {
    pub(super) const fn new(networks: Vec<IpNet>, headers: Vec<ProxyHeader>) -> Self {
        Self { networks, headers }
    }

    fn contain(&self, address: IpAddr) -> bool {
        // A socket that serves both families shows an IPv4 client as an IPv6 address.
        let address = address.to_canonical();
        self.networks.iter().any(|network| network.contains(&address))
    }

    /// The elements of a header that proxies write. What they do not write, they pass on as a client wrote it.
    fn told<'a>(&self, headers: &'a HeaderMap, header: ProxyHeader) -> Vec<&'a str> {
        if self.headers.contains(&header) { values(headers, header.as_str()).collect() } else { Vec::new() }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Http, Self::Https].into_iter().find(|scheme| scheme.as_str().eq_ignore_ascii_case(text))
    }
}

/// How one request reached the server; an extension of every request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reached {
    /// Who sent it, as far as trusted proxies tell.
    pub(super) client: IpAddr,
    pub(super) scheme: Scheme,
    /// The host that the client asked for, as a trusted proxy tells it.
    pub(super) host: Option<String>,
    /// Whether a trusted proxy passed it on, and so answers for the host that was asked for.
    pub is_passed_on: bool,
}

impl Reached {
    /// `scheme` is that of the connection itself.
    pub(super) fn new(peer: SocketAddr, scheme: Scheme, headers: &HeaderMap, trusted: &TrustedProxies) -> Self {
        let direct = Self { client: peer.ip().to_canonical(), scheme, host: None, is_passed_on: false };
        if !trusted.contain(direct.client) {
            return direct;
        }
        let hops = hops(headers, trusted);
        // The last hop was written by the proxy that we talk to. If that names another trusted proxy, the hop before was written by that
        // one, and so on. What an untrusted client wrote is never reached.
        let mut told = Self { is_passed_on: !hops.is_empty(), ..direct };
        for hop in hops.into_iter().rev().take(FORWARDED_HOPS_MAX) {
            told.scheme = hop.scheme.unwrap_or(told.scheme);
            told.host = hop.host.or(told.host);
            let Some(client) = hop.client else { break };
            told.client = client;
            if !trusted.contain(client) {
                break;
            }
        }
        told
    }

    /// The beginning of an address under which this client reaches the server; `None` if no trusted proxy says so.
    fn told_address(&self) -> Option<String> {
        self.host.as_ref().map(|host| format!("{}://{host}", self.scheme.as_str()))
    }
}

/// The address at which this caller, and everybody who comes the same way, reaches the server: the operator's, or else what a trusted
/// proxy tells, or else that of the listener.
pub struct OwnAddress(pub Own);

impl FromRequestParts<App> for OwnAddress {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Infallible> {
        let told = parts.extensions.get::<Reached>().filter(|_| !app.parts.has_public_url).and_then(Reached::told_address);
        Ok(Self(told.map_or_else(|| app.parts.address.clone(), |address| Own::new(&address))))
    }
}

/// What one proxy says about the request it received.
#[derive(Debug, Default, PartialEq, Eq)]
struct Hop {
    client: Option<IpAddr>,
    scheme: Option<Scheme>,
    host: Option<String>,
}

/// The hops in the order of the headers, the nearest proxy last. A proxy that writes one kind of header passes on what a client wrote of
/// the other, so if both are there, neither is believed.
fn hops(headers: &HeaderMap, trusted: &TrustedProxies) -> Vec<Hop> {
    let newer = trusted.told(headers, ProxyHeader::Forwarded);
    let old = of_old(headers, trusted);
    match (newer.is_empty(), old.is_empty()) {
        (false, false) | (true, true) => Vec::new(),
        (false, true) => newer.into_iter().map(of_forwarded).collect(),
        (true, false) => old,
    }
}

/// RFC 7239: `for=192.0.2.60;proto=https;host=example.com, for="[2001:db8::1]:4711"`.
fn of_forwarded(element: &str) -> Hop {
    let mut hop = Hop::default();
    for (name, value) in element.split(';').filter_map(|pair| pair.split_once('=')) {
        let value = value.trim().trim_matches('"');
        match name.trim().to_ascii_lowercase().as_str() {
            "for" => hop.client = address(value),
            "proto" => hop.scheme = Scheme::parse(value),
            "host" => hop.host = host(value),
            _ => {}
        }
    }
    hop
}

/// `X-Forwarded-For` has one address for each proxy. Scheme and host belong to the hops in the same way, counted from the end; a single one
/// counts for every hop: a proxy in between passes on what the first one wrote.
fn of_old(headers: &HeaderMap, trusted: &TrustedProxies) -> Vec<Hop> {
    let clients = trusted.told(headers, ProxyHeader::XForwardedFor);
    let schemes = trusted.told(headers, ProxyHeader::XForwardedProto);
    let hosts = trusted.told(headers, ProxyHeader::XForwardedHost);
    let has_any = !(clients.is_empty() && schemes.is_empty() && hosts.is_empty());
    let count = clients.len().max(usize::from(has_any));
    let hop = |at: usize| Hop {
        client: clients.get(at).copied().and_then(address),
        scheme: of_hop(&schemes, count - at).and_then(Scheme::parse),
        host: of_hop(&hosts, count - at).and_then(host),
    };
    (0..count).map(hop).collect()
}

fn of_hop<'a>(values: &[&'a str], from_end: usize) -> Option<&'a str> {
    match values {
        [single] => Some(*single),
        several => several.get(several.len().checked_sub(from_end)?).copied(),
    }
}

/// The elements of a header that is a list, also if it is written in several lines.
fn values<'a>(headers: &'a HeaderMap, name: &'static str) -> impl Iterator<Item = &'a str> {
    let lines = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(str::trim).filter(|element| !element.is_empty())
}

/// An address, with or without a port; `None` for `unknown` and for hidden names.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.split_once(']')).map(|(address, _)| address);
    let parsed = text.parse::<IpAddr>().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()));
    parsed.or_else(|| bare?.parse().ok()).map(|address| address.to_canonical())
}

fn host(text: &str) -> Option<String> {
    let parsed = text.parse::<Authority>().ok()?;
    (!parsed.as_str().contains('@') && !parsed.host().is_empty()).then(|| parsed.as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderName, HeaderValue};

    fn reached(peer: &str, headers: &[(&str, &str)]) -> Reached {
        reached_by(peer, headers, &ProxyHeader::ALL)
    }

    fn reached_by(peer: &str, headers: &[(&str, &str)], written: &[ProxyHeader]) -> Reached {
        let networks = vec!["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()];
        let trusted = TrustedProxies::new(networks, written.to_vec());
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap());
        }
        Reached::new(SocketAddr::new(peer.parse().unwrap(), 1), Scheme::Http, &map, &trusted)
    }

    fn check(peer: &str, headers: &[(&str, &str)], client: &str, address: Option<&str>) {
        let reached = reached(peer, headers);
        assert_eq!(reached.client.to_string(), client, "{peer} {headers:?}");
        assert_eq!(reached.told_address().as_deref(), address, "{peer} {headers:?}");
    }

    #[test]
    fn only_a_trusted_proxy_is_believed() {
        let told = [("x-forwarded-for", "192.0.2.1"), ("x-forwarded-proto", "https"), ("x-forwarded-host", "cs.example")];
        check("203.0.113.9", &told, "203.0.113.9", None);
        assert_eq!(reached("203.0.113.9", &told).scheme, Scheme::Http);
        check("10.0.0.1", &told, "192.0.2.1", Some("https://cs.example"));
        check("::ffff:10.0.0.1", &told, "192.0.2.1", Some("https://cs.example"));
        check("10.0.0.1", &[], "10.0.0.1", None);
    }

    #[test]
    fn what_a_client_writes_before_a_proxy_is_not_believed() {
        check("10.0.0.1", &[("x-forwarded-for", "1.1.1.1, 192.0.2.1")], "192.0.2.1", None);
        check("10.0.0.1", &[("x-forwarded-for", "1.1.1.1"), ("x-forwarded-for", "192.0.2.1, 10.0.0.2")], "192.0.2.1", None);
        check("10.0.0.1", &[("forwarded", "for=1.1.1.1;host=evil.example, for=192.0.2.1;proto=https")], "192.0.2.1", None);
        // The client wrote the header that this proxy does not write.
        let both = [("forwarded", "for=1.1.1.1;proto=https;host=evil.example"), ("x-forwarded-for", "192.0.2.1")];
        check("10.0.0.1", &both, "10.0.0.1", None);
    }

    #[test]
    fn what_a_proxy_does_not_write_is_not_believed() {
        let spoofed = [("x-forwarded-for", "192.0.2.1"), ("x-forwarded-proto", "https"), ("x-forwarded-host", "evil.example")];
        let seen = reached_by("10.0.0.1", &spoofed, &[ProxyHeader::XForwardedFor]);
        assert_eq!((seen.client.to_string().as_str(), seen.scheme, seen.host), ("192.0.2.1", Scheme::Http, None));
        let seen = reached_by("10.0.0.1", &spoofed, &[ProxyHeader::XForwardedFor, ProxyHeader::XForwardedProto]);
        assert_eq!((seen.scheme, seen.host), (Scheme::Https, None));
        // A header that no proxy writes does not make those that they write doubtful either.
        let both = [("forwarded", "for=1.1.1.1;host=evil.example"), ("x-forwarded-for", "192.0.2.1"), ("x-forwarded-host", "cs.example")];
        let old = [ProxyHeader::XForwardedFor, ProxyHeader::XForwardedProto, ProxyHeader::XForwardedHost];
        let seen = reached_by("10.0.0.1", &both, &old);
        assert_eq!((seen.client.to_string().as_str(), seen.host.as_deref()), ("192.0.2.1", Some("cs.example")));
        assert_eq!(reached_by("10.0.0.1", &both, &[ProxyHeader::Forwarded]).host.as_deref(), Some("evil.example"));
        // Nobody but a trusted proxy passes anything on.
        for (peer, is_passed_on) in [("10.0.0.1", true), ("203.0.113.9", false)] {
            assert_eq!(reached(peer, &spoofed).is_passed_on, is_passed_on);
            assert!(!reached(peer, &[]).is_passed_on);
        }
    }

    #[test]
    fn hosts_that_a_client_puts_in_front_are_not_reached() {
        // The proxy appends to each of its headers; the client began them.
        let spoofed = [("x-forwarded-for", "1.1.1.1, 192.0.2.1"), ("x-forwarded-host", "evil.example, cs.example")];
        check("10.0.0.1", &spoofed, "192.0.2.1", Some("http://cs.example"));
        // The client began only one of them.
        check("10.0.0.1", &[spoofed[1], ("x-forwarded-for", "192.0.2.1")], "192.0.2.1", Some("http://cs.example"));
        // Two proxies, each with what it said; a third value was put in front.
        let chain = [("x-forwarded-for", "192.0.2.1, 10.0.0.2"), ("x-forwarded-host", "evil.example, cs.example, inner")];
        check("10.0.0.1", &chain, "192.0.2.1", Some("http://cs.example"));
        // A client that says it comes from a trusted proxy is none.
        let insider = [("x-forwarded-for", "1.1.1.1, 10.9.9.9"), ("x-forwarded-host", "cs.example")];
        check("203.0.113.9", &insider, "203.0.113.9", None);
    }

    #[test]
    fn each_hop_is_read_with_what_its_proxy_said() {
        let chain = "for=192.0.2.1;proto=https;host=cs.example, for=\"[fd00::2]:4711\";proto=http;host=inner";
        check("10.0.0.1", &[("forwarded", chain)], "192.0.2.1", Some("https://cs.example"));
        let old = [("x-forwarded-for", "192.0.2.1, 10.0.0.2"), ("x-forwarded-proto", "https"), ("x-forwarded-host", "cs.example:8443")];
        check("10.0.0.1", &old, "192.0.2.1", Some("https://cs.example:8443"));
    }

    #[test]
    fn what_is_no_address_or_no_host_is_left_out() {
        for client in ["unknown", "_hidden", "not an address", "999.1.1.1"] {
            check("10.0.0.1", &[("x-forwarded-for", client)], "10.0.0.1", None);
        }
        for host in ["a@b.example", "a b", "x/y", ""] {
            check("10.0.0.1", &[("x-forwarded-host", host)], "10.0.0.1", None);
        }
        check("10.0.0.1", &[("x-forwarded-for", "192.0.2.1:443")], "192.0.2.1", None);
    }
}
