//! Tests `automation`, `trigger`, `firing` and `run` against a real server: from a file to a run that has ended.

use crate::countersign::{Server, User};
use serde_json::{Value, json};

fn tidy() -> Value {
    json!({
        "schema_version": "1.0",
        "name": "Tidy",
        "inputs": { "schema": { "type": "object", "additionalProperties": false,
            "properties": { "text": { "type": "string", "default": "hello" } } } },
        "triggers": [
            { "trigger_id": "hook", "type": "webhook" },
            { "trigger_id": "daily", "type": "schedule", "config": { "cron": "0 9 * * 1-5", "timezone": "Africa/Kigali" } },
        ],
        "plan": [
            { "step_id": "look", "action": "files.list" },
            { "step_id": "note", "action": "files.write_text", "config": { "path": "note.txt", "text": "{{ inputs.text }}" } },
        ],
    })
}

/// Writes a definition to a file of the server's folder, and returns its path.
fn written(server: &Server, name: &str, text: &str) -> String {
    let file = server.data().join(name);
    std::fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

/// Saves `tidy`, and returns the id of the automation.
fn applied(server: &Server, owner: &User) -> String {
    applied_as(server, owner, "Tidy")
}

/// The same under another name.
pub(crate) fn applied_as(server: &Server, owner: &User, name: &str) -> String {
    let mut definition = tidy();
    definition["name"] = json!(name);
    let file = written(server, "applied.json", &definition.to_string());
    let saved = owner.run(&["automation", "apply", "-f", &file, "--json"]).ok().json();
    saved["automation"]["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_file_becomes_an_automation_and_the_next_one_a_version() {
    let server = Server::start();
    let owner = server.owner();
    let empty = owner.run(&["automation", "list"]).ok();
    assert!(empty.stderr.contains("no automations: countersign automation apply"), "{empty:?}");
    let file = written(&server, "tidy.json", &tidy().to_string());
    let checked = owner.run(&["automation", "validate", "-f", &file]).ok();
    assert!(checked.stderr.contains("✓ the definition has no mistakes"), "{checked:?}");
    let planned = owner.run(&["automation", "dry-run", "-f", &file]).ok();
    assert!(planned.stdout.contains("require_approval") && planned.stdout.contains("allow"), "{planned:?}");
    assert!(planned.stderr.contains("daily fires at 09:00 on weekdays (Africa/Kigali): "), "{planned:?}");
    let saved = owner.run(&["automation", "apply", "-f", &file]).ok();
    assert!(saved.stdout.contains("cs_hook_") && saved.stderr.contains("the token is shown now and never again"), "{saved:?}");
    assert!(saved.stderr.contains("version 1 is in force"), "{saved:?}");
    // The same file changes nothing, and another one of the same name is a new version. YAML is as good as JSON.
    let same = owner.run(&["automation", "apply", "-f", &file]).ok();
    assert!(same.stderr.contains("version 1 stays in force") && !same.stdout.contains("cs_hook_"), "{same:?}");
    let yaml = "schema_version: '1.0'\nname: Tidy\ngoal: To be tidy\nplan:\n  - step_id: look\n    action: files.list\n";
    let yaml = written(&server, "tidy.yaml", yaml);
    let differs = owner.run(&["automation", "diff", "-f", &yaml]).ok();
    assert!(differs.stdout.contains("/goal"), "{differs:?}");
    let second = owner.run(&["automation", "apply", "-f", &yaml, "--json"]).ok().json();
    assert_eq!((&second["automation"]["version"], &second["is_new_version"]), (&json!(2), &json!(true)));
    let (id, digest) = (second["automation"]["id"].as_str().unwrap(), second["automation"]["digest"].as_str().unwrap());
    owner.run(&["automation", "apply", "-f", &file, "--automation", id, "--if-match", &"0".repeat(64)]).exits(7);
    owner.run(&["automation", "apply", "-f", &file, "--automation", id, "--if-match", digest]).ok();
    let history = owner.run(&["automation", "history", "Tidy", "--json"]).ok().json();
    assert_eq!(history["items"].as_array().unwrap().len(), 3);
    let exported = owner.run(&["automation", "export", "Tidy", "--version-number", "2"]).ok().json();
    assert_eq!(exported["goal"], "To be tidy");
    let named: Vec<_> = owner.run(&["automation", "list", "-o", "name"]).ok().stdout.lines().map(str::to_owned).collect();
    assert_eq!(named, [id]);
    let shown = owner.run(&["automation", "show", "Tidy"]).ok();
    assert!(shown.stdout.contains("daily: schedule, at 09:00 on weekdays"), "{shown:?}");
}

#[test]
fn every_mistake_is_a_line() {
    let server = Server::start();
    let owner = server.owner();
    let mut wrong = tidy();
    wrong["plan"][0]["action"] = json!("files.lst");
    wrong["triggers"][1]["config"]["cron"] = json!("61 9 * * *");
    let file = written(&server, "wrong.json", &wrong.to_string());
    for command in [["automation", "validate"], ["automation", "apply"], ["automation", "import"]] {
        let refused = owner.run(&[command[0], command[1], "-f", &file]).exits(8);
        assert!(refused.stderr.contains("/plan/0/action action_unknown: ") && refused.stderr.contains("files.list"), "{refused:?}");
        assert!(refused.stderr.contains("/triggers/1/config/cron cron_invalid: "), "{refused:?}");
    }
    let refused = owner.run(&["automation", "validate", "-f", &file, "--json"]).exits(8).error();
    assert_eq!(refused["code"], "definition_invalid");
    assert!(refused["mistakes"].as_array().unwrap().len() >= 2, "{refused:#}");
    assert_eq!(owner.run(&["automation", "list", "--json"]).ok().json()["items"], json!([]));
}

#[test]
fn a_run_is_followed_to_its_end_and_run_again() {
    let server = Server::start();
    let owner = server.owner();
    let id = applied(&server, &owner);
    owner.run(&["mode", "set", "files.write_text", "allow", "--automation", &id]).ok();
    let followed = owner.run(&["automation", "run", "Tidy", "text=good morning", "--follow"]).ok();
    assert!(followed.stderr.contains("✓ look files.list") && followed.stderr.contains("✓ note files.write_text"), "{followed:?}");
    assert_eq!(std::fs::read_to_string(server.workspace().join("note.txt")).unwrap(), "good morning");
    let run = owner.run(&["run", "list", "--automation", "Tidy", "-o", "name"]).ok().stdout.trim().to_owned();
    let shown = owner.run(&["run", "show", &run, "--json"]).ok().json();
    assert_eq!((&shown["status"], shown["steps"].as_array().unwrap().len()), (&json!("succeeded"), 2));
    let wrong = owner.run(&["automation", "run", "Tidy", "txet=x"]).exits(8);
    assert!(wrong.stderr.contains("inputs_invalid"), "{wrong:?}");
    // The same key starts one run.
    let keyed = ["automation", "run", &id, "text=k", "--idempotency-key", "k1", "--json"];
    let first = owner.run(&keyed).ok().json();
    assert_eq!(owner.run(&keyed).ok().json()["run_id"], first["run_id"]);
    owner.run(&["run", "watch", first["run_id"].as_str().unwrap()]).ok();
    owner.run(&["run", "rerun", &run, "--from", "note", "--follow"]).ok();
    assert_eq!(std::fs::read_to_string(server.workspace().join("note.txt")).unwrap(), "good morning");
    owner.run(&["run", "rerun", &run, "--from", "nope"]).exits(7);
    let firings = owner.run(&["firing", "list", "Tidy", "--outcome", "started", "--json"]).ok().json();
    assert_eq!(firings["items"].as_array().unwrap().len(), 3);
    owner.run(&["receipt", "verify"]).ok();
}

#[test]
fn a_run_that_waits_is_approved_or_cancelled() {
    let server = Server::start();
    let owner = server.owner();
    let id = applied(&server, &owner);
    let waiting = |run: &str| {
        let began = std::time::Instant::now();
        loop {
            let shown = owner.run(&["run", "show", run, "--json"]).ok().json();
            if shown["status"] == "waiting" {
                return shown["invocation_id"].as_str().unwrap().to_owned();
            }
            assert!(began.elapsed() < std::time::Duration::from_secs(20), "{shown:#}");
        }
    };
    let start = || owner.run(&["automation", "run", &id]).ok().stdout.trim().to_owned();
    let first = start();
    let invocation = waiting(&first);
    owner.run(&["approve", &invocation]).ok();
    owner.run(&["run", "watch", &first]).ok();
    let second = start();
    waiting(&second);
    owner.run(&["run", "cancel", &second]).ok();
    owner.run(&["run", "watch", &second]).exits(7);
}

#[test]
fn triggers_and_the_status_say_what_fires() {
    let server = Server::start();
    let owner = server.owner();
    let id = applied(&server, &owner);
    let listed = owner.run(&["trigger", "list", "Tidy"]).ok();
    assert!(listed.stdout.contains("hook") && listed.stdout.contains("at 09:00 on weekdays"), "{listed:?}");
    let disabled = owner.run(&["trigger", "disable", "Tidy", "daily", "--json"]).ok().json();
    assert_eq!(disabled["enabled"], false);
    owner.run(&["trigger", "enable", "Tidy", "daily"]).ok();
    owner.run(&["trigger", "enable", "Tidy", "nope"]).exits(3);
    let rotated = owner.run(&["trigger", "rotate-token", "Tidy", "hook", "--keep-old", "--json"]).ok().json();
    assert!(rotated["token"].as_str().unwrap().starts_with("cs_hook_"), "{rotated:#}");
    assert_eq!(owner.run(&["automation", "pause", "Tidy", "--json"]).ok().json()["status"], "paused");
    assert_eq!(owner.run(&["automation", "resume", "Tidy", "--json"]).ok().json()["status"], "active");
    owner.run(&["automation", "archive", "Tidy", "--yes"]).ok();
    owner.run(&["automation", "run", &id]).exits(7);
}

#[test]
fn what_a_service_applies_is_a_draft_that_a_person_saves() {
    let server = Server::start();
    let owner = server.owner();
    let made = owner.run(&["token", "create", "ci", "--scope", "invoke", "--json"]).ok().json();
    let service = owner.with_token(made["token"].as_str().unwrap());
    let file = written(&server, "tidy.json", &tidy().to_string());
    let proposed = service.run(&["automation", "apply", "-f", &file, "--json"]).ok().json();
    let draft = proposed["draft"]["id"].as_str().unwrap();
    assert_eq!(proposed["automation"], Value::Null);
    service.run(&["automation", "draft", "save", draft, "--accept", "/plan/0/action"]).exits(5);
    let shown = owner.run(&["automation", "draft", "show", draft]).ok();
    assert!(shown.stderr.contains("no_on_failure"), "{shown:?}");
    owner.run(&["automation", "draft", "save", draft]).exits(8);
    let flags = owner.run(&["automation", "draft", "show", draft, "--json"]).ok().json()["flags"].clone();
    let places: Vec<_> = flags.as_array().unwrap().iter().map(|flag| flag["pointer"].as_str().unwrap()).collect();
    let accepting = |places: &[&str]| {
        let mut words = vec!["automation", "draft", "save", draft];
        words.extend(places.iter().flat_map(|place| ["--accept", *place]));
        owner.run(&words)
    };
    let unread = places.last().unwrap();
    let most: Vec<_> = places.iter().copied().filter(|place| place != unread).collect();
    let left = accepting(&most);
    assert!(left.stderr.contains(unread) && !most.iter().any(|place| left.stderr.contains(place)), "{left:?}");
    left.exits(8);
    accepting(&places).ok();
    assert_eq!(owner.run(&["automation", "draft", "list", "--json"]).ok().json()["items"], json!([]));
    owner.run(&["automation", "archive", "Tidy", "--yes"]).ok();
    let imported = owner.run(&["automation", "import", "-f", &file, "--json"]).ok().json();
    owner.run(&["automation", "draft", "drop", imported["id"].as_str().unwrap(), "--yes"]).ok();
}

#[test]
fn the_example_of_the_guide_runs_and_says_how_many_files_there_are() {
    let server = Server::start();
    let owner = server.owner();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/automations/morning-note.json");
    let saved = owner.run(&["automation", "apply", "-f", file, "--json"]).ok().json();
    let id = saved["automation"]["id"].as_str().unwrap();
    owner.run(&["mode", "set", "notify.send", "allow", "--automation", id]).ok();
    std::fs::write(server.workspace().join("a.txt"), "a").unwrap();
    owner.run(&["automation", "run", "Morning note", "greeting=Hello", "--follow"]).ok();
    let told = owner.run(&["notification", "list", "--json"]).ok().json();
    let told = &told["items"][0];
    assert_eq!((&told["title"], &told["body"]), (&json!("Hello"), &json!("Files in the workspace: 1")), "{told:#}");
}
