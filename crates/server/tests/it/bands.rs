//! Bands: the band of a space decides, whatever the modes are; changing it makes earlier approvals void, and the change is signed.

use crate::harness::{Kind, TestServer, on_sqlite};
use reqwest::Method;
use serde_json::{Value, json};

on_sqlite!(
    a_stricter_band_asks_or_refuses_and_says_so,
    a_changed_band_voids_what_waits_and_is_signed,
    a_band_is_set_by_who_manages_policy_and_by_nobody_else,
    a_space_of_its_own_has_a_band_of_its_own,
);

async fn main_space(server: &TestServer) -> String {
    server.owner.get("/api/v1/spaces").await.ok()["items"][0]["id"].as_str().unwrap().to_owned()
}

async fn set_band(server: &TestServer, space: &str, band: &str) -> Value {
    server.owner.send(Method::PATCH, &format!("/api/v1/spaces/{space}"), Some(json!({ "band": band }))).await.ok()
}

async fn a_stricter_band_asks_or_refuses_and_says_so(kind: Kind) {
    let server = TestServer::start(kind).await;
    let (agent, space) = (server.agent().await, main_space(&server).await);
    server.owner.set_mode("fake.write", "allow").await;
    agent.invoke("fake.write", json!({})).await.ok();

    assert_eq!(set_band(&server, &space, "amber").await["band"], "amber");
    agent.invoke("fake.read", json!({})).await.ok();
    let held = agent.pending("fake.write", json!({})).await;
    let shown = server.owner.get(&format!("/api/v1/invocations/{held}")).await.ok();
    let decision = &shown["invocation"]["decision"];
    assert_eq!((&decision["base"], &decision["mode"]), (&json!("allow"), &json!("require_approval")));
    assert_eq!(decision["tightened"], json!(["the band of the space is amber"]));

    set_band(&server, &space, "black").await;
    agent.pending("fake.read", json!({})).await;
    agent.invoke("fake.write", json!({})).await.problem(403, "denied_by_policy");
    let listed = server.owner.get(&format!("/api/v1/sessions/{}/actions/available", agent.session)).await.ok();
    for action in listed["sources"][0]["actions"].as_array().unwrap() {
        let expected = if action["id"] == "fake.read" { "require_approval" } else { "deny" };
        assert_eq!(action["mode"], expected, "{action}");
    }
    assert_eq!(server.source.effects(), 2, "one write before, one read in amber");
    server.verify().await;
}

async fn a_changed_band_voids_what_waits_and_is_signed(kind: Kind) {
    let server = TestServer::start(kind).await;
    let (agent, space) = (server.agent().await, main_space(&server).await);
    let waiting = agent.pending("fake.write", json!({})).await;
    let (_, size) = server.counts().await;
    set_band(&server, &space, "red").await;
    set_band(&server, &space, "red").await;
    assert_eq!(server.counts().await.1, size + 2, "the band, and the end of the call; what changes nothing is not signed again");
    server.owner.approve(&waiting).await.problem(409, "policy_mismatch");
    assert_eq!(server.source.effects(), 0);
    let again = agent.pending("fake.write", json!({})).await;
    server.owner.approve(&again).await.ok();
    assert_eq!(server.source.effects(), 1);
    server.verify().await;
}

async fn a_band_is_set_by_who_manages_policy_and_by_nobody_else(kind: Kind) {
    let server = TestServer::start(kind).await;
    let space = main_space(&server).await;
    let path = format!("/api/v1/spaces/{space}");
    let member = server.owner.person("mia", "member").await;
    member.send(Method::PATCH, &path, Some(json!({ "band": "green" }))).await.problem(403, "forbidden");
    assert_eq!(member.get(&path).await.ok()["band"], "green");
    for (body, status, code) in [
        (json!({}), 400, "invalid_request"),
        (json!({ "band": "pink" }), 400, "invalid_request"),
        (json!({ "band": "red", "colour": 1 }), 400, "invalid_request"),
    ] {
        server.owner.send(Method::PATCH, &path, Some(body)).await.problem(status, code);
    }
    server.owner.send(Method::PATCH, "/api/v1/spaces/spc_nowhere", Some(json!({ "band": "red" }))).await.problem(404, "not_found");
    server.owner.get("/api/v1/spaces/spc_nowhere").await.problem(404, "not_found");
    server.owner.get("/api/v1/spaces/%00").await.problem(404, "not_found");
    // A space is found by its name too, wherever its id is.
    assert_eq!(server.owner.get("/api/v1/spaces/main").await.ok()["id"], json!(space));
    assert_eq!(server.owner.send(Method::PATCH, "/api/v1/spaces/main", Some(json!({ "band": "amber" }))).await.ok()["band"], "amber");
    let given = server.owner.post("/api/v1/grants", json!({ "covers": "fake.write", "scope": "org", "space_id": "main" })).await.ok();
    assert_eq!(given["space_id"], json!(space));
}

async fn a_space_of_its_own_has_a_band_of_its_own(kind: Kind) {
    let server = TestServer::start(kind).await;
    let lab = server.owner.post("/api/v1/spaces", json!({ "name": "lab" })).await.ok();
    set_band(&server, lab["id"].as_str().unwrap(), "red").await;
    let inside = server.owner.new_session(json!({ "space": "lab" })).await;
    let outside = server.agent().await;
    server.owner.set_mode("fake.write", "allow").await;
    inside.pending("fake.write", json!({})).await;
    outside.invoke("fake.write", json!({})).await.ok();
    server.owner.set_mode("fake.destroy", "require_approval").await;
    inside.invoke("fake.destroy", json!({})).await.problem(403, "denied_by_policy");
    outside.pending("fake.destroy", json!({})).await;
    server.verify().await;
}
