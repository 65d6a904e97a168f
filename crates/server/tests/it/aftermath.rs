//! After trouble, the report about an effect is true: an effect that stands is reported as standing, a rolled back one is rolled back, a
//! repetition is announced by an intent first, and nobody can settle a call while it is being reconciled.

use crate::harness::{Agent, Answer, Kind, TestServer, on_both_engines, on_postgres, on_sqlite};
use countersign_core::Tier;
use countersign_core::action::{Repeatability, Reversibility};
use countersign_core::effect::Check;
use countersign_core::limits::LEASE_FENCE_SECONDS;
use countersign_core::source::{Error, Output, Reconciled};
use serde_json::{Value, json};

on_sqlite!(
    a_repair_that_never_left_gives_no_use_of_a_grant_back,
    what_was_not_repaired_and_cannot_be_taken_back_stands,
    a_batch_in_which_something_stands_is_not_reverted,
    a_key_whose_effect_stands_stays_taken,
    taking_back_is_tried_again_where_the_source_could_not_be_asked,
    what_is_in_doubt_and_fails_its_checks_is_taken_back,
    a_request_is_made_once_more_only_as_often_as_any,
    an_interrupted_read_has_failed,
    every_doubt_is_asked_about,
);

on_both_engines!(
    a_crash_does_not_hide_why_an_effect_was_repaired_or_taken_back,
    a_request_that_is_made_once_more_is_announced_before,
    nobody_settles_what_is_being_reconciled,
    of_two_people_one_settles,
);

on_postgres!(what_could_not_be_announced_is_taken_back_when_it_can);

const CHECK: &str = "looks_right";

/// `fake.write` is allowed, may be repeated, and has a check.
async fn looked_at(kind: Kind, reversibility: Reversibility) -> TestServer {
    looked_at_as(kind, reversibility, Repeatability::Repeatable).await
}

/// The same, where a call of it that broke off is in doubt at once: it must not be repeated.
async fn looked_at_once(kind: Kind, reversibility: Reversibility) -> TestServer {
    looked_at_as(kind, reversibility, Repeatability::NotRepeatable).await
}

async fn looked_at_as(kind: Kind, reversibility: Reversibility, repeatability: Repeatability) -> TestServer {
    let server = TestServer::start(kind).await;
    server.pipeline.recover().await.unwrap();
    server.source.redefine("write", |action| {
        action.reversibility = reversibility;
        action.repeatability = repeatability;
        action.checks = vec![CHECK.to_owned()];
    });
    server.owner.set_mode("fake.write", "allow").await;
    server
}

fn wrong() -> Vec<Check> {
    vec![Check::failed(CHECK, "it is not what was asked for")]
}

fn busy() -> Error {
    Error::Busy { source_id: "fake".into(), message: "later".into(), retry_after_ms: None }
}

fn broke() -> Error {
    Error::Broken { source_id: "fake".into(), message: "cut".into() }
}

fn happened() -> Reconciled {
    Reconciled::Happened(Output::new(json!({ "done": true })))
}

/// The invocation of the last entry in the audit log.
async fn last(server: &TestServer) -> Value {
    let log = server.log().await;
    let id = log.iter().rev().find_map(|(_, body)| body["invocation_id"].as_str()).unwrap();
    server.shown(id).await
}

async fn intents(server: &TestServer) -> usize {
    server.log().await.iter().filter(|(kind, _)| kind == "intent").count()
}

async fn write(agent: &Agent) -> Answer {
    agent.invoke("fake.write", json!({ "text": "a" })).await
}

async fn settle(server: &TestServer, id: &str, said: &str) -> Answer {
    server.owner.post(&format!("/api/v1/invocations/{id}/settle"), json!({ "as": said, "reason": "I looked" })).await
}

/// A call in doubt.
async fn doubted(server: &TestServer, agent: &Agent) -> String {
    server.source.will_fail(broke());
    write(agent).await.problem(409, "in_doubt");
    let listed = server.owner.get("/api/v1/invocations?status=in_doubt").await.ok();
    listed["items"][0]["id"].as_str().unwrap().to_owned()
}

async fn a_repair_that_never_left_gives_no_use_of_a_grant_back(kind: Kind) {
    for (reversibility, status) in [(Reversibility::Reversible, "reverted"), (Reversibility::NotReversible, "failed")] {
        let server = looked_at(kind, reversibility).await;
        server.owner.set_mode("fake.write", "require_approval").await;
        let grant = server.owner.grant(json!({ "covers": "fake.write", "scope": "org", "calls_max": 1 })).await;
        server.source.will_answer(json!({ "done": true }));
        server.source.will_check(Ok(wrong()));
        server.source.will_fail(busy());
        write(&server.agent().await).await.problem(502, "source_failed");
        let receipt = server.receipt_of(last(&server).await["id"].as_str().unwrap()).await;
        assert_eq!((&receipt["status"], &receipt["grant"]), (&json!(status), &json!(grant)));
        assert_ne!(receipt["grant_returned"], true, "{receipt}");
        assert_eq!(server.owner.get(&format!("/api/v1/grants/{grant}")).await.ok()["calls_used"], 1);
        server.verify().await;
    }
}

async fn what_was_not_repaired_and_cannot_be_taken_back_stands(kind: Kind) {
    let server = looked_at(kind, Reversibility::NotReversible).await;
    let agent = server.agent().await;
    // Either the repair itself fails, or a rule changes before it.
    for changes_a_rule in [false, true] {
        let mut held = server.source.will_hold(Ok(Output::new(json!({ "done": true }))));
        server.source.will_check(Ok(wrong()));
        server.source.will_fail(Error::Failed { code: "no", message: "no".into() });
        let calling = tokio::spawn({
            let agent = agent.clone();
            async move { write(&agent).await }
        });
        held.arrived().await;
        if changes_a_rule {
            server.owner.set_mode("fake.read", "deny").await;
        }
        held.release();
        calling.await.unwrap().problem(502, "source_failed");
        let ended = last(&server).await;
        let not_tried = json!({ "attempted": false, "ok": false });
        assert_eq!((&ended["status"], &ended["rollback"]), (&json!("failed"), &not_tried), "{ended}");
        assert_eq!((&ended["error"]["code"], &ended["repair"]["attempted"]), (&json!("verification_failed"), &json!(!changes_a_rule)));
        server.verify().await;
    }
}

async fn a_batch_in_which_something_stands_is_not_reverted(kind: Kind) {
    let server = looked_at(kind, Reversibility::NotReversible).await;
    let agent = server.agent().await;
    server.source.will_answer(json!({ "done": true }));
    server.source.will_check(Ok(wrong()));
    server.source.will_fail(busy());
    let batch = json!({ "mode": "all_or_nothing", "actions": [{ "action": "fake.write", "params": { "text": "a" } }] });
    agent.client.post(&format!("/api/v1/sessions/{}/actions/batch", agent.session), batch).await;
    let batch = server.owner.get("/api/v1/batches").await.ok()["items"][0].clone();
    assert_eq!((&batch["status"], &batch["parts"][0]["effect"]), (&json!("failed"), &json!("unknown")), "{batch:#}");
    server.verify().await;
}

async fn a_key_whose_effect_stands_stays_taken(kind: Kind) {
    let server = looked_at(kind, Reversibility::NotReversible).await;
    let agent = server.agent().await;
    server.source.will_answer(json!({ "done": true }));
    server.source.will_check(Ok(wrong()));
    server.source.will_fail(busy());
    let call = || agent.invoke_with(json!({ "action": "fake.write", "params": { "text": "a" }, "idempotency_key": "k" }));
    let first = call().await;
    first.problem(502, "source_failed");
    let calls = server.source.calls().len();
    assert_eq!((call().await.id(), server.source.calls().len()), (first.id(), calls), "it is not made a second time");
    server.verify().await;
}

async fn taking_back_is_tried_again_where_the_source_could_not_be_asked(kind: Kind) {
    // How often the source cannot be reached, how the call ends, and after how many attempts: the effect, and each rollback.
    for (times, status, attempts) in [(1, "reverted", 3), (2, "reverted", 4), (9, "failed", 4)] {
        let server = looked_at(kind, Reversibility::Reversible).await;
        server.source.redefine("write", |action| {
            action.tier = Tier::R3;
            action.repeatability = Repeatability::NotRepeatable;
        });
        server.owner.review("fake.write").await;
        server.source.will_check(Ok(wrong()));
        for _ in 0..times {
            server.source.will_revert(Err(busy()));
        }
        write(&server.agent().await).await.problem(502, "source_failed");
        let ended = last(&server).await;
        assert_eq!((&ended["status"], &ended["attempts"]), (&json!(status), &json!(attempts)), "{ended}");
        assert_eq!((server.source.reverts().len(), intents(&server).await), (attempts - 1, attempts));
        server.verify().await;
    }
}

/// The server loses its lease for a while. It starts nothing then, but it still has to roll back what it has begun.
async fn what_could_not_be_announced_is_taken_back_when_it_can(kind: Kind) {
    let server = looked_at(kind, Reversibility::Reversible).await;
    let agent = server.agent().await;
    let mut held = server.source.will_hold(Ok(Output::new(json!({ "done": true }))));
    server.source.will_check(Ok(wrong()));
    let calling = tokio::spawn(async move { write(&agent).await });
    held.arrived().await;
    server.clock.advance_seconds(LEASE_FENCE_SECONDS);
    held.release();
    calling.await.unwrap().problem(503, "outcome_unrecorded");
    let running = last(&server).await;
    assert_eq!((&running["status"], server.source.reverts().len()), (&json!("running"), 0), "{running}");
    server.pipeline.sweep().await.unwrap();
    assert_eq!(server.source.reconciliations().len(), 0, "it is not left behind");
    server.store.renew_lease().await.unwrap();
    // The walk that continues after its caller was answered ends once its outcome is recorded.
    server.pipeline.finish().await;
    let ended = last(&server).await;
    assert_eq!((&ended["status"], server.source.reverts().len()), (&json!("reverted"), 1), "{ended}");
    assert_eq!(ended["error"]["code"], "verification_failed");
    assert_eq!(server.verify().await.open_intents, 0);
}

async fn what_is_in_doubt_and_fails_its_checks_is_taken_back(kind: Kind) {
    let server = looked_at_once(kind, Reversibility::Reversible).await;
    let id = doubted(&server, &server.agent().await).await;
    server.source.will_reconcile(happened());
    server.source.will_check(Ok(wrong()));
    let restarted = server.restart().await;
    restarted.store.succeed(server.store.server_id().clone());
    restarted.pipeline.recover().await.unwrap();
    let ended = restarted.shown(&id).await;
    assert_eq!((&ended["status"], &ended["attempts"], server.source.reverts().len()), (&json!("reverted"), &json!(2), 1), "{ended}");
    restarted.verify().await;
}

async fn a_crash_does_not_hide_why_an_effect_was_repaired_or_taken_back(kind: Kind) {
    let refused = || Err(Error::Refused { code: "no", message: "no".into() });
    let cases = [
        // A repair that did not happen leaves the first effect, or none.
        ("remedy.repair_intended", Reversibility::NotReversible, Reconciled::DidNot, "failed", Some(false), Some(false)),
        ("remedy.repair_intended", Reversibility::Reversible, Reconciled::DidNot, "reverted", Some(false), Some(true)),
        ("remedy.repaired", Reversibility::NotReversible, happened(), "succeeded", Some(true), None),
        // If the rollback cannot be made now, the interrupted attempt may already have made it.
        ("remedy.rollback_intended", Reversibility::Reversible, Reconciled::Unknown, "in_doubt", None, None),
    ];
    for (point, reversibility, found, status, repair, rollback) in cases {
        let server = looked_at(kind, reversibility).await;
        server.source.will_check(Ok(wrong()));
        server.fault.arm(point);
        write(&server.agent().await).await.problem(500, "internal");
        if point == "remedy.rollback_intended" {
            server.source.will_revert(refused());
        }
        server.source.will_reconcile(found);
        server.pipeline.sweep().await.unwrap();
        let ended = last(&server).await;
        assert_eq!(ended["status"], status, "{point}: {ended}");
        assert_eq!((ended["repair"]["ok"].as_bool(), ended["rollback"]["ok"].as_bool()), (repair, rollback), "{point}: {ended}");
        let code = match status {
            "succeeded" => None,
            "in_doubt" => Some("interrupted"),
            _ => Some("verification_failed"),
        };
        assert_eq!(ended["error"]["code"].as_str(), code, "{point}: {ended}");
        if status == "in_doubt" {
            continue;
        }
        let receipt = server.receipt_of(ended["id"].as_str().unwrap()).await;
        assert_eq!(receipt["rollback"]["ok"].as_bool(), rollback, "{point}");
        server.verify().await;
    }
}

async fn a_request_that_is_made_once_more_is_announced_before(kind: Kind) {
    let server = looked_at(kind, Reversibility::NotReversible).await;
    let agent = server.agent().await;
    server.source.will_fail(broke());
    server.source.will_reconcile(Reconciled::ByAskingAgain);
    let mut held = server.source.will_hold_reconcile(happened());
    let calling = tokio::spawn(async move { write(&agent).await });
    held.arrived().await;
    assert_eq!((intents(&server).await, &last(&server).await["attempts"]), (2, &json!(2)), "before the provider is asked");
    held.release();
    assert_eq!(calling.await.unwrap().ok()["invocation"]["attempts"], 2);
    assert_eq!(server.source.reconciliations(), [false, true]);
    server.verify().await;
}

async fn a_request_is_made_once_more_only_as_often_as_any(kind: Kind) {
    let server = looked_at_once(kind, Reversibility::NotReversible).await;
    let agent = server.agent().await;
    server.source.will_reconcile(Reconciled::ByAskingAgain);
    server.source.will_reconcile(Reconciled::Unknown);
    let id = doubted(&server, &agent).await;
    let mut before = server;
    for (attempts, asked) in [(3, 4), (3, 5), (3, 6)] {
        before.source.will_reconcile(Reconciled::ByAskingAgain);
        let restarted = before.restart().await;
        restarted.store.succeed(before.store.server_id().clone());
        restarted.pipeline.recover().await.unwrap();
        let now = restarted.shown(&id).await;
        assert_eq!((&now["status"], &now["attempts"]), (&json!("in_doubt"), &json!(attempts)), "{now}");
        assert_eq!(now["error"]["code"], "source_broke", "it is still known what made it so");
        assert_eq!(restarted.source.reconciliations().len(), asked);
        before = restarted;
    }
    assert_eq!((intents(&before).await, before.source.calls().len()), (3, 1));
    // The caller's limit on retries holds here too.
    let agent = before.agent().await;
    before.source.will_fail(broke());
    before.source.will_reconcile(Reconciled::ByAskingAgain);
    let bounded = json!({ "tool_id": "fake.write", "params": { "text": "b" }, "qos": { "max_retries": 0 } });
    agent.client.post("/api/v1/actions/execute", bounded).await;
    assert_eq!(before.source.reconciliations().len(), 7);
    settle(&before, &id, "succeeded").await.ok();
    assert_eq!(before.receipt_of(&id).await["attempts"], 3);
    before.verify().await;
}

async fn nobody_settles_what_is_being_reconciled(kind: Kind) {
    for said in ["succeeded", "failed", "retry"] {
        let server = looked_at_once(kind, Reversibility::NotReversible).await;
        let id = doubted(&server, &server.agent().await).await;
        let calls = server.source.calls().len();
        let mut held = server.source.will_hold_reconcile(Reconciled::DidNot);
        let restarted = server.restart().await;
        restarted.store.succeed(server.store.server_id().clone());
        let recovering = tokio::spawn(restarted.pipeline.recover());
        held.arrived().await;
        let refused = settle(&restarted, &id, said).await;
        refused.problem(409, "reconciling");
        assert!(refused.body["detail"].as_str().unwrap().contains("try again in a moment"), "{refused:?}");
        held.release();
        recovering.await.unwrap().unwrap();
        assert_eq!(restarted.shown(&id).await["status"], "failed");
        settle(&restarted, &id, said).await.problem(409, "not_in_doubt");
        assert_eq!(server.source.calls().len(), calls);
        assert_eq!(restarted.verify().await.receipts, 1);
    }
}

async fn of_two_people_one_settles(kind: Kind) {
    let server = looked_at_once(kind, Reversibility::NotReversible).await;
    let id = doubted(&server, &server.agent().await).await;
    let (one, other) = tokio::join!(settle(&server, &id, "succeeded"), settle(&server, &id, "failed"));
    let settled = [&one, &other].into_iter().filter(|answer| answer.status == 200).count();
    assert_eq!(settled, 1, "{one:?} {other:?}");
    let refused = if one.status == 200 { other } else { one };
    assert!(["reconciling", "not_in_doubt"].contains(&refused.body["code"].as_str().unwrap()), "{refused:?}");
    assert_eq!(server.verify().await.receipts, 1);
}

async fn an_interrupted_read_has_failed(kind: Kind) {
    let server = TestServer::start(kind).await;
    server.pipeline.recover().await.unwrap();
    let agent = server.agent().await;
    let call = || agent.invoke_with(json!({ "action": "fake.read", "params": {}, "idempotency_key": "k" }));
    server.fault.arm("execute.intended");
    call().await.problem(500, "internal");
    server.owner.set_mode("fake.read", "require_approval").await;
    let held = agent.pending("fake.read", json!({ "a": 1 })).await;
    server.fault.arm("execute.intended");
    server.owner.approve(&held).await.problem(500, "internal");
    server.owner.set_mode("fake.read", "allow").await;
    server.pipeline.sweep().await.unwrap();
    let listed = server.owner.get("/api/v1/invocations").await.ok();
    for read in listed["items"].as_array().unwrap() {
        assert_eq!((&read["status"], &read["error"]["code"]), (&json!("failed"), &json!("interrupted")), "{read}");
    }
    assert_eq!(server.source.reconciliations().len(), 0, "there is nothing to find out");
    assert_eq!(call().await.ok()["invocation"]["status"], "succeeded", "its key is free again");
    let report = server.verify().await;
    assert_eq!((report.receipts, report.open_intents), (3, 0));
}

async fn every_doubt_is_asked_about(kind: Kind) {
    let server = looked_at_once(kind, Reversibility::NotReversible).await;
    let agent = server.agent().await;
    const DOUBTS: usize = 103;
    for _ in 0..DOUBTS {
        // Two successes for each keep the circuit breaker closed.
        write(&agent).await.ok();
        write(&agent).await.ok();
        server.source.will_fail(broke());
        write(&agent).await.problem(409, "in_doubt");
    }
    let asked = server.source.reconciliations().len();
    let restarted = server.restart().await;
    restarted.store.succeed(server.store.server_id().clone());
    // The source can tell the outcome of none of them. Those that stay in doubt do not hide the others.
    restarted.pipeline.recover().await.unwrap();
    assert_eq!(server.source.reconciliations().len(), asked + DOUBTS);
    restarted.verify().await;
}
