//! Tests the server as a process: what it logs and never logs, what it counts, what it refuses before HTTP, and how it stops.

use crate::countersign::{Server, User};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;
use testkit::certificates::{FIRST, ROOT, SECOND, replace};

/// A secret that the test puts into every field a caller can fill.
const SECRET: &str = "hunter2-4f1d9c77e0a94b63";

#[tokio::test]
async fn nothing_secret_is_ever_logged() {
    server::init_process();
    let server = Server::start_with(&[
        ("COUNTERSIGN_LOG_LEVEL", "trace"),
        ("COUNTERSIGN_LOG_FORMAT", "json"),
        ("COUNTERSIGN_HTTP_ALLOWED_HOSTS", "http://nowhere.example"),
    ]);
    let owner = server.owner();
    let session = owner.run(&["session", "create", "--json"]).ok().json();
    let (id, token) = (session["id"].as_str().unwrap(), session["token"].as_str().unwrap());
    let http = reqwest::Client::new();
    let url = format!("{}/api/v1/sessions/{id}/actions/invoke", server.url);
    for body in [
        json!({ "action": "files.write_text", "params": { "path": "a.txt", "text": SECRET }, "reason": SECRET, "idempotency_key": SECRET }),
        json!({ "action": "files.read_text", "params": { "path": SECRET } }),
        json!({ "action": "files.read_text", "params": { "password": SECRET } }),
        json!({ "action": "http.get", "params": { "url": format!("http://{SECRET}.example/?token={SECRET}") } }),
        json!({ "action": "http.get", "params": { "url": format!("http://nowhere.example/{SECRET}?token={SECRET}") } }),
        json!({ "action": format!("files.{SECRET}"), "params": {} }),
    ] {
        http.post(&url).bearer_auth(token).json(&body).send().await.unwrap();
    }
    http.post(&url).bearer_auth(token).body(format!("{{\"{SECRET}\"")).send().await.unwrap();
    http.post(&url).bearer_auth(SECRET).body("{}").send().await.unwrap();
    let waiting = owner.run(&["inbox", "-o", "name"]).ok().stdout;
    // Two calls are pending: the write, and the request that needs approval because of the secret in it.
    let waiting: Vec<_> = waiting.lines().collect();
    assert_eq!(waiting.len(), 2, "{waiting:?}");
    for id in waiting {
        owner.run(&["approve", id, "--reason", SECRET]);
    }
    let logged = server.logged();
    let lines: Vec<Value> = logged.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect();
    assert!(lines.iter().any(|line| line["message"] == "invocation" && line["trace_id"].is_string()), "{logged}");
    let ended = lines.iter().find(|line| line["message"] == "invocation" && line["status"] == "succeeded").unwrap();
    assert!(ended["source"] == "files" && ended["tier"] == "R2" && ended["duration_ms"].is_u64(), "{ended}");
    let owner_token = std::fs::read_to_string(server.data().join("owner.token")).unwrap();
    for secret in [SECRET, token, owner_token.trim()] {
        let leaks: Vec<_> = logged.lines().filter(|line| line.contains(secret)).collect();
        assert!(leaks.is_empty(), "{leaks:#?}");
    }
}

#[tokio::test]
async fn a_grant_is_logged_when_it_is_given_used_and_revoked() {
    server::init_process();
    let server = Server::start_with(&[("COUNTERSIGN_LOG_FORMAT", "json")]);
    let owner = server.owner();
    let session = owner.run(&["session", "create", "--json"]).ok().json();
    let session = session["id"].as_str().unwrap();
    let given = owner.run(&["grant", "give", "files.write_text", "--session", session, "--json"]).ok().json();
    let grant = given["id"].as_str().unwrap();
    owner.run(&["action", "invoke", "files.write_text", "path=a", "text=b", "--session", session]).ok();
    owner.run(&["grant", "revoke", grant, "--yes"]).ok();
    let logged = server.logged();
    for what in ["grant given", "grant used", "grant revoked"] {
        let line = logged.lines().find(|line| line.contains(what)).unwrap_or_else(|| panic!("{what}: {logged}"));
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!((&line["grant"], &line["session"]), (&json!(grant), &json!(session)), "{line}");
        assert!(line["org"].is_string(), "{line}");
    }
}

#[tokio::test]
async fn what_happens_is_counted() {
    server::init_process();
    let server = Server::start_binary();
    let owner = server.owner();
    owner.run(&["action", "invoke", "files.list"]).ok();
    owner.run(&["action", "invoke", "files.read_text", "path=missing"]).exits(1);
    let held = owner.run(&["action", "invoke", "files.write_text", "path=a", "text=b", "--no-wait"]).exits(6).stdout;
    owner.run(&["action", "invoke", "files.write_text", "path=c", "text=d", "--no-wait"]).exits(6);
    owner.run(&["approve", held.trim()]).ok();
    let scrape = async || reqwest::get(format!("{}/metrics", server.url)).await.unwrap().text().await.unwrap();
    let metrics = scrape().await;
    for expected in [
        r#"countersign_invocations_total{mode="allow",status="succeeded"} 1"#,
        r#"countersign_invocations_total{mode="require_approval",status="pending"} 2"#,
        r#"countersign_invocations_total{mode="require_approval",status="succeeded"} 1"#,
        "countersign_approval_seconds_count 1",
        // Approval times get large buckets, because people take their time.
        r#"countersign_approval_seconds_bucket{le="3600"} 1"#,
        r#"countersign_stage_seconds_count{stage="decide"} 4"#,
        r#"countersign_action_seconds_count{action="files.list"} 1"#,
        r#"countersign_action_ended_total{action="files.write_text",status="succeeded",code=""} 1"#,
        r#"countersign_action_ended_total{action="files.read_text",status="failed",code="file_not_found"} 1"#,
        r#"countersign_action_retries_total{action="files.read_text"} 0"#,
        r#"countersign_action_cpu_milliseconds_total{action="files.read_text"} 0"#,
    ] {
        assert!(metrics.lines().any(|line| line == expected), "{expected} is not in\n{metrics}");
    }
    // The log has one line for each status of a call; the line of its end says what it stood under and what it took.
    let logged = server.logged();
    let lines: Vec<Value> = logged.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let line = |action: &str, status: &str| {
        let is_it = |line: &&Value| line["message"] == "invocation" && line["action"] == action && line["status"] == status;
        lines.iter().find(is_it).unwrap_or_else(|| panic!("{action} {status} is not in {logged}")).clone()
    };
    let listed = line("files.list", "succeeded");
    assert!(listed["space"].as_str().is_some_and(|space| space.starts_with("spc_")), "{listed}");
    assert_eq!((&listed["outcome"], &listed["retries"], &listed["profile"]), (&json!("succeeded"), &json!(0), &json!("in_process")));
    assert!(listed["requires"].as_str().is_some_and(|requires| !requires.is_empty()), "{listed}");
    assert_eq!(line("files.read_text", "failed")["outcome"], "file_not_found");
    // A background loop updates these metrics every few seconds.
    for _ in 0..200 {
        let metrics = scrape().await;
        if metrics.lines().any(|line| line == "countersign_pending 1") {
            for expected in ["countersign_in_doubt 0", "countersign_breakers_open 0"] {
                assert!(metrics.lines().any(|line| line == expected), "{expected} is not in\n{metrics}");
            }
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the depth of the queue was never told");
}

/// The server notices the expiry by itself, and publishes an event.
#[tokio::test]
async fn a_grant_past_its_time_is_told_without_anybody_touching_it() {
    let server = Server::start_binary();
    let owner = server.owner();
    let id = owner.run(&["grant", "give", "files.write_text", "--org", "--expires", "1s", "-o", "name"]).ok().stdout;
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    // A backup contains the events, and making one does not touch the grant.
    let (mut told, mut tries) = (None, 0);
    while told.is_none() {
        assert!(std::time::Instant::now() < deadline, "the sweep never came");
        tokio::time::sleep(Duration::from_millis(500)).await;
        let name = format!("{tries}.backup");
        owner.run(&["backup", &name, "--data", "data"]).ok();
        let text = std::fs::read_to_string(owner.folder().join(name)).unwrap();
        told = text.lines().find(|line| line.contains("grant.expired")).map(str::to_owned);
        tries += 1;
    }
    assert!(told.unwrap().contains(id.trim()));
    assert_eq!(owner.run(&["grant", "show", id.trim(), "--json=state"]).ok().json()["state"], "expired");
    owner.run(&["receipt", "verify"]).ok();
}

#[test]
fn headers_that_are_too_large_are_refused_and_the_server_goes_on() {
    let server = Server::start_binary();
    let address = server.url.trim_start_matches("http://").to_owned();
    let answered = |request: &str| {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        // The server may close the connection before it has read the whole request.
        let _closed = stream.write_all(request.as_bytes());
        let mut answer = String::new();
        let _reset = stream.read_to_string(&mut answer);
        answer
    };
    let large = format!("GET /healthz HTTP/1.1\r\nhost: a\r\nx: {}\r\n\r\n", "x".repeat(64 * 1024));
    assert!(answered(&large).starts_with("HTTP/1.1 431 "));
    assert!(answered("this is not HTTP\r\n\r\n").starts_with("HTTP/1.1 400 "));
    server.owner().run(&["status"]).ok();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn told_to_stop_it_ends_what_runs_and_takes_nothing_new() {
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = format!("http://{}", upstream.local_addr().unwrap());
    let variables = [("COUNTERSIGN_HTTP_ALLOWED_HOSTS", host.as_str()), ("COUNTERSIGN_HTTP_ALLOWED_NETWORKS", "127.0.0.0/8")];
    let mut server = Server::start_with(&variables);
    // Two commands run at the same time, so each must be a process.
    let owner = server.owner().with_binary();
    owner.run(&["mode", "set", "http.request", "allow"]).ok();
    owner.run(&["consent", "give", "http.request"]).ok();
    let params = json!({ "method": "POST", "url": host, "body": "x" }).to_string();
    let calling = std::thread::spawn({
        let owner = owner.clone();
        move || owner.run(&["action", "invoke", "http.request", "--params", &params])
    });
    // The call's request has arrived here, and the test decides when it is answered.
    let (mut stream, _) = upstream.accept().unwrap();
    server.terminate();
    let refused = owner.run(&["status"]);
    assert_ne!(refused.code, 0, "the door is closed: {refused:?}");
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").unwrap();
    calling.join().unwrap().ok();
    assert_eq!(server.wait(), Some(0));
    let again = server.start_again();
    let listed = again.owner().run(&["invocation", "list", "--action", "http.request", "--json"]).ok().json();
    assert_eq!(listed["items"][0]["status"], "succeeded");
    assert!(listed["items"][0]["receipt"].is_object());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn told_to_stop_twice_it_ends_at_once() {
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = format!("http://{}", upstream.local_addr().unwrap());
    let variables = [("COUNTERSIGN_HTTP_ALLOWED_HOSTS", host.as_str()), ("COUNTERSIGN_HTTP_ALLOWED_NETWORKS", "127.0.0.0/8")];
    let mut server = Server::start_with(&variables);
    let owner = server.owner().with_binary();
    owner.run(&["mode", "set", "http.request", "allow"]).ok();
    owner.run(&["consent", "give", "http.request"]).ok();
    let params = json!({ "method": "POST", "url": host, "body": "x" }).to_string();
    let calling = std::thread::spawn({
        let owner = owner.clone();
        move || owner.run(&["action", "invoke", "http.request", "--params", &params])
    });
    // The call's request has arrived here, and is never answered.
    let (_stream, _) = upstream.accept().unwrap();
    server.terminate();
    let refused = owner.run(&["status"]);
    assert_ne!(refused.code, 0, "the door is closed, and the call goes on: {refused:?}");
    server.terminate();
    assert_eq!(server.wait(), Some(130));
    assert_ne!(calling.join().unwrap().code, 0);
    let again = server.start_again();
    let listed = again.owner().run(&["invocation", "list", "--action", "http.request", "--json"]).ok().json();
    assert_eq!(listed["items"][0]["status"], "in_doubt", "{listed:#}");
}

#[test]
fn data_without_its_master_key_is_not_served_under_a_new_one() {
    let mut server = Server::start_binary();
    let (data, owner) = (server.data(), server.owner());
    server.terminate();
    server.wait();
    let (key, kept) = (data.join("master.key"), data.join("kept.key"));
    std::fs::rename(&key, &kept).unwrap();
    let refused = owner.run(&["serve", "--data", "data", "--listen", "127.0.0.1:0"]).exits(1);
    assert!(refused.stderr.contains("master.key") && refused.stderr.contains("is missing"), "{}", refused.stderr);
    assert!(!key.exists(), "no key was made in its place");
    std::fs::rename(&kept, &key).unwrap();
    server.start_again().owner().run(&["status"]).ok();
}

#[test]
fn a_wrong_setting_is_told_in_one_line_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let somebody = User::new(folder.path(), "http://127.0.0.1:1", None);
    std::fs::create_dir(folder.path().join("data")).unwrap();
    std::fs::write(folder.path().join("data/countersign.toml"), "# fine\nlissen = \"127.0.0.1:0\"\n").unwrap();
    let refused = somebody.run(&["serve", "--data", "data"]).exits(2);
    assert!(refused.stderr.contains("line 2: unknown field `lissen`"), "{}", refused.stderr);
    assert!(!refused.stderr.contains("\\n"), "{}", refused.stderr);
    for wrong in ["nonsense", "127.0.0.1", ":7117", "127.0.0.1:70000"] {
        let refused = somebody.run(&["serve", "--data", "other", "--listen", wrong]).exits(2);
        assert!(refused.stderr.contains("is not a host and a port"), "{wrong}: {}", refused.stderr);
    }
    assert!(!folder.path().join("other").exists(), "nothing was made");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_waits_for_a_database_that_is_away() {
    server::init_process();
    let (proxy, database) = testkit::proxy::Proxy::before(&testkit::postgres::fresh_database().await).await;
    proxy.cut();
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut child = User::new(folder.path(), "http://127.0.0.1:1", None)
        .command(&["serve", "--data", "data", "--listen", "127.0.0.1:0", "--database", &database])
        .stdout(std::process::Stdio::null())
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let line = |words: &str| {
        let text = std::fs::read_to_string(&log).unwrap();
        text.lines().find(|line| line.contains(words)).map(|line| serde_json::from_str::<Value>(line).unwrap())
    };
    let waiting = until(async || line("waiting for the database")).await;
    let address = waiting["fields"]["address"].as_str().or(waiting["address"].as_str()).unwrap().to_owned();
    let get = async |path: &str| {
        let answer = reqwest::get(format!("http://{address}{path}")).await.ok()?;
        Some((answer.status().as_u16(), answer.text().await.ok()?))
    };
    assert_eq!(get("/healthz").await.unwrap().0, 200);
    for path in ["/readyz", "/api/v1/whoami"] {
        let (status, problem) = get(path).await.unwrap();
        let problem: Value = serde_json::from_str(&problem).unwrap();
        assert_eq!((status, &problem["code"]), (503, &json!("store_unavailable")), "{problem}");
    }
    proxy.mend();
    until(async || get("/readyz").await.filter(|(status, _)| *status == 200)).await;
    assert!(line("the database is there").is_some());
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Asks until there is an answer.
async fn until<T>(ask: impl AsyncFn() -> Option<T>) -> T {
    for _ in 0..1_200 {
        if let Some(answer) = ask().await {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("it did not come about");
}

#[tokio::test]
async fn a_database_that_refuses_the_server_ends_it_with_the_reason() {
    let database = testkit::postgres::fresh_database().await;
    let (server, _) = database.rsplit_once('/').unwrap();
    let folder = tempfile::tempdir().unwrap();
    let somebody = User::new(folder.path(), "http://127.0.0.1:1", None).with_binary();
    for (database, why) in [(format!("{server}/nobody_made_this"), "does not exist"), ("nonsense".to_owned(), "does not parse")] {
        let refused = somebody.run(&["serve", "--data", "data", "--listen", "127.0.0.1:0", "--database", &database]).exits(1);
        assert!(refused.stderr.contains(why) && !refused.stderr.contains("waiting"), "{}", refused.stderr);
    }
    testkit::postgres::tamper(
        &database,
        "CREATE TABLE schema_migrations (version BIGINT PRIMARY KEY, checksum TEXT NOT NULL, at BIGINT NOT NULL)",
    )
    .await;
    testkit::postgres::tamper(&database, "INSERT INTO schema_migrations VALUES (999, 'x', 0)").await;
    let refused = somebody.run(&["serve", "--data", "data", "--listen", "127.0.0.1:0", "--database", &database]).exits(1);
    assert!(refused.stderr.contains("newer than this binary") && !refused.stderr.contains("waiting"), "{}", refused.stderr);
}

#[test]
fn a_worker_shares_a_database_and_knows_its_queues() {
    let folder = tempfile::tempdir().unwrap();
    let somebody = User::new(folder.path(), "http://127.0.0.1:1", None);
    let refused = somebody.run(&["worker", "--data", "data"]).exits(2);
    assert!(refused.stderr.contains("a worker shares a PostgreSQL database with servers"), "{}", refused.stderr);
    let named = ["worker", "--data", "data", "--database", "postgres://127.0.0.1:1/nowhere", "--queue", "slow"];
    let refused = somebody.run(&named).exits(2);
    assert!(refused.stderr.contains("there is no queue `slow`"), "{}", refused.stderr);
    assert!(!folder.path().join("data").exists(), "nothing was made");
}

#[test]
fn a_private_ca_is_trusted_where_it_is_named_and_remembered_with_a_context() {
    let folder = tempfile::tempdir().unwrap();
    let (cert, key) = FIRST.write(folder.path());
    let root = replace(folder.path(), "root.pem", ROOT);
    let (root, other) = (root.to_str().unwrap(), replace(folder.path(), "other.pem", SECOND.cert));
    let server = Server::start_with(&[("COUNTERSIGN_TLS_CERT", cert.to_str().unwrap()), ("COUNTERSIGN_TLS_KEY", key.to_str().unwrap())]);
    assert!(server.url.starts_with("https://127.0.0.1:"), "{}", server.url);
    let owner = server.owner();
    let refused = owner.run(&["whoami", "--ca-cert", other.to_str().unwrap()]).exits(9);
    assert!(refused.stderr.contains("is not trusted") && refused.stderr.contains("--ca-cert FILE"), "{refused:#?}");
    owner.run(&["whoami", "--ca-cert", root]).ok();
    owner.with_variable("COUNTERSIGN_CA_CERT", root).run(&["whoami"]).ok();
    owner.run(&["whoami", "--ca-cert", key.to_str().unwrap()]).exits(2);
    let token = std::fs::read_to_string(server.data().join("owner.token")).unwrap();
    let person = owner.without_token();
    person.run_with_stdin(&["login", "--token-stdin", "--ca-cert", root], &token).ok();
    person.run(&["whoami"]).ok();
}
