//! Kills with SIGKILL whoever works on runs of automations: the worker beside a server on PostgreSQL, the server itself on SQLite. No run is
//! lost or stuck, and every effect happens once; where nobody can tell whether it did, a person is asked. Effects are counted outside, by the
//! HTTP server that the steps call.

use crate::crash::{Client, Serving, Upstream, new_command, serve_beside, verify};
use countersign_core::limits::LEASE_SECONDS;
use reqwest::Method;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const RUNS: usize = 40;
const STEPS: usize = 5;
const KILLS: usize = 3;

/// No run may take longer than this to go on, even if all of the machine is busy. The tests do not measure how soon it does, but no run waits
/// until a server counts as gone.
const PATIENCE: Duration = Duration::from_secs(100);
const _: () = assert!(PATIENCE.as_secs() < LEASE_SECONDS);

mod sqlite {
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn sigkill_mid_step() {
        super::sigkill_mid_step(None).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_storm_of_kills_loses_no_run_and_repeats_no_effect() {
        super::a_storm_of_kills_loses_no_run_and_repeats_no_effect(None).await;
    }
}

mod postgres {
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn sigkill_mid_step() {
        super::sigkill_mid_step(Some(testkit::postgres::fresh_database().await)).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_storm_of_kills_loses_no_run_and_repeats_no_effect() {
        super::a_storm_of_kills_loses_no_run_and_repeats_no_effect(Some(testkit::postgres::fresh_database().await)).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_runs_of_a_worker_that_never_comes_back_go_on_elsewhere() {
        super::the_runs_of_a_worker_that_never_comes_back_go_on_elsewhere(testkit::postgres::fresh_database().await).await;
    }
}

/// A server, and on PostgreSQL a worker beside it, which alone works on runs.
struct Fleet {
    folder: tempfile::TempDir,
    worker_folder: tempfile::TempDir,
    database: Option<String>,
    serving: Serving,
    worker: Option<Serving>,
    upstream: Upstream,
    owner: Client,
}

impl Fleet {
    async fn start(database: Option<String>) -> Self {
        server::init_process();
        let (folder, worker_folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let upstream = Upstream::start().await;
        let serving = Serving::spawn(serve(folder.path(), database.as_deref(), &upstream));
        let token = std::fs::read_to_string(folder.path().join("owner.token")).unwrap().trim().to_owned();
        // They share the master key, and each has its own data folder.
        std::fs::copy(folder.path().join("master.key"), worker_folder.path().join("master.key")).unwrap();
        let worker = database.as_deref().map(|database| Serving::spawn(work(worker_folder.path(), database, &upstream)));
        let fleet = Self { folder, worker_folder, database, serving, worker, upstream, owner: Client::new(token) };
        let (status, answer) = fleet.ask(Method::PUT, "modes/http.request", json!({ "mode": "allow" })).await;
        assert_eq!(status, 200, "{answer}");
        let (status, answer) = fleet.ask(Method::POST, "consents", json!({ "purpose": "action:http.request" })).await;
        assert_eq!(status, 201, "{answer}");
        fleet
    }

    /// Kills whoever works on runs, and starts another one in its place.
    fn kill(&mut self) {
        match (&mut self.worker, &self.database) {
            (Some(worker), Some(database)) => {
                worker.kill();
                *worker = Serving::spawn(work(self.worker_folder.path(), database, &self.upstream));
            }
            _ => {
                self.serving.kill();
                self.serving = Serving::spawn(serve(self.folder.path(), None, &self.upstream));
            }
        }
    }

    async fn ask(&self, method: Method, path: &str, body: Value) -> (u16, Value) {
        self.owner.send(&self.serving.url, method, path, body).await.unwrap()
    }

    /// Saves an automation of these steps, and returns its id. Each sends its body to the upstream.
    async fn save(&self, steps: &[Step]) -> String {
        let plan: Vec<_> = steps.iter().map(|step| step.definition(&self.upstream.url)).collect();
        let execution = json!({ "concurrency": "allow_parallel" });
        let name = format!("Storm from {}", steps[0].name);
        let definition = json!({ "schema_version": "1.0", "name": name, "plan": plan, "execution": execution });
        let (status, saved) = self.ask(Method::POST, "automations", json!({ "definition": definition })).await;
        assert_eq!(status, 201, "{saved:#}");
        saved["automation"]["id"].as_str().unwrap().to_owned()
    }

    async fn run(&self, automation: &str) -> String {
        let (status, started) = self.ask(Method::POST, &format!("automations/{automation}/run"), json!({ "inputs": {} })).await;
        assert_eq!((status, &started["outcome"]), (202, &json!("started")), "{started:#}");
        started["run_id"].as_str().unwrap().to_owned()
    }

    async fn shown(&self, run: &str) -> Value {
        let (status, shown) = self.ask(Method::GET, &format!("runs/{run}"), Value::Null).await;
        assert_eq!(status, 200, "`{run}` was acknowledged and is gone: {shown}");
        shown
    }

    /// How often the upstream was sent this body.
    fn times(&self, body: &str) -> u64 {
        self.upstream.seen.lock().unwrap().get(body).copied().unwrap_or(0)
    }

    fn bodies_seen(&self) -> usize {
        self.upstream.seen.lock().unwrap().len()
    }

    /// Says what became of the call that this run waits for, as a person would who has looked at the upstream.
    async fn settle(&self, run: &Value, body: &str) {
        let settlement = if self.times(body) > 0 { "succeeded" } else { "retry" };
        let path = format!("invocations/{}/settle", run["invocation_id"].as_str().unwrap());
        // It may just be being found out, or be settled already. Then the run goes on without it.
        let (status, answer) = self.ask(Method::POST, &path, json!({ "as": settlement, "reason": "I looked" })).await;
        assert!([200, 409].contains(&status), "{answer}");
    }
}

fn serve(folder: &Path, database: Option<&str>, upstream: &Upstream) -> Command {
    let mut command = serve_beside(folder, database, upstream);
    if database.is_some() {
        for queue in ["FAST", "MEDIUM", "LONG"] {
            command.env(format!("COUNTERSIGN_WORKERS_{queue}"), "0");
        }
    }
    command
}

fn work(folder: &Path, database: &str, upstream: &Upstream) -> Command {
    let mut command = new_command(env!("CARGO_BIN_EXE_countersign"));
    command.args(["worker", "--listen", "127.0.0.1:0", "--database", database, "--data"]).arg(folder);
    command.env("COUNTERSIGN_HTTP_ALLOWED_HOSTS", &upstream.url).env("COUNTERSIGN_HTTP_ALLOWED_NETWORKS", "127.0.0.0/8");
    command
}

/// A step that sends the name of its run and its own to the upstream.
#[derive(Clone)]
struct Step {
    name: String,
    /// Whether the request has an idempotency key, so that it is sent again to find out what became of it.
    is_keyed: bool,
}

impl Step {
    fn definition(&self, upstream: &str) -> Value {
        let Self { name, is_keyed } = self;
        let headers = if *is_keyed { json!({ "Idempotency-Key": format!("{{{{ run.id }}}}-{name}") }) } else { json!({}) };
        // What begins with `held` is answered late, or never; see `Upstream`.
        let config = json!({ "method": "POST", "url": upstream, "headers": headers, "body": format!("{name} {{{{ run.id }}}}") });
        json!({ "step_id": name, "action": "http.request", "config": config })
    }

    fn body(&self, run: &str) -> String {
        format!("{} {run}", self.name)
    }
}

/// Waits until something holds.
async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !holds().await {
        assert!(began.elapsed() < PATIENCE, "it never came to this: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The process dies after the request has arrived at the upstream, and before it was answered.
async fn sigkill_mid_step(database: Option<String>) {
    let mut fleet = Fleet::start(database).await;
    let steps = [("held_keyed", true), ("held_plain", false)].map(|(name, is_keyed)| Step { name: name.to_owned(), is_keyed });
    let automation = fleet.save(&steps).await;
    let run = fleet.run(&automation).await;
    let [keyed, plain] = &steps;
    for step in [keyed, plain] {
        until("the request has arrived", async || fleet.times(&step.body(&run)) > 0).await;
        fleet.kill();
    }
    until("the run waits for a person", async || {
        let shown = fleet.shown(&run).await;
        shown["status"] == "waiting" && shown["waiting_for"] == "person"
    })
    .await;
    let waits = fleet.shown(&run).await;
    assert_eq!((waits["steps"].as_array().unwrap().len(), &waits["recoveries"]), (1, &json!(2)), "it goes on where it was: {waits:#}");
    let (_, call) = fleet.ask(Method::GET, &format!("invocations/{}", waits["invocation_id"].as_str().unwrap()), Value::Null).await;
    assert_eq!(call["invocation"]["status"], "in_doubt", "nobody knows whether it happened, so nothing says that it did");
    fleet.settle(&waits, &plain.body(&run)).await;
    until("the run has ended", async || fleet.shown(&run).await["status"] == "succeeded").await;
    assert_eq!(fleet.times(&keyed.body(&run)), 2, "it was asked for again, under the same idempotency key");
    assert_eq!(fleet.times(&plain.body(&run)), 1, "it was not");
    let report = verify(&fleet.owner, &fleet.serving.url, fleet.folder.path()).await;
    assert!(report.ok, "{report:#?}");
}

/// Nobody starts on the data folder of the worker again, so nobody but the others can tell that it is gone.
async fn the_runs_of_a_worker_that_never_comes_back_go_on_elsewhere(database: String) {
    let mut fleet = Fleet::start(Some(database.clone())).await;
    let [keyed, plain] = [("held_keyed", true), ("held_plain", false)].map(|(name, is_keyed)| Step { name: name.to_owned(), is_keyed });
    let last = Step { name: "last".to_owned(), is_keyed: true };
    let with_key = fleet.save(&[keyed.clone(), last.clone()]).await;
    let without = fleet.save(&[plain.clone(), last.clone()]).await;
    let runs = [fleet.run(&with_key).await, fleet.run(&without).await];
    let bodies = [keyed.body(&runs[0]), plain.body(&runs[1])];
    for body in &bodies {
        until("the request has arrived", async || fleet.times(body) > 0).await;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(fleet.folder.path().join("master.key"), folder.path().join("master.key")).unwrap();
    let _other = Serving::spawn(work(folder.path(), &database, &fleet.upstream));
    fleet.worker.take().unwrap().kill();
    until("the run with the key has ended", async || fleet.shown(&runs[0]).await["status"] == "succeeded").await;
    assert_eq!(fleet.times(&bodies[0]), 2, "it was asked for again, under the same idempotency key");
    until("the other run waits for a person", async || fleet.shown(&runs[1]).await["waiting_for"] == "person").await;
    let waits = fleet.shown(&runs[1]).await;
    let (_, call) = fleet.ask(Method::GET, &format!("invocations/{}", waits["invocation_id"].as_str().unwrap()), Value::Null).await;
    assert_eq!(call["invocation"]["status"], "in_doubt", "nobody knows whether it happened, so nothing says that it did");
    fleet.settle(&waits, &bodies[1]).await;
    until("the other run has ended", async || fleet.shown(&runs[1]).await["status"] == "succeeded").await;
    assert_eq!(fleet.times(&bodies[1]), 1, "it was not asked for again");
    for run in &runs {
        let shown = fleet.shown(run).await;
        assert_eq!((&shown["recoveries"], fleet.times(&last.body(run))), (&json!(1), 1), "{shown:#}");
    }
    let report = verify(&fleet.owner, &fleet.serving.url, fleet.folder.path()).await;
    assert!(report.ok && report.open_intents == 0, "{report:#?}");
}

async fn a_storm_of_kills_loses_no_run_and_repeats_no_effect(database: Option<String>) {
    let mut fleet = Fleet::start(database).await;
    // Nobody can find out about the last step but a person.
    let steps: Vec<_> = (1..=STEPS).map(|number| Step { name: format!("s{number}"), is_keyed: number < STEPS }).collect();
    let automation = fleet.save(&steps).await;
    let mut runs = Vec::with_capacity(RUNS);
    for _ in 0..RUNS {
        runs.push(fleet.run(&automation).await);
    }
    for kill in 1..=KILLS {
        let enough = RUNS * STEPS * kill / (KILLS + 1);
        until("the runs are on their way", async || fleet.bodies_seen() >= enough).await;
        fleet.kill();
    }
    let mut recoveries = 0;
    for run in &runs {
        let mut shown = Value::Null;
        until("a run has ended", async || {
            shown = fleet.shown(run).await;
            if shown["waiting_for"] == "person" {
                fleet.settle(&shown, &steps[STEPS - 1].body(run)).await;
            }
            !["pending", "running", "waiting"].contains(&shown["status"].as_str().unwrap())
        })
        .await;
        assert_eq!((&shown["status"], shown["steps"].as_array().unwrap().len()), (&json!("succeeded"), STEPS), "{shown:#}");
        recoveries += shown["recoveries"].as_u64().unwrap();
        for step in &steps {
            let (times, most) = (fleet.times(&step.body(run)), if step.is_keyed { 1 + KILLS as u64 } else { 1 });
            assert!((1..=most).contains(&times), "step {} of `{run}` was sent {times} times: {shown:#}", step.name);
        }
    }
    assert!(recoveries > 0, "no kill hit a run that was worked on");
    assert_eq!(fleet.bodies_seen(), RUNS * STEPS, "nothing happened that no run asked for");
    let report = verify(&fleet.owner, &fleet.serving.url, fleet.folder.path()).await;
    assert!(report.ok && report.open_intents == 0, "{report:#?}");
}

/// A file may not grow beyond a limit, as on a full disk. Health turns red and no run is taken up; once there is room again, every run that
/// was acknowledged is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disk_full_fails_closed() {
    server::init_process();
    let folder = tempfile::tempdir().unwrap();
    let mut shell = new_command("bash");
    // An ignored signal stays ignored after exec. So a write beyond the limit fails instead of killing the process.
    shell.args(["-c", "trap '' XFSZ; ulimit -S -f 1536; exec \"$0\" serve --listen 127.0.0.1:0 --data \"$1\""]);
    shell.arg(env!("CARGO_BIN_EXE_countersign")).arg(folder.path());
    let process = Serving::spawn(shell);
    let owner = Client::new(std::fs::read_to_string(folder.path().join("owner.token")).unwrap().trim().to_owned());
    let ask = async |method, path: &str, body| owner.send(&process.url, method, path, body).await.unwrap();
    let plan = json!([{ "step_id": "look", "action": "files.list" }]);
    let definition = json!({ "schema_version": "1.0", "name": "Look", "plan": plan, "execution": { "concurrency": "allow_parallel" } });
    let (status, saved) = ask(Method::POST, "automations", json!({ "definition": definition })).await;
    assert_eq!(status, 201, "{saved:#}");
    let fire = format!("automations/{}/run", saved["automation"]["id"].as_str().unwrap());
    let ready = owner.http.get(format!("{}/readyz", process.url));
    let is_ready = async || ready.try_clone().unwrap().send().await.unwrap().status().as_u16() == 200;
    let (mut runs, mut refused) = (Vec::new(), 0);
    // A few more bytes may fit after the first refusal; the readiness check uses them up as well.
    while refused == 0 || is_ready().await {
        let (status, answer) = ask(Method::POST, &fire, json!({ "inputs": {} })).await;
        match status {
            202 => runs.push(answer["run_id"].as_str().unwrap().to_owned()),
            500..=599 => refused += 1,
            _ => panic!("{status}: {answer:#}"),
        }
        assert!(runs.len() < 5_000 && refused < 1_000, "the disk never filled up, or health never turned red");
    }
    let room = rustix::process::Rlimit { current: None, maximum: None };
    let pid = rustix::process::Pid::from_raw(i32::try_from(process.process_id()).unwrap()).unwrap();
    rustix::process::prlimit(Some(pid), rustix::process::Resource::Fsize, room).unwrap();
    until("health is green again by itself", is_ready).await;
    for run in &runs {
        let path = format!("runs/{run}");
        until("a run has ended", async || ask(Method::GET, &path, Value::Null).await.1["status"] == "succeeded").await;
    }
    let report = verify(&owner, &process.url, folder.path()).await;
    assert!(report.ok && report.receipts >= runs.len() as u64, "{report:#?}");
}
