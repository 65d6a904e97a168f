//! Tests that the effect of a package's call can be reverted, whatever happens to the package afterwards.

use crate::countersign::{Server, User};
use crate::packages::write_package;
use serde_json::json;

const CODE: (&str, &str) = ("COUNTERSIGN_ALLOW_PLUGIN_CODE_EXECUTION", "true");

/// Writes the given file. `VERSION` is replaced to make different versions of the script.
const WRITES: &str = r#"
const { input } = JSON.parse(require("fs").readFileSync(0, "utf8"));
require("fs").writeFileSync("/stage/" + input.path, "VERSION");
console.log(JSON.stringify({ output: {} }));
"#;
const FINE: &str = r#"console.log(JSON.stringify({ ok: true, checks: [] }));"#;

fn install(owner: &User, version: &str) {
    let execute = WRITES.replace("VERSION", version);
    write_package(
        owner.folder(),
        "kit",
        "write",
        "R2",
        &[("execute.js", &execute), ("verify.js", FINE), ("rollback.js", FINE)],
        &json!({}),
    );
    owner.run(&["package", "install", "kit"]).ok();
    owner.run(&["action", "review", "kit.write", "--yes"]).ok();
    owner.run(&["mode", "set", "kit.write", "allow"]).ok();
}

fn write(owner: &User, path: &str) -> String {
    let done = owner.run(&["action", "invoke", "kit.write", &format!("path={path}"), "--json"]).ok().json();
    done["invocation"]["id"].as_str().unwrap().to_owned()
}

fn revert(owner: &User, id: &str) {
    let done = owner.run(&["invocation", "revert", id, "--yes", "--json"]).ok().json();
    assert_eq!(done["invocation"]["status"], "succeeded", "{done:#}");
}

#[test]
fn effects_of_an_older_version_and_of_a_removed_package_are_taken_back() {
    let mut server = Server::start_with(&[CODE]);
    let (owner, workspace) = (server.owner(), server.workspace());
    let holds = |path: &str| std::fs::read_to_string(workspace.join(path)).ok();
    install(&owner, "one");
    let [replaced, edited, removed] = ["replaced", "edited", "removed"].map(|path| write(&owner, path));
    // Another version is installed. It is not involved in reverting what the first one did.
    install(&owner, "two");
    let newer = write(&owner, "newer");
    assert_eq!((holds("replaced").as_deref(), holds("newer").as_deref()), (Some("one"), Some("two")));
    revert(&owner, &replaced);
    assert_eq!((holds("replaced"), holds("newer").as_deref()), (None, Some("two")));
    // The revert did not count as drift of the installed version, so its calls still run without approval.
    let again = write(&owner, "again");
    // The script is edited by hand, without a review.
    let script = server.data().join("packages/kit/actions/write/execute.js");
    std::fs::write(&script, "throw new Error('edited')").unwrap();
    revert(&owner, &edited);
    assert_eq!(holds("edited"), None);
    // The package is removed and the server restarted. The new server runs no package code, and needs none to revert.
    owner.run(&["package", "remove", "kit", "--yes"]).ok();
    server.terminate();
    server.wait();
    let server = server.start_again();
    let owner = server.owner();
    for (id, path) in [(&removed, "removed"), (&newer, "newer"), (&again, "again")] {
        assert!(holds(path).is_some());
        revert(&owner, id);
        assert_eq!(holds(path), None);
    }
    let listed = owner.run(&["action", "list", "--json"]).ok().stdout;
    assert!(!listed.contains("kit.write"), "{listed}");
    let gone = owner.run(&["action", "invoke", "kit.write", "path=x", "--json"]);
    assert_eq!(gone.error()["code"], "unknown_action", "{gone:?}");
    // A call is reverted only once, also if its package is gone.
    assert_eq!(owner.run(&["invocation", "revert", &removed, "--yes", "--json"]).exits(7).error()["code"], "already_reverted");
    owner.run(&["receipt", "verify"]).ok();
}

#[test]
fn what_was_not_kept_is_not_taken_back_and_the_answer_says_so() {
    let server = Server::start_with(&[CODE]);
    let owner = server.owner();
    install(&owner, "one");
    let [lost, changed] = ["lost", "changed"].map(|path| write(&owner, path));
    owner.run(&["package", "remove", "kit", "--yes"]).ok();
    std::fs::write(server.workspace().join("changed"), "by somebody else").unwrap();
    let refused = owner.run(&["invocation", "revert", &changed, "--yes", "--json"]);
    assert!(refused.code != 0 && refused.error()["invocation"]["error"]["code"] == "content_changed", "{refused:?}");
    // The definition is kept among the snapshots. The file that names the action is the definition.
    for entry in std::fs::read_dir(server.data().join("snapshots")).unwrap().map(Result::unwrap) {
        if std::fs::read_to_string(entry.path()).unwrap().contains("\"kit.write\"") {
            std::fs::remove_file(entry.path()).unwrap();
        }
    }
    let refused = owner.run(&["invocation", "revert", &lost, "--yes", "--json"]);
    assert_eq!(refused.error()["code"], "not_revertible", "{refused:?}");
    assert!(refused.stderr.contains("its action is gone, and its definition was not kept"), "{refused:?}");
    assert_eq!(std::fs::read_to_string(server.workspace().join("lost")).unwrap(), "one");
    owner.run(&["receipt", "verify"]).ok();
}

#[test]
fn taking_back_what_is_gone_waits_for_a_person_where_the_rules_say_so() {
    let server = Server::start_with(&[CODE]);
    let owner = server.owner();
    install(&owner, "one");
    let [approved, denied] = ["approved", "denied"].map(|path| write(&owner, path));
    owner.run(&["mode", "set", "kit.write", "require_approval"]).ok();
    owner.run(&["package", "remove", "kit", "--yes"]).ok();
    let asked = |id: &str| {
        let waiting = owner.start_waiting(&["invocation", "revert", id, "--yes", "--no-wait"]);
        let pending = waiting.id.clone();
        assert_eq!(waiting.end().code, 6);
        pending
    };
    let status_of = |id: &str| owner.run(&["show", id, "--json"]).ok().json()["status"].clone();
    let pending = asked(&approved);
    assert!(server.workspace().join("approved").exists());
    assert!(owner.run(&["show", &pending]).ok().stdout.contains("kit.write"));
    owner.run(&["approve", &pending, "--yes"]).ok();
    owner.run(&["invocation", "watch", &pending]).ok();
    assert_eq!(status_of(&pending), "succeeded");
    assert!(!server.workspace().join("approved").exists());
    let pending = asked(&denied);
    // If a person changes the file meanwhile, it is kept, and the approval is refused instead of being used up.
    std::fs::write(server.workspace().join("denied"), "changed").unwrap();
    let refused = owner.run(&["approve", &pending, "--yes", "--json"]);
    assert_eq!(refused.error()["code"], "cannot_run", "{refused:?}");
    assert_eq!(status_of(&pending), "pending");
    owner.run(&["deny", &pending]).ok();
    assert_eq!(status_of(&pending), "denied");
    assert!(server.workspace().join("denied").exists());
    owner.run(&["receipt", "verify"]).ok();
}

#[test]
fn a_card_says_that_code_was_run_for_it_and_no_other_code_than_was_asked_for() {
    let server = Server::start_with(&[CODE]);
    let owner = server.owner();
    install(&owner, "one");
    owner.run(&["mode", "set", "kit.write", "require_approval"]).ok();
    let id = owner.run(&["action", "invoke", "kit.write", "path=a", "--no-wait"]).exits(6).stdout.trim().to_owned();
    let card = owner.run(&["show", &id]).ok().stdout;
    assert!(card.contains("Would change      code of the package `kit` was run to find this out, without effect\n"), "{card}");
    assert!(card.contains("+one"), "{card}");
    let seen = owner.at_terminal_of(160, &["show", &id], &[]);
    assert!(seen.screen.contains("running the package's code without effect, to see what it would change…"), "{seen:?}");
    // The script is edited by hand, without a review.
    let script = server.data().join("packages/kit/actions/write/execute.js");
    std::fs::write(&script, WRITES.replace("VERSION", "two")).unwrap();
    let shown = owner.run(&["show", &id]).ok();
    assert!(!shown.stdout.contains("+two") && !shown.stderr.contains("countersign approve"), "{shown:?}");
    assert!(shown.stdout.contains("definition_mismatch") && !shown.stdout.contains("Runs code"), "{shown:?}");
    // Showing the call did not end it; a person has to deny it.
    assert!(
        shown.stderr.contains(&format!("next: countersign deny {id} --reason …, then countersign action review kit.write")),
        "{shown:?}"
    );
    owner.run(&["deny", &id]).ok();
}
