//! Tests what a person sees of a package before they trust it: its files, what changed in its code, and whether it can run on this server.

use crate::countersign::{Server, User};
use crate::packages::write_package;
use serde_json::json;

const CODE: (&str, &str) = ("COUNTERSIGN_ALLOW_PLUGIN_CODE_EXECUTION", "true");
const FINE: &str = r#"console.log(JSON.stringify({ ok: true, checks: [] }));"#;

fn install(owner: &User, version: &str) -> crate::countersign::Ran {
    let execute = format!("// first line\nconsole.log(JSON.stringify({{ output: \"{version}\" }}));\n");
    write_package(owner.folder(), "kit", "say", "R2", &[("execute.js", &execute), ("verify.js", FINE)], &json!({}));
    owner.run(&["package", "install", "kit"]).ok()
}

#[test]
fn code_that_changed_is_shown_as_a_diff_and_needs_a_review_before_it_runs_unattended() {
    let server = Server::start_with(&[CODE]);
    let owner = server.owner();
    let first = install(&owner, "one");
    assert!(!first.stderr.contains("needs a review") && first.stderr.contains("countersign action show kit.say"), "{first:?}");
    owner.run(&["mode", "set", "kit.say", "allow"]).ok();
    owner.run(&["action", "invoke", "kit.say"]).ok();
    // The package is installed again with other code. The diff is shown, and the mode `allow` is not enough to run it.
    let again = install(&owner, "two");
    for told in [
        "! `kit.say` changed: its calls need approval until it is reviewed",
        "~ changed  execute.js  +1  −1",
        "  -console.log(JSON.stringify({ output: \"one\" }));",
        "  +console.log(JSON.stringify({ output: \"two\" }));",
        "next: countersign action review kit.say",
    ] {
        assert!(again.stderr.contains(told), "{told}: {}", again.stderr);
    }
    owner.run(&["action", "invoke", "kit.say", "--no-wait"]).exits(6);
    // Removing the package and installing it again does not avoid the review.
    owner.run(&["package", "remove", "kit", "--yes"]).ok();
    install(&owner, "two");
    owner.run(&["action", "invoke", "kit.say", "--no-wait"]).exits(6);
    let reviewed = owner.on_screen(100, &["action", "review", "kit.say"], "y\n").ok().stdout;
    assert!(reviewed.contains("Code\n~ changed  execute.js") && reviewed.contains("✓ reviewed"), "{reviewed}");
    owner.run(&["action", "invoke", "kit.say"]).ok();
    // The same holds for code that is edited on the server. A file that is not text is marked as such.
    let folder = server.data().join("packages/kit/actions/say");
    std::fs::write(folder.join("execute.js"), "// first line\n").unwrap();
    std::fs::write(folder.join("logo.png"), b"\x89PNG\xff").unwrap();
    let waiting = owner.run(&["inbox", "--json"]).ok().json();
    assert_eq!(waiting["items"][0]["void"]["code"], "definition_mismatch", "{waiting:#}");
    let shown = owner.run(&["action", "review", "kit.say", "--dry-run"]).ok();
    assert!(shown.stdout.contains("\n  -console.log(JSON.stringify({ output: \"two\" }));"), "{shown:?}");
    assert!(shown.stdout.contains("+ created  logo.png\n  not text"), "{shown:?}");
    let document = owner.run(&["action", "reviews", "--json"]).ok().json();
    assert_eq!(document["items"][0]["code"][0]["path"], "execute.js", "{document:#}");
}

#[test]
fn a_package_is_shown_with_its_manifest_its_files_and_where_it_came_from() {
    let server = Server::start_with(&[CODE]);
    let owner = server.owner();
    install(&owner, "one");
    let shown = owner.run(&["package", "show", "kit", "--json"]).ok().json();
    assert_eq!(shown["actions"][0]["manifest"]["riskTier"], "R2", "{shown:#}");
    let files: Vec<_> = shown["files"].as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap()).collect();
    assert_eq!(files, ["actions/say/action.json", "actions/say/execute.js", "actions/say/verify.js"]);
    assert_eq!(shown["files"][2]["sha256"].as_str().unwrap().len(), 64);
    let me = owner.run(&["whoami", "--json"]).ok().json()["principal"].clone();
    assert_eq!((&shown["installed_by"], &shown["edited"], &shown["actions"][0]["drift"]), (&me, &json!(false), &json!("none")));
    for columns in [60, 80, 120] {
        let drawn = owner.on_screen(columns, &["package", "show", "kit"], "").ok().stdout;
        for told in ["✓ can run", "installed by", "actions/say/execute.js", "Manifest of kit.say", "\"riskTier\": \"R2\""] {
            assert!(drawn.contains(told), "{columns} {told}: {drawn}");
        }
    }
    std::fs::write(server.data().join("packages/kit/actions/say/execute.js"), "").unwrap();
    assert_eq!(owner.run(&["package", "show", "kit", "--json"]).ok().json()["edited"], true);
    owner.run(&["package", "show", "nothing"]).exits(3);
}

#[test]
fn doctor_says_which_package_is_installed_and_cannot_run() {
    let server = Server::start();
    let owner = server.owner();
    install(&owner, "one");
    let found = owner.run(&["doctor", "--json"]).json();
    let package = found["items"].as_array().unwrap().iter().find(|item| item["subject"] == "package").unwrap().clone();
    assert_eq!(package["verdict"], "look", "{found:#}");
    let told = package["found"].as_str().unwrap();
    assert!(told.starts_with("`kit` is installed and cannot run: `kit.say`:") && told.contains("allow_plugin_code_execution"), "{told}");
    assert_eq!(package["fix"], "countersign package show kit");
    let shown = owner.run(&["package", "show", "kit"]).ok().stdout;
    assert!(shown.contains("✗ cannot run: "), "{shown}");
}

#[test]
fn the_python_example_passes_its_own_tests() {
    let server = Server::start();
    let owner = server.owner();
    let made = owner.run(&["package", "new", "notes", "--lang", "python"]).ok().stdout;
    assert!(made.contains("execute.py") && !made.contains("execute.js"), "{made}");
    let tested = owner.run(&["package", "test", "notes", "--json"]).ok().json();
    assert_eq!(tested["items"].as_array().unwrap().iter().map(|case| &case["ok"]).collect::<Vec<_>>(), [&json!(true), &json!(true)]);
    owner.run(&["package", "new", "more", "--lang", "cobol"]).exits(2);
}
