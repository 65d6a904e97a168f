//! Execution: attempts, timeouts, calls in doubt, and results that are too large or do not match their schema.

use crate::harness::{Kind, TestServer, on_both_engines, on_sqlite};
use countersign_core::limits::{ATTEMPTS_MAX, RETRY_CAP_MS};
use countersign_core::retry::FailureCause;
use countersign_core::source::{AfterError, Error, Output};
use pipeline::limits::RESULT_STORED_BYTES_MAX;
use serde_json::json;
use testkit::FakeSource;

on_sqlite!(
    what_the_call_itself_caused_is_not_the_sources_failure,
    an_unknown_action_comes_with_names_that_exist,
    invocations_are_listed_with_their_sessions_and_counted_when_asked,
    a_transient_error_is_tried_again_and_every_attempt_has_its_intent,
    attempts_are_bounded,
    a_source_that_asks_for_more_time_than_a_call_has_is_left_alone,
    an_error_that_is_not_transient_is_not_tried_again,
    a_timeout_of_a_write_is_in_doubt_and_of_a_read_a_failure,
    a_source_that_panics_is_a_broken_source,
    a_result_that_does_not_fit_its_schema_is_not_a_success,
    a_large_result_is_pruned_and_stays_json,
    a_source_that_cannot_list_holds_nobody_else_up,
    a_source_that_is_away_after_a_restart_is_known_by_what_it_listed_last,
);

on_both_engines!(a_caller_that_goes_away_does_not_stop_the_effect);

fn busy() -> Error {
    Error::Busy { source_id: "fake".into(), message: "later".into(), retry_after_ms: Some(1) }
}

async fn a_transient_error_is_tried_again_and_every_attempt_has_its_intent(kind: Kind) {
    let server = TestServer::start(kind).await;
    server.owner.set_mode("fake.write", "allow").await;
    let agent = server.agent().await;
    server.source.will_fail(busy());
    server.source.will_fail(Error::Unreachable { source_id: "fake".into(), message: "no route".into() });
    server.source.will_answer(json!({ "ok": true }));
    let answer = agent.invoke("fake.write", json!({})).await;
    assert_eq!((answer.status, &answer.body["invocation"]["attempts"]), (200, &json!(3)), "{answer:?}");
    let report = server.verify().await;
    assert_eq!((report.intents, report.receipts), (3, 1));
    server.source.will_fail(busy());
    let read = agent.invoke("fake.read", json!({})).await;
    assert_eq!((read.status, &read.body["invocation"]["attempts"]), (200, &json!(2)));
    server.verify().await;
}

async fn attempts_are_bounded(kind: Kind) {
    let server = TestServer::start(kind).await;
    server.owner.set_mode("fake.write", "allow").await;
    let agent = server.agent().await;
    for _ in 0..5 {
        server.source.will_fail(busy());
    }
    let answer = agent.invoke("fake.write", json!({})).await;
    answer.problem(502, "source_failed");
    assert_eq!((&answer.body["error"], server.source.calls().len()), (&json!("source_busy"), 3));
    server.verify().await;
}

async fn a_source_that_asks_for_more_time_than_a_call_has_is_left_alone(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    for asked_ms in [RETRY_CAP_MS + 1, u64::MAX] {
        let before = server.source.calls().len();
        server.source.will_fail(Error::Busy { source_id: "fake".into(), message: "later".into(), retry_after_ms: Some(asked_ms) });
        agent.invoke("fake.read", json!({})).await.problem(502, "source_failed");
        assert_eq!(server.source.calls().len(), before + 1, "it is not asked again");
    }
    server.verify().await;
}

async fn an_error_that_is_not_transient_is_not_tried_again(kind: Kind) {
    let server = TestServer::start(kind).await;
    server.owner.set_mode("fake.write", "allow").await;
    let agent = server.agent().await;
    server.source.will_fail(Error::Refused { code: "not_today", message: "not today".into() });
    let answer = agent.invoke("fake.write", json!({})).await;
    answer.problem(502, "source_failed");
    assert_eq!((&answer.body["error"], &answer.body["detail"]), (&json!("not_today"), &json!("not today")));
    assert_eq!(server.source.calls().len(), 1);
    assert_eq!(server.receipt_of(&answer.id()).await["error"], "not_today");
    server.verify().await;
}

async fn a_timeout_of_a_write_is_in_doubt_and_of_a_read_a_failure(kind: Kind) {
    let server = TestServer::start(kind).await;
    ["read", "write"].iter().for_each(|name| server.source.redefine(name, |action| action.timeout_ms = 50));
    server.owner.set_mode("fake.write", "allow").await;
    let agent = server.agent().await;
    drop(server.source.will_hold(Ok(Output::new(json!({})))));
    let write = agent.invoke("fake.write", json!({})).await;
    write.problem(409, "in_doubt");
    let shown = server.owner.get(&format!("/api/v1/invocations/{}", write.id())).await.ok();
    assert_eq!(shown["invocation"]["status"], "in_doubt");
    for _ in 0..ATTEMPTS_MAX {
        drop(server.source.will_hold(Ok(Output::new(json!({})))));
    }
    let read = agent.invoke("fake.read", json!({})).await;
    read.problem(502, "source_failed");
    assert_eq!(read.body["error"], "source_timed_out");
    assert_eq!(read.body["detail"], "source `fake` did not answer within 50 ms", "a read has no effect that may have happened");
    let report = server.verify().await;
    assert_eq!((report.receipts, report.open_intents), (1, 1), "the doubt has an intent and no receipt yet");
}

async fn a_source_that_panics_is_a_broken_source(kind: Kind) {
    let server = TestServer::start(kind).await;
    server.owner.set_mode("fake.write", "allow").await;
    let agent = server.agent().await;
    let panicking = server.source.clone().answering(|_| panic!("a bug in a source"));
    agent.invoke("fake.write", json!({})).await.problem(409, "in_doubt");
    agent.invoke("fake.read", json!({})).await.problem(502, "source_failed");
    drop(panicking);
    assert_eq!(server.owner.get("/api/v1/status").await.ok()["in_doubt"], 1);
}

async fn a_result_that_does_not_fit_its_schema_is_not_a_success(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    server.source.redefine("read", |action| action.result_schema = json!({ "type": "object", "required": ["answer"] }));
    server.source.will_answer(json!({ "password": "hunter2-hunter2" }));
    let answer = agent.invoke("fake.read", json!({})).await;
    answer.problem(502, "source_failed");
    assert_eq!(answer.body["error"], "result_schema_mismatch");
    assert!(!answer.body.to_string().contains("hunter2"));
    assert_eq!(server.receipt_of(&answer.id()).await["verification"]["ok"], false);
    server.verify().await;
}

async fn a_large_result_is_pruned_and_stays_json(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let rows: Vec<_> = (0..2_000).map(|n| json!({ "n": n, "text": "x".repeat(20) })).collect();
    server.source.will_answer(json!({ "rows": rows }));
    let answer = agent.invoke("fake.read", json!({})).await;
    assert_eq!(answer.body["result"]["rows"].as_array().unwrap().len(), 2_000, "the caller gets it whole");
    let stored = &answer.body["invocation"]["result"];
    assert_eq!(stored["_truncated"], true);
    assert!(stored.to_string().len() <= RESULT_STORED_BYTES_MAX);
    assert!(stored["rows"].as_array().is_some_and(|rows| !rows.is_empty()), "as much as fits is kept: {stored:.200}");
}

async fn a_source_that_cannot_list_holds_nobody_else_up(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    server.source.will_fail_to_list(Error::Unreachable { source_id: "fake".into(), message: "down".into() });
    let listed = agent.client.get(&format!("/api/v1/sessions/{}/actions/available", agent.session)).await.ok();
    assert!(listed["sources"][0]["error"].as_str().is_some_and(|error| error.contains("down")), "{listed}");
    server.source.will_fail_to_list(Error::Unreachable { source_id: "fake".into(), message: "down".into() });
    agent.invoke("fake.read", json!({})).await.problem(502, "source_unavailable");
    let listed = agent.client.get(&format!("/api/v1/sessions/{}/actions/available", agent.session)).await.ok();
    let modes: Vec<_> = listed["sources"][0]["actions"].as_array().unwrap().iter().map(|action| action["mode"].as_str().unwrap()).collect();
    assert_eq!(modes, ["allow", "require_approval", "require_approval", "deny"]);
    let guide = agent.client.get(&format!("/api/v1/sessions/{}/actions/guide/fake", agent.session)).await.ok();
    assert!(guide["guide"].as_str().unwrap().contains("fake.write"));
}

async fn a_source_that_is_away_after_a_restart_is_known_by_what_it_listed_last(kind: Kind) {
    let server = TestServer::start(kind).await;
    let far = FakeSource::new("far").remote().offering("read", |_| {});
    server.registry.add(&server.org, far.clone());
    server.agent().await.invoke("far.read", json!({})).await.ok();
    server.owner.set_mode("far.read", "allow").await;
    far.becomes_unreachable(Some("down"));
    let restarted = server.restart().await;
    restarted.registry.add(&restarted.org, far.clone());
    let agent = restarted.agent().await;
    let listed = agent.client.get(&format!("/api/v1/sessions/{}/actions/available", agent.session)).await.ok();
    let shown = &listed["sources"][1];
    assert!(shown["error"].as_str().is_some_and(|error| error.contains("down")), "{listed}");
    assert_eq!((&shown["actions"][0]["id"], &shown["actions"][0]["drift"]), (&json!("far.read"), &json!("none")));
    let failed = agent.invoke("far.read", json!({})).await;
    failed.problem(502, "source_failed");
    assert_eq!(failed.body["error"], "source_unreachable", "{failed:?}");
    agent.invoke("far.other", json!({})).await.problem(404, "unknown_action");
    restarted.verify().await;
}

async fn a_caller_that_goes_away_does_not_stop_the_effect(kind: Kind) {
    let server = TestServer::start(kind).await;
    server.owner.set_mode("fake.write", "allow").await;
    let agent = server.agent().await;
    let mut held = server.source.will_hold(Ok(Output::new(json!({ "late": true }))));
    let calling = {
        let agent = agent.clone();
        tokio::spawn(async move { agent.invoke("fake.write", json!({})).await })
    };
    held.arrived().await;
    calling.abort();
    assert!(calling.await.is_err(), "the caller is gone");
    held.release();
    server.pipeline.finish().await;
    let listed = server.owner.get("/api/v1/invocations").await.ok();
    assert_eq!(listed["items"][0]["status"], "succeeded", "{listed}");
    server.verify().await;
}

async fn what_the_call_itself_caused_is_not_the_sources_failure(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    for (code, status) in [("file_not_found", 404), ("host_not_allowed", 403), ("not_utf8", 422), ("content_changed", 409)] {
        server.source.will_fail(Error::Refused { code, message: "no".into() });
        let answer = agent.invoke("fake.read", json!({})).await;
        answer.problem(status, code);
        assert_eq!((&answer.body["error"], &answer.body["invocation"]["status"]), (&json!(code), &json!("failed")), "{answer:?}");
    }
    // What has no page of its own is an answer all the same.
    let content = Box::new(json!({ "content": [] }));
    let reported = Error::Reported {
        source_id: "fake".into(),
        message: "there is none".into(),
        cause: FailureCause::Final,
        content,
        after: AfterError::Unknown,
    };
    for answered in [Error::Failed { code: "transform_empty", message: "no".into() }, reported] {
        let code = answered.code();
        server.source.will_fail(answered);
        let answer = agent.invoke("fake.read", json!({})).await;
        answer.problem(422, "action_failed");
        assert_eq!((&answer.body["error"], &answer.body["invocation"]["status"]), (&json!(code), &json!("failed")), "{answer:?}");
    }
    server.source.will_fail(Error::Failed { code: "disk_full", message: "no".into() });
    agent.invoke("fake.read", json!({})).await.problem(502, "source_failed");
    assert_eq!(server.owner.get("/api/v1/breakers").await.ok()["items"], json!([]), "none of them counts");
    server.verify().await;
}

async fn an_unknown_action_comes_with_names_that_exist(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let unknown = agent.invoke("fake.wirte", json!({})).await;
    unknown.problem(404, "unknown_action");
    assert_eq!(unknown.body["suggestions"][0], "fake.write", "{unknown:?}");
    assert!(unknown.body["hint"].as_str().unwrap().contains("`actions/available` of its session"), "{unknown:?}");
    let shown = server.owner.get("/api/v1/actions/fake.wirte").await;
    assert_eq!(shown.body["suggestions"][0], "fake.write", "{shown:?}");
    assert_eq!(agent.invoke("nothing.alike", json!({})).await.body.get("suggestions"), None);
}

async fn invocations_are_listed_with_their_sessions_and_counted_when_asked(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    for _ in 0..3 {
        agent.invoke("fake.read", json!({})).await.ok();
    }
    let title = server.owner.get(&format!("/api/v1/sessions/{}", agent.session)).await.ok()["title"].clone();
    let page = server.owner.get("/api/v1/invocations?limit=2&count=true&status=succeeded").await.ok();
    assert_eq!((page["items"].as_array().unwrap().len(), &page["total"]), (2, &json!(3)), "{page}");
    assert_eq!(page["items"][0]["session_title"], title);
    assert_eq!(server.owner.get("/api/v1/invocations?count=true&status=pending").await.ok()["total"], 0);
    assert_eq!(server.owner.get("/api/v1/invocations").await.ok().get("total"), None);
    for odd in ["status=odd", "tier=R9"] {
        server.owner.get(&format!("/api/v1/invocations?{odd}")).await.problem(400, "invalid_query");
    }
}
