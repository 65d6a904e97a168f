//! Who may do what.

use crate::harness::{Client, Kind, TestServer, on_sqlite};
use reqwest::Method;
use serde_json::{Value, json};

on_sqlite!(
    every_door_checks_the_permission_it_needs,
    each_role_does_what_it_is_for_and_no_more,
    agents_stay_in_their_session,
    services_hold_what_their_scopes_say,
    nobody_acts_above_their_own_role,
    a_changed_role_acts_at_once_and_is_signed,
    a_disabled_person_is_out_at_once,
    names_are_unique_and_sane,
);

/// Method, path, body, and the lowest role that is allowed.
type Door = (Method, &'static str, Option<Value>, &'static str);

/// From the lowest to the highest.
const ROLES: [&str; 5] = ["viewer", "member", "approver", "admin", "owner"];

async fn every_door_checks_the_permission_it_needs(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await.client;
    let mut people = Vec::new();
    for role in ROLES {
        people.push(server.owner.person(&format!("the {role}"), role).await);
    }
    let table: &[Door] = &[
        (Method::GET, "/api/v1/whoami", None, "viewer"),
        (Method::GET, "/api/v1/status", None, "viewer"),
        (Method::GET, "/api/v1/invocations", None, "viewer"),
        (Method::GET, "/api/v1/receipts", None, "viewer"),
        (Method::GET, "/api/v1/receipts/export", None, "viewer"),
        (Method::GET, "/api/v1/keys", None, "viewer"),
        (Method::GET, "/api/v1/checkpoint", None, "viewer"),
        (Method::GET, "/api/v1/actions", None, "viewer"),
        (Method::GET, "/api/v1/actions/fake.read", None, "viewer"),
        (Method::GET, "/api/v1/sessions", None, "viewer"),
        (Method::GET, "/api/v1/modes", None, "viewer"),
        (Method::GET, "/api/v1/prices", None, "viewer"),
        (Method::GET, "/api/v1/spaces", None, "viewer"),
        (Method::GET, "/api/v1/users", None, "viewer"),
        (Method::GET, "/api/v1/notifications", None, "viewer"),
        (Method::GET, "/api/v1/quarantines", None, "viewer"),
        (Method::GET, "/api/v1/secrets", None, "viewer"),
        (Method::GET, "/api/v1/channel-kinds", None, "viewer"),
        (Method::GET, "/api/v1/channels", None, "viewer"),
        (Method::GET, "/api/v1/channels/absent", None, "viewer"),
        (Method::GET, "/api/v1/deliveries", None, "viewer"),
        (Method::DELETE, "/api/v1/channels/absent", None, "admin"),
        (Method::POST, "/api/v1/channels/absent/test", Some(json!({})), "admin"),
        (Method::POST, "/api/v1/channels/absent/retry", Some(json!({})), "admin"),
        (Method::POST, "/api/v1/channels/absent/drop", Some(json!({})), "admin"),
        (Method::GET, "/api/v1/events", None, "viewer"),
        (Method::GET, "/api/v1/events/absent", None, "viewer"),
        (Method::POST, "/api/v1/events", Some(json!({ "specversion": "1.0", "id": "1", "source": "/x", "type": "x.y" })), "member"),
        (Method::POST, "/api/v1/filters/test", Some(json!({ "event_type": "x.y" })), "viewer"),
        (Method::GET, "/api/v1/event-groups", None, "viewer"),
        (Method::PUT, "/api/v1/event-groups/team", Some(json!({})), "member"),
        (Method::POST, "/api/v1/event-groups/team/claim", Some(json!({})), "member"),
        (Method::POST, "/api/v1/event-groups/team/ack", Some(json!({ "claims": ["1.1"] })), "member"),
        (Method::POST, "/api/v1/event-groups/team/nack", Some(json!({ "claims": ["1.1"] })), "member"),
        (Method::POST, "/api/v1/event-groups/absent/reset", Some(json!({ "to": "now" })), "admin"),
        (Method::POST, "/api/v1/event-groups/absent/replay", Some(json!({ "from": 1 })), "admin"),
        (Method::DELETE, "/api/v1/event-groups/absent", None, "admin"),
        (Method::GET, "/api/v1/dead-letters", None, "viewer"),
        (Method::POST, "/api/v1/dead-letters/absent/drop", None, "admin"),
        (Method::GET, "/api/v1/connections", None, "viewer"),
        (Method::GET, "/api/v1/connections/absent", None, "viewer"),
        (Method::DELETE, "/api/v1/connections/absent", None, "admin"),
        (Method::POST, "/api/v1/connections/absent/login", Some(json!({})), "admin"),
        (Method::POST, "/api/v1/connections/absent/test", Some(json!({})), "admin"),
        (Method::POST, "/api/v1/sessions", Some(json!({})), "member"),
        (Method::POST, "/api/v1/grants", Some(json!({ "covers": "fake.write", "scope": "org" })), "approver"),
        (Method::GET, "/api/v1/tokens", None, "admin"),
        (Method::GET, "/api/v1/canaries", None, "admin"),
        (Method::PUT, "/api/v1/modes/fake.read", Some(json!({ "mode": "allow" })), "admin"),
        (Method::DELETE, "/api/v1/modes/fake.read", None, "admin"),
        (Method::PUT, "/api/v1/prices/fake.read", Some(json!({ "usd": "0.002" })), "admin"),
        (Method::DELETE, "/api/v1/prices/fake.read", None, "admin"),
        (Method::PUT, "/api/v1/policies", Some(json!({})), "admin"),
        (Method::POST, "/api/v1/reviews/fake.read", Some(json!({})), "admin"),
        (Method::POST, "/api/v1/kill-switches/on", Some(json!({ "scope": "action:fake.send", "reason": "x" })), "admin"),
        (Method::POST, "/api/v1/kill-switches/off", Some(json!({ "scope": "action:fake.send" })), "admin"),
        (Method::POST, "/api/v1/keys/rotate", Some(json!({})), "admin"),
        (Method::PUT, "/api/v1/secrets/token", Some(json!({ "value": "x" })), "admin"),
        (Method::GET, "/api/v1/secrets/token", None, "viewer"),
        (Method::GET, "/api/v1/secrets/token/used-by", None, "viewer"),
        (Method::DELETE, "/api/v1/secrets/token", None, "admin"),
        (Method::POST, "/api/v1/users", Some(json!({ "name": "zoe", "role": "member" })), "admin"),
        (Method::POST, "/api/v1/spaces", Some(json!({ "name": "lab" })), "admin"),
        (Method::POST, "/api/v1/tokens", Some(json!({ "name": "t", "scopes": ["read"] })), "admin"),
        (Method::GET, "/api/v1/orgs", None, "owner"),
        (Method::GET, "/api/v1/keys/master", None, "owner"),
        (Method::POST, "/api/v1/keys/master", None, "owner"),
    ];
    for (method, path, body, lowest) in table {
        for (role, person) in ROLES.iter().zip(&people) {
            let answer = person.send(method.clone(), path, body.clone()).await;
            let is_high_enough = ROLES.iter().position(|one| one == role) >= ROLES.iter().position(|one| one == lowest);
            if is_high_enough {
                // Another role may have done it before, so the name may be taken or the switch already off.
                assert!(!matches!(answer.status, 401 | 403), "{role} {method} {path}: {answer:?}");
            } else {
                assert_eq!(answer.status, 403, "{role} {method} {path}: {answer:?}");
            }
        }
        let is_its_own = ["/api/v1/whoami", "/api/v1/actions/fake.read", "/api/v1/grants"].contains(path);
        let by_agent = agent.send(method.clone(), path, body.clone()).await;
        assert_eq!(by_agent.status == 403, !is_its_own, "agent {method} {path}: {by_agent:?}");
        let nobody: Client = server.owner.with_token("");
        nobody.send(method.clone(), path, body.clone()).await.problem(401, "unauthenticated");
    }
    server.verify().await;
}

async fn each_role_does_what_it_is_for_and_no_more(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let person = async |role: &str| server.owner.person(role, role).await;
    let (viewer, member, approver, admin) =
        (person("viewer").await, person("member").await, person("approver").await, person("admin").await);
    let permissions = async |who: &Client| who.get("/api/v1/whoami").await.ok()["permissions"].clone();
    assert_eq!(permissions(&viewer).await, json!(["read_session", "read"]));
    assert_eq!(permissions(&approver).await, json!(["invoke", "read_session", "read", "create_session", "approve"]));

    // Reading does not include invoking, neither directly nor through an agent from the time as a member.
    let invoke = |session: &str| format!("/api/v1/sessions/{session}/actions/invoke");
    let own = member.new_session(json!({})).await;
    own.invoke("fake.read", json!({})).await.ok();
    member.post(&invoke(&own.session), json!({ "action": "fake.read" })).await.ok();
    viewer.post("/api/v1/sessions", json!({})).await.problem(403, "forbidden");
    viewer.post(&invoke(&own.session), json!({ "action": "fake.read" })).await.problem(403, "not_your_session");
    let id = member.get("/api/v1/whoami").await.ok()["principal"].as_str().unwrap().trim_start_matches("user:").to_owned();
    admin.send(Method::PATCH, &format!("/api/v1/users/{id}"), Some(json!({ "role": "viewer" }))).await.ok();
    own.invoke("fake.read", json!({})).await.problem(403, "denied_by_policy");
    member.post(&invoke(&own.session), json!({ "action": "fake.read" })).await.problem(403, "not_your_session");
    assert_eq!(server.source.calls().len(), 2);

    // An approver may answer in every way, and may change no rule.
    let pending = async || agent.pending("fake.write", json!({})).await;
    for who in [&viewer, &member, &agent.client] {
        let id = pending().await;
        who.approve(&id).await.problem(403, "may_not_approve");
        who.deny(&id, "no").await.problem(403, "may_not_approve");
        who.post(&format!("/api/v1/invocations/{id}/link"), json!({})).await.problem(403, "may_not_approve");
        server.owner.deny(&id, "no").await.ok();
    }
    approver.approve(&pending().await).await.ok();
    approver.deny(&pending().await, "no").await.ok();
    approver.approve_with(&pending().await, json!({ "params": { "text": "other" } })).await.ok();
    approver.post(&format!("/api/v1/invocations/{}/snooze", pending().await), json!({ "for": "5m" })).await.ok();
    approver.post(&format!("/api/v1/invocations/{}/link", pending().await), json!({})).await.ok();
    approver.approve_with(&pending().await, json!({ "mode": "always" })).await.problem(403, "forbidden");
    approver.approve_with(&pending().await, json!({ "mode": "grant", "grant": { "calls_max": 1 } })).await.ok();
    approver.send(Method::PUT, "/api/v1/modes/fake.write", Some(json!({ "mode": "allow" }))).await.problem(403, "forbidden");
    approver.post("/api/v1/users", json!({ "name": "x", "role": "viewer" })).await.problem(403, "forbidden");
    // An admin may give every role but owner.
    for role in ["viewer", "member", "approver", "admin"] {
        admin.post("/api/v1/users", json!({ "name": format!("new {role}"), "role": role })).await.ok();
    }
    admin.post("/api/v1/users", json!({ "name": "new owner", "role": "owner" })).await.problem(403, "forbidden");
    server.verify().await;
}

async fn agents_stay_in_their_session(kind: Kind) {
    let server = TestServer::start(kind).await;
    let (one, two) = (server.agent().await, server.agent().await);
    let id = one.invoke("fake.read", json!({})).await.id();
    let path = format!("/api/v1/sessions/{}/actions", one.session);
    for read in
        [format!("{path}/available"), format!("{path}/invocations"), format!("{path}/invocations/{id}"), format!("{path}/guide/fake")]
    {
        one.client.get(&read).await.ok();
        two.client.get(&read).await.problem(403, "not_your_session");
    }
    two.client.post(&format!("{path}/invoke"), json!({ "action": "fake.read" })).await.problem(403, "not_your_session");
    one.client.get(&format!("/api/v1/invocations/{id}")).await.ok();
    two.client.get(&format!("/api/v1/invocations/{id}")).await.problem(404, "not_found");
    // An invocation is looked up only inside the named session.
    let crossed = format!("/api/v1/sessions/{}/actions/invocations/{id}", two.session);
    two.client.get(&crossed).await.problem(404, "not_found");
    // A person invokes in sessions they created, and in no others.
    let member = server.owner.person("mia", "member").await;
    member.post(&format!("{path}/invoke"), json!({ "action": "fake.read" })).await.problem(403, "not_your_session");
    server.owner.post(&format!("{path}/invoke"), json!({ "action": "fake.read" })).await.ok();
    server.owner.post(&format!("/api/v1/sessions/{}/end", one.session), json!({})).await.ok();
    one.invoke("fake.read", json!({})).await.problem(401, "unauthenticated");
    server.owner.post(&format!("{path}/invoke"), json!({ "action": "fake.read" })).await.problem(409, "session_ended");
}

async fn services_hold_what_their_scopes_say(kind: Kind) {
    let server = TestServer::start(kind).await;
    let service = |scopes: Value| {
        let owner = server.owner.clone();
        async move {
            let made = owner.post("/api/v1/tokens", json!({ "name": "svc", "scopes": scopes })).await.ok();
            owner.with_token(made["token"].as_str().unwrap())
        }
    };
    let reader = service(json!(["read"])).await;
    reader.get("/api/v1/invocations").await.ok();
    reader.post("/api/v1/sessions", json!({})).await.problem(403, "forbidden");
    let runner = service(json!(["create_session", "invoke", "read_session"])).await;
    let session = runner.post("/api/v1/sessions", json!({ "unattended": true })).await.ok();
    let path = format!("/api/v1/sessions/{}/actions/invoke", session["id"].as_str().unwrap());
    assert_eq!(runner.post(&path, json!({ "action": "fake.read" })).await.ok()["invocation"]["status"], "succeeded");
    runner.get("/api/v1/invocations").await.problem(403, "forbidden");
    for scopes in [json!([]), json!(["everything"]), json!(["approve"])] {
        server.owner.post("/api/v1/tokens", json!({ "name": "svc", "scopes": scopes })).await.problem(400, "invalid_request");
    }
}

async fn nobody_acts_above_their_own_role(kind: Kind) {
    let server = TestServer::start(kind).await;
    let admin = server.owner.person("ada", "admin").await;
    admin.post("/api/v1/users", json!({ "name": "eve", "role": "owner" })).await.problem(403, "forbidden");
    let users = server.owner.get("/api/v1/users").await.ok();
    let owner = users["items"].as_array().unwrap().iter().find(|user| user["role"] == "owner").unwrap()["id"].clone();
    let refused = admin.post("/api/v1/tokens", json!({ "name": "steal", "user_id": owner })).await;
    refused.problem(403, "forbidden");
    let invite = format!("invite them with `POST /api/v1/users/{}/invite`", owner.as_str().unwrap());
    assert_eq!(refused.body["hint"], invite, "a request that can be sent as it is");
    let path = format!("/api/v1/users/{}/disable", owner.as_str().unwrap());
    admin.post(&path, json!({})).await.problem(403, "forbidden");
    server.owner.post(&path, json!({})).await.problem(409, "last_owner");
    let tokens = server.owner.get("/api/v1/tokens").await.ok();
    let owners = tokens["items"].as_array().unwrap().iter().find(|token| token["user_id"] == owner).unwrap()["id"].clone();
    let revoke = format!("/api/v1/tokens/{}/revoke", owners.as_str().unwrap());
    admin.post(&revoke, json!({})).await.problem(403, "forbidden");
    let service = server.owner.post("/api/v1/tokens", json!({ "name": "svc", "scopes": ["manage_identity"] })).await.ok();
    let service = server.owner.with_token(service["token"].as_str().unwrap());
    service.post("/api/v1/users", json!({ "name": "eve", "role": "admin" })).await.problem(403, "forbidden");
    service.post("/api/v1/tokens", json!({ "name": "steal", "user_id": owner })).await.problem(403, "forbidden");
    service.post("/api/v1/tokens", json!({ "name": "more", "scopes": ["manage_policy"] })).await.problem(403, "forbidden");
    service.post(&revoke, json!({})).await.problem(403, "forbidden");
    // The last token that an owner can act with cannot be revoked; once there is another one, it can.
    server.owner.post(&revoke, json!({})).await.problem(409, "last_owner");
    let another = server.owner.post("/api/v1/tokens", json!({ "name": "another", "user_id": owner })).await.ok()["token"].clone();
    server.owner.post(&revoke, json!({})).await.ok();
    server.owner.get("/api/v1/whoami").await.problem(401, "token_revoked");
    server.owner.with_token(another.as_str().unwrap()).get("/api/v1/whoami").await.ok();
}

async fn a_changed_role_acts_at_once_and_is_signed(kind: Kind) {
    let server = TestServer::start(kind).await;
    let (mia, ada) = (server.owner.person("mia", "member").await, server.owner.person("ada", "admin").await);
    let id_of =
        async |who: &Client| who.get("/api/v1/whoami").await.ok()["principal"].as_str().unwrap().trim_start_matches("user:").to_owned();
    let (mias, adas, owners) = (id_of(&mia).await, id_of(&ada).await, id_of(&server.owner).await);
    let change = async |who: &Client, user: &str, body: Value| who.send(Method::PATCH, &format!("/api/v1/users/{user}"), Some(body)).await;
    let to = |role: &str| json!({ "role": role });
    let pending = server.agent().await.pending("fake.write", json!({})).await;
    mia.approve(&pending).await.problem(403, "may_not_approve");

    // Only a person who manages people may change roles, never above their own role and never their own role.
    change(&mia, &adas, to("member")).await.problem(403, "forbidden");
    change(&ada, &mias, to("owner")).await.problem(403, "forbidden");
    change(&ada, &owners, to("member")).await.problem(403, "forbidden");
    change(&ada, &adas, to("member")).await.problem(403, "forbidden");
    change(&server.owner, &owners, to("admin")).await.problem(403, "forbidden");
    let made = server.owner.post("/api/v1/tokens", json!({ "name": "svc", "scopes": ["manage_identity"] })).await.ok();
    let service = server.owner.with_token(made["token"].as_str().unwrap());
    change(&service, &mias, to("admin")).await.problem(403, "forbidden");
    change(&service, &adas, to("member")).await.problem(403, "forbidden");
    for body in [json!({}), json!({ "role": "king" }), json!({ "role": "admin", "more": 1 })] {
        change(&server.owner, &mias, body).await.problem(400, "invalid_request");
    }
    change(&server.owner, "usr_nobody", to("admin")).await.problem(404, "not_found");
    assert_eq!(server.rules().await.iter().filter(|rule| rule["rule"] == "role_changed").count(), 0, "what was refused changed nothing");

    // With the higher role the same token may approve; with the lower one it may not.
    assert_eq!(change(&ada, &mias, to("admin")).await.ok()["role"], "admin");
    assert_eq!(mia.get("/api/v1/whoami").await.ok()["role"], "admin");
    mia.approve(&pending).await.ok();
    assert_eq!(change(&ada, &mias, to("member")).await.ok()["role"], "member");
    let pending = server.agent().await.pending("fake.write", json!({})).await;
    mia.approve(&pending).await.problem(403, "may_not_approve");
    change(&server.owner, &mias, to("member")).await.ok();
    let rules = server.rules().await;
    let roles: Vec<_> = rules.iter().filter(|rule| rule["rule"] == "role_changed").map(|rule| (&rule["user"], &rule["role"])).collect();
    assert_eq!(roles, [(&json!(mias), &json!("admin")), (&json!(mias), &json!("member"))], "what changes nothing is not signed");

    // An org always keeps an owner.
    change(&server.owner, &adas, to("owner")).await.ok();
    change(&ada, &owners, to("admin")).await.ok();
    change(&server.owner, &adas, to("admin")).await.problem(403, "forbidden");
    let both = json!({ "role": "owner", "max_band": "red" });
    let changed = change(&ada, &mias, both).await.ok();
    assert_eq!((&changed["role"], &changed["max_band"]), (&json!("owner"), &json!("red")));
    server.owner.send(Method::POST, &format!("/api/v1/users/{mias}/disable"), Some(json!({}))).await.problem(403, "forbidden");
    ada.post(&format!("/api/v1/users/{mias}/disable"), json!({})).await.ok();
    // The last owner's role cannot change: owners cannot change their own role, and nobody else may change an owner's.
    ada.post(&format!("/api/v1/users/{adas}/disable"), json!({})).await.problem(409, "last_owner");
    server.verify().await;
}

async fn a_disabled_person_is_out_at_once(kind: Kind) {
    let server = TestServer::start(kind).await;
    let member = server.owner.person("mia", "member").await;
    let id = member.get("/api/v1/whoami").await.ok()["principal"].as_str().unwrap().trim_start_matches("user:").to_owned();
    let agent = member.new_session(json!({})).await;
    let pending = agent.pending("fake.write", json!({})).await;
    let admin = server.owner.person("ann", "admin").await;
    let admin_id = admin.get("/api/v1/whoami").await.ok()["principal"].as_str().unwrap().trim_start_matches("user:").to_owned();
    let made = admin.post("/api/v1/tokens", json!({ "name": "ci", "scopes": ["invoke", "read", "create_session"] })).await.ok();
    let service = server.owner.with_token(made["token"].as_str().unwrap());
    let services_session = service.new_session(json!({})).await;
    service.get("/api/v1/whoami").await.ok();
    server.owner.post(&format!("/api/v1/users/{admin_id}/disable"), json!({})).await.ok();
    service.get("/api/v1/whoami").await.problem(401, "unauthenticated");
    services_session.invoke("fake.read", json!({})).await.problem(401, "unauthenticated");
    server.owner.post(&format!("/api/v1/users/{id}/disable"), json!({})).await.ok();
    member.get("/api/v1/whoami").await.problem(401, "unauthenticated");
    server.owner.post(&format!("/api/v1/users/{id}/invite"), json!({})).await.problem(404, "not_found");
    // Their agent is refused too, and its pending call is void.
    agent.invoke("fake.read", json!({})).await.problem(401, "unauthenticated");
    server.owner.approve(&pending).await.problem(409, "tuple_mismatch");
    assert_eq!(server.source.calls().len(), 0);
    // Their tokens show why they no longer work, and so do the tokens they answered for. Other tokens stay as they are.
    let tokens = server.owner.get("/api/v1/tokens?limit=100").await.ok();
    let lost = |is: &dyn Fn(&Value) -> bool| {
        let found: Vec<_> = tokens["items"].as_array().unwrap().iter().filter(|token| is(token)).collect();
        assert!(!found.is_empty());
        assert!(found.iter().all(|token| token["lost"] == found[0]["lost"]), "{found:?}");
        found[0]["lost"].clone()
    };
    assert_eq!(lost(&|token| token["user_id"] == id.as_str()), "person_disabled");
    assert_eq!(lost(&|token| token["session_id"] == agent.session.as_str()), "person_disabled");
    assert_eq!(lost(&|token| token["made_by_id"] == admin_id.as_str()), "person_disabled");
    assert_eq!(lost(&|token| token["name"] == "owner"), Value::Null);
    for change in [json!({ "role": "admin" }), json!({ "max_band": "green" })] {
        server.owner.send(Method::PATCH, &format!("/api/v1/users/{id}"), Some(change)).await.problem(404, "not_found");
    }
}

async fn names_are_unique_and_sane(kind: Kind) {
    let server = TestServer::start(kind).await;
    server.owner.post("/api/v1/users", json!({ "name": "mia", "role": "member" })).await.ok();
    server.owner.post("/api/v1/users", json!({ "name": "mia", "role": "admin" })).await.problem(409, "name_taken");
    server.owner.post("/api/v1/spaces", json!({ "name": "main" })).await.problem(409, "name_taken");
    for name in ["", " ", "a\nb", "x\u{202e}y", " padded", &"n".repeat(65)] {
        server.owner.post("/api/v1/users", json!({ "name": name, "role": "member" })).await.problem(400, "invalid_request");
    }
    server.owner.post("/api/v1/users", json!({ "name": "bob", "role": "king" })).await.problem(400, "invalid_request");
    server.owner.post("/api/v1/sessions", json!({ "space": "nowhere" })).await.problem(404, "not_found");
}
