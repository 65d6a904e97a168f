//! What stays of calls, how it is found, and how long it is kept: filters of receipts, stats of actions, retention, digests and energy.

use crate::automations::{digest, ended, id_of, run, saved};
use crate::harness::{Kind, TestServer, on_both_engines};
use countersign_core::energy::Energy;
use countersign_core::source::Error;
use reqwest::Method;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use store::limits::DIGEST_AFTER_SECONDS;

on_both_engines!(
    receipts_are_listed_by_each_of_their_facts,
    a_filter_that_makes_no_sense_is_refused,
    the_stats_of_an_action_tell_success_reward_and_latency,
    an_org_says_how_long_it_keeps_what_it_has,
    a_space_keeps_digests_only_and_its_receipts_verify,
    what_a_run_was_given_is_shown_redacted_and_goes_with_its_calls,
    the_receipt_tells_the_energy_where_the_host_does,
);

const EXECUTE: &str = "/api/v1/actions/execute";
const DAY: u64 = 24 * 60 * 60;

async fn found(server: &TestServer, query: &str) -> Vec<String> {
    let listed = server.owner.get(&format!("/api/v1/receipts?{query}")).await.ok();
    let of = |entry: &Value| entry["invocation_id"].as_str().unwrap_or_default().to_owned();
    listed["items"].as_array().unwrap().iter().map(of).collect()
}

async fn receipts_are_listed_by_each_of_their_facts(kind: Kind) {
    let server = TestServer::start(kind).await;
    server.owner.set_mode("fake.write", "allow").await;
    let agent = server.agent().await;
    let first = agent.invoke("fake.read", json!({})).await.id();
    server.clock.advance_seconds(3_600);
    let request = json!({
        "subject_id": "agent://planner@deviceA", "space_id": "main", "tool_id": "fake.write", "params": { "text": "hello" },
        "idempotency_key": "fake.write|hello", "trace_id": "trace-123", "action_id": "act-7"
    });
    let second = agent.client.post(EXECUTE, request).await.ok()["invocation_id"].as_str().unwrap().to_owned();
    let denied = agent.invoke("fake.destroy", json!({ "text": "x" })).await.id();
    let trace = server.shown(&second).await["trace_id"].as_str().unwrap().to_owned();
    let both = || vec![denied.clone(), second.clone()];
    for (query, expected) in [
        ("status=denied".to_owned(), vec![denied.clone()]),
        ("status=failed".to_owned(), vec![]),
        (format!("space={}", server.main_space().await), vec![denied.clone(), second.clone(), first.clone()]),
        ("space=main".to_owned(), vec![denied.clone(), second.clone(), first.clone()]),
        ("space=spc_00000000000000000000000000".to_owned(), vec![]),
        ("since=30m".to_owned(), both()),
        ("until=30m".to_owned(), vec![first.clone()]),
        ("since=2020-01-01T00:00:00Z&until=30m".to_owned(), vec![first.clone()]),
        ("idempotency_key=fake.write%7Chello".to_owned(), vec![second.clone()]),
        (format!("trace_id={trace}"), vec![second.clone()]),
        ("subject=agent%3A%2F%2Fplanner%40deviceA".to_owned(), vec![second.clone()]),
        ("action_id=act-7".to_owned(), vec![second.clone()]),
        ("action_id=act-7&status=denied".to_owned(), vec![]),
        ("action=fake.destroy&status=denied".to_owned(), vec![denied.clone()]),
        ("action=fake.destroy&status=succeeded".to_owned(), vec![]),
    ] {
        assert_eq!(found(&server, &query).await, expected, "{query}");
    }
    for (query, expected) in [("action_id=act-7", vec![&second]), ("action_id=act", vec![])] {
        let listed = server.owner.get(&format!("/api/v1/invocations?{query}")).await.ok();
        let ids: Vec<_> = listed["items"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
        assert_eq!(ids, expected, "{query}");
    }
    server.verify().await;
}

async fn a_filter_that_makes_no_sense_is_refused(kind: Kind) {
    let server = TestServer::start(kind).await;
    for query in ["status=done", "since=yesterday", "until=", "since=99999999d", "subject=%00", "trace=x", "trace_id=%00", "action_id=%00"]
    {
        server.owner.get(&format!("/api/v1/receipts?{query}")).await.problem(400, "invalid_query");
    }
    for unknown in ["nowhere", "%00", "spc_nowhere"] {
        server.owner.get(&format!("/api/v1/receipts?space={unknown}")).await.problem(404, "not_found");
    }
    server.owner.get("/api/v1/actions/fake.read/stats?since=soon").await.problem(400, "invalid_query");
    server.owner.get("/api/v1/actions/fake.nothing/stats").await.problem(404, "unknown_action");
    server.agent().await.client.get("/api/v1/actions/fake.read/stats").await.problem(403, "forbidden");
}

async fn the_stats_of_an_action_tell_success_reward_and_latency(kind: Kind) {
    let server = TestServer::start(kind).await;
    let stats = "/api/v1/actions/fake.write/stats";
    let nothing = json!({
        "action": "fake.write", "calls": {}, "executed": 0, "success_rate": null, "mean_reward": null, "latency_ms": null
    });
    assert_eq!(server.owner.get(stats).await.ok(), nothing);
    let agent = server.agent().await;
    let pending = agent.pending("fake.write", json!({ "text": "no" })).await;
    server.owner.deny(&pending, "no").await.ok();
    server.owner.set_mode("fake.write", "allow").await;
    let mut rewards = 0.0;
    for text in ["a", "b", "c", "d"] {
        if text == "d" {
            server.source.will_fail(Error::Failed { code: "no", message: "no".into() });
        }
        let id = agent.invoke("fake.write", json!({ "text": text })).await.id();
        rewards += server.receipt_of(&id).await["reward"]["scalar_millionths"].as_f64().unwrap() / 1_000_000.0;
    }
    agent.invoke_with(json!({ "action": "fake.write", "params": { "text": "e" }, "dry_run": true })).await.ok();
    let told = server.owner.get(stats).await.ok();
    assert_eq!(told["calls"], json!({ "denied": 1, "failed": 1, "succeeded": 4 }));
    assert_eq!((&told["executed"], &told["success_rate"]), (&json!(4), &json!(0.75)), "a dry run is not an effect: {told}");
    assert!((told["mean_reward"].as_f64().unwrap() - rewards / 4.0).abs() < 1e-9, "{told}");
    assert_eq!(told["latency_ms"], json!({ "mean": 0.0, "p50": 0, "p95": 0, "max": 0 }), "the clock stands still");
    server.clock.advance_seconds(3_600);
    assert_eq!(server.owner.get(&format!("{stats}?since=30m")).await.ok(), nothing);
}

async fn an_org_says_how_long_it_keeps_what_it_has(kind: Kind) {
    let server = TestServer::start(kind).await;
    assert_eq!(server.owner.get("/api/v1/retention").await.ok(), json!({}));
    let set = async |body: Value| server.owner.send(Method::PUT, "/api/v1/retention", Some(body)).await;
    for wrong in [
        json!({ "events_days": 1 }),
        json!({ "receipts_days": 30 }),
        json!({ "snapshots_days": 181 }),
        json!({ "snapshot_bytes_max": 1 }),
        json!({ "events_days": -1 }),
        json!({ "days": 7 }),
    ] {
        set(wrong).await.problem(400, "invalid_request");
    }
    let agent = server.agent().await;
    agent.client.send(Method::PUT, "/api/v1/retention", Some(json!({}))).await.problem(403, "forbidden");
    let old = agent.invoke("fake.read", json!({})).await;
    let receipt = old.body["invocation"]["receipt"]["id"].as_str().unwrap().to_owned();
    let wanted = json!({ "receipts_days": 30, "events_days": 7, "snapshots_days": 30, "snapshot_bytes_max": 100_000_000 });
    assert_eq!(set(wanted.clone()).await.ok(), wanted);
    assert_eq!(server.owner.get("/api/v1/retention").await.ok(), wanted);
    assert_eq!(server.rules().await.last().unwrap(), &json!({ "rule": "retention_set", "retention": wanted }));
    server.clock.advance_seconds(31 * DAY);
    // The days of events are counted back from the newest entry of the log.
    server.owner.set_mode("fake.read", "allow").await;
    server.store.forget_old(&server.org).await.unwrap();
    server.owner.get(&format!("/api/v1/invocations/{}", old.id())).await.problem(404, "not_found");
    assert_eq!(found(&server, "action=fake.read").await, Vec::<String>::new());
    assert_eq!(found(&server, "limit=10").await, [old.id()], "the audit log keeps every receipt");
    server.owner.get(&format!("/api/v1/receipts/{receipt}/proof")).await.ok();
    // A reader who has missed forgotten events is told, and can begin with the oldest that is left.
    server.owner.get("/api/v1/stream?after=1").await.problem(400, "invalid_request");
    assert_eq!(server.owner.get("/api/v1/receipts/integrity").await.ok()["ok"], true);
    server.verify().await;
}

async fn a_space_keeps_digests_only_and_its_receipts_verify(kind: Kind) {
    let server = TestServer::start(kind).await;
    server.change_space(json!({ "keeps": "digests" })).await;
    let agent = server.agent().await;
    let pending = agent.pending("fake.write", json!({ "text": "her diagnosis" })).await;
    server.owner.deny(&pending, "her diagnosis is nobody's business").await.ok();
    server.owner.set_mode("fake.write", "allow").await;
    let older = json!({ "tool_id": "fake.write", "space_id": "main", "params": { "text": "hello" }, "note": "her diagnosis" });
    assert_eq!(agent.client.post(EXECUTE, older).await.ok()["status"], "ok");
    let call = agent.invoke_with(json!({ "action": "fake.write", "params": { "text": "her diagnosis" }, "reason": "she asked" })).await;
    let id = call.id();
    assert_eq!(server.shown(&id).await["params"]["text"], "her diagnosis", "until whoever waits has had the result");
    server.clock.advance_seconds(DIGEST_AFTER_SECONDS + 1);
    assert_eq!(server.store.digest_ended(&server.org).await, Ok(3));
    let (shown, receipt) = (server.shown(&id).await, server.receipt_of(&id).await);
    assert_eq!(shown["params"], json!({ "_digest": receipt["params"] }));
    assert_eq!(shown["result"], json!({ "_digest": receipt["outputs"]["digest"] }));
    let everything = server.owner.get(&format!("/api/v1/invocations/{id}")).await.body.to_string();
    let mut backup = Vec::new();
    server.store.backup(&mut backup).await.unwrap();
    for kept in [everything, String::from_utf8_lossy(&backup).into_owned()] {
        let left = kept.lines().find(|line| line.contains("diagnosis") || line.contains("she asked"));
        assert_eq!(left, None);
    }
    assert_eq!(server.owner.get("/api/v1/receipts/integrity").await.ok()["ok"], true);
    server.verify().await;
}

async fn what_a_run_was_given_is_shown_redacted_and_goes_with_its_calls(kind: Kind) {
    let server = TestServer::start(kind).await;
    let working = server.work();
    server.change_space(json!({ "redaction": { "kinds": ["email"], "regions": [] } })).await;
    server.owner.set_mode("fake.write", "allow").await;
    let viewer = server.owner.person("vera", "viewer").await;
    let id = id_of(&saved(&server.owner, digest()).await);
    let secret = format!("ghp_{}", "16C7e42F292c6912E7710c838347Ae178B4a");
    let text = format!("write to jane.doe@example.com with {secret}");
    let first = run(&server.owner, &id, json!({ "text": text })).await;
    let shown = ended(&viewer, &first).await;
    assert_eq!(shown["inputs"], json!({ "text": "write to <EMAIL_1> with [redacted]" }), "{shown:#}");
    assert_eq!((&shown["status"], &shown["output"]), (&json!("succeeded"), &json!({ "done": true })));
    let listed = viewer.get("/api/v1/runs").await.ok()["items"][0].clone();
    assert_eq!((&listed["id"], &listed["inputs"], &listed["output"]), (&json!(first), &Value::Null, &Value::Null), "a list has no texts");
    // Its steps read what it was given, and so do those of whoever runs it again.
    let rerun = format!("/api/v1/runs/{first}/rerun");
    let again = server.owner.post(&rerun, json!({})).await;
    assert_eq!((again.status, &again.body["outcome"]), (202, &json!("started")), "{again:?}");
    assert_eq!(ended(&viewer, again.body["run_id"].as_str().unwrap()).await["inputs"], shown["inputs"]);
    let received: Vec<_> = server.source.calls().iter().map(|call| call.params["text"].clone()).collect();
    assert_eq!(received, vec![json!(format!("write to <EMAIL_1> with {secret}")); 4]);
    let mut backup = Vec::new();
    server.store.backup(&mut backup).await.unwrap();
    let left = String::from_utf8_lossy(&backup).lines().find(|line| line.contains(&secret) || line.contains("jane.doe")).map(str::to_owned);
    assert_eq!(left, None);

    drop(working);
    server.change_space(json!({ "keeps": "digests" })).await;
    server.clock.advance_seconds(DIGEST_AFTER_SECONDS + 1);
    server.store.digest_ended(&server.org).await.unwrap();
    let path = format!("/api/v1/runs/{first}");
    let shown = viewer.get(&path).await.ok();
    assert_eq!((&shown["status"], &shown["inputs"], &shown["output"]), (&json!("succeeded"), &Value::Null, &Value::Null));
    assert_eq!((&shown["steps"][1]["status"], &shown["steps"][1]["output"]), (&json!("succeeded"), &Value::Null));
    server.owner.post(&rerun, json!({})).await.problem(422, "inputs_invalid");
    server.owner.post(&rerun, json!({ "from_step": "write", "inputs": { "text": "b" } })).await.problem(409, "rerun_refused");
    assert_eq!(
        server.owner.post(&rerun, json!({ "inputs": { "text": "b" } })).await.status,
        202,
        "with inputs of its own all of it can run"
    );

    let keep = json!({ "receipts_days": 30, "snapshots_days": 30 });
    server.owner.send(Method::PUT, "/api/v1/retention", Some(keep)).await.ok();
    server.clock.advance_seconds(31 * DAY);
    assert_eq!(server.store.forget_old(&server.org).await.unwrap().runs, 2);
    server.owner.get(&path).await.problem(404, "not_found");
    assert_eq!(server.owner.get("/api/v1/receipts/integrity").await.ok()["ok"], true);
    server.verify().await;
}

/// A host whose processors use 1,800 microjoules between any two looks.
#[derive(Default)]
struct Host(AtomicU64);

impl Energy for Host {
    fn total_uj(&self) -> Option<u64> {
        Some(self.0.fetch_add(1_800, Ordering::SeqCst))
    }
}

async fn the_receipt_tells_the_energy_where_the_host_does(kind: Kind) {
    let request = json!({ "space_id": "main", "tool_id": "fake.read", "params": {} });
    let server = TestServer::start_metered(kind, Arc::new(Host::default())).await;
    let told = server.agent().await.client.post(EXECUTE, request.clone()).await.ok();
    let energy_uj = server.receipt_of(told["invocation_id"].as_str().unwrap()).await["cost"]["energy_uj"].as_u64().unwrap();
    assert!(energy_uj >= 1_800 && energy_uj % 1_800 == 0, "{energy_uj}");
    assert_eq!(told["cost"]["energy_mwh"], json!(energy_uj as f64 / 3_600_000.0));
    let metric = format!("countersign_action_energy_microjoules_total{{action=\"fake.read\"}} {energy_uj}");
    let metrics = server.owner.get("/metrics").await.body.as_str().unwrap().to_owned();
    assert!(metrics.lines().any(|line| line == metric), "{metric} is not in {metrics}");
    server.verify().await;

    let silent = TestServer::start(kind).await;
    let told = silent.agent().await.client.post(EXECUTE, request).await.ok();
    assert_eq!(told["cost"]["energy_mwh"], Value::Null);
    let cost = silent.receipt_of(told["invocation_id"].as_str().unwrap()).await["cost"].clone();
    assert_eq!(cost, json!({ "cpu_ms": null }));
    silent.verify().await;
}
