//! Tests what the author of a package is told: everything that is wrong with it at once, where it is, and what to do.

use crate::countersign::{Server, User};
use crate::packages::{tree, write_package};
use serde_json::{Value, json};
use std::path::Path;

const WRITES: &str = r#"
const fs = require("fs");
fs.writeFileSync("/stage/out.js", "let fine = 1;");
console.log(JSON.stringify({ output: {} }));
"#;
const FINE: &str = r#"console.log(JSON.stringify({ ok: true, checks: [] }));"#;

fn author(folder: &Path) -> User {
    // These commands need no server, and none listens at this address.
    User::new(folder, "http://127.0.0.1:9", None)
}

fn edit(path: &Path, change: impl FnOnce(&mut Value)) {
    let mut value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    change(&mut value);
    std::fs::write(path, value.to_string()).unwrap();
}

fn example(author: &User) {
    author.run(&["package", "new", "notes"]).ok();
}

fn action(author: &User, file: &str) -> std::path::PathBuf {
    author.folder().join("notes/actions/append_to_notes").join(file)
}

/// Breaks the example in every way that has an error message.
fn spoil(author: &User) {
    edit(&action(author, "action.json"), |manifest| {
        manifest["riskTier"] = json!("R9");
        manifest["permissions"]["filesystem"] = json!("workspce");
        manifest["permissions"]["network"] = json!(true);
        manifest["inputSchema"] = json!({ "type": "nothing" });
    });
    for (script, broken) in [("execute.js", "let a = 1;\nboom(;\n"), ("rollback.js", "}")] {
        std::fs::write(action(author, script), broken).unwrap();
    }
    std::fs::remove_file(action(author, "verify.js")).unwrap();
    std::fs::write(action(author, "verify.py"), "import json\nx = = 1\n").unwrap();
    let folder = author.folder().join("notes");
    std::fs::create_dir_all(folder.join("actions/empty")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", folder.join("actions/link")).unwrap();
    edit(&folder.join("tests/appends.json"), |case| case["expect"]["status"] = json!("suceeded"));
    std::fs::write(folder.join("tests/stays_inside.json"), "{\n  \"action\": append\n}").unwrap();
}

const FOUND: [(&str, &str); 11] = [
    ("actions/append_to_notes/action.json: riskTier: `R9` is not a `riskTier`", "there are `R0`, `R1`, `R2`, `R3`, `R4`"),
    ("actions/append_to_notes/action.json: permissions.filesystem: `workspce` is not", "did you mean `workspace`?"),
    ("actions/append_to_notes/action.json: permissions.network: there is no such field", "\"hosts\": [\"api.example.com\"]"),
    ("actions/append_to_notes/action.json: inputSchema: it does not compile", "write a JSON Schema"),
    ("actions/append_to_notes/execute.js:2:6: SyntaxError: Unexpected token ';'", "correct the script"),
    ("actions/append_to_notes/rollback.js:1:1: SyntaxError: Unexpected token '}'", "correct the script"),
    ("actions/append_to_notes/verify.py:2:5: SyntaxError: invalid syntax", "correct the script"),
    ("actions/empty: it has no `action.json`", "or remove the folder"),
    ("actions/link: it is neither a file nor a folder", "not a link to it"),
    ("tests/appends.json: expect.status: `suceeded` is not a `status`", "did you mean `succeeded`?"),
    ("tests/stays_inside.json:2:13: it is not JSON we take", "correct the JSON"),
];

#[test]
fn everything_that_is_wrong_with_a_package_is_listed_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let author = author(folder.path());
    example(&author);
    author.run(&["package", "check", "notes"]).ok();
    spoil(&author);
    let before = tree(&author.folder().join("notes/actions/append_to_notes"));
    for command in ["check", "test"] {
        let refused = author.run(&["package", command, "notes"]).exits(1);
        let lines: Vec<_> = refused.stderr.lines().collect();
        for (problem, hint) in FOUND {
            let at = lines.iter().position(|line| line.starts_with(problem)).unwrap_or_else(|| panic!("{problem}: {refused:#?}"));
            assert!(lines[at + 1].starts_with("  hint: ") && lines[at + 1].contains(hint), "{problem}: {refused:#?}");
        }
        assert_eq!(lines.last(), Some(&"error: package `notes` is refused: 11 things are wrong with it"));
        assert!(!refused.stderr.contains("struct ") && !refused.stderr.contains("at ``"), "{refused:#?}");
    }
    // The same as one document for programs.
    let document = author.run(&["package", "check", "notes", "--json"]).exits(1).error();
    assert_eq!((&document["code"], document["errors"].as_array().unwrap().len()), (&json!("package_invalid"), FOUND.len()));
    let broken = document["errors"].as_array().unwrap().iter().find(|error| error["line"] == 2 && error["column"] == 6).unwrap();
    assert_eq!(broken["file"], "actions/append_to_notes/execute.js");
    assert_eq!(tree(&author.folder().join("notes/actions/append_to_notes")), before, "looking left something behind");
}

#[test]
fn looking_at_a_script_runs_nothing_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let author = author(folder.path());
    // Each script would never end if it were run.
    write_package(author.folder(), "kit", "loops", "R1", &[("execute.js", "for (;;) {}")], &json!({}));
    write_package(author.folder(), "kit", "waits", "R1", &[("execute.py", "while True: pass\n")], &json!({}));
    let checked = author.run(&["package", "check", "kit", "--json"]).ok().json();
    assert_eq!(checked["actions"], json!(["kit.loops", "kit.waits"]));
}

#[test]
fn what_installing_refuses_is_listed_like_what_checking_does() {
    let server = Server::start_binary();
    let owner = server.owner();
    example(&owner);
    edit(&action(&owner, "action.json"), |manifest| {
        manifest["riskTier"] = json!("R9");
        manifest["titel"] = json!("x");
    });
    let refused = owner.run(&["package", "install", "notes"]).exits(8);
    assert!(refused.stderr.contains("action.json: riskTier: `R9` is not a `riskTier`"), "{refused:?}");
    assert!(refused.stderr.contains("  hint: did you mean `title`?"), "{refused:?}");
    assert!(refused.stderr.contains("package `notes` is refused: 2 things are wrong with it"), "{refused:?}");
    let document = owner.run(&["package", "install", "notes", "--json"]).exits(8).error();
    assert_eq!(document["errors"][0]["file"], "actions/append_to_notes/action.json", "{document:#}");
    assert_eq!((&document["errors"][0]["pointer"], &document["errors"][1]["pointer"]), (&json!("/riskTier"), &json!("/titel")));
}

#[test]
fn no_package_is_begun_under_a_name_it_cannot_be_installed_under() {
    let server = Server::start_binary();
    let owner = server.owner();
    let listed = owner.run(&["action", "list", "--json"]).ok().json();
    let ids = listed["items"].as_array().unwrap().iter().map(|action| action["id"].as_str().unwrap());
    let ours: std::collections::BTreeSet<_> = ids.map(|id| id.split('.').next().unwrap().to_owned()).collect();
    assert!(ours.contains("http") && ours.contains("files"), "{ours:?}");
    for name in &ours {
        let sentence = format!("`{name}` is the name of a source of ours, and no package may stand in for it");
        let begun = owner.run(&["package", "new", name]).exits(2);
        assert!(begun.stderr.contains(&sentence) && !owner.folder().join(name).exists(), "{begun:?}");
        write_package(owner.folder(), name, "act", "R1", &[("execute.js", WRITES)], &json!({}));
        for command in ["check", "install"] {
            let refused = owner.run(&["package", command, name]);
            assert!(refused.code != 0 && refused.stderr.contains(&sentence), "{refused:?}");
        }
    }
}

#[test]
fn what_is_no_folder_is_said_to_be_none() {
    let folder = tempfile::tempdir().unwrap();
    let author = author(folder.path());
    std::fs::write(author.folder().join("file"), "x").unwrap();
    for (command, dir) in [("check", "file"), ("check", "nothing"), ("test", "nothing"), ("install", "file")] {
        let refused = author.run(&["package", command, dir, "--name", "kit"]).exits(2);
        assert!(refused.stderr.contains(&format!("`{dir}` is not a folder")), "{refused:?}");
    }
}

#[test]
fn nothing_to_test_is_said_and_is_no_success() {
    let folder = tempfile::tempdir().unwrap();
    let author = author(folder.path());
    write_package(author.folder(), "kit", "act", "R2", &[("execute.js", WRITES), ("verify.js", FINE)], &json!({}));
    let refused = author.run(&["package", "test", "kit"]).exits(3);
    assert!(refused.stderr.contains("there is nothing to test") && refused.stderr.contains("kit/tests/first.json"), "{refused:?}");
}

#[test]
fn a_test_may_do_what_the_settings_of_the_server_allow_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let author = author(folder.path());
    let command = "node --check out.js";
    let more = json!({ "permissions": { "commands": [command], "filesystem": "workspace" }, "verification": { "required": true, "commands": [command] } });
    write_package(author.folder(), "kit", "out", "R2", &[("execute.js", WRITES)], &more);
    std::fs::create_dir_all(author.folder().join("kit/tests")).unwrap();
    let case = json!({ "action": "out", "input": {}, "expect": { "status": "succeeded" } });
    std::fs::write(author.folder().join("kit/tests/writes.json"), case.to_string()).unwrap();
    let refused = author.run(&["package", "test", "kit"]).exits(1);
    assert!(refused.stdout.contains("an operator puts it there with `command_allowlist`"), "{refused:?}");
    assert!(refused.stderr.contains("1 of 1 test failed"), "{refused:?}");
    // The allowlist is accepted from the same places as the server's: a variable, a named file, or the data folder.
    let settings = "command_allowlist = [\"node --check {file}\"]\n";
    author.with_variable("COUNTERSIGN_COMMAND_ALLOWLIST", "node --check {file}").run(&["package", "test", "kit"]).ok();
    std::fs::write(author.folder().join("server.toml"), settings).unwrap();
    author.run(&["package", "test", "kit", "--config", "server.toml"]).ok();
    std::fs::create_dir_all(author.folder().join("data")).unwrap();
    std::fs::write(author.folder().join("data/countersign.toml"), settings).unwrap();
    author.run(&["package", "test", "kit", "--data", "data"]).ok();
    assert_eq!(std::fs::read_dir(author.folder().join("data")).unwrap().count(), 1, "the data folder was touched");
    std::fs::write(author.folder().join("server.toml"), "command_alowlist = []\n").unwrap();
    let misspelt = author.run(&["package", "test", "kit", "--config", "server.toml"]).exits(2);
    assert!(misspelt.stderr.contains("command_alowlist"), "{misspelt:?}");
}

#[test]
fn why_a_test_failed_is_read_whole_at_a_narrow_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let author = author(folder.path());
    example(&author);
    edit(&author.folder().join("notes/tests/appends.json"), |case| {
        case["expect"]["output"] = json!({ "lines": 3, "of": "a file that is not there" })
    });
    let seen = author.at_terminal_of(80, &["package", "test", "notes"], &[]).exits(1);
    let plain = anstream::adapter::strip_str(&seen.screen).to_string();
    let words = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(r#"it answered {"lines":2} where {"lines":3,"of":"a file that is not there"} was expected"#), "{plain}");
    assert!(!plain.contains('…') && plain.lines().all(|line| line.chars().count() <= 80), "{plain}");
    assert!(plain.lines().any(|line| line.starts_with("    it answered")), "{plain}");
}
