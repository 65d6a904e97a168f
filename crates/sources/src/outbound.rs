//! Requests that Countersign makes for itself, such as those of channels: one POST to a host that an operator has allowed, bounded in bytes
//! and in time. It goes to exactly the place that was checked and follows no redirect.

use crate::Error as SetupError;
use crate::limits::{OUTBOUND_ANSWER_BYTES_MAX, OUTBOUND_ANSWER_MS};
use crate::oauth::is_private_to_read;
use crate::web::{Allowed, Deadline, Exchange, HostList, HostRule, Sent, Target, asks_to_come_back};
use crate::words::refused;
use countersign_core::Secret;
use countersign_core::source::Error;
use ipnet::IpNet;
use parking_lot::RwLock;
use reqwest::Method;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use std::sync::Arc;
use std::time::Duration;

/// The HTTP client of channels, and what it may reach.
pub struct Outbound {
    /// Replaced when an operator allows other hosts or networks.
    way: RwLock<Arc<Way>>,
    answer_ms: u64,
}

struct Way {
    exchange: Exchange,
    allowed: Allowed,
}

impl Way {
    fn new(hosts: Vec<HostRule>, networks: Vec<IpNet>) -> Result<Self, SetupError> {
        let hosts = HostList { rules: hosts, setting: "source_allowed_hosts", who: "an operator" };
        let allowed = Allowed::new(hosts, networks, "source_allowed_networks");
        Ok(Self { exchange: Exchange::new("channel", &allowed)?, allowed })
    }
}

/// What was answered. The body is cut at `OUTBOUND_ANSWER_BYTES_MAX`; nothing that it says can be trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    pub status: u16,
    /// How long it asked us to stay away (`Retry-After` of 429 and 503); `u64::MAX` if that cannot be read.
    pub retry_after_ms: Option<u64>,
    pub body: Vec<u8>,
}

impl Outbound {
    /// Requires an installed rustls provider and, if an https host is allowed, the system's certificates.
    pub fn new(hosts: Vec<HostRule>, networks: Vec<IpNet>) -> Result<Self, SetupError> {
        Ok(Self { way: RwLock::new(Arc::new(Way::new(hosts, networks)?)), answer_ms: OUTBOUND_ANSWER_MS })
    }

    /// From here on, these hosts and networks may be reached, and no others.
    pub fn allow(&self, hosts: Vec<HostRule>, networks: Vec<IpNet>) -> Result<(), SetupError> {
        *self.way.write() = Arc::new(Way::new(hosts, networks)?);
        Ok(())
    }

    fn way(&self) -> Arc<Way> {
        Arc::clone(&self.way.read())
    }

    /// With less patience, so that a test of a silent server does not take long.
    #[must_use]
    pub fn with_patience(self, answer: Duration) -> Self {
        Self { answer_ms: u64::try_from(answer.as_millis()).unwrap_or(u64::MAX), ..self }
    }

    /// Whether the address may be asked at all: an allowed host, where nobody on the way can read what is sent, without anything in it that
    /// could be a credential. What is behind its name is checked when it is asked.
    pub fn check(&self, url: &str) -> Result<(), Error> {
        let target = Target::check(url, &self.way().allowed)?;
        if !is_private_to_read(target.url()) {
            return Err(refused("url_not_allowed", "the address is not https, so others could read what is sent there"));
        }
        let is_plain = target.url().query().is_none() && target.url().fragment().is_none();
        if is_plain { Ok(()) } else { Err(refused("url_not_allowed", "the address has no query: it could be a credential")) }
    }

    /// Sends one request. Its headers may be credentials, so none is logged.
    pub async fn post(&self, url: &str, headers: &[(&'static str, Secret<String>)], body: Vec<u8>) -> Result<Answered, Error> {
        self.check(url)?;
        let way = self.way();
        let target = Target::check(url, &way.allowed)?;
        let deadline = Deadline::after(Duration::from_millis(self.answer_ms), self.answer_ms);
        let mut sent = HeaderMap::new();
        for (name, value) in headers {
            let mut value = HeaderValue::from_str(value.expose())
                .map_err(|_| refused("header_not_allowed", format!("header `{name}` has characters that it cannot carry")))?;
            value.set_sensitive(true);
            sent.insert(HeaderName::from_static(name), value);
        }
        let sent = Sent { method: Method::POST, headers: sent, body: Some(body), is_read: false };
        let response = way.exchange.send(sent, &target, &way.allowed, deadline).await?;
        let (status, retry_after_ms) = (response.status().as_u16(), asks_to_come_back(&response).flatten());
        let body = way.exchange.read(response, OUTBOUND_ANSWER_BYTES_MAX, deadline).await;
        Ok(Answered { status, retry_after_ms, body: body.bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    fn outbound(rules: &[&str]) -> Outbound {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let rules = rules.iter().map(|rule| rule.parse().unwrap()).collect();
        Outbound::new(rules, vec!["127.0.0.1/32".parse().unwrap()]).unwrap().with_patience(Duration::from_millis(300))
    }

    #[tokio::test]
    async fn one_request_goes_to_the_place_that_was_checked() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let heard = tokio::spawn(async move {
            let (mut connection, _) = listener.accept().await.unwrap();
            let mut chunk = vec![0; 4_096];
            let read = connection.read(&mut chunk).await.unwrap();
            let moved = "HTTP/1.1 302 Found\r\nlocation: http://elsewhere.test/\r\ncontent-length: 2\r\n\r\nno";
            connection.write_all(moved.as_bytes()).await.unwrap();
            String::from_utf8_lossy(&chunk[..read]).to_ascii_lowercase()
        });
        let headers = [("webhook-id", Secret::new("dlv_1".to_owned()))];
        let answered = outbound(&[&url]).post(&format!("{url}/hook"), &headers, b"{}".to_vec()).await.unwrap();
        assert_eq!(answered, Answered { status: 302, retry_after_ms: None, body: b"no".to_vec() }, "a redirect is an answer");
        let heard = heard.await.unwrap();
        assert!(heard.starts_with("post /hook ") && heard.contains("webhook-id: dlv_1"), "{heard}");
    }

    #[tokio::test]
    async fn who_is_silent_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let refused = outbound(&[&url]).post(&url, &[], Vec::new()).await.unwrap_err();
        assert!(matches!(refused, Error::TimedOut { .. }), "{refused}");
        drop(listener);
    }

    #[tokio::test]
    async fn an_answer_without_end_is_cut() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            let (mut connection, _) = listener.accept().await.unwrap();
            let _heard = connection.read(&mut [0; 4_096]).await;
            let mut written = connection.write_all(b"HTTP/1.1 500 Oops\r\n\r\n").await;
            while written.is_ok() {
                written = connection.write_all(&[b'x'; 4_096]).await;
            }
        });
        let answered = outbound(&[&url]).post(&url, &[], Vec::new()).await.unwrap();
        assert_eq!((answered.status, answered.body.len()), (500, OUTBOUND_ANSWER_BYTES_MAX));
    }

    #[test]
    fn an_address_is_allowed_private_and_no_credential() {
        let outbound =
            outbound(&["https://hooks.example.com", "http://hooks.example.com", "http://127.0.0.1:8080", "http://127.0.0.2:8080"]);
        for good in ["https://hooks.example.com/a/b", "http://127.0.0.1:8080/hook"] {
            assert_eq!(outbound.check(good), Ok(()), "{good}");
        }
        for (bad, code) in [
            ("https://other.example.com/", "host_not_allowed"),
            ("http://hooks.example.com/", "url_not_allowed"),
            ("https://hooks.example.com/?key=1", "url_not_allowed"),
            ("https://robin:secret@hooks.example.com/", "url_not_allowed"),
            ("http://127.0.0.2:8080/", "address_not_allowed"),
            ("ftp://hooks.example.com/", "url_not_allowed"),
        ] {
            assert_eq!(outbound.check(bad).unwrap_err().code(), code, "{bad}");
        }
    }
}
