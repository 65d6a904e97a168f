//! The world outside of `countersign demo`: three small MCP servers, `crm`, `github` and `chat`, on one free port of this machine. They keep in
//! memory what they were told, and misbehave when the story wants it. Only the demo starts them.

use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use futures_util::stream;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::io;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

/// The servers. They end when this is dropped.
pub struct Upstream {
    /// The address that all of them share; below it each has its name as the path.
    pub origin: String,
    memory: Arc<Mutex<Memory>>,
    _serving: AbortOnDropHandle<()>,
}

#[derive(Default)]
struct Memory {
    /// Whether `merge_pull_request` takes `bypass_checks`.
    can_bypass: bool,
    /// Whether `chat` closes the connection in the middle of its next answer.
    hangs_up: bool,
    posts: Vec<String>,
}

impl Upstream {
    pub async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let origin = format!("http://{}", listener.local_addr()?);
        let memory: Arc<Mutex<Memory>> = Arc::default();
        let router = Router::new().route("/{server}", post(answer)).with_state(Arc::clone(&memory));
        let serving = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                tracing::error!(%error, "the servers of the demo have ended");
            }
        });
        Ok(Self { origin, memory, _serving: AbortOnDropHandle::new(serving) })
    }

    /// From now on `merge_pull_request` takes one param more, `bypass_checks`.
    pub fn let_merges_bypass_checks(&self) {
        self.memory.lock().can_bypass = true;
    }

    /// The next message is posted, and nobody hears of it: the connection closes in the middle of the answer.
    pub fn hang_up_once(&self) {
        self.memory.lock().hangs_up = true;
    }

    /// How many messages were posted.
    pub fn posts(&self) -> usize {
        self.memory.lock().posts.len()
    }
}

async fn answer(Path(server): Path<String>, State(memory): State<Arc<Mutex<Memory>>>, Json(message): Json<Value>) -> Response {
    let params = &message["params"];
    let result = match message["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": params["protocolVersion"],
            "capabilities": { "tools": {} },
            "serverInfo": { "name": server, "version": "1" },
        }),
        "tools/list" => json!({ "tools": tools(&server, memory.lock().can_bypass) }),
        "tools/call" => match memory.lock().call(params) {
            Some(text) => json!({ "content": [{ "type": "text", "text": text }] }),
            None => return broken_off(),
        },
        method if method.starts_with("notifications/") => return StatusCode::ACCEPTED.into_response(),
        _ => {
            let error = json!({ "code": -32601, "message": "there is no such method" });
            return Json(json!({ "jsonrpc": "2.0", "id": message["id"], "error": error })).into_response();
        }
    };
    Json(json!({ "jsonrpc": "2.0", "id": message["id"], "result": result })).into_response()
}

/// The beginning of an answer; then the connection closes.
fn broken_off() -> Response {
    let pieces = [Ok(Bytes::from_static(b"{\"jsonrpc\":")), Err(io::Error::from(io::ErrorKind::ConnectionReset))];
    ([(header::CONTENT_TYPE, "application/json")], Body::from_stream(stream::iter(pieces))).into_response()
}

fn tools(server: &str, can_bypass: bool) -> Vec<Value> {
    let reads = json!({ "readOnlyHint": true });
    match server {
        "crm" => vec![
            tool("find_customer", "Finds a customer, with their last order.", &[("customer", "string")], &reads),
            tool(
                "refund",
                "Pays an amount back to a customer.",
                &[("customer", "string"), ("amount", "number"), ("currency", "string")],
                &json!({}),
            ),
            tool("delete_customer", "Deletes a customer and their orders.", &[("customer", "string")], &json!({ "destructiveHint": true })),
        ],
        "github" => {
            let params = [("repository", "string"), ("number", "integer")];
            let mut merge = tool("merge_pull_request", "Merges a pull request whose checks passed.", &params, &json!({}));
            if can_bypass {
                merge["inputSchema"]["properties"]["bypass_checks"] = json!({ "type": "boolean" });
            }
            vec![merge]
        }
        "chat" => vec![
            tool("read_channel", "Reads the messages of a channel.", &[("channel", "string")], &reads),
            tool("post_message", "Posts a message to a channel.", &[("channel", "string"), ("text", "string")], &json!({})),
        ],
        _ => Vec::new(),
    }
}

/// A tool all of whose params are required.
fn tool(name: &str, description: &str, params: &[(&str, &str)], annotations: &Value) -> Value {
    let properties: serde_json::Map<_, _> = params.iter().map(|(name, kind)| ((*name).to_owned(), json!({ "type": kind }))).collect();
    let required: Vec<_> = params.iter().map(|(name, _)| *name).collect();
    let schema = json!({ "type": "object", "properties": properties, "required": required });
    json!({ "name": name, "description": description, "inputSchema": schema, "annotations": annotations })
}

impl Memory {
    /// What a tool says; `None` if it hangs up instead.
    fn call(&mut self, params: &Value) -> Option<String> {
        let said = &params["arguments"];
        let text = |name: &str| said[name].as_str().unwrap_or_default();
        Some(match params["name"].as_str().unwrap_or_default() {
            "find_customer" => format!("{}: order 1042 was paid and not delivered", text("customer")),
            "refund" => format!("{} {} go back to {}", said["amount"], text("currency"), text("customer")),
            "delete_customer" => format!("{} is deleted", text("customer")),
            "merge_pull_request" => format!("pull request {} of {} is merged", said["number"], text("repository")),
            "read_channel" => format!("{} messages: {}", self.posts.len(), self.posts.join("; ")),
            "post_message" => {
                self.posts.push(text("text").to_owned());
                if std::mem::take(&mut self.hangs_up) {
                    return None;
                }
                "posted".to_owned()
            }
            other => format!("there is no tool `{other}`"),
        })
    }
}
