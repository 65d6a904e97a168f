//! Tests the inbox: who requested a call and why, which calls are void, and several approvals at once.

use crate::countersign::{Server, User};
use serde_json::{Value, json};

/// An agent whose session has this title.
fn agent(owner: &User, title: &str) -> User {
    let session = owner.run(&["session", "create", "--title", title, "--json"]).ok().json();
    owner.with_token(session["token"].as_str().unwrap())
}

/// Makes a call with a reason that stays pending, and returns its id.
fn asked(agent: &User, action: &str, params: &[&str], reason: &str) -> String {
    let call = [&["action", "invoke", action], params, &["--reason", reason, "--no-wait"]].concat();
    agent.run(&call).exits(6).stdout.trim().to_owned()
}

fn write(agent: &User, path: &str, reason: &str) -> String {
    asked(agent, "files.write_text", &[&format!("path={path}"), "text=x"], reason)
}

fn ids(listed: &Value) -> Vec<&str> {
    listed["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap()).collect()
}

#[test]
fn the_inbox_the_card_and_the_grants_say_which_agent_asks_and_why() {
    let server = Server::start();
    let owner = server.owner();
    let agent = agent(&owner, "release bot");
    let id = write(&agent, "a.txt", "publish the notes");
    agent.run(&["grant", "request", "files.write_text", "--calls", "3", "--reason", "three notes to write"]).exits(6);
    for columns in [60, 80, 120] {
        let inbox = owner.on_screen(columns, &["inbox"], "").ok().stdout;
        assert!(inbox.contains("release bot") && inbox.contains("publish the notes"), "{columns}: {inbox}");
        let card = owner.on_screen(columns, &["show", &id], "").ok().stdout;
        assert!(card.contains("Requested by      release bot ·") && card.contains("agent:ses_"), "{columns}: {card}");
        assert!(card.contains("Reason given      “publish the notes”"), "{columns}: {card}");
        let grants = owner.on_screen(columns, &["grant", "list"], "").ok().stdout;
        assert!(grants.contains("release bot") && grants.contains("three notes to write"), "{columns}: {grants}");
    }
    let narrow = owner.on_screen(60, &["inbox"], "").ok().stdout;
    assert!(narrow.contains("\n    requested by  release bot\n    reason given  publish the notes"), "{narrow}");
    let listed = owner.run(&["inbox", "--json"]).ok().json();
    assert_eq!(listed["items"][0]["session_title"], "release bot", "{listed:#}");
}

#[test]
fn the_inbox_is_filtered_by_session_action_and_tier() {
    let server = Server::start();
    let owner = server.owner();
    let (one, other) = (agent(&owner, "one"), agent(&owner, "other"));
    let written = write(&one, "a.txt", "x");
    std::fs::write(server.workspace().join("b.txt"), "b").unwrap();
    let deleted = asked(&other, "files.delete", &["path=b.txt"], "x");
    for (more, expected) in [
        (&["--session", "one"][..], vec![&written]),
        (&["--action", "files.delete"], vec![&deleted]),
        (&["--tier", "r3"], vec![&deleted]),
        (&["--tier", "R2", "--session", "other"], vec![]),
        (&[], vec![&written, &deleted]),
    ] {
        let listed = owner.run(&[&["inbox", "--json"], more].concat()).ok().json();
        assert_eq!(ids(&listed), expected, "{more:?}");
    }
    owner.run(&["inbox", "--tier", "R9"]).exits(8);
    assert!(owner.on_screen(80, &["inbox", "--tier", "R4"], "").ok().stdout.contains("no pending call matches"));
}

#[test]
fn a_change_of_the_rules_ends_the_pending_calls_that_it_makes_void_and_says_how_many() {
    let server = Server::start();
    let owner = server.owner();
    let agent = agent(&owner, "release bot");
    let id = write(&agent, "a.txt", "x");
    let set = owner.run(&["mode", "set", "files.write_text", "require_approval", "--json"]).ok().json();
    assert_eq!(set["voided"], 1, "{set}");
    assert_eq!(owner.run(&["inbox", "--json"]).ok().json()["items"], json!([]));
    // Whoever answers it is told the same as its requester.
    assert_eq!(owner.run(&["approve", &id, "--json"]).exits(7).error()["code"], "policy_mismatch");
    assert_eq!(owner.run(&["invocation", "show", &id, "--json"]).ok().json()["error"]["code"], "policy_mismatch");

    write(&agent, "b.txt", "x");
    let policies = server.data().join("policies.toml");
    std::fs::write(
        &policies,
        "abac = '''@id(\"abac.none\") forbid (principal, action == Countersign::Action::\"files.write_text\", resource);'''",
    )
    .unwrap();
    let set = owner.run(&["policy", "set", policies.to_str().unwrap(), "--yes"]).ok().stdout;
    assert!(set.contains("ended\t1\n"), "{set}");
    let again = owner.run(&["mode", "set", "files.write_text", "deny"]).ok().stdout;
    assert!(!again.contains("ended"), "{again}");
}

#[test]
fn what_can_be_approved_comes_before_what_is_void() {
    let server = Server::start();
    let owner = server.owner();
    let (leaving, staying) = (agent(&owner, "release bot"), agent(&owner, "other bot"));
    let void = write(&leaving, "a.txt", "x");
    let session = owner.run(&["invocation", "show", &void, "--json"]).ok().json()["session_id"].as_str().unwrap().to_owned();
    owner.run(&["session", "end", &session, "--yes"]).ok();
    let live = write(&staying, "b.txt", "x");
    assert_eq!(ids(&owner.run(&["inbox", "--json"]).ok().json()), [&live, &void]);
    let inbox = owner.on_screen(80, &["inbox"], "").ok().stdout;
    assert!(inbox.contains(&format!("countersign show {live}")) && inbox.contains(&format!("countersign deny {void}")), "{inbox}");
    assert!(inbox.contains("⊘ void") && inbox.contains("⊘ 1 call is void"), "{inbox}");
}

#[test]
fn several_approvals_name_every_r3_and_ask_and_r4_is_never_among_them() {
    let server = Server::start();
    let owner = server.owner();
    let agent = agent(&owner, "release bot");
    std::fs::write(server.workspace().join("b.txt"), "b").unwrap();
    let written = write(&agent, "a.txt", "x");
    let deleted = asked(&agent, "files.delete", &["path=b.txt"], "tidy up");
    let unasked = owner.run(&["approve", &written, &deleted]).exits(2);
    assert!(unasked.stderr.contains("2 calls: 1 × R2, 1 × R3"), "{unasked:?}");
    assert!(unasked.stderr.contains(&format!("R3  {deleted}  files.delete\n      requested by release bot\n")), "{unasked:?}");
    assert!(unasked.stderr.contains("reason given “tidy up”") && unasked.stderr.contains("--yes"), "{unasked:?}");
    let said_no = owner.on_screen(80, &["approve", &written, &deleted], "n\n").exits(1);
    assert!(said_no.stdout.contains("Approve 2 calls? [y/N]"), "{said_no:?}");
    assert!(server.workspace().join("b.txt").exists());
    owner.on_screen(80, &["approve", &written, &deleted], "y\n").ok();
    assert!(!server.workspace().join("b.txt").exists() && server.workspace().join("a.txt").exists());

    let (_fake, user) = crate::exit_codes::r4();
    let refused = user.run(&["approve", "inv_1", "inv_2", "--yes"]).exits(8);
    assert!(refused.stderr.contains("! left out: inv_1, files.wipe is R4\n1 call: 1 × R2\n"), "{refused:?}");
    assert!(refused.stderr.contains("`files.wipe` is R4, which is approved by name, one call at a time"), "{refused:?}");
    assert!(refused.stderr.contains("countersign approve inv_1 --confirm files.wipe"), "{refused:?}");
}
