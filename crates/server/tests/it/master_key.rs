//! Replacing the master key over HTTP: calls that use a secret go on, the files get their places, and what is no next key is refused.

use crate::harness::{Client, Kind, TestServer, on_both_engines, on_postgres, on_sqlite};
use crate::issuer::Issuer;
use countersign_core::Secret;
use countersign_core::ports::Claims;
use reqwest::Method;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use store::MasterKey;

on_both_engines!(calls_that_use_a_secret_go_on);

on_sqlite!(what_is_no_next_key_is_refused_and_changes_nothing, the_key_of_every_org_is_the_operators);

on_postgres!(several_servers_need_the_same_next_key,);

const PATH: &str = "/api/v1/keys/master";
/// What the issuer lets in.
const VALUE: &str = "canary-static-7731";
/// The key that the harness opens its stores with.
const OLD: [u8; 32] = [7; 32];
const NEW: [u8; 32] = [8; 32];

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

fn beside(server: &TestServer, ending: &str) -> PathBuf {
    PathBuf::from(format!("{}{ending}", server.home.master_key().display()))
}

/// A server whose master key is in its place.
async fn start(kind: Kind, issuer: &Issuer) -> TestServer {
    let server = TestServer::start_reaching(kind, &[&issuer.url]).await;
    write(&server.home.master_key(), &hex::encode(OLD));
    server
}

/// Waits until it has ended. The files have got their places then.
async fn replaced(server: &TestServer) -> Value {
    loop {
        let shown = server.owner.get(PATH).await.ok();
        if shown["is_replacing"] == false {
            assert!(!beside(server, ".next").exists());
            return shown;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn use_secret(by: &Client) {
    let tested = by.post("/api/v1/connections/api/test", json!({})).await.ok();
    assert_eq!(tested["is_let_in"], true, "{tested}");
}

async fn calls_that_use_a_secret_go_on(kind: Kind) {
    let issuer = Issuer::start().await;
    let server = start(kind, &issuer).await;
    let owner = &server.owner;
    for name in (0..120).map(|at| format!("s{at}")).chain(["key".to_owned()]) {
        owner.send(Method::PUT, &format!("/api/v1/secrets/{name}"), Some(json!({ "value": VALUE }))).await.ok();
    }
    owner.post("/api/v1/connections", json!({ "name": "api", "kind": "bearer", "url": issuer.resource(), "secret": "key" })).await.ok();
    let never = json!({ "is_replacing": false, "values_left": 0, "replaced_by": null, "began_at": null, "ended_at": null });
    assert_eq!(owner.get(PATH).await.ok(), never);

    let is_over = Arc::new(AtomicBool::new(false));
    let agent = server.agent().await;
    let calling = tokio::spawn({
        let (owner, is_over) = (owner.clone(), Arc::clone(&is_over));
        async move {
            let mut calls = 0;
            while calls < 3 || !is_over.load(Ordering::SeqCst) {
                use_secret(&owner).await;
                agent.invoke("fake.read", json!({})).await.ok();
                calls += 1;
            }
        }
    });
    // The server works alone, so it makes the key.
    let begun = owner.send(Method::POST, PATH, None).await.ok();
    assert_eq!(begun["replaced_by"], owner.get("/api/v1/whoami").await.ok()["principal"]);
    let ended = replaced(&server).await;
    is_over.store(true, Ordering::SeqCst);
    calling.await.unwrap();
    assert_eq!((&ended["is_replacing"], &ended["values_left"]), (&json!(false), &json!(0)), "{ended}");
    assert!(ended["ended_at"].is_string(), "{ended}");
    assert_eq!(std::fs::read_to_string(beside(&server, ".old")).unwrap(), hex::encode(OLD));
    let new = std::fs::read_to_string(server.home.master_key()).unwrap();
    assert!(new.len() == 64 && new != hex::encode(OLD));
    assert_eq!(std::fs::metadata(server.home.master_key()).unwrap().permissions().mode() & 0o777, 0o600);
    use_secret(owner).await;

    // Who did it is signed, and nothing of the keys.
    let log = server.log().await;
    let said: Vec<_> = log.iter().map(|(_, body)| body).filter(|body| body["change"]["identity"] == "master_key_replaced").collect();
    assert_eq!(said, [&json!({ "by": ended["replaced_by"], "change": { "identity": "master_key_replaced" } })]);
    server.verify().await;
    // The key before it is not overwritten.
    write(&beside(&server, ".next"), &hex::encode(NEW));
    let refused = owner.send(Method::POST, PATH, None).await;
    refused.problem(409, "master_key_unready");
    assert!(refused.body["detail"].as_str().unwrap().contains("master.key.old"), "{refused:?}");
    std::fs::remove_file(beside(&server, ".old")).unwrap();
    owner.send(Method::POST, PATH, None).await.ok();
    replaced(&server).await;
    assert_eq!(std::fs::read_to_string(server.home.master_key()).unwrap(), hex::encode(NEW));
    use_secret(owner).await;
}

async fn what_is_no_next_key_is_refused_and_changes_nothing(kind: Kind) {
    let server = start(kind, &Issuer::start().await).await;
    let (owner, next) = (&server.owner, beside(&server, ".next"));
    let refused = async |words: &str| {
        let refused = owner.send(Method::POST, PATH, None).await;
        refused.problem(409, "master_key_unready");
        assert!(refused.body["detail"].as_str().unwrap().contains(words), "{words}: {refused:?}");
        assert!(!refused.body.to_string().contains(&hex::encode(OLD)), "{refused:?}");
    };
    for text in ["", "nonsense", &"0".repeat(63), &"0".repeat(66), &"x".repeat(64)] {
        write(&next, text);
        refused("is not 64 hex characters").await;
    }
    write(&next, &hex::encode(OLD));
    refused("holds the key that is to be replaced").await;
    write(&next, &hex::encode(NEW));
    std::fs::set_permissions(&next, std::fs::Permissions::from_mode(0o644)).unwrap();
    refused("others can read it").await;
    std::fs::remove_file(&next).unwrap();
    std::fs::create_dir(&next).unwrap();
    std::fs::set_permissions(&next, std::fs::Permissions::from_mode(0o700)).unwrap();
    refused("master.key.next` cannot be used").await;
    std::fs::remove_dir(&next).unwrap();
    assert_eq!(owner.get(PATH).await.ok()["began_at"], json!(null));
    assert!(!server.log().await.iter().any(|(_, body)| body["change"]["identity"] == "master_key_replaced"));

    // One at a time: the first has begun, and nobody goes on with it yet.
    server.store.begin_replacement(MasterKey::new(&Secret::new(NEW)), None).await.unwrap();
    owner.send(Method::POST, PATH, None).await.problem(409, "master_key_changing");
    let shown = owner.get(PATH).await.ok();
    assert_eq!(shown["is_replacing"], true);
    assert!(shown["values_left"].as_u64().unwrap() > 0, "{shown}");
}

async fn the_key_of_every_org_is_the_operators(kind: Kind) {
    let server = start(kind, &Issuer::start().await).await;
    let made = server.owner.post("/api/v1/orgs", json!({ "name": "acme" })).await.ok();
    let redeem = json!({ "invitation": made["invitation"]["invitation"] });
    let redeemed = server.owner.post("/api/v1/invitations/redeem", redeem).await.ok();
    let theirs = server.owner.with_token(redeemed["token"].as_str().unwrap());
    for method in [Method::GET, Method::POST] {
        theirs.send(method, PATH, None).await.problem(403, "forbidden");
    }
    assert!(!beside(&server, ".next").exists());
}

async fn several_servers_need_the_same_next_key(kind: Kind) {
    let server = start(kind, &Issuer::start().await).await;
    let other = server.restart().await;
    for server in [&server, &other] {
        server.store.join().await.unwrap();
    }
    let refused = server.owner.send(Method::POST, PATH, None).await;
    refused.problem(409, "master_key_unready");
    assert!(refused.body["detail"].as_str().unwrap().starts_with("there is no `"), "no key is made for one of several: {refused:?}");
    write(&beside(&server, ".next"), &hex::encode(NEW));
    let refused = server.owner.send(Method::POST, PATH, None).await;
    refused.problem(409, "master_key_unready");
    assert!(refused.body["detail"].as_str().unwrap().contains(other.store.server_id().as_str()), "{refused:?}");
    other.store.learn_master_key(MasterKey::new(&Secret::new(NEW)));
    other.store.renew_lease().await.unwrap();
    server.owner.send(Method::POST, PATH, None).await.ok();
    replaced(&server).await;
    other.agent().await.invoke("fake.read", json!({})).await.ok();
    other.owner.send(Method::PUT, "/api/v1/secrets/made", Some(json!({ "value": VALUE }))).await.ok();
    server.verify().await;
}
