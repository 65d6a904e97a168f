//! An MCP server of the revision without sessions that does next to nothing, so that what it costs to govern a call shows; and some that lie,
//! to measure the memory that they take.

use anyhow::Result;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use futures_util::stream;
use serde_json::{Value, json};
use std::io::{BufRead as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

/// The argument that makes this program the MCP server.
pub(crate) const ARGUMENT: &str = "__mcp";
/// The argument that makes it one on stdin and stdout, of the revision before.
pub(crate) const STDIO_ARGUMENT: &str = "__mcp_stdio";

/// The size of an answer that is a lie, in bytes.
const LARGE: usize = 50 * 1024 * 1024;
/// How many tools are listed by the one that lies about them.
const CROWD: usize = 10_000;

/// Serves until the process is killed. `/mcp/<name>/<count>` offers so many tools. `/bad/<how>` lies in one way; `/bad/crowded` only once
/// `/turn` was asked for, because what lists too many tools is not added.
pub(crate) async fn serve() -> Result<()> {
    let router = Router::new()
        .route(
            "/mcp/{name}/{count}",
            post(|Path((name, count)): Path<(String, usize)>, body: Bytes| async move { well(&body, &name, count) }),
        )
        .route("/turn", post(|| async { CROWDED.store(true, Ordering::Relaxed) }))
        .route("/bad/{how}", post(|Path(how): Path<String>, body: Bytes| async move { badly(&body, &how) }));
    crate::echo::listen(router).await
}

/// Answers on stdin and stdout until stdin ends. `call` makes the text that a call of any tool is answered with.
pub(crate) fn serve_stdio(tools: &[Value], call: impl Fn() -> Result<String>) -> Result<()> {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let asked: Value = serde_json::from_str(&line?)?;
        let result = match asked["method"].as_str() {
            Some("initialize") => {
                let server = json!({ "name": "bench", "version": "1" });
                json!({ "protocolVersion": "2025-11-25", "capabilities": { "tools": {} }, "serverInfo": server })
            }
            Some("tools/list") => json!({ "tools": tools }),
            Some("tools/call") => json!({ "content": [{ "type": "text", "text": call()? }] }),
            Some(_) | None => json!({}),
        };
        if asked.get("id").is_some() {
            writeln!(out, "{}", json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result }))?;
            out.flush()?;
        }
    }
    Ok(())
}

/// The name of a tool.
pub(crate) fn tool_name(name: &str, number: usize) -> String {
    format!("{name}_tool_{number}")
}

/// The request of one call, as a client of this server sends it.
pub(crate) fn call(name: &str) -> Value {
    call_of(1, &tool_name(name, 7), &json!({ "text": "hello" }))
}

/// The request of one call of any tool, in the revision without sessions.
pub(crate) fn call_of(id: u64, tool: &str, arguments: &Value) -> Value {
    let client = json!({ "name": "bench", "version": "1" });
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": client,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
}

fn well(body: &[u8], name: &str, count: usize) -> Response {
    let asked: Value = serde_json::from_slice(body).unwrap_or_default();
    let result = match asked["method"].as_str() {
        Some("server/discover") => {
            json!({ "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} }, "ttlMs": 0, "cacheScope": "private" })
        }
        Some("tools/list") => json!({ "tools": tools(name, count), "ttlMs": 0, "cacheScope": "private" }),
        Some("tools/call") => json!({ "content": [{ "type": "text", "text": "done" }] }),
        Some(method) if method.starts_with("notifications/") => return StatusCode::ACCEPTED.into_response(),
        Some(_) | None => return StatusCode::NOT_FOUND.into_response(),
    };
    answer(&asked, result)
}

pub(crate) fn tools(name: &str, count: usize) -> Vec<Value> {
    let schema = json!({ "type": "object", "properties": { "text": { "type": "string", "maxLength": 100 } } });
    let tool =
        |number| json!({ "name": tool_name(name, number), "description": format!("Does what is number {number}."), "inputSchema": schema });
    (0..count).map(tool).collect()
}

fn answer(asked: &Value, mut result: Value) -> Response {
    result["resultType"] = json!("complete");
    let body = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result }).to_string();
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

static CROWDED: AtomicBool = AtomicBool::new(false);

fn badly(body: &[u8], how: &str) -> Response {
    let asked: Value = serde_json::from_slice(body).unwrap_or_default();
    match (how, asked["method"].as_str()) {
        ("large", Some("tools/call")) => {
            let mut text = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":\"", asked["id"]).into_bytes();
            text.resize(LARGE, b'x');
            ([(header::CONTENT_TYPE, "application/json")], text).into_response()
        }
        ("endless", Some("tools/call")) => {
            let event = Bytes::from(b"data: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n\n".repeat(100));
            let events = stream::repeat_with(move || Ok::<_, std::io::Error>(event.clone()));
            ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(events)).into_response()
        }
        ("crowded", Some("tools/list")) if CROWDED.load(Ordering::Relaxed) => {
            answer(&asked, json!({ "tools": tools(how, CROWD), "ttlMs": 0, "cacheScope": "private" }))
        }
        _ => well(body, how, 10),
    }
}
