//! Tests that a user who waits for a call sees on stderr what the call prints while it runs. The code runs in the real jail.

use crate::countersign::{Ran, Server, User};
use crate::packages::write_package;
use serde_json::json;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStderr, Stdio};

/// Prints, waits until the workspace holds `go`, prints again.
const SAY: &str = r#"
const fs = require("fs");
console.error("step 1");
while (!fs.existsSync("/workspace/go")) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
console.error("cloning with ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a" + " \x1b[2J");
console.error("step 2");
console.log(JSON.stringify({ output: { said: true } }));
"#;

fn saying() -> (Server, User) {
    let server = Server::start_with(&[("COUNTERSIGN_ALLOW_PLUGIN_CODE_EXECUTION", "true")]);
    let owner = server.owner();
    write_package(owner.folder(), "kit", "say", "R1", &[("execute.js", SAY)], &json!({}));
    owner.run(&["package", "install", "kit"]).ok();
    owner.run(&["mode", "set", "kit.say", "allow"]).ok();
    (server, owner)
}

fn go(server: &Server) {
    std::fs::write(server.workspace().join("go"), "").unwrap();
}

/// A run whose stderr is read line by line.
struct Watched {
    child: Child,
    stderr: BufReader<ChildStderr>,
    told: String,
}

impl Watched {
    fn start(user: &User, arguments: &[&str]) -> Self {
        let mut child = user.command(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Self { child, stderr, told: String::new() }
    }

    /// Reads stderr until it contains this text.
    fn until(mut self, text: &str) -> Self {
        while !self.told.contains(text) {
            assert!(self.stderr.read_line(&mut self.told).unwrap() > 0, "it ended and never said `{text}`: {}", self.told);
        }
        self
    }

    fn end(mut self) -> Ran {
        let mut stdout = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        self.stderr.read_to_string(&mut self.told).unwrap();
        Ran { code: self.child.wait().unwrap().code().unwrap_or(-1), stdout, stderr: self.told }
    }
}

#[track_caller]
fn in_order(text: &str, words: &[&str]) {
    let mut rest = text;
    for word in words {
        let at = rest.find(word).unwrap_or_else(|| panic!("`{word}` is missing, or comes too early: {text}"));
        rest = &rest[at + word.len()..];
    }
}

#[test]
fn who_waits_for_a_turn_of_a_package_is_told_so() {
    let (server, owner) = saying();
    let say = ["action", "invoke", "kit.say", "-v"];
    let running = [Watched::start(&owner, &say).until("step 1"), Watched::start(&owner, &say).until("step 1")];
    // Two calls of a source may run at once. The third waits, says what it waits for, and runs once one of them has ended.
    let waiting = Watched::start(&owner, &say).until("waiting for a turn of source `kit`: 2 of its calls run already, which is the limit");
    assert!(!waiting.told.contains("step 1"), "{}", waiting.told);
    go(&server);
    let [first, second] = running;
    for run in [first, second, waiting] {
        let ended = run.end();
        assert!(ended.code == 0 && ended.stderr.contains("step 2"), "{ended:?}");
    }
    let listed = owner.run(&["package", "list"]).ok();
    assert!(listed.stderr.contains("2 calls of one package run at the same time"), "{listed:?}");
    assert_eq!(owner.run(&["package", "list", "--json"]).ok().json()["items"][0]["runs_at_once"], 2);
}

#[test]
fn lines_are_shown_while_the_call_runs_and_stdout_stays_data() {
    let (server, owner) = saying();
    let running = Watched::start(&owner, &["action", "invoke", "kit.say", "-v"]).until("step 1");
    // The line was shown before the script could continue.
    go(&server);
    let ran = running.end().ok();
    in_order(&ran.stderr, &["step 1", "cloning with [redacted] ", "step 2", "succeeded"]);
    assert!(!ran.stderr.contains("ghp_") && !ran.stderr.contains('\u{1b}'), "{ran:?}");
    assert_eq!(ran.json(), json!({ "said": true }));
    owner.run(&["receipt", "verify"]).ok();
}

#[test]
fn a_terminal_is_shown_the_lines_and_a_pipe_is_not_unless_it_asks() {
    let (server, owner) = saying();
    go(&server);
    let piped = owner.run(&["action", "invoke", "kit.say"]).ok();
    assert!(!piped.stderr.contains("step"), "{piped:?}");
    owner.at_terminal(&["action", "invoke", "kit.say"], &[]).exits(0).shows("step 1").shows("step 2");
    let quiet = owner.at_terminal(&["action", "invoke", "kit.say", "-q"], &[]).exits(0);
    assert!(!quiet.screen.contains("step"), "{}", quiet.screen);
    let document = owner.run(&["action", "invoke", "kit.say", "-v", "--json"]).ok();
    assert_eq!(document.json()["invocation"]["status"], "succeeded");
    assert!(document.stderr.contains("step 2"), "{document:?}");
    owner.run(&["action", "invoke", "kit.say", "-v", "-q"]).exits(2);
}

#[test]
fn a_refusal_reads_the_same_whether_lines_are_shown_or_not() {
    let server = Server::start_binary();
    let owner = server.owner();
    owner.run(&["mode", "set", "files.delete", "deny"]).ok();
    for (arguments, code) in [(&["files.write_text", "path=a"][..], 8), (&["files.nothing"], 3), (&["files.delete", "path=a"], 5)] {
        let ask = |more: &[&str]| owner.run(&[&["action", "invoke"], arguments, more].concat()).exits(code);
        let without_ids = |ran: &Ran| ran.stderr.split_whitespace().filter(|word| !word.contains("inv_")).collect::<Vec<_>>().join(" ");
        assert_eq!(without_ids(&ask(&["-v"])), without_ids(&ask(&[])));
    }
}

#[test]
fn who_waits_for_a_person_sees_the_lines_too() {
    let (server, owner) = saying();
    owner.run(&["mode", "set", "kit.say", "require_approval"]).ok();
    let caller = Watched::start(&owner, &["action", "invoke", "kit.say", "-v"]).until("inv_");
    let id = caller.told.split_whitespace().find(|word| word.starts_with("inv_")).unwrap().to_owned();
    let watcher = Watched::start(&owner, &["invocation", "watch", &id]).until("inv_");
    let quiet = Watched::start(&owner, &["invocation", "watch", &id, "-q"]).until("inv_");
    let approving = Watched::start(&owner, &["approve", &id]);
    let (caller, watcher) = (caller.until("step 1"), watcher.until("step 1"));
    go(&server);
    approving.end().ok();
    for ran in [caller.end().ok(), watcher.end().ok()] {
        in_order(&ran.stderr, &["step 1", "step 2", "succeeded"]);
        assert_eq!(ran.json(), json!({ "said": true }));
    }
    let quiet = quiet.end().ok();
    assert!(!quiet.stderr.contains("step") && quiet.json() == json!({ "said": true }), "{quiet:?}");
}

#[test]
fn watching_what_is_over_says_how_it_ended() {
    let (server, owner) = saying();
    go(&server);
    owner.run(&["action", "invoke", "kit.say"]).ok();
    let id = owner.run(&["invocation", "list", "--action", "kit.say", "-o", "name"]).ok().stdout.trim().to_owned();
    assert_eq!(owner.run(&["invocation", "watch", &id]).ok().json(), json!({ "said": true }));
    assert_eq!(owner.run(&["invocation", "watch", &id, "--json"]).ok().json()["invocation"]["id"], json!(id));
    owner.run(&["invocation", "watch", "inv_00000000000000000000000000"]).exits(3);
    owner.run(&["mode", "set", "kit.say", "require_approval"]).ok();
    let pending = owner.run(&["action", "invoke", "kit.say", "--no-wait"]).exits(6).stdout.trim().to_owned();
    assert_eq!(owner.run(&["invocation", "watch", &pending, "--wait", "0s"]).exits(6).stdout.trim(), pending);
    owner.run(&["deny", &pending]).ok();
    owner.run(&["invocation", "watch", &pending]).exits(5);
}
