//! Many at once: each of many held calls is released by its own answer and by no other, whichever server takes the answer, and many
//! connections hear of one change.

use crate::harness::{Agent, Client, Kind, TestServer, on_both_engines, on_postgres, on_sqlite};
use crate::mcp_door::{asked, last, posted};
use pipeline::limits::PENDING_PER_SESSION_MAX;
use rmcp::service::{ClientLifecycleMode, ClientServiceExt, NotificationContext};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientHandler, RoleClient};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

on_both_engines!(each_of_many_held_calls_is_released_by_its_own_answer);
on_postgres!(many_calls_that_are_held_on_one_server_are_released_by_the_other);
on_sqlite!(many_connections_hear_that_a_list_has_changed);

/// Held calls, all of which are on one page of a list.
const HELD: usize = 100;
const HELD_ELSEWHERE: usize = 30;
/// Connections of one caller.
const CONNECTIONS: usize = 20;

/// A call that is held on a stream of its own.
struct Waiting {
    id: String,
    caller: JoinHandle<Value>,
}

/// Makes calls at this address, as many in each session as it may have, and waits until all of them are held.
async fn hold_many(server: &TestServer, url: &str, count: usize) -> Vec<Waiting> {
    let mut callers = Vec::new();
    let mut agent: Option<Agent> = None;
    for number in 0..count {
        if number % PENDING_PER_SESSION_MAX as usize == 0 {
            agent = Some(server.agent().await);
        }
        let client = Client { url: url.to_owned(), ..agent.as_ref().unwrap().client.clone() };
        let call = json!({ "name": "fake.write", "arguments": { "text": number.to_string() } });
        let request = posted(&client, "?hold=600", &asked("tools/call", call, &json!({})));
        callers.push(tokio::spawn(async move { last(request.send().await.unwrap()).await }));
    }
    let items = loop {
        let listed = server.owner.get("/api/v1/invocations?status=pending&limit=100").await.ok();
        let items = listed["items"].as_array().unwrap().clone();
        if items.len() == count {
            break items;
        }
        assert!(callers.iter().all(|caller| !caller.is_finished()), "a call was answered instead of held");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let id_of = |number: usize| {
        items.iter().find(|item| item["params"]["text"].as_str() == Some(&number.to_string())).unwrap()["id"].as_str().unwrap()
    };
    callers.into_iter().enumerate().map(|(number, caller)| Waiting { id: id_of(number).to_owned(), caller }).collect()
}

/// Answers them in another order than they came, every second with a denial. Each caller hears of its own call, and nobody else is answered.
async fn release_each(owner: &Client, mut waiting: Vec<Waiting>) {
    let middle = waiting.len() / 2;
    waiting.rotate_left(middle);
    let mut denies = false;
    while let Some(Waiting { id, caller }) = waiting.pop() {
        let (answer, expected) = if denies { (owner.deny(&id, "no").await, "denied") } else { (owner.approve(&id).await, "succeeded") };
        answer.ok();
        denies = !denies;
        let told = caller.await.unwrap();
        let meta = &told["result"]["_meta"];
        assert_eq!((&meta["countersign/invocation"], &meta["countersign/status"]), (&json!(id), &json!(expected)), "{told:#}");
        assert!(waiting.iter().all(|other| !other.caller.is_finished()), "another caller was answered with `{id}`");
    }
}

async fn each_of_many_held_calls_is_released_by_its_own_answer(kind: Kind) {
    let server = TestServer::start(kind).await;
    let waiting = hold_many(&server, &server.url, HELD).await;
    release_each(&server.owner, waiting).await;
    assert_eq!(server.source.effects(), HELD as u64 / 2);
    server.verify().await;
}

async fn many_calls_that_are_held_on_one_server_are_released_by_the_other(kind: Kind) {
    let server = TestServer::start(kind).await;
    let other = server.restart().await;
    other.store.renew_lease().await.unwrap();
    let waiting = hold_many(&server, &other.url, HELD_ELSEWHERE).await;
    release_each(&server.owner, waiting).await;
    assert_eq!(server.source.effects(), HELD_ELSEWHERE as u64 / 2);
    server.verify().await;
}

/// Says which connection was told that its tools have changed.
struct Hears {
    number: usize,
    told: mpsc::UnboundedSender<usize>,
}

impl ClientHandler for Hears {
    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        // Nobody counts any longer once all have heard.
        let _uncounted = self.told.send(self.number);
    }
}

async fn many_connections_hear_that_a_list_has_changed(kind: Kind) {
    let server = TestServer::start(kind).await;
    let Client { http, url, token } = server.agent().await.client;
    let (told, mut heard) = mpsc::unbounded_channel();
    let mut connections = Vec::new();
    for number in 0..CONNECTIONS {
        let config = StreamableHttpClientTransportConfig::with_uri(format!("{url}/mcp")).auth_header(&token);
        let transport = StreamableHttpClientTransport::with_client(http.clone(), config);
        let hears = Hears { number, told: told.clone() };
        connections.push(hears.serve_with_lifecycle(transport, ClientLifecycleMode::Initialize).await.unwrap());
    }
    let mut hearing = BTreeSet::new();
    // A connection is followed a moment after it was opened, so there is more than one change.
    for mode in ["allow", "require_approval"].into_iter().cycle().take(200) {
        server.owner.set_mode("fake.write", mode).await;
        while let Ok(Some(number)) = tokio::time::timeout(Duration::from_millis(150), heard.recv()).await {
            hearing.insert(number);
        }
        if hearing.len() == CONNECTIONS {
            break;
        }
    }
    assert_eq!(hearing, (0..CONNECTIONS).collect::<BTreeSet<_>>());
    for connection in connections {
        connection.cancel().await.unwrap();
    }
}
