//! Grants of one session in the words of an older contract: an integration, an action, a scope and `maxCalls`. An agent requests them.

use crate::harness::{Agent, Kind, TestServer, on_both_engines, on_sqlite};
use serde_json::{Value, json};

on_both_engines!(
    an_agent_requests_a_grant_and_a_person_answers,
    what_an_agent_requests_for_the_org_is_its_own_until_it_is_given,
    a_person_gives_a_grant_to_a_session_or_to_the_org,
);

on_sqlite!(a_request_that_makes_no_sense_is_refused);

fn path(agent: &Agent) -> String {
    format!("/api/v1/sessions/{}/actions/grants", agent.session)
}

fn asked(scope: &str) -> Value {
    json!({ "integration": "fake", "action": "write", "scope": scope, "maxCalls": 2 })
}

async fn listed(agent: &Agent, query: &str) -> Vec<Value> {
    agent.client.get(&format!("{}{query}", path(agent))).await.ok()["items"].as_array().unwrap().clone()
}

async fn an_agent_requests_a_grant_and_a_person_answers(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    for (scope, covered) in [("session", format!("session:{}", agent.session)), ("org", "org".to_owned())] {
        server.clock.advance_ms(1);
        let requested = agent.client.post(&path(&agent), asked(scope)).await;
        assert_eq!((requested.status, &requested.body["state"]), (202, &json!("requested")), "{requested:?}");
        assert_eq!((&requested.body["covers"], &requested.body["scope"]), (&json!("fake.write"), &json!(covered)));
        assert_eq!((&requested.body["calls_max"], &requested.body["session_title"]), (&json!(2), &json!("session")));
        // Whoever asked in the words of the older contract is answered in them too.
        let in_theirs = |body: &Value| json!([body["integration"], body["action"], body["maxCalls"]]);
        assert_eq!(in_theirs(&requested.body), json!(["fake", "write", 2]));
        assert_eq!(in_theirs(&listed(&agent, "?state=requested").await[0]), json!(["fake", "write", 2]));
        assert_eq!(agent.invoke("fake.write", json!({})).await.status, 202, "a request allows nothing");
        assert_eq!(listed(&agent, "").await, Vec::<Value>::new());
        let id = requested.body["id"].as_str().unwrap();
        assert_eq!(listed(&agent, "?state=requested").await[0]["id"], id);
        server.owner.post(&format!("/api/v1/grants/{id}/approve"), json!({})).await.ok();
        assert_eq!(listed(&agent, "").await[0]["id"], id);
        assert_eq!(agent.invoke("fake.write", json!({})).await.status, 200);
        server.owner.revoke(id).await.ok();
        server.clock.advance_ms(1);
        let refused = agent.client.post(&path(&agent), asked(scope)).await.ok();
        let refused = refused["id"].as_str().unwrap().to_owned();
        server.owner.post(&format!("/api/v1/grants/{refused}/refuse"), json!({})).await.ok();
        assert_eq!(listed(&agent, "?state=refused").await[0]["id"], refused.as_str());
        assert_eq!(agent.invoke("fake.write", json!({})).await.status, 202);
    }
    server.verify().await;
}

async fn what_an_agent_requests_for_the_org_is_its_own_until_it_is_given(kind: Kind) {
    let server = TestServer::start(kind).await;
    let (agent, other) = (server.agent().await, server.agent().await);
    let mut ids = Vec::new();
    for _ in 0..operations::limits::GRANT_REQUESTS_PER_SESSION_MAX {
        let requested = agent.client.post(&path(&agent), asked("org")).await;
        assert_eq!(requested.status, 202, "{requested:?}");
        ids.push(requested.body["id"].as_str().unwrap().to_owned());
    }
    agent.client.post(&path(&agent), asked("org")).await.problem(429, "too_many_pending");
    assert_eq!(listed(&other, "?state=requested").await, Vec::<Value>::new());
    assert_eq!(other.client.get("/api/v1/grants").await.ok()["items"], json!([]));
    other.client.get(&path(&agent)).await.problem(403, "not_your_session");
    other.client.post(&path(&agent), asked("session")).await.problem(403, "not_your_session");
    assert_eq!(other.client.post(&path(&other), asked("org")).await.status, 202, "the requests of another agent are not counted");
    server.owner.post(&format!("/api/v1/grants/{}/approve", ids[0]), json!({})).await.ok();
    assert_eq!(listed(&other, "").await[0]["id"], ids[0].as_str(), "what is given to the org is everybody's");
    assert_eq!(other.invoke("fake.write", json!({})).await.status, 200);
    server.verify().await;
}

async fn a_person_gives_a_grant_to_a_session_or_to_the_org(kind: Kind) {
    let server = TestServer::start(kind).await;
    let (agent, other) = (server.agent().await, server.agent().await);
    let given = server.owner.post(&path(&agent), asked("session")).await;
    assert_eq!((given.status, &given.body["state"]), (201, &json!("active")), "{given:?}");
    assert_eq!(given.body["scope"], format!("session:{}", agent.session));
    assert_eq!(agent.invoke("fake.write", json!({})).await.status, 200);
    assert_eq!(other.invoke("fake.write", json!({})).await.status, 202);
    let all = server.owner.post(&path(&agent), json!({ "integration": "*", "action": "*", "scope": "org" })).await;
    assert_eq!((all.status, &all.body["covers"], &all.body["calls_max"]), (201, &json!("*.*"), &Value::Null), "{all:?}");
    assert_eq!(other.invoke("fake.write", json!({})).await.status, 200);
    let seen = server.owner.get(&path(&agent)).await.ok();
    assert_eq!(seen["items"].as_array().unwrap().len(), 2, "{seen}");
    let member = server.owner.person("mia", "member").await;
    member.post(&path(&agent), asked("session")).await.problem(403, "may_not_approve");
    server.verify().await;
}

async fn a_request_that_makes_no_sense_is_refused(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    for body in [
        json!({ "integration": "fake" }),
        json!({ "integration": "fa.ke", "action": "write" }),
        json!({ "integration": "", "action": "write" }),
        json!({ "integration": "fake", "action": "" }),
        json!({ "integration": "fake", "action": "wri*" }),
        json!({ "integration": "fake", "action": "write", "scope": "automation" }),
        json!({ "integration": "fake", "action": "write", "scope": "everybody" }),
        json!({ "integration": "fake", "action": "write", "maxCalls": 0 }),
        json!({ "integration": "fake", "action": "write", "maxCalls": -1 }),
        json!({ "integration": "fake", "action": "write", "calls_max": 1 }),
    ] {
        let refused = agent.client.post(&path(&agent), body.clone()).await;
        assert!(matches!(refused.status, 400 | 422), "{body}: {refused:?}");
    }
    // What is wrong is named as it was sent.
    let sent = |calls: Value| json!({ "integration": "fake", "action": "write", "maxCalls": calls });
    let none = agent.client.post(&path(&agent), sent(json!(0))).await;
    none.problem(400, "invalid_request");
    assert_eq!(none.body["errors"][0]["pointer"], "/maxCalls", "{none:?}");
    let text = agent.client.post(&path(&agent), sent(json!("3"))).await;
    text.problem(400, "invalid_request");
    let told = text.body["detail"].as_str().unwrap();
    assert!(told.contains("at `/maxCalls`") && told.ends_with("expected a whole number from 0 to 4294967295"), "{told}");
    agent.client.post(&path(&agent), json!({ "integration": "fake", "action": "nothing" })).await.problem(404, "unknown_action");
    agent.client.post(&path(&agent), json!({ "integration": "fake", "action": "destroy" })).await.problem(422, "not_grantable");
    agent.client.get(&format!("{}?state=nonsense", path(&agent))).await.problem(400, "invalid_query");
    assert_eq!(listed(&agent, "?state=requested").await, Vec::<Value>::new());
    server.verify().await;
}
