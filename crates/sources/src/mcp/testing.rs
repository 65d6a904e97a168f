//! A server for tests that does exactly what a test wants, byte by byte.

use super::source::{McpConfig, McpSource, Server as At};
use super::tier::Tiers;
use countersign_core::SourceId;
use countersign_core::ports::sources::Hints;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// One HTTP request.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) head: String,
    pub(super) body: Value,
}

impl Request {
    pub(super) fn verb(&self) -> &str {
        self.head.split(' ').next().unwrap_or_default()
    }

    pub(super) fn method(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }

    pub(super) fn id(&self) -> &Value {
        &self.body["id"]
    }

    pub(super) fn params(&self) -> &Value {
        &self.body["params"]
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .find_map(|line| line.split_once(": ").filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value))
    }
}

/// A part of an answer.
#[derive(Clone)]
pub(super) enum Piece {
    Bytes(Vec<u8>),
    /// These bytes again and again, until the client hangs up.
    Endless(Vec<u8>),
    /// Waits until the test says so.
    Until(Arc<Notify>),
    /// Keeps the connection open and sends nothing.
    Silence,
}

pub(super) type Reply = Vec<Piece>;

pub(super) fn http(status: &str, headers: &str, body: impl AsRef<[u8]>) -> Reply {
    let body = body.as_ref();
    let mut bytes = format!("HTTP/1.1 {status}\r\n{headers}connection: close\r\ncontent-length: {}\r\n\r\n", body.len()).into_bytes();
    bytes.extend_from_slice(body);
    vec![Piece::Bytes(bytes)]
}

pub(super) fn json_body(body: impl AsRef<[u8]>) -> Reply {
    http("200 OK", "content-type: application/json\r\n", body)
}

/// The beginning of an answer whose length is not said.
pub(super) fn head(content_type: &str) -> Piece {
    Piece::Bytes(format!("HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\nconnection: close\r\n\r\n").into_bytes())
}

pub(super) fn event(message: &Value) -> Piece {
    Piece::Bytes(format!("event: message\ndata: {message}\n\n").into_bytes())
}

pub(super) fn events(messages: &[Value]) -> Reply {
    std::iter::once(head("text/event-stream")).chain(messages.iter().map(event)).collect()
}

pub(super) fn result(request: &Request, result: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": request.id(), "result": result })
}

pub(super) fn answer(request: &Request, value: Value) -> Reply {
    json_body(result(request, value).to_string())
}

pub(super) fn error(request: &Request, code: i64, message: &str) -> Reply {
    json_body(json!({ "jsonrpc": "2.0", "id": request.id(), "error": { "code": code, "message": message } }).to_string())
}

pub(super) fn tool(name: &str) -> Value {
    json!({ "name": name, "description": "A tool.", "inputSchema": { "type": "object" } })
}

pub(super) fn text(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}

/// A server that remembers every request.
pub(super) struct Server {
    pub(super) port: u16,
    requests: Arc<Mutex<Vec<Request>>>,
    written: Arc<AtomicUsize>,
    came: Arc<Notify>,
}

impl Server {
    pub(super) async fn start(replies: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = Self { port, requests: Arc::default(), written: Arc::default(), came: Arc::default() };
        let (requests, written, came) = (Arc::clone(&server.requests), Arc::clone(&server.written), Arc::clone(&server.came));
        let replies = Arc::new(replies);
        tokio::spawn(async move {
            while let Ok((mut connection, _)) = listener.accept().await {
                let (requests, written, came, replies) = (requests.clone(), written.clone(), came.clone(), replies.clone());
                tokio::spawn(async move {
                    if let Some(request) = read(&mut connection).await {
                        let reply = replies(&request);
                        requests.lock().push(request);
                        came.notify_waiters();
                        let _ = write(&mut connection, reply, &written).await;
                    }
                });
            }
        });
        server
    }

    /// A server with sessions, which answers these methods like that and knows the rest.
    pub(super) async fn legacy(replies: impl Fn(&Request) -> Option<Reply> + Send + Sync + 'static) -> Self {
        Self::start(move |request| replies(request).unwrap_or_else(|| of_legacy(request))).await
    }

    /// A server of the revision without sessions.
    pub(super) async fn modern(replies: impl Fn(&Request) -> Option<Reply> + Send + Sync + 'static) -> Self {
        Self::start(move |request| replies(request).unwrap_or_else(|| of_modern(request))).await
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

    pub(super) fn requests(&self) -> Vec<Request> {
        self.requests.lock().clone()
    }

    pub(super) fn methods(&self) -> Vec<String> {
        self.requests().iter().filter(|request| request.verb() == "POST").map(|request| request.method().to_owned()).collect()
    }

    /// Bytes that clients took.
    pub(super) fn written(&self) -> usize {
        self.written.load(Ordering::SeqCst)
    }

    /// Waits for a request that fits.
    pub(super) async fn came(&self, fits: impl Fn(&Request) -> bool) -> Request {
        loop {
            let came = self.came.notified();
            tokio::pin!(came);
            came.as_mut().enable();
            if let Some(found) = self.requests().into_iter().find(|request| fits(request)) {
                return found;
            }
            came.await;
        }
    }

    /// A source that may reach this server and nothing else.
    pub(super) fn source(&self) -> McpSource {
        self.source_with(|_| {})
    }

    pub(super) fn source_with(&self, change: impl FnOnce(&mut McpConfig)) -> McpSource {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut config = McpConfig {
            id: SourceId::parse("kit").unwrap(),
            title: "Kit".to_owned(),
            server: At::Http {
                url: self.url(),
                allowed_hosts: vec![format!("http://127.0.0.1:{}", self.port).parse().unwrap()],
                allowed_networks: vec!["127.0.0.1/32".parse().unwrap()],
                credentials: None,
            },
            connection: None,
            server_sha256: None,
            spaces: None,
            tiers: Tiers { hints: Hints::Trusted, ..Tiers::default() },
            list_timeout_ms: 10_000,
            call_timeout_ms: 10_000,
            hearer: None,
        };
        change(&mut config);
        McpSource::new(config)
    }
}

fn of_legacy(request: &Request) -> Reply {
    match (request.verb(), request.method()) {
        ("GET", _) => http("405 Method Not Allowed", "", ""),
        ("DELETE", _) => http("200 OK", "", ""),
        (_, "server/discover") => http("400 Bad Request", "content-type: text/plain\r\n", "what?"),
        (_, "initialize") => {
            let info = json!({
                "protocolVersion": request.params()["protocolVersion"],
                "capabilities": { "tools": { "listChanged": true } },
                "serverInfo": { "name": "kit", "version": "1" },
                "instructions": "Use it\u{202e} with care.",
            });
            http("200 OK", "content-type: application/json\r\nmcp-session-id: s1\r\n", result(request, info).to_string())
        }
        (_, method) if method.starts_with("notifications/") => http("202 Accepted", "", ""),
        (_, "tools/list") => answer(request, json!({ "tools": [tool("look"), tool("set")] })),
        (_, "tools/call") => answer(request, text("done")),
        _ => error(request, -32601, "unknown"),
    }
}

fn of_modern(request: &Request) -> Reply {
    match (request.verb(), request.method()) {
        ("POST", "server/discover") => answer(
            request,
            json!({ "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} },
                "instructions": "Use it with care.", "ttlMs": 0, "cacheScope": "private" }),
        ),
        ("POST", "tools/list") => answer(
            request,
            json!({ "resultType": "complete", "tools": [tool("look"), tool("set")], "ttlMs": 86_400_000, "cacheScope": "public" }),
        ),
        ("POST", "tools/call") => {
            let mut done = text("done");
            done["resultType"] = json!("complete");
            answer(request, done)
        }
        ("POST", method) if method.starts_with("notifications/") => http("202 Accepted", "", ""),
        ("POST", _) => http(
            "404 Not Found",
            "content-type: application/json\r\n",
            json!({ "jsonrpc": "2.0", "id": request.id(),
            "error": { "code": -32601, "message": "unknown" } })
            .to_string(),
        ),
        _ => http("405 Method Not Allowed", "", ""),
    }
}

async fn read(connection: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    let mut chunk = vec![0; 64 * 1024];
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(0, |length| length.parse().unwrap());
            if body.len() >= length {
                return Some(Request { head: head.to_owned(), body: serde_json::from_str(body).unwrap_or_default() });
            }
        }
        match connection.read(&mut chunk).await {
            Ok(0) | Err(_) => return None,
            Ok(read) => bytes.extend_from_slice(&chunk[..read]),
        }
    }
}

async fn write(connection: &mut TcpStream, reply: Reply, written: &AtomicUsize) -> std::io::Result<()> {
    for piece in reply {
        match piece {
            Piece::Bytes(bytes) => {
                for part in bytes.chunks(64 * 1024) {
                    connection.write_all(part).await?;
                    written.fetch_add(part.len(), Ordering::SeqCst);
                }
            }
            Piece::Endless(bytes) => loop {
                connection.write_all(&bytes).await?;
                written.fetch_add(bytes.len(), Ordering::SeqCst);
            },
            Piece::Until(said) => said.notified().await,
            Piece::Silence => std::future::pending().await,
        }
    }
    Ok(())
}
