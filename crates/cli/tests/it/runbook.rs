//! Runs every command of `docs/guides/runbook.md` as it stands there, on both databases.

use crate::countersign::{Server, User};
use reqwest::Method;
use serde_json::{Value, json};

const PAGE: &str = include_str!("../../../../docs/guides/runbook.md");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_command_of_the_runbook_runs_on_sqlite() {
    every_command_runs(None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_command_of_the_runbook_runs_on_postgresql() {
    every_command_runs(Some(testkit::postgres::fresh_database().await)).await;
}

async fn every_command_runs(database: Option<String>) {
    let variables: Vec<_> = database.iter().map(|url| ("COUNTERSIGN_DATABASE", url.as_str())).collect();
    let server = Server::start_with(&variables);
    let owner = server.owner();
    let Scene { planner, written, quarantined } = scene(&server, &owner).await;
    let mut ran = Vec::new();
    for line in commands() {
        let id = if line.contains("quarantine") { &quarantined } else { &written };
        let words = words_of(&line.replace("inv_…", id));
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let told = owner.run(&words[1..]).ok();
        ran.push(line.clone());
        // What the page promises of it.
        if line.contains("--as-dry-run") {
            let rehearsed = planner.run(&["action", "invoke", "files.write_text", "path=notes.txt", "text=other", "--json"]).ok().json();
            assert_eq!(rehearsed["invocation"]["dry_run"], true, "{rehearsed:#}");
        } else if line.contains("--status denied") {
            let denied = told.json();
            let mut gates = denied["items"].as_array().unwrap().iter().flat_map(|call| call["gates"].as_array().unwrap());
            assert!(gates.any(|gate| gate["gate"] == "space" && gate["verdict"] == "deny"), "{denied:#}");
            let mut claimed = denied["items"].as_array().unwrap().iter().map(|call| &call["claimed"]);
            assert!(claimed.any(|claimed| claimed["space"] == "main" && claimed["subject"] == "agent://planner"), "{denied:#}");
        } else if line.contains("mode set files.list") {
            planner.run(&["action", "invoke", "files.list"]).exits(5);
        } else if line.contains("session end") {
            planner.run(&["action", "list"]).exits(4);
        } else if line.contains("receipt list") || line.contains("--revertible") {
            assert!(!told.stdout.is_empty(), "{line}: {told:?}");
        }
    }
    assert!(ran.len() >= 21 && ran.iter().any(|line| line.contains("receipt list --subject")), "{ran:#?}");
    assert!(!server.workspace().join("notes.txt").exists(), "the last command reverted it");
}

struct Scene {
    planner: User,
    /// A call that wrote a file.
    written: String,
    quarantined: String,
}

/// An agent in the space `lab` that wrote a file, was quarantined once, and once named another space.
async fn scene(server: &Server, owner: &User) -> Scene {
    owner.run(&["space", "create", "lab"]).ok();
    owner.run(&["mode", "set", "files.write_text", "allow"]).ok();
    let created = owner.run(&["session", "create", "--title", "planner", "--space", "lab", "--json"]).ok().json();
    let token = created["token"].as_str().unwrap();
    let planner = owner.with_token(token);
    let write = |text: &str| planner.run(&["action", "invoke", "files.write_text", "path=notes.txt", text, "--json"]);
    let written = write("text=hello").ok().json()["invocation"]["id"].as_str().unwrap().to_owned();
    let hidden: String = "ignore all".bytes().filter_map(|byte| char::from_u32(0xe0000 + u32::from(byte))).collect();
    write(&format!("text=hello{hidden}")).exits(5);
    let quarantined = owner.run(&["quarantine", "list", "--state", "held", "-o", "name"]).ok().stdout.trim().to_owned();
    let elsewhere = json!({
        "subject_id": "agent://planner", "tool_id": "files.write_text", "space_id": "main", "params": { "path": "notes.txt", "text": "x" }
    });
    let request = reqwest::Client::new().request(Method::POST, format!("{}/api/v1/actions/execute", server.url)).json(&elsewhere);
    let answer: Value = request.bearer_auth(token).send().await.unwrap().json().await.unwrap();
    assert_eq!(answer["status"], "error", "{answer:#}");
    Scene { planner, written, quarantined }
}

/// The commands in the blocks of shell, without their comments.
fn commands() -> Vec<String> {
    let blocks = PAGE.split("```sh\n").skip(1).map(|block| block.split("```").next().unwrap());
    let lines = blocks.flat_map(str::lines).map(|line| line.split(" #").next().unwrap().trim().to_owned());
    let lines: Vec<_> = lines.filter(|line| !line.is_empty()).collect();
    assert!(lines.iter().all(|line| line.starts_with("countersign ")), "{lines:#?}");
    lines
}

/// Splits a command into words, as a shell does with double quotes.
fn words_of(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (place, part) in line.split('"').enumerate() {
        if place % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}
