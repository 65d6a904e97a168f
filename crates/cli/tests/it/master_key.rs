//! Tests `key rotate-master`: the data belongs to the new key from one moment on, and everything goes on under it.

use crate::countersign::Server;
use std::os::unix::fs::PermissionsExt as _;

#[test]
fn the_master_key_is_replaced_and_everything_goes_on() {
    let mut server = Server::start_binary();
    let (data, owner) = (server.data(), server.owner());
    owner.run_with_stdin(&["secret", "set", "token", "--stdin"], "x").ok();
    owner.run(&["action", "invoke", "files.list"]).ok();
    let rotate = ["key", "rotate-master", "new.key", "--data", "data"];
    let new = owner.folder().join("new.key");
    let refused = owner.run(&rotate).exits(7);
    assert!(refused.stderr.contains("the master key was not replaced") && refused.stderr.contains("stop every server"), "{refused:?}");
    assert!(!new.exists(), "nothing was made while a server runs");
    server.terminate();
    server.wait();

    owner.run(&[&rotate[..], &["--dry-run"]].concat()).exits(2);
    std::fs::write(&new, "nonsense").unwrap();
    std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o600)).unwrap();
    let refused = owner.run(&rotate).exits(1);
    assert!(refused.stderr.contains("is not 64 hex characters"), "{refused:?}");
    std::fs::remove_file(&new).unwrap();
    let replaced = owner.run(&rotate).ok();
    // The keys that sign entries and checkpoints, a space and a secret.
    assert!(replaced.stderr.contains("4 values are sealed anew under new.key"), "{replaced:?}");
    assert!(replaced.stderr.contains("in the place of `data/master.key`"), "{replaced:?}");
    assert_eq!(std::fs::metadata(&new).unwrap().permissions().mode() & 0o777, 0o600);
    // A run that was interrupted before the files were moved can be repeated.
    assert_eq!(owner.run(&[&rotate[..], &["--json"]].concat()).ok().json()["resealed"], 0);

    let refused = owner.run(&["serve", "--data", "data", "--listen", "127.0.0.1:0"]).exits(1);
    assert!(refused.stderr.contains("another master key"), "{refused:?}");
    std::fs::rename(&new, data.join("master.key")).unwrap();
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
    let user = crate::countersign::User::new(folder.path(), &crate::fake::nobody(), None);
    user.run(&["key", "rotate-master", "new.key", "--data", "nowhere"]).exits(3);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing was made");
}
