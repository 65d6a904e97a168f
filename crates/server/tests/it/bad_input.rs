//! Bad input is normal: it gets a clear error and leaves nothing behind.

use crate::harness::{Answer, Kind, TestServer, on_both_engines, on_sqlite};
use serde_json::{Value, json};

on_sqlite!(
    malformed_bodies_get_their_error_and_leave_nothing,
    a_huge_body_is_refused_before_it_is_read,
    params_that_do_not_fit_are_named_one_by_one,
    unknown_things_are_not_found,
    tokens_that_do_not_hold_are_refused,
    queries_that_make_no_sense_are_refused,
    too_many_invocations_in_a_minute_are_refused,
    a_rule_for_an_action_that_does_not_exist_is_refused,
);

on_both_engines!(a_character_no_column_holds_is_refused_by_every_field_that_becomes_one);

async fn a_character_no_column_holds_is_refused_by_every_field_that_becomes_one(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let pending = agent.pending("fake.write", json!({})).await;
    let before = server.counts().await;
    let invocation = format!("/api/v1/invocations/{pending}");
    server.owner.post("/api/v1/sessions", json!({ "title": "a\u{0}b" })).await.problem(400, "invalid_request");
    server.owner.post("/api/v1/users", json!({ "name": "a\u{0}b", "role": "member" })).await.problem(400, "invalid_request");
    server.owner.post("/api/v1/spaces", json!({ "name": "a\u{0}b" })).await.problem(400, "invalid_request");
    // A colon may divide the name of a space into parts; other names may not contain one.
    for name in [":", "shared:", ":household", "a::b", "a: b", &format!("{}:{}", "a".repeat(40), "b".repeat(40))] {
        server.owner.post("/api/v1/spaces", json!({ "name": name })).await.problem(400, "invalid_request");
    }
    server.owner.post("/api/v1/users", json!({ "name": "a:b", "role": "member" })).await.problem(400, "invalid_request");
    server.owner.post("/api/v1/tokens", json!({ "name": "a\u{0}b" })).await.problem(400, "invalid_request");
    for answer in ["approve", "deny"] {
        let refused = server.owner.post(&format!("{invocation}/{answer}"), json!({ "reason": "a\u{0}b" })).await;
        refused.problem(400, "invalid_request");
        assert_eq!(refused.body["errors"][0]["pointer"], "/reason");
    }
    let body = json!({ "action": "fake.write", "params": {}, "idempotency_key": "a\u{0}b" });
    let refused = agent.invoke_with(body).await;
    refused.problem(400, "invalid_request");
    assert_eq!(refused.body["errors"][0]["pointer"], "/idempotency_key");
    server.owner.get("/api/v1/sessions?after=%00").await.problem(400, "invalid_query");
    server.owner.get("/api/v1/receipts?after=nonsense").await.problem(400, "invalid_query");
    assert_eq!(server.counts().await, before);
    // In values that are stored as JSON, U+0000 is a character like any other.
    let body = json!({ "action": "fake.read", "params": { "text": "a\u{0}b" }, "reason": "a\u{0}b" });
    agent.invoke_with(body).await.ok();
    server.owner.approve(&pending).await.ok();
    server.verify().await;
}

async fn a_rule_for_an_action_that_does_not_exist_is_refused(kind: Kind) {
    let server = TestServer::start(kind).await;
    let before = server.counts().await;
    for action in ["fake.writ", "nowhere.write"] {
        let path = format!("/api/v1/modes/{action}");
        server.owner.send(reqwest::Method::PUT, &path, Some(json!({ "mode": "deny" }))).await.problem(404, "unknown_action");
    }
    assert_eq!(server.counts().await, before);
    // A mode whose action no longer exists can still be removed.
    server.owner.send(reqwest::Method::DELETE, "/api/v1/modes/nowhere.write", None).await.ok();
}

async fn malformed_bodies_get_their_error_and_leave_nothing(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let before = server.counts().await;
    let path = format!("/api/v1/sessions/{}/actions/invoke", agent.session);
    let deep = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
    let call = |params: &str| format!(r#"{{"action":"fake.read","params":{params}}}"#);
    for (body, status, code) in [
        (String::new(), 400, "malformed_json"),
        ("{".into(), 400, "malformed_json"),
        ("nonsense".into(), 400, "malformed_json"),
        ("{}{}".into(), 400, "malformed_json"),
        ("\u{feff}{}".into(), 400, "malformed_json"),
        (call(&deep), 400, "malformed_json"),
        (call(r#"{"a":1,"a":2}"#), 400, "malformed_json"),
        (call(r#"{"n":9007199254740993}"#), 400, "malformed_json"),
        (call(r#"{"n":1e999}"#), 400, "malformed_json"),
        (call(r#"{"s":"\ud800"}"#), 400, "malformed_json"),
        ("[]".into(), 400, "invalid_request"),
        (r#"["fake.read",{},null,null,false,null,null,null,null,null]"#.into(), 400, "invalid_request"),
        (r#"{"action":"fake.read","params":{},"scope":[]}"#.into(), 400, "invalid_request"),
        ("{}".into(), 400, "invalid_request"),
        (r#"{"action":7}"#.into(), 400, "invalid_request"),
        (r#"{"action":"fake.read","parms":{}}"#.into(), 400, "invalid_request"),
        (r#"{"action":"fake.read","dry_run":"yes"}"#.into(), 400, "invalid_request"),
        (call("[]"), 422, "invalid_params"),
        (call("null"), 422, "invalid_params"),
        (r#"{"action":"fake.read","idempotency_key":""}"#.into(), 400, "invalid_request"),
        (format!(r#"{{"action":"fake.read","idempotency_key":"{}"}}"#, "k".repeat(300)), 400, "invalid_request"),
        (format!(r#"{{"action":"fake.read","reason":"{}"}}"#, "r".repeat(3_000)), 400, "invalid_request"),
        (r#"{"action":"fake.read","idempotency_key":"auto"}"#.into(), 400, "invalid_request"),
    ] {
        let answer = agent.client.raw(&path, "application/json", body.clone()).await;
        assert_eq!((answer.status, answer.body["code"].as_str()), (status, Some(code)), "{:.80}: {answer:?}", body);
        answer.problem(status, code);
    }
    let invalid_utf8 = agent.client.raw(&path, "application/json", b"{\"action\":\"\xff\"}".to_vec()).await;
    invalid_utf8.problem(400, "malformed_json");
    agent.client.raw(&path, "text/plain", r#"{"action":"fake.read"}"#).await.problem(415, "unsupported_media_type");
    let twice = agent.client.raw(&path, "application/json", call(r#"{"a":{"b":[{"c":1,"c":2}]}}"#)).await;
    assert_eq!(twice.body["errors"][0]["pointer"], "/params/a/b/0/c", "{twice:?}");
    assert_eq!(server.counts().await, before, "nothing is left behind");
    assert_eq!(server.source.calls().len(), 0);
}

/// A client that sends a byte now and then cannot hold a connection for ever: headers have ten seconds, a body has thirty.
#[tokio::test]
async fn a_client_that_sends_too_slowly_is_told_and_cut_off() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let server = TestServer::start(Kind::Sqlite).await;
    let agent = server.agent().await;
    let before = server.counts().await;
    let trickle = async |head: String| {
        let stream = tokio::net::TcpStream::connect(server.url.trim_start_matches("http://")).await.unwrap();
        let (mut reader, mut writer) = stream.into_split();
        writer.write_all(head.as_bytes()).await.unwrap();
        let sending = tokio::spawn(async move {
            while writer.write_all(b" ").await.is_ok() {
                tokio::time::sleep(std::time::Duration::from_millis(500)).await;
            }
        });
        let mut answer = Vec::new();
        let _cut = reader.read_to_end(&mut answer).await;
        sending.await.unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    };
    let post = format!("POST /api/v1/sessions/{}/actions/invoke HTTP/1.1\r\nhost: x\r\n", agent.session);
    let told = format!(
        "{post}authorization: Bearer {}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{{",
        agent.client.token
    );
    let (headers, body) = tokio::join!(trickle(format!("{post}x-slow:")), trickle(told));
    assert!(headers.is_empty() || headers.starts_with("HTTP/1.1 408"), "{headers}");
    assert!(body.starts_with("HTTP/1.1 408") && body.contains("\"code\":\"request_timeout\""), "{body}");
    assert_eq!(server.counts().await, before, "nothing is left behind");
}

async fn a_huge_body_is_refused_before_it_is_read(kind: Kind) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let before = server.counts().await;
    // Written by hand, because a client library may give up at the first closed write instead of reading the answer.
    let mut stream = tokio::net::TcpStream::connect(server.url.trim_start_matches("http://")).await.unwrap();
    let length = 100 * 1024 * 1024;
    let head = format!(
        "POST /api/v1/sessions/{}/actions/invoke HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n",
        agent.session, agent.client.token
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let (mut reader, mut writer) = stream.into_split();
    let sending = tokio::spawn(async move {
        let chunk = vec![b'x'; 64 * 1024];
        let mut sent = 0;
        while sent < length && writer.write_all(&chunk).await.is_ok() {
            sent += chunk.len();
        }
        sent
    });
    let mut answer = vec![0; 4096];
    let read = reader.read(&mut answer).await.unwrap();
    let text = String::from_utf8_lossy(&answer[..read]).into_owned();
    assert!(text.starts_with("HTTP/1.1 413"), "{text}");
    assert!(text.contains("body_too_large"), "{text}");
    drop(reader);
    assert!(sending.await.unwrap() < length, "the server did not take 100 MB in");
    assert_eq!(server.counts().await, before);
}

async fn params_that_do_not_fit_are_named_one_by_one(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let before = server.counts().await;
    let answer = agent.invoke("fake.write", json!({ "text": 7, "count": "many", "extra": true })).await;
    answer.problem(422, "invalid_params");
    let pointers: Vec<_> = answer.body["errors"].as_array().unwrap().iter().map(|error| error["pointer"].as_str().unwrap()).collect();
    assert!(pointers.contains(&"/text") && pointers.contains(&"/count") && pointers.len() == 3, "{answer:?}");
    // The allowed values of a param are listed, up to a limit.
    let named: Vec<_> = (1..=30).map(|number| format!("word{number}")).collect();
    let few = &named[..3];
    for (options, told) in [(few, "value is not one of \"word1\", \"word2\", \"word3\""), (&named[..], "\"word20\", …")] {
        let schema = json!({ "type": "object", "properties": { "text": { "enum": options } } });
        server.source.redefine("read", |action| action.params_schema = schema.clone());
        let refused = agent.invoke("fake.read", json!({ "text": "hunter2" })).await;
        let message = refused.body["errors"][0]["message"].as_str().unwrap();
        assert!(message.ends_with(told) && !message.contains("hunter2"), "{message}");
    }
    let secret = agent.invoke("fake.write", json!({ "password": ["hunter2-hunter2"] })).await;
    secret.problem(422, "invalid_params");
    assert!(!secret.body.to_string().contains("hunter2"), "an error does not quote what it refuses: {secret:?}");
    assert_eq!(server.counts().await, before);
}

async fn unknown_things_are_not_found(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    for action in ["fake.nothing", "nowhere.read", "fake", "", "../../etc", "fake.\u{0}", "FAKE.read", &"x".repeat(10_000)] {
        agent.invoke(action, json!({})).await.problem(404, "unknown_action");
    }
    let nobody = "ses_00000000000000000000000000";
    let path = format!("/api/v1/sessions/{nobody}/actions/invoke");
    server.owner.post(&path, json!({ "action": "fake.read" })).await.problem(404, "unknown_session");
    agent.client.post(&path, json!({ "action": "fake.read" })).await.problem(403, "not_your_session");
    for path in [
        "/api/v1/invocations/inv_00000000000000000000000000",
        "/api/v1/invocations/nonsense",
        "/api/v1/invocations/%00",
        "/api/v1/receipts/rcp_00000000000000000000000000",
        "/api/v1/receipts/rcp_00000000000000000000000000/proof",
        "/api/v1/receipts/'%20OR%201=1",
    ] {
        server.owner.get(path).await.problem(404, "not_found");
    }
    server.owner.get("/api/v1/sources/nowhere/guide").await.problem(404, "unknown_source");
    server.owner.get("/api/v1/nonsense").await.problem(404, "unknown_route");
    server.owner.send(reqwest::Method::DELETE, "/api/v1/whoami", None).await.problem(405, "method_not_allowed");
    assert_eq!(server.counts().await.0, 0);
}

async fn tokens_that_do_not_hold_are_refused(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let call = |token: &str| {
        let (client, session) = (agent.client.with_token(token), agent.session.clone());
        async move { client.post(&format!("/api/v1/sessions/{session}/actions/invoke"), json!({ "action": "fake.read" })).await }
    };
    for token in ["", "nonsense", "cs_agent_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", &"x".repeat(5_000)] {
        call(token).await.problem(401, "unauthenticated");
    }
    let own = agent.client.token.clone();
    let mut altered = own.clone().into_bytes();
    let last = altered.last_mut().unwrap();
    *last = if *last == b'A' { b'B' } else { b'A' };
    call(&String::from_utf8(altered).unwrap()).await.problem(401, "unauthenticated");
    assert_eq!(call(&own).await.status, 200);

    let expiring = server.owner.post("/api/v1/tokens", json!({ "name": "short", "scopes": ["read"], "expires_in_days": 1 })).await.ok();
    let client = server.owner.with_token(expiring["token"].as_str().unwrap());
    assert_eq!(client.get("/api/v1/invocations").await.status, 200);
    server.clock.advance_seconds(24 * 60 * 60 + 1);
    client.get("/api/v1/invocations").await.problem(401, "token_expired");

    let tokens = server.owner.get("/api/v1/tokens").await.ok();
    let is_agents = |token: &&Value| token["session_id"] == agent.session.as_str();
    let id = tokens["items"].as_array().unwrap().iter().find(is_agents).unwrap()["id"].as_str().unwrap().to_owned();
    assert!(!tokens.to_string().contains(&own), "a token's text is never listed");
    server.owner.post(&format!("/api/v1/tokens/{id}/revoke"), json!({})).await.ok();
    call(&own).await.problem(401, "token_revoked");
    assert_eq!(server.source.calls().len(), 1, "only the one good call reached the source");
}

async fn queries_that_make_no_sense_are_refused(kind: Kind) {
    let server = TestServer::start(kind).await;
    let check = |answer: Answer| answer.problem(400, "invalid_query");
    for query in ["limit=0", "limit=101", "limit=-1", "limit=many", "status=odd", "action=odd", "session=odd", "unknown=1", "after=%00"] {
        check(server.owner.get(&format!("/api/v1/invocations?{query}")).await);
    }
    let agent = server.agent().await;
    let id = agent.pending("fake.write", json!({})).await;
    for wait in ["soon", "-1s", "61s", "1h", "99999999999999999999s"] {
        check(server.owner.get(&format!("/api/v1/invocations/{id}?wait={wait}")).await);
    }
}

async fn too_many_invocations_in_a_minute_are_refused(kind: Kind) {
    let server = TestServer::start_limited(kind, 5).await;
    let (agent, other) = (server.agent().await, server.agent().await);
    for _ in 0..5 {
        agent.invoke("fake.read", json!({})).await.ok();
    }
    let refused = agent.invoke("fake.read", json!({})).await;
    refused.problem(429, "rate_limited");
    assert_eq!(refused.headers["retry-after"], "60");
    other.invoke("fake.read", json!({})).await.ok();
    server.clock.advance_seconds(60);
    agent.invoke("fake.read", json!({})).await.ok();
    assert_eq!(server.source.calls().len(), 7);
}
