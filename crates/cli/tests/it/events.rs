//! Tests `event`: events are published, followed, carried elsewhere and given out again.

use crate::countersign::Server;
use serde_json::{Value, json};

#[test]
fn an_event_is_published_followed_and_shown() {
    let server = Server::start();
    let owner = server.owner();
    let publish =
        ["event", "publish", "drive.file_added", "--subject", "a.pdf", "--data", r#"{"size":3}"#, "--id", "a", "--source", "/drive"];
    let said = owner.run(&publish).ok();
    assert!(said.stderr.contains("published") && said.stderr.contains("countersign event show"), "{said:?}");
    assert!(said.stderr.contains("without --space it starts no automation"), "{said:?}");
    let again = owner.run(&[&publish[..], &["--json"]].concat()).ok().json();
    assert_eq!(again["events"][0]["known"], true, "{again}");
    owner.run(&["event", "publish", "drive.file_added"]).ok();
    let shown = owner.run(&["event", "show", "a", "--json"]).ok().json();
    assert_eq!((&shown["subject"], &shown["data"]), (&json!("a.pdf"), &json!({ "size": 3 })));
    let tail = owner.run(&["event", "tail", "--type", "drive", "--after", "0", "--limit", "2"]).ok();
    assert!(tail.stdout.lines().count() == 2 && tail.stdout.contains("drive.file_added  a.pdf"), "{tail:?}");
    // The other one has no subject.
    let in_space = owner.run(&["event", "publish", "drive.file_removed", "--subject", "a.pdf", "--space", "main"]).ok();
    assert!(!in_space.stderr.contains("starts no automation"), "{in_space:?}");
    let about = owner.run(&["event", "tail", "--subject", "a.pdf", "--after", "0", "--limit", "2"]).ok();
    let names: Vec<_> = about.stdout.split_whitespace().filter(|word| word.starts_with("drive.")).collect();
    assert_eq!(names, ["drive.file_added", "drive.file_removed"], "{about:?}");
    let line = owner.run(&["event", "tail", "--after", "0", "--limit", "1", "--json"]).ok().stdout;
    assert_eq!(serde_json::from_str::<Value>(line.trim()).unwrap()["cursor"], "1");
    let ours = owner.run(&["event", "publish", "invocation.succeeded"]).exits(8);
    assert!(ours.stderr.contains("only the server publishes"), "{ours:?}");
    owner.run(&["event", "publish", "x.y", "--data", "{"]).exits(2);
    owner.run(&["event", "show", "absent"]).exits(3);
    let unsent = owner.run(&["event", "publish", "x.y", "--dry-run"]);
    assert!(format!("{unsent:?}").contains("/api/v1/events"), "{unsent:?}");
}

#[test]
fn events_are_exported_and_imported_once() {
    let (one, other) = (Server::start(), Server::start());
    let (from, to) = (one.owner(), other.owner());
    for id in ["a", "b", "c"] {
        from.run(&["event", "publish", "drive.file_added", "--id", id, "--source", "/drive"]).ok();
    }
    from.run(&["event", "export", "events.jsonl"]).ok();
    let file = std::fs::read_to_string(from.folder().join("events.jsonl")).unwrap();
    let positions: Vec<_> = file.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["cursor"].clone()).collect();
    assert_eq!(positions[0], "1", "the oldest first");
    let piped = from.run(&["event", "export", "-", "--type", "drive"]).ok().stdout;
    assert_eq!(piped.lines().count(), 3);
    std::fs::write(to.folder().join("events.jsonl"), &file).unwrap();
    let imported = to.run(&["event", "import", "events.jsonl", "--json"]).ok().json();
    let ours = positions.len() - 3;
    assert_eq!(imported, json!({ "published": 3, "known": 0, "skipped": ours }), "what only the server publishes is left out");
    let again = to.run_with_stdin(&["event", "import", "-", "--json"], &piped).ok().json();
    assert_eq!(again, json!({ "published": 0, "known": 3, "skipped": 0 }));
    assert_eq!(to.run(&["event", "show", "b", "--json"]).ok().json()["source"], "/drive", "the ids are kept");
    to.run_with_stdin(&["event", "import", "-"], "{").exits(2);
}

#[test]
fn groups_and_dead_letters_are_managed() {
    let server = Server::start();
    let owner = server.owner();
    let ours = owner.run(&["event", "group", "list"]).ok();
    assert!(ours.stdout.starts_with("automations\t"), "{ours:?}");
    owner.run(&["event", "group", "create", "billing", "--start", "earliest"]).ok();
    let listed = owner.run(&["event", "group", "list", "--json"]).ok().json();
    assert_eq!((&listed["items"][1]["name"], &listed["items"][1]["cursor"]), (&json!("billing"), &json!(1)));
    let replayed = owner.run(&["event", "replay", "billing", "--from", "1"]).ok();
    assert!(replayed.stderr.contains("delivered once more"), "{replayed:?}");
    owner.run(&["event", "replay", "billing"]).exits(2);
    owner.run(&["event", "replay", "absent", "--dlq"]).exits(3);
    let reset = owner.run(&["event", "group", "reset", "billing", "--to", "now", "--yes", "--json"]).ok().json();
    assert_eq!(reset["behind"], 0, "{reset}");
    let none = owner.run(&["event", "dlq", "list"]).ok();
    assert!(none.stderr.contains("nothing was given up"), "{none:?}");
    for command in ["show", "retry"] {
        owner.run(&["event", "dlq", command, "dlt_absent"]).exits(3);
    }
    owner.run(&["event", "dlq", "drop", "dlt_absent", "--yes"]).exits(3);
    owner.run(&["event", "group", "remove", "billing", "--yes"]).ok();
    owner.run(&["event", "group", "reset", "billing", "--to", "now", "--yes"]).exits(3);
}
