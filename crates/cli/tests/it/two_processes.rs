//! Tests two real servers on one PostgreSQL: what one grants, uses or ends is binding for the other. Effects are counted outside of both.

use crate::countersign::User;
use crate::crash::{Client, Serving, Upstream};
use countersign_core::limits::LEASE_FENCE_SECONDS;
use countersign_core::{Clock, Timestamp};
use reqwest::Method;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use testkit::proxy::Proxy;

const CALLERS: usize = 64;
const CALLS: usize = 9;
/// The number of rounds in which both servers must have run something. One round is nearly always enough.
const ROUNDS_MAX: usize = 8;

struct Two {
    folders: [tempfile::TempDir; 2],
    servers: [Serving; 2],
    owner: Client,
    upstream: Upstream,
}

impl Two {
    async fn start() -> Self {
        Self::on(&testkit::postgres::fresh_database().await).await
    }

    async fn on(database: &str) -> Self {
        server::init_process();
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let upstream = Upstream::start().await;
        let first = Serving::start(folders[0].path(), Some(database), &upstream);
        // The servers share the master key, and each has its own data folder.
        for name in ["master.key", "owner.token"] {
            std::fs::copy(folders[0].path().join(name), folders[1].path().join(name)).unwrap();
        }
        let second = Serving::start(folders[1].path(), Some(database), &upstream);
        assert_ne!(first.process_id(), second.process_id());
        let token = std::fs::read_to_string(folders[0].path().join("owner.token")).unwrap().trim().to_owned();
        Self { folders, servers: [first, second], owner: Client { http: reqwest::Client::new(), token }, upstream }
    }

    fn url(&self, at: usize) -> &str {
        &self.servers[at].url
    }

    async fn ask(&self, at: usize, method: Method, path: &str, body: Value) -> (u16, Value) {
        self.owner.send(self.url(at), method, path, body).await.unwrap()
    }

    async fn session(&self, at: usize) -> String {
        self.ask(at, Method::POST, "sessions", json!({})).await.1["id"].as_str().unwrap().to_owned()
    }

    /// Makes a call through this server that sends one request to the upstream.
    async fn call(&self, at: usize, session: &str, text: &str) -> (u16, Value) {
        let params = json!({ "method": "POST", "url": self.upstream.url, "body": text });
        let body = json!({ "action": "http.request", "params": params });
        self.ask(at, Method::POST, &format!("sessions/{session}/actions/invoke"), body).await
    }

    async fn pending(&self, at: usize, session: &str, text: &str) -> (String, Value) {
        let (status, answer) = self.call(at, session, text).await;
        assert_eq!(status, 202, "{answer}");
        (answer["invocation"]["id"].as_str().unwrap().to_owned(), answer["invocation"]["binding"]["digest"].clone())
    }

    async fn answer(&self, at: usize, way: &str, invocation: &str, body: Value) -> (u16, String) {
        let (status, answer) = self.ask(at, Method::POST, &format!("invocations/{invocation}/{way}"), body).await;
        (status, answer["code"].as_str().unwrap_or("none").to_owned())
    }

    fn effects(&self) -> usize {
        let seen = self.upstream.seen.lock().unwrap();
        assert!(seen.values().all(|times| *times == 1), "something happened twice: {seen:?}");
        seen.len()
    }

    /// Verifies the log with the command line, from each server, with the key file of the first.
    fn verify(&self) {
        let key = self.folders[0].path().join("receipt.pub");
        for at in 0..2 {
            let user = User::new(self.folders[at].path(), self.url(at), Some(&self.owner.token));
            user.run(&["receipt", "verify", "--key", key.to_str().unwrap()]).ok();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_is_used_as_often_as_it_says_by_callers_of_two_processes() {
    let two = Two::start().await;
    // Both servers know every session, and the calls go to them in turn.
    let sessions = futures_util::future::join_all((0..CALLERS / 4).map(|at| two.session(at % 2))).await;
    let mut ran = [0, 0];
    let mut rounds = 0;
    while rounds < ROUNDS_MAX && ran.contains(&0) {
        let grant = json!({ "covers": "http.request", "scope": "org", "calls_max": CALLS });
        let (status, given) = two.ask(rounds % 2, Method::POST, "grants", grant).await;
        assert_eq!(status, 201, "{given}");
        let texts: Vec<_> = (0..CALLERS).map(|at| format!("{rounds}-{at}")).collect();
        let calls = texts.iter().enumerate().map(|(at, text)| two.call(at % 2, &sessions[(at / 2) % sessions.len()], text));
        let answers = futures_util::future::join_all(calls).await;
        assert!(answers.iter().all(|(status, _)| [200, 202].contains(status)), "{answers:?}");
        for (at, (status, _)) in answers.iter().enumerate() {
            ran[at % 2] += usize::from(*status == 200);
        }
        rounds += 1;
        assert_eq!((ran.iter().sum::<usize>(), two.effects()), (CALLS * rounds, CALLS * rounds), "{answers:?}");
        let path = format!("grants/{}", given["id"].as_str().unwrap());
        let (_, shown) = two.ask(rounds % 2, Method::GET, &path, Value::Null).await;
        assert_eq!((&shown["calls_used"], &shown["state"]), (&json!(CALLS), &json!("used_up")));
        // Only ten calls may be pending in a session, so they are denied before the next round.
        for (_, answer) in answers.iter().filter(|(status, _)| *status == 202) {
            let id = answer["invocation"]["id"].as_str().unwrap();
            assert_eq!(two.answer(rounds % 2, "deny", id, json!({})).await.0, 200);
        }
    }
    assert!(!ran.contains(&0), "only one of the two ever ran something: {ran:?}");
    // The metrics of each server count the calls that it ran.
    for (at, ran) in ran.into_iter().enumerate() {
        let text = reqwest::get(format!("{}/metrics", two.url(at))).await.unwrap().text().await.unwrap();
        let counted = text.lines().find_map(|line| {
            let line = line.strip_prefix("countersign_invocations_total{")?;
            line.contains("status=\"succeeded\"").then(|| line.rsplit(' ').next().unwrap().parse::<usize>().unwrap())
        });
        assert_eq!(counted, Some(ran), "{text}");
    }
    two.verify();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_calls_of_a_grant_never_add_up_to_more_than_its_sum_in_two_processes() {
    let two = Two::start().await;
    let sessions = futures_util::future::join_all((0..CALLERS / 8).map(|at| two.session(at % 2))).await;
    let grant = json!({ "covers": "http.request", "scope": "org", "sum_max": { "of": "/body", "max": "500", "per": "24h" } });
    let (status, given) = two.ask(0, Method::POST, "grants", grant).await;
    assert_eq!(status, 201, "{given}");
    // Every body is an amount, and no two are the same.
    let texts: Vec<_> = (0..CALLERS).map(|at| format!("40.{at:06}")).collect();
    let calls = texts.iter().enumerate().map(|(at, text)| two.call(at % 2, &sessions[(at / 2) % sessions.len()], text));
    let answers = futures_util::future::join_all(calls).await;
    assert!(answers.iter().all(|(status, _)| [200, 202].contains(status)), "{answers:?}");
    let ran: Vec<_> = answers.iter().zip(&texts).filter(|((status, _), _)| *status == 200).map(|(_, text)| text).collect();
    let sum = ran.iter().map(|text| countersign_core::Amount::parse(text).unwrap()).sum::<countersign_core::Amount>();
    assert_eq!((ran.len(), two.effects()), (12, 12), "{answers:?}");
    for at in 0..2 {
        let (_, shown) = two.ask(at, Method::GET, &format!("grants/{}", given["id"].as_str().unwrap()), Value::Null).await;
        assert_eq!(shown["sum_max"]["spent"], sum.to_string());
    }
    two.verify();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_process_has_ended_the_other_does_not_run() {
    let two = Two::start().await;
    let session = two.session(0).await;
    let conflict = |status: u16, code: &str| (status, code.to_owned());
    let nothing = || json!({});

    let missing = "inv_00000000000000000000000000";
    assert_eq!(two.answer(1, "approve", missing, nothing()).await, conflict(404, "not_found"));

    let (id, _) = two.pending(0, &session, "denied").await;
    assert_eq!(two.answer(0, "deny", &id, nothing()).await.0, 200);
    assert_eq!(two.answer(1, "approve", &id, nothing()).await, conflict(409, "rejected"));

    let (id, _) = two.pending(0, &session, "once").await;
    let (one, other) = tokio::join!(two.answer(0, "approve", &id, nothing()), two.answer(1, "approve", &id, nothing()));
    let mut statuses = [one.0, other.0];
    statuses.sort_unstable();
    assert_eq!((statuses, two.effects()), ([200, 409], 1), "{one:?} {other:?}");
    assert_eq!(two.answer(1, "approve", &id, nothing()).await, conflict(409, "consumed"));

    let (_, shown) = two.pending(0, &session, "shown").await;
    let (id, _) = two.pending(1, &session, "not shown").await;
    assert_eq!(two.answer(0, "approve", &id, json!({ "binding": shown })).await, conflict(409, "args_mismatch"));

    let reason = |scope: &str| json!({ "scope": scope, "reason": "a test" });
    assert_eq!(two.ask(0, Method::POST, "kill-switches/on", reason("source:http")).await.0, 200);
    assert_eq!(two.answer(1, "approve", &id, nothing()).await, conflict(409, "stopped"));
    assert_eq!(two.call(1, &session, "stopped").await.1["error"], "stopped");
    assert_eq!(two.ask(1, Method::POST, "kill-switches/off", reason("source:http")).await.0, 200);

    assert_eq!(two.ask(0, Method::PUT, "modes/http.request", json!({ "mode": "require_approval" })).await.0, 200);
    assert_eq!(two.answer(1, "approve", &id, nothing()).await, conflict(409, "policy_mismatch"));

    let (id, _) = two.pending(0, &session, "session").await;
    assert_eq!(two.ask(0, Method::POST, &format!("sessions/{session}/end"), nothing()).await.0, 200);
    assert_eq!(two.answer(1, "approve", &id, nothing()).await, conflict(409, "tuple_mismatch"));
    assert_eq!(two.effects(), 1);
    assert!(Path::new(&two.folders[1].path().join("lock")).exists(), "each has a folder of its own");
    two.verify();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_line_waits_at_one_process_for_an_approval_at_the_other() {
    let two = Two::start().await;
    let session = two.session(0).await;
    let (id, _) = two.pending(0, &session, "waited for elsewhere").await;
    // As a process: runs in this one wait for each other.
    let user = User::new(two.folders[1].path(), two.url(1), Some(&two.owner.token)).with_binary();
    let watched = id.clone();
    let waiting = tokio::task::spawn_blocking(move || user.run(&["invocation", "watch", &watched, "--wait", "25s"]));
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(two.answer(0, "approve", &id, json!({})).await.0, 200);
    // Far less than the wait asks for: it was woken.
    tokio::time::timeout(Duration::from_secs(15), waiting).await.expect("woken, not timed out").unwrap().ok();
    assert_eq!(two.effects(), 1);
    two.verify();
}

/// Calls both servers without a pause while the database is away for longer than their leases allow them to begin anything, and waits until
/// both do something again.
async fn come_back(callers: usize, away: Duration) {
    let (proxy, url) = Proxy::before(&testkit::postgres::fresh_database().await).await;
    let two = Arc::new(Two::on(&url).await);
    let allowed = json!({ "mode": "allow" });
    assert_eq!(two.ask(0, Method::PUT, "modes/http.request", allowed).await.0, 200);
    assert_eq!(two.ask(0, Method::POST, "consents", json!({ "purpose": "action:http.request" })).await.0, 201);
    let sessions = [two.session(0).await, two.session(1).await];
    let (done, is_over) = (Arc::new([const { AtomicUsize::new(0) }; 2]), Arc::new(AtomicBool::new(false)));
    let calling: Vec<_> = (0..callers)
        .map(|caller| {
            let (two, session, done, is_over) = (two.clone(), sessions[caller % 2].clone(), done.clone(), is_over.clone());
            tokio::spawn(async move {
                for n in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    let (status, answer) = two.call(caller % 2, &session, &format!("{caller}-{n}")).await;
                    assert!([200, 409, 503].contains(&status), "{answer}");
                    done[caller % 2].fetch_add(usize::from(status == 200), Ordering::Relaxed);
                }
            })
        })
        .collect();
    let both_work = async || {
        let before = [0, 1].map(|at| done[at].load(Ordering::Relaxed));
        while (0..2).any(|at| done[at].load(Ordering::Relaxed) == before[at]) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    both_work().await;
    proxy.cut();
    tokio::time::sleep(away).await;
    proxy.mend();
    tokio::time::timeout(Duration::from_secs(60), both_work()).await.expect("both servers work again while they are called");
    is_over.store(true, Ordering::Relaxed);
    for caller in calling {
        caller.await.unwrap();
    }
    two.effects();
    two.verify();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loaded_servers_work_again_after_an_outage_longer_than_their_leases() {
    come_back(16, Duration::from_secs(LEASE_FENCE_SECONDS + 5)).await;
}

/// The body of a call whose request is sent again to find out what became of it.
fn keyed(upstream: &str, body: &str) -> Value {
    let headers = json!({ "Idempotency-Key": body });
    json!({ "action": "http.request", "params": { "method": "POST", "url": upstream, "headers": headers, "body": body } })
}

/// One server is paused in the middle of its calls until the other counts it as gone and has settled them. Its lease is made to run out, so
/// that the test need not wait for that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_paused_answers_what_its_calls_became() {
    let database = testkit::postgres::fresh_database().await;
    let two = Two::on(&database).await;
    assert_eq!(two.ask(0, Method::PUT, "modes/http.request", json!({ "mode": "allow" })).await.0, 200);
    assert_eq!(two.ask(0, Method::POST, "consents", json!({ "purpose": "action:http.request" })).await.0, 201);
    let session = two.session(0).await;
    let [to_invoke, to_batch] = ["invoke", "batch"].map(|way| format!("sessions/{session}/actions/{way}"));
    let upstream = two.upstream.url.as_str();
    // The upstream answers the one after the pause, and the other never.
    let call = |body: &str| two.ask(0, Method::POST, &to_invoke, keyed(upstream, body));
    let (answered, lost) = (call("held, then answered"), call("held, then lost"));
    let parts = json!({ "mode": "best_effort", "actions": [keyed(upstream, "held in a batch"), keyed(upstream, "the next part")] });
    let batch = two.ask(0, Method::POST, &to_batch, parts);
    let pause = async {
        let count = |body: &str| two.upstream.seen.lock().unwrap().get(body).copied().unwrap_or(0);
        while ["held, then answered", "held, then lost", "held in a batch"].iter().any(|body| count(body) == 0) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        two.servers[0].signal(Signal::STOP);
        let server = std::fs::read_to_string(two.folders[0].path().join("server.id")).unwrap();
        let gone = format!("UPDATE servers SET seen_at = 0 WHERE id = '{}'", server.split(' ').next().unwrap());
        for path in ["invocations?status=running", "batches"] {
            let is_left = async || {
                testkit::postgres::tamper(&database, &gone).await;
                let (_, listed) = two.ask(1, Method::GET, path, Value::Null).await;
                listed["items"].as_array().unwrap().iter().any(|item| item["status"] == "running")
            };
            while is_left().await {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        two.servers[0].signal(Signal::CONT);
        two.upstream.released.notify_waiters();
    };
    let (answered, lost, batch, ()) = tokio::join!(answered, lost, batch, pause);
    for (status, answer) in [answered, lost] {
        assert_eq!((status, &answer["invocation"]["status"]), (200, &json!("succeeded")), "{answer:#}");
    }
    assert_eq!((batch.0, &batch.1["status"]), (200, &json!("succeeded")), "{:#}", batch.1);
    assert_eq!(two.upstream.seen.lock().unwrap().get("the next part"), Some(&1));
    two.verify();
}

/// The database's clock is two hours ahead of the servers' own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_times_in_a_receipt_are_by_the_clock_of_the_database() {
    const HOUR_MS: u64 = 60 * 60 * 1_000;
    let database = testkit::postgres::fresh_database().await;
    let name = database.split('?').next().unwrap().rsplit('/').next().unwrap();
    let ahead = "CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
                 AS $$ SELECT pg_catalog.clock_timestamp() + interval '2 hours' $$";
    for sql in [ahead, &format!("ALTER DATABASE {name} SET search_path = public, pg_catalog")] {
        testkit::postgres::tamper(&database, sql).await;
    }
    let two = Two::on(&database).await;
    let session = two.session(0).await;
    let (id, _) = two.pending(0, &session, "requested at one, approved at the other").await;
    assert_eq!(two.answer(1, "approve", &id, json!({})).await.0, 200);
    let (_, entries) = two.ask(0, Method::GET, &format!("invocations/{id}/entries"), Value::Null).await;
    let receipt = entries["items"].as_array().unwrap().iter().find(|entry| entry["kind"] == "receipt").unwrap()["payload"].clone();
    let (timing, time) = (&receipt["body"]["timing"], |value: &Value| Timestamp::parse(value.as_str().unwrap()).unwrap());
    let (started, ended, written) = (time(&timing["started_at"]), time(&timing["ended_at"]), time(&receipt["entry"]["at"]));
    assert!(written.millis_since(server::SystemClock.now()) > HOUR_MS, "the database is ahead: {receipt:#}");
    assert!(started <= ended && ended <= written && written.millis_since(started) < HOUR_MS, "{receipt:#}");
    for part in ["queued_ms", "total_ms"] {
        assert!(timing[part].as_u64().unwrap() < HOUR_MS, "{receipt:#}");
    }
    two.verify();
}
