//! Kills the server with SIGKILL at random points under concurrent load: nothing that was acknowledged is lost, nothing happens twice, and
//! no call is stuck.
//!
//! Effects are counted outside the server, by an HTTP server that the calls go to, because only it knows how often something happened.

use serde_json::{Value, json};
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Notify;

const CALLERS: usize = 8;

/// The number of kills, half of them with allowed calls and half with calls that need approval. `CRASH_ROUNDS` sets another number.
fn rounds() -> usize {
    std::env::var("CRASH_ROUNDS").ok().map_or_else(|| testkit::rounds(4, 2), |rounds| rounds.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_at_random_points_on_sqlite() {
    crash_and_check(None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_at_random_points_on_postgresql() {
    crash_and_check(Some(testkit::postgres::fresh_database().await)).await;
}

async fn crash_and_check(database: Option<String>) {
    server::init_process();
    let folder = tempfile::tempdir().unwrap();
    let upstream = Upstream::start().await;
    let told = Arc::new(Told::default());
    let mut process = Serving::start(folder.path(), database.as_deref(), &upstream);
    let token = std::fs::read_to_string(folder.path().join("owner.token")).unwrap().trim().to_owned();
    let owner = Client { http: reqwest::Client::new(), token };
    for action in ["http.request", "files.write_text"] {
        let set = owner.send(&process.url, reqwest::Method::PUT, &format!("modes/{action}"), json!({ "mode": "allow" })).await;
        assert_eq!(set.unwrap().0, 200);
    }
    let consent = owner.send(&process.url, reqwest::Method::POST, "consents", json!({ "purpose": "action:http.request" })).await;
    assert_eq!(consent.unwrap().0, 201);
    for round in 0..rounds() {
        // In every second round the same calls need approval first.
        let mode = if round % 2 == 0 { "allow" } else { "require_approval" };
        let set = owner.send(&process.url, reqwest::Method::PUT, "modes/http.request", json!({ "mode": mode })).await;
        assert_eq!(set.unwrap().0, 200);
        let (calls, delay) = (drawn() % 60, Duration::from_micros(drawn() % 20_000));
        let target = told.count() + calls as usize;
        let stop = Arc::new(AtomicBool::new(false));
        let callers: Vec<_> = (0..CALLERS)
            .map(|_| {
                tokio::spawn(keep_calling(owner.clone(), process.url.clone(), upstream.url.clone(), Arc::clone(&told), Arc::clone(&stop)))
            })
            .collect();
        let deadline = Instant::now() + Duration::from_secs(30);
        while told.count() < target && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::time::sleep(delay).await;
        process.kill();
        stop.store(true, Ordering::SeqCst);
        for caller in callers {
            caller.await.unwrap();
        }
        process = Serving::start(folder.path(), database.as_deref(), &upstream);
        check(&owner, &process.url, &told, &upstream, folder.path(), &format!("round {round}, killed {delay:?} after {calls} calls")).await;
    }
    assert!(told.count() > rounds(), "the load was real: {} calls were acknowledged", told.count());
}

/// Makes calls without pause until it is told to stop or the server is gone, and remembers every acknowledged answer.
async fn keep_calling(owner: Client, url: String, upstream: String, told: Arc<Told>, stop: Arc<AtomicBool>) {
    let Ok((201, session)) = owner.send(&url, reqwest::Method::POST, "sessions", json!({})).await else {
        return;
    };
    let path = format!("sessions/{}/actions/invoke", session["id"].as_str().unwrap());
    while !stop.load(Ordering::SeqCst) {
        let n = told.next.fetch_add(1, Ordering::SeqCst);
        // Two thirds of the calls go to the upstream, and half of those carry an idempotency key. The rest change files.
        let upstream_call = |key: Value| {
            let params = json!({ "method": "POST", "url": upstream, "body": format!("n{n}") });
            json!({ "action": "http.request", "params": params, "idempotency_key": key })
        };
        let body = match n % 6 {
            0 | 1 => upstream_call(Value::Null),
            2 | 3 => upstream_call(json!(format!("key-{n}"))),
            4 => json!({ "action": "files.write_text", "params": { "path": format!("f{n}.txt"), "text": format!("n{n}") } }),
            _ => json!({ "action": "files.delete", "params": { "path": format!("f{}.txt", n - 1) } }),
        };
        let Ok((status, answer)) = owner.send(&url, reqwest::Method::POST, &path, body).await else {
            return;
        };
        told.acknowledge(&answer, n % 6 < 4, n);
        if status == 202 {
            let id = answer["invocation"]["id"].as_str().unwrap().to_owned();
            let Ok((_, answer)) = owner.send(&url, reqwest::Method::POST, &format!("invocations/{id}/approve"), json!({})).await else {
                return;
            };
            told.acknowledge(&answer, n % 6 < 4, n);
        }
    }
}

async fn check(owner: &Client, url: &str, told: &Told, upstream: &Upstream, folder: &Path, when: &str) {
    for (n, times) in upstream.seen.lock().unwrap().iter() {
        assert_eq!(*times, 1, "{when}: effect {n} happened {times} times");
    }
    let acknowledged = told.acknowledged.lock().unwrap().clone();
    for (id, known) in &acknowledged {
        let (status, shown) = owner.send(url, reqwest::Method::GET, &format!("invocations/{id}"), Value::Null).await.unwrap();
        assert_eq!(status, 200, "{when}: acknowledged {id} is gone");
        let now = shown["invocation"]["status"].as_str().unwrap();
        let holds = match known.status.as_str() {
            // A call that was pending may have been approved since, and can have any status. A call that had ended keeps its status.
            "pending" => true,
            told => told == now,
        };
        assert!(holds, "{when}: {id} was told `{}` and is `{now}`", known.status);
        if let (Some(n), "succeeded") = (&known.effect, known.status.as_str()) {
            assert_eq!(upstream.seen.lock().unwrap().get(n), Some(&1), "{when}: {id} succeeded without its effect");
        }
    }
    // Every effect belongs to an invocation that requested it, because the intent is written first.
    let asked = effects_asked_for(owner, url).await;
    for n in upstream.seen.lock().unwrap().keys() {
        let status = asked.get(n).unwrap_or_else(|| panic!("{when}: effect {n} happened, and nobody asked for it"));
        assert!(["succeeded", "in_doubt"].contains(&status.as_str()), "{when}: effect {n} happened, and its invocation is `{status}`");
    }
    for status in ["running", "approved"] {
        let (_, listed) =
            owner.send(url, reqwest::Method::GET, &format!("invocations?status={status}&limit=100"), Value::Null).await.unwrap();
        let left: Vec<_> = listed["items"].as_array().unwrap().iter().map(|item| item["id"].clone()).collect();
        let mut stuck = Vec::new();
        for id in left {
            let path = format!("invocations/{}?wait=20s", id.as_str().unwrap());
            let (_, shown) = owner.send(url, reqwest::Method::GET, &path, Value::Null).await.unwrap();
            if shown["invocation"]["status"] == status {
                stuck.push(id);
            }
        }
        assert!(stuck.is_empty(), "{when}: stuck in `{status}`: {stuck:?}");
    }
    let report = verify(owner, url, folder).await;
    assert!(report.ok, "{when}: {report:#?}");
}

/// The status of every call to the upstream, by the body that the call sends.
async fn effects_asked_for(owner: &Client, url: &str) -> HashMap<String, String> {
    let (mut asked, mut after) = (HashMap::new(), String::new());
    loop {
        let path = format!("invocations?action=http.request&limit=100{after}");
        let (_, page) = owner.send(url, reqwest::Method::GET, &path, Value::Null).await.unwrap();
        for item in page["items"].as_array().unwrap() {
            let word = |value: &Value| value.as_str().unwrap().to_owned();
            asked.insert(word(&item["params"]["body"]), word(&item["status"]));
        }
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return asked,
        }
    }
}

pub(crate) async fn verify(owner: &Client, url: &str, folder: &Path) -> receipt::verify::Report {
    let export = owner.http.get(format!("{url}/api/v1/receipts/export")).bearer_auth(&owner.token);
    let export = export.send().await.unwrap().text().await.unwrap();
    let pinned = receipt::key::PublicKey::from_pem(&std::fs::read_to_string(folder.join("receipt.pub")).unwrap()).unwrap();
    receipt::verify::verify(export.lines().map(|line| Ok::<_, std::io::Error>(line.to_owned())), &pinned, None)
}

/// All answers that the server has acknowledged so far.
#[derive(Default)]
struct Told {
    next: AtomicU64,
    acknowledged: Mutex<HashMap<String, Known>>,
}

#[derive(Clone)]
struct Known {
    status: String,
    /// The effect at the upstream that the call must have had if it succeeded.
    effect: Option<String>,
}

impl Told {
    fn count(&self) -> usize {
        self.acknowledged.lock().unwrap().len()
    }

    fn acknowledge(&self, answer: &Value, upstream: bool, n: u64) {
        // Answers for denied, failed and doubtful calls contain the invocation too, so they count as acknowledged.
        let Some(id) = answer["invocation"]["id"].as_str() else {
            return;
        };
        let status = answer["invocation"]["status"].as_str().unwrap().to_owned();
        let known = Known { status, effect: upstream.then(|| format!("n{n}")) };
        self.acknowledged.lock().unwrap().insert(id.to_owned(), known);
    }
}

/// A file may not grow beyond a limit, as on a full disk. Calls are refused, the readiness check fails, and nothing is half-written.
/// Raising the limit is enough to continue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_into_a_full_disk_and_go_on_without_a_restart() {
    server::init_process();
    let folder = tempfile::tempdir().unwrap();
    let mut shell = new_command("bash");
    // An ignored signal stays ignored after exec. So a write beyond the limit fails instead of killing the process.
    shell.args(["-c", "trap '' XFSZ; ulimit -S -f 1536; exec \"$0\" serve --listen 127.0.0.1:0 --data \"$1\""]);
    shell.arg(env!("CARGO_BIN_EXE_countersign")).arg(folder.path());
    let process = Serving::spawn(shell);
    let token = std::fs::read_to_string(folder.path().join("owner.token")).unwrap().trim().to_owned();
    let owner = Client { http: reqwest::Client::new(), token };
    let (_, session) = owner.send(&process.url, reqwest::Method::POST, "sessions", json!({})).await.unwrap();
    let path = format!("sessions/{}/actions/invoke", session["id"].as_str().unwrap());
    let list = json!({ "action": "files.list", "params": {} });
    let mut done = 0;
    let refused = loop {
        let (status, answer) = owner.send(&process.url, reqwest::Method::POST, &path, list.clone()).await.unwrap();
        if status != 200 {
            break answer;
        }
        done += 1;
        assert!(done < 5_000, "the disk never filled up");
    };
    assert_eq!((refused["status"].as_u64(), refused["code"].as_str()), (Some(503), Some("store_unavailable")), "{refused}");
    let ready = owner.http.get(format!("{}/readyz", process.url));
    // A few more bytes may still fit. The readiness check uses them up as well, and then it fails.
    let mut green = 0;
    while ready.try_clone().unwrap().send().await.unwrap().status().as_u16() == 200 {
        green += 1;
        assert!(green < 200, "health never turned red");
        // After a successful write the check trusts for a second that writes work. A failed write makes it look again.
        owner.send(&process.url, reqwest::Method::POST, &path, list.clone()).await.unwrap();
    }
    assert_eq!(owner.http.get(format!("{}/healthz", process.url)).send().await.unwrap().status().as_u16(), 200, "the process lives");

    let pid = rustix::process::Pid::from_raw(i32::try_from(process.child.id()).unwrap()).unwrap();
    let unlimited = rustix::process::Rlimit { current: None, maximum: None };
    rustix::process::prlimit(Some(pid), rustix::process::Resource::Fsize, unlimited).unwrap();
    assert_eq!(ready.send().await.unwrap().status().as_u16(), 200, "health is green again by itself");
    let (status, answer) = owner.send(&process.url, reqwest::Method::POST, &path, list).await.unwrap();
    assert_eq!(status, 200, "{answer}");
    let report = verify(&owner, &process.url, folder.path()).await;
    assert_eq!(report.receipts, done + 1, "exactly what was acknowledged is there: {report:#?}");
}

/// Starts a server on a data folder. If a fault point is given, the server kills itself there.
pub(crate) fn at_fault(data: &Path, database: Option<&str>, point: Option<&str>) -> Serving {
    let mut command = new_command(env!("CARGO_BIN_EXE_countersign"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data);
    command.args(database.iter().flat_map(|url| ["--database", url]));
    command.env("COUNTERSIGN_ALLOW_PLUGIN_CODE_EXECUTION", "true").envs(point.map(|point| ("FAULT_POINT", point)));
    Serving::spawn(command)
}

/// The command that starts a server whose calls may go to the upstream.
pub(crate) fn serve_beside(folder: &Path, database: Option<&str>, upstream: &Upstream) -> Command {
    let mut command = new_command(env!("CARGO_BIN_EXE_countersign"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(folder);
    command.args(database.iter().flat_map(|url| ["--database", url]));
    command.env("COUNTERSIGN_HTTP_ALLOWED_HOSTS", &upstream.url).env("COUNTERSIGN_HTTP_ALLOWED_NETWORKS", "127.0.0.0/8");
    command
}

/// A server process that can be killed.
pub(crate) struct Serving {
    child: Child,
    pub(crate) url: String,
}

impl Serving {
    pub(crate) fn start(folder: &Path, database: Option<&str>, upstream: &Upstream) -> Self {
        Self::spawn(serve_beside(folder, database, upstream))
    }

    pub(crate) fn spawn(mut command: Command) -> Self {
        command.env("COUNTERSIGN_INVOCATIONS_PER_MINUTE", "1000000").env("COUNTERSIGN_LOG_LEVEL", "off").stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // A worker has no other address than that of its health.
        let url_in = |line: String| ["url: ", "health: "].iter().find_map(|before| line.strip_prefix(before).map(str::to_owned));
        let url = lines.find_map(|line| url_in(line.unwrap())).expect("the server prints its url");
        // The rest of the output is read and dropped, so that the pipe does not fill up.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, url }
    }

    pub(crate) fn process_id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Sends SIGTERM, and waits for the process to end.
    pub(crate) fn stop(mut self) {
        self.signal(rustix::process::Signal::TERM);
        assert!(self.child.wait().unwrap().success());
    }

    /// Sends SIGKILL: no handler runs and nothing is flushed.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[expect(clippy::disallowed_methods, reason = "these tests are about a process that dies")]
pub(crate) fn new_command(program: &str) -> Command {
    Command::new(program)
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _already = self.child.kill();
        let _reaped = self.child.wait();
    }
}

#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) http: reqwest::Client,
    pub(crate) token: String,
}

impl Client {
    pub(crate) fn new(token: String) -> Self {
        Self { http: reqwest::Client::new(), token }
    }

    /// Sends a request. An error means that the server is gone and the call was not acknowledged.
    pub(crate) async fn send(&self, url: &str, method: reqwest::Method, path: &str, body: Value) -> Result<(u16, Value), reqwest::Error> {
        let mut request = self.http.request(method, format!("{url}/api/v1/{path}")).bearer_auth(&self.token);
        if !body.is_null() {
            request = request.json(&body);
        }
        let response = request.send().await?;
        Ok((response.status().as_u16(), response.json().await?))
    }
}

/// An HTTP server that counts requests by their body.
///
/// The first request with a body that begins with `held` waits for `released`. With the body `held, then lost` it is never answered.
pub(crate) struct Upstream {
    pub(crate) url: String,
    pub(crate) seen: Arc<Mutex<HashMap<String, u64>>>,
    pub(crate) released: Arc<Notify>,
}

impl Upstream {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen: Arc<Mutex<HashMap<String, u64>>> = Arc::default();
        let released = Arc::new(Notify::new());
        let (counting, releasing) = (Arc::clone(&seen), Arc::clone(&released));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (counting, releasing) = (Arc::clone(&counting), Arc::clone(&releasing));
                tokio::spawn(async move {
                    let Some(body) = body_of(&mut stream).await else {
                        return;
                    };
                    let released = releasing.notified();
                    let is_first = {
                        let mut counting = counting.lock().unwrap();
                        let times = counting.entry(body.clone()).or_default();
                        *times += 1;
                        *times == 1
                    };
                    if is_first && body.starts_with("held") {
                        released.await;
                    }
                    if is_first && body == "held, then lost" {
                        return;
                    }
                    let _gone = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok").await;
                });
            }
        });
        Self { url, seen, released }
    }
}

/// The body of one request; `None` if the sender died before the request was complete.
async fn body_of(stream: &mut tokio::net::TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let mut chunk = [0; 4096];
        let read = stream.read(&mut chunk).await.ok().filter(|read| *read > 0)?;
        bytes.extend_from_slice(&chunk[..read]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse::<usize>().ok());
        if body.len() >= length.unwrap_or(0) {
            return Some(body.to_owned());
        }
    }
}

/// A random number. The messages of failures contain it.
fn drawn() -> u64 {
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}
