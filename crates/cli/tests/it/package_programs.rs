//! Tests packages whose code is not JavaScript: compiled programs and Python, in one package.

use crate::countersign::Server;
use crate::packages::write_package;
use serde_json::json;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

const CODE: (&str, &str) = ("COUNTERSIGN_ALLOW_PLUGIN_CODE_EXECUTION", "true");

/// Writes one file to its stage, and tries to open a socket, which must fail.
const SOURCE: &str = r#"
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
int main(void) {
    char input[4096];
    size_t read = fread(input, 1, sizeof input, stdin);
    FILE *staged = fopen("/stage/compiled.txt", "w");
    if (!staged || read == 0) return 3;
    fputs("from a compiled program\n", staged);
    fclose(staged);
    int refused = socket(AF_INET, SOCK_STREAM, 0) < 0 ? errno : 0;
    printf("{\"output\": {\"read\": %zu, \"socket\": %d}, \"deletes\": []}", read, refused);
    return 0;
}
"#;

const VERIFY: &str = r#"
import json, sys
said = json.load(sys.stdin)
text = open("/workspace/compiled.txt").read()
print(json.dumps({"ok": text == "from a compiled program\n" and said["output"]["socket"] == 1, "checks": []}))
"#;

#[expect(clippy::disallowed_methods, reason = "the compiler is not code of others")]
fn compile(to: &Path) {
    let source = to.with_extension("c");
    std::fs::write(&source, SOURCE).unwrap();
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let status = Command::new(compiler).arg("-O1").arg("-o").arg(to).arg(&source).status().unwrap();
    assert!(status.success());
    std::fs::remove_file(source).unwrap();
}

#[test]
fn a_compiled_program_runs_in_the_jail_like_any_other_code() {
    let server = Server::start_with(&[CODE]);
    let owner = server.owner();
    write_package(owner.folder(), "native", "make", "R2", &[("verify.py", VERIFY)], &json!({ "memoryMb": 64 }));
    let at = owner.folder().join("native/actions/make/execute");
    compile(&at);
    owner.run(&["package", "check", "native"]).ok();
    owner.run(&["package", "install", "native"]).ok();
    owner.run(&["mode", "set", "native.make", "allow"]).ok();
    let made = owner.run(&["action", "invoke", "native.make", "--json"]).ok().json();
    assert_eq!(std::fs::read_to_string(server.workspace().join("compiled.txt")).unwrap(), "from a compiled program\n");
    assert_eq!(made["result"]["socket"], 1, "no network: EPERM: {made:#}");
    let id = made["invocation"]["id"].as_str().unwrap();
    owner.run(&["invocation", "revert", id, "--yes"]).ok();
    assert!(!server.workspace().join("compiled.txt").exists());
    // A program that differs in one byte is another program, which needs a review.
    let installed = server.data().join("packages/native/actions/make/execute");
    let mut bytes = std::fs::read(&installed).unwrap();
    bytes.push(0);
    std::fs::write(&installed, bytes).unwrap();
    let held = owner.run(&["action", "invoke", "native.make", "--no-wait"]);
    assert_eq!(held.code, 6, "{held:?}");
    owner.run(&["receipt", "verify"]).ok();
}

#[test]
fn what_is_not_a_program_is_not_taken_for_one() {
    let server = Server::start_with(&[CODE]);
    let owner = server.owner();
    write_package(
        owner.folder(),
        "odd",
        "act",
        "R0",
        &[("execute", "#!/bin/sh\necho '{}'\n")],
        &json!({ "rollback": { "required": false } }),
    );
    let file = owner.folder().join("odd/actions/act/execute");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    let refused = owner.run(&["package", "check", "odd"]);
    assert!(refused.code != 0 && refused.stderr.contains("is not an executable program"), "{refused:?}");
    // A program without the executable permission is refused too.
    compile(&file);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let refused = owner.run(&["package", "install", "odd"]);
    assert!(refused.code != 0 && refused.stderr.contains("is not an executable program"), "{refused:?}");
}
