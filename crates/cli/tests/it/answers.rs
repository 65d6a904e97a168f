//! Tests answers that do more than let one call run: several at once, always, with a grant, with edited params, and by more than one
//! person.

use crate::automations::applied_as;
use crate::countersign::{Server, User};
use crate::fake::Fake;
use serde_json::{Value, json};

#[test]
fn several_are_approved_in_one_request_and_only_once_each() {
    let server = Server::start();
    let owner = server.owner();
    let (one, other) = (asked(&owner, "one"), asked(&owner, "other"));
    for more in [&["--always"][..], &["--grant"], &["--params", "{}"], &["--edit"]] {
        let refused = owner.run(&[&["approve", &one, &other], more].concat()).exits(2);
        assert!(refused.stderr.contains("several calls are approved once each"), "{}", refused.stderr);
    }
    let unsent = owner.run(&["approve", &one, &other, "--reason", "fine", "--dry-run"]).ok().stdout;
    // The request binds each approval to the call as it was shown.
    let bound = |id: &str| owner.run(&["show", id, "--json=binding"]).ok().json()["binding"]["digest"].as_str().unwrap().to_owned();
    let item = |id: &str| format!("{{\"id\":\"{id}\",\"binding\":\"{}\"}}", bound(id));
    let items = [item(&one), item(&other)].join(",");
    assert_eq!(unsent.trim(), format!("POST /api/v1/invocations/approve {{\"invocations\":[{items}],\"reason\":\"fine\"}}"));
    let approved = owner.run(&["approve", &one, &other, "--yes", "--json"]).ok().json();
    let statuses: Vec<_> = approved["items"].as_array().unwrap().iter().map(|item| &item["invocation"]["status"]).collect();
    assert_eq!(statuses, ["succeeded", "succeeded"]);
    let again = owner.run(&["approve", &one, &other]).exits(7);
    assert_eq!(again.stderr.matches("the call was already approved").count(), 2, "{}", again.stderr);
    assert!(!again.stderr.contains("cause:"), "{}", again.stderr);
}

#[test]
fn what_was_too_large_to_keep_is_shown_whole_and_compared_whole() {
    let server = Server::start();
    let owner = server.owner();
    let call = |path: &str| json!({ "path": path, "text": format!("{}the end", "x".repeat(70_000)) }).to_string();
    for path in ["a", "b"] {
        std::fs::write(owner.folder().join(path), call(path)).unwrap();
    }
    let id = owner.run(&["action", "invoke", "files.write_text", "--params", "@a", "--no-wait"]).exits(6).stdout.trim().to_owned();
    let shown = owner.run(&["show", &id]).ok().stdout;
    assert!(shown.contains("the end") && !shown.contains("_truncated") && !shown.contains("too large"));
    let unsent = owner.run(&["approve", &id, "--params", "@b", "--dry-run"]).ok();
    assert!(unsent.stderr.contains("what changes:\n  /path: \"a\" → \"b\"\n"), "{}", unsent.stderr);
    assert!(!unsent.stderr.contains("_truncated") && !unsent.stderr.contains("/text"), "{}", unsent.stderr);
}

#[test]
fn a_call_that_was_approved_before_a_crash_says_that_it_was_taken_up_again() {
    let mut server = Server::start_with(&[("FAULT_POINT", "execute.prepared")]);
    let owner = server.owner();
    let id = asked(&owner, "a");
    owner.run(&["approve", &id]).exits(9);
    server.wait();
    let server = server.start_again();
    let owner = server.owner();
    owner.run(&["invocation", "watch", &id]).ok();
    let told = "it was approved and had not started when the server stopped";
    let card = owner.run(&["show", &id]).ok().stdout;
    assert!(card.lines().any(|line| line.starts_with("Resumed") && line.ends_with(told)), "{card}");
    let explained = owner.run(&["explain", &id]).ok().stdout;
    assert!(explained.lines().any(|line| line.starts_with("resumed") && line.ends_with(told)), "{explained}");
    let logged = server.logged();
    assert!(
        logged.lines().any(|line| line.contains("an approved call that had not started is taken up again") && line.contains(&id)),
        "{logged}"
    );
    owner.run(&["receipt", "verify"]).ok();
}

#[test]
fn a_yes_for_always_says_what_will_still_ask() {
    let server = Server::start();
    let owner = server.owner();
    let ask = |arguments: &[&str]| {
        let call = ["action", "invoke", "files.write_text", "path=a", "text=x", "--no-wait"];
        owner.run(&[&call[..], arguments].concat()).exits(6).stdout.trim().to_owned()
    };
    owner.run(&["space", "band", "main", "amber"]).ok();
    let gate = "@id(\"abac.ask\") forbid (principal, action, resource) unless { context has approval };";
    std::fs::write(owner.folder().join("policies.json"), json!({ "abac": gate }).to_string()).unwrap();
    owner.run(&["policy", "set", "policies.json", "--yes"]).ok();
    let held = owner.run(&["action", "invoke", "files.list", "--no-wait"]).exits(6).stderr;
    assert!(held.contains("), because gate `abac` requires approval, by abac.ask"), "{held}");
    let told = owner.run(&["approve", &ask(&[]), "--always"]).exits(2).stderr;
    assert!(told.contains("! still needs approval: band amber of space main, for R2 and above\n"), "{told}");
    assert!(told.contains("! still needs approval: gate abac, for calls like this one (abac.ask)\n"), "{told}");

    // For a call of an automation, the automation's mode is set. A locked mode of the org still overrides it.
    owner.run(&["space", "band", "main", "green"]).ok();
    std::fs::write(owner.folder().join("none.json"), json!({ "abac": "" }).to_string()).unwrap();
    owner.run(&["policy", "set", "none.json", "--yes"]).ok();
    owner.run(&["mode", "set", "files.write_text", "require_approval", "--locked"]).ok();
    let automation = applied_as(&server, &owner, "Nightly");
    let created = owner.run(&["session", "create", "--automation", &automation, "--json"]).ok().json();
    let agent = owner.with_token(created["token"].as_str().unwrap());
    let id = agent.run(&["action", "invoke", "files.write_text", "path=a", "text=x", "--no-wait"]).exits(6).stdout;
    let told = owner.run(&["approve", id.trim(), "--always"]).exits(2).stderr;
    assert!(told.contains(&format!("mode of files.write_text becomes allow for automation {automation}\n")), "{told}");
    assert!(told.contains("! still needs approval: the org's mode of files.write_text, which is locked"), "{told}");
    owner.run(&["approve", id.trim(), "--always", "--yes"]).ok();
    agent.run(&["action", "invoke", "files.write_text", "path=b", "text=x", "--no-wait"]).exits(6);
}

#[test]
fn a_yes_with_a_grant_lets_as_many_calls_run_as_it_says() {
    let server = Server::start();
    let owner = server.owner();
    let id = asked(&owner, "a");
    owner.run(&["approve", &id, "--calls", "1"]).exits(2);
    owner.run(&["approve", &id, "--grant", "--expires", "soon"]).exits(2);
    let granted = owner.run(&["approve", &id, "--grant", "--calls", "1", "--expires", "2h", "--yes"]).ok();
    assert!(granted.stderr.contains("a grant for files.write_text in session ses_"), "{}", granted.stderr);
    assert!(granted.stderr.contains(", 1 call, until 20"), "{}", granted.stderr);

    let by_grant = owner.run(&["action", "invoke", "files.write_text", "path=b", "text=x", "--json"]).ok().json();
    let used = owner.run(&["show", by_grant["invocation"]["id"].as_str().unwrap()]).ok().stdout;
    let grant = owner.run(&["grant", "list", "-o", "name"]).ok().stdout;
    assert!(granted.stderr.contains(&format!("✓ made grant {} for session:ses_", grant.trim())), "{granted:?}");
    assert!(used.contains(&format!("By grant          {}", grant.trim())), "{used}");
    assert_eq!(owner.run(&["grant", "show", grant.trim(), "--json=state"]).ok().json()["state"], "used_up");
    owner.run(&["action", "invoke", "files.write_text", "path=c", "text=x", "--no-wait"]).exits(6);
    let session = by_grant["invocation"]["session_id"].as_str().unwrap();
    let told = owner.run(&["explain", "files.write_text", "--as", session, "path=c", "text=x"]).ok().stdout;
    assert!(told.contains(&format!("near grant\t{} for files.write_text: its calls are used up: 1 of 1\n", grant.trim())), "{told}");
}

#[test]
fn other_params_are_shown_as_a_change_and_sent_whole() {
    let server = Server::start();
    let owner = server.owner();
    let id = asked(&owner, "a");
    let unsent = owner.run(&["approve", &id, "--params", r#"{"path":"a","text":"y"}"#, "--dry-run"]).ok();
    assert!(unsent.stderr.contains("what changes:\n  /text: \"x\" → \"y\"\n"), "{}", unsent.stderr);
    assert!(unsent.stdout.contains(r#""params":{"path":"a","text":"y"}"#), "{}", unsent.stdout);
    let same = owner.run(&["approve", &id, "--params", r#"{"path":"a","text":"x"}"#, "--dry-run"]).ok();
    assert!(!same.stdout.contains("params"), "{}", same.stdout);
    owner.run(&["approve", &id, "--params", "[1]"]).exits(2);
    let refused = owner.run(&["approve", &id, "--edit"]).exits(2);
    assert!(refused.stderr.contains("there is no terminal to edit the params in"), "{}", refused.stderr);
    assert!(refused.stderr.contains("hint: give them whole with --params"), "{}", refused.stderr);
}

#[test]
fn a_yes_that_needs_company_says_how_many_said_yes_and_exits_as_pending() {
    let server = Server::start();
    let owner = server.owner();
    owner.run(&["space", "quorum", "main", "R2=2"]).ok();
    let robin = colleague(&owner, "robin");
    let id = asked(&owner, "a");
    let first = owner.run(&["approve", &id]).exits(6);
    assert!(first.stderr.contains(&format!("◷ approved by 1 of 2 people: {id} still needs others")), "{}", first.stderr);
    let card = owner.run(&["show", &id, "-o", "table"]).ok().stdout;
    assert!(card.contains("Approvals         1 of 2\n") && card.contains("Approved by       owner, just now"), "{card}");
    let again = owner.run(&["approve", &id]).exits(7);
    assert!(!again.stderr.contains("cause:"), "{}", again.stderr);

    robin.run(&["approve", &id, "--reason", "fine"]).ok();
    let explained = owner.run(&["explain", &id, "-o", "table"]).ok().stdout;
    let explained = explained.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in ["approved by owner", "approved by robin", "answered by robin", ": “fine”"] {
        assert!(explained.contains(part), "`{part}` is missing:\n{explained}");
    }
    assert!(!explained.contains("idempotency key") && !explained.contains("params as sent"), "{explained}");
}

#[test]
fn what_is_snoozed_leaves_the_inbox_and_comes_back() {
    let server = Server::start();
    let owner = server.owner();
    let id = asked(&owner, "a");
    let hidden = owner.run(&["snooze", &id, "--for", "30m"]).ok();
    assert!(hidden.stderr.contains("! it expires before that, in "), "{hidden:?}");
    assert_eq!(owner.run(&["inbox", "-o", "name"]).ok().stdout, "");
    assert_eq!(owner.run(&["inbox", "--all", "-o", "name"]).ok().stdout.trim(), id);
    owner.run(&["snooze", &id, "--for", "0s"]).ok();
    assert_eq!(owner.run(&["inbox", "-o", "name"]).ok().stdout.trim(), id);
    owner.run(&["snooze", &id, "--for", "a while"]).exits(2);
    owner.run(&["deny", &id]).ok();
    owner.run(&["snooze", &id, "--for", "30m"]).exits(7);
}

#[test]
fn a_link_is_a_whole_address_on_this_server() {
    let server = Server::start();
    let owner = server.owner();
    let id = asked(&owner, "a");
    let link = owner.run(&["link", &id, "--expires", "5m"]).ok();
    assert!(link.stdout.starts_with(&format!("{}/answer/", server.url)), "{}", link.stdout);
    assert!(link.stderr.contains("! whoever opens it first can approve or deny as you, once, within "), "{}", link.stderr);
    let document = owner.run(&["link", &id, "--json"]).ok().json();
    assert_eq!(document["url"], json!(format!("{}{}", server.url, document["path"].as_str().unwrap())));
}

#[test]
fn a_call_is_explained_before_it_is_made() {
    let server = Server::start();
    let owner = server.owner();
    let created = owner.run(&["session", "create", "--json"]).ok().json();
    let session = created["id"].as_str().unwrap();
    let first = |user: &User, arguments: &[&str]| user.run(arguments).ok().stdout.lines().next().unwrap().to_owned();
    assert!(first(&owner, &["explain", "files.list", "--as", session]).starts_with("✓ would run: "));
    assert!(first(&owner, &["explain", "files.write_text", "--as", session]).starts_with("◷ would need approval: "));
    assert!(
        first(&owner, &["explain", "files.write_text", "--as", session, "--params", r#"{"path":1}"#]).starts_with("✗ would be refused: ")
    );
    owner.run(&["space", "quorum", "main", "R2=2"]).ok();
    assert!(first(&owner, &["explain", "files.write_text", "--as", session]).starts_with("◷ would need approval by 2 people: "));
    owner.run(&["mode", "set", "files.write_text", "deny"]).ok();
    let denied = owner.run(&["explain", "files.write_text", "--as", session]).ok().stdout;
    assert!(denied.starts_with("⊘ would be denied: "), "{denied}");
    assert!(denied.contains("rbac\tok\tbuiltin.invoke"), "{denied}");
    let document = owner.run(&["explain", "files.write_text", "--as", session, "--json=would,drift"]).ok().json();
    assert_eq!(document, json!({ "would": "denied", "drift": "none" }));

    // An agent has its own session; a person has to name one with `--as`.
    let agent = owner.with_token(created["token"].as_str().unwrap());
    assert!(first(&agent, &["explain", "files.list"]).starts_with("✓ would run: "));
    assert!(owner.run(&["explain", "files.list"]).exits(2).stderr.contains("--as"));
    assert!(owner.run(&["explain", "files.lst", "--as", session]).exits(3).stderr.contains("did you mean `files.list`?"));
    assert_eq!(owner.run(&["invocation", "list", "-o", "name"]).ok().stdout, "", "nothing was called");
}

#[test]
fn an_edit_a_grant_and_what_was_taken_out_are_told_of_an_invocation() {
    let fake = Fake::start(|_, path| {
        let body = if path.ends_with("/entries") { json!({ "items": [], "next": null }) } else { json!({ "invocation": edited() }) };
        (200, body.to_string())
    });
    let user = User::new(&std::env::temp_dir(), &fake.url, Some("token"));
    let explained = user.run(&["explain", "inv_1"]).ok().stdout;
    for row in [
        "clock\tstopped by a kill switch",
        "edit\t/text: \"x\" → \"y\"",
        "grant\tgrt_1",
        "redacted\t2 email, 1 phone",
        "params\tb",
        "params as sent\ta (an approver edited them, values were redacted)",
        "released from\tinv_0",
        "abac\terror\tno such attribute",
    ] {
        assert!(explained.lines().any(|line| line == row), "`{row}` is missing:\n{explained}");
    }
    let (record, _) = explained.split_once("\n\n").unwrap();
    assert!(!record.lines().any(|line| line.ends_with('\t')), "an empty row:\n{explained}");
}

#[test]
fn what_is_told_of_before_is_what_came_before() {
    let server = Server::start();
    let owner = server.owner();
    let (first, second, third) = (asked(&owner, "a"), asked(&owner, "b"), asked(&owner, "c"));
    owner.run(&["approve", &first]).ok();
    owner.run(&["deny", &third]).ok();
    let before = |id: &str| {
        let card = owner.run(&["show", id]).ok().stdout;
        card.lines().find_map(|line| line.strip_prefix("Earlier calls")).unwrap().trim().to_owned()
    };
    assert_eq!(before(&first), "none of this action in this session");
    assert_eq!(before(&second), "1 of 1 of this action succeeded in this session");
    assert_eq!(before(&third), "1 of 1 of this action succeeded in this session");
    // A revert does not count among the earlier calls of the action, and what a change of the mode ends does.
    owner.run(&["mode", "set", "files.write_text", "allow"]).ok();
    owner.run(&["invocation", "revert", &first, "--yes"]).ok();
    owner.run(&["mode", "set", "files.write_text", "require_approval"]).ok();
    assert_eq!(before(&asked(&owner, "d")), "1 of 3 of this action succeeded in this session");
}

fn edited() -> Value {
    let by = json!({ "by": "user:usr_1", "at": "2026-11-15T00:00:00Z", "reason": null, "mode": "once" });
    json!({
        "id": "inv_1", "status": "pending", "mode": "require_approval", "mode_source": "org_default", "action": "files.write_text",
        "source": "files", "tier": "R2", "class": "write", "session_id": "ses_1", "space_id": "spc_1", "principal": "agent:ses_1",
        "params": { "text": "y" }, "dry_run": false,
        "decision": { "mode": "require_approval", "base": "require_approval", "source": "org_default", "modes_version": 1, "tightened": [] },
        "gates": [{ "gate": "abac", "verdict": "deny", "determining": [], "errors": ["no such attribute"] }],
        "digests": { "raw": "a", "params": "b", "structural": "c", "textual": "d" }, "clock_stopped": true, "approvals": [by],
        "edit": { "by": "user:usr_1", "at": "2026-11-15T00:00:00Z", "changed": ["/text"], "proposed_params": { "text": "x" } },
        "grant_id": "grt_1", "redacted": { "email": 2, "phone": 1 }, "released_from": "inv_0",
        "attempts": 0, "created_at": "2026-11-15T00:00:00Z", "trace_id": "t",
    })
}

/// Makes a call that stays pending, and returns its id.
pub(crate) fn asked(user: &User, path: &str) -> String {
    let path = format!("path={path}");
    user.run(&["action", "invoke", "files.write_text", &path, "text=x", "--no-wait"]).exits(6).stdout.trim().to_owned()
}

/// A second admin.
pub(crate) fn colleague(owner: &User, name: &str) -> User {
    let made = owner.run(&["user", "create", name, "--role", "admin", "--json"]).ok().json();
    owner.invited(&made["invitation"])
}
