//! Several servers on one database: once a server is known to be gone, another one claims the calls it was running. No server touches the
//! calls of a live one.

use crate::automations::{ended, id_of, run, saved, waiting};
use crate::harness::{Agent, Answer, Kind, TestServer, on_both_engines, on_postgres};
use countersign_core::action::Reversibility;
use countersign_core::ledger::{EventDraft, Finished};
use countersign_core::limits::{LEASE_FENCE_SECONDS, LEASE_SECONDS, LEASE_SILENT_SECONDS};
use countersign_core::ports::bus::{GroupName, NewGroup, Start};
use countersign_core::ports::{Claims, EventBus as _, EventFeed as _, Invocations, Runs};
use countersign_core::source::{self, Output, Reconciled};
use countersign_core::{EventId, Invocation, InvocationId, Status};
use serde_json::{Value, json};

on_postgres!(
    what_a_dead_server_was_running_another_settles_when_its_lease_has_run_out,
    what_a_live_server_runs_nobody_touches,
    of_several_survivors_one_asks_what_became_of_a_call,
    a_restarted_server_settles_what_it_left_while_another_lives,
    what_another_could_not_tell_the_restarted_server_can,
    a_server_taken_for_gone_says_how_its_call_ended,
    a_server_taken_for_gone_answers_what_another_found_out,
    a_server_taken_for_gone_answers_what_its_batch_became,
    a_server_waits_with_the_end_of_its_call_for_the_one_that_asks_about_it,
    a_server_that_is_not_heard_of_begins_no_effect,
    a_batch_of_a_dead_server_is_finished_by_another,
    a_batch_of_a_live_server_is_left_to_it,
    a_batch_waits_for_a_part_that_another_survivor_asks_about,
    a_batch_waits_for_a_part_whose_end_is_still_being_written,
    an_approved_call_that_a_live_server_makes_ready_is_left_to_it,
    an_approved_call_of_a_dead_server_is_started_by_another,
    a_restarted_server_starts_at_once_what_was_approved_there,
    a_run_goes_on_after_its_answer_whoever_has_the_events,
    a_call_of_a_silent_server_is_taken_over_for_a_run,
    a_run_goes_on_before_its_silent_server_counts_as_gone,
);

on_both_engines!(
    a_call_whose_walk_broke_off_is_settled_by_its_own_server,
    an_approved_call_is_made_ready_once,
    an_approved_call_whose_walk_broke_off_is_started_by_its_own_server,
);

/// A server that the others know of, with an agent that may write.
async fn first(kind: Kind) -> (TestServer, Agent) {
    let server = TestServer::start(kind).await;
    server.pipeline.recover().await.unwrap();
    server.owner.set_mode("fake.write", "allow").await;
    let agent = server.agent().await;
    (server, agent)
}

/// Starts another server beside it.
async fn beside(server: &TestServer) -> TestServer {
    let another = server.restart().await;
    another.pipeline.recover().await.unwrap();
    another
}

#[tokio::test]
async fn who_is_alone_on_its_database_is_never_called_gone() {
    let (server, _agent) = first(Kind::Sqlite).await;
    server.clock.advance_seconds(10 * LEASE_SECONDS);
    let status = server.owner.get("/api/v1/status").await.ok();
    assert!(status["tzdata"].as_str().is_some_and(|release| release.starts_with("20")), "{status:#}");
    let servers = status["servers"].clone();
    let told: Vec<_> =
        servers.as_array().unwrap().iter().map(|one| (one["id"].as_str().unwrap(), one["gone"].as_bool().unwrap())).collect();
    assert_eq!(told, [(server.store.server_id().as_str(), false)]);
}

/// The leases of all servers but these run out.
async fn outlive(survivors: &[&TestServer]) {
    survivors[0].clock.advance_seconds(LEASE_SECONDS);
    for survivor in survivors {
        survivor.store.renew_lease().await.unwrap();
    }
}

/// A call whose server dies between its intent and its outcome.
async fn interrupted(server: &TestServer, agent: &Agent) -> String {
    server.fault.arm("execute.intended");
    agent.invoke("fake.write", json!({ "text": "a" })).await.problem(500, "internal");
    only(server).await
}

async fn only(server: &TestServer) -> String {
    let listed = server.owner.get("/api/v1/invocations").await.ok();
    assert_eq!(listed["items"].as_array().unwrap().len(), 1, "{listed:#}");
    listed["items"][0]["id"].as_str().unwrap().to_owned()
}

async fn status_of(server: &TestServer, id: &str) -> Value {
    server.shown(id).await["status"].clone()
}

fn happened() -> Reconciled {
    Reconciled::Happened(Output::new(json!({ "done": true })))
}

async fn what_a_dead_server_was_running_another_settles_when_its_lease_has_run_out(kind: Kind) {
    for (found, expected) in [(happened(), "succeeded"), (Reconciled::DidNot, "failed"), (Reconciled::Unknown, "in_doubt")] {
        let (dead, agent) = first(kind).await;
        let survivor = beside(&dead).await;
        let id = interrupted(&dead, &agent).await;
        dead.clock.advance_seconds(LEASE_SECONDS - 1);
        survivor.store.renew_lease().await.unwrap();
        survivor.pipeline.sweep().await.unwrap();
        assert_eq!((status_of(&survivor, &id).await, dead.source.reconciliations().len()), (json!("running"), 0), "it may yet be heard of");
        dead.source.will_reconcile(found);
        dead.clock.advance_seconds(1);
        survivor.pipeline.sweep().await.unwrap();
        assert_eq!((status_of(&survivor, &id).await, dead.source.reconciliations().len()), (json!(expected), 1));
        survivor.pipeline.sweep().await.unwrap();
        assert_eq!(dead.source.reconciliations().len(), 1, "it is asked about once");
        survivor.verify().await;
    }
}

/// A call that the source is holding, and the task that waits for its answer.
async fn held(server: &TestServer, agent: &Agent) -> (testkit::source::Held, tokio::task::JoinHandle<Answer>) {
    held_for(server, agent, Ok(Output::new(json!({ "done": true })))).await
}

/// Like `held`, with the answer that the source then gives.
async fn held_for(
    server: &TestServer,
    agent: &Agent,
    answer: Result<Output, source::Error>,
) -> (testkit::source::Held, tokio::task::JoinHandle<Answer>) {
    let mut held = server.source.will_hold(answer);
    let agent = agent.clone();
    let calling = tokio::spawn(async move { agent.invoke("fake.write", json!({ "text": "a" })).await });
    held.arrived().await;
    (held, calling)
}

async fn what_a_live_server_runs_nobody_touches(kind: Kind) {
    let (live, agent) = first(kind).await;
    let second = beside(&live).await;
    let (held, calling) = held(&live, &agent).await;
    let id = only(&live).await;
    outlive(&[&live, &second]).await;
    second.pipeline.sweep().await.unwrap();
    let third = beside(&live).await;
    for server in [&third, &live] {
        server.pipeline.sweep().await.unwrap();
    }
    assert_eq!((status_of(&third, &id).await, live.source.reconciliations().len()), (json!("running"), 0));
    held.release();
    assert_eq!(calling.await.unwrap().ok()["invocation"]["status"], "succeeded");
    assert_eq!(live.verify().await.receipts, 1);
}

/// The cause may be a bug, or a store that was away for too long: no task runs the call any more, but its server lives.
async fn a_call_whose_walk_broke_off_is_settled_by_its_own_server(kind: Kind) {
    let (server, agent) = first(kind).await;
    let broken = interrupted(&server, &agent).await;
    let (held, calling) = held(&server, &agent).await;
    server.source.will_reconcile(happened());
    server.pipeline.sweep().await.unwrap();
    assert_eq!((status_of(&server, &broken).await, server.source.reconciliations().len()), (json!("succeeded"), 1));
    held.release();
    assert_eq!(calling.await.unwrap().ok()["invocation"]["status"], "succeeded", "what is being walked is left alone");
    assert_eq!(server.verify().await.receipts, 2);
}

async fn of_several_survivors_one_asks_what_became_of_a_call(kind: Kind) {
    let (dead, agent) = first(kind).await;
    let (second, third) = (beside(&dead).await, beside(&dead).await);
    let id = interrupted(&dead, &agent).await;
    outlive(&[&second, &third]).await;
    let sweeps = || async { tokio::join!(second.pipeline.sweep(), third.pipeline.sweep(), second.pipeline.sweep()) };
    let (one, other, again) = sweeps().await;
    one.and(other).and(again).unwrap();
    assert_eq!((status_of(&third, &id).await, dead.source.reconciliations().len()), (json!("in_doubt"), 1));
    // A server that starts asks once more about calls in doubt. Two that start together ask only once.
    let (fourth, fifth) = (dead.restart().await, dead.restart().await);
    dead.source.will_reconcile(happened());
    let (one, other) = tokio::join!(fourth.pipeline.recover(), fifth.pipeline.recover());
    one.and(other).unwrap();
    assert_eq!((status_of(&third, &id).await, dead.source.reconciliations().len()), (json!("succeeded"), 2));
    assert_eq!(third.verify().await.receipts, 1);
}

async fn a_restarted_server_settles_what_it_left_while_another_lives(kind: Kind) {
    let (dead, agent) = first(kind).await;
    let other = beside(&dead).await;
    let id = interrupted(&dead, &agent).await;
    dead.source.will_reconcile(happened());
    let restarted = dead.restart().await;
    restarted.store.succeed(dead.store.server_id().clone());
    restarted.pipeline.recover().await.unwrap();
    assert_eq!(status_of(&other, &id).await, "succeeded", "its own lease needs not run out for that");
    assert_eq!(restarted.verify().await.receipts, 1);
}

async fn what_another_could_not_tell_the_restarted_server_can(kind: Kind) {
    let (dead, agent) = first(kind).await;
    let other = beside(&dead).await;
    let id = interrupted(&dead, &agent).await;
    outlive(&[&other]).await;
    other.pipeline.sweep().await.unwrap();
    assert_eq!(status_of(&other, &id).await, "in_doubt");
    dead.source.will_reconcile(happened());
    let restarted = beside(&dead).await;
    assert_eq!(status_of(&other, &id).await, "succeeded");
    assert_eq!(restarted.verify().await.receipts, 1);
}

async fn a_server_taken_for_gone_says_how_its_call_ended(kind: Kind) {
    let (slow, agent) = first(kind).await;
    let other = beside(&slow).await;
    let (held, calling) = held(&slow, &agent).await;
    let id = only(&slow).await;
    outlive(&[&other]).await;
    other.pipeline.sweep().await.unwrap();
    assert_eq!(status_of(&other, &id).await, "in_doubt");
    held.release();
    assert_eq!(calling.await.unwrap().ok()["invocation"]["status"], "succeeded");
    assert_eq!((status_of(&other, &id).await, slow.source.effects()), (json!("succeeded"), 1));
    assert_eq!(other.verify().await.receipts, 1);
}

async fn a_server_taken_for_gone_answers_what_another_found_out(kind: Kind) {
    let (slow, agent) = first(kind).await;
    let broken = || Err(source::Error::Broken { source_id: "fake".to_owned(), message: "gone".to_owned() });
    let answered = || Ok(Output::new(json!({ "done": true })));
    for (found, own, expected) in [
        (happened(), answered(), (200, "succeeded")),
        (happened(), broken(), (200, "succeeded")),
        (Reconciled::DidNot, answered(), (502, "failed")),
        (Reconciled::DidNot, broken(), (502, "failed")),
    ] {
        let other = beside(&slow).await;
        slow.store.renew_lease().await.unwrap();
        let (held, calling) = held_for(&slow, &agent, own).await;
        outlive(&[&other]).await;
        slow.source.will_reconcile(found);
        other.pipeline.sweep().await.unwrap();
        held.release();
        let answer = calling.await.unwrap();
        assert_eq!((answer.status, answer.body["invocation"]["status"].as_str().unwrap()), expected, "{answer:?}");
    }
    assert_eq!(slow.verify().await.receipts, 4);
}

async fn a_server_taken_for_gone_answers_what_its_batch_became(kind: Kind) {
    let write = |text: &str| json!({ "action": "fake.write", "params": { "text": text } });
    for mode in ["best_effort", "all_or_nothing"] {
        let (slow, agent) = first_with_pair(kind).await;
        let other = beside(&slow).await;
        let mut held = slow.source.will_hold(Ok(Output::new(json!({ "done": true }))));
        let running = {
            let (agent, batch) = (agent.clone(), json!({ "mode": mode, "actions": [write("a"), write("b")] }));
            tokio::spawn(async move { agent.client.post(&format!("/api/v1/sessions/{}/actions/batch", agent.session), batch).await })
        };
        held.arrived().await;
        outlive(&[&other]).await;
        slow.source.will_reconcile(happened());
        other.pipeline.sweep().await.unwrap();
        other.pipeline.finish().await;
        held.release();
        let ended = running.await.unwrap().ok();
        assert_eq!((&ended["status"], slow.source.effects()), (&json!("succeeded"), 2), "{ended:#}");
        let report = other.verify().await;
        assert_eq!((report.batches, report.receipts), (1, 2));
    }
}

async fn a_server_waits_with_the_end_of_its_call_for_the_one_that_asks_about_it(kind: Kind) {
    let (slow, agent) = first(kind).await;
    let other = beside(&slow).await;
    let (held, calling) = held(&slow, &agent).await;
    let id = only(&slow).await;
    let invocation = InvocationId::parse(&id).unwrap();
    outlive(&[&other]).await;
    // The other server has claimed the call and has not reconciled it yet.
    assert!(other.store.claim(&other.org, &invocation, Status::Running).await.unwrap());
    held.release();
    calling.await.unwrap().problem(503, "outcome_unrecorded");
    assert_eq!(status_of(&slow, &id).await, "running");
    let running = other.store.find_invocation(&other.org, &invocation).await.unwrap().unwrap();
    let doubted = Invocation { status: Status::InDoubt, ..running };
    let drawn = EventId::new(doubted.created_at, [7; 10]);
    let event = EventDraft { id: drawn, name: "invocation.in_doubt", key: id.clone(), body: "{}".into() };
    assert!(matches!(other.store.doubt(doubted, event).await.unwrap(), Finished::Recorded { .. }));
    // The walk that continues after its caller was answered ends once its outcome is recorded.
    slow.pipeline.finish().await;
    assert_eq!((status_of(&other, &id).await, slow.source.effects()), (json!("succeeded"), 1));
    assert_eq!(other.verify().await.receipts, 1);
}

async fn a_server_that_is_not_heard_of_begins_no_effect(kind: Kind) {
    let (server, agent) = first(kind).await;
    server.clock.advance_seconds(LEASE_FENCE_SECONDS);
    let refused = agent.invoke("fake.write", json!({ "text": "a" })).await;
    refused.problem(503, "store_unavailable");
    assert!(refused.body["detail"].as_str().unwrap().contains("retrying is safe"), "{refused:?}");
    assert_eq!((server.source.effects(), server.counts().await.0), (0, 0));
    server.store.renew_lease().await.unwrap();
    agent.invoke("fake.write", json!({ "text": "a" })).await.ok();
    assert_eq!(server.verify().await.receipts, 1);
}

fn three_writes() -> Value {
    let write = |text: &str| json!({ "action": "fake.write", "params": { "text": text } });
    json!({ "mode": "best_effort", "actions": [write("a"), write("b"), write("c")] })
}

async fn run_batch(agent: &Agent) -> Answer {
    agent.client.post(&format!("/api/v1/sessions/{}/actions/batch", agent.session), three_writes()).await
}

async fn only_batch(server: &TestServer) -> Value {
    server.owner.get("/api/v1/batches").await.ok()["items"][0].clone()
}

async fn a_batch_of_a_dead_server_is_finished_by_another(kind: Kind) {
    let (dead, agent) = first(kind).await;
    let (second, third) = (beside(&dead).await, beside(&dead).await);
    dead.fault.arm("batch.part");
    run_batch(&agent).await.problem(500, "internal");
    second.pipeline.sweep().await.unwrap();
    assert_eq!((&only_batch(&second).await["status"], dead.source.effects()), (&json!("running"), 1), "its server may live");
    outlive(&[&second, &third]).await;
    let (one, other) = tokio::join!(second.pipeline.sweep(), third.pipeline.sweep());
    one.and(other).unwrap();
    second.pipeline.finish().await;
    third.pipeline.finish().await;
    let ended = only_batch(&second).await;
    assert_eq!((&ended["status"], dead.source.effects()), (&json!("succeeded"), 3), "{ended:#}");
    let report = second.verify().await;
    assert_eq!((report.batches, report.receipts), (1, 3));
}

async fn a_batch_of_a_live_server_is_left_to_it(kind: Kind) {
    let (live, agent) = first(kind).await;
    let second = beside(&live).await;
    let mut held = live.source.will_hold(Ok(Output::new(json!({}))));
    let running = {
        let agent = agent.clone();
        tokio::spawn(async move { run_batch(&agent).await })
    };
    held.arrived().await;
    outlive(&[&live, &second]).await;
    for server in [&second, &beside(&live).await, &live] {
        server.pipeline.sweep().await.unwrap();
    }
    assert_eq!(live.source.effects(), 1);
    held.release();
    assert_eq!(running.await.unwrap().ok()["status"], "succeeded");
    assert_eq!((live.source.effects(), live.verify().await.batches), (3, 1));
}

/// A server whose writes can be reverted, with a batch of two writes that needs both.
async fn first_with_pair(kind: Kind) -> (TestServer, Agent) {
    let server = TestServer::start(kind).await;
    server.source.redefine("write", |action| action.reversibility = Reversibility::Reversible);
    server.pipeline.recover().await.unwrap();
    server.owner.set_mode("fake.write", "allow").await;
    let agent = server.agent().await;
    (server, agent)
}

fn run_pair(agent: &Agent) -> tokio::task::JoinHandle<Answer> {
    let agent = agent.clone();
    let write = |text: &str| json!({ "action": "fake.write", "params": { "text": text } });
    let pair = json!({ "mode": "all_or_nothing", "actions": [write("a"), write("b")] });
    tokio::spawn(async move { agent.client.post(&format!("/api/v1/sessions/{}/actions/batch", agent.session), pair).await })
}

async fn a_batch_waits_for_a_part_that_another_survivor_asks_about(kind: Kind) {
    let (dead, agent) = first_with_pair(kind).await;
    let (second, third) = (beside(&dead).await, beside(&dead).await);
    let mut held = dead.source.will_hold(Ok(Output::new(json!(1))));
    let running = run_pair(&agent);
    held.arrived().await;
    dead.fault.arm("execute.intended");
    held.release();
    running.await.unwrap().problem(500, "internal");
    outlive(&[&second, &third]).await;
    let mut asking = dead.source.will_hold_reconcile(happened());
    let sweeping = {
        let pipeline = second.pipeline.clone();
        tokio::spawn(async move { pipeline.sweep().await })
    };
    asking.arrived().await;
    third.pipeline.sweep().await.unwrap();
    third.pipeline.finish().await;
    assert_eq!((&only_batch(&third).await["status"], dead.source.reverts().len()), (&json!("pending"), 0));
    asking.release();
    sweeping.await.unwrap().unwrap();
    second.pipeline.finish().await;
    let ended = only_batch(&third).await;
    assert_eq!((&ended["status"], dead.source.reverts().len()), (&json!("succeeded"), 0), "{ended:#}");
    let report = third.verify().await;
    assert_eq!((report.batches, report.receipts), (1, 2));
}

async fn a_batch_waits_for_a_part_whose_end_is_still_being_written(kind: Kind) {
    let (slow, agent) = first_with_pair(kind).await;
    let other = beside(&slow).await;
    slow.source.will_answer(json!(1));
    let mut held = slow.source.will_hold(Ok(Output::new(json!({ "done": true }))));
    let running = run_pair(&agent);
    held.arrived().await;
    let id = slow.owner.get("/api/v1/invocations?status=running").await.ok()["items"][0]["id"].as_str().unwrap().to_owned();
    let invocation = InvocationId::parse(&id).unwrap();
    outlive(&[&other]).await;
    // The other server has claimed the part and has not reconciled it yet.
    assert!(other.store.claim(&other.org, &invocation, Status::Running).await.unwrap());
    held.release();
    running.await.unwrap().problem(503, "outcome_unrecorded");
    slow.store.renew_lease().await.unwrap();
    slow.pipeline.sweep().await.unwrap();
    while only_batch(&slow).await["status"] == "running" {
        tokio::task::yield_now().await;
    }
    assert_eq!((&only_batch(&slow).await["status"], slow.source.reverts().len()), (&json!("pending"), 0));
    let running = other.store.find_invocation(&other.org, &invocation).await.unwrap().unwrap();
    let doubted = Invocation { status: Status::InDoubt, ..running };
    let drawn = EventId::new(doubted.created_at, [7; 10]);
    let event = EventDraft { id: drawn, name: "invocation.in_doubt", key: id.clone(), body: "{}".into() };
    assert!(matches!(other.store.doubt(doubted, event).await.unwrap(), Finished::Recorded { .. }));
    // The walk that continues after its caller was answered ends once its outcome is recorded, and the batch ends with the next sweep.
    slow.pipeline.finish().await;
    slow.pipeline.sweep().await.unwrap();
    slow.pipeline.finish().await;
    let ended = only_batch(&other).await;
    assert_eq!((&ended["status"], slow.source.effects()), (&json!("succeeded"), 2), "{ended:#}");
    assert_eq!(other.verify().await.batches, 1);
}

/// A server where preparing an approved call takes as long as the test wants.
async fn first_asking(kind: Kind) -> (TestServer, Agent) {
    let server = TestServer::start(kind).await;
    server.pipeline.recover().await.unwrap();
    let agent = server.agent().await;
    (server, agent)
}

/// An approved call that is being prepared, and the task that waits for its answer.
async fn approved(server: &TestServer, agent: &Agent) -> (String, testkit::source::Held, tokio::task::JoinHandle<Answer>) {
    let id = agent.pending("fake.write", json!({ "text": "a" })).await;
    let mut preparing = server.source.will_hold_prepare();
    let approving = {
        let (owner, id) = (server.owner.clone(), id.clone());
        tokio::spawn(async move { owner.approve(&id).await })
    };
    preparing.arrived().await;
    (id, preparing, approving)
}

/// Advances the clock beyond the wait for a lost walk, but not so far that a server counts as gone.
async fn later(servers: &[&TestServer]) {
    servers[0].clock.advance_seconds(LEASE_FENCE_SECONDS);
    for server in servers {
        server.store.renew_lease().await.unwrap();
    }
}

async fn an_approved_call_is_made_ready_once(kind: Kind) {
    let (server, agent) = first_asking(kind).await;
    let (id, preparing, approving) = approved(&server, &agent).await;
    later(&[&server]).await;
    for _ in 0..2 {
        server.pipeline.sweep().await.unwrap();
    }
    server.pipeline.recover().await.unwrap();
    assert_eq!((status_of(&server, &id).await, server.source.preparations()), (json!("approved"), 1));
    preparing.release();
    assert_eq!(approving.await.unwrap().ok()["invocation"]["status"], "succeeded");
    server.pipeline.finish().await;
    assert_eq!((server.source.preparations(), server.source.effects(), server.verify().await.receipts), (1, 1, 1));
}

async fn an_approved_call_that_a_live_server_makes_ready_is_left_to_it(kind: Kind) {
    let (live, agent) = first_asking(kind).await;
    let second = beside(&live).await;
    let (id, preparing, approving) = approved(&live, &agent).await;
    later(&[&live, &second]).await;
    second.pipeline.sweep().await.unwrap();
    let third = beside(&live).await;
    third.pipeline.sweep().await.unwrap();
    second.pipeline.finish().await;
    third.pipeline.finish().await;
    assert_eq!((status_of(&third, &id).await, live.source.preparations()), (json!("approved"), 1));
    preparing.release();
    assert_eq!(approving.await.unwrap().ok()["invocation"]["status"], "succeeded");
    assert_eq!((live.source.preparations(), live.source.effects(), third.verify().await.receipts), (1, 1, 1));
}

/// The walk of an approved call breaks off before its intent.
async fn broken_off_approved(server: &TestServer, agent: &Agent) -> String {
    let id = agent.pending("fake.write", json!({ "text": "a" })).await;
    server.fault.arm("execute.prepared");
    server.owner.approve(&id).await.problem(500, "internal");
    id
}

async fn an_approved_call_whose_walk_broke_off_is_started_by_its_own_server(kind: Kind) {
    let (server, agent) = first_asking(kind).await;
    let id = broken_off_approved(&server, &agent).await;
    server.pipeline.sweep().await.unwrap();
    server.pipeline.finish().await;
    assert_eq!(status_of(&server, &id).await, "approved", "its walk is given time");
    later(&[&server]).await;
    server.pipeline.sweep().await.unwrap();
    server.pipeline.finish().await;
    assert_eq!((status_of(&server, &id).await, server.source.effects()), (json!("succeeded"), 1));
    assert_eq!(server.verify().await.receipts, 1);
}

async fn an_approved_call_of_a_dead_server_is_started_by_another(kind: Kind) {
    let (dead, agent) = first_asking(kind).await;
    let (second, third) = (beside(&dead).await, beside(&dead).await);
    let id = broken_off_approved(&dead, &agent).await;
    later(&[&dead, &second, &third]).await;
    second.pipeline.sweep().await.unwrap();
    second.pipeline.finish().await;
    assert_eq!((status_of(&second, &id).await, dead.source.preparations()), (json!("approved"), 1), "its server may live");
    outlive(&[&second, &third]).await;
    let (one, other) = tokio::join!(second.pipeline.sweep(), third.pipeline.sweep());
    one.and(other).unwrap();
    second.pipeline.finish().await;
    third.pipeline.finish().await;
    assert_eq!((status_of(&second, &id).await, dead.source.effects()), (json!("succeeded"), 1));
    assert_eq!((dead.source.preparations(), third.verify().await.receipts), (2, 1), "one of the survivors started it");
}

async fn a_restarted_server_starts_at_once_what_was_approved_there(kind: Kind) {
    let (dead, agent) = first_asking(kind).await;
    let other = beside(&dead).await;
    let id = broken_off_approved(&dead, &agent).await;
    other.pipeline.recover().await.unwrap();
    other.pipeline.finish().await;
    assert_eq!(status_of(&other, &id).await, "approved", "its server may live");
    let restarted = dead.restart().await;
    restarted.store.succeed(dead.store.server_id().clone());
    restarted.pipeline.recover().await.unwrap();
    restarted.pipeline.finish().await;
    assert_eq!((status_of(&other, &id).await, dead.source.effects()), (json!("succeeded"), 1), "no time has passed");
    assert_eq!(restarted.verify().await.receipts, 1);
}

/// The events of the org are another server's, which does nothing with them: it may have died a moment ago. By the clock of the holds it keeps
/// them for ever.
async fn a_run_goes_on_after_its_answer_whoever_has_the_events(kind: Kind) {
    let (server, _agent) = first_asking(kind).await;
    let idle = beside(&server).await;
    let group = GroupName::parse("automations").unwrap();
    idle.store.subscribe(&server.org, NewGroup::ours(group.clone(), Start::Now)).await.unwrap();
    assert_eq!(idle.store.hold_group(&server.org, &group).await, Ok(true));
    let _working = server.work();
    let step = json!({ "step_id": "write", "action": "fake.write", "config": { "text": "x" } });
    let automation = id_of(&saved(&server.owner, json!({ "schema_version": "1.0", "name": "Goes on", "plan": [step] })).await);
    let run = run(&server.owner, &automation, json!({})).await;
    let waits = waiting(&server.owner, &run).await;
    server.owner.approve(waits["invocation_id"].as_str().unwrap()).await.ok();
    let shown = ended(&server.owner, &run).await;
    assert_eq!(shown["status"], "succeeded", "{shown:#}");
    let told = server.store.list_events_after(&server.org, 0, 500).await.unwrap();
    assert!(told.iter().all(|event| event.name != "automation.mended"), "nobody had forgotten it: {told:#?}");
}

async fn a_call_of_a_silent_server_is_taken_over_for_a_run(kind: Kind) {
    for (found, expected) in [(happened(), "succeeded"), (Reconciled::DidNot, "failed"), (Reconciled::Unknown, "in_doubt")] {
        let (silent, agent) = first(kind).await;
        let survivor = beside(&silent).await;
        let id = interrupted(&silent, &agent).await;
        let invocation = InvocationId::parse(&id).unwrap();
        let still_runs = async || survivor.pipeline.take_over(&survivor.org, &invocation).await.unwrap();
        silent.clock.advance_seconds(LEASE_SILENT_SECONDS - 1);
        survivor.store.renew_lease().await.unwrap();
        assert!(still_runs().await);
        assert_eq!((status_of(&survivor, &id).await, silent.source.reconciliations().len()), (json!("running"), 0), "it was heard of");
        silent.source.will_reconcile(found);
        silent.clock.advance_seconds(1);
        survivor.pipeline.sweep().await.unwrap();
        assert_eq!(status_of(&survivor, &id).await, "running", "calls that no run waits for are left until it is gone");
        assert!(!still_runs().await);
        assert_eq!((status_of(&survivor, &id).await, silent.source.reconciliations().len()), (json!(expected), 1));
        assert!(!still_runs().await);
        assert_eq!(silent.source.reconciliations().len(), 1, "it is asked about once");
        survivor.verify().await;
    }
}

/// Its server has only lost touch, and still holds the call when the run has ended elsewhere.
async fn a_run_goes_on_before_its_silent_server_counts_as_gone(kind: Kind) {
    let (silent, _agent) = first(kind).await;
    let survivor = beside(&silent).await;
    let working = silent.work();
    let step = |id: &str, action: &str| json!({ "step_id": id, "action": action, "config": { "text": "x" } });
    let plan = [step("write", "fake.write"), step("read", "fake.read")];
    let automation = id_of(&saved(&silent.owner, json!({ "schema_version": "1.0", "name": "Goes on", "plan": plan })).await);
    let mut held = silent.source.will_hold(Ok(Output::new(json!({ "done": true }))));
    let run = run(&silent.owner, &automation, json!({})).await;
    held.arrived().await;
    drop(working);
    silent.clock.advance_seconds(LEASE_SILENT_SECONDS);
    survivor.store.renew_lease().await.unwrap();
    // Perhaps its own worker gave it back as it went.
    assert!(survivor.store.free_all_runs().await.unwrap() <= 1);
    silent.source.will_reconcile(happened());
    let _working = survivor.work();
    let shown = ended(&survivor.owner, &run).await;
    assert_eq!((&shown["status"], shown["steps"].as_array().unwrap().len()), (&json!("succeeded"), 2), "{shown:#}");
    held.release();
    silent.pipeline.finish().await;
    let writes = silent.source.calls().iter().filter(|call| call.action.as_str() == "fake.write").count();
    assert_eq!(writes, 1, "the effect is not repeated");
    let again = survivor.owner.get(&format!("/api/v1/runs/{run}")).await.ok();
    assert_eq!(again["steps"], shown["steps"], "what the first server brings changes nothing");
    survivor.verify().await;
}
