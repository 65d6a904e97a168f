//! The MCP door: what a governed `tools/call` costs, beside the call sent directly and beside the proxies of others; how soon held calls are
//! released, on the same server and on another; and the memory of many held calls and of many readers of the live stream.

use crate::child::{Running, start_proxy, start_upstream};
use crate::cpu::{self, Watched};
use crate::http::{self, Connection, HttpCaller};
use crate::load::{Time, drive};
use crate::mcp::{FEW, Governing, Kind, action, directly};
use crate::measure::Plan;
use crate::place::Place;
use crate::stats::{Spread, Window, percentile};
use crate::{outage, progress, upstream};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::sleep;

const CALLERS: [usize; 2] = [1, 8];
/// Held calls, and how many of them a session may have.
const HELD: usize = 1_000;
const HELD_PER_SESSION: usize = 10;
const READERS: usize = 5_000;
/// Calls that are decided on one server while a caller is held on the other.
const ANSWERS: usize = 300;
/// The files that this process may have open: one for each held call or reader, and some more.
const FILES: u64 = 8_192;
/// The page of a list.
const PAGE: usize = 100;
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Everything measured about the door.
pub(crate) struct Measured {
    pub(crate) cells: Vec<Cell>,
    pub(crate) held: Held,
    pub(crate) readers_mb: f64,
    /// Decided on one server, held on the other. `None` without PostgreSQL.
    pub(crate) across: Option<Delays>,
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

/// Many held calls, released one by one.
pub(crate) struct Held {
    pub(crate) delays: Delays,
    pub(crate) peak_mb: f64,
}

/// The time from the answer of a person until the caller has its own.
pub(crate) struct Delays {
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
}

impl Delays {
    fn of(mut delays: Vec<Duration>) -> Result<Self> {
        delays.sort_unstable();
        let at = |share| percentile(&delays, share).context("nothing was measured");
        Ok(Self { p50: at(0.50)?, p99: at(0.99)? })
    }
}

impl Cell {
    pub(crate) fn spread(&self, figure: impl Fn(&Turn) -> Option<f64>) -> Spread {
        Spread::of(self.turns.iter().filter_map(figure))
    }
}

pub(crate) async fn measure(postgres: Option<&Place>, folder: &Path, plan: Plan) -> Result<Measured> {
    allow_files()?;
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
    let held = held(folder, &upstream).await?;
    let readers_mb = readers(folder, &upstream).await?;
    let across = match postgres {
        Some(place) => Some(across(place, folder).await?),
        None => {
            notes.push("Two servers were skipped: `TEST_POSTGRES_URL` is not set.".to_owned());
            None
        }
    };
    Ok(Measured { cells, held, readers_mb, across, notes })
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
fn tool_call(path: &str, token: &str, number: u64, tool: &str, arguments: &Value) -> Vec<u8> {
    let fields = format!(
        "accept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: {tool}\r\n"
    );
    http::request_with("POST", path, token, &fields, &upstream::call_of(number, tool, arguments))
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
        let mut fields = "accept: application/json, text/event-stream\r\n".to_owned();
        let mut connection = Connection::open(proxy.address).await?;
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "bench", "version": "1" } });
        let opening = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let answer = connection.exchange(&http::request_with("POST", "/mcp", "none", &fields, &opening)).await?;
        let session = answer.header("mcp-session-id").context("`mcp-proxy` gives no session")?;
        fields.push_str(&format!("mcp-session-id: {session}\r\n"));
        let opened = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        connection.exchange(&http::request_with("POST", "/mcp", "none", &fields, &opened)).await?;
        Ok(Self { proxy, fields })
    }

    async fn calls(&self, kind: Kind, callers: usize, time: Time) -> Result<Window> {
        let (fields, tool) = (self.fields.clone(), upstream::tool_name(kind.as_str(), 7));
        let call = move |number: u64| {
            let params = json!({ "name": tool, "arguments": { "text": "hello" } });
            let body = json!({ "jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params });
            http::request_with("POST", "/mcp", "none", &fields, &body)
        };
        // The time of its own server is not counted, as that of ours is not.
        windows(self.proxy.address, callers, time, &Watched::process(self.proxy.id()), call).await
    }
}

/// Holds many calls at once, then approves one after the other.
async fn held(folder: &Path, upstream: &Running) -> Result<Held> {
    progress(&format!("{HELD} held calls"));
    let server = Governing::start(&folder.join("door-held"), None, upstream).await?;
    server.ask("PUT", "modes/files.write_text", &json!({ "mode": "require_approval" })).await?;
    let address = server.server.address();
    let mut waiting = BTreeMap::new();
    for session in 0..HELD / HELD_PER_SESSION {
        let created = server.ask("POST", "sessions", &json!({ "title": format!("held {session}") })).await?;
        let token = text(&created, "/token")?.to_owned();
        for number in 0..HELD_PER_SESSION {
            let path = format!("held/{session}-{number}.txt");
            waiting.insert(path.clone(), tokio::spawn(hold(address, token.clone(), path)));
        }
    }
    let ids = pending(&server, HELD).await?;
    let mut answering = Connection::open(address).await?;
    let mut delays = Vec::with_capacity(HELD);
    for (path, caller) in waiting {
        let id = ids.get(&path).with_context(|| format!("no call of `{path}` is pending"))?;
        let decided = Instant::now();
        answering.ask("POST", &format!("/api/v1/invocations/{id}/approve"), &server.owner, &json!({})).await?;
        delays.push(caller.await??.saturating_duration_since(decided));
    }
    let peak_mb = cpu::peak_mb(server.server.id())?;
    server.server.stop()?;
    Ok(Held { delays: Delays::of(delays)?, peak_mb })
}

/// Makes a call that is held; when it was answered.
async fn hold(address: SocketAddr, token: String, path: String) -> Result<Instant> {
    let mut connection = Connection::open(address).await?;
    let call = tool_call("/mcp?hold=600", &token, 1, "files.write_text", &json!({ "path": path, "text": "held" }));
    let answer = connection.exchange(&call).await?;
    let told = Instant::now();
    anyhow::ensure!(answer.status == 200, "a held call was answered {}", answer.status);
    Ok(told)
}

/// Waits until so many calls are pending; their ids, by the path that they write.
async fn pending(server: &Governing, count: usize) -> Result<BTreeMap<String, String>> {
    loop {
        let (mut found, mut after) = (BTreeMap::new(), String::new());
        loop {
            let page = server.ask("GET", &format!("invocations?status=pending&limit={PAGE}{after}"), &Value::Null).await?;
            for item in page["items"].as_array().into_iter().flatten() {
                found.insert(text(item, "/params/path")?.to_owned(), text(item, "/id")?.to_owned());
            }
            match page["next"].as_str() {
                Some(next) => after = format!("&after={next}"),
                None => break,
            }
        }
        if found.len() >= count {
            return Ok(found);
        }
        sleep(LOOK_EVERY).await;
    }
}

/// The memory of the server while many read its live stream and nothing happens.
async fn readers(folder: &Path, upstream: &Running) -> Result<f64> {
    progress(&format!("{READERS} readers of the live stream"));
    let server = Governing::start(&folder.join("door-readers"), None, upstream).await?;
    let request = http::request_with("GET", "/api/v1/stream", &server.owner, "accept: text/event-stream\r\n", &Value::Null);
    let mut open = Vec::with_capacity(READERS);
    for _ in 0..READERS {
        let mut stream = TcpStream::connect(server.server.address()).await?;
        stream.write_all(&request).await?;
        let mut received = Vec::new();
        while !received.windows(OPENED.len()).any(|bytes| bytes == OPENED) {
            anyhow::ensure!(stream.read_buf(&mut received).await? > 0, "a reader was refused: {}", String::from_utf8_lossy(&received));
        }
        open.push(stream);
    }
    // What opening them took is given back.
    sleep(Duration::from_secs(2)).await;
    let resident = cpu::resident_mb(server.server.id())?;
    drop(open);
    server.server.stop()?;
    Ok(resident)
}

/// What the tool answers.
const DONE: &str = "\"text\":\"done\"";
/// The first event of a live stream.
const OPENED: &[u8] = b"stream.opened";

/// Holds calls on one server and denies them on the other.
async fn across(place: &Place, folder: &Path) -> Result<Delays> {
    progress("held on one server, decided on the other");
    let folder = folder.join("door-across");
    let (_proxy, servers) = outage::start(place, &folder, 2).await?;
    let [here, there] = servers.as_slice() else { anyhow::bail!("this takes two servers") };
    let owner = std::fs::read_to_string(folder.join("0/owner.token")).context("the owner's token")?;
    let owner = owner.trim();
    let mut answering = Connection::open(here.address()).await?;
    answering.ask("PUT", "/api/v1/modes/files.write_text", owner, &json!({ "mode": "require_approval" })).await?;
    let mut delays = Vec::with_capacity(ANSWERS);
    for number in 0..ANSWERS {
        let caller = tokio::spawn(hold(there.address(), there.token.clone(), format!("across/{number}.txt")));
        let id = loop {
            let listed = answering.ask("GET", "/api/v1/invocations?status=pending&limit=1", owner, &Value::Null).await?;
            if let Some(id) = listed.pointer("/items/0/id").and_then(Value::as_str) {
                break id.to_owned();
            }
            sleep(LOOK_EVERY).await;
        };
        // The caller is held a moment later than its call is pending.
        sleep(LOOK_EVERY).await;
        answering.ask("POST", &format!("/api/v1/invocations/{id}/deny"), owner, &json!({})).await?;
        let decided = Instant::now();
        delays.push(caller.await??.saturating_duration_since(decided));
    }
    Delays::of(delays)
}

fn text<'v>(value: &'v Value, pointer: &str) -> Result<&'v str> {
    value.pointer(pointer).and_then(Value::as_str).with_context(|| format!("there is no `{pointer}` in {value}"))
}

/// Lets this process have a connection for each held call and each reader.
fn allow_files() -> Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= FILES) {
        return Ok(());
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(FILES), maximum: limit.maximum }).context("this process may not open enough files")
}
