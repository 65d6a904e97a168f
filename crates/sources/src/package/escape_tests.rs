//! The groups of the escape corpus about names that lead out of the workspace: `fs_dotdot_in_param`, `fs_absolute_param` and
//! `fs_artifact_names`. A script names files on its stage and files to delete; the names in a journal are checked again at commit.

use super::*;
use crate::workspace::open::{open_beneath, open_folder};
use crate::workspace::path::tests::{NOT_ALLOWED, OUTSIDE};
use countersign_core::Digest;
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::path::Path;

/// Every file below a folder, with its content.
pub(super) fn held(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut ahead = vec![folder.to_owned()];
    while let Some(at) = ahead.pop() {
        for entry in std::fs::read_dir(&at).unwrap().map(Result::unwrap) {
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            let text = if kind.is_file() { std::fs::read_to_string(&path).unwrap() } else { format!("{kind:?}") };
            found.insert(path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned(), text);
            if kind.is_dir() {
                ahead.push(path);
            }
        }
    }
    found
}

async fn prepare(bench: &Bench, staged: &[(&str, &str)], deletes: &[&str], scope: &Scope) -> Result<Option<Value>, &'static str> {
    bench.will_leave(staged, json!({ "output": {}, "deletes": deletes }));
    let context = CallContext { scope: scope.clone(), ..bench.context().await };
    bench.source().prepare(&context, &act(), &json!({})).await.map_err(|error| error.code())
}

/// A forged journal with a `path` that our own code would never write.
fn forged(path: &str) -> Value {
    let digest = Digest::new([7; 32]);
    let file = json!({ "path": path, "previous_sha256": null, "new_sha256": digest, "mode": null });
    json!({ "files": [file], "result_sha256": digest })
}

#[tokio::test]
async fn fs_dotdot_in_param_and_fs_absolute_param_are_refused_wherever_a_path_is_taken() {
    let bench = bench("R2");
    bench.write("x", "inside");
    let before = held(bench.folder.path());
    let absolute = bench.folder.path().join("workspace/x");
    for path in OUTSIDE.iter().copied().chain([absolute.to_str().unwrap()]) {
        let open = Scope::default();
        assert_eq!(prepare(&bench, &[(path, "x")], &[], &open).await, Err("path_outside_workspace"), "staged as {path:?}");
        assert_eq!(prepare(&bench, &[], &[path], &open).await, Err("path_outside_workspace"), "deleted as {path:?}");
        let context = CallContext { prepared: Some(forged(path)), ..bench.context().await };
        let (source, params) = (bench.source(), json!({}));
        assert_eq!(source.call(&context, &act(), &params).await.unwrap_err().code(), "path_outside_workspace", "committed as {path:?}");
        assert_eq!(source.revert(&context, &act(), &forged(path)).await.unwrap_err().code(), "path_outside_workspace", "{path:?}");
        assert_eq!(source.reconcile(&context, &act(), &params).await.unwrap_err().code(), "path_outside_workspace", "{path:?}");
    }
    assert_eq!(held(bench.folder.path()), before, "something was changed or kept");
}

#[tokio::test]
async fn fs_dotdot_in_param_and_fs_absolute_param_of_a_scope_permit_nothing() {
    let bench = bench("R2");
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    for entry in ["..", "../x", "a/../x", "/", "/x", "../**"] {
        for scope in
            [Scope { allowed_dirs: texts(&[entry]), ..Scope::default() }, Scope { allowed_files: texts(&[entry]), ..Scope::default() }]
        {
            assert_eq!(prepare(&bench, &[("x", "x")], &[], &scope).await, Err("outside_scope"), "{scope:?}");
        }
    }
    assert_eq!(held(&bench.folder.path().join("snapshots")), BTreeMap::new());
    let plain = Scope { allowed_files: texts(&["x"]), ..Scope::default() };
    assert!(prepare(&bench, &[("x", "x")], &[], &plain).await.is_ok(), "an entry without `..` permits what it names");
}

#[test]
fn fs_dotdot_in_param_and_fs_absolute_param_are_answered_exdev_by_the_kernel() {
    let scratch = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(scratch.path().join("root/a")).unwrap();
    std::fs::write(scratch.path().join("secret"), "secret").unwrap();
    let root = open_folder(&scratch.path().join("root")).unwrap();
    let absolute = scratch.path().join("secret");
    for path in ["../secret", "a/../../secret", "./../secret", absolute.to_str().unwrap()] {
        assert_eq!(open_beneath(&root, path, OFlags::RDONLY, Mode::empty()).unwrap_err(), Errno::XDEV, "{path}");
        let plainly = rustix::fs::openat(&root, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        assert!(plainly.is_ok(), "without our way of opening, `{path}` is opened: {plainly:?}");
    }
    assert!(rustix::fs::openat(CWD, &absolute, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).is_ok());
}

#[tokio::test]
async fn fs_artifact_names_that_slip_out_are_refused_and_nothing_beside_them_is_stored() {
    let bench = bench("R2");
    bench.write("stays", "here");
    let before = held(bench.folder.path());
    let open = Scope::default();
    for path in OUTSIDE.iter().chain(NOT_ALLOWED).copied() {
        let expected = if OUTSIDE.contains(&path) { "path_outside_workspace" } else { "path_not_allowed" };
        assert_eq!(prepare(&bench, &[("good", "x"), (path, "x")], &["stays"], &open).await, Err(expected), "staged as {path:?}");
        assert_eq!(prepare(&bench, &[("good", "x")], &["stays", path], &open).await, Err(expected), "deleted as {path:?}");
    }
    assert_eq!(held(bench.folder.path()), before, "something was changed or kept");
    let journal = prepare(&bench, &[("good", "x")], &["stays"], &open).await.unwrap().unwrap();
    assert_eq!(journal["files"].as_array().unwrap().len(), 2, "the same without the odd name is taken");
}
