//! Tests reverting the effect of a call, and what the user is told about calls in doubt.

use crate::countersign::Server;
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

#[test]
fn what_a_write_did_is_taken_back_by_a_call_of_its_own() {
    let server = Server::start();
    let owner = server.owner();
    owner.run(&["mode", "set", "files.write_text", "allow"]).ok();
    let file = server.data().join("workspace/deep/note.txt");
    owner.run(&["action", "invoke", "files.write_text", "path=deep/note.txt", "text=first"]).ok();
    owner.run(&["action", "invoke", "files.write_text", "path=deep/note.txt", "text=second"]).ok();
    let listed = owner.run(&["invocation", "list", "--json"]).ok().json();
    let ids: Vec<_> = listed["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect();
    let (second, first) = (&ids[0], &ids[1]);
    let shown = owner.run(&["show", second]).ok().stdout;
    assert!(shown.contains("Checks") && shown.contains("read_back ✓"), "{shown}");
    // A file that was changed after the call is not overwritten.
    let refused = owner.run(&["invocation", "revert", first, "--yes"]);
    assert!(refused.code != 0 && refused.stderr.contains("`deep/note.txt` was changed after the call"), "{refused:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "second");
    let asked = owner.run(&["invocation", "revert", second]).exits(2);
    assert!(asked.stderr.contains("Revert what `files.write_text` did?"), "{}", asked.stderr);
    owner.run(&["invocation", "revert", second, "--reason", "a mistake", "--yes"]).ok();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "first");
    let newest = owner.run(&["invocation", "list", "--json"]).ok().json();
    let revert = newest["items"][0]["id"].as_str().unwrap().to_owned();
    // The call and its revert name each other, and both list the changed files.
    let shown = owner.run(&["show", second]).ok().stdout;
    assert!(shown.contains(&format!("Reverted by       {revert}")) && shown.contains("~ changed deep/note.txt"), "{shown}");
    let shown = owner.run(&["show", &revert]).ok().stdout;
    assert!(shown.contains(&format!("Reverts           {second}")) && shown.contains("Restored          ~ changed"), "{shown}");
    assert_eq!(owner.run(&["show", second, "--json=reverted_by"]).ok().json()["reverted_by"], json!(revert));
    let listed = owner.run(&["invocation", "list", "-o", "table"]).ok().stdout;
    let line = |id: &str| listed.lines().find(|line| line.contains(id)).unwrap_or_default().to_owned();
    assert!(line(second).contains("succeeded, reverted") && !line(first).contains("reverted"), "{listed}");
    // An effect is reverted only once. A second attempt names the revert.
    let again = owner.run(&["invocation", "revert", second, "--yes"]).exits(7);
    assert!(again.stderr.contains("was already reverted") && again.stderr.contains(&revert), "{again:?}");
    let again = owner.run(&["invocation", "revert", second, "--yes", "--json"]).exits(7).error();
    assert_eq!((&again["code"], &again["invocation_id"]), (&json!("already_reverted"), &json!(second)));
    owner.run(&["invocation", "revert", first, "--yes"]).ok();
    assert!(!file.exists() && !server.data().join("workspace/deep").exists(), "the folder it made is gone too");
    owner.run(&["receipt", "verify"]).ok();
}

#[test]
fn taking_back_is_waited_for_as_any_call_is() {
    let server = Server::start();
    let owner = server.owner();
    owner.run(&["mode", "set", "files.write_text", "allow"]).ok();
    let done = owner.run(&["action", "invoke", "files.write_text", "path=a.txt", "text=x", "--json"]).ok().json();
    let id = done["invocation"]["id"].as_str().unwrap().to_owned();
    owner.run(&["mode", "set", "files.write_text", "require_approval"]).ok();
    // A caller who does not wait gets the id. A caller who gives up is told that the revert is still pending.
    let held = owner.run(&["invocation", "revert", &id, "--yes", "--no-wait"]).exits(6);
    let revert = held.stdout.trim().to_owned();
    assert!(revert.starts_with("inv_") && held.stderr.contains("waiting for approval"), "{held:?}");
    let card = owner.run(&["show", &revert]).ok().stdout;
    assert!(card.contains("Would change\n  − would remove  a.txt") && card.contains(&format!("Reverts           {id}")), "{card}");
    let given_up = owner.run(&["invocation", "revert", &id, "--yes", "--wait", "0s"]).exits(6);
    assert_eq!(given_up.stdout.trim(), revert, "it is the same revert that waits");
    let waiting = owner.start_waiting(&["invocation", "revert", &id, "--yes"]);
    assert_eq!(waiting.id, revert);
    owner.run(&["approve", &revert]).ok();
    let ended = waiting.end().ok();
    assert!(ended.stderr.contains("✓ succeeded files.write_text"), "{ended:?}");
    assert!(!server.workspace().join("a.txt").exists());
    // A denied revert fails, with the exit code of a denial.
    let done = owner.run(&["action", "invoke", "files.write_text", "path=b.txt", "text=x", "--no-wait"]).exits(6);
    owner.run(&["approve", done.stdout.trim()]).ok();
    let waiting = owner.start_waiting(&["invocation", "revert", done.stdout.trim(), "--yes"]);
    owner.run(&["deny", &waiting.id, "--reason", "keep it"]).ok();
    let refused = waiting.end().exits(5);
    assert!(refused.stderr.contains("keep it"), "{refused:?}");
    assert!(server.workspace().join("b.txt").exists());
}

#[test]
fn what_a_call_may_touch_is_bounded_by_who_makes_it() {
    let server = Server::start();
    let owner = server.owner();
    owner.run(&["mode", "set", "files.write_text", "allow"]).ok();
    let write =
        |path: &str| owner.run(&["action", "invoke", "files.write_text", path, "text=x", "--within", "src", "--except", "src/secret"]);
    write("path=src/a.txt").ok();
    for path in ["path=a.txt", "path=src/secret", "path=src/secret/deep.txt"] {
        let refused = write(path);
        assert!(refused.code != 0 && refused.stderr.contains("lies outside the scope of the call"), "{refused:?}");
    }
    assert!(!server.data().join("workspace/a.txt").exists() && !server.data().join("workspace/src/secret").exists());
}

/// An address that reads a request and closes the connection, so that it is not known whether the request had an effect.
fn hanging_up() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    // The thread ends with the test's process; nothing joins it.
    std::thread::spawn(move || {
        for connection in listener.incoming().map_while(Result::ok) {
            let mut some = [0; 1024];
            let _read = (&connection).read(&mut some);
        }
    });
    url
}

/// Like `hanging_up`, but answers a request whose idempotency key it has seen before.
fn hanging_up_once() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let requests = Arc::clone(&seen);
    std::thread::spawn(move || {
        for mut connection in listener.incoming().map_while(Result::ok) {
            let mut some = [0; 4096];
            let read = connection.read(&mut some).unwrap_or_default();
            let request = String::from_utf8_lossy(&some[..read]).to_lowercase();
            let key = request.lines().find_map(|line| line.strip_prefix("idempotency-key: ")).unwrap_or("none").to_owned();
            let mut requests = requests.lock().unwrap();
            if requests.contains(&key) {
                let _sent = connection.write_all(b"HTTP/1.1 201 Created\r\ncontent-length: 4\r\n\r\nmade");
            }
            requests.push(key);
        }
    });
    (url, seen)
}

#[test]
fn a_request_whose_answer_was_lost_is_asked_for_again_under_its_key() {
    let (upstream, seen) = hanging_up_once();
    let server = Server::start_with(&[("COUNTERSIGN_HTTP_ALLOWED_HOSTS", &upstream), ("COUNTERSIGN_HTTP_ALLOWED_NETWORKS", "127.0.0.0/8")]);
    let owner = server.owner();
    owner.run(&["mode", "set", "http.request", "allow"]).ok();
    owner.run(&["consent", "give", "http.request"]).ok();
    let call = json!({ "method": "POST", "url": upstream, "headers": { "idempotency-key": "order-7" }, "body": "tea" }).to_string();
    let done = owner.run(&["action", "invoke", "http.request", "--params", &call, "--json"]).ok().json();
    assert_eq!((&done["result"]["status"], &done["result"]["body"]), (&json!(201), &json!("made")));
    assert_eq!(*seen.lock().unwrap(), ["order-7", "order-7"]);
    owner.run(&["receipt", "verify"]).ok();
}

#[test]
fn what_is_in_doubt_is_settled_by_a_person() {
    let upstream = hanging_up();
    let server = Server::start_with(&[("COUNTERSIGN_HTTP_ALLOWED_HOSTS", &upstream), ("COUNTERSIGN_HTTP_ALLOWED_NETWORKS", "127.0.0.0/8")]);
    let owner = server.owner();
    owner.run(&["mode", "set", "http.request", "allow"]).ok();
    owner.run(&["consent", "give", "http.request"]).ok();
    for (how, ends) in [("succeeded", "succeeded"), ("failed", "failed")] {
        let doubted = owner.run(&["action", "invoke", "http.request", "method=POST", &format!("url={upstream}"), "body=x", "--json"]);
        assert_eq!(doubted.error()["code"], "in_doubt");
        let id = owner.run(&["invocation", "list", "--status", "in_doubt", "-o", "name"]).ok().stdout.trim().to_owned();
        assert_eq!(owner.run(&["inbox", "--json"]).ok().json()["items"][0]["id"], json!(id));
        let inbox = owner.run(&["inbox", "-o", "table"]).ok();
        assert!(inbox.stdout.contains(&id) && inbox.stdout.contains("in doubt"), "{inbox:?}");
        assert!(inbox.stderr.contains(&format!("countersign invocation settle {id}")), "{inbox:?}");
        assert!(owner.run(&["show", &id]).ok().stderr.contains("countersign invocation settle"), "what to do next is said");
        let asked = owner.run(&["invocation", "settle", &id, "--as", how, "--reason", "I looked"]).exits(2);
        assert!(asked.stderr.contains("Record that `http.request`"), "{}", asked.stderr);
        owner.run(&["invocation", "settle", &id, "--as", how, "--reason", "I looked", "--yes"]).ok();
        let shown = owner.run(&["show", &id]).ok().stdout;
        assert!(shown.contains("Settled by") && shown.contains("“I looked”") && shown.contains(ends), "{shown}");
        owner.run(&["invocation", "settle", &id, "--as", how, "--reason", "again", "--yes"]).exits(7);
    }
    owner.run(&["receipt", "verify"]).ok();
}

#[test]
fn a_call_is_verified_with_commands_an_operator_allowed() {
    let code = ("COUNTERSIGN_ALLOW_PLUGIN_CODE_EXECUTION", "true");
    let server = Server::start_with(&[code, ("COUNTERSIGN_COMMAND_ALLOWLIST", "node --check {file}")]);
    let owner = server.owner();
    owner.run(&["mode", "set", "files.write_text", "allow"]).ok();
    let write = |text: &str, command: &str, more: &[&str]| {
        let text = format!("text={text}");
        let arguments = ["action", "invoke", "files.write_text", "path=src/a.js", &text, "--verify-with", command];
        owner.run(&[&arguments[..], more].concat())
    };
    let file = server.workspace().join("src/a.js");
    // If a command would be refused, the call does nothing, and the error names the command and the setting.
    for (command, more) in [
        ("npm test", &[][..]),
        ("node --check ../a.js", &[]),
        ("node --check src/a.js", &["--except", "src"]),
        ("npm test", &["--dry-run"]),
    ] {
        let refused = write("let a = 1;", command, more).exits(8);
        assert!(refused.stderr.contains(&format!("the command `{command}` is refused")), "{refused:?}");
    }
    let refused = write("let a = 1;", "npm test", &[]).exits(8);
    assert!(refused.stderr.contains("`command_allowlist`"), "{refused:?}");
    assert!(!file.exists());

    write("let a = 1;", "node --check src/a.js", &[]).ok();
    let reverted = write("let a = ;", "node --check src/a.js", &[]);
    let sentence = "error: `files.write_text` failed, and its effects were rolled back: check `node --check src/a.js`";
    assert!(reverted.code == 1 && reverted.stderr.contains(sentence) && !reverted.stderr.contains("cause:"), "{reverted:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "let a = 1;");
    let id = owner.run(&["invocation", "list", "--status", "reverted", "-o", "name"]).ok().stdout.trim().to_owned();
    let shown = owner.run(&["show", &id]).ok().stdout;
    assert!(shown.contains("Verified with") && shown.contains("Rollback") && shown.contains("rolled back"), "{shown}");
    owner.run(&["receipt", "verify"]).ok();

    // The card of a pending call shows the checks and the scope with which it will run.
    owner.run(&["mode", "set", "files.write_text", "require_approval"]).ok();
    let held = write("let a = 2;", "node --check src/a.js", &["--within", "src", "--except", "src/b", "--no-wait"]).exits(6);
    let shown = owner.run(&["show", held.stdout.trim()]).ok().stdout;
    assert!(shown.contains("Verified with") && shown.contains("src and nothing else, except src/b"), "{shown}");
    owner.run(&["approve", held.stdout.trim()]).ok();
    let ended = owner.run(&["invocation", "show", held.stdout.trim(), "--json"]).ok().json();
    assert!(ended["checks"].to_string().contains(r#"{"name":"node --check src/a.js","ok":true}"#), "{ended:#}");
}

#[test]
fn a_command_runs_in_the_workspace_and_finds_its_own_modules_elsewhere() {
    let code = ("COUNTERSIGN_ALLOW_PLUGIN_CODE_EXECUTION", "true");
    let (reads, parses) = ("cat src/a.json", "python3 -m json.tool src/a.json");
    let server = Server::start_with(&[code, ("COUNTERSIGN_COMMAND_ALLOWLIST", &format!("{reads},{parses}"))]);
    let owner = server.owner();
    owner.run(&["mode", "set", "files.write_text", "allow"]).ok();
    let write = |path: &str, text: &str, command: &str, more: &[&str]| {
        let (path, text) = (format!("path={path}"), format!("text={text}"));
        let arguments = ["action", "invoke", "files.write_text", &path, &text, "--verify-with", command];
        owner.run(&[&arguments[..], more].concat())
    };
    write("src/a.json", "{}", parses, &[]).ok();
    write("src/a.json", "[]", reads, &["--within", "src"]).ok();
    // A file outside the scope is invisible to the command, even if the allowlist names it.
    let reverted = write("b.json", "{}", reads, &["--except", "src"]);
    assert!(reverted.code != 0 && reverted.stderr.contains("No such file"), "{reverted:?}");
    // A file in the workspace that has the name of a Python module is not used as that module.
    std::fs::create_dir(server.workspace().join("json")).unwrap();
    for name in ["json/__init__.py", "json/tool.py"] {
        std::fs::write(server.workspace().join(name), "raise SystemExit(0)").unwrap();
    }
    let reverted = write("src/a.json", "not json", parses, &[]);
    assert!(reverted.code != 0 && reverted.stderr.contains(&format!("check `{parses}`")), "{reverted:?}");
    assert_eq!(std::fs::read_to_string(server.workspace().join("src/a.json")).unwrap(), "[]");
    owner.run(&["receipt", "verify"]).ok();
}

#[test]
fn a_server_that_runs_no_code_verifies_with_no_command_and_says_so_first() {
    let server = Server::start_with(&[("COUNTERSIGN_COMMAND_ALLOWLIST", "true")]);
    let owner = server.owner();
    owner.run(&["mode", "set", "files.write_text", "allow"]).ok();
    let refused = owner.run(&["action", "invoke", "files.write_text", "path=a", "text=b", "--verify-with", "true"]).exits(8);
    assert!(refused.stderr.contains("`allow_plugin_code_execution = true`"), "{refused:?}");
    assert!(!server.workspace().join("a").exists());
}

#[test]
fn who_is_asked_to_take_back_what_somebody_changed_since_learns_which_file_and_is_led_to_no_yes() {
    let server = Server::start();
    let owner = server.owner();
    owner.run(&["mode", "set", "files.write_text", "allow"]).ok();
    let done = owner.run(&["action", "invoke", "files.write_text", "path=a.txt", "text=one", "--json"]).ok().json();
    let id = done["invocation"]["id"].as_str().unwrap();
    owner.run(&["mode", "set", "files.write_text", "require_approval"]).ok();
    let ask = ["invocation", "revert", id, "--yes", "--no-wait"];
    let revert = owner.run(&ask).exits(6).stdout.trim().to_owned();
    std::fs::write(server.workspace().join("a.txt"), "somebody's").unwrap();
    let why = "`a.txt` was changed after the call, and taking the call back would lose that change: it is refused";
    let shown = owner.run(&["show", &revert]).ok();
    assert!(shown.stdout.contains(&format!("! cannot run now: {why}")), "{shown:?}");
    assert!(shown.stderr.contains(&format!("next: countersign show {id}, or countersign deny {revert}")), "{shown:?}");
    assert!(!shown.stderr.contains("countersign approve"), "{shown:?}");
    let refused = owner.run(&["approve", &revert]).exits(7);
    assert!(refused.stderr.contains(why), "{refused:?}");
    owner.run(&["deny", &revert]).ok();
    // A new request is refused at once, without asking for approval.
    let refused = owner.run(&ask).exits(5);
    assert!(refused.stderr.contains(why), "{refused:?}");
    assert_eq!(std::fs::read_to_string(server.workspace().join("a.txt")).unwrap(), "somebody's");
    owner.run(&["receipt", "verify"]).ok();
}
