//! Tests that a package's code sees only the part of the workspace that the scope of its call permits.

use crate::countersign::{Server, User};
use crate::package_users::{may_make_namespaces, ordinary_user};
use crate::packages::{WORKSPACE_ID, write_package};
use serde_json::{Value, json};
use std::path::Path;

const CODE: (&str, &str) = ("COUNTERSIGN_ALLOW_PLUGIN_CODE_EXECUTION", "true");

/// Returns every file that it can read, and also writes the list to a file if one is given.
const LOOKS: &str = r#"
const fs = require("fs");
const { input } = JSON.parse(fs.readFileSync(0, "utf8"));
const seen = {};
const look = (folder) => fs.readdirSync(folder, { withFileTypes: true }).forEach((entry) => {
  const path = folder + "/" + entry.name;
  if (entry.isDirectory()) return look(path);
  try { seen[path.slice(11)] = fs.readFileSync(path, "utf8"); } catch (error) { seen[path.slice(11)] = error.code; }
});
look("/workspace");
if (input.to) fs.writeFileSync("/stage/" + input.to, JSON.stringify(seen));
console.log(JSON.stringify({ output: { seen } }));
"#;

/// Passes if the vault cannot be read.
const VERIFIES: &str = r#"
const ok = !require("fs").existsSync("/workspace/vault/plan");
console.log(JSON.stringify({ ok, checks: [{ name: "no_vault", ok }] }));
"#;

fn fill(workspace: &Path) {
    for (path, text) in [("free/a", "a"), ("free/b", "b"), ("vault/plan", "plan"), ("top", "top"), (".env", "env")] {
        std::fs::create_dir_all(workspace.join(path).parent().unwrap()).unwrap();
        std::fs::write(workspace.join(path), text).unwrap();
    }
    std::os::unix::fs::symlink("../vault/plan", workspace.join("free/link")).unwrap();
}

fn seen(owner: &User, scope: &[&str]) -> Value {
    let mut arguments = vec!["action", "invoke", "kit.look", "--json"];
    arguments.extend(scope);
    let mut seen = owner.run(&arguments).ok().json()["result"]["seen"].clone();
    seen.as_object_mut().unwrap().remove(WORKSPACE_ID);
    seen
}

fn check(server: &Server) {
    let owner = server.owner();
    fill(&server.workspace());
    write_package(owner.folder(), "kit", "look", "R1", &[("execute.js", LOOKS)], &json!({}));
    write_package(owner.folder(), "kit", "note", "R2", &[("execute.js", LOOKS), ("verify.js", VERIFIES)], &json!({}));
    owner.run(&["package", "install", "kit"]).ok();
    owner.run(&["mode", "set", "kit.note", "allow"]).ok();
    let everything = json!({ "free/a": "a", "free/b": "b", "free/link": "plan", "vault/plan": "plan", "top": "top", ".env": "env" });
    assert_eq!(seen(&owner, &[]), everything);
    // The link is visible, but its target is not.
    let public = json!({ "free/a": "a", "free/b": "b", "free/link": "ENOENT", "top": "top" });
    assert_eq!(seen(&owner, &["--except", "vault", "--except", ".env"]), public);
    assert_eq!(seen(&owner, &["--within", "free/"]), json!({ "free/a": "a", "free/b": "b", "free/link": "ENOENT" }));
    assert_eq!(seen(&owner, &["--within", "free/", "--except", "free/b"]), json!({ "free/a": "a", "free/link": "ENOENT" }));
    assert_eq!(seen(&owner, &["--within", "nowhere/"]), json!({}));
    // Excluding a link also hides its target under the target's own name.
    let mut unlinked = everything.clone();
    for path in ["free/link", "vault/plan"] {
        unlinked.as_object_mut().unwrap().remove(path);
    }
    assert_eq!(seen(&owner, &["--except", "free/link"]), unlinked);
    // The script that verifies the effect sees no more than the one that made it. Without a scope the same check fails.
    owner.run(&["action", "invoke", "kit.note", "to=note", "--except", "vault", "--json"]).ok();
    assert!(!text_of(server, "note").contains("vault/plan\""), "{}", text_of(server, "note"));
    owner.run(&["action", "invoke", "kit.note", "to=other", "--json"]);
    assert_eq!(owner.run(&["invocation", "list", "--json"]).ok().json()["items"][0]["status"], "reverted");
    // A hard link is another name of the same file and is visible, as the documentation says.
    std::fs::hard_link(server.workspace().join("vault/plan"), server.workspace().join("again")).unwrap();
    assert_eq!(seen(&owner, &["--except", "vault"])["again"], "plan");
    owner.run(&["receipt", "verify"]).ok();
}

fn text_of(server: &Server, path: &str) -> String {
    std::fs::read_to_string(server.workspace().join(path)).unwrap()
}

#[test]
fn code_reads_what_the_scope_of_its_call_permits_and_nothing_else() {
    check(&Server::start_with(&[CODE]));
}

#[test]
fn code_of_a_server_that_is_an_ordinary_user_reads_no_more() {
    let uid = ordinary_user();
    let server = Server::start_as(uid, &[CODE]);
    if may_make_namespaces(uid) {
        check(&server);
    } else {
        // This host cannot confine code, so nothing runs. `package_users.rs` tests how the server answers then.
        assert!(!server.can_confine("default"));
    }
}
