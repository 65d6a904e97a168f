//! What a call did, taken back; and what nobody knows of it, said.

use crate::countersign::Server;
use serde_json::json;
use std::io::Read as _;
use std::net::TcpListener;

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
    assert!(shown.contains("CHECKED") && shown.contains("read_back ✓"), "{shown}");
    // What was changed since is not overwritten.
    let refused = owner.run(&["invocation", "revert", first, "--yes"]);
    assert!(refused.code != 0 && refused.stderr.contains("is not what the call expects"), "{refused:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "second");
    let asked = owner.run(&["invocation", "revert", second]).exits(2);
    assert!(asked.stderr.contains("take back what `files.write_text` did?"), "{}", asked.stderr);
    owner.run(&["invocation", "revert", second, "--reason", "a mistake", "--yes"]).ok();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "first");
    let again = owner.run(&["invocation", "revert", second, "--yes", "--json"]).ok().json();
    assert_eq!((&again["replayed"], &again["invocation"]["reverses"]), (&json!(true), &json!(second)));
    owner.run(&["invocation", "revert", first, "--yes"]).ok();
    assert!(!file.exists() && !server.data().join("workspace/deep").exists(), "the folder it made is gone too");
    owner.run(&["receipt", "verify"]).ok();
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

/// An address that takes a request and hangs up: nobody knows whether it did anything.
fn hanging_up() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    // It ends with the test's process: nothing waits for it.
    std::thread::spawn(move || {
        for connection in listener.incoming().map_while(Result::ok) {
            let mut some = [0; 1024];
            let _read = (&connection).read(&mut some);
        }
    });
    url
}

#[test]
fn what_is_in_doubt_is_settled_by_a_person() {
    let upstream = hanging_up();
    let server = Server::start_with(&[("COUNTERSIGN_HTTP_ALLOWED_HOSTS", &upstream), ("COUNTERSIGN_HTTP_ALLOWED_NETWORKS", "127.0.0.0/8")]);
    let owner = server.owner();
    owner.run(&["mode", "set", "http.request", "allow"]).ok();
    for (how, ends) in [("succeeded", "succeeded"), ("failed", "failed")] {
        let doubted = owner.run(&["action", "invoke", "http.request", "method=POST", &format!("url={upstream}"), "body=x", "--json"]);
        assert_eq!(doubted.error()["code"], "in_doubt");
        let told = owner.run(&["inbox"]).ok().stderr;
        assert!(told.contains("in doubt: 1"), "{told}");
        let id = owner.run(&["invocation", "list", "--status", "in_doubt", "-o", "name"]).ok().stdout.trim().to_owned();
        assert!(owner.run(&["show", &id]).ok().stderr.contains("countersign invocation settle"), "what to do next is said");
        let asked = owner.run(&["invocation", "settle", &id, "--as", how, "--reason", "I looked"]).exits(2);
        assert!(asked.stderr.contains("record that `http.request`"), "{}", asked.stderr);
        owner.run(&["invocation", "settle", &id, "--as", how, "--reason", "I looked", "--yes"]).ok();
        let shown = owner.run(&["show", &id]).ok().stdout;
        assert!(shown.contains("SETTLED BY") && shown.contains("“I looked”") && shown.contains(ends), "{shown}");
        owner.run(&["invocation", "settle", &id, "--as", how, "--reason", "again", "--yes"]).exits(7);
    }
    owner.run(&["receipt", "verify"]).ok();
}
