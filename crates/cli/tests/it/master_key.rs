//! Tests `key rotate-master`: a server goes on while its master key is replaced, and so does the next one on a folder without a server.

use crate::countersign::{Server, User};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

const ROTATE: [&str; 2] = ["key", "rotate-master"];
const OFFLINE: [&str; 5] = ["key", "rotate-master", "--offline", "--data", "data"];

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn a_server_replaces_its_master_key_while_it_works() {
    let mut server = Server::start_binary();
    let (data, owner) = (server.data(), server.owner());
    let (key, next, old) = (data.join("master.key"), data.join("master.key.next"), data.join("master.key.old"));
    let first = read(&key);
    owner.run_with_stdin(&["secret", "set", "token", "--stdin"], "x").ok();
    owner.run(&["action", "invoke", "files.list"]).ok();
    let refused = owner.run(&OFFLINE).exits(7);
    assert!(refused.stderr.contains("the master key was not replaced") && refused.stderr.contains("rotate-master"), "{refused:?}");
    owner.run(&[&ROTATE[..], &["--data", "data"]].concat()).exits(2);
    owner.run(&[&ROTATE[..], &["--dry-run"]].concat()).ok();
    assert!(!next.exists() && read(&key) == first, "nothing was made");
    write(&next, "nonsense");
    let refused = owner.run(&ROTATE).exits(7);
    assert!(refused.stderr.contains("is not 64 hex characters"), "{refused:?}");
    write(&next, &"ab".repeat(32));

    let replaced = owner.run(&ROTATE).ok();
    assert!(replaced.stderr.contains("everything is sealed under the new one"), "{replaced:?}");
    assert!(replaced.stderr.contains("master.key.old"), "it says what to do with the old one: {replaced:?}");
    assert!(read(&key) == "ab".repeat(32) && read(&old) == first && !next.exists());
    owner.run(&["action", "invoke", "files.list"]).ok();
    owner.run_with_stdin(&["secret", "rotate", "token", "--stdin"], "y").ok();
    owner.run(&["receipt", "verify"]).ok();
    let refused = owner.run(&ROTATE).exits(7);
    assert!(refused.stderr.contains("master.key.old") && refused.stderr.contains("keep it elsewhere"), "{refused:?}");

    // The old key opens nothing any more.
    server.terminate();
    server.wait();
    std::fs::rename(&key, &next).unwrap();
    std::fs::copy(&old, &key).unwrap();
    let kept = owner.folder().join("kept");
    std::fs::rename(&next, &kept).unwrap();
    let refused = owner.run(&["serve", "--data", "data", "--listen", "127.0.0.1:0"]).exits(1);
    assert!(refused.stderr.contains("another master key"), "{refused:?}");
    // As a crash would leave it before the files were moved: the server starts with both.
    std::fs::rename(&kept, &next).unwrap();
    let again = server.start_again();
    let owner = again.owner();
    assert_eq!(owner.run(&["secret", "list", "-o", "name"]).ok().stdout, "token\n");
    owner.run(&["action", "invoke", "files.list"]).ok();
    owner.run(&["receipt", "verify"]).ok();
}

#[test]
fn a_folder_without_a_server_gets_another_master_key() {
    let mut server = Server::start_binary();
    let (data, owner) = (server.data(), server.owner());
    let (key, next, old) = (data.join("master.key"), data.join("master.key.next"), data.join("master.key.old"));
    let first = read(&key);
    owner.run_with_stdin(&["secret", "set", "token", "--stdin"], "x").ok();
    server.terminate();
    server.wait();
    owner.run(&[&OFFLINE[..], &["--dry-run"]].concat()).exits(2);
    write(&next, "nonsense");
    let refused = owner.run(&OFFLINE).exits(1);
    assert!(refused.stderr.contains("is not 64 hex characters"), "{refused:?}");
    write(&next, &first);
    let refused = owner.run(&OFFLINE).exits(1);
    assert!(refused.stderr.contains("holds the key that is to be replaced"), "{refused:?}");
    std::fs::remove_file(&next).unwrap();

    let replaced = owner.run(&OFFLINE).ok();
    // The keys that sign entries and checkpoints, a space and a secret.
    assert!(replaced.stderr.contains("4 values are sealed anew") && replaced.stderr.contains("master.key.old"), "{replaced:?}");
    assert!(read(&old) == first && read(&key) != first && !next.exists());
    assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    std::fs::remove_file(&old).unwrap();
    assert_eq!(owner.run(&[&OFFLINE[..], &["--json"]].concat()).ok().json()["resealed"], 4);

    let again = server.start_again();
    let owner = again.owner();
    owner.run(&["receipt", "verify"]).ok();
    assert_eq!(owner.run(&["secret", "list", "-o", "name"]).ok().stdout, "token\n");
    owner.run_with_stdin(&["secret", "rotate", "token", "--stdin"], "y").ok();
    owner.run(&["action", "invoke", "files.list"]).ok();
}

#[test]
fn there_is_nothing_to_replace_where_there_is_no_data() {
    let folder = tempfile::tempdir().unwrap();
    let user = User::new(folder.path(), &crate::fake::nobody(), None);
    user.run(&["key", "rotate-master", "--offline", "--data", "nowhere"]).exits(3);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing was made");
}
