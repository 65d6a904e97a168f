//! Secrets over HTTP: what is set is listed by name, and its value never comes back.

use crate::harness::{Answer, Client, Kind, TestServer, on_both_engines, on_sqlite};
use countersign_core::limits::SECRET_VALUE_BYTES_MAX;
use reqwest::Method;
use serde_json::{Value, json};

on_both_engines!(a_value_goes_in_and_no_door_gives_it_back);

on_sqlite!(
    a_secret_is_replaced_by_who_knows_its_version,
    what_is_no_secret_is_refused_and_not_repeated,
    agents_see_no_secret_and_services_by_their_scopes,
);

const VALUE: &str = "correct-horse-battery-staple-7731";

async fn put(by: &Client, name: &str, body: Value) -> Answer {
    by.send(Method::PUT, &format!("/api/v1/secrets/{name}"), Some(body)).await
}

async fn delete(by: &Client, name: &str) -> Answer {
    by.send(Method::DELETE, &format!("/api/v1/secrets/{name}"), None).await
}

async fn a_value_goes_in_and_no_door_gives_it_back(kind: Kind) {
    let server = TestServer::start(kind).await;
    let owner = &server.owner;
    let made = put(owner, "github-token", json!({ "value": VALUE, "description": "for builds" })).await;
    assert_eq!(made.status, 201, "{made:?}");
    let made = made.body;
    assert!(made["id"].as_str().unwrap().starts_with("sec_"), "{made}");
    assert_eq!((&made["name"], &made["version"], &made["description"]), (&json!("github-token"), &json!(1), &json!("for builds")));
    assert_eq!((&made["set_by"], &made["last_used_at"]), (&owner.get("/api/v1/whoami").await.ok()["principal"], &json!(null)));
    assert_eq!(made.get("value"), None);
    assert_eq!(owner.get("/api/v1/secrets/github-token").await.ok(), made);
    assert_eq!(owner.get("/api/v1/secrets").await.ok(), json!({ "items": [made], "next": null }));
    assert_eq!(owner.get("/api/v1/secrets/github-token/used-by").await.ok(), json!({ "items": [], "next": null }));
    let rotated = put(owner, "github-token", json!({ "value": VALUE, "version": 1 })).await;
    assert_eq!((rotated.status, &rotated.body["version"], &rotated.body["id"]), (200, &json!(2), &made["id"]));
    put(owner, "other", json!({ "value": VALUE })).await.ok();
    assert_eq!(delete(owner, "other").await.status, 204);
    delete(owner, "other").await.problem(404, "not_found");

    // The changes are signed, by name and version.
    let log = server.log().await;
    let changes: Vec<_> = log.iter().map(|(_, body)| &body["change"]).filter(|change| change["secret"].is_string()).collect();
    let said: Vec<_> = changes.iter().map(|change| (&change["identity"], &change["name"], &change["version"])).collect();
    let expected = [
        ("secret_set", "github-token", 1),
        ("secret_rotated", "github-token", 2),
        ("secret_set", "other", 1),
        ("secret_deleted", "other", 1),
    ];
    let expected = expected.map(|(change, name, version)| (json!(change), json!(name), json!(version)));
    assert_eq!(said, expected.iter().map(|(change, name, version)| (change, name, version)).collect::<Vec<_>>());
    let fields: Vec<_> = changes[0].as_object().unwrap().keys().collect();
    assert_eq!(fields, ["identity", "name", "secret", "version"], "nothing is derived from the value");

    // Whatever can be read is read. A stream has no end, and tells the events that are read below.
    let document = owner.get("/api/v1/openapi.json").await.ok();
    let mut read = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        let ends = !path.starts_with("/api/v1/stream");
        if operations.get("get").is_some() && ends && (!path.contains('{') || path.contains("{secret}")) {
            let answer = owner.get(&path.replace("{secret}", "github-token")).await;
            assert!(!answer.body.to_string().contains(VALUE) && !format!("{:?}", answer.headers).contains(VALUE), "{path}: {answer:?}");
            read += 1;
        }
    }
    assert!(read > 25, "{read}");
    let events = countersign_core::ports::EventFeed::list_events_after(&server.store, &server.org, 0, 1_000).await.unwrap();
    assert!(events.iter().any(|event| event.name == "secret.rotated"));
    assert!(!format!("{events:?} {log:?}").contains(VALUE));
    // The description of the API says so, too.
    let schemas = &document["components"]["schemas"];
    assert_eq!(schemas["SetSecretRequest"]["properties"]["value"]["writeOnly"], true);
    assert_eq!(schemas["SecretView"]["properties"].get("value"), None);
    server.verify().await;
}

async fn a_secret_is_replaced_by_who_knows_its_version(kind: Kind) {
    let server = TestServer::start(kind).await;
    let owner = &server.owner;
    put(owner, "token", json!({ "value": "a", "version": 1 })).await.problem(404, "not_found");
    put(owner, "token", json!({ "value": "a" })).await.ok();
    put(owner, "token", json!({ "value": "b" })).await.problem(409, "name_taken");
    let refused = put(owner, "token", json!({ "value": "b", "version": 2 })).await;
    refused.problem(409, "secret_changed");
    assert_eq!(refused.body["detail"], "secret `token` has version 1 now; nothing was changed");
    assert_eq!(owner.get("/api/v1/secrets/token").await.ok()["version"], 1);
    put(owner, "token", json!({ "value": "b", "version": 1, "description": "newer" })).await.ok();
    let again = put(owner, "token", json!({ "value": "c", "version": 2 })).await.ok();
    assert_eq!((&again["version"], &again["description"]), (&json!(3), &json!("newer")), "what is not given stays");
    server.verify().await;
}

async fn what_is_no_secret_is_refused_and_not_repeated(kind: Kind) {
    let server = TestServer::start(kind).await;
    let owner = &server.owner;
    let before = server.counts().await;
    for name in ["-a", ".a", "a%20b", "a%2Fb", "a:b", "%C3%A4", &"n".repeat(65)] {
        put(owner, name, json!({ "value": VALUE })).await.problem(400, "invalid_request");
        owner.get(&format!("/api/v1/secrets/{name}")).await.problem(404, "not_found");
        delete(owner, name).await.problem(404, "not_found");
    }
    for name in ["absent", "sec_00000000000000000000000000"] {
        owner.get(&format!("/api/v1/secrets/{name}")).await.problem(404, "not_found");
        owner.get(&format!("/api/v1/secrets/{name}/used-by")).await.problem(404, "not_found");
        delete(owner, name).await.problem(404, "not_found");
    }
    let long = VALUE.repeat(SECRET_VALUE_BYTES_MAX / VALUE.len() + 1);
    for body in [
        json!({ "value": "" }),
        json!({ "value": long }),
        json!({ "value": [VALUE] }),
        json!({ "value": { "text": VALUE } }),
        json!({ "value": 7731 }),
        json!({ "secret": VALUE }),
        json!({ "value": VALUE, "description": "a\u{0}b" }),
        json!({ "value": VALUE, "description": "d".repeat(2_001) }),
        json!({ "value": VALUE, "version": "1" }),
        json!(VALUE),
        json!([VALUE]),
        json!({}),
    ] {
        let refused = put(owner, "token", body).await;
        refused.problem(400, "invalid_request");
        let told = format!("{} {}", refused.body["detail"], refused.body["errors"]);
        assert!(!told.contains(VALUE) && !told.contains("7731"), "{refused:?}");
    }
    put(owner, "token", json!({ "value": "x".repeat(1024 * 1024) })).await.problem(413, "body_too_large");
    assert_eq!(server.counts().await, before);
    // The longest value there is, and one that takes the most room as JSON.
    put(owner, "long", json!({ "value": "\u{1}".repeat(SECRET_VALUE_BYTES_MAX) })).await.ok();
    // A description that holds a credential is redacted, as every text that people write.
    let made = put(owner, "described", json!({ "value": "x", "description": "was AKIAQYLPMN5HHHFPZAM2" })).await.ok();
    assert!(!made.to_string().contains("AKIAQYLPMN5HHHFPZAM2"), "{made}");
}

async fn agents_see_no_secret_and_services_by_their_scopes(kind: Kind) {
    let server = TestServer::start(kind).await;
    put(&server.owner, "token", json!({ "value": VALUE })).await.ok();
    let agent = server.agent().await.client;
    let service = async |scope: &str| {
        let made = server.owner.post("/api/v1/tokens", json!({ "name": scope, "scopes": [scope] })).await.ok();
        server.owner.with_token(made["token"].as_str().unwrap())
    };
    let (reads, manages) = (service("read").await, service("manage_identity").await);
    for path in ["/api/v1/secrets", "/api/v1/secrets/token", "/api/v1/secrets/token/used-by", "/api/v1/secrets/absent"] {
        agent.get(path).await.problem(403, "forbidden");
        manages.get(path).await.problem(403, "forbidden");
        assert_ne!(reads.get(path).await.status, 403, "{path}");
    }
    for who in [&agent, &reads] {
        put(who, "mine", json!({ "value": "x" })).await.problem(403, "forbidden");
        put(who, "token", json!({ "value": "x", "version": 1 })).await.problem(403, "forbidden");
        delete(who, "token").await.problem(403, "forbidden");
        // Who may not set one does not learn which names there are.
        delete(who, "absent").await.problem(403, "forbidden");
    }
    put(&manages, "token", json!({ "value": "x", "version": 1 })).await.ok();
    assert_eq!(delete(&manages, "token").await.status, 204);
    server.verify().await;
}
