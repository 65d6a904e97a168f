//! Tests packages on a server that runs as an ordinary user: without root, without other uids and without a cgroup of its own.

use crate::countersign::Server;
use crate::packages::write_package;
use serde_json::json;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

const CODE: (&str, &str) = ("COUNTERSIGN_ALLOW_PLUGIN_CODE_EXECUTION", "true");

/// A uid that no other user of a host is likely to have.
const NOBODY_ELSE: u32 = 1_979_048_192;

const EXECUTE: &str = r#"
const fs = require("fs");
fs.writeFileSync("/stage/a.txt", fs.readFileSync("/workspace/a.txt", "utf8") + "more\n");
fs.writeFileSync("/stage/new.txt", "new\n");
console.log(JSON.stringify({ output: { uid: process.getuid() } }));
"#;
const FINE: &str = r#"console.log(JSON.stringify({ ok: true, checks: [] }));"#;

/// The user who runs the tests, unless that is root.
pub(crate) fn ordinary_user() -> u32 {
    let uid = std::fs::metadata("/proc/self").unwrap().uid();
    if uid == 0 { NOBODY_ELSE } else { uid }
}

/// Whether the kernel lets this user create the namespaces that a jail needs. The system's own `unshare` is used to find out.
#[expect(clippy::disallowed_methods, reason = "the kernel is asked by the system's own program")]
pub(crate) fn may_make_namespaces(uid: u32) -> bool {
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "--pid", "--net", "--ipc", "--uts", "--fork", "true"]);
    if uid == NOBODY_ELSE {
        command.uid(uid).gid(uid);
    }
    command.status().unwrap().success()
}

#[test]
fn a_package_does_its_work_for_a_server_that_is_an_ordinary_user() {
    let uid = ordinary_user();
    let server = Server::start_as(uid, &[CODE]);
    let owner = server.owner();
    assert_eq!(std::fs::metadata(server.data().join("master.key")).unwrap().uid(), uid, "the server is not who it should be");
    let a = server.workspace().join("a.txt");
    std::fs::write(&a, "one\n").unwrap();
    std::os::unix::fs::chown(&a, Some(uid), Some(uid)).unwrap();
    let scripts = [("execute.js", EXECUTE), ("verify.js", FINE), ("rollback.js", FINE)];
    write_package(owner.folder(), "kit", "act", "R2", &scripts, &json!({}));
    write_package(owner.folder(), "high", "act", "R2", &scripts, &json!({ "profile": "high_isolation" }));
    for name in ["kit", "high"] {
        owner.run(&["package", "install", name]).ok();
        owner.run(&["mode", "set", &format!("{name}.act"), "allow"]).ok();
    }
    let holds = |name: &str| std::fs::read_to_string(server.workspace().join(name)).ok();
    let last = || owner.run(&["invocation", "list", "--json"]).ok().json()["items"][0].clone();
    // The stricter profile is not available to an ordinary user, and no weaker one is used instead.
    owner.run(&["action", "invoke", "high.act", "--json"]);
    assert_eq!((&last()["status"], &last()["error"]["code"]), (&json!("failed"), &json!("sandbox_unavailable")), "{:#}", last());
    assert_eq!((holds("a.txt").as_deref(), holds("new.txt")), (Some("one\n"), None));
    let examined = owner.run(&["doctor", "--verbose"]);
    if !may_make_namespaces(uid) {
        owner.run(&["action", "invoke", "kit.act", "--json"]);
        assert_eq!(last()["error"]["code"], "sandbox_unavailable", "{:#}", last());
        assert!(last()["error"]["message"].as_str().unwrap().contains("namespaces"), "{:#}", last());
        assert_eq!((holds("a.txt").as_deref(), holds("new.txt")), (Some("one\n"), None));
        assert!(!examined.stdout.contains("available profiles: default"), "{}", examined.stdout);
        return;
    }
    assert!(examined.stdout.contains("uid: an ordinary user"), "{}", examined.stdout);
    assert!(examined.stdout.contains("available profiles: default;"), "{}", examined.stdout);
    let done = owner.run(&["action", "invoke", "kit.act", "--json"]).ok().json();
    assert_eq!(done["result"]["uid"], 65_534, "nobody inside: {done:#}");
    assert_eq!((holds("a.txt").as_deref(), holds("new.txt").as_deref()), (Some("one\nmore\n"), Some("new\n")));
    assert_eq!(std::fs::metadata(server.workspace().join("new.txt")).unwrap().uid(), uid);
    let id = done["invocation"]["id"].as_str().unwrap();
    owner.run(&["invocation", "revert", id, "--yes"]).ok();
    assert_eq!((holds("a.txt").as_deref(), holds("new.txt")), (Some("one\n"), None));
    owner.run(&["receipt", "verify"]).ok();
}
