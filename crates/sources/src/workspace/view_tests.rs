//! Tests of which parts of a workspace a scope shows.

use super::super::{ID_FILE, Place};
use super::*;
use std::fs;
use std::os::unix::fs::symlink;
use testkit::SeededRandom;

/// A workspace in which a server has worked, so that its case sensitivity is known.
fn workspace(files: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    Place::open(&folder.path().join("workspace"), &folder.path().join("snapshots"), &SeededRandom::new(1)).unwrap();
    for file in files {
        let path = folder.path().join("workspace").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, file).unwrap();
    }
    folder
}

fn scope(dirs: &[&str], files: &[&str], forbidden: &[&str]) -> Scope {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    Scope { allowed_dirs: texts(dirs), allowed_files: texts(files), forbidden_files: texts(forbidden) }
}

#[test]
fn a_workspace_is_taken_apart_only_as_far_as_something_in_it_must_not_be_seen() {
    let folder = workspace(&["a/one", "a/two", "a/deep/x", "a/deep/y", "b/one", "secret/key", "top", ".env"]);
    let workspace = folder.path().join("workspace");
    symlink("secret", workspace.join("way")).unwrap();
    symlink("../secret/key", workspace.join("b/link")).unwrap();
    for (scope, expected) in [
        (scope(&[], &[], &["secret"]), vec![".env", "a", "b", "top", "way"]),
        (scope(&[], &[], &["secret/**", ".env"]), vec!["a", "b", "top", "way"]),
        (scope(&[], &[], &["a/deep/x"]), vec![".env", "a/deep/y", "a/one", "a/two", "b", "secret", "top", "way"]),
        // A file that does not exist yet may be created later, and must not be seen then.
        (scope(&[], &[], &["b/later"]), vec![".env", "a", "b/link", "b/one", "secret", "top", "way"]),
        // The target of a link is hidden with the link, even if it does not exist yet.
        (scope(&[], &[], &["way"]), vec![".env", "a", "b", "top"]),
        (scope(&[], &[], &["b/link"]), vec![".env", "a", "b/one", "top", "way"]),
        (scope(&[], &[], &["way/later"]), vec![".env", "a", "b", "secret/key", "top", "way"]),
        (scope(&[], &[], &["top/x"]), vec![".env", "a", "b", "secret", "top", "way"]),
        (scope(&[], &[], &["."]), vec![]),
        // A path that is not valid names nothing.
        (scope(&[], &[], &["../x", "/etc"]), vec![".env", "a", "b", "secret", "top", "way"]),
        (scope(&["a"], &[], &[]), vec!["a"]),
        (scope(&["a/**", "a/deep", "b/"], &["a/one", "top"], &[]), vec!["a", "b", "top"]),
        (scope(&["a"], &[], &["a/deep"]), vec!["a/one", "a/two"]),
        (scope(&["a"], &["a/deep/x", "a/deep/y"], &["a/deep/y"]), vec!["a/deep/x", "a/one", "a/two"]),
        (scope(&["."], &[], &["a", "secret", "way", ".env"]), vec!["b", "top"]),
        // A folder is not the file that was allowed, and neither is anything behind a link.
        (scope(&[], &["a", "way/key", "missing"], &[]), vec![]),
        (scope(&["../x", "/"], &[], &[]), vec![]),
    ] {
        let mut found = parts(&workspace, &scope).unwrap();
        found.retain(|part| part != ID_FILE);
        assert_eq!(found, expected, "{scope:?}");
    }
}

#[test]
fn where_case_does_not_count_no_spelling_shows_what_is_forbidden() {
    let folder = workspace(&["Secret/key", "SECRET.txt", "free"]);
    let workspace = folder.path().join("workspace");
    let scope = scope(&[], &[], &["secret", "Secret.TXT"]);
    let seen = || {
        parts(&workspace, &scope).unwrap().into_iter().filter(|part| !part.to_lowercase().starts_with(".countersign")).collect::<Vec<_>>()
    };
    assert_eq!(seen(), ["SECRET.txt", "Secret", "free"]);
    // Simulates a file system that ignores case.
    fs::hard_link(workspace.join(ID_FILE), workspace.join(ID_FILE.to_uppercase())).unwrap();
    assert_eq!(seen(), ["free"]);
}

#[test]
fn a_scope_that_leaves_too_many_parts_is_refused_before_anything_runs() {
    let folder = workspace(&[]);
    let workspace = folder.path().join("workspace");
    fs::create_dir(workspace.join("many")).unwrap();
    for number in 0..VIEW_PARTS_MAX {
        fs::write(workspace.join("many").join(number.to_string()), "").unwrap();
    }
    assert_eq!(parts(&workspace, &scope(&["many"], &[], &["many/0"])).unwrap().len(), VIEW_PARTS_MAX - 1);
    let beside = parts(&workspace, &scope(&[], &[], &["many/0"])).unwrap();
    assert_eq!(beside.len(), VIEW_PARTS_MAX, "the id stands beside them");
    let error = parts(&workspace, &scope(&[], &[], &["many/later"])).unwrap_err();
    assert_eq!(error.code(), "scope_too_fine", "{error}");
    assert!(error.to_string().ends_with("nothing ran"), "{error}");
    // If nothing in the folder is hidden, it is one part.
    assert_eq!(parts(&workspace, &scope(&["many"], &[], &[])).unwrap(), ["many"]);
}
