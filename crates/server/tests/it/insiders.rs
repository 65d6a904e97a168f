//! What people with power cannot do alone: an admin cannot play two people, and whoever has the database cannot approve a call with it.

use crate::automations::{digest, ended, run, waiting};
use crate::browser::Browser;
use crate::harness::{Client, Kind, TestServer, on_both_engines, on_sqlite};
use countersign_core::{Clock as _, Timestamp};
use reqwest::Method;
use serde_json::{Value, json};

on_both_engines!(one_admin_cannot_approve_as_two_people, a_clock_that_jumps_either_way_leaves_an_honest_log);

on_sqlite!(who_may_act_is_in_the_log, an_invitation_works_once_and_in_time);

async fn redeem(by: &Client, invitation: &Value) -> Client {
    let redeemed = by.post("/api/v1/invitations/redeem", json!({ "invitation": invitation["invitation"] })).await.ok();
    by.with_token(redeemed["token"].as_str().unwrap())
}

async fn id_of(server: &TestServer, name: &str) -> String {
    let users = server.owner.get("/api/v1/users").await.ok();
    let user = users["items"].as_array().unwrap().iter().find(|user| user["name"] == name).unwrap();
    user["id"].as_str().unwrap().to_owned()
}

async fn one_admin_cannot_approve_as_two_people(kind: Kind) {
    let server = TestServer::start(kind).await;
    server.change_space(json!({ "quorum": { "R2": 2 }, "self_approval": "refused" })).await;
    let mallory = server.owner.person("mallory", "admin").await;
    let ada = server.owner.person("ada", "admin").await;
    let agent = server.agent().await;
    let id = agent.pending("fake.write", json!({ "text": "x" })).await;
    assert_eq!(mallory.approve(&id).await.status, 202, "one of two");

    // A token that acts as Ada is not handed out, and a new admin could not approve when the call was made.
    let ada_id = id_of(&server, "ada").await;
    mallory.post("/api/v1/tokens", json!({ "name": "steal", "user_id": ada_id })).await.problem(403, "forbidden");
    mallory.person("puppet", "admin").await.approve(&id).await.problem(409, "approver_too_new");
    // Nor could somebody who got the role since.
    let member = server.owner.person("mia", "member").await;
    let later = agent.pending("fake.write", json!({ "text": "later" })).await;
    let mia = id_of(&server, "mia").await;
    server.owner.send(Method::PATCH, &format!("/api/v1/users/{mia}"), Some(json!({ "role": "approver" }))).await.ok();
    member.approve(&later).await.problem(409, "approver_too_new");
    assert_eq!(server.source.effects(), 0);
    // Ada's own token counts, and so does one that she made with it since.
    let hers = ada.post("/api/v1/tokens", json!({ "name": "phone", "user_id": ada_id })).await.ok();
    ada.with_token(hers["token"].as_str().unwrap()).approve(&id).await.ok();
    assert_eq!(server.source.effects(), 1);

    // Mallory redeems an invitation of Ada's. It does not count for what is pending, and Ada finds that her tokens have ended.
    let invitation = mallory.post(&format!("/api/v1/users/{ada_id}/invite"), json!({})).await.ok();
    redeem(&mallory, &invitation).await.approve(&later).await.problem(409, "approver_too_new");
    ada.get("/api/v1/whoami").await.problem(401, "token_revoked");
    assert_eq!(server.source.effects(), 1);
    let report = server.verify().await;
    assert_eq!(report.answers, 2);
}

async fn who_may_act_is_in_the_log(kind: Kind) {
    let server = TestServer::start(kind).await;
    let ada = server.owner.person("ada", "approver").await;
    let id = server.agent().await.pending("fake.write", json!({ "text": "x" })).await;
    ada.post(&format!("/api/v1/invocations/{id}/link"), json!({})).await.ok();
    ada.deny(&id, "no").await.ok();
    let user = id_of(&server, "ada").await;
    let service = server.owner.post("/api/v1/tokens", json!({ "name": "ci", "scopes": ["read"] })).await.ok();
    server.owner.post(&format!("/api/v1/tokens/{}/revoke", service["id"].as_str().unwrap()), json!({})).await.ok();
    server.owner.post(&format!("/api/v1/users/{user}/disable"), json!({})).await.ok();

    let log = server.log().await;
    let owner = format!("user:{}", id_of(&server, "owner").await);
    let told: Vec<_> = log.iter().filter(|(kind, _)| kind == "identity").collect();
    let names: Vec<_> = told.iter().map(|(_, body)| body["change"]["identity"].as_str().unwrap()).collect();
    let expected = [
        "user_created",
        "token_made",
        "user_created",
        "invited",
        "invitation_redeemed",
        "token_made",
        "link_made",
        "token_made",
        "token_revoked",
        "user_disabled",
    ];
    assert_eq!(names, expected);
    for (place, (_, body)) in told.iter().enumerate() {
        let by = match place {
            0 | 1 | 4 => Value::Null,
            6 => json!(format!("user:{user}")),
            _ => json!(owner),
        };
        assert_eq!(body["by"], by, "{body}");
    }
    let (_, answer) = log.iter().find(|(kind, _)| kind == "answer").unwrap();
    assert_eq!((&answer["answer"], &answer["role"], &answer["by"]), (&json!("deny"), &json!("approver"), &json!(format!("user:{user}"))));
    server.verify().await;
}

async fn an_invitation_works_once_and_in_time(kind: Kind) {
    let server = TestServer::start(kind).await;
    let made = server.owner.post("/api/v1/users", json!({ "name": "ada", "role": "approver" })).await.ok();
    let (invitation, redeem) = (made["invitation"]["invitation"].clone(), "/api/v1/invitations/redeem");
    let anonymous = server.owner.with_token(invitation.as_str().unwrap());
    anonymous.get("/api/v1/whoami").await.problem(401, "unauthenticated");
    // A new invitation ends the one before it.
    let again = server.owner.post(&format!("/api/v1/users/{}/invite", made["id"].as_str().unwrap()), json!({})).await.ok();
    anonymous.post(redeem, json!({ "invitation": invitation })).await.problem(401, "token_revoked");
    anonymous.post(redeem, json!({ "invitation": again["invitation"] })).await.ok();
    let used = anonymous.post(redeem, json!({ "invitation": again["invitation"] })).await;
    used.problem(401, "token_revoked");
    assert_eq!(used.body["hint"], "ask an admin for a new invitation");
    anonymous.post(redeem, json!({ "invitation": "cs_invitation_nobody" })).await.problem(401, "unauthenticated");
    let late = server.owner.post("/api/v1/users", json!({ "name": "eve", "role": "member" })).await.ok();
    server.clock.advance_seconds(8 * 24 * 60 * 60);
    anonymous.post(redeem, json!({ "invitation": late["invitation"]["invitation"] })).await.problem(401, "token_expired");
    server.verify().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_that_only_the_database_says_runs_nothing() {
    let server = TestServer::start(Kind::Sqlite).await;
    let id = server.agent().await.pending("fake.write", json!({ "text": "x" })).await;
    let owner = format!("user:{}", id_of(&server, "owner").await);
    let answer = format!("json_object('by', '{owner}', 'at', json_extract(body, '$.created_at'), 'reason', NULL, 'beyond', 'once')");
    server.home.tamper(&format!(
        "UPDATE invocations SET status = 'approved',
         body = json_set(body, '$.status', 'approved', '$.approvals', json_array({answer}), '$.answer', {answer}) WHERE id = '{id}'"
    ));
    server.clock.advance_seconds(60);
    let restarted = server.restart().await;
    restarted.pipeline.recover().await.unwrap();
    let ended = restarted.owner.get(&format!("/api/v1/invocations/{id}?wait=20s")).await.ok()["invocation"].clone();
    assert_eq!((&ended["status"], &ended["error"]["code"]), (&json!("denied"), &json!("approval_unproven")), "{ended}");
    assert_eq!(restarted.source.effects(), 0);
    restarted.verify().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_changed_in_the_database_shows_against_the_log() {
    let server = TestServer::start(Kind::Sqlite).await;
    server.owner.set_mode("fake.write", "deny").await;
    server.owner.switch("on", "action:fake.read").await.ok();
    server.owner.person("mia", "member").await;
    server.owner.send(Method::PUT, "/api/v1/secrets/token", Some(json!({ "value": "x" }))).await.ok();
    let integrity = async || server.owner.get("/api/v1/receipts/integrity").await.ok();
    let whole = integrity().await;
    assert_eq!((&whole["ok"], &whole["differences"]), (&json!(true), &json!([])), "{whole}");
    for (change, shows) in [
        ("DELETE FROM modes", "mode `org fake.write` is missing"),
        ("DELETE FROM switches", "kill switch `action:fake.read` is missing"),
        ("UPDATE users SET role = 'owner' WHERE name = 'mia'", "is `owner black` in the database; the log says `member black`"),
        ("UPDATE entries SET kind = 'rule' WHERE kind = 'mode'", "is filed as `rule` and is `mode`"),
        ("UPDATE entries SET leaf = zeroblob(32) WHERE seq = 0", "the stored hash of entry 0 is not its hash"),
        ("UPDATE secrets SET version = 7", "is `token 7` in the database; the log says `token 1`"),
        ("DELETE FROM secrets", "is missing in the database; the log says `token 1`"),
        ("INSERT INTO canaries VALUES ((SELECT org_id FROM orgs), 'can_x', 't', 'b', 1)", "canary token `can_x` is in the database"),
        ("UPDATE entries SET leaf = 'x' WHERE seq = 1", "entry of the log: a row in the database cannot be read"),
    ] {
        server.home.tamper(change);
        let found = integrity().await;
        assert!(found["differences"].to_string().contains(shows), "{change}: {found}");
        assert_eq!(found["ok"], false);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_gets_no_other_bearer_in_the_database() {
    let server = TestServer::start(Kind::Sqlite).await;
    server.owner.person("mallory", "member").await;
    let id = server.agent().await.pending("fake.write", json!({ "text": "x" })).await;
    let link = server.owner.post(&format!("/api/v1/invocations/{id}/link"), json!({})).await.ok();
    let link = link["path"].as_str().unwrap().to_owned();
    server.home.tamper("CREATE TABLE kept AS SELECT t.*, u.name AS bearer FROM tokens t LEFT JOIN users u ON u.id = t.user_id");
    let of = |bearer: &str, column: &str| format!("(SELECT {column} FROM kept WHERE bearer = '{bearer}' AND kind = 'user')");
    let (owners, mallorys) = (of("owner", "id"), of("mallory", "id"));
    for change in [
        // The two tokens change bearers: in one column each.
        format!("hash = {} WHERE id = {mallorys}", of("owner", "hash")),
        format!("user_id = {} WHERE id = {owners}", of("mallory", "user_id")),
        format!("kind = 'service', user_id = NULL, scopes = 'read' WHERE id = {owners}"),
        format!("from_seq = 0 WHERE id = {owners}"),
        format!("expires_at = 9000000000000000 WHERE id = {owners}"),
    ] {
        server.home.tamper(&format!("UPDATE tokens SET hash = zeroblob(32) WHERE id = {owners} AND '{}' = 'hash'", &change[..4]));
        server.home.tamper(&format!("UPDATE tokens SET {change}"));
        let restarted = server.restart().await;
        restarted.owner.get("/api/v1/whoami").await.problem(500, "internal");
        assert_ne!(crate::links::press(&restarted, &link, "answer=approve").await.0, 200, "{change}");
        let columns = "kind, user_id, scopes, hash, expires_at, from_seq";
        let kept = format!("(SELECT {columns} FROM kept WHERE kept.id = tokens.id)");
        server.home.tamper(&format!(
            "UPDATE tokens SET hash = CAST(id AS BLOB); UPDATE tokens SET ({columns}) = {kept} WHERE id IN (SELECT id FROM kept)"
        ));
        server.restart().await.owner.get("/api/v1/whoami").await.ok();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_login_gets_no_other_bearer_in_the_database() {
    let server = TestServer::start(Kind::Sqlite).await;
    let mallory = server.owner.person("mallory", "member").await;
    let id = server.agent().await.pending("fake.write", json!({ "text": "x" })).await;
    let (owners, mallorys) = (Browser::of(&server), Browser::of(&server));
    owners.log_in(&id, &server.owner.token).await;
    assert_eq!(mallorys.log_in(&id, &mallory.token).await.status, 200);
    let owners_token = "(SELECT t.id FROM tokens t JOIN users u ON u.id = t.user_id WHERE u.name = 'owner' AND t.kind = 'user')";
    server.home.tamper(&format!("UPDATE logins SET token_id = {owners_token}"));
    let page = format!("/inbox/{id}");
    assert_eq!((mallorys.get(&page).await.status, owners.get(&page).await.status), (500, 200), "only the owner's row is as it was written");
    server.home.tamper("UPDATE logins SET created_at = created_at + 1");
    assert_eq!(owners.get(&page).await.status, 500, "nor does a login last longer");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_changed_in_one_column_shows_against_the_log() {
    let server = TestServer::start(Kind::Sqlite).await;
    server.owner.post("/api/v1/spaces", json!({ "name": "lab" })).await.ok();
    server.owner.post("/api/v1/consents", json!({ "purpose": "action:fake.write" })).await.ok();
    server.owner.person("mia", "member").await;
    let price = json!({ "usd": "0.002", "per": "result.units", "at_most": "7" });
    server.owner.send(reqwest::Method::PUT, "/api/v1/prices/fake.write", Some(price)).await.ok();
    server.owner.grant(json!({ "covers": "fake.write", "scope": "org", "expires_in": "1h" })).await;
    server.agent().await.invoke("fake.write", json!({ "text": "x" })).await.ok();
    let differences = async || server.owner.get("/api/v1/receipts/integrity").await.ok()["differences"].clone();
    server.home.tamper("CREATE TABLE kept AS SELECT * FROM grants");
    let restored =
        "UPDATE grants SET (expires_at, condition, givers, space_id) = (SELECT expires_at, condition, givers, space_id FROM kept)";
    for (change, undone, shows) in [
        ("UPDATE grants SET expires_at = expires_at + 1", restored, "grant `"),
        ("UPDATE grants SET condition = '{}'", restored, "grant `"),
        ("UPDATE grants SET givers = '[]'", restored, "grant `"),
        ("UPDATE grants SET space_id = (SELECT id FROM spaces)", restored, "grant `"),
        (
            "UPDATE grants SET sum_of = '/count', sum_max = 1, sum_seconds = 1",
            "UPDATE grants SET sum_of = NULL, sum_max = NULL, sum_seconds = NULL",
            "grant `",
        ),
        ("UPDATE prices SET usd = 1", "UPDATE prices SET usd = 2000", "price `"),
        ("UPDATE prices SET at_most = 1", "UPDATE prices SET at_most = 7000000", "price `"),
        ("UPDATE prices SET field = NULL", "UPDATE prices SET field = 'result.units'", "price `"),
        ("UPDATE spaces SET consent = 'waived' WHERE name = 'lab'", "UPDATE spaces SET consent = 'asked'", "space `"),
        ("UPDATE spaces SET consent = 'before' WHERE name = 'main'", "UPDATE spaces SET consent = 'asked'", "space `"),
        ("UPDATE spaces SET observes = 1 WHERE name = 'lab'", "UPDATE spaces SET observes = 0", "space `"),
        (
            "UPDATE tokens SET expires_at = expires_at + 1 WHERE kind = 'agent'",
            "UPDATE tokens SET expires_at = expires_at - 1 WHERE kind = 'agent'",
            "token `",
        ),
        ("UPDATE tokens SET revoked_at = 1 WHERE kind = 'agent'", "UPDATE tokens SET revoked_at = NULL WHERE kind = 'agent'", "token `"),
        ("UPDATE users SET disabled_at = 1 WHERE name = 'mia'", "UPDATE users SET disabled_at = NULL", "user `"),
        ("UPDATE users SET given_role = 'owner' WHERE name = 'mia'", "UPDATE users SET given_role = role", "role given to user `"),
        ("UPDATE consents SET expires_at = 1", "UPDATE consents SET expires_at = NULL", "consent `"),
        ("UPDATE consents SET space_id = (SELECT id FROM spaces WHERE name = 'lab')", "UPDATE consents SET space_id = NULL", "consent `"),
        (
            "UPDATE sessions SET owner_id = (SELECT id FROM users WHERE name = 'mia')",
            "UPDATE sessions SET owner_id = (SELECT id FROM users WHERE name = 'owner')",
            "session `",
        ),
        (
            "UPDATE sessions SET space_id = (SELECT id FROM spaces WHERE name = 'lab')",
            "UPDATE sessions SET space_id = (SELECT id FROM spaces WHERE name = 'main')",
            "space of session `",
        ),
        ("UPDATE spaces SET members = '[]' WHERE name = 'lab'", "UPDATE spaces SET members = NULL", "space `"),
        // Rows that cannot be read.
        ("UPDATE spaces SET band = 'pink' WHERE name = 'lab'", "UPDATE spaces SET band = 'green' WHERE name = 'lab'", "space: a row "),
        ("UPDATE grants SET state = 'odd'", "UPDATE grants SET state = (SELECT state FROM kept)", "grant: a row "),
        ("UPDATE grants SET used = 0.5", "UPDATE grants SET used = (SELECT used FROM kept)", "grant: a row "),
        (
            "UPDATE entries SET invocation_id = 'inv_x' WHERE kind = 'intent'",
            "UPDATE entries SET invocation_id = (SELECT id FROM invocations) WHERE kind = 'intent'",
            "entry ",
        ),
    ] {
        assert_eq!(differences().await, json!([]), "before {change}");
        server.home.tamper(change);
        let found = differences().await;
        assert!(found[0].as_str().is_some_and(|first| first.starts_with(shows)), "{change}: {found}");
        server.home.tamper(undone);
    }
}

async fn a_clock_that_jumps_either_way_leaves_an_honest_log(kind: Kind) {
    let server = TestServer::start(kind).await;
    let start = server.clock.now();
    let agent = server.agent().await;
    let write = async || agent.invoke("fake.write", json!({ "text": "x" })).await;
    server.owner.grant(json!({ "covers": "fake.write", "scope": "org", "expires_in": "1h" })).await;
    write().await.ok();
    // For one entry, and for a call that stays pending, the clock is two hours ahead.
    server.clock.set(start.plus_seconds(2 * 60 * 60));
    server.owner.set_mode("fake.read", "allow").await;
    let pending = agent.pending("fake.send", json!({ "text": "y" })).await;
    server.clock.set(start.plus_seconds(60));
    write().await.ok();
    server.owner.set_mode("fake.send", "deny").await;
    server.owner.deny(&pending, "no").await.problem(409, "policy_mismatch");
    server.verify().await;
    // Then it is two hours behind.
    server.clock.set(start.plus_seconds(120));
    write().await.ok();
    server.clock.set(Timestamp::from_micros(start.as_micros() - 2 * 60 * 60 * 1_000_000));
    write().await.ok();
    server.owner.set_mode("fake.send", "require_approval").await;
    let behind = agent.pending("fake.send", json!({ "text": "z" })).await;
    server.clock.advance_seconds(60);
    server.owner.approve(&behind).await.ok();
    server.clock.set(start.plus_seconds(180));
    write().await.ok();
    server.verify().await;
}

/// Sets a call to `approved` in the database, with these people's approvals, as SQL expressions.
fn approve_in_database(server: &TestServer, id: &str, approvals: &str, answer: &str) {
    server.home.tamper(&format!(
        "UPDATE invocations SET status = 'approved',
         body = json_set(body, '$.status', 'approved', '$.approvals', {approvals}, '$.answer', {answer}) WHERE id = '{id}'"
    ));
}

async fn restarted(server: &TestServer) -> TestServer {
    server.clock.advance_seconds(60);
    let restarted = server.restart().await;
    // What cannot be recovered is logged; the server starts all the same.
    let _logged = restarted.pipeline.recover().await;
    restarted.pipeline.finish().await;
    restarted
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_answer_counts_for_one_person() {
    let server = TestServer::start(Kind::Sqlite).await;
    server.change_space(json!({ "quorum": { "R2": 2 } })).await;
    let id = server.agent().await.pending("fake.write", json!({ "text": "x" })).await;
    assert_eq!(server.owner.approve(&id).await.status, 202);
    let first = "json_extract(body, '$.approvals[0]')";
    approve_in_database(&server, &id, &format!("json_array(json({first}), json({first}))"), &format!("json({first})"));
    let restarted = restarted(&server).await;
    let ended = restarted.shown(&id).await;
    assert_eq!((&ended["status"], &ended["error"]["code"]), (&json!("denied"), &json!("approval_unproven")), "{ended}");
    assert_eq!(restarted.source.effects(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_is_used_once_whatever_the_database_says() {
    let server = TestServer::start(Kind::Sqlite).await;
    let id = server.agent().await.pending("fake.write", json!({ "text": "x" })).await;
    server.home.tamper("CREATE TABLE kept AS SELECT * FROM invocations");
    server.owner.approve(&id).await.ok();
    assert_eq!(server.source.effects(), 1);
    let owner = format!("user:{}", id_of(&server, "owner").await);
    let answer = format!("json_object('by', '{owner}', 'at', json_extract(body, '$.created_at'), 'reason', NULL, 'beyond', 'once')");
    server.home.tamper("DELETE FROM attempts; DELETE FROM invocations; INSERT INTO invocations SELECT * FROM kept");
    approve_in_database(&server, &id, &format!("json_array({answer})"), &answer);
    assert_eq!(restarted(&server).await.source.effects(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_held_to_the_log_whatever_the_database_lets_its_author_approve() {
    let server = TestServer::start(Kind::Sqlite).await;
    let _working = server.work();
    let person = async |name: &str| server.owner.person(name, "approver").await;
    let (ann, bob, eve) = (person("ann").await, person("bob").await, person("eve").await);
    let space = server.owner.post("/api/v1/spaces", json!({ "name": "payroll" })).await.ok()["id"].as_str().unwrap().to_owned();
    let space = format!("/api/v1/spaces/{space}");
    for name in ["ann", "bob", "eve"] {
        server.owner.post(&format!("{space}/members"), json!({ "user_id": id_of(&server, name).await })).await.ok();
    }
    server.owner.send(Method::PATCH, &space, Some(json!({ "self_approval": "refused" }))).await.ok();
    let saved = ann.post("/api/v1/automations", json!({ "space": "payroll", "definition": digest() })).await.ok();
    let automation = saved["automation"]["id"].as_str().unwrap();
    // Bob asks for what Ann saved, so Eve answers.
    let asked = async || {
        let run = run(&bob, automation, json!({})).await;
        let call = waiting(&bob, &run).await["invocation_id"].as_str().unwrap().to_owned();
        (run, call)
    };
    let (run, call) = asked().await;
    for by in [&ann, &bob] {
        by.approve(&call).await.problem(403, "self_approval");
    }
    eve.approve(&call).await.ok();
    assert_eq!(ended(&bob, &run).await["status"], "succeeded");
    server.verify().await;
    let (_, intent) = server.log().await.into_iter().rfind(|(kind, _)| kind == "intent").unwrap();
    let (owner, asked_by) = (id_of(&server, "ann").await, id_of(&server, "bob").await);
    assert_eq!((&intent["owner"], &intent["asked_by"]), (&json!(owner), &json!(asked_by)), "{intent:#}");

    // A new space has the server read all of them anew.
    server.home.tamper("UPDATE spaces SET self_approval = 'allowed' WHERE name = 'payroll'");
    server.owner.post("/api/v1/spaces", json!({ "name": "lab" })).await.ok();
    let (run, call) = asked().await;
    ann.approve(&call).await.ok();
    assert_eq!(ended(&bob, &run).await["status"], "succeeded");
    let found = server.report().await.first_bad.unwrap();
    assert_eq!(found.invocation_id, Some(call), "{found:?}");
    assert!(found.reason.contains("self-approval"), "{found:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_says_it_runs_makes_no_effect_without_its_intent() {
    let server = TestServer::start(Kind::Sqlite).await;
    let id = server.agent().await.pending("fake.write", json!({ "text": "x" })).await;
    for purpose in ["effect", "rollback"] {
        server.home.tamper(&format!(
            "UPDATE invocations SET status = 'running', body = json_set(body, '$.status', 'running', '$.attempts', 1, '$.purpose', '{purpose}',
             '$.evidence', json('{{}}'), '$.started_at', json_extract(body, '$.created_at'),
             '$.announced', json_object('policy_slice', json_extract(body, '$.digests.raw'), 'profile', 'in_process')) WHERE id = '{id}'"
        ));
        let restarted = restarted(&server).await;
        assert_eq!((restarted.source.effects(), restarted.source.reverts().len()), (0, 0), "{purpose}");
        assert_eq!(restarted.shown(&id).await["status"], "in_doubt", "{purpose}");
    }
}
