//! Kills the server while it reconciles a call that an earlier kill left running. Asking the provider again is an attempt like any other:
//! it is written to the log before it is made, and it is counted whether or not its answer arrived.

use crate::crash::{Client, Serving, Upstream, at_fault, serve_beside, verify};
use reqwest::Method;
use serde_json::{Value, json};
use std::process::Stdio;

/// The fault point at which the second server dies, and the number of requests that the provider has received by the end.
const FINDING_OUT: &[(&str, u64)] = &[("find_out.announced", 2), ("find_out.asked", 3)];

/// The fault points at which these tests kill the server.
pub(crate) fn points() -> impl Iterator<Item = &'static str> {
    FINDING_OUT.iter().map(|(point, _)| *point)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_while_finding_out_and_no_request_goes_unannounced() {
    for (point, requests) in FINDING_OUT {
        die_finding_out(point, *requests, None).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_while_finding_out_on_postgresql_and_no_request_goes_unannounced() {
    for (point, requests) in FINDING_OUT {
        die_finding_out(point, *requests, Some(testkit::postgres::fresh_database().await)).await;
    }
}

async fn die_finding_out(point: &str, requests: u64, database: Option<String>) {
    server::init_process();
    let (folder, upstream) = (tempfile::tempdir().unwrap(), Upstream::start().await);
    let at_fault = |point: &str| {
        let mut command = serve_beside(folder.path(), database.as_deref(), &upstream);
        command.env("FAULT_POINT", point);
        command
    };
    let server = Serving::spawn(at_fault("execute.effected"));
    let owner = Client::new(std::fs::read_to_string(folder.path().join("owner.token")).unwrap().trim().to_owned());
    let set = owner.send(&server.url, Method::PUT, "modes/http.request", json!({ "mode": "allow" })).await;
    assert_eq!(set.unwrap().0, 200);
    let consent = owner.send(&server.url, Method::POST, "consents", json!({ "purpose": "action:http.request" })).await;
    assert_eq!(consent.unwrap().0, 201);
    let (_, session) = owner.send(&server.url, Method::POST, "sessions", json!({})).await.unwrap();
    let params = json!({ "method": "POST", "url": upstream.url, "headers": { "Idempotency-Key": "order-7" }, "body": "order" });
    let path = format!("sessions/{}/actions/invoke", session["id"].as_str().unwrap());
    let gone = owner.send(&server.url, Method::POST, &path, json!({ "action": "http.request", "params": params })).await;
    assert!(gone.is_err(), "{point}: the server lived on: {gone:?}");
    drop(server);

    // The second server dies while it reconciles, before or after it starts to listen.
    let second = at_fault(point).env("COUNTERSIGN_LOG_LEVEL", "off").stdout(Stdio::null()).spawn();
    let ended = tokio::task::spawn_blocking(|| second.unwrap().wait()).await.unwrap().unwrap();
    assert!(!ended.success(), "{point}: the server lived on: {ended}");

    let server = Serving::start(folder.path(), database.as_deref(), &upstream);
    let (_, listed) = owner.send(&server.url, Method::GET, "invocations", Value::Null).await.unwrap();
    let id = listed["items"][0]["id"].as_str().unwrap().to_owned();
    let (_, shown) = owner.send(&server.url, Method::GET, &format!("invocations/{id}?wait=30s"), Value::Null).await.unwrap();
    let invocation = &shown["invocation"];
    assert_eq!((&invocation["status"], &invocation["attempts"]), (&json!("succeeded"), &json!(3)), "{point}: {shown:#}");
    assert_eq!(upstream.seen.lock().unwrap().get("order"), Some(&requests), "{point}");
    let report = verify(&owner, &server.url, folder.path()).await;
    assert!(report.ok && report.open_intents == 0 && report.receipts == 1, "{point}: {report:#?}");
}

/// The fault point at which a server that sends a notification dies, and how the call ends.
const NOTIFYING: &[(&str, &str)] = &[("execute.intended", "failed"), ("execute.effected", "succeeded")];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_while_notifying_and_the_row_tells() {
    for (point, status) in NOTIFYING {
        die_notifying(point, status, None).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_while_notifying_on_postgresql_and_the_row_tells() {
    for (point, status) in NOTIFYING {
        die_notifying(point, status, Some(testkit::postgres::fresh_database().await)).await;
    }
}

async fn die_notifying(point: &str, status: &str, database: Option<String>) {
    server::init_process();
    let folder = tempfile::tempdir().unwrap();
    let server = at_fault(folder.path(), database.as_deref(), Some(point));
    let owner = Client::new(std::fs::read_to_string(folder.path().join("owner.token")).unwrap().trim().to_owned());
    let set = owner.send(&server.url, Method::PUT, "modes/notify.send", json!({ "mode": "allow" })).await;
    assert_eq!(set.unwrap().0, 200);
    let (_, session) = owner.send(&server.url, Method::POST, "sessions", json!({})).await.unwrap();
    let path = format!("sessions/{}/actions/invoke", session["id"].as_str().unwrap());
    let asked = json!({ "action": "notify.send", "params": { "title": "Done", "body": "It is done." } });
    let gone = owner.send(&server.url, Method::POST, &path, asked).await;
    assert!(gone.is_err(), "{point}: the server lived on: {gone:?}");
    drop(server);

    let server = at_fault(folder.path(), database.as_deref(), None);
    let (_, listed) = owner.send(&server.url, Method::GET, "invocations", Value::Null).await.unwrap();
    let id = listed["items"][0]["id"].as_str().unwrap().to_owned();
    let (_, shown) = owner.send(&server.url, Method::GET, &format!("invocations/{id}?wait=30s"), Value::Null).await.unwrap();
    assert_eq!(shown["invocation"]["status"], status, "{point}: {shown:#}");
    let (_, notified) = owner.send(&server.url, Method::GET, "notifications", Value::Null).await.unwrap();
    let sent: Vec<_> = notified["items"].as_array().unwrap().iter().map(|one| one["invocation_id"].as_str().unwrap()).collect();
    assert_eq!(sent, if status == "succeeded" { vec![id.as_str()] } else { vec![] }, "{point}: {notified:#}");
    let report = verify(&owner, &server.url, folder.path()).await;
    assert!(report.ok && report.open_intents == 0 && report.receipts == 1, "{point}: {report:#?}");
}
