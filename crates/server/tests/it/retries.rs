//! What is made again after it failed: every cell of the table in `docs/concepts/idempotency.md`, for calls and for steps of runs.

use crate::automations::{ended, id_of, run, saved, waiting};
use crate::harness::{Agent, Kind, TestServer, on_both_engines, on_sqlite};
use axum::http::StatusCode;
use countersign_core::Tier;
use countersign_core::action::{Repeatability, Reversibility};
use countersign_core::limits::{ATTEMPTS_MAX, BREAKER_FAILURES_MAX};
use countersign_core::retry::FailureCause;
use countersign_core::source::{AfterError, Error, Output};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

on_both_engines!(
    a_call_that_failed_is_made_again_where_that_does_no_harm,
    a_step_that_failed_is_made_again_where_that_does_no_harm,
    what_may_have_happened_once_is_in_doubt_whatever_comes_after,
);
on_sqlite!(
    nothing_is_made_again_more_often_than_it_may,
    what_a_source_can_tell_is_not_made_again,
    a_call_of_higher_risk_than_its_action_is_no_read,
    a_host_that_cannot_answer_is_asked_again_and_then_left_alone,
);

fn source_id() -> String {
    "fake".to_owned()
}

fn timed_out() -> Error {
    Error::TimedOut { source_id: source_id(), timeout_ms: 1 }
}

fn reported(cause: FailureCause) -> Error {
    let content = Box::new(json!({ "content": [] }));
    Error::Reported { source_id: source_id(), message: "it says no".to_owned(), cause, content, after: AfterError::Unknown }
}

/// What fails, and what is known of it then.
fn failures() -> Vec<(Error, FailureCause)> {
    let failed = |code| Error::Failed { code, message: "nothing was changed".to_owned() };
    vec![
        (Error::Unreachable { source_id: source_id(), message: "away".to_owned() }, FailureCause::NotDone),
        (Error::Busy { source_id: source_id(), message: "it answered 429".to_owned(), retry_after_ms: Some(1) }, FailureCause::NotDone),
        (Error::NoTurn { source_id: source_id(), message: "too many".to_owned() }, FailureCause::NotDone),
        (timed_out(), FailureCause::Unknown),
        (Error::Broken { source_id: source_id(), message: "cut".to_owned() }, FailureCause::Unknown),
        (reported(FailureCause::Passing), FailureCause::Passing),
        (failed("package_failed"), FailureCause::Passing),
        (failed("package_timed_out"), FailureCause::Passing),
        (failed("http_503"), FailureCause::Passing),
        (reported(FailureCause::Final), FailureCause::Final),
        (failed("file_not_found"), FailureCause::Final),
        (failed("package_out_of_memory"), FailureCause::Final),
        (Error::Refused { code: "path_not_allowed", message: "no".to_owned() }, FailureCause::Final),
    ]
}

/// Reads of both tiers, a write that may be made twice, and one that may not.
const ACTIONS: [(&str, Tier, Repeatability); 4] = [
    ("look", Tier::R0, Repeatability::NotRepeatable),
    ("search", Tier::R1, Repeatability::NotRepeatable),
    ("set", Tier::R2, Repeatability::Repeatable),
    ("add", Tier::R2, Repeatability::NotRepeatable),
];

async fn start(kind: Kind) -> TestServer {
    let server = TestServer::start(kind).await;
    for (name, tier, repeatability) in ACTIONS {
        server.source.offer(name, |action| {
            (action.tier, action.repeatability) = (tier, repeatability);
            action.reversibility = if tier < Tier::R2 { Reversibility::NoEffect } else { Reversibility::NotReversible };
        });
        server.owner.set_mode(&format!("fake.{name}"), "allow").await;
    }
    server
}

/// Every cell: what fails, of which action, and whether the table permits another attempt.
fn cells() -> impl Iterator<Item = (Error, &'static str, bool)> {
    failures().into_iter().flat_map(|(error, cause)| {
        assert_eq!(error.cause(), cause, "{error}");
        ACTIONS.map(|(name, tier, repeatability)| (error.clone(), name, cause.permits_another(tier.class(), repeatability)))
    })
}

async fn closes_breakers(server: &TestServer) {
    let open = server.owner.get("/api/v1/breakers").await.ok();
    for breaker in open["items"].as_array().unwrap() {
        server.owner.post("/api/v1/breakers/close", json!({ "key": breaker["key"] })).await;
    }
}

async fn a_call_that_failed_is_made_again_where_that_does_no_harm(kind: Kind) {
    let server = start(kind).await;
    let agent = server.agent().await;
    for (error, name, is_made_again) in cells() {
        let before = server.source.calls().len();
        server.source.will_fail(error.clone());
        let answer = agent.invoke(&format!("fake.{name}"), json!({})).await;
        let calls = server.source.calls().len() - before;
        assert_eq!((calls, answer.status == 200), (if is_made_again { 2 } else { 1 }, is_made_again), "{name}: {error}: {answer:?}");
        if !is_made_again {
            let is_doubted =
                ["set", "add"].contains(&name) && matches!(error, Error::TimedOut { .. } | Error::Broken { .. } | Error::Reported { .. });
            assert_eq!(answer.body["code"] == "in_doubt", is_doubted, "{name}: {error}: {answer:?}");
        }
        closes_breakers(&server).await;
    }
    server.verify().await;
}

fn plan_of(name: &str, action: &str, retries_max: u32) -> Value {
    let step = json!({ "step_id": "only", "action": action, "config": {} });
    let execution = json!({ "retry_backoff": "none", "max_retries": retries_max });
    json!({ "schema_version": "1.0", "name": name, "plan": [step], "execution": execution })
}

async fn a_step_that_failed_is_made_again_where_that_does_no_harm(kind: Kind) {
    let server = start(kind).await;
    let _working = server.work();
    let mut automations = Vec::new();
    for (name, ..) in ACTIONS {
        automations.push((name, id_of(&saved(&server.owner, plan_of(name, &format!("fake.{name}"), 1)).await)));
    }
    for (error, name, is_made_again) in cells() {
        let before = server.source.calls().len();
        server.source.will_fail(error.clone());
        let (_, automation) = automations.iter().find(|(known, _)| *known == name).unwrap();
        let made = run(&server.owner, automation, json!({})).await;
        let is_doubted = name == "add" && matches!(error, Error::TimedOut { .. } | Error::Broken { .. } | Error::Reported { .. });
        // A reported error that is final leaves a write in doubt too; the step of a repeatable one repeats it, because nobody knows.
        let is_doubted_and_repeated = name == "set" && matches!(error, Error::Reported { cause: FailureCause::Final, .. });
        let (shown, expected) = if is_doubted {
            let waits = waiting(&server.owner, &made).await;
            assert_eq!(waits["waiting_for"], "person", "{name}: {error}: {waits:#}");
            let path = format!("/api/v1/invocations/{}/settle", waits["invocation_id"].as_str().unwrap());
            server.owner.post(&path, json!({ "as": "failed", "reason": "I looked" })).await.ok();
            (ended(&server.owner, &made).await, "failed")
        } else {
            (ended(&server.owner, &made).await, if is_made_again || is_doubted_and_repeated { "succeeded" } else { "failed" })
        };
        let calls = server.source.calls().len() - before;
        let expected_calls = if is_made_again || is_doubted_and_repeated { 2 } else { 1 };
        assert_eq!((&shown["status"], calls), (&json!(expected), expected_calls), "{name}: {error}: {shown:#}");
        closes_breakers(&server).await;
    }
    server.verify().await;
}

async fn invoke_at_most(agent: &Agent, name: &str, retries_max: u32) -> Value {
    let qos = json!({ "max_retries": retries_max });
    agent.client.post("/api/v1/actions/execute", json!({ "tool_id": format!("fake.{name}"), "params": {}, "qos": qos })).await.ok()
}

async fn nothing_is_made_again_more_often_than_it_may(kind: Kind) {
    let server = start(kind).await;
    let agent = server.agent().await;
    for name in ["look", "set"] {
        for (retries_max, calls) in [(0, 1), (1, 2), (9, ATTEMPTS_MAX as usize)] {
            let before = server.source.calls().len();
            for _ in 0..calls {
                server.source.will_fail(timed_out());
            }
            let answer = invoke_at_most(&agent, name, retries_max).await;
            assert_eq!((&answer["status"], server.source.calls().len() - before), (&json!("error"), calls), "{name}: {answer:#}");
        }
        closes_breakers(&server).await;
    }
    server.verify().await;
}

/// The second attempt certainly did nothing. The first may have.
async fn what_may_have_happened_once_is_in_doubt_whatever_comes_after(kind: Kind) {
    let server = start(kind).await;
    let agent = server.agent().await;
    for later in [
        Error::Failed { code: "disk_full", message: "nothing was changed".to_owned() },
        Error::Refused { code: "path_not_allowed", message: "no".to_owned() },
        Error::Unreachable { source_id: source_id(), message: "away".to_owned() },
    ] {
        let before = server.source.calls().len();
        server.source.will_fail(timed_out());
        for _ in 1..ATTEMPTS_MAX {
            server.source.will_fail(later.clone());
        }
        let answer = agent.invoke("fake.set", json!({})).await;
        answer.problem(409, "in_doubt");
        assert_eq!(answer.body["error"], "source_timed_out", "{later}: {answer:?}");
        // What was not asked for is not left for the next call.
        let made = server.source.calls().len() - before;
        for _ in made..ATTEMPTS_MAX as usize {
            invoke_at_most(&agent, "look", 0).await;
        }
        closes_breakers(&server).await;
    }
    server.verify().await;
}

/// Its source is asked before anything is made again.
async fn what_a_source_can_tell_is_not_made_again(kind: Kind) {
    use countersign_core::source::Reconciled;
    let server = start(kind).await;
    let agent = server.agent().await;
    server.source.will_fail(timed_out());
    server.source.will_reconcile(Reconciled::Happened(Output::new(json!({ "done": "the first time" }))));
    assert_eq!(agent.invoke("fake.set", json!({})).await.ok()["result"], json!({ "done": "the first time" }));
    assert_eq!(server.source.calls().len(), 1);
    // What is known not to have happened may be made again, by any action that gets that far.
    server.source.will_fail(timed_out());
    server.source.will_reconcile(Reconciled::DidNot);
    assert_eq!(agent.invoke("fake.set", json!({})).await.ok()["invocation"]["attempts"], 2);
    server.verify().await;
}

/// A caller may say that a call of an action that reads does more.
async fn a_call_of_higher_risk_than_its_action_is_no_read(kind: Kind) {
    let server = start(kind).await;
    let agent = server.agent().await;
    let plan = json!({
        "actionType": "fake.look", "riskTier": "R2", "input": {}, "rollbackPlan": null, "verification": { "required": true, "commands": [] }
    });
    server.source.will_fail(timed_out());
    let queued = agent.client.post("/api/v1/actions/plans", plan).await.ok();
    let path = format!("/api/v1/actions/plans/{}", queued["feedback"]["invocationId"].as_str().unwrap());
    if queued["status"] == "queued" {
        server.owner.approve(queued["feedback"]["invocationId"].as_str().unwrap()).await;
    }
    let made = agent.client.get(&path).await.ok();
    assert_eq!((&made["status"], server.source.calls().len()), (&json!("failed"), 1), "{made:#}");
    server.verify().await;
}

/// It answers, and its answer is that it cannot: that is no success.
async fn a_host_that_cannot_answer_is_asked_again_and_then_left_alone(kind: Kind) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&asked);
    let answer = move || {
        // Only the last attempt of the first call gets what it asks for.
        let is_answered = counted.fetch_add(1, Ordering::SeqCst) + 1 == ATTEMPTS_MAX;
        std::future::ready(if is_answered { (StatusCode::OK, "there") } else { (StatusCode::SERVICE_UNAVAILABLE, "down") })
    };
    let router = axum::Router::new().fallback(answer);
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    let server = TestServer::start_whole(kind, &[&url]).await;
    let agent = server.agent().await;
    let there = agent.invoke("http.get", json!({ "url": url })).await.ok();
    assert_eq!((&there["result"]["body"], &there["invocation"]["attempts"]), (&json!("there"), &json!(ATTEMPTS_MAX)), "{there:#}");
    for _ in 0..BREAKER_FAILURES_MAX {
        let down = agent.invoke("http.get", json!({ "url": url })).await;
        down.problem(502, "source_failed");
        assert_eq!(
            (&down.body["error"], &server.shown(&down.id()).await["attempts"]),
            (&json!("http_503"), &json!(ATTEMPTS_MAX)),
            "{down:?}"
        );
    }
    let left_alone = agent.invoke("http.get", json!({ "url": url })).await;
    assert_eq!((left_alone.status, &left_alone.body["error"]), (502, &json!("breaker_open")), "{left_alone:?}");
    assert_eq!(asked.load(Ordering::SeqCst), (1 + BREAKER_FAILURES_MAX) * ATTEMPTS_MAX);
    server.verify().await;
}
