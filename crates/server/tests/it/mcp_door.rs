//! The MCP door: agents list and call actions as tools, in both lifecycles, and wait for people.

use crate::harness::{Agent, Client, Kind, TestServer, on_both_engines, on_sqlite};
use countersign_core::ports::Invocations;
use countersign_core::source::Output;
use countersign_core::{InvocationId, limits};
use reqwest::header;
use rmcp::RoleClient;
use rmcp::model::{CallToolRequestParams, CallToolResult, ProtocolVersion};
use rmcp::service::{ClientLifecycleMode, ClientServiceExt, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::task::JoinHandle;

on_both_engines!(
    a_call_whose_caller_left_waits_for_it_and_runs_once,
    what_had_begun_is_told_to_whoever_asks_again,
    a_call_that_is_never_asked_for_again_is_cancelled,
    a_caller_that_was_cut_off_by_a_restart_has_left,
    a_request_state_is_used_once_and_only_by_its_caller,
);
on_sqlite!(
    tools_are_the_catalogue_of_the_session,
    a_held_call_is_answered_when_a_person_decides,
    a_denial_and_an_expiry_have_words_of_their_own,
    two_open_streams_are_two_calls,
    a_reference_comes_before_the_clients_timer,
    three_tools_find_and_call_actions,
    a_task_is_an_invocation,
    nobody_uses_the_connection_of_another,
    bad_clients_get_documented_errors,
    a_call_that_was_left_is_to_be_made_again,
    a_batch_is_answered_in_turn,
    whoever_asks_for_one_source_gets_its_own_names,
    what_a_call_prints_is_told_to_a_caller_with_a_progress_token,
    what_an_approved_call_prints_is_told_too,
    a_rehearsed_call_is_no_success_of_its_tool,
    an_agent_is_told_what_its_source_did_not_get,
);

const STATELESS: &str = "2026-07-28";

fn lifecycles() -> [ClientLifecycleMode; 2] {
    [ClientLifecycleMode::Initialize, ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }]
}

/// A client of the official library.
async fn connected(agent: &Agent, query: &str, lifecycle: ClientLifecycleMode) -> RunningService<RoleClient, ()> {
    let config = StreamableHttpClientTransportConfig::with_uri(format!("{}/mcp{query}", agent.client.url)).auth_header(&agent.client.token);
    let transport = StreamableHttpClientTransport::with_client(agent.client.http.clone(), config);
    ().serve_with_lifecycle(transport, lifecycle).await.unwrap()
}

async fn called(client: &RunningService<RoleClient, ()>, tool: &str, arguments: Value) -> CallToolResult {
    let arguments = arguments.as_object().cloned().unwrap();
    client.call_tool(CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments)).await.unwrap()
}

fn text(result: &CallToolResult) -> String {
    result.content.iter().filter_map(|block| block.as_text()).map(|block| block.text.clone()).collect::<Vec<_>>().join("\n")
}

/// A request of the stateless revision, written by hand.
pub(crate) fn asked(method: &str, params: Value, capabilities: &Value) -> Value {
    let mut params = params;
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": STATELESS,
        "io.modelcontextprotocol/clientCapabilities": capabilities,
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
    });
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
}

pub(crate) fn posted(client: &Client, query: &str, body: &Value) -> reqwest::RequestBuilder {
    let request = client.http.post(format!("{}/mcp{query}", client.url)).bearer_auth(&client.token);
    let request = request.header(header::ACCEPT, "application/json, text/event-stream").header("mcp-protocol-version", STATELESS);
    let request = request.header("mcp-method", body["method"].as_str().unwrap_or_default());
    let name = ["name", "taskId", "uri"].into_iter().find_map(|member| body["params"][member].as_str());
    name.into_iter().fold(request, |request, name| request.header("mcp-name", name)).json(body)
}

/// The last message of an answer, which is an event stream or JSON.
pub(crate) async fn last(response: reqwest::Response) -> Value {
    let text = response.text().await.unwrap();
    let data = text.lines().rev().find_map(|line| line.strip_prefix("data:").map(str::trim).filter(|data| !data.is_empty()));
    serde_json::from_str(data.unwrap_or(&text)).unwrap_or_else(|_| panic!("no message in {text:?}"))
}

pub(crate) async fn ask(agent: &Agent, method: &str, params: Value, capabilities: Value) -> Value {
    last(posted(&agent.client, "", &asked(method, params, &capabilities)).send().await.unwrap()).await
}

pub(crate) fn writing(text: &str) -> Value {
    json!({ "name": "fake.write", "arguments": { "text": text } })
}

/// Makes a call in the background, as a client that waits.
pub(crate) fn waiting(agent: &Agent, params: Value) -> JoinHandle<Value> {
    let agent = agent.clone();
    tokio::spawn(async move { ask(&agent, "tools/call", params, json!({})).await })
}

/// Makes a call and gives up before it is answered.
pub(crate) async fn left(agent: &Agent, params: Value) {
    left_after(Duration::from_millis(700), agent, params).await;
}

pub(crate) async fn left_after(patience: Duration, agent: &Agent, params: Value) {
    let request = posted(&agent.client, "", &asked("tools/call", params, &json!({})));
    let gave_up = request.timeout(patience).send().await;
    assert!(gave_up.is_err(), "{gave_up:?}");
}

/// Waits until so many calls are pending; their ids, newest first.
pub(crate) async fn pending(server: &TestServer, count: usize) -> Vec<String> {
    loop {
        let answer = server.owner.get("/api/v1/invocations?status=pending").await;
        // A read may be told that its connection was cut while nobody used it. Then the next one has another.
        let listed = if answer.body["code"] == "store_unavailable" { json!({ "items": [] }) } else { answer.ok() };
        let items = listed["items"].as_array().unwrap();
        if items.len() >= count {
            return items.iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until it is stored that the caller has left.
pub(crate) async fn noted(server: &TestServer, invocation: &str) {
    let id = InvocationId::parse(invocation).unwrap();
    for _ in 0..500 {
        let row = server.store.find_invocation(&server.org, &id).await.unwrap().unwrap();
        if server.pipeline.is_left_by_caller(&row).await.unwrap() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("that the caller of `{invocation}` has left was not noted");
}

pub(crate) fn result_text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {answer:#}"))
}

async fn tools_are_the_catalogue_of_the_session(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    server.source.will_answer(json!({ "text": "hello" }));
    server.source.will_answer(json!({ "text": "hello" }));
    for lifecycle in lifecycles() {
        let client = connected(&agent, "", lifecycle).await;
        let tools = client.list_all_tools().await.unwrap();
        let names: Vec<_> = tools.iter().map(|tool| tool.name.as_ref()).collect();
        assert_eq!(names, ["fake.destroy", "fake.read", "fake.send", "fake.write", "get_invocation"]);
        let hints = |name: &str| tools.iter().find(|tool| tool.name == name).unwrap().annotations.clone().unwrap();
        assert_eq!((hints("fake.read").read_only_hint, hints("fake.read").destructive_hint), (Some(true), Some(false)));
        assert_eq!((hints("fake.destroy").read_only_hint, hints("fake.destroy").destructive_hint), (Some(false), Some(true)));
        assert!(client.peer_info().unwrap().instructions.as_ref().unwrap().contains("get_invocation"));
        let read = called(&client, "fake.read", json!({})).await;
        assert_eq!((read.is_error, read.structured_content), (Some(false), Some(json!({ "text": "hello" }))));
        client.cancel().await.unwrap();
    }
    server.verify().await;
}

async fn a_held_call_is_answered_when_a_person_decides(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    for lifecycle in lifecycles() {
        let before = server.source.calls().len();
        server.source.will_answer(json!({ "done": true }));
        let client = connected(&agent, "", lifecycle).await;
        let calling = tokio::spawn(async move {
            let result = called(&client, "fake.write", json!({ "text": "a" })).await;
            (client, result)
        });
        let id = pending(&server, 1).await.remove(0);
        server.owner.approve(&id).await.ok();
        let (client, result) = calling.await.unwrap();
        assert_eq!((result.is_error, result.structured_content), (Some(false), Some(json!({ "done": true }))));
        assert_eq!(server.source.calls().len(), before + 1);
        client.cancel().await.unwrap();
    }
}

async fn a_denial_and_an_expiry_have_words_of_their_own(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let calling = waiting(&agent, writing("a"));
    server.owner.deny(&pending(&server, 1).await.remove(0), "not on a Friday").await.ok();
    let denied = calling.await.unwrap();
    assert_eq!(denied["result"]["isError"], true);
    assert!(result_text(&denied).starts_with("Denied by a person: a person denied the call: not on a Friday"), "{denied:#}");

    let calling = waiting(&agent, writing("b"));
    pending(&server, 1).await;
    server.clock.advance_seconds(limits::APPROVAL_INTERACTIVE_SECONDS + 1);
    server.pipeline.sweep().await.unwrap();
    assert!(result_text(&calling.await.unwrap()).starts_with("Expired: nobody answered in time"));

    let by_rule = ask(&agent, "tools/call", json!({ "name": "fake.destroy", "arguments": {} }), json!({})).await;
    assert!(result_text(&by_rule).starts_with("Denied by a rule: action `fake.destroy` (R4) is denied"), "{by_rule:#}");
    assert_eq!(by_rule["result"]["_meta"]["countersign/code"], "denied_by_mode");
    let unknown = ask(&agent, "tools/call", json!({ "name": "fake.wrte", "arguments": {} }), json!({})).await;
    assert_eq!(unknown["error"]["code"], -32602, "{unknown:#}");
    assert!(unknown["error"]["message"].as_str().unwrap().contains("`fake.write`"));
    let wrong = ask(&agent, "tools/call", json!({ "name": "fake.write", "arguments": { "text": 7 } }), json!({})).await;
    assert!(wrong["result"]["isError"] == true && result_text(&wrong).contains("/text"), "{wrong:#}");
    assert_eq!(server.source.calls().len(), 0);
}

async fn a_rehearsed_call_is_no_success_of_its_tool(kind: Kind) {
    let server = TestServer::start(kind).await;
    server.source.redefine("write", |action| action.result_schema = json!({ "type": "object", "required": ["done"] }));
    server.owner.set_mode("fake.write", "allow").await;
    let agent = server.agent().await;
    let on = json!({ "scope": "org", "stop": "as_dry_run", "reason": "plan on" });
    server.owner.post("/api/v1/kill-switches/on", on).await.ok();
    for lifecycle in lifecycles() {
        let client = connected(&agent, "", lifecycle).await;
        let rehearsed = called(&client, "fake.write", json!({ "text": "x" })).await;
        assert_eq!((rehearsed.is_error, &rehearsed.structured_content), (Some(true), &None), "{rehearsed:?}");
        assert!(text(&rehearsed).contains("nothing was done, and this is the dry run"), "{rehearsed:?}");
    }
    assert_eq!((server.source.effects(), server.source.previews().len()), (0, 2));
    server.verify().await;
}

async fn an_agent_is_told_what_its_source_did_not_get(kind: Kind) {
    let server = TestServer::start(kind).await;
    server.owner.set_mode("fake.write", "allow").await;
    server.change_space(json!({ "redaction": { "kinds": ["email"], "regions": [] } })).await;
    let agent = server.agent().await;
    for lifecycle in lifecycles() {
        let client = connected(&agent, "", lifecycle).await;
        let plain = called(&client, "fake.write", json!({ "text": "x" })).await;
        assert!(!text(&plain).contains("Redacted"), "{plain:?}");
        let told = called(&client, "fake.write", json!({ "text": "to jane.doe@example.com" })).await;
        assert!(text(&told).contains("Redacted from the arguments, by the rule of this space: 1 email."), "{told:?}");
        assert_eq!(told.meta.unwrap().0["countersign/redacted"], json!({ "email": 1 }));
    }
    server.verify().await;
}

async fn a_call_whose_caller_left_waits_for_it_and_runs_once(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    left(&agent, writing("a")).await;
    let id = pending(&server, 1).await.remove(0);
    noted(&server, &id).await;
    assert_eq!(server.shown(&id).await["caller_left"], true);
    // Approved while nobody waits: the approval is kept.
    let kept = server.owner.approve(&id).await;
    assert_eq!((kept.status, &kept.body["invocation"]["status"]), (202, &json!("approved")), "{kept:?}");
    server.pipeline.sweep().await.unwrap();
    assert_eq!(server.source.calls().len(), 0);
    // Other words are another call.
    left(&agent, writing("b")).await;
    assert_ne!(pending(&server, 1).await.remove(0), id);

    server.source.will_answer(json!({ "done": true }));
    let answer = ask(&agent, "tools/call", writing("a"), json!({})).await;
    assert_eq!(answer["result"]["structuredContent"], json!({ "done": true }), "{answer:#}");
    assert_eq!(answer["result"]["_meta"]["countersign/invocation"], id.as_str());
    assert_eq!(server.source.calls().len(), 1);
    // It was delivered: the same words are a new call.
    let again = waiting(&agent, writing("a"));
    assert_ne!(pending(&server, 2).await[0], id);
    again.abort();
    server.verify().await;
}

async fn what_had_begun_is_told_to_whoever_asks_again(kind: Kind) {
    let server = TestServer::start(kind).await;
    server.owner.set_mode("fake.write", "allow").await;
    let agent = server.agent().await;
    let mut held = server.source.will_hold(Ok(Output::new(json!({ "done": true }))));
    let (leaving, arrived) = (left(&agent, writing("a")), held.arrived());
    tokio::join!(leaving, arrived);
    let running = server.owner.get("/api/v1/invocations?status=running").await.ok();
    let id = running["items"][0]["id"].as_str().unwrap().to_owned();
    noted(&server, &id).await;
    let calling = waiting(&agent, writing("a"));
    tokio::time::sleep(Duration::from_millis(200)).await;
    held.release();
    let answer = calling.await.unwrap();
    assert_eq!(answer["result"]["_meta"]["countersign/invocation"], id.as_str(), "{answer:#}");
    assert_eq!((server.source.calls().len(), server.counts().await.0), (1, 1));
}

/// The messages of an event stream.
fn messages(answer: &str) -> Vec<Value> {
    answer.lines().filter_map(|line| line.strip_prefix("data:")).filter_map(|data| serde_json::from_str(data).ok()).collect()
}

async fn a_call_that_was_left_is_to_be_made_again(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    left(&agent, writing("a")).await;
    let id = pending(&server, 1).await.remove(0);
    noted(&server, &id).await;
    let told = async || {
        let looking = json!({ "name": "get_invocation", "arguments": { "id": id, "wait_seconds": 0 } });
        let told = ask(&agent, "tools/call", looking, json!({})).await;
        let task =
            ask(&agent, "tasks/get", json!({ "taskId": id }), json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } })).await;
        for text in [result_text(&told), task["result"]["statusMessage"].as_str().unwrap_or_else(|| panic!("{task:#}"))] {
            assert!(text.contains("Make the same call again") && !text.contains("Do not repeat"), "{text}");
        }
        result_text(&told).to_owned()
    };
    assert!(told().await.contains("waits for a person's approval"));
    server.owner.approve(&id).await;
    assert!(told().await.contains("is approved and has not begun"));
    server.source.will_answer(json!({ "done": true }));
    let answer = ask(&agent, "tools/call", writing("a"), json!({})).await;
    assert_eq!(answer["result"]["_meta"]["countersign/invocation"], json!(id), "{answer:#}");
}

async fn a_batch_is_answered_in_turn(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    server.source.will_answer(json!({ "text": "hello" }));
    let post = |connection: Option<&str>, body: &Value| {
        let request = agent.client.http.post(format!("{}/mcp", server.url)).bearer_auth(&agent.client.token);
        let request = request.header(header::ACCEPT, "application/json, text/event-stream");
        connection.into_iter().fold(request, |request, id| request.header("mcp-session-id", id)).json(body).send()
    };
    let initialize = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } } });
    let opened = post(None, &initialize).await.unwrap();
    let connection = opened.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    opened.text().await.unwrap();
    let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    assert_eq!(post(Some(&connection), &json!([initialized])).await.unwrap().status(), 202);
    let call = |id: u64| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": "fake.read", "arguments": {} } });
    let batch = json!([{ "jsonrpc": "2.0", "id": 2, "method": "tools/list" }, call(3)]);
    let answers = messages(&post(Some(&connection), &batch).await.unwrap().text().await.unwrap());
    let ids: Vec<_> = answers.iter().map(|answer| &answer["id"]).collect();
    assert_eq!(ids, [&json!(2), &json!(3)], "{answers:#?}");
    assert_eq!(answers[1]["result"]["structuredContent"], json!({ "text": "hello" }));
    for bad in [json!([]), json!([initialize]), Value::from(vec![call(4); mcp_door::limits::MCP_BATCH_MESSAGES_MAX + 1])] {
        let refused = post(Some(&connection), &bad).await.unwrap();
        assert_eq!(refused.status(), 400);
        assert_eq!(refused.json::<Value>().await.unwrap()["error"]["code"], -32600);
    }
}

async fn what_an_approved_call_prints_is_told_too(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let mut held = server.source.will_hold(Ok(Output::new(json!({ "done": true }))));
    let mut request = asked("tools/call", writing("a"), &json!({}));
    request["params"]["_meta"]["progressToken"] = json!("mine");
    let calling = tokio::spawn(posted(&agent.client, "", &request).send());
    let id = pending(&server, 1).await.remove(0);
    let owner = server.owner.clone();
    let approving = tokio::spawn(async move { owner.approve(&id).await });
    held.arrived().await;
    let source = server.source.calls().pop().unwrap().context.progress.expect("a call that is walked is told from");
    source.tell("one\ntwo");
    held.release();
    let answer = calling.await.unwrap().unwrap().text().await.unwrap();
    let messages = messages(&answer);
    let texts: Vec<_> = messages.iter().filter_map(|message| message["params"]["message"].as_str()).collect();
    assert!(texts.ends_with(&["one", "two"]), "{answer}");
    assert_eq!(messages.last().unwrap()["result"]["isError"], false, "{answer}");
    approving.await.unwrap().ok();
}

async fn what_a_call_prints_is_told_to_a_caller_with_a_progress_token(kind: Kind) {
    let server = TestServer::start(kind).await;
    server.owner.set_mode("fake.write", "allow").await;
    let agent = server.agent().await;
    let mut held = server.source.will_hold(Ok(Output::new(json!({ "done": true }))));
    let mut request = asked("tools/call", writing("a"), &json!({}));
    request["params"]["_meta"]["progressToken"] = json!("mine");
    let calling = tokio::spawn(posted(&agent.client, "", &request).send());
    held.arrived().await;
    let source = server.source.calls().pop().unwrap().context.progress.expect("a call that is walked is told from");
    source.tell("one\ntwo");
    held.release();
    let answer = calling.await.unwrap().unwrap().text().await.unwrap();
    let messages = messages(&answer);
    let told: Vec<_> = messages.iter().filter(|message| message["method"] == "notifications/progress").collect();
    let texts: Vec<_> = told.iter().map(|message| (&message["params"]["progressToken"], &message["params"]["message"])).collect();
    assert_eq!(texts, [(&json!("mine"), &json!("one")), (&json!("mine"), &json!("two"))], "{answer}");
    assert!(told[0]["params"]["progress"].as_f64() < told[1]["params"]["progress"].as_f64(), "{answer}");
    assert_eq!(messages.last().unwrap()["result"]["isError"], false, "{answer}");
}

async fn a_call_that_is_never_asked_for_again_is_cancelled(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    left(&agent, writing("a")).await;
    let id = pending(&server, 1).await.remove(0);
    noted(&server, &id).await;
    server.owner.approve(&id).await;
    server.clock.advance_seconds(limits::APPROVAL_INTERACTIVE_SECONDS + 1);
    server.pipeline.sweep().await.unwrap();
    let receipt = server.receipt_of(&id).await;
    assert_eq!((&receipt["status"], &receipt["error"]), (&json!("cancelled"), &json!("caller_left")), "{receipt:#}");
    let again = waiting(&agent, writing("a"));
    assert_ne!(pending(&server, 1).await.remove(0), id, "what was cancelled is not joined");
    again.abort();
    assert_eq!(server.source.calls().len(), 0);
    server.verify().await;
}

async fn a_caller_that_was_cut_off_by_a_restart_has_left(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let calling = waiting(&agent, writing("a"));
    let id = pending(&server, 1).await.remove(0);
    // Another process on the same database: the one that had the line has no lease, and counts as gone.
    let next = server.restart().await;
    noted(&next, &id).await;
    let kept = next.owner.approve(&id).await;
    assert_eq!(kept.body["invocation"]["status"], "approved", "{kept:?}");
    next.source.will_answer(json!({ "done": true }));
    let agent = Agent { client: Client { url: next.url.clone(), ..agent.client.clone() }, ..agent };
    let answer = ask(&agent, "tools/call", writing("a"), json!({})).await;
    assert_eq!(answer["result"]["_meta"]["countersign/invocation"], id.as_str(), "{answer:#}");
    assert_eq!(next.source.calls().len(), 1);
    calling.abort();
}

async fn two_open_streams_are_two_calls(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let calls = [waiting(&agent, writing("a")), waiting(&agent, writing("a"))];
    for id in pending(&server, 2).await {
        server.source.will_answer(json!({ "done": true }));
        server.owner.approve(&id).await.ok();
    }
    let mut ids = Vec::new();
    for call in calls {
        ids.push(call.await.unwrap()["result"]["_meta"]["countersign/invocation"].as_str().unwrap().to_owned());
    }
    assert_ne!(ids[0], ids[1]);
    assert_eq!(server.source.calls().len(), 2);
}

async fn a_reference_comes_before_the_clients_timer(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let request = posted(&agent.client, "?hold=1", &asked("tools/call", writing("a"), &json!({})));
    let answer = last(request.send().await.unwrap()).await;
    let id = answer["result"]["_meta"]["countersign/invocation"].as_str().unwrap().to_owned();
    assert!(result_text(&answer).contains("get_invocation"), "{answer:#}");
    assert!(answer["result"]["_meta"]["countersign/approval_url"].as_str().unwrap().ends_with(&format!("/inbox/{id}")));
    // It has not left: an approval runs at once.
    server.source.will_answer(json!({ "done": true }));
    let approved = server.owner.approve(&id).await.ok();
    assert_eq!(approved["invocation"]["status"], "succeeded");
    let told = ask(&agent, "tools/call", json!({ "name": "get_invocation", "arguments": { "id": id } }), json!({})).await;
    assert_eq!(told["result"]["structuredContent"], json!({ "done": true }), "{told:#}");
    let page = server.owner.get(&format!("/inbox/{id}")).await;
    assert!(page.status == 401 && !page.body.as_str().unwrap().contains("fake.write"), "the address alone tells nothing of the call");
}

async fn three_tools_find_and_call_actions(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let client = connected(&agent, "?tools=meta", ClientLifecycleMode::Initialize).await;
    let tools = client.list_all_tools().await.unwrap();
    let names: Vec<_> = tools.iter().map(|tool| tool.name.as_ref()).collect();
    assert_eq!(names, ["search_actions", "describe_action", "invoke_action", "get_invocation"]);
    let found = called(&client, "search_actions", json!({ "query": "read" })).await.structured_content.unwrap();
    assert_eq!(found["actions"][0]["action"], "fake.read", "{found:#}");
    let described = called(&client, "describe_action", json!({ "action": "fake.write" })).await.structured_content.unwrap();
    assert_eq!((&described["tier"], &described["params_schema"]["type"]), (&json!("R2"), &json!("object")));
    server.source.will_answer(json!({ "text": "hello" }));
    let read = called(&client, "invoke_action", json!({ "action": "fake.read", "params": {} })).await;
    assert_eq!(read.structured_content, Some(json!({ "text": "hello" })));
    let unknown = called(&client, "describe_action", json!({ "action": "fake.nothing" })).await;
    assert!(unknown.is_error == Some(true) && text(&unknown).contains("there is no action"), "{unknown:?}");
    client.cancel().await.unwrap();
}

async fn whoever_asks_for_one_source_gets_its_own_names(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let client = connected(&agent, "?source=fake", ClientLifecycleMode::Initialize).await;
    let tools = client.list_all_tools().await.unwrap();
    assert!(tools.iter().any(|tool| tool.name == "read"), "{tools:?}");
    server.source.will_answer(json!({ "text": "hello" }));
    assert_eq!(called(&client, "read", json!({})).await.structured_content, Some(json!({ "text": "hello" })));
    client.cancel().await.unwrap();
}

async fn a_request_state_is_used_once_and_only_by_its_caller(kind: Kind) {
    let server = TestServer::start(kind).await;
    let (agent, other) = (server.agent().await, server.agent().await);
    let shows = json!({ "elicitation": { "url": {} } });
    let first = ask(&agent, "tools/call", writing("a"), shows.clone()).await;
    assert_eq!(first["result"]["resultType"], "input_required", "{first:#}");
    let (state, asks) = (first["result"]["requestState"].clone(), &first["result"]["inputRequests"]["approval"]);
    assert_eq!(asks["params"]["mode"], "url");
    let id = pending(&server, 1).await.remove(0);
    assert!(asks["params"]["url"].as_str().unwrap().ends_with(&format!("/inbox/{id}")));
    assert!(asks["params"]["message"].as_str().unwrap().contains("log in"), "the address is nobody's login: {asks:#}");
    let retry = |text: &str, state: &Value| {
        let accepted = json!({ "approval": { "action": "accept" } });
        json!({ "name": "fake.write", "arguments": { "text": text }, "requestState": state, "inputResponses": accepted })
    };
    // Not for other params, not for another caller, and not if it was changed.
    let refused = |answer: &Value| assert!(result_text(answer).contains("request state"), "{answer:#}");
    refused(&ask(&agent, "tools/call", retry("b", &state), shows.clone()).await);
    refused(&ask(&other, "tools/call", retry("a", &state), shows.clone()).await);
    refused(&ask(&agent, "tools/call", retry("a", &json!("forged")), shows.clone()).await);
    // The client's own accept approves nothing: the call still waits.
    let going_on = {
        let (agent, params, shows) = (agent.clone(), retry("a", &state), shows.clone());
        tokio::spawn(async move { ask(&agent, "tools/call", params, shows).await })
    };
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(server.source.calls().len(), 0);
    server.source.will_answer(json!({ "done": true }));
    server.owner.approve(&id).await.ok();
    let answer = going_on.await.unwrap();
    assert_eq!(answer["result"]["structuredContent"], json!({ "done": true }), "{answer:#}");
    refused(&ask(&agent, "tools/call", retry("a", &state), shows).await);
    assert_eq!((server.source.calls().len(), server.counts().await.0), (1, 1));
}

async fn a_task_is_an_invocation(kind: Kind) {
    let server = TestServer::start(kind).await;
    let (agent, other) = (server.agent().await, server.agent().await);
    let tasks = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    let made = ask(&agent, "tools/call", writing("a"), tasks.clone()).await;
    assert_eq!((&made["result"]["resultType"], &made["result"]["status"]), (&json!("task"), &json!("working")), "{made:#}");
    let id = made["result"]["taskId"].as_str().unwrap().to_owned();
    let get = |agent: Agent| {
        let (id, tasks) = (id.clone(), tasks.clone());
        async move { ask(&agent, "tasks/get", json!({ "taskId": id }), tasks).await }
    };
    assert_eq!(get(agent.clone()).await["result"]["status"], "working");
    assert_eq!(get(other).await["error"]["code"], -32602, "a task of another session does not exist");
    server.source.will_answer(json!({ "done": true }));
    server.owner.approve(&id).await.ok();
    let ended = get(agent.clone()).await;
    assert_eq!(
        (&ended["result"]["status"], &ended["result"]["result"]["structuredContent"]),
        (&json!("completed"), &json!({ "done": true }))
    );

    let made = ask(&agent, "tools/call", writing("b"), tasks.clone()).await;
    let id = made["result"]["taskId"].as_str().unwrap().to_owned();
    ask(&agent, "tasks/cancel", json!({ "taskId": id }), tasks).await;
    assert_eq!(server.receipt_of(&id).await["status"], "cancelled");
}

async fn nobody_uses_the_connection_of_another(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let made = server.owner.post("/api/v1/orgs", json!({ "name": "acme" })).await.ok();
    let redeemed = server.owner.post("/api/v1/invitations/redeem", json!({ "invitation": made["invitation"]["invitation"] })).await.ok();
    let stranger = server.owner.with_token(redeemed["token"].as_str().unwrap()).new_session(json!({})).await;
    let initialize = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } } });
    let post = |client: &Client, connection: Option<&str>, body: &Value| {
        let request = client.http.post(format!("{}/mcp", client.url)).bearer_auth(&client.token);
        let request = request.header(header::ACCEPT, "application/json, text/event-stream");
        connection.into_iter().fold(request, |request, id| request.header("mcp-session-id", id)).json(body).send()
    };
    let opened = post(&agent.client, None, &initialize).await.unwrap();
    let id = opened.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    opened.text().await.unwrap();
    let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    assert_eq!(post(&agent.client, Some(&id), &initialized).await.unwrap().status(), 202);
    let list = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" });
    assert!(last(post(&agent.client, Some(&id), &list).await.unwrap()).await["result"]["tools"].is_array());
    for (who, connection) in [(&stranger.client, id.as_str()), (&server.agent().await.client, &id), (&agent.client, "made-up")] {
        assert_eq!(post(who, Some(connection), &list).await.unwrap().status(), 404);
    }
    // A person has no session of their own, and names one.
    let unnamed = server.owner.raw("/mcp", "application/json", "{}").await;
    unnamed.problem(400, "invalid_request");
    // After its end a connection is like one that never was.
    let ended = agent.client.http.delete(format!("{}/mcp", server.url)).bearer_auth(&agent.client.token).header("mcp-session-id", &id);
    assert_eq!(ended.send().await.unwrap().status(), 204);
    assert_eq!(post(&agent.client, Some(&id), &list).await.unwrap().status(), 404);
}

async fn bad_clients_get_documented_errors(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let list = asked("tools/list", json!({}), &json!({}));
    let anonymous = agent.client.http.post(format!("{}/mcp", server.url)).json(&list).send().await.unwrap();
    assert_eq!(anonymous.status(), 401);
    let challenge = anonymous.headers()[header::WWW_AUTHENTICATE.as_str()].to_str().unwrap().to_owned();
    let metadata = challenge.split('"').nth(1).unwrap().strip_prefix(&server.url).unwrap().to_owned();
    assert_eq!(server.owner.get(&metadata).await.ok()["resource"], format!("{}/mcp", server.url));

    let status = async |request: reqwest::RequestBuilder| request.send().await.unwrap().status().as_u16();
    assert_eq!(status(posted(&agent.client, "", &list)).await, 200);
    assert_eq!(status(posted(&agent.client, "", &list).header(header::ORIGIN, "https://evil.example.com")).await, 403);
    assert_eq!(status(posted(&agent.client, "", &list).header(header::HOST, "evil.example.com")).await, 403);
    assert_eq!(status(posted(&agent.client, "?hold=9999", &list)).await, 400);
    assert_eq!(status(posted(&agent.client, "?tool=meta", &list)).await, 400);
    let large = asked("tools/call", writing(&"x".repeat(limits::BODY_BYTES_MAX)), &json!({}));
    assert_eq!(status(posted(&agent.client, "", &large)).await, 413);
    let doubled = r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/list"}"#;
    assert_eq!(agent.client.raw("/mcp", "application/json", doubled).await.status, 400);
    agent.client.get("/mcp?session=ses_00000000000000000000000000").await.problem(403, "not_your_session");
    assert_eq!(server.counts().await.0, 0, "no call was made");
}
