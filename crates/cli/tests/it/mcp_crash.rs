//! Kills the server while an MCP server works on a call: a write is in doubt and never repeated, a read simply fails, and a program in the
//! jail is gone with the server. What such a program could not have changed, it has not.

use crate::countersign::{User, below};
use crate::crash::{Client, Serving, new_command, verify};
use crate::mcp::{Program, settings, until};
use crate::mcp_upstream::{Reply, Then, Upstream};
use reqwest::Method;
use serde_json::{Value, json};
use std::path::Path;

/// A server that can be killed and started again on the same data.
struct Ground<'a> {
    folder: &'a Path,
    database: Option<&'a str>,
    hosts: Vec<&'a str>,
    programs: Vec<&'a Program>,
}

impl Ground<'_> {
    fn start(&self) -> Serving {
        let mut command = new_command(env!("CARGO_BIN_EXE_countersign"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(self.folder.join("data"));
        command.args(self.database.iter().flat_map(|url| ["--database", url]));
        command.envs(settings(self.folder, &self.hosts, &self.programs));
        Serving::spawn(command)
    }

    fn owner(&self) -> Client {
        Client::new(std::fs::read_to_string(self.folder.join("data/owner.token")).unwrap().trim().to_owned())
    }

    /// Adds a source, and reads everything of it that nobody has read.
    async fn add(&self, serving: &Serving, name: &str, rest: &[&str]) {
        let owner = self.owner();
        let user = User::new(self.folder, &serving.url, Some(&owner.token));
        user.run(&[&["source", "add", name][..], rest].concat()).ok();
        user.run(&["source", "review", name, "--yes"]).ok();
    }

    /// Calls an action in a session of its own, and does not wait for the answer.
    async fn call(&self, serving: &Serving, action: &str, params: Value) -> tokio::task::JoinHandle<bool> {
        let (owner, url) = (self.owner(), serving.url.clone());
        let set = owner.send(&url, Method::PUT, &format!("modes/{action}"), json!({ "mode": "allow" })).await.unwrap();
        assert_eq!(set.0, 200, "{:#}", set.1);
        let consent = owner.send(&url, Method::POST, "consents", json!({ "purpose": format!("action:{action}") })).await.unwrap();
        assert_eq!(consent.0, 201, "{:#}", consent.1);
        let (_, session) = owner.send(&url, Method::POST, "sessions", json!({})).await.unwrap();
        let path = format!("sessions/{}/actions/invoke", session["id"].as_str().unwrap());
        let body = json!({ "action": action, "params": params });
        tokio::spawn(async move { owner.send(&url, Method::POST, &path, body).await.is_ok() })
    }

    /// The calls of an action, once none of them is running any more.
    async fn calls(&self, serving: &Serving, action: &str) -> Vec<Value> {
        let (owner, path) = (self.owner(), format!("invocations?action={action}&limit=100"));
        let (_, listed) = owner.send(&serving.url, Method::GET, &path, Value::Null).await.unwrap();
        let mut calls = Vec::new();
        for call in listed["items"].as_array().unwrap() {
            let path = format!("invocations/{}?wait=20s", call["id"].as_str().unwrap());
            let (_, shown) = owner.send(&serving.url, Method::GET, &path, Value::Null).await.unwrap();
            calls.push(shown["invocation"].clone());
        }
        calls
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_during_a_call_over_http_leaves_a_write_in_doubt_and_repeats_nothing() {
    die_during_a_call(None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_during_a_call_over_http_on_postgresql_leaves_a_write_in_doubt_and_repeats_nothing() {
    die_during_a_call(Some(testkit::postgres::fresh_database().await)).await;
}

async fn die_during_a_call(database: Option<String>) {
    server::init_process();
    let (folder, upstream) = (tempfile::tempdir().unwrap(), Upstream::start());
    let ground = Ground { folder: folder.path(), database: database.as_deref(), hosts: vec![upstream.origin()], programs: Vec::new() };
    let mut serving = ground.start();
    ground.add(&serving, "kit", &["--mcp", &upstream.url, "--trust-hints"]).await;
    // It works for ever on every call.
    upstream.answers(|asked| (asked.method() == "tools/call").then(|| Reply::stream(Then::Silence)));
    for (tool, number) in [("set", 1), ("look", 2)] {
        let called = ground.call(&serving, &format!("kit.{tool}"), json!({ "text": "once" })).await;
        upstream.wait_for_call(tool);
        serving.kill();
        assert!(!called.await.unwrap(), "{tool}: the caller was answered");
        serving = ground.start();
        let calls = ground.calls(&serving, &format!("kit.{tool}")).await;
        match tool {
            "set" => {
                assert_eq!((calls.len(), &calls[0]["status"]), (1, &json!("in_doubt")), "{calls:#?}");
                assert_eq!(calls[0]["error"]["code"], "interrupted", "{calls:#?}");
            }
            // A read is announced to nobody, so there may be no trace of it.
            _ => assert!(calls.iter().all(|call| call["status"] == "failed"), "{calls:#?}"),
        }
        assert_eq!(upstream.calls("set"), 1, "after {number} kills");
    }
    // The source is still there, with its reviews, and works.
    upstream.answers(|_| None);
    assert!(ground.call(&serving, "kit.set", json!({ "text": "twice" })).await.await.unwrap());
    let calls = ground.calls(&serving, "kit.set").await;
    assert_eq!((calls.len(), &calls[0]["status"]), (2, &json!("succeeded")), "{calls:#?}");
    assert_eq!(upstream.calls("set"), 2);
    let report = verify(&ground.owner(), &serving.url, &folder.path().join("data")).await;
    assert!(report.ok, "{report:#?}");
}

/// The processes of the program below the server.
fn programs(serving: &Serving) -> Vec<u32> {
    let is_it = |process: &u32| {
        let line = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains("server-everything")
    };
    below(serving.process_id()).into_iter().filter(is_it).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_during_a_call_of_a_program_that_reaches_nothing_takes_it_along_and_nothing_was_done() {
    die_during_a_call_of(Program::installed("server-everything", &[]), "failed").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_during_a_call_of_a_program_that_keeps_something_takes_it_along_and_leaves_the_call_in_doubt() {
    die_during_a_call_of(Program::installed("server-everything", &[]).with_folder(), "in_doubt").await;
}

async fn die_during_a_call_of(program: Program, status: &str) {
    server::init_process();
    let folder = tempfile::tempdir().unwrap();
    let ground = Ground { folder: folder.path(), database: None, hosts: Vec::new(), programs: vec![&program] };
    let mut serving = ground.start();
    ground.add(&serving, "everything", &[&["--default-tier", "R2", "--accept-irreversible"][..], &program.words()[..]].concat()).await;
    let action = "everything.trigger-long-running-operation";
    let called = ground.call(&serving, action, json!({ "duration": 60, "steps": 60 })).await;
    until("the call is running", || !programs(&serving).is_empty()).await;
    let owner = ground.owner();
    let is_running = async || {
        let path = format!("invocations?action={action}&status=running");
        let (_, listed) = owner.send(&serving.url, Method::GET, &path, Value::Null).await.unwrap();
        listed["items"].as_array().is_some_and(|items| !items.is_empty())
    };
    while !is_running().await {
        assert!(!called.is_finished(), "the call ended");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let processes = programs(&serving);
    serving.kill();
    assert!(!called.await.unwrap(), "the caller was answered");
    until("the program is gone", || {
        // A process that is dead and not yet reaped has no command line.
        processes.iter().all(|process| std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default().is_empty())
    })
    .await;
    let serving = ground.start();
    let calls = ground.calls(&serving, action).await;
    assert_eq!((calls.len(), &calls[0]["status"], &calls[0]["error"]["code"]), (1, &json!(status), &json!("interrupted")), "{calls:#?}");
    let report = verify(&ground.owner(), &serving.url, &folder.path().join("data")).await;
    assert!(report.ok, "{report:#?}");
}
