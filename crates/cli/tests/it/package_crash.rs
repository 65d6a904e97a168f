//! Kills the server between every two steps of a package's call, also between the files of one commit. Afterwards either all of the effect
//! is there or nothing of it, and the receipt says which.

use crate::crash::{Client, Serving, at_fault, new_command, verify};
use crate::packages::{WORKSPACE_ID, write_package};
use serde_json::{Value, json};
use std::path::Path;

/// Written in Python, because every server reads the whole interpreter first, and that of JavaScript is fifteen times as large.
const TWO: &str = r#"
import json, os
open("/stage/a.txt", "w").write("new")
os.mkdir("/stage/deep")
open("/stage/deep/b.txt", "w").write("new")
print(json.dumps({"output": {}, "deletes": ["c.txt"]}))
"#;

/// The fault points of a call whose checks pass.
const PASSING: &[&str] = &[
    "snapshot.staged",
    "execute.prepared",
    "execute.intended",
    "package.staged_one",
    "package.staged_one:2",
    "package.staged",
    "package.committed_one",
    "package.committed_one:2",
    "package.committed_one:3",
    "package.committed",
    "execute.effected",
    "verify.checked",
    "record.ended",
];
/// The fault points of a call whose checks always fail: it is rolled back, repaired once, and rolled back for good.
const FAILING: &[&str] = &[
    "remedy.rollback_intended",
    "package.revert_staged",
    "package.reverted_one",
    "package.reverted_one:2",
    "package.reverted",
    "remedy.rolled_back",
    "remedy.repair_prepared",
    "remedy.repair_intended",
    "package.committed_one:5",
    "remedy.repaired",
    "remedy.checked",
    "package.reverted_one:4",
    "remedy.rolled_back_for_good",
    "record.ended",
];
/// The fault points of a revert.
const TAKING_BACK: &[&str] = &[
    "execute.prepared:2",
    "execute.intended:2",
    "package.revert_staged",
    "package.reverted_one",
    "package.reverted_one:2",
    "package.reverted",
    "execute.effected:2",
    "record.ended:2",
];
/// At these points the call has no intent yet, so there is no trace of it after the crash.
const UNANNOUNCED: &[&str] = &["snapshot.staged", "execute.prepared", "execute.prepared:2"];
/// At these points no file is in place yet.
const UNMADE: &[&str] = &["execute.intended", "package.staged_one", "package.staged_one:2", "package.staged"];

/// The fault points at which these tests kill the server.
pub(crate) fn points() -> impl Iterator<Item = &'static str> {
    PASSING.iter().chain(FAILING).chain(TAKING_BACK).copied()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commit_crash_between_every_two_steps_of_a_package_and_the_disk_and_the_receipt_agree() {
    for point in PASSING {
        crash_at(point, true, None).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commit_crash_between_every_two_steps_of_a_package_that_fails_its_checks_and_the_disk_and_the_receipt_agree() {
    for point in FAILING {
        crash_at(point, false, None).await;
    }
}

/// Kills the server at the points that only packages have and at those after a failed check; at every third of them without
/// `make test ARGS=--all`, since the tests on SQLite visit all of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commit_crash_of_a_package_on_postgresql_and_the_disk_and_the_receipt_agree() {
    let ours = |point: &&&str| (point.starts_with("package.") || point.starts_with("remedy.")) && !point.contains(':');
    for (points, ok) in [(PASSING, true), (FAILING, false)] {
        for point in points.iter().filter(ours).step_by(testkit::rounds(1, 3)) {
            crash_at(point, ok, Some(testkit::postgres::fresh_database().await)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commit_crash_between_every_two_steps_of_taking_a_package_back_and_the_disk_and_the_receipt_agree() {
    for point in TAKING_BACK {
        let folder = tempfile::tempdir().unwrap();
        let (data, workspace) = (folder.path().join("data"), folder.path().join("data/workspace"));
        let (owner, process, before) = ready(folder.path(), point, true, None).await;
        let (status, made) = call(&owner, &process).await.unwrap_or_else(|gone| panic!("{point}: it died too early: {gone}"));
        assert_eq!(status, 200, "{point}: {made}");
        let after = held(&workspace);
        let revert = format!("invocations/{}/revert", made["invocation"]["id"].as_str().unwrap());
        let gone = owner.send(&process.url, reqwest::Method::POST, &revert, json!({})).await;
        assert!(gone.is_err(), "{point}: the server lived on: {gone:?}");
        drop(process);
        let process = at_fault(&data, None, None);
        if UNANNOUNCED.contains(point) {
            assert_eq!(held(&workspace), after, "{point}");
            let (status, again) = owner.send(&process.url, reqwest::Method::POST, &revert, json!({})).await.unwrap();
            assert_eq!(status, 200, "{point}: {again}");
        }
        let (_, listed) = owner.send(&process.url, reqwest::Method::GET, "invocations", Value::Null).await.unwrap();
        let back = listed["items"].as_array().unwrap().iter().filter(|one| one["reverses"].is_string());
        assert_eq!(back.map(|one| one["status"].clone()).collect::<Vec<_>>(), ["succeeded"], "{point}: {listed:#}");
        assert_eq!(held(&workspace), before, "{point}");
        check(&owner, &process.url, &data, point, 2).await;
        assert!(!workspace.join("deep").exists(), "{point}: the folder that was made for it is left behind");
    }
}

/// A file is edited between the crash and the next start. The revert was half done, so it can be neither finished nor undone, and the call
/// is in doubt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commit_crash_while_taking_back_and_an_edit_before_the_next_start_leave_doubt() {
    let folder = tempfile::tempdir().unwrap();
    let (data, workspace) = (folder.path().join("data"), folder.path().join("data/workspace"));
    let (owner, process, _) = ready(folder.path(), "package.reverted_one", true, None).await;
    let (_, made) = call(&owner, &process).await.unwrap();
    let revert = format!("invocations/{}/revert", made["invocation"]["id"].as_str().unwrap());
    let gone = owner.send(&process.url, reqwest::Method::POST, &revert, json!({})).await;
    assert!(gone.is_err(), "the server lived on: {gone:?}");
    drop(process);
    std::fs::write(workspace.join("a.txt"), "somebody's").unwrap();
    let process = at_fault(&data, None, None);
    let (_, listed) = owner.send(&process.url, reqwest::Method::GET, "invocations?status=in_doubt", Value::Null).await.unwrap();
    assert_eq!(listed["items"].as_array().unwrap().len(), 1, "{listed:#}");
    assert!(listed["items"][0]["reverses"].is_string());
    assert_eq!(std::fs::read_to_string(workspace.join("a.txt")).unwrap(), "somebody's");
    // A person settles the call.
    let settle = format!("invocations/{}/settle", listed["items"][0]["id"].as_str().unwrap());
    let said = json!({ "as": "failed", "reason": "half of it is back" });
    let (status, settled) = owner.send(&process.url, reqwest::Method::POST, &settle, said).await.unwrap();
    assert_eq!(status, 200, "{settled}");
    let report = verify(&owner, &process.url, &data).await;
    assert!(report.ok && report.open_intents == 0, "{report:#?}");
}

/// The server crashes a second time, while it finishes what the first crash left half done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commit_crash_of_a_package_that_is_cleared_up_and_crashes_again_is_cleared_up_by_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let (owner, before) = crash(folder.path(), "package.committed_one", true, None).await;
    let data = folder.path().join("data");
    let mut starting = new_command(env!("CARGO_BIN_EXE_countersign"));
    starting.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(&data);
    starting.env("COUNTERSIGN_ALLOW_PLUGIN_CODE_EXECUTION", "true").env("FAULT_POINT", "package.committed_one");
    let ended = starting.output().unwrap();
    assert_eq!(ended.status.code(), None, "it was to stop dead while it starts: {ended:?}");
    let half = held(&data.join("workspace"));
    assert_ne!(half, before);
    let process = at_fault(&data, None, None);
    let (_, listed) = owner.send(&process.url, reqwest::Method::GET, "invocations", Value::Null).await.unwrap();
    assert_eq!(listed["items"][0]["status"], "succeeded", "{listed:#}");
    assert_eq!(held(&data.join("workspace")), [Some("new".to_owned()), Some("new".to_owned()), None]);
    check(&owner, &process.url, &data, "twice", 1).await;
}

/// The package is gone, so its code cannot verify the effect. The half-done effect is reverted, without a person and without running code.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commit_crash_of_a_package_that_is_gone_afterwards_is_taken_back() {
    server::init_process();
    let folder = tempfile::tempdir().unwrap();
    let (owner, before) = crash(folder.path(), "package.committed_one", true, None).await;
    let (data, workspace) = (folder.path().join("data"), folder.path().join("data/workspace"));
    assert_ne!(held(&workspace), before, "it did not stop half-way");
    std::fs::remove_dir_all(data.join("packages/kit")).unwrap();
    let process = at_fault(&data, None, None);
    let (_, listed) = owner.send(&process.url, reqwest::Method::GET, "invocations", Value::Null).await.unwrap();
    assert_eq!(listed["items"][0]["status"], "reverted", "{listed:#}");
    assert_eq!(held(&workspace), before);
    let report = verify(&owner, &process.url, &data).await;
    assert!(report.ok && report.open_intents == 0, "{report:#?}");
}

/// Starts a server that dies at a fault point, with a package that may be called. Returns a client, the server and the content of the
/// files.
async fn ready(folder: &Path, point: &str, ok: bool, database: Option<&str>) -> (Client, Serving, [Option<String>; 3]) {
    server::init_process();
    let (data, workspace) = (folder.join("data"), folder.join("data/workspace"));
    let verdict = format!(r#"print('{{"ok": {ok}, "checks": []}}')"#);
    write_package(folder, "kit", "two", "R2", &[("execute.py", TWO), ("verify.py", &verdict)], &json!({}));
    std::fs::create_dir_all(data.join("packages")).unwrap();
    std::fs::rename(folder.join("kit"), data.join("packages/kit")).unwrap();
    let process = at_fault(&data, database, Some(point));
    std::fs::write(workspace.join("a.txt"), "old").unwrap();
    std::fs::write(workspace.join("c.txt"), "old").unwrap();
    let token = std::fs::read_to_string(data.join("owner.token")).unwrap().trim().to_owned();
    let owner = Client::new(token);
    let set = owner.send(&process.url, reqwest::Method::PUT, "modes/kit.two", json!({ "mode": "allow" })).await;
    assert_eq!(set.unwrap().0, 200);
    // The package was copied by hand and not installed, so its action needs a review.
    let read = owner.send(&process.url, reqwest::Method::POST, "reviews/kit.two", json!({})).await;
    assert_eq!(read.unwrap().0, 200);
    (owner, process, held(&workspace))
}

async fn call(owner: &Client, process: &Serving) -> Result<(u16, Value), reqwest::Error> {
    let (_, session) = owner.send(&process.url, reqwest::Method::POST, "sessions", json!({})).await.unwrap();
    let path = format!("sessions/{}/actions/invoke", session["id"].as_str().unwrap());
    owner.send(&process.url, reqwest::Method::POST, &path, json!({ "action": "kit.two", "params": {} })).await
}

/// Makes a call of the package, during which the server dies. Returns a client and the content of the files before the call.
async fn crash(folder: &Path, point: &str, ok: bool, database: Option<&str>) -> (Client, [Option<String>; 3]) {
    let (owner, process, before) = ready(folder, point, ok, database).await;
    let gone = call(&owner, &process).await;
    assert!(gone.is_err(), "{point}: the server lived on: {gone:?}");
    (owner, before)
}

async fn crash_at(point: &str, ok: bool, database: Option<String>) {
    let folder = tempfile::tempdir().unwrap();
    let (owner, before) = crash(folder.path(), point, ok, database.as_deref()).await;
    let (data, workspace) = (folder.path().join("data"), folder.path().join("data/workspace"));
    let process = at_fault(&data, database.as_deref(), None);
    let listed = settled(&owner, &process.url).await;
    let status = listed["items"][0]["status"].as_str();
    let found = held(&workspace);
    let is_old = found == before;
    let is_new = found == [Some("new".to_owned()), Some("new".to_owned()), None];
    assert!(is_old || is_new, "{point}: {found:?} is neither old nor new, and it is {status:?}");
    let expected = match (UNANNOUNCED.contains(&point), UNMADE.contains(&point), ok) {
        (true, ..) => None,
        (false, true, _) => Some("failed"),
        (false, false, true) => Some("succeeded"),
        (false, false, false) => Some("reverted"),
    };
    assert_eq!((status, is_new), (expected, expected == Some("succeeded")), "{point}: the disk holds {found:?}: {listed:#}");
    check(&owner, &process.url, &data, point, u64::from(expected.is_some())).await;
    assert!(is_new || !workspace.join("deep").exists(), "{point}: the folder that was made for it is left behind");
}

/// The calls, once none is running. PostgreSQL may take a while to see that the dead server's connection is gone, and only then the next server
/// finishes its calls.
async fn settled(owner: &Client, url: &str) -> Value {
    loop {
        let (_, listed) = owner.send(url, reqwest::Method::GET, "invocations", Value::Null).await.unwrap();
        if listed["items"].as_array().unwrap().iter().all(|call| call["status"] != "running") {
            return listed;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

/// Checks that the log verifies and that no temporary file is left.
async fn check(owner: &Client, url: &str, data: &Path, point: &str, receipts: u64) {
    let report = verify(owner, url, data).await;
    assert!(report.ok && report.open_intents == 0 && report.receipts == receipts, "{point}: {report:#?}");
    for folder in ["workspace", "workspace/deep", "snapshots"] {
        let Ok(entries) = std::fs::read_dir(data.join(folder)) else { continue };
        let left = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let left: Vec<_> = left.filter(|name| name.starts_with(".countersign") && name != WORKSPACE_ID).collect();
        assert!(left.is_empty(), "{point}: {left:?} is left behind in `{folder}`");
    }
}

fn held(workspace: &Path) -> [Option<String>; 3] {
    ["a.txt", "deep/b.txt", "c.txt"].map(|path| std::fs::read_to_string(workspace.join(path)).ok())
}
