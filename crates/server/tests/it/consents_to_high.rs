//! Class HIGH: in a new space a call that does more than read needs the consent of the person behind it, or an approval of exactly that call.

use crate::harness::{Kind, TestServer, on_both_engines, on_sqlite};
use countersign_core::Tier;
use countersign_core::action::Effect;
use reqwest::Method;
use serde_json::{Value, json};

on_both_engines!(a_new_space_asks_for_consent_to_what_is_of_class_high, a_space_says_whether_it_asks);

on_sqlite!(an_approval_is_the_consent, always_is_a_consent_to_further_calls, a_read_needs_no_consent, a_grant_is_a_consent);

/// `fake.send` is an R3 that reaches the network, and everybody may make it.
async fn reaching(kind: Kind) -> TestServer {
    let server = TestServer::start(kind).await;
    server.source.redefine("send", |action| (action.tier, action.effects) = (Tier::R3, vec![Effect::NetworkCall]));
    server.owner.set_mode("fake.send", "allow").await;
    server
}

fn verdict_of(call: &Value, gate: &str) -> (Value, Value) {
    let found = call["gates"].as_array().unwrap().iter().find(|one| one["gate"] == gate).unwrap();
    (found["verdict"].clone(), found["determining"].clone())
}

async fn a_new_space_asks_for_consent_to_what_is_of_class_high(kind: Kind) {
    let server = reaching(kind).await;
    let agent = server.agent().await;
    let id = agent.pending("fake.send", json!({ "text": "1" })).await;
    let call = server.shown(&id).await;
    assert_eq!(verdict_of(&call, "consent"), (json!("needs_approval"), json!(["builtin.consent"])), "{call:#}");
    assert_eq!(call["decision"]["tightened_by"], json!(["gate"]));
    // What the catalogue says of it in this session is what happens.
    let mode = async || {
        let available = agent.client.get(&format!("/api/v1/sessions/{}/actions/available", agent.session)).await.ok();
        let actions = available["sources"][0]["actions"].as_array().unwrap().clone();
        actions.into_iter().find(|action| action["id"] == "fake.send").unwrap()["mode"].clone()
    };
    assert_eq!(mode().await, "require_approval");
    server.owner.consent("fake.send").await;
    assert_eq!(mode().await, "allow");
    let done = agent.invoke("fake.send", json!({ "text": "2" })).await.ok()["invocation"].clone();
    assert_eq!(verdict_of(&done, "consent"), (json!("ok"), json!(["builtin.consent", "action:fake.send"])), "{done:#}");
    // It ends as soon as it is withdrawn.
    let consent = server.owner.get("/api/v1/consents").await.ok()["items"][0]["id"].as_str().unwrap().to_owned();
    server.owner.send(Method::DELETE, &format!("/api/v1/consents/{consent}"), None).await.ok();
    agent.pending("fake.send", json!({ "text": "3" })).await;
    // A consent to every action of the source is one to this.
    server.owner.consent("fake.*").await;
    agent.invoke("fake.send", json!({ "text": "4" })).await.ok();
    server.owner.post("/api/v1/consents", json!({ "purpose": "action:nowhere.*" })).await.problem(400, "invalid_request");
    server.verify().await;
}

async fn a_space_says_whether_it_asks(kind: Kind) {
    let server = reaching(kind).await;
    let space = server.owner.post("/api/v1/spaces", json!({ "name": "lab" })).await.ok();
    assert_eq!(space["asks_consent"], true, "{space}");
    let agent = server.owner.new_session(json!({ "space": "lab" })).await;
    agent.pending("fake.send", json!({ "text": "1" })).await;
    let path = format!("/api/v1/spaces/{}", space["id"].as_str().unwrap());
    let waived = server.owner.send(Method::PATCH, &path, Some(json!({ "asks_consent": false }))).await.ok();
    assert_eq!(waived["asks_consent"], false, "{waived}");
    agent.invoke("fake.send", json!({ "text": "2" })).await.ok();
    let logged = server.log().await.into_iter().filter(|(kind, body)| kind == "space" && body["waives_consent"] == true).count();
    assert_eq!(logged, 1, "the change is in the log");
    server.owner.send(Method::PATCH, &path, Some(json!({ "asks_consent": true }))).await.ok();
    agent.pending("fake.send", json!({ "text": "3" })).await;
    server.verify().await;
}

async fn an_approval_is_the_consent(kind: Kind) {
    let server = reaching(kind).await;
    let agent = server.agent().await;
    let id = agent.pending("fake.send", json!({ "text": "1" })).await;
    server.owner.approve(&id).await.ok();
    let done = server.shown(&id).await;
    assert_eq!(done["status"], "succeeded", "{done:#}");
    assert_eq!(verdict_of(&done, "consent"), (json!("ok"), json!(["builtin.consent_by_approval"])), "{done:#}");
    // Of that call only.
    agent.pending("fake.send", json!({ "text": "2" })).await;
    server.verify().await;
}

async fn always_is_a_consent_to_further_calls(kind: Kind) {
    let server = reaching(kind).await;
    let robin = server.owner.person("robin", "member").await;
    let (agent, other) = (server.agent().await, robin.new_session(json!({})).await);
    let id = agent.pending("fake.send", json!({ "text": "1" })).await;
    server.owner.approve_with(&id, json!({ "mode": "always" })).await.ok();
    agent.invoke("fake.send", json!({ "text": "2" })).await.ok();
    assert_eq!(server.owner.get("/api/v1/consents").await.ok()["items"][0]["purpose"], "action:fake.send");
    // It was the owner's word, and is nobody else's.
    let theirs = other.pending("fake.send", json!({ "text": "3" })).await;
    server.owner.approve_with(&theirs, json!({ "mode": "always" })).await.ok();
    other.pending("fake.send", json!({ "text": "4" })).await;
    server.verify().await;
}

async fn a_read_needs_no_consent(kind: Kind) {
    let server = TestServer::start(kind).await;
    server.source.redefine("read", |action| action.effects = vec![Effect::NetworkCall]);
    let agent = server.agent().await;
    let read = agent.invoke("fake.read", json!({})).await.ok()["invocation"].clone();
    assert_eq!(verdict_of(&read, "consent").0, "not_applicable", "{read:#}");
    server.source.redefine("read", |action| action.effects = vec![Effect::Camera]);
    server.owner.review("fake.read").await;
    agent.pending("fake.read", json!({ "text": "2" })).await;
    server.verify().await;
}

async fn a_grant_is_a_consent(kind: Kind) {
    let server = reaching(kind).await;
    let agent = server.agent().await;
    server.owner.post("/api/v1/grants", json!({ "covers": "fake.send", "scope": "org", "calls_max": 1 })).await.ok();
    agent.invoke("fake.send", json!({ "text": "1" })).await.ok();
    agent.pending("fake.send", json!({ "text": "2" })).await;
    server.verify().await;
}
