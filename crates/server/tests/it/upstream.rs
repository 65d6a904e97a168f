//! An MCP server on this machine, over streamable HTTP. Its tools are what the test says, and it remembers which of them were called.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::task::AbortHandle;

#[derive(Clone)]
pub(crate) struct Upstream {
    pub(crate) url: String,
    state: Arc<Mutex<Memory>>,
    serving: AbortHandle,
}

#[derive(Default)]
struct Memory {
    tools: Vec<Value>,
    /// What it offers once it has listed its tools once more.
    next: Option<Vec<Value>>,
    /// The credential that it wants, if it wants one.
    wants: Option<String>,
    called: Vec<Value>,
    /// What each of those calls was given.
    given: Vec<Value>,
    /// What led to requests of automations, as their header or their `_meta` says.
    chains: Vec<String>,
    instructions: Option<String>,
    /// What its tools answer, and what its resources have.
    answer: Option<Value>,
}

/// A tool that may be anything.
pub(crate) fn tool(name: &str, annotations: Value) -> Value {
    let schema = json!({ "type": "object", "properties": { "text": { "type": "string" } } });
    json!({ "name": name, "description": format!("The tool {name}."), "inputSchema": schema, "annotations": annotations })
}

impl Upstream {
    /// A server with a tool that only reads, one that writes, and one that destroys.
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state: Arc<Mutex<Memory>> = Arc::default();
        let router = Router::new().route("/mcp", post(answer)).route("/other", post(answer)).with_state(Arc::clone(&state));
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() }).abort_handle();
        let upstream = Self { url, state, serving };
        let tools =
            [tool("look", json!({ "readOnlyHint": true })), tool("note", json!({})), tool("wipe", json!({ "destructiveHint": true }))];
        upstream.offer(tools);
        upstream
    }

    pub(crate) fn mcp(&self) -> String {
        format!("{}/mcp", self.url)
    }

    pub(crate) fn offer(&self, tools: impl IntoIterator<Item = Value>) {
        self.state.lock().tools = tools.into_iter().collect();
    }

    /// Offers these from the listing after the next one on.
    pub(crate) fn offer_later(&self, tools: impl IntoIterator<Item = Value>) {
        self.state.lock().next = Some(tools.into_iter().collect());
    }

    pub(crate) fn want(&self, authorization: &str) {
        self.state.lock().wants = Some(authorization.to_owned());
    }

    /// What it tells every client that connects from now on.
    pub(crate) fn instruct(&self, instructions: &str) {
        self.state.lock().instructions = Some(instructions.to_owned());
    }

    /// What calls of its tools, and reads of its resources, are answered with from now on.
    pub(crate) fn will_answer(&self, answer: Value) {
        self.state.lock().answer = Some(answer);
    }

    /// The names of the tools that were called, in order.
    pub(crate) fn called(&self) -> Vec<Value> {
        self.state.lock().called.clone()
    }

    /// The arguments of the calls, in order.
    pub(crate) fn given(&self) -> Vec<Value> {
        self.state.lock().given.clone()
    }

    /// The chains of automations that requests came with, in order.
    pub(crate) fn chains(&self) -> Vec<String> {
        self.state.lock().chains.clone()
    }

    /// Takes the server away.
    pub(crate) fn stop(&self) {
        self.serving.abort();
    }
}

async fn answer(State(state): State<Arc<Mutex<Memory>>>, headers: HeaderMap, Json(message): Json<Value>) -> Response {
    let mut memory = state.lock();
    let sent = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    if memory.wants.is_some() && memory.wants.as_deref() != sent {
        return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")]).into_response();
    }
    let (method, params) = (message["method"].as_str().unwrap_or_default(), &message["params"]);
    let chain = headers.get("countersign-chain").and_then(|value| value.to_str().ok());
    let chain = chain.or_else(|| params["_meta"]["countersign/chain"].as_str()).map(str::to_owned);
    memory.chains.extend(chain);
    let result = match method {
        "initialize" => {
            json!({ "protocolVersion": params["protocolVersion"], "capabilities": { "tools": {}, "resources": {}, "prompts": {} },
            "serverInfo": { "name": "upstream", "version": "1" }, "instructions": memory.instructions })
        }
        "tools/list" => {
            let next = memory.next.take().unwrap_or_else(|| memory.tools.clone());
            json!({ "tools": std::mem::replace(&mut memory.tools, next) })
        }
        "tools/call" => {
            memory.called.push(params["name"].clone());
            memory.given.push(params["arguments"].clone());
            let usual = json!({ "content": [{ "type": "text", "text": format!("did {}", params["name"]) }] });
            memory.answer.clone().unwrap_or(usual)
        }
        "resources/list" => json!({ "resources": [{ "uri": "kit://a", "name": "a" }], "nextCursor": params["cursor"] }),
        "resources/read" => {
            let usual = json!({ "contents": [{ "uri": params["uri"], "text": "what it says" }] });
            memory.answer.clone().unwrap_or(usual)
        }
        "prompts/list" => json!({ "prompts": [{ "name": "greet" }] }),
        "prompts/get" => json!({ "messages": [{ "role": "user", "content": { "type": "text", "text": params["arguments"]["who"] } }] }),
        notification if notification.starts_with("notifications/") => return StatusCode::ACCEPTED.into_response(),
        _ => {
            let error = json!({ "code": -32601, "message": "unknown" });
            return Json(json!({ "jsonrpc": "2.0", "id": message["id"], "error": error })).into_response();
        }
    };
    Json(json!({ "jsonrpc": "2.0", "id": message["id"], "result": result })).into_response()
}
