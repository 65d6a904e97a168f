//! Tests of the id of a workspace: it stays, it is unique, and a file that holds no id is refused.

use super::super::{Place, Spelling, spelling_of};
use super::*;
use std::fs;
use testkit::SeededRandom;

fn open(folder: &Path, seed: u64) -> Result<Place, SetupError> {
    Place::open(&folder.join("workspace"), &folder.join("snapshots"), &SeededRandom::new(seed))
}

#[test]
fn a_workspace_keeps_its_id_and_no_two_have_the_same() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let first = open(one.path(), 1).unwrap().id;
    assert_eq!(open(one.path(), 2).unwrap().id, first, "it is made once");
    assert_ne!(open(other.path(), 3).unwrap().id, first);
    let names: Vec<_> = fs::read_dir(one.path().join("workspace")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, [ID_FILE], "nothing half-written is left");
}

#[test]
fn who_shares_the_folder_shares_the_id() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let first = open(one.path(), 1).unwrap().id;
    std::os::unix::fs::symlink(one.path().join("workspace"), other.path().join("workspace")).unwrap();
    assert_eq!(open(other.path(), 2).unwrap().id, first);
}

#[test]
fn of_two_that_are_made_at_once_one_stays() {
    let folder = tempfile::tempdir().unwrap();
    let opened = super::super::open::open_folder(folder.path()).unwrap();
    let [first, second] = [1, 2].map(|seed| WorkspaceId::draw(&SeededRandom::new(seed)));
    assert_ne!(first, second);
    first.put(&opened).unwrap();
    second.put(&opened).unwrap();
    assert_eq!(WorkspaceId::find(&opened, folder.path()).unwrap(), Some(first));
}

#[test]
fn what_is_not_an_id_is_not_taken_for_one() {
    let digits = "0123456789abcdef".repeat(2);
    for (text, is_taken) in [
        (digits.clone(), true),
        (format!("{digits}\n"), true),
        (String::new(), false),
        (digits[1..].to_owned(), false),
        (format!("{digits}0"), false),
        (format!("{digits}\n\n"), false),
        (digits.to_uppercase(), false),
    ] {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("workspace")).unwrap();
        fs::write(folder.path().join("workspace").join(ID_FILE), &text).unwrap();
        match open(folder.path(), 1) {
            Ok(place) => assert!(is_taken && place.id.0 == digits, "{text:?}"),
            Err(error) => assert!(!is_taken && error.to_string().contains("remove it to have a new one made"), "{text:?}: {error}"),
        }
    }
}

#[test]
fn a_link_or_a_folder_in_its_place_is_refused_and_nothing_is_written_through_it() {
    let folder = tempfile::tempdir().unwrap();
    let (workspace, outside) = (folder.path().join("workspace"), folder.path().join("outside"));
    fs::create_dir(&workspace).unwrap();
    std::os::unix::fs::symlink(&outside, workspace.join(ID_FILE)).unwrap();
    assert!(open(folder.path(), 1).is_err());
    assert!(!outside.exists());
    fs::remove_file(workspace.join(ID_FILE)).unwrap();
    fs::create_dir(workspace.join(ID_FILE)).unwrap();
    assert!(open(folder.path(), 1).is_err());
}

#[test]
fn whether_case_tells_names_apart_is_seen_without_writing() {
    let folder = tempfile::tempdir().unwrap();
    let workspace = folder.path().join("workspace");
    assert_eq!(spelling_of(&workspace), None, "there is none");
    fs::create_dir(&workspace).unwrap();
    assert_eq!(spelling_of(&workspace), None, "nobody has worked here");
    let place = open(folder.path(), 1).unwrap();
    assert_eq!(spelling_of(&workspace), Some(place.workspace.spelling()), "both ask the same file system");
    // Simulates a file system that ignores case, and then a case where two files only look like it.
    let other = workspace.join(ID_FILE.to_uppercase());
    fs::hard_link(workspace.join(ID_FILE), &other).unwrap();
    assert_eq!(spelling_of(&workspace), Some(Spelling::CaseInsensitive));
    fs::remove_file(&other).unwrap();
    fs::write(&other, "another file").unwrap();
    assert_eq!(spelling_of(&workspace), Some(Spelling::CaseSensitive));
}
