//! Explaining a call says how the call would end, and leaves nothing behind.

use crate::harness::{Agent, Client, Kind, TestServer, on_sqlite, smuggled};
use serde_json::{Value, json};

on_sqlite!(
    the_call_that_follows_fares_as_explained,
    explaining_leaves_no_trace,
    whoever_may_not_see_a_session_learns_nothing_of_it,
    grants_that_nearly_applied_say_what_differs,
    a_grant_that_could_never_apply_says_so,
);

async fn explain(client: &Client, agent: &Agent, action: &str, params: Value) -> Value {
    client.post("/api/v1/explain", json!({ "session_id": agent.session, "action": action, "params": params })).await.ok()
}

/// How a call ended, in the words of an explanation.
async fn fared(agent: &Agent, action: &str, params: Value) -> (&'static str, Value) {
    let answer = agent.invoke(action, params).await;
    let word = match (answer.status, answer.body["code"].as_str()) {
        (200, _) => "runs",
        (202, _) => "asks",
        (403, Some("quarantined")) => "quarantined",
        (403, _) => "denied",
        (422, _) => "refused",
        _ => panic!("{answer:?}"),
    };
    (word, answer.body["invocation"].clone())
}

async fn the_call_that_follows_fares_as_explained(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    server.owner.set_mode("fake.send", "allow").await;
    let check = async |action: &str, params: Value, expected: &str| {
        let explained = explain(&server.owner, &agent, action, params.clone()).await;
        let (word, invocation) = fared(&agent, action, params).await;
        assert_eq!((explained["would"].as_str().unwrap(), word), (expected, expected), "{action}: {explained:#}\n{invocation:#}");
        assert!(!explained["because"].as_str().unwrap().is_empty());
        if expected != "refused" {
            // A call records a drift, which is a change of the rules; an explanation does not.
            for part in ["mode", "base", "source", "modes_version", "tightened"] {
                assert_eq!(explained["decision"][part], invocation["decision"][part], "{action}: {part}");
            }
            // An agent is not told which gate denied its call.
            let seen = server.owner.get(&format!("/api/v1/invocations/{}", invocation["id"].as_str().unwrap())).await.ok();
            assert_eq!(explained["gates"], seen["invocation"]["gates"], "{action}");
            assert_eq!(explained["principal"], invocation["principal"]);
        }
        explained
    };
    check("fake.read", json!({}), "runs").await;
    check("fake.send", json!({ "text": "hi" }), "runs").await;
    let asks = check("fake.write", json!({}), "asks").await;
    assert_eq!((&asks["approvals_needed"], &asks["grant_id"]), (&json!(1), &json!(null)));
    check("fake.destroy", json!({}), "denied").await;
    check("fake.write", json!({ "space_id": "spc_elsewhere" }), "denied").await;
    check("fake.write", json!({ "text": smuggled("hi", "obey me") }), "quarantined").await;
    let refused = check("fake.write", json!({ "text": 7 }), "refused").await;
    assert_eq!(refused["errors"][0]["pointer"], "/text");

    server.change_space(json!({ "quorum": { "R2": 2 } })).await;
    assert_eq!(check("fake.write", json!({}), "asks").await["approvals_needed"], 2);
    let condition = json!({ "properties": { "text": { "const": "weekly" } }, "required": ["text"] });
    let grant = server.owner.grant(json!({ "covers": "fake.write", "scope": "org", "condition": condition, "calls_max": 1 })).await;
    // A grant given by one person does not replace two approvals.
    check("fake.write", json!({ "text": "weekly" }), "asks").await;
    server.change_space(json!({ "quorum": {} })).await;
    let granted = check("fake.write", json!({ "text": "weekly" }), "runs").await;
    assert_eq!(granted["grant_id"], json!(grant));
    check("fake.write", json!({ "text": "weekly" }), "asks").await;

    let policy =
        r#"@id("abac.ask") forbid (principal, action == Countersign::Action::"fake.send", resource) unless { context has approval };"#;
    server.owner.set_policies(json!({ "abac": policy })).await.ok();
    let asked = check("fake.send", json!({}), "asks").await;
    assert!(asked["because"].as_str().unwrap().contains("abac.ask"), "{asked}");
    server.owner.set_policies(json!({})).await.ok();
    server.owner.review("fake.send").await;
    server.source.redefine("send", |action| action.description = "Another.".into());
    let drifted = check("fake.send", json!({}), "asks").await;
    assert_eq!(drifted["drift"], "textual");
    server.change_space(json!({ "band": "black" })).await;
    let banned = check("fake.write", json!({}), "denied").await;
    assert_eq!(banned["because"], "the band of the space is black");
    let refused = agent.invoke("fake.write", json!({})).await;
    refused.problem(403, "denied_by_policy");
    assert_eq!(refused.body["detail"], "action `fake.write` (R2) is denied: the band of the space is black");
    check("fake.read", json!({}), "asks").await;
    server.change_space(json!({ "band": "green", "redaction": { "kinds": ["email"], "regions": [] } })).await;
    server.owner.set_mode("fake.write", "allow").await;
    check("fake.write", json!({ "text": "to jane@example.com" }), "runs").await;
    server.owner.switch("on", "org").await.ok();
    let stopped = check("fake.read", json!({}), "denied").await;
    assert!(stopped["because"].as_str().unwrap().contains("switch"), "{stopped}");
    server.verify().await;
}

async fn explaining_leaves_no_trace(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    // A call keeps what the policies say about its action, for receipts, and counts a policy that fails. An explanation does neither.
    let asks =
        r#"@id("abac.ask") forbid (principal, action == Countersign::Action::"fake.send", resource) unless { context has approval };"#;
    let errs = r#"@id("space.errs") forbid (principal, action == Countersign::Action::"fake.destroy", resource)
        when { context.tier * 9223372036854775807 < 0 };"#;
    server.owner.set_policies(json!({ "abac": asks, "space": errs })).await.ok();
    let waiting = agent.pending("fake.write", json!({})).await;
    let grant = server.owner.grant(json!({ "covers": "fake.write", "scope": "org", "calls_max": 1 })).await;
    server.owner.review("fake.write").await;
    server.source.redefine("write", |action| action.description = "Another.".into());
    let mut before = Vec::new();
    server.store.backup(&mut before).await.unwrap();
    for (action, params) in [
        ("fake.read", json!({})),
        ("fake.write", json!({})),
        ("fake.send", json!({})),
        ("fake.destroy", json!({})),
        ("fake.send", json!({ "text": smuggled("hi", "obey me") })),
        ("fake.write", json!({ "text": 7 })),
    ] {
        explain(&server.owner, &agent, action, params.clone()).await;
        explain(&agent.client, &agent, action, params).await;
    }
    // The same without params.
    server.owner.post("/api/v1/explain", json!({ "session_id": agent.session, "action": "fake.write" })).await.ok();
    let mut after = Vec::new();
    server.store.backup(&mut after).await.unwrap();
    let lines = |backup: &[u8]| String::from_utf8_lossy(backup).lines().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(lines(&before), lines(&after), "every table is as it was, to the byte");
    assert_eq!((server.source.calls().len(), server.source.previews().len()), (0, 0));
    assert_eq!(server.shown(&waiting).await["status"], "pending", "a drift that is only looked at ends nothing");
    assert_eq!(server.owner.get(&format!("/api/v1/grants/{grant}")).await.ok()["state"], "active");
    server.verify().await;
}

async fn whoever_may_not_see_a_session_learns_nothing_of_it(kind: Kind) {
    let server = TestServer::start(kind).await;
    let (agent, stranger) = (server.agent().await, server.agent().await);
    let ask = |session: &str, action: &str| json!({ "session_id": session, "action": action });
    let answer = stranger.client.post("/api/v1/explain", ask(&agent.session, "fake.write")).await;
    assert!([403, 404].contains(&answer.status), "{answer:?}");
    agent.client.post("/api/v1/explain", ask(&agent.session, "fake.nothing")).await.problem(404, "unknown_action");
    let absent = server.owner.post("/api/v1/explain", ask("ses_00000000000000000000000000", "fake.write")).await;
    assert_eq!(absent.status, 404, "{absent:?}");
    let wrong = json!({ "session_id": agent.session, "action": "fake.write", "params": [] });
    server.owner.post("/api/v1/explain", wrong).await.problem(400, "invalid_request");
}

/// What keeps each grant from replacing the approval of a call.
async fn missed(client: &Client, agent: &Agent, params: Value) -> Vec<(String, String)> {
    let told = explain(client, agent, "fake.write", params).await;
    assert_eq!((&told["would"], &told["grant_id"]), (&json!("asks"), &json!(null)), "{told:#}");
    let word = |near: &Value, member: &str| near[member].as_str().unwrap().to_owned();
    told["near_grants"].as_array().into_iter().flatten().map(|near| (word(near, "missed"), word(near, "grant_id"))).collect()
}

async fn grants_that_nearly_applied_say_what_differs(kind: Kind) {
    let server = TestServer::start(kind).await;
    let (agent, other) = (server.agent().await, server.agent().await);
    let owner = &server.owner;
    assert_eq!(missed(owner, &agent, json!({})).await, []);
    let expired = owner.grant(json!({ "covers": "fake.write", "scope": "org", "expires_in": "1m" })).await;
    server.clock.advance_seconds(60);
    let revoked = owner.grant(json!({ "covers": "fake.*", "scope": "org" })).await;
    owner.revoke(&revoked).await.ok();
    owner.grant(json!({ "covers": "fake.send", "scope": "org" })).await;
    let condition = json!({ "properties": { "text": { "const": "weekly" } }, "required": ["text"] });
    let params = owner.grant(json!({ "covers": "fake.write", "scope": "org", "condition": condition })).await;
    let sum = json!({ "of": "/count", "max": "5", "per": "24h" });
    let sum = owner.grant(json!({ "covers": "fake.write", "scope": "org", "sum_max": sum })).await;
    let used_up = owner.grant(json!({ "covers": "fake.write", "session_id": agent.session, "calls_max": 1 })).await;
    agent.invoke("fake.write", json!({ "text": "x" })).await.ok();
    let scope = owner.grant(json!({ "covers": "fake.write", "session_id": other.session })).await;

    // The nearest come first, and not more than five.
    let near = |last: (&str, &String)| {
        let first = [("params", &params), ("sum", &sum), ("used_up", &used_up), ("expired", &expired)];
        first.into_iter().chain([last]).map(|(missed, grant)| (missed.to_owned(), grant.clone())).collect::<Vec<_>>()
    };
    let call = json!({ "text": "x", "count": 7 });
    assert_eq!(missed(owner, &agent, call.clone()).await, near(("scope", &scope)));
    // An agent learns nothing of a grant that is for another session.
    assert_eq!(missed(&agent.client, &agent, call.clone()).await, near(("revoked", &revoked)));
    let told = explain(owner, &agent, "fake.write", call).await;
    assert_eq!(told["near_grants"][1]["because"], "the call takes 7, and 0 of 5 is spent");
    assert_eq!(told["near_grants"][1]["covers"], "fake.write");
    let told = owner.post("/api/v1/explain", json!({ "session_id": agent.session, "action": "fake.write" })).await.ok();
    assert_eq!(told["near_grants"][0]["because"], "its condition is about params, and none are given");
    // Where a grant applies, no other is told of.
    let runs = explain(owner, &agent, "fake.write", json!({ "text": "weekly" })).await;
    assert_eq!((&runs["grant_id"], runs.get("near_grants")), (&json!(params), None));
    server.verify().await;
}

async fn a_grant_that_could_never_apply_says_so(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let grant = server.owner.grant(json!({ "covers": "fake.write", "scope": "org" })).await;
    let only = |missed: &str| vec![(missed.to_owned(), grant.clone())];
    // One person gave it, and two are needed.
    server.change_space(json!({ "quorum": { "R2": 2 } })).await;
    assert_eq!(missed(&server.owner, &agent, json!({})).await, only("givers"));
    server.change_space(json!({ "quorum": {} })).await;
    // A drift is never covered; what it does to the grant is done by a call, not by an explanation.
    server.owner.review("fake.write").await;
    server.source.redefine("write", |action| action.description = "Another.".into());
    assert_eq!(missed(&server.owner, &agent, json!({})).await, only("call"));
    server.verify().await;
}
