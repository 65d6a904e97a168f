//! The storm: many runs of an automation on PostgreSQL, while one worker after the other is killed with SIGKILL and replaced; then fewer runs,
//! while one is killed and not replaced. It counts what is lost, stuck, missing or done twice, and measures how soon a run goes on whose worker
//! was killed. Effects are counted outside, by the HTTP server that the steps call.

use crate::child::{Running, Server, start_worker};
use crate::http::Connection;
use crate::place::Place;
use crate::progress;
use crate::stats::percentile;
use anyhow::{Context, Result};
use axum::Router;
use axum::extract::State;
use axum::routing::post;
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::time::sleep;

pub(crate) const RUNS: usize = 2_000;
pub(crate) const STEPS: usize = 5;
/// Runs of which some lose their worker for good.
pub(crate) const ORPHANED: usize = 300;
const WORKERS: usize = 3;
const KILL_EVERY: Duration = Duration::from_secs(2);
/// What has not ended by then is stuck.
const PATIENCE: Duration = Duration::from_secs(300);
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How long a request takes at the upstream, so that kills hit requests that are under way.
const ANSWERED_AFTER: Duration = Duration::from_millis(20);
/// The page of a list.
const PAGE: usize = 100;

/// What the storm did.
#[derive(Default)]
pub(crate) struct Storm {
    pub(crate) took: Duration,
    pub(crate) kills: usize,
    /// Runs whose worker was killed at least once.
    pub(crate) hit: usize,
    /// Runs that were acknowledged and are gone.
    pub(crate) lost: usize,
    /// Runs that have not ended.
    pub(crate) stuck: usize,
    /// Runs that ended in another way than well, without those that were quarantined.
    pub(crate) failed: usize,
    /// Runs that lost their worker too often.
    pub(crate) quarantined: usize,
    /// Effects that never happened, of runs that say that they did.
    pub(crate) missing: usize,
    /// Effects that happened more than once.
    pub(crate) twice: usize,
    /// Requests that were sent again under their idempotency key, to find out what became of them.
    pub(crate) asked_again: u64,
    /// Calls in doubt that a person had to settle.
    pub(crate) doubted: usize,
    /// How long a run that lost one worker stood still between two of its steps, by length.
    pub(crate) stood_still: Vec<Duration>,
    /// The longest that one stood still which lost several, perhaps one right after the other.
    pub(crate) stood_again: Option<Duration>,
}

impl Storm {
    pub(crate) fn stood_still_for(&self, share: f64) -> Option<Duration> {
        percentile(&self.stood_still, share)
    }

    /// What no kill may ever cause.
    pub(crate) const fn wrong(&self) -> usize {
        self.lost + self.stuck + self.failed + self.quarantined + self.missing + self.twice
    }
}

/// What arrived at the upstream, by the body of the request, which names the step and the run.
#[derive(Clone, Default)]
pub(crate) struct Seen(Arc<Mutex<HashMap<String, Arrived>>>);

#[derive(Clone, Copy)]
pub(crate) struct Arrived {
    first: Instant,
    times: u64,
}

impl Seen {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Arrived>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, body: String) {
        self.all().entry(body).or_insert_with(|| Arrived { first: Instant::now(), times: 0 }).times += 1;
    }

    pub(crate) fn find(&self, step: usize, run: &str) -> Option<Arrived> {
        self.all().get(&body_of(step, run)).copied()
    }
}

/// The body of the request of a step, from 1 on.
fn body_of(step: usize, run: &str) -> String {
    format!("s{step} {run}")
}

/// Nobody but a person can find out about the last step: its request has no idempotency key.
const fn is_keyed(step: usize) -> bool {
    step < STEPS
}

/// A worker with its data folder, which the next one in its place takes over.
struct Worker {
    running: Running,
    data: PathBuf,
}

/// The server, which works on no run itself, and what is asked of it.
struct Fleet {
    /// Killed at the end.
    _server: Server,
    connection: Connection,
    owner: String,
    url: String,
    settings: Vec<(String, String)>,
    automation: String,
    seen: Seen,
}

/// The storm, and what became of the runs of a worker that never came back.
pub(crate) struct Measured {
    pub(crate) storm: Storm,
    pub(crate) orphaned: Storm,
}

pub(crate) async fn measure(place: &Place, folder: &Path) -> Result<Measured> {
    let mut fleet = Fleet::start(place, folder).await?;
    progress(&format!("firing {RUNS} runs of {STEPS} steps"));
    let mut fired = Vec::with_capacity(RUNS);
    for _ in 0..RUNS {
        fired.push(fleet.fire().await?);
    }
    progress(&format!("{WORKERS} workers, one of them killed every {} s", KILL_EVERY.as_secs()));
    let workers = fleet.start_workers(folder).await?;
    let storm = fleet.storm(&fired, workers).await?;
    progress(&format!("firing {ORPHANED} runs; all workers but one are killed for good"));
    let orphaned = fleet.orphan(folder).await?;
    Ok(Measured { storm, orphaned })
}

impl Fleet {
    /// Kills one worker after the other, and replaces each, until every run has ended.
    async fn storm(&mut self, fired: &[String], mut workers: VecDeque<Worker>) -> Result<Storm> {
        let (began, mut kill_at) = (Instant::now(), Instant::now() + KILL_EVERY);
        let (mut storm, mut settled) = (Storm::default(), HashSet::new());
        while self.has_unfinished().await? && began.elapsed() < PATIENCE {
            if Instant::now() >= kill_at
                && let Some(Worker { running, data }) = workers.pop_front()
            {
                kill_at = Instant::now() + KILL_EVERY;
                // SIGKILL, by its id.
                drop(running);
                storm.kills += 1;
                workers.push_back(self.start_worker(data).await?);
            }
            storm.doubted += self.settle_doubts(&mut settled).await?;
            sleep(LOOK_EVERY).await;
        }
        storm.took = began.elapsed();
        self.judge(fired, &settled, &mut storm).await?;
        Ok(storm)
    }

    /// Fires runs before there is a worker, so that each has its hands full when it is killed; what they worked on is left to the last.
    async fn orphan(&mut self, folder: &Path) -> Result<Storm> {
        let mut fired = Vec::with_capacity(ORPHANED);
        for _ in 0..ORPHANED {
            fired.push(self.fire().await?);
        }
        let (began, mut orphaned, mut settled) = (Instant::now(), Storm::default(), HashSet::new());
        let mut workers = self.start_workers(folder).await?;
        while self.list("pending", PAGE).await?.len() == PAGE && began.elapsed() < PATIENCE {
            sleep(LOOK_EVERY).await;
        }
        // One after the other: the runs of one worker are all at the same step, which may be one that only a person can settle.
        while workers.len() > 1 {
            drop(workers.pop_front());
            orphaned.kills += 1;
            sleep(LOOK_EVERY).await;
        }
        while self.has_unfinished().await? && began.elapsed() < PATIENCE {
            orphaned.doubted += self.settle_doubts(&mut settled).await?;
            sleep(LOOK_EVERY).await;
        }
        orphaned.took = began.elapsed();
        self.judge(&fired, &settled, &mut orphaned).await?;
        Ok(orphaned)
    }

    async fn start(place: &Place, folder: &Path) -> Result<Self> {
        let seen = Seen::default();
        let upstream = serve_upstream(seen.clone()).await?;
        let data = folder.join("storm");
        std::fs::create_dir_all(&data)?;
        let url = place.fresh(&data).await?.url.context("a worker needs PostgreSQL")?;
        let reach = [("COUNTERSIGN_HTTP_ALLOWED_HOSTS", upstream.as_str()), ("COUNTERSIGN_HTTP_ALLOWED_NETWORKS", "127.0.0.0/8")];
        let idle = ["FAST", "MEDIUM", "LONG"].map(|queue| format!("COUNTERSIGN_WORKERS_{queue}"));
        let settings: Vec<_> = reach.into_iter().chain(idle.iter().map(|name| (name.as_str(), "0"))).collect();
        let server = Server::start_with(&data, Some(&url), &settings).await?;
        let owner = std::fs::read_to_string(data.join("owner.token")).context("the owner's token")?.trim().to_owned();
        let mut connection = Connection::open(server.address()).await?;
        connection.ask("PUT", "/api/v1/modes/http.request", &owner, &json!({ "mode": "allow" })).await?;
        let saved = connection.ask("POST", "/api/v1/automations", &owner, &json!({ "definition": definition(&upstream) })).await?;
        let automation = saved.pointer("/automation/id").and_then(Value::as_str).context("the automation has no id")?.to_owned();
        let settings = reach.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        Ok(Self { _server: server, connection, owner, url, settings, automation, seen })
    }

    async fn ask(&mut self, method: &str, path: &str, body: &Value) -> Result<Value> {
        self.connection.ask(method, &format!("/api/v1/{path}"), &self.owner, body).await
    }

    async fn fire(&mut self) -> Result<String> {
        let path = format!("automations/{}/run", self.automation);
        let fired = self.ask("POST", &path, &json!({ "inputs": {} })).await?;
        Ok(fired["run_id"].as_str().with_context(|| format!("no run was started: {fired}"))?.to_owned())
    }

    async fn start_workers(&self, folder: &Path) -> Result<VecDeque<Worker>> {
        let mut workers = VecDeque::new();
        for number in 0..WORKERS {
            let data = folder.join(format!("worker-{number}"));
            std::fs::create_dir_all(&data)?;
            std::fs::copy(folder.join("storm").join("master.key"), data.join("master.key"))?;
            workers.push_back(self.start_worker(data).await?);
        }
        Ok(workers)
    }

    async fn start_worker(&self, data: PathBuf) -> Result<Worker> {
        let (folder, url, settings) = (data.clone(), self.url.clone(), self.settings.clone());
        // The upstream that it may call at once runs on this thread.
        let running = tokio::task::spawn_blocking(move || start_worker(&folder, &url, &settings)).await??;
        Ok(Worker { running, data })
    }

    /// At most a page of the runs with this status.
    async fn list(&mut self, status: &str, limit: usize) -> Result<Vec<Value>> {
        let path = format!("runs?automation={}&status={status}&limit={limit}", self.automation);
        Ok(self.ask("GET", &path, &Value::Null).await?["items"].as_array().cloned().unwrap_or_default())
    }

    async fn has_unfinished(&mut self) -> Result<bool> {
        for status in ["pending", "running", "waiting"] {
            if !self.list(status, 1).await?.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Says what became of calls in doubt, as a person would who has looked at the upstream. Returns of how many, and notes their runs.
    async fn settle_doubts(&mut self, settled: &mut HashSet<String>) -> Result<usize> {
        let mut count = 0;
        for run in self.list("waiting", PAGE).await? {
            let (Some(id), Some(step), Some(invocation)) = (run["id"].as_str(), run["step"].as_u64(), run["invocation_id"].as_str()) else {
                continue;
            };
            if run["waiting_for"] != "person" {
                continue;
            }
            let has_happened = self.seen.find(usize::try_from(step)? + 1, id).is_some();
            let answer = json!({ "as": if has_happened { "succeeded" } else { "retry" }, "reason": "the upstream was looked at" });
            // It may just be being found out, or be settled already. Then it is looked at again.
            if self.ask("POST", &format!("invocations/{invocation}/settle"), &answer).await.is_ok() {
                count += 1;
                settled.insert(id.to_owned());
            }
        }
        Ok(count)
    }

    async fn judge(&mut self, fired: &[String], settled: &HashSet<String>, storm: &mut Storm) -> Result<()> {
        let runs = self.all_runs().await?;
        for id in fired {
            let Some(run) = runs.get(id) else {
                storm.lost += 1;
                continue;
            };
            let has_succeeded = match run["status"].as_str() {
                Some("succeeded") => true,
                Some("pending" | "running" | "waiting") | None => {
                    storm.stuck += 1;
                    false
                }
                Some("quarantined") => {
                    storm.quarantined += 1;
                    false
                }
                Some(_) => {
                    storm.failed += 1;
                    false
                }
            };
            let arrived: Vec<_> = (1..=STEPS).map(|step| (step, self.seen.find(step, id))).collect();
            for (step, arrived) in &arrived {
                let times = arrived.map_or(0, |arrived| arrived.times);
                storm.missing += usize::from(times == 0 && has_succeeded);
                if is_keyed(*step) {
                    storm.asked_again += times.saturating_sub(1);
                } else {
                    storm.twice += usize::from(times > 1);
                }
            }
            let recoveries = run["recoveries"].as_u64().unwrap_or(0);
            if recoveries > 0 {
                storm.hit += 1;
                let firsts: Vec<_> = arrived.iter().filter_map(|(_, arrived)| arrived.map(|arrived| arrived.first)).collect();
                let longest = firsts.iter().zip(firsts.iter().skip(1)).map(|(one, next)| next.saturating_duration_since(*one)).max();
                // One that a person had to settle waited for the person.
                let longest = longest.filter(|_| !settled.contains(id));
                if recoveries == 1 {
                    storm.stood_still.extend(longest);
                } else {
                    storm.stood_again = storm.stood_again.max(longest);
                }
            }
        }
        storm.stood_still.sort_unstable();
        Ok(())
    }

    async fn all_runs(&mut self) -> Result<HashMap<String, Value>> {
        let (mut runs, mut after) = (HashMap::new(), String::new());
        loop {
            let path = format!("runs?automation={}&limit={PAGE}{after}", self.automation);
            let page = self.ask("GET", &path, &Value::Null).await?;
            for run in page["items"].as_array().into_iter().flatten() {
                if let Some(id) = run["id"].as_str() {
                    runs.insert(id.to_owned(), run.clone());
                }
            }
            match page["next"].as_str() {
                Some(next) => after = format!("&after={next}"),
                None => return Ok(runs),
            }
        }
    }
}

fn definition(upstream: &str) -> Value {
    let step = |number: usize| {
        let key = json!({ "Idempotency-Key": format!("{{{{ run.id }}}}-{number}") });
        let headers = if is_keyed(number) { key } else { json!({}) };
        let config = json!({ "method": "POST", "url": upstream, "headers": headers, "body": body_of(number, "{{ run.id }}") });
        json!({ "step_id": format!("s{number}"), "action": "http.request", "config": config })
    };
    let plan: Vec<_> = (1..=STEPS).map(step).collect();
    json!({ "schema_version": "1.0", "name": "Storm", "plan": plan, "execution": { "concurrency": "allow_parallel", "queue": "fast" } })
}

/// Serves on a free port of this machine, and returns its URL.
pub(crate) async fn serve_upstream(seen: Seen) -> Result<String> {
    let take = |State(seen): State<Seen>, body: String| async move {
        seen.note(body);
        sleep(ANSWERED_AFTER).await;
        "ok"
    };
    let router = Router::new().route("/", post(take)).with_state(seen);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(url)
}
