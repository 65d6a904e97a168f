//! Tests two real servers on one PostgreSQL, each with its own data folder and workspace. Neither concludes anything about the disk of the
//! other.

use crate::crash::{Client, Serving, new_command, verify};
use reqwest::Method;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How often a server is started until the database has noticed that the previous one is gone. The first start is nearly always enough.
const STARTS_MAX: usize = 100;

struct Ground {
    database: String,
    folders: [tempfile::TempDir; 2],
    owner: Client,
    session: String,
}

impl Ground {
    /// The id of the server that used this folder last.
    fn server_of(&self, folder: usize) -> String {
        let text = std::fs::read_to_string(self.folders[folder].path().join("server.id")).unwrap();
        text.split_whitespace().next().unwrap().to_owned()
    }

    /// Creates an org in which files may be written and two data folders with its keys. No server is running afterwards.
    async fn new() -> Self {
        server::init_process();
        let database = testkit::postgres::fresh_database().await;
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let server = serve(folders[0].path(), &database, None);
        for name in ["master.key", "owner.token"] {
            std::fs::copy(folders[0].path().join(name), folders[1].path().join(name)).unwrap();
        }
        let owner = Client::new(std::fs::read_to_string(folders[0].path().join("owner.token")).unwrap().trim().to_owned());
        let set = owner.send(&server.url, Method::PUT, "modes/files.write_text", json!({ "mode": "allow" })).await.unwrap();
        assert_eq!(set.0, 200, "{set:?}");
        let (_, session) = owner.send(&server.url, Method::POST, "sessions", json!({})).await.unwrap();
        let session = session["id"].as_str().unwrap().to_owned();
        Self { database, folders, owner, session }
    }

    fn serve(&self, at: usize, point: Option<&str>) -> Serving {
        serve(self.folders[at].path(), &self.database, point)
    }

    fn note(&self, at: usize) -> PathBuf {
        self.folders[at].path().join("workspace/note.txt")
    }

    async fn write(&self, server: &Serving) -> Result<(u16, Value), reqwest::Error> {
        let body = json!({ "action": "files.write_text", "params": { "path": "note.txt", "text": "new" } });
        self.owner.send(&server.url, Method::POST, &format!("sessions/{}/actions/invoke", self.session), body).await
    }

    async fn last(&self, server: &Serving) -> Value {
        let (_, listed) = self.owner.send(&server.url, Method::GET, "invocations", Value::Null).await.unwrap();
        listed["items"][0].clone()
    }

    /// Starts a server as the only one, long after any other was seen. It reconciles the call that has the status `left`. Returns the
    /// server and the call.
    async fn serve_alone(&self, at: usize, left: &str) -> (Serving, Value) {
        for _ in 0..STARTS_MAX {
            testkit::postgres::tamper(&self.database, "UPDATE servers SET seen_at = 0").await;
            let server = self.serve(at, None);
            let last = self.last(&server).await;
            if last["status"] != left {
                return (server, last);
            }
        }
        panic!("it stays `{left}`");
    }
}

fn serve(folder: &Path, database: &str, point: Option<&str>) -> Serving {
    Serving::spawn(serving(folder, database, point))
}

fn serving(folder: &Path, database: &str, point: Option<&str>) -> Command {
    let mut command = new_command(env!("CARGO_BIN_EXE_countersign"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--database", database, "--data"]).arg(folder);
    command.envs(point.map(|point| ("FAULT_POINT", point)));
    command
}

/// Where a server is killed after it has told the others of itself, and before it has settled anything.
const STARTING: &str = "recover.joined";

/// The fault points at which these tests kill the server.
pub(crate) fn points() -> impl Iterator<Item = &'static str> {
    [STARTING].into_iter()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_server_left_on_its_own_disk_another_one_does_not_deny() {
    // The other disk holds nothing, or the same text that was to be written. Neither says what happened on the first disk.
    for other in [None, Some("new")] {
        let ground = Ground::new().await;
        let first = ground.serve(0, Some("execute.effected"));
        let gone = ground.write(&first).await;
        assert!(gone.is_err(), "the server lived on: {gone:?}");
        drop(first);
        assert_eq!(std::fs::read_to_string(ground.note(0)).unwrap(), "new");
        if let Some(other) = other {
            std::fs::create_dir_all(ground.note(1).parent().unwrap()).unwrap();
            std::fs::write(ground.note(1), other).unwrap();
        }

        let (second, left) = ground.serve_alone(1, "running").await;
        assert_eq!((&left["status"], &left["error"]["code"]), (&json!("in_doubt"), &json!("interrupted")), "{left:#}");
        assert_eq!(std::fs::read_to_string(ground.note(1)).ok().as_deref(), other);
        let report = verify(&ground.owner, &second.url, ground.folders[0].path()).await;
        assert!(report.ok && report.receipts == 0 && report.open_intents == 1, "{report:#?}");
        drop(second);

        // The server with the workspace can tell what happened.
        let (first, found) = ground.serve_alone(0, "in_doubt").await;
        assert_eq!(found["status"], "succeeded", "{found:#}");
        let report = verify(&ground.owner, &first.url, ground.folders[0].path()).await;
        assert!(report.ok && report.receipts == 1 && report.open_intents == 0, "{report:#?}");
    }
}

/// The first server dies after its effect and before the outcome is recorded, while the second keeps running. Returns the second server and
/// the call.
async fn killed_beside_another(ground: &Ground) -> (Serving, Value) {
    let second = ground.serve(1, None);
    let first = ground.serve(0, Some("execute.effected"));
    let gone = ground.write(&first).await;
    assert!(gone.is_err(), "the server lived on: {gone:?}");
    drop(first);
    let left = ground.last(&second).await;
    assert_eq!(left["status"], "running", "{left:#}");
    (second, left)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_starts_again_beside_another_finds_out_at_once_what_it_left() {
    let ground = Ground::new().await;
    let (second, _left) = killed_beside_another(&ground).await;
    let first = ground.serve(0, None);
    let found = ground.last(&second).await;
    assert_eq!(found["status"], "succeeded", "{found:#}");
    let report = verify(&ground.owner, &first.url, ground.folders[0].path()).await;
    assert!(report.ok && report.receipts == 1 && report.open_intents == 0, "{report:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_again_while_it_starts_still_finds_out_at_once_what_it_left() {
    let ground = Ground::new().await;
    let (second, left) = killed_beside_another(&ground).await;
    for _ in 0..2 {
        let mut starting = serving(ground.folders[0].path(), &ground.database, Some(STARTING));
        let starting = starting.env("COUNTERSIGN_LOG_LEVEL", "off").stdout(Stdio::null()).spawn();
        let ended = tokio::task::spawn_blocking(|| starting.unwrap().wait()).await.unwrap().unwrap();
        assert!(!ended.success(), "the server lived on: {ended}");
    }
    assert_eq!(ground.last(&second).await["status"], "running");
    let first = ground.serve(0, None);
    let path = format!("invocations/{}?wait=60s", left["id"].as_str().unwrap());
    let (_, found) = ground.owner.send(&second.url, Method::GET, &path, Value::Null).await.unwrap();
    assert_eq!(found["invocation"]["status"], "succeeded", "{found:#}");
    // Once all is settled, the leases of the dead are ended. The next server no longer follows them.
    while testkit::postgres::tamper(&ground.database, "UPDATE servers SET seen_at = seen_at").await > 2 {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    drop(first);
    let _first = ground.serve(0, None);
    let remembered = std::fs::read_to_string(ground.folders[0].path().join("server.id")).unwrap();
    assert_eq!(remembered.matches("srv_").count(), 2, "itself, and the last one: {remembered}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_takes_up_what_another_left_when_its_lease_has_run_out() {
    let ground = Ground::new().await;
    let (second, left) = killed_beside_another(&ground).await;
    let sql = format!("UPDATE servers SET seen_at = 0 WHERE id = '{}'", ground.server_of(0));
    assert_eq!(testkit::postgres::tamper(&ground.database, &sql).await, 1, "a server that was killed has not ended its lease");
    let path = format!("invocations/{}?wait=60s", left["id"].as_str().unwrap());
    let (_, doubted) = ground.owner.send(&second.url, Method::GET, &path, Value::Null).await.unwrap();
    // The second server's sweep has tried to reconcile the call, but it cannot see the first server's disk.
    assert_eq!(doubted["invocation"]["status"], "in_doubt", "{doubted:#}");
    // The server with the workspace can tell, even though it is not the only server.
    let _first = ground.serve(0, None);
    let found = ground.last(&second).await;
    assert_eq!(found["status"], "succeeded", "{found:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_in_peace_ends_its_lease() {
    let ground = Ground::new().await;
    let [first, second] = [0, 1].map(|at| ground.serve(at, None));
    let ids = [0, 1].map(|at| ground.server_of(at));
    first.stop();
    let seen = |id: &str| format!("UPDATE servers SET seen_at = seen_at WHERE id = '{id}'");
    assert_eq!(testkit::postgres::tamper(&ground.database, &seen(&ids[0])).await, 0);
    assert_eq!(testkit::postgres::tamper(&ground.database, &seen(&ids[1])).await, 1, "the other lives");
    drop(second);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_server_did_is_taken_back_by_that_server_only() {
    let ground = Ground::new().await;
    let [first, second] = [0, 1].map(|at| ground.serve(at, None));
    std::fs::write(ground.note(1), "new").unwrap();
    let (status, answer) = ground.write(&first).await.unwrap();
    assert_eq!(status, 200, "{answer}");
    let path = format!("invocations/{}/revert", answer["invocation"]["id"].as_str().unwrap());
    let (_, refused) = ground.owner.send(&second.url, Method::POST, &path, json!({})).await.unwrap();
    let refusal = &refused["invocation"];
    assert_eq!((&refusal["status"], &refusal["error"]["code"]), (&json!("denied"), &json!("workspace_elsewhere")), "{refused:#}");
    let held = |at| std::fs::read_to_string(ground.note(at)).ok();
    assert_eq!((held(0).as_deref(), held(1).as_deref()), (Some("new"), Some("new")));
    // The refused revert did nothing, so it can be requested again, from the right server.
    let (_, restored) = ground.owner.send(&first.url, Method::POST, &path, json!({})).await.unwrap();
    assert_eq!(restored["invocation"]["status"], "succeeded", "{restored:#}");
    assert_eq!((held(0).as_deref(), held(1).as_deref()), (None, Some("new")));
}
