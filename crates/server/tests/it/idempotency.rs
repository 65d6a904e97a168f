//! The same key has one effect, however often and however concurrently it is sent.

use crate::harness::{Kind, TestServer, on_both_engines};
use countersign_core::source::{Error, Output};
use receipt::limits::IDEMPOTENCY_SECONDS;
use serde_json::{Value, json};

on_both_engines!(
    the_same_key_answers_with_the_first_receipt,
    the_same_key_with_other_params_is_a_conflict,
    concurrent_calls_under_one_key_execute_once,
    a_held_call_keeps_its_key,
    a_failure_without_effect_frees_the_key_and_a_doubt_does_not,
    a_denied_call_is_never_answered_by_an_earlier_success,
    an_automatic_key_is_derived_from_the_fields_the_action_names,
    a_key_is_forgotten_after_a_day,
    a_call_under_a_key_whose_holder_still_runs_is_told_so_and_changes_nothing,
    a_key_is_shared_by_one_persons_agents_and_by_nobody_else,
);

fn call(key: &str, text: &str) -> Value {
    json!({ "action": "fake.write", "params": { "text": text }, "idempotency_key": key })
}

async fn the_same_key_answers_with_the_first_receipt(kind: Kind) {
    let server = TestServer::start(kind).await;
    server.owner.set_mode("fake.write", "allow").await;
    let agent = server.agent().await;
    let first = agent.invoke_with(call("k", "a")).await;
    let second = agent.invoke_with(call("k", "a")).await;
    assert_eq!((first.status, second.status), (200, 200), "{second:?}");
    assert_eq!((first.id(), &second.body["replayed"]), (second.id(), &json!(true)));
    assert_eq!(server.source.effects(), 1);
    // Another action and another space have their own keys.
    server.owner.set_mode("fake.send", "allow").await;
    agent.invoke_with(json!({ "action": "fake.send", "params": { "text": "a" }, "idempotency_key": "k" })).await.ok();
    server.owner.post("/api/v1/spaces", json!({ "name": "other" })).await.ok();
    let elsewhere = server.owner.new_session(json!({ "space": "other" })).await;
    elsewhere.invoke_with(call("k", "a")).await.ok();
    assert_eq!(server.source.effects(), 3);
    server.verify().await;
}

async fn the_same_key_with_other_params_is_a_conflict(kind: Kind) {
    let server = TestServer::start(kind).await;
    server.owner.set_mode("fake.write", "allow").await;
    let agent = server.agent().await;
    agent.invoke_with(call("k", "a")).await.ok();
    agent.invoke_with(call("k", "b")).await.problem(409, "idempotency_conflict");
    assert_eq!(server.source.effects(), 1);
}

async fn a_call_under_a_key_whose_holder_still_runs_is_told_so_and_changes_nothing(kind: Kind) {
    let server = TestServer::start_impatient(kind).await;
    server.owner.set_mode("fake.write", "allow").await;
    let agent = server.agent().await;
    let mut held = server.source.will_hold(Ok(Output::new(json!({ "done": 1 }))));
    let first = {
        let agent = agent.clone();
        tokio::spawn(async move { agent.invoke_with(call("k", "a")).await })
    };
    held.arrived().await;
    let told = agent.invoke_with(call("k", "a")).await;
    told.problem(409, "idempotency_in_flight");
    held.release();
    let first = first.await.unwrap();
    assert_eq!(first.status, 200, "{first:?}");
    assert_eq!(agent.invoke_with(call("k", "a")).await.id(), first.id(), "afterwards its answer is the answer");
    assert_eq!(server.source.effects(), 1);
    server.verify().await;
}

async fn concurrent_calls_under_one_key_execute_once(kind: Kind) {
    let server = TestServer::start(kind).await;
    server.owner.set_mode("fake.write", "allow").await;
    let agent = server.agent().await;
    let answers = futures_util::future::join_all((0..24).map(|_| agent.invoke_with(call("k", "a")))).await;
    let ids: std::collections::BTreeSet<_> = answers.iter().map(crate::harness::Answer::id).collect();
    assert!(answers.iter().all(|answer| answer.status == 200), "{answers:?}");
    assert_eq!((ids.len(), server.source.effects()), (1, 1));
    let reads =
        futures_util::future::join_all((0..8).map(|_| agent.invoke_with(json!({ "action": "fake.read", "idempotency_key": "r" })))).await;
    assert!(reads.iter().all(|answer| answer.status == 200), "{reads:?}");
    assert_eq!(server.source.calls().len(), 2);
    server.verify().await;
}

async fn a_held_call_keeps_its_key(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let first = agent.invoke_with(call("k", "a")).await;
    let second = agent.invoke_with(call("k", "a")).await;
    assert_eq!((first.status, second.status, first.id()), (202, 202, second.id()));
    agent.invoke_with(call("k", "b")).await.problem(409, "idempotency_conflict");
    server.owner.approve(&first.id()).await.ok();
    let replayed = agent.invoke_with(call("k", "a")).await;
    assert_eq!((replayed.status, replayed.id(), server.source.effects()), (200, first.id(), 1));
    let denied = agent.invoke_with(call("d", "a")).await;
    server.owner.deny(&denied.id(), "no").await.ok();
    let again = agent.invoke_with(call("d", "a")).await;
    assert_eq!(again.status, 202);
    assert_ne!(again.id(), denied.id(), "a denial frees the key");
}

async fn a_failure_without_effect_frees_the_key_and_a_doubt_does_not(kind: Kind) {
    let server = TestServer::start(kind).await;
    server.owner.set_mode("fake.write", "allow").await;
    let agent = server.agent().await;
    server.source.will_fail(Error::Failed { code: "no_luck", message: "no luck".into() });
    agent.invoke_with(call("k", "a")).await.problem(502, "source_failed");
    server.source.will_output(Output::new(json!({})));
    agent.invoke_with(call("k", "a")).await.ok();
    server.source.will_fail(Error::Broken { source_id: "fake".into(), message: "gone".into() });
    let doubted = agent.invoke_with(call("d", "a")).await;
    doubted.problem(409, "in_doubt");
    let before = server.source.calls().len();
    let again = agent.invoke_with(call("d", "a")).await;
    again.problem(409, "in_doubt");
    assert_eq!((again.id(), server.source.calls().len()), (doubted.id(), before), "a doubt is never repeated");
    server.verify().await;
}

async fn a_denied_call_is_never_answered_by_an_earlier_success(kind: Kind) {
    let server = TestServer::start(kind).await;
    server.owner.set_mode("fake.write", "allow").await;
    let agent = server.agent().await;
    agent.invoke_with(call("k", "a")).await.ok();
    server.owner.set_mode("fake.write", "deny").await;
    agent.invoke_with(call("k", "a")).await.problem(403, "denied_by_policy");
}

async fn an_automatic_key_is_derived_from_the_fields_the_action_names(kind: Kind) {
    let server = TestServer::start(kind).await;
    server.owner.set_mode("fake.write", "allow").await;
    let agent = server.agent().await;
    let first = agent.invoke_with(call("auto", "a")).await;
    assert_eq!(agent.invoke_with(call("auto", "a")).await.id(), first.id());
    assert_ne!(agent.invoke_with(call("auto", "b")).await.id(), first.id());
    // Writing A, then B, then A again must end with A: without a key, calls are never merged.
    let bare = json!({ "action": "fake.write", "params": { "text": "a" } });
    assert_ne!(agent.invoke_with(bare.clone()).await.id(), agent.invoke_with(bare).await.id());
    assert_eq!(server.source.effects(), 4);
}

async fn a_key_is_forgotten_after_a_day(kind: Kind) {
    let server = TestServer::start(kind).await;
    server.owner.set_mode("fake.write", "allow").await;
    let agent = server.agent().await;
    let first = agent.invoke_with(call("k", "a")).await;
    server.clock.advance_seconds(IDEMPOTENCY_SECONDS - 1);
    assert_eq!(agent.invoke_with(call("k", "a")).await.id(), first.id());
    server.clock.advance_seconds(2);
    let other = agent.invoke_with(call("k", "b")).await;
    assert_eq!(other.status, 200, "{other:?}");
    assert_eq!(server.source.effects(), 2);
    server.verify().await;
}

async fn a_key_is_shared_by_one_persons_agents_and_by_nobody_else(kind: Kind) {
    let server = TestServer::start(kind).await;
    server.owner.set_mode("fake.write", "allow").await;
    let first = server.agent().await.invoke_with(call("k", "a")).await;
    let again = server.agent().await.invoke_with(call("k", "a")).await;
    assert_eq!((again.status, again.id()), (200, first.id()), "an agent that starts anew finds its effect done");
    let stranger = server.owner.person("mia", "member").await.new_session(json!({})).await;
    let refused = stranger.invoke_with(call("k", "a")).await;
    refused.problem(409, "idempotency_conflict");
    assert!(refused.body["invocation"].is_null(), "nothing of another's invocation is shown: {refused:?}");
    assert_eq!(server.source.effects(), 1);
}
