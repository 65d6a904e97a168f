//! A caller at the MCP door that gives up and asks again costs no second question and no second effect: however soon it comes back, on
//! whichever server, and whatever broke meanwhile.

use crate::harness::{Agent, Client, Kind, TestServer, on_both_engines, on_postgres};
use crate::mcp_door::{ask, asked, last, left, left_after, noted, pending, posted, result_text, waiting, writing};
use countersign_core::ports::{Claims, Invocations};
use countersign_core::source::{Output, Reconciled};
use countersign_core::{Invocation, InvocationId, Status, limits};
use reqwest::header;
use serde_json::{Value, json};
use std::time::Duration;
use testkit::proxy::Commit;
use tokio::task::JoinHandle;

on_both_engines!(
    a_caller_that_hangs_up_and_asks_again_at_once_joins,
    a_caller_that_cancels_and_asks_again_at_once_joins,
    a_stream_that_was_lost_is_not_resumed_and_its_call_is_joined,
    a_write_that_a_crash_interrupted_is_joined_and_not_made_twice,
    an_approved_call_that_a_crash_interrupted_is_joined_and_not_made_twice,
    an_always_that_was_given_while_nobody_waited_runs_when_it_is_asked_for,
    a_call_whose_ticket_was_never_shown_is_joined,
    an_approval_that_expired_is_not_joined,
    what_had_not_begun_when_its_caller_left_is_made_once,
);
on_postgres!(
    a_caller_joins_on_another_server_that_lives,
    a_caller_that_asks_another_server_at_once_joins,
    a_caller_of_a_dead_server_joins_on_another_when_its_lease_runs_out,
    two_open_streams_on_two_servers_are_two_calls,
    a_kept_approval_that_another_server_has_claimed_is_used_once_it_lets_go,
    a_caller_is_kept_while_the_store_is_away,
    a_question_whose_commit_is_cut_is_asked_once,
);

/// The same agent, with another server.
fn at(agent: &Agent, server: &TestServer) -> Agent {
    Agent { client: Client { url: server.url.clone(), ..agent.client.clone() }, ..agent.clone() }
}

fn id_of(answer: &Value) -> &str {
    answer["result"]["_meta"]["countersign/invocation"].as_str().unwrap_or_else(|| panic!("no invocation in {answer:#}"))
}

async fn row(server: &TestServer, id: &str) -> Invocation {
    server.store.find_invocation(&server.org, &InvocationId::parse(id).unwrap()).await.unwrap().unwrap()
}

/// Waits until the call is on somebody's line again.
async fn joined(server: &TestServer, id: &str) {
    let row = row(server, id).await;
    while server.pipeline.is_left_by_caller(&row).await.unwrap() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The only call that is running, once there is one.
async fn running(server: &TestServer) -> String {
    loop {
        let listed = server.owner.get("/api/v1/invocations?status=running").await.ok();
        if let Some(id) = listed["items"][0]["id"].as_str() {
            return id.to_owned();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn a_caller_that_hangs_up_and_asks_again_at_once_joins(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    for text in ["a", "b", "c"] {
        left(&agent, writing(text)).await;
        let again = waiting(&agent, writing(text));
        let id = pending(&server, 1).await.remove(0);
        server.source.will_answer(json!({ "done": true }));
        joined(&server, &id).await;
        // The caller that hung up may be seen going a moment later than the one that asks again is seen coming.
        tokio::time::sleep(Duration::from_millis(2 * pipeline::limits::LINE_GOING_MS)).await;
        assert_eq!(pending(&server, 1).await, std::slice::from_ref(&id), "nobody is asked twice");
        server.owner.approve(&id).await.ok();
        let answer = again.await.unwrap();
        assert_eq!((id_of(&answer), &answer["result"]["structuredContent"]), (id.as_str(), &json!({ "done": true })), "{answer:#}");
    }
    assert_eq!((server.source.calls().len(), server.counts().await.0), (3, 3));
}

/// A stateful connection of an agent.
struct Connection {
    client: Client,
    id: String,
}

impl Connection {
    async fn open(agent: &Agent) -> Self {
        let initialize = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } } });
        let mut connection = Self { client: agent.client.clone(), id: String::new() };
        let opened = connection.post(&initialize).send().await.unwrap();
        connection.id = opened.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        opened.text().await.unwrap();
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(connection.post(&initialized).send().await.unwrap().status(), 202);
        connection
    }

    fn post(&self, body: &Value) -> reqwest::RequestBuilder {
        self.named(self.client.http.post(format!("{}/mcp", self.client.url))).json(body)
    }

    fn named(&self, request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
        let request = request.bearer_auth(&self.client.token).header(header::ACCEPT, "application/json, text/event-stream");
        if self.id.is_empty() { request } else { request.header("mcp-session-id", &self.id) }
    }

    fn call(&self, id: u64, params: Value) -> reqwest::RequestBuilder {
        self.post(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }))
    }
}

async fn a_caller_that_cancels_and_asks_again_at_once_joins(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let connection = Connection::open(&agent).await;
    let first = tokio::spawn(connection.call(2, writing("a")).send());
    let id = pending(&server, 1).await.remove(0);
    let cancelled = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 2, "reason": "timeout" } });
    assert_eq!(connection.post(&cancelled).send().await.unwrap().status(), 202);
    let again = connection.call(3, writing("a"));
    let again = tokio::spawn(async move { last(again.send().await.unwrap()).await });
    joined(&server, &id).await;
    tokio::time::sleep(Duration::from_millis(2 * pipeline::limits::LINE_GOING_MS)).await;
    server.source.will_answer(json!({ "done": true }));
    server.owner.approve(&id).await.ok();
    assert_eq!(id_of(&again.await.unwrap()), id);
    assert_eq!((server.source.calls().len(), server.counts().await.0), (1, 1), "one question, one effect");
    first.abort();
}

async fn a_stream_that_was_lost_is_not_resumed_and_its_call_is_joined(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let connection = Connection::open(&agent).await;
    let mut stream = connection.call(2, writing("a")).send().await.unwrap();
    let begins = String::from_utf8(stream.chunk().await.unwrap().unwrap().into()).unwrap();
    let event = begins.lines().find_map(|line| line.strip_prefix("id:")).unwrap_or_else(|| panic!("no id in {begins:?}")).trim();
    let id = pending(&server, 1).await.remove(0);
    drop(stream);
    let resume = connection.named(connection.client.http.get(format!("{}/mcp", connection.client.url))).header("last-event-id", event);
    let resumed = resume.send().await.unwrap();
    assert_eq!((resumed.status().as_u16(), resumed.text().await.unwrap()), (200, String::new()), "{event}");
    let again = connection.call(3, writing("a"));
    let again = tokio::spawn(async move { last(again.send().await.unwrap()).await });
    noted_or_joined(&server, &id).await;
    server.source.will_answer(json!({ "done": true }));
    server.owner.approve(&id).await;
    assert_eq!(id_of(&again.await.unwrap()), id);
    assert_eq!((server.source.calls().len(), server.counts().await.0), (1, 1));
}

/// Gives a caller that went and one that came the time to be noticed.
async fn noted_or_joined(server: &TestServer, id: &str) {
    tokio::time::sleep(Duration::from_millis(3 * pipeline::limits::LINE_GOING_MS)).await;
    joined(server, id).await;
}

/// The server that takes the place of one that died, on the same data folder.
async fn successor(dead: &TestServer) -> TestServer {
    let next = dead.restart().await;
    next.store.succeed(dead.store.server_id().clone());
    next
}

fn happened() -> Reconciled {
    Reconciled::Happened(Output::new(json!({ "done": true })))
}

/// The call goes on with the same caller at the next server, which finds out what became of it.
async fn goes_on(dead: &TestServer, agent: &Agent, id: &str) {
    let next = successor(dead).await;
    assert!(next.pipeline.is_left_by_caller(&row(&next, id).await).await.unwrap(), "the server that had its line is gone");
    let again = waiting(&at(agent, &next), writing("a"));
    joined(&next, id).await;
    next.source.will_reconcile(happened());
    next.pipeline.recover().await.unwrap();
    let answer = again.await.unwrap();
    assert_eq!((id_of(&answer), &answer["result"]["structuredContent"]), (id, &json!({ "done": true })), "{answer:#}");
    assert_eq!((next.source.calls().len(), next.counts().await.0), (1, 1), "one effect");
    next.verify().await;
}

async fn a_write_that_a_crash_interrupted_is_joined_and_not_made_twice(kind: Kind) {
    let server = TestServer::start(kind).await;
    server.pipeline.recover().await.unwrap();
    server.owner.set_mode("fake.write", "allow").await;
    let agent = server.agent().await;
    server.source.will_answer(json!({ "done": true }));
    server.fault.arm("execute.effected");
    let first = waiting(&agent, writing("a"));
    let id = running(&server).await;
    goes_on(&server, &agent, &id).await;
    assert!(!first.is_finished() || id_of(&first.await.unwrap()) == id, "that the walk broke off was no answer");
}

async fn an_approved_call_that_a_crash_interrupted_is_joined_and_not_made_twice(kind: Kind) {
    let server = TestServer::start(kind).await;
    server.pipeline.recover().await.unwrap();
    let agent = server.agent().await;
    let first = waiting(&agent, writing("a"));
    let id = pending(&server, 1).await.remove(0);
    server.source.will_answer(json!({ "done": true }));
    server.fault.arm("execute.effected");
    server.owner.approve(&id).await.problem(500, "internal");
    goes_on(&server, &agent, &id).await;
    first.abort();
}

async fn an_always_that_was_given_while_nobody_waited_runs_when_it_is_asked_for(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    left(&agent, writing("a")).await;
    let id = pending(&server, 1).await.remove(0);
    noted(&server, &id).await;
    let kept = server.owner.approve_with(&id, json!({ "mode": "always" })).await;
    assert_eq!((kept.status, &kept.body["invocation"]["status"]), (202, &json!("approved")), "{kept:?}");
    // Long enough for a sweep to take up an approved call that nobody started.
    server.clock.advance_seconds(30);
    server.pipeline.sweep().await.unwrap();
    assert_eq!(server.source.calls().len(), 0, "nothing runs until it is asked for");
    left(&agent, writing("b")).await;
    assert_ne!(pending(&server, 1).await.remove(0), id, "always counts from the call on for which it was given");

    server.source.will_answer(json!({ "done": true }));
    let answer = ask(&agent, "tools/call", writing("a"), json!({})).await;
    assert_eq!(id_of(&answer), id, "{answer:#}");
    server.source.will_answer(json!({ "done": true }));
    let allowed = ask(&agent, "tools/call", writing("c"), json!({})).await;
    assert_eq!(allowed["result"]["structuredContent"], json!({ "done": true }), "{allowed:#}");
    assert_eq!(server.source.calls().len(), 2);
    server.verify().await;
}

async fn a_call_whose_ticket_was_never_shown_is_joined(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let shows = json!({ "elicitation": { "url": {} } });
    let first = ask(&agent, "tools/call", writing("a"), shows.clone()).await;
    let again = ask(&agent, "tools/call", writing("a"), shows.clone()).await;
    let address = |answer: &Value| answer["result"]["inputRequests"]["approval"]["params"]["url"].clone();
    assert_eq!((address(&first), first["result"]["resultType"].as_str()), (address(&again), Some("input_required")), "{again:#}");
    let id = pending(&server, 1).await.remove(0);
    assert_eq!(server.counts().await.0, 1, "nobody is asked twice");
    let showing = |answer: &Value| {
        let (state, accepted) = (&answer["result"]["requestState"], json!({ "approval": { "action": "accept" } }));
        json!({ "name": "fake.write", "arguments": { "text": "a" }, "requestState": state, "inputResponses": accepted })
    };
    let late = ask(&agent, "tools/call", showing(&first), shows.clone()).await;
    assert!(result_text(&late).contains("request state"), "{late:#}");
    server.source.will_answer(json!({ "done": true }));
    // Whoever has a ticket has not left.
    server.owner.approve(&id).await.ok();
    assert_eq!(server.source.calls().len(), 1);
    let answer = ask(&agent, "tools/call", showing(&again), shows).await;
    assert_eq!(id_of(&answer), id, "{answer:#}");
}

async fn an_approval_that_expired_is_not_joined(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    left(&agent, writing("a")).await;
    let id = pending(&server, 1).await.remove(0);
    noted(&server, &id).await;
    server.owner.approve(&id).await;
    // No sweep has written yet that its time is over.
    server.clock.advance_seconds(limits::APPROVAL_INTERACTIVE_SECONDS + 1);
    let again = waiting(&agent, writing("a"));
    assert_ne!(pending(&server, 1).await.remove(0), id, "a person is asked again");
    server.pipeline.sweep().await.unwrap();
    assert_eq!(server.receipt_of(&id).await["error"], "caller_left");
    assert_eq!(server.source.calls().len(), 0);
    again.abort();
}

async fn what_had_not_begun_when_its_caller_left_is_made_once(kind: Kind) {
    let server = TestServer::start(kind).await;
    server.owner.set_mode("fake.write", "allow").await;
    let agent = server.agent().await;
    let mut held = server.source.will_hold_prepare();
    // No person is asked here, so the server waits for this caller to go only if it has been there for `LINE_YOUNG_MS`.
    let patience = Duration::from_millis(pipeline::limits::LINE_YOUNG_MS + 200);
    let (leaving, arrived) = (left_after(patience, &agent, writing("a")), held.arrived());
    tokio::join!(leaving, arrived);
    server.source.will_answer(json!({ "done": true }));
    let again = waiting(&agent, writing("a"));
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(server.source.calls().len(), 0, "whether the first begins is not known yet");
    held.release();
    let answer = again.await.unwrap();
    assert_eq!(answer["result"]["structuredContent"], json!({ "done": true }), "{answer:#}");
    assert_eq!((server.source.calls().len(), server.counts().await.0), (1, 2));
    let cancelled = server.owner.get("/api/v1/invocations?status=cancelled").await.ok();
    assert_eq!(cancelled["items"][0]["error"]["code"], "caller_left", "{cancelled:#}");
}

/// Another server beside this one. Both are heard of.
async fn beside(server: &TestServer) -> TestServer {
    server.pipeline.recover().await.unwrap();
    let another = server.restart().await;
    another.pipeline.recover().await.unwrap();
    another
}

async fn a_caller_joins_on_another_server_that_lives(kind: Kind) {
    let server = TestServer::start(kind).await;
    let another = beside(&server).await;
    let agent = server.agent().await;
    left(&agent, writing("a")).await;
    let id = pending(&server, 1).await.remove(0);
    noted(&another, &id).await;
    let again = waiting(&at(&agent, &another), writing("a"));
    joined(&server, &id).await;
    server.source.will_answer(json!({ "done": true }));
    server.owner.approve(&id).await.ok();
    assert_eq!(id_of(&again.await.unwrap()), id);
    assert_eq!((server.source.calls().len(), server.counts().await.0), (1, 1));
}

async fn a_caller_that_asks_another_server_at_once_joins(kind: Kind) {
    let server = TestServer::start(kind).await;
    let another = beside(&server).await;
    let agent = server.agent().await;
    for text in ["a", "b", "c"] {
        left(&agent, writing(text)).await;
        // Whether it is stored by now that the caller left is left to chance.
        let again = waiting(&at(&agent, &another), writing(text));
        let id = pending(&server, 1).await.remove(0);
        noted_or_joined(&server, &id).await;
        assert_eq!(pending(&server, 1).await, std::slice::from_ref(&id), "nobody is asked twice");
        server.source.will_answer(json!({ "done": true }));
        server.owner.approve(&id).await.ok();
        assert_eq!(id_of(&again.await.unwrap()), id);
    }
    assert_eq!((server.source.calls().len(), server.counts().await.0), (3, 3));
}

/// The same call is open on one server, and is asked for on another that does not know yet whether the first lives.
async fn open_on_both(server: &TestServer, another: &TestServer) -> (String, [JoinHandle<Value>; 2]) {
    let agent = server.agent().await;
    let first = waiting(&agent, writing("a"));
    let id = pending(server, 1).await.remove(0);
    let second = waiting(&at(&agent, another), writing("a"));
    tokio::time::sleep(Duration::from_millis(4 * pipeline::limits::LINE_LOOK_MS)).await;
    assert_eq!(pending(server, 1).await, std::slice::from_ref(&id), "whether the first caller is there is not known yet");
    (id, [first, second])
}

async fn a_caller_of_a_dead_server_joins_on_another_when_its_lease_runs_out(kind: Kind) {
    let server = TestServer::start(kind).await;
    let another = beside(&server).await;
    let (id, [first, again]) = open_on_both(&server, &another).await;
    another.clock.advance_seconds(limits::LEASE_SECONDS);
    another.store.renew_lease().await.unwrap();
    joined(&another, &id).await;
    another.source.will_answer(json!({ "done": true }));
    another.owner.approve(&id).await.ok();
    assert_eq!(id_of(&again.await.unwrap()), id);
    assert_eq!((another.source.calls().len(), another.counts().await.0), (1, 1), "one question, one effect");
    first.abort();
}

async fn two_open_streams_on_two_servers_are_two_calls(kind: Kind) {
    let server = TestServer::start(kind).await;
    let another = beside(&server).await;
    let (id, open) = open_on_both(&server, &another).await;
    server.clock.advance_seconds(store::limits::LEASE_RENEW_SECONDS);
    for alive in [&server, &another] {
        alive.store.renew_lease().await.unwrap();
    }
    let both = pending(&server, 2).await;
    assert!(both.len() == 2 && both.contains(&id), "{both:?}");
    for stream in open {
        stream.abort();
    }
}

async fn a_kept_approval_that_another_server_has_claimed_is_used_once_it_lets_go(kind: Kind) {
    let server = TestServer::start(kind).await;
    let another = beside(&server).await;
    let agent = server.agent().await;
    left(&agent, writing("a")).await;
    let id = pending(&server, 1).await.remove(0);
    noted(&server, &id).await;
    server.owner.approve(&id).await;
    let approved = row(&server, &id).await;
    assert_eq!(another.store.claim(&server.org, &approved.id, Status::Approved).await, Ok(true));
    let again = waiting(&agent, writing("a"));
    joined(&server, &id).await;
    assert_eq!(server.source.calls().len(), 0);
    server.source.will_answer(json!({ "done": true }));
    another.store.release(&server.org, &approved.id).await.unwrap();
    // If its own walk has stopped trying by now, the next sweep starts the call. By then the leases have not run out.
    server.clock.advance_seconds(16);
    server.pipeline.sweep().await.unwrap();
    assert_eq!(id_of(&again.await.unwrap()), id);
    assert_eq!(server.source.calls().len(), 1);
}

/// Waits until the server has its store again.
async fn ready(server: &TestServer) {
    for _ in 0..200 {
        if server.owner.get("/readyz").await.status == 200 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the store is back, and the server does not notice");
}

async fn a_caller_is_kept_while_the_store_is_away(kind: Kind) {
    let (server, proxy) = TestServer::start(kind).await.restart_behind_a_proxy().await;
    let agent = server.agent().await;
    let request = posted(&agent.client, "?hold=3", &asked("tools/call", writing("a"), &json!({})));
    let calling = tokio::spawn(async move { last(request.send().await.unwrap()).await });
    let id = pending(&server, 1).await.remove(0);
    proxy.cut();
    // What it waits for cannot be read. It is told what is known, which is no error.
    let answer = calling.await.unwrap();
    assert!(answer["result"]["isError"] != true && result_text(&answer).contains("get_invocation"), "{answer:#}");
    assert_eq!(id_of(&answer), id);
    proxy.mend();
    ready(&server).await;
    server.source.will_answer(json!({ "done": true }));
    assert_eq!(server.owner.approve(&id).await.ok()["invocation"]["status"], "succeeded", "whoever has a reference has not left");
    assert_eq!(server.counts().await.0, 1);
}

async fn a_question_whose_commit_is_cut_is_asked_once(kind: Kind) {
    let (server, proxy) = TestServer::start(kind).await.restart_behind_a_proxy().await;
    let agent = server.agent().await;
    // The first call archives the definitions, and makes other commits than the next.
    left(&agent, writing("first")).await;
    let first = pending(&server, 1).await.remove(0);
    noted(&server, &first).await;
    server.owner.deny(&first, "no").await.ok();
    for (text, commit) in [("lost", Commit::IsLost), ("kept", Commit::Arrives)] {
        let before = server.counts().await.0;
        // The row of the line before is removed first: its commit is not the one to cut.
        tokio::time::sleep(Duration::from_millis(3 * pipeline::limits::LINES_CLEARED_MS)).await;
        proxy.cut_at_commit(0, commit);
        let mut calling = waiting(&agent, writing(text));
        proxy.was_cut().await;
        proxy.mend();
        ready(&server).await;
        let id = tokio::select! {
            mut ids = pending(&server, 1) => ids.remove(0),
            answer = &mut calling => panic!("its caller was not kept: {answer:?}"),
        };
        server.source.will_answer(json!({ "done": true }));
        server.owner.approve(&id).await.ok();
        let answer = calling.await.unwrap();
        assert_eq!((id_of(&answer), server.counts().await.0), (id.as_str(), before + 1), "{answer:#}");
    }
    server.verify().await;
}
