//! Where a request may come from. A browser on a page of others must not reach this server: neither by a name that was made to point here
//! (DNS rebinding) nor by a request from another origin. The origin is always checked against the server's own address, which no request
//! changes; the host is not where a proxy that the operator trusts has let it pass.

use axum::http::uri::Authority;
use axum::http::{HeaderMap, Uri, header};
use std::net::IpAddr;

/// Whose word the host of a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostOf {
    /// A client's, which may be a browser that was led here.
    Client,
    /// A trusted proxy passed the request on, and answers for the host that was asked for.
    Proxy,
}

/// The address of this server, as people and clients know it.
pub(super) struct Addresses {
    /// Scheme, host and port.
    origin: String,
    host: Option<String>,
}

impl Addresses {
    pub(super) fn of(address: &str) -> Self {
        let uri: Option<Uri> = address.parse().ok();
        let authority = uri.as_ref().and_then(Uri::authority);
        let host = authority.map(|authority| authority.host().to_ascii_lowercase());
        let scheme = uri.as_ref().and_then(Uri::scheme_str).unwrap_or("http");
        let origin = authority.map_or_else(String::new, |authority| format!("{scheme}://{}", authority.as_str().to_ascii_lowercase()));
        Self { origin, host }
    }

    /// Why a request is refused, if it is.
    pub(super) fn refusal(&self, uri: &Uri, headers: &HeaderMap, host: HostOf) -> Option<&'static str> {
        let named = headers.get(header::HOST).map(|value| value.to_str().ok().and_then(|text| text.parse::<Authority>().ok()));
        let authority = named.unwrap_or_else(|| uri.authority().cloned());
        if host == HostOf::Client && !authority.is_some_and(|authority| self.is_ours(authority.host())) {
            return Some("the host that the request names is not this server's");
        }
        let origin = headers.get(header::ORIGIN)?;
        let is_ours = origin.to_str().is_ok_and(|origin| origin.eq_ignore_ascii_case(&self.origin));
        (!is_ours).then_some("requests from other origins are refused")
    }

    /// A name that was made to point here is neither of these: an IP address is not a name.
    fn is_ours(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        bare == "localhost" || bare.parse::<IpAddr>().is_ok() || self.host.as_deref() == Some(host.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_names_and_our_origin_are_accepted() {
        let addresses = Addresses::of("https://gate.example.com");
        for (host, origin, is_refused) in [
            ("gate.example.com", None, false),
            ("GATE.example.com:443", None, false),
            ("127.0.0.1:8080", None, false),
            ("[::1]:8080", None, false),
            ("localhost:8080", None, false),
            ("10.0.0.7", None, false),
            ("evil.example.com", None, true),
            ("localhost.evil.example.com", None, true),
            ("gate.example.com", Some("https://gate.example.com"), false),
            ("gate.example.com", Some("http://gate.example.com"), true),
            ("gate.example.com", Some("https://evil.example.com"), true),
            ("evil.example.com", Some("https://evil.example.com"), true),
            ("localhost", Some("null"), true),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, host.parse().unwrap());
            if let Some(origin) = origin {
                headers.insert(header::ORIGIN, origin.parse().unwrap());
            }
            let refusal = |host| addresses.refusal(&Uri::from_static("/mcp"), &headers, host).is_some();
            assert_eq!(refusal(HostOf::Client), is_refused, "{host} {origin:?}");
            // A proxy answers for the host, and never for a page of another origin, whatever name leads to it.
            let is_foreign = origin.is_some_and(|origin| origin != "https://gate.example.com");
            assert_eq!(refusal(HostOf::Proxy), is_foreign, "{host} {origin:?}");
        }
        let unnamed = addresses.refusal(&Uri::from_static("/mcp"), &HeaderMap::new(), HostOf::Client);
        assert!(unnamed.is_some(), "a request that names no host");
    }
}
