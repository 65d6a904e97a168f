//! kill -9 between every two steps of a package's call, the files of one commit included: all of it is there afterwards or none, and
//! the receipt says which.

use crate::crash::{Client, Serving, new_command, verify};
use crate::packages::{WORKSPACE_ID, write_package};
use serde_json::{Value, json};
use std::path::Path;

const TWO: &str = r#"
const fs = require("fs");
fs.writeFileSync("/stage/a.txt", "new");
fs.mkdirSync("/stage/deep");
fs.writeFileSync("/stage/deep/b.txt", "new");
console.log(JSON.stringify({ output: {}, deletes: ["c.txt"] }));
"#;

/// Of a call that passes its checks, and of one that never does.
const PASSING: &[&str] = &["execute.intended", "package.committed_one", "execute.effected", "verify.checked"];
const FAILING: &[&str] = &[
    "remedy.rollback_intended",
    "package.reverted_one",
    "remedy.rolled_back",
    "remedy.repair_intended",
    "remedy.repaired",
    "remedy.checked",
    "remedy.taken_back",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commit_crash_between_every_two_steps_of_a_package_and_the_disk_and_the_receipt_agree() {
    server::init_process();
    for (points, ok) in [(PASSING, true), (FAILING, false)] {
        for point in points {
            crash_at(point, ok).await;
        }
    }
}

/// Nobody is left who could verify it, so what was half-made is taken back, without a person and without any code.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commit_crash_of_a_package_that_is_gone_afterwards_is_taken_back() {
    server::init_process();
    let folder = tempfile::tempdir().unwrap();
    let (owner, before) = crash(folder.path(), "package.committed_one", true).await;
    let (data, workspace) = (folder.path().join("data"), folder.path().join("data/workspace"));
    assert_ne!(held(&workspace), before, "it did not stop half-way");
    std::fs::remove_dir_all(data.join("packages/kit")).unwrap();
    let process = serve(&data, None);
    let (_, listed) = owner.send(&process.url, reqwest::Method::GET, "invocations", Value::Null).await.unwrap();
    assert_eq!(listed["items"][0]["status"], "reverted", "{listed:#}");
    assert_eq!(held(&workspace), before);
    let report = verify(&owner, &process.url, &data).await;
    assert!(report.ok && report.open_intents == 0, "{report:#?}");
}

/// Lets a call of a package die at a point; who called, and what the files held before.
async fn crash(folder: &Path, point: &str, ok: bool) -> (Client, [Option<String>; 3]) {
    let (data, workspace) = (folder.join("data"), folder.join("data/workspace"));
    let verdict = format!("console.log(JSON.stringify({{ ok: {ok}, checks: [] }}));");
    write_package(folder, "kit", "two", "R2", &[("execute.js", TWO), ("verify.js", &verdict)], &json!({}));
    std::fs::create_dir_all(data.join("packages")).unwrap();
    std::fs::rename(folder.join("kit"), data.join("packages/kit")).unwrap();
    let mut process = serve(&data, None);
    std::fs::write(workspace.join("a.txt"), "old").unwrap();
    std::fs::write(workspace.join("c.txt"), "old").unwrap();
    let before = held(&workspace);
    let token = std::fs::read_to_string(data.join("owner.token")).unwrap().trim().to_owned();
    let owner = Client::new(token);
    let set = owner.send(&process.url, reqwest::Method::PUT, "modes/kit.two", json!({ "mode": "allow" })).await;
    assert_eq!(set.unwrap().0, 200);
    // Put there by hand, not installed: somebody has to have read it.
    let read = owner.send(&process.url, reqwest::Method::POST, "reviews/kit.two", json!({})).await;
    assert_eq!(read.unwrap().0, 200);
    process.kill();
    let process = serve(&data, Some(point));
    let (_, session) = owner.send(&process.url, reqwest::Method::POST, "sessions", json!({})).await.unwrap();
    let path = format!("sessions/{}/actions/invoke", session["id"].as_str().unwrap());
    let gone = owner.send(&process.url, reqwest::Method::POST, &path, json!({ "action": "kit.two", "params": {} })).await;
    assert!(gone.is_err(), "{point}: the server lived on: {gone:?}");
    drop(process);
    (owner, before)
}

async fn crash_at(point: &str, ok: bool) {
    let folder = tempfile::tempdir().unwrap();
    let (owner, before) = crash(folder.path(), point, ok).await;
    let (data, workspace) = (folder.path().join("data"), folder.path().join("data/workspace"));
    let process = serve(&data, None);
    let (_, listed) = owner.send(&process.url, reqwest::Method::GET, "invocations", Value::Null).await.unwrap();
    let status = listed["items"][0]["status"].as_str().unwrap();
    let found = held(&workspace);
    let is_old = found == before;
    let is_new = found == [Some("new".to_owned()), Some("new".to_owned()), None];
    assert!(is_old || is_new, "{point}: {found:?} is neither old nor new, and it is `{status}`");
    let agrees = if is_new { status == "succeeded" } else { ["failed", "reverted"].contains(&status) };
    assert!(agrees, "{point}: it is `{status}`, and the disk holds {found:?}");
    assert_eq!(is_new, ok && point != "execute.intended", "{point}: {found:?}, `{status}`");
    let report = verify(&owner, &process.url, &data).await;
    assert!(report.ok && report.open_intents == 0, "{point}: {report:#?}");
    let left = std::fs::read_dir(&workspace).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let left: Vec<_> = left.filter(|name| name.starts_with(".countersign") && name != WORKSPACE_ID).collect();
    assert!(left.is_empty(), "{point}: {left:?} is left behind");
    assert!(is_new || !workspace.join("deep").exists(), "{point}: the folder that was made for it is left behind");
}

fn held(workspace: &Path) -> [Option<String>; 3] {
    ["a.txt", "deep/b.txt", "c.txt"].map(|path| std::fs::read_to_string(workspace.join(path)).ok())
}

fn serve(data: &Path, point: Option<&str>) -> Serving {
    let mut command = new_command(env!("CARGO_BIN_EXE_countersign"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data);
    command.env("COUNTERSIGN_ALLOW_PLUGIN_CODE_EXECUTION", "true").envs(point.map(|point| ("FAULT_POINT", point)));
    Serving::spawn(command)
}
