//! Calls answered in Slack: a message with buttons, requests that Slack signed and that count once, and people who agreed to answer there.
//! The Slack of these tests takes what Slack's published description has, and nothing else.

#[path = "../../../notify/src/slack/fake_tests.rs"]
#[allow(dead_code, reason = "the tests of the wire use the rest of it")]
mod fake;

use crate::harness::{Client, Kind, TestServer, on_both_engines, on_postgres, on_sqlite};
use countersign_core::Clock as _;
use fake::{CHANNEL, FakeSlack, SIGNING_SECRET, TOKEN};
use http_door::limits::SLACK_REQUEST_BYTES_MAX;
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;

on_both_engines!(
    a_call_is_approved_and_another_denied_with_a_button_and_the_messages_tell,
    forged_old_and_replayed_requests_answer_nothing,
    who_presses_is_a_person_who_agreed,
);

on_sqlite!(
    an_answer_in_slack_has_the_conflicts_of_every_other_answer,
    an_admin_cannot_answer_as_somebody_else,
    a_disabled_org_is_told_nothing_and_tells_nothing,
    requests_that_make_no_sense_are_refused,
    a_message_that_slack_refuses_keeps_nobody_waiting,
);

on_postgres!(a_request_counts_once_on_all_servers,);

const ROBIN: &str = "U0ROBIN0000";
const ADA: &str = "U0ADA000000";
const VERA: &str = "U0VERA00000";

struct Slacked {
    server: TestServer,
    slack: FakeSlack,
    channel: String,
    robin: Client,
}

/// A server with a channel that names three people, of whom Robin has agreed to answer there.
async fn start(kind: Kind) -> Slacked {
    let slack = FakeSlack::start().await;
    let server = TestServer::start_with_slack(kind, &slack.api_url).await;
    for (name, value) in [("bot", TOKEN), ("sign", SIGNING_SECRET)] {
        server.owner.send(Method::PUT, &format!("/api/v1/secrets/{name}"), Some(json!({ "value": value }))).await.ok();
    }
    let robin = server.owner.person("robin", "approver").await;
    server.owner.person("ada", "approver").await;
    let vera = server.owner.person("vera", "viewer").await;
    let users = json!({ ROBIN: "robin", ADA: "ada", VERA: "vera" });
    let channel = add(&server.owner, "approvals", users, "sign").await;
    agree(&robin, &channel, ROBIN).await;
    agree(&vera, &channel, VERA).await;
    Slacked { server, slack, channel, robin }
}

async fn add(by: &Client, name: &str, users: Value, secret: &str) -> String {
    let settings = json!({ "channel": CHANNEL, "token": "bot", "signing_secret": secret, "users": users });
    let added = by.post("/api/v1/channels", json!({ "name": name, "kind": "slack", "settings": settings })).await.ok();
    added["id"].as_str().unwrap().to_owned()
}

/// Makes the token with which a person agrees to answer in this channel, and throws its text away.
async fn agree(person: &Client, channel: &str, user: &str) {
    let principal = person.get("/api/v1/whoami").await.ok()["principal"].as_str().unwrap().to_owned();
    let id = principal.strip_prefix("user:").unwrap();
    person.post("/api/v1/tokens", json!({ "name": format!("slack {channel} {user}"), "user_id": id })).await.ok();
}

impl Slacked {
    /// The message about the newest call, after it was delivered.
    async fn message(&self) -> BTreeMap<String, String> {
        self.server.courier.deliver_due().await.unwrap();
        self.slack.taken("chat.postMessage").pop().unwrap()
    }

    /// Presses a button as this user, now.
    async fn press(&self, user: &str, button: &Value) -> (u16, Value) {
        let (body, timestamp) = (fake::pressed(user, button), self.seconds(0));
        self.send(&self.channel, &timestamp, &fake::signature(SIGNING_SECRET, &timestamp, &body), &body).await
    }

    /// Presses a button as this user, who is told in Slack why nothing came of it. Slack hears that the request was taken.
    async fn refused(&self, user: &str, button: &Value) -> String {
        let before = self.slack.taken("chat.postEphemeral").len();
        assert_eq!(self.press(user, button).await.0, 200);
        self.whispered(before, user).await
    }

    /// What is whispered to this user after so many other whispers.
    async fn whispered(&self, before: usize, user: &str) -> String {
        for _ in 0..100 {
            if let Some(form) = self.slack.taken("chat.postEphemeral").get(before) {
                assert_eq!((form["user"].as_str(), form["channel"].as_str()), (user, fake::PRESSED_IN), "to them, where they pressed it");
                return form["text"].clone();
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        panic!("{user} was told nothing");
    }

    /// The time of the server, and some seconds.
    fn seconds(&self, later: i64) -> String {
        (self.server.clock.now().as_micros() / 1_000_000 + later).to_string()
    }

    async fn send(&self, channel: &str, timestamp: &str, signature: &str, body: &str) -> (u16, Value) {
        sent(&self.server, channel, timestamp, signature, body.to_owned()).await
    }

    async fn status(&self, id: &str) -> Value {
        self.server.shown(id).await["status"].clone()
    }
}

async fn sent(server: &TestServer, channel: &str, timestamp: &str, signature: &str, body: String) -> (u16, Value) {
    let request = server.owner.http.post(format!("{}/api/v1/channels/{channel}/slack", server.url));
    let request = request.header("content-type", "application/x-www-form-urlencoded").header("x-slack-request-timestamp", timestamp);
    let response = request.header("x-slack-signature", signature).body(body).send().await.unwrap();
    let status = response.status().as_u16();
    (status, serde_json::from_str(&response.text().await.unwrap()).unwrap_or_default())
}

fn code(answer: &(u16, Value)) -> (u16, &str) {
    (answer.0, answer.1["code"].as_str().unwrap_or_default())
}

async fn a_call_is_approved_and_another_denied_with_a_button_and_the_messages_tell(kind: Kind) {
    let slacked = start(kind).await;
    let server = &slacked.server;
    let agent = server.agent().await;
    let id = agent.pending("fake.write", json!({ "text": "<!channel> refund 40 €" })).await;
    let message = slacked.message().await;
    assert!(message["blocks"].contains("refund 40 €") && message["text"].contains("fake.write"), "{message:?}");
    let approved = slacked.press(ROBIN, &fake::button(&message, "Approve once").unwrap()).await;
    assert_eq!((approved.0, slacked.status(&id).await, server.source.effects()), (200, json!("succeeded"), 1), "{approved:?}");
    let robin = slacked.robin.get("/api/v1/whoami").await.ok()["principal"].clone();
    assert_eq!(server.shown(&id).await["answer"]["by"], robin);
    server.courier.deliver_due().await.unwrap();
    let updates = slacked.slack.taken("chat.update");
    let last = updates.last().unwrap();
    assert!(last["blocks"].contains("has ended: succeeded") && last["blocks"].contains("Answered by: robin"), "{updates:?}");
    assert!(updates.iter().all(|update| fake::button(update, "Approve once").is_none() && fake::button(update, "Deny").is_none()));

    let other = agent.pending("fake.write", json!({})).await;
    let message = slacked.message().await;
    assert_eq!(slacked.press(ROBIN, &fake::button(&message, "Deny").unwrap()).await.0, 200);
    assert_eq!((slacked.status(&other).await, server.source.effects()), (json!("denied"), 1));
    server.courier.deliver_due().await.unwrap();
    assert!(slacked.slack.taken("chat.update").last().unwrap()["blocks"].contains("has ended: denied"));
    // A link is opened by the browser; Slack tells us all the same.
    assert_eq!(slacked.press("U0NOBODY000", &fake::button(&message, "Open").unwrap()).await.0, 200);
    let report = server.verify().await;
    assert_eq!(report.answers, 2);
}

async fn forged_old_and_replayed_requests_answer_nothing(kind: Kind) {
    let slacked = start(kind).await;
    let server = &slacked.server;
    let id = server.owner.new_session(json!({ "unattended": true })).await.pending("fake.write", json!({})).await;
    let approve = fake::button(&slacked.message().await, "Approve once").unwrap();
    let (channel, now, soon) = (slacked.channel.as_str(), slacked.seconds(0), slacked.seconds(1));
    let (now, soon) = (now.as_str(), soon.as_str());
    let (body, others) = (fake::pressed(ROBIN, &approve), fake::pressed(VERA, &approve));
    let (body, others) = (body.as_str(), others.as_str());
    let good = fake::signature(SIGNING_SECRET, now, body);
    for (channel, timestamp, signature, body) in [
        (channel, now, fake::signature("another secret", now, body), body),
        (channel, now, good.clone(), others),
        (channel, soon, good.clone(), body),
        (channel, now, String::new(), body),
        (channel, "", good.clone(), body),
        (channel, now, good.replace("v0=", "v1="), body),
        ("chn_00000000000000000000000000", now, good.clone(), body),
        ("approvals", now, good.clone(), body),
    ] {
        let refused = slacked.send(channel, timestamp, &signature, body).await;
        assert_eq!(code(&refused), (403, "slack_signature_invalid"), "{channel} {signature}");
    }
    for later in [-301, 301] {
        let then = slacked.seconds(later);
        let refused = slacked.send(channel, &then, &fake::signature(SIGNING_SECRET, &then, body), body).await;
        assert_eq!(code(&refused), (403, "slack_request_expired"), "{later}");
    }
    assert_eq!((slacked.status(&id).await, server.source.effects()), (json!("pending"), 0));
    // Sent many times at once, it counts once; and so it does until it is too old.
    let sent = futures_util::future::join_all((0..8).map(|_| slacked.send(channel, now, &good, body))).await;
    let replayed = sent.iter().filter(|answer| code(answer) == (409, "slack_request_replayed")).count();
    assert_eq!((sent.iter().filter(|answer| answer.0 == 200).count(), replayed), (1, 7), "{sent:?}");
    assert_eq!((slacked.status(&id).await, server.source.effects()), (json!("succeeded"), 1));
    let upper = good.to_ascii_uppercase().replace("V0=", "v0=");
    assert_eq!(code(&slacked.send(channel, now, &upper, body).await), (409, "slack_request_replayed"), "the same bytes in other letters");
    for (seconds, expected) in [(300, (409, "slack_request_replayed")), (1, (403, "slack_request_expired"))] {
        server.clock.advance_seconds(seconds);
        assert_eq!(code(&slacked.send(channel, now, &good, body).await), expected);
    }
    // A channel that was removed is called by nobody.
    server.owner.send(Method::DELETE, &format!("/api/v1/channels/{channel}"), None).await;
    assert_eq!(code(&slacked.press(ROBIN, &approve).await), (403, "slack_signature_invalid"));
    server.verify().await;
}

async fn who_presses_is_a_person_who_agreed(kind: Kind) {
    let slacked = start(kind).await;
    let server = &slacked.server;
    let id = server.agent().await.pending("fake.write", json!({})).await;
    let approve = fake::button(&slacked.message().await, "Approve once").unwrap();
    // Nobody the channel names; somebody it names who has not agreed; somebody who may not approve.
    for (user, says) in [("U0NOBODY000", "may not answer here"), (ADA, "may not answer here"), (VERA, "you may not answer invocations")] {
        let told = slacked.refused(user, &approve).await;
        assert!(told.contains(says), "{user}: {told}");
    }
    assert_eq!((slacked.status(&id).await, server.source.effects()), (json!("pending"), 0));
    // The token ends, and so does what Robin may do there, until there is another.
    let tokens = server.owner.get("/api/v1/tokens?limit=100").await.ok();
    let name = format!("slack {} {ROBIN}", slacked.channel);
    let token = tokens["items"].as_array().unwrap().iter().find(|token| token["name"] == name.as_str()).unwrap();
    slacked.robin.post(&format!("/api/v1/tokens/{}/revoke", token["id"].as_str().unwrap()), json!({})).await.ok();
    assert!(slacked.refused(ROBIN, &approve).await.contains("may not answer here"));
    agree(&slacked.robin, &slacked.channel, ROBIN).await;
    assert_eq!(slacked.press(ROBIN, &approve).await.0, 200);
    assert_eq!((slacked.status(&id).await, server.source.effects()), (json!("succeeded"), 1));
    server.verify().await;
}

async fn an_answer_in_slack_has_the_conflicts_of_every_other_answer(kind: Kind) {
    let slacked = start(kind).await;
    let server = &slacked.server;
    server.owner.set_mode("fake.destroy", "require_approval").await;
    let agent = server.agent().await;
    let id = agent.pending("fake.write", json!({})).await;
    let message = slacked.message().await;
    let (approve, deny) = (fake::button(&message, "Approve once").unwrap(), fake::button(&message, "Deny").unwrap());
    server.owner.approve(&id).await.ok();
    for button in [&approve, &deny] {
        assert!(slacked.refused(ROBIN, button).await.contains("already approved"));
    }
    agent.pending("fake.write", json!({})).await;
    let late = fake::button(&slacked.message().await, "Approve once").unwrap();
    server.clock.advance_seconds(countersign_core::limits::APPROVAL_INTERACTIVE_SECONDS);
    assert!(slacked.refused(ROBIN, &late).await.contains("has expired"));
    // What was shown is what is approved.
    let edited = agent.pending("fake.write", json!({ "text": "shown" })).await;
    let mut shown = fake::button(&slacked.message().await, "Approve once").unwrap();
    shown["value"] = json!(format!("{edited}:{}", "0".repeat(64)));
    assert!(slacked.refused(ROBIN, &shown).await.contains("not the ones that were shown"));
    shown["value"] = json!(format!("inv_00000000000000000000000000:{}", "0".repeat(64)));
    assert!(slacked.refused(ROBIN, &shown).await.contains("there is no invocation"));
    // An R4 call is approved by its name: there is no button, and one that is made up helps nobody.
    let danger = agent.pending("fake.destroy", json!({})).await;
    let message = slacked.message().await;
    assert!(fake::button(&message, "Approve once").is_none());
    let mut forged = fake::button(&message, "Deny").unwrap();
    forged["action_id"] = approve["action_id"].clone();
    assert!(slacked.refused(ROBIN, &forged).await.contains("approved by name"));
    assert_eq!((slacked.status(&danger).await, server.source.effects()), (json!("pending"), 1));
    server.verify().await;
}

async fn an_admin_cannot_answer_as_somebody_else(kind: Kind) {
    let slacked = start(kind).await;
    let server = &slacked.server;
    server.change_space(json!({ "quorum": { "R2": 2 }, "self_approval": "refused" })).await;
    let mallory = server.owner.person("mallory", "admin").await;
    let id = server.agent().await.pending("fake.write", json!({})).await;
    let approve = fake::button(&slacked.message().await, "Approve once").unwrap();
    assert_eq!(mallory.approve(&id).await.status, 202, "one of two");
    // Mallory makes a channel whose requests only Mallory can sign, and names Robin in it: under Robin's user of Slack and under another.
    let (own, secret) = ("U0MALLORY00", "known to mallory");
    mallory.send(Method::PUT, "/api/v1/secrets/mine", Some(json!({ "value": secret }))).await.ok();
    let channel = add(&mallory, "mine", json!({ own: "robin", ROBIN: "robin" }), "mine").await;
    agree(&mallory, &channel, own).await;
    for (before, user) in [own, ROBIN].into_iter().enumerate() {
        let (body, timestamp) = (fake::pressed(user, &approve), slacked.seconds(0));
        let signature = fake::signature(secret, &timestamp, &body);
        assert_eq!(slacked.send(&channel, &timestamp, &signature, &body).await.0, 200);
        let told = slacked.whispered(before, user).await;
        assert!(told.contains("may not answer here"), "{user}: {told}");
    }
    assert_eq!((slacked.status(&id).await, server.source.effects()), (json!("pending"), 0));
    // Robin's own answer counts.
    assert_eq!(slacked.press(ROBIN, &approve).await.0, 200);
    assert_eq!((slacked.status(&id).await, server.source.effects()), (json!("succeeded"), 1));
    server.verify().await;
}

async fn a_disabled_org_is_told_nothing_and_tells_nothing(kind: Kind) {
    let slacked = start(kind).await;
    let server = &slacked.server;
    let id = server.agent().await.pending("fake.write", json!({})).await;
    let approve = fake::button(&slacked.message().await, "Approve once").unwrap();
    let made = server.owner.post("/api/v1/orgs", json!({ "name": "acme" })).await.ok();
    let redeemed = server.owner.post("/api/v1/invitations/redeem", json!({ "invitation": made["invitation"]["invitation"] })).await.ok();
    let other = server.owner.with_token(redeemed["token"].as_str().unwrap());
    for (name, value) in [("bot", TOKEN), ("sign", SIGNING_SECRET)] {
        other.send(Method::PUT, &format!("/api/v1/secrets/{name}"), Some(json!({ "value": value }))).await.ok();
    }
    let channel = add(&other, "theirs", json!({}), "sign").await;
    let press = async |user: &str| {
        let (body, timestamp) = (fake::pressed(user, &approve), slacked.seconds(0));
        slacked.send(&channel, &timestamp, &fake::signature(SIGNING_SECRET, &timestamp, &body), &body).await
    };
    assert_eq!(press(ROBIN).await.0, 200, "why it counts for nothing is whispered");
    slacked.whispered(0, ROBIN).await;
    server.owner.post(&format!("/api/v1/orgs/{}/disable", made["id"].as_str().unwrap()), json!({})).await.ok();
    for _ in 0..2 {
        assert_eq!(code(&press(ADA).await), (403, "org_disabled"), "and it is not used up");
    }
    assert_eq!((slacked.slack.taken("chat.postEphemeral").len(), slacked.status(&id).await), (1, json!("pending")));
}

async fn requests_that_make_no_sense_are_refused(kind: Kind) {
    let slacked = start(kind).await;
    for (body, expected) in [
        (String::new(), (400, "invalid_request")),
        ("payload=%7B".to_owned(), (400, "invalid_request")),
        ("payload=%7B%22type%22%3A%22view_submission%22%2C%22user%22%3A%7B%22id%22%3A%22U1%22%7D%7D".to_owned(), (400, "invalid_request")),
        ("x".repeat(SLACK_REQUEST_BYTES_MAX + 1), (413, "body_too_large")),
    ] {
        let timestamp = slacked.seconds(0);
        let signature = fake::signature(SIGNING_SECRET, &timestamp, &body);
        assert_eq!(code(&slacked.send(&slacked.channel, &timestamp, &signature, &body).await), expected);
    }
    for (token, users, says) in [
        ("bot", json!({ "robin": "robin" }), "Slack's ids"),
        ("bot", json!({ ROBIN: "robin", ADA: "nobody-here" }), "`nobody-here`"),
        ("sign", json!({}), "`xoxb-`"),
    ] {
        let settings = json!({ "channel": CHANNEL, "token": token, "signing_secret": "sign", "users": users });
        let body = json!({ "name": "wrong", "kind": "slack", "settings": settings });
        let refused = slacked.server.owner.post("/api/v1/channels", body).await;
        refused.problem(400, "invalid_request");
        assert!(refused.body["detail"].as_str().unwrap().contains(says), "{refused:?}");
    }
}

async fn a_message_that_slack_refuses_keeps_nobody_waiting(kind: Kind) {
    let slacked = start(kind).await;
    let server = &slacked.server;
    slacked.slack.refuse(Some((200, "channel_not_found")));
    let id = server.agent().await.pending("fake.write", json!({})).await;
    server.courier.deliver_due().await.unwrap();
    server.owner.approve(&id).await.ok();
    assert_eq!((slacked.status(&id).await, server.source.effects()), (json!("succeeded"), 1));
    let test = format!("/api/v1/channels/{}/test", slacked.channel);
    let tested = server.owner.post(&test, json!({})).await.ok();
    assert_eq!((&tested["delivered"], &tested["problem"]), (&json!(false), &json!("Slack refused it: channel_not_found")));
    slacked.slack.refuse(None);
    assert_eq!(server.owner.post(&test, json!({})).await.ok()["delivered"], true);
    let message = slacked.slack.taken("chat.postMessage").pop().unwrap();
    assert!(message["blocks"].contains("This is a test of the channel") && message["text"].contains("no call waits"), "{message:?}");
    assert!(!message["blocks"].contains("waits for an approval") && fake::button(&message, "Open").is_none(), "{message:?}");
}

async fn a_request_counts_once_on_all_servers(kind: Kind) {
    let slacked = start(kind).await;
    let other = slacked.server.restart().await;
    let id = slacked.server.agent().await.pending("fake.write", json!({})).await;
    let approve = fake::button(&slacked.message().await, "Approve once").unwrap();
    let (body, timestamp) = (fake::pressed(ROBIN, &approve), slacked.seconds(0));
    let signature = fake::signature(SIGNING_SECRET, &timestamp, &body);
    let mut answers = Vec::new();
    for server in [&slacked.server, &other] {
        answers.push(sent(server, &slacked.channel, &timestamp, &signature, body.clone()).await);
    }
    assert_eq!((answers[0].0, code(&answers[1])), (200, (409, "slack_request_replayed")), "{answers:?}");
    assert_eq!((slacked.status(&id).await, slacked.server.source.effects()), (json!("succeeded"), 1));
}
