//! A crash at any instant loses nothing and repeats nothing silently.

use crate::harness::{Kind, TestServer, on_both_engines};
use countersign_core::invocation::{Answer, Beyond};
use countersign_core::ledger::{Approval, Approve, Approved, EventDraft};
use countersign_core::ports::Invocations;
use countersign_core::source::Output;
use countersign_core::{ApprovalId, EventId, InvocationId, PrincipalId, Random, limits, random_bytes};
use serde_json::json;
use testkit::SeededRandom;

on_both_engines!(
    what_was_running_is_in_doubt_after_a_restart,
    an_approved_call_that_had_not_started_is_resumed,
    an_approved_call_is_not_resumed_past_its_time_or_on_other_ground,
    a_pending_call_survives_a_restart_and_runs_with_its_params,
    the_log_goes_on_after_a_restart,
    a_backup_restores_into_either_engine,
);

/// Changes `pending` to `approved` as the approve handler does, and then the process dies.
async fn approve_without_running(server: &TestServer, id: &str) {
    let id = InvocationId::parse(id).unwrap();
    let row = server.store.find_invocation(&server.org, &id).await.unwrap().unwrap();
    let random = SeededRandom::new(99);
    let now = Invocations::now(&server.store).await.unwrap();
    let draw = || random_bytes::<10>(&random as &dyn Random);
    let approval = Approval {
        id: ApprovalId::new(now, draw()),
        answer: Answer { by: PrincipalId::User(row.owner.clone().unwrap()), at: now, reason: None, beyond: Beyond::Once },
        approves: true,
        binding: row.binding.unwrap().digest,
        token: server.store.authenticate(&server.owner.token).await.unwrap().unwrap().token.unwrap(),
    };
    let event = EventDraft { id: EventId::new(now, draw()), name: "invocation.approved", key: id.to_string(), body: "{}".into() };
    let event_counted = EventDraft { id: EventId::new(now, draw()), ..event.clone() };
    let approve =
        Approve { org: server.org.clone(), invocation: id, approval, needed: 1, is_separate: false, edited: None, event, event_counted };
    assert!(matches!(server.store.approve(approve).await.unwrap(), Approved::Approved(_)));
}

async fn what_was_running_is_in_doubt_after_a_restart(kind: Kind) {
    let server = TestServer::start(kind).await;
    server.owner.set_mode("fake.write", "allow").await;
    let agent = server.agent().await;
    let mut held = server.source.will_hold(Ok(Output::new(json!({}))));
    let calling = {
        let agent = agent.clone();
        tokio::spawn(async move { agent.invoke("fake.write", json!({ "text": "x" })).await })
    };
    held.arrived().await;
    let restarted = server.restart().await;
    restarted.pipeline.recover().await.unwrap();
    let listed = restarted.owner.get("/api/v1/invocations").await.ok();
    assert_eq!(listed["items"][0]["status"], "in_doubt", "{listed}");
    assert_eq!(restarted.source.effects(), 1, "it is not repeated");
    restarted.pipeline.recover().await.unwrap();
    restarted.verify().await;
    calling.abort();
}

async fn an_approved_call_that_had_not_started_is_resumed(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let id = agent.pending("fake.write", json!({ "text": "kept" })).await;
    approve_without_running(&server, &id).await;
    assert_eq!(server.shown(&id).await.get("resumed_at"), None, "it may still be about to start");
    server.clock.advance_seconds(7);
    let restarted = server.restart().await;
    restarted.pipeline.recover().await.unwrap();
    let ended = restarted.owner.get(&format!("/api/v1/invocations/{id}?wait=20s")).await.ok();
    assert_eq!(ended["invocation"]["status"], "succeeded", "{ended}");
    assert_eq!(restarted.source.calls()[0].params, json!({ "text": "kept" }));
    // The invocation keeps when it was resumed. A call that ran directly after its approval has no such time.
    let now = Invocations::now(&restarted.store).await.unwrap();
    assert_eq!(ended["invocation"]["resumed_at"], json!(now.to_string()), "{ended}");
    let straight = restarted.agent().await.pending("fake.write", json!({ "text": "straight" })).await;
    assert_eq!(restarted.owner.approve(&straight).await.ok()["invocation"].get("resumed_at"), None);
    restarted.pipeline.recover().await.unwrap();
    restarted.pipeline.sweep().await.unwrap();
    assert_eq!(restarted.source.effects(), 2);
    restarted.verify().await;
}

async fn an_approved_call_is_not_resumed_past_its_time_or_on_other_ground(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let late = agent.pending("fake.write", json!({})).await;
    approve_without_running(&server, &late).await;
    server.clock.advance_seconds(limits::APPROVAL_INTERACTIVE_SECONDS + 1);
    let restarted = server.restart().await;
    restarted.pipeline.sweep().await.unwrap();
    assert_eq!(restarted.receipt_of(&late).await["status"], "expired");
    let agent = restarted.agent().await;
    let changed = agent.pending("fake.write", json!({})).await;
    approve_without_running(&restarted, &changed).await;
    restarted.source.redefine("write", |action| action.title = "Other".into());
    restarted.pipeline.recover().await.unwrap();
    let ended = restarted.owner.get(&format!("/api/v1/invocations/{changed}?wait=20s")).await.ok();
    assert_eq!((&ended["invocation"]["status"], &ended["invocation"]["denied_by"]), (&json!("denied"), &json!("binding")));
    assert!(ended["invocation"]["resumed_at"].is_string(), "it was taken up all the same: {ended}");
    assert_eq!(restarted.source.calls().len(), 0);
    restarted.verify().await;
}

async fn a_pending_call_survives_a_restart_and_runs_with_its_params(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let id = agent.pending("fake.write", json!({ "password": "kept-sealed-until-then" })).await;
    let restarted = server.restart().await;
    restarted.pipeline.recover().await.unwrap();
    restarted.owner.approve(&id).await.ok();
    assert_eq!(restarted.source.calls()[0].params["password"], "kept-sealed-until-then");
}

async fn the_log_goes_on_after_a_restart(kind: Kind) {
    let server = TestServer::start(kind).await;
    server.agent().await.invoke("fake.read", json!({})).await.ok();
    let restarted = server.restart().await;
    restarted.agent().await.invoke("fake.read", json!({})).await.ok();
    assert_eq!(restarted.verify().await.receipts, 2);
}

async fn a_backup_restores_into_either_engine(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    for _ in 0..3 {
        agent.invoke("fake.read", json!({})).await.ok();
    }
    let pending = agent.pending("fake.write", json!({ "text": "moved" })).await;
    let mut backup = Vec::new();
    server.store.backup(&mut backup).await.unwrap();
    for target in [Kind::Sqlite, Kind::Postgres] {
        let empty = TestServer::empty(target).await;
        let moved = empty.restore(std::io::Cursor::new(backup.clone())).await.unwrap();
        assert!(moved.rows > 10);
        let again = empty.restore(std::io::Cursor::new(backup.clone())).await.unwrap_err();
        assert!(matches!(again, store::RestoreError::NotEmpty), "{again}");
        let restored = TestServer::on_store(empty, &server).await;
        assert_eq!(restored.verify().await.receipts, 3);
        restored.owner.approve(&pending).await.ok();
        restored.agent().await.invoke("fake.read", json!({})).await.ok();
        assert_eq!(restored.verify().await.receipts, 5);
    }
    for cut in [backup.len() / 2, backup.len() - 30] {
        let empty = TestServer::empty(kind).await;
        empty.restore(std::io::Cursor::new(backup[..cut].to_vec())).await.unwrap_err();
        assert!(empty.list_orgs().await.unwrap().is_empty(), "a cut backup restores nothing");
    }
    let mut altered = backup.clone();
    let place =
        altered.windows(5).position(|window| window == b"\"moved").or_else(|| altered.windows(4).position(|w| w == b"test")).unwrap();
    altered[place + 1] ^= 1;
    let empty = TestServer::empty(kind).await;
    assert!(matches!(empty.restore(std::io::Cursor::new(altered)).await, Err(store::RestoreError::Damaged { .. })));
}
