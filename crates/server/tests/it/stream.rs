//! The live stream: everybody is told what they may know, in order and once, over server-sent events and WebSockets alike; and over a
//! WebSocket calls are answered as over HTTP.

use crate::harness::{Agent, Client, Kind, TestServer, on_both_engines, on_postgres, on_sqlite};
use crate::longest_values::Cpu;
use crate::upstream::Upstream;
use countersign_core::ports::EventBus as _;
use countersign_core::ports::bus::NewEvent;
use countersign_core::ports::events::{Cause, Origin};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

on_both_engines!(
    a_stream_goes_on_after_a_restart_with_nothing_missed_or_doubled,
    an_agent_is_told_of_its_own_session_and_another_org_of_nothing,
    a_decision_that_is_sent_becomes_a_call_and_its_events_answer,
    the_end_of_a_call_is_told_with_its_receipt_a_summary_and_its_reward,
    who_is_no_member_of_a_space_is_told_nothing_of_it,
    what_happened_is_read_back_page_by_page,
    what_was_forgotten_of_a_hidden_call_is_not_told_to_strangers,
);
on_sqlite!(
    large_events_cost_those_who_serve_little,
    what_happens_is_told_at_once_under_our_names_and_the_older_ones,
    sources_and_drift_are_told_to_people_and_not_to_agents,
    an_agent_does_not_learn_from_events_that_it_touched_a_canary,
    over_a_websocket_the_same_is_told_and_calls_are_answered,
    a_token_comes_in_a_header_a_subprotocol_or_the_first_message,
    bad_messages_are_answered_and_too_large_ones_end_the_connection,
    a_stream_ends_with_what_its_reader_may_do,
    a_cursor_that_makes_no_sense_is_refused,
    a_stopping_server_says_where_to_go_on,
    many_streams_are_told_the_same,
    an_event_that_is_called_like_a_message_of_the_stream_is_an_event,
);
on_postgres!(what_one_server_does_is_told_by_the_other_and_a_stream_moves_between_them);

const PATIENCE: Duration = Duration::from_secs(30);

/// A message of a stream: its name, its cursor and all of it.
#[derive(Clone, Debug, PartialEq)]
struct Said {
    name: String,
    cursor: String,
    json: Value,
}

impl Said {
    fn of(json: Value) -> Self {
        let text = |name: &str| json[name].as_str().unwrap_or_default().to_owned();
        Self { name: text("type"), cursor: text("cursor"), json }
    }
}

/// A stream, however it is sent.
trait Told {
    /// The next message; `None` at the end.
    async fn next(&mut self) -> Option<Said>;

    /// The first message with this name, after whatever comes before it.
    async fn until(&mut self, name: &str) -> Value {
        self.all_until(|said| said.name == name).await.pop().unwrap().json
    }

    async fn all_until(&mut self, is_last: impl Fn(&Said) -> bool) -> Vec<Said> {
        let mut all: Vec<Said> = Vec::new();
        loop {
            let said = tokio::time::timeout(PATIENCE, self.next()).await;
            let said = said.ok().flatten().unwrap_or_else(|| panic!("the stream said no more after {all:#?}"));
            all.push(said);
            if all.last().is_some_and(&is_last) {
                return all;
            }
        }
    }

    /// Everything up to what is told last of this call, which is pending.
    async fn until_held(&mut self, invocation: &str) -> Vec<Said> {
        self.all_until(|said| said.name == "action_approval_request" && said.json["subject"] == invocation).await
    }
}

struct Events {
    response: reqwest::Response,
    read: String,
    ready: VecDeque<Said>,
    /// The last `id`, as a browser remembers it.
    last_id: String,
}

impl Told for Events {
    async fn next(&mut self) -> Option<Said> {
        loop {
            if let Some(said) = self.ready.pop_front() {
                return Some(said);
            }
            let piece = self.response.chunk().await.ok().flatten()?;
            self.read.push_str(std::str::from_utf8(&piece).unwrap());
            while let Some((event, rest)) = self.read.split_once("\n\n") {
                let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned());
                let (name, data) = (field("event:"), field("data:"));
                if let Some(id) = field("id:") {
                    self.last_id = id;
                }
                if let (Some(name), Some(data)) = (name, data) {
                    let said = Said::of(serde_json::from_str(&data).unwrap());
                    assert!(name == said.name || name == "problem", "{event}");
                    assert!(name == "problem" || said.cursor == self.last_id, "{event}");
                    self.ready.push_back(Said { name, ..said });
                }
                self.read = rest.to_owned();
            }
        }
    }
}

impl Client {
    async fn stream(&self, query: &str) -> Events {
        self.stream_with(query, None).await
    }

    async fn stream_with(&self, query: &str, last_id: Option<&str>) -> Events {
        let mut request = self.http.get(format!("{}/api/v1/stream{query}", self.url)).bearer_auth(&self.token);
        if let Some(last_id) = last_id {
            request = request.header("last-event-id", last_id);
        }
        let response = request.send().await.unwrap();
        assert_eq!((response.status().as_u16(), &response.headers()["content-type"]), (200, &"text/event-stream".parse().unwrap()));
        let mut events = Events { response, read: String::new(), ready: VecDeque::new(), last_id: String::new() };
        assert_eq!(events.next().await.unwrap().name, "stream.opened");
        events
    }

    fn request(&self, query: &str) -> tokio_tungstenite::tungstenite::handshake::client::Request {
        let url = format!("{}/api/v1/stream/ws{query}", self.url.replacen("http", "ws", 1));
        url.into_client_request().unwrap()
    }

    async fn socket(&self, query: &str) -> Socket {
        let mut request = self.request(query);
        request.headers_mut().insert("authorization", HeaderValue::from_str(&format!("Bearer {}", self.token)).unwrap());
        let mut socket = Socket(connect_async(request).await.unwrap().0);
        assert_eq!(socket.next().await.unwrap().name, "stream.opened");
        socket
    }

    fn at(&self, server: &TestServer) -> Self {
        Self { url: server.url.clone(), ..self.clone() }
    }
}

struct Socket(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Told for Socket {
    async fn next(&mut self) -> Option<Said> {
        loop {
            match self.0.next().await?.ok()? {
                Message::Text(text) => return Some(Said::of(serde_json::from_str(&text).unwrap())),
                Message::Ping(_) | Message::Pong(_) => {}
                Message::Close(_) | Message::Binary(_) | Message::Frame(_) => return None,
            }
        }
    }
}

impl Socket {
    async fn send(&mut self, message: Value) {
        self.0.send(Message::text(message.to_string())).await.unwrap();
    }

    /// The answer to this message: its status and body.
    async fn ask(&mut self, message: Value) -> (u64, Value) {
        let request = message["request"].clone();
        self.send(message).await;
        let answer = self.all_until(|said| said.name == "answer" && said.json["request"] == request).await.pop().unwrap().json;
        (answer["status"].as_u64().unwrap(), answer["body"].clone())
    }
}

impl Agent {
    fn at(&self, server: &TestServer) -> Self {
        Self { client: self.client.at(server), session: self.session.clone() }
    }
}

fn names(said: &[Said]) -> Vec<&str> {
    said.iter().map(|said| said.name.as_str()).collect()
}

async fn what_happens_is_told_at_once_under_our_names_and_the_older_ones(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let mut stream = server.owner.stream("").await;
    let id = agent.pending("fake.write", json!({ "text": "a" })).await;
    let held = stream.until_held(&id).await;
    assert_eq!(names(&held), ["invocation.held", "action_approval_request"]);
    for said in &held {
        assert_eq!((&said.json["subject"], &said.json["data"]["status"]), (&json!(id), &json!("pending")), "{said:?}");
        assert_eq!(said.json["data"]["session_id"], agent.session.as_str());
        assert_eq!((&said.json["specversion"], &said.json["source"]), (&json!("1.0"), &json!(format!("/orgs/{}", server.org))));
    }
    server.owner.approve(&id).await.ok();
    let ran = stream.all_until(|said| said.name == "action_completed").await;
    assert_eq!(names(&ran), ["invocation.approved", "invocation.succeeded", "action_completed"]);
    let last = ran.last().unwrap();
    assert_eq!(last.json["data"]["status"], "completed");
    assert!(last.json["receipt"].as_str().is_some_and(|receipt| receipt.starts_with("rcp_")), "{last:?}");

    let denied = agent.pending("fake.write", json!({ "text": "b" })).await;
    server.owner.deny(&denied, "no").await.ok();
    let said = stream.until("action_approval_result").await;
    assert_eq!((&said["subject"], &said["data"]["status"]), (&json!(denied), &json!("denied")));

    server.owner.set_mode("fake.write", "allow").await;
    stream.until("mode.changed").await;
    server.source.will_fail(countersign_core::source::Error::Failed { code: "no", message: "no".into() });
    agent.invoke("fake.write", json!({ "text": "c" })).await;
    assert_eq!(stream.until("action_completed").await["data"]["status"], "failed");
    server.verify().await;
}

async fn the_end_of_a_call_is_told_with_its_receipt_a_summary_and_its_reward(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let (mut all, mut own) = (server.owner.stream("").await, agent.client.stream("").await);
    let id = agent.pending("fake.write", json!({ "text": "a secret plan" })).await;
    let held = all.until("invocation.held").await;
    assert_eq!((&held["data"]["summary"], &held["data"]["reward"]), (&json!("fake.write pending"), &Value::Null));
    server.owner.approve(&id).await.ok();
    let receipt = server.receipt_of(&id).await;
    for stream in [&mut all, &mut own] {
        for name in ["invocation.succeeded", "action_completed"] {
            let said = stream.until(name).await;
            let data = &said["data"];
            assert_eq!((&data["receipt_id"], &said["receipt"]), (&receipt["receipt_id"], &receipt["receipt_id"]), "{said}");
            assert_eq!(data["summary"], "fake.write succeeded in 0 ms", "{said}");
            let scalar = receipt["reward"]["scalar_millionths"].as_f64().unwrap() / 1_000_000.0;
            assert_eq!((&data["reward"]["scalar"], &data["reward"]["components"]["success"]), (&json!(scalar), &json!(1.0)), "{said}");
        }
    }
    server.owner.set_mode("fake.write", "allow").await;
    server.source.will_fail(countersign_core::source::Error::Failed { code: "no_room", message: "a secret plan".into() });
    agent.invoke("fake.write", json!({ "text": "b" })).await;
    let failed = all.until("invocation.failed").await;
    assert_eq!((&failed["data"]["status"], &failed["data"]["summary"]), (&json!("failed"), &json!("fake.write failed: no_room")));
    assert!(!failed.to_string().contains("secret plan"), "{failed}");
}

async fn sources_and_drift_are_told_to_people_and_not_to_agents(kind: Kind) {
    let upstream = Upstream::start().await;
    let server = TestServer::start_reaching(kind, &[&upstream.url]).await;
    let agent = server.agent().await;
    let (mut stream, mut own) = (server.owner.stream("").await, agent.client.stream("").await);
    server.owner.post("/api/v1/sources", json!({ "name": "kit", "url": upstream.mcp() })).await.ok();
    assert_eq!(stream.until("source.added").await["subject"], "kit");
    server.owner.review("fake.write").await;
    server.source.redefine("write", |action| action.description = "Writes something else.".into());
    let id = agent.pending("fake.write", json!({})).await;
    assert_eq!(stream.until("action.drifted").await["subject"], "fake.write");
    server.owner.send(reqwest::Method::DELETE, "/api/v1/sources/kit", None).await;
    assert_eq!(stream.until("source.removed").await["subject"], "kit");
    assert_eq!(names(&own.until_held(&id).await), ["invocation.held", "action_approval_request"]);
}

async fn a_stream_goes_on_after_a_restart_with_nothing_missed_or_doubled(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let mut first = server.owner.stream("?after=0").await;
    let one = agent.pending("fake.write", json!({ "text": "1" })).await;
    // It is cut off between the two parts of one event.
    let mut told = first.all_until(|said| said.name == "invocation.held" && said.json["subject"] == one.as_str()).await;
    let cursor = told.last().unwrap().cursor.clone();
    drop(first);
    agent.pending("fake.write", json!({ "text": "2" })).await;
    let again = server.restart().await;
    drop(server);
    let (owner, agent) = (again.owner.clone(), agent.at(&again));
    let mut second = owner.stream_with("?after=0", Some(&cursor)).await;
    let three = agent.pending("fake.write", json!({ "text": "3" })).await;
    told.extend(second.until_held(&three).await);
    let mut whole = owner.stream("?after=0").await;
    assert_eq!(whole.until_held(&three).await, told);
    let cursors: Vec<_> = told.iter().map(|said| &said.cursor).collect();
    assert!(cursors.windows(2).all(|two| two[0] != two[1]), "{cursors:?}");
    // Over a WebSocket it is the same.
    let mut socket = owner.socket(&format!("?after={cursor}")).await;
    let rest = socket.until_held(&three).await;
    assert_eq!(rest, told[told.len() - rest.len()..]);
    assert_eq!(rest[0].name, "action_approval_request");
}

async fn an_agent_is_told_of_its_own_session_and_another_org_of_nothing(kind: Kind) {
    let server = TestServer::start(kind).await;
    let (mine, other) = (server.agent().await, server.agent().await);
    let token = server.store.draw_owner_token();
    server.store.create_org("other", "owner", token.clone()).await.unwrap();
    let theirs = server.owner.with_token(token.expose());
    let stranger = theirs.new_session(json!({})).await;
    let mut streams = [mine.client.stream("?after=0").await, theirs.stream("?after=0").await];
    let not_mine = other.pending("fake.write", json!({ "text": "not mine" })).await;
    server.owner.set_mode("fake.send", "deny").await;
    let (id, foreign) =
        (mine.pending("fake.write", json!({ "text": "mine" })).await, stranger.pending("fake.write", json!({ "text": "theirs" })).await);
    let told = streams[0].until_held(&id).await;
    assert_eq!(names(&told), ["invocation.held", "action_approval_request"], "of its own call, and nothing else");
    let told = format!("{:?}", streams[1].until_held(&foreign).await);
    assert!(!told.contains(&id) && !told.contains(&not_mine) && !told.contains(server.org.as_str()), "{told}");
    let mut viewer = server.owner.person("vera", "viewer").await.socket("?after=0").await;
    let told = format!("{:?}", viewer.until_held(&id).await);
    assert!(told.contains(&not_mine) && !told.contains(&foreign), "{told}");
    // What an agent was not told, it also need not read again.
    let mut cut = mine.client.stream("").await;
    other.pending("fake.write", json!({ "text": "still not mine" })).await;
    let before = cut.last_id.clone();
    let moved = async {
        while cut.last_id == before {
            let piece = cut.response.chunk().await.unwrap().unwrap();
            let text = std::str::from_utf8(&piece).unwrap();
            assert!(!text.contains("data:"), "{text}");
            if let Some(id) = text.lines().find_map(|line| line.strip_prefix("id: ")) {
                cut.last_id = id.to_owned();
            }
        }
    };
    tokio::time::timeout(PATIENCE, moved).await.unwrap();
}

async fn what_happened_is_read_back_page_by_page(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let mut ids = Vec::new();
    for n in 0..3 {
        ids.insert(0, agent.pending("fake.write", json!({ "text": n.to_string() })).await);
        server.owner.set_mode("fake.send", if n % 2 == 0 { "deny" } else { "allow" }).await;
    }
    let mut stream = server.owner.stream("?after=0").await;
    let mut told = stream.until_held(&ids[0]).await;
    told.push(Said::of(stream.until("mode.changed").await));
    // Each under our name alone, the newest first, as the stream told them.
    let mut expected: Vec<_> = told.into_iter().filter(|said| said.name.contains('.') && !said.name.starts_with("stream.")).collect();
    expected.reverse();
    let (mut listed, mut after) = (Vec::new(), String::new());
    loop {
        let page = server.owner.get(&format!("/api/v1/events?limit=2{after}")).await.ok();
        listed.extend(page["items"].as_array().unwrap().iter().cloned().map(Said::of));
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    assert_eq!(listed, expected);
    let subjects = async |query: &str| -> Vec<String> {
        let page = server.owner.get(&format!("/api/v1/events?{query}")).await.ok();
        page["items"].as_array().unwrap().iter().map(|event| event["subject"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(subjects("type=invocation").await, ids);
    assert_eq!(subjects("type=invocation.held").await, ids);
    assert_eq!(subjects("type=invoc").await, [""; 0]);
    assert_eq!(subjects(&format!("subject={}", ids[1])).await, [ids[1].as_str()]);
    server.owner.get("/api/v1/events?after=now").await.problem(400, "invalid_query");
    server.owner.get("/api/v1/events?limit=0").await.problem(400, "invalid_query");
    agent.client.get("/api/v1/events").await.problem(403, "forbidden");
}

async fn who_is_no_member_of_a_space_is_told_nothing_of_it(kind: Kind) {
    let upstream = Upstream::start().await;
    let server = TestServer::start_reaching(kind, &["http://127.0.0.1:9", &upstream.url]).await;
    let (robin, eve) = (server.owner.person("robin", "member").await, server.owner.person("eve", "viewer").await);
    let space = server.owner.post("/api/v1/spaces", json!({ "name": "payroll" })).await.ok()["id"].as_str().unwrap().to_owned();
    let user = robin.get("/api/v1/whoami").await.ok()["principal"].as_str().unwrap().trim_start_matches("user:").to_owned();
    server.owner.post(&format!("/api/v1/spaces/{space}/members"), json!({ "user_id": user })).await.ok();
    let (mut theirs, mut hers) = (robin.stream("?after=0").await, eve.stream("?after=0").await);
    let agent = robin.new_session(json!({ "space": "payroll" })).await;
    let hidden = agent.pending("fake.write", json!({ "text": "a" })).await;
    server.owner.switch("on", &format!("session:{}", agent.session)).await.ok();
    server
        .owner
        .send(reqwest::Method::PUT, "/api/v1/secrets/hook", Some(json!({ "value": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" })))
        .await
        .ok();
    let settings = json!({ "url": "http://127.0.0.1:9/", "secret": "hook" });
    let pager = json!({ "name": "pager", "kind": "webhook", "settings": settings, "space": space });
    let channel = server.owner.post("/api/v1/channels", pager).await.ok()["id"].as_str().unwrap().to_owned();
    let bank = json!({ "name": "bank", "kind": "bearer", "url": "http://127.0.0.1:9", "value": "s3cret", "spaces": [space] });
    let connection = server.owner.post("/api/v1/connections", bank).await.ok()["id"].as_str().unwrap().to_owned();
    server.owner.send(reqwest::Method::DELETE, "/api/v1/connections/bank", None).await.ok();
    let vault = json!({ "name": "vault", "url": upstream.mcp(), "trust_hints": true, "spaces": [space] });
    server.owner.post("/api/v1/sources", vault).await.ok();
    robin.post("/api/v1/consents", json!({ "purpose": "action:vault.look" })).await.ok();
    server.owner.send(reqwest::Method::DELETE, "/api/v1/sources/vault", None).await.ok();
    let seen = server.agent().await.pending("fake.write", json!({ "text": "b" })).await;
    let told = format!("{:?}", theirs.until_held(&hidden).await);
    assert!(told.contains(&space), "{told}");
    let told = format!("{:?}", hers.until_held(&seen).await);
    let named = [&space, &agent.session, &hidden, &channel, &connection].into_iter().find(|id| told.contains(id.as_str()));
    assert_eq!(named, None, "{told}");
    assert!(!told.contains("vault"), "{told}");
    let listed = eve.get("/api/v1/events?limit=100").await.ok().to_string();
    assert!(listed.contains(&seen), "{listed}");
    let named = [&space, &agent.session, &hidden, &channel, &connection].into_iter().find(|id| listed.contains(id.as_str()));
    assert_eq!(named, None, "{listed}");
    assert!(!listed.contains("vault"), "{listed}");
}

async fn what_was_forgotten_of_a_hidden_call_is_not_told_to_strangers(kind: Kind) {
    let server = TestServer::start(kind).await;
    let (robin, eve) = (server.owner.person("robin", "approver").await, server.owner.person("eve", "viewer").await);
    let space = server.owner.post("/api/v1/spaces", json!({ "name": "payroll" })).await.ok()["id"].as_str().unwrap().to_owned();
    let user = robin.get("/api/v1/whoami").await.ok()["principal"].as_str().unwrap().trim_start_matches("user:").to_owned();
    server.owner.post(&format!("/api/v1/spaces/{space}/members"), json!({ "user_id": user })).await.ok();
    let hidden = robin.new_session(json!({ "space": "payroll" })).await.pending("fake.write", json!({ "text": "a" })).await;
    // The event of a link names the call, and nothing else that says where it was.
    robin.post(&format!("/api/v1/invocations/{hidden}/link"), json!({})).await.ok();
    robin.deny(&hidden, "no").await.ok();
    let kept = json!({ "receipts_days": 30, "snapshots_days": 30, "events_days": 365 });
    server.owner.send(reqwest::Method::PUT, "/api/v1/retention", Some(kept)).await.ok();
    server.clock.advance_seconds(31 * 24 * 60 * 60);
    server.store.forget_old(&server.org).await.unwrap();
    robin.get(&format!("/api/v1/invocations/{hidden}")).await.problem(404, "not_found");
    let seen = server.agent().await.pending("fake.write", json!({ "text": "b" })).await;
    for (who, is_told) in [(&robin, true), (&eve, false)] {
        let told = format!("{:?}", who.stream("?after=0").await.until_held(&seen).await);
        assert_eq!(told.contains(&hidden), is_told, "{told}");
    }
}

async fn an_agent_does_not_learn_from_events_that_it_touched_a_canary(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    server.owner.set_mode("fake.send", "allow").await;
    server.owner.post("/api/v1/canaries", json!({ "text": "quillfeather" })).await.ok();
    let (mut own, mut all) = (agent.client.stream("").await, server.owner.stream("").await);
    let id = agent.invoke("fake.send", json!({ "text": "Quillfeather invoices" })).await.id();
    let told = own.until("action_approval_result").await;
    assert_eq!((&told["subject"], &told["data"]["status"]), (&json!(id), &json!("denied")));
    assert_eq!(all.until("invocation.quarantined").await["subject"], id.as_str());
    let again = agent.client.stream("?after=0").await.all_until(|said| said.name == "action_approval_result").await;
    assert!(!format!("{again:?}").contains("quarantine"), "{again:?}");
}

async fn over_a_websocket_the_same_is_told_and_calls_are_answered(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let (mut socket, mut events) = (server.owner.socket("").await, server.owner.stream("").await);
    let id = agent.pending("fake.write", json!({ "text": "a" })).await;
    assert_eq!(socket.until_held(&id).await, events.until_held(&id).await);

    // Who may not approve, may not here.
    let approve = |request: &str| json!({ "type": "approve", "request": request, "invocation": id, "body": { "mode": "once" } });
    for other in [&agent.client, &server.owner.person("vera", "viewer").await] {
        let (status, problem) = other.socket("").await.ask(approve("r0")).await;
        assert_eq!((status, &problem["code"]), (403, &json!("may_not_approve")), "{problem}");
        assert!(problem["trace_id"].as_str().is_some_and(|id| id.len() == 32), "{problem}");
    }
    // A misread binding approves nothing, as over HTTP.
    let misread = json!({ "type": "approve", "request": "r1", "invocation": id, "body": { "binding": "0".repeat(64) } });
    let (status, problem) = socket.ask(misread).await;
    let http = server.owner.approve_with(&id, json!({ "binding": "0".repeat(64) })).await;
    assert_eq!((status, http.status), (409, 409), "{problem}");
    assert_eq!((problem["code"].as_str(), problem["detail"].as_str()), (http.body["code"].as_str(), http.body["detail"].as_str()));

    let (status, approved) = socket.ask(approve("r2")).await;
    assert_eq!((status, &approved["invocation"]["status"]), (200, &json!("succeeded")), "{approved}");
    assert_eq!(events.until("action_completed").await["subject"], id.as_str());
    let (status, problem) = socket.ask(approve("r3")).await;
    let http = server.owner.approve(&id).await;
    assert_eq!((status, &problem["code"]), (u64::from(http.status), &http.body["code"]), "{problem}");

    let denied = agent.pending("fake.write", json!({ "text": "b" })).await;
    let (status, body) = socket.ask(json!({ "type": "deny", "request": "r4", "invocation": denied, "body": { "reason": "no" } })).await;
    assert_eq!((status, &body["invocation"]["status"]), (200, &json!("denied")), "{body}");
    assert_eq!(server.shown(&denied).await["status"], "denied");
    assert_eq!(server.source.calls().len(), 1);
    server.verify().await;
}

async fn what_one_server_does_is_told_by_the_other_and_a_stream_moves_between_them(kind: Kind) {
    let server = TestServer::start(kind).await;
    let other = server.restart().await;
    let agent = server.agent().await;
    let elsewhere = server.owner.at(&other);
    let mut stream = elsewhere.socket("").await;
    let mut told = Vec::new();
    for round in 0..3 {
        // It is asked for here, told and answered there, and read on here.
        let id = agent.pending("fake.write", json!({ "text": format!("{round}") })).await;
        told.extend(stream.until_held(&id).await);
        let (status, _) = stream.ask(json!({ "type": "approve", "request": "r", "invocation": id })).await;
        assert_eq!(status, 200);
    }
    let cursor = told.last().unwrap().cursor.clone();
    let mut here = server.owner.stream_with("", Some(&cursor)).await;
    let (first, last) = (here.until("action_completed").await, agent.pending("fake.write", json!({ "text": "last" })).await);
    assert_eq!(first["data"]["status"], "completed");
    here.until_held(&last).await;
    let whole: Vec<_> = server.owner.stream("?after=0").await.until_held(&last).await;
    let mut cursors: Vec<_> = whole.iter().map(|said| said.cursor.clone()).collect();
    let count = cursors.len();
    cursors.dedup();
    assert_eq!(cursors.len(), count, "each once");
    server.verify().await;
}

async fn a_decision_that_is_sent_becomes_a_call_and_its_events_answer(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let mut stream = agent.client.stream("").await;
    let decision = |id: &str, text: &str| {
        let data = json!({ "tool_id": "fake.write", "params": { "text": text }, "trace_id": format!("trace-{id}") });
        json!({ "specversion": "1.0", "type": "action.decision", "id": id, "source": "/arbiter", "data": data })
    };
    let taken = agent.client.post("/api/v1/events", decision("d1", "held")).await;
    assert_eq!((taken.status, &taken.body["status"], &taken.body["event_id"]), (202, &json!("pending"), &json!("d1")), "{taken:?}");
    let held = stream.until("invocation.held").await;
    assert_eq!((&held["subject"], &held["data"]["trace_id"]), (&taken.body["invocation_id"], &json!("trace-d1")));
    server.owner.approve(&taken.id()).await.ok();
    assert_eq!(stream.until("invocation.succeeded").await["subject"], taken.body["invocation_id"]);

    // Sent again, it has no second effect.
    server.owner.set_mode("fake.write", "allow").await;
    let first = agent.client.post("/api/v1/events", decision("d2", "ran")).await.ok();
    let second = agent.client.post("/api/v1/events", decision("d2", "ran")).await.ok();
    assert_eq!((&first["status"], &first["replayed"], &second["replayed"]), (&json!("succeeded"), &json!(false), &json!(true)));
    assert_eq!(first["invocation_id"], second["invocation_id"]);
    assert_eq!(server.source.calls().len(), 2);
    agent.client.post("/api/v1/events", decision("d2", "other")).await.problem(409, "idempotency_conflict");

    // Over a WebSocket, under the older name too.
    let mut socket = agent.client.socket("").await;
    let mut older = decision("d3", "from a socket");
    older["type"] = json!("ACTION_DECISION");
    older["data"]["action_id"] = json!("step-3");
    socket.send(older).await;
    let said = socket.all_until(|said| said.name == "answer").await.pop().unwrap().json;
    assert_eq!((&said["request"], &said["status"], &said["body"]["status"]), (&json!("d3"), &json!(202), &json!("succeeded")), "{said}");
    let told = stream.all_until(|said| said.name == "ACTION_EXECUTED" && said.json["data"]["trace_id"] == "trace-d3").await;
    let ended = told.iter().find(|said| said.name == "invocation.succeeded" && said.json["data"]["trace_id"] == "trace-d3").unwrap();
    assert_eq!(ended.json["subject"], said["body"]["invocation_id"]);
    // The decision is answered in its own words, under our name and the older one.
    let [executed, older] = &told[told.len() - 2..] else { panic!("{told:?}") };
    let words = [("action.executed", "succeeded"), ("ACTION_EXECUTED", "ok")];
    for (one, (name, status)) in [executed, older].into_iter().zip(words) {
        let data = &one.json["data"];
        assert_eq!((one.name.as_str(), &data["status"], &data["invocation_id"]), (name, &json!(status), &said["body"]["invocation_id"]));
        assert_eq!((&data["tool_id"], &data["action_id"]), (&json!("fake.write"), &json!("step-3")), "{data}");
        assert!(
            data["receipt_id"].as_str().unwrap().starts_with("rcp_") && data["summary"].as_str().unwrap().contains("succeeded"),
            "{data}"
        );
        assert!(!data.to_string().contains("from a socket"), "no params: {data}");
    }
    // It is in the log, for a group that consumes it and gets it again.
    let group = server.owner.send(reqwest::Method::PUT, "/api/v1/event-groups/learner", Some(json!({ "start": "earliest" }))).await.ok();
    assert_eq!(group["name"], "learner");
    let consumed = async || {
        let claimed = server.owner.post("/api/v1/event-groups/learner/claim", json!({ "limit": 100 })).await.ok();
        let events = claimed["events"].as_array().unwrap().clone();
        let claims: Vec<_> = events.iter().map(|one| one["claim"].clone()).collect();
        server.owner.post("/api/v1/event-groups/learner/ack", json!({ "claims": claims })).await.ok();
        events.iter().filter(|one| one["event"]["type"] == "action.executed").count()
    };
    let first_time = consumed().await;
    server.owner.post("/api/v1/event-groups/learner/replay", json!({ "from": 1 })).await.ok();
    assert_eq!((first_time, consumed().await), (3, 3), "of the three decisions");

    for (event, status, code) in [
        (json!({ "type": "action.executed", "data": { "tool_id": "fake.write" } }), 400, "invalid_request"),
        (json!({ "type": "action.decision" }), 400, "invalid_request"),
        (json!({ "type": "action.decision", "data": { "tool_id": "fake.nothing" } }), 404, "unknown_action"),
        (json!({ "type": "action.decision", "data": { "tool_id": "fake.write", "params": { "text": 7 } } }), 422, "invalid_params"),
    ] {
        agent.client.post("/api/v1/events", event).await.problem(status, code);
    }
    server.owner.with_token("nobody").post("/api/v1/events", decision("d4", "x")).await.problem(401, "unauthenticated");
    server.verify().await;
}

async fn a_token_comes_in_a_header_a_subprotocol_or_the_first_message(kind: Kind) {
    let server = TestServer::start(kind).await;
    let offer = |token: &str| {
        let mut request = server.owner.request("");
        let value = HeaderValue::from_str(&format!("countersign.v1, countersign.token.{token}")).unwrap();
        request.headers_mut().insert("sec-websocket-protocol", value);
        request
    };
    let (stream, response) = connect_async(offer(&server.owner.token)).await.unwrap();
    assert_eq!(response.headers()["sec-websocket-protocol"], "countersign.v1", "the token is not sent back");
    assert_eq!(Socket(stream).next().await.unwrap().name, "stream.opened");
    for request in [offer("nobody"), {
        let mut request = server.owner.request("");
        request.headers_mut().insert("authorization", HeaderValue::from_static("Bearer nobody"));
        request
    }] {
        let refused = connect_async(request).await.err().unwrap();
        let Error::Http(response) = &refused else { panic!("{refused:?}") };
        assert_eq!(response.status().as_u16(), 401);
    }

    let mut socket = Socket(connect_async(server.owner.request("")).await.unwrap().0);
    socket.send(json!({ "type": "authenticate", "token": server.owner.token, "after": "0" })).await;
    assert_eq!(socket.next().await.unwrap().json, json!({ "type": "stream.opened", "cursor": "0" }));
    assert_eq!(socket.next().await.unwrap().cursor, "1");
    for first in [
        json!({ "type": "authenticate", "token": "nobody" }),
        json!({ "type": "approve", "invocation": "inv_1", "body": {} }),
        json!({ "type": "authenticate" }),
        json!(["authenticate", server.owner.token]),
    ] {
        let mut socket = Socket(connect_async(server.owner.request("")).await.unwrap().0);
        socket.send(first.clone()).await;
        let said = socket.next().await.unwrap().json;
        assert!(said["type"].as_str().is_some_and(|kind| kind.starts_with("/docs/errors/")), "{first}: {said}");
        assert!(!said.to_string().contains(&server.owner.token), "{said}");
        assert_eq!(socket.next().await, None);
    }
    // Never in the address, and an address for WebSockets is for nothing else.
    server.owner.with_token("").get(&format!("/api/v1/stream?token={}", server.owner.token)).await.problem(400, "invalid_query");
    server.owner.with_token("").get("/api/v1/stream").await.problem(401, "unauthenticated");
    server.owner.with_token("").get("/api/v1/stream/ws").await.problem(401, "unauthenticated");
    server.owner.get("/api/v1/stream/ws").await.problem(400, "invalid_request");
}

async fn bad_messages_are_answered_and_too_large_ones_end_the_connection(kind: Kind) {
    let server = TestServer::start(kind).await;
    let mut socket = server.owner.socket("").await;
    let large = format!(r#"{{"type":"approve","invocation":"{}"}}"#, "x".repeat(1024 * 1024));
    for (message, status, code) in [
        (Message::text("nonsense"), 400, "malformed_json"),
        (Message::text(r#"{"type":"approve","type":"deny"}"#), 400, "malformed_json"),
        (Message::binary(vec![1, 2, 3]), 400, "malformed_json"),
        (Message::text("[]"), 400, "invalid_request"),
        (Message::text("{}"), 400, "invalid_request"),
        (Message::text(r#"{"type":"subscribe"}"#), 400, "invalid_request"),
        (Message::text(r#"{"type":"approve"}"#), 400, "invalid_request"),
        (Message::text(r#"{"type":"approve","invocation":"inv_1","body":{"moed":"once"}}"#), 400, "invalid_request"),
        (Message::text(r#"{"type":"approve","invocation":"inv_1"}"#), 404, "not_found"),
        (Message::text(r#"{"type":"deny","invocation":"inv_00000000000000000000000000"}"#), 404, "not_found"),
        (Message::text(large), 413, "body_too_large"),
    ] {
        socket.0.send(message.clone()).await.unwrap();
        let said = socket.until("answer").await;
        assert_eq!((&said["status"], &said["body"]["code"]), (&json!(status), &json!(code)), "{message}: {said}");
    }
    // It is still told what happens.
    let id = server.agent().await.pending("fake.write", json!({})).await;
    socket.until_held(&id).await;
    let sent = socket.0.send(Message::text("x".repeat(3 * 1024 * 1024))).await;
    assert!(sent.is_err() || socket.next().await.is_none());
}

async fn a_stream_ends_with_what_its_reader_may_do(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let (mut events, mut socket) = (agent.client.stream("").await, agent.client.socket("").await);
    server.owner.post(&format!("/api/v1/sessions/{}/end", agent.session), json!({})).await.ok();
    let last = events.until("problem").await;
    assert_eq!((&last["code"], &last["status"]), (&json!("unauthenticated"), &json!(401)), "{last}");
    assert_eq!(events.next().await, None);
    socket.until("/docs/errors/unauthenticated").await;
    assert_eq!(socket.next().await, None);
    // Nothing that happens after its token is revoked is told.
    let viewer = server.owner.person("vera", "viewer").await;
    let mut events = viewer.stream("").await;
    let tokens = server.owner.get("/api/v1/tokens").await.ok();
    let of_vera =
        tokens["items"].as_array().unwrap().iter().find(|token| token["name"] == "vera" && token["kind"] != "invitation").unwrap();
    server.owner.post(&format!("/api/v1/tokens/{}/revoke", of_vera["id"].as_str().unwrap()), json!({})).await.ok();
    let secret = server.agent().await.pending("fake.write", json!({})).await;
    let told = events.all_until(|said| said.name == "problem").await;
    assert!(!format!("{told:?}").contains(&secret), "{told:?}");
}

async fn a_cursor_that_makes_no_sense_is_refused(kind: Kind) {
    let server = TestServer::start(kind).await;
    for cursor in ["x", "-1", "1.2", ""] {
        server.owner.get(&format!("/api/v1/stream?after={cursor}")).await.problem(400, "invalid_query");
    }
    server.owner.get("/api/v1/stream?after=999999").await.problem(400, "invalid_request");
    server.owner.get("/api/v1/stream?since=1").await.problem(400, "invalid_query");
}

/// A server that pings often, and a client that reads late: the last words wait behind pings that the client has yet to answer.
async fn a_stopping_server_says_where_to_go_on(kind: Kind) {
    let server = TestServer::start(kind).await;
    let (mut events, mut socket) = (server.owner.stream("").await, server.owner.socket("").await);
    let id = server.agent().await.pending("fake.write", json!({})).await;
    let (told, same) = (events.until_held(&id).await, socket.until_held(&id).await);
    tokio::time::sleep(Duration::from_millis(200)).await;
    drop(server);
    for (last, cursor) in [
        (events.until("stream.dropped").await, &told.last().unwrap().cursor),
        (socket.until("stream.dropped").await, &same.last().unwrap().cursor),
    ] {
        assert_eq!((&last["reason"], &last["cursor"]), (&json!("stopping"), &json!(cursor)), "{last}");
        assert!(last["hint"].as_str().is_some_and(|hint| hint.contains(cursor.as_str())), "{last}");
    }
    assert_eq!((events.next().await, socket.next().await), (None, None));
}

/// Nobody publishes such an event; one that is in the log from before still is no message of the stream.
async fn an_event_that_is_called_like_a_message_of_the_stream_is_an_event(kind: Kind) {
    let server = TestServer::start(kind).await;
    let (mut events, mut socket) = (server.owner.stream("").await, server.owner.socket("").await);
    let names = ["problem", "answer", "stream.dropped", "stream.opened", "/docs/errors/internal", "action_completed"];
    for name in names {
        let event = json!({ "specversion": "1.0", "id": name, "source": "/drive", "type": name });
        server.owner.post("/api/v1/events", event).await.problem(400, "invalid_request");
    }
    let source = json!({ "specversion": "1.0", "id": "1", "source": format!("/orgs/{}", server.org), "type": "drive.file_added" });
    server.owner.post("/api/v1/events", source).await.problem(400, "invalid_request");
    let older = |name: &str| NewEvent {
        name: name.to_owned(),
        key: "a".to_owned(),
        body: "{}".to_owned(),
        origin: Some(Origin { source: "/drive".to_owned(), id: name.to_owned(), time: None, more: BTreeMap::new() }),
        space: None,
        cause: Cause::default(),
    };
    server.store.publish(&server.org, names.map(older).to_vec()).await.unwrap();
    let is_last = |said: &Said| said.json["id"] == names[5];
    for told in [events.all_until(is_last).await, socket.all_until(is_last).await] {
        let said: Vec<_> = told.iter().filter(|said| said.json["source"] == "/drive").collect();
        assert_eq!(said.iter().map(|said| said.name.as_str()).collect::<Vec<_>>(), names);
        assert!(said.iter().all(|said| said.json["specversion"] == "1.0"), "{said:?}");
    }
    // What the stream says of itself has no `specversion`: here why it ends, as a problem.
    let viewer = server.owner.person("vera", "viewer").await;
    let (mut events, mut socket) = (viewer.stream("").await, viewer.socket("").await);
    let principal = viewer.get("/api/v1/whoami").await.ok()["principal"].as_str().unwrap().replace("user:", "");
    server.owner.post(&format!("/api/v1/users/{principal}/disable"), json!({})).await.ok();
    let (last, same) = (events.until("problem").await, socket.until("/docs/errors/unauthenticated").await);
    assert_eq!((&last["specversion"], &same["specversion"]), (&Value::Null, &Value::Null), "{last} {same}");
}

async fn many_streams_are_told_the_same(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let mut open = Vec::new();
    for _ in 0..100 {
        open.push(server.owner.stream("").await);
    }
    let id = agent.pending("fake.write", json!({ "text": "a" })).await;
    server.owner.deny(&id, "no").await.ok();
    let is_last = |said: &Said| said.name == "action_approval_result" && said.json["subject"] == id.as_str();
    let told = open.remove(0).all_until(is_last).await;
    for mut stream in open {
        assert_eq!(stream.all_until(is_last).await, told);
    }
}

/// Whoever reads large events, or is told none of them, keeps no thread that serves busy.
async fn large_events_cost_those_who_serve_little(kind: Kind) {
    let server = TestServer::start(kind).await;
    let (agent, owner) = (server.agent().await, &server.owner);
    // Many small values: to read and to write them costs far more than one long text.
    let event = |id: u64| json!({ "specversion": "1.0", "id": id.to_string(), "source": "/drive", "type": "drive.read", "spaceid": "main", "data": vec![1; 100_000] });
    for first in (0..24).step_by(4) {
        owner.post("/api/v1/events", json!((first..first + 4).map(event).collect::<Vec<_>>())).await.ok();
    }
    let held = agent.pending("fake.write", json!({ "text": "x" })).await;
    let before = Cpu::now();
    agent.client.stream("?after=0").await.until_held(&held).await;
    before.since().must_be_little(1, "a stream that is told none of them");
    let before = Cpu::now();
    // To read the page is the work of the client.
    let asked = owner.http.get(format!("{}/api/v1/events?type=drive.read&limit=100", owner.url)).bearer_auth(&owner.token);
    let page = asked.send().await.unwrap().bytes().await.unwrap();
    before.since().must_be_little(1, "a page of them");
    let page: Value = serde_json::from_slice(&page).unwrap();
    // A page ends before it is too large, and the next one goes on.
    let count = page["items"].as_array().unwrap().len();
    let rest = owner.get(&format!("/api/v1/events?type=drive.read&limit=100&after={}", page["next"].as_str().unwrap())).await.ok();
    assert_eq!((count, rest["items"].as_array().unwrap().len()), (21, 3));
    let before = Cpu::now();
    let tried = json!({ "event_type": "drive.read", "filters": { "data.n": { "contains": "x" } }, "limit": 2 });
    assert_eq!(owner.post("/api/v1/filters/test", tried).await.ok()["events"].as_array().unwrap().len(), 2);
    before.since().must_be_little(1, "a filter that is tried on them");
    let before = Cpu::now();
    let mut socket = agent.client.socket("").await;
    let ids = vec![1; 100_000];
    socket.send(json!({ "type": "action.decision", "request": "large", "data": { "ids": ids } })).await;
    socket.all_until(|said| said.json["request"] == "large").await;
    before.since().must_be_little(1, "a large message");
}
