//! Tests `artifact` against a real server: what a step of a run made is listed, shown and saved. Its bytes are in the data folder.

use crate::countersign::{Server, files};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;

#[test]
fn what_a_run_made_is_listed_shown_and_saved() {
    let server = Server::start();
    let owner = server.owner();
    let text = "one of many lines\n".repeat(10_000);
    std::fs::write(server.workspace().join("long.txt"), &text).unwrap();
    let step = json!({ "step_id": "read", "action": "files.read_text", "config": { "path": "long.txt" } });
    let file = server.data().join("definition.json");
    std::fs::write(&file, json!({ "schema_version": "1.0", "name": "Read", "plan": [step] }).to_string()).unwrap();
    owner.run(&["automation", "apply", "-f", file.to_str().unwrap()]).ok();
    owner.run(&["automation", "run", "Read", "--follow"]).ok();

    let run = owner.run(&["run", "list", "--automation", "Read", "-o", "name"]).ok().stdout.trim().to_owned();
    let listed = owner.run(&["artifact", "list", "--run", &run, "--json"]).ok().json();
    let artifact = listed["items"][0]["id"].as_str().unwrap_or_else(|| panic!("it made nothing: {listed:#}")).to_owned();
    let shown = owner.run(&["run", "show", &run, "--json"]).ok().json();
    assert_eq!(shown["output"], json!({ "artifact_id": artifact }));
    let told = owner.run(&["artifact", "show", &artifact]).ok();
    assert!(told.stdout.contains("read.json") && told.stdout.contains(&run), "{told:?}");

    // Saved under its own name, which replaces nothing; or wherever one says.
    let folder = tempfile::tempdir().unwrap();
    let owner = owner.standing_in(folder.path());
    owner.run(&["artifact", "download", &artifact]).ok();
    let saved: Value = serde_json::from_slice(&std::fs::read(folder.path().join("read.json")).unwrap()).unwrap();
    assert_eq!(saved["text"], json!(text));
    let again = owner.run(&["artifact", "download", &artifact]).exits(2);
    assert!(again.stderr.contains("`read.json` is there already"), "{again:?}");
    assert_eq!(owner.run(&["artifact", "download", &artifact, "--out", "-"]).ok().json(), saved);

    let place = server.data().join("artifacts");
    assert_eq!(std::fs::metadata(&place).unwrap().permissions().mode() & 0o777, 0o700);
    let kept = files(&place);
    assert!(kept.len() == 1 && kept[0].ends_with(&artifact), "{kept:?}");

    // Whoever takes it away from everybody is asked first.
    let unasked = owner.run(&["artifact", "quarantine", &artifact]).exits(2);
    assert!(unasked.stderr.contains("add --yes"), "{unasked:?}");
    let taken = owner.run(&["artifact", "quarantine", &artifact, "--yes", "--json"]).ok().json();
    assert!(taken["quarantined_at"].is_string(), "{taken:#}");
    owner.run(&["artifact", "download", &artifact, "--out", "-"]).exits(7);
}
