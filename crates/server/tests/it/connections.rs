//! Connections over HTTP: what is made is listed by name, its credential never comes back, and a login in a browser makes one ready.

use crate::harness::{Answer, Client, Kind, TestServer, on_both_engines, on_postgres, on_sqlite};
use crate::issuer::Issuer;
use countersign_core::ports::EventFeed as _;
use countersign_core::{ConnectionId, PrincipalId, SourceId, Tier};
use reqwest::Method;
use serde_json::{Value, json};
use store::limits::LOGIN_SECONDS;
use testkit::FakeSource;

on_both_engines!(a_credential_goes_in_and_no_door_gives_it_back, a_person_logs_in_and_the_tokens_are_renewed_until_the_login_ends,);

on_sqlite!(
    what_is_no_connection_is_refused_and_not_repeated,
    a_connection_that_a_source_uses_stays,
    an_approval_given_before_another_login_runs_nothing,
    a_login_counts_once_in_time_and_for_whoever_may_still_log_in,
    nobody_logs_in_for_a_disabled_org,
    what_an_authorization_server_must_not_do_ends_the_login,
    agents_see_no_connection_and_services_by_their_scopes,
);

on_postgres!(two_servers_renew_a_token_once,);

const VALUE: &str = "canary-static-7731";
/// Everything that the fakes give out begins with it.
const CANARY: &str = "canary-";

async fn make(by: &Client, body: Value) -> Answer {
    by.post("/api/v1/connections", body).await
}

async fn remove(by: &Client, name: &str) -> Answer {
    by.send(Method::DELETE, &format!("/api/v1/connections/{name}"), None).await
}

async fn shown(by: &Client, name: &str) -> Value {
    by.get(&format!("/api/v1/connections/{name}")).await.ok()
}

async fn test(by: &Client, name: &str) -> Answer {
    by.post(&format!("/api/v1/connections/{name}/test"), json!({})).await
}

fn bearer(issuer: &Issuer, name: &str) -> Value {
    json!({ "name": name, "kind": "bearer", "url": issuer.resource(), "value": VALUE })
}

/// Starts a login and returns the address to open.
async fn start(by: &Client, name: &str) -> String {
    by.post(&format!("/api/v1/connections/{name}/login"), json!({})).await.ok()["url"].as_str().unwrap().to_owned()
}

/// Opens the address as a browser does, to the page at its end.
async fn open(by: &Client, url: &str) -> (u16, String) {
    let response = by.http.get(url).send().await.unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}

async fn oauth(issuer: &Issuer, by: &Client, name: &str) {
    make(by, json!({ "name": name, "kind": "oauth", "url": issuer.resource() })).await.ok();
}

async fn log_in(by: &Client, name: &str) {
    let (status, page) = open(by, &start(by, name).await).await;
    assert!(status == 200 && page.contains("is ready"), "{status} {page}");
}

async fn login_of(by: &Client, name: &str) -> Value {
    by.get(&format!("/api/v1/connections/{name}/login")).await.ok()
}

async fn a_credential_goes_in_and_no_door_gives_it_back(kind: Kind) {
    let issuer = Issuer::start().await;
    let server = TestServer::start_reaching(kind, &[&issuer.url]).await;
    let owner = &server.owner;
    let space = server.main_space().await;
    let made =
        make(owner, json!({ "name": "github", "kind": "bearer", "url": issuer.resource(), "value": VALUE, "spaces": ["main"] })).await;
    assert_eq!(made.status, 201, "{made:?}");
    let made = made.body;
    assert!(made["id"].as_str().unwrap().starts_with("con_"), "{made}");
    assert_eq!((&made["state"], &made["version"], &made["spaces"]), (&json!("ready"), &json!(1), &json!([space])));
    assert_eq!((&made["mended_by"], &made["why"], made.get("value")), (&json!(null), &json!(null), None));
    assert_eq!(shown(owner, "github").await, made);
    assert_eq!(shown(owner, made["id"].as_str().unwrap()).await, made);
    assert_eq!(owner.get("/api/v1/connections").await.ok(), json!({ "items": [made], "next": null }));
    make(owner, bearer(&issuer, "github")).await.problem(409, "name_taken");
    assert_eq!(test(owner, "github").await.ok(), json!({ "status": 405, "status_without": 401, "is_let_in": true }));
    // Other kinds, one of them with a secret that has the value.
    owner.send(Method::PUT, "/api/v1/secrets/key", Some(json!({ "value": VALUE }))).await.ok();
    for body in [
        json!({ "name": "search", "kind": "header", "url": issuer.resource(), "account": "X-Api-Key", "secret": "key" }),
        json!({ "name": "wiki", "kind": "basic", "url": issuer.resource(), "account": "robin", "value": VALUE }),
    ] {
        make(owner, body.clone()).await.ok();
        let tested = test(owner, body["name"].as_str().unwrap()).await.ok();
        assert_eq!(tested, json!({ "status": 401, "status_without": null, "is_let_in": false }), "this resource takes bearer tokens only");
    }
    let in_use = owner.send(Method::DELETE, "/api/v1/secrets/key", None).await;
    in_use.problem(409, "secret_in_use");
    assert_eq!(in_use.body["detail"], "secret `key` is used by connection `search`; nothing was deleted");
    assert_eq!(owner.get("/api/v1/secrets/key/used-by").await.ok()["items"][0]["name"], "search");
    oauth(&issuer, owner, "linear").await;
    log_in(owner, "linear").await;
    assert_eq!(test(owner, "linear").await.ok()["is_let_in"], true);

    assert_eq!(remove(owner, "github").await.status, 204);
    remove(owner, "github").await.problem(404, "not_found");
    owner.get("/api/v1/connections/github").await.problem(404, "not_found");
    let kept = shown(owner, made["id"].as_str().unwrap()).await;
    assert_eq!((&kept["state"], &kept["name"]), (&json!("revoked"), &json!("github")), "receipts can name it");
    test(owner, made["id"].as_str().unwrap()).await.problem(404, "not_found");
    // The same name again is another connection, and the id of the first removes nothing.
    make(owner, bearer(&issuer, "github")).await.ok();
    remove(owner, made["id"].as_str().unwrap()).await.problem(404, "not_found");
    assert_ne!(shown(owner, "github").await["id"], made["id"]);

    // The changes are signed, and nothing is derived from the credential.
    let log = server.log().await;
    let changes: Vec<_> = log.iter().map(|(_, body)| &body["change"]).filter(|change| change["connection"].is_string()).collect();
    let said: Vec<_> = changes.iter().map(|change| change["identity"].as_str().unwrap()).collect();
    let expected = ["made", "made", "made", "made", "logged_in", "removed", "made"].map(|change| format!("connection_{change}"));
    assert_eq!(said, expected);
    let fields: Vec<_> = changes[0].as_object().unwrap().keys().collect();
    assert_eq!(fields, ["connection", "identity", "kind", "name", "secret", "spaces", "url", "version"]);

    // Whatever can be read is read. A stream has no end, and tells the events that are read below.
    let document = owner.get("/api/v1/openapi.json").await.ok();
    for (path, operations) in document["paths"].as_object().unwrap() {
        let ends = !path.starts_with("/api/v1/stream");
        if operations.get("get").is_some() && ends && (!path.contains('{') || path.contains("{connection}")) {
            let answer = owner.get(&path.replace("{connection}", "linear")).await;
            assert!(!answer.body.to_string().contains(CANARY) && !format!("{:?}", answer.headers).contains(CANARY), "{path}: {answer:?}");
        }
    }
    let events = countersign_core::ports::EventFeed::list_events_after(&server.store, &server.org, 0, 1_000).await.unwrap();
    assert!(events.iter().any(|event| event.name == "connection.logged_in"));
    assert!(!format!("{events:?} {log:?}").contains(CANARY));
    let mut file = Vec::new();
    server.store.backup(&mut file).await.unwrap();
    assert!(!String::from_utf8(file).unwrap().contains(CANARY));
    assert_eq!(owner.get("/api/v1/receipts/integrity").await.ok()["differences"], json!([]));
    server.verify().await;
}

async fn a_person_logs_in_and_the_tokens_are_renewed_until_the_login_ends(kind: Kind) {
    let issuer = Issuer::start().await;
    let server = TestServer::start_reaching(kind, &[&issuer.url]).await;
    let owner = &server.owner;
    oauth(&issuer, owner, "linear").await;
    let new = shown(owner, "linear").await;
    assert_eq!((&new["state"], &new["why"]), (&json!("needs_login"), &json!("nobody has logged in yet")));
    assert_eq!(new["mended_by"], "an admin or owner, who logs in");
    test(owner, "linear").await.problem(409, "connection_not_ready");
    owner.get("/api/v1/connections/linear/login").await.problem(404, "not_found");
    let url = start(owner, "linear").await;
    assert!(url.starts_with(&format!("{}/authorize?", issuer.url)), "{url}");
    assert_eq!(login_of(owner, "linear").await["status"], "open");
    let (status, page) = open(owner, &url).await;
    assert!(status == 200 && page.contains("linear") && !page.contains(CANARY), "{status} {page}");
    assert_eq!(login_of(owner, "linear").await["status"], "done");
    let ready = shown(owner, "linear").await;
    assert_eq!((&ready["state"], &ready["version"], &ready["issuer"]), (&json!("ready"), &json!(2), &json!(issuer.url)));
    assert_eq!(ready["login_by"], owner.get("/api/v1/whoami").await.ok()["principal"]);

    assert_eq!(test(owner, "linear").await.ok()["is_let_in"], true);
    assert_eq!(issuer.renewals(), 0);
    server.clock.advance_seconds(600);
    let (one, two) = tokio::join!(test(owner, "linear"), test(owner, "linear"));
    assert_eq!((&one.ok()["is_let_in"], &two.ok()["is_let_in"]), (&json!(true), &json!(true)));
    assert_eq!(issuer.renewals(), 1, "one renewal for both");
    assert_eq!(shown(owner, "linear").await["version"], 2, "a renewal is no change");

    // The person ends the login over there: it says who can mend it, and asks no more.
    issuer.end_login();
    server.clock.advance_seconds(600);
    for _ in 0..2 {
        let refused = test(owner, "linear").await;
        refused.problem(409, "connection_not_ready");
        let detail = refused.body["detail"].as_str().unwrap();
        assert!(detail.contains("no longer takes its login") && detail.contains("an admin can log in"), "{detail}");
    }
    assert_eq!(issuer.renewals(), 2);
    let over = shown(owner, "linear").await;
    assert_eq!((&over["state"], &over["mended_by"]), (&json!("needs_login"), &json!("an admin or owner, who logs in")));
    log_in(owner, "linear").await;
    assert_eq!(test(owner, "linear").await.ok()["is_let_in"], true);
    // What is removed is revoked where it came from.
    assert_eq!(remove(owner, "linear").await.status, 204);
    assert!(issuer.revoked().len() == 1 && issuer.revoked()[0].contains("refresh"), "{:?}", issuer.revoked());
    server.verify().await;
}

async fn an_approval_given_before_another_login_runs_nothing(kind: Kind) {
    let issuer = Issuer::start().await;
    let server = TestServer::start_reaching(kind, &[&issuer.url]).await;
    let owner = &server.owner;
    oauth(&issuer, owner, "linear").await;
    log_in(owner, "linear").await;
    let id = ConnectionId::parse(shown(owner, "linear").await["id"].as_str().unwrap()).unwrap();
    let source = FakeSource::new("crm").offering("send_letter", |action| action.tier = Tier::R2).connected(id);
    server.registry.add(&server.org, source.clone());
    let agent = server.agent().await;
    let before = agent.pending("crm.send_letter", json!({})).await;
    owner.approve(&before).await.ok();
    let pending = agent.pending("crm.send_letter", json!({})).await;
    log_in(owner, "linear").await;
    // Whoever logged in may have another account over there.
    owner.approve(&pending).await.problem(409, "tuple_mismatch");
    assert_eq!(source.effects(), 1);
    let since = agent.pending("crm.send_letter", json!({})).await;
    owner.approve(&since).await.ok();
    assert_eq!(source.effects(), 2);
    server.verify().await;
}

async fn two_servers_renew_a_token_once(kind: Kind) {
    let issuer = Issuer::start().await;
    let server = TestServer::start_reaching(kind, &[&issuer.url]).await;
    let second = server.restart().await;
    oauth(&issuer, &server.owner, "linear").await;
    log_in(&server.owner, "linear").await;
    for renewals in 1..=3 {
        server.clock.advance_seconds(600);
        let (one, two, three, four) = tokio::join!(
            test(&server.owner, "linear"),
            test(&second.owner, "linear"),
            test(&server.owner, "linear"),
            test(&second.owner, "linear"),
        );
        for answer in [one, two, three, four] {
            assert_eq!(answer.ok()["is_let_in"], true);
        }
        // A refresh token that was sent twice would have ended the login.
        assert_eq!(issuer.renewals(), renewals);
    }
    assert_eq!(shown(&second.owner, "linear").await["state"], "ready");
}

async fn a_connection_that_a_source_uses_stays(kind: Kind) {
    let issuer = Issuer::start().await;
    let server = TestServer::start_reaching(kind, &[&issuer.url]).await;
    let owner = &server.owner;
    let made = make(owner, bearer(&issuer, "github")).await.ok();
    let by = PrincipalId::parse(owner.get("/api/v1/whoami").await.ok()["principal"].as_str().unwrap()).unwrap();
    let settings = json!({
        "title": "GitHub", "server": { "kind": "http", "url": issuer.resource() }, "connection": made["id"], "default_tier": null,
        "hints": "untrusted", "tiers": {}, "spaces": null, "list_timeout_ms": 1_000, "call_timeout_ms": 1_000,
    });
    let (source, settings) = (SourceId::parse("github").unwrap(), serde_json::from_value(settings).unwrap());
    let added = server.store.add_source(&server.org, source.clone(), settings, &by, 1, None).await;
    assert!(matches!(added, Ok(store::Added::Done(_))), "{added:?}");
    let refused = remove(owner, "github").await;
    refused.problem(409, "connection_in_use");
    assert_eq!(refused.body["detail"], "connection `github` is used by source `github`; nothing was removed");
    assert_eq!(shown(owner, "github").await["state"], "ready");
    server.store.remove_source(&server.org, &source, &by).await.unwrap().unwrap();
    assert_eq!(remove(owner, "github").await.status, 204);
    assert_eq!(owner.get("/api/v1/receipts/integrity").await.ok()["differences"], json!([]));
    server.verify().await;
}

async fn what_is_no_connection_is_refused_and_not_repeated(kind: Kind) {
    let issuer = Issuer::start().await;
    let server = TestServer::start_reaching(kind, &[&issuer.url]).await;
    let owner = &server.owner;
    let before = server.counts().await;
    let good = bearer(&issuer, "github");
    let changed = |changes: Value| {
        let mut body = good.clone();
        for (name, value) in changes.as_object().unwrap() {
            body[name] = value.clone();
        }
        body.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        body
    };
    for changes in [
        json!({ "name": "" }),
        json!({ "name": "a b" }),
        json!({ "name": "con_x" }),
        json!({ "kind": "token" }),
        json!({ "value": null }),
        json!({ "value": "" }),
        json!({ "value": 7731 }),
        json!({ "secret": "key" }),
        json!({ "account": "robin" }),
        json!({ "kind": "header" }),
        json!({ "kind": "basic", "account": "a:b" }),
        json!({ "kind": "oauth" }),
        json!({ "kind": "oauth", "value": null, "secret": "key" }),
        json!({ "scopes": ["read"] }),
        json!({ "client_id": "x" }),
        json!({ "kind": "oauth", "value": null, "scopes": ["a b"] }),
        json!({ "spaces": [] }),
        json!({ "token": VALUE }),
        json!({ "url": format!("http://{}", "x".repeat(3_000)) }),
    ] {
        let refused = make(owner, changed(changes.clone())).await;
        refused.problem(400, "invalid_request");
        let told = format!("{} {}", refused.body["detail"], refused.body["errors"]);
        assert!(!told.contains(VALUE) && !told.contains("7731"), "{changes}: {refused:?}");
    }
    for (changes, status, code) in [
        (json!({ "url": "https://evil.test/" }), 403, "host_not_allowed"),
        (json!({ "url": format!("{}?key={VALUE}", issuer.resource()) }), 422, "url_not_allowed"),
        (json!({ "url": "nonsense" }), 422, "url_not_allowed"),
        (json!({ "value": format!("{VALUE}\n") }), 422, "header_not_allowed"),
        (json!({ "kind": "header", "account": "Host" }), 422, "header_not_allowed"),
        (json!({ "value": null, "secret": "absent" }), 404, "not_found"),
        (json!({ "spaces": ["nowhere"] }), 404, "not_found"),
    ] {
        let refused = make(owner, changed(changes)).await;
        refused.problem(status, code);
        assert!(!refused.body.to_string().contains(VALUE), "{refused:?}");
    }
    let refused = make(owner, changed(json!({ "url": "https://evil.test/" }))).await;
    assert!(
        refused.body["hint"].as_str().unwrap().contains("scheme and port unless they are https and 443, with `countersign allow host add`"),
        "{refused:?}"
    );
    assert_eq!(server.counts().await, before);
    make(owner, good).await.ok();
    owner.post("/api/v1/connections/github/login", json!({})).await.problem(400, "invalid_request");
    for path in ["/api/v1/connections/absent", "/api/v1/connections/con_00000000000000000000000000", "/api/v1/connections/a%20b"] {
        owner.get(path).await.problem(404, "not_found");
    }
}

async fn a_login_counts_once_in_time_and_for_whoever_may_still_log_in(kind: Kind) {
    let issuer = Issuer::start().await;
    let server = TestServer::start_reaching(kind, &[&issuer.url]).await;
    let owner = &server.owner;
    oauth(&issuer, owner, "linear").await;
    let callback = |query: &str| format!("{}/oauth/callback?{query}", server.url);
    for query in ["", "state=", "state=nonsense&code=x", "code=x", "state=a&state=b"] {
        let (status, page) = open(owner, &callback(query)).await;
        assert!([400, 404].contains(&status), "{query}: {status} {page}");
    }
    // What came back once does not count again, even if a code would.
    let stay = reqwest::Client::builder().tls_certs_only([]).redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let back = async |url: &str| stay.get(url).send().await.unwrap().headers()["location"].to_str().unwrap().to_owned();
    let returned = back(&start(owner, "linear").await).await;
    assert_eq!(open(owner, &returned).await.0, 200);
    let (status, page) = open(owner, &returned).await;
    assert!(status == 404 && page.contains("not open") && !page.contains(CANARY), "{status} {page}");
    assert_eq!(shown(owner, "linear").await["version"], 2);
    // One that was replaced by another.
    let first = back(&start(owner, "linear").await).await;
    let second = back(&start(owner, "linear").await).await;
    assert_eq!((open(owner, &first).await.0, open(owner, &second).await.0), (404, 200));
    // Too late.
    let late = back(&start(owner, "linear").await).await;
    server.clock.advance_seconds(LOGIN_SECONDS);
    assert_eq!(login_of(owner, "linear").await["status"], "expired");
    let (status, page) = open(owner, &late).await;
    assert!(status == 502 && page.contains("too long ago"), "{status} {page}");
    // Somebody who is no admin any more.
    let admin = owner.person("ada", "admin").await;
    let started = back(&start(&admin, "linear").await).await;
    let id = admin.get("/api/v1/whoami").await.ok()["principal"].as_str().unwrap().trim_start_matches("user:").to_owned();
    owner.send(Method::PATCH, &format!("/api/v1/users/{id}"), Some(json!({ "role": "member" }))).await.ok();
    let (status, page) = open(owner, &started).await;
    assert!(status == 502 && page.contains("may no longer"), "{status} {page}");
    assert_eq!(login_of(owner, "linear").await["status"], "failed");
    assert_eq!(shown(owner, "linear").await["version"], 3, "nothing was changed");
    server.verify().await;
}

async fn nobody_logs_in_for_a_disabled_org(kind: Kind) {
    let issuer = Issuer::start().await;
    let server = TestServer::start_reaching(kind, &[&issuer.url]).await;
    let made = server.owner.post("/api/v1/orgs", json!({ "name": "acme" })).await.ok();
    let redeemed = server.owner.post("/api/v1/invitations/redeem", json!({ "invitation": made["invitation"]["invitation"] })).await.ok();
    let other = server.owner.with_token(redeemed["token"].as_str().unwrap());
    oauth(&issuer, &other, "linear").await;
    let linear = ConnectionId::parse(shown(&other, "linear").await["id"].as_str().unwrap()).unwrap();
    let url = start(&other, "linear").await;
    let id = made["id"].as_str().unwrap();
    server.owner.post(&format!("/api/v1/orgs/{id}/disable"), json!({})).await.ok();
    let org = countersign_core::OrgId::parse(id).unwrap();
    let before = server.store.newest_event(&org).await.unwrap();
    let (status, page) = open(&other, &url).await;
    assert!(status == 403 && page.contains("org of this login is disabled"), "{status} {page}");
    let login = server.store.find_login(&org, &linear).await.unwrap().unwrap();
    assert_eq!((login.ended_at, login.problem, server.store.newest_event(&org).await.unwrap()), (None, None, before));
}

async fn what_an_authorization_server_must_not_do_ends_the_login(kind: Kind) {
    let issuer = Issuer::start().await;
    let server = TestServer::start_reaching(kind, &[&issuer.url, "http://127.0.0.2:9"]).await;
    let owner = &server.owner;
    oauth(&issuer, owner, "linear").await;
    issuer.pose_as("https://evil.test");
    let (status, page) = open(owner, &start(owner, "linear").await).await;
    assert!(status == 502 && page.contains("evil.test"), "{status} {page}");
    let failed = login_of(owner, "linear").await;
    assert_eq!(failed["status"], "failed");
    assert!(failed["problem"].as_str().unwrap().contains("evil.test") && !failed.to_string().contains(CANARY), "{failed}");
    assert_eq!(shown(owner, "linear").await["state"], "needs_login");
    for (place, code) in [("http://127.0.0.2:9/", "address_not_allowed"), ("http://169.254.169.254/", "host_not_allowed")] {
        issuer.move_metadata_to(place);
        owner.post("/api/v1/connections/linear/login", json!({})).await.problem(403, code);
    }
    // Who we are, for servers that read it.
    let document = owner.get("/oauth/client.json").await.ok();
    assert_eq!(document["redirect_uris"], json!([format!("{}/oauth/callback", server.url)]));
}

async fn agents_see_no_connection_and_services_by_their_scopes(kind: Kind) {
    let issuer = Issuer::start().await;
    let server = TestServer::start_reaching(kind, &[&issuer.url]).await;
    make(&server.owner, bearer(&issuer, "github")).await.ok();
    let agent = server.agent().await.client;
    let service = async |scope: &str| {
        let made = server.owner.post("/api/v1/tokens", json!({ "name": scope, "scopes": [scope] })).await.ok();
        server.owner.with_token(made["token"].as_str().unwrap())
    };
    let (reads, manages) = (service("read").await, service("manage_identity").await);
    for path in ["/api/v1/connections", "/api/v1/connections/github", "/api/v1/connections/github/login"] {
        agent.get(path).await.problem(403, "forbidden");
        manages.get(path).await.problem(403, "forbidden");
        assert_ne!(reads.get(path).await.status, 403, "{path}");
    }
    for who in [&agent, &reads] {
        make(who, bearer(&issuer, "mine")).await.problem(403, "forbidden");
        for name in ["github", "absent"] {
            // Who may not change one does not learn which names there are.
            remove(who, name).await.problem(403, "forbidden");
            test(who, name).await.problem(403, "forbidden");
            who.post(&format!("/api/v1/connections/{name}/login"), json!({})).await.problem(403, "forbidden");
        }
    }
    make(&manages, bearer(&issuer, "other")).await.ok();
    assert_eq!(remove(&manages, "github").await.status, 204);
    server.verify().await;
}
