//! Tests of the source with servers that behave.

use super::super::testing::{Piece, Reply, Request, Server, answer, error, event, events, head, http, result, text, tool};
use super::*;
use crate::builtin::tests::context;
use countersign_core::Tier;
use countersign_core::effect::Progress;
use countersign_core::ports::connections::{ConnectionHeaders, Refusal};
use countersign_core::retry::FailureCause;
use countersign_core::source::AfterError;
use parking_lot::Mutex;
use serde_json::json;
use std::sync::atomic::AtomicUsize;
use tokio::sync::Notify;

async fn call(source: &McpSource, action: &str, params: Value) -> Result<Output, Error> {
    source.call(&context(), &ActionId::parse(action).unwrap(), &params).await
}

async fn listed(source: &McpSource) -> Vec<String> {
    source.list(&context().org).await.unwrap().iter().map(|action| action.id.to_string()).collect()
}

fn is(method: &str) -> impl Fn(&Request) -> bool + '_ {
    move |request| request.method() == method
}

#[tokio::test]
async fn a_server_with_sessions_is_listed_and_called() {
    let server = Server::legacy(|_| None).await;
    let source = server.source();
    assert_eq!(listed(&source).await, ["kit.look", "kit.set"]);
    assert_eq!(call(&source, "kit.look", json!({ "q": 1 })).await.unwrap().value, text("done"));
    let called = server.came(is("tools/call")).await;
    assert_eq!((called.params()["name"].as_str(), &called.params()["arguments"]), (Some("look"), &json!({ "q": 1 })));
    assert_eq!((called.header("mcp-session-id"), called.header("mcp-protocol-version")), (Some("s1"), Some("2025-11-25")));
    assert_eq!(source.guide().as_deref(), Some("Use it\\u{202e} with care."));
    assert_eq!(source.known().unwrap().version, "2025-11-25");
    let methods = server.methods();
    assert_eq!(methods, ["server/discover", "initialize", "notifications/initialized", "tools/list", "tools/call"], "one connection");
}

#[tokio::test]
async fn a_server_without_sessions_is_listed_and_called() {
    let server = Server::modern(|_| None).await;
    let source = server.source();
    assert_eq!(listed(&source).await, ["kit.look", "kit.set"]);
    assert_eq!(listed(&source).await, ["kit.look", "kit.set"]);
    assert_eq!(call(&source, "kit.set", json!({})).await.unwrap().value, text("done"));
    let called = server.came(is("tools/call")).await;
    let meta = &called.params()["_meta"];
    assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    assert_eq!((called.header("mcp-method"), called.header("mcp-name")), (Some("tools/call"), Some("set")));
    assert_eq!(called.header("mcp-session-id"), None);
    assert_eq!(source.known().unwrap().version, "2026-07-28");
    assert_eq!(server.methods(), ["server/discover", "tools/list", "tools/list", "tools/call"], "nothing is cached, whatever it promises");
}

#[tokio::test]
async fn every_earlier_revision_is_spoken() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let server = Server::legacy(move |request| {
            let info = json!({ "protocolVersion": version, "capabilities": {}, "serverInfo": { "name": "kit", "version": "1" } });
            (request.method() == "initialize").then(|| answer(request, info))
        })
        .await;
        let source = server.source();
        assert_eq!(listed(&source).await.len(), 2, "{version}");
        assert_eq!(source.known().unwrap().version, version);
        assert!(call(&source, "kit.look", json!({})).await.is_ok(), "{version}");
    }
}

#[tokio::test]
async fn a_server_that_knows_the_new_question_and_only_old_revisions_is_spoken_to_in_an_old_one() {
    let server = Server::legacy(|request| {
        let only = json!({ "resultType": "complete", "supportedVersions": ["2025-11-25"], "capabilities": {}, "ttlMs": 0, "cacheScope": "private" });
        (request.method() == "server/discover").then(|| answer(request, only))
    })
    .await;
    let source = server.source();
    assert_eq!(listed(&source).await.len(), 2);
    assert_eq!(source.known().unwrap().version, "2025-11-25");
}

#[tokio::test]
async fn a_server_that_answers_the_new_question_with_nothing_is_spoken_to_in_an_old_revision() {
    let server = Server::legacy(|request| (request.method() == "server/discover").then(|| answer(request, json!({})))).await;
    let source = server.source();
    assert_eq!(listed(&source).await.len(), 2);
    assert_eq!(source.known().unwrap().version, "2025-11-25");
}

#[tokio::test]
async fn pages_are_read_to_the_end() {
    let server = Server::legacy(|request| {
        (request.method() == "tools/list").then(|| match request.params()["cursor"].as_str() {
            None => answer(request, json!({ "tools": [tool("a")], "nextCursor": "2" })),
            Some("2") => answer(request, json!({ "tools": [], "nextCursor": "3" })),
            Some(_) => answer(request, json!({ "tools": [tool("b")], "nextCursor": "" })),
        })
    })
    .await;
    assert_eq!(listed(&server.source()).await, ["kit.a", "kit.b"]);
}

#[tokio::test]
async fn a_tool_that_cannot_be_offered_does_not_hide_the_others() {
    let server = Server::legacy(|request| {
        let tools =
            json!([tool("good"), { "name": "bad" }, 7, tool("b d"), tool("twice"), tool("also.good"), tool("twice"), null, tool("twice")]);
        (request.method() == "tools/list").then(|| answer(request, json!({ "tools": tools })))
    })
    .await;
    let source = server.source();
    assert_eq!(listed(&source).await, ["kit.good", "kit.also.good"]);
    let skipped: Vec<_> = source.known().unwrap().listed.skipped.into_iter().map(|skipped| (skipped.tool, skipped.why)).collect();
    let named = |tool: &str, why: &str| (Some(tool.to_owned()), why.to_owned());
    assert_eq!(
        skipped,
        [
            named("bad", "its `inputSchema` is not an object"),
            (None, "it has no name".to_owned()),
            named("b d", "its name is not 1 to 128 letters, digits, `_`, `-` and `.`"),
            named("twice", "its name is listed twice"),
            (None, "it has no name".to_owned()),
            named("twice", "its name is listed twice"),
        ]
    );
}

#[tokio::test]
async fn the_tier_of_an_action_is_that_of_its_tool() {
    let server = Server::legacy(|request| {
        let reads = json!({ "name": "look", "inputSchema": {}, "annotations": { "readOnlyHint": true } });
        let destroys = json!({ "name": "set", "inputSchema": {}, "annotations": { "destructiveHint": true } });
        (request.method() == "tools/list").then(|| answer(request, json!({ "tools": [reads, destroys, tool("other"), tool("delete_it")] })))
    })
    .await;
    let source = server.source_with(|config| config.tiers.overrides.insert("other".to_owned(), Tier::R2).map_or((), |_| ()));
    let tiers: Vec<_> = source.list(&context().org).await.unwrap().iter().map(|action| action.tier).collect();
    assert_eq!(tiers, [Tier::R1, Tier::R4, Tier::R2, Tier::R4]);
}

#[tokio::test]
async fn everything_a_tool_returns_is_carried() {
    let content = json!([
        { "type": "text", "text": "grüße" },
        { "type": "image", "data": "aGk=", "mimeType": "image/png" },
        { "type": "audio", "data": "aGk=", "mimeType": "audio/wav" },
        { "type": "resource", "resource": { "uri": "file:///a", "text": "x" } },
        { "type": "resource_link", "uri": "file:///b", "name": "b" },
        { "type": "unheard_of", "x": [1] },
    ]);
    let whole = json!({ "content": content, "structuredContent": { "n": 1 }, "_meta": { "k": "v" } });
    let returned = whole.clone();
    let server = Server::legacy(move |request| {
        let mut returned = returned.clone();
        returned["isError"] = json!(false);
        (request.method() == "tools/call").then(|| answer(request, returned))
    })
    .await;
    assert_eq!(call(&server.source(), "kit.look", json!({})).await.unwrap().value, whole);
}

#[tokio::test]
async fn an_error_that_a_tool_reports_keeps_its_content_and_leaves_the_effect_unknown() {
    let server = Server::legacy(|request| {
        let failed = json!({ "content": [{ "type": "text", "text": "no such\nissue" }], "isError": true, "structuredContent": { "n": 1 } });
        (request.method() == "tools/call").then(|| answer(request, failed))
    })
    .await;
    let error = call(&server.source(), "kit.set", json!({})).await.unwrap_err();
    assert_eq!((error.code(), error.after(), error.was_not_taken_up()), ("source_reported_error", AfterError::Unknown, false));
    assert_eq!(error.to_string(), "source `kit` reported an error: no such\\nissue; the effect may have happened");
    let kept = json!({ "content": [{ "type": "text", "text": "no such\nissue" }], "structuredContent": { "n": 1 } });
    assert_eq!((error.reported(), error.cause()), (Some(&kept), FailureCause::Final));
}

#[tokio::test]
async fn an_error_that_passes_is_told_from_one_that_stays() {
    for (words, cause) in [("upstream timed out", FailureCause::Passing), ("no such issue", FailureCause::Final)] {
        let server = Server::legacy(move |request| {
            let failed = json!({ "content": [{ "type": "text", "text": words }], "isError": true });
            (request.method() == "tools/call").then(|| answer(request, failed))
        })
        .await;
        let error = call(&server.source(), "kit.look", json!({})).await.unwrap_err();
        assert_eq!((error.code(), error.cause()), ("source_reported_error", cause), "{words}");
    }
}

#[tokio::test]
async fn an_error_of_the_protocol_says_whether_anything_can_have_happened() {
    for (number, code, after) in [
        (-32700, "source_refused", AfterError::NoEffect),
        (-32601, "unknown_action", AfterError::NoEffect),
        (-32020, "source_refused", AfterError::NoEffect),
        (-32022, "source_refused", AfterError::NoEffect),
        // A tool can find in the middle of its work that params are invalid, or that it needs something of its client.
        (-32602, "source_reported_error", AfterError::Unknown),
        (-32600, "source_reported_error", AfterError::Unknown),
        (-32021, "source_reported_error", AfterError::Unknown),
        (-32603, "source_reported_error", AfterError::Unknown),
        (-32000, "source_reported_error", AfterError::Unknown),
        (1, "source_reported_error", AfterError::Unknown),
    ] {
        let server = Server::legacy(move |request| (request.method() == "tools/call").then(|| error(request, number, "because"))).await;
        let error = call(&server.source(), "kit.set", json!({})).await.unwrap_err();
        assert_eq!((error.code(), error.after()), (code, after), "{number}");
        assert!(error.to_string().contains("`kit`") && error.to_string().contains("because"), "{error}");
    }
}

#[tokio::test]
async fn progress_is_passed_on_and_the_answer_follows() {
    let server = Server::legacy(|request| {
        (request.method() == "tools/call").then(|| {
            let token = &request.params()["_meta"]["progressToken"];
            let progress = |done: u64| {
                json!({ "jsonrpc": "2.0", "method": "notifications/progress",
                "params": { "progressToken": token, "progress": done, "total": 2, "message": "working" } })
            };
            events(&[
                progress(1),
                json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": {} }),
                progress(2),
                result(request, text("done")),
            ])
        })
    })
    .await;
    let lines = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&lines);
    let context = CallContext { progress: Some(Progress::new(move |line| heard.lock().push(line.to_owned()))), ..context() };
    let source = server.source();
    let output = source.call(&context, &ActionId::parse("kit.look").unwrap(), &json!({})).await.unwrap();
    assert_eq!(output.value, text("done"));
    assert_eq!(*lines.lock(), ["1 of 2: working", "2 of 2: working"]);
}

/// Answers a call with a stream that never ends.
fn never(request: &Request) -> Option<Reply> {
    (request.method() == "tools/call").then(|| vec![head("text/event-stream"), Piece::Bytes(b": wait\n\n".to_vec()), Piece::Silence])
}

#[tokio::test]
async fn a_server_is_told_when_nobody_waits_for_its_answer_any_more() {
    let server = Server::legacy(never).await;
    let source = server.source();
    let action = ActionId::parse("kit.set").unwrap();
    let (context, params) = (context(), json!({}));
    // The caller goes once the call has arrived.
    tokio::select! {
        _ = source.call(&context, &action, &params) => panic!("it never answers"),
        _ = server.came(is("tools/call")) => {}
    }
    let cancelled = server.came(is("notifications/cancelled")).await;
    let called = server.came(is("tools/call")).await;
    assert_eq!(&cancelled.params()["requestId"], called.id());
}

#[tokio::test]
async fn a_call_that_takes_too_long_ends_in_time_and_is_cancelled() {
    let server = Server::legacy(never).await;
    let source = server.source();
    let context = CallContext { timeout_ms: 300, ..context() };
    let error = source.call(&context, &ActionId::parse("kit.set").unwrap(), &json!({})).await.unwrap_err();
    assert_eq!(error, Error::TimedOut { source_id: "kit".to_owned(), timeout_ms: 300 });
    server.came(is("notifications/cancelled")).await;
    assert!(listed(&source).await.len() == 2, "the connection is as good as before");
}

#[tokio::test]
async fn a_session_that_ended_is_renewed_once() {
    let begun = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&begun);
    let server = Server::legacy(move |request| match request.method() {
        "initialize" => {
            let number = count.fetch_add(1, Ordering::SeqCst) + 1;
            let info = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": { "name": "kit", "version": "1" } });
            Some(http(
                "200 OK",
                &format!("content-type: application/json\r\nmcp-session-id: s{number}\r\n"),
                result(request, info).to_string(),
            ))
        }
        "tools/call" if request.header("mcp-session-id") == Some("s1") => Some(http("404 Not Found", "", "")),
        _ => None,
    })
    .await;
    let source = server.source();
    assert_eq!(call(&source, "kit.set", json!({})).await.unwrap().value, text("done"));
    let sessions: Vec<_> = server
        .requests()
        .iter()
        .filter(|request| request.method() == "tools/call")
        .map(|request| request.header("mcp-session-id").map(str::to_owned))
        .collect();
    assert_eq!(sessions, [Some("s1".to_owned()), Some("s2".to_owned())]);
    assert_eq!(begun.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_session_that_ends_at_once_is_not_renewed_for_ever() {
    let server = Server::legacy(|request| (request.method() == "tools/call").then(|| http("404 Not Found", "", ""))).await;
    let error = call(&server.source(), "kit.set", json!({})).await.unwrap_err();
    assert_eq!((error.code(), error.after()), ("source_unreachable", AfterError::NoEffect), "{error}");
    assert_eq!(server.methods().iter().filter(|method| *method == "tools/call").count(), 2);
}

#[tokio::test]
async fn what_a_server_asks_of_us_is_refused_with_a_sentence() {
    for method in ["sampling/createMessage", "elicitation/create", "roots/list", "unheard/of"] {
        let refused = Arc::new(Notify::new());
        let said = Arc::clone(&refused);
        let server = Server::legacy(move |request| match request.method() {
            "tools/call" => {
                let params = match method {
                    "sampling/createMessage" => {
                        json!({ "messages": [{ "role": "user", "content": { "type": "text", "text": "hi" } }], "maxTokens": 1 })
                    }
                    "elicitation/create" => json!({ "message": "who?", "requestedSchema": { "type": "object", "properties": {} } }),
                    _ => json!({}),
                };
                let asked = json!({ "jsonrpc": "2.0", "id": "theirs", "method": method, "params": params });
                let done = event(&result(request, text("done")));
                Some(vec![head("text/event-stream"), event(&asked), Piece::Until(Arc::clone(&said)), done])
            }
            "" if request.verb() == "POST" => {
                said.notify_one();
                Some(http("202 Accepted", "", ""))
            }
            _ => None,
        })
        .await;
        assert!(call(&server.source(), "kit.look", json!({})).await.is_ok(), "{method}");
        let answered = server.came(|request| request.verb() == "POST" && request.method().is_empty()).await;
        assert_eq!((answered.id(), &answered.body["error"]["code"]), (&json!("theirs"), &json!(-32601)), "{method}");
        refused.notify_one();
    }
}

#[tokio::test]
async fn a_server_that_wants_input_in_the_middle_of_a_call_is_refused() {
    let server = Server::modern(|request| {
        let asks = json!({ "resultType": "input_required", "inputRequests": {}, "requestState": "x" });
        (request.method() == "tools/call").then(|| answer(request, asks))
    })
    .await;
    let error = call(&server.source(), "kit.set", json!({})).await.unwrap_err();
    assert_eq!((error.code(), error.after()), ("source_reported_error", AfterError::Unknown), "{error}");
    assert_eq!(server.methods().iter().filter(|method| *method == "tools/call").count(), 1);
}

#[tokio::test]
async fn a_changed_list_is_heard_and_changes_the_revision_once_until_it_is_listed() {
    let go = Arc::new(Notify::new());
    let gone = Arc::clone(&go);
    let server = Server::legacy(move |request| {
        let changed = event(&json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" }));
        let done = event(&result(request, text("done")));
        match (request.verb(), request.method()) {
            ("GET", _) => Some(vec![head("text/event-stream"), Piece::Until(Arc::clone(&gone)), changed, Piece::Silence]),
            (_, "tools/call") => Some(vec![head("text/event-stream"), changed.clone(), changed, done]),
            _ => None,
        }
    })
    .await;
    let source = server.source();
    assert_eq!(source.revision(), 0);
    call(&source, "kit.look", json!({})).await.unwrap();
    call(&source, "kit.look", json!({})).await.unwrap();
    assert_eq!(source.revision(), 1, "it is not listed yet, so it is one change");
    assert_eq!(listed(&source).await.len(), 2);
    call(&source, "kit.look", json!({})).await.unwrap();
    assert_eq!(source.revision(), 2);
    listed(&source).await;
    go.notify_one();
    while source.revision() < 3 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_connection_that_broke_is_opened_again_by_the_next_request() {
    let server = Server::legacy(|_| None).await;
    let source = server.source();
    call(&source, "kit.look", json!({})).await.unwrap();
    source.disconnect().await;
    call(&source, "kit.look", json!({})).await.unwrap();
    let methods: Vec<_> = server.methods().into_iter().filter(|method| method == "initialize" || method == "server/discover").collect();
    assert_eq!(methods, ["server/discover", "initialize", "initialize"], "it is known by now how it begins");
}

#[tokio::test]
async fn a_server_that_forgot_its_session_without_saying_so_is_begun_with_anew_by_the_next_request() {
    let begun = Arc::new(AtomicUsize::new(0));
    let server = Server::legacy(move |request| match request.method() {
        "initialize" => {
            let number = begun.fetch_add(1, Ordering::SeqCst) + 1;
            let info = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": { "name": "kit", "version": "1" } });
            let headers = format!("content-type: application/json\r\nmcp-session-id: s{number}\r\n");
            Some(http("200 OK", &headers, result(request, info).to_string()))
        }
        "tools/call" if request.header("mcp-session-id") == Some("s1") => Some(http("400 Bad Request", "", "no such session")),
        _ => None,
    })
    .await;
    let source = server.source();
    assert_eq!(call(&source, "kit.set", json!({})).await.unwrap_err().code(), "source_broke");
    assert!(call(&source, "kit.set", json!({})).await.is_ok());
}

#[tokio::test]
async fn params_that_a_server_wants_in_headers_are_sent_there_too() {
    let server = Server::modern(|request| {
        let schema = json!({ "type": "object", "properties": { "region": { "type": "string", "x-mcp-header": "Region" } } });
        let tools = json!([{ "name": "look", "inputSchema": schema }]);
        (request.method() == "tools/list")
            .then(|| answer(request, json!({ "resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private" })))
    })
    .await;
    let source = server.source();
    listed(&source).await;
    call(&source, "kit.look", json!({ "region": "eu" })).await.unwrap();
    source.disconnect().await;
    call(&source, "kit.look", json!({ "region": "us" })).await.unwrap();
    let calls: Vec<_> = server.requests().into_iter().filter(is("tools/call")).collect();
    let regions: Vec<_> = calls.iter().map(|call| call.header("mcp-param-region")).collect();
    assert_eq!(regions, [Some("eu"), Some("us")], "also on a new connection");
}

#[tokio::test]
async fn a_server_without_sessions_is_asked_to_tell_when_its_list_changes() {
    let go = Arc::new(Notify::new());
    let gone = Arc::clone(&go);
    let server = Server::modern(move |request| match request.method() {
        "server/discover" => Some(answer(
            request,
            json!({ "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": { "tools": { "listChanged": true } },
                "ttlMs": 0, "cacheScope": "private" }),
        )),
        "subscriptions/listen" => {
            let meta = json!({ "io.modelcontextprotocol/subscriptionId": request.id() });
            let begun = json!({ "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
                "params": { "_meta": meta, "notifications": { "toolsListChanged": true } } });
            let changed = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": { "_meta": meta } });
            Some(vec![head("text/event-stream"), event(&begun), Piece::Until(Arc::clone(&gone)), event(&changed), Piece::Silence])
        }
        _ => None,
    })
    .await;
    let source = server.source();
    listed(&source).await;
    let asked = server.came(is("subscriptions/listen")).await;
    assert_eq!(asked.params()["notifications"]["toolsListChanged"], true);
    assert_eq!(source.revision(), 0);
    go.notify_one();
    while source.revision() < 1 {
        tokio::task::yield_now().await;
    }
}

/// Answers `initialize` like that.
fn begins(request: &Request, capabilities: &Value, instructions: &str) -> Option<Reply> {
    let info = json!({ "protocolVersion": "2025-06-18", "capabilities": capabilities, "instructions": instructions,
        "serverInfo": { "name": "kit", "version": "1" } });
    (request.method() == "initialize").then(|| answer(request, info))
}

#[tokio::test]
async fn resources_and_prompts_are_actions_where_the_server_has_them() {
    use crate::mcp::Because;
    let resources = ["kit.resources.list", "kit.resources.templates.list", "kit.resources.read"];
    let prompts = ["kit.prompts.list", "kit.prompts.get"];
    for (capabilities, expected) in [
        (json!({ "tools": {} }), vec![]),
        (json!({ "tools": {}, "resources": {} }), resources.to_vec()),
        (json!({ "prompts": { "listChanged": true } }), prompts.to_vec()),
        (json!({ "resources": {}, "prompts": {} }), [&resources[..], &prompts[..]].concat()),
    ] {
        let server = Server::legacy(move |request| begins(request, &capabilities, "")).await;
        let source = server.source();
        assert_eq!(listed(&source).await, [&["kit.look", "kit.set"][..], &expected[..]].concat());
    }
    let server = Server::legacy(|request| match request.method() {
        "tools/list" => Some(answer(request, json!({ "tools": [tool("look"), tool("resources.read")] }))),
        _ => begins(request, &json!({ "tools": {}, "resources": {}, "prompts": {} }), "With care."),
    })
    .await;
    let tiers = [("prompts.get".to_owned(), Tier::R3)];
    let source = server.source_with(|config| {
        config.tiers.overrides.extend(tiers);
        config.tiers.default = Some(Tier::R4);
    });
    let listed = source.refresh().await.unwrap();
    let skipped: Vec<_> = listed.skipped.iter().map(|skipped| (skipped.tool.as_deref(), skipped.why.as_str())).collect();
    assert_eq!(skipped, [(Some("resources.read"), "its name is that of a request of the protocol")]);
    let (reads, gets) = (&listed.actions[3], &listed.actions[5]);
    assert_eq!((reads.id.as_str(), reads.tier, listed.because["resources.read"]), ("kit.resources.read", Tier::R1, Because::Protocol));
    assert_eq!((gets.id.as_str(), gets.tier, listed.because["prompts.get"]), ("kit.prompts.get", Tier::R3, Because::Override));
    assert_eq!(reads.params_schema["required"], json!(["uri"]));
    // What the server wrote is no part of them but for its instructions, which are part of all.
    assert_eq!((reads.upstream_sha256, reads.guide_sha256), (None, listed.actions[0].guide_sha256));
    assert!(reads.guide_sha256.is_some());
    assert_eq!((&reads.effects, reads.timeout_ms, &reads.hosts), (&listed.actions[0].effects, 10_000, &listed.actions[0].hosts));
}

#[tokio::test]
async fn resources_and_prompts_are_read_by_calls() {
    let server = Server::legacy(|request| match request.method() {
        "prompts/get" => Some(answer(request, json!({ "messages": [], "odd": request.params()["arguments"] }))),
        "resources/read" if request.params()["uri"] == "a://b" => {
            Some(answer(request, json!({ "contents": [{ "uri": "a://b", "text": "x" }] })))
        }
        "resources/read" => Some(error(request, -32002, "no such resource")),
        "prompts/list" => Some(answer(request, json!({ "prompts": [], "nextCursor": request.params()["cursor"] }))),
        "resources/templates/list" => Some(answer(request, json!([]))),
        _ => None,
    })
    .await;
    let source = server.source();
    for (name, params, expected) in [
        ("prompts.get", json!({ "name": "p", "arguments": { "a": "b" } }), Ok(json!({ "messages": [], "odd": { "a": "b" } }))),
        ("resources.read", json!({ "uri": "a://b" }), Ok(json!({ "contents": [{ "uri": "a://b", "text": "x" }] }))),
        ("resources.read", json!({ "uri": "a://c" }), Err("source_reported_error")),
        ("resources.read", json!({ "url": "a://c" }), Err("invalid_params")),
        ("prompts.list", json!({ "cursor": "7" }), Ok(json!({ "prompts": [], "nextCursor": "7" }))),
        ("resources.list", json!({}), Err("unknown_action")),
        ("resources.templates.list", json!({}), Err("source_broke")),
    ] {
        let found = call(&source, &format!("kit.{name}"), params.clone()).await.map(|output| output.value);
        assert_eq!(found.map_err(|error| error.code()), expected, "{name} {params}");
    }
    assert!(server.methods().iter().all(|method| method != "tools/call"));
}

#[tokio::test]
async fn other_instructions_are_another_definition_of_every_action() {
    let begun = Arc::new(AtomicUsize::new(0));
    let server = Server::legacy(move |request| {
        let number = if request.method() == "initialize" { begun.fetch_add(1, Ordering::SeqCst) } else { 0 };
        begins(request, &json!({ "tools": {} }), ["Look first.", "Set at once.", ""][number.min(2)])
    })
    .await;
    let source = server.source();
    assert_eq!(source.guide(), None);
    let mut digests = Vec::new();
    for guide in [Some("Look first."), Some("Set at once."), None] {
        let actions = source.list(&context().org).await.unwrap();
        assert_eq!(source.guide().as_deref(), guide);
        assert_eq!(actions[0].guide_sha256, actions[1].guide_sha256);
        digests.push(actions[0].guide_sha256);
        // A new connection alone changes nothing: the guide is that of the listing.
        source.disconnect().await;
        call(&source, "kit.look", json!({})).await.unwrap();
        assert_eq!(source.guide().as_deref(), guide);
    }
    assert!(digests[0].is_some() && digests[1].is_some() && digests[0] != digests[1] && digests[2].is_none(), "{digests:?}");
}

#[tokio::test]
async fn a_server_that_says_that_it_has_tools_lists_them_or_its_listing_is_an_error() {
    for (capabilities, expected) in
        [(json!({}), Ok(0)), (json!({ "prompts": {} }), Ok(2)), (json!({ "tools": {} }), Err("listing_invalid"))]
    {
        let server = Server::legacy(move |request| match request.method() {
            "tools/list" => Some(error(request, -32601, "unknown")),
            _ => begins(request, &capabilities, ""),
        })
        .await;
        let found = server.source().list(&context().org).await;
        assert_eq!(found.map(|actions| actions.len()).map_err(|error| error.code()), expected);
    }
    let server = Server::legacy(|request| match (request.method(), request.params()["cursor"].as_str()) {
        ("tools/list", None) => Some(answer(request, json!({ "tools": [tool("a")], "nextCursor": "2" }))),
        ("tools/list", Some(_)) => Some(error(request, -32601, "unknown")),
        _ => begins(request, &json!({}), ""),
    })
    .await;
    assert_eq!(server.source().list(&context().org).await.unwrap_err().code(), "listing_invalid", "it has listed some");
}

/// Tokens `t0`, `t1` and so on: one more after each refusal, up to the last.
#[derive(Default)]
struct Tokens {
    last: usize,
    refused: Mutex<Vec<(u16, String, Option<String>)>>,
    /// What is said of a refusal that only a person can mend.
    needs: Option<Error>,
}

impl Credentials for Tokens {
    fn headers(&self) -> Future<'_, Result<ConnectionHeaders, Error>> {
        let token = format!("Bearer t{}", self.refused.lock().len().min(self.last));
        let pair = ("authorization".to_owned(), countersign_core::Secret::new(token));
        Box::pin(std::future::ready(Ok(ConnectionHeaders::new(vec![pair]))))
    }

    fn refused<'a>(&'a self, refusal: Refusal<'a>) -> Future<'a, Result<bool, Error>> {
        let sent = refusal.sent.expose().map(|(_, value)| value.to_owned()).collect();
        let mut refused = self.refused.lock();
        refused.push((refusal.status, sent, refusal.www_authenticate.map(str::to_owned)));
        Box::pin(std::future::ready(match &self.needs {
            Some(error) => Err(error.clone()),
            None => Ok(refused.len() <= self.last),
        }))
    }
}

fn with_tokens(server: &Server, tokens: &Arc<Tokens>) -> McpSource {
    server.source_with(|config| {
        if let super::Server::Http { credentials, .. } = &mut config.server {
            *credentials = Some(Arc::clone(tokens) as Arc<dyn Credentials>);
        }
    })
}

#[tokio::test]
async fn credentials_go_with_every_request_and_a_refusal_says_so() {
    let tokens = Arc::new(Tokens::default());
    let server = Server::legacy(|request| {
        (request.method() == "tools/call").then(|| http("401 Unauthorized", "www-authenticate: Bearer scope=\"more\"\r\n", ""))
    })
    .await;
    let source = with_tokens(&server, &tokens);
    listed(&source).await;
    let error = call(&source, "kit.set", json!({})).await.unwrap_err();
    assert_eq!((error.code(), error.after()), ("source_unauthorized", AfterError::NoEffect));
    assert_eq!(*tokens.refused.lock(), [(401, "Bearer t0".to_owned(), Some("Bearer scope=\"more\"".to_owned()))]);
    assert!(server.requests().iter().all(|request| request.header("authorization") == Some("Bearer t0")));
    let without = call(&server.source(), "kit.set", json!({})).await.unwrap_err();
    assert!(without.to_string().contains("asks for credentials"), "{without}");
}

/// A credential that stays as it is, and how it was refused.
#[derive(Default)]
struct Fixed(Mutex<Vec<String>>);

impl Fixed {
    const SENT: &'static str = "Bearer cana\"ry/7731";
}

impl Credentials for Fixed {
    fn headers(&self) -> Future<'_, Result<ConnectionHeaders, Error>> {
        let pair = ("authorization".to_owned(), countersign_core::Secret::new(Self::SENT.to_owned()));
        Box::pin(std::future::ready(Ok(ConnectionHeaders::new(vec![pair]))))
    }

    fn refused<'a>(&'a self, refusal: Refusal<'a>) -> Future<'a, Result<bool, Error>> {
        self.0.lock().extend(refusal.www_authenticate.map(str::to_owned));
        Box::pin(std::future::ready(Ok(false)))
    }
}

#[tokio::test]
async fn a_server_that_repeats_its_credential_is_not_quoted() {
    const HOWS: [&str; 8] = ["result", "nested", "structured", "failed", "error", "progress", "type", "refused"];
    for how in HOWS {
        let server = Server::legacy(move |request| {
            let sent = request.header("authorization").unwrap();
            let bare = sent.trim_start_matches("Bearer ");
            match request.method() {
                "tools/list" => {
                    let mut look = tool("look");
                    look["description"] = json!(format!("Looks as {sent}."));
                    Some(answer(request, json!({ "tools": [look] })))
                }
                "tools/call" => Some(match how {
                    "result" => answer(request, text(sent)),
                    "nested" => answer(request, text(&json!({ "headers": [sent, bare] }).to_string())),
                    "structured" => answer(request, json!({ "structuredContent": { bare: sent }, "content": [] })),
                    "failed" => answer(request, json!({ "content": [{ "type": "text", "text": bare }], "isError": true })),
                    "error" => error(request, -32000, sent),
                    "progress" => {
                        let token = &request.params()["_meta"]["progressToken"];
                        let told = json!({ "jsonrpc": "2.0", "method": "notifications/progress",
                            "params": { "progressToken": token, "progress": 1, "message": bare } });
                        events(&[told, result(request, text("done"))])
                    }
                    "type" => http("200 OK", &format!("content-type: text/{bare}\r\n"), ""),
                    _ => http("403 Forbidden", &format!("www-authenticate: Bearer scope={bare}\r\n"), ""),
                }),
                _ => None,
            }
        })
        .await;
        let fixed = Arc::new(Fixed::default());
        let source = server.source_with(|config| {
            if let super::Server::Http { credentials, .. } = &mut config.server {
                *credentials = Some(Arc::clone(&fixed) as Arc<dyn Credentials>);
            }
        });
        let lines = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&lines);
        let context = CallContext { progress: Some(Progress::new(move |line| heard.lock().push(line.to_owned()))), ..context() };
        let listed = source.refresh().await.unwrap();
        let called = source.call(&context, &ActionId::parse("kit.look").unwrap(), &json!({})).await;
        let called = match &called {
            Ok(output) => output.value.to_string(),
            Err(error) => format!("{error} {:?}", error.reported()),
        };
        let said = format!("{called} {:?} {:?} {:?}", listed.actions, lines.lock(), fixed.0.lock());
        assert!(!said.contains("7731"), "{how}: {said}");
        // The listing and the call, in whichever way it said it.
        assert!(said.matches("[secret]").count() >= 2, "{how}: {said}");
        assert!(server.requests().iter().all(|request| request.header("authorization") == Some(Fixed::SENT)));
    }
}

/// Refuses calls that carry one of these tokens, each with its status.
async fn refusing(refusals: &'static [(&'static str, &'static str)]) -> Server {
    Server::legacy(move |request| {
        let status = refusals.iter().find(|(token, _)| request.header("authorization") == Some(*token)).map(|(_, status)| *status);
        status.filter(|_| request.method() == "tools/call").map(|status| http(status, "", ""))
    })
    .await
}

#[tokio::test]
async fn what_was_refused_is_sent_once_more_with_other_credentials_and_no_more() {
    const NO: &str = "401 Unauthorized";
    const LESS: &str = "403 Forbidden";
    type Case = (&'static [(&'static str, &'static str)], usize, bool, &'static [u16], usize);
    const CASES: [Case; 5] = [
        (&[("Bearer t0", NO)], 1, true, &[401], 2),
        (&[("Bearer t0", LESS)], 1, true, &[403], 2),
        (&[("Bearer t0", NO), ("Bearer t1", NO)], 2, false, &[401], 2),
        (&[("Bearer t0", NO), ("Bearer t1", LESS)], 2, false, &[401, 403], 2),
        (&[("Bearer t0", LESS)], 0, false, &[403], 1),
    ];
    let statuses = |tokens: &Tokens| tokens.refused.lock().iter().map(|(status, _, _)| *status).collect::<Vec<_>>();
    let calls = |server: &Server| server.methods().iter().filter(|method| *method == "tools/call").count();
    for (refusals, last, is_done, told, sent) in CASES {
        let (server, tokens) = (refusing(refusals).await, Arc::new(Tokens { last, ..Tokens::default() }));
        let called = call(&with_tokens(&server, &tokens), "kit.set", json!({})).await;
        let code = called.as_ref().err().map(Error::code);
        assert_eq!(code, (!is_done).then_some("source_unauthorized"), "{refusals:?} {called:?}");
        assert_eq!((statuses(&tokens), calls(&server)), (told.to_vec(), sent), "{refusals:?}");
    }
}

#[tokio::test]
async fn a_refusal_that_a_person_has_to_mend_ends_the_call_with_their_words() {
    let server = refusing(&[("Bearer t0", "403 Forbidden")]).await;
    let needs = Error::Refused { code: "connection_not_ready", message: "log in".to_owned() };
    let tokens = Arc::new(Tokens { needs: Some(needs.clone()), ..Tokens::default() });
    assert_eq!(call(&with_tokens(&server, &tokens), "kit.set", json!({})).await, Err(needs));
    assert_eq!(server.methods().iter().filter(|method| *method == "tools/call").count(), 1);
}

#[tokio::test]
async fn a_source_is_there_for_its_spaces_and_names_its_connection() {
    let at = countersign_core::Timestamp::from_micros(0);
    let (lab, other) = (SpaceId::new(at, [1; 10]), SpaceId::new(at, [2; 10]));
    let connection = ConnectionId::new(at, [3; 10]);
    let server = Server::legacy(|_| None).await;
    let digest = Digest::new([4; 32]);
    let limited = server.source_with(|config| {
        config.connection = Some(connection.clone());
        config.server_sha256 = Some(digest);
        config.spaces = Some(BTreeSet::from([lab.clone()]));
    });
    assert_eq!((limited.is_for(&lab), limited.is_for(&other), limited.connection()), (true, false, Some(&connection)));
    let listed = limited.refresh().await.unwrap().actions;
    assert!(!listed.is_empty() && listed.iter().all(|action| action.server_sha256 == Some(digest)), "{listed:?}");
    let open = server.source();
    assert_eq!((open.is_for(&other), open.connection(), open.needs_review()), (true, None, true));
}

#[tokio::test]
async fn a_source_that_cannot_be_set_up_says_why_to_every_request() {
    let why = Error::Refused { code: "command_not_allowed", message: "the command `kit` is not allowed".to_owned() };
    let server = Server::legacy(|_| None).await;
    let source = server.source_with(|config| config.server = super::Server::Nowhere { why: why.clone() });
    assert_eq!(source.list(&context().org).await.unwrap_err(), why);
    assert_eq!(call(&source, "kit.look", json!({})).await.unwrap_err(), why);
    assert_eq!(call(&source, "kit.prompts.list", json!({})).await.unwrap_err(), why);
}

#[tokio::test]
async fn a_listing_says_why_each_action_has_its_tier() {
    let server = Server::legacy(|request| {
        let mut warns = tool("look");
        warns["annotations"] = json!({ "destructiveHint": true });
        (request.method() == "tools/list").then(|| answer(request, json!({ "tools": [warns, tool("set"), tool("set")] })))
    })
    .await;
    let listed = server.source().refresh().await.unwrap();
    assert_eq!(listed.because, std::collections::BTreeMap::from([("look".to_owned(), crate::mcp::Because::DestructiveHint)]));
}
