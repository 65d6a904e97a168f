//! Tests what scripts rely on: one exit code for each way a command can end, and errors in three lines or as JSON.

use crate::countersign::{Server, User};
use crate::fake::{Fake, nobody};
use api::{Code, Problem};
use serde_json::{Value, json};

#[test]
fn every_way_to_end_has_its_exit_code() {
    let server = Server::start();
    let owner = server.owner().with_binary();
    let pending = owner.run(&["action", "invoke", "files.write_text", "path=a", "text=b", "--no-wait"]).exits(6).stdout;
    let id = pending.trim();
    owner.run(&["mode", "set", "http.get", "deny"]).ok();

    let check = |user: &User, arguments: &[&str], code: i32| {
        let ran = user.run(arguments);
        assert_eq!(ran.code, code, "{arguments:?}: {ran:#?}");
        // An error is reported on stderr, and nothing is written to stdout.
        if code != 0 && code != 6 {
            assert!(ran.stderr.contains("error: "), "{arguments:?}: {ran:#?}");
            assert_eq!(ran.stdout, "", "{arguments:?}: {ran:#?}");
        }
    };
    check(&owner, &["status"], 0);
    check(&owner, &["action", "invoke", "files.read_text", "path=missing"], 1);
    check(&owner, &["status", "--nonsense"], 2);
    check(&owner, &["action", "invoke", "files.list", "what"], 2);
    check(&owner, &["token", "revoke", "tok_1"], 2);
    check(&owner, &["show", "inv_1"], 3);
    check(&owner, &["action", "invoke", "no.such"], 3);
    check(&owner, &["receipt", "verify", "no-such-file"], 3);
    check(&owner.with_token("wrong"), &["status"], 4);
    check(&owner.without_token(), &["status"], 4);
    check(&owner, &["action", "invoke", "http.get", "url=http://example.com"], 5);
    check(&owner, &["action", "invoke", "files.write_text", "path=a", "text=b", "--wait", "1ms"], 6);
    check(&owner, &["receipt", "show", id], 6);
    owner.run(&["deny", id]).ok();
    check(&owner, &["approve", id], 7);
    check(&owner, &["deny", id], 7);
    check(&owner, &["action", "invoke", "files.write_text", "path=a"], 8);
    check(&owner, &["invocation", "list", "--after", &"x".repeat(300)], 8);
    check(&User::new(owner.folder(), &nobody(), Some("t")).with_binary(), &["status"], 9);
}

#[test]
fn params_that_only_the_source_can_refuse_are_invalid_too() {
    let server = Server::start_with(&[
        ("COUNTERSIGN_EMAIL_SERVER", "smtp://127.0.0.1:1?tls=none"),
        ("COUNTERSIGN_EMAIL_FROM", "countersign@example.com"),
    ]);
    let owner = server.owner();
    // They are refused before a person is asked, and the server that would send the mail is not asked for it.
    for words in [[r#"to:=["Robin <robin@example.com>"]"#, "subject=a"], [r#"to:=["robin@example.com"]"#, "subject=a\r\nBcc: b@x.org"]] {
        let refused = owner.run(&[&["action", "invoke", "email.send", "text=b"], &words[..]].concat()).exits(8);
        assert_eq!(refused.stdout, "", "{words:?}");
        assert!(refused.stderr.contains("hint: see the schema with `countersign action show email.send`"), "{refused:?}");
    }
    owner.run(&["mode", "set", "notify.send", "allow"]).ok();
    owner.run(&["action", "invoke", "notify.send", "title= ", "body=x"]).exits(8);
}

#[test]
fn an_interrupt_exits_with_130_and_says_what_still_waits() {
    let server = Server::start();
    let waiting = server.owner().start_waiting(&["action", "invoke", "files.write_text", "path=a", "text=b"]);
    let id = waiting.id.clone();
    waiting.interrupt();
    let ended = waiting.end().exits(130);
    assert!(ended.stderr.contains(&format!("`{id}` still waits for approval")), "{}", ended.stderr);
    assert!(ended.stderr.contains(&format!("hint: countersign show {id}")), "{}", ended.stderr);
}

#[test]
fn every_code_of_the_api_becomes_an_exit_code() {
    for (code, exit) in [
        (Code::InDoubt, 10),
        (Code::Expired, 6),
        (Code::Consumed, 7),
        (Code::DeniedByPolicy, 5),
        (Code::RateLimited, 1),
        (Code::StoreUnavailable, 1),
        (Code::BodyTooLarge, 8),
    ] {
        let problem = Problem::new(code, "what happened").hint("what to do");
        let status = code.status();
        let fake = Fake::start(move |_, _| (status, serde_json::to_string(&problem).unwrap()));
        let ran = somebody(&fake).run(&["status"]).exits(exit);
        let title = code.title();
        let cause = title[..1].to_lowercase() + &title[1..];
        assert!(ran.stderr.starts_with(&format!("error: what happened\n  cause: {cause}\nhint: ")), "{ran:?}");
    }
}

#[test]
fn with_json_the_servers_problem_stands_under_error_as_it_was_sent() {
    let problem =
        json!({ "type": "/docs/errors/in_doubt", "title": "x", "status": 409, "code": "in_doubt", "detail": "y", "from_the_future": [1] });
    let sent = problem.to_string();
    let fake = Fake::start(move |_, _| (409, sent.clone()));
    let ran = somebody(&fake).run(&["status", "--json"]).exits(10);
    assert_eq!((ran.error(), ran.stdout.as_str()), (problem, ""));
}

#[test]
fn errors_of_our_own_are_json_too() {
    let ran = User::new(tempfile::tempdir().unwrap().path(), &nobody(), None).run(&["status", "--json"]).exits(9);
    assert_eq!(ran.error()["code"], "unreachable");
    assert!(ran.error()["detail"].as_str().unwrap().contains("retrying is safe"));
    let ran = User::new(tempfile::tempdir().unwrap().path(), &nobody(), None).run(&["stats", "--json"]).exits(2);
    assert_eq!((&ran.error()["code"], ran.error()["hint"].as_str()), (&json!("usage"), Some("a similar subcommand exists: 'status'")));
}

#[test]
fn an_answer_that_makes_no_sense_is_no_success() {
    for (status, body) in [(200, "[]"), (200, "not json"), (500, "oops"), (302, ""), (404, "{}")] {
        let fake = Fake::start(move |_, _| (status, body.to_owned()));
        let ran = somebody(&fake).run(&["status"]);
        assert!(matches!(ran.code, 1 | 3), "{status} {body}: {ran:#?}");
        assert_eq!(ran.stdout, "");
    }
}

#[test]
fn an_r4_action_is_approved_by_its_name_alone_and_the_answer_carries_what_was_shown() {
    let (fake, user) = r4();
    let refused = user.run(&["approve", "inv_1"]).exits(8);
    assert!(refused.stderr.contains("hint: countersign approve inv_1 --confirm files.wipe"), "{}", refused.stderr);
    user.run(&["approve", "inv_1", "--confirm", "files.write"]).exits(8);
    assert_eq!(fake.asked().pop().unwrap().2["confirm"], "files.write", "what the name must be is not this side's to say");

    user.run(&["approve", "inv_1", "--confirm", "files.wipe", "--reason", "agreed"]).ok();
    let (method, path, body) = fake.asked().pop().unwrap();
    assert_eq!((method.as_str(), path.as_str()), ("POST", "/api/v1/invocations/inv_1/approve"));
    assert_eq!(body, json!({ "mode": "once", "binding": "ee", "confirm": "files.wipe", "reason": "agreed" }));
}

#[test]
fn several_answers_are_given_one_by_one_and_the_first_failure_is_the_exit_code() {
    let server = Server::start();
    let owner = server.owner();
    let ask = |path: &str| {
        let path = format!("path={path}");
        owner.run(&["action", "invoke", "files.write_text", &path, "text=x", "--no-wait"]).exits(6).stdout.trim().to_owned()
    };
    let (first, second) = (ask("one"), ask("two"));
    let ran = owner.run(&["approve", &first, "inv_1", &second, "--yes"]).exits(3);
    let rows: Vec<Vec<_>> = ran.stdout.lines().map(|line| line.split('\t').take(2).collect()).collect();
    assert_eq!(rows, [[first.as_str(), "succeeded"], [second.as_str(), "succeeded"]]);
    assert!(ran.stderr.contains("there is no invocation `inv_1`"), "{}", ran.stderr);

    let (third, fourth) = (ask("three"), ask("four"));
    // Several are denied at once; a script that confirms everything in advance may say so here too.
    let ran = owner.run(&["deny", &third, "inv_1", &fourth, "--yes", "--json"]).exits(3);
    let document = ran.json();
    let codes: Vec<_> = document["items"].as_array().unwrap().iter().map(|item| item["error"]["code"].as_str()).collect();
    assert_eq!(codes, [None, Some("not_found"), None]);
}

fn somebody(fake: &Fake) -> User {
    User::new(&std::env::temp_dir(), &fake.url, Some("token"))
}

/// A server with two pending invocations: `inv_1` is R4, `inv_2` is R2.
pub(crate) fn r4() -> (Fake, User) {
    let answer = |_: &str, path: &str, body: &Value| {
        if path.ends_with("/approve") && body["confirm"] != "files.wipe" {
            let detail = "`inv_1` was not approved: `files.wipe` is R4, which is approved by name, one call at a time";
            let mut problem = Problem::new(Code::NeedsConfirmation, detail);
            (problem.invocation_id, problem.action) = (Some("inv_1".to_owned()), Some("files.wipe".to_owned()));
            return (422, serde_json::to_string(&problem).unwrap());
        }
        let (id, tier, class) = if path.ends_with("/inv_2") { ("inv_2", "R2", "write") } else { ("inv_1", "R4", "danger") };
        let status = if path.ends_with("/approve") { "succeeded" } else { "pending" };
        let digests = json!({ "raw": "a", "params": "b", "structural": "c", "textual": "d" });
        let decision =
            json!({ "mode": "require_approval", "base": "require_approval", "source": "org_default", "modes_version": 1, "tightened": [] });
        let invocation = json!({
            "id": id, "status": status, "mode": "require_approval", "mode_source": "org_default", "action": "files.wipe", "source": "files",
            "tier": tier, "class": class, "session_id": "ses_1", "space_id": "spc_1", "principal": "agent:ses_1", "params": {},
            "dry_run": false, "decision": decision, "gates": [], "digests": digests, "binding": { "digest": "ee", "expires_at": "2099-01-01T00:00:00Z" },
            "attempts": 0, "created_at": "2026-11-15T00:00:00Z", "trace_id": "t",
        });
        (200, json!({ "invocation": invocation }).to_string())
    };
    let fake = Fake::reading(answer);
    let user = somebody(&fake);
    (fake, user)
}

#[test]
fn nothing_is_asked_where_nobody_can_answer() {
    let server = Server::start();
    let owner = server.owner();
    let id = owner.run(&["session", "create", "--json=id"]).ok().json()["id"].as_str().unwrap().to_owned();
    let refused = owner.run_with_stdin(&["session", "end", &id], "y\n").exits(2);
    assert!(refused.stderr.contains("hint: add --yes"), "{}", refused.stderr);
    assert_eq!(owner.run(&["session", "show", &id, "--json=ended_at"]).ok().json()["ended_at"], Value::Null);
    owner.run(&["session", "end", &id, "--yes"]).ok();
    assert!(owner.run(&["session", "show", &id, "--json=ended_at"]).ok().json()["ended_at"].is_string());
}
