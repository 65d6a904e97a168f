//! Mail through a real mail server: a person is asked by mail and answers with its link; and `email.send`, a call like any other.

use crate::browser::Browser;
use crate::harness::{Kind, TestServer, on_both_engines, on_sqlite};
use crate::links::press;
use serde_json::{Value, json};
use testkit::mail;

on_both_engines!(a_mail_asks_its_link_answers_and_a_mail_tells_how_it_ended);

on_sqlite!(
    a_link_in_a_mail_does_not_stand_on_an_agreement_for_slack,
    whoever_has_no_link_of_their_own_is_sent_to_the_page_with_a_login,
    a_mail_is_sent_after_an_approval_and_not_without_one,
    an_approval_of_a_mail_is_for_the_sender_that_it_was_asked_for,
    a_mail_that_broke_off_is_in_doubt,
    a_channel_names_a_server_that_the_operator_allows,
    an_org_sends_mail_through_its_own_connection_and_the_operators_server_where_it_has_none,
    what_is_no_mail_connection_is_refused,
);

/// An address that no other test uses, also not on the other database.
pub(crate) fn address(kind: Kind, name: &str) -> String {
    let engine = match kind {
        Kind::Sqlite => "sqlite",
        Kind::Postgres => "postgres",
    };
    format!("{name}-{}@{engine}.test", std::process::id())
}

fn channel(to: &[&str]) -> Value {
    let settings = json!({ "to": to, "from": "countersign@example.com", "server": mail::plain() });
    json!({ "name": "mail", "kind": "email", "settings": settings })
}

/// Delivers until this many mails have arrived: on a busy machine an attempt may take longer than it may here.
async fn mails(server: &TestServer, address: &str, count: usize) -> Vec<mail::Taken> {
    for _ in 0..20 {
        server.courier.deliver_due().await.unwrap();
        let mails = mail::to(address);
        if mails.len() >= count {
            return mails;
        }
        server.clock.advance_seconds(1);
    }
    panic!("{count} mails to {address} did not arrive");
}

async fn a_mail_asks_its_link_answers_and_a_mail_tells_how_it_ended(kind: Kind) {
    let server = TestServer::start_mailing(kind).await;
    let robin = address(kind, "robin");
    server.owner.person(&robin, "approver").await;
    let channel = server.owner.post("/api/v1/channels", channel(&[&robin])).await.ok();
    let id = server.agent().await.pending("fake.write", json!({ "text": "refund" })).await;
    let asked = mails(&server, &robin, 1).await.remove(0);
    assert!(asked.text.contains("for owner") && !asked.text.contains("usr_"), "{}", asked.text);
    assert!(asked.text.contains("fake.write waits for an approval") && asked.text.contains("refund"), "{}", asked.text);
    let log = server.log().await;
    let (_, made) = log.iter().find(|(_, body)| body["change"]["identity"] == "link_made").unwrap();
    assert_eq!((&made["by"], &made["change"]["channel"]), (&Value::Null, &channel["id"]), "the server made it, for the channel");
    let link = asked.text.split_whitespace().find(|word| word.starts_with(&format!("{}/answer/", server.url))).unwrap();
    let (status, page) = press(&server, link.trim_start_matches(&server.url), "answer=approve").await;
    assert_eq!((status, server.source.effects()), (200, 1), "{page}");
    assert_eq!(server.shown(&id).await["status"], "succeeded");
    let ended = mails(&server, &robin, 2).await.remove(1);
    assert!(
        ended.text.contains("has ended: succeeded") && ended.text.contains(&format!("In-Reply-To: <{id}@example.com>")),
        "{}",
        ended.text
    );
    server.verify().await;
}

async fn a_link_in_a_mail_does_not_stand_on_an_agreement_for_slack(kind: Kind) {
    let server = TestServer::start_mailing(kind).await;
    let name = address(kind, "agreed");
    let robin = server.owner.person(&name, "approver").await;
    let user = robin.get("/api/v1/whoami").await.ok()["principal"].as_str().unwrap().trim_start_matches("user:").to_owned();
    server.clock.advance_seconds(1);
    let agreed = json!({ "name": "slack chn_00000000000000000000000000 U0ROBIN0000", "user_id": user });
    let agreed = robin.post("/api/v1/tokens", agreed).await.ok()["id"].as_str().unwrap().to_owned();
    server.owner.post("/api/v1/channels", channel(&[&name])).await.ok();
    let id = server.agent().await.pending("fake.write", json!({})).await;
    let asked = mails(&server, &name, 1).await.remove(0);
    // Whoever ends what was agreed for Slack does not end what was sent by mail.
    robin.post(&format!("/api/v1/tokens/{agreed}/revoke"), json!({})).await.ok();
    let link = asked.text.split_whitespace().find(|word| word.starts_with(&format!("{}/answer/", server.url))).unwrap();
    let (status, page) = press(&server, link.trim_start_matches(&server.url), "answer=deny").await;
    assert_eq!((status, &server.shown(&id).await["status"]), (200, &json!("denied")), "{page}");
    let log = server.log().await;
    let (_, answer) = log.iter().find(|(_, body)| body["answer"] == "deny").unwrap();
    assert_ne!(answer["token"], json!(agreed));
    server.verify().await;
}

async fn whoever_has_no_link_of_their_own_is_sent_to_the_page_with_a_login(kind: Kind) {
    let server = TestServer::start_mailing(kind).await;
    let (list, robin, vera) = (address(kind, "everybody"), address(kind, "linked"), address(kind, "viewer"));
    server.owner.person(&robin, "approver").await;
    server.owner.person(&vera, "viewer").await;
    let added = server.owner.post("/api/v1/channels", channel(&[&list, &robin, &vera])).await.ok();
    let shown = server.owner.get("/api/v1/channels/mail").await.ok();
    for warnings in [&added["warnings"], &shown["warnings"]] {
        let warned = warnings.to_string();
        assert!(warned.contains(&format!("{list}, {vera};")) && !warned.contains(&robin), "who gets no link is named: {warned}");
    }
    let id = server.agent().await.pending("fake.write", json!({})).await;
    let asked = mails(&server, &list, 1).await.remove(0);
    assert!(asked.text.contains(&format!("{}/inbox/{id}", server.url)) && !asked.text.contains("/answer/"), "{}", asked.text);
}

async fn a_mail_is_sent_after_an_approval_and_not_without_one(kind: Kind) {
    let server = TestServer::start_mailing(kind).await;
    let agent = server.agent().await;
    let (to, never) = (address(kind, "sent"), address(kind, "never"));
    let params = |to: &str| json!({ "to": [to], "subject": "Report", "text": "It is ready." });
    let (id, other) = (agent.pending("email.send", params(&to)).await, agent.pending("email.send", params(&never)).await);
    assert!(mail::to(&to).is_empty());
    server.owner.approve(&id).await.ok();
    server.owner.deny(&other, "no").await.ok();
    let taken = mail::to(&to);
    assert!(taken.len() == 1 && taken[0].text.contains("It is ready.") && taken[0].text.contains(&id), "{taken:?}");
    assert!(mail::to(&never).is_empty());
    // What could begin another header, or is no address, is refused before anybody is asked.
    for wrong in [
        json!({ "to": [to], "subject": "a\r\nBcc: eve@example.com", "text": "b" }),
        json!({ "to": ["robin@example.com\r\nBcc: eve@example.com"], "subject": "a", "text": "b" }),
        json!({ "to": [], "subject": "a", "text": "b" }),
    ] {
        let refused = agent.invoke("email.send", wrong.clone()).await;
        assert_eq!((refused.status, &refused.body["code"]), (422, &json!("invalid_params")), "{wrong}: {refused:?}");
    }
    server.verify().await;
}

async fn an_approval_of_a_mail_is_for_the_sender_that_it_was_asked_for(kind: Kind) {
    let server = TestServer::start_mailing(kind).await;
    let (owner, agent, to) = (&server.owner, server.agent().await, address(kind, "bound"));
    let pending = async |subject: &str| agent.pending("email.send", json!({ "to": [to], "subject": subject, "text": "b" })).await;
    // Through the operator's server, and not through a connection that comes later.
    let operators = pending("a").await;
    let team = owner.post("/api/v1/connections", connection("team", &json!({}))).await.ok();
    owner.approve(&operators).await.problem(409, "tuple_mismatch");
    // Through that connection, and not through one that goes before it.
    let through_team = pending("b").await;
    assert_eq!(server.shown(&through_team).await["connection_id"], team["id"]);
    let page = Browser::of(&server).log_in(&through_team, &owner.token).await.text;
    assert!(page.contains("from team@example.com"), "{page}");
    let shop = owner.post("/api/v1/connections", connection("shop", &json!({ "spaces": ["main"] }))).await.ok();
    owner.approve(&through_team).await.problem(409, "tuple_mismatch");
    assert!(mail::to(&to).is_empty());
    let through_shop = pending("c").await;
    owner.approve(&through_shop).await.ok();
    assert_eq!(mail::to(&to)[0].from, "shop@example.com");
    assert_eq!(server.receipt_of(&through_shop).await["connection_id"], shop["id"]);
    server.verify().await;
}

async fn a_mail_that_broke_off_is_in_doubt(kind: Kind) {
    let server = TestServer::start_mailing(kind).await;
    let agent = server.agent().await;
    let params = |to: &str| json!({ "to": [to], "subject": "a", "text": "b" });
    let id = agent.pending("email.send", params("gone@broken.test")).await;
    server.owner.approve(&id).await.problem(409, "in_doubt");
    let id = agent.pending("email.send", params("unknown@broken.test")).await;
    server.owner.approve(&id).await.problem(422, "action_failed");
    assert_eq!(server.shown(&id).await["error"]["code"], "mail_refused");
    server.verify().await;
}

async fn a_channel_names_a_server_that_the_operator_allows(kind: Kind) {
    let server = TestServer::start(kind).await;
    let refused = server.owner.post("/api/v1/channels", channel(&["robin@example.com"])).await;
    refused.problem(400, "invalid_request");
    assert!(refused.body["detail"].as_str().unwrap().contains("`email.allowed_servers`"), "{refused:?}");
}

fn connection(name: &str, changes: &Value) -> Value {
    let mut body = json!({ "name": name, "kind": "smtp", "url": mail::secured(), "from": format!("{name}@example.com"),
        "account": mail::LOGIN.0, "value": mail::LOGIN.1 });
    for (field, value) in changes.as_object().unwrap() {
        body[field] = value.clone();
    }
    body.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    body
}

async fn an_org_sends_mail_through_its_own_connection_and_the_operators_server_where_it_has_none(kind: Kind) {
    let server = TestServer::start_mailing(kind).await;
    let (owner, agent) = (&server.owner, server.agent().await);
    let send = async |to: &str| {
        let id = agent.pending("email.send", json!({ "to": [to], "subject": "a", "text": "b" })).await;
        owner.approve(&id).await.ok();
        (mail::to(to).remove(0), server.shown(&id).await["result"]["from"].clone())
    };
    let (operators, told) = send(&address(kind, "operators")).await;
    assert_eq!((operators.from.as_str(), operators.with_login, told), ("countersign@example.com", false, json!("countersign@example.com")));

    let made = owner.post("/api/v1/connections", connection("team", &json!({}))).await.ok();
    assert_eq!((&made["from"], &made["state"], made.get("value")), (&json!("team@example.com"), &json!("ready"), None));
    let tested = owner.post("/api/v1/connections/team/test", json!({})).await.ok();
    assert_eq!(tested, json!({ "status": 250, "status_without": null, "is_let_in": true }));
    let (own, told) = send(&address(kind, "own")).await;
    assert_eq!((own.from.as_str(), own.with_login, own.with_tls, told), ("team@example.com", true, true, json!("team@example.com")));

    // A channel that names no server sends in the same way.
    let robin = address(kind, "told");
    owner.post("/api/v1/channels", json!({ "name": "mail", "kind": "email", "settings": { "to": [robin] } })).await.ok();
    agent.pending("fake.write", json!({})).await;
    assert_eq!(mails(&server, &robin, 1).await[0].from, "team@example.com");

    // One for the space goes before one for all; with two for the same nothing is sent.
    owner.post("/api/v1/connections", connection("shop", &json!({ "spaces": ["main"] }))).await.ok();
    assert_eq!(send(&address(kind, "shop")).await.0.from, "shop@example.com");
    owner.post("/api/v1/connections", connection("other", &json!({ "spaces": ["main"] }))).await.ok();
    let never = address(kind, "ambiguous");
    let id = agent.pending("email.send", json!({ "to": [never], "subject": "a", "text": "b" })).await;
    owner.approve(&id).await.problem(403, "connection_not_allowed");
    assert!(mail::to(&never).is_empty());
    server.verify().await;
}

async fn what_is_no_mail_connection_is_refused(kind: Kind) {
    let server = TestServer::start_mailing(kind).await;
    let owner = &server.owner;
    for (changes, status, code) in [
        (json!({ "from": null }), 400, "invalid_request"),
        (json!({ "from": "Team <team@example.com>" }), 400, "invalid_request"),
        (json!({ "from": "team@example.com\r\nBcc: eve@example.com" }), 400, "invalid_request"),
        (json!({ "account": null }), 400, "invalid_request"),
        (json!({ "account": "" }), 400, "invalid_request"),
        (json!({ "value": null }), 400, "invalid_request"),
        (json!({ "value": "a\u{0}b" }), 400, "invalid_request"),
        (json!({ "url": mail::plain() }), 400, "invalid_request"),
        (json!({ "kind": "basic" }), 400, "invalid_request"),
        (json!({ "url": "https://mail.example.com" }), 422, "url_not_allowed"),
        (json!({ "url": "smtps://elsewhere.example.com" }), 403, "host_not_allowed"),
    ] {
        owner.post("/api/v1/connections", connection("team", &changes)).await.problem(status, code);
    }
    owner.post("/api/v1/connections", connection("team", &json!({ "value": "wrong" }))).await.ok();
    let tested = owner.post("/api/v1/connections/team/test", json!({})).await.ok();
    assert_eq!((&tested["status"], &tested["is_let_in"]), (&json!(535), &json!(false)));
    owner.post("/api/v1/connections/team/login", json!({})).await.problem(400, "invalid_request");
    // A relay that asks nobody who they are.
    let open = connection("relay", &json!({ "url": mail::plain(), "account": null, "value": null }));
    owner.post("/api/v1/connections", open).await.ok();
    assert_eq!(owner.post("/api/v1/connections/relay/test", json!({})).await.ok()["is_let_in"], true);
}
