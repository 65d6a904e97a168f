//! Everything around an effect: evidence before it, checks after it, one repair, rollback and revert, and reconciling after a crash.

use crate::harness::{Kind, TestServer, on_both_engines, on_sqlite};
use countersign_core::Tier;
use countersign_core::action::{Repeatability, Reversibility};
use countersign_core::effect::Check;
use countersign_core::limits::{ATTEMPTS_MAX, RUNNING_SECONDS_MAX};
use countersign_core::retry::FailureCause;
use countersign_core::source::{AfterError, Error, Output, Reconciled};
use receipt::limits::IDEMPOTENCY_SECONDS;
use serde_json::{Value, json};

on_sqlite!(
    an_effect_that_passes_its_checks_says_so,
    an_effect_that_fails_its_checks_is_taken_back_and_made_again_once,
    an_effect_that_cannot_be_repaired_is_taken_back,
    what_cannot_be_taken_back_is_said_to_stand,
    what_could_not_be_taken_back_is_said_so,
    what_destroys_is_never_repaired_by_itself,
    a_check_that_cannot_be_made_has_failed,
    nothing_happens_where_nothing_could_be_kept_before_it,
    an_effect_nobody_saw_the_end_of_is_asked_about_at_once,
    what_a_source_says_about_its_failure_is_kept,
    what_was_being_taken_back_in_the_workspace_of_another_server_is_in_doubt,
    a_provider_is_asked_again_for_a_day_and_under_the_same_rules_only,
    what_nobody_can_find_out_a_person_says,
    a_doubted_call_is_made_again_as_a_new_one,
    what_taking_back_would_come_to_is_told_without_a_trace,
    what_has_no_way_back_is_refused,
    taking_back_asks_whom_the_action_asks,
);

on_both_engines!(
    whatever_a_crash_interrupts_ends_as_the_source_finds_it,
    a_doubted_call_that_was_to_be_made_again_is_not_lost,
    an_effect_is_taken_back_on_demand_and_once,
);

const CHECK: &str = "looks_right";

/// `fake.write` is allowed, can be reverted, and has a check.
async fn careful(kind: Kind) -> TestServer {
    let server = TestServer::start(kind).await;
    server.source.redefine("write", |action| {
        action.reversibility = Reversibility::Reversible;
        action.repeatability = Repeatability::Repeatable;
        action.checks = vec![CHECK.to_owned()];
    });
    server.owner.set_mode("fake.write", "allow").await;
    server
}

fn broke() -> Error {
    Error::Broken { source_id: "fake".into(), message: "cut".into() }
}

/// The action is repeatable, so a call of it is made again before it is in doubt.
fn breaks_every_time(server: &TestServer) {
    for _ in 0..ATTEMPTS_MAX {
        server.source.will_fail(broke());
    }
}

fn wrong() -> Vec<Check> {
    vec![Check::failed(CHECK, "it is not what was asked for")]
}

/// The invocation of the last entry in the audit log. The test's clock stands still, so ids do not show the order.
async fn last(server: &TestServer) -> Value {
    let log = server.log().await;
    let id = log.iter().rev().find_map(|(_, body)| body["invocation_id"].as_str()).unwrap();
    server.shown(id).await
}

async fn an_effect_that_passes_its_checks_says_so(kind: Kind) {
    let server = careful(kind).await;
    let agent = server.agent().await;
    let answer = agent.invoke("fake.write", json!({})).await.ok();
    let checks = json!([{ "name": "result_schema", "ok": true }, { "name": CHECK, "ok": true }]);
    assert_eq!((&answer["invocation"]["checks"], &answer["invocation"]["attempts"]), (&checks, &json!(1)));
    let receipt = server.receipt_of(answer["invocation"]["id"].as_str().unwrap()).await;
    assert_eq!(receipt["verification"], json!({ "ok": true, "checks": ["result_schema", CHECK] }));
    assert_eq!((&receipt["repair"], &receipt["rollback"]), (&Value::Null, &Value::Null));
    let intents: Vec<_> = server.log().await.into_iter().filter(|(kind, _)| kind == "intent").collect();
    assert_eq!(intents.len(), 1);
    assert!(intents[0].1["evidence"].is_string(), "what undoes it is announced before it: {intents:?}");
    assert_eq!(server.source.calls()[0].context.prepared.as_ref().unwrap()["attempt"], 1);
    server.verify().await;
}

async fn an_effect_that_fails_its_checks_is_taken_back_and_made_again_once(kind: Kind) {
    let server = careful(kind).await;
    let agent = server.agent().await;
    server.source.will_check(Ok(wrong()));
    let answer = agent.invoke("fake.write", json!({ "text": "a" })).await.ok();
    let invocation = &answer["invocation"];
    assert_eq!((&invocation["status"], &invocation["attempts"]), (&json!("succeeded"), &json!(3)));
    assert_eq!(invocation["repair"], json!({ "attempted": true, "ok": true }));
    assert_eq!(invocation["rollback"], Value::Null);
    let calls = server.source.calls();
    assert_eq!((calls.len(), server.source.reverts().len()), (2, 1));
    assert_eq!(calls[1].context.failed_checks, wrong(), "the second try is told what was wrong");
    assert_eq!(calls[1].params, calls[0].params);
    let purposes: Vec<_> =
        server.log().await.into_iter().filter(|(kind, _)| kind == "intent").map(|(_, body)| body["purpose"].clone()).collect();
    assert_eq!(purposes, [Value::Null, json!("rollback"), json!("repair")]);
    server.verify().await;
}

async fn an_effect_that_cannot_be_repaired_is_taken_back(kind: Kind) {
    let server = careful(kind).await;
    let agent = server.agent().await;
    server.source.will_check(Ok(wrong()));
    server.source.will_check(Ok(wrong()));
    let call = json!({ "action": "fake.write", "params": { "text": "a" }, "idempotency_key": "k" });
    let answer = agent.invoke_with(call.clone()).await;
    answer.problem(502, "source_failed");
    let invocation = last(&server).await;
    assert_eq!((&invocation["status"], &invocation["error"]["code"]), (&json!("reverted"), &json!("verification_failed")));
    assert_eq!(invocation["repair"], json!({ "attempted": true, "ok": false }));
    assert_eq!(invocation["rollback"], json!({ "attempted": true, "ok": true }));
    let receipt = server.receipt_of(invocation["id"].as_str().unwrap()).await;
    assert_eq!((&receipt["status"], &receipt["attempts"], &receipt["rollback"]["ok"]), (&json!("reverted"), &json!(4), &json!(true)));
    // The effect was rolled back, so the key may be used again.
    assert_eq!(agent.invoke_with(call).await.ok()["replayed"], false);
    server.verify().await;
}

async fn what_cannot_be_taken_back_is_said_to_stand(kind: Kind) {
    let server = careful(kind).await;
    server.source.redefine("write", |action| {
        action.reversibility = Reversibility::NotReversible;
        action.repeatability = Repeatability::NotRepeatable;
    });
    server.owner.review("fake.write").await;
    let agent = server.agent().await;
    server.source.will_check(Ok(wrong()));
    agent.invoke("fake.write", json!({})).await.problem(502, "source_failed");
    let invocation = last(&server).await;
    assert_eq!((&invocation["status"], &invocation["attempts"]), (&json!("failed"), &json!(1)));
    assert_eq!((&invocation["repair"], &invocation["rollback"]), (&Value::Null, &json!({ "attempted": false, "ok": false })));
    assert_eq!((server.source.calls().len(), server.source.reverts().len()), (1, 0));
    server.verify().await;
}

async fn what_could_not_be_taken_back_is_said_so(kind: Kind) {
    let server = careful(kind).await;
    let agent = server.agent().await;
    server.source.will_check(Ok(wrong()));
    server.source.will_revert(Err(Error::Failed { code: "snapshot_lost", message: "it is gone".into() }));
    agent.invoke("fake.write", json!({})).await.problem(502, "source_failed");
    let invocation = last(&server).await;
    assert_eq!((&invocation["status"], &invocation["rollback"]), (&json!("failed"), &json!({ "attempted": true, "ok": false })));
    assert_eq!(invocation["repair"], json!({ "attempted": false, "ok": false }));
    assert_eq!(server.source.calls().len(), 1, "nothing is made again on top of what is wrong");
    server.verify().await;
}

async fn what_destroys_is_never_repaired_by_itself(kind: Kind) {
    let server = careful(kind).await;
    for (tier, repeatability, repairs) in [
        (Tier::R3, Repeatability::NotRepeatable, false),
        (Tier::R3, Repeatability::Repeatable, true),
        (Tier::R4, Repeatability::Repeatable, false),
    ] {
        server.source.redefine("write", |action| (action.tier, action.repeatability) = (tier, repeatability));
        server.owner.set_mode("fake.write", if tier == Tier::R4 { "require_approval" } else { "allow" }).await;
        let agent = server.agent().await;
        server.owner.review("fake.write").await;
        let before = server.source.calls().len();
        server.source.will_check(Ok(wrong()));
        let answer = agent.invoke("fake.write", json!({})).await;
        if tier == Tier::R4 {
            server.owner.approve_with(&answer.id(), json!({ "confirm": "fake.write" })).await.problem(502, "source_failed");
        }
        let invocation = last(&server).await;
        let expected = if repairs { "succeeded" } else { "reverted" };
        assert_eq!((invocation["status"].as_str(), server.source.calls().len() - before), (Some(expected), 1 + usize::from(repairs)));
    }
    server.verify().await;
}

async fn a_check_that_cannot_be_made_has_failed(kind: Kind) {
    let server = careful(kind).await;
    let agent = server.agent().await;
    let away = || Error::Unreachable { source_id: "fake".into(), message: "away".into() };
    for checks in [Err(away()), Ok(Vec::new()), Ok(vec![Check::passed("something_else")])] {
        server.source.will_check(checks.clone());
        server.source.will_check(checks);
        agent.invoke("fake.write", json!({})).await.problem(502, "source_failed");
        let invocation = last(&server).await;
        let failed = invocation["checks"].as_array().unwrap().iter().any(|check| check["name"] == CHECK && check["ok"] == false);
        assert!(failed && invocation["status"] == "reverted", "{invocation}");
    }
    server.verify().await;
}

async fn nothing_happens_where_nothing_could_be_kept_before_it(kind: Kind) {
    let server = careful(kind).await;
    let agent = server.agent().await;
    let late = || Error::TimedOut { source_id: "fake".into(), timeout_ms: 5 };
    for _ in 0..ATTEMPTS_MAX {
        server.source.will_fail_to_prepare(late());
    }
    agent.invoke("fake.write", json!({})).await.problem(502, "source_failed");
    let invocation = last(&server).await;
    assert_eq!((&invocation["status"], server.source.calls().len()), (&json!("failed"), 0), "a slow preparation leaves no doubt");
    // Nothing was done, so it is tried again.
    for not_ready in [late(), Error::Unreachable { source_id: "fake".into(), message: "away".into() }] {
        server.source.will_fail_to_prepare(not_ready);
        assert_eq!(agent.invoke("fake.write", json!({})).await.ok()["invocation"]["attempts"], 2);
    }
    server.verify().await;
}

async fn an_effect_nobody_saw_the_end_of_is_asked_about_at_once(kind: Kind) {
    let server = careful(kind).await;
    let agent = server.agent().await;
    server.source.will_fail(broke());
    server.source.will_reconcile(Reconciled::Happened(Output::new(json!({ "done": "after all" }))));
    assert_eq!(agent.invoke("fake.write", json!({})).await.ok()["result"], json!({ "done": "after all" }));
    breaks_every_time(&server);
    for _ in 0..ATTEMPTS_MAX {
        server.source.will_reconcile(Reconciled::DidNot);
    }
    agent.invoke("fake.write", json!({})).await.problem(502, "source_failed");
    assert_eq!(last(&server).await["status"], "failed");
    breaks_every_time(&server);
    agent.invoke("fake.write", json!({})).await.problem(409, "in_doubt");
    server.verify().await;
}

async fn what_a_source_says_about_its_failure_is_kept(kind: Kind) {
    let server = careful(kind).await;
    let agent = server.agent().await;
    let said = json!({ "content": [{ "type": "text", "text": "no such issue" }] });
    let failed = || Error::Reported {
        source_id: "fake".into(),
        message: "no such issue".into(),
        cause: FailureCause::Final,
        content: Box::new(said.clone()),
        after: AfterError::Unknown,
    };
    // A read ends, and its key is free: it had no effect.
    let read = json!({ "action": "fake.read", "params": {}, "idempotency_key": "read" });
    server.source.will_fail(failed());
    agent.invoke_with(read.clone()).await.problem(422, "action_failed");
    let ended = last(&server).await;
    assert_eq!((&ended["status"], &ended["error"]["code"]), (&json!("failed"), &json!("source_reported_error")));
    assert_eq!(ended["error"]["message"], "source `fake` reported an error: no such issue");
    assert_eq!(ended["result"], said);
    agent.invoke_with(read).await.ok();
    // A write may have done a part of its work.
    server.source.will_fail(failed());
    let answer = agent.invoke("fake.write", json!({})).await;
    answer.problem(409, "in_doubt");
    let doubted = server.shown(answer.body["invocation"]["id"].as_str().unwrap()).await;
    assert_eq!((&doubted["status"], &doubted["result"]), (&json!("in_doubt"), &said));
    server.verify().await;
}

/// Breaks a call off at every step, then restarts the server.
async fn whatever_a_crash_interrupts_ends_as_the_source_finds_it(kind: Kind) {
    let happened = || Reconciled::Happened(Output::new(json!({ "done": true })));
    // The point where it stops, how many checks fail before, what the source finds, and the expected end with its attempts.
    let cases: [(&'static str, usize, Reconciled, &str, u32); 12] = [
        ("execute.intended", 0, Reconciled::DidNot, "failed", 1),
        ("execute.intended", 0, Reconciled::Unknown, "in_doubt", 1),
        ("execute.effected", 0, happened(), "succeeded", 1),
        ("execute.effected", 0, Reconciled::Unknown, "in_doubt", 1),
        ("verify.checked", 0, happened(), "succeeded", 1),
        ("remedy.rollback_intended", 1, Reconciled::Unknown, "reverted", 2),
        ("remedy.rolled_back", 1, Reconciled::Unknown, "reverted", 2),
        ("remedy.repair_intended", 1, Reconciled::DidNot, "reverted", 3),
        ("remedy.repair_intended", 1, happened(), "succeeded", 3),
        ("remedy.repaired", 1, happened(), "succeeded", 3),
        ("remedy.checked", 1, happened(), "succeeded", 3),
        ("remedy.rolled_back_for_good", 2, Reconciled::Unknown, "reverted", 4),
    ];
    for (point, failing, found, expected, attempts) in cases {
        let server = careful(kind).await;
        let agent = server.agent().await;
        for _ in 0..failing {
            server.source.will_check(Ok(wrong()));
        }
        server.fault.arm(point);
        agent.invoke("fake.write", json!({ "text": "a" })).await.problem(500, "internal");
        let left = last(&server).await;
        assert_eq!(left["status"], "running", "{point}");
        let calls = server.source.calls().len();
        server.source.will_reconcile(found);
        server.clock.advance_seconds(RUNNING_SECONDS_MAX + 1);
        let restarted = server.restart().await;
        restarted.pipeline.recover().await.unwrap();
        let ended = restarted.shown(left["id"].as_str().unwrap()).await;
        assert_eq!((ended["status"].as_str(), ended["attempts"].as_u64()), (Some(expected), Some(u64::from(attempts))), "{point}: {ended}");
        assert_eq!(restarted.source.calls().len(), calls, "{point}: nothing is made again by itself");
        restarted.verify().await;
    }
}

/// A server with another workspace can tell the outcome of neither a rollback nor a revert.
async fn what_was_being_taken_back_in_the_workspace_of_another_server_is_in_doubt(kind: Kind) {
    for (point, on_demand) in [("remedy.rollback_intended", false), ("execute.intended", true)] {
        let server = careful(kind).await;
        let agent = server.agent().await;
        if on_demand {
            agent.invoke("fake.write", json!({ "text": "a" })).await.ok();
            let path = format!("/api/v1/invocations/{}/revert", last(&server).await["id"].as_str().unwrap());
            server.fault.arm(point);
            server.owner.post(&path, json!({})).await.problem(500, "internal");
        } else {
            server.source.will_check(Ok(wrong()));
            server.fault.arm(point);
            agent.invoke("fake.write", json!({ "text": "a" })).await.problem(500, "internal");
        }
        let left = last(&server).await;
        assert_eq!(left["status"], "running", "{point}");
        // A server that starts alone asks twice: about calls left running, and about calls in doubt.
        for _ in 0..2 {
            server.source.will_revert(Err(Error::WorkspaceElsewhere));
        }
        server.clock.advance_seconds(RUNNING_SECONDS_MAX + 1);
        let restarted = server.restart().await;
        restarted.pipeline.recover().await.unwrap();
        let now = restarted.shown(left["id"].as_str().unwrap()).await;
        assert_eq!((&now["status"], restarted.source.reverts().is_empty()), (&json!("in_doubt"), false), "{point}: {now}");
        restarted.verify().await;
    }
}

/// A call in doubt.
async fn doubted(server: &TestServer, key: &str) -> String {
    let agent = server.agent().await;
    breaks_every_time(server);
    let answer = agent.invoke_with(json!({ "action": "fake.write", "params": { "text": "a" }, "idempotency_key": key })).await;
    answer.problem(409, "in_doubt");
    answer.body["invocation"]["id"].as_str().unwrap().to_owned()
}

async fn a_provider_is_asked_again_for_a_day_and_under_the_same_rules_only(kind: Kind) {
    for (waits_seconds, changes_a_rule, may_ask_again) in [
        (RUNNING_SECONDS_MAX + 1, false, true),
        (IDEMPOTENCY_SECONDS - 1, false, true),
        (IDEMPOTENCY_SECONDS, false, false),
        (RUNNING_SECONDS_MAX + 1, true, false),
    ] {
        let server = careful(kind).await;
        let agent = server.agent().await;
        server.fault.arm("execute.intended");
        agent.invoke("fake.write", json!({ "text": "a" })).await.problem(500, "internal");
        server.source.will_reconcile(Reconciled::ByAskingAgain);
        if changes_a_rule {
            server.owner.set_mode("fake.read", "deny").await;
        }
        server.clock.advance_seconds(waits_seconds);
        let restarted = server.restart().await;
        restarted.pipeline.recover().await.unwrap();
        let asked: &[bool] = if may_ask_again { &[false, true] } else { &[false] };
        assert_eq!(server.source.reconciliations(), asked, "{waits_seconds} s, {changes_a_rule}");
        restarted.verify().await;
    }
}

async fn what_nobody_can_find_out_a_person_says(kind: Kind) {
    let server = careful(kind).await;
    for (said, status) in [("succeeded", "succeeded"), ("failed", "failed")] {
        let id = doubted(&server, said).await;
        let path = format!("/api/v1/invocations/{id}/settle");
        let agent = server.agent().await;
        agent.client.post(&path, json!({ "as": said, "reason": "I looked" })).await.problem(403, "may_not_approve");
        server.owner.post(&path, json!({ "as": said, "reason": " " })).await.problem(400, "invalid_request");
        server.owner.post(&path, json!({ "as": "maybe", "reason": "x" })).await.problem(400, "invalid_request");
        let settled = server.owner.post(&path, json!({ "as": said, "reason": "I looked" })).await.ok();
        assert_eq!(
            (settled["invocation"]["status"].as_str(), &settled["invocation"]["settled"]["reason"]),
            (Some(status), &json!("I looked"))
        );
        let receipt = server.receipt_of(&id).await;
        assert_eq!((receipt["status"].as_str(), receipt["settled"]["by"].is_string()), (Some(status), true));
        assert!(!receipt.to_string().contains("I looked"), "words stay out of the log");
        server.owner.post(&path, json!({ "as": said, "reason": "again" })).await.problem(409, "not_in_doubt");
    }
    server
        .owner
        .post("/api/v1/invocations/inv_00000000000000000000000000/settle", json!({ "as": "failed", "reason": "x" }))
        .await
        .problem(404, "not_found");
    server.verify().await;
}

async fn a_doubted_call_is_made_again_as_a_new_one(kind: Kind) {
    let server = careful(kind).await;
    let id = doubted(&server, "k").await;
    let calls = server.source.calls().len();
    let again =
        server.owner.post(&format!("/api/v1/invocations/{id}/settle"), json!({ "as": "retry", "reason": "twice does no harm" })).await.ok();
    assert_eq!(again["invocation"]["status"], "succeeded");
    assert_ne!(again["invocation"]["id"], json!(id));
    assert_eq!((&again["invocation"]["idempotency_key"], server.source.calls().len()), (&json!("k"), calls + 1));
    assert_eq!(server.shown(&id).await["status"], "failed");
    server.verify().await;
}

/// Wherever the server dies on the way to the new call, the call in doubt can be settled again.
async fn a_doubted_call_that_was_to_be_made_again_is_not_lost(kind: Kind) {
    for point in ["execute.prepared", "execute.intended", "record.ended"] {
        let server = careful(kind).await;
        let id = doubted(&server, "k").await;
        let calls = server.source.calls().len();
        let path = format!("/api/v1/invocations/{id}/settle");
        let retry = json!({ "as": "retry", "reason": "twice does no harm" });
        server.fault.arm(point);
        server.owner.post(&path, retry.clone()).await.problem(500, "internal");
        assert_eq!(server.shown(&id).await["status"], "in_doubt", "{point}");
        let restarted = server.restart().await;
        // The source still cannot tell what became of the call in doubt. If the new call had begun, the source says that it did not happen.
        if point == "execute.intended" {
            server.source.will_reconcile(Reconciled::DidNot);
        }
        restarted.pipeline.recover().await.unwrap();
        assert_eq!(restarted.shown(&id).await["status"], "in_doubt", "{point}");
        let again = restarted.owner.post(&path, retry).await.ok();
        assert_eq!(again["invocation"]["status"], "succeeded", "{point} {again:#}");
        assert_eq!((again["invocation"]["idempotency_key"].clone(), server.source.calls().len()), (json!("k"), calls + 1), "{point}");
        assert_eq!(restarted.shown(&id).await["status"], "failed", "{point}");
        restarted.verify().await;
    }
}

async fn an_effect_is_taken_back_on_demand_and_once(kind: Kind) {
    let server = careful(kind).await;
    let agent = server.agent().await;
    let done = agent.invoke("fake.write", json!({ "text": "a" })).await.ok();
    let id = done["invocation"]["id"].as_str().unwrap();
    let path = format!("/api/v1/invocations/{id}/revert");
    let stranger = server.agent().await;
    stranger.client.post(&path, json!({})).await.problem(404, "not_found");
    let taken_back = server.owner.post(&path, json!({ "reason": "it was a mistake" })).await.ok();
    assert_eq!((&taken_back["invocation"]["status"], &taken_back["invocation"]["reverses"]), (&json!("succeeded"), &json!(id)));
    let evidence = &server.source.calls()[0].context.prepared;
    assert_eq!(evidence.as_ref(), Some(&server.source.reverts()[0].1), "by what was kept before it");
    let receipt = server.receipt_of(taken_back["invocation"]["id"].as_str().unwrap()).await;
    assert_eq!((&receipt["reverses"], &receipt["attempts"]), (&json!(id), &json!(1)));
    let by = taken_back["invocation"]["id"].as_str().unwrap();
    let again = async || {
        let refused = server.owner.post(&path, json!({})).await;
        refused.problem(409, "already_reverted");
        assert!(refused.body["detail"].as_str().unwrap().contains(by), "{refused:?}");
    };
    // An effect is reverted once, even after the idempotency key has expired.
    again().await;
    server.clock.advance_seconds(3 * IDEMPOTENCY_SECONDS);
    server.store.forget_expired_keys(&server.org).await.unwrap();
    again().await;
    assert_eq!(server.shown(id).await["reverted_by"], by);
    let listed = server.owner.get("/api/v1/invocations").await.ok();
    let told: Vec<_> = listed["items"].as_array().unwrap().iter().map(|item| item["reverted_by"].clone()).collect();
    assert_eq!(told, [Value::Null, json!(by)]);
    assert_eq!((server.source.calls().len(), server.source.reverts().len()), (1, 1));
    // A caller cannot use the idempotency key of a revert for its own call.
    let posing = json!({ "action": "fake.write", "params": {}, "idempotency_key": format!("revert:{id}") });
    agent.invoke_with(posing).await.problem(400, "invalid_request");
    server.verify().await;
}

async fn what_taking_back_would_come_to_is_told_without_a_trace(kind: Kind) {
    let server = careful(kind).await;
    let agent = server.agent().await;
    let done = agent.invoke("fake.write", json!({ "text": "a" })).await.ok();
    let id = done["invocation"]["id"].as_str().unwrap();
    let path = format!("/api/v1/invocations/{id}/revert");
    let before = server.counts().await;
    let told = server.owner.get(&path).await.ok();
    assert_eq!((&told["invocation_id"], &told["action"], &told["would"]), (&json!(id), &json!("fake.write"), &json!("runs")));
    assert!(told["changes"].is_null() && told["unknown"].as_str().unwrap().contains("only the source knows"), "{told}");
    assert_eq!(agent.client.get(&path).await.ok(), told, "whoever made the call may ask, too");
    let stranger = server.agent().await;
    stranger.client.get(&path).await.problem(404, "not_found");
    server.owner.set_mode("fake.write", "require_approval").await;
    let asks = server.owner.get(&path).await.ok();
    assert_eq!((&asks["would"], &asks["approvals_needed"]), (&json!("asks"), &json!(1)));
    let after = server.counts().await;
    assert_eq!(
        (after.0, after.1, server.source.reverts().len()),
        (before.0, before.1 + 2, 0),
        "the mode and the other agent's token alone were recorded"
    );
    server.verify().await;
}

async fn what_has_no_way_back_is_refused(kind: Kind) {
    let server = careful(kind).await;
    let agent = server.agent().await;
    // The preview, the revert itself and the list of revertible calls agree.
    let revert = async |id: &str| {
        let path = format!("/api/v1/invocations/{id}/revert");
        let refused = server.owner.post(&path, json!({})).await;
        let foreseen = server.owner.get(&path).await;
        assert_eq!((foreseen.status, &foreseen.body["detail"]), (refused.status, &refused.body["detail"]));
        let offered = server.owner.get("/api/v1/invocations?revertible=true").await.ok();
        assert_eq!(offered["items"], json!([]));
        refused
    };
    let read = agent.invoke("fake.read", json!({})).await.ok();
    revert(read["invocation"]["id"].as_str().unwrap()).await.problem(409, "not_revertible");
    server.source.will_fail(Error::Failed { code: "no", message: "no".into() });
    agent.invoke("fake.write", json!({})).await.problem(502, "source_failed");
    revert(last(&server).await["id"].as_str().unwrap()).await.problem(409, "not_revertible");
    // The time for a revert is over.
    server.source.redefine("write", |action| action.reversible_seconds = Some(60));
    server.owner.review("fake.write").await;
    let done = agent.invoke("fake.write", json!({})).await.ok();
    let id = done["invocation"]["id"].as_str().unwrap();
    let offered = server.owner.get("/api/v1/invocations?revertible=true").await.ok();
    assert_eq!((offered["items"].as_array().unwrap().len(), &offered["items"][0]["id"]), (1, &json!(id)));
    server.clock.advance_seconds(61);
    revert(id).await.problem(409, "not_revertible");
    // With another definition, the kept evidence may mean something else.
    server.source.redefine("write", |action| action.reversible_seconds = None);
    revert(id).await.problem(409, "not_revertible");
    revert("inv_00000000000000000000000000").await.problem(404, "not_found");
    assert_eq!(server.source.reverts().len(), 0);
    server.verify().await;
}

async fn taking_back_asks_whom_the_action_asks(kind: Kind) {
    let server = careful(kind).await;
    let agent = server.agent().await;
    let done = agent.invoke("fake.write", json!({})).await.ok();
    let id = done["invocation"]["id"].as_str().unwrap().to_owned();
    server.owner.set_mode("fake.write", "require_approval").await;
    let held = agent.client.post(&format!("/api/v1/invocations/{id}/revert"), json!({})).await;
    assert_eq!((held.status, server.source.reverts().len()), (202, 0));
    // The session may have ended before somebody answers.
    server.owner.post(&format!("/api/v1/sessions/{}/end", agent.session), json!({})).await;
    let ended = server.owner.approve(held.body["invocation"]["id"].as_str().unwrap()).await;
    assert!([200, 409].contains(&ended.status), "{ended:?}");
    server.owner.set_mode("fake.write", "deny").await;
    server.owner.post(&format!("/api/v1/invocations/{id}/revert"), json!({})).await;
    server.verify().await;
}
