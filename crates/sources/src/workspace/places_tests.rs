//! Tests of which workspace is whose.

use super::*;
use crate::builtin::files::Files;
use crate::builtin::tests::context;
use crate::workspace::ID_FILE;
use countersign_core::ActionId;
use countersign_core::source::Source;
use serde_json::{Value, json};
use std::time::{Duration, UNIX_EPOCH};
use testkit::SeededRandom;

struct Ground {
    home: tempfile::TempDir,
    places: Arc<Places>,
    files: Files,
}

impl Ground {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let (places, files) = open(Folders::below(home.path()));
        Self { home, places, files }
    }

    /// Writes a file as the pipeline would, and returns the evidence.
    async fn write(&self, context: &CallContext, path: &str, text: &str) -> Value {
        let params = json!({ "path": path, "text": text });
        let evidence = self.files.prepare(context, &action("write_text"), &params).await.unwrap();
        let prepared = CallContext { prepared: evidence.clone(), ..context.clone() };
        self.files.call(&prepared, &action("write_text"), &params).await.unwrap();
        evidence.unwrap()
    }

    async fn read(&self, context: &CallContext, path: &str) -> Result<String, &'static str> {
        let read = self.files.call(context, &action("read_text"), &json!({ "path": path })).await;
        read.map(|output| output.value["text"].as_str().unwrap().to_owned()).map_err(|error| error.code())
    }
}

fn open(folders: Folders) -> (Arc<Places>, Files) {
    let places = Arc::new(Places::open(folders, Arc::new(SeededRandom::default()), &Faults::default()).unwrap());
    (Arc::clone(&places), Files::on(places).unwrap())
}

fn action(name: &str) -> ActionId {
    ActionId::parse(&format!("files.{name}")).unwrap()
}

/// A call in a space with members.
fn closed() -> CallContext {
    CallContext { has_own_workspace: true, ..context() }
}

/// A call in another space.
fn elsewhere(context: CallContext) -> CallContext {
    CallContext { space: SpaceId::new(Timestamp::from_micros(0), [9; 10]), ..context }
}

fn names(folder: &Path) -> Vec<String> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[tokio::test]
async fn what_is_written_in_a_space_with_members_is_in_no_workspace_but_its_own() {
    let ground = Ground::new();
    ground.write(&context(), "shared.md", "for all").await;
    assert!(!ground.home.path().join("spaces").exists(), "it is made with the first of them");
    ground.write(&closed(), "plan.md", "for members").await;
    assert_eq!(ground.read(&closed(), "plan.md").await.as_deref(), Ok("for members"));
    assert_eq!(ground.read(&closed(), "shared.md").await, Err("file_not_found"));
    for other in [context(), elsewhere(context()), elsewhere(closed())] {
        assert_eq!(ground.read(&other, "plan.md").await, Err("file_not_found"));
        let path = format!("../spaces/{}/workspace/plan.md", closed().space);
        assert_eq!(ground.read(&other, &path).await, Err("path_outside_workspace"));
    }
    let mut shared = names(ground.places.shared().folder());
    shared.sort();
    assert_eq!(shared, [ID_FILE, "shared.md"]);
    assert_eq!(ground.read(&elsewhere(context()), "shared.md").await.as_deref(), Ok("for all"), "spaces without members share one");
}

#[tokio::test]
async fn a_change_is_reverted_where_it_was_made_whether_its_space_was_closed_or_opened_since() {
    for (then, now) in [(context(), closed()), (closed(), context())] {
        let ground = Ground::new();
        let evidence = ground.write(&then, "a", "then").await;
        ground.write(&now, "a", "now").await;
        // Another process, which has opened none of them yet.
        let (_, files) = open(Folders::below(ground.home.path()));
        files.check_revert(&now, &action("write_text"), &evidence).await.unwrap();
        files.revert(&now, &action("write_text"), &evidence).await.unwrap();
        assert_eq!(ground.read(&then, "a").await, Err("file_not_found"));
        assert_eq!(ground.read(&now, "a").await.as_deref(), Ok("now"));
    }
}

#[tokio::test]
async fn no_other_space_reverts_or_verifies_what_a_space_with_members_did() {
    let ground = Ground::new();
    let evidence = ground.write(&closed(), "a", "x").await;
    for other in [elsewhere(context()), elsewhere(closed())] {
        let error = ground.files.revert(&other, &action("write_text"), &evidence).await.unwrap_err();
        assert_eq!(error, Error::WorkspaceElsewhere);
    }
    assert_eq!(ground.read(&closed(), "a").await.as_deref(), Ok("x"));
}

#[tokio::test]
async fn the_bytes_of_snapshots_are_counted_over_all_workspaces_of_an_org() {
    let ground = Ground::new();
    for (context, before, seconds) in [(context(), "a", 2_000), (closed(), "bb", 1_000)] {
        ground.write(&context, "x", before).await;
        ground.write(&context, "x", "after").await;
        let folder = ground.places.of(&context).unwrap().folder().with_file_name("snapshots");
        let kept = fs::File::options().write(true).open(folder.join(&names(&folder)[0])).unwrap();
        kept.set_modified(UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
    }
    let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
    assert_eq!(ground.places.forget(at(0), 3, at(9_000)).unwrap(), Kept { files: 2, bytes: 3, forgotten: 0 });
    assert_eq!(ground.places.forget(at(0), 2, at(9_000)).unwrap(), Kept { files: 1, bytes: 1, forgotten: 1 }, "the oldest of all goes");
    // Also by a process that has worked in none of them yet.
    let (places, _) = open(Folders::below(ground.home.path()));
    assert_eq!(places.forget(at(3_000), u64::MAX, at(9_000)).unwrap(), Kept { files: 0, bytes: 0, forgotten: 1 });
}

#[tokio::test]
async fn a_shared_workspace_that_holds_the_others_closes_those() {
    let home = tempfile::tempdir().unwrap();
    let at = |path: &str| home.path().join(path);
    let (_, files) = open(Folders { root: at("outer"), snapshots: at("snapshots"), spaces: at("outer/spaces") });
    let error = files.prepare(&closed(), &action("write_text"), &json!({ "path": "a", "text": "x" })).await.unwrap_err();
    assert_eq!(error.code(), "file_io_failed");
}
