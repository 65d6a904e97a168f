//! Kills the server between every two steps of a change on the disk, and of its revert. Afterwards the disk holds either the old or the new
//! state, and the receipt says which.

use crate::crash::{Client, Serving, at_fault, verify};
use crate::packages::tree;
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use tempfile::TempDir;

/// The change of one file: its content before and after.
#[derive(Clone, Copy, Debug)]
struct Change {
    action: &'static str,
    path: &'static str,
    before: Option<&'static str>,
    after: Option<&'static str>,
}

/// Creates the file in a folder that does not exist yet.
const MAKE: Change = Change { action: "files.write_text", path: "deep/note.txt", before: None, after: Some("new") };
const REPLACE: Change = Change { action: "files.write_text", path: "note.txt", before: Some("old"), after: Some("new") };
const DELETE: Change = Change { action: "files.delete", path: "note.txt", before: Some("old"), after: None };

/// The state that is found after the crash.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Left {
    /// There is no trace of the call.
    Nothing,
    NotDone,
    Done,
}

const MAKING: &[(&str, &[Change], Left)] = &[
    ("snapshot.staged", &[REPLACE, DELETE], Left::Nothing),
    ("execute.prepared", &[MAKE], Left::Nothing),
    ("execute.intended", &[MAKE, REPLACE, DELETE], Left::NotDone),
    ("files.staged", &[MAKE, REPLACE], Left::NotDone),
    ("files.placed", &[MAKE, REPLACE], Left::Done),
    ("files.removed", &[DELETE], Left::Done),
    ("execute.effected", &[MAKE, REPLACE, DELETE], Left::Done),
    ("verify.checked", &[MAKE, REPLACE, DELETE], Left::Done),
    ("record.ended", &[REPLACE], Left::Done),
];

/// If the change itself already passed a point, the revert is the second time, marked `:2`.
const TAKING_BACK: &[(&str, &[Change], Left)] = &[
    ("execute.prepared:2", &[MAKE], Left::Nothing),
    ("execute.intended:2", &[MAKE, REPLACE, DELETE], Left::Done),
    ("revert.staged", &[MAKE, REPLACE, DELETE], Left::Done),
    ("revert.placed", &[MAKE, REPLACE, DELETE], Left::Done),
    ("execute.effected:2", &[REPLACE], Left::Done),
    ("record.ended:2", &[MAKE], Left::Done),
];

/// The fault points at which these tests kill the server.
pub(crate) fn points() -> impl Iterator<Item = &'static str> {
    MAKING.iter().chain(TAKING_BACK).map(|(point, ..)| *point)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_between_every_two_steps_and_the_disk_and_the_receipt_agree() {
    for (index, (point, changes, left)) in MAKING.iter().enumerate() {
        for change in tried(index, changes) {
            die_making(point, change, *left, None).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_between_every_two_steps_on_postgresql_and_the_disk_and_the_receipt_agree() {
    for (point, changes, left) in MAKING {
        die_making(point, &changes[0], *left, Some(testkit::postgres::fresh_database().await)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_between_every_two_steps_of_taking_back_and_the_disk_and_the_receipt_agree() {
    for (index, (point, changes, left)) in TAKING_BACK.iter().enumerate() {
        for change in tried(index, changes) {
            die_taking_back(point, change, *left, None).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_between_every_two_steps_of_taking_back_on_postgresql_and_the_disk_and_the_receipt_agree() {
    for (point, changes, left) in TAKING_BACK {
        die_taking_back(point, &changes[0], *left, Some(testkit::postgres::fresh_database().await)).await;
    }
}

/// All changes with `make test ARGS=--all`; otherwise one change for each point, a different one for the next.
fn tried(index: usize, changes: &[Change]) -> impl Iterator<Item = &Change> {
    changes.iter().cycle().skip(index).take(testkit::rounds(changes.len(), 1))
}

/// A data folder whose server dies at a fault point.
struct Ground {
    folder: TempDir,
    database: Option<String>,
    owner: Client,
    change: Change,
}

impl Ground {
    async fn new(point: &str, change: &Change, database: Option<String>) -> (Self, Serving) {
        server::init_process();
        let folder = tempfile::tempdir().unwrap();
        let server = at_fault(folder.path(), database.as_deref(), Some(point));
        let token = std::fs::read_to_string(folder.path().join("owner.token")).unwrap().trim().to_owned();
        let ground = Self { folder, database, owner: Client::new(token), change: *change };
        let mode = ground.owner.send(&server.url, Method::PUT, &format!("modes/{}", change.action), json!({ "mode": "allow" })).await;
        assert_eq!(mode.unwrap().0, 200);
        if let Some(before) = change.before {
            std::fs::write(ground.workspace().join(change.path), before).unwrap();
        }
        (ground, server)
    }

    fn workspace(&self) -> std::path::PathBuf {
        self.folder.path().join("workspace")
    }

    fn serve(&self) -> Serving {
        at_fault(self.folder.path(), self.database.as_deref(), None)
    }

    async fn make(&self, server: &Serving) -> Result<(u16, Value), reqwest::Error> {
        let (_, session) = self.owner.send(&server.url, Method::POST, "sessions", json!({})).await.unwrap();
        let mut params = json!({ "path": self.change.path });
        if let ("files.write_text", Some(text)) = (self.change.action, self.change.after) {
            params["text"] = json!(text);
        }
        let path = format!("sessions/{}/actions/invoke", session["id"].as_str().unwrap());
        self.owner.send(&server.url, Method::POST, &path, json!({ "action": self.change.action, "params": params })).await
    }

    async fn invocations(&self, server: &Serving) -> Vec<Value> {
        let (_, listed) = self.owner.send(&server.url, Method::GET, "invocations", Value::Null).await.unwrap();
        listed["items"].as_array().unwrap().clone()
    }

    /// Checks that the disk holds this content with its folders, and nothing else.
    fn check_disk(&self, content: Option<&str>, point: &str) {
        let mut expected = BTreeMap::new();
        if let Some(content) = content {
            let folders = Path::new(self.change.path).ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
            expected.extend(folders.map(|folder| (folder.to_str().unwrap().to_owned(), "(folder)".to_owned())));
            expected.insert(self.change.path.to_owned(), content.to_owned());
        }
        assert_eq!(tree(&self.workspace()), expected, "{point} of {:?}", self.change);
        let kept = std::fs::read_dir(self.folder.path().join("snapshots")).unwrap().map(|entry| entry.unwrap().file_name());
        let half: Vec<_> = kept.filter(|name| name.to_str().unwrap().starts_with('.')).collect();
        assert!(half.is_empty(), "{point}: {half:?} is left behind");
    }

    async fn check_log(&self, server: &Serving, receipts: u64, point: &str) {
        let report = verify(&self.owner, &server.url, self.folder.path()).await;
        assert!(report.ok && report.open_intents == 0 && report.receipts == receipts, "{point} of {:?}: {report:#?}", self.change);
    }
}

async fn die_making(point: &str, change: &Change, left: Left, database: Option<String>) {
    let (ground, server) = Ground::new(point, change, database).await;
    let gone = ground.make(&server).await;
    assert!(gone.is_err(), "{point}: the server lived on: {gone:?}");
    drop(server);
    let server = ground.serve();
    let found: Vec<_> = ground.invocations(&server).await.iter().map(|found| found["status"].clone()).collect();
    let (statuses, content) = match left {
        Left::Nothing => (vec![], change.before),
        Left::NotDone => (vec![json!("failed")], change.before),
        Left::Done => (vec![json!("succeeded")], change.after),
    };
    assert_eq!(found, statuses, "{point} of {change:?}");
    ground.check_disk(content, point);
    ground.check_log(&server, statuses.len() as u64, point).await;
}

async fn die_taking_back(point: &str, change: &Change, left: Left, database: Option<String>) {
    let (ground, server) = Ground::new(point, change, database).await;
    let (status, made) = ground.make(&server).await.unwrap_or_else(|gone| panic!("{point}: it died too early: {gone}"));
    assert_eq!(status, 200, "{point}: {made}");
    ground.check_disk(change.after, point);
    let revert = format!("invocations/{}/revert", made["invocation"]["id"].as_str().unwrap());
    let gone = ground.owner.send(&server.url, Method::POST, &revert, json!({})).await;
    assert!(gone.is_err(), "{point}: the server lived on: {gone:?}");
    drop(server);
    let server = ground.serve();
    let found = ground.invocations(&server).await;
    if left == Left::Nothing {
        assert_eq!(found.len(), 1, "{point}: {found:#?}");
        ground.check_disk(change.after, point);
        let (status, again) = ground.owner.send(&server.url, Method::POST, &revert, json!({})).await.unwrap();
        assert_eq!(status, 200, "{point}: {again}");
    }
    let found = ground.invocations(&server).await;
    let back: Vec<_> = found.iter().filter(|one| one["reverses"].is_string()).map(|one| one["status"].clone()).collect();
    assert_eq!(back, ["succeeded"], "{point} of {change:?}: {found:#?}");
    ground.check_disk(change.before, point);
    ground.check_log(&server, 2, point).await;
}
