//! Tests `secret`: a value is typed unseen, or read from stdin or a file, and is found nowhere afterwards.

use crate::countersign::{Server, User, files_with};
use serde_json::json;
use std::path::PathBuf;

const VALUE: &str = "correct-horse-battery-staple-7731";

fn set(owner: &User, name: &str) {
    owner.run_with_stdin(&["secret", "set", name, "--stdin"], VALUE).ok();
}

#[test]
fn a_secret_is_set_listed_rotated_and_deleted() {
    let server = Server::start();
    let owner = server.owner();
    let empty = owner.run(&["secret", "list"]).ok();
    assert!(empty.stderr.contains("no secrets: countersign secret set"), "{empty:?}");
    let set = ["secret", "set", "github-token", "--stdin", "--description", "for builds", "--json"];
    let made = owner.run_with_stdin(&set, &format!("{VALUE}\n")).ok().json();
    assert_eq!((&made["name"], &made["version"], &made["description"]), (&json!("github-token"), &json!(1), &json!("for builds")));
    assert_eq!(made.get("value"), None);
    let taken = owner.run_with_stdin(&["secret", "set", "github-token", "--stdin"], "x").exits(7);
    assert!(taken.stderr.contains("hint: countersign secret rotate github-token"), "{taken:?}");

    std::fs::write(owner.folder().join("value.txt"), format!("{VALUE}\r\n")).unwrap();
    let rotated = owner.run(&["secret", "rotate", "github-token", "--file", "value.txt", "--json"]).ok().json();
    assert_eq!((&rotated["version"], &rotated["description"]), (&json!(2), &json!("for builds")));
    assert_eq!(owner.run(&["secret", "list", "-o", "name"]).ok().stdout, "github-token\n");
    let listed = owner.run(&["secret", "list"]).ok().stdout;
    assert!(listed.starts_with("github-token\tfor builds\t2\tuser:usr_"), "{listed}");
    let unused = owner.run(&["secret", "used-by", "github-token"]).ok();
    assert!(unused.stdout.is_empty() && unused.stderr.contains("nothing uses it"), "{unused:?}");
    assert_eq!(owner.run(&["secret", "used-by", "github-token", "--json"]).ok().json()["items"], json!([]));

    owner.run(&["secret", "delete", "github-token"]).exits(2);
    let deleted = owner.run(&["secret", "delete", "github-token", "--yes", "--json"]).ok().json();
    assert_eq!(deleted, json!({ "name": "github-token", "deleted": true }));
    for verb in ["delete", "rotate", "used-by"] {
        let flags: &[&str] = if verb == "delete" { &["--yes"] } else { &[] };
        let gone = owner.run(&[&["secret", verb, "github-token"][..], flags].concat()).exits(3);
        assert!(gone.stderr.contains("list them with `countersign secret list`"), "{gone:?}");
    }
    owner.run(&["receipt", "verify"]).ok();
}

#[test]
fn a_value_is_typed_without_being_shown() {
    let server = Server::start_binary();
    let owner = server.owner();
    let typed = format!("{VALUE}\n");
    let seen = owner.at_terminal(&["secret", "set", "token"], &[("value of `token`: ", typed.as_str())]).exits(0);
    assert!(!seen.screen.contains(VALUE), "{seen:?}");
    let seen = owner.at_terminal(&["secret", "rotate", "token"], &[("value of `token`: ", typed.as_str())]).exits(0);
    assert!(!seen.screen.contains(VALUE), "{seen:?}");
    assert_eq!(owner.run(&["secret", "list", "--json"]).ok().json()["items"][0]["version"], 2);
    owner.at_terminal(&["secret", "set", "other"], &[("value of `other`: ", "\n")]).exits(2).shows("the value is empty");
}

#[test]
fn a_value_on_the_command_line_is_refused_and_not_repeated() {
    let server = Server::start();
    let owner = server.owner();
    set(&owner, "token");
    for arguments in [
        vec!["secret", "set", "other", VALUE],
        vec!["secret", "rotate", "token", VALUE],
        vec!["secret", "set", "other", VALUE, "--dry-run"],
        vec!["secret", "set", "other", VALUE, "--json"],
    ] {
        let refused = owner.run(&arguments).exits(2);
        assert!(refused.stderr.contains("a value is never given on the command line"), "{refused:?}");
        assert!(!format!("{refused:?}").contains(VALUE), "{refused:?}");
    }
    // Nobody can be asked here, and two places are one too many.
    let unasked = owner.run(&["secret", "set", "other"]).exits(2);
    assert!(unasked.stderr.contains("--stdin") && unasked.stderr.contains("--file"), "{unasked:?}");
    owner.run_with_stdin(&["secret", "set", "other", "--stdin", "--file", "value.txt"], VALUE).exits(2);
    owner.run_with_stdin(&["secret", "set", "other", "--stdin"], "\n").exits(2);
    owner.run(&["secret", "set", "other", "--file", "absent.txt"]).exits(3);
    let long = "x".repeat(64 * 1024 + 1);
    owner.run_with_stdin(&["secret", "set", "other", "--stdin"], &long).exits(8);
    std::fs::write(owner.folder().join("long.txt"), format!("{long}yyyy")).unwrap();
    owner.run(&["secret", "set", "other", "--file", "long.txt"]).exits(8);
    owner.run_with_stdin(&["secret", "set", "no spaces", "--stdin"], VALUE).exits(8);
    assert_eq!(owner.run(&["secret", "list", "-o", "name"]).ok().stdout, "token\n");
}

#[test]
fn a_dry_run_shows_the_request_without_the_value() {
    let server = Server::start();
    let owner = server.owner();
    set(&owner, "token");
    for arguments in [["secret", "set", "other"], ["secret", "rotate", "token"]] {
        let shown = owner.run_with_stdin(&[&arguments[..], &["--stdin", "--dry-run"]].concat(), VALUE).ok();
        assert!(shown.stdout.starts_with("PUT /api/v1/secrets/") && shown.stdout.contains("(not shown)"), "{shown:?}");
        assert!(!format!("{shown:?}").contains(VALUE), "{shown:?}");
    }
    assert_eq!(owner.run(&["secret", "list", "--json"]).ok().json()["items"][0]["version"], 1);
}

#[test]
fn only_admins_set_secrets_and_agents_see_none() {
    let server = Server::start();
    let owner = server.owner();
    set(&owner, "token");
    let member = owner.invited(&owner.run(&["user", "create", "mia", "--role", "member", "--json"]).ok().json()["invitation"]);
    assert_eq!(member.run(&["secret", "list", "-o", "name"]).ok().stdout, "token\n");
    member.run_with_stdin(&["secret", "set", "mine", "--stdin"], VALUE).exits(5);
    member.run_with_stdin(&["secret", "rotate", "token", "--stdin"], VALUE).exits(5);
    member.run(&["secret", "delete", "token", "--yes"]).exits(5);
    let session = owner.run(&["session", "create", "--json"]).ok().json();
    let agent = owner.with_token(session["token"].as_str().unwrap());
    agent.run(&["secret", "list"]).exits(5);
    agent.run(&["secret", "used-by", "token"]).exits(5);
}

#[test]
fn a_value_is_in_no_file_of_the_server_no_backup_and_no_export() {
    // The most that a server logs.
    let server = Server::start_with(&[("COUNTERSIGN_LOG_LEVEL", "trace")]);
    let owner = server.owner();
    set(&owner, "token");
    owner.run_with_stdin(&["secret", "rotate", "token", "--stdin"], VALUE).ok();
    owner.run_with_stdin(&["secret", "set", "token", "--stdin"], VALUE).exits(7);
    owner.run_with_stdin(&["secret", "set", "no spaces", "--stdin"], VALUE).exits(8);
    owner.run(&["action", "invoke", "files.list"]).ok();
    owner.run(&["backup", "all.backup", "--data", "data"]).ok();
    owner.run(&["receipt", "export", "log.jsonl"]).ok();
    assert_eq!(files_with(owner.folder(), VALUE), Vec::<PathBuf>::new());
    let text = |name: &str| std::fs::read_to_string(owner.folder().join(name)).unwrap();
    assert!(text("all.backup").contains(r#""table":"secrets""#));
    assert!(!server.logged().is_empty(), "the log is one of the files");
}
