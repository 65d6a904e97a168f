//! The people who gave a grant: it replaces the approvals of exactly those people, and only as long as they may approve.

use crate::harness::{Agent, Client, Kind, TestServer, on_sqlite};
use reqwest::Method;
use serde_json::{Value, json};

on_sqlite!(
    a_grant_of_one_person_does_not_stand_in_where_two_are_asked,
    a_quorum_that_is_raised_later_holds_for_grants_too,
    a_grant_is_over_when_a_giver_may_no_longer_say_yes,
    a_policy_that_wants_somebody_is_answered_by_their_grant_alone,
    a_grant_does_not_answer_for_content,
);

/// Whether a call runs without an approval.
async fn runs(agent: &Agent, action: &str, params: Value) -> bool {
    let answer = agent.invoke(action, params).await;
    match answer.status {
        200 => true,
        202 => false,
        _ => panic!("{answer:?}"),
    }
}

async fn id_of(server: &TestServer, name: &str) -> String {
    let users = server.owner.get("/api/v1/users").await.ok();
    let found = users["items"].as_array().unwrap().iter().find(|user| user["name"] == name).unwrap();
    found["id"].as_str().unwrap().to_owned()
}

/// An agent in a space where a write needs two approvals.
async fn strict_agent(server: &TestServer) -> Agent {
    let made = server.owner.post("/api/v1/spaces", json!({ "name": "vault" })).await.ok();
    let path = format!("/api/v1/spaces/{}", made["id"].as_str().unwrap());
    server.owner.send(Method::PATCH, &path, Some(json!({ "quorum": { "R2": 2 } }))).await.ok();
    server.owner.new_session(json!({ "space": "vault" })).await
}

/// All of these people approve a call and agree on a grant for the whole org.
async fn granted_by_approval(agent: &Agent, by: &[&Client]) {
    let id = agent.pending("fake.write", json!({})).await;
    let offer = json!({ "mode": "grant", "grant": { "scope": "org" } });
    for approver in by {
        approver.approve_with(&id, offer.clone()).await.ok();
    }
}

async fn a_grant_of_one_person_does_not_stand_in_where_two_are_asked(kind: Kind) {
    let server = TestServer::start(kind).await;
    let (agent, inside) = (server.agent().await, strict_agent(&server).await);
    server.owner.grant(json!({ "covers": "fake.write", "scope": "org" })).await;
    assert!(runs(&agent, "fake.write", json!({})).await);
    assert!(!runs(&inside, "fake.write", json!({})).await, "one gave it by itself");
    server.verify().await;

    let other = TestServer::start(kind).await;
    let (agent, inside) = (other.agent().await, strict_agent(&other).await);
    let ada = other.owner.person("ada", "admin").await;
    granted_by_approval(&agent, &[&other.owner]).await;
    assert!(runs(&agent, "fake.write", json!({})).await);
    assert!(!runs(&inside, "fake.write", json!({})).await, "one gave it with an approval that took one");
    granted_by_approval(&inside, &[&ada, &other.owner]).await;
    assert!(runs(&inside, "fake.write", json!({})).await, "two gave it");
    let given = other.rules().await;
    let givers: Vec<_> = given.iter().filter(|rule| rule["rule"] == "grant_given").map(|rule| rule["givers"].clone()).collect();
    let owner = other.owner.get("/api/v1/whoami").await.ok()["principal"].as_str().unwrap().trim_start_matches("user:").to_owned();
    assert_eq!(givers, [json!([owner]), json!([id_of(&other, "ada").await, owner])]);
    other.verify().await;
}

async fn a_quorum_that_is_raised_later_holds_for_grants_too(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    granted_by_approval(&agent, &[&server.owner]).await;
    assert!(runs(&agent, "fake.write", json!({})).await);
    server.change_space(json!({ "quorum": { "R2": 2 } })).await;
    assert!(!runs(&agent, "fake.write", json!({})).await);
    let ada = server.owner.person("ada", "admin").await;
    granted_by_approval(&agent, &[&ada, &server.owner]).await;
    assert!(runs(&agent, "fake.write", json!({})).await);
    server.change_space(json!({ "quorum": { "R2": 3 } })).await;
    assert!(!runs(&agent, "fake.write", json!({})).await);
    server.verify().await;
}

async fn a_grant_is_over_when_a_giver_may_no_longer_say_yes(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let ada = server.owner.person("ada", "admin").await;
    let her = format!("/api/v1/users/{}", id_of(&server, "ada").await);
    ada.grant(json!({ "covers": "fake.write", "scope": "org" })).await;
    assert!(runs(&agent, "fake.write", json!({})).await);
    for (role, expected) in [("member", false), ("admin", true)] {
        server.owner.send(Method::PATCH, &her, Some(json!({ "role": role }))).await.ok();
        assert_eq!(runs(&agent, "fake.write", json!({})).await, expected, "{role}");
    }
    // With several givers, every one of them must still be able to approve.
    server.change_space(json!({ "quorum": { "R2": 2 } })).await;
    granted_by_approval(&agent, &[&ada, &server.owner]).await;
    assert!(runs(&agent, "fake.write", json!({})).await);
    server.owner.post(&format!("{her}/disable"), json!({})).await.ok();
    assert!(!runs(&agent, "fake.write", json!({})).await);
    server.change_space(json!({ "quorum": {} })).await;
    assert!(!runs(&agent, "fake.write", json!({})).await);
    server.verify().await;
}

async fn a_policy_that_wants_somebody_is_answered_by_their_grant_alone(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let ada = server.owner.person("ada", "admin").await;
    let her_id = id_of(&server, "ada").await;
    server.owner.grant(json!({ "covers": "*", "scope": "org" })).await;
    for (gate, mode) in [("abac", "require_approval"), ("consent", "allow"), ("space", "require_approval")] {
        let policy = format!(
            r#"@id("{gate}.ada") forbid (principal, action == Countersign::Action::"fake.write", resource)
               unless {{ context has approval && context.approval.by.contains(Countersign::User::"{her_id}") }};"#
        );
        server.owner.set_policies(json!({ gate: policy })).await.ok();
        server.owner.set_mode("fake.write", mode).await;
        let explained = json!({ "session_id": agent.session, "action": "fake.write" });
        let explained = server.owner.post("/api/v1/explain", explained).await.ok();
        assert_eq!((&explained["would"], &explained["grant_id"]), (&json!("asks"), &json!(null)), "{gate}: {explained}");
        let asked = agent.pending("fake.write", json!({})).await;
        assert_eq!(server.shown(&asked).await["status"], "pending", "{gate}");
        let hers = ada.grant(json!({ "covers": "fake.write", "scope": "org" })).await;
        let answer = agent.invoke("fake.write", json!({})).await;
        assert_eq!((answer.status, &answer.body["invocation"]["grant_id"]), (200, &json!(hers)), "{gate}: {answer:?}");
        server.owner.revoke(&hers).await.ok();
        assert!(!runs(&agent, "fake.write", json!({})).await, "{gate}");
    }
    // A policy that accepts anybody's approval accepts the grant of any giver.
    let anybody =
        r#"@id("abac.anybody") forbid (principal, action == Countersign::Action::"fake.write", resource) unless { context has approval };"#;
    server.owner.set_policies(json!({ "abac": anybody })).await.ok();
    assert!(runs(&agent, "fake.write", json!({})).await);
    server.verify().await;
}

async fn a_grant_does_not_answer_for_content(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    server.owner.grant(json!({ "covers": "*", "scope": "org" })).await;
    let odd = || json!({ "text": "pay\u{200b}ment" });
    for mode in ["require_approval", "allow"] {
        server.owner.set_mode("fake.write", mode).await;
        assert!(runs(&agent, "fake.write", json!({ "text": "payment" })).await, "{mode}");
        let asked = agent.pending("fake.write", odd()).await;
        server.owner.approve(&asked).await.ok();
        let receipt = server.receipt_of(&asked).await;
        assert_eq!((&receipt["policy"]["safety"]["verdict"], &receipt["grant"]), (&json!("needs_approval"), &json!(null)), "{mode}");
    }
    // Nor if a policy asks for an approval as well, which the grant alone would satisfy.
    let anybody =
        r#"@id("abac.anybody") forbid (principal, action == Countersign::Action::"fake.write", resource) unless { context has approval };"#;
    server.owner.set_policies(json!({ "abac": anybody })).await.ok();
    assert!(runs(&agent, "fake.write", json!({ "text": "payment" })).await);
    assert!(!runs(&agent, "fake.write", odd()).await);
    server.verify().await;
}
