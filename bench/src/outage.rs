//! How soon servers work again after the database was away, while callers call without a pause; and how soon a caller who waits on one
//! server hears what was answered on another.

use crate::child::{Call, Server};
use crate::http::Connection;
use crate::place::Place;
use crate::progress;
use crate::stats::percentile;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use testkit::proxy::Proxy;
use tokio::sync::mpsc;
use tokio::time::sleep;

const SERVERS: [usize; 2] = [1, 2];
const CALLERS: [usize; 3] = [4, 16, 64];
const AWAY_SECONDS: [u64; 3] = [5, 25, 90];
/// A server that does not work again within this time is waited for no longer.
const PATIENCE: Duration = Duration::from_secs(150);
/// Calls that are answered on one server while a caller waits on the other.
const ANSWERS: usize = 300;
/// The time that the waiting request has to arrive before the call is answered.
const LEAD: Duration = Duration::from_millis(50);
/// The pause before a caller whose connection broke opens another.
const RECONNECT: Duration = Duration::from_millis(20);

/// One outage.
pub(crate) struct Outage {
    pub(crate) servers: usize,
    pub(crate) callers: usize,
    pub(crate) away_seconds: u64,
    /// From the database's return until every server has had a success; `None` if that took longer than `PATIENCE`.
    pub(crate) back: Option<Duration>,
}

/// How long after the answer on the other server a waiting caller is told.
pub(crate) struct Woken {
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
}

pub(crate) async fn measure(place: &Place, folder: &Path) -> Result<(Vec<Outage>, Woken)> {
    let mut outages = Vec::new();
    // Numbers the calls, since each writes a file of its own.
    let calls = Arc::new(AtomicU64::new(0));
    for count in SERVERS {
        let (proxy, servers) = start(place, &folder.join(format!("outage-{count}")), count).await?;
        for callers in CALLERS {
            for away_seconds in AWAY_SECONDS {
                progress(&format!("servers: {count}, callers: {callers}, without the database: {away_seconds} s"));
                let back = come_back(&proxy, &servers, callers, &calls, Duration::from_secs(away_seconds)).await?;
                outages.push(Outage { servers: count, callers, away_seconds, back });
            }
        }
    }
    progress("waiting on one server for what is answered on the other");
    let folder = folder.join("waiting");
    let (_proxy, servers) = start(place, &folder, 2).await?;
    Ok((outages, wake(&servers, &folder.join("0")).await?))
}

/// Starts servers on one fresh database, which they reach through a proxy. Each has a data folder of its own.
async fn start(place: &Place, folder: &Path, count: usize) -> Result<(Proxy, Vec<Arc<Server>>)> {
    let database = place.fresh(folder).await?;
    let (proxy, url) = Proxy::before(database.url.as_deref().context("SQLite is never away")?).await;
    Ok((proxy, start_servers(&url, folder, count, &[]).await?))
}

/// Starts servers on one database, with more settings. Each has a data folder of its own.
pub(crate) async fn start_servers(url: &str, folder: &Path, count: usize, settings: &[(&str, &str)]) -> Result<Vec<Arc<Server>>> {
    let mut servers = Vec::with_capacity(count);
    for number in 0..count {
        let data = folder.join(number.to_string());
        std::fs::create_dir_all(&data)?;
        if number > 0 {
            for name in ["master.key", "owner.token"] {
                std::fs::copy(folder.join("0").join(name), data.join(name))?;
            }
        }
        servers.push(Arc::new(Server::start_with(&data, Some(url), settings).await?));
    }
    Ok(servers)
}

async fn come_back(
    proxy: &Proxy,
    servers: &[Arc<Server>],
    callers: usize,
    calls: &Arc<AtomicU64>,
    away: Duration,
) -> Result<Option<Duration>> {
    let (succeeded, mut successes) = mpsc::unbounded_channel();
    let is_over = Arc::new(AtomicBool::new(false));
    let numbered = servers.iter().enumerate().cycle().take(callers);
    let calling: Vec<_> = numbered
        .map(|(number, server)| {
            let caller = Caller { server: Arc::clone(server), number, calls: Arc::clone(calls), succeeded: succeeded.clone() };
            let is_over = Arc::clone(&is_over);
            tokio::spawn(async move {
                while !is_over.load(Ordering::Relaxed) {
                    // The server may close a connection. The caller then opens another one.
                    let _broken = caller.call_until(&is_over).await;
                    sleep(RECONNECT).await;
                }
            })
        })
        .collect();
    all_succeed(servers.len(), &mut successes, Instant::now()).await.context("the servers do not work before the outage")?;
    proxy.cut();
    sleep(away).await;
    proxy.mend();
    let back = all_succeed(servers.len(), &mut successes, Instant::now()).await;
    is_over.store(true, Ordering::Relaxed);
    for caller in calling {
        caller.await?;
    }
    Ok(back)
}

/// The number of a server, and when it answered with a success.
type Success = (usize, Instant);

struct Caller {
    server: Arc<Server>,
    number: usize,
    calls: Arc<AtomicU64>,
    succeeded: mpsc::UnboundedSender<Success>,
}

impl Caller {
    /// Calls without a pause, whatever the answer is, and reports each success.
    async fn call_until(&self, is_over: &AtomicBool) -> Result<()> {
        let mut connection = Connection::open(self.server.address()).await?;
        while !is_over.load(Ordering::Relaxed) {
            let request = self.server.request(Call::Write, self.calls.fetch_add(1, Ordering::Relaxed));
            if connection.exchange(&request).await?.status == 200 {
                self.succeeded.send((self.number, Instant::now()))?;
            }
        }
        Ok(())
    }
}

/// The time from `since` until every server has had a success after it.
async fn all_succeed(servers: usize, successes: &mut mpsc::UnboundedReceiver<Success>, since: Instant) -> Option<Duration> {
    let mut waiting: Vec<usize> = (0..servers).collect();
    let mut took = Duration::ZERO;
    while !waiting.is_empty() {
        let left = PATIENCE.checked_sub(since.elapsed())?;
        let (number, at) = tokio::time::timeout(left, successes.recv()).await.ok()??;
        if at >= since && waiting.contains(&number) {
            waiting.retain(|waiting| *waiting != number);
            took = took.max(at - since);
        }
    }
    Some(took)
}

async fn wake(servers: &[Arc<Server>], data: &Path) -> Result<Woken> {
    let [here, there] = servers else { anyhow::bail!("this takes two servers") };
    let owner = std::fs::read_to_string(data.join("owner.token")).context("the owner's token")?;
    let owner = owner.trim();
    let (mut answering, mut waiting) = (Connection::open(here.address()).await?, Connection::open(there.address()).await?);
    answering.ask("PUT", "/api/v1/modes/files.write_text", owner, &json!({ "mode": "require_approval" })).await?;
    let mut delays = Vec::with_capacity(ANSWERS);
    for number in 0..ANSWERS {
        let path = format!("/api/v1/sessions/{}/actions/invoke", here.session);
        let pending = answering.ask("POST", &path, &here.token, &Call::Write.body(number as u64)).await?;
        let id = pending.pointer("/invocation/id").and_then(Value::as_str).context("the call has no id")?;
        let (answer_path, wait_path) = (format!("/api/v1/invocations/{id}/deny"), format!("/api/v1/invocations/{id}?wait=30s"));
        let answered = async {
            sleep(LEAD).await;
            answering.ask("POST", &answer_path, owner, &json!({})).await?;
            anyhow::Ok(Instant::now())
        };
        let told = async {
            let told = waiting.ask("GET", &wait_path, owner, &Value::Null).await?;
            let status = told.pointer("/invocation/status").and_then(Value::as_str);
            anyhow::ensure!(status == Some("denied"), "the waiting caller was told {told}");
            anyhow::Ok(Instant::now())
        };
        let (answered, told) = tokio::try_join!(answered, told)?;
        delays.push(told.saturating_duration_since(answered));
    }
    delays.sort_unstable();
    let at = |share| percentile(&delays, share).context("nothing was measured");
    Ok(Woken { p50: at(0.50)?, p99: at(0.99)? })
}
