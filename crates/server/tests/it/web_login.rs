//! A browser at the API: its login counts beside a word of a page of ours, and by itself it does nothing. And the login that is offered on the
//! terminal of the server.

use crate::browser::Browser;
use crate::harness::{Kind, TestServer, on_both_engines};
use reqwest::Method;
use serde_json::{Value, json};
use server::{Config, Flags};
use std::time::Duration;
use tokio::sync::oneshot;

on_both_engines!(
    a_page_of_ours_answers_with_the_login_of_its_browser,
    a_page_that_is_used_stays_logged_in,
    a_page_of_others_does_nothing_with_the_login_of_a_browser,
    a_stream_ends_with_the_login_it_was_opened_with,
    an_invitation_is_accepted_in_a_browser_once,
);

const WORD: &str = "x-countersign-csrf";
const PATIENCE: Duration = Duration::from_secs(30);

/// A browser in which the owner has logged in, and its word.
async fn logged_in(server: &TestServer) -> (Browser, String) {
    let browser = Browser::of(server);
    assert_eq!(browser.word().await, None);
    browser.get("/login").await;
    assert_eq!(browser.send("/login", &format!("token={}", server.owner.token)).await.status, 200);
    let word = browser.word().await.unwrap();
    (browser, word)
}

async fn status(browser: &Browser, path: &str, headers: &[(&str, &str)]) -> u16 {
    browser.fetch(Method::GET, path, headers).await.status().as_u16()
}

async fn a_page_of_ours_answers_with_the_login_of_its_browser(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let id = agent.pending("fake.write", json!({})).await;
    let (browser, word) = logged_in(&server).await;
    let me: Value = browser.fetch(Method::GET, "/api/v1/whoami", &[(WORD, word.as_str())]).await.json().await.unwrap();
    assert_eq!(me, server.owner.get("/api/v1/whoami").await.ok());
    let origin = server.url.clone();
    let headers = [(WORD, word.as_str()), ("sec-fetch-site", "same-origin"), ("origin", origin.as_str())];
    let answered = browser.fetch(Method::POST, &format!("/api/v1/invocations/{id}/approve"), &headers).await;
    assert_eq!(answered.status(), 200);
    assert_eq!(server.shown(&id).await["answer"]["by"], me["principal"]);
    assert_eq!(server.source.effects(), 1);
    // The word counts as long as the login.
    server.clock.advance_seconds(store::limits::LOGGED_IN_SECONDS);
    assert_eq!(status(&browser, "/api/v1/whoami", &[(WORD, word.as_str())]).await, 401);
    assert_eq!(browser.word().await, None);
    server.verify().await;
}

async fn a_page_that_is_used_stays_logged_in(kind: Kind) {
    let server = TestServer::start(kind).await;
    let (browser, word) = logged_in(&server).await;
    let cookies = async || {
        let told = browser.get("/login/word").await;
        told.headers.get_all("set-cookie").iter().map(|line| line.to_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(cookies().await, Vec::<String>::new(), "half of its time is not over");
    server.clock.advance_seconds(store::limits::LOGGED_IN_SECONDS / 2);
    let sent = cookies().await;
    assert!(sent.len() == 2 && sent[0].starts_with("countersign_browser=") && sent[1].starts_with("countersign_login="), "{sent:?}");
    // The word is the same, and counts as long as the login does now.
    server.clock.advance_seconds(store::limits::LOGGED_IN_SECONDS - 1);
    assert_eq!(status(&browser, "/api/v1/whoami", &[(WORD, word.as_str())]).await, 200);
    assert_eq!(browser.word().await, Some(word.clone()));
    server.clock.advance_seconds(store::limits::LOGGED_IN_SECONDS);
    assert_eq!(status(&browser, "/api/v1/whoami", &[(WORD, word.as_str())]).await, 401);
    assert_eq!((browser.word().await, cookies().await), (None, Vec::new()));
}

async fn a_page_of_others_does_nothing_with_the_login_of_a_browser(kind: Kind) {
    let server = TestServer::start(kind).await;
    let agent = server.agent().await;
    let id = agent.pending("fake.write", json!({})).await;
    let ((browser, word), (_, of_another)) = (logged_in(&server).await, logged_in(&server).await);
    let approve = format!("/api/v1/invocations/{id}/approve");
    for (headers, expected) in [
        (vec![], 401),
        (vec![(WORD, "")], 403),
        (vec![(WORD, "x")], 403),
        (vec![(WORD, of_another.as_str())], 403),
        (vec![(WORD, word.as_str()), ("sec-fetch-site", "cross-site")], 403),
        (vec![(WORD, word.as_str()), ("sec-fetch-site", "same-site")], 403),
        (vec![(WORD, word.as_str()), ("origin", "https://evil.example")], 403),
        (vec![(WORD, word.as_str()), ("origin", "null")], 403),
    ] {
        assert_eq!(browser.fetch(Method::POST, &approve, &headers).await.status().as_u16(), expected, "{headers:?}");
    }
    // A page that is open since before the login changed can tell this from what it may not do.
    let changed: Value = browser.fetch(Method::GET, "/api/v1/whoami", &[(WORD, of_another.as_str())]).await.json().await.unwrap();
    assert_eq!(changed["code"], "login_changed", "{changed}");
    // Neither is a word of use at another door, nor without the cookie, nor as a token.
    assert_eq!(browser.fetch(Method::POST, "/mcp", &[(WORD, word.as_str())]).await.status(), 401);
    assert_eq!(status(&Browser::of(&server), "/api/v1/whoami", &[(WORD, word.as_str())]).await, 401);
    server.owner.with_token(&word).get("/api/v1/whoami").await.problem(401, "unauthenticated");
    // No page of others reads the answer that has the word.
    let told = browser.fetch(Method::GET, "/login/word", &[("origin", "https://evil.example")]).await;
    assert!(told.headers().get("access-control-allow-origin").is_none());
    assert_eq!((server.source.effects(), server.shown(&id).await["status"].clone()), (0, json!("pending")));
    // After a logout the word is worth nothing.
    browser.get("/login").await;
    browser.send("/logout", "").await;
    assert_eq!(status(&browser, "/api/v1/whoami", &[(WORD, word.as_str())]).await, 401);
}

async fn a_stream_ends_with_the_login_it_was_opened_with(kind: Kind) {
    let server = TestServer::start(kind).await;
    let (browser, word) = logged_in(&server).await;
    assert_eq!(status(&browser, "/api/v1/stream", &[]).await, 401);
    let mut stream = browser.fetch(Method::GET, "/api/v1/stream", &[(WORD, word.as_str())]).await;
    let mut heard = String::new();
    let mut hear = async |until: &str| {
        while !heard.contains(until) {
            let chunk = tokio::time::timeout(PATIENCE, stream.chunk()).await.unwrap().unwrap().expect("the stream ended");
            heard.push_str(&String::from_utf8_lossy(&chunk));
        }
    };
    hear("stream.opened").await;
    let agent = server.agent().await;
    let id = agent.pending("fake.write", json!({})).await;
    hear(&id).await;
    browser.get("/login").await;
    browser.send("/logout", "").await;
    let after = agent.pending("fake.write", json!({ "text": "after" })).await;
    hear("event: problem").await;
    assert!(!heard.contains(&after), "{heard}");
}

async fn an_invitation_is_accepted_in_a_browser_once(kind: Kind) {
    let server = TestServer::start(kind).await;
    let invited = server.owner.post("/api/v1/users", json!({ "name": "ada", "role": "approver" })).await.ok();
    let place = format!("/login/invitation/{}", invited["invitation"]["invitation"].as_str().unwrap());
    let (ada, other) = (Browser::of(&server), Browser::of(&server));
    // Looking at it uses nothing up, and a form of another page presses no button.
    for browser in [&ada, &other] {
        let shown = browser.get(&place).await;
        assert!(shown.status == 200 && shown.text.contains("Accept the invitation") && !shown.text.contains("approver"), "{}", shown.text);
    }
    assert_eq!(ada.send_bare(&place, &other.fields(&place)).await.status, 403);
    let accepted = ada.send(&place, "").await;
    assert_eq!(accepted.status, 200, "{}", accepted.text);
    assert_eq!(accepted.headers["cache-control"], "no-store");
    // The token that is shown is theirs, and this browser is logged in.
    let token = accepted.text.split("<pre>").nth(1).and_then(|rest| rest.split("</pre>").next()).unwrap();
    assert_eq!(server.owner.with_token(token).get("/api/v1/whoami").await.ok()["name"], "ada");
    let word = ada.word().await.unwrap();
    let me: Value = ada.fetch(Method::GET, "/api/v1/whoami", &[(WORD, word.as_str())]).await.json().await.unwrap();
    assert_eq!((&me["name"], &me["role"]), (&json!("ada"), &json!("approver")));
    let late = other.send(&place, "").await;
    assert!(late.status == 401 && late.text.contains("was redeemed already") && other.word().await.is_none(), "{}", late.text);
    other.get("/login/invitation/cs_invitation_wrong").await;
    assert_eq!(other.send("/login/invitation/cs_invitation_wrong", "").await.status, 401);
    server.verify().await;
}

#[tokio::test]
async fn the_address_on_the_terminal_logs_the_owner_in_once() {
    server::init_process();
    let folder = tempfile::tempdir().unwrap();
    let flags = Flags { data: Some(folder.path().join("data")), listen: Some("127.0.0.1:0".to_owned()), ..Flags::default() };
    let config = Config::load(flags, std::iter::empty()).unwrap();
    let (tell, told) = oneshot::channel();
    tokio::spawn(async move {
        server::serve(config, |started| tell.send((started.url.clone(), started.sign_in_url.clone())).unwrap()).await.unwrap();
    });
    let (url, sign_in) = told.await.unwrap();
    let sign_in = sign_in.unwrap();
    let place = sign_in.strip_prefix(&url).unwrap();
    let (owner, other) = (Browser::new(&url), Browser::new(&url));
    // Looking at it uses nothing up, and a form of another page presses no button.
    for browser in [&owner, &other] {
        let shown = browser.get(place).await;
        assert!(shown.status == 200 && shown.text.contains("Log in here"), "{}", shown.text);
    }
    assert_eq!(owner.send_bare(place, &other.fields(place)).await.status, 403);
    assert_eq!(owner.send(place, "").await.status, 200);
    let word = owner.word().await.unwrap();
    let me: Value = owner.fetch(Method::GET, "/api/v1/whoami", &[(WORD, word.as_str())]).await.json().await.unwrap();
    assert_eq!((&me["name"], &me["role"]), (&json!("owner"), &json!("owner")));
    let late = other.send(place, "").await;
    assert!(late.status == 401 && late.text.contains("was used already") && other.word().await.is_none(), "{}", late.text);
    // A browser that opens the server gets its pages, or how to get them.
    let home = owner.fetch(Method::GET, "/", &[("accept", "text/html")]).await;
    assert_eq!(home.headers()["content-type"], "text/html; charset=utf-8");
    assert!(!home.headers()["content-security-policy"].to_str().unwrap().contains("unsafe"));
}
