//! Tests `--dry-run`: the command shows what it would send and changes nothing; a command without a dry run says so.

use crate::countersign::Server;
use serde_json::json;

const AUTOMATION: &str = "aut_01k9z6m4x0abcdefghjkmnpqrs";

#[test]
fn every_verb_that_writes_shows_its_request_and_sends_nothing() {
    let server = Server::start();
    let owner = server.owner();
    let waiting = owner.run(&["action", "invoke", "files.write_text", "path=a", "text=b", "--no-wait", "-o", "name"]).exits(6);
    let id = waiting.stdout.trim().to_owned();
    let session = owner.run(&["session", "list", "-o", "name"]).ok().stdout.lines().next().unwrap().to_owned();
    for (arguments, method) in [
        (vec!["mode", "set", "files.write_text", "allow"], "PUT"),
        (vec!["mode", "unset", "files.write_text"], "DELETE"),
        (vec!["mode", "set", "files.write_text", "allow", "--automation", AUTOMATION], "PUT"),
        (vec!["mode", "unset", "files.write_text", "--automation", AUTOMATION], "DELETE"),
        (vec!["canary", "create", "a text of ours"], "POST"),
        (vec!["canary", "remove", "cny_01k9z6m4x0abcdefghjkmnpqrs"], "DELETE"),
        (vec!["secret", "set", "token"], "PUT"),
        (vec!["secret", "delete", "token"], "DELETE"),
        (vec!["connection", "add", "github", "https://api.example.com", "--bearer"], "POST"),
        (vec!["connection", "login", "github"], "POST"),
        (vec!["connection", "test", "github"], "POST"),
        (vec!["connection", "remove", "github"], "DELETE"),
        (vec!["channel", "add", "pager", "--webhook", "https://hooks.example.com", "--secret", "key"], "POST"),
        (vec!["channel", "test", "pager"], "POST"),
        (vec!["channel", "retry", "pager"], "POST"),
        (vec!["channel", "drop", "pager"], "POST"),
        (vec!["channel", "remove", "pager"], "DELETE"),
        (vec!["source", "add", "github", "--mcp", "https://api.example.com/mcp"], "POST"),
        (vec!["source", "edit", "github", "--tier", "merge=R4"], "PATCH"),
        (vec!["source", "test", "github"], "POST"),
        (vec!["source", "refresh", "github"], "POST"),
        (vec!["source", "resume", "github"], "POST"),
        (vec!["source", "remove", "github"], "DELETE"),
        (vec!["session", "create"], "POST"),
        (vec!["space", "create", "lab"], "POST"),
        (vec!["approve", &id], "POST"),
        (vec!["deny", &id], "POST"),
        (vec!["session", "end", &session], "POST"),
        (vec!["token", "create", "ci", "--scope", "read"], "POST"),
        (vec!["token", "revoke", "tok_01k9z6m4x0abcdefghjkmnpqrs"], "POST"),
        (vec!["user", "create", "mia"], "POST"),
        (vec!["user", "disable", "usr_01k9z6m4x0abcdefghjkmnpqrs"], "POST"),
        (vec!["key", "rotate"], "POST"),
        (vec!["space", "band", "main", "red"], "PATCH"),
        (vec!["space", "consent", "main", "waived"], "PATCH"),
        (vec!["action", "price", "files.list", "0.002"], "PUT"),
        (vec!["action", "price", "files.list", "--remove"], "DELETE"),
        (vec!["space", "set", "main", "--self-approval", "refused"], "PATCH"),
        (vec!["space", "quorum", "main", "R3=2"], "PATCH"),
        (vec!["space", "redact", "main", "email"], "PATCH"),
        (vec!["space", "allow-crossing", "files.list", "--from", "main", "--to", "main"], "POST"),
        (vec!["space", "forbid-crossing", "files.list", "--from", "main", "--to", "main"], "DELETE"),
        (vec!["user", "limit", "owner", "amber"], "PATCH"),
        (vec!["user", "role", "owner", "admin"], "PATCH"),
        (vec!["approve", &id, "--always"], "POST"),
        (vec!["approve", &id, "--grant", "--scope", "org", "--calls", "2"], "POST"),
        (vec!["approve", &id, "--params", r#"{"path":"b","text":"c"}"#], "POST"),
        (vec!["approve", &id, &id], "POST"),
        (vec!["snooze", &id, "--for", "30m"], "POST"),
        (vec!["link", &id], "POST"),
        (vec!["grant", "give", "files.*", "--org"], "POST"),
        (vec!["grant", "request", "files.list"], "POST"),
        (vec!["actions", "grant", "request", "--integration", "files", "--action", "list", "--session", &session], "POST"),
        (vec!["grant", "refuse", "grt_01k9z6m4x0abcdefghjkmnpqrs"], "POST"),
        (vec!["grant", "revoke", "grt_01k9z6m4x0abcdefghjkmnpqrs"], "DELETE"),
        (vec!["kill-switch", "on", "space:main", "--reason", "r"], "POST"),
        (vec!["kill-switch", "off", "org", "--reason", "r"], "POST"),
        (vec!["consent", "give", "files.list"], "POST"),
        (vec!["consent", "withdraw", "cns_01k9z6m4x0abcdefghjkmnpqrs"], "DELETE"),
    ] {
        let ran = owner.run(&[&arguments[..], &["--dry-run"]].concat()).ok();
        assert!(ran.stdout.starts_with(&format!("{method} /api/v1/")), "{arguments:?}: {}", ran.stdout);
        assert!(ran.stderr.contains("dry run: nothing was sent"), "{arguments:?}: {}", ran.stderr);
        let document = owner.run(&[&arguments[..], &["--dry-run", "--json=id"]].concat()).ok().json();
        assert_eq!(document["would_send"]["method"], method, "{arguments:?}: {document}");
    }
    assert_eq!(owner.run(&["mode", "list", "--json"]).ok().json()["items"], json!([]));
    assert_eq!(owner.run(&["space", "list", "-o", "name"]).ok().stdout.lines().count(), 1);
    assert_eq!(owner.run(&["show", &id, "--json=status"]).ok().json()["status"], "pending");
}

#[test]
fn an_action_is_rehearsed_by_the_server() {
    let server = Server::start();
    let owner = server.owner();
    owner.run(&["mode", "set", "files.write_text", "allow"]).ok();
    let write = ["action", "invoke", "files.write_text", "path=a.txt", "text=b\n", "--dry-run"];
    let ran = owner.run(&write).ok();
    assert_eq!(ran.stdout, "+ would create  a.txt  +1\n  new file\n  +b\n");
    assert!(
        ran.stderr.contains("✓ dry run: nothing was done · files.write_text inv_") && !ran.stderr.contains("succeeded"),
        "{}",
        ran.stderr
    );
    assert!(!server.workspace().join("a.txt").exists());
    // A program gets the server's answer unchanged.
    let document = owner.run(&[&write[..], &["--json"]].concat()).ok().json();
    assert_eq!((&document["result"]["change"], &document["result"]["diff"]), (&json!("would_create"), &json!("@@ -1 +1 @@\n+b\n")));
    // Colours can be turned on; without them the signs are still there.
    let coloured = owner.run(&[&write[..], &["--color", "always"]].concat()).ok().stdout;
    assert!(coloured.contains("\u{1b}[32m+b\u{1b}[0m"), "{coloured:?}");
    std::fs::write(server.workspace().join("old.txt"), "one\ntwo\n").unwrap();
    owner.run(&["mode", "set", "files.delete", "allow"]).ok();
    let gone = owner.run(&["action", "invoke", "files.delete", "path=old.txt", "--dry-run"]).ok();
    assert_eq!(gone.stdout, "− would remove  old.txt  −2\n  the whole file\n  -one\n  -two\n");
    let read = owner.run(&["action", "invoke", "files.read_text", "path=old.txt", "--dry-run"]).ok();
    let untried = "! a dry run does not read, so whether this call would succeed is not known\n";
    assert_eq!(read.stdout, format!("nothing would change\n{untried}"));
}

#[test]
fn every_part_of_a_batch_says_what_it_would_change() {
    let server = Server::start();
    let owner = server.owner();
    std::fs::write(server.workspace().join("a.txt"), "before\n").unwrap();
    let batch = json!([
        { "action": "files.write_text", "params": { "path": "a.txt", "text": "after\n" } },
        { "action": "files.read_text", "params": { "path": "a.txt" } },
        { "action": "files.write_text", "params": { "path": "b.txt", "text": "new\n" } },
    ]);
    let ran = owner.run_with_stdin(&["batch", "run", "-", "--dry-run"], &batch.to_string()).ok();
    for told in [
        "PART 1  files.write_text\n~ would change  a.txt  +1  −1\n  @@ -1 +1 @@\n  -before\n  +after\n",
        "PART 2  files.read_text\nnothing would change\n",
        "PART 3  files.write_text\n+ would create  b.txt  +1\n",
    ] {
        assert!(ran.stdout.contains(told), "{told}: {ran:?}");
    }
    assert!(ran.stderr.contains("✓ dry run: nothing was done · bat_") && !ran.stderr.contains("✓ succeeded"), "{ran:?}");
    // What only reads may fail: that is not promised.
    assert!(ran.stderr.contains("every part that writes could say what it would change; reads were not tried, and may fail"), "{ran:?}");
    let document = owner.run_with_stdin(&["batch", "run", "-", "--dry-run", "--json=status"], &batch.to_string()).ok().json();
    assert_eq!(document["status"], "succeeded");
    assert_eq!(std::fs::read_to_string(server.workspace().join("a.txt")).unwrap(), "before\n");
}

#[test]
fn taking_back_says_what_would_be_undone_and_whether_it_could_be() {
    let server = Server::start();
    let owner = server.owner();
    owner.run(&["mode", "set", "files.write_text", "allow"]).ok();
    let made = |text: &str| {
        let done = owner.run(&["action", "invoke", "files.write_text", "path=a.txt", text, "--json"]).ok().json();
        done["invocation"]["id"].as_str().unwrap().to_owned()
    };
    let (first, id) = (made("text=one"), made("text=two"));
    let calls = || owner.run(&["invocation", "list", "-o", "name"]).ok().stdout.lines().count();
    let before = calls();

    let ran = owner.run(&["invocation", "revert", &id, "--dry-run"]).ok();
    let told =
        format!("✓ would run: the mode is `allow`, set for the org\nreverts\t{id}\naction\tfiles.write_text\n~ would change  a.txt\n");
    assert_eq!(ran.stdout, told, "{ran:?}");
    assert!(ran.stderr.contains("never overwritten") && ran.stderr.contains("dry run: nothing was changed"), "{ran:?}");
    // A change that was made after the call is not lost.
    let ran = owner.run(&["invocation", "revert", &first, "--dry-run", "--json"]).exits(5).json();
    assert_eq!((&ran["blocked"]["code"], &ran["invocation_id"]), (&json!("content_changed"), &json!(first)), "{ran:#}");
    assert!(ran["changes"].is_null(), "{ran:#}");
    assert_eq!(calls(), before);
    // Reverting a call that created a file would delete the file.
    let made_other = owner.run(&["action", "invoke", "files.write_text", "path=b.txt", "text=b", "--json"]).ok().json();
    let other = made_other["invocation"]["id"].as_str().unwrap();
    let ran = owner.run(&["invocation", "revert", other, "--dry-run", "--json"]).ok().json();
    assert_eq!(ran["changes"]["changes"], json!([{ "path": "b.txt", "change": "would_delete" }]), "{ran:#}");
    assert_eq!((&ran["would"], &ran["invocation_id"]), (&json!("runs"), &json!(other)));
    let before = calls();
    // The dry run says whether the revert would need approval or be denied.
    owner.run(&["mode", "unset", "files.write_text"]).ok();
    let ran = owner.run(&["invocation", "revert", &id, "--dry-run"]).ok();
    assert!(ran.stdout.starts_with("◷ would need approval: "), "{ran:?}");
    let ran = owner.run(&["invocation", "revert", &first, "--dry-run"]).exits(5);
    assert!(ran.stdout.starts_with("⊘ would be denied: `a.txt` was changed after the call"), "nobody is asked about it: {ran:?}");
    owner.run(&["mode", "set", "files.write_text", "deny"]).ok();
    let ran = owner.run(&["invocation", "revert", &id, "--dry-run"]).exits(5);
    assert!(ran.stdout.starts_with("⊘ would be denied: "), "{ran:?}");
    let ran = owner.run(&["invocation", "revert", &first, "--dry-run"]).exits(5);
    assert!(ran.stdout.starts_with("⊘ would be denied: the mode is `deny`"), "it would not even come so far: {ran:?}");
    assert_eq!((calls(), std::fs::read_to_string(server.workspace().join("a.txt")).unwrap()), (before, "two".to_owned()));

    // A call that cannot be reverted is refused by the dry run, as it would be by the revert itself.
    owner.run(&["mode", "set", "files.write_text", "allow"]).ok();
    owner.run(&["invocation", "revert", &id, "--yes"]).ok();
    let ran = owner.run(&["invocation", "revert", &id, "--dry-run"]).exits(7);
    assert!(ran.stderr.contains("was already reverted") && ran.stdout.is_empty(), "{ran:?}");
    let read = owner.run(&["action", "invoke", "files.list", "--json"]).ok().json();
    let ran = owner.run(&["invocation", "revert", read["invocation"]["id"].as_str().unwrap(), "--dry-run"]).exits(7);
    assert!(ran.stderr.contains("cannot be reverted: nothing was kept to do so with"), "{ran:?}");

    // A page that holds only calls that cannot be reverted does not end the list.
    let listed = owner.run(&["invocation", "list", "--revertible", "--limit", "1", "-o", "name"]).ok().stdout;
    assert_eq!(listed.lines().next(), Some(other));
    let listed = owner.run(&["invocation", "list", "--revertible", "-o", "name"]).ok().stdout;
    assert_eq!(listed, format!("{other}\n{first}\n"), "they stand and can be taken back");
}

#[test]
fn what_asks_no_server_cannot_be_rehearsed() {
    let server = Server::start();
    let owner = server.owner();
    for arguments in [
        &["backup", "all.jsonl"][..],
        &["restore", "all.jsonl"],
        &["man", "."],
        &["receipt", "export", "all.jsonl"],
        &["receipt", "key", "--out", "all.jsonl"],
        &["receipt", "checkpoint", "--out", "all.jsonl"],
        &["mode", "export", "all.jsonl"],
        &["logout"],
    ] {
        let ran = owner.run(&[arguments, &["--dry-run"]].concat()).exits(2);
        assert!(ran.stderr.contains("has no dry run"), "{}", ran.stderr);
    }
    assert!(!owner.folder().join("all.jsonl").exists());
}
