//! Answers to pending invocations, and every answer that does not fit.

use crate::harness::{Kind, TestServer, on_both_engines, on_sqlite};
use countersign_core::limits;
use serde_json::json;

on_sqlite!(
    an_approval_that_comes_too_late_runs_nothing,
    unattended_sessions_give_a_person_a_day,
    agents_services_and_members_never_approve,
    whoever_asked_does_not_approve_where_duties_are_separated,
    an_approval_of_one_call_does_not_fit_another,
    a_changed_definition_voids_the_approval,
    a_changed_mode_voids_the_approval_of_that_action_only,
    an_ended_session_or_revoked_agent_voids_the_approval,
    a_repeated_call_with_its_reference_gets_the_answer,
    whoever_holds_the_line_hears_how_it_ended,
    an_approval_answers_the_grant_or_the_mode_it_made,
);

on_both_engines!(
    an_approval_is_single_use,
    the_sweep_ends_what_nobody_answered,
    a_session_has_at_most_ten_pending,
    many_approvers_at_once_run_it_once,
    deny_and_approve_at_once_have_one_winner,
);

async fn an_approval_answers_the_grant_or_the_mode_it_made(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let asked = agent.invoke("fake.write", json!({})).await;
    assert_eq!((asked.status, &asked.body["message"]), (202, &json!("Action requires approval")));
    let approved = server.owner.approve_with(&asked.id(), json!({ "mode": "grant", "grant": { "calls_max": 1 } })).await.ok();
    let grant = &approved["grant"];
    assert_eq!((&grant["state"], &grant["invocation_id"]), (&json!("active"), &json!(asked.id())), "{approved}");
    assert_eq!(server.owner.get(&format!("/api/v1/grants/{}", grant["id"].as_str().unwrap())).await.ok(), *grant);
    // The grant is spent by one more call; the next asks again.
    agent.invoke("fake.write", json!({})).await.ok();
    let id = agent.pending("fake.write", json!({})).await;
    let approved = server.owner.approve_with(&id, json!({ "mode": "always" })).await.ok();
    let modes = server.owner.get("/api/v1/modes").await.ok();
    assert_eq!((&approved["mode"], &approved["mode"]["mode"]), (&modes["items"][0], &json!("allow")), "{approved}");
    assert_eq!(approved.get("grant"), None);
}

async fn whoever_holds_the_line_hears_how_it_ended(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    // Starts a call on a connection that waits for its end; returns the connection's task and the invocation's id.
    let calling = async || {
        let (client, path) = (agent.client.clone(), format!("/api/v1/sessions/{}/actions/invoke?wait=30s", agent.session));
        let line = tokio::spawn(async move { client.post(&path, json!({ "action": "fake.write", "params": {} })).await });
        loop {
            let waiting = server.owner.get("/api/v1/invocations?status=pending").await.ok();
            if let Some(id) = waiting["items"][0]["id"].as_str() {
                return (line, id.to_owned());
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    let (line, id) = calling().await;
    server.owner.deny(&id, "not today").await.ok();
    let told = line.await.unwrap();
    told.problem(403, "denied_by_person");
    assert_eq!(told.body["detail"], "a person denied the call: not today");

    let (line, id) = calling().await;
    // A change of the mode ends the call at once: whoever asked is told why before anybody answers, and so is whoever answers.
    server.owner.set_mode("fake.write", "require_approval").await;
    let told = line.await.unwrap();
    told.problem(403, "approval_void");
    assert!(told.body["detail"].as_str().unwrap().contains("the rules for this action have changed"), "{told:?}");
    let ended = server.shown(&id).await;
    assert_eq!((&ended["status"], &ended["denied_by"]), (&json!("denied"), &json!("binding")), "{ended:#}");
    server.owner.approve(&id).await.problem(409, "policy_mismatch");
    let listed = server.owner.get("/api/v1/invocations?status=pending").await.ok();
    assert_eq!(listed["items"], json!([]));

    let (line, id) = calling().await;
    server.owner.approve(&id).await.ok();
    assert_eq!(line.await.unwrap().ok()["invocation"]["status"], "succeeded");
    assert_eq!(server.source.effects(), 1);
    server.verify().await;
}

async fn an_approval_is_single_use(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let id = agent.pending("fake.write", json!({})).await;
    server.owner.approve(&id).await.ok();
    server.owner.approve(&id).await.problem(409, "consumed");
    server.owner.deny(&id, "too late").await.problem(409, "consumed");
    assert_eq!(server.source.effects(), 1);
    let denied = agent.pending("fake.write", json!({})).await;
    server.owner.deny(&denied, "no").await.ok();
    server.owner.approve(&denied).await.problem(409, "rejected");
    server.owner.deny(&denied, "no").await.problem(409, "rejected");
    let verbose = agent.pending("fake.write", json!({})).await;
    server.owner.deny(&verbose, &"n".repeat(pipeline::limits::REASON_CHARS_MAX + 1)).await.problem(400, "invalid_request");
    assert_eq!(server.source.effects(), 1);
    server.verify().await;
}

async fn an_approval_that_comes_too_late_runs_nothing(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let id = agent.pending("fake.write", json!({})).await;
    let denied_late = agent.pending("fake.write", json!({})).await;
    server.clock.advance_seconds(limits::APPROVAL_INTERACTIVE_SECONDS + 1);
    server.owner.approve(&id).await.problem(410, "expired");
    server.owner.deny(&denied_late, "no").await.problem(410, "expired");
    for id in [&id, &denied_late] {
        assert_eq!(server.receipt_of(id).await["status"], "expired");
        server.owner.approve(id).await.problem(410, "expired");
    }
    assert_eq!(server.source.calls().len(), 0);
    server.verify().await;
}

async fn unattended_sessions_give_a_person_a_day(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.owner.new_session(json!({ "unattended": true })).await;
    let id = agent.pending("fake.write", json!({})).await;
    server.clock.advance_seconds(limits::APPROVAL_UNATTENDED_SECONDS - 1);
    server.owner.approve(&id).await.ok();
    assert_eq!(server.source.effects(), 1);
}

async fn the_sweep_ends_what_nobody_answered(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let id = agent.pending("fake.write", json!({})).await;
    server.pipeline.sweep().await.unwrap();
    assert_eq!(server.owner.get(&format!("/api/v1/invocations/{id}")).await.ok()["invocation"]["status"], "pending");
    server.clock.advance_seconds(limits::APPROVAL_INTERACTIVE_SECONDS + 1);
    server.pipeline.sweep().await.unwrap();
    assert_eq!(server.receipt_of(&id).await["status"], "expired");
    server.pipeline.sweep().await.unwrap();
    server.verify().await;
}

async fn agents_services_and_members_never_approve(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let id = agent.pending("fake.write", json!({})).await;
    let member = server.owner.person("mia", "member").await;
    let scopes = json!(["invoke", "read_session", "read", "create_session", "manage_policy", "manage_identity"]);
    let service = server.owner.post("/api/v1/tokens", json!({ "name": "ci", "scopes": scopes })).await.ok();
    let service = server.owner.with_token(service["token"].as_str().unwrap());
    let session_path = format!("/api/v1/sessions/{}/actions/invocations/{id}", agent.session);
    for client in [&agent.client, &member, &service] {
        for path in [format!("/api/v1/invocations/{id}"), session_path.clone()] {
            client.post(&format!("{path}/approve"), json!({ "mode": "once" })).await.problem(403, "may_not_approve");
            client.post(&format!("{path}/deny"), json!({})).await.problem(403, "may_not_approve");
        }
    }
    let asked = server.owner.post("/api/v1/tokens", json!({ "name": "robot", "scopes": ["approve"] })).await;
    asked.problem(400, "invalid_request");
    let admin = server.owner.person("ada", "admin").await;
    admin.post(&format!("{session_path}/approve"), json!({ "mode": "once" })).await.ok();
    assert_eq!(server.source.effects(), 1);
}

async fn whoever_asked_does_not_approve_where_duties_are_separated(kind: Kind) {
    let server = TestServer::start(kind).await;
    let spaces = server.owner.get("/api/v1/spaces").await.ok();
    let space = spaces["items"][0]["id"].as_str().unwrap();
    let path = format!("/api/v1/spaces/{space}");
    server.owner.send(reqwest::Method::PATCH, &path, Some(json!({ "self_approval": "refused" }))).await.ok();
    // The agent works for the owner, so its call counts as the owner's, like the owner's own call.
    let admin = server.owner.person("ada", "admin").await;
    let agent = server.agent().await;
    let by_agent = agent.pending("fake.write", json!({})).await;
    let own =
        server.owner.post(&format!("/api/v1/sessions/{}/actions/invoke", agent.session), json!({ "action": "fake.write" })).await.id();
    for id in [&by_agent, &own] {
        server.owner.approve(id).await.problem(403, "self_approval");
        server.owner.deny(id, "x").await.problem(403, "self_approval");
    }
    assert_eq!(server.source.effects(), 0);
    // Nor through the approver's own service: the person who made its token answers for it.
    let service = admin.post("/api/v1/tokens", json!({ "name": "svc", "scopes": ["create_session", "invoke", "read_session"] })).await.ok();
    let service = admin.with_token(service["token"].as_str().unwrap());
    let session = service.post("/api/v1/sessions", json!({})).await.ok();
    let path = format!("/api/v1/sessions/{}/actions/invoke", session["id"].as_str().unwrap());
    let by_service = service.post(&path, json!({ "action": "fake.write" })).await.id();
    admin.approve(&by_service).await.problem(403, "self_approval");
    server.owner.deny(&by_service, "no").await.ok();
    for id in [&by_agent, &own] {
        admin.approve(id).await.ok();
    }
    assert_eq!(server.source.effects(), 2);
}

async fn an_approval_of_one_call_does_not_fit_another(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let shown = agent.invoke("fake.write", json!({ "text": "pay 1" })).await;
    let other = agent.pending("fake.write", json!({ "text": "pay 1000" })).await;
    let binding = shown.body["invocation"]["binding"]["digest"].clone();
    let path = format!("/api/v1/invocations/{other}/approve");
    server.owner.post(&path, json!({ "mode": "once", "binding": binding })).await.problem(409, "args_mismatch");
    assert_eq!(server.source.effects(), 0);
    let path = format!("/api/v1/invocations/{}/approve", shown.id());
    server.owner.post(&path, json!({ "mode": "once", "binding": binding })).await.ok();
    assert_eq!(server.source.calls()[0].params, json!({ "text": "pay 1" }));
    // A reference to an approved call does not allow other params, another action or another agent.
    let reference = shown.id();
    let repeat = |action: &str, text: &str| json!({ "action": action, "params": { "text": text }, "approval_ref": reference });
    agent.invoke_with(repeat("fake.write", "pay 1000")).await.problem(409, "args_mismatch");
    agent.invoke_with(repeat("fake.send", "pay 1")).await.problem(409, "tuple_mismatch");
    server.agent().await.invoke_with(repeat("fake.write", "pay 1")).await.problem(409, "tuple_mismatch");
    let unknown = json!({ "action": "fake.write", "approval_ref": "inv_00000000000000000000000000" });
    agent.invoke_with(unknown).await.problem(404, "not_found");
    assert_eq!(server.source.effects(), 1);
}

async fn a_changed_definition_voids_the_approval(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let reworded = agent.pending("fake.write", json!({ "text": "a" })).await;
    server.source.redefine("write", |action| action.description = "Now does something else entirely.".into());
    server.owner.approve(&reworded).await.problem(409, "definition_mismatch");
    let restructured = agent.pending("fake.write", json!({ "text": "a" })).await;
    server.source.redefine("write", |action| action.params_schema["properties"]["bypass"] = json!({ "type": "boolean" }));
    server.owner.approve(&restructured).await.problem(409, "definition_mismatch");
    let gone = agent.pending("fake.write", json!({ "text": "a" })).await;
    server.source.withdraw("write");
    server.owner.approve(&gone).await.problem(409, "definition_mismatch");
    for id in [&reworded, &restructured, &gone] {
        let receipt = server.receipt_of(id).await;
        assert_eq!((&receipt["status"], &receipt["denied_by"]), (&json!("denied"), &json!("binding")));
    }
    assert_eq!(server.source.calls().len(), 0);
    server.verify().await;
}

async fn a_changed_mode_voids_the_approval_of_that_action_only(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let write = agent.pending("fake.write", json!({})).await;
    let send = agent.pending("fake.send", json!({})).await;
    server.owner.set_mode("fake.write", "deny").await;
    server.owner.approve(&write).await.problem(409, "policy_mismatch");
    server.owner.approve(&send).await.ok();
    assert_eq!(server.source.effects(), 1);
    server.verify().await;
}

async fn an_ended_session_or_revoked_agent_voids_the_approval(kind: Kind) {
    let server = TestServer::start(kind).await;
    let ended = server.agent().await;
    let id = ended.pending("fake.write", json!({})).await;
    server.owner.post(&format!("/api/v1/sessions/{}/end", ended.session), json!({})).await.ok();
    server.owner.approve(&id).await.problem(409, "tuple_mismatch");
    let revoked = server.agent().await;
    let id = revoked.pending("fake.write", json!({})).await;
    let tokens = server.owner.get("/api/v1/tokens").await.ok();
    let token = tokens["items"].as_array().unwrap().iter().find(|token| token["session_id"] == revoked.session.as_str()).unwrap();
    server.owner.post(&format!("/api/v1/tokens/{}/revoke", token["id"].as_str().unwrap()), json!({})).await.ok();
    server.owner.approve(&id).await.problem(409, "tuple_mismatch");
    assert_eq!(server.source.calls().len(), 0);
}

async fn a_repeated_call_with_its_reference_gets_the_answer(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let call = json!({ "action": "fake.write", "params": { "text": "a" } });
    let first = agent.invoke_with(call.clone()).await;
    let mut repeat = call.clone();
    repeat["approval_ref"] = json!(first.id());
    let waiting = agent.invoke_with(repeat.clone()).await;
    assert_eq!((waiting.status, waiting.id()), (202, first.id()));
    server.owner.approve(&first.id()).await.ok();
    let answered = agent.invoke_with(repeat).await;
    assert_eq!((answered.status, answered.id()), (200, first.id()), "{answered:?}");
    assert_eq!(server.source.effects(), 1);
}

async fn a_session_has_at_most_ten_pending(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let ids = futures_util::future::join_all((0..15).map(|_| agent.invoke("fake.write", json!({})))).await;
    let (held, refused): (Vec<_>, Vec<_>) = ids.into_iter().partition(|answer| answer.status == 202);
    assert_eq!((held.len(), refused.len()), (10, 5));
    refused.iter().for_each(|answer| answer.problem(429, "too_many_pending"));
    server.agent().await.pending("fake.write", json!({})).await;
    server.owner.deny(&held[0].id(), "make room").await.ok();
    agent.pending("fake.write", json!({})).await;
}

async fn many_approvers_at_once_run_it_once(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let id = agent.pending("fake.write", json!({})).await;
    let answers = futures_util::future::join_all((0..16).map(|_| server.owner.approve(&id))).await;
    let (won, lost): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 200);
    assert_eq!(won.len(), 1);
    lost.iter().for_each(|answer| answer.problem(409, "consumed"));
    assert_eq!(server.source.effects(), 1);
    server.verify().await;
}

async fn deny_and_approve_at_once_have_one_winner(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    for _ in 0..8 {
        let before = server.source.effects();
        let id = agent.pending("fake.write", json!({})).await;
        let (approved, denied) = tokio::join!(server.owner.approve(&id), server.owner.deny(&id, "no"));
        let happened = server.source.effects() - before;
        match (approved.status, denied.status) {
            (200, 409) => assert_eq!(happened, 1),
            (409, 200) => assert_eq!(happened, 0),
            other => panic!("{other:?}: {approved:?} {denied:?}"),
        }
    }
    server.verify().await;
}
