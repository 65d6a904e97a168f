//! `countersign mcp`: what a client writes to its stdin reaches `/mcp`, and what comes back is written to stdout, line by line.

use crate::countersign::{Ran, User};
use crate::mcp_upstream::{Asked, Reply, Then, Upstream};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::Stdio;

const STATELESS: &str = "io.modelcontextprotocol/protocolVersion";

fn user(url: &str) -> (tempfile::TempDir, User) {
    let folder = tempfile::tempdir().unwrap();
    let user = User::new(folder.path(), url, Some("cs_agent_mine"));
    (folder, user)
}

fn request(id: u32, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

fn initialize() -> Value {
    request(1, "initialize", json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } }))
}

fn lines(messages: &[Value]) -> String {
    messages.iter().map(|message| format!("{message}\n")).collect()
}

/// Every line of stdout is a message, and nothing else is there.
fn written(ran: &Ran) -> Vec<Value> {
    ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}: {ran:#?}"))).collect()
}

fn answer_to(id: u32, messages: &[Value]) -> &Value {
    messages.iter().find(|message| message["id"] == json!(id)).unwrap_or_else(|| panic!("{id}: {messages:#?}"))
}

/// An answer that opens or names a session.
fn in_session(asked: &Asked, session: &str, result: &Value) -> Reply {
    let body = json!({ "jsonrpc": "2.0", "id": asked.body["id"], "result": result }).to_string();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nmcp-session-id: {session}\r\nconnection: close\r\n");
    Reply { bytes: format!("{head}content-length: {}\r\n\r\n{body}", body.len()).into_bytes(), then: Then::End }
}

fn refused(status: &str, body: &str) -> Reply {
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/problem+json\r\nconnection: close\r\n");
    Reply { bytes: format!("{head}content-length: {}\r\n\r\n{body}", body.len()).into_bytes(), then: Then::End }
}

fn opened() -> Value {
    json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": { "name": "cs", "version": "1" } })
}

fn has(asked: &Asked, header: &str) -> bool {
    asked.head.lines().any(|line| line.eq_ignore_ascii_case(header))
}

#[test]
fn a_session_is_opened_carried_and_ended() {
    let upstream = Upstream::start();
    upstream.answers(|asked| (asked.method() == "initialize").then(|| in_session(asked, "s-1", &opened())));
    let (_folder, user) = user(upstream.origin());
    let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let ran = user.run_with_stdin(&["mcp"], &lines(&[initialize()])).ok();
    assert_eq!(answer_to(1, &written(&ran))["result"]["protocolVersion"], "2025-11-25");
    let ended = upstream.seen().pop().unwrap();
    assert!(ended.head.starts_with("DELETE /mcp ") && has(&ended, "mcp-session-id: s-1"), "{ended:?}");

    // A client waits for the answer before it goes on, so this one is written to while it runs.
    let mut child = user.command(&["mcp"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    let mut exchange = |sent: &[Value]| {
        stdin.write_all(lines(sent).as_bytes()).unwrap();
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        serde_json::from_str::<Value>(&line).unwrap()
    };
    exchange(&[initialize()]);
    let listed = exchange(&[initialized, request(2, "tools/list", json!({}))]);
    assert_eq!((&listed["id"], listed["result"]["tools"].as_array().unwrap().len()), (&json!(2), 2));
    upstream.wait_for(|asked| asked.head.starts_with("GET /mcp "));
    drop(stdin);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let asked = upstream.seen();
    let of = |method: &str| asked.iter().find(|asked| asked.method() == method).unwrap();
    for method in ["notifications/initialized", "tools/list"] {
        assert!(has(of(method), "mcp-session-id: s-1") && has(of(method), "mcp-protocol-version: 2025-11-25"), "{method}: {asked:#?}");
    }
    assert!(asked.iter().all(|asked| has(asked, "authorization: Bearer cs_agent_mine")), "{asked:#?}");
}

#[test]
fn a_request_without_a_session_names_its_revision_and_what_it_is_about() {
    let upstream = Upstream::start();
    let (_folder, user) = user(upstream.origin());
    let call = request(5, "tools/call", json!({ "name": "look", "arguments": {}, "_meta": { STATELESS: "2026-07-28" } }));
    let ran = user.run_with_stdin(&["mcp"], &lines(std::slice::from_ref(&call))).ok();
    assert_eq!(answer_to(5, &written(&ran))["result"]["content"][0]["text"], "done");
    let seen = upstream.seen();
    assert_eq!((seen.len(), &seen[0].body), (1, &call), "no session is ended that was not opened: {seen:#?}");
    for header in ["mcp-protocol-version: 2026-07-28", "mcp-method: tools/call", "mcp-name: look"] {
        assert!(has(&seen[0], header), "{header}: {seen:#?}");
    }
}

#[test]
fn events_become_lines_as_they_come() {
    let upstream = Upstream::start();
    upstream.answers(|asked| {
        let progress = json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": { "progress": 1 } });
        let pretty =
            serde_json::to_string_pretty(&json!({ "jsonrpc": "2.0", "id": asked.body["id"], "result": { "ok": "a\nb" } })).unwrap();
        let result: String = pretty.lines().map(|line| format!("data: {line}\n")).collect();
        Some(Reply::open("text/event-stream", format!(": alive\n\ndata: {progress}\n\nevent: message\n{result}\n")))
    });
    let (_folder, user) = user(upstream.origin());
    let messages = written(&user.run_with_stdin(&["mcp"], &lines(&[request(1, "tools/call", json!({}))])).ok());
    assert_eq!(messages.len(), 2, "{messages:#?}");
    assert_eq!((&messages[0]["method"], &messages[1]["result"]["ok"]), (&json!("notifications/progress"), &json!("a\nb")));
}

#[test]
fn what_goes_wrong_is_an_answer_that_says_what_to_do() {
    let ping = lines(&[request(9, "ping", json!({}))]);
    let (_folder, nobody) = user(&crate::fake::nobody());
    let ran = nobody.run_with_stdin(&["mcp"], &ping).ok();
    let error = answer_to(9, &written(&ran))["error"].clone();
    let told = error["message"].as_str().unwrap();
    assert!(told.contains("cannot be reached") && told.contains("countersign serve"), "{error}");

    let upstream = Upstream::start();
    let (_folder, user) = user(upstream.origin());
    let problem =
        json!({ "type": "about:blank", "code": "unauthenticated", "title": "t", "status": 401, "detail": "the token is not valid" });
    for (reply, expected) in [
        (Some(("401 Unauthorized", problem.to_string())), "COUNTERSIGN_TOKEN"),
        (Some(("502 Bad Gateway", "<html>".to_owned())), "502"),
        (None, "make the same call again"),
    ] {
        upstream.answers(move |_| {
            Some(
                reply.as_ref().map_or_else(
                    || Reply::open("text/event-stream", "data: {\"method\":\"x\"}\n\n"),
                    |(status, body)| refused(status, body),
                ),
            )
        });
        let ran = user.run_with_stdin(&["mcp"], &ping).ok();
        let told = answer_to(9, &written(&ran))["error"]["message"].as_str().unwrap_or_default().to_owned();
        assert!(told.contains(expected), "{expected}: {ran:#?}");
    }
    // An error that is JSON-RPC is passed on, with the id of the request.
    upstream.answers(|_| {
        let body = json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32022, "message": "no such revision" } }).to_string();
        let head = format!(
            "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        Some(Reply { bytes: [head, body].concat().into_bytes(), then: Then::End })
    });
    let ran = user.run_with_stdin(&["mcp"], &ping).ok();
    assert_eq!(answer_to(9, &written(&ran))["error"]["code"], -32022);
}

#[test]
fn lines_that_are_no_message_are_answered_and_nothing_is_sent() {
    let upstream = Upstream::start();
    let (_folder, user) = user(upstream.origin());
    let messages = written(&user.run_with_stdin(&["mcp"], "{\n\n[]\n{}\n").ok());
    let codes: Vec<_> = messages.iter().map(|message| message["error"]["code"].as_i64().unwrap()).collect();
    assert_eq!(codes, [-32_700, -32_600]);
    assert!(upstream.seen().is_empty());
}

#[test]
fn a_session_that_the_server_forgot_is_opened_again_without_the_client() {
    let upstream = Upstream::start();
    let (_folder, user) = user(upstream.origin());
    let mut child = user.command(&["mcp"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    let mut exchange = |sent: Value| {
        stdin.write_all(lines(&[sent]).as_bytes()).unwrap();
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        serde_json::from_str::<Value>(&line).unwrap()
    };
    upstream.answers(|asked| (asked.method() == "initialize").then(|| in_session(asked, "s-1", &opened())));
    exchange(initialize());
    // The server was started again: it knows no session of before.
    upstream.answers(|asked| match asked.method() {
        "initialize" => Some(in_session(asked, "s-2", &opened())),
        "tools/list" if !has(asked, "mcp-session-id: s-2") => Some(refused("404 Not Found", "")),
        _ => None,
    });
    let listed = exchange(request(2, "tools/list", json!({})));
    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 2, "{listed}");
    drop(stdin);
    child.wait().unwrap();
    let methods: Vec<_> = upstream.seen().iter().map(|asked| asked.method().to_owned()).filter(|method| !method.is_empty()).collect();
    assert_eq!(methods, ["initialize", "tools/list", "initialize", "notifications/initialized", "tools/list"]);
}

#[test]
fn a_cancelled_request_closes_its_stream_or_is_told_to_its_session() {
    for (meta, is_told) in [(json!({ STATELESS: "2026-07-28" }), false), (json!({}), true)] {
        let upstream = Upstream::start();
        upstream.answers(|asked| (asked.method() == "tools/call").then(|| Reply::stream(Then::Silence)));
        let (_folder, user) = user(upstream.origin());
        let mut child = user.command(&["mcp"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let call = request(3, "tools/call", json!({ "name": "slow", "_meta": meta }));
        stdin.write_all(lines(&[call]).as_bytes()).unwrap();
        upstream.wait_for_call("slow");
        let cancelled = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 3 } });
        stdin.write_all(lines(&[cancelled]).as_bytes()).unwrap();
        upstream.wait_for_hang_up();
        drop(stdin);
        child.wait().unwrap();
        let mut stdout = String::new();
        child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        assert_eq!(stdout, "", "a request that is no longer wanted has no answer");
        assert_eq!(upstream.seen().iter().any(|asked| asked.method() == "notifications/cancelled"), is_told);
    }
}

#[test]
fn a_context_that_is_named_wins_over_a_persons_token_in_a_variable() {
    let upstream = Upstream::start();
    let (folder, user) = user(&crate::fake::nobody());
    std::fs::create_dir(folder.path().join("config")).unwrap();
    let contexts = format!("[contexts.bot]\nurl = \"{}\"\ntoken = \"cs_agent_bot\"\nsession = \"ses_1\"\n", upstream.origin());
    std::fs::write(folder.path().join("config/contexts.toml"), contexts).unwrap();
    user.run_with_stdin(&["mcp", "--context", "bot"], &lines(&[request(1, "tools/list", json!({}))])).ok();
    assert!(has(&upstream.seen()[0], "authorization: Bearer cs_agent_bot"), "{:#?}", upstream.seen());
}
