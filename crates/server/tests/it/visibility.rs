//! What a session sees of the sources, which connection a call used, and actions that appear by themselves.

use crate::harness::{Agent, Kind, TestServer, on_sqlite};
use countersign_core::action::Reversibility;
use countersign_core::limits::{LISTING_RETRY_SECONDS, LISTING_SECONDS};
use countersign_core::ports::EventFeed;
use countersign_core::source::Error;
use countersign_core::{ConnectionId, SpaceId, Tier};
use pipeline::limits::LISTING_STALE_MAX_SECONDS;
use reqwest::Method;
use serde_json::{Value, json};
use testkit::FakeSource;

on_sqlite!(
    a_session_knows_only_the_sources_it_is_connected_to,
    a_source_of_another_space_does_not_exist,
    the_sources_of_a_session_must_exist,
    a_pending_call_does_not_run_once_its_source_is_out_of_sight,
    what_a_session_did_is_reverted_although_it_no_longer_sees_the_source,
    a_call_names_its_connection_and_is_approved_for_that_one,
    an_action_that_appears_asks_until_it_is_reviewed,
    a_mode_is_no_review_of_what_appeared,
    a_listing_that_is_not_current_is_marked,
    a_source_that_lists_nothing_for_a_day_is_not_called,
    what_changed_or_fails_is_told_although_nobody_calls_it,
);

fn crm() -> FakeSource {
    FakeSource::new("crm").offering("find_person", |_| {}).offering("send_letter", |action| {
        action.tier = Tier::R2;
        action.reversibility = Reversibility::Reversible;
    })
}

fn connection(byte: u8) -> ConnectionId {
    ConnectionId::new(testkit::clock::START, [byte; 10])
}

async fn listed(agent: &Agent) -> Vec<String> {
    let available = agent.client.get(&format!("/api/v1/sessions/{}/actions/available", agent.session)).await.ok();
    available["sources"].as_array().unwrap().iter().map(|source| source["id"].as_str().unwrap().to_owned()).collect()
}

/// Checks that the agent cannot tell this source, which it does not see, from one that does not exist.
async fn is_unknown(server: &TestServer, agent: &Agent, source: &str, name: &str) {
    let (client, session, action) = (&agent.client, &agent.session, format!("{source}.{name}"));
    let mistyped = format!("{source}.{}", &name[..name.len() - 1]);
    agent.invoke(&action, json!({})).await.problem(404, "unknown_action");
    let refused = agent.invoke(&mistyped, json!({})).await;
    refused.problem(404, "unknown_action");
    assert!(!refused.body.to_string().contains(&action), "no suggestion names it: {refused:?}");
    let explained = client.post("/api/v1/explain", json!({ "session_id": session, "action": action })).await;
    explained.problem(404, "unknown_action");
    client.get(&format!("/api/v1/actions/{action}")).await.problem(404, "unknown_action");
    client.get(&format!("/api/v1/sources/{source}/guide")).await.problem(404, "unknown_source");
    client.get(&format!("/api/v1/sessions/{session}/actions/guide/{source}")).await.problem(404, "unknown_source");
    client.post("/api/v1/grants", json!({ "covers": action, "scope": "session" })).await.problem(404, "unknown_action");
    let actions = json!({ "mode": "best_effort", "actions": [{ "action": action }] });
    let batch = client.post(&format!("/api/v1/sessions/{session}/actions/batch"), actions).await;
    assert_eq!(batch.body["parts"][0]["error"]["code"], "unknown_action", "{batch:?}");
    // An admin still finds it.
    server.owner.get(&format!("/api/v1/actions/{action}")).await.ok();
    server.owner.get(&format!("/api/v1/sources/{source}/guide")).await.ok();
}

async fn a_session_knows_only_the_sources_it_is_connected_to(kind: Kind) {
    let server = TestServer::start(kind).await;
    let source = crm();
    server.registry.add(&server.org, source.clone());
    let all = server.agent().await;
    assert_eq!(listed(&all).await, ["fake", "crm"]);
    all.invoke("crm.find_person", json!({})).await.ok();
    let limited = server.owner.new_session(json!({ "sources": ["fake"] })).await;
    let shown = server.owner.get(&format!("/api/v1/sessions/{}", limited.session)).await.ok();
    assert_eq!(shown["sources"], json!(["fake"]));
    assert_eq!(listed(&limited).await, ["fake"]);
    limited.invoke("fake.read", json!({})).await.ok();
    is_unknown(&server, &limited, "crm", "find_person").await;
    assert_eq!(source.calls().len(), 1);
    // A session that is connected to nothing has nothing to invoke.
    let none = server.owner.new_session(json!({ "sources": [] })).await;
    assert_eq!(listed(&none).await, [""; 0]);
    none.invoke("fake.read", json!({})).await.problem(404, "unknown_action");
    server.verify().await;
}

async fn a_source_of_another_space_does_not_exist(kind: Kind) {
    let server = TestServer::start(kind).await;
    let space = server.owner.post("/api/v1/spaces", json!({ "name": "sales" })).await.ok();
    let id = SpaceId::parse(space["id"].as_str().unwrap()).unwrap();
    server.registry.add(&server.org, crm().only_for(id));
    let inside = server.owner.new_session(json!({ "space": "sales" })).await;
    assert_eq!(listed(&inside).await, ["fake", "crm"]);
    inside.invoke("crm.find_person", json!({})).await.ok();
    let outside = server.agent().await;
    assert_eq!(listed(&outside).await, ["fake"]);
    is_unknown(&server, &outside, "crm", "find_person").await;
}

async fn the_sources_of_a_session_must_exist(kind: Kind) {
    let server = TestServer::start(kind).await;
    let refused = server.owner.post("/api/v1/sessions", json!({ "sources": ["fake", "fak", "No Source"] })).await;
    refused.problem(400, "invalid_request");
    let places: Vec<_> = refused.body["errors"].as_array().unwrap().iter().map(|error| error["pointer"].clone()).collect();
    assert_eq!(places, ["/sources/1", "/sources/2"]);
    let many: Vec<_> = std::iter::repeat_n("fake", 65).collect();
    server.owner.post("/api/v1/sessions", json!({ "sources": many })).await.problem(400, "invalid_request");
}

/// Replaces the sources of the org by this one.
fn replace(server: &TestServer, source: FakeSource) {
    server.registry.remove_all(&server.org);
    server.registry.add(&server.org, source);
}

fn elsewhere() -> SpaceId {
    SpaceId::new(testkit::clock::START, [77; 10])
}

async fn a_pending_call_does_not_run_once_its_source_is_out_of_sight(kind: Kind) {
    let server = TestServer::start(kind).await;
    let source = crm();
    replace(&server, source.clone());
    let agent = server.agent().await;
    let pending = agent.pending("crm.send_letter", json!({})).await;
    replace(&server, source.clone().only_for(elsewhere()));
    assert_eq!(server.shown(&pending).await["void"]["code"], "definition_mismatch");
    server.owner.approve(&pending).await.problem(409, "definition_mismatch");
    let receipt = server.receipt_of(&pending).await;
    assert_eq!((&receipt["status"], &receipt["denied_by"]), (&json!("denied"), &json!("binding")));
    assert_eq!(source.effects(), 0);
    server.verify().await;
}

async fn what_a_session_did_is_reverted_although_it_no_longer_sees_the_source(kind: Kind) {
    let server = TestServer::start(kind).await;
    let source = crm();
    replace(&server, source.clone());
    server.owner.set_mode("crm.send_letter", "allow").await;
    let agent = server.agent().await;
    let sent = agent.invoke("crm.send_letter", json!({})).await;
    assert_eq!(sent.status, 200, "{sent:?}");
    replace(&server, source.clone().only_for(elsewhere()));
    agent.invoke("crm.send_letter", json!({})).await.problem(404, "unknown_action");
    server.owner.send(Method::POST, &format!("/api/v1/invocations/{}/revert", sent.id()), Some(json!({}))).await.ok();
    assert_eq!(source.reverts().len(), 1);
    server.verify().await;
}

async fn a_call_names_its_connection_and_is_approved_for_that_one(kind: Kind) {
    let server = TestServer::start(kind).await;
    let source = crm();
    let (one, other) = (connection(1), connection(2));
    replace(&server, source.clone().connected(one.clone()));
    let agent = server.agent().await;
    let pending = agent.pending("crm.send_letter", json!({})).await;
    assert_eq!(server.shown(&pending).await["connection_id"], json!(one));
    server.owner.approve(&pending).await.ok();
    assert_eq!(server.receipt_of(&pending).await["connection_id"], json!(one));
    let log = server.log().await;
    let intents: Vec<&Value> = log.iter().filter(|(kind, _)| kind == "intent").map(|(_, body)| body).collect();
    assert_eq!(intents.iter().map(|intent| &intent["connection_id"]).collect::<Vec<_>>(), [&json!(one)]);
    // An approval of a call under one connection runs nothing under another.
    let pending = agent.pending("crm.send_letter", json!({})).await;
    replace(&server, source.clone().connected(other));
    server.owner.approve(&pending).await.problem(409, "tuple_mismatch");
    assert_eq!(source.effects(), 1);
    // Without a connection nothing is said about one.
    let read = agent.invoke("fake.read", json!({})).await.ok();
    assert_eq!(read["invocation"].get("connection_id"), None);
    assert_eq!(server.receipt_of(read["invocation"]["id"].as_str().unwrap()).await.get("connection_id"), None);
    server.verify().await;
}

async fn drift_of(server: &TestServer, action: &str) -> Value {
    server.owner.get(&format!("/api/v1/actions/{action}")).await.ok()["drift"].clone()
}

async fn an_action_that_appears_asks_until_it_is_reviewed(kind: Kind) {
    let server = TestServer::start(kind).await;
    let source = crm().needing_review();
    replace(&server, source.clone());
    let agent = server.agent().await;
    server.owner.review("crm.find_person").await;
    agent.invoke("crm.find_person", json!({})).await.ok();
    // A harmless read, which would run at once if it had been reviewed.
    source.offer("find_company", |_| {});
    assert_eq!(drift_of(&server, "crm.find_company").await, "appeared");
    assert_eq!(server.owner.get("/api/v1/reviews/crm.find_company").await.ok()["drift"], "appeared");
    server.owner.grant(json!({ "covers": "crm.*", "scope": "org" })).await;
    let asked = agent.invoke("crm.find_company", json!({})).await;
    assert_eq!(asked.status, 202, "{asked:?}");
    let decision = &asked.body["invocation"]["decision"];
    assert_eq!((&decision["base"], &decision["tightened_by"]), (&json!("allow"), &json!(["drift"])));
    let explained = agent.client.post("/api/v1/explain", json!({ "session_id": agent.session, "action": "crm.find_company" })).await.ok();
    assert_eq!((&explained["would"], &explained["drift"]), (&json!("asks"), &json!("appeared")), "{explained:#}");
    for mode in ["always", "grant"] {
        server.owner.approve_with(&asked.id(), json!({ "mode": mode })).await.problem(422, "not_grantable");
    }
    server.owner.approve(&asked.id()).await.ok();
    agent.pending("crm.find_company", json!({})).await;
    let reviews = server.owner.get("/api/v1/reviews").await.ok();
    assert_eq!(reviews["items"].as_array().unwrap().len(), 1, "nothing is recorded about what nobody reviewed");
    // It is counted once, however often it is seen.
    server.pipeline.look_at_sources(&server.org).await.unwrap();
    let metrics = server.owner.get("/metrics").await.body.as_str().unwrap().to_owned();
    assert!(metrics.contains(r#"countersign_drift_total{source="crm",kind="appeared"}"#), "{metrics}");
    server.owner.review("crm.find_company").await;
    assert_eq!(drift_of(&server, "crm.find_company").await, "none");
    agent.invoke("crm.find_company", json!({})).await.ok();
    let report = server.verify().await;
    assert!(report.ok);
}

async fn a_mode_is_no_review_of_what_appeared(kind: Kind) {
    let server = TestServer::start(kind).await;
    let source = crm().needing_review();
    replace(&server, source.clone());
    let agent = server.agent().await;
    server.owner.set_mode("crm.find_person", "allow").await;
    agent.pending("crm.find_person", json!({})).await;
    assert_eq!(drift_of(&server, "crm.find_person").await, "appeared");
    server.owner.set_mode("crm.find_person", "deny").await;
    agent.invoke("crm.find_person", json!({})).await.problem(403, "denied_by_policy");
}

async fn a_listing_that_is_not_current_is_marked(kind: Kind) {
    let server = TestServer::start(kind).await;
    let source = crm().remote();
    replace(&server, source.clone());
    let agent = server.agent().await;
    let path = format!("/api/v1/sessions/{}/actions/available", agent.session);
    assert_eq!(agent.client.get(&path).await.ok()["sources"][1]["stale"], json!(false));
    source.becomes_unreachable(Some("down"));
    assert!(server.pipeline.catalogue().refresh(&server.org, "crm").await.unwrap().unwrap().is_stale);
    let listed = agent.client.get(&path).await.ok();
    assert_eq!((&listed["sources"][1]["stale"], listed["sources"][1]["actions"].as_array().unwrap().len()), (&json!(true), 2));
    let metrics = server.owner.get("/metrics").await.body.as_str().unwrap().to_owned();
    assert!(metrics.contains(r#"countersign_source_list_seconds_count{source="crm"}"#), "{metrics}");
}

async fn a_source_that_lists_nothing_for_a_day_is_not_called(kind: Kind) {
    let server = TestServer::start(kind).await;
    let source = crm().remote();
    replace(&server, source.clone());
    let agent = server.agent().await;
    agent.invoke("crm.find_person", json!({})).await.ok();
    // It still answers calls, but no longer says what it offers.
    let will_fail_to_list = || source.will_fail_to_list(Error::Failed { code: "listing_invalid", message: "nonsense".into() });
    will_fail_to_list();
    server.clock.advance_seconds(LISTING_SECONDS);
    agent.invoke("crm.find_person", json!({})).await.ok();
    will_fail_to_list();
    server.clock.advance_seconds(LISTING_STALE_MAX_SECONDS);
    let refused = agent.invoke("crm.find_person", json!({})).await;
    refused.problem(502, "source_unavailable");
    assert!(refused.body["detail"].as_str().unwrap().contains("it has not listed its actions since"), "{refused:?}");
    assert_eq!(source.effects(), 2);
    server.clock.advance_seconds(LISTING_RETRY_SECONDS);
    agent.invoke("crm.find_person", json!({})).await.ok();
    server.verify().await;
}

async fn what_changed_or_fails_is_told_although_nobody_calls_it(kind: Kind) {
    let server = TestServer::start(kind).await;
    let source = crm().remote().needing_review();
    replace(&server, source.clone());
    server.owner.review("crm.send_letter").await;
    let pending = server.agent().await.pending("crm.send_letter", json!({})).await;
    let told = async || {
        let events = server.store.list_events_after(&server.org, 0, 1_000).await.unwrap();
        let names = events.into_iter().map(|event| event.name);
        names.filter(|name| name.starts_with("source.") || name == "action.drifted").collect::<Vec<_>>()
    };
    let look = async || {
        server.clock.advance_seconds(LISTING_SECONDS);
        server.pipeline.look_at_sources(&server.org).await.unwrap();
    };
    source.redefine("send_letter", |action| action.description = "Sends a letter, and keeps a copy.".into());
    source.says_it_changed();
    server.pipeline.look_at_sources(&server.org).await.unwrap();
    assert_eq!(server.receipt_of(&pending).await["denied_by"], "drift");
    look().await;
    assert_eq!(told().await, ["action.drifted"]);

    source.becomes_unreachable(Some("down"));
    look().await;
    look().await;
    assert_eq!(told().await, ["action.drifted", "source.unavailable"]);
    let failing = server.owner.get("/api/v1/breakers").await.ok()["items"].clone();
    assert_eq!((&failing[0]["key"], &failing[0]["state"]), (&json!("crm"), &json!("open")), "{failing}");
    assert_eq!(failing[0]["reason"], "source_unreachable");
    source.becomes_unreachable(None);
    look().await;
    look().await;
    assert_eq!(told().await, ["action.drifted", "source.unavailable", "source.available"]);
    assert_eq!(server.owner.get("/api/v1/breakers").await.ok()["items"], json!([]));
    server.verify().await;
}
