//! Grants: each replaces approvals only for its number of calls, its time and its scope, and never for more.

use crate::automations::{digest, id_of, saved};
use crate::harness::{Agent, Kind, TestServer, on_both_engines, on_postgres, on_sqlite};
use countersign_core::limits;
use countersign_core::source::Error;
use serde_json::{Value, json};

on_sqlite!(
    a_grant_is_for_its_session_action_and_space,
    a_grant_for_everything_covers_every_action_but_what_destroys,
    a_grant_of_an_automation_is_for_its_sessions_alone,
    the_narrowest_grant_is_used_up_first,
    a_grant_holds_only_for_params_that_meet_its_condition,
    a_revoked_grant_allows_nothing_more,
    an_agent_only_asks_for_a_grant,
    an_agents_requests_are_its_own_bounded_and_run_out,
    whoever_may_not_approve_may_not_grant,
    a_grant_never_beats_a_deny_a_gate_or_a_black_space,
    a_spent_grant_asks_a_person_again,
    an_approval_may_grant_what_comes_after_it,
    an_approval_may_be_for_always,
    what_destroys_or_is_in_black_is_approved_one_call_at_a_time,
    a_grant_that_makes_no_sense_is_refused,
    fields_of_a_grant_that_contradict_each_other_are_refused,
    a_condition_with_an_unknown_keyword_is_refused,
    a_condition_that_would_take_for_ever_is_refused_and_the_server_serves,
);

on_both_engines!(
    a_grant_is_used_as_often_as_it_says_by_however_many_at_once,
    whatever_the_number_a_grant_is_used_that_often,
    a_grant_ends_by_the_clock_of_the_database,
    a_use_comes_back_when_the_call_never_left_and_only_then,
);
on_postgres!(two_servers_use_a_grant_as_often_as_it_says, a_grant_revoked_by_one_server_is_over_for_the_other);

async fn used(server: &TestServer, grant: &str) -> u64 {
    server.owner.get(&format!("/api/v1/grants/{grant}")).await.ok()["calls_used"].as_u64().unwrap()
}

async fn state(server: &TestServer, grant: &str) -> String {
    server.owner.get(&format!("/api/v1/grants/{grant}")).await.ok()["state"].as_str().unwrap().to_owned()
}

/// Whether a call runs without an approval.
async fn runs(agent: &Agent, action: &str, params: Value) -> bool {
    let answer = agent.invoke(action, params).await;
    match answer.status {
        200 => true,
        202 => false,
        _ => panic!("{answer:?}"),
    }
}

async fn a_grant_is_used_as_often_as_it_says_by_however_many_at_once(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agents = futures_util::future::join_all((0..8).map(|_| server.agent())).await;
    let grant = server.owner.grant(json!({ "covers": "fake.write", "scope": "org", "calls_max": 9 })).await;
    let calls = (0..64).map(|at| agents[at % 8].invoke("fake.write", json!({ "count": at })));
    let answers = futures_util::future::join_all(calls).await;
    let ran = answers.iter().filter(|answer| answer.status == 200).count();
    assert_eq!((ran, server.source.effects(), used(&server, &grant).await), (9, 9, 9));
    assert!(answers.iter().all(|answer| [200, 202].contains(&answer.status)), "{answers:?}");
    assert_eq!(state(&server, &grant).await, "used_up");
    let report = server.verify().await;
    assert_eq!((report.receipts, report.intents), (9, 9));
}

async fn whatever_the_number_a_grant_is_used_that_often(kind: Kind) {
    const CALLERS: u64 = 24;
    let server = TestServer::start(kind).await;
    let mut effects = 0;
    for most in [1, 2, 7, CALLERS - 1, CALLERS, CALLERS + 6] {
        // New sessions each time, because one session holds at most ten pending calls.
        let agents = futures_util::future::join_all((0..4).map(|_| server.agent())).await;
        let grant = server.owner.grant(json!({ "covers": "fake.write", "scope": "org", "calls_max": most })).await;
        let calls = agents.iter().cycle().zip(0..CALLERS).map(|(agent, at)| agent.invoke("fake.write", json!({ "count": at })));
        let answers = futures_util::future::join_all(calls).await;
        let ran = answers.iter().filter(|answer| answer.status == 200).count() as u64;
        let expected = most.min(CALLERS);
        effects += expected;
        assert_eq!((ran, server.source.effects(), used(&server, &grant).await), (expected, effects, expected), "of {most}");
        assert!(answers.iter().all(|answer| [200, 202].contains(&answer.status)), "{answers:?}");
        let is_over = most <= CALLERS;
        assert_eq!(state(&server, &grant).await, if is_over { "used_up" } else { "active" });
    }
    server.verify().await;
}

async fn two_servers_use_a_grant_as_often_as_it_says(kind: Kind) {
    let server = TestServer::start(kind).await;
    let other = server.restart().await;
    let agents = futures_util::future::join_all((0..8).map(|_| server.agent())).await;
    let grant = server.owner.grant(json!({ "covers": "fake.write", "scope": "org", "calls_max": 9 })).await;
    let calls = (0..64).map(|at| {
        let mut agent = agents[at % 8].clone();
        if at % 2 == 0 {
            agent.client.url.clone_from(&other.url);
        }
        async move { agent.invoke("fake.write", json!({ "count": at })).await }
    });
    let answers = futures_util::future::join_all(calls).await;
    let ran = answers.iter().filter(|answer| answer.status == 200).count();
    assert_eq!((ran, server.source.effects(), used(&server, &grant).await), (9, 9, 9));
    server.verify().await;
}

async fn a_grant_revoked_by_one_server_is_over_for_the_other(kind: Kind) {
    let server = TestServer::start(kind).await;
    let other = server.restart().await;
    let mut agent = server.agent().await;
    agent.client.url.clone_from(&other.url);
    let grant = server.owner.grant(json!({ "covers": "fake.write", "session_id": agent.session })).await;
    assert!(runs(&agent, "fake.write", json!({})).await);
    server.owner.revoke(&grant).await.ok();
    assert!(!runs(&agent, "fake.write", json!({})).await);
    server.verify().await;
}

async fn a_grant_is_for_its_session_action_and_space(kind: Kind) {
    let server = TestServer::start(kind).await;
    let (agent, stranger) = (server.agent().await, server.agent().await);
    let grant = server.owner.grant(json!({ "covers": "fake.write", "session_id": agent.session })).await;
    let answer = agent.invoke("fake.write", json!({})).await;
    assert_eq!((answer.status, &answer.body["invocation"]["grant_id"]), (200, &json!(grant)), "{answer:?}");
    assert_eq!(answer.body["invocation"]["mode"], "require_approval", "the grant answers the question, it does not change it");
    let receipt = server.receipt_of(&answer.id()).await;
    assert_eq!((&receipt["grant"], &receipt["approval"]), (&json!(grant), &json!(null)));
    assert!(!runs(&agent, "fake.send", json!({})).await);
    assert!(!runs(&stranger, "fake.write", json!({})).await);

    let lab = server.owner.post("/api/v1/spaces", json!({ "name": "lab" })).await.ok();
    let inside = server.owner.new_session(json!({ "space": "lab" })).await;
    server.owner.grant(json!({ "covers": "fake.send", "scope": "org", "space_id": lab["id"] })).await;
    assert!(runs(&inside, "fake.send", json!({})).await);
    assert!(!runs(&stranger, "fake.send", json!({})).await);
    assert!(!runs(&inside, "fake.write", json!({})).await);
    server.verify().await;
}

async fn a_grant_for_everything_covers_every_action_but_what_destroys(kind: Kind) {
    for covers in ["*", "fake.*"] {
        let server = TestServer::start(kind).await;
        let agent = server.agent().await;
        server.owner.set_mode("fake.destroy", "require_approval").await;
        server.owner.grant(json!({ "covers": covers, "scope": "org" })).await;
        assert!(runs(&agent, "fake.write", json!({})).await);
        assert!(runs(&agent, "fake.send", json!({})).await);
        assert!(!runs(&agent, "fake.destroy", json!({})).await, "{covers}");
        assert_eq!(server.source.effects(), 2);
        server.verify().await;
    }
    let server = TestServer::start(kind).await;
    server.owner.post("/api/v1/grants", json!({ "covers": "fake.destroy", "scope": "org" })).await.problem(422, "not_grantable");
    server.owner.post("/api/v1/grants", json!({ "covers": "fake.nothing", "scope": "org" })).await.problem(404, "unknown_action");
    let agent = server.agent().await;
    server.owner.grant(json!({ "covers": "other.*", "scope": "org" })).await;
    assert!(!runs(&agent, "fake.write", json!({})).await);
}

/// A session for an automation.
async fn session_for(server: &TestServer, automation: &str) -> Agent {
    server.owner.new_session(json!({ "title": "nightly", "unattended": true, "automation_id": automation })).await
}

/// A new automation of this name.
async fn named(server: &TestServer, name: &str) -> String {
    let mut definition = digest();
    definition["name"] = json!(name);
    id_of(&saved(&server.owner, definition).await)
}

async fn a_grant_of_an_automation_is_for_its_sessions_alone(kind: Kind) {
    let server = TestServer::start(kind).await;
    let (automation, other) = (named(&server, "one").await, named(&server, "other").await);
    let (inside, elsewhere) = (session_for(&server, &automation).await, session_for(&server, &other).await);
    server.owner.grant(json!({ "covers": "fake.write", "scope": "automation", "automation_id": automation })).await;
    assert!(runs(&inside, "fake.write", json!({})).await);
    assert!(!runs(&elsewhere, "fake.write", json!({})).await);
    assert!(!runs(&server.agent().await, "fake.write", json!({})).await);
    // A grant given with an approval covers the automation of the approved call, if it has one.
    let offer = json!({ "mode": "grant", "grant": { "scope": "automation" } });
    let asked = elsewhere.pending("fake.send", json!({})).await;
    server.owner.approve_with(&asked, offer.clone()).await.ok();
    assert!(runs(&session_for(&server, &other).await, "fake.send", json!({})).await);
    assert!(!runs(&inside, "fake.send", json!({})).await);
    let plain = server.agent().await.pending("fake.write", json!({})).await;
    server.owner.approve_with(&plain, offer).await.problem(422, "not_grantable");
    server.verify().await;
}

async fn the_narrowest_grant_is_used_up_first(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let wide = server.owner.grant(json!({ "covers": "*", "scope": "org", "calls_max": 1 })).await;
    let narrow = server.owner.grant(json!({ "covers": "fake.write", "session_id": agent.session, "calls_max": 1 })).await;
    assert!(runs(&agent, "fake.write", json!({})).await);
    assert_eq!((used(&server, &narrow).await, used(&server, &wide).await), (1, 0));
    assert!(runs(&agent, "fake.write", json!({})).await);
    assert!(!runs(&agent, "fake.write", json!({})).await);
    assert_eq!((used(&server, &narrow).await, used(&server, &wide).await), (1, 1));
    server.verify().await;
}

async fn a_grant_holds_only_for_params_that_meet_its_condition(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let condition = json!({ "properties": { "text": { "const": "weekly" }, "count": { "maximum": 3 } }, "required": ["text"] });
    let grant = server.owner.grant(json!({ "covers": "fake.write", "scope": "org", "condition": condition })).await;
    for (params, expected) in [
        (json!({ "text": "weekly", "count": 3 }), true),
        (json!({ "text": "weekly", "count": 4 }), false),
        (json!({ "text": "daily" }), false),
        (json!({}), false),
        (json!({ "text": "weekly" }), true),
    ] {
        assert_eq!(runs(&agent, "fake.write", params.clone()).await, expected, "{params}");
    }
    assert_eq!((used(&server, &grant).await, server.source.effects()), (2, 2));
    for condition in [json!({ "type": "nonsense" }), json!({ "pattern": "(" }), json!({ "$ref": "https://example.com/schema" })] {
        let asked = json!({ "covers": "fake.write", "scope": "org", "condition": condition });
        server.owner.post("/api/v1/grants", asked).await.problem(400, "invalid_request");
    }
    let large = json!({ "const": "x".repeat(operations::limits::GRANT_CONDITION_BYTES_MAX) });
    let asked = json!({ "covers": "fake.write", "scope": "org", "condition": large });
    server.owner.post("/api/v1/grants", asked).await.problem(400, "invalid_request");
    server.verify().await;
}

async fn a_grant_ends_by_the_clock_of_the_database(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let grant = server.owner.grant(json!({ "covers": "fake.write", "scope": "org", "expires_in": "2h" })).await;
    server.clock.advance_seconds(2 * 60 * 60 - 1);
    assert!(runs(&agent, "fake.write", json!({})).await);
    server.clock.advance_seconds(1);
    assert!(!runs(&agent, "fake.write", json!({})).await, "its last moment is not part of it");
    assert_eq!(state(&server, &grant).await, "active", "nobody has swept yet");
    server.owner.revoke(&grant).await.problem(409, "grant_ended");
    assert_eq!(server.store.expire_grants(&server.org).await, Ok(1));
    assert_eq!(server.store.expire_grants(&server.org).await, Ok(0));
    assert_eq!(state(&server, &grant).await, "expired");
    let listed = server.owner.get("/api/v1/grants?state=expired").await.ok();
    assert_eq!(listed["items"][0]["id"], json!(grant));
    assert_eq!(server.owner.get("/api/v1/grants?state=active").await.ok()["items"], json!([]));
    server.verify().await;
}

async fn a_revoked_grant_allows_nothing_more(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let admin = server.owner.person("ada", "admin").await;
    let grant = server.owner.grant(json!({ "covers": "fake.write", "scope": "org" })).await;
    assert!(runs(&agent, "fake.write", json!({})).await);
    // Anyone who could have given the grant may revoke it.
    let revoked = admin.revoke(&grant).await.ok();
    assert_eq!(revoked["state"], "revoked");
    assert!(revoked["ended_by"].is_string() && revoked["ended_at"].is_string(), "{revoked}");
    assert!(!runs(&agent, "fake.write", json!({})).await);
    admin.revoke(&grant).await.problem(409, "grant_ended");
    admin.revoke("grt_00000000000000000000000000").await.problem(404, "not_found");
    let rules: Vec<_> = server.rules().await.into_iter().map(|rule| rule["rule"].clone()).collect();
    assert_eq!(rules, ["grant_given", "grant_revoked"]);
    server.verify().await;
}

async fn an_agent_only_asks_for_a_grant(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let (_, size) = server.counts().await;
    let asked = agent.client.post("/api/v1/grants", json!({ "covers": "fake.write", "calls_max": 2, "reason": "many files" })).await;
    assert_eq!((asked.status, &asked.body["state"]), (202, &json!("requested")), "{asked:?}");
    let id = asked.body["id"].as_str().unwrap().to_owned();
    assert!(!runs(&agent, "fake.write", json!({})).await, "a request allows nothing");
    for way in ["approve", "refuse"] {
        agent.client.post(&format!("/api/v1/grants/{id}/{way}"), json!({})).await.problem(403, "may_not_approve");
    }
    agent.client.revoke(&id).await.problem(403, "may_not_approve");
    assert_eq!(server.counts().await.1, size, "what allows nothing is no rule");

    let given = server.owner.post(&format!("/api/v1/grants/{id}/approve"), json!({})).await.ok();
    assert_eq!((&given["state"], &given["calls_max"]), (&json!("active"), &json!(2)));
    assert_eq!(given["requested_by"], json!(format!("agent:{}", agent.session)));
    assert_eq!((&asked.body["session_title"], &given["session_title"]), (&json!("session"), &json!("session")));
    assert!(runs(&agent, "fake.write", json!({})).await);
    server.owner.post(&format!("/api/v1/grants/{id}/approve"), json!({})).await.problem(409, "grant_ended");

    let asked = agent.client.post("/api/v1/grants", json!({ "covers": "fake.send" })).await.ok();
    let refused = asked["id"].as_str().unwrap();
    assert_eq!(server.owner.post(&format!("/api/v1/grants/{refused}/refuse"), json!({})).await.ok()["state"], "refused");
    server.owner.post(&format!("/api/v1/grants/{refused}/approve"), json!({})).await.problem(409, "grant_ended");
    assert!(!runs(&agent, "fake.send", json!({})).await);
    server.verify().await;
}

async fn an_agents_requests_are_its_own_bounded_and_run_out(kind: Kind) {
    let server = TestServer::start(kind).await;
    let (agent, stranger) = (server.agent().await, server.agent().await);
    for body in [
        json!({ "covers": "fake.write", "session_id": stranger.session }),
        json!({ "covers": "fake.write", "scope": "automation", "automation_id": named(&server, "one").await }),
    ] {
        agent.client.post("/api/v1/grants", body).await.problem(403, "forbidden");
    }
    agent.client.post("/api/v1/grants", json!({ "covers": "fake.destroy" })).await.problem(422, "not_grantable");
    let mut ids = Vec::new();
    for _ in 0..operations::limits::GRANT_REQUESTS_PER_SESSION_MAX {
        let asked = agent.client.post("/api/v1/grants", json!({ "covers": "fake.write" })).await;
        assert_eq!(asked.status, 202, "{asked:?}");
        ids.push(asked.body["id"].as_str().unwrap().to_owned());
    }
    agent.client.post("/api/v1/grants", json!({ "covers": "fake.write" })).await.problem(429, "too_many_pending");
    assert_eq!(agent.client.get("/api/v1/grants").await.ok()["items"].as_array().unwrap().len(), ids.len());
    assert_eq!(stranger.client.get("/api/v1/grants").await.ok()["items"], json!([]), "another agent does not see them");
    stranger.client.get(&format!("/api/v1/grants/{}", ids[0])).await.problem(404, "not_found");
    server.clock.advance_seconds(store::limits::GRANT_REQUEST_SECONDS);
    server.owner.post(&format!("/api/v1/grants/{}/approve", ids[0]), json!({})).await.problem(409, "grant_ended");
    assert_eq!(server.store.expire_grants(&server.org).await, Ok(ids.len() as u64));
    assert_eq!(agent.client.post("/api/v1/grants", json!({ "covers": "fake.write" })).await.status, 202);
    server.verify().await;
}

async fn whoever_may_not_approve_may_not_grant(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let member = server.owner.person("mia", "member").await;
    let scopes = json!(["invoke", "read_session", "read", "create_session", "manage_policy", "manage_identity"]);
    let service = server.owner.post("/api/v1/tokens", json!({ "name": "ci", "scopes": scopes })).await.ok();
    let service = server.owner.with_token(service["token"].as_str().unwrap());
    let grant = server.owner.grant(json!({ "covers": "fake.read", "scope": "org" })).await;
    let asked = json!({ "covers": "fake.write", "session_id": agent.session });
    member.post("/api/v1/grants", asked.clone()).await.problem(403, "may_not_approve");
    service.post("/api/v1/grants", asked).await.problem(403, "forbidden");
    for client in [&member, &service, &agent.client] {
        client.revoke(&grant).await.problem(403, "may_not_approve");
        client.post(&format!("/api/v1/grants/{grant}/approve"), json!({})).await.problem(403, "may_not_approve");
    }
    let id = agent.pending("fake.write", json!({})).await;
    for client in [&member, &service, &agent.client] {
        for body in [json!({ "mode": "grant" }), json!({ "mode": "always" })] {
            client.approve_with(&id, body).await.problem(403, "may_not_approve");
        }
    }
    assert_eq!(server.source.effects(), 0);
    server.verify().await;
}

async fn a_grant_never_beats_a_deny_a_gate_or_a_black_space(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let grant = server.owner.grant(json!({ "covers": "*", "scope": "org" })).await;
    assert!(runs(&agent, "fake.write", json!({})).await);
    server.owner.set_mode("fake.write", "deny").await;
    agent.invoke("fake.write", json!({})).await.problem(403, "denied_by_policy");
    server.owner.set_mode("fake.write", "require_approval").await;
    agent.invoke("fake.write", json!({ "space_id": "spc_elsewhere" })).await.problem(403, "denied_by_policy");
    server.change_space(json!({ "band": "black" })).await;
    assert!(!runs(&agent, "fake.read", json!({})).await, "in a black space a person looks at every call");
    agent.invoke("fake.write", json!({})).await.problem(403, "denied_by_policy");
    assert_eq!((used(&server, &grant).await, server.source.effects()), (1, 1));
    // In band red the grant replaces the approval that the band requires.
    server.change_space(json!({ "band": "red" })).await;
    assert!(runs(&agent, "fake.write", json!({})).await);
    server.verify().await;
}

async fn a_use_comes_back_when_the_call_never_left_and_only_then(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let grant = server.owner.grant(json!({ "covers": "fake.write", "scope": "org", "calls_max": 5 })).await;
    let unreachable = || Error::Unreachable { source_id: "fake".into(), message: "refused".into() };
    for _ in 0..limits::ATTEMPTS_MAX {
        server.source.will_fail(unreachable());
    }
    let never_left = agent.invoke("fake.write", json!({})).await;
    never_left.problem(502, "source_failed");
    let receipt = server.receipt_of(&never_left.id()).await;
    assert_eq!((&receipt["grant"], &receipt["grant_returned"]), (&json!(grant), &json!(true)));
    assert_eq!((used(&server, &grant).await, server.source.effects()), (0, 0));
    // The source is reached at the second attempt: the grant is used once, although there were two attempts.
    server.source.will_fail(unreachable());
    let second_try = agent.invoke("fake.write", json!({})).await;
    assert_eq!((second_try.status, &second_try.body["invocation"]["attempts"]), (200, &json!(2)), "{second_try:?}");
    assert_eq!(used(&server, &grant).await, 1);
    for (error, expected) in [
        (Error::Refused { code: "no", message: "no".into() }, 2),
        (Error::Failed { code: "broke", message: "nothing was changed".into() }, 3),
        (Error::Broken { source_id: "fake".into(), message: "cut".into() }, 4),
    ] {
        server.source.will_fail(error.clone());
        assert!(agent.invoke("fake.write", json!({})).await.status >= 400, "{error}");
        assert_eq!(used(&server, &grant).await, expected, "{error}");
    }
    server.verify().await;
}

async fn a_spent_grant_asks_a_person_again(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    server.owner.grant(json!({ "covers": "fake.write", "scope": "org", "maxCalls": 1 })).await;
    assert!(runs(&agent, "fake.write", json!({})).await);
    let id = agent.pending("fake.write", json!({})).await;
    server.owner.approve(&id).await.ok();
    assert_eq!(server.source.effects(), 2);
    server.verify().await;
}

async fn an_approval_may_grant_what_comes_after_it(kind: Kind) {
    let server = TestServer::start(kind).await;
    let (agent, stranger) = (server.agent().await, server.agent().await);
    let id = agent.pending("fake.write", json!({ "text": "first" })).await;
    let approved = server.owner.approve_with(&id, json!({ "mode": "grant", "grant": { "maxCalls": 2 } })).await.ok();
    assert_eq!((&approved["invocation"]["status"], &approved["invocation"]["answer"]["mode"]), (&json!("succeeded"), &json!("grant")));
    let granted = server.owner.get("/api/v1/grants").await.ok()["items"][0].clone();
    assert_eq!((&granted["invocation_id"], &granted["calls_max"], &granted["calls_used"]), (&json!(id), &json!(2), &json!(0)));
    assert_eq!(granted["scope"], json!(format!("session:{}", agent.session)));
    assert_eq!(granted["covers"], "fake.write");
    // Given at 08:00. The default is 24 hours.
    assert_eq!(granted["expires_at"], "2026-11-16T08:00:00.000000Z");
    assert!(!runs(&stranger, "fake.write", json!({})).await);
    for _ in 0..2 {
        assert!(runs(&agent, "fake.write", json!({ "text": "other params" })).await);
    }
    assert!(!runs(&agent, "fake.write", json!({})).await);
    assert!(!runs(&agent, "fake.send", json!({})).await);
    // In the audit log the grant stands next to the intent of the call it came with, and so before the first call that uses it.
    let log = server.log().await;
    let at = |wanted: &dyn Fn(&str, &Value) -> bool| log.iter().position(|(kind, body)| wanted(kind, body)).unwrap();
    let given = at(&|_, body| body["change"]["rule"] == "grant_given");
    let intent = at(&|kind, body| kind == "intent" && body["invocation_id"] == id.as_str());
    let outcome = at(&|kind, body| kind == "receipt" && body["invocation_id"] == id.as_str());
    assert!(given.abs_diff(intent) == 1 && given < outcome && intent < outcome, "grant at {given}, intent {intent}, receipt {outcome}");
    server.verify().await;

    let id = stranger.pending("fake.send", json!({})).await;
    let offer = json!({ "mode": "grant", "grant": { "scope": "org", "calls_max": 1, "expires_in": "30m" } });
    server.owner.approve_with(&id, offer).await.ok();
    server.clock.advance_seconds(30 * 60 - 1);
    assert!(runs(&agent, "fake.send", json!({})).await);
    server.verify().await;
}

async fn an_approval_may_be_for_always(kind: Kind) {
    let server = TestServer::start(kind).await;
    let (agent, stranger) = (server.agent().await, server.agent().await);
    let waiting = stranger.pending("fake.write", json!({})).await;
    let id = agent.pending("fake.write", json!({})).await;
    let approved = server.owner.approve_with(&id, json!({ "mode": "always" })).await.ok();
    assert_eq!((&approved["invocation"]["status"], &approved["invocation"]["answer"]["mode"]), (&json!("succeeded"), &json!("always")));
    let later = stranger.invoke("fake.write", json!({})).await.ok();
    assert_eq!((&later["invocation"]["mode"], &later["invocation"]["mode_source"]), (&json!("allow"), &json!("org_default")));
    let modes = server.owner.get("/api/v1/modes").await.ok();
    assert_eq!((&modes["items"][0]["action"], &modes["items"][0]["mode"]), (&json!("fake.write"), &json!("allow")));
    // The pending call was asked under the earlier rule.
    server.owner.approve(&waiting).await.problem(409, "policy_mismatch");
    let reviewed = server.owner.get("/api/v1/reviews/fake.write").await.ok();
    assert_eq!(reviewed["drift"], "none", "whoever says always stands for what it is now: {reviewed}");
    let log = server.log().await;
    let mode = log.iter().position(|(kind, body)| kind == "mode" && body["action"] == "fake.write").unwrap();
    let outcome = log.iter().position(|(kind, body)| kind == "receipt" && body["invocation_id"] == id.as_str()).unwrap();
    assert!(mode < outcome, "{log:#?}");
    assert_eq!(server.source.effects(), 2);
    server.verify().await;
}

async fn what_destroys_or_is_in_black_is_approved_one_call_at_a_time(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    server.owner.set_mode("fake.destroy", "require_approval").await;
    let beyond = [json!({ "mode": "always" }), json!({ "mode": "grant" }), json!({ "mode": "grant", "grant": { "scope": "org" } })];
    let id = agent.pending("fake.destroy", json!({})).await;
    for body in &beyond {
        let mut by_name = body.clone();
        by_name["confirm"] = json!("fake.destroy");
        server.owner.approve_with(&id, by_name).await.problem(422, "not_grantable");
    }
    // A confirmation must name the action itself: a plain approval, another action's name, or an approval in bulk is refused.
    server.owner.approve(&id).await.problem(422, "needs_confirmation");
    server.owner.approve_with(&id, json!({ "confirm": "fake.write" })).await.problem(422, "needs_confirmation");
    let many = server.owner.post("/api/v1/invocations/approve", json!({ "invocations": [id] })).await.ok();
    assert_eq!(many["results"][0]["problem"]["code"], "needs_confirmation", "{many}");
    assert_eq!((server.source.effects(), server.shown(&id).await["status"].clone()), (0, json!("pending")));
    server.owner.approve_with(&id, json!({ "confirm": "fake.destroy" })).await.ok();
    assert_eq!(server.source.effects(), 1);

    server.change_space(json!({ "band": "black" })).await;
    let id = agent.pending("fake.read", json!({})).await;
    for body in &beyond {
        server.owner.approve_with(&id, body.clone()).await.problem(422, "not_grantable");
    }
    assert_eq!(server.owner.get("/api/v1/grants").await.ok()["items"], json!([]));
    server.verify().await;
}

async fn fields_of_a_grant_that_contradict_each_other_are_refused(kind: Kind) {
    let server = TestServer::start(kind).await;
    let (session, automation) = (server.agent().await.session, "aut_00000000000000000000000000");
    for (scope, field, id) in [
        (json!("org"), "session_id", session.as_str()),
        (json!("org"), "automation_id", automation),
        (json!("automation"), "session_id", session.as_str()),
        (json!("session"), "automation_id", automation),
    ] {
        let answer = server.owner.post("/api/v1/grants", json!({ "covers": "fake.write", "scope": scope, field: id })).await;
        answer.problem(400, "invalid_request");
        assert!(answer.body["detail"].as_str().unwrap().contains(&format!("`{field}`")), "{answer:?}");
    }
    assert_eq!(server.owner.get("/api/v1/grants").await.ok()["items"], json!([]));
}

async fn a_condition_with_an_unknown_keyword_is_refused(kind: Kind) {
    let server = TestServer::start(kind).await;
    let give = async |condition: Value| {
        server.owner.post("/api/v1/grants", json!({ "covers": "fake.write", "scope": "org", "condition": condition })).await
    };
    for (condition, keyword, pointer) in [
        (json!({ "maxlength": 3 }), "maxlength", "/condition/maxlength"),
        (json!({ "text": { "const": "weekly" } }), "text", "/condition/text"),
        (json!({ "properties": { "a/b": { "anyOf": [{ "equals": 1 }] } } }), "equals", "/condition/properties/a~1b/anyOf/0/equals"),
        (json!({ "$defs": { "x": { "patern": "^a" } }, "$ref": "#/$defs/x" }), "patern", "/condition/$defs/x/patern"),
        (json!({ "dependencies": { "text": ["count"] } }), "dependencies", "/condition/dependencies"),
    ] {
        let answer = give(condition).await;
        answer.problem(400, "invalid_request");
        assert_eq!(answer.body["errors"][0]["pointer"], pointer);
        assert!(answer.body["detail"].as_str().unwrap().contains(&format!("`{keyword}`")), "{answer:?}");
    }
    // What only describes is known, and so is whatever stands where no keyword does.
    let described = json!({ "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "t", "examples": [{ "odd": 1 }],
        "properties": { "odd": { "description": "d", "const": { "odd": 1 } } }, "$comment": "c" });
    assert_eq!(give(described).await.status, 201);
}

async fn a_condition_that_would_take_for_ever_is_refused_and_the_server_serves(kind: Kind) {
    let server = TestServer::start(kind).await;
    let next = |level: usize| json!({ "$ref": format!("#/$defs/d{}", level + 1) });
    let mut defs: serde_json::Map<String, Value> =
        (0..40).map(|level| (format!("d{level}"), json!({ "allOf": [next(level), next(level)] }))).collect();
    defs.insert("d40".into(), json!({ "type": "object" }));
    for condition in [json!({ "$defs": defs, "$ref": "#/$defs/d0" }), json!({ "allOf": [{ "$ref": "#" }] })] {
        let asked = json!({ "covers": "fake.write", "scope": "org", "condition": condition });
        let (refused, health) = tokio::join!(server.owner.post("/api/v1/grants", asked), server.owner.get("/healthz"));
        refused.problem(422, "schema_too_costly");
        assert!(refused.body["detail"].as_str().unwrap().starts_with("`condition` cannot be used: it "), "{refused:?}");
        assert_eq!(health.status, 200);
    }
    assert_eq!(server.owner.get("/healthz").await.status, 200);
}

async fn a_grant_that_makes_no_sense_is_refused(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    for (body, status, code) in [
        (json!({ "covers": "fake.write" }), 400, "invalid_request"),
        (json!({ "covers": "fake.write", "scope": "automation" }), 400, "invalid_request"),
        (json!({ "covers": "fake.write", "session_id": "ses_00000000000000000000000000" }), 404, "unknown_session"),
        (json!({ "covers": "fake.write", "scope": "org", "space_id": "spc_nowhere" }), 404, "not_found"),
        (json!({ "covers": "fake", "scope": "org" }), 400, "invalid_request"),
        (json!({ "covers": "fake.", "scope": "org" }), 400, "invalid_request"),
        (json!({ "covers": "fake.write", "scope": "org", "calls_max": 0 }), 400, "invalid_request"),
        (json!({ "covers": "fake.write", "scope": "org", "maxCalls": 0 }), 400, "invalid_request"),
        (json!({ "covers": "fake.write", "scope": "org", "maxCalls": 1, "calls_max": 1 }), 400, "invalid_request"),
        (json!({ "covers": "fake.write", "scope": "org", "expires_in": "0s" }), 400, "invalid_request"),
        (json!({ "covers": "fake.write", "scope": "org", "expires_in": "91d" }), 400, "invalid_request"),
        (json!({ "covers": "fake.write", "scope": "org", "expires_in": "soon" }), 400, "invalid_request"),
        (json!({ "covers": "fake.write", "scope": "world" }), 400, "invalid_request"),
    ] {
        server.owner.post("/api/v1/grants", body).await.problem(status, code);
    }
    let id = agent.pending("fake.write", json!({})).await;
    for body in [
        json!({ "mode": "grant", "grant": { "calls_max": 0 } }),
        json!({ "mode": "grant", "grant": { "maxCalls": 0 } }),
        json!({ "mode": "grant", "grant": { "maxCalls": 1, "calls_max": 1 } }),
        json!({ "mode": "grant", "grant": { "expires_in": "0s" } }),
        json!({ "mode": "grant", "grant": { "expires_in": "91d" } }),
        json!({ "mode": "once", "grant": {} }),
        json!({ "mode": "always", "grant": {} }),
        json!({ "mode": "twice" }),
    ] {
        server.owner.approve_with(&id, body).await.problem(400, "invalid_request");
    }
    assert_eq!(server.owner.get("/api/v1/grants").await.ok()["items"], json!([]));
    assert_eq!(server.source.effects(), 0);
}
