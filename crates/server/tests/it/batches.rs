//! Batches: several actions in one request, all or nothing, or each for itself.

use crate::harness::{Agent, Answer, Kind, TestServer, on_both_engines, on_sqlite};
use countersign_core::action::{Repeatability, Reversibility};
use countersign_core::limits::{APPROVAL_UNATTENDED_SECONDS, ATTEMPTS_MAX, RUNNING_SECONDS_MAX};
use countersign_core::ports::EventFeed;
use countersign_core::source::{Error, Output, Reconciled};
use pipeline::limits::BATCH_PARTS_MAX;
use serde_json::{Value, json};

on_sqlite!(
    what_all_succeeds_has_one_receipt_each_and_one_for_all,
    a_part_that_fails_takes_the_others_back_the_last_first,
    a_batch_is_reverted_although_its_session_has_ended,
    nothing_starts_before_every_person_has_said_yes,
    one_no_calls_off_the_others,
    one_that_nobody_answers_calls_off_the_others,
    a_rule_that_refuses_one_part_bothers_nobody_about_the_others,
    what_a_person_let_run_is_taken_back_without_asking_again,
    what_could_not_be_taken_back_is_said_to_stand,
    a_part_in_doubt_takes_back_the_others_and_is_settled_later,
    only_the_last_part_may_be_one_that_cannot_be_taken_back,
    best_effort_goes_on_after_a_failure,
    best_effort_ends_when_the_last_answer_has_come,
    a_dry_run_says_what_each_part_would_change,
    what_makes_no_sense_is_refused_whole,
    a_batch_is_seen_by_who_may_see_its_session,
    each_part_counts_as_a_call,
    a_kill_switch_keeps_it_waiting,
    a_part_that_is_still_asked_about_is_waited_for,
    a_part_that_is_still_asked_about_is_waited_for_where_another_is_lost,
);

on_both_engines!(
    however_many_would_take_it_up_one_runs_it,
    the_same_key_has_one_effect,
    a_rule_that_changes_meanwhile_is_obeyed,
    wherever_it_stops_it_ends_whole_and_nothing_happens_twice,
    a_part_that_was_interrupted_decides_about_the_others,
);

/// `fake.write` is allowed and can be reverted; `fake.send` cannot be reverted and needs an approval.
async fn start(kind: Kind) -> TestServer {
    let server = TestServer::start(kind).await;
    server.source.redefine("write", |action| {
        action.reversibility = Reversibility::Reversible;
        action.repeatability = Repeatability::Repeatable;
    });
    server.owner.set_mode("fake.write", "allow").await;
    server
}

fn write(text: &str) -> Value {
    json!({ "action": "fake.write", "params": { "text": text } })
}

async fn run(agent: &Agent, mode: &str, actions: Value) -> Answer {
    run_with(agent, json!({ "mode": mode, "actions": actions })).await
}

async fn run_with(agent: &Agent, body: Value) -> Answer {
    agent.client.post(&format!("/api/v1/sessions/{}/actions/batch", agent.session), body).await
}

/// The values of one field of all parts of a batch.
fn each(batch: &Value, field: &str) -> Vec<String> {
    let text = |part: &Value| part[field].as_str().unwrap_or("null").to_owned();
    batch["parts"].as_array().unwrap().iter().map(text).collect()
}

async fn shown(server: &TestServer, batch: &Value) -> Value {
    server.owner.get(&format!("/api/v1/batches/{}", batch["id"].as_str().unwrap())).await.ok()
}

/// The body of a batch's signed entry.
async fn signed(server: &TestServer, batch: &Value) -> Value {
    let id = batch["receipt"]["id"].as_str().unwrap();
    let entry = server.owner.get(&format!("/api/v1/receipts/{id}")).await.ok();
    assert_eq!(entry["kind"], "batch");
    entry["payload"]["body"].clone()
}

/// The texts that were written, in order.
fn written(server: &TestServer) -> Vec<String> {
    server.source.calls().iter().map(|call| call.params["text"].as_str().unwrap_or("-").to_owned()).collect()
}

fn broken() -> Error {
    Error::Failed { code: "no_room", message: "there is no room".into() }
}

async fn what_all_succeeds_has_one_receipt_each_and_one_for_all(kind: Kind) {
    let server = start(kind).await;
    let agent = server.agent().await;
    server.source.will_answer(json!({ "wrote": "a" }));
    let answer = run(&agent, "all_or_nothing", json!([write("a"), { "action": "fake.read" }, write("b")])).await;
    assert_eq!(answer.status, 200);
    let batch = answer.ok();
    assert_eq!((&batch["status"], &batch["mode"], &batch["dry_run"]), (&json!("succeeded"), &json!("all_or_nothing"), &json!(false)));
    assert_eq!(each(&batch, "status"), ["succeeded"; 3]);
    assert_eq!(each(&batch, "effect"), ["stands", "none", "stands"]);
    assert_eq!(batch["parts"][0]["result"], json!({ "wrote": "a" }));
    assert_eq!(written(&server), ["a", "-", "b"]);
    let body = signed(&server, &batch).await;
    assert_eq!((&body["status"], &body["batch_id"]), (&json!("succeeded"), &batch["id"]));
    for (index, part) in batch["parts"].as_array().unwrap().iter().enumerate() {
        let invocation = server.shown(part["invocation_id"].as_str().unwrap()).await;
        let of = json!({ "id": batch["id"], "part": index + 1, "parts": 3, "mode": "all_or_nothing" });
        assert_eq!((&invocation["batch"], &invocation["receipt"]["id"]), (&of, &part["receipt_id"]));
        let receipt = server.receipt_of(part["invocation_id"].as_str().unwrap()).await;
        assert_eq!((&receipt["batch"], &body["parts"][index]["receipt_id"]), (&batch["id"], &part["receipt_id"]));
    }
    assert_eq!(server.verify().await.batches, 1);
    let events = server.store.list_events_after(&server.org, 0, 100).await.unwrap();
    assert_eq!(events.iter().filter(|event| event.name == "batch.succeeded").count(), 1);
    assert_eq!(shown(&server, &batch).await, batch);
    let listed = server.owner.get("/api/v1/batches").await.ok();
    assert_eq!(listed["items"][0]["id"], batch["id"]);
}

async fn a_part_that_fails_takes_the_others_back_the_last_first(kind: Kind) {
    let server = start(kind).await;
    let agent = server.agent().await;
    server.source.will_answer(json!(1));
    server.source.will_answer(json!(2));
    server.source.will_fail(broken());
    let batch = run(&agent, "all_or_nothing", json!([write("a"), write("b"), write("c"), write("d")])).await.ok();
    assert_eq!(batch["status"], "reverted");
    assert_eq!(each(&batch, "status"), ["succeeded", "succeeded", "failed", "null"]);
    assert_eq!(each(&batch, "effect"), ["reverted", "reverted", "none", "none"]);
    assert_eq!(batch["parts"][2]["error"]["code"], "no_room");
    assert_eq!(written(&server), ["a", "b", "c"], "the fourth was never asked for");
    let undone: Vec<_> = server.log().await.into_iter().filter(|(kind, body)| kind == "intent" && body["reverses"].is_string()).collect();
    let order: Vec<_> = undone.iter().map(|(_, body)| body["reverses"].clone()).collect();
    assert_eq!(order, [batch["parts"][1]["invocation_id"].clone(), batch["parts"][0]["invocation_id"].clone()]);
    for index in 0..2 {
        let part = &batch["parts"][index];
        assert_eq!(part["revert"]["ok"], true);
        let undoing = server.shown(part["revert"]["invocation_id"].as_str().unwrap()).await;
        assert_eq!((&undoing["reverses"], &undoing["batch"]["id"]), (&part["invocation_id"], &batch["id"]));
    }
    let body = signed(&server, &batch).await;
    assert_eq!((&body["parts"][0]["effect"], &body["parts"][3]["status"]), (&json!("reverted"), &Value::Null));
    server.verify().await;
}

/// A batch of two writes that need an approval, with a read between them that needs none.
async fn asking(kind: Kind) -> (TestServer, Agent, Value) {
    let server = start(kind).await;
    server.owner.set_mode("fake.write", "require_approval").await;
    let agent = server.agent().await;
    let answer = run(&agent, "all_or_nothing", json!([write("a"), { "action": "fake.read" }, write("b")])).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    let batch = answer.ok();
    assert_eq!(batch["status"], "pending");
    assert_eq!(each(&batch, "status"), ["pending", "null", "pending"]);
    assert!(server.source.calls().is_empty());
    (server, agent, batch)
}

fn part(batch: &Value, index: usize) -> String {
    batch["parts"][index]["invocation_id"].as_str().unwrap().to_owned()
}

async fn a_batch_is_reverted_although_its_session_has_ended(kind: Kind) {
    let server = start(kind).await;
    let agent = server.agent().await;
    let mut held = server.source.will_hold(Ok(Output::new(json!({}))));
    let running = tokio::spawn({
        let agent = agent.clone();
        async move { run(&agent, "all_or_nothing", json!([write("a"), write("b")])).await }
    });
    held.arrived().await;
    server.owner.post(&format!("/api/v1/sessions/{}/end", agent.session), json!({})).await.ok();
    held.release();
    let batch = running.await.unwrap().ok();
    assert_eq!(
        (&batch["status"], each(&batch, "effect")),
        (&json!("reverted"), vec!["reverted".to_owned(), "none".to_owned()]),
        "{batch:#}"
    );
    assert_eq!(server.source.reverts().len(), 1);
    server.verify().await;
}

async fn nothing_starts_before_every_person_has_said_yes(kind: Kind) {
    let (server, _agent, batch) = asking(kind).await;
    let first = server.owner.approve(&part(&batch, 2)).await;
    assert_eq!((first.status, &first.body["invocation"]["status"]), (202, &json!("approved")), "{first:?}");
    // An approved part does not run alone, before the others are approved.
    server.clock.advance_seconds(30);
    server.pipeline.sweep().await.unwrap();
    server.pipeline.recover().await.unwrap();
    assert!(server.source.calls().is_empty());
    let last = server.owner.approve(&part(&batch, 0)).await;
    assert_eq!((last.status, &last.body["invocation"]["status"]), (200, &json!("succeeded")), "{last:?}");
    let batch = shown(&server, &batch).await;
    assert_eq!((&batch["status"], written(&server)), (&json!("succeeded"), vec!["a".to_owned(), "-".into(), "b".into()]));
    server.verify().await;
}

async fn however_many_would_take_it_up_one_runs_it(kind: Kind) {
    for _ in 0..3 {
        let (server, _agent, batch) = asking(kind).await;
        server.owner.approve(&part(&batch, 2)).await.ok();
        let mut held = server.source.will_hold(Ok(Output::new(json!(1))));
        let sweeping = (0..20).map(|_| {
            let pipeline = server.pipeline.clone();
            tokio::spawn(async move { pipeline.sweep().await.unwrap() })
        });
        let sweeping: Vec<_> = sweeping.collect();
        let approving = {
            let (owner, first) = (server.owner.clone(), part(&batch, 0));
            tokio::spawn(async move { owner.approve(&first).await })
        };
        held.arrived().await;
        for sweep in sweeping {
            sweep.await.unwrap();
        }
        // The sweeps that did not get the batch have taken nothing from the run that has it.
        for _ in 0..3 {
            server.pipeline.sweep().await.unwrap();
        }
        assert_eq!((&shown(&server, &batch).await["status"], written(&server).len()), (&json!("running"), 1));
        held.release();
        let approved = approving.await.unwrap();
        assert_eq!((approved.status, &approved.body["invocation"]["status"]), (200, &json!("succeeded")), "{approved:?}");
        let batch = shown(&server, &batch).await;
        assert_eq!((&batch["status"], written(&server)), (&json!("succeeded"), vec!["a".to_owned(), "-".into(), "b".into()]));
        server.verify().await;
    }
}

async fn one_no_calls_off_the_others(kind: Kind) {
    let (server, _agent, batch) = asking(kind).await;
    server.owner.approve(&part(&batch, 0)).await.ok();
    server.owner.deny(&part(&batch, 2), "not today").await.ok();
    let batch = shown(&server, &batch).await;
    assert_eq!(
        (&batch["status"], each(&batch, "status")),
        (&json!("denied"), vec!["cancelled".into(), "null".into(), "denied".to_owned()])
    );
    assert_eq!(batch["parts"][0]["error"]["code"], "batch_called_off");
    assert!(server.source.calls().is_empty());
    server.owner.approve(&part(&batch, 0)).await.problem(409, "already_ended");
    server.verify().await;
}

async fn one_that_nobody_answers_calls_off_the_others(kind: Kind) {
    let (server, _agent, batch) = asking(kind).await;
    server.owner.approve(&part(&batch, 0)).await.ok();
    server.clock.advance_seconds(APPROVAL_UNATTENDED_SECONDS + 1);
    server.pipeline.sweep().await.unwrap();
    let answer = server.owner.get(&format!("/api/v1/batches/{}?wait=20s", batch["id"].as_str().unwrap())).await.ok();
    assert_eq!(answer["status"], "denied");
    assert_eq!(each(&answer, "status"), ["expired", "null", "expired"]);
    server.verify().await;
}

async fn a_rule_that_refuses_one_part_bothers_nobody_about_the_others(kind: Kind) {
    let server = start(kind).await;
    server.owner.set_mode("fake.write", "require_approval").await;
    server.owner.set_mode("fake.read", "deny").await;
    let agent = server.agent().await;
    let batch = run(&agent, "all_or_nothing", json!([write("a"), { "action": "fake.read" }])).await.ok();
    assert_eq!((&batch["status"], each(&batch, "status")), (&json!("denied"), vec!["null".to_owned(), "denied".into()]));
    assert!(server.source.calls().is_empty());
    // A part with invalid params says so itself.
    server.owner.set_mode("fake.read", "allow").await;
    let unfit = json!([write("a"), { "action": "fake.write", "params": { "count": "one" } }]);
    let batch = run(&agent, "all_or_nothing", unfit).await.ok();
    assert_eq!((&batch["status"], &batch["parts"][1]["error"]["code"]), (&json!("denied"), &json!("invalid_params")));
    let unheld = json!([write("a"), { "action": "fake.write", "params": { "text": "b" }, "scope": { "allowed_dirs": ["../up"] } }]);
    let batch = run(&agent, "all_or_nothing", unheld).await.ok();
    let error = &batch["parts"][1]["error"];
    assert_eq!((&batch["status"], &error["code"]), (&json!("denied"), &json!("invalid_scope")));
    assert!(error["message"].as_str().unwrap().contains("/scope/allowed_dirs/0"), "{batch:#}");
    let batch = run(&agent, "all_or_nothing", json!([write("a"), { "action": "fake.nothing" }])).await.ok();
    assert_eq!((&batch["status"], &batch["parts"][1]["error"]["code"]), (&json!("denied"), &json!("unknown_action")));
    assert_eq!(server.owner.get("/api/v1/invocations?status=pending").await.ok()["items"], json!([]));
    server.verify().await;
}

async fn what_a_person_let_run_is_taken_back_without_asking_again(kind: Kind) {
    let (server, _agent, batch) = asking(kind).await;
    server.source.will_answer(json!(1));
    server.source.will_answer(json!(2));
    server.source.will_fail(broken());
    server.owner.approve(&part(&batch, 0)).await.ok();
    server.owner.approve(&part(&batch, 2)).await.problem(502, "source_failed");
    let batch = shown(&server, &batch).await;
    assert_eq!((&batch["status"], each(&batch, "effect")), (&json!("reverted"), vec!["reverted".to_owned(), "none".into(), "none".into()]));
    let undoing = server.receipt_of(batch["parts"][0]["revert"]["invocation_id"].as_str().unwrap()).await;
    assert_eq!((&undoing["decision"]["mode"], &undoing["approval"]), (&json!("require_approval"), &Value::Null));
    server.verify().await;
    // Outside of a batch the action needs an approval, as before.
    let id = {
        let alone = server.agent().await;
        let id = alone.pending("fake.write", json!({ "text": "z" })).await;
        server.owner.approve(&id).await.ok();
        id
    };
    let answer = server.owner.post(&format!("/api/v1/invocations/{id}/revert"), json!({})).await;
    assert_eq!(answer.status, 202, "{answer:?}");
}

async fn what_could_not_be_taken_back_is_said_to_stand(kind: Kind) {
    let server = start(kind).await;
    let agent = server.agent().await;
    server.source.will_answer(json!(1));
    server.source.will_fail(broken());
    server.source.will_revert(Err(Error::Failed { code: "snapshot_lost", message: "it is gone".into() }));
    let batch = run(&agent, "all_or_nothing", json!([write("a"), write("b")])).await.ok();
    assert_eq!((&batch["status"], each(&batch, "effect")), (&json!("failed"), vec!["stands".to_owned(), "none".into()]));
    assert_eq!(
        (&batch["parts"][0]["revert"]["ok"], &batch["parts"][0]["revert"]["error"]["code"]),
        (&json!(false), &json!("snapshot_lost"))
    );
    server.verify().await;
    // A rule that denies the action also denies its compensation.
    server.source.will_answer(json!(1));
    let mut held = server.source.will_hold(Err(broken()));
    let running = {
        let agent = agent.clone();
        tokio::spawn(async move { run(&agent, "all_or_nothing", json!([write("c"), write("d")])).await })
    };
    held.arrived().await;
    server.owner.set_mode("fake.write", "deny").await;
    held.release();
    let batch = running.await.unwrap().ok();
    assert_eq!((&batch["status"], &batch["parts"][0]["revert"]["ok"]), (&json!("failed"), &json!(false)));
    server.verify().await;
}

async fn a_part_in_doubt_takes_back_the_others_and_is_settled_later(kind: Kind) {
    let server = start(kind).await;
    let agent = server.agent().await;
    server.source.will_answer(json!(1));
    for _ in 0..ATTEMPTS_MAX {
        server.source.will_fail(Error::Broken { source_id: "fake".into(), message: "cut".into() });
    }
    let batch = run(&agent, "all_or_nothing", json!([write("a"), write("b")])).await.ok();
    assert_eq!((&batch["status"], each(&batch, "status")), (&json!("failed"), vec!["succeeded".to_owned(), "in_doubt".into()]));
    assert_eq!(each(&batch, "effect"), ["reverted", "unknown"]);
    server.verify().await;
    let settle = json!({ "as": "failed", "reason": "it is not there" });
    server.owner.post(&format!("/api/v1/invocations/{}/settle", part(&batch, 1)), settle).await;
    assert_eq!(server.shown(&part(&batch, 1)).await["status"], "failed");
    server.verify().await;
}

async fn only_the_last_part_may_be_one_that_cannot_be_taken_back(kind: Kind) {
    let server = start(kind).await;
    server.owner.set_mode("fake.send", "allow").await;
    let agent = server.agent().await;
    let send = json!({ "action": "fake.send" });
    let answer = run(&agent, "all_or_nothing", json!([send, write("a")])).await;
    answer.problem(422, "invalid_batch");
    assert!(answer.body["detail"].as_str().unwrap().contains("part 1: `fake.send` cannot be reverted"), "{answer:?}");
    assert!(server.source.calls().is_empty());
    assert_eq!(server.owner.get("/api/v1/batches").await.ok()["items"], json!([]));
    let batch = run(&agent, "all_or_nothing", json!([write("a"), send])).await.ok();
    assert_eq!(batch["status"], "succeeded");
    let batch = run(&agent, "best_effort", json!([send, write("a")])).await.ok();
    assert_eq!(batch["status"], "succeeded");
    server.verify().await;
}

async fn best_effort_goes_on_after_a_failure(kind: Kind) {
    let server = start(kind).await;
    server.owner.set_mode("fake.destroy", "deny").await;
    let agent = server.agent().await;
    server.source.will_answer(json!(1));
    server.source.will_fail(broken());
    let actions = json!([write("a"), write("b"), { "action": "fake.destroy" }, { "action": "fake.nothing" }, write("c")]);
    let batch = run(&agent, "best_effort", actions).await.ok();
    assert_eq!(batch["status"], "partial");
    assert_eq!(each(&batch, "status"), ["succeeded", "failed", "denied", "null", "succeeded"]);
    assert_eq!(each(&batch, "effect"), ["stands", "none", "none", "none", "stands"]);
    assert!(server.source.reverts().is_empty());
    let batch = run(&agent, "best_effort", json!([{ "action": "fake.nothing" }])).await.ok();
    assert_eq!(batch["status"], "failed");
    server.verify().await;
}

async fn best_effort_ends_when_the_last_answer_has_come(kind: Kind) {
    let server = start(kind).await;
    let agent = server.agent().await;
    let send = json!({ "action": "fake.send" });
    let batch = run(&agent, "best_effort", json!([send, write("a"), send])).await.ok();
    assert_eq!(
        (&batch["status"], each(&batch, "status")),
        (&json!("pending"), vec!["pending".to_owned(), "succeeded".into(), "pending".into()])
    );
    server.owner.approve(&part(&batch, 0)).await.ok();
    assert_eq!(shown(&server, &batch).await["status"], "pending");
    server.owner.deny(&part(&batch, 2), "no").await.ok();
    let batch = shown(&server, &batch).await;
    assert_eq!(
        (&batch["status"], each(&batch, "status")),
        (&json!("partial"), vec!["succeeded".to_owned(), "succeeded".into(), "denied".into()])
    );
    server.verify().await;
}

async fn a_dry_run_says_what_each_part_would_change(kind: Kind) {
    let server = start(kind).await;
    server.owner.set_mode("fake.write", "require_approval").await;
    let agent = server.agent().await;
    server.source.will_preview(Ok(Output::new(json!({ "would": "write" }))));
    let read = json!({ "action": "fake.read", "params": {} });
    let body = json!({ "mode": "all_or_nothing", "actions": [write("a"), read, write("b")], "dry_run": true });
    let batch = run_with(&agent, body).await.ok();
    assert_eq!(
        (&batch["status"], &batch["dry_run"], each(&batch, "effect")),
        (&json!("succeeded"), &json!(true), vec!["none".to_owned(); 3])
    );
    assert_eq!(batch["parts"][0]["result"], json!({ "would": "write" }));
    // A dry run of a read has nothing to foresee, and the read is not made.
    let read = &batch["parts"][1]["result"];
    assert_eq!(read["changes"], json!([]));
    assert!(read["untried"].as_str().unwrap().contains("whether this call would succeed is not known"), "{read}");
    assert!(server.source.calls().is_empty());
    assert_eq!(signed(&server, &batch).await["dry_run"], true);
    server.verify().await;
}

async fn the_same_key_has_one_effect(kind: Kind) {
    let server = start(kind).await;
    let agent = server.agent().await;
    let body = json!({ "mode": "all_or_nothing", "actions": [write("a")], "idempotency_key": "k" });
    let first = run_with(&agent, body.clone()).await.ok();
    let again = run_with(&agent, body.clone()).await.ok();
    assert_eq!((&again["id"], &again["receipt"], written(&server).len()), (&first["id"], &first["receipt"], 1));
    let other = json!({ "mode": "all_or_nothing", "actions": [write("b")], "idempotency_key": "k" });
    run_with(&agent, other).await.problem(409, "idempotency_conflict");
    let other_mode = json!({ "mode": "best_effort", "actions": [write("a")], "idempotency_key": "k" });
    run_with(&agent, other_mode).await.problem(409, "idempotency_conflict");
    // An idempotency key belongs to its session.
    let elsewhere = run_with(&server.agent().await, body).await.ok();
    assert_ne!(elsewhere["id"], first["id"]);
    server.verify().await;
}

async fn what_makes_no_sense_is_refused_whole(kind: Kind) {
    let server = start(kind).await;
    let agent = server.agent().await;
    let many: Vec<_> = (0..=BATCH_PARTS_MAX).map(|_| write("a")).collect();
    for (body, status, code) in [
        (json!({ "mode": "all_or_nothing", "actions": [] }), 422, "invalid_batch"),
        (json!({ "mode": "best_effort", "actions": many }), 422, "invalid_batch"),
        (json!({ "mode": "best_effort", "actions": [{ "action": "no such" }] }), 422, "invalid_batch"),
        (json!({ "mode": "best_effort", "actions": [write("a")], "reason": "r".repeat(10_000) }), 422, "invalid_batch"),
        (json!({ "mode": "best_effort", "actions": [write("a")], "idempotency_key": "" }), 422, "invalid_batch"),
        (json!({ "mode": "best_effort", "actions": [write("a")], "idempotency_key": "a\0" }), 422, "invalid_batch"),
        (json!({ "mode": "some", "actions": [write("a")] }), 400, "invalid_request"),
        (json!({ "actions": [write("a")] }), 400, "invalid_request"),
        (json!({ "mode": "best_effort", "actions": [{ "params": {} }] }), 400, "invalid_request"),
        (json!({ "mode": "best_effort", "actions": [write("a")], "parts": [] }), 400, "invalid_request"),
        (json!({ "mode": "best_effort", "actions": [{ "action": "fake.read", "idempotency_key": "k" }] }), 400, "invalid_request"),
        (json!([]), 400, "invalid_request"),
    ] {
        run_with(&agent, body).await.problem(status, code);
    }
    assert!(server.source.calls().is_empty());
    assert_eq!(server.owner.get("/api/v1/batches").await.ok()["items"], json!([]));
    let nowhere = Agent { session: "ses_nowhere".into(), ..agent.clone() };
    run(&nowhere, "best_effort", json!([write("a")])).await.problem(404, "unknown_session");
    let other = Agent { session: server.agent().await.session, ..agent };
    run(&other, "best_effort", json!([write("a")])).await.problem(403, "not_your_session");
}

async fn a_batch_is_seen_by_who_may_see_its_session(kind: Kind) {
    let server = start(kind).await;
    let (agent, other) = (server.agent().await, server.agent().await);
    let batch = run(&agent, "best_effort", json!([write("a")])).await.ok();
    let path = format!("/api/v1/batches/{}", batch["id"].as_str().unwrap());
    agent.client.get(&path).await.ok();
    other.client.get(&path).await.problem(403, "not_your_session");
    other.client.get("/api/v1/batches").await.problem(403, "forbidden");
    assert_eq!(agent.client.get(&format!("/api/v1/batches?session={}", agent.session)).await.ok()["items"][0]["id"], batch["id"]);
    server.owner.get("/api/v1/batches/bat_nothing").await.problem(404, "not_found");
    server.owner.get("/api/v1/batches/bat_01k9z6m4x0abcdefghjkmnpqrs").await.problem(404, "not_found");
}

async fn each_part_counts_as_a_call(kind: Kind) {
    let server = TestServer::start_limited(kind, 3).await;
    server.source.redefine("write", |action| action.reversibility = Reversibility::Reversible);
    server.owner.set_mode("fake.write", "allow").await;
    let agent = server.agent().await;
    let batch = run(&agent, "all_or_nothing", json!([write("a"), write("b"), write("c"), write("d")])).await.ok();
    assert_eq!((&batch["status"], &batch["parts"][3]["error"]["code"]), (&json!("denied"), &json!("rate_limited")));
    assert!(server.source.calls().is_empty(), "refused before anything ran");
    server.verify().await;
}

async fn a_kill_switch_keeps_it_waiting(kind: Kind) {
    let (server, _agent, batch) = asking(kind).await;
    server.owner.approve(&part(&batch, 0)).await.ok();
    server.owner.switch("on", "org").await.ok();
    server.owner.approve(&part(&batch, 2)).await.problem(409, "stopped");
    assert_eq!(shown(&server, &batch).await["status"], "pending");
    server.owner.switch("off", "org").await.ok();
    server.owner.approve(&part(&batch, 2)).await.ok();
    let batch = shown(&server, &batch).await;
    assert_eq!(batch["status"], "succeeded", "{batch:#}");
    server.verify().await;
}

async fn a_rule_that_changes_meanwhile_is_obeyed(kind: Kind) {
    let (server, agent, batch) = asking(kind).await;
    // The read between the two writes needed no approval when the batch was made.
    server.owner.set_mode("fake.read", "require_approval").await;
    server.owner.approve(&part(&batch, 0)).await.ok();
    server.owner.approve(&part(&batch, 2)).await.ok();
    let batch = shown(&server, &batch).await;
    assert_eq!((&batch["status"], each(&batch, "status")[1].as_str()), (&json!("pending"), "pending"), "now somebody is asked");
    assert!(server.source.calls().is_empty());
    // Once the batch has started, a part that would need an approval does not run.
    let mut held = server.source.will_hold(Ok(Output::new(json!(1))));
    server.owner.set_mode("fake.write", "allow").await;
    let running = {
        let agent = agent.clone();
        tokio::spawn(async move { run(&agent, "all_or_nothing", json!([write("a"), write("b")])).await })
    };
    held.arrived().await;
    server.owner.set_mode("fake.write", "require_approval").await;
    held.release();
    let batch = running.await.unwrap().ok();
    assert_eq!((&batch["status"], each(&batch, "effect")), (&json!("reverted"), vec!["reverted".to_owned(), "none".into()]));
    assert_eq!((&batch["parts"][1]["status"], &batch["parts"][1]["error"]["code"]), (&Value::Null, &json!("needs_person_now")));
    server.verify().await;
}

async fn wherever_it_stops_it_ends_whole_and_nothing_happens_twice(kind: Kind) {
    for (point, fails, expected) in [
        ("batch.opened", false, "succeeded"),
        ("batch.asked", false, "succeeded"),
        ("batch.part", false, "succeeded"),
        ("batch.ending", false, "succeeded"),
        ("batch.part", true, "reverted"),
        ("batch.part_reverted", true, "reverted"),
        ("batch.ending", true, "reverted"),
    ] {
        let server = start(kind).await;
        let agent = server.agent().await;
        if fails {
            server.source.will_answer(json!(1));
            server.source.will_answer(json!(2));
            server.source.will_fail(broken());
        }
        server.fault.arm(point);
        run(&agent, "all_or_nothing", json!([write("a"), write("b"), write("c")])).await.problem(500, "internal");
        let left = server.owner.get("/api/v1/batches").await.ok()["items"][0].clone();
        assert_eq!(left["status"], "running", "{point}");
        server.clock.advance_seconds(RUNNING_SECONDS_MAX + 1);
        let restarted = server.restart().await;
        restarted.pipeline.recover().await.unwrap();
        let ended = restarted.owner.get(&format!("/api/v1/batches/{}?wait=20s", left["id"].as_str().unwrap())).await.ok();
        assert_eq!(ended["status"], expected, "{point} {ended:#}");
        assert_eq!(written(&server), ["a", "b", "c"], "{point}");
        assert_eq!(server.source.reverts().len(), if fails { 2 } else { 0 }, "{point}");
        restarted.verify().await;
    }
}

async fn a_part_that_was_interrupted_decides_about_the_others(kind: Kind) {
    for (found, expected, effects) in [
        (Reconciled::Happened(Output::new(json!({ "done": true }))), "succeeded", ["stands", "stands"]),
        (Reconciled::DidNot, "reverted", ["reverted", "none"]),
        (Reconciled::Unknown, "failed", ["reverted", "unknown"]),
    ] {
        let server = start(kind).await;
        let agent = server.agent().await;
        // The server stops in the second part.
        let mut held = server.source.will_hold(Ok(Output::new(json!(1))));
        let running = {
            let agent = agent.clone();
            tokio::spawn(async move { run(&agent, "all_or_nothing", json!([write("a"), write("b")])).await })
        };
        held.arrived().await;
        server.fault.arm("execute.intended");
        held.release();
        running.await.unwrap().problem(500, "internal");
        server.source.will_reconcile(found);
        server.clock.advance_seconds(RUNNING_SECONDS_MAX + 1);
        let restarted = server.restart().await;
        restarted.pipeline.recover().await.unwrap();
        let left = restarted.owner.get("/api/v1/batches").await.ok()["items"][0].clone();
        let ended = restarted.owner.get(&format!("/api/v1/batches/{}?wait=20s", left["id"].as_str().unwrap())).await.ok();
        assert_eq!((&ended["status"], each(&ended, "effect")), (&json!(expected), effects.map(str::to_owned).to_vec()), "{ended:#}");
        restarted.verify().await;
    }
}

/// Restarts after a crash. While the source is still reconciling the part that ran, the server already resumes the batch, which has to wait
/// for it.
async fn taken_up_while_asked_about(server: &TestServer, found: Reconciled) -> (TestServer, Value) {
    let mut asking = server.source.will_hold_reconcile(found);
    let restarted = server.restart().await;
    let recovering = tokio::spawn(restarted.pipeline.recover());
    asking.arrived().await;
    restarted.pipeline.sweep().await.unwrap();
    restarted.pipeline.finish().await;
    let batch = restarted.owner.get("/api/v1/batches").await.ok()["items"][0].clone();
    assert_eq!((&batch["status"], server.source.reverts().len()), (&json!("pending"), 0), "{batch:#}");
    assert!(each(&batch, "status").contains(&"running".to_owned()), "{batch:#}");
    restarted.verify().await;
    asking.release();
    recovering.await.unwrap().unwrap();
    restarted.pipeline.finish().await;
    let ended = shown(&restarted, &batch).await;
    (restarted, ended)
}

async fn a_part_that_is_still_asked_about_is_waited_for(kind: Kind) {
    for (found, expected, effects) in [
        (Reconciled::Happened(Output::new(json!({ "done": true }))), "succeeded", ["stands", "stands"]),
        (Reconciled::DidNot, "reverted", ["reverted", "none"]),
        (Reconciled::Unknown, "failed", ["reverted", "unknown"]),
    ] {
        let server = start(kind).await;
        let agent = server.agent().await;
        let mut held = server.source.will_hold(Ok(Output::new(json!(1))));
        let running = {
            let agent = agent.clone();
            tokio::spawn(async move { run(&agent, "all_or_nothing", json!([write("a"), write("b")])).await })
        };
        held.arrived().await;
        server.fault.arm("execute.intended");
        held.release();
        running.await.unwrap().problem(500, "internal");
        server.clock.advance_seconds(RUNNING_SECONDS_MAX + 1);
        let (restarted, ended) = taken_up_while_asked_about(&server, found).await;
        assert_eq!((&ended["status"], each(&ended, "effect")), (&json!(expected), effects.map(str::to_owned).to_vec()), "{ended:#}");
        assert_eq!(restarted.verify().await.batches, 1);
    }
}

async fn a_part_that_is_still_asked_about_is_waited_for_where_another_is_lost(kind: Kind) {
    let (server, _agent, batch) = asking(kind).await;
    server.owner.approve(&part(&batch, 2)).await.ok();
    server.fault.arm("execute.intended");
    // The approval is recorded, and the batch broke off in its first part.
    server.owner.approve(&part(&batch, 0)).await.problem(500, "internal");
    // Meanwhile the approval of the last part expires.
    server.clock.advance_seconds(RUNNING_SECONDS_MAX + APPROVAL_UNATTENDED_SECONDS);
    let happened = Reconciled::Happened(Output::new(json!({ "done": true })));
    let (restarted, ended) = taken_up_while_asked_about(&server, happened).await;
    assert_eq!(
        (&ended["status"], each(&ended, "effect")),
        (&json!("reverted"), vec!["reverted".to_owned(), "none".into(), "none".into()]),
        "{ended:#}"
    );
    assert_eq!(each(&ended, "status"), ["succeeded", "null", "expired"]);
    assert_eq!(restarted.verify().await.batches, 1);
}
