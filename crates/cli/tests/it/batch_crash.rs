//! Kills the server between every two steps of a batch. Afterwards either all of the batch is on the disk or nothing of it, and its receipt
//! says which.

use crate::crash::{Client, at_fault, verify};
use serde_json::{Value, json};
use std::path::Path;

const ALL: &[&str] =
    &["batch.opened", "batch.asked", "execute.intended", "execute.effected", "verify.checked", "batch.part", "batch.ending"];
const NOTHING: &[&str] = &["batch.part", "execute.intended", "execute.effected", "batch.part_reverted", "batch.ending"];

/// The fault points at which these tests kill the server.
pub(crate) fn points() -> impl Iterator<Item = &'static str> {
    ALL.iter().chain(NOTHING).copied()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_between_every_two_steps_of_a_batch_and_it_is_whole_or_not_there() {
    for (points, succeeds) in [(ALL, true), (NOTHING, false)] {
        for point in points {
            crash_at(point, succeeds, None).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_between_every_two_steps_of_a_batch_on_postgresql_and_it_is_whole_or_not_there() {
    for (points, succeeds) in [(ALL, true), (NOTHING, false)] {
        for point in points.iter().filter(|point| point.starts_with("batch.")) {
            crash_at(point, succeeds, Some(testkit::postgres::fresh_database().await)).await;
        }
    }
}

async fn crash_at(point: &str, succeeds: bool, database: Option<String>) {
    server::init_process();
    let serve = |folder: &Path, point: Option<&str>| at_fault(folder, database.as_deref(), point);
    let folder = tempfile::tempdir().unwrap();
    let workspace = folder.path().join("workspace");
    let process = serve(folder.path(), Some(point));
    std::fs::write(workspace.join("a.txt"), "old").unwrap();
    let before = held(&workspace);
    let token = std::fs::read_to_string(folder.path().join("owner.token")).unwrap().trim().to_owned();
    let owner = Client::new(token);
    let set = owner.send(&process.url, reqwest::Method::PUT, "modes/files.write_text", json!({ "mode": "allow" })).await;
    assert_eq!(set.unwrap().0, 200);
    let (_, session) = owner.send(&process.url, reqwest::Method::POST, "sessions", json!({})).await.unwrap();
    let path = format!("sessions/{}/actions/batch", session["id"].as_str().unwrap());
    let write = |path: &str| json!({ "action": "files.write_text", "params": { "path": path, "text": "new" } });
    let mut last = write("c.txt");
    if !succeeds {
        // The write expects a file with this digest, and there is no such file. It fails only when it is executed.
        last["params"]["expected_sha256"] = json!("0".repeat(64));
    }
    let body = json!({ "mode": "all_or_nothing", "actions": [write("a.txt"), write("deep/b.txt"), last] });
    let gone = owner.send(&process.url, reqwest::Method::POST, &path, body).await;
    assert!(gone.is_err(), "{point}: the server lived on: {gone:?}");
    drop(process);
    let process = serve(folder.path(), None);
    let (_, listed) = owner.send(&process.url, reqwest::Method::GET, "batches", Value::Null).await.unwrap();
    let id = listed["items"][0]["id"].as_str().unwrap().to_owned();
    let (_, batch) = owner.send(&process.url, reqwest::Method::GET, &format!("batches/{id}?wait=30s"), Value::Null).await.unwrap();
    let status = batch["status"].as_str().unwrap();
    let found = held(&workspace);
    let is_whole = found == ["a.txt", "deep/b.txt", "c.txt"].map(|_| Some("new".to_owned()));
    assert!(is_whole || found == before, "{point}: {found:?} is neither all nor nothing, and it is `{status}`");
    let expected = if is_whole { "succeeded" } else { "reverted" };
    assert_eq!(status, expected, "{point}: the disk holds {found:?}: {batch:#}");
    // A part that had not started when the server died is started again. A part whose intent was written but which did not happen is not.
    assert_eq!(is_whole, succeeds && point != "execute.intended", "{point}");
    let report = verify(&owner, &process.url, folder.path()).await;
    assert!(report.ok && report.open_intents == 0 && report.batches == 1, "{point}: {report:#?}");
    assert!(is_whole || !workspace.join("deep").exists(), "{point}: the folder that was made for it is left behind");
}

fn held(workspace: &Path) -> [Option<String>; 3] {
    ["a.txt", "deep/b.txt", "c.txt"].map(|path| std::fs::read_to_string(workspace.join(path)).ok())
}
