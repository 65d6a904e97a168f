//! Tests of `http` with real servers on this machine that answer, redirect, break off and stay silent.

use super::*;
use crate::builtin::tests::{call, context, preview, promised};
use crate::limits::{HTTP_REDIRECTS_MAX, HTTP_REQUEST_BYTES_MAX, HTTP_RESPONSE_BYTES_MAX};
use countersign_core::retry::FailureCause;
use countersign_core::source::AfterError;
use serde_json::json;
use std::sync::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// How a server answers one request: the bytes to send, and what it does then.
#[derive(Clone)]
struct Reply {
    bytes: Vec<u8>,
    then: Then,
}

#[derive(Clone, Copy)]
enum Then {
    Close,
    /// Keeps the connection open and sends nothing more.
    Silence,
    /// Closes the connection in a way that the client sees as an error.
    Reset,
}

fn reply(text: impl Into<Vec<u8>>) -> Reply {
    Reply { bytes: text.into(), then: Then::Close }
}

fn answer(status: &str, headers: &str, body: impl AsRef<[u8]>) -> Reply {
    let body = body.as_ref();
    let mut bytes = format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n", body.len()).into_bytes();
    bytes.extend_from_slice(body);
    reply(bytes)
}

fn redirect_to(location: &str) -> Reply {
    answer("302 Found", &format!("location: {location}\r\n"), "")
}

/// A server that remembers every request, head and body.
struct Server {
    port: u16,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    async fn start(replies: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (seen, replies) = (requests.clone(), Arc::new(replies));
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                tokio::spawn(serve(connection, seen.clone(), replies.clone()));
            }
        });
        Self { port, requests }
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

async fn serve(mut connection: TcpStream, seen: Arc<Mutex<Vec<String>>>, replies: Arc<impl Fn(&str) -> Reply + Send + Sync>) {
    let mut request = Vec::new();
    let mut chunk = vec![0; 64 * 1024];
    loop {
        let text = String::from_utf8_lossy(&request);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(0, |length| length.parse().unwrap());
            if body.len() >= length {
                break;
            }
        }
        match connection.read(&mut chunk).await {
            Ok(0) | Err(_) => break,
            Ok(read) => request.extend_from_slice(&chunk[..read]),
        }
    }
    let request = String::from_utf8_lossy(&request).into_owned();
    let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
    seen.lock().unwrap().push(request);
    let Reply { bytes, then } = replies(&path);
    // The client may close the connection before the end of a body that it cuts.
    let _ = connection.write_all(&bytes).await;
    match then {
        Then::Close => {}
        Then::Silence => std::future::pending().await,
        Then::Reset => connection.set_zero_linger().unwrap(),
    }
}

fn http(hosts: &[String], networks: &[&str]) -> Http {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = HttpConfig {
        allowed_hosts: hosts.iter().map(|host| host.parse().unwrap()).collect(),
        allowed_networks: networks.iter().map(|network| network.parse().unwrap()).collect(),
    };
    Http::new(config).unwrap()
}

/// A source that may reach these servers and nothing else.
fn http_to(servers: &[&Server]) -> Http {
    let hosts: Vec<String> = servers.iter().map(|server| server.url("")).collect();
    http(&hosts, &["127.0.0.1/32"])
}

async fn get(http: &Http, url: &str) -> Result<Output, Error> {
    call(http, "http.get", json!({ "url": url })).await
}

async fn impatient(http: &Http, action: &str, params: Value) -> Result<Output, Error> {
    let context = CallContext { timeout_ms: 200, ..context() };
    http.call(&context, &ActionId::parse(action).unwrap(), &params).await
}

#[tokio::test]
async fn without_allowed_hosts_everything_is_refused() {
    let server = Server::start(|_| answer("200 OK", "", "")).await;
    let http = http(&[], &["127.0.0.0/8"]);
    for url in [server.url("/"), "https://example.com/".to_owned(), format!("http://localhost:{}/", server.port)] {
        for (action, params) in [("http.get", json!({ "url": url })), ("http.request", json!({ "url": url, "method": "POST" }))] {
            let error = call(&http, action, params).await.unwrap_err();
            assert_eq!(error.code(), "host_not_allowed");
            assert!(error.to_string().contains("`http.allowed_hosts`"), "{error}");
            // The check before the call refuses it too.
            let checked = http.check(context().asked(&ActionId::parse(action).unwrap(), Some(&json!({ "url": url })))).await;
            assert_eq!(checked.unwrap_err().code(), "host_not_allowed");
        }
    }
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn an_allowed_url_is_got_with_the_callers_headers() {
    let server = Server::start(|_| answer("200 OK", "x-a: 1\r\nx-a: 2\r\ncontent-type: text/plain\r\n", "grüße")).await;
    let params = json!({ "url": server.url("/a?b=c#d"), "headers": { "X-Token": "t", "accept": "text/plain" } });
    let output = call(&http_to(&[&server]), "http.get", params).await.unwrap();
    assert_eq!(
        output.value,
        json!({
            "status": 200,
            "headers": { "content-length": "7", "content-type": "text/plain", "x-a": "1, 2" },
            "body": "grüße",
            "encoding": "utf8",
            "truncated": false,
            "url": server.url("/a?b=c"),
        })
    );
    assert_eq!(output.quality_thousandths, 1_000);
    let request = server.requests().remove(0);
    assert!(request.starts_with("GET /a?b=c HTTP/1.1\r\n"), "{request}");
    for line in ["x-token: t", "accept: text/plain", &format!("host: 127.0.0.1:{}", server.port)] {
        assert_eq!(request.lines().filter(|found| *found == line).count(), 1, "{line} in {request}");
    }
}

#[tokio::test]
async fn any_status_that_will_not_pass_is_a_result() {
    let server = Server::start(|path| answer(&format!("{} Some", &path[1..]), "", "words")).await;
    let http = http_to(&[&server]);
    for (status, quality) in
        [(200, 1_000), (201, 1_000), (304, 0), (300, 0), (301, 0), (400, 0), (401, 0), (404, 0), (500, 0), (501, 0), (505, 0)]
    {
        let output = get(&http, &server.url(&format!("/{status}"))).await.unwrap();
        assert_eq!((&output.value["status"], output.quality_thousandths), (&json!(status), quality));
    }
}

#[tokio::test]
async fn a_status_that_may_pass_fails_a_read_and_says_which_it_was() {
    let server = Server::start(|path| answer(&format!("{} Some", &path[1..]), "", "words")).await;
    let http = http_to(&[&server]);
    for (status, code) in [(429, "http_429"), (502, "http_502"), (503, "http_503"), (504, "http_504")] {
        let url = server.url(&format!("/{status}"));
        let error = get(&http, &url).await.unwrap_err();
        assert_eq!((error.code(), error.cause(), error.after()), (code, FailureCause::Passing, AfterError::NoEffect), "{error}");
        assert!(error.to_string().contains(&status.to_string()), "{error}");
        // Only the server knows whether a request with an effect was performed.
        let sent = call(&http, "http.request", json!({ "method": "POST", "url": url })).await.unwrap();
        assert_eq!(sent.value["status"], status);
    }
}

#[tokio::test]
async fn a_server_that_says_when_to_come_back_is_busy() {
    let dated = |after: &str| answer("503 Service Unavailable", &format!("date: Wed, 21 Oct 2026 07:28:00 GMT\r\n{after}"), "");
    let server = Server::start(move |path| match path {
        "/seconds" => answer("429 Too Many Requests", "retry-after: 7\r\n", ""),
        "/vast" => answer("503 Service Unavailable", &format!("retry-after: {}\r\n", u64::MAX), ""),
        "/date" => answer("503 Service Unavailable", "retry-after: Wed, 21 Oct 2026 07:28:00 GMT\r\n", ""),
        "/dated" => dated("retry-after: Wed, 21 Oct 2026 07:28:09 GMT\r\n"),
        "/past" => dated("retry-after: Wed, 21 Oct 2026 07:27:00 GMT\r\n"),
        "/nonsense" => dated("retry-after: soon\r\n"),
        _ => answer("500 Oops", "retry-after: 7\r\n", ""),
    })
    .await;
    let http = http_to(&[&server]);
    let (seconds, dates) =
        ([("/seconds", 7_000), ("/vast", u64::MAX)], [("/date", u64::MAX), ("/dated", 9_000), ("/past", 0), ("/nonsense", u64::MAX)]);
    for (path, expected) in seconds.into_iter().chain(dates) {
        match get(&http, &server.url(path)).await {
            Err(Error::Busy { retry_after_ms, .. }) => assert_eq!(retry_after_ms, Some(expected), "{path}"),
            other => panic!("{path}: {other:?}"),
        }
        // After a request with an effect, only the server knows whether it was performed, so its status is the result and no reason to retry.
        let output = call(&http, "http.request", json!({ "method": "POST", "url": server.url(path) })).await.unwrap();
        assert!(output.value["status"].as_u64().unwrap() >= 429);
    }
    assert_eq!(get(&http, &server.url("/else")).await.unwrap().value["status"], 500);
}

#[tokio::test]
async fn redirects_are_followed_up_to_their_bound() {
    let server = Server::start(|path| match path[1..].parse::<usize>() {
        Ok(0) => answer("200 OK", "", "there"),
        Ok(left) => redirect_to(&format!("{}", left - 1)),
        Err(_) => redirect_to("/loop"),
    })
    .await;
    let http = http_to(&[&server]);
    let output = get(&http, &server.url(&format!("/{HTTP_REDIRECTS_MAX}"))).await.unwrap();
    assert_eq!((&output.value["body"], &output.value["url"]), (&json!("there"), &json!(server.url("/0"))));
    assert_eq!(server.requests().len(), HTTP_REDIRECTS_MAX + 1);
    for path in [format!("/{}", HTTP_REDIRECTS_MAX + 1), "/loop".to_owned()] {
        assert_eq!(get(&http, &server.url(&path)).await.unwrap_err().code(), "too_many_redirects");
    }
    assert_eq!(server.requests().len(), 3 * (HTTP_REDIRECTS_MAX + 1));
}

#[tokio::test]
async fn every_redirect_is_checked_like_the_first_url() {
    let locations = [
        ("http://169.254.169.254/latest/meta-data/", "address_not_allowed"),
        ("http://127.0.0.2:{port}/", "address_not_allowed"),
        ("http://[::1]:{port}/", "address_not_allowed"),
        ("http://[::ffff:7f00:1]:{port}/", "host_not_allowed"),
        ("http://localhost:{port}/", "host_not_allowed"),
        ("http://127.0.0.1:1/", "host_not_allowed"),
        ("https://127.0.0.1:{port}/", "host_not_allowed"),
        ("//evil.test/", "host_not_allowed"),
        ("https://evil.test/", "host_not_allowed"),
        ("http://user@127.0.0.1:{port}/", "url_not_allowed"),
        ("http://127.0.0.1:{port}@evil.test/", "url_not_allowed"),
        ("http://2130706433:{port}/", "url_not_allowed"),
        ("http://0177.0.0.1:{port}/", "url_not_allowed"),
        ("http://0x7f.1:{port}/", "url_not_allowed"),
        ("http://127.1:{port}/", "url_not_allowed"),
        ("http://127.0.0.1.:{port}/", "url_not_allowed"),
        ("file:///etc/passwd", "url_not_allowed"),
        ("gopher://127.0.0.1:{port}/", "url_not_allowed"),
        ("/\\evil.test", "url_not_allowed"),
        ("http:evil.test", "url_not_allowed"),
    ];
    let server = Server::start(move |path| {
        let (location, port) = path[1..].split_once('/').unwrap();
        redirect_to(&locations[location.parse::<usize>().unwrap()].0.replace("{port}", port))
    })
    .await;
    let mut hosts = vec![server.url(""), "http://169.254.169.254".to_owned()];
    hosts.extend(["127.0.0.2", "[::1]"].map(|host| format!("http://{host}:{}", server.port)));
    let http = http(&hosts, &["127.0.0.1/32", "169.254.0.0/16"]);
    for (number, (location, code)) in locations.into_iter().enumerate() {
        let error = get(&http, &server.url(&format!("/{number}/{}", server.port))).await.unwrap_err();
        assert_eq!(error.code(), code, "{location}: {error}");
    }
    assert_eq!(server.requests().len(), locations.len(), "a redirect was followed");
}

#[tokio::test]
async fn credentials_do_not_follow_to_another_origin() {
    let away = Server::start(|_| answer("200 OK", "", "away")).await;
    let elsewhere = away.url("/");
    let home = Server::start(move |path| if path == "/" { redirect_to("/next") } else { redirect_to(&elsewhere) }).await;
    let headers = json!({ "authorization": "Bearer hunter2", "cookie": "hunter2", "x-api-key": "hunter2", "accept": "text/plain" });
    let output = call(&http_to(&[&home, &away]), "http.get", json!({ "url": home.url("/"), "headers": headers })).await.unwrap();
    assert_eq!(output.value["body"], "away");
    assert!(home.requests().iter().all(|request| request.matches("hunter2").count() == 3), "the same origin keeps them");
    let away = away.requests().remove(0);
    assert!(!away.contains("hunter2") && away.contains("accept: text/plain") && !away.contains("referer"), "{away}");
}

#[tokio::test]
async fn a_name_that_leads_inside_is_refused_before_anything_is_sent() {
    let server = Server::start(|_| answer("200 OK", "", "")).await;
    let hosts = [format!("http://localhost:{}", server.port)];
    let url = format!("http://localhost:{}/", server.port);
    let refusing = http(&hosts, &[]);
    for (action, params) in [("http.get", json!({ "url": url })), ("http.request", json!({ "url": url, "method": "POST" }))] {
        let error = call(&refusing, action, params).await.unwrap_err();
        assert_eq!(error.code(), "address_not_allowed", "{error}");
        assert!(error.to_string().contains("`http.allowed_networks`") && !error.to_string().contains("127.0.0.1"), "{error}");
    }
    assert!(server.requests().is_empty());
    let allowing = http(&hosts, &["127.0.0.0/8"]);
    assert_eq!(get(&allowing, &url).await.unwrap().value["status"], 200);
}

#[tokio::test]
async fn a_long_body_is_cut_and_marked() {
    let server = Server::start(|path| match path {
        "/fits" => answer("200 OK", "", vec![b'a'; HTTP_RESPONSE_BYTES_MAX]),
        "/long" => answer("200 OK", "", vec![b'a'; HTTP_RESPONSE_BYTES_MAX + 1]),
        "/inside-a-character" => answer("200 OK", "", format!("a{}", "é".repeat(HTTP_RESPONSE_BYTES_MAX))),
        "/binary" => answer("200 OK", "", [0xff, 0xfe, 0x00]),
        // A body that does not end by itself.
        _ => {
            let chunk = format!("1000\r\n{}\r\n", "a".repeat(0x1000));
            Reply {
                bytes: format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{}", chunk.repeat(128)).into(),
                then: Then::Silence,
            }
        }
    })
    .await;
    let http = http_to(&[&server]);
    for (path, bytes, truncated) in [
        ("/fits", HTTP_RESPONSE_BYTES_MAX, false),
        ("/long", HTTP_RESPONSE_BYTES_MAX, true),
        ("/inside-a-character", HTTP_RESPONSE_BYTES_MAX - 1, true),
        ("/endless", HTTP_RESPONSE_BYTES_MAX, true),
    ] {
        let output = get(&http, &server.url(path)).await.unwrap();
        let body = output.value["body"].as_str().unwrap();
        assert_eq!(
            (body.len(), &output.value["truncated"], &output.value["encoding"]),
            (bytes, &json!(truncated), &json!("utf8")),
            "{path}"
        );
    }
    let binary = get(&http, &server.url("/binary")).await.unwrap().value;
    assert_eq!((&binary["body"], &binary["encoding"]), (&json!("//4A"), &json!("base64")));
}

#[tokio::test]
async fn a_server_that_does_not_answer_leaves_the_effect_open() {
    let server = Server::start(|path| match path {
        "/half" => Reply { bytes: b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf".to_vec(), then: Then::Silence },
        _ => Reply { bytes: Vec::new(), then: Then::Silence },
    })
    .await;
    let http = http_to(&[&server]);
    let timed_out = Error::TimedOut { source_id: "http".to_owned(), timeout_ms: 200 };
    assert_eq!(impatient(&http, "http.get", json!({ "url": server.url("/") })).await.unwrap_err(), timed_out);
    assert_eq!(impatient(&http, "http.get", json!({ "url": server.url("/half") })).await.unwrap_err(), timed_out);
    assert_eq!(impatient(&http, "http.request", json!({ "url": server.url("/"), "method": "POST" })).await.unwrap_err(), timed_out);
    let output = impatient(&http, "http.request", json!({ "url": server.url("/half"), "method": "POST" })).await.unwrap().value;
    assert_eq!((&output["status"], &output["body"], &output["truncated"]), (&json!(200), &json!("half"), &json!(true)));
    assert_eq!(server.requests().len(), 4, "something was sent twice");
}

#[tokio::test]
async fn a_connection_that_breaks_after_sending_is_reported_and_not_tried_again() {
    let server = Server::start(|path| match path {
        "/close" => reply(""),
        "/reset" => Reply { bytes: Vec::new(), then: Then::Reset },
        "/status" => reply("HTTP/1.1 200"),
        "/noise" => reply("\x16\x03\x01\x02\x00 not http\r\n\r\n"),
        "/headers" => reply(format!("HTTP/1.1 200 OK\r\n{}\r\n", "x-many: y\r\n".repeat(5_000))),
        "/endless-header" => reply(format!("HTTP/1.1 200 OK\r\nx-long: {}", "y".repeat(2_000_000))),
        "/smuggled" => reply("HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello"),
        _ => reply("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf"),
    })
    .await;
    let http = http_to(&[&server]);
    let mut sent = 0;
    for path in ["/close", "/reset", "/status", "/noise", "/headers", "/endless-header", "/smuggled"] {
        for (action, params) in [
            ("http.get", json!({ "url": server.url(path) })),
            ("http.request", json!({ "url": server.url(path), "method": "PUT", "body": "once" })),
        ] {
            let error = call(&http, action, params).await.unwrap_err();
            assert!(matches!(error, Error::Broken { .. }) && !error.was_not_taken_up(), "{action} {path}: {error}");
            sent += 1;
            assert_eq!(server.requests().len(), sent, "{path} was tried again");
        }
    }
    assert!(matches!(get(&http, &server.url("/half")).await.unwrap_err(), Error::Broken { .. }));
    let output = call(&http, "http.request", json!({ "url": server.url("/half"), "method": "POST" })).await.unwrap().value;
    assert_eq!((&output["body"], &output["truncated"]), (&json!("half"), &json!(true)));
}

#[tokio::test]
async fn a_host_that_cannot_be_connected_to_was_sent_nothing() {
    let closed = testkit::nobody().port();
    let plain = Server::start(|_| answer("200 OK", "", "")).await;
    let hosts = [format!("http://127.0.0.1:{closed}"), "http://nobody.invalid".to_owned(), format!("127.0.0.1:{}", plain.port)];
    let http = http(&hosts, &["127.0.0.1/32"]);
    for url in [
        format!("http://127.0.0.1:{closed}/?key=hunter2"),
        "http://nobody.invalid/?key=hunter2".to_owned(),
        // Without a handshake, no request is sent.
        format!("https://127.0.0.1:{}/?key=hunter2", plain.port),
    ] {
        let error = call(&http, "http.request", json!({ "url": url, "method": "POST", "body": "x" })).await.unwrap_err();
        assert!(matches!(error, Error::Unreachable { .. }) && error.was_not_taken_up(), "{url}: {error}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
    assert!(plain.requests().iter().all(|request| !request.contains("POST")));
}

#[tokio::test]
async fn a_request_carries_its_method_and_body_once_and_follows_nothing() {
    let server = Server::start(|path| if path == "/moved" { redirect_to("/elsewhere") } else { answer("201 Created", "", "made") }).await;
    let http = http_to(&[&server]);
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        let headers = json!({ "content-type": "text/plain" });
        let body = "grüße\r\n\r\nGET / HTTP/1.1";
        let params = json!({ "method": method, "url": server.url("/"), "headers": headers, "body": body });
        let output = call(&http, "http.request", params).await.unwrap();
        assert_eq!((&output.value["status"], output.quality_thousandths), (&json!(201), 1_000));
        let request = server.requests().pop().unwrap();
        assert!(request.starts_with(&format!("{method} / HTTP/1.1\r\n")), "{request}");
        assert!(request.ends_with("\r\n\r\ngrüße\r\n\r\nGET / HTTP/1.1") && request.contains("content-length: 25"), "{request}");
    }
    let moved = call(&http, "http.request", json!({ "method": "POST", "url": server.url("/moved") })).await.unwrap().value;
    assert_eq!((&moved["status"], &moved["headers"]["location"]), (&json!(302), &json!("/elsewhere")));
    assert_eq!(server.requests().len(), 5);
}

#[tokio::test]
async fn what_may_not_be_sent_is_refused_before_a_connection_is_made() {
    let server = Server::start(|_| answer("200 OK", "", "")).await;
    let http = http_to(&[&server]);
    let url = server.url("/");
    for headers in [
        json!({ "Host": "evil.test" }),
        json!({ "content-length": "0" }),
        json!({ "Transfer-Encoding": "chunked" }),
        json!({ "connection": "close" }),
        json!({ "Proxy-Authorization": "x" }),
        json!({ "x": "a\r\nhost: evil.test" }),
        json!({ "x\r\nhost: evil.test\r\ny": "a" }),
    ] {
        for (action, params) in [
            ("http.get", json!({ "url": url, "headers": headers })),
            ("http.request", json!({ "url": url, "headers": headers, "method": "POST" })),
        ] {
            assert_eq!(call(&http, action, params).await.unwrap_err().code(), "header_not_allowed");
        }
    }
    for bad in [
        format!("http://user:pass@127.0.0.1:{}/", server.port),
        format!("http://127.0.0.1:{}/a b", server.port),
        format!("http://127.0.0.1:{}/\r\nx: y", server.port),
        format!("http://2130706433:{}/", server.port),
        format!("http://127.0.0.1.:{}/", server.port),
        format!("http://[::ffff:127.0.0.1]:{}/", server.port),
    ] {
        assert_eq!(get(&http, &bad).await.unwrap_err().code(), "url_not_allowed", "{bad}");
    }
    let long = "x".repeat(HTTP_REQUEST_BYTES_MAX + 1);
    let error = call(&http, "http.request", json!({ "method": "POST", "url": url, "body": long })).await.unwrap_err();
    assert_eq!(error.code(), "body_too_large");
    for method in ["GET", "CONNECT", "TRACE", "post", ""] {
        let error = call(&http, "http.request", json!({ "method": method, "url": url })).await.unwrap_err();
        assert_eq!(error.code(), "invalid_params", "{method}");
    }
    for action in ["http.get", "http.request"] {
        assert_eq!(preview(&http, action, json!({ "url": url })).await.unwrap_err().code(), "dry_run_unsupported");
    }
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn what_broke_off_is_asked_for_again_only_under_a_key_the_provider_knows() {
    let server = Server::start(|path| match path {
        "/busy" => answer("409 Conflict", "", "it is being made"),
        "/ill" => answer("503 Service Unavailable", "", ""),
        "/gone" => Reply { bytes: Vec::new(), then: Then::Reset },
        "/no" => answer("422 Unprocessable Content", "", "no such item"),
        _ => answer("201 Created", "", "made"),
    })
    .await;
    let http = http_to(&[&server]);
    let find_out = async |path: &str, headers: Value, may_ask_again: bool| {
        let params = json!({ "method": "POST", "url": server.url(path), "headers": headers, "body": "x" });
        let context = CallContext { may_ask_again, ..context() };
        http.reconcile(&context, &ActionId::parse("http.request").unwrap(), &params).await.unwrap()
    };
    let key = || json!({ "Idempotency-Key": "order-7" });
    for headers in [json!({}), json!({ "idempotency-key": " " })] {
        assert_eq!(find_out("/", headers, true).await, Reconciled::Unknown);
    }
    assert_eq!(find_out("/", key(), false).await, Reconciled::ByAskingAgain, "first it is announced");
    assert!(server.requests().is_empty(), "nothing was sent");
    for (path, status) in [("/", 201), ("/no", 422)] {
        let Reconciled::Happened(output) = find_out(path, key(), true).await else { panic!("{path} tells") };
        assert_eq!(output.value["status"], status);
    }
    assert!(server.requests()[0].to_lowercase().contains("idempotency-key: order-7"));
    for path in ["/busy", "/ill", "/gone"] {
        assert_eq!(find_out(path, key(), true).await, Reconciled::Unknown, "{path}");
    }
    let get = ActionId::parse("http.get").unwrap();
    let context = CallContext { may_ask_again: true, ..context() };
    assert_eq!(http.reconcile(&context, &get, &json!({ "url": server.url("/") })).await, Ok(Reconciled::Unknown));
}

#[test]
fn its_actions_and_their_tiers_are_these() {
    let expected = ["http.get R1 NoEffect Repeatable Unsupported", "http.request R3 NotReversible NotRepeatable Unsupported"];
    assert_eq!(promised(&BUILTIN), expected);
}
