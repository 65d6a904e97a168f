//! `--dry-run`: what would be sent is shown, nothing changes; what cannot be rehearsed says so.

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
    let ran = owner.run(&["action", "invoke", "files.write_text", "path=a.txt", "text=b", "--dry-run"]).ok();
    assert!(ran.stdout.contains("a.txt"), "{}", ran.stdout);
    assert!(!server.workspace().join("a.txt").exists());
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
        assert!(ran.stderr.contains("cannot be rehearsed"), "{}", ran.stderr);
    }
    assert!(!owner.folder().join("all.jsonl").exists());
}
