//! Servers that lie, flood and hang: everything ends within its deadline, with an error that names the source and says what is known about
//! the effect, and never holds more than it may.

use super::super::testing::{Piece, Reply, Request, Server, answer, event, events, head, http, json_body, result, text, tool};
use super::*;
use crate::builtin::tests::context;
use crate::limits::{MCP_HELD_BYTES_MAX, MCP_MESSAGE_BYTES_MAX, MCP_MESSAGE_VALUES_MAX, MCP_PAGES_MAX, MCP_TOOLS_MAX};
use countersign_core::retry::FailureCause;
use countersign_core::source::AfterError;
use serde_json::json;
use std::sync::atomic::AtomicUsize;

async fn call(source: &McpSource) -> Result<Output, Error> {
    source.call(&context(), &ActionId::parse("kit.set").unwrap(), &json!({})).await
}

async fn list(source: &McpSource) -> Result<Vec<Arc<Action>>, Error> {
    source.list(&context().org).await
}

/// What a lying server does instead of answering.
type Lie = fn(&Request) -> Reply;

const FLOOD: usize = 50 * 1024 * 1024;

fn flood(beginning: &str) -> Piece {
    let mut bytes = beginning.as_bytes().to_vec();
    bytes.resize(FLOOD, b'x');
    Piece::Bytes(bytes)
}

/// Each lie, and what is said about it.
const LIES: [(&str, Lie, &str); 19] = [
    ("another id", |_| json_body(r#"{"jsonrpc":"2.0","id":999,"result":{"content":[],"tools":[]}}"#), "it answered another request"),
    (
        "another id in a stream",
        |_| events(&[json!({ "id": 999, "result": { "content": [], "tools": [] } })]),
        "it answered another request",
    ),
    ("no id", |_| json_body(r#"{"jsonrpc":"2.0","result":{"content":[],"tools":[]}}"#), "it sent an answer without an id"),
    ("50 MB", |_| vec![head("application/json"), flood(r#"{"jsonrpc":"2.0","id":1,"result":""#)], "it sent a message longer than"),
    ("50 MB in an event", |_| vec![head("text/event-stream"), flood("data: ")], "it sent a message longer than"),
    (
        "events without end",
        |_| vec![head("text/event-stream"), Piece::Endless(b"data: {\"method\":\"x\"}\n\n".repeat(1_000))],
        "without an end",
    ),
    (
        "comments without end",
        |_| vec![head("text/event-stream"), Piece::Endless(format!(": {}\n\n", "still here ".repeat(100)).repeat(10).into_bytes())],
        "without an end",
    ),
    ("not UTF-8", |_| json_body(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":\"\xff\"}}"), "is not UTF-8"),
    ("not UTF-8 in an event", |_| vec![head("text/event-stream"), Piece::Bytes(b"data: \xff\n\n".to_vec())], "is not UTF-8"),
    ("not JSON", |_| json_body("nonsense"), "is not JSON-RPC"),
    ("JSON that breaks off", |_| json_body(r#"{"jsonrpc":"2.0","id":"#), "is not JSON-RPC"),
    ("a list of messages", |_| json_body("[]"), "is not JSON-RPC"),
    ("a notification as the answer", |_| json_body(r#"{"method":"notifications/message"}"#), "a message that is no answer"),
    ("a page", |_| http("200 OK", "content-type: text/html\r\n", "<html>"), "it answered with `text/html` instead of JSON"),
    ("values without end", |request| answer(request, json!(vec![json!([]); MCP_MESSAGE_VALUES_MAX])), "more than 100000 values"),
    ("too deep", |request| answer(request, serde_json::from_str(&format!("{}{}", "[".repeat(120), "]".repeat(120))).unwrap()), ""),
    ("a failure", |_| http("500 Internal Server Error", "", "oh"), "it answered 500"),
    ("nothing", |_| Vec::new(), ""),
    ("a stream that ends", |_| vec![head("text/event-stream"), Piece::Bytes(b": bye\n\n".to_vec())], "it broke its answer off"),
];

#[tokio::test]
async fn a_call_that_is_answered_with_a_lie_fails_and_its_effect_is_unknown() {
    for (name, lie, words) in LIES {
        let server = Server::legacy(move |request| (request.method() == "tools/call").then(|| lie(request))).await;
        let source = server.source();
        let error = call(&source).await.unwrap_err();
        assert_eq!((error.code(), error.after()), ("source_broke", AfterError::Unknown), "{name}: {error}");
        assert!(error.to_string().contains("`kit`") && error.to_string().contains(words), "{name}: {error}");
        assert_eq!(server.methods().iter().filter(|method| *method == "tools/call").count(), 1, "{name}: it is never sent again");
        assert!(server.written() < FLOOD, "{name}: the rest was not read");
        assert_eq!(list(&source).await.unwrap().len(), 2, "{name}: the source still works");
    }
}

#[tokio::test]
async fn a_call_of_a_server_without_sessions_that_is_answered_with_a_lie_fails_too() {
    for (name, lie, words) in LIES {
        let server = Server::modern(move |request| (request.method() == "tools/call").then(|| lie(request))).await;
        let error = call(&server.source()).await.unwrap_err();
        assert_eq!((error.code(), error.after()), ("source_broke", AfterError::Unknown), "{name}: {error}");
        assert!(error.to_string().contains("`kit`") && error.to_string().contains(words), "{name}: {error}");
    }
}

#[tokio::test]
async fn a_listing_that_is_a_lie_is_an_error() {
    for (name, lie, _) in LIES {
        let server = Server::legacy(move |request| (request.method() == "tools/list").then(|| lie(request))).await;
        let source = server.source();
        let error = list(&source).await.unwrap_err();
        assert!(error.to_string().contains("`kit`"), "{name}: {error}");
        assert!(call(&source).await.is_ok(), "{name}: the source still works");
    }
}

#[tokio::test]
async fn a_server_that_begins_with_a_lie_is_unreachable() {
    for (name, lie, _) in LIES {
        for method in ["initialize", "server/discover"] {
            // An answer that is no description of a server is that of a server of an earlier revision.
            if (name, method) == ("too deep", "server/discover") {
                continue;
            }
            let server = Server::legacy(move |request| (request.method() == method).then(|| lie(request))).await;
            let error = call(&server.source()).await.unwrap_err();
            assert_eq!((error.code(), error.after()), ("source_unreachable", AfterError::NoEffect), "{name} at {method}: {error}");
            assert!(error.to_string().contains("`kit`"), "{name} at {method}: {error}");
        }
    }
}

#[tokio::test]
async fn only_what_cannot_have_reached_a_tool_had_no_effect() {
    for (status, headers, code, after) in [
        ("401 Unauthorized", "", "source_unauthorized", AfterError::NoEffect),
        ("403 Forbidden", "", "source_unauthorized", AfterError::NoEffect),
        ("405 Method Not Allowed", "", "source_refused", AfterError::NoEffect),
        ("413 Payload Too Large", "", "source_refused", AfterError::NoEffect),
        ("415 Unsupported Media Type", "", "source_refused", AfterError::NoEffect),
        ("429 Too Many Requests", "", "source_busy", AfterError::NoEffect),
        ("429 Too Many Requests", "retry-after: 2\r\n", "source_busy", AfterError::NoEffect),
        ("400 Bad Request", "", "source_broke", AfterError::Unknown),
        ("409 Conflict", "", "source_broke", AfterError::Unknown),
        ("422 Unprocessable Content", "", "source_broke", AfterError::Unknown),
        ("302 Found", "location: https://example.com/\r\n", "source_broke", AfterError::Unknown),
        ("307 Temporary Redirect", "location: http://169.254.169.254/\r\n", "source_broke", AfterError::Unknown),
        ("503 Service Unavailable", "retry-after: 2\r\n", "source_broke", AfterError::Unknown),
    ] {
        let server = Server::legacy(move |request| (request.method() == "tools/call").then(|| http(status, headers, ""))).await;
        let error = call(&server.source()).await.unwrap_err();
        assert_eq!((error.code(), error.after()), (code, after), "{status}: {error}");
        assert!(error.to_string().contains("`kit`"), "{status}: {error}");
        assert_eq!(server.methods().iter().filter(|method| *method == "tools/call").count(), 1, "{status}");
    }
    // A read has no effect, whatever it is answered with: what is left of the answer is whether it may be made again.
    for (status, headers, code, cause) in [
        ("400 Bad Request", "", "source_refused", FailureCause::Final),
        ("429 Too Many Requests", "retry-after: 2\r\n", "source_busy", FailureCause::NotDone),
        ("503 Service Unavailable", "retry-after: 2\r\n", "source_busy", FailureCause::NotDone),
        ("502 Bad Gateway", "", "source_broke", FailureCause::Unknown),
    ] {
        let server = Server::legacy(move |request| (request.method() == "tools/call").then(|| http(status, headers, ""))).await;
        let reading = CallContext { is_read: true, ..context() };
        let error = server.source().call(&reading, &ActionId::parse("kit.look").unwrap(), &json!({})).await.unwrap_err();
        assert_eq!((error.code(), error.cause()), (code, cause), "{status}: {error}");
        let asked_ms = (code == "source_busy").then_some(2_000);
        assert_eq!(error.retry_after_ms(), asked_ms, "{status}: {error}");
    }
    let gone = Server::modern(|request| (request.method() == "tools/call").then(|| http("404 Not Found", "", ""))).await;
    let error = call(&gone.source()).await.unwrap_err();
    assert_eq!((error.code(), error.after()), ("source_refused", AfterError::NoEffect), "{error}");
    // A listing has no effect, whatever it is answered with.
    let server = Server::legacy(|request| (request.method() == "tools/list").then(|| http("503 Service Unavailable", "", ""))).await;
    let error = list(&server.source()).await.unwrap_err();
    assert_eq!((error.code(), error.after()), ("source_broke", AfterError::NoEffect), "{error}");
    assert_eq!(error.to_string(), "source `kit` did not list its tools: it answered 503 Service Unavailable");
    for status in ["400 Bad Request", "302 Found"] {
        let server = Server::legacy(move |request| (request.method() == "tools/list").then(|| http(status, "", ""))).await;
        assert_eq!(list(&server.source()).await.unwrap_err().code(), "source_refused", "{status}");
    }
}

#[tokio::test]
async fn an_error_that_is_not_of_the_protocol_is_told_by_its_status() {
    const DOWN: &str = r#"{"error": "down"}"#;
    let answered = |status: &'static str, body: &'static str, method: &'static str| {
        Server::legacy(move |request| (request.method() == method).then(|| http(status, "content-type: application/json\r\n", body)))
    };
    let reading = CallContext { is_read: true, ..context() };
    for (status, code, cause) in [
        ("503 Service Unavailable", "source_broke", FailureCause::Unknown),
        ("500 Internal Server Error", "source_broke", FailureCause::Unknown),
        ("400 Bad Request", "source_refused", FailureCause::Final),
    ] {
        let server = answered(status, DOWN, "tools/call").await;
        let error = server.source().call(&reading, &ActionId::parse("kit.look").unwrap(), &json!({})).await.unwrap_err();
        assert_eq!((error.code(), error.cause()), (code, cause), "{status}: {error}");
        assert!(error.to_string().contains(status), "{error}");
        let error = call(&answered(status, DOWN, "tools/call").await.source()).await.unwrap_err();
        assert_eq!((error.code(), error.after()), ("source_broke", AfterError::Unknown), "{status}: {error}");
        let error = list(&answered(status, DOWN, "tools/list").await.source()).await.unwrap_err();
        assert_eq!((error.code(), error.after()), (code, AfterError::NoEffect), "{status}: {error}");
        assert!(error.to_string().contains(status), "{error}");
    }
    // One of the protocol is told in its words, whatever its status.
    let server = Server::legacy(|request| {
        let error = json!({ "jsonrpc": "2.0", "id": request.id(), "error": { "code": -32000, "message": "no such table" } }).to_string();
        let answers = request.method() == "tools/call";
        answers.then(|| http("500 Internal Server Error", "content-type: application/json\r\n", error))
    })
    .await;
    let error = call(&server.source()).await.unwrap_err();
    assert_eq!(error.code(), "source_reported_error", "{error}");
    assert!(error.to_string().contains("no such table"), "{error}");
}

#[tokio::test]
async fn a_server_that_hangs_is_given_up_in_time_wherever_it_hangs() {
    for method in ["server/discover", "initialize", "notifications/initialized", "tools/list"] {
        let mut silences = vec![vec![Piece::Silence]];
        // The body of the answer to a notification is not read.
        if method != "notifications/initialized" {
            silences.extend(["application/json", "text/event-stream"].map(|kind| vec![head(kind), Piece::Silence]));
        }
        for silence in silences {
            let server = Server::legacy(move |request| (request.method() == method).then(|| silence.clone())).await;
            let source = server.source_with(|config| config.list_timeout_ms = 300);
            let error = list(&source).await.unwrap_err();
            assert!(matches!(error.code(), "source_unreachable" | "source_timed_out"), "{method}: {error}");
            assert!(error.to_string().contains("`kit`") && error.to_string().contains("300 ms"), "{method}: {error}");
        }
    }
}

#[tokio::test]
async fn nobody_at_the_address_is_unreachable() {
    let server = Server::legacy(|_| None).await;
    let port = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let source = server.source_with(|config| {
        if let super::Server::Http { url, allowed_hosts, .. } = &mut config.server {
            *url = format!("http://127.0.0.1:{port}/");
            *allowed_hosts = vec![format!("http://127.0.0.1:{port}").parse().unwrap()];
        }
    });
    let error = call(&source).await.unwrap_err();
    assert_eq!((error.code(), error.after()), ("source_unreachable", AfterError::NoEffect), "{error}");
}

#[tokio::test]
async fn a_host_or_an_address_that_is_not_allowed_is_never_asked() {
    let server = Server::legacy(|_| None).await;
    let no_host = server.source_with(|config| {
        if let super::Server::Http { allowed_hosts, .. } = &mut config.server {
            allowed_hosts.clear();
        }
    });
    let no_network = server.source_with(|config| {
        if let super::Server::Http { allowed_networks, .. } = &mut config.server {
            allowed_networks.clear();
        }
    });
    for (source, code) in [(no_host, "host_not_allowed"), (no_network, "address_not_allowed")] {
        assert_eq!(call(&source).await.unwrap_err().code(), code);
        assert_eq!(list(&source).await.unwrap_err().code(), code);
    }
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn a_listing_without_an_end_is_refused() {
    let pages = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&pages);
    let server = Server::legacy(move |request| {
        (request.method() == "tools/list").then(|| {
            let page = count.fetch_add(1, Ordering::SeqCst);
            answer(request, json!({ "tools": [tool(&format!("t{page}"))], "nextCursor": "again" }))
        })
    })
    .await;
    let error = list(&server.source()).await.unwrap_err();
    assert_eq!(error.code(), "listing_invalid");
    assert_eq!(error.to_string(), format!("source `kit` sends a listing of more than {MCP_PAGES_MAX} pages; its tools are not listed"));
    assert_eq!(pages.load(Ordering::SeqCst), MCP_PAGES_MAX);
}

#[tokio::test]
async fn ten_thousand_tools_are_refused_whether_they_can_be_read_or_not() {
    for named in [true, false] {
        let server = Server::legacy(move |request| {
            (request.method() == "tools/list").then(|| {
                let tools: Vec<_> = (0..10_000).map(|number| if named { tool(&format!("t{number}")) } else { json!({}) }).collect();
                answer(request, json!({ "tools": tools }))
            })
        })
        .await;
        let error = list(&server.source()).await.unwrap_err();
        assert_eq!(error.to_string(), format!("source `kit` lists more than {MCP_TOOLS_MAX} tools; its tools are not listed"));
    }
}

#[tokio::test]
async fn long_pages_are_refused_together() {
    let server = Server::legacy(|request| {
        let mut large = tool("large");
        large["description"] = json!("x".repeat(MCP_MESSAGE_BYTES_MAX - 1_000));
        (request.method() == "tools/list").then(|| answer(request, json!({ "tools": [large], "nextCursor": "again" })))
    })
    .await;
    let error = list(&server.source()).await.unwrap_err();
    assert!(error.to_string().contains("sends a listing longer than"), "{error}");
}

#[tokio::test]
async fn a_schema_that_leads_elsewhere_is_listed_as_it_is_and_read_by_nobody() {
    let server = Server::legacy(|request| {
        let leads = |to: &str| json!({ "name": "a", "inputSchema": { "$ref": to }, "outputSchema": { "$ref": to } });
        let asked = request.params()["cursor"].as_str() == Some("2");
        let to = if asked { "file:///etc/passwd" } else { "http://169.254.169.254/latest" };
        (request.method() == "tools/list").then(|| answer(request, json!({ "tools": [leads(to)] })))
    })
    .await;
    let actions = list(&server.source()).await.unwrap();
    // The catalogue compiles schemas, and refuses a reference that leads out of one.
    assert_eq!(actions[0].params_schema["$ref"], "http://169.254.169.254/latest");
}

#[tokio::test]
async fn a_server_that_changes_its_revision_to_one_that_nobody_knows_is_refused() {
    let begun = Arc::new(AtomicUsize::new(0));
    let server = Server::legacy(move |request| {
        (request.method() == "initialize").then(|| {
            let version = if begun.fetch_add(1, Ordering::SeqCst) == 0 { "2025-06-18" } else { "2099-01-01\u{202e}" };
            answer(request, json!({ "protocolVersion": version, "capabilities": {}, "serverInfo": { "name": "kit", "version": "1" } }))
        })
    })
    .await;
    let source = server.source();
    assert!(call(&source).await.is_ok());
    source.disconnect().await;
    let error = call(&source).await.unwrap_err();
    assert_eq!(error.code(), "source_unreachable");
    assert!(error.to_string().contains("it speaks MCP `2099-01-01\\u{202e}`, which is not known here"), "{error}");
}

#[tokio::test]
async fn an_answer_that_is_no_result_leaves_the_effect_unknown() {
    for value in [
        json!(null),
        json!([]),
        json!("x"),
        json!({}),
        json!({ "content": 7 }),
        json!({ "content": [], "isError": "yes" }),
        json!({ "resultType": "task", "task": {} }),
    ] {
        let returned = value.clone();
        let server = Server::legacy(move |request| (request.method() == "tools/call").then(|| answer(request, returned.clone()))).await;
        let error = call(&server.source()).await.unwrap_err();
        assert_eq!((error.code(), error.after()), ("source_broke", AfterError::Unknown), "{value}: {error}");
    }
}

#[tokio::test]
async fn large_answers_to_many_calls_at_once_are_not_all_held() {
    let large = Arc::new("x".repeat(MCP_MESSAGE_BYTES_MAX - 1_000));
    let server = Server::legacy(move |request| {
        // The beginning of each answer arrives, and no end.
        (request.method() == "tools/call").then(|| {
            let beginning = format!("data: {{\"id\":{},\"result\":\"{large}", request.id());
            vec![head("text/event-stream"), Piece::Bytes(beginning.into_bytes()), Piece::Silence]
        })
    })
    .await;
    let source = server.source();
    let many = MCP_HELD_BYTES_MAX / MCP_MESSAGE_BYTES_MAX + 3;
    let mut calls: Vec<_> = (0..many).map(|_| Box::pin(call(&source))).collect();
    // The calls that came too late fail at once; the others wait for the end of their answers.
    let (first, _, _) = futures_util::future::select_all(calls.iter_mut()).await;
    let error = first.unwrap_err();
    assert!(error.to_string().contains("sent more at once than is held of one source"), "{error}");
}

#[tokio::test]
async fn one_that_asks_and_tells_without_end_does_not_keep_a_call_from_its_answer() {
    let server = Server::legacy(|request| {
        (request.method() == "tools/call").then(|| {
            let asks = event(&json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }));
            let tells = event(&json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "info", "data": "x" } }));
            let mut reply = vec![head("text/event-stream")];
            reply.extend(std::iter::repeat_n([asks, tells], 2_000).flatten());
            reply.push(event(&result(request, text("done"))));
            reply
        })
    })
    .await;
    assert_eq!(call(&server.source()).await.unwrap().value, text("done"));
}
