//! Runs that wait for an approval, while one of two servers after the other is killed with SIGKILL and started again: how soon a run has ended
//! after its answer. Both times are those of the database, so nobody's asking is in them.

use crate::child::{Running, start_server};
use crate::http::Connection;
use crate::place::Place;
use crate::stats::percentile;
use crate::storm::{Seen, serve_upstream};
use anyhow::{Context, Result};
use countersign_core::Timestamp;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use tokio::time::sleep;

pub(crate) const RUNS: usize = 600;
const FIRED_EVERY: Duration = Duration::from_millis(150);
/// One of the servers is killed after so many seconds, the other after the next; then it begins again.
const KILLED_AFTER_SECONDS: [u64; 6] = [5, 3, 8, 4, 7, 6];
/// What has not ended by then is stuck.
const PATIENCE: Duration = Duration::from_secs(300);
const LOOK_EVERY: Duration = Duration::from_millis(20);
const PAGE: usize = 100;

#[derive(Default)]
pub(crate) struct Answered {
    pub(crate) kills: usize,
    pub(crate) lost: usize,
    pub(crate) stuck: usize,
    pub(crate) failed: usize,
    /// Effects that never happened, of runs that say that they did.
    pub(crate) missing: usize,
    /// From the answer to the end of the run, by length.
    pub(crate) took: Vec<Duration>,
}

impl Answered {
    pub(crate) fn took(&self, share: f64) -> Option<Duration> {
        percentile(&self.took, share)
    }

    /// What no kill may ever cause.
    pub(crate) const fn wrong(&self) -> usize {
        self.lost + self.stuck + self.failed + self.missing
    }
}

/// A server with its data folder, which the next one in its place takes over.
struct Member {
    data: PathBuf,
    running: Option<Running>,
    starting: Option<JoinHandle<Result<Running>>>,
    connection: Option<Connection>,
}

impl Member {
    /// Whether it answers by now.
    async fn is_up(&mut self) -> bool {
        if let Some(starting) = self.starting.take_if(|starting| starting.is_finished()) {
            self.running = starting.await.ok().and_then(Result::ok);
        }
        if let (Some(running), None) = (&self.running, &self.connection) {
            self.connection = Connection::open(running.address).await.ok();
        }
        self.connection.is_some()
    }
}

struct Pair {
    servers: [Member; 2],
    /// Which of them is asked first.
    turn: usize,
    owner: String,
    url: String,
    settings: Vec<(String, String)>,
    automation: String,
    seen: Seen,
}

pub(crate) async fn measure(place: &Place, folder: &Path) -> Result<Answered> {
    let mut pair = Pair::start(place, folder).await?;
    let (mut answered, mut fired, mut asked) = (Answered::default(), Vec::with_capacity(RUNS), HashSet::new());
    let began = Instant::now();
    let (mut fire_at, mut kill_at) = (began, began + killed_after(0));
    while began.elapsed() < PATIENCE {
        if Instant::now() >= kill_at {
            pair.kill(answered.kills % 2);
            answered.kills += 1;
            kill_at = Instant::now() + killed_after(answered.kills);
        }
        if fired.len() < RUNS && Instant::now() >= fire_at {
            fire_at = Instant::now() + FIRED_EVERY;
            // Whether it was fired is not known if its server was killed meanwhile. Then it is not counted, and answered like the others.
            if let Some(started) = pair.ask("POST", &format!("automations/{}/run", pair.automation), &json!({ "inputs": {} })).await {
                fired.push(started["run_id"].as_str().with_context(|| format!("no run was started: {started}"))?.to_owned());
            }
        }
        let Some(waiting) = pair.list("waiting").await else { continue };
        if waiting.is_empty() && fired.len() == RUNS && pair.has_ended().await {
            break;
        }
        for run in waiting {
            let Some(call) = run["invocation_id"].as_str().filter(|call| run["waiting_for"] == "approval" && !asked.contains(*call)) else {
                continue;
            };
            // What was not heard of is answered again: a call is approved once.
            if pair.ask("POST", &format!("invocations/{call}/approve"), &json!({})).await.is_some() {
                asked.insert(call.to_owned());
            }
        }
        sleep(LOOK_EVERY).await;
    }
    pair.judge(&fired, &mut answered).await?;
    Ok(answered)
}

fn killed_after(kills: usize) -> Duration {
    Duration::from_secs(KILLED_AFTER_SECONDS.iter().cycle().nth(kills).copied().unwrap_or(5))
}

impl Pair {
    async fn start(place: &Place, folder: &Path) -> Result<Self> {
        let seen = Seen::default();
        let upstream = serve_upstream(seen.clone()).await?;
        let folders = ["one", "other"].map(|name| folder.join(name));
        for folder in &folders {
            std::fs::create_dir_all(folder)?;
        }
        let [one, other] = folders;
        let url = place.fresh(&one).await?.url.context("two servers need PostgreSQL")?;
        let settings = [("COUNTERSIGN_HTTP_ALLOWED_HOSTS", upstream.as_str()), ("COUNTERSIGN_HTTP_ALLOWED_NETWORKS", "127.0.0.0/8")];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let first = launch(one.clone(), &url, &settings).await??;
        for name in ["master.key", "owner.token"] {
            std::fs::copy(one.join(name), other.join(name))?;
        }
        let second = launch(other.clone(), &url, &settings).await??;
        let owner = std::fs::read_to_string(one.join("owner.token")).context("the owner's token")?.trim().to_owned();
        let up = |data, running| Member { data, running: Some(running), starting: None, connection: None };
        let servers = [up(one, first), up(other, second)];
        let mut pair = Self { servers, turn: 0, owner, url, settings, automation: String::new(), seen };
        let saved = pair.ask("POST", "automations", &json!({ "definition": definition(&upstream) })).await.context("it was not saved")?;
        pair.automation = saved.pointer("/automation/id").and_then(Value::as_str).context("the automation has no id")?.to_owned();
        Ok(pair)
    }

    /// Kills one of them, and starts it again at once. One that is still starting is left alone.
    fn kill(&mut self, at: usize) {
        let Some(server) = self.servers.get_mut(at).filter(|server| server.starting.is_none()) else { return };
        // SIGKILL, by its id.
        drop(server.running.take());
        server.connection = None;
        server.starting = Some(launch(server.data.clone(), &self.url, &self.settings));
    }

    /// Asks a server that is up. `None` if it was killed meanwhile, or refused.
    async fn ask(&mut self, method: &str, path: &str, body: &Value) -> Option<Value> {
        for _ in 0..2 {
            self.turn = (self.turn + 1) % 2;
            let Some(server) = self.servers.get_mut(self.turn) else { continue };
            if !server.is_up().await {
                continue;
            }
            let Some(connection) = &mut server.connection else { continue };
            let answer = connection.ask(method, &format!("/api/v1/{path}"), &self.owner, body).await;
            if answer.is_err() {
                server.connection = None;
            }
            return answer.ok();
        }
        sleep(LOOK_EVERY).await;
        None
    }

    /// Asks until a server answers.
    async fn read(&mut self, path: &str) -> Result<Value> {
        let began = Instant::now();
        loop {
            if let Some(answer) = self.ask("GET", path, &Value::Null).await {
                return Ok(answer);
            }
            anyhow::ensure!(began.elapsed() < PATIENCE, "`{path}` was never answered");
        }
    }

    async fn list(&mut self, status: &str) -> Option<Vec<Value>> {
        let path = format!("runs?automation={}&status={status}&limit={PAGE}", self.automation);
        self.ask("GET", &path, &Value::Null).await?["items"].as_array().cloned()
    }

    async fn has_ended(&mut self) -> bool {
        for status in ["pending", "running", "waiting"] {
            if self.list(status).await.is_none_or(|runs| !runs.is_empty()) {
                return false;
            }
        }
        true
    }

    async fn judge(&mut self, fired: &[String], answered: &mut Answered) -> Result<()> {
        for id in fired {
            let run = self.read(&format!("runs/{id}")).await?;
            match run["status"].as_str() {
                Some("succeeded") => {}
                Some("pending" | "running" | "waiting") => {
                    answered.stuck += 1;
                    continue;
                }
                None => {
                    answered.lost += 1;
                    continue;
                }
                Some(_) => {
                    answered.failed += 1;
                    continue;
                }
            }
            answered.missing += usize::from(self.seen.find(1, id).is_none());
            let call = run.pointer("/steps/0/invocation_id").and_then(Value::as_str).context("the step has no call")?.to_owned();
            let call = self.read(&format!("invocations/{call}")).await?;
            let time = |value: Option<&Value>| value.and_then(Value::as_str).and_then(Timestamp::parse);
            let (from, to) = (time(call.pointer("/invocation/answer/at")), time(run.get("ended_at")));
            let (from, to) = from.zip(to).context("an answered run says when it was answered and when it ended")?;
            answered.took.push(Duration::from_millis(to.millis_since(from)));
        }
        answered.took.sort_unstable();
        Ok(())
    }
}

fn launch(data: PathBuf, url: &str, settings: &[(String, String)]) -> JoinHandle<Result<Running>> {
    let (url, settings) = (url.to_owned(), settings.to_vec());
    // The upstream that it may call at once runs on this thread.
    tokio::task::spawn_blocking(move || start_server(&data, &url, &settings))
}

fn definition(upstream: &str) -> Value {
    let headers = json!({ "Idempotency-Key": "{{ run.id }}-1" });
    let config = json!({ "method": "POST", "url": upstream, "headers": headers, "body": "s1 {{ run.id }}" });
    let asks = json!({ "step_id": "s1", "action": "http.request", "config": config });
    let after = json!({ "step_id": "s2", "action": "builtin.transform_data", "config": { "value": { "ended": true } } });
    let execution = json!({ "concurrency": "allow_parallel", "queue": "fast" });
    json!({ "schema_version": "1.0", "name": "Answered", "plan": [asks, after], "execution": execution })
}
