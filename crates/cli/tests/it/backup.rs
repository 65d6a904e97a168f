//! Tests `backup` and `restore`: everything goes to a file and back, while the server keeps running.

use crate::countersign::{Server, User};
use std::path::Path;

#[test]
fn a_backup_restores_into_an_empty_folder_with_its_receipts_intact() {
    let server = Server::start_binary();
    let owner = server.owner().with_binary();
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
    let told = user.run(&["restore", "all.backup", "--data", "data"]).ok().stderr;
    for part in ["✓ restored ", "owner.token", "`countersign login`", "next: countersign serve --data data"] {
        assert!(told.contains(part), "{told}");
    }
    let refused = user.run(&["restore", "all.backup", "--data", "data"]).exits(7);
    assert!(refused.stderr.contains("hint: choose an empty folder with --data"), "{refused:?}");
    assert!(data.join("countersign.db").exists(), "what was there before stays");

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
    let server = Server::start_binary();
    let owner = server.owner().with_binary();
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
    let middle = &whole[..whole.len() - 40];
    for (name, text, why) in [
        ("cut.backup", cut, "`cut.backup` is cut off, or was changed\n  cause: its closing line is missing"),
        ("middle.backup", middle, "`middle.backup` is cut off in the middle of line "),
        ("changed.backup", &whole.replacen("default", "defaulT", 1), "its content does not match its closing line"),
        ("nonsense.backup", "nonsense\n", "`nonsense.backup` is not a backup\n  cause: its first line is not that of one"),
        ("empty.backup", "", "`empty.backup` is not a backup\n  cause: it is empty"),
    ] {
        let refused = restore(name, text).exits(8).stderr;
        assert!(refused.contains(why) && refused.contains("hint: ") && !refused.contains("at line 1"), "{refused}");
        let left = std::fs::read_dir(folder.path().join(name_of(name))).unwrap().map(|entry| entry.unwrap().file_name());
        let left: Vec<_> = left.filter(|name| name != "lock").collect();
        assert_eq!(left, ["master.key"], "nothing is left of a restore that failed");
    }
    restore("whole.backup", &whole).ok();
    // A folder that a server uses is not restored into, and nothing in it is removed.
    let data = server.data().display().to_string();
    let served = User::new(folder.path(), &crate::fake::nobody(), None).run(&["restore", "whole.backup", "--data", &data]).exits(7).stderr;
    assert!(served.contains("nothing was restored") && served.contains("hint: stop the server there first"), "{served}");
    owner.run(&["whoami"]).ok();
    let without_key = User::new(folder.path(), &crate::fake::nobody(), None).run(&["restore", "whole.backup", "--data", "keyless"]);
    let without_key = without_key.exits(1).stderr;
    assert!(without_key.contains("there is no master key `keyless/master.key`") && without_key.contains("hint: copy"), "{without_key}");
    assert!(!folder.path().join("keyless").exists(), "no folder is left behind");
    let other_key = folder.path().join("other");
    std::fs::create_dir(&other_key).unwrap();
    std::fs::copy(Server::start_binary().data().join("master.key"), other_key.join("master.key")).unwrap();
    let refused = User::new(folder.path(), &crate::fake::nobody(), None).run(&["restore", "whole.backup", "--data", "other"]).exits(1);
    assert!(refused.stderr.contains("hint: is the master.key that of the backed-up data folder?"), "{refused:?}");
    std::fs::write(other_key.join("master.key"), "nonsense").unwrap();
    let refused = User::new(folder.path(), &crate::fake::nobody(), None).run(&["restore", "whole.backup", "--data", "other"]).exits(1);
    assert!(refused.stderr.contains("the master key `other/master.key` cannot be used"), "{refused:?}");
    User::new(folder.path(), &crate::fake::nobody(), None).run(&["restore", "missing.backup", "--data", "x"]).exits(3);
}

fn name_of(backup: &str) -> &str {
    Path::new(backup).file_stem().and_then(|stem| stem.to_str()).unwrap()
}
