//! Waiting on one server for what another server does.

use crate::harness::{Agent, Client, Kind, TestServer, on_postgres, on_sqlite};
use countersign_core::source::Output;
use serde_json::json;
use std::time::Duration;

on_postgres!(
    a_long_poll_is_woken_by_an_answer_on_another_server,
    a_caller_who_holds_the_line_is_woken_by_another_server,
    a_batch_is_waited_for_on_another_server,
    a_repeat_on_another_server_is_woken_by_the_end_of_the_first,
);
on_sqlite!(at_its_deadline_a_wait_looks_once_more);

/// Far less than each wait asks for: who is answered within it was woken, and not at the deadline.
const WOKEN: Duration = Duration::from_secs(25);

/// The same client, on another server.
fn on(server: &TestServer, client: &Client) -> Client {
    Client { url: server.url.clone(), ..client.clone() }
}

fn agent_on(server: &TestServer, agent: &Agent) -> Agent {
    Agent { client: on(server, &agent.client), ..agent.clone() }
}

async fn woken<T>(waiting: tokio::task::JoinHandle<T>) -> T {
    tokio::time::timeout(WOKEN, waiting).await.expect("woken, not timed out").unwrap()
}

async fn a_long_poll_is_woken_by_an_answer_on_another_server(kind: Kind) {
    let server = TestServer::start(kind).await;
    let other = server.restart().await;
    let agent = server.agent().await;
    for n in 0..3 {
        let id = agent.invoke("fake.write", json!({ "text": n.to_string() })).await.id();
        let waiter = on(&other, &server.owner);
        let path = format!("/api/v1/invocations/{id}?wait=30s");
        let waiting = tokio::spawn(async move { waiter.get(&path).await });
        tokio::time::sleep(Duration::from_millis(100)).await;
        server.owner.post(&format!("/api/v1/invocations/{id}/approve"), json!({})).await.ok();
        assert_eq!(woken(waiting).await.ok()["invocation"]["status"], "succeeded");
    }
}

async fn a_caller_who_holds_the_line_is_woken_by_another_server(kind: Kind) {
    let server = TestServer::start(kind).await;
    let other = server.restart().await;
    let agent = server.agent().await;
    let caller = agent_on(&other, &agent);
    let waiting = tokio::spawn(async move {
        let path = format!("/api/v1/sessions/{}/actions/invoke?wait=30s", caller.session);
        caller.client.post(&path, json!({ "action": "fake.write", "params": { "text": "a" } })).await
    });
    let id = loop {
        let listed = server.owner.get("/api/v1/invocations?status=pending").await.ok();
        if let Some(id) = listed["items"][0]["id"].as_str() {
            break id.to_owned();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    server.owner.post(&format!("/api/v1/invocations/{id}/deny"), json!({ "reason": "no" })).await.ok();
    assert_eq!(woken(waiting).await.body["code"], "denied_by_person");
}

async fn a_batch_is_waited_for_on_another_server(kind: Kind) {
    let server = TestServer::start(kind).await;
    let other = server.restart().await;
    let agent = server.agent().await;
    let path = format!("/api/v1/sessions/{}/actions/batch", agent.session);
    let body = json!({ "mode": "best_effort", "actions": [{ "action": "fake.write", "params": { "text": "a" } }] });
    let batch = agent.client.post(&path, body).await;
    let (id, part) = (batch.body["id"].as_str().unwrap().to_owned(), batch.body["parts"][0]["invocation_id"].as_str().unwrap().to_owned());
    let waiter = on(&other, &server.owner);
    let waiting = tokio::spawn(async move { waiter.get(&format!("/api/v1/batches/{id}?wait=30s")).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    server.owner.post(&format!("/api/v1/invocations/{part}/approve"), json!({})).await.ok();
    assert_eq!(woken(waiting).await.ok()["status"], "succeeded");
}

async fn a_repeat_on_another_server_is_woken_by_the_end_of_the_first(kind: Kind) {
    let server = TestServer::start(kind).await;
    server.owner.set_mode("fake.write", "allow").await;
    let other = server.restart().await;
    let agent = server.agent().await;
    let mut held = server.source.will_hold(Ok(Output::new(json!({ "done": true }))));
    let call = |caller: Agent| async move {
        let path = format!("/api/v1/sessions/{}/actions/invoke", caller.session);
        let body = json!({ "action": "fake.write", "params": { "text": "a" }, "idempotency_key": "once" });
        caller.client.post(&path, body).await
    };
    let first = tokio::spawn(call(agent.clone()));
    held.arrived().await;
    let again = tokio::spawn(call(agent_on(&other, &agent)));
    tokio::time::sleep(Duration::from_millis(100)).await;
    held.release();
    assert_eq!(first.await.unwrap().ok()["invocation"]["status"], "succeeded");
    let again = woken(again).await.ok();
    assert_eq!((&again["invocation"]["status"], &again["replayed"]), (&json!("succeeded"), &json!(true)));
    assert_eq!(server.source.effects(), 1);
}

/// Two stores on one file do not wake each other, so the one that waits learns nothing until its time is up.
async fn at_its_deadline_a_wait_looks_once_more(kind: Kind) {
    let server = TestServer::start(kind).await;
    let other = server.restart().await;
    let agent = server.agent().await;
    let waiter = on(&other, &server.owner);
    let id = agent.pending("fake.write", json!({ "text": "a" })).await;
    let path = format!("/api/v1/invocations/{id}?wait=2s");
    let waiting = tokio::spawn(async move { waiter.get(&path).await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    server.owner.deny(&id, "no").await.ok();
    assert_eq!(woken(waiting).await.ok()["invocation"]["status"], "denied", "not the state before the wait");
}
