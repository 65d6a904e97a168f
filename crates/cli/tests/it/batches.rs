//! Tests batches as a person and a script see them, with real files.

use crate::countersign::Server;
use serde_json::{Value, json};

fn write(path: &str, text: &str) -> Value {
    json!({ "action": "files.write_text", "params": { "path": path, "text": text } })
}

/// Writes a file with these actions, and returns its path.
fn listed(server: &Server, actions: &Value) -> String {
    let file = server.data().join("batch.json");
    std::fs::write(&file, actions.to_string()).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn a_mode_is_taken_as_the_flag_is_written_and_as_the_request_is() {
    let server = Server::start();
    let owner = server.owner();
    let list = json!([{ "action": "files.list" }]);
    let file = listed(&server, &list);
    for (mode, taken) in [
        ("best-effort", "best_effort"),
        ("best_effort", "best_effort"),
        ("all-or-nothing", "all_or_nothing"),
        ("all_or_nothing", "all_or_nothing"),
    ] {
        assert_eq!(owner.run(&["batch", "run", &file, "--mode", mode, "--json"]).ok().json()["mode"], taken);
        let whole = listed(&server, &json!({ "mode": mode, "actions": list }));
        assert_eq!(owner.run(&["batch", "run", &whole, "--json"]).ok().json()["mode"], taken);
    }
    let unknown = owner.run(&["batch", "run", &file, "--mode", "best"]).exits(2);
    assert!(unknown.stderr.contains("all-or-nothing") && unknown.stderr.contains("best-effort"), "{unknown:?}");
}

#[test]
fn what_fails_leaves_the_workspace_as_it_was() {
    let server = Server::start();
    let owner = server.owner();
    owner.run(&["mode", "set", "files.write_text", "allow"]).ok();
    owner.run(&["action", "invoke", "files.write_text", "path=a.txt", "text=before"]).ok();
    let read = json!({ "action": "files.read_text", "params": { "path": "nope.txt" } });
    let file = listed(&server, &json!([write("a.txt", "after"), write("new/b.txt", "b"), read, write("c.txt", "c")]));
    let reverted = owner.run(&["batch", "run", &file]).exits(1);
    assert!(reverted.stderr.contains("the others were reverted") && reverted.stderr.contains("part 3: file_not_found"), "{reverted:?}");
    assert!(reverted.stdout.contains("reverted") && reverted.stdout.contains("not_started"), "{reverted:?}");
    let workspace = server.data().join("workspace");
    assert_eq!(std::fs::read_to_string(workspace.join("a.txt")).unwrap(), "before");
    assert!(!workspace.join("new").exists() && !workspace.join("c.txt").exists());
    let rehearsed = owner.run(&["batch", "run", &file, "--dry-run", "--json"]);
    assert_eq!((&rehearsed.json()["dry_run"], &rehearsed.json()["parts"][0]["effect"]), (&json!(true), &json!("none")));
    let partial = owner.run(&["batch", "run", &file, "--mode", "best-effort", "--json"]).exits(1).json();
    assert_eq!((&partial["status"], &partial["parts"][3]["status"]), (&json!("partial"), &json!("succeeded")));
    assert_eq!(std::fs::read_to_string(workspace.join("a.txt")).unwrap(), "after");
    let listed = owner.run(&["batch", "list", "--json"]).ok().json();
    assert_eq!(listed["items"].as_array().unwrap().len(), 3);
    let shown = owner.run(&["batch", "show", partial["id"].as_str().unwrap()]).ok();
    assert!(shown.stderr.contains("some parts succeeded"), "{shown:?}");
    let verified = owner.run(&["receipt", "verify", "--json"]).ok().json();
    assert_eq!(verified["batches"], 3);
}

#[test]
fn nothing_is_written_before_everybody_has_answered() {
    let server = Server::start();
    let owner = server.owner();
    let file = listed(&server, &json!([write("a.txt", "a"), write("b.txt", "b")]));
    let waiting = owner.run(&["batch", "run", &file, "--no-wait", "--reason", "spring cleaning"]).exits(6);
    let batch = waiting.stdout.trim().to_owned();
    assert!(batch.starts_with("bat_"), "{waiting:?}");
    let parts = owner.run(&["batch", "show", &batch, "--json"]).ok().json();
    let ids: Vec<_> = parts["parts"].as_array().unwrap().iter().map(|part| part["invocation_id"].as_str().unwrap().to_owned()).collect();
    let card = owner.run(&["show", &ids[0]]).ok().stdout;
    assert!(card.contains("Part of") && card.contains("1 of 2") && card.contains("spring cleaning"), "{card}");
    owner.run(&["approve", &ids[1]]);
    assert!(!server.data().join("workspace/b.txt").exists());
    owner.run(&["approve", &ids[0]]).ok();
    assert_eq!(std::fs::read_to_string(server.data().join("workspace/b.txt")).unwrap(), "b");
    assert_eq!(owner.run(&["batch", "show", &batch, "--json"]).ok().json()["status"], "succeeded");
    // A denial ends the batch, and the exit code says so.
    let waiting = owner.run(&["batch", "run", &file, "--no-wait", "--json"]).exits(6).json();
    owner.run(&["deny", waiting["parts"][0]["invocation_id"].as_str().unwrap(), "--reason", "no"]);
    let shown = owner.run(&["batch", "show", waiting["id"].as_str().unwrap(), "--json"]).ok().json();
    assert_eq!((&shown["status"], &shown["parts"][1]["status"]), (&json!("denied"), &json!("cancelled")));
    owner.run(&["receipt", "verify"]).ok();
}

#[test]
fn whoever_answers_the_last_part_is_told_what_became_of_the_whole() {
    let server = Server::start();
    let owner = server.owner();
    let missing = json!({ "action": "files.read_text", "params": { "path": "nope.txt" } });
    let stale = json!({ "action": "files.write_text", "params": { "path": "b.txt", "text": "b", "expected_sha256": "0".repeat(64) } });
    for (parts, asked, failed) in [
        // Another part fails, so this one is cancelled.
        ([write("a.txt", "a"), missing, write("b.txt", "b")], [0, 2], "part 2: file_not_found: "),
        // This part fails, so the parts before it are reverted.
        ([write("a.txt", "a"), json!({ "action": "files.list" }), stale], [0, 2], "part 3: content_changed: "),
    ] {
        let file = listed(&server, &json!(parts));
        let waiting = owner.run(&["batch", "run", &file, "--no-wait", "--json"]).exits(6).json();
        let (batch, id) = (waiting["id"].as_str().unwrap(), |part: usize| waiting["parts"][part]["invocation_id"].as_str().unwrap());
        let first = owner.run(&["approve", id(asked[0])]).ok();
        assert!(first.stderr.contains(&format!("◷ pending {batch} · it needs approval first")), "{first:?}");
        let last = owner.run(&["approve", id(asked[1])]).exits(1);
        let cause = format!("cause: {batch} is reverted: a part failed, and the others were reverted; {failed}");
        let hint = format!("hint: countersign batch show {batch}\n");
        assert!(last.stderr.contains(&cause) && last.stderr.contains(&hint), "{last:?}");
        assert!(!server.workspace().join("a.txt").exists());
    }
    // A part that was cancelled names the part that failed.
    let called_off = owner.run(&["invocation", "list", "--status", "cancelled", "--json"]).ok().json();
    let message = called_off["items"][0]["error"]["message"].as_str().unwrap();
    assert!(
        message.starts_with("part 2 of `bat_") && message.ends_with("`files.read_text`, did not succeed; nothing was done by this part"),
        "{message}"
    );
    // All parts are approved at once, and the batch succeeds.
    let file = listed(&server, &json!([write("a.txt", "a"), write("b.txt", "b")]));
    let waiting = owner.run(&["batch", "run", &file, "--no-wait", "--json"]).exits(6).json();
    let ids: Vec<_> = waiting["parts"].as_array().unwrap().iter().map(|part| part["invocation_id"].as_str().unwrap()).collect();
    let both = owner.run(&["approve", ids[0], ids[1], "--yes"]).ok();
    let batch = waiting["id"].as_str().unwrap();
    assert_eq!(both.stderr.matches(&format!("✓ succeeded {batch} · every part succeeded")).count(), 1, "{both:?}");
    assert!(both.stderr.contains(&format!("next: countersign batch show {batch}")), "{both:?}");
}

#[test]
fn what_is_no_batch_is_refused_with_what_to_do() {
    let server = Server::start();
    let owner = server.owner();
    let file = server.data().join("batch.json");
    let file = file.to_str().unwrap();
    for (text, code, told) in [
        ("{", 2, vec![format!("`{file}` is not JSON we accept"), "line 1 column 1".to_owned()]),
        ("3", 2, vec![format!("`{file}` is not a batch"), "expected an object at line 1 column 1".to_owned()]),
        ("[\n{\"params\": {}}]", 2, vec!["missing field `action` at line 2 column 14".to_owned(), "hint: such as [{".to_owned()]),
        (r#"{"mode": "some", "actions": []}"#, 2, vec![format!("`{file}` is not a batch")]),
        ("[]", 8, vec!["it must have 1 to 50 parts".to_owned(), "hint: a batch is a `mode` and 1 to 50 `actions`".to_owned()]),
        (r#"[{"action": "?"}]"#, 8, vec!["`?` is not an action".to_owned(), "hint: list what you may call".to_owned()]),
        (
            r#"[{"action": "http.request"}, {"action": "files.list"}]"#,
            8,
            vec!["`http.request` cannot be reverted".to_owned(), "hint: put it last".to_owned()],
        ),
    ] {
        std::fs::write(file, text).unwrap();
        let refused = owner.run(&["batch", "run", file]);
        assert!(told.iter().all(|told| refused.stderr.contains(told)) && refused.code == code, "{text}: {refused:?}");
        assert!(!refused.stderr.contains("params are"), "{refused:?}");
    }
    let piped = owner.run_with_stdin(&["batch", "run", "-"], "{").exits(2);
    assert!(piped.stderr.contains("stdin is not JSON we accept"), "{piped:?}");
    let missing = owner.run(&["batch", "run", "nowhere.json"]);
    assert!(missing.code != 0 && missing.stderr.contains("nowhere.json"), "{missing:?}");
    owner.run(&["batch", "show", "bat_nothing"]).exits(3);
}
