//! A folder that is shown in part: the program cannot reach the rest, neither by name, nor through a link, nor when entries appear later.

use crate::harness::{answer, attempt, attempts, helper, is_root, setups};
use sandbox::{Bind, Ended, Options, Probes, Profile, Program, Sandbox, Spec, View};
use serde_json::json;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use tempfile::TempDir;

/// A folder with entries to show, entries to hide, and links from the one to the other.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let at = |path: &str| folder.path().join(path);
    for path in ["free/deep", "secret", "half/open", "half/shut"] {
        fs::create_dir_all(at(path)).unwrap();
    }
    for path in ["free/a", "free/deep/b", "secret/key", "half/open/c", "half/shut/d", "top", "hidden"] {
        fs::write(at(path), path).unwrap();
    }
    symlink("../secret/key", at("free/link")).unwrap();
    symlink("secret", at("way")).unwrap();
    symlink(at("secret/key"), at("whole")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

#[test]
fn what_is_named_is_seen_and_nothing_else() {
    let folder = folder();
    for (only, expected) in [
        (vec![], ""),
        (vec!["top"], "top:top"),
        (vec!["half/open", "top"], "half/open/c:half/open/c top:top"),
        // A link is shown as a link, and its target does not exist in the jail.
        (vec!["free", "way", "whole"], "free/a:free/a free/deep/b:free/deep/b free/link:- way:- whole:-"),
        (vec!["free/link", "secret"], "free/link:secret/key secret/key:secret/key"),
        // These entries are missing, or neither a file nor a folder, or behind a link.
        (vec!["missing", "absent/x", "pipe", "way/key", "top/x", "free/deep"], "free/deep/b:free/deep/b"),
    ] {
        for setup in setups() {
            let report = attempt(setup, "fs_seen", &json!({ "views": [[folder.path(), "/shown", only]] }));
            let printed = report["result"].as_str().unwrap_or_else(|| panic!("{setup:?} {only:?}: {report}"));
            assert_eq!(answer(printed, "before"), Some(expected), "{setup:?} {only:?}: {report}");
        }
    }
}

#[test]
fn a_mount_is_no_part_of_a_folder_and_what_it_covers_stays_covered() {
    for (only, expected) in [
        (vec!["free", "top"], "free/a:free/a free/deep/inside:inside free/link:- top:top"),
        (vec!["free/a", "free/deep"], "free/a:free/a"),
        (vec!["free/deep/inside", "free/deep/b"], ""),
    ] {
        for setup in setups() {
            let folder = folder();
            let more = json!({ "mount_at": folder.path().join("free/deep"), "views": [[folder.path(), "/shown", only]] });
            let report = attempt(setup, "fs_seen", &more);
            if !is_root() {
                assert_eq!(report["refused"], "nothing could be mounted: errno 1", "only root mounts: {report}");
                continue;
            }
            let printed = report["result"].as_str().unwrap_or_else(|| panic!("{setup:?}: {report}"));
            assert_eq!(answer(printed, "before"), Some(expected), "{setup:?} {only:?}: {report}");
        }
    }
}

#[test]
fn what_comes_to_be_under_a_name_that_is_left_out_is_not_seen_either() {
    let folder = folder();
    let at = folder.path().to_owned();
    let program = Program { path: attempts(), digest: sandbox::digest_of(&attempts()).unwrap() };
    let mut spec = Spec::new(Profile::Default, program);
    spec.args = ["attempt", "fs_seen", "/nowhere", "0"].map(str::to_owned).into();
    spec.env = vec![("AGAIN".into(), "1".into())];
    let libraries = ["/usr/lib", "/lib", "/lib64"].into_iter().filter(|path| Path::new(path).exists());
    spec.read_only = libraries.map(|path| Bind { host: path.into(), jail: path.into() }).collect();
    spec.views = vec![View { host: at.clone(), jail: "/shown".into(), only: vec!["free".into(), "top".into()] }];
    // Replaces files as a commit does: by renaming a new file over the old one.
    let on_log = Box::new(move |line: &str| {
        assert_eq!(line, "looked");
        for name in ["hidden", "top", "new", "free/a"] {
            fs::write(at.join("half-written"), "another").unwrap();
            fs::rename(at.join("half-written"), at.join(name)).unwrap();
        }
        fs::write(at.join("secret/key"), "another").unwrap();
        fs::write(at.join("free/go"), "").unwrap();
    });
    let sandbox = Sandbox::new(Probes::now(&helper()), &helper(), Options::default()).unwrap();
    let outcome = sandbox.run_blocking(spec, Some(on_log), None).unwrap();
    let printed = String::from_utf8(outcome.result.kept).unwrap();
    assert_eq!(outcome.ended, Ended::Exited(0), "{printed}");
    assert_eq!(answer(&printed, "before"), Some("free/a:free/a free/deep/b:free/deep/b free/link:- top:top"));
    // A folder shows its current contents. A file that was shown by its own name stays the old one, because the rename put another file in
    // its place.
    assert_eq!(answer(&printed, "after"), Some("free/a:another free/deep/b:free/deep/b free/go: free/link:- top:top"));
}
