//! Tests the whole way from a first call to a record that anybody can verify.

use crate::countersign::Server;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

const WRITE: [&str; 5] = ["action", "invoke", "files.write_text", "path=hello.txt", "text=hello\nworld\n"];

#[test]
fn a_write_waits_runs_once_approved_and_leaves_a_record_that_verifies_offline() {
    let server = Server::start_binary();
    let (agent, person) = (server.owner().with_binary(), server.owner().with_binary());

    // The call is pending, and the agent sees how it can be approved.
    let waiting = agent.start_waiting(&WRITE);
    let id = waiting.id.clone();
    assert!(waiting.told.contains(&format!("waiting for approval: {id} (countersign approve {id}), expires in ")), "{}", waiting.told);
    assert!(!server.workspace().join("hello.txt").exists());

    // The person sees exactly what the call would do.
    assert_eq!(person.run(&["inbox", "-o", "name"]).ok().stdout, format!("{id}\n"));
    let card = person.run(&["show", &id]).ok().stdout;
    for part in
        ["◷ pending", "\"hello.txt\"", "│ hello", "│ world", "Decision", "inferred from the tier: require_approval", "Approval covers"]
    {
        assert!(card.contains(part), "`{part}` is missing:\n{card}");
    }

    // The person approves, and the call runs.
    let approved = person.run(&["approve", &id, "--json"]).ok().json();
    assert_eq!(approved["invocation"]["status"], "succeeded");
    let ended = waiting.end().ok();
    assert_eq!(ended.json()["bytes_written"], 12);
    assert!(ended.stderr.contains("✓ succeeded files.write_text"), "{}", ended.stderr);
    assert_eq!(std::fs::read_to_string(server.workspace().join("hello.txt")).unwrap(), "hello\nworld\n");
    assert_eq!(person.run(&["inbox"]).ok().stdout, "");

    // The receipt says why the call ran, and is in the log.
    let receipt = approved["invocation"]["receipt"]["id"].as_str().unwrap().to_owned();
    let explained = person.run(&["explain", &id]).ok().stdout;
    assert!(explained.contains(&format!("receipt\t{receipt} at #")), "{explained}");
    let proved = person.run(&["receipt", "prove", &id]).ok().stdout;
    assert_eq!(proved.lines().count(), 5, "{proved}");
    let verified = person.run(&["receipt", "verify", "--json"]).ok().json();
    assert_eq!((&verified["ok"], &verified["key_from"]), (&json!(true), &json!("server")));

    // The export verifies without a server, with the key alone.
    person.run(&["receipt", "export", "receipts.jsonl"]).ok();
    person.run(&["receipt", "key", "--out", "receipt.pem"]).ok();
    let offline = person.without_token().with_variable("COUNTERSIGN_URL", &crate::fake::nobody());
    let verified = offline.run(&["receipt", "verify", "receipts.jsonl", "--key", "receipt.pem"]).ok();
    assert!(verified.stdout.contains("verdict\tverified"), "{verified:#?}");

    // A changed copy does not verify, and the error names the receipt.
    let bundle = std::fs::read_to_string(person.folder().join("receipts.jsonl")).unwrap();
    std::fs::write(person.folder().join("tampered.jsonl"), tampered(&bundle, &receipt)).unwrap();
    let refused = offline.run(&["receipt", "verify", "tampered.jsonl", "--key", "receipt.pem"]).exits(1);
    assert!(refused.stderr.starts_with(&format!("error: receipt `{receipt}` (entry #")), "{}", refused.stderr);
    assert_eq!(refused.stdout, "");
    let report = offline.run(&["receipt", "verify", "tampered.jsonl", "--key", "receipt.pem", "--json"]).exits(1).json();
    assert_eq!((&report["ok"], &report["first_bad"]["receipt_id"]), (&json!(false), &json!(receipt)));
}

#[test]
fn a_no_reaches_whoever_asked_and_nothing_runs() {
    let server = Server::start();
    let waiting = server.owner().start_waiting(&WRITE);
    server.owner().run(&["deny", &waiting.id, "--reason", "wrong folder"]).ok();
    let ended = waiting.end().exits(5);
    assert!(ended.stderr.contains("wrong folder"), "{}", ended.stderr);
    assert_eq!(ended.stdout, "");
    assert!(!server.workspace().join("hello.txt").exists());
}

#[test]
fn an_agent_acts_in_its_own_session_and_cannot_answer_for_a_person() {
    let server = Server::start_binary();
    let owner = server.owner().with_binary();
    let created = owner.run(&["session", "create", "--title", "triage", "--unattended", "--json"]).ok().json();
    let session = created["id"].as_str().unwrap();
    let agent = owner.with_token(created["token"].as_str().unwrap());

    let whoami = agent.run(&["whoami", "--json"]).ok().json();
    assert_eq!(whoami["session_id"], session);
    assert!(agent.run(&["action", "list", "-o", "name"]).ok().stdout.contains("files.write_text\n"));
    agent.run(&["action", "invoke", "files.list"]).ok();

    let pending = agent.run(&["action", "invoke", "files.write_text", "path=a", "text=b", "--no-wait"]).exits(6);
    let id = pending.stdout.trim();
    assert!(id.starts_with("inv_"), "{pending:#?}");
    assert_eq!(agent.run(&["show", id, "--json=status,session_id"]).ok().json(), json!({ "status": "pending", "session_id": session }));
    assert_eq!(agent.run(&["approve", id, "--json"]).exits(5).error()["code"], "may_not_approve");
    owner.run(&["approve", id]).ok();
    assert_eq!(agent.run(&["show", id, "--json=status"]).ok().json(), json!({ "status": "succeeded" }));
}

#[test]
fn a_person_asks_in_one_session_of_their_own() {
    let server = Server::start();
    let owner = server.owner();
    owner.run(&["action", "invoke", "files.list"]).ok();
    owner.run(&["action", "invoke", "files.list"]).ok();
    let sessions = owner.run(&["session", "list", "--json=title"]).ok().json();
    assert_eq!(sessions["items"], json!([{ "title": "cli" }]));
}

#[test]
fn params_come_from_words_a_file_or_stdin() {
    let server = Server::start();
    let owner = server.owner().with_binary();
    owner.run(&["mode", "set", "files.write_text", "allow"]).ok();
    std::fs::write(owner.folder().join("call.json"), r#"{"path": "from-file", "text": "1"}"#).unwrap();
    owner.run(&["action", "invoke", "files.write_text", "--params", "@call.json"]).ok();
    owner.run_with_stdin(&["action", "invoke", "files.write_text", "--params", "-"], r#"{"path": "from-stdin", "text": "2"}"#).ok();
    owner.run(&["action", "invoke", "files.write_text", "path=from-words", "text:=\"3\""]).ok();
    let listed = owner.run(&["action", "invoke", "files.list", "recursive:=true"]).ok().json();
    let paths: Vec<_> = listed["entries"].as_array().unwrap().iter().map(|entry| entry["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["from-file", "from-stdin", "from-words"]);
}

#[test]
fn a_dry_run_changes_nothing_and_a_key_has_one_effect() {
    let server = Server::start();
    let owner = server.owner();
    owner.run(&["mode", "set", "files.write_text", "allow"]).ok();
    let dry = owner.run(&["action", "invoke", "files.write_text", "path=a", "text=b", "--dry-run"]).ok();
    assert!(dry.stderr.contains("✓ dry run: nothing was done"), "{}", dry.stderr);
    assert!(!server.workspace().join("a").exists());

    let call = ["action", "invoke", "files.write_text", "path=a", "text=b", "--idempotency-key", "order-812", "--json"];
    let first = owner.run(&call).ok().json();
    let second = owner.run(&call).ok().json();
    assert_eq!((&first["replayed"], &second["replayed"]), (&json!(false), &json!(true)));
    assert_eq!(first["invocation"]["id"], second["invocation"]["id"]);
}

/// The export with the status of one receipt changed and everything else unchanged.
fn tampered(bundle: &str, receipt: &str) -> String {
    let edit = |line: &str| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        let Some(payload) = line["envelope"]["payload"].as_str() else { return line.to_string() };
        let text = String::from_utf8(STANDARD.decode(payload).unwrap()).unwrap();
        if text.contains(receipt) {
            assert!(text.contains("\"status\":\"succeeded\""));
            line["envelope"]["payload"] = json!(STANDARD.encode(text.replace("\"status\":\"succeeded\"", "\"status\":\"reverted\"")));
        }
        line.to_string()
    };
    let edited = bundle.lines().map(|line| edit(line) + "\n").collect::<String>();
    assert_ne!(edited, bundle);
    edited
}
