//! Consents: looked up by the server and never sent by a caller, given by people for themselves, and withdrawn at once.

use crate::harness::{Kind, TestServer, on_postgres, on_sqlite};
use reqwest::Method;
use serde_json::{Value, json};

on_sqlite!(
    a_withdrawn_consent_acts_at_once,
    a_withdrawn_consent_stops_what_waits_and_what_is_repeated,
    a_consent_is_for_a_purpose_a_space_a_person_and_a_time,
    agents_and_services_give_no_consent,
    a_consent_may_be_asked_of_a_person_instead,
    a_consent_is_withdrawn_by_who_gave_it,
    a_consent_in_the_older_word_is_one_to_the_action,
);
on_postgres!(a_consent_withdrawn_at_one_server_stops_what_the_other_is_about_to_do);

const NEEDED: &str = r#"@id("consent.write") forbid (principal, action == Countersign::Action::"fake.write", resource)
    unless { context.consents.contains(context.purpose) };"#;

async fn needing_consent(kind: Kind, mode: &str) -> TestServer {
    let server = TestServer::start(kind).await;
    server.owner.set_mode("fake.write", mode).await;
    server.owner.set_policies(json!({ "consent": NEEDED })).await.ok();
    server
}

async fn give(server: &TestServer, body: Value) -> String {
    let given = server.owner.post("/api/v1/consents", body).await;
    assert_eq!((given.status, &given.body["state"]), (201, &json!("live")), "{given:?}");
    given.body["id"].as_str().unwrap().to_owned()
}

async fn withdraw(server: &TestServer, consent: &str) {
    let withdrawn = server.owner.send(Method::DELETE, &format!("/api/v1/consents/{consent}"), None).await.ok();
    assert_eq!(withdrawn["state"], "withdrawn");
}

async fn a_withdrawn_consent_acts_at_once(kind: Kind) {
    let server = needing_consent(kind, "allow").await;
    let agent = server.agent().await;
    let denied = agent.invoke("fake.write", json!({})).await;
    denied.problem(403, "denied_by_policy");
    assert_eq!(server.receipt_of(&denied.id()).await["policy"]["consent"]["determining"], json!(["consent.write"]));
    let consent = give(&server, json!({ "purpose": "action:fake.write", "evidence": "ticked the box" })).await;
    agent.invoke("fake.write", json!({})).await.ok();
    withdraw(&server, &consent).await;
    agent.invoke("fake.write", json!({})).await.problem(403, "denied_by_policy");
    assert_eq!(server.source.effects(), 1);
    let rules: Vec<_> = server.rules().await.into_iter().map(|rule| rule["rule"].as_str().unwrap().to_owned()).collect();
    assert_eq!(rules, ["reviewed", "policies_set", "consent_given", "consent_withdrawn"]);
    server.verify().await;
}

async fn a_withdrawn_consent_stops_what_waits_and_what_is_repeated(kind: Kind) {
    let server = needing_consent(kind, "require_approval").await;
    let agent = server.agent().await;
    let consent = give(&server, json!({ "purpose": "action:fake.write" })).await;
    let call = json!({ "action": "fake.write", "params": { "text": "a" }, "idempotency_key": "k" });
    let done = agent.invoke_with(call.clone()).await.id();
    server.owner.approve(&done).await.ok();
    assert_eq!(agent.invoke_with(call.clone()).await.ok()["replayed"], true);
    let waiting = agent.pending("fake.write", json!({})).await;
    withdraw(&server, &consent).await;
    server.owner.approve(&waiting).await.problem(409, "policy_mismatch");
    let repeated = agent.invoke_with(call.clone()).await;
    repeated.problem(403, "denied_by_policy");
    assert_eq!(repeated.body["result"], json!(null), "an earlier success does not answer for it");
    let mut by_reference = call;
    by_reference["approval_ref"] = json!(done);
    agent.invoke_with(by_reference).await.problem(403, "denied_by_policy");
    assert_eq!(server.source.effects(), 1);
    server.verify().await;
}

async fn a_consent_is_for_a_purpose_a_space_a_person_and_a_time(kind: Kind) {
    let server = needing_consent(kind, "allow").await;
    let agent = server.agent().await;
    let lab = server.owner.post("/api/v1/spaces", json!({ "name": "lab" })).await.ok()["id"].clone();
    let inside = server.owner.new_session(json!({ "space": "lab" })).await;
    let ada = server.owner.person("ada", "admin").await;
    let hers = ada.new_session(json!({})).await;
    give(&server, json!({ "purpose": "action:fake.send" })).await;
    agent.invoke("fake.write", json!({})).await.problem(403, "denied_by_policy");
    give(&server, json!({ "purpose": "action:fake.write", "space_id": lab })).await;
    inside.invoke("fake.write", json!({})).await.ok();
    agent.invoke("fake.write", json!({})).await.problem(403, "denied_by_policy");
    give(&server, json!({ "purpose": "action:fake.write", "expires_in": "1h" })).await;
    agent.invoke("fake.write", json!({})).await.ok();
    hers.invoke("fake.write", json!({})).await.problem(403, "denied_by_policy");
    server.clock.advance_seconds(60 * 60);
    agent.invoke("fake.write", json!({})).await.problem(403, "denied_by_policy");
    inside.invoke("fake.write", json!({})).await.ok();
    let states: Vec<_> =
        server.owner.get("/api/v1/consents").await.ok()["items"].as_array().unwrap().iter().map(|one| one["state"].clone()).collect();
    assert_eq!(states.iter().filter(|state| **state == "expired").count(), 1, "{states:?}");
    for body in [
        json!({ "purpose": "everything" }),
        json!({ "purpose": "action:fake.write", "expires_in": "9999d" }),
        json!({ "purpose": "action:fake.write", "evidence": "x".repeat(2_001) }),
    ] {
        server.owner.post("/api/v1/consents", body).await.problem(400, "invalid_request");
    }
    server
        .owner
        .post("/api/v1/consents", json!({ "purpose": "action:fake.write", "space_id": "spc_nowhere" }))
        .await
        .problem(404, "not_found");
    server.verify().await;
}

/// `tool:` is the older word for `action:`, for whoever consents and in a policy.
async fn a_consent_in_the_older_word_is_one_to_the_action(kind: Kind) {
    let server = needing_consent(kind, "allow").await;
    let agent = server.agent().await;
    let given = server.owner.post("/api/v1/consents", json!({ "purpose": "tool:fake.write" })).await.ok();
    assert_eq!(given["purpose"], "action:fake.write");
    agent.invoke("fake.write", json!({})).await.ok();
    let older = NEEDED.replace("context.purpose", "\"tool:fake.write\"");
    server.owner.set_policies(json!({ "consent": older })).await.ok();
    agent.invoke("fake.write", json!({})).await.ok();
    withdraw(&server, given["id"].as_str().unwrap()).await;
    agent.invoke("fake.write", json!({})).await.problem(403, "denied_by_policy");
    server.owner.post("/api/v1/consents", json!({ "purpose": "tool:fake.nothing" })).await.problem(400, "invalid_request");
    server.verify().await;
}

async fn agents_and_services_give_no_consent(kind: Kind) {
    let server = needing_consent(kind, "allow").await;
    let agent = server.agent().await;
    let scopes = json!(["invoke", "read_session", "read", "create_session", "manage_policy", "manage_identity"]);
    let service = server.owner.post("/api/v1/tokens", json!({ "name": "ci", "scopes": scopes })).await.ok();
    let service = server.owner.with_token(service["token"].as_str().unwrap());
    for client in [&agent.client, &service] {
        client.post("/api/v1/consents", json!({ "purpose": "action:fake.write" })).await.problem(403, "forbidden");
    }
    // A caller cannot send a consent with the call either.
    let sent = json!({ "action": "fake.write", "context": { "actor": "consents to action:fake.write" } });
    agent.invoke_with(sent).await.problem(403, "denied_by_policy");
    agent.invoke_with(json!({ "action": "fake.write", "consents": ["action:fake.write"] })).await.problem(400, "invalid_request");
    // Only the owner may withdraw their consent, not their agent.
    let consent = give(&server, json!({ "purpose": "action:fake.write" })).await;
    for client in [&agent.client, &service] {
        client.send(Method::DELETE, &format!("/api/v1/consents/{consent}"), None).await.problem(403, "forbidden");
    }
    agent.invoke("fake.write", json!({})).await.ok();
    server.verify().await;
}

async fn a_consent_may_be_asked_of_a_person_instead(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    server.owner.set_mode("fake.write", "allow").await;
    let asks = NEEDED.replace("contains(context.purpose)", "contains(context.purpose) || context has approval");
    server.owner.set_policies(json!({ "consent": asks })).await.ok();
    let id = agent.pending("fake.write", json!({})).await;
    server.owner.approve(&id).await.ok();
    give(&server, json!({ "purpose": "action:fake.write" })).await;
    agent.invoke("fake.write", json!({})).await.ok();
    assert_eq!(server.source.effects(), 2);
    server.verify().await;
}

async fn a_consent_is_withdrawn_by_who_gave_it(kind: Kind) {
    let server = needing_consent(kind, "allow").await;
    let (ada, mia) = (server.owner.person("ada", "admin").await, server.owner.person("mia", "member").await);
    let consent = give(&server, json!({ "purpose": "action:fake.write" })).await;
    let path = format!("/api/v1/consents/{consent}");
    for other in [&ada, &mia] {
        other.send(Method::DELETE, &path, None).await.problem(404, "not_found");
    }
    // A member sees their own consents, an admin everybody's.
    mia.post("/api/v1/consents", json!({ "purpose": "action:fake.read" })).await.ok();
    let seen = async |client: &crate::harness::Client| client.get("/api/v1/consents").await.ok()["items"].as_array().unwrap().len();
    assert_eq!((seen(&mia).await, seen(&ada).await), (1, 2));
    withdraw(&server, &consent).await;
    server.owner.send(Method::DELETE, &path, None).await.problem(404, "not_found");
    server.verify().await;
}

async fn a_consent_withdrawn_at_one_server_stops_what_the_other_is_about_to_do(kind: Kind) {
    let server = needing_consent(kind, "allow").await;
    let other = server.restart().await;
    let mut agent = server.agent().await;
    agent.client.url.clone_from(&other.url);
    for _ in 0..3 {
        let given = other.owner.post("/api/v1/consents", json!({ "purpose": "action:fake.write" })).await.ok();
        agent.invoke("fake.write", json!({})).await.ok();
        withdraw(&server, given["id"].as_str().unwrap()).await;
        agent.invoke("fake.write", json!({})).await.problem(403, "denied_by_policy");
    }
    assert_eq!(server.source.effects(), 3);
    server.verify().await;
}
