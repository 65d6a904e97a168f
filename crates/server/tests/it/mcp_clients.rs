//! Clients of the MCP door beside their calls: what they are told of by themselves, what of other servers is passed on to them, what their
//! token asks for, and what becomes of those that behave badly.

use crate::harness::{Agent, Client, Kind, TestServer, on_sqlite};
use crate::mcp_door::{ask, asked, last, noted, pending, posted, result_text, writing};
use crate::upstream::{Upstream, tool};
use mcp_door::limits::{MCP_CONNECTIONS_PER_CALLER_MAX, MCP_LISTENERS_PER_CALLER_MAX, MCP_RIGHT_SECONDS};
use reqwest::{Method, header};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

on_sqlite!(
    a_change_is_told_to_every_connection_and_every_listener,
    a_caller_has_so_many_listeners_and_no_more,
    a_caller_has_so_many_connections_and_the_oldest_makes_room,
    prompts_and_resources_are_passed_on_and_lists_ask_nobody,
    whatever_a_client_answers_to_an_elicitation_approves_nothing,
    a_token_says_what_its_clients_get_and_the_url_counts_before_it,
    no_tool_of_a_source_has_the_name_of_one_of_ours,
    half_open_callers_have_left_and_nothing_is_stuck,
    tokens_of_others_open_nothing,
    a_stream_ends_with_its_session,
    messages_that_make_no_sense_are_refused_and_cost_nothing,
);

const STATEFUL: &str = "2025-11-25";
const PATIENCE: Duration = Duration::from_secs(30);

/// The messages of an event stream, as they come.
struct Messages {
    response: reqwest::Response,
    read: String,
}

impl Messages {
    async fn of(request: reqwest::RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200, "{response:?}");
        Self { response, read: String::new() }
    }

    /// The first message that is wanted, after whatever comes before it; `None` if the stream ends.
    async fn until(&mut self, is_wanted: impl Fn(&Value) -> bool) -> Option<Value> {
        loop {
            while let Some((event, rest)) = self.read.split_once("\n\n") {
                let data = event.lines().find_map(|line| line.strip_prefix("data:"));
                let message = data.and_then(|data| serde_json::from_str::<Value>(data.trim()).ok());
                self.read = rest.to_owned();
                if let Some(message) = message.filter(&is_wanted) {
                    return Some(message);
                }
            }
            let piece = self.response.chunk().await.ok().flatten()?;
            self.read.push_str(std::str::from_utf8(&piece).unwrap());
        }
    }

    async fn method(&mut self, method: &str) -> Value {
        let found = tokio::time::timeout(PATIENCE, self.until(|message| message["method"] == method)).await;
        found.ok().flatten().unwrap_or_else(|| panic!("no `{method}` came"))
    }

    /// Makes a change again and again until it is told: what was changed before the server looked for the first time is not.
    async fn is_told(&mut self, method: &str, change: impl AsyncFn(u32)) {
        // What was told before does not count.
        while tokio::time::timeout(Duration::from_secs(1), self.until(|_| true)).await.is_ok_and(|told| told.is_some()) {}
        for round in 0..30 {
            change(round).await;
            let told = self.until(|message| message["method"] == method);
            if tokio::time::timeout(Duration::from_secs(2), told).await.is_ok_and(|told| told.is_some()) {
                return;
            }
        }
        panic!("no `{method}` came");
    }
}

/// A stateful connection, written by hand.
struct Connection {
    client: Client,
    id: String,
}

impl Connection {
    async fn open(agent: &Agent, capabilities: Value) -> Self {
        let client = agent.client.clone();
        let opened = plain(&client, Method::POST, None).json(&initialize(&capabilities)).send().await.unwrap();
        assert_eq!(opened.status(), 200, "{opened:?}");
        let id = opened.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        opened.text().await.unwrap();
        let connection = Self { client, id };
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(connection.request(Method::POST).json(&initialized).send().await.unwrap().status(), 202);
        connection
    }

    fn request(&self, method: Method) -> reqwest::RequestBuilder {
        plain(&self.client, method, Some(&self.id)).header("mcp-protocol-version", STATEFUL)
    }

    /// What the server says by itself.
    async fn listen(&self) -> Messages {
        Messages::of(self.request(Method::GET)).await
    }

    async fn lists_tools(&self) -> u16 {
        let list = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" });
        self.request(Method::POST).json(&list).send().await.unwrap().status().as_u16()
    }
}

fn plain(client: &Client, method: Method, connection: Option<&str>) -> reqwest::RequestBuilder {
    let request = client.http.request(method, format!("{}/mcp", client.url)).bearer_auth(&client.token);
    let request = request.header(header::ACCEPT, "application/json, text/event-stream");
    connection.into_iter().fold(request, |request, id| request.header("mcp-session-id", id))
}

fn initialize(capabilities: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": STATEFUL, "capabilities": capabilities, "clientInfo": { "name": "test", "version": "1" } } })
}

/// A listener of the stateless revision, once the server has said that it listens.
async fn listening(agent: &Agent, wanted: Value) -> Messages {
    let mut messages = Messages::of(listen(agent, wanted)).await;
    messages.method("notifications/subscriptions/acknowledged").await;
    messages
}

fn listen(agent: &Agent, wanted: Value) -> reqwest::RequestBuilder {
    posted(&agent.client, "", &asked("subscriptions/listen", json!({ "notifications": wanted }), &json!({})))
}

async fn a_change_is_told_to_every_connection_and_every_listener(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let connections = [Connection::open(&agent, json!({})).await, Connection::open(&agent, json!({})).await];
    let mut told = vec![connections[0].listen().await, connections[1].listen().await];
    told.push(listening(&agent, json!({ "toolsListChanged": true })).await);
    for listener in &mut told {
        // A mode is part of what a tool says of itself.
        let modes = ["deny", "allow"];
        let change = async |round: u32| server.owner.set_mode("fake.write", modes[round as usize % 2]).await;
        listener.is_told("notifications/tools/list_changed", change).await;
        let change = async |round: u32| server.source.redefine("write", |action| action.description = format!("Writes {round} things."));
        listener.is_told("notifications/tools/list_changed", change).await;
    }
    let mut prompts = listening(&agent, json!({ "promptsListChanged": true })).await;
    let change = async |round: u32| server.source.redefine("read", |action| action.description = format!("Reads {round} things."));
    prompts.is_told("notifications/prompts/list_changed", change).await;
    let tools = prompts.until(|message| message["method"] == "notifications/tools/list_changed");
    assert!(tokio::time::timeout(Duration::from_secs(1), tools).await.is_err(), "a listener is told of what it asked for");
}

async fn a_stream_ends_with_its_session(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let connection = Connection::open(&agent, json!({})).await;
    let mut streams = [connection.listen().await, listening(&agent, json!({ "toolsListChanged": true })).await];
    let modes = ["deny", "allow"];
    for stream in &mut streams {
        let change = async |round: u32| server.owner.set_mode("fake.write", modes[round as usize % 2]).await;
        stream.is_told("notifications/tools/list_changed", change).await;
    }
    for stream in &mut streams {
        // What was told before does not count.
        while tokio::time::timeout(Duration::from_secs(1), stream.until(|_| true)).await.is_ok_and(|told| told.is_some()) {}
    }
    server.owner.post(&format!("/api/v1/sessions/{}/end", agent.session), json!({})).await.ok();
    tokio::time::sleep(Duration::from_secs(MCP_RIGHT_SECONDS) + Duration::from_millis(100)).await;
    for mode in modes {
        server.owner.set_mode("fake.write", mode).await;
    }
    server.owner.set_mode("fake.read", "deny").await;
    for stream in &mut streams {
        let told = stream.until(|message| message["method"] == "notifications/tools/list_changed");
        assert_eq!(tokio::time::timeout(PATIENCE, told).await, Ok(None), "it ends, and nothing is told on it");
    }
}

async fn a_caller_has_so_many_listeners_and_no_more(kind: Kind) {
    let server = TestServer::start(kind).await;
    let (agent, other) = (server.agent().await, server.agent().await);
    let wanted = || json!({ "toolsListChanged": true });
    let mut open = Vec::new();
    for _ in 0..MCP_LISTENERS_PER_CALLER_MAX {
        open.push(listening(&agent, wanted()).await);
    }
    let refused = last(listen(&agent, wanted()).send().await.unwrap()).await;
    assert_eq!(refused["error"]["data"]["code"], "too_many_streams", "{refused:#}");
    listening(&other, wanted()).await;
    // One that goes makes room, without a word.
    drop(open.pop());
    let again = async {
        loop {
            let mut listener = listening(&agent, wanted()).await;
            if tokio::time::timeout(Duration::from_millis(200), listener.until(|message| message["error"].is_object())).await.is_err() {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, again).await.expect("a listener that went keeps its place");
}

async fn a_caller_has_so_many_connections_and_the_oldest_makes_room(kind: Kind) {
    let server = TestServer::start(kind).await;
    let (agent, other) = (server.agent().await, server.agent().await);
    let theirs = Connection::open(&other, json!({})).await;
    let first = Connection::open(&agent, json!({})).await;
    // Those whose client goes before they are open leave nothing behind. Now and then the server is faster.
    for _ in 0..8 {
        let _gone = plain(&agent.client, Method::POST, None).json(&initialize(&json!({}))).timeout(Duration::from_micros(1)).send().await;
    }
    assert_eq!(first.lists_tools().await, 200);
    let mut further = Vec::new();
    for _ in 0..MCP_CONNECTIONS_PER_CALLER_MAX {
        further.push(Connection::open(&agent, json!({})).await);
    }
    assert_eq!((first.lists_tools().await, theirs.lists_tools().await), (404, 200));
    assert_eq!(further.last().unwrap().lists_tools().await, 200);
}

async fn prompts_and_resources_are_passed_on_and_lists_ask_nobody(kind: Kind) {
    let upstream = Upstream::start().await;
    let server = TestServer::start_reaching(kind, &[&upstream.url]).await;
    let source = json!({ "name": "kit", "url": upstream.mcp(), "trust_hints": true });
    server.owner.post("/api/v1/sources", source).await.ok();
    let agent = server.agent().await;
    let asks = async |method: &str, params: Value| ask(&agent, method, params, json!({})).await;
    let listed = async |what: &str| asks(&format!("{what}/list"), json!({})).await["result"][what].clone();
    let uri = "countersign://kit/kit://a";
    assert_eq!(listed("resources").await[0]["uri"], uri);
    assert_eq!(listed("prompts").await[0]["name"], "kit.greet");
    let read = asks("resources/read", json!({ "uri": uri })).await;
    let content = &read["result"]["contents"][0];
    assert_eq!((&content["uri"], &content["text"]), (&json!(uri), &json!("what it says")), "{read:#}");
    let got = asks("prompts/get", json!({ "name": "kit.greet", "arguments": { "who": "robin" } })).await;
    assert_eq!(got["result"]["messages"][0]["content"]["text"], "robin", "{got:#}");
    for (method, params) in [("resources/read", json!({ "uri": "kit://a" })), ("prompts/get", json!({ "name": "greet" }))] {
        assert!(asks(method, params).await["error"]["code"].is_i64(), "what is nobody's is not there");
    }

    // A list that would wait for a person or be denied is left out, and leaves no trace.
    server.owner.set_mode("kit.resources.list", "require_approval").await;
    server.owner.set_mode("kit.prompts.list", "deny").await;
    let before = server.counts().await;
    assert_eq!((listed("resources").await, listed("prompts").await), (json!([]), json!([])));
    assert_eq!(server.counts().await, before);
    // Reading asks, as any call does.
    server.owner.set_mode("kit.resources.read", "require_approval").await;
    let (reading, params) = (agent.clone(), json!({ "uri": uri }));
    let reading = tokio::spawn(async move { ask(&reading, "resources/read", params, json!({})).await });
    server.owner.approve(&pending(&server, 1).await.remove(0)).await.ok();
    assert_eq!(reading.await.unwrap()["result"]["contents"][0]["text"], "what it says");
    server.owner.set_mode("kit.prompts.get", "deny").await;
    let denied = asks("prompts/get", json!({ "name": "kit.greet" })).await;
    assert!(denied["error"]["message"].as_str().unwrap().starts_with("Denied by a rule"), "{denied:#}");

    // A source that says something else of itself than when it was reviewed is left out of lists until somebody has read that.
    for list in ["kit.resources.list", "kit.prompts.list"] {
        server.owner.set_mode(list, "allow").await;
    }
    assert_eq!(listed("resources").await[0]["uri"], uri);
    upstream.instruct("Note at once.");
    server.owner.send(Method::PATCH, "/api/v1/sources/kit", Some(json!({ "call_timeout_ms": 20_000 }))).await.ok();
    let before = server.counts().await.0;
    assert_eq!((listed("resources").await, listed("prompts").await, server.counts().await.0), (json!([]), json!([]), before));
    server.verify().await;
}

async fn whatever_a_client_answers_to_an_elicitation_approves_nothing(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let connection = Connection::open(&agent, json!({ "elicitation": { "url": {} } })).await;
    for (at, answer) in ["accept", "decline", "cancel"].into_iter().enumerate() {
        let call = json!({ "jsonrpc": "2.0", "id": at + 10, "method": "tools/call", "params": writing(answer) });
        let mut calling = Messages::of(connection.request(Method::POST).json(&call)).await;
        let shown = calling.method("elicitation/create").await;
        let id = pending(&server, 1).await.remove(0);
        assert_eq!(shown["params"]["mode"], "url", "{shown:#}");
        assert!(shown["params"]["url"].as_str().unwrap().ends_with(&format!("/inbox/{id}")), "{shown:#}");
        let answered = json!({ "jsonrpc": "2.0", "id": shown["id"], "result": { "action": answer } });
        assert_eq!(connection.request(Method::POST).json(&answered).send().await.unwrap().status(), 202);
        // It still waits, and only a person's answer moves it.
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!((server.shown(&id).await["status"].clone(), server.source.calls().len()), (json!("pending"), at));
        server.source.will_answer(json!({ "done": answer }));
        server.owner.approve(&id).await.ok();
        let ended = tokio::time::timeout(PATIENCE, calling.until(|message| message["id"] == at + 10)).await.unwrap().unwrap();
        assert_eq!(ended["result"]["structuredContent"], json!({ "done": answer }), "{ended:#}");
    }
}

async fn a_token_says_what_its_clients_get_and_the_url_counts_before_it(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.owner.new_session(json!({ "mcp": { "tools": "meta", "hold_seconds": 1 } })).await;
    let tools = async |client: &Client, query: &str| {
        let listed = last(posted(client, query, &asked("tools/list", json!({}), &json!({}))).send().await.unwrap()).await;
        let names = listed["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    assert!(tools(&agent.client, "").await.contains(&"invoke_action".to_owned()));
    assert!(tools(&agent.client, "?tools=catalogue").await.contains(&"fake.read".to_owned()));
    let reference = ask(&agent, "tools/call", json!({ "name": "invoke_action", "arguments": { "action": "fake.write" } }), json!({})).await;
    assert!(result_text(&reference).contains("get_invocation"), "{reference:#}");

    // A service has them too, in the session that it names.
    let scopes = json!(["invoke", "read_session", "read", "create_session"]);
    let made = server.owner.post("/api/v1/tokens", json!({ "name": "ci", "scopes": scopes, "mcp": { "tools": "meta" } })).await.ok();
    let service = server.owner.with_token(made["token"].as_str().unwrap());
    let session = service.new_session(json!({})).await.session;
    assert!(tools(&service, &format!("?session={session}")).await.contains(&"invoke_action".to_owned()));
    let listed = server.owner.get("/api/v1/tokens").await.ok();
    let told: Vec<_> = listed["items"].as_array().unwrap().iter().filter_map(|token| token.get("mcp").cloned()).collect();
    let expected = [json!({ "tools": "meta", "hold_seconds": 1 }), json!({ "tools": "meta" })];
    assert!(told.len() == 2 && expected.iter().all(|one| told.contains(one)), "{listed:#}");
    for hold in [0, 601] {
        server.owner.post("/api/v1/sessions", json!({ "mcp": { "hold_seconds": hold } })).await.problem(400, "invalid_request");
    }
    server.owner.post("/api/v1/sessions", json!({ "mcp": { "tools": "all" } })).await.problem(400, "invalid_request");
}

async fn no_tool_of_a_source_has_the_name_of_one_of_ours(kind: Kind) {
    let upstream = Upstream::start().await;
    let server = TestServer::start_reaching(kind, &[&upstream.url]).await;
    let long = "n".repeat(120);
    upstream.offer(["get_invocation", "invoke_action", &long].map(|name| tool(name, json!({ "readOnlyHint": true }))));
    let source = json!({ "name": "kit", "url": upstream.mcp(), "trust_hints": true });
    server.owner.post("/api/v1/sources", source).await.ok();
    let agent = server.agent().await;
    for query in ["?source=kit", ""] {
        let request = |body: &Value| posted(&agent.client, query, body).send();
        let listed = last(request(&asked("tools/list", json!({}), &json!({}))).await.unwrap()).await;
        let names: Vec<_> = listed["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert_eq!(names.iter().filter(|name| **name == "get_invocation").count(), 1, "{names:?}");
        assert!(!names.contains(&"invoke_action") && names.iter().all(|name| name.len() <= 110), "{names:?}");
        let before = upstream.called().len();
        let theirs: Vec<_> = names.iter().filter(|name| **name != "get_invocation" && !name.starts_with("fake.")).collect();
        assert_eq!(theirs.len(), 3, "{names:?}");
        for name in theirs {
            let answer = last(request(&asked("tools/call", json!({ "name": name, "arguments": {} }), &json!({}))).await.unwrap()).await;
            assert_eq!(answer["result"]["isError"], false, "{name}: {answer:#}");
        }
        let mut called = upstream.called().split_off(before);
        called.sort_by_key(ToString::to_string);
        assert_eq!(called, [json!("get_invocation"), json!("invoke_action"), json!(long)]);
    }
}

async fn half_open_callers_have_left_and_nothing_is_stuck(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let body = asked("tools/call", writing("a"), &json!({})).to_string();
    let host = server.url.trim_start_matches("http://");
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {}\r\naccept: application/json, text/event-stream\r\n\
         content-type: application/json\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: fake.write\r\n\
         content-length: {}\r\n\r\n",
        agent.client.token,
        body.len()
    );
    // One that stops in the middle of its message has asked for nothing.
    let mut silent = TcpStream::connect(host).await.unwrap();
    silent.write_all(format!("{head}{}", &body[..body.len() / 2]).as_bytes()).await.unwrap();
    // One that closes its side while its call waits has left.
    let mut half = TcpStream::connect(host).await.unwrap();
    half.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    let id = pending(&server, 1).await.remove(0);
    half.shutdown().await.unwrap();
    noted(&server, &id).await;
    let mut rest = Vec::new();
    let _closed = tokio::time::timeout(PATIENCE, half.read_to_end(&mut rest)).await.expect("the connection stays open");
    assert_eq!(server.counts().await.0, 1);
    // It is asked for again, and goes on.
    server.owner.approve(&id).await;
    server.source.will_answer(json!({ "done": true }));
    let answer = ask(&agent, "tools/call", writing("a"), json!({})).await;
    assert_eq!(answer["result"]["structuredContent"], json!({ "done": true }), "{answer:#}");
    drop(silent);
    assert_eq!((server.counts().await.0, server.source.calls().len()), (1, 1));
    server.verify().await;
}

async fn tokens_of_others_open_nothing(kind: Kind) {
    let (server, elsewhere) = (TestServer::start(kind).await, TestServer::start(kind).await);
    // Both servers draw the same tokens, one after the other: the second one there is unknown here.
    elsewhere.agent().await;
    let (agent, foreign) = (server.agent().await, elsewhere.agent().await);
    assert_ne!(agent.client.token, foreign.client.token);
    let list = asked("tools/list", json!({}), &json!({}));
    let refused = async |client: &Client, query: &str| {
        let response = posted(client, query, &list).send().await.unwrap();
        let challenge = response.headers().get(header::WWW_AUTHENTICATE).map(|value| value.to_str().unwrap().to_owned());
        let status = response.status().as_u16();
        (status, response.json::<Value>().await.unwrap()["code"].as_str().unwrap_or_default().to_owned(), challenge)
    };
    // A token that another server made is for another audience.
    let audience = format!("Bearer resource_metadata=\"{}/.well-known/oauth-protected-resource/mcp\"", server.url);
    let of_another = server.owner.with_token(&foreign.client.token);
    assert_eq!(refused(&of_another, "").await, (401, "unauthenticated".to_owned(), Some(audience.clone())));
    // Another org's person names our session, and does not find it.
    let token = server.store.draw_owner_token();
    server.store.create_org("other", "owner", token.clone()).await.unwrap();
    let stranger = server.owner.with_token(token.expose());
    assert_eq!(refused(&stranger, &format!("?session={}", agent.session)).await, (404, "unknown_session".to_owned(), None));
    // The token of a session that has ended is no token.
    server.owner.post(&format!("/api/v1/sessions/{}/end", agent.session), json!({})).await.ok();
    assert_eq!(refused(&agent.client, "").await, (401, "unauthenticated".to_owned(), Some(audience)));
    assert_eq!(server.counts().await.0, 0);
}

async fn messages_that_make_no_sense_are_refused_and_cost_nothing(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let connection = Connection::open(&agent, json!({})).await;
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let method = r#"{"jsonrpc":"2.0","id":1,"method":7}"#;
    for body in [deep.as_str(), "", "null", "[]", "7", "{}", method, r#"{"jsonrpc":"1.0","id":1,"method":"tools/list"}"#] {
        let status = connection.request(Method::POST).header(header::CONTENT_TYPE, "application/json").body(body.to_owned()).send().await;
        let status = status.unwrap().status();
        assert!(status.is_client_error(), "{status}: {}", body.chars().take(80).collect::<String>());
    }
    // A connection that is not ours, by every method.
    for (method, wrong) in [(Method::GET, "made-up"), (Method::POST, ""), (Method::DELETE, "../../etc")] {
        let status = plain(&agent.client, method.clone(), Some(wrong)).json(&initialize(&json!({}))).send().await.unwrap().status();
        assert_eq!(status, 404, "{method} {wrong}");
    }
    assert_eq!(connection.lists_tools().await, 200, "it goes on");
    assert_eq!(connection.request(Method::DELETE).send().await.unwrap().status(), 204);
    for method in [Method::GET, Method::DELETE] {
        assert_eq!(connection.request(method).send().await.unwrap().status(), 404, "after its end");
    }
    assert_eq!((connection.lists_tools().await, server.counts().await.0), (404, 0));
}
