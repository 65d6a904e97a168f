//! Tests that dry runs and reverted calls are marked wherever they appear: on a terminal, in a pipe and in the server's log.

use crate::countersign::{Server, User};
use serde_json::{Value, json};

/// Makes a call, and returns its id.
fn made(user: &User, more: &[&str]) -> String {
    let call = ["action", "invoke", "files.write_text", "path=a.txt", "text=x", "--json"];
    user.run(&[&call[..], more].concat()).ok().json()["invocation"]["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_pipe_is_told_what_was_rehearsed_and_what_was_taken_back() {
    let server = Server::start_binary();
    let owner = server.owner();
    owner.run(&["mode", "set", "files.write_text", "allow"]).ok();
    let rehearsed = made(&owner, &["--dry-run"]);
    let undone = made(&owner, &[]);
    let undoing = owner.run(&["invocation", "revert", &undone, "--yes", "--json"]).ok().json();
    let undoing = undoing["invocation"]["id"].as_str().unwrap().to_owned();
    let stands = made(&owner, &[]);
    let statuses = [(&rehearsed, "succeeded (dry run)"), (&undone, "succeeded, reverted"), (&undoing, "succeeded"), (&stands, "succeeded")];
    let listed = owner.run(&["invocation", "list"]).ok().stdout;
    for (id, status) in statuses {
        let row = listed.lines().find(|line| line.starts_with(id.as_str())).unwrap();
        assert_eq!(row.split('\t').nth(1), Some(status), "{row}");
        for told in [owner.run(&["explain", id]).ok().stdout, owner.run(&["receipt", "show", id]).ok().stdout] {
            assert!(told.lines().any(|line| line == format!("status\t{status}")), "{told}");
            assert_eq!(told.contains(&format!("\nreverted by\t{undoing}\n")), id == &undone, "{told}");
            assert_eq!(told.contains(&format!("\nreverses\t{undone}\n")), id == &undoing, "{told}");
        }
    }

    let parts = json!([{ "action": "files.write_text", "params": { "path": "b.txt", "text": "x" } }]).to_string();
    let batch = |more: &[&str]| owner.run_with_stdin(&[&["batch", "run", "-", "--json"], more].concat(), &parts).ok().json();
    let (dry, wet) = (batch(&["--dry-run"]), batch(&[]));
    let listed = owner.run(&["batch", "list"]).ok().stdout;
    for (batch, status) in [(&dry, "succeeded (dry run)"), (&wet, "succeeded")] {
        let id = batch["id"].as_str().unwrap();
        assert!(listed.contains(&format!("{id}\t{status}\tall_or_nothing\t1\t")), "{listed}");
        let shown = owner.run(&["batch", "show", id]).ok().stdout;
        assert_eq!(shown.split('\t').nth(2), Some(status), "{shown}");
    }

    let lines: Vec<Value> = server.logged().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let is_marked =
        |what: &str, id: &str| lines.iter().find(|line| line["message"] == what && line[what] == id).unwrap()["dry_run"].clone();
    assert_eq!((is_marked("invocation", &rehearsed), is_marked("invocation", &stands)), (json!(true), json!(false)));
    let id = |batch: &Value| batch["id"].as_str().unwrap().to_owned();
    assert_eq!((is_marked("batch", &id(&dry)), is_marked("batch", &id(&wet))), (json!(true), json!(false)));
}

#[test]
fn how_long_it_took_is_the_same_wherever_it_is_told_and_has_no_waiting_for_people_in_it() {
    let server = Server::start();
    let owner = server.owner();
    let id = crate::answers::asked(&owner, "a.txt");
    owner.run(&["approve", &id]).ok();
    let (explained, receipt) = (owner.run(&["explain", &id]).ok().stdout, owner.run(&["receipt", "show", &id]).ok().stdout);
    let row = |text: &str, label: &str| text.lines().find_map(|line| line.strip_prefix(&format!("{label}\t"))).map(str::to_owned);
    for label in ["took", "waited for approval"] {
        assert!(row(&explained, label).is_some() && row(&explained, label) == row(&receipt, label), "{label}:\n{explained}\n{receipt}");
    }
    let signed = owner.run(&["receipt", "show", &id, "--json"]).ok().json();
    let millis = |label: &str| row(&receipt, label).unwrap().trim_end_matches(" ms").parse::<u64>().unwrap();
    assert_eq!(signed["payload"]["body"]["timing"]["total_ms"], millis("took") + millis("waited for approval"));
}
