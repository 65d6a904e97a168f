//! Kills the server between the moment at which a call takes its amount of a grant's sum and the moment at which it is settled. What was taken
//! counts as spent, whether or not the call happened: nobody knows.

use crate::crash::{Client, Serving, Upstream, serve_beside, verify};
use reqwest::Method;
use serde_json::{Value, json};

/// Where the server dies, and what the other side has heard by then.
const DYING: &[(&str, &[&str])] = &[("execute.intended", &[]), ("execute.effected", &["300"])];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_between_taking_of_a_sum_and_settling_and_it_is_spent() {
    for (point, heard) in DYING {
        die_spending(point, heard, None).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_between_taking_of_a_sum_and_settling_on_postgresql_and_it_is_spent() {
    for (point, heard) in DYING {
        die_spending(point, heard, Some(testkit::postgres::fresh_database().await)).await;
    }
}

async fn die_spending(point: &str, heard: &[&str], database: Option<String>) {
    server::init_process();
    let (folder, upstream) = (tempfile::tempdir().unwrap(), Upstream::start().await);
    let mut command = serve_beside(folder.path(), database.as_deref(), &upstream);
    command.env("FAULT_POINT", point);
    let server = Serving::spawn(command);
    let owner = Client::new(std::fs::read_to_string(folder.path().join("owner.token")).unwrap().trim().to_owned());
    let bound = json!({ "covers": "http.request", "scope": "org", "sum_max": { "of": "/body", "max": "500", "per": "24h" } });
    let (status, given) = owner.send(&server.url, Method::POST, "grants", bound).await.unwrap();
    assert_eq!(status, 201, "{given}");
    let (_, session) = owner.send(&server.url, Method::POST, "sessions", json!({})).await.unwrap();
    let path = format!("sessions/{}/actions/invoke", session["id"].as_str().unwrap());
    let call = |amount: &str| {
        let params = json!({ "method": "POST", "url": upstream.url, "body": amount });
        json!({ "action": "http.request", "params": params })
    };
    let gone = owner.send(&server.url, Method::POST, &path, call("300")).await;
    assert!(gone.is_err(), "{point}: the server lived on: {gone:?}");
    drop(server);
    let effects = || upstream.seen.lock().unwrap().clone().into_keys().collect::<std::collections::BTreeSet<_>>();
    assert!(effects().iter().eq(heard), "{point}: {:?}", effects());

    let server = Serving::start(folder.path(), database.as_deref(), &upstream);
    let (_, listed) = owner.send(&server.url, Method::GET, "invocations", Value::Null).await.unwrap();
    let id = listed["items"][0]["id"].as_str().unwrap();
    let (_, shown) = owner.send(&server.url, Method::GET, &format!("invocations/{id}?wait=30s"), Value::Null).await.unwrap();
    assert_eq!(shown["invocation"]["status"], "in_doubt", "{point}: {shown:#}");
    let grant = format!("grants/{}", given["id"].as_str().unwrap());
    // 300 of 500 are spent, so more than 200 asks a person.
    for (amount, status, spent) in [("201", 202, "300"), ("200", 200, "500"), ("1", 202, "500")] {
        let (answered, answer) = owner.send(&server.url, Method::POST, &path, call(amount)).await.unwrap();
        assert_eq!(answered, status, "{point}, {amount}: {answer}");
        let (_, left) = owner.send(&server.url, Method::GET, &grant, Value::Null).await.unwrap();
        assert_eq!(left["sum_max"]["spent"], spent, "{point}, {amount}");
    }
    let report = verify(&owner, &server.url, folder.path()).await;
    assert!(report.ok, "{point}: {report:#?}");
}
