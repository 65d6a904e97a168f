//! A resource and its authorization server on this machine, in the wire format of the RFCs. A test changes single answers.

use super::Fetch;
use crate::web::HostRule;
use ipnet::IpNet;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use url::form_urlencoded;

/// Texts that no error may repeat.
pub(crate) const CANARY: &str = "canary-7731";

/// One request: method and path, its `Authorization`, and its form or body.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) line: String,
    pub(crate) authorization: Option<String>,
    pub(crate) body: String,
}

impl Seen {
    pub(crate) fn form(&self) -> BTreeMap<String, String> {
        form_urlencoded::parse(self.body.as_bytes()).into_owned().collect()
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: String,
    pub(crate) body: String,
    /// Sends nothing and keeps the connection open.
    pub(crate) is_silent: bool,
}

pub(crate) fn reply(status: u16, body: &Value) -> Reply {
    Reply { status, headers: String::new(), body: body.to_string(), is_silent: false }
}

#[derive(Clone)]
pub(crate) struct Fake {
    pub(crate) base: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    changed: Arc<Mutex<HashMap<String, Reply>>>,
}

impl Fake {
    pub(crate) async fn start() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://127.0.0.1:{}", listener.local_addr().unwrap().port());
        let fake = Self { base, seen: Arc::default(), changed: Arc::default() };
        let server = fake.clone();
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                tokio::spawn(server.clone().serve(connection));
            }
        });
        fake
    }

    pub(crate) fn at(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// A client that may reach this fake, and `127.0.0.9`, whose address is not allowed.
    pub(crate) fn fetch(&self) -> Fetch {
        let (hosts, networks) = self.allowed();
        Fetch::new(hosts, networks).unwrap()
    }

    pub(crate) fn allowed(&self) -> (Vec<HostRule>, Vec<IpNet>) {
        let hosts = [self.base.as_str(), "http://127.0.0.9"].iter().map(|rule| rule.parse().unwrap()).collect();
        (hosts, vec!["127.0.0.1/32".parse().unwrap()])
    }

    /// From now on `GET /path` or `POST /path` is answered like this.
    pub(crate) fn change(&self, line: &str, reply: Reply) {
        self.changed.lock().insert(line.to_owned(), reply);
    }

    /// Changes members of the authorization server's metadata; `null` leaves one out.
    pub(crate) fn change_metadata(&self, members: &Value) {
        let mut metadata = self.metadata();
        for (name, value) in members.as_object().unwrap() {
            metadata[name] = value.clone();
        }
        metadata.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        self.change("GET /.well-known/oauth-authorization-server", reply(200, &metadata));
    }

    pub(crate) fn seen(&self, line: &str) -> Vec<Seen> {
        self.seen.lock().iter().filter(|seen| seen.line == line).cloned().collect()
    }

    pub(crate) fn metadata(&self) -> Value {
        json!({
            "issuer": self.base,
            "authorization_endpoint": self.at("/authorize?tenant=1"),
            "token_endpoint": self.at("/token"),
            "registration_endpoint": self.at("/register"),
            "revocation_endpoint": self.at("/revoke"),
            "code_challenge_methods_supported": ["plain", "S256"],
            "response_types_supported": ["code"],
            "authorization_response_iss_parameter_supported": true,
        })
    }

    fn answer(&self, line: &str) -> Reply {
        if let Some(reply) = self.changed.lock().get(line) {
            return reply.clone();
        }
        let number = self.seen("POST /token").len();
        match line {
            "GET /mcp" => Reply {
                headers: format!("www-authenticate: Bearer resource_metadata=\"{}\", scope=\"read\"\r\n", self.at("/prm")),
                ..reply(401, &json!({}))
            },
            "GET /prm" => reply(200, &json!({ "resource": self.at("/mcp"), "authorization_servers": [self.base] })),
            "GET /.well-known/oauth-authorization-server" => reply(200, &self.metadata()),
            "POST /register" => reply(201, &json!({ "client_id": format!("client-{}", self.seen("POST /register").len()) })),
            "POST /token" => reply(
                200,
                &json!({
                    "access_token": format!("{CANARY}-access-{number}"),
                    "token_type": "bearer",
                    "expires_in": 3600,
                    "refresh_token": format!("{CANARY}-refresh-{number}"),
                }),
            ),
            "POST /revoke" => reply(200, &json!({})),
            _ => reply(404, &json!({})),
        }
    }

    async fn serve(self, mut connection: TcpStream) {
        let (mut request, mut chunk) = (Vec::new(), vec![0; 16 * 1024]);
        let (head, body) = loop {
            let text = String::from_utf8_lossy(&request).into_owned();
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let length =
                    head.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(0, |length| length.parse().unwrap());
                if body.len() >= length {
                    break (head.to_owned(), body.to_owned());
                }
            }
            match connection.read(&mut chunk).await {
                Ok(0) | Err(_) => return,
                Ok(read) => request.extend_from_slice(&chunk[..read]),
            }
        };
        let mut words = head.split([' ', '?', '\r']);
        let line = format!("{} {}", words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let authorization = head.lines().find_map(|line| line.strip_prefix("authorization: ")).map(str::to_owned);
        self.seen.lock().push(Seen { line: line.clone(), authorization, body });
        let Reply { status, headers, body, is_silent } = self.answer(&line);
        if is_silent {
            std::future::pending::<()>().await;
        }
        let text =
            format!("HTTP/1.1 {status} x\r\n{headers}content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        let _gone = connection.write_all(text.as_bytes()).await;
    }
}
