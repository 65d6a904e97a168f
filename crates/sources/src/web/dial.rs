//! A connection to an allowed host for bytes that are not ours to read: the same hosts, ports and addresses as for a request.

use super::allowed::Allowed;
use super::host_rule::Scheme;
use super::resolver::Lookup;
use crate::limits::HTTP_CONNECT_MS;
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use url::Url;

/// How long a name is looked up, and how long each of its addresses is waited for.
const PATIENCE: Duration = Duration::from_millis(HTTP_CONNECT_MS);

/// Why there is no connection.
#[derive(Debug)]
pub(crate) enum NotConnected {
    HostNotAllowed,
    /// Every address of the name is one that may not be reached.
    AddressNotAllowed,
    NotFound,
    Unreachable,
}

impl NotConnected {
    pub(crate) const fn code(&self) -> &'static str {
        match self {
            Self::HostNotAllowed => "host_not_allowed",
            Self::AddressNotAllowed => "address_not_allowed",
            Self::NotFound => "name_not_found",
            Self::Unreachable => "unreachable",
        }
    }
}

impl Allowed {
    /// The names that are allowed one by one.
    pub(crate) fn names(&self) -> BTreeSet<String> {
        let all = self.lists.iter().flat_map(|list| &list.rules).filter_map(|rule| rule.name());
        all.filter(|name| self.allows_name(name)).map(str::to_owned).collect()
    }

    /// Whether a name may be reached, on whichever port.
    pub(crate) fn allows_name(&self, name: &str) -> bool {
        self.lists.iter().all(|list| list.rules.iter().any(|rule| rule.allows_name(name)))
    }

    /// The ports on which there is a host to reach.
    pub(crate) fn ports(&self) -> BTreeSet<u16> {
        self.lists.iter().flat_map(|list| &list.rules).map(|rule| rule.port()).collect()
    }

    /// What a connection to this host and port may carry: anything where a rule says `http://`, and else TLS.
    pub(crate) fn carries(&self, host: &str, port: u16) -> Result<Scheme, NotConnected> {
        let is_allowed = |scheme: Scheme| {
            let url = Url::parse(&format!("{}://{host}:{port}/", scheme.as_str()));
            url.is_ok_and(|url| url.host_str() == Some(host) && self.check_host(&url).is_ok())
        };
        [Scheme::Http, Scheme::Https].into_iter().find(|scheme| is_allowed(*scheme)).ok_or(NotConnected::HostNotAllowed)
    }

    /// Connects to an address of this host, and to none that may not be reached.
    pub(crate) async fn dial(&self, host: &str, port: u16, lookup: &Lookup) -> Result<TcpStream, NotConnected> {
        self.carries(host, port)?;
        let found = match host.parse::<IpAddr>() {
            Ok(address) => vec![address],
            Err(_) => addresses(timeout(PATIENCE, lookup(host.to_owned())).await.unwrap_or_else(|_| Ok(Vec::new())))?,
        };
        let reachable = found.iter().filter(|address| self.addresses.check(**address).is_ok());
        let mut ended = if found.is_empty() { NotConnected::NotFound } else { NotConnected::AddressNotAllowed };
        for address in reachable {
            let connecting = TcpStream::connect(SocketAddr::new(*address, port));
            match timeout(PATIENCE, connecting).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(_)) | Err(_) => ended = NotConnected::Unreachable,
            }
        }
        Err(ended)
    }
}

fn addresses(found: io::Result<Vec<SocketAddr>>) -> Result<Vec<IpAddr>, NotConnected> {
    found.map(|found| found.iter().map(SocketAddr::ip).collect()).map_err(|_| NotConnected::NotFound)
}

#[cfg(test)]
mod tests {
    use super::super::allowed::HostList;
    use super::*;
    use std::sync::Arc;
    use tokio::net::TcpListener;

    fn allowed(hosts: &[&str], networks: &[&str]) -> Allowed {
        let rules = hosts.iter().map(|rule| rule.parse().unwrap()).collect();
        let hosts = HostList { rules, setting: "hosts", who: "an operator" };
        Allowed::new(hosts, networks.iter().map(|network| network.parse().unwrap()).collect(), "networks")
    }

    fn leads_to(addresses: &[&str]) -> Lookup {
        let found: Vec<SocketAddr> = addresses.iter().map(|address| SocketAddr::new(address.parse().unwrap(), 0)).collect();
        Arc::new(move |_| Box::pin(std::future::ready(Ok(found.clone()))))
    }

    #[test]
    fn a_connection_carries_what_its_rule_says() {
        let allowed = allowed(&["a.example", "http://b.example:5432", "*.c.example:8443", "http://a.example:443", "http://10.0.0.1"], &[]);
        for (host, port, carries) in [
            ("a.example", 443, Some(Scheme::Http)),
            ("b.example", 5432, Some(Scheme::Http)),
            ("x.c.example", 8443, Some(Scheme::Https)),
            ("10.0.0.1", 80, Some(Scheme::Http)),
            ("a.example", 80, None),
            ("b.example", 443, None),
            ("c.example", 8443, None),
            ("10.0.0.2", 80, None),
            ("10.0.0.1@a.example", 443, None),
            ("a.example/", 443, None),
            ("", 443, None),
        ] {
            assert_eq!(allowed.carries(host, port).ok(), carries, "{host} {port}");
        }
    }

    #[tokio::test]
    async fn only_addresses_that_may_be_reached_are_dialled() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let host = format!("http://inside.example:{port}");
        let code = async |networks: &[&str], leads: &[&str]| {
            let dialled = allowed(&[&host], networks).dial("inside.example", port, &leads_to(leads)).await;
            dialled.map_or_else(|error| error.code(), |_| "connected")
        };
        for inside in ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "fd00::1"] {
            assert_eq!(code(&[], &[inside]).await, "address_not_allowed", "{inside}");
        }
        assert_eq!(code(&["169.254.0.0/16"], &["169.254.169.254"]).await, "address_not_allowed");
        assert_eq!(code(&["127.0.0.0/8"], &[]).await, "name_not_found");
        assert_eq!(code(&["127.0.0.1/32"], &["10.0.0.1", "127.0.0.1"]).await, "connected");
        assert_eq!(
            allowed(&[&host], &[]).dial("other.example", port, &leads_to(&["1.1.1.1"])).await.unwrap_err().code(),
            "host_not_allowed"
        );
        drop(listener);
        assert_eq!(code(&["127.0.0.1/32"], &["127.0.0.1"]).await, "unreachable");
    }
}
