//! Channels: people are told of calls that wait, by signed webhooks here. No call waits for a channel and none fails with it, whatever the
//! other side does; what was given up stays until somebody asks for it once more.

use crate::harness::{Agent, Client, Kind, TestServer, on_both_engines, on_postgres, on_sqlite};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::routing::post;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use countersign_core::source::Error;
use hmac::{Hmac, KeyInit, Mac};
use notify::limits::{DELIVERIES_AT_ONCE, DELIVERY_GIVE_UP_SECONDS, DELIVERY_RETRY_MS_MAX};
use parking_lot::Mutex;
use reqwest::Method;
use serde_json::{Value, json};
use sha2::Sha256;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

on_both_engines!(
    a_person_is_told_of_a_call_that_waits_and_of_how_it_ended,
    a_channel_that_hangs_fails_or_is_gone_keeps_nobody_waiting,
    a_channel_is_told_of_its_own_calls_and_in_its_turn,
    a_call_in_doubt_needs_somebody,
    what_happens_in_a_closed_space_is_for_those_it_exists_for,
);

on_sqlite!(
    what_is_no_channel_is_refused,
    only_who_manages_policy_changes_channels,
    a_test_message_says_what_became_of_it,
    one_server_has_few_deliveries_of_a_channel_under_way,
    who_wants_no_more_messages_gets_none_until_somebody_asks,
    who_says_when_to_come_back_is_left_alone_until_then,
    a_dead_letter_that_was_dropped_is_delivered_no_more,
    a_call_that_was_denied_at_once_is_told_to_nobody,
);

on_postgres!(two_servers_deliver_each_notice_once,);

/// The example key of the specification.
const KEY: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Somebody who is told.
#[derive(Clone)]
struct Receiver {
    url: String,
    memory: Arc<Mutex<Memory>>,
    serving: tokio::task::AbortHandle,
}

#[derive(Default)]
struct Memory {
    heard: Vec<(HeaderMap, String)>,
    answers: Option<StatusCode>,
    retry_after: Option<&'static str>,
    takes: Duration,
    now: u32,
    most_at_once: u32,
}

impl Receiver {
    async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let memory: Arc<Mutex<Memory>> = Arc::default();
        let router = Router::new().route("/hook", post(hear)).with_state(Arc::clone(&memory));
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() }).abort_handle();
        Self { url, memory, serving }
    }

    fn answers(&self, status: StatusCode) {
        self.memory.lock().answers = Some(status);
    }

    fn takes(&self, time: Duration) {
        self.memory.lock().takes = time;
    }

    /// The messages so far, each with the right signature.
    fn heard(&self) -> Vec<Value> {
        self.memory.lock().heard.iter().map(|(headers, body)| signed(headers, body)).collect()
    }

    fn ids(&self) -> Vec<String> {
        self.memory.lock().heard.iter().map(|(headers, _)| headers["webhook-id"].to_str().unwrap().to_owned()).collect()
    }

    fn types(&self) -> Vec<String> {
        self.heard().iter().map(|message| message["type"].as_str().unwrap().to_owned()).collect()
    }
}

async fn hear(State(memory): State<Arc<Mutex<Memory>>>, headers: HeaderMap, body: Bytes) -> (StatusCode, HeaderMap) {
    let (takes, status, retry_after) = {
        let mut memory = memory.lock();
        memory.heard.push((headers, String::from_utf8(body.to_vec()).unwrap()));
        memory.now += 1;
        memory.most_at_once = memory.most_at_once.max(memory.now);
        (memory.takes, memory.answers.unwrap_or(StatusCode::NO_CONTENT), memory.retry_after)
    };
    tokio::time::sleep(takes).await;
    memory.lock().now -= 1;
    (status, retry_after.map(|after| (RETRY_AFTER, HeaderValue::from_static(after))).into_iter().collect())
}

fn signed(headers: &HeaderMap, body: &str) -> Value {
    let text = |name: &str| headers[name].to_str().unwrap();
    let key = STANDARD.decode(KEY.strip_prefix("whsec_").unwrap()).unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
    mac.update(format!("{}.{}.{body}", text("webhook-id"), text("webhook-timestamp")).as_bytes());
    assert_eq!(text("webhook-signature"), format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())));
    assert!(!text("webhook-id").contains('.') && text("content-type") == "application/json");
    serde_json::from_str(body).unwrap()
}

/// A server that may reach the receivers, with the secret that signs.
async fn start(kind: Kind, receivers: &[&Receiver]) -> TestServer {
    with_secret(TestServer::start_reaching(kind, &urls(receivers)).await).await
}

fn urls<'a>(receivers: &[&'a Receiver]) -> Vec<&'a str> {
    receivers.iter().map(|receiver| receiver.url.as_str()).collect()
}

async fn with_secret(server: TestServer) -> TestServer {
    server.owner.send(Method::PUT, "/api/v1/secrets/hook", Some(json!({ "value": KEY }))).await.ok();
    server
}

fn webhook(name: &str, receiver: &Receiver) -> Value {
    json!({ "name": name, "kind": "webhook", "settings": { "url": format!("{}/hook", receiver.url), "secret": "hook" } })
}

fn but(mut body: Value, changes: Value) -> Value {
    for (name, value) in changes.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

async fn add(by: &Client, body: Value) -> String {
    by.post("/api/v1/channels", body).await.ok()["id"].as_str().unwrap().to_owned()
}

async fn dead(by: &Client) -> Vec<Value> {
    by.get("/api/v1/deliveries?state=dead").await.ok()["items"].as_array().unwrap().clone()
}

async fn waiting(agent: &Agent, text: &str) -> String {
    agent.pending("fake.write", json!({ "text": text })).await
}

/// An agent whose calls may wait for a day.
async fn unattended(server: &TestServer) -> Agent {
    server.owner.new_session(json!({ "unattended": true })).await
}

async fn a_person_is_told_of_a_call_that_waits_and_of_how_it_ended(kind: Kind) {
    let receiver = Receiver::start().await;
    let server = start(kind, &[&receiver]).await;
    add(&server.owner, webhook("pager", &receiver)).await;
    let agent = server.owner.new_session(json!({ "title": "refunds" })).await;
    let body = json!({ "action": "fake.write", "params": { "text": "not told" }, "reason": "a refund" });
    let id = agent.invoke_with(body).await.id();
    server.courier.deliver_due().await.unwrap();
    server.courier.deliver_due().await.unwrap();
    let heard = receiver.heard();
    assert_eq!(heard.len(), 1, "each notice once: {heard:#?}");
    let data = &heard[0]["data"];
    assert_eq!((&heard[0]["type"], &data["invocation_id"], &data["status"]), (&json!("invocation.held"), &json!(id), &json!("pending")));
    assert_eq!((&data["action"], &data["tier"], &data["reason"]), (&json!("fake.write"), &json!("R2"), &json!("a refund")));
    assert_eq!((&data["session_title"], &data["owner"]), (&json!("refunds"), &json!("owner")));
    assert_eq!(data["url"], format!("{}/api/v1/invocations/{id}", server.url));
    assert_eq!(data["page_url"], format!("{}/inbox/{id}", server.url), "what a person opens");
    assert!(!heard[0].to_string().contains("not told"), "params are for those who may read them");

    server.owner.approve(&id).await.ok();
    server.courier.deliver_due().await.unwrap();
    assert_eq!(receiver.types(), ["invocation.held", "invocation.approved", "invocation.succeeded"]);
    let me = server.owner.get("/api/v1/whoami").await.ok()["principal"].clone();
    let ended = &receiver.heard()[2]["data"];
    assert_eq!((&ended["answered_by"], &ended["answered_by_name"]), (&me, &json!("owner")));
    assert_eq!(receiver.ids().into_iter().collect::<BTreeSet<_>>().len(), 3, "each message has an id of its own");

    let (denied, failed) = (waiting(&agent, "b").await, waiting(&agent, "c").await);
    server.courier.deliver_due().await.unwrap();
    server.owner.deny(&denied, "not today").await.ok();
    server.source.will_fail(Error::Failed { code: "no_room", message: "there is no room".into() });
    server.owner.approve(&failed).await.problem(502, "source_failed");
    server.courier.deliver_due().await.unwrap();
    let of = |id: &str, told: &str| {
        let heard = receiver.heard();
        heard.into_iter().find(|one| one["data"]["invocation_id"] == id && one["type"] == told).unwrap()["data"].clone()
    };
    assert_eq!(of(&denied, "invocation.denied")["answer_reason"], "not today");
    assert_eq!(of(&failed, "invocation.failed")["error_code"], "no_room");

    let (heard, denied) = (receiver.types().len(), waiting(&agent, "a").await);
    server.owner.deny(&denied, "no").await.ok();
    server.courier.deliver_due().await.unwrap();
    assert_eq!(receiver.types().len(), heard, "of what was answered before anybody was told, nobody is told");
    let listed = server.owner.get("/api/v1/deliveries?channel=pager").await.ok();
    let states: Vec<_> = listed["items"].as_array().unwrap().iter().map(|one| one["state"].as_str().unwrap()).collect();
    assert_eq!(states.iter().filter(|state| **state == "skipped").count(), 1, "{states:?}");
    assert_eq!(listed["items"][0]["channel_name"], "pager");
    server.verify().await;
}

async fn a_channel_that_hangs_fails_or_is_gone_keeps_nobody_waiting(kind: Kind) {
    let (hangs, fails, gone, works) = (Receiver::start().await, Receiver::start().await, Receiver::start().await, Receiver::start().await);
    let server = with_secret(TestServer::start_giving_up_soon(kind, &urls(&[&hangs, &fails, &gone, &works])).await).await;
    hangs.takes(Duration::from_secs(3_600));
    fails.answers(StatusCode::INTERNAL_SERVER_ERROR);
    gone.serving.abort();
    for (name, receiver) in [("hangs", &hangs), ("fails", &fails), ("gone", &gone), ("works", &works)] {
        add(&server.owner, webhook(name, receiver)).await;
    }
    let agent = unattended(&server).await;
    let id = waiting(&agent, "a").await;
    let courier = server.courier.clone();
    let delivering = tokio::spawn(async move { courier.deliver_due().await });
    // Meanwhile calls go on as if there were no channel.
    let other = waiting(&agent, "b").await;
    server.owner.approve(&other).await.ok();
    assert_eq!(server.shown(&other).await["status"], "succeeded");
    delivering.await.unwrap().unwrap();

    let attempts_before = fails.heard().len();
    for _ in 0..=DELIVERY_GIVE_UP_SECONDS * 1_000 / DELIVERY_RETRY_MS_MAX {
        server.clock.advance_seconds(DELIVERY_RETRY_MS_MAX / 1_000);
        server.courier.deliver_due().await.unwrap();
    }
    assert!(works.heard().iter().any(|message| message["data"]["invocation_id"] == json!(id)));
    let letters: Vec<_> = dead(&server.owner).await.into_iter().filter(|one| one["invocation_id"] == json!(id)).collect();
    assert_eq!(letters.len(), 3, "{letters:#?}");
    let problems: Vec<_> = letters.iter().map(|one| one["problem"].as_str().unwrap()).collect();
    for said in ["it answered 500", "no answer within", "it could not be reached"] {
        assert!(problems.iter().any(|problem| problem.contains(said)), "{said}: {problems:?}");
    }
    assert!(problems.iter().all(|problem| !problem.contains("source")), "a channel is no source: {problems:?}");
    assert!(letters.iter().all(|one| one["attempts"].as_u64().unwrap() > 5 && one["due_at"].is_null()), "{letters:#?}");
    let attempts = fails.ids().iter().filter(|sent| sent.contains(&id)).count();
    assert!(attempts > 5 && fails.heard().len() > attempts_before, "{attempts}");
    let same: BTreeSet<_> = fails.ids().into_iter().filter(|sent| sent.contains(&id)).collect();
    assert_eq!(same.len(), 1, "every attempt has the id of the message");
    let listed = server.owner.get("/api/v1/channels").await.ok();
    let counts: Vec<_> =
        listed["items"].as_array().unwrap().iter().map(|one| (one["name"].as_str().unwrap(), one["dead"].as_u64().unwrap() > 0)).collect();
    assert_eq!(counts, [("fails", true), ("gone", true), ("hangs", true), ("works", false)], "failure shows");

    // Somebody has repaired it, and asks for what was given up.
    fails.answers(StatusCode::OK);
    let heard = fails.heard().len();
    let retried = server.owner.post("/api/v1/channels/fails/retry", json!({})).await.ok()["retried"].as_u64().unwrap();
    assert!(retried > 0);
    // On a busy machine an answer may come too late, and the delivery is tried again.
    while (fails.heard().len() as u64) < heard as u64 + retried {
        server.courier.deliver_due().await.unwrap();
        server.clock.advance_seconds(DELIVERY_RETRY_MS_MAX / 1_000);
    }
    let left = server.owner.get("/api/v1/deliveries?channel=fails&state=dead").await.ok();
    assert_eq!(left["items"], json!([]));
    assert_eq!(server.shown(&id).await["status"], "pending", "what became of its notices is nothing to a call");
    server.verify().await;
}

async fn a_channel_is_told_of_its_own_calls_and_in_its_turn(kind: Kind) {
    let receiver = Receiver::start().await;
    let server = start(kind, &[&receiver]).await;
    let main = server.main_space().await;
    server.owner.post("/api/v1/spaces", json!({ "name": "lab" })).await.ok();
    let told = [
        ("all", json!({})),
        ("tier", json!({ "tiers": ["R2", "R4"] })),
        ("band", json!({ "bands": ["green"], "space": main })),
        ("interactive", json!({ "attendance": "interactive" })),
        ("later", json!({ "after": "4m" })),
    ];
    let not_told = [
        ("other tier", json!({ "tiers": ["R3"] })),
        ("other band", json!({ "bands": ["amber", "red", "black"] })),
        ("other space", json!({ "space": "lab" })),
        ("unattended", json!({ "attendance": "unattended" })),
    ];
    let mut ids = std::collections::BTreeMap::new();
    for (name, only) in told.into_iter().chain(not_told) {
        ids.insert(add(&server.owner, but(webhook(name, &receiver), only)).await, name);
    }
    let heard = || {
        let heard: BTreeSet<_> = receiver.ids().iter().map(|sent| ids[sent.split('-').next().unwrap()]).collect();
        heard.into_iter().collect::<Vec<_>>()
    };
    waiting(&server.agent().await, "a").await;
    server.courier.deliver_due().await.unwrap();
    assert_eq!(heard(), ["all", "band", "interactive", "tier"]);
    server.clock.advance_seconds(239);
    server.courier.deliver_due().await.unwrap();
    assert_eq!(heard().len(), 4, "the next channel has its turn later");
    server.clock.advance_seconds(1);
    server.courier.deliver_due().await.unwrap();
    assert_eq!(heard(), ["all", "band", "interactive", "later", "tier"]);
}

async fn a_call_in_doubt_needs_somebody(kind: Kind) {
    let receiver = Receiver::start().await;
    let server = start(kind, &[&receiver]).await;
    add(&server.owner, webhook("pager", &receiver)).await;
    let later = add(&server.owner, but(webhook("later", &receiver), json!({ "after": "1m" }))).await;
    let agent = unattended(&server).await;
    let settle = async |id: &str| {
        let body = json!({ "as": "succeeded", "reason": "I looked" });
        server.owner.post(&format!("/api/v1/invocations/{id}/settle"), body).await.ok();
        server.courier.deliver_due().await.unwrap();
    };
    let broke = || Error::Broken { source_id: "fake".into(), message: "cut".into() };
    let id = waiting(&agent, "a").await;
    server.courier.deliver_due().await.unwrap();
    server.source.will_fail(broke());
    server.owner.approve(&id).await.problem(409, "in_doubt");
    server.courier.deliver_due().await.unwrap();
    assert_eq!(receiver.types(), ["invocation.held", "invocation.approved", "invocation.doubted"]);
    assert_eq!(receiver.heard()[2]["data"]["status"], "in_doubt");
    settle(&id).await;
    assert_eq!(receiver.types()[3..], ["invocation.succeeded"]);

    // A call that nobody was asked about needs somebody as well; the next channel has its turn if nobody has looked by then.
    server.owner.set_mode("fake.write", "allow").await;
    let mut doubted = Vec::new();
    for text in ["b", "c"] {
        server.source.will_fail(broke());
        let answer = agent.invoke("fake.write", json!({ "text": text })).await;
        answer.problem(409, "in_doubt");
        doubted.push(answer.body["invocation"]["id"].as_str().unwrap().to_owned());
    }
    server.courier.deliver_due().await.unwrap();
    assert_eq!(receiver.types()[4..], ["invocation.doubted", "invocation.doubted"]);
    settle(&doubted[0]).await;
    server.clock.advance_seconds(60);
    server.courier.deliver_due().await.unwrap();
    let told: Vec<_> = receiver.ids().into_iter().filter(|sent| sent.starts_with(&later)).collect();
    assert_eq!(told, [format!("{later}-{}-in_doubt", doubted[1])]);
    settle(&doubted[1]).await;
    assert_eq!(receiver.types().iter().filter(|told| *told == "invocation.succeeded").count(), 4, "{:?}", receiver.types());
    server.verify().await;
}

async fn what_happens_in_a_closed_space_is_for_those_it_exists_for(kind: Kind) {
    let receiver = Receiver::start().await;
    let server = start(kind, &[&receiver]).await;
    let (robin, eve) = (server.owner.person("robin", "approver").await, server.owner.person("eve", "approver").await);
    let user = robin.get("/api/v1/whoami").await.ok()["principal"].as_str().unwrap().trim_start_matches("user:").to_owned();
    let close = async |space: &str| {
        server.owner.post(&format!("/api/v1/spaces/{space}/members"), json!({ "user_id": user })).await.ok();
    };
    let new_space =
        async |name: &str| server.owner.post("/api/v1/spaces", json!({ "name": name })).await.ok()["id"].as_str().unwrap().to_owned();
    let (payroll, lab) = (new_space("payroll").await, new_space("lab").await);
    close(&payroll).await;
    let everywhere = add(&server.owner, webhook("everywhere", &receiver)).await;
    let own = add(&server.owner, but(webhook("payroll", &receiver), json!({ "space": payroll }))).await;
    let id = waiting(&robin.new_session(json!({ "space": payroll })).await, "a").await;
    server.courier.deliver_due().await.unwrap();
    assert_eq!(receiver.ids(), [format!("{own}-{id}-pending")], "a channel for every space does not know who reads it");

    for (who, sees) in [(&robin, true), (&server.owner, true), (&eve, false)] {
        let channels = who.get("/api/v1/channels").await.ok().to_string();
        let first = who.get("/api/v1/channels?limit=1").await.ok();
        assert_eq!((first["items"].as_array().unwrap().len(), first["next"].is_null()), (1, !sees), "{first}");
        let deliveries = who.get("/api/v1/deliveries").await.ok().to_string();
        let uses = who.get("/api/v1/secrets/hook/used-by").await.ok().to_string();
        assert!(channels.contains(&everywhere) && uses.contains(&everywhere), "{channels} {uses}");
        assert_eq!([channels.contains(&own), uses.contains(&own), deliveries.contains(&id)], [sees; 3]);
        for path in [format!("channels/{own}"), "channels/payroll".to_owned(), format!("deliveries?channel={own}")] {
            assert_eq!(who.get(&format!("/api/v1/{path}")).await.status == 200, sees, "{path}");
        }
    }
    eve.get("/api/v1/channels/payroll").await.problem(404, "not_found");

    // A space that closes later is closed to channels, too.
    let id = waiting(&robin.new_session(json!({ "space": lab })).await, "b").await;
    server.courier.deliver_due().await.unwrap();
    close(&lab).await;
    robin.deny(&id, "no").await.ok();
    server.courier.deliver_due().await.unwrap();
    let told: Vec<_> = receiver.ids().into_iter().filter(|sent| sent.contains(&id)).collect();
    assert_eq!(told, [format!("{everywhere}-{id}-pending")]);
    server.verify().await;
}

async fn two_servers_deliver_each_notice_once(kind: Kind) {
    let receiver = Receiver::start().await;
    let server = start(kind, &[&receiver]).await;
    let other = server.restart().await;
    add(&server.owner, webhook("pager", &receiver)).await;
    for (agent, texts) in [(server.agent().await, ["a", "b", "c", "d"]), (server.agent().await, ["e", "f", "g", "h"])] {
        for text in texts {
            waiting(&agent, text).await;
            let (one, two) = tokio::join!(server.courier.deliver_due(), other.courier.deliver_due());
            assert_eq!((one, two), (Ok(()), Ok(())));
        }
    }
    server.courier.deliver_due().await.unwrap();
    let ids = receiver.ids();
    assert_eq!((ids.len(), ids.iter().collect::<BTreeSet<_>>().len()), (8, 8), "{ids:?}");
}

async fn one_server_has_few_deliveries_of_a_channel_under_way(kind: Kind) {
    let receiver = Receiver::start().await;
    let server = start(kind, &[&receiver]).await;
    receiver.takes(Duration::from_millis(50));
    add(&server.owner, webhook("pager", &receiver)).await;
    for round in 0..2 {
        let agent = server.agent().await;
        for number in 0..DELIVERIES_AT_ONCE {
            waiting(&agent, &format!("{round} {number}")).await;
        }
    }
    server.courier.deliver_due().await.unwrap();
    assert_eq!(receiver.heard().len(), 2 * DELIVERIES_AT_ONCE as usize);
    assert!(receiver.memory.lock().most_at_once <= DELIVERIES_AT_ONCE, "what waits is in the store, not in memory");
}

async fn who_wants_no_more_messages_gets_none_until_somebody_asks(kind: Kind) {
    let receiver = Receiver::start().await;
    let server = start(kind, &[&receiver]).await;
    receiver.answers(StatusCode::GONE);
    add(&server.owner, webhook("pager", &receiver)).await;
    let id = waiting(&unattended(&server).await, "a").await;
    server.courier.deliver_due().await.unwrap();
    server.clock.advance_seconds(3_600);
    server.courier.deliver_due().await.unwrap();
    assert_eq!(receiver.types(), ["invocation.held"]);
    let letters = dead(&server.owner).await;
    assert!(letters[0]["problem"].as_str().unwrap().contains("410"), "{letters:?}");
    // Whoever asks once more is told what there is to tell by then.
    receiver.answers(StatusCode::OK);
    server.owner.deny(&id, "no").await.ok();
    let path = "/api/v1/channels/pager/retry";
    let retried = server.owner.post(path, json!({ "delivery": letters[0]["id"] })).await.ok();
    assert_eq!(retried, json!({ "retried": 1 }));
    server.courier.deliver_due().await.unwrap();
    assert!(receiver.types()[1..].iter().all(|told| told == "invocation.denied"), "{:?}", receiver.types());
    server.owner.post(path, json!({ "delivery": letters[0]["id"] })).await.problem(404, "not_found");
}

async fn who_says_when_to_come_back_is_left_alone_until_then(kind: Kind) {
    let longest = DELIVERY_RETRY_MS_MAX / 1_000;
    for (status, says, waits) in [
        (StatusCode::TOO_MANY_REQUESTS, "120", 120),
        (StatusCode::SERVICE_UNAVAILABLE, "3600", longest),
        (StatusCode::SERVICE_UNAVAILABLE, "Wed, 21 Oct 2099 07:28:00 GMT", longest),
    ] {
        let receiver = Receiver::start().await;
        let server = start(kind, &[&receiver]).await;
        receiver.answers(status);
        receiver.memory.lock().retry_after = Some(says);
        add(&server.owner, webhook("pager", &receiver)).await;
        waiting(&unattended(&server).await, "a").await;
        server.courier.deliver_due().await.unwrap();
        for (seconds, heard) in [(waits - 1, 1), (1, 2)] {
            server.clock.advance_seconds(seconds);
            server.courier.deliver_due().await.unwrap();
            assert_eq!(receiver.ids().len(), heard, "{status} {says}");
        }
    }
}

async fn a_dead_letter_that_was_dropped_is_delivered_no_more(kind: Kind) {
    let receiver = Receiver::start().await;
    let server = start(kind, &[&receiver]).await;
    receiver.answers(StatusCode::GONE);
    add(&server.owner, webhook("pager", &receiver)).await;
    let agent = unattended(&server).await;
    for text in ["a", "b", "c"] {
        waiting(&agent, text).await;
    }
    server.courier.deliver_due().await.unwrap();
    let letters = dead(&server.owner).await;
    assert_eq!(letters.len(), 3);
    let path = "/api/v1/channels/pager/drop";
    let one = json!({ "delivery": letters[0]["id"] });
    assert_eq!(server.owner.post(path, one.clone()).await.ok(), json!({ "dropped": 1 }));
    server.owner.post(path, one).await.problem(404, "not_found");
    assert_eq!(server.owner.post(path, json!({})).await.ok(), json!({ "dropped": 2 }));
    assert_eq!(dead(&server.owner).await, Vec::<Value>::new());
    let owner = server.owner.get("/api/v1/whoami").await.ok()["principal"].clone();
    let dropped = server.owner.get("/api/v1/deliveries?state=skipped").await.ok()["items"].as_array().unwrap().clone();
    assert!(dropped.len() == 3 && dropped.iter().all(|letter| letter["dropped_by"] == owner), "it is known who dropped them: {dropped:?}");
    receiver.answers(StatusCode::OK);
    assert_eq!(server.owner.post("/api/v1/channels/pager/retry", json!({})).await.ok(), json!({ "retried": 0 }));
    server.courier.deliver_due().await.unwrap();
    assert_eq!(receiver.heard().len(), 3, "each was tried once");
}

async fn a_call_that_was_denied_at_once_is_told_to_nobody(kind: Kind) {
    let receiver = Receiver::start().await;
    let server = start(kind, &[&receiver]).await;
    add(&server.owner, webhook("pager", &receiver)).await;
    server.owner.set_mode("fake.write", "deny").await;
    let agent = server.agent().await;
    agent.invoke("fake.write", json!({ "text": "a" })).await;
    agent.invoke("fake.read", json!({})).await.ok();
    server.courier.deliver_due().await.unwrap();
    assert_eq!(receiver.types(), [""; 0]);
}

async fn a_test_message_says_what_became_of_it(kind: Kind) {
    let receiver = Receiver::start().await;
    let server = start(kind, &[&receiver]).await;
    add(&server.owner, webhook("pager", &receiver)).await;
    let test = async || server.owner.post("/api/v1/channels/pager/test", json!({})).await.ok();
    let before = server.counts().await;
    let tested = test().await;
    assert_eq!((&tested["delivered"], &tested["problem"]), (&json!(true), &Value::Null));
    assert!(tested["warnings"].to_string().contains("`public_url`"), "{tested}");
    let heard = receiver.heard().remove(0);
    let (told, data) = (&heard["type"], &heard["data"]);
    assert_eq!((told, &data["channel"], &data["invocation_id"]), (&json!("channel.test"), &json!("pager"), &Value::Null), "{heard}");
    assert!(data["reason"].as_str().unwrap().contains("test of the channel `pager`"), "{heard}");
    receiver.answers(StatusCode::BAD_GATEWAY);
    let tested = test().await;
    assert_eq!((&tested["delivered"], &tested["problem"]), (&json!(false), &json!("it answered 502")));
    // Each test is a message of its own: a receiver that drops what it has seen drops none.
    let ids = receiver.ids();
    assert!(ids.len() == 2 && ids[0] != ids[1], "{ids:?}");
    let short = json!({ "value": "whsec_c2hvcnQ=", "version": 1 });
    server.owner.send(Method::PUT, "/api/v1/secrets/hook", Some(short)).await.ok();
    let refused = test().await["problem"].clone();
    assert!(refused.as_str().unwrap().contains("24 to 64 bytes"), "{refused}");
    assert_eq!(server.counts().await.0, before.0, "it is no call");
    assert_eq!(dead(&server.owner).await, Vec::<Value>::new());
}

async fn what_is_no_channel_is_refused(kind: Kind) {
    let receiver = Receiver::start().await;
    let server = start(kind, &[&receiver]).await;
    let good = webhook("pager", &receiver);
    let settings = |url: &str, secret: &str| json!({ "settings": { "url": url, "secret": secret } });
    server.owner.send(Method::PUT, "/api/v1/secrets/short", Some(json!({ "value": "whsec_c2hvcnQ=" }))).await.ok();
    for (wrong, says) in [
        (json!({ "name": "" }), "a name has"),
        (json!({ "name": "chn_00000000000000000000000000" }), "a name has"),
        (json!({ "kind": "pigeon" }), "`kind` is one of `webhook`,"),
        (json!({ "settings": {} }), "missing field"),
        (json!({ "settings": { "url": "x", "secret": "hook", "more": 1 } }), "unknown field"),
        (
            settings("https://elsewhere.example.com/hook", "hook"),
            "in `source_allowed_hosts`; an operator can add it there, with its scheme and port",
        ),
        (settings(&format!("{}/hook?key=1", receiver.url), "hook"), "could be a credential"),
        (settings(&format!("{}/hook", receiver.url), KEY), "name of a secret"),
        (settings(&format!("{}/hook", receiver.url), "short"), "24 to 64 bytes"),
        (json!({ "after": "25h" }), "after"),
        (json!({ "tiers": ["R9"] }), "R9"),
    ] {
        let refused = server.owner.post("/api/v1/channels", but(good.clone(), wrong.clone())).await;
        refused.problem(400, refused.body["code"].as_str().unwrap_or_default());
        assert!(refused.body.to_string().contains(says), "{wrong}: {refused:?}");
    }
    let unknown = settings(&format!("{}/hook", receiver.url), "no-secret");
    server.owner.post("/api/v1/channels", but(good.clone(), unknown)).await.problem(404, "not_found");
    server.owner.post("/api/v1/channels", but(good.clone(), json!({ "space": "nowhere" }))).await.problem(404, "not_found");
    assert_eq!(server.owner.get("/api/v1/channels").await.ok()["items"], json!([]));
    add(&server.owner, good.clone()).await;
    server.owner.post("/api/v1/channels", good).await.problem(409, "name_taken");
    server.owner.send(Method::DELETE, "/api/v1/secrets/hook", None).await.problem(409, "secret_in_use");
    server.owner.send(Method::DELETE, "/api/v1/channels/pager", None).await.ok();
    server.owner.send(Method::DELETE, "/api/v1/channels/pager", None).await.problem(404, "not_found");
    server.owner.get("/api/v1/channels/nobody").await.problem(404, "not_found");
    server.owner.get("/api/v1/deliveries?state=lost").await.problem(400, "invalid_query");
    let rules: Vec<_> = server.rules().await.into_iter().map(|change| change["rule"].clone()).collect();
    assert_eq!(rules, ["channel_set", "channel_removed"]);
    server.verify().await;
}

async fn only_who_manages_policy_changes_channels(kind: Kind) {
    let receiver = Receiver::start().await;
    let server = start(kind, &[&receiver]).await;
    add(&server.owner, webhook("pager", &receiver)).await;
    let (admin, approver) = (server.owner.person("mia", "admin").await, server.owner.person("robin", "approver").await);
    let agent = server.agent().await.client;
    for (who, reads) in [(&approver, true), (&agent, false)] {
        for (method, path) in [
            (Method::POST, "/api/v1/channels/pager/test"),
            (Method::POST, "/api/v1/channels/pager/retry"),
            (Method::POST, "/api/v1/channels/pager/drop"),
            (Method::DELETE, "/api/v1/channels/pager"),
        ] {
            let body = (method == Method::POST).then(|| json!({}));
            who.send(method, path, body).await.problem(403, "forbidden");
        }
        who.post("/api/v1/channels", webhook("other", &receiver)).await.problem(403, "forbidden");
        for path in ["/api/v1/channels", "/api/v1/channels/pager", "/api/v1/deliveries"] {
            assert_eq!(who.get(path).await.status == 200, reads, "{path}");
        }
    }
    assert_eq!(receiver.types(), [""; 0]);
    add(&admin, webhook("other", &receiver)).await;
}
