//! Everything to a file and back, while the server goes on.

use crate::countersign::{Server, User};
use std::path::Path;

#[test]
fn a_backup_restores_into_an_empty_folder_with_its_receipts_intact() {
    let server = Server::start();
    let owner = server.owner();
    owner.run(&["action", "invoke", "files.list"]).ok();
    owner.run(&["receipt", "key", "--out", "first.pem"]).ok();
    owner.run(&["backup", "all.backup", "--data", "data"]).ok();
    owner.run(&["backup", "all.backup", "--data", "data"]).exits(2);
    owner.run(&["backup", "none.backup", "--data", "nowhere"]).exits(3);
    assert!(!owner.folder().join("nowhere").exists());

    let restored = tempfile::tempdir().unwrap();
    let data = restored.path().join("data");
    std::fs::create_dir(&data).unwrap();
    for name in ["master.key", "owner.token"] {
        std::fs::copy(server.data().join(name), data.join(name)).unwrap();
    }
    for name in ["all.backup", "first.pem"] {
        std::fs::copy(owner.folder().join(name), restored.path().join(name)).unwrap();
    }
    let user = User::new(restored.path(), &crate::fake::nobody(), None);
    user.run(&["restore", "all.backup", "--data", "data"]).ok();
    user.run(&["restore", "all.backup", "--data", "data"]).exits(7);

    let again = Server::start_in(restored);
    assert_eq!(again.owner_token, None);
    again.owner().run(&["receipt", "verify", "--key", "first.pem"]).ok();
    assert_eq!(
        again.owner().run(&["invocation", "list", "-o", "name"]).ok().stdout,
        owner.run(&["invocation", "list", "-o", "name"]).ok().stdout
    );
    again.owner().run(&["action", "invoke", "files.list"]).ok();
}

#[test]
fn a_damaged_backup_restores_nothing() {
    let server = Server::start();
    let owner = server.owner();
    owner.run(&["backup", "all.backup", "--data", "data"]).ok();
    let whole = std::fs::read_to_string(owner.folder().join("all.backup")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let restore = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text).unwrap();
        let data = folder.path().join(name_of(name));
        std::fs::create_dir(&data).unwrap();
        std::fs::copy(server.data().join("master.key"), data.join("master.key")).unwrap();
        User::new(folder.path(), &crate::fake::nobody(), None).run(&["restore", name, "--data", name_of(name)])
    };
    let cut = &whole[..whole.trim_end().rfind('\n').unwrap() + 1];
    restore("cut.backup", cut).exits(8);
    restore("changed.backup", &whole.replacen("default", "defaulT", 1)).exits(8);
    restore("nonsense.backup", "nonsense\n").exits(8);
    restore("whole.backup", &whole).ok();
    let without_key = User::new(folder.path(), &crate::fake::nobody(), None).run(&["restore", "whole.backup", "--data", "keyless"]);
    assert!(without_key.exits(1).stderr.contains("master.key"), "a restore without its key says what is missing");
    let other_key = folder.path().join("other");
    std::fs::create_dir(&other_key).unwrap();
    std::fs::copy(Server::start().data().join("master.key"), other_key.join("master.key")).unwrap();
    User::new(folder.path(), &crate::fake::nobody(), None).run(&["restore", "whole.backup", "--data", "other"]).exits(1);
    User::new(folder.path(), &crate::fake::nobody(), None).run(&["restore", "missing.backup", "--data", "x"]).exits(3);
}

fn name_of(backup: &str) -> &str {
    Path::new(backup).file_stem().and_then(|stem| stem.to_str()).unwrap()
}
