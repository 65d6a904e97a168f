//! Calls that wait for a person at the MCP door: how soon each is released once it is decided, on the same server and on another, and the
//! memory of many of them and of many idle readers of the live stream.

use crate::child::Server;
use crate::cpu;
use crate::door::{initialized, initialized_call, tool_call};
use crate::http::{self, Connection};
use crate::place::Place;
use crate::stats::percentile;
use crate::{outage, progress};
use anyhow::{Context, Result};
use pipeline::limits::PENDING_PER_SESSION_MAX;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// Calls that are held at once.
pub(crate) const HELD: usize = 1_000;
/// As many calls of one session as may wait.
const PER_SESSION: usize = PENDING_PER_SESSION_MAX as usize;
/// Calls that are decided at the same moment, where they are not decided one by one.
pub(crate) const BURST: usize = 10;
/// Calls that are held on one server and decided on the other.
pub(crate) const ACROSS: usize = 200;
pub(crate) const READERS: usize = 5_000;
/// The files that this process may have open: one for each held call or reader, and some more.
const FILES: u64 = 8_192;
/// The page of a list.
const PAGE: usize = 100;
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// What opening connections took is given back by then.
const SETTLED: Duration = Duration::from_secs(2);
/// Where a call is sent. Its caller waits for long enough that nobody is given a reference.
const DOOR: &str = "/mcp?hold=600";
/// The first event of a live stream.
const OPENED: &[u8] = b"stream.opened";

/// Everything measured about waiting.
pub(crate) struct Measured {
    pub(crate) one_by_one: Released,
    pub(crate) in_bursts: Released,
    /// Decided on one server, held on the other. `None` without PostgreSQL.
    pub(crate) across: Option<Released>,
    pub(crate) held: Memory,
    pub(crate) readers: Memory,
    pub(crate) notes: Vec<String>,
}

/// The time until callers had their answers.
pub(crate) struct Released {
    /// Since the decision was sent: deciding and running the call included.
    pub(crate) sent: Delays,
    /// Since whoever decided had the answer to that.
    pub(crate) answered: Delays,
}

pub(crate) struct Delays {
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
    pub(crate) longest: Duration,
}

/// Memory of the server, in megabytes.
pub(crate) struct Memory {
    pub(crate) before: f64,
    pub(crate) then: f64,
}

pub(crate) async fn measure(postgres: Option<&Place>, folder: &Path) -> Result<Measured> {
    allow_files()?;
    let (one_by_one, in_bursts, held) = held(&folder.join("held")).await?;
    let readers = readers(&folder.join("held-readers")).await?;
    let mut notes = Vec::new();
    let across = match postgres {
        Some(place) => Some(across(place, &folder.join("held-across"), &mut notes).await?),
        None => {
            notes.push("Two servers were skipped: `TEST_POSTGRES_URL` is not set.".to_owned());
            None
        }
    };
    Ok(Measured { one_by_one, in_bursts, across, held, readers, notes })
}

/// Holds many calls at once. One half is approved one by one, the other in bursts.
async fn held(data: &Path) -> Result<(Released, Released, Memory)> {
    progress(&format!("{HELD} held calls"));
    let server = Server::start(data, None).await?;
    let owner = owner_of(data)?;
    let before = cpu::resident_mb(server.id())?;
    let mut waiting = hold_many(server.address(), &owner, HELD).await?;
    let mut rest = waiting.split_off(HELD / 2);
    let mut answering = Connection::open(server.address()).await?;
    let mut delays = Vec::new();
    for waiting in waiting {
        delays.push(release(&mut answering, &owner, Decision::Approve, waiting).await?);
    }
    let one_by_one = Released::of(&delays)?;
    delays.clear();
    let mut answering = Vec::new();
    for _ in 0..BURST {
        answering.push(Connection::open(server.address()).await?);
    }
    while !rest.is_empty() {
        let burst = answering.iter_mut().zip(rest.split_off(rest.len().saturating_sub(BURST)));
        let released = burst.map(|(answering, waiting)| release(answering, &owner, Decision::Approve, waiting));
        delays.extend(futures_util::future::try_join_all(released).await?);
    }
    let held = Memory { before, then: cpu::peak_mb(server.id())? };
    server.stop()?;
    Ok((one_by_one, Released::of(&delays)?, held))
}

/// Holds calls on one server and decides them on the other: every second one is denied.
async fn across(place: &Place, folder: &Path, notes: &mut Vec<String>) -> Result<Released> {
    progress(&format!("{ACROSS} calls held on one server, decided on the other"));
    let database = place.fresh(folder).await?;
    let url = database.url.as_deref().context("two servers share no file")?;
    let redis = std::env::var("TEST_REDIS_URL").ok();
    if redis.is_none() {
        notes.push("The two servers had no Redis: `TEST_REDIS_URL` is not set.".to_owned());
    }
    let settings: Vec<_> = redis.as_deref().map(|url| ("COUNTERSIGN_REDIS", url)).into_iter().collect();
    let servers = outage::start_servers(url, folder, 2, &settings).await?;
    let [here, there] = servers.as_slice() else { anyhow::bail!("this takes two servers") };
    let owner = owner_of(&folder.join("0"))?;
    let waiting = hold_many(there.address(), &owner, ACROSS).await?;
    let mut answering = Connection::open(here.address()).await?;
    let mut delays = Vec::new();
    for (waiting, decision) in waiting.into_iter().zip([Decision::Approve, Decision::Deny].into_iter().cycle()) {
        delays.push(release(&mut answering, &owner, decision, waiting).await?);
    }
    Released::of(&delays)
}

/// The memory of the server while many read its live stream and nothing happens.
async fn readers(data: &Path) -> Result<Memory> {
    progress(&format!("{READERS} readers of the live stream"));
    let server = Server::start(data, None).await?;
    let before = cpu::resident_mb(server.id())?;
    let request = http::request_with("GET", "/api/v1/stream", &owner_of(data)?, "accept: text/event-stream\r\n", &Value::Null);
    let mut open = Vec::with_capacity(READERS);
    for _ in 0..READERS {
        let mut stream = TcpStream::connect(server.address()).await?;
        stream.write_all(&request).await?;
        let mut received = Vec::new();
        while !received.windows(OPENED.len()).any(|bytes| bytes == OPENED) {
            anyhow::ensure!(stream.read_buf(&mut received).await? > 0, "a reader was refused: {}", String::from_utf8_lossy(&received));
        }
        open.push(stream);
    }
    sleep(SETTLED).await;
    let then = cpu::resident_mb(server.id())?;
    drop(open);
    server.stop()?;
    Ok(Memory { before, then })
}

/// A call that is held, with its caller.
struct Waiting {
    invocation: String,
    caller: Caller,
}

/// When a caller had its answer, and what it was.
type Caller = JoinHandle<Result<(Instant, String)>>;

#[derive(Clone, Copy)]
enum Decision {
    Approve,
    Deny,
}

impl Decision {
    const fn verb(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Deny => "deny",
        }
    }

    /// What is in the answer of a call that was decided in this way.
    const fn outcome(self) -> &'static str {
        match self {
            Self::Approve => "\"countersign/status\":\"succeeded\"",
            Self::Deny => "\"countersign/status\":\"denied\"",
        }
    }
}

/// How long one caller waited.
struct Delay {
    sent: Duration,
    answered: Duration,
}

/// Decides a held call, and waits until its caller has the answer.
async fn release(answering: &mut Connection, owner: &str, decision: Decision, waiting: Waiting) -> Result<Delay> {
    let path = format!("/api/v1/invocations/{}/{}", waiting.invocation, decision.verb());
    let sent = Instant::now();
    answering.ask("POST", &path, owner, &json!({})).await?;
    let answered = Instant::now();
    let (told, said) = waiting.caller.await??;
    anyhow::ensure!(said.contains(decision.outcome()), "a caller whose call was decided with `{}` was told {said}", decision.verb());
    Ok(Delay { sent: told.saturating_duration_since(sent), answered: told.saturating_duration_since(answered) })
}

/// Makes so many calls, each on a stream of its own, and waits until all of them are held. Every second one is of the revision with
/// sessions, on an MCP session of its own.
async fn hold_many(address: SocketAddr, owner: &str, count: usize) -> Result<Vec<Waiting>> {
    let mut asking = Connection::open(address).await?;
    asking.ask("PUT", "/api/v1/modes/files.write_text", owner, &json!({ "mode": "require_approval" })).await?;
    let (mut callers, mut token) = (BTreeMap::new(), String::new());
    for number in 0..count {
        if number % PER_SESSION == 0 {
            let created = asking.ask("POST", "/api/v1/sessions", owner, &json!({ "title": format!("held from {number} on") })).await?;
            text(&created, "/token")?.clone_into(&mut token);
        }
        let path = format!("held/{number}.txt");
        callers.insert(path.clone(), tokio::spawn(hold(address, token.clone(), path, number % 2 == 1)));
    }
    let mut ids = pending(&mut asking, owner, &callers).await?;
    let waiting = |(path, caller): (String, Caller)| {
        let invocation = ids.remove(&path).with_context(|| format!("no call of `{path}` is pending"))?;
        anyhow::Ok(Waiting { invocation, caller })
    };
    callers.into_iter().map(waiting).collect()
}

/// Makes a call that is held; when it was answered, and with what.
async fn hold(address: SocketAddr, token: String, path: String, has_session: bool) -> Result<(Instant, String)> {
    let mut connection = Connection::open(address).await?;
    let (tool, arguments) = ("files.write_text", json!({ "path": path, "text": "held" }));
    let call = if has_session {
        let fields = initialized(&mut connection, DOOR, &token).await?;
        initialized_call(DOOR, &token, &fields, 1, tool, &arguments)
    } else {
        tool_call(DOOR, &token, 1, tool, &arguments)
    };
    let answer = connection.exchange(&call).await?;
    let told = Instant::now();
    let said = String::from_utf8_lossy(answer.body).into_owned();
    anyhow::ensure!(answer.status == 200, "a held call was answered {}: {said}", answer.status);
    Ok((told, said))
}

/// Waits until the calls of all callers are pending; their ids, by the path that each writes.
async fn pending(asking: &mut Connection, owner: &str, callers: &BTreeMap<String, Caller>) -> Result<BTreeMap<String, String>> {
    loop {
        let (mut found, mut after) = (BTreeMap::new(), String::new());
        loop {
            let list = format!("/api/v1/invocations?status=pending&limit={PAGE}{after}");
            let page = asking.ask("GET", &list, owner, &Value::Null).await?;
            for item in page["items"].as_array().into_iter().flatten() {
                found.insert(text(item, "/params/path")?.to_owned(), text(item, "/id")?.to_owned());
            }
            match page["next"].as_str() {
                Some(next) => after = format!("&after={next}"),
                None => break,
            }
        }
        if found.len() >= callers.len() {
            // The last of them is held a moment later than its call is pending.
            sleep(LOOK_EVERY).await;
            return Ok(found);
        }
        let answered = callers.values().filter(|caller| caller.is_finished()).count();
        anyhow::ensure!(answered == 0, "{answered} calls were answered instead of held");
        sleep(LOOK_EVERY).await;
    }
}

impl Released {
    fn of(delays: &[Delay]) -> Result<Self> {
        let sent = Delays::of(delays.iter().map(|delay| delay.sent).collect())?;
        Ok(Self { sent, answered: Delays::of(delays.iter().map(|delay| delay.answered).collect())? })
    }
}

impl Delays {
    fn of(mut delays: Vec<Duration>) -> Result<Self> {
        delays.sort_unstable();
        let at = |share| percentile(&delays, share).context("nothing was measured");
        Ok(Self { p50: at(0.50)?, p99: at(0.99)?, longest: at(1.0)? })
    }
}

fn owner_of(data: &Path) -> Result<String> {
    Ok(std::fs::read_to_string(data.join("owner.token")).context("the owner's token")?.trim().to_owned())
}

fn text<'v>(value: &'v Value, pointer: &str) -> Result<&'v str> {
    value.pointer(pointer).and_then(Value::as_str).with_context(|| format!("there is no `{pointer}` in {value}"))
}

/// Lets this process have a connection for each held call and each reader. The server raises its own limit.
fn allow_files() -> Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= FILES) {
        return Ok(());
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(FILES), maximum: limit.maximum }).context("this process may not open enough files")
}
