//! The MCP door: what a governed `tools/call` costs, beside the call sent directly and beside the proxies of others. What waits for a person
//! there is measured in `held`.

use crate::child::{Running, start_proxy, start_upstream};
use crate::cpu::Watched;
use crate::http::{self, Connection, HttpCaller};
use crate::load::{Time, drive};
use crate::mcp::{FEW, Governing, Kind, action, directly};
use crate::measure::Plan;
use crate::stats::{Spread, Window};
use crate::{progress, upstream};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

const CALLERS: [usize; 2] = [1, 8];
const ACCEPT: &str = "accept: application/json, text/event-stream\r\n";
/// What the tool answers.
const DONE: &str = "\"text\":\"done\"";

/// Everything measured about the door.
pub(crate) struct Measured {
    pub(crate) cells: Vec<Cell>,
    pub(crate) notes: Vec<String>,
}

/// One kind of call with one number of callers.
pub(crate) struct Cell {
    pub(crate) kind: Kind,
    pub(crate) callers: usize,
    pub(crate) turns: Vec<Turn>,
}

/// The same call in every way.
pub(crate) struct Turn {
    pub(crate) direct: Window,
    pub(crate) ours: Window,
    pub(crate) fastmcp: Option<Window>,
    pub(crate) mcp_proxy: Option<Window>,
}

impl Cell {
    pub(crate) fn spread(&self, figure: impl Fn(&Turn) -> Option<f64>) -> Spread {
        Spread::of(self.turns.iter().filter_map(figure))
    }
}

pub(crate) async fn measure(folder: &Path, plan: Plan) -> Result<Measured> {
    let upstream = start_upstream()?;
    let mut notes = Vec::new();
    let mut python = |name: &str, what: &str| {
        let python = std::env::var_os(name).map(PathBuf::from);
        if python.is_none() {
            notes.push(format!("{what} was skipped: `{name}` is not set."));
        }
        python
    };
    let (fastmcp, mcp_proxy) = (python("BENCH_FASTMCP", "FastMCP's proxy"), python("BENCH_MCP_PROXY", "`mcp-proxy`"));
    let server = Governing::start(&folder.join("door"), None, &upstream).await?;
    let mut cells = Vec::new();
    for kind in Kind::ALL {
        let address = format!("http://{}/mcp/{}/{FEW}", upstream.address, kind.as_str());
        let fastmcp = fastmcp.as_deref().map(|python| start_proxy(python, "with_fastmcp.py", &[&address])).transpose()?;
        let mcp_proxy = match &mcp_proxy {
            Some(python) => Some(Stateful::start(python, kind).await?),
            None => None,
        };
        for callers in CALLERS {
            progress(&format!("{} through the MCP door and through proxies at {callers} callers", kind.as_str()));
            let mut turns = Vec::new();
            for _ in 0..plan.repetitions {
                turns.push(turn(&server, &upstream, fastmcp.as_ref(), mcp_proxy.as_ref(), kind, callers, plan.server).await?);
            }
            cells.push(Cell { kind, callers, turns });
        }
    }
    server.server.stop()?;
    Ok(Measured { cells, notes })
}

/// One window of each way.
async fn turn(
    server: &Governing,
    upstream: &Running,
    fastmcp: Option<&Running>,
    mcp_proxy: Option<&Stateful>,
    kind: Kind,
    callers: usize,
    time: Time,
) -> Result<Turn> {
    let direct = directly(upstream, kind, callers, time).await?;
    let (token, tool) = (server.server.token.clone(), action(kind.as_str()));
    let ours = move |number| tool_call("/mcp", &token, number, &tool, &json!({ "text": "hello" }));
    let ours = windows(server.server.address(), callers, time, &Watched::process(server.server.id()), ours).await?;
    let fastmcp = match fastmcp {
        Some(proxy) => {
            let tool = upstream::tool_name(kind.as_str(), 7);
            let call = move |number| tool_call("/mcp", "none", number, &tool, &json!({ "text": "hello" }));
            Some(windows(proxy.address, callers, time, &Watched::process(proxy.id()), call).await?)
        }
        None => None,
    };
    let mcp_proxy = match mcp_proxy {
        Some(proxy) => Some(proxy.calls(kind, callers, time).await?),
        None => None,
    };
    Ok(Turn { direct, ours, fastmcp, mcp_proxy })
}

async fn windows(
    address: SocketAddr,
    callers: usize,
    time: Time,
    watched: &Watched,
    call: impl Fn(u64) -> Vec<u8> + Send + Sync + 'static,
) -> Result<Window> {
    let mut connection = Connection::open(address).await?;
    let answer = connection.exchange(&call(1)).await?;
    let said = String::from_utf8_lossy(answer.body);
    anyhow::ensure!(answer.status == 200 && said.contains(DONE), "the call that is measured was answered {}: {said}", answer.status);
    let open = HttpCaller::open(callers, address, &Arc::new(AtomicU64::new(2)), Arc::new(call)).await?;
    drive(open, time, watched).await
}

/// A call in the revision without sessions.
pub(crate) fn tool_call(path: &str, token: &str, number: u64, tool: &str, arguments: &Value) -> Vec<u8> {
    let fields = format!("{ACCEPT}mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: {tool}\r\n");
    http::request_with("POST", path, token, &fields, &upstream::call_of(number, tool, arguments))
}

/// Opens a session of the revision before; the header fields of its further requests.
pub(crate) async fn initialized(connection: &mut Connection, path: &str, token: &str) -> Result<String> {
    let mut fields = ACCEPT.to_owned();
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "bench", "version": "1" } });
    let opening = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    let answer = connection.exchange(&http::request_with("POST", path, token, &fields, &opening)).await?;
    let session = answer.header("mcp-session-id").with_context(|| format!("no session: {}", String::from_utf8_lossy(answer.body)))?;
    fields.push_str(&format!("mcp-session-id: {session}\r\n"));
    let opened = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    connection.exchange(&http::request_with("POST", path, token, &fields, &opened)).await?;
    Ok(fields)
}

/// A call in such a session.
pub(crate) fn initialized_call(path: &str, token: &str, fields: &str, number: u64, tool: &str, arguments: &Value) -> Vec<u8> {
    let params = json!({ "name": tool, "arguments": arguments });
    let body = json!({ "jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params });
    http::request_with("POST", path, token, fields, &body)
}

/// `mcp-proxy`, which speaks the revision before, with a session. Its own server is a program.
struct Stateful {
    proxy: Running,
    fields: String,
}

impl Stateful {
    async fn start(python: &Path, kind: Kind) -> Result<Self> {
        let program = std::env::current_exe()?;
        let program = program.to_str().context("the path of this program is not text")?;
        let proxy = start_proxy(python, "with_mcp_proxy.py", &[program, upstream::STDIO_ARGUMENT, kind.as_str()])?;
        let mut connection = Connection::open(proxy.address).await?;
        let fields = initialized(&mut connection, "/mcp", "none").await?;
        Ok(Self { proxy, fields })
    }

    async fn calls(&self, kind: Kind, callers: usize, time: Time) -> Result<Window> {
        let (fields, tool) = (self.fields.clone(), upstream::tool_name(kind.as_str(), 7));
        let call = move |number| initialized_call("/mcp", "none", &fields, number, &tool, &json!({ "text": "hello" }));
        // The time of its own server is not counted, as that of ours is not.
        windows(self.proxy.address, callers, time, &Watched::process(self.proxy.id()), call).await
    }
}
