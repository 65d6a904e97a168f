//! A journal makes or reverts all of its files together, or none of them.

use super::*;
use countersign_core::fault::Faults;
use countersign_core::source::AfterError;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use testkit::SeededRandom;

struct Ground {
    folder: tempfile::TempDir,
    place: Place,
}

impl Ground {
    /// At the fault point `at`, `happens` runs in the workspace.
    fn new(at: &str, happens: fn(&Path)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (workspace, snapshots) = (folder.path().join("workspace"), folder.path().join("snapshots"));
        let faults = Faults::at(at, {
            let workspace = workspace.clone();
            move || happens(&workspace)
        });
        let place = Place::open(&workspace, &snapshots, &SeededRandom::new(9)).unwrap().with_faults(&faults);
        for name in ["changed", "deleted"] {
            std::fs::write(workspace.join(name), format!("old {name}")).unwrap();
        }
        Self { folder, place }
    }

    fn workspace(&self) -> PathBuf {
        self.folder.path().join("workspace")
    }

    /// A journal with one file of each kind: `changed`, `made` and `deleted`.
    fn journal(&self) -> Journal {
        let kept = |text: &str| {
            let path = WorkspacePath::parse("kept").unwrap();
            Some(self.place.snapshots.keep_bytes(text.as_bytes(), &path, ".countersign-kept").unwrap())
        };
        let file = |path: &str, previous_sha256: Option<Digest>, new_sha256, mode, made_folders: &[&str]| Evidence {
            path: path.to_owned(),
            previous_sha256,
            new_sha256,
            mode,
            new_mode: None,
            made_folders: made_folders.iter().map(ToString::to_string).collect(),
            workspace: None,
        };
        Journal {
            files: vec![
                file("changed", kept("old changed"), kept("new changed"), Some(0o644), &[]),
                file("folder/made", None, kept("new made"), None, &["folder"]),
                file("deleted", kept("old deleted"), None, Some(0o600), &[]),
            ],
            result_sha256: kept("{}").unwrap(),
            definition_sha256: None,
            workspace: Some(self.place.id.clone()),
            quality_thousandths: 0,
        }
    }

    fn with_desk<T>(&self, work: impl FnOnce(&Desk<'_>) -> T) -> T {
        work(&Desk { place: &self.place, temporary: ".countersign-step", commitment: &Commitment::new("packages") })
    }

    fn held(&self) -> BTreeMap<String, String> {
        let mut held = BTreeMap::new();
        for name in ["changed", "folder/made", "deleted", "folder"] {
            let path = self.workspace().join(name);
            if path.is_dir() {
                held.insert(name.to_owned(), "(folder)".to_owned());
            } else if let Ok(text) = std::fs::read_to_string(path) {
                held.insert(name.to_owned(), text);
            }
        }
        held
    }

    /// No half-written file is left behind.
    fn check_tidy(&self) {
        let left = std::fs::read_dir(self.workspace()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let left: Vec<_> = left.filter(|name| name.starts_with(".countersign-step")).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

fn old() -> BTreeMap<String, String> {
    [("changed", "old changed"), ("deleted", "old deleted")].map(|(name, text)| (name.to_owned(), text.to_owned())).into()
}

fn new() -> BTreeMap<String, String> {
    let files = [("changed", "new changed"), ("folder", "(folder)"), ("folder/made", "new made")];
    files.map(|(name, text)| (name.to_owned(), text.to_owned())).into()
}

#[test]
fn all_of_it_is_made_and_all_of_it_taken_back_however_often() {
    let ground = Ground::new("nowhere", |_| {});
    let journal = ground.journal();
    for _ in 0..2 {
        ground.with_desk(|desk| journal.commit(desk)).unwrap();
        assert_eq!(ground.held(), new());
    }
    for _ in 0..2 {
        let output = ground.with_desk(|desk| journal.revert(desk)).unwrap();
        assert_eq!(output.value["restored"].as_array().unwrap().len(), 3);
        assert_eq!(ground.held(), old());
    }
    ground.check_tidy();
}

#[test]
fn a_step_that_fails_on_the_way_back_leaves_everything_as_it_was_made() {
    // The revert restores `deleted` first. The next file is `folder/made`, which the closure meanwhile replaces with a folder.
    let ground = Ground::new("package.reverted_one", |workspace| {
        std::fs::remove_file(workspace.join("folder/made")).unwrap();
        std::fs::create_dir(workspace.join("folder/made")).unwrap();
    });
    let journal = ground.journal();
    ground.with_desk(|desk| journal.commit(desk)).unwrap();
    let error = ground.with_desk(|desk| journal.revert(desk)).unwrap_err();
    assert_eq!(error.after(), AfterError::NoEffect, "{error}");
    let mut expected = new();
    expected.insert("folder/made".to_owned(), "(folder)".to_owned());
    assert_eq!(ground.held(), expected, "only what somebody else did is otherwise");
    ground.check_tidy();
}

#[test]
fn what_cannot_be_made_again_either_leaves_doubt() {
    let ground = Ground::new("package.reverted_one", |workspace| {
        std::fs::remove_file(workspace.join("folder/made")).unwrap();
        std::fs::create_dir(workspace.join("folder/made")).unwrap();
        std::fs::write(workspace.join("deleted"), "somebody's").unwrap();
    });
    let journal = ground.journal();
    ground.with_desk(|desk| journal.commit(desk)).unwrap();
    let error = ground.with_desk(|desk| journal.revert(desk)).unwrap_err();
    assert_eq!(error.after(), AfterError::Unknown, "{error}");
}

#[test]
fn what_somebody_changed_since_is_not_taken_back_and_neither_is_the_rest() {
    for change in [
        (|workspace: &Path| std::fs::write(workspace.join("changed"), "somebody's").unwrap()) as fn(&Path),
        |workspace| std::fs::write(workspace.join("deleted"), "somebody's").unwrap(),
        |workspace| std::fs::write(workspace.join("folder/made"), "somebody's").unwrap(),
    ] {
        let ground = Ground::new("nowhere", |_| {});
        let journal = ground.journal();
        ground.with_desk(|desk| journal.commit(desk)).unwrap();
        change(&ground.workspace());
        let before = ground.held();
        let error = ground.with_desk(|desk| journal.revert(desk)).unwrap_err();
        assert_eq!((error.code(), error.after()), ("content_changed", AfterError::NoEffect));
        assert_eq!(ground.with_desk(|desk| journal.check_revert(desk.place)), Err(error), "it is seen before it is tried");
        assert_eq!(ground.held(), before);
        ground.check_tidy();
    }
}
